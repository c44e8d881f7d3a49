//! Steps that differ from the others, and steps that take longer and longer.

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
        trend: None,
    };
    assert_eq!(irregular, expected);
    assert_eq!(found(5, 29_999_999).unwrap().0, Severity::Note);
    assert_eq!(found(5, 30_000_000).unwrap().0, Severity::Warn);
    assert_eq!(found(5, 30_000_000).unwrap().2.trend, None);
    // The first step includes warm-up, which makes it longer, never shorter.
    assert_eq!(found(0, 50_000_000), None);
    assert_eq!(found(0, 6_000_000).unwrap().2.steps, ["ProfilerStep#0"]);
}
