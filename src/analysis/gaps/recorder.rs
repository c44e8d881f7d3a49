//! Overhead of the recorder while a device waits.

mod starts;

use std::cell::RefCell;
use std::ops::{Add, Sub};

use self::starts::Starts;
use super::ceiling::is_recoverable;
use super::{Gap, GapClass, GapPart, Ledger, Near};
use crate::analysis::host_roles::{Role, Roles};
use crate::model::{DurNs, Format, Row, SliceId, SliceKind, TimeNs, TimeRange, Trace, TrackId};

/// Time in nanoseconds that recording one Python frame costs, and one operator with all that is recorded of it: its
/// shapes and stack, the calls inside, the device work; from and to.
///
/// Fitted on 16 recordings of nine programs on one machine (an H100), whose device waits for the host: their median
/// step recorded, less the mean step that the program measured itself without a recorder. That takes 1.2 to 90.6 ms
/// more a step than alone, which is 7 to 290 % of the step alone.
///
/// * A program of Python alone (a collator of 126,000 frames a step) gives 0.5 to 0.7 us a frame.
/// * What remains are 2.8 to 11.1 us an operator with stacks (nine recordings) and 0.9 to 7.9 us without (seven),
///   nested ones counted. The programs' own times vary by a fifth from run to run.
/// * Calls and kernels by themselves explain no more: they come with operators, about one launch for three.
/// * Another machine may be faster: nothing costs more at least than in the densest stretch of the recording itself,
///   which has 0.3 to 3.5 us a frame in 27 recordings, and 1.1 to 9.4 us an operator.
const FRAME_NS: Bounds = Bounds { least: 500, most: 700 };
const OPERATOR_NS: Bounds = Bounds { least: 1_000, most: 8_000 };
/// The same where frames are recorded.
const OPERATOR_WITH_STACK_NS: Bounds = Bounds { least: 3_000, most: 11_000 };
/// So many in a row are a stretch.
const STRETCH: usize = 100;
/// About as many are searched for the densest stretch.
const MOST_SEARCHED: u64 = 1 << 18;
/// Share of the steps' time, as one part of so many, from which on the recording changes what the causes of idle time
/// gain.
const LARGE_PART: DurNs = 10;
/// The same of what it costs at most.
const LARGE_MOST: DurNs = 4;
/// Fewer frames and operators are not said to slow a program down.
const MIN_EVENTS: u64 = 100;

/// What the recorder of a trace costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorder {
    /// The judged time on the host, and what was recorded in it.
    pub time: TimeRange,
    pub frames: u64,
    pub operators: u64,
    /// Of each.
    frame_ns: Bounds,
    operator_ns: Bounds,
}

/// Whether it is known what the recorder of a trace costs: it is that of PyTorch. Cost: O(strings).
pub fn is_known(trace: &Trace) -> bool {
    let is_native = |name: &str| name.starts_with("aten::") || name.contains("at::native::");
    let is_torch = || trace.info.producer.contains("PyTorch") || trace.strings.iter().any(|(_, name)| is_native(name));
    trace.info.format != Format::Nsys && is_torch()
}

impl Recorder {
    /// That of a trace of which it [`is_known`], where it recorded enough to count.
    ///
    /// * `time`: of the host.
    /// * Cost: O(n + m log m) for n slices in the time and m frames or operators in which a stretch is searched.
    pub fn of(trace: &Trace, time: TimeRange) -> Option<Self> {
        let found = Self::new(trace, time);
        (found.frames + found.operators >= MIN_EVENTS).then_some(found)
    }

    fn new(trace: &Trace, time: TimeRange) -> Self {
        let [frames, operators] = [SliceKind::PythonFunction, SliceKind::Operator].map(|kind| count(trace, kind, time));
        let bounded = |kind: SliceKind, n: u64, usual: Bounds| {
            let searched = MOST_SEARCHED.min(n) as f64 / n.max(1) as f64;
            let time = TimeRange { end: time.start + (time.dur() as f64 * searched) as DurNs, ..time };
            let least = usual.least.min(densest(trace, kind, time).unwrap_or(usual.least));
            Bounds { least, ..usual }
        };
        let frame_ns = bounded(SliceKind::PythonFunction, frames, FRAME_NS);
        let of_operator = if frames > 0 { OPERATOR_WITH_STACK_NS } else { OPERATOR_NS };
        let operator_ns = bounded(SliceKind::Operator, operators, of_operator);
        Self { time, frames, operators, frame_ns, operator_ns }
    }

