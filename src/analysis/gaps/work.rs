//! The work of a device in order of time, and the launches that load its code.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use hashbrown::HashSet;

use crate::model::{DurNs, ProcessId, SliceId, SliceKind, TimeNs, Trace, TrackId};

/// A first launch of a kernel, or a question for its attributes, that lasts this long in nanoseconds loads its code.
pub const LOADING: DurNs = 1_000_000;

/// Launches that load the code of their kernel: the first of each kernel, by name, that lasts at least `LOADING`.
/// Only Kineto of 2023 and later records the loading itself.
///
/// Cost: O(slices).
pub fn loading_launches(trace: &Trace) -> HashSet<SliceId> {
    let slices = &trace.slices;
    let mut first: Vec<Option<SliceId>> = vec![None; trace.strings.len()];
    for i in (0..slices.len()).filter(|&i| slices.kind[i] == SliceKind::Kernel) {
        let Some(call) = trace.launch_of(SliceId(i as u32)) else { continue };
        let known = &mut first[slices.name[i].0 as usize];
        if known.is_none_or(|known| slices.ts[call.idx()] < slices.ts[known.idx()]) {
            *known = Some(call);
        }
    }
    first.into_iter().flatten().filter(|&call| slices.time(call).dur() >= LOADING).collect()
}

/// The work of the device of `process` and the stream of each, by start; of what starts at once, by correlation id.
///
/// Work outside the trace's span (events with lost times) is excluded. Cost: O(n log k) for n slices in k rows.
pub fn in_order(trace: &Trace, process: ProcessId) -> impl Iterator<Item = (SliceId, TrackId)> {
    let slices = &trace.slices;
    let is_work = move |i: usize| {
        let in_span = trace.span.start <= slices.ts[i] && slices.end[i] <= trace.span.end;
        slices.kind[i].is_device_work() && in_span
    };
    let key = move |i: usize| -> (TimeNs, u32, u32) { (slices.ts[i], slices.correlation[i], i as u32) };
    let mut heads = BinaryHeap::new();
    for row in trace.rows_of(process) {
        let range = row.range();
        if let Some(first) = range.clone().find(|&i| is_work(i)) {
            heads.push(Reverse((key(first), range.end, row.track)));
        }
    }
    let mut first = heads.pop();
    std::iter::from_fn(move || {
        let Reverse(((_, _, i), end, track)) = first?;
        let next = (i as usize + 1..end).find(|&i| is_work(i)).map(|next| Reverse((key(next), end, track)));
        first = match (next, heads.peek_mut()) {
            // Work is mostly followed by that of its own row, which costs no order.
            (Some(next), Some(mut other)) if next < *other => Some(std::mem::replace(&mut *other, next)),
            (Some(next), _) => Some(next),
            (None, Some(other)) => Some(PeekMut::pop(other)),
            (None, None) => None,
        };
        Some((SliceId(i), track))
    })
}
