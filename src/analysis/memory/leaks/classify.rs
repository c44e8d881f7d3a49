//! Classification of each signature's growth as a leak candidate or as explained.

use super::enough::{comes_back, is_settling};
use super::failures::Failures;
use super::rise::{level_since, onset};
use super::series::{Crossing, Series};
use super::{Explained, GrowingPlace, LeakCandidate, LeakEvidence, Leaks, Thresholds, Verdict};
use crate::analysis::memory::signature::SignatureId;
use crate::analysis::memory::trend::{Trend, trend};
use crate::model::MemoryHistory;

/// Kendall's tau from which a buffer counts as growing: nearly all pairs of steps rise.
const GROWING: f64 = 0.9;
/// Share of the growth of all memory from which one place explains it.
const NEARLY_ALL: f64 = 0.9;

/// Parameters for classifying the signatures of one history.
#[derive(Clone, Copy, Debug)]
pub struct Criteria<'a> {
    pub history: &'a MemoryHistory,
    pub warm_up: usize,
    pub n_steps: usize,
    /// The state in which what is live counts as kept.
    pub until: u32,
    pub failures: &'a Failures,
    /// Smallest growth considered, in bytes per step.
    pub least: f64,
    pub thresholds: &'a Thresholds,
}

/// Growth of one signature over some steps.
struct Judged {
    trend: Trend,
    survivors: Survivors,
    /// Bytes per step.
    rate: f64,
    is_leak: bool,
    /// Whether it rises in nearly all of these steps.
    is_steady: bool,
    /// Why it is none, if that is worth saying.
    verdict: Option<Verdict>,
}

/// Blocks that outlived their step by [`Thresholds::survivor_delay`].
struct Survivors {
    count: u64,
    /// Number of distinct steps in which they were allocated.
    steps: usize,
    /// The same for those that are kept.
    kept_steps: usize,
    /// Share of their bytes that is kept; 1 without survivors.
    kept: f64,
}

