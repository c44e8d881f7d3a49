//! What ending causes of gaps would gain at most (F5).
//!
//! **The rule.** A part of a gap is recoverable if ending its cause removes it:
//!
//! * Parts with a host class, and waiting for work on another stream, are recoverable.
//! * Time without any record ([`GapClass::Unknown`]) has no cause to end, unless the gap was made possible by an
//!   event that may be ended: a synchronization that emptied the queue, or launches that only just keep up. Had work
//!   been queued, the device would have gone on whatever the host did.
//! * The latency of launches, time in queues without an explanation, gaps inside CUDA graphs, and gaps whose launch
//!   was not recorded are not: nothing recorded shows what would end them. The launch latency that remains after a
//!   fix is thereby left out.
//! * The profiler's overhead is not, since the program does not have it without the profiler.
//!
//! Only idle time of the device counts, never the duration of the call or loader that caused it. The parts of a gap
//! are disjoint, and gaps of one device too, so sums over classes or over clusters of one device do not exceed its
//! idle time. Of several devices, time in which all of them gain counts once.

use super::{GapClass, GapPart, Ledger, Trigger};
use crate::analysis::steps::Steps;
use crate::model::time::{length, unite};
use crate::model::{DurNs, ProcessId, TimeRange};

/// Ranks whose steps are at most this share shorter than the longest are as slow as the slowest: they wait for one
/// another.
const EQUALLY_SLOW: f64 = 0.01;

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

/// The ledgers of the devices of one trace, with its steps.
#[derive(Clone, Copy, Debug)]
pub struct Rank<'a> {
    pub ledgers: &'a [Ledger],
    pub steps: &'a Steps,
}

/// Whether ending its cause removes a part of this class from a gap with this trigger; see the rule above.
pub fn is_recoverable(class: GapClass, trigger: Option<Trigger>) -> bool {
    match class {
        GapClass::Unknown => matches!(trigger, Some(Trigger::Sync | Trigger::LaunchBound)),
        class => class.is_host() || class == GapClass::Dependency,
    }
}

/// What ending some causes would gain at most, on the slowest rank.
///
/// * `ranks`: traces of one run. The slowest is the one with the longest mean step; of ranks that are equally slow,
///   as in synchronous training, the one that would gain most, since the others wait for it.
/// * `is_ended`: whether the cause of a part ends, for parts that [`is_recoverable`]; with the index of its gap.
/// * Time outside of the steps that count is left out. `None` without steps.
/// * Cost: O(n log n) for n parts.
pub fn ceiling(ranks: &[Rank<'_>], is_ended: &dyn Fn(&Ledger, usize, &GapPart) -> bool) -> Option<Ceiling> {
    let all: Vec<Ceiling> = ranks.iter().filter_map(|rank| of_rank(*rank, is_ended)).collect();
    let longest = all.iter().map(|ceiling| ceiling.step_ns).max()?;
    let is_slow = |ceiling: &&Ceiling| ceiling.step_ns as f64 >= longest as f64 * (1.0 - EQUALLY_SLOW);
    all.iter().filter(is_slow).max_by_key(|ceiling| ceiling.ns_per_step).copied()
}

/// Mean duration of the steps that statistics are of on a device, given by its process; `None` without any.
pub fn mean_step_ns(steps: &Steps, process: ProcessId) -> Option<DurNs> {
    let boundaries = steps.counted_on(process).device;
    let n_steps = boundaries.len().checked_sub(1).filter(|&n| n > 0)?;
    Some((boundaries[n_steps] - boundaries[0]) / n_steps as DurNs)
}

fn of_rank(rank: Rank<'_>, is_ended: &dyn Fn(&Ledger, usize, &GapPart) -> bool) -> Option<Ceiling> {
    let (mut saved, mut n_steps): (Vec<TimeRange>, DurNs) = (Vec::new(), 0);
    let step_ns = rank.ledgers.iter().filter_map(|ledger| mean_step_ns(rank.steps, ledger.process)).max()?;
    for ledger in rank.ledgers {
        let [start, .., end] = *rank.steps.counted_on(ledger.process).device else { continue };
        let window = TimeRange { start, end };
        n_steps = n_steps.max(rank.steps.counted_on(ledger.process).device.len() as DurNs - 1);
        for index in ledger.within(window) {
            let trigger = ledger.gap(index).trigger;
            let parts = ledger.parts(index).filter(|part| is_recoverable(part.class, trigger));
            let parts = parts.filter(|part| is_ended(ledger, index, part));
            saved.extend(parts.filter_map(|part| part.time.intersect(window)));
        }
    }
    unite(&mut saved);
    Some(Ceiling { ns_per_step: length(&saved) / n_steps, step_ns })
}
