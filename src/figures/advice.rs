//! Advice of the rules: what to do, and how to check it, as far as it fits the run.

use crate::analysis::rules::{Rule, RunFacts, Vendor};

/// Whether a sentence fits a run.
pub type Fits = fn(&RunFacts) -> bool;
/// A sentence without a period, and the runs that it fits.
pub type Line = (Fits, &'static str);

pub const ALWAYS: Fits = |_| true;
pub const TORCH: Fits = |run| run.is_torch;
pub const OTHER: Fits = |run| !run.is_torch;
pub const TRAINS: Fits = |run| run.is_torch && run.is_training;
/// Does not train, as far as it is known.
const INFERS: Fits = |run| !TRAINS(run);
pub const EAGER: Fits = |run| run.is_torch && !run.is_compiled;
pub const COMPILED: Fits = |run| run.is_compiled;
pub const NO_GRAPHS: Fits = |run| run.is_torch && !run.has_graphs;
pub const GRAPHS: Fits = |run| run.has_graphs;
pub const NVIDIA: Fits = |run| run.vendor == Vendor::Nvidia;
pub const AMD: Fits = |run| run.vendor == Vendor::Amd;
const NO_STACKS: Fits = |run| run.is_torch && !run.is_nsys && !run.has_stacks;

/// What to do, and how to check it; one sentence each. What the run does already is not advised, and programs, calls
/// and variables are those of the maker of its devices.
pub fn advice(rule: Rule, run: &RunFacts) -> Vec<String> {
    let fit = lines(rule).iter().filter(|(fits, _)| fits(run));
    fit.map(|(_, sentence)| of_vendor(sentence, run.vendor)).collect()
}

/// Names of NVIDIA, and what AMD calls the same.
const NAMES: [(&str, &str); 7] = [
    ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"),
    ("CUDA_DEVICE_MAX_CONNECTIONS", "GPU_MAX_HW_QUEUES"),
    ("CUDA graph", "HIP graph"),
    ("cudaMalloc", "hipMalloc"),
    ("cudaFree", "hipFree"),
    ("tensor-core", "matrix-core"),
    ("ncu --set full", "rocprof-compute profile"),
];

/// A sentence with the names of the devices' maker.
pub fn of_vendor(sentence: &str, vendor: Vendor) -> String {
    match vendor {
        Vendor::Nvidia => sentence.to_owned(),
        Vendor::Amd => NAMES.iter().fold(sentence.to_owned(), |text, (nvidia, amd)| text.replace(nvidia, amd)),
    }
}

fn lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::LowUtilization => &[
            (
                ALWAYS,
                "See which causes have most of the idle time: each has a finding of its own, or a share in the gaps by cause",
            ),
            (ALWAYS, "After a change, record the same steps again and compare the busy share"),
        ],
        Rule::DataLoading => &[
            (
                TORCH,
                "Load in background processes: DataLoader(num_workers=..., persistent_workers=True, prefetch_factor=...)",
            ),
            (OTHER, "Load the next batch in background threads or processes while the device works on this one"),
            (
                ALWAYS,
                "Move decoding and augmentation to the GPU or do them once ahead of time, and store data where reading is fast",
            ),
            (
                ALWAYS,
                "To check, run all steps on one batch kept on the device: if they get no shorter, loading is not the limit",
            ),
        ],
        Rule::ExposedCommunication => &[
            (
                TRAINS,
                "Overlap communication with the backward pass: DDP's bucket_cap_mb, FSDP's backward_prefetch and forward_prefetch",
            ),
            (INFERS, "Start communication as soon as its data is there, beside the compute that remains"),
            (TRAINS, "Communicate less often (no_sync with gradient accumulation) or less (bf16 gradients)"),
            (
                ALWAYS,
                "To check, compare the ranks: where one starts its collectives late, the others wait for it, not for the network",
            ),
        ],
        Rule::LaunchBound => &[
            (EAGER, "Launch less: torch.compile, larger batches"),
            (COMPILED, "Part of it is compiled already: TORCH_LOGS=graph_breaks names what torch.compile leaves out"),
            (TRAINS, "Update many parameters with one launch: optimizers with fused=True"),
            (
                NO_GRAPHS,
                "Launch the step as CUDA graphs: mode=\"reduce-overhead\" of torch.compile, or torch.cuda.graph",
            ),
            (GRAPHS, "CUDA graphs are launched already: bring what is still launched one by one into them"),
            (OTHER, "Launch less: fuse kernels, give each more work, record what repeats as a CUDA graph"),
            (ALWAYS, "To check, see whether the launch-ahead grows and the gaps between kernels shrink"),
        ],
        Rule::Synchronization => &[
            (
                TORCH,
                "Remove .item(), .cpu(), print(tensor), tensor conditions and torch.cuda.synchronize() from the step, or do them every N steps",
            ),
            (TORCH, "Copy results with non_blocking=True into pinned memory and read them one step later"),
            (
                OTHER,
                "Wait for events where only an order is needed, and read results one step later from pinned memory",
            ),
            (TORCH, "To find the rest, run with torch.cuda.set_sync_debug_mode(\"warn\")"),
            (OTHER, "To check, no synchronizing calls are left in the loop, see the table of calls"),
        ],
        _ => host_lines(rule),
    }
}

