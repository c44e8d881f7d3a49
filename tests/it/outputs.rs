//! What commands write, where it cannot be written, and what is left of it when they are ended.

use std::path::Path;
use std::process::{Command, Output};

use super::support::{lacuna, name, project, scratch};

fn sample() -> String {
    project().join("sample_traces/snapshot_oom.pickle").to_string_lossy().into_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| name(&entry.unwrap().path())).collect();
    names.sort();
    names
}

/// The exit code, and what was said in how many lines.
fn end(output: &Output) -> (Option<i32>, String, usize) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text.clone(), text.lines().count())
}

#[test]
fn what_cannot_be_written_is_one_sentence_and_code_2() {
    let folder = scratch("outputs");
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    std::fs::copy(sample(), path("in.pickle")).unwrap();
    let input = path("in.pickle");
    let out = path("same");
    let wrong = [
        vec!["sample", "kineto", "--scale", "1", "--out", &out, "--answer", &out],
        vec!["sample", "kineto", "--scale", "1", "--out", &input],
        vec!["report", &input, "--out", &input],
        vec!["render", &input, "--view", "memory", "--out", &input],
        vec!["render", &input, "--view", "memory", "--out", "/"],
        vec!["report", &input, "--out", "/absent/folder/report.txt"],
        vec!["report", "--thresholds", "--out", "/dev"],
        vec!["sample", "kineto-gaps", "--scale", "1000000", "--out", &out],
    ];
    let full = [
        vec!["report", &input, "--out", "/dev/full"],
        vec!["report", "--thresholds", "--out", "/dev/full"],
        vec!["render", &input, "--view", "memory", "--size", "300x200", "--out", "/dev/full"],
        vec!["sample", "kineto", "--scale", "1", "--out", "/dev/full"],
    ];
    // A private link: were the link replaced, the device would stay.
    let mut lines: Vec<(Vec<&str>, bool)> = wrong.into_iter().map(|line| (line, false)).collect();
    #[cfg(target_os = "linux")]
    std::os::unix::fs::symlink("/dev/full", path("full")).unwrap();
    let full_path = path("full");
    for mut line in full {
        if cfg!(target_os = "linux") {
            *line.last_mut().unwrap() = &full_path;
            lines.push((line, true));
        }
    }
    for (line, is_full) in lines {
        let (code, text, n) = end(&lacuna(&line));
        assert_eq!((code, n), (Some(2), 1), "{line:?}: {text}");
        assert!(!is_full || text.contains("No space left on device"), "{text}");
    }
    assert_eq!(std::fs::read(&input).unwrap(), std::fs::read(sample()).unwrap());
    assert_eq!(names(&folder).iter().filter(|name| *name != "full").collect::<Vec<_>>(), ["in.pickle"]);
}

