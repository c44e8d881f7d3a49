//! Phases of a step on the host: data loading, forward, backward, optimizer, copies, communication, waiting for the
//! device.

mod marks;

use hashbrown::HashMap;

use self::marks::Marks;
pub use self::marks::of_annotation as phase_of_range;
use super::collectives::host_backend;
use crate::model::time::{partition_near, subtract, unite};
use crate::model::{DurNs, SliceId, SliceKind, StringId, TimeNs, TimeRange, Trace, TrackId, TrackKind};

/// A phase of a training or an inference step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    DataLoading,
    Forward,
    /// The backward pass; includes a forward pass that activation checkpointing repeats in it.
    Backward,
    /// The optimizer and the clearing of gradients.
    Optimizer,
    /// Calls that copy between host and device, without the time in which they wait for it.
    Copies,
    /// Calls of collectives, and ranges named after them. Without a device those ranges only where no operator of their
    /// thread works, and also the collectives that other threads run, while none runs an operator.
    Communication,
    /// The host waits for what the device was given to do before: in a synchronization, or in a call that copies, as
    /// long as the device works on that. Waits inside calls of collectives are communication.
    Waiting,
    /// All other time: also compiling, loading code, collecting garbage and writing checkpoints, where they are inside
    /// a forward pass that no range names.
    Other,
}

impl Phase {
    /// Number of phases.
    pub const N: usize = Self::ALL.len();

    /// Every phase, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::DataLoading,
        Self::Forward,
        Self::Backward,
        Self::Optimizer,
        Self::Copies,
        Self::Communication,
        Self::Waiting,
        Self::Other,
    ];

    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::DataLoading => "data_loading",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Copies => "copies",
            Self::Communication => "communication",
            Self::Waiting => "waiting",
            Self::Other => "other",
        }
    }
}

/// A time in nanoseconds for each [`Phase`].
pub type PhaseTimes = [DurNs; Phase::N];

/// The time of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    pub time: TimeRange,
    pub phase: Phase,
}

/// The phases of a trace over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Disjoint and ascending, none empty; all other time is [`Phase::Other`].
    tiles: Vec<Tile>,
}

impl Phases {
    /// Whether the recording names no phase at all: that the host waits for the device shows without names.
    pub fn is_empty(&self) -> bool {
        self.tiles.iter().all(|tile| tile.phase == Phase::Waiting)
    }

    /// The phase at a time. Cost: O(log n).
    pub fn at(&self, ts: TimeNs) -> Phase {
        self.phase_before(self.tiles.partition_point(|tile| tile.time.start <= ts), ts)
    }

    /// The phase at a time; `next` is the first tile that begins after it.
    fn phase_before(&self, next: usize, ts: TimeNs) -> Phase {
        let tile = next.checked_sub(1).map(|at| self.tiles[at]).filter(|tile| tile.time.contains(ts));
        tile.map_or(Phase::Other, |tile| tile.phase)
    }

    /// The tiles that overlap `range`, ascending. Cost: O(log n).
    pub fn tiles(&self, range: TimeRange) -> &[Tile] {
        let first = self.tiles.partition_point(|tile| tile.time.end <= range.start);
        let last = self.tiles.partition_point(|tile| tile.time.start < range.end);
        &self.tiles[first..last.max(first)]
    }

    /// The time of each phase within `range`; they sum to its length. Cost: O(log n + tiles within).
    pub fn within(&self, range: TimeRange) -> PhaseTimes {
        let mut times = [0; Phase::N];
        times[Phase::Other as usize] = range.dur();
        for tile in self.tiles(range) {
            let time = tile.time.intersect(range).map_or(0, TimeRange::dur);
            times[tile.phase as usize] += time;
            times[Phase::Other as usize] -= time;
        }
        times
    }

