//! Maps the tables of an export to their readers.
//!
//! Columns are found by name, since they differ between versions. An unknown table with a start time and an
//! end or a name is shown as well: new versions of Nsight Systems add such tables every year.

use rusqlite::types::ValueRef;

use crate::model::{RawSlice, SliceKind};

use super::chunk::{Cells, Chunk, NameKey, RowFacts, TrackKey, process_of};
use super::{device, file_access, generic, host};

/// How the rows of one table are read.
#[derive(Debug)]
pub struct Spec {
    pub table: &'static str,
    /// Columns in the order of the cells; `a|b` takes the first that the table has.
    pub columns: &'static [&'static str],
    /// Adds one row to a chunk; the last argument is its source for details.
    pub read: fn(&mut Chunk, &Cells<'_>, u64),
}

/// The role of a table.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    Events(&'static Spec),
    /// Unknown, with columns of events: start, optionally end, name, thread or process.
    EventLike,
    /// Names, devices, settings: lookup data, never events.
    Context,
    Unknown,
}

const SPECS: &[Spec] = &[
    device::KERNEL,
    device::MEMCPY,
    device::MEMSET,
    device::GRAPH_TRACE,
    device::SYNCHRONIZATION,
    device::CUDA_EVENT,
    device::MEMORY_USAGE,
    device::GPU_METRICS,
    generic::GENERIC,
    device::NIC_METRIC,
    device::SWITCH_METRIC,
    host::RUNTIME,
    host::OSRT,
    file_access::FILE_ACCESS,
    host::NVTX,
    host::COMPOSITE,
    host::CALLCHAINS,
    host::SCHED,
    host::DIAGNOSTIC,
];

/// Tables with lookup data. Call chains of API calls are read for one call at a time.
const CONTEXT: [&str; 22] = [
    "StringIds",
    "PROCESSES",
    "ProcessStreams",
    "ThreadNames",
    "UnwindMethodType",
    "EXPORT_META_DATA",
    "ANALYSIS_DETAILS",
    "ANALYSIS_FILE",
    "OSRT_CALLCHAINS",
    "CUDA_CALLCHAINS",
    "SYSCALL_CALLCHAINS",
    "OSRT_FILE_ACCESS_DESCRIPTORS",
    "OSRT_ARGUMENTS",
    "GENERIC_EVENT_SOURCES",
    "GENERIC_EVENT_TYPES",
    "NIC_ID_MAP",
    "MPI_RANKS",
    "MPI_COMMUNICATORS",
    "UCP_WORKERS",
    "ETW_PROVIDERS",
    "ETW_TASKS",
    "PMU_EVENT_REQUESTS",
];

const CONTEXT_PREFIXES: [&str; 4] = ["ENUM_", "TARGET_INFO_", "META_DATA_", "NVTX_PAYLOAD_"];

