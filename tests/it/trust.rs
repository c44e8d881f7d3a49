//! What the section on trust in the README says, held against the system calls of the program.
#![cfg(target_os = "linux")]

use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// A display without a screen; `None` where it cannot be had.
fn display() -> Option<(Child, String)> {
    let mut command = Command::new("Xvfb");
    command.args(["-displayfd", "1", "-screen", "0", "800x600x24", "-nolisten", "tcp"]);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut number = String::new();
    std::io::BufReader::new(server.stdout.take()?).read_line(&mut number).ok()?;
    Some((server, format!(":{}", number.trim())))
}

/// Ends processes, also of a test that fails.
struct Ended(Vec<Child>);

impl Drop for Ended {
    fn drop(&mut self) {
        for child in self.0.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
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
    let Some((server, display)) = display() else {
        eprintln!("skipped: Xvfb is not installed");
        return;
    };
    let mut ended = Ended(vec![server]);
    let on_display = |program: &str| {
        let mut command = Command::new(program);
        command.env("DISPLAY", &display).env("HOME", &home).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("XDG_CACHE_HOME", &home).env_remove("WAYLAND_DISPLAY").env_remove("DBUS_SESSION_BUS_ADDRESS");
        command
    };
    let xdotool = |words: &[&str]| on_display("xdotool").args(words).status().is_ok_and(|status| status.success());
    let (Ok(manager), true) = (on_display("openbox").spawn(), xdotool(&["version"])) else {
        eprintln!("skipped: openbox or xdotool is not installed");
        return;
    };
    ended.0.push(manager);
    let mut command = on_display(env!("CARGO_BIN_EXE_lacuna"));
    for variable in ["TMPDIR", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"] {
        command.env(variable, &home);
    }
    ended.0.push(command.arg(&input).env("LIBGL_ALWAYS_SOFTWARE", "1").spawn().unwrap());
    let user = home.join(format!("lacuna-{}", rustix::process::getuid().as_raw()));
    let copies = || std::fs::read_dir(user.join("copies")).map_or(0, Iterator::count);
    let began = Instant::now();
    let (mut was_loading, mut status) = (false, None);
    while status.is_none() && began.elapsed() < Duration::from_secs(90) {
        // One is of the window itself. It may not be there yet, or take no keys yet.
        was_loading |= copies() >= 2;
        if was_loading && xdotool(&["search", "--onlyvisible", "--name", "Lacuna", "windowfocus"]) {
            xdotool(&["key", "--clearmodifiers", "alt+F4"]);
        }
        std::thread::sleep(Duration::from_millis(50));
        status = ended.0[2].try_wait().unwrap();
    }
    if !was_loading {
        eprintln!("skipped: there is no OpenGL");
        return;
    }
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
    let Some((mut server, display)) = display() else {
        eprintln!("skipped: Xvfb is not installed");
        return;
    };
    let mut command = watched(&home, &[&input.to_string_lossy()]);
    command.env("DISPLAY", display).env("LIBGL_ALWAYS_SOFTWARE", "1").env("MESA_SHADER_CACHE_DISABLE", "1");
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
    server.kill().unwrap();
    server.wait().unwrap();
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
