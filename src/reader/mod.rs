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
mod tar;
mod torn_zip;
mod unpack;

use std::cell::Cell;
use std::io::Read as _;
use std::path::Path;

use crate::job::Progress;
use crate::model::{ImportReport, Severity, Trace, TraceInfo};

pub use folder::Folder;
pub use format::{CONVERTED, extensions};

use archive::{MAX_MEMBERS, Members};
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
    /// The file is whole and of another kind, as texts beside traces are.
    #[error("{0}")]
    OtherKind(String),
    /// Reading it could exhaust memory; ask the user, then read with
    /// [`Options::allow_any_ratio`].
    #[error("{0}")]
    NeedsConsent(String),
    /// Archives in archives, or more files than are opened at once.
    #[error("{0}")]
    TooPacked(String),
    #[error("Cancelled")]
    Cancelled,
    #[error("Cannot read the file: {0}")]
    Io(std::io::Error),
    /// SQLite reads files that can be sought in.
    #[error("The file must be copied to be read, but nothing can be written in {}: {why}. Free some space there, or \
             set TMPDIR to another folder", .folder.display())]
    NoCopy { folder: std::path::PathBuf, why: std::io::Error },
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

/// Most files that a note names.
const NAMED: usize = 5;

/// Why the last files of an archive are not read.
const TOO_MUCH_TOGETHER: &str = "Not read, since the files of this archive decompress to more than 200 times its size \
    together, which no real ones do: unpack it if you trust it";

const CHANGED: &str = "The file was changed or replaced while it was read";

/// What becomes of slices below [`crate::model::MOST_ROWS`].
const TOO_DEEP: &str = "Open at once with more than 1,500 others of one thread: shown, but not looked at for why a GPU \
    waits, nor for what was launched in it";

/// What is said of a file whose events are all names, or rejected.
const NOTHING_SHOWN: &str = "None of the events of the file can be shown";

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
    let reading = Reading { options, progress, n_members: Cell::new(0) };
    let read = reading.read(&source);
    let is_changed = !source.is_untouched();
    let mut traces = read.map_err(|error| match error {
        ReadError::NotATrace(why) | ReadError::OtherKind(why) if is_changed => {
            ReadError::NotATrace(format!("{CHANGED}: open it again ({why})"))
        }
        error => error,
    })?;
    for trace in &mut traces {
        let n = trace.n_too_deep();
        trace.import.note(Severity::Note, TOO_DEEP, n, None);
        let is_empty = trace.is_empty();
        let why = if trace.import.read == 0 { "The file holds no events" } else { NOTHING_SHOWN };
        trace.import.note(Severity::Note, why, is_empty.into(), None);
        if n > 0 || is_empty {
            trace.import.sort();
        }
    }
    if is_changed {
        let text = format!("{CHANGED}: what is shown may be of both. Open it again");
        for trace in &mut traces {
            trace.import.note(Severity::High, &text, 1, None);
            trace.import.sort();
        }
    }
    traces.sort_by_key(|trace| trace.info.rank);
    Ok(traces)
}

/// The reading of one file with all that is packed in it.
struct Reading<'a> {
    options: Options,
    progress: &'a Progress,
    /// Files in archives so far.
    n_members: Cell<usize>,
}

