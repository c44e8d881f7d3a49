//! When a program ran its forward and backward passes and its optimizer, as the stacks of its allocations say.

use super::{BACKWARD, MODULE_CALL, OPTIMIZER, StackRoles};
use crate::analysis::phases::{Phase, Tile};
use crate::model::memory::MemoryAction;
use crate::model::{MemoryHistory, StackId, TimeRange};

/// The passes of a history, ascending and disjoint: each from the first to the last allocation in a row that was made
/// in it. An allocation of no pass ends one. A module that runs in a backward pass, as checkpointing has it, belongs to
/// that, and the closure of an optimizer is no part of the optimizer.
///
/// * Nothing is said of a history without call stacks.
/// * Cost: O(events).
pub fn passes(history: &MemoryHistory, stacks: &StackRoles) -> Vec<Tile> {
    let events = &history.events;
    if events.stack.iter().all(|&stack| stack == StackId::default()) {
        return Vec::new();
    }
    let of_none = stacks.of_none(history);
    let mut passes: Vec<Tile> = Vec::new();
    let mut open: Option<Phase> = None;
    for event in (0..events.len()).filter(|&event| events.action[event] == MemoryAction::Alloc) {
        let now = match stacks.of(events.stack[event], of_none) {
            roles if roles & BACKWARD != 0 => Some(Phase::Backward),
            roles if roles & MODULE_CALL != 0 => Some(Phase::Forward),
            roles if roles & OPTIMIZER != 0 => Some(Phase::Optimizer),
            _ => None,
        };
        let at = events.ts[event];
        match (passes.last_mut(), now) {
            (Some(last), Some(_)) if open == now => last.time.end = at,
            (_, Some(phase)) => passes.push(Tile { time: TimeRange { start: at, end: at }, phase }),
            (_, None) => {}
        }
        open = now;
    }
    passes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::memory::fixture::{Script, history};

    const CALL: &str = "_call_impl (/x/torch/nn/modules/module.py:1784)";
    const ENGINE: &str = "_engine_run_backward (/x/torch/autograd/graph.py:824)";
    const ADAM: &str = "_init_group (/x/torch/optim/adam.py:172)";
    const LOOP: &str = "epoch (/me/run.py:30)";

    #[test]
    fn passes_go_from_their_first_allocation_to_their_last() {
        let mut script = Script::default();
        let stacks: Vec<&[&str]> = vec![
            &[CALL, LOOP],
            &[CALL, LOOP],
            &[LOOP],
            // Checkpointing calls a module again.
            &[ENGINE, LOOP],
            &[CALL, ENGINE, LOOP],
            &[ADAM, LOOP],
            // A closure.
            &[CALL, ADAM, LOOP],
            &[LOOP],
            &[CALL, LOOP],
        ];
        for (i, frames) in stacks.iter().enumerate() {
            let stack = script.stack(frames);
            script.alloc((i as u64) << 20, 512, stack);
            // What is freed says nothing.
            script.free((i as u64) << 20, 512);
        }
        let trace = script.finish();
        let found = passes(history(&trace), &StackRoles::new(&trace));
        let tile = |phase, first: i64, last: i64| Tile { time: TimeRange { start: 20 * first, end: 20 * last }, phase };
        let wanted = [
            tile(Phase::Forward, 0, 1),
            tile(Phase::Backward, 3, 4),
            tile(Phase::Optimizer, 5, 5),
            tile(Phase::Forward, 6, 6),
            tile(Phase::Forward, 8, 8),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_history_without_stacks_has_no_passes() {
        let mut script = Script::default();
        script.alloc(0, 512, StackId::default());
        let trace = script.finish();
        assert_eq!(passes(history(&trace), &StackRoles::new(&trace)), []);
    }
}
