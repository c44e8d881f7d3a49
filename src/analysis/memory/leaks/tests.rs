//! Verdicts for planted growth of each kind, and for healthy training.

use super::*;
use crate::analysis::memory::fixture::{Script, history};
use crate::analysis::memory::steps;
use crate::model::StackId;
use crate::model::memory::MemoryAction::{FreeRequested, SegmentAlloc};

pub(super) const MIB: u64 = 1 << 20;

/// Training with profiler steps; `plant` adds allocations in the middle of each.
pub(super) struct Training {
    pub script: Script,
    pub step: u64,
    /// The next free address for persistent blocks.
    next: u64,
}

impl Training {
    pub fn keep(&mut self, bytes: u64, place: &str) -> u64 {
        let stack = self.script.stack(&[place, "step (train.py:9)", "main (train.py:50)"]);
        self.next += bytes + MIB;
        self.script.alloc(self.next, bytes, stack);
        self.next
    }
}

pub(super) fn training(n: u64, plant: impl FnMut(&mut Training)) -> Trace {
    program(n, plant, |_| {})
}

/// The same with what the program does after the last step.
pub(super) fn program(n: u64, mut plant: impl FnMut(&mut Training), end: impl FnOnce(&mut Training)) -> Trace {
    let mut training = Training { script: Script::default(), step: 0, next: 1 << 40 };
    let init = training.script.stack(&["init (model.py:1)"]);
    training.script.event(SegmentAlloc, 0, 1 << 30, StackId(0));
    training.script.alloc(0, 100 * MIB, init);
    for step in 0..n {
        training.step = step;
        let start = training.script.now();
        let forward = training.script.stack(&["forward (model.py:7)", "step (train.py:9)"]);
        // Batches of different sizes.
        let bytes = MIB * (30 + step * 7 % 11);
        training.script.alloc(200 * MIB, bytes, forward);
        if step == 0 {
            training.keep(40 * MIB, "adam (optimizer.py:4)");
        }
        plant(&mut training);
        training.script.free(200 * MIB, bytes);
        let end = training.script.now();
        training.script.annotate(&format!("ProfilerStep#{step}"), start, end);
    }
    end(&mut training);
    training.script.finish()
}

pub(super) fn find(trace: &Trace, capacity: Option<u64>) -> Leaks {
    let history = history(trace);
    let signatures = Signatures::new(trace, false);
    let steps = steps::steps(trace, history, &|| false).ok();
    leaks(trace, history, &signatures, steps.as_ref(), capacity, &Thresholds::default(), &|| false).1
}

pub(super) fn label(trace: &Trace, signature: SignatureId) -> String {
    Signatures::new(trace, false).label(trace, signature).unwrap_or_default()
}

#[test]
fn healthy_training_has_no_candidates() {
    for n in [1, 3, 8, 40, 300] {
        let trace = training(n, |_| {});
        let found = find(&trace, None);
        assert_eq!(found.candidates, [], "{n} steps");
        let total = found.total.unwrap();
        let expected = if n < 4 { TotalVerdict::TooFewSteps } else { TotalVerdict::Flat };
        assert_eq!((total.verdict, total.is_alarm), (expected, false), "{n} steps");
        if n >= 4 {
            let labels: Vec<_> =
                found.explained.iter().map(|one| (label(&trace, one.signature), one.verdict)).collect();
            assert_eq!(
                labels,
                [("init (model.py:1)".into(), Verdict::Setup), ("adam (optimizer.py:4)".into(), Verdict::Setup)]
            );
        }
    }
}

#[test]
fn four_steps_are_level_if_the_warm_up_is_level_too() {
    let verdict = |later: u64| {
        let mut script = Script::default();
        script.alloc(0, 100 * MIB, StackId(0));
        for step in 0..4 {
            let start = script.now();
            script.alloc(200 * MIB, 30 * MIB, StackId(0));
            script.free(200 * MIB, 30 * MIB);
            // Kept from the first step on.
            if step == 0 && later > 0 {
                script.alloc(300 * MIB, later, StackId(0));
            }
            let end = script.now();
            script.annotate(&format!("ProfilerStep#{step}"), start, end);
        }
        let total = find(&script.finish(), None).total.unwrap();
        (total.verdict, total.counted_steps())
    };
    assert_eq!(verdict(0), (TotalVerdict::Flat, 3));
    assert_eq!(verdict(MIB), (TotalVerdict::TooFewSteps, 3));
}

