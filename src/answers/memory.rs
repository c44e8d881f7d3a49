//! Analyses of memory with several callers: steps, signatures, labels, leaks, states of the allocator.

use std::sync::Arc;

use super::{Analysis, Work};
use crate::analysis::memory::by_place::{Holders, Place, Places, stack_places};
use crate::analysis::memory::callers::Wrapper;
use crate::analysis::memory::categories::StackRoles;
use crate::analysis::memory::labels::stack_labels;
use crate::analysis::memory::leaks::{self, Leaks, Thresholds, capacity};
use crate::analysis::memory::oom::{OomCard, cards};
use crate::analysis::memory::reserved::{Excess, Growth, PinnedRange, growth, pins};
use crate::analysis::memory::signature::Signatures;
use crate::analysis::memory::state::{AllocatorState, allocator};
use crate::analysis::memory::steps::{self, NoSteps, Steps};
use crate::analysis::memory::summary::{Summary, summary};
use crate::model::{StringId, TimeNs, Trace};
use crate::session::OpenMemory;

/// For each stack of a trace its most telling frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackLabels;

impl Analysis for StackLabels {
    type Of = Arc<Trace>;
    type Output = Vec<StringId>;
    const NAME: &'static str = "Naming the call stacks";

    fn run(&self, of: &Arc<Trace>, _: &Work<'_>) -> Option<Self::Output> {
        Some(stack_labels(of))
    }
}

/// For each stack of a trace the place that it is listed under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackPlaces {
    /// Whether the innermost frame counts, whatever it is.
    pub has_all_frames: bool,
}

impl Analysis for StackPlaces {
    type Of = Arc<Trace>;
    type Output = Vec<Place>;
    const NAME: &'static str = "Finding the places of the call stacks";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Self::Output> {
        let labels = if self.has_all_frames { None } else { Some(work.get(of, &StackLabels)?) };
        Some(stack_places(of, labels.as_ref().map(|labels| &labels[..])))
    }
}

/// The same with the callers of a function that allocates nearly everything for others: the place that all views and
/// lists of one recording call a stack by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPlaces;

/// The result of [`NamedPlaces`].
#[derive(Debug)]
pub struct FoundPlaces {
    pub of_stack: Arc<Vec<Place>>,
    pub wrapper: Option<Wrapper>,
}

impl Analysis for NamedPlaces {
    type Of = Arc<Trace>;
    type Output = FoundPlaces;
    const NAME: &'static str = "Finding who allocates";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Self::Output> {
        let of_stack = work.get(of, &StackPlaces { has_all_frames: false })?;
        let places = Places { trace: of, of_stack: &of_stack };
        let wrapper = Wrapper::of(&places);
        let called = wrapper.map(|wrapper| Arc::new(wrapper.places(&places)));
        Some(FoundPlaces { of_stack: called.unwrap_or(of_stack), wrapper })
    }
}

/// The signature of each stack of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSignatures {
    pub ignores_lines: bool,
}

impl Analysis for StackSignatures {
    type Of = Arc<Trace>;
    type Output = Signatures;
    const NAME: &'static str = "Comparing the call stacks";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Self::Output> {
        Some(Signatures::new(of, self.ignores_lines).called(work.get(of, &NamedPlaces)?.wrapper))
    }
}

/// What the frames of each stack of a trace say of what is allocated there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolesOfStacks;

impl Analysis for RolesOfStacks {
    type Of = Arc<Trace>;
    type Output = StackRoles;
    const NAME: &'static str = "Assigning roles to call stacks";

    fn run(&self, of: &Arc<Trace>, _: &Work<'_>) -> Option<Self::Output> {
        Some(StackRoles::new(of))
    }
}

/// The training steps of a memory, if there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySteps;

/// The result of [`MemorySteps`].
#[derive(Debug)]
pub struct FoundSteps {
    pub steps: Arc<Option<Steps>>,
    /// The condition that is lacking.
    pub no_steps: Option<NoSteps>,
}

impl Analysis for MemorySteps {
    type Of = OpenMemory;
    type Output = FoundSteps;
    const NAME: &'static str = "The search for steps";

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Self::Output> {
        let (steps, no_steps) = match steps::steps(of.trace(), of.history(), &|| work.is_cancelled()) {
            Ok(steps) => (Some(steps), None),
            Err(lacking) => (None, Some(lacking)),
        };
        Some(FoundSteps { steps: Arc::new(steps), no_steps })
    }
}

