//! Advice about idle time, by its cause.

use super::{
    ALWAYS, APART, BESIDE_COMPILED, CAPTURED, COLLECTS, COMPILED, COMPILES_AGAIN, EAGER, FOR_ANOTHER_DEVICE,
    FROM_DEVICE, FUSING_BACKEND, GRAPHS, IN_COMPILED, KEEPS_MEMORY, LOADS, Line, MAKES_ROOM, NEW_SHAPES, NO_GRAPHS,
    NO_STACKS, NOT_CACHED, NOT_FROM_DEVICE, NVIDIA, ON_CPU, ON_DEVICE, OPTIMIZER, OTHER, SAVES, SLOW, SMALL, TO_DEVICE,
    TOO_OLD, TORCH, UNFUSED, USUAL_SHAPES, unexplained,
};
use crate::analysis::rules::{Basis, Rule};

/// About idle time by its cause.
pub fn lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::LowUtilization => &[
            (
                ALWAYS,
                "See which causes have most of the idle time: each has a finding of its own, or a share in the idle time by cause",
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
            (OTHER, "Load the next batch in background threads or processes while this one is worked on"),
            (
                ON_DEVICE,
                "Move decoding and augmentation to the GPU or do them once ahead of time, and store data where reading is fast",
            ),
            (ON_CPU, "Do decoding and augmentation once ahead of time, and store data where reading is fast"),
            (
                ON_DEVICE,
                "To check, run all steps on one batch kept on the device: if they get no shorter, loading is not the limit",
            ),
            (ON_CPU, "To check, run all steps on one batch: if they get no shorter, loading is not the limit"),
        ],
        Rule::LaunchBound => &[
            (
                |case| OPTIMIZER(case) && UNFUSED(case),
                "Most of it is the optimizer's step: fused=True updates many parameters with one launch, foreach=True with a few",
            ),
            (EAGER, "Launch less: torch.compile, larger batches"),
            FUSING_BACKEND,
            GRAPH_BREAKS,
            COMPILED_HOST,
            LARGER_KERNELS,
            (
                |case| UNFUSED(case) && !OPTIMIZER(case),
                "Update many parameters with one launch: optimizers with fused=True",
            ),
            (
                |case| NO_GRAPHS(case) && !IN_COMPILED(case),
                "Launch what repeats as a CUDA graph: torch.cuda.graph, torch.cuda.make_graphed_callables",
            ),
            (GRAPHS, "CUDA graphs are launched already: bring what is still launched one by one into them"),
            (OTHER, "Launch less: fuse kernels, give each more work, record what repeats as a CUDA graph"),
            (ALWAYS, "To check, see whether the launch-ahead grows and the gaps between kernels shrink"),
        ],
        Rule::Synchronization => SYNCHRONIZATION,
        _ => host_lines(rule),
    }
}

/// For checkpoints.
const SAVE_ELSEWHERE: Line = (
    |case| TORCH(case) && SAVES(case),
    "Write checkpoints beside the training: copy the state to pinned memory, and write it in another thread or process \
     (torch.distributed.checkpoint.async_save does both)",
);
const SAVE: Line =
    (SAVES, "Save less often, and only what a restart needs. To check, the step that saves is as long as the others");

