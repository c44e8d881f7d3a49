//! The analyses behind the overview, computed in the background.

mod card;

use std::sync::Arc;

use self::card::cards;
pub use self::card::{Card, IdleCause};
use super::words;
use crate::analysis::breakdown::{Breakdown, breakdown};
use crate::analysis::busy::DeviceBusy;
use crate::analysis::finding::Finding;
use crate::analysis::gaps::clusters::{Clusters, GapCluster};
use crate::analysis::gaps::{GapClass, Ledger};
use crate::analysis::phases::Phase;
use crate::analysis::rules::{Cause, Rule, Thresholds, Verdicts, main_cause};
use crate::analysis::steps::Steps;
use crate::answers::findings::TracePhases;
use crate::answers::ranks::{AllVerdicts, RangeOfEach};
use crate::answers::time::{BusyDevices, GapClusters, Ledgers, TraceSteps};
use crate::answers::{Analysis, Work};
use crate::figures::in_short::paragraphs;
use crate::figures::steps::{left_out, left_out_text};
use crate::figures::text::{display_name, shortened};
use crate::figures::verdicts::{Checked, Judged, findings};
use crate::model::{DurNs, Row, SliceId, TimeNs, TimeRange};
use crate::session::{Files, OpenTrace, Selection, in_order, is_named, track_title};
use crate::view::states::how_to_record_gpu;

/// The most bars of a chart: of more steps, each bar is the mean of several.
const MAX_BARS: usize = 240;
/// The most clusters that are listed.
const MAX_CLUSTERS: usize = 12;
/// The longest name in a cluster's line, in characters.
const MAX_NAME: usize = 36;

/// Devices, findings and clusters of all traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Of each trace.
    pub steps: Vec<TraceSteps>,
    pub files: Files,
    /// Only this range of session time.
    pub range: Option<TimeRange>,
    pub thresholds: Thresholds,
}

#[derive(Debug)]
pub struct Summarized {
    pub cards: Vec<Card>,
    /// That there are none, and what to do.
    pub no_cards: [&'static str; 2],
    pub findings: Vec<Found>,
    /// What each device spends its time on.
    pub in_short: Vec<String>,
    /// Every rule that was applied: what it measured, and where findings begin.
    pub checks: Vec<String>,
    pub recurring: Recurring,
}

#[derive(Debug)]
pub struct Found {
    /// Index of its trace.
    pub trace: usize,
    pub finding: Finding,
    /// The trace, where several are open and the finding does not name it.
    pub of: Option<String>,
    pub place: Option<Seen>,
}

/// What shows a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Place(Place),
    /// A view of a memory: indices of the trace and of its memory, and the view.
    Memory {
        trace: usize,
        memory: usize,
        view: &'static str,
    },
}

/// Where something is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// In session time.
    pub time: TimeRange,
    /// The gap or the device work that it is. Nothing for a step or another stretch of time.
    pub selection: Selection,
}

/// The gaps that come back.
#[derive(Debug)]
pub struct Recurring {
    /// Those with most time per step, of traces without steps with most time in all.
    pub lines: Vec<ClusterLine>,
    /// How many there are, listed or not.
    pub n: usize,
    /// Whether some of those listed are of a trace without judged steps.
    pub lacks_steps: bool,
    /// Whether most events of a recording are missing of which some are listed.
    pub lacks_events: bool,
}

#[derive(Debug)]
pub struct ClusterLine {
    pub title: String,
    /// What it takes, and what ending it gains.
    pub numbers: String,
    /// Between what it lies, with short names and with whole ones.
    pub between: [String; 2],
    /// What would end most of it, and what went on meanwhile.
    pub cause: Cause,
    pub class: GapClass,
    pub place: Option<Place>,
}

/// The answers about one trace that the overview needs.
struct OfTrace {
    busy: Arc<Vec<DeviceBusy>>,
    ledgers: Arc<Vec<Ledger>>,
    clusters: Arc<Vec<Clusters>>,
    verdicts: Arc<Verdicts>,
    steps: Arc<Option<Steps>>,
    n_steps: usize,
    left_out: String,
}

