//! NVTX events → slices of the trace: each push with its pop, each start with its end.

use std::collections::HashMap;
use std::io::Write as _;

use super::json::push_text;
use super::nvtx::{Label, NvtxEvent, Payload, What};
use super::trace_file::{TraceFile, TrackRow};

/// A range that has begun.
#[derive(Debug)]
struct Open {
    begin: i64,
    thread: u32,
    domain: u32,
    label: Label,
}

#[derive(Debug, Default)]
pub struct NvtxWriter {
    /// The pushed ranges of each thread and domain, the innermost last.
    pushed: HashMap<(u32, u32), Vec<Open>>,
    started: HashMap<u64, Open>,
}

impl NvtxWriter {
    /// Writes an event, or what it ends. The name of a domain is at its number minus 1.
    pub fn take(&mut self, event: NvtxEvent, domains: &[String], file: &mut TraceFile) {
        let NvtxEvent { ts, thread, domain, what } = event;
        match what {
            What::Push(label) => {
                self.pushed.entry((thread, domain)).or_default().push(Open { begin: ts, thread, domain, label });
            }
            What::Pop => {
                // A pop too many is the program's mistake.
                if let Some(open) = self.pushed.get_mut(&(thread, domain)).and_then(Vec::pop) {
                    write(&open, ts, true, domains, file);
                }
            }
            What::Start(id, label) => {
                self.started.insert(id, Open { begin: ts, thread, domain, label });
            }
            What::End(id) => {
                if let Some(open) = self.started.remove(&id) {
                    write(&open, ts, true, domains, file);
                }
            }
            What::Mark(label) => {
                let args = |out: &mut Vec<u8>| push_args(out, &label, domain, true, domains);
                file.instant(&label.message, thread, ts, args);
            }
            What::NameThread(thread, name) => file.name_thread(thread, &name),
        }
    }

    /// Writes the ranges that never ended, as if they ended now.
    pub fn finish(&mut self, now: i64, domains: &[String], file: &mut TraceFile) {
        let pushed = std::mem::take(&mut self.pushed).into_values().flatten();
        let mut left: Vec<Open> = pushed.chain(std::mem::take(&mut self.started).into_values()).collect();
        left.sort_by_key(|open| open.begin);
        left.iter().for_each(|open| write(open, now, false, domains, file));
    }
}

fn write(open: &Open, end: i64, has_ended: bool, domains: &[String], file: &mut TraceFile) {
    let args = |out: &mut Vec<u8>| push_args(out, &open.label, open.domain, has_ended, domains);
    file.slice("user_annotation", &open.label.message, TrackRow::Thread(open.thread), (open.begin, end), args);
}

fn push_args(out: &mut Vec<u8>, label: &Label, domain: u32, has_ended: bool, domains: &[String]) {
    let start = out.len();
    if let Some(name) = (domain as usize).checked_sub(1).and_then(|at| domains.get(at)) {
        out.extend_from_slice(b",\"domain\":");
        push_text(out, name);
    }
    let _ = match label.payload {
        Some(Payload::Unsigned(value)) => write!(out, ",\"payload\":{value}"),
        Some(Payload::Signed(value)) => write!(out, ",\"payload\":{value}"),
        Some(Payload::Float(value)) if value.is_finite() => write!(out, ",\"payload\":{value}"),
        _ => Ok(()),
    };
    if !has_ended {
        out.extend_from_slice(b",\"unfinished\":true");
    }
    // The first comma.
    if out.len() > start {
        out.remove(start);
    }
}
