//! Advice about kernels, steps, memory and the recording.

use super::{
    ALWAYS, BESIDE_COMPILED, COMPILED, Case, EAGER, FUSING_BACKEND, Fits, IN_COMPILED, IN_GRAPH, Line, OTHER, TOO_OLD,
    TORCH, TRAINS, UNFUSED,
};
use crate::analysis::gaps::GapClass;
use crate::analysis::rules::{Irregular, KernelKind, Part, Rule, is_fp32_matmul};

/// Whether steps take longer and longer, or less and less.
const HAS_TREND: Fits = |case| case.hit.and_then(|hit| hit.irregular.as_ref()).is_some_and(|of| of.trend.is_some());
/// Operators of a framework chose the kernels.
const IS_FRAMEWORK: Fits = |case| case.run.is_torch || case.run.has_operators;

/// Whether a kernel computes matrix products, alone or among others.
fn is_product(kernel: &str) -> bool {
    matches!(KernelKind::of(kernel), KernelKind::Matmul | KernelKind::Attention)
}

/// Whether a kernel normalizes or pools images whose channels lie apart.
fn is_of_images(kernel: &str) -> bool {
    ["batch_norm", "nchw", "pool2d"].iter().any(|part| kernel.contains(part)) && !kernel.contains("nhwc")
}

/// Whether steps are of two lengths, and whether the later steps are all of one of them.
const HAS_GROUPS: Fits = |case| case.hit.and_then(|hit| hit.irregular.as_ref()).is_some_and(|of| of.groups.is_some());
const HAS_JUMP: Fits = |case| {
    let groups = case.hit.and_then(|hit| hit.irregular.as_ref()).and_then(|of| of.groups.as_ref());
    groups.is_some_and(|groups| groups.jump.is_some())
};
const HAS_ODD_STEP: Fits = |case| !HAS_TREND(case) && !HAS_GROUPS(case);

/// About kernels.
pub fn lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::TinyKernels => &[
            (EAGER, "Fuse them: torch.compile, or larger batches"),
            FUSING_BACKEND,
            (TOO_OLD, "Fuse them, or larger batches (this GPU is too old for torch.compile)"),
            (IN_COMPILED, "Most are compiled code: larger batches, or CUDA graphs (mode=\"reduce-overhead\")"),
            (
                BESIDE_COMPILED,
                "Fuse those outside of the compiled parts: TORCH_LOGS=graph_breaks names what torch.compile leaves out",
            ),
            (UNFUSED, "Update many parameters with one launch: optimizers with foreach=True or fused=True"),
            (OTHER, "Fuse them, or give each more work"),
            (ALWAYS, "To check, the step has fewer kernels, and the busy share is higher"),
        ],
        Rule::Fp32Matmul => FP32,
        Rule::Elementwise => ELEMENTWISE,
        Rule::StepwiseAttention => ATTENTION,
        Rule::SlowKernels => SLOW_KERNELS,
        Rule::LongKernel => &[
            (
                |case| case.is_kernel(KernelKind::Attention),
                "Attention takes long where sequences are long: check their length, the masks (causal, window) and the \
                 type, and whether a newer kernel supports them",
            ),
            (
                |case| case.is_kernel(KernelKind::Matmul),
                "A matrix product or convolution is the work itself: check its shape, its type and its use of \
                 tensor-core instructions",
            ),
            (
                |case| case.is_kernel(KernelKind::Access),
                "Sorting, scanning and indexed access are slow for their bytes: check how much of it is needed, and in \
                 which order it accesses memory",
            ),
            (
                |case| case.is_kernel(KernelKind::Elementwise),
                "One operator on every element takes long where tensors are large: fuse it with those before and after \
                 it",
            ),
            (
                |case| case.is_kernel(KernelKind::Other),
                "See whether its shape and its number of blocks are expected: one that fills few of the device's \
                 processors takes this long",
            ),
            (ALWAYS, "To check it, profile it with ncu --set full"),
        ],
        _ => step_lines(rule),
    }
}

/// For gaps that come back and have no known cause.
const RECURRING_GAP: &[Line] = &[
    (
        |case| !IN_GRAPH(case) && !HAS_NO_BOUND(case),
        "Open the gap to see what the host did in it; ending it gains its ceiling at most, in every step",
    ),
    (
        |case| !IN_GRAPH(case) && HAS_NO_BOUND(case),
        "Nothing that was recorded shows what would end it: record call stacks and waits between streams as well",
    ),
    (
        IN_GRAPH,
        "It lies between the kernels of CUDA graphs, where the host does nothing: fewer and larger kernels in the \
         graph, such as fused ones, or programmatic dependent launch, have less of it",
    ),
    (ALWAYS, "To check, record the same steps again: the cluster is gone or smaller"),
];

