//! Upper bounds on the gain from ending causes of gaps (F5).
//!
//! **The rule.** A part of a gap is recoverable if ending its cause removes it:
//!
//! * Parts with a host class, and waiting for work on another stream, are recoverable.
//! * Time without any record ([`GapClass::Unknown`]) has no cause to end, unless the gap was made possible by an
//!   event that may be ended: a synchronization that emptied the queue, or launches that only just keep up. Had work
//!   been queued, the device would have gone on whatever the host did.
//! * Launch latency is recoverable where launches only just keep up, and after a synchronization: a host that is ahead,
//!   or launches a graph, has it while the device works. Elsewhere it is not: it remains after a fix.
//! * What a wait of the host costs does not end with the gap after it: in a synchronization, or for data, it loses the
//!   lead that it would have had, and until it has that again the device waits wherever the host is slow for a moment.
//!   Such gaps are of the cause of that wait; see [`Gap::refill`].
//! * Time in queues without an explanation, gaps inside CUDA graphs, and gaps whose launch was not recorded are not:
//!   nothing recorded shows what would end them.
//! * The profiler's overhead is not, since the program does not have it without the profiler.
//!
//! Only idle time of the device counts, never the duration of the call or loader that caused it. The parts of a gap
//! are disjoint, and gaps of one device too, so sums over classes or over clusters of one device do not exceed its
//! idle time. Of several devices, time in which all of them gain counts once. What ending a cause saves of the parts of
//! other causes is added by the rules: see `rules::ahead`.

use super::{Gap, GapClass};
use crate::analysis::steps::Steps;
use crate::model::{DurNs, ProcessId};

/// What ending some causes could gain at most: an upper bound, not a forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// Recoverable time per step.
    pub ns_per_step: DurNs,
    /// Mean duration of the steps.
    pub step_ns: DurNs,
}

impl Ceiling {
    /// Gain in throughput in percent: `(T / (T - R) - 1) * 100` for steps of T and recoverable time R.
    pub fn throughput_percent(&self) -> f64 {
        let rest = (self.step_ns - self.ns_per_step) as f64;
        (self.step_ns as f64 / rest - 1.0) * 100.0
    }
}

/// Whether ending its cause removes a part of this class from a gap; see the rule above.
pub fn is_recoverable(class: GapClass, gap: &Gap) -> bool {
    match class {
        GapClass::Unknown | GapClass::LaunchLatency => gap.is_of_lost_lead(),
        class => class.is_host() || class == GapClass::Dependency,
    }
}

/// Mean duration of the steps that statistics are of on a device, given by its process; `None` without any.
pub fn mean_step_ns(steps: &Steps, process: ProcessId) -> Option<DurNs> {
    let boundaries = steps.counted_on(process).device;
    let n_steps = boundaries.len().checked_sub(1).filter(|&n| n > 0)?;
    Some((boundaries[n_steps] - boundaries[0]) / n_steps as DurNs)
}
