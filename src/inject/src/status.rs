//! Status of the recording of a process: the file `cupti-PID.status` beside the trace, one JSON object.
//!
//! | key | value |
//! |---|---|
//! | `pid`, `program` | the process and its name |
//! | `state` | `recording` or `finished`; a process that was killed stays at `recording` |
//! | `cuda` | `not used`, `recorded` or `failed` |
//! | `problems` | sentences for the user: why CUDA is not recorded, and what was lost |
//! | `library`, `cupti_version` | the libcupti that records, null without one |
//! | `trace`, `events` | name of the trace, null as long as it has no events, and how many it has |

use std::fs::OpenOptions;
use std::io::{Result, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::json::push_text;

#[derive(Clone, Debug, Default)]
pub struct Status {
    pub pid: u32,
    pub program: String,
    pub is_finished: bool,
    pub cuda: Cuda,
    pub problems: Vec<String>,
    pub library: Option<PathBuf>,
    pub cupti_version: u32,
    pub trace: Option<String>,
    pub n_events: u64,
}

/// Whether CUDA is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cuda {
    #[default]
    NotUsed,
    Recorded,
    Failed,
}

impl Status {
    fn json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let state = if self.is_finished { "finished" } else { "recording" };
        let cuda = match self.cuda {
            Cuda::NotUsed => "not used",
            Cuda::Recorded => "recorded",
            Cuda::Failed => "failed",
        };
        let text = |out: &mut Vec<u8>, key: &str, value: Option<&str>| {
            let _ = write!(out, ", \"{key}\": ");
            match value {
                Some(value) => push_text(out, value),
                None => out.extend_from_slice(b"null"),
            }
        };
        let _ = write!(out, "{{\"pid\": {}", self.pid);
        text(&mut out, "program", Some(&self.program));
        text(&mut out, "state", Some(state));
        text(&mut out, "cuda", Some(cuda));
        out.extend_from_slice(b", \"problems\": [");
        for (i, problem) in self.problems.iter().enumerate() {
            out.extend_from_slice(if i == 0 { b"" } else { b", " });
            push_text(&mut out, problem);
        }
        out.push(b']');
        text(&mut out, "library", self.library.as_deref().map(Path::to_string_lossy).as_deref());
        match self.library {
            Some(_) => drop(write!(out, ", \"cupti_version\": {}", self.cupti_version)),
            None => text(&mut out, "cupti_version", None),
        }
        text(&mut out, "trace", self.trace.as_deref());
        let _ = writeln!(out, ", \"events\": {}}}", self.n_events);
        out
    }

    /// Writes the file, whole or not at all.
    ///
    /// Errors: those of the file system.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(format!("cupti-{}.status", self.pid));
        let part = folder.join(format!("cupti-{}.status.part", self.pid));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(&self.json())?;
        std::fs::rename(part, path)
    }
}
