//! Advice of the rules: what to do, and how to check it, as far as it fits the run.

mod communication;
mod idle;
mod kernels;
mod unexplained;

use crate::analysis::rules::{Hit, KernelKind, Part, Rule, RunFacts, Vendor};

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

    /// Whether most of what makes a rank late is that it computes longer; `None` if nothing tells.
    fn late_by_compute(&self) -> Option<bool> {
        let late = self.hit?.late.as_ref()?;
        let longer = late.longer.iter().filter(|(_, ns)| *ns > 0);
        let total: i64 = longer.clone().map(|(_, ns)| ns).sum();
        let compute: i64 = longer.filter(|(part, _)| *part == Part::Compute).map(|(_, ns)| ns).sum();
        (total > 0).then_some(2 * compute > total)
    }

    /// Whether copies from the device have more of the time than those to it.
    fn is_from_device(&self) -> bool {
        self.hit.is_some_and(|hit| hit.shares.from_device_ns > hit.shares.to_device_ns)
    }

    /// Whether what has most of the time has such a name.
    fn is_most_named(&self, fits: fn(&str) -> bool) -> bool {
        self.hit.and_then(|hit| hit.names.first()).is_some_and(|name| fits(name))
    }

    /// Whether the driver compiles or links most of the code at run time.
    fn is_linked(&self) -> bool {
        self.is_most_named(|name| name.starts_with("cuLink"))
    }

    /// Whether the program compiles most of the code from sources at run time: with a library, or in a function or
    /// range that says so.
    fn is_generated(&self) -> bool {
        self.is_most_named(|name| {
            name.starts_with("nvrtc") || name.starts_with("hiprtc") || name.to_lowercase().contains("compil")
        })
    }

    /// Whether one of the kernels with most time has such a name; true of a rule in general.
    fn has_kernel(&self, fits: fn(&str) -> bool) -> bool {
        self.hit.is_none_or(|hit| hit.names.iter().any(|name| fits(name)))
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
/// There is a device, as far as it is known.
const ON_DEVICE: Fits = |case| !case.run.is_on_cpu;
const ON_CPU: Fits = |case| case.run.is_on_cpu;
pub const TRAINS: Fits = |case| case.run.is_torch && case.run.is_training;
/// Trains with an optimizer that is in the recording, and is not fused as far as it is known.
pub const UNFUSED: Fits = |case| TRAINS(case) && case.run.has_optimizer && !case.run.has_fused_optimizer;
/// Does not train, as far as it is known.
pub const INFERS: Fits = |case| !TRAINS(case);
pub const EAGER: Fits = |case| CAN_COMPILE(case) && !case.run.is_captured;
/// torch.compile or `AOTAutograd` captured code, and what it runs is not Inductor's.
pub const CAPTURED: Fits = |case| CAN_COMPILE(case) && case.run.is_captured;
const CAN_COMPILE: Fits = |case| case.run.is_torch && !case.run.is_compiled && !case.run.is_too_old;
/// For it, where kernels are many and small.
pub const FUSING_BACKEND: Line = (
    CAPTURED,
    "The code is captured already (CompiledFunction), but runs the framework's own kernels one by one: a backend that \
     fuses them (torch.compile's inductor) launches fewer; larger batches give each more work",
);
/// The device cannot run what torch.compile generates.
pub const TOO_OLD: Fits = |case| case.run.is_torch && !case.run.is_compiled && case.run.is_too_old;
pub const COMPILED: Fits = |case| case.run.is_compiled;
/// torch.compile compiles in at least half of the steps.
const COMPILES_AGAIN: Fits = |case| {
    let recurring = case.hit.and_then(|hit| hit.recurring.as_ref());
    COMPILED(case) && recurring.is_some_and(|gaps| 2 * gaps.n_present >= gaps.n_steps)
};
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
/// The copies are of batches, as far as that shows; so are those of a rule in general.
const LOADS: Fits = |case| case.hit.is_none_or(|hit| hit.is_of_batches);
/// Most of the time operators have an input shape that is new to them.
const NEW_SHAPES: Fits = |case| case.is_most(|hit| hit.new_shapes.total_ns);
const USUAL_SHAPES: Fits = |case| !NEW_SHAPES(case);
/// Most of the time single operators, functions or ranges go on for long.
const SLOW: Fits = |case| case.is_most(|hit| hit.shares.slow_ns);
/// Most of the time the host works for milliseconds between two launches.
const APART: Fits = |case| !SLOW(case) && case.is_most(|hit| hit.shares.apart_ns);
/// Most of the time the step of an optimizer launches.
const OPTIMIZER: Fits = |case| TORCH(case) && case.is_most(|hit| hit.shares.optimizer_ns);
/// The program collects garbage by itself: what Python collects has no function.
const COLLECTS: Fits = |case| {
    let calls = |hit: &Hit| hit.sites.iter().any(|site| site.call.contains("function collect"));
    case.hit.is_some_and(calls)
};
/// Most of the time the host writes a checkpoint.
const SAVES: Fits = |case| case.is_most(|hit| hit.shares.saves_ns);
/// The time is that of many small operators and functions.
const SMALL: Fits = |case| USUAL_SHAPES(case) && !SLOW(case) && !APART(case) && !SAVES(case);
/// Most of the time the host waits for another thread, a lock, a queue, a socket or a process.
const HOST_WAITS: Fits = |case| case.hit.is_some_and(Hit::is_waiting);
/// Likewise, in a program that does not train.
const LOW_LOAD: Fits = |case| case.hit.is_some_and(Hit::is_of_low_load);
/// The gap that comes back lies inside CUDA graphs.
const IN_GRAPH: Fits = |case| case.hit.and_then(|hit| hit.recurring.as_ref()).is_some_and(|gap| gap.is_in_graph);
/// Most of the time the device waits for work of another one.
const FOR_ANOTHER_DEVICE: Fits = |case| case.hit.is_some_and(Hit::is_for_another_device);
/// The caching allocator is off or bypassed.
const NOT_CACHED: Fits = |case| case.hit.is_some_and(|hit| hit.uncached.is_some());
/// Most of the time the caching allocator makes room for a request.
const MAKES_ROOM: Fits = |case| TORCH(case) && !NOT_CACHED(case) && case.is_most(|hit| hit.shares.room_ns);
const KEEPS_MEMORY: Fits = |case| !MAKES_ROOM(case) && !NOT_CACHED(case);
/// Hardware events of kernels were counted instead of recording their times.
const COUNTED: Fits = |case| case.hit.is_some_and(|hit| hit.no_work.counted > 0);
/// Ranks were not compared.
const ALONE: Fits = |case| case.hit.is_none_or(|hit| hit.waiting.n_ranks == 0);
/// Most of the communication is waiting for other ranks.
const WAITS: Fits = |case| case.hit.is_some_and(|hit| hit.waiting.ns > hit.amount - hit.waiting.ns);
/// Nearly all of the communication is between the stages of a pipeline.
const STAGES: Fits = |case| case.hit.is_some_and(Hit::is_between_stages);
/// What makes a rank late is mostly longer compute, or mostly not; either where nothing tells.
const LATE_BY_COMPUTE: Fits = |case| case.late_by_compute() != Some(false);
const LATE_OTHERWISE: Fits = |case| case.late_by_compute() != Some(true);
/// Most of what is communicated was recorded with elements of at most 16 bits.
const NARROW: Fits = |case| case.hit.is_some_and(|hit| hit.transfers.is_narrow());

/// What to do, and how to check it; one sentence each. What the run does already is not advised, and programs, calls
/// and variables are those of the maker of its devices.
pub fn advice(case: &Case<'_>) -> Vec<String> {
    if case.rule == Rule::Unexplained {
        let saves = "If that is a checkpoint, save less often, or write it beside the training: \
                     torch.distributed.checkpoint.async_save";
        let saves = case.hit.filter(|hit| case.run.is_torch && hit.is_after_copies()).map(|_| saves.to_owned());
        let loads = "If that is a batch, make the next one while the device works on this: in worker processes of the \
                     loader, or in a thread that runs ahead";
        let loads = case.hit.filter(|hit| saves.is_none() && hit.is_before_copies()).map(|_| loads.to_owned());
        return std::iter::once(to_record(case)).chain(saves).chain(loads).collect();
    }
    let fit = idle::lines(case.rule).iter().filter(|(fits, _)| fits(case));
    let moves = case.hit.filter(|hit| !hit.is_between_stages());
    let bus = moves.and_then(|hit| hit.transfers.bus_gb_per_s()).map(|(speed, is_transfer)| {
        let waiting =
            if is_transfer { "without waiting for other ranks" } else { "with waiting for other ranks included" };
        format!("Compare the bus bandwidth of the collectives, {speed:.2} GB/s {waiting}, with that of the links")
    });
    fit.map(|(_, sentence)| of_vendor(sentence, case.run.vendor)).chain(bus).collect()
}

/// Whether what is advised is that the host launches less, as compiled code or as graphs.
pub fn is_to_launch_less(case: &Case<'_>) -> bool {
    match case.rule {
        Rule::LaunchBound => TORCH(case),
        Rule::HostBound => TORCH(case) && (SMALL(case) || IN_COMPILED(case)),
        _ => false,
    }
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

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Every combination of facts.
    pub fn runs() -> Vec<RunFacts> {
        let bit = |i: u32, bit: u32| i >> bit & 1 == 1;
        let run = |i: u32| RunFacts {
            vendor: if bit(i, 0) { Vendor::Amd } else { Vendor::Nvidia },
            missing: None,
            is_nsys: bit(i, 1),
            is_torch: bit(i, 2) || bit(i, 3),
            is_compiled: bit(i, 3),
            is_captured: bit(i, 9) && !bit(i, 3),
            has_graphs: bit(i, 4),
            has_stacks: bit(i, 5),
            is_training: bit(i, 6),
            is_xla: bit(i, 7) && !bit(i, 2) && !bit(i, 3),
            is_too_old: bit(i, 7) && !bit(i, 0),
            has_tensor_cores: !bit(i, 0) && !bit(i, 7),
            has_tf32: bit(i, 8) && !bit(i, 0) && !bit(i, 7),
            has_operators: bit(i, 5),
            has_os_calls: bit(i, 9),
            has_switches: bit(i, 9),
            has_waits: bit(i, 9),
            has_workers: bit(i, 9),
            is_on_cpu: bit(i, 1) && !bit(i, 0),
            has_fused_optimizer: bit(i, 4),
            has_optimizer: bit(i, 8),
            is_geforce: bit(i, 9),
            names_optimizer_steps: bit(i, 8),
            names_backward_nodes: bit(i, 6),
        };
        (0..1024).map(run).collect()
    }

    #[test]
    fn every_rule_has_advice_for_every_run_without_trailing_periods() {
        for (rule, run) in Rule::ALL.into_iter().flat_map(|rule| runs().into_iter().map(move |run| (rule, run))) {
            let advice = advice(&Case { rule, run: &run, hit: None });
            assert!(!advice.is_empty(), "{rule:?} {run:?}");
            assert!(advice.iter().all(|sentence| !sentence.ends_with('.')), "{rule:?}");
            let checks = advice.iter().filter(|sentence| sentence.starts_with("To check"));
            assert!(checks.count() <= 1, "{rule:?}: {advice:?}");
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
            if run.is_captured {
                assert!(!all(Rule::LaunchBound).contains("Launch less: torch.compile"));
            }
            if !run.has_optimizer {
                assert!(!Rule::ALL.into_iter().any(|rule| all(rule).contains("fused=True")));
            }
            if run.has_graphs {
                assert!(!all(Rule::LaunchBound).contains("Launch the step as"));
            }
            if run.has_fused_optimizer {
                let rules = [Rule::LaunchBound, Rule::TinyKernels];
                assert!(rules.iter().all(|&rule| !all(rule).contains("fused=True")));
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
    fn where_there_is_no_gpu_advice_on_loading_names_none() {
        for run in runs() {
            let all = advice(&Case { rule: Rule::DataLoading, run: &run, hit: None }).join("\n");
            assert_ne!(["GPU", "device"].iter().any(|word| all.contains(word)), run.is_on_cpu, "{all}");
        }
    }

    #[test]
    fn modules_are_not_loaded_early_for_code_that_is_compiled_at_run_time() {
        let run = RunFacts::default();
        let of = |name: &str| {
            let hit =
                Hit { names: vec![name.to_owned()], ..crate::analysis::rules::hit_of(Rule::ModuleLoad, None, 1, 1) };
            let advice = advice(&Case { rule: Rule::ModuleLoad, run: &run, hit: Some(&hit) }).join("\n");
            ["CUDA_MODULE_LOADING", "CUDA_CACHE_PATH", "its compiler has a cache"].map(|part| advice.contains(part))
        };
        assert_eq!(of("cuLibraryLoadData"), [true, false, false]);
        assert_eq!(of("cuLinkComplete"), [false, true, false]);
        for name in ["nvrtcCompileProgram", "FusionKernelRuntime::compileFusionParallel"] {
            assert_eq!(of(name), [false, false, true], "{name}");
        }
    }

    #[test]
    fn stages_of_a_pipeline_are_not_told_to_overlap_gradients() {
        let run = RunFacts { is_torch: true, is_training: true, ..RunFacts::default() };
        let of = |point_to_point_ns: i64| {
            let mut hit = crate::analysis::rules::hit_of(Rule::ExposedCommunication, None, 1_000, 2_000);
            hit.transfers.point_to_point_ns = point_to_point_ns;
            advice(&Case { rule: Rule::ExposedCommunication, run: &run, hit: Some(&hit) }).join("\n")
        };
        let told = |point_to_point_ns| {
            ["micro-batches", "zero-bubble", "bucket_cap_mb"].map(|part| of(point_to_point_ns).contains(part))
        };
        assert_eq!(told(900), [true, true, false], "{}", of(900));
        assert_eq!(told(899), [false, false, true], "{}", of(899));
    }

    #[test]
    fn advice_on_slow_kernels_is_that_of_their_kind() {
        let run = RunFacts { is_torch: true, ..RunFacts::default() };
        let of = |names: &[&str]| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            let hit = Hit { names, ..crate::analysis::rules::hit_of(Rule::SlowKernels, None, 1, 1) };
            let advice = advice(&Case { rule: Rule::SlowKernels, run: &run, hit: Some(&hit) }).join("\n");
            ["tensor-core", "bound by memory", "channels_last"].map(|part| advice.contains(part))
        };
        assert_eq!(of(&["nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTT"]), [true, false, false]);
        assert_eq!(of(&["pytorch_flash::flash_fwd_kernel"]), [true, false, false]);
        assert_eq!(of(&["at::native::cunn_SoftMaxBackward"]), [false, true, false]);
        assert_eq!(of(&["split_embedding_codegen_forward_weighted_kernel"]), [false, true, false]);
        assert_eq!(of(&["at::native::avg_pool2d_out_cuda_frame"]), [false, true, true]);
        assert_eq!(of(&["at::native::max_pool_forward_nhwc"]), [false, true, false]);
        assert_eq!(of(&["at::native::reduce_kernel", "ampere_bf16_s16816gemm_bf16_128x64"]), [true, true, false]);
    }

    #[test]
    fn a_loader_is_named_for_pageable_copies_of_batches_alone() {
        let run = RunFacts { is_torch: true, ..RunFacts::default() };
        let of = |is_of_batches| {
            let hit = Hit { is_of_batches, ..crate::analysis::rules::hit_of(Rule::PageableCopies, None, 1, 1) };
            let advice = advice(&Case { rule: Rule::PageableCopies, run: &run, hit: Some(&hit) }).join("\n");
            ["DataLoader", "map_location"].map(|part| advice.contains(part))
        };
        assert_eq!([true, false].map(of), [[true, false], [false, true]]);
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
