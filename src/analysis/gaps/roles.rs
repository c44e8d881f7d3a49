//! What a host slice says about a wait, judged by its kind and name.
//!
//! Names differ between recorders and versions: CUDA's runtime and driver, HIP, suffixes such as `_v7000` and
//! `_ptsz`, operators, Python frames, ranges of users. Each name is judged once.

use crate::analysis::frame::Frame;
use crate::model::{SliceId, SliceKind, Trace};

/// What a host slice says about the device's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A call that waits for the device.
    Sync = 1,
    /// An operator that reads a value back, if it is on the device: `aten::item`.
    SyncOperator,
    DataLoading,
    /// A range whose name suggests data loading; also a step may be called `train_batch`.
    DataRange,
    /// A call that starts a copy.
    CopyCall,
    /// An operator that copies or casts: `aten::to`.
    CopyOperator,
    Allocator,
    /// A call that frees memory, and waits until the device is done with all work before.
    Free,
    ModuleLoad,
    Gc,
    Collective,
    Launch,
    GraphLaunch,
    Profiler,
    /// A call of the operating system that waits.
    OsWait,
    Os,
    Operator,
    /// A Python frame that waits for another thread: `run_backward`.
    PythonWait,
    Python,
    /// Any other call of the API.
    Call,
    /// A range that is no cause.
    Range,
    /// Profiler bookkeeping and the like.
    Nothing,
}

impl Role {
    const ALL: [Self; 22] = [
        Self::Sync,
        Self::SyncOperator,
        Self::DataLoading,
        Self::DataRange,
        Self::CopyCall,
        Self::CopyOperator,
        Self::Allocator,
        Self::Free,
        Self::ModuleLoad,
        Self::Gc,
        Self::Collective,
        Self::Launch,
        Self::GraphLaunch,
        Self::Profiler,
        Self::OsWait,
        Self::Os,
        Self::Operator,
        Self::PythonWait,
        Self::Python,
        Self::Call,
        Self::Range,
        Self::Nothing,
    ];
}

/// The roles of a trace's slices, each name judged at its first use.
#[derive(Debug, Default)]
pub struct Roles {
    /// For each kind, by string id: a role with [`USER`], or 0 if not judged yet.
    known: [Vec<u8>; SliceKind::ALL.len()],
}

/// Marks Python frames of the user's program.
const USER: u8 = 0x80;

impl Roles {
    /// The role of a host slice. Amortized cost: O(1).
    pub fn of(&mut self, trace: &Trace, slice: SliceId) -> Role {
        Role::ALL[usize::from(self.code(trace, slice) & !USER) - 1]
    }

    /// Whether it is a Python frame of the user's program.
    pub fn is_user_frame(&mut self, trace: &Trace, slice: SliceId) -> bool {
        self.code(trace, slice) & USER != 0
    }

    fn code(&mut self, trace: &Trace, slice: SliceId) -> u8 {
        let (kind, name) = (trace.slices.kind[slice.idx()], trace.slices.name[slice.idx()]);
        let known = &mut self.known[kind as usize];
        if known.is_empty() {
            *known = vec![0; trace.strings.len()];
        }
        let code = &mut known[name.0 as usize];
        if *code == 0 {
            let name = trace.strings.get(name);
            let is_user = kind == SliceKind::PythonFunction && Frame::of_python_function(name).is_user();
            *code = role_of(kind, name) as u8 | if is_user { USER } else { 0 };
        }
        *code
    }
}

/// The role of a slice of this kind and name.
pub fn role_of(kind: SliceKind, name: &str) -> Role {
    match kind {
        SliceKind::Runtime | SliceKind::Driver => of_call(name),
        SliceKind::Operator => of_operator(name),
        SliceKind::PythonFunction => of_python(name),
        SliceKind::Os => of_os_call(name),
        SliceKind::Collective => Role::Collective,
        SliceKind::Sync => Role::Sync,
        SliceKind::Overhead => of_overhead(name),
        SliceKind::Annotation | SliceKind::Other => of_range(name),
        _ => Role::Nothing,
    }
}

