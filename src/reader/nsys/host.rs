//! Rows of what threads did: API calls, NVTX ranges, system calls, CPU samples and scheduling.

use rusqlite::types::ValueRef;

use crate::model::{RawSlice, SliceKind};

use super::device::correlation;
use super::part::{Cells, Frame, NameKey, Part, SampleEvent, SchedEvent, TrackKey, process_of};
use super::tables::Spec;
use super::tally::Reason;

pub const RUNTIME: Spec = Spec {
    table: "CUPTI_ACTIVITY_KIND_RUNTIME",
    columns: &["start", "end", "eventClass", "globalTid", "correlationId", "nameId"],
    read: |part, cells, source| {
        let Some((ts, end)) = part.span(cells[0], cells[1]) else { return };
        part.n_shown += 1;
        // The driver's API shares this table: `ENUM_NSYS_EVENT_CLASS` 1.
        let kind = if part.int_or_0(cells[2]) == 1 { SliceKind::Driver } else { SliceKind::Runtime };
        let thread = part.int_or_0(cells[3]);
        let track = part.track(TrackKey::Thread(thread));
        let correlation = correlation(part, cells[4]);
        let name = match part.int(cells[5]) {
            Some(id) => part.key(NameKey::Call(id)),
            None => part.name(ValueRef::Null),
        };
        part.slices.push(RawSlice { ts, end, name, kind, track, correlation, source, ..Default::default() });
    },
};

pub const OSRT: Spec = Spec {
    table: "OSRT_API",
    columns: &["start", "end", "globalTid", "nameId"],
    read: |part, cells, source| {
        let Some((ts, end)) = part.span(cells[0], cells[1]) else { return };
        part.n_shown += 1;
        let thread = part.int_or_0(cells[2]);
        let track = part.track(TrackKey::Thread(thread));
        let name = part.name(cells[3]);
        part.slices.push(RawSlice { ts, end, name, kind: SliceKind::Os, track, source, ..Default::default() });
    },
};

pub const NVTX: Spec = Spec {
    table: "NVTX_EVENTS",
    columns: &["start", "end", "eventType", "text", "textId", "globalTid", "domainId"],
    read: nvtx,
};

/// One row of NVTX, by its `ENUM_NSYS_EVENT_TYPE`.
fn nvtx(part: &mut Part, cells: &Cells<'_>, source: u64) {
    let name = match (cells[3], cells[4]) {
        (ValueRef::Text(text), _) => part.text(text),
        (_, ValueRef::Integer(id)) => part.key(NameKey::Id(id)),
        // A range without a message is NVTX's right.
        _ => part.key(NameKey::Empty),
    };
    let (thread, domain) = (part.int_or_0(cells[5]), part.int_or_0(cells[6]));
    match part.int(cells[2]) {
        // Marks.
        Some(34) => {
            let Some(ts) = part.time(cells[0]) else { return };
            part.n_shown += 1;
            let track = part.track(TrackKey::Thread(thread));
            part.instants.push((track, ts, name, source));
        }
        // Push/pop ranges, and those imported from text, nest on their thread.
        Some(59 | 70 | 71) | None => range(part, cells, TrackKey::Thread(thread), name, domain, source),
        // Start/end ranges may end anywhere.
        Some(60) => range(part, cells, TrackKey::Ranges(process_of(thread)), name, domain, source),
        Some(75) => {
            part.n_merged += 1;
            part.domains.push(((process_of(thread), domain), name.0));
        }
        Some(39) => {
            part.n_merged += 1;
            part.thread_names.push((thread, name.0));
        }
        // Names of categories and CUDA objects, and the end of domains.
        Some(33 | 76 | 97..=99) => part.n_merged += 1,
        Some(_) => part.tally.add(Reason::UnknownNvtx, 1),
    }
}

fn range(part: &mut Part, cells: &Cells<'_>, place: TrackKey, name: crate::model::StringId, domain: i64, source: u64) {
    let (ts, end) = match cells[1] {
        ValueRef::Null => {
            let Some(ts) = part.time(cells[0]) else { return };
            part.unfinished.push(source);
            part.tally.add(Reason::NeverEnded, 1);
            (ts, ts)
        }
        end => match part.span(cells[0], end) {
            Some(span) => span,
            None => return,
        },
    };
    part.n_shown += 1;
    let attr = match (domain, place) {
        (0, _) => 0,
        (_, TrackKey::Thread(id) | TrackKey::Ranges(id)) => 1 + part.key(NameKey::Domain(process_of(id), domain)).0,
        _ => 0,
    };
    let (track, kind) = (part.track(place), SliceKind::Annotation);
    part.slices.push(RawSlice { ts, end, name, kind, track, attr, source, ..Default::default() });
}

pub const COMPOSITE: Spec = Spec {
    table: "COMPOSITE_EVENTS",
    columns: &["start", "id", "globalTid"],
    read: |part, cells, source| {
        let Some(ts) = part.time(cells[0]) else { return };
        part.n_shown += 1;
        let (id, thread) = (part.int_or_0(cells[1]), part.int_or_0(cells[2]));
        part.stack_samples.push(SampleEvent { id, ts, thread, source });
    },
};

pub const CALLCHAINS: Spec = Spec {
    table: "SAMPLING_CALLCHAINS",
    columns: &["id", "stackDepth", "symbol", "module", "unresolved"],
    read: |part, cells, _| {
        let (sample, depth) = (part.int_or_0(cells[0]), part.int_or_0(cells[1]));
        // An address without a symbol says nothing by itself; its module does.
        let name = match (part.int_or_0(cells[4]), part.int(cells[3])) {
            (1.., Some(module)) => part.key(NameKey::Module(module)),
            _ => part.name(cells[2]),
        };
        part.frames.push(Frame { sample, depth, name: name.0 });
    },
};

pub const SCHED: Spec = Spec {
    table: "SCHED_EVENTS",
    columns: &["start", "cpu", "isSchedIn", "globalTid"],
    read: |part, cells, source| {
        let Some(ts) = part.time(cells[0]) else { return };
        let [cpu, is_in, thread] = [1, 2, 3].map(|i| part.int_or_0(cells[i]));
        part.sched.push(SchedEvent { ts, thread, cpu, is_in: is_in != 0, source });
    },
};

pub const DIAGNOSTIC: Spec = Spec {
    table: "DIAGNOSTIC_EVENT",
    columns: &["timestamp", "severity", "text"],
    read: |part, cells, source| {
        let Some(ts) = part.time(cells[0]) else { return };
        part.n_shown += 1;
        let name = match cells[2] {
            ValueRef::Text(text) => part.text(text),
            _ => part.key(NameKey::Empty),
        };
        let severity = part.int_or_0(cells[1]);
        part.diagnostics.push((severity, name.0));
        let track = part.track(TrackKey::Table(0, part.table));
        part.instants.push((track, ts, name, source));
    },
};
