//! Roles of host slices in a wait, by kind and name.
//!
//! Names differ between recorders and versions: CUDA's runtime and driver, HIP, suffixes such as `_v7000` and
//! `_ptsz`, operators, Python frames, ranges of users. Each name is judged once.

mod frames;
mod ranges;
mod waits;

use self::frames::of_python;
use self::ranges::{is_collective, of_range};
use self::waits::is_waiting_function;
pub use self::waits::{Waiting, Waits, is_inside_wait, waits};
use crate::analysis::frame::Frame;
use crate::analysis::words::{self, Topic};
use crate::model::{DurNs, SliceId, SliceKind, StringId, Trace};

/// What a host slice says about the device's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A call that waits for the device.
    Sync = 1,
    /// An operator that reads a value back, if it is on the device: `aten::item`.
    SyncOperator,
    DataLoading,
    /// A call that starts a copy.
    CopyCall,
    /// An operator that copies or casts: `aten::to`.
    CopyOperator,
    Allocator,
    /// A call that frees memory, and waits until the device is done with all work before.
    Free,
    ModuleLoad,
    /// A call that loads the code of a kernel if it needs it first: `cudaFuncGetAttributes`.
    LazyLoad,
    Gc,
    Collective,
    /// A range named after a collective. Operators in it may prepare its data.
    CollectiveRange,
    Launch,
    GraphLaunch,
    Profiler,
    /// A call of the operating system that waits.
    OsWait,
    Os,
    Operator,
    /// A Python frame that waits for another thread: `run_backward`.
    PythonWait,
    /// A Python frame that waits for a queue, a lock or the end of a thread: `queue.get`.
    QueueWait,
    /// One that sleeps, or waits for a socket or a process: `selectors.select`.
    Wait,
    Python,
    /// Any other call of the API.
    Call,
    /// A range that is not a cause.
    Range,
    /// Profiler bookkeeping and the like.
    Nothing,
}

