//! Time beside that of another recording: what a step takes more or less than there.

mod words;

use std::sync::Arc;

use super::makeup::cause_word;
use super::verdicts::{clipped, device, percent, why};
use super::{Cell, Figure, Part, Table, Word, figures, format};
use crate::analysis::compare::{Change, Compared, FunctionChange, NamedChange, OperatorChange, TimePart, Verdict};
use crate::analysis::finding::{Evidence, Finding, Unit};
use crate::analysis::phases::Phase;
use crate::analysis::rules::{Cause, Levels};

/// The rule of steps that take longer than in the recording that is compared with.
pub const SLOWER: &str = "slower_than_base";

/// Why no device of two recordings could be compared.
///
/// * `n_judged`: of how many devices time is judged in each, or of how many hosts.
/// * `has_devices`: whether it is that of devices.
pub fn not_compared(n_judged: [usize; 2], has_devices: [bool; 2], names: [&str; 2]) -> String {
    let unjudged = names.into_iter().zip(n_judged).find(|(_, n)| *n == 0);
    match unjudged {
        None if has_devices[0] != has_devices[1] => {
            let [with, without] = if has_devices[0] { names } else { [names[1], names[0]] };
            format!(
                "{} has work of a device and {} only what its host did, so their times do not compare",
                clipped(with),
                clipped(without)
            )
        }
        Some((name, _)) => format!(
            "No time of {} is judged: too little ran in it, or too many of its events are missing",
            clipped(name)
        ),
        None => "The two have no device with the same index".to_owned(),
    }
}

/// How many devices have no counterpart, where others have one; `None` where all have.
///
/// * `n_alone`: in each recording.
pub fn without_counterpart(n_alone: [usize; 2]) -> Option<String> {
    let told = |n: usize, place: &str| (n > 0).then(|| format!("{} {place}", format::of_things(n as u64, "device")));
    let told = [told(n_alone[0], "before"), told(n_alone[1], "after")];
    let told: Vec<String> = told.into_iter().flatten().collect();
    (!told.is_empty())
        .then(|| format!("Not compared, since the other recording has none of that index: {}", told.join(", ")))
}

/// Whose time it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// Title of the file, where its rank does not distinguish it.
    pub file: Option<Arc<str>>,
    pub rank: Option<u32>,
    /// `None` for hosts without a device.
    pub device: Option<u32>,
    /// Title of the other recording.
    pub base: Arc<str>,
    /// Rank of the other, where that is another one.
    pub base_rank: Option<u32>,
}

/// The time of one device beside that of another recording.
#[derive(Clone, Debug)]
pub struct TimeComparison {
    pub whose: Whose,
    pub compared: Compared,
    /// Most rows of each list; 0 for all.
    pub top: usize,
}

/// A row of one of its lists.
#[derive(Clone, Debug)]
pub struct Row<'a, T> {
    pub whose: &'a Whose,
    pub of: &'a T,
}

impl TimeComparison {
    /// Rows of one of its lists.
    pub fn rows<'a, T>(&'a self, all: &'a [T]) -> impl ExactSizeIterator<Item = Row<'a, T>> {
        all.iter().map(|of| Row { whose: &self.whose, of })
    }

    /// The step, its parts, and its idle time by what would end it.
    fn times(&self) -> Table {
        compared_times().table(self.rows(&self.compared.times), 0)
    }

    fn work(&self) -> Table {
        compared_work().table(self.rows(&self.compared.work), self.top)
    }

    fn operators(&self) -> Table {
        compared_operators().table(self.rows(&self.compared.operators), self.top)
    }

    fn functions(&self) -> Table {
        compared_functions().table(self.rows(&self.compared.functions), self.top)
    }

    /// How many steps one of them has; empty where not both have any.
    fn steps(&self, i: usize) -> Cell {
        if self.compared.has_steps { Cell::Count(self.step().n[i]) } else { Cell::Empty }
    }

    fn step(&self) -> Change {
        self.compared.times.first().map(|time| time.1).unwrap_or_default()
    }

