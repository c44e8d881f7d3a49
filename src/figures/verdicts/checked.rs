//! The judged time, and the measurement of every rule, found or not.

use super::unit;
use crate::analysis::breakdown::breakdown;
use crate::analysis::busy::DeviceBusy;
use crate::analysis::finding::Unit;
use crate::analysis::rules::{Basis, Check, Kind, Levels, Thresholds, Verdicts, Window};
use crate::analysis::steps::Steps;
use crate::figures::findings::value;
use crate::figures::steps::{found_by, left_out};
use crate::figures::{Cell, Part, figures, format};
use crate::model::{DurNs, TimeRange, Trace};

/// What one rule measured, beside its threshold.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    pub rank: Option<u32>,
    pub check: Check,
    pub levels: Levels,
    /// As they are unless they are set.
    pub defaults: Levels,
}

impl Checked {
    /// All checks of a trace.
    pub fn all(verdicts: &Verdicts, trace: &Trace, thresholds: &Thresholds) -> Vec<Self> {
        let defaults = Thresholds::default();
        let checked = |&check: &Check| Self {
            rank: trace.info.rank,
            check,
            levels: check.rule.levels(thresholds),
            defaults: check.rule.levels(&defaults),
        };
        verdicts.checks.iter().map(checked).collect()
    }

    /// The rule, what it measured, and where findings begin: `GPU 0, Data loading: 1.2 % (below 5.0 % is fine)`.
    pub fn text(&self) -> String {
        let rank = self.rank.map(|rank| format!("Rank {rank}, ")).unwrap_or_default();
        let device = self.check.device.map(|device| format!("GPU {device}, ")).unwrap_or_default();
        let (rule, measured) = (self.check.rule.label(), value(self.check.measured, unit(self.check.rule)));
        format!("{rank}{device}{rule}: {measured} ({} is fine)", self.limit())
    }

    /// Where findings begin.
    fn threshold(&self) -> f64 {
        self.first(&self.levels)
    }

    /// The same by default, if it was changed.
    fn default_threshold(&self) -> Option<f64> {
        Some(self.first(&self.defaults)).filter(|default| default.to_bits() != self.threshold().to_bits())
    }

    fn first(&self, levels: &Levels) -> f64 {
        if self.check.rule.is_low() { levels.warn.unwrap_or_default() } else { levels.first() }
    }

    fn limit(&self) -> String {
        let sign = if self.check.rule.is_low() { "at least" } else { "below" };
        format!("{sign} {}", level(self.threshold(), self.default_threshold(), unit(self.check.rule)))
    }
}

/// A level, and what it is by default if that is something else: `3.0 % (5.0 % by default)`.
pub fn level(level: f64, default: Option<f64>, unit: Unit) -> String {
    let default = default.map_or_else(String::new, |default| format!(" ({} by default)", value(default, unit)));
    format!("{}{default}", value(level, unit))
}

/// A threshold with its unit.
pub fn limit_text(limit: f64, kind: Kind) -> String {
    match kind {
        Kind::Share => value(limit, Unit::Share),
        Kind::Ratio => value(limit, Unit::Ratio),
        Kind::Count => value(limit, Unit::Count),
        Kind::Time => format::duration(limit as DurNs),
        Kind::Bytes => value(limit, Unit::Bytes),
    }
}

/// What is one part of so many of a recording is much of it.
const MUCH: DurNs = 20;

/// The time of one device that was judged.
#[derive(Clone, Debug)]
pub struct JudgedTime<'a> {
    /// Where the rank is ambiguous.
    pub file: Option<&'a str>,
    pub rank: Option<u32>,
    pub window: &'a Window,
    /// What the recording was divided into.
    pub steps: Option<&'a Steps>,
    /// When the device worked, if it is of one.
    pub busy: Option<&'a DeviceBusy>,
    /// The time of all that was recorded of the program and its devices.
    pub recorded: TimeRange,
    /// Of the trace on the session clock.
    pub offset: DurNs,
}