impl Reading<'_> {
    fn read(&self, source: &Source) -> Result<Vec<Trace>, ReadError> {
        if source.layers.len() > MAX_LAYERS {
            return Err(archive::too_deep());
        }
        let mut text = source.open(self.options)?;
        let mut head = Vec::with_capacity(HEAD);
        text.reader.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        drop(text.reader);
        if head.is_empty() {
            let why = text.notes.take().into_iter().next().map(|(_, note)| note);
            let text = "Nothing could be decompressed: the file is damaged, or only its first bytes were written";
            return Err(ReadError::NotATrace(why.map_or(text.to_owned(), |why| format!("{text} ({why})"))));
        }
        let Some(format) = sniff(&head) else { return Err(ReadError::OtherKind(format::unknown())) };
        match &format.contents {
            Contents::Trace(format, read) => {
                let mut trace = read(source, self.options, self.progress)?;
                trace.info.format = *format;
                note_layers(source, &mut trace);
                Ok(vec![trace])
            }
            Contents::Wrapped(inner) => self.read(&inner(source)?),
            Contents::Archive(members) => self.read_members(members(source, self.options)?),
            Contents::Refused(sentence) => Err(ReadError::NotATrace((*sentence).to_owned())),
        }
    }

    /// Reads all files of an archive, in order of name. What is wrong with the archive and with files that cannot be
    /// read is noted with the first trace.
    ///
    /// Errors: no file can be read, there are too many, or cancelled.
    fn read_members(&self, mut members: Members) -> Result<Vec<Trace>, ReadError> {
        let n = members.sources.len();
        self.n_members.set(self.n_members.get() + n);
        if self.n_members.get() > MAX_MEMBERS {
            return Err(archive::too_many());
        }
        let (mut read, mut unread) = (Vec::new(), std::mem::take(&mut members.unread));
        let mut n_left = 0;
        for i in 0..n {
            let name = members.sources[i].member.clone().unwrap_or_default();
            match members.held(i).and_then(|source| self.read(&source)) {
                Ok(traces) => read.push((name, traces)),
                Err(fatal @ (ReadError::Cancelled | ReadError::TooPacked(_))) => return Err(fatal),
                Err(ReadError::NeedsConsent(_)) if !read.is_empty() && members.sources[i].is_exhausted() => {
                    n_left = n - i;
                    break;
                }
                Err(error) => unread.push((name, error)),
            }
        }
        read.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut traces: Vec<Trace> = read.into_iter().flat_map(|(_, traces)| traces).collect();
        let Some(first) = traces.first_mut() else { return Err(why_none(unread)) };
        note_unread(&unread, &mut first.import);
        first.import.note(Severity::High, TOO_MUCH_TOGETHER, n_left as u64, None);
        if let Some(damage) = &members.damage {
            first.import.note(Severity::High, damage, 1, None);
        }
        first.import.sort();
        Ok(traces)
    }
}

/// Why no file of an archive could be read, by the names and errors of all.
fn why_none(mut unread: Vec<(String, ReadError)>) -> ReadError {
    let n = unread.len();
    if let Some(at) = unread.iter().position(|(_, error)| matches!(error, ReadError::NeedsConsent(_))) {
        return unread.swap_remove(at).1;
    }
    // What is a trace and damaged says more than what is none.
    unread.sort_by_key(|(_, error)| matches!(error, ReadError::OtherKind(_)));
    match unread.into_iter().next() {
        Some((_, error)) if n == 1 => error,
        Some((name, error)) => ReadError::NotATrace(format!(
            "None of the {n} files in this archive can be read, {} for this reason: {error}",
            printable(&name)
        )),
        None => ReadError::NotATrace("An archive without files".to_owned()),
    }
}

/// Notes the files of an archive that were not read.
fn note_unread(unread: &[(String, ReadError)], import: &mut ImportReport) {
    let (others, failed): (Vec<_>, Vec<_>) =
        unread.iter().partition(|(_, error)| matches!(error, ReadError::OtherKind(_)));
    for (name, error) in failed {
        let text = format!("{}, in the same archive, was not read: {}", printable(name), unread_because(error));
        import.note(Severity::High, &text, 1, None);
    }
    if !others.is_empty() {
        let names: Vec<String> = others.iter().take(NAMED).map(|(name, _)| printable(name)).collect();
        let more = others.len() - names.len();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let text = format!("In the same archive and not shown, since they are not traces: {}{more}", names.join(", "));
        import.note(Severity::Note, &text, others.len() as u64, None);
    }
}

/// Without the list of formats that could have been read.
fn unread_because(error: &ReadError) -> String {
    let text = error.to_string();
    let sentence = text.split_once(". ").map_or(text.as_str(), |(sentence, _)| sentence);
    sentence.to_owned()
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
