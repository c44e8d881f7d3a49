//! What do the args say of the work? Launch shapes, sizes of copies, shapes of inputs.
//!
//! Scanning takes these values as raw text; each distinct text is parsed once a block.

use hashbrown::HashMap;

use crate::model::{CopyKind, Launch, MemoryCopy, SliceKind, TraceBuilder};

use super::interner::Interner;
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
}

/// The keys that [`WorkArgs::slot`] knows.
pub const WORK_KEYS: [&[u8]; 8] = [
    b"grid",
    b"block",
    b"bytes",
    b"Input Dims",
    b"Input dims",
    b"shared memory",
    b"registers per thread",
    b"est. achieved occupancy %",
];

/// Separates the parts of a text that stands for several values.
const BETWEEN: u8 = 0x1f;

impl<'a> WorkArgs<'a> {
    /// Where the value of this key belongs, if anywhere.
    #[inline(always)]
    pub fn slot(&mut self, key: &[u8]) -> Option<&mut &'a [u8]> {
        // By length first: nearly all keys are others, and are told so by one jump.
        match key.len() {
            4 if key == b"grid" => Some(&mut self.grid),
            5 if key == b"block" => Some(&mut self.block),
            5 if key == b"bytes" => Some(&mut self.bytes),
            10 if key == b"Input Dims" || key == b"Input dims" => Some(&mut self.shapes),
            13 if key == b"shared memory" => Some(&mut self.shared),
            20 if key == b"registers per thread" => Some(&mut self.registers),
            25 if key == b"est. achieved occupancy %" => Some(&mut self.occupancy),
            _ => None,
        }
    }
}

/// The distinct texts of one block.
#[derive(Debug, Default)]
pub struct WorkTexts {
    shapes: Interner,
    /// Grid, block, registers, shared memory, occupancy.
    launches: Interner,
    /// Name, bytes.
    copies: Interner,
    /// The same of memsets.
    sets: Interner,
    key: Vec<u8>,
}

impl WorkTexts {
    /// 1 + the index of what is said of this event's work, 0 for nothing.
    #[inline(always)]
    pub fn attr(&mut self, kind: SliceKind, event: &Event<'_>) -> u32 {
        match kind {
            SliceKind::Operator if !event.work.shapes.is_empty() => self.shapes.intern(event.work.shapes).0 + 1,
            SliceKind::Kernel => self.launch(&event.work),
            SliceKind::Memcpy | SliceKind::Memset => {
                joined(&mut self.key, &[event.name, event.work.bytes]);
                let texts = if kind == SliceKind::Memset { &mut self.sets } else { &mut self.copies };
                texts.intern(&self.key).0 + 1
            }
            _ => 0,
        }
    }

    #[inline]
    fn launch(&mut self, args: &WorkArgs<'_>) -> u32 {
        let parts = [args.grid, args.block, args.registers, args.shared, args.occupancy];
        if parts.iter().all(|part| part.is_empty()) {
            return 0;
        }
        joined(&mut self.key, &parts);
        self.launches.intern(&self.key).0 + 1
    }
}

fn joined(key: &mut Vec<u8>, parts: &[&[u8]]) {
    key.clear();
    for part in parts {
        key.extend_from_slice(part);
        key.push(BETWEEN);
    }
}

/// Launches and copies of the whole file so far, each once.
#[derive(Debug, Default)]
pub struct WorkIds {
    launches: HashMap<Launch, u32>,
    copies: HashMap<MemoryCopy, u32>,
}

/// From a block's `attr` to the trace's, by kind.
#[derive(Debug)]
pub struct Attrs {
    shapes: Vec<u32>,
    launches: Vec<u32>,
    copies: Vec<u32>,
    sets: Vec<u32>,
}

impl Attrs {
    /// The trace's value of a block's `attr`.
    #[inline]
    pub fn of(&self, kind: SliceKind, attr: u32) -> u32 {
        let Some(index) = (attr as usize).checked_sub(1) else { return 0 };
        match kind {
            SliceKind::Operator => self.shapes[index],
            SliceKind::Kernel => self.launches[index],
            SliceKind::Memcpy => self.copies[index],
            SliceKind::Memset => self.sets[index],
            _ => 0,
        }
    }
}

impl WorkIds {
    /// Parses the texts of a block and puts what is new into the builder.
    pub fn absorb(&mut self, texts: &WorkTexts, builder: &mut TraceBuilder) -> Attrs {
        let shapes = texts.shapes.iter().map(|raw| builder.strings.intern(&shapes_of(raw)).0).collect();
        let launch = |raw| id_of(launch_of(raw), &mut self.launches, &mut builder.launches);
        let launches = texts.launches.iter().map(launch).collect();
        let mut copy = |kind, raw| id_of(copy_of(kind, raw), &mut self.copies, &mut builder.copies);
        let copies = texts.copies.iter().map(|raw| copy(SliceKind::Memcpy, raw)).collect();
        let sets = texts.sets.iter().map(|raw| copy(SliceKind::Memset, raw)).collect();
        Attrs { shapes, launches, copies, sets }
    }
}

