use proptest::prelude::*;

use super::*;
use crate::analysis::gaps::Trigger;
use crate::analysis::steps::StepSource;
use crate::model::{SliceId, SliceKind, TimeRange, TraceBuilder};

const THETA: DurNs = 5;

/// A kernel for each name after a gap of that length, with a ledger whose gaps have these classes, half of the
/// length each.
fn planted(kernels: &[(&str, DurNs, [GapClass; 2])]) -> (Trace, Ledger) {
    let mut at = 0;
    let mut slices = Vec::new();
    let mut ledger = Ledger { theta_ns: THETA, ..Ledger::default() };
    for (i, &(name, gap, classes)) in kernels.iter().enumerate() {
        let (start, end) = (at, at + gap);
        if i > 0 {
            let (after, ended_by) = (SliceId(i as u32 - 1), SliceId(i as u32));
            let gap = Gap {
                time: TimeRange { start, end },
                after,
                ended_by,
                trigger: None,
                trigger_slice: None,
                refill: None,
            };
            let parts = [(start, classes[0], None), (start + (gap.time.dur() + 1) / 2, classes[1], None)];
            ledger.push(gap, parts);
        }
        slices.push(("stream 7", SliceKind::Kernel, name, end, end + 10));
        at = end + 10;
    }
    ledger.window = TimeRange { start: kernels[0].1, end: at };
    (TraceBuilder::from_slices(&slices).finish(), ledger)
}

fn steps(boundaries: Vec<TimeNs>) -> Steps {
    Steps::new(StepSource::Marks, boundaries, None, 0, None)
}

#[test]
fn the_same_gap_of_each_step_is_one_cluster() {
    use GapClass::{CpuOp, DataLoading, LaunchLatency, Python};
    let load = |gap| ("void first<int>(int)", gap, [DataLoading; 2]);
    let (trace, ledger) = planted(&[
        load(0),
        ("second", 20, [CpuOp, Python]),
        load(100),
        ("second", 30, [Python, CpuOp]),
        load(200),
        ("second", 2, [LaunchLatency; 2]),
        load(3),
    ]);
    let steps = steps(vec![0, 45, 215, 400]);
    let found = clusters(&trace, std::slice::from_ref(&ledger), Some(&steps), &|| false).remove(0);
    let shown = |cluster: &GapCluster| {
        let names = [found.name(cluster.prev), found.name(cluster.next)];
        (names.join(" "), cluster.class, found.gaps(cluster).to_vec(), cluster.sum.steps_present)
    };
    let expected =
        [("second first".to_owned(), DataLoading, vec![1, 3], 2), ("first second".to_owned(), CpuOp, vec![0, 2], 2)];
    assert_eq!(found.all.iter().map(shown).collect::<Vec<_>>(), expected);
    let load = &found.all[0];
    assert_eq!((load.spread.mean_ns, load.spread.p95_ns, load.sum.ns_per_step(found.n_steps)), (150, 200, Some(100)));
    assert_eq!(load.sum.ceiling_ns_per_step(found.n_steps), Some(100));
    assert!((load.spread.variation - 70.71 / 150.0).abs() < 1e-4, "{}", load.spread.variation);
    assert!(load.is_at_step_boundary && !found.all[1].is_at_step_boundary);
    assert_eq!((found.micro.count, found.micro.total_ns), (2, 5));
    assert_eq!([0, 1, 2, 3, 4, 5].map(|gap| found.of(gap)), [Some(1), Some(0), Some(1), Some(0), None, None]);
}

#[test]
fn without_steps_there_are_no_figures_per_step() {
    let (trace, ledger) = planted(&[("a", 0, [GapClass::Sync; 2]), ("a", 9, [GapClass::Sync; 2])]);
    let found = clusters(&trace, std::slice::from_ref(&ledger), None, &|| false).remove(0);
    assert_eq!((found.n_steps, found.all.len(), found.all[0].sum.ns_per_step(0)), (0, 1, None));
    assert_eq!(found.all[0].sum.in_steps_ns, 0);
}

