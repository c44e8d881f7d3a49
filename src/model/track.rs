//! Where slices, instants and samples lie: processes and their tracks.

/// A track of one trace; an index into [`super::Trace::tracks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct TrackId(pub u32);

/// A process of one trace; an index into [`super::Trace::processes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ProcessId(pub u32);

/// What a track holds.
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

/// One context in which events of one sort happen: a thread, a stream, a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    pub kind: TrackKind,
    pub process: ProcessId,
    /// What to show: the thread's name, else its id.
    pub name: String,
    /// The thread or stream id as the file writes it; empty for counters and async tracks.
    pub tid: String,
    /// The file's wish for its place among its siblings; the smallest comes first.
    pub sort_index: i64,
}

impl Track {
    /// What it is called on screen: `main`, or by its id `stream 7`.
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
    /// Further words the file has for it, such as `GPU 0`.
    pub labels: String,
    /// Its place among the processes; the smallest comes first.
    pub sort_index: i64,
    /// Index of the device whose work this process holds.
    pub device: Option<u32>,
}

impl Process {
    /// One line that says which process this is: `python 1234 (CPU)`.
    pub fn title(&self) -> String {
        let name = match (self.name.as_str(), self.pid.as_str()) {
            ("", "") => "Process without id".to_owned(),
            // So Kineto numbers the process that holds its own overhead.
            ("", "-1") => "Profiler overhead".to_owned(),
            ("", pid) if pid.bytes().all(|b| b.is_ascii_digit()) => format!("Process {pid}"),
            ("", pid) => pid.to_owned(),
            (name, pid) if pid.is_empty() || name == pid || name.contains(pid) => name.to_owned(),
            (name, pid) => format!("{name} {pid}"),
        };
        match (self.device, self.labels.as_str()) {
            (Some(device), "") => format!("GPU {device}"),
            (Some(_), labels) => labels.to_owned(),
            (None, "") => name,
            (None, labels) => format!("{name} ({labels})"),
        }
    }
}
