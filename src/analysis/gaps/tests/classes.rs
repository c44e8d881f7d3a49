//! Which class explains what the host did in a gap.

use super::*;

/// What happens in a gap, and the class and the name that explain it.
const DEFINITE: [(&[Event<'_>], &str, &str); 14] = [
    (&[("main", CALL, "cudaDeviceSynchronize", 100, 990, 9)], "sync", "cudaDeviceSynchronize"),
    (
        &[("main", CALL, "cuStreamSynchronize_ptsz", 50, 990, 9), ("main", OS, "ioctl", 60, 990, 0)],
        "sync",
        "cuStreamSynchronize_ptsz",
    ),
    (
        &[
            ("main", NOTE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 90, 990, 0),
            ("main", OP, "aten::stack", 95, 990, 0),
        ],
        "data_loading",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    ),
    (
        &[
            ("main", NOTE, "load_batch", 90, 990, 0),
            ("main", OP, "aten::to", 95, 990, 0),
            ("main", OP, "aten::copy_", 95, 990, 0),
        ],
        "data_loading",
        "load_batch",
    ),
    (
        &[("main", OP, "aten::copy_", 90, 990, 0), ("main", CALL, "cudaMemcpyAsync", 90, 990, 9)],
        "copy",
        "cudaMemcpyAsync",
    ),
    (&[("main", OP, "aten::empty", 90, 990, 0), ("main", CALL, "hipMalloc", 90, 990, 0)], "allocator", "hipMalloc"),
    (
        &[
            ("main", PYTHON, "torch/_dynamo/convert_frame.py(1): _compile", 90, 990, 0),
            ("main", OP, "aten::mm", 90, 990, 0),
        ],
        "module_load",
        "torch/_dynamo/convert_frame.py(1): _compile",
    ),
    (
        &[("main", CALL, "cudaLaunchKernel", 90, 990, 8), ("main", SliceKind::Driver, "cuLibraryLoadData", 91, 990, 8)],
        "module_load",
        "cuLibraryLoadData",
    ),
    (
        &[
            ("main", PYTHON, "train.py(3): main", 90, 990, 0),
            ("main", PYTHON, "<built-in function collect>", 90, 990, 0),
        ],
        "gc",
        "<built-in function collect>",
    ),
    (
        &[("main", OP, "c10d::allreduce_", 90, 990, 0), ("main", OP, "record_param_comms", 90, 990, 0)],
        "collective",
        "c10d::allreduce_",
    ),
    (&[("main", OP, "aten::linear", 90, 990, 0), ("main", OP, "aten::t", 90, 990, 0)], "cpu_op", "aten::t"),
    (&[("main", PYTHON, "train.py(3): main", 90, 990, 0)], "python", "train.py(3): main"),
    (&[("main", OS, "sem_wait", 90, 990, 0)], "blocked", "sem_wait"),
    (&[("main", NOTE, "forward", 90, 990, 0)], "unknown", "forward"),
];

#[test]
fn the_innermost_definite_slice_decides() {
    for (events, class, name) in DEFINITE {
        let found = host_parts(events);
        let last = found.last().unwrap();
        assert_eq!((last.0, last.2.as_str()), (class, name), "{found:?}");
        assert!(found.iter().filter(|part| part.0 != class).map(|part| part.1).sum::<i64>() <= 10, "{found:?}");
    }
    assert_eq!(host_parts(&[]), [("unknown", 890, String::new())]);
}

#[test]
fn operators_that_copy_or_read_are_judged_by_the_calls_inside() {
    let class = |op: &'static str, call: &'static str, end: i64| {
        let events = [
            ("main", OP, "aten::linear", 90, 990, 0),
            ("main", OP, op, 200, end, 0),
            ("main", CALL, call, 200, 201, 9),
        ];
        let events = if call.is_empty() { &events[..2] } else { &events };
        let parts = host_parts(events);
        parts.iter().filter(|part| part.2 == op).map(|part| part.0).next().unwrap().to_owned()
    };
    assert_eq!(class("aten::to", "cudaMemcpyAsync", 300), "copy");
    assert_eq!(class("aten::to", "cudaLaunchKernel", 300), "cpu_op", "a cast");
    assert_eq!(class("aten::to", "", 300), "copy", "on the host");
    assert_eq!(class("aten::to", "", 202), "cpu_op", "nothing to do");
    assert_eq!(class("aten::item", "cudaStreamSynchronize", 300), "sync");
    assert_eq!(class("aten::item", "", 202), "cpu_op", "of a tensor on the host");
    // A batch may be trained on as well as loaded.
    let step = [("main", NOTE, "train_batch", 90, 2000, 0)];
    assert_eq!(host_parts(&step), [("unknown", 890, "train_batch".to_owned())]);
    assert_eq!(host_parts(&[("main", NOTE, "batch", 95, 985, 0)])[0].0, "unknown");
    assert_eq!(host_parts(&[("main", NOTE, "load_batch", 95, 985, 0)])[0].0, "data_loading");
}

#[test]
fn a_range_named_after_a_collective_is_one_where_no_operators_are_recorded() {
    let class = |others: &[Event<'static>]| {
        let mut events = vec![("main", NOTE, "## all2all grads ##", 90, 990, 0)];
        events.extend(others);
        let parts = host_parts(&events);
        let of_range = parts.iter().filter(|part| part.2.contains("all2all"));
        of_range.map(|part| part.0).next().map(str::to_owned)
    };
    assert_eq!(class(&[]).as_deref(), Some("collective"));
    let operator = ("main", OP, "aten::add", 10, 20, 0);
    assert_ne!(class(&[operator]).as_deref(), Some("collective"));
    assert_eq!(class(&[operator, ("main", OP, "c10d::alltoall_", 90, 990, 0)]), None, "its own name");
}

#[test]
fn the_thread_that_handed_over_explains_what_the_launching_one_does_not() {
    // Autograd's thread begins at 600 µs; until then the main thread worked on the loss.
    let events = [
        ("main", CALL, "cudaLaunchKernel", 0, 5, 1),
        ("main", OP, "aten::cross_entropy_loss", 90, 400, 0),
        ("main", PYTHON, "torch/autograd/graph.py(1): _engine_run_backward", 400, 2000, 0),
        ("autograd", OP, "MmBackward0", 600, 1000, 0),
        ("autograd", CALL, "cudaLaunchKernel", 990, 995, 2),
        ("stream 7", KERNEL, "first", 10, 100, 1),
        ("stream 7", KERNEL, "second", 1000, 1100, 2),
        // The main thread waits while autograd's thread works.
        ("autograd", OP, "AccumulateGrad", 1000, 1500, 0),
        ("main", CALL, "cudaLaunchKernel", 2010, 2015, 3),
        ("stream 7", KERNEL, "third", 2020, 2030, 3),
    ];
    let trace = builder(&events).finish();
    let ledger = ledger_of(&trace, None);
    let of = |gap| parts(&trace, &ledger, gap).into_iter().map(|part| (part.0, part.1)).collect::<Vec<_>>();
    assert_eq!(of(0), [("cpu_op", 300), ("python", 200), ("cpu_op", 390), ("launch_latency", 10)]);
    assert_eq!(of(1), [("cpu_op", 400), ("python", 500), ("unknown", 10), ("launch_latency", 10)]);
}

#[test]
fn a_range_of_the_user_without_launches_explains_its_time() {
    let range = |name| host_parts(&[("main", NOTE, name, 90, 980, 0)])[0].clone();
    for (name, class) in [
        ("tokenize", "cpu_op"),
        ("postprocess", "cpu_op"),
        ("iteration 7", "unknown"),
        ("ProfilerStep#3", "unknown"),
        ("backward", "unknown"),
    ] {
        assert_eq!(range(name), (class, 880, name.to_owned()), "{name}");
    }
    // One around the launches before and after says where, but not what.
    assert_eq!(host_parts(&[("main", NOTE, "block", 0, 1200, 0)])[0], ("unknown", 890, "block".to_owned()));
    let inside = [("main", NOTE, "tokenize", 90, 980, 0), ("main", PYTHON, "train.py(3): main", 0, 1200, 0)];
    assert_eq!(host_parts(&inside)[0].0, "python", "of the range nothing but its name is recorded");
}
