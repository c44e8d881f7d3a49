//! The rules: keys, labels, thresholds and units.

use super::cause::Cause;
use super::thresholds::{Levels, Thresholds};

/// A rule that may have findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    LowUtilization,
    DataLoading,
    ExposedCommunication,
    LateRank,
    CollectiveCalls,
    SmallCollectives,
    LaunchBound,
    Synchronization,
    HostBound,
    ExposedCopies,
    PageableCopies,
    Allocator,
    ModuleLoad,
    GarbageCollection,
    StepBoundary,
    Dependency,
    Queued,
    Blocked,
    DataTime,
    TinyKernels,
    SlowKernels,
    LongKernel,
    Fp32Matmul,
    Elementwise,
    RecurringGap,
    IrregularSteps,
    Recording,
    MemoryNearlyFull,
    Unexplained,
    Profiler,
    IncompleteRecording,
    NoDeviceWork,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 32] = [
        Self::LowUtilization,
        Self::DataLoading,
        Self::ExposedCommunication,
        Self::LateRank,
        Self::CollectiveCalls,
        Self::SmallCollectives,
        Self::LaunchBound,
        Self::Synchronization,
        Self::HostBound,
        Self::ExposedCopies,
        Self::PageableCopies,
        Self::Allocator,
        Self::ModuleLoad,
        Self::GarbageCollection,
        Self::StepBoundary,
        Self::Dependency,
        Self::Queued,
        Self::Blocked,
        Self::DataTime,
        Self::TinyKernels,
        Self::SlowKernels,
        Self::LongKernel,
        Self::Fp32Matmul,
        Self::Elementwise,
        Self::RecurringGap,
        Self::IrregularSteps,
        Self::Recording,
        Self::MemoryNearlyFull,
        Self::Unexplained,
        Self::Profiler,
        Self::IncompleteRecording,
        Self::NoDeviceWork,
    ];

    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::LowUtilization => "low_gpu_utilization",
            Self::DataLoading => "data_loading",
            Self::ExposedCommunication => "exposed_communication",
            Self::LateRank => "late_rank",
            Self::CollectiveCalls => "collective_calls",
            Self::SmallCollectives => "small_collectives",
            Self::LaunchBound => "launch_bound",
            Self::Synchronization => "synchronization",
            Self::HostBound => "host_bound",
            Self::ExposedCopies => "exposed_copies",
            Self::PageableCopies => "pageable_copies",
            Self::Allocator => "allocator",
            Self::ModuleLoad => "module_load",
            Self::GarbageCollection => "garbage_collection",
            Self::StepBoundary => "step_boundary",
            Self::Dependency => "stream_dependency",
            Self::Queued => "queued_work",
            Self::Blocked => "blocked_in_os",
            Self::DataTime => "data_time",
            Self::TinyKernels => "tiny_kernels",
            Self::SlowKernels => "slow_kernels",
            Self::LongKernel => "long_kernel",
            Self::Fp32Matmul => "fp32_matmul",
            Self::Elementwise => "unfused_elementwise",
            Self::RecurringGap => "recurring_gap",
            Self::IrregularSteps => "irregular_steps",
            Self::Recording => "python_tracing",
            Self::MemoryNearlyFull => "memory_nearly_full",
            Self::Unexplained => "unexplained_idle",
            Self::Profiler => "profiler_overhead",
            Self::IncompleteRecording => "incomplete_recording",
            Self::NoDeviceWork => "no_gpu_work",
        }
    }

    /// What it checks, for people. A cause of idle time is called as in the timeline.
    pub fn label(self) -> &'static str {
        match self {
            Self::LowUtilization => "GPU utilization",
            Self::DataLoading => Cause::DataLoading.label(),
            Self::ExposedCommunication => "Exposed communication",
            Self::LateRank => "Late rank",
            Self::CollectiveCalls => Cause::Collective.label(),
            Self::SmallCollectives => "Small collectives",
            Self::LaunchBound => Cause::LaunchBound.label(),
            Self::Synchronization => Cause::Synchronization.label(),
            Self::HostBound => Cause::Host.label(),
            Self::ExposedCopies => "Exposed copies",
            Self::PageableCopies => "Pageable copies",
            Self::Allocator => Cause::Allocator.label(),
            Self::ModuleLoad => Cause::ModuleLoad.label(),
            Self::GarbageCollection => Cause::GarbageCollection.label(),
            Self::StepBoundary => Cause::StepBoundary.label(),
            Self::Dependency => Cause::Dependency.label(),
            Self::Queued => Cause::Queued.label(),
            Self::Blocked => Cause::Blocked.label(),
            Self::DataTime => "Data time against GPU time",
            Self::TinyKernels => "Tiny kernels",
            Self::SlowKernels => "Slow kernels",
            Self::LongKernel => "One long kernel",
            Self::Fp32Matmul => "Matmuls in fp32",
            Self::Elementwise => "Unfused elementwise kernels",
            Self::RecurringGap => "Recurring gaps",
            Self::IrregularSteps => "Irregular steps",
            Self::Recording => "Cost of recording",
            Self::MemoryNearlyFull => "Memory headroom",
            Self::Unexplained => Cause::Unexplained.label(),
            Self::Profiler => Cause::Profiler.label(),
            Self::IncompleteRecording => "Recorded share",
            Self::NoDeviceWork => "GPU work recorded",
        }
    }

    /// Whether its findings are below its thresholds.
    pub fn is_low(self) -> bool {
        matches!(self, Self::LowUtilization | Self::IncompleteRecording)
    }

    /// Its thresholds.
    pub fn levels(self, of: &Thresholds) -> Levels {
        match self {
            Self::LowUtilization => of.utilization,
            Self::DataLoading => of.data_loading,
            Self::ExposedCommunication => of.communication,
            Self::LateRank => of.late_rank,
            Self::CollectiveCalls => of.collective_calls,
            Self::SmallCollectives => of.small_collectives,
            Self::LaunchBound => of.launch_bound,
            Self::Synchronization => of.synchronization,
            Self::HostBound => of.host_bound,
            Self::ExposedCopies => of.copies,
            Self::PageableCopies => of.pageable,
            Self::Allocator => of.allocator,
            Self::ModuleLoad => of.module_load,
            Self::GarbageCollection => of.garbage_collection,
            Self::StepBoundary => of.step_boundary,
            Self::Dependency => of.dependency,
            Self::Queued => of.queued,
            Self::Blocked => of.blocked,
            Self::DataTime => of.data_time,
            Self::TinyKernels => of.tiny_kernels,
            Self::SlowKernels => of.slow_kernels,
            Self::LongKernel => of.long_kernel,
            Self::Fp32Matmul => of.fp32_matmul,
            Self::Elementwise => of.elementwise,
            Self::RecurringGap => of.cluster,
            Self::IrregularSteps => of.irregular_steps,
            Self::Recording => of.recording,
            Self::MemoryNearlyFull => of.memory,
            Self::Unexplained => of.unexplained,
            Self::Profiler => of.profiler,
            Self::IncompleteRecording => of.recorded,
            Self::NoDeviceWork => of.no_work,
        }
    }

    /// The cause whose idle time it measures.
    pub fn cause(self) -> Option<Cause> {
        Some(match self {
            Self::DataLoading => Cause::DataLoading,
            Self::CollectiveCalls => Cause::Collective,
            Self::Queued => Cause::Queued,
            Self::LaunchBound => Cause::LaunchBound,
            Self::Synchronization => Cause::Synchronization,
            Self::HostBound => Cause::Host,
            Self::ExposedCopies => Cause::Copy,
            Self::Allocator => Cause::Allocator,
            Self::ModuleLoad => Cause::ModuleLoad,
            Self::GarbageCollection => Cause::GarbageCollection,
            Self::StepBoundary => Cause::StepBoundary,
            Self::Dependency => Cause::Dependency,
            Self::Blocked => Cause::Blocked,
            Self::Unexplained => Cause::Unexplained,
            Self::Profiler => Cause::Profiler,
            _ => return None,
        })
    }
}