    /// The durations of device work by the phase in which it was launched, for each of some ranges; work belongs to
    /// the range in which its launch begins, and concurrent work counts twice.
    ///
    /// * `ranges`: disjoint and ascending.
    /// * Cost: O(n) for n slices of device work launched in order, else O(n log m).
    pub fn device(&self, trace: &Trace, ranges: &[TimeRange]) -> Vec<PhaseTimes> {
        let mut times = vec![[0; Phase::N]; ranges.len()];
        let slices = &trace.slices;
        // Most work is launched soon after the work before it.
        let (mut near_range, mut near_tile) = (0, 0);
        for i in (0..slices.len()).filter(|&i| slices.kind[i].is_device_work()) {
            let work = SliceId(i as u32);
            let Some(launch) = trace.launch_of(work) else { continue };
            let at = slices.ts[launch.idx()];
            near_range = partition_near(ranges, near_range, |range| range.start <= at);
            let range = near_range.checked_sub(1);
            if let Some(range) = range.filter(|&range| ranges[range].contains(at)) {
                near_tile = partition_near(&self.tiles, near_tile, |tile| tile.time.start <= at);
                let phase = self.phase_before(near_tile, at);
                // A call that copies may wait first.
                let is_copy = phase == Phase::Waiting && slices.kind[i] == SliceKind::Memcpy;
                let phase = if is_copy { Phase::Copies } else { phase };
                times[range][phase as usize] += slices.time(work).dur();
            }
        }
        times
    }

    /// Fills time that has no phase yet.
    ///
    /// * `tiles`: disjoint and ascending.
    fn fill(&mut self, tiles: &[Tile]) {
        let mut merged: Vec<Tile> = Vec::with_capacity(self.tiles.len() + tiles.len());
        let mut known = self.tiles.iter().copied().peekable();
        for &Tile { time: TimeRange { mut start, end }, phase } in tiles {
            while start < end {
                while let Some(before) = known.next_if(|tile| tile.time.end <= start) {
                    merged.push(before);
                }
                let next = known.peek().map_or(TimeRange { start: end, end }, |tile| tile.time);
                if start < next.start {
                    merged.push(Tile { time: TimeRange { start, end: end.min(next.start) }, phase });
                }
                start = next.end.max(start);
            }
        }
        merged.extend(known);
        self.tiles = merged;
    }
}

/// The phases of a trace by its annotations, operators, API calls and Python functions, see `Marks`.
///
/// * Threads that launch device work count, those with most launches first: the time for which one names no phase
///   is that of the next. Without launches all threads count, those with most operators first.
/// * Without a device, collectives that threads of the host run are communication where no thread runs an operator,
///   whatever others name meanwhile: the pass that started them waits for them. Beside operators they cost nothing.
/// * Without a device, what operators do in a range that is named after an exchange is no communication unless they
///   communicate: they prepare it, or wait for sizes. Beside a device their calls tell. Where NCCL shows that a device
///   works of which nothing was recorded, operators that read a value back wait for it.
/// * Time between two operators of a backward pass belongs to it unless another operator or annotation begins there.
/// * What runs from the first operator that launches, or the first module, to a backward pass is the forward pass: the
///   first after loading data, or else after the end of the optimizer. What is known to be none is left out of it, and
///   where no operator and no call ran for long: a program that computes in Python, or waits, is in no pass.
/// * What cannot be told is [`Phase::Other`].
/// * Cost: O(n + m log m) for n slices of the host, of which m name a phase. Incomplete if cancelled.
pub fn phases(trace: &Trace, is_cancelled: &dyn Fn() -> bool) -> Phases {
    let mut marks = Marks::new(trace);
    let threads = threads(trace);
    let mut all = Phases { tiles: host_collectives(trace) };
    for &track in threads.iter().take_while(|_| !is_cancelled()) {
        let mut tiles = tiles(marks.of_track(track));
        join_backward(trace, &threads, track, &mut tiles);
        all.fill(&tiles);
    }
    let forward = forward_passes(trace, &threads, &all);
    all.fill(&without_silence(trace, &threads, &forward));
    all.tiles.retain(|tile| tile.phase != Phase::Other);
    all
}

