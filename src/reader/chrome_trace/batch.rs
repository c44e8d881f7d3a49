//! The parsed events of one block of text, sorted by type, with ids local to the block.

use crate::model::{
    CounterUnit, FlowEnd, FlowPoint, RawSlice, RawSlices, SliceKind, StringId, TimeNs, TrackId, hash_bytes,
};

use super::interner::Interner;
use super::kind::kind_of;
use super::lenient::value_after;
use super::number::TimeError;
use super::scalar::Time;
use super::scan::Event;
use super::tally::{Reason, Tally};
use super::text;
use super::work::WorkTexts;

/// A `B` or `E` event.
#[derive(Clone, Copy, Debug)]
pub struct BeginEnd {
    pub is_begin: bool,
    /// `end` equals `ts` until the events are paired.
    pub slice: RawSlice,
}

/// The phase of an asynchronous or object event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncPhase {
    Begin,
    End,
    Instant,
}

/// An event of an operation without a thread: `b e n S T p F`, and `N O D` of objects.
#[derive(Clone, Copy, Debug)]
pub struct AsyncEvent {
    pub phase: AsyncPhase,
    /// Legacy operations (`S T p F`) are identified by name as well as id.
    pub is_legacy: bool,
    pub track: TrackId,
    pub name: StringId,
    pub category: StringId,
    pub id: u64,
    pub ts: TimeNs,
    pub source: u64,
}

/// One value of a `C` event.
#[derive(Clone, Copy, Debug)]
pub struct CounterSample {
    pub track: TrackId,
    pub name: StringId,
    pub series: StringId,
    pub ts: TimeNs,
    pub value: f64,
    pub unit: CounterUnit,
}

/// A `[memory]` event: bytes that PyTorch's allocator allocated or freed.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocatorEvent {
    pub track: TrackId,
    pub ts: TimeNs,
    /// 0 is the CPU, 1 CUDA.
    pub device_type: i64,
    pub device_id: i64,
    /// Negative when freed.
    pub bytes: i64,
    /// Missing in recordings of 2021.
    pub addr: Option<u64>,
    pub allocated: Option<i64>,
    pub reserved: Option<i64>,
    pub source: u64,
}

impl AllocatorEvent {
    /// Index of the device; -1 is the host.
    pub fn device(&self) -> i32 {
        if self.device_type == 0 { -1 } else { self.device_id.clamp(0, i64::from(i32::MAX)) as i32 }
    }
}

/// An `M` event.
#[derive(Clone, Debug)]
pub struct Metadata {
    pub track: TrackId,
    pub key: String,
    pub value: serde_json::Value,
}

/// The events of one block. String and track ids index the block's own interners.
#[derive(Debug, Default)]
pub struct Batch {
    pub n_read: u64,
    pub n_merged: u64,
    pub n_shown: u64,
    /// Raw contents of JSON strings: names, categories, names of counter series.
    pub names: Interner,
    /// Process and thread id, each as written, with a byte 0x1f between.
    pub tracks: Interner,
    /// Their `facts` are numbers of `work`.
    pub slices: RawSlices,
    /// Tracks with what CUPTI's range profiler counted for kernels.
    pub counted: Vec<TrackId>,
    /// Names of slices without a category that JAX or TensorFlow number as steps.
    pub step_names: Vec<StringId>,
    pub work: WorkTexts,
    pub flows: Vec<FlowPoint>,
    /// Category and name of each flow group, with a byte 0x1f between.
    pub flow_groups: Interner,
    pub begin_ends: Vec<BeginEnd>,
    pub asyncs: Vec<AsyncEvent>,
    pub instants: Vec<(TrackId, TimeNs, StringId, u64)>,
    pub samples: Vec<CounterSample>,
    pub memory: Vec<AllocatorEvent>,
    pub metadata: Vec<Metadata>,
    pub tally: Tally,
    last_track: (Vec<u8>, Vec<u8>, TrackId),
    key: Vec<u8>,
}

