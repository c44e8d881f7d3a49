//! Clusters of recurring gaps: macro gaps between the same work with the same cause (F4).

mod key;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use hashbrown::HashMap;

use self::key::{HostPlace, Key, Keys, Numbered, family};
use super::recorder::{self, Recorder, Taken, Unrecorded};
use super::{Gap, GapClass, IdleByClass, Ledger, Trigger, moment_of};
use crate::analysis::steps::Steps;
use crate::model::{DurNs, ProcessId, TimeNs, TimeRange, Trace};

/// The macro gaps of one device, grouped: each is in exactly one cluster.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    pub process: ProcessId,
    /// Recorded device index.
    pub device: u32,
    /// By total, descending, then by first gap. Gaps that occur once are clusters of one.
    pub all: Vec<GapCluster>,
    /// All micro gaps together: they are launch latency, whatever runs before and after.
    pub micro: Recurrence,
    /// Judged steps for the figures per step; 0 without steps.
    pub n_steps: usize,
    /// What the recorder took of the gaps in these steps.
    pub taken: Taken,
    names: Vec<String>,
    /// The parent and the name of each operator path; the first is the empty path.
    paths: Vec<(u32, NameId)>,
    /// Indices of gaps, by cluster, then ascending.
    gaps: Vec<u32>,
    /// Of each macro gap in the order of time: its index and its cluster.
    cluster_of: Vec<(u32, u32)>,
}

/// Similar gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct GapCluster {
    /// Name of the work before, without template and call arguments.
    pub prev: NameId,
    /// Name of the work after.
    pub next: NameId,
    /// The class with the largest part of the time.
    pub class: GapClass,
    /// The trigger of most of the time; `None` where most has none.
    pub trigger: Option<Trigger>,
    /// Where the host was.
    path: u32,
    /// The innermost frame of the user's program, else of a library.
    pub frame: NameId,
    pub sum: Recurrence,
    pub spread: Spread,
    /// Whether at least half of its gaps within steps hold a boundary of steps.
    pub is_at_step_boundary: bool,
    /// The range in [`Clusters::gaps`].
    gaps: (u32, u32),
}

/// How the durations of some gaps differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    pub mean_ns: DurNs,
    /// 95th percentile (nearest rank).
    pub p95_ns: DurNs,
    /// Standard deviation over the mean; 0 for a single gap.
    pub variation: f64,
}

impl Spread {
    /// That of durations in any order, of which there is at least one, else nothing. Reorders them. Cost: O(n).
    pub fn of(durs: &mut [DurNs]) -> Self {
        if durs.is_empty() {
            return Self::default();
        }
        let mean = durs.iter().fold(0_i64, |sum, &dur| sum.saturating_add(dur)) as f64 / durs.len() as f64;
        let squares: f64 = durs.iter().map(|&dur| (dur as f64 - mean).powi(2)).sum();
        let deviation = (squares / (durs.len().max(2) - 1) as f64).sqrt();
        let rank = (durs.len() * 95).div_ceil(100).max(1) - 1;
        let (_, &mut p95_ns, _) = durs.select_nth_unstable(rank);
        Self { mean_ns: mean.round() as DurNs, p95_ns, variation: deviation / mean }
    }
}

/// How often some gaps occur, and how long they are. Gaps count for the step in which they start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recurrence {
    pub count: u64,
    pub total_ns: DurNs,
    /// In the judged steps.
    pub in_steps_ns: DurNs,
    /// What ending the causes would save of it at most, without what the recorder took of it at least; see
    /// [`super::ceiling`].
    pub recoverable_in_steps_ns: DurNs,
    /// What the recorder took of what ending them would save, at least.
    pub recorder_in_steps_ns: DurNs,
    /// Steps in which at least one of them starts.
    pub steps_present: usize,
}

