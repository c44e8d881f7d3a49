//! Runs a program with limits on time and output, and ends all that it started.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::registry;
use super::scratch::Scratch;

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

/// Runs `command` in a process group of its own, in the folder, without input, its output into the folder's log.
///
/// `keep_on` is called every 20 ms with the time since the start; once it returns false, the program is killed.
/// When this returns, all that the program started has ended.
/// Errors: the program cannot be started, the log cannot be written, or Lacuna is about to end.
pub fn run(
    command: &mut Command,
    scratch: &Scratch,
    mut keep_on: impl FnMut(Duration) -> bool,
) -> std::io::Result<ExitReason> {
    let log = scratch.log();
    let file = File::create(&log)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    command.current_dir(scratch.path()).env("TMPDIR", scratch.path());
    let started = Instant::now();
    let mut running = Running { child: registry::start(command, scratch.path())?, folder: scratch.path() };
    loop {
        if running.has_ended()? {
            running.end();
            return Ok(ExitReason::Exited(running.child.wait()?));
        }
        if !keep_on(started.elapsed()) {
            return Ok(ExitReason::Stopped);
        }
        if std::fs::metadata(&log).is_ok_and(|log| log.len() > MAX_LOG) {
            return Ok(ExitReason::Flooded);
        }
        std::thread::sleep(LOOK);
    }
}

/// A program; dropping it ends it with all that it started.
pub struct Running<'a> {
    pub child: Child,
    pub folder: &'a Path,
}

impl Running<'_> {
    /// Whether the program itself has ended, without waiting for it.
    #[cfg(unix)]
    pub fn has_ended(&mut self) -> std::io::Result<bool> {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return Ok(true) };
        // It stays in the process table, so that its id is not reused.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::Pid(id), options)?.is_some())
    }

    #[cfg(not(unix))]
    pub fn has_ended(&mut self) -> std::io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Ends what is left of it.
    pub fn end(&mut self) {
        #[cfg(not(unix))]
        let _ = self.child.kill();
        registry::end(self.folder);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // After a wait its id may be reused: `end` was called before.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
            let _ = self.child.wait();
        }
    }
}

/// The last 20 lines of a log, for the user: without control characters, bytes that are not Unicode replaced.
pub fn last_lines(log: &Path) -> String {
    let text = tail(log);
    // Progress bars overwrite a line: keep the last text of each.
    let shown = |line: &str| {
        let last = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        last.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned()
    };
    let lines: Vec<String> = text.lines().map(shown).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// The percentage that a program wrote last: 0 to 100.
pub fn percentage(log: &Path) -> Option<u64> {
    let text = tail(log);
    let before = text[..text.rfind('%')?].trim_end();
    let digits = before.rfind(|c: char| !c.is_ascii_digit() && c != '.').map_or(0, |at| at + 1);
    // Text of any kind may stand before the digits.
    let number = before.get(digits..)?.split('.').next()?;
    number.parse().ok().filter(|&percent| percent <= 100)
}

fn tail(log: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}
