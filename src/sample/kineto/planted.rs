//! A planted run as Chrome trace JSON of the PyTorch profiler.

use std::fmt::Display;
use std::io::Write;

use super::emit::{Emit, Location};
use crate::sample::answer::EventsAnswer;
use crate::sample::planted::style::{AUTOGRAD, LOADER, MAIN, Style};
use crate::sample::planted::timeline::{Span, SpanKind, StreamWait, Timeline, UNRECORDED, Work, WorkKind};
use crate::sample::training::BASE_TIME_NS;

/// Writes the trace; returns how many events it holds.
///
/// Errors: the sink's.
pub fn write(style: &Style, timeline: &Timeline, sink: &mut dyn Write) -> std::io::Result<EventsAnswer> {
    let mut emit = Emit::default();
    for span in &timeline.spans {
        host(&mut emit, span);
    }
    for work in &timeline.works {
        device(&mut emit, style, work);
    }
    for wait in &timeline.waits {
        stream_wait(&mut emit, style, wait);
    }
    names(&mut emit, style);
    let runtime = if style.is_hip { "\"hip_runtime_version\": 60342131" } else { "\"cuda_runtime_version\": 12040" };
    let gpu = if style.is_hip { "AMD Instinct MI300X" } else { "NVIDIA A100-SXM4-80GB" };
    let devices: Vec<String> =
        (0..style.n_devices).map(|id| format!("{{\"id\": {id}, \"name\": \"{gpu}\", \"numSms\": 108}}")).collect();
    write!(
        sink,
        "{{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [{}],\n  {runtime},\n  \"with_stack\": \
         {},\n  \"baseTimeNanoseconds\": {BASE_TIME_NS},\n  \"traceEvents\": [{}\n  ]\n}}\n",
        devices.join(", "),
        i32::from(style.has_stack),
        emit.text
    )?;
    Ok(emit.counts)
}

fn host(emit: &mut Emit, span: &Span) {
    let Span { kind, ref name, tid, range, correlation, submits } = *span;
    let at = Location { pid: &MAIN, tid: &tid };
    match kind {
        SpanKind::Operator => emit.slice("cpu_op", name, at, range, "\"External id\": 1"),
        SpanKind::Annotation => emit.slice("user_annotation", name, at, range, "\"External id\": 1"),
        SpanKind::Frame => emit.slice("python_function", name, at, range, ""),
        SpanKind::Runtime | SpanKind::Driver => {
            let cat = if kind == SpanKind::Driver { "cuda_driver" } else { "cuda_runtime" };
            emit.slice(cat, name, at, range, &format!("\"cbid\": 1, \"correlation\": {correlation}"));
            if submits {
                emit.flow_start("ac2g", correlation, at, range.0);
            }
        }
        SpanKind::Overhead => emit.slice("overhead", name, Location { pid: &-1, tid: &0 }, range, ""),
        SpanKind::Os => {}
    }
}

fn device(emit: &mut Emit, style: &Style, work: &Work) {
    let Work { kind, name, device, range, correlation, node } = *work;
    let stream = style.stream(device);
    let cat = match kind {
        WorkKind::Kernel | WorkKind::Graph => "kernel",
        WorkKind::Upload { .. } | WorkKind::Download => "gpu_memcpy",
    };
    let more = match (cat, node) {
        ("gpu_memcpy", _) => ", \"bytes\": 4096".to_owned(),
        (_, 0) => ", \"grid\": [64, 1, 1], \"block\": [128, 1, 1]".to_owned(),
        (_, node) => {
            format!(", \"grid\": [64, 1, 1], \"block\": [128, 1, 1], \"graph id\": 3, \"graph node id\": {node}")
        }
    };
    let at = Location { pid: &device, tid: &stream };
    let args =
        format!("\"device\": {device}, \"context\": 1, \"stream\": {stream}, \"correlation\": {correlation}{more}");
    emit.slice(cat, name, at, range, &args);
    if correlation < UNRECORDED {
        emit.flow_end("ac2g", correlation, at, range.0);
    }
}

fn stream_wait(emit: &mut Emit, style: &Style, wait: &StreamWait) {
    let StreamWait { waiter, producer, range, correlation, record } = *wait;
    let (stream, other) = (style.stream(waiter), style.stream(producer));
    let args = format!(
        "\"cuda_sync_kind\": \"Stream Wait Event\", \"stream\": {stream}, \"correlation\": {correlation}, \"device\": \
         {waiter}, \"context\": 1, \"wait_on_stream\": {other}, \"wait_on_cuda_event_record_corr_id\": {record}, \"wait_on_cuda_event_id\": 5"
    );
    emit.slice("cuda_sync", "Stream Wait Event", Location { pid: &waiter, tid: &stream }, range, &args);
}

/// Names of processes and threads.
fn names(emit: &mut Emit, style: &Style) {
    let process = |emit: &mut Emit, pid: &dyn Display, labels: String| {
        let at = Location { pid, tid: &0 };
        emit.metadata("process_name", at, 0, ("name", &"\"python\""));
        emit.metadata("process_labels", at, 0, ("labels", &labels));
    };
    process(emit, &MAIN, "\"CPU\"".to_owned());
    for device in 0..style.n_devices {
        process(emit, &device, format!("\"GPU {device}\""));
        let at = Location { pid: &device, tid: &style.stream(device) };
        emit.metadata("thread_name", at, 0, ("name", &format!("\"stream {}\"", style.stream(device))));
    }
    for (tid, name) in [(MAIN, "python"), (AUTOGRAD, "pt_autograd_0"), (LOADER, "pt_data_pin")] {
        emit.metadata(
            "thread_name",
            Location { pid: &MAIN, tid: &tid },
            0,
            ("name", &format!("\"thread {tid} ({name})\"")),
        );
    }
}
