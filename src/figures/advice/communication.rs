//! Advice about communication, and ranks that wait for each other.

use super::{
    ALONE, ALWAYS, AMD, INFERS, LATE_BY_COMPUTE, LATE_OTHERWISE, Line, NARROW, NVIDIA, OTHER, STAGES, TORCH, TRAINS,
    WAITS, kernels,
};
use crate::analysis::rules::Rule;

/// About communication by its rule.
pub fn lines(rule: Rule) -> &'static [Line] {
    match rule {
        Rule::ExposedCommunication => EXPOSED,
        Rule::LateRank => LATE_RANK,
        Rule::CollectiveCalls => &[
            (
                WAITS,
                "Look at the ranks first: most of it is waiting for the one that comes last. Collectives by rank (the table Collectives, or that of ranks in the report) say which, and the findings of that rank why",
            ),
            (
                |case| TORCH(case) && !WAITS(case),
                "Launch collectives asynchronously (async_op=True) and wait as late as possible",
            ),
            (|case| OTHER(case) && !WAITS(case), "Launch collectives asynchronously and wait as late as possible"),
            (
                |case| !WAITS(case),
                "Exchange sizes that do not change once, not in every step: the host must wait for them",
            ),
            (ALONE, "To check, compare the ranks: where one comes late to a collective, the others wait for it"),
            (|case| !ALONE(case), "To check, the ranks wait less for each other in the table of collectives"),
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
        _ => kernels::lines(rule),
    }
}

/// For communication without compute.
const EXPOSED: &[Line] = &[
    (
        STAGES,
        "Split each batch into more micro-batches: of p stages and m micro-batches the bubble is (p - 1) / (m + p - 1) of the time of a step",
    ),
    (
        STAGES,
        "Use a schedule that fills it: interleaved stages (several parts of the model on each rank), or a zero-bubble schedule",
    ),
    (
        STAGES,
        "Give all stages the same work: the slowest, often the one with the embedding or the loss, sets the pace of all",
    ),
    (
        |case| ALONE(case) && !STAGES(case),
        "Compare the ranks first (Collectives by rank, of several traces that are open together): where one starts its \
                 collectives late, the others wait for it, not for the network",
    ),
    (
        WAITS,
        "Look at the ranks first: most of it is not communication but waiting for the one that comes last. Collectives by rank (the table Collectives, or that of ranks in the report) say which, and the findings of that rank why",
    ),
    (
        |case| TRAINS(case) && !WAITS(case) && !STAGES(case),
        "Overlap communication with the backward pass: DDP's bucket_cap_mb, FSDP's backward_prefetch and forward_prefetch",
    ),
    (
        |case| INFERS(case) && !WAITS(case) && !STAGES(case),
        "Start communication as soon as its data is there, beside the compute that remains",
    ),
    (
        |case| TRAINS(case) && !NARROW(case) && !WAITS(case) && !STAGES(case),
        "Communicate less often (no_sync with gradient accumulation) or less (bf16 gradients)",
    ),
    (
        |case| TRAINS(case) && NARROW(case) && !WAITS(case) && !STAGES(case),
        "Communicate less often (no_sync with gradient accumulation): most of it has elements of 16 bits or fewer already",
    ),
    (STAGES, "To check, sends and receives take less time in which nothing computes, on every rank"),
    (|case| !STAGES(case), "To check, the collectives take less time in which nothing computes, on every rank"),
];

/// For a rank for which others wait.
const LATE_RANK: &[Line] = &[
    (
        LATE_BY_COMPUTE,
        "Give all ranks the same work: as many samples, tokens and layers, and shards of tables and experts of one size",
    ),
    (
        |case| LATE_BY_COMPUTE(case) && NVIDIA(case),
        "Where they have the same work, compare the GPUs: clocks, temperature, power and errors of the slow one \
         (nvidia-smi -q -d PERFORMANCE,CLOCK,ECC)",
    ),
    (
        |case| LATE_BY_COMPUTE(case) && AMD(case),
        "Where they have the same work, compare the GPUs: clocks, temperature, power and errors of the slow one \
         (amd-smi metric)",
    ),
    (
        LATE_OTHERWISE,
        "Look at this rank's own findings and gaps: logging, checkpoints or evaluation that one rank does for all, its \
         data, and CPU cores that it shares with others",
    ),
    (ALWAYS, "To check, the ranks wait less for each other in the table of collectives, and none is late in its place"),
];
