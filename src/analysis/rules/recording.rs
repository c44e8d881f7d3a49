//! What recording costs the program that is recorded.

use super::{Device, Hit, Rule};
use crate::analysis::gaps::Near;
use crate::model::{DurNs, Severity, SliceKind, TimeNs, TimeRange, Trace, TrackId};

/// Time in nanoseconds that recording one Python frame costs, and one operator with all that is recorded of it: its shapes
/// and stack, the calls inside, the device work; from and to.
///
/// Fitted on 16 recordings of nine programs on one machine (an H100), whose device waits for the host: their median step
/// recorded, less the mean step that the program measured itself without a recorder. That takes 1.2 to 90.6 ms more a step
/// than alone, which is 7 to 290 % of the step alone.
///
/// * A program of Python alone (a collator of 126,000 frames a step) gives 0.5 to 0.7 us a frame.
/// * What remains are 2.8 to 11.1 us an operator with stacks (nine recordings) and 0.9 to 7.9 us without (seven), nested
///   ones counted. The programs' own times vary by a fifth from run to run.
/// * Calls and kernels by themselves explain no more: they come with operators, about one launch for three.
/// * Another machine may be faster: nothing costs more at least than in the densest stretch of the recording itself, which
///   has 0.3 to 3.5 us a frame in 27 recordings, and 1.1 to 9.4 us an operator.
const FRAME_NS: [DurNs; 2] = [500, 700];
const OPERATOR_NS: [DurNs; 2] = [1_000, 8_000];
/// The same where frames are recorded.
const OPERATOR_WITH_STACK_NS: [DurNs; 2] = [3_000, 11_000];
/// So many in a row are a stretch.
const STRETCH: usize = 100;
/// About as many are searched for the densest stretch.
const MOST_SEARCHED: u64 = 1 << 18;
/// Fewer frames and operators are not said to slow a program down.
const MIN_EVENTS: u64 = 100;
/// Share of the steps' time, as one part of so many, from which on the recording changes what the causes of idle time
/// gain.
const LARGE_PART: DurNs = 10;

/// What was recorded in the judged steps, and what that costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingCost {
    pub frames: u64,
    pub operators: u64,
    /// In nanoseconds, for all of the judged time or per step, at least.
    pub ns: DurNs,
    /// At most; `None` where that is nearly all of the time in which it counts, or more.
    pub most_ns: Option<DurNs>,
}

/// What the recorder of a trace costs.
#[derive(Clone, Copy, Debug)]
pub struct Recorder {
    /// The judged time on the host, and what was recorded in it.
    time: TimeRange,
    frames: u64,
    operators: u64,
    /// Of each at least and at most.
    frame_ns: [DurNs; 2],
    operator_ns: [DurNs; 2],
}

impl Recorder {
    /// Cost: O(n + m log m) for n slices in the time and m frames or operators in which a stretch is searched.
    fn new(trace: &Trace, time: TimeRange) -> Self {
        let count = |kind: SliceKind| starts(trace, kind, time).count() as u64;
        let (frames, operators) = (count(SliceKind::PythonFunction), count(SliceKind::Operator));
        let bounded = |kind: SliceKind, n: u64, [ns, most]: [DurNs; 2]| {
            let searched = MOST_SEARCHED.min(n) as f64 / n.max(1) as f64;
            let time = TimeRange { end: time.start + (time.dur() as f64 * searched) as DurNs, ..time };
            [ns.min(densest(trace, kind, time).unwrap_or(ns)), most]
        };
        let frame_ns = bounded(SliceKind::PythonFunction, frames, FRAME_NS);
        let of_operator = if frames > 0 { OPERATOR_WITH_STACK_NS } else { OPERATOR_NS };
        let operator_ns = bounded(SliceKind::Operator, operators, of_operator);
        Self { time, frames, operators, frame_ns, operator_ns }
    }

    /// All of it, at least and at most.
    fn cost(&self) -> [DurNs; 2] {
        let [frames, operators] = [self.frames, self.operators].map(|n| n as DurNs);
        [0, 1].map(|at| frames * self.frame_ns[at] + operators * self.operator_ns[at])
    }

    /// What it took at least of some time of a thread: what of frames and operators began there.
    ///
    /// * `near`: see [`crate::analysis::gaps::place()`].
    /// * Cost: O(rows with slices there · log n + slices there).
    pub fn least_ns(&self, trace: &Trace, thread: TrackId, time: TimeRange, near: &Near) -> DurNs {
        let slices = &trace.slices;
        let first_row = trace.track_rows[thread.0 as usize].start as usize;
        let mut ns = 0;
        // Slices of a nested row run inside those of the row above.
        let mut is_inside = true;
        for (row, index) in trace.rows(thread).iter().zip(first_row..) {
            if !row.is_overflow && !is_inside {
                continue;
            }
            let range = row.range();
            let first = range.start + near.partition(index, &slices.ts[range.clone()], |&ts| ts < time.start);
            let begun = (first..range.end).take_while(|&i| slices.ts[i] < time.end);
            let end = begun.clone().last().map_or(first, |last| last + 1);
            let cost = |i: usize| match slices.kind[i] {
                SliceKind::PythonFunction => self.frame_ns[0],
                SliceKind::Operator => self.operator_ns[0],
                _ => 0,
            };
            ns += begun.map(cost).sum::<DurNs>();
            let is_open = first > range.start && slices.end[first - 1] > time.start;
            is_inside = is_open || end > first || row.is_overflow && is_inside;
        }
        ns.min(time.dur())
    }
}

