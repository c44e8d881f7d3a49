//! Overlays on the silent time of a thread: profiler overhead, loading of code, and time off the CPU.

use std::cell::Cell;

use super::host::{Activity, Segment, class_of, push};
use super::{Gap, GapClass, GapPart, Near, open_during};
use crate::analysis::host_roles::{Role, Roles, of_overhead, role_of};
use crate::model::time::partition_near;
use crate::model::{
    DurNs, Format, ON_CPU, ProcessId, Row, SliceId, SliceKind, TimeRange, Trace, Track, TrackId, TrackKind,
};

/// Disjoint times in ascending order, with the slice that names each.
pub type Spans = Vec<(TimeRange, Option<SliceId>)>;

/// Replaces the parts of segments within `range` that overlap `spans` and fit `is_covered`, which is asked of what the
/// spans before left of a segment.
///
/// A span without a slice leaves the segment its own.
///
/// * `near`: where it found the last range, and then this one: ranges that ascend are found at once.
/// * `out`: segments in order of time.
/// * Cost: O(segments + spans within).
pub fn overlay(
    spans: &[(TimeRange, Option<SliceId>)],
    near: &Cell<usize>,
    range: TimeRange,
    (class, activity): (GapClass, Activity),
    is_covered: impl Fn(&Segment) -> bool,
    out: &mut Vec<Segment>,
) {
    let first = partition_near(spans, near.get(), |(time, _)| time.end <= range.start);
    near.set(first);
    let mut spans = spans[first..].iter().take_while(|(time, _)| time.start < range.end).peekable();
    if spans.peek().is_none() {
        return;
    }
    let mut cut = Vec::with_capacity(out.len() + 2);
    for mut rest in out.drain(..) {
        while spans.next_if(|(span, _)| span.end <= rest.time.start).is_some() {}
        while let Some(&&(span, slice)) = spans.peek()
            && let Some(hit) = rest.time.intersect(span).filter(|_| is_covered(&rest))
        {
            if rest.time.start < hit.start {
                push(&mut cut, Segment { time: TimeRange { end: hit.start, ..rest.time }, ..rest });
            }
            push(&mut cut, Segment { time: hit, class, activity, slice: slice.or(rest.slice), ..rest });
            rest.time.start = hit.end;
            if rest.time.start == rest.time.end {
                break;
            }
            spans.next();
        }
        if rest.time.start < rest.time.end {
            push(&mut cut, rest);
        }
    }
    *out = cut;
}

/// Profiler overhead that stops all threads, and rows without a thread that say when device code was loaded.
#[derive(Debug, Default)]
pub struct Overheads {
    pub profiler: Spans,
    pub loading: Spans,
}

impl Overheads {
    /// Overhead on the track of a thread is judged with what else runs there: another thread did not do it.
    ///
    /// Cost: O(tracks + overhead rows · log); of nsys, O(slices of threads).
    pub fn new(trace: &Trace) -> Self {
        let mut out = Self::default();
        let slices = &trace.slices;
        let is_overhead = |i: usize| slices.kind[i] == SliceKind::Overhead;
        let is_nsys = trace.info.format == Format::Nsys;
        if is_nsys && !slices.has_kind(SliceKind::Overhead) {
            return out;
        }
        for row in &slices.rows {
            let has_thread = is_nsys && trace.track(row.track).kind == TrackKind::Thread;
            // Other recorders keep overhead on tracks of its own.
            if !has_thread && !row.range().next().is_some_and(is_overhead) {
                continue;
            }
            for slice in row.range().filter(|&i| is_overhead(i)).map(|i| SliceId(i as u32)) {
                let name = trace.slice_name(slice);
                let entry = (slices.time(slice), Some(slice));
                if stops_all(name, has_thread) {
                    out.profiler.push(entry);
                } else if !has_thread && of_overhead(name) == Role::ModuleLoad {
                    out.loading.push(entry);
                }
            }
        }
        for list in [&mut out.profiler, &mut out.loading] {
            disjoint(list);
        }
        out
    }
}

/// Whether the profiler stops the program while it does this: nsys when it writes its data (F1). Of CUPTI's overhead
/// without a thread nothing tells whom it stops.
fn stops_all(name: &str, has_thread: bool) -> bool {
    let lower = name.to_ascii_lowercase();
    let has_any = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    let is_own = lower.starts_with("cuda profiling");
    is_own && has_any(&["flush", "stop", "overhead"])
        || !has_thread && (is_own || has_any(&["flush", "stop", "activity buffer", "instrumentation", "resource"]))
}

/// The longest time in nanoseconds in which the silence of a thread is taken for what surrounds it. Real pauses in
/// compilers last up to 180 ms; in a longer one the program may do anything.
const LONGEST_SILENCE: DurNs = 500_000_000;

