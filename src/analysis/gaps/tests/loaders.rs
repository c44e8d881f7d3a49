//! Data that another thread loads, and values that are read back from host memory.

use super::silence::parts_of_long_gap;
use super::*;

/// Microseconds of data loading in a gap from 100 to 9,990 µs, and what loads.
fn loaded(events: &[Event<'_>]) -> (i64, Vec<String>) {
    let (us, names): (Vec<i64>, Vec<String>) = parts_of_long_gap(events)
        .into_iter()
        .filter(|part| part.0 == "data_loading")
        .map(|part| (part.1, part.2))
        .unzip();
    (us.iter().sum(), names)
}

#[test]
fn a_wait_for_a_queue_is_for_the_thread_that_fills_it() {
    const LOADS: &str = "dataset.py(12): __getitem__";
    let load = |start, end| ("loader", PYTHON, LOADS, start, end, 0);
    let waits = [
        ("main", PYTHON, "queue.py(154): get", 50, 9_900, 0),
        ("main", PYTHON, "<built-in method acquire of _thread.lock object at 0x7f>", 50, 9_900, 0),
        ("main", OS, "pthread_cond_wait", 50, 9_900, 0),
    ];
    for wait in waits {
        assert_eq!(loaded(&[wait, load(2_000, 9_800)]), (7_800, vec![LOADS.to_owned()]), "{}", wait.2);
        // A quarter of the wait is 2,462 µs.
        assert_eq!(loaded(&[wait, load(200, 7_500)]).0, 7_300);
        assert_eq!(loaded(&[wait, load(200, 7_400)]).0, 0, "it goes on waiting for something else");
        assert_eq!(loaded(&[wait, load(5_000, 9_950)]).0, 0, "nothing is ready");
        assert_eq!(loaded(&[wait]).0, 0);
    }
    let backward = ("main", PYTHON, "torch/autograd/graph.py(9): _engine_run_backward", 50, 9_900, 0);
    assert_eq!(loaded(&[backward, load(2_000, 9_800)]).0, 0, "it waits for autograd");
    assert_eq!(loaded(&[("main", OP, "aten::mm", 50, 9_900, 0), load(2_000, 9_800)]).0, 0, "it works");
}

#[test]
fn the_loop_of_a_loader_waits_as_well() {
    let events = [
        ("main", OS, "pthread_cond_wait", 60, 9_960, 0),
        ("loader", NOTE, "data_loading", 0, 20_000, 0),
        ("loader", NOTE, "load_batch", 1_500, 4_000, 0),
        ("loader", OS, "futex", 2_000, 3_000, 0),
        ("loader", NOTE, "load_batch", 7_000, 9_500, 0),
    ];
    assert_eq!(loaded(&events).0, 500 + 1_000 + 2_500);
}

#[test]
fn a_value_in_host_memory_is_read_without_waiting() {
    // Theta is 2 µs here: two kernels in a row that were launched ahead.
    let class = |end: i64| {
        let parts = host_parts(&[
            ("main", CALL, "cudaLaunchKernel", 5, 6, 21),
            ("main", CALL, "cudaLaunchKernel", 6, 7, 22),
            ("stream 8", KERNEL, "a", 20, 50, 21),
            ("stream 8", KERNEL, "b", 52, 60, 22),
            ("main", OP, "aten::select", 110, 980, 0),
            ("main", OP, "aten::item", 200, end, 0),
        ]);
        parts.into_iter().find(|part| part.2 == "aten::item").map(|part| part.0)
    };
    assert_eq!([class(203), class(209), class(210)].map(Option::unwrap), ["cpu_op", "cpu_op", "sync"]);
}