/// 1 + the index of `value` in `all`, new or known; 0 if it says nothing.
fn id_of<T: Copy + Default + Eq + std::hash::Hash>(value: T, known: &mut HashMap<T, u32>, all: &mut Vec<T>) -> u32 {
    if value == T::default() {
        return 0;
    }
    *known.entry(value).or_insert_with(|| {
        all.push(value);
        all.len() as u32
    })
}

/// Input shapes with one spacing, `[[32, 64], [], [64]]`; empty for an empty list and for what is
/// no list.
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

fn launch_of(raw: &[u8]) -> Launch {
    let mut parts = raw.split(|&byte| byte == BETWEEN);
    let mut next = || parts.next().unwrap_or_default();
    Launch {
        grid: sides_of(next()),
        block: sides_of(next()),
        registers_per_thread: number_in(next()).unwrap_or(0),
        shared_bytes: number_in(next()).unwrap_or(0),
        recorded_occupancy: number_in(next()),
    }
}

/// The three numbers of `[256, 1, 1]`; 0 where there is none.
fn sides_of(raw: &[u8]) -> [u32; 3] {
    let inside = raw.trim_ascii().strip_prefix(b"[").and_then(|raw| raw.strip_suffix(b"]")).unwrap_or_default();
    let mut numbers = inside.split(|&byte| byte == b',').map(|raw| number_in(raw).unwrap_or(0));
    [(); 3].map(|()| numbers.next().unwrap_or(0))
}

/// A whole number, also as a string; a fraction is rounded.
fn number_in<T: TryFrom<u64>>(raw: &[u8]) -> Option<T> {
    let raw = raw.trim_ascii();
    let raw = raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\"")).unwrap_or(raw);
    let text = std::str::from_utf8(raw).ok()?;
    let rounded = || text.parse::<f64>().ok().filter(|number| (0.0..1e15).contains(number)).map(|n| n.round() as u64);
    T::try_from(text.parse().ok().or_else(rounded)?).ok()
}

fn copy_of(kind: SliceKind, raw: &[u8]) -> MemoryCopy {
    let mut parts = raw.split(|&byte| byte == BETWEEN);
    let name = unescape(parts.next().unwrap_or_default());
    let bytes = parts.next().and_then(number_in);
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
        let launch = trace.launch(find("gemm")).unwrap();
        assert_eq!((launch.grid, launch.block, launch.recorded_occupancy), ([2, 1, 1], [64, 1, 1], None));
        assert_eq!((trace.launch(find("again")), trace.launches.len()), (Some(launch), 1));
        assert_eq!(trace.launch(find("bare")), None);
        let set = MemoryCopy { kind: CopyKind::Memset, bytes: Some(128), is_pageable: None };
        assert_eq!(trace.copy(find("Memset (Device)")), Some(&set));
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
        let mut key = Vec::new();
        joined(&mut key, &[b"[4, 8,32]", b"[ 8, 32, 1 ]", b"80", b"6400", b"37"]);
        let launch = Launch {
            grid: [4, 8, 32],
            block: [8, 32, 1],
            registers_per_thread: 80,
            shared_bytes: 6400,
            recorded_occupancy: Some(37),
        };
        assert_eq!(launch_of(&key), launch);
        joined(&mut key, &[b"[1]", b"", b"-3", b"\"512\"", b"99.6"]);
        let launch = Launch { grid: [1, 0, 0], shared_bytes: 512, recorded_occupancy: Some(100), ..Default::default() };
        assert_eq!(launch_of(&key), launch);
        assert_eq!(sides_of(b"[99999999999, x]"), [0; 3]);
        assert_eq!(number_in::<u8>(b"300"), None);
    }

    #[test]
    fn copies_are_told_apart_by_direction_and_host_memory() {
        let mut key = Vec::new();
        for (name, bytes, expected) in [
            ("Memcpy HtoD (Pageable -> Device)", "65536", (CopyKind::HtoD, Some(65_536), Some(true))),
            ("Memcpy DtoH (Device -> Pinned)", "", (CopyKind::DtoH, None, Some(false))),
            ("Memcpy DtoD (Device -> Device)", "2", (CopyKind::DtoD, Some(2), None)),
            ("CopyHostToDevice", "1e3", (CopyKind::HtoD, Some(1000), None)),
            ("something else", "-1", (CopyKind::Unknown, None, None)),
        ] {
            joined(&mut key, &[name.as_bytes(), bytes.as_bytes()]);
            let copy = copy_of(SliceKind::Memcpy, &key);
            assert_eq!((copy.kind, copy.bytes, copy.is_pageable), expected, "{name}");
            assert_eq!(copy_of(SliceKind::Memset, &key).kind, CopyKind::Memset);
        }
    }
}
