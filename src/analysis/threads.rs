//! The part that each track plays: which threads launch device work, which only wait, which streams hardly work, and
//! which tracks are of one thread or stream.

use std::ops::Range;

use hashbrown::HashMap;

use super::host_roles::{Waits, is_inside_wait, waits};
use crate::model::{
    DurNs, ON_CPU, Row, SliceId, SliceKind, StringId, TimeNs, TimeRange, Trace, Track, TrackId, TrackKind,
};

/// Device work whose launches are looked up, in the whole trace.
const MAX_WORK: usize = 8192;
/// Outermost slices of a thread that are looked at, and moments of it.
const MAX_OUTERMOST: usize = 64;
/// A thread of which only its time on CPUs is known hardly runs below this share of the trace.
const HARDLY: f64 = 0.01;
/// So many of these moments may show something else on a row that only passes on.
const MAX_OTHER: usize = 2;
/// Slices of a row of a stream whose durations are looked at.
const MAX_DURATIONS: usize = 512;
/// A stream hardly works if the busiest of its device works more than so many times as long.
const QUIETER: f64 = 10.0;
/// Parts of the names of calls and functions that wait, in lower case.
const WAITS: [&str; 9] = ["wait", "poll", "select", "sleep", "futex", "join", "acquire", "park", "idle"];

/// What a thread is for, the most telling first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It runs the steps of the training loop.
    Steps,
    #[default]
    Other,
    /// It runs the backward pass of PyTorch for another thread.
    Autograd,
}

/// The part that one track plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// How many of the sampled kernels and copies it launched.
    pub n_launches: u32,
    pub role: Role,
    /// A thread that only waits, or hardly runs, and so do its other tracks; a stream that hardly works beside another
    /// of its device.
    pub is_idle: bool,
    /// A thread in which hardly anything but waits took time.
    pub is_quiet: bool,
    /// The track whose thread or stream it is of as well, such as that of samples.
    pub of: Option<TrackId>,
    /// How many of the outermost rows of a thread only pass on to the next: nearly all the time they show one and the
    /// same slice, or none. No annotation is in one of them. Never all.
    pub n_passing: u32,
}

impl Part {
    /// What a thread does, in words; `None` if nothing tells.
    pub fn words(&self) -> Option<&'static str> {
        match (self.role, self.n_launches) {
            (Role::Steps, _) => Some("steps"),
            (Role::Autograd, _) => Some("backward pass"),
            (Role::Other, 0) => None,
            (Role::Other, _) => Some("launches GPU work"),
        }
    }
}

/// Whether a track shows the calls of a thread that only waits: what runs there is no work. How long such a thread was
/// on a CPU is true of it all the same.
pub fn only_waits(track: &Track, part: Part) -> bool {
    part.is_idle && track.kind == TrackKind::Thread && !track.name.ends_with(ON_CPU)
}

/// The parts of all tracks.
///
/// Where all threads are idle, none is said to be.
///
/// Cost: O(tracks); of the slices, a number that does not grow with the trace is looked at.
pub fn parts(trace: &Trace) -> Vec<Part> {
    let mut parts = vec![Part::default(); trace.tracks.len()];
    count_launches(trace, &mut parts);
    find_owners(trace, &mut parts);
    let threads = || (0..).map(TrackId).zip(&trace.tracks).filter(|(_, track)| track.kind == TrackKind::Thread);
    let mut is_active = vec![false; parts.len()];
    for (id, _) in threads() {
        parts[id.0 as usize].role = role(trace, id);
        parts[id.0 as usize].n_passing = n_passing(trace, id);
        parts[id.0 as usize].is_quiet = is_quiet(trace, id);
        let part = parts[id.0 as usize];
        if part.n_launches > 0 || is_active_track(trace, id) {
            is_active[part.of.unwrap_or(id).0 as usize] = true;
        }
    }
    if is_active.contains(&true) {
        for (id, _) in threads() {
            let part = &mut parts[id.0 as usize];
            part.is_idle = !is_active[part.of.unwrap_or(id).0 as usize];
        }
    }
    find_quiet_streams(trace, &mut parts);
    parts
}

