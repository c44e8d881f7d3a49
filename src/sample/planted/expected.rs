//! The gaps of a planted run with their parts and triggers, by definitions F1 and F2 and what the run knows of each
//! thread.

use super::super::answer::{Class, DeviceGapsAnswer, GapAnswer, PartAnswer};
use super::script::{Launched, Script, Tile};
use super::timeline::{Range, Span, SpanKind, WorkKind};

/// Bounds of the longest usual launch latency; what holds for both holds for any.
const THETA: [i64; 2] = [1_000, 30_000];

/// A piece of device work with its launch.
struct Placed<'a> {
    range: Range,
    launched: &'a Launched,
    name: &'static str,
    is_last_node: bool,
}

/// The gaps of each device.
pub fn devices(script: &Script) -> Vec<DeviceGapsAnswer> {
    let starts = script.timeline.spans.iter().map(|span| span.range.0);
    let zero = starts.chain(script.timeline.works.iter().map(|work| work.range.0)).min().unwrap_or_default();
    (0..script.style.n_devices).map(|device| of_device(script, device, zero)).collect()
}

fn of_device(script: &Script, device: usize, zero: i64) -> DeviceGapsAnswer {
    let mut works = Vec::new();
    for launched in &script.launched {
        let work = &script.timeline.works[launched.work];
        let is_last_node = script.graph_ends.contains(&work.range.1);
        if work.device == device {
            works.push(Placed { range: work.range, launched, name: work.name, is_last_node });
        }
    }
    works.sort_by_key(|work| work.range);
    let mut out = DeviceGapsAnswer { device: device as u32, ..DeviceGapsAnswer::default() };
    for (i, pair) in (1..).zip(works.windows(2)) {
        let (start, end) = (pair[0].range.1, pair[1].range.0);
        debug_assert!(start <= end, "work of one stream overlaps");
        if start == end {
            continue;
        }
        out.count += 1;
        out.total_ns += end - start;
        if end - start < THETA[0] {
            out.micro_ns += end - start;
            continue;
        }
        let parts = parts(script, (start, end), pair[1].launched);
        let triggers = triggers(script, (start, end), &works[..=i]);
        let [after, ended_by] = [0, 1].map(|side: usize| pair[side].name.to_owned());
        out.gaps.push(GapAnswer { start_ns: start - zero, dur_ns: end - start, after, ended_by, parts, triggers });
    }
    let window = works.first().zip(works.last()).map(|(first, last)| last.range.1 - first.range.0);
    out.window_ns = window.unwrap_or_default();
    out
}

/// The parts of a gap that the work of `launched` ends.
fn parts(script: &Script, (a, b): Range, launched: &Launched) -> Vec<PartAnswer> {
    let Some((launch, _)) = launched.call else {
        return vec![with_overhead(script, (a, b), part((a, b), &["no_launch"]))];
    };
    let thread = &script.threads[launched.thread];
    let host_end = launch.min(b).max(a);
    let mut out = Vec::new();
    let mut at = a;
    for tile in thread.tiles.iter().filter(|tile| tile.range.0.max(a) < tile.range.1.min(host_end)) {
        let (start, end) = (tile.range.0.max(a), tile.range.1.min(host_end));
        if start > at {
            out.extend(of_main(script, (at, start)));
        }
        let mut part = of_tile(tile, (start, end));
        // The main thread waits for this one, of which nothing is recorded.
        if launched.thread > 0 && script.style.has_os && part.classes == ["unknown"] {
            part.classes.push("blocked");
        }
        out.push(part);
        at = end;
    }
    if at < host_end {
        out.extend(of_main(script, (at, host_end)));
    }
    out.extend(launch_part(script, (host_end, b), launched));
    out
}

