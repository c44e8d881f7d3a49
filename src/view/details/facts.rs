//! Facts about a slice from the trace in memory, and its links to others.

use crate::figures::{Cell, format, text::display_name};
use crate::model::{
    Collective, DurNs, GraphNode, Launch, SliceId, SliceKind, StringId, SyncKind, Synchronization, TimeRange, Trace,
};

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
    /// The slices around it, or for device work around the call that launched it, innermost first. Functions of
    /// Python are its stack.
    pub around: Links,
    pub python: Links,
    /// The API call that launched this device work.
    pub launch: Option<SliceId>,
    /// From the end of that call to the start of the work; negative if it started earlier.
    pub queue_ns: Option<DurNs>,
    /// The device work that this API call launched.
    pub launched: Links,
    pub flows_in: Links,
    pub flows_out: Links,
    /// The API call that recorded the CUDA event which this synchronization waits for.
    pub event_record: Option<SliceId>,
    /// Labels and values of its collective, synchronization and CUDA graph node.
    pub rows: Vec<(&'static str, String)>,
}

impl Facts {
    /// The facts of a slice of `trace`. Cost: O(log n).
    pub fn new(trace: &Trace, id: SliceId) -> Self {
        let slices = &trace.slices;
        let time = slices.time(id);
        let is_device_work = slices.kind[id.idx()].is_device_work();
        let launch = if is_device_work { trace.launch_of(id) } else { None };
        let launched = if is_device_work { Links::default() } else { Links::collect(trace.launched_by(id)) };
        let sync = trace.sync(id);
        let recorded = sync.map_or(0, |sync| sync.event_record);
        let recorders = trace.correlations.slices(&slices.correlation, recorded);
        let ancestors = || slices.ancestors(launch.unwrap_or(id));
        let is_python = |id: &SliceId| slices.kind[id.idx()] == SliceKind::PythonFunction;
        let mut rows = Vec::new();
        if let Some(shape) = trace.facts.launches.value(trace.facts.launches.id(id)) {
            let sides = |sides: [u32; 3]| Cell::Sides(sides).shown();
            rows.push(("Grid and block", format!("{}, {}", sides(shape.grid), sides(shape.block))));
            launch_rows(shape, &mut rows);
        }
        if let Some(bytes) = trace.facts.copies.get(id).and_then(|copy| copy.bytes) {
            let speed = (time.dur() > 0).then(|| Cell::GbPerS(bytes as f64 / time.dur() as f64).shown());
            let speed = speed.map(|speed| format!(", {speed}")).unwrap_or_default();
            rows.push(("Bytes", format!("{} ({} B){speed}", format::bytes(bytes as f64), format::count(bytes))));
        }
        if let Some(collective) = trace.facts.collectives.get(id) {
            collective_rows(trace, collective, &mut rows);
        }
        if let Some(sync) = sync {
            sync_rows(sync, &mut rows);
        }
        rows.extend(trace.facts.graph_nodes.get(id).map(|&node| ("GPU graph", graph_node_text(node))));
        Self {
            time,
            n_children: slices.children(id).len(),
            is_unfinished: slices.unfinished.binary_search(&id).is_ok(),
            around: Links::collect(ancestors().filter(|id| !is_python(id))),
            python: Links::collect(ancestors().filter(is_python)),
            launch,
            queue_ns: launch.map(|launch| time.start.saturating_sub(slices.end[launch.idx()])),
            launched,
            flows_in: Links::collect(trace.flows.incoming(id).map(|i| trace.flows.from[i])),
            flows_out: Links::collect(trace.flows.outgoing(id).map(|i| trace.flows.to[i])),
            event_record: recorders.first().copied().filter(|call| slices.kind[call.idx()].is_call()),
            rows,
        }
    }
}

