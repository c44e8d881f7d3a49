//! The keys and words of snapshots, interned first so that each has a small known number.

macro_rules! known {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// Texts, by the number that they get.
        pub const TEXTS: &[&str] = &["", $($text),*];

        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "only counts the constants below")]
        enum Number { EMPTY, $($name),* }

        $(pub const $name: u32 = Number::$name as u32;)*
        pub const EMPTY: u32 = Number::EMPTY as u32;
    };
}

// Keys come first, at most 63 of them: which ones a dictionary has fits into 64 bits.
known! {
    NAME = "name",
    FILENAME = "filename",
    LINE = "line",
    ACTION = "action",
    ADDR = "addr",
    SIZE = "size",
    STREAM = "stream",
    TIME_US = "time_us",
    FRAMES = "frames",
    DEVICE_FREE = "device_free",
    DEVICE = "device",
    POOL_ID = "pool_id",
    SEGMENT_POOL_ID = "segment_pool_id",
    USER_METADATA = "user_metadata",
    COMPILE_CONTEXT = "compile_context",
    CATEGORY = "category",
    FORWARD_FRAMES = "forward_frames",
    ADDRESS = "address",
    TOTAL_SIZE = "total_size",
    ALLOCATED_SIZE = "allocated_size",
    ACTIVE_SIZE = "active_size",
    REQUESTED_SIZE = "requested_size",
    SEGMENT_TYPE = "segment_type",
    IS_EXPANDABLE = "is_expandable",
    BLOCKS = "blocks",
    STATE = "state",
    HISTORY = "history",
    REAL_SIZE = "real_size",
    STAGE = "stage",
    SEGMENTS = "segments",
    DEVICE_TRACES = "device_traces",
    ALLOCATOR_SETTINGS = "allocator_settings",
    EXTERNAL_ANNOTATIONS = "external_annotations",
    HOST_SEGMENTS = "host_segments",
    HOST_TRACES = "host_traces",
    ALLOC = "alloc",
    FREE_REQUESTED = "free_requested",
    FREE_COMPLETED = "free_completed",
    FREE = "free",
    SEGMENT_ALLOC = "segment_alloc",
    SEGMENT_FREE = "segment_free",
    SEGMENT_MAP = "segment_map",
    SEGMENT_UNMAP = "segment_unmap",
    OOM = "oom",
    SNAPSHOT = "snapshot",
    ANNOTATE = "annotate",
    USER_DEFINED = "user_defined",
    ACTIVE_ALLOCATED = "active_allocated",
    ACTIVE_AWAITING_FREE = "active_awaiting_free",
    ACTIVE_PENDING_FREE = "active_pending_free",
    INACTIVE = "inactive",
    SMALL = "small",
    LARGE = "large",
    START = "START",
    END = "END",
    NOT_AVAILABLE = "N/A",
}

/// Numbers below this may be keys.
pub const N_KEYS: usize = HOST_TRACES as usize + 1;
