//! PyTorch's memory history: `torch.cuda.memory._dump_snapshot`, and other files with the same data.
//!
//! The pickle machine, or the JSON reader, passes each finished dictionary to [`fold`], which converts it to a
//! row, a block or a frame; [`resolve`] assigns events and segments to devices, and the model replays them.
//! No tree of the file is ever kept.
//!
//! Format: <https://docs.pytorch.org/docs/stable/torch_cuda_memory.html>

mod base64;
mod describe;
mod fold;
mod format;
mod frames;
mod known;
mod resolve;
mod salvage;
mod segment;
mod tally;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::sync::atomic::Ordering;

use crate::job::Progress;
use crate::model::memory::{MemorySource, RawMemory};
use crate::model::{Severity, Trace, TraceBuilder};

use super::pickle::{Fault, Heap, Input, Machine, Value, json};
use super::source::{NeedsConsent, Source};
use super::{Options, ReadError};
use fold::SnapshotFold;
pub use format::{EMBEDDED, JSON, PAGE, PICKLE};
use resolve::{Resolver, Root};
use tally::Reason;

/// Times beyond this are nanoseconds since 1970.
const EPOCH_2001_NS: i64 = 1_000_000_000_000_000_000;

/// The encoding of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Pickle,
    Json,
    /// The base64 text that PyTorch's viewer embeds in its pages, or the list around it.
    Base64,
}

/// A file as far as it could be read.
struct PartialSnapshot {
    heap: Heap<SnapshotFold>,
    root: Value,
    /// The reason for an early end.
    fault: Option<Fault>,
    text_bytes: u64,
}

/// Reads one snapshot.
///
/// Errors: not a snapshot, it asks to run code, too damaged, cancelled, or the file cannot be read.
fn read(carrier: Encoding, source: &Source, options: Options, progress: &Progress) -> Result<Trace, ReadError> {
    let text = source.open(options)?;
    let file_bytes = text.file_bytes;
    let done = || file_bytes.load(Ordering::Relaxed);
    let mut builder = TraceBuilder::default();
    let mut reading = match carrier {
        Encoding::Pickle => unpickle(Input::new(text.reader, progress, &done), &mut builder),
        Encoding::Base64 => unpickle(Input::new(base64::Embedded::new(text.reader), progress, &done), &mut builder),
        Encoding::Json => {
            let mut heap = heap();
            let (text_bytes, fault) = json::read(text.reader, progress, &done, &mut heap);
            let root = heap.stack.first().copied().unwrap_or(Value::NONE);
            PartialSnapshot { heap, root, fault, text_bytes }
        }
    };
    let is_cut = reading.fault.is_some();
    let lost = reading.fault.take().map(|fault| why_incomplete(fault, carrier, reading.text_bytes)).transpose()?;
    if is_cut {
        reading.root = salvage::salvage(&reading.heap.stack, &mut reading.heap.store);
    }
    let root = match Root::find(reading.root, &reading.heap.store) {
        Ok(root) => root,
        Err(why) => return Err(lost.map_or(ReadError::NotATrace(why), |lost| why_nothing(&lost))),
    };
    let Heap { store, fold, .. } = &mut reading.heap;
    let settings = root.settings(store);
    fold.tally.add(Reason::BadText, store.n_bad_texts);
    fold.tally.add(Reason::DeepStack, fold.stacks.n_deep);
    let mut resolver = Resolver::new(store, fold);
    resolver.run(&root, is_cut);
    let (devices, tables) = (std::mem::take(&mut resolver.devices), std::mem::take(&mut resolver.tables));
    if let Some(lost) = lost.as_deref().filter(|_| devices.is_empty()) {
        return Err(why_nothing(lost));
    }
    builder.strings = std::mem::take(&mut fold.strings);
    builder.stacks = std::mem::take(&mut fold.stacks.table);
    let tally = std::mem::take(&mut fold.tally);
    // Frees memory that replaying does not need.
    let text_bytes = reading.text_bytes;
    drop(reading);
    if progress.is_cancelled() {
        return Err(ReadError::Cancelled);
    }
    let import = &mut builder.import;
    tally.report(import);
    for table in &tables {
        import.read += table.read;
        import.shown += table.shown;
        import.merged += table.merged;
        import.rejected += table.rejected;
    }
    import.tables = tables;
    if let Some(lost) = lost {
        let text = format!("{lost}: what was complete by then is shown");
        import.lose(&text, 1, Some(text_bytes));
    }
    text.notes.report(import);
    describe_file(&mut builder, source, text_bytes, &settings);
    add_memories(&mut builder, devices.into_values().collect(), &root, &settings);
    let mut trace = builder.finish();
    trace.info.utc_offset_ns = (trace.span.start > EPOCH_2001_NS).then_some(0);
    trace.import.sort();
    Ok(trace)
}

