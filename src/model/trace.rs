//! A complete recording.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use hashbrown::HashMap;

use super::{
    AllocationTable, CorrelationIndex, Counter, DurNs, FactTables, FlowTable, Format, ImportReport, InstantTable,
    MemoryHistory, Process, ProcessId, Row, SampleTable, SliceId, SliceKind, SliceTable, StackTable, StringId,
    StringTable, SyncKind, Synchronization, TimeNs, TimeRange, Tint, Track, TrackId, TrackKind,
};

/// One recording of one process of a job. Immutable once read, and shared as `Arc<Trace>`.
#[derive(Debug, Default)]
pub struct Trace {
    pub info: TraceInfo,
    pub strings: StringTable,
    /// The shade of each string's [`Tint`]; one entry per string.
    pub name_shades: Vec<u8>,
    pub processes: Vec<Process>,
    /// In display order: by process, kind, then the file's sort index.
    pub tracks: Vec<Track>,
    pub slices: SliceTable,
    /// The rows of each track, as indices into `slices.rows`; one entry per track.
    pub track_rows: Vec<std::ops::Range<u32>>,
    pub instants: InstantTable,
    pub counters: Vec<Counter>,
    /// Optional data of slices.
    pub facts: FactTables,
    /// Allocations and frees recorded by a profiler.
    pub allocations: AllocationTable,
    /// The replayed memory history of each recorded device; by source, then device.
    pub memories: Vec<MemoryHistory>,
    pub stacks: StackTable,
    /// Stack samples of threads.
    pub samples: SampleTable,
    /// Recorded short names of kernels, by full name.
    pub short_names: HashMap<StringId, StringId>,
    pub flows: FlowTable,
    pub correlations: CorrelationIndex,
    /// From the first start to the last end, without outliers such as events at time 0 in a
    /// recording of this century. Empty (`0..0`) if nothing has a time.
    pub span: TimeRange,
    pub import: ImportReport,
    /// Decodes event data that is not in the columns. `None` for traces that were not read from a file.
    pub details: Option<Arc<dyn Details>>,
}

/// Bits of the source of an event that are the number of a row, where the others are the index of a table.
pub const SOURCE_ROW_BITS: u32 = 48;

/// Metadata of a file.
#[derive(Clone, Debug, Default)]
pub struct TraceInfo {
    /// The file; `member` is its name inside an archive.
    pub path: PathBuf,
    pub member: Option<String>,
    pub format: Format,
    /// Size of the file on disk.
    pub bytes: u64,
    /// Size of its text after decompression.
    pub text_bytes: u64,
    /// The program that wrote it: `PyTorch profiler (Kineto)`, `VizTracer`, …
    pub producer: String,
    pub rank: Option<u32>,
    pub world_size: Option<u32>,
    /// Offset from trace time to nanoseconds since 1970, if recorded.
    pub utc_offset_ns: Option<DurNs>,
    /// By id, ascending.
    pub devices: Vec<DeviceInfo>,
    /// The recorder looked for GPUs and found none: the machine has none, or the program is built for none.
    pub found_no_gpu: bool,
    /// The recorder read hardware counters for each kernel, and no times of theirs: see [`super::KERNEL_COUNTERS`].
    pub counted_kernels: bool,
    /// The names of ranges that the recorder numbers as steps, ascending.
    pub step_names: Vec<StringId>,
    /// Of a database: its tables, whose index stands in the sources of events above [`SOURCE_ROW_BITS`].
    pub source_tables: Vec<String>,
    /// Other metadata in file order: (key, text). Never contains the recorded environment variables.
    pub facts: Vec<(String, String)>,
}

impl TraceInfo {
    /// What is known of a device.
    pub fn device(&self, id: u32) -> Option<&DeviceInfo> {
        DeviceInfo::with_id(&self.devices, id)
    }

    /// A short name for headings: the file's name without its folders.
    pub fn title(&self) -> String {
        let file = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match &self.member {
            Some(member) => format!("{file}: {member}"),
            None => file,
        }
    }
}

/// A GPU of the recording machine, used or not.
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

impl DeviceInfo {
    /// The first with this id among devices that ascend by it.
    pub fn with_id(devices: &[Self], id: u32) -> Option<&Self> {
        devices.get(devices.partition_point(|device| device.id < id)).filter(|device| device.id == id)
    }

    /// Whether it is one of AMD's, by its name.
    pub fn is_amd(&self) -> bool {
        ["AMD", "Radeon", "Instinct", "gfx"].iter().any(|maker| self.name.contains(maker))
    }
}

/// Data of one event that is not in the columns, decoded from the file on demand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventDetails {
    /// Arguments in file order, as text: (key, value).
    pub args: Vec<(String, String)>,
    /// Call stack, innermost frame first.
    pub stack: Vec<String>,
    /// Category as the file writes it.
    pub category: String,
}

/// Decodes event data that is not in the columns. May read files: do not call it on the frame thread.
pub trait Details: Debug + Send + Sync {
    /// Decodes the event whose text starts at `source`.
    ///
    /// * `start`: the time that its text has, where known, see [`Trace::recorded_start`]: damage in a database may lead
    ///   to another event.
    ///
    /// Errors: a message for the user, such as that the file has changed.
    fn event(&self, source: u64, start: Option<TimeNs>) -> Result<EventDetails, String>;
}

/// Rows of a thread, from the top, at which is looked for what the thread did at an instant: that costs as much as
/// slices are open then. Python itself ends a program that calls deeper than 1,000 functions.
pub const MOST_ROWS: usize = 1500;

