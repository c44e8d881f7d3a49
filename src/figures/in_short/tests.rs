//! Paragraphs of jobs whose limit is known.

use super::*;
use crate::analysis::rules::Verdicts;
use crate::analysis::rules::tests::late_rank::{judged_together, rank};
use crate::model::Trace;

mod host;
mod partial;
mod ranks;
mod waits;

const MS: i64 = 1_000_000;

#[test]
fn a_job_comes_first_with_what_limits_it_and_ranks_that_are_alike_share_a_sentence() {
    // Rank 1 computes longer, and two others wait for it equally long.
    let traces = [rank(0, 4 * MS, 0), rank(1, 7 * MS, 0), rank(2, 4 * MS, 0)];
    let verdicts = judged_together(&traces);
    let judged: Vec<Judged<'_>> = traces
        .iter()
        .zip(&verdicts)
        .map(|(trace, verdicts)| Judged { trace, name: None, path: "", offset: 0, verdicts })
        .collect();
    let texts = paragraphs(&judged);
    assert_eq!(texts.len(), 3, "{texts:#?}");
    assert!(
        texts[0].starts_with(
            "Job of 3 ranks: devices are busy 100.0 % of the time in 8 steps. A judged step takes 10.000 ms"
        ),
        "{}",
        texts[0]
    );
    let late = "Rank 1 comes last to 8 of 8 judged collectives: each other rank waits for it on average 3.000 ms in \
                each of its steps; rank 1 itself waits for none";
    assert!(texts[0].ends_with(late), "{}", texts[0]);
    let help = "rank 1 arriving sooner at collectives, which saves at most 3.000 ms of 10.000 ms per step";
    assert!(texts[1].contains(help), "{}", texts[1]);
    assert!(texts[1].ends_with(". Likewise Rank 2, GPU 0, busy 100.0 %"), "{}", texts[1]);
    assert!(texts[2].starts_with("Rank 1, GPU 0 is busy 100.0 %"), "{}", texts[2]);
    // Two devices have a sentence each, and one rank is not a job.
    assert_eq!(paragraphs(&judged[..2]).len(), 3);
    let alone = paragraphs(&judged[..1]);
    assert!(alone.len() == 1 && !alone[0].starts_with("Job"), "{alone:#?}");
    assert!(!paragraphs(&[judged[0], judged[0]])[0].starts_with("Job"), "the same rank twice");
}

#[test]
fn processes_that_share_a_device_are_named_with_the_one_whose_steps_are_told() {
    use crate::analysis::rules::tests::judged;
    use crate::model::{Process, ProcessId, SliceKind, TraceBuilder};
    let text = |n_launched: i64| {
        let (mut slices, mut correlation) = (Vec::new(), Vec::new());
        for (host, n, dur) in [("a", 8, 6 * MS), ("b", n_launched, 3 * MS)] {
            for step in 0..n {
                let at = 10 * MS * step;
                let id = correlation.len() as u32 + 1;
                slices.push((host, SliceKind::Annotation, "train_step", at, at + 10 * MS));
                slices.push((host, SliceKind::Runtime, "cudaLaunchKernel", at, at + 1_000));
                let start = if host == "a" { at + 5_000 } else { at + 7 * MS };
                slices.push(("stream 7", SliceKind::Kernel, "gemm", start, start + dur));
                correlation.extend([0, id, id]);
            }
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        if n_launched > 0 {
            builder.tracks[2].process = ProcessId(builder.processes.len() as u32);
            builder.processes.push(Process { name: "serve".to_owned(), ..Process::default() });
        }
        builder.processes[0].name = "train".to_owned();
        let trace = builder.finish();
        let verdicts = judged(&trace, None);
        let of = Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts };
        paragraphs(&[of]).remove(0)
    };
    let shared = "2 processes share it: train launched 66.7 % of its work, serve 33.3 %; steps are those of train";
    assert!(text(8).contains(shared), "{}", text(8));
    assert!(!text(0).contains("share it"), "{}", text(0));
}

