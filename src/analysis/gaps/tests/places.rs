//! The operator and the frame that a gap and its parts lead to.

use super::*;

#[test]
fn a_synchronization_has_the_operator_and_the_frame_that_called_it() {
    let events = with_gap(&[
        ("main", PYTHON, "train.py(30): main", 0, 1200, 0),
        ("main", PYTHON, "torch/_tensor.py(3): item", 20, 120, 0),
        ("main", OP, "autograd::engine", 21, 119, 0),
        ("main", OP, "aten::item", 22, 118, 0),
        ("main", OP, "aten::_local_scalar_dense", 23, 117, 0),
        ("main", CALL, "cudaStreamSynchronize", 24, 110, 0),
    ]);
    let trace = builder(&events).finish();
    let sync = ledger_of(&trace, None).gap(0).trigger_slice.unwrap();
    let found = place_of_call(&trace, sync, &Near::none());
    let operator = found.operator.map(|slice| trace.slice_name(slice));
    assert_eq!((operator, found.frame), (Some("aten::item"), Some("train.py(30): main")));
}

#[test]
fn parts_lead_to_operator_and_frame() {
    let events = with_gap(&[
        ("main", PYTHON, "train.py(30): main", 0, 1200, 0),
        ("main", PYTHON, "/usr/lib/python3.11/json.py(3): load", 90, 990, 0),
        ("main", OP, "aten::linear", 300, 996, 0),
        ("main", OP, "aten::addmm", 400, 996, 0),
    ]);
    let trace = builder(&events).finish();
    let ledger = ledger_of(&trace, None);
    let gap = ledger.gap(0);
    let found: Vec<_> = ledger
        .parts(0)
        .map(|part| {
            let place = place(&trace, &ledger, &gap, &part, &Near::none());
            (part.class.key(), place.operator.map(|op| trace.slice_name(op)), place.frame)
        })
        .collect();
    let frame = Some("train.py(30): main");
    let expected = [
        ("python", None, frame),
        ("cpu_op", Some("aten::linear"), frame),
        ("cpu_op", Some("aten::addmm"), frame),
        ("launch_latency", Some("aten::addmm"), frame),
    ];
    assert_eq!(found, expected);
    let Coverage { operator_ns, frame_ns, work, launched } = ledger.coverage;
    assert_eq!((operator_ns, frame_ns, work, launched), (700_000, 900_000, 2, 2));
}

#[test]
fn work_of_a_graph_has_the_frame_of_its_launch_and_a_library_counts_where_no_program_is() {
    const LAUNCH: (&str, SliceKind, &str, i64, i64, u32) = ("main", CALL, "cudaGraphLaunch", 20, 30, 2);
    let at = |frames: &[Event<'_>]| {
        let mut events = vec![
            ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
            ("stream 7", KERNEL, "first", 10, 100, 1),
            ("main", PYTHON, "<built-in method replay of CUDAGraph object at 0x7f1>", 19, 31, 0),
            LAUNCH,
            ("stream 7", KERNEL, "node", 400, 500, 2),
            ("stream 7", KERNEL, "next node", 600, 700, 2),
        ];
        events.extend_from_slice(frames);
        let trace = builder(&events).finish();
        let ledger = ledger_of(&trace, None);
        let of = |index: usize| {
            let (gap, part) = (ledger.gap(index), ledger.parts(index).next().unwrap());
            let shown = slices_of_place(&trace, &ledger, &gap, &part).first().map(|&slice| trace.slice_name(slice));
            let frame = place(&trace, &ledger, &gap, &part, &Near::none()).frame.map(str::to_owned);
            assert_eq!(shown, frame.as_deref(), "what is shown is what is said");
            frame
        };
        let frames = [of(0), of(1)];
        assert_eq!(ledger.coverage.frame_ns, if frames[0].is_some() { 300_000 } else { 0 });
        frames
    };
    let both = |frame: &str| [Some(frame.to_owned()), Some(frame.to_owned())];
    let replay = ("main", PYTHON, "torch/cuda/graphs.py(88): replay", 16, 35, 0);
    let server = ("main", PYTHON, "vllm/v1/engine/core.py(7): step", 12, 40, 0);
    assert_eq!(at(&[]), [None, None], "a built-in function is no place");
    assert_eq!(at(&[server, replay]), both("torch/cuda/graphs.py(88): replay"));
    assert_eq!(at(&[("main", PYTHON, "serve.py(3): loop", 11, 50, 0), server, replay]), both("serve.py(3): loop"));
    // The call stack of a thread that does not launch is none of the launch.
    assert_eq!(at(&[("other", PYTHON, "serve.py(9): log", 0, 900, 0)]), [None, None]);
}