/// What is known of a thread while no slice of it works. Each time is at most [`LONGEST_SILENCE`] long.
#[derive(Debug)]
pub struct Silence {
    /// Between two calls in a row that compile, link or load code: the thread prepares the next, or waits for
    /// threads and processes that do. Of its other calls, none that launches, copies, allocates or synchronizes
    /// lies between. Named by the second call.
    ///
    /// XLA waits for `ptxas` between `cuLinkDestroy` and `cuModuleLoadFatBinary`; cuBLAS unpacks code between one
    /// `cuLibraryLoadData` and the next.
    pub loading: Spans,
    /// Between two recorded times on a CPU, at least as long as theta, unless a slice of the thread begins or ends
    /// in it: then a switch is missing from the recording.
    pub off_cpu: Spans,
}

impl Silence {
    /// Cost: O(n + m log n) for n slices of the thread, m calls that load code and times off the CPU; and the calls
    /// between the former, up to the first that does something else.
    pub fn new(trace: &Trace, thread: TrackId, roles: &mut Roles, theta: DurNs) -> Self {
        Self { loading: loading(trace, thread, roles), off_cpu: off_cpu(trace, thread, theta) }
    }
}

/// When any thread of a process loads or compiles code: its calls that do, and the silence between them. Where several
/// do, the first one counts.
///
/// Cost: O(slices of the process), and the cost of [`Silence`] for threads that load.
pub fn loading_of(trace: &Trace, process: ProcessId, roles: &mut Roles) -> Spans {
    let slices = &trace.slices;
    let mut out = Spans::new();
    for thread in trace.tracks_of(process) {
        let calls = trace.track_slices(thread).map(|i| SliceId(i as u32));
        let calls = calls.filter(|&call| slices.kind[call.idx()].is_call());
        let loads = calls.filter(|&call| roles.of(trace, call) == Role::ModuleLoad);
        let before = out.len();
        out.extend(loads.map(|call| (slices.time(call), Some(call))));
        if out.len() > before {
            out.extend(loading(trace, thread, roles));
        }
    }
    disjoint(&mut out);
    out
}

/// Sorts times; where they overlap, the first one counts.
fn disjoint(list: &mut Spans) {
    list.sort_unstable_by_key(|&(time, slice)| (time.start, slice));
    let mut end = i64::MIN;
    for (time, _) in list.iter_mut() {
        time.start = time.start.max(end).min(time.end);
        end = end.max(time.end);
    }
    list.retain(|(time, _)| time.start < time.end);
}

/// How much of a part, in nanoseconds, nothing was recorded of that is of its class by itself: a long first launch of a
/// kernel is taken for the loading of its code, silence between two loads for a part of them, time off the CPU for a
/// call that blocks.
pub fn inferred_ns(trace: &Trace, part: &GapPart) -> DurNs {
    let role = |slice: SliceId| role_of(trace.slices.kind[slice.idx()], trace.slice_name(slice));
    let recorded = match part.class {
        // Silence is named by the load that ends it, and may be one part with it.
        GapClass::ModuleLoad => part.slice.filter(|&slice| role(slice) == Role::ModuleLoad),
        GapClass::Blocked if part.slice.is_some_and(|slice| class_of(role(slice)) == GapClass::Blocked) => return 0,
        GapClass::Blocked => None,
        _ => return 0,
    };
    let recorded = recorded.and_then(|slice| trace.slices.time(slice).intersect(part.time));
    part.time.dur() - recorded.map_or(0, |time| time.dur())
}

/// Of a part whose class is inferred for most of its time: the thread of its slice, and when nothing of that class was
/// recorded there.
fn inferred_time(trace: &Trace, part: &GapPart) -> Option<(TrackId, TimeRange)> {
    let slice = part.slice.filter(|_| 2 * inferred_ns(trace, part) > part.time.dur())?;
    let (time, own) = (part.time, trace.slices.time(slice));
    let end = if own.start > time.start { own.start.min(time.end) } else { time.end };
    Some((trace.slices.track_of(slice), TimeRange { end, ..time }))
}

/// The call of the operating system in which the thread of a part is for most of the time that is inferred; `None` if
/// it is in none, or little is inferred. Cost: O(rows of the thread · log n).
pub fn waits_in(trace: &Trace, part: &GapPart) -> Option<SliceId> {
    let (thread, time) = inferred_time(trace, part)?;
    let open = open_during(trace, thread, time, &Near::none());
    open.into_iter().rev().find(|slice| trace.slices.kind[slice.idx()] == SliceKind::Os)
}

