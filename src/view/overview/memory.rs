//! Findings about memory, computed in the background apart from those about time: a search for leaks takes longer.

use std::sync::Arc;

use super::work::{Found, Seen};
use crate::answers::memory::{CARD_STACKS, LeakSearch, OomCards, StackSignatures};
use crate::answers::{Analysis, Work};
use crate::figures::findings::{OUT_OF_MEMORY, RESERVED_GROWTH};
use crate::figures::memory::RESERVED_UNUSED;
use crate::session::{FoundInMemory, MemoryAnswers, OpenMemory, OpenTrace, joined};
use crate::view::memory::{LEAKS, RESERVED};

/// Leaks, growth and requests that were not served in all open memories, as the report has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFindings;

impl Analysis for MemoryFindings {
    type Of = [OpenTrace];
    type Output = Vec<Found>;
    const NAME: &'static str = "The findings about memory";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Vec<Found>> {
        let mut all = Vec::new();
        for open in of {
            for memory in 0..open.trace.memories.len() {
                let memory = OpenMemory { open: open.clone(), memory };
                let signatures = work.get(&open.trace, &StackSignatures { ignores_lines: false })?;
                let found = work.get(&memory, &LeakSearch::default())?;
                let cards = work.get(&memory, &OomCards(CARD_STACKS))?;
                let outside = memory.outside(of);
                all.push((memory, signatures, found, cards, outside));
            }
        }
        let findings = all.iter().flat_map(|(of, signatures, found, cards, outside)| {
            let answers = MemoryAnswers {
                of,
                signatures,
                leak_signatures: &found.signatures,
                leaks: &found.leaks,
                steps: (*found.steps).as_ref(),
                cards,
                outside: outside.as_ref(),
            };
            answers.findings()
        });
        Some(joined(findings.collect()).into_iter().map(|found| shown(of, found)).collect())
    }
}

/// A finding with the view that shows it.
fn shown(traces: &[OpenTrace], FoundInMemory { of, finding, .. }: FoundInMemory<'_>) -> Found {
    let trace = traces.iter().position(|open| Arc::ptr_eq(&open.trace, &of.open.trace));
    let view =
        if matches!(finding.rule, OUT_OF_MEMORY | RESERVED_GROWTH | RESERVED_UNUSED) { RESERVED.id } else { LEAKS.id };
    // Files that recorded memory, of which one name tells them apart.
    let n = traces.iter().filter(|open| !open.trace.memories.is_empty()).count();
    Found {
        trace: trace.unwrap_or_default(),
        of: (n > 1).then(|| of.open.name.to_string()),
        place: trace.map(|trace| Seen::Memory { trace, memory: of.memory, view }),
        finding,
    }
}
