//! Facts from args that are not columns of slices: launches, copies, input shapes, collectives, waits and
//! CUDA graph nodes.
//!
//! Scanning keeps the values of common keys as raw text. Those of collectives and waits, which are rare, are
//! looked up in the text of their args. Each distinct text is parsed once per block.

use crate::model::{
    Collective, CopyKind, GraphNode, Launch, MemoryCopy, SliceFacts, SliceKind, StringId, SyncKind, Synchronization,
    TraceBuilder, element_bytes, host_collective,
};

use super::host_collectives;
use super::interner::Interner;
use super::lenient::value_after;
use super::scan::Event;
use super::text::unescape;

/// Values of args as they are written; empty if absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkArgs<'a> {
    pub shapes: &'a [u8],
    pub grid: &'a [u8],
    pub block: &'a [u8],
    pub registers: &'a [u8],
    pub shared: &'a [u8],
    pub occupancy: &'a [u8],
    pub bytes: &'a [u8],
    pub graph: &'a [u8],
    pub graph_node: &'a [u8],
    pub collective: &'a [u8],
}

/// The keys that [`WorkArgs::slot`] recognizes.
pub const WORK_KEYS: [&[u8]; 11] = [
    b"grid",
    b"block",
    b"bytes",
    b"Input Dims",
    b"Input dims",
    b"shared memory",
    b"registers per thread",
    b"est. achieved occupancy %",
    b"graph id",
    b"graph node id",
    b"Collective name",
];

/// Further keys of collectives, in the order in which [`WorkTexts`] joins their values. The sequence
/// number came with PyTorch 2.7; a group had a number for a name in 2024.
const COLLECTIVE_KEYS: [&[u8]; 8] = [
    b"Process Group Name",
    b"Process Group ID",
    b"Process Group Ranks",
    b"Group size",
    b"Seq",
    b"dtype",
    b"In msg nelems",
    b"Out msg nelems",
];

/// The keys of waits, joined in this order. -1 stands for no stream and no call.
const SYNC_KEYS: [&[u8]; 5] =
    [b"cuda_sync_kind", b"stream", b"wait_on_cuda_event_id", b"wait_on_stream", b"wait_on_cuda_event_record_corr_id"];

/// Separator of values joined into one text.
const BETWEEN: u8 = 0x1f;

/// Marks the number of a text of [`WorkTexts::shapes`].
const SHAPES: u32 = 1 << 31;

impl<'a> WorkArgs<'a> {
    /// The field for the value of this key.
    #[inline(always)]
    pub fn slot(&mut self, key: &[u8]) -> Option<&mut &'a [u8]> {
        // By length first: it rules out nearly all other keys with one jump.
        match key.len() {
            4 if key == b"grid" => Some(&mut self.grid),
            5 if key == b"block" => Some(&mut self.block),
            5 if key == b"bytes" => Some(&mut self.bytes),
            8 if key == b"graph id" => Some(&mut self.graph),
            10 if key == b"Input Dims" || key == b"Input dims" => Some(&mut self.shapes),
            13 if key == b"shared memory" => Some(&mut self.shared),
            13 if key == b"graph node id" => Some(&mut self.graph_node),
            15 if key == b"Collective name" => Some(&mut self.collective),
            20 if key == b"registers per thread" => Some(&mut self.registers),
            25 if key == b"est. achieved occupancy %" => Some(&mut self.occupancy),
            _ => None,
        }
    }
}

/// The distinct texts of one block.
#[derive(Debug, Default)]
pub struct WorkTexts {
    /// Input shapes of operators without other facts.
    shapes: Interner,
    /// All other facts: the kind of the slice, then its values, as parsed by [`facts_of`].
    others: Interner,
    key: Vec<u8>,
}

impl WorkTexts {
    /// Forgets all texts and keeps the memory.
    pub fn clear(&mut self) {
        self.shapes.clear();
        self.others.clear();
    }

    /// The number of this event's facts, for [`FactNumbers::of`]; 0 for none.
    #[inline(always)]
    pub fn facts(&mut self, kind: SliceKind, event: &Event<'_>) -> u32 {
        let work = &event.work;
        match kind {
            SliceKind::Operator if work.collective.is_empty() => {
                if work.shapes.is_empty() {
                    0
                } else {
                    SHAPES | (self.shapes.intern(work.shapes).0 + 1)
                }
            }
            SliceKind::Kernel | SliceKind::Memcpy | SliceKind::Memset | SliceKind::Sync => self.other(kind, event),
            SliceKind::Annotation if host_collective(event.name).is_some() => self.other(kind, event),
            _ if work.collective.is_empty() => 0,
            _ => self.other(kind, event),
        }
    }