/// The category of what CUPTI's range profiler counted for a kernel. Kineto has them share the recorded time evenly.
const COUNTED: &[u8] = b"cuda_profiler_range";
/// The argument with which JAX's `StepTraceAnnotation` and TensorFlow's `Trace` number a step.
const STEP_NUMBER: &[u8] = b"step_num";
const LONG_NAME: usize = 65_536;

impl Batch {
    /// Adds one event, whose text starts at `source`.
    #[inline(always)]
    pub fn push(&mut self, event: &Event<'_>, source: u64) {
        self.n_read += 1;
        if event.has_text_number {
            self.tally.count(Reason::TextNumber, source);
        }
        if event.is_deep {
            self.tally.count(Reason::DeepArgs, source);
        }
        if event.phase != b'X' {
            return self.push_other(event, source);
        }
        let (ts, dur) = match (event.ts, event.dur) {
            (Time::Ns(ts), Time::Ns(dur)) => (ts, dur),
            (Time::Ns(_), Time::Absent) => return self.tally.count(Reason::NoDuration, source),
            (Time::Ns(_), bad) | (bad, _) => return self.reject_time(event, bad, source),
        };
        if dur < 0 {
            return self.tally.count(Reason::NegativeDuration, source);
        }
        let Some(end) = ts.checked_add(dur) else {
            return self.tally.count(Reason::TimeOutOfRange, source);
        };
        let slice = self.slice(event, ts, end, source);
        self.n_shown += 1;
        self.slices.push(slice);
    }

    #[inline(always)]
    fn slice(&mut self, event: &Event<'_>, ts: TimeNs, end: TimeNs, source: u64) -> RawSlice {
        let mut kind = kind_of(event.category);
        let (track, name) = (self.track(event), self.name(event, source));
        if kind == SliceKind::Other && event.category == COUNTED && self.counted.last() != Some(&track) {
            self.counted.push(track);
        }
        if kind == SliceKind::Other && event.category.is_empty() && value_after(event.args, STEP_NUMBER).is_some() {
            kind = SliceKind::Annotation;
            self.step_names.push(name);
        }
        RawSlice {
            ts,
            end,
            name,
            kind,
            track,
            correlation: event.correlation,
            external: event.external,
            facts: self.work.facts(kind, event),
            source,
        }
    }

    fn reject_time(&mut self, event: &Event<'_>, time: Time, source: u64) {
        let reason = match time {
            Time::Absent if event.phase == 0 => Reason::NoPhase,
            Time::Absent | Time::Ns(_) => Reason::NoTime,
            Time::Bad(TimeError::NotANumber) => Reason::BadTime,
            Time::Bad(TimeError::OutOfRange) if event.ts == time => Reason::LooksLikeNanoseconds,
            Time::Bad(TimeError::OutOfRange) => Reason::TimeOutOfRange,
        };
        self.tally.count(reason, source);
    }

    #[inline(always)]
    fn name(&mut self, event: &Event<'_>, source: u64) -> StringId {
        let (id, is_new) = self.names.intern(event.name);
        if is_new {
            self.check_new_name(event.name, source);
        }
        StringId(id)
    }

    #[inline(never)]
    fn check_new_name(&mut self, name: &[u8], source: u64) {
        if name.len() > LONG_NAME {
            self.tally.count(Reason::LongName, source);
        }
        let is_plain = name.is_ascii() && memchr::memchr(b'\\', name).is_none();
        if !is_plain && text::is_damaged(name) {
            self.tally.count(Reason::BadText, source);
        }
    }

    #[inline(always)]
    fn track(&mut self, event: &Event<'_>) -> TrackId {
        let (pid, tid, track) = &self.last_track;
        if pid == event.pid && tid == event.tid && !self.tracks.is_empty() {
            return *track;
        }
        self.new_track(event.pid, event.tid)
    }

