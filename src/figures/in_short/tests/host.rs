//! What the host of a recording without device work does.

use super::*;
use crate::analysis::rules::tests::judged;
use crate::model::{SliceKind, TraceBuilder};

#[test]
fn a_host_without_device_is_told_by_its_phases() {
    let (mut slices, mut at) = (Vec::new(), 0);
    let names = ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"];
    for (name, waits) in names.into_iter().zip([80, 80, 180, 80, 80]) {
        let mut push =
            |thread, kind, name, start, end| slices.push((thread, kind, name, at + start * MS, at + end * MS));
        push("main", SliceKind::Annotation, name, 0, 20 + waits);
        push("main", SliceKind::Annotation, "forward", 0, 10);
        push("main", SliceKind::Operator, "aten::mm", 0, 10);
        push("main", SliceKind::Annotation, "backward", 10, 20 + waits);
        push("gloo", SliceKind::Annotation, "gloo:all_reduce", 20, 20 + waits);
        at += (20 + waits) * MS;
    }
    let trace = TraceBuilder::from_slices(&slices).finish();
    let verdicts = judged(&trace, None);
    let of = Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts };
    let expected = "No device work was recorded. The host spends 85.0 % of the time in 3 steps communicating, 7.5 % in \
                    the forward pass and 7.5 % in the backward pass. ProfilerStep#3 takes 200.000 ms, the median step \
                    100.000 ms: it spends 100.000 ms more communicating. Most self time, of 30.000 ms in operators on \
                    one thread in 3 steps, 7.5 % of the time: aten::mm 100.0 %. No call stacks were recorded: \
                    with_stack=True in torch.profiler, or lacuna capture --stacks, shows which Python code calls these \
                    operators and what takes the rest of the time";
    assert_eq!(paragraphs(&[of]), [expected]);
}

#[test]
fn time_of_no_known_phase_is_told_with_its_function() {
    let (mut slices, mut at) = (Vec::new(), 0);
    let names = ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"];
    for (name, splits) in names.into_iter().zip([80, 80, 180, 80, 80]) {
        let mut push = |kind, name, start, end| slices.push(("main", kind, name, at + start * MS, at + end * MS));
        push(SliceKind::Annotation, name, 0, 20 + splits);
        push(SliceKind::PythonFunction, "train.py(7): split", 0, splits);
        push(SliceKind::Annotation, "forward", splits, 20 + splits);
        push(SliceKind::Operator, "aten::mm", splits, 20 + splits);
        at += (20 + splits) * MS;
    }
    let trace = TraceBuilder::from_slices(&slices).finish();
    let verdicts = judged(&trace, None);
    let of = Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts };
    let text = paragraphs(&[of]).remove(0);
    let expected = "85.0 % of the time in 3 steps in no known phase (nearly all of it in train.py(7): split) and 15.0 % \
                    in the forward pass. ProfilerStep#3 takes 200.000 ms, the median step 100.000 ms: it spends \
                    100.000 ms more in no known phase (nearly all of it in train.py(7): split). Most self time";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn calls_are_told_beside_operators_and_stacks_are_asked_for_where_time_is_left() {
    // Of 100 ms operators have 20, calls inside them most of the rest.
    let text = |freed: i64| {
        let slices = [
            ("main", SliceKind::Operator, "aten::relu", 0, 30 * MS),
            ("main", SliceKind::Runtime, "hipLaunchKernel", 10 * MS, 30 * MS),
            ("main", SliceKind::Runtime, "hipFree", 30 * MS, (30 + freed) * MS),
            ("main", SliceKind::Operator, "aten::add", 90 * MS, 100 * MS),
        ];
        let trace = TraceBuilder::from_slices(&slices).finish();
        let verdicts = judged(&trace, None);
        let of = Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts };
        paragraphs(&[of]).remove(0)
    };
    let told = text(60);
    let calls = "20.0 % of the time: aten::add 50.0 %, aten::relu 50.0 %. API calls take 80.000 ms, 80.0 % of the \
                 time: hipFree 75.0 %, hipLaunchKernel 25.0 %";
    assert!(told.ends_with(calls), "{told}");
    let told = text(30);
    assert!(told.contains("API calls take 50.000 ms, 50.0 % of the time"), "{told}");
    assert!(told.ends_with("calls these operators and what takes the rest of the time"), "{told}");
}

/// What is said of a recording.
fn text(slices: &[(&str, SliceKind, &str, i64, i64)]) -> Vec<String> {
    let trace = TraceBuilder::from_slices(slices).finish();
    let verdicts = judged(&trace, None);
    let of = Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts };
    paragraphs(&[of])
}

