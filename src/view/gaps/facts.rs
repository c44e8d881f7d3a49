//! Everything that the page of a gap shows, looked up in the background: a long gap has many parts.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::summary::classes_of;
use crate::analysis::gaps::{
    Gap, GapClass, GapPart, Ledger, Near, frame, inferred_ns, is_of_steps, moment_of, on_cpu_ns,
};
use crate::analysis::rules::RunFacts;
use crate::analysis::steps::Steps;
use crate::answers::findings::TraceRun;
use crate::answers::time::{GapClusters, Ledgers, TraceSteps};
use crate::answers::{Analysis, Work};
use crate::figures::gap_advice::{GapAdvice, advice, lost_lead_text, to_record, trigger_text, untold};
use crate::figures::gaps::{main_part, trigger_label};
use crate::figures::{escape, format};
use crate::model::{DurNs, ProcessId, SliceId, TimeNs, TimeRange, Trace};

/// Parts that the page lists; the rest is summed.
const MAX_PARTS: usize = 12;
/// Parts that the picture shows; of more, what went on for most of each part of the picture.
const MAX_SEGMENTS: usize = 1_000;
/// What the list of parts is, below their sums.
pub const PARTS: &str = "What went on meanwhile, by name";
/// Said of a gap that no figure per step counts.
pub const OUTSIDE: &str = "Outside of the judged steps";
/// Other gaps of the cluster that the page lists.
const MAX_SAME: usize = 12;

/// Looks up one gap of a device, by its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapOf {
    pub steps: TraceSteps,
    pub process: ProcessId,
    pub start: TimeNs,
}

/// Facts about one gap.
#[derive(Clone, Debug)]
pub struct GapFacts {
    pub gap: Gap,
    pub device: String,
    /// Idle time of the device, and its gaps.
    pub idle_ns: DurNs,
    pub n_gaps: usize,
    /// The step that has most of it, as its device sees the step.
    pub step: Option<(String, TimeRange)>,
    /// Whether it is in none of the judged steps, of which there are some.
    pub is_outside: bool,
    /// Its trigger, and what that means.
    pub trigger: Option<(&'static str, String)>,
    /// That the host lost its lead before, if it did.
    pub lost_lead: Option<String>,
    /// Its time by what went on, the largest first.
    pub classes: Vec<(GapClass, DurNs)>,
    /// By class and name, the largest first.
    pub parts: Vec<PartLine>,
    /// Parts and time that are not listed.
    pub rest: (usize, DurNs),
    /// In order of time, for the picture.
    pub segments: Vec<GapPart>,
    /// The call that launched the work after the gap.
    pub call: Option<SliceId>,
    /// The operators around that call, the innermost first.
    pub operators: Vec<SliceId>,
    /// What the host was in at the time of the largest part: the innermost operator, and those around it. Empty if that
    /// part is not of the host: its work was launched before.
    pub host: Vec<SliceId>,
    /// The Python frame of that.
    pub frame: Option<String>,
    pub recurrence: Option<GapRecurrence>,
    /// Whether nothing was looked for that explains it; see [`Ledger::is_untold`].
    pub is_untold: bool,
    /// What the recording shows of the program.
    pub run: RunFacts,
}

/// Parts of one class and name together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartLine {
    pub class: GapClass,
    /// The longest slice of that name.
    pub slice: Option<SliceId>,
    pub ns: DurNs,
    /// How many slices, each of which may have several parts; without slices how many parts.
    pub count: usize,
    /// As in [`inferred_ns`], of all of them.
    pub inferred_ns: DurNs,
    /// Of unexplained parts: as in [`on_cpu_ns`], of all of them.
    pub on_cpu_ns: DurNs,
    pub frame: Option<String>,
    /// Time of the longest of them.
    longest_ns: DurNs,
}

/// The cluster of a gap.
#[derive(Clone, Debug, Default)]
pub struct GapRecurrence {
    pub count: u64,
    pub total_ns: DurNs,
    pub ns_per_step: Option<DurNs>,
    pub ceiling_ns_per_step: Option<DurNs>,
    /// In how many of the judged steps, and how many these are.
    pub steps: (usize, usize),
    /// How many steps there are, whether they count or not.
    pub n_all_steps: usize,
    /// Whether the gap itself is in a step that counts.
    pub is_counted: bool,
    /// The same gap in other steps, or the longest others, in order of time.
    pub same: Vec<SameGap>,
    /// How many more of these are not listed.
    pub n_more: usize,
}

