//! Chrome trace JSON, as the PyTorch profiler (Kineto) and many others write it.
//!
//! Supports the object and array forms, every phase of the format, and all kinds of damage seen in real
//! files. [`pipeline`] reads blocks of text and scans them on all cores, [`walk`] iterates over the events,
//! [`scan`] parses one strictly, [`scalar`] its numbers and times, [`lenient`] parses those that are not strict JSON,
//! [`batch`] sorts them by type, [`assemble`] builds the trace.
//!
//! Format: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>

mod assemble;
mod batch;
mod bytes;
mod counters;
mod details;
mod document;
mod elsewhere;
mod grids;
mod header;
mod host_collectives;
mod interner;
mod kind;
mod lenient;
mod memory;
mod nest;
mod number;
mod pairing;
mod pipeline;
mod profile;
mod scalar;
mod scan;
mod stacks;
mod strays;
mod tally;
mod text;
mod walk;
mod work;
mod xla;

use std::sync::Arc;

use crate::job::Progress;
use crate::model::{Format, RawSlices, Severity, Trace};

use super::format::{Contents, FileFormat};
use super::source::{NeedsConsent, Source};
use super::{Options, ReadError};
use assemble::Assembly;
use details::ChromeDetails;
use profile::Profile;

/// Memory is reserved for one slice in so many bytes of a file, up to some number: as a short list grows it is copied,
/// a long one is not. What stays unused costs nothing.
const SLICE_BYTES: u64 = 256;
const MOST_RESERVED: u64 = 1 << 20;

/// Tracks beyond this number are collapsed in the window.
const MANY_TRACKS: usize = 4096;

/// Deeper nesting is reported; all rows are still shown.
const MANY_ROWS: u32 = 512;

pub const FORMAT: FileFormat = FileFormat {
    name: "Chrome traces such as the PyTorch profiler writes",
    extensions: &["json", "trace", "tmp"],
    // A file without its beginning still contains the name of the event list.
    sniff: |head| matches!(head.text, [b'{' | b'[', ..]) || head.has("\"traceEvents\""),
    contents: Contents::Trace(Format::ChromeTrace, read),
};

/// Reads one trace.
///
/// Errors: no list of events, cancelled, or the file cannot be read.
fn read(source: &Source, options: Options, progress: &Progress) -> Result<Trace, ReadError> {
    let text = source.open(options)?;
    let reader = ProgressReader { inner: text.reader, file_bytes: Arc::clone(&text.file_bytes), progress };
    let mut assembly = Assembly::default();
    let mut slices = RawSlices::default();
    slices.reserve(MOST_RESERVED.min(source.bytes / SLICE_BYTES) as usize);
    assembly.builder.append(&mut slices);
    let mut summary = pipeline::read(reader, progress, &mut assembly);
    if progress.is_cancelled() {
        return Err(ReadError::Cancelled);
    }
    if let Some(error) = summary.error.take() {
        if error.get_ref().is_some_and(|inner| inner.is::<NeedsConsent>()) {
            return Err(error.into());
        }
        let text = format!("The file could not be read to its end ({error})");
        assembly.builder.import.lose(&text, 1, Some(summary.text_bytes));
    }
    if summary.document.n_arrays == 0 {
        let document = &summary.document;
        let is_whole = document.damaged.is_empty() && !document.is_open;
        let kind = if is_whole { ReadError::OtherKind } else { ReadError::NotATrace };
        return Err(kind(header::why_no_trace(document)));
    }
    if assembly.lacks_events() {
        let text = match assembly.n_damaged() {
            0 => "JSON, but a list of something other than events: this is not a Chrome trace",
            _ => "A list of damaged values, none of which can be read as an event: write the trace again",
        };
        return Err(ReadError::NotATrace(text.to_owned()));
    }
    summary.report(&mut assembly);
    text.notes.report(&mut assembly.builder.import);
    let profile = std::mem::take(&mut summary.document.profile);
    let mut builder = assembly.finish(&profile);
    header::apply(&summary, source, &mut builder);
    let mut trace = builder.finish();
    finish(&mut trace, source, profile);
    Ok(trace)
}

fn finish(trace: &mut Trace, source: &Source, profile: Profile) {
    if trace.info.utc_offset_ns.is_none() || trace.span.start > header::EPOCH_2001_NS {
        trace.info.utc_offset_ns = (trace.span.start > header::EPOCH_2001_NS).then_some(0);
    }
    if trace.tracks.len() > MANY_TRACKS {
        let text = format!("More than {MANY_TRACKS} tracks: they are shown folded");
        trace.import.note(Severity::Warn, &text, trace.tracks.len() as u64, None);
    }
    let deepest = trace.slices.rows.iter().map(|row| row.depth).max().unwrap_or(0);
    if deepest >= MANY_ROWS {
        let text = format!("Slices nested more than {MANY_ROWS} deep: shown on as many rows");
        trace.import.note(Severity::Warn, &text, u64::from(deepest) + 1, None);
    }
    trace.import.sort();
    trace.details = Some(Arc::new(ChromeDetails::new(source.release(), profile)));
}

/// Reports how much of the file was read.
struct ProgressReader<'a, R> {
    inner: R,
    file_bytes: Arc<std::sync::atomic::AtomicU64>,
    progress: &'a Progress,
}

impl<R: std::io::Read> std::io::Read for ProgressReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.progress.is_cancelled() {
            return Ok(0);
        }
        let n = self.inner.read(buffer)?;
        self.progress.set_done(self.file_bytes.load(std::sync::atomic::Ordering::Relaxed));
        Ok(n)
    }
}