fn has_device(trace: &Trace) -> bool {
    trace.processes.iter().any(|process| process.device.is_some())
}

/// When threads run collectives, and none an operator, in a recording without a device; with one they run beside its
/// work.
fn host_collectives(trace: &Trace) -> Vec<Tile> {
    if has_device(trace) {
        return Vec::new();
    }
    let united = |is_wanted: &mut dyn FnMut(SliceId) -> bool| {
        let ids = (0..trace.slices.len()).map(|i| SliceId(i as u32));
        let mut times: Vec<TimeRange> = ids.filter(|&id| is_wanted(id)).map(|id| trace.slices.time(id)).collect();
        unite(&mut times);
        times
    };
    let collectives = united(&mut |id| host_backend(trace, id).is_some());
    if collectives.is_empty() {
        return Vec::new();
    }
    let is_operator = |id: SliceId| trace.slices.kind[id.idx()] == SliceKind::Operator;
    // An operator that communicates starts a collective, or waits for one. Few names are those of many operators.
    let mut known: HashMap<StringId, bool> = HashMap::new();
    let [communicating, operators] = [true, false].map(|wanted| {
        united(&mut |id| {
            let name = trace.slices.name[id.idx()];
            let is_communication = || marks::is_communication(trace.strings.get(name));
            is_operator(id) && *known.entry(name).or_insert_with(is_communication) == wanted
        })
    });
    let exposed = subtract(&collectives, &subtract(&operators, &communicating));
    exposed.into_iter().map(|time| Tile { time, phase: Phase::Communication }).collect()
}

/// Of each name whether it is that of a call that launches.
fn launches(trace: &Trace) -> Vec<bool> {
    trace.strings.iter().map(|(_, name)| name.contains("Launch")).collect()
}

/// The first of the threads whose phases count, see [`phases`]. Cost: O(slices).
pub fn leading_thread(trace: &Trace) -> Option<TrackId> {
    threads(trace).first().copied()
}

/// The threads that count, in their order; see [`phases`].
fn threads(trace: &Trace) -> Vec<TrackId> {
    let slices = &trace.slices;
    let is_launch = launches(trace);
    let mut threads: Vec<(usize, usize, TrackId)> = Vec::new();
    for (i, track) in trace.tracks.iter().enumerate() {
        let id = TrackId(i as u32);
        if track.kind != TrackKind::Thread || trace.process(track.process).device.is_some() {
            continue;
        }
        let (mut launches, mut operators) = (0, 0);
        for i in trace.track_slices(id) {
            match slices.kind[i] {
                SliceKind::Operator => operators += 1,
                kind if kind.is_call() => launches += usize::from(is_launch[slices.name[i].0 as usize]),
                _ => {}
            }
        }
        threads.push((launches, operators, id));
    }
    if threads.iter().any(|thread| thread.0 > 0) {
        threads.retain(|thread| thread.0 > 0);
    }
    threads.sort_by_key(|&(launches, operators, _)| std::cmp::Reverse((launches, operators)));
    threads.into_iter().map(|thread| thread.2).collect()
}