fn of_call(name: &str) -> Role {
    let stem = ["cuda", "hip", "cu", "nvrtc", "hsa_", "mc", "musa", "acl"].iter().find_map(|p| name.strip_prefix(p));
    let stem = stem.unwrap_or(name);
    let begins = |with: &[&str]| with.iter().any(|with| stem.starts_with(with));
    if stem.contains("Synchronize") || stem.starts_with("signal_wait") {
        return Role::Sync;
    }
    if stem.contains("GraphLaunch") {
        return Role::GraphLaunch;
    }
    if begins(&["Memcpy"]) {
        // HIP's `MemcpyWithStream` waits for the stream.
        return if stem.contains("Async") { Role::CopyCall } else { Role::Sync };
    }
    if stem.contains("LaunchHostFunc") {
        return Role::Call;
    }
    if stem.contains("Launch") || begins(&["Memset", "MemPrefetch"]) {
        return Role::Launch;
    }
    if !stem.contains("Async") && begins(&["Free", "HostFree", "HostUnregister", "MemFree", "MemHostUnregister"]) {
        return Role::Free;
    }
    let allocates = [
        "Malloc",
        "FreeAsync",
        "HostAlloc",
        "HostMalloc",
        "HostRegister",
        "MemAlloc",
        "MemFreeAsync",
        "MemHostAlloc",
        "MemHostRegister",
        "MemCreate",
        "MemRelease",
        "MemMap",
        "MemUnmap",
        "MemAddress",
        "MemSetAccess",
        "MemPool",
        "ExtMalloc",
        "ArrayCreate",
    ];
    if begins(&allocates) {
        return Role::Allocator;
    }
    let loads = [
        "ModuleLoad",
        "ModuleUnload",
        "ModuleGetFunction",
        "ModuleGetGlobal",
        "LibraryLoad",
        "LibraryUnload",
        "LibraryGet",
        "KernelGetFunction",
        "FuncLoad",
        "Link",
        "CompileProgram",
        "CreateProgram",
        "rtc",
        "_registerFatBinary",
        "GraphInstantiate",
    ];
    if begins(&loads) || name.starts_with("nvrtc") || name.starts_with("hiprtc") || name.contains("RegisterFatBinary") {
        return Role::ModuleLoad;
    }
    Role::Call
}

fn of_operator(name: &str) -> Role {
    match name {
        "aten::item" | "aten::_local_scalar_dense" | "aten::nonzero" => Role::SyncOperator,
        "aten::to" | "aten::_to_copy" | "aten::copy_" => Role::CopyOperator,
        _ if is_data_loader(name) => Role::DataLoading,
        _ if is_collective(name) => Role::Collective,
        // Old recorders wrote ranges as operators.
        _ if name.starts_with("ProfilerStep#") || name.starts_with("Optimizer.") || name.starts_with("## ") => {
            of_range(name)
        }
        _ if !name.contains("::") && !name.starts_with("triton_") && is_compilation(&name.to_ascii_lowercase()) => {
            Role::ModuleLoad
        }
        _ => Role::Operator,
    }
}

fn of_python(name: &str) -> Role {
    if let Some(builtin) = name.strip_prefix("<built-in ") {
        return of_builtin(builtin);
    }
    let Frame { function, file, .. } = Frame::of_python_function(name);
    let is_in = |parts: &[&str]| parts.iter().any(|part| file.contains(part));
    match function {
        _ if is_in(&["torch/utils/data/", "torchdata/", "webdataset/", "nvidia/dali/"]) => Role::DataLoading,
        "synchronize" if is_in(&["torch/cuda/"]) => Role::Sync,
        _ if function.contains("run_backward") => Role::PythonWait,
        "backward" | "grad" if is_in(&["torch/autograd/", "torch/_tensor.py"]) => Role::PythonWait,
        "wait" | "get" | "join" | "_wait_for_tstate_lock" | "result"
            if is_in(&["threading.py", "queue.py", "concurrent/futures/", "multiprocessing/"]) =>
        {
            Role::PythonWait
        }
        _ if is_in(&["torch/distributed/"]) && is_collective_function(function) => Role::Collective,
        _ if is_in(&["torch/profiler/profiler.py"]) => Role::Profiler,
        _ if compiles(function, file) => Role::ModuleLoad,
        "gc" | "gc.collect" if file.is_empty() => Role::Gc,
        _ => Role::Python,
    }
}

/// Whether a function of `torch.distributed` is a collective or waits for one.
fn is_collective_function(function: &str) -> bool {
    const NAMES: [&str; 10] =
        ["wait", "barrier", "send", "recv", "isend", "irecv", "reduce", "gather", "scatter", "broadcast"];
    const BEGINNINGS: [&str; 6] =
        ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "monitored_barrier", "broadcast_"];
    NAMES.contains(&function) || BEGINNINGS.iter().any(|beginning| function.starts_with(beginning))
}