impl Recurrence {
    /// Mean time per step; `None` without steps.
    ///
    /// * `n_steps`: [`Clusters::n_steps`].
    pub fn ns_per_step(&self, n_steps: usize) -> Option<DurNs> {
        per_step(self.in_steps_ns, n_steps)
    }

    /// What ending the causes would save per step at most, on this device; `None` without steps.
    pub fn ceiling_ns_per_step(&self, n_steps: usize) -> Option<DurNs> {
        per_step(self.recoverable_in_steps_ns, n_steps)
    }

    /// What the recorder took of that per step at least; `None` without steps, or if nothing.
    pub fn recorder_ns_per_step(&self, n_steps: usize) -> Option<DurNs> {
        per_step(self.recorder_in_steps_ns, n_steps).filter(|&ns| ns > 0)
    }
}

fn per_step(ns: DurNs, n_steps: usize) -> Option<DurNs> {
    (n_steps > 0).then(|| ns / n_steps as DurNs)
}

/// A normalized name of one [`Clusters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(u32);

impl Clusters {
    /// The text of a name; empty if there is none.
    pub fn name(&self, name: NameId) -> &str {
        self.names.get(name.0 as usize).map_or("", String::as_str)
    }

    /// The innermost operator or named range in which the host was; empty if unknown.
    pub fn op(&self, cluster: &GapCluster) -> &str {
        self.paths.get(cluster.path as usize).map_or("", |&(_, name)| self.name(name))
    }

    /// The gaps of a cluster, ascending, as indices into the [`Ledger`].
    pub fn gaps(&self, cluster: &GapCluster) -> &[u32] {
        &self.gaps[cluster.gaps.0 as usize..cluster.gaps.1 as usize]
    }

    /// The cluster of a gap, as an index into `all`; `None` for micro gaps. Cost: O(log n).
    ///
    /// * `gap`: index into the [`Ledger`].
    pub fn of(&self, gap: usize) -> Option<usize> {
        let at = self.cluster_of.binary_search_by_key(&(gap as u32), |entry| entry.0).ok()?;
        Some(self.cluster_of[at].1 as usize)
    }

    /// The clusters of two gaps or more, the largest first.
    pub fn recurring(&self) -> impl Iterator<Item = &GapCluster> {
        self.all.iter().filter(|cluster| cluster.sum.count > 1)
    }
}

/// The boundaries of the judged steps.
pub fn counted_boundaries(steps: &Steps) -> &[TimeNs] {
    steps.boundaries.get(steps.used.start..=steps.used.end).unwrap_or_default()
}

