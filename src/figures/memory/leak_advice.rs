//! Advice about leaks.

use crate::analysis::memory::leaks::{LeakCandidate, LeakEvidence};
use crate::figures::format;
use crate::model::StackId;

/// Advice about a leak, one sentence each, from where it allocates and what became of its other blocks.
///
/// * `candidates`: of its place.
/// * `frames`: of its place, innermost first.
pub fn leak_advice(candidates: &[&LeakCandidate], frames: &[String]) -> Vec<String> {
    let has = |parts: &[&str]| frames.iter().any(|frame| parts.iter().any(|part| frame.contains(part)));
    let mut advice = Vec::new();
    let add = |advice: &mut Vec<String>, text: &str| advice.push(text.to_owned());
    if frames.is_empty() {
        add(
            &mut advice,
            "To learn the place, record with torch.cuda.memory._record_memory_history(stacks=\"all\"), memory of the host \
             with torch.profiler, profile_memory=True and with_stack=True, and export_chrome_trace",
        );
    } else if has(&["autograd::", "torch/autograd/", "_engine_run_backward"]) {
        add(
            &mut advice,
            "A backward pass allocates it: look for retain_graph=True, create_graph=True, gradients that are kept or \
             never set to None, and hooks that store tensors",
        );
    } else if has(&["/optim/", "/optimizers/", "\\optim\\"]) {
        add(
            &mut advice,
            "An optimizer allocates it: look for one that is made anew, or for parameters that are added while \
             training",
        );
    } else {
        add(
            &mut advice,
            "Look for lists, dictionaries, closures and attributes that keep what is made here: a tensor that needs \
             gradients keeps the activations of its step. Keep loss.item() or tensor.detach().cpu() instead",
        );
    }
    let sum = |of: fn(&LeakEvidence) -> u64| candidates.iter().map(|one| of(&one.evidence)).sum::<u64>();
    let [freed, allocated, at_end] =
        [sum(|of| of.freed), sum(|of| of.allocated), sum(|of| of.freed_at_end)].map(format::count);
    if sum(|of| of.freed) > 0 {
        let mut stacks = candidates.iter().flat_map(|one| &one.evidence.freed_by).map(|by| by.0);
        let compare = match stacks.any(|stack| stack != StackId::default()) {
            true => ": compare with the stacks that freed them",
            false => "",
        };
        advice.push(format!("{freed} of its {allocated} blocks were freed{compare}"));
    }
    if sum(|of| of.freed_at_end) > 0 {
        advice.push(format!(
            "{at_end} of its blocks were freed only when the program ended: what holds them lives as long as the loop"
        ));
    } else if sum(|of| of.freed) == 0 && !frames.is_empty() {
        add(&mut advice, "None of its blocks was ever freed: gc.get_referrers() of one of them names what holds it");
    }
    add(&mut advice, "To check: record again, and the gain a step is gone");
    advice
}
