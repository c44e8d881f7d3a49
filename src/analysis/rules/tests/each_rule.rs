//! Each rule alone: it finds what reaches its levels, and nothing a nanosecond below.

use super::*;
use crate::model::memory::{MemoryAction, MemoryEvent, MemoryPool, OutOfMemory, RawMemory};
use crate::model::{StackId, SyncKind, Synchronization};

pub(super) const CALL: SliceKind = SliceKind::Runtime;
pub(super) const STEPS: i64 = 10;
/// From the launch of the work after a gap to its start.
pub(super) const LATENCY: TimeNs = 5_000;

/// (track, kind, name, start, end, correlation within the step).
pub type Event<'a> = (&'a str, SliceKind, &'a str, TimeNs, TimeNs, u32);

/// A kernel on another stream that was launched long before: the host is not just in time.
pub(super) const AHEAD: [Event<'_>; 2] =
    [("main", CALL, "cudaLaunchKernel", 1_000_000, 1_001_000, 50), ("stream 8", KERNEL, "c", 2_000_000, 2_500_000, 50)];

/// Ten steps of these events, with what was launched by what.
pub fn linked(step: &[Event<'_>]) -> TraceBuilder {
    let names: Vec<String> = (0..STEPS).map(|i| format!("ProfilerStep#{i}")).collect();
    let (mut slices, mut correlation) = (Vec::new(), Vec::new());
    for (i, name) in (0..).zip(&names) {
        let at = STEP * i;
        slices.push(("main", NOTE, name.as_str(), at, at + STEP));
        correlation.push(0);
        for &(track, kind, name, start, end, id) in step {
            slices.push((track, kind, name, at + start, at + end));
            correlation.push(if id == 0 { 0 } else { 100 * i as u32 + id });
        }
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    builder
}

/// A gap in each step, in which a host slice lasts for `dur`, until the launch of the work that ends the gap.
pub(super) fn with_gap(host: Option<(&str, SliceKind, &str)>, dur: TimeNs) -> TraceBuilder {
    const START: TimeNs = 4_000_000;
    let end = START + dur + LATENCY;
    let mut step = vec![
        ("stream 7", KERNEL, "a", 0, START, 0),
        ("main", CALL, "cudaLaunchKernel", end - LATENCY, end - 1_000, 1),
        ("stream 7", KERNEL, "b", end, STEP, 1),
    ];
    step.extend(AHEAD);
    step.extend(host.map(|(track, kind, name)| (track, kind, name, START, START + dur, 0)));
    linked(&step)
}

/// Every level of the rule is reached at its share of a step, and not a nanosecond below.
///
/// * `trace`: a trace with that much per step.
/// * `ceiling`: what of it can be gained.
pub(super) fn assert_levels(
    rule: Rule,
    trace: impl Fn(TimeNs) -> TraceBuilder,
    ceiling: impl Fn(TimeNs) -> Option<TimeNs>,
) {
    let levels = rule.levels(&Thresholds::default());
    let all = [(Severity::Note, levels.note), (Severity::Warn, levels.warn), (Severity::High, levels.high)];
    let mut milder = None;
    for (severity, level) in all {
        let Some(level) = level else { continue };
        let dur = (level * STEP as f64).round() as TimeNs;
        let [below, at] = [dur - 1, dur].map(|dur| judged(&trace(dur).finish(), None));
        assert_eq!(of(&below, rule).map(|hit| hit.severity), milder, "{rule:?} below {level}");
        let hit = of(&at, rule).unwrap_or_else(|| panic!("{rule:?} at {level}: {:?}", found(&at)));
        // The first step and the profiler's last do not count.
        assert_eq!((hit.severity, hit.threshold, hit.n_steps), (severity, level, 8), "{rule:?}");
        assert_eq!((hit.amount, hit.of), (8 * dur, 8 * STEP), "{rule:?}");
        assert!((hit.measured - level).abs() < 1e-12, "{rule:?}: {}", hit.measured);
        assert_eq!(hit.ceiling_ns_per_step, ceiling(dur), "{rule:?}");
        let check = at.checks.iter().find(|check| check.rule == rule).unwrap();
        assert_eq!((check.measured, check.ceiling_ns_per_step), (hit.measured, ceiling(dur)));
        milder = Some(severity);
    }
    assert!(milder.is_some(), "{rule:?} has no level");
}

#[test]
fn idle_time_is_judged_by_what_the_host_did_in_it() {
    let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    let causes = [
        (Rule::DataLoading, ("main", NOTE, loader)),
        (Rule::CollectiveCalls, ("main", SliceKind::Operator, "c10d::allreduce_")),
        (Rule::Synchronization, ("main", CALL, "cudaDeviceSynchronize")),
        (Rule::HostBound, ("main", SliceKind::Operator, "aten::mm")),
        (Rule::HostBound, ("main", SliceKind::PythonFunction, "train.py(3): main")),
        (Rule::ExposedCopies, ("main", CALL, "cudaMemcpyAsync")),
        (Rule::Allocator, ("main", CALL, "cudaMalloc")),
        (Rule::ModuleLoad, ("main", SliceKind::Driver, "cuLibraryLoadData")),
        (Rule::GarbageCollection, ("main", SliceKind::PythonFunction, "<built-in function collect>")),
        (Rule::Blocked, ("main", SliceKind::Os, "read")),
    ];
    for (rule, host) in causes {
        assert_levels(rule, |dur| with_gap(Some(host), dur), Some);
    }
}

#[test]
fn what_a_host_waits_for_that_is_neither_device_nor_data_is_the_load() {
    let names = [
        (SliceKind::Os, "pthread_cond_wait"),
        (SliceKind::PythonFunction, "queue.py(154): get"),
        (SliceKind::PythonFunction, "selectors.py(451): select"),
        (NOTE, "<method 'acquire' of '_thread.lock' objects>"),
    ];
    for (kind, name) in names {
        assert_levels(Rule::Blocked, |dur| with_gap(Some(("main", kind, name)), dur), |_| None);
        let verdicts = judged(&with_gap(Some(("main", kind, name)), STEP / 2).finish(), None);
        let hit = of(&verdicts, Rule::Blocked).unwrap();
        assert!(hit.is_of_low_load(), "{name}");
    }
    // After a wait for the device as well.
    let trace = linked(&[
        ("main", CALL, "cudaLaunchKernel", 0, 1_000, 2),
        ("stream 7", KERNEL, "a", 2_000, STEP / 2, 2),
        ("main", CALL, "cudaStreamSynchronize", 3_000, STEP / 2, 0),
        ("main", SliceKind::PythonFunction, "queue.py(154): get", STEP / 2, STEP - 10_000, 0),
        ("main", CALL, "cudaLaunchKernel", STEP - 10_000, STEP - 9_000, 1),
        ("stream 7", KERNEL, "b", STEP - LATENCY, STEP, 1),
    ]);
    let verdicts = judged(&trace.finish(), None);
    assert_eq!(of(&verdicts, Rule::Blocked).unwrap().shares.waits_ns, 8 * (STEP / 2 - 10_000));
    assert_eq!(of(&verdicts, Rule::Synchronization), None);
}

#[test]
fn idle_time_without_a_cause_to_end_has_no_ceiling() {
    assert_levels(Rule::Unexplained, |dur| with_gap(None, dur), |_| None);
    let overhead = ("profiler", SliceKind::Overhead, "CUDA profiling data flush overhead");
    assert_levels(Rule::Profiler, |dur| with_gap(Some(overhead), dur), |_| None);
}

#[test]
fn time_without_a_record_counts_for_the_event_that_made_it_possible() {
    const START: TimeNs = 4_000_000;
    // The host waits for the device until 1 µs after the gap begins, then nothing is recorded.
    let synced = |dur: TimeNs| {
        // With the latency of the launch, which a host that is ahead does not wait for.
        let end = START + dur;
        let own = [
            ("main", CALL, "cudaLaunchKernel", 0, 1_000, 2),
            ("stream 7", KERNEL, "a", 2_000, START, 2),
            ("main", SliceKind::PythonFunction, "train.py(7): main", 10_000, START + 2_000, 0),
            ("main", SliceKind::Operator, "aten::item", 10_000, START + 1_500, 0),
            ("main", CALL, "cudaStreamSynchronize", 10_000, START + 1_000, 0),
            ("main", CALL, "cudaLaunchKernel", end - LATENCY, end - 1_000, 1),
            ("stream 7", KERNEL, "b", end, STEP + 2_000, 1),
        ];
        linked(&own)
    };
    assert_levels(Rule::Synchronization, synced, Some);
    let verdicts = judged(&synced(3_000_000).finish(), None);
    let hit = of(&verdicts, Rule::Synchronization).unwrap();
    let site = ["cudaStreamSynchronize", "aten::item", "train.py(7): main"].map(str::to_owned);
    let [call, operator, frame] = site;
    assert_eq!(hit.sites, [CallSite { call, operator, frame }]);
    assert!(of(&verdicts, Rule::Unexplained).is_none());
    // Just in time, without operators.
    const PERIOD: TimeNs = STEP / 20;
    let bound = |dur: TimeNs| {
        let mut step: Vec<Event<'_>> = Vec::new();
        for (i, id) in (0..20).zip(1..) {
            let start = PERIOD * i + dur / 20 + if i == 0 { dur % 20 } else { 0 };
            step.push(("main", CALL, "cudaLaunchKernel", start - 4_000, start - 1_000, id));
            step.push(("stream 7", KERNEL, "add", start, PERIOD * (i + 1), id));
        }
        linked(&step)
    };
    assert_levels(Rule::LaunchBound, bound, Some);
}

#[test]
fn what_the_host_runs_inside_a_step_is_not_between_steps() {
    let rules = |step_end: TimeNs| {
        let mut slices = Vec::new();
        let mut correlation = Vec::new();
        let names: Vec<String> = (0..STEPS).map(|i| format!("ProfilerStep#{i}")).collect();
        for (i, name) in (0..).zip(&names) {
            let at = STEP * i;
            slices.push(("main", NOTE, name.as_str(), at, at + step_end));
            slices.push(("main", SliceKind::PythonFunction, "log.py(20): log", at + 5_000_000, at + 9_990_000));
            slices.push(("main", CALL, "cudaLaunchKernel", at + 1_000, at + 2_000));
            slices.push(("stream 7", KERNEL, "a", at + 5_000, at + 5_000_000));
            correlation.extend([0, 0, i as u32 + 1, i as u32 + 1]);
            slices.extend(AHEAD.map(|(track, kind, name, start, end, _)| (track, kind, name, at + start, at + end)));
            correlation.extend([i as u32 + 50; 2]);
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        let found = found(&judged(&builder.finish(), None));
        found.into_iter().map(|found| found.0).filter(|rule| rule.cause().is_some()).collect::<Vec<_>>()
    };
    assert_eq!(rules(STEP), [Rule::HostBound]);
    assert_eq!(rules(5_000_000), [Rule::StepBoundary]);
}

#[test]
fn gaps_between_steps_are_judged_in_full() {
    // The gap begins before the boundary and ends after it.
    let trace = |dur: TimeNs| {
        let (start, end) = (dur / 2 + LATENCY, STEP - (dur - dur / 2));
        let own = [
            ("main", CALL, "cudaLaunchKernel", start - LATENCY, start - 1_000, 1),
            ("stream 7", KERNEL, "a", start, end, 1),
        ];
        linked(&[own, AHEAD].concat())
    };
    assert_levels(Rule::StepBoundary, trace, |_| None);
}

#[test]
fn a_host_that_launches_just_in_time_is_found() {
    // Twenty kernels a step, each launched by an operator that runs while the device waits.
    const PERIOD: TimeNs = STEP / 20;
    let trace = |dur: TimeNs| {
        let mut step: Vec<Event<'_>> = Vec::new();
        for (i, id) in (0..20).zip(1..) {
            // The first gap takes what is left.
            let gap = dur / 20 + if i == 0 { dur % 20 } else { 0 };
            let at = PERIOD * i;
            let start = at + gap;
            step.push(("main", SliceKind::Operator, "aten::add", at, start, 0));
            step.push(("main", CALL, "cudaLaunchKernel", start - 4_000, start - 1_000, id));
            step.push(("stream 7", KERNEL, "add", start, at + PERIOD, id));
        }
        linked(&step)
    };
    // A host that is ahead has the latency while the device works. To record the operators takes a microsecond each.
    assert_levels(Rule::LaunchBound, trace, |dur| Some(dur - 20 * 1_000));
}

#[test]
fn waiting_for_another_stream_is_found() {
    let trace = |dur: TimeNs| {
        let mut builder = linked(&[
            ("main", CALL, "cudaLaunchKernel", 0, 1_000, 1),
            ("main", CALL, "cudaEventRecord", 1_000, 2_000, 3),
            ("main", CALL, "cudaStreamWaitEvent", 2_000, 3_000, 4),
            ("main", CALL, "cudaLaunchKernel", 3_000, 4_000, 2),
            ("stream 7", KERNEL, "producer", 4_000, 4_000_000, 1),
            ("stream 8", KERNEL, "consumer", 4_000_000 + dur, STEP + 4_000, 2),
            ("stream 8", SliceKind::Sync, "Stream Wait Event", 2_000, 3_000, 4),
        ]);
        for i in 0..STEPS as usize {
            let (kind, event_record) = (SyncKind::StreamWait, 100 * i as u32 + 3);
            let sync = Synchronization { kind, stream: Some(8), event: Some(1), event_stream: Some(7), event_record };
            builder.set_facts(8 * i + 7, SliceFacts { sync: Some(sync), ..Default::default() });
        }
        builder
    };
    assert_levels(Rule::Dependency, trace, Some);
}

#[test]
fn recording_frames_is_judged_by_its_estimated_cost() {
    // The device waits for 1 ms of each step, or as long as is given, for an operator.
    let found = |frames: i64, waits: TimeNs| {
        let mut builder_events = vec![
            ("stream 7", KERNEL, "a", 0, 4_000_000, 0),
            ("main", SliceKind::Operator, "aten::mm", 4_000_000, 4_000_000 + waits, 0),
            ("main", CALL, "cudaLaunchKernel", 4_000_000 + waits, 4_001_000 + waits, 1),
            ("stream 7", KERNEL, "b", 4_005_000 + waits, STEP, 1),
        ];
        builder_events.extend(AHEAD);
        let every = waits / frames;
        let at = |i: i64| 4_000_000 + every * i;
        let frame = |i: i64| ("main", SliceKind::PythonFunction, "a.py(1): f", at(i), at(i) + every / 2, 0);
        builder_events.extend((0..frames).map(frame));
        let verdicts = judged(&linked(&builder_events).finish(), None);
        of(&verdicts, Rule::Recording).map(|hit| (hit.severity, hit.measured, hit.count))
    };
    // 500 ns a frame, and 3 us for the one operator, of 10 ms.
    assert_eq!(found(593, 1_000_000), None);
    assert_eq!(found(594, 1_000_000), Some((Severity::Note, 0.03, 8 * 595)));
    assert_eq!(found(594, 200_000), None, "the device waits no longer");
    assert_eq!(found(1_994, 1_100_000).unwrap().0, Severity::Warn);
    assert_eq!(found(1_993, 1_100_000).unwrap().0, Severity::Note);
}

#[test]
fn recording_operators_alone_is_a_note_and_bounds_what_is_said_of_the_host() {
    // 4 ms of small operators a step of 10 ms.
    let found = |operators: i64| {
        let mut events = vec![
            ("stream 7", KERNEL, "a", 0, 4_000_000, 0),
            ("main", CALL, "cudaLaunchKernel", 8_000_000, 8_001_000, 1),
            ("stream 7", KERNEL, "b", 8_005_000, STEP, 1),
        ];
        events.extend(AHEAD);
        let at = |i: i64| 4_000_000 + 4_000_000 * i / operators;
        events.extend((0..operators).map(|i| ("main", SliceKind::Operator, "aten::add", at(i), at(i + 1), 0)));
        judged(&linked(&events).finish(), None)
    };
    let many = found(1_000);
    let hit = of(&many, Rule::Recording).unwrap();
    // 1 to 8 ms, of which the device waits for 4.
    assert_eq!((hit.severity, hit.amount), (Severity::Note, 8 * 1_000_000));
    let cost = of(&many, Rule::HostBound).unwrap().recording.unwrap();
    assert_eq!((cost.frames, cost.operators), (0, 8 * 1_000));
    assert_eq!((cost.ns, cost.most_ns), (1_000_000, None), "it counts as far as the device waits");
    assert_eq!(hit.recording.unwrap().most_ns, None, "the device waits for less");
    // 4 % of the step at least, and a third of it at most.
    let some = of(&found(400), Rule::HostBound).unwrap().recording.unwrap();
    assert_eq!((some.ns, some.most_ns), (400_000, Some(3_200_000)));
    let few = found(100);
    assert_eq!(of(&few, Rule::Recording).map(|hit| hit.amount), None);
    assert_eq!(of(&few, Rule::HostBound).unwrap().recording, None);
}

#[test]
fn what_the_users_frame_called_is_named_and_checkpoints_are() {
    // The host runs a function of a library for 2 ms, in pieces.
    let found = |function: &'static str, pieces: i64| {
        let mut events = vec![
            ("stream 7", KERNEL, "a", 0, 4_000_000, 0),
            ("main", SliceKind::PythonFunction, "train.py(9): step", 3_000_000, 6_500_000, 0),
            ("main", SliceKind::PythonFunction, function, 4_000_000, 6_000_000, 0),
            ("main", CALL, "cudaLaunchKernel", 6_000_000, 6_001_000, 1),
            ("stream 7", KERNEL, "b", 6_005_000, STEP, 1),
        ];
        events.extend(AHEAD);
        let at = |i: i64| 4_000_000 + 50_000 * i;
        events.extend((0..pieces).map(|i| ("main", SliceKind::Operator, "aten::cat", at(i), at(i) + 40_000, 0)));
        judged(&linked(&events).finish(), None)
    };
    let verdicts = found("einops/einops.py(9): rearrange", 40);
    let hit = of(&verdicts, Rule::HostBound).unwrap();
    let [call, frame] = ["einops/einops.py(9): rearrange", "train.py(9): step"].map(str::to_owned);
    assert_eq!(hit.sites, [CallSite { call, operator: String::new(), frame }]);
    assert!(2 * hit.shares.apart_ns > hit.amount && 2 * hit.shares.slow_ns < hit.amount, "{:?}", hit.shares);
    assert!(!hit.is_saving());
    let verdicts = found("torch/serialization.py(945): save", 0);
    assert!(of(&verdicts, Rule::HostBound).unwrap().is_saving());
}

#[test]
fn launches_of_an_optimizer_are_known() {
    // The host launches a short kernel every 20 us, for 4 ms.
    let found = |range: &'static str| {
        let mut events = vec![
            ("stream 7", KERNEL, "a", 0, 4_000_000, 0),
            ("main", NOTE, range, 3_900_000, 8_100_000, 0),
            ("stream 7", KERNEL, "c", 8_100_000, STEP, 0),
        ];
        for (i, id) in (0..200).zip(1..) {
            let at = 4_000_000 + 20_000 * i;
            events.push(("main", CALL, "cudaLaunchKernel", at, at + 5_000, id));
            events.push(("stream 7", KERNEL, "b", at + 8_000, at + 9_000, id));
        }
        let verdicts = judged(&linked(&events).finish(), None);
        let hit = of(&verdicts, Rule::LaunchBound).unwrap();
        (2 * hit.shares.optimizer_ns > hit.amount, hit.shares.optimizer_ns)
    };
    assert!(found("Optimizer.step#Adam.step").0);
    assert_eq!(found("forward").1, 0);
}

#[test]
fn nearly_full_memory_is_judged_at_its_peak() {
    let peak = |bytes: u64| {
        let mut builder = TraceBuilder::default();
        builder.info.devices.push(DeviceInfo { total_memory_bytes: Some(1_000), ..Default::default() });
        let mut raw = RawMemory::default();
        let (pool, stack) = (raw.pool(MemoryPool::default()), StackId(0));
        for (ts, action) in [(0, MemoryAction::SegmentAlloc), (1, MemoryAction::SegmentFree)] {
            raw.events.push(MemoryEvent { ts, action, addr: 0, bytes, pool, stack });
        }
        builder.memories.push(raw);
        of(&judged(&builder.finish(), None), Rule::MemoryNearlyFull)
            .map(|hit| (hit.measured, hit.amount, hit.of, hit.unused_bytes))
    };
    assert_eq!([peak(899), peak(900)], [None, Some((0.9, 900, 1_000, 900))]);
}

#[test]
fn what_the_device_had_for_others_is_told_apart_from_what_the_process_could_have() {
    let others = |total: Option<u64>| {
        let mut builder = TraceBuilder::default();
        builder.info.devices.push(DeviceInfo { total_memory_bytes: total, ..Default::default() });
        let mut raw = RawMemory::default();
        let (pool, stack) = (raw.pool(MemoryPool::default()), StackId(0));
        for (ts, action) in [(0, MemoryAction::SegmentAlloc), (1, MemoryAction::OutOfMemory)] {
            raw.events.push(MemoryEvent { ts, action, addr: 0, bytes: 950, pool, stack });
        }
        raw.ooms.push(OutOfMemory { event: 1, requested: 950, device_free: Some(50) });
        builder.memories.push(raw);
        of(&judged(&builder.finish(), None), Rule::MemoryNearlyFull).map(|hit| (hit.of, hit.others_bytes))
    };
    assert_eq!(others(None), Some((1_000, None)));
    assert_eq!([1_000, 9_000].map(|all| others(Some(all))), [0, 8_000].map(|left| Some((1_000, Some(left)))));
}

#[test]
fn a_recurring_gap_is_evidence_of_its_cause_or_a_hit_of_its_own() {
    // Without a cause, below the threshold of unexplained time.
    let own = |dur: TimeNs| judged(&with_gap(None, dur - LATENCY).finish(), None);
    assert_eq!(of(&own(499_999), Rule::RecurringGap), None);
    let verdicts = own(500_000);
    let hit = of(&verdicts, Rule::RecurringGap).unwrap();
    assert_eq!((hit.measured, hit.amount, hit.count, hit.n_steps), (0.05, 500_000, 8, 8));
    assert_eq!((&hit.names[..2], hit.ceiling_ns_per_step), (&["a".to_owned(), "b".to_owned()][..], None));
    // With one the two are one finding, and one ceiling.
    let host = ("main", SliceKind::Operator, "aten::mm");
    let verdicts = judged(&with_gap(Some(host), 600_000).finish(), None);
    assert_eq!(found(&verdicts).iter().filter(|hit| hit.0 == Rule::RecurringGap).count(), 0);
    let hit = of(&verdicts, Rule::HostBound).unwrap();
    let gap = hit.recurring.as_ref().unwrap();
    assert_eq!((gap.prev.as_str(), gap.next.as_str(), gap.op.as_str()), ("a", "b", "aten::mm"));
    assert_eq!((gap.n_present, gap.n_steps, gap.ns_per_step), (8, 8, 600_000 + LATENCY));
    assert_eq!(hit.ceiling_ns_per_step, Some(600_000));
    assert!(verdicts.checks.iter().any(|check| check.rule == Rule::RecurringGap), "it was checked");
}

#[test]
fn gaps_that_are_alike_within_one_step_do_not_come_back() {
    let found = |n_steps: i64| {
        let names: Vec<String> = (0..n_steps).map(|i| format!("ProfilerStep#{i}")).collect();
        let mut slices = Vec::new();
        for (i, name) in (0..).zip(&names) {
            let at = STEP * i;
            slices.push(("main", NOTE, name.as_str(), at, at + STEP));
            for at in (0..4).map(|k| at + STEP / 4 * k) {
                slices.push(("stream 7", KERNEL, "a", at, at + 1_000_000));
                slices.push(("stream 7", KERNEL, "b", at + 2_000_000, at + STEP / 4));
            }
        }
        let verdicts = judged(&TraceBuilder::from_slices(&slices).finish(), None);
        let is_checked = verdicts.checks.iter().any(|check| check.rule == Rule::RecurringGap);
        (verdicts.windows[0].steps.len(), is_checked)
    };
    assert_eq!((found(1), found(3)), ((1, false), (3, true)));
}

#[test]
fn the_window_follows_a_device_that_lags_behind_the_host() {
    // The host launches each step at its start; the device runs it one step later.
    let step = [
        ("main", CALL, "cudaLaunchKernel", 0, 1_000, 1),
        ("stream 7", KERNEL, "gemm", STEP + 100, 2 * STEP, 1),
        ("main", CALL, "cudaLaunchKernel", 2_000, 3_000, 2),
        ("stream 7", KERNEL, "add", 2 * STEP, 2 * STEP + 100, 2),
    ];
    let verdicts = judged(&linked(&step).finish(), None);
    let window = &verdicts.windows[0];
    assert_eq!(window.time, TimeRange { start: 2 * STEP + 100, end: 10 * STEP + 100 });
    assert_eq!((window.steps.len(), window.host_steps[0]), (8, TimeRange { start: STEP, end: 2 * STEP }));
    assert_eq!((window.basis, window.start_up(), window.step_ns()), (Basis::Steps, None, Some(STEP)));
}

/// Copies of weights, first launches that load code, then a loop of ten passes.
fn with_start_up(load: TimeNs) -> Trace {
    let mut slices = vec![
        ("stream 7", COPY, "Memcpy HtoD", 0, load / 2),
        ("stream 7", KERNEL, "init", load / 2 + 1_000, load / 2 + 2_000),
        ("main", SliceKind::Driver, "cuLibraryLoadData", load / 2 + 3_000, load),
    ];
    for i in 0..10 {
        let at = load + 10_000 + i * 900_000;
        slices.push(("stream 7", KERNEL, "gemm", at, at + 500_000));
        slices.push(("stream 7", KERNEL, "softmax", at + 500_000, at + 890_000 + i % 3));
    }
    // An evaluation at the end.
    slices.push(("stream 7", KERNEL, "argmax", load + 9_010_000, load + 9_020_000));
    TraceBuilder::from_slices(&slices).finish()
}

#[test]
fn without_steps_the_start_up_is_left_out_where_it_is_told() {
    let trace = with_start_up(8_000_000);
    let busy = devices(&trace);
    let ledgers: Vec<Ledger> = busy.iter().map(|busy| ledger(&trace, busy, None, &|| false)).collect();
    let phases = phases(&trace, &|| false);
    let measured = |trace, busy, ledgers| Measured {
        trace,
        steps: None,
        busy,
        ledgers,
        clusters: &[],
        phases: &phases,
        range: None,
        run: RunFacts::default(),
    };
    let window = measured(&trace, &busy, &ledgers).window(&busy[0], &ledgers[0]).unwrap();
    // Until softmax, the last kernel of the loop, runs first.
    assert_eq!((window.basis, window.time.start), (Basis::AfterStartUp, 8_510_000));
    assert_eq!(window.start_up(), Some(TimeRange { start: 0, end: 8_510_000 }));
    let verdicts = verdicts(&measured(&trace, &busy, &ledgers), &Thresholds::default(), &|| false);
    assert!(!found(&verdicts).iter().any(|hit| matches!(hit.0, Rule::ModuleLoad | Rule::ExposedCopies)));
    // Too short to be told.
    let trace = with_start_up(400_000);
    let busy = devices(&trace);
    let ledgers: Vec<Ledger> = busy.iter().map(|busy| ledger(&trace, busy, None, &|| false)).collect();
    let window = measured(&trace, &busy, &ledgers).window(&busy[0], &ledgers[0]).unwrap();
    assert_eq!((window.basis, window.time), (Basis::Work, busy[0].window));
}
