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

/// Pairs `B` and `E` events by thread, in time order; events of equal time in file order.
///
/// An end closes the innermost open slice with its name, or the innermost of all if none matches or the end
/// has no name.
pub fn pair(mut events: Vec<BeginEnd>, tally: &mut Tally) -> Paired {
    events.sort_by_key(|event| (event.slice.track, event.slice.ts));
    let mut paired = Paired::default();
    let mut open: Vec<RawSlice> = Vec::new();
    for (i, event) in events.iter().enumerate() {
        if event.is_begin {
            open.push(event.slice);
        } else {
            let named = |slice: &RawSlice| event.slice.name == StringId::EMPTY || slice.name == event.slice.name;
            match open.iter().rposition(named) {
                Some(at) => {
                    let slice = open.remove(at);
                    paired.close(slice, event.slice.ts);
                }
                None => match open.pop() {
                    Some(slice) => {
                        tally.count(Reason::NameMismatch, event.slice.source);
                        paired.close(slice, event.slice.ts);
                    }
                    None => tally.count(Reason::EndWithoutBegin, event.slice.source),
                },
            }
        }
        let is_last_of_thread = events.get(i + 1).is_none_or(|next| next.slice.track != event.slice.track);
        if is_last_of_thread {
            open.drain(..).for_each(|slice| paired.leave_open(slice, tally));
        }
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
