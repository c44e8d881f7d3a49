//! Converts rows of the raw form (sizes and categories) to blocks.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::curves::Curves;
use super::{CATEGORIES, Row};
use crate::model::memory::{InitialBlock, MemoryAction, MemoryEvent, MemorySource, PoolId, RawMemory, UNKNOWN_DEVICE};
use crate::model::{ImportReport, Severity, StackId, StringId, TimeNs, TimeRange, TraceBuilder};

/// Numbers of `_memory_profiler.Action`.
const PREEXISTING: i64 = 1;
const CREATE: i64 = 2;
const INCREMENT_VERSION: i64 = 3;
const DESTROY: i64 = 4;

/// Gives each allocation of the raw form an address, so that it can be replayed.
///
/// The file has only sizes and categories: a destroyed block is assumed to be the newest live one of the same
/// size and category, which does not affect any sum. So a block lives across the end of a step only if more blocks of
/// its size and category are live there than before, as with a leak, whatever was freed within the step. Beside the
/// addresses that a trace of the same run has, as many frees find their block as with the oldest, and nearly all
/// find one of the right step. A block that changes category is the oldest; it ends in one category and begins in the
/// other, at the same address and time.
#[derive(Default)]
struct Pairing {
    /// Addresses of live blocks by size and category, in the order in which they came into the category.
    live: HashMap<(u64, i64), VecDeque<u64>>,
    next: u64,
    raw: RawMemory,
    curves: Curves,
    sums: [i64; CATEGORIES.len()],
    names: [StringId; CATEGORIES.len()],
    /// Frees for which more than one block was live.
    n_guessed: u64,
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

    /// Adds a block from before the recording; `ts` is the start of the recording.
    fn preexist(&mut self, ts: TimeNs, bytes: u64, category: i64) {
        let addr = self.begin(bytes, category);
        self.raw.before.push(InitialBlock { addr, bytes, category: self.names[category as usize] });
        self.count(ts, bytes as i64, category);
    }

    fn create(&mut self, ts: TimeNs, bytes: u64, category: i64) {
        let addr = self.begin(bytes, category);
        self.event(ts, MemoryAction::Alloc, addr, bytes, category);
    }

    /// Ends the newest matching block; false if none exists.
    fn destroy(&mut self, ts: TimeNs, bytes: u64, category: i64) -> bool {
        let Some(alike) = self.live.get_mut(&(bytes, category)) else { return false };
        self.n_guessed += u64::from(alike.len() > 1);
        let Some(block) = alike.pop_back() else { return false };
        self.event(ts, MemoryAction::FreeCompleted, block, bytes, category);
        true
    }

    /// Moves the oldest matching block to another category; false if none exists.
    fn change(&mut self, ts: TimeNs, bytes: u64, from: i64, to: i64) -> bool {
        let Some(alike) = self.live.get_mut(&(bytes, from)) else { return false };
        if from == to {
            return !alike.is_empty();
        }
        let Some(block) = alike.pop_front() else { return false };
        self.event(ts, MemoryAction::FreeCompleted, block, bytes, from);
        self.event(ts, MemoryAction::Alloc, block, bytes, to);
        self.live.entry((bytes, to)).or_default().push_back(block);
        true
    }
}

/// Counts of the rows of the raw form.
#[derive(Default)]
struct RowCounts {
    shown: u64,
    merged: u64,
    n_before: u64,
    n_bad: u64,
    n_unpaired: u64,
}

/// Adds the blocks of the raw form.
pub fn add_blocks(rows: &[Row], builder: &mut TraceBuilder) {
    let mut pairing = Pairing { names: CATEGORIES.map(|name| builder.strings.intern(name)), ..Pairing::default() };
    pairing.raw.source = MemorySource::Timeline;
    pairing.raw.device = UNKNOWN_DEVICE;
    pairing.raw.has_time = true;
    let start = rows.iter().filter(|row| row.len == 4).map(|row| row.numbers[0]).find(|&ts| ts >= 0).unwrap_or(0);
    let mut account = RowCounts::default();
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
        let n_taken = account.shown + account.merged;
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
            // A pair of rows: from one category to another or the same.
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
        // Changes of blocks that stay in their category are no events, and yet recorded.
        if account.shown + account.merged > n_taken {
            let moment = TimeRange { start: ts, end: ts };
            pairing.raw.recorded = Some(pairing.raw.recorded.map_or(moment, |recorded| recorded.union(moment)));
        }
    }
    let import = &mut builder.import;
    import.read += account.shown + account.merged + account.n_bad + account.n_unpaired;
    (import.shown, import.merged) = (import.shown + account.shown, import.merged + account.merged);
    report(import, &account, pairing.n_guessed);
    builder.memories.push(pairing.raw);
    pairing.curves.add_to(builder);
}

fn report(import: &mut ImportReport, account: &RowCounts, n_guessed: u64) {
    let bad = "Event that is not a time, an action, a size and a category of PyTorch: not shown";
    import.reject(Severity::Warn, bad, account.n_bad, None);
    let unpaired = "End or change of a block of which none is live in its size and category: not shown";
    import.reject(Severity::Warn, unpaired, account.n_unpaired, None);
    let before = "Live before the recording began: shown from its start on";
    import.note(Severity::Note, before, account.n_before, None);
    let guessed = "End of one of several blocks of one size and category, which the file does not tell apart: the newest \
                   is taken to end, so how long each was live is a guess";
    import.note(Severity::Note, guessed, n_guessed, None);
    import.note(Severity::Note, "The file does not say whether this is memory of a GPU or of the host", 1, None);
}
