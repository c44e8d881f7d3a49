#![cfg(unix)]

use std::os::unix::ffi::OsStrExt as _;

use super::*;

fn request(root: &Path, argv: &[&OsStr]) -> Request {
    Request {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        env: Vec::new(),
        working_folder: None,
        recorder: Recorder::None,
        place: Place::In(root.to_owned()),
        grace: Duration::from_millis(300),
        patience: PATIENCE,
        time_limit: None,
        is_shown: false,
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

/// A python3 that runs, or `None` with a word about it.
fn python() -> Option<&'static OsStr> {
    let runs = std::process::Command::new("python3").arg("--version").output().is_ok_and(|said| said.status.success());
    if !runs {
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: there is no python3\n").unwrap();
    }
    runs.then_some(OsStr::new("python3"))
}

/// A run of a Python program under the recorder, with a stub in place of torch.
fn recorded(root: &Path, script: &str, options: pytorch::Options) -> Option<Request> {
    let program = root.join("it's a program.py");
    std::fs::write(&program, script).unwrap();
    let mut request = request(root, &[python()?, program.as_os_str(), OsStr::new("an argument")]);
    request.env = vec![("PYTHONPATH".into(), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stub").into())];
    request.recorder = Recorder::PyTorch(options);
    request.grace = Duration::from_secs(10);
    Some(request)
}

/// A training of 12 steps; `{}` stands for what happens after its fifth.
const TRAINING: &str = "import sys, os, time, signal
import torch
optimizer = torch.optim.SGD()
for step in range(12):
    optimizer.step()
    if step == 4:
        {}
print('argv', sys.argv[1:], __name__)
";

fn names(status: &Status) -> Vec<String> {
    status.results.iter().map(Recorded::name).collect()
}

/// The steps that a trace of the stub holds.
fn steps(result: &Recorded) -> Vec<u64> {
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&result.path).unwrap()).unwrap();
    let number = |event: &serde_json::Value| event["ts"].as_u64().unwrap();
    trace["traceEvents"].as_array().unwrap().iter().map(number).collect()
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
    assert!(error(&request(root.path(), &[OsStr::new("./no such")])).contains("'./no such'"));
    let mut elsewhere = shell(root.path(), "");
    elsewhere.working_folder = Some("/no/such".into());
    assert!(error(&elsewhere).contains("/no/such"));
    assert!(error(&shell(Path::new("/proc/no"), "")).contains("cannot be made"));
    assert!(list(root.path()).is_empty() && std::fs::read_dir(root.path()).unwrap().next().is_none());
}

#[test]
fn a_stop_goes_as_far_as_it_must_and_leaves_no_process() {
    interrupts_end_programs();
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
fn what_a_program_leaves_behind_is_ended_and_so_is_what_nobody_watches() {
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
fn traces_stay_however_a_program_ends() {
    interrupts_end_programs();
    let root = tempfile::tempdir().unwrap();
    // What happens after step 5, how it ends, and which steps are in the trace of steps 2 to 6.
    for (event, exit, expected) in [
        ("pass", Exit::Code(0), &[2, 3, 4, 5, 6][..]),
        ("raise ValueError('a word')", Exit::Code(1), &[2, 3, 4][..]),
        ("sys.exit(7)", Exit::Code(7), &[2, 3, 4][..]),
        ("os.kill(os.getpid(), signal.SIGINT)", Exit::Signal(2), &[2, 3, 4][..]),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", Exit::Signal(15), &[2, 3, 4][..]),
    ] {
        let script = TRAINING.replace("{}", event);
        let Some(request) = recorded(root.path(), &script, pytorch::Options::default()) else { return };
        let run = start(&request);
        let status = run.wait();
        assert_eq!(status.exit, Some(exit), "{event}: {:?}", run.with_output(|output| output.lines().clone()));
        assert_eq!(names(&status), ["trace-rank0-1.pt.trace.json"], "{event}");
        assert_eq!(steps(&status.results[0]), expected, "{event}");
        assert_eq!(status.notes, [] as [&str; 0], "{event}");
        match event {
            "pass" => assert!(has_said(&run, "argv ['an argument'] __main__")),
            _ if exit == Exit::Code(1) => {
                assert!(has_said(&run, "ValueError: a word") && !has_said(&run, "lacuna"));
            }
            _ => {}
        }
    }
}

#[test]
fn a_run_without_results_says_why() {
    let root = tempfile::tempdir().unwrap();
    let ranks = pytorch::Options { ranks: Some([3].into()), ..Default::default() };
    let own = "p = torch.profiler.profile(on_trace_ready=lambda _: None); p.start(); p.stop()";
    for (event, options, exit, expected) in [
        ("os._exit(9)", pytorch::Options::default(), Exit::Code(9), "os._exit"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", pytorch::Options::default(), Exit::Signal(11), "a crash"),
        ("pass", ranks, Exit::Code(0), "chosen ranks"),
        ("pass", pytorch::Options { wait: 50, ..Default::default() }, Exit::Code(0), "after 12 steps"),
        (own, pytorch::Options { wait: 9, ..Default::default() }, Exit::Code(0), "uses torch.profiler itself"),
    ] {
        let script = TRAINING.replace("{}", event);
        let Some(request) = recorded(root.path(), &script, options) else { return };
        let status = start(&request).wait();
        assert_eq!((status.exit, names(&status)), (Some(exit), Vec::new()), "{event}");
        assert!(status.notes.join("\n").contains(expected), "{event}: {:?}", status.notes);
    }
    let Some(request) = recorded(root.path(), "print('no torch')", pytorch::Options::default()) else { return };
    assert!(start(&request).wait().notes[0].contains("imported torch"));
}

#[test]
fn schedules_ranks_and_whole_runs_are_recorded() {
    let root = tempfile::tempdir().unwrap();
    let script = TRAINING.replace("{}", "pass");
    let options = pytorch::Options { wait: 1, warmup: 1, active: 2, repeat: 2, ..Default::default() };
    let Some(mut request) = recorded(root.path(), &script, options) else { return };
    request.env.push(("RANK".into(), "0".into()));
    let status = start(&request).wait();
    assert_eq!(names(&status), ["trace-rank0-1.pt.trace.json", "trace-rank0-2.pt.trace.json"]);
    assert_eq!(status.results.iter().map(steps).collect::<Vec<_>>(), [[2, 3], [6, 7]]);
    let mut options = pytorch::Options { ranks: None, ..Default::default() };
    options.set_steps(10, 15);
    let Some(mut request) = recorded(root.path(), &script, options) else { return };
    request.env.push(("RANK".into(), "5".into()));
    let status = start(&request).wait();
    assert_eq!(names(&status), ["trace-rank5-1.pt.trace.json"]);
    assert_eq!(steps(&status.results[0]), [10, 11]);
    let options = pytorch::Options { whole: true, ..Default::default() };
    let Some(request) = recorded(root.path(), "import torch; torch.ones()", options) else { return };
    assert_eq!(names(&start(&request).wait()), ["trace-rank0-1.pt.trace.json"]);
}

#[test]
fn a_whole_run_is_recorded_of_processes_that_work() {
    let root = tempfile::tempdir().unwrap();
    // Of its processes two work at the same time, one loads data, and one only starts them.
    let script = "import torch, subprocess, sys
code = 'import torch; torch.ones()'
loads = '; import multiprocessing.process as p; f = lambda: 0; f.__module__ = \"torch.utils.data\"; ' \\
        'p.current_process()._target = f'
run = lambda more: subprocess.Popen([sys.executable, '-c', code + more])
[process.wait() for process in (run(''), run(''), run(loads))]
";
    let options = pytorch::Options { whole: true, ..Default::default() };
    let Some(request) = recorded(root.path(), script, options) else { return };
    let status = start(&request).wait();
    assert_eq!((status.exit, status.notes.len(), status.processes.len()), (Some(Exit::Code(0)), 0, 4));
    let [first, second] = &names(&status)[..] else { panic!("{:?}", names(&status)) };
    assert!(first.starts_with("trace-rank0-1") && second.starts_with("trace-rank0-1"), "{first} {second}");
}

#[test]
fn the_chosen_ranks_of_launchers_are_recorded_however_they_end() {
    interrupts_end_programs();
    let root = tempfile::tempdir().unwrap();
    let launchers = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stub/launchers");
    let script = "import torch, time
optimizer = torch.optim.SGD()
for step in range(FIRST):
    optimizer.step()
print('stepped', flush=True)
time.sleep(REST)
";
    for (line, said) in [("srun -n 3 python3", "srun starts 3 workers"), ("deepspeed --num_gpus 3", "starts 3 workers")]
    {
        for (rest, stops, expected) in [("0", 0, &[0, 2][..]), ("600", 1, &[0, 2]), ("600", 2, &[0, 2])] {
            let script = script.replace("FIRST", if stops == 0 { "9" } else { "5" }).replace("REST", rest);
            let options = pytorch::Options { ranks: Some([0, 2].into()), ..Default::default() };
            let Some(mut request) = recorded(root.path(), &script, options) else { return };
            let program = request.argv[1].clone();
            request.argv = words::split(&format!("{launchers}/{line}")).unwrap().argv;
            request.argv.push(program);
            assert!(recorded_ranks(&request).unwrap().contains(said));
            let run = start(&request);
            until(|| run.with_output(|output| output.n_lines == 3));
            (0..stops).for_each(|_| run.stop());
            let status = run.wait();
            let expected: Vec<String> =
                expected.iter().map(|rank| format!("trace-rank{rank}-1.pt.trace.json")).collect();
            assert_eq!(names(&status), expected, "{line}: {:?}", run.with_output(|output| output.lines().clone()));
            assert_eq!(registry::n_processes(&run.folder), 0, "{line}");
        }
    }
}

#[test]
fn memory_is_recorded_at_the_end_and_when_it_runs_out() {
    let root = tempfile::tempdir().unwrap();
    let options = pytorch::Options { memory: true, ..Default::default() };
    let script = "import torch\ntorch.use_cuda()\ntorch.run_out_of_memory()";
    let Some(request) = recorded(root.path(), script, options.clone()) else { return };
    let status = start(&request).wait();
    assert_eq!(
        (status.exit, names(&status)),
        (Some(Exit::Code(1)), vec!["memory-rank0-oom1.pickle".to_owned(), "memory-rank0.pickle".to_owned()])
    );
    let Some(request) = recorded(root.path(), "import torch", pytorch::Options { trace: false, ..options }) else {
        return;
    };
    assert!(start(&request).wait().notes[0].contains("did not use CUDA"));
}

#[test]
fn a_shadowed_sitecustomize_runs_and_forked_children_are_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let own = root.path().join("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("sitecustomize.py"), "import builtins; builtins.OWN = __file__").unwrap();
    let script = "import os, torch\nprint(OWN)\noptimizer = torch.optim.SGD()\n\
                  for step in range(9):\n    optimizer.step()\n    if step == 3 and os.fork() == 0:\n        \
                  raise SystemExit(0)\n";
    let Some(mut request) = recorded(root.path(), script, pytorch::Options::default()) else { return };
    let stub = request.env[0].1.clone();
    request.env[0].1 = std::env::join_paths([own.as_os_str(), &stub]).unwrap();
    let run = start(&request);
    let status = run.wait();
    assert!(has_said(&run, "own/sitecustomize.py"), "{:?}", run.with_output(|output| output.lines().clone()));
    assert_eq!(
        (names(&status), steps(&status.results[0])),
        (vec!["trace-rank0-1.pt.trace.json".to_owned()], vec![2, 3, 4, 5, 6])
    );
}

#[test]
fn a_run_that_is_stopped_at_any_stage_leaves_no_process() {
    let root = tempfile::tempdir().unwrap();
    let script = "import torch, time, subprocess, sys\ntorch.SLOW = 0.5\nprint('imported', flush=True)\n\
                  child = subprocess.Popen([sys.executable, '-c', 'import torch, time; time.sleep(600)'])\n\
                  optimizer = torch.optim.SGD()\nwhile True:\n    optimizer.step()\n    time.sleep(0.02)\n";
    let is = |run: &Run, state: &str| run.status().processes.iter().any(|process| process.state == state);
    for stage in ["started", "imported", "recording", "writing", "recorded"] {
        let options = pytorch::Options { active: 30, ..Default::default() };
        let Some(request) = recorded(root.path(), script, options) else { return };
        let run = start(&request);
        until(|| match stage {
            "started" => true,
            "imported" => has_said(&run, "imported"),
            state => is(&run, state) || is(&run, "recorded"),
        });
        run.stop();
        let status = run.wait();
        assert!(status.exit != Some(Exit::Code(0)), "{stage}: {:?}", status.exit);
        assert_eq!(registry::n_processes(&run.folder), 0, "{stage}");
        let is_expected = ["recording", "writing", "recorded"].contains(&stage);
        assert!(!is_expected || !status.results.is_empty(), "{stage}: {:?}", status.notes);
    }
}

#[test]
fn what_a_killed_lacuna_left_running_is_ended_at_the_next_start() {
    let root = tempfile::tempdir().unwrap();
    let folder = folder::create(root.path(), "left").unwrap();
    Manifest::default().write(&folder).unwrap();
    drop(scratch::hold(&folder).unwrap());
    let mut left = std::process::Command::new("sleep").arg("600").env("LACUNA_RUN", &folder).spawn().unwrap();
    end_abandoned(root.path());
    assert!(!left.wait().unwrap().success());
    let [earlier] = &list(root.path())[..] else { panic!() };
    assert!(earlier.manifest.has_ended && earlier.manifest.notes[0].contains("killed"));
}

/// A script that behaves as `nsys profile`, `start` and `stop` do: the program runs in a session of its own with the
/// variables that it is given, helpers stay behind, and a report is written once the recording ends. `$FAKE` says
/// what goes wrong.
const NSYS: &str = r#"#!/bin/sh
what=$1; shift
for option; do case $option in
    --session*=*) session=${option#*=};; --output=*) output=${option#*=};; --env-var=*) vars=${option#*=};;
    --start-later=true) later=1;; --*) ;; *) break;; esac; shift; done
case $what in
start) echo "$output" > "$TMPDIR/on"; exit;;
stop) mv "$TMPDIR/on" "$TMPDIR/off"; echo report > "$(cat "$TMPDIR/off").nsys-rep"; exit;;
esac
[ "$FAKE" = illegal ] && printf '%s\n' "Illegal --trace argument 'foo'" '' 'usage: nsys profile' && exit 1
[ "$FAKE" = refuses ] && echo 'None of the installed GPUs are supported.' && exit 1
setsid sh -c 'exec sleep 600' "--session-name=$session" &
[ "$FAKE" = dies ] && exit 3
IFS=,; set -f; env $vars setsid --wait "$@"; code=$?
[ "$FAKE" = hangs ] && sleep 600
[ -z "$later" ] && { sleep 0.3; echo report > "$output.nsys-rep"; }
[ -e "$TMPDIR/on" ] && echo report > "$(cat "$TMPDIR/on").nsys-rep"
exit $code
"#;

