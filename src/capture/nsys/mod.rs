//! Reports of Nsight Systems (`.nsys-rep`, `.qdrep`): made readable by NVIDIA's own `nsys export`.
//!
//! The format of reports is not public, so `nsys` converts them to the SQLite export that the reader opens. The
//! export is kept in a cache, never beside the user's file.

mod cache;
mod find;
mod version;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::child::{ExitReason, last_lines, run};
use crate::job::Progress;
use crate::model::{Severity, Trace};
use cache::Cache;
use version::Version;

pub use find::SearchPaths;

/// First bytes of a report; the second form is of older versions.
const MAGIC: [&[u8]; 2] = [b"NVIDIA Tegra Profiler Report", b"QDRP"];
/// Bytes in which a report says its version.
const HEAD: u64 = 128;
/// `nsys --version` takes no longer.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// An export is about this many times as large as its report: a guess, for the progress bar alone.
const GROWTH: u64 = 3;

/// How reports are converted.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where `nsys` may be.
    pub search: SearchPaths,
    /// The folder for exports; `None` if the user has no cache folder.
    pub cache: Option<PathBuf>,
    /// Bytes that kept exports may take together.
    pub cache_limit: u64,
    /// A conversion without new output for this long has hung.
    pub patience: Duration,
}

impl Options {
    /// The defaults of this machine; `nsys` is the user's choice, if any.
    pub fn new(nsys: Option<PathBuf>) -> Self {
        Self {
            search: SearchPaths::of_machine(nsys),
            cache: cache::folder(),
            cache_limit: 20 << 30,
            patience: Duration::from_secs(600),
        }
    }
}

/// The reason why a report could not be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    #[error("Cancelled")]
    Cancelled,
    /// A sentence for the user, without the path; lines of the converter's output may follow.
    #[error("{0}")]
    Failed(String),
}

impl From<std::io::Error> for ConvertError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(format!("The report of Nsight Systems could not be converted: {error}"))
    }
}

/// A file that the reader can open.
#[derive(Debug)]
pub struct Openable {
    /// The file itself, or the export made of it.
    pub path: PathBuf,
    /// The `nsys` that made the export, and its version.
    converter: Option<String>,
}

impl Openable {
    /// Gives traces read from the export the name of the report, and notes who converted it.
    pub fn claim(&self, report: &Path, traces: &mut [Trace]) {
        let Some(converter) = &self.converter else { return };
        for trace in traces {
            report.clone_into(&mut trace.info.path);
            let text = format!("A report of Nsight Systems, converted by {converter}");
            trace.import.note(Severity::Note, &text, 1, None);
            trace.import.sort();
        }
    }
}

/// Returns a file that the reader can open: the file itself, or the export of a report, which may take minutes
/// to create. `progress` counts bytes of the export against an estimate of its size.
///
/// Errors: cancelled; no `nsys` that can read the report; or what `nsys` said when it failed.
pub fn openable(path: &Path, options: &Options, progress: &Progress) -> Result<Openable, ConvertError> {
    let Some(head) = report_head(path) else {
        return Ok(Openable { path: path.to_owned(), converter: None });
    };
    let of_report = Version::in_report(&head);
    let (nsys, version) = choose(path, of_report, options, progress)?;
    // An absolute path cannot be taken for an option.
    let report = path.canonicalize()?;
    let Some(folder) = &options.cache else {
        let text = "There is no folder for the converted report: set XDG_CACHE_HOME or HOME";
        return Err(ConvertError::Failed(text.to_owned()));
    };
    let cache = Cache::new(folder, &report, &format!("{version}"))?;
    let path = match cache.find() {
        Some(export) => export,
        None => convert(&nsys, &report, &cache, options, progress)?,
    };
    cache.prune(options.cache_limit);
    Ok(Openable { path, converter: Some(format!("nsys {version} ({})", nsys.display())) })
}

/// The first bytes of a report; nothing for any other file, or one that cannot be read.
fn report_head(path: &Path) -> Option<Vec<u8>> {
    // Opening a pipe would wait for its writer.
    path.is_file().then_some(())?;
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    MAGIC.iter().any(|magic| head.starts_with(magic)).then_some(head)
}