impl Analysis for Summary {
    type Of = [OpenTrace];
    type Output = Summarized;
    const NAME: &'static str = "The overview";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Summarized> {
        let Self { steps, range, thresholds, files: _ } = self.clone();
        let ranges = match range {
            Some(range) => Some(work.get(of, &RangeOfEach { steps: steps.clone(), range })?),
            None => None,
        };
        let verdicts = work.get(of, &AllVerdicts { steps, range, thresholds })?;
        let mut all: Vec<OfTrace> = Vec::new();
        for ((open, steps), verdicts) in of.iter().zip(&self.steps).zip(&*verdicts) {
            let steps = steps.clone();
            let found = work.get(&open.trace, &steps)?;
            all.push(OfTrace {
                n_steps: (*found).as_ref().map_or(0, Steps::len),
                left_out: (*found).as_ref().map_or_else(String::new, left_out_text),
                busy: work.get(&open.trace, &BusyDevices)?,
                ledgers: work.get(&open.trace, &Ledgers { steps: steps.clone() })?,
                clusters: work.get(&open.trace, &GapClusters { steps })?,
                verdicts: Arc::clone(verdicts),
                steps: found,
            });
        }
        let paths: Vec<String> = of.iter().map(|open| open.trace.info.title()).collect();
        let judged: Vec<Judged<'_>> = (of.iter().zip(&paths).zip(&all))
            .enumerate()
            .map(|(i, ((open, path), all))| Judged {
                trace: &open.trace,
                name: has_file(of, i).then_some(&*open.name),
                path,
                offset: open.offset,
                verdicts: &all.verdicts,
            })
            .collect();
        let found = findings(&judged, &thresholds).into_iter().map(|(trace, finding)| {
            let time = finding.evidence.range_ns.map(|[start, end]| TimeRange { start, end });
            let place = time.map(|time| Place::of(trace, &of[trace], (&all[trace], finding.evidence.device), time));
            // Several ranks are open: what came late shows which one it is.
            let place = match finding.rule == Rule::LateRank.key() {
                true => place.map(|place| place.with_next_work(trace, &of[trace], &all[trace])),
                false => place,
            };
            Found { trace, place: place.map(Seen::Place), of: None, finding }
        });
        let found = found.filter(|found| self.files.has(found.trace)).collect();
        let order: Vec<usize> = in_order(of).into_iter().filter(|&i| self.files.has(i)).collect();
        let listed = || order.iter().map(|&i| (i, &of[i], &all[i]));
        let in_short = paragraphs(&order.iter().map(|&i| judged[i]).collect::<Vec<_>>());
        let range = |i: usize| ranges.as_ref().map(|ranges| ranges[i]);
        let cards = listed().flat_map(|(i, _, all)| cards(of, (i, range(i)), all)).collect();
        let checks = listed().flat_map(|(_, open, all)| Checked::all(&all.verdicts, &open.trace, &thresholds));
        let checks = checks.map(|check| check.text()).collect();
        let has_device = |&i: &usize| of[i].trace.processes.iter().any(|process| process.device.is_some());
        let no_cards = match self.range {
            Some(_) if order.iter().any(has_device) => ["No GPU work in the selected range", "Escape clears it"],
            _ if order.iter().any(|&i| of[i].trace.import.is_partial) => {
                ["No GPU work in what could be read", "A file ends early or is damaged: the Problems tab tells more"]
            }
            _ => ["No GPU work was recorded here", how_to_record_gpu(order.iter().map(|&i| &of[i].trace.info))],
        };
        Some(Summarized { cards, no_cards, findings: found, in_short, checks, recurring: recurring(of, listed()) })
    }
}

/// Whether sentences about a trace name its file: not where it is the only one that recorded what ran, nor where its
/// rank says which it is.
fn has_file(traces: &[OpenTrace], trace: usize) -> bool {
    let open = &traces[trace];
    // Of the same rank of two runs one has a number.
    let is_told_by_rank = open.trace.info.rank.is_some_and(|rank| *open.name == *format!("rank {rank}"));
    is_named(traces, trace) && !is_told_by_rank
}

/// The gaps that come back in some of the traces.
fn recurring<'a>(of: &'a [OpenTrace], listed: impl Iterator<Item = (usize, &'a OpenTrace, &'a OfTrace)>) -> Recurring {
    let of_device = |(trace, all): (usize, &'a OfTrace)| {
        let devices = all.clusters.iter().zip(&*all.ledgers);
        devices.flat_map(move |(clusters, ledger)| {
            clusters.recurring().map(move |cluster| (trace, all, (clusters, ledger), cluster))
        })
    };
    let mut found: Vec<_> = listed.flat_map(|(trace, _, all)| of_device((trace, all))).collect();
    found.sort_by_key(|(_, _, (clusters, _), cluster)| {
        std::cmp::Reverse((cluster.sum.ns_per_step(clusters.n_steps), cluster.sum.total_ns))
    });
    let n = found.len();
    found.truncate(MAX_CLUSTERS);
    let lacks_steps = found.iter().any(|(_, _, (clusters, _), _)| clusters.n_steps == 0);
    let lacks_events = found.iter().any(|(_, all, ..)| all.verdicts.run.missing.is_some());
    let line = |(trace, all, (clusters, ledger), cluster): (usize, &OfTrace, (&Clusters, &Ledger), &GapCluster)| {
        let open = &of[trace];
        let longest = clusters.gaps(cluster).iter().map(|&gap| ledger.time(gap as usize));
        let time = longest.max_by_key(|time| time.dur()).map(|time| time.shifted(open.offset));
        ClusterLine {
            title: track_title(of, trace, &open.trace.process(clusters.process).title()),
            numbers: words::numbers(clusters, cluster),
            between: [
                words::place(clusters, cluster, |name| shortened(name, MAX_NAME)),
                words::place(clusters, cluster, |name| display_name(name).into_owned()),
            ],
            cause: main_cause(&open.trace, ledger, (*all.steps).as_ref(), clusters.gaps(cluster)),
            class: cluster.class,
            place: time.map(|time| Place::of(trace, open, (all, Some(ledger.device)), time)),
        }
    };
    Recurring { lines: found.into_iter().map(line).collect(), n, lacks_steps, lacks_events }
}

