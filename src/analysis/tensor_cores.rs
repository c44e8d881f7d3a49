//! Recognition by name of kernels that use tensor cores (matrix cores on AMD).

/// What the rules are, in words; for help texts.
pub const RULES: &str = "By name. Used: matrix instructions (h884, s1688, 16816, hmma, imma, wgmma, mfma …), \
    tensorop, xmma, nvjet, flash attention, xdl, Tensile's MI16x16. Not used: simt, ffma, sgemm, gemv, \
    elementwise and reduction kernels, collectives, Triton's pointwise and reduction kernels. \
    Empty where the name does not say";

/// Names of scalar arithmetic, which decide first: `xmma` kernels exist with either, and `MIOpen`'s
/// `SubTensorOpWithScalar` is elementwise.
const SCALAR: &[&str] = &["simt", "_ffma", "sgemm", "scudnn", "subtensorop"];

/// The first lines are instruction shapes and cuDNN's kernels as the TensorBoard plugin of the PyTorch profiler
/// lists them, then what cuBLAS and attention kernels on Hopper and Blackwell are called, then AMD's: composable
/// kernels (`xdl`), `MIOpen`'s implicit GEMM (`gtcx`), last products of microscaled formats, which nothing else
/// computes.
const USED: &[&str] = &[
    "884gemm",
    "h884",
    "s884",
    "h1688",
    "s1688",
    "c1688",
    "i8816",
    "16816",
    "161616",
    "hmma",
    "imma",
    "dmma",
    "xmma_",
    "dgrad_1x1_stride_2x2",
    "first_layer_wgrad_kernel",
    "conv1x1",
    "conv2d_c1_k1",
    "direct_group",
    "tensorop",
    "wgmma",
    "tcgen05",
    "utcmma",
    "nvjet",
    "flash_fwd",
    "flash_bwd",
    "fmha",
    "mfma",
    "_xdl",
    "xdlops",
    "igemm_fwd_gtcx",
    "igemm_bwd_gtcx",
    "igemm_wrw_gtcx",
    "mxe4m3",
    "mxe2m1",
    "matmul_ogs",
];

const NOT_USED: &[&str] = &[
    "nccl",
    "rccl",
    "gemv",
    "at::native::",
    "elementwise",
    "triton_poi_",
    "triton_red_",
    "triton_per_",
    "cub::",
    "softmax",
    "layer_norm",
    "layernorm",
    "rms_norm",
    "rmsnorm",
    "reduce",
    "im2col",
    "wgrad_alg0_engine",
    "dgrad_engine",
    "multi_tensor_apply",
    "embedding",
    "memset",
    "memcpy",
    "dgemm",
    "bn_fw_",
    "bn_bw_",
    "transpose",
    "nchwtonhwc",
    "nhwctonchw",
    "cudnn::ops::",
    "winograd_nonfused",
    "permute",
    "quantize",
    "spin_kernel",
];

/// Whether a kernel of this name uses tensor cores; `None` if the name does not tell.
///
/// * Source: the lists of names of the TensorBoard plugin and of `TraceLens`, extended by names in recordings of
///   Hopper, Blackwell and CDNA devices. Generic names such as `cutlass::device_kernel` and Triton's own matrix
///   products tell nothing.
/// * Cost: O(length), once a name.
pub fn uses_tensor_cores(name: &str) -> Option<bool> {
    let lower = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(SCALAR) {
        Some(false)
    } else if has(USED) || is_matrix_tile(&lower) {
        Some(true)
    } else if has(NOT_USED) {
        Some(false)
    } else {
        None
    }
}

/// What NVIDIA's libraries call the architecture that a kernel is built for, and its compute capability.
const ARCHITECTURES: &[(&str, u32)] = &[
    ("volta_", 7),
    ("turing_", 7),
    ("ampere_", 8),
    ("sm80_", 8),
    ("sm86_", 8),
    ("cutlass_80_", 8),
    ("hopper_", 9),
    ("sm90_", 9),
    ("cutlass3x_sm90_", 9),
    ("sm100_", 10),
    ("cutlass3x_sm100_", 10),
];