    /// Whether it makes the host much slower, whether or not a device waits for that.
    pub fn slows_host(&self) -> bool {
        let Bounds { least, most } = self.cost([self.frames, self.operators]);
        is_large(least, most, self.time.dur())
    }

    /// What it takes for so many frames and operators; it may end later than they begin.
    fn cost(&self, counts: [u64; 2]) -> Bounds {
        let [frames, operators] = counts.map(|n| n as DurNs);
        self.frame_ns.times(frames) + self.operator_ns.times(operators)
    }
}

/// Whether what a recorder costs at least and at most is a large part of some time.
pub fn is_large(least: DurNs, most: DurNs, of: DurNs) -> bool {
    LARGE_PART * least >= of || LARGE_MOST * most >= of
}

/// A time in nanoseconds, at least and at most. Not an array: two numbers are returned in registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub least: DurNs,
    pub most: DurNs,
}

impl Bounds {
    fn times(self, n: DurNs) -> Self {
        Self { least: n * self.least, most: n * self.most }
    }

    /// Both at most `ns`.
    fn min(self, ns: DurNs) -> Self {
        Self { least: self.least.min(ns), most: self.most.min(ns) }
    }
}

impl Add for Bounds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { least: self.least + other.least, most: self.most + other.most }
    }
}

impl Sub for Bounds {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { least: self.least - other.least, most: self.most - other.most }
    }
}

/// Asks `visit` about each slice of a thread that begins in some time.
///
/// * `near`: see [`super::place()`].
/// * Cost: O(rows with slices there · log n + slices there).
fn begun(trace: &Trace, thread: TrackId, time: TimeRange, near: &Near, mut visit: impl FnMut(SliceId)) {
    let slices = &trace.slices;
    let first_row = trace.track_rows[thread.0 as usize].start as usize;
    // Slices of a nested row run inside those of the row above.
    let mut is_inside = true;
    for (row, index) in trace.rows(thread).iter().zip(first_row..) {
        if !row.is_overflow && !is_inside {
            continue;
        }
        let range = row.range();
        let first = range.start + near.partition(index, &slices.ts[range.clone()], |&ts| ts < time.start);
        let mut end = first;
        while end < range.end && slices.ts[end] < time.end {
            visit(SliceId(end as u32));
            end += 1;
        }
        let is_open = first > range.start && slices.end[first - 1] > time.start;
        is_inside = is_open || end > first || row.is_overflow && is_inside;
    }
}

/// How many slices of a kind begin in some time.
fn count(trace: &Trace, kind: SliceKind, time: TimeRange) -> u64 {
    let slices = &trace.slices;
    slices.rows.iter().map(|row| slices.window(row, time).filter(|&i| slices.kind[i] == kind).count() as u64).sum()
}

/// The time for one of [`STRETCH`] slices of a kind that follow each other on one thread, where that is shortest;
/// `None` if there are fewer. Cost: O(n log n).
fn densest(trace: &Trace, kind: SliceKind, time: TimeRange) -> Option<DurNs> {
    let slices = &trace.slices;
    let mut starts: Vec<TimeNs> = Vec::new();
    let of_thread = |rows: &[Row]| {
        starts.clear();
        for row in rows {
            let of_kind = slices.window(row, time).filter(|&i| slices.kind[i] == kind);
            starts.extend(of_kind.map(|i| slices.ts[i]));
        }
        // Rows ascend: this sort merges them.
        starts.sort();
        starts.windows(STRETCH + 1).map(|stretch| stretch[STRETCH] - stretch[0]).min()
    };
    let shortest = slices.rows.chunk_by(|a, b| a.track == b.track).filter_map(of_thread).min();
    shortest.map(|ns| ns / STRETCH as DurNs)
}

