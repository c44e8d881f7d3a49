//! The time of a device that the rules judge.

mod pace;

use hashbrown::HashMap;

pub use self::pace::same_steps;
use super::Measured;
use crate::analysis::busy::DeviceBusy;
use crate::analysis::content::worked;
use crate::analysis::gaps::clusters::counted_boundaries;
use crate::analysis::gaps::{GapClass, Ledger};
use crate::analysis::steps::Boundaries;
use crate::model::{DurNs, ProcessId, SliceKind, StringId, TimeNs, TimeRange, Trace};

/// Share of the launches whose kernels may run for the first time after the start-up: an evaluation, a checkpoint.
const LATE: f64 = 0.05;
/// Share of the launches that must come after the start-up: else there is no loop that it precedes.
const LOOP: f64 = 0.5;
/// Share of a device's time that loading must take for a start-up.
const LOADING: f64 = 0.05;

/// Share of a step that comes after the first work of the device at least, if its begin counts.
const INSIDE: f64 = 0.9;
/// Share of a range that its whole steps take at least, if it is one or more steps.
const WHOLE: f64 = 0.99;

/// Why a window is what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// The user's choice.
    Range,
    /// The part of it between the first and the last work of the device.
    RangeOfWork,
    /// A step that the user chose, as the device sees it.
    ChosenStep,
    /// The judged steps.
    Steps,
    /// Without steps, what follows the start-up.
    AfterStartUp,
    /// Without steps, everything between the first and the last work of the device.
    Work,
    /// The whole recording, of one without devices.
    #[default]
    All,
    /// What precedes the time that is judged.
    StartUp,
}

impl Basis {
    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Range | Self::RangeOfWork | Self::ChosenStep => "range",
            Self::Steps => "steps",
            Self::AfterStartUp => "after_start_up",
            Self::Work | Self::All => "all",
            Self::StartUp => "start_up",
        }
    }

    /// Whether a person chose it.
    pub fn is_range(self) -> bool {
        matches!(self, Self::Range | Self::RangeOfWork | Self::ChosenStep)
    }
}

/// The time that is judged, in trace time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Index of the device; `None` for a recording without any.
    pub device: Option<u32>,
    pub time: TimeRange,
    /// All time from the first to the last work of the device, or of the recording without devices.
    pub whole: TimeRange,
    pub basis: Basis,
    /// The steps within, as the device sees them; see [`Steps::on`](crate::analysis::steps::Steps::on). Of a range only
    /// if it is one or more whole steps.
    pub steps: Vec<TimeRange>,
    /// The same steps on the host.
    pub host_steps: Vec<TimeRange>,
}

impl Window {
    /// How long a step takes, as all that is said per step counts it: the judged time by the steps in it, which ends
    /// with the last work of the device where that is before the last step does. Of a range, which may hold parts of
    /// steps, the mean of its whole ones. `None` without steps.
    pub fn step_ns(&self) -> Option<DurNs> {
        let n = self.steps.len() as DurNs;
        let all = match self.basis {
            Basis::Range | Basis::RangeOfWork => self.steps.iter().map(|step| step.dur()).sum(),
            _ => self.time.dur(),
        };
        (n > 0).then(|| all / n)
    }

    /// How long a step takes with the time before the first work of the device and after its last, in which it need not
    /// wait for anything, where that is clearly longer than [`Self::step_ns`].
    pub fn whole_step_ns(&self) -> Option<DurNs> {
        let whole = self.steps.iter().map(|step| step.dur()).sum::<DurNs>() / self.steps.len().max(1) as DurNs;
        Some(whole).filter(|&whole| self.step_ns().is_some_and(|ns| (ns as f64) < whole as f64 * WHOLE))
    }

    /// What was left out as start-up.
    pub fn start_up(&self) -> Option<TimeRange> {
        (self.basis == Basis::AfterStartUp).then_some(TimeRange { start: self.whole.start, end: self.time.start })
    }
}

impl Measured<'_> {
    /// The window of a device: the range, else the judged steps as the device sees them, else what follows its
    /// start-up. `None` if there is too little work to judge, or none in that time.
    pub fn window(&self, busy: &DeviceBusy, ledger: &Ledger) -> Option<Window> {
        let whole = busy.window;
        if busy.has_little_work() {
            return None;
        }
        let Boundaries { host, device } = self.boundaries(Some(busy.process));
        let window = Window { device: Some(busy.device), whole, ..Window::default() };
        if let Some(range) = self.range {
            let (basis, range) = self.chosen(range, host, device);
            return window.of_steps(basis, range, host, device);
        }
        if let [start, .., end] = *device {
            return window.of_steps(Basis::Steps, TimeRange { start, end }, host, device);
        }
        let start = start_up_end(self.trace, busy, ledger);
        let basis = if start.is_some() { Basis::AfterStartUp } else { Basis::Work };
        Some(Window { time: TimeRange { start: start.unwrap_or(whole.start), end: whole.end }, basis, ..window })
    }

    /// The window of a recording without devices.
    pub fn host_window(&self) -> Option<Window> {
        let boundaries = self.boundaries(None).host;
        let whole = worked(self.trace);
        let window = Window { whole, ..Window::default() };
        match (self.range, boundaries) {
            (Some(range), _) => {
                let (basis, range) = self.chosen(range, boundaries, boundaries);
                window.of_steps(basis, range, boundaries, boundaries)
            }
            (None, &[start, .., end]) => {
                window.of_steps(Basis::Steps, TimeRange { start, end }, boundaries, boundaries)
            }
            _ => Some(Window { time: whole, basis: Basis::All, ..window }),
        }
    }

    /// A range that is exactly a step is that step, which begins and ends at another time on a device than where it is
    /// drawn.
    ///
    /// * `host`, `device`: boundaries of all steps.
    fn chosen(&self, range: TimeRange, host: &[TimeNs], device: &[TimeNs]) -> (Basis, TimeRange) {
        // A device of another process may have other steps.
        let steps = self.steps.filter(|steps| steps.boundaries == host);
        let step = steps.and_then(|steps| device.get(steps.at(range)?..)).and_then(|device| device.get(..2));
        match step {
            Some(&[start, end]) if start < end => (Basis::ChosenStep, TimeRange { start, end }),
            _ => (Basis::Range, range),
        }
    }

    /// Of the steps that may be judged: those that count, or with a range all.
    ///
    /// * `device`: the process of a device.
    fn boundaries(&self, device: Option<ProcessId>) -> Boundaries<'_> {
        let Some(steps) = self.steps.filter(|steps| steps.is_reliable()) else { return Boundaries::default() };
        match device {
            Some(process) if self.range.is_some() => steps.on(process),
            Some(process) => steps.counted_on(process),
            None => {
                let all = &steps.boundaries[..];
                let host = if self.range.is_some() { all } else { counted_boundaries(steps) };
                Boundaries { host, device: host }
            }
        }
    }
}

