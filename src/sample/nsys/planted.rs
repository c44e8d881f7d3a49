//! A planted run as an export of Nsight Systems.

use std::path::Path;

use rusqlite::Connection;

use super::recorder::{
    CONTEXT_ID, DOMAIN, NCCL, Nsys, Nvtx, PUSH_POP, VM, global_pid, global_tid, short_name, versioned,
};
use super::schema::{
    ANALYSIS, CUDA_EVENT, GRAPH_TRACE, KERNEL, MEMCPY, OVERHEAD, PROCESSES, RUNTIME, SYNCHRONIZATION, Schema,
    THREAD_NAMES,
};
use super::tables::{Tables, row};
use super::{codes, export, facts, machine};
use crate::sample::answer::TablesAnswer;
use crate::sample::planted::style::{AUTOGRAD, LOADER, MAIN, Style};
use crate::sample::planted::timeline::{Span, SpanKind, StreamWait, Timeline, Work, WorkKind};
use crate::sample::training::{PID, Recorder as _};

/// The event that streams of different devices wait for.
const EVENT: i64 = 5;

/// Writes the export to `path`; returns the rows of its tables.
///
/// Errors: SQLite's.
pub fn write(schema: Schema, style: &Style, timeline: &Timeline, path: &Path) -> std::io::Result<TablesAnswer> {
    export(path, |connection| fill(connection, schema, style, timeline))
}

fn fill(connection: &Connection, schema: Schema, style: &Style, timeline: &Timeline) -> std::io::Result<TablesAnswer> {
    let mut nsys = Nsys::new(Tables::new(connection, schema.sql()));
    facts(&mut nsys, schema);
    codes(&mut nsys);
    machine(&mut nsys);
    nsys.insert(&PROCESSES, row![global_pid(PID), PID, "python3"]);
    for (tid, name) in [(MAIN, "python3"), (AUTOGRAD, "pt_autograd_0"), (LOADER, "pt_data_pin")] {
        let name = nsys.string(name);
        nsys.insert(&THREAD_NAMES, row![name, 20, global_tid(tid)]);
    }
    let start = timeline.spans.iter().map(|span| span.range.0).min().unwrap_or_default();
    let domain =
        Nvtx { start, event_type: DOMAIN, text: Some("NCCL".to_owned()), tid: global_tid(PID), ..Nvtx::default() };
    nsys.fact(Nvtx { domain: NCCL, ..domain });
    for span in &timeline.spans {
        host(&mut nsys, span);
    }
    for work in &timeline.works {
        device(&mut nsys, style, work);
    }
    for wait in &timeline.waits {
        stream_wait(&mut nsys, style, wait);
    }
    let end = timeline.spans.iter().map(|span| span.range.1).max().unwrap_or_default() + 1_000;
    nsys.insert(&ANALYSIS, row![VM, end, 0, end]);
    // Before the first millisecond is over, so that no metrics are written.
    nsys.end_step(0)?;
    let Nsys { tables, mut answer, .. } = nsys;
    answer.rows = tables.rows();
    Ok(answer)
}

fn host(nsys: &mut Nsys<'_>, span: &Span) {
    let Span { kind, ref name, tid, range, correlation, .. } = *span;
    let thread = global_tid(tid);
    match kind {
        SpanKind::Operator | SpanKind::Annotation => {
            let domain = if name.starts_with("nccl") { NCCL } else { 0 };
            let text_id = Some(nsys.string(name));
            nsys.range(name, range, Nvtx { event_type: PUSH_POP, tid: thread, text_id, domain, ..Nvtx::default() });
        }
        SpanKind::Runtime | SpanKind::Driver => {
            let is_driver = kind == SpanKind::Driver;
            let id = if is_driver { nsys.string(name) } else { nsys.string(&versioned(name)) };
            let row = row![range.0, range.1, i64::from(is_driver), thread, correlation as i64, id, 0];
            nsys.insert(&RUNTIME, row);
        }
        SpanKind::Os => nsys.os_call(name, tid, range),
        SpanKind::Overhead => {
            let name = nsys.string(name);
            nsys.insert(&OVERHEAD, row![range.0, range.1, thread, name, 0, 1 << 16]);
        }
        SpanKind::Frame => {}
    }
}

fn device(nsys: &mut Nsys<'_>, style: &Style, work: &Work) {
    let Work { kind, name, device, range: (start, end), correlation, node } = *work;
    let (device, stream, correlation) = (device as i64, style.stream(device), correlation as i64);
    let pid = global_pid(PID);
    match kind {
        WorkKind::Kernel => {
            let (full, short) = (nsys.string(name), nsys.string(short_name(name)));
            let node = (node > 0).then_some(1 << 32 | i64::from(node));
            #[rustfmt::skip]
            nsys.insert(
                &KERNEL,
                row![
                    start, end, device, CONTEXT_ID, stream, correlation, pid, full, short, 1, 0, 32, 64, 1, 1, 128, 1,
                    1, 0, 0, 0, 0, correlation, 0, node, 0, "",
                ],
            );
        }
        WorkKind::Graph => {
            nsys.insert(&GRAPH_TRACE, row![start, end, device, CONTEXT_ID, stream, correlation, pid, 1, 2]);
        }
        WorkKind::Upload { .. } | WorkKind::Download => {
            // Kinds of copies: 1 to the device, 2 from it. Of memory: 0 pageable, 1 pinned, 2 on the device.
            let [kind, from, to] = match kind {
                WorkKind::Upload { pageable } => [1, i64::from(!pageable), 2],
                _ => [2, 2, 0],
            };
            let row = row![start, end, device, CONTEXT_ID, stream, correlation, pid, 4096, kind, from, to, 1];
            nsys.insert(&MEMCPY, row);
        }
    }
}

fn stream_wait(nsys: &mut Nsys<'_>, style: &Style, wait: &StreamWait) {
    let StreamWait { waiter, producer, range, correlation, record } = *wait;
    let (stream, other) = (style.stream(waiter), style.stream(producer));
    let (pid, correlation) = (global_pid(PID), correlation as i64);
    nsys.insert(&CUDA_EVENT, row![producer as i64, CONTEXT_ID, other, EVENT, record as i64, pid]);
    let (start, end) = range;
    nsys.insert(&SYNCHRONIZATION, row![start, end, waiter as i64, CONTEXT_ID, stream, correlation, pid, 2, EVENT]);
}
