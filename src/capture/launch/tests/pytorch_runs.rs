//! Runs under the recorder of PyTorch, with a stub in place of torch.

use super::*;

/// A python3 that runs, or `None` with a word about it.
fn python() -> Option<&'static OsStr> {
    let runs = std::process::Command::new("python3").arg("--version").output().is_ok_and(|said| said.status.success());
    if !runs {
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: there is no python3\n").unwrap();
    }
    runs.then_some(OsStr::new("python3"))
}

/// Interpreters of Python 3.8 to 3.10 that run, with what several versions beside each other are kept by.
fn older_pythons() -> Vec<OsString> {
    let kept = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let kept = kept.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let kept = kept.and_then(|root| std::fs::read_dir(root.join("versions")).ok()).into_iter().flatten().flatten();
    let kept = kept.map(|version| version.path().join("bin/python3").into_os_string());
    let named = ["python3.8", "python3.9", "python3.10"].map(OsString::from);
    let is_older = |python: &OsString| {
        let asks = "import sys; sys.exit(not (3, 8) <= sys.version_info < (3, 11))";
        std::process::Command::new(python).args(["-c", asks]).output().is_ok_and(|said| said.status.success())
    };
    named.into_iter().chain(kept).filter(is_older).collect()
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

/// The steps that a trace of the stub holds.
fn steps(result: &Recorded) -> Vec<u64> {
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&result.path).unwrap()).unwrap();
    let number = |event: &serde_json::Value| event["ts"].as_u64().unwrap();
    trace["traceEvents"].as_array().unwrap().iter().map(number).collect()
}

#[test]
fn traces_stay_however_a_program_ends() {
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
        let is_short = |note: &String| note.contains("its trace holds 3 of 5 steps");
        assert_eq!(status.notes.len(), usize::from(event != "pass"), "{event}: {:?}", status.notes);
        assert!(status.notes.iter().all(is_short), "{event}: {:?}", status.notes);
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
fn a_signal_while_a_trace_is_written_arrives_in_the_program() {
    let root = tempfile::tempdir().unwrap();
    let kill = "torch.SLOW = 1.0; import threading; \
                threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()";
    let script = TRAINING.replace("{}", kill) + "time.sleep(60)\n";
    let Some(request) = recorded(root.path(), &script, pytorch::Options::default()) else { return };
    let run = start(&request);
    let status = run.wait();
    assert_eq!((status.exit, names(&status)), (Some(Exit::Signal(2)), vec!["trace-rank0-1.pt.trace.json".to_owned()]));
    assert!(has_said(&run, "KeyboardInterrupt") && has_said(&run, "it's a program.py"));
    assert!(!has_said(&run, "lacuna_capture"), "{:?}", run.with_output(|output| output.lines().clone()));
}

#[test]
fn what_a_step_raises_is_of_the_program_alone() {
    let root = tempfile::tempdir().unwrap();
    let script = "import sys, torch
class Broken(torch.optim.SGD):
    def step(self):
        {}['key']
def train():
    try:
        Broken().step()
    finally:
        print(sys.exc_info()[0].__name__, 'in', sys.version_info[:2])
train()
";
    let Some(mut request) = recorded(root.path(), script, pytorch::Options::default()) else { return };
    let own = request.argv[0].clone();
    // Of Python before 3.11 and later, where there are several.
    for python in older_pythons().into_iter().chain([own]) {
        request.argv[0] = python;
        let run = start(&request);
        assert_eq!(run.wait().exit, Some(Exit::Code(1)));
        let said = |text: &str| has_said(&run, text);
        let all = || run.with_output(|output| output.lines().clone());
        let whole = ["KeyError in (3, ", "KeyError: 'key'", "in train", "in wrapper", "in step"];
        assert!(whole.iter().all(|text| said(text)), "{:?}", all());
        assert!(!said("lacuna_capture"), "{:?}", all());
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
    let run = start(&request);
    let status = run.wait();
    assert_eq!(names(&status), ["trace-rank0-1.pt.trace.json", "trace-rank0-2.pt.trace.json"]);
    assert!(!has_said(&run, "Profiler clears events"), "torch warns of a second window");
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
    // The stub runs no operator in a step.
    let options = pytorch::Options { whole: true, ..Default::default() };
    let Some(request) = recorded(root.path(), &script, options) else { return };
    let status = start(&request).wait();
    assert!(names(&status).is_empty() && status.notes[0].contains("ran an operator"), "{:?}", status.notes);
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
    let root = tempfile::tempdir().unwrap();
    let launchers = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stub/launchers");
    let script = "import torch, time
optimizer = torch.optim.SGD()
for step in range(FIRST):
    optimizer.step()
print('stepped', flush=True)
time.sleep(REST)
";
    let (srun, deepspeed) = ("srun -n 3 python3", "deepspeed --num_gpus 3");
    for (line, rest, stops) in [(srun, "0", 0), (srun, "600", 1), (deepspeed, "600", 1), (deepspeed, "600", 2)] {
        let script = script.replace("FIRST", if stops == 0 { "9" } else { "5" }).replace("REST", rest);
        let options = pytorch::Options { ranks: Some([0, 2].into()), ..Default::default() };
        let Some(mut request) = recorded(root.path(), &script, options) else { return };
        let program = request.argv[1].clone();
        request.argv = words::split(&format!("{launchers}/{line}")).unwrap().argv;
        request.argv.push(program);
        assert!(recorded_ranks(&request).unwrap().contains("starts 3 workers; ranks 0, 2 are recorded"));
        let run = start(&request);
        until(|| run.with_output(|output| output.n_lines == 3));
        (0..stops).for_each(|_| run.stop());
        let status = run.wait();
        let expected = [0, 2].map(|rank| format!("trace-rank{rank}-1.pt.trace.json"));
        assert_eq!(names(&status), expected, "{line}: {:?}", run.with_output(|output| output.lines().clone()));
        assert_eq!(registry::n_processes(&run.folder), 0, "{line}");
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
