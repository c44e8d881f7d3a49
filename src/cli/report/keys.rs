//! The report as data. The keys of its lists are defined in [`crate::figures`].
//!
//! Times are integer nanoseconds on the session clock, shares lie between 0 and 1. What does not
//! apply is absent.

use std::borrow::Cow;

use serde::Serialize;

use crate::analysis::finding::Finding;
use crate::analysis::phases::Phase;
use crate::analysis::rules::Rule;
use crate::figures::findings::IMPORT_PROBLEM;
use crate::figures::verdicts::LACKS_EVENTS;
use crate::figures::{self, Cell, Object, Part, Table, compared_time, memory as parts};
use crate::model::TimeNs;

/// Version of the keys: goes up when one changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

/// Tables of busy and idle time, which a recording that lacks most of its events shows too idle.
const OF_IDLE_TIME: [&str; 9] =
    ["judged", "causes", "devices", "device_time", "gaps", "gap_classes", "top", "clusters", "hta_idle"];

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    pub schema: u32,
    /// Version of the program.
    pub lacuna: &'static str,
    pub files: Table,
    pub clock: Clock,
    /// From the first start to the last end of all traces, on the session clock.
    pub span_ns: [TimeNs; 2],
    pub devices: Table,
    pub gaps: Table,
    /// Only for traces of the PyTorch profiler, which HTA reads.
    pub hta_idle: Table,
    /// Of the trace with the longest steps; absent without steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Object>,
    pub operators: Table,
    pub kernels: Table,
    pub copies: Table,
    pub device_trace: Counted,
    pub collectives: Table,
    /// Only of several ranks that were recorded together.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub ranks: Table,
    pub apis: Table,
    /// Only where the recorder traced them.
    pub os_calls: Table,
    /// The same.
    pub libraries: Table,
    pub annotations: Table,
    pub range_kernels: Table,
    /// Only where the recording names phases.
    pub phases: Table,
    /// Only of recordings without device work.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub functions: Table,
    pub memory: Table,
    /// Only where another file is compared with.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub time_comparison: Table,
    /// The same.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub memory_comparison: Table,
    /// Only of memory timelines that hold no blocks.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub memory_timeline: Table,
    /// Only of logs of GPU metrics.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub gpu_readings: Table,
    /// The parts that JSON has inside others, for flat reports.
    #[serde(skip)]
    pub device_work: Table,
    #[serde(skip)]
    pub gap_classes: Table,
    #[serde(skip)]
    pub device_time: Table,
    #[serde(skip)]
    pub memory_in_short: Table,
    #[serde(skip)]
    pub growth: Table,
    #[serde(skip)]
    pub reserved_shares: Table,
    #[serde(skip)]
    pub outside: Table,
    #[serde(skip)]
    pub categories: Table,
    /// Steps of all traces.
    #[serde(skip)]
    pub step_times: Table,
    #[serde(skip)]
    pub step_list: Table,
    /// Worst first.
    pub findings: Vec<Finding>,
    /// How many more there are, problems of reading not counted.
    #[serde(skip)]
    pub n_more_findings: usize,
    /// What the rules measured, whatever they found.
    pub checks: Table,
    /// The time that they judged.
    pub judged: Table,
    /// What that time went into.
    pub summary: Table,
    /// The same in sentences, those of devices that are alike together, after one of the job.
    pub in_short: Table,
    /// Idle time by cause, which JSON has inside the summary.
    #[serde(skip)]
    pub causes: Table,
}

/// The first rows of a list, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counted {
    pub count: u64,
    pub list: Table,
}

/// Zero is the earliest start of all traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Clock {
    /// Nanoseconds from 1970 to zero, if every file says when it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin_utc_ns: Option<TimeNs>,
    pub per_file: Table,
}