/// The same for what is about steps, memory or the recording.
fn step_lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::DataTime => &[
            (ALWAYS, "The loader cannot keep up: more workers, faster storage, or less work per sample"),
            (ALWAYS, "To check, time the loader alone: its batches per second are a limit for the training"),
        ],
        Rule::RecurringGap => RECURRING_GAP,
        Rule::IrregularSteps => &[
            (
                HAS_TREND,
                "Compare the first step with the last, and see what grows: inputs that get longer or larger, a list or \
                 a graph that is kept, a cache or a file that is searched",
            ),
            (HAS_TREND, "To check, record steps that lie further apart: without what grows they take equally long"),
            (
                |case| HAS_GROUPS(case) && !HAS_JUMP(case),
                "Compare a longer step with a shorter one: select each in the table of steps, and see the part that \
                 differs",
            ),
            (
                HAS_JUMP,
                "Something changes there and stays: compare the step before with the one after, and see the part that \
                 differs",
            ),
            (HAS_GROUPS, "To check, all steps take as long as the shorter ones"),
            (
                HAS_ODD_STEP,
                "Compare the step with one of the median: select each in the table of steps, and see the part that \
                 differs",
            ),
            (
                |case| {
                    case.hit
                        .and_then(|hit| hit.irregular.as_ref())
                        .is_some_and(|of| of.groups.is_none() && of.trend.is_none() && of.step_ns < of.median_ns)
                },
                "A step that is shorter than the others shows what they could be: see what they do that it does not",
            ),
            (
                |case| case.hit.and_then(|hit| hit.irregular.as_ref()).is_none_or(may_warm_up),
                "Where memory is allocated or code compiled in single steps, warm up with every shape that occurs, or \
                 keep shapes alike",
            ),
            (HAS_ODD_STEP, "To check, the outliers in the table of steps are gone"),
        ],
        Rule::Recording => &[
            (ALWAYS, "Do not trust how long the host takes: it is faster without a recorder"),
            (
                |case| case.run.has_stacks,
                "Record with with_stack=False to see steps that are nearer to it; keep frames for finding the place",
            ),
            (ALWAYS, "To check, compare with the step time that the program measures itself, without any recorder"),
        ],
        Rule::MemoryNearlyFull => NEARLY_FULL,
        _ => &[],
    }
}

/// Most of the reserved memory was never in use at once.
const SCATTERED: Fits = |case| case.is_most(|hit| hit.unused_bytes);

const TF32_ON_GEFORCE: &str = "On GeForce cards TF32 is hardly faster than fp32: measure it, bf16 gains more";

/// For memory that is nearly full.
const NEARLY_FULL: &[Line] = &[
    (
        SCATTERED,
        "First see why reserved memory grew: most of it is unused, and less of it is reserved where \
                 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True or fewer varying sizes let requests share segments",
    ),
    (
        |case| case.hit.is_some_and(|hit| hit.others_bytes != Some(0)),
        "See what else runs on the device, with nvidia-smi or lacuna monitor: what other processes hold, this one \
                 cannot have",
    ),
    (|case| !SCATTERED(case), "Leave a tenth free: a smaller batch, or lower precision"),
    (|case| TRAINS(case) && !SCATTERED(case), "Activation checkpointing and sharded optimizer state need less of it"),
    (ALWAYS, "To check, look at the peak in the memory view, and by which stacks it is held"),
];

/// For matrix products in fp32.
const FP32: &[Line] = &[
    (|case| TF32(case) && case.run.is_geforce, TF32_ON_GEFORCE),
    (
        |case| TF32(case) && TORCH(case),
        "Where a relative error of 0.001 is accepted, torch.set_float32_matmul_precision(\"high\") computes them in \
         TF32 on tensor cores",
    ),
    (|case| TF32(case) && TORCH(case), "Mixed precision is faster still: torch.autocast with bf16"),
    (
        |case| TF32(case) && OTHER(case),
        "Where a relative error of 0.001 is accepted, compute them in TF32 (CUBLAS_COMPUTE_32F_FAST_TF32), or in bf16",
    ),
    (
        |case| !TF32(case) && TORCH(case),
        "The tensor cores of this GPU know no TF32 and no bf16: torch.autocast with fp16",
    ),
    (
        |case| !TF32(case) && TRAINS(case),
        "Gradients in fp16 are lost where they are small: scale the loss (torch.amp.GradScaler)",
    ),
    (
        |case| !TF32(case) && OTHER(case),
        "The tensor cores of this GPU know no TF32 and no bf16: compute them in fp16, with sums in fp32 \
         (CUBLAS_COMPUTE_32F)",
    ),
    (TF32, "To check, their kernels have other names (s1688gemm, s16816gemm, tf32), and their time falls"),
    (
        |case| !TF32(case),
        "To check, their kernels have other names (s884gemm, h884gemm, s1688gemm), and their time falls",
    ),
];
const TF32: Fits = |case| case.run.has_tf32;