/// The time from the launch on: within the launching call, and after it.
fn launch_part(script: &Script, (a, b): Range, launched: &Launched) -> Vec<PartAnswer> {
    let Some((launch, returned)) = launched.call else { return Vec::new() };
    let tile = script.threads[launched.thread].tiles.iter().find(|tile| tile.range.0 == launch);
    let mut within: Vec<Class> = vec!["launch_latency", "queued", "launch"];
    let is_copy = script.timeline.works[launched.work].kind != WorkKind::Kernel;
    within.extend(is_copy.then_some("copy"));
    within.extend(tile.iter().flat_map(|tile| tile.classes).filter(|class| **class != "launch"));
    let is_graph = launched.classes.is_some_and(|classes| classes.contains(&"graph"));
    within.extend(is_graph.then_some("graph"));
    let after: &[Class] = match b - a {
        _ if is_graph => launched.classes.unwrap_or_default(),
        ns if ns < THETA[0] => &["launch_latency"],
        ns if ns <= THETA[1] => &["launch_latency", "queued"],
        _ => launched.classes.unwrap_or(&["launch_latency", "queued"]),
    };
    let split = returned.clamp(a, b);
    let pieces = [((a, split), &within[..]), ((split, b), after)];
    let pieces = pieces.into_iter().filter(|((start, end), _)| start < end);
    let one = |(range, classes): (Range, &[Class])| {
        let mut names: Vec<String> = tile.iter().flat_map(|tile| tile.names.clone()).collect();
        // What is waited for.
        if classes.contains(&"dependency") {
            names.extend(script.style.kernels.iter().map(|&name| name.to_owned()));
        }
        let frames = tile.iter().flat_map(|tile| tile.frames.clone()).chain([None]).collect();
        with_overhead(script, range, PartAnswer { names, frames, ..part(range, classes) })
    };
    pieces.map(one).collect()
}

fn part((start, end): Range, classes: &[Class]) -> PartAnswer {
    PartAnswer { dur_ns: end - start, classes: classes.to_vec(), ..PartAnswer::default() }
}

/// Time during which the profiler may have been at work as well.
fn with_overhead(script: &Script, range: Range, mut part: PartAnswer) -> PartAnswer {
    let is_during = |span: &&Span| span.kind == SpanKind::Overhead && span.range.0 < range.1 && span.range.1 > range.0;
    for span in script.timeline.spans.iter().filter(is_during) {
        part.classes.push("profiler");
        part.names.push(span.name.clone());
    }
    part
}

fn of_tile(tile: &Tile, range: Range) -> PartAnswer {
    PartAnswer {
        names: tile.names.clone(),
        frames: tile.frames.clone(),
        is_planted: tile.is_planted,
        ..part(range, tile.classes)
    }
}

/// What the main thread did while the launching thread did not exist: it prepared the work.
fn of_main(script: &Script, (a, b): Range) -> Vec<PartAnswer> {
    let tiles = script.threads[0].tiles.iter().filter(|tile| tile.range.0.max(a) < tile.range.1.min(b));
    let one = |tile: &Tile| {
        let mut part = of_tile(tile, (tile.range.0.max(a), tile.range.1.min(b)));
        // A wait that goes on after the launching thread has begun is not what that thread waited for.
        if !tile.is_planted || (tile.classes == ["blocked"] && tile.range.1 > b) {
            part.classes.push("unknown");
        }
        if script.style.has_os {
            part.classes.push("blocked");
        }
        part
    };
    tiles.map(one).collect()
}

/// Whether something holds; `Open` where the definitions leave it open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    No,
    Open,
    Yes,
}

impl Holds {
    /// From whether it holds at each bound of theta.
    fn of(at: [bool; 2]) -> Self {
        match at {
            [true, true] => Self::Yes,
            [false, false] => Self::No,
            _ => Self::Open,
        }
    }
}

