//! What became of memory: the part `memory` of the report.

use std::sync::Arc;

use crate::analysis::finding::Finding;
use crate::analysis::memory::live::{self, LiveUntil, sort_first};
use crate::analysis::memory::oom::OomCard;
use crate::analysis::memory::signature::Signatures;
use crate::analysis::memory::summary::summary;
use crate::answers::Answers;
use crate::answers::memory::{FoundLeaks, LeakSearch, OomCards, StackSignatures};
use crate::cli::Failure;
use crate::figures::memory::{
    self, AtPlace, DeviceMemory, MemoryGrowth, OutOfMemory, Owner, Places, gains, growth, leaks as leaks_part,
    live_at_end, no_leaks, peak_by_stack,
};
use crate::figures::{Part, Table, findings};
use crate::session::{OpenMemory, OpenTrace};

/// All that the report says of memory.
pub struct MemoryReport {
    /// The part `memory`.
    pub devices: Table,
    /// The part `growth` of flat reports.
    pub growth: Table,
    pub findings: Vec<Finding>,
}

/// The analyses of one device's memory.
struct Analyzed {
    of: OpenMemory,
    signatures: Arc<Signatures>,
    /// With signatures of its own for the places of leaks, gains and what is neither.
    found: Arc<FoundLeaks>,
    cards: Arc<Vec<OomCard>>,
}

/// * `top`: rows of each list; 0 keeps all.
///
/// Errors: an analysis crashed, as stderr says.
pub fn report(traces: &[OpenTrace], answers: &Answers, top: usize) -> Result<MemoryReport, Failure> {
    let memories = traces.iter().flat_map(|open| {
        let of = |memory| OpenMemory { open: open.clone(), memory };
        (0..open.trace.memories.len()).map(of)
    });
    let all: Option<Vec<Analyzed>> = memories.map(|of| Analyzed::new(of, answers, top)).collect();
    let all = all.ok_or_else(|| Failure::Usage("The memory could not be analyzed. Please report it".to_owned()))?;
    let rows: Vec<DeviceMemory<'_>> = all.iter().map(|one| one.device(top)).collect();
    let growing: Vec<&MemoryGrowth> = rows.iter().filter_map(|row| row.growth.as_ref()).collect();
    Ok(MemoryReport {
        growth: growth().table(growing, 0),
        findings: all.iter().flat_map(Analyzed::findings).collect(),
        devices: memory::memory().table(rows, 0),
    })
}

impl Analyzed {
    fn new(of: OpenMemory, answers: &Answers, top: usize) -> Option<Self> {
        let signatures = answers.get(&of.open.trace, &StackSignatures { ignores_lines: false })?;
        let found = answers.get(&of, &LeakSearch::default())?;
        let cards = answers.get(&of, &OomCards(top))?;
        Some(Self { of, signatures, found, cards })
    }

    fn owner(&self) -> Owner {
        Owner { rank: self.of.trace().info.rank, device: self.of.history().device }
    }

    fn places(&self) -> Places<'_> {
        Places { trace: self.of.trace(), signatures: &self.signatures, owner: self.owner() }
    }

    /// The places of leaks, gains and what is neither.
    fn places_found(&self) -> Places<'_> {
        Places { signatures: &self.found.signatures, ..self.places() }
    }

    fn device(&self, top: usize) -> DeviceMemory<'_> {
        let (history, found, places) = (self.of.history(), &self.found.leaks, self.places_found());
        let summary = summary(history);
        let candidates = found.candidates.iter().map(|one| places.placed(one.signature, one));
        let explained = found.explained.iter().map(|&one| places.placed(one.signature, one));
        let gained = found.gains.iter().map(|&one| places.placed(one.signature, one));
        let cards = self.cards.iter().map(|card| self.out_of_memory(card));
        DeviceMemory {
            trace: self.of.trace(),
            history,
            offset_ns: self.of.open.offset,
            growth: MemoryGrowth::new(self.owner(), found, (*self.found.steps).as_ref()),
            found,
            oom: Arc::new(memory::oom().table(cards, top)),
            peak_by_stack: self.live(&peak_by_stack(), summary.peak_allocated.state, top),
            live_at_end: self.live(&live_at_end(), history.last_state(), top),
            leaks: Arc::new(leaks_part().table(candidates, top)),
            no_leaks: Arc::new(no_leaks().table(explained, top)),
            gains: Arc::new(gains().table(gained, top)),
            summary,
        }
    }

    fn live(&self, part: &Part<AtPlace<live::LiveGroup>>, state: u32, top: usize) -> Arc<Table> {
        let by_signature = live::by_signature(self.of.history(), &self.signatures);
        let mut groups = live::groups(self.of.history(), state, LiveUntil::Allocated, by_signature);
        sort_first(&mut groups, top, |group| group.frames(self.of.trace(), &self.signatures));
        let places = self.places();
        Arc::new(part.table(groups.into_iter().map(|group| places.live(group)), top))
    }

    fn out_of_memory<'b>(&self, card: &'b OomCard) -> OutOfMemory<'b> {
        let places = self.places();
        let by_stack = live_at_end().table(card.stacks.iter().map(|&group| places.live(group)), 0);
        OutOfMemory { owner: self.owner(), card, offset_ns: self.of.open.offset, by_stack: Arc::new(by_stack) }
    }

    fn findings(&self) -> Vec<Finding> {
        let places = self.places_found();
        let candidates = self.found.leaks.candidates.iter();
        let mut found: Vec<Finding> =
            candidates.map(|one| findings::leak(one, places.stack(one.signature).name())).collect();
        found.extend(self.found.leaks.total.as_ref().and_then(findings::growth));
        let at = |card: &OomCard| card.at.map(|at| at.saturating_add(self.of.open.offset));
        found.extend(self.cards.iter().map(|card| findings::out_of_memory(card, at(card))));
        found
    }
}