/// The least compute capability of a device that runs a kernel of this name, without its digits after the point; `None`
/// if the name does not tell. Code for one architecture runs on no older one.
pub fn least_capability(name: &str) -> Option<u32> {
    let of = |word: &str| ARCHITECTURES.iter().find(|(start, _)| word.starts_with(start)).map(|of| of.1);
    name.split([' ', ':', '<']).filter_map(of).max()
}

/// Parts of names of products whose inputs have at most 16 bits. `884` is Volta's only instruction.
const NARROW: &[&str] = &[
    "bf16", "fp16", "f16f16", "bfloat16", "float16", "half", "e4m3", "e5m2", "e2m1", "fp8", "hgemm", "h1688", "s884",
    "h884", "imma", "i8816", "_bbs_", "_hhs_", "_hss_", "_bss_", "_hbh_",
];

/// Whether a kernel that uses tensor cores multiplies inputs of at most 16 bits, by its name: `s16816gemm_bf16`,
/// Tensile's types (`_BBS_`), and the first letter of the types of `nvjet`, which is `s` for TF32.
pub fn is_narrow(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    if let Some((_, rest)) = lower.split_once("nvjet_") {
        let types = rest.split('_').find(|word| !word.starts_with("sm"));
        return types.is_some_and(|types| !types.starts_with('s'));
    }
    NARROW.iter().any(|word| lower.contains(word))
}

/// Whether it is one of Tensile's kernels with a matrix instruction: `Cijk_…_MT128x64x32_MI16x16x1_…`.
fn is_matrix_tile(lower: &str) -> bool {
    let mut instructions = lower.split("_mi").skip(1);
    lower.starts_with("cijk_") && instructions.any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_name_the_architecture() {
        let names = [
            ("volta_sgemm_128x64_nt", Some(7)),
            ("void cutlass::Kernel<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(T1::Params)", Some(8)),
            ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n", Some(9)),
            ("void implicit_convolve_sgemm<float, float, 128, 6, 7>(int)", None),
            ("maxwell_sgemm_128x64_tn", None),
        ];
        for (name, capability) in names {
            assert_eq!(least_capability(name), capability, "{name}");
        }
    }

    #[test]
    fn the_width_of_inputs_is_in_names() {
        for name in [
            "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTT",
            "nvjet_hsh_192x8_64x8_4x1_v_bz_TNT",
            "ampere_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x96x128_MI16x16x1_SN_LDSB1_AFC1",
        ] {
            assert!(is_narrow(name), "{name}");
        }
        for name in [
            "nvjet_sm90_sss_128x64_64x4_1x2_h_bz_NTT",
            "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_execute_kernel_cublas",
            "cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4",
        ] {
            assert!(!is_narrow(name), "{name}");
        }
    }

    #[test]
    fn names_of_real_kernels() {
        let used = [
            "ampere_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
            "turing_h1688gemm_128x128_ldg8_nn",
            "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
            "void cutlass::Kernel2<cutlass_75_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_nn_align1>(P)",
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_kernel__5x_cublas",
            "nvjet_tst_192x8_64x8_4x1_v_bz_TNT",
            "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128>>(P)",
            "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x96x128_MI16x16x1_SN_LDSB1_AFC1",
            "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1",
            "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b",
            "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3I",
        ];
        let not_used = [
            "SubTensorOpWithCastTensor1d",
            "volta_sgemm_128x64_nn",
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(P)",
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_ffma_aligna4_alignc4_kernel",
            "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>(long)",
            "triton_poi_fused_addmm_gelu_view_15",
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "void cudnn::cnn::wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int)",
            "batched_transpose_32x32_half",
            "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(P)",
        ];
        let unknown =
            ["void cutlass::device_kernel<X>(X::Params)", "attn_fwd", "triton_mm", "my_kernel", "Cijk_SB_MT8"];
        for (names, expected) in [(&used[..], Some(true)), (&not_used, Some(false)), (&unknown, None)] {
            for name in names {
                assert_eq!(uses_tensor_cores(name), expected, "{name}");
            }
        }
    }
}
