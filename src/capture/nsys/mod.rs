//! Reports of Nsight Systems (`.nsys-rep`, `.qdrep`): made readable by NVIDIA's own `nsys export`. Raw data
//! (`.qdstrm`), which `nsys` leaves where it was ended before it made a report, becomes one by NVIDIA's
//! `QdstrmImporter` first.
//!
//! The formats of both are not public, so `nsys` converts them to the SQLite export that the reader opens. The
//! export is kept in a cache, never beside the user's file.

mod cache;
mod convert;
mod find;
mod record;
mod version;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::job::Progress;
use crate::model::{Severity, Trace};
use cache::Cache;
use version::Version;

pub use cache::folder as cache_folder;
pub use find::{SearchPaths, lasting};
pub use record::{Profile, Range, clean, has_driver, is_writing, prepare, recorder, take_reports, written};
#[cfg(unix)]
pub use record::{program, signal_program};

/// First bytes of a report; the second form is of older versions.
const REPORT: [&[u8]; 2] = [b"NVIDIA Tegra Profiler Report", b"QDRP"];
/// Among the first bytes of raw data.
const RAW: &[u8] = b"NVIDIA Nsight Systems Stream ";
/// Bytes in which both say their version.
const HEAD: u64 = 128;

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
        Self::Failed(format!("What Nsight Systems recorded could not be converted: {error}"))
    }
}

/// What only `nsys` can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Report,
    /// What `nsys` writes while it records.
    Raw,
}

impl Kind {
    /// As it is called in sentences: "a report of Nsight Systems".
    fn name(self) -> &'static str {
        match self {
            Self::Report => "a report",
            Self::Raw => "raw data",
        }
    }

    /// Who made it readable: a sentence.
    fn converted_by(self, converter: &str) -> String {
        match self {
            Self::Report => format!("A report of Nsight Systems, converted by {converter}"),
            Self::Raw => format!("Raw data of Nsight Systems, imported and converted by {converter}"),
        }
    }
}

/// That the cache cannot be written to, and what to do.
fn unwritable(cache: &Path, why: std::io::Error) -> ConvertError {
    match why.kind() {
        // Lacuna is about to end.
        std::io::ErrorKind::Interrupted => why.into(),
        _ => ConvertError::Failed(format!("What Nsight Systems recorded must be converted, but {}", full(cache, &why))),
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
    /// Where it is an export made of a report or of raw data, by whom.
    origin: Option<Origin>,
}

#[derive(Debug)]
struct Origin {
    kind: Kind,
    /// The `nsys` that made the export, and its version.
    converter: String,
    /// The version that recorded it, where that is told.
    recorded: Option<Version>,
}

impl Openable {
    /// Gives traces read from the export the name and size of what was recorded and the name of who recorded it, and
    /// notes who converted it.
    pub fn claim(&self, report: &Path, traces: &mut [Trace]) {
        let Some(Origin { kind, converter, recorded }) = &self.origin else { return };
        for trace in traces {
            report.clone_into(&mut trace.info.path);
            trace.info.bytes = report.metadata().map_or(trace.info.bytes, |data| data.len());
            // The export names the version that exported it.
            if let Some(version) = recorded {
                trace.info.producer = format!("Nsight Systems {version}");
            }
            let text = kind.converted_by(converter);
            trace.import.note(Severity::Note, &text, 1, None);
            trace.import.sort();
        }
    }
}

/// Returns a file that the reader can open: the file itself, or the export of a report or of raw data, which may take
/// minutes to create. `progress` says that `nsys` is at work, and counts its percentage.
///
/// Of several `nsys` the one that recorded it is tried first, then the newest; after one that fails, the
/// next. An export in the cache is used unless there is an `nsys` that was not there when it was made, or the
/// user chose another.
///
/// Errors: cancelled; no `nsys` that can read the report; or what each `nsys` said when it failed.
pub fn openable(path: &Path, options: &Options, progress: &Progress) -> Result<Openable, ConvertError> {
    let Some((kind, recorded)) = recorded_by_nsys(path) else {
        return Ok(Openable { path: path.to_owned(), origin: None });
    };
    let Some(folder) = &options.cache else {
        let text = "There is no folder for the converted report: set XDG_CACHE_HOME or HOME";
        return Err(ConvertError::Failed(text.to_owned()));
    };
    // An absolute path cannot be taken for an option.
    let file = path.canonicalize()?;
    let cache = Cache::new(folder, &file)?;
    let candidates = options.search.candidates();
    let made = cache.find();
    let opened = |path, converter| Ok(Openable { path, origin: Some(Origin { kind, converter, recorded }) });
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
    let original = convert::Original { kind, recorded, path: &file };
    let converted = convert::convert(&original, &cache, &candidates, options, progress);
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

/// What `nsys` recorded, and the version if that is told; nothing for any other file, or one that cannot be read.
fn recorded_by_nsys(path: &Path) -> Option<(Kind, Option<Version>)> {
    // Opening a pipe would wait for its writer.
    path.is_file().then_some(())?;
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    if REPORT.iter().any(|magic| head.starts_with(magic)) {
        return Some((Kind::Report, Version::in_report(&head)));
    }
    head.windows(RAW.len()).any(|bytes| bytes == RAW).then(|| (Kind::Raw, Version::in_raw(&head)))
}

fn is_database(path: &Path) -> bool {
    let mut head = [0; 16];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"SQLite format 3\0"
}

fn is_report(path: &Path) -> bool {
    recorded_by_nsys(path).is_some_and(|(kind, _)| kind == Kind::Report)
}

#[cfg(test)]
mod tests;
