//! Figures of steps: how long they are, and what they were spent on.

use std::sync::Arc;

use super::{Cell, Column, Figure, Object, Part, Table, figures, format};
use crate::analysis::roles::{Role, RoleTimes};
use crate::analysis::steps::{DevicePart, StepParts, Steps};
use crate::analysis::totals::Durations;
use crate::model::{DurNs, TimeRange};

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRow {
    pub rank: Option<u32>,
    pub name: String,
    /// Session time.
    pub time: TimeRange,
    /// Whether statistics include it.
    pub is_used: bool,
    pub is_outlier: bool,
    /// What fills its range on the host.
    pub roles: RoleTimes,
    /// Whether that is the work of earlier steps, since the host runs ahead of the devices.
    pub is_behind: bool,
    /// By the index of each device.
    pub devices: Vec<(u32, DevicePart)>,
}

/// The steps of one trace.
#[derive(Clone, Copy, Debug)]
pub struct StepsOf<'a> {
    /// Title of the file, where its rank does not distinguish it.
    pub file: Option<&'a str>,
    pub rank: Option<u32>,
    pub steps: &'a Steps,
    pub parts: &'a StepParts,
    /// Offset from trace time to session time.
    pub offset: DurNs,
    /// Most steps of the list; 0 for all.
    pub top: usize,
}

impl StepsOf<'_> {
    /// One row per step. Cost: O(steps x devices).
    pub fn rows(&self) -> impl ExactSizeIterator<Item = StepRow> {
        let Self { rank, steps, parts, offset, .. } = *self;
        let row = move |(k, time): (usize, &TimeRange)| StepRow {
            rank,
            name: steps.names[k].clone(),
            time: time.shifted(offset),
            is_used: steps.used.contains(&k),
            is_outlier: steps.is_outlier(k),
            roles: parts.roles.get(k).copied().unwrap_or_default(),
            is_behind: steps.is_of_completions(),
            devices: parts
                .devices
                .iter()
                .filter_map(|(device, parts)| parts.get(k).map(|on| (*device, on)))
                .map(|(device, on)| (device, DevicePart { time: on.time.shifted(offset), ..*on }))
                .collect(),
        };
        steps.times.iter().enumerate().map(row)
    }

    fn durations(&self) -> Durations {
        self.steps.durations.unwrap_or_default()
    }

    /// Mean of the devices' GPU utilization; `None` without devices.
    fn utilization(&self) -> Option<f64> {
        let all = &self.parts.utilization;
        (!all.is_empty()).then(|| all.iter().map(|device| device.1).sum::<f64>() / all.len() as f64)
    }

    /// What the durations are of.
    fn measured(&self) -> &'static str {
        if self.steps.is_of_completions() { "device completion" } else { "step ranges" }
    }

    fn disagreement(&self) -> String {
        let other = self.steps.disagreement.as_ref();
        other.map(|(source, n)| format!("{n} by {}", source.label())).unwrap_or_default()
    }
}

impl StepRow {
    /// Empty where the device runs the work of earlier steps meanwhile.
    fn role(&self, role: Role) -> Cell {
        if self.is_behind { Cell::Empty } else { Cell::Ns(self.roles[role as usize]) }
    }

    /// Mean of a part over the devices.
    fn on_devices(&self, part: fn(&DevicePart) -> DurNs) -> Cell {
        let sum: DurNs = self.devices.iter().map(|(_, on)| part(on)).sum();
        let n = self.devices.len() as DurNs;
        if n == 0 { Cell::Empty } else { Cell::Ns(sum / n) }
    }
}

const USED: &[&str; 2] = &["no", "yes"];
const OUTLIER: &[&str; 2] = &["", "outlier"];

fn role_figures() -> Vec<Figure<StepRow>> {
    figures! { row: StepRow;
        number "kernel_ns", "Kernel", 76, row.role(Role::Kernel),
            "From the step's start to its end: kernels ran, other than of collectives";
        number "memcpy_ns", "+ Memcpy", 76, row.role(Role::Memcpy),
            "From the step's start to its end: copies ran, and no kernel";
        number "memset_ns", "+ Memset", 76, row.role(Role::Memset),
            "From the step's start to its end: memsets ran, and nothing of the columns before";
        number "communication_ns", "+ Comm.", 76, row.role(Role::Communication),
            "From the step's start to its end: collectives ran, or the host was in calls of them, and nothing of the \
             columns before ran";
        number "runtime_ns", "+ Runtime", 76, row.role(Role::Runtime),
            "The host was in calls of the CUDA or HIP API, and nothing of the columns before ran";
        number "dataloader_ns", "+ DataLoader", 96, row.role(Role::DataLoader),
            "The host was in a range that PyTorch names enumerate(DataLoader), or in the function around it, and \
             nothing of the columns before ran. Idle time by data loading, as in the timeline, is of any loader, and of the device only";
        number "cpu_exec_ns", "+ CPU", 76, row.role(Role::CpuExec),
            "The host was in operators or annotations, and nothing of the columns before ran";
        number "other_ns", "+ Other", 76, row.role(Role::Other),
            "Nothing of these was recorded. The parts from Kernel on sum to the duration, as in PyTorch's \
             TensorBoard plugin";
    }
}

