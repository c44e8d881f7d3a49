//! The steps of every real trace, each judged by a person from its names and kernels.

use lacuna::analysis::memory;
use lacuna::analysis::steps::{Steps, steps};

use super::support::{name, read, real};

/// By the start of the file's name what is right; files that are not here have no steps.
const EXPECTED: [(&str, &str); 25] = [
    ("AMD-AGI_TraceLens__h100-Qwen", "1 by ProfilerStep"),
    // One step of the profiler around an evaluation of six batches.
    ("AMD-AGI_TraceLens__h100-google_owlv2", "4 by enumerate(DataLoader)#, but 1 by ProfilerStep"),
    ("AMD-AGI_TraceLens__inference-xdit", "1 by ProfilerStep"),
    ("AMD-AGI_TraceLens__mi300-ddp_resnet18", "4 by Optimizer.step#SGD.step"),
    ("AMD-AGI_TraceLens__mi300-resnet_act", "3 by ProfilerStep"),
    ("facebookresearch_HolisticTraceAnalysis__05cd72", "5 by ProfilerStep"),
    ("facebookresearch_HolisticTraceAnalysis__928583", "1 by ProfilerStep"),
    ("facebookresearch_HolisticTraceAnalysis__a4a6c2", "1 by ProfilerStep"),
    ("facebookresearch_HolisticTraceAnalysis__amd_trace", "2 by ProfilerStep"),
    ("facebookresearch_HolisticTraceAnalysis__df_index", "5 by ProfilerStep"),
    ("facebookresearch_HolisticTraceAnalysis__distributed_info", "1 by ProfilerStep"),
    ("facebookresearch_HolisticTraceAnalysis__nccl_parser", "3 by ProfilerStep"),
    ("facebookresearch_HolisticTraceAnalysis__ns_resolution", "5 by ProfilerStep"),
    ("facebookresearch_HolisticTraceAnalysis__timeline_analysis", "2 by ProfilerStep"),
    ("facebookresearch_HolisticTraceAnalysis__trace_diff", "6 by ProfilerStep"),
    ("facebookresearch_HolisticTraceAnalysis__trace_filter", "2 by ProfilerStep"),
    ("facebookresearch_HolisticTraceAnalysis__with_gpu_user", "4 by Optimizer.step#SGD.step"),
    ("facebookresearch_param__dlrm", "1 by ProfilerStep"),
    ("facebookresearch_param__linear", "39 by Optimizer.step#SGD.step"),
    ("pytorch_kineto__2d19c6", "6 by ProfilerStep"),
    ("pytorch_kineto__resnet50", "6 by ProfilerStep"),
    ("generated_torch2.15.0__transformer", "3 by ProfilerStep"),
    // Frames of an inference that runs in a loop.
    ("YoonKyonghwan", "135 by ranges"),
    ("jsun-012", "5 by ranges named Warm-up Step #"),
    // Ten updates by AdamW, each in two kernels, a copy and a memset.
    ("zx3xyy_assignment2-systems__1c3e00", "10 by repetition every 4 device operations"),
];

/// What was found, in short.
fn said<B: Copy + Into<i64>>(found: Option<&Steps<B>>) -> String {
    let Some(found) = found else { return "none".to_owned() };
    let other = found.disagreement.as_ref().map(|(source, n)| format!(", but {n} by {}", source.label()));
    format!("{} by {}{}", found.len(), found.source.label(), other.unwrap_or_default())
}

#[test]
fn steps_of_real_traces_are_those_a_person_sees() {
    let mut wrong = Vec::new();
    for folder in ["A_kineto", "A_kineto_generated_cpu", "A_chrome", "B_sqlite", "B_sqlite_exported_here", "C_pickle"] {
        for path in real(folder) {
            let Ok(traces) = read(&path) else { continue };
            let file = name(&path);
            let expected =
                EXPECTED.iter().find(|(start, _)| file.starts_with(start)).map_or("none", |expected| expected.1);
            // A solver: each iteration is a kernel, a reduction and copies to and from the host.
            let expected = if file.contains("jacobi_report") { "1002 by repetition every 5" } else { expected };
            for trace in &traces {
                let found = steps(trace, &|| false);
                let mut all = vec![said(found.as_ref())];
                for history in &trace.memories {
                    let found = memory::steps::steps(trace, history, &|| false);
                    all.push(said(found.as_ref()));
                }
                let is_right = |said: &String| expected.split(", ").all(|part| said.contains(part));
                if !all.iter().all(is_right) {
                    wrong.push(format!("{file}: {all:?} instead of {expected}"));
                }
                assert!(found.is_none_or(|found| {
                    let tile = |pair: &[lacuna::model::TimeRange]| pair[0].end <= pair[1].start;
                    found.times.windows(2).all(tile) && found.used.end <= found.len()
                }));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
