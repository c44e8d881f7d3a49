//! The selected thing.

use crate::model::memory::AllocationId;
use crate::model::{ProcessId, SliceId, TimeRange};

use super::OpenTrace;

/// What is selected: one value, the same in every view. `trace` is an index into the open traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    #[default]
    None,
    Slice {
        trace: usize,
        slice: SliceId,
    },
    /// `instant` is an index into the trace's instants.
    Instant {
        trace: usize,
        instant: usize,
    },
    /// `memory` is an index into the trace's memories.
    Allocation {
        trace: usize,
        memory: usize,
        id: AllocationId,
    },
    /// Idle time of the device of `process`, in the trace's own time.
    Gap {
        trace: usize,
        process: ProcessId,
        time: TimeRange,
    },
}

impl Selection {
    /// Index of the trace that it is in.
    pub fn trace(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Slice { trace, .. }
            | Self::Instant { trace, .. }
            | Self::Allocation { trace, .. }
            | Self::Gap { trace, .. } => Some(trace),
        }
    }

    /// Start and end in session time. `None` if nothing is selected, or nothing that is open.
    pub fn time(self, traces: &[OpenTrace]) -> Option<TimeRange> {
        let open = traces.get(self.trace()?)?;
        let time = match self {
            Self::None => return None,
            Self::Slice { slice, .. } => open.trace.slices.time(slice),
            Self::Instant { instant, .. } => {
                let ts = *open.trace.instants.ts.get(instant)?;
                TimeRange { start: ts, end: ts }
            }
            Self::Allocation { memory, id, .. } => open.trace.memories.get(memory)?.life(id),
            Self::Gap { time, .. } => time,
        };
        Some(time.shifted(open.offset))
    }

    /// The same selection after some traces were closed; `moved` gives the new index of a trace that is
    /// still open.
    pub(super) fn moved(self, moved: impl Fn(usize) -> Option<usize>) -> Self {
        let Some(new) = self.trace().and_then(moved) else { return Self::None };
        match self {
            Self::None => Self::None,
            Self::Slice { slice, .. } => Self::Slice { trace: new, slice },
            Self::Instant { instant, .. } => Self::Instant { trace: new, instant },
            Self::Allocation { memory, id, .. } => Self::Allocation { trace: new, memory, id },
            Self::Gap { process, time, .. } => Self::Gap { trace: new, process, time },
        }
    }
}