    #[inline]
    fn other(&mut self, kind: SliceKind, event: &Event<'_>) -> u32 {
        let work = &event.work;
        let key = &mut self.key;
        key.clear();
        key.push(kind as u8);
        match kind {
            SliceKind::Kernel => {
                join(key, &[work.grid, work.block, work.registers, work.shared, work.occupancy]);
            }
            SliceKind::Memcpy | SliceKind::Memset => join(key, &[event.name, work.bytes]),
            SliceKind::Operator => join(key, &[work.shapes]),
            SliceKind::Sync => join(key, &SYNC_KEYS.map(|key| value_after(event.args, key).unwrap_or_default())),
            SliceKind::Annotation => {
                let dtype = value_after(event.args, b"Input type").unwrap_or_default();
                join(key, &[event.name, work.shapes, dtype]);
            }
            _ => {}
        }
        join(key, &[work.graph, work.graph_node]);
        if !work.collective.is_empty() {
            join(key, &[work.collective]);
            join(key, &COLLECTIVE_KEYS.map(|key| value_after(event.args, key).unwrap_or_default()));
        }
        if key[1..].iter().all(|&byte| byte == BETWEEN) { 0 } else { self.others.intern(key).0 + 1 }
    }
}

fn join(key: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        key.extend_from_slice(part);
        key.push(BETWEEN);
    }
}

/// Maps fact numbers of a block to those of the trace.
#[derive(Debug)]
pub struct FactNumbers {
    shapes: Vec<u32>,
    others: Vec<u32>,
}

impl FactNumbers {
    /// Parses the texts of a block and adds new facts to the builder.
    pub fn new(texts: &WorkTexts, builder: &mut TraceBuilder) -> Self {
        let mut shapes = |raw: &[u8]| {
            let shapes = builder.strings.intern(&shapes_of(raw));
            builder.facts.add(&SliceFacts { shapes, ..Default::default() })
        };
        let shapes = texts.shapes.iter().map(&mut shapes).collect();
        let mut other = |raw: &[u8]| {
            let facts = facts_of(raw, &mut |text| builder.strings.intern(text));
            builder.facts.add(&facts)
        };
        let others = texts.others.iter().map(&mut other).collect();
        Self { shapes, others }
    }

    /// The trace's number for a block's number.
    #[inline]
    pub fn of(&self, number: u32) -> u32 {
        let known = if number & SHAPES == 0 { &self.others } else { &self.shapes };
        ((number & !SHAPES) as usize).checked_sub(1).map_or(0, |index| known[index])
    }
}

/// Parses a text joined by [`WorkTexts`].
fn facts_of(raw: &[u8], intern: &mut dyn FnMut(&str) -> StringId) -> SliceFacts {
    let (kind, raw) = raw.split_first().map_or((0, raw), |(&kind, raw)| (kind, raw));
    let kind = SliceKind::ALL.get(usize::from(kind)).copied().unwrap_or_default();
    let mut parts = raw.split(|&byte| byte == BETWEEN);
    let mut next = || parts.next().unwrap_or_default();
    let mut facts = SliceFacts::default();
    match kind {
        SliceKind::Kernel => {
            let launch = Launch {
                grid: sides_of(next()),
                block: sides_of(next()),
                registers_per_thread: number_in(next()),
                shared_bytes: number_in(next()),
                recorded_occupancy: number_in(next()),
            };
            facts.launch = Some(launch).filter(|launch| *launch != Launch::default());
        }
        SliceKind::Memcpy | SliceKind::Memset => {
            let copy = copy_of(kind, next(), next());
            facts.copy = Some(copy).filter(|copy| *copy != MemoryCopy::default());
        }
        SliceKind::Operator => facts.shapes = intern(&shapes_of(next())),
        SliceKind::Sync => facts.sync = Some(sync_of([(); SYNC_KEYS.len()].map(|()| next()))),
        SliceKind::Annotation => {
            let (name, shapes) = (next(), shapes_of(next()));
            facts.collective = host_collectives::collective_of_range(name, &shapes, next(), intern);
        }
        _ => {}
    }
    let node = GraphNode { graph: number_in(next()).unwrap_or(0), exec: 0, node: number_in(next()).unwrap_or(0) };
    facts.graph_node = Some(node).filter(|node| *node != GraphNode::default());
    let op = next();
    if !op.is_empty() {
        facts.collective = Some(collective_of(op, [(); COLLECTIVE_KEYS.len()].map(|()| next()), intern));
    }
    facts
}

