//! Advice of the rules: what to do, and how to check it, as far as it fits the run.

use crate::analysis::rules::{Basis, Hit, KernelKind, Rule, RunFacts, Vendor, is_fp32_matmul};

/// What advice is about.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    pub rule: Rule,
    pub run: &'a RunFacts,
    /// `None` for advice about a rule in general.
    pub hit: Option<&'a Hit>,
}

impl Case<'_> {
    /// Whether more than half of what was measured is a part of it.
    fn is_most(&self, part: impl Fn(&Hit) -> i64) -> bool {
        self.hit.is_some_and(|hit| 2 * part(hit) > hit.amount)
    }

    /// Whether copies from the device have more of the time than those to it.
    fn is_from_device(&self) -> bool {
        self.hit.is_some_and(|hit| hit.shares.from_device_ns > hit.shares.to_device_ns)
    }

    /// Whether most of the code is compiled or linked at run time, not loaded.
    fn is_just_in_time(&self) -> bool {
        let is_compiler = |name: &String| ["cuLink", "nvrtc", "hiprtc"].iter().any(|start| name.starts_with(start));
        self.hit.and_then(|hit| hit.names.first()).is_some_and(is_compiler)
    }

    /// Whether the largest kernel is of a kind.
    fn is_kernel(&self, kind: KernelKind) -> bool {
        let name = self.hit.and_then(|hit| hit.names.first());
        name.map_or(KernelKind::Other, |name| KernelKind::of(name)) == kind
    }
}

