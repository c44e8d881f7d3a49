//! What the section on trust in the README says, held against the system calls of the program.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Stdio};

use super::support::{files, name, project, scratch};

/// The system calls about files and sockets of the program with these arguments, one a line; `None` where they cannot
/// be watched.
fn calls(home: &Path, args: &[&str]) -> Option<Vec<String>> {
    // A file for each thread: in one file for all, a call that another thread interrupts stands in two halves.
    let out = home.join("calls");
    std::fs::create_dir_all(&out).unwrap();
    let mut command = Command::new("strace");
    command.args(["-ff", "-s", "4096", "-e", "trace=%file,%network", "-o"]).arg(out.join("thread"));
    command.arg(env!("CARGO_BIN_EXE_lacuna")).args(args).stdout(Stdio::null()).stderr(Stdio::null());
    for variable in ["HOME", "TMPDIR", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
        command.env(variable, home);
    }
    // What a run without strace has the same of.
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    let status = command.status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("skipped: strace is not installed, or may not watch");
        return None;
    }
    let texts = files(&out).into_iter().map(|path| std::fs::read_to_string(path).unwrap());
    let lines: Vec<String> = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    std::fs::remove_dir_all(&out).unwrap();
    assert!(lines.iter().any(|line| line.contains("openat(")), "nothing was watched");
    Some(lines)
}

/// Whether a system call writes a file, makes, renames or removes one.
fn is_written(call: &str) -> bool {
    let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"];
    let changes = ["creat(", "mkdir", "rename", "unlink", "rmdir", "link(", "linkat(", "truncate(", "mknod", "chmod"];
    let opens = call.starts_with("open(") || call.starts_with("openat");
    opens && writes.iter().any(|flag| call.contains(flag)) || changes.iter().any(|name| call.contains(name))
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