/// The same for more causes of idle time.
fn host_lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::HostBound => &[
            (EAGER, "Many small operators: torch.compile, or larger batches"),
            (COMPILED, "Part of it is compiled already: TORCH_LOGS=graph_breaks names what torch.compile leaves out"),
            (NO_GRAPHS, "A step that launches the same work each time can be a CUDA graph, which needs no host"),
            (
                ALWAYS,
                "One slow operator or function: move it off the launching thread, or to where the device has work queued",
            ),
            (NO_STACKS, "Record with with_stack=True to see the Python lines behind it"),
            (ALWAYS, "To check, the gaps at these operators shrink while the rest of the step stays as it is"),
        ],
        Rule::ExposedCopies => &[
            (TORCH, "Copy from pinned memory with non_blocking=True on a stream of its own, one batch ahead"),
            (OTHER, "Copy from pinned memory asynchronously, on a stream of its own, ahead of the work that needs it"),
            (TORCH, "Create tensors on the device in place of .to(device) inside the step"),
            (ALWAYS, "To check, the copies run beside kernels and no longer between them"),
        ],
        Rule::PageableCopies => &[
            (TORCH, "Use DataLoader(pin_memory=True) or tensor.pin_memory(), then .to(device, non_blocking=True)"),
            (OTHER, "Allocate the host's side as pinned memory"),
            (ALWAYS, "To check, the copies are no longer pageable in a new recording, and their bandwidth is higher"),
        ],
        _ => more_lines(rule),
    }
}

/// The same for the rest of the causes of idle time.
fn more_lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::Allocator => &[
            (
                TORCH,
                "Let the caching allocator keep memory: no torch.cuda.empty_cache() in steps, no PYTORCH_NO_CUDA_MEMORY_CACHING, and similar shapes in each",
            ),
            (
                TORCH,
                "Where it frees and allocates again near the limit of memory, try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            ),
            (OTHER, "Allocate once before the loop, or from a pool that keeps its memory"),
            (ALWAYS, "To check, cudaMalloc and cudaFree no longer occur in steps after warm-up"),
        ],
        Rule::ModuleLoad => &[
            (ALWAYS, "Warm up before the steps that matter: code is loaded or compiled when it is first used"),
            (NVIDIA, "CUDA_MODULE_LOADING=EAGER loads all code at the start"),
            (COMPILED, "Find recompilations with TORCH_LOGS=recompiles, and mark shapes that vary as dynamic"),
            (ALWAYS, "To check, record later steps: what is loaded once does not come back"),
        ],
        Rule::GarbageCollection => &[
            (ALWAYS, "Call gc.disable() or gc.freeze() after setup, and gc.collect() at the same step on all ranks"),
            (ALWAYS, "To check, the gaps with garbage collection are gone and memory does not grow"),
        ],
        Rule::StepBoundary => &[
            (
                ALWAYS,
                "See what the host does between steps: logging, evaluation, schedulers and checkpoints can move off the loop or run every N steps",
            ),
            (ALWAYS, "To check, the time from the last kernel of a step to the first of the next one shrinks"),
        ],
        Rule::Dependency => &[
            (
                ALWAYS,
                "Look at the stream that the work waits for: start its work earlier, or remove the event between the two",
            ),
            (ALWAYS, "To check, both streams run at the same time"),
        ],
        _ => unknown_lines(rule),
    }
}

/// The same for idle time that another recording would explain.
fn unknown_lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::Blocked => &[
            (
                ALWAYS,
                "See in which call the thread is blocked: file access, locks of other threads, or too few CPU cores",
            ),
            (
                |run| !run.is_nsys && run.vendor == Vendor::Nvidia,
                "To check, record with nsys and --trace=cuda,nvtx,osrt --cpuctxsw=process-tree",
            ),
            (AMD, "To check, record with rocprof-sys-sample, which shows what all threads do"),
            (
                |run| run.is_nsys && run.vendor == Vendor::Nvidia,
                "To check, record with --cpuctxsw=process-tree as well: it shows who ran meanwhile",
            ),
        ],
        Rule::Unexplained => &[
            (
                |run| !run.is_nsys && run.has_stacks,
                "Call stacks and calls were recorded: what is left is time outside of Python and of the runtime's calls",
            ),
            (
                |run| !run.is_nsys && !run.has_stacks,
                "Record more: activities=[CPU, CUDA] and with_stack=True in torch.profiler",
            ),
            (
                |run| run.is_nsys || run.vendor == Vendor::Nvidia && run.has_stacks,
                "Record with nsys profile --trace=cuda,nvtx,osrt --sample=process-tree --cpuctxsw=process-tree",
            ),
            (
                |run| run.vendor == Vendor::Amd && run.has_stacks,
                "Record with rocprof-sys-sample, which shows what all threads do",
            ),
        ],
        Rule::Profiler => {
            &[(ALWAYS, "Profile fewer things at once or fewer steps, and do not trust the length of these gaps")]
        }
        _ => kernel_lines(rule),
    }
}