/// Whether a sentence fits.
pub type Fits = fn(&Case<'_>) -> bool;
/// A sentence without a period, and what it fits.
pub type Line = (Fits, &'static str);

pub const ALWAYS: Fits = |_| true;
pub const TORCH: Fits = |case| case.run.is_torch;
pub const OTHER: Fits = |case| !case.run.is_torch;
pub const TRAINS: Fits = |case| case.run.is_torch && case.run.is_training;
/// Does not train, as far as it is known.
const INFERS: Fits = |case| !TRAINS(case);
pub const EAGER: Fits = |case| case.run.is_torch && !case.run.is_compiled && !case.run.is_too_old;
/// The device cannot run what torch.compile generates.
pub const TOO_OLD: Fits = |case| case.run.is_torch && !case.run.is_compiled && case.run.is_too_old;
pub const COMPILED: Fits = |case| case.run.is_compiled;
/// A part of the program is compiled, and the time lies in it, or outside of it.
const IN_COMPILED: Fits = |case| COMPILED(case) && case.is_most(|hit| hit.shares.compiled_ns);
const BESIDE_COMPILED: Fits = |case| COMPILED(case) && !IN_COMPILED(case);
pub const NO_GRAPHS: Fits = |case| case.run.is_torch && !case.run.has_graphs;
pub const GRAPHS: Fits = |case| case.run.has_graphs;
pub const NVIDIA: Fits = |case| case.run.vendor == Vendor::Nvidia;
pub const AMD: Fits = |case| case.run.vendor == Vendor::Amd;
const NO_STACKS: Fits = |case| case.run.is_torch && !case.run.is_nsys && !case.run.has_stacks;
/// Most of the time is that of copies to the device.
const TO_DEVICE: Fits = |case| case.is_most(|hit| hit.shares.to_device_ns);
const FROM_DEVICE: Fits = |case| case.is_from_device();
const NOT_FROM_DEVICE: Fits = |case| !case.is_from_device();
/// Most of what is communicated was recorded with elements of at most 16 bits.
const NARROW: Fits = |case| case.hit.is_some_and(|hit| hit.transfers.is_narrow());

/// What to do, and how to check it; one sentence each. What the run does already is not advised, and programs, calls
/// and variables are those of the maker of its devices.
pub fn advice(case: &Case<'_>) -> Vec<String> {
    if case.rule == Rule::Unexplained {
        return vec![to_record(case)];
    }
    let fit = lines(case.rule).iter().filter(|(fits, _)| fits(case));
    let bus = case.hit.and_then(|hit| hit.transfers.bus_gb_per_s()).map(|speed| {
        format!(
            "Compare the bus bandwidth of the collectives, {speed:.2} GB/s with waiting for other ranks included, with that \
             of the links"
        )
    });
    fit.map(|(_, sentence)| of_vendor(sentence, case.run.vendor)).chain(bus).collect()
}

/// What to record to know what the host did. Asks for nothing that is there already.
pub fn to_record(case: &Case<'_>) -> String {
    let run = case.run;
    if case.is_most(|hit| hit.shares.unlaunched_ns) {
        let how = if run.is_nsys {
            "--trace=cuda, and graphs with --cuda-graph-trace=node"
        } else {
            "activities=[CPU, CUDA]"
        };
        return format!("Record the calls that launch, with {how}: without them nothing is known of the host");
    }
    if !run.is_nsys && !run.has_operators {
        return "Record what the host does, with activities=[CPU, CUDA] in torch.profiler".to_owned();
    }
    if !run.is_nsys && !run.has_stacks {
        return "Record the Python frames as well, with with_stack=True in torch.profiler".to_owned();
    }
    let options = [
        (!run.has_os_calls, "--trace=cuda,nvtx,osrt"),
        (!run.has_stacks || !run.is_nsys, "--sample=process-tree"),
        (!run.has_switches, "--cpuctxsw=process-tree"),
    ];
    let options: Vec<&str> = options.into_iter().filter(|option| option.0).map(|option| option.1).collect();
    if options.is_empty() {
        let named = "Calls, samples and context switches are recorded: name the parts of the program";
        return format!("{named} (NVTX ranges, record_function) to see which of them this is");
    }
    match run.vendor {
        Vendor::Nvidia => {
            format!("Record it with nsys profile and {}, which shows what the thread does", options.join(" "))
        }
        Vendor::Amd => "Record it with rocprof-sys-sample, which shows what all threads do".to_owned(),
    }
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
                |case| case.run.is_torch && !case.run.has_workers,
                "Load in background processes: DataLoader(num_workers=..., persistent_workers=True, prefetch_factor=...)",
            ),
            (
                |case| case.run.is_torch && case.run.has_workers,
                "The DataLoader has processes already, and they do not keep up: raise num_workers while cores are free, and \
                 prefetch_factor where only some batches are late",
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
        Rule::LaunchBound => &[
            (EAGER, "Launch less: torch.compile, larger batches"),
            GRAPH_BREAKS,
            COMPILED_HOST,
            LARGER_KERNELS,
            (TRAINS, "Update many parameters with one launch: optimizers with fused=True"),
            (
                |case| NO_GRAPHS(case) && !IN_COMPILED(case),
                "Launch what repeats as a CUDA graph: torch.cuda.graph, torch.cuda.make_graphed_callables",
            ),
            (GRAPHS, "CUDA graphs are launched already: bring what is still launched one by one into them"),
            (OTHER, "Launch less: fuse kernels, give each more work, record what repeats as a CUDA graph"),
            (ALWAYS, "To check, see whether the launch-ahead grows and the gaps between kernels shrink"),
        ],
        _ => waiting_lines(rule),
    }
}

/// The same for communication and waiting for the device.
fn waiting_lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::ExposedCommunication => &[
            (
                TRAINS,
                "Overlap communication with the backward pass: DDP's bucket_cap_mb, FSDP's backward_prefetch and forward_prefetch",
            ),
            (INFERS, "Start communication as soon as its data is there, beside the compute that remains"),
            (
                |case| TRAINS(case) && !NARROW(case),
                "Communicate less often (no_sync with gradient accumulation) or less (bf16 gradients)",
            ),
            (
                |case| TRAINS(case) && NARROW(case),
                "Communicate less often (no_sync with gradient accumulation): most of it has elements of 16 bits or fewer already",
            ),
            (
                ALWAYS,
                "To check, compare the ranks: where one starts its collectives late, the others wait for it, not for the network",
            ),
        ],
        Rule::CollectiveCalls => &[
            (TORCH, "Launch collectives asynchronously (async_op=True) and wait as late as possible"),
            (OTHER, "Launch collectives asynchronously and wait as late as possible"),
            (ALWAYS, "Exchange sizes that do not change once, not in every step: the host must wait for them"),
            (ALWAYS, "To check, compare the ranks: where one comes late to a collective, the others wait for it"),
        ],
        Rule::SmallCollectives => &[
            (
                TRAINS,
                "Join them: DistributedDataParallel reduces gradients in buckets (bucket_cap_mb), or flatten tensors and reduce them in one call",
            ),
            (INFERS, "Join those that do not need one another's results into one call"),
            (
                INFERS,
                "Where each needs the one before, as in tensor parallelism, use one-shot kernels over peer memory, and launch the step as a CUDA graph",
            ),
            (
                ALWAYS,
                "To check, the table of collectives has fewer and larger calls, and the gaps before them are gone",
            ),
        ],
        Rule::Synchronization => &[
            (
                |case| TORCH(case) && TO_DEVICE(case),
                "Most waits are for copies to the device: copy from pinned memory (pin_memory=True) with .to(device, non_blocking=True), or create the data there",
            ),
            (
                |case| OTHER(case) && TO_DEVICE(case),
                "Most waits are for copies to the device: copy asynchronously from pinned memory, ahead of the work that needs it",
            ),
            (
                |case| TORCH(case) && !TO_DEVICE(case),
                "Remove .item(), .cpu(), print(tensor), tensor conditions and torch.cuda.synchronize() from the step, or do them every N steps",
            ),
            (
                |case| TORCH(case) && !TO_DEVICE(case),
                "Copy results with non_blocking=True into pinned memory and read them one step later",
            ),
            (
                |case| OTHER(case) && !TO_DEVICE(case),
                "Wait for events where only an order is needed, and read results one step later from pinned memory",
            ),
            (TORCH, "To find the rest, run with torch.cuda.set_sync_debug_mode(\"warn\")"),
            (OTHER, "To check, no synchronizing calls are left in the loop, see the table of calls"),
        ],
        _ => host_lines(rule),
    }
}

