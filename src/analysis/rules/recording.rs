//! What recording costs the program that is recorded.

use super::{Device, Hit, Rule};
use crate::model::{DurNs, Severity, SliceKind, TimeRange};

/// Time in nanoseconds that recording one Python frame costs, and one operator with all that is recorded of it: its shapes
/// and stack, the calls inside, the device work; from and to.
///
/// Fitted on 14 recordings of seven programs on one machine (an H100), with stacks and without, whose device waits for the
/// host: their median step recorded, less the mean step that the program measured itself without a recorder. That takes
/// 6.3 to 91.2 ms more a step than alone, which is 15 to 270 % of the step alone.
///
/// * A program of Python alone (a collator of 126,000 frames a step) gives 0.5 to 0.7 us a frame.
/// * What remains are 0.9 to 10.3 us an operator, nested ones counted, in the median 6 us. 12 of the 14 are within the
///   2 to 8 us here. The programs' own times vary by a fifth from run to run.
/// * Calls and kernels by themselves explain no more: they come with operators, about one launch for three.
const FRAME_NS: [DurNs; 2] = [500, 700];
const OPERATOR_NS: [DurNs; 2] = [2_000, 8_000];
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

impl Device<'_, '_> {
    /// The cost of recording Python's frames and operators. It counts only as far as the device waits for the host. Where
    /// it is a large part of the steps, the hits about a slow host have it, too.
    ///
    /// Without frames it is never more than a note: all recordings of operators have that cost.
    ///
    /// * `waits_ns`: how long the device waits for the host.
    /// * Cost: O(host slices in the window), only for recordings of PyTorch's profiler.
    pub(super) fn recording(&mut self, waits_ns: DurNs) {
        let run = &self.of.run;
        if run.is_nsys || !run.is_torch {
            return;
        }
        let steps = &self.window.host_steps;
        let whole = steps.first().zip(steps.last()).map(|(first, last)| first.union(*last));
        let time: TimeRange = whole.unwrap_or(self.window.time);
        let slices = &self.of.trace.slices;
        let count = |kind: SliceKind| {
            let is_it = |&i: &usize| slices.kind[i] == kind;
            slices.rows.iter().map(|row| slices.window(row, time).filter(is_it).count()).sum::<usize>() as u64
        };
        let (frames, operators) = (count(SliceKind::PythonFunction), count(SliceKind::Operator));
        if frames + operators < MIN_EVENTS {
            return;
        }
        let cost = |at: usize| frames as DurNs * FRAME_NS[at] + operators as DurNs * OPERATOR_NS[at];
        let within = |whole: DurNs| RecordingCost {
            frames,
            operators,
            ns: cost(0).min(whole),
            most_ns: Some(cost(1)).filter(|&most| 10 * most < 9 * whole),
        };
        let found = within(waits_ns);
        let device = self.window.device;
        let hit = self.hit(Rule::Recording, found.ns);
        self.out.check(Hit { count: frames + operators, range: Some(time), recording: Some(found), ..hit });
        if let Some(hit) = self.out.hit_of(Rule::Recording, device).filter(|_| frames == 0) {
            hit.severity = Severity::Note;
        }
        let n_steps = steps.len() as DurNs;
        let all = within(time.dur());
        if n_steps == 0 || LARGE_PART * all.ns < time.dur() {
            return;
        }
        let per_step = |ns: DurNs| ns / n_steps;
        let per_step = Some(RecordingCost { ns: per_step(all.ns), most_ns: all.most_ns.map(per_step), ..all });
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