#[test]
fn what_overlap_saves_is_not_said_of_less_communication() {
    use crate::analysis::rules::tests::judged;
    use crate::model::{SliceKind, TraceBuilder};
    // Of each step of 10 ms, 8 ms communicate, and 1 or 4 ms of these beside kernels.
    let text = |beside: i64| {
        let names: Vec<String> = (0..6).map(|i| format!("ProfilerStep#{i}")).collect();
        let mut slices = Vec::new();
        for (i, name) in (0..).zip(&names) {
            let at = 10 * MS * i;
            slices.extend([
                ("main", SliceKind::Annotation, name.as_str(), at, at + 10 * MS),
                ("stream 7", SliceKind::Kernel, "gemm", at, at + (1 + beside) * MS),
                ("stream 8", SliceKind::Kernel, "ncclDevKernel_AllReduce", at + MS, at + 9 * MS),
                ("stream 7", SliceKind::Kernel, "gemm", at + 9 * MS, at + 10 * MS),
            ]);
        }
        let trace = TraceBuilder::from_slices(&slices).finish();
        let verdicts = judged(&trace, None);
        let of = Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts };
        paragraphs(&[of]).remove(0)
    };
    let help = "What would help most: less or faster communication, and ranks that arrive together, which saves at \
                most 7.000 ms of 10.000 ms per step (3.3 times as many steps in the same time); to communicate while \
                computing alone saves at most 2.000 ms";
    let bound = text(1);
    assert!(bound.ends_with(help), "{bound}");
    let help =
        "What would help most: to communicate while computing, or less, which saves at most 2.000 ms of 10.000 ms";
    let all = text(6);
    assert!(all.contains(help), "{all}");
}

#[test]
fn findings_with_one_remedy_say_what_it_gains_in_all() {
    use crate::analysis::rules::tests::judged;
    use crate::analysis::rules::{RunFacts, Shares, Thresholds, hit_of};
    use crate::figures::verdicts::findings;
    use crate::model::{SliceKind, TraceBuilder};
    let names: Vec<String> = (0..6).map(|i| format!("ProfilerStep#{i}")).collect();
    let step = |(i, name)| {
        let at = 10 * MS * i;
        let note = ("main", SliceKind::Annotation, name, at, at + 10 * MS);
        [note, ("stream 7", SliceKind::Kernel, "gemm", at, at + 5 * MS)]
    };
    let trace =
        TraceBuilder::from_slices(&(0..).zip(names.iter().map(String::as_str)).flat_map(step).collect::<Vec<_>>());
    let trace = trace.finish();
    let found = judged(&trace, None);
    let told = |slow_ns| {
        let hit = |(rule, ms): (Rule, i64)| {
            let found = hit_of(rule, Some(0), 4 * ms * MS, 40 * MS);
            Hit { n_steps: 4, ceiling_ns_per_step: Some(ms * MS), ..found }
        };
        let mut hits = [(Rule::DataLoading, 4), (Rule::HostBound, 3), (Rule::LaunchBound, 2)].map(hit).to_vec();
        hits[1].shares = Shares { slow_ns, ..Shares::default() };
        let verdicts = Verdicts { hits, run: RunFacts { is_torch: true, ..found.run }, ..found.clone() };
        let of = Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts };
        let findings = findings(&[of], &Thresholds::default());
        let notes: Vec<String> = findings.into_iter().flat_map(|(_, finding)| finding.evidence.notes).collect();
        (paragraphs(&[of]).remove(0), notes)
    };
    let (text, notes) = told(0);
    let help = "What would help most: a host that runs less between launches (operators, Python), which saves at most \
                3.000 ms of 10.000 ms per step (42.9 % more steps in the same time); fewer launches also end waits for \
                slow launches: both together save at most 5.000 ms";
    assert!(text.ends_with(help), "{text}");
    let notes_of_both: Vec<&String> =
        notes.iter().filter(|note| note.ends_with("ending both saves at most 5.000 ms per step")).collect();
    assert_eq!(notes_of_both.len(), 2, "{notes:?}");
    // Few slow operators are not ended by fewer launches.
    let (text, notes) = told(12 * MS);
    assert!(text.contains("What would help most: not to wait for data, which saves at most 4.000 ms"), "{text}");
    assert!(!notes.iter().any(|note| note.contains("both")), "{notes:?}");
}

