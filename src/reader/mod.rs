//! Readers that convert files to the model: one file or folder per format.

mod archive;
mod chrome_trace;
mod folder;
mod format;
mod gpu_metrics;
mod memory_timeline;
mod nsys;
mod pickle;
mod refused;
mod snapshot;
mod source;
mod tally;

use std::io::Read as _;
use std::path::Path;

use crate::job::Progress;
use crate::model::{Severity, Trace, TraceInfo};

pub use folder::Folder;
pub use format::{CONVERTED, extensions};

use format::{Contents, HEAD, sniff};
use source::{Layer, NeedsConsent, Source};

/// The reason why a file could not be read at all.
///
/// Messages say what is wrong and what to do; the caller adds the path, last.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file is readable, but not a trace that Lacuna opens.
    #[error("{0}")]
    NotATrace(String),
    /// Reading it could exhaust memory; ask the user, then read with
    /// [`Options::allow_any_ratio`].
    #[error("{0}")]
    NeedsConsent(String),
    #[error("Cancelled")]
    Cancelled,
    #[error("Cannot read the file: {0}")]
    Io(std::io::Error),
}

impl From<std::io::Error> for ReadError {
    fn from(error: std::io::Error) -> Self {
        match error.get_ref().is_some_and(|inner| inner.is::<NeedsConsent>()) {
            true => Self::NeedsConsent(NeedsConsent.to_string()),
            false => Self::Io(error),
        }
    }
}

/// What the user agreed to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Read compressed files regardless of their compression ratio.
    pub allow_any_ratio: bool,
}

/// Most layers of compression and archives; `.tar.gz` of `.json.gz` occurs in practice.
const MAX_LAYERS: usize = 4;

/// Reads a file of any known format. An archive of ranks yields one trace per rank, in order of rank.
///
/// Errors: see [`ReadError`]. Damage inside a readable file is not an error: what was lost is in
/// each trace's import report.
pub fn read(path: &Path, progress: &Progress) -> Result<Vec<Trace>, ReadError> {
    read_with(path, Options::default(), progress)
}

/// The same with the user's options.
///
/// Errors: see [`ReadError`].
pub fn read_with(path: &Path, options: Options, progress: &Progress) -> Result<Vec<Trace>, ReadError> {
    let source = Source::file(path)?;
    progress.set_total(source.bytes);
    let mut traces = read_source(&source, options, progress)?;
    traces.sort_by_key(|trace| trace.info.rank);
    Ok(traces)
}

fn read_source(source: &Source, options: Options, progress: &Progress) -> Result<Vec<Trace>, ReadError> {
    if source.layers.len() > MAX_LAYERS {
        return Err(ReadError::NotATrace("Packed into too many archives, one inside another: unpack it".to_owned()));
    }
    let mut text = source.open(options)?;
    let mut head = Vec::with_capacity(HEAD);
    text.reader.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    drop(text);
    if head.is_empty() {
        let text = "Nothing could be decompressed: the file is damaged, or only its first bytes were written";
        return Err(ReadError::NotATrace(text.to_owned()));
    }
    let Some(format) = sniff(&head) else { return Err(ReadError::NotATrace(format::unknown())) };
    match &format.contents {
        Contents::Trace(format, read) => {
            let mut trace = read(source, options, progress)?;
            trace.info.format = *format;
            note_layers(source, &mut trace);
            Ok(vec![trace])
        }
        Contents::Wrapped(inner) => read_source(&inner(source)?, options, progress),
        Contents::Archive(members) => {
            let mut traces = Vec::new();
            for member in members(source, options)? {
                traces.append(&mut read_source(&member, options, progress)?);
            }
            Ok(traces)
        }
        Contents::Refused(sentence) => Err(ReadError::NotATrace((*sentence).to_owned())),
    }
}

/// Notes layers that the user would not expect.
fn note_layers(source: &Source, trace: &mut Trace) {
    let n_gzip = source.layers.iter().filter(|layer| **layer == Layer::Gzip).count();
    if n_gzip > 1 && source.member.is_none() {
        trace.import.note(Severity::Note, "Compressed twice: a gzip file inside a gzip file", 1, None);
    }
    let is_named_gz = source.path.extension().is_some_and(|extension| extension == "gz");
    if source.layers.is_empty() && is_named_gz {
        trace.import.note(Severity::Note, "Named .gz, but not compressed", 1, None);
    }
    if source.layers.iter().any(|layer| matches!(layer, Layer::Utf16 { .. })) {
        let text = "Written as UTF-16, as a redirect in PowerShell does: converted";
        trace.import.note(Severity::Warn, text, 1, None);
    }
    trace.import.sort();
}

/// Records the file in the trace's info.
///
/// * `text_bytes`: its size as it was read, after any decompression.
fn note_source(info: &mut TraceInfo, source: &Source, text_bytes: u64) {
    info.path = source.path.clone();
    info.member = source.member.clone();
    info.bytes = source.bytes;
    info.text_bytes = text_bytes;
    info.rank = rank_in_name(source);
}

/// The rank in the file's name, as in `rank-3.json` or `trace_rank_0.json.gz`.
fn rank_in_name(source: &Source) -> Option<u32> {
    let name = match &source.member {
        Some(member) => member.rsplit('/').next().unwrap_or_default().to_owned(),
        None => source.path.file_name()?.to_string_lossy().into_owned(),
    };
    let name = name.to_ascii_lowercase();
    let after = &name[name.rfind("rank")? + 4..];
    let digits = after.trim_start_matches(['-', '_', '.', '=']);
    let len = digits.bytes().take_while(u8::is_ascii_digit).count();
    digits[..len].parse().ok()
}

/// A text from a file without control characters, for messages.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
