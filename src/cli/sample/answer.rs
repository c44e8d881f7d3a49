//! What must a correct tool say about a generated trace? The generator knows, and writes it here.

use serde::Serialize;

/// The known answer of one generated trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answer {
    pub schema: u32,
    pub kind: &'static str,
    pub seed: u64,
    pub steps: u32,
    /// Events in the file, by what they are.
    pub slices: u64,
    pub flow_starts: u64,
    pub flow_ends: u64,
    pub instants: u64,
    pub metadata: u64,
    pub devices: Vec<DeviceAnswer>,
}

/// The known answer of one GPU. All times in nanoseconds of the trace's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceAnswer {
    pub device: u32,
    pub kernels: u64,
    pub memcpys: u64,
    pub memsets: u64,
    /// First start and last end of any kernel, copy or memset.
    pub window: [i64; 2],
    pub window_ns: i64,
    /// Time in which at least one kernel, copy or memset runs, on any stream.
    pub busy_ns: i64,
    /// The rest of the window: `window_ns == busy_ns + idle_ns`.
    pub idle_ns: i64,
    /// Maximal idle intervals inside the window.
    pub gaps: u64,
    /// Those of at least 30 µs.
    pub macro_gaps: u64,
    /// The macro gaps that were planted, in time order. Every gap of a millisecond or more is among them.
    pub planted: Vec<PlantedGap>,
}

/// An idle interval of the device with the reason for which the generator made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlantedGap {
    /// `loader`, `sync`, `allocator` or `gc`.
    pub cause: &'static str,
    /// The number in `ProfilerStep#`.
    pub step: u32,
    pub start_ns: i64,
    pub dur_ns: i64,
}