/// Where the host is too slow, whatever shows it.
const GRAPH_BREAKS: Line =
    (BESIDE_COMPILED, "Part of it is compiled already: TORCH_LOGS=graph_breaks names what torch.compile leaves out");
const COMPILED_HOST: Line = (
    IN_COMPILED,
    "The time lies inside compiled code: let torch.compile launch it as CUDA graphs (mode=\"reduce-overhead\"), or write \
     its wrapper in C++ (torch._inductor.config.cpp_wrapper = True)",
);
const LARGER_KERNELS: Line =
    (TOO_OLD, "Fewer, larger kernels: larger batches, fused operators (this GPU is too old for torch.compile)");

/// The same for more causes of idle time.
fn host_lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::HostBound => &[
            (EAGER, "Many small operators: torch.compile, or larger batches"),
            GRAPH_BREAKS,
            COMPILED_HOST,
            LARGER_KERNELS,
            (
                |case| NO_GRAPHS(case) && !IN_COMPILED(case),
                "A step that launches the same work each time can be a CUDA graph, which needs no host",
            ),
            (
                ALWAYS,
                "One slow operator or function: move it off the launching thread, or to where the device has work queued",
            ),
            (NO_STACKS, "Record with with_stack=True to see the Python lines behind it"),
            (ALWAYS, "To check, the gaps at these operators shrink while the rest of the step stays as it is"),
        ],
        Rule::ExposedCopies => &[
            (
                |case| TORCH(case) && NOT_FROM_DEVICE(case),
                "Copy from pinned memory with non_blocking=True on a stream of its own, one batch ahead",
            ),
            (
                |case| OTHER(case) && NOT_FROM_DEVICE(case),
                "Copy from pinned memory asynchronously, on a stream of its own, ahead of the work that needs it",
            ),
            (
                |case| TORCH(case) && NOT_FROM_DEVICE(case),
                "Create tensors on the device in place of .to(device) inside the step",
            ),
            (
                |case| TORCH(case) && FROM_DEVICE(case),
                "Most of it is results: no .item() and .cpu() in every step, copy into pinned memory with non_blocking=True, and read one step later",
            ),
            (
                |case| OTHER(case) && FROM_DEVICE(case),
                "Most of it is results: copy them asynchronously into pinned memory, and read them one step later",
            ),
            (ALWAYS, "To check, the copies run beside kernels and no longer between them"),
        ],
        Rule::PageableCopies => &[
            (
                |case| case.hit.is_some_and(|hit| hit.basis == Basis::StartUp),
                "They are before the time that is judged: no step pays for them, only the start",
            ),
            (
                |case| TORCH(case) && NOT_FROM_DEVICE(case),
                "Use DataLoader(pin_memory=True) or tensor.pin_memory(), then .to(device, non_blocking=True)",
            ),
            (
                |case| TORCH(case) && FROM_DEVICE(case),
                "Copy results into pinned memory: torch.empty(..., pin_memory=True).copy_(result, non_blocking=True)",
            ),
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
            (
                |case| case.run.is_xla,
                "JAX compiles each function once for each shape: keep shapes alike, and keep what is compiled between runs (jax_compilation_cache_dir)",
            ),
            (
                |case| case.is_just_in_time() && !case.run.is_xla,
                "It is compiled or linked at run time: build for this GPU's architecture in place of PTX, and keep the driver's cache (CUDA_CACHE_PATH, CUDA_CACHE_MAXSIZE)",
            ),
            // What is compiled at run time is in no module that could be loaded at the start.
            (
                |case| NVIDIA(case) && !case.is_just_in_time() && !case.run.is_xla,
                "CUDA_MODULE_LOADING=EAGER loads all code at the start",
            ),
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
                |case| !case.run.is_nsys && NVIDIA(case),
                "To check, record with nsys and --trace=cuda,nvtx,osrt --cpuctxsw=process-tree",
            ),
            (AMD, "To check, record with rocprof-sys-sample, which shows what all threads do"),
            (
                |case| case.run.is_nsys && NVIDIA(case) && !case.run.has_switches,
                "To check, record with --cpuctxsw=process-tree as well: it shows who ran meanwhile",
            ),
            (
                |case| case.run.is_nsys && case.run.has_switches,
                "To check, see in the timeline which threads were on the CPU meanwhile",
            ),
        ],
        Rule::Queued => &[
            (
                ALWAYS,
                "Look for work of other processes on this device, and for streams that share a hardware queue (CUDA_DEVICE_MAX_CONNECTIONS)",
            ),
            (ALWAYS, "Look for a host function or a memory operation in the stream, which hold up what follows"),
            (
                |case| !case.run.is_nsys && !case.run.has_waits && NVIDIA(case),
                "Waits between streams are not in this recording: experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True) shows them",
            ),
            (
                |case| case.run.is_nsys && !case.run.has_waits,
                "Waits between streams are not in this recording: nsys profile --cuda-event-trace=true shows them",
            ),
        ],
        Rule::IncompleteRecording => &[
            (
                ALWAYS,
                "Record again, and keep the whole file: one that was sampled or filtered does not hold what ran in its gaps",
            ),
            (ALWAYS, "To check, launches and their work, and the numbers of operators, are complete in the new file"),
        ],
        Rule::NoDeviceWork => &[
            (
                |case| case.run.is_nsys,
                "Record with nsys profile --trace=cuda,nvtx, run no other profiler meanwhile, and read what nsys reports: it must know the driver's CUDA version",
            ),
            (
                |case| !case.run.is_nsys && NVIDIA(case),
                "Record with activities=[CPU, CUDA], run no other profiler meanwhile (nsys, ncu, DCGM), and look for errors of CUPTI in the program's output",
            ),
            (
                |case| !case.run.is_nsys && AMD(case),
                "Record with activities=[CPU, CUDA], run no other profiler meanwhile, and look for errors of roctracer or rocprofiler in the program's output",
            ),
            (ALWAYS, "To check, the timeline shows the streams of a device with kernels"),
        ],
        Rule::Profiler => {
            &[(ALWAYS, "Profile fewer things at once or fewer steps, and do not trust the length of these gaps")]
        }
        _ => kernel_lines(rule),
    }
}

