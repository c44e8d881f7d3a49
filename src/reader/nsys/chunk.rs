//! The parsed rows of a range of one table, sorted by type, with ids local to the chunk.

use std::sync::Arc;

use rusqlite::types::ValueRef;

use crate::model::{Interner, Launch, MemoryCopy, RawSlices, SliceKind, StringId, StringTable, TimeNs, TrackId};

use super::file_access::FileAccess;
use super::generic::EventTypes;
use super::strings::WantedStrings;
use super::sync::{EventRecord, Wait};
use super::tally::{Reason, Tally};

/// The source of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameKey {
    Empty,
    /// A row of `StringIds`.
    Id(i64),
    /// A row of `StringIds`, another one with a source file, and the line there.
    Line(i64, i64, i64),
    /// A row of `StringIds` with the version suffix of API calls: `cudaLaunchKernel_v7000`.
    Call(i64),
    /// A text of the chunk.
    Text(StringId),
    /// An NVTX domain of a process: (`globalPid`, `domainId`).
    Domain(i64, i64),
    /// A text that is the same for all rows.
    Fixed(&'static str),
    /// A text with a number after it.
    Numbered(&'static str, i64),
    /// The title of a table of the catalog.
    Table(usize),
    /// A row of `StringIds` with the path of a library, of which only the file name is shown.
    Module(i64),
    /// (`copyKind`, `srcKind`, `dstKind`) of a copy; -1 is unknown.
    Copy(i64, i64, i64),
    /// `memKind` of a memset; -1 is unknown.
    Memset(i64),
}

/// The key of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackKey {
    /// Calls and ranges of a thread, by `globalTid`.
    Thread(i64),
    /// When the thread ran, by `globalTid`.
    Running(i64),
    /// CPU samples of a thread, by `globalTid`.
    Samples(i64),
    /// NVTX start/end ranges, by the process's `globalPid`.
    Ranges(i64),
    Stream {
        /// `globalPid`
        process: i64,
        device: i64,
        context: i64,
        green_context: i64,
        stream: i64,
    },
    /// Waits on a device, as CUPTI records them.
    Syncs { process: i64, device: i64 },
    /// Events of a table of the catalog that belong to a process but not to a thread; 0 stands for no
    /// process.
    Table(i64, usize),
}

/// The key of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CounterKey {
    GpuMetric { type_id: i64, metric_id: i64 },
    Network { adapter: i64, list: i64, index: i64 },
}

/// Facts of a slice that are not columns of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowFacts {
    /// With the `graphNodeId`; 0 without one.
    Launch(Launch, u64),
    /// The same.
    Copy(MemoryCopy, u64),
    /// A CUDA graph recorded as a whole.
    Graph {
        graph: u32,
        exec: u32,
    },
    Wait(Wait),
    /// The local id of a domain's name, and a color as 0xAARRGGBB, 0 for none.
    Range {
        domain: Option<u32>,
        color: u32,
    },
    PageFaults(u32),
}

/// A memory operation recorded by CUPTI: bytes of one kind on one device.
#[derive(Clone, Copy, Debug)]
pub struct MemoryUsage {
    pub ts: TimeNs,
    pub process: i64,
    pub device: i64,
    pub kind: i64,
    pub address: i64,
    pub bytes: i64,
    pub is_free: bool,
}

/// A thread that was scheduled on a CPU or descheduled.
#[derive(Clone, Copy, Debug)]
pub struct SchedEvent {
    pub ts: TimeNs,
    /// `globalTid`
    pub thread: i64,
    pub cpu: i64,
    pub is_in: bool,
    pub source: u64,
}

/// A sample of a thread's call stack.
#[derive(Clone, Copy, Debug)]
pub struct SampleEvent {
    /// Key of its frames.
    pub id: i64,
    pub ts: TimeNs,
    /// `globalTid`
    pub thread: i64,
    pub source: u64,
}

/// One frame of a sample's call stack.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub sample: i64,
    /// 0 is the innermost.
    pub depth: i64,
    pub name: u32,
}

/// Rows of one table.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Index of the table in the catalog.
    pub table: usize,
    pub n_read: u64,
    pub n_shown: u64,
    pub n_merged: u64,
    pub tally: Tally,
    pub names: Interner<NameKey>,
    pub texts: StringTable,
    pub tracks: Interner<TrackKey>,
    pub facts: Interner<RowFacts>,
    /// Names and tracks are local, and `facts` are 1 + an index into those here.
    pub slices: RawSlices,
    pub event_records: Vec<EventRecord>,
    /// By source.
    pub unfinished: Vec<u64>,
    pub instants: Vec<(TrackId, TimeNs, StringId, u64)>,
    /// (demangled name, short name) of kernels, as rows of `StringIds`.
    pub short_names: Interner<(i64, i64)>,
    pub counters: Interner<CounterKey>,
    /// (counter, time, value)
    pub samples: Vec<(u32, TimeNs, f64)>,
    /// (type, name) of metrics that rows name themselves.
    pub named_counters: Interner<(i64, StringId)>,
    pub named_samples: Vec<(u32, TimeNs, f64)>,
    pub event_types: Arc<EventTypes>,
    pub file_accesses: Vec<FileAccess>,
    pub memory: Vec<MemoryUsage>,
    pub sched: Vec<SchedEvent>,
    pub stack_samples: Vec<SampleEvent>,
    pub frames: Vec<Frame>,
    /// Names of NVTX domains, by (process, id).
    pub domains: Vec<((i64, i64), u32)>,
    /// `globalTid` and the thread name set by the program.
    pub thread_names: Vec<(i64, u32)>,
    /// Messages of the recorder: (severity, name, `globalPid` or 0).
    pub diagnostics: Vec<(i64, u32, i64)>,
    /// Rows of `StringIds` to keep, and those kept: (id, text).
    pub wanted: WantedStrings,
    pub strings: Vec<(i64, StringId)>,
    /// Kind of the slices in a table recognized only by its columns.
    pub kind: SliceKind,
    /// Whether these nest with the calls of their thread.
    pub is_call: bool,
}