/// Steps one by one.
pub fn step_list() -> Part<StepRow> {
    fn devices(row: &StepRow) -> Cell {
        let table = step_devices().table(&row.devices, 0);
        if table.is_empty() { Cell::Empty } else { Cell::List(Arc::new(table)) }
    }
    fn breakdown(row: &StepRow) -> Cell {
        let keys = "kernel_ns memcpy_ns memset_ns communication_ns runtime_ns dataloader_ns cpu_exec_ns other_ns";
        let part = Part::new("breakdown", "Parts", role_figures());
        // That of the TensorBoard plugin is of the range on the host in any case.
        Cell::Object(Box::new(part.object(&StepRow { is_behind: false, ..row.clone() }, keys)))
    }
    let figures = figures! { row: StepRow;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        words "name", "Step", 150, Cell::name(&row.name), "Name of the step";
        number "start_ns", "Start", 96, Cell::Ns(row.time.start), "Start time, from the start of the session";
        number "dur_ns", "Duration", 106, Cell::Ns(row.time.dur()),
            "How long it took, by what divides the recording into steps";
        words "is_outlier", "Outlier", 64, Cell::Flag(row.is_outlier, OUTLIER),
            "Its duration differs from the median by more than three scaled median deviations and a twentieth";
        words "is_used", "Used", 50, Cell::Flag(row.is_used, USED),
            "Whether statistics include it: not the first, which includes warm-up, nor the profiler's last, nor a last \
             piece below a tenth of the median, which is not a whole step";
        with role_figures();
        number "compute_ns", "Compute", 84, row.on_devices(|on| on.parts.compute_ns),
            "Devices: kernels other than of collectives ran";
        number "exposed_comm_ns", "+ Exposed comm.", 112, row.on_devices(|on| on.parts.exposed_comm_ns),
            "Devices: collectives ran while nothing computed";
        number "exposed_copy_ns", "+ Exposed copies", 116, row.on_devices(|on| on.parts.exposed_copy_ns),
            "Devices: copies ran while nothing computed or communicated";
        number "device_dur_ns", "On device", 106, row.on_devices(|on| on.time.dur()),
            "The time that the device took for the step, from the completion of the step before; of several devices \
             the mean";
        number "device_idle_ns", "+ Idle", 84, row.on_devices(|on| on.parts.idle_ns),
            "Devices: nothing ran, in the first and last step also before the first and after the last work of a \
             device, which is in no gap. The four parts sum to the time that the device took for the step; of several \
             devices it is their mean";
        words "breakdown", "Parts", 0, breakdown(row), "What filled the step, by priority";
        words "devices", "Devices", 0, devices(row), "The parts of the step on each device, which may lag behind the \
                                                      host";
    };
    Part::new("step_list", "Steps", figures)
        .window(
            "name start_ns dur_ns device_dur_ns is_outlier is_used kernel_ns memcpy_ns memset_ns communication_ns \
             runtime_ns dataloader_ns cpu_exec_ns other_ns compute_ns exposed_comm_ns exposed_copy_ns device_idle_ns",
        )
        .report(
            "rank name start_ns dur_ns device_dur_ns is_used kernel_ns memcpy_ns communication_ns runtime_ns \
             dataloader_ns cpu_exec_ns other_ns compute_ns exposed_comm_ns exposed_copy_ns device_idle_ns",
        )
        .json("name start_ns dur_ns is_used is_outlier breakdown devices")
}