/// The tiles of nested ranges: at each time the phase of the innermost range.
///
/// A forward pass inside data loading or a backward pass belongs to that: transforms of images are modules too, and
/// checkpointing repeats forward passes. So do waits inside communication. What is of no phase counts inside forward
/// passes; compilers run the passes that they trace.
///
/// * `marks`: by start, the outer of two first. Of ranges that cross the later one counts.
fn tiles(marks: Vec<Tile>) -> Vec<Tile> {
    let mut tiles: Vec<Tile> = Vec::new();
    let mut open: Vec<Tile> = Vec::new();
    let mut at = TimeNs::MIN;
    let end = Tile { time: TimeRange { start: TimeNs::MAX, end: TimeNs::MAX }, phase: Phase::Other };
    for mut mark in marks.into_iter().chain([end]) {
        while let Some(inner) = open.pop_if(|inner| inner.time.end <= mark.time.start) {
            push(&mut tiles, Tile { time: TimeRange { start: at, end: inner.time.end }, phase: inner.phase });
            at = at.max(inner.time.end);
        }
        if let Some(around) = open.last() {
            push(&mut tiles, Tile { time: TimeRange { start: at, end: mark.time.start }, phase: around.phase });
            let is_of_it = match mark.phase {
                Phase::Other => around.phase != Phase::Forward,
                Phase::Copies | Phase::Communication => false,
                Phase::Forward => {
                    matches!(around.phase, Phase::DataLoading | Phase::Backward | Phase::Other)
                }
                Phase::Waiting => around.phase == Phase::Communication,
                _ => around.phase == Phase::Other,
            };
            if is_of_it {
                mark.phase = around.phase;
            }
        }
        at = mark.time.start;
        open.push(mark);
    }
    tiles
}

/// Gives the time between two tiles of a backward pass to it.
///
/// * `own`: the thread of the tiles. Its operators do not separate passes if it runs nothing else, as the threads
///   of the autograd engine do.
fn join_backward(trace: &Trace, threads: &[TrackId], own: TrackId, tiles: &mut Vec<Tile>) {
    let is_inside = |phase| matches!(phase, Phase::Backward | Phase::Communication | Phase::Copies | Phase::Waiting);
    let is_engine = tiles.iter().all(|tile| is_inside(tile.phase) || tile.phase == Phase::Other);
    let others = || threads.iter().copied().filter(|&track| track != own || !is_engine);
    let mut joined: Vec<Tile> = Vec::with_capacity(tiles.len());
    for &tile in &*tiles {
        if let Some(&last) = joined.last().filter(|last| last.time.end < tile.time.start) {
            let between = TimeRange { start: last.time.end, end: tile.time.start };
            let phases = [last.phase, tile.phase];
            let is_one_pass = phases.contains(&Phase::Backward) && phases.into_iter().all(is_inside);
            if is_one_pass && !others().any(|track| operator_begins(trace, track, between)) {
                push(&mut joined, Tile { time: between, phase: Phase::Backward });
            }
        }
        push(&mut joined, tile);
    }
    *tiles = joined;
}

/// Adds a tile, joined with the last one if that has the same phase and ends where it begins.
fn push(tiles: &mut Vec<Tile>, tile: Tile) {
    match tiles.last_mut() {
        _ if tile.time.start >= tile.time.end => {}
        Some(last) if last.phase == tile.phase && last.time.end == tile.time.start => last.time.end = tile.time.end,
        _ => tiles.push(tile),
    }
}

/// Whether an operator or annotation of a thread begins within `range`. Cost: O(log n + slices within) for each row
/// with slices there.
fn operator_begins(trace: &Trace, track: TrackId, range: TimeRange) -> bool {
    let slices = &trace.slices;
    // Slices of a nested row run inside those of the row above.
    let mut is_inside = true;
    trace.rows(track).iter().any(|row| {
        if !row.is_overflow && !is_inside {
            return false;
        }
        let mut window = slices.window(row, range);
        is_inside = !window.is_empty();
        window.any(|i| {
            slices.ts[i] >= range.start && matches!(slices.kind[i], SliceKind::Operator | SliceKind::Annotation)
        })
    })
}

/// The forward passes that nothing names: before each backward pass, from where [`first_of_pass`] says after data was
/// loaded, or without that after the optimizer ended.
fn forward_passes(trace: &Trace, threads: &[TrackId], known: &Phases) -> Vec<Tile> {
    let launches = launches(trace);
    let mut passes: Vec<Tile> = Vec::new();
    // When data was last loaded, and when the first stretch of the optimizer ended: later ones clear gradients.
    let (mut loaded, mut stepped) = (Some(trace.span.start), None);
    for tile in &known.tiles {
        let TimeRange { start, end } = tile.time;
        match tile.phase {
            Phase::DataLoading => loaded = Some(end),
            Phase::Optimizer => stepped = stepped.or(Some(end)),
            Phase::Backward => {
                let after = loaded.or(stepped).map(|after| TimeRange { start: after, end: start });
                let first = after.and_then(|after| first_of_pass(trace, threads, &launches, known, after));
                passes.extend(
                    first.map(|time| Tile { time: TimeRange { start: time, end: start }, phase: Phase::Forward }),
                );
                (loaded, stepped) = (None, None);
            }
            Phase::Forward | Phase::Copies | Phase::Communication | Phase::Waiting | Phase::Other => {}
        }
    }
    passes
}