    /// That steps take longer, if it is more than noise and beyond a threshold.
    pub fn finding(&self, levels: &Levels) -> Option<Finding> {
        let step = self.step();
        let share = step.share().filter(|_| self.compared.verdict == Verdict::Slower)?;
        let (severity, threshold) = levels.reached(share)?;
        let Whose { file, rank, device: index, base, .. } = &self.whose;
        let who = device(*index, *rank);
        let [before, after] = step.per_step().map(format::duration);
        Some(Finding {
            rule: SLOWER,
            severity,
            text: format!(
                "{who}: steps take {} longer than in {}: {after}, {before} there. {}",
                percent(share),
                clipped(base),
                self.of_what()
            ),
            measured: share,
            threshold,
            default_threshold: None,
            unit: Unit::Share,
            evidence: Evidence { file: file.as_deref().map(str::to_owned), device: *index, ..Evidence::default() },
            ceiling_ns_per_step: Some(step.difference()),
            recorder_ns_per_step: None,
            ahead_ns_per_step: None,
            advice: Vec::new(),
        })
    }
}

impl Verdict {
    fn word(&self) -> &'static Word {
        match self {
            Self::Slower => &Word { rank: 3, key: "slower", label: "Slower" },
            Self::Faster => &Word { rank: 2, key: "faster", label: "Faster" },
            Self::Same => &Word { rank: 1, key: "same", label: "No difference" },
            Self::Unknown(_) => &Word { rank: 0, key: "unknown", label: "Not known" },
        }
    }
}

impl Change {
    /// Empty where neither recording has any.
    fn unless_none(&self, cell: Cell) -> Cell {
        if self.total_ns == [0, 0] { Cell::Empty } else { cell }
    }

    /// Calls per step in one of the recordings.
    fn calls(&self, calls: [u64; 2], i: usize) -> Cell {
        Cell::Plain(calls[i] as f64 / self.n[i].max(1) as f64)
    }
}

impl TimePart {
    fn word(self) -> &'static Word {
        match self {
            Self::Step => &Word { rank: 0, key: "step", label: "Step" },
            Self::Judged => &Word { rank: 0, key: "judged", label: "All time that is judged" },
            Self::Compute => &Word { rank: 1, key: "compute", label: "Compute" },
            Self::ExposedCommunication => {
                &Word { rank: 2, key: "exposed_comm", label: "Communication without compute" }
            }
            Self::ExposedCopies => &Word { rank: 3, key: "exposed_copies", label: "Copies without compute" },
            Self::Idle | Self::IdleBy(_) => &Word { rank: 4, key: "idle", label: "Idle" },
            Self::Host(phase) => phase_word(phase),
        }
    }

    /// For a list: of idle time with its cause.
    fn label(self) -> String {
        match self {
            Self::IdleBy(cause) => format!("Idle: {}", cause.label()),
            part => part.word().label.to_owned(),
        }
    }

    fn cause(self) -> Cell {
        match self {
            Self::IdleBy(cause) => cause_word(cause),
            _ => Cell::Empty,
        }
    }

    /// Within a sentence.
    fn text(self) -> String {
        match self {
            Self::IdleBy(Cause::Latency) => "idle by launch latency".to_owned(),
            Self::IdleBy(Cause::Copy) => "idle in calls that copy".to_owned(),
            Self::IdleBy(cause) => format!("idle {}", cause.rule().and_then(why).unwrap_or_default()),
            Self::Host(Phase::Other) => "time of no known phase".to_owned(),
            part => part.word().label.to_lowercase(),
        }
    }
}

fn phase_word(phase: Phase) -> &'static Word {
    match phase {
        Phase::DataLoading => &Word { rank: 5, key: "data_loading", label: "Data loading" },
        Phase::Forward => &Word { rank: 6, key: "forward", label: "Forward pass" },
        Phase::Backward => &Word { rank: 7, key: "backward", label: "Backward pass" },
        Phase::Optimizer => &Word { rank: 8, key: "optimizer", label: "Optimizer" },
        Phase::Copies => &Word { rank: 9, key: "copies", label: "Copies" },
        Phase::Communication => &Word { rank: 10, key: "communication", label: "Communication" },
        Phase::Waiting => &Word { rank: 11, key: "waiting", label: "Waiting" },
        Phase::Other => &Word { rank: 12, key: "other", label: "No known phase" },
    }
}

impl<T> Row<'_, T> {
    fn device(&self) -> Cell {
        Cell::number(self.whose.device)
    }
}

fn whose<'a, T>() -> Vec<Figure<Row<'a, T>>> {
    figures! { row: Row<'a, T>;
        words "file", "File", 140, Cell::or_empty(row.whose.file.as_ref(), |file| Cell::name(file)),
            "The file, where the rank is ambiguous";
        number "rank", "Rank", 50, Cell::number(row.whose.rank), "Rank of the process";
        number "device", "Device", 58, row.device(), "Index of the device";
    }
}

