//! Causes that cost time in one step only.

use super::account::Books;
use super::room::Stretches;
use super::{Account, CallSite, Cause, Device, Rule, Window};
use crate::analysis::gaps::GapPart;
use crate::analysis::gaps::recorder::Unrecorded;
use crate::model::time::partition_near;
use crate::model::{DurNs, TimeRange};

/// Among fewer steps nothing shows that a cause does not come back.
const MIN_STEPS: usize = 3;
/// Share of the time of a cause that the other steps have at most: a tenth.
const MOST_ELSEWHERE: DurNs = 10;
/// A cause has a similar amount in another step from this part of it on.
const SIMILAR: DurNs = 2;
/// As many of the steps that are not judged are looked at.
const MAX_OTHERS: usize = 8;

/// The one step of several that has nearly all time of a cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Once {
    pub step: String,
    /// Of the cause, in that step.
    pub ns: DurNs,
    /// What ending the cause gains.
    gain: Uneven,
    /// Durations of the steps.
    length: Uneven,
    pub also: Also,
}

/// An amount of the one step, and the mean of those of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Uneven {
    one: DurNs,
    other: DurNs,
    n_others: DurNs,
}

impl Uneven {
    /// * `one`: its index in `all`, which has others.
    fn new(all: &[DurNs], one: usize) -> Self {
        let n_others = all.len() as DurNs - 1;
        Self { one: all[one], other: (all.iter().sum::<DurNs>() - all[one]) / n_others, n_others }
    }

    /// Per step, where one of `every` steps is like the one; else where one of those that are judged is.
    fn mean(self, every: Option<usize>) -> DurNs {
        let n_others = every.map_or(self.n_others, |every| every as DurNs - 1);
        (self.one + n_others * self.other) / (n_others + 1)
    }
}

/// The steps of the recording that are not judged and have the same cause, at the same place, with a similar amount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Also {
    /// Their names, ascending.
    pub steps: Vec<String>,
    /// From one such step to the next, where that is the same for all and agrees with the steps that were recorded.
    pub every: Option<usize>,
}

impl Once {
    /// Whether it is known after how many steps it comes back.
    pub fn comes_back(&self) -> bool {
        self.also.every.is_some()
    }

    /// What ending the cause gains per step, if it comes back: after as many steps as is known, or as it does among the
    /// judged ones, which may hold more or less of it than the program's steps do.
    ///
    /// * `every`: after how many steps, where another cause tells it.
    pub fn gain_ns_per_step(&self, every: Option<usize>) -> DurNs {
        self.gain.mean(every.or(self.also.every))
    }

    /// How long a step takes, likewise.
    pub fn step_ns(&self) -> DurNs {
        self.length.mean(self.also.every)
    }
}

/// What a cause is about: the place in the program with most of its time, else the name.
#[derive(PartialEq, Eq)]
struct CauseKey(Option<CallSite>, Vec<String>);

impl Window {
    /// The judged steps; without any, all of the judged time as one.
    pub(super) fn pieces(&self) -> &[TimeRange] {
        if self.steps.is_empty() { std::slice::from_ref(&self.time) } else { &self.steps }
    }

    /// The index of the piece that some time belongs to, that with most of it; the later of two that have as much.
    pub(super) fn piece_of(&self, time: TimeRange) -> usize {
        self.piece_near(time, &mut 0)
    }

    /// The same, near to the one that was found last.
    pub(super) fn piece_near(&self, time: TimeRange, near: &mut usize) -> usize {
        let pieces = self.pieces();
        *near = partition_near(pieces, *near, |piece| piece.end < time.end);
        let last = (*near).min(pieces.len() - 1);
        let reached = pieces[..=last].iter().rev().take_while(|piece| piece.end > time.start).count().max(1);
        let within = |&at: &usize| pieces[at].intersect(time).map_or(0, TimeRange::dur);
        (last + 1 - reached..=last).max_by_key(within).unwrap_or(last)
    }
}

