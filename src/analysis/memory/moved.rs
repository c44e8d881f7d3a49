//! Lines of functions that two versions of a program have at different places of their files.

use std::borrow::Cow;

use hashbrown::HashMap;

use crate::analysis::frame::Frame;

/// The lines of each function and file, ascending.
type Lines<'a> = HashMap<(&'a str, &'a str), Vec<u64>>;

/// The frames of two recordings, of which the same line of the program may be at another place in the later one:
///
/// * where one recording has all lines of a function that the other has, none was moved;
/// * else, if both have as many, each is the same as that which comes as far down in the file;
/// * else it is not known which is which.
#[derive(Debug)]
pub struct MovedLines<'a>([Lines<'a>; 2]);

/// What a frame of one recording has in common with that of another.
#[derive(Debug, PartialEq, Eq, Hash)]
pub enum FrameKey<'a> {
    Name(&'a str),
    /// Function, file, and which of its lines.
    Line(&'a str, &'a str, usize),
    /// It is not known which of its lines.
    Function(&'a str, &'a str),
}

impl<'a> MovedLines<'a> {
    /// * `before`, `after`: each frame once.
    /// * Cost: O(length of frames).
    pub fn new(before: impl Iterator<Item = &'a str>, after: impl Iterator<Item = &'a str>) -> Self {
        Self([lines(before), lines(after)])
    }

    /// * `side`: 0 for a frame of the earlier recording, 1 for one of the later.
    pub fn key(&self, name: &'a str, side: usize) -> FrameKey<'a> {
        let frame = Frame::of(name);
        let key = (frame.function, frame.file);
        let [own, other] = [side, 1 - side].map(|side| self.0[side].get(&key));
        let (Some(own), Some(other), 1..) = (own, other, frame.line) else { return FrameKey::Name(name) };
        let is_part = |some: &[u64], all: &[u64]| some.iter().all(|line| all.binary_search(line).is_ok());
        match own.binary_search(&frame.line) {
            _ if is_part(own, other) || is_part(other, own) => FrameKey::Name(name),
            Ok(nth) if own.len() == other.len() => FrameKey::Line(key.0, key.1, nth),
            _ => FrameKey::Function(key.0, key.1),
        }
    }

    /// What a frame of the earlier recording is called in the later one, as far as that is known.
    pub fn later_name(&self, name: &'a str) -> Cow<'a, str> {
        let FrameKey::Line(function, file, nth) = self.key(name, 0) else { return name.into() };
        let line = self.0[1].get(&(function, file)).and_then(|lines| lines.get(nth));
        line.map_or(name.into(), |line| with_lines(name, &line.to_string()).into())
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

    #[test]
    fn lines_are_matched_in_their_order_where_both_have_as_many() {
        let before =
            ["f (/me/a.py:3)", "f (/me/a.py:9)", "g (/me/a.py:20)", "h (/me/a.py:30)", "at::mm()", "b.py(2): k"];
        let after = [
            "f (/me/a.py:9)",
            "f (/me/a.py:5)",
            "g (/me/a.py:22)",
            "g (/me/a.py:24)",
            "h (/me/a.py:30)",
            "h (/me/a.py:31)",
            "b.py(4): k",
        ];
        let moved = MovedLines::new(before.into_iter(), after.into_iter());
        let names = before.map(|name| moved.later_name(name));
        assert_eq!(names, ["f (/me/a.py:5)", before[1], before[2], before[3], before[4], "b.py(4): k"]);
        assert_eq!(moved.key(before[2], 0), moved.key(after[2], 1), "as a function");
        assert_eq!(moved.key(before[2], 0), moved.key(after[3], 1));
        assert_ne!(moved.key(before[3], 0), moved.key(after[5], 1), "nothing was moved");
    }
}