impl Trace {
    /// Whether it holds nothing that can be shown.
    pub fn is_empty(&self) -> bool {
        let has_moments = !self.instants.ts.is_empty() || !self.samples.ts.is_empty() || !self.counters.is_empty();
        self.slices.is_empty() && !has_moments && self.memories.is_empty()
    }

    /// What is known of the device that its work has this number of.
    ///
    /// PyTorch numbers the devices that the process sees, and the recorder of AMD's the devices of the machine: where
    /// one is listed and all work is on one other, it is that. Cost: O(processes).
    pub fn device_of_work(&self, id: u32) -> Option<&DeviceInfo> {
        self.info.device(id).or_else(|| {
            let [only] = &self.info.devices[..] else { return None };
            let mut worked = self.processes.iter().filter_map(|process| process.device);
            worked.all(|other| other == id).then_some(only)
        })
    }

    /// The start of a slice, if that is the time in the file's text of it: annotations on a device start with the work
    /// in them.
    pub fn recorded_start(&self, slice: SliceId) -> Option<TimeNs> {
        let is_projected = self.slices.kind[slice.idx()] == SliceKind::GpuAnnotation;
        (!is_projected).then_some(self.slices.ts[slice.idx()])
    }

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

    /// Slices of threads in rows below the first [`MOST_ROWS`].
    pub fn n_too_deep(&self) -> u64 {
        let threads = (0..self.tracks.len()).filter(|&i| self.tracks[i].kind == TrackKind::Thread);
        let below = threads.flat_map(|i| self.rows(TrackId(i as u32)).iter().skip(MOST_ROWS));
        below.map(|row| row.range().len() as u64).sum()
    }

    /// The tracks of a process, which lie beside each other.
    pub fn tracks_of(&self, process: ProcessId) -> impl Iterator<Item = TrackId> + Clone + use<> {
        let range = self.track_range(process);
        (range.start as u32..range.end as u32).map(TrackId)
    }

    /// The rows of all tracks of a process.
    pub fn rows_of(&self, process: ProcessId) -> &[Row] {
        let ranges = &self.track_rows[self.track_range(process)];
        match (ranges.first(), ranges.last()) {
            (Some(first), Some(last)) => &self.slices.rows[first.start as usize..last.end as usize],
            _ => &[],
        }
    }

    fn track_range(&self, process: ProcessId) -> std::ops::Range<usize> {
        let start = self.tracks.partition_point(|track| track.process < process);
        start..start + self.tracks[start..].partition_point(|track| track.process == process)
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

    /// The recorded input shapes of an operator: `[[32, 64], []]`. Empty if unknown.
    pub fn input_shapes(&self, id: SliceId) -> &str {
        self.strings.get(self.facts.shapes.get(id).copied().unwrap_or_default())
    }

    /// The NVTX domain of an annotation. Empty for the default one.
    pub fn domain(&self, id: SliceId) -> &str {
        self.strings.get(self.facts.domains.get(id).copied().unwrap_or_default())
    }

    /// The object of a synchronization: from its own record, else for an API call from the record with its
    /// correlation id, else from the call's name. `None` if the slice does not synchronize.
    pub fn sync(&self, id: SliceId) -> Option<Synchronization> {
        if let Some(&sync) = self.facts.syncs.get(id) {
            return Some(sync);
        }
        if !self.slices.kind[id.idx()].is_call() {
            return None;
        }
        let kind = SyncKind::of_call(self.slice_name(id))?;
        let recorded = self.correlated(id).find_map(|other| self.facts.syncs.get(other).copied());
        Some(recorded.unwrap_or(Synchronization { kind, ..Default::default() }))
    }

    /// The [`Tint`] of a slice.
    pub fn slice_tint(&self, id: SliceId) -> Tint {
        if let Some(&color) = self.facts.colors.get(id) {
            return Tint::of_color(color);
        }
        let shade = self.name_shades.get(self.slices.name[id.idx()].0 as usize).copied().unwrap_or_default();
        Tint::new(self.slices.kind[id.idx()], shade)
    }

    /// The API call that launched this device work, by correlation id.
    #[inline]
    pub fn launch_of(&self, id: SliceId) -> Option<SliceId> {
        self.correlations.launch_of(id)
    }

    /// The device work that this API call launched; a CUDA graph launches many.
    pub fn launched_by(&self, id: SliceId) -> impl Iterator<Item = SliceId> {
        let ids = &self.slices.correlation;
        let found = self.correlations.slices(ids, ids[id.idx()]);
        // Calls come first; of one id there may be many.
        let work = &found[found.partition_point(|other| self.slices.kind[other.idx()].is_call())..];
        work.iter().copied().filter(move |&other| other != id && self.slices.kind[other.idx()].is_device_work())
    }

    /// The device work whose [`Self::launch_of`] this API call is.
    pub fn launches(&self, call: SliceId) -> impl Iterator<Item = SliceId> {
        let ids = &self.slices.correlation;
        let found = self.correlations.slices(ids, ids[call.idx()]);
        let work = if found.first() == Some(&call) { &found[1..] } else { &[] };
        work.iter().copied().filter(|work| self.slices.kind[work.idx()].is_device_work())
    }

    fn correlated(&self, id: SliceId) -> impl Iterator<Item = SliceId> {
        let ids = &self.slices.correlation;
        self.correlations.slices(ids, ids[id.idx()]).iter().copied().filter(move |&other| other != id)
    }
}