/// Runs a pickle and notes problems of the whole.
fn unpickle<R: Read>(input: Input<'_, R>, builder: &mut TraceBuilder) -> PartialSnapshot {
    let mut machine = Machine::new(input, heap());
    let outcome = machine.run();
    let text_bytes = machine.offset();
    let (root, mut fault) = match outcome {
        Ok(root) => (root, None),
        Err(fault) => (Value::NONE, Some(fault)),
    };
    if fault.is_none() {
        match machine.has_more() {
            Ok(true) => {
                let text = "Bytes after the end of the pickle: not read";
                builder.import.note(Severity::Note, text, 1, Some(text_bytes));
            }
            Err(Fault::Cancelled) => fault = Some(Fault::Cancelled),
            _ => {}
        }
    }
    machine.heap.fold.tally.add(Reason::ContainerClass, machine.n_classes);
    PartialSnapshot { heap: machine.heap, root, fault, text_bytes }
}

/// A heap with the known texts of snapshots interned.
fn heap() -> Heap<SnapshotFold> {
    let mut heap = Heap::new(SnapshotFold::new());
    for text in known::TEXTS {
        heap.store.strings.intern(text);
    }
    heap
}

/// The reason why the file could not be read to its end; an error where nothing may be kept.
fn why_incomplete(fault: Fault, carrier: Encoding, offset: u64) -> Result<String, ReadError> {
    let what = if carrier == Encoding::Json { "JSON text" } else { "pickle" };
    Ok(match fault {
        Fault::Cut => format!("The {what} ends early, at byte {offset}"),
        Fault::Damaged(why) => format!("The {what} is damaged at byte {offset} ({why})"),
        Fault::LongText => format!("A text of more than 16 MiB at byte {offset}, which no snapshot has"),
        Fault::Refused(sentence) => return Err(ReadError::NotATrace(sentence)),
        Fault::TooMuch(what) => {
            return Err(ReadError::NotATrace(format!("Not a memory snapshot: it has more {what} than any real one")));
        }
        Fault::Cancelled => return Err(ReadError::Cancelled),
        Fault::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<NeedsConsent>()) => {
            return Err(error.into());
        }
        Fault::Io(error) => format!("The file could not be read to its end ({error})"),
    })
}

/// The sentence for a file without anything to show.
fn why_nothing(lost: &str) -> ReadError {
    ReadError::NotATrace(format!("{lost}, and nothing before that is complete enough to be shown"))
}

fn describe_file(builder: &mut TraceBuilder, source: &Source, text_bytes: u64, settings: &[(String, String)]) {
    let info = &mut builder.info;
    super::note_source(info, source, text_bytes);
    info.producer = "PyTorch memory history".to_owned();
    info.facts = settings.to_vec();
}

/// Adds the memory of each device, and notes missing parts of the recording.
fn add_memories(builder: &mut TraceBuilder, mut memories: Vec<RawMemory>, root: &Root, settings: &[(String, String)]) {
    let import = &mut builder.import;
    let mut note = |text: &str, count: u64| import.note(Severity::Note, text, count, None);
    if root.is_bare {
        note("A bare list of segments, as `torch.cuda.memory_snapshot()` gives it: it has no traces", 1);
    }
    if memories.iter().all(|memory| memory.events.is_empty()) {
        let how = "record with `torch.cuda.memory._record_memory_history()` to see how it arose";
        note(&format!("The history was not recorded: the state at its end is shown; {how}"), 1);
    }
    let timeless = memories.iter().filter(|memory| !memory.has_time).count();
    note("No times were recorded: the axis counts events", timeless as u64);
    if memories.is_empty() {
        let end = (!root.has_traces()).then(Vec::new);
        memories.push(RawMemory { source: MemorySource::Snapshot, has_time: true, end, ..RawMemory::default() });
        note("The snapshot is empty: nothing was allocated, and nothing recorded", 1);
    }
    for memory in &mut memories {
        memory.settings = settings.to_vec();
    }
    builder.memories = memories;
}
