//! A recording as a whole.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use hashbrown::HashMap;

use super::{
    AllocationTable, CorrelationIndex, Counter, DurNs, FlowTable, Format, ImportReport, InstantTable, Launch,
    MemoryCopy, MemoryHistory, Process, ProcessId, Row, SampleTable, SliceId, SliceKind, SliceTable, StackId,
    StackTable, StringId, StringTable, TimeNs, TimeRange, Track, TrackId,
};

/// One recording of one process of a job. Immutable once read, and shared as `Arc<Trace>`.
#[derive(Debug, Default)]
pub struct Trace {
    pub info: TraceInfo,
    pub strings: StringTable,
    /// The name's half of each string's [`tint`]; one entry a string.
    pub name_tints: Vec<u8>,
    pub processes: Vec<Process>,
    /// Sorted as they are to be shown: by process, then by kind and the file's own wishes.
    pub tracks: Vec<Track>,
    pub slices: SliceTable,
    /// The rows of each track, as indices into `slices.rows`; one entry a track.
    pub track_rows: Vec<std::ops::Range<u32>>,
    pub instants: InstantTable,
    pub counters: Vec<Counter>,
    /// Each launch shape once; kernels refer to them by [`SliceTable::attr`].
    pub launches: Vec<Launch>,
    /// Each sort of copy once; memcpys and memsets refer to them by [`SliceTable::attr`].
    pub copies: Vec<MemoryCopy>,
    /// What an allocator gave out and took back, as a profiler saw it.
    pub allocations: AllocationTable,
    /// The memory of each device of which the file tells, replayed; by source, then by device.
    pub memories: Vec<MemoryHistory>,
    pub stacks: StackTable,
    /// Where threads were when a sampling profiler looked.
    pub samples: SampleTable,
    /// The short names of kernels, by the full ones, where the file has them.
    pub short_names: HashMap<StringId, StringId>,
    pub flows: FlowTable,
    pub correlations: CorrelationIndex,
    /// From the first start to the last end, without outliers such as events at time 0 in a
    /// recording of this century. Empty (`0..0`) if nothing has a time.
    pub span: TimeRange,
    pub import: ImportReport,
    /// Decodes what the columns leave out. `None` for traces that were not read from a file.
    pub details: Option<Arc<dyn Details>>,
}

/// What a file says about itself.
#[derive(Clone, Debug, Default)]
pub struct TraceInfo {
    /// The file, and for a file inside an archive its name there.
    pub path: PathBuf,
    pub member: Option<String>,
    pub format: Format,
    /// Size of the file as it lies on disk.
    pub bytes: u64,
    /// Size of its text after decompression.
    pub text_bytes: u64,
    /// What wrote it: `PyTorch profiler (Kineto)`, `VizTracer`, …
    pub producer: String,
    pub rank: Option<u32>,
    pub world_size: Option<u32>,
    /// What to add to the trace's times to get nanoseconds since 1970, if the file says so.
    pub utc_offset_ns: Option<DurNs>,
    pub devices: Vec<DeviceInfo>,
    /// Further facts in the order of the file: (key, text). Never the recorded environment.
    pub facts: Vec<(String, String)>,
}

impl TraceInfo {
    /// A short name for headings: the file's name without its folders.
    pub fn title(&self) -> String {
        let file = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match &self.member {
            Some(member) => format!("{file}: {member}"),
            None => file,
        }
    }
}

/// A GPU that the recording machine had, whether or not it ran anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    pub id: u32,
    pub name: String,
    pub total_memory_bytes: Option<u64>,
    pub n_sms: Option<u32>,
    pub compute_major: Option<u32>,
    pub compute_minor: Option<u32>,
    pub threads_per_warp: Option<u32>,
    pub max_warps_per_sm: Option<u32>,
    pub max_blocks_per_sm: Option<u32>,
    pub registers_per_sm: Option<u32>,
    pub shared_bytes_per_sm: Option<u32>,
}

/// What one event says beyond its columns, decoded from the file when a person looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventDetails {
    /// Arguments in file order, as text: (key, value).
    pub args: Vec<(String, String)>,
    /// Call stack, innermost frame first.
    pub stack: Vec<String>,
    /// Category as the file writes it.
    pub category: String,
}

/// Fetches what the columns leave out. May read files, so never call it on the frame thread.
pub trait Details: Debug + Send + Sync {
    /// Decodes the event whose text starts at `source`.
    ///
    /// Errors: a sentence for the person, such as that the file has changed.
    fn event(&self, source: u64) -> Result<EventDetails, String>;
}