#[test]
fn without_steps_what_the_recorder_costs_is_told_with_the_gain() {
    use crate::model::{SliceKind, TraceBuilder};
    // Between two kernels 8,000 operators in 40 ms: each costs the host at least 1 us for its record.
    let text = |n: i64| {
        let launch = |at| ("main", SliceKind::Runtime, "cudaLaunchKernel", at, at + MS / 100);
        let kernel = |at| ("stream 7", SliceKind::Kernel, "gemm", at, at + MS);
        let mut slices = vec![launch(0), kernel(MS)];
        slices.extend((0..8).flat_map(|i| [launch(42 * MS + i * MS / 10), kernel((43 + i) * MS)]));
        let mut correlation: Vec<u32> = (0..slices.len() as u32).map(|i| i / 2 + 1).collect();
        let at = |i: i64| 2 * MS + 40 * MS * i / n;
        slices.extend((0..n).map(|i| ("main", SliceKind::Operator, "aten::add", at(i), at(i + 1))));
        correlation.resize(slices.len(), 0);
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        let trace = builder.finish();
        let verdicts = crate::analysis::rules::tests::judged(&trace, None);
        paragraphs(&[Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts }]).remove(0)
    };
    let gain = "which saves at most 40.000 ms of 50.000 ms";
    let few = text(10);
    assert!(few.ends_with(gain), "{few}");
    let many = text(8_000);
    let cost = "which saves at most 32.000 ms; the judged time is 50.000 ms, of which about 8.0 ms or more are the recorder's own and pass \
                without it";
    assert!(many.contains(cost), "{many}");
}

#[test]
fn that_memory_ran_out_comes_before_what_is_told_of_time() {
    let finding = |rule: &'static str, text: &str| Finding {
        rule,
        severity: crate::model::Severity::High,
        text: text.to_owned(),
        measured: 0.0,
        threshold: 0.0,
        default_threshold: None,
        unit: crate::analysis::finding::Unit::Bytes,
        evidence: crate::analysis::finding::Evidence::default(),
        ceiling_ns_per_step: None,
        recorder_ns_per_step: None,
        ahead_ns_per_step: None,
        advice: Vec::new(),
    };
    let slow = finding("fp32_matmul", "33 matrix products in fp32");
    let told = || vec!["GPU 0: busy".to_owned()];
    assert_eq!(with_memory(told(), std::slice::from_ref(&slow)), told());
    let findings = [slow, finding(OUT_OF_MEMORY, "Out of memory: 816.00 MiB requested. Limit")];
    let first = "Out of memory: 816.00 MiB requested. Limit. What follows is of the time before it";
    assert_eq!(with_memory(told(), &findings), [first, "GPU 0: busy"]);
    assert!(with_memory(Vec::new(), &findings).is_empty());
    let leak = finding(MEMORY_LEAK, "Memory grows 128.00 MiB a step");
    let [slow, failed] = findings;
    let small = Finding { severity: crate::model::Severity::Warn, ..leak.clone() };
    assert_eq!(with_memory(told(), &[small]), told());
    assert_eq!(with_memory(told(), &[slow, leak.clone()]), ["Memory grows 128.00 MiB a step", "GPU 0: busy"]);
    let reserved = finding(RESERVED_GROWTH, "Reserved memory grows 747.33 MiB a step");
    let first_growth = ["Reserved memory grows 747.33 MiB a step", "GPU 0: busy"];
    assert_eq!(with_memory(told(), &[reserved, leak.clone()]), first_growth);
    assert_eq!(with_memory(told(), &[leak, failed]), [first, "Memory grows 128.00 MiB a step", "GPU 0: busy"]);
}

#[test]
fn a_single_piece_of_device_work_is_too_little_to_judge() {
    use crate::analysis::rules::tests::judged;
    use crate::model::{SliceKind, TraceBuilder};
    let trace = TraceBuilder::from_slices(&[("stream 7", SliceKind::Memset, "Memset", 0, 1_472)]).finish();
    let verdicts = judged(&trace, None);
    let of = Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts };
    assert_eq!(paragraphs(&[of]), ["Too little device work was recorded to judge: 1.472 µs"]);
}

