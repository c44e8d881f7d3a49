//! Operators in which the caching allocator makes room: a request fails, it frees what it keeps, and asks again.

use hashbrown::HashMap;

use crate::analysis::gaps::{allocates_memory, frees_memory, launches_work};
use crate::model::{SliceId, SliceKind, Trace};

/// Which operators make room, each judged once.
#[derive(Debug)]
pub struct Room<'a> {
    trace: &'a Trace,
    known: HashMap<SliceId, bool>,
}

impl<'a> Room<'a> {
    pub fn new(trace: &'a Trace) -> Self {
        Self { trace, known: HashMap::new() }
    }

    /// Whether a call lies in such an operator, the innermost around it. Amortized cost: O(depth).
    pub fn is_made_around(&mut self, call: SliceId) -> bool {
        let slices = &self.trace.slices;
        let around = std::iter::once(call).chain(slices.ancestors(call));
        let Some(operator) = around.into_iter().find(|slice| slices.kind[slice.idx()] == SliceKind::Operator) else {
            return false;
        };
        *self.known.entry(operator).or_insert_with(|| makes_room(self.trace, operator))
    }
}

/// Whether inside a slice memory is allocated, freed and allocated again, and nothing is launched meanwhile. Without a
/// caching allocator an operator frees what it needed for a kernel, which it launches first.
fn makes_room(trace: &Trace, operator: SliceId) -> bool {
    let slices = &trace.slices;
    let mut calls: Vec<SliceId> = slices.inside(operator).map(|i| SliceId(i as u32)).collect();
    calls.retain(|call| slices.kind[call.idx()].is_call());
    calls.sort_unstable_by_key(|call| slices.ts[call.idx()]);
    // 1 after memory was allocated, 2 after it was freed then.
    let mut stage = 0;
    for call in calls {
        stage = match stage {
            _ if launches_work(trace.slice_name(call)) => 0,
            2 if allocates_memory(trace, call) => return true,
            1 | 2 if frees_memory(trace, call) => 2,
            0 if allocates_memory(trace, call) => 1,
            _ => stage,
        };
    }
    false
}