impl Window {
    /// Only `time`, with the steps that lie within it on the host and on the device.
    ///
    /// Of judged steps only those that have their begin, if any has: where a device began to work late in one, what it
    /// waited for before is not known, and the mean of what it waits for in each would be too small. A last one that
    /// lasts longer than its work lacks nothing, since what comes after that is of a next one.
    fn of_steps(self, basis: Basis, mut time: TimeRange, host: &[TimeNs], device: &[TimeNs]) -> Option<Self> {
        let ranges = |of: &[TimeNs]| -> Vec<TimeRange> {
            of.windows(2).map(|pair| TimeRange { start: pair[0], end: pair[1] }).collect()
        };
        let is_within = |step: &TimeRange| time.start <= step.start && step.end <= time.end;
        let all = ranges(host).into_iter().zip(ranges(device));
        let (mut host_steps, mut steps): (Vec<_>, Vec<TimeRange>) = all.filter(|(_, step)| is_within(step)).unzip();
        let has_begin = |step: &TimeRange| {
            let after = step.end.saturating_sub(self.whole.start.max(step.start));
            after as f64 >= step.dur() as f64 * INSIDE
        };
        if basis == Basis::Steps && steps.iter().any(has_begin) {
            (host_steps, steps) = host_steps.into_iter().zip(steps).filter(|(_, step)| has_begin(step)).unzip();
            time = steps[0].union(steps[steps.len() - 1]);
        }
        let is_cut = basis == Basis::Range && self.whole.intersect(time) != Some(time);
        let basis = if is_cut { Basis::RangeOfWork } else { basis };
        let time = time.intersect(self.whole)?;
        // What a range holds of other steps is of none of its whole ones: nothing of it is said per step.
        let covered: DurNs = steps.iter().map(|step| step.dur()).sum();
        if basis.is_range() && (covered as f64) < time.dur() as f64 * WHOLE {
            (host_steps, steps) = Default::default();
        }
        Some(Self { time, basis, host_steps, steps, ..self })
    }
}

/// The end of a device's start-up, if the recording clearly has one.
///
/// A loop runs the same kernels again and again, so the start-up and the first pass end when the last of them runs for
/// the first time. Kernels with few launches may come later. That is a start-up if
/// * most kernels run afterwards, and
/// * before that the device spent time on what only a start waits for: copies before its first kernel, compiling and
///   loading of code, allocation of memory.
///
/// Cost: O(n + m) for n slices of the device and m parts of gaps.
fn start_up_end(trace: &Trace, busy: &DeviceBusy, ledger: &Ledger) -> Option<TimeNs> {
    let slices = &trace.slices;
    let mut first: HashMap<StringId, (TimeNs, u64)> = HashMap::new();
    let mut starts: Vec<TimeNs> = Vec::new();
    for i in trace.tracks_of(busy.process).flat_map(|id| trace.track_slices(id)) {
        if slices.kind[i] == SliceKind::Kernel && busy.window.contains(slices.ts[i]) {
            let (ts, count) = first.entry(slices.name[i]).or_insert((slices.ts[i], 0));
            *ts = slices.ts[i].min(*ts);
            *count += 1;
            starts.push(slices.ts[i]);
        }
    }
    let mut first: Vec<(TimeNs, u64)> = first.into_values().collect();
    first.sort_unstable();
    let first_kernel = first.first()?.0;
    let mut late = 0;
    let is_of_loop = |&&(_, count): &&(TimeNs, u64)| {
        late += count;
        late as f64 > starts.len() as f64 * LATE
    };
    let end = first.iter().rev().find(is_of_loop)?.0;
    let after = starts.iter().filter(|&&ts| ts >= end).count();
    if (after as f64) < starts.len() as f64 * LOOP {
        return None;
    }
    let start_up = TimeRange { start: busy.window.start, end };
    let by_class = ledger.totals(start_up).by_class;
    let loading = [GapClass::ModuleLoad, GapClass::Allocator].map(|class| by_class[class as usize].total_ns);
    let loading = loading.iter().sum::<DurNs>() + (first_kernel - busy.window.start);
    (loading as f64 >= busy.window.dur() as f64 * LOADING).then_some(end)
}
