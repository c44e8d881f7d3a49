//! One of two recordings that are compared.

use hashbrown::HashMap;

use crate::analysis::breakdown::{Breakdown, breakdown};
use crate::analysis::busy::DeviceBusy;
use crate::analysis::collectives::is_collective_name;
use crate::analysis::operators::operators;
use crate::analysis::phases::Phases;
use crate::analysis::rules::{Cause, Makeup, Window};
use crate::analysis::short_name::without_parameters;
use crate::analysis::steps::{PROFILER_STEP, Steps};
use crate::analysis::totals::Scope;
use crate::model::{DurNs, SliceId, SliceKind, TimeRange, Trace};

/// One of the recordings.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub trace: &'a Trace,
    pub steps: Option<&'a Steps>,
    /// What is judged of the device; of the host where there is none.
    pub window: &'a Window,
    /// Both `None` without a device.
    pub busy: Option<&'a DeviceBusy>,
    pub makeup: Option<&'a Makeup>,
    /// Of the host.
    pub phases: &'a Phases,
    /// Whether code of torch.compile runs in it.
    pub is_compiled: bool,
}

/// Device work of one name in one recording.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    pub calls: u64,
    pub ns: DurNs,
    pub longest: Option<(DurNs, SliceId)>,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.ns += other.ns;
        self.longest = self.longest.max(other.longest);
    }
}

impl<'a> Side<'a> {
    pub(super) fn n(&self, has_steps: bool) -> u64 {
        if has_steps { self.window.steps.len() as u64 } else { 1 }
    }

    /// The parts of each step as the device sees it, or without one the steps on the host.
    pub(super) fn parts_of_steps(&self) -> Vec<Breakdown> {
        let of = |&step: &TimeRange| match self.busy {
            Some(busy) => breakdown(busy, step),
            None => Breakdown { idle_ns: step.dur(), ..Breakdown::default() },
        };
        self.window.steps.iter().map(of).collect()
    }

    pub(super) fn parts(&self) -> Breakdown {
        let all = Breakdown { idle_ns: self.window.time.dur(), ..Breakdown::default() };
        self.makeup.map_or(all, |makeup| makeup.parts)
    }

    pub(super) fn idle_by(&self, cause: Cause) -> DurNs {
        let found = self.makeup.and_then(|makeup| makeup.causes.iter().find(|one| one.0 == cause));
        found.map_or(0, |one| one.1)
    }

    /// The part of that which is after the wait itself.
    pub(super) fn lead_of(&self, cause: Cause) -> DurNs {
        let at = |makeup: &&Makeup| makeup.causes.iter().position(|one| one.0 == cause);
        self.makeup.and_then(|makeup| Some(makeup.lead_ns[at(&makeup)?])).unwrap_or_default()
    }

    /// The judged time as the host sees it.
    pub(super) fn host_time(&self) -> TimeRange {
        match &self.window.host_steps[..] {
            [first, .., last] => TimeRange { start: first.start, end: last.end },
            [only] => *only,
            [] => self.window.time,
        }
    }

    /// The device work of each name, without parameters.
    pub(super) fn work(&self) -> HashMap<String, Sum> {
        let (trace, slices) = (self.trace, &self.trace.slices);
        let mut of_name = HashMap::<_, Sum>::new();
        let tracks = self.busy.into_iter().flat_map(|busy| trace.tracks_of(busy.process));
        for i in tracks.flat_map(|track| trace.track_slices(track)) {
            if slices.kind[i].is_device_work() && self.window.time.contains(slices.ts[i]) {
                let one = Sum {
                    calls: 1,
                    ns: slices.end[i] - slices.ts[i],
                    longest: Some((slices.end[i] - slices.ts[i], SliceId(i as u32))),
                };
                of_name.entry(slices.name[i]).or_default().add(one);
            }
        }
        let mut of_text = HashMap::<_, Sum>::new();
        for (name, sum) in of_name {
            of_text.entry(without_parameters(trace.strings.get(name))).or_default().add(sum);
        }
        of_text
    }

    /// The time of the device's work of these kinds and names.
    fn time_of(&self, work: &HashMap<String, Sum>, is_wanted: impl Fn(SliceKind, &str) -> bool) -> DurNs {
        let kind = |sum: &Sum| sum.longest.map(|longest| self.trace.slices.kind[longest.1.idx()]);
        let wanted = work.iter().filter(|(name, sum)| kind(sum).is_some_and(|kind| is_wanted(kind, name)));
        wanted.map(|(_, sum)| sum.ns).sum()
    }

    /// The share of the time of the device's work that is of CUDA graphs recorded as wholes.
    pub(super) fn graphs(&self, work: &HashMap<String, Sum>) -> f64 {
        let graphs = self.time_of(work, |kind, _| kind == SliceKind::CudaGraph);
        graphs as f64 / self.time_of(work, |_, _| true).max(1) as f64
    }

    /// The share of each kernel of the time of all, but for collectives and copies, which are alike in all programs. By
    /// name without digits: libraries choose tiles by the size of the batch. Empty without kernels.
    pub(super) fn kernel_shares(&self, work: &HashMap<String, Sum>) -> HashMap<String, f64> {
        let computes = |kind, name: &str| kind == SliceKind::Kernel && !is_collective_name(name);
        let all = self.time_of(work, computes).max(1) as f64;
        let mut shares = HashMap::new();
        for (name, sum) in work {
            let kind = sum.longest.map(|longest| self.trace.slices.kind[longest.1.idx()]);
            if kind.is_some_and(|kind| computes(kind, name)) {
                let name = name.chars().filter(|c| !c.is_ascii_digit()).collect();
                *shares.entry(name).or_default() += sum.ns as f64 / all;
            }
        }
        shares
    }

    pub(super) fn operators(&self, is_cancelled: &(dyn Fn() -> bool + Sync)) -> HashMap<String, (u64, DurNs, DurNs)> {
        let traces = [self.trace];
        let scope = Scope { traces: &traces, ranges: Some(vec![self.host_time()]), is_cancelled };
        let mut of_name = HashMap::<String, (u64, DurNs, DurNs)>::new();
        for row in operators(&scope, false) {
            // Each step has its number.
            let is_step = row.name.starts_with(PROFILER_STEP);
            let name = if is_step { PROFILER_STEP.to_owned() } else { row.name };
            let sum = of_name.entry(name).or_default();
            *sum = (sum.0 + row.host.calls, sum.1 + row.host_self_ns, sum.2 + row.device_self_ns);
        }
        of_name
    }

    pub(super) fn device_name(&self) -> &'a str {
        let info = self.busy.and_then(|busy| self.trace.device_of_work(busy.device));
        info.map_or("", |info| &info.name)
    }
}
