//! Composition of each device's judged time, in one sentence and in figures.

use std::sync::Arc;

use super::verdicts::{Judged, also, clipped, device, percent, scope_of};
use super::{Cell, Part, figures, format};
use crate::analysis::gaps::ceiling::Ceiling;
use crate::analysis::rules::{Bound, Cause, Hit, KernelKind, Makeup, MatmulTime, Rule, RunFacts, Vendor, Window};
use crate::model::{DurNs, Severity};

/// Idle time below this share is not said to be waiting.
const WAITS: f64 = 0.03;
/// A gain is little as less than one part of so many of a step.
const LITTLE: DurNs = 20;

/// From this share of the kernel time on, fusing elementwise kernels is worth naming.
const MANY_ELEMENTWISE: f64 = 0.1;

/// What one device spends its judged time on.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    pub rank: Option<u32>,
    pub makeup: &'a Makeup,
    /// Title of the file, where its rank does not distinguish it.
    name: Option<&'a str>,
    window: &'a Window,
    run: &'a RunFacts,
    /// The finding about the device whose ceiling is highest; one that cost time once counts by its share of each step.
    best: Option<&'a Hit>,
    /// The finding about the cause with most idle time.
    most: Option<&'a Hit>,
    /// The warning about kernels that has most time.
    kernels: Option<&'a Hit>,
    /// What it gains per step at most if other ranks come sooner to collectives, and for which it waits most.
    late: Option<(DurNs, u32)>,
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
        let summary = |makeup: &'a Makeup| {
            let window = verdicts.windows.iter().find(|window| window.device == makeup.device)?;
            let own = verdicts.hits.iter().filter(|hit| hit.device == makeup.device);
            let gains = |hit: &&Hit| hit.ceiling_ns_per_step.is_some() || hit.once.is_some();
            let best = own.filter(gains).max_by_key(|hit| hit.weight());
            let cause = makeup.causes.first().map(|cause| cause.0);
            let of_cause = |hit: &&Hit| hit.device == makeup.device && hit.rule.cause() == cause && cause.is_some();
            let most = verdicts.hits.iter().find(of_cause);
            let is_of_kernels =
                |hit: &&Hit| matches!(hit.rule, Rule::Fp32Matmul | Rule::Elementwise) && hit.severity > Severity::Note;
            let own = verdicts.hits.iter().filter(|hit| hit.device == makeup.device);
            let kernels = own.filter(is_of_kernels).max_by_key(|hit| hit.amount);
            let mut own = verdicts.checks.iter().filter(|check| check.device == makeup.device);
            let late_ns = own.find(|check| check.rule == Rule::LateRank).and_then(|check| check.ceiling_ns_per_step);
            let own = verdicts.hits.iter().filter(|hit| hit.device == makeup.device);
            let late_rank = own.filter_map(|hit| hit.waiting.late).max_by_key(|late| late.1).map(|late| late.0);
            Some(Self {
                rank: judged.trace.info.rank,
                makeup,
                name: judged.name,
                window,
                run: &verdicts.run,
                best,
                most,
                kernels,
                late: late_ns.zip(late_rank),
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

    /// The kernel with most time, and its share of the judged time.
    fn kernel(&self) -> Option<(&str, f64)> {
        self.makeup.kernel.as_ref().map(|kernel| (kernel.name.as_str(), self.share(kernel.total_ns)))
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

    /// Judged time by the steps in it; `None` without steps.
    pub fn step_ns(&self) -> Option<DurNs> {
        self.window.step_ns()
    }

    /// Whether the same takes most of the time of both, and the same would help both most.
    pub fn is_like(&self, other: &Self) -> bool {
        let key = |of: &Self| {
            let cause = of.makeup.causes.first().map(|cause| cause.0);
            (of.makeup.bound(), cause, of.best.map(|hit| hit.rule), of.waits_for(), of.kernels.map(|hit| hit.rule))
        };
        key(self) == key(other)
    }

    /// The rank whose coming sooner gains more than anything else would.
    fn waits_for(&self) -> Option<u32> {
        self.late.filter(|late| late.0 > self.best.map_or(0, Hit::weight)).map(|late| late.1)
    }

    /// How busy the device is, with what, and what would help most. May contain text from a file.
    pub fn text(&self) -> String {
        let parts = &self.makeup.parts;
        let who = self.who();
        let scope = self.scope();
        let idle = self.share(parts.idle_ns);
        let cause = self.makeup.causes.first().map(|&(cause, ns)| (cause.label(), percent(self.share(ns))));
        let waits = match cause {
            // Kernels that communicate may wait for other ranks.
            _ if idle < WAITS && self.share(parts.exposed_comm_ns) >= WAITS => ", hardly idle".to_owned(),
            _ if idle < WAITS => ", nothing waits".to_owned(),
            Some((label, share)) => {
                format!(", idle {}, most by \"{label}\" ({share}{})", percent(idle), self.of_recorder())
            }
            None => format!(", idle {}", percent(idle)),
        };
        let waiting = |ns: DurNs, of: DurNs| match ns {
            0 => String::new(),
            ns => format!(", {} of that waiting for other ranks", percent(ns as f64 / of.max(1) as f64)),
        };
        let does = match self.makeup.bound() {
            Bound::Compute => format!("Kernels compute {}", percent(self.share(parts.compute_ns))),
            Bound::Communication => {
                let share = percent(self.share(parts.exposed_comm_ns));
                format!(
                    "It communicates {share} without computing{}",
                    waiting(self.makeup.waiting_ns, parts.exposed_comm_ns)
                )
            }
            Bound::Copies => format!("It copies {} without computing", percent(self.share(parts.exposed_copy_ns))),
            Bound::Idle => {
                let waiting = match self.makeup.idle_waiting_ns {
                    0 => String::new(),
                    ns => {
                        format!(", {} of the time for other ranks in collectives of the host", percent(self.share(ns)))
                    }
                };
                format!("It waits more than it works{waiting}")
            }
        };
        // Where the device waits, no kernel is what takes the time.
        let works = self.makeup.bound() != Bound::Idle;
        let kernel = self
            .kernel()
            .filter(|_| works)
            .map(|(name, share)| format!("; {} takes {} of the judged time", clipped(name), percent(share)));
        let kind = self.kind().filter(|kind| works && kind.0 != KernelKind::Other);
        let kind =
            kind.map(|(kind, share)| format!(", {} take {} of the kernel time", kind_label(kind), percent(share)));
        format!(
            "{who}: busy {} {scope}{waits}. {does}{}{}. What would help most: {}",
            percent(self.busy()),
            kernel.unwrap_or_default(),
            kind.unwrap_or_default(),
            self.help(),
        )
    }

    /// That the recorder took so much of the idle time with the cause of most that ending another gains more.
    fn of_recorder(&self) -> String {
        let Some((hit, best)) = self.most.zip(self.best).filter(|(hit, best)| hit.rule != best.rule) else {
            return String::new();
        };
        let gain = hit.ceiling_ns_per_step.unwrap_or_default();
        if gain < best.weight() && gain + hit.recorder_ns >= best.weight() {
            let [own, left] = [hit.recorder_ns, gain].map(format::duration);
            return format!(", of which the recorder takes at least {own} per step and leaves {left}");
        }
        String::new()
    }

    /// What gains most: the finding with the highest ceiling, or a warning about kernels with more time than that, else
    /// less of what takes most of the time. Where kernels take nearly all of it, faster ones come first: no ceiling can be told
    /// for them, but all others together are small.
    fn help(&self) -> String {
        let gain = self.best.map_or(0, Hit::weight);
        let is_little = gain > 0 && self.window.step_ns().is_some_and(|step_ns| gain < step_ns / LITTLE);
        match self.faster_kernels() {
            faster if is_little && self.makeup.bound() == Bound::Compute && !faster.is_empty() => {
                format!("{faster}; beside that {}", self.least_idle())
            }
            _ => self.least_idle(),
        }
    }

    /// What helps most against what is not computing.
    fn least_idle(&self) -> String {
        let n_steps = self.window.steps.len().max(1) as DurNs;
        let ceiling = self.best.map_or(0, Hit::weight);
        if let Some(hit) = self.kernels.filter(|hit| hit.amount / n_steps > ceiling) {
            return format!("\"{}\", which take {}", hit.rule.label(), percent(hit.measured));
        }
        let more = |ns: DurNs, step_ns: DurNs| {
            // The same time is a larger share of the shorter step that remains.
            let more = Ceiling { ns_per_step: ns, step_ns }.throughput_percent();
            let more = format!(" ({} more steps in the same time)", percent(more / 100.0));
            if ns < step_ns { more } else { String::new() }
        };
        if let Some((rank, (ns, _))) = self.waits_for().zip(self.late) {
            let step_ns = self.window.step_ns().unwrap_or_default();
            let [gain, step] = [ns, step_ns].map(format::duration);
            let more = more(ns, step_ns);
            return format!("that rank {rank} comes sooner to collectives, at most {gain} per step of {step}{more}");
        }
        if let Some((hit, once)) = self.best.and_then(|hit| Some((hit, hit.once.as_ref()?))) {
            let (label, ns, step) = (hit.rule.label(), format::duration(once.ns), clipped(&once.step));
            let what = named(hit, label);
            if let Some(also) = also(&once.also) {
                return format!("{what}, {ns} in {step}, {also}");
            }
            return format!("{what}, {ns} once, in {step}; a longer recording shows whether it comes back");
        }
        if let Some((hit, ns)) = self.best.and_then(|hit| Some((hit, hit.ceiling_ns_per_step?))) {
            let window = self.window;
            let (per, step_ns) = match hit.is_of_usual {
                true => ("of a usual step of", window.median_step_ns()),
                false => ("per step of", window.step_ns()),
            };
            let step_ns = step_ns.unwrap_or_default();
            let [gain, step] = [ns, step_ns].map(format::duration);
            let what = named(hit, hit.rule.label());
            // The gain is without the recorder, and so is what it is of.
            if let Some(cost) = hit.recording {
                let rest = format::duration(step_ns - cost.ns);
                let cost = format::rough_duration(cost.ns, cost.most_ns);
                return format!(
                    "{what}, at most {gain} {per} at most {rest} without the recorder, which takes about {cost} of the \
                     recorded {step}"
                );
            }
            if let Some(alone) = hit.alone_ns_per_step {
                let alone = format::duration(alone);
                return format!("{what}, at most {gain} {per} {step} if it ends on all ranks, {alone} on this alone");
            }
            return format!("{what}, at most {gain} {per} {step}{}", more(ns, step_ns));
        }
        match self.makeup.bound() {
            Bound::Compute => self.faster_kernels(),
            Bound::Communication => "communication beside compute, or less of it".to_owned(),
            Bound::Copies => "copies beside kernels, or fewer of them".to_owned(),
            Bound::Idle => {
                let cause = self.makeup.causes.first();
                cause.map_or_else(String::new, |&(cause, _)| format!("ending the idle time by \"{}\"", cause.label()))
            }
        }
    }

    /// What the names of matrix products say of their precision, and what is left to do: they are not told to use
    /// what they use already.
    fn faster_products(&self) -> String {
        let MatmulTime { fp32_ns, tensor_ns, narrow_ns } = self.makeup.matmul;
        let all = self.makeup.kinds[KernelKind::Matmul as usize];
        let of_all = |ns: DurNs| percent(ns as f64 / all.max(1) as f64);
        let cores = if self.run.vendor == Vendor::Amd { "matrix cores" } else { "tensor cores" };
        let elementwise = self.makeup.kinds[KernelKind::Elementwise as usize];
        let fused = elementwise as f64 / self.makeup.kernel_ns.max(1) as f64;
        if 2 * fp32_ns > all {
            format!(
                "matrix products on {cores}: {} of their time is in kernels named for fp32 without them",
                of_all(fp32_ns)
            )
        } else if 2 * (tensor_ns - narrow_ns) > all {
            let share = of_all(tensor_ns - narrow_ns);
            format!(
                "matrix products in bf16 or fp16: {share} of their time is in kernels named for {cores} with wider types"
            )
        } else if narrow_ns > all - narrow_ns && fused >= MANY_ELEMENTWISE {
            let how =
                if self.run.is_compiled || self.run.is_too_old { "fuse them" } else { "torch.compile fuses them" };
            format!(
                "less beside the matrix products, whose kernels are named for types of at most 16 bits already ({} of their \
                 time): elementwise kernels take {} of the kernel time, {how}",
                of_all(narrow_ns),
                percent(fused),
            )
        } else if narrow_ns > all - narrow_ns {
            format!(
                "fewer or better-shaped matrix products: {} of their time is in kernels named for types of at most 16 bits \
                 already",
                of_all(narrow_ns)
            )
        } else {
            "faster matrix products: their names do not tell the precision, check that it is bf16 or fp16".to_owned()
        }
    }

    fn faster_kernels(&self) -> String {
        let RunFacts { is_compiled, is_too_old, .. } = *self.run;
        let text = match self.kind().map(|kind| kind.0) {
            Some(KernelKind::Matmul) => return self.faster_products(),
            Some(KernelKind::Attention) => "a newer attention kernel, or shorter sequences",
            Some(KernelKind::Elementwise) if !is_compiled && !is_too_old => "fused elementwise kernels (torch.compile)",
            Some(KernelKind::Elementwise) => "fused elementwise kernels",
            Some(KernelKind::Access) => "less sorting, scanning and indexed access",
            Some(KernelKind::Other) | None => {
                return self.kernel().map_or_else(String::new, |(name, _)| format!("a faster {}", clipped(name)));
            }
        };
        text.to_owned()
    }
}

/// What a finding is about: its rule, or what the host does for most of the time.
fn named(hit: &Hit, label: &str) -> String {
    if hit.is_saving() {
        format!("writing a checkpoint (\"{label}\")")
    } else if hit.is_after_copies() {
        format!("what the host does after it copied data from the device (\"{label}\")")
    } else if hit.is_before_copies() {
        format!("what the host does before it copies data to the device (\"{label}\")")
    } else {
        format!("\"{label}\"")
    }
}

fn cause_key(cause: Cause) -> &'static str {
    cause.rule().map_or("launch_latency", |rule| rule.key())
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
        number "compute_share", "Compute", 70, Cell::Share(row.share(row.makeup.parts.compute_ns)), "Kernels that compute";
        number "exposed_comm_share", "Exposed comm.", 100, Cell::Share(row.share(row.makeup.parts.exposed_comm_ns)),
            "Communication while nothing computes";
        number "exposed_copy_share", "Exposed copies", 100, Cell::Share(row.share(row.makeup.parts.exposed_copy_ns)),
            "Copies while nothing computes or communicates";
        words "kernel", "Largest kernel", 200, Cell::or_empty(row.kernel(), |kernel| Cell::name(kernel.0)),
            "The kernel with most time, other than collectives";
        number "kernel_share", "Its share", 70, Cell::or_empty(row.kernel(), |kernel| Cell::Share(kernel.1)),
            "Its share of the judged time";
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
        words "cause", "Cause", 150, Cell::name(cause_key(row.cause)),
            "The rule that judges it. A part of a gap has the cause of what emptied the queue, or kept it empty, where \
             that is known: its class in the gaps by class says what the host ran meanwhile";
        number "total_ns", "Total", 90, Cell::Ns(row.ns), "Idle time in the judged time";
        number "share", "Share", 70, Cell::Share(row.ns as f64 / row.window_ns.max(1) as f64),
            "Share of the judged time";
    };
    Part::new("causes", "Idle time by cause, in the judged time", figures).json("cause total_ns share")
}
