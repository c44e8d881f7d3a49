//! PyTorch's `export_memory_timeline`: sizes by category over time, without addresses or stacks.
//!
//! Two forms. Raw: `[[time_ns, action, bytes, category], ...]`, one event each, with time -1 for blocks from
//! before the recording. Summed: `[[time_us, ...], [[0, bytes of each category], ...]]`.
//!
//! Source: `torch/profiler/_memory_profiler.py` (`MemoryProfileTimeline`).

mod blocks;
mod curves;
#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;

use blocks::add_blocks;
use curves::Curves;

use super::format::{Contents, FileFormat};
use super::pickle::{Fault, Fold, Heap, Store, Tag, Value, json};
use super::source::{NeedsConsent, Source};
use super::{Options, ReadError};
use crate::job::Progress;
use crate::model::{Format, Severity, Trace, TraceBuilder};

/// Names by number: the order of `_CATEGORY_TO_COLORS`, the last for blocks of unknown category.
const CATEGORIES: [&str; 8] =
    ["PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT", "AUTOGRAD_DETAIL", "UNKNOWN"];

/// Times beyond this are nanoseconds since 1970.
const EPOCH_2001_NS: i64 = 1_000_000_000_000_000_000;

/// Numbers kept of each list: the length of the longer form.
const WIDTH: usize = CATEGORIES.len() + 1;

/// Kind of a folded list of numbers.
const ROW: u8 = 1;

/// One list of whole numbers.
#[derive(Clone, Copy, Default)]
struct Row {
    numbers: [i64; WIDTH],
    len: u8,
}

/// Every short list of whole numbers, in the order of the file.
#[derive(Default)]
struct Rows(Vec<Row>);

impl Fold for Rows {
    fn dict(&mut self, _: &[Value], _: &mut Store, _: u64) -> Option<(u8, u32)> {
        None
    }

    fn list(&mut self, items: &[Value], store: &Store) -> Option<(u8, u32)> {
        let mut row = Row { len: items.len() as u8, ..Row::default() };
        if items.len() > WIDTH {
            return None;
        }
        for (place, &item) in row.numbers.iter_mut().zip(items) {
            *place = store.as_int(item).and_then(|number| i64::try_from(number).ok())?;
        }
        self.0.push(row);
        Some((ROW, self.0.len() as u32 - 1))
    }

    fn tuple(&mut self, _: &[Value], _: &Store) -> Option<(u8, u32)> {
        None
    }
}

/// The parsed file.
#[derive(Default)]
struct Document {
    /// The times of the summed form, in microseconds; `None` for the raw form.
    times: Option<Vec<i64>>,
    /// Events or sums.
    rows: Vec<Row>,
    /// Items that are not valid rows.
    n_odd: u64,
}

impl Document {
    fn new(heap: &Heap<Rows>, is_cut: bool) -> Self {
        let store = &heap.store;
        let top = heap.stack.first().map(|&top| store.items(top)).unwrap_or_default();
        // Of truncated text, the parts are still on the stack.
        let parts = if is_cut { heap.stack.get(1..).unwrap_or_default() } else { top };
        let row = |value: &Value| value.as_folded(ROW).map(|at| heap.fold.0[at as usize]);
        let (times, items) = match parts {
            [times, sums] if !is_cut && sums.tag() == Tag::List => (Some(times), store.items(*sums)),
            [times, sums, items @ ..]
                if is_cut && sums.tag() == Tag::List && items.iter().any(|i| row(i).is_some()) =>
            {
                (Some(times), items)
            }
            items => (None, items),
        };
        let number = |&value: &Value| store.as_int(value).and_then(|number| i64::try_from(number).ok());
        let times = times.map(|&times| match row(&times) {
            Some(row) => row.numbers[..usize::from(row.len)].to_vec(),
            None => store.items(times).iter().map(|value| number(value).unwrap_or(i64::MAX)).collect(),
        });
        let rows: Vec<Row> = items.iter().filter_map(row).collect();
        let n_odd = if is_cut { 0 } else { (items.len() - rows.len()) as u64 };
        Self { times, rows, n_odd }
    }
}

pub const FORMAT: FileFormat = FileFormat {
    name: "PyTorch memory timelines",
    extensions: &["json"],
    sniff: |head| head.after("[[").is_some_and(|rest| !rest.starts_with(b"[")),
    contents: Contents::Trace(Format::MemoryTimeline, read),
};

/// Reads one memory timeline.
///
/// Errors: not a timeline, cancelled, or the file cannot be read.
fn read(source: &Source, options: Options, progress: &Progress) -> Result<Trace, ReadError> {
    let text = source.open(options)?;
    let done = || text.file_bytes.load(Ordering::Relaxed);
    let mut heap = Heap::new(Rows::default());
    let (text_bytes, fault) = json::read(text.reader, progress, &done, &mut heap);
    let document = Document::new(&heap, fault.is_some());
    drop(heap);
    let mut builder = TraceBuilder::default();
    let lost = match fault {
        None => None,
        Some(Fault::Cancelled) => return Err(ReadError::Cancelled),
        Some(Fault::Io(error)) if error.get_ref().is_some_and(|inner| inner.is::<NeedsConsent>()) => {
            return Err(error.into());
        }
        Some(Fault::Cut) => Some("The JSON text ends early: what was complete by then is shown"),
        Some(_) => Some("The JSON text is damaged: what came before that is shown"),
    };
    builder.import.lose(lost.unwrap_or_default(), lost.is_some().into(), None);
    text.notes.report(&mut builder.import);
    let info = &mut builder.info;
    super::note_source(info, source, text_bytes);
    info.producer = "PyTorch profiler".to_owned();
    match &document.times {
        Some(times) => add_sums(times, &document.rows, &mut builder),
        None => add_blocks(&document.rows, &mut builder),
    }
    if builder.import.shown == 0 {
        let text = "JSON, but nested lists: this is neither a PyTorch memory timeline nor a Chrome trace";
        return Err(ReadError::NotATrace(text.to_owned()));
    }
    let import = &mut builder.import;
    let odd = "Not a list of whole numbers, as each entry of a memory timeline is: not shown";
    import.read += document.n_odd;
    import.reject(Severity::Warn, odd, document.n_odd, None);
    let mut trace = builder.finish();
    trace.info.utc_offset_ns = (trace.span.start > EPOCH_2001_NS).then_some(0);
    trace.import.sort();
    Ok(trace)
}

/// Adds the bytes of each category at each moment.
fn add_sums(times: &[i64], sums: &[Row], builder: &mut TraceBuilder) {
    let mut curves = Curves::default();
    let import = &mut builder.import;
    let (n_times, n_sums) = (times.len(), sums.len());
    let unpaired = n_times.abs_diff(n_sums) as u64;
    import.read += n_times.max(n_sums) as u64;
    import.reject(Severity::Warn, "Time without sums, or sums without a time: not shown", unpaired, None);
    let (mut n_bad, mut n_bad_times) = (0, 0);
    for (&us, row) in times.iter().zip(sums) {
        if usize::from(row.len) != WIDTH {
            n_bad += 1;
            continue;
        }
        let Some(ts) = us.checked_mul(1000) else {
            n_bad_times += 1;
            continue;
        };
        import.shown += 1;
        for category in 0..CATEGORIES.len() {
            curves.set(ts, category, row.numbers[category + 1]);
        }
    }
    import.reject(Severity::Warn, "Sums that are not nine whole numbers: not shown", n_bad, None);
    import.reject(Severity::Warn, "Time beyond 292 years: not shown", n_bad_times, None);
    curves.add_to(builder);
}
