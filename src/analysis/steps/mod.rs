//! Steps of a training or an inference loop (F7), for time ranges and for memory histories alike.

mod choice;
mod coverage;
mod device;
mod named;
mod parts;
mod period;
mod ranges;
mod recorded;
mod scope;
mod sequence;
#[cfg(test)]
mod tests;
mod updates;

use std::ops::Range;

use hashbrown::HashMap;

pub use self::choice::choose;
pub use self::coverage::Coverage;
pub use self::device::{Boundaries, DeviceSteps};
pub use self::named::{
    Division, MIN_ANCHORS, Named, PROFILER_STEP, annotations, device_divisions, divisions, is_step_name,
};
pub use self::parts::{DevicePart, StepParts, step_parts};
pub use self::period::{MIN_LENGTH, Period, common, periods, regularity};
pub use self::ranges::without_digits;
use self::scope::launchers;
pub use self::scope::{Scope, has_several_callers, launchers_on};
use super::totals::Durations;
use crate::model::{DurNs, ProcessId, SliceKind, TimeNs, TimeRange, Trace};

/// How steps were found.
#[derive(Clone, Debug, PartialEq)]
pub enum StepSource {
    /// The profiler's own `ProfilerStep#N`.
    ProfilerStep,
    /// Ranges that the program named and that repeat, such as `step_17`. Digits of the name are `#`. A step lasts
    /// from the start of one to the start of the next, the last one to its end.
    Ranges(String),
    /// An annotation that PyTorch records once per step, such as `Optimizer.step#AdamW.step`: a step lasts from
    /// the end of one to the end of the next.
    Annotation(String),
    /// The same ranges, as the profiler recorded them on a device: in a recording without those of the host.
    DeviceRanges(String),
    /// The period of a repeating sequence.
    Period {
        /// `allocations`, `collectives`, `device operations` or `operators`.
        items: &'static str,
        /// Items of one step.
        length: usize,
        /// Share of items that also occur in the previous step, or belong to the first step.
        share: f64,
    },
    /// Updates of the parameters, each after several micro batches.
    Updates {
        /// Micro batches of one step.
        every: usize,
        /// What the micro batches were found by.
        of: Box<Self>,
    },
    /// Marks set by the user.
    Marks,
}

impl StepSource {
    /// Whether the boundaries are times of the host. Periods are of what ran on the device, and marks are where a
    /// person sees a step.
    pub fn is_of_host(&self) -> bool {
        match self {
            Self::Updates { of, .. } => of.is_of_host(),
            Self::ProfilerStep | Self::Ranges(_) | Self::Annotation(_) => true,
            Self::DeviceRanges(_) | Self::Period { .. } | Self::Marks => false,
        }
    }

    /// Whether the boundaries are times of a device.
    pub fn is_of_device(&self) -> bool {
        !self.is_of_host() && !matches!(self, Self::Marks)
    }

    /// Short description for the user.
    pub fn label(&self) -> String {
        match self {
            Self::ProfilerStep => "ProfilerStep annotations".to_owned(),
            Self::Ranges(name) => format!("ranges named {name}"),
            Self::DeviceRanges(name) => format!("annotations {name} on the GPU"),
            Self::Annotation(name) => format!("{name} annotations"),
            Self::Period { items, length, share } => {
                format!("repetition every {length} {items} ({:.0} % of all repeat)", share * 100.0)
            }
            Self::Updates { every, of } => format!("updates, each after {every} micro batches by {}", of.label()),
            Self::Marks => "marks".to_owned(),
        }
    }
}

