//! Detection of torch in the interpreter of a command, without importing torch.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::capture::launch::words;

/// The answer takes a start of Python; one that comes later is not waited for.
const LIMIT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);
/// The exit code that says so, unlike those of failures.
const ABSENT: i32 = 66;
const QUESTION: &str = "import importlib.util as u, sys; sys.path[0:1] = sys.argv[1:]; \
                        sys.exit(0 if u.find_spec('torch') else 66)";

/// A sentence if the interpreter of a Python command has no torch; nothing if it has, or cannot be asked.
///
/// * `folder`: where the program runs.
/// * `path`: its `PATH`.
/// * `prepare`: gives a command its environment and folder.
pub fn without_torch(argv: &[OsString], folder: &Path, path: &OsStr, prepare: impl Fn(&mut Command)) -> Option<String> {
    let interpreter = interpreter(argv, folder, path)?;
    let script = argv[1..].iter().find(|word| Path::new(word).extension() == Some(OsStr::new("py")));
    let beside = script.and_then(|script| Some(folder.join(Path::new(script).parent()?))).unwrap_or(folder.to_owned());
    let mut command = Command::new(&interpreter);
    prepare(&mut command);
    command.args(["-c", QUESTION]).arg(beside);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let asked = Instant::now();
    while asked.elapsed() < LIMIT {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(LOOK),
            Ok(Some(status)) => {
                return (status.code() == Some(ABSENT)).then(|| {
                    let shown = words::quoted(interpreter.as_os_str());
                    format!(
                        "{shown} has no torch, so nothing is recorded unless another Python of this run has it: \
                         install it there, or name the python3 of the environment that has it in the command"
                    )
                });
            }
            Err(_) => break,
        }
    }
    _ = child.kill();
    _ = child.wait();
    None
}

/// The Python that a command runs: its program, or that of the first line of a script such as torchrun.
fn interpreter(argv: &[OsString], folder: &Path, path: &OsStr) -> Option<PathBuf> {
    let program = Path::new(argv.first()?);
    let is_python =
        |program: &Path| program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
    let place = match program.components().count() {
        1 => std::env::split_paths(path).map(|place| place.join(program)).find(|place| place.is_file())?,
        _ => folder.join(program),
    };
    if is_python(program) {
        return Some(place);
    }
    let mut line = Vec::new();
    BufReader::new(std::fs::File::open(place).ok()?.take(4096)).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8(line).ok()?;
    let named = PathBuf::from(line.strip_prefix("#!")?.trim());
    (is_python(&named) && named.is_file()).then_some(named)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_that_will_run_is_asked_for_torch() {
        let path = std::env::var_os("PATH").unwrap();
        let stub = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stub");
        let ask = |argv: &[&str], python_path: &str| {
            let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
            without_torch(&argv, Path::new("/"), &path, |command| _ = command.env("PYTHONPATH", python_path))
        };
        assert_eq!(ask(&["sh", "-c", "true"], ""), None);
        assert_eq!(ask(&["no-such-python"], ""), None);
        if Command::new("python3").arg("--version").output().is_err() {
            return;
        }
        assert_eq!(ask(&["python3", "x.py"], stub), None);
        // A torch beside the script is found as well.
        assert_eq!(ask(&["python3", &format!("{stub}/x.py")], ""), None);
        let has_none =
            Command::new("python3").args(["-c", "import torch"]).output().is_ok_and(|said| !said.status.success());
        if has_none {
            let said = ask(&["python3", "x.py"], "").unwrap();
            assert!(said.contains("python3 has no torch") && said.contains("install it there"), "{said}");
        }
    }
}
