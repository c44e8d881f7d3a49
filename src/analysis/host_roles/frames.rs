//! Roles of Python functions.

use super::Role;
use crate::analysis::frame::Frame;
use crate::analysis::words;

/// The role of a Python function, as Kineto names it.
pub fn of_python(name: &str) -> Role {
    if let Some(builtin) = name.strip_prefix("<built-in ") {
        return of_builtin(builtin);
    }
    let frame = Frame::of_python_function(name);
    let Frame { function, file, .. } = frame;
    let is_in = |parts: &[&str]| parts.iter().any(|part| file.contains(part));
    match function {
        _ if frame.loads_data() => Role::DataLoading,
        "synchronize" if is_in(&["torch/cuda/"]) => Role::Sync,
        _ if function.contains("run_backward") => Role::PythonWait,
        "backward" | "grad" if is_in(&["torch/autograd/", "torch/_tensor.py"]) => Role::PythonWait,
        "wait" | "get" | "join" | "_wait_for_tstate_lock" | "result"
            if is_in(&["threading.py", "queue.py", "concurrent/futures/", "multiprocessing/"]) =>
        {
            Role::QueueWait
        }
        _ if is_in(&["torch/distributed/", "deepspeed/comm/", "horovod/"]) && is_collective_function(function) => {
            Role::Collective
        }
        _ if is_in(&["torch/profiler/profiler.py"]) => Role::Profiler,
        _ if compiles(function, file) => Role::ModuleLoad,
        // PyTorch records collections as a function: `Python GC`.
        _ if file.is_empty() && words::is_garbage_collection(&words::words(function)) => Role::Gc,
        _ => Role::Python,
    }
}

/// Whether a function of `torch.distributed`, or a library like it, is a collective or waits for one.
fn is_collective_function(function: &str) -> bool {
    const NAMES: [&str; 11] = [
        "wait",
        "wait_tensor",
        "barrier",
        "send",
        "recv",
        "isend",
        "irecv",
        "reduce",
        "gather",
        "scatter",
        "broadcast",
    ];
    const BEGINNINGS: [&str; 12] = [
        "all_reduce",
        "allreduce",
        "all_gather",
        "allgather",
        "reduce_scatter",
        "reducescatter",
        "all_to_all",
        "alltoall",
        "monitored_barrier",
        "broadcast_",
        "inference_all_reduce",
        "synchronize",
    ];
    NAMES.contains(&function) || BEGINNINGS.iter().any(|beginning| function.starts_with(beginning))
}

/// Whether a frame compiles. Frames around ordinary runs of compiled code lie in the same files:
/// `compile_wrapper`, `launch_metadata`.
fn compiles(function: &str, file: &str) -> bool {
    const FILES: [&str; 9] = [
        "torch/_dynamo/convert_frame.py",
        "torch/_dynamo/symbolic_convert.py",
        "torch/_inductor/codegen/",
        "torch/_inductor/async_compile.py",
        "torch/_inductor/compile_worker/",
        "torch/_inductor/runtime/benchmarking.py",
        "triton/testing.py",
        "numba/cuda/compiler.py",
        "numba/core/compiler",
    ];
    const FOLDERS: [&str; 11] = [
        "torch/_dynamo/",
        "torch/_inductor/",
        "torch/_functorch/",
        "torch/fx/experimental/",
        "triton/",
        "cupy/",
        "numba/",
        "jax/_src/",
        "tilelang/",
        "tvm/",
        "cutlass/",
    ];
    const FUNCTIONS: [&str; 28] = [
        "compile",
        "_compile",
        "compile_fx",
        "compile_fx_inner",
        "_compile_fx_inner",
        "codegen_and_compile",
        "fx_codegen_and_compile",
        "compile_to_fn",
        "compile_to_module",
        "call_user_compiler",
        "benchmark_all_configs",
        "autotune_to_one_config",
        "precompile",
        "_precompile_config",
        "make_fx",
        "aot_module_simplified",
        "create_aot_dispatcher_function",
        "_create_aot_dispatcher_function",
        "aot_dispatch_base_graph",
        "aot_dispatch_autograd_graph",
        "do_bench",
        "_bench",
        "compile_with_cache",
        "_compile_module_with_cache",
        "_compile_with_cache_cuda",
        "compile_using_nvrtc",
        "backend_compile",
        "compile_or_get_cached",
    ];
    let is_in = |parts: &[&str]| parts.iter().any(|part| file.contains(part));
    is_in(&FILES)
        || (is_in(&FOLDERS) && FUNCTIONS.contains(&function))
        || (is_in(&["torch/utils/cpp_extension.py"]) && matches!(function, "load" | "load_inline" | "_jit_compile"))
}

/// A function written in C: `method item of Tensor object at 0x7f`, `function _cuda_synchronize>`.
fn of_builtin(builtin: &str) -> Role {
    let (what, rest) = builtin.split_once(' ').unwrap_or((builtin, ""));
    let function = rest.split([' ', '>']).next().unwrap_or_default();
    let is_of = |owner: &str| what == "method" && rest.split_once(" of ").is_some_and(|of| of.1.starts_with(owner));
    let is_of_tensor = is_of("Tensor object") || is_of("Parameter object") || is_of("type object");
    match function {
        "item" | "tolist" | "nonzero" if is_of_tensor => Role::SyncOperator,
        "to" | "cpu" | "cuda" | "copy_" if is_of_tensor => Role::CopyOperator,
        "_cuda_synchronize" => Role::Sync,
        "synchronize" if rest.contains("torch.") || rest.contains("Event") || rest.contains("Stream") => Role::Sync,
        "collect" if rest.contains("module") || what == "function" => Role::Gc,
        "run_backward" => Role::PythonWait,
        "acquire" | "wait" if rest.contains("distributed") || rest.contains("Work") => Role::Collective,
        "acquire" | "wait" | "poll" | "select" => Role::QueueWait,
        "_disable_profiler" | "_enable_profiler" | "_prepare_profiler" => Role::Profiler,
        _ => Role::Python,
    }
}
