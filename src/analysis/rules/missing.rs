//! Recordings that miss most of their events, and those without the work of the device.

use crate::analysis::host_roles::launches_work;
use crate::model::{KERNEL_COUNTERS, SliceId, SliceKind, Trace, TrackId};

/// Fewer events show nothing.
const MIN_EVENTS: usize = 50;
/// Share of launches, and of device work, that must have its partner.
const PARTNERS: f64 = 0.5;
/// Recorders number operators, and calls of an API, in a row. Three of four steps from one recorded number to the next
/// are 1 for operators, at most 16 for calls, of which recorders leave many out (real traces); events are missing from
/// these on.
const OPERATOR_STEP: u32 = 5;
const CALL_STEP: u32 = 64;
/// Numbers, for each that is there, up to which a bit for each takes less time than sorting them.
const MAX_SPAN: usize = 64;

/// What shows that events were taken out of a recording. Counts of what is there, of how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Device work with its launch, and launches with their work.
    pub launched: (u64, u64),
    pub launches: (u64, u64),
    /// Operators and calls, of as many as their numbers count; zeros if those show nothing.
    pub operators: (u64, u64),
    pub calls: (u64, u64),
}

impl Missing {
    /// `None` unless one of these shows that most events are missing. Cost: O(n log n) for n slices.
    ///
    /// * Device work without launches is no evidence, nor are launches without work: a recorder may have been told to
    ///   record one of them, or may have been started in between. Where both are there, they belong together.
    pub fn of(trace: &Trace) -> Option<Self> {
        let slices = &trace.slices;
        let mut out = Self::default();
        for i in (0..slices.len()).filter(|&i| slices.kind[i].is_device_work() && slices.correlation[i] != 0) {
            count(&mut out.launched, trace.launch_of(SliceId(i as u32)).is_some());
        }
        let of_operators = slices.kind.iter().zip(&slices.external).filter(|(kind, _)| **kind == SliceKind::Operator);
        let of_calls = slices.kind.iter().zip(&slices.correlation).filter(|(kind, _)| kind.is_call());
        out.operators = numbers(of_operators.map(|(_, &id)| id), OPERATOR_STEP);
        out.calls = numbers(of_calls.map(|(_, &id)| id), CALL_STEP);
        let has_few = |(with, of): (u64, u64)| of >= MIN_EVENTS as u64 && (with as f64) < PARTNERS * of as f64;
        let has_gaps = out.operators.1 > 0 || out.calls.1 > 0;
        // Of nearly all recordings it makes no difference, and costs as much as all else here.
        if has_gaps || has_few(out.launched) {
            out.launches = launches(trace);
        }
        let is_missing = has_gaps || has_few(out.launched) && has_few(out.launches);
        is_missing.then_some(out)
    }

    /// The share of the recording that is there, about: by the operators if they show it, else by the least of the
    /// others.
    pub fn share(&self) -> f64 {
        let share = |&(found, of): &(u64, u64)| if of == 0 { 1.0 } else { found as f64 / of as f64 };
        if self.operators.1 > 0 {
            return share(&self.operators);
        }
        // Of usual recordings it is a tenth or more.
        let calls = if self.calls.1 > 0 { 10.0 * share(&self.calls) } else { 1.0 };
        [&self.launched, &self.launches].map(share).into_iter().fold(calls.min(0.49), f64::min)
    }
}

/// Launches with their work, of how many. Cost: O(n log n) for n slices.
fn launches(trace: &Trace) -> (u64, u64) {
    let slices = &trace.slices;
    let mut out = (0, 0);
    // Each name is judged once.
    let mut launches: Vec<Option<bool>> = vec![None; trace.strings.len()];
    for i in (0..slices.len()).filter(|&i| slices.kind[i].is_call() && slices.correlation[i] != 0) {
        let name = slices.name[i];
        if *launches[name.0 as usize].get_or_insert_with(|| launches_work(trace.strings.get(name))) {
            count(&mut out, trace.launched_by(SliceId(i as u32)).next().is_some());
        }
    }
    out
}

fn count((with, of): &mut (u64, u64), holds: bool) {
    *with += u64::from(holds);
    *of += 1;
}