/// The step and its parts in two recordings, a row each.
pub fn compared_times<'a>() -> Part<Row<'a, (TimePart, Change)>> {
    const WHAT: &str = "The step, and its parts, which sum to it; what would end its idle time sums to that. Without \
                        steps in both, all time that is judged";
    const CAUSE: &str = "Of idle time, what would end it; all causes sum to it";
    const MARGIN: &str = "Half the width of the 95 % interval of the difference (Welch's, of the means of the steps of \
                          each); not known of idle time by cause, and without two steps on each side";
    let figures = figures! { row: Row<'a, (TimePart, Change)>;
        words "what", "Part", 170, Cell::name(&row.of.0.label()), WHAT;
        words "part", "Part", 180, Cell::Word(row.of.0.word()),
            "The step, and its parts, which sum to it: what the device did, or without a device the phases of the host. \
             Without steps in both, all time that is judged";
        words "cause", "Idle by", 180, row.of.0.cause(), CAUSE;
        number "change_ns", "Change", 90, Cell::NsMore(row.of.1.difference()), "How much more it takes than before, or \
            less";
        number "margin_ns", "\u{b1} 95 %", 84, Cell::or_empty(row.of.1.margin_ns, Cell::Ns), MARGIN;
        number "change_share", "Change", 84, Cell::or_empty(row.of.1.share(), Cell::Share),
            "The same as a share of what it was before";
        number "before_ns", "Before", 90, Cell::Ns(row.of.1.per_step()[0]), "Mean of a step in the other recording";
        number "after_ns", "After", 90, Cell::Ns(row.of.1.per_step()[1]), "Mean of a step in this one";
        with whose();
    };
    Part::new("compared_times", "Time compared", figures)
        .window("what before_ns after_ns change_ns change_share margin_ns")
        .report("file rank device part cause change_ns margin_ns change_share before_ns after_ns")
        .json("part cause change_ns margin_ns change_share before_ns after_ns")
}

/// Device work in two recordings, by name.
pub fn compared_work<'a>() -> Part<Row<'a, NamedChange>> {
    let figures = figures! { row: Row<'a, NamedChange>;
        words "name", "Name", 180, Cell::name(&row.of.name),
            "Name of the kernel, copy, memset or graph; of kernels without the types of parameters, which differ \
             between builds";
        number "change_ns", "Change", 90, Cell::NsMore(row.of.time.difference()), "How much more it takes per step \
            than before, or less";
        number "before_ns", "Before", 90, Cell::Ns(row.of.time.per_step()[0]), "Its time per step in the other \
            recording";
        number "after_ns", "After", 90, Cell::Ns(row.of.time.per_step()[1]), "Its time per step in this one";
        number "before_calls", "Calls before", 96, row.of.time.calls(row.of.calls, 0), "How often it runs per step in \
            the other recording";
        number "after_calls", "Calls after", 96, row.of.time.calls(row.of.calls, 1), "How often it runs per step in \
            this one";
        with whose();
    };
    Part::new("compared_work", "Device work compared", figures)
        .window("name before_ns after_ns change_ns before_calls after_calls")
        .report("file rank device change_ns before_ns after_ns before_calls after_calls name")
        .json("name change_ns before_ns after_ns before_calls after_calls")
}

