//! Steps inferred from the periodic repetition of allocations.

mod evidence;
mod rounds;
#[cfg(test)]
mod tests;

use hashbrown::{HashMap, HashSet};

use super::categories::{StackRoles, passes};
use super::phase::aligned;
use crate::analysis::phases::Phase;
use crate::analysis::steps::{MIN_LENGTH, Period, periods, regularity};
use crate::model::{MemoryHistory, StackId, Trace};
use evidence::{Evidence, is_in_forward};
use rounds::{dips, is_falling, is_level, returns_to_level};

/// Minimum of whole rounds.
const MIN_ROUNDS: usize = 4;
/// Fewest allocations of a round, and the share of all that so few must cover.
const FEWEST: usize = 2;
const COVERED: f64 = 0.75;

/// Rounds of repeating allocations.
#[derive(Clone, Debug, PartialEq)]
pub struct Repetition {
    /// Median number of allocations of a round.
    pub length: usize,
    /// Share of allocations that also occur in the round before, or belong to the first.
    pub share: f64,
    /// The states at which the rounds begin, and at which the last one ends.
    pub boundaries: Vec<u32>,
    /// Share of rounds with nearly the allocations of one of the two before.
    pub regularity: f64,
    /// Whether they are known not to be layers: rounds have what a layer does not, or layers in them, or leave live
    /// memory nearly as they found it.
    pub is_certain: bool,
}

/// Why no repetition can be that of steps, of what explains most allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSteps {
    /// The search was cancelled.
    Cancelled,
    /// The file has no allocations, only a state.
    NoHistory,
    /// No sequence repeats and covers most allocations.
    NothingRepeats,
    /// Rounds of so many allocations are too few.
    TooFewRounds { length: usize, rounds: usize },
    /// Rounds of so many allocations look like layers of a pass.
    Layers { length: usize, rounds: usize, why: &'static str },
    /// An optimizer ran so many times, which is too few.
    FewUpdates(usize),
    /// They repeat while an annotation that comes once a step came less often.
    MoreThanAnnotated { length: usize, rounds: usize },
}

impl NoSteps {
    /// The condition that is lacking, as a part of a sentence.
    pub fn reason(&self) -> String {
        match *self {
            Self::Cancelled => "the search was ended".to_owned(),
            Self::NoHistory => "the file has no history of allocations".to_owned(),
            Self::NothingRepeats => "no sequence of allocations repeats and covers most of them".to_owned(),
            Self::TooFewRounds { length, rounds } => {
                format!("about {length} allocations repeat, but only {rounds} times of the {MIN_ROUNDS} needed")
            }
            Self::Layers { length, rounds, why } => {
                format!("about {length} allocations repeat {rounds} times, but may be layers of one pass: {why}")
            }
            Self::FewUpdates(n) => {
                let times = if n == 1 { "once".to_owned() } else { format!("{n} times") };
                format!("the stacks show that an optimizer ran {times}, and {MIN_ROUNDS} steps are needed")
            }
            Self::MoreThanAnnotated { length, rounds } => format!(
                "about {length} allocations repeat {rounds} times, but within fewer steps of an optimizer or loader"
            ),
        }
    }
}