/// Of a gap that comes back nothing recorded shows what would end it.
const HAS_NO_BOUND: Fits = |case| case.hit.is_some_and(|hit| hit.ceiling_ns_per_step.is_none());

/// For kernels of single elementwise operators.
const ELEMENTWISE: &[Line] = &[
    (EAGER, "Fuse them: torch.compile joins operators that follow one another into one kernel"),
    FUSING_BACKEND,
    (
        COMPILED,
        "torch.compile is in use, and these run outside of what it compiled: TORCH_LOGS=graph_breaks names what it \
         leaves out",
    ),
    (TOO_OLD, "Use fused operators of libraries (this GPU is too old for torch.compile)"),
    (
        TORCH,
        "Use operators that do several things at once: fused norms, activations and rotary embeddings, \
         scaled_dot_product_attention",
    ),
    (UNFUSED, "Update many parameters with one launch: optimizers with foreach=True or fused=True"),
    (OTHER, "Fuse kernels that read and write the same data"),
    (ALWAYS, "To check, the step has fewer elementwise kernels, and their time falls"),
];

/// For kernels that take long on average.
const SLOW_KERNELS: &[Line] = &[
    (
        |case| TORCH(case) && case.run.has_tf32 && has_fp32(case),
        "Matrix products in fp32 are among them: torch.set_float32_matmul_precision(\"high\") allows TF32, \
         torch.autocast bf16",
    ),
    (
        |case| OTHER(case) && case.run.has_tf32 && has_fp32(case),
        "Matrix products in fp32 are among them: allow TF32 (CUBLAS_COMPUTE_32F_FAST_TF32), or compute in bf16",
    ),
    (|case| case.run.is_geforce && case.run.has_tf32 && has_fp32(case), TF32_ON_GEFORCE),
    (
        |case| IS_FRAMEWORK(case) && case.has_kernel(is_product),
        "Fine if this is the work itself: for matrix products and convolutions, look for tensor-core use, lower \
         precision and better kernels of the same operator",
    ),
    (
        |case| IS_FRAMEWORK(case) && case.has_kernel(|name| !is_product(name)),
        "Kernels that compute no matrix product are mostly bound by memory: fuse them with what runs before and \
         after, use smaller types, or give them less data",
    ),
    (
        |case| TORCH(case) && case.hit.is_some() && case.has_kernel(is_of_images),
        "Normalization and pooling of images are faster in the order of memory that convolutions prefer: \
         memory_format=torch.channels_last for model and input",
    ),
    (
        |case| !IS_FRAMEWORK(case),
        "Fine if this is the work itself: look whether it is bound by memory or by arithmetic, and for a faster \
         algorithm or lower precision",
    ),
    (ALWAYS, "To check one kernel, profile it with ncu --set full"),
];

/// For attention that is computed step by step.
const ATTENTION: &[Line] = &[
    (
        |case| !FALLS_BACK(case),
        "torch.nn.functional.scaled_dot_product_attention computes it in one kernel (FlashAttention) that never writes \
         the matrix of scores; in Transformers: attn_implementation=\"sdpa\" or \"flash_attention_2\"",
    ),
    (
        FALLS_BACK,
        "scaled_dot_product_attention is called, and no fused kernel takes what it is given: look at types (fp16 or \
         bf16), masks and head sizes; torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION) around it says why",
    ),
    (ALWAYS, "To check, the kernels of softmax are gone, and the peak of memory is lower"),
];
/// Most of it is inside of `scaled_dot_product_attention`.
const FALLS_BACK: Fits = |case| case.is_most(|hit| hit.attention.called_ns);

fn has_fp32(case: &Case<'_>) -> bool {
    case.hit.is_some_and(|hit| hit.names.iter().any(|name| is_fp32_matmul(name)))
}

/// Whether a step is longer by what only some steps need: memory, or code.
fn may_warm_up(of: &Irregular) -> bool {
    let idle = |class| of.part == Part::Idle(class);
    of.trend.is_none()
        && of.groups.is_none()
        && of.step_ns > of.median_ns
        && (idle(GapClass::Allocator) || idle(GapClass::ModuleLoad))
}
