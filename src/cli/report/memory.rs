//! What became of memory: the part `memory` of the report.

use super::keys::{Cut, Held, Memory, Oom};
use super::leaks::{self, Growing};
use super::table::{Cell, Table, grouped, text};
use crate::analysis::memory::live::{self, Group, Live, LiveGroup, sort_first};
use crate::analysis::memory::oom::{self, OomCard};
use crate::analysis::memory::signature::{SignatureId, Signatures};
use crate::analysis::memory::summary::summary;
use crate::model::memory::MemorySource;
use crate::model::{DurNs, MemoryHistory, Trace};

/// The memory of each device of a trace.
///
/// * `offset_ns`: what to add to the trace's times to get session times.
/// * `top`: rows of each list; 0 keeps all.
pub fn memories(trace: &Trace, offset_ns: DurNs, top: usize) -> Vec<Memory> {
    if trace.memories.is_empty() {
        return Vec::new();
    }
    let signatures = Signatures::new(trace, false);
    let place = Place { trace, signatures: &signatures, offset_ns, top };
    trace.memories.iter().map(|history| place.memory(history)).collect()
}

/// What all devices of a trace have in common.
struct Place<'a> {
    trace: &'a Trace,
    signatures: &'a Signatures,
    offset_ns: DurNs,
    top: usize,
}

impl Place<'_> {
    fn memory(&self, history: &MemoryHistory) -> Memory {
        let figures = summary(history);
        let growing = Growing::of(self.trace, history, self.signatures, self.top);
        let held = |state| {
            let by_signature = live::by_signature(history, self.signatures);
            let mut groups = live::groups(history, state, Live::Allocated, by_signature);
            sort_first(&mut groups, self.top, |group| group.frames(self.trace, self.signatures));
            Cut::new(groups.iter().map(|group| self.held(group)), self.top)
        };
        let cards = oom::cards(self.trace, history, self.signatures, self.top, &|| false);
        let reserved = |bytes| history.has_segments.then_some(bytes);
        Memory {
            rank: self.trace.info.rank,
            device: history.device,
            pid: history.pid,
            source: history.source.key(),
            events: match history.source {
                // Its rows become events by pairs, and those from before the recording none.
                MemorySource::Timeline => self.trace.import.read,
                _ => history.events.len() as u64,
            },
            peak_allocated_bytes: figures.peak_allocated.bytes,
            peak_allocated_at: history
                .has_time
                .then(|| history.time_of(figures.peak_allocated.state).saturating_add(self.offset_ns)),
            peak_reserved_bytes: reserved(figures.peak_reserved.bytes),
            end_allocated_bytes: figures.end_allocated,
            end_reserved_bytes: reserved(figures.end_reserved),
            start_allocated_bytes: figures.start_allocated,
            fragmentation: figures.fragmentation,
            end_pinned_bytes: figures.end_pinned,
            efficiency: figures.efficiency(),
            oom: Cut::new(cards.into_iter().map(|card| self.oom(card)), self.top),
            peak_by_stack: held(figures.peak_allocated.state),
            live_at_end: held(history.last_state()),
            growth: growing.growth,
            leaks: growing.leaks,
            worst_leak: growing.worst_leak,
            no_leaks: growing.no_leaks,
            gains: growing.gains,
            confidence: growing.confidence,
            doubts: growing.doubts,
        }
    }

    fn stack(&self, signature: SignatureId) -> Vec<String> {
        self.signatures.frames(self.trace, signature).into_iter().map(String::from).collect()
    }

    fn label(&self, signature: SignatureId) -> String {
        self.signatures.label(self.trace, signature).unwrap_or_default().into_owned()
    }

    fn held(&self, group: &LiveGroup) -> Held {
        let signature = match group.group {
            Group::Signature(signature) => signature,
            _ => SignatureId::default(),
        };
        let (stack, label) = (self.stack(signature), self.label(signature));
        Held { stack, label, bytes: group.bytes, count: group.count }
    }

    fn oom(&self, card: OomCard) -> Oom {
        Oom {
            at_ns: card.at.map(|at| at.saturating_add(self.offset_ns)),
            requested_bytes: card.requested,
            device_free_bytes: card.device_free,
            reserved_bytes: card.reserved,
            allocated_bytes: card.allocated,
            awaiting_free_bytes: card.awaiting_free,
            inactive_bytes: card.inactive,
            free_bytes: card.free,
            largest_free_bytes: card.largest_free,
            free_elsewhere_bytes: card.free_elsewhere,
            non_pytorch_bytes: card.non_pytorch,
            by_stack: card.stacks.iter().map(|group| self.held(group)).collect(),
            advice: card
                .what_ifs
                .into_iter()
                .map(|what| match what.setting() {
                    "" => what.fact(mib),
                    setting => format!("{setting}? {}", what.fact(mib)),
                })
                .collect(),
        }
    }
}

/// `1,234.5 MiB`.
fn mib(bytes: u64) -> String {
    let tenths = ((u128::from(bytes) * 10 + (1 << 19)) >> 20) as u64;
    format!("{}.{} MiB", grouped(tenths / 10), tenths % 10)
}

