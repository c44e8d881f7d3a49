//! What the section on trust in the README says, held against the system calls of the program.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::display::Display;
use super::support::{files, name, project, scratch};

/// The program with its system calls about files and sockets watched, and its folders in `home`; calls go to a file
/// for each thread in `home/calls`.
fn watched(home: &Path, args: &[&str]) -> Command {
    let out = home.join("calls");
    std::fs::create_dir_all(&out).unwrap();
    let mut command = Command::new("strace");
    // In one file for all, a call that another thread interrupts stands in two halves.
    command.args(["-ff", "-y", "-s", "4096", "-e", "trace=%file,%network", "-o"]).arg(out.join("thread"));
    command.arg(env!("CARGO_BIN_EXE_lacuna")).args(args).stdout(Stdio::null()).stderr(Stdio::null());
    for variable in ["HOME", "TMPDIR", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
        command.env(variable, home);
    }
    // What a run without strace has the same of.
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").env_remove("DBUS_SESSION_BUS_ADDRESS");
    command
}

/// The calls so far, one a line.
fn calls_in(home: &Path) -> Vec<String> {
    let out = home.join("calls");
    let texts = files(&out).into_iter().map(|path| std::fs::read_to_string(path).unwrap());
    let lines: Vec<String> = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    std::fs::remove_dir_all(&out).unwrap();
    assert!(lines.iter().any(|line| line.contains("openat(")), "nothing was watched");
    lines
}

/// The calls of a whole run; `None` where they cannot be watched.
fn calls(home: &Path, args: &[&str]) -> Option<Vec<String>> {
    if !watched(home, args).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: strace is not installed, or may not watch");
        return None;
    }
    Some(calls_in(home))
}

/// Whether a system call writes a file, makes, renames or removes one.
fn is_written(call: &str) -> bool {
    let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"];
    let changes = ["creat", "mkdir", "rename", "unlink", "rmdir", "link", "symlink", "truncate", "mknod", "chmod"];
    let (name, rest) = call.split_once('(').unwrap_or_default();
    let opens = name.starts_with("open") && writes.iter().any(|flag| rest.contains(flag));
    opens || changes.iter().any(|change| name.trim_start_matches('f').starts_with(change))
}

#[test]
fn reports_write_no_file_and_open_no_socket() {
    let home = scratch("trust");
    let mut inputs = files(&project().join("sample_traces"));
    inputs.retain(|path| !name(path).ends_with(".md") && !name(path).ends_with("answer.json"));
    assert!(inputs.len() >= 4);
    for input in inputs {
        let Some(calls) = calls(&home, &["report", "--top", "1", &input.to_string_lossy()]) else { return };
        let wrong: Vec<_> = calls.iter().filter(|call| is_written(call) || call.contains("socket(")).collect();
        assert!(wrong.is_empty(), "{}: {wrong:#?}", name(&input));
    }
}

#[test]
fn an_output_is_the_only_file_that_is_written() {
    let home = scratch("trust_out");
    let input = project().join("sample_traces/snapshot_oom.pickle");
    let out = home.join("report.txt");
    let args = ["report", "--out", &out.to_string_lossy(), &input.to_string_lossy()];
    let Some(calls) = calls(&home, &args) else { return };
    let written: Vec<_> = calls.iter().filter(|call| is_written(call)).collect();
    assert!(!written.is_empty() && written.iter().all(|call| call.contains("trust_out/")), "{written:#?}");
    let names: Vec<_> = files(&home).iter().map(|path| name(path)).collect();
    assert_eq!(names, ["report.txt"]);
}

/// As the user closes it: a window manager asks the window to close, in which a file is being unpacked.
#[test]
fn a_window_that_is_closed_while_a_file_loads_ends_and_leaves_nothing() {
    let home = scratch("trust_close");
    let input = scratch("trust_close_input").join("in.sqlite.gz");
    // Much is unpacked, into a copy on disk.
    let mut export = std::fs::read(project().join("sample_traces/nsys_5_steps.sqlite")).unwrap();
    export.resize(256 << 20, 0);
    let mut packed = flate2::write::GzEncoder::new(std::fs::File::create(&input).unwrap(), flate2::Compression::none());
    std::io::Write::write_all(&mut packed, &export).unwrap();
    packed.finish().unwrap();
    drop(export);
    let Some(mut display) = Display::new(&home) else { return };
    if !display.has_manager() {
        return;
    }
    let mut command = display.command(env!("CARGO_BIN_EXE_lacuna"));
    for variable in ["TMPDIR", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"] {
        command.env(variable, &home);
    }
    command.arg(&input);
    let window = display.start(command);
    let user = home.join(format!("lacuna-{}", rustix::process::getuid().as_raw()));
    let copies = || std::fs::read_dir(user.join("copies")).map_or(0, Iterator::count);
    let began = Instant::now();
    // One is of the window itself.
    while copies() < 2 {
        if display.ended(window).is_some() || began.elapsed() > Duration::from_secs(60) {
            eprintln!("skipped: there is no OpenGL");
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = display.close(window);
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    assert_eq!(copies(), 0, "a private copy is left");
    let of_the_copy = format!("TMPDIR={}", home.display());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let left = processes.filter(|process| {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == of_the_copy.as_bytes())
    });
    assert_eq!(left.count(), 0, "a process is left");
}

/// The window with a packed export, until its private copy is whole and some time passed.
#[test]
fn the_window_writes_in_its_folders_and_talks_to_this_machine_alone() {
    let home = scratch("trust_window");
    let input = scratch("trust_window_input").join("in.sqlite.gz");
    let export = std::fs::read(project().join("sample_traces/nsys_5_steps.sqlite")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &export).unwrap();
    std::fs::write(&input, packed.finish().unwrap()).unwrap();
    let Some(display) = Display::new(&home) else { return };
    let mut command = watched(&home, &[&input.to_string_lossy()]);
    command.env("DISPLAY", display.name()).env("LIBGL_ALWAYS_SOFTWARE", "1").env("MESA_SHADER_CACHE_DISABLE", "1");
    let window = command.spawn();
    let user = home.join(format!("lacuna-{}", rustix::process::getuid().as_raw()));
    let copies = || std::fs::read_dir(user.join("copies")).map_or(0, Iterator::count);
    let began = Instant::now();
    let ended = window.ok().and_then(|mut window| {
        // One is of the window itself.
        while copies() < 2 && began.elapsed() < Duration::from_secs(30) && window.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(500));
        let id = window.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let child = children.split(' ').next()?.parse().ok().and_then(rustix::process::Pid::from_raw);
        let signaled = child.map(|child| rustix::process::kill_process(child, rustix::process::Signal::TERM));
        window.wait().unwrap();
        signaled
    });
    drop(display);
    if ended.is_none() {
        eprintln!("skipped: strace is not installed, or there is no OpenGL");
        return;
    }
    let calls = calls_in(&home);
    let wrong = |call: &&String| {
        let is_inside = call.contains("trust_window/") || call.contains("\"/dev/");
        is_written(call) && !is_inside || call.contains("socket(") && !call.contains("AF_UNIX")
    };
    let wrong: Vec<_> = calls.iter().filter(wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(copies(), 0, "a private copy is left");
    let beside: Vec<_> = files(input.parent().unwrap()).iter().map(|path| name(path)).collect();
    assert_eq!(beside, ["in.sqlite.gz"]);
}