/// Whether a frame compiles. Frames around ordinary runs of compiled code lie in the same files:
/// `compile_wrapper`, `launch_metadata`.
fn compiles(function: &str, file: &str) -> bool {
    const FILES: [&str; 5] = [
        "torch/_dynamo/convert_frame.py",
        "torch/_dynamo/symbolic_convert.py",
        "torch/_inductor/codegen/",
        "torch/_inductor/async_compile.py",
        "torch/_inductor/compile_worker/",
    ];
    const FOLDERS: [&str; 4] = ["torch/_dynamo/", "torch/_inductor/", "torch/_functorch/", "triton/"];
    const FUNCTIONS: [&str; 14] = [
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
        "acquire" | "wait" | "poll" | "select" => Role::PythonWait,
        "_disable_profiler" | "_enable_profiler" | "_prepare_profiler" => Role::Profiler,
        _ => Role::Python,
    }
}

fn of_os_call(name: &str) -> Role {
    const WAITS: [&str; 17] = [
        "futex",
        "poll",
        "ppoll",
        "select",
        "pselect",
        "epoll_wait",
        "epoll_pwait",
        "sem_wait",
        "sem_timedwait",
        "pthread_cond_wait",
        "pthread_cond_timedwait",
        "pthread_join",
        "pthread_barrier_wait",
        "waitpid",
        "wait4",
        "sem_clockwait",
        "pthread_cond_clockwait",
    ];
    match name {
        _ if WAITS.contains(&name) => Role::OsWait,
        _ if name.contains("profiling") => Role::Nothing,
        _ => Role::Os,
    }
}

fn of_range(name: &str) -> Role {
    let lower = name.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    let words = || lower.split(|c: char| !c.is_ascii_alphanumeric());
    // `emit_nvtx` names ranges by operator: `aten::item, op_id = 7`.
    if name.starts_with("aten::") {
        return of_operator(name.split(',').next().unwrap_or(name));
    }
    if is_data_loader(name) {
        return Role::DataLoading;
    }
    if is_collective(name) {
        return Role::Collective;
    }
    if is_compilation(&lower) {
        return Role::ModuleLoad;
    }
    if words().any(|word| word == "gc") || has(&["garbage"]) {
        return Role::Gc;
    }
    if lower.starts_with("profilerstep#") || has(&["all2all", "alltoall", "metadata"]) {
        return Role::Range;
    }
    const NOUNS: [&str; 6] = ["data", "batch", "batches", "dataset", "sample", "samples"];
    const VERBS: [&str; 14] = [
        "load", "loading", "loader", "fetch", "fetching", "next", "get", "read", "prefetch", "wait", "collate",
        "input", "decode", "augment",
    ];
    let has_word = |known: &[&str]| words().any(|word| known.contains(&word));
    let is_whole = matches!(lower.trim(), "data" | "load" | "dataload" | "data_time");
    if is_whole || has(&["dataload"]) || (has_word(&NOUNS) && has_word(&VERBS)) {
        return Role::DataLoading;
    }
    if has(&["data", "load", "batch"]) { Role::DataRange } else { Role::Range }
}

/// Rows of the profiler's own overhead. The names of CUPTI, Kineto and nsys differ in case and separators.
pub fn of_overhead(name: &str) -> Role {
    let lower = name.to_ascii_lowercase();
    let has = |part: &str| lower.contains(part);
    let is_profiler = ["flush", "stop", "activity buffer", "instrumentation", "resource"].into_iter().any(has);
    if is_profiler || lower.starts_with("cuda profiling") {
        Role::Profiler
    } else if has("lazy function loading") || has("module loading") || has("compiler") {
        Role::ModuleLoad
    } else {
        Role::Nothing
    }
}

fn is_data_loader(name: &str) -> bool {
    name.contains("DataLoader") || name.contains("dataloader")
}

fn is_collective(name: &str) -> bool {
    const PREFIXES: [&str; 11] = [
        "c10d::",
        "_c10d_functional",
        "c10d_functional::",
        "record_param_comms",
        "nccl",
        "gloo:",
        "mpi:",
        "ucc:",
        "hccl",
        "rccl",
        "oneccl",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a range compiles or loads code. Ranges around ordinary runs of compiled code do not:
/// `Torch-Compiled Region: 0/0`, `CompiledFunction`, `TorchDynamo Cache Lookup`.
///
/// * `name`: in lower case.
fn is_compilation(name: &str) -> bool {
    let has = |part: &str| name.contains(part);
    if has("dynamo_timed") {
        return true;
    }
    let is_run = has("compiled") || has("lookup") || has("is_compiling") || has("autotuner.run");
    !is_run
        && ["compile", "compilation", "compiling", "inductor", "dynamo", "autotun", "nvrtc", "ptxas", "jit"]
            .iter()
            .any(|part| has(part))
        || has("module load")
        || has("module_load")
        || has("load_module")
        || has("load module")
}

#[cfg(test)]
mod tests;