/// Groups the macro gaps of each device by the work before and after, the dominant class, and the place of the host.
///
/// * The class with the longest part counts. Launch calls, operators, Python and time without a record are one
///   class here, since their shares vary from one gap to the next while the cause, a slow host, is the same; the
///   cluster has the class with the longest time.
/// * Where the host was slow in many parts, the operator of the next launch groups them, and the cluster has the place
///   where the host was during most of its time; clusters that are alike then are one.
/// * Names are without template and call arguments; annotations that differ only in their numbers and occur once
///   each, such as `iteration 17`, have the same name.
/// * `steps`: without them there are no figures per step.
/// * Cost: O(n log n) for n macro gaps, O(n) for micro gaps and annotations. Incomplete if cancelled.
pub fn clusters(
    trace: &Trace,
    ledgers: &[Ledger],
    steps: Option<&Steps>,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Vec<Clusters> {
    let numbered = Numbered::of(trace);
    // Devices of one process see the same steps of it.
    let mut recorders: HashMap<TimeRange, Option<Recorder>> = HashMap::new();
    let is_known = recorder::is_known(trace);
    let of_ledger = |ledger: &Ledger| {
        let time = of_host(ledger, steps).filter(|_| is_known);
        let recorder = time.and_then(|time| *recorders.entry(time).or_insert_with(|| Recorder::of(trace, time)));
        let unrecorded = Unrecorded::new(trace, ledger, recorder);
        of_device((trace, &numbered), &unrecorded, steps, is_cancelled)
    };
    ledgers.iter().map(of_ledger).collect()
}

fn of_device(
    (trace, numbered): (&Trace, &Numbered),
    unrecorded: &Unrecorded<'_>,
    steps: Option<&Steps>,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Clusters {
    let ledger = unrecorded.ledger;
    let boundaries = steps.map_or(&[][..], |steps| steps.counted_on(ledger.process).device);
    let counted = boundaries.first().zip(boundaries.last()).map(|(&start, &end)| TimeRange { start, end });
    let taken = unrecorded.taken(counted.unwrap_or_default(), is_cancelled);
    let recorder = unrecorded.recorder;
    let (micro, grouped) = rayon::join(
        || micro_gaps((&Unrecorded::new(trace, ledger, recorder), &taken), boundaries, is_cancelled),
        || Grouped::new(trace, numbered, ledger, is_cancelled),
    );
    let Grouped { keys, ids, mut cluster_of, places, by_class } = grouped;
    let distinct = united(ids, &places, &by_class, &mut cluster_of);
    let mut in_steps = InSteps { unrecorded, taken: &taken, boundaries, n_passed: 0 };
    let mut sums = vec![Sums::default(); distinct.len()];
    for &(gap, cluster) in &cluster_of {
        sums[cluster as usize].add(&in_steps.of(gap as usize));
    }
    let n_steps = boundaries.len().saturating_sub(1);
    let gaps = by_cluster(&cluster_of, distinct.len());
    let mut out = Clusters { process: ledger.process, device: ledger.device, micro, n_steps, ..Clusters::default() };
    let mut durs: Vec<DurNs> = Vec::new();
    for ((group, sums), (start, end)) in distinct.iter().zip(&sums).zip(gaps.ranges) {
        durs.clear();
        durs.extend(gaps.gaps[start as usize..end as usize].iter().map(|&gap| ledger.time(gap as usize).dur()));
        out.all.push(cluster(group, sums, &mut durs, (start, end)));
    }
    (out.names, out.paths) = (keys.texts, keys.paths);
    out.gaps = gaps.gaps;
    out.cluster_of = cluster_of;
    out.taken = taken;
    out.sort();
    out
}

/// The micro gaps of a device.
fn micro_gaps(
    (unrecorded, taken): (&Unrecorded<'_>, &Taken),
    boundaries: &[TimeNs],
    is_cancelled: &dyn Fn() -> bool,
) -> Recurrence {
    let ledger = unrecorded.ledger;
    let mut in_steps = InSteps { unrecorded, taken, boundaries, n_passed: 0 };
    let mut micro = Sums::default();
    for gap in 0..ledger.len() {
        if gap % 4096 == 0 && is_cancelled() {
            break;
        }
        if ledger.time(gap).dur() < ledger.theta_ns {
            micro.add(&in_steps.of(gap));
        }
    }
    micro.recurrence
}

/// The macro gaps of a device by what they have in common.
struct Grouped<'a> {
    keys: Keys<'a>,
    ids: HashMap<Key, u32>,
    /// Of each gap in the order of time: its index and its group.
    cluster_of: Vec<(u32, u32)>,
    /// The time of each group, by place and by class.
    places: HashMap<(u32, HostPlace), DurNs>,
    by_class: Vec<IdleByClass>,
}

impl<'a> Grouped<'a> {
    fn new(trace: &'a Trace, numbered: &'a Numbered, ledger: &Ledger, is_cancelled: &dyn Fn() -> bool) -> Self {
        let (ids, cluster_of, places, by_class) = Default::default();
        let mut out = Self { keys: Keys::new(trace, numbered), ids, cluster_of, places, by_class };
        for gap in 0..ledger.len() {
            if gap % 4096 == 0 && is_cancelled() {
                break;
            }
            let dur = ledger.time(gap).dur();
            if dur < ledger.theta_ns {
                continue;
            }
            let next = out.ids.len() as u32;
            let (key, place, of_gap) = out.keys.of(ledger, gap);
            let cluster = *out.ids.entry(key).or_insert(next);
            if cluster == next {
                out.by_class.push([0; GapClass::N]);
            }
            out.by_class[cluster as usize].iter_mut().zip(of_gap).for_each(|(sum, ns)| *sum += ns);
            out.cluster_of.push((gap as u32, cluster));
            *out.places.entry((cluster, place)).or_default() += dur;
        }
        out
    }
}

/// The time on the host of the judged steps, by which the recorder is judged; without steps no gain is told.
fn of_host(ledger: &Ledger, steps: Option<&Steps>) -> Option<TimeRange> {
    let [start, .., end] = *steps?.counted_on(ledger.process).host else { return None };
    Some(TimeRange { start, end })
}

impl Clusters {
    /// Sorts by total.
    fn sort(&mut self) {
        let mut order: Vec<u32> = (0..self.all.len() as u32).collect();
        // The first gap of a cluster ascends with its number.
        order.sort_by_key(|&i| Reverse(self.all[i as usize].sum.total_ns));
        let mut place = vec![0_u32; order.len()];
        for (at, &i) in (0..).zip(&order) {
            place[i as usize] = at;
        }
        for (_, cluster) in &mut self.cluster_of {
            *cluster = place[*cluster as usize];
        }
        self.all = order.iter().map(|&i| self.all[i as usize].clone()).collect();
    }
}

/// Gives each cluster the place where the host was during most of its time, and unites those that are alike then.
///
/// Returns the key of each cluster, with its time by class; clusters ascend with their first gap.
///
/// * `places`: the time of the gaps of each cluster, by place; `by_class`: the same by class.
fn united(
    ids: HashMap<Key, u32>,
    places: &HashMap<(u32, HostPlace), DurNs>,
    by_class: &[IdleByClass],
    cluster_of: &mut [(u32, u32)],
) -> Vec<(Key, IdleByClass)> {
    let mut distinct: Vec<(u32, Key)> = ids.into_iter().map(|(key, cluster)| (cluster, key)).collect();
    distinct.sort_unstable_by_key(|key| key.0);
    let mut most = vec![(0, Reverse(HostPlace::default())); distinct.len()];
    for (&(cluster, place), &ns) in places {
        let most = &mut most[cluster as usize];
        *most = (*most).max((ns, Reverse(place)));
    }
    let mut ids = HashMap::new();
    let mut all: Vec<(Key, IdleByClass)> = Vec::new();
    let mut united: Vec<u32> = Vec::with_capacity(distinct.len());
    for (((_, key), (_, Reverse(place))), ns) in distinct.into_iter().zip(most).zip(by_class) {
        let key = Key { place, ..key };
        let at = *ids.entry(key).or_insert_with(|| {
            all.push((key, [0; GapClass::N]));
            all.len() - 1
        });
        all[at].1.iter_mut().zip(ns).for_each(|(sum, ns)| *sum += ns);
        united.push(at as u32);
    }
    for (_, cluster) in cluster_of {
        *cluster = united[*cluster as usize];
    }
    all
}

/// Gaps by cluster.
struct ByCluster {
    gaps: Vec<u32>,
    /// Of each cluster.
    ranges: Vec<(u32, u32)>,
}

/// Sorts gaps by cluster, stably. Cost: O(n).
fn by_cluster(cluster_of: &[(u32, u32)], n: usize) -> ByCluster {
    let mut counts = vec![0_u32; n];
    for &(_, cluster) in cluster_of {
        counts[cluster as usize] += 1;
    }
    let mut end = 0;
    let mut ranges: Vec<(u32, u32)> = Vec::with_capacity(n);
    for count in counts {
        ranges.push((end, end));
        end += count;
    }
    let mut gaps = vec![0; cluster_of.len()];
    for &(gap, cluster) in cluster_of {
        let range = &mut ranges[cluster as usize];
        gaps[range.1 as usize] = gap;
        range.1 += 1;
    }
    ByCluster { gaps, ranges }
}

/// The figures of one cluster.
///
/// * `durs`: of its gaps.
/// * `range`: in [`Clusters::gaps`].
fn cluster((key, by_class): &(Key, IdleByClass), sums: &Sums, durs: &mut [DurNs], range: (u32, u32)) -> GapCluster {
    let in_family = GapClass::ALL.into_iter().filter(|&class| family(class) == key.family);
    let class = in_family.rev().max_by_key(|&class| by_class[class as usize]).unwrap_or_default();
    let trigger = (0..sums.by_trigger.len()).rev().max_by_key(|&i| sums.by_trigger[i]).unwrap_or(0);
    GapCluster {
        prev: key.prev,
        next: key.next,
        class,
        trigger: trigger.checked_sub(1).map(|i| Trigger::ALL[i]),
        path: key.place.path,
        frame: key.place.frame,
        sum: sums.recurrence,
        spread: Spread::of(durs),
        is_at_step_boundary: sums.n_at_boundary > 0 && 2 * sums.n_at_boundary >= sums.n_in_steps,
        gaps: range,
    }
}

/// Tells of gaps in the order of time in which step they are.
///
/// See [`moment_of`].
struct InSteps<'a> {
    unrecorded: &'a Unrecorded<'a>,
    taken: &'a Taken,
    /// Of the judged steps.
    boundaries: &'a [TimeNs],
    /// Boundaries up to the middle of the last gap.
    n_passed: usize,
}

impl InSteps<'_> {
    fn of(&mut self, index: usize) -> Placed {
        let gap = self.unrecorded.ledger.gap(index);
        let ahead = &self.boundaries[self.n_passed..];
        // Most gaps are in the step of the one before, or in the next.
        let middle = moment_of(gap.time);
        self.n_passed += ahead.iter().take_while(|&&boundary| boundary <= middle).count();
        let step = Some(self.n_passed).filter(|&step| step > 0 && step < self.boundaries.len());
        let is_at_boundary = step
            .is_some_and(|step| self.boundaries[step - 1] >= gap.time.start || self.boundaries[step] <= gap.time.end);
        let [gain, recorder] = step.map_or([0; 2], |_| self.unrecorded.gain(index, self.taken));
        Placed { gap, step, is_at_boundary, gain, recorder }
    }
}

