//! Reserved memory by what the device could give the process.

use super::{Hit, Out, Rule, hit};
use crate::analysis::memory::leaks::{capacity, device_total};
use crate::model::Trace;
use crate::model::memory::highest;

/// The peak of reserved memory, and what of it was in use at once at most. Cost: O(events).
pub fn nearly_full(trace: &Trace, out: &mut Out<'_>) {
    for history in &trace.memories {
        let Some(total) = capacity(trace, history).filter(|&total| total > 0) else { continue };
        let [reserved, used] = [&history.curves.reserved, &history.curves.active].map(|curve| highest(curve).1);
        let device = u32::try_from(history.device).ok();
        let unused_bytes = reserved.saturating_sub(used) as i64;
        // Where a request failed, the process could have less than all of the device.
        let others_bytes = device_total(trace, history).map(|all| all.saturating_sub(total) as i64);
        out.check(Hit {
            unused_bytes,
            others_bytes,
            ..hit(Rule::MemoryNearlyFull, device, reserved as i64, total as i64)
        });
    }
}
