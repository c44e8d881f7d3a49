//! Facts about the program and its machine, so that advice fits.

use hashbrown::{HashMap, HashSet};

use super::missing::Missing;
use crate::analysis::gaps::BACKWARD_NODE;
use crate::analysis::tensor_cores::least_capability;
use crate::model::{DeviceInfo, Format, ON_CPU, SliceId, SliceKind, StringId, Trace};

/// How PyTorch names the range of an optimizer's step.
pub const OPTIMIZER_STEP: &str = "Optimizer.step#";

/// The maker of the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vendor {
    #[default]
    Nvidia,
    Amd,
}

/// Facts about the run and its recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunFacts {
    pub vendor: Vendor,
    /// What shows that most events are missing; `None` if nothing does.
    pub missing: Option<Missing>,
    /// Whether Nsight Systems recorded it.
    pub is_nsys: bool,
    /// Whether operators or kernels of PyTorch run.
    pub is_torch: bool,
    /// Whether code of torch.compile runs: at least `COMPILED_SHARE` of the kernels are Inductor's, or launched by
    /// its code.
    pub is_compiled: bool,
    /// Whether `AOTAutograd`'s functions run, as of torch.compile,
    /// and no code of Inductor does: most kernels are the framework's own.
    pub is_captured: bool,
    /// Whether XLA compiled kernels, as for JAX.
    pub is_xla: bool,
    /// Whether a device is too old for Triton, and with that for torch.compile: compute capability below 7.0.
    pub is_too_old: bool,
    /// Whether a device is known to have tensor cores: NVIDIA's from compute capability 7.0 on; where the file does not
    /// describe it, by the names of its kernels.
    pub has_tensor_cores: bool,
    /// Whether a device has TF32: NVIDIA's from compute capability 8.0 on.
    pub has_tf32: bool,
    /// Whether the devices are `GeForce`: TF32 on their tensor cores is hardly faster than their fp32.
    pub is_geforce: bool,
    /// Whether it trains: there is a backward pass or an optimizer.
    pub is_training: bool,
    /// Whether an optimizer is in the recording.
    pub has_optimizer: bool,
    /// Whether an optimizer updates its parameters in fused kernels already, as with `fused=True`.
    pub has_fused_optimizer: bool,
    /// Whether ranges name steps of an optimizer, and slices nodes of the backward pass.
    pub names_optimizer_steps: bool,
    pub names_backward_nodes: bool,
    /// Whether CUDA or HIP graphs are launched.
    pub has_graphs: bool,
    /// Whether it holds call stacks of the program.
    pub has_stacks: bool,
    /// Whether it holds operators of a framework.
    pub has_operators: bool,
    /// Whether it holds calls of the operating system, and the times of threads on a CPU.
    pub has_os_calls: bool,
    pub has_switches: bool,
    /// Whether it holds waits of streams for events.
    pub has_waits: bool,
    /// Whether a `DataLoader` of PyTorch loads in processes of its own.
    pub has_workers: bool,
    /// Whether it runs on a CPU alone: the profiler found no GPU.
    pub is_on_cpu: bool,
}

/// Starts of names of kernels that Inductor generates.
const INDUCTOR_KERNELS: [&str; 5] = ["triton_poi_", "triton_red_", "triton_per_", "triton_tem_", "triton_mm"];
/// Parts of names of what runs code of Inductor.
const INDUCTOR: [&str; 4] = ["CompiledFxGraph", "Torch-Compiled Region", "torchinductor_", "torch/_inductor/runtime"];
/// Share of the kernels that must be compiled code. One function of many says nothing of the rest.
const COMPILED_SHARE: f64 = 0.05;

/// Whether a range or a function is of a `DataLoader` of PyTorch with processes of its own: one without them gets no data
/// from elsewhere.
fn is_of_workers(name: &str) -> bool {
    let is_function = || name.ends_with(": _get_data") || name.ends_with(": _try_get_data");
    name.contains("_MultiProcessingDataLoaderIter") || name.contains("torch/utils/data/dataloader.py") && is_function()
}