impl Report {
    /// All parts for flat reports, those without rows included.
    #[expect(clippy::too_many_lines, reason = "one line for each part, twice")]
    pub fn tables(&self) -> Vec<Cow<'_, Table>> {
        use Cow::{Borrowed, Owned};
        // Names every field, so that a part without a place in this list does not compile.
        let Self {
            schema: _,
            lacuna: _,
            span_ns: _,
            findings,
            n_more_findings,
            phases,
            functions,
            checks,
            judged,
            summary: _,
            in_short,
            causes,
            files,
            clock,
            devices,
            device_work,
            kernels,
            operators,
            copies,
            device_trace,
            collectives,
            ranks,
            apis,
            os_calls,
            libraries,
            annotations,
            range_kernels,
            memory,
            time_comparison,
            memory_comparison,
            memory_timeline,
            gpu_readings,
            memory_in_short,
            growth,
            reserved_shares,
            outside,
            categories,
            device_time,
            gaps,
            gap_classes,
            hta_idle,
            steps: _,
            step_times,
            step_list,
        } = self;
        let [files, problems] = import_tables(files);
        // Import problems have a table of their own.
        let found: Vec<&Finding> = findings.iter().filter(|finding| finding.rule != IMPORT_PROBLEM).collect();
        let mut found = figures::findings::findings().table(found, 0);
        found.n_hidden = *n_more_findings;
        let mut all = vec![
            files,
            problems,
            Borrowed(in_short),
            Borrowed(memory_in_short),
            Owned(found),
            Borrowed(judged),
            Borrowed(causes),
            Borrowed(checks),
            Borrowed(&clock.per_file),
            Borrowed(devices),
            Borrowed(device_work),
            Borrowed(device_time),
            Borrowed(gaps),
            Borrowed(gap_classes),
            Owned(nested(gaps, &figures::gaps::gaps())),
            Owned(nested(gaps, &figures::gap_clusters::clusters())),
            Borrowed(hta_idle),
            Borrowed(step_times),
            Borrowed(step_list),
            Borrowed(kernels),
            Borrowed(operators),
            Borrowed(copies),
            Borrowed(&device_trace.list),
            Borrowed(collectives),
            Borrowed(apis),
            Borrowed(os_calls),
            Borrowed(libraries),
            Borrowed(annotations),
            Borrowed(range_kernels),
            Borrowed(phases),
            Borrowed(memory),
            Owned(nested(memory, &parts::oom())),
            Borrowed(growth),
            Borrowed(reserved_shares),
            Borrowed(categories),
        ];
        if !ranks.is_empty() {
            let collectives = all.iter().position(|table| table.key == "collectives").unwrap_or_default();
            all.insert(collectives, Borrowed(ranks));
        }
        if !functions.is_empty() {
            let phases = all.iter().position(|table| table.key == "phases").unwrap_or_default();
            all.insert(phases + 1, Borrowed(functions));
        }
        all.extend([memory_timeline, gpu_readings].into_iter().filter(|table| !table.is_empty()).map(Borrowed));
        if !time_comparison.is_empty() {
            all.push(Borrowed(time_comparison));
            all.extend(compared_times(time_comparison).map(Owned));
        }
        if !memory_comparison.is_empty() {
            all.push(Borrowed(memory_comparison));
            all.extend(comparison_lists(memory_comparison).map(Owned));
        }
        // Only beside a log of GPU metrics.
        all.extend((!outside.rows.is_empty()).then_some(Borrowed(outside)));
        all.extend(memory_lists(memory).map(Owned));
        debug_assert!(all.iter().all(|table| !table.key.is_empty()), "a part was not added to the report");
        all
    }

    /// The same for people: where the rules found nothing, what they checked in place of findings.
    pub fn tables_for_people(&self) -> Vec<Cow<'_, Table>> {
        let mut tables = self.tables();
        for problems in tables.iter_mut().filter(|table| table.key == "problems") {
            *problems = Cow::Owned(once_per_archive(problems));
        }
        let n_checks = self.checks.rows.len();
        if let Some(findings) =
            tables.iter_mut().find(|table| table.key == "findings" && table.is_empty() && n_checks > 0)
        {
            *findings = Cow::Owned(figures::findings::none().table([n_checks as u64], 0));
        }
        // The change by place counts such blocks.
        let is_from_before = |row| matches!(self.memory.cell(row, "start_allocated_bytes"), Cell::Bytes(1..));
        if (0..self.memory.rows.len()).any(is_from_before) {
            for gains in tables.iter_mut().filter(|table| table.key == "gains") {
                gains.to_mut().note = REPLACES;
            }
        }
        if self.has_backward_pass() {
            for annotations in tables.iter_mut().filter(|table| table.key == "annotations") {
                annotations.to_mut().note = OF_OWN_THREAD;
            }
        }
        for clusters in tables.iter_mut().filter(|table| table.key == "clusters") {
            let nothing_ends = |row| *clusters.cell(row, "ceiling_ns_per_step") == Cell::Ns(0);
            if (0..clusters.rows.len()).any(nothing_ends) {
                clusters.to_mut().note = NOTHING_ENDS;
            }
        }
        if self.lacks_events() {
            for table in tables.iter_mut().filter(|table| OF_IDLE_TIME.contains(&table.key)) {
                table.to_mut().note = LACKS_EVENTS;
            }
        }
        tables
    }

    /// Whether a backward pass was recognized, which a thread of autograd runs.
    fn has_backward_pass(&self) -> bool {
        let backward = Cell::name(Phase::Backward.key());
        let is_backward = |row| *self.phases.cell(row, "phase") == backward;
        let has_time = |row| matches!(self.phases.cell(row, "total_ns"), Cell::Ns(1..));
        (0..self.phases.rows.len()).any(|row| is_backward(row) && has_time(row))
    }

    /// Whether most events are missing from a file.
    fn lacks_events(&self) -> bool {
        let rule = Rule::IncompleteRecording.key();
        (0..self.checks.rows.len())
            .any(|row| matches!(self.checks.cell(row, "rule"), Cell::Text(key) if **key == *rule))
    }
}