/// Another gap of the same cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SameGap {
    /// Name of its step; empty without one.
    pub step: String,
    /// Whether the step counts in figures per step.
    pub is_counted: bool,
    pub time: TimeRange,
}

/// A step as a device sees it.
struct StepOf {
    name: String,
    time: TimeRange,
    is_counted: bool,
}

impl Analysis for GapOf {
    type Of = Arc<Trace>;
    /// `None` if there is no such gap.
    type Output = Option<GapFacts>;
    const NAME: &'static str = "Looking up the gap";

    fn run(&self, trace: &Arc<Trace>, work: &Work<'_>) -> Option<Option<GapFacts>> {
        let ledgers = work.get(trace, &Ledgers { steps: self.steps.clone() })?;
        let Some(number) = ledgers.iter().position(|ledger| ledger.process == self.process) else { return Some(None) };
        let ledger = &ledgers[number];
        let Some(index) = ledger.at(self.start) else { return Some(None) };
        let steps = work.get(trace, &self.steps)?;
        let step_of = |gap: TimeRange| {
            let steps = (*steps).as_ref()?;
            let boundaries = steps.on(self.process).device;
            let at = boundaries.partition_point(|&boundary| boundary <= moment_of(gap)).checked_sub(1)?;
            let time = TimeRange { start: *boundaries.get(at)?, end: *boundaries.get(at + 1)? };
            (boundaries.len() == steps.boundaries.len()).then_some(())?;
            Some(StepOf { name: steps.names.get(at)?.clone(), time, is_counted: steps.used.contains(&at) })
        };
        let clusters = work.get(trace, &GapClusters { steps: self.steps.clone() })?;
        let own = step_of(ledger.time(index));
        let recurrence = clusters.get(number).and_then(|clusters| {
            let cluster = &clusters.all[clusters.of(index)?];
            let time = |gap: u32| ledger.time(gap as usize);
            let mut others: Vec<u32> =
                clusters.gaps(cluster).iter().copied().filter(|&gap| gap as usize != index).collect();
            others.sort_by_key(|&gap| (Reverse(time(gap).dur()), gap));
            // One for each step but that of the gap itself, the longest of it.
            let mut known: HashSet<TimeNs> = own.iter().map(|step| step.time.start).collect();
            let mut same: Vec<SameGap> = Vec::new();
            let mut n_more = 0;
            for gap in others {
                let step = step_of(time(gap));
                if step.as_ref().is_some_and(|step| !known.insert(step.time.start)) {
                    continue;
                }
                if same.len() >= MAX_SAME {
                    n_more += 1;
                    continue;
                }
                let is_counted = step.as_ref().is_some_and(|step| step.is_counted);
                same.push(SameGap {
                    step: step.map_or_else(String::new, |step| step.name),
                    is_counted,
                    time: time(gap),
                });
            }
            same.sort_by_key(|other| other.time.start);
            Some(GapRecurrence {
                count: cluster.sum.count,
                total_ns: cluster.sum.total_ns,
                ns_per_step: cluster.sum.ns_per_step(clusters.n_steps),
                ceiling_ns_per_step: cluster.sum.ceiling_ns_per_step(clusters.n_steps),
                steps: (cluster.sum.steps_present, clusters.n_steps),
                n_all_steps: (*steps).as_ref().map_or(0, Steps::len),
                is_counted: own.as_ref().is_some_and(|step| step.is_counted),
                same,
                n_more,
            })
        });
        let run = *work.get(trace, &TraceRun)?;
        let counted = (*steps).as_ref().and_then(|steps| steps.counted_on(self.process).on_device());
        let is_outside = counted.is_some_and(|counted| !is_of_steps(ledger.time(index), counted));
        let own = own.map(|step| (step.name, step.time));
        Some(Some(GapFacts { run, is_outside, ..facts(trace, ledger, index, own, recurrence) }))
    }
}

