//! Whether nearly all work of two recordings changed alike, as where one ran on a slower or a busier machine, or that of
//! one name alone.

use super::{Change, Compared, FunctionChange, NamedChange, TimePart};
use crate::analysis::collectives::is_collective_name;
use crate::analysis::host_roles::{Role, Waits, role_of, waits};
use crate::model::{DurNs, SliceKind};

/// Nearly all of the work: as a share of its time, that of names which only one recording has included.
const NEARLY_ALL: f64 = 0.9;
/// Fewer names may well be one part of a program.
const LEAST_NAMES: usize = 5;
/// A smaller factor tells nothing.
const LEAST: f64 = 1.01;

/// By how much nearly all work takes longer in one recording than in the other: on the device, where it is busy for most
/// of the difference, else on the host.
///
/// Each name of kernels and copies, or of operators and Python functions, is weighed by its time in both recordings.
/// Left out is what may wait: collectives, loading of data, operators that read values back, functions that sleep or
/// wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alike {
    /// 90 % of the work take at least so many times as long in the slower recording. That is not of one name alone:
    /// without the one that takes most time, 90 % of the rest take at least the root of it.
    pub factor: f64,
    pub is_of_device: bool,
}

impl Alike {
    /// `None` where the work did not change alike, or not with the step. Cost: O(n log n) for n names.
    ///
    /// * `times`: the step first.
    pub(super) fn of(times: &[(TimePart, Change)], work: &[NamedChange], functions: &[FunctionChange]) -> Option<Self> {
        let step = times.first()?.1.difference();
        let idle = times.iter().find(|time| time.0 == TimePart::Idle).map(|time| time.1.difference());
        let is_of_device = idle.is_some_and(|idle| (step - idle).abs() >= idle.abs());
        let of_device = work.iter().filter(|one| is_of_device && !is_collective_name(&one.name)).map(|one| &one.time);
        let works = |one: &&FunctionChange| {
            let is_code = matches!(one.kind, SliceKind::Operator | SliceKind::PythonFunction);
            let may_wait = || match role_of(one.kind, &one.name) {
                Role::DataLoading | Role::Collective | Role::SyncOperator => true,
                _ => waits(one.kind, &one.name) != Waits::Never,
            };
            is_code && !may_wait()
        };
        let of_host = functions.iter().filter(|one| !is_of_device && works(one)).map(|one| &one.self_time);
        let both = of_device.chain(of_host).map(|change| {
            let [before, after] = change.per_step();
            if step > 0 { [before, after] } else { [after, before] }
        });
        let factor = factor(both.collect())?;
        (factor >= LEAST).then_some(Self { factor, is_of_device })
    }

    /// Whether it is most of what a step takes longer in the slower recording, as a factor.
    pub(super) fn explains(&self, step: &Change) -> bool {
        let [before, after] = step.per_step().map(|ns| ns as f64);
        self.factor.powi(2) >= before.max(after) / before.min(after)
    }
}

impl Compared {
    /// The work of a device that alone changed: it makes nearly all of the difference of a step, and all other work, which
    /// has more time, takes as long as before. Collectives do not count, which wait. Cost: O(n) for n names.
    pub fn only_change(&self) -> Option<&NamedChange> {
        /// Of the time of the other work: what changes by more changed, too.
        const SAME: f64 = 0.01;
        let (_, step) =
            self.times.first().filter(|_| self.has_steps && !self.has_whole_graphs && !self.has_compiled)?;
        let mut all = self.work.iter().filter(|one| !is_collective_name(&one.name));
        let most = all.next()?;
        let (mut before_ns, mut changed_ns) = (0.0, 0.0);
        for one in all {
            before_ns += one.time.per_step()[0] as f64;
            changed_ns += one.time.difference().abs() as f64;
        }
        let share = most.time.difference() as f64 / step.difference() as f64;
        let is_most = share >= NEARLY_ALL && before_ns >= most.time.per_step()[0] as f64;
        (is_most && changed_ns <= before_ns * SAME).then_some(most)
    }
}