#[test]
fn a_leak_is_found_with_its_evidence() {
    let trace = training(20, |training| {
        let at = training.keep(2 * MIB, "append (losses.py:12)");
        let event = training.script.raw.events.len() as u32 - 1;
        training.script.note(event, "user_metadata", "epoch 1");
        if training.step % 5 == 4 {
            // One in five is freed by another function.
            let cleanup = training.script.stack(&["cleanup (train.py:30)"]);
            training.script.event(FreeRequested, at, 2 * MIB, cleanup);
            training.script.free(at, 2 * MIB);
        }
    });
    let found = find(&trace, Some(2 << 30));
    assert_eq!((found.candidates.len(), found.warm_up, found.confidence), (1, 5, Confidence::High));
    assert_eq!(found.caveats, [] as [String; 0]);
    let candidate = &found.candidates[0];
    assert_eq!(label(&trace, candidate.signature), "append (losses.py:12)");
    assert_eq!(candidate.severity, Severity::Warn);
    // From boundary 5 to 20: 15 steps, of which steps 9, 14 and 19 keep nothing.
    assert_eq!((candidate.growth_bytes, candidate.live_bytes.len()), (24 * MIB as i64, 21));
    assert_eq!(candidate.live_count[20], 16);
    assert!((candidate.monotonic - 12.0 / 15.0).abs() < 1e-12);
    assert!(candidate.bytes_per_step > 1.5 * MIB as f64 && candidate.bytes_per_step < 2.0 * MIB as f64);
    // Blocks of the last step cannot have outlived it by another.
    assert_eq!((candidate.survivors, candidate.survivor_steps), (12, 12));
    let evidence = &candidate.evidence;
    assert_eq!((evidence.examples.len(), evidence.first_step, evidence.last_step), (12, 5, 18));
    assert_eq!((evidence.freed, evidence.allocated), (4, 20));
    let freed_by: Vec<_> = trace.stacks.frames(evidence.freed_by[0].0).map(|frame| trace.strings.get(frame)).collect();
    assert_eq!((freed_by, evidence.freed_by[0].1), (vec!["cleanup (train.py:30)"], 4));
    assert_eq!(trace.strings.get(evidence.notes[0].1), "epoch 1");
    assert_eq!(evidence.notes.len(), 1);
    let total = found.total.unwrap();
    assert_eq!((total.verdict, total.is_alarm), (TotalVerdict::Growth, true));
    let steps = total.steps_to_oom.unwrap();
    assert!((steps - (1 << 30) as f64 / total.trend.slope).abs() < 1e-6);
    assert!((candidate.score - candidate.monotonic).abs() < 1e-12);
}

#[test]
fn prefetched_batches_are_not_leaks() {
    let mut queue = std::collections::VecDeque::new();
    let trace = training(30, |training| {
        // Each batch lives for three steps, so at any boundary three are live.
        queue.push_back(training.keep(4 * MIB, "prefetch (loader.py:3)"));
        if queue.len() > 3 {
            let at = queue.pop_front().unwrap();
            training.script.free(at, 4 * MIB);
        }
    });
    assert_eq!(find(&trace, None).candidates, []);
}

#[test]
fn a_warm_up_cache_is_explained() {
    let trace = training(40, |training| {
        if training.step < 18 {
            training.keep(MIB, "workspace (kernels.py:8)");
        }
    });
    let found = find(&trace, None);
    assert_eq!(found.candidates, []);
    let cache = found.explained.iter().find(|one| one.verdict == Verdict::WarmUpCache).unwrap();
    assert_eq!((label(&trace, cache.signature), cache.bytes), ("workspace (kernels.py:8)".into(), 18 * MIB as i64));
}

#[test]
fn growth_that_ended_is_no_growth_of_all_memory_whatever_the_last_step_keeps() {
    let found = |last: bool| {
        let trace = training(40, |training| {
            if (10..26).contains(&training.step) {
                training.keep(3 * MIB, "remember (replay.py:19)");
            }
            if last && training.step == 39 {
                training.keep(9 * MIB, "batch (data.py:33)");
            }
        });
        find(&trace, None)
    };
    for last in [false, true] {
        let found = found(last);
        assert_eq!(found.candidates, []);
        assert!(found.explained.iter().any(|one| one.verdict == Verdict::WarmUpCache), "{:?}", found.explained);
        let total = found.total.unwrap();
        assert_eq!((total.verdict, total.is_alarm), (TotalVerdict::Flat, false), "{last}: {total:?}");
    }
}

