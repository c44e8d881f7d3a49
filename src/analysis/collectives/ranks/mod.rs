//! Collectives of several ranks of one job, brought together: which ranks waited in each, and for whom (F14).
//!
//! **What durations tell.** No rank gets through a collective before the last one has come: the kernels of all ranks,
//! or the ranges of their threads where the host runs it, end together, and the one that came last is the shortest. Its
//! duration is the transfer, what the others take longer is waiting. That needs no common clock. Where a rank is
//! missing, it may have come later still: the transfer is then an upper bound, and each wait a lower one.
//!
//! **What clocks are used for.** To find the same call on another rank where its number was not recorded, for calls in
//! which data goes one way, and for the time before the first collective. The difference of two ranks' clocks is the
//! median by which the ends of their collectives differ, so clocks of several hosts may be wrong by any constant. What
//! does not end together by the clock is counted as not matched.

mod calls;
mod pairing;
#[cfg(test)]
mod tests;
mod totals;

use std::ops::Range;

use hashbrown::HashMap;

use self::calls::{Call, Groups, calls};
use self::pairing::pairs;
pub use self::totals::RankTotals;
use crate::analysis::clock::{self, Clock, ClockSource};
use crate::analysis::content::content;
use crate::analysis::median;
use crate::model::{DurNs, SliceId, TimeNs, TimeRange, Trace};

/// How many sets of ranks are remembered that took part in a collective.
const RECENT_SETS: usize = 32;

/// The collectives of several ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankCalls {
    /// By the time at which the first rank came; each with at least two ranks.
    pub matches: Vec<Match>,
    /// The parts of all matches.
    pub parts: Vec<RankPart>,
    /// One for each trace of a rank that was recorded beside others and has collectives, in the order of the traces.
    pub ranks: Vec<RankOf>,
    /// Indices into `parts`, by trace and slice.
    by_slice: Vec<u32>,
}

/// One collective in which several ranks took part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Its first part; in the order of their traces.
    first: u32,
    n: u32,
    /// Index of the part of the rank that came last.
    pub late: u32,
    /// Shortest duration of all ranks, in nanoseconds.
    pub transfer_ns: DurNs,
    /// Whether none came before it in which all of its ranks took part. Who came last then tells when each began to
    /// record as well: recorders start milliseconds apart.
    pub is_first: bool,
}

/// What one rank did in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPart {
    /// Index of the trace.
    pub trace: u32,
    /// Index of the match.
    pub of: u32,
    pub slice: SliceId,
    /// In trace time.
    pub time: TimeRange,
    /// Duration without the transfer, in nanoseconds.
    pub wait_ns: DurNs,
    /// When all its ranks were last known to be equally far, in trace time: when the collective before it ended in
    /// which all of them took part, else when all of them were recorded. `None` if that cannot be told. Never after it
    /// began.
    pub since: Option<TimeNs>,
}

impl RankPart {
    /// When it waited.
    pub fn wait(&self) -> TimeRange {
        TimeRange { end: self.time.start + self.wait_ns, ..self.time }
    }
}

/// What became of the collectives of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankOf {
    /// Index of the trace.
    pub trace: u32,
    pub rank: u32,
    /// Ranks with the same number were recorded together.
    pub job: u32,
    pub matched: u64,
    /// Sends and receives, which are not collectives.
    pub point_to_point: u64,
    /// All others: no rank that was given took part, or nothing tells which call it is there.
    pub unmatched: u64,
    /// To add to its times for those of the first rank of its job, beside what its file says of its clock, and how far
    /// nine of ten of its collectives end from those of other ranks then; in nanoseconds. `None` if it has none with
    /// them.
    pub clock: Option<ClockError>,
}

/// How far the clock of a rank is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockError {
    pub offset_ns: DurNs,
    pub residual_ns: DurNs,
}

impl RankCalls {
    /// The parts of a match.
    pub fn parts_of(&self, of: &Match) -> &[RankPart] {
        &self.parts[self.places_of(of)]
    }

    /// The indices of the parts of a match.
    pub fn places_of(&self, of: &Match) -> Range<usize> {
        of.first as usize..(of.first + of.n) as usize
    }

    /// The rank that came last.
    pub fn late(&self, of: &Match) -> &RankPart {
        &self.parts[of.late as usize]
    }

    /// The part of a kernel. Cost: O(log n).
    pub fn of_slice(&self, trace: u32, slice: SliceId) -> Option<&RankPart> {
        let at = self.by_slice.binary_search_by_key(&(trace, slice), |&part| {
            let part = &self.parts[part as usize];
            (part.trace, part.slice)
        });
        at.ok().map(|at| &self.parts[self.by_slice[at] as usize])
    }