#[test]
fn ranges_that_count_their_instances_are_one_name() {
    let (note, call, kernel) = (SliceKind::Annotation, SliceKind::Runtime, SliceKind::Kernel);
    let mut slices = Vec::new();
    for step in 0..4 {
        let at = step * 100;
        slices.push(("main", note, ["batch 7", "batch 8", "batch 9", "batch 10"][step as usize], at, at + 90));
        slices.push(("main", note, ["layer 1", "layer 2"][step as usize % 2], at + 5, at + 80));
        slices.push(("main", call, "cudaLaunchKernel", at + 10, at + 12));
        slices.push(("stream 7", kernel, "k", at + 20, at + 30));
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = (0..16).map(|i| if i % 4 >= 2 { 1 + i / 4 } else { 0 }).collect();
    let trace = builder.finish();
    let device = crate::analysis::busy::devices(&trace).remove(0);
    let mut ledger = crate::analysis::gaps::Ground::new(&trace).ledgers(&[device], None, &|| false).remove(0);
    ledger.theta_ns = THETA;
    let found = clusters(&trace, std::slice::from_ref(&ledger), None, &|| false).remove(0);
    let around = |cluster: &GapCluster| {
        let (above, name) = found.paths[cluster.path as usize];
        [found.name(found.paths[above as usize].1), found.name(name)].join("/")
    };
    let mut paths: Vec<_> = found.all.iter().map(|cluster| (around(cluster), cluster.sum.count)).collect();
    paths.sort();
    assert_eq!(paths, [("batch #/layer 1".to_owned(), 2), ("batch #/layer 2".to_owned(), 1)]);
    assert_eq!(found.op(&found.all[0]), "layer 1");
}

#[test]
fn calls_of_one_function_are_where_the_host_was_if_they_have_most_of_the_time() {
    let (call, kernel, python) = (SliceKind::Runtime, SliceKind::Kernel, SliceKind::PythonFunction);
    let frame = |inner: i64| {
        let mut slices = vec![
            ("main", python, "train.py(1): main", 0, 3_000),
            ("main", call, "cudaLaunchKernel", 1, 2),
            ("stream 7", kernel, "k", 5, 100),
            ("main", python, "metrics.py(31): compute", 100, 1_000),
            ("main", call, "cudaLaunchKernel", 1_001, 1_002),
            ("stream 7", kernel, "k", 1_003, 1_100),
        ];
        slices.extend((0..9).map(|i| ("main", python, "metrics.py(12): topk", 100 + 100 * i, 100 + 100 * i + inner)));
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = [vec![0, 1, 1, 0, 2, 2], vec![0; 9]].concat();
        let trace = builder.finish();
        let device = crate::analysis::busy::devices(&trace).remove(0);
        let mut ledger = crate::analysis::gaps::Ground::new(&trace).ledgers(&[device], None, &|| false).remove(0);
        ledger.theta_ns = THETA;
        let found = clusters(&trace, std::slice::from_ref(&ledger), None, &|| false).remove(0);
        found.name(found.all[0].frame).to_owned()
    };
    assert_eq!([90, 30].map(frame), ["metrics.py(12): topk", "metrics.py(31): compute"]);
}

fn class() -> impl Strategy<Value = GapClass> {
    (0..GapClass::N).prop_map(|i| GapClass::ALL[i])
}

proptest! {
    #[test]
    fn clusters_are_a_partition_of_the_gaps(
        kernels in prop::collection::vec((0_usize..3, 1_i64..20, class(), class()), 2..60),
        cuts in prop::collection::btree_set(-10_i64..1500, 0..8),
        triggers in prop::collection::vec(0_usize..6, 60),
    ) {
        let names = ["a<1>", "a<2>", "b"];
        let kernels: Vec<_> = kernels.iter().map(|&(name, gap, a, b)| (names[name], gap, [a, b])).collect();
        let (trace, mut ledger) = planted(&kernels);
        for (gap, &trigger) in ledger.gaps.iter_mut().zip(&triggers) {
            gap.trigger = Trigger::ALL.get(trigger).copied();
        }
        let steps = steps(cuts.into_iter().collect());
        let found = clusters(&trace, std::slice::from_ref(&ledger), Some(&steps), &|| false).remove(0);
        // Each macro gap is in one cluster, and gaps of one cluster have the same key.
        let norm = |id: SliceId| trace.slice_name(id).split('<').next().unwrap().to_owned();
        let key = |gap: usize| {
            let (g, mut ns) = (ledger.gap(gap), vec![0; GapClass::N]);
            ledger.parts(gap).for_each(|part| ns[part.class as usize] += part.time.dur());
            let longest = (0..GapClass::N).find(|&i| ns[i] == *ns.iter().max().unwrap()).unwrap();
            (norm(g.after), norm(g.ended_by), family(GapClass::ALL[longest]))
        };
        let mut expected: std::collections::BTreeMap<_, Vec<u32>> = Default::default();
        for gap in (0..ledger.len()).filter(|&gap| ledger.gap(gap).time.dur() >= THETA) {
            expected.entry(key(gap)).or_default().push(gap as u32);
        }
        let mut members: Vec<Vec<u32>> = found.all.iter().map(|cluster| found.gaps(cluster).to_vec()).collect();
        members.sort();
        let mut groups: Vec<Vec<u32>> = expected.into_values().collect();
        groups.sort();
        prop_assert_eq!(members, groups);
        // Totals sum to those of the ledger.
        let totals = ledger.totals(TimeRange::ALL);
        let sum = |of: fn(&Recurrence) -> i64| found.all.iter().map(|cluster| of(&cluster.sum)).sum::<i64>();
        prop_assert_eq!(sum(|sum| sum.total_ns), totals.macro_.total_ns);
        prop_assert_eq!(found.micro.total_ns, totals.micro.total_ns);
        prop_assert!(found.all.is_sorted_by(|a, b| a.sum.total_ns >= b.sum.total_ns));
        for (i, cluster) in found.all.iter().enumerate() {
            for &gap in found.gaps(cluster) {
                prop_assert_eq!(found.of(gap as usize), Some(i));
            }
            let step_of = |gap: u32| steps.boundaries.iter().filter(|&&b| b <= moment_of(ledger.gap(gap as usize).time)).count();
            let in_steps: Vec<usize> =
                found.gaps(cluster).iter().map(|&gap| step_of(gap)).filter(|&n| n > 0 && n < steps.boundaries.len()).collect();
            let distinct: std::collections::BTreeSet<_> = in_steps.iter().collect();
            prop_assert_eq!(distinct.len(), cluster.sum.steps_present);
            prop_assert!(cluster.sum.recoverable_in_steps_ns <= cluster.sum.in_steps_ns);
        }
    }
}
