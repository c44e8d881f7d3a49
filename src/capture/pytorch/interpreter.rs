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

/// The Python of a command, as it would be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    pub program: PathBuf,
    /// Where the script lies, whose neighbors it can import.
    beside: PathBuf,
    working_folder: PathBuf,
    /// Additions to the environment.
    env: Vec<(OsString, OsString)>,
}

impl Interpreter {
    /// That of a command, if it is one of Python.
    ///
    /// * `folder`: where the program runs.
    /// * `path`: its `PATH`.
    pub fn of(argv: &[OsString], folder: &Path, path: &OsStr, env: Vec<(OsString, OsString)>) -> Option<Self> {
        let program = interpreter(argv, folder, path)?;
        let script = argv[1..].iter().find(|word| Path::new(word).extension() == Some(OsStr::new("py")));
        let beside = script.and_then(|script| Some(folder.join(Path::new(script).parent()?)));
        Some(Self { program, beside: beside.unwrap_or(folder.to_owned()), working_folder: folder.to_owned(), env })
    }

    /// A sentence if it has no torch; nothing if it has, or cannot be asked. Starts it.
    pub fn lacks_torch(&self) -> Option<String> {
        let mut command = Command::new(&self.program);
        command.envs(self.env.iter().cloned()).current_dir(&self.working_folder);
        command.args(["-c", QUESTION]).arg(&self.beside);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let asked = Instant::now();
        while asked.elapsed() < LIMIT {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(LOOK),
                Ok(Some(status)) => {
                    return (status.code() == Some(ABSENT)).then(|| {
                        let shown = words::quoted(self.program.as_os_str());
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
}

/// The Python that a command runs: its program, or that of the first line of a script such as torchrun.
fn interpreter(argv: &[OsString], folder: &Path, path: &OsStr) -> Option<PathBuf> {
    let program = Path::new(argv.first()?);
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

/// Whether a program is a Python by its name, such as python3.13t; it is started before the user starts the command, so
/// nothing else may be taken for one.
fn is_python(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| version.trim_end_matches('t').chars().all(|c| c.is_ascii_digit() || c == '.'))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_python_is_not_started_as_one() {
        let of = |name: &str| is_python(&Path::new("/a").join(name));
        assert!(["python", "python3", "python3.13", "python3.13t", "pypy3"].iter().all(|name| of(name)));
        assert!(!["python-clean", "python3-config", "python.sh", "ipython", "python_all"].iter().any(|name| of(name)));
    }

    #[test]
    fn the_interpreter_that_will_run_is_asked_for_torch() {
        let path = std::env::var_os("PATH").unwrap();
        let stub = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stub");
        let ask = |argv: &[&str], python_path: &str| {
            let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
            Interpreter::of(&argv, Path::new("/"), &path, vec![("PYTHONPATH".into(), python_path.into())])?
                .lacks_torch()
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