impl Place {
    /// What a stretch of session time is: a gap of the device, or part of one; a piece of work that takes most of it;
    /// or neither.
    ///
    /// * `on`: answers of the trace, and the device by its recorded index if it is known.
    fn of(trace: usize, open: &OpenTrace, on: (&OfTrace, Option<u32>), time: TimeRange) -> Self {
        let own = time.shifted(open.offset.saturating_neg());
        let ledgers = || on.0.ledgers.iter().filter(|ledger| on.1.is_none_or(|device| device == ledger.device));
        let gap = ledgers().find_map(|ledger| {
            let gap = ledger.time(ledger.within(own).next()?);
            (gap.start <= own.start && own.end <= gap.end).then_some((ledger.process, gap))
        });
        if let Some((process, gap)) = gap {
            return Self { time: gap.shifted(open.offset), selection: Selection::Gap { trace, process, time: gap } };
        }
        let slices = &open.trace.slices;
        let is_on_device = |row: &&Row| {
            let process = open.trace.track(row.track).process;
            ledgers().any(|ledger| ledger.process == process)
        };
        let shared = |slice: SliceId| slices.time(slice).intersect(own).map_or(0, TimeRange::dur);
        // Of device work no row has two pieces that both take most of a time.
        let around = |row: &Row| {
            slices
                .window(row, own)
                .map(|slice| SliceId(slice as u32))
                .find(|&slice| slices.kind[slice.idx()].is_device_work() && shared(slice) > own.dur() / 2)
        };
        let most = slices.rows.iter().filter(is_on_device).filter_map(around).max_by_key(|&slice| shared(slice));
        match most.filter(|&slice| slices.time(slice).dur() <= own.dur().saturating_mul(2)) {
            Some(slice) => Self { time, selection: Selection::Slice { trace, slice } },
            None => Self { time, selection: Selection::None },
        }
    }
}

impl Place {
    /// Selects the work that began when its time ended.
    fn with_next_work(self, trace: usize, open: &OpenTrace, on: &OfTrace) -> Self {
        let slices = &open.trace.slices;
        let end = self.time.end - open.offset;
        let is_on_device = |row: &&Row| {
            let process = open.trace.track(row.track).process;
            on.ledgers.iter().any(|ledger| ledger.process == process)
        };
        let at_end = TimeRange { start: end, end: end + 1 };
        let began = |row: &Row| {
            let mut work = slices.window(row, at_end).map(|slice| SliceId(slice as u32));
            work.find(|&slice| slices.kind[slice.idx()].is_device_work() && slices.ts[slice.idx()] == end)
        };
        let next = slices.rows.iter().filter(is_on_device).find_map(began);
        Self { selection: next.map_or(self.selection, |slice| Selection::Slice { trace, slice }), ..self }
    }
}

/// The time of each step of each device, and of the phases of each host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepCharts {
    /// Of each trace.
    pub steps: Vec<TraceSteps>,
    pub files: Files,
}

/// The steps of one device or host.
#[derive(Debug)]
pub struct Chart {
    pub title: String,
    /// Index of its trace.
    pub trace: usize,
    /// How the steps were found.
    pub source: String,
    /// What the height of a bar is.
    pub length: &'static str,
    /// What each bar is made of.
    pub series: &'static [Series],
    pub bars: Vec<StepBar>,
    /// Steps of one bar.
    pub steps_per_bar: usize,
}

