//! The tables and columns that the sample fills, and those that each version of nsys has.

use super::tables::TableColumns;
use crate::sample::training::Graphs;

/// A version of Nsight Systems whose export is imitated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Schema {
    /// nsys 2022.4, schema 3.0.0: no CUDA graphs and no GPU metrics
    #[value(name = "2022")]
    V2022,
    /// nsys 2023.4, schema 3.7.2: the kernels of CUDA graphs
    #[default]
    #[value(name = "2023")]
    V2023,
    /// nsys 2026.4, schema 3.28.1: CUDA graphs as a whole
    #[value(name = "2026")]
    V2026,
}

impl Schema {
    /// The statements that make its tables.
    pub(super) fn sql(self) -> &'static str {
        match self {
            Self::V2022 => include_str!("schema_2022.sql"),
            Self::V2023 => include_str!("schema_2023.sql"),
            Self::V2026 => include_str!("schema_2026.sql"),
        }
    }

    pub(super) fn graphs(self) -> Graphs {
        match self {
            Self::V2022 => Graphs::Unused,
            Self::V2023 => Graphs::AsNodes,
            Self::V2026 => Graphs::AsWhole,
        }
    }

    /// The version of the product, its short form, and the version of the schema.
    pub(super) fn versions(self) -> [&'static str; 3] {
        match self {
            Self::V2022 => ["2022.4.2.1", "2022.4", "3.0.0"],
            Self::V2023 => ["2023.4.4.54", "2023.4", "3.7.2"],
            Self::V2026 => ["2026.4.1.1", "2026.4", "3.28.1"],
        }
    }
}

const fn table(name: &'static str, columns: &'static str) -> TableColumns {
    TableColumns { name, columns }
}

pub(super) const KERNEL: TableColumns = table(
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "start end deviceId contextId streamId correlationId globalPid demangledName shortName launchType cacheConfig \
     registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory \
     localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig \
     tensorSizeMinusOneElements",
);
pub(super) const MEMCPY: TableColumns = table(
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "start end deviceId contextId streamId correlationId globalPid bytes copyKind srcKind dstKind copyCount",
);
pub(super) const MEMSET: TableColumns = table(
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "start end deviceId contextId streamId correlationId globalPid value bytes memKind",
);
pub(super) const GRAPH_TRACE: TableColumns = table(
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "start end deviceId contextId streamId correlationId globalPid graphId graphExecId",
);
pub(super) const RUNTIME: TableColumns =
    table("CUPTI_ACTIVITY_KIND_RUNTIME", "start end eventClass globalTid correlationId nameId returnValue");
pub(super) const SYNCHRONIZATION: TableColumns = table(
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "start end deviceId contextId streamId correlationId globalPid syncType eventId",
);
pub(super) const CUDA_EVENT: TableColumns =
    table("CUPTI_ACTIVITY_KIND_CUDA_EVENT", "deviceId contextId streamId eventId correlationId globalPid");
pub(super) const NVTX: TableColumns = table(
    "NVTX_EVENTS",
    "start end eventType rangeId category color text globalTid endGlobalTid textId domainId int64Value",
);
pub(super) const OSRT: TableColumns =
    table("OSRT_API", "start end eventClass globalTid nameId returnValue nestingLevel callchainId argumentsId");
pub(super) const OVERHEAD: TableColumns =
    table("PROFILER_OVERHEAD", "start end globalTid nameId returnValue overheadType");
pub(super) const SAMPLES: TableColumns = table("COMPOSITE_EVENTS", "id start cpu threadState globalTid cpuCycles");
pub(super) const CALLCHAINS: TableColumns = table(
    "SAMPLING_CALLCHAINS",
    "id symbol module kernelMode thumbCode unresolved specialEntry originalIP unwindMethod stackDepth",
);
pub(super) const MEMORY_USAGE: TableColumns = table(
    "CUDA_GPU_MEMORY_USAGE_EVENTS",
    "start globalPid deviceId contextId address pc bytes memKind memoryOperationType correlationId",
);
pub(super) const METRICS: TableColumns = table("GPU_METRICS", "rawTimestamp timestamp typeId metricId value");
pub(super) const METRIC_NAMES: TableColumns =
    table("TARGET_INFO_GPU_METRICS", "typeId sourceId typeName metricId metricName");
