//! Facts about a slice from the trace in memory, and its links to others.

use crate::model::{DurNs, SliceId, TimeRange, Trace};

/// Links listed per group.
pub const MAX_LINKS: usize = 20;

/// The first few slices linked to a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    pub slices: Vec<SliceId>,
    /// Whether there are more than are listed.
    pub has_more: bool,
}

impl Links {
    fn collect(slices: impl Iterator<Item = SliceId>) -> Self {
        let mut slices: Vec<SliceId> = slices.take(MAX_LINKS + 1).collect();
        let has_more = slices.len() > MAX_LINKS;
        slices.truncate(MAX_LINKS);
        Self { slices, has_more }
    }
}

/// Facts about a slice that need no file access: a few binary searches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// In the trace's own time.
    pub time: TimeRange,
    pub n_children: usize,
    pub is_unfinished: bool,
    pub parent: Option<SliceId>,
    /// The API call that launched this device work.
    pub launch: Option<SliceId>,
    /// From the end of that call to the start of the work; negative if it started earlier.
    pub launch_delay: Option<DurNs>,
    /// The device work that this API call launched.
    pub launched: Links,
    pub flows_in: Links,
    pub flows_out: Links,
}

impl Facts {
    /// The facts of a slice of `trace`. Cost: O(log n).
    pub fn new(trace: &Trace, id: SliceId) -> Self {
        let slices = &trace.slices;
        let time = slices.time(id);
        let is_device_work = slices.kind[id.idx()].is_device_work();
        let launch = if is_device_work { trace.launch_of(id) } else { None };
        let launched = if is_device_work { Links::default() } else { Links::collect(trace.launched_by(id)) };
        Self {
            time,
            n_children: slices.children(id).len(),
            is_unfinished: slices.unfinished.binary_search(&id).is_ok(),
            parent: slices.parent(id),
            launch,
            launch_delay: launch.map(|launch| time.start.saturating_sub(slices.end[launch.idx()])),
            launched,
            flows_in: Links::collect(trace.flows.incoming(id).map(|i| trace.flows.from[i])),
            flows_out: Links::collect(trace.flows.outgoing(id).map(|i| trace.flows.to[i])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    #[test]
    fn kernels_and_their_launch_are_linked() {
        let mut slices = vec![("main", SliceKind::Runtime, "cudaGraphLaunch", 0, 50)];
        slices.extend((0..30).map(|i| ("stream 7", SliceKind::Kernel, "gemm", 100 + 10 * i, 110 + 10 * i)));
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = vec![9; slices.len()];
        let trace = builder.finish();
        let launch = Facts::new(&trace, SliceId(0));
        assert_eq!((launch.launched.slices.len(), launch.launched.has_more), (MAX_LINKS, true));
        assert_eq!(launch.launch, None);
        let kernel = Facts::new(&trace, SliceId(1));
        assert_eq!((kernel.launch, kernel.launch_delay), (Some(SliceId(0)), Some(50)));
        assert_eq!(kernel.launched, Links::default());
    }

    #[test]
    fn parents_and_children_are_known() {
        let op = SliceKind::Operator;
        let trace = TraceBuilder::from_slices(&[
            ("main", op, "outer", 0, 100),
            ("main", op, "a", 10, 30),
            ("main", op, "inside a", 12, 20),
            ("main", op, "b", 50, 60),
        ])
        .finish();
        assert_eq!(Facts::new(&trace, SliceId(0)).n_children, 2);
        assert_eq!(Facts::new(&trace, SliceId(1)).parent, Some(SliceId(0)));
    }
}
