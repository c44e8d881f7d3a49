//! The work of a device in order of time, and the calls that launched it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashSet;

use crate::model::{DurNs, ProcessId, SliceId, SliceKind, TimeNs, Trace};

/// A first launch of a kernel, or a question for its attributes, that lasts this long in nanoseconds loads its code.
pub const LOADING: DurNs = 1_000_000;

/// The API call of each correlation id.
#[derive(Debug)]
pub struct Calls {
    /// Launches that load the code of their kernel: each the first of its kernel, and long. Only Kineto of 2023 and
    /// later records the loading itself.
    pub loading: HashSet<SliceId>,
    /// By correlation id; empty if the ids are sparse.
    by_id: Vec<SliceId>,
}

/// No slice.
const NONE: SliceId = SliceId(u32::MAX);

impl Calls {
    /// Cost: O(slices).
    pub fn new(trace: &Trace) -> Self {
        let slices = &trace.slices;
        let calls = || (0..slices.len()).filter(|&i| slices.correlation[i] != 0 && slices.kind[i].is_call());
        let highest = calls().map(|i| slices.correlation[i]).max().unwrap_or(0) as usize;
        let mut by_id = Vec::new();
        if highest <= 4 * slices.len() + 1024 {
            by_id.resize(highest + 1, NONE);
            for i in calls() {
                let call = &mut by_id[slices.correlation[i] as usize];
                if *call == NONE {
                    *call = SliceId(i as u32);
                }
            }
        }
        let mut out = Self { loading: HashSet::new(), by_id };
        out.loading = out.first_launches(trace);
        out
    }

    /// The first launch of each kernel, by name, that lasts at least [`LOADING`].
    fn first_launches(&self, trace: &Trace) -> HashSet<SliceId> {
        let slices = &trace.slices;
        let mut first = vec![NONE; trace.strings.len()];
        for i in (0..slices.len()).filter(|&i| slices.kind[i] == SliceKind::Kernel) {
            let Some(call) = self.of(trace, SliceId(i as u32)) else { continue };
            let known = &mut first[slices.name[i].0 as usize];
            if *known == NONE || slices.ts[call.idx()] < slices.ts[known.idx()] {
                *known = call;
            }
        }
        first.retain(|&call| call != NONE && slices.time(call).dur() >= LOADING);
        first.into_iter().collect()
    }

    /// The call that launched some device work. Cost: O(1) for dense ids.
    pub fn of(&self, trace: &Trace, work: SliceId) -> Option<SliceId> {
        if self.by_id.is_empty() {
            return trace.launch_of(work);
        }
        let id = trace.slices.correlation[work.idx()];
        self.by_id.get(id as usize).copied().filter(|&call| call != NONE)
    }
}

/// The work of the device of `process`, by start; of what starts at once, by correlation id.
///
/// Work outside the trace's span (events with lost times) is excluded. Cost: O(n log k) for n slices in k rows.
pub fn in_order(trace: &Trace, process: ProcessId) -> impl Iterator<Item = SliceId> {
    let slices = &trace.slices;
    let is_work = move |i: usize| {
        let in_span = trace.span.start <= slices.ts[i] && slices.end[i] <= trace.span.end;
        slices.kind[i].is_device_work() && in_span
    };
    let key = move |i: usize| -> (TimeNs, u32, u32) { (slices.ts[i], slices.correlation[i], i as u32) };
    let rows = slices.rows.iter().filter(move |row| trace.track(row.track).process == process);
    let mut heads = BinaryHeap::new();
    for row in rows {
        let range = row.range();
        if let Some(first) = range.clone().find(|&i| is_work(i)) {
            heads.push(Reverse((key(first), range.end)));
        }
    }
    std::iter::from_fn(move || {
        let mut top = heads.peek_mut()?;
        let Reverse(((_, _, i), end)) = *top;
        match (i as usize + 1..end).find(|&i| is_work(i)) {
            Some(next) => top.0.0 = key(next),
            None => {
                std::collections::binary_heap::PeekMut::pop(top);
            }
        }
        Some(SliceId(i))
    })
}