/// How many distinct numbers there are but 0, of how many, if a quarter of the steps between them is at least `step`,
/// which is more than 1; else zeros.
///
/// * `ids`: gone through twice, which costs less than to keep millions of them.
fn numbers(ids: impl Iterator<Item = u32> + Clone, step: u32) -> (u64, u64) {
    let ids = ids.filter(|&id| id != 0);
    let (mut n_ids, mut first, mut last) = (0, u32::MAX, 0);
    for id in ids.clone() {
        (n_ids, first, last) = (n_ids + 1, first.min(id), last.max(id));
    }
    if n_ids == 0 {
        return (0, 0);
    }
    let span = (last - first) as usize;
    let (mut n, mut n_large, mut before) = (0_usize, 0_usize, first);
    let mut see = |id: u32| {
        n += 1;
        n_large += usize::from(id - before >= step);
        before = id;
    };
    if span <= MAX_SPAN * n_ids {
        let mut is_there = vec![0_u64; span / 64 + 1];
        ids.map(|id| (id - first) as usize).for_each(|at| is_there[at / 64] |= 1 << (at % 64));
        for (at, mut word) in (0..).step_by(64).zip(is_there) {
            while word != 0 {
                see(first + at + word.trailing_zeros());
                word &= word - 1;
            }
        }
    } else {
        let mut ids: Vec<u32> = ids.collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().for_each(see);
    }
    let n_steps = n - 1;
    if n_steps < MIN_EVENTS || n_steps - n_large > n_steps * 3 / 4 {
        return (0, 0);
    }
    (n as u64, u64::from(last - first) + 1)
}

/// What shows that a program used a device of which no work was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoWork {
    /// Calls that launch, with the most frequent.
    pub launches: u64,
    pub call: String,
    /// Ranges of libraries that run on devices only, if nothing was launched.
    pub ranges: u64,
    pub library: String,
    /// Kernels whose hardware events were counted instead, see [`KERNEL_COUNTERS`].
    pub counted: u64,
}

/// Names of ranges and of their domains by libraries that run on devices only. Myelin is `TensorRT`'s compiler.
const LIBRARIES: [(&str, &str); 6] = [
    ("TensorRT", "TensorRT"),
    ("myelin", "TensorRT"),
    ("cuDNN", "cuDNN"),
    ("cuBLAS", "cuBLAS"),
    ("NCCL", "NCCL"),
    ("nccl:", "NCCL"),
];

impl NoWork {
    /// `None` if there is work, or nothing of a device. Cost: O(slices).
    pub fn of(trace: &Trace) -> Option<Self> {
        let slices = &trace.slices;
        if slices.kind.iter().any(|kind| kind.is_device_work()) {
            return None;
        }
        let (mut counts, mut library) = (vec![0_u64; trace.strings.len()], vec![None; trace.strings.len()]);
        for (id, name) in trace.strings.iter() {
            library[id.0 as usize] = LIBRARIES.iter().find(|(start, _)| name.starts_with(start)).map(|known| known.1);
        }
        let mut out = Self::default();
        for (i, name) in slices.name.iter().enumerate() {
            match slices.kind[i] {
                kind if kind.is_call() => counts[name.0 as usize] += 1,
                SliceKind::Annotation | SliceKind::Collective => {
                    let domain = || trace.facts.domains.get(SliceId(i as u32));
                    let of_domain = || domain().and_then(|domain| library[domain.0 as usize]);
                    if let Some(library) = library[name.0 as usize].or_else(of_domain) {
                        out.ranges += 1;
                        out.library = library.to_owned();
                    }
                }
                _ => {}
            }
        }
        let launches = trace.strings.iter().filter(|(_, name)| launches_work(name));
        let mut most = 0;
        for (n, call) in launches.map(|(id, name)| (counts[id.0 as usize], name)) {
            out.launches += n;
            if n > most {
                most = n;
                out.call = call.to_owned();
            }
        }
        let counted = (0..trace.tracks.len() as u32).map(TrackId).filter(|&id| trace.track(id).name == KERNEL_COUNTERS);
        out.counted = counted.map(|id| trace.track_slices(id).count() as u64).sum();
        (out.launches > 0 || out.ranges > 0 || out.counted > 0).then_some(out)
    }
}
