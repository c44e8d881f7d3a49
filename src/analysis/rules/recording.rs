//! What recording costs the program that is recorded.

use super::{Device, Hit, Rule};
use crate::model::{DurNs, SliceKind, TimeRange};

/// Time in nanoseconds that recording one Python frame costs, at least. The profiler takes one time at the call and one
/// at the return: between the two, functions that take 30 ns, such as `len` and `isinstance`, last 40 to 230 ns in the
/// median of real recordings, and that is only one half of what recording them takes.
const FRAME_NS: DurNs = 400;

impl Device<'_, '_> {
    /// The cost of recording Python's frames. It counts only as far as the device waits for the host.
    ///
    /// * `waits_ns`: how long it does.
    /// * Cost: O(host slices in the window), only for recordings of PyTorch's profiler with frames.
    pub(super) fn recording(&mut self, waits_ns: DurNs) {
        let run = &self.of.run;
        if run.is_nsys || !run.has_stacks {
            return;
        }
        let steps = &self.window.host_steps;
        let whole = steps.first().zip(steps.last()).map(|(first, last)| first.union(*last));
        let time: TimeRange = whole.unwrap_or(self.window.time);
        let slices = &self.of.trace.slices;
        let is_frame = |&i: &usize| slices.kind[i] == SliceKind::PythonFunction;
        let frames = slices.rows.iter().map(|row| slices.window(row, time).filter(is_frame).count()).sum::<usize>();
        if frames == 0 {
            return;
        }
        let cost_ns = (frames as DurNs * FRAME_NS).min(waits_ns);
        self.out.check(Hit { count: frames as u64, range: Some(time), ..self.hit(Rule::Recording, cost_ns) });
    }
}
