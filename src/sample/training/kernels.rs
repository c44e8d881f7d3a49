//! Kernels of the trained network: names as in CUPTI, and durations.

use super::gpu::Kernel;

/// Operators of a backward step with the kernel that each launches.
pub type Work = &'static [(&'static str, &'static Kernel)];

const fn kernel(
    name: &'static str,
    low: i64,
    high: i64,
    (grid, block): (u32, u32),
    registers: u32,
    shared: u32,
) -> Kernel {
    Kernel { name, low, high, grid, block, registers, shared }
}

pub static GEMM: Kernel = kernel(
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    58_000,
    96_000,
    (256, 384),
    168,
    231_424,
);
pub static GEMM_NN: Kernel = kernel(
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    61_000,
    104_000,
    (256, 384),
    168,
    231_424,
);
pub static GEMM_NT: Kernel = kernel(
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    63_000,
    99_000,
    (256, 384),
    168,
    231_424,
);
pub static NORM: Kernel = kernel(
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, \
     c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
    9_000,
    14_000,
    (4096, 128),
    40,
    24,
);
pub static NORM_BACKWARD: Kernel = kernel(
    "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel<c10::BFloat16, float>(c10::BFloat16 const*, \
     c10::BFloat16 const*, float const*, float const*, c10::BFloat16 const*, c10::BFloat16*, int)",
    15_000,
    22_000,
    (4096, 128),
    56,
    48,
);
pub static FLASH: Kernel = kernel(
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>, false, \
     true>(Flash_fwd_params)",
    71_000,
    99_000,
    (512, 128),
    255,
    49_152,
);
pub static FLASH_BACKWARD: Kernel = kernel(
    "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, 4, false, false, \
     cutlass::bfloat16_t>, false, true>(Flash_bwd_params)",
    160_000,
    230_000,
    (512, 256),
    255,
    147_456,
);
pub static GELU: Kernel = kernel(
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, \
     at::native::GeluType)::{lambda()#2}, at::detail::Array<char*, 2> >(int, \
     at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}, \
     at::detail::Array<char*, 2>)",
    12_000,
    19_000,
    (16_384, 128),
    32,
    0,
);
pub static GELU_BACKWARD: Kernel = kernel(
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, \
     at::native::GeluType)::{lambda()#2}, at::detail::Array<char*, 3> >(int, \
     at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}, \
     at::detail::Array<char*, 3>)",
    17_000,
    26_000,
    (16_384, 128),
    32,
    0,
);
pub static ADD: Kernel = kernel(
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, \
     at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, at::detail::Array<char*, 3>)",
    8_000,
    12_000,
    (8192, 128),
    24,
    0,
);
pub static LOSS: Kernel = kernel(
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, float, \
     at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>(float*, c10::BFloat16 const*, int)",
    30_000,
    44_000,
    (4096, 1024),
    32,
    4096,
);
pub static LOSS_BACKWARD: Kernel = kernel(
    "void at::native::(anonymous namespace)::cunn_SoftMaxBackward<8, float, float, c10::BFloat16, \
     at::native::(anonymous namespace)::LogSoftMaxBackwardEpilogue>(c10::BFloat16*, float const*, float const*, long)",
    33_000,
    47_000,
    (4096, 1024),
    32,
    4096,
);
pub static ADAM: Kernel = kernel(
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous \
     namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, \
     4, (at::native::(anonymous namespace)::ADAM_MODE)1, false>>(at::native::(anonymous \
     namespace)::FusedOptimizerTensorListMetadata<4>)",
    90_000,
    140_000,
    (320, 512),
    64,
    0,
);
pub static ALL_REDUCE: Kernel = kernel(
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
    310_000,
    520_000,
    (24, 544),
    96,
    92_456,
);

pub static LINEAR_WORK: [(&str, &Kernel); 2] = [("aten::mm", &GEMM_NN), ("aten::mm", &GEMM_NT)];
pub static NORM_WORK: [(&str, &Kernel); 1] = [("aten::native_layer_norm_backward", &NORM_BACKWARD)];
pub static FLASH_WORK: [(&str, &Kernel); 1] = [("aten::_flash_attention_backward", &FLASH_BACKWARD)];
pub static GELU_WORK: [(&str, &Kernel); 1] = [("aten::gelu_backward", &GELU_BACKWARD)];
pub static LOSS_WORK: [(&str, &Kernel); 1] = [("aten::_log_softmax_backward_data", &LOSS_BACKWARD)];
