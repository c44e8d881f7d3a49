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
