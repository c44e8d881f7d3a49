//! Findings about a slow host: a few slow places or many small ones, new shapes, and the time
//! after a synchronization.

use super::each_rule::{CALL, Event, LATENCY, STEPS, linked};
use super::*;

const OP: SliceKind = SliceKind::Operator;
const PYTHON: SliceKind = SliceKind::PythonFunction;
/// Where the gap of each step begins.
const START: TimeNs = 4_000_000;
const MS: TimeNs = 1_000_000;

#[test]
fn few_slow_places_are_known_from_many_small_ones() {
    let slow = |n: i64| {
        // A millisecond in so many operators.
        let dur = MS / n;
        let mut step: Vec<Event<'_>> = vec![
            ("stream 7", KERNEL, "a", 0, START, 0),
            ("main", CALL, "cudaLaunchKernel", START + MS, START + MS + 1_000, 1),
            ("stream 7", KERNEL, "b", START + MS + LATENCY, STEP, 1),
            ("main", CALL, "cudaLaunchKernel", MS, MS + 1_000, 50),
            ("stream 8", KERNEL, "c", 2 * MS, 2 * MS + 500_000, 50),
        ];
        step.extend((0..n).map(|i| ("main", OP, "aten::add", START + dur * i, START + dur * (i + 1), 0)));
        let verdicts = judged(&linked(&step).finish(), None);
        let hit = of(&verdicts, Rule::HostBound).unwrap();
        assert_eq!(hit.amount, 8 * MS);
        hit.shares.slow_ns
    };
    assert_eq!([slow(1), slow(10), slow(20)], [8 * MS, 8 * MS, 0]);
}

#[test]
fn names_are_those_that_have_a_part_of_the_time_that_counts() {
    // A function in pieces of 50 us around operators of 2 us each, and other operators.
    let names = |others: TimeNs| {
        let mut step: Vec<Event<'_>> = vec![
            ("stream 7", KERNEL, "a", 0, START, 0),
            ("main", PYTHON, "train.py(143): step", START, START + MS - others, 0),
            ("main", OP, "aten::add", START + MS - others, START + MS, 0),
            ("main", CALL, "cudaLaunchKernel", START + MS, START + MS + 1_000, 1),
            ("stream 7", KERNEL, "b", START + MS + LATENCY, STEP, 1),
            ("main", CALL, "cudaLaunchKernel", MS, MS + 1_000, 50),
            ("stream 8", KERNEL, "c", 2 * MS, 2 * MS + 500_000, 50),
        ];
        step.extend((1..18).map(|i| ("main", OP, "aten::view", START + 52_000 * i - 2_000, START + 52_000 * i, 0)));
        let verdicts = judged(&linked(&step).finish(), None);
        let hit = of(&verdicts, Rule::HostBound).unwrap();
        assert_eq!((hit.sites.len(), hit.shares.slow_ns), (0, 0), "no long stretch");
        hit.names.clone()
    };
    // The function is called `step`, which is not a range of one. The views take 34 us.
    assert_eq!(names(MS / 20), ["train.py(143): step", "aten::add"]);
    assert_eq!(names(MS / 20 - 1), ["train.py(143): step"]);
}

#[test]
fn a_slow_place_is_named_with_what_called_it() {
    let step = [
        ("stream 7", KERNEL, "a", 0, START, 0),
        ("main", PYTHON, "train.py(50): augment", START, START + MS, 0),
        ("main", OP, "aten::mul", START, START + MS, 0),
        ("main", CALL, "cudaLaunchKernel", START + MS, START + MS + 1_000, 1),
        ("stream 7", KERNEL, "b", START + MS + LATENCY, STEP, 1),
        ("main", CALL, "cudaLaunchKernel", MS, MS + 1_000, 50),
        ("stream 8", KERNEL, "c", 2 * MS, 2 * MS + 500_000, 50),
    ];
    let verdicts = judged(&linked(&step).finish(), None);
    let [call, operator, frame] = ["aten::mul", "", "train.py(50): augment"].map(str::to_owned);
    assert_eq!(of(&verdicts, Rule::HostBound).unwrap().sites, [CallSite { call, operator, frame }]);
}

