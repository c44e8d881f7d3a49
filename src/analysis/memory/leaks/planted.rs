//! Growth that starts late, ends early, comes back, or shows in reserved memory alone; and what looks like it.

use super::enough::RISING;
use super::tests::{MIB, Training, find, label, training};
use super::*;
use crate::analysis::memory::fixture::{Script, history};
use crate::analysis::memory::reserved::{growth, shares};
use crate::analysis::memory::steps::{self, StepSource};
use crate::model::StackId;
use crate::model::memory::MemoryAction::{SegmentAlloc, SegmentFree};

const PLACE: &str = "collect (hooks.py:41)";

/// A place that keeps these bytes in each step, 0 for none.
fn keeping(n: u64, bytes: impl Fn(u64) -> u64) -> Trace {
    training(n, |training| match bytes(training.step) {
        0 => {}
        bytes => _ = training.keep(bytes, PLACE),
    })
}

/// The verdict on the planted place, if it is not a leak.
fn verdict_of(trace: &Trace, found: &Leaks) -> Option<Verdict> {
    found.explained.iter().find(|one| label(trace, one.signature) == PLACE).map(|one| one.verdict)
}

#[test]
fn a_late_leak_has_its_own_rate_and_first_step() {
    for (n, since, bytes) in [(60, 37, 3 * MIB), (60, 54, 7 * MIB), (26, 12, MIB / 2), (200, 90, 2 * MIB)] {
        let trace = keeping(n, |step| if step >= since { bytes } else { 0 });
        let found = find(&trace, None);
        assert_eq!(found.candidates.len(), 1, "from {since} of {n}");
        let candidate = &found.candidates[0];
        assert_eq!(candidate.since_step, Some(since as usize), "of {n}");
        assert!((candidate.bytes_per_step - bytes as f64).abs() < 1.0, "from {since} of {n}: {candidate:?}");
        let total = found.total.unwrap();
        assert_eq!((total.verdict, total.is_alarm), (TotalVerdict::Growth, bytes > MIB), "from {since} of {n}");
        assert_eq!(total.since_step, candidate.since_step, "of {n}");
        assert!((total.trend.slope - bytes as f64).abs() < 1.0, "{total:?}");
    }
    let steady = find(&keeping(60, |_| 3 * MIB), None);
    assert_eq!((steady.candidates[0].since_step, steady.total.unwrap().since_step), (None, None));
}

#[test]
fn peaks_and_reserved_memory_are_judged_over_the_steps_of_a_late_leak() {
    let mut script = Script::default();
    script.event(SegmentAlloc, 0, 100 * MIB, StackId(0));
    script.alloc(0, 60 * MIB, StackId(0));
    let place = script.stack(&[PLACE]);
    for step in 0..24 {
        let start = script.now();
        script.alloc(60 * MIB, 30 * MIB, StackId(0));
        if step >= 14 {
            let addr = (1 + step) << 40;
            script.event(SegmentAlloc, addr, 8 * MIB, StackId(0));
            script.alloc(addr, 8 * MIB, place);
        }
        script.free(60 * MIB, 30 * MIB);
        let end = script.now();
        script.annotate(&format!("ProfilerStep#{step}"), start, end);
    }
    let total = find(&script.finish(), None).total.unwrap();
    let slopes = [total.trend, total.peak_trend, total.reserved_trend].map(|trend| trend.slope as u64);
    assert_eq!((total.since_step, total.growth_bytes), (Some(14), 10 * 8 * MIB as i64));
    assert_eq!(slopes, [8 * MIB; 3]);
}

#[test]
fn two_steps_at_the_end_are_no_leak() {
    let found = find(&keeping(60, |step| if step >= 58 { 9 * MIB } else { 0 }), Some(4 << 30));
    assert_eq!((found.candidates.len(), found.total.unwrap().is_alarm), (0, false));
    assert_eq!(found.total.unwrap().steps_to_oom, None);
}

