//! Reports of Nsight Systems (`.nsys-rep`, `.qdrep`): made readable by NVIDIA's own `nsys export`.
//!
//! The format of reports is not public, so `nsys` converts them to the SQLite export that the reader opens. The
//! export is kept in a cache, never beside the user's file.

mod cache;
mod find;
mod record;
mod version;

use std::cmp::Reverse;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::run::{ExitReason, last_lines, percentage, run};
use super::scratch::Scratch;
use crate::job::Progress;
use crate::model::{Severity, Trace};
use cache::Cache;
use version::Version;

pub use cache::folder as cache_folder;
pub use find::{SearchPaths, lasting};
pub use record::{Profile, Range, clean, is_writing, prepare, recorder, take_reports, written};
#[cfg(unix)]
pub use record::{program, signal_program};

/// First bytes of a report; the second form is of older versions.
const MAGIC: [&[u8]; 2] = [b"NVIDIA Tegra Profiler Report", b"QDRP"];
/// Bytes in which a report says its version.
const HEAD: u64 = 128;
/// `nsys --version` takes no longer.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

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

/// That the cache cannot be written to, and what to do.
fn unwritable(cache: &Path, why: std::io::Error) -> ConvertError {
    match why.kind() {
        // Lacuna is about to end.
        std::io::ErrorKind::Interrupted => why.into(),
        _ => ConvertError::Failed(format!("The report of Nsight Systems must be converted, but {}", full(cache, &why))),
    }
}

fn full(cache: &Path, why: &std::io::Error) -> String {
    let place = cache.display();
    format!("nothing can be written in {place}: {why}. Free some space there, or set XDG_CACHE_HOME to another folder")
}

/// A file that the reader can open.
#[derive(Debug)]
pub struct Openable {
    /// The file itself, or the export made of it.
    pub path: PathBuf,
    /// Where it is an export made of a report, by whom.
    origin: Option<Origin>,
}

#[derive(Debug)]
struct Origin {
    /// The `nsys` that made the export, and its version.
    converter: String,
    /// The version that recorded the report, where the report tells.
    recorded: Option<Version>,
}

impl Openable {
    /// Gives traces read from the export the name and size of the report and the name of who recorded it, and notes who
    /// converted it.
    pub fn claim(&self, report: &Path, traces: &mut [Trace]) {
        let Some(Origin { converter, recorded }) = &self.origin else { return };
        for trace in traces {
            report.clone_into(&mut trace.info.path);
            trace.info.bytes = report.metadata().map_or(trace.info.bytes, |data| data.len());
            // The export names the version that exported it.
            if let Some(version) = recorded {
                trace.info.producer = format!("Nsight Systems {version}");
            }
            let text = format!("A report of Nsight Systems, converted by {converter}");
            trace.import.note(Severity::Note, &text, 1, None);
            trace.import.sort();
        }
    }
}

/// Returns a file that the reader can open: the file itself, or the export of a report, which may take minutes
/// to create. `progress` says that `nsys` is at work, and counts its percentage.
///
/// Of several `nsys` the one that recorded the report is tried first, then the newest; after one that fails, the
/// next. An export in the cache is used unless there is an `nsys` that was not there when it was made, or the
/// user chose another.
///
/// Errors: cancelled; no `nsys` that can read the report; or what each `nsys` said when it failed.
pub fn openable(path: &Path, options: &Options, progress: &Progress) -> Result<Openable, ConvertError> {
    let Some(head) = report_head(path) else {
        return Ok(Openable { path: path.to_owned(), origin: None });
    };
    let recorded = Version::in_report(&head);
    let Some(folder) = &options.cache else {
        let text = "There is no folder for the converted report: set XDG_CACHE_HOME or HOME";
        return Err(ConvertError::Failed(text.to_owned()));
    };
    // An absolute path cannot be taken for an option.
    let report = path.canonicalize()?;
    let cache = Cache::new(folder, &report)?;
    let candidates = options.search.candidates();
    let made = cache.find();
    let opened = |path, converter| Ok(Openable { path, origin: Some(Origin { converter, recorded }) });
    if let Some(made) = &made {
        let is_chosen = |nsys: &PathBuf| made.converter.ends_with(&by(nsys)) && made.knew(nsys);
        let serves = match options.search.chosen {
            Some(_) => candidates.is_empty() || candidates.iter().any(is_chosen),
            None => candidates.iter().all(|nsys| made.knew(nsys)),
        };
        if serves {
            return opened(made.export.clone(), made.converter.clone());
        }
    }
    let converted = convert(&report, &cache, (&candidates, recorded), options, progress);
    progress.set_phase("");
    match converted {
        Ok((export, converter)) => {
            cache.prune(options.cache_limit);
            opened(export, converter)
        }
        Err(ConvertError::Failed(why)) => match made {
            Some(made) => opened(made.export, made.converter),
            None => Err(ConvertError::Failed(why)),
        },
        Err(error) => Err(error),
    }
}

