//! What one stretch of one table holds: rows as what they become, ids local to the stretch.

use rusqlite::types::ValueRef;

use crate::model::{Interner, Launch, MemoryCopy, RawSlices, SliceKind, StringId, StringTable, TimeNs, TrackId};

use super::strings::Wanted;
use super::sync::{EventRecord, Wait};
use super::tally::{Reason, Tally};

/// Where a name is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameKey {
    Empty,
    /// A row of `StringIds`.
    Id(i64),
    /// The same, with the version that API calls carry: `cudaLaunchKernel_v7000`.
    Call(i64),
    /// A text of the part.
    Text(StringId),
    /// An NVTX domain of a process: (`globalPid`, `domainId`).
    Domain(i64, i64),
    /// A text that is the same for all rows.
    Fixed(&'static str),
    /// A text with a number after it.
    Numbered(&'static str, i64),
    /// The title of a table of the catalog.
    Table(usize),
    /// A row of `StringIds` that names a library; only its file's name is of interest.
    Module(i64),
    /// (`copyKind`, `srcKind`, `dstKind`) of a copy; -1 is unknown.
    Copy(i64, i64, i64),
    /// `memKind` of a memset; -1 is unknown.
    Memset(i64),
}

/// What a track is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackKey {
    /// Calls and ranges of a thread, by `globalTid`.
    Thread(i64),
    /// When the thread ran, by `globalTid`.
    Running(i64),
    /// Moments at which the thread was sampled, by `globalTid`.
    Samples(i64),
    /// NVTX ranges that begin and end anywhere, by the process's `globalPid`.
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
    /// Events of a table of the catalog that belong to a process but not to one of its threads; 0
    /// is no process.
    Table(i64, usize),
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CounterKey {
    GpuMetric { type_id: i64, metric_id: i64 },
    Network { adapter: i64, list: i64, index: i64 },
}

/// What a row says of its slice beyond the columns of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowFacts {
    /// With the `graphNodeId`; 0 is none.
    Launch(Launch, u64),
    /// The same.
    Copy(MemoryCopy, u64),
    /// A CUDA graph that was recorded as one.
    Graph {
        graph: u32,
        exec: u32,
    },
    Wait(Wait),
    /// The local id of a domain's name.
    Domain(u32),
}

/// A memory operation that CUPTI saw: bytes of one kind on one device.
#[derive(Clone, Copy, Debug)]
pub struct DriverMemoryEvent {
    pub ts: TimeNs,
    pub process: i64,
    pub device: i64,
    pub kind: i64,
    pub address: i64,
    pub bytes: i64,
    pub is_free: bool,
}

/// A thread that came onto a CPU or went off it.
#[derive(Clone, Copy, Debug)]
pub struct SchedEvent {
    pub ts: TimeNs,
    /// `globalTid`
    pub thread: i64,
    pub cpu: i64,
    pub is_in: bool,
    pub source: u64,
}

/// A moment at which a thread's call stack was taken.
#[derive(Clone, Copy, Debug)]
pub struct SampleEvent {
    /// Joins it with its frames.
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
pub struct Part {
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
    pub memory: Vec<DriverMemoryEvent>,
    pub sched: Vec<SchedEvent>,
    pub stack_samples: Vec<SampleEvent>,
    pub frames: Vec<Frame>,
    /// Names of NVTX domains, by (process, id).
    pub domains: Vec<((i64, i64), u32)>,
    /// `globalTid` and the name that the program gave the thread.
    pub thread_names: Vec<(i64, u32)>,
    /// What the recorder said of itself: (severity, name).
    pub diagnostics: Vec<(i64, u32)>,
    /// Rows of `StringIds` to keep, and those kept: (id, text).
    pub wanted: Wanted,
    pub strings: Vec<(i64, StringId)>,
    /// Of slices in a table that is known only by its columns.
    pub kind: SliceKind,
    /// Whether they nest with the calls of their thread.
    pub is_call: bool,
}

/// One row's cells, in the order of the columns asked for. What the table lacks is NULL.
pub type Cells<'a> = [ValueRef<'a>];

impl Part {
    /// A whole number, or nothing: NULL, or another type, which is counted.
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

    /// A whole number; 0 for nothing.
    #[inline(always)]
    pub fn int_or_0(&mut self, cell: ValueRef<'_>) -> i64 {
        self.int(cell).unwrap_or(0)
    }

    /// Start of a row; without one the row is counted as lost.
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

    /// Start and end of a row; without both, in order, the row is counted as lost.
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

/// The system's own number of a process or thread.
pub fn system_ids(id: i64) -> (i64, i64) {
    (id >> 24 & 0xff_ffff, id & 0xff_ffff)
}

/// The machine a process ran on: hardware and virtual machine.
pub fn machine_of(id: i64) -> i64 {
    id >> 48 & 0xffff
}