fn find_quiet_streams(trace: &Trace, parts: &mut [Part]) {
    let streams = (0..).map(TrackId).zip(&trace.tracks).filter(|(_, track)| track.kind == TrackKind::Stream);
    let worked: Vec<_> = streams.map(|(id, track)| (id, track.process, work_ns(trace, id))).collect();
    let mut most: HashMap<_, f64> = HashMap::new();
    for &(_, process, ns) in &worked {
        let most = most.entry(process).or_default();
        *most = most.max(ns);
    }
    for (id, process, ns) in worked {
        parts[id.0 as usize].is_idle = ns * QUIETER < most.get(&process).copied().unwrap_or_default();
    }
}

/// About how long the device work of a track takes, in nanoseconds: from a sample of it.
fn work_ns(trace: &Trace, id: TrackId) -> f64 {
    let slices = &trace.slices;
    let of_row = |row: &Row| {
        let step = row.range().len().div_ceil(MAX_DURATIONS).max(1);
        let sampled = row.range().step_by(step).filter(|&i| slices.kind[i].is_device_work());
        sampled.map(|i| slices.time(SliceId(i as u32)).dur() as f64).sum::<f64>() * step as f64
    };
    trace.rows(id).iter().map(of_row).sum()
}

fn count_launches(trace: &Trace, parts: &mut [Part]) {
    let rows = || trace.slices.rows.iter().filter(|row| trace.track(row.track).kind == TrackKind::Stream);
    let n: usize = rows().map(|row| row.range().len()).sum();
    let step = n.div_ceil(MAX_WORK).max(1);
    for launch in rows().flat_map(|row| row.range().step_by(step)).take(2 * MAX_WORK) {
        let id = SliceId(launch as u32);
        if trace.slices.kind[launch].is_device_work()
            && let Some(launch) = trace.launch_of(id)
        {
            parts[trace.slices.track_of(launch).0 as usize].n_launches += 1;
        }
    }
}

/// Tracks named `X: Y` are of the track named `X` of the same thread or stream; without one, of the first of them.
fn find_owners(trace: &Trace, parts: &mut [Part]) {
    let base = |track: &Track| {
        let title = track.title();
        title.rsplit_once(": ").map_or(title.as_str(), |(base, _)| base).to_owned()
    };
    let is_owned = |track: &Track| track.kind != TrackKind::Counter && !track.tid.is_empty();
    let mut owners: HashMap<_, TrackId> = HashMap::new();
    let ids = || (0..).map(TrackId).zip(&trace.tracks).filter(|(_, track)| is_owned(track));
    for (id, track) in ids() {
        let owner = owners.entry((track.process, track.tid.clone(), base(track))).or_insert(id);
        if !track.name.contains(": ") {
            *owner = id;
        }
    }
    for (id, track) in ids().filter(|(_, track)| track.name.contains(": ")) {
        let owner = owners.get(&(track.process, track.tid.clone(), base(track)));
        parts[id.0 as usize].of = owner.copied().filter(|&owner| owner != id);
    }
}

/// The threads that run the backward pass of PyTorch for others. Cost: O(1) a track.
pub fn of_backward_pass(trace: &Trace) -> impl Iterator<Item = TrackId> {
    let threads = (0..).map(TrackId).zip(&trace.tracks).filter(|(_, track)| track.kind == TrackKind::Thread);
    threads.map(|thread| thread.0).filter(|&id| role(trace, id) == Role::Autograd)
}

/// By the names of outermost slices.
fn role(trace: &Trace, id: TrackId) -> Role {
    let Some(row) = trace.rows(id).first() else { return Role::Other };
    let step = row.range().len().div_ceil(MAX_OUTERMOST).max(1);
    let of = |i: usize| match trace.slice_name(SliceId(i as u32)) {
        name if name.starts_with("ProfilerStep") => Some(Role::Steps),
        name if name.starts_with("autograd::engine") => Some(Role::Autograd),
        _ => None,
    };
    row.range().step_by(step).filter_map(of).min().unwrap_or_default()
}

/// Whether a slice of the host is a wait, by its name. What the profiler does on a thread is no work of it either.
fn is_wait(trace: &Trace, i: usize) -> bool {
    let (slices, slice) = (&trace.slices, SliceId(i as u32));
    let waits = || match waits(slices.kind[i], trace.slice_name(slice)) {
        Waits::Never | Waits::ForBackward => false,
        Waits::Always => true,
        Waits::InsideWait => is_inside_wait(trace, slice),
    };
    slices.kind[i] == SliceKind::Overhead || says_wait(trace.slice_name(slice)) || waits()
}

fn says_wait(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WAITS.iter().any(|word| name.contains(word))
}

