#![cfg(unix)]

mod nsys_runs;
mod pytorch_runs;

use std::os::unix::ffi::OsStrExt as _;

use super::*;

/// Makes a program of a script for a shell.
///
/// Written by another process: were the file open for writing here, a test that forks at that moment would hold it
/// open, and it could not be run.
pub fn write_program(path: &Path, script: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let write = "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"";
    let text = format!("#!/bin/sh\n{script}\n");
    let status = std::process::Command::new("sh").args(["-c", write, "sh", &text]).arg(path).status().unwrap();
    assert!(status.success());
}

fn request(root: &Path, argv: &[&OsStr]) -> Request {
    Request {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        env: Vec::new(),
        typed: None,
        working_folder: None,
        recorder: Recorder::None,
        place: Destination::In(root.to_owned()),
        grace: Duration::from_millis(300),
        patience: PATIENCE,
        time_limit: None,
        has_counters: true,
        is_piped: false,
    }
}

fn shell(root: &Path, script: &str) -> Request {
    request(root, &["sh", "-c", script].map(OsStr::new))
}

fn start(request: &Request) -> Run {
    Run::start(request, |_| (), || {}).unwrap()
}

/// Waits until something is so that must become so.
fn until(mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "it did not become so");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn has_said(run: &Run, text: &str) -> bool {
    run.with_output(|output| output.lines().iter().any(|line| line.text.contains(text)))
}

fn names(status: &Status) -> Vec<String> {
    status.results.iter().map(Recorded::name).collect()
}

#[test]
fn arguments_arrive_exactly_as_given() {
    let root = tempfile::tempdir().unwrap();
    let got = root.path().join("got");
    let script = OsStr::new(r#"out=$1; shift; for word; do printf '%s\0' "$word"; done > "$out""#);
    let hostile: [&[u8]; 8] =
        [b"a  b", b"it's", b"\"$HOME\"", b"new\nline", b"\xff\xfe", b"", b"; rm -rf x", b"`id` $(id) *"];
    let mut argv = vec![OsStr::new("sh"), OsStr::new("-c"), script, OsStr::new("sh"), got.as_os_str()];
    argv.extend(hostile.map(OsStr::from_bytes));
    let request = request(root.path(), &argv);
    // Typed as one line, it is the same command.
    assert_eq!(words::split(&words::joined(&request.argv)).unwrap().argv, request.argv);
    let status = start(&request).wait();
    assert_eq!(status.exit, Some(Exit::Code(0)));
    assert_eq!(std::fs::read(&got).unwrap(), [hostile.join(&0), vec![0]].concat());
}

#[test]
fn output_exit_code_and_manifest_are_kept_and_the_environment_is_not() {
    let root = tempfile::tempdir().unwrap();
    let mut request = shell(root.path(), "echo $GIVEN; echo error >&2; read line || echo no input; exit 5");
    request.env = vec![("GIVEN".into(), "a b".into())];
    let run = start(&request);
    let status = run.wait();
    assert_eq!((status.exit, status.stage), (Some(Exit::Code(5)), Stage::Ended));
    for said in ["a b", "error", "no input"] {
        assert!(has_said(&run, said), "{said}");
    }
    let [earlier] = &list(root.path())[..] else { panic!() };
    assert_eq!(earlier.folder, run.folder);
    assert_eq!((earlier.manifest.exit_code, earlier.manifest.has_ended), (Some(5), true));
    assert_eq!(earlier.manifest.env, ["GIVEN='a b'"]);
    assert_eq!(status.elapsed, Duration::from_millis(earlier.manifest.elapsed_ms), "one value");
    let kept = kept_output(earlier).unwrap();
    assert_eq!(kept.lines(), &run.with_output(|output| output.lines().clone()), "with the stream of each");
    assert!(kept.lines().iter().any(|line| line.stream == Stream::Err) && kept.n_lines == earlier.manifest.lines);
    assert_eq!(words::split(&earlier.manifest.command).unwrap().argv, request.argv);
    let path = std::env::var("PATH").unwrap();
    for entry in std::fs::read_dir(&run.folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains(&path));
    }
    assert!(std::fs::read_to_string(run.folder.join("output.txt")).unwrap().contains("no input\n"));
}

