//! Phases and findings about time: the parts `phases`, `summary`, `checks` and `findings` of the report.

use std::cmp::Reverse;
use std::sync::Arc;

use super::keys::Report;
use crate::analysis::collectives::ranks::{RankCalls, RankOf, RankTotals};
use crate::analysis::content::worked;
use crate::analysis::gaps::clusters::counted_boundaries;
use crate::analysis::phases::{Phase, PhaseTimes, Phases};
use crate::analysis::rules::{Basis, Thresholds, Window};
use crate::analysis::steps::Steps;
use crate::analysis::totals::Scope;
use crate::answers::Answers;
use crate::answers::findings::TracePhases;
use crate::answers::ranks::{AllVerdicts, CallsOfRanks};
use crate::answers::time::{BusyDevices, TraceSteps};
use crate::cli::{Failure, input};
use crate::figures::Table;
use crate::figures::collectives::{RankRow, ranks_of_jobs, unknown_of_ranks};
use crate::figures::functions::{self, Function};
use crate::figures::in_short;
use crate::figures::makeup::{self, Summary};
use crate::figures::phases::{self, PhaseTotals};
use crate::figures::steps::is_same;
use crate::figures::verdicts::{self, Checked, Judged, JudgedTime};
use crate::model::memory::MemorySource;
use crate::model::{DurNs, TimeRange, Trace};
use crate::session::{OpenTrace, is_named};

/// Adds phases, ranks, and what the rules found; returns it in short, a paragraph each.
///
/// * `files`: the title of each trace that its rank does not distinguish.
/// * `top`: most functions; 0 for all.
///
/// Errors: an analysis crashed, as stderr says.
pub fn add(
    report: &mut Report,
    traces: &[OpenTrace],
    files: &[Option<Arc<str>>],
    answers: &Answers,
    thresholds: Thresholds,
    top: usize,
) -> Result<Vec<String>, Failure> {
    let failed = || Failure::Usage("The trace could not be analyzed. Please report it".to_owned());
    let paths: Vec<String> = traces.iter().map(|open| input::label(&open.trace)).collect();
    let steps = vec![TraceSteps::default(); traces.len()];
    let verdicts = answers.get(traces, &AllVerdicts { steps, thresholds, range: None }).ok_or_else(failed)?;
    let judged = traces.iter().zip(files).zip(&paths).zip(&*verdicts);
    let judged: Vec<Judged<'_>> = judged
        .enumerate()
        .map(|(i, (((open, name), path), verdicts))| {
            // A snapshot of memory beside a trace has no device that could be meant.
            let name = name.as_deref().filter(|_| is_named(traces, i));
            Judged { trace: &open.trace, name, path, offset: open.offset, verdicts }
        })
        .collect();
    let (mut rows, mut checked, mut windows, mut all_steps) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for ((open, file), verdicts) in traces.iter().zip(files).zip(&*verdicts) {
        let steps = answers.get(&open.trace, &TraceSteps::default()).ok_or_else(failed)?;
        let phases = answers.get(&open.trace, &TracePhases).ok_or_else(failed)?;
        rows.extend(phase_totals((&open.trace, file), &phases, (*steps).as_ref(), &verdicts.windows));
        checked.extend(Checked::all(verdicts, &open.trace, &thresholds));
        all_steps.push((steps, answers.get(&open.trace, &BusyDevices).ok_or_else(failed)?));
    }
    for (((open, file), verdicts), (steps, busy)) in traces.iter().zip(files).zip(&*verdicts).zip(&all_steps) {
        let (rank, offset) = (open.trace.info.rank, open.offset);
        let (file, steps, recorded) = (file.as_deref(), (**steps).as_ref(), worked(&open.trace));
        let busy_of = |window: &Window| busy.iter().find(|busy| Some(busy.device) == window.device);
        let judged = |window| JudgedTime { file, rank, window, steps, busy: busy_of(window), recorded, offset };
        windows.extend(verdicts.windows.iter().map(judged));
    }
    let summaries: Vec<Summary<'_>> = judged.iter().flat_map(Summary::all).collect();
    let (title, note) = (title_of_phases(&rows), note_of_phases(&rows, &windows));
    let models: Vec<&Trace> = traces.iter().map(|open| &*open.trace).collect();
    report.phases = phases::phases(Scope::whole(&models).has_device_work()).table(rows, 0);
    report.phases.title = title;
    report.phases.note = note;
    let all = traces.iter().zip(files).zip(&*verdicts);
    let mut of_hosts: Vec<Function<'_>> = all
        .filter_map(|((open, file), of)| {
            Some(Function::all(of.self_times.as_ref()?, file.as_ref(), open.trace.info.rank))
        })
        .flatten()
        .collect();
    of_hosts.sort_by_key(|function| Reverse(function.of.self_ns));
    report.functions = functions::functions().table(of_hosts, top);
    let mut self_times = verdicts.iter().filter_map(|of| of.self_times.as_ref());
    if self_times.any(|times| times.n_waiting > 0) {
        report.functions.note = "Without threads that do little but wait";
    }
    report.checks = verdicts::checks().table(checked, 0);
    report.judged = verdicts::judged().table(windows, 0);
    report.ranks = ranks(&*answers.get(traces, &CallsOfRanks).ok_or_else(failed)?, files);
    report.causes = makeup::causes().table(summaries.iter().flat_map(Summary::causes).collect::<Vec<_>>(), 0);
    report.summary = makeup::summary().table(summaries, 0);
    report.findings.extend(verdicts::findings(&judged, &thresholds).into_iter().map(|(_, finding)| finding));
    Ok(in_short::paragraphs(&judged))
}

