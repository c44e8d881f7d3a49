//! Advice about idle time by cause and trigger, and how to check that it helped.

use super::advice::{
    ALWAYS, AMD, COMPILED, Case, EAGER, FUSING_BACKEND, GRAPHS, INFERS, Line, NO_GRAPHS, NVIDIA, OTHER, TOO_OLD, TORCH,
    UNFUSED, of_vendor, to_record as of_host,
};
use super::format;
use super::gaps::is_of_freeing;
use crate::analysis::gaps::{Gap, GapClass, PARTS_TOLD, Trigger};
use crate::analysis::rules::{Rule, RunFacts, Vendor};
use crate::model::Trace;

/// Advice about one cause. Sentences without a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapAdvice {
    /// What to do about it, the likeliest first.
    pub fixes: Vec<String>,
    /// How to see whether it helped.
    pub check: String,
}

/// What to do, and how to see whether it helped.
type Lines = (&'static [Line], &'static [Line]);

/// Advice about time of each cause.
const ADVICE: [(GapClass, Lines); GapClass::N] = [
    (
        GapClass::Sync,
        (
            &[
                (
                    TORCH,
                    "Read values from the device less often: no .item(), .cpu(), print or if on a tensor in every step",
                ),
                (TORCH, "Collect losses and metrics on the device, and copy them every n steps with non_blocking=True"),
                (TORCH, "Replace torch.cuda.synchronize() by events where only an order is needed"),
                (OTHER, "Wait for events where only an order is needed, and read results later from pinned memory"),
            ],
            &[
                (TORCH, "torch.cuda.set_sync_debug_mode(\"warn\") names every operator that synchronizes"),
                (OTHER, "Synchronizing calls in the Calls table become fewer"),
            ],
        ),
    ),
    (
        GapClass::DataLoading,
        (
            &[
                (TORCH, "Raise num_workers of the DataLoader, and set persistent_workers=True and prefetch_factor"),
                (OTHER, "Load the next batch in the background while the device works on this one"),
                (ALWAYS, "Move decoding and augmentation into the workers or onto the device"),
                (TORCH, "Set pin_memory=True and copy batches with non_blocking=True"),
            ],
            &[(ALWAYS, "Feed one cached batch in every step: if the gap is gone, the input is the limit")],
        ),
    ),
    (
        GapClass::Copy,
        (
            &[
                (TORCH, "Copy from pinned memory with non_blocking=True, on a stream of its own, one batch ahead"),
                (OTHER, "Copy from pinned memory asynchronously, on a stream of its own, ahead of its use"),
                (ALWAYS, "Create data on the device instead of copying it there"),
                (ALWAYS, "Join many small copies into one"),
            ],
            &[(ALWAYS, "In the Copies table, copies are no longer pageable and overlap with kernels")],
        ),
    ),
    (
        GapClass::Allocator,
        (
            &[
                (TORCH, "Avoid shapes that change from step to step, so that the caching allocator reuses its blocks"),
                (TORCH, "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
                (TORCH, "Remove torch.cuda.empty_cache() from the loop"),
                (OTHER, "Allocate once before the loop, or from a pool that keeps its memory"),
            ],
            &[(ALWAYS, "After the first steps, no cudaMalloc and cudaFree remain in the Calls table")],
        ),
    ),
    (
        GapClass::ModuleLoad,
        (
            &[
                (ALWAYS, "Warm up before measuring: code is compiled and loaded when it is first used"),
                (
                    COMPILED,
                    "Keep shapes and dtypes constant, or mark them dynamic, so that torch.compile does not compile \
                     again",
                ),
                (COMPILED, "Keep compiled code between runs: TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR"),
                (
                    |case| case.run.is_xla,
                    "Keep what JAX compiles between runs (jax_compilation_cache_dir), and shapes alike from call to \
                     call",
                ),
            ],
            &[
                (COMPILED, "TORCH_LOGS=recompiles names what is compiled again, and why"),
                (|case| !case.run.is_compiled, "In later steps there are no such gaps"),
            ],
        ),
    ),
    (
        GapClass::Gc,
        (
            &[(
                ALWAYS,
                "Call gc.freeze() after setup, gc.disable(), and gc.collect() at a moment when all ranks wait anyway",
            )],
            &[(ALWAYS, "gc.callbacks reports each collection; between steps there are none left")],
        ),
    ),
    (
        GapClass::Collective,
        (
            &[
                (TORCH, "Launch collectives asynchronously (async_op=True) and wait as late as possible"),
                (OTHER, "Launch collectives asynchronously and wait as late as possible"),
                (ALWAYS, "Find the rank that comes late: the others wait for it"),
            ],
            &[(ALWAYS, "The exposed share in the table of collectives falls")],
        ),
    ),
    (
        GapClass::Launch,
        (
            &[
                (EAGER, "Launch fewer, larger kernels: torch.compile, larger batches"),
                FUSING_BACKEND,
                (COMPILED, "Launch fewer, larger kernels: fewer graph breaks, larger batches"),
                (TOO_OLD, "Launch fewer, larger kernels: larger batches, fused operators"),
                (UNFUSED, "Update many parameters with one launch: optimizers with fused=True"),
                (OTHER, "Launch fewer, larger kernels"),
                (NO_GRAPHS, "Record the step as a CUDA graph (torch.cuda.graph, torch.cuda.make_graphed_callables)"),
                (GRAPHS, "CUDA graphs are launched already: bring what is still launched one by one into them"),
            ],
            &[(ALWAYS, "Launches per step fall in the Calls table")],
        ),
    ),
    (
        GapClass::CpuOp,
        (
            &[
                (EAGER, "Reduce the operators per step: torch.compile, fused modules"),
                FUSING_BACKEND,
                (COMPILED, "Part of the program is compiled: if this is not, TORCH_LOGS=graph_breaks says why"),
                (NO_GRAPHS, "Record the step as a CUDA graph, so that operators run once only"),
                (ALWAYS, "Give the device more work per operator: larger batches"),
            ],
            &[(ALWAYS, "Host time of the operator in the Operators table falls")],
        ),
    ),
    (
        GapClass::Python,
        (
            &[
                (ALWAYS, "Move Python work out of the loop, or into a thread or process of its own"),
                (EAGER, "Let torch.compile or a CUDA graph replace the Python of the step"),
            ],
            &[(ALWAYS, "Time the named frame with a wall clock before and after")],
        ),
    ),
    (
        GapClass::Blocked,
        (
            &[
                (ALWAYS, "Find what the thread waits for: a lock, another process, a file, the network"),
                (INFERS, "If it waits for requests, nothing was asked of the device: batch them, or send it more"),
                (
                    ALWAYS,
                    "Give each process enough cores: set OMP_NUM_THREADS, and bind processes to cores of their GPU's \
                     node",
                ),
            ],
            &[
                (NVIDIA, "nsys profile --trace=osrt,cuda --cpuctxsw=process-tree shows the call and who ran meanwhile"),
                (AMD, "rocprof-sys-sample shows the call and who ran meanwhile"),
            ],
        ),
    ),
    (
        GapClass::Unknown,
        (
            &[(ALWAYS, "Record more of the launching thread, as named below, before changing anything")],
            &[(ALWAYS, "The share of unknown time falls in a recording with more detail")],
        ),
    ),
    (
        GapClass::LaunchLatency,
        (
            &[(
                ALWAYS,
                "Nothing for a single gap: this is the usual time from a launch, or from the work before, to the start \
                 of work. If gaps like it add up, launch fewer kernels",
            )],
            &[(ALWAYS, "The sum of micro gaps falls")],
        ),
    ),
    (
        GapClass::Dependency,
        (
            &[
                (ALWAYS, "Start the work waited for earlier, or make it shorter"),
                (ALWAYS, "Remove the event or stream wait if the order is not needed"),
            ],
            &[(ALWAYS, "The work waited for ends before the gap begins")],
        ),
    ),
    (
        GapClass::Queued,
        (
            &[
                (
                    ALWAYS,
                    "Look for work of other processes on this device, and for streams that share a hardware queue \
                     (CUDA_DEVICE_MAX_CONNECTIONS)",
                ),
                (ALWAYS, "Look for a host function or a memory operation in the stream"),
            ],
            &[
                (NVIDIA, "nsys profile --gpu-metrics-devices shows whether the device is really idle"),
                (AMD, "rocprof-sys-run shows whether the device is really idle"),
            ],
        ),
    ),
    (
        GapClass::Graph,
        (
            &[(ALWAYS, "Join or reorder nodes of the CUDA graph, so that fewer of them wait for one another")],
            &[(ALWAYS, "Duration of the graph falls")],
        ),
    ),
    (
        GapClass::NoLaunch,
        (
            &[(ALWAYS, "Record the calls that launch, as named below: without them nothing is known of the host")],
            &[(ALWAYS, "The work after the gap has a call that launched it")],
        ),
    ),
    (
        GapClass::Profiler,
        (
            &[(ALWAYS, "Leave it out of any comparison: without the profiler it is not there")],
            &[(ALWAYS, "Record fewer steps, or without stacks and shapes")],
        ),
    ),
];

/// Advice about time of this cause, as far as it fits the run.
pub fn advice(class: GapClass, run: &RunFacts) -> GapAdvice {
    let Some((_, (fixes, checks))) = ADVICE.iter().find(|entry| entry.0 == class) else { return GapAdvice::default() };
    let case = Case { rule: Rule::RecurringGap, run, hit: None };
    let fit = |lines: &[Line]| -> Vec<String> {
        lines.iter().filter(|(fits, _)| fits(&case)).map(|(_, text)| of_vendor(text, run.vendor)).collect()
    };
    GapAdvice { fixes: fit(fixes), check: fit(checks).into_iter().next().unwrap_or_default() }
}

/// What the trigger of a gap means for it; `None` without one.
pub fn trigger_text(trace: &Trace, gap: &Gap) -> Option<String> {
    let text = match gap.trigger? {
        Trigger::Sync if is_of_freeing(trace, gap) => {
            "A call that frees memory first waits until the device has done all work: one call is both, the wait that \
             emptied the queue and the freeing that the gap goes on with"
        }
        Trigger::Sync => {
            "The host waited for the device before it launched more. The queue was empty when the wait ended, so all \
             that the host did next shows as idle time"
        }
        Trigger::LaunchBound => {
            "The work before was short and launched just in time: the host launches work more slowly than the device \
             runs it"
        }
        Trigger::StepBoundary => "The work before it belongs to one step, the work after it to the next",
        Trigger::GraphEnd => match gap.launched_before(trace) {
            Some(ns) => {
                let before = format::duration(ns);
                return Some(format!(
                    "It follows the last node of a GPU graph. The launch of the work after it had returned {before} \
                     before: that work was queued"
                ));
            }
            None => {
                "It follows the last node of a GPU graph: the next launch came too late, it had not returned by then"
            }
        },
        Trigger::Profiler => "The profiler was at work, starting, stopping or flushing",
    };
    Some(text.to_owned())
}

/// That the host lost its lead before a gap that nothing else made possible, and in what; `None` if it did not.
pub fn lost_lead_text(gap: &Gap) -> Option<String> {
    let class = gap.refill.filter(|_| gap.trigger != Some(Trigger::Sync))?;
    Some(format!(
        "The host lost its lead some time before, and had not caught up: otherwise the work after this gap would have \
         been queued in time. What it ran here counts as that: {}",
        class.label()
    ))
}

/// Why the gaps of a device have no causes; see [`Ledger::is_untold`](crate::analysis::gaps::Ledger::is_untold).
pub fn untold() -> String {
    format!(
        "Why it waited was not looked for: the gaps of the devices before it have over {} parts already, and each \
         device more would take as much memory",
        format::count(PARTS_TOLD as u64)
    )
}

/// What to record to know the cause of time of this class; `None` where it is known, or was recorded already.
pub fn to_record(class: GapClass, run: &RunFacts) -> Option<String> {
    let is_amd = run.vendor == Vendor::Amd;
    let text = match (class, run.is_nsys) {
        (GapClass::Unknown, _) => return Some(of_host(&Case { rule: Rule::Unexplained, run, hit: None })),
        (GapClass::Python, true) if !run.has_stacks => "For the Python frame: nsys profile --python-sampling=true",
        (GapClass::Graph, true) => "For single nodes: nsys profile --cuda-graph-trace=node",
        (GapClass::NoLaunch, false) => "Record with activities=[CPU, CUDA], so that launches are there",
        (GapClass::NoLaunch, true) => "Record with --trace=cuda, and graphs with --cuda-graph-trace=node",
        (GapClass::Queued, false) if !is_amd && !run.has_waits => {
            "For waits between streams, record with nsys profile --cuda-event-trace=true"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::busy::devices;
    use crate::analysis::gaps::Ground;
    use crate::model::{SliceKind, TraceBuilder};

    #[test]
    fn causes_and_triggers_have_the_name_of_no_vendor() {
        let labels = GapClass::ALL.map(GapClass::label).into_iter().chain(Trigger::ALL.map(Trigger::label));
        for label in labels {
            assert!(["CUDA", "HIP", "NVIDIA", "AMD"].iter().all(|name| !label.contains(name)), "{label}");
        }
    }

    #[test]
    fn a_launch_that_was_made_before_the_end_of_a_graph_did_not_come_too_late() {
        const CALL: SliceKind = SliceKind::Runtime;
        let text = |launched: i64| {
            let mut builder = TraceBuilder::from_slices(&[
                ("main", CALL, "cudaGraphLaunch", 0, 5_000),
                ("main", CALL, "cudaLaunchKernel", launched, launched + 5_000),
                ("stream 7", SliceKind::Kernel, "node", 10_000, 900_000),
                ("stream 7", SliceKind::Kernel, "next", 950_000, 960_000),
            ]);
            builder.slices[0].correlation = vec![1, 2, 1, 2];
            let trace = builder.finish();
            let ledger = &Ground::new(&trace).ledgers(&devices(&trace), None, &|| false)[0];
            trigger_text(&trace, &ledger.gap(0)).unwrap()
        };
        let queued = text(95_000);
        assert!(queued.contains("had returned 800.000 µs before") && !queued.contains("too late"), "{queued}");
        for launched in [898_000, 940_000] {
            assert!(text(launched).contains("came too late"), "{launched}");
        }
    }

    #[test]
    fn every_cause_has_advice_and_a_check_for_every_run() {
        for run in crate::figures::advice::tests::runs() {
            for class in GapClass::ALL {
                let GapAdvice { fixes, check } = advice(class, &run);
                assert!(!fixes.is_empty() && !check.is_empty(), "{class:?} {run:?}");
                for text in fixes.iter().chain([&check]) {
                    assert!(!text.ends_with('.') && !text.contains("  "), "{text}");
                    assert!(run.vendor != Vendor::Amd || !text.contains("nsys"), "{text}");
                }
            }
            assert!(to_record(GapClass::Unknown, &run).is_some());
            let is_stack = |text: String| text.contains("with_stack");
            assert!(!run.has_stacks || !to_record(GapClass::Unknown, &run).is_some_and(is_stack));
        }
    }
}
