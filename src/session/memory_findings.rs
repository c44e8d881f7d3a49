//! Findings about the memory of the open traces.

use super::OpenMemory;
use crate::analysis::finding::Finding;
use crate::analysis::frame::Frame;
use crate::analysis::memory::leaks::{LeakCandidate, Leaks};
use crate::analysis::memory::oom::OomCard;
use crate::analysis::memory::outside::Outside;
use crate::analysis::memory::signature::Signatures;
use crate::analysis::memory::steps::Steps;
use crate::figures::memory::{Owner, Places, outside_growth, step_name};
use crate::figures::{Stack, findings};
use crate::model::memory::MemorySource;

/// The answers about one memory on which findings rest.
#[derive(Clone, Copy, Debug)]
pub struct MemoryAnswers<'a> {
    pub of: &'a OpenMemory,
    /// Of all call stacks.
    pub signatures: &'a Signatures,
    /// Of the places that leak.
    pub leak_signatures: &'a Signatures,
    pub leaks: &'a Leaks,
    pub steps: Option<&'a Steps>,
    pub cards: &'a [OomCard],
    pub outside: Option<&'a Outside>,
}

/// A finding about a memory.
#[derive(Clone, Debug)]
pub struct FoundInMemory<'a> {
    pub of: &'a OpenMemory,
    pub finding: Finding,
    /// The frame that names its place; empty for all memory.
    pub place: String,
}

impl<'a> MemoryAnswers<'a> {
    /// Leaks, growth, and requests that the device could not serve.
    pub fn findings(&self) -> Vec<FoundInMemory<'a>> {
        let of = self.of;
        let of_all = |finding| FoundInMemory { of, finding, place: String::new() };
        let owner = Owner { file: None, rank: of.trace().info.rank, device: of.history().device };
        let places = |signatures| Places { trace: of.trace(), signatures, owner: owner.clone() };
        let mut found = Vec::new();
        // No finding rests on steps that are a guess.
        if let Some(steps) = self.steps.filter(|steps| steps.is_reliable()) {
            for leaks in self.leaks_by_place(&places(self.leak_signatures)) {
                let since = leaks.iter().map(|leak| leak.0.since_step).min().flatten();
                let finding = findings::leak(&leaks, since.map(|step| step_name(steps, step)));
                let place = leaks.into_iter().next().map(|leak| leak.1.label).unwrap_or_default();
                found.extend(finding.map(|finding| FoundInMemory { place, ..of_all(finding) }));
            }
            found.extend(findings::growth(self.leaks, steps).map(of_all));
            found.extend(findings::reserved_growth(self.leaks, steps).map(of_all));
        }
        found.extend(self.outside.and_then(outside_growth).map(of_all));
        let at = |card: &OomCard| card.at.map(|at| at.saturating_add(of.open.offset));
        // A request that fails again and again, for one cause, is one finding.
        let stack = |card: &OomCard| of.history().events.stack.get(card.event as usize).copied();
        let is_same = |a: &OomCard, b: &OomCard| (a.cause, a.requested, stack(a)) == (b.cause, b.requested, stack(b));
        let mut repeated: Vec<(&OomCard, Vec<&OomCard>)> = Vec::new();
        for card in self.cards {
            match repeated.iter_mut().find(|(first, _)| is_same(first, card)) {
                Some((_, same)) => same.push(card),
                None => repeated.push((card, vec![card])),
            }
        }
        found.extend(repeated.into_iter().map(|(first, same)| {
            let last = same[same.len() - 1];
            let place = stack(last).map(|stack| places(self.signatures).stack(self.signatures.of(stack)).label);
            of_all(findings::out_of_memory(
                last,
                &place.unwrap_or_default(),
                same.len(),
                at(first).zip(at(last)).map(|(first, last)| [first, last]),
            ))
        }));
        found
    }

    /// The leaks with their stacks, together where one frame names their place; the largest first.
    fn leaks_by_place(&self, places: &Places<'_>) -> Vec<Vec<(&'a LeakCandidate, Stack)>> {
        let mut groups: Vec<Vec<(&LeakCandidate, Stack)>> = Vec::new();
        for one in &self.leaks.candidates {
            let stack = places.stack(one.signature);
            match groups.iter_mut().find(|group| group[0].1.label == stack.label) {
                Some(group) => group.push((one, stack)),
                None => groups.push(vec![(one, stack)]),
            }
        }
        let rate = |group: &[(&LeakCandidate, Stack)]| -> f64 { group.iter().map(|leak| leak.0.bytes_per_step).sum() };
        groups.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        groups
    }
}

/// The findings; where a trace and a memory history say the same of one memory, only that of the history, which knows the
/// line: a trace knows the one at which the function begins.
///
/// Cost: O(findings²).
pub fn joined(mut found: Vec<FoundInMemory<'_>>) -> Vec<FoundInMemory<'_>> {
    let of_history = |one| found.iter().position(|other| is_same(other, one));
    let twins: Vec<Option<usize>> = found.iter().map(of_history).collect();
    for (one, twin) in twins.iter().enumerate() {
        if let Some(twin) = *twin {
            let Finding { severity, text, .. } = &found[one].finding;
            let (severity, note) = (*severity, format!("The profiler shows it, too: {text}"));
            let known = &mut found[twin].finding;
            known.severity = known.severity.max(severity);
            known.evidence.notes.push(note);
        }
    }
    let mut is_own = twins.iter().map(Option::is_none);
    found.retain(|_| is_own.next().unwrap_or(true));
    found
}

/// Whether a history's finding says what a profiler's does: of one device and process at one time, and of one function.
fn is_same(history: &FoundInMemory<'_>, profiler: &FoundInMemory<'_>) -> bool {
    let [a, b] = [history.of, profiler.of].map(OpenMemory::history);
    let is_pair = (a.source, b.source) == (MemorySource::Snapshot, MemorySource::Profiler) && a.has_time && b.has_time;
    let or_unknown = |a: Option<i64>, b: Option<i64>| a.is_none() || b.is_none() || a == b;
    let rank = |of: &OpenMemory| of.trace().info.rank.map(i64::from);
    let [at, other] = [history, profiler].map(|one| one.of.history().span.shifted(one.of.open.offset));
    let function = |one: &FoundInMemory<'_>| {
        let frame = Frame::of(&one.place);
        let file = frame.file.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        (file, frame.function.to_owned())
    };
    is_pair
        && a.device == b.device
        && or_unknown(a.pid, b.pid)
        && or_unknown(rank(history.of), rank(profiler.of))
        && at.start < other.end
        && other.start < at.end
        && history.finding.rule == profiler.finding.rule
        && function(history) == function(profiler)
}