impl Device<'_, '_> {
    /// The step that has nearly all of the idle time of a cause and of `spans`, if there is one. Such time is no time
    /// per step: a gain in each step does not follow from it, unless it is known after how many it comes back.
    ///
    /// * `gains`: what ending the cause gains each step.
    pub(super) fn once(
        &self,
        rule: Rule,
        account: &Account<'_>,
        spans: impl Iterator<Item = TimeRange>,
        gains: &[DurNs],
    ) -> Option<Once> {
        let Window { ref steps, .. } = *self.window;
        if steps.len() < MIN_STEPS {
            return None;
        }
        let mut by_step = account.by_step.clone();
        by_step.resize(steps.len(), 0);
        let mut idle_by_step = by_step.clone();
        for span in spans {
            by_step[self.window.piece_of(span)] += span.dur();
        }
        let total = by_step.iter().sum::<DurNs>();
        let (step, &ns) = by_step.iter().enumerate().max_by_key(|step| step.1)?;
        let is_once = ns > 0 && MOST_ELSEWHERE * (total - ns) <= total;
        is_once.then(|| Once {
            step: self.step_name(steps[step].start),
            ns,
            gain: Uneven::new(gains, step),
            length: Uneven::new(&steps.iter().map(|step| step.dur()).collect::<Vec<_>>(), step),
            also: self.also(rule, account, steps[step], idle_by_step.swap_remove(step)),
        })
    }

    /// Where else the cause of `account` has a similar amount.
    ///
    /// * `step`, `ns`: the step that has it, and the idle time there.
    fn also(&self, rule: Rule, account: &Account<'_>, step: TimeRange, ns: DurNs) -> Also {
        let (Some(cause), Some(steps)) = (rule.cause(), self.of.steps) else { return Also::default() };
        let index = self.of.busy.iter().position(|busy| std::ptr::eq(busy, self.busy));
        let Some(ledger) = index.and_then(|index| self.of.ledgers.get(index)).filter(|_| ns > 0) else {
            return Also::default();
        };
        let trace = self.of.trace;
        let is_between = |part: &GapPart| self.of.is_between_steps(part);
        let unrecorded = Unrecorded::new(trace, ledger, None);
        let books = Books::new((trace, &self.of.run), (&unrecorded, None), &is_between);
        let stretches = Stretches::default();
        let is_similar = |time: &TimeRange| {
            let idle = ledger.totals(*time).by_class.iter().map(|class| class.total_ns).sum::<DurNs>();
            if SIMILAR * idle < ns {
                return false;
            }
            let alone = Window { time: *time, steps: vec![*time], ..self.window.clone() };
            let all = books.accounts((&alone, ledger.within(*time)), &stretches, None, &|_| false);
            let other = &all[cause as usize];
            SIMILAR * other.total_ns >= ns && self.place(cause, other) == self.place(cause, account)
        };
        let all: Vec<TimeRange> = steps
            .on(self.busy.process)
            .device
            .windows(2)
            .map(|pair| TimeRange { start: pair[0], end: pair[1] })
            .collect();
        let others = all.iter().enumerate().filter(|(_, other)| !self.window.steps.contains(other));
        let mut found: Vec<usize> =
            others.take(MAX_OTHERS).filter(|(_, other)| is_similar(other)).map(|other| other.0).collect();
        let names = found.iter().map(|&k| self.step_name(all[k].start)).collect();
        found.extend(all.iter().position(|other| *other == step));
        found.sort_unstable();
        Also { steps: names, every: every(&found, all.len()) }
    }

    fn place(&self, cause: Cause, account: &Account<'_>) -> CauseKey {
        let sites = if cause == Cause::Host { &account.long } else { &account.sites };
        let site = sites.most(account.total_ns).map(|site| site.0);
        let names = if site.is_none() { account.names(self.of.trace, 1) } else { Vec::new() };
        CauseKey(site, names)
    }
}

/// After how many steps something comes back.
///
/// * `found`: the steps that have it, ascending.
/// * `n`: how many were recorded.
fn every(found: &[usize], n: usize) -> Option<usize> {
    let [first, second, ..] = *found else { return None };
    let every = second - first;
    let is_regular = found.windows(2).all(|pair| pair[1] - pair[0] == every);
    let is_complete = first < every && found[found.len() - 1] + every >= n;
    (is_regular && is_complete).then_some(every)
}

#[cfg(test)]
mod tests {
    use super::every;

    #[test]
    fn what_comes_back_regularly() {
        assert_eq!(every(&[0, 3], 6), Some(3));
        assert_eq!(every(&[1, 4, 7], 9), Some(3));
        assert_eq!(every(&[0, 3], 7), None, "it would have come back in the seventh");
        assert_eq!(every(&[3, 5], 6), None, "and before");
        assert_eq!(every(&[0, 3, 5], 6), None);
        assert_eq!(every(&[2], 6), None);
    }
}
