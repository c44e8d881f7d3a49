//! However Lacuna ends, the `nsys` that it started ends, with all that it started, and leaves no files.
#![cfg(unix)]

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// An `nsys` that starts a child, one that leaves its process group and one that also forgets its parent, writes
/// files, then says so in the file `$READY` and goes on for ever.
const NSYS: &str = r#"#!/bin/sh
linger() {
    sleep "$WORD" &
    setsid sleep "$WORD" &
    (setsid sh -c 'trap "" TERM HUP INT; sleep "$WORD" & sleep "$WORD"' &)
    echo half > "$TMPDIR/other.tmp"
    : > "$READY"
    while :; do sleep "$WORD"; done
}
if [ "$1" = --version ]; then
    [ "$STAGE" = version ] && linger
    echo 'NVIDIA Nsight Systems version 2023.4.4.54'
    exit 0
fi
shift 6
[ "$STAGE" = file ] && printf 'SQLite format 3\000' > "$1" && : > "$1-journal"
printf 'Processing 9 events: [   4%%  ]'
linger
"#;

struct Stage {
    folder: tempfile::TempDir,
    word: String,
    stage: &'static str,
}

impl Stage {
    fn new(stage: &'static str, word: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Written by another process: were it open for writing here while another test forks, it could not be run.
        let write = "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"";
        let nsys = folder.path().join("nsys");
        assert!(Command::new("sh").args(["-c", write, "sh", NSYS]).arg(nsys).status().unwrap().success());
        std::fs::write(folder.path().join("run.nsys-rep"), "NVIDIA Tegra Profiler Report 2023@4@4@54-1v0.").unwrap();
        Self { folder, word: format!("{}.{word}", 100_000 + std::process::id()), stage }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn lacuna(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.set(&mut command);
        command
    }

    /// What the fake `nsys` is told by the environment, and where the cache is.
    fn set(&self, command: &mut Command) {
        command.env("XDG_CACHE_HOME", self.folder.path()).env("WORD", &self.word).env("STAGE", self.stage);
        command.env("READY", self.path("ready"));
    }

    /// Starts a report and waits until its `nsys` is at work.
    fn start(&self) -> Child {
        let mut command = self.lacuna();
        command.arg("report").arg("--nsys").arg(self.path("nsys")).arg(self.path("run.nsys-rep"));
        let child = command.spawn().unwrap();
        until(|| self.path("ready").exists());
        child
    }

    fn n_processes(&self) -> usize {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| line.split(|&byte| byte == 0).any(|word| word == self.word.as_bytes())).count()
    }

    /// Names of the folders in the cache.
    fn cached(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path("lacuna/nsys")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }
}

fn until(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_signal_ends_nsys_and_removes_its_files() {
    super::support::interrupts_end_programs();
    let signals = [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)];
    for (i, stage) in ["version", "export", "file"].into_iter().enumerate() {
        let (signal, number) = signals[i];
        let at = Stage::new(stage, i as u32);
        let mut lacuna = at.start();
        until(|| at.n_processes() >= 4);
        send(&lacuna, signal);
        assert_eq!(lacuna.wait().unwrap().signal(), Some(number), "{stage}");
        assert_eq!((at.n_processes(), at.cached()), (0, Vec::new()), "{stage}");
        assert!(is_clean(at.folder.path()), "{stage}");
    }
}

#[test]
fn the_next_start_ends_what_a_killed_lacuna_left() {
    let at = Stage::new("file", 9);
    let mut lacuna = at.start();
    send(&lacuna, Signal::KILL);
    lacuna.wait().unwrap();
    until(|| at.n_processes() >= 4);
    assert_eq!(at.cached().len(), 1);
    assert!(!at.lacuna().args(["check", "/absent"]).status().unwrap().success());
    assert_eq!((at.n_processes(), at.cached()), (0, Vec::new()));
}

/// As the user closes it: a window manager asks it to close.
#[test]
#[cfg(target_os = "linux")]
fn a_window_that_is_closed_ends_nsys_and_removes_its_files() {
    let at = Stage::new("file", 17);
    let home = super::support::scratch("nsys_window");
    let Some(mut display) = super::display::Display::new(&home) else { return };
    if !display.has_manager() {
        return;
    }
    let mut command = display.command(env!("CARGO_BIN_EXE_lacuna"));
    at.set(&mut command);
    command.env("TMPDIR", &home).env("XDG_DATA_HOME", &home).env("XDG_RUNTIME_DIR", &home);
    command.arg("--nsys").arg(at.path("nsys")).arg(at.path("run.nsys-rep"));
    let window = display.start(command);
    let began = Instant::now();
    while at.n_processes() < 4 {
        if display.ended(window).is_some() {
            eprintln!("skipped: there is no OpenGL");
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nsys is not started");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(display.close(window).is_some_and(|status| status.success()));
    assert_eq!((at.n_processes(), at.cached()), (0, Vec::new()));
    let left: Vec<_> = super::support::files(at.folder.path()).iter().map(|path| super::support::name(path)).collect();
    assert!(is_clean(at.folder.path()), "{left:?}");
}

/// Whether only what the test made lies there, and the cache.
fn is_clean(folder: &Path) -> bool {
    let known = ["nsys", "run.nsys-rep", "ready", "lacuna"];
    std::fs::read_dir(folder)
        .unwrap()
        .all(|entry| known.iter().any(|name| entry.as_ref().unwrap().file_name() == *name))
}
