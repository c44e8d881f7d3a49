//! Why what is reserved grows beyond what is in use.

use super::{Growth, GrowthShares, shares};
use crate::analysis::memory::state::allocator;
use crate::analysis::memory::unused::Unused;
use crate::model::MemoryHistory;

/// What is reserved beyond need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    pub shares: GrowthShares,
    /// What is unused at the end.
    pub unused: Unused,
    /// Whether the program's segments are expandable.
    pub is_expandable: bool,
}

/// Why most of what was reserved beyond need was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExcessCause {
    /// Other streams had it free. Each has a pool of its own, which serves no other.
    Streams,
    /// Live blocks lay among what was free.
    Blocks,
    /// Segments that earlier requests left were too small.
    Segments,
    /// Neither: segments larger than their requests, private pools, size classes.
    Other,
}

impl Excess {
    /// `None` if the recording has no segments. Cost: O(states + growths + m log m) for m blocks.
    ///
    /// * `growth`: all growths of the history.
    pub fn of(history: &MemoryHistory, growth: &[Growth]) -> Option<Self> {
        let state = allocator(history, history.last_state(), &|| false);
        Some(Self {
            shares: shares(history, growth)?,
            unused: Unused::of(history, &state),
            is_expandable: history.segments.iter().any(|segment| segment.is_expandable),
        })
    }

    /// The largest part of what grew beyond demand; scattered memory lies among blocks, or in segments without any, as
    /// most of what is unused at the end does.
    pub fn cause(&self) -> ExcessCause {
        let GrowthShares { fragmentation, other, of_streams, .. } = self.shares;
        let rest = other - of_streams;
        match () {
            () if of_streams >= fragmentation.max(rest) && of_streams > 0 => ExcessCause::Streams,
            () if fragmentation < rest => ExcessCause::Other,
            () if self.unused.empty > self.unused.pinned + self.unused.other => ExcessCause::Segments,
            () => ExcessCause::Blocks,
        }
    }
}