impl Criteria<'_> {
    fn bytes(&self, block: &Crossing) -> i64 {
        self.history.allocations.bytes[block.id.idx()] as i64
    }

    /// Classifies one signature by its blocks that are live at a boundary.
    ///
    /// * `ended`: live bytes at each boundary of places that grew in several steps and stopped, to which this one is
    ///   added if it is such.
    pub fn classify(&self, blocks: &[Crossing], losses: &mut Losses, ended: &mut [i64], found: &mut Leaks) {
        let Some(&Crossing { signature, .. }) = blocks.first() else { return };
        let Self { warm_up, n_steps, least, thresholds, .. } = *self;
        let series = Series::new(blocks, |block| self.bytes(block));
        let last = series.at(n_steps);
        let mut explain = |verdict| {
            found.explained.push(Explained { signature, verdict, bytes: last, given_up_by: Vec::new() });
        };
        if blocks.iter().all(|block| block.birth().is_none_or(|step| step < warm_up)) && last > 0 {
            explain(Verdict::Setup);
        }
        // Most signatures are too small to matter: skip them early.
        if (blocks.iter().map(|block| self.bytes(block)).sum::<i64>() as f64) < least {
            return;
        }
        let growth = last - series.at(warm_up);
        if growth < 0 {
            losses.add(self, blocks);
        }
        let live_bytes = series.dense(n_steps + 1);
        let boundaries = self.failures.completed(warm_up, &live_bytes);
        let counted: Vec<i64> = boundaries.iter().map(|&boundary| live_bytes[boundary]).collect();
        let whole = counted.len() - 1;
        let third = (whole + 1) / 3;
        let is_over = growth as f64 >= least
            && (level_since(&counted).is_some()
                || is_settling(&counted)
                || third >= 2 && (last - counted[whole - third]) as f64 <= 0.1 * growth as f64);
        let survivors = self.survivors(blocks, warm_up);
        if is_over && survivors.kept >= thresholds.min_kept {
            // A place that grew once says nothing of the others: stacks may differ from step to step.
            if survivors.kept_steps >= thresholds.min_survivor_steps {
                ended.iter_mut().zip(live_bytes).for_each(|(sum, bytes)| *sum += bytes);
            }
            return explain(Verdict::WarmUpCache);
        }
        // A late rise is judged by itself, else all judged steps.
        let repeated = |first| self.comes_back(blocks, first).max(self.comes_back(blocks, 0));
        let late = onset(&counted).and_then(|from| {
            let judged = self.judge(blocks, &counted[from..], boundaries[from], repeated(boundaries[from]))?;
            judged.is_leak.then_some((judged, from))
        });
        let found_growth = late.or_else(|| Some((self.judge(blocks, &counted, warm_up, repeated(warm_up))?, 0)));
        let Some((judged, from)) = found_growth else {
            found.growing.extend(self.of_few_steps(&counted).map(|rate| self.grows(blocks, warm_up, rate)));
            return;
        };
        if judged.is_leak {
            let since = (from > 0).then(|| boundaries[from]);
            found.candidates.push(self.candidate(blocks, since, counted[whole] - counted[from], &judged));
            return;
        }
        judged.verdict.into_iter().for_each(explain);
        found.growing.extend(judged.is_steady.then(|| self.grows(blocks, warm_up, judged.rate)));
    }

    fn grows(&self, blocks: &[Crossing], first: usize, bytes_per_step: f64) -> GrowingPlace {
        let counts = Series::new(blocks, |_| 1);
        let counts = [first, self.n_steps].map(|boundary| counts.at(boundary) as u32);
        let is_freed = |block: &Crossing| self.history.allocations.freed[block.id.idx()] <= self.until;
        let awaiting = blocks.iter().filter(|block| block.end as usize > self.n_steps && is_freed(block));
        GrowingPlace {
            signature: blocks[0].signature,
            place: String::new(),
            bytes_per_step,
            blocks: counts,
            awaiting: awaiting.map(|block| self.bytes(block)).sum(),
        }
    }

    fn candidate(&self, blocks: &[Crossing], since_step: Option<usize>, growth: i64, judged: &Judged) -> LeakCandidate {
        let counts = Series::new(blocks, |_| 1).dense(self.n_steps + 1);
        LeakCandidate {
            signature: blocks[0].signature,
            bytes_per_step: judged.rate,
            since_step,
            slope_share: 0.0,
            growth_bytes: growth,
            live_bytes: Series::new(blocks, |block| self.bytes(block)).dense(self.n_steps + 1),
            live_count: counts.into_iter().map(|count| count as u32).collect(),
            monotonic: judged.trend.monotonic,
            r2: judged.trend.r2,
            survivors: judged.survivors.count,
            survivor_steps: judged.survivors.steps,
            severity: self.thresholds.severity(growth),
            score: 0.0,
            evidence: LeakEvidence::default(),
        }
    }

    /// Names the place that has nearly all of the growth of all memory, where that rises and no place leaks by the
    /// number and distances of its steps alone. It leaks if blocks of [`Thresholds::min_repeated_steps`] are kept.
    ///
    /// * `since`: the boundary from which all memory grows, by `growth` bytes.
    /// * Cost: O(m) for m blocks that are live at a boundary.
    pub fn name_most(&self, crossings: &[Crossing], since: usize, growth: i64, found: &mut Leaks) {
        let is_live = |block: &Crossing, boundary: usize| {
            i64::from((block.first as usize..block.end as usize).contains(&boundary))
        };
        let gain = |block: &Crossing| self.bytes(block) * (is_live(block, self.n_steps) - is_live(block, since));
        let of_place = |blocks: &[Crossing]| blocks.iter().map(gain).sum::<i64>();
        let places = crossings.chunk_by(|a, b| a.signature == b.signature);
        let Some(most) = places.max_by_key(|blocks| of_place(blocks)) else { return };
        let (gained, signature) = (of_place(most), most[0].signature);
        if (gained as f64) < NEARLY_ALL * growth as f64 || found.growing.iter().any(|one| one.signature == signature) {
            return;
        }
        let live = Series::new(most, |block| self.bytes(block)).dense(self.n_steps + 1);
        let counted: Vec<i64> = self.failures.completed(since, &live).into_iter().map(|at| live[at]).collect();
        let (trend, survivors) = (trend(&counted), self.survivors(most, since));
        let rate = gained as f64 / (counted.len() - 1).max(1) as f64;
        let is_leak = survivors.kept >= self.thresholds.min_kept
            && survivors.kept_steps >= self.thresholds.min_repeated_steps
            && trend.tau >= self.thresholds.min_seldom_tau;
        if !is_leak {
            return found.growing.push(self.grows(most, since, rate));
        }
        found.explained.retain(|one| one.signature != signature);
        let judged = Judged { trend, survivors, rate, is_leak, is_steady: false, verdict: None };
        found.candidates.push(self.candidate(most, (since > self.warm_up).then_some(since), gained, &judged));
    }

    /// How often what was requested comes back from the boundary `first` on: the allocator may round one block up by more
    /// than the next.
    fn comes_back(&self, blocks: &[Crossing], first: usize) -> usize {
        let requested = Series::new(blocks, |block| self.history.allocations.requested[block.id.idx()] as i64);
        let requested = requested.dense(self.n_steps + 1);
        let counted = self.failures.completed(first, &requested).into_iter().map(|at| requested[at]);
        comes_back(&counted.collect::<Vec<_>>())
    }

    /// Judges the growth at the boundaries from `first` on; `None` if it rises in too few steps.
    ///
    /// * `repeated`: how often it comes back, the warm-up included.
    fn judge(&self, blocks: &[Crossing], counted: &[i64], first: usize, repeated: usize) -> Option<Judged> {
        let Self { least, thresholds, .. } = *self;
        let n = counted.len() - 1;
        let rises = counted.windows(2).filter(|pair| pair[1] > pair[0]).count();
        let is_most_rising = rises as f64 / n.max(1) as f64 >= thresholds.min_monotonic;
        let survivors = self.survivors(blocks, first);
        // What the last of these steps kept cannot have outlived another.
        let is_repeated = survivors.kept_steps.saturating_add(1) >= thresholds.min_repeated_steps
            && repeated >= thresholds.min_repeated_steps;
        let is_seldom = is_repeated || survivors.kept_steps >= thresholds.min_seldom_steps;
        let is_seen_twice = rises >= 2 && survivors.kept_steps >= 2;
        if n < thresholds.min_steps || !(is_most_rising || is_seldom || is_seen_twice) {
            return None;
        }
        let trend = trend(counted);
        let growth = counted[n] - counted[0];
        let mean = growth as f64 / n as f64;
        let is_rising = is_most_rising && growth > 0;
        let is_steady = is_rising && trend.slope >= least;
        let is_seldom = is_seldom && trend.tau >= thresholds.min_seldom_tau && mean >= least;
        let is_kept = survivors.kept >= thresholds.min_kept;
        let is_surviving = survivors.steps >= thresholds.min_survivor_steps;
        let verdict = match trend.tau >= GROWING {
            _ if is_steady && is_surviving => Some(Verdict::Released),
            true if is_steady && n >= thresholds.alarm_points => Some(Verdict::GrowingBuffer),
            true if is_rising && !is_steady && is_surviving && is_kept => Some(Verdict::BelowThreshold),
            _ if !is_most_rising && is_kept && mean >= least && trend.tau > 0.0 => Some(Verdict::TooFewGains),
            _ => None,
        };
        Some(Judged {
            is_steady: is_steady && trend.tau >= GROWING,
            is_leak: is_kept && (is_seldom || is_steady && is_surviving),
            // The median slope is not meaningful for growth in a few steps only.
            rate: if is_steady { trend.slope } else { mean },
            verdict,
            trend,
            survivors,
        })
    }

    /// The growth, in bytes per step, of what rises in each of two or more steps that are too few to judge.
    fn of_few_steps(&self, counted: &[i64]) -> Option<f64> {
        let n = counted.len() - 1;
        let rises = counted.windows(2).all(|pair| pair[1] > pair[0]);
        let slope = trend(counted).slope;
        ((2..self.thresholds.min_steps).contains(&n) && rises && slope >= self.least).then_some(slope)
    }

    /// Of the steps from `first` on.
    fn survivors(&self, blocks: &[Crossing], first: usize) -> Survivors {
        let delay = self.thresholds.survivor_delay;
        let survivors = blocks.iter().filter(|block| block.survives(first, self.n_steps, delay));
        let (mut count, mut bytes, mut kept) = (0, 0_i64, 0_i64);
        let (mut steps, mut kept_steps) = (Vec::new(), Vec::new());
        for block in survivors {
            count += 1;
            bytes += self.bytes(block);
            steps.extend(block.birth());
            if self.history.allocations.end[block.id.idx()] > self.until {
                kept += self.bytes(block);
                kept_steps.extend(block.birth());
            }
        }
        let distinct = |mut steps: Vec<usize>| {
            steps.sort_unstable();
            steps.dedup();
            steps.len()
        };
        let kept = if bytes == 0 { 1.0 } else { kept as f64 / bytes as f64 };
        Survivors { count, steps: distinct(steps), kept_steps: distinct(kept_steps), kept }
    }

    /// Change in bytes from the first boundary after the warm-up to the last, by log2 of the block size.
    fn change(&self, blocks: &[Crossing]) -> [i64; 64] {
        let mut change = [0; 64];
        for block in blocks {
            let is_live = |boundary: usize| (block.first as usize..block.end as usize).contains(&boundary);
            let more = i64::from(is_live(self.n_steps)) - i64::from(is_live(self.warm_up));
            change[self.bytes(block).max(1).ilog2() as usize] += more * self.bytes(block);
        }
        change
    }
}