/// The end of the name of a converter.
fn by(nsys: &Path) -> String {
    format!(" ({})", nsys.display())
}

/// The first bytes of a report; nothing for any other file, or one that cannot be read.
fn report_head(path: &Path) -> Option<Vec<u8>> {
    // Opening a pipe would wait for its writer.
    path.is_file().then_some(())?;
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    MAGIC.iter().any(|magic| head.starts_with(magic)).then_some(head)
}

/// Makes the export with the first of the candidates that can; returns its path and who made it.
fn convert(
    report: &Path,
    cache: &Cache,
    (candidates, recorded): (&[PathBuf], Option<Version>),
    options: &Options,
    progress: &Progress,
) -> Result<(PathBuf, String), ConvertError> {
    let mut able: Vec<(Version, &PathBuf)> = Vec::new();
    let mut too_old: Option<(Version, &PathBuf)> = None;
    let mut mute: Option<&PathBuf> = None;
    progress.set_phase("Asking nsys for its version");
    for nsys in candidates {
        match ask_version(nsys, cache, progress)? {
            Some(version) if recorded.is_none_or(|recorded| version.reads(recorded)) => able.push((version, nsys)),
            Some(version) => too_old = too_old.max(Some((version, nsys))),
            None => mute = mute.or(Some(nsys)),
        }
    }
    // Stable, so that of equal ones the first found stays first.
    able.sort_by_key(|&(version, _)| (Some(version) != recorded, Reverse(version)));
    let known: Vec<String> = candidates.iter().map(|nsys| cache::identity(nsys)).collect();
    let mut failures = Vec::new();
    for (version, nsys) in able {
        let converter = format!("nsys {version}{}", by(nsys));
        progress.set_phase(&format!("Converting with nsys {}", version.short()));
        match export(nsys, report, cache, options, progress) {
            Ok(work) => {
                let kept = cache.keep(work, &converter, &known).map_err(|why| unwritable(cache.root(), why))?;
                return Ok((kept, converter));
            }
            Err(ConvertError::Failed(why)) => failures.push(why),
            Err(error) => return Err(error),
        }
    }
    if !failures.is_empty() {
        return Err(ConvertError::Failed(failures.join("\n")));
    }
    let why = match (too_old, mute) {
        (Some((version, nsys)), _) => {
            format!("the newest nsys found here is {}, too old to read it{}", version.short(), by(nsys))
        }
        (None, Some(nsys)) => format!("the nsys found here does not report its version{}", by(nsys)),
        (None, None) => format!("no nsys was found here (looked in {})", options.search.described()),
    };
    let version = recorded.map(|version| format!(" {}", version.short())).unwrap_or_default();
    let text = format!("This is a report of Nsight Systems{version}, and {why}. {}", what_to_run(report, recorded));
    Err(ConvertError::Failed(text))
}

