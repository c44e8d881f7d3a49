//! Overhead of the recording in the recorded program.

use super::{Device, Hit, Rule};
use crate::analysis::gaps::recorder::{Bounds, Recorder, is_large};
use crate::model::{DurNs, Severity, TimeRange};

/// What was recorded in the judged steps, and what that costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingCost {
    pub frames: u64,
    pub operators: u64,
    /// How much longer the device waits because of it, in nanoseconds, in all of the judged time or per step, at least.
    pub ns: DurNs,
    /// At most; `None` where that is nearly all of the time in which it waits for the host, or more.
    pub most_ns: Option<DurNs>,
}

impl Device<'_, '_> {
    /// The judged time on the host.
    pub(super) fn host_time(&self) -> TimeRange {
        let steps = &self.window.host_steps;
        steps.first().zip(steps.last()).map_or(self.window.time, |(first, last)| first.union(*last))
    }

    /// The cost of recording Python's frames and operators: how much longer the device waits for that. Where it is a
    /// large part of the steps, the hits about a slow host have it, too.
    ///
    /// Without frames it is never more than a note: all recordings of operators have that cost.
    ///
    /// * `cost`: what the recorder took of the gaps.
    /// * `waits_ns`: how long the device waits for the host.
    pub(super) fn recording(&mut self, recorder: Option<Recorder>, cost: Bounds, waits_ns: DurNs) {
        let Some(recorder) = recorder else { return };
        let Recorder { time, frames, operators, .. } = recorder;
        let Bounds { least, most } = cost;
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
        if !is_large(found.ns, most.min(waits_ns), time.dur()) {
            return;
        }
        let per_step = |ns: DurNs| ns / n_steps.max(1);
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
