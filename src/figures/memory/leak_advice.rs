//! Advice about leaks.

use super::RECORDED_STREAM;
use crate::analysis::memory::categories::is_backward;
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
    } else if frames.iter().any(|frame| is_backward(frame)) {
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
    advice.extend(fate(candidates, frames));
    add(&mut advice, "To check: record again, and the gain a step is gone");
    advice
}

/// What became of the blocks of a place.
fn fate(candidates: &[&LeakCandidate], frames: &[String]) -> Vec<String> {
    let sum = |of: fn(&LeakEvidence) -> u64| candidates.iter().map(|one| of(&one.evidence)).sum::<u64>();
    let (allocated, awaiting) = (sum(|of| of.allocated), sum(|of| of.awaiting));
    // What goes on as before frees one now and then also while the recording ends.
    let (freed, at_end) = match (sum(|of| of.freed), sum(|of| of.freed_at_end)) {
        (freed, at_end) if 2 * at_end > allocated.saturating_sub(freed) => (freed, at_end),
        (freed, at_end) => (freed + at_end, 0),
    };
    let of_all = |n: u64| {
        let were = if n == 1 { "was" } else { "were" };
        format!("{} of its {} {were} freed", format::count(n), format::of_things(allocated, "block"))
    };
    let mut told = Vec::new();
    if freed > 0 {
        let mut stacks = candidates.iter().flat_map(|one| &one.evidence.freed_by).map(|by| by.0);
        let compare = match stacks.any(|stack| stack != StackId::default()) {
            true => ": compare with the stacks that freed them",
            false => "",
        };
        told.push(format!("{}{compare}", of_all(freed)));
    }
    if awaiting > 0 {
        told.push(format!("{} by the program, but still await a stream", of_all(awaiting)));
        told.push(RECORDED_STREAM.to_owned());
    } else if at_end > 0 {
        told.push(format!(
            "{} only as the recording ends, after the last whole step: what holds them lives as long as the loop",
            of_all(at_end)
        ));
    } else if freed == 0 && !frames.is_empty() {
        told.push(
            "None of its blocks was ever freed: gc.get_referrers() of one of them names what holds it".to_owned(),
        );
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::memory::signature::SignatureId;
    use crate::model::Severity;

    fn advice(evidence: LeakEvidence, frames: &[&str]) -> String {
        let candidate = LeakCandidate {
            signature: SignatureId(1),
            bytes_per_step: 1e6,
            since_step: None,
            slope_share: 1.0,
            growth_bytes: 1 << 20,
            live_bytes: Vec::new(),
            live_count: Vec::new(),
            monotonic: 1.0,
            r2: 1.0,
            survivors: 20,
            survivor_steps: 20,
            severity: Severity::Note,
            score: 1.0,
            evidence,
        };
        let frames: Vec<String> = frames.iter().map(|&frame| frame.to_owned()).collect();
        leak_advice(&[&candidate], &frames).join(". ")
    }

    #[test]
    fn operators_of_a_forward_pass_are_none_of_a_backward_pass() {
        let of = |frame: &str| advice(LeakEvidence::default(), &[frame, "update (/me/metrics.py:31)"]);
        let lists = "Look for lists, dictionaries";
        for forward in [
            "torch::autograd::THPVariable_getitem(_object*, _object*) (python_variable_indexing.cpp:0)",
            "torch::autograd::VariableType::(anonymous namespace)::slice_Tensor(at::Tensor const&) (VariableType_0.cpp:0)",
            "apply (/x/torch/autograd/function.py:575)",
        ] {
            assert!(of(forward).starts_with(lists), "{forward}");
        }
        for backward in [
            "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&) (Functions.cpp:0)",
            "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&) (??:0)",
            "_engine_run_backward (/x/torch/autograd/graph.py:824)",
        ] {
            assert!(of(backward).starts_with("A backward pass allocates it"), "{backward}");
        }
    }

    #[test]
    fn what_is_freed_as_the_recording_ends_is_told_only_of_most_that_stayed() {
        let of = |freed, freed_at_end| {
            let evidence = LeakEvidence { freed, freed_at_end, allocated: 24, ..LeakEvidence::default() };
            advice(evidence, &["put (/me/lru.py:40)"])
        };
        assert!(
            of(0, 20).contains("20 of its 24 blocks were freed only as the recording ends, after the last whole step")
        );
        assert!(of(5, 1).contains(". 6 of its 24 blocks were freed. To check"));
        assert!(of(0, 0).contains("None of its blocks was ever freed"));
    }

    #[test]
    fn blocks_that_the_program_freed_are_held_by_a_stream_alone() {
        let evidence = LeakEvidence { awaiting: 14, allocated: 40, ..LeakEvidence::default() };
        let text = advice(evidence, &["prefetch (/me/offload.py:50)"]);
        assert!(text.contains("14 of its 40 blocks were freed by the program, but still await a stream. Memory that"));
        assert!(!text.contains("get_referrers"), "{text}");
    }
}
