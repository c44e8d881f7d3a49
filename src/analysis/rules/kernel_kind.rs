//! Kinds of kernels, as far as advice about their duration differs.

/// Kinds of kernels, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum KernelKind {
    Attention,
    /// Sorting, scanning, indexed access.
    Access,
    /// One operator of PyTorch on each element. Kernels that a compiler fused have other names.
    Elementwise,
    /// Matrix products and convolutions.
    Matmul,
    Other,
}

/// Parts of names in lower case, those first that decide.
const NAMES: [(KernelKind, &[&str]); 4] = [
    (KernelKind::Attention, &["attn", "attention", "flash", "fmha"]),
    (KernelKind::Access, &["sort", "scan", "scatter", "gather", "index", "unique", "topk", "embedding", "cumsum"]),
    (KernelKind::Elementwise, &["elementwise_kernel"]),
    (
        KernelKind::Matmul,
        &[
            "gemm", "cijk_", "nvjet", "conv", "wgrad", "dgrad", "xmma", "matmul", "scudnn", "winograd", "_mm_",
            "cutlass",
        ],
    ),
];

impl KernelKind {
    /// Number of kinds.
    pub const N: usize = 5;
    pub const ALL: [Self; Self::N] = [Self::Attention, Self::Access, Self::Elementwise, Self::Matmul, Self::Other];

    pub fn of(kernel: &str) -> Self {
        let lower = kernel.to_ascii_lowercase();
        let is_it = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
        NAMES.iter().find(|(_, parts)| is_it(parts)).map_or(Self::Other, |known| known.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_name() {
        let known = [
            ("attn_fwd", KernelKind::Attention),
            ("flash_fwd_splitkv_kernel", KernelKind::Attention),
            ("pytorch_flash::flash_bwd_dq_dk_dv_loop", KernelKind::Attention),
            ("ampere_sgemm_128x64_tn", KernelKind::Matmul),
            ("Cijk_Ailk_Bljk_BBS_BH_MT256x192x64", KernelKind::Matmul),
            ("volta_scudnn_128x64_relu_interior_nn_v1", KernelKind::Matmul),
            ("at::native::indexing_backward_kernel", KernelKind::Access),
            ("cub::DeviceRadixSortOnesweepKernel", KernelKind::Access),
            ("at::native::index_elementwise_kernel", KernelKind::Access),
            ("at::native::vectorized_elementwise_kernel", KernelKind::Elementwise),
            ("at::native::elementwise_kernel", KernelKind::Elementwise),
            ("triton_poi_fused_add_0", KernelKind::Other),
            ("jacobi_kernel", KernelKind::Other),
        ];
        for (name, kind) in known {
            assert_eq!(KernelKind::of(name), kind, "{name}");
        }
    }
}