/// The name without a version suffix, as in `NVTX_EVENTS_V2`.
fn plain(name: &str) -> &str {
    match name.rsplit_once("_V") {
        Some((plain, digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => plain,
        _ => name,
    }
}

fn spec(name: &str) -> Option<&'static Spec> {
    SPECS.iter().find(|spec| spec.table == plain(name))
}

/// Whether a table of this name belongs to an export of Nsight Systems.
pub fn is_known(name: &str) -> bool {
    spec(name).is_some()
        || CONTEXT.contains(&name)
        || CONTEXT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || ["CUPTI_ACTIVITY_KIND_", "CUDA_", "CUDNN_", "CUBLAS_", "NVTX_", "OSRT_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// The role of a table with this name and these columns.
pub fn role(name: &str, columns: &[String]) -> Role {
    if CONTEXT.contains(&name) || CONTEXT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Role::Context;
    }
    if let Some(spec) = spec(name) {
        return Role::Events(spec);
    }
    let has = |wanted: &str| wanted.split('|').any(|column| columns.iter().any(|name| name == column));
    let is_like = has(LIKE[0]) && LIKE[1..].iter().any(|column| has(column));
    if is_like { Role::EventLike } else { Role::Unknown }
}

/// The columns that identify rows as events, in the order of [`read_like`]'s cells.
const LIKE: &[&str] = &[
    "start|timestamp|startedAt|rawTimestamp",
    "end|endedAt",
    "nameId|textId|apiCallId",
    "text|name|description|data",
    "globalTid",
    "globalPid|globalVm",
    "eventClass",
    // Of OpenACC: where the construct stands.
    "srcFile",
    "lineNo",
    // Of unified memory.
    "numberOfPageFaults",
];

/// The reader of a table recognized only by its columns.
pub const EVENT_LIKE: Spec = Spec { table: "", columns: LIKE, read: read_like };

fn read_like(chunk: &mut Chunk, cells: &Cells<'_>, source: u64) {
    let Some(ts) = chunk.time(cells[0]) else { return };
    let name = match (cells[2], cells[3]) {
        (ValueRef::Integer(id), _) => chunk.key(match (cells[7], cells[8]) {
            (ValueRef::Integer(file), ValueRef::Integer(line)) => NameKey::Line(id, file, line),
            _ => NameKey::Id(id),
        }),
        (_, ValueRef::Text(text)) if text.len() < 200 => chunk.text(text),
        _ => chunk.key(NameKey::Table(chunk.table)),
    };
    let place = match (cells[4], cells[5]) {
        (ValueRef::Integer(thread), _) if chunk.is_call => TrackKey::Thread(thread),
        (ValueRef::Integer(thread), _) => TrackKey::Table(process_of(thread), chunk.table),
        (_, ValueRef::Integer(process)) => TrackKey::Table(process, chunk.table),
        _ => TrackKey::Table(0, chunk.table),
    };
    let track = chunk.track(place);
    match cells[1] {
        _ if chunk.is_marker(cells[6]) => chunk.instant(track, ts, name, source),
        ValueRef::Null => {
            chunk.instant(track, ts, name, source);
        }
        end => {
            let Some((ts, end)) = chunk.span(cells[0], end) else { return };
            chunk.n_shown += 1;
            let kind = chunk.kind;
            let faults = chunk.int(cells[9]).and_then(|faults| u32::try_from(faults).ok());
            let facts = faults.map_or(0, |faults| 1 + chunk.facts.intern(RowFacts::PageFaults(faults)));
            chunk.slices.push(RawSlice { ts, end, name, kind, track, source, facts, ..Default::default() });
        }
    }
}

/// The kind of slices in a table recognized only by its columns.
pub fn kind_like(table: &str) -> SliceKind {
    match table {
        _ if table.ends_with("OVERHEAD") => SliceKind::Overhead,
        _ if ["MPI_", "UCP_", "NCCL_", "NVSHMEM_"].iter().any(|prefix| table.starts_with(prefix)) => {
            SliceKind::Collective
        }
        _ if table.starts_with("SYSCALL") || table.starts_with("OSRT_") => SliceKind::Os,
        _ => SliceKind::Other,
    }
}

/// Whether rows of such a table are calls that nest with the others of their thread.
pub fn is_call(table: &str) -> bool {
    const CALLS: [&str; 13] = [
        "CUDNN_",
        "CUBLAS_",
        "MPI_COLLECTIVES",
        "MPI_P2P",
        "MPI_OTHER",
        "UCP_EVENTS",
        "NVSHMEM_",
        "CUPTI_ACTIVITY_KIND_OPENACC_",
        "OPENMP_",
        "NVVIDEO_",
        "SYSCALL",
        "PROFILER_OVERHEAD",
        "CUPTI_ACTIVITY_KIND_OVERHEAD",
    ];
    CALLS.iter().any(|prefix| table.starts_with(prefix))
}

/// A table's name as a title: `CUDA_UM_GPU_PAGE_FAULT_EVENTS` is `CUDA UM GPU page fault`.
pub fn title(table: &str) -> String {
    const WORDS: [&str; 24] = [
        "CUDA", "CUDNN", "CUBLAS", "UM", "GPU", "CPU", "MPI", "UCP", "NVTX", "OSRT", "OPENACC", "OPENMP", "VULKAN",
        "OPENGL", "DX12", "NV", "SLI", "WDDM", "ETW", "PMU", "NVVIDEO", "JIT", "NIC", "IB",
    ];
    let name = plain(table).trim_start_matches("CUPTI_ACTIVITY_KIND_");
    let name = name.strip_suffix("_EVENTS").or_else(|| name.strip_suffix("_EVENT")).unwrap_or(name);
    let word = |(i, word): (usize, &str)| match WORDS.contains(&word) {
        true => word.to_owned(),
        false if i == 0 && word.len() > 1 => format!("{}{}", &word[..1], word[1..].to_ascii_lowercase()),
        false => word.to_ascii_lowercase(),
    };
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain { name.split('_').enumerate().map(word).collect::<Vec<_>>().join(" ") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_known_by_name_then_by_columns() {
        let columns = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert!(matches!(role("NVTX_EVENTS_V2", &[]), Role::Events(spec) if spec.table == "NVTX_EVENTS"));
        assert!(matches!(role("TARGET_INFO_SYSTEM_ENV", &columns(&["start", "end", "globalTid"])), Role::Context));
        assert!(matches!(role("FUTURE_API", &columns(&["start", "end", "globalTid"])), Role::EventLike));
        assert!(matches!(role("bookmarks", &columns(&["id"])), Role::Unknown));
        assert!(!is_known("bookmarks"));
    }

    #[test]
    fn titles_are_in_plain_words() {
        assert_eq!(title("CUDA_UM_GPU_PAGE_FAULT_EVENTS"), "CUDA UM GPU page fault");
        assert_eq!(title("PROFILER_OVERHEAD"), "Profiler overhead");
        assert_eq!(title("CUPTI_ACTIVITY_KIND_OVERHEAD"), "Overhead");
    }
}
