//! Composition of each device's judged time, in a few sentences and in figures.

mod help;

use self::help::only_tells;
pub use self::help::{best, beyond_overlap, named, of_overlap};

use std::sync::Arc;

use super::verdicts::{Judged, clipped, device, is_launched, percent, scope_of, together, why, why_of};
use super::{Cell, Part, Word, figures, format};
use crate::analysis::gaps::GapClass;
use crate::analysis::rules::{Bound, Cause, Hit, KernelKind, Makeup, Rule, RunFacts, Window};
use crate::analysis::words::{Topic, topic};
use crate::model::{DurNs, ProcessId, Severity, Trace};

/// Idle time below this share is not said to be waiting.
const WAITS: f64 = 0.03;
/// A kernel with less of the time is not named.
const LARGE: f64 = 0.05;

/// More processes that share a device with the one that has most of its work are counted.
const MOST_SHARING: usize = 3;

/// Rules about kinds of kernels, each with a remedy.
const KERNELS: [Rule; 3] = [Rule::Fp32Matmul, Rule::Elementwise, Rule::StepwiseAttention];

/// What one device spends its judged time on.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    pub rank: Option<u32>,
    pub makeup: &'a Makeup,
    /// Title of the file, where its rank does not distinguish it.
    name: Option<&'a str>,
    trace: &'a Trace,
    window: &'a Window,
    offset: DurNs,
    run: &'a RunFacts,
    /// The finding about the device whose ceiling is highest; one that cost time once counts by its share of each step.
    best: Option<&'a Hit>,
    /// The finding with the same remedy as that, and what both save at most.
    together: Option<(&'a Hit, DurNs)>,
    /// The finding about the cause with most idle time.
    most: Option<&'a Hit>,
    /// The one with most idle time whose cause the program can end: for others more is to be recorded.
    endable: Option<&'a Hit>,
    /// The warning that the host loads data for longer than the device works, where that made it wait in no judged time.
    data: Option<&'a Hit>,
    /// The warning about kernels that has most time.
    kernels: Option<&'a Hit>,
    /// What it gains per step at most if late ranks come sooner to collectives.
    late_ns: Option<DurNs>,
}

/// Idle time of a device by its cause.
#[derive(Clone, Copy, Debug)]
pub struct IdleCause<'a> {
    /// Title of the file, where its rank does not distinguish it.
    name: Option<&'a str>,
    rank: Option<u32>,
    device: Option<u32>,
    cause: Cause,
    ns: DurNs,
    window_ns: DurNs,
}

