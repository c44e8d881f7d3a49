//! Places in which the caching allocator frees its cache and retries after a failed request.

use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;

use crate::analysis::host_roles::{allocates_memory, frees_memory, launches_work};
use crate::model::{SliceId, SliceKind, TimeNs, TimeRange, Trace, TrackId};

/// Without operators, so many calls in a row that free are the allocator's: it gives back all that it keeps.
const BURST: usize = 3;

/// Which operators make room, and without operators which stretches between two launches, each judged once.
#[derive(Debug)]
pub struct Room<'a> {
    trace: &'a Trace,
    known: HashMap<SliceId, bool>,
    stretches: &'a Stretches,
    effects: Effects,
}

/// Where the allocator makes room on threads without operators, ascending; found once for all who ask at once.
#[derive(Debug, Default)]
pub struct Stretches(Mutex<HashMap<TrackId, Vec<(TimeNs, TimeNs)>>>);

/// What a call does, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Launches,
    Frees,
    Allocates,
    Other,
}

/// The effect of calls by the number of their name, each judged once: there are millions of calls, and few names. Empty
/// until one is asked for: most devices never are.
#[derive(Debug, Default)]
pub(super) struct Effects(Vec<Option<Effect>>);

impl Effects {
    fn of(&mut self, trace: &Trace, slice: SliceId) -> Effect {
        if !trace.slices.kind[slice.idx()].is_call() {
            return Effect::Other;
        }
        if self.0.is_empty() {
            self.0 = vec![None; trace.strings.len()];
        }
        *self.0[trace.slices.name[slice.idx()].0 as usize].get_or_insert_with(|| effect_of(trace, slice))
    }
}

impl Effects {
    /// The same of device memory that a call allocates or frees at once: neither the host's, nor in the order of a stream.
    pub(super) fn on_device(&mut self, trace: &Trace, slice: SliceId) -> Effect {
        match self.of(trace, slice) {
            Effect::Frees | Effect::Allocates if is_of_host_or_stream(trace.slice_name(slice)) => Effect::Other,
            effect => effect,
        }
    }
}

fn is_of_host_or_stream(call: &str) -> bool {
    call.contains("Host") || call.contains("Async")
}

impl<'a> Room<'a> {
    pub fn new(trace: &'a Trace, stretches: &'a Stretches) -> Self {
        Self { trace, known: HashMap::new(), stretches, effects: Effects::default() }
    }

    /// Whether a call lies in such an operator, the innermost around it, or in such a stretch. Amortized cost:
    /// O(depth), and O(n log n) for the n slices of a thread without operators around its calls.
    pub fn is_made_around(&mut self, call: SliceId) -> bool {
        let (trace, effects) = (self.trace, &mut self.effects);
        let slices = &trace.slices;
        let around = std::iter::once(call).chain(slices.ancestors(call));
        let Some(operator) = around.into_iter().find(|slice| slices.kind[slice.idx()] == SliceKind::Operator) else {
            let thread = slices.track_of(call);
            let mut known = self.stretches.0.lock().unwrap_or_else(PoisonError::into_inner);
            let stretches = known.entry(thread).or_insert_with(|| stretches(trace, thread, effects));
            let ts = slices.ts[call.idx()];
            return stretches
                .get(stretches.partition_point(|&(_, end)| end < ts))
                .is_some_and(|&(start, _)| start <= ts);
        };
        *self.known.entry(operator).or_insert_with(|| {
            let inside = slices.inside(operator).map(|i| SliceId(i as u32));
            !requests(trace, (slices.track_of(operator), inside), 1, effects).is_empty()
        })
    }
}

/// From the request that failed to the one that succeeded, for each time that a thread made room.
fn stretches(trace: &Trace, thread: TrackId, effects: &mut Effects) -> Vec<(TimeNs, TimeNs)> {
    let slices = trace.track_slices(thread).map(|i| SliceId(i as u32));
    let found = requests(trace, (thread, slices), BURST, effects);
    found.into_iter().map(|[first, last]| (trace.slices.ts[first.idx()], trace.slices.end[last.idx()])).collect()
}