/// The same for kernels.
fn kernel_lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::TinyKernels => &[
            (EAGER, "Fuse them: torch.compile, or larger batches"),
            (TOO_OLD, "Fuse them, or larger batches (this GPU is too old for torch.compile)"),
            (IN_COMPILED, "Most are compiled code: larger batches, or CUDA graphs (mode=\"reduce-overhead\")"),
            (
                BESIDE_COMPILED,
                "Fuse those outside of the compiled parts: TORCH_LOGS=graph_breaks names what torch.compile leaves out",
            ),
            (TRAINS, "Update many parameters with one launch: optimizers with foreach=True or fused=True"),
            (OTHER, "Fuse them, or give each more work"),
            (ALWAYS, "To check, the step has fewer kernels, and the busy share is higher"),
        ],
        Rule::Fp32Matmul => FP32,
        Rule::Elementwise => ELEMENTWISE,
        Rule::SlowKernels => &[
            (
                |case| TORCH(case) && case.run.has_tf32 && has_fp32(case),
                "Matrix products in fp32 are among them: torch.set_float32_matmul_precision(\"high\") allows TF32, torch.autocast bf16",
            ),
            (
                |case| OTHER(case) && case.run.has_tf32 && has_fp32(case),
                "Matrix products in fp32 are among them: allow TF32 (CUBLAS_COMPUTE_32F_FAST_TF32), or compute in bf16",
            ),
            (
                ALWAYS,
                "Fine if this is the work itself: look for tensor-core use, lower precision and better kernels of the same operator",
            ),
            (ALWAYS, "To check one kernel, profile it with ncu --set full"),
        ],
        Rule::LongKernel => &[
            (
                |case| case.is_kernel(KernelKind::Attention),
                "Attention takes long where sequences are long: check their length, the masks (causal, window) and the type, and whether a newer kernel supports them",
            ),
            (
                |case| case.is_kernel(KernelKind::Matmul),
                "A matrix product or convolution is the work itself: check its shape, its type and its use of tensor-core instructions",
            ),
            (
                |case| case.is_kernel(KernelKind::Access),
                "Sorting, scanning and indexed access are slow for their bytes: check how much of it is needed, and in which order it accesses memory",
            ),
            (
                |case| case.is_kernel(KernelKind::Elementwise),
                "One operator on every element takes long where tensors are large: fuse it with those before and after it",
            ),
            (
                |case| case.is_kernel(KernelKind::Other),
                "See whether its shape and its number of blocks are expected: one that fills few of the device's processors takes this long",
            ),
            (ALWAYS, "To check it, profile it with ncu --set full"),
        ],
        _ => step_lines(rule),
    }
}