/// The ranks that were compared, those for which the others waited most first.
fn ranks(calls: &RankCalls, files: &[Option<Arc<str>>]) -> Table {
    let row = |(of, totals): (&RankOf, RankTotals)| RankRow {
        file: files[of.trace as usize].clone(),
        of: *of,
        totals,
        n_ranks: calls.n_ranks(of.job),
    };
    let mut rows: Vec<RankRow> = calls.ranks.iter().zip(calls.totals(|_| true)).map(row).collect();
    rows.sort_by_key(|row| (row.of.job, Reverse(row.totals.waited_for_ns), row.of.rank));
    let note = unknown_of_ranks(&rows);
    let mut table = ranks_of_jobs().table(rows, 0);
    table.note = note;
    table
}

/// The phases of the judged steps, or of the whole trace; none if the recording names no phase. Steps of a host without
/// a device are those that its findings are of: from the start of one to that of the next.
fn phase_totals(
    (trace, file): (&Trace, &Option<Arc<str>>),
    phases: &Phases,
    steps: Option<&Steps>,
    windows: &[Window],
) -> Vec<PhaseTotals> {
    let of_host = windows.iter().find(|window| window.device.is_none() && window.basis == Basis::Steps);
    let of_host = of_host.map(|window| window.steps.clone());
    let steps = of_host.or_else(|| steps.map(times_of_steps)).unwrap_or_default();
    let n_steps = steps.len();
    let times = if steps.is_empty() { vec![worked(trace)] } else { steps };
    // Of a memory snapshot only annotations would count, which seldom name more than an optimizer's step: its passes,
    // as stacks tell them, are of allocations and no times.
    let is_snapshot = trace.memories.iter().any(|memory| memory.source == MemorySource::Snapshot);
    if phases.is_empty() || is_snapshot {
        return Vec::new();
    }
    let sum = |of: &[PhaseTimes]| {
        let phase = |phase: Phase| of.iter().map(|times| times[phase as usize]).sum::<DurNs>();
        Phase::ALL.map(phase)
    };
    let host = sum(&times.iter().map(|&time| phases.within(time)).collect::<Vec<_>>());
    let is_named = |phase: &Phase| !matches!(phase, Phase::Other | Phase::Waiting);
    if Phase::ALL.iter().filter(|phase| is_named(phase)).all(|&phase| host[phase as usize] == 0) {
        return Vec::new();
    }
    let device = sum(&phases.device(trace, &times));
    let row = |phase: Phase| PhaseTotals {
        file: file.clone(),
        rank: trace.info.rank,
        phase,
        total_ns: host[phase as usize],
        window_ns: host.iter().sum(),
        n_steps,
        device_ns: device[phase as usize],
    };
    Phase::ALL.into_iter().map(row).collect()
}

/// Of which time the phases are.
fn title_of_phases(rows: &[PhaseTotals]) -> &'static str {
    let has_steps = |row: &PhaseTotals| row.n_steps > 0;
    match (rows.iter().all(has_steps), rows.iter().any(has_steps)) {
        (true, _) => "Phases, in the judged steps",
        (false, true) => "Phases, in the judged steps; of files without steps, in the whole recording",
        (false, false) => "Phases, in the whole recording",
    }
}

