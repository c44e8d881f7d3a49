//! Time beside that of another recording: what a step takes more or less than there.

use std::sync::Arc;

use super::makeup::cause_word;
use super::text::{shortened_apart, telling};
use super::verdicts::{clipped, device, percent, why};
use super::{Cell, Figure, Part, Table, Word, figures, format};
use crate::analysis::compare::{Change, Compared, NamedChange, OperatorChange, TimePart, Unknown, Verdict};
use crate::analysis::finding::{Evidence, Finding, Unit};
use crate::analysis::rules::{Cause, Levels};
use crate::model::DurNs;

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

    /// How many steps one of them has; empty where not both have any.
    fn steps(&self, i: usize) -> Cell {
        if self.compared.has_steps { Cell::Count(self.step().n[i]) } else { Cell::Empty }
    }

    fn step(&self) -> Change {
        self.compared.times.first().map(|time| time.1).unwrap_or_default()
    }

    /// Whether it helped, in a paragraph that names the files.
    pub fn text(&self) -> String {
        let Whose { file, rank, device: index, base, .. } = &self.whose;
        let who = device(*index, *rank);
        let who = file.as_ref().map_or(who.clone(), |file| format!("{who} in {file}"));
        self.sentences(&who, &format!("in {}", clipped(base)))
    }

    /// The same beside the names of the files.
    pub fn text_of_device(&self) -> String {
        self.sentences(&device(self.whose.device, self.whose.rank), "before")
    }

    /// * `who`: the device.
    /// * `there`: in which recording it took what is compared with.
    fn sentences(&self, who: &str, there: &str) -> String {
        let step = self.step();
        let [before, after] = step.per_step().map(format::duration);
        let more = Self::more(&step);
        let there = match self.whose.base_rank {
            Some(rank) => format!("of rank {rank} {there}"),
            None => there.to_owned(),
        };
        let what = match self.compared.has_steps {
            true => format!("{who}: a step takes {after}, {more} the {before} {there}"),
            false => format!("{who}: the time that is judged is {after}, {more} the {before} {there}"),
        };
        let what = what + &self.of_whole_steps();
        let n = step.n.map(format::count);
        let means = format!("means of {} and {} steps", n[1], n[0]);
        let steps = match step.noise_ns() > step.margin_ns {
            true => format!("2 % of a step, since one recording of each says nothing of how runs differ; {means}"),
            false => means,
        };
        let noise = step.noise_ns().map(format::duration).unwrap_or_default();
        let faster = if step.difference() > 0 { "slower" } else { "faster" };
        let verdict = match &self.compared.verdict {
            Verdict::Faster => format!("Faster: the difference is beyond the noise of {noise} ({steps})"),
            Verdict::Slower => format!("Slower: the difference is beyond the noise of {noise} ({steps})"),
            Verdict::Same => format!("No difference beyond the noise of {noise} ({steps})"),
            Verdict::Unknown(Unknown::FewSteps) => {
                "Whether that is more than noise is not known: that takes two judged steps in each recording".to_owned()
            }
            Verdict::Unknown(Unknown::OtherSteps([before, after])) => format!(
                "Whether the program is {faster} is not known: the steps may not be the same work, they were found by {} there and by {} here",
                clipped(before),
                clipped(after)
            ),
            Verdict::Unknown(Unknown::OtherDevice([before, after])) => format!(
                "Whether the program is {faster} is not known: the devices differ, {} there and {} here",
                clipped(before),
                clipped(after)
            ),
            Verdict::Unknown(Unknown::OtherWork(common)) => format!(
                "Whether the program is {faster} is not known: only {} of the time of kernels is of the same kernels in both, so \
                 these may be different programs",
                percent(*common)
            ),
            Verdict::Unknown(Unknown::OtherOperators(common)) => format!(
                "Whether the program is {faster} is not known: only {} of the calls of operators are of the same ones in both, \
                 so these may be different programs",
                percent(*common)
            ),
        };
        let graphs = ". One of the two shows CUDA graphs as wholes: the kernels in them cannot be compared";
        let graphs = if self.compared.has_whole_graphs { graphs } else { "" };
        let most = self.most().map(|most| format!(". {most}")).unwrap_or_default();
        let compiled = ". One of the two runs code of torch.compile, whose kernels and operators have other names: whether \
                        both are the same program cannot be told";
        let compiled = if self.compared.has_compiled { compiled } else { "" };
        let ranks = ". Where these are ranks of one job, a rank that comes sooner to a collective waits longer in it: time \
                     that it communicates says nothing of how fast it is";
        let communicates = self
            .compared
            .times
            .iter()
            .any(|(part, change)| *part == TimePart::ExposedCommunication && change.difference() != 0);
        let ranks = if self.whose.base_rank.is_some() && communicates { ranks } else { "" };
        let most = most + graphs + compiled + ranks;
        format!("{what}. {verdict}{most}")
    }

    /// How long steps take in all, where they begin clearly before the first work of the device or end after its last: as
    /// other views have them.
    fn of_whole_steps(&self) -> String {
        let whole = self.compared.whole_step_ns;
        if !self.compared.has_steps || whole == [None; 2] {
            return String::new();
        }
        let own = self.step().per_step();
        let [before, after] = [0, 1].map(|i| format::duration(whole[i].unwrap_or(own[i])));
        format!(
            ", from the first to the last work of the device; with the time before and after that it is {after} beside \
             {before}"
        )
    }

    /// `3.2 % less than`.
    fn more(step: &Change) -> String {
        let difference = step.difference();
        let than = if difference < 0 { "less than" } else { "more than" };
        match step.share() {
            _ if difference == 0 => "as long as".to_owned(),
            Some(share) => format!("{} ({}) {than}", format::duration(difference.abs()), percent(share.abs())),
            None => format!("{} {than}", format::duration(difference.abs())),
        }
    }

    /// What changed most: parts of the step, then work by name.
    fn most(&self) -> Option<String> {
        /// Less of the step's time is not named.
        const LEAST: f64 = 0.01;
        const MOST: usize = 3;
        /// Characters of a name.
        const MAX_NAME: usize = 48;
        let step = self.step();
        let least = (step.per_step()[0] as f64 * LEAST) as DurNs;
        let large = |change: &Change| change.difference() != 0 && change.difference().abs() >= least;
        let signed = |name: &str, change: &Change| {
            let sign = if change.difference() < 0 { "\u{2212}" } else { "+" };
            format!("{name} {sign}{}", format::duration(change.difference().abs()))
        };
        let is_part = |part: &TimePart| !matches!(part, TimePart::Step | TimePart::Judged | TimePart::Idle);
        let mut parts: Vec<&(TimePart, Change)> =
            self.compared.times.iter().filter(|(part, change)| is_part(part) && large(change)).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.1.difference().abs()));
        let told = |(part, change): &(TimePart, Change)| signed(&part.text(), change) + &self.lead(*part, change);
        let mut all: Vec<String> = parts.iter().take(MOST).map(|part| told(part)).collect();
        // Where work of other names takes its place, there is no change to name.
        let compute = self.compared.times.iter().find(|time| time.0 == TimePart::Compute);
        let is_other =
            matches!(self.compared.verdict, Verdict::Unknown(Unknown::OtherWork(_) | Unknown::OtherOperators(_)));
        let has_names = compute.is_some_and(|compute| large(&compute.1))
            && !is_other
            && !self.compared.has_whole_graphs
            && !self.compared.has_compiled;
        let work = self.compared.work.iter().filter(|one| has_names && large(&one.time));
        let work: Vec<_> = work.take(MOST).collect();
        let names: Vec<_> = work.iter().map(|one| telling(&one.name)).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        all.extend(work.iter().zip(&names).map(|(one, name)| {
            let others: Vec<&str> = names.iter().copied().filter(|other| other != name).collect();
            signed(&shortened_apart(name, &others, MAX_NAME), &one.time)
        }));
        (!all.is_empty()).then(|| format!("What changed most: {}", all.join("; ")))
    }

    /// How much of the change of a cause is after the wait itself, where that is enough to count.
    fn lead(&self, part: TimePart, change: &Change) -> String {
        /// Of the change: a twentieth.
        const LEAST_PART: DurNs = 20;
        let TimePart::IdleBy(cause) = part else { return String::new() };
        let lead = self.compared.leads.iter().find(|lead| lead.0 == cause).map_or(0, |lead| lead.1.difference());
        if lead == 0 || lead.abs() * LEAST_PART < change.difference().abs() {
            return String::new();
        }
        let sign = if lead < 0 { "\u{2212}" } else { "+" };
        format!(
            " ({sign}{} of it after the wait itself, until the host is ahead of the device again)",
            format::duration(lead.abs())
        )
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
                "{who}: steps take {} longer than in {}: {after}, {before} there",
                percent(share),
                clipped(base)
            ),
            measured: share,
            threshold,
            default_threshold: None,
            unit: Unit::Share,
            evidence: Evidence { file: file.as_deref().map(str::to_owned), device: *index, ..Evidence::default() },
            ceiling_ns_per_step: Some(step.difference()),
            recorder_ns_per_step: None,
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
            part => part.word().label.to_lowercase(),
        }
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
            "The step, and its parts, which sum to it: what the device did. Without steps in both, all time that is \
             judged";
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
            beyond noise";
        number "noise_ns", "Noise", 90, Cell::or_empty(row.step().noise_ns(), Cell::Ns),
            "A smaller difference of the means is noise: the 95 % interval, and no less than 2 % of before, since one \
             recording of each says nothing of how runs differ";
        number "before_steps", "Steps before", 96, row.steps(0), "Judged steps in the other recording";
        number "after_steps", "Steps after", 96, row.steps(1), "Judged steps in this one";
        words "text", "Summary", 300, Cell::text(&row.text()), "The same in words";
        words "compared_times", "Times", 0, list(row.times()), "The step and its parts";
        words "compared_work", "Device work", 0, list(row.work()), "Kernels, copies, memsets and graphs by name";
        words "compared_operators", "Operators", 0, list(row.operators()), "Operators by name";
    };
    Part::new("time_comparison", "Time compared, in short", figures).report("text").json(
        "file rank device base verdict noise_ns before_steps after_steps text compared_times compared_work \
             compared_operators",
    )
}
