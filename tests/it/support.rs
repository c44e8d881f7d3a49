//! Shared helpers: locations of files, and reading on a small stack with a time limit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use lacuna::job::Progress;
use lacuna::model::{ImportReport, Trace};
use lacuna::reader::{self, ReadError};
use serde_json::Value;

/// The folder of the project.
pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file or folder beside the project that not every checkout has; says so when it is absent.
pub fn beside(path: &str) -> Option<PathBuf> {
    // A worktree lies one folder deeper than the main checkout.
    let found = project().ancestors().skip(1).take(2).map(|folder| folder.join("shared").join(path));
    let found = found.into_iter().find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: ../shared/{path} is absent");
    }
    found
}

/// The files of a folder of real recordings, by name; empty where the folder is absent.
pub fn real(folder: &str) -> Vec<PathBuf> {
    beside(&format!("data/real/{folder}")).map(|folder| files(&folder)).unwrap_or_default()
}

/// The files directly inside a folder, by name.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    files
}

/// The last part of a path.
pub fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// An empty folder under `target`, where what a failed test leaves does not pile up.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Changes a byte of a file and puts the time of its last change back.
#[cfg(unix)]
pub fn rewrite(path: &Path) {
    use std::io::{Seek as _, Write as _};
    let data = path.metadata().unwrap();
    let mut file = std::fs::File::options().write(true).open(path).unwrap();
    file.seek(std::io::SeekFrom::Start(data.len() / 2)).unwrap();
    file.write_all(b"~").unwrap();
    file.set_modified(data.modified().unwrap()).unwrap();
}

/// Has an interrupt end the programs that a test starts, also where a shell runs the tests in the background and has
/// it ignored. What is handled becomes the default in programs.
#[cfg(unix)]
pub fn interrupts_end_programs() {
    let signal = signal_hook::consts::SIGINT;
    signal_hook::flag::register_conditional_shutdown(signal, 130, std::sync::Arc::new(true.into())).unwrap();
}

/// Whether this machine has Python; says so if not.
pub fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: python3 is not installed");
    }
    found
}

/// Why reading came to no answer.
#[derive(Debug)]
pub enum Failure {
    Refused(ReadError),
    Panicked,
    Hung,
}

/// Reads a file on a thread with a stack of 512 KiB, for at most two minutes.
pub fn read(path: &Path) -> Result<Vec<Trace>, Failure> {
    let (sender, receiver) = sync_channel(1);
    let owned = path.to_owned();
    let work = move || {
        // The receiver is gone only after it gave up waiting.
        let _ = sender.send(reader::read(&owned, &Progress::default()));
    };
    std::thread::Builder::new().name("read".to_owned()).stack_size(512 << 10).spawn(work).unwrap();
    match receiver.recv_timeout(Duration::from_secs(120)) {
        Ok(Ok(traces)) => Ok(traces),
        Ok(Err(error)) => Err(Failure::Refused(error)),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Err(Failure::Panicked),
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Err(Failure::Hung),
    }
}

/// What was made of each file, kept until the tests end.
type Kept<T> = Mutex<BTreeMap<PathBuf, &'static OnceLock<T>>>;

/// What `make` returns for a file; it is called once for each file.
fn once<T>(kept: &Kept<T>, path: &Path, make: impl FnOnce(&Path) -> T) -> &'static T {
    let new = || -> &'static OnceLock<T> { Box::leak(Box::default()) };
    let cell = *kept.lock().unwrap().entry(path.to_owned()).or_insert_with(new);
    cell.get_or_init(|| make(path))
}

/// The traces of a real recording, read once for all tests.
pub fn recording(path: &Path) -> Result<&'static [Trace], &'static Failure> {
    static READ: Kept<Result<Vec<Trace>, Failure>> = Mutex::new(BTreeMap::new());
    once(&READ, path, read).as_deref()
}

/// The JSON report of a real recording with one row of each list, made once for all tests.
pub fn short_report(path: &Path) -> Result<&'static Value, &'static str> {
    static REPORTS: Kept<Result<Value, String>> = Mutex::new(BTreeMap::new());
    once(&REPORTS, path, |path| report(path, "1")).as_ref().map_err(String::as_str)
}

/// Runs the program.
pub fn lacuna<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lacuna")).args(args).output().unwrap()
}

/// The JSON report of one file.
pub fn report(path: &Path, top: &str) -> Result<Value, String> {
    let args =
        ["report".as_ref(), "--format".as_ref(), "json".as_ref(), "--top".as_ref(), top.as_ref(), path.as_os_str()];
    let output = lacuna(&args);
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}, {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// A slice as (start ns, duration ns, name).
pub type Plain = (i64, i64, String);

/// The slices of a trace with the offset of their text, in the order of the file.
pub fn slices(trace: &Trace) -> Vec<(u64, Plain)> {
    let table = &trace.slices;
    let mut rows: Vec<_> = (0..table.ts.len())
        .map(|i| {
            let name = trace.strings.get(table.name[i]).to_owned();
            (table.source[i], (table.ts[i], table.end[i] - table.ts[i], name))
        })
        .collect();
    rows.sort();
    rows
}

/// What is wrong with an account of events: it must add up, and each rejected event needs a reason.
pub fn unbalanced(import: &ImportReport) -> Option<String> {
    let ImportReport { read, shown, merged, rejected, ref problems, .. } = *import;
    if read != shown + merged + rejected {
        return Some(format!("{read} read, {shown} shown + {merged} merged + {rejected} rejected"));
    }
    (rejected > 0 && problems.is_empty()).then(|| format!("{rejected} rejected without a reason"))
}

/// Numbers from a seed, for damages that can be repeated: a 64-bit linear congruential generator.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// What a report gives as a share and is not between 0 and 1.
pub fn wrong_shares(report: &Value) -> Vec<String> {
    let is_share = |key: &str| {
        key == "share" || key.ends_with("_share") || ["efficiency", "fragmentation", "regularity", "r2"].contains(&key)
    };
    match report {
        Value::Array(items) => items.iter().flat_map(wrong_shares).collect(),
        Value::Object(fields) => {
            let wrong = |(key, value): (&String, &Value)| {
                let is_wrong = is_share(key) && value.as_f64().is_none_or(|share| !(0.0..=1.0).contains(&share));
                if is_wrong { vec![format!("{key}: {value}")] } else { wrong_shares(value) }
            };
            fields.iter().flat_map(wrong).collect()
        }
        _ => Vec::new(),
    }
}
