//! Processes that a run leaves behind without a sign of where they came from.

use std::path::Path;
use std::process::Command;

use super::support::scratch;

/// Whether a process runs: not one that has ended and waits for its parent.
fn is_alive(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Waits a minute at most.
fn until(is_so: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !is_so() {
        assert!(started.elapsed().as_secs() < 60, "it never comes to that");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Runs a script under `lacuna capture`, which a shell becomes after `before`.
fn capture(folder: &Path, before: &str, script: &str) -> std::process::Output {
    capturing(folder, before, script).output().unwrap()
}

fn capturing(folder: &Path, before: &str, script: &str) -> Command {
    let shell = format!("{before} exec \"$0\" capture --backend none --no-gpu-counters --out \"$1\" -- sh -c \"$2\"");
    let mut command = Command::new("sh");
    command.args(["-c", &shell, env!("CARGO_BIN_EXE_lacuna")]).arg(folder.join("run")).arg(script);
    command.current_dir(folder);
    command
}

#[test]
fn what_a_killed_lacuna_ran_is_ended_at_once() {
    let folder = scratch("orphans-killed");
    // One ends when it is told to, and notes that; one hides where it comes from, in a session of its own.
    let script =
        "trap 'echo told > told; exit' TERM; env -i setsid sleep 600 & echo $! > hidden; sleep 600 & echo $! > child;
                  echo $$ > ready; wait";
    let mut lacuna = capturing(&folder, "", script).spawn().unwrap();
    let id = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    until(|| id("ready").ends_with('\n'));
    lacuna.kill().unwrap();
    lacuna.wait().unwrap();
    until(|| ["ready", "hidden", "child"].iter().all(|name| !is_alive(&id(name))));
    let manifest = || std::fs::read_to_string(folder.join("run/run.json")).unwrap();
    until(|| manifest().contains("Lacuna was killed while this ran"));
    assert!(folder.join("told").exists(), "what was recorded can be written");
    until(|| successors(&folder).is_empty());
    // Of a Lacuna that ends by itself nothing stays either.
    std::fs::remove_dir_all(folder.join("run")).unwrap();
    capture(&folder, "", "exit 0");
    until(|| successors(&folder).is_empty());
    assert!(!manifest().contains("was killed"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_hides_and_has_no_parent_is_ended_though_lacuna_was_killed() {
    // In a session of its own, with no environment, and its parent has ended. Once with the second process killed as
    // well, so that the next start has to end it.
    for (i, with_successor) in [false, true].into_iter().enumerate() {
        let folder = scratch(&format!("orphans-hidden-{i}"));
        let script = "env -i setsid sh -c 'sleep 600 & echo $! > hidden'; sleep 600";
        let command = |script: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
            command.args(["capture", "--backend", "none", "--no-gpu-counters", "--", "sh", "-c", script]);
            command.current_dir(&folder).env("XDG_DATA_HOME", &folder);
            command
        };
        let mut lacuna = command(script).spawn().unwrap();
        let hidden = || std::fs::read_to_string(folder.join("hidden")).unwrap_or_default();
        let run = || std::fs::read_dir(folder.join("lacuna/runs")).unwrap().next().unwrap().unwrap().path();
        let noted = || std::fs::read_to_string(run().join("pids")).unwrap_or_default();
        until(|| hidden().ends_with('\n') && noted().contains(&format!("\n{} ", hidden().trim())));
        if with_successor {
            assert_eq!(successors(&folder).len(), 1);
            successors(&folder).iter().for_each(|id| _ = Command::new("kill").args(["-9", id]).status());
        }
        lacuna.kill().unwrap();
        lacuna.wait().unwrap();
        if with_successor {
            assert!(is_alive(&hidden()));
            assert!(command("exit 0").output().unwrap().status.success());
        }
        until(|| !is_alive(&hidden()) && successors(&folder).is_empty());
        assert!(!run().join("pids").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

/// The processes that wait for the end of the Lacuna that runs a program in this folder.
fn successors(folder: &Path) -> Vec<String> {
    let is_one = |entry: &std::fs::DirEntry| {
        let line = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        line.contains("end-run") && line.contains(&*folder.to_string_lossy())
    };
    let found = std::fs::read_dir("/proc").unwrap().flatten().filter(is_one);
    found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_process_that_leaves_everything_behind_at_once_is_ended() {
    let folder = scratch("orphans-ended");
    // In a session of its own, with no environment, and its parent is gone before Lacuna looks.
    let said = capture(&folder, "", "env -i setsid sh -c 'sleep 600 & echo $! > hidden'; exit 3");
    let hidden = std::fs::read_to_string(folder.join("hidden")).unwrap();
    assert_eq!(said.status.code(), Some(3), "{said:?}");
    assert!(!is_alive(&hidden));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn processes_without_parents_are_forgotten_when_they_end() {
    let folder = scratch("orphans-reaped");
    // One is seen as the child of another first, which ends before it. A machine that is busy may take its time.
    let script = "(sleep 1 & sleep 0.5);
                  for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.1 &); env -i setsid sh -c 'sleep 0.1 &'; done; sleep 1;
                  for i in $(seq 100); do
                      n=$(cat /proc/[0-9]*/stat | grep -c \") Z $PPID \"); [ $n = 0 ] && break; sleep 0.2
                  done; echo $n";
    let said = capture(&folder, "", script);
    let text = String::from_utf8_lossy(&said.stdout);
    assert_eq!(text.lines().next(), Some("0"), "{said:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn processes_that_were_there_before_a_run_are_not_of_it() {
    let folder = scratch("orphans-before");
    let said = capture(&folder, "env -i setsid sleep 600 >/dev/null 2>&1 & echo $! > before;", "sleep 0.5; exit 3");
    let before = std::fs::read_to_string(folder.join("before")).unwrap();
    let was_alive = is_alive(&before);
    _ = Command::new("kill").arg(before.trim()).status();
    assert_eq!((said.status.code(), was_alive), (Some(3), true), "{said:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Not a test of its own: a Lacuna that ends at once although a run of its goes on.
#[test]
#[ignore = "run by the next test"]
#[expect(clippy::exit, reason = "as Lacuna does, without waiting for its threads")]
fn ends_during_a_run() {
    use lacuna::capture::launch::{Destination, PATIENCE, Recorder, Request, Run};
    let folder = std::path::PathBuf::from(std::env::var_os("LACUNA_TEST_RUN").unwrap());
    let script = "trap '' INT TERM; echo written; while :; do sleep 0.05; done";
    let request = Request {
        argv: ["sh", "-c", script].map(Into::into).into(),
        env: Vec::new(),
        typed: None,
        working_folder: None,
        recorder: Recorder::None,
        place: Destination::At(folder),
        grace: std::time::Duration::from_secs(600),
        patience: PATIENCE,
        time_limit: None,
        has_counters: true,
        is_piped: false,
    };
    let run = Run::start(&request, |_| (), || {}).unwrap();
    until(|| run.with_output(|output| output.n_lines == 1));
    let _ended = lacuna::capture::end_all();
    std::process::exit(0);
}

#[test]
fn what_a_run_wrote_is_kept_where_it_is_killed_as_lacuna_ends() {
    let folder = scratch("orphans-killed-at-the-end");
    let run = folder.join("run");
    let mut lacuna = Command::new(std::env::current_exe().unwrap());
    lacuna.args(["--exact", "orphans::ends_during_a_run", "--ignored", "--nocapture"]).env("LACUNA_TEST_RUN", &run);
    assert!(lacuna.output().unwrap().status.success());
    assert_eq!(std::fs::read_to_string(run.join("output.txt")).unwrap(), "written\n");
    let manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
    assert_eq!(
        (&manifest["was_stopped"], &manifest["lines"], &manifest["signal"]),
        (&true.into(), &1.into(), &9.into())
    );
    let mut names = std::fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.all(|name| !name.to_string_lossy().ends_with(".tmp")));
    std::fs::remove_dir_all(&folder).unwrap();
}
