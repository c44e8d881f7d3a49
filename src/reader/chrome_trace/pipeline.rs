//! Reads blocks of text in order, scans them on all cores, and merges the batches in file order.
//!
//! A block is cut at the likely start of an event. The cut is confirmed if the scan of the previous block
//! ends exactly there. If it does not, because the text of an event contains something that looks like an
//! event, the two blocks are joined and scanned again.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::job::Progress;

use super::assemble::Assembly;
use super::batch::Batch;
use super::bytes::Portable;
use super::document::{Document, Found};
use super::lenient::last_event_start;
use super::scan::{PADDING, Scanner};
use super::tally::Reason;
use super::walk::{Before, End, EventText, walk};

/// Bytes per block: large enough to make cutting and joining negligible, small enough for the L2 cache and for
/// prompt cancellation.
const BLOCK: usize = 512 << 10;

/// Blocks in flight: bounds memory when one block takes long.
const MAX_AHEAD: u64 = 16;

/// A block of the file's text, padded.
struct TextBlock {
    seq: u64,
    offset: u64,
    text: Vec<u8>,
    is_last: bool,
}

/// Hands out the text in blocks.
struct Feeder<R> {
    reader: R,
    /// Text already read that belongs to the next block.
    carry: Vec<u8>,
    offset: u64,
    seq: u64,
    is_at_end: bool,
    error: Option<std::io::Error>,
}

impl<R: Read> Feeder<R> {
    /// The next block, reusing the memory of a finished one.
    fn next(&mut self, spare: Option<Vec<u8>>) -> Option<TextBlock> {
        if self.is_at_end {
            return None;
        }
        let mut len = self.carry.len();
        let size = len + BLOCK + PADDING;
        // Fresh memory comes zeroed from the system, which gives only the pages that a small file reaches. A finished
        // block's bytes stay initialized, so that hardly any must be zeroed again.
        let mut text = spare.unwrap_or_else(|| vec![0; size]);
        text.resize(size, 0);
        text[..len].copy_from_slice(&self.carry);
        self.carry.clear();
        let end = len + BLOCK;
        while len < end && !self.is_at_end {
            match self.reader.read(&mut text[len..end]) {
                Ok(n) => {
                    len += n;
                    self.is_at_end = n == 0;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_at_end = true;
                    self.error = Some(error);
                }
            }
        }
        text.truncate(len);
        if !self.is_at_end {
            // Without a cut the next block starts inside an event and is joined to this one.
            if let Some(cut) = last_event_start(&text, text.len() / 2).filter(|&cut| cut > 0) {
                self.carry.extend_from_slice(&text[cut..]);
                text.truncate(cut);
            }
        }
        let block = TextBlock { seq: self.seq, offset: self.offset, is_last: self.is_at_end, text };
        self.seq += 1;
        self.offset += block.text.len() as u64;
        let mut block = block;
        block.text.resize(block.text.len() + PADDING, 0);
        Some(block)
    }
}

/// A block with the result of its scan, if it was scanned.
struct Scanned {
    block: TextBlock,
    batch: Batch,
    end: Option<End>,
}

/// State shared by the workers.
struct Shared<'a, R> {
    feeder: Mutex<Feeder<R>>,
    /// Number of merged blocks.
    merged: Mutex<u64>,
    /// What finished blocks were read and scanned into, reused because the system must zero fresh memory.
    spare: Mutex<Vec<(Vec<u8>, Batch)>>,
    moved: Condvar,
    /// Off outside event lists, where scanning would be wasted work.
    is_speculating: AtomicBool,
    progress: &'a Progress,
}

/// The contents outside the events, and how the reading ended.
#[derive(Debug)]
pub struct TextSummary {
    pub document: Document,
    pub text_bytes: u64,
    /// The text ended inside an array of events.
    pub is_unclosed: bool,
    pub error: Option<std::io::Error>,
}

