//! Memory leaks: signatures whose live memory grows from step to step.

mod classify;
mod confidence;
mod ending;
mod enough;
mod evidence;
mod failures;
mod gains;
#[cfg(test)]
mod planted;
mod rise;
#[cfg(test)]
mod seldom;
mod series;
#[cfg(test)]
mod tests;
mod total;

pub use confidence::Confidence;
pub use enough::FEWEST_STEPS;
pub use evidence::LeakEvidence;
pub use gains::Gain;
pub use total::{Room, Total, TotalVerdict};

use hashbrown::HashSet;

use super::reserved::Excess;
use super::signature::{SignatureId, Signatures};
use super::steps::{NoSteps, Steps};
use crate::model::{MemoryHistory, Severity, Trace};
use classify::{Criteria, Losses};
use failures::Failures;

/// Thresholds of the leak analysis. Sizes are in bytes, 1 MB = 10^6 bytes.
///
/// The defaults separate planted leaks from noise in generated and real recordings; how they were calibrated
/// is described in `tests/oracle/leaks.py`. The alarm limits are those of PyTorch's user guides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Smallest growth of a candidate, in bytes per step.
    pub min_bytes_per_step: f64,
    /// Smallest share of the growth of total memory per step.
    pub min_growth_share: f64,
    /// Smallest number of steps after the warm-up.
    pub min_steps: usize,
    /// Smallest share of steps in which a candidate rises.
    pub min_monotonic: f64,
    /// Smallest number of distinct steps whose blocks survive.
    pub min_survivor_steps: usize,
    /// Number of further steps that a surviving block outlives its own.
    pub survivor_delay: usize,
    /// Smallest share of the surviving bytes that is still live when the steps end.
    pub min_kept: f64,
    /// Smallest number of distinct steps whose blocks are never freed, for growth in fewer steps than
    /// [`Self::min_monotonic`].
    pub min_seldom_steps: usize,
    /// The same for growth that comes back by the same number of bytes at even distances.
    pub min_repeated_steps: usize,
    /// Smallest Kendall's tau of live bytes for such growth.
    pub min_seldom_tau: f64,
    /// Candidates whose gain is offset by losses elsewhere are dropped if the remaining ones account for at
    /// least this share of the growth of total memory.
    pub min_attributed: f64,
    /// Largest number of initial steps excluded as warm-up; never more than a quarter of all steps.
    pub max_warm_up: usize,
    /// Growth of total memory, in bytes per step, that raises an alarm.
    pub alarm_bytes_per_step: f64,
    /// Number of step boundaries from which a series is long: peaks and reserved memory are judged from there on. Of
    /// live bytes fewer are enough if they are regular; see `enough.rs`.
    pub alarm_points: usize,
    /// Growth of total memory in bytes that raises an alarm.
    pub alarm_growth: u64,
    /// Growth in bytes above which a leak has high severity.
    pub high_growth: u64,
    /// Growth in bytes above which a leak is a warning.
    pub medium_growth: u64,
    /// Share of frees without an allocation above which history counts as lost.
    pub max_lost: f64,
    /// Reserved and unused bytes from which they are worth a note, if they are also [`Self::min_unused_share`].
    pub min_unused: u64,
    /// The same as a share of what is reserved.
    pub min_unused_share: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            min_bytes_per_step: 65_536.0,
            min_growth_share: 0.001,
            min_steps: 4,
            min_monotonic: 0.7,
            min_survivor_steps: 3,
            survivor_delay: 1,
            min_kept: 2.0 / 3.0,
            min_seldom_steps: 6,
            min_repeated_steps: 4,
            min_seldom_tau: 0.5,
            min_attributed: 2.0 / 3.0,
            max_warm_up: 5,
            alarm_bytes_per_step: 1e6,
            alarm_points: 10,
            alarm_growth: 100_000_000,
            high_growth: 100_000_000,
            medium_growth: 10_000_000,
            max_lost: 0.01,
            min_unused: 100_000_000,
            min_unused_share: 0.25,
        }
    }
}

impl Thresholds {
    /// The severity of a leak, by its growth in bytes.
    pub fn severity(&self, growth: i64) -> Severity {
        match growth {
            growth if growth > self.high_growth as i64 => Severity::High,
            growth if growth > self.medium_growth as i64 => Severity::Warn,
            _ => Severity::Note,
        }
    }
}

