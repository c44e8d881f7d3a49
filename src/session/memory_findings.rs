//! Findings about the memory of the open traces.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::{OpenMemory, failures};
use crate::analysis::finding::Finding;
use crate::analysis::frame::Frame;
use crate::analysis::memory::leaks::{LeakCandidate, Leaks};
use crate::analysis::memory::oom::{OomCard, went_on};
use crate::analysis::memory::outside::Outside;
use crate::analysis::memory::signature::Signatures;
use crate::analysis::memory::steps::Steps;
use crate::analysis::memory::unused::unused;
use crate::figures::memory::{Owner, Places, growing_place, outside_growth, reserved_unused, step_name};
use crate::figures::text::display_name;
use crate::figures::{Stack, findings, format};
use crate::model::memory::MemorySource;
use crate::model::{StringId, TimeNs};

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
                let finding = findings::leak(&leaks, since.map(|step| step_name(steps, step)), &self.kinds(&leaks));
                let place = leaks.first().map(|leak| leak.1.frame().to_owned()).unwrap_or_default();
                found.extend(finding.map(|finding| FoundInMemory { place, ..of_all(finding) }));
            }
            found.extend(findings::growth(self.leaks, steps).map(of_all));
            found.extend(findings::reserved_growth(self.leaks, steps).map(of_all));
        }
        // What grows by more comes first.
        found.sort_by(|a, b| b.finding.measured.total_cmp(&a.finding.measured));
        let is_told = |one: &FoundInMemory<'_>| one.finding.rule == findings::RESERVED_GROWTH;
        // Growth of what is reserved, and a request that failed, tell what is unused.
        if self.cards.is_empty() && !found.iter().any(is_told) {
            found.extend(unused(of.history()).and_then(|unused| reserved_unused(&unused)).map(of_all));
        }
        found.extend(self.outside.and_then(outside_growth).map(of_all));
        let at = |card: &OomCard| card.at.map(|at| at.saturating_add(of.open.offset));
        let grows = self.steps.filter(|steps| steps.is_reliable()).and_then(|_| growing_place(self.leaks));
        // A request that fails again and again, for one cause, is one finding.
        let stack = |card: &OomCard| of.history().events.stack.get(card.event as usize).copied();
        let mut known = HashMap::new();
        let mut repeated: Vec<(&OomCard, Vec<&OomCard>)> = Vec::new();
        for card in self.cards {
            let at = *known.entry((card.cause, card.requested, stack(card))).or_insert(repeated.len());
            match repeated.get_mut(at) {
                Some((_, same)) => same.push(card),
                None => repeated.push((card, vec![card])),
            }
        }
        let went_on = went_on(of.history());
        found.extend(repeated.into_iter().map(|(first, same)| {
            let last = same[same.len() - 1];
            let place = stack(last).map(|stack| places(self.signatures).stack(self.signatures.of(stack)).place);
            of_all(findings::out_of_memory(
                last,
                &place.unwrap_or_default(),
                same.len(),
                grows.clone(),
                at(first).zip(at(last)).map(|(first, last)| [first, last]),
                went_on,
            ))
        }));
        found
    }

    /// What the blocks of leaks are that stayed, those of most bytes first, as far as the file gives blocks a category:
    /// `ACTIVATION of 512.00 KiB, GRADIENT of 4.00 KiB`.
    fn kinds(&self, leaks: &[(&LeakCandidate, Stack)]) -> String {
        const NAMED: usize = 3;
        let (trace, all) = (self.of.trace(), &self.of.history().allocations);
        let mut sums: HashMap<(StringId, u64), u64> = HashMap::new();
        for &id in leaks.iter().flat_map(|leak| &leak.0.evidence.examples) {
            let (category, bytes) = (all.category(id), all.bytes[id.idx()]);
            *sums.entry((category, bytes)).or_default() += bytes;
        }
        sums.retain(|kind, _| kind.0 != StringId::EMPTY);
        let mut kinds: Vec<_> = sums.into_iter().collect();
        kinds.sort_by_key(|&(kind, sum)| (Reverse(sum), kind));
        let name = |((category, bytes), _)| {
            format!("{} of {}", display_name(trace.strings.get(category)), format::bytes(bytes as f64))
        };
        kinds.into_iter().take(NAMED).map(name).collect::<Vec<_>>().join(", ")
    }

    /// The leaks with their stacks, together where one frame names their place; the largest first.
    fn leaks_by_place(&self, places: &Places<'_>) -> Vec<Vec<(&'a LeakCandidate, Stack)>> {
        let mut groups: Vec<Vec<(&LeakCandidate, Stack)>> = Vec::new();
        let mut of_frame = HashMap::new();
        for one in &self.leaks.candidates {
            let stack = places.stack(one.signature);
            let at = *of_frame.entry(stack.frame().to_owned()).or_insert(groups.len());
            match groups.get_mut(at) {
                Some(group) => group.push((one, stack)),
                None => groups.push(vec![(one, stack)]),
            }
        }
        let rate = |group: &[(&LeakCandidate, Stack)]| -> f64 { group.iter().map(|leak| leak.0.bytes_per_step).sum() };
        groups.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        groups
    }
}