/// What the recorder took of gaps: a program that is not recorded does not wait that long.
#[derive(Debug)]
pub struct Unrecorded<'a> {
    trace: &'a Trace,
    pub ledger: &'a Ledger,
    /// `None` where its cost is not known.
    pub recorder: Option<Recorder>,
    pub near: Near,
    starts: Starts,
    roles: RefCell<Roles>,
}

impl<'a> Unrecorded<'a> {
    pub fn new(trace: &'a Trace, ledger: &'a Ledger, recorder: Option<Recorder>) -> Self {
        Self { trace, ledger, recorder, near: Near::new(trace), starts: Starts::default(), roles: RefCell::default() }
    }

    /// What it took of a gap, to be asked about its parts in order.
    pub fn gap(&self, index: usize) -> UnrecordedGap<'a, '_> {
        UnrecordedGap { of: self, index, gap: self.ledger.gap(index), left: Bounds::default(), has_earlier: false }
    }

    /// What the recorder takes of a thread for what begins in some time.
    fn cost(&self, recorder: &Recorder, thread: TrackId, time: TimeRange) -> Bounds {
        recorder.cost(self.starts.count(self.trace, thread, time, &self.near))
    }

    /// What it took of the parts of the gaps in some time; no gaps where its cost is not known. Incomplete if
    /// cancelled.
    pub fn taken(&self, time: TimeRange, is_cancelled: &dyn Fn() -> bool) -> Taken {
        let gaps = if self.recorder.is_some() { self.ledger.within(time) } else { 0..0 };
        let mut taken = Taken { recorder: self.recorder, first_gap: gaps.start, ..Taken::default() };
        for index in gaps {
            if index % 4096 == 0 && is_cancelled() {
                break;
            }
            let of_gap = self.of_parts(index, |ns| taken.ns.push(u32::try_from(ns).unwrap_or(TOO_LONG)));
            taken.gaps.push((taken.ns.len(), of_gap));
        }
        taken
    }

    /// What ending the causes of some gap would save at most, see [`super::ceiling`], and what the recorder took of
    /// that.
    pub fn gain(&self, index: usize, taken: &Taken) -> [DurNs; 2] {
        let OfGap { gain_ns, recorder } = self.of_gap(index, taken);
        [gain_ns, recorder.least]
    }

    fn of_gap(&self, index: usize, taken: &Taken) -> OfGap {
        let known = index.checked_sub(taken.first_gap).and_then(|at| taken.gaps.get(at));
        known.map_or_else(|| self.of_parts(index, |_| ()), |known| known.1)
    }

    /// How much longer the device waits in some time because of the recorder. What the recorder took of the host while
    /// the device worked, and before the host waited for that, costs nothing. Cost: as of [`Self::taken`] for the gaps
    /// that are not known.
    pub fn cost_in(&self, time: TimeRange, taken: &Taken) -> Bounds {
        let gaps = if self.recorder.is_some() { self.ledger.within(time) } else { 0..0 };
        let of_gap = |index: usize| {
            let inside = self.ledger.time(index).intersect(time).map_or(0, |inside| inside.dur());
            self.of_gap(index, taken).recorder.min(inside)
        };
        gaps.map(of_gap).fold(Bounds::default(), Add::add)
    }

    /// The same of one gap, with what the recorder took at least of each part.
    fn of_parts(&self, index: usize, mut visit: impl FnMut(DurNs)) -> OfGap {
        let mut gap = self.gap(index);
        let mut all = OfGap::default();
        for part in self.ledger.parts(index) {
            let mut taken = Bounds::default();
            if is_recoverable(part.class, &gap.gap) {
                taken = gap.bounds_of_part(&part);
                all.gain_ns += part.time.dur() - taken.least;
                all.recorder = all.recorder + taken;
            }
            visit(taken.least);
        }
        all
    }