/// Operators in two recordings, by name.
pub fn compared_operators<'a>() -> Part<Row<'a, OperatorChange>> {
    let figures = figures! { row: Row<'a, OperatorChange>;
        words "name", "Name", 180, Cell::name(&row.of.name), "Name of the operator";
        number "device_change_ns", "Device self, change", 134, row.of.device_self.unless_none(Cell::NsMore(row.of.device_self.difference())),
            "How much more the device work that it launches takes per step, or less; without what operators inside \
             launch";
        number "before_device_ns", "Device before", 110, row.of.device_self.unless_none(Cell::Ns(row.of.device_self.per_step()[0])), "The same in the other recording";
        number "after_device_ns", "Device after", 110, row.of.device_self.unless_none(Cell::Ns(row.of.device_self.per_step()[1])), "The same in this one";
        number "host_change_ns", "Host self, change", 124, Cell::NsMore(row.of.host_self.difference()),
            "How much more it takes on the host per step, or less; without operators and calls inside";
        number "before_host_ns", "Host before", 110, Cell::Ns(row.of.host_self.per_step()[0]), "The same in the other \
            recording";
        number "after_host_ns", "Host after", 110, Cell::Ns(row.of.host_self.per_step()[1]), "The same in this one";
        number "before_calls", "Calls before", 96, row.of.host_self.calls(row.of.calls, 0), "Calls per step in the \
            other recording";
        number "after_calls", "Calls after", 96, row.of.host_self.calls(row.of.calls, 1), "Calls per step in this one";
        with whose();
    };
    Part::new("compared_operators", "Operators compared", figures)
        .window(
            "name before_device_ns after_device_ns device_change_ns before_host_ns after_host_ns host_change_ns \
             before_calls after_calls",
        )
        .report(
            "file rank device device_change_ns before_device_ns after_device_ns host_change_ns before_host_ns \
             after_host_ns before_calls after_calls name",
        )
        .json(
            "name device_change_ns before_device_ns after_device_ns host_change_ns before_host_ns after_host_ns \
             before_calls after_calls",
        )
}

/// Functions, operators and ranges of the host in two recordings, by name.
pub fn compared_functions<'a>() -> Part<Row<'a, FunctionChange>> {
    let figures = figures! { row: Row<'a, FunctionChange>;
        words "name", "Name", 180, Cell::name(&row.of.name),
            "Name of the Python function, operator or range; a function that moved to another line is the same";
        number "change_ns", "Change", 90, Cell::NsMore(row.of.self_time.difference()), "How much more time per step is \
            spent in it, without what ran inside, than before, or less";
        number "before_ns", "Before", 90, Cell::Ns(row.of.self_time.per_step()[0]), "Its self time per step in the other \
            recording";
        number "after_ns", "After", 90, Cell::Ns(row.of.self_time.per_step()[1]), "Its self time per step in this one";
        number "before_calls", "Calls before", 96, row.of.self_time.calls(row.of.calls, 0), "How often it runs per step \
            in the other recording";
        number "after_calls", "Calls after", 96, row.of.self_time.calls(row.of.calls, 1), "How often it runs per step \
            in this one";
        with whose();
    };
    Part::new("compared_functions", "Functions compared, by self time on the host", figures)
        .window("name before_ns after_ns change_ns before_calls after_calls")
        .report("file rank device change_ns before_ns after_ns before_calls after_calls name")
        .json("name change_ns before_ns after_ns before_calls after_calls")
}

/// The time of each device beside that of another recording.
pub fn time_comparison() -> Part<TimeComparison> {
    fn list(table: Table) -> Cell {
        Cell::List(Arc::new(table))
    }
    let figures = figures! { row: TimeComparison;
        words "file", "File", 140, Cell::or_empty(row.whose.file.as_ref(), |file| Cell::name(file)),
            "The file, where the rank is ambiguous";
        number "rank", "Rank", 50, Cell::number(row.whose.rank), "Rank of the process";
        number "device", "Device", 58, Cell::number(row.whose.device), "Index of the device";
        words "base", "Compared with", 140, Cell::name(&row.whose.base), "The other recording";
        words "verdict", "Verdict", 110, Cell::Word(row.compared.verdict.word()), "Whether a step takes another time, \
            beyond noise; not known where nearly all work changed alike";
        number "noise_ns", "Noise", 90, Cell::or_empty(row.step().noise_ns(), Cell::Ns),
            "A smaller difference of the means is noise between the steps of each recording: the 95 % interval, and no \
             less than 2 % of before. Runs differ by more, which one recording of each does not tell";
        number "before_steps", "Steps before", 96, row.steps(0), "Judged steps in the other recording";
        number "after_steps", "Steps after", 96, row.steps(1), "Judged steps in this one";
        words "text", "Summary", 300, Cell::text(&row.text()), "The same in words";
        words "compared_times", "Times", 0, list(row.times()), "The step and its parts";
        words "compared_work", "Device work", 0, list(row.work()), "Kernels, copies, memsets and graphs by name";
        words "compared_operators", "Operators", 0, list(row.operators()), "Operators by name";
        words "compared_functions", "Functions", 0, list(row.functions()), "Functions of the host by name";
    };
    Part::new("time_comparison", "Time compared, in short", figures).report("text").json(
        "file rank device base verdict noise_ns before_steps after_steps text compared_times compared_work \
             compared_operators compared_functions",
    )
}
