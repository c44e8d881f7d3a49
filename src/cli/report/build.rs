//! Builds the report: runs the analyses and places the traces on one clock.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::keys::{Clock, Counted, Report, SCHEMA};
use super::memory::Moment;
use super::{compared, memory, time};
use crate::analysis::annotations::annotations;
use crate::analysis::busy::DeviceBusy;
use crate::analysis::calls::{CallKind, calls};
use crate::analysis::clock;
use crate::analysis::collectives::collectives;
use crate::analysis::copies::copies;
use crate::analysis::device_work::{DeviceWork, device_work};
use crate::analysis::finding::Finding;
use crate::analysis::hta_idle::hta_idle;
use crate::analysis::kernels::{KernelTotals, KernelsBy, add_queue_times, kernels};
use crate::analysis::launches::WorkOfThreads;
use crate::analysis::libraries::libraries;
use crate::analysis::operators::operators;
use crate::analysis::range_kernels::range_kernels;
use crate::analysis::rules::Thresholds;
use crate::analysis::totals::{Instance, Scope};
use crate::answers::time::{BusyDevices, GapClusters, Ledgers, PartsOfSteps, TraceSteps};
use crate::answers::{Analysis, Answers};
use crate::cli::{Failure, input};
use crate::figures::devices::{self, Device, StreamIdle};
use crate::figures::files::{self, File, FileClock};
use crate::figures::gaps::{self, DeviceGaps};
use crate::figures::readings::{self, Readings};
use crate::figures::steps::{self, StepsOf};
use crate::figures::text::display_name;
use crate::figures::work::Work;
use crate::figures::{self, Table, findings, in_short, work};
use crate::model::{Format, Severity, TimeRange, Trace};
use crate::session::OpenTrace;

/// The report of these traces, with lists of at most `top` rows; 0 keeps all.
///
/// * `by`: what makes two kernels one row.
/// * `by_shape`: whether operators with different input shapes are separate rows.
/// * `thresholds`: of the rules about time.
/// * `moments`: where memory is listed by place besides peak and end.
/// * `base`: what time and memory are compared with, if anything.
///
/// Errors: an analysis crashed, as stderr says.
pub fn report(
    traces: &[Arc<Trace>],
    top: usize,
    by: KernelsBy,
    by_shape: bool,
    thresholds: Thresholds,
    (moments, base): (&[Moment], &[Arc<Trace>]),
) -> Result<Report, Failure> {
    let models: Vec<&Trace> = traces.iter().map(|trace| &**trace).collect();
    let (open, clock, span) = on_one_clock(traces);
    let offsets: Vec<i64> = open.iter().map(|open| open.offset).collect();
    let scope = Scope::whole(&models);
    let mut report = Report {
        schema: SCHEMA,
        lacuna: env!("CARGO_PKG_VERSION"),
        files: files(&models),
        clock,
        span_ns: [span.start, span.end],
        ..Report::default()
    };
    add_work(&mut report, &scope, by, by_shape, top);
    // Of what several parts ask for. It keeps every answer to the end, so the tables of work, each with all its
    // slices, stay out of it and come before it.
    let answers = Answers::default();
    let files_named = titles(&models);
    report.gpu_readings = gpu_readings(traces, &files_named);
    report.memory_timeline = memory::timeline(&open, &files_named);
    let memory_in_short = memory::add(&mut report, &open, &files_named, &answers, top, moments)?;
    compared::add(&mut report, &open, &files_named, base, &answers, thresholds, top)?;
    let parts_of_steps = parts_of_steps(&open, &answers, top)?;
    let found_steps: Vec<StepsOf<'_>> = open
        .iter()
        .zip(&files_named)
        .zip(&parts_of_steps)
        .filter_map(|(open, found)| steps_of(open, found, top))
        .collect();
    // A training is as fast as its slowest rank.
    let slowest = found_steps.iter().max_by_key(|of| of.steps.durations.map(|durations| durations.mean_ns));
    let in_short = time::add(&mut report, &open, &files_named, &answers, thresholds, top)?;
    let busy: Option<Vec<_>> = traces.iter().map(|trace| answers.get(trace, &BusyDevices)).collect();
    let busy = busy.ok_or_else(|| Failure::Usage("The devices could not be analyzed. Please report it".to_owned()))?;
    let of_file = models.iter().copied().zip(&files_named);
    let devices: Vec<Device<'_>> =
        of_file.zip(&busy).flat_map(|(of, all)| all.iter().map(move |busy| device(of, busy))).collect();
    let device_work: Vec<_> = devices.iter().flat_map(Device::work).collect();
    let device_time: Vec<_> = devices.iter().map(Device::time).collect();
    let stream_idle: Vec<_> = models.iter().flat_map(|trace| stream_idle(trace)).collect();
    report.device_work = devices::device_work().table(&device_work, 0);
    report.device_time = devices::device_time().table(&device_time, 0);
    report.hta_idle = devices::hta_idle().table(&stream_idle, 0);
    report.devices = devices::devices().table(devices, 0);
    (report.gaps, report.gap_classes) = gaps((traces, &files_named), &offsets, &answers, top)?;
    report.steps = slowest.map(steps::object);
    report.step_list = steps::list(slowest);
    report.step_times = steps::times(&found_steps);
    report.device_trace = device_trace(&models, &offsets, top);
    let found = std::mem::take(&mut report.findings);
    (report.findings, report.n_more_findings) = ranked(found, &models, top);
    let mut in_short = in_short::with_memory(in_short, &report.findings);
    if in_short.is_empty() {
        in_short = memory_in_short;
        // Nothing is said twice.
        report.memory_in_short.rows.clear();
    }
    report.in_short = in_short::in_short().table(in_short, 0);
    Ok(report)
}