/// Finds what grows from step to step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeakSearch {
    pub ignores_lines: bool,
    /// The user's marks, if they are to be the steps; in the trace's own time.
    pub marks: Option<Vec<TimeNs>>,
}

/// The result of a [`LeakSearch`], with the signatures that identify its places.
#[derive(Debug)]
pub struct FoundLeaks {
    pub signatures: Arc<Signatures>,
    pub steps: Arc<Option<Steps>>,
    pub leaks: Leaks,
}

impl Analysis for LeakSearch {
    type Of = OpenMemory;
    type Output = FoundLeaks;
    const NAME: &'static str = "The search for leaks";

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Self::Output> {
        let (trace, history) = (of.trace(), of.history());
        let signatures = work.get(&of.open.trace, &StackSignatures { ignores_lines: self.ignores_lines })?;
        let (steps, no_steps) = match &self.marks {
            Some(marks) => (Arc::new(steps::marked(history, marks)), None),
            None => {
                let found = work.get(of, &MemorySteps)?;
                (Arc::clone(&found.steps), found.no_steps.clone())
            }
        };
        let (limit, thresholds) = (capacity(trace, history), Thresholds::default());
        let is_cancelled = || work.is_cancelled();
        let (other, leaks) =
            leaks::leaks(trace, history, &signatures, (*steps).as_ref(), limit, &thresholds, &is_cancelled);
        let excess = match leaks.has_excess() {
            true => Excess::of(history, &work.get(of, &GrowthOfReserved)?),
            false => None,
        };
        let leaks = Leaks { no_steps, excess, ..leaks };
        Some(FoundLeaks { signatures: other.map_or(signatures, Arc::new), steps, leaks })
    }
}

/// The allocator's segments and blocks in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateAt(pub u32);

impl Analysis for StateAt {
    type Of = OpenMemory;
    type Output = AllocatorState;
    const NAME: &'static str = "The state of the allocator";
    const KEPT: usize = 1;

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Self::Output> {
        Some(allocator(of.history(), self.0, &|| work.is_cancelled()))
    }
}

/// Each time that reserved memory grew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrowthOfReserved;

impl Analysis for GrowthOfReserved {
    type Of = OpenMemory;
    type Output = Vec<Growth>;
    const NAME: &'static str = "The search for growth of reserved memory";

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Self::Output> {
        Some(growth(of.history(), &|| work.is_cancelled()))
    }
}

/// The blocks that kept a request from being served, by its index in [`GrowthOfReserved`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrowthPins(pub usize);

impl Analysis for GrowthPins {
    type Of = OpenMemory;
    type Output = Option<PinnedRange>;
    const NAME: &'static str = "The search for blocks in the way";

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Self::Output> {
        let all = work.get(of, &GrowthOfReserved)?;
        Some(pins(of.history(), all.get(self.0)?, &|| work.is_cancelled()))
    }
}

/// Each time that memory ran out, with this many stacks that held most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomCards(pub usize);

impl Analysis for OomCards {
    type Of = OpenMemory;
    type Output = Vec<OomCard>;
    const NAME: &'static str = "The search for causes of out-of-memory events";

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Self::Output> {
        let signatures = work.get(&of.open.trace, &StackSignatures { ignores_lines: false })?;
        Some(cards(of.trace(), of.history(), &signatures, self.0, &|| work.is_cancelled()))
    }
}

/// What the line about a memory says: peak, end, largest holder, verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InShort {
    /// As of a [`LeakSearch`].
    pub marks: Option<Vec<TimeNs>>,
}

/// The result of [`InShort`].
#[derive(Debug)]
pub struct MemoryInShort {
    pub summary: Summary,
    pub holders: Holders,
    pub found: Arc<FoundLeaks>,
    pub cards: Arc<Vec<OomCard>>,
}

impl Analysis for InShort {
    type Of = OpenMemory;
    type Output = MemoryInShort;
    const NAME: &'static str = "Summing up the memory";

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Self::Output> {
        let summary = summary(of.history());
        // As the tables list it.
        let named = work.get(&of.open.trace, &NamedPlaces)?;
        let places = Places { trace: of.trace(), of_stack: &named.of_stack };
        Some(MemoryInShort {
            holders: places.in_short(of.history()),
            summary,
            found: work.get(of, &LeakSearch { marks: self.marks.clone(), ..LeakSearch::default() })?,
            cards: work.get(of, &OomCards(CARD_STACKS))?,
        })
    }
}

/// Stacks listed on a card of the window.
pub const CARD_STACKS: usize = 12;
