//! Spelling of names and completeness of the recording of one run, chosen by seed.

use super::super::nsys::Schema;
use super::super::rng::Rng;

/// The main thread, which is also the process, and the thread of the backward pass.
pub const MAIN: i64 = super::super::training::PID;
pub const AUTOGRAD: i64 = super::super::training::AUTOGRAD_TID;
/// A thread that pins batches and never launches.
pub const LOADER: i64 = 5301;

/// Who records the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorder {
    Kineto,
    Nsys(Schema),
}

/// Names and what is recorded.
#[derive(Clone, Debug)]
pub struct Style {
    pub recorder: Recorder,
    /// HIP instead of CUDA.
    pub is_hip: bool,
    /// Kernels are launched by the driver API.
    pub is_driver: bool,
    /// Python calls are recorded.
    pub has_stack: bool,
    /// Steps are recorded, as `ProfilerStep#` or as an NVTX range.
    pub has_steps: bool,
    /// Operators are recorded: always by Kineto, by nsys with `emit_nvtx`.
    pub has_operators: bool,
    /// Calls of the operating system are recorded.
    pub has_os: bool,
    pub n_devices: usize,
    /// The second half of each step runs on a thread of its own.
    pub has_autograd: bool,
    pub has_loader_thread: bool,
    /// Where PyTorch is installed, as its frames show it.
    pub torch: &'static str,
    /// File of the user's program and its function of one step.
    pub file: &'static str,
    pub step_function: &'static str,
    /// What it calls when it looks at a loss.
    pub log_function: &'static str,
    /// What the names of steps begin with.
    pub step: &'static str,
    pub kernels: &'static [&'static str],
    pub operators: &'static [&'static str],
}

const CUDA_KERNELS: &[&str] = &[
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_tn",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, std::array<char*, 3ul> >(int, \
     at::native::AddFunctor<float>, std::array<char*, 3ul>)",
    "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x64x32",
    "triton_red_fused__to_copy_mean_pow_3",
];
const OTHER_CUDA_KERNELS: &[&str] = &[
    "void \
     cutlass::Kernel2<cutlass_80_wmma_tensorop_f16_s161616gemm_f16_32x32_64x2_tn_align8>(cutlass_80_wmma_tensorop_f16_s161616gemm_f16_32x32_64x2_tn_align8::Params)",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t> \
     >(flash::Flash_fwd_params)",
    "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT",
    "fused_rope_kernel",
    "_layer_norm_fwd_1pass_kernel",
];
const HIP_KERNELS: &[&str] = &[
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI32x32x8x1_SN_1LDSB0",
    "void at::native::elementwise_kernel<512, 1, at::native::gpu_kernel_impl<at::native::AddFunctor<float> > >(int)",
    "_ZN2ck16kernel_gemm_xdl_cshuffle_v1",
];

impl Style {
    pub fn of(seed: u64, recorder: Recorder) -> Self {
        let mut rng = Rng::new(seed ^ 0x5717_1e5e);
        let mut one_in = |n: i64| rng.between(0, n) == 0;
        let is_kineto = recorder == Recorder::Kineto;
        let is_hip = is_kineto && one_in(3);
        Self {
            recorder,
            is_hip,
            is_driver: one_in(4),
            has_stack: is_kineto && !one_in(3),
            has_steps: !one_in(4),
            has_operators: is_kineto || one_in(2),
            has_os: !is_kineto && !one_in(3),
            n_devices: match (one_in(3), one_in(3)) {
                (true, true) => 3,
                (true, false) => 2,
                _ => 1,
            },
            has_autograd: !one_in(3),
            has_loader_thread: one_in(2),
            torch: if one_in(2) { "torch/" } else { "/opt/conda/lib/python3.11/site-packages/torch/" },
            file: ["train.py", "/workspace/llm/src/engine/loop.py", "/home/ada/runs/fit.py"]
                [usize::from(one_in(2)) + usize::from(one_in(2))],
            step_function: if one_in(2) { "train_step" } else { "_inner_loop" },
            log_function: ["log_loss", "on_train_batch_end", "_update_meters"]
                [usize::from(one_in(2)) + usize::from(one_in(2))],
            step: match is_kineto {
                true => "ProfilerStep#",
                false => ["step ", "train_iter_"][usize::from(one_in(2))],
            },
            kernels: match (is_hip, one_in(2)) {
                (true, _) => HIP_KERNELS,
                (false, true) => OTHER_CUDA_KERNELS,
                (false, false) => CUDA_KERNELS,
            },
            operators: match one_in(2) {
                true => &["aten::linear", "aten::_flash_attention_forward", "my_ops::fused_rope", "aten::silu"],
                false => &["aten::addmm", "aten::layer_norm", "aten::gelu", "aten::convolution"],
            },
        }
    }

    pub fn is_kineto(&self) -> bool {
        self.recorder == Recorder::Kineto
    }

    /// The CUDA name of a call of the runtime or driver as this run spells it.
    pub fn call(&self, cuda: &str) -> String {
        if !self.is_hip {
            return cuda.to_owned();
        }
        match cuda {
            "cudaLaunchKernel" if self.is_driver => "hipExtModuleLaunchKernel".to_owned(),
            "cudaLaunchKernel" => "hipLaunchKernel".to_owned(),

            "cuModuleLoadData" | "cuLibraryLoadData" => "hipModuleLoadData".to_owned(),
            "cuModuleLoadDataEx" => "hipModuleLoadDataEx".to_owned(),
            _ => cuda.replacen("cuda", "hip", 1).replacen("cuCtx", "hipCtx", 1),
        }
    }

    /// The Python frame of PyTorch's function at `place`, such as `autograd/__init__.py(266): backward`.
    pub fn torch_frame(&self, place: &str) -> String {
        format!("{}{place}", self.torch)
    }

    /// The Python frame of the user's function.
    pub fn user_frame(&self, line: u32, function: &str) -> String {
        format!("{}({line}): {function}", self.file)
    }

    /// The id of a device's stream; work of a device runs on one.
    pub fn stream(&self, device: usize) -> i64 {
        let first = if self.is_hip { 0 } else { 7 };
        first + 6 * device as i64
    }
}