#[test]
fn what_follows_a_synchronization_is_named_and_slowed_by_the_recording() {
    // The host waits until the gap begins, then writes for 600 us and runs operators for the rest of 1 ms.
    let found = |writes: TimeNs, (frames, from): (i64, TimeNs)| {
        let mut step: Vec<Event<'_>> = vec![
            ("main", CALL, "cudaLaunchKernel", 0, 1_000, 2),
            ("stream 7", KERNEL, "a", 2_000, START, 2),
            ("main", PYTHON, "train.py(90): save", 5_000, START + MS + 50_000, 0),
            ("main", CALL, "cudaDeviceSynchronize", 10_000, START, 0),
            ("main", PYTHON, "<method 'write' of '_io.BufferedWriter' objects>", START, START + writes, 0),
            ("main", CALL, "cudaLaunchKernel", START + MS, START + MS + 1_000, 1),
            ("stream 7", KERNEL, "b", START + MS + LATENCY, STEP + 2_000, 1),
        ];
        let n = (MS - writes) / 20_000;
        let op = |i: i64| ("main", OP, "aten::add", START + writes + 20_000 * i, START + writes + 20_000 * (i + 1), 0);
        step.extend((0..n).map(op));
        step.extend((0..frames).map(|i| ("main", PYTHON, "a.py(1): f", from + 500 * i, from + 500 * i + 300, 0)));
        judged(&linked(&step).finish(), None)
    };
    let verdicts = found(600_000, (600, START + 600_000));
    let hit = of(&verdicts, Rule::Synchronization).unwrap();
    assert_eq!((hit.amount, hit.shares.after_ns), (8 * (MS + LATENCY), 8 * (MS + LATENCY)));
    let site = CallSite {
        call: "<method 'write' of '_io.BufferedWriter' objects>".to_owned(),
        operator: String::new(),
        frame: "train.py(90): save".to_owned(),
    };
    assert_eq!(hit.after, Some((site, 8 * 600_000)));
    let verdicts_of_operators = found(400_000, (0, 0));
    assert_eq!(of(&verdicts_of_operators, Rule::Synchronization).unwrap().after, None, "less than half");
    // While the host waits for the device, what is recorded costs nothing.
    assert_eq!(of(&found(600_000, (600, START - MS)), Rule::Recording), None);
    // Of 601 frames and 20 operators a step; at most all of the time but that of the write.
    let hit = of(&verdicts, Rule::Recording).unwrap();
    let ns = 8 * (500 * 601 + 3_000 * 20);
    let most_ns = Some(8 * (700 + 400_000 + LATENCY));
    assert_eq!(hit.recording, Some(RecordingCost { frames: 8 * 602, operators: 8 * 20, ns, most_ns }));
    assert_eq!(hit.amount, ns);
}

/// Ten steps of seven slices, in each of which the host runs an operator for some time while one stream waits.
fn one_operator_a_step(operator: &str, dur: impl Fn(i64) -> TimeNs) -> TraceBuilder {
    let mut events = Vec::new();
    let mut correlation = Vec::new();
    let names: Vec<String> = (0..STEPS).map(|i| format!("ProfilerStep#{i}")).collect();
    for (i, name) in (0..).zip(&names) {
        let at = STEP * i;
        let end = at + START + dur(i);
        events.extend([
            ("main", NOTE, name.as_str(), at, at + STEP),
            ("stream 7", KERNEL, "a", at, at + START),
            ("main", OP, operator, at + START, end),
            ("main", CALL, "cudaLaunchKernel", end, end + 1_000),
            ("stream 7", KERNEL, "b", end + LATENCY, at + STEP),
            ("main", CALL, "cudaLaunchKernel", at + MS, at + MS + 1_000),
            ("stream 8", KERNEL, "c", at + 2 * MS, at + 2 * MS + 500_000),
        ]);
        let id = 10 * i as u32;
        correlation.extend([0, 0, 0, id + 1, id + 1, id + 2, id + 2]);
    }
    let mut builder = TraceBuilder::from_slices(&events);
    builder.slices[0].correlation = correlation;
    builder
}

/// Ten steps in which the host runs `aten::conv2d` for 100 us, or in some of them for as long as is given, with shapes;
/// (idle time in slow calls with new shapes, their number, operator, shapes).
fn new_shapes(slow: &[(i64, TimeNs)], shapes: impl Fn(i64) -> &'static str) -> (i64, u64, String, String) {
    let dur = |i: i64| slow.iter().find(|slow| slow.0 == i).map_or(100_000, |slow| slow.1);
    let mut builder = one_operator_a_step("aten::conv2d", dur);
    for i in 0..STEPS {
        let text = builder.strings.intern(shapes(i));
        builder.set_facts(7 * i as usize + 2, SliceFacts { shapes: text, ..Default::default() });
    }
    let verdicts = judged(&builder.finish(), None);
    let found = of(&verdicts, Rule::HostBound).map(|hit| hit.new_shapes.clone()).unwrap_or_default();
    (found.total_ns, found.calls, found.operator, found.shapes)
}