/// Whether outermost slices of a thread that are no waits take hardly any of the time of all of them, and none is an
/// operator or a call of the API. Cost: O(outermost slices).
pub fn hardly_works(trace: &Trace, id: TrackId) -> bool {
    let Some(row) = trace.rows(id).first() else { return false };
    let mut known: HashMap<(SliceKind, StringId), bool> = HashMap::new();
    let (mut ran, mut all) = (0.0, 0.0);
    for i in row.range() {
        let kind = trace.slices.kind[i];
        if is_work(kind) {
            return false;
        }
        let dur = trace.slices.time(SliceId(i as u32)).dur() as f64;
        let waits = *known.entry((kind, trace.slices.name[i])).or_insert_with(|| is_wait(trace, i));
        ran += if waits { 0.0 } else { dur };
        all += dur;
    }
    ran < HARDLY * all
}

fn is_work(kind: SliceKind) -> bool {
    matches!(kind, SliceKind::Operator | SliceKind::Runtime | SliceKind::Driver)
}

/// Whether samples of one thread are all in functions that wait, from some of them.
pub fn samples_wait(trace: &Trace, samples: Range<usize>) -> bool {
    let step = samples.len().div_ceil(MAX_OUTERMOST).max(1);
    let innermost = |i: usize| trace.stacks.frame[trace.samples.stack[i].0 as usize];
    samples.step_by(step).all(|i| says_wait(trace.strings.get(innermost(i))))
}

/// Whether outermost slices of a track of a thread that are no waits take less than [`HARDLY`] of the trace, from a
/// sample of them.
fn is_quiet(trace: &Trace, id: TrackId) -> bool {
    let Some(row) = trace.rows(id).first() else {
        return trace.counters.binary_search_by_key(&id, |counter| counter.track).is_err();
    };
    let step = row.range().len().div_ceil(MAX_OUTERMOST).max(1);
    let sampled = row.range().step_by(step).filter(|&i| !is_wait(trace, i));
    let ran = sampled.map(|i| trace.slices.time(SliceId(i as u32)).dur() as f64).sum::<f64>() * step as f64;
    ran < HARDLY * trace.span.dur() as f64
}

/// Whether something but waits was recorded on a track of a thread.
fn is_active_track(trace: &Trace, id: TrackId) -> bool {
    let Some(row) = trace.rows(id).first() else {
        return trace.counters.binary_search_by_key(&id, |counter| counter.track).is_ok();
    };
    let (slices, all) = (&trace.slices, row.range());
    let step = all.len().div_ceil(MAX_OUTERMOST).max(1);
    let mut sampled = all.clone().step_by(step);
    if trace.track(id).name.ends_with(ON_CPU) {
        let (ran, n) = sampled.fold((0, 0), |(ran, n), i| (ran + slices.time(SliceId(i as u32)).dur(), n + 1));
        let whole = ran as f64 / f64::from(n.max(1)) * all.len() as f64;
        return whole >= HARDLY * trace.span.dur() as f64;
    }
    let is_work = |i: usize| is_work(slices.kind[i]);
    let is_wait = |i: usize| !is_work(i) && is_wait(trace, i);
    if sampled.clone().any(is_work) {
        return true;
    }
    // What it is in most of the time counts, not what it calls in between.
    let mut innermost = moments(trace, row).filter_map(|at| innermost(trace, id, at)).peekable();
    if innermost.peek().is_none() { sampled.any(|i| !is_wait(i)) } else { innermost.any(|i| !is_wait(i)) }
}

/// Moments from the first start to the last end of a row, evenly.
fn moments(trace: &Trace, row: &Row) -> impl Iterator<Item = TimeNs> + use<> {
    let (slices, all) = (&trace.slices, row.range());
    let time = TimeRange { start: slices.ts[all.start], end: slices.end[all.end - 1] };
    let part = time.dur() as f64 / MAX_OUTERMOST as f64;
    (0..MAX_OUTERMOST).map(move |k| time.start + (part * (k as f64 + 0.5)) as DurNs)
}

/// The innermost slice of a track at a moment.
fn innermost(trace: &Trace, id: TrackId, at: TimeNs) -> Option<usize> {
    trace.rows(id).iter().map_while(|row| slice_at(trace, row, at)).last()
}

