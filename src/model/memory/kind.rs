//! Kinds of segments, by the requests that they serve.

use super::{Allocations, Segment};

/// The size class from which PyTorch's allocator serves requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentKind {
    /// Not recorded. Replayed segments never have this kind.
    #[default]
    Unknown,
    /// Before the small ones, in lists and on the map: nearly all memory is in these.
    Large,
    /// For requests up to [`SMALL`].
    Small,
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

/// Infers the size class of each segment without a recorded one: from its first block, else from its size.
/// For parts of expandable segments only the size is used: it is a multiple of 2 MiB for small requests and of
/// 20 MiB for large ones, and a block may begin in another part.
///
/// * `allocations`: sorted by `start`.
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
