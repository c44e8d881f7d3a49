//! The report as data: its keys in JSON are a contract, and their order is theirs here.
//!
//! Times are integer nanoseconds on the session clock, shares lie between 0 and 1. What does not
//! apply is absent.

use serde::Serialize;

use crate::analysis::memory::leaks::Severity as LeakSeverity;
use crate::model::{DurNs, Severity, TableAccount, TimeNs};

/// Version of the keys: goes up when one changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

/// A list cut to the rows asked for. In JSON it is just the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut<T> {
    pub shown: Vec<T>,
    /// How many rows were left out.
    pub n_hidden: usize,
}

impl<T> Cut<T> {
    /// Whether there was nothing to list.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// The first `top` of `all`; 0 keeps all. What is left out is not even made.
    pub fn new(all: impl IntoIterator<IntoIter: ExactSizeIterator<Item = T>>, top: usize) -> Self {
        let all = all.into_iter();
        let n_hidden = if top == 0 { 0 } else { all.len().saturating_sub(top) };
        let n_shown = all.len() - n_hidden;
        Self { shown: all.take(n_shown).collect(), n_hidden }
    }
}

impl<T: Serialize> Serialize for Cut<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown.serialize(serializer)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub schema: u32,
    /// Version of the program.
    pub lacuna: &'static str,
    pub files: Vec<File>,
    pub clock: Clock,
    /// From the first start to the last end of all traces, on the session clock.
    pub span_ns: [TimeNs; 2],
    pub devices: Vec<Device>,
    pub operators: Cut<Operator>,
    pub kernels: Cut<Kernel>,
    pub copies: Cut<Copies>,
    pub apis: Cut<Api>,
    /// Calls of the operating system, where the recorder traced them.
    #[serde(skip_serializing_if = "Cut::is_empty")]
    pub os_calls: Cut<Api>,
    pub annotations: Cut<Annotation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<Memory>,
}

/// What became of one file, or of one member of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct File {
    pub path: String,
    pub format: &'static str,
    /// Size as it lies on disk.
    pub bytes: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub producer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    pub events: Events,
    /// The same by table, where the format has tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableAccount>,
    pub problems: Vec<Problem>,
}

/// `read == shown + merged + rejected`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Events {
    pub read: u64,
    pub shown: u64,
    pub merged: u64,
    pub rejected: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub severity: Severity,
    pub reason: String,
    pub count: u64,
    /// Byte offset in the file's text, after decompression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_offset: Option<u64>,
}

/// Zero is the earliest start of all traces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Clock {
    /// Nanoseconds from 1970 to zero, if every file says when it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin_utc_ns: Option<TimeNs>,
    pub per_file: Vec<FileClock>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileClock {
    pub path: String,
    /// Add this to the file's times to get session times.
    pub offset_ns: DurNs,
    /// `utc`: by the time since 1970 that the file records; `start`: its first
    /// event is at zero, because not every file records that.
    pub source: &'static str,
}