    #[inline(never)]
    fn new_track(&mut self, pid: &[u8], tid: &[u8]) -> TrackId {
        self.key.clear();
        self.key.extend_from_slice(pid);
        self.key.push(0x1f);
        self.key.extend_from_slice(tid);
        let (last_pid, last_tid, track) = &mut self.last_track;
        for (last, id) in [(last_pid, pid), (last_tid, tid)] {
            last.clear();
            last.extend_from_slice(id);
        }
        *track = TrackId(self.tracks.intern(&self.key).0);
        *track
    }

    #[inline(never)]
    fn push_other(&mut self, event: &Event<'_>, source: u64) {
        if event.is_empty {
            self.n_merged += 1;
            return;
        }
        if event.phase == b'M' {
            return self.push_metadata(event);
        }
        let ts = match event.ts {
            Time::Ns(ts) => ts,
            bad => return self.reject_time(event, bad, source),
        };
        match event.phase {
            b's' => self.push_flow(event, FlowEnd::Start, ts, source),
            b't' => self.push_flow(event, FlowEnd::Step, ts, source),
            b'f' => self.push_flow(event, FlowEnd::End, ts, source),
            b'B' => self.push_begin_end(event, true, ts, source),
            b'E' => self.push_begin_end(event, false, ts, source),
            b'i' if event.name == b"[memory]" => self.push_memory(event, ts, source),
            b'i' | b'I' | b'R' | b'P' => self.push_instant(event, ts, source),
            b'C' => self.push_counter(event, ts, source),
            b'b' | b'S' | b'N' => self.push_async(event, AsyncPhase::Begin, ts, source),
            b'e' | b'F' | b'D' => self.push_async(event, AsyncPhase::End, ts, source),
            b'n' | b'T' | b'p' | b'O' => self.push_async(event, AsyncPhase::Instant, ts, source),
            b'c' | b'v' | b'V' | b'(' | b')' | b'=' => {
                self.n_merged += 1;
                self.tally.count(Reason::Context, source);
            }
            0 => self.tally.count(Reason::NoPhase, source),
            _ => self.tally.count(Reason::UnknownPhase, source),
        }
    }

    fn push_flow(&mut self, event: &Event<'_>, end: FlowEnd, ts: TimeNs, source: u64) {
        self.key.clear();
        self.key.extend_from_slice(event.category);
        self.key.push(0x1f);
        self.key.extend_from_slice(event.name);
        let group = self.flow_groups.intern(&self.key).0;
        let (track, name, id) = (self.track(event), self.name(event, source), id_number(event.id));
        // The format binds an arrow's end to the next slice unless it says `"bp": "e"`.
        let may_bind_next = end == FlowEnd::End && !event.binds_enclosing;
        self.flows.push(FlowPoint { track, ts, group, id, name, end, may_bind_next, source });
    }

    fn push_begin_end(&mut self, event: &Event<'_>, is_begin: bool, ts: TimeNs, source: u64) {
        let slice = self.slice(event, ts, ts, source);
        self.begin_ends.push(BeginEnd { is_begin, slice });
    }

    fn push_instant(&mut self, event: &Event<'_>, ts: TimeNs, source: u64) {
        self.n_shown += 1;
        let instant = (self.track(event), ts, self.name(event, source), source);
        self.instants.push(instant);
    }

    fn push_async(&mut self, event: &Event<'_>, phase: AsyncPhase, ts: TimeNs, source: u64) {
        let is_legacy = matches!(event.phase, b'S' | b'T' | b'p' | b'F');
        let category = StringId(self.names.intern(event.category).0);
        let id = id_number(event.id) ^ if event.scope.is_empty() { 0 } else { hash_bytes(event.scope) };
        let (track, name) = (self.track(event), self.name(event, source));
        self.asyncs.push(AsyncEvent { phase, is_legacy, track, name, category, id, ts, source });
    }