/// The cells of one row, in the order of the requested columns. Missing columns are NULL.
pub type Cells<'a> = [ValueRef<'a>];

impl Chunk {
    /// An integer; `None` for NULL and for other types, which are counted.
    #[inline(always)]
    pub fn int(&mut self, cell: ValueRef<'_>) -> Option<i64> {
        match cell {
            ValueRef::Integer(value) => Some(value),
            ValueRef::Null => None,
            _ => {
                self.tally.add(Reason::BadValue, 1);
                None
            }
        }
    }

    /// An integer; 0 without one.
    #[inline(always)]
    pub fn int_or_0(&mut self, cell: ValueRef<'_>) -> i64 {
        self.int(cell).unwrap_or(0)
    }

    /// Start of a row; rows without one are counted as lost.
    #[inline(always)]
    pub fn time(&mut self, cell: ValueRef<'_>) -> Option<TimeNs> {
        match cell {
            ValueRef::Integer(value) => Some(value),
            ValueRef::Null => {
                self.tally.add(Reason::NoTime, 1);
                None
            }
            _ => {
                self.tally.add(Reason::BadTime, 1);
                None
            }
        }
    }

    /// Start and end of a row; rows without both, in order, are counted as lost.
    #[inline(always)]
    pub fn span(&mut self, start: ValueRef<'_>, end: ValueRef<'_>) -> Option<(TimeNs, TimeNs)> {
        if let (ValueRef::Integer(start), ValueRef::Integer(end)) = (start, end)
            && start <= end
        {
            return Some((start, end));
        }
        self.odd_span(start, end);
        None
    }

    #[inline(never)]
    fn odd_span(&mut self, start: ValueRef<'_>, end: ValueRef<'_>) {
        let reason = match (start, end) {
            (ValueRef::Null, _) => Reason::NoTime,
            (ValueRef::Integer(_), ValueRef::Null) => Reason::NoEnd,
            (ValueRef::Integer(_), ValueRef::Integer(_)) => Reason::EndBeforeStart,
            _ => Reason::BadTime,
        };
        self.tally.add(reason, 1);
    }

    /// Whether an `eventClass` stands for the start or the end of the tracing itself, which is not a call.
    ///
    /// Source: `ENUM_NSYS_EVENT_CLASS` of the exports, `TRACE_PROCESS_EVENT_*_START` and `_FINISH`.
    #[inline(always)]
    pub fn is_marker(&self, class: ValueRef<'_>) -> bool {
        match class {
            ValueRef::Integer(..=5) => false,
            ValueRef::Integer(class) => matches!(
                class,
                6..=11 | 31..=36 | 39 | 40 | 43..=46 | 55 | 56 | 63 | 64 | 68 | 69 | 72 | 73 | 79 | 80 | 84 | 85 | 87 | 88 | 90 | 91
            ),
            _ => false,
        }
    }

    /// Adds an event without a duration.
    pub fn instant(&mut self, track: TrackId, ts: TimeNs, name: StringId, source: u64) {
        self.n_shown += 1;
        self.instants.push((track, ts, name, source));
    }

    /// The local id of a name in `StringIds`.
    #[inline(always)]
    pub fn name(&mut self, cell: ValueRef<'_>) -> StringId {
        match self.int(cell) {
            Some(id) => self.key(NameKey::Id(id)),
            None => {
                self.tally.add(Reason::NoName, 1);
                self.key(NameKey::Empty)
            }
        }
    }

    /// The local id of a name.
    #[inline(always)]
    pub fn key(&mut self, key: NameKey) -> StringId {
        StringId(self.names.intern(key))
    }

    /// The local id of a text in the row itself.
    pub fn text(&mut self, bytes: &[u8]) -> StringId {
        let text = String::from_utf8_lossy(bytes);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            self.tally.add(Reason::BadText, 1);
        }
        let id = self.texts.intern(&text);
        self.key(NameKey::Text(id))
    }

    /// The local id of a track.
    #[inline(always)]
    pub fn track(&mut self, key: TrackKey) -> TrackId {
        TrackId(self.tracks.intern(key))
    }
}

/// The process of a thread: its `globalTid` without the thread.
///
/// Source: the ids' layout in the Nsight Systems guide, "Common SQLite Examples": 8 bits hardware,
/// 8 bits virtual machine, 24 bits process, 24 bits thread.
#[inline(always)]
pub fn process_of(thread: i64) -> i64 {
    thread & !0xff_ffff
}

/// The operating system's id of a process or thread.
pub fn system_ids(id: i64) -> (i64, i64) {
    (id >> 24 & 0xff_ffff, id & 0xff_ffff)
}

/// The machine of a process: hardware and virtual machine.
pub fn machine_of(id: i64) -> i64 {
    id >> 48 & 0xffff
}
