//! The folder of each run, with the manifest that says what ran and how it ended.

use std::fs::DirBuilder;
use std::io::{BufReader, Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Exit, Output};
pub use crate::capture::partial::write_private;
use crate::capture::{counters, cupti};
use crate::live;

const MANIFEST: &str = "run.json";
/// What the program wrote, as far as it was kept.
const OUTPUT: &str = "output.txt";
/// Which lines of that are of stderr; not there if none is.
const OF_STDERR: &str = "output-stderr-lines.txt";

/// What is known of a run, as `run.json` in its folder keeps it. Of the environment only the additions are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    pub lacuna: String,
    /// The program with its arguments, as [`super::words::split`] reads it.
    pub command: String,
    /// As [`super::words::path`] reads it.
    pub working_folder: String,
    /// Additions to the environment, `NAME=value`, each as one quoted word.
    pub env: Vec<String>,
    /// What a person typed of it in the window.
    pub typed: Option<Typed>,
    /// How it was recorded: `none`, `pytorch`, `on-demand`, `nsys`, `cupti`.
    pub recorder: String,
    /// How else; manifests of earlier versions do not say it.
    pub options: Option<RunOptions>,
    /// Milliseconds since 1970, UTC.
    pub started_ms: u64,
    pub elapsed_ms: u64,
    /// Whether the run has ended; without this Lacuna was killed, or still watches it.
    pub has_ended: bool,
    pub exit_code: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<i32>,
    /// Whether the user, or the time limit, asked for its end.
    pub was_stopped: bool,
    /// Whether that was the time limit.
    pub was_over_limit: bool,
    pub lines: u64,
    pub lines_dropped: u64,
    /// Names of the files that were recorded, as [`super::words::path`] reads them.
    pub results: Vec<String>,
    /// Sentences for the user: why something is missing.
    pub notes: Vec<String>,
}

/// The words of a command as a person typed them, who may quote them otherwise than [`super::words::joined`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Typed {
    /// Assignments, the program and its arguments.
    pub line: String,
    /// Further assignments.
    pub env: String,
}

/// What was asked of a run beside its command and its recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// The options of the recorder, by the names of their fields; null where it has none.
    pub recorder: Value,
    /// After so many seconds it was to be stopped; 0 is never.
    pub seconds: u64,
    /// Whether the counters of the GPUs were to be recorded beside it.
    pub has_counters: bool,
}

/// A run that was made before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    pub folder: PathBuf,
    pub manifest: Manifest,
    /// What lies in its folder, in bytes.
    pub bytes: u64,
}

/// What kind of file was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// What ran: a Chrome trace, or a report of Nsight Systems.
    Trace,
    MemorySnapshot,
    /// What the GPUs did meanwhile.
    Counters,
}

/// A file that a run recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub path: PathBuf,
    pub kind: Kind,
    pub bytes: u64,
}

impl Recorded {
    /// Its name without the folder, as [`super::words::path`] reads it.
    pub fn name(&self) -> String {
        super::words::path_text(Path::new(self.path.file_name().unwrap_or_default()))
    }
}

/// The user's folder for runs: `$XDG_DATA_HOME/lacuna/runs`, or the same in `~/.local/share`.
pub fn root() -> Option<PathBuf> {
    if cfg!(test) {
        // Tests press any button. What they leave goes with what was built.
        return Some(std::env::current_exe().ok()?.with_file_name(format!("test-runs-{}", std::process::id())));
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("lacuna/runs"))
}

/// Makes a private folder in `root`, named by the time and by `what` ran.
///
/// Errors: it cannot be made.
pub fn create(root: &Path, what: &str) -> Result<PathBuf> {
    private().recursive(true).create(root)?;
    let is_kept = |c: &char| c.is_alphanumeric() || "._-".contains(*c);
    let what: String = what.chars().filter(is_kept).take(40).collect();
    let time: String = shown_time(now_ms()).chars().filter(|c| !"-:".contains(*c)).collect();
    let time = time.replace(' ', "-");
    for n in 1..1000 {
        let again = if n == 1 { String::new() } else { format!("-{n}") };
        let folder = root.join(format!("{time}-{what}{again}"));
        match private().create(&folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder),
        }
    }
    Err(Error::from(ErrorKind::AlreadyExists))
}

/// Makes the folder that the user named; one that is there must be empty.
///
/// Errors: it holds files, or cannot be made.
pub fn claim(folder: &Path) -> Result<PathBuf> {
    private().recursive(true).create(folder)?;
    let folder = folder.canonicalize()?;
    if std::fs::read_dir(&folder)?.next().is_some() {
        return Err(Error::new(ErrorKind::DirectoryNotEmpty, "it is not empty"));
    }
    Ok(folder)
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// A time in milliseconds since 1970 for the user, `YYYY-MM-DD HH:MM:SS` where this machine is.
pub fn shown_time(ms: u64) -> String {
    live::local(i64::try_from(ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX))
}

fn now_ms() -> u64 {
    (live::now() / 1_000_000).unsigned_abs()
}

impl Manifest {
    /// Errors: it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        write_private(&folder.join(MANIFEST), serde_json::to_string_pretty(self)?.as_bytes())
    }

    /// How the program ended, where that is known.
    pub fn exit(&self) -> Option<Exit> {
        self.exit_code.map(Exit::Code).or(self.signal.map(Exit::Signal))
    }

    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join(MANIFEST)).ok()?).ok()
    }
}