/// Reads all of `reader` into `assembly`. Stops early, without an error, when cancelled.
pub fn read(reader: impl Read + Send, progress: &Progress, assembly: &mut Assembly) -> TextSummary {
    let feeder = Feeder { reader, carry: Vec::new(), offset: 0, seq: 0, is_at_end: false, error: None };
    let shared = Shared {
        feeder: Mutex::new(feeder),
        merged: Mutex::new(0),
        spare: Mutex::default(),
        moved: Condvar::new(),
        is_speculating: AtomicBool::new(false),
        progress,
    };
    let mut merger = Merger {
        assembly,
        document: Document::default(),
        in_events: false,
        before: Before::Nothing,
        carry: Vec::new(),
        carry_until: 0,
        offset: 0,
    };
    // The header, and small files as a whole, are read on this thread.
    while !merger.in_events && !progress.is_cancelled() {
        let Some(block) = lock(&shared.feeder).next(None) else { break };
        *lock(&shared.merged) = block.seq + 1;
        merger.take(Scanned { block, batch: Batch::default(), end: None });
    }
    let n_workers = std::thread::available_parallelism().map_or(1, usize::from);
    if !lock(&shared.feeder).is_at_end && !progress.is_cancelled() {
        shared.is_speculating.store(merger.in_events, Ordering::Relaxed);
        let (sender, receiver) = sync_channel(n_workers * 2);
        std::thread::scope(|scope| {
            for i in 0..n_workers {
                let (shared, sender) = (&shared, sender.clone());
                let worker = std::thread::Builder::new().name(format!("scan {i}"));
                if worker.spawn_scoped(scope, move || scan_blocks(shared, &sender)).is_err() {
                    break;
                }
            }
            drop(sender);
            merge_in_order(&receiver, &shared, &mut merger);
        });
        // No thread could be started: scan on this one.
        while let Some(block) = lock(&shared.feeder).next(None).filter(|_| !progress.is_cancelled()) {
            merger.take(Scanned { block, batch: Batch::default(), end: None });
        }
    }
    let Merger { document, in_events, offset, .. } = merger;
    let error = lock(&shared.feeder).error.take();
    TextSummary { document, text_bytes: offset, is_unclosed: in_events, error }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scan_blocks<R: Read>(shared: &Shared<'_, R>, sender: &SyncSender<Scanned>) {
    loop {
        if shared.progress.is_cancelled() {
            return;
        }
        let (text, batch) = lock(&shared.spare).pop().unzip();
        let Some(block) = lock(&shared.feeder).next(text) else { return };
        {
            let merged = lock(&shared.merged);
            let is_early = |merged: &mut u64| block.seq >= *merged + MAX_AHEAD && !shared.progress.is_cancelled();
            let timeout = std::time::Duration::from_millis(50);
            let mut wait = shared.moved.wait_timeout_while(merged, timeout, is_early);
            while wait.as_ref().is_ok_and(|(_, timeout)| timeout.timed_out()) && !shared.progress.is_cancelled() {
                drop(wait);
                wait = shared.moved.wait_timeout_while(lock(&shared.merged), timeout, is_early);
            }
        }
        let mut batch = batch.unwrap_or_default();
        let end = shared.is_speculating.load(Ordering::Relaxed).then(|| {
            let TextBlock { text, offset, is_last, .. } = &block;
            let last_object = &OnceCell::new();
            let (start, offset, is_last) = (0, *offset, *is_last);
            let (before, is_limited) = (Before::Unknown, false);
            walk(EventText { text, start, offset, is_last, before, last_object, is_limited }, &mut batch)
        });
        if sender.send(Scanned { block, batch, end }).is_err() {
            return;
        }
    }
}

fn merge_in_order<R>(receiver: &Receiver<Scanned>, shared: &Shared<'_, R>, merger: &mut Merger<'_>) {
    let mut early = BTreeMap::new();
    let mut next = *lock(&shared.merged);
    for scanned in receiver {
        early.insert(scanned.block.seq, scanned);
        while let Some(scanned) = early.remove(&next) {
            let spare = merger.take(scanned);
            lock(&shared.spare).push(spare);
            shared.is_speculating.store(merger.in_events, Ordering::Relaxed);
            next += 1;
            *lock(&shared.merged) = next;
            shared.moved.notify_all();
        }
    }
}

/// Merges blocks in file order.
struct Merger<'a> {
    assembly: &'a mut Assembly,
    document: Document,
    /// Inside an array of events; else at the top level around it.
    in_events: bool,
    /// What comes before the next text in the array.
    before: Before,
    /// Incomplete text that is prepended to the next block.
    carry: Vec<u8>,
    /// Length of the carry from which on it is read again: twice what was read in vain, so that the cost of all
    /// attempts is linear.
    carry_until: usize,
    /// Where the text after `carry` starts.
    offset: u64,
}