impl Role {
    const ALL: [Self; 25] = [
        Self::Sync,
        Self::SyncOperator,
        Self::DataLoading,
        Self::CopyCall,
        Self::CopyOperator,
        Self::Allocator,
        Self::Free,
        Self::ModuleLoad,
        Self::LazyLoad,
        Self::Gc,
        Self::Collective,
        Self::CollectiveRange,
        Self::Launch,
        Self::GraphLaunch,
        Self::Profiler,
        Self::OsWait,
        Self::Os,
        Self::Operator,
        Self::PythonWait,
        Self::QueueWait,
        Self::Wait,
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

/// Marks Python frames, those of libraries as well.
const FRAME: u8 = 0x80;

impl Roles {
    /// The role of a host slice. Amortized cost: O(1).
    #[inline]
    pub fn of(&mut self, trace: &Trace, slice: SliceId) -> Role {
        self.with_frame(trace, slice).0
    }

    /// The role of a host slice, and whether it is a Python frame.
    #[inline]
    pub fn with_frame(&mut self, trace: &Trace, slice: SliceId) -> (Role, bool) {
        let code = self.code(trace, slice);
        (Role::ALL[usize::from(code & !FRAME) - 1], code & FRAME != 0)
    }

    #[inline]
    fn code(&mut self, trace: &Trace, slice: SliceId) -> u8 {
        let (kind, name) = (trace.slices.kind[slice.idx()], trace.slices.name[slice.idx()]);
        match self.known[kind as usize].get(name.0 as usize) {
            Some(&code) if code != 0 => code,
            _ => self.judge(trace, kind, name),
        }
    }

    #[cold]
    fn judge(&mut self, trace: &Trace, kind: SliceKind, name: StringId) -> u8 {
        let known = &mut self.known[kind as usize];
        known.resize(trace.strings.len(), 0);
        let text = trace.strings.get(name);
        let function = (kind == SliceKind::PythonFunction).then(|| Frame::of_python_function(text));
        let is_frame = function.is_some_and(|frame| frame.is_user() || frame.is_library());
        let code = role_of(kind, text) as u8 | if is_frame { FRAME } else { 0 };
        known[name.0 as usize] = code;
        code
    }
}

/// An operator that reads a value back without a recorded call takes at least this long, in nanoseconds, if it waits
/// for the device: the copy and the wait take 10 us and more. Of values in host memory it takes 0.2 to 3 us.
pub const READS_BACK: DurNs = 10_000;

/// The role of a slice of this kind and name.
pub fn role_of(kind: SliceKind, name: &str) -> Role {
    match kind {
        SliceKind::Runtime | SliceKind::Driver => of_call(name),
        SliceKind::Operator => of_operator(name),
        SliceKind::PythonFunction => match of_python(name) {
            Role::Python if is_waiting_function(name) => Role::Wait,
            role => role,
        },
        SliceKind::Os => of_os_call(name),
        SliceKind::Collective => Role::Collective,
        SliceKind::Sync => Role::Sync,
        SliceKind::Overhead => of_overhead(name),
        // Recorders without a kind for them write functions as ranges.
        SliceKind::Annotation | SliceKind::Other if is_waiting_function(name) => Role::Wait,
        SliceKind::Annotation | SliceKind::Other => of_range(name),
        _ => Role::Nothing,
    }
}

/// Whether a slice of this kind and name compiles, loads code or collects garbage.
pub fn loads_code_or_collects(kind: SliceKind, name: &str) -> bool {
    matches!(role_of(kind, name), Role::ModuleLoad | Role::Gc)
}

/// Whether a slice is a call that frees memory, and waits for the device before it does.
pub fn frees_memory(trace: &Trace, call: SliceId) -> bool {
    role_of(trace.slices.kind[call.idx()], trace.slice_name(call)) == Role::Free
}

/// Whether a slice is a call that allocates memory.
pub fn allocates_memory(trace: &Trace, call: SliceId) -> bool {
    let is_allocator = role_of(trace.slices.kind[call.idx()], trace.slice_name(call)) == Role::Allocator;
    is_allocator && trace.slice_name(call).contains("lloc")
}

/// Whether a call of this name starts work of a device each time.
pub fn launches_work(call: &str) -> bool {
    matches!(of_call(call), Role::Launch) && call.contains("Launch") || call.contains("GraphLaunch")
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
    if begins(&["FuncGetAttribute", "FuncSetAttribute", "FuncSetCacheConfig", "Occupancy", "ModuleOccupancy"]) {
        return Role::LazyLoad;
    }
    Role::Call
}

fn of_operator(name: &str) -> Role {
    match name {
        "aten::item" | "aten::_local_scalar_dense" | "aten::nonzero" => Role::SyncOperator,
        "aten::to" | "aten::_to_copy" | "aten::copy_" => Role::CopyOperator,
        _ if is_collective(name) => Role::Collective,
        _ if name.contains("::") || name.starts_with("triton_") => Role::Operator,
        // Old recorders wrote ranges as operators.
        _ if name.starts_with("ProfilerStep#") || name.starts_with("Optimizer.") || name.starts_with("## ") => {
            of_range(name)
        }
        _ if words::topic(name) == Some(Topic::DataLoading) => Role::DataLoading,
        _ if words::topic(name) == Some(Topic::Compilation) => Role::ModuleLoad,
        _ => Role::Operator,
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

/// Rows of the profiler's own overhead. The names of CUPTI, Kineto and nsys differ in case and separators.
///
/// nsys records libraries that the program loads here, too, with what it does itself meanwhile.
pub fn of_overhead(name: &str) -> Role {
    const LOADS: [&str; 5] = ["dlopen", "dlclose", "lazy function loading", "module loading", "compiler"];
    const PROFILER: [&str; 9] = [
        "flush",
        "stop",
        "activity buffer",
        "instrumentation",
        "resource",
        "profiling",
        "tls allocation",
        "chunk allocation",
        "plugins initialization",
    ];
    let lower = name.to_ascii_lowercase();
    let has = |part: &&str| lower.contains(*part);
    if LOADS.iter().any(has) {
        Role::ModuleLoad
    } else if PROFILER.iter().any(has) {
        Role::Profiler
    } else {
        Role::Nothing
    }
}

#[cfg(test)]
mod tests;