#[test]
fn what_is_missing_is_said_and_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let error = |request: &Request| Run::start(request, |_| (), || {}).unwrap_err().to_string();
    assert!(error(&request(root.path(), &[])).contains("no command"));
    assert!(error(&request(root.path(), &[OsStr::new("no-such-program")])).contains("no-such-program was found"));
    assert!(error(&request(root.path(), &[OsStr::new("./no such")])).contains("no program './no such'"));
    let script = root.path().join("script.py");
    std::fs::write(&script, "print(1)").unwrap();
    assert!(error(&request(root.path(), &[script.as_os_str()])).contains("script.py is not executable: put"));
    std::fs::remove_file(script).unwrap();
    let mut elsewhere = shell(root.path(), "");
    elsewhere.working_folder = Some("/no/such".into());
    assert!(error(&elsewhere).contains("/no/such"));
    // As typed with \x00 between quotation marks.
    let zero = "No program can be given a zero byte: $'a\\x00b'";
    assert_eq!(error(&request(root.path(), &["echo", "a\0b"].map(OsStr::new))), zero);
    assert_eq!(error(&request(root.path(), &[OsStr::new("a\0b")])), zero);
    elsewhere.working_folder = Some("a\0b".into());
    assert_eq!(error(&elsewhere), zero);
    let mut set = shell(root.path(), "");
    set.env = vec![("NAME".into(), "a\0b".into())];
    assert_eq!(error(&set), zero);
    assert!(error(&shell(Path::new("/proc/no"), "")).contains("/proc/no cannot be the folder of the run: "));
    assert!(list(root.path()).is_empty() && std::fs::read_dir(root.path()).unwrap().next().is_none());
}

#[test]
fn a_stop_goes_as_far_as_it_must_and_leaves_no_process() {
    let root = tempfile::tempdir().unwrap();
    // Each leaves a child in its group and one that left the group.
    let body = "setsid sleep 600 & sleep 600 & echo ready; while :; do sleep 0.05; done";
    for (trap, expected) in [
        ("trap 'exit 9' INT", Exit::Code(9)),
        ("", Exit::Signal(2)),
        ("trap '' INT; trap 'exit 8' TERM", Exit::Code(8)),
        ("trap '' INT TERM", Exit::Signal(9)),
    ] {
        let run = start(&shell(root.path(), &format!("{trap}\n{body}")));
        until(|| has_said(&run, "ready"));
        run.stop();
        assert_eq!(run.wait().exit, Some(expected), "{trap}");
        assert_eq!(registry::n_processes(&run.folder), 0, "{trap}");
    }
    // Asked again, it does not wait.
    let mut request = shell(root.path(), &format!("trap '' INT TERM\n{body}"));
    request.grace = Duration::from_secs(3600);
    let run = start(&request);
    until(|| has_said(&run, "ready"));
    (0..3).for_each(|_| run.stop());
    assert_eq!(run.wait().exit, Some(Exit::Signal(9)));
    assert_eq!(registry::n_processes(&run.folder), 0);
}

#[test]
fn no_process_is_left_whatever_records_it_and_however_early_it_is_stopped() {
    let root = tempfile::tempdir().unwrap();
    let on_demand = kineto::Options {
        duration: Duration::from_secs(1),
        every: Some(Duration::from_secs(1)),
        ranks: None,
        contents: pytorch::Contents::default(),
    };
    let options = pytorch::Options::default();
    for recorder in [Recorder::None, Recorder::PyTorch(options), Recorder::OnDemand(on_demand)] {
        for wait_for in [None, Some("ready")] {
            let mut request = shell(root.path(), "sleep 600 & setsid sleep 600 & echo ready; wait");
            request.recorder = recorder.clone();
            let run = start(&request);
            until(|| wait_for.is_none_or(|text| has_said(&run, text)));
            run.stop();
            let status = run.wait();
            assert_eq!(registry::n_processes(&run.folder), 0, "{recorder:?}, {wait_for:?}");
            assert!(status.was_stopped && list(root.path()).iter().all(|run| run.manifest.has_ended));
        }
    }
}

