//! Processes that a run leaves behind without a sign of where they came from.

use std::path::Path;
use std::process::Command;

use super::support::scratch;

/// Whether a process runs: not one that has ended and waits for its parent.
fn is_alive(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Runs a script under `lacuna capture`, which a shell becomes after `before`.
fn capture(folder: &Path, before: &str, script: &str) -> std::process::Output {
    let shell = format!("{before} exec \"$0\" capture --backend none --no-gpu-counters --out \"$1\" -- sh -c \"$2\"");
    let mut command = Command::new("sh");
    command.args(["-c", &shell, env!("CARGO_BIN_EXE_lacuna")]).arg(folder.join("run")).arg(script);
    command.current_dir(folder).output().unwrap()
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
    let script = "for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.1 &); env -i setsid sh -c 'sleep 0.1 &'; done; sleep 1.5;
                  cat /proc/[0-9]*/stat | grep -c \") Z $PPID \"";
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
