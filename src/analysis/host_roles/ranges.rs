//! Roles of ranges that users and libraries name.

use super::{Role, of_operator};
use crate::analysis::words::{self, Topic};

/// The role of a range. A phase of a step is not a cause of what runs inside.
pub fn of_range(name: &str) -> Role {
    // `emit_nvtx` names ranges by operator: `aten::item, op_id = 7`.
    if name.starts_with("aten::") {
        return of_operator(name.split(',').next().unwrap_or(name));
    }
    if is_collective(name) {
        return Role::Collective;
    }
    match words::topic(name) {
        Some(Topic::DataLoading) => Role::DataLoading,
        Some(Topic::Communication) => Role::CollectiveRange,
        Some(Topic::Compilation) => Role::ModuleLoad,
        Some(Topic::GarbageCollection) => Role::Gc,
        Some(Topic::Forward | Topic::Backward | Topic::Optimizer | Topic::Copies) | None => Role::Range,
    }
}

/// Whether a library of collectives gave a range or an operator its name: `nccl:all_reduce`, `ncclAllReduce`,
/// `c10d::barrier`.
pub fn is_collective(name: &str) -> bool {
    const PREFIXES: [&str; 10] = [
        "c10d::",
        "_c10d_functional",
        "c10d_functional::",
        "record_param_comms",
        "nccl:",
        "gloo:",
        "mpi:",
        "ucc:",
        "hccl:",
        "rccl:",
    ];
    // Functions of their APIs.
    const LIBRARIES: [&str; 4] = ["nccl", "rccl", "hccl", "oneccl"];
    let is_function = |library: &&str| {
        name.strip_prefix(library).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || LIBRARIES.iter().any(is_function)
}