/// What a gain is not, where blocks are from before the recording.
const REPLACES: &str = "A block that replaces one of equal size from before the recording is not more here";

/// Why a recurring gap has no bound on what ending it gains.
const NOTHING_ENDS: &str = "Of gaps without a figure of more steps nothing recorded shows what would end them: they are inside \
                            of CUDA graphs or between work that was queued, or no cause was recorded";

/// Of which work the time of annotations on a device is.
const OF_OWN_THREAD: &str = "On device: what the thread of the annotation launched; in the backward pass autograd's \
                             thread launches, and Phases has its time";

/// Memory by place and by stack.
fn memory_lists(memory: &Table) -> [Table; 7] {
    [
        nested(memory, &parts::leaks()),
        nested(memory, &parts::no_leaks()),
        nested(memory, &parts::gains()),
        nested(memory, &parts::by_place()),
        nested(memory, &parts::change_by_place()),
        nested(memory, &parts::peak_by_stack()),
        nested(memory, &parts::live_at_end()),
    ]
}

/// Event counts of each file, and the problems met.
pub fn import_tables(files: &Table) -> [Cow<'_, Table>; 2] {
    [Cow::Borrowed(files), Cow::Owned(nested(files, &figures::files::problems()))]
}

/// What is compared of time.
fn compared_times(comparison: &Table) -> [Table; 4] {
    [
        nested(comparison, &compared_time::compared_times()),
        nested(comparison, &compared_time::compared_work()),
        nested(comparison, &compared_time::compared_functions()),
        nested(comparison, &compared_time::compared_operators()),
    ]
}

/// What is compared of memory.
fn comparison_lists(comparison: &Table) -> [Table; 4] {
    [
        nested(comparison, &parts::compared_amounts()),
        nested(comparison, &parts::compared_categories()),
        nested(comparison, &parts::compared_places()),
        nested(comparison, &parts::compared_stacks()),
    ]
}

/// Import problems, with those that are the same in several files of one archive as one row, with their number.
fn once_per_archive(problems: &Table) -> Table {
    let place = |key: &str| problems.columns.iter().position(|column| column.key == key);
    let all = [place("severity"), place("count"), place("first_offset"), place("reason"), place("path")];
    let [Some(severity), Some(count), Some(offset), Some(reason), Some(path)] = all else { return problems.clone() };
    let archive = |row: &[Cell]| match &row[path] {
        Cell::Text(path) => path.split_once(": ").map(|(archive, _)| archive.to_owned()),
        _ => None,
    };
    let mut rows: Vec<(Vec<Cell>, Option<String>, usize)> = Vec::new();
    for row in &problems.rows {
        let of = archive(row);
        let is_same = |other: &&mut (Vec<Cell>, Option<String>, usize)| {
            of.is_some() && other.1 == of && other.0[severity] == row[severity] && other.0[reason] == row[reason]
        };
        match (rows.iter_mut().find(is_same), &row[count]) {
            (Some((same, of, n)), Cell::Count(more)) => {
                *n += 1;
                same[offset] = Cell::Empty;
                same[path] = Cell::name(&format!("{} ({n} files)", of.as_deref().unwrap_or_default()));
                if let Cell::Count(count) = &mut same[count] {
                    *count = count.saturating_add(*more);
                }
            }
            _ => rows.push((row.clone(), of, 1)),
        }
    }
    let mut once = problems.clone();
    once.rows = rows.into_iter().map(|(row, ..)| row).collect();
    once
}

/// The lists of this part in all rows of `outer`, as one.
fn nested<R>(outer: &Table, part: &Part<R>) -> Table {
    let lists = (0..outer.rows.len()).filter_map(|row| match outer.cell(row, part.key) {
        Cell::List(list) => Some(&**list),
        _ => None,
    });
    part.joined(lists)
}