#[test]
fn what_ends_idle_time_comes_before_what_explains_more_of_it() {
    use crate::analysis::rules::tests::judged;
    use crate::model::{SliceKind, TraceBuilder};
    const CALL: SliceKind = SliceKind::Runtime;
    // For 298 ms the host loads code, and of the rest nothing is known.
    let text = |of_host: &[(&'static str, SliceKind, &'static str, i64, i64)]| {
        let mut slices = vec![
            ("main", CALL, "cudaLaunchKernel", 0, MS / 100),
            ("main", CALL, "cudaLaunchKernel", 999 * MS, 999 * MS + MS / 100),
            ("stream 7", SliceKind::Kernel, "gemm", MS / 100, 20 * MS),
            ("stream 7", SliceKind::Kernel, "gemm", 999 * MS + MS / 50, 1_020 * MS),
        ];
        slices.extend(of_host);
        // With fewer kernels nothing is judged.
        slices.extend((0..10).map(|i| ("stream 8", SliceKind::Kernel, "gemm", MS + i * MS, 2 * MS + i * MS)));
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = [vec![1, 2, 1, 2], vec![0; slices.len() - 4]].concat();
        let trace = builder.finish();
        let verdicts = judged(&trace, None);
        paragraphs(&[Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts }]).remove(0)
    };
    let loads = text(&[("main", CALL, "cuLibraryLoadData", 701 * MS, 999 * MS)]);
    let help = "What would help most: to compile and load code before the steps, which saves at most 298.000 ms of \
                1.020 s. What would help next: to record what the host does meanwhile";
    assert!(loads.ends_with(help), "{loads}");
    let only = text(&[]);
    assert!(only.ends_with("What would help most: to record what the host does meanwhile"), "{only}");
}

#[test]
fn faster_kernels_save_less_than_they_take() {
    use crate::analysis::rules::tests::judged;
    use crate::model::{SliceKind, TraceBuilder};
    // On two streams, from 0 to 6 ms and from 3 to 9.8 ms of each step of 10 ms.
    let text = |kernels: [&str; 2]| {
        let names: Vec<String> = (0..6).map(|i| format!("ProfilerStep#{i}")).collect();
        let step = |(i, name)| {
            let at = 10 * MS * i;
            [
                ("main", SliceKind::Annotation, name, at, at + 10 * MS),
                ("stream 7", SliceKind::Kernel, kernels[0], at, at + 6 * MS),
                ("stream 8", SliceKind::Kernel, kernels[1], at + 3 * MS, at + 98 * MS / 10),
            ]
        };
        let slices: Vec<_> = (0..).zip(names.iter().map(String::as_str)).flat_map(step).collect();
        let trace = TraceBuilder::from_slices(&slices).finish();
        let verdicts = judged(&trace, None);
        paragraphs(&[Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts }]).remove(0)
    };
    let stencil = text(["stencil"; 2]);
    assert!(
        stencil.contains("a faster stencil; this saves less than the 9.800 ms of 10.000 ms per step that it takes"),
        "{stencil}"
    );
    for kernel in ["ampere_sgemm_128x64_tn", "void at::native::vectorized_elementwise_kernel<4, F>(int)"] {
        let text = text([kernel; 2]);
        assert!(text.contains("; this saves less than the 9.800 ms of 10.000 ms per step that they take"), "{text}");
    }
    let both = text(["void jacobi<float>(int)", "void jacobi<double>(int)"]);
    assert!(both.contains("2 variants of jacobi take 100.0 % of the compute kernel time"), "{both}");
}

#[test]
fn gaps_between_kernels_that_were_queued_are_not_latency_of_launches() {
    use crate::analysis::rules::tests::judged;
    use crate::model::{SliceKind, TraceBuilder};
    // Kernels of 100 µs with 5 µs between them, each launched as long before the end of the one before it.
    let text = |ahead: i64| {
        let (mut slices, mut correlation) = (Vec::new(), Vec::new());
        let names: Vec<String> = (0..6).map(|i| format!("ProfilerStep#{i}")).collect();
        for (i, name) in (0..).zip(&names) {
            let at = 10 * MS * (i + 1);
            slices.push(("main", SliceKind::Annotation, name.as_str(), at, at + 10 * MS));
            correlation.push(0);
            for k in 0..95 {
                let start = at + 105_000 * k;
                slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", start - ahead, start - ahead + 3_000));
                slices.push(("stream 7", SliceKind::Kernel, "gemm", start + 5_000, start + 105_000));
                correlation.extend([95 * i as u32 + k as u32 + 1; 2]);
            }
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        let trace = builder.finish();
        let verdicts = judged(&trace, None);
        let of = Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts };
        paragraphs(&[of]).remove(0)
    };
    let queued = text(50_000);
    assert!(queued.contains("lies between kernels that were already queued"), "{queued}");
    let late = text(0);
    assert!(!late.contains("already queued"), "{late}");
}

