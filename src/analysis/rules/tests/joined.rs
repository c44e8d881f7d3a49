//! What is of one cause is one hit, with what ending all of it gains.

use super::each_rule::CALL;
use super::*;

const MS: TimeNs = 1_000_000;
const COPIES: TimeNs = 12 * MS;
/// More than twice the copies: else it is of the wait for them.
const WRITES: TimeNs = 40 * MS;
/// From a launch to its work, and from the end of the copy to that of its call.
const LATENCY: TimeNs = 5_000;

/// Ten steps of a device that is always busy but in those that save a checkpoint: there the host copies, and then
/// writes.
fn saving(saves: &[usize], writes: TimeNs) -> Trace {
    let names: Vec<String> = (0..10).map(|i| format!("ProfilerStep#{i}")).collect();
    let (mut slices, mut correlation, mut at) = (Vec::new(), Vec::new(), 0);
    for (i, name) in names.iter().enumerate() {
        let id = 10 * (i as u32 + 1);
        let mut add = |track, kind, name, from, until, id| {
            slices.push((track, kind, name, at + from, at + until));
            correlation.push(id);
        };
        let is_saving = saves.contains(&i);
        let (copied, written) = (MS + COPIES, MS + COPIES + LATENCY + writes);
        let end = if is_saving { written + 9 * MS } else { STEP };
        add("main", NOTE, name.as_str(), 0, end, 0);
        add("main", CALL, "cudaLaunchKernel", 0, 1_000, id);
        add("stream 7", KERNEL, "gemm", LATENCY, LATENCY + if is_saving { MS } else { STEP }, id);
        if is_saving {
            add("main", SliceKind::PythonFunction, "train.py(9): keep", MS / 2, written, 0);
            add("main", CALL, "cudaMemcpyAsync", MS / 2, copied + LATENCY, id + 1);
            add("stream 7", COPY, "Memcpy DtoH (Device -> Pageable)", LATENCY + MS, copied, id + 1);
            add("main", SliceKind::PythonFunction, "torch/serialization.py(945): save", copied + LATENCY, written, 0);
            add("main", CALL, "cudaLaunchKernel", written, written + 1_000, id + 2);
            add("stream 7", KERNEL, "gemm", written + LATENCY, end + LATENCY, id + 2);
        }
        at += end;
    }
    let copies: Vec<usize> = (0..slices.len()).filter(|&at| slices[at].1 == COPY).collect();
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    let copy = MemoryCopy { kind: CopyKind::DtoH, bytes: Some(64 << 20), is_pageable: Some(true) };
    for at in copies {
        builder.set_facts(at, SliceFacts { copy: Some(copy), ..Default::default() });
    }
    builder.finish()
}

#[test]
fn a_checkpoint_is_one_hit_with_its_copies_and_the_step_that_it_makes_long() {
    let verdicts = judged(&saving(&[3, 9], WRITES), None);
    let hit = of(&verdicts, Rule::HostBound).unwrap();
    assert!(hit.is_saving());
    let joined: Vec<(Rule, DurNs)> = hit.joined.rules.clone();
    assert_eq!(joined.iter().find(|joined| joined.0 == Rule::PageableCopies).unwrap().1, COPIES - LATENCY);
    assert!(joined.iter().find(|joined| joined.0 == Rule::ExposedCopies).unwrap().1 >= COPIES - LATENCY, "{joined:?}");
    assert_eq!(hit.joined.irregular.as_ref().unwrap().steps, ["ProfilerStep#3"]);
    for rule in [Rule::ExposedCopies, Rule::PageableCopies, Rule::IrregularSteps, Rule::Synchronization] {
        assert_eq!(of(&verdicts, rule), None);
    }
}

#[test]
fn what_comes_back_after_some_steps_gains_each_its_part_with_what_is_joined() {
    let ceiling = |saves: &[usize], writes| {
        let verdicts = judged(&saving(saves, writes), None);
        let hit = of(&verdicts, Rule::HostBound).unwrap();
        let once = hit.once.as_ref().unwrap();
        assert_eq!((hit.n_steps, once.step.as_str()), (8, "ProfilerStep#3"));
        let long = MS + COPIES + LATENCY + writes + 9 * MS;
        let every = if once.comes_back() { 6 } else { 8 };
        assert!((once.step_ns() - (long + (every - 1) * STEP) / every).abs() <= 2 * LATENCY, "{}", once.step_ns());
        let check = verdicts.checks.iter().find(|check| check.rule == Rule::HostBound).unwrap();
        assert_eq!(hit.ceiling_ns_per_step, check.ceiling_ns_per_step);
        let copies = verdicts.checks.iter().find(|check| check.rule == Rule::ExposedCopies).unwrap();
        assert_eq!(copies.ceiling_ns_per_step, None, "counted once");
        hit.ceiling_ns_per_step
    };
    // The last step, which does not count, shows that it comes back after six: eight steps hold too little of it.
    let found = 6 * ceiling(&[3, 9], WRITES).unwrap();
    let idle = WRITES + 2 * LATENCY;
    assert!((COPIES - LATENCY + WRITES..=COPIES - LATENCY + idle).contains(&found), "{found}");
    // Nothing shows that a single one does.
    assert_eq!(ceiling(&[3], WRITES), None);
}

#[test]
fn copies_in_another_step_than_the_cause_stay_hits_of_their_own() {
    let verdicts = judged(&saving(&[3, 9], 0), None);
    assert!(of(&verdicts, Rule::PageableCopies).is_some());
    assert_eq!(of(&verdicts, Rule::HostBound), None);
}
