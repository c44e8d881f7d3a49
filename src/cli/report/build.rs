//! From traces to the report: asks the analyses and puts the traces on one clock.

use std::collections::HashMap;

use super::keys::{
    Annotation, Api, Clock, Copies, Cut, Device, Events, File, FileClock, Kernel, Operator, Problem, Report, SCHEMA,
    Work,
};
use crate::analysis::busy::{self, DeviceBusy, WorkTotals};
use crate::analysis::clock;
use crate::analysis::operators::{self, OperatorTotals};
use crate::analysis::totals::{self, NameTotals};
use crate::cli::input;
use crate::model::{DurNs, SliceKind, TimeRange, Trace};

/// The report of these traces, with lists of at most `top` rows; 0 keeps all.
///
/// * `by_shape`: whether operators with different input shapes are told apart.
pub fn report(traces: &[&Trace], top: usize, by_shape: bool) -> Report {
    let (clock, span) = clock(traces);
    let by_name = |is_wanted, per_device| totals::by_name(traces, is_wanted, per_device);
    Report {
        schema: SCHEMA,
        lacuna: env!("CARGO_PKG_VERSION"),
        files: traces.iter().map(|trace| file(trace)).collect(),
        clock,
        span_ns: [span.start, span.end],
        devices: traces.iter().flat_map(|trace| devices(trace)).collect(),
        operators: Cut::new(operators::operators(traces, by_shape).into_iter().map(operator).collect(), top),
        kernels: Cut::new(by_name(|kind| kind == SliceKind::Kernel, true).into_iter().map(kernel).collect(), top),
        copies: Cut::new(totals::copies(traces).into_iter().map(copies).collect(), top),
        apis: Cut::new(by_name(is_api, false).into_iter().map(api).collect(), top),
        annotations: Cut::new(annotations(traces), top),
    }
}

fn is_api(kind: SliceKind) -> bool {
    matches!(kind, SliceKind::Runtime | SliceKind::Driver)
}

/// What became of one trace's events.
pub fn file(trace: &Trace) -> File {
    let import = &trace.import;
    let problem = |problem: &crate::model::Problem| Problem {
        severity: problem.severity,
        reason: problem.reason.clone(),
        count: problem.count,
        first_offset: problem.first_offset,
    };
    File {
        path: input::label(trace),
        format: trace.info.format,
        bytes: trace.info.bytes,
        producer: trace.info.producer.clone(),
        rank: trace.info.rank,
        events: Events { read: import.read, shown: import.shown, merged: import.merged, rejected: import.rejected },
        problems: import.problems.iter().map(problem).collect(),
    }
}

/// On which clock the report's times are, and how each trace came onto it.
fn clock(traces: &[&Trace]) -> (Clock, TimeRange) {
    let placed = clock::clock(traces);
    let source = if placed.origin_utc_ns.is_some() { "utc" } else { "start" };
    let files = traces.iter().zip(&placed.offsets);
    let per_file =
        files.map(|(trace, &offset_ns)| FileClock { path: input::label(trace), offset_ns, source }).collect();
    (Clock { origin_utc_ns: placed.origin_utc_ns, per_file }, placed.span)
}

fn devices(trace: &Trace) -> Vec<Device> {
    busy::devices(trace).iter().map(|busy| device(trace, busy)).collect()
}

fn device(trace: &Trace, busy: &DeviceBusy) -> Device {
    let info = trace.info.devices.iter().find(|info| info.id == busy.device);
    Device {
        rank: trace.info.rank,
        device: busy.device,
        name: info.map(|info| info.name.clone()).filter(|name| !name.is_empty()),
        window_ns: busy.window.dur(),
        busy_ns: busy.busy_ns,
        idle_ns: busy.idle_ns,
        utilization: busy.utilization(),
        kernels: work(busy.kernels),
        memcpys: work(busy.memcpys),
        memsets: work(busy.memsets),
        streams: busy.n_streams,
    }
}

fn work(totals: WorkTotals) -> Work {
    Work { count: totals.count, total_ns: totals.total_ns, union_ns: totals.union_ns }
}

fn operator(totals: OperatorTotals) -> Operator {
    let OperatorTotals { name, shapes, calls, host_bytes, device_bytes, .. } = totals;
    Operator {
        name,
        shape: shapes.filter(|shapes| !shapes.is_empty()),
        calls,
        host_total_ns: totals.host_total_ns,
        host_self_ns: totals.host_self_ns,
        device_total_ns: totals.device_total_ns,
        device_self_ns: totals.device_self_ns,
        host_mem_bytes: host_bytes,
        device_mem_bytes: device_bytes,
    }
}

fn kernel(totals: NameTotals) -> Kernel {
    let mean_ns = totals.mean_ns();
    let NameTotals { name, device, calls, total_ns, min_ns, max_ns, median_ns, .. } = totals;
    Kernel { name, calls, total_ns, mean_ns, min_ns, max_ns, median_ns, device }
}

fn copies(totals: totals::CopyTotals) -> Copies {
    let totals::CopyTotals { kind, pageable, count, total_ns } = totals;
    Copies { kind, count, total_ns, pageable }
}

fn api(totals: NameTotals) -> Api {
    let mean_ns = totals.mean_ns();
    let NameTotals { name, calls, total_ns, max_ns, .. } = totals;
    Api { name, calls, total_ns, mean_ns, max_ns }
}

/// Ranges that the person named, with the time they took on the device where it was recorded.
fn annotations(traces: &[&Trace]) -> Vec<Annotation> {
    let on_device = totals::by_name(traces, |kind| kind == SliceKind::GpuAnnotation, false);
    let on_device: HashMap<&str, DurNs> =
        on_device.iter().map(|totals| (totals.name.as_str(), totals.total_ns)).collect();
    let annotation = |totals: NameTotals| {
        let NameTotals { name, calls, total_ns, .. } = totals;
        let device_ns = on_device.get(name.as_str()).copied();
        Annotation { name, calls, total_ns, device_ns }
    };
    totals::by_name(traces, |kind| kind == SliceKind::Annotation, false).into_iter().map(annotation).collect()
}