/// A run under the script.
fn by_nsys(root: &Path, script: &str, fake: &str, change: impl Fn(&mut nsys::Profile)) -> Request {
    let program = root.join("nsys of test");
    // Written by another process: were it open for writing here while another test forks, it could not be run.
    let write = "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"";
    let written = std::process::Command::new("sh").args(["-c", write, "sh", NSYS]).arg(&program).status().unwrap();
    assert!(written.success());
    let mut request = shell(&root.join("runs"), script);
    request.env = vec![("FAKE".into(), fake.into()), ("TMPDIR".into(), "/tmp".into())];
    request.grace = Duration::from_millis(1500);
    let mut profile = nsys::Profile { program, trace: "nvtx".to_owned(), ..Default::default() };
    change(&mut profile);
    request.recorder = Recorder::Nsys(profile);
    request
}

#[test]
fn nsys_writes_its_report_however_the_program_ends() {
    interrupts_end_programs();
    let root = tempfile::tempdir().unwrap();
    for (script, stops, exit) in [
        ("echo ready \"$TMPDIR\"; exit 5", 0, Exit::Code(5)),
        ("echo ready; kill -SEGV $$", 0, Exit::Signal(11)),
        ("trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done", 1, Exit::Code(9)),
        ("trap '' INT; trap 'exit 8' TERM; echo ready; while :; do sleep 0.05; done", 2, Exit::Code(8)),
        ("trap '' INT TERM; echo ready; while :; do sleep 0.05; done", 3, Exit::Signal(9)),
    ] {
        let run = start(&by_nsys(root.path(), script, "", |_| ()));
        until(|| has_said(&run, "ready"));
        (0..stops).for_each(|_| run.stop());
        let status = run.wait();
        assert_eq!((status.exit, names(&status)), (Some(exit), vec!["report.nsys-rep".to_owned()]), "{script}");
        assert_eq!((registry::n_processes(&run.folder), &status.notes[..]), (0, &[] as &[String]), "{script}");
        assert!(!run.folder.join("nsys").exists() && (stops > 0 || exit != Exit::Code(5) || has_said(&run, "/tmp")));
    }
}