/// The triggers that may be given to the gap before the last of `works`; none stands for its absence.
fn triggers(script: &Script, (a, b): Range, works: &[Placed<'_>]) -> Vec<Option<&'static str>> {
    let (last, earlier) = (&works[works.len() - 1], &works[..works.len() - 1]);
    let Some((launch, _)) = last.launched.call else {
        return ["sync", "launch_bound", "step_boundary", "graph_end", "profiler"]
            .map(Some)
            .into_iter()
            .chain([None])
            .collect();
    };
    let all = [
        ("sync", sync(script, a, launch, last.launched.thread)),
        // What was launched before the gap did not wait for the host.
        ("launch_bound", if launch > a { launch_bound(script, b - a, earlier) } else { Holds::Open }),
        ("step_boundary", step_boundary(script, (a, b), launch, earlier)),
        ("graph_end", Holds::of([earlier.last().is_some_and(|work| work.is_last_node); 2])),
        ("profiler", profiler(script, (a, b), launch)),
    ];
    let mut out: Vec<Option<&'static str>> =
        all.iter().filter(|(_, holds)| *holds != Holds::No).map(|(name, _)| Some(*name)).collect();
    if all.iter().all(|(_, holds)| *holds != Holds::Yes) {
        out.push(None);
    }
    out
}

fn sync(script: &Script, a: i64, launch: i64, thread: usize) -> Holds {
    let by = |thread: usize, theta: i64| {
        let thread = &script.threads[thread];
        thread.syncs.iter().any(|&(start, end)| {
            let is_last = !thread.launches.iter().any(|&at| at > a && at < end);
            start < a && end >= a - theta && end <= launch && is_last
        })
    };
    // What only another thread waited for is not covered by the definition.
    let other = (0..script.threads.len()).any(|other| other != thread && by(other, THETA[1]));
    // `cudaFree` waits for the device, but no rule says that it counts.
    let frees = script
        .timeline
        .spans
        .iter()
        .any(|span| span.name.ends_with("Free") && span.range.0 < a && span.range.1 >= a && span.range.1 <= launch);
    match Holds::of(THETA.map(|theta| by(thread, theta))) {
        Holds::No if other || frees => Holds::Open,
        holds => holds,
    }
}

/// Whether the eight works before the gap began as soon as they were launched. The definitions say nothing of gaps much
/// longer than from one launch to the next, which the speed of launches does not explain.
fn launch_bound(script: &Script, gap_ns: i64, earlier: &[Placed<'_>]) -> Holds {
    let last = &earlier[earlier.len().saturating_sub(8)..];
    let is_short = |work: &Placed<'_>, theta: i64| {
        let end = work.launched.call.map(|call| call.1);
        end.is_some_and(|end| script.timeline.works[work.launched.work].range.0 - end < theta)
    };
    let mut launches: Vec<i64> = last.iter().filter_map(|work| Some(work.launched.call?.0)).collect();
    launches.sort_unstable();
    let mut intervals: Vec<i64> = launches.windows(2).map(|pair| pair[1] - pair[0]).collect();
    intervals.sort_unstable();
    let is_long = intervals.get(intervals.len() / 2).is_some_and(|interval| gap_ns > 10 * interval);
    match Holds::of(THETA.map(|theta| last.len() == 8 && last.iter().all(|work| is_short(work, theta)))) {
        Holds::Yes if is_long => Holds::Open,
        holds => holds,
    }
}

fn step_boundary(script: &Script, (a, b): Range, launch: i64, earlier: &[Placed<'_>]) -> Holds {
    // A step that ended while the work before the gap was under way may count.
    let before = earlier.last().and_then(|work| work.launched.call).map_or(0, |call| call.0);
    let is_within = |low: i64, high: i64| script.boundaries.iter().any(|&at| at >= low && at <= high);
    match () {
        () if !script.style.has_steps => Holds::Open,
        () if is_within(a, launch) => Holds::Yes,
        () if is_within(before.min(a) - 2_000, b) => Holds::Open,
        () => Holds::No,
    }
}

fn profiler(script: &Script, (a, b): Range, launch: i64) -> Holds {
    let mut holds = Holds::No;
    for span in script.timeline.spans.iter().filter(|span| span.kind == SpanKind::Overhead) {
        if span.range.0 <= a && span.range.1 + 5_000 >= launch && span.range.1 > a {
            return Holds::Yes;
        }
        if span.range.1 > a && span.range.0 < b {
            holds = Holds::Open;
        }
    }
    holds
}
