//! A recorder that is started and stopped while its program runs, by the user's word or by time.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::capture::run::last_lines;
use crate::capture::{nsys, registry};

/// Whether such a recorder is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    Off,
    Starting,
    On,
    /// It writes what it recorded.
    Stopping,
}

/// The recorder of a run, as its watching thread sees it.
#[derive(Debug)]
pub struct Switching {
    profile: nsys::Profile,
    folder: PathBuf,
    /// The program's own folder for temporary files.
    tmp: Option<OsString>,
    state: Switch,
    /// The `nsys` that starts or stops.
    busy: Option<Child>,
    /// Recordings that were started.
    n_started: u32,
    /// When the program began, and when the recorder was last on.
    began: Option<Instant>,
    on_since: Instant,
}

impl Switching {
    pub fn new(profile: &nsys::Profile, folder: &Path, tmp: Option<OsString>) -> Self {
        let profile = profile.clone();
        let (folder, now) = (folder.to_owned(), Instant::now());
        Self { profile, folder, tmp, state: Switch::Off, busy: None, n_started: 0, began: None, on_since: now }
    }

    pub fn state(&self) -> Switch {
        self.state
    }

    /// Goes on; `wants_on` is what the user said last. Called often.
    ///
    /// Errors: what `nsys` said when it could not be started or stopped.
    pub fn go_on(&mut self, wants_on: &mut Option<bool>) -> Result<(), String> {
        if let Some(busy) = &mut self.busy {
            let Ok(Some(ended)) = busy.try_wait() else { return Ok(()) };
            self.busy = None;
            let was = self.state;
            (self.state, self.on_since) =
                (if was == Switch::Starting { Switch::On } else { Switch::Off }, Instant::now());
            nsys::take_reports(&self.folder);
            if !ended.success() {
                let what = if was == Switch::Starting { "started" } else { "stopped" };
                self.state = Switch::Off;
                let said = last_lines(&self.log());
                return Err(format!("The recording could not be {what}: {}", said.lines().last().unwrap_or_default()));
            }
            return Ok(());
        }
        if self.began.is_none() && is_there(&self.folder) {
            self.began = Some(Instant::now());
        }
        let Some(began) = self.began else { return Ok(()) };
        let next = match self.state {
            Switch::Off if *wants_on == Some(true) => true,
            Switch::Off if self.is_due(began) => true,
            Switch::On if *wants_on == Some(false) => false,
            Switch::On if self.is_over() => false,
            _ => return Ok(()),
        };
        *wants_on = None;
        self.turn(next)
    }

    /// Whether the time for the recording has come.
    fn is_due(&self, began: Instant) -> bool {
        !self.profile.by_hand
            && self.n_started == 0
            && began.elapsed() >= Duration::from_secs(self.profile.delay.into())
    }

    fn is_over(&self) -> bool {
        let duration = Duration::from_secs(self.profile.duration.into());
        !duration.is_zero() && self.on_since.elapsed() >= duration
    }

    fn turn(&mut self, is_on: bool) -> Result<(), String> {
        self.state = if is_on { Switch::Starting } else { Switch::Stopping };
        self.n_started += u32::from(is_on);
        let mut command = self.profile.switch(&self.folder, is_on, self.n_started, self.tmp.as_deref());
        let started = File::create(self.log()).and_then(|log| {
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            registry::start_beside(&mut command, &self.folder)
        });
        match started {
            Ok(child) => self.busy = Some(child),
            Err(error) => {
                self.state = Switch::Off;
                return Err(format!("nsys could not be started: {error}"));
            }
        }
        Ok(())
    }

    fn log(&self) -> PathBuf {
        self.folder.join("nsys/log")
    }
}

impl Drop for Switching {
    fn drop(&mut self) {
        // The run has ended, and with it whatever was started beside it.
        if let Some(mut busy) = self.busy.take() {
            _ = busy.kill();
            _ = busy.wait();
        }
    }
}

/// Whether the program runs.
fn is_there(folder: &Path) -> bool {
    #[cfg(unix)]
    return !nsys::program(folder).is_empty();
    #[cfg(not(unix))]
    {
        let _ = folder;
        true
    }
}