#[test]
fn small_or_rare_growth_is_not_a_leak() {
    let trace = training(40, |training| {
        training.keep(1024, "scalar (metrics.py:1)");
        if training.step.is_multiple_of(14) {
            training.keep(16 * MIB, "checkpoint (save.py:1)");
        }
    });
    let found = find(&trace, None);
    assert_eq!(found.candidates, []);
    // Total memory grows nevertheless.
    assert_eq!(found.total.unwrap().verdict, TotalVerdict::Growth);
}

#[test]
fn leaks_in_some_steps_only_are_found() {
    type IsLeaking = fn(u64) -> bool;
    let gains: [(&str, IsLeaking); 4] = [
        ("every second", |step| step % 2 == 1),
        ("every tenth", |step| step % 10 == 3),
        ("from the middle on", |step| step >= 50),
        ("seven of ten", |step| step % 10 < 7),
    ];
    for (name, is_leaking) in gains {
        let mut n = 0;
        let trace = training(100, |training| {
            if is_leaking(training.step) {
                training.keep(4 * MIB, "append (losses.py:12)");
                n += i64::from(training.step >= 5);
            }
        });
        let found = find(&trace, None);
        let labels: Vec<_> = found.candidates.iter().map(|candidate| label(&trace, candidate.signature)).collect();
        assert_eq!(labels, ["append (losses.py:12)"], "{name}");
        assert_eq!(found.candidates[0].growth_bytes, n * 4 * MIB as i64, "{name}");
        // A late leak is judged from its first step on.
        let since = found.candidates[0].since_step;
        assert_eq!(since, (name == "from the middle on").then_some(50), "{name}");
        let by_hand = n as f64 * 4.0 * MIB as f64 / (100 - since.unwrap_or(5)) as f64;
        let told = found.candidates[0].bytes_per_step;
        assert!((told / by_hand - 1.0).abs() < 0.06, "{name}: {told} and not about {by_hand}");
    }
}

/// A signature that keeps a block in the steps given by `is_kept`, and frees all of them in given steps.
fn kept_until(n: u64, is_given_back: impl Fn(u64) -> bool) -> Trace {
    let mut kept = Vec::new();
    training(n, |training| {
        kept.push(training.keep(4 * MIB, "append (losses.py:12)"));
        if is_given_back(training.step) {
            kept.drain(..).for_each(|at| _ = training.script.free(at, 4 * MIB));
        }
    })
}

#[test]
fn growth_that_is_freed_later_is_not_a_leak() {
    let verdict =
        |found: &Leaks| found.explained.iter().map(|one| one.verdict).find(|&verdict| verdict != Verdict::Setup);
    // Garbage that is collected occasionally.
    let collected = find(&kept_until(60, |step| step == 35), None);
    assert_eq!((collected.candidates.len(), verdict(&collected)), (0, Some(Verdict::Released)));
    // A phase that ends after the last step, while the program goes on.
    let kept = std::cell::RefCell::new(Vec::new());
    let gathered = program(
        30,
        |training| kept.borrow_mut().push(training.keep(4 * MIB, "gather (predict.py:8)")),
        |training| {
            kept.take().into_iter().for_each(|at| _ = training.script.free(at, 4 * MIB));
            (0..9).for_each(|_| _ = training.keep(MIB, "save (model.py:90)"));
        },
    );
    let found = find(&gathered, None);
    assert_eq!((found.candidates.len(), verdict(&found)), (0, Some(Verdict::Released)));
}

