//! The fields of CUPTI's activity records that are read: those whose place is the same from CUDA 11.8 to 13.
//!
//! NVIDIA adds fields to the end of a record and renames its type: `CUpti_ActivityKernel6` with 168 bytes became
//! `CUpti_ActivityKernel13` with 248. What stands here is a prefix of all of them.

/// Values of `CUpti_ActivityKind`.
pub mod kind {
    pub const MEMCPY: u32 = 1;
    pub const MEMSET: u32 = 2;
    pub const KERNEL: u32 = 3;
    pub const DRIVER: u32 = 4;
    pub const RUNTIME: u32 = 5;
    /// Does not serialize kernels, as [`KERNEL`] does.
    pub const CONCURRENT_KERNEL: u32 = 10;
    pub const OVERHEAD: u32 = 17;
    /// Between devices.
    pub const MEMCPY_PEER: u32 = 22;
    pub const CUDA_EVENT: u32 = 36;
    pub const SYNCHRONIZATION: u32 = 38;
    pub const EXTERNAL_CORRELATION: u32 = 39;
    /// Kind 45 has records of another layout.
    pub const MEMORY: u32 = 49;
    pub const GRAPH_TRACE: u32 = 51;
}

/// Defines a record and, by the offsets given, the test of its layout.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident { $($offset:literal $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name { $(pub $field: $type,)* }

        impl $name {
            /// Each field with its offset in the headers, and in this type.
            #[cfg(test)]
            const OFFSETS: &[(&str, usize, usize)] =
                &[$((stringify!($field), $offset, std::mem::offset_of!($name, $field)),)*];
        }
    };
}

record!(
    /// `CUpti_ActivityKernel6` to `13`. Sizes in bytes, the memory of a thread included.
    Kernel {
        0 kind: u32,
        4 cache_config: u8,
        5 shared_memory_config: u8,
        6 registers_per_thread: u16,
        8 partitioned_cache: [u32; 2],
        16 start: u64,
        24 end: u64,
        32 completed: u64,
        40 device: u32,
        44 context: u32,
        48 stream: u32,
        52 grid: [i32; 3],
        64 block: [i32; 3],
        76 static_shared: i32,
        80 dynamic_shared: i32,
        84 local_per_thread: u32,
        88 local_total: u32,
        92 correlation: u32,
        96 grid_id: i64,
        104 name: *const std::ffi::c_char,
        112 reserved: *const std::ffi::c_void,
        120 queued: u64,
        128 submitted: u64,
        136 launch_type: u8,
        137 carveout: [u8; 3],
        140 shared_executed: u32,
        144 graph_node: u64,
        152 shared_limit: u32,
        156 graph: u32,
    }
);

record!(
    /// `CUpti_ActivityMemcpy4` to `7`.
    Memcpy {
        0 kind: u32,
        4 copy_kind: u8,
        5 source_kind: u8,
        6 target_kind: u8,
        7 flags: u8,
        8 bytes: u64,
        16 start: u64,
        24 end: u64,
        32 device: u32,
        36 context: u32,
        40 stream: u32,
        44 correlation: u32,
        48 runtime_correlation: u32,
        52 pad: u32,
        56 reserved: *const std::ffi::c_void,
        64 graph_node: u64,
        72 graph: u32,
    }
);

record!(
    /// `CUpti_ActivityMemcpyPtoP4`.
    MemcpyPeer {
        0 kind: u32,
        4 copy_kind: u8,
        5 source_kind: u8,
        6 target_kind: u8,
        7 flags: u8,
        8 bytes: u64,
        16 start: u64,
        24 end: u64,
        32 device: u32,
        36 context: u32,
        40 stream: u32,
        44 source_device: u32,
        48 source_context: u32,
        52 target_device: u32,
        56 target_context: u32,
        60 correlation: u32,
        64 reserved: *const std::ffi::c_void,
        72 graph_node: u64,
        80 graph: u32,
    }
);

record!(
    /// `CUpti_ActivityMemset3` to `5`.
    Memset {
        0 kind: u32,
        4 value: u32,
        8 bytes: u64,
        16 start: u64,
        24 end: u64,
        32 device: u32,
        36 context: u32,
        40 stream: u32,
        44 correlation: u32,
        48 flags: u16,
        50 memory_kind: u16,
        52 pad: u32,
        56 reserved: *const std::ffi::c_void,
        64 graph_node: u64,
        72 graph: u32,
    }
);

record!(
    /// `CUpti_ActivityMemory2` to `4`.
    Memory {
        0 kind: u32,
        4 operation: u32,
        8 memory_kind: u32,
        12 correlation: u32,
        16 address: u64,
        24 bytes: u64,
        32 timestamp: u64,
        40 pc: u64,
        48 process: u32,
        52 device: u32,
        56 context: u32,
        60 stream: u32,
    }
);

record!(
    /// `CUpti_ActivityAPI`, of calls of the runtime and of the driver.
    Api {
        0 kind: u32,
        4 cbid: u32,
        8 start: u64,
        16 end: u64,
        24 process: u32,
        28 thread: u32,
        32 correlation: u32,
        36 return_value: u32,
    }
);