/// Why a signature with persistent or growing memory is not a leak candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Grows for some steps, but is mostly freed later: a queue, garbage before collection, results gathered in
    /// one phase.
    Released,
    /// One buffer that is replaced by a larger one in each step. No block persists, so whether the growth is
    /// needed cannot be determined.
    GrowingBuffer,
    /// Grew, but hardly in the last third of the steps, or in the last ones at all.
    WarmUpCache,
    /// Grows step after step and stays, but by less than the smallest growth of a leak.
    BelowThreshold,
    /// Grew and stays, but in two or three steps only, which a cache may do as well.
    TooFewGains,
    /// Allocated before the end of the warm-up, and still live at the last boundary.
    Setup,
    /// Grows like a leak, but other signatures shrink by as much: allocations moved from those to this one.
    Offset,
}

/// A signature whose memory grows from step to step and is not freed.
#[derive(Clone, Debug, PartialEq)]
pub struct LeakCandidate {
    pub signature: SignatureId,
    /// Theil-Sen slope of live bytes at the step boundaries; mean growth if it grows in some steps only. Of the steps
    /// since `since_step`.
    pub bytes_per_step: f64,
    /// The first step in which it grows, if that is later than the warm-up.
    pub since_step: Option<usize>,
    /// Share of the slopes of all candidates, 0 to 1.
    pub slope_share: f64,
    /// Live bytes at the last boundary minus those at `since_step`, else at the first after the warm-up. As for
    /// [`Total::growth_bytes`], steps in which memory ran out count only if it grew in them.
    pub growth_bytes: i64,
    /// Live bytes and blocks at each boundary, including the warm-up.
    pub live_bytes: Vec<i64>,
    pub live_count: Vec<u32>,
    /// Share of steps in which it grows, 0 to 1.
    pub monotonic: f64,
    pub r2: f64,
    /// Number of blocks that outlived their step, and of distinct steps that allocated them.
    pub survivors: u64,
    pub survivor_steps: usize,
    pub severity: Severity,
    /// `slope_share` x `monotonic` x coverage; higher is more likely a leak.
    pub score: f64,
    pub evidence: LeakEvidence,
}

/// A signature that is not a candidate, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    pub signature: SignatureId,
    pub verdict: Verdict,
    /// Live bytes at the last boundary.
    pub bytes: i64,
    /// Which others gave up as much in blocks of similar size, the largest loss first; only of [`Verdict::Offset`].
    pub given_up_by: Vec<SignatureId>,
}

/// A place that holds more at each step boundary, although no block persists: a block that is replaced by a larger one, or
/// more blocks that are given back later. Growth by size, not a leak. Of fewer steps than a verdict takes, any place that
/// holds more after each.
#[derive(Clone, Debug, PartialEq)]
pub struct GrowingPlace {
    pub signature: SignatureId,
    /// The frame that names it; empty if unknown. Text from a file.
    pub place: String,
    /// Theil-Sen slope of live bytes at the step boundaries.
    pub bytes_per_step: f64,
    /// Number of blocks at the first boundary after the warm-up, and at the last.
    pub blocks: [u32; 2],
    /// Of those at the last boundary the bytes that the program had freed, but that awaited a stream.
    pub awaiting: i64,
}

/// Result of the leak analysis of one history.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaks {
    /// Number of initial steps excluded; 0 without steps.
    pub warm_up: usize,
    /// By score, descending; empty without steps.
    pub candidates: Vec<LeakCandidate>,
    /// By bytes, descending.
    pub explained: Vec<Explained>,
    /// Places that hold more at each boundary, but do not leak, by growth, descending.
    pub growing: Vec<GrowingPlace>,
    /// Total memory; `None` without steps.
    pub total: Option<Total>,
    /// Places with more bytes at the end than at the start, descending; available without steps.
    pub gains: Vec<Gain>,
    /// Number of places at which the candidates allocate, as [`Signatures::label`] names them: stacks that differ in
    /// frames of libraries alone are one place.
    pub places: usize,
    /// Share of the bytes live when the steps end, else at the end, whose call stack is known; 1 if none are live.
    pub coverage: f64,
    pub confidence: Confidence,
    /// Reasons that lower the confidence.
    pub caveats: Vec<String>,
    /// What is lacking for steps, if there are none and the search for them told.
    pub no_steps: Option<NoSteps>,
    /// Why what is reserved grows beyond what is in use, where it does and the caller asked.
    pub excess: Option<Excess>,
}