/// The parts of a step on each device.
fn step_devices() -> Part<(u32, DevicePart)> {
    let figures = figures! { row: (u32, DevicePart);
        number "device", "Device", 58, Cell::Count(u64::from(row.0)), "Index of the device";
        number "start_ns", "Start", 96, Cell::Ns(row.1.time.start),
            "When the device had completed the work of the step before, from the start of the session";
        number "dur_ns", "Duration", 90, Cell::Ns(row.1.time.dur()), "From then until it had completed that of the \
            step";
        number "compute_ns", "Compute", 84, Cell::Ns(row.1.parts.compute_ns), "Kernels other than of collectives ran";
        number "exposed_comm_ns", "+ Exposed comm.", 112, Cell::Ns(row.1.parts.exposed_comm_ns),
            "Collectives ran while nothing computed";
        number "exposed_copy_ns", "+ Exposed copies", 116, Cell::Ns(row.1.parts.exposed_copy_ns),
            "Copies ran while nothing computed or communicated";
        number "idle_ns", "+ Idle", 84, Cell::Ns(row.1.parts.idle_ns), "Nothing ran";
    };
    Part::new("devices", "Devices", figures)
}

/// The steps of traces, one row each.
pub fn steps<'a>() -> Part<StepsOf<'a>> {
    fn list(of: &StepsOf<'_>) -> Cell {
        Cell::List(Arc::new(step_list().table(of.rows(), of.top)))
    }
    fn devices(of: &StepsOf<'_>) -> Cell {
        let table = step_utilization().table(&of.parts.utilization, 0);
        if table.is_empty() { Cell::Empty } else { Cell::List(Arc::new(table)) }
    }
    let figures = figures! { row: StepsOf<'a>;
        words "file", "File", 140, Cell::or_empty(row.file, Cell::name),
            "The file, where the rank is ambiguous";
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        words "source", "Steps by", 200, Cell::name(&row.steps.source.label()), "What divides the recording into steps";
        number "regularity", "Regularity", 80, Cell::Share(row.steps.regularity),
            "Share of steps about as long as the median; of a sequence, the share that repeats the one before";
        words "disagreement", "But", 200, Cell::text(&row.disagreement()), "What finds another number of steps";
        number "count", "Count", 60, Cell::Count(row.steps.len() as u64),
            "How many steps there are; those in what the program calls its warm-up are none";
        number "dropped", "Dropped", 64, Cell::Count((row.steps.len() - row.steps.used.len()) as u64),
            "Steps that the statistics leave out: the first, which includes warm-up, the profiler's last, and a last \
             piece below a tenth of the median, which is not a whole step";
        words "measured", "Measured by", 110, Cell::name(row.measured()),
            "What the durations are of: the ranges of the steps, or where the host runs ahead of the devices, from the \
             completion of one step on the slowest device to that of the next";
        number "mean_ns", "Mean", 84, Cell::Ns(row.durations().mean_ns),
            "Mean of the lengths of the steps themselves. What findings and gaps say per step is of the time from the \
             start of one step to the start of the next, also where ranges leave time between them";
        number "period_ns", "Start to start", 100, Cell::or_empty(period_ns(row.steps), Cell::Ns),
            "Mean time from the start of one step to the start of the next, where that is not the mean length: so long \
             is a step of findings and gaps";
        number "ci95_ns", "± 95 %", 84, Cell::or_empty(row.steps.ci95_ns(), Cell::Ns),
            "Half the width of the 95 % t-interval of the mean";
        number "median_ns", "Median", 84, Cell::Ns(row.durations().median_ns), "Median duration";
        number "min_ns", "Min", 84, Cell::Ns(row.durations().min_ns), "Shortest duration";
        number "max_ns", "Max", 84, Cell::Ns(row.durations().max_ns), "Longest duration";
        number "std_ns", "Std. dev.", 84, Cell::Ns(row.durations().std_ns.unwrap_or_default()),
            "Standard deviation of the sample";
        number "gpu_utilization", "GPU utilization, host steps", 150, Cell::or_empty(row.utilization(), Cell::Share),
            "Share of the judged steps, as the host sees them, in which a kernel runs: TensorBoard's figure, the \
             mean of the devices. Busy shares elsewhere count copies as well, of the judged time or of all time";
        words "devices", "Devices", 0, devices(row), "GPU utilization of each device";
        words "list", "List", 0, list(row), "The steps";
    };
    Part::new("steps", "Step times", figures).report(
        "file rank source regularity disagreement count dropped measured mean_ns period_ns ci95_ns median_ns min_ns \
         max_ns std_ns gpu_utilization",
    )
    .json("rank")
}

fn step_utilization() -> Part<(u32, f64)> {
    let figures = figures! { row: (u32, f64);
        number "device", "Device", 58, Cell::Count(u64::from(row.0)), "Index of the device";
        number "gpu_utilization", "GPU utilization, host steps", 150, Cell::Share(row.1),
            "Share of the judged steps in which a kernel runs on it";
    };
    Part::new("devices", "Devices", figures)
}