/// Consecutive steps.
///
/// * `B`: unit of the boundaries: trace time, or states of a memory history.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps<B = TimeNs> {
    pub source: StepSource,
    /// One more than the number of steps, ascending: step `k` lasts from `boundaries[k]` to `boundaries[k + 1]`.
    pub boundaries: Vec<B>,
    /// One per step.
    pub names: Vec<String>,
    /// Share of steps whose length is within a tenth of the median plus the slack of [`Self::new`]; for sequences in
    /// time, the share that repeats the items of the one before, whatever they take: at least 95 % of them.
    pub regularity: f64,
    /// The steps that statistics are of; see `used` and `recorded`.
    pub used: Range<usize>,
    /// How many ranges that would be steps lie in what the program calls its warm-up; they are none of these.
    pub n_warm_up: usize,
    /// The time of each step; empty without times. A step that the profiler named ends where its range does, a few
    /// microseconds before the next boundary.
    pub times: Vec<TimeRange>,
    /// Durations of the used steps, see [`Self::is_of_completions`]. `None` without times.
    pub durations: Option<Durations>,
    /// Median difference of their durations from the median, in nanoseconds.
    deviation_ns: DurNs,
    /// Whether some at the end do not count since the file lost a part of what was recorded of them.
    pub has_lost: bool,
    /// Whether they may as well be layers of one pass: they repeat, but nothing says that a whole step does.
    is_guess: bool,
    /// Another source that finds a different number of steps, and that number.
    pub disagreement: Option<(StepSource, usize)>,
    /// The devices of the trace; empty for marks and memory histories.
    devices: Vec<DeviceSteps>,
    /// When the devices had completed what was launched before each boundary; empty where the host does not run ahead.
    completions: Vec<TimeNs>,
    /// The same as times of the steps; empty with them.
    on_devices: Vec<TimeRange>,
}

/// Part of a step by which the host must be ahead of the devices for its ranges not to tell how long steps take.
const AHEAD: DurNs = 10;
/// A first or last piece that is shorter than this part of the median is not a whole step.
const REMNANT: u64 = 10;
/// Each step of a warm-up takes at least so many times as long as any after it.
const WARM_UP: u64 = 2;
/// A warm-up has at most so many steps, and at most one of so many.
const MAX_WARM_UP: usize = 5;
const WARM_UP_PART: usize = 4;
/// Makes the median absolute deviation of a normal distribution its standard deviation.
const SCALE_OF_MAD: f64 = 1.4826;
/// Regularity below which no alarm may rest on steps without names.
const MIN_REGULARITY: f64 = 0.8;

impl<B: Copy + Into<i64>> Steps<B> {
    /// * `names`: names of the steps; default `Step 1` and so on.
    /// * `slack`: allowed difference in length in addition to a tenth, in the unit of the boundaries.
    /// * `time_of`: the time of a boundary, if there are times.
    pub fn new(
        source: StepSource,
        boundaries: Vec<B>,
        names: Option<Vec<String>>,
        slack: u64,
        time_of: Option<&dyn Fn(B) -> TimeNs>,
    ) -> Self {
        let n = boundaries.len().saturating_sub(1);
        let mut extents: Vec<u64> = boundaries.windows(2).map(|pair| pair[0].into().abs_diff(pair[1].into())).collect();
        let used = used(&source, &extents, time_of.is_some());
        extents.sort_unstable();
        let median = extents.get(n / 2).copied().unwrap_or_default();
        let alike = extents.iter().filter(|&&extent| extent.abs_diff(median) <= median / 10 + slack).count();
        let time =
            |pair: &[B], time_of: &dyn Fn(B) -> TimeNs| TimeRange { start: time_of(pair[0]), end: time_of(pair[1]) };
        let mut steps = Self {
            source,
            regularity: alike as f64 / n.max(1) as f64,
            used,
            n_warm_up: 0,
            times: time_of
                .map(|time_of| boundaries.windows(2).map(|pair| time(pair, time_of)).collect())
                .unwrap_or_default(),
            boundaries,
            names: names.unwrap_or_else(|| (1..=n).map(|step| format!("Step {step}")).collect()),
            durations: None,
            deviation_ns: 0,
            has_lost: false,
            is_guess: false,
            disagreement: None,
            devices: Vec::new(),
            completions: Vec::new(),
            on_devices: Vec::new(),
        };
        if time_of.is_some() {
            steps.measure();
        }
        steps
    }

    /// Sets the share of steps that repeat each other.
    #[must_use]
    pub fn with_regularity(self, regularity: f64) -> Self {
        Self { regularity, ..self }
    }