#[test]
fn a_growing_buffer_is_explained() {
    let mut last = None;
    let trace = training(40, |training| {
        let bytes = MIB * (1 + training.step);
        let next = training.keep(bytes, "cat (model.py:3)");
        if let Some(at) = last.replace(next) {
            training.script.free(at, bytes - MIB);
        }
    });
    let found = find(&trace, None);
    assert_eq!(found.candidates, []);
    let growing = found.explained.iter().find(|one| one.verdict == Verdict::GrowingBuffer).unwrap();
    assert_eq!(label(&trace, growing.signature), "cat (model.py:3)");
    assert_eq!(found.total.unwrap().verdict, TotalVerdict::Growth);
    let [place] = &found.growing[..] else { panic!("{:?}", found.growing) };
    assert_eq!((place.signature, place.place.as_str()), (growing.signature, "cat (model.py:3)"));
    assert_eq!((place.bytes_per_step, place.blocks), (MIB as f64, [1, 1]));
}

#[test]
fn varying_stacks_are_merged_if_they_hide_a_leak() {
    let trace = training(40, |training| {
        let compiled = format!("compiled_{} (<eval_with_key>.{}:5)", training.step, training.step);
        let stack = training.script.stack(&["append (losses.py:12)", &compiled, "step (train.py:9)"]);
        training.next += 8 * MIB;
        training.script.alloc(training.next, 4 * MIB, stack);
    });
    let history = history(&trace);
    let steps = steps::steps(&trace, history, &|| false).ok();
    let exact = Signatures::new(&trace, false);
    let thresholds = Thresholds::default();
    let (signatures, found) = leaks(&trace, history, &exact, steps.as_ref(), None, &thresholds, &|| false);
    let signatures = signatures.unwrap();
    assert_eq!(found.candidates.len(), 1);
    assert_eq!(signatures.frames(&trace, found.candidates[0].signature), ["append (losses.py)"]);
    assert_eq!((found.candidates[0].growth_bytes, found.confidence), (35 * 4 * MIB as i64, Confidence::Medium));
    assert!(found.caveats.iter().any(|confidence| confidence.contains("file and function")), "{:?}", found.caveats);
}

#[test]
fn moved_allocations_do_not_hide_a_leak() {
    for is_leaking in [true, false] {
        let mut old = Vec::new();
        let trace = training(24, |training| {
            if training.step == 0 {
                old = (0..24).map(|_| training.keep(2 * MIB, "to (module.py:1)")).collect();
            }
            training.keep(2 * MIB + 512, "pack (batch.py:8)");
            // The same size as the blocks that move, and three times as many bytes.
            for _ in 0..3 {
                training.keep(2 * MIB + 1024, if is_leaking { "append (losses.py:12)" } else { "pack (batch.py:8)" });
            }
            training.script.free(old.pop().unwrap(), 2 * MIB);
        });
        let found = find(&trace, None);
        let labels: Vec<_> = found.candidates.iter().map(|candidate| label(&trace, candidate.signature)).collect();
        assert_eq!(labels, [if is_leaking { "append (losses.py:12)" } else { "pack (batch.py:8)" }]);
    }
}

#[test]
fn only_losses_of_similar_size_offset_gains() {
    let mut old = Vec::new();
    let trace = training(24, |training| {
        if training.step == 0 {
            old = (0..24).map(|_| training.keep(8 * MIB, "to (module.py:1)")).collect();
        }
        for _ in 0..8 {
            training.keep(MIB, "append (losses.py:12)");
        }
        training.script.free(old.pop().unwrap(), 8 * MIB);
    });
    let found = find(&trace, None);
    let labels: Vec<_> = found.candidates.iter().map(|candidate| label(&trace, candidate.signature)).collect();
    assert_eq!(labels, ["append (losses.py:12)"]);
}

#[test]
fn growing_peaks_or_reserved_memory_get_their_own_verdict() {
    let rising = training(30, |training| {
        let bytes = MIB * (64 + training.step * 2);
        let at = training.keep(bytes, "attention (model.py:30)");
        training.script.free(at, bytes);
    });
    assert_eq!(find(&rising, None).total.unwrap().verdict, TotalVerdict::Ratchet);
    let scattered = training(30, |training| {
        training.script.event(SegmentAlloc, (2 << 40) + training.step * (32 * MIB), 20 * MIB, StackId(0));
    });
    assert_eq!(find(&scattered, None).total.unwrap().verdict, TotalVerdict::FragmentationGrowth);
}

