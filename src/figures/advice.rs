//! Advice of the rules: what to do, and how to check it.

use crate::analysis::rules::Rule;

/// What to do, and how to check it; one sentence each.
pub fn advice(rule: Rule) -> &'static [&'static str] {
    match rule {
        Rule::LowUtilization => &[
            "See which causes have most of the idle time: each has a finding of its own, or a share in the gaps by cause",
            "After a change, record the same steps again and compare the busy share",
        ],
        Rule::DataLoading => &[
            "Load in background processes: DataLoader(num_workers=..., persistent_workers=True, prefetch_factor=...)",
            "Move decoding and augmentation to the GPU or do them once ahead of time, and store data where reading is fast",
            "To check, train on one batch kept on the device: if steps get no shorter, loading is not the limit",
        ],
        Rule::ExposedCommunication => &[
            "Overlap communication with the backward pass: DDP's bucket_cap_mb, FSDP's backward_prefetch and forward_prefetch",
            "Communicate less often (no_sync with gradient accumulation) or less (bf16 gradients)",
            "To check, compare the ranks: where one starts its collectives late, the others wait for it, not for the network",
        ],
        Rule::LaunchBound => &[
            "Launch less: torch.compile, CUDA graphs (mode=\"reduce-overhead\"), fused optimizers (fused=True), larger batches",
            "To check, see whether the launch-ahead grows and the gaps between kernels shrink",
        ],
        Rule::Synchronization => &[
            "Remove .item(), .cpu(), print(tensor), tensor conditions and torch.cuda.synchronize() from the step, or do them every N steps",
            "Copy results with non_blocking=True into pinned memory and read them one step later",
            "To find the rest, run with torch.cuda.set_sync_debug_mode(\"warn\")",
        ],
        Rule::HostBound => &[
            "Many small operators: torch.compile or CUDA graphs. One slow one: move it off the launching thread, to the GPU, or to where the device has work queued",
            "Record with with_stack=True to see the Python lines behind it",
            "To check, the gaps at these operators shrink while the rest of the step stays as it is",
        ],
        Rule::ExposedCopies => &[
            "Copy from pinned memory with non_blocking=True on a stream of its own, one batch ahead",
            "Create tensors on the device in place of .to(device) inside the step",
            "To check, the copies run beside kernels and no longer between them",
        ],
        Rule::PageableCopies => &[
            "Use DataLoader(pin_memory=True) or tensor.pin_memory(), then .to(device, non_blocking=True)",
            "To check, the copies are named \"Pinned\" in a new recording, and their bandwidth is higher",
        ],
        Rule::Allocator => &[
            "Let the caching allocator keep memory: no torch.cuda.empty_cache() in steps, and similar shapes in each",
            "Where it frees and allocates again near the limit of memory, try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            "To check, cudaMalloc and cudaFree no longer occur in steps after warm-up",
        ],
        Rule::ModuleLoad => &[
            "Warm up before the steps that matter; CUDA_MODULE_LOADING=EAGER loads all code at the start",
            "For torch.compile, find recompilations with TORCH_LOGS=recompiles, and mark shapes that vary as dynamic",
            "To check, record later steps: what is loaded once does not come back",
        ],
        Rule::GarbageCollection => &[
            "Call gc.disable() or gc.freeze() after setup, and gc.collect() at the same step on all ranks",
            "To check, the gaps with garbage collection are gone and memory does not grow",
        ],
        _ => more_advice(rule),
    }
}

/// The same for the rest of the rules.
fn more_advice(rule: Rule) -> &'static [&'static str] {
    match rule {
        Rule::StepBoundary => &[
            "See what the host does between steps: logging, evaluation, schedulers and checkpoints can move off the loop or run every N steps",
            "To check, the time from the last kernel of a step to the first of the next one shrinks",
        ],
        Rule::Dependency => &[
            "Look at the stream that the work waits for: start its work earlier, or remove the event between the two",
            "To check, both streams run at the same time",
        ],
        Rule::Blocked => &[
            "See in which call the thread is blocked: file access, locks of other Python threads, or too few CPU cores",
            "To check, record with nsys and --trace=cuda,nvtx,osrt --cpuctxsw=process-tree",
        ],
        Rule::DataTime => &[
            "The loader cannot keep up: more workers, faster storage, or less work per sample",
            "To check, time the loader alone: its batches per second are a limit for the training",
        ],
        Rule::TinyKernels => &[
            "Fuse them: torch.compile, fused optimizers (foreach=True, fused=True), or larger batches",
            "To check, the step has fewer kernels, and the busy share is higher",
        ],
        Rule::SlowKernels => &[
            "Fine if this is the work itself: look for tensor-core use, lower precision and better kernels of the same operator",
            "To check one kernel, profile it with ncu --set full",
        ],
        Rule::LongKernel => &[
            "See whether its shape is expected: a single launch this long is often an unfused loop, a sort, or a wrong layout",
            "To check it, profile it with ncu --set full",
        ],
        Rule::RecurringGap => &[
            "Open the gap to see what the host did in it; ending it gains its ceiling at most, in every step",
            "To check, record the same steps again: the cluster is gone or smaller",
        ],
        Rule::MemoryNearlyFull => &[
            "Leave a tenth free: a smaller batch, activation checkpointing, or sharded optimizer state",
            "To check, look at the peak in the memory view, and by which stacks it is held",
        ],
        Rule::Unexplained => &[
            "Record more: CUDA runtime calls and with_stack=True in PyTorch, --trace=cuda,nvtx,osrt --sample=process-tree in nsys",
        ],
        Rule::Profiler => &["Profile fewer things at once or fewer steps, and do not trust the length of these gaps"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_advice_without_trailing_periods() {
        for rule in Rule::ALL {
            assert!(!advice(rule).is_empty(), "{rule:?}");
            assert!(advice(rule).iter().all(|sentence| !sentence.ends_with('.')), "{rule:?}");
        }
    }
}
