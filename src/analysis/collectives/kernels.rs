//! Recognition of communication kernels.

use crate::analysis::short_name::short_name;
use crate::model::{SliceId, SliceKind, Trace};

/// Parts of the names of kernels that communicate, in lower case and without underscores.
///
/// NCCL and RCCL (`ncclDevKernel_AllReduce_...`, `mscclKernel_...`), HCCL (`hcom_allReduce_...`), NVSHMEM and the
/// libraries on it (`deep_ep`), and kernels over peer memory: PyTorch's symmetric memory
/// (`multimem_all_reduce_kernel`), the custom all-reduce of vLLM and AITER (`cross_device_reduce_2stage`),
/// Transformer Engine's userbuffers. Broadcasts and reductions without another of these words also occur within
/// one device.
const PARTS: [&str; 14] = [
    "nccl",
    "rccl",
    "msccl",
    "hccl",
    "hcom",
    "oneccl",
    "nvshmem",
    "deepep",
    "userbuffers",
    "allreduce",
    "allgather",
    "reducescatter",
    "alltoall",
    "crossdevicereduce",
];

/// Whether a kernel of this name communicates with other devices.
///
/// Only the name of the function counts: its template arguments may name functors of other kernels. Inductor names
/// a fused kernel (`triton_poi_fused_all_gather_into_tensor_0`) after operators that run beside it.
pub fn is_collective_name(kernel: &str) -> bool {
    if kernel.starts_with("triton_") {
        return false;
    }
    let mut name = short_name(kernel).replace('_', "");
    name.make_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
}

/// The kernels of a trace that communicate: those with a recorded collective or by name. Each name is judged once.
#[derive(Debug)]
pub struct CollectiveKernels<'a> {
    trace: &'a Trace,
    /// By name.
    known: Vec<Option<bool>>,
}

impl<'a> CollectiveKernels<'a> {
    pub fn new(trace: &'a Trace) -> Self {
        Self { trace, known: Vec::new() }
    }

    /// Whether this slice is such a kernel. A copy from device to device is none.
    pub fn contains(&mut self, slice: SliceId) -> bool {
        let trace = self.trace;
        if trace.slices.kind[slice.idx()] != SliceKind::Kernel {
            return false;
        }
        if trace.facts.collectives.id(slice) != 0 {
            return true;
        }
        let name = trace.slices.name[slice.idx()];
        if self.known.is_empty() {
            self.known = vec![None; trace.strings.len()];
        }
        match self.known.get_mut(name.0 as usize) {
            Some(known) => *known.get_or_insert_with(|| is_collective_name(trace.strings.get(name))),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Collective, SliceFacts, TraceBuilder};

    #[test]
    fn kernels_that_communicate_have_names_of_their_libraries() {
        for name in [
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
            "ncclSymkDevKernel_AllGather_LL",
            "void rccl_main_kernel<1>()",
            "mscclKernel_Sum_half_LL",
            "hcom_allReduce__123_0",
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)",
            "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
            "void deep_ep::intranode::dispatch<8, 768>(int4*)",
        ] {
            assert!(is_collective_name(name), "{name}");
        }
        for name in [
            "void at::native::vectorized_elementwise_kernel<4, all_reduce_functor>(int)",
            "triton_poi_fused_all_gather_into_tensor_wait_tensor_0",
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(int)",
            "hip_fill_kernel",
            "broadcast_kernel",
            "void cutlass::gemm::collective::CollectiveMma<1>()",
        ] {
            assert!(!is_collective_name(name), "{name}");
        }
    }

    #[test]
    fn a_recorded_collective_needs_no_name_and_a_copy_is_none() {
        let mut builder = TraceBuilder::from_slices(&[
            ("stream 7", SliceKind::Kernel, "Generic", 0, 10),
            ("stream 7", SliceKind::Kernel, "gemm", 10, 20),
            ("stream 7", SliceKind::Memcpy, "ncclMemcpy PtoP", 20, 30),
            ("stream 7", SliceKind::Kernel, "ncclKernel_AllReduce", 30, 40),
        ]);
        builder.set_facts(0, SliceFacts { collective: Some(Collective::default()), ..Default::default() });
        let trace = builder.finish();
        let mut kernels = CollectiveKernels::new(&trace);
        let found: Vec<bool> = (0..4).map(|i| kernels.contains(SliceId(i))).collect();
        assert_eq!(found, [true, false, false, true]);
    }
}
