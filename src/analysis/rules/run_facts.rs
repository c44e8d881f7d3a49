//! What a recording shows of the program and its machine, so that advice fits.

use crate::model::{Format, SliceKind, Trace};

/// The maker of the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vendor {
    #[default]
    Nvidia,
    Amd,
}

/// Facts about the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunFacts {
    pub vendor: Vendor,
    /// Whether Nsight Systems recorded it.
    pub is_nsys: bool,
    /// Whether operators or kernels of PyTorch run.
    pub is_torch: bool,
    /// Whether code of torch.compile runs: kernels that Inductor generated, or its calls.
    pub is_compiled: bool,
    /// Whether it trains: there is a backward pass or an optimizer.
    pub is_training: bool,
    /// Whether CUDA or HIP graphs are launched.
    pub has_graphs: bool,
    /// Whether it holds call stacks of the program.
    pub has_stacks: bool,
}

/// Starts of names of kernels that Inductor generates.
const INDUCTOR_KERNELS: [&str; 5] = ["triton_poi_", "triton_red_", "triton_per_", "triton_tem_", "triton_mm"];
/// Parts of names of what runs compiled code.
const COMPILED: [&str; 5] =
    ["CompiledFxGraph", "Torch-Compiled Region", "CompiledFunction", "torchinductor_", "torch/_inductor/runtime"];

/// Parts of names of what runs in training only.
const TRAINING: [&str; 7] =
    ["autograd::engine", "Optimizer.step", "Backward0", "backward", "Backward", "multi_tensor_apply", "optimizer"];

impl RunFacts {
    /// Judges names once each, by the kinds of slices that they name. Cost: O(slices + strings).
    pub fn of(trace: &Trace) -> Self {
        let slices = &trace.slices;
        let mut kinds = vec![0_u16; trace.strings.len()];
        for (name, kind) in slices.name.iter().zip(&slices.kind) {
            kinds[name.0 as usize] |= 1 << *kind as u16;
        }
        let is_python = |kinds: u16| kinds & 1 << SliceKind::PythonFunction as u16 != 0;
        let mut run = Self {
            is_nsys: trace.info.format == Format::Nsys,
            is_torch: trace.info.producer.contains("PyTorch"),
            has_graphs: !trace.facts.graph_nodes.is_empty() || slices.kind.contains(&SliceKind::CudaGraph),
            has_stacks: !trace.samples.is_empty() || kinds.iter().any(|&kinds| is_python(kinds)),
            ..Self::default()
        };
        let mut is_amd = trace.info.devices.iter().any(|device| device.is_amd());
        for (id, name) in trace.strings.iter() {
            run.is_training |= kinds[id.0 as usize] != 0 && TRAINING.iter().any(|part| name.contains(part));
            let has = |kind: SliceKind| kinds[id.0 as usize] & 1 << kind as u16 != 0;
            if has(SliceKind::Kernel) {
                is_amd |= name.starts_with("Cijk_") || name.ends_with(".kd");
                run.is_torch |= name.contains("at::native::");
                run.is_compiled |= INDUCTOR_KERNELS.iter().any(|start| name.starts_with(start));
            } else if has(SliceKind::Runtime) || has(SliceKind::Driver) {
                is_amd |= name.starts_with("hip");
                run.has_graphs |= name.contains("GraphLaunch");
            } else if kinds[id.0 as usize] != 0 {
                run.is_torch |= has(SliceKind::Operator) && name.starts_with("aten::");
                run.is_compiled |= COMPILED.iter().any(|part| name.contains(part));
            }
        }
        run.is_torch |= run.is_compiled;
        run.vendor = if is_amd { Vendor::Amd } else { Vendor::Nvidia };
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
    fn a_run_is_known_by_the_names_of_its_work() {
        let nothing = RunFacts::default();
        assert_eq!(facts(&[("main", SliceKind::Runtime, "cudaLaunchKernel")]), nothing);
        assert_eq!(facts(&[("main", SliceKind::Runtime, "cudaGraphLaunch")]), RunFacts { has_graphs: true, ..nothing });
        let amd = RunFacts { vendor: Vendor::Amd, ..nothing };
        assert_eq!(facts(&[("main", SliceKind::Runtime, "hipLaunchKernel")]), amd);
        assert_eq!(facts(&[("stream 0", SliceKind::Kernel, "Cijk_Ailk_Bljk")]), amd);
        let torch = RunFacts { is_torch: true, ..nothing };
        assert_eq!(facts(&[("main", SliceKind::Operator, "aten::mm")]), torch);
        let compiled = RunFacts { is_compiled: true, ..torch };
        assert_eq!(facts(&[("stream 7", SliceKind::Kernel, "triton_poi_fused_add_0")]), compiled);
        assert_eq!(facts(&[("main", SliceKind::Annotation, "Torch-Compiled Region: 0/0")]), compiled);
        // Triton kernels that people write are not compiled by PyTorch.
        assert_eq!(facts(&[("stream 7", SliceKind::Kernel, "_attn_fwd")]), nothing);
        let training = RunFacts { is_training: true, ..nothing };
        assert_eq!(facts(&[("stream 7", SliceKind::Kernel, "layer_norm_backward_kernel")]), training);
        assert_eq!(facts(&[("main", SliceKind::Annotation, "Optimizer.step#SGD.step")]), training);
        let stacks = RunFacts { has_stacks: true, ..nothing };
        assert_eq!(facts(&[("main", SliceKind::PythonFunction, "train.py(3): main")]), stacks);
    }
}