/// A part of all bars: label, and number of its color.
#[derive(Debug)]
pub struct Series(pub &'static str, pub usize);

/// A step, or the mean of several.
#[derive(Debug)]
pub struct StepBar {
    pub name: String,
    /// In session time.
    pub time: TimeRange,
    /// In nanoseconds, one for each series.
    pub parts: Vec<DurNs>,
    /// Of a device, how much of its idle time is before its first work or after its last.
    pub outside_ns: DurNs,
    /// Why it is not judged; empty if any of it is.
    pub left_out: String,
}

/// Parts of the time of a device, the lowest first.
pub const DEVICE: [Series; 4] =
    [Series("Compute", 0), Series("Exposed communication", 1), Series("Exposed copies", 2), Series("Idle", 3)];
/// What the bars sum to: those of a device that is still at work where the next step begins, those of the host and of a
/// device that has completed each step by then, and those of steps that were not recorded on the host.
const ON_DEVICE: &str = "from completion to completion on this device";
const ON_HOST: &str = "from start to start on the host";
const ELSEWHERE: &str = "from start to start";
/// Phases of the host in the order of [`Phase::ALL`].
pub const HOST: [Series; Phase::N] = [
    Series("Data loading", 2),
    Series("Forward", 0),
    Series("Backward", 4),
    Series("Optimizer", 5),
    Series("Copies", 6),
    Series("Communication", 1),
    Series("Waiting for the device", 7),
    Series("Other", 8),
];

/// Of a host of whose phases nothing tells.
const LENGTH: [Series; 1] = [Series("Step", 0)];

impl Analysis for StepCharts {
    type Of = [OpenTrace];
    type Output = Vec<Chart>;
    const NAME: &'static str = "The times of the steps";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Vec<Chart>> {
        let mut charts = Vec::new();
        for i in in_order(of).into_iter().filter(|&i| self.files.has(i)) {
            let (open, of_trace) = (&of[i], &self.steps[i]);
            let steps = work.get(&open.trace, of_trace)?;
            let Some(steps) = &*steps else { continue };
            for busy in &*work.get(&open.trace, &BusyDevices)? {
                let title = track_title(of, i, &open.trace.process(busy.process).title());
                let parts = |step| {
                    let Breakdown { compute_ns, exposed_comm_ns, exposed_copy_ns, idle_ns } = breakdown(busy, step);
                    vec![compute_ns, exposed_comm_ns, exposed_copy_ns, idle_ns]
                };
                let boundaries = steps.on(busy.process).device;
                if boundaries.len() == steps.boundaries.len() {
                    charts.push(chart(title, (steps, boundaries, Some(busy.window)), (i, open), &DEVICE, parts));
                }
            }
            let phases = work.get(&open.trace, &TracePhases)?;
            let has_devices = charts.iter().any(|chart: &Chart| chart.trace == i);
            let whole = (steps, &steps.boundaries[..], None);
            if !phases.is_empty() {
                let title = track_title(of, i, "Host phases");
                charts.push(chart(title, whole, (i, open), &HOST, |step| phases.within(step).to_vec()));
            } else if !has_devices {
                let title = track_title(of, i, "Host");
                charts.push(chart(title, whole, (i, open), &LENGTH, |step| vec![step.dur()]));
            }
        }
        Some(charts)
    }
}

/// * `boundaries`: the steps as what the chart is of sees them.
/// * `window`: of a device from its first to its last work.
fn chart(
    title: String,
    (steps, boundaries, window): (&Steps, &[TimeNs], Option<TimeRange>),
    (trace, open): (usize, &OpenTrace),
    series: &'static [Series],
    parts: impl Fn(TimeRange) -> Vec<DurNs>,
) -> Chart {
    let steps_per_bar = steps.len().div_ceil(MAX_BARS).max(1);
    let left_out = left_out(steps);
    let bar = |first: usize| {
        let last = (first + steps_per_bar).min(steps.len());
        let time = |of: &[TimeNs]| TimeRange { start: of[first], end: of[last] };
        let n = (last - first) as DurNs;
        let own = time(boundaries);
        let within = |window| own.intersect(window).map_or(0, |time| time.dur());
        let outside_ns = window.map_or(0, |window| own.dur() - within(window)) / n;
        let mut parts = parts(own);
        parts.iter_mut().for_each(|part| *part /= n);
        let name = if n == 1 {
            steps.names[first].clone()
        } else {
            format!("Mean of {} to {}", steps.names[first], steps.names[last - 1])
        };
        let time = steps.extents()[first].union(steps.extents()[last - 1]);
        let [before, after] = &left_out;
        let left_out = match (last <= steps.used.start, first >= steps.used.end) {
            (true, _) => before.clone().unwrap_or_default(),
            (_, true) => after.clone().unwrap_or_default(),
            _ => String::new(),
        };
        StepBar { name, time: time.shifted(open.offset), parts, outside_ns, left_out }
    };
    let bars = (0..steps.len()).step_by(steps_per_bar).map(bar).collect();
    let length = match boundaries == steps.boundaries {
        false => ON_DEVICE,
        true if steps.source.is_of_host() => ON_HOST,
        true => ELSEWHERE,
    };
    Chart { title, trace, source: steps.source.label(), length, series, bars, steps_per_bar }
}