/// * `all`: the time of each name in the faster and in the slower recording.
fn factor(all: Vec<[DurNs; 2]>) -> Option<f64> {
    let item = |[faster, slower]: [DurNs; 2]| {
        let [faster, slower] = [faster as f64, slower as f64];
        // What only one has did not change with the rest.
        (if faster > 0.0 { slower / faster } else { 0.0 }, faster + slower)
    };
    let mut all: Vec<(f64, f64)> = all.into_iter().map(item).filter(|item| item.1 > 0.0).collect();
    if all.len() < LEAST_NAMES {
        return None;
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let factor = reached_by_most(&all);
    let most = (0..all.len()).max_by(|&a, &b| all[a].1.total_cmp(&all[b].1))?;
    all.remove(most);
    (reached_by_most(&all).powi(2) >= factor).then_some(factor)
}

/// The factor that nearly all reach, by weight.
///
/// * `all`: factors and weights, the largest factor first.
fn reached_by_most(all: &[(f64, f64)]) -> f64 {
    let least = all.iter().map(|item| item.1).sum::<f64>() * NEARLY_ALL;
    let mut sum = 0.0;
    let reaches = |item: &&(f64, f64)| {
        sum += item.1;
        sum >= least
    };
    all.iter().find(reaches).map_or(0.0, |item| item.0)
}

#[cfg(test)]
mod tests {
    use crate::analysis::compare::tests::{compared, host, training};
    use crate::analysis::compare::{Compared, Unknown, Verdict};

    const US: i64 = 1_000;
    /// What the operators of a step take, in microseconds.
    const USUAL: [i64; 6] = [4_000, 2_000, 1_000, 1_000, 1_000, 1_000];

    fn beside_usual(times: [i64; 6]) -> Compared {
        let names = ["aten::mm", "aten::addmm", "aten::add_", "aten::sum", "aten::mul", "aten::copy_"];
        let of = |times: [i64; 6]| host(&names.into_iter().zip(times.map(|us| us * US)).collect::<Vec<_>>());
        let (usual, other) = (of(USUAL), of(times));
        let (all, swapped) = (compared(&usual, &other), compared(&other, &usual));
        assert_eq!(all.alike, swapped.alike, "whichever of the two is before");
        all
    }

    fn factor(all: &Compared) -> Option<f64> {
        all.alike.map(|alike| (alike.factor * 1000.0).round() / 1000.0)
    }

    fn is_unknown(all: &Compared) -> bool {
        matches!(all.verdict, Verdict::Unknown(Unknown::Alike(_)))
    }

    #[test]
    fn a_run_that_was_slower_as_a_whole_is_no_slower_program() {
        let all = beside_usual(USUAL.map(|us| us * 8 / 5));
        assert_eq!((factor(&all), is_unknown(&all)), (Some(1.6), true));
        // Another load slows one operator more than others.
        let all = beside_usual([8_000, 5_000, 1_500, 1_600, 3_000, 1_700]);
        assert_eq!((factor(&all), is_unknown(&all)), (Some(1.6), true));
    }

    #[test]
    fn one_operator_that_is_slower_is_a_slower_program() {
        let slower = |times| {
            let all = beside_usual(times);
            assert_eq!(all.verdict, Verdict::Slower);
            factor(&all)
        };
        assert_eq!(slower([8_000, 2_000, 1_000, 1_000, 1_000, 1_000]), None);
        // However much of the time it has.
        assert_eq!(slower([400_000, 2_000, 1_000, 1_000, 1_000, 1_000]), None);
        // An operator that is new.
        let names = ["a", "b", "c", "d", "e", "f"];
        let before: Vec<_> = names.into_iter().map(|name| (name, 1_000 * US)).collect();
        let mut after: Vec<_> = before.iter().map(|&(name, ns)| (name, ns * 3 / 2)).collect();
        assert!(compared(&host(&before), &host(&after)).alike.is_some());
        after.push(("new", 3_000 * US));
        let all = compared(&host(&before), &host(&after));
        assert_eq!((factor(&all), all.verdict), (None, Verdict::Slower));
    }

    #[test]
    fn one_kernel_that_alone_changed_is_known() {
        let of = |gemm: i64, add: i64, norm: i64| {
            let kernels = [("gemm", gemm * US), ("add", add * US), ("norm", norm * US)];
            training(&[(gemm + add + norm) * US; 8], &kernels)
        };
        let only = |after: [i64; 3]| {
            let all = compared(&of(1_000, 1_000, 2_000), &of(after[0], after[1], after[2]));
            all.only_change().map(|one| one.name.clone())
        };
        assert_eq!(only([1_150, 1_000, 2_000]).as_deref(), Some("gemm"));
        assert_eq!(only([800, 1_000, 2_000]).as_deref(), Some("gemm"));
        // 1 % of the others, of the difference a tenth.
        assert_eq!(only([1_270, 1_030, 2_000]).as_deref(), Some("gemm"));
        assert_eq!(only([1_270, 1_031, 2_000]), None);
        assert_eq!(only([1_100, 1_012, 2_000]), None, "of the difference too much is of others");
        assert_eq!(only([1_000, 1_000, 2_200]).as_deref(), Some("norm"));
        assert_eq!(only([1_000, 1_000, 2_000]), None);
    }

    #[test]
    fn of_both_the_verdict_goes_by_what_is_most_of_the_difference() {
        // All take 1.2 times as long, and the first 3 times: the step takes 1.92 times as long.
        let all = beside_usual([12_000, 2_400, 1_200, 1_200, 1_200, 1_200]);
        assert_eq!((factor(&all), all.verdict), (Some(1.2), Verdict::Slower));
        // 1.5 times, and the first twice: 1.7 times.
        let all = beside_usual([8_000, 3_000, 1_500, 1_500, 1_500, 1_500]);
        assert_eq!((factor(&all), is_unknown(&all)), (Some(1.5), true));
    }

    #[test]
    fn kernels_tell_of_the_device_and_not_of_what_it_waits_for() {
        let of = |step: i64, times: [i64; 6]| {
            let kernels: Vec<_> = ["a", "b", "c", "d", "e", "f"].into_iter().zip(times.map(|us| us * US)).collect();
            training(&[step * US; 8], &kernels)
        };
        let slowed = USUAL.map(|us| us * 6 / 5);
        let all = compared(&of(11_000, USUAL), &of(13_000, slowed));
        assert!(is_unknown(&all));
        assert!(all.alike.is_some_and(|alike| alike.is_of_device), "{:?}", all.alike);
        // It is slower by idle time for the most part.
        let all = compared(&of(11_000, USUAL), &of(18_000, slowed));
        assert_eq!((all.alike, all.verdict), (None, Verdict::Slower));
        // Of few kernels all may be of one change.
        let few =
            |ms: i64| training(&[11 * ms * US * 1_000; 8], &[("a", 4 * ms * US * 1_000), ("b", 4 * ms * US * 1_000)]);
        assert_eq!(compared(&few(1), &few(2)).verdict, Verdict::Slower);
    }
}