/// The runs in `root`, the latest first.
pub fn list(root: &Path) -> Vec<Earlier> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let known = |folder: PathBuf| {
        let manifest = Manifest::read(&folder)?;
        let bytes = size(&folder);
        Some(Earlier { folder, manifest, bytes })
    };
    let mut found: Vec<Earlier> = entries.filter_map(known).collect();
    found.sort_by(|a, b| b.manifest.started_ms.cmp(&a.manifest.started_ms).then_with(|| a.folder.cmp(&b.folder)));
    found
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).filter(std::fs::Metadata::is_file).map(|data| data.len()).sum()
}

/// Keeps what a run wrote.
///
/// Errors: it cannot be written.
pub fn keep_output(folder: &Path, text: &str, of_stderr: &str) -> Result<()> {
    write_private(&folder.join(OUTPUT), text.as_bytes())?;
    if of_stderr.is_empty() { Ok(()) } else { write_private(&folder.join(OF_STDERR), of_stderr.as_bytes()) }
}

/// What a run wrote, as far as its folder keeps it.
///
/// Errors: a sentence about why there is nothing.
pub fn kept_output(run: &Earlier) -> std::result::Result<Output, String> {
    let of_stderr = std::fs::read_to_string(run.folder.join(OF_STDERR)).unwrap_or_default();
    let file = std::fs::File::open(run.folder.join(OUTPUT));
    match file.and_then(|file| Output::read(BufReader::new(file), &of_stderr, run.manifest.lines_dropped)) {
        Ok(output) => Ok(output),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(match run.manifest.has_ended {
            true => "The output of this run was not kept".to_owned(),
            false => "The output of this run is kept once it has ended".to_owned(),
        }),
        Err(error) => Err(format!("The output of this run cannot be read: {error}")),
    }
}

/// Deletes a run with all that it recorded.
///
/// Errors: it is not a folder of a run, or cannot be deleted.
pub fn delete(folder: &Path) -> Result<()> {
    if Manifest::read(folder).is_none() {
        return Err(Error::new(ErrorKind::NotFound, "This is not the folder of a run"));
    }
    std::fs::remove_dir_all(folder)
}

/// The recorded files in a run's folder that are whole, by name: traces, then snapshots, then counters.
///
/// * `is_over`: whether no process of the run writes any more, so that what was cut off is whole as well.
pub fn results(folder: &Path, is_over: bool) -> Vec<Recorded> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let recorded = |entry: std::fs::DirEntry| {
        let kind = match &*entry.file_name().to_string_lossy() {
            name if name.ends_with(".pt.trace.json") || name.ends_with(".nsys-rep") => Kind::Trace,
            name if name.ends_with(".pickle") => Kind::MemorySnapshot,
            counters::FILE => Kind::Counters,
            _ => return None,
        };
        Some((entry.path(), kind))
    };
    let by_cupti = cupti::traces(folder, is_over).into_iter().map(|path| (path, Kind::Trace));
    let sized = |(path, kind): (PathBuf, Kind)| {
        let bytes = path.metadata().ok()?.len();
        Some(Recorded { path, kind, bytes })
    };
    let mut found: Vec<Recorded> = entries.filter_map(recorded).chain(by_cupti).filter_map(sized).collect();
    found.sort_by_cached_key(|result| (result.kind, natural(&result.name())));
    found
}

/// A name as texts, each with the number after it, so that trace 10 comes after trace 2.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let end = rest[text..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |digits| text + digits);
        parts.push((rest[..text].to_owned(), rest[text..end].parse().unwrap_or(u64::MAX)));
        rest = &rest[end..];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_by_the_time_that_is_shown() {
        let root = tempfile::tempdir().unwrap();
        let folder = create(root.path(), "x").unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap();
        let digits: String = shown_time(now_ms()).chars().filter(char::is_ascii_digit).collect();
        // Seconds may be over meanwhile.
        let earlier: String = shown_time(now_ms() - 60_000).chars().filter(char::is_ascii_digit).collect();
        let found: String = name.chars().filter(char::is_ascii_digit).take(14).collect();
        assert!((earlier..=digits).contains(&found) && name.ends_with("-x") && name.len() == 17, "{name}");
    }

    #[test]
    fn runs_are_listed_and_deleted_and_nothing_else_is() {
        let root = tempfile::tempdir().unwrap();
        let folders = [create(root.path(), "train.py").unwrap(), create(root.path(), "a/../b c\n").unwrap()];
        assert!(folders[1].to_string_lossy().ends_with("-a..bc"));
        assert_ne!(create(root.path(), "train.py").unwrap(), folders[0]);
        for (i, folder) in folders.iter().enumerate() {
            Manifest { started_ms: i as u64, ..Default::default() }.write(folder).unwrap();
        }
        for name in [
            "trace-rank0-10.pt.trace.json",
            "trace-rank0-2.pt.trace.json",
            "memory-rank0.pickle",
            "x.pt.trace.json.7.tmp",
            "other.json",
        ] {
            std::fs::write(folders[0].join(name), "12345").unwrap();
        }
        let names = |folder: &Path| results(folder, true).iter().map(Recorded::name).collect::<Vec<_>>();
        assert_eq!(
            names(&folders[0]),
            ["trace-rank0-2.pt.trace.json", "trace-rank0-10.pt.trace.json", "memory-rank0.pickle"]
        );
        let listed: Vec<_> = list(root.path()).into_iter().map(|run| run.folder).collect();
        assert_eq!(listed, [folders[1].clone(), folders[0].clone()]);
        delete(&folders[0]).unwrap();
        assert!(delete(root.path()).is_err() && !folders[0].exists() && folders[1].exists());
    }

    #[test]
    fn a_named_folder_must_be_empty() {
        let root = tempfile::tempdir().unwrap();
        let folder = claim(&root.path().join("new/run")).unwrap();
        assert!(claim(&folder).is_ok());
        std::fs::write(folder.join("precious"), "").unwrap();
        assert!(claim(&folder).is_err());
    }
}
