//! What places have more or less of at one moment than at another, which may be of another recording.

use std::borrow::Cow;
use std::cmp::Reverse;

use hashbrown::{HashMap, HashSet};

use super::{Holder, Place, Places};
use crate::analysis::frame::Frame;
use crate::analysis::memory::moved::{MovedLines, with_lines};
use crate::model::{MemoryHistory, StringId};

/// A state of a history, with its places.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    pub places: Places<'a>,
    pub history: &'a MemoryHistory,
    pub state: u32,
}

/// What a place has more or less of.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    /// The places of which one names it: those of the later moment if it has the place.
    pub places: Places<'a>,
    pub holder: Holder,
    /// The places of both moments that it stands for: several are lines of one function.
    pub of: [Vec<Place>; 2],
    /// The lines of its function at both moments, ascending.
    lines: [Vec<u64>; 2],
}

impl Change<'_> {
    /// What the place is called, with the lines of both recordings where they differ: `step (train.py:12, before 9)`.
    pub fn name(&self) -> Cow<'_, str> {
        let (before, now) = (&self.lines[0], &self.lines[1]);
        let text = |lines: &[u64]| lines.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let lines = match (before.as_slice(), now.as_slice()) {
            ([_], []) | ([], [_]) => return self.places.full_name(self.holder.place),
            (before, now) if before == now && now.len() == 1 => return self.places.full_name(self.holder.place),
            (lines, []) | ([], lines) => text(lines),
            (before, now) if before == now => text(now),
            (before, now) => format!("{}, before {}", text(now), text(before)),
        };
        let name = with_lines(self.places.name(self.holder.place), &lines);
        Cow::from(name + &self.places.beside(self.holder.place))
    }

    /// Of several places the one that comes first in the file names all.
    fn put_in_order(&mut self) {
        for lines in &mut self.lines {
            lines.sort_unstable();
            lines.dedup();
        }
        let line = |place: &&Place| (Frame::of(self.places.name(**place)).line, **place);
        let of = if self.of[1].is_empty() { &self.of[0] } else { &self.of[1] };
        self.holder.place = of.iter().min_by_key(line).copied().unwrap_or(self.holder.place);
    }
}

/// What each place has more or less of at one moment than at another: the largest change first. The moments may be of
/// two recordings. The changes sum to that of allocated bytes, the shares of gains to 1, and those of losses. Places
/// that are the same in both are left out.
///
/// Places of one name are one. So are the lines of a function that another version of the program has elsewhere, see
/// [`MovedLines`]; where it is not known which is which, all lines of the function are one place.
///
/// Cost: twice that of [`Places::held`], and O(stacks).
pub fn changes<'a>(from: At<'a>, to: At<'a>) -> Vec<Change<'a>> {
    let moved = MovedLines::new(frames(&from.places), frames(&to.places));
    let mut index = HashMap::new();
    let mut found: Vec<Change<'a>> = Vec::new();
    for (side, At { places, history, state }) in [(1, to), (0, from)] {
        for (place, held) in places.sums(history, state) {
            let key = |name| moved.key(name, side);
            let key = (std::mem::discriminant(&place), key(places.name(place)), places.other(place).map(key));
            let at = *index.entry(key).or_insert(found.len());
            if at == found.len() {
                let (of, lines) = (Default::default(), Default::default());
                found.push(Change { places, holder: Holder::new(place), of, lines });
            }
            let change = &mut found[at];
            let holder = &mut change.holder;
            let sum = if side == 0 { &mut holder.base } else { &mut holder.held };
            sum.bytes += held.bytes;
            sum.blocks += held.blocks;
            change.of[side].push(place);
            change.lines[side].push(Frame::of(places.name(place)).line);
        }
    }
    found.retain(|change| change.holder.held != change.holder.base);
    found.iter_mut().for_each(Change::put_in_order);
    with_shares(&mut found);
    let order = |change: &Change<'a>| {
        let bytes = change.holder.change();
        (Reverse((bytes.unsigned_abs(), bytes)), change.places.name(change.holder.place))
    };
    found.sort_unstable_by(|a, b| order(a).cmp(&order(b)).then(a.holder.place.cmp(&b.holder.place)));
    found
}