#[test]
fn what_is_inferred_is_said_so_in_short_as_in_the_finding() {
    use crate::analysis::rules::Thresholds;
    use crate::analysis::rules::tests::judged;
    use crate::figures::verdicts::{findings, why_of};
    use crate::model::{SliceKind, TraceBuilder};
    // In each step two calls that load code, with silence between them or not.
    let text = |silence: i64| {
        let (mut slices, mut correlation) = (Vec::new(), Vec::new());
        let names: Vec<String> = (0..6).map(|i| format!("ProfilerStep#{i}")).collect();
        for (i, name) in (0..).zip(&names) {
            let at = 30 * MS * i;
            slices.extend([
                ("main", SliceKind::Annotation, name.as_str(), at, at + 30 * MS),
                ("main", SliceKind::Driver, "cuLinkCreate_v2", at, at + 20 * MS - silence),
                ("main", SliceKind::Driver, "cuModuleLoadData", at + 20 * MS, at + 22 * MS),
                ("main", SliceKind::Runtime, "cudaLaunchKernel", at + 22 * MS, at + 22 * MS + 10_000),
                ("stream 7", SliceKind::Kernel, "a", at + 22 * MS + 20_000, at + 30 * MS - 10_000),
            ]);
            correlation.extend([0, 0, 0, i as u32 + 1, i as u32 + 1]);
        }
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        let trace = builder.finish();
        let verdicts = judged(&trace, None);
        let hit = verdicts.hits.iter().find(|hit| hit.rule == Rule::ModuleLoad).unwrap();
        let why = why_of(hit).unwrap();
        let of = Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts };
        let text = paragraphs(&[of]).remove(0);
        assert!(text.contains(&format!("It waits most {why}: ")), "{text}");
        let all = findings(&[of], &Thresholds::default());
        let found = all.into_iter().find(|(_, finding)| finding.text.contains(why));
        text + "\n" + &found.unwrap().1.text
    };
    // Silence between calls is no time of theirs.
    let inferred = text(18 * MS);
    assert!(inferred.contains("while code is probably compiled or loaded") && inferred.contains("; most around cu"));
    let recorded = text(0);
    assert!(recorded.contains("while code is compiled or loaded") && recorded.contains("; most in cu"), "{recorded}");
}

#[test]
fn of_graphs_that_were_recorded_as_wholes_nothing_is_claimed() {
    use crate::analysis::rules::tests::judged;
    use crate::model::{SliceKind, TraceBuilder};
    let text = |kind: SliceKind| {
        let names: Vec<String> = (0..6).map(|i| format!("ProfilerStep#{i}")).collect();
        let mut slices = Vec::new();
        for (at, name) in (0..).map(|i| 10 * MS * i).zip(&names) {
            slices.extend([
                ("main", SliceKind::Annotation, name.as_str(), at, at + 10 * MS),
                ("stream 7", SliceKind::Kernel, "a", at, at + MS),
                ("stream 7", kind, "b", at + MS, at + 10 * MS),
            ]);
        }
        let trace = TraceBuilder::from_slices(&slices).finish();
        let verdicts = judged(&trace, None);
        paragraphs(&[Judged { trace: &trace, name: None, path: "", offset: 0, verdicts: &verdicts }]).remove(0)
    };
    let unknown = "Kernels and CUDA graphs compute 100.0 %; graphs were recorded as wholes";
    assert!(text(SliceKind::CudaGraph).contains(unknown), "{}", text(SliceKind::CudaGraph));
    assert!(text(SliceKind::Kernel).contains("Kernels compute 100.0 %; "), "{}", text(SliceKind::Kernel));
}

#[test]
fn devices_that_were_not_judged_are_counted() {
    let trace = Trace::default();
    let text = |n_untold: usize, name: Option<&str>| {
        let verdicts = Verdicts { n_untold, ..Verdicts::default() };
        paragraphs(&[Judged { trace: &trace, name, path: "", offset: 0, verdicts: &verdicts }])
    };
    assert!(text(0, None)[0].contains("nothing to judge"), "{:?}", text(0, None));
    assert_eq!(text(1, None).len(), 1, "{:?}", text(1, None));
    assert!(text(1, None)[0].starts_with("Why 1 more device waited was not looked for"), "{:?}", text(1, None));
    assert!(text(4936, Some("a.json"))[0].starts_with("Why 4,936 more devices in a.json waited was not looked for"));
}