impl Leaks {
    /// Whether what is reserved grows, and not by what is in use alone.
    pub fn has_excess(&self) -> bool {
        self.total.is_some_and(|total| total.is_reserved_alarm || total.verdict == TotalVerdict::FragmentationGrowth)
    }
}

/// Finds the signatures whose live memory grows from step to step.
///
/// The live bytes of each signature are summed at every step boundary, without the warm-up: five steps, or a
/// quarter if there are fewer than 20. A candidate exceeds the growth limits of [`Thresholds`] in most steps,
/// or in some throughout the recording, and has blocks from several steps that outlive their step by another
/// one and are mostly not freed while the program goes on. This excludes prefetched batches and results gathered over
/// some steps; that a program gives all back when it ends does not count. A
/// signature that stops growing in the last third, or at least four steps before the end, is a warm-up cache; if total
/// memory is level because other signatures shrink by as much, allocations have only moved. Growth that begins late is
/// judged from its first step on. Steps in which memory ran out count only if memory grew in them. Growth over steps
/// that are not reliable is listed with the lowest severity and raises no alarm.
///
/// If total memory grows and the candidates account for less than half of it, stacks may vary between steps,
/// as with compiled code. Signatures are then reduced to file and function if that accounts for more; the
/// result refers to those signatures, which are returned with it.
///
/// Without steps only `gains` is filled in.
///
/// * `signatures`: of the trace.
/// * `steps`: of this history.
/// * `capacity`: bytes that the allocator can reserve at most, if known; see [`capacity`].
/// * Incomplete once cancelled.
/// * Cost: O(m log m) for m blocks; O(n + min(n, 200)²) for each signature examined over n steps.
///
/// Source: this project's own rule, combining the survivors of Ascend's msMemScope, the share of rising steps
/// of stormlog, and the limits of PyTorch's user guides.
pub fn leaks(
    trace: &Trace,
    history: &MemoryHistory,
    signatures: &Signatures,
    steps: Option<&Steps>,
    capacity: Option<u64>,
    thresholds: &Thresholds,
    is_cancelled: &dyn Fn() -> bool,
) -> (Option<Signatures>, Leaks) {
    let shorter = steps.and_then(|steps| ending::without_end(history, steps));
    let steps = shorter.as_ref().or(steps);
    let find = |signatures: &Signatures| {
        let mut found = find_growth(history, signatures, steps, capacity, thresholds, is_cancelled);
        let labels = found.candidates.iter().map(|one| signatures.label(trace, one.signature));
        found.places = labels.collect::<HashSet<_>>().len();
        for one in &mut found.growing {
            one.place = signatures.label(trace, one.signature).unwrap_or_default();
        }
        found
    };
    let found = find(signatures);
    let attributed = |found: &Leaks| found.candidates.iter().map(|candidate| candidate.growth_bytes).sum::<i64>();
    let (known, whole) = (attributed(&found), found.total.map_or(0, |total| total.growth_bytes));
    let is_growing = found.total.is_some_and(|total| total.verdict == TotalVerdict::Growth);
    if is_growing && known.saturating_mul(2) < whole {
        let coarse = Signatures::by_function(trace);
        let mut other = find(&coarse);
        if attributed(&other) > known.saturating_mul(2).max(whole / 4) {
            other.confidence = other.confidence.min(Confidence::Medium);
            let text = "Stacks differ from step to step: places are distinguished by file and function only";
            other.caveats.push(text.to_owned());
            return (Some(coarse), other);
        }
    }
    (None, found)
}