fn collective_of(
    op: &[u8],
    [name, id, ranks, n_ranks, seq, dtype, in_elements, out_elements]: [&[u8]; COLLECTIVE_KEYS.len()],
    intern: &mut dyn FnMut(&str) -> StringId,
) -> Collective {
    let dtype = text_in(dtype);
    Collective {
        op: intern(&text_in(op)),
        group: intern(&text_in(if name.is_empty() { id } else { name })),
        ranks: intern(&text_in(ranks)),
        n_ranks: number_in(n_ranks),
        seq: number_in(seq),
        element_bytes: element_bytes(&dtype),
        dtype: intern(&dtype),
        in_elements: number_in(in_elements),
        out_elements: number_in(out_elements),
    }
}

fn sync_of([kind, stream, event, event_stream, event_record]: [&[u8]; SYNC_KEYS.len()]) -> Synchronization {
    let kind = match &*text_in(kind) {
        "Event Sync" => SyncKind::Event,
        "Stream Wait Event" => SyncKind::StreamWait,
        "Stream Sync" => SyncKind::Stream,
        "Context Sync" | "Device Sync" => SyncKind::Device,
        _ => SyncKind::Unknown,
    };
    // Older recorders wrote -1 as 32 bits.
    let id = |raw| number_in(raw).filter(|&id| id != u32::MAX);
    Synchronization {
        kind,
        stream: id(stream),
        event: id(event),
        event_stream: id(event_stream),
        event_record: number_in(event_record).unwrap_or(0),
    }
}

/// A text without its quotes; any other value as it is written.
fn text_in(raw: &[u8]) -> std::borrow::Cow<'_, str> {
    let raw = raw.trim_ascii();
    unescape(raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\"")).unwrap_or(raw))
}

/// Input shapes in normalized spacing, `[[32, 64], [], [64]]`; empty for an empty list and for other values.
fn shapes_of(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let mut out = String::with_capacity(text.len());
    for c in text.chars().filter(|c| !c.is_ascii_whitespace()) {
        out.push(c);
        if c == ',' {
            out.push(' ');
        }
    }
    if out.starts_with('[') && out != "[]" { out } else { String::new() }
}

/// The three numbers of `[256, 1, 1]`; 0 for missing ones.
fn sides_of(raw: &[u8]) -> [u32; 3] {
    let inside = raw.trim_ascii().strip_prefix(b"[").and_then(|raw| raw.strip_suffix(b"]")).unwrap_or_default();
    let mut numbers = inside.split(|&byte| byte == b',').map(|raw| number_in(raw).unwrap_or(0));
    [(); 3].map(|()| numbers.next().unwrap_or(0))
}

/// A whole number, also as a string; a fraction is rounded.
fn number_in<T: TryFrom<u64>>(raw: &[u8]) -> Option<T> {
    let text = text_in(raw);
    let rounded = || text.parse::<f64>().ok().filter(|number| (0.0..1e15).contains(number)).map(|n| n.round() as u64);
    T::try_from(text.parse().ok().or_else(rounded)?).ok()
}

fn copy_of(kind: SliceKind, name: &[u8], bytes: &[u8]) -> MemoryCopy {
    let name = unescape(name);
    let bytes = number_in(bytes);
    let is_pageable = if name.contains("Pageable") { Some(true) } else { name.contains("Pinned").then_some(false) };
    let kind = if kind == SliceKind::Memset { CopyKind::Memset } else { direction(&name) };
    MemoryCopy { kind, bytes, is_pageable }
}

/// Direction of a copy by its name: `Memcpy HtoD (Pageable -> Device)` as CUPTI writes it,
/// `CopyHostToDevice` as AMD's profiler does.
fn direction(name: &str) -> CopyKind {
    const KINDS: [(&str, &str, CopyKind); 5] = [
        ("HtoD", "HostToDevice", CopyKind::HtoD),
        ("DtoH", "DeviceToHost", CopyKind::DtoH),
        ("DtoD", "DeviceToDevice", CopyKind::DtoD),
        ("HtoH", "HostToHost", CopyKind::HtoH),
        ("PtoP", "PeerToPeer", CopyKind::PtoP),
    ];
    let known = KINDS.iter().find(|(short, long, _)| name.contains(short) || name.contains(long));
    known.map_or(CopyKind::Unknown, |known| known.2)
}