impl JudgedTime<'_> {
    fn share(&self) -> f64 {
        self.window.time.dur() as f64 / self.window.whole.dur().max(1) as f64
    }

    fn n_steps(&self) -> usize {
        self.window.steps.len()
    }

    fn words(&self) -> String {
        match self.not_judged() {
            None => self.judged(),
            Some(not_judged) => format!("{}; not judged: {not_judged}", self.judged()),
        }
    }

    /// What is not judged of the recording, where that is much.
    pub fn not_judged(&self) -> Option<String> {
        let steps = self.steps.zip(self.busy).filter(|_| self.window.basis == Basis::Steps);
        let work = steps.and_then(|(steps, busy)| work_outside(steps, busy));
        let all: Vec<String> = work.into_iter().chain(self.without_work()).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// How long the program ran before the first work of the device and after its last, where that is much of the
    /// recording: a program that starts, or has ended, does not make a device wait.
    fn without_work(&self) -> Option<String> {
        let &Window { device, whole, basis, .. } = self.window;
        if device.is_none() || basis.is_range() {
            return None;
        }
        let before = whole.start.saturating_sub(self.recorded.start);
        let after = self.recorded.end.saturating_sub(whole.end);
        let [before, after] =
            [before, after].map(|ns| (ns >= self.recorded.dur() / MUCH).then(|| format::duration(ns)));
        Some(match (before, after) {
            (Some(before), Some(after)) => {
                format!("{before} before the first work of the device and {after} after its last")
            }
            (Some(before), None) => format!("{before} before the first work of the device"),
            (None, Some(after)) => format!("{after} after the last work of the device"),
            (None, None) => return None,
        })
    }

    fn judged(&self) -> String {
        match self.window.basis {
            Basis::Range => "the selected time".to_owned(),
            Basis::RangeOfWork => "the selected time between first and last work".to_owned(),
            Basis::ChosenStep => "the selected step".to_owned(),
            Basis::Steps => self.steps.map_or_else(String::new, |steps| of_steps(self.n_steps(), steps)),
            Basis::AfterStartUp => format!("after start-up; {}", self.without_steps()),
            Basis::StartUp => "start-up".to_owned(),
            Basis::Work => format!("all between first and last work, start-up included; {}", self.without_steps()),
            Basis::All => format!("everything, start-up included; {}", self.without_steps()),
        }
    }

    /// Why no steps were judged.
    fn without_steps(&self) -> String {
        match self.steps.filter(|steps| steps.is_reliable() && steps.used.is_empty()) {
            Some(steps) => format!("no step of {} by {} is whole", format::count(steps.len() as u64), found_by(steps)),
            None => "no steps were found".to_owned(),
        }
    }
}

/// How long a device worked before the first step and after the last, where that is much of its work.
fn work_outside(steps: &Steps, busy: &DeviceBusy) -> Option<String> {
    let steps = steps.on(busy.process).on_device()?;
    let before = TimeRange { start: busy.window.start, end: steps.start };
    let after = TimeRange { start: steps.end, end: busy.window.end };
    let worked = |time: TimeRange| if time.start < time.end { time.dur() - breakdown(busy, time).idle_ns } else { 0 };
    let told = |(time, when)| {
        let ns = worked(time);
        let share = value(ns as f64 / busy.busy_ns.max(1) as f64, Unit::Share);
        (ns > 0 && ns >= busy.busy_ns / MUCH)
            .then(|| format!("{} of the work of the device {when} ({share})", format::duration(ns)))
    };
    let parts = [(before, "before the first step"), (after, "after the last step")].into_iter().filter_map(told);
    parts.reduce(|before, after| format!("{before}, and {after}"))
}