/// Calls of the operating system in which the thread of a part is in the time that is inferred, each with its time
/// there. Cost: O(rows of the thread · log n + slices within).
pub fn waits_within(trace: &Trace, part: &GapPart) -> Vec<(SliceId, DurNs)> {
    let Some((thread, time)) = inferred_time(trace, part) else { return Vec::new() };
    let slices = &trace.slices;
    let calls = trace.rows(thread).iter().flat_map(|row| slices.window(row, time));
    let calls = calls.filter(|&i| slices.kind[i] == SliceKind::Os).map(|i| SliceId(i as u32));
    calls.filter_map(|call| Some((call, slices.time(call).intersect(time)?.dur()))).collect()
}

fn loading(trace: &Trace, thread: TrackId, roles: &mut Roles) -> Spans {
    let slices = &trace.slices;
    let calls = trace.track_slices(thread).map(|i| SliceId(i as u32)).filter(|call| slices.kind[call.idx()].is_call());
    let mut loads: Vec<SliceId> = calls.filter(|&call| roles.of(trace, call) == Role::ModuleLoad).collect();
    // What is unloaded does not have to be loaded.
    loads.retain(|&load| !trace.slice_name(load).contains("Unload"));
    loads.sort_unstable_by_key(|&load| (slices.ts[load.idx()], load));
    let mut out = Spans::new();
    let Some(mut end) = loads.first().map(|load| slices.end[load.idx()]) else { return out };
    for &load in &loads[1..] {
        let time = TimeRange { start: end, end: slices.ts[load.idx()] };
        let mut begun = trace.rows(thread).iter().flat_map(|row| {
            let range = row.range();
            let first = range.start + slices.ts[range.clone()].partition_point(|&ts| ts < time.start);
            (first..range.end).take_while(|&i| slices.ts[i] < time.end).map(|i| SliceId(i as u32))
        });
        let mut acts = |call: SliceId| {
            slices.kind[call.idx()].is_call() && !matches!(roles.of(trace, call), Role::Call | Role::ModuleLoad)
        };
        if (1..=LONGEST_SILENCE).contains(&time.dur()) && !begun.any(&mut acts) {
            out.push((time, Some(load)));
        }
        end = end.max(slices.end[load.idx()]);
    }
    out
}

/// How long the thread of a part ran on a CPU in it, as the scheduler recorded it: that of its slice, else that which
/// launched the work after the gap; 0 where nothing was recorded of that. Cost: O(log n + times on a CPU within).
pub fn on_cpu_ns(trace: &Trace, gap: &Gap, part: &GapPart) -> DurNs {
    let slices = &trace.slices;
    let host = part.slice.filter(|_| part.class.is_host()).or_else(|| trace.launch_of(gap.ended_by));
    let Some(row) = host.and_then(|slice| on_cpu(trace, slices.track_of(slice))) else { return 0 };
    let inside = slices.window(row, part.time).filter_map(|i| slices.time(SliceId(i as u32)).intersect(part.time));
    inside.map(|time| time.dur()).sum()
}

/// When a thread ran on a CPU; `None` if that was not recorded.
fn on_cpu(trace: &Trace, thread: TrackId) -> Option<&Row> {
    let track = trace.track(thread);
    let name = track.name.clone() + ON_CPU;
    // The tracks of a thread lie beside each other, by name; another one of the same name is of another thread.
    let is_own = |other: &&Track| {
        other.process == track.process && other.name.starts_with(&track.name) && other.name != track.name
    };
    let mut own = trace.tracks[thread.0 as usize + 1..].iter().take_while(is_own);
    let at = own.position(|other| other.name == name)?;
    let [row] = trace.rows(TrackId(thread.0 + 1 + at as u32)) else { return None };
    Some(row)
}

fn off_cpu(trace: &Trace, thread: TrackId, theta: DurNs) -> Spans {
    let slices = &trace.slices;
    let Some(on_cpu) = on_cpu(trace, thread) else { return Spans::new() };
    let is_contradicted = |time: TimeRange| {
        let begins_or_ends =
            |times: &[i64]| times.get(times.partition_point(|&at| at <= time.start)).is_some_and(|&at| at < time.end);
        let mut rows = trace.rows(thread).iter().map(|row| row.range());
        rows.any(|row| begins_or_ends(&slices.ts[row.clone()]) || begins_or_ends(&slices.end[row]))
    };
    let range = on_cpu.range();
    let between = range.clone().zip(range.skip(1));
    let times = between.map(|(a, b)| TimeRange { start: slices.end[a], end: slices.ts[b] });
    let is_pause = |time: &TimeRange| (theta..=LONGEST_SILENCE).contains(&time.dur()) && !is_contradicted(*time);
    times.filter(is_pause).map(|time| (time, None)).collect()
}