#[cfg(target_os = "linux")]
#[test]
fn stdout_that_is_full_is_one_sentence_and_code_2() {
    for line in [vec!["report".to_owned(), sample()], vec!["check".to_owned(), sample()]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_lacuna")).args(line).stdout(full).output().unwrap();
        let (code, text, n) = end(&output);
        assert_eq!((code, n), (Some(2), 1), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn a_limit_on_the_size_of_files_is_one_sentence_and_leaves_nothing() {
    let folder = scratch("outputs_limit");
    let line = "ulimit -f 8; exec \"$0\" sample kineto --scale 1 --out \"$1\"";
    let out = folder.join("big.json");
    let output = Command::new("sh").args(["-c", line, env!("CARGO_BIN_EXE_lacuna")]).arg(out).output().unwrap();
    let (code, text, n) = end(&output);
    assert_eq!((code, n), (Some(2), 1), "{text}");
    assert_eq!(names(&folder), Vec::<String>::new());
}

#[cfg(target_os = "linux")]
#[test]
fn a_limit_on_the_size_of_files_holds_for_stdout_and_stderr() {
    let folder = scratch("outputs_limit_stdout");
    let answer = folder.join("answer");
    // Into a file that may hold nothing.
    let limited = |line: &[&str], redirect: &str| {
        let script = format!("answer=$1; shift; ulimit -f 0; exec \"$0\" \"$@\" {redirect} \"$answer\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_lacuna")]).arg(&answer).args(line);
        command.env("HOME", &folder).env_remove("XDG_DATA_HOME").output().unwrap()
    };
    let input = sample();
    let written: [&[&str]; 8] = [
        &["report", &input],
        &["report", "--format", "html", &input],
        &["report", "--thresholds"],
        &["check", &input],
        &["check", "--format", "json", &input],
        &["capture", "--dry-run", "--", "true"],
        &["--help"],
        &["--version"],
    ];
    for line in written {
        let (code, text, n) = end(&limited(line, ">"));
        assert!(code == Some(2) && n == 1 && text.contains("Cannot write stdout: File too large"), "{line:?}: {text}");
    }
    // What is wrong cannot be said, but its code is.
    let wrong: [(&[&str], i32); 5] = [
        (&["check", "/absent"], 3),
        (&["report", "/absent"], 3),
        (&["render", "/absent", "--view", "timeline", "--out", "/absent/x.png"], 3),
        (&["monitor", "--library", "/absent", "--duration", "0.1"], 2),
        (&["--absent"], 2),
    ];
    for (line, code) in wrong {
        assert_eq!(limited(line, "2>").status.code(), Some(code), "{line:?}");
    }
    assert_eq!(std::fs::read(&answer).unwrap(), b"");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_fit_is_refused_before_it_is_read() {
    let folder = scratch("outputs_memory");
    let path = folder.join("large.json");
    // It takes no room on the disk.
    let file = std::fs::File::create(&path).unwrap();
    if file.set_len(1 << 40).is_err() {
        eprintln!("skipped: the file system has no files of a terabyte");
        return;
    }
    let line = "ulimit -v 8000000; exec \"$0\" check \"$1\"";
    let output = Command::new("sh").args(["-c", line, env!("CARGO_BIN_EXE_lacuna")]).arg(&path).output().unwrap();
    let (code, text, _) = end(&output);
    assert!(code == Some(3) && text.contains("the limit is 8192 MB (ulimit -v)"), "{code:?} {text}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(unix)]
#[test]
fn an_output_that_is_interrupted_leaves_nothing() {
    super::support::interrupts_end_programs();
    use rustix::process::{Pid, Signal, kill_process};
    for (kind, signal) in [("kineto", Signal::INT), ("nsys", Signal::TERM), ("kineto", Signal::HUP)] {
        let folder = scratch(&format!("outputs_{kind}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
        command.args(["sample", kind, "--scale", "1000000", "--out"]).arg(folder.join("big"));
        let mut child = command.spawn().unwrap();
        let started = std::time::Instant::now();
        while names(&folder).is_empty() && started.elapsed() < std::time::Duration::from_secs(60) {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        // Some of it is written.
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(names(&folder).len() == 1 && names(&folder)[0].ends_with(".tmp"), "{:?}", names(&folder));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert!(!child.wait().unwrap().success());
        assert_eq!(names(&folder), Vec::<String>::new(), "{kind}");
    }
}

/// From where the program hardly starts on: it answers, or says why not, also where a thread cannot be had.
#[cfg(target_os = "linux")]
#[test]
fn at_no_limit_of_memory_does_it_panic() {
    let line = "ulimit -v $2; exec \"$0\" check \"$1\"";
    let (mut n_ended, mut n_done) = (0, 0);
    for step in 0..100 {
        let kib = (50_000.0 * 1.03_f64.powi(step)) as u64;
        let words = ["-c", line, env!("CARGO_BIN_EXE_lacuna"), &sample(), &kib.to_string()];
        let output = Command::new("sh").args(words).output().unwrap();
        let (code, text, n) = end(&output);
        let is_crash = ["panicked", "overflow", "fatal runtime"].iter().any(|t| text.contains(t));
        assert!(!is_crash, "{kib} KiB: {text}");
        match code {
            Some(0) => n_done += 1,
            Some(3) => n_ended += usize::from(n > 0),
            // The system could not start it.
            _ => assert_eq!(n_done, 0, "{kib} KiB: {code:?} {text}"),
        }
    }
    assert!(n_done > 0, "{n_ended} ended");
}

/// Threads take address space of their own, more than they use, of which too little is left where it is limited.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn more_memory_is_never_too_little() {
    if std::thread::available_parallelism().is_ok_and(|n| n.get() > 16) {
        eprintln!("skipped: the stacks of more than 16 threads alone may take it");
        return;
    }
    let folder = scratch("outputs_arenas");
    let path = folder.join("t.json");
    let sample = ["sample", "kineto", "--scale", "100", "--out"];
    assert!(Command::new(env!("CARGO_BIN_EXE_lacuna")).args(sample).arg(&path).status().unwrap().success());
    for kib in [180_000, 200_000, 220_000, 250_000, 300_000] {
        let line = format!("ulimit -v {kib}; exec \"$0\" check \"$1\"");
        let output = Command::new("sh").args(["-c", &line, env!("CARGO_BIN_EXE_lacuna")]).arg(&path).output().unwrap();
        let (code, text, _) = end(&output);
        assert_eq!(code, Some(0), "{kib} KiB: {text}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[cfg(unix)]
fn a_captured_program_reads_what_lacuna_is_given() {
    let folder = scratch("outputs-input");
    std::fs::write(folder.join("input"), "one\ntwo\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
    command.args(["capture", "--backend", "none", "--no-gpu-counters", "--out"]).arg(folder.join("run"));
    command.args(["--", "cat"]).stdin(std::fs::File::open(folder.join("input")).unwrap());
    assert_eq!(String::from_utf8_lossy(&command.output().unwrap().stdout), "one\ntwo\n");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[cfg(unix)]
fn a_capture_says_what_keeps_it_from_recording_and_what_ended_it() {
    let folder = scratch("outputs-capture");
    let python = folder.join("python3");
    // As one that has no torch answers.
    std::fs::write(&python, "#!/bin/sh\nexit 66\n").unwrap();
    std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let said = |out: &str, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
        command.args(["capture", "--no-gpu-counters", "--out"]).arg(folder.join(out)).args(args);
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let none = said("none", &["--backend", "none", "--steps", "1:4", "--", "true"]);
    assert!(none.contains("--backend none records nothing") && !none.contains("CUPTI"), "{none}");
    let demand = said("demand", &["--backend", "none", "--every", "3", "--", "true"]);
    assert!(demand.contains("--every and --for apply only to --backend on-demand"), "{demand}");
    let other = said("other", &["--backend", "cupti", "--steps", "1:4", "--", "true"]);
    assert!(other.contains("all record through CUPTI"), "{other}");
    let dry = said("dry", &["--dry-run", "--", python.to_str().unwrap(), "x.py"]);
    assert!(dry.contains("python3 has no torch") && !folder.join("dry").exists(), "{dry}");
    // Said before the program runs, and not again.
    let real = said("real", &["--", python.to_str().unwrap(), "x.py"]);
    let at = |text| real.find(text).unwrap_or_else(|| panic!("{text}: {real}"));
    assert!(at("python3 has no torch") < at("Lacuna runs:") && real.matches("has no torch").count() == 1, "{real}");
    assert!(at("Nothing was recorded: no Python process") > at("Lacuna runs:"), "{real}");
    // Without nsys it shows what would run all the same.
    let line = ["capture", "--dry-run", "--backend", "nsys", "--nsys", "/no/such/nsys", "--", "true"];
    let output = lacuna(&line);
    let (shown, said_of) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("/no/such/nsys profile ") && shown.lines().count() > 1, "{shown}");
    assert!(output.status.code() == Some(2) && said_of.contains("No nsys was found"), "{said_of}");
    let full = said("", &["--backend", "none", "--", "true"]);
    assert!(full.contains("cannot be the folder of the run: it is not empty"), "{full}");
    let report = said("report", &["--backend", "none", "--report", "--", "true"]);
    assert!(report.contains("There is no report, since nothing was recorded"), "{report}");
    assert!(!report.contains("--seconds"), "{report}");
    // Its time is known to the millisecond.
    assert!(report.contains(" ms with exit code 0") && !report.contains(".000 ms"), "{report}");
    let limited = said("limited", &["--backend", "none", "--seconds", "1", "--", "sleep", "600"]);
    assert!(limited.contains("The 1 s of --seconds are over"), "{limited}");
    let never = said("never", &["--backend", "none", "--seconds", "0", "--", "true"]);
    assert!(never.contains("0 is not in 1..") && !folder.join("never").exists(), "{never}");
    // A shell would read it; the program is started as it is.
    std::fs::write(&python, "echo a script without its first line\n").unwrap();
    let script = said("script", &["--backend", "none", "--", python.to_str().unwrap()]);
    assert!(script.contains("A script needs a first line such as #!/bin/sh"), "{script}");
    std::fs::remove_dir_all(&folder).unwrap();
}