/// Finds the period of the allocations that can be that of steps: by stacks, or if there is none by pairs of stack and
/// size. The shortest one whose rounds show a whole step counts, else the one that explains most. Allocations without a
/// stack are identified by size.
///
/// Rounds begin where little memory is in use, see [`aligned`].
///
/// The layers of a model repeat as steps do. Rounds are layers, and a longer period is tried, if
///
/// * all of them come from one line of a model's `forward`, and no shorter period lies in them;
/// * live memory falls from round to round, as in a backward pass, or rises by most of what a round takes, as where
///   activations are kept;
/// * live memory falls below their level now and then: there the pass ends that they are in;
/// * other allocations follow the last, as the head of a model follows its layers. This does not hold against rounds
///   that have an optimizer, a loss, a loader or a backward pass besides other allocations, by their stacks or by the
///   categories that the file records.
///
/// Events after the start of the last round belong to no round, since its end is unknown, unless they are those of the
/// round before, see [`ends_with_round`]. Cost: O(n log n) for n events; a few dozen bytes an allocation.
pub fn repetition(
    trace: &Trace,
    history: &MemoryHistory,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Repetition, NoSteps> {
    let allocs: Vec<u32> =
        (0..history.events.len() as u32).filter(|&event| history.allocates(event as usize)).collect();
    if allocs.is_empty() {
        return Err(NoSteps::NoHistory);
    }
    let in_use = |item: usize| history.curves.allocated[allocs[item] as usize] as i64;
    let evidence = Evidence::of(trace, history);
    let find = |has_size: bool, shortest: usize| {
        let symbols = symbols(history, &allocs, has_size);
        let found = periods(&symbols, shortest, is_cancelled);
        let mut by_length: Vec<usize> = (0..found.len()).collect();
        by_length.sort_by_key(|&i| found[i].length);
        // By place in the order of preference.
        let mut fit: Vec<(usize, Repetition)> = Vec::new();
        let mut unfit: Vec<(usize, NoSteps)> = Vec::new();
        let mut has_inner = false;
        for i in by_length {
            let Period { length, share, starts } = &found[i];
            if *length < MIN_LENGTH && *share < COVERED {
                continue;
            }
            let starts = &aligned(&symbols, starts, *length, &in_use);
            // State `event` is the state before the event.
            let boundaries: Vec<u32> = starts.iter().map(|&item| allocs[item]).collect();
            let rest = symbols.len() - starts[starts.len() - 1];
            let rounds = starts.len() - 1 + usize::from(rest >= *length);
            if rounds < MIN_ROUNDS {
                unfit.push((i, NoSteps::TooFewRounds { length: *length, rounds }));
                continue;
            }
            let is_whole = evidence.is_whole(&boundaries);
            let layers = of_layers(history, &boundaries).or_else(|| {
                if !has_inner && is_in_forward(trace, &evidence.common_callers(&boundaries)) {
                    Some("all of them come from one line of a model's forward")
                } else if !is_whole && !ends_in_round(&symbols, starts, *length) {
                    Some(
                        "most show no whole step, such as an optimizer or a backward pass besides a forward pass, and \
                         more allocations follow the last",
                    )
                } else {
                    None
                }
            });
            let is_certain = is_whole || has_inner || is_level(history, &boundaries);
            has_inner = true;
            if let Some(why) = layers {
                unfit.push((i, NoSteps::Layers { length: *length, rounds, why }));
            } else {
                let regularity = regularity(&symbols, starts, 2);
                let mut boundaries = boundaries;
                if ends_with_round(history, &symbols, starts, &boundaries) {
                    boundaries.push(history.last_state());
                }
                let found = Repetition { length: *length, share: *share, boundaries, regularity, is_certain };
                if is_whole {
                    return Ok(found);
                }
                fit.push((i, found));
            }
        }
        let lacking = unfit.into_iter().min_by_key(|&(i, _)| i).map_or(NoSteps::NothingRepeats, |(_, lacking)| lacking);
        fit.into_iter().min_by_key(|&(i, _)| i).map(|(_, found)| found).ok_or(lacking)
    };
    let found = find(false, MIN_LENGTH).or_else(|lacking| find(true, MIN_LENGTH).map_err(|_| lacking));
    // Where nothing longer repeats, the steps may be of very few allocations.
    let found = found.or_else(|lacking| match lacking {
        NoSteps::NothingRepeats => find(false, FEWEST),
        _ => Err(lacking),
    });
    found.map_err(|lacking| if is_cancelled() { NoSteps::Cancelled } else { of_updates(trace, history, lacking) })
}

/// What is lacking, with what the stacks tell: what repeats in a step says nothing of steps.
fn of_updates(trace: &Trace, history: &MemoryHistory, lacking: NoSteps) -> NoSteps {
    match updates(trace, history) {
        n @ 1..MIN_ROUNDS => NoSteps::FewUpdates(n),
        _ => lacking,
    }
}

/// Why rounds may be layers of one pass, as live memory tells.
fn of_layers(history: &MemoryHistory, boundaries: &[u32]) -> Option<&'static str> {
    if is_falling(history, boundaries) {
        Some("live memory falls from round to round")
    } else if !returns_to_level(history, boundaries) {
        Some("most rounds do not return to the level of memory at which they begin")
    } else if dips(history, boundaries) {
        Some("memory falls below their level now and then, where a longer pass ends")
    } else {
        None
    }
}

/// How often an optimizer ran, as the stacks of allocations tell. Passes of one without a backward pass between them
/// are one update. Cost: O(events + stacks).
fn updates(trace: &Trace, history: &MemoryHistory) -> usize {
    let passes = passes(history, &StackRoles::new(trace));
    let mut phases: Vec<Phase> = passes.into_iter().map(|pass| pass.phase).collect();
    phases.retain(|phase| matches!(phase, Phase::Backward | Phase::Optimizer));
    phases.dedup();
    phases.into_iter().filter(|phase| *phase == Phase::Optimizer).count()
}

/// Whether what follows the start of the last round is at most hardly more than a round, or than the one before, of
/// items that the rounds before have as well.
fn ends_in_round(symbols: &[u32], starts: &[usize], length: usize) -> bool {
    let (first, last) = (starts[0], starts[starts.len() - 1]);
    let known: HashSet<u32> = symbols[first..last].iter().copied().collect();
    let length = length.max(last - starts[starts.len() - 2]);
    symbols.len() - last <= length + length / 4 && symbols[last..].iter().all(|symbol| known.contains(symbol))
}

/// Whether the recording ends with a whole round: what follows the last start are the allocations of the round before, in
/// their order, among as many events.
fn ends_with_round(history: &MemoryHistory, symbols: &[u32], starts: &[usize], boundaries: &[u32]) -> bool {
    let ([.., before, last], [.., from, to]) = (starts, boundaries) else { return false };
    symbols[*before..*last] == symbols[*last..] && history.last_state() - to == to - from
}

/// For each allocation, the number of its stack or of its (stack, size) pair.
fn symbols(history: &MemoryHistory, allocs: &[u32], has_size: bool) -> Vec<u32> {
    let mut known: HashMap<(StackId, u64), u32> = HashMap::new();
    let symbol = |&event: &u32| {
        let event = event as usize;
        let next = known.len() as u32;
        let stack = history.events.stack[event];
        let bytes = if has_size || stack == StackId::default() { history.events.bytes[event] } else { 0 };
        *known.entry((stack, bytes)).or_insert(next)
    };
    allocs.iter().map(symbol).collect()
}