record!(
    /// `CUpti_ActivityExternalCorrelation`.
    ExternalCorrelation {
        0 kind: u32,
        4 external_kind: u32,
        8 external: u64,
        16 correlation: u32,
    }
);

record!(
    /// `CUpti_ActivitySynchronization` and `2`.
    Synchronization {
        0 kind: u32,
        4 sync_type: u32,
        8 start: u64,
        16 end: u64,
        24 correlation: u32,
        28 context: u32,
        32 stream: u32,
        36 event: u32,
    }
);

record!(
    /// `CUpti_ActivityCudaEvent` and `2`: a call of `cudaEventRecord`.
    CudaEvent {
        0 kind: u32,
        4 correlation: u32,
        8 context: u32,
        12 stream: u32,
        16 event: u32,
    }
);

record!(
    /// `CUpti_ActivityGraphTrace` and `2`: a launch of a CUDA graph as a whole.
    GraphTrace {
        0 kind: u32,
        4 correlation: u32,
        8 start: u64,
        16 end: u64,
        24 device: u32,
        28 graph: u32,
        32 context: u32,
        36 stream: u32,
    }
);

record!(
    /// `CUpti_ActivityOverhead` to `3`.
    Overhead {
        0 kind: u32,
        4 overhead_kind: u32,
        8 object_kind: u32,
        12 object: [u32; 3],
        24 start: u64,
        32 end: u64,
    }
);

/// A record, by its kind.
#[derive(Clone, Copy, Debug)]
pub enum Record {
    Kernel(Kernel),
    Memcpy(Memcpy),
    MemcpyPeer(MemcpyPeer),
    Memset(Memset),
    Memory(Memory),
    Api(Api),
    External(ExternalCorrelation),
    Sync(Synchronization),
    Event(CudaEvent),
    Graph(GraphTrace),
    Overhead(Overhead),
    /// A kind that was not asked for.
    Unknown,
}

impl Record {
    /// Copies what is read of the record at this address.
    ///
    /// # Safety
    /// `at` is a whole record of CUPTI's, of CUDA 11.8 or later.
    pub unsafe fn read(at: *const u8) -> Self {
        // SAFETY: every record begins with its kind, which says how long the rest is at least.
        unsafe {
            match at.cast::<u32>().read_unaligned() {
                kind::KERNEL | kind::CONCURRENT_KERNEL => Self::Kernel(at.cast::<Kernel>().read_unaligned()),
                kind::MEMCPY => Self::Memcpy(at.cast::<Memcpy>().read_unaligned()),
                kind::MEMCPY_PEER => Self::MemcpyPeer(at.cast::<MemcpyPeer>().read_unaligned()),
                kind::MEMSET => Self::Memset(at.cast::<Memset>().read_unaligned()),
                kind::MEMORY => Self::Memory(at.cast::<Memory>().read_unaligned()),
                kind::DRIVER | kind::RUNTIME => Self::Api(at.cast::<Api>().read_unaligned()),
                kind::EXTERNAL_CORRELATION => Self::External(at.cast::<ExternalCorrelation>().read_unaligned()),
                kind::SYNCHRONIZATION => Self::Sync(at.cast::<Synchronization>().read_unaligned()),
                kind::CUDA_EVENT => Self::Event(at.cast::<CudaEvent>().read_unaligned()),
                kind::GRAPH_TRACE => Self::Graph(at.cast::<GraphTrace>().read_unaligned()),
                kind::OVERHEAD => Self::Overhead(at.cast::<Overhead>().read_unaligned()),
                _ => Self::Unknown,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest size of each record in the headers of CUDA 11.8 to 13.5.
    #[test]
    fn records_are_prefixes_of_those_in_the_headers() {
        let records = [
            ("Kernel", Kernel::OFFSETS, size_of::<Kernel>(), 168),
            ("Memcpy", Memcpy::OFFSETS, size_of::<Memcpy>(), 80),
            ("MemcpyPeer", MemcpyPeer::OFFSETS, size_of::<MemcpyPeer>(), 96),
            ("Memset", Memset::OFFSETS, size_of::<Memset>(), 80),
            ("Memory", Memory::OFFSETS, size_of::<Memory>(), 112),
            ("Api", Api::OFFSETS, size_of::<Api>(), 40),
            ("ExternalCorrelation", ExternalCorrelation::OFFSETS, size_of::<ExternalCorrelation>(), 24),
            ("Synchronization", Synchronization::OFFSETS, size_of::<Synchronization>(), 40),
            ("CudaEvent", CudaEvent::OFFSETS, size_of::<CudaEvent>(), 24),
            ("GraphTrace", GraphTrace::OFFSETS, size_of::<GraphTrace>(), 48),
            ("Overhead", Overhead::OFFSETS, size_of::<Overhead>(), 40),
        ];
        for (name, fields, size, at_least) in records {
            assert!(size <= at_least, "{name}: {size}");
            for (field, expected, found) in fields {
                assert_eq!(expected, found, "{name}.{field}");
            }
        }
    }
}
