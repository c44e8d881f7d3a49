//! From traces to the report: asks the analyses and puts the traces on one clock.

use super::keys::{
    Annotation, Api, Clock, Copies, Cut, Device, Events, File, FileClock, Kernel, Operator, Problem, Report, SCHEMA,
    Work,
};
use super::memory::memories;
use crate::analysis::annotations::{AnnotationTotals, annotations};
use crate::analysis::busy::{self, DeviceBusy, WorkTotals};
use crate::analysis::calls::{CallSort, calls};
use crate::analysis::clock;
use crate::analysis::copies::{CopyTotals, copies};
use crate::analysis::kernels::{KernelTotals, KernelsBy, kernels};
use crate::analysis::operators::{OperatorTotals, operators};
use crate::analysis::totals::{Durations, Group, Scope};
use crate::cli::input;
use crate::model::{SliceKind, TimeRange, Trace};

/// The report of these traces, with lists of at most `top` rows; 0 keeps all.
///
/// * `by`: what makes two kernels one row.
/// * `by_shape`: whether operators with different input shapes are told apart.
pub fn report(traces: &[&Trace], top: usize, by: KernelsBy, by_shape: bool) -> Report {
    let (clock, span) = clock(traces);
    let placed = traces.iter().zip(&clock.per_file);
    let memory = placed.flat_map(|(trace, clock)| memories(trace, clock.offset_ns, top)).collect();
    let scope = Scope::whole(traces);
    let api = |group: Group<(String, SliceKind)>| api(group.key.0, group.durations);
    Report {
        schema: SCHEMA,
        lacuna: env!("CARGO_PKG_VERSION"),
        files: traces.iter().map(|trace| file(trace)).collect(),
        clock,
        span_ns: [span.start, span.end],
        devices: traces.iter().flat_map(|trace| devices(trace)).collect(),
        operators: Cut::new(operators(traces, by_shape).into_iter().map(operator), top),
        kernels: Cut::new(kernels(&scope, by).into_iter().map(kernel), top),
        copies: Cut::new(copies(&scope, false).iter().map(copy), top),
        apis: Cut::new(calls(&scope, CallSort::Api).into_iter().map(api), top),
        os_calls: Cut::new(calls(&scope, CallSort::Os).into_iter().map(api), top),
        annotations: Cut::new(annotations(&scope).into_iter().map(annotation), top),
        memory,
    }
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
        format: trace.info.format.key(),
        bytes: trace.info.bytes,
        producer: trace.info.producer.clone(),
        rank: trace.info.rank,
        events: Events { read: import.read, shown: import.shown, merged: import.merged, rejected: import.rejected },
        tables: import.tables.clone(),
        problems: import.problems.iter().map(problem).collect(),
    }
}

/// On which clock the report's times are, and how each trace came onto it.
fn clock(traces: &[&Trace]) -> (Clock, TimeRange) {
    let placed = clock::clock(traces);
    let per_file = traces.iter().zip(&placed.placed).map(|(trace, place)| FileClock {
        path: input::label(trace),
        offset_ns: place.offset,
        source: place.source.key(),
    });
    (Clock { origin_utc_ns: placed.origin_utc_ns(), per_file: per_file.collect() }, placed.span)
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
        graphs: (busy.graphs.count > 0).then(|| work(busy.graphs)),
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

fn kernel(totals: KernelTotals) -> Kernel {
    let Durations { calls, total_ns, mean_ns, median_ns, min_ns, max_ns, std_ns } = totals.durations;
    let launch = totals.launch;
    Kernel {
        name: totals.name,
        calls,
        total_ns,
        mean_ns,
        min_ns,
        max_ns,
        median_ns,
        std_ns,
        share: totals.share,
        grid: launch.map(|launch| launch.grid),
        block: launch.map(|launch| launch.block),
        registers: launch.map(|launch| launch.registers_per_thread),
        shared_bytes: launch.map(|launch| launch.shared_bytes),
        occupancy: totals.occupancy,
        recorded_occupancy: totals.recorded_occupancy,
        rank: totals.place.rank,
        device: totals.place.device,
    }
}

fn copy(totals: &CopyTotals) -> Copies {
    Copies {
        kind: totals.kind.label(),
        count: totals.durations.calls,
        total_ns: totals.durations.total_ns,
        bytes: totals.bytes,
        gb_per_s: totals.gb_per_s,
        pageable: totals.is_pageable,
    }
}

fn api(name: String, durations: Durations) -> Api {
    let Durations { calls, total_ns, mean_ns, max_ns, .. } = durations;
    Api { name, calls, total_ns, mean_ns, max_ns }
}

fn annotation(totals: AnnotationTotals) -> Annotation {
    let has_work = totals.launches > 0;
    Annotation {
        name: totals.name,
        domain: totals.domain,
        calls: totals.durations.calls,
        total_ns: totals.durations.total_ns,
        device_ns: has_work.then_some(totals.projected_ns),
        device_busy_ns: has_work.then_some(totals.busy_ns),
        launches: totals.launches,
    }
}