fn with_shares(found: &mut [Change<'_>]) {
    let total = |is_gain: bool| {
        let changes = found.iter().map(|change| change.holder.change()).filter(|&change| (change > 0) == is_gain);
        changes.map(i64::unsigned_abs).sum::<u64>().max(1) as f64
    };
    let (gained, lost) = (total(true), total(false));
    for holder in found.iter_mut().map(|change| &mut change.holder) {
        let change = holder.change();
        holder.share = change.unsigned_abs() as f64 / if change > 0 { gained } else { lost };
    }
}

/// The frames that name the places of a recording.
fn frames<'a>(places: &Places<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    let frames: HashSet<StringId> = places.of_stack.iter().flat_map(|place| place.frames()).flatten().collect();
    let strings = &places.trace.strings;
    frames.into_iter().map(|frame| strings.get(frame))
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::{Script, history};
    use super::super::super::labels::stack_labels;
    use super::super::stack_places;
    use super::*;
    use crate::model::{StackId, Trace};

    #[test]
    fn changes_of_one_place_for_several_callers_stay_apart() {
        let mut script = Script::default();
        let frames = ["new (/me/pool.py:1)", "load (/me/a.py:2)", "save (/me/b.py:3)"];
        for (addr, bytes, caller) in [(0x1000, 1024, 1), (0x2000, 512, 2)] {
            let stack = script.stack(&[frames[0], frames[caller]]);
            script.alloc(addr, bytes, stack);
        }
        let trace = script.finish();
        let place = |stack: usize| match trace.stacks.frames(StackId(stack as u32)).collect::<Vec<_>>()[..] {
            [frame, caller] => Place::Called(frame, caller),
            _ => Place::NoStack,
        };
        let of_stack: Vec<Place> = (0..trace.stacks.len()).map(place).collect();
        let history = history(&trace);
        let places = Places { trace: &trace, of_stack: &of_stack };
        let at = |state| At { places, history, state };
        let all = changes(at(0), at(history.last_state()));
        let all: Vec<_> = all.iter().map(|one| (one.name(), one.holder.change())).collect();
        let from = |caller: &str| std::borrow::Cow::from(format!("{}; from {caller}", frames[0]));
        assert_eq!(all, [(from(frames[1]), 1024), (from(frames[2]), 512)]);
    }

    /// A recording that holds memory at these places, after other strings, so that the ids of two recordings differ.
    fn recording(others: &[&str], held: &[(&[&str], u64)]) -> Trace {
        let mut script = Script::default();
        others.iter().for_each(|other| _ = script.stack(&[other]));
        for (i, &(frames, bytes)) in held.iter().enumerate() {
            let stack = script.stack(frames);
            script.alloc((i as u64) << 20, bytes, stack);
        }
        script.finish()
    }

    /// The changes from the end of one recording to that of another.
    fn between(before: &Trace, after: &Trace) -> Vec<(String, i64, f64)> {
        let [before_of, after_of] = [before, after].map(|trace| stack_places(trace, Some(&stack_labels(trace))));
        let at = |trace, of_stack| {
            let history = history(trace);
            At { places: Places { trace, of_stack }, history, state: history.last_state() }
        };
        let found = changes(at(before, &before_of), at(after, &after_of));
        found.iter().map(|one| (one.name().into_owned(), one.holder.change(), one.holder.share)).collect()
    }

    #[test]
    fn places_of_two_recordings_are_one_where_their_names_are() {
        let [step, load, cache] = ["step (/me/a.py:9)", "load (/me/a.py:4)", "cache (/me/a.py:7)"];
        let before = recording(&[], &[(&[step], 1024), (&[load], 4096)]);
        let others = ["x (/me/x.py:1)", "y (/me/y.py:1)"];
        let after = recording(&others, &[(&[cache], 2048), (&[step], 1024), (&[step], 512)]);
        let expected = [(load, -4096, 1.0), (cache, 2048, 0.8), (step, 512, 0.2)];
        assert_eq!(between(&before, &after), expected.map(|(name, change, share)| (name.to_owned(), change, share)));
    }

    #[test]
    fn lines_that_moved_are_one_place_with_both_lines() {
        // `step` and a method moved, each as a whole; the top level has one line more, of which none is known to be which.
        let before = recording(
            &[],
            &[
                (&["step (/me/a.py:9)"], 1024),
                (&["forward (/me/net.py:10)"], 4096),
                (&["forward (/me/net.py:20)"], 8192),
                (&["<module> (/me/a.py:40)"], 2048),
                (&["train.py(3): main"], 512),
                (&["load (/me/a.py:70)"], 512),
            ],
        );
        let after = recording(
            &["x (/me/x.py:1)"],
            &[
                (&["step (/me/a.py:12)"], 1536),
                (&["forward (/me/net.py:23)"], 8192),
                (&["forward (/me/net.py:13)"], 20480),
                (&["<module> (/me/a.py:43)"], 2048),
                (&["<module> (/me/a.py:45)"], 1024),
                (&["train.py(5): main"], 2560),
                (&["save (/me/a.py:70)"], 1024),
            ],
        );
        let of = |(name, change, _): (String, i64, f64)| (name, change);
        let found: Vec<_> = between(&before, &after).into_iter().map(of).collect();
        let expected = [
            ("forward (/me/net.py:13, before 10)", 16384),
            ("train.py(5, before 3): main", 2048),
            ("<module> (/me/a.py:43, 45, before 40)", 1024),
            ("save (/me/a.py:70)", 1024),
            ("step (/me/a.py:12, before 9)", 512),
            ("load (/me/a.py:70)", -512),
        ];
        assert_eq!(found, expected.map(|(name, change)| (name.to_owned(), change)));
    }

    #[test]
    fn lines_that_only_one_recording_has_move_none() {
        // The longer recording of the same program.
        let lines = ["f (/me/a.py:1)", "f (/me/a.py:2)", "f (/me/a.py:3)"];
        let before = recording(&[], &[(&[lines[0]], 512), (&[lines[2]], 512)]);
        let after = recording(&[], &[(&[lines[0]], 2048), (&[lines[1]], 1024), (&[lines[2]], 1024)]);
        let found: Vec<_> = between(&before, &after).into_iter().map(|(name, change, _)| (name, change)).collect();
        assert_eq!(found, [(lines[0].to_owned(), 1536), (lines[1].to_owned(), 1024), (lines[2].to_owned(), 512)]);
    }
}