/// What a step of phases is, where the judged time is of another extent.
fn note_of_phases(rows: &[PhaseTotals], windows: &[JudgedTime<'_>]) -> &'static str {
    let is_other = |row: &PhaseTotals| {
        let mut of_steps = windows.iter().filter(|judged| judged.window.basis == Basis::Steps);
        let own = |judged: &JudgedTime<'_>| judged.rank == row.rank && judged.file == row.file.as_deref();
        row.n_steps > 0 && of_steps.any(|judged| own(judged) && !is_same(judged.window.time.dur(), row.window_ns))
    };
    match rows.iter().any(is_other) {
        true => {
            "A step lasts here as long as its own range. The judged time is another: that of a device, from its \
             completion of one step to that of the next"
        }
        false => "",
    }
}

/// The times of the judged steps on the host, disjoint and ascending. Those that have ranges of their own are as long as these:
/// what runs between two of them belongs to none.
fn times_of_steps(steps: &Steps) -> Vec<TimeRange> {
    let own = steps.times.get(steps.used.clone()).unwrap_or_default();
    if !own.is_empty() && own.windows(2).all(|pair| pair[0].end <= pair[1].start) {
        return own.to_vec();
    }
    counted_boundaries(steps).windows(2).map(|pair| TimeRange { start: pair[0], end: pair[1] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::phases::phases;
    use crate::analysis::steps::marked;
    use crate::model::{SliceKind, TraceBuilder};

    #[test]
    fn that_phases_are_of_another_time_than_the_judged_one_is_said() {
        let window =
            |dur: DurNs, basis| Window { time: TimeRange { start: 5, end: 5 + dur }, basis, ..Window::default() };
        let is_said = |n_steps, window: &Window| {
            let (recorded, phase) = (window.time, Phase::Forward);
            let (total_ns, window_ns, device_ns) = (7, 9_000_000, 0);
            let row = PhaseTotals { file: None, rank: Some(3), phase, total_ns, window_ns, n_steps, device_ns };
            let (steps, busy, offset) = (None, None, 0);
            let of = |rank| JudgedTime { file: None, rank, window, steps, busy, recorded, offset };
            [Some(3), Some(4)].map(|rank| !note_of_phases(std::slice::from_ref(&row), &[of(rank)]).is_empty())
        };
        assert_eq!(is_said(2, &window(9_000_100, Basis::Steps)), [true, false]);
        assert_eq!(is_said(2, &window(9_000_003, Basis::Steps)), [false, false], "no digit differs");
        assert_eq!(is_said(0, &window(9_000_100, Basis::Work)), [false, false], "phases of the whole recording");
    }

    #[test]
    fn time_between_steps_is_of_no_step() {
        let note = |name, start, end| ("main", SliceKind::Annotation, name, start, end);
        let slices = [note("forward", 10, 50), note("backward", 60, 300), note("forward", 520, 560)];
        let trace = TraceBuilder::from_slices(&slices).finish();
        let phases = phases(&trace, &|| false);
        let mut tiling = marked(&[0, 500, 1_000]).unwrap();
        let times = vec![TimeRange { start: 0, end: 100 }, TimeRange { start: 500, end: 600 }];
        let mut apart = tiling.clone();
        apart.times = times;
        let of = |steps: Option<&Steps>, windows: &[Window]| {
            let rows = phase_totals((&trace, &None), &phases, steps, windows);
            assert_eq!(rows.iter().map(|row| row.total_ns).sum::<i64>(), rows[0].window_ns);
            let is_whole = title_of_phases(&rows) == "Phases, in the whole recording";
            assert_eq!(is_whole, steps.is_none(), "{}", title_of_phases(&rows));
            let of = |phase| rows.iter().find(|row| row.phase == phase).unwrap().total_ns;
            (rows[0].window_ns, rows[0].n_steps, of(Phase::Forward), of(Phase::Backward))
        };
        assert_eq!(of(Some(&apart), &[]), (200, 2, 90, 40));
        // Without a device they are those that are judged.
        let judged = vec![TimeRange { start: 0, end: 500 }, TimeRange { start: 500, end: 1_000 }];
        let host = Window { basis: Basis::Steps, steps: judged, ..Window::default() };
        assert_eq!(of(Some(&apart), std::slice::from_ref(&host)), (1_000, 2, 90, 240));
        assert_eq!(of(Some(&apart), &[Window { device: Some(0), ..host }]), (200, 2, 90, 40));
        tiling.times.clear();
        assert_eq!(of(Some(&tiling), &[]), (1_000, 2, 90, 240));
        assert_eq!(of(None, &[]), (550, 0, 90, 240));
    }
}
