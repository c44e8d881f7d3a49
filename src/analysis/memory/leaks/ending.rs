//! End of the program in a recording: the last steps that still count.
//!
//! At its end a program gives back what its functions held, a leak as well: that is not a sign that the memory was
//! needed for some time only. What is given back counts if the program goes on after it.

use crate::analysis::memory::steps::Steps;
use crate::model::MemoryHistory;

/// The last state after which the program still allocates as often as in the median step; the last of all if it never
/// allocates in steps. What is live then counts as kept.
///
/// Cost: O(events).
pub fn goes_on_until(history: &MemoryHistory, steps: &Steps) -> u32 {
    let is_alloc = |event: &usize| history.allocates(*event);
    let count = |pair: &[u32]| (pair[0] as usize..pair[1] as usize).filter(is_alloc).count();
    let mut counts: Vec<usize> = steps.boundaries.windows(2).map(count).collect();
    counts.sort_unstable();
    let median = counts.get(counts.len() / 2).copied().unwrap_or_default();
    let last = (0..history.events.len()).rev().filter(is_alloc).nth(median.saturating_sub(1));
    last.filter(|_| median > 0).map_or(history.last_state(), |event| event as u32)
}

/// The steps without the last, if the program ended in it: of what is live between all steps before, more than half is
/// gone after it. No step gives back so much, as the parameters are a part of it.
pub fn without_end(history: &MemoryHistory, steps: &Steps) -> Option<Steps> {
    let live = |&state: &u32| history.curves.active[state as usize];
    let (last, before) = steps.boundaries.split_last()?;
    let least = before.get(1..)?.iter().map(live).min()?;
    let mut shorter = steps.clone();
    shorter.boundaries.pop();
    shorter.names.pop();
    (2 * live(last) < least).then_some(shorter)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::super::tests::{MIB, find, label, program};
    use super::super::{TotalVerdict, Verdict};
    use crate::model::Trace;

    const PLACE: &str = "append (losses.py:12)";

    /// A program that keeps a block of 5 MiB in the steps given, and gives all of them back after the last.
    fn freed_at_end(n: u64, is_kept: impl Fn(u64) -> bool) -> Trace {
        let kept = RefCell::new(Vec::new());
        program(
            n,
            |training| {
                if is_kept(training.step) {
                    kept.borrow_mut().push(training.keep(5 * MIB, PLACE));
                }
            },
            |training| kept.take().into_iter().for_each(|at| _ = training.script.free(at, 5 * MIB)),
        )
    }

    #[test]
    fn what_a_program_gives_back_when_it_ends_is_a_leak() {
        let trace = freed_at_end(24, |_| true);
        let found = find(&trace, None);
        assert_eq!((found.candidates.len(), found.places), (1, 1));
        let leak = &found.candidates[0];
        assert_eq!((label(&trace, leak.signature).as_str(), leak.growth_bytes), (PLACE, 19 * 5 * MIB as i64));
        assert_eq!((leak.evidence.freed, leak.evidence.freed_at_end), (0, 24));
        let total = found.total.unwrap();
        assert_eq!((total.verdict, total.is_alarm), (TotalVerdict::Growth, true));
    }

    #[test]
    fn steps_after_those_that_are_named_do_not_hide_it() {
        let kept = RefCell::new(Vec::new());
        let trace = program(
            20,
            |training| kept.borrow_mut().push(training.keep(5 * MIB, PLACE)),
            |training| {
                (0..4).for_each(|_| kept.borrow_mut().push(training.keep(5 * MIB, PLACE)));
                kept.take().into_iter().for_each(|at| _ = training.script.free(at, 5 * MIB));
            },
        );
        assert_eq!(find(&trace, None).candidates.len(), 1);
    }

    #[test]
    fn the_end_of_the_program_may_be_in_the_last_step() {
        let kept = RefCell::new(Vec::new());
        let n = 20;
        let trace = program(
            n,
            |training| {
                kept.borrow_mut().push(training.keep(5 * MIB, PLACE));
                if training.step == n - 1 {
                    kept.take().into_iter().for_each(|at| _ = training.script.free(at, 5 * MIB));
                    training.script.free(0, 100 * MIB);
                }
            },
            |_| {},
        );
        let found = find(&trace, None);
        assert_eq!(found.candidates.len(), 1, "{found:?}");
        // The warm-up is a quarter of 19 steps.
        assert_eq!((found.warm_up, found.candidates[0].growth_bytes), (4, 15 * 5 * MIB as i64));
    }

    #[test]
    fn growth_that_comes_again_after_it_was_given_back_is_judged_by_what_stays() {
        let kept = RefCell::new(Vec::new());
        // Collected once in the middle, then kept to the end, for as long as before.
        let again = |n: u64, collected: u64| {
            let trace = program(
                n,
                |training| {
                    if training.step == collected {
                        kept.take().into_iter().for_each(|at| _ = training.script.free(at, 5 * MIB));
                    }
                    kept.borrow_mut().push(training.keep(5 * MIB, PLACE));
                },
                |training| kept.take().into_iter().for_each(|at| _ = training.script.free(at, 5 * MIB)),
            );
            let found = find(&trace, None);
            (found.candidates.len(), found.explained.iter().any(|one| one.verdict == Verdict::Released))
        };
        assert_eq!(again(40, 22), (0, true), "half of it was given back");
        assert_eq!(again(40, 8), (1, false), "all but three steps stay");
    }

    #[test]
    fn a_cache_that_was_full_before_the_end_is_none() {
        let trace = freed_at_end(40, |step| step < 18);
        let found = find(&trace, None);
        assert_eq!(found.candidates, []);
        let cache = found.explained.iter().find(|one| label(&trace, one.signature) == PLACE).unwrap();
        assert_eq!(cache.verdict, Verdict::WarmUpCache);
    }

    #[test]
    fn what_is_given_back_now_and_then_is_demand_to_the_end() {
        for (n, period) in [(40, 8), (42, 13), (60, 20)] {
            let kept = RefCell::new(Vec::new());
            let trace = program(
                n,
                |training| {
                    kept.borrow_mut().push(training.keep(5 * MIB, PLACE));
                    if training.step % period == period - 1 {
                        kept.take().into_iter().for_each(|at| _ = training.script.free(at, 5 * MIB));
                    }
                },
                |training| kept.take().into_iter().for_each(|at| _ = training.script.free(at, 5 * MIB)),
            );
            let found = find(&trace, None);
            assert_eq!((found.candidates.len(), found.total.unwrap().is_alarm), (0, false), "every {period} of {n}");
        }
    }
}