/// Parts of names of what runs in training only.
const TRAINING: [&str; 7] =
    ["autograd::engine", "Optimizer.step", "Backward0", "backward", "Backward", "multi_tensor_apply", "optimizer"];

/// Parts of names of what runs in the step of an optimizer.
const OPTIMIZERS: [&str; 5] = ["Optimizer", "optimizer", "multi_tensor_apply", "_foreach_add", "optim/"];

/// Parts of names of operators and kernels of fused optimizers: of PyTorch, and of Apex and `DeepSpeed`.
const FUSED_OPTIMIZERS: [&str; 8] = [
    "_fused_adam",
    "_fused_sgd",
    "_fused_adagrad",
    "FusedAdam",
    "FusedSgd",
    "FusedAdagrad",
    "FusedLAMB",
    "multi_tensor_adam",
];

/// Whether Inductor generated a kernel of this name.
pub fn is_generated(kernel: &str) -> bool {
    INDUCTOR_KERNELS.iter().any(|start| kernel.starts_with(start))
}

/// Whether a kernel is of JAX, or one of XLA's: `fusion_4`, `loop_add_fusion`, `wrapped_slice`.
fn is_xla(kernel: &str) -> bool {
    let stem = kernel.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    kernel.starts_with("jax::") || stem == "fusion" || stem.ends_with("_fusion") || stem.starts_with("wrapped_")
}

/// Slices of the host that run compiled code, themselves or by what is around them. Each name is judged once.
#[derive(Debug)]
pub struct CompiledCode<'a> {
    trace: &'a Trace,
    known: HashMap<StringId, bool>,
}

impl<'a> CompiledCode<'a> {
    pub fn new(trace: &'a Trace) -> Self {
        Self { trace, known: HashMap::new() }
    }

    /// Cost: O(depth).
    pub fn contains(&mut self, slice: SliceId) -> bool {
        let slices = &self.trace.slices;
        let mut around = std::iter::once(slice).chain(slices.ancestors(slice));
        around.any(|slice| {
            let name = slices.name[slice.idx()];
            let judge = || {
                let name = self.trace.strings.get(name);
                // AOTAutograd's function: its code may be Inductor's or not.
                name.contains("CompiledFunction") || INDUCTOR.iter().any(|part| name.contains(part))
            };
            *self.known.entry(name).or_insert_with(judge)
        })
    }

    /// Share of the kernels that are compiled code; 1 without kernels. Cost: O(slices + kernels · depth).
    fn share(&mut self) -> f64 {
        let slices = &self.trace.slices;
        let (mut all, mut compiled) = (0_u64, 0_u64);
        for kernel in (0..slices.len()).filter(|&i| slices.kind[i] == SliceKind::Kernel).map(|i| SliceId(i as u32)) {
            let is_compiled = is_generated(self.trace.slice_name(kernel))
                || self.trace.launch_of(kernel).is_some_and(|call| self.contains(call));
            all += 1;
            compiled += u64::from(is_compiled);
        }
        if all == 0 { 1.0 } else { compiled as f64 / all as f64 }
    }
}

