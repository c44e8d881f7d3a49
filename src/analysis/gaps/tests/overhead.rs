//! Overhead of the profiler, of no thread or of one.

use super::*;
use crate::model::Format;

#[test]
fn the_profilers_own_overhead_has_a_class_and_is_a_trigger() {
    let overhead = ("profiler", SliceKind::Overhead, "CUDA profiling data flush overhead", 150, 900, 0);
    let init = ("profiler", SliceKind::Overhead, "TLS allocation", 100, 150, 0);
    let trace = builder(&with_gap(&[("main", OP, "aten::add", 90, 990, 0), overhead, init])).finish();
    let ledger = ledger_of(&trace, None);
    let found: Vec<_> = parts(&trace, &ledger, 0).into_iter().map(|part| (part.0, part.1)).collect();
    assert_eq!(found, [("cpu_op", 50), ("profiler", 750), ("cpu_op", 90), ("launch_latency", 10)]);
    assert_eq!(ledger.gap(0).trigger, Some(Trigger::Profiler));
}

#[test]
fn a_moment_of_the_profilers_makes_no_gap() {
    let trigger = |end| {
        let overhead = ("profiler", SliceKind::Overhead, "CUDA profiling data flush overhead", 150, end, 0);
        ledger_of(&builder(&with_gap(&[("main", OP, "aten::add", 90, 990, 0), overhead])).finish(), None).gap(0).trigger
    };
    assert_eq!([200, 900].map(trigger), [None, Some(Trigger::Profiler)]);
}

/// The parts of a gap in which the launching thread runs an operator, with rows of overhead of an nsys export.
fn nsys_parts(overhead: &[Event<'_>]) -> (Vec<(&'static str, i64, String)>, Option<Trigger>) {
    let mut builder = builder(&with_gap(&[&[("main", OP, "aten::add", 90, 990, 0)], overhead].concat()));
    builder.info.format = Format::Nsys;
    let trace = builder.finish();
    let ledger = ledger_of(&trace, None);
    (parts(&trace, &ledger, 0), ledger.gap(0).trigger)
}

#[test]
fn overhead_of_a_thread_is_a_part_of_what_that_thread_does() {
    let overhead = |thread, name| (thread, SliceKind::Overhead, name, 150, 900, 0);
    let latency = ("launch_latency", 10, "cudaLaunchKernel".to_owned());
    for (name, class) in [
        ("dlopen(libcuda.so.1)", "module_load"),
        ("CUDA profiling initialization", "profiler"),
        ("CUPTI Resource Management", "profiler"),
    ] {
        let op = |us| ("cpu_op", us, "aten::add".to_owned());
        let (found, trigger) = nsys_parts(&[overhead("main", name), ("main", OS, "open64", 200, 300, 0)]);
        assert_eq!(found, [op(50), (class, 750, name.to_owned()), op(90), latency.clone()]);
        assert_eq!(trigger, (class == "profiler").then_some(Trigger::Profiler));
        let (found, trigger) = nsys_parts(&[overhead("other", name)]);
        assert_eq!((found, trigger), (vec![op(890), latency.clone()], None), "{name} of another thread");
    }
    // nsys counts as busy what it takes to write its data, whoever does it (F1).
    for thread in ["main", "other"] {
        let (found, trigger) = nsys_parts(&[overhead(thread, "CUDA profiling data flush overhead")]);
        assert_eq!(found[1].0, "profiler");
        assert_eq!((found[1].1, trigger), (750, Some(Trigger::Profiler)), "{thread}");
    }
}
