//! A display without a screen, on which windows open, and are closed as a user closes them.
#![cfg(target_os = "linux")]

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Ends with all that was started on it, also in a test that fails.
pub struct Display {
    name: String,
    home: PathBuf,
    started: Vec<Child>,
}

impl Display {
    /// * `home`: of the programs on it.
    ///
    /// Says what is missing and returns `None` where it cannot be had.
    pub fn new(home: &Path) -> Option<Self> {
        let mut command = Command::new("Xvfb");
        command.args(["-displayfd", "1", "-screen", "0", "800x600x24", "-nolisten", "tcp"]);
        let Ok(mut server) = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
            eprintln!("skipped: Xvfb is not installed");
            return None;
        };
        let mut number = String::new();
        std::io::BufReader::new(server.stdout.take()?).read_line(&mut number).ok()?;
        Some(Self { name: format!(":{}", number.trim()), home: home.to_owned(), started: vec![server] })
    }

    /// The value of `DISPLAY`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A program on this display alone.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("DISPLAY", &self.name).env("HOME", &self.home).env("XDG_CACHE_HOME", &self.home);
        command.env("LIBGL_ALWAYS_SOFTWARE", "1").env("MESA_SHADER_CACHE_DISABLE", "1");
        command.env_remove("WAYLAND_DISPLAY").env_remove("DBUS_SESSION_BUS_ADDRESS").stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Starts what asks windows to close; false, and says so, where it is not installed.
    pub fn has_manager(&mut self) -> bool {
        match (self.command("openbox").spawn(), self.xdotool(&["version"])) {
            (Ok(manager), true) => {
                self.started.push(manager);
                true
            }
            (manager, _) => {
                self.started.extend(manager);
                eprintln!("skipped: openbox or xdotool is not installed");
                false
            }
        }
    }

    /// Starts a program, which ends with the display. Returns its number.
    pub fn start(&mut self, mut command: Command) -> usize {
        self.started.push(command.spawn().unwrap());
        self.started.len() - 1
    }

    /// How a program ended, if it did.
    pub fn ended(&mut self, program: usize) -> Option<ExitStatus> {
        self.started[program].try_wait().unwrap()
    }

    /// Asks the window to close until its program ends, for it may take no keys yet; for 60 seconds at most.
    pub fn close(&mut self, program: usize) -> Option<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) {
            if self.xdotool(&["search", "--onlyvisible", "--name", "Lacuna", "windowfocus"]) {
                self.xdotool(&["key", "--clearmodifiers", "alt+F4"]);
            }
            std::thread::sleep(Duration::from_millis(50));
            let status = self.ended(program);
            if status.is_some() {
                return status;
            }
        }
        None
    }

    fn xdotool(&self, words: &[&str]) -> bool {
        self.command("xdotool").args(words).status().is_ok_and(|status| status.success())
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        for child in self.started.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