impl RunFacts {
    /// Judges names once each, by the kinds of slices that they name. Cost: O(slices + strings), that of
    /// `Missing::of`, and where code of Inductor runs `CompiledCode::share`.
    pub fn of(trace: &Trace) -> Self {
        let slices = &trace.slices;
        let mut kinds = vec![0_u16; trace.strings.len()];
        for (name, kind) in slices.name.iter().zip(&slices.kind) {
            kinds[name.0 as usize] |= 1 << *kind as u16;
        }
        let has_kind = |kind: SliceKind| kinds.iter().any(|kinds| kinds & 1 << kind as u16 != 0);
        let mut run = Self {
            missing: Missing::of(trace),
            is_nsys: trace.info.format == Format::Nsys,
            is_torch: trace.info.producer.contains("PyTorch"),
            has_graphs: !trace.facts.graph_nodes.is_empty() || has_kind(SliceKind::CudaGraph),
            has_stacks: !trace.samples.is_empty() || has_kind(SliceKind::PythonFunction),
            has_operators: has_kind(SliceKind::Operator),
            has_os_calls: has_kind(SliceKind::Os),
            has_switches: trace.tracks.iter().any(|track| track.name.ends_with(ON_CPU)),
            has_waits: !trace.facts.syncs.is_empty(),
            is_on_cpu: trace.info.found_no_gpu && trace.processes.iter().all(|process| process.device.is_none()),
            ..Self::default()
        };
        let mut is_amd = trace.info.devices.iter().any(|device| device.is_amd());
        let (mut has_inductor, mut capability) = (false, None);
        for (id, name) in trace.strings.iter() {
            if kinds[id.0 as usize] == 0 {
                continue;
            }
            run.is_training |= TRAINING.iter().any(|part| name.contains(part));
            run.has_fused_optimizer |= FUSED_OPTIMIZERS.iter().any(|part| name.contains(part));
            run.has_optimizer |= OPTIMIZERS.iter().any(|part| name.contains(part));
            run.names_optimizer_steps |= name.starts_with(OPTIMIZER_STEP);
            run.names_backward_nodes |= name.starts_with(BACKWARD_NODE);
            run.is_captured |= name.contains("CompiledFunction");
            run.has_workers |= is_of_workers(name);
            let has = |kind: SliceKind| kinds[id.0 as usize] & 1 << kind as u16 != 0;
            if has(SliceKind::Kernel) {
                capability = capability.max(least_capability(name));
                is_amd |= name.starts_with("Cijk_") || name.ends_with(".kd");
                run.is_torch |= name.contains("at::native::");
                has_inductor |= is_generated(name);
                run.is_xla |= is_xla(name);
            } else if has(SliceKind::Runtime) || has(SliceKind::Driver) {
                is_amd |= name.starts_with("hip");
                run.has_graphs |= name.contains("GraphLaunch");
            } else {
                run.is_torch |= has(SliceKind::Operator) && name.starts_with("aten::");
                has_inductor |= INDUCTOR.iter().any(|part| name.contains(part));
            }
        }
        run.is_compiled = has_inductor && CompiledCode::new(trace).share() >= COMPILED_SHARE;
        run.is_captured &= !has_inductor;
        run.is_torch |= has_inductor;
        run.vendor = if is_amd { Vendor::Amd } else { Vendor::Nvidia };
        let used: HashSet<u32> = trace.processes.iter().filter_map(|process| process.device).collect();
        let devices: Vec<_> = used.into_iter().filter(|_| !is_amd).filter_map(|id| trace.device_of_work(id)).collect();
        run.is_geforce = devices.iter().any(|device| device.name.contains("GeForce"));
        // Of compute capability 7.5, the GeForce GTX 16 have none.
        let has_cores = |device: &DeviceInfo| device.compute_major >= Some(7) && !device.name.contains("GTX 16");
        run.has_tensor_cores = devices.iter().any(|device| has_cores(device));
        let mut versions: Vec<u32> = devices.iter().filter_map(|device| device.compute_major).collect();
        if versions.is_empty() {
            // Some recordings describe no device.
            versions.extend(capability);
            run.has_tensor_cores = capability >= Some(7);
        }
        run.is_too_old = versions.iter().any(|&major| major < 7);
        run.has_tf32 = versions.iter().any(|&major| major >= 8);
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    fn facts(slices: &[(&str, SliceKind, &str)]) -> RunFacts {
        let slices: Vec<_> = slices.iter().map(|&(track, kind, name)| (track, kind, name, 0, 10)).collect();
        RunFacts::of(&TraceBuilder::from_slices(&slices).finish())
    }

    #[test]
    fn a_loader_has_processes_where_it_gets_data_from_elsewhere() {
        assert!(is_of_workers("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"));
        assert!(is_of_workers("torch/utils/data/dataloader.py(1293): _get_data"));
        assert!(is_of_workers("/opt/lib/python3.11/site-packages/torch/utils/data/dataloader.py(1132): _try_get_data"));
        assert!(!is_of_workers("torch/utils/data/dataloader.py(630): __next__"));
        assert!(!is_of_workers("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"));
        assert!(!is_of_workers("model.py(12): _get_data"));
    }

    #[test]
    fn a_run_is_known_by_the_names_of_its_work() {
        let nothing = RunFacts::default();
        assert_eq!(facts(&[("main", SliceKind::Runtime, "cudaLaunchKernel")]), nothing);
        assert_eq!(facts(&[("main", SliceKind::Runtime, "cudaGraphLaunch")]), RunFacts { has_graphs: true, ..nothing });
        let amd = RunFacts { vendor: Vendor::Amd, ..nothing };
        assert_eq!(facts(&[("main", SliceKind::Runtime, "hipLaunchKernel")]), amd);
        assert_eq!(facts(&[("stream 0", SliceKind::Kernel, "Cijk_Ailk_Bljk")]), amd);
        let torch = RunFacts { is_torch: true, ..nothing };
        let operators = RunFacts { has_operators: true, ..torch };
        assert_eq!(facts(&[("main", SliceKind::Operator, "aten::mm")]), operators);
        let compiled = RunFacts { is_compiled: true, ..torch };
        assert_eq!(facts(&[("stream 7", SliceKind::Kernel, "triton_poi_fused_add_0")]), compiled);
        assert_eq!(facts(&[("main", SliceKind::Annotation, "Torch-Compiled Region: 0/0")]), compiled);
        let xla = RunFacts { is_xla: true, ..nothing };
        assert_eq!(facts(&[("stream 7", SliceKind::Kernel, "loop_add_fusion_3")]), xla);
        assert_eq!(facts(&[("stream 7", SliceKind::Kernel, "jax::ThreeFry2x32Kernel")]), xla);
        assert_eq!(facts(&[("stream 7", SliceKind::Kernel, "vllm::fusion_kernel")]), nothing);
        // Triton kernels that people write are not compiled by PyTorch.
        assert_eq!(facts(&[("stream 7", SliceKind::Kernel, "_attn_fwd")]), nothing);
        let training = RunFacts { is_training: true, ..nothing };
        assert_eq!(facts(&[("stream 7", SliceKind::Kernel, "layer_norm_backward_kernel")]), training);
        let optimizer = RunFacts { has_optimizer: true, names_optimizer_steps: true, ..training };
        assert_eq!(facts(&[("main", SliceKind::Annotation, "Optimizer.step#SGD.step")]), optimizer);
        let node = [("main", SliceKind::Operator, "autograd::engine::evaluate_function: MmBackward0")];
        assert_eq!(
            facts(&node),
            RunFacts { names_backward_nodes: true, is_torch: false, ..RunFacts { is_training: true, ..operators } }
        );
        let captured = RunFacts { is_captured: true, ..operators };
        let backward = ("main", SliceKind::Operator, "CompiledFunctionBackward");
        let aten = ("main", SliceKind::Operator, "aten::mm");
        assert_eq!(facts(&[backward, aten]), RunFacts { is_training: true, ..captured });
        let by_inductor = facts(&[backward, aten, ("stream 7", SliceKind::Kernel, "triton_poi_fused_add_0")]);
        assert!(!by_inductor.is_captured && by_inductor.is_compiled);
        let stacks = RunFacts { has_stacks: true, ..nothing };
        assert_eq!(facts(&[("main", SliceKind::PythonFunction, "train.py(3): main")]), stacks);
    }
}