fn find_growth(
    history: &MemoryHistory,
    signatures: &Signatures,
    steps: Option<&Steps>,
    capacity: Option<u64>,
    thresholds: &Thresholds,
    is_cancelled: &dyn Fn() -> bool,
) -> Leaks {
    let steps = steps.filter(|steps| !steps.is_empty());
    let until = steps.map_or(history.last_state(), |steps| ending::goes_on_until(history, steps));
    let coverage = confidence::coverage(history, signatures, until);
    let mut found = Leaks {
        warm_up: 0,
        candidates: Vec::new(),
        explained: Vec::new(),
        growing: Vec::new(),
        total: None,
        gains: gains::gains(history, signatures),
        places: 0,
        coverage,
        confidence: Confidence::High,
        caveats: Vec::new(),
        no_steps: None,
        excess: None,
    };
    if let Some(steps) = steps {
        let warm_up = thresholds.max_warm_up.min(steps.len() / 4);
        found.warm_up = warm_up;
        let failures = Failures::new(history, steps);
        let mut ended = vec![0; steps.len() + 1];
        let mut total = total::total(history, steps, warm_up, &failures, &ended, thresholds);
        let least = thresholds.min_bytes_per_step.max(thresholds.min_growth_share * total.trend.slope);
        let crossings = series::crossings(history, signatures, &steps.boundaries);
        let criteria =
            Criteria { history, warm_up, n_steps: steps.len(), until, failures: &failures, least, thresholds };
        let mut losses = Losses::default();
        for blocks in crossings.chunk_by(|a, b| a.signature == b.signature) {
            if is_cancelled() {
                return found;
            }
            criteria.classify(blocks, &mut losses, &mut ended, &mut found);
        }
        if total.rises(thresholds) && ended.iter().any(|&bytes| bytes > 0) {
            total = total::total(history, steps, warm_up, &failures, &ended, thresholds);
        }
        if total.rises(thresholds) && found.candidates.is_empty() {
            criteria.name_most(&crossings, total.since_step.unwrap_or(warm_up), total.growth_bytes, &mut found);
        }
        losses.offset(&crossings, &criteria, if total.rises(thresholds) { total.growth_bytes } else { 0 }, &mut found);
        rank(&mut found);
        let end = steps.boundaries[steps.len()];
        evidence::gather(history, signatures, steps, until.max(end), &crossings, thresholds, &mut found);
        if !steps.is_reliable() {
            found.candidates.iter_mut().for_each(|candidate| candidate.severity = Severity::Note);
        }
        let leaked: i64 = found.candidates.iter().map(|candidate| candidate.growth_bytes).sum();
        if let Some(since) = found.candidates.iter().map(|candidate| candidate.since_step).min()
            && (2 * leaked >= total.growth_bytes || !total.rises(thresholds))
            && since != total.since_step
        {
            total.begin_with(history, steps, &failures, warm_up, since);
        }
        let room = Room::of(history, steps, capacity);
        total.classify(&found.candidates, steps.is_reliable(), room, thresholds);
        found.total = Some(total);
    }
    confidence::add_caveats(history, steps, thresholds, &mut found);
    found
}

fn rank(found: &mut Leaks) {
    let whole: f64 = found.candidates.iter().map(|candidate| candidate.bytes_per_step).sum();
    for candidate in &mut found.candidates {
        candidate.slope_share = candidate.bytes_per_step / whole;
        candidate.score = candidate.slope_share * candidate.monotonic * found.coverage;
    }
    // Without call stacks all scores are zero: sort by bytes.
    found.candidates.sort_by(|a, b| {
        let by_score = b.score.total_cmp(&a.score).then(b.bytes_per_step.total_cmp(&a.bytes_per_step));
        by_score.then(a.signature.cmp(&b.signature))
    });
    found.growing.sort_by(|a, b| b.bytes_per_step.total_cmp(&a.bytes_per_step).then(a.signature.cmp(&b.signature)));
    found.explained.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.signature.cmp(&b.signature)));
}

/// Bytes that the allocator can reserve at most: reserved plus free device memory at the last out-of-memory
/// event, else the device's total memory. `None` if neither is known.
pub fn capacity(trace: &Trace, history: &MemoryHistory) -> Option<u64> {
    let at_oom = history.ooms.iter().rev().find_map(|oom| {
        let reserved = history.curves.reserved.get(oom.event as usize)?;
        oom.device_free.map(|free| free.saturating_add(*reserved))
    });
    at_oom.or_else(|| device_total(trace, history))
}

/// The device's total memory in bytes as recorded in the file.
pub fn device_total(trace: &Trace, history: &MemoryHistory) -> Option<u64> {
    trace.device_of_work(u32::try_from(history.device).ok()?)?.total_memory_bytes
}