    /// Says that they may as well be layers of one pass.
    #[must_use]
    pub fn as_guess(self) -> Self {
        Self { is_guess: true, ..self }
    }

    /// Sets the recorded times of the steps.
    fn set_times(&mut self, times: Vec<TimeRange>) {
        self.times = times;
        self.measure();
    }

    /// Takes statistics of the first `n` steps at most.
    fn leave_out_from(&mut self, n: usize) {
        if n < self.used.end {
            self.used = self.used.start.min(n)..n;
            self.measure();
        }
    }

    /// Takes over how the devices see the steps, and measures these from completion to completion where the host runs
    /// ahead of the slowest device by more than a tenth of a step at most of the boundaries: there the host's ranges
    /// tell how fast it fills a queue, not how long steps take.
    fn set_devices(&mut self, devices: Vec<DeviceSteps>, boundaries: &[TimeNs]) {
        self.completions = device::completions(&devices, boundaries);
        self.devices = devices;
        let counted = self.used.start..self.used.end + 1;
        let behind = |range: Range<usize>| -> DurNs {
            let mut all: Vec<DurNs> = range.map(|k| self.completions[k] - boundaries[k]).collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied().unwrap_or_default()
        };
        let typical = self.durations.map_or(0, |durations| durations.median_ns);
        if self.completions.is_empty() || self.used.is_empty() || AHEAD * behind(counted) <= typical {
            self.completions.clear();
            return;
        }
        let time = |pair: &[TimeNs]| TimeRange { start: pair[0], end: pair[1] };
        self.on_devices = self.completions.windows(2).map(time).collect();
        self.measure();
    }

    /// The time of each step in which its own work runs, to select and to draw: where the host runs ahead of the
    /// devices, from the completion of the step before on the slowest of them to its own, since in its range on the
    /// host they run the work of earlier steps; else [`Self::times`].
    pub fn extents(&self) -> &[TimeRange] {
        if self.is_of_completions() { &self.on_devices } else { &self.times }
    }

    /// The step whose extent is exactly this time.
    pub fn at(&self, time: TimeRange) -> Option<usize> {
        let step = self.extents().partition_point(|extent| extent.start < time.start);
        (self.extents().get(step) == Some(&time)).then_some(step)
    }

    /// Whether durations are from the devices' completion of one step to that of the next, since the host runs ahead of
    /// them; else they are those of [`Self::times`].
    pub fn is_of_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// The duration that statistics are of; `None` without times.
    fn duration(&self, step: usize) -> Option<DurNs> {
        match self.completions.get(step..step + 2) {
            Some(pair) => Some(pair[1] - pair[0]),
            None => self.times.get(step).map(|time| time.dur()),
        }
    }

