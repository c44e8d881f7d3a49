//! Where the host is while a device waits.

use super::*;
use crate::analysis::rules::tests::judged;
use crate::model::{SliceKind, TraceBuilder};

/// The paragraph of steps of 100 ms, in the first `loads` ms of which the next batch is loaded, for `inner` of them by an
/// operator; in the others `kernel` runs, for which the host waits.
fn text([loads, inner]: [i64; 2], kernel: &str) -> String {
    let names: Vec<String> = (0..8).map(|i| format!("ProfilerStep#{i}")).collect();
    let (mut slices, mut correlation) = (Vec::new(), Vec::new());
    for (i, name) in (0..).zip(&names) {
        let at = 100 * MS * i;
        let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        slices.push(("main", SliceKind::Annotation, name.as_str(), at, at + 100 * MS));
        slices.push(("main", SliceKind::Annotation, loader, at, at + loads * MS));
        slices.push(("main", SliceKind::Operator, "decode_jpeg", at + MS, at + (1 + inner) * MS));
        slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at + loads * MS, at + loads * MS + 5_000));
        slices.push(("stream 7", SliceKind::Kernel, kernel, at + loads * MS + 10_000, at + 100 * MS));
        slices.push(("main", SliceKind::Runtime, "cudaStreamSynchronize", at + loads * MS + 6_000, at + 100 * MS));
        correlation.extend([0, 0, 0, i as u32 + 1, i as u32 + 1, 0]);
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    let trace = builder.finish();
    let verdicts = judged(&trace, None);
    paragraphs(&[Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts }]).remove(0)
}

#[test]
fn what_most_of_a_wait_is_spent_in_is_named_unless_it_only_repeats_the_cause() {
    let named = text([60, 50], "gemm");
    assert!(named.contains("It waits most for data: 60.0 %, most of it with the host in decode_jpeg. "), "{named}");
    let repeated = text([60, 1], "gemm");
    assert!(repeated.contains("It waits most for data: 60.0 %. "), "{repeated}");
}

/// Kernels cannot end, as a wait can: they are held against it by what they save if they become twice as fast.
#[test]
fn faster_kernels_come_before_a_wait_only_if_half_of_them_is_more() {
    let most = |loads: i64| {
        let text = text([loads, 1], "ampere_sgemm_128x64_tn");
        text.split_once("What would help most: ").unwrap().1.to_owned()
    };
    let [short, long] = [20, 40].map(most);
    assert!(short.contains("; this saves less than the 79.990 ms of 100.000 ms per step that they take"), "{short}");
    assert!(long.contains("which saves at most 40.000 ms of 100.000 ms per step"), "{long}");
}

#[test]
fn a_step_that_begins_with_loading_before_any_work_is_told_by_it() {
    let mut slices = vec![
        ("main", SliceKind::Annotation, "ProfilerStep#0", 0, 10 * MS),
        ("main", SliceKind::Annotation, "load_batch", 0, 6 * MS),
        ("main", SliceKind::Runtime, "cudaLaunchKernel", 6 * MS, 6 * MS + 4_000),
    ];
    let name = "ampere_sgemm_128x64_tn";
    let kernel =
        |i: i64| ("stream 7", SliceKind::Kernel, name, 6 * MS + 5_000 + 100_000 * i, 6 * MS + 100_000 * (i + 1));
    slices.extend((0..40).map(kernel));
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = [vec![0; 2], vec![1; 41]].concat();
    let trace = builder.finish();
    let verdicts = judged(&trace, None);
    let text = paragraphs(&[Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts }]).remove(0);
    let help = "What would help most: not to wait for data, which the host loads for 6.000 ms of 10.000 ms per step, \
                outside of the judged time";
    assert!(text.ends_with(help), "{text}");
}

#[test]
fn time_between_the_kernels_of_a_graph_is_told_as_that() {
    use crate::analysis::rules::tests::each_rule::linked;
    let mut step = vec![("main", SliceKind::Runtime, "cudaGraphLaunch", 0, 5_000, 1)];
    step.extend((0..10).map(|i| ("stream 7", SliceKind::Kernel, "gemm", MS * i + 10_000, MS * i + 900_000, 1)));
    let trace = linked(&step).finish();
    let verdicts = judged(&trace, None);
    let text = paragraphs(&[Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts }]).remove(0);
    assert!(text.contains("lies between the kernels of CUDA graphs"), "{text}");
}