/// The first `top` findings with those on the import, the most severe first, and how many more there are but those on
/// the import, which stand among the problems of their file too.
fn ranked(mut found: Vec<Finding>, models: &[&Trace], top: usize) -> (Vec<Finding>, usize) {
    for trace in models {
        let path = input::label(trace);
        // Notes lose nothing; they stand among the problems of their file.
        let lossy = trace.import.problems.iter().filter(|problem| problem.severity > Severity::Note);
        found.extend(lossy.map(|problem| findings::import_problem(problem, &path)));
    }
    found.sort_by_key(|finding| Reverse(finding.severity));
    let limit = if top == 0 { usize::MAX } else { top };
    let n_more = found.iter().skip(limit).filter(|one| one.rule != findings::IMPORT_PROBLEM).count();
    found.truncate(limit);
    (found, n_more)
}

/// The tables of slices by group.
fn add_work(report: &mut Report, scope: &Scope<'_>, by: KernelsBy, by_shape: bool, top: usize) {
    report.operators = work::operators(scope.has_device_work()).table(operators(scope, by_shape), top);
    let kernels = kernels_with_queue(scope, by, top);
    report.kernels = work::kernels(work::vendor(scope.traces, &kernels)).table(kernels, top);
    report.copies = work::copies().table(copies(scope, false), top);
    report.collectives = figures::collectives::collectives().table(collectives(scope, true), top);
    report.apis = work::apis().table(calls(scope, CallKind::Api), top);
    report.os_calls = work::os_calls().table(calls(scope, CallKind::Os), top);
    report.libraries = work::libraries().table(libraries(scope), top);
    let of_threads = WorkOfThreads::of(scope.traces);
    report.annotations = work::annotations().table(annotations(scope, &of_threads), top);
    let (rows, n_rows) = range_kernels(scope, &of_threads, top, false);
    report.range_kernels = work::range_kernels().table(&rows, 0);
    report.range_kernels.n_hidden = n_rows - rows.len();
}

/// The kernels; those that are shown with their queue times.
fn kernels_with_queue(scope: &Scope<'_>, by: KernelsBy, top: usize) -> Vec<KernelTotals> {
    let mut rows = kernels(scope, by);
    let n_shown = if top == 0 { rows.len() } else { top.min(rows.len()) };
    add_queue_times(scope.traces, &mut rows[..n_shown]);
    rows
}

/// The first device work, and how much there is.
fn device_trace(traces: &[&Trace], offsets: &[i64], top: usize) -> Counted {
    let DeviceWork { count, first } = device_work(traces, offsets, top);
    let row = |work: &Instance| {
        let index = work.trace as usize;
        Work { trace: traces[index], slice: work.slice, offset_ns: offsets[index] }
    };
    let mut list = work::device_work().table(first.iter().map(row), 0);
    list.n_hidden = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(first.len());
    Counted { count, list }
}

/// The parts `gaps` and `gap_classes`.
///
/// * `offsets`: of each trace on the clock of the report.
///
/// Errors: the analysis crashed, as stderr says.
fn gaps(
    (traces, files): (&[Arc<Trace>], &[Option<Arc<str>>]),
    offsets: &[i64],
    answers: &Answers,
    top: usize,
) -> Result<(Table, Table), Failure> {
    let found = traces.iter().map(|trace| {
        let steps = answers.get(trace, &TraceSteps::default())?;
        Some((answers.get(trace, &Ledgers::default())?, answers.get(trace, &GapClusters::default())?, steps))
    });
    let found = found.collect::<Option<Vec<_>>>();
    let found = found.ok_or_else(|| Failure::Usage("The gaps could not be analyzed. Please report it".to_owned()))?;
    let mut devices: Vec<DeviceGaps<'_>> = Vec::new();
    for (((trace, file), &offset), (ledgers, clusters, steps)) in traces.iter().zip(files).zip(offsets).zip(&found) {
        let steps = steps.as_ref().as_ref();
        let all = ledgers.iter().zip(&**clusters);
        devices.extend(all.map(|(ledger, clusters)| {
            DeviceGaps::new((trace, file.as_deref()), ledger, (clusters, steps), offset, top)
        }));
    }
    let classes: Vec<_> = devices.iter().flat_map(DeviceGaps::classes).collect();
    Ok((gaps::device_gaps().table(devices, 0), gaps::classes().table(&classes, 0)))
}