/// The same for what is about steps, memory or the recording.
fn step_lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::DataTime => &[
            (ALWAYS, "The loader cannot keep up: more workers, faster storage, or less work per sample"),
            (ALWAYS, "To check, time the loader alone: its batches per second are a limit for the training"),
        ],
        Rule::RecurringGap => &[
            (ALWAYS, "Open the gap to see what the host did in it; ending it gains its ceiling at most, in every step"),
            (ALWAYS, "To check, record the same steps again: the cluster is gone or smaller"),
        ],
        Rule::IrregularSteps => &[
            (
                ALWAYS,
                "Compare the step with one of the median: select each in the table of steps, and see the part that differs",
            ),
            (
                ALWAYS,
                "Where memory is allocated or code compiled in single steps, warm up with every shape that occurs, or keep shapes alike",
            ),
            (ALWAYS, "To check, the outliers in the table of steps are gone"),
        ],
        Rule::Recording => &[
            (ALWAYS, "Do not trust how long the host takes: it is faster without the recording of frames"),
            (
                ALWAYS,
                "To check, record with with_stack=False and compare the step times; keep frames for finding the place",
            ),
        ],
        Rule::MemoryNearlyFull => &[
            (ALWAYS, "Leave a tenth free: a smaller batch, or lower precision"),
            (TRAINS, "Activation checkpointing and sharded optimizer state need less of it"),
            (ALWAYS, "To check, look at the peak in the memory view, and by which stacks it is held"),
        ],
        _ => &[],
    }
}

