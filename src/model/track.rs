//! Processes and their tracks, which hold slices, instants and samples.

/// A track of one trace; an index into [`super::Trace::tracks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct TrackId(pub u32);

/// A process of one trace; an index into [`super::Trace::processes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ProcessId(pub u32);

/// Kind of a track.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackKind {
    /// Slices and instants of one CPU thread.
    #[default]
    Thread,
    /// Work of one device stream.
    Stream,
    /// Slices of one asynchronous operation family, which belong to no thread.
    Async,
    /// Values over time.
    Counter,
}

/// Ends the name of a track that shows when a thread ran on a CPU; the thread's own track has the name without it.
pub const ON_CPU: &str = ": on CPU";

/// The name of a track that shows what hardware counters counted for each kernel, in the order in which they ran. The
/// times are not those of the kernels, which such a recorder does not tell.
pub const KERNEL_COUNTERS: &str = "Counters, made-up times";

/// A sequence of related events: those of a thread, a stream or a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    pub kind: TrackKind,
    pub process: ProcessId,
    /// The thread's name, else its id.
    pub name: String,
    /// The thread or stream id as the file writes it; empty for counters and async tracks.
    pub tid: String,
    /// Recorded sort index among the tracks of its process, ascending.
    pub sort_index: i64,
}

impl Track {
    /// Display name: `main`, or by id `stream 7`.
    pub fn title(&self) -> String {
        let name = if self.name.is_empty() { &self.tid } else { &self.name };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match self.kind {
            TrackKind::Stream if is_number(name) => format!("stream {name}"),
            TrackKind::Thread if is_number(name) => format!("thread {name}"),
            _ if name.is_empty() => "Track without name".to_owned(),
            _ => name.trim().to_owned(),
        }
    }
}

/// A process of the recording, or a device: Chrome traces give each GPU a process of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The process id as the file writes it.
    pub pid: String,
    pub name: String,
    /// Recorded labels, such as `GPU 0`.
    pub labels: String,
    /// Sort index among the processes, ascending.
    pub sort_index: i64,
    /// Index of the device whose work it holds.
    pub device: Option<u32>,
}

/// Whether a label is that which Kineto gives to a GPU, such as `GPU 1`.
fn is_of_gpu(label: &str) -> bool {
    label.strip_prefix("GPU ").is_some_and(|index| index.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Process {
    /// Display name: `python 1234 (CPU)`.
    pub fn title(&self) -> String {
        let name = match (self.name.as_str(), self.pid.as_str()) {
            ("", "") => "Events of no process".to_owned(),
            // Kineto uses this id for its own overhead.
            ("", "-1") => "Profiler overhead".to_owned(),
            ("", pid) if pid.bytes().all(|b| b.is_ascii_digit()) => format!("Process {pid}"),
            ("", pid) => pid.to_owned(),
            (name, pid) if pid.is_empty() || name == pid || name.contains(pid) => name.to_owned(),
            (name, pid) => format!("{name} {pid}"),
        };
        match (self.device, self.labels.as_str()) {
            (Some(device), "") => format!("GPU {device}"),
            (Some(_), labels) => labels.to_owned(),
            // Chrome traces label GPUs by numbers of processes, also those of programs that have the same.
            (None, labels) if labels.is_empty() || is_of_gpu(labels) => name,
            (None, labels) => format!("{name} ({labels})"),
        }
    }
}
