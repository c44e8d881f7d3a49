//! The trace: a Chrome trace in JSON with the categories and args of the PyTorch profiler's.
//!
//! Whole events are appended, so of a program that is killed at most the last one is cut, which Lacuna repairs.
//! Times are microseconds since `baseTimeNanoseconds`, to the nanosecond.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::clock;
use super::json::{push_microseconds, push_text};

/// Text that is gathered before it is written, in bytes.
const CHUNK: usize = 1 << 20;
/// Process ids below it could be indices of devices, which are process ids in this format.
const MAX_DEVICES: u32 = 1024;

/// The row that a slice is on.
#[derive(Clone, Copy, Debug)]
pub enum TrackRow {
    Thread(u32),
    /// Device and stream; without a stream, the device as a whole.
    Stream(u32, Option<u32>),
    Overhead,
}

#[derive(Debug)]
pub struct TraceFile {
    folder: PathBuf,
    pid: u32,
    /// The process id as JSON.
    host: String,
    base_ns: i64,
    file: Option<File>,
    pub name: Option<String>,
    text: Vec<u8>,
    pub n_events: u64,
    /// Threads that have their name.
    named: HashSet<u32>,
    devices: HashSet<u32>,
    has_properties: bool,
    /// Why nothing is written any more.
    pub failure: Option<String>,
}

impl TraceFile {
    /// The trace of this process; the file is made once it has an event.
    pub fn new(folder: &Path, pid: u32) -> Self {
        Self {
            folder: folder.to_owned(),
            pid,
            host: if pid < MAX_DEVICES { format!("\"process {pid}\"") } else { pid.to_string() },
            base_ns: clock::now() / 1_000_000_000 * 1_000_000_000,
            file: None,
            name: None,
            text: Vec::new(),
            n_events: 0,
            named: HashSet::new(),
            devices: HashSet::new(),
            has_properties: false,
            failure: None,
        }
    }

    /// Whether the file's first line is still to be written, which properties of devices can be part of.
    pub fn is_new(&self) -> bool {
        self.text.is_empty() && self.file.is_none()
    }

    /// Begins the file.
    ///
    /// * `facts`: keys and values in JSON, each after a comma.
    /// * `properties`: of the devices, a list in JSON.
    pub fn begin(&mut self, facts: &str, properties: Option<&str>) {
        let version = env!("CARGO_PKG_VERSION");
        let base = self.base_ns;
        let _ = write!(
            self.text,
            "{{\"recorder\":\"Lacuna {version}\",\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":{base}{facts}"
        );
        if let Some(properties) = properties {
            let _ = write!(self.text, ",\"deviceProperties\":{properties}");
            self.has_properties = true;
        }
        self.text.extend_from_slice(b",\"traceEvents\":[\n");
        let program = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        self.meta("process_name", "name", program.trim_end());
        self.meta("process_labels", "labels", "CPU");
    }