impl Trace {
    pub fn track(&self, id: TrackId) -> &Track {
        &self.tracks[id.0 as usize]
    }

    pub fn process(&self, id: ProcessId) -> &Process {
        &self.processes[id.0 as usize]
    }

    /// The rows of a track, from top to bottom.
    pub fn rows(&self, track: TrackId) -> &[Row] {
        let range = &self.track_rows[track.0 as usize];
        &self.slices.rows[range.start as usize..range.end as usize]
    }

    /// The slices of a track, all rows, as indices. Sorted by row, then time.
    pub fn track_slices(&self, track: TrackId) -> std::ops::Range<usize> {
        match self.rows(track) {
            [] => 0..0,
            rows => rows[0].slices.start as usize..rows[rows.len() - 1].slices.end as usize,
        }
    }

    /// The name of a slice.
    pub fn slice_name(&self, id: SliceId) -> &str {
        self.strings.get(self.slices.name[id.idx()])
    }

    /// The frames of a call stack, innermost first, a line each.
    pub fn stack_text(&self, stack: StackId) -> String {
        let frames: Vec<&str> = self.stacks.frames(stack).map(|frame| self.strings.get(frame)).collect();
        frames.join("\n")
    }

    /// How a kernel was launched, if it is one and the recording says so.
    pub fn launch(&self, id: SliceId) -> Option<&Launch> {
        let is_kernel = self.slices.kind[id.idx()] == SliceKind::Kernel;
        self.launches.get((self.slices.attr[id.idx()] as usize).checked_sub(1)?).filter(|_| is_kernel)
    }

    /// What a memcpy or memset moved, if it is one and the recording says so.
    pub fn copy(&self, id: SliceId) -> Option<&MemoryCopy> {
        let is_copy = matches!(self.slices.kind[id.idx()], SliceKind::Memcpy | SliceKind::Memset);
        self.copies.get((self.slices.attr[id.idx()] as usize).checked_sub(1)?).filter(|_| is_copy)
    }

    /// The input shapes of an operator as its recorder wrote them: `[[32, 64], []]`. Empty if
    /// unknown.
    pub fn input_shapes(&self, id: SliceId) -> &str {
        self.attr_text(id, SliceKind::Operator)
    }

    /// The domain of an annotation, such as NVTX has them. Empty for the default one.
    pub fn domain(&self, id: SliceId) -> &str {
        self.attr_text(id, SliceKind::Annotation)
    }

    fn attr_text(&self, id: SliceId, kind: SliceKind) -> &str {
        let is_kind = self.slices.kind[id.idx()] == kind;
        self.strings.get(if is_kind { StringId(self.slices.attr[id.idx()]) } else { StringId::EMPTY })
    }

    /// The [`tint`] of a slice.
    pub fn slice_tint(&self, id: SliceId) -> u8 {
        let name = self.name_tints.get(self.slices.name[id.idx()].0 as usize).copied().unwrap_or_default();
        (self.slices.kind[id.idx()] as u8) << 4 | name
    }

    /// The API call that launched this device work, by correlation id.
    pub fn launch_of(&self, id: SliceId) -> Option<SliceId> {
        self.correlated(id).next().filter(|other| self.slices.kind[other.idx()].is_call())
    }

    /// The device work that this API call launched; a CUDA graph launches many.
    pub fn launched_by(&self, id: SliceId) -> impl Iterator<Item = SliceId> {
        self.correlated(id).filter(|&other| self.slices.kind[other.idx()].is_device_work())
    }

    fn correlated(&self, id: SliceId) -> impl Iterator<Item = SliceId> {
        let ids = &self.slices.correlation;
        self.correlations.slices(ids, ids[id.idx()]).iter().copied().filter(move |&other| other != id)
    }

    /// The innermost slice of `track` that is running at `ts`.
    pub fn slice_at(&self, track: TrackId, ts: TimeNs) -> Option<SliceId> {
        let at = TimeRange { start: ts, end: ts.saturating_add(1) };
        let in_row = |row: &Row| {
            let window = self.slices.window(row, at);
            window.rev().find(|&i| self.slices.end[i] > ts || self.slices.ts[i] == ts)
        };
        self.rows(track).iter().rev().find_map(in_row).map(|i| SliceId(i as u32))
    }
}

/// The byte from which a slice gets its color: its kind in the high half, a hash of its name in
/// the low. The name's part is the same in every trace.
pub fn tint(kind: SliceKind, name: &str) -> u8 {
    (kind as u8) << 4 | (super::hash_bytes(name.as_bytes()) >> 60) as u8
}