/// What logs of GPU metrics hold.
fn gpu_readings(traces: &[Arc<Trace>], files: &[Option<Arc<str>>]) -> Table {
    let n_logs = traces.iter().filter(|trace| trace.info.format == Format::GpuMetrics).count();
    let named = traces.iter().zip(files).map(|(trace, file)| (trace, file.as_ref().filter(|_| n_logs > 1)));
    let rows: Vec<Readings<'_>> = named.flat_map(|(trace, file)| Readings::all(trace, file)).collect();
    readings::readings().table(rows, 0)
}

/// The title of each trace whose rank another one has too, or which has none beside others; the path where another has
/// the same title.
fn titles(traces: &[&Trace]) -> Vec<Option<Arc<str>>> {
    let (mut of_rank, mut of_title) = (HashMap::new(), HashMap::new());
    let all: Vec<String> = traces.iter().map(|trace| trace.info.title()).collect();
    for (trace, title) in traces.iter().zip(&all) {
        *of_rank.entry(trace.info.rank).or_insert(0) += 1;
        *of_title.entry(title).or_insert(0) += 1;
    }
    let is_ranked = !of_rank.contains_key(&None);
    let title = |(trace, title): (&&Trace, &String)| {
        let is_ambiguous = traces.len() > 1 && !(is_ranked && of_rank[&trace.info.rank] == 1);
        let title = || if of_title[title] > 1 { input::label(trace) } else { title.clone() };
        is_ambiguous.then(|| display_name(&title()).into())
    };
    traces.iter().zip(&all).map(title).collect()
}

/// Counts of shown, merged and rejected events of each trace.
pub fn files(traces: &[&Trace]) -> Table {
    let paths: Vec<String> = traces.iter().map(|trace| input::label(trace)).collect();
    let rows = traces.iter().zip(&paths).map(|(trace, path)| File { trace, path });
    files::files().table(rows, 0)
}

/// The traces, each at its place on the clock of the report; that clock; and its span.
fn on_one_clock(traces: &[Arc<Trace>]) -> (Vec<OpenTrace>, Clock, TimeRange) {
    let mut open: Vec<OpenTrace> = traces.iter().map(|trace| OpenTrace::new(Arc::clone(trace), 0)).collect();
    let models: Vec<&Trace> = traces.iter().map(|trace| &**trace).collect();
    let clock = clock::clock(&models, &open.iter().map(|open| open.content).collect::<Vec<_>>());
    for (open, place) in open.iter_mut().zip(&clock.placed) {
        (open.offset, open.source, open.run) = (place.offset, place.source, place.run);
    }
    let paths: Vec<String> = models.iter().map(|trace| input::label(trace)).collect();
    let files = paths.iter().zip(&clock.placed);
    let rows = files.map(|(path, place)| FileClock { path, offset_ns: place.offset, source: place.source.key() });
    let per_file = files::clock().table(rows, 0);
    (open, Clock { origin_utc_ns: clock.origin_utc_ns(), per_file }, clock.span)
}

type Parts = <PartsOfSteps as Analysis>::Output;

fn parts_of_steps(traces: &[OpenTrace], answers: &Answers, top: usize) -> Result<Vec<Arc<Parts>>, Failure> {
    let parts = |open: &OpenTrace| {
        let found = answers.get(&open.trace, &PartsOfSteps { n: top, ..PartsOfSteps::default() });
        found.ok_or_else(|| Failure::Usage("The steps could not be analyzed. Please report it".to_owned()))
    };
    traces.iter().map(parts).collect()
}

fn steps_of<'a>((open, file): (&OpenTrace, &'a Option<Arc<str>>), found: &'a Parts, top: usize) -> Option<StepsOf<'a>> {
    let steps = found.0.as_ref().as_ref()?;
    Some(StepsOf {
        file: file.as_deref(),
        rank: open.trace.info.rank,
        steps,
        parts: &found.1,
        offset: open.offset,
        top,
    })
}

fn device<'a>((trace, file): (&'a Trace, &'a Option<Arc<str>>), busy: &'a DeviceBusy) -> Device<'a> {
    let info = trace.device_of_work(busy.device);
    Device { file: file.as_deref(), rank: trace.info.rank, name: info.map_or("", |info| &info.name), busy }
}

/// HTA reads no other format.
fn stream_idle(trace: &Trace) -> Vec<StreamIdle> {
    let all = if trace.info.format == Format::ChromeTrace { hta_idle(trace) } else { Vec::new() };
    all.into_iter().map(|idle| StreamIdle { rank: trace.info.rank, idle }).collect()
}