    /// Adds a slice; `args` appends members of its args without the outer braces.
    ///
    /// * `range`: begin and end in nanoseconds since 1970.
    pub fn slice(
        &mut self,
        category: &str,
        name: &str,
        place: TrackRow,
        range: (i64, i64),
        args: impl FnOnce(&mut Vec<u8>),
    ) {
        self.introduce(place);
        let out = &mut self.text;
        let _ = write!(out, "{}{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":", separator(self.n_events));
        push_text(out, name);
        let _ = match place {
            TrackRow::Thread(thread) => write!(out, ",\"pid\":{},\"tid\":{thread}", self.host),
            TrackRow::Stream(device, Some(stream)) => write!(out, ",\"pid\":{device},\"tid\":{stream}"),
            TrackRow::Stream(device, None) => write!(out, ",\"pid\":{device},\"tid\":-1"),
            TrackRow::Overhead => write!(out, ",\"pid\":-1,\"tid\":0"),
        };
        out.extend_from_slice(b",\"ts\":");
        push_microseconds(out, range.0 - self.base_ns);
        out.extend_from_slice(b",\"dur\":");
        push_microseconds(out, (range.1 - range.0).max(0));
        self.end_event(args);
    }

    /// Adds a mark on a thread.
    pub fn instant(&mut self, name: &str, thread: u32, ts: i64, args: impl FnOnce(&mut Vec<u8>)) {
        self.introduce(TrackRow::Thread(thread));
        let out = &mut self.text;
        let _ =
            write!(out, "{}{{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"user_annotation\",\"name\":", separator(self.n_events));
        push_text(out, name);
        let _ = write!(out, ",\"pid\":{},\"tid\":{thread},\"ts\":", self.host);
        push_microseconds(out, ts - self.base_ns);
        self.end_event(args);
    }

    /// Adds an allocation, or a free with negative bytes.
    ///
    /// * `device`: its index; `None` for pinned memory of the host.
    pub fn memory(&mut self, thread: u32, ts: i64, device: Option<u32>, address: u64, bytes: i64) {
        self.introduce(TrackRow::Thread(thread));
        let (kind, id) = device.map_or((0, -1), |device| (1, i64::from(device)));
        let out = &mut self.text;
        let _ = write!(
            out,
            "{}{{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"pid\":{},\"tid\":{thread},\"ts\":",
            separator(self.n_events),
            self.host
        );
        push_microseconds(out, ts - self.base_ns);
        self.end_event(|out| {
            let _ = write!(out, "\"Device Type\":{kind},\"Device Id\":{id},\"Addr\":{address},\"Bytes\":{bytes}");
        });
    }

    pub fn name_thread(&mut self, thread: u32, name: &str) {
        self.named.insert(thread);
        let host = self.host.clone();
        self.meta_of(&host, thread, "thread_name", "name", name);
    }

    /// Writes what was gathered, if it is much or `is_due`.
    pub fn write(&mut self, is_due: bool) {
        if self.text.is_empty() || !(is_due || self.text.len() >= CHUNK) {
            return;
        }
        if self.failure.is_none()
            && let Err(error) = self.try_write()
        {
            self.failure = Some(format!("The trace cannot be written, so the recording ended early: {error}"));
        }
        self.text.clear();
    }

    fn try_write(&mut self) -> Result<()> {
        if self.file.is_none() {
            let (name, file) = create(&self.folder, self.pid)?;
            (self.name, self.file) = (Some(name), Some(file));
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(&self.text))
    }

    /// Ends the file.
    ///
    /// * `facts`: keys and values in JSON, each after a comma.
    pub fn finish(&mut self, facts: &str, properties: Option<&str>) {
        if self.is_new() {
            return;
        }
        self.text.extend_from_slice(b"\n]");
        if let Some(properties) = properties.filter(|_| !self.has_properties) {
            let _ = write!(self.text, ",\"deviceProperties\":{properties}");
        }
        let _ = writeln!(self.text, "{facts}}}");
        self.write(true);
    }

    /// Names a row before its first event.
    fn introduce(&mut self, place: TrackRow) {
        match place {
            TrackRow::Thread(thread) if !self.named.contains(&thread) => {
                let comm = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
                let name = match comm.trim_end() {
                    "" => format!("thread {thread}"),
                    comm => format!("thread {thread} ({comm})"),
                };
                self.name_thread(thread, &name);
            }
            TrackRow::Stream(device, _) if self.devices.insert(device) => {
                self.meta_of(&device.to_string(), 0, "process_labels", "labels", &format!("GPU {device}"));
            }
            _ => {}
        }
    }

    fn meta(&mut self, what: &str, key: &str, value: &str) {
        let host = self.host.clone();
        self.meta_of(&host, 0, what, key, value);
    }

    fn meta_of(&mut self, pid: &str, tid: u32, what: &str, key: &str, value: &str) {
        let out = &mut self.text;
        let comma = separator(self.n_events);
        let _ = write!(out, "{comma}{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{pid},\"tid\":{tid},\"ts\":0");
        self.end_event(|out| {
            let _ = write!(out, "\"{key}\":");
            push_text(out, value);
        });
    }

    fn end_event(&mut self, args: impl FnOnce(&mut Vec<u8>)) {
        self.text.extend_from_slice(b",\"args\":{");
        args(&mut self.text);
        self.text.extend_from_slice(b"}}");
        self.n_events += 1;
        self.write(false);
    }
}

fn separator(n_events: u64) -> &'static str {
    if n_events == 0 { "" } else { ",\n" }
}

/// A new file that only its owner can read: `cupti-PID.json`, with a further number if that is in use.
fn create(folder: &Path, pid: u32) -> Result<(String, File)> {
    let mut name = format!("cupti-{pid}.json");
    for n in 2..1000 {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(&name)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => name = format!("cupti-{pid}-{n}.json"),
            opened => return opened.map(|file| (name, file)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}