#[test]
fn operators_are_slow_where_a_shape_is_new_to_them() {
    let none = (0, 0, String::new(), String::new());
    let of_two = |i: i64| if i == 4 { "[[8, 3, 7, 7]]" } else { "[[8, 3, 32, 32]]" };
    let conv = |ns, calls, shapes: &str| (ns, calls, "aten::conv2d".to_owned(), shapes.to_owned());
    // Eight steps count; five times the usual 100 us are slow.
    assert_eq!(new_shapes(&[(4, 5 * MS)], of_two), conv(5 * MS, 1, "[[8, 3, 7, 7]]"));
    assert_eq!(new_shapes(&[(4, 500_000), (5, 4 * MS)], of_two), conv(500_000, 1, "[[8, 3, 7, 7]]"));
    assert_eq!(new_shapes(&[(4, 499_999), (5, 4 * MS)], of_two), none);
    // The same shape is slow once more: not because it is new.
    assert_eq!(new_shapes(&[(5, 5 * MS)], of_two), none);
    // Of two new shapes the one with more time is named.
    let of_three =
        |i: i64| ["[[8, 3, 32, 32]]", "[[1]]", "[[2]]"][[3, 6].iter().position(|&k| k == i).map_or(0, |at| at + 1)];
    assert_eq!(new_shapes(&[(3, 2 * MS), (6, 3 * MS)], of_three), conv(5 * MS, 2, "[[2]]"));
    // No call repeats a shape: nothing is usual.
    const ALL: [&str; 10] = ["[0]", "[1]", "[2]", "[3]", "[4]", "[5]", "[6]", "[7]", "[8]", "[9]"];
    assert_eq!(new_shapes(&[(4, 5 * MS)], |i| ALL[i as usize]), none);
}

#[test]
fn what_the_recorder_took_is_no_part_of_what_ending_a_cause_gains() {
    // A millisecond of the host's own work, with so many frames, one a microsecond.
    let found = |n: i64| {
        let mut step: Vec<Event<'_>> = vec![
            ("stream 7", KERNEL, "a", 0, START, 0),
            ("main", OP, "aten::add", 500_000, 600_000, 0),
            ("main", PYTHON, "train.py(1): step", START, START + MS, 0),
            ("main", CALL, "cudaLaunchKernel", START + MS, START + MS + 1_000, 1),
            ("stream 7", KERNEL, "b", START + MS + LATENCY, STEP, 1),
            ("main", CALL, "cudaLaunchKernel", MS, MS + 1_000, 50),
            ("stream 8", KERNEL, "c", 2 * MS, 2 * MS + 500_000, 50),
        ];
        let f = |i: i64| ("main", PYTHON, "train.py(2): f", START + 1_000 * i, START + 1_000 * i + 500, 0);
        step.extend((1..=n).map(f));
        let verdicts = judged(&linked(&step).finish(), None);
        let hit = of(&verdicts, Rule::HostBound).unwrap();
        assert_eq!(hit.amount, 8 * MS, "the time is as recorded");
        (hit.ceiling_ns_per_step.unwrap(), hit.recorder_ns)
    };
    let taken = 500 * 601 + 3_000;
    // A host without that operator is ahead, and the latency of the launch costs nothing.
    assert_eq!(
        found(600),
        (MS + LATENCY - taken, taken),
        "with the frame around them, and the operator while the device worked"
    );
    assert_eq!(found(0), (MS + LATENCY, 0), "eight frames in all cost nothing that counts");
}

#[test]
fn a_step_that_takes_longer_counts_in_the_bound_and_is_told_apart() {
    // The host works for 1 ms in each step, and in one of those that count for longer.
    let found = |long: TimeNs| {
        let builder = one_operator_a_step("aten::add", |i| if i == 4 { long } else { MS });
        let verdicts = judged(&builder.finish(), None);
        let hit = of(&verdicts, Rule::HostBound).unwrap();
        assert_eq!(hit.amount, 7 * MS + long);
        (hit.ceiling_ns_per_step.unwrap(), hit.usual_ns_per_step)
    };
    assert_eq!(found(3 * MS), (10 * MS / 8, Some(MS)));
    // A cause that has most of its time in one step is no noise around the others.
    assert_eq!(found(5 * MS), (12 * MS / 8, None));
}