/// The steps as an object, for JSON.
pub fn object(of: &StepsOf<'_>) -> Object {
    steps().object(
        of,
        "rank source regularity disagreement count dropped measured mean_ns median_ns min_ns max_ns std_ns ci95_ns \
         gpu_utilization devices list",
    )
}

/// Whether a length of steps is another than one that stands elsewhere.
type Differs = fn(&StepsOf<'_>) -> bool;

/// The steps of traces for flat reports, with what else a step is called there: lengths that stand in one report and
/// differ in any digit are told apart.
pub fn times(of: &[StepsOf<'_>]) -> Table {
    const OF_PERIOD: &str = "A step of findings and gaps lasts from the start of one step to the start of the next, as \
                             under Start to start; mean, median, min and max are of the steps' own lengths";
    const OF_COMPLETIONS: &str = "These are times from the completion of one step on the slowest device to that of the \
                                  next. Phases and annotations are of the steps' ranges on the host, which last otherwise";
    const OF_RANGES: &str = "These are lengths of ranges. Findings and gaps count a step as long as a device takes for \
                             its work, which is another length";
    const OF_STARTS: &str = "These are lengths of ranges. Findings, summary and judged time count a step from its start \
                             to the start of the next one, which is a little longer";
    let notes: [(Differs, &str); 4] = [
        (|of| period_ns(of.steps).is_some(), OF_PERIOD),
        (differs_on_host, OF_COMPLETIONS),
        (differs_on_device, OF_RANGES),
        (|of| period_beside_mean(of.steps).is_some_and(|[period, mean]| !is_same(period, mean)), OF_STARTS),
    ];
    let mut table = steps().table(of, 0);
    let note = notes.iter().find(|(is_it, _)| of.iter().any(is_it));
    table.note = note.map_or(table.note, |note| note.1);
    table
}

/// The list of the steps, for flat reports.
pub fn list(of: Option<&StepsOf<'_>>) -> Table {
    const NOTE: &str = "The host runs ahead of the devices: start and duration are of its range, in which they run \
                        earlier steps. How long the work of a step takes, and what it is, is in the columns from On \
                        device on";
    let mut table = match of {
        Some(of) => step_list().table(of.rows(), of.top),
        None => step_list().table(Vec::<StepRow>::new(), 0),
    };
    if let Some(of) = of {
        name_lengths(of.steps, &mut table.columns);
        table.note = if of.steps.is_of_completions() { NOTE } else { table.note };
    }
    table
}

/// Says of the start and the duration of steps whose they are, where the time that devices took for a step stands beside
/// them, which is another one.
pub fn name_lengths(steps: &Steps, columns: &mut [Column]) {
    if !columns.iter().any(|column| column.key == "device_dur_ns") {
        return;
    }
    for column in columns {
        column.title = match (column.key, &steps.source) {
            ("start_ns", source) if source.is_of_host() => "Host start",
            ("dur_ns", source) if source.is_of_host() => "On host",
            ("dur_ns", source) if source.is_of_device() => "Between starts",
            ("device_dur_ns", source) if source.is_of_device() => "Between completions",
            _ => column.title,
        };
    }
}

/// What found the steps, and what else it found: `ranges named Forward, beside 5 in the program's warm-up`. Those are
/// none of the steps, wherever these are counted.
pub fn found_by(steps: &Steps) -> String {
    let beside = match steps.n_warm_up as u64 {
        0 => String::new(),
        n => format!(", beside {} in the program's warm-up", format::count(n)),
    };
    steps.source.label() + &beside
}

/// Which steps before and after those that count do not, and why; `None` where there are none.
pub fn left_out(steps: &Steps) -> [Option<String>; 2] {
    let count = |n: usize| format::count(n as u64);
    let first = match steps.used.start {
        0 => None,
        1 if steps.n_warm_up > 0 => Some("the first, which may still hold warm-up".to_owned()),
        1 => Some("the first, which may hold warm-up or be cut off".to_owned()),
        n => Some(format!(
            "the first {}, a warm-up of steps that take at least twice as long as any later one",
            count(n)
        )),
    };
    let why = if steps.has_lost { "of which the file lost a part" } else { "in which the recording ends" };
    let last = match steps.len().saturating_sub(steps.used.end) {
        0 => None,
        1 => Some(format!("the last, {why}")),
        n => Some(format!("the last {}, {why}", count(n))),
    };
    [first, last]
}

/// Which steps do not count, and why, as a sentence; empty if all count.
pub fn left_out_text(steps: &Steps) -> String {
    let out: Vec<String> = left_out(steps).into_iter().flatten().collect();
    if out.is_empty() { String::new() } else { format!("Left out: {}", out.join(", ")) }
}

/// The place of a step among `n`, from 1; names may number them otherwise.
pub fn place_text(step: usize, n: usize) -> String {
    format!("number {} of {n} in the recording", step + 1)
}

/// Whether the mean length of the judged steps is another one on a device than of their ranges.
fn differs_on_device(of: &StepsOf<'_>) -> bool {
    let Some(durations) = of.steps.durations.filter(|_| !of.steps.is_of_completions()) else { return false };
    of.parts.devices.iter().filter_map(|(_, parts)| parts.get(of.steps.used.clone())).any(|parts| {
        let sum: DurNs = parts.iter().map(|part| part.time.dur()).sum();
        !parts.is_empty() && !is_same(sum / parts.len() as DurNs, durations.mean_ns)
    })
}

/// Whether the mean length of the ranges of the judged steps is another one than of their completions on devices.
fn differs_on_host(of: &StepsOf<'_>) -> bool {
    let ranges = of.steps.times.get(of.steps.used.clone()).filter(|ranges| !ranges.is_empty());
    let Some((ranges, durations)) = ranges.zip(of.steps.durations).filter(|_| of.steps.is_of_completions()) else {
        return false;
    };
    let sum: DurNs = ranges.iter().map(|range| range.dur()).sum();
    !is_same(sum / ranges.len() as DurNs, durations.mean_ns)
}

/// Whether two lengths are written alike: figures have six digits at most that a reader compares.
pub fn is_same(ns: DurNs, other_ns: DurNs) -> bool {
    (ns - other_ns).abs() <= other_ns / 1_000_000
}

/// Whether a mean length is the same, give or take a hundredth: ranges end a little before the next begins.
fn is_alike(ns: DurNs, mean_ns: DurNs) -> bool {
    (ns - mean_ns).abs() <= mean_ns / 100
}

/// What a step's length is where its ranges tell it.
const OF_RANGE: &str = "from its start to its end; selection, mean and median are of this length";
/// Mean time from the start of a step that counts to the start of the next: what is said per step is of that. `None`
/// where it is the mean length, give or take a hundredth, or no length.
pub fn period_ns(steps: &Steps) -> Option<DurNs> {
    let [period_ns, mean_ns] = period_beside_mean(steps)?;
    (!is_alike(period_ns, mean_ns)).then_some(period_ns)
}

/// Mean time from the start of a step that counts to the start of the next, and the mean length of these steps.
fn period_beside_mean(steps: &Steps) -> Option<[DurNs; 2]> {
    let used = &steps.used;
    let mean_ns = steps.durations.filter(|_| !steps.is_of_completions() && !used.is_empty())?.mean_ns;
    let period_ns = (steps.boundaries.get(used.end)? - steps.boundaries.get(used.start)?) / used.len() as DurNs;
    Some([period_ns, mean_ns])
}

/// What its lengths are where the host runs ahead.
const OF_COMPLETIONS: [&str; 2] = [
    "from the completion of the step before on the slowest device to its own; selection, mean and median are of this \
     length",
    "its range on the host, which only launches the work: On host in the table of steps",
];

/// How long a step takes: each length with what it is, first that which choosing it selects and which statistics are
/// of. Empty without times.
pub fn lengths(steps: &Steps, step: usize) -> Vec<(String, &'static str)> {
    let length =
        |times: &[TimeRange], place| times.get(step).map(|time| format!("{}{place}", format::duration(time.dur())));
    if steps.is_of_completions() {
        let of = [length(steps.extents(), " on the device"), length(&steps.times, " on the host")];
        return of.into_iter().zip(OF_COMPLETIONS).filter_map(|(length, help)| Some((length?, help))).collect();
    }
    length(&steps.times, range_place(steps)).map(|length| (length, OF_RANGE)).into_iter().collect()
}

/// Where the ranges of steps lie, after a length; empty where nothing tells.
fn range_place(steps: &Steps) -> &'static str {
    // In the views of memory a step has its time on the host.
    match &steps.source {
        source if source.is_of_host() => " on the host",
        source if source.is_of_device() => " on the device",
        _ => "",
    }
}

/// What the lengths are that statistics are of, after a length.
pub fn measured_place(steps: &Steps) -> &'static str {
    if steps.is_of_completions() { " from completion to completion on the slowest device" } else { range_place(steps) }
}

/// The number that a step's name ends in, else its place, from 1.
///
/// * `step`: index of the step.
pub fn short_name(name: &str, step: usize) -> String {
    let number = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { number.to_owned() } else { (step + 1).to_string() }
}