/// For matrix products in fp32.
const FP32: &[Line] = &[
    (
        TORCH,
        "Where a relative error of 0.001 is accepted, torch.set_float32_matmul_precision(\"high\") computes them in TF32 on tensor cores",
    ),
    (TORCH, "Mixed precision is faster still: torch.autocast with bf16"),
    (
        OTHER,
        "Where a relative error of 0.001 is accepted, compute them in TF32 (CUBLAS_COMPUTE_32F_FAST_TF32), or in bf16",
    ),
    (ALWAYS, "To check, their kernels have other names (s1688gemm, s16816gemm, tf32), and their time falls"),
];

/// For kernels of single elementwise operators.
const ELEMENTWISE: &[Line] = &[
    (EAGER, "Fuse them: torch.compile joins operators that follow one another into one kernel"),
    (
        COMPILED,
        "torch.compile is in use, and these run outside of what it compiled: TORCH_LOGS=graph_breaks names what it leaves out",
    ),
    (TOO_OLD, "Use fused operators of libraries (this GPU is too old for torch.compile)"),
    (
        TORCH,
        "Use operators that do several things at once: fused norms, activations and rotary embeddings, scaled_dot_product_attention",
    ),
    (TRAINS, "Update many parameters with one launch: optimizers with foreach=True or fused=True"),
    (OTHER, "Fuse kernels that read and write the same data"),
    (ALWAYS, "To check, the step has fewer elementwise kernels, and their time falls"),
];

fn has_fp32(case: &Case<'_>) -> bool {
    case.hit.is_some_and(|hit| hit.names.iter().any(|name| is_fp32_matmul(name)))
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
            is_xla: bit(i, 7) && !bit(i, 2) && !bit(i, 3),
            is_too_old: bit(i, 7) && !bit(i, 0),
            has_tf32: bit(i, 8) && !bit(i, 0) && !bit(i, 7),
            has_operators: bit(i, 5),
            has_os_calls: bit(i, 9),
            has_switches: bit(i, 9),
            has_waits: bit(i, 9),
            has_workers: bit(i, 9),
        };
        (0..1024).map(run).collect()
    }

    #[test]
    fn every_rule_has_advice_for_every_run_without_trailing_periods() {
        for (rule, run) in Rule::ALL.into_iter().flat_map(|rule| runs().into_iter().map(move |run| (rule, run))) {
            let advice = advice(&Case { rule, run: &run, hit: None });
            assert!(!advice.is_empty(), "{rule:?} {run:?}");
            assert!(advice.iter().all(|sentence| !sentence.ends_with('.')), "{rule:?}");
        }
    }

    #[test]
    fn advice_is_not_what_the_run_does_already() {
        for run in runs() {
            let all = |rule| advice(&Case { rule, run: &run, hit: None }).join("\n");
            if run.is_compiled {
                assert!(!all(Rule::LaunchBound).contains("Launch less: torch.compile"));
                assert!(!all(Rule::TinyKernels).contains("Fuse them: torch.compile"));
            }
            if run.has_graphs {
                assert!(!all(Rule::LaunchBound).contains("Launch the step as"));
            }
            if run.has_workers {
                assert!(!all(Rule::DataLoading).contains("background processes"));
            }
            if run.has_stacks {
                assert!(!Rule::ALL.into_iter().any(|rule| all(rule).contains("with_stack=True")));
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
            let of_rule = |rule| advice(&Case { rule, run: &run, hit: None });
            let all = Rule::ALL.into_iter().flat_map(of_rule).collect::<Vec<_>>().join("\n");
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
