//! Messages of a capture on stderr: files as they appear, missing files, and how to open them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::write_stderr;
use crate::capture::launch::{Run, Stage, Status, Switch, words};
use crate::figures::format;

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Results that are opened by their names; more are opened by their folder.
const MAX_NAMED: usize = 2;

/// What was said already: notes, and results by path.
#[derive(Default)]
struct Said {
    notes: HashSet<String>,
    results: HashSet<PathBuf>,
}

impl Said {
    /// Says what is new.
    fn look(&mut self, status: &Status) {
        for note in &status.notes {
            if self.notes.insert(note.clone()) {
                write_stderr(note);
            }
        }
        for result in &status.results {
            if self.results.insert(result.path.clone()) {
                let size = format::bytes(result.bytes as f64);
                write_stderr(&format!("Recorded {} ({size})", result.path.display()));
            }
        }
    }
}

/// Waits for the end of the program, says meanwhile what is new, and lets `switched` switch the recorder.
pub fn until_end(run: &Run, switched: Option<&AtomicBool>) -> Status {
    let mut said = Said::default();
    let mut shown = Some(Switch::Off);
    let mut stage = Stage::Running;
    loop {
        let last = run.wait_at_most(LOOK);
        let status = last.clone().unwrap_or_else(|| run.status());
        let before = std::mem::replace(&mut stage, status.stage);
        let is_left = before == Stage::Running && stage != before;
        // The program may be gone before it is seen to be asked to end.
        if let Some(limit) = status.time_limit.filter(|_| is_left && status.is_over_limit) {
            write_stderr(&format!("The {} s of --seconds are over", limit.as_secs()));
        }
        if let Some(text) = told(stage).filter(|_| stage != before) {
            write_stderr(text);
        }
        if let Some(exit) = status.exit.filter(|_| last.is_some()) {
            let elapsed = i64::try_from(status.elapsed.as_nanos()).unwrap_or(i64::MAX);
            // Known to the millisecond.
            let elapsed = format::moment(elapsed, 1_000_000);
            write_stderr(&format!("The run ended after {elapsed} with {}", exit.shown()));
        }
        said.look(&status);
        if let Some(status) = last {
            return status;
        }
        let Some(switched) = switched else { continue };
        if switched.swap(false, Ordering::Relaxed) {
            run.record(status.switch == Some(Switch::Off));
        }
        if status.switch != shown {
            shown = status.switch;
            write_stderr(match shown {
                Some(Switch::On) => "The recording has started",
                Some(Switch::Off) => "The recording has stopped",
                _ => continue,
            });
        }
    }
}

/// What is done to end a program.
fn told(stage: Stage) -> Option<&'static str> {
    Some(match stage {
        Stage::Interrupted => "The program is asked to end (SIGINT, as by Ctrl+C)",
        Stage::Terminated => "The program is told to end (SIGTERM)",
        Stage::Killed => "The program is killed (SIGKILL)",
        Stage::Running | Stage::Ending | Stage::Ended => return None,
    })
}

/// Says how to open what was recorded. `nsys`: the one that was chosen, which converts its reports.
pub fn end(run: &Run, status: &Status, nsys: Option<&Path>) {
    if !status.results.is_empty() {
        let nsys = nsys.iter().flat_map(|nsys| [OsStr::new("--nsys"), nsys.as_os_str()]);
        let results = status.results.iter().map(|result| result.path.as_os_str());
        let line = match status.results.len() <= MAX_NAMED {
            true => words::joined(nsys.chain(results)),
            false => words::joined(nsys.chain([run.folder.as_os_str()])),
        };
        write_stderr(&format!("Open with: lacuna {line}"));
    }
    write_stderr(&format!("The folder of the run is {}", run.folder.display()));
}
