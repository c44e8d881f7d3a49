//! Steps of a training or an inference loop, as time ranges.

mod period;

use hashbrown::HashMap;

pub use self::period::{Period, period};
use super::totals::Durations;
use crate::model::{SliceKind, StringId, TimeNs, TimeRange, Trace, TrackId};

/// How steps were found.
#[derive(Clone, Debug, PartialEq)]
pub enum StepSource {
    /// The profiler's own `ProfilerStep#N`.
    ProfilerStep,
    /// An annotation that PyTorch records once per step, such as `Optimizer.step#AdamW.step`: a step lasts from
    /// the end of one to the end of the next.
    Annotation(String),
    /// The period of a repeating sequence.
    Period {
        /// `allocations` or `kernels`.
        items: &'static str,
        /// Items of one step.
        length: usize,
        /// Share of items that also occur in the previous step, or belong to the first step.
        share: f64,
    },
    /// Marks set by the user.
    Marks,
}

impl StepSource {
    /// Short description for the user.
    pub fn label(&self) -> String {
        match self {
            Self::ProfilerStep => "ProfilerStep annotations".to_owned(),
            Self::Annotation(name) => format!("{name} annotations"),
            Self::Period { items, length, share } => {
                format!("repetition every {length} {items} ({:.0} % of all repeat)", share * 100.0)
            }
            Self::Marks => "marks".to_owned(),
        }
    }
}

/// Consecutive steps without gaps.
///
/// * `B`: unit of the boundaries: trace time, or states of a memory history.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps<B = TimeNs> {
    pub source: StepSource,
    /// One more than the number of steps, ascending: step `k` lasts from `boundaries[k]` to `boundaries[k + 1]`.
    pub boundaries: Vec<B>,
    /// One per step.
    pub names: Vec<String>,
    /// Share of steps whose length is within a tenth of the median plus the slack of [`Self::new`].
    pub regularity: f64,
    /// Durations without the first and last step, which include warm-up and the end of profiling; of all steps
    /// if there are fewer than four. `None` without times.
    pub durations: Option<Durations>,
    /// Another source that finds a different number of steps, and that number.
    pub disagreement: Option<(StepSource, usize)>,
}

/// Anchors needed for two whole steps, the minimum for a comparison.
pub const MIN_ANCHORS: usize = 3;
/// Number of steps that suffices for a comparison, even if another name would yield more.
const ENOUGH_STEPS: usize = 5;
/// Minimum of whole rounds for kernels to count as steps.
const MIN_ROUNDS: usize = 4;
/// Annotations that PyTorch records once per step, in order of preference.
const ANCHORS: [&str; 3] = ["Optimizer.step#", "Optimizer.zero_grad#", "enumerate(DataLoader)#"];
const PROFILER_STEP: &str = "ProfilerStep#";

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
        let names = names.unwrap_or_else(|| (1..=n).map(|step| format!("Step {step}")).collect());
        let mut extents: Vec<u64> = boundaries.windows(2).map(|pair| pair[0].into().abs_diff(pair[1].into())).collect();
        extents.sort_unstable();
        let median = extents.get(n / 2).copied().unwrap_or_default();
        let alike = extents.iter().filter(|&&extent| extent.abs_diff(median) <= median / 10 + slack).count();
        let durations = time_of.map(|time_of| {
            let times = boundaries.windows(2).map(|pair| time_of(pair[1]).saturating_sub(time_of(pair[0])));
            let mut times: Vec<i64> = times.collect();
            if n >= 4 {
                times.remove(n - 1);
                times.remove(0);
            }
            Durations::of(&mut times)
        });
        let regularity = alike as f64 / n.max(1) as f64;
        Self { source, boundaries, names, regularity, durations, disagreement: None }
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// From the first boundary to the last.
    fn extent(&self) -> u64 {
        let ends = self.boundaries.last().zip(self.boundaries.first());
        ends.map_or(0, |(&end, &start)| end.into().abs_diff(start.into()))
    }
}

/// The steps of a trace: by `ProfilerStep#N`, else by what PyTorch names once a step, else by the
/// repetition of kernels on the stream that has most of them; see [`choose`].
///
/// * Layers repeat like steps, so a period of kernels may be that of layers rather than steps.
/// * All steps are returned; excluding a warm-up is left to the caller.
/// * Cost: O(n log n) for n slices and strings.
pub fn steps(trace: &Trace, is_cancelled: &dyn Fn() -> bool) -> Option<Steps> {
    let found = divisions(&named(trace));
    let found = found.into_iter().map(|(source, boundaries, names)| {
        let time_of: &dyn Fn(TimeNs) -> TimeNs = &|ts| ts;
        Steps::new(source, boundaries, names, 0, Some(time_of))
    });
    choose(found.collect()).or_else(|| of_kernels(trace, is_cancelled))
}