    fn push_counter(&mut self, event: &Event<'_>, ts: TimeNs, source: u64) {
        let Ok(serde_json::Value::Object(args)) = serde_json::from_slice(event.args) else {
            return self.tally.count(Reason::BadCounter, source);
        };
        let mut name = event.name.to_vec();
        if !event.id.is_empty() {
            name.extend_from_slice(b" [");
            name.extend_from_slice(event.id);
            name.push(b']');
        }
        let (track, name) = (self.track(event), StringId(self.names.intern(&name).0));
        let mut n_values = 0;
        for (series, value) in &args {
            let number = value.as_f64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
            let Some(value) = number.filter(|number| number.is_finite()) else { continue };
            let series = StringId(self.names.intern(series.as_bytes()).0);
            self.samples.push(CounterSample { track, name, series, ts, value, unit: CounterUnit::Plain });
            n_values += 1;
        }
        match n_values {
            0 => self.tally.count(Reason::BadCounter, source),
            _ => self.n_shown += 1,
        }
    }

    fn push_memory(&mut self, event: &Event<'_>, ts: TimeNs, source: u64) {
        let Some(mut memory) = memory_of(event.args) else {
            return self.push_instant(event, ts, source);
        };
        memory.ts = ts;
        memory.source = source;
        memory.track = self.track(event);
        self.n_shown += 1;
        self.memory.push(memory);
    }

    fn push_metadata(&mut self, event: &Event<'_>) {
        self.n_merged += 1;
        let Ok(serde_json::Value::Object(mut args)) = serde_json::from_slice(event.args) else { return };
        let key = text::unescape(event.name).into_owned();
        let wanted = match key.as_str() {
            "process_labels" => "labels",
            "process_sort_index" | "thread_sort_index" => "sort_index",
            _ => "name",
        };
        let Some(value) = args.swap_remove(wanted) else { return };
        let track = self.track(event);
        self.metadata.push(Metadata { track, key, value });
    }

    /// Empty again, with the memory of what most files have much of.
    pub fn recycled(self) -> Self {
        let Self { mut names, mut tracks, mut slices, mut work, mut flows, mut flow_groups, .. } = self;
        [&mut names, &mut tracks, &mut flow_groups].into_iter().for_each(Interner::clear);
        slices.clear();
        work.clear();
        flows.clear();
        Self { names, tracks, slices, work, flows, flow_groups, ..Self::default() }
    }
}

/// An id as a number: as written if it is one, else a hash of its text.
fn id_number(text: &[u8]) -> u64 {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    let slow = || {
        let text = text::unescaped(text);
        number(&text).unwrap_or_else(|| hash_bytes(&text) | 1 << 63)
    };
    number(text).unwrap_or_else(slow)
}

fn memory_of(args: &[u8]) -> Option<AllocatorEvent> {
    #[derive(serde::Deserialize)]
    struct Args {
        #[serde(rename = "Bytes")]
        bytes: i64,
        #[serde(rename = "Device Type")]
        device_type: i64,
        #[serde(rename = "Device Id", default)]
        device_id: i64,
        #[serde(rename = "Addr")]
        addr: Option<serde_json::Value>,
        #[serde(rename = "Total Allocated")]
        allocated: Option<i64>,
        #[serde(rename = "Total Reserved")]
        reserved: Option<i64>,
    }
    let args: Args = serde_json::from_slice(args).ok()?;
    Some(AllocatorEvent {
        device_type: args.device_type,
        device_id: args.device_id,
        bytes: args.bytes,
        addr: args.addr.and_then(|addr| addr.as_u64().or_else(|| addr.as_i64().map(|addr| addr as u64))),
        allocated: args.allocated,
        reserved: args.reserved,
        ..Default::default()
    })
}

/// Kinds of slices whose process is a device.
pub fn is_on_device(kind: SliceKind) -> bool {
    kind.is_device_work() || kind == SliceKind::GpuAnnotation
}
