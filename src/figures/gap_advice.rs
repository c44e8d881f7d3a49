//! What to do about idle time, by cause and by trigger, and how to see whether it helped.

use crate::analysis::gaps::{GapClass, Trigger};

/// Advice about one cause. Sentences without a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapAdvice {
    /// What to do about it, the likeliest first.
    pub fixes: &'static [&'static str],
    /// How to see whether it helped.
    pub check: &'static str,
}

/// Advice about time of each cause.
const ADVICE: [(GapClass, GapAdvice); GapClass::N] = [
    (
        GapClass::Sync,
        GapAdvice {
            fixes: &[
                "Read values from the device less often: no .item(), .cpu(), print or if on a tensor in every step",
                "Collect losses and metrics on the device, and copy them every n steps with non_blocking=True",
                "Replace torch.cuda.synchronize() by events where only an order is needed",
            ],
            check: "torch.cuda.set_sync_debug_mode(\"warn\") names every operator that synchronizes",
        },
    ),
    (
        GapClass::DataLoading,
        GapAdvice {
            fixes: &[
                "Raise num_workers of the DataLoader, and set persistent_workers=True and prefetch_factor",
                "Move decoding and augmentation into the workers or onto the device",
                "Set pin_memory=True and copy batches with non_blocking=True",
            ],
            check: "Feed one cached batch in every step: if the gap is gone, the input is the limit",
        },
    ),
    (
        GapClass::Copy,
        GapAdvice {
            fixes: &[
                "Copy from pinned memory with non_blocking=True, on a stream of its own, one batch ahead",
                "Create tensors on the device instead of copying them there",
                "Join many small copies into one",
            ],
            check: "In the Copies table, copies are no longer pageable and overlap with kernels",
        },
    ),
    (
        GapClass::Allocator,
        GapAdvice {
            fixes: &[
                "Avoid shapes that change from step to step, so that the caching allocator reuses its blocks",
                "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                "Remove torch.cuda.empty_cache() from the loop",
            ],
            check: "After the first steps, no cudaMalloc and cudaFree remain in the Calls table",
        },
    ),
    (
        GapClass::ModuleLoad,
        GapAdvice {
            fixes: &[
                "Warm up before measuring: code is compiled and loaded when it is first used",
                "Keep shapes and dtypes constant, or mark them dynamic, so that torch.compile does not compile again",
                "Keep compiled code between runs: TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR",
            ],
            check: "TORCH_LOGS=recompiles names what is compiled again, and why",
        },
    ),
    (
        GapClass::Gc,
        GapAdvice {
            fixes: &[
                "Call gc.freeze() after setup, gc.disable(), and gc.collect() at a moment when all ranks wait anyway",
            ],
            check: "gc.callbacks reports each collection; between steps there are none left",
        },
    ),
    (
        GapClass::Collective,
        GapAdvice {
            fixes: &[
                "Launch collectives asynchronously (async_op=True) and wait as late as possible",
                "Find the rank that comes late: the others wait for it",
            ],
            check: "The exposed share in the table of collectives falls",
        },
    ),
    (
        GapClass::Launch,
        GapAdvice {
            fixes: &[
                "Launch fewer, larger kernels: fused optimizers (fused=True), torch.compile, larger batches",
                "Record the step as a CUDA graph (torch.cuda.graph, torch.compile(mode=\"reduce-overhead\"))",
            ],
            check: "Launches per step fall in the Calls table",
        },
    ),
    (
        GapClass::CpuOp,
        GapAdvice {
            fixes: &[
                "Reduce the operators per step: torch.compile, fused modules, foreach or fused optimizers",
                "Record the step as a CUDA graph, so that operators run once only",
                "Give the device more work per operator: larger batches",
            ],
            check: "Host time of the operator in the Operators table falls",
        },
    ),
    (
        GapClass::Python,
        GapAdvice {
            fixes: &[
                "Move Python work out of the loop, or into a thread or process of its own",
                "Let torch.compile or a CUDA graph replace the Python of the step",
            ],
            check: "Time the named frame with a wall clock before and after",
        },
    ),
    (
        GapClass::Blocked,
        GapAdvice {
            fixes: &[
                "Find what the thread waits for: a lock, another process, a file, the network",
                "Give each process enough cores: set OMP_NUM_THREADS, and bind processes to cores of their GPU's node",
            ],
            check: "nsys profile --trace=osrt,cuda --cpuctxsw=process-tree shows the call and who ran meanwhile",
        },
    ),
    (
        GapClass::Unknown,
        GapAdvice {
            fixes: &["Record more of the launching thread, as named below, before changing anything"],
            check: "The share of unknown time falls in a recording with more detail",
        },
    ),
    (
        GapClass::LaunchLatency,
        GapAdvice {
            fixes: &[
                "Nothing for a single gap: this is the usual latency of a launch. If gaps like it add up, launch fewer kernels",
            ],
            check: "The sum of micro gaps falls",
        },
    ),
    (
        GapClass::Dependency,
        GapAdvice {
            fixes: &[
                "Start the work waited for earlier, or make it shorter",
                "Remove the event or stream wait if the order is not needed",
            ],
            check: "The work waited for ends before the gap begins",
        },
    ),
    (
        GapClass::Queued,
        GapAdvice {
            fixes: &[
                "Look for work of other processes on this device, and for streams that share a hardware queue \
                 (CUDA_DEVICE_MAX_CONNECTIONS)",
                "Look for a host function or a memory operation in the stream",
            ],
            check: "nsys profile --gpu-metrics-devices shows whether the device is really idle",
        },
    ),
    (
        GapClass::Graph,
        GapAdvice {
            fixes: &["Join or reorder nodes of the CUDA graph, so that fewer of them wait for one another"],
            check: "Duration of the graph falls",
        },
    ),
    (
        GapClass::NoLaunch,
        GapAdvice {
            fixes: &["Record the calls that launch, as named below: without them nothing is known of the host"],
            check: "The work after the gap has a call that launched it",
        },
    ),
    (
        GapClass::Profiler,
        GapAdvice {
            fixes: &["Leave it out of any comparison: without the profiler it is not there"],
            check: "Record fewer steps, or without stacks and shapes",
        },
    ),
];

