//! PyTorch's `export_memory_timeline`: sizes by category over time, without addresses or stacks.
//!
//! Two forms. Raw: `[[time_ns, action, bytes, category], ...]`, an event each, with the time -1 for what
//! was there before. Summed: `[[time_us, ...], [[0, bytes of each category], ...]]`.
//!
//! Source: `torch/profiler/_memory_profiler.py` (`MemoryProfileTimeline`).

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;

use super::pickle::{Fault, Fold, Heap, Store, Tag, Value, json};
use super::source::{NeedsConsent, Source};
use super::{Options, ReadError};
use crate::job::Progress;
use crate::model::memory::{BlockBefore, MemoryAction, MemoryEvent, MemorySource, PoolId, RawMemory};
use crate::model::{
    Counter, CounterUnit, ImportReport, Process, ProcessId, Severity, StackId, StringId, TimeNs, Trace, TraceBuilder,
    Track, TrackId, TrackKind,
};

/// Names by number: the order of `_CATEGORY_TO_COLORS`, the last for what torch could not tell.
const CATEGORIES: [&str; 8] =
    ["PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT", "AUTOGRAD_DETAIL", "UNKNOWN"];

/// Numbers of `_memory_profiler.Action`.
const PREEXISTING: i64 = 1;
const CREATE: i64 = 2;
const INCREMENT_VERSION: i64 = 3;
const DESTROY: i64 = 4;

/// Nanoseconds since 1970 beyond this are a date.
const EPOCH_2001_NS: i64 = 1_000_000_000_000_000_000;

/// Numbers that are kept of a list: as many as the longer form has.
const WIDTH: usize = CATEGORIES.len() + 1;

/// A list of numbers, in the fold's own count.
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

/// The file as it is written.
#[derive(Default)]
struct Document {
    /// The times of the summed form, in microseconds; `None` for the raw form.
    times: Option<Vec<i64>>,
    /// Events or sums.
    rows: Vec<Row>,
    /// What stands in the place of a row and is none.
    n_odd: u64,
}