/// How many steps were judged, of how many, and why the others were not: `9 of 10 steps by ranges named Forward, beside
/// 5 in the program's warm-up; left out: the first, which may still hold warm-up`.
fn of_steps(n_judged: usize, steps: &Steps) -> String {
    let found = steps.len();
    let [first, last] = left_out(steps);
    // The device may see fewer.
    let n_left_out = steps.used.start + found.saturating_sub(steps.used.end);
    let rest = found.saturating_sub(n_judged + n_left_out);
    let rest = (rest > 0).then(|| format!("{} of which the device ran too little", format::count(rest as u64)));
    let out: Vec<String> = first.into_iter().chain(last).chain(rest).collect();
    let by = found_by(steps);
    if out.is_empty() {
        return format!("{} by {by}", format::steps(n_judged));
    }
    format!("{} of {} by {by}; left out: {}", format::count(n_judged as u64), format::steps(found), out.join(", "))
}

/// Which time of each device the rules judged.
pub fn judged<'a>() -> Part<JudgedTime<'a>> {
    let figures = figures! { row: JudgedTime<'a>;
        words "file", "File", 140, Cell::or_empty(row.file, Cell::name), "The file, where the rank is ambiguous";
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::number(row.window.device), "Index of the device";
        words "basis", "By", 90, Cell::name(row.window.basis.key()),
            "range, steps (the judged ones), after_start_up, or all";
        words "text", "What was judged", 200, Cell::name(&row.words()), "Which time the rules judged, and which steps \
            they left out";
        number "start_ns", "Start", 96, Cell::Ns(row.window.time.start.saturating_add(row.offset)),
            "When it begins, from the start of the session";
        number "dur_ns", "Duration", 90, Cell::Ns(row.window.time.dur()), "How long it is";
        number "share", "Share", 70, Cell::Share(row.share()),
            "Share of the time from the first to the last work of the device";
        number "steps", "Steps", 60,
            Cell::or_empty((row.n_steps() > 0).then_some(row.n_steps() as u64), Cell::Count), "Steps in it";
        number "start_up_ns", "Start-up", 90, Cell::or_empty(row.window.start_up(), |time| Cell::Ns(time.dur())),
            "Left out before it: until the last of the kernels that repeat runs for the first time";
    };
    Part::new("judged", "Judged time", figures)
        .report("file rank device text start_ns dur_ns share steps start_up_ns")
        .json("rank device basis start_ns dur_ns share steps start_up_ns")
}

