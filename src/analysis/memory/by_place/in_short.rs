//! Who holds the memory, in short: the first place, and what waits to be free.

use hashbrown::HashMap;

use super::{Holder, Largest, Place, Places};
use crate::analysis::memory::live::{LiveUntil, live};
use crate::analysis::memory::summary::fullest_state;
use crate::model::MemoryHistory;

/// Share of what blocks occupy from which those that were freed but await a stream are worth a word.
const WORTH_A_WORD: f64 = 0.01;

/// What holds most of a memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// At the peak of what is allocated, at the end where none is known.
    pub largest: Option<Largest>,
    pub awaiting: Option<Awaiting>,
}

/// Blocks that the program freed, but that another stream may still use (`Tensor.record_stream`): nothing can reuse them
/// until it has passed that point. In bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaiting {
    /// The most that blocks occupied, these included.
    pub peak: u64,
    /// What blocks occupied at the end, these included, and these alone.
    pub end: u64,
    pub at_end: u64,
    /// Where most of them were allocated: of those at the end, of those at the peak where none await a stream at the end.
    pub largest: Largest,
}

impl Places<'_> {
    /// What holds most. Cost: O(blocks + places).
    pub fn in_short(&self, history: &MemoryHistory) -> Holders {
        Holders { largest: self.largest(history, fullest_state(history)), awaiting: self.awaiting(history) }
    }

    /// `None` if too little ever waits to matter.
    fn awaiting(&self, history: &MemoryHistory) -> Option<Awaiting> {
        let curves = &history.curves;
        let at = |state: u32| {
            let active = curves.active.get(state as usize).copied().unwrap_or_default();
            let allocated = curves.allocated.get(state as usize).copied().unwrap_or_default();
            (active, active.saturating_sub(allocated))
        };
        let (highest, last) = (curves.highest().0, history.last_state());
        let ((peak, at_peak), (end, at_end)) = (at(highest), at(last));
        let is_worth = |part: u64, whole: u64| part as f64 > WORTH_A_WORD * whole as f64;
        if !is_worth(at_peak, peak) && !is_worth(at_end, end) {
            return None;
        }
        let mut sums: HashMap<Place, Holder> = HashMap::new();
        let state = if at_end > 0 { last } else { highest };
        let awaits = |id: &_| LiveUntil::Allocated.end(history, *id) <= state;
        for id in live(history, state, LiveUntil::Active).filter(awaits) {
            let place = self.of(history, id);
            sums.entry(place).or_insert_with(|| Holder::new(place)).held.bytes += history.allocations.bytes[id.idx()];
        }
        let most = sums.into_values().min_by(|a, b| b.held.bytes.cmp(&a.held.bytes).then_with(|| self.order(a, b)))?;
        let largest = Largest { name: self.full_name(most.place).into_owned(), bytes: most.held.bytes };
        Some(Awaiting { peak, end, at_end, largest })
    }
}

#[cfg(test)]
mod tests {
    use super::super::stack_places;
    use super::*;
    use crate::analysis::memory::fixture::{Script, history};
    use crate::model::StackId;
    use crate::model::memory::MemoryAction::FreeRequested;

    fn of(script: Script) -> Holders {
        let trace = script.finish();
        let of_stack = stack_places(&trace, None);
        Places { trace: &trace, of_stack: &of_stack }.in_short(history(&trace))
    }

    #[test]
    fn what_awaits_a_stream_is_counted_beside_what_is_allocated() {
        const KIB: u64 = 1024;
        let mut script = Script::default();
        let [load, prefetch, other] =
            ["load (w.py:1)", "prefetch (o.py:5)", "other (o.py:9)"].map(|frame| script.stack(&[frame]));
        script.alloc(0, 300 * KIB, load);
        for block in 1..4 {
            script.alloc(block << 20, 64 * KIB, prefetch);
            script.event(FreeRequested, block << 20, 64 * KIB, StackId(0));
        }
        script.alloc(5 << 20, 8 * KIB, other);
        script.event(FreeRequested, 5 << 20, 8 * KIB, StackId(0));
        script.free(1 << 20, 64 * KIB);
        let found = of(script);
        assert_eq!(found.largest, Some(Largest { name: "load (w.py:1)".to_owned(), bytes: 300 * KIB }));
        let largest = Largest { name: "prefetch (o.py:5)".to_owned(), bytes: 128 * KIB };
        let (peak, end) = (500 * KIB, 436 * KIB);
        assert_eq!(found.awaiting, Some(Awaiting { peak, end, at_end: 136 * KIB, largest }));
    }

    #[test]
    fn blocks_that_are_free_at_once_await_nothing() {
        let mut script = Script::default();
        let step = script.stack(&["step (t.py:1)"]);
        for _ in 0..9 {
            script.alloc(1 << 20, 4096, step);
            script.event(FreeRequested, 1 << 20, 4096, StackId(0));
            script.free(1 << 20, 4096);
        }
        assert_eq!(of(script).awaiting, None);
    }
}