pub(super) const DEVICE: (&str, &str) = ("device", "Device");
const BYTES: (&str, &str) = ("bytes", "Size");
pub(super) const STACK: (&str, &str) = ("stack", "Allocated at");

/// The part as tables, with a place in the program in short for each stack.
pub fn tables(memories: &[Memory]) -> Vec<Table> {
    vec![
        figures(memories),
        ooms(memories),
        leaks::growth_table(memories),
        leaks::leaks_table(memories),
        leaks::no_leaks_table(memories),
        leaks::gains_table(memories),
        held("peak_by_stack", "Memory at its peak", memories, |memory| &memory.peak_by_stack),
        held("live_at_end", "Memory at the end", memories, |memory| &memory.live_at_end),
    ]
}

pub(super) fn device(memory: &Memory) -> [Cell; 2] {
    let rank = memory.rank.map_or(Cell::Empty, |rank| Cell::Count(u64::from(rank)));
    [rank, u64::try_from(memory.device).map_or_else(|_| text("host"), Cell::Count)]
}

fn figures(memories: &[Memory]) -> Table {
    let columns = [
        ("rank", "Rank"),
        DEVICE,
        ("pid", "Process"),
        ("source", "Source"),
        ("events", "Events"),
        ("peak_allocated_bytes", "Peak allocated"),
        ("peak_allocated_at", "Peak at"),
        ("peak_reserved_bytes", "Peak reserved"),
        ("start_allocated_bytes", "Allocated at start"),
        ("end_allocated_bytes", "Allocated at end"),
        ("end_reserved_bytes", "Reserved at end"),
        ("efficiency", "Allocated share"),
        ("fragmentation", "Fragmentation"),
        ("end_pinned_bytes", "Pinned at end"),
        ("confidence", "Confidence"),
    ];
    let mut table = Table::new("memory", "Memory", &columns);
    for memory in memories {
        let bytes = |bytes: Option<u64>| bytes.map_or(Cell::Empty, Cell::Bytes);
        let share = |share: Option<f64>| share.map_or(Cell::Empty, Cell::Share);
        let mut row = Vec::from(device(memory));
        row.push(memory.pid.map_or(Cell::Empty, |pid| text(&pid.to_string())));
        row.extend([text(memory.source), Cell::Count(memory.events), Cell::Bytes(memory.peak_allocated_bytes)]);
        row.extend([memory.peak_allocated_at.map_or(Cell::Empty, Cell::Ns), bytes(memory.peak_reserved_bytes)]);
        row.extend([memory.start_allocated_bytes, memory.end_allocated_bytes].map(Cell::Bytes));
        row.extend([bytes(memory.end_reserved_bytes), share(memory.efficiency), share(memory.fragmentation)]);
        row.push(bytes(memory.end_pinned_bytes));
        row.push(text(memory.confidence));
        table.rows.push(row);
    }
    table
}

fn ooms(memories: &[Memory]) -> Table {
    let columns = [
        ("rank", "Rank"),
        DEVICE,
        ("at_ns", "At"),
        ("requested_bytes", "Requested"),
        ("device_free_bytes", "Free on device"),
        ("reserved_bytes", "Reserved"),
        ("allocated_bytes", "= Allocated"),
        ("awaiting_free_bytes", "+ Awaiting free"),
        ("inactive_bytes", "+ Inactive"),
        ("free_bytes", "Free for it"),
        ("largest_free_bytes", "Largest of it"),
        ("free_elsewhere_bytes", "Free elsewhere"),
        ("non_pytorch_bytes", "Other programs"),
        ("advice", "What might have helped"),
    ];
    let mut table = Table::new("oom", "Out of memory", &columns);
    for memory in memories {
        table.n_hidden += memory.oom.n_hidden;
        for oom in &memory.oom.shown {
            let bytes = |bytes: Option<u64>| bytes.map_or(Cell::Empty, Cell::Bytes);
            let mut row = Vec::from(device(memory));
            row.extend([oom.at_ns.map_or(Cell::Empty, Cell::Ns), Cell::Bytes(oom.requested_bytes)]);
            row.push(bytes(oom.device_free_bytes));
            let held = [oom.reserved_bytes, oom.allocated_bytes, oom.awaiting_free_bytes, oom.inactive_bytes];
            row.extend(held.map(Cell::Bytes));
            row.extend([oom.free_bytes, oom.largest_free_bytes, oom.free_elsewhere_bytes].map(Cell::Bytes));
            row.push(bytes(oom.non_pytorch_bytes));
            row.push(text(&oom.advice.join(". ")));
            table.rows.push(row);
        }
    }
    table
}

fn held(key: &'static str, title: &'static str, memories: &[Memory], list: fn(&Memory) -> &Cut<Held>) -> Table {
    let columns = [("rank", "Rank"), DEVICE, BYTES, ("count", "Blocks"), STACK];
    let mut table = Table::new(key, title, &columns);
    for memory in memories {
        table.n_hidden += list(memory).n_hidden;
        for held in &list(memory).shown {
            let mut row = Vec::from(device(memory));
            let label = if held.label.is_empty() { crate::analysis::stacks::NO_STACK } else { &held.label };
            row.extend([Cell::Bytes(held.bytes), Cell::Count(held.count), text(label)]);
            table.rows.push(row);
        }
    }
    table
}