fn facts(
    trace: &Trace,
    ledger: &Ledger,
    index: usize,
    step: Option<(String, TimeRange)>,
    recurrence: Option<GapRecurrence>,
) -> GapFacts {
    let main = main_part(trace, ledger, index, &Near::none());
    let mut parts = part_lines(trace, ledger, index);
    let rest = parts.split_off(parts.len().min(MAX_PARTS));
    // Where it was launched is no place of the host in a gap that is not of the host.
    let operator = main.place.operator.filter(|_| main.class.0.is_host());
    let is_operator = |slice: &SliceId| trace.slices.kind[slice.idx()] == crate::model::SliceKind::Operator;
    let around = |slice: Option<SliceId>| {
        slice.into_iter().flat_map(|slice| trace.slices.ancestors(slice)).filter(is_operator).take(MAX_PARTS)
    };
    let call = trace.launch_of(main.gap.ended_by);
    GapFacts {
        gap: main.gap,
        device: trace.process(ledger.process).title(),
        idle_ns: ledger.totals(TimeRange::ALL).all.total_ns,
        n_gaps: ledger.len(),
        step,
        is_outside: false,
        trigger: trigger_label(trace, &main.gap).zip(trigger_text(trace, &main.gap)),
        lost_lead: lost_lead_text(&main.gap),
        classes: classes_of(ledger, index),
        parts,
        rest: (rest.iter().map(|line| line.count).sum(), rest.iter().map(|line| line.ns).sum()),
        segments: segments(ledger, index),
        call,
        operators: around(call).collect(),
        host: operator.into_iter().chain(around(operator)).collect(),
        frame: main.place.frame.map(str::to_owned),
        recurrence,
        is_untold: ledger.is_untold,
        run: RunFacts::default(),
    }
}

/// The parts by class and name, the largest first. Cost: O(parts + log n for each distinct name).
fn part_lines(trace: &Trace, ledger: &Ledger, index: usize) -> Vec<PartLine> {
    let mut lines: Vec<(PartLine, GapPart)> = Vec::new();
    let mut counted: HashSet<(GapClass, SliceId)> = HashSet::new();
    let mut known: HashMap<(GapClass, Option<&str>), usize> = HashMap::new();
    let gap = ledger.gap(index);
    for part in ledger.parts(index).filter(|part| part.time.dur() > 0) {
        let ns = part.time.dur();
        let at = *known.entry((part.class, part.slice.map(|slice| trace.slice_name(slice)))).or_insert_with(|| {
            let (class, slice) = (part.class, part.slice);
            let line =
                PartLine { class, slice, ns: 0, count: 0, inferred_ns: 0, on_cpu_ns: 0, frame: None, longest_ns: 0 };
            lines.push((line, part));
            lines.len() - 1
        });
        let (line, longest) = &mut lines[at];
        line.ns += ns;
        line.count += usize::from(part.slice.is_none_or(|slice| counted.insert((part.class, slice))));
        line.inferred_ns += inferred_ns(trace, &part);
        if part.class == GapClass::Unknown {
            line.on_cpu_ns += on_cpu_ns(trace, &gap, &part);
        }
        if ns > line.longest_ns {
            (line.longest_ns, line.slice, *longest) = (ns, part.slice, part);
        }
    }
    lines.sort_by_key(|(line, _)| Reverse(line.ns));
    for (line, longest) in lines.iter_mut().take(MAX_PARTS) {
        line.frame = frame(trace, ledger, &gap, longest, &Near::none()).map(str::to_owned);
    }
    lines.into_iter().map(|(line, _)| line).collect()
}

/// The parts in order of time, at most [`MAX_SEGMENTS`].
fn segments(ledger: &Ledger, index: usize) -> Vec<GapPart> {
    let first: Vec<GapPart> = ledger.parts(index).take(MAX_SEGMENTS + 1).collect();
    if first.len() <= MAX_SEGMENTS {
        return first;
    }
    let gap = ledger.time(index);
    let mut out: Vec<(GapPart, [DurNs; GapClass::N])> = Vec::new();
    let width = (gap.dur() / MAX_SEGMENTS as DurNs).max(1);
    for part in ledger.parts(index) {
        let end = out.last().map_or(gap.start, |last| last.0.time.start.saturating_add(width));
        if out.is_empty() || part.time.start >= end {
            out.push((GapPart { time: part.time, class: part.class, slice: None }, [0; GapClass::N]));
        }
        if let Some((segment, by_class)) = out.last_mut() {
            segment.time.end = part.time.end;
            by_class[part.class as usize] += part.time.dur();
            let most = |class: &GapClass| by_class[*class as usize];
            segment.class = GapClass::ALL.into_iter().max_by_key(most).unwrap_or_default();
        }
    }
    out.into_iter().map(|(segment, _)| segment).collect()
}