#[test]
fn a_cache_that_has_filled_up_is_no_leak() {
    for until in [12, 24, 33, 42] {
        let trace = keeping(48, |step| if step < until { 4 * MIB } else { 0 });
        let found = find(&trace, Some(8 << 30));
        assert_eq!((found.candidates.len(), verdict_of(&trace, &found)), (0, Some(Verdict::WarmUpCache)), "{until}");
        let total = found.total.unwrap();
        assert_eq!((total.verdict, total.is_alarm, total.steps_to_oom), (TotalVerdict::Flat, false, None), "{until}");
        assert!(total.level_since.unwrap().abs_diff(until as usize) <= 1, "{until}: {total:?}");
        // No rate beside a verdict that denies it. Activations vary from step to step, so the median slope of the peaks
        // is not zero, but they do not rise with the steps.
        assert!(total.trend.slope.abs() < 1.0 && total.peak_trend.tau < RISING, "{until}: {total:?}");
        assert!(!total.has_rising_peaks(&Thresholds::default()), "{until}: {total:?}");
    }
}

#[test]
fn few_steps_are_enough_for_a_place_that_leaks_but_not_for_a_buffer_that_grows() {
    let leaking = find(&keeping(6, |_| MIB), None);
    let total = leaking.total.unwrap();
    assert_eq!((leaking.candidates.len(), total.points, total.is_alarm), (1, 6, true), "{total:?}");
    for (n, is_alarm) in [(7, false), (16, true)] {
        let mut last = None;
        let trace = training(n, |training| {
            let bytes = 8 * MIB + training.step * 3 * MIB / 2;
            let new = training.keep(bytes, PLACE);
            if let Some((at, bytes)) = last.replace((new, bytes)) {
                training.script.free(at, bytes);
            }
        });
        let found = find(&trace, None);
        let total = found.total.unwrap();
        assert_eq!((found.candidates.len(), total.verdict), (0, TotalVerdict::Growth), "{n}: {total:?}");
        assert_eq!(total.is_alarm, is_alarm, "{n}: {total:?}");
    }
}

/// Reserves 20 MiB more wherever live memory exceeds what is reserved.
fn reserve(training: &mut Training, reserved: &mut u64, live: u64) {
    while *reserved < live {
        training.script.event(SegmentAlloc, (3 << 40) + *reserved, 20 * MIB, StackId(0));
        *reserved += 20 * MIB;
    }
}

#[test]
fn garbage_that_is_collected_now_and_then_is_demand() {
    for (n, period) in [(65, 13), (40, 18), (48, 7)] {
        let (mut kept, mut reserved, mut live) = (Vec::new(), 1 << 30, 900 * MIB);
        let trace = training(n, |training| {
            reserve(training, &mut reserved, live + 31 * MIB);
            live += 31 * MIB;
            kept.push(training.keep(31 * MIB, PLACE));
            if training.step % period == period - 1 {
                live -= 31 * MIB * kept.len() as u64;
                kept.drain(..).for_each(|at| _ = training.script.free(at, 31 * MIB));
            }
        });
        let found = find(&trace, None);
        let total = found.total.unwrap();
        assert_eq!((found.candidates.len(), total.is_alarm), (0, false), "every {period} of {n}");
        assert!(!total.is_reserved_alarm, "every {period} of {n}: {total:?}");
        assert_ne!(total.verdict, TotalVerdict::FragmentationGrowth, "every {period} of {n}");
    }
}

#[test]
fn a_leak_whose_failures_are_caught_stays_a_leak() {
    for (first, every) in [(26, 1), (8, 3), (5, 2)] {
        let trace = training(45, |training| {
            if training.step >= first && (training.step - first) % every == 0 {
                training.script.oom(900 * MIB, Some(5 * MIB));
            } else {
                training.keep(5 * MIB, PLACE);
            }
        });
        let found = find(&trace, None);
        assert_eq!(found.candidates.len(), 1, "from {first}, every {every}");
        assert!((found.candidates[0].bytes_per_step - 5.0 * MIB as f64).abs() < 1.0, "{:?}", found.candidates[0]);
        let total = found.total.unwrap();
        assert_eq!((total.verdict, total.is_alarm), (TotalVerdict::Growth, true), "from {first}, every {every}");
    }
}

