//! Reads rows of host activity: API calls, NVTX ranges, system calls, CPU samples and scheduling.

use rusqlite::types::ValueRef;

use crate::model::{RawSlice, SliceKind};

use super::chunk::{Cells, Chunk, Frame, NameKey, RowFacts, SampleEvent, SchedEvent, TrackKey, process_of};
use super::device::correlation;
use super::tables::Spec;
use super::tally::Reason;

pub const RUNTIME: Spec = Spec {
    table: "CUPTI_ACTIVITY_KIND_RUNTIME",
    columns: &["start", "end", "eventClass", "globalTid", "correlationId", "nameId"],
    read: |chunk, cells, source| {
        let Some((ts, end)) = chunk.span(cells[0], cells[1]) else { return };
        let thread = chunk.int_or_0(cells[3]);
        let track = chunk.track(TrackKey::Thread(thread));
        let name = match chunk.int(cells[5]) {
            Some(id) => chunk.key(NameKey::Call(id)),
            None => chunk.name(ValueRef::Null),
        };
        // The driver's API shares this table: `ENUM_NSYS_EVENT_CLASS` 1.
        let kind = if chunk.int_or_0(cells[2]) == 1 { SliceKind::Driver } else { SliceKind::Runtime };
        if chunk.is_marker(cells[2]) {
            return chunk.instant(track, ts, name, source);
        }
        chunk.n_shown += 1;
        let correlation = correlation(chunk, cells[4]);
        chunk.slices.push(RawSlice { ts, end, name, kind, track, correlation, source, ..Default::default() });
    },
};

pub const OSRT: Spec = Spec {
    table: "OSRT_API",
    columns: &["start", "end", "globalTid", "nameId", "eventClass"],
    read: |chunk, cells, source| {
        let Some((ts, end)) = chunk.span(cells[0], cells[1]) else { return };
        let thread = chunk.int_or_0(cells[2]);
        let track = chunk.track(TrackKey::Thread(thread));
        let name = chunk.name(cells[3]);
        if chunk.is_marker(cells[4]) {
            return chunk.instant(track, ts, name, source);
        }
        chunk.n_shown += 1;
        chunk.slices.push(RawSlice { ts, end, name, kind: SliceKind::Os, track, source, ..Default::default() });
    },
};

pub const NVTX: Spec = Spec {
    table: "NVTX_EVENTS",
    columns: &["start", "end", "eventType", "text", "textId", "globalTid", "domainId", "color"],
    read: nvtx,
};

/// Reads one NVTX row, by its `ENUM_NSYS_EVENT_TYPE`.
fn nvtx(chunk: &mut Chunk, cells: &Cells<'_>, source: u64) {
    let name = match (cells[3], cells[4]) {
        (ValueRef::Text(text), _) => chunk.text(text),
        (_, ValueRef::Integer(id)) => chunk.key(NameKey::Id(id)),
        // NVTX ranges need no message.
        _ => chunk.key(NameKey::Empty),
    };
    let (thread, domain) = (chunk.int_or_0(cells[5]), chunk.int_or_0(cells[6]));
    match chunk.int(cells[2]) {
        // Marks.
        Some(34) => {
            let Some(ts) = chunk.time(cells[0]) else { return };
            chunk.n_shown += 1;
            let track = chunk.track(TrackKey::Thread(thread));
            chunk.instants.push((track, ts, name, source));
        }
        // Push/pop ranges, and those imported from text, nest on their thread.
        Some(59 | 70 | 71) | None => range(chunk, cells, TrackKey::Thread(thread), name, domain, source),
        // Start/end ranges may end on another thread.
        Some(60) => range(chunk, cells, TrackKey::Ranges(process_of(thread)), name, domain, source),
        Some(75) => {
            chunk.n_merged += 1;
            chunk.domains.push(((process_of(thread), domain), name.0));
        }
        Some(39) => {
            chunk.n_merged += 1;
            chunk.thread_names.push((thread, name.0));
        }
        // Names of categories and CUDA objects, and the end of domains.
        Some(33 | 76 | 97..=99) => chunk.n_merged += 1,
        Some(_) => chunk.tally.add(Reason::UnknownNvtx, 1),
    }
}