    /// The parts of one trace, by slice. Cost: O(log n) to find them.
    pub fn of_trace(&self, trace: u32) -> impl Iterator<Item = &RankPart> {
        let before = |below: u32| self.by_slice.partition_point(|&part| self.parts[part as usize].trace < below);
        self.by_slice[before(trace)..before(trace + 1)].iter().map(|&part| &self.parts[part as usize])
    }

    /// The rank of a trace. Cost: O(log n).
    pub fn rank_of(&self, trace: u32) -> Option<&RankOf> {
        self.ranks.binary_search_by_key(&trace, |rank| rank.trace).ok().map(|at| &self.ranks[at])
    }

    /// How many ranks were recorded together with this one, itself included.
    pub fn n_ranks(&self, job: u32) -> usize {
        self.ranks.iter().filter(|rank| rank.job == job).count()
    }
}

/// Matches the collectives of the ranks among these traces: those of one run that were recorded at the same time.
/// Traces without a rank, and single ones, have none.
///
/// * By process group and number where both are recorded, else in order within the group; see `pairing`.
/// * Units: nanoseconds.
/// * Cost: O(n + c log c) for n slices and c collectives; nothing for a single trace.
pub fn rank_calls(traces: &[&Trace]) -> RankCalls {
    if traces.len() < 2 {
        return RankCalls::default();
    }
    let clock = clock::clock(traces, &traces.iter().map(|trace| content(trace)).collect::<Vec<_>>());
    let mut out = RankCalls::default();
    let (mut groups, mut n_jobs) = (Groups::new(), 0);
    for job in jobs(traces, &clock) {
        let ranks: Vec<Rank<'_>> = job
            .into_iter()
            .map(|index| Rank {
                trace: traces[index],
                index: index as u32,
                offset: clock.placed[index].offset,
                is_utc: clock.placed[index].source == ClockSource::Utc,
                calls: calls(traces[index], &mut groups),
            })
            .filter(|rank| !rank.calls.is_empty())
            .collect();
        if ranks.len() > 1 {
            Job { ranks: &ranks, found: Vec::new(), clocks: Vec::new() }.add_to(&mut out, n_jobs);
            n_jobs += 1;
        }
    }
    out.ranks.sort_unstable_by_key(|rank| rank.trace);
    out.by_slice = (0..out.parts.len() as u32).collect();
    let parts = &out.parts;
    out.by_slice.sort_unstable_by_key(|&part| (parts[part as usize].trace, parts[part as usize].slice));
    out
}

/// The traces of ranks that were recorded together: of one run, at the same time, no rank twice.
fn jobs(traces: &[&Trace], clock: &Clock) -> Vec<Vec<usize>> {
    let span = |index: usize| traces[index].span.shifted(clock.placed[index].offset);
    let mut ranked: Vec<usize> = (0..traces.len()).filter(|&index| traces[index].info.rank.is_some()).collect();
    ranked.sort_by_key(|&index| (clock.placed[index].run, span(index).start, traces[index].info.rank));
    let mut jobs: Vec<(Vec<usize>, TimeRange)> = Vec::new();
    for index in ranked {
        let is_of = |(job, time): &&mut (Vec<usize>, TimeRange)| {
            let is_new = job.iter().all(|&other| traces[other].info.rank != traces[index].info.rank);
            let is_same_run = clock.placed[job[0]].run == clock.placed[index].run;
            is_new && is_same_run && time.intersect(span(index)).is_some()
        };
        match jobs.iter_mut().find(is_of) {
            Some((job, time)) => {
                job.push(index);
                *time = time.union(span(index));
            }
            None => jobs.push((vec![index], span(index))),
        }
    }
    let sorted = |(mut job, _): (Vec<usize>, TimeRange)| {
        job.sort_unstable();
        job
    };
    jobs.into_iter().map(sorted).collect()
}

/// A rank of a job.
struct Rank<'a> {
    trace: &'a Trace,
    index: u32,
    /// To the clock of all traces.
    offset: DurNs,
    is_utc: bool,
    calls: Vec<Call>,
}

impl Rank<'_> {
    fn end(&self, call: usize) -> TimeNs {
        self.calls[call].time.end.saturating_add(self.offset)
    }
}

/// Ranks that were recorded together. Members are indices into `ranks` and into their calls.
struct Job<'a> {
    ranks: &'a [Rank<'a>],
    /// The matches, each as its members in the order of the ranks.
    found: Vec<Vec<(usize, usize)>>,
    /// Of each rank, to the first.
    clocks: Vec<Option<ClockError>>,
}