/// The same for what is not idle time.
fn kernel_lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::DataTime => &[
            (ALWAYS, "The loader cannot keep up: more workers, faster storage, or less work per sample"),
            (ALWAYS, "To check, time the loader alone: its batches per second are a limit for the training"),
        ],
        Rule::TinyKernels => &[
            (EAGER, "Fuse them: torch.compile, or larger batches"),
            (
                COMPILED,
                "Fuse those outside of the compiled parts: TORCH_LOGS=graph_breaks names what torch.compile leaves out",
            ),
            (TRAINS, "Update many parameters with one launch: optimizers with foreach=True or fused=True"),
            (OTHER, "Fuse them, or give each more work"),
            (ALWAYS, "To check, the step has fewer kernels, and the busy share is higher"),
        ],
        Rule::SlowKernels => &[
            (
                ALWAYS,
                "Fine if this is the work itself: look for tensor-core use, lower precision and better kernels of the same operator",
            ),
            (ALWAYS, "To check one kernel, profile it with ncu --set full"),
        ],
        Rule::LongKernel => &[
            (
                ALWAYS,
                "See whether its shape is expected: a single launch this long is often an unfused loop, a sort, or a wrong layout",
            ),
            (ALWAYS, "To check it, profile it with ncu --set full"),
        ],
        Rule::RecurringGap => &[
            (ALWAYS, "Open the gap to see what the host did in it; ending it gains its ceiling at most, in every step"),
            (ALWAYS, "To check, record the same steps again: the cluster is gone or smaller"),
        ],
        Rule::MemoryNearlyFull => &[
            (ALWAYS, "Leave a tenth free: a smaller batch, or lower precision"),
            (TRAINS, "Activation checkpointing and sharded optimizer state need less of it"),
            (ALWAYS, "To check, look at the peak in the memory view, and by which stacks it is held"),
        ],
        _ => &[],
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Every combination of facts.
    pub fn runs() -> Vec<RunFacts> {
        let bit = |i: u32, bit: u32| i >> bit & 1 == 1;
        let run = |i: u32| RunFacts {
            vendor: if bit(i, 0) { Vendor::Amd } else { Vendor::Nvidia },
            is_nsys: bit(i, 1),
            is_torch: bit(i, 2) || bit(i, 3),
            is_compiled: bit(i, 3),
            has_graphs: bit(i, 4),
            has_stacks: bit(i, 5),
            is_training: bit(i, 6),
        };
        (0..128).map(run).collect()
    }

    #[test]
    fn every_rule_has_advice_for_every_run_without_trailing_periods() {
        for (rule, run) in Rule::ALL.into_iter().flat_map(|rule| runs().into_iter().map(move |run| (rule, run))) {
            let advice = advice(rule, &run);
            assert!(!advice.is_empty(), "{rule:?} {run:?}");
            assert!(advice.iter().all(|sentence| !sentence.ends_with('.')), "{rule:?}");
        }
    }

    #[test]
    fn advice_is_not_what_the_run_does_already() {
        for run in runs() {
            let all = |rule| advice(rule, &run).join("\n");
            if run.is_compiled {
                assert!(!all(Rule::LaunchBound).contains("Launch less: torch.compile"));
                assert!(!all(Rule::TinyKernels).contains("Fuse them: torch.compile"));
            }
            if run.has_graphs {
                assert!(!all(Rule::LaunchBound).contains("Launch the step as"));
            }
            if run.has_stacks {
                assert!(!Rule::ALL.into_iter().any(|rule| all(rule).contains("with_stack")));
            }
            if !run.is_training {
                let names = ["optimizer", "backward", "gradient"];
                assert!(!Rule::ALL.into_iter().any(|rule| names.iter().any(|name| all(rule).contains(name))));
            }
            if !run.is_torch {
                let names = ["torch.compile", "DataLoader(", ".item()", "PYTORCH"];
                assert!(!Rule::ALL.into_iter().any(|rule| names.iter().any(|name| all(rule).contains(name))));
            }
        }
    }

    #[test]
    fn names_are_those_of_the_maker_of_the_devices() {
        for run in runs() {
            let all = Rule::ALL.into_iter().flat_map(|rule| advice(rule, &run)).collect::<Vec<_>>().join("\n");
            let (own, others) = match run.vendor {
                Vendor::Amd => ("hipMalloc", ["cudaMalloc", "ncu ", "PYTORCH_CUDA_", "CUDA graph", "tensor-core"]),
                Vendor::Nvidia => ("cudaMalloc", ["hipMalloc", "rocprof", "PYTORCH_HIP_", "HIP graph", "matrix-core"]),
            };
            assert!(all.contains(own));
            for other in others {
                assert!(!all.contains(other), "{other}: {run:?}");
            }
        }
    }
}