impl<'a> Summary<'a> {
    /// Of each device of a trace that was judged.
    pub fn all(judged: &Judged<'a>) -> Vec<Self> {
        let verdicts = judged.verdicts;
        let devices = verdicts.by_device();
        let summary = |makeup: &'a Makeup| {
            let device = devices.get(&makeup.device)?;
            let hits = || device.hits.iter().copied();
            let gains = |hit: &&Hit| hit.saved_ns().is_some() || hit.once.is_some();
            let together = |hit: &Hit| together(hit, device, &verdicts.run);
            let gain = |hit: &Hit| together(hit).map_or(hit.weight(), |both| both.1);
            let mut ranked: Vec<(usize, &Hit, DurNs)> = hits().filter(gains).map(|hit| (0, hit, gain(hit))).collect();
            ranked.sort_by_key(|hit| hit.1.weight());
            let best = best(&ranked).map(|best| ranked[best].1);
            let cause = makeup.causes.first().map(|cause| cause.0);
            let most = hits().find(|hit| hit.rule.cause() == cause && cause.is_some());
            let ends = |hit: &&Hit| hit.rule.cause().is_some_and(|cause| !only_tells(cause));
            let endable = hits().filter(ends).max_by_key(|hit| hit.amount);
            // What mostly runs beside other kernels saves little.
            let most_exposed = makeup.exposed_kind().1;
            let is_exposed = |hit: &Hit| 2 * hit.exposed_ns >= hit.amount || hit.exposed_ns >= most_exposed;
            let is_of_kernels =
                |hit: &&Hit| KERNELS.contains(&hit.rule) && hit.severity > Severity::Note && is_exposed(hit);
            let kernels = hits().filter(is_of_kernels).max_by_key(|hit| hit.amount);
            let late = device.checks.iter().find(|check| check.rule == Rule::LateRank);
            let late_ns = late.and_then(|check| check.ceiling_ns_per_step);
            Some(Self {
                rank: judged.trace.info.rank,
                makeup,
                name: judged.file(),
                trace: judged.trace,
                window: device.window?,
                offset: judged.offset,
                run: &verdicts.run,
                best,
                together: best.and_then(together),
                most,
                endable,
                data: hits().find(|hit| hit.rule == Rule::DataTime),
                kernels,
                late_ns,
            })
        };
        verdicts.makeups.iter().filter_map(summary).collect()
    }

    /// Its idle time by cause.
    pub fn causes(&self) -> Vec<IdleCause<'a>> {
        let (name, rank, device, window_ns) = (self.name, self.rank, self.makeup.device, self.makeup.window_ns());
        let row = |&(cause, ns): &(Cause, DurNs)| IdleCause { name, rank, device, cause, ns, window_ns };
        self.makeup.causes.iter().map(row).collect()
    }

    fn share(&self, ns: DurNs) -> f64 {
        ns as f64 / self.makeup.window_ns().max(1) as f64
    }

    /// Of which time its shares are: `of the time in 3 steps`.
    pub fn scope(&self) -> String {
        scope_of(self.window.basis, self.window.steps.len())
    }

    /// Busy share of its judged time.
    pub fn busy(&self) -> f64 {
        self.share(self.makeup.window_ns() - self.makeup.parts.idle_ns)
    }

    /// The kernel with most time, and the share of the judged time in which it runs.
    fn kernel(&self) -> Option<(&str, f64)> {
        self.makeup.kernel.as_ref().map(|kernel| (kernel.name.as_str(), self.share(self.makeup.kernel_runs_ns)))
    }

    /// Share of the kernel time in the kind of kernels with most.
    fn kind(&self) -> Option<(KernelKind, f64)> {
        let (kind, ns) = self.makeup.kind();
        (ns > 0).then(|| (kind, ns as f64 / self.makeup.kernel_ns.max(1) as f64))
    }

    /// The device, with its rank or its file where there are several.
    pub fn who(&self) -> String {
        let who = device(self.makeup.device, self.rank);
        self.name.map_or(who.clone(), |name| format!("{who} in {name}"))
    }

    /// The judged time, with the offset of its trace on the session clock.
    pub fn window(&self) -> (DurNs, &'a Window) {
        (self.offset, self.window)
    }

    /// How long a step takes; `None` without steps.
    pub fn step_ns(&self) -> Option<DurNs> {
        self.whole_step_ns().or(self.window.step_ns())
    }

    /// Likewise, with the time before the first work of the device and after its last, where that is so much that what is
    /// a large share of the judged time is a small one of the steps.
    fn whole_step_ns(&self) -> Option<DurNs> {
        /// Share of the steps that is judged at most.
        const JUDGED: f64 = 0.9;
        let judged = self.window.step_ns()?;
        self.window.whole_step_ns().filter(|&whole| (judged as f64) < whole as f64 * JUDGED)
    }

    /// How much of the steps is judged, if clearly not all.
    fn judged_part(&self) -> String {
        let Some((judged, whole)) = self.window.step_ns().zip(self.whole_step_ns()) else { return String::new() };
        let each = if self.window.steps.len() > 1 { " per step" } else { "" };
        let [judged, whole] = [judged, whole].map(format::duration);
        format!(" from its first to its last work ({judged} of {whole}{each})")
    }

    /// What all that is saved is of: a step, or without steps the judged time.
    fn of_ns(&self) -> DurNs {
        self.step_ns().unwrap_or_else(|| self.makeup.window_ns())
    }

    /// Follows such an amount.
    fn per_step(&self) -> &'static str {
        if self.window.steps.is_empty() { "" } else { " per step" }
    }

    /// Whether the same takes most of the time of both, and the same would help both most.
    pub fn is_like(&self, other: &Self) -> bool {
        let key = |of: &Self| {
            let cause = of.makeup.causes.first().map(|cause| cause.0);
            (of.makeup.bound(), cause, of.best.map(|hit| hit.rule), of.kernels.map(|hit| hit.rule))
        };
        let [late, of_other] = [self.waits_for(), other.waits_for()].map(|late| late.map(|late| late.0));
        key(self) == key(other) && late == of_other
    }

    /// What the remedy that gains most gains at most, as [`Hit::saved_ns`].
    fn gain(&self) -> DurNs {
        self.together.map_or(self.best.map_or(0, Hit::weight), |both| both.1)
    }

    /// The ranks whose coming sooner gains more than anything else would, and how much.
    fn waits_for(&self) -> Option<(&[u32], DurNs)> {
        let ns = self.late_ns.filter(|&ns| ns > self.gain())?;
        Some((self.makeup.late_ranks.as_slice(), ns)).filter(|(ranks, _)| !ranks.is_empty())
    }

    /// How busy the device is, what it waits for most or works on, and what would help most. May contain text from a
    /// file.
    pub fn text(&self) -> String {
        let parts = &self.makeup.parts;
        let mut sentences =
            vec![format!("{} is busy {} {}{}", self.who(), percent(self.busy()), self.scope(), self.judged_part())];
        let idle = self.share(parts.idle_ns);
        if idle >= WAITS {
            sentences[0] += &format!(" and idle {}", percent(idle));
            sentences.extend(self.waits());
        }
        sentences.extend(shared_by(self.trace, self.makeup, !self.window.steps.is_empty()));
        sentences.extend(match self.makeup.bound() {
            Bound::Compute => Some(self.computes()),
            Bound::Communication => Some(format!(
                "It communicates {} without computing{}",
                percent(self.share(parts.exposed_comm_ns)),
                match self.makeup.waiting_ns {
                    0 => String::new(),
                    ns => {
                        let share = percent(ns as f64 / parts.exposed_comm_ns.max(1) as f64);
                        format!(", {share} of that waiting for other ranks")
                    }
                }
            )),
            Bound::Copies => {
                Some(format!("It copies {} without computing", percent(self.share(parts.exposed_copy_ns))))
            }
            Bound::Idle => Some(self.makeup.idle_waiting_ns).filter(|&ns| ns > 0).map(|ns| {
                format!("It waits {} of the time for other ranks in collectives of the host", percent(self.share(ns)))
            }),
        });
        let help = self.help();
        sentences.extend((!help.is_empty()).then(|| format!("What would help most: {help}")));
        sentences.join(". ")
    }

    /// What it waits for most; before latency, which is not to be avoided, what would gain most.
    fn waits(&self) -> Option<String> {
        let &(cause, ns) = self.makeup.causes.first()?;
        let share = percent(self.share(ns)) + &self.of_recorder();
        Some(match cause {
            Cause::Latency => {
                let is_most = |part: DurNs| part >= ns - part;
                let meanwhile = self.makeup.meanwhile.first().into_iter().flatten();
                let in_graphs = meanwhile.filter(|class| class.0 == GapClass::Graph).map(|class| class.1).sum();
                let between = match (is_most(in_graphs), is_most(self.makeup.queued_ns)) {
                    (true, _) => "between the kernels of CUDA graphs",
                    (false, true) => "between kernels that were already queued",
                    (false, false) => "between launches and the work that they start",
                };
                let saved = self.best.and_then(|hit| {
                    let saved = self.makeup.causes.iter().find(|cause| Some(cause.0) == hit.rule.cause())?;
                    Some((percent(self.share(saved.1)), why_of(hit)?))
                });
                match saved {
                    Some((saved, why)) => format!("It waits {saved} {why}; {share} lies {between}"),
                    None => format!("The largest part of it, {share}, lies {between}"),
                }
            }
            Cause::Unexplained => {
                let known = match self.most.is_some_and(Hit::is_on_cpu) {
                    true => "all that was recorded of the host is that its thread ran on a CPU",
                    false => "nothing was recorded of what the host did",
                };
                format!("For the largest part of it, {share}, {known}")
            }
            _ => {
                let why = self.most.and_then(why_of).or_else(|| cause.rule().and_then(why));
                let why = why.unwrap_or("for calls that copy");
                let is_in = match cause.rule().is_some_and(is_launched) {
                    true => "before work launched in",
                    false => "with the host in",
                };
                let host = self.host_of_most((cause, ns)).map(|name| format!(", most of it {is_in} {name}"));
                format!("It waits most {why}: {share}{}", host.unwrap_or_default())
            }
        })
    }

    /// In what the host is in most of the time of the cause that takes most: as in the gap that comes back, where that
    /// has more than half of its time. Nothing where the name only repeats the cause.
    fn host_of_most(&self, (cause, ns): (Cause, DurNs)) -> Option<String> {
        let gap = self.most?.recurring.as_ref()?;
        let per_step = ns / (self.window.steps.len() as DurNs).max(1);
        let name = if gap.op.is_empty() { &gap.frame } else { &gap.op };
        let is_said = match topic(name) {
            Some(Topic::DataLoading) => cause == Cause::DataLoading,
            Some(Topic::Compilation) => cause == Cause::ModuleLoad,
            Some(Topic::GarbageCollection) => cause == Cause::GarbageCollection,
            Some(Topic::Communication) => cause == Cause::Collective,
            _ => name.is_empty(),
        };
        (!is_said && 2 * gap.of_cause_ns > per_step).then(|| clipped(name))
    }

    /// Whether most of what computes is CUDA graphs that were recorded as wholes.
    fn is_mostly_graphs(&self) -> bool {
        self.makeup.kernel_ns < self.makeup.parts.compute_ns - self.makeup.kernel_ns
    }

    /// How long kernels compute, and which.
    fn computes(&self) -> String {
        let share = percent(self.share(self.makeup.parts.compute_ns));
        if self.is_mostly_graphs() {
            return format!(
                "Kernels and CUDA graphs compute {share}; graphs were recorded as wholes, so what ran in them, and \
                 whether the device waited there, is not known"
            );
        }
        let mut text = format!("Kernels compute {share}");
        let kind = self.kind().filter(|kind| kind.0 != KernelKind::Other);
        let kind = kind
            .map(|(kind, share)| format!("{} take {} of the compute kernel time", kind_label(kind), percent(share)));
        let kernel = self.makeup.kernel.as_ref().filter(|_| self.share(self.makeup.kernel_runs_ns) >= LARGE);
        let kernel = kernel.map(|kernel| {
            let share = percent(kernel.total_ns as f64 / self.makeup.kernel_ns.max(1) as f64);
            let of = if kind.is_some() { "it" } else { "the compute kernel time" };
            match (clipped(&kernel.name), kernel.variants) {
                (name, variants @ 2..) => format!("{variants} variants of {name} take {share} of {of}"),
                (name, _) => format!("{name} alone takes {share} of {of}"),
            }
        });
        let which: Vec<String> = kind.into_iter().chain(kernel).collect();
        if !which.is_empty() {
            text += &format!("; {}", which.join(", "));
        }
        text
    }

    /// That the recorder took so much of the idle time with the cause of most that ending another gains more.
    fn of_recorder(&self) -> String {
        let Some((hit, best)) = self.most.zip(self.best).filter(|(hit, best)| hit.rule != best.rule) else {
            return String::new();
        };
        let gain = hit.saved_ns().unwrap_or_default();
        if gain < best.weight() && gain + hit.recorder_ns >= best.weight() {
            let [own, left] = [hit.recorder_ns, gain].map(format::duration);
            let per_step = self.per_step();
            return format!(", of which the recorder takes at least {own}{per_step} and leaves {left}");
        }
        String::new()
    }
}