/// When slices of a kind begin, by row.
fn starts(trace: &Trace, kind: SliceKind, time: TimeRange) -> impl Iterator<Item = (TrackId, TimeNs)> {
    let slices = &trace.slices;
    let of_row = move |row| slices.window(row, time).filter(move |&i| slices.kind[i] == kind);
    slices.rows.iter().flat_map(move |row| of_row(row).map(move |i| (row.track, slices.ts[i])))
}

/// The time for one of [`STRETCH`] slices of a kind that follow each other on one thread, where that is shortest; `None`
/// if there are fewer. Cost: O(n log n).
fn densest(trace: &Trace, kind: SliceKind, time: TimeRange) -> Option<DurNs> {
    let mut all: Vec<(TrackId, TimeNs)> = starts(trace, kind, time).collect();
    all.sort_unstable();
    let stretches = all.windows(STRETCH + 1).filter(|stretch| stretch[0].0 == stretch[STRETCH].0);
    stretches.map(|stretch| (stretch[STRETCH].1 - stretch[0].1) / STRETCH as DurNs).min()
}

impl Device<'_, '_> {
    /// The recorder, where it is PyTorch's: nothing is known of what others cost. Cost: see [`Recorder::new`].
    pub(super) fn recorder(&self) -> Option<Recorder> {
        let run = &self.of.run;
        if run.is_nsys || !run.is_torch {
            return None;
        }
        let steps = &self.window.host_steps;
        let whole = steps.first().zip(steps.last()).map(|(first, last)| first.union(*last));
        let found = Recorder::new(self.of.trace, whole.unwrap_or(self.window.time));
        (found.frames + found.operators >= MIN_EVENTS).then_some(found)
    }

    /// The cost of recording Python's frames and operators. It counts only as far as the device waits for the host. Where
    /// it is a large part of the steps, the hits about a slow host have it, too.
    ///
    /// Without frames it is never more than a note: all recordings of operators have that cost.
    ///
    /// * `waits_ns`: how long the device waits for the host.
    pub(super) fn recording(&mut self, recorder: Option<Recorder>, waits_ns: DurNs) {
        let Some(recorder) = recorder else { return };
        let Recorder { time, frames, operators, .. } = recorder;
        let [least, most] = recorder.cost();
        let within = |whole: DurNs| RecordingCost {
            frames,
            operators,
            ns: least.min(whole),
            most_ns: Some(most).filter(|&most| 10 * most < 9 * whole),
        };
        let found = within(waits_ns);
        let device = self.window.device;
        let hit = self.hit(Rule::Recording, found.ns);
        self.out.check(Hit { count: frames + operators, range: Some(time), recording: Some(found), ..hit });
        if let Some(hit) = self.out.hit_of(Rule::Recording, device).filter(|_| frames == 0) {
            hit.severity = Severity::Note;
        }
        let n_steps = self.window.host_steps.len() as DurNs;
        if n_steps == 0 || LARGE_PART * found.ns < time.dur() {
            return;
        }
        let per_step = |ns: DurNs| ns / n_steps;
        let per_step = Some(RecordingCost { ns: per_step(found.ns), most_ns: found.most_ns.map(per_step), ..found });
        for rule in [Rule::HostBound, Rule::LaunchBound, Rule::DataLoading, Rule::Synchronization] {
            let is_of_host = |hit: &&mut Hit| {
                rule != Rule::Synchronization || hit.shares.after_ns > hit.amount - hit.shares.after_ns
            };
            if let Some(hit) = self.out.hit_of(rule, device).filter(is_of_host) {
                hit.recording = per_step;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::gaps::Near;
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
        assert_eq!(recorder(&frames(1_000, 300)).frame_ns[0], 297, "the frame around them begins with the first");
        assert_eq!(recorder(&frames(90, 300)).frame_ns, FRAME_NS, "too few");
    }

    #[test]
    fn the_recorder_has_its_part_of_the_time_of_a_thread() {
        let trace = frames(1_000, 1_000);
        let (recorder, near) = (recorder(&trace), Near::new(&trace));
        let thread = trace.slices.rows[0].track;
        let least = |start, end| recorder.least_ns(&trace, thread, TimeRange { start, end }, &near);
        // 990 ns after the first of a stretch with the one around it.
        assert_eq!(recorder.frame_ns[0], 500);
        assert_eq!(least(10_000, 20_000), 10 * 500);
        assert_eq!(least(0, 10_000), 11 * 500, "with the frame around them");
        assert_eq!(least(990_500, 2_000_000), 9 * 500);
        assert_eq!(least(5_000, 5_100), 100, "no more than the time");
        assert_eq!(least(5_001, 6_000), 0);
    }
}