/// A gap with what is known of it in steps.
struct Placed {
    gap: Gap,
    /// The number of its step, from 1; `None` outside of those that count.
    step: Option<usize>,
    is_at_boundary: bool,
    /// What ending its causes would save, and what the recorder took of that; see [`Unrecorded::gain`].
    gain: DurNs,
    recorder: DurNs,
}

/// Sums over gaps, added in the order of time.
#[derive(Clone, Default)]
struct Sums {
    recurrence: Recurrence,
    /// By trigger; the first of gaps without one.
    by_trigger: [DurNs; 1 + Trigger::ALL.len()],
    n_in_steps: u32,
    n_at_boundary: u32,
    /// The last step with a gap.
    last_step: usize,
}

impl Sums {
    fn add(&mut self, placed: &Placed) {
        let &Placed { gap, step, is_at_boundary, gain, recorder } = placed;
        let (dur, sum) = (gap.time.dur(), &mut self.recurrence);
        sum.count += 1;
        sum.total_ns += dur;
        self.by_trigger[gap.trigger.map_or(0, |trigger| 1 + trigger as usize)] += dur;
        let Some(step) = step else { return };
        sum.in_steps_ns += dur;
        sum.recoverable_in_steps_ns += gain;
        sum.recorder_in_steps_ns += recorder;
        sum.steps_present += usize::from(self.last_step != step);
        self.last_step = step;
        self.n_in_steps += 1;
        self.n_at_boundary += u32::from(is_at_boundary);
    }
}