fn range(
    chunk: &mut Chunk,
    cells: &Cells<'_>,
    place: TrackKey,
    name: crate::model::StringId,
    domain: i64,
    source: u64,
) {
    let (ts, end) = match cells[1] {
        ValueRef::Null => {
            let Some(ts) = chunk.time(cells[0]) else { return };
            chunk.unfinished.push(source);
            chunk.tally.add(Reason::NeverEnded, 1);
            (ts, ts)
        }
        end => match chunk.span(cells[0], end) {
            Some(span) => span,
            None => return,
        },
    };
    chunk.n_shown += 1;
    // ARGB as a signed or an unsigned number; without alpha it was never set.
    let color = Some(chunk.int_or_0(cells[7]) as u32).filter(|color| color >> 24 != 0).unwrap_or(0);
    let domain = match (domain, place) {
        (0, _) => None,
        (_, TrackKey::Thread(id) | TrackKey::Ranges(id)) => Some(chunk.key(NameKey::Domain(process_of(id), domain)).0),
        _ => None,
    };
    let has_facts = domain.is_some() || color != 0;
    let facts = if has_facts { 1 + chunk.facts.intern(RowFacts::Range { domain, color }) } else { 0 };
    let (track, kind) = (chunk.track(place), SliceKind::Annotation);
    chunk.slices.push(RawSlice { ts, end, name, kind, track, facts, source, ..Default::default() });
}

pub const COMPOSITE: Spec = Spec {
    table: "COMPOSITE_EVENTS",
    columns: &["start", "id", "globalTid"],
    read: |chunk, cells, source| {
        let Some(ts) = chunk.time(cells[0]) else { return };
        chunk.n_shown += 1;
        let (id, thread) = (chunk.int_or_0(cells[1]), chunk.int_or_0(cells[2]));
        chunk.stack_samples.push(SampleEvent { id, ts, thread, source });
    },
};

pub const CALLCHAINS: Spec = Spec {
    table: "SAMPLING_CALLCHAINS",
    columns: &["id", "stackDepth", "symbol", "module", "unresolved"],
    read: |chunk, cells, _| {
        let (sample, depth) = (chunk.int_or_0(cells[0]), chunk.int_or_0(cells[1]));
        // An address without a symbol is named by its module.
        let name = match (chunk.int_or_0(cells[4]), chunk.int(cells[3])) {
            (1.., Some(module)) => chunk.key(NameKey::Module(module)),
            _ => chunk.name(cells[2]),
        };
        chunk.frames.push(Frame { sample, depth, name: name.0 });
    },
};

pub const SCHED: Spec = Spec {
    table: "SCHED_EVENTS",
    columns: &["start", "cpu", "isSchedIn", "globalTid"],
    read: |chunk, cells, source| {
        let Some(ts) = chunk.time(cells[0]) else { return };
        let [cpu, is_in, thread] = [1, 2, 3].map(|i| chunk.int_or_0(cells[i]));
        chunk.sched.push(SchedEvent { ts, thread, cpu, is_in: is_in != 0, source });
    },
};

pub const DIAGNOSTIC: Spec = Spec {
    table: "DIAGNOSTIC_EVENT",
    columns: &["timestamp", "severity", "text", "globalPid"],
    read: |chunk, cells, source| {
        let Some(ts) = chunk.time(cells[0]) else { return };
        chunk.n_shown += 1;
        let name = match cells[2] {
            ValueRef::Text(text) => chunk.text(text),
            _ => chunk.key(NameKey::Empty),
        };
        let severity = chunk.int_or_0(cells[1]);
        let process = chunk.int_or_0(cells[3]);
        chunk.diagnostics.push((severity, name.0, process));
        let track = chunk.track(TrackKey::Table(0, chunk.table));
        chunk.instants.push((track, ts, name, source));
    },
};