#[test]
fn moved_allocations_are_not_leaks() {
    let mut old = Vec::new();
    let trace = training(24, |training| {
        if training.step == 0 {
            old = (0..24).map(|_| training.keep(MIB, "to (module.py:1)")).collect();
        }
        training.keep(MIB + 512, "pack (batch.py:8)");
        training.script.free(old.pop().unwrap(), MIB);
        training.script.event(SegmentAlloc, (2 << 40) + training.step * (32 * MIB), 20 * MIB, StackId(0));
    });
    let found = find(&trace, None);
    assert_eq!(found.candidates, []);
    let offsets: Vec<_> = found.explained.iter().filter(|one| one.verdict == Verdict::Offset).collect();
    assert_eq!(offsets.iter().map(|one| label(&trace, one.signature)).collect::<Vec<_>>(), ["pack (batch.py:8)"]);
    let given_up_by = offsets[0].given_up_by.iter().map(|&signature| label(&trace, signature));
    assert_eq!(given_up_by.collect::<Vec<_>>(), ["to (module.py:1)"]);
    assert_eq!(found.total.unwrap().verdict, TotalVerdict::FragmentationGrowth);
}

#[test]
fn leaks_are_ranked_by_growth() {
    let trace = training(20, |training| {
        training.keep(MIB, "small (a.py:1)");
        training.keep(3 * MIB, "large (b.py:1)");
    });
    let found = find(&trace, None);
    let names: Vec<_> = found.candidates.iter().map(|candidate| label(&trace, candidate.signature)).collect();
    assert_eq!(names, ["large (b.py:1)", "small (a.py:1)"]);
    let shares: Vec<_> = found.candidates.iter().map(|candidate| candidate.slope_share).collect();
    assert_eq!(shares, [0.75, 0.25]);
}

#[test]
fn without_steps_only_gains_are_listed() {
    let mut script = Script::default();
    let stack = script.stack(&["grow (x.py:1)"]);
    for block in 0..20 {
        script.alloc(block * MIB, MIB - 512 * block, stack);
    }
    let trace = script.finish();
    let found = find(&trace, None);
    assert_eq!((found.candidates.len(), found.total, found.confidence), (0, None, Confidence::Low));
    assert_eq!((found.gains[0].count, found.gains.len()), (20, 1));
    assert_eq!(found.gains[0].bytes as u64, history(&trace).curves.active[20]);
    let empty = Script::default().finish();
    assert_eq!((find(&empty, None).gains, find(&empty, None).coverage), (vec![], 1.0));
}

#[test]
fn of_equal_blocks_the_one_allocated_when_an_old_one_is_freed_takes_its_place() {
    let mut script = Script::default();
    let [gradient, state] = ["accumulate (autograd.cpp:1)", "step (adam.py:77)"].map(|name| script.stack(&[name]));
    for block in 0..4 {
        script.alloc((100 + block) * MIB, MIB, gradient);
    }
    // Two states are replaced before the old one is freed, two after.
    for block in 0..4 {
        let (old, new) = (block * MIB, (200 + block) * MIB);
        if block < 2 {
            script.alloc(new, MIB, state);
        }
        script.event(FreeRequested, old, MIB, StackId(0));
        script.free(old, MIB);
        if block >= 2 {
            script.alloc(new, MIB, state);
        }
    }
    let trace = script.finish();
    let gains = find(&trace, None).gains;
    let names: Vec<_> = gains.iter().map(|gain| (label(&trace, gain.signature), gain.bytes, gain.count)).collect();
    assert_eq!(names, [("accumulate (autograd.cpp:1)".into(), 4 * MIB as i64, 4)]);
}

#[test]
fn lost_history_lowers_the_confidence() {
    let trace = training(20, |training| {
        training.keep(2 * MIB, "append (losses.py:12)");
        training.script.free((3 << 40) + training.step, 512);
    });
    let found = find(&trace, None);
    assert_eq!((found.candidates.len(), found.confidence), (1, Confidence::Low));
    assert!(found.caveats[0].contains("50.0 % of frees"), "{:?}", found.caveats);
}

#[test]
fn many_steps_and_signatures_are_handled() {
    let names: Vec<String> = (0..1000).map(|i| format!("place{i} (x.py:{i})")).collect();
    let trace = training(1500, |training| {
        for i in 0..4 {
            let name = &names[((training.step * 4 + i) % 1000) as usize];
            training.keep(64 * 1024, name);
        }
        training.keep(128 * 1024, "append (losses.py:12)");
    });
    assert_eq!(find(&trace, None).candidates.len(), 1);
}