/// Advice for users without a suitable `nsys`.
fn what_to_run(path: &Path, of_report: Option<Version>) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let modified = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let beside = path.with_extension("sqlite");
    let is_newer = || modified(&beside).is_some_and(|made| modified(path).is_some_and(|of_report| made >= of_report));
    // A report may itself have such a name.
    if is_database(&beside) && is_newer() {
        let export = beside.file_name().unwrap_or_default().to_string_lossy();
        return format!("Beside it lies {export}, which is newer: open that file");
    }
    let at_least = of_report.map_or(String::new(), |version| format!(" {} or newer", version.short()));
    let ending = if beside == path { "export.sqlite" } else { "sqlite" };
    let output = Path::new(&*name).with_extension(ending);
    let [output, name] = [&output.to_string_lossy(), &name].map(|text| quoted(text));
    format!(
        "Where Nsight Systems{at_least} is installed, run `nsys export --type sqlite --output {output} {name}` and \
         open {output}"
    )
}

/// Text as a POSIX shell takes it for one word, for the user to copy.
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
fn ask_version(nsys: &Path, cache: &Cache, progress: &Progress) -> Result<Option<Version>, ConvertError> {
    let work = cache.scratch().map_err(|why| unwritable(cache.root(), why))?;
    let mut command = Command::new(nsys);
    command.arg("--version");
    let end = run(&mut command, &work, |elapsed| elapsed < VERSION_LIMIT && !progress.is_cancelled());
    match end {
        _ if progress.is_cancelled() => Err(ConvertError::Cancelled),
        Ok(ExitReason::Exited(status)) if status.success() => Ok(Version::in_answer(&last_lines(&work.log()))),
        // A program that does not start is not nsys; one that could not write could not tell.
        _ => work.has_room().map(|()| None).map_err(|why| unwritable(cache.root(), why)),
    }
}

/// Runs one export; returns the folder that holds it.
fn export(
    nsys: &Path,
    report: &Path,
    cache: &Cache,
    options: &Options,
    progress: &Progress,
) -> Result<Scratch, ConvertError> {
    let work = cache.scratch().map_err(|why| unwritable(cache.root(), why))?;
    let log = work.log();
    let export = work.path().join(cache.name());
    let mut command = Command::new(nsys);
    command.args(["export", "--type", "sqlite", "--force-overwrite", "true", "--output"]).arg(&export).arg(report);
    progress.set_done(0);
    progress.set_total(100);
    let mut seen = ((0, 0), Duration::ZERO);
    let mut has_hung = false;
    let end = run(&mut command, &work, |elapsed| {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |data| data.len());
        let sizes = (size(&export), size(&log));
        if sizes != seen.0 {
            seen = (sizes, elapsed);
            progress.set_done(percentage(&log).unwrap_or(0));
        }
        has_hung = elapsed.saturating_sub(seen.1) > options.patience;
        !has_hung && !progress.is_cancelled()
    })?;
    let failed = |what: String| {
        let said = last_lines(&log);
        let said = if said.is_empty() { "It said nothing".to_owned() } else { format!("It said:\n{said}") };
        let full = work.has_room().err().map(|why| format!(". Perhaps since {}", full(cache.root(), &why)));
        let full = full.unwrap_or_default();
        Err(ConvertError::Failed(format!("The export of the report by {} {what}{full}\n{said}", nsys.display())))
    };
    match end {
        ExitReason::Stopped if has_hung => {
            failed(format!("made no progress for {} s and was ended", options.patience.as_secs()))
        }
        ExitReason::Stopped => Err(ConvertError::Cancelled),
        ExitReason::Flooded => failed("wrote messages without end and was ended".to_owned()),
        ExitReason::Exited(status) if !status.success() => failed(format!("failed ({status})")),
        ExitReason::Exited(_) if !is_database(&export) => failed("wrote no database".to_owned()),
        ExitReason::Exited(_) => Ok(work),
    }
}

fn is_database(path: &Path) -> bool {
    let mut head = [0; 16];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"SQLite format 3\0"
}

#[cfg(test)]
mod tests;
