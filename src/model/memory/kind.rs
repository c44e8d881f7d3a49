//! Kinds of segments, by the requests that they serve.

use super::{Allocations, Segment};

/// The size class from which PyTorch's allocator serves requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentKind {
    /// The file does not say. Replayed segments are never of this kind.
    #[default]
    Unknown,
    /// For requests up to [`SMALL`].
    Small,
    Large,
}

/// PyTorch serves requests up to this from small segments (`kSmallSize`). In large ones it splits no
/// block when no more than this would be left.
pub const SMALL: u64 = 1 << 20;

/// Size of PyTorch's small segments (`kSmallBuffer`).
const SMALL_SEGMENT: u64 = 2 << 20;

impl SegmentKind {
    /// The size class that serves a block of this size.
    pub fn serving(bytes: u64) -> Self {
        if bytes <= SMALL { Self::Small } else { Self::Large }
    }
}

/// Works out the size class of each segment whose file does not say it: by the first block in it, else
/// by its size. Pieces of expandable segments are told by their size alone: they come in multiples of
/// 2 MiB for small requests, of 20 MiB for large ones, and a block may begin in another piece.
///
/// * `allocations`: sorted by start of life.
pub fn settle_kinds(segments: &mut [Segment], allocations: &Allocations) {
    for (&segment, &bytes) in allocations.segment.iter().zip(&allocations.bytes) {
        let segment = segments.get_mut(segment as usize);
        if let Some(segment) = segment.filter(|of| of.kind == SegmentKind::Unknown && !of.is_expandable) {
            segment.kind = SegmentKind::serving(bytes);
        }
    }
    for segment in segments.iter_mut().filter(|segment| segment.kind == SegmentKind::Unknown) {
        segment.kind = if segment.bytes <= SMALL_SEGMENT { SegmentKind::Small } else { SegmentKind::Large };
    }
}