/// The first and the last call of each time that memory is allocated, freed and allocated again, and nothing is
/// launched meanwhile. Without a caching allocator an operator frees what it needed for a kernel, which it launches
/// first.
///
/// * `least`: how many calls in a row free.
fn requests(
    trace: &Trace,
    (thread, slices): (TrackId, impl Iterator<Item = SliceId>),
    least: usize,
    effects: &mut Effects,
) -> Vec<[SliceId; 2]> {
    let with_effect = slices.map(|slice| (slice, effects.of(trace, slice)));
    // Nearly all calls launch: where they do is looked up between others.
    let is_wanted = |&(_, effect): &(SliceId, Effect)| matches!(effect, Effect::Frees | Effect::Allocates);
    let mut calls: Vec<(SliceId, Effect)> = with_effect.filter(is_wanted).collect();
    if !calls.iter().any(|&(_, effect)| effect == Effect::Frees) {
        return Vec::new();
    }
    let ts = |call: SliceId| trace.slices.ts[call.idx()];
    calls.sort_by_key(|&(call, _)| ts(call));
    let mut out = Vec::new();
    // The last call that allocated since a launch, how many freed since, and the last of both.
    let (mut request, mut freed, mut last) = (None, 0, None);
    for (call, effect) in calls {
        if let Some(last) = last.replace(ts(call))
            && request.is_some()
            && launches_within(trace, thread, TimeRange { start: last, end: ts(call) }, effects)
        {
            (request, freed) = (None, 0);
        }
        if effect == Effect::Frees {
            freed += 1;
        } else {
            out.extend(request.filter(|_| freed >= least).map(|request| [request, call]));
            (request, freed) = (Some(call), 0);
        }
    }
    out
}

/// Whether a call that begins in some time on a thread launches. Cost: O(rows · log n + calls before the first that
/// does).
fn launches_within(trace: &Trace, thread: TrackId, time: TimeRange, effects: &mut Effects) -> bool {
    let slices = &trace.slices;
    trace.rows(thread).iter().any(|row| {
        let range = row.range();
        let first = range.start + slices.ts[range.clone()].partition_point(|&ts| ts < time.start);
        let mut begun = (first..range.end).take_while(|&i| slices.ts[i] < time.end);
        begun.any(|i| effects.of(trace, SliceId(i as u32)) == Effect::Launches)
    })
}

fn effect_of(trace: &Trace, call: SliceId) -> Effect {
    if launches_work(trace.slice_name(call)) {
        Effect::Launches
    } else if frees_memory(trace, call) {
        Effect::Frees
    } else if allocates_memory(trace, call) {
        Effect::Allocates
    } else {
        Effect::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    /// Whether room is made around the first call that frees, inside an operator or without one. Calls of a
    /// microsecond.
    fn is_made(calls: &str, has_operator: bool) -> bool {
        let names: Vec<String> = calls.split(' ').map(|call| format!("cuda{call}")).collect();
        let calls = (0..).zip(&names).map(|(i, name)| ("main", SliceKind::Runtime, name.as_str(), 10 * i, 10 * i + 9));
        let operator = has_operator.then_some(("main", SliceKind::Operator, "aten::empty", 0, 10 * names.len() as i64));
        let slices: Vec<_> = operator.into_iter().chain(calls).collect();
        let trace = TraceBuilder::from_slices(&slices).finish();
        let free = (0..slices.len() as u32).map(SliceId).find(|&slice| frees_memory(&trace, slice)).unwrap();
        Room::new(&trace, &Stretches::default()).is_made_around(free)
    }

    #[test]
    fn room_is_made_where_memory_is_freed_between_two_requests() {
        assert!(is_made("Malloc Free Malloc", true));
        assert!(is_made("Malloc StreamSynchronize Free Free Malloc LaunchKernel", true));
        assert!(!is_made("Malloc Free", true), "nothing is asked for again");
        assert!(!is_made("Free Malloc", true), "nothing was asked for before");
        assert!(!is_made("Malloc LaunchKernel Free Malloc", true), "the workspace of a kernel");
        assert!(!is_made("Malloc Free LaunchKernel Malloc", true));
        assert!(!is_made("HostRegister Free HostRegister", true), "allocates nothing");
    }

    #[test]
    fn without_operators_the_allocator_frees_many_blocks_in_a_row() {
        assert!(is_made("LaunchKernel Malloc Free Free Free Malloc LaunchKernel", false));
        assert!(!is_made("Malloc Free Free Malloc", false), "two buffers of a program");
        assert!(!is_made("Malloc Free Malloc Free Malloc Free Malloc", false));
        assert!(!is_made("Malloc LaunchKernel Free Free Free Malloc", false));
        assert!(!is_made("Free Free Free Malloc", false));
        // Before the request that failed, and after the one that succeeded.
        assert!(!is_made("Free LaunchKernel Malloc Free Free Free Malloc", false));
    }
}