/// For waits of the host for the device.
const SYNCHRONIZATION: &[Line] = &[
    SAVE_ELSEWHERE,
    SAVE,
    (
        |case| TORCH(case) && TO_DEVICE(case),
        "Most waits are for copies to the device: copy from pinned memory (pin_memory=True) with .to(device, non_blocking=True), or create the data there",
    ),
    (
        |case| OTHER(case) && TO_DEVICE(case),
        "Most waits are for copies to the device: copy asynchronously from pinned memory, ahead of the work that needs it",
    ),
    (
        |case| TORCH(case) && !TO_DEVICE(case) && !SAVES(case),
        "Remove .item(), .cpu(), print(tensor), tensor conditions and torch.cuda.synchronize() from the step, or do them every N steps",
    ),
    (
        |case| TORCH(case) && !TO_DEVICE(case) && !SAVES(case),
        "Copy results with non_blocking=True into pinned memory and read them one step later",
    ),
    (
        |case| OTHER(case) && !TO_DEVICE(case),
        "Wait for events where only an order is needed, and read results one step later from pinned memory",
    ),
    (
        |case| case.hit.is_some_and(|hit| hit.after.is_some()) && !SAVES(case),
        "Where the host needs the results, move what it does after the wait to another thread, or to where the device has \
     work queued",
    ),
    (|case| TORCH(case) && !SAVES(case), "To find the rest, run with torch.cuda.set_sync_debug_mode(\"warn\")"),
    (OTHER, "To check, no synchronizing calls are left in the loop, see the table of calls"),
];

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
            SAVE_ELSEWHERE,
            SAVE,
            (
                NEW_SHAPES,
                "Libraries plan, choose and load kernels anew for each input shape: pad or bucket the inputs to a few shapes, \
                 and warm up with each of them before the steps that matter",
            ),
            (
                |case| NEW_SHAPES(case) && TORCH(case),
                "Keep torch.backends.cudnn.benchmark off while shapes vary: it adds a search to each new one",
            ),
            (
                |case| NEW_SHAPES(case) && COMPILED(case),
                "torch.compile with dynamic=True compiles once for sizes that vary",
            ),
            (|case| EAGER(case) && SMALL(case), "Many small operators: torch.compile, or larger batches"),
            (|case| CAPTURED(case) && SMALL(case), FUSING_BACKEND.1),
            GRAPH_BREAKS,
            COMPILED_HOST,
            LARGER_KERNELS,
            (
                |case| NO_GRAPHS(case) && !IN_COMPILED(case) && SMALL(case),
                "A step that launches the same work each time can be a CUDA graph, which needs no host",
            ),
            (
                |case| APART(case) && USUAL_SHAPES(case) && !SAVES(case),
                "The host works for milliseconds between two launches, on tensors in host memory or in Python: move that to the \
                 device, to another thread or process, or out of the step",
            ),
            (
                |case| (case.hit.is_none() || SLOW(case)) && USUAL_SHAPES(case) && !SAVES(case),
                "One slow operator or function: compute it on the device where that can be, else move it off the launching thread, or to \
                 where the device has work queued",
            ),
            (
                |case| SLOW(case) && case.run.has_stacks && USUAL_SHAPES(case) && !SAVES(case),
                "A function with nothing recorded inside works in C, or frees what it held: large tensors in host memory take \
                 milliseconds to free",
            ),
            (NO_STACKS, "Record with with_stack=True to see the Python lines behind it"),
            (
                |case| !SAVES(case),
                "To check, the gaps at these operators shrink while the rest of the step stays as it is",
            ),
        ],
        _ => copy_lines(rule),
    }
}

