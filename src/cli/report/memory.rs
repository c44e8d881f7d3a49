//! What became of memory: the part `memory` of the report.

use std::sync::Arc;

use crate::analysis::finding::Finding;
use crate::analysis::memory::leaks::{self, Leaks, Thresholds};
use crate::analysis::memory::live::{self, LiveUntil, sort_first};
use crate::analysis::memory::oom::{self, OomCard};
use crate::analysis::memory::signature::Signatures;
use crate::analysis::memory::steps::{Steps, steps};
use crate::analysis::memory::summary::summary;
use crate::figures::memory::{
    self, DeviceMemory, MemoryGrowth, OutOfMemory, Owner, Placed, Places, gains, growth, leaks as leaks_part,
    live_at_end, no_leaks, peak_by_stack,
};
use crate::figures::{Part, Table, findings};
use crate::model::{DurNs, MemoryHistory, Trace};

/// All that the report says of memory.
pub struct MemoryReport {
    /// The part `memory`.
    pub devices: Table,
    /// The part `growth` of flat reports.
    pub growth: Table,
    pub findings: Vec<Finding>,
}

/// The analyses of one device's memory.
struct Analyzed<'a> {
    trace: &'a Trace,
    history: &'a MemoryHistory,
    offset_ns: DurNs,
    signatures: Arc<Signatures>,
    /// Those that `found` is of, where leaks have their own.
    other: Option<Signatures>,
    found: Leaks,
    steps: Option<Steps>,
    cards: Vec<OomCard>,
}

/// * `offsets`: for each trace what to add to its times to get session times.
/// * `top`: rows of each list; 0 keeps all.
pub fn report(traces: &[&Trace], offsets: &[DurNs], top: usize) -> MemoryReport {
    let with_memory = traces.iter().zip(offsets).filter(|(trace, _)| !trace.memories.is_empty());
    let all: Vec<Analyzed<'_>> = with_memory
        .flat_map(|(trace, &offset_ns)| {
            let signatures = Arc::new(Signatures::new(trace, false));
            let of = move |history| Analyzed::new(trace, history, offset_ns, Arc::clone(&signatures), top);
            trace.memories.iter().map(of)
        })
        .collect();
    let rows: Vec<DeviceMemory<'_>> = all.iter().map(|one| one.device(top)).collect();
    let growing: Vec<&MemoryGrowth> = rows.iter().filter_map(|row| row.growth.as_ref()).collect();
    MemoryReport {
        growth: growth().table(growing, 0),
        findings: all.iter().flat_map(Analyzed::findings).collect(),
        devices: memory::memory().table(rows, 0),
    }
}

impl<'a> Analyzed<'a> {
    fn new(
        trace: &'a Trace,
        history: &'a MemoryHistory,
        offset_ns: DurNs,
        signatures: Arc<Signatures>,
        top: usize,
    ) -> Self {
        let steps = steps(trace, history, &|| false);
        let (limit, thresholds) = (leaks::capacity(trace, history), Thresholds::default());
        let (other, found) = leaks::leaks(trace, history, &signatures, steps.as_ref(), limit, &thresholds, &|| false);
        let cards = oom::cards(trace, history, &signatures, top, &|| false);
        Self { trace, history, offset_ns, signatures, other, found, steps, cards }
    }

    fn owner(&self) -> Owner {
        Owner { rank: self.trace.info.rank, device: self.history.device }
    }

    fn places(&self) -> Places<'_> {
        Places { trace: self.trace, signatures: &self.signatures, owner: self.owner() }
    }

    /// The places of leaks, gains and what is neither.
    fn places_found(&self) -> Places<'_> {
        let signatures = self.other.as_ref().unwrap_or(&self.signatures);
        Places { signatures, ..self.places() }
    }

    fn device(&self, top: usize) -> DeviceMemory<'_> {
        let (history, found, places) = (self.history, &self.found, self.places_found());
        let summary = summary(history);
        let suspects = found.candidates.iter().map(|one| places.placed(one.signature, one));
        let innocents = found.explained.iter().map(|&one| places.placed(one.signature, one));
        let gained = found.gains.iter().map(|&one| places.placed(one.signature, one));
        let cards = self.cards.iter().map(|card| self.out_of_memory(card));
        DeviceMemory {
            trace: self.trace,
            history,
            offset_ns: self.offset_ns,
            growth: MemoryGrowth::new(self.owner(), found, self.steps.as_ref()),
            found,
            oom: Arc::new(memory::oom().table(cards, top)),
            peak_by_stack: self.live(&peak_by_stack(), summary.peak_allocated.state, top),
            live_at_end: self.live(&live_at_end(), history.last_state(), top),
            leaks: Arc::new(leaks_part().table(suspects, top)),
            no_leaks: Arc::new(no_leaks().table(innocents, top)),
            gains: Arc::new(gains().table(gained, top)),
            summary,
        }
    }

    fn live(&self, part: &Part<Placed<live::LiveGroup>>, state: u32, top: usize) -> Arc<Table> {
        let by_signature = live::by_signature(self.history, &self.signatures);
        let mut groups = live::groups(self.history, state, LiveUntil::Allocated, by_signature);
        sort_first(&mut groups, top, |group| group.frames(self.trace, &self.signatures));
        let places = self.places();
        Arc::new(part.table(groups.into_iter().map(|group| places.live(group)), top))
    }

    fn out_of_memory<'b>(&self, card: &'b OomCard) -> OutOfMemory<'b> {
        let places = self.places();
        let by_stack = live_at_end().table(card.stacks.iter().map(|&group| places.live(group)), 0);
        OutOfMemory { owner: self.owner(), card, offset_ns: self.offset_ns, by_stack: Arc::new(by_stack) }
    }

    fn findings(&self) -> Vec<Finding> {
        let places = self.places_found();
        let suspects = self.found.candidates.iter();
        let mut found: Vec<Finding> =
            suspects.map(|one| findings::leak(one, places.stack(one.signature).name())).collect();
        found.extend(self.found.total.as_ref().and_then(findings::growth));
        let at = |card: &OomCard| card.at.map(|at| at.saturating_add(self.offset_ns));
        found.extend(self.cards.iter().map(|card| findings::out_of_memory(card, at(card))));
        found
    }
}