/// `busy_ns + idle_ns == window_ns`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Device {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    pub device: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// From its first start to its last end.
    pub window_ns: DurNs,
    pub busy_ns: DurNs,
    pub idle_ns: DurNs,
    /// Busy share of the window.
    pub utilization: f64,
    pub kernels: Work,
    pub memcpys: Work,
    pub memsets: Work,
    /// CUDA graphs that were recorded as one, their kernels not told apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graphs: Option<Work>,
    pub streams: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Work {
    pub count: u64,
    pub total_ns: DurNs,
    pub union_ns: DurNs,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operator {
    pub name: String,
    /// Input shapes, where calls are told apart by them and they were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    pub calls: u64,
    pub host_total_ns: DurNs,
    pub host_self_ns: DurNs,
    /// Sum over the device work launched during the calls.
    pub device_total_ns: DurNs,
    pub device_self_ns: DurNs,
    /// Bytes allocated minus freed during the calls, if allocations were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_mem_bytes: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_mem_bytes: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kernel {
    pub name: String,
    pub calls: u64,
    pub total_ns: DurNs,
    pub mean_ns: DurNs,
    pub min_ns: DurNs,
    pub max_ns: DurNs,
    pub median_ns: DurNs,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub std_ns: Option<DurNs>,
    /// Of the time of all kernels, and of CUDA graphs recorded as one.
    pub share: f64,
    /// Blocks in x, y and z. This and the next three only where all calls have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<[u32; 3]>,
    /// Threads of a block in x, y and z.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<[u32; 3]>,
    /// Of one thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    /// Of one block, static and dynamic together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_bytes: Option<u32>,
    /// Theoretical, weighted by duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<f64>,
    /// As the recorder estimated it, weighted by duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_occupancy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Copies {
    pub kind: &'static str,
    pub count: u64,
    pub total_ns: DurNs,
    /// Sum over the copies whose size is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// 10^9 bytes per second, over the same copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gb_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pageable: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Api {
    pub name: String,
    pub calls: u64,
    pub total_ns: DurNs,
    pub mean_ns: DurNs,
    pub max_ns: DurNs,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Annotation {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    pub calls: u64,
    pub total_ns: DurNs,
    /// Sum over the ranges, each from the first start to the last end of the device work that was
    /// launched in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_ns: Option<DurNs>,
    /// Of that, the time in which any of the range's work ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_busy_ns: Option<DurNs>,
    /// Pieces of device work.
    pub launches: u64,
}

/// The memory of one device over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// -1 is the host.
    pub device: i32,
    /// Whose memory it is, where the file tells processes apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i64>,
    /// `snapshot`, `profiler`, `driver` or `memory_timeline`.
    pub source: &'static str,
    /// Those of the device; of a memory timeline the rows of the file.
    pub events: u64,
    pub peak_allocated_bytes: u64,
    /// Absent if the file has no times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_allocated_at: Option<TimeNs>,
    /// This and `end_reserved_bytes` only where the file says what was reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_reserved_bytes: Option<u64>,
    pub end_allocated_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_reserved_bytes: Option<u64>,
    pub start_allocated_bytes: u64,
    /// Of what is free at the end: 1 - sum of squares / square of the sum, over the free stretches of
    /// each segment; the mean of the segments, weighed with their free bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation: Option<f64>,
    /// Free at the end, but in segments that blocks keep from being given back to the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_pinned_bytes: Option<u64>,
    /// Mean of what is allocated over mean of what is reserved, by time; by event without times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
    /// In order of time.
    pub oom: Cut<Oom>,
    /// What is allocated where the peak is reached first.
    pub peak_by_stack: Cut<Held>,
    pub live_at_end: Cut<Held>,
    /// All memory together; absent without steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
    /// The likeliest first.
    pub leaks: Cut<Leak>,
    /// The worst of all leaks, those that are cut included.
    #[serde(skip)]
    pub worst_leak: Option<LeakSeverity>,
    /// Places that are no leak, with the reason; the most bytes first.
    pub no_leaks: Cut<Innocent>,
    /// What has more at the end than at the start, whatever the reason; the most bytes first.
    pub gains: Cut<Gain>,
    /// How far all this can be trusted: `low`, `medium` or `high`,
    pub confidence: &'static str,
    /// and why not further.
    pub doubts: Vec<String>,
}

/// What all memory of a device does from step to step, the warm-up left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// `growth`, `ratchet`, `fragmentation_growth`, `flat` or `too_few_steps`.
    pub verdict: &'static str,
    /// By what steps are told apart.
    pub step_source: String,
    pub steps: u64,
    /// The first steps, which are left out.
    pub warm_up: u64,
    /// Slopes of Theil and Sen: of live bytes at the ends of steps, of the peaks within them, of reserved
    /// bytes.
    pub bytes_per_step: i64,
    pub peak_bytes_per_step: i64,
    pub reserved_bytes_per_step: i64,
    /// Live bytes at the last step less those at the first that counts.
    pub growth_bytes: i64,
    /// Whether that is more than 1 MB a step in ten steps, or 100 MB in all.
    pub alarm: bool,
    /// Steps until memory runs out at this rate, if it grows and its size is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps_to_oom: Option<f64>,
}

/// A place whose memory is no leak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Innocent {
    /// As in [`Held`].
    pub stack: Vec<String>,
    #[serde(skip)]
    pub label: String,
    /// Live at the last step.
    pub bytes: i64,
    /// `warm_up_cache`, `setup`, `released`, `growing_buffer` or `offset`.
    pub verdict: &'static str,
}

/// A place that has more at the end of the recording than at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gain {
    /// As in [`Held`].
    pub stack: Vec<String>,
    #[serde(skip)]
    pub label: String,
    pub bytes: i64,
    /// Blocks more; may be fewer.
    pub count: i64,
}

/// `reserved_bytes == allocated_bytes + awaiting_free_bytes + inactive_bytes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Oom {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<TimeNs>,
    pub requested_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_free_bytes: Option<u64>,
    pub reserved_bytes: u64,
    pub allocated_bytes: u64,
    pub awaiting_free_bytes: u64,
    pub inactive_bytes: u64,
    /// Free where the request is served from: of `inactive_bytes` what lies in segments of its stream,
    /// private pool and size class.
    pub free_bytes: u64,
    /// The largest stretch of that.
    pub largest_free_bytes: u64,
    /// Free in all other segments.
    pub free_elsewhere_bytes: u64,
    /// What others have of the device, if its size is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub non_pytorch_bytes: Option<u64>,
    pub by_stack: Vec<Held>,
    /// Settings that might have helped, each with the fact that speaks for it.
    pub advice: Vec<String>,
}

/// Blocks that were allocated at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Innermost frame first, without those of the interpreter and the recorder; empty if unknown.
    pub stack: Vec<String>,
    /// The frame that stands for the stack in tables.
    #[serde(skip)]
    pub label: String,
    pub bytes: u64,
    pub count: u64,
}

/// A place whose memory grows step after step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leak {
    /// As in [`Held`].
    pub stack: Vec<String>,
    #[serde(skip)]
    pub label: String,
    pub bytes_per_step: i64,
    pub growth_bytes: i64,
    /// Blocks that outlived the step they were allocated in by another one.
    pub survivors: u64,
    /// Share of steps with a gain.
    pub monotonic: f64,
    pub r2: f64,
    /// Share of the growth of all suspects x `monotonic` x share of bytes with a stack: the order of the list.
    pub score: f64,
    /// `low`, `medium` or `high`.
    pub severity: &'static str,
    pub verdict: &'static str,
}