/// Which processes share a device, and whose its steps are.
///
/// * `has_steps`: whether its judged time has any.
pub fn shared_by(trace: &Trace, makeup: &Makeup, has_steps: bool) -> Option<String> {
    let all = makeup.processes.iter().fold(0_i64, |sum, of| sum.saturating_add(of.1)).max(1);
    let of = |&(process, ns): &(ProcessId, DurNs)| {
        (clipped(&trace.process(process).title()), percent(ns as f64 / all as f64))
    };
    let [first, others @ ..] = &makeup.processes[..] else { return None };
    let (most, share) = of(first);
    let mut named = vec![format!("{most} launched {share} of its work")];
    named.extend(others.iter().take(MOST_SHARING).map(of).map(|(who, share)| format!("{who} {share}")));
    let left = makeup.processes.len() - named.len();
    named.extend((left > 0).then(|| format!("{} more the rest", format::count(left as u64))));
    let whose = if has_steps { format!("; steps are those of {most}") } else { String::new() };
    let n = format::count(makeup.processes.len() as u64);
    Some(format!("{n} processes share it: {}{whose}", named.join(", ")))
}

/// A cause as a cell of a table.
pub(super) fn cause_word(cause: Cause) -> Cell {
    static WORDS: std::sync::LazyLock<Vec<Word>> = std::sync::LazyLock::new(|| {
        let key = |cause: Cause| cause.rule().map_or("launch_latency", |rule| rule.key());
        Cause::ALL.into_iter().map(|cause| Word { rank: 0, key: key(cause), label: cause.label() }).collect()
    });
    Cell::Word(&WORDS[cause as usize])
}