/// What a launch takes of a multiprocessor, as far as it was recorded.
fn launch_rows(launch: &Launch, rows: &mut Vec<(&'static str, String)>) {
    let Launch { registers_per_thread: registers, shared_bytes, .. } = *launch;
    if let Some(registers) = registers.filter(|&n| n > 0) {
        rows.push(("Registers", format!("{registers} a thread")));
    }
    if let Some(shared_bytes) = shared_bytes.filter(|&n| n > 0) {
        rows.push(("Shared memory", format!("{} a block", format::bytes(shared_bytes.into()))));
    }
}

fn collective_rows(trace: &Trace, collective: &Collective, rows: &mut Vec<(&'static str, String)>) {
    let text =
        |text: StringId| Some(display_name(trace.strings.get(text)).into_owned()).filter(|text| !text.is_empty());
    rows.extend(text(collective.op).map(|op| ("Collective", op)));
    let n_ranks = collective.n_ranks.map(|n| format::of_things(n.into(), "rank"));
    let group: Vec<String> = [text(collective.group), n_ranks, text(collective.ranks)].into_iter().flatten().collect();
    if !group.is_empty() {
        rows.push(("Process group", group.join(", ")));
    }
    rows.extend(collective.seq.map(|seq| ("Sequence number", seq.to_string())));
    let amount = |elements: Option<u64>, bytes: Option<u64>| {
        let elements = format!("{} {}", format::count(elements?), text(collective.dtype).unwrap_or("elements".into()));
        Some(bytes.map_or(elements.clone(), |bytes| format!("{}, {elements}", format::bytes(bytes as f64))))
    };
    rows.extend(amount(collective.in_elements, collective.in_bytes()).map(|amount| ("Input", amount)));
    rows.extend(amount(collective.out_elements, collective.out_bytes()).map(|amount| ("Output", amount)));
}

fn sync_rows(sync: Synchronization, rows: &mut Vec<(&'static str, String)>) {
    let stream = sync.stream.map(|stream| format!("Stream {stream}"));
    let event = match (sync.event, sync.event_stream) {
        (Some(event), Some(stream)) => Some(format!("Event {event} on stream {stream}")),
        (Some(event), None) => Some(format!("Event {event}")),
        (None, Some(stream)) => Some(format!("An event on stream {stream}")),
        (None, None) => None,
    };
    let (waits_for, waiting) = match sync.kind {
        SyncKind::Device => (Some("All streams of the context".to_owned()), None),
        SyncKind::Stream => (stream, None),
        SyncKind::StreamWait => (event, stream),
        SyncKind::Event | SyncKind::Unknown => (event, None),
    };
    rows.push(("Synchronization", sync.kind.label().to_owned()));
    rows.extend(waits_for.map(|what| ("Waits for", what)));
    rows.extend(waiting.map(|stream| ("Waiting", stream)));
}

/// The ids that are known.
fn graph_node_text(GraphNode { graph, exec, node }: GraphNode) -> String {
    let ids = [("graph", u64::from(graph)), ("executable", u64::from(exec)), ("node", node)];
    let known = ids.iter().filter(|(_, id)| *id != 0);
    known.map(|(what, id)| format!("{what} {id}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MemoryCopy, SliceFacts, TraceBuilder};

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
        assert_eq!((kernel.launch, kernel.queue_ns), (Some(SliceId(0)), Some(50)));
        assert_eq!(kernel.launched, Links::default());
    }

    #[test]
    fn collectives_waits_and_graph_nodes_are_described() {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", SliceKind::Runtime, "cudaEventRecord", 0, 5),
            ("main", SliceKind::Runtime, "cudaStreamWaitEvent", 10, 15),
            ("main", SliceKind::Runtime, "cudaDeviceSynchronize", 20, 90),
            ("stream 7", SliceKind::Kernel, "ncclDevKernel_AllReduce", 30, 80),
            ("stream 7", SliceKind::Sync, "Stream Wait Event", 12, 20),
        ]);
        builder.slices[0].correlation = vec![4, 5, 6, 7, 5];
        let mut text = |text| builder.strings.intern(text);
        let collective = Collective {
            op: text("allreduce"),
            group: text("2"),
            ranks: text("[0, 4]"),
            n_ranks: Some(2),
            seq: Some(71),
            dtype: text("BFloat16"),
            element_bytes: Some(2),
            in_elements: Some(1 << 20),
            out_elements: None,
        };
        let graph_node = Some(GraphNode { graph: 3, exec: 0, node: 12_884_901_890 });
        builder.set_facts(3, SliceFacts { collective: Some(collective), graph_node, ..Default::default() });
        let (kind, stream, event) = (SyncKind::StreamWait, Some(20), Some(9));
        let sync = Some(Synchronization { kind, stream, event, event_stream: Some(7), event_record: 4 });
        builder.set_facts(4, SliceFacts { sync, ..Default::default() });
        let trace = builder.finish();
        let of = |name: &str| {
            let slice = (0..5).map(SliceId).find(|&slice| trace.slice_name(slice) == name).unwrap();
            let facts = Facts::new(&trace, slice);
            let rows: Vec<String> = facts.rows.iter().map(|(label, value)| format!("{label}: {value}")).collect();
            (rows.join("; "), facts.event_record.map(|call| trace.slice_name(call).to_owned()))
        };
        let all_reduce = "Collective: allreduce; Process group: 2, 2 ranks, [0, 4]; Sequence number: 71; \
                          Input: 2.00 MiB, 1,048,576 BFloat16; GPU graph: graph 3, node 12884901890";
        assert_eq!(of("ncclDevKernel_AllReduce"), (all_reduce.to_owned(), None));
        let wait = "Synchronization: Stream Wait Event; Waits for: Event 9 on stream 7; Waiting: Stream 20";
        let recorded = (wait.to_owned(), Some("cudaEventRecord".to_owned()));
        assert_eq!((of("Stream Wait Event"), of("cudaStreamWaitEvent")), (recorded.clone(), recorded));
        let device = "Synchronization: Context Sync; Waits for: All streams of the context";
        assert_eq!(of("cudaDeviceSynchronize"), (device.to_owned(), None));
        assert_eq!(of("cudaEventRecord"), (String::new(), None));
    }

    #[test]
    fn copies_and_kernels_have_figures_with_units() {
        let mut builder = TraceBuilder::from_slices(&[
            ("stream 7", SliceKind::Memcpy, "Memcpy HtoD", 0, 1_000),
            ("stream 7", SliceKind::Kernel, "gemm", 2_000, 2_100),
        ]);
        let copy = Some(MemoryCopy { bytes: Some(24 << 10), ..MemoryCopy::default() });
        builder.set_facts(0, SliceFacts { copy, ..Default::default() });
        let (registers_per_thread, shared_bytes) = (Some(64), Some(48 << 10));
        let launch =
            Launch { grid: [4, 1, 1], block: [256, 1, 1], registers_per_thread, shared_bytes, ..Launch::default() };
        builder.set_facts(1, SliceFacts { launch: Some(launch), ..Default::default() });
        let trace = builder.finish();
        let of = |slice| Facts::new(&trace, SliceId(slice)).rows;
        assert_eq!(of(0), [("Bytes", "24.00 KiB (24,576 B), 24.576 GB/s".to_owned())]);
        let rows: Vec<_> = of(1).into_iter().map(|(label, value)| format!("{label}: {value}")).collect();
        assert_eq!(rows[1..], ["Registers: 64 a thread", "Shared memory: 48.00 KiB a block"]);
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
        assert_eq!(Facts::new(&trace, SliceId(1)).around.slices, [SliceId(0)]);
    }

    #[test]
    fn a_kernel_knows_what_stands_around_its_launch() {
        let mut builder = TraceBuilder::from_slices(&[
            ("main", SliceKind::PythonFunction, "train.py(3): step", 0, 100),
            ("main", SliceKind::Operator, "aten::linear", 10, 90),
            ("main", SliceKind::Operator, "aten::addmm", 20, 80),
            ("main", SliceKind::Runtime, "cudaLaunchKernel", 30, 40),
            ("stream 7", SliceKind::Kernel, "gemm", 50, 60),
        ]);
        builder.slices[0].correlation = vec![0, 0, 0, 4, 4];
        let trace = builder.finish();
        let kernel = (0..5).map(SliceId).find(|&slice| trace.slice_name(slice) == "gemm").unwrap();
        let facts = Facts::new(&trace, kernel);
        let names = |links: &Links| links.slices.iter().map(|&id| trace.slice_name(id).to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&facts.around), ["aten::addmm", "aten::linear"]);
        assert_eq!(names(&facts.python), ["train.py(3): step"]);
    }
}