impl PartLine {
    /// How much of it no slice shows, and what tells of it then.
    pub fn inferred(&self) -> Option<String> {
        if self.on_cpu_ns > 0 {
            let ns = format::duration(self.on_cpu_ns);
            return Some(format!("for {ns} of it the thread ran on a CPU: it was busy, not waiting"));
        }
        inferred_text(self.class, self.inferred_ns)
    }
}

/// How much of the time of a class was concluded, and from what; `None` for no time.
pub fn inferred_text(class: GapClass, inferred_ns: DurNs) -> Option<String> {
    let is_load = class == GapClass::ModuleLoad;
    let why =
        if is_load { "pauses between calls that load, slow first launches" } else { "the thread was off the CPU" };
    (inferred_ns > 0).then(|| format!("{} of it inferred: {why}", format::duration(inferred_ns)))
}

impl GapFacts {
    /// That the launch had returned before the gap, if it had, and how long before.
    pub fn launched_before(&self, trace: &Trace) -> Option<String> {
        self.gap.launched_before(trace).map(|ns| format!("{} before the gap", format::duration(ns)))
    }

    /// What to do about it: for what went on for at least a tenth of it, the largest first. Nothing where they were not
    /// looked for.
    pub fn advice(&self) -> Vec<(GapClass, GapAdvice)> {
        if self.is_untold {
            return Vec::new();
        }
        let classes = self.classes.iter().filter(|(_, ns)| ns * 10 >= self.gap.time.dur()).map(|class| class.0);
        classes.map(|class| (class, advice(class, &self.run))).collect()
    }

    /// What to record to know more of it. Nothing where what was recorded was not looked at.
    pub fn to_record(&self) -> Vec<String> {
        if self.is_untold {
            return Vec::new();
        }
        let of_frame = if self.run.is_nsys { GapClass::Python } else { GapClass::Unknown };
        let classes = self.parts.iter().map(|line| line.class).chain(self.frame.is_none().then_some(of_frame));
        let mut all: Vec<String> = Vec::new();
        for text in classes.filter_map(|class| to_record(class, &self.run)) {
            if !all.contains(&text) {
                all.push(text);
            }
        }
        all
    }

    /// The page as text.
    ///
    /// * `offset`: from the trace's time to session time.
    pub fn text(&self, trace: &Trace, offset: DurNs) -> String {
        let mut out = String::new();
        let name = |slice: SliceId| escape::visible(trace.slice_name(slice)).into_owned();
        let dur = self.gap.time.dur();
        let start = format::duration(self.gap.time.start.saturating_add(offset));
        let mut line = |text: String| _ = writeln!(out, "{text}");
        line(format!("{}: idle for {} ({} ns) from {start}", self.device, format::duration(dur), dur));
        let share = |ns: DurNs| ns as f64 / dur.max(1) as f64 * 100.0;
        for &(class, ns) in &self.classes {
            line(format!("{:5.1} %  {:>12}  {}", share(ns), format::duration(ns), class.label()));
        }
        if let Some((step, time)) = &self.step {
            line(format!("{:.1} % of {}", dur as f64 / time.dur().max(1) as f64 * 100.0, escape::visible(step)));
        }
        if self.is_outside {
            line(OUTSIDE.to_owned());
        }
        if self.is_untold {
            line(untold());
        }
        if let Some((label, text)) = &self.trigger {
            line(format!("Trigger: {label}. {text}"));
        }
        if let Some(text) = &self.lost_lead {
            line(text.clone());
        }
        line(format!("{PARTS}:"));
        for part in &self.parts {
            let of = part.slice.map_or_else(String::new, |slice| format!(", {}", name(slice)));
            let share = share(part.ns);
            let inferred = part.inferred().map_or_else(String::new, |text| format!(", {text}"));
            let (duration, class) = (format::duration(part.ns), part.class.label());
            line(format!("  {share:5.1} %  {duration:>12}  {class}{of}{inferred}"));
        }
        line(format!("After: {}", name(self.gap.after)));
        line(format!("Ended by: {}", name(self.gap.ended_by)));
        let ahead = self.launched_before(trace).map_or_else(String::new, |text| format!(", {text}"));
        line(format!("Launched by: {}{ahead}", self.call.map_or_else(|| "not recorded".to_owned(), name)));
        for (title, path) in [("Operator", &self.operators), ("Host in the gap", &self.host)] {
            if !path.is_empty() {
                let path: Vec<String> = path.iter().rev().map(|&slice| name(slice)).collect();
                line(format!("{title}: {}", path.join(" > ")));
            }
        }
        if let Some(frame) = &self.frame {
            line(format!("Frame: {}", escape::visible(frame)));
        }
        if let Some(all) = &self.recurrence {
            line(all.sentence());
        }
        for (class, advice) in self.advice() {
            line(format!("{}:", class.label()));
            advice.fixes.iter().for_each(|fix| line(format!("  - {fix}")));
            line(format!("  Check: {}", advice.check));
        }
        self.to_record().into_iter().for_each(|text| line(format!("To know more: {text}")));
        out
    }
}