/// The findings; where a trace and a memory history say the same of one memory, only that of the history, which knows
/// the line: a trace knows the one at which the function begins.
///
/// Cost: O(findings), and for each finding of a trace those of the histories that name its function and rule.
///
/// Of two histories of which one continues the other, what both say is told once, of the longer one, or else the later.
pub fn joined(mut found: Vec<FoundInMemory<'_>>) -> Vec<FoundInMemory<'_>> {
    // There may be thousands, of as many devices.
    let mut alike: HashMap<_, Vec<usize>> = HashMap::new();
    for (at, one) in found.iter().enumerate() {
        alike.entry((one.finding.rule, one.place.as_str(), one.of.history().device)).or_default().push(at);
    }
    let is_retold = |at: usize| {
        let one: &FoundInMemory<'_> = &found[at];
        alike[&(one.finding.rule, one.place.as_str(), one.of.history().device)].iter().any(|&other_at| {
            let other = &found[other_at];
            let is_longer = (one.of.history().events.len(), at) < (other.of.history().events.len(), other_at);
            is_longer
                && one.says_the_same(other)
                && (is_continued(one.of, other.of) || one.is_of_the_same_failures(other))
        })
    };
    let mut is_new = (0..found.len()).map(|at| !is_retold(at)).collect::<Vec<_>>().into_iter();
    found.retain(|_| is_new.next().unwrap_or(true));
    let mut of_histories: HashMap<_, Vec<usize>> = HashMap::new();
    for (at, one) in found.iter().enumerate().filter(|(_, one)| one.is_of(MemorySource::Snapshot)) {
        of_histories.entry((one.function(), one.finding.rule)).or_default().push(at);
    }
    let of_history = |one: &FoundInMemory<'_>| {
        let candidates =
            of_histories.get(&(one.function(), one.finding.rule)).filter(|_| one.is_of(MemorySource::Profiler));
        candidates?.iter().copied().find(|&other| is_of_one_time(&found[other], one))
    };
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

impl FoundInMemory<'_> {
    fn is_of(&self, source: MemorySource) -> bool {
        let history = self.of.history();
        history.source == source && history.has_time
    }

    /// Whether both are of one rule and place; of failed requests, also of one size.
    fn says_the_same(&self, other: &Self) -> bool {
        let size = |one: &Self| (one.finding.rule == findings::OUT_OF_MEMORY).then_some(one.finding.measured);
        self.finding.rule == other.finding.rule && self.place == other.place && size(self) == size(other)
    }

    /// Whether both are of requests that failed in one process at the same times. The later of two histories may have
    /// forgotten how the earlier one began.
    fn is_of_the_same_failures(&self, other: &Self) -> bool {
        let [a, b] = [self, other].map(|one| one.finding.evidence.range_ns);
        let is_one_time = |a: [TimeNs; 2], b: [TimeNs; 2]| a.iter().zip(b).all(|(&a, b)| failures::is_one_time(a, b));
        self.finding.rule == findings::OUT_OF_MEMORY
            && is_of_one_process(self.of, other.of)
            && self.of.open.shares_clock(&other.of.open)
            && a.zip(b).is_some_and(|(a, b)| is_one_time(a, b))
    }

    /// File and name of the function at its place.
    fn function(&self) -> (String, String) {
        let frame = Frame::of(&self.place);
        (frame.file.rsplit(['/', '\\']).next().unwrap_or_default().to_owned(), frame.function.to_owned())
    }
}

/// Whether two histories of one device and process begin with the same events, all of those of the shorter one. Times
/// may differ by what the clock's calibration does.
fn is_continued(shorter: &OpenMemory, longer: &OpenMemory) -> bool {
    let [a, b] = [shorter, longer].map(OpenMemory::history);
    let n = a.events.len();
    n > 0
        && is_of_one_process(shorter, longer)
        && b.events.addr.get(..n) == Some(&a.events.addr[..])
        && b.events.bytes.get(..n) == Some(&a.events.bytes[..])
        && b.events.action.get(..n) == Some(&a.events.action[..])
}

/// Whether two histories are snapshots of one device and process.
fn is_of_one_process(one: &OpenMemory, other: &OpenMemory) -> bool {
    let [a, b] = [one, other].map(OpenMemory::history);
    let rank = |of: &OpenMemory| of.trace().info.rank;
    [a, b].iter().all(|one| one.source == MemorySource::Snapshot)
        && (a.device, a.pid, rank(one)) == (b.device, b.pid, rank(other))
        && !std::ptr::eq(a, b)
}

/// Whether two findings are of one device and process at one time.
fn is_of_one_time(history: &FoundInMemory<'_>, profiler: &FoundInMemory<'_>) -> bool {
    let [a, b] = [history.of, profiler.of].map(OpenMemory::history);
    let or_unknown = |a: Option<i64>, b: Option<i64>| a.is_none() || b.is_none() || a == b;
    let rank = |of: &OpenMemory| of.trace().info.rank.map(i64::from);
    let [at, other] = [history, profiler].map(|one| one.of.history().span.shifted(one.of.open.offset));
    a.device == b.device
        && or_unknown(a.pid, b.pid)
        && or_unknown(rank(history.of), rank(profiler.of))
        && at.start < other.end
        && other.start < at.end
}