/// Selects among several divisions into steps, given in order of preference: the first that covers at least
/// half as much as the widest and has five steps or a fifth of the most. Notes a differing division. `None` if
/// there are none. Cost: O(n) for n divisions.
pub fn choose<B: Copy + Into<i64>>(mut found: Vec<Steps<B>>) -> Option<Steps<B>> {
    let widest = found.iter().map(Steps::extent).max()?;
    let most = found.iter().map(Steps::len).max()?;
    // The profiler often covers only a few of many steps, or marks a whole epoch as a step.
    let is_fit =
        |steps: &Steps<B>| steps.extent() >= widest / 2 && (steps.len() >= ENOUGH_STEPS || 5 * steps.len() >= most);
    let mut best = found.remove(found.iter().position(is_fit).unwrap_or(0));
    // A difference of one results from the start and end of the recording.
    let differs = |other: &&Steps<B>| other.len().abs_diff(best.len()) > 1;
    best.disagreement = found.iter().find(differs).map(|other| (other.source.clone(), other.len()));
    Some(best)
}

/// Whether a name may mark steps.
pub fn is_step_name(name: &str) -> bool {
    ANCHORS.iter().chain(&[PROFILER_STEP]).any(|prefix| name.starts_with(prefix))
}

/// The annotations of a trace that may mark steps, by start. Cost: O(n log n).
pub fn named(trace: &Trace) -> Vec<(&str, TimeRange)> {
    let is_wanted: Vec<bool> = trace.strings.iter().map(|(_, name)| is_step_name(name)).collect();
    let slices = &trace.slices;
    let found = (0..slices.len()).filter(|&i| slices.kind[i] == SliceKind::Annotation);
    let found = found.filter(|&i| is_wanted.get(slices.name[i].0 as usize).copied().unwrap_or_default());
    let time = |i: usize| TimeRange { start: slices.ts[i], end: slices.end[i] };
    let mut named: Vec<_> = found.map(|i| (trace.strings.get(slices.name[i]), time(i))).collect();
    named.sort_unstable_by_key(|&(name, time)| (time.start, time.end, name));
    named
}

/// A way to divide a recording: source, boundaries, and names if the recording has them.
pub type Division = (StepSource, Vec<TimeNs>, Option<Vec<String>>);

/// The divisions into steps by annotations, in order of preference. Cost: O(n log n) for n annotations.
///
/// * `named`: annotations accepted by [`is_step_name`], by start.
pub fn divisions(named: &[(&str, TimeRange)]) -> Vec<Division> {
    let anchors = ANCHORS.iter().filter_map(|prefix| anchored(named, prefix));
    profiler_steps(named).into_iter().chain(anchors).collect()
}

fn profiler_steps(named: &[(&str, TimeRange)]) -> Option<Division> {
    let mut steps: Vec<(&str, TimeRange)> =
        named.iter().filter(|(name, _)| name.starts_with(PROFILER_STEP)).copied().collect();
    // Several threads, or duplicate records, may name the same step.
    steps.dedup_by(|next, step| next.0 == step.0);
    let last = steps.last()?.1;
    let mut boundaries: Vec<TimeNs> = steps.iter().map(|(_, time)| time.start).collect();
    boundaries.push(last.end.max(last.start));
    let names = steps.iter().map(|&(name, _)| name.to_owned()).collect();
    Some((StepSource::ProfilerStep, boundaries, Some(names)))
}

/// By the most frequent name with this prefix; of equally frequent ones, the first.
fn anchored(named: &[(&str, TimeRange)], prefix: &str) -> Option<Division> {
    let of_prefix = || named.iter().filter(|(name, _)| name.starts_with(prefix));
    let mut counts: HashMap<&str, usize> = HashMap::new();
    of_prefix().for_each(|(name, _)| *counts.entry(name).or_default() += 1);
    let most = counts.values().copied().max().filter(|&most| most >= MIN_ANCHORS)?;
    let name = of_prefix().find(|(name, _)| counts[name] == most)?.0;
    let mut ends: Vec<TimeNs> = of_prefix().filter(|found| found.0 == name).map(|found| found.1.end).collect();
    ends.sort_unstable();
    Some((StepSource::Annotation(name.to_owned()), ends, None))
}