#[test]
fn nsys_is_switched_while_the_program_runs() {
    interrupts_end_programs();
    let root = tempfile::tempdir().unwrap();
    let run = start(&by_nsys(root.path(), "echo ready; sleep 600", "", |profile| profile.by_hand = true));
    let is = |switch: Switch| run.status().switch == Some(switch);
    until(|| has_said(&run, "ready"));
    for n in 1..3 {
        run.record(true);
        until(|| is(Switch::On));
        run.record(false);
        until(|| is(Switch::Off) && run.status().results.len() == n);
    }
    run.stop();
    let status = run.wait();
    assert_eq!(names(&status), ["report-1.nsys-rep", "report-2.nsys-rep"]);
    assert_eq!((status.exit, registry::n_processes(&run.folder)), (Some(Exit::Signal(2)), 0));
    // By time, the program goes on after the recording.
    let timed = |profile: &mut nsys::Profile| (profile.delay, profile.duration) = (1, 1);
    let status = start(&by_nsys(root.path(), "sleep 3; exit 4", "", timed)).wait();
    assert_eq!((status.exit, names(&status)), (Some(Exit::Code(4)), vec!["report-1.nsys-rep".to_owned()]));
}

#[test]
fn a_failing_nsys_says_why_and_leaves_no_process() {
    interrupts_end_programs();
    let root = tempfile::tempdir().unwrap();
    for (fake, stops, expected) in [
        ("refuses", 0, &["nsys can sample the metrics of no GPU here: record without them"][..]),
        ("illegal", 0, &["nsys wrote no report: it refused its options: Illegal --trace argument 'foo'"]),
        ("dies", 0, &["nsys wrote no report: it said nothing"]),
        ("hangs", 4, &["nsys wrote no report: the last line was: ready"]),
        ("hangs", 0, &["no progress for 1 s after the program had ended", "nsys wrote no report"]),
    ] {
        let mut request = by_nsys(root.path(), "echo ready; sleep 0.5", fake, |_| ());
        request.patience = Duration::from_secs(1);
        let run = start(&request);
        until(|| fake != "hangs" || has_said(&run, "ready"));
        (0..stops).for_each(|_| run.stop());
        let status = run.wait();
        assert_eq!(status.notes.len(), expected.len(), "{fake}: {:?}", status.notes);
        assert!(status.notes.iter().zip(expected).all(|(note, part)| note.contains(part)), "{:?}", status.notes);
        assert_eq!((registry::n_processes(&run.folder), names(&status)), (0, Vec::new()), "{fake}");
    }
    let error = |request: &Request| Run::start(request, |_| (), || {}).unwrap_err().to_string();
    let mut hostile = by_nsys(root.path(), "", "", |_| ());
    hostile.argv.push(OsStr::from_bytes(b"\xff").to_owned());
    assert!(error(&hostile).contains("not UTF-8"));
    let twice = by_nsys(root.path(), "", "", |_| ());
    let argv = vec!["nsys".into(), "profile".into(), "python3".into()];
    let mut twice = Request { argv, env: Vec::new(), ..twice };
    twice.env.push(("PATH".into(), root.path().into()));
    std::fs::copy(root.path().join("nsys of test"), root.path().join("nsys")).unwrap();
    assert!(error(&twice).contains("which serves one of them in a process"));
}

#[test]
fn a_run_ends_at_its_limit_of_time() {
    interrupts_end_programs();
    let root = tempfile::tempdir().unwrap();
    let mut request = shell(root.path(), "sleep 600");
    request.time_limit = Some(Duration::from_millis(200));
    assert_eq!(start(&request).wait().exit, Some(Exit::Signal(2)));
    assert!(list(root.path())[0].manifest.was_stopped);
}