/// Every rule that was applied, whatever it found.
pub fn checks() -> Part<Checked> {
    let figures = figures! { row: Checked;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::number(row.check.device), "Index of the device";
        words "rule", "Rule", 130, Cell::name(row.check.rule.key()), "What was judged";
        number "measured", "Measured", 0, Cell::Plain(row.check.measured), "The measured value";
        number "threshold", "Threshold", 0, Cell::Plain(row.threshold()), "Where findings begin";
        number "default_threshold", "Default", 0, Cell::or_empty(row.default_threshold(), Cell::Plain),
            "Where findings begin by default, if that was changed";
        words "shown", "Measured", 90, Cell::name(&value(row.check.measured, unit(row.check.rule))), "The measured \
            value";
        words "limit", "No finding if", 90, Cell::name(&row.limit()), "Where findings begin, whatever their severity";
    };
    Part::new("checks", "Checked", figures)
        .report("rank device rule shown limit")
        .json("rank device rule measured threshold default_threshold")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::busy::devices;
    use crate::analysis::steps::marked;
    use crate::model::{SliceKind, TraceBuilder};

    #[test]
    fn a_recording_that_is_longer_than_the_work_of_its_device_is_said() {
        let whole = TimeRange { start: 100, end: 200 };
        let words = |basis, recorded| {
            let window = Window { device: Some(0), whole, time: whole, basis, ..Window::default() };
            let judged =
                JudgedTime { file: None, rank: None, window: &window, steps: None, busy: None, recorded, offset: 0 };
            judged.words()
        };
        let all = "all between first and last work, start-up included; no steps were found";
        assert_eq!(words(Basis::Work, TimeRange { start: 96, end: 204 }), all);
        let before = "100 ns before the first work of the device";
        assert_eq!(words(Basis::Work, TimeRange { start: 0, end: 204 }), format!("{all}; not judged: {before}"));
        let both = TimeRange { start: 0, end: 300 };
        assert_eq!(words(Basis::Work, both), format!("{all}; not judged: {before} and 100 ns after its last"));
        let after = "100 ns after the last work of the device";
        assert_eq!(words(Basis::Work, TimeRange { start: 98, end: 300 }), format!("{all}; not judged: {after}"));
        assert_eq!(words(Basis::Range, both), "the selected time");
    }

    #[test]
    fn steps_of_which_none_is_whole_are_no_lack_of_steps() {
        let time = TimeRange { start: 0, end: 30 };
        let mut steps = marked(&[0, 10, 20, 30]).unwrap();
        steps.used = 0..0;
        let words = |basis, steps| {
            let window = Window { device: Some(0), whole: time, time, basis, ..Window::default() };
            let recorded = time;
            JudgedTime { file: None, rank: None, window: &window, steps, busy: None, recorded, offset: 0 }.words()
        };
        assert_eq!(words(Basis::AfterStartUp, Some(&steps)), "after start-up; no step of 3 by marks is whole");
        assert_eq!(words(Basis::AfterStartUp, None), "after start-up; no steps were found");
    }

    #[test]
    fn work_of_a_device_outside_of_all_steps_is_said_where_it_is_much() {
        // Three steps of a device that works all the time but for half of the time before them.
        let words = |before: i64, after: i64| {
            let names = [0, 1, 2].map(|i| format!("ProfilerStep#{i}"));
            let (kernel, note) = (SliceKind::Kernel, SliceKind::Annotation);
            let steps = (0..).zip(&names).map(|(i, name)| ("main", note, &**name, 100 * i, 100 * i + 100));
            let mut slices: Vec<_> = steps.collect();
            slices.push(("stream 7", kernel, "early", -2 * before, -before));
            slices.extend((0..6).map(|i| ("stream 7", kernel, "gemm", 50 * i, 50 * i + 50)));
            slices.push(("stream 7", kernel, "late", 300, 300 + after));
            let trace = TraceBuilder::from_slices(&slices).finish();
            let steps = crate::analysis::steps::steps(&trace, &|| false).unwrap();
            work_outside(&steps, &devices(&trace)[0])
        };
        assert_eq!(words(1, 1), None);
        assert_eq!(words(99, 1).as_deref(), Some("99 ns of the work of the device before the first step (24.8 %)"));
        assert_eq!(
            words(60, 40).as_deref(),
            Some(
                "60 ns of the work of the device before the first step (15.0 %), and 40 ns of the work of the device after \
                 the last step (10.0 %)"
            )
        );
    }

    #[test]
    fn steps_that_are_left_out_are_counted_with_the_reason() {
        let steps = |n: i64, used, n_warm_up| {
            let mut steps = marked(&(0..=n).map(|i| i * 1_000).collect::<Vec<_>>()).unwrap();
            (steps.used, steps.n_warm_up) = (used, n_warm_up);
            steps
        };
        assert_eq!(of_steps(10, &steps(10, 0..10, 0)), "10 steps by marks");
        let all = "9 of 10 steps by marks, beside 5 in the program's warm-up; left out: the first, which may still \
                   hold warm-up";
        assert_eq!(of_steps(9, &steps(10, 1..10, 5)), all);
        let beside = "10 steps by marks, beside 1 in the program's warm-up";
        assert_eq!(of_steps(10, &steps(10, 0..10, 1)), beside);
        let ends = "3 of 5 steps by marks; left out: the first, which may hold warm-up or be cut off, the last, in \
                    which the recording ends";
        assert_eq!(of_steps(3, &steps(5, 1..4, 0)), ends);
        assert_eq!(
            of_steps(3, &steps(5, 0..5, 0)),
            "3 of 5 steps by marks; left out: 2 of which the device ran too little"
        );
    }
}
