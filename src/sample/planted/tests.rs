use std::collections::BTreeSet;

use super::super::answer::GapAnswer;
use super::*;

/// As reports name them.
const CLASSES: [&str; 18] = [
    "sync",
    "data_loading",
    "copy",
    "allocator",
    "module_load",
    "gc",
    "collective",
    "launch",
    "cpu_op",
    "python",
    "blocked",
    "unknown",
    "launch_latency",
    "dependency",
    "queued",
    "graph",
    "no_launch",
    "profiler",
];
const TRIGGERS: [&str; 5] = ["sync", "launch_bound", "step_boundary", "graph_end", "profiler"];
const SCHEMAS: [Schema; 3] = [Schema::V2022, Schema::V2023, Schema::V2026];

fn gaps(seed: u64, recorder: Recorder, plan: GapPlan) -> Vec<GapAnswer> {
    let (_, devices) = Script::run(Shape { steps: 6, seed, plan }, Style::of(seed, recorder));
    for device in &devices {
        let listed: i64 = device.gaps.iter().map(|gap| gap.dur_ns).sum();
        assert_eq!(device.total_ns, listed + device.micro_ns);
        for gap in &device.gaps {
            assert_eq!(gap.parts.iter().map(|part| part.dur_ns).sum::<i64>(), gap.dur_ns, "seed {seed}: {gap:#?}");
            assert!(gap.parts.iter().all(|part| !part.classes.is_empty() && part.dur_ns > 0), "seed {seed}: {gap:#?}");
            assert!(!gap.triggers.is_empty());
        }
    }
    devices.into_iter().flat_map(|device| device.gaps).collect()
}

#[test]
fn parts_sum_to_gaps_and_every_class_and_trigger_is_planted() {
    let (mut classes, mut triggers) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..60 {
        for recorder in [Recorder::Kineto, Recorder::Nsys(SCHEMAS[seed as usize % 3])] {
            for gap in gaps(seed, recorder, GapPlan::Various) {
                let certain = |part: &&super::super::answer::PartAnswer| part.classes.len() == 1;
                classes.extend(gap.parts.iter().filter(certain).map(|part| part.classes[0]));
                if let [Some(trigger)] = gap.triggers[..] {
                    triggers.insert(trigger);
                }
            }
        }
    }
    let missing = |all: &[&'static str], found: &BTreeSet<&str>| -> Vec<&str> {
        all.iter().copied().filter(|name| !found.contains(name)).collect()
    };
    // How long a launch may usually take depends on the rule for it, so this class is never certain.
    assert_eq!(missing(&CLASSES, &classes), ["launch_latency"]);
    assert_eq!(missing(&TRIGGERS, &triggers), [""; 0]);
}

#[test]
fn no_gap_reaches_a_microsecond_where_none_is_planted() {
    for seed in 0..40 {
        for recorder in [Recorder::Kineto, Recorder::Nsys(Schema::V2023)] {
            assert_eq!(gaps(seed, recorder, GapPlan::None), [], "seed {seed}");
        }
    }
}

/// The planted causes alone make devices wait: without them, the same work is idle for no more than before each
/// piece of it, and the run is shorter by what the gaps are longer.
#[test]
fn the_run_without_its_plants_is_the_same_work_without_its_gaps() {
    for seed in 0..60 {
        for recorder in [Recorder::Kineto, Recorder::Nsys(SCHEMAS[seed as usize % 3])] {
            let run = |plan| Script::run(Shape { steps: 6, seed, plan }, Style::of(seed, recorder));
            let [planted, none] = [GapPlan::Recurring, GapPlan::None].map(run);
            for (with, without) in planted.1.iter().zip(&none.1) {
                let saved = with.total_ns - without.total_ns;
                let listed: i64 = with.gaps.iter().map(|gap| gap.dur_ns).sum();
                // Work that a plant adds has a pause before it too, and a gap leaves one where it was.
                let n_pauses = with.count as i64;
                assert!(saved <= listed + n_pauses * 1_000, "seed {seed}: {saved} of {listed} ns");
                assert!(saved >= listed - n_pauses * 1_000, "seed {seed}: {saved} of {listed} ns");
                let base = |timeline: &timeline::Timeline| -> Vec<(usize, i64)> {
                    timeline.works.iter().map(|work| (work.device, work.range.1 - work.range.0)).collect()
                };
                let (all, mut left) = (base(&planted.0), base(&none.0).into_iter().peekable());
                all.iter().for_each(|work| _ = left.next_if_eq(work));
                assert_eq!(left.count(), 0, "seed {seed}: work is missing");
            }
        }
    }
}

#[test]
fn a_recurring_cause_is_in_every_step() {
    for seed in 0..40 {
        // What comes before the first work or after the last is not a gap.
        assert!(gaps(seed, Recorder::Kineto, GapPlan::Recurring).len() >= 5, "seed {seed}");
    }
}

#[test]
fn same_seed_same_bytes() {
    let trace = |seed| {
        let mut bytes = Vec::new();
        let shape = Shape { steps: 2, seed, plan: GapPlan::Various };
        let answer = write_kineto(shape, &mut bytes).unwrap();
        serde_json::from_slice::<serde_json::Value>(&bytes).unwrap();
        (bytes, answer)
    };
    assert_eq!(trace(5), trace(5));
    assert_ne!(trace(5).0, trace(6).0);
}