#[test]
fn slow_growth_is_below_the_threshold_and_not_level() {
    for bytes in [512, 24 * 1024, 60 * 1024] {
        let trace = keeping(50, |_| bytes);
        let found = find(&trace, Some(2 << 30));
        let total = found.total.unwrap();
        assert_eq!((total.verdict, total.is_alarm, total.steps_to_oom), (TotalVerdict::BelowThreshold, false, None));
        assert_eq!(found.candidates, []);
        let is_listed = bytes * 45 >= 65_536;
        assert_eq!(verdict_of(&trace, &found), is_listed.then_some(Verdict::BelowThreshold), "{bytes}");
    }
}

#[test]
fn reserved_memory_that_grows_alone_is_an_alarm() {
    let of = |n: u64, is_growing: fn(u64) -> bool| {
        let trace = training(n, |training| {
            if is_growing(training.step) {
                training.script.event(SegmentAlloc, (3 << 40) + training.step * 64 * MIB, 36 * MIB, StackId(0));
            }
        });
        let total = find(&trace, None).total.unwrap();
        let found = growth(history(&trace), &|| false);
        (total, shares(history(&trace), &found).unwrap())
    };
    for is_growing in [|_| true, |step| step % 3 == 1, |step| step > 15] {
        let (total, shares) = of(44, is_growing);
        assert_eq!((total.verdict, total.is_reserved_alarm), (TotalVerdict::FragmentationGrowth, true), "{total:?}");
        assert!(!total.is_alarm && shares.demand < shares.bytes / 4, "{shares:?}");
    }
    // Settles, or is too short.
    for (n, is_growing) in [(44, (|step| step < 20) as fn(u64) -> bool), (44, |step| step < 34), (10, |_| true)] {
        let total = of(n, is_growing).0;
        assert!(!total.is_reserved_alarm && !total.is_alarm, "{n}: {total:?}");
    }
}

#[test]
fn reserved_memory_that_is_given_back_is_no_alarm() {
    let trace = training(44, |training| {
        let (block, k) = (3 << 40, training.step % 8);
        training.script.event(SegmentAlloc, block + k * 64 * MIB, 36 * MIB, StackId(0));
        if k == 7 {
            (0..8).for_each(|k| _ = training.script.event(SegmentFree, block + k * 64 * MIB, 36 * MIB, StackId(0)));
        }
    });
    assert!(!find(&trace, None).total.unwrap().is_reserved_alarm);
}

#[test]
fn of_a_last_step_without_its_frees_it_is_said_why_it_does_not_count() {
    let caveat = |n_freed: u64| {
        let mut script = Script::default();
        let stack = script.stack(&["step (train.py:9)"]);
        for step in 0..4 {
            (0..3).for_each(|i| _ = script.alloc(i << 20, 512, stack));
            (0..if step < 3 { 3 } else { n_freed }).for_each(|i| _ = script.free(i << 20, 512));
        }
        let trace = script.finish();
        let starts = [0, 6, 12, 18].map(|event| history(&trace).events.ts[event]);
        let mut steps = steps::marked(history(&trace), &starts).unwrap();
        steps.source = StepSource::Period { items: "allocations", length: 3, share: 0.9 };
        let (signatures, thresholds) = (Signatures::new(&trace, false), Thresholds::default());
        let found = leaks(&trace, history(&trace), &signatures, Some(&steps), None, &thresholds, &|| false).1;
        found.caveats.into_iter().find(|caveat| caveat.contains("guessed")).unwrap()
    };
    let guessed = "Steps are guessed from what repeats; the 3 allocations after the last belong to none";
    assert_eq!(caveat(1), format!("{guessed}: the recording ends before the last frees of their step"));
    assert_eq!(caveat(3), guessed);
}

#[test]
fn nothing_rests_on_steps_that_are_a_guess() {
    let trace = keeping(40, |_| 11 * MIB);
    let mut steps = steps::steps(&trace, history(&trace), &|| false).unwrap();
    steps.source = StepSource::Period { items: "allocations", length: 3, share: 0.4 };
    steps.regularity = 0.2;
    let signatures = Signatures::new(&trace, false);
    let thresholds = Thresholds::default();
    let found = leaks(&trace, history(&trace), &signatures, Some(&steps), Some(9 << 30), &thresholds, &|| false).1;
    let total = found.total.unwrap();
    assert_eq!((total.verdict, total.is_alarm, total.steps_to_oom), (TotalVerdict::IrregularSteps, false, None));
    assert!(found.candidates.iter().all(|candidate| candidate.severity == Severity::Note));
}