/// By the repetition of kernel names on the stream with the most kernels.
fn of_kernels(trace: &Trace, is_cancelled: &dyn Fn() -> bool) -> Option<Steps> {
    let slices = &trace.slices;
    let kernels = |track: TrackId| trace.track_slices(track).filter(|&i| slices.kind[i] == SliceKind::Kernel);
    let track = (0..trace.tracks.len() as u32).map(TrackId).max_by_key(|&track| kernels(track).count())?;
    let mut sequence: Vec<usize> = kernels(track).collect();
    sequence.sort_by_key(|&i| slices.ts[i]);
    let mut known: HashMap<StringId, u32> = HashMap::new();
    let symbol = |&i: &usize| {
        let next = known.len() as u32;
        *known.entry(slices.name[i]).or_insert(next)
    };
    let symbols: Vec<u32> = sequence.iter().map(symbol).collect();
    let Period { length, share, starts } = period(&symbols, &|_| 0, is_cancelled)?;
    let boundaries: Vec<TimeNs> = starts.into_iter().map(|start| slices.ts[sequence[start]]).collect();
    let source = StepSource::Period { items: "kernels", length, share };
    (boundaries.len() > MIN_ROUNDS).then(|| Steps::new(source, boundaries, None, 0, Some(&|ts| ts)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    const NOTE: SliceKind = SliceKind::Annotation;

    fn find(slices: &[(&str, SliceKind, String, TimeNs, TimeNs)]) -> Option<Steps> {
        let slices: Vec<_> =
            slices.iter().map(|(thread, kind, name, ts, end)| (*thread, *kind, name.as_str(), *ts, *end)).collect();
        steps(&TraceBuilder::from_slices(&slices).finish(), &|| false)
    }

    #[test]
    fn profiler_steps_are_time_ranges() {
        let mut slices = Vec::new();
        for step in 0..6 {
            let start = 100 * step + if step == 3 { 20 } else { 0 };
            slices.push(("main", NOTE, format!("ProfilerStep#{}", step + 5), start, start + 90));
            slices.push(("main", NOTE, "Optimizer.step#SGD.step".to_owned(), start + 50, start + 60));
        }
        let found = find(&slices).unwrap();
        assert_eq!(found.source, StepSource::ProfilerStep);
        assert_eq!(found.boundaries, [0, 100, 200, 320, 400, 500, 590]);
        assert_eq!((found.names[0].as_str(), found.len()), ("ProfilerStep#5", 6));
        // 100, 100, 120, 80, 100 and 90: four within a tenth of 100.
        assert_eq!(found.regularity, 4.0 / 6.0);
        assert_eq!(found.durations.unwrap().calls, 4);
        assert_eq!(found.disagreement, None, "5 steps between 6 ends of the optimizer");
    }

    #[test]
    fn annotations_are_next_and_disagreement_is_reported() {
        let mut slices = Vec::new();
        for step in 0..12 {
            let start = 100 * step;
            slices.push(("main", NOTE, "Optimizer.zero_grad#SGD.zero_grad".to_owned(), start, start + 10));
            if step % 2 == 1 {
                slices.push(("main", NOTE, "Optimizer.step#SGD.step".to_owned(), start + 50, start + 60));
            }
        }
        let found = find(&slices).unwrap();
        assert_eq!(found.source, StepSource::Annotation("Optimizer.step#SGD.step".to_owned()));
        assert_eq!((found.boundaries, found.regularity), (vec![160, 360, 560, 760, 960, 1160], 1.0));
        let other = StepSource::Annotation("Optimizer.zero_grad#SGD.zero_grad".to_owned());
        assert_eq!(found.disagreement, Some((other, 11)));
    }

    #[test]
    fn repeating_kernels_are_steps_without_annotations() {
        let launch = |rounds: i64| -> Vec<_> {
            let names = ["embed", "norm", "gemm", "norm", "gemm", "loss"];
            let kernel = |i: i64| ("stream 7", SliceKind::Kernel, names[i as usize % 6].to_owned(), 10 * i, 10 * i + 8);
            (0..6 * rounds).map(kernel).collect()
        };
        let found = find(&launch(8)).unwrap();
        assert!(matches!(found.source, StepSource::Period { items: "kernels", length: 6, .. }), "{:?}", found.source);
        assert_eq!((found.boundaries[0], found.boundaries[1], found.len(), found.regularity), (0, 60, 7, 1.0));
        assert_eq!(find(&launch(4)), None, "three whole rounds are too few");
        assert_eq!(find(&[]), None);
    }
}