/// The slice of a row at a moment.
fn slice_at(trace: &Trace, row: &Row, at: TimeNs) -> Option<usize> {
    let (slices, range) = (&trace.slices, row.range());
    let i = range.start + slices.ts[range].partition_point(|&ts| ts <= at);
    i.checked_sub(1).filter(|&i| row.range().contains(&i) && at < slices.end[i])
}

/// See [`Part::n_passing`].
fn n_passing(trace: &Trace, id: TrackId) -> u32 {
    let rows = trace.rows(id);
    let Some(outermost) = rows.first().filter(|row| !row.range().is_empty()) else { return 0 };
    let passes_on = |row: &&Row| {
        // Whoever named a time wants to see it.
        if row.has_annotations {
            return false;
        }
        let found: Vec<usize> = moments(trace, outermost).filter_map(|at| slice_at(trace, row, at)).collect();
        // Those of one slice follow each other.
        let most = found.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap_or(0);
        found.len() - most <= MAX_OTHER
    };
    rows[..rows.len() - 1].iter().take_while(passes_on).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn launching_and_waiting_threads_are_told_apart() {
        let os = SliceKind::Os;
        let mut builder = TraceBuilder::from_slices(&[
            ("loader", os, "pthread_cond_wait", 0, 900),
            ("loader", os, "poll", 900, 1_000),
            ("loader: on CPU", SliceKind::Other, "CPU 1", 0, 2),
            ("worker", os, "pthread_cond_wait", 0, 900),
            ("worker", os, "fopen", 900, 1_000),
            ("pool", os, "mmap", 0, 1),
            ("pool", os, "sem_timedwait", 1, 900),
            ("monitor", SliceKind::PythonFunction, "threading.py(1032): _bootstrap", 0, 1_000),
            ("monitor", SliceKind::PythonFunction, "threading.py(359): wait", 2, 1_000),
            ("futures", SliceKind::PythonFunction, "concurrent/futures/thread.py(81): _worker", 0, 1_000),
            ("results", SliceKind::Other, "Connection._recv (/lib/multiprocessing/connection.py:390)", 0, 1_000),
            ("results", SliceKind::Other, "posix.read", 1, 999),
            ("reader", SliceKind::PythonFunction, "threading.py(1032): _bootstrap", 0, 1_000),
            ("reader", SliceKind::PythonFunction, "queue.py(154): get", 0, 600),
            ("reader", SliceKind::PythonFunction, "threading.py(359): wait", 10, 500),
            ("main", SliceKind::Runtime, "cudaLaunchKernel", 10, 20),
            ("main: on CPU", SliceKind::Other, "CPU 0", 0, 1_000),
            ("bare: on CPU", SliceKind::Other, "CPU 0", 500, 501),
            ("stream 7", SliceKind::Kernel, "k", 20, 30),
        ]);
        builder.slices[0].correlation = vec![0; builder.slices[0].ts.len()];
        let n = builder.slices[0].ts.len();
        for at in [n - 4, n - 1] {
            builder.slices[0].correlation[at] = 5;
        }
        for track in &mut builder.tracks {
            track.tid = track.name.split(':').next().unwrap_or_default().to_owned();
        }
        let trace = builder.finish();
        let parts = parts(&trace);
        let part = |name: &str| {
            let at = trace.tracks.iter().position(|track| track.name == name || track.title() == name).unwrap();
            let Part { n_launches, is_idle, of, .. } = parts[at];
            (n_launches, is_idle, of.map(|of| trace.track(of).name.clone()))
        };
        assert_eq!(part("main"), (1, false, None));
        let words = |name: &str| parts[trace.tracks.iter().position(|track| track.name == name).unwrap()].words();
        assert_eq!([words("main"), words("worker")], [Some("launches GPU work"), None]);
        assert_eq!(part("main: on CPU"), (0, false, Some("main".to_owned())));
        assert_eq!(part("worker"), (0, false, None), "it opened a file");
        assert_eq!(part("loader"), (0, true, None));
        assert_eq!(part("pool"), (0, true, None), "what it called in between hardly took time");
        assert_eq!([part("monitor").1, part("reader").1], [true, false], "what runs inside counts");
        assert_eq!([part("futures").1, part("results").1], [true, true], "a pool waits for tasks, a pipe for results");
        assert_eq!(part("loader: on CPU"), (0, true, Some("loader".to_owned())));
        assert_eq!(part("bare: on CPU"), (0, true, None));
        assert_eq!(part("stream 7"), (0, false, None));
    }

    #[test]
    fn threads_of_steps_and_of_the_backward_pass_are_known() {
        let (op, step) = (SliceKind::Operator, SliceKind::Annotation);
        let trace = TraceBuilder::from_slices(&[
            ("backward", op, "autograd::engine::evaluate_function: AddBackward0", 0, 10),
            ("loader", op, "aten::stack", 0, 10),
            ("main", op, "aten::empty", 0, 10),
            ("main", step, "ProfilerStep#3", 10, 20),
        ])
        .finish();
        let parts = parts(&trace);
        let role = |name: &str| parts[trace.tracks.iter().position(|track| track.name == name).unwrap()].role;
        assert_eq!(["backward", "loader", "main"].map(role), [Role::Autograd, Role::Other, Role::Steps]);
        let words = |name: &str| parts[trace.tracks.iter().position(|track| track.name == name).unwrap()].words();
        assert_eq!(["backward", "loader", "main"].map(words), [Some("backward pass"), None, Some("steps")]);
    }

    #[test]
    fn rows_that_only_pass_on_are_the_outermost_with_one_slice() {
        let python = SliceKind::PythonFunction;
        let mut slices = vec![
            ("main", python, "runpy.py(1): run", 0, 6_400),
            ("main", python, "train.py(9): main", 0, 6_390),
            // Deep in a call that has ended; what it began goes on below it.
            ("main", python, "profiler.py(7): step", 10, 20),
            ("main", python, "loop.py(3): run", 30, 6_390),
        ];
        let n_passing = |slices: &[(&'static str, SliceKind, &'static str, i64, i64)]| {
            parts(&TraceBuilder::from_slices(slices).finish())[0].n_passing
        };
        assert_eq!(n_passing(&slices), 2, "the innermost is shown whatever it is");
        slices.extend((0..4).map(|i| ("main", python, "step", 30 + 1_590 * i, 1_600 * (i + 1) - 10)));
        assert_eq!(n_passing(&slices), 3);
        slices.extend((0..4).map(|i| ("main", python, "forward", 40 + 1_590 * i, 1_500 * (i + 1))));
        assert_eq!(n_passing(&slices), 3);
        assert_eq!(n_passing(&slices[4..]), 0);
    }

    #[test]
    fn quiet_threads_hardly_do_anything_but_wait() {
        let os = SliceKind::Os;
        let trace = TraceBuilder::from_slices(&[
            ("waits", os, "poll", 0, 9_000),
            ("starts", os, "mmap", 0, 80),
            ("works", os, "read", 0, 200),
            ("main", SliceKind::Operator, "aten::mm", 0, 10_000),
        ])
        .finish();
        let parts = parts(&trace);
        let is_quiet = |name: &str| parts[trace.tracks.iter().position(|track| track.name == name).unwrap()].is_quiet;
        assert_eq!(["waits", "starts", "works", "main"].map(is_quiet), [true, true, false, false]);
    }

    #[test]
    fn streams_that_hardly_work_are_told_from_the_busiest_of_their_device() {
        let kernel = SliceKind::Kernel;
        let trace = TraceBuilder::from_slices(&[
            ("stream 7", kernel, "gemm", 0, 500),
            ("stream 7", kernel, "gemm", 500, 1_000),
            ("stream 20", kernel, "all_reduce", 0, 100),
            ("stream 24", SliceKind::Memcpy, "copy", 0, 99),
            ("stream 7: annotations", SliceKind::GpuAnnotation, "step", 0, 1_000),
        ])
        .finish();
        let parts = parts(&trace);
        let is_idle = |name: &str| parts[trace.tracks.iter().position(|track| track.name == name).unwrap()].is_idle;
        assert_eq!(["stream 7", "stream 20", "stream 24"].map(is_idle), [false, false, true]);
        let host = [("main", SliceKind::Operator, "op", 0, 10), ("stream 7", SliceKind::GpuAnnotation, "step", 0, 10)];
        let trace = TraceBuilder::from_slices(&host).finish();
        assert!(super::parts(&trace).iter().all(|part| !part.is_idle), "where nothing works none hardly does");
    }

    #[test]
    fn where_all_threads_wait_none_is_idle() {
        let trace = TraceBuilder::from_slices(&[("main", SliceKind::Os, "poll", 0, 900)]).finish();
        assert_eq!(parts(&trace), [Part { is_quiet: true, ..Part::default() }]);
    }
}