impl Job<'_> {
    fn add_to(mut self, out: &mut RankCalls, job: u32) {
        let mut by_group: HashMap<u32, Vec<(usize, Vec<usize>)>> = HashMap::new();
        for (rank, of) in self.ranks.iter().enumerate() {
            let mut own: HashMap<u32, Vec<usize>> = HashMap::new();
            for (call, _) in of.calls.iter().enumerate().filter(|(_, call)| !call.op.is_point_to_point()) {
                own.entry(of.calls[call].group).or_default().push(call);
            }
            for (group, calls) in own {
                by_group.entry(group).or_default().push((rank, calls));
            }
        }
        let mut groups: Vec<_> = by_group.into_iter().filter(|(_, members)| members.len() > 1).collect();
        groups.sort_unstable_by_key(|(group, _)| *group);
        for (_, members) in &groups {
            let has_numbers = members
                .iter()
                .all(|(rank, calls)| calls.iter().all(|&call| self.ranks[*rank].calls[call].seq.is_some()));
            if has_numbers { self.by_number(members) } else { self.in_order(members) }
        }
        self.clocks = self.clocks();
        self.drop_one_way();
        let mut found = std::mem::take(&mut self.found);
        let start = |&(rank, call): &(usize, usize)| self.start(rank, self.ranks[rank].calls[call].time.start);
        found.sort_by_cached_key(|members| members.iter().map(start).min());
        self.found = found;
        self.write(out, job);
    }

    fn by_number(&mut self, members: &[(usize, Vec<usize>)]) {
        let numbered = members.iter().flat_map(|(rank, calls)| {
            calls.iter().map(|&call| {
                let Call { seq, op, .. } = self.ranks[*rank].calls[call];
                ((seq, op), (*rank, call))
            })
        });
        let mut numbered: Vec<_> = numbered.collect();
        numbered.sort_unstable();
        let same = numbered.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1);
        self.found.extend(same.map(|same| same.iter().map(|&(_, member)| member).collect()));
    }

    fn in_order(&mut self, members: &[(usize, Vec<usize>)]) {
        let Some(((first, own), others)) = members.split_first() else { return };
        let of = |rank: usize, calls: &[usize]| -> Vec<&Call> {
            calls.iter().map(|&call| &self.ranks[rank].calls[call]).collect()
        };
        let firsts = of(*first, own);
        let mut found: Vec<Vec<(usize, usize)>> = own.iter().map(|&call| vec![(*first, call)]).collect();
        for (rank, calls) in others {
            let [a, b] = [*first, *rank].map(|rank| &self.ranks[rank]);
            let clock = (b.offset.saturating_sub(a.offset), a.is_utc && b.is_utc);
            for (i, j) in pairs(&firsts, &of(*rank, calls), clock) {
                found[i].push((*rank, calls[j]));
            }
        }
        found.retain(|members| members.len() > 1);
        self.found.extend(found);
    }

    /// The clock of each rank: by how much its collectives end apart from those of the first one, or of one whose clock
    /// is known. Cost: O(parts log parts).
    fn clocks(&self) -> Vec<Option<ClockError>> {
        let mut clocks = vec![None; self.ranks.len()];
        clocks[0] = Some(ClockError::default());
        // The differences of each two ranks of which one is the first of a match.
        let mut apart: HashMap<(usize, usize), Vec<DurNs>> = HashMap::new();
        for members in &self.found {
            let (first, call) = members[0];
            if self.ranks[first].calls[call].op.is_one_way() {
                continue;
            }
            let end = self.ranks[first].end(call);
            for &(rank, call) in &members[1..] {
                apart.entry((first, rank)).or_default().push(end.saturating_sub(self.ranks[rank].end(call)));
            }
        }
        let mut pairs: Vec<((usize, usize), ClockError)> = apart
            .into_iter()
            .filter_map(|(pair, mut apart)| {
                apart.sort_unstable();
                let offset_ns = median::of_sorted(&apart)?;
                let mut residuals: Vec<DurNs> = apart.iter().map(|apart| (apart - offset_ns).abs()).collect();
                residuals.sort_unstable();
                let residual_ns = residuals[(residuals.len() * 9).div_ceil(10) - 1];
                Some((pair, ClockError { offset_ns, residual_ns }))
            })
            .collect();
        pairs.sort_unstable_by_key(|(pair, _)| *pair);
        // Each pass knows at least one rank more, or is the last.
        loop {
            let n_known = clocks.iter().flatten().count();
            for &((a, b), ClockError { offset_ns, residual_ns }) in &pairs {
                let known = |of: &[Option<ClockError>], rank: usize, sign: DurNs| {
                    let of = of[rank]?;
                    let offset_ns = of.offset_ns.saturating_add(sign * offset_ns);
                    Some(ClockError { offset_ns, residual_ns: residual_ns.max(of.residual_ns) })
                };
                clocks[b] = clocks[b].or_else(|| known(&clocks, a, 1));
                clocks[a] = clocks[a].or_else(|| known(&clocks, b, -1));
            }
            if clocks.iter().flatten().count() == n_known {
                return clocks;
            }
        }
    }

    /// A time of a rank on the clock of the first, as well as it is known.
    fn start(&self, rank: usize, ts: TimeNs) -> TimeNs {
        let more = self.clocks[rank].map_or(0, |clock| clock.offset_ns);
        ts.saturating_add(self.ranks[rank].offset).saturating_add(more)
    }

    /// Where data goes one way ranks wait for each other only if they end together.
    fn drop_one_way(&mut self) {
        let mut found = std::mem::take(&mut self.found);
        found.retain(|members| {
            let (rank, call) = members[0];
            if !self.ranks[rank].calls[call].op.is_one_way() {
                return true;
            }
            let of = |&(rank, call): &(usize, usize)| &self.ranks[rank].calls[call];
            let ends = members.iter().map(|member| self.start(member.0, of(member).time.end));
            let known = members.iter().all(|&(rank, _)| self.clocks[rank].is_some());
            let apart = ends.clone().max().zip(ends.min()).map_or(0, |(max, min)| max - min);
            let shortest = members.iter().map(of).min_by_key(|call| call.time.dur());
            known && shortest.is_some_and(|call| apart <= call.together())
        });
        self.found = found;
    }

    /// Adds the matches, with their waits and since when their ranks are comparable.
    fn write(&self, out: &mut RankCalls, job: u32) {
        let mut matched = vec![0; self.ranks.len()];
        // The sets of ranks that took part last, the newest last, each with the first part of their newest match.
        let mut recent: Vec<(Vec<usize>, usize)> = Vec::new();
        for members in &self.found {
            let (first, of) = (out.parts.len(), out.matches.len() as u32);
            let set: Vec<usize> = members.iter().map(|member| member.0).collect();
            let before =
                recent.iter().rev().find(|(other, _)| set.iter().all(|rank| other.binary_search(rank).is_ok()));
            let is_first = before.is_none();
            let ends = |rank: usize| {
                let (other, first) = before?;
                Some(out.parts[first + other.binary_search(&rank).ok()?].time.end)
            };
            let recorded = self.recorded_since(&set);
            let time = |&(rank, call): &(usize, usize)| self.ranks[rank].calls[call].time;
            let transfer_ns = members.iter().map(|member| time(member).dur()).min().unwrap_or_default();
            let late = members.iter().position(|member| time(member).dur() == transfer_ns).unwrap_or_default();
            let part = |member: &(usize, usize)| {
                let (rank, call) = *member;
                let time = time(member);
                let since = ends(rank).or_else(|| Some(self.own_time(rank, recorded?)));
                RankPart {
                    trace: self.ranks[rank].index,
                    of,
                    slice: self.ranks[rank].calls[call].slice,
                    time,
                    wait_ns: time.dur() - transfer_ns,
                    since: since.map(|since| since.min(time.start)),
                }
            };
            let parts: Vec<RankPart> = members.iter().map(part).collect();
            set.iter().for_each(|&rank| matched[rank] += 1);
            recent.retain(|(other, _)| *other != set);
            recent.push((set, first));
            if recent.len() > RECENT_SETS {
                recent.remove(0);
            }
            out.parts.extend(parts);
            out.matches.push(Match {
                first: first as u32,
                n: members.len() as u32,
                late: (first + late) as u32,
                transfer_ns,
                is_first,
            });
        }
        for ((rank, &matched), &clock) in self.ranks.iter().zip(&matched).zip(&self.clocks) {
            let point_to_point = rank.calls.iter().filter(|call| call.op.is_point_to_point()).count() as u64;
            out.ranks.push(RankOf {
                trace: rank.index,
                rank: rank.trace.info.rank.unwrap_or_default(),
                job,
                matched,
                point_to_point,
                unmatched: rank.calls.len() as u64 - point_to_point - matched,
                clock,
            });
        }
    }

    /// When all of these ranks were recorded, on the clock of the first; `None` if their clocks are not known.
    fn recorded_since(&self, set: &[usize]) -> Option<TimeNs> {
        let start = |&rank: &usize| self.clocks[rank].map(|_| self.start(rank, self.ranks[rank].trace.span.start));
        set.iter().map(start).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// A time of the first rank's clock as this rank has it.
    fn own_time(&self, rank: usize, ts: TimeNs) -> TimeNs {
        ts.saturating_sub(self.start(rank, 0))
    }
}
