//! The known correct answer of a generated input.

use std::collections::BTreeMap;

use serde::Serialize;

/// The known answer of one generated trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    pub schema: u32,
    pub kind: &'static str,
    pub seed: u64,
    pub steps: u32,
    /// Events in a Chrome trace, by what they are.
    #[serde(flatten)]
    pub events: Option<EventsAnswer>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceAnswer>,
    /// The idle time of each device with its planted causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<DeviceGapsAnswer>,
    /// What a memory snapshot holds.
    #[serde(flatten)]
    pub memory: Option<MemoryAnswer>,
    /// What the tables of a database hold.
    #[serde(flatten)]
    pub tables: Option<TablesAnswer>,
}

/// How many events of each form a Chrome trace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventsAnswer {
    pub slices: u64,
    pub flow_starts: u64,
    pub flow_ends: u64,
    pub instants: u64,
    pub metadata: u64,
}

/// What the tables of an nsys export hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TablesAnswer {
    /// Rows of each table.
    pub rows: BTreeMap<&'static str, u64>,
    /// By full name.
    pub kernels: BTreeMap<&'static str, Sum>,
    /// Calls of the CUDA runtime, without the version at the end of their names.
    pub calls: BTreeMap<&'static str, Sum>,
    /// Ranges of both kinds, by text.
    pub nvtx: BTreeMap<String, Sum>,
    /// By `copyKind`.
    pub copies: BTreeMap<i64, Sum>,
    pub memsets: Sum,
}

/// Count and duration of what has one name, and its size if it has any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    pub count: u64,
    pub ns: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
}

impl Sum {
    /// Adds one in `start..end` ns.
    pub fn add(&mut self, (start, end): (i64, i64)) {
        self.count += 1;
        self.ns += end - start;
    }

    /// Adds one in `start..end` ns that moved `bytes`.
    pub fn add_bytes(&mut self, range: (i64, i64), bytes: i64) {
        self.add(range);
        *self.bytes.get_or_insert(0) += bytes;
    }
}

impl Answer {
    pub(super) fn new(kind: &'static str, seed: u64, steps: u32, devices: Vec<DeviceAnswer>) -> Self {
        Self { schema: 1, kind, seed, steps, events: None, devices, gaps: Vec::new(), memory: None, tables: None }
    }

    pub(super) fn with_events(self, events: EventsAnswer) -> Self {
        Self { events: Some(events), ..self }
    }

    pub(super) fn with_gaps(self, gaps: Vec<DeviceGapsAnswer>) -> Self {
        Self { gaps, ..self }
    }

    pub(super) fn with_memory(self, memory: MemoryAnswer) -> Self {
        Self { memory: Some(memory), ..self }
    }

    pub(super) fn with_tables(self, tables: TablesAnswer) -> Self {
        Self { tables: Some(tables), ..self }
    }
}

/// The known answer of one GPU. All times in nanoseconds of the trace's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceAnswer {
    pub device: u32,
    pub kernels: u64,
    pub memcpys: u64,
    pub memsets: u64,
    /// CUDA graphs that are recorded as one piece, their kernels unseen.
    #[serde(skip_serializing_if = "is_zero")]
    pub graphs: u64,
    /// First start and last end of any kernel, copy, memset or graph.
    pub window: [i64; 2],
    pub window_ns: i64,
    /// Time in which at least one of them runs, on any stream.
    pub busy_ns: i64,
    /// The rest of the window: `window_ns == busy_ns + idle_ns`.
    pub idle_ns: i64,
    /// Maximal idle intervals inside the window.
    pub gaps: u64,
    /// Those of at least 30 µs.
    pub macro_gaps: u64,
    /// The macro gaps that were planted, in time order. Every gap of a millisecond or more is among them.
    pub planted: Vec<PlantedGap>,
}

// The signature is what `skip_serializing_if` asks for.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// An idle interval of the device with the reason for which the generator made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlantedGap {
    /// `loader`, `sync`, `allocator` or `gc`.
    pub cause: &'static str,
    /// The number in `ProfilerStep#`.
    pub step: u32,
    pub start_ns: i64,
    pub dur_ns: i64,
}

/// A class of a part of a gap, by its key in reports.
pub type Class = &'static str;

/// All idle time of one device between its first start and last end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceGapsAnswer {
    pub device: u32,
    pub window_ns: i64,
    pub count: u64,
    pub total_ns: i64,
    /// In gaps under a microsecond, which no list holds.
    pub micro_ns: i64,
    /// The others, in order of time.
    pub gaps: Vec<GapAnswer>,
}

/// A gap: what each nanosecond of it may be called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GapAnswer {
    /// From the earliest start in the file.
    pub start_ns: i64,
    pub dur_ns: i64,
    /// The names of the work before it and of the work that ends it.
    pub after: String,
    pub ended_by: String,
    /// In order of time; they sum to `dur_ns`.
    pub parts: Vec<PartAnswer>,
    /// Any of these is right; `null` stands for no trigger.
    pub triggers: Vec<Option<&'static str>>,
}

/// Some time of a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartAnswer {
    pub dur_ns: i64,
    /// Any of these is right.
    pub classes: Vec<Class>,
    /// Any of these may be its name, outermost first.
    pub names: Vec<String>,
    /// The user's frame, if one is recorded.
    /// Any of these may be its user frame; `null` stands for none.
    pub frames: Vec<Option<String>>,
    /// Whether it is a planted cause.
    pub is_planted: bool,
}

/// The known answer of a memory snapshot. All sizes in bytes; state 0 is before the first entry, state n
/// after n entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryAnswer {
    /// Entries in the file.
    pub entries: u64,
    /// What the device can give the allocator.
    pub device_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostHistory>,
    pub end: MemoryEnd,
    pub peak_allocated: Peak,
    pub peak_active: Peak,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom: Option<OutOfMemoryAnswer>,
    pub planted: Vec<PlantedMemory>,
}

/// Entries that the recorder overwrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LostHistory {
    pub entries: u64,
    /// Blocks whose free is in the file, but not their allocation.
    pub freed_from_before: u64,
}

/// Sums after the last entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryEnd {
    pub allocated: u64,
    /// With blocks that wait for a stream.
    pub active: u64,
    /// Requested by the program, of `allocated`.
    pub requested: u64,
    pub reserved: u64,
}

/// The first state with the highest sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Peak {
    pub state: u64,
    pub bytes: u64,
}

impl Peak {
    /// Takes the sum of a later state.
    pub(super) fn meet(&mut self, state: u64, bytes: u64) {
        if bytes > self.bytes {
            *self = Self { state, bytes };
        }
    }
}

/// The request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutOfMemoryAnswer {
    /// Its index in the file.
    pub entry: u64,
    pub requested: u64,
    pub device_free: u64,
    /// Free in the pool that was to serve it, and the largest free block there.
    pub inactive: u64,
    pub largest_inactive: u64,
    /// `fragmentation` if enough is free, but not in one piece; else `demand`.
    pub cause: &'static str,
    pub frame: Option<FrameAnswer>,
}

/// Something wrong with the program's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlantedMemory {
    /// `leak`, `ratchet`, `warm_up_cache`, `setup` or `fragmentation`.
    pub verdict: &'static str,
    /// The innermost line of the program's own code that allocates it.
    pub frame: Option<FrameAnswer>,
    /// By how much it grows in each step of its own, in blocks.
    pub bytes_per_step: u64,
    /// Those steps, from the first to the last; fewer if the run ends early.
    pub first_step: u32,
    pub last_step: u32,
}

/// A line of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FrameAnswer {
    pub name: &'static str,
    pub file: &'static str,
    pub line: u32,
}
