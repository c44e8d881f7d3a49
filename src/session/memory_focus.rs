//! The memory and the moment that the memory views show.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use crate::analysis::memory::summary::is_trifle;
use crate::model::memory::AllocationId;
use crate::model::{MemoryHistory, TimeNs, Trace};

use super::{OpenTrace, Selection};

/// What the memory views show, the same in each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFocus {
    /// The shown history: an index into the open traces, and one into that trace's memories.
    pub history: Option<(usize, usize)>,
    /// The state that the user chose, if any.
    pub moment: Option<u32>,
    /// What the moment is compared with.
    pub base: Option<Base>,
    /// Whether all that was on screen in the last frame was of the moment: while it plays, it waits for what is slower.
    pub is_followed: bool,
    /// Highlighted allocations, such as those of one stack. Sorted.
    pub marked: Arc<Vec<AllocationId>>,
    /// Whether the user's marks are the steps between which growth is judged.
    pub uses_marks: bool,
    /// Whether it was chosen since the last frame.
    is_new: bool,
}

/// A state that a moment is compared with, of its history or of another one. Keeps no trace open.
#[derive(Clone, Debug)]
pub struct Base {
    trace: Weak<Trace>,
    /// Index into the trace's memories.
    memory: usize,
    pub state: u32,
}

impl PartialEq for Base {
    fn eq(&self, other: &Self) -> bool {
        self.trace.ptr_eq(&other.trace) && (self.memory, self.state) == (other.memory, other.state)
    }
}

impl Eq for Base {}

impl Base {
    pub fn new(of: &OpenMemory, state: u32) -> Self {
        Self { trace: Arc::downgrade(&of.open.trace), memory: of.memory, state }
    }

    /// Whether it is a state of this history.
    pub fn is_of(&self, of: &OpenMemory) -> bool {
        std::ptr::eq(self.trace.as_ptr(), Arc::as_ptr(&of.open.trace)) && self.memory == of.memory
    }

    /// Its trace and the index of its memory; `None` once the trace is closed.
    pub fn place(&self) -> Option<(Arc<Trace>, usize)> {
        Some((self.trace.upgrade()?, self.memory))
    }

    /// Its history; `None` if it is not open.
    pub fn find(&self, traces: &[OpenTrace]) -> Option<OpenMemory> {
        let open = traces.iter().find(|open| std::ptr::eq(Arc::as_ptr(&open.trace), self.trace.as_ptr()))?;
        Some(OpenMemory { open: open.clone(), memory: self.memory })
    }
}

/// A history with its trace. It has no index into the open traces, which changes when one is closed, so answers
/// may keep it.
#[derive(Clone, Debug)]
pub struct OpenMemory {
    pub open: OpenTrace,
    /// Index into the trace's memories.
    pub memory: usize,
}

/// The history shown in this frame.
#[derive(Clone, Debug)]
pub struct ShownMemory {
    /// Index into the open traces.
    pub index: usize,
    pub of: OpenMemory,
}

impl Deref for ShownMemory {
    type Target = OpenMemory;

    fn deref(&self) -> &OpenMemory {
        &self.of
    }
}

impl ShownMemory {
    /// One of its allocations, as the selection.
    pub fn selection(&self, id: AllocationId) -> Selection {
        Selection::Allocation { trace: self.index, memory: self.memory, id }
    }

    /// The allocation that is selected, if it is one of this history.
    pub fn selected(&self, selection: Selection) -> Option<AllocationId> {
        match selection {
            Selection::Allocation { trace, memory, id } if (trace, memory) == (self.index, self.memory) => Some(id),
            _ => None,
        }
    }
}

impl OpenMemory {
    pub fn trace(&self) -> &Trace {
        &self.open.trace
    }

    pub fn history(&self) -> &MemoryHistory {
        &self.open.trace.memories[self.memory]
    }

    /// The moment at which a state begins, in session time.
    pub fn session_time(&self, state: u32) -> TimeNs {
        self.history().time_of(state).saturating_add(self.open.offset)
    }

    /// The state at a moment of session time.
    pub fn state_at(&self, ts: TimeNs) -> u32 {
        self.history().state_at(ts.saturating_sub(self.open.offset))
    }
}

impl MemoryFocus {
    /// Shows another history. What it is compared with stays: where that is the peak of a history, its own peak is
    /// shown.
    pub fn show(&mut self, trace: usize, memory: usize) {
        if self.history != Some((trace, memory)) {
            *self = Self { history: Some((trace, memory)), base: self.base.take(), is_new: true, ..Self::default() };
        }
    }

    /// What a moment of `shown` is compared with: the chosen base, else its start.
    pub fn base_or_start(&self, shown: &OpenMemory) -> Base {
        self.base.clone().unwrap_or_else(|| Base::new(shown, 0))
    }

    /// The base, if it is a state of `shown`.
    pub fn base_of(&self, shown: &OpenMemory) -> Option<u32> {
        self.base.as_ref().filter(|base| base.is_of(shown)).map(|base| base.state)
    }

    /// The shown history, by default the one with the most events, of those that hold more than next to nothing. `None`
    /// if no open trace has any.
    pub fn resolve(&mut self, traces: &[OpenTrace]) -> Option<ShownMemory> {
        let is_there = |&(trace, memory): &(usize, usize)| {
            traces.get(trace).is_some_and(|open| memory < open.trace.memories.len())
        };
        if self.history.filter(is_there).is_none() {
            let all = traces.iter().enumerate().flat_map(|(trace, open)| {
                open.trace.memories.iter().enumerate().map(move |(memory, history)| ((trace, memory), history))
            });
            let best = all.max_by_key(|((trace, memory), history)| {
                let has_more = !is_trifle(history);
                (has_more, history.events.len(), history.allocations.len(), std::cmp::Reverse((*trace, *memory)))
            });
            *self = Self { history: best.map(|(place, _)| place), ..Self::default() };
        }
        let (trace, memory) = self.history?;
        let shown = ShownMemory { index: trace, of: OpenMemory { open: traces[trace].clone(), memory } };
        let last = shown.history().last_state();
        self.moment = self.moment.map(|state| state.min(last));
        self.base.take_if(|base| base.find(traces).is_none());
        if std::mem::take(&mut self.is_new) && self.moment.is_none() && self.is_from_peak(&shown, traces) {
            self.moment = Some(shown.history().curves.fullest());
        }
        Some(shown)
    }

    /// Whether the base is the peak of another history.
    fn is_from_peak(&self, shown: &OpenMemory, traces: &[OpenTrace]) -> bool {
        let other = self.base.as_ref().filter(|base| !base.is_of(shown));
        other.is_some_and(|base| base.find(traces).is_some_and(|of| of.history().curves.fullest() == base.state))
    }

    /// Follows the open traces after some were closed.
    ///
    /// * `moved`: the new index of a trace, if it is still open.
    pub fn follow(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        match self.history.map(|(trace, memory)| (moved(trace), memory)) {
            Some((Some(trace), memory)) => self.history = Some((trace, memory)),
            Some((None, _)) => *self = Self::default(),
            None => {}
        }
    }
}
