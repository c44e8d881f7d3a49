//! Operations of collectives: their names, the bytes that count, and the factor of the bus bandwidth.

use crate::model::Collective;

/// What a collective does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CollectiveOp {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    Send,
    Recv,
    /// Point-to-point kernels of NCCL, which also run all-to-all, gather and scatter.
    SendRecv,
    Barrier,
    #[default]
    Unknown,
}

impl CollectiveOp {
    /// The operation that a name of a recorded collective, a range or a kernel contains: `_allgather_base`,
    /// `nccl:all_gather`, `ncclAllGather`, `ncclDevKernel_AllGather_RING_LL`.
    pub fn of(name: &str) -> Self {
        // Parts of names in lower case without underscores, those first that contain others.
        const PARTS: [(&str, CollectiveOp); 14] = [
            ("allreduce", CollectiveOp::AllReduce),
            ("allgather", CollectiveOp::AllGather),
            ("reducescatter", CollectiveOp::ReduceScatter),
            ("alltoall", CollectiveOp::AllToAll),
            ("deepep", CollectiveOp::AllToAll),
            ("crossdevicereduce", CollectiveOp::AllReduce),
            ("broadcast", CollectiveOp::Broadcast),
            ("sendrecv", CollectiveOp::SendRecv),
            ("barrier", CollectiveOp::Barrier),
            ("gather", CollectiveOp::Gather),
            ("scatter", CollectiveOp::Scatter),
            ("reduce", CollectiveOp::Reduce),
            ("send", CollectiveOp::Send),
            ("recv", CollectiveOp::Recv),
        ];
        let mut name = name.replace('_', "");
        name.make_ascii_lowercase();
        PARTS.iter().find(|(part, _)| name.contains(part)).map_or(Self::Unknown, |known| known.1)
    }

    /// Whether the call on one rank has another name, or another partner, than that on the next.
    pub(super) fn is_point_to_point(self) -> bool {
        matches!(self, Self::Send | Self::Recv)
    }

    /// Its name, after PyTorch's names of collectives.
    pub fn label(self) -> &'static str {
        match self {
            Self::AllReduce => "allreduce",
            Self::AllGather => "allgather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Send => "send",
            Self::Recv => "recv",
            Self::SendRecv => "send_recv",
            Self::Barrier => "barrier",
            Self::Unknown => "unknown",
        }
    }

    /// The bytes of a call by the convention of nccl-tests: the larger of the two sides of a rank.
    ///
    /// * All-gather and gather: the output, of all ranks together.
    /// * Reduce-scatter, scatter, all-to-all and send: the input.
    /// * Receive: the output. All others have an input as large as the output.
    pub fn bytes(self, call: &Collective) -> Option<u64> {
        let (input, output) = (call.in_bytes(), call.out_bytes());
        match self {
            Self::Barrier | Self::Unknown => None,
            Self::AllGather | Self::Gather => output.or_else(|| input?.checked_mul(u64::from(call.n_ranks?))),
            Self::ReduceScatter | Self::Scatter | Self::AllToAll | Self::Send => input,
            Self::Recv => output,
            _ => input.max(output),
        }
    }

    /// Bus bandwidth over algorithm bandwidth in a group of this many ranks, by nccl-tests; `None` if it takes the
    /// number of ranks and that is unknown.
    pub fn bus_factor(self, n_ranks: Option<u32>) -> Option<f64> {
        let others = |n: u32| f64::from(n.saturating_sub(1)) / f64::from(n.max(1));
        match self {
            Self::AllReduce => n_ranks.map(|n| 2.0 * others(n)),
            Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::Gather | Self::Scatter => {
                n_ranks.map(others)
            }
            Self::Broadcast | Self::Reduce | Self::Send | Self::Recv | Self::SendRecv => Some(1.0),
            Self::Barrier | Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_found_in_names_of_every_source() {
        for (name, op) in [
            ("allreduce", CollectiveOp::AllReduce),
            ("_allgather_base", CollectiveOp::AllGather),
            ("reduce_scatter_tensor_coalesced", CollectiveOp::ReduceScatter),
            ("all_to_allv", CollectiveOp::AllToAll),
            ("_broadcast_oop", CollectiveOp::Broadcast),
            ("nccl:reduce", CollectiveOp::Reduce),
            (
                "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                CollectiveOp::ReduceScatter,
            ),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", CollectiveOp::SendRecv),
            ("void vllm::cross_device_reduce_2stage<float, 4>()", CollectiveOp::AllReduce),
            ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", CollectiveOp::Unknown),
            ("nccl:send 0->1", CollectiveOp::Send),
        ] {
            assert_eq!(CollectiveOp::of(name), op, "{name}");
        }
    }

    #[test]
    fn sizes_and_factors_follow_nccl_tests() {
        let call = |n_ranks, input, output| Collective {
            n_ranks,
            element_bytes: Some(4),
            in_elements: input,
            out_elements: output,
            ..Default::default()
        };
        let of = |op: CollectiveOp, n, input, output| (op.bytes(&call(n, input, output)), op.bus_factor(n));
        assert_eq!(of(CollectiveOp::AllReduce, Some(8), Some(10), Some(10)), (Some(40), Some(1.75)));
        assert_eq!(of(CollectiveOp::AllGather, Some(8), Some(10), Some(80)), (Some(320), Some(0.875)));
        assert_eq!(of(CollectiveOp::ReduceScatter, Some(4), Some(80), Some(20)), (Some(320), Some(0.75)));
        assert_eq!(of(CollectiveOp::AllToAll, Some(2), Some(80), Some(60)), (Some(320), Some(0.5)));
        assert_eq!(of(CollectiveOp::Broadcast, None, Some(10), Some(10)), (Some(40), Some(1.0)));
        assert_eq!(of(CollectiveOp::AllReduce, None, Some(10), None), (Some(40), None));
        assert_eq!(of(CollectiveOp::AllReduce, Some(2), None, None), (None, Some(1.0)));
        assert_eq!(of(CollectiveOp::Barrier, Some(2), Some(1), Some(1)), (None, None));
    }
}