    /// Computes the statistics of the used steps.
    fn measure(&mut self) {
        let mut all: Vec<DurNs> = self.used.clone().filter_map(|step| self.duration(step)).collect();
        let durations = Durations::of(&mut all);
        all.iter_mut().for_each(|dur| *dur = (*dur - durations.median_ns).abs());
        self.deviation_ns = Durations::of(&mut all).median_ns;
        self.durations = Some(durations);
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether what repeats may be layers of a pass as well, which no verdict may rest on.
    pub fn may_be_layers(&self) -> bool {
        self.is_guess
    }

    /// Whether a verdict, an alarm, an exit code or a time to out of memory may rest on them: they have names, or
    /// whole steps repeat with little difference.
    pub fn is_reliable(&self) -> bool {
        !matches!(self.source, StepSource::Period { .. }) || self.regularity >= MIN_REGULARITY && !self.is_guess
    }

    /// Half the width of the 95 % t-interval of the mean duration of the used steps, in nanoseconds; `None` for
    /// fewer than two.
    pub fn ci95_ns(&self) -> Option<DurNs> {
        let durations = self.durations?;
        let n = durations.calls;
        Some((t_975(n.checked_sub(1)?) * durations.std_ns? as f64 / (n as f64).sqrt()).round() as DurNs)
    }

    /// Whether the duration of a step differs from the median of the used ones by more than three scaled median
    /// absolute deviations and by more than a twentieth of the median, of at least four.
    pub fn is_outlier(&self, step: usize) -> bool {
        let (Some(durations), Some(dur)) = (self.durations, self.duration(step)) else { return false };
        let difference = dur.abs_diff(durations.median_ns);
        durations.calls >= 4
            && difference > durations.median_ns.unsigned_abs() / 20
            && difference as f64 > 3.0 * SCALE_OF_MAD * self.deviation_ns as f64
    }

    /// From the first boundary to the last.
    fn extent(&self) -> u64 {
        let ends = self.boundaries.last().zip(self.boundaries.first());
        ends.map_or(0, |(&end, &start)| end.into().abs_diff(start.into()))
    }
}

/// The steps that statistics are of: without the first, which includes warm-up, or the first ones that take at least
/// twice as long as any later one, and without the profiler's last
/// `ProfilerStep#N`, in which it stops.
///
/// Where the program names its warm-up, which is none of the steps, the first is left out as well: that need not have
/// run all that a step does, such as a backward pass, and one of many that are alike changes no mean.
///
/// With fewer than four steps too little would be left: then only a last step of the profiler is dropped that is
/// shorter than half of the one before, which the profiler opens and stops in. Marks are the user's choice: all are
/// used.
///
/// Ranges and periods cut what they find: the last piece may be what ran after the loop, or a step that the recording
/// cut off. So may the first. Such a piece is dropped where it is shorter than a tenth of the median of at least three
/// steps and none but the two at the ends is as short.
///
/// * `extents`: the length of each step.
/// * `has_times`: whether that is time, of which a warm-up of several steps takes much.
fn used(source: &StepSource, extents: &[u64], has_times: bool) -> Range<usize> {
    let n = extents.len();
    let is_profilers = match source {
        StepSource::ProfilerStep => true,
        StepSource::DeviceRanges(name) => name == PROFILER_STEP,
        _ => false,
    };
    let is_stub = is_profilers && n > 1 && extents[n - 1] < extents[n - 2] / 2;
    let used = match source {
        StepSource::Marks => 0..n,
        _ if n >= 4 => {
            let end = n - usize::from(is_profilers);
            if has_times { warm_up(extents, end).max(1)..end } else { 1..end }
        }
        _ => 0..n - usize::from(is_stub),
    };
    let is_cut = matches!(source, StepSource::Ranges(_) | StepSource::DeviceRanges(_) | StepSource::Period { .. });
    if !is_cut || n < 3 {
        return used;
    }
    let mut sorted = extents.to_vec();
    let median = *sorted.select_nth_unstable(n / 2).1;
    let is_short = |step: usize| extents[step] < median / REMNANT;
    if (1..n - 1).any(is_short) {
        return used;
    }
    let start = used.start.max(usize::from(is_short(0)));
    start..used.end.min(n - usize::from(is_short(n - 1)))
}

/// How many steps at the start are a warm-up by their length, the first of which may be cut off; 0 for none.
///
/// * `end`: of those that count.
fn warm_up(extents: &[u64], end: usize) -> usize {
    let most = (extents.len() / WARM_UP_PART).min(MAX_WARM_UP);
    let is_end = |&n: &usize| {
        let (before, after) = (extents[1..n].iter().min(), extents[n..end].iter().max());
        before.zip(after).is_some_and(|(before, after)| *before >= after.saturating_mul(WARM_UP))
    };
    (2..=most).rev().find(is_end).unwrap_or_default()
}

/// The 97.5 % quantile of Student's t-distribution with `df` degrees of freedom; 0 for none.
///
/// From a table up to 8, above by the expansion in the normal quantile of Abramowitz and Stegun 26.7.5, whose error is
/// below 0.001 % there.
pub fn t_975(df: u64) -> f64 {
    const EXACT: [f64; 9] =
        [0.0, 12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004];
    const Z: f64 = 1.959_963_985;
    if let Some(&exact) = EXACT.get(df as usize) {
        return exact;
    }
    let n = df as f64;
    let z2 = Z * Z;
    let terms = [
        (z2 + 1.0) / 4.0,
        ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0,
        (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0,
        ((((79.0 * z2 + 776.0) * z2 + 1482.0) * z2 - 1920.0) * z2 - 945.0) / 92_160.0,
    ];
    Z * terms.iter().rev().fold(0.0, |sum, term| (sum + term) / n) + Z
}

/// The steps of a trace, by the first of these sources that fits:
///
/// 1. `ProfilerStep#N`;
/// 2. ranges that the program named as steps, or numbered as such: `step_17`, `iteration 5`, `train_step`,
///    `execute_context_…`;
/// 3. what PyTorch names once a step: `Optimizer.step#`, `Optimizer.zero_grad#`, `enumerate(DataLoader)#`; of several
///    optimizers that take turns, all together once;
/// 4. other ranges that repeat regularly, or take turns, and cover the work, such as `## forward ##`, or what comes once
///    a pass, such as `loss`, between others that come evenly. They come after the optimizer, since they may be parts of a step
///    when gradients are accumulated;
/// 5. the period of the sequence of collectives, of device operations, or of operators.
///
/// Where each `Optimizer.step#` follows equally many of the ranges of 2, these are micro batches: the optimizer counts.
/// So do updates that only kernels, operators or other ranges show, see `updates`.
/// A recording of a device alone has the names of 1 to 4 as annotations of its streams.
///
/// * A recording of one pass has no steps: its layers repeat as steps do, see `sequence`.
/// * Where several processes launch work, as under one nsys, each has its own steps, and each device those of the
///   process that has most of the work on it, or none if that has none. The result is of the process with most work
///   that has steps.
/// * Cost: O(n log n) for n slices and strings. `None` once cancelled.
pub fn steps(trace: &Trace, is_cancelled: &dyn Fn() -> bool) -> Option<Steps> {
    let mut scopes = launchers(trace);
    if scopes.is_empty() {
        scopes.push(Scope::default());
    }
    let all: Vec<Option<Steps>> = scopes.iter().map(|scope| steps_in(trace, scope, is_cancelled)).collect();
    let main = all.iter().flatten().next()?;
    let devices = (0..trace.processes.len() as u32).map(ProcessId).filter(|&id| trace.process(id).device.is_some());
    let mut scope_of: HashMap<ProcessId, usize> = HashMap::new();
    for (at, scope) in scopes.iter().enumerate() {
        for &process in scope.processes() {
            scope_of.entry(process).or_insert(at);
        }
    }
    let of_device = |device: ProcessId| match scope_of.get(&device) {
        Some(&own) => DeviceSteps::new(trace, device, &scopes[own], all[own].as_ref()),
        None => DeviceSteps::new(trace, device, &Scope::default(), Some(main)),
    };
    let devices = devices.map(of_device).collect();
    let mut steps = main.clone();
    steps.set_devices(devices, &main.boundaries);
    Some(steps)
}

/// The steps of some processes and their devices.
fn steps_in(trace: &Trace, scope: &Scope, is_cancelled: &dyn Fn() -> bool) -> Option<Steps> {
    let is_named = trace.slices.has_kind(SliceKind::Annotation);
    let coverage = || is_named.then(|| Coverage::of(trace, scope));
    let (named, coverage) = rayon::join(|| annotations(trace, scope), coverage);
    let found = match named.is_empty() {
        true => device_divisions(trace, scope),
        false => divisions(&named, &coverage.unwrap_or_else(|| Coverage::of(trace, scope))),
    };
    let found = choose(found.into_iter().map(Division::in_time).collect())
        .or_else(|| sequence::steps(trace, scope, is_cancelled))?;
    let mut found = updates::joined(trace, scope, found);
    if found.source.is_of_host() {
        found.leave_out_from(recorded::n_recorded(trace, scope, &found.boundaries));
    }
    if let Some(n) = recorded::n_whole(trace, scope, &found) {
        found.has_lost = n < found.used.end;
        found.leave_out_from(n);
    }
    Some(found)
}

/// The steps between marks set by the user, in trace time and any order; `None` for fewer than two distinct marks.
pub fn marked(marks: &[TimeNs]) -> Option<Steps> {
    Division::of_marks(marks).map(Division::in_time)
}