/// Advice about time of this cause.
pub fn advice(class: GapClass) -> GapAdvice {
    ADVICE.iter().find(|entry| entry.0 == class).map_or(GapAdvice { fixes: &[], check: "" }, |entry| entry.1)
}

/// What a trigger means for the gap.
pub fn trigger_text(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Sync => {
            "The host waited for the device before it launched more. The queue was empty when the wait ended, so all that \
             the host did next shows as idle time"
        }
        Trigger::LaunchBound => {
            "The work before was short and launched just in time: the host launches no faster than the device runs"
        }
        Trigger::StepBoundary => "The work before it belongs to one step, the work after it to the next",
        Trigger::GraphEnd => "It follows the last node of a CUDA graph: the next launch came too late",
        Trigger::Profiler => "The profiler was at work, starting, stopping or flushing",
    }
}

/// What to record to know the cause of time of this class; `None` where it is known.
///
/// * `is_nsys`: whether Nsight Systems recorded the trace.
pub fn to_record(class: GapClass, is_nsys: bool) -> Option<&'static str> {
    match (class, is_nsys) {
        (GapClass::Unknown, false) => Some("Record with torch.profiler and with_stack=True, activities=[CPU, CUDA]"),
        (GapClass::Unknown, true) => {
            Some("Record with nsys profile --trace=cuda,nvtx,osrt --sample=process-tree --cpuctxsw=process-tree")
        }
        (GapClass::Python, true) => Some("For the Python frame: nsys profile --python-sampling=true"),
        (GapClass::Graph, true) => Some("For single nodes: nsys profile --cuda-graph-trace=node"),
        (GapClass::NoLaunch, false) => Some("Record with activities=[CPU, CUDA], so that launches are there"),
        (GapClass::NoLaunch, true) => Some("Record with --trace=cuda, and graphs with --cuda-graph-trace=node"),
        (GapClass::Queued, false) => {
            Some("For waits between streams, record with nsys profile --cuda-event-trace=true")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_advice_and_a_check() {
        for class in GapClass::ALL {
            let GapAdvice { fixes, check } = advice(class);
            assert!(!fixes.is_empty() && !check.is_empty(), "{class:?}");
            for text in fixes.iter().chain([&check]) {
                assert!(!text.ends_with('.') && !text.contains("  "), "{text}");
            }
        }
        assert!(Trigger::ALL.into_iter().all(|trigger| !trigger_text(trigger).is_empty()));
        assert!([false, true].into_iter().all(|is_nsys| to_record(GapClass::Unknown, is_nsys).is_some()));
    }
}
