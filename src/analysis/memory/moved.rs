//! Lines of functions that two versions of a program have at different places of their files.

use std::borrow::Cow;

use hashbrown::HashMap;

use crate::analysis::frame::Frame;

/// Lines of a function that are compared with each other; generated code may have any number.
const MOST_LINES: usize = 2_000;

/// The lines of each function and file, ascending.
type Lines<'a> = HashMap<(&'a str, &'a str), Vec<u64>>;

/// The frames of two recordings, of which the same line of the program may be at another place in the later one. Of a
/// function that both have, the first of these that holds:
///
/// * if one has all lines that the other has, none was moved;
/// * if one has all lines that the other has, two at least, so many lines further up or down, all were moved by that;
/// * if both have as many, each is the same as that which comes as far down in the file;
/// * else it is not known which is which.
#[derive(Debug)]
pub struct MovedLines<'a> {
    moves: HashMap<(&'a str, &'a str), Move>,
}

/// Where the lines of a function are in the later recording.
#[derive(Debug)]
enum Move {
    By(i64),
    /// Those of the earlier recording, and those of the later one.
    InOrder(Vec<u64>, Vec<u64>),
    Unknown,
}

/// What a frame of one recording has in common with that of another.
#[derive(Debug, PartialEq, Eq, Hash)]
pub enum FrameKey<'a> {
    Name(&'a str),
    /// Function, file, and line in the later recording.
    Line(&'a str, &'a str, u64),
    /// It is not known which of its lines.
    Function(&'a str, &'a str),
}

impl<'a> MovedLines<'a> {
    /// * `before`, `after`: each frame once.
    /// * Cost: O(length of frames), and for each function O(n² · log n) for its n lines, up to 2,000 of them.
    pub fn new(before: impl Iterator<Item = &'a str>, after: impl Iterator<Item = &'a str>) -> Self {
        let mut after = lines(after);
        let moves = lines(before).into_iter();
        let moves = moves.filter_map(|(key, before)| Some((key, Move::of(before, after.remove(&key)?))));
        Self { moves: moves.collect() }
    }

    /// * `side`: 0 for a frame of the earlier recording, 1 for one of the later.
    pub fn key(&self, name: &'a str, side: usize) -> FrameKey<'a> {
        let Frame { function, file, line } = Frame::of(name);
        let known = self.moves.get(&(function, file)).filter(|_| line > 0);
        match known {
            None => FrameKey::Name(name),
            Some(Move::Unknown) => FrameKey::Function(function, file),
            Some(moved) => FrameKey::Line(function, file, if side == 0 { moved.later(line) } else { line }),
        }
    }

    /// What a frame of the earlier recording is called in the later one, as far as that is known.
    pub fn later_name(&self, name: &'a str) -> Cow<'a, str> {
        match self.key(name, 0) {
            FrameKey::Line(.., line) if line != Frame::of(name).line => with_lines(name, &line.to_string()).into(),
            _ => name.into(),
        }
    }
}

impl Move {
    fn of(before: Vec<u64>, after: Vec<u64>) -> Self {
        let by = |lines: i64| {
            let is_part = |some: &[u64], all: &[u64], lines: i64| {
                some.iter().all(|line| all.binary_search(&line.saturating_add_signed(lines)).is_ok())
            };
            is_part(&before, &after, lines) || is_part(&after, &before, lines.wrapping_neg())
        };
        let n_lines = before.len() + after.len();
        let is_told = before.len().min(after.len()) > 1 && n_lines <= MOST_LINES;
        // The first line of one is some line of the other.
        let distance = |from: u64, to: u64| to.cast_signed().wrapping_sub(from.cast_signed());
        let down = after.iter().map(|&to| distance(before[0], to));
        let up = before.iter().map(|&from| distance(from, after[0]));
        let mut distances: Vec<i64> = down.chain(up).filter(|_| is_told).collect();
        distances.sort_by_key(|lines| lines.unsigned_abs());
        match std::iter::once(0).chain(distances).find(|&lines| by(lines)) {
            Some(lines) => Self::By(lines),
            None if before.len() == after.len() => Self::InOrder(before, after),
            None => Self::Unknown,
        }
    }

    fn later(&self, line: u64) -> u64 {
        match self {
            Self::By(lines) => line.saturating_add_signed(*lines),
            Self::InOrder(before, after) => before.binary_search(&line).map_or(line, |nth| after[nth]),
            Self::Unknown => line,
        }
    }
}

fn lines<'a>(frames: impl Iterator<Item = &'a str>) -> Lines<'a> {
    let mut found = Lines::new();
    for frame in frames.map(Frame::of).filter(|frame| frame.line > 0) {
        found.entry((frame.function, frame.file)).or_default().push(frame.line);
    }
    found.values_mut().for_each(|lines| lines.sort_unstable());
    found
}

/// The name of a frame with other lines in place of its own.
pub fn with_lines(name: &str, lines: &str) -> String {
    let Frame { function, file, .. } = Frame::of(name);
    if name.ends_with(')') { format!("{function} ({file}:{lines})") } else { format!("{file}({lines}): {function}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What these lines of a function are in the other recording; 0 where it is not known.
    fn later(before: &[u64], after: &[u64]) -> Vec<u64> {
        let [before, after] = [before, after].map(|lines| {
            let names = lines.iter().map(|line| format!("f (/me/a.py:{line})"));
            names.collect::<Vec<_>>()
        });
        let moved = MovedLines::new(before.iter().map(String::as_str), after.iter().map(String::as_str));
        let line = |name: &String| match moved.key(name, 0) {
            FrameKey::Line("f", "/me/a.py", line) => {
                assert_eq!(moved.later_name(name), format!("f (/me/a.py:{line})"));
                line
            }
            FrameKey::Function("f", "/me/a.py") => 0,
            other => panic!("{other:?}"),
        };
        before.iter().map(line).collect()
    }

    #[test]
    fn lines_are_found_where_they_were_moved() {
        assert_eq!(later(&[3, 9], &[3, 9]), [3, 9]);
        assert_eq!(later(&[9], &[3, 9, 12]), [9], "none was moved");
        assert_eq!(later(&[3, 9], &[8, 14, 20]), [8, 14], "by five");
        assert_eq!(later(&[3, 9, 11], &[1, 7]), [1, 7, 9], "by two, and one is gone");
        assert_eq!(later(&[3, 9], &[5, 14]), [5, 14], "in their order");
        assert_eq!(later(&[40], &[43]), [43]);
        assert_eq!(later(&[40], &[43, 45]), [0], "one line alone fits anywhere");
        assert_eq!(later(&[3, 9, 11], &[4, 30]), [0; 3]);
    }

    #[test]
    fn frames_without_lines_and_functions_of_one_recording_keep_their_names() {
        let moved = MovedLines::new(
            ["at::mm()", "b.py(2): k", "lost (a.py:1)", "f (a.cpp:0)"].into_iter(),
            ["b.py(4): k", "f (a.cpp:0)"].into_iter(),
        );
        for name in ["at::mm()", "lost (a.py:1)", "f (a.cpp:0)"] {
            assert_eq!((moved.key(name, 0), &*moved.later_name(name)), (FrameKey::Name(name), name));
        }
        assert_eq!(moved.later_name("b.py(2): k"), "b.py(4): k");
        assert_eq!(moved.key("b.py(2): k", 0), moved.key("b.py(4): k", 1));
    }
}
