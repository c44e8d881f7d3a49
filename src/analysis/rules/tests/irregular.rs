//! Steps that differ from the others, steps of two lengths, and steps that take longer and longer.

use super::*;
use crate::analysis::gaps::GapClass;

/// Steps of these lengths, of which the device works for 5 ms each.
fn steps_of(lengths: &[TimeNs]) -> Trace {
    let names: Vec<String> = (0..lengths.len()).map(|i| format!("ProfilerStep#{i}")).collect();
    let (mut slices, mut at) = (Vec::new(), 0);
    for (name, length) in names.iter().zip(lengths) {
        slices.push(("main", NOTE, name.as_str(), at, at + length));
        slices.push(("stream 7", KERNEL, "gemm", at, at + 5_000_000));
        at += length;
    }
    TraceBuilder::from_slices(&slices).finish()
}

#[test]
fn steps_that_grow_are_a_trend_and_not_one_odd_step() {
    let trend = |lengths: &[TimeNs]| {
        let verdicts = judged(&steps_of(lengths), None);
        of(&verdicts, Rule::IrregularSteps).and_then(|hit| hit.irregular.clone()).unwrap()
    };
    let ms = 1_000_000;
    let growing: Vec<TimeNs> = (0..10).map(|i| (10 + 3 * i) * ms).collect();
    let found = trend(&growing);
    let of_trend = found.trend.unwrap();
    // The first step is shorter than those that count, so no warm-up; the last is cut off by the end of the recording.
    assert_eq!((of_trend.n_steps, of_trend.ns_per_step), (9, 3 * ms));
    assert_eq!((of_trend.first.as_str(), of_trend.first_ns), ("ProfilerStep#0", 10 * ms));
    assert_eq!((of_trend.last.as_str(), of_trend.last_ns), ("ProfilerStep#8", 34 * ms));
    assert_eq!((found.part, found.part_ns, found.median_part_ns), (Part::Idle(GapClass::NoLaunch), 29 * ms, 5 * ms));
    let shrinking: Vec<TimeNs> = growing.iter().rev().copied().collect();
    assert_eq!(trend(&shrinking).trend.unwrap().ns_per_step, -3 * ms);
    // Noise does not hide it, one odd step makes none, and nor do two halves.
    let noisy: Vec<TimeNs> = growing.iter().enumerate().map(|(i, ns)| ns + (i as TimeNs % 2) * ms).collect();
    assert!(trend(&noisy).trend.is_some());
    let mut odd: Vec<TimeNs> = (0..10).map(|i| 10 * ms + i).collect();
    odd[8] = 40 * ms;
    assert_eq!(trend(&odd).trend, None);
    let halves: Vec<TimeNs> = (0..10).map(|i| if i < 5 { 10 * ms } else { 20 * ms }).collect();
    assert_eq!(trend(&halves).trend, None);
}

#[test]
fn one_jump_and_a_last_step_that_falls_back_make_no_trend() {
    let found = |lengths: &[TimeNs]| {
        let lengths: Vec<TimeNs> = lengths.iter().map(|ms| ms * 1_000_000).collect();
        let verdicts = judged(&steps_of(&lengths), None);
        of(&verdicts, Rule::IrregularSteps).and_then(|hit| hit.irregular.clone()).unwrap()
    };
    // Each takes longer than the one before, but most of that comes at once.
    let jump = found(&[10, 11, 12, 30, 31, 32, 33]);
    assert_eq!(jump.trend, None);
    let groups = jump.groups.unwrap();
    assert_eq!((groups.shorter.n_steps, groups.longer.n_steps), (3, 3));
    assert_eq!(groups.jump, Some(("ProfilerStep#3".to_owned(), true)));
    // The last step does not count, but tells that the others did not grow for good.
    assert!(found(&[10, 13, 16, 19, 22, 25, 28]).trend.is_some());
    assert_eq!(found(&[10, 13, 16, 19, 22, 25, 12]).trend, None);
}

#[test]
fn steps_of_two_lengths_are_two_groups() {
    let found = |lengths: &[TimeNs]| {
        let lengths: Vec<TimeNs> = lengths.iter().map(|ms| ms * 1_000_000).collect();
        let verdicts = judged(&steps_of(&lengths), None);
        of(&verdicts, Rule::IrregularSteps).and_then(|hit| hit.irregular.clone()).unwrap()
    };
    let ms = 1_000_000;
    let every_second = found(&[50, 362, 42, 363, 43, 361, 41, 362]);
    // The first holds the warm-up, the last is cut off. The median is a step, not the mean of two lengths.
    assert_eq!(every_second.median_ns, 43 * ms);
    let lengths = |least: TimeNs| Lengths {
        n_steps: 3,
        least_ns: least * ms,
        median_ns: (least + 1) * ms,
        most_ns: (least + 2) * ms,
    };
    let groups = Groups { longer: lengths(361), shorter: lengths(41), jump: None };
    assert_eq!(every_second.groups, Some(groups));
    let expected = (Part::Idle(GapClass::NoLaunch), 357 * ms, 37 * ms, true);
    let Irregular { part, part_ns, median_part_ns, is_most, .. } = every_second;
    assert_eq!((part, part_ns, median_part_ns, is_most), expected);
    // A jump that the last step takes back is none; one after the first step is.
    let back = found(&[10, 10, 10, 30, 31, 11]).groups.unwrap();
    assert_eq!(back.jump, None);
    let after_first = found(&[10, 30, 31, 32, 31, 30]).groups.unwrap();
    assert_eq!((after_first.shorter.n_steps, after_first.jump), (1, Some(("ProfilerStep#1".to_owned(), true))));
    // A single odd step is no group, nor are lengths that spread.
    assert_eq!(found(&[10, 10, 40, 10, 10, 10]).groups, None);
    assert_eq!(found(&[90, 12, 50, 20, 10, 90, 30, 10]).groups, None);
}

#[test]
fn a_step_unlike_the_others_is_judged_by_its_ratio() {
    let found = |step: usize, length: TimeNs| {
        let mut lengths = [STEP; 10];
        lengths[step] = length;
        let verdicts = judged(&steps_of(&lengths), None);
        of(&verdicts, Rule::IrregularSteps).map(|hit| (hit.severity, hit.measured, hit.irregular.clone().unwrap()))
    };
    assert_eq!(found(5, 14_999_999), None);
    let (severity, measured, irregular) = found(5, 15_000_000).unwrap();
    assert_eq!((severity, measured), (Severity::Note, 1.5));
    let expected = Irregular {
        steps: vec!["ProfilerStep#5".to_owned()],
        step_ns: 15_000_000,
        median_ns: STEP,
        part: Part::Idle(GapClass::NoLaunch),
        part_ns: 10_000_000,
        median_part_ns: 5_000_000,
        is_most: true,
        trend: None,
        groups: None,
    };
    assert_eq!(irregular, expected);
    assert_eq!(found(5, 29_999_999).unwrap().0, Severity::Note);
    assert_eq!(found(5, 30_000_000).unwrap().0, Severity::Warn);
    assert_eq!(found(5, 30_000_000).unwrap().2.trend, None);
    // The first step includes warm-up, which makes it longer, never shorter.
    assert_eq!(found(0, 50_000_000), None);
    assert_eq!(found(0, 6_000_000).unwrap().2.steps, ["ProfilerStep#0"]);
}