/// Bytes lost by signatures that shrink.
#[derive(Clone, Debug, Default)]
pub struct Losses(Vec<Loss>);

#[derive(Clone, Copy, Debug)]
struct Loss {
    signature: SignatureId,
    /// Log2 of the block size.
    size: usize,
    bytes: i64,
}

impl Losses {
    fn add(&mut self, criteria: &Criteria<'_>, blocks: &[Crossing]) {
        let Some(&Crossing { signature, .. }) = blocks.first() else { return };
        let lost = criteria.change(blocks).into_iter().enumerate().filter(|(_, change)| *change < 0);
        self.0.extend(lost.map(|(size, change)| Loss { signature, size, bytes: -change }));
    }

    /// By log2 of the block size.
    fn by_size(&self) -> [i64; 64] {
        let mut sums = [0; 64];
        self.0.iter().for_each(|loss| sums[loss.size] += loss.bytes);
        sums
    }

    /// Who lost blocks of sizes of which some are matched, the largest loss first.
    fn of_sizes(&self, matched: &[i64; 64]) -> Vec<SignatureId> {
        let mut lost: Vec<(SignatureId, i64)> = Vec::new();
        for loss in self.0.iter().filter(|loss| matched[loss.size] > 0) {
            // The losses of a signature stand together.
            match lost.last_mut() {
                Some((signature, bytes)) if *signature == loss.signature => *bytes += loss.bytes,
                _ => lost.push((loss.signature, loss.bytes)),
            }
        }
        lost.sort_by_key(|&(signature, bytes)| (std::cmp::Reverse(bytes), signature));
        lost.into_iter().map(|(signature, _)| signature).collect()
    }

