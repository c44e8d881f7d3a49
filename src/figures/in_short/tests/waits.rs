//! Where the host is while a device waits.

use super::*;
use crate::analysis::rules::tests::judged;
use crate::model::{SliceKind, TraceBuilder};

/// The paragraph of steps of 100 ms, in the first 60 ms of which the next batch is loaded: for `inner` of them by an
/// operator.
fn text(inner: i64) -> String {
    let names: Vec<String> = (0..8).map(|i| format!("ProfilerStep#{i}")).collect();
    let (mut slices, mut correlation) = (Vec::new(), Vec::new());
    for (i, name) in (0..).zip(&names) {
        let at = 100 * MS * i;
        let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        slices.push(("main", SliceKind::Annotation, name.as_str(), at, at + 100 * MS));
        slices.push(("main", SliceKind::Annotation, loader, at, at + 60 * MS));
        slices.push(("main", SliceKind::Operator, "decode_jpeg", at + MS, at + (1 + inner) * MS));
        slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at + 60 * MS, at + 60 * MS + 5_000));
        slices.push(("stream 7", SliceKind::Kernel, "gemm", at + 60 * MS + 10_000, at + 100 * MS));
        correlation.extend([0, 0, 0, i as u32 + 1, i as u32 + 1]);
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    let trace = builder.finish();
    let verdicts = judged(&trace, None);
    paragraphs(&[Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts }]).remove(0)
}

#[test]
fn what_most_of_a_wait_is_spent_in_is_named_unless_it_only_repeats_the_cause() {
    let named = text(50);
    assert!(named.contains("It waits most for data: 60.0 %, most of it with the host in decode_jpeg. "), "{named}");
    let repeated = text(1);
    assert!(repeated.contains("It waits most for data: 60.0 %. "), "{repeated}");
}