/// The same for copies.
fn copy_lines(rule: Rule) -> &'static [Line] {
    match rule {
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
                |case| TORCH(case) && NOT_FROM_DEVICE(case) && LOADS(case),
                "Use DataLoader(pin_memory=True) or tensor.pin_memory(), then .to(device, non_blocking=True)",
            ),
            (
                |case| TORCH(case) && NOT_FROM_DEVICE(case) && !LOADS(case),
                "If they are weights, make or load them on the device at once: torch.device(\"cuda\") around the model, \
                 map_location for a checkpoint; else copy from tensor.pin_memory()",
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

/// For compiling and loading code.
const MODULE_LOAD: &[Line] = &[
    (
        COMPILES_AGAIN,
        "Something is compiled in each of these steps: TORCH_LOGS=recompiles says why; mark shapes that vary as dynamic (torch.compile(dynamic=True), torch._dynamo.mark_dynamic), or keep them alike",
    ),
    (
        |case| !COMPILES_AGAIN(case),
        "Warm up before the steps that matter: code is loaded or compiled when it is first used",
    ),
    (
        |case| case.run.is_xla,
        "JAX compiles each function once for each shape: keep shapes alike, and keep what is compiled between runs (jax_compilation_cache_dir)",
    ),
    (
        |case| case.is_linked() && !case.run.is_xla,
        "The driver compiles or links it at run time: build for this GPU's architecture in place of PTX, and keep the driver's cache (CUDA_CACHE_PATH, CUDA_CACHE_MAXSIZE)",
    ),
    (
        |case| case.is_generated() && !case.run.is_xla && !COMPILED(case),
        "The program compiles it at run time: keep shapes and types alike, and keep what is compiled between runs, if its compiler has a cache for that",
    ),
    // What is compiled at run time is in no module that could be loaded at the start.
    (
        |case| {
            let is_loaded = !case.is_linked() && !case.is_generated();
            NVIDIA(case) && is_loaded && !case.run.is_xla && !COMPILES_AGAIN(case)
        },
        "CUDA_MODULE_LOADING=EAGER loads all code at the start",
    ),
    (
        |case| COMPILED(case) && !COMPILES_AGAIN(case),
        "Find recompilations with TORCH_LOGS=recompiles, and mark shapes that vary as dynamic",
    ),
    (|case| !COMPILES_AGAIN(case), "To check, record later steps: what is loaded once does not come back"),
    (COMPILES_AGAIN, "To check, record again: no step compiles after the first of each shape"),
];

/// The same for the rest of the causes of idle time.
fn more_lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::Allocator => &[
            (
                MAKES_ROOM,
                "The caching allocator found no room for a request, gave all memory that it kept back to the device and asked \
                 again: what it needs after that is allocated anew. Ask for less at once, or free tensors before",
            ),
            (
                MAKES_ROOM,
                "Where enough memory is free but in pieces, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True joins them",
            ),
            (
                MAKES_ROOM,
                "To see what holds the memory, record its history (torch.cuda.memory._record_memory_history) and look at the \
                 peak before the request",
            ),
            (
                NOT_CACHED,
                "PyTorch's caching allocator is off or bypassed: unset PYTORCH_NO_CUDA_MEMORY_CACHING, which is for debugging (on AMD GPUs PYTORCH_NO_HIP_MEMORY_CACHING does the same), and see whether a pluggable allocator takes its place",
            ),
            (
                |case| TORCH(case) && KEEPS_MEMORY(case),
                "Let the caching allocator keep memory: no torch.cuda.empty_cache() in steps, no PYTORCH_NO_CUDA_MEMORY_CACHING, and similar shapes in each",
            ),
            (
                |case| TORCH(case) && KEEPS_MEMORY(case),
                "Where it frees and allocates again near the limit of memory, try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            ),
            (OTHER, "Allocate once before the loop, or from a pool that keeps its memory"),
            (ALWAYS, "To check, cudaMalloc and cudaFree no longer occur in steps after warm-up"),
        ],
        Rule::ModuleLoad => MODULE_LOAD,
        Rule::GarbageCollection => &[
            (COLLECTS, "The program calls gc.collect() itself: take it out of the step, or call it every N steps"),
            (
                |case| !COLLECTS(case),
                "Call gc.disable() or gc.freeze() after setup, and gc.collect() at the same step on all ranks",
            ),
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
                FOR_ANOTHER_DEVICE,
                "Split each batch into micro-batches, so that one GPU has the next while another has this (a pipeline), or \
                 split the batch or the layers over the GPUs in place of the model",
            ),
            (
                |case| !FOR_ANOTHER_DEVICE(case),
                "Look at the stream that the work waits for: start its work earlier, or remove the event between the two",
            ),
            (FOR_ANOTHER_DEVICE, "To check, the GPUs are busy at the same time"),
            (|case| !FOR_ANOTHER_DEVICE(case), "To check, both streams run at the same time"),
        ],
        _ => unexplained::lines(rule),
    }
}