/// The first `nsys` that is as new as the report.
fn choose(
    path: &Path,
    of_report: Option<Version>,
    options: &Options,
    progress: &Progress,
) -> Result<(PathBuf, Version), ConvertError> {
    let mut too_old: Option<(PathBuf, Version)> = None;
    let mut mute: Option<PathBuf> = None;
    for nsys in options.search.candidates() {
        match ask_version(&nsys, progress)? {
            Some(version) if of_report.is_none_or(|report| version.reads(report)) => return Ok((nsys, version)),
            Some(version) => too_old = too_old.or(Some((nsys, version))),
            None => mute = mute.or(Some(nsys)),
        }
    }
    let report = of_report.map(|version| format!(" {}", version.short())).unwrap_or_default();
    let why = match (too_old, mute) {
        (Some((nsys, version)), _) => {
            format!("the newest nsys found here is {}, too old to read it ({})", version.short(), nsys.display())
        }
        (None, Some(nsys)) => format!("the nsys found here does not tell its version ({})", nsys.display()),
        (None, None) => format!("no nsys was found here (looked in {})", options.search.described()),
    };
    let text = format!("This is a report of Nsight Systems{report}, and {why}. {}", what_to_run(path, of_report));
    Err(ConvertError::Failed(text))
}

/// Advice for users without a suitable `nsys`.
fn what_to_run(path: &Path, of_report: Option<Version>) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let export = path.with_extension("sqlite");
    let modified = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    if modified(&export).is_some_and(|made| modified(path).is_some_and(|of_report| made >= of_report)) {
        let export = export.file_name().unwrap_or_default().to_string_lossy();
        return format!("Beside it lies {export}, which is newer: open that file");
    }
    let at_least = of_report.map_or(String::new(), |version| format!(" {} or newer", version.short()));
    let output = Path::new(&*name).with_extension("sqlite");
    let [output, name] = [&output.to_string_lossy(), &name].map(|text| quoted(text));
    format!(
        "Where Nsight Systems{at_least} is installed, run `nsys export --type sqlite --output {output} {name}` and \
         open {output}"
    )
}

/// Text as a POSIX shell takes it for one word, for a person to copy.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./+,:@%".contains(c);
    let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    match text.chars().all(is_plain) && !text.starts_with('-') {
        true => text,
        false if text.starts_with('-') => format!("'./{}'", text.replace('\'', r"'\''")),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// What `nsys --version` says; nothing if it fails or says no version.
fn ask_version(nsys: &Path, progress: &Progress) -> Result<Option<Version>, ConvertError> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let mut command = Command::new(nsys);
    command.arg("--version").current_dir(folder.path());
    let end = run(&mut command, &log, |elapsed| elapsed < VERSION_LIMIT && !progress.is_cancelled());
    match end {
        _ if progress.is_cancelled() => Err(ConvertError::Cancelled),
        Ok(ExitReason::Exited(status)) if status.success() => Ok(Version::in_answer(&last_lines(&log))),
        // A program that does not start is not nsys.
        _ => Ok(None),
    }
}

/// Runs the export into the cache.
fn convert(
    nsys: &Path,
    report: &Path,
    cache: &Cache,
    options: &Options,
    progress: &Progress,
) -> Result<PathBuf, ConvertError> {
    let work = cache.work_folder()?;
    let log = work.path().join("log");
    let export = work.path().join(cache.name());
    let mut command = Command::new(nsys);
    command.args(["export", "--type", "sqlite", "--force-overwrite", "true", "--output"]).arg(&export).arg(report);
    // Other files that it writes are removed with the folder.
    command.current_dir(work.path()).env("TMPDIR", work.path());
    progress.set_total(report.metadata()?.len().saturating_mul(GROWTH));
    let mut seen = (0, Duration::ZERO);
    let mut has_hung = false;
    let end = run(&mut command, &log, |elapsed| {
        let size = std::fs::metadata(&export).map_or(0, |data| data.len());
        progress.set_done(size.min(progress.get().1));
        if size != seen.0 {
            seen = (size, elapsed);
        }
        has_hung = elapsed.saturating_sub(seen.1) > options.patience;
        !has_hung && !progress.is_cancelled()
    })?;
    let failed = |what: String| {
        let said = last_lines(&log);
        let said = if said.is_empty() { "It said nothing".to_owned() } else { format!("It said:\n{said}") };
        Err(ConvertError::Failed(format!("The export of the report by {} {what}\n{said}", nsys.display())))
    };
    match end {
        ExitReason::Stopped if has_hung => {
            failed(format!("made no progress for {} s and was ended", options.patience.as_secs()))
        }
        ExitReason::Stopped => Err(ConvertError::Cancelled),
        ExitReason::Flooded => failed("wrote messages without end and was ended".to_owned()),
        ExitReason::Exited(status) if !status.success() => failed(format!("failed ({status})")),
        ExitReason::Exited(_) if !is_database(&export) => failed("wrote no database".to_owned()),
        ExitReason::Exited(_) => Ok(cache.keep(work)?),
    }
}

fn is_database(path: &Path) -> bool {
    let mut head = [0; 16];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"SQLite format 3\0"
}

#[cfg(test)]
mod tests;