pub(super) const STRINGS: TableColumns = table("StringIds", "id value");
pub(super) const PROCESSES: TableColumns = table("PROCESSES", "globalPid pid name");
pub(super) const THREAD_NAMES: TableColumns = table("ThreadNames", "nameId priority globalTid");
pub(super) const GPU: TableColumns = table(
    "TARGET_INFO_GPU",
    "vmId id name busLocation isDiscrete l2CacheSize totalMemory memoryBandwidth clockRate smCount uuid chipName \
     cuDevice threadsPerWarp computeMajor computeMinor smMajor smMinor",
);
pub(super) const CUDA_DEVICE: TableColumns =
    table("TARGET_INFO_CUDA_DEVICE", "gpuId cudaId pid uuid numMultiprocessors");
pub(super) const STREAMS: TableColumns =
    table("TARGET_INFO_CUDA_STREAM", "streamId hwId vmId processId contextId priority flag");
pub(super) const NULL_STREAM: TableColumns =
    table("TARGET_INFO_CUDA_NULL_STREAM", "streamId hwId vmId processId deviceId contextId");
pub(super) const CONTEXT: TableColumns = table(
    "TARGET_INFO_CUDA_CONTEXT_INFO",
    "nullStreamId hwId vmId processId deviceId contextId parentContextId isGreenContext",
);
pub(super) const SESSION_START: TableColumns =
    table("TARGET_INFO_SESSION_START_TIME", "utcEpochNs utcTime localTime systemClockNs");
pub(super) const ANALYSIS: TableColumns = table("ANALYSIS_DETAILS", "globalVid duration startTime stopTime");
/// What the table of the exporter's facts was called first.
pub(super) const EXPORT_FACTS_2022: TableColumns = table("EXPORT_META_DATA", "name value");
pub(super) const EXPORT_FACTS: TableColumns = table("META_DATA_EXPORT", "name value");
pub(super) const CAPTURE_FACTS: TableColumns = table("META_DATA_CAPTURE", "name value");

/// Codes with their names. The misspelt one is how nsys 2022 spelt it.
pub(super) const ENUMS: [TableColumns; 14] = [
    table("ENUM_NSYS_EVENT_TYPE", "id name label"),
    table("ENUM_NSYS_EVENT_CLASS", "id name label"),
    table("ENUM_CUDA_MEMCPY_OPER", "id name label"),
    table("ENUM_CUDA_MEM_KIND", "id name label"),
    table("ENUM_CUDA_DEV_MEM_EVENT_OPER", "id name label"),
    table("ENUM_CUDA_KERNEL_LAUNCH_TYPE", "id name label"),
    table("ENUM_CUDA_KRENEL_LAUNCH_TYPE", "id name label"),
    table("ENUM_CUDA_SHARED_MEM_LIMIT_CONFIG", "id name label"),
    table("ENUM_CUDA_FUNC_CACHE_CONFIG", "id name label"),
    table("ENUM_CUDA_UNIF_MEM_MIGRATION", "id name label"),
    table("ENUM_CUPTI_STREAM_TYPE", "id name label"),
    table("ENUM_CUPTI_SYNC_TYPE", "id name label"),
    table("ENUM_STACK_UNWIND_METHOD", "id name label"),
    table("ENUM_SAMPLING_THREAD_STATE", "id name label"),
];

/// Their rows, as nsys 2023.4 exports them: table, id, name, label.
pub(super) const ENUM_ROWS: &str = include_str!("enums.tsv");