    /// What it took of the host before a gap, from the launch that ended the gap before: while that launch took effect,
    /// and while the device worked.
    ///
    /// A host that launches no sooner than the device needs it comes later by all that the recorder takes, also by what
    /// it takes while the device still has work. That holds since the host last waited for something: before that, time
    /// that is saved is waited for longer.
    fn earlier(&self, recorder: &Recorder, index: usize, gap: &Gap) -> Bounds {
        let Some(before) = index.checked_sub(1).map(|before| self.ledger.gap(before)) else { return Bounds::default() };
        let launched = self.trace.launch_of(before.ended_by).map(|call| self.trace.slices.ts[call.idx()]);
        let start = launched.unwrap_or(before.time.end).clamp(before.time.start, before.time.end);
        let stretch = TimeRange { start, end: gap.time.start };
        let slices = &self.trace.slices;
        let thread = |work: SliceId| Some(slices.track_of(self.trace.launch_of(work)?));
        let Some(own) = thread(gap.ended_by) else { return Bounds::default() };
        let other = thread(gap.after).filter(|&other| other != own);
        let threads = [Some(own), other].into_iter().flatten();
        let after = threads.clone().map(|thread| self.after_waits(thread, stretch).start);
        let start = after.max().unwrap_or(stretch.start);
        if start >= stretch.end {
            return Bounds::default();
        }
        let time = TimeRange { start, ..stretch };
        let all = threads.map(|thread| self.cost(recorder, thread, time)).fold(Bounds::default(), Add::add);
        all.min(time.dur())
    }
}

impl Unrecorded<'_> {
    /// The part of some time after the last wait of a thread in it.
    fn after_waits(&self, thread: TrackId, time: TimeRange) -> TimeRange {
        let (trace, near) = (self.trace, &self.near);
        let is_wait = |slice: SliceId| waits(self.roles.borrow_mut().of(trace, slice));
        self.starts.after_waits(trace, thread, time, is_wait).unwrap_or_else(|| {
            let mut start = time.start;
            let mut see = |slice: SliceId| {
                let end = trace.slices.end[slice.idx()];
                if end > start && is_wait(slice) {
                    start = end;
                }
            };
            super::place::open_at(trace, thread, time.start, near).into_iter().for_each(&mut see);
            begun(trace, thread, time, near, see);
            TimeRange { start, ..time }
        })
    }
}

/// What ending the causes of a gap would save at most, and what the recorder took of that.
#[derive(Clone, Copy, Debug, Default)]
struct OfGap {
    gain_ns: DurNs,
    recorder: Bounds,
}

/// What the recorder took of each part of some gaps of a device: it is asked for more than once.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    pub recorder: Option<Recorder>,
    first_gap: usize,
    /// Where the parts of each gap end in `ns`, and what is known of all of it.
    gaps: Vec<(usize, OfGap)>,
    /// Of parts that may be recovered, else 0; [`TOO_LONG`] if it does not fit.
    ns: Vec<u32>,
}

/// More than four seconds.
const TOO_LONG: u32 = u32::MAX;

impl Taken {
    /// Of each part of a gap that may be recovered, in nanoseconds; `None` if it is not kept.
    pub fn of_gap(&self, index: usize) -> Option<&[u32]> {
        let at = index.checked_sub(self.first_gap)?;
        let &(end, _) = self.gaps.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.gaps[before].0);
        Some(&self.ns[start..end]).filter(|ns| !ns.contains(&TOO_LONG))
    }
}

/// What the recorder took of one gap.
#[derive(Debug)]
pub struct UnrecordedGap<'a, 'b> {
    of: &'b Unrecorded<'a>,
    index: usize,
    gap: Gap,
    /// What it takes for what began before, and has not been taken from a part yet.
    left: Bounds,
    /// Whether that holds what began before the gap.
    has_earlier: bool,
}

impl UnrecordedGap<'_, '_> {
    /// What the recorder took at least of a part of the gap, for what began in it on the thread of its slice, else on
    /// that which launched the work after the gap; and where the host works all the time, what began before the gap.
    /// What does not fit is taken from the next part. Each part once.
    pub fn of_part(&mut self, part: &GapPart) -> DurNs {
        self.bounds_of_part(part).least
    }