#[cfg(test)]
mod tests {
    use super::super::assemble::Assembly;
    use super::super::pipeline;
    use super::*;
    use crate::job::Progress;
    use crate::model::SliceId;

    #[test]
    fn columns_are_filled_whatever_the_phase_and_the_state_of_the_text() {
        let text = br#"[
            {"ph":"X","cat":"Operator","name":"aten::mm","pid":1,"tid":2,"ts":1,"dur":9,"args":{"Input dims":[[2,3],[]]}},
            {"ph":"B","cat":"cpu_op","name":"aten::add","pid":1,"tid":2,"ts":20,"args":{"Input Dims":[[4]]}},
            {"ph":"E","pid":1,"tid":2,"ts":30},
            {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":5,"dur":2,"args":{"blocks per SM":NaN,
                "grid": [2, 1,1],"block":[64,1,1]}},
            {"ph":"X","cat":"kernel","name":"bare","pid":0,"tid":7,"ts":8,"dur":2,"args":{"stream":7}},
            {"ph":"X","cat":"kernel","name":"again","pid":0,"tid":7,"ts":10,"dur":2,"args":{"block":[64, 1, 1],"grid":[2,1,1]}},
            {"ph":"X","cat":"gpu_memset","name":"Memset (Device)","pid":0,"tid":7,"ts":15,"dur":2,"args":{"bytes":128}}
        ]"#;
        let mut assembly = Assembly::default();
        let _ = pipeline::read(&text[..], &Progress::default(), &mut assembly);
        let trace = assembly.finish(&Default::default()).finish();
        let find =
            |name: &str| (0..trace.slices.len() as u32).map(SliceId).find(|&id| trace.slice_name(id) == name).unwrap();
        assert_eq!(trace.input_shapes(find("aten::mm")), "[[2, 3], []]");
        assert_eq!(trace.input_shapes(find("aten::add")), "[[4]]");
        let launches = &trace.facts.launches;
        let launch = launches.get(find("gemm")).unwrap();
        assert_eq!((launch.grid, launch.block, launch.recorded_occupancy), ([2, 1, 1], [64, 1, 1], None));
        assert_eq!(launches.id(find("again")), launches.id(find("gemm")));
        assert_eq!(launches.get(find("bare")), None);
        let set = MemoryCopy { kind: CopyKind::Memset, bytes: Some(128), is_pageable: None };
        assert_eq!(trace.facts.copies.get(find("Memset (Device)")), Some(&set));
    }

    #[test]
    fn shapes_have_one_spacing() {
        for raw in ["[[32, 64], [], [[1]]]", "[[32,64],[],[[1]]]", "[ [32,\n 64 ] , [],[[ 1 ]]]"] {
            assert_eq!(shapes_of(raw.as_bytes()), "[[32, 64], [], [[1]]]");
        }
        assert_eq!(shapes_of(b"[[], []]"), "[[], []]");
        for raw in ["", "[]", "[ ]", "null", "\"[[1]]\"", "{}"] {
            assert_eq!(shapes_of(raw.as_bytes()), "", "{raw}");
        }
    }

    #[test]
    fn launches_are_parsed_whatever_is_missing() {
        let launch_of = |parts: &[&[u8]]| {
            let mut key = vec![SliceKind::Kernel as u8];
            join(&mut key, parts);
            facts_of(&key, &mut |_| StringId::EMPTY).launch.unwrap()
        };
        let launch = Launch {
            grid: [4, 8, 32],
            block: [8, 32, 1],
            registers_per_thread: Some(80),
            shared_bytes: Some(6400),
            recorded_occupancy: Some(37),
        };
        assert_eq!(launch_of(&[b"[4, 8,32]", b"[ 8, 32, 1 ]", b"80", b"6400", b"37"]), launch);
        let launch =
            Launch { grid: [1, 0, 0], shared_bytes: Some(512), recorded_occupancy: Some(100), ..Default::default() };
        assert_eq!(launch_of(&[b"[1]", b"", b"-3", b"\"512\"", b"99.6"]), launch);
        // None recorded is not the same as none used.
        let found = |registers: &[u8], shared: &[u8]| {
            let launch = launch_of(&[b"[1]", b"[64]", registers, shared, b""]);
            (launch.registers_per_thread, launch.shared_bytes)
        };
        assert_eq!([found(b"", b""), found(b"0", b"0")], [(None, None), (Some(0), Some(0))]);
        assert_eq!(sides_of(b"[99999999999, x]"), [0; 3]);
        assert_eq!(number_in::<u8>(b"300"), None);
    }

    #[test]
    fn a_kernel_may_be_a_collective_of_a_graph_and_a_wait_says_for_what() {
        let text = br#"[
            {"ph":"X","cat":"kernel","name":"ncclDevKernel","pid":0,"tid":7,"ts":5,"dur":2,"args":{"grid":[2,1,1],
                "graph id":3,"graph node id":12884901890,"Collective name":"allreduce","In msg nelems":10,
                "Out msg nelems":20,"Group size":8,"dtype":"BFloat16","Process Group Name":"0","Seq":41,
                "Process Group Ranks":[0, 1]}},
            {"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":2,"ts":1,"dur":1,"args":{
                "Input Dims":[[10]],"Collective name":"allreduce","Process Group ID":5,"dtype":"Mystery"}},
            {"ph":"X","cat":"kernel","name":"plain","pid":0,"tid":7,"ts":9,"dur":2,"args":{"grid":[2,1,1],
                "graph id":0,"graph node id":0}},
            {"ph":"X","cat":"cuda_sync","name":"Event Sync","pid":0,"tid":-1,"ts":20,"dur":2,"args":{"stream":-1,
                "cuda_sync_kind":"Event Sync","wait_on_stream":7,"wait_on_cuda_event_record_corr_id":99,
                "wait_on_cuda_event_id":8}}
        ]"#;
        let mut assembly = Assembly::default();
        let _ = pipeline::read(&text[..], &Progress::default(), &mut assembly);
        let trace = assembly.finish(&Default::default()).finish();
        let facts = &trace.facts;
        let find =
            |name: &str| (0..trace.slices.len() as u32).map(SliceId).find(|&id| trace.slice_name(id) == name).unwrap();
        let (nccl, plain) = (find("ncclDevKernel"), find("plain"));
        assert_eq!(facts.launches.id(nccl), facts.launches.id(plain));
        assert_eq!(facts.graph_nodes.get(nccl), Some(&GraphNode { graph: 3, exec: 0, node: 12_884_901_890 }));
        assert_eq!((facts.graph_nodes.get(plain), facts.collectives.get(plain)), (None, None));
        let text = |id| trace.strings.get(id);
        let call = facts.collectives.get(nccl).unwrap();
        assert_eq!([call.op, call.group, call.dtype, call.ranks].map(text), ["allreduce", "0", "BFloat16", "[0, 1]"]);
        assert_eq!(
            (call.n_ranks, call.seq, call.in_bytes(), call.out_bytes()),
            (Some(8), Some(41), Some(20), Some(40))
        );
        let op = find("record_param_comms");
        let call = facts.collectives.get(op).unwrap();
        assert_eq!((text(call.group), call.seq, call.in_bytes()), ("5", None, None));
        assert_eq!(trace.input_shapes(op), "[[10]]");
        let wait = Synchronization {
            kind: SyncKind::Event,
            stream: None,
            event: Some(8),
            event_stream: Some(7),
            event_record: 99,
        };
        assert_eq!(facts.syncs.get(find("Event Sync")), Some(&wait));
        assert_eq!([facts.syncs.len(), facts.collectives.len(), facts.launches.len()], [1, 2, 2]);
    }

    #[test]
    fn copies_have_a_direction_and_a_kind_of_host_memory() {
        for (name, bytes, expected) in [
            ("Memcpy HtoD (Pageable -> Device)", "65536", (CopyKind::HtoD, Some(65_536), Some(true))),
            ("Memcpy DtoH (Device -> Pinned)", "", (CopyKind::DtoH, None, Some(false))),
            ("Memcpy DtoD (Device -> Device)", "2", (CopyKind::DtoD, Some(2), None)),
            ("CopyHostToDevice", "1e3", (CopyKind::HtoD, Some(1000), None)),
            ("something else", "-1", (CopyKind::Unknown, None, None)),
        ] {
            let copy = copy_of(SliceKind::Memcpy, name.as_bytes(), bytes.as_bytes());
            assert_eq!((copy.kind, copy.bytes, copy.is_pageable), expected, "{name}");
            assert_eq!(copy_of(SliceKind::Memset, name.as_bytes(), bytes.as_bytes()).kind, CopyKind::Memset);
        }
    }
}