/// So long without an operator or a call is not the overhead of Python between two of them, in nanoseconds: eager
/// PyTorch has some 10 us there, 100 with a recorder of call stacks.
const SILENT: DurNs = 2_000_000;

/// Passes without the times in which no operator and no call ran for long. Cost: O(n log n) for n slices of the threads.
fn without_silence(trace: &Trace, threads: &[TrackId], passes: &[Tile]) -> Vec<Tile> {
    if passes.is_empty() {
        return Vec::new();
    }
    let slices = &trace.slices;
    let works = |&id: &SliceId| match slices.kind[id.idx()] {
        // Old recorders wrote ranges as operators.
        SliceKind::Operator => trace.slice_name(id).contains("::"),
        kind => kind.is_call() || kind == SliceKind::Collective,
    };
    let all = threads.iter().flat_map(|&track| trace.track_slices(track)).map(|i| SliceId(i as u32));
    let mut work: Vec<TimeRange> = all.filter(works).map(|id| slices.time(id)).collect();
    unite(&mut work);
    let passed: Vec<TimeRange> = passes.iter().map(|pass| pass.time).collect();
    let silent: Vec<TimeRange> = subtract(&passed, &work).into_iter().filter(|time| time.dur() >= SILENT).collect();
    let rest = subtract(&passed, &silent).into_iter();
    rest.map(|time| Tile { time, phase: Phase::Forward }).collect()
}

/// What a program reads of a result, as it logs the loss of a step that is over.
const READINGS: [&str; 3] = ["aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"];

/// When the first operator that launches begins, or the first module, among what has no other phase. In a recording
/// without launches any operator counts that does not only read a result.
fn first_of_pass(
    trace: &Trace,
    threads: &[TrackId],
    launches: &[bool],
    known: &Phases,
    range: TimeRange,
) -> Option<TimeNs> {
    let slices = &trace.slices;
    // Old recorders wrote ranges as operators.
    let is_operator = |id: SliceId| {
        let is_kind = slices.kind[id.idx()] == SliceKind::Operator;
        is_kind && slices.ts[id.idx()] >= range.start && trace.slice_name(id).contains("::")
    };
    let has_launches = launches.contains(&true);
    let is_work = |i: usize| match slices.kind[i] {
        kind if kind.is_call() => launches[slices.name[i].0 as usize],
        SliceKind::Operator => !has_launches && !READINGS.contains(&trace.slice_name(SliceId(i as u32))),
        _ => false,
    };
    let is_free = |ts| {
        let next = known.tiles.partition_point(|tile| tile.time.start <= ts);
        next.checked_sub(1).is_none_or(|tile| !known.tiles[tile].time.contains(ts))
    };
    let begin = |row| {
        let mut work = slices.window(row, range).filter(|&i| slices.ts[i] >= range.start && is_work(i));
        let first = SliceId(work.find(|&i| is_free(slices.ts[i]))? as u32);
        Some(slices.ts[slices.ancestors(first).filter(|&id| is_operator(id)).last().unwrap_or(first).idx()])
    };
    let rows = threads.iter().flat_map(|&track| trace.rows(track));
    let module = known.tiles(range).iter().find(|tile| tile.phase == Phase::Forward);
    rows.filter_map(begin).chain(module.map(|module| module.time.start.max(range.start))).min()
}

#[cfg(test)]
mod tests;
