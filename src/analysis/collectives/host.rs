//! Collectives that threads of the host run, such as those of Gloo: ranges, not kernels.

use crate::model::{SliceId, SliceKind, Trace, host_collective};

/// The back end of a range of a thread in which it communicates with other ranks: `gloo` of `gloo:all_reduce`. `None`
/// for any other slice.
///
/// Such a range begins when the thread takes the call, and ends with its result: with tensors on a device, copies to
/// the host and back lie inside.
pub fn host_backend(trace: &Trace, slice: SliceId) -> Option<&'static str> {
    // Asked of each slice: nearly all are of other kinds.
    if trace.slices.kind[slice.idx()] != SliceKind::Annotation {
        return None;
    }
    host_collective(trace.slice_name(slice).as_bytes()).map(|(backend, _)| backend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn ranges_of_back_ends_of_the_host_are_collectives() {
        const RANGE: SliceKind = SliceKind::Annotation;
        for (kind, name, expected) in [
            (RANGE, "gloo:all_reduce", Some("gloo")),
            (RANGE, "mpi:barrier", Some("mpi")),
            (RANGE, "gloo:", None),
            (RANGE, "gloomy", None),
            (RANGE, "nccl:all_reduce", None),
            (SliceKind::GpuAnnotation, "gloo:all_reduce", None),
            (SliceKind::Operator, "gloo:all_reduce", None),
        ] {
            let trace = TraceBuilder::from_slices(&[("main", kind, name, 0, 1)]).finish();
            assert_eq!(host_backend(&trace, SliceId(0)), expected, "{name}");
        }
    }
}