impl GapRecurrence {
    /// How often the gap comes back.
    pub fn sentence(&self) -> String {
        let (present, all) = self.steps;
        let total = format::duration(self.total_ns);
        let mut text = match self.count {
            1 => "The only gap of its kind".to_owned(),
            count => format!("One of {} gaps of this kind, {total} in all", format::count(count)),
        };
        match self.ns_per_step.filter(|_| all > 0) {
            Some(_) if present == 0 => text.push_str(", outside of the judged steps"),
            Some(ns) => {
                let steps = match self.n_all_steps > all {
                    true => format!("{present} of the {all} judged steps"),
                    false => format!("{present} of {}", format::steps(all)),
                };
                text.push_str(&format!(", in {steps}, {} per step", format::duration(ns)));
                if !self.is_counted {
                    text.push_str(". This one is in none of them");
                }
            }
            None => {}
        }
        if let Some(ns) = self.ceiling_ns_per_step.filter(|&ns| ns > 0) {
            text.push_str(&format!("; ending its cause saves at most {} per step", format::duration(ns)));
        }
        text
    }

    /// What the others that are listed are; empty if there are none.
    pub fn list_title(&self) -> String {
        let n = self.same.len();
        match (n, n + self.n_more) {
            (0, _) => String::new(),
            (n, all) if self.steps.1 == 0 && n < all => format!("The {n} longest of {all} others, in order of time:"),
            _ if self.steps.1 == 0 => "The others, in order of time:".to_owned(),
            (n, all) if n < all => format!("The longest gap of each of {n} of {all} other steps, in order of time:"),
            (1, _) => "The longest gap of the one other step that has it:".to_owned(),
            (n, _) => format!("The longest gap of each of the {n} other steps that have it, in order of time:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::busy::devices;
    use crate::analysis::gaps::Ground;
    use crate::model::{SliceKind, TraceBuilder};

    #[test]
    fn a_call_in_pieces_is_one_call() {
        // Two calls of an operator, the first in three pieces between two of another.
        let (operator, call) = (SliceKind::Operator, SliceKind::Runtime);
        let mut builder = TraceBuilder::from_slices(&[
            ("main", operator, "whole", 100_000, 400_000),
            ("main", operator, "inner", 150_000, 200_000),
            ("main", operator, "inner", 250_000, 300_000),
            ("main", operator, "whole", 400_000, 480_000),
            ("main", call, "cudaLaunchKernel", 490_000, 495_000),
            ("stream 7", SliceKind::Kernel, "gemm", 0, 100_000),
            ("stream 7", SliceKind::Kernel, "relu", 500_000, 600_000),
        ]);
        builder.slices[0].correlation = vec![0, 0, 0, 0, 1, 0, 1];
        let trace = builder.finish();
        let ledger = Ground::new(&trace).ledgers(&devices(&trace), None, &|| false).remove(0);
        let lines = part_lines(&trace, &ledger, 0);
        let name = |line: &PartLine| line.slice.map(|slice| trace.slice_name(slice).to_owned());
        let of = |wanted: &str| lines.iter().find(|line| name(line).as_deref() == Some(wanted)).unwrap();
        assert_eq!((of("whole").ns, of("whole").count), (280_000, 2), "{lines:?}");
        assert_eq!((of("inner").ns, of("inner").count), (100_000, 2));
    }
}
