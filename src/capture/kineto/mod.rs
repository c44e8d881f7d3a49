//! Traces on demand: Lacuna stands in for the daemon that the profiler library in PyTorch, Kineto, can be told by.
//!
//! With `KINETO_USE_DAEMON` set, a process with torch asks a daemon every few seconds whether it is to record, over
//! datagrams between Unix sockets. The script stays as it is; at its end, a few lines of Python from `assets/capture/`
//! tell the endpoint, and wait for a trace that is still being recorded. The socket lies in a private folder; versions
//! of torch that only know the one name `dynolog` for the whole machine are answered there, where no other daemon has
//! it. Only processes of the run are answered.
//!
//! Traces are by time and not by step: Kineto ignores a number of steps until it has recorded once.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod endpoint;
mod message;
mod socket;
#[cfg(test)]
mod tests;
mod traces;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[cfg(not(target_os = "linux"))]
pub use self::elsewhere::Endpoint;
#[cfg(target_os = "linux")]
pub use self::endpoint::Endpoint;
pub use self::traces::is_writing;

/// Why a trace cannot be recorded now: a sentence.
pub const NO_PROCESS: &str = "No process can record now: none has imported torch yet, or all have ended, or the \
                              profiler library in their torch does not answer, as in torch 2.0 without a GPU";
use super::pytorch::{self, Contents};

/// How often processes are asked to ask, in seconds; Kineto does so every five unless told.
const INTERVAL: u64 = 1;
const KINETO_INTERVAL: u64 = 5;
/// Seconds with the profiler on whose events are thrown away.
const WARM_UP: u64 = 1;
/// Time beyond its own after which a trace is not waited for any more, unless its file grows.
const LATE: Duration = Duration::from_secs(20);

/// What is recorded each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Duration of each trace.
    pub duration: Duration,
    /// Time between the starts of traces that begin by themselves; `None` is on request alone.
    pub every: Option<Duration>,
    /// Ranks that are recorded; `None` is all.
    pub ranks: Option<BTreeSet<u32>>,
    pub contents: Contents,
}

impl Options {
    /// What Kineto is told, as lines of `KEY=value`.
    ///
    /// * `file`: where the trace goes; Kineto puts the process before the extension.
    /// * `start_ms`: when to begin, milliseconds since 1970; `None` is at once.
    fn configuration(&self, file: &Path, start_ms: Option<u128>) -> String {
        let mut text = format!(
            "ACTIVITIES_LOG_FILE={}\nACTIVITIES_DURATION_MSECS={}\nACTIVITIES_WARMUP_PERIOD_SECS={WARM_UP}\n",
            file.display(),
            self.duration.as_millis().max(1),
        );
        let Contents { record_shapes, with_stack, profile_memory, with_flops, with_modules } = self.contents;
        for (key, is_on) in [
            ("PROFILE_REPORT_INPUT_SHAPES", record_shapes),
            ("PROFILE_WITH_STACK", with_stack),
            ("PROFILE_PROFILE_MEMORY", profile_memory),
            ("PROFILE_WITH_FLOPS", with_flops),
            ("PROFILE_WITH_MODULES", with_modules),
        ] {
            text.push_str(&format!("{key}={is_on}\n"));
        }
        if let Some(start) = start_ms {
            text.push_str(&format!("PROFILE_START_TIME={start}\n"));
        }
        text
    }
}

/// Where Kineto writes in the folder of a run, before a trace is whole.
fn place(folder: &Path) -> PathBuf {
    folder.join("kineto")
}

/// The private folder of the sockets of a run. Kineto adds 53 bytes to its path without asking whether they fit into
/// the 108 of an address.
fn socket_folder(folder: &Path) -> PathBuf {
    const LONGEST: usize = 108 - 1 - "/dynoconfigclient".len() - 36;
    let name = format!("lacuna-{:016x}", hash(folder.as_os_str().as_encoded_bytes()));
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|own| own.is_absolute() && own.is_dir());
    let own = own.map(|own| own.join(&name)).filter(|own| own.as_os_str().len() <= LONGEST);
    own.unwrap_or_else(|| Path::new("/tmp").join(&name))
}

/// FNV-1a, the same in every process.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The file by which Kineto asks more often, where nothing else configures it.
fn base_configuration(folder: &Path, is_configured: bool) -> Option<PathBuf> {
    (!is_configured && !Path::new("/etc/libkineto.conf").exists()).then(|| place(folder).join("libkineto.conf"))
}

/// Has each Python process of the run that imports torch tell its end.
///
/// Errors: the folder cannot be written to.
pub fn prepare(folder: &Path) -> std::io::Result<()> {
    pytorch::install(folder, include_str!("../../../assets/capture/lacuna_on_demand.py"))
}

/// Additions to the environment of the program. `is_configured`: whether the user set `KINETO_CONFIG`.
pub fn environment(folder: &Path, is_configured: bool) -> Vec<(OsString, OsString)> {
    let mut env = vec![
        ("KINETO_USE_DAEMON".into(), "1".into()),
        ("KINETO_IPC_SOCKET_DIR".into(), socket_folder(folder).into()),
        ("KINETO_ONDEMAND_TRACE_DIR".into(), place(folder).into()),
    ];
    env.extend(base_configuration(folder, is_configured).map(|file| ("KINETO_CONFIG".into(), file.into())));
    env
}

/// Removes what the run in a folder left elsewhere when its Lacuna was killed.
pub fn remove_leftovers(folder: &Path) {
    // What is someone else's stays.
    #[cfg(target_os = "linux")]
    {
        _ = socket::remove(&socket_folder(folder));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = folder;
}

/// Why Kineto could not write into the folder of the run: a sentence.
pub fn obstacle(folder: &Path) -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("Traces on demand need Linux: Kineto has its daemon's interface there alone".to_owned());
    }
    let is_taken = folder
        .to_str()
        .is_some_and(|path| !path.contains("..") && !path.chars().any(|c| c.is_control() || c == '#' || c == '='));
    (!is_taken).then(|| {
        "The folder of the run has a character in its path that Kineto cannot take (#, =, a line break, two dots): \
         choose another"
            .to_owned()
    })
}
