//! Pairs begin and end events.

use std::collections::HashMap;

use crate::model::{InstantTable, RawSlice, RawSlices, SliceKind, StringId};

use super::batch::{AsyncEvent, AsyncPhase, BeginEnd};
use super::tally::{Reason, Tally};

/// Slices made of begin and end events.
#[derive(Debug, Default)]
pub struct Paired {
    pub slices: RawSlices,
    /// End events merged into their slices.
    pub n_ends: u64,
    /// Sources of slices without an end event.
    pub unfinished: Vec<u64>,
}

impl Paired {
    fn close(&mut self, mut slice: RawSlice, end: i64) {
        slice.end = end.max(slice.ts);
        self.slices.push(slice);
        self.n_ends += 1;
    }

    fn leave_open(&mut self, slice: RawSlice, tally: &mut Tally) {
        tally.count(Reason::NeverEnded, slice.source);
        self.unfinished.push(slice.source);
        self.slices.push(slice);
    }
}

/// The open slices of one thread, innermost last.
#[derive(Default)]
struct Open {
    /// Those that were ended before a slice within them are `None`; the last one never is.
    slices: Vec<Option<RawSlice>>,
    /// Places of the slices of each name.
    by_name: HashMap<StringId, Vec<u32>>,
}

impl Open {
    fn push(&mut self, slice: RawSlice) {
        self.by_name.entry(slice.name).or_default().push(self.slices.len() as u32);
        self.slices.push(Some(slice));
    }

    /// Takes the innermost slice.
    fn pop(&mut self) -> Option<RawSlice> {
        let name = self.slices.last()?.as_ref()?.name;
        self.pop_named(name)
    }

    /// Takes the innermost slice with this name.
    fn pop_named(&mut self, name: StringId) -> Option<RawSlice> {
        let at = self.by_name.get_mut(&name)?.pop()?;
        let slice = self.slices[at as usize].take();
        while self.slices.last().is_some_and(Option::is_none) {
            self.slices.pop();
        }
        slice
    }
}

/// Pairs `B` and `E` events by thread, in time order; events of equal time in file order. Linear, but for sorting.
///
/// An end closes the innermost open slice with its name, or the innermost of all if none matches or the end
/// has no name.
pub fn pair(mut events: Vec<BeginEnd>, tally: &mut Tally) -> Paired {
    events.sort_by_key(|event| (event.slice.track, event.slice.ts));
    let mut paired = Paired::default();
    for thread in events.chunk_by(|a, b| a.slice.track == b.slice.track) {
        let mut open = Open::default();
        for event in thread {
            if event.is_begin {
                open.push(event.slice);
                continue;
            }
            let is_named = event.slice.name != StringId::EMPTY;
            let named = if is_named { open.pop_named(event.slice.name) } else { None };
            tally.add_at(
                Reason::NameMismatch,
                u64::from(is_named && named.is_none() && !open.slices.is_empty()),
                event.slice.source,
            );
            match named.or_else(|| open.pop()) {
                Some(slice) => paired.close(slice, event.slice.ts),
                None => tally.count(Reason::EndWithoutBegin, event.slice.source),
            }
        }
        open.slices.into_iter().flatten().for_each(|slice| paired.leave_open(slice, tally));
    }
    paired
}

/// Pairs asynchronous begins and ends by track, id and, for legacy events, name; steps go to
/// `instants`.
pub fn pair_asyncs(mut events: Vec<AsyncEvent>, tally: &mut Tally, instants: &mut InstantTable) -> Paired {
    events.sort_by_key(|event| event.ts);
    let mut paired = Paired::default();
    let mut open: HashMap<(u32, u64, StringId), Vec<RawSlice>> = HashMap::new();
    for event in events {
        let AsyncEvent { track, name, ts, source, .. } = event;
        let key = (track.0, event.id, if event.is_legacy { name } else { StringId::EMPTY });
        match event.phase {
            AsyncPhase::Instant => {
                instants.ts.push(ts);
                instants.name.push(name);
                instants.track.push(track);
                instants.source.push(source);
            }
            AsyncPhase::Begin => {
                let kind = SliceKind::Other;
                let slice = RawSlice { ts, end: ts, name, kind, track, source, ..Default::default() };
                open.entry(key).or_default().push(slice);
            }
            AsyncPhase::End => match open.get_mut(&key).and_then(Vec::pop) {
                Some(slice) => paired.close(slice, ts),
                None => tally.count(Reason::AsyncEndWithoutBegin, source),
            },
        }
    }
    let mut left: Vec<RawSlice> = open.into_values().flatten().collect();
    left.sort_by_key(|slice| slice.source);
    left.into_iter().for_each(|slice| paired.leave_open(slice, tally));
    paired
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events as (`B` or `E`, name, ts); the answer as (name, start, end).
    fn check(events: &[(char, u32, i64)], expected: &[(u32, i64, i64)], n_rejected: u64) {
        let events = events.iter().enumerate().map(|(i, &(phase, name, ts))| {
            let slice = RawSlice { ts, end: ts, name: StringId(name), source: i as u64, ..Default::default() };
            BeginEnd { is_begin: phase == 'B', slice }
        });
        let mut tally = Tally::default();
        let paired = pair(events.collect(), &mut tally);
        let slices = &paired.slices;
        let found: Vec<_> = (0..slices.len()).map(|i| (slices.name[i].0, slices.ts[i], slices.end[i])).collect();
        assert_eq!(found, expected);
        assert_eq!(tally.n_rejected(), n_rejected);
    }

    #[test]
    fn ends_close_the_innermost() {
        check(&[('B', 1, 0), ('B', 2, 5), ('E', 0, 7), ('E', 0, 9)], &[(2, 5, 7), (1, 0, 9)], 0);
    }

    #[test]
    fn ends_close_the_slice_of_their_name() {
        check(&[('B', 1, 0), ('B', 2, 5), ('E', 1, 7), ('E', 2, 9)], &[(1, 0, 7), (2, 5, 9)], 0);
        check(&[('B', 1, 0), ('E', 9, 7)], &[(1, 0, 7)], 0);
    }

    #[test]
    fn odd_ones_are_counted() {
        check(&[('E', 1, 0)], &[], 1);
        check(&[('B', 1, 3)], &[(1, 3, 3)], 0);
    }

    #[test]
    fn file_order_does_not_matter_across_times() {
        check(&[('E', 0, 9), ('B', 1, 0)], &[(1, 0, 9)], 0);
    }
}
