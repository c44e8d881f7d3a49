//! Confidence in the leak verdicts, and the caveats that lower it.

use super::{Leaks, Thresholds};
use crate::analysis::memory::live::{LiveUntil, live};
use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::analysis::memory::steps::{StepSource, Steps};
use crate::model::MemoryHistory;
use crate::model::memory::{Inconsistency, MemoryAction};

/// Confidence in the verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    Low,
    Medium,
    High,
}

impl Confidence {
    /// Machine name.
    pub fn key(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Share, 0 to 1, of the bytes live in a state whose call stack is known; 1 if none are live.
pub fn coverage(history: &MemoryHistory, signatures: &Signatures, state: u32) -> f64 {
    let (mut known, mut whole) = (0_u64, 0_u64);
    for id in live(history, state, LiveUntil::Active) {
        let bytes = history.allocations.bytes[id.idx()];
        whole += bytes;
        if signatures.of(history.allocations.stack[id.idx()]) != SignatureId::default() {
            known += bytes;
        }
    }
    if whole == 0 { 1.0 } else { known as f64 / whole as f64 }
}

/// That steps are guessed, and what is in none of them.
fn guessed(history: &MemoryHistory, steps: &Steps) -> String {
    let allocs = |events: std::ops::Range<usize>| events.filter(|&event| history.allocates(event)).count();
    let (first, last) = (steps.boundaries[0] as usize, steps.boundaries[steps.len()] as usize);
    let after = allocs(last..history.events.len());
    let outside = match allocs(0..first) {
        0 => format!("the {after} allocations after the last belong"),
        before => format!("the {before} allocations before the first and the {after} after the last belong"),
    };
    let of_last = steps.boundaries[steps.len() - 1] as usize..last;
    let is_unended = history.events.len() - last < of_last.len() && after == allocs(of_last);
    let why = if is_unended { ": the recording ends before the last frees of their step" } else { "" };
    format!("Steps are guessed from what repeats; {outside} to none{why}")
}

/// Lowers the confidence and adds a caveat for each weakness of the recording.
pub fn add_caveats(history: &MemoryHistory, steps: Option<&Steps>, thresholds: &Thresholds, found: &mut Leaks) {
    let mut add = |confidence: Confidence, text: String| {
        found.confidence = found.confidence.min(confidence);
        found.caveats.push(text);
    };
    let count =
        |wanted: Inconsistency| history.inconsistencies.iter().find(|odd| odd.0 == wanted).map_or(0, |odd| odd.1);
    let n = |wanted| history.events.action.iter().filter(|&&action| action == wanted).count() as f64;
    let frees = n(MemoryAction::FreeCompleted).max(1.0);
    let lost = count(Inconsistency::FreedFromBefore) as f64 / frees;
    if lost > thresholds.max_lost {
        let text = format!("History is lost: {:.1} % of frees have no allocation", lost * 100.0);
        add(Confidence::Low, text);
    }
    let contradictions =
        [Inconsistency::AllocTwice, Inconsistency::FreedTwice, Inconsistency::Gone, Inconsistency::Appeared].map(count);
    let odd = contradictions.iter().sum::<u64>() as f64 / n(MemoryAction::Alloc).max(1.0);
    if odd > thresholds.max_lost {
        add(Confidence::Low, format!("Events contradict each other: {:.1} % of allocations", odd * 100.0));
    }
    // PyTorch keeps the last `max_entries` events, usually a round number.
    let n_events = history.events.len();
    let is_full = n_events > 0 && (n_events.is_multiple_of(10_000) || n_events > 1000 && n_events.is_power_of_two());
    if is_full && count(Inconsistency::FreedFromBefore) + count(Inconsistency::LiveFromBefore) > 0 {
        let text = format!("The recording holds exactly {n_events} events: earlier ones may be lost");
        add(Confidence::Low, text);
    }
    let Some(steps) = steps.filter(|steps| !steps.is_empty()) else {
        add(Confidence::Low, "There are no steps to compare".to_owned());
        return;
    };
    if let StepSource::Period { .. } = steps.source {
        add(Confidence::Medium, guessed(history, steps));
    }
    if steps.len() - found.warm_up < 2 * thresholds.min_steps {
        let text = match steps.len() - found.warm_up {
            1 => "Only one step counts".to_owned(),
            n => format!("Only {n} steps count"),
        };
        add(Confidence::Medium, text);
    }
    if steps.regularity < 0.8 {
        let text = format!("Steps differ: {:.0} % have about as many events as most", steps.regularity * 100.0);
        add(Confidence::Medium, text);
    }
    if let Some((other, count)) = &steps.disagreement {
        let text = format!("By {} there are {count} steps instead", other.label());
        add(Confidence::Medium, text);
    }
    if found.coverage == 0.0 {
        add(
            Confidence::Low,
            "Nothing that is live after the last step has a call stack: no place can be named".to_owned(),
        );
    } else if found.coverage < 0.5 {
        let text =
            format!("Only {:.0} % of the bytes live after the last step have a call stack", found.coverage * 100.0);
        add(Confidence::Medium, text);
    }
}
