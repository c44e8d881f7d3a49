//! Runs a child program with limits on time and output, and ends its whole process group.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Polling interval of a running program, and the latency of a cancel.
const LOOK: Duration = Duration::from_millis(20);
/// Most output of a program, in bytes; a program that writes more is ended.
const MAX_LOG: u64 = 256 << 20;
/// Bytes at the end of the output that are searched for the last lines.
const TAIL: u64 = 64 << 10;
const TAIL_LINES: usize = 20;

/// How a program ended.
#[derive(Debug)]
pub enum ExitReason {
    Exited(ExitStatus),
    /// `keep_on` returned false.
    Stopped,
    /// Its output exceeded the limit.
    Flooded,
}

/// Runs `command` in a process group of its own, without input, its output into the file `log`.
///
/// `keep_on` is called every 20 ms with the time since the start; once it returns false, the group is killed.
/// All processes in the group have ended when this returns.
/// Errors: the program cannot be started, or the log cannot be written.
pub fn run(
    command: &mut Command,
    log: &Path,
    mut keep_on: impl FnMut(Duration) -> bool,
) -> std::io::Result<ExitReason> {
    let file = File::create(log)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let started = Instant::now();
    let mut child = Group(command.spawn()?);
    loop {
        // It stays in the process table until it is waited for, so its id is not reused.
        if child.has_ended()? {
            child.kill();
            return Ok(ExitReason::Exited(child.0.wait()?));
        }
        if !keep_on(started.elapsed()) {
            return Ok(ExitReason::Stopped);
        }
        if std::fs::metadata(log).is_ok_and(|log| log.len() > MAX_LOG) {
            return Ok(ExitReason::Flooded);
        }
        std::thread::sleep(LOOK);
    }
}

/// A program and its descendants; dropping it ends them all.
struct Group(Child);

impl Group {
    /// Whether the program itself has ended, without waiting for it.
    #[cfg(unix)]
    fn has_ended(&mut self) -> std::io::Result<bool> {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let Some(id) = self.id() else { return Ok(true) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::Pid(id), options)?.is_some())
    }

    #[cfg(not(unix))]
    fn has_ended(&mut self) -> std::io::Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }

    #[cfg(unix)]
    fn id(&self) -> Option<rustix::process::Pid> {
        rustix::process::Pid::from_raw(i32::try_from(self.0.id()).ok()?)
    }

    /// Ends the program and its group. Processes that have already ended are ignored.
    fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(id) = self.id() {
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
        #[cfg(not(unix))]
        let _ = self.0.kill();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // After a wait its id may be reused, so it must not be signalled again.
        if matches!(self.0.try_wait(), Ok(None)) {
            self.kill();
            let _ = self.0.wait();
        }
    }
}

/// The last 20 lines of a log, for a person: without control characters, what is no Unicode replaced.
pub fn last_lines(log: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    // Progress bars overwrite a line: keep the last text of each.
    let shown = |line: &str| {
        let last = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        last.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned()
    };
    let lines: Vec<String> = text.lines().map(shown).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