    /// Reclassifies candidates as [`Verdict::Offset`], those with the largest gain first, if other signatures
    /// lost about as much in blocks of similar size; but only if the remaining candidates account for the
    /// growth of total memory.
    ///
    /// * `growth`: growth of total memory in bytes; 0 if level.
    pub fn offset(&self, crossings: &[Crossing], criteria: &Criteria<'_>, growth: i64, found: &mut Leaks) {
        found.candidates.sort_by_key(|candidate| (std::cmp::Reverse(candidate.growth_bytes), candidate.signature));
        let (mut left, mut offset) = (Vec::new(), Vec::new());
        let mut lost = self.by_size();
        for candidate in &found.candidates {
            let first = crossings.partition_point(|block| block.signature < candidate.signature);
            let n = crossings[first..].partition_point(|block| block.signature == candidate.signature);
            let gained = criteria.change(&crossings[first..first + n]).map(|change| change.max(0));
            let matched: [i64; 64] = std::array::from_fn(|size| gained[size].min(lost[size]));
            if (matched.iter().sum::<i64>() as f64) < 0.9 * gained.iter().sum::<i64>() as f64 {
                left.push(candidate.clone());
                continue;
            }
            lost.iter_mut().zip(matched).for_each(|(lost, matched)| *lost -= matched);
            offset.push(Explained {
                signature: candidate.signature,
                verdict: Verdict::Offset,
                bytes: candidate.live_bytes.last().copied().unwrap_or_default(),
                given_up_by: self.of_sizes(&matched),
            });
        }
        let attributed: i64 = left.iter().map(|candidate| candidate.growth_bytes).sum();
        if attributed as f64 >= criteria.thresholds.min_attributed * growth as f64 {
            found.candidates = left;
            found.explained.extend(offset);
        }
    }
}