    fn bounds_of_part(&mut self, part: &GapPart) -> Bounds {
        let Unrecorded { trace, ledger, recorder, .. } = *self.of;
        let Some(recorder) = recorder else { return Bounds::default() };
        let launch = || trace.launch_of(self.gap.ended_by);
        // What is launched comes no sooner by what the host does then.
        let host = part
            .slice
            .filter(|_| part.class.is_host())
            .or_else(launch)
            .filter(|_| !matches!(part.class, GapClass::LaunchLatency | GapClass::Dependency));
        let thread = host.map(|slice| trace.slices.track_of(slice));
        if let Some(thread) = thread {
            self.left = self.left + self.of.cost(&recorder, thread, part.time);
        }
        if self.left.least < part.time.dur() && !self.has_earlier {
            self.has_earlier = true;
            let mut earlier = self.of.earlier(&recorder, self.index, &self.gap);
            // A host that waits in the gap may have waited less by it.
            if !ledger.parts(self.index).all(|part| is_work(part.class)) {
                earlier.least = 0;
            }
            self.left = self.left + earlier;
        }
        let taken = self.left.min(part.time.dur());
        self.left = self.left - taken;
        taken
    }
}

/// Whether the host works in parts of this class, and waits for nothing.
fn is_work(class: GapClass) -> bool {
    matches!(class, GapClass::Launch | GapClass::CpuOp | GapClass::Python | GapClass::LaunchLatency)
}

/// Whether the host may wait in slices of this role: for the device, another thread, a process, or the system.
fn waits(role: Role) -> bool {
    let is_device = matches!(role, Role::Sync | Role::SyncOperator | Role::CopyCall | Role::Free | Role::Allocator);
    is_device || matches!(role, Role::OsWait | Role::QueueWait | Role::Wait | Role::DataLoading | Role::Collective)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    const PYTHON: SliceKind = SliceKind::PythonFunction;

    /// `n` frames of a thread that follow each other every so many nanoseconds, inside of one more.
    fn frames(n: i64, every: DurNs) -> Trace {
        let whole = ("main", PYTHON, "train", 0, n * every);
        let inside = (0..n).map(|i| ("main", PYTHON, "f", i * every, i * every + every / 2));
        TraceBuilder::from_slices(&std::iter::once(whole).chain(inside).collect::<Vec<_>>()).finish()
    }

    fn recorder(trace: &Trace) -> Recorder {
        Recorder::new(trace, trace.span)
    }

    #[test]
    fn no_frame_costs_more_than_where_they_are_densest() {
        assert_eq!(recorder(&frames(1_000, 10_000)).frame_ns, FRAME_NS);
        assert_eq!(recorder(&frames(1_000, 300)).frame_ns.least, 297, "the frame around them begins with the first");
        assert_eq!(recorder(&frames(90, 300)).frame_ns, FRAME_NS, "too few");
    }

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let taken = Taken {
            recorder: None,
            first_gap: 3,
            gaps: vec![(2, OfGap::default()), (3, OfGap::default())],
            ns: vec![5, 0, TOO_LONG],
        };
        assert_eq!(taken.of_gap(3), Some(&[5, 0][..]));
        assert!([2, 4, 5, 9].into_iter().all(|other| taken.of_gap(other).is_none()));
        assert_eq!(Taken::default().of_gap(0), None);
    }

    #[test]
    fn the_recorder_has_its_part_of_the_time_of_a_thread() {
        let trace = frames(1_000, 1_000);
        let (recorder, starts, near) = (recorder(&trace), Starts::default(), Near::new(&trace));
        let thread = trace.slices.rows[0].track;
        let count = |start, end| starts.count(&trace, thread, TimeRange { start, end }, &near);
        let least = |start, end| recorder.cost(count(start, end)).least;
        // 990 ns after the first of a stretch with the one around it.
        assert_eq!(recorder.frame_ns.least, 500);
        assert_eq!(least(10_000, 20_000), 10 * 500);
        assert_eq!(least(0, 10_000), 11 * 500, "with the frame around them");
        assert_eq!(least(990_500, 2_000_000), 9 * 500);
        assert_eq!(least(5_000, 5_100), 500, "also what it takes after that");
        assert_eq!(least(5_001, 6_000), 0);
    }
}