#[test]
fn what_a_program_leaves_behind_is_ended_and_so_is_what_is_not_watched() {
    let root = tempfile::tempdir().unwrap();
    let run = start(&shell(root.path(), "sleep 600 & setsid sleep 600 & exit 3"));
    assert_eq!(run.wait().exit, Some(Exit::Code(3)));
    assert_eq!(registry::n_processes(&run.folder), 0);
    let run = start(&shell(root.path(), "sleep 600"));
    let folder = run.folder.clone();
    until(|| registry::n_processes(&folder) > 0);
    drop(run);
    until(|| registry::n_processes(&folder) == 0 && list(root.path()).iter().all(|run| run.manifest.has_ended));
}

#[test]
fn processes_that_hide_their_environment_are_ended_too() {
    let root = tempfile::tempdir().unwrap();
    // It leaves the group, has no mark, and outlives what started it, as a worker of torchrun with a title of its own.
    let run = start(&shell(root.path(), "env -i setsid sleep 600 & echo $!; sleep 1.5; exit 3"));
    until(|| run.with_output(|output| output.n_lines == 1));
    let hidden = run.with_output(|output| output.lines()[0].text.clone());
    let is_alive = || {
        let stat = std::fs::read_to_string(format!("/proc/{hidden}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    assert!(is_alive());
    assert_eq!(run.wait().exit, Some(Exit::Code(3)));
    assert!(!is_alive());
}

#[test]
fn names_that_are_not_text_are_kept_exactly() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join(OsStr::from_bytes(b"a b\xff "));
    std::fs::create_dir(&place).unwrap();
    let runs = root.path().join("runs");
    let mut request = shell(&runs, "pwd; : > \"$LACUNA_RUN/$(printf 'x\\376').pickle\"");
    request.working_folder = Some(place.clone());
    start(&request).wait();
    let [earlier] = &list(&runs)[..] else { panic!() };
    assert_eq!(words::path(&earlier.manifest.working_folder).unwrap(), place);
    let [name] = &earlier.manifest.results[..] else { panic!("{:?}", earlier.manifest) };
    assert!(earlier.folder.join(words::path(name).unwrap()).is_file(), "{name}");
}

#[test]
fn what_is_watched_alongside_lives_as_long_as_the_program() {
    struct Guard(std::sync::mpsc::SyncSender<&'static str>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.send("ended").unwrap();
        }
    }
    let root = tempfile::tempdir().unwrap();
    let (sender, receiver) = std::sync::mpsc::sync_channel(9);
    let begin = |folder: &Path| {
        assert!(folder.is_dir());
        Guard(sender)
    };
    let run = Run::start(&shell(root.path(), "echo ready; sleep 600"), begin, || {}).unwrap();
    until(|| has_said(&run, "ready"));
    assert!(receiver.try_recv().is_err());
    run.stop();
    run.wait();
    assert_eq!(receiver.try_recv(), Ok("ended"));
}

#[test]
fn what_a_killed_lacuna_left_running_is_ended_at_the_next_start() {
    let root = tempfile::tempdir().unwrap();
    let folder = folder::create(root.path(), "left").unwrap();
    Manifest::default().write(&folder).unwrap();
    // Unlocked, not only closed: a program that another test starts has the file open too until it runs.
    scratch::hold(&folder).unwrap().unlock().unwrap();
    let mut left = std::process::Command::new("sleep").arg("600").env("LACUNA_RUN", &folder).spawn().unwrap();
    end_abandoned(root.path());
    assert!(!left.wait().unwrap().success());
    let [earlier] = &list(root.path())[..] else { panic!() };
    assert!(earlier.manifest.has_ended && earlier.manifest.notes[0].contains("killed"));
}

#[test]
fn a_run_ends_at_its_limit_of_time() {
    let root = tempfile::tempdir().unwrap();
    let mut request = shell(root.path(), "sleep 600");
    request.time_limit = Some(Duration::from_millis(200));
    assert_eq!(start(&request).wait().exit, Some(Exit::Signal(2)));
    assert!(list(root.path())[0].manifest.was_stopped);
}