/// Several kernels of a kind.
fn kind_label(kind: KernelKind) -> &'static str {
    match kind {
        KernelKind::Attention => "attention kernels",
        KernelKind::Access => "sorting, scanning and indexed access",
        KernelKind::Elementwise => "elementwise kernels",
        KernelKind::Matmul => "matrix products and convolutions",
        KernelKind::Other => "other kernels",
    }
}

fn kind_key(kind: KernelKind) -> &'static str {
    match kind {
        KernelKind::Attention => "attention",
        KernelKind::Access => "access",
        KernelKind::Elementwise => "elementwise",
        KernelKind::Matmul => "matmul",
        KernelKind::Other => "other",
    }
}

/// What devices spend their judged time on.
pub fn summary<'a>() -> Part<Summary<'a>> {
    fn nested(row: &Summary<'_>) -> Cell {
        Cell::List(Arc::new(causes().table(row.causes(), 0)))
    }
    let figures = figures! { row: Summary<'a>;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::number(row.makeup.device), "Index of the device";
        words "text", "In short", 400, Cell::name(&row.text()), "How busy it is, with what, and what would help most";
        words "bound", "Bound by", 90, Cell::name(row.makeup.bound().key()),
            "What takes most of its judged time: compute, communication, copies, or idle";
        number "busy_share", "Busy", 70, Cell::Share(row.busy()), "Busy share of its judged time";
        number "compute_share", "Compute", 70, Cell::Share(row.share(row.makeup.parts.compute_ns)), "Kernels that \
            compute";
        number "exposed_comm_share", "Exposed comm.", 100, Cell::Share(row.share(row.makeup.parts.exposed_comm_ns)),
            "Communication while nothing computes";
        number "exposed_copy_share", "Exposed copies", 100, Cell::Share(row.share(row.makeup.parts.exposed_copy_ns)),
            "Copies while nothing computes or communicates";
        words "kernel", "Largest kernel", 200, Cell::or_empty(row.kernel(), |kernel| Cell::name(kernel.0)),
            "The kernel with most time, other than collectives";
        number "kernel_share", "Its share", 70, Cell::or_empty(row.kernel(), |kernel| Cell::Share(kernel.1)),
            "The share of the judged time in which it runs, on whatever streams";
        words "kind", "Kind", 90, Cell::or_empty(row.kind(), |kind| Cell::name(kind_key(kind.0))),
            "The kind of kernels with most time: attention, access, elementwise, matmul or other";
        number "kind_share", "Its share", 70, Cell::or_empty(row.kind(), |kind| Cell::Share(kind.1)),
            "Its share of the kernel time";
        words "causes", "Causes", 0, nested(row), "Idle time by cause";
    };
    Part::new("summary", "In short", figures).json(
        "rank device bound busy_share compute_share exposed_comm_share exposed_copy_share kernel kernel_share kind \
         kind_share text causes",
    )
}

/// Idle time of devices by the cause that the rules judge.
pub fn causes<'a>() -> Part<IdleCause<'a>> {
    let figures = figures! { row: IdleCause<'a>;
        words "file", "File", 160, Cell::or_empty(row.name, Cell::name), "The file, where the rank is ambiguous";
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::number(row.device), "Index of the device";
        words "cause", "Cause", 186, cause_word(row.cause),
            "The rule that judges it. A part of a gap has the cause of what emptied the queue, or kept it empty, where \
             that is known: its class in the gaps by class says what the host ran meanwhile";
        number "total_ns", "Total", 90, Cell::Ns(row.ns), "Idle time in the judged time";
        number "share", "Share", 70, Cell::Share(row.ns as f64 / row.window_ns.max(1) as f64),
            "Share of the judged time";
    };
    Part::new("causes", "Idle time by what would end it, in the judged time", figures).json("cause total_ns share")
}