impl Document {
    fn new(heap: &Heap<Rows>, is_cut: bool) -> Self {
        let store = &heap.store;
        let top = heap.stack.first().map(|&top| store.items(top)).unwrap_or_default();
        // Where the text is cut, its parts still wait on the stack.
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

/// Reads one memory timeline.
///
/// Errors: no timeline, cancelled, or the file cannot be read.
pub fn read(source: &Source, options: Options, progress: &Progress) -> Result<Trace, ReadError> {
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
    builder.import.note(Severity::Error, lost.unwrap_or_default(), lost.is_some().into(), None);
    for (severity, note) in text.notes.take() {
        builder.import.note(severity, &note, 1, None);
    }
    let info = &mut builder.info;
    info.path = source.path.clone();
    info.member = source.member.clone();
    info.format = "memory_timeline";
    info.producer = "PyTorch profiler".to_owned();
    info.bytes = source.bytes;
    info.text_bytes = text_bytes;
    info.rank = super::rank_in_name(source);
    match &document.times {
        Some(times) => add_sums(times, &document.rows, &mut builder),
        None => add_events(&document.rows, &mut builder),
    }
    if builder.import.shown == 0 {
        let text = "JSON, but lists within lists: neither a memory timeline of PyTorch nor a Chrome trace";
        return Err(ReadError::NotATrace(text.to_owned()));
    }
    let import = &mut builder.import;
    let odd = "Not a list of whole numbers, as each entry of a memory timeline is: not shown";
    import.read += document.n_odd;
    import.reject(Severity::Loss, odd, document.n_odd, None);
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
    import.reject(Severity::Loss, "Time without sums, or sums without a time: not shown", unpaired, None);
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
    import.reject(Severity::Loss, "Sums that are not nine whole numbers: not shown", n_bad, None);
    import.reject(Severity::Loss, "Time beyond 292 years: not shown", n_bad_times, None);
    curves.add_to(builder);
}

/// Gives each allocation of the raw form an address, so that it can be replayed.
///
/// The file says only sizes and categories: a block that is destroyed is taken to be the oldest live one
/// of the same size and category, which leaves every sum as it is. A block whose contents change
/// category ends in the one and begins in the other, at the same address and moment.
#[derive(Default)]
struct Pairing {
    /// Addresses of live blocks by size and category, the oldest first.
    live: HashMap<(u64, i64), VecDeque<u64>>,
    next: u64,
    raw: RawMemory,
    curves: Curves,
    sums: [i64; CATEGORIES.len()],
    names: [StringId; CATEGORIES.len()],
}

impl Pairing {
    fn event(&mut self, ts: TimeNs, action: MemoryAction, addr: u64, bytes: u64, category: i64) {
        let event = MemoryEvent { ts, action, addr, bytes, pool: PoolId::default(), stack: StackId::default() };
        if action == MemoryAction::Alloc {
            self.raw.categories.push((self.raw.events.len() as u32, self.names[category as usize]));
            self.count(ts, bytes as i64, category);
        } else {
            self.count(ts, -(bytes as i64), category);
        }
        self.raw.events.push(event);
    }

    /// Adds to the bytes of a category.
    fn count(&mut self, ts: TimeNs, bytes: i64, category: i64) {
        let sum = &mut self.sums[category as usize];
        *sum = sum.saturating_add(bytes);
        self.curves.set(ts, category as usize, *sum);
    }

    /// A new block; returns its address.
    fn begin(&mut self, bytes: u64, category: i64) -> u64 {
        self.next += 1;
        self.live.entry((bytes, category)).or_default().push_back(self.next);
        self.next
    }

    /// A block from before the recording; `ts` is where that begins.
    fn preexist(&mut self, ts: TimeNs, bytes: u64, category: i64) {
        let addr = self.begin(bytes, category);
        self.raw.before.push(BlockBefore { addr, bytes, category: self.names[category as usize] });
        self.count(ts, bytes as i64, category);
    }

    fn create(&mut self, ts: TimeNs, bytes: u64, category: i64) {
        let addr = self.begin(bytes, category);
        self.event(ts, MemoryAction::Alloc, addr, bytes, category);
    }

    /// Ends the oldest block; false if there is none.
    fn destroy(&mut self, ts: TimeNs, bytes: u64, category: i64) -> bool {
        let Some(block) = self.live.get_mut(&(bytes, category)).and_then(VecDeque::pop_front) else { return false };
        self.event(ts, MemoryAction::FreeCompleted, block, bytes, category);
        true
    }

    /// Moves the oldest block to another category; false if there is none.
    fn change(&mut self, ts: TimeNs, bytes: u64, from: i64, to: i64) -> bool {
        let Some(block) = self.live.get_mut(&(bytes, from)).and_then(VecDeque::pop_front) else { return false };
        if from != to {
            self.event(ts, MemoryAction::FreeCompleted, block, bytes, from);
            self.event(ts, MemoryAction::Alloc, block, bytes, to);
        }
        self.live.entry((bytes, to)).or_default().push_back(block);
        true
    }
}

/// What became of the rows of the raw form.
#[derive(Default)]
struct Account {
    shown: u64,
    merged: u64,
    n_before: u64,
    n_bad: u64,
    n_unpaired: u64,
}

/// Adds each event of the raw form.
fn add_events(rows: &[Row], builder: &mut TraceBuilder) {
    let mut pairing = Pairing { names: CATEGORIES.map(|name| builder.strings.intern(name)), ..Pairing::default() };
    pairing.raw.source = MemorySource::Timeline;
    pairing.raw.has_time = true;
    let start = rows.iter().filter(|row| row.len == 4).map(|row| row.numbers[0]).find(|&ts| ts >= 0).unwrap_or(0);
    let mut account = Account::default();
    let mut at = 0;
    while let Some(row) = rows.get(at) {
        at += 1;
        let [ts, action, bytes, category, ..] = row.numbers;
        let size = bytes.unsigned_abs();
        if row.len != 4 || !(0..CATEGORIES.len() as i64).contains(&category) || size > 1 << 48 {
            account.n_bad += 1;
            continue;
        }
        let ts = if ts < 0 { start } else { ts };
        match (action, bytes >= 0) {
            (PREEXISTING, true) => {
                pairing.preexist(start, size, category);
                account.shown += 1;
                account.n_before += 1;
            }
            (CREATE, true) => {
                pairing.create(ts, size, category);
                account.shown += 1;
            }
            (DESTROY, _) if bytes <= 0 => {
                let is_paired = pairing.destroy(ts, size, category);
                account.shown += u64::from(is_paired);
                account.n_unpaired += u64::from(!is_paired);
            }
            // A pair of rows: out of one category, into another or the same.
            (INCREMENT_VERSION, false) => {
                let next = rows.get(at).filter(|next| next.len == 4).map(|next| next.numbers);
                let to = next.filter(|next| next[1] == INCREMENT_VERSION && next[2] == -bytes);
                let to = to.map(|next| next[3]).filter(|to| (0..CATEGORIES.len() as i64).contains(to));
                match to.map(|to| pairing.change(ts, size, category, to)) {
                    Some(is_paired) => {
                        at += 1;
                        account.merged += 2 * u64::from(is_paired);
                        account.n_unpaired += 2 * u64::from(!is_paired);
                    }
                    None => account.n_unpaired += 1,
                }
            }
            _ => account.n_bad += 1,
        }
    }
    let import = &mut builder.import;
    import.read += account.shown + account.merged + account.n_bad + account.n_unpaired;
    (import.shown, import.merged) = (import.shown + account.shown, import.merged + account.merged);
    report(import, &account);
    builder.memories.push(pairing.raw);
    pairing.curves.add_to(builder);
}

fn report(import: &mut ImportReport, account: &Account) {
    let bad = "Event that is not a time, an action, a size and a category of PyTorch: not shown";
    import.reject(Severity::Loss, bad, account.n_bad, None);
    let unpaired = "End or change of a block of which none is live in its size and category: not shown";
    import.reject(Severity::Loss, unpaired, account.n_unpaired, None);
    let before = "Live before the recording began: shown from its start on";
    import.note(Severity::Note, before, account.n_before, None);
    import.note(Severity::Note, "The file does not say which device this is: shown as device 0", 1, None);
}

/// Bytes of each category over time: the last value of each moment.
#[derive(Default)]
struct Curves {
    by_category: [(Vec<TimeNs>, Vec<f64>); CATEGORIES.len()],
}

impl Curves {
    fn set(&mut self, at: TimeNs, category: usize, bytes: i64) {
        let (ts, value) = &mut self.by_category[category];
        match (ts.last(), value.last_mut()) {
            (Some(&last), Some(value)) if last == at => *value = bytes as f64,
            (Some(_), Some(value)) if *value == bytes as f64 => {}
            _ => {
                ts.push(at);
                value.push(bytes as f64);
            }
        }
    }

    /// A counter for each category that ever has bytes.
    fn add_to(self, builder: &mut TraceBuilder) {
        let process = ProcessId(builder.processes.len() as u32);
        builder.processes.push(Process { name: "Memory by category".to_owned(), ..Process::default() });
        for (i, (ts, value)) in self.by_category.into_iter().enumerate() {
            if value.iter().all(|&bytes| bytes == 0.0) {
                continue;
            }
            let track = TrackId(builder.tracks.len() as u32);
            let name = CATEGORIES[i].to_owned();
            builder.tracks.push(Track {
                kind: TrackKind::Counter,
                process,
                name,
                tid: String::new(),
                sort_index: i as i64,
            });
            builder.counters.push(Counter { track, unit: CounterUnit::Bytes, ts, value, ..Counter::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Trace, ReadError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(&Source::file(file.path()).unwrap(), Options::default(), &Progress::default())
    }

    fn counter<'a>(trace: &'a Trace, category: &str) -> &'a Counter {
        trace.counters.iter().find(|counter| trace.track(counter.track).name == category).unwrap()
    }

    #[test]
    fn blocks_are_paired_by_size_and_category() {
        // Two blocks of one size: one is there before, one turns from TEMPORARY into GRADIENT.
        let rows = "[[-1, 1, 64, 0], [1700000000000000100, 2, 64, 3], [1700000000000000200, 3, -64, 3],
            [1700000000000000200, 3, 64, 5], [1700000000000000300, 3, -64, 0], [1700000000000000300, 3, 64, 0],
            [1700000000000000400, 4, -64, 5], [1700000000000000500, 4, -64, 5], [1700000000000000600, 9, 1, 1],
            [1700000000000000700, 2, 1, 8], \"x\"]";
        let trace = read_text(rows).unwrap();
        let import = &trace.import;
        assert_eq!((import.read, import.shown, import.merged, import.rejected), (11, 3, 4, 4));
        let memory = &trace.memories[0];
        assert_eq!((memory.source, memory.span.start), (MemorySource::Timeline, 1_700_000_000_000_000_100));
        assert_eq!(memory.curves.active, [64, 128, 64, 128, 64]);
        assert_eq!(memory.allocations.start, [0, 1, 3]);
        let categories: Vec<_> =
            memory.allocations.ids().map(|id| trace.strings.get(memory.allocations.category(id))).collect();
        assert_eq!(categories, ["PARAMETER", "TEMPORARY", "GRADIENT"]);
        assert_eq!(memory.allocations.addr, [1, 2, 2]);
        assert_eq!(counter(&trace, "GRADIENT").value, [64.0, 0.0]);
        assert_eq!(counter(&trace, "PARAMETER").value, [64.0]);
        assert_eq!(counter(&trace, "TEMPORARY").ts, [1_700_000_000_000_000_100, 1_700_000_000_000_000_200]);
    }

    #[test]
    fn sums_are_counters() {
        let trace = read_text("[[100, 200, 300], [[0,1,0,0,0,0,0,0,7],[0,2,0,0,0,0,0,0,7],[0,2]]]").unwrap();
        assert_eq!((trace.import.read, trace.import.shown, trace.import.rejected), (3, 2, 1));
        let parameters = counter(&trace, "PARAMETER");
        assert_eq!((parameters.ts.as_slice(), parameters.value.as_slice()), (&[100_000, 200_000][..], &[1.0, 2.0][..]));
        assert_eq!((counter(&trace, "UNKNOWN").value.as_slice(), trace.counters.len()), (&[7.0][..], 2));
        assert!(trace.memories.is_empty());
    }

    #[test]
    fn cut_and_foreign_texts() {
        let cut = read_text("[[-1, 1, 64, 0], [5, 2, 64, 3], [6, 4, -6").unwrap();
        assert_eq!((cut.import.shown, cut.memories[0].events.len()), (2, 1));
        assert!(cut.import.problems[0].reason.contains("ends early"));
        let cut = read_text("[[100, 200], [[0,1,0,0,0,0,0,0,7],[0,2,0,0,0").unwrap();
        assert_eq!((cut.import.shown, cut.import.rejected), (1, 1));
        for text in ["[[]]", "[[], []]", "[[1]]", "[[\"a\", \"b\"]]", "[[1,2,3,4],[[5]]]", "[[", "[[1,2], {}]"] {
            let error = read_text(text).map(|trace| trace.import).unwrap_err().to_string();
            assert!(error.contains("lists within lists"), "{text}: {error}");
        }
    }
}