#[test]
fn a_recording_without_device_work_is_told_by_self_times() {
    let other = SliceKind::Other;
    // 90 + 60 of f, 100 + 40 of g, 10 of h.
    let functions = [
        ("main", other, "f (a.py:1)", 0, 200 * MS),
        ("main", other, "g (a.py:7)", 50 * MS, 160 * MS),
        ("main", other, "h (a.py:9)", 70 * MS, 80 * MS),
        ("second", other, "g (a.py:7)", 0, 40 * MS),
        ("second", other, "f (a.py:1)", 40 * MS, 100 * MS),
    ];
    let expected = "No device work was recorded. Most self time, of 300.000 ms on 2 threads together: f (a.py:1) 50.0 \
                    %, g (a.py:7) 46.7 %, h (a.py:9) 3.3 %";
    assert_eq!(text(&functions), [expected]);
    // When threads were on CPUs is not what they did.
    let on_cpu = ["main: on CPU", "second: on CPU"].map(|thread| (thread, other, "CPU 3", 0, 5 * MS));
    let recorder = ("main", SliceKind::Overhead, "CUDA profiling stop overhead", MS, 2 * MS);
    let only = text(&[on_cpu[0], on_cpu[1], recorder]);
    assert!(only[0].starts_with("No work was recorded, neither of a device nor of the host"), "{only:?}");
    assert!(only[0].contains("(2 threads, 2 times, 10.000 ms together in 5.000 ms). To see what takes"), "{only:?}");
    assert!(!text(&[on_cpu[0], functions[0]])[0].contains("CPU"));
    // A range is no operator, and on a CPU the backward pass runs inside the function that starts it.
    let (python, operator) = (SliceKind::PythonFunction, SliceKind::Operator);
    let code = [
        ("main", SliceKind::Annotation, "epoch", 0, 500 * MS),
        ("main", python, "train.py(3): main", 0, 100 * MS),
        ("main", operator, "aten::conv2d", 0, 75 * MS),
        ("main", python, "torch/autograd/graph.py(829): _engine_run_backward", 100 * MS, 200 * MS),
        ("main", python, "<built-in method run_backward>", 100 * MS, 200 * MS),
    ];
    let expected = "No device work was recorded. Most self time, of 200.000 ms in operators and Python functions on \
                    one thread, 40.0 % of the time: <built-in method run_backward> 50.0 %, aten::conv2d 37.5 %, \
                    train.py(3): main 12.5 %";
    assert_eq!(text(&code), [expected]);
    // It waits where another thread runs the backward pass.
    let engine = ("engine", operator, "autograd::engine::evaluate_function: MulBackward0", 120 * MS, 160 * MS);
    let expected = "Most self time, of 240.000 ms in operators and Python functions on 2 threads together: aten::conv2d \
                    31.2 %, autograd::engine::evaluate_function: MulBackward0 16.7 %, train.py(3): main 10.4 %; \
                    41.7 % is waiting (<built-in method run_backward> 41.7 %)";
    let told = text(&[&code[..], &[engine]].concat()).remove(0);
    assert!(told.ends_with(expected), "{told}");
}

#[test]
fn waits_are_told_with_who_waits() {
    let (other, python, operator) = (SliceKind::Other, SliceKind::PythonFunction, SliceKind::Operator);
    // Who sleeps is told where call stacks tell.
    let sleeping = [
        ("main", python, "main.py(4): load", 0, 90 * MS),
        ("main", python, "<built-in function sleep>", 0, 80 * MS),
        ("main", operator, "aten::mm", 90 * MS, 100 * MS),
    ];
    let expected = "No device work was recorded. Most self time, of 100.000 ms in operators and Python functions on \
                    one thread, 100.0 % of the time: 80.0 % is waiting (<built-in function sleep> 80.0 %, most in \
                    main.py(4): load); of the work aten::mm 10.0 %, main.py(4): load 10.0 %";
    assert_eq!(text(&sleeping), [expected]);
    // The function is one in which most of that wait is.
    let rarely = [
        ("main", python, "main.py(4): load", 0, 40 * MS),
        ("main", python, "<built-in function sleep>", 0, 40 * MS),
        ("main", python, "<built-in function sleep>", 40 * MS, 80 * MS),
        ("main", operator, "aten::mm", 80 * MS, 100 * MS),
    ];
    assert!(
        text(&rarely)[0].contains("80.0 % is waiting (<built-in function sleep> 80.0 %); of"),
        "{:?}",
        text(&rarely)
    );
    // What waits for most of the time comes first.
    let waits = [
        ("main", other, "f (a.py:1)", 0, 20 * MS),
        ("main", other, "time.sleep", 20 * MS, 80 * MS),
        ("second", other, "_thread.lock.acquire", 0, 20 * MS),
    ];
    let expected = "No device work was recorded. Most self time, of 80.000 ms on one thread, without a thread that \
                    does little but wait: 75.0 % is waiting (time.sleep 75.0 %); of the work f (a.py:1) 25.0 %";
    assert_eq!(text(&waits), [expected]);
    // Beside ranges of another thread, of which no function is known.
    let ranges = [
        ("main", python, "<built-in function sleep>", 20 * MS, 80 * MS),
        ("second", SliceKind::Annotation, "epoch", 0, 80 * MS),
    ];
    let told = text(&ranges).remove(0);
    assert!(told.contains("in Python functions on one thread, 75.0 % of the time: 100.0 % is waiting"), "{told}");
    let all = "No device work was recorded. Most self time, of 60.000 ms on one thread: 100.0 % is waiting (time.sleep \
               100.0 %)";
    assert_eq!(text(&waits[1..2]), [all]);
    assert_eq!(text(&[]), ["The file holds no events that could be shown: there is nothing to judge"]);
}