impl Merger<'_> {
    /// Merges a block; returns its buffers for reuse.
    fn take(&mut self, scanned: Scanned) -> (Vec<u8>, Batch) {
        let Scanned { block, mut batch, end } = scanned;
        self.offset = block.offset + block.text.len() as u64 - PADDING as u64;
        match end {
            Some(end) if self.in_events && self.carry.is_empty() => {
                self.judge_start(&block, &mut batch);
                self.assembly.absorb(&mut batch);
                self.follow(end, &block.text, block.offset, block.is_last);
            }
            _ => {
                let offset = block.offset - self.carry.len() as u64;
                let mut joined = std::mem::take(&mut self.carry);
                if joined.is_empty() {
                    self.go_on(&block.text, 0, offset, block.is_last);
                } else {
                    joined.extend_from_slice(&block.text);
                    if joined.len() < self.carry_until && !block.is_last {
                        joined.truncate(joined.len() - PADDING);
                        self.carry = joined;
                        return (block.text, batch.recycled());
                    }
                    self.go_on(&joined, 0, offset, block.is_last);
                }
                self.carry_until = 2 * self.carry.len();
            }
        }
        (block.text, batch.recycled())
    }

    /// Notes what is odd about the comma before a block that was scanned before what comes before it was known.
    fn judge_start(&self, block: &TextBlock, batch: &mut Batch) {
        let mut start = Scanner::<Portable>::new(&block.text, 0);
        start.skip_space();
        if let Some(reason) = self.before.oddity(start.byte()) {
            batch.tally.count(reason, block.offset + start.at as u64);
        }
    }

    /// Continues where the scan of `text` ended.
    fn follow(&mut self, end: End, text: &[u8], offset: u64, is_last: bool) {
        match end {
            End::Between(Before::Unknown) => {}
            End::Between(before) => self.before = before,
            End::Inside(at) => {
                self.before = Before::Nothing;
                self.carry.extend_from_slice(&text[at..text.len() - PADDING]);
            }
            End::Closed(at) => {
                self.document.close_array();
                self.in_events = false;
                self.go_on(text, at + 1, offset, is_last);
            }
        }
    }

    /// Reads `text` from `at` on, on this thread.
    fn go_on(&mut self, text: &[u8], at: usize, offset: u64, is_last: bool) {
        let mut at = at;
        let last_object = &OnceCell::new();
        loop {
            if !self.in_events {
                match self.document.feed(&text[at..], offset + at as u64, is_last) {
                    Found::Events(start) => at += start,
                    Found::More(end) => {
                        self.carry.extend_from_slice(&text[at + end..text.len() - PADDING]);
                        return;
                    }
                }
                (self.in_events, self.before) = (true, Before::Nothing);
            }
            let mut batch = Batch::default();
            let is_limited = self.document.is_limited;
            let input = EventText { text, start: at, offset, is_last, before: self.before, last_object, is_limited };
            let end = walk(input, &mut batch);
            self.assembly.absorb(&mut batch);
            match end {
                End::Closed(close) => {
                    self.document.close_array();
                    self.in_events = false;
                    at = close + 1;
                }
                _ => return self.follow(end, text, offset, is_last),
            }
        }
    }
}

impl TextSummary {
    /// Adds the problems outside the events to the tally and the report.
    pub fn report(&self, assembly: &mut Assembly) {
        use crate::model::Severity::{Note, Warn};
        let document = &self.document;
        if document.is_lines {
            assembly.tally.forget(Reason::MissingComma);
        }
        let import = &mut assembly.builder.import;
        if let Some((count, offset)) = document.elsewhere {
            assembly.tally.add_at(Reason::Elsewhere, count, offset);
            import.read += count;
        }
        let n_lost = assembly.tally.n(Reason::CutOff) + assembly.tally.n(Reason::Damaged);
        let mut is_partial = n_lost > 0 || !document.damaged.is_empty();
        let mut note = |severity, reason: &str, count: u64, offset| import.note(severity, reason, count, offset);
        if document.is_lines {
            note(Warn, "One event after another without an array around them: all are shown", 1, None);
        } else if self.is_unclosed && document.is_array_form {
            note(Note, "The list of events is not closed, which the format allows", 1, Some(self.text_bytes));
        } else if self.is_unclosed || document.is_open {
            let reason = "The file ends before its last bracket: its writer was stopped before it had finished";
            note(Warn, reason, 1, Some(self.text_bytes));
            is_partial = true;
        }
        let reason = "Damaged text outside the list of events: skipped up to the next event, if one follows";
        note(Warn, reason, document.damaged.len() as u64, document.damaged.first().copied());
        let reason = "Another list of events in the same file: all are shown together";
        note(Warn, reason, document.further_arrays.len() as u64, document.further_arrays.first().copied());
        for (key, offset) in &document.unread {
            note(Note, &format!("`{key}` beside the events: not shown"), 1, Some(*offset));
        }
        if let Some((count, offset)) = document.unkept {
            note(Note, "A value beside the events is not valid JSON, or too deep: not read", count, Some(offset));
        }
        if let Some((count, offset)) = document.trailing {
            note(Note, "Bytes after the end of the trace: not read", count, Some(offset));
        }
        import.is_partial |= is_partial;
    }
}
