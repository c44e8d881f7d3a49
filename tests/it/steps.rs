//! The steps of every real trace, each judged by the user from its names and kernels.

use lacuna::analysis::breakdown::Breakdown;
use lacuna::analysis::busy::{DeviceBusy, devices};
use lacuna::analysis::memory;
use lacuna::analysis::phases::{Phase, PhaseTimes, Tile, phases};
use lacuna::analysis::steps::{Steps, step_parts, steps};
use lacuna::model::{SliceId, TimeRange, Trace};

use super::support::{lacuna, name, project, real, recording};

/// By the start of the file's name what is right; files that are not here have no steps.
const EXPECTED: [(&str, &str); 26] = [
    ("AMD-AGI_TraceLens__h100-Qwen", "1 by ProfilerStep"),
    // One step of the profiler around an evaluation of five batches; the sixth call of the loader finds their end.
    ("AMD-AGI_TraceLens__h100-google_owlv2", "5 by enumerate(DataLoader)#, but 1 by ProfilerStep"),
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
    // The recording ends in the fifth update.
    ("facebookresearch_HolisticTraceAnalysis__with_gpu_user", "3 by Optimizer.step#SGD.step"),
    ("facebookresearch_param__dlrm", "1 by ProfilerStep"),
    ("facebookresearch_param__linear", "39 by Optimizer.step#SGD.step"),
    ("pytorch_kineto__2d19c6", "6 by ProfilerStep"),
    ("pytorch_kineto__resnet50", "6 by ProfilerStep"),
    ("generated_torch2.15.0__transformer", "3 by ProfilerStep"),
    // Frames of an inference that runs in a loop.
    ("YoonKyonghwan", "135 by ranges"),
    // Five steps of warm-up, then ten passes in "Benchmark Forward Only".
    ("jsun-012", "10 by ranges named Forward"),
    // Warm-up and three passes of 1,832 kernels each, nothing else named.
    ("zx3xyy_assignment2-systems__6a707b-result_2_7B_nvtx", "4 by repetition every 1832 device operations"),
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
    let (mut wrong, mut n_steps, mut n_phases) = (Vec::new(), 0, 0);
    for folder in ["A_kineto", "A_kineto_generated_cpu", "A_chrome", "B_sqlite", "B_sqlite_exported_here", "C_pickle"] {
        for path in real(folder) {
            let Ok(traces) = recording(&path) else { continue };
            let file = name(&path);
            let expected =
                EXPECTED.iter().find(|(start, _)| file.starts_with(start)).map_or("none", |expected| expected.1);
            // A solver: each of 1,000 iterations is a kernel, a reduction and copies to and from the host. Where the
            // last one ends is not known: other work of the program follows.
            let expected = if file.contains("jacobi_report") { "999 by repetition every 5" } else { expected };
            for trace in traces {
                let found = steps(trace, &|| false);
                let mut all = vec![said(found.as_ref())];
                for history in &trace.memories {
                    let found = memory::steps::steps(trace, history, &|| false).ok();
                    all.push(said(found.as_ref()));
                }
                let is_right = |said: &String| expected.split(", ").all(|part| said.contains(part));
                if !all.iter().all(is_right) {
                    wrong.push(format!("{file}: {all:?} instead of {expected}"));
                }
                if let Some(found) = &found {
                    n_steps += found.len();
                    n_phases += check_parts(trace, found, &file);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(real("A_kineto").is_empty() || n_steps > 150 && n_phases > 100, "{n_steps} steps, {n_phases} with phases");
}

/// Steps follow each other, and each way to divide a step sums to it, exactly. Returns how many steps have phases.
fn check_parts(trace: &Trace, steps: &Steps, file: &str) -> usize {
    assert!(steps.times.windows(2).all(|pair| pair[0].end <= pair[1].start), "{file}");
    assert!(steps.used.end <= steps.len(), "{file}");
    let busy = devices(trace);
    let parts = step_parts(trace, steps, &busy, 0);
    let phases = phases(trace, &|| false);
    let tiles = phases.tiles(TimeRange::ALL);
    assert!(tiles.iter().all(|tile| tile.time.dur() > 0), "{file}");
    assert!(tiles.windows(2).all(|pair| pair[0].time.end <= pair[1].time.start), "{file}");
    let in_phases = phases.device(trace, &steps.times);
    let mut n_phases = 0;
    for (i, &step) in steps.times.iter().enumerate() {
        let roles = parts.roles[i];
        assert!(roles.iter().sum::<i64>() == step.dur() && roles.iter().all(|&ns| ns >= 0), "{file}: {roles:?}");
        for ((device, all), busy) in parts.devices.iter().zip(&busy).filter(|((_, all), _)| !all.is_empty()) {
            let Breakdown { compute_ns, exposed_comm_ns, exposed_copy_ns, idle_ns } = all[i].parts;
            let all = [compute_ns, exposed_comm_ns, exposed_copy_ns, idle_ns];
            // The step as the device sees it: it may lag behind the host.
            let boundaries = steps.on(busy.process).device;
            let step = TimeRange { start: boundaries[i], end: boundaries[i + 1] };
            assert!(all.iter().sum::<i64>() == step.dur() && all.iter().all(|&ns| ns >= 0), "{file} {device}: {all:?}");
            assert_eq!(idle_ns, step.dur() - work_within(trace, busy, step), "{file} {device}");
        }
        let times = phases.within(step);
        assert!(times.iter().sum::<i64>() == step.dur() && times.iter().all(|&ns| ns >= 0), "{file}: {times:?}");
        assert_eq!(times, of_tiles(tiles, step), "{file}");
        // Work launched in a step counts in one phase of it.
        assert!(in_phases[i].iter().all(|&ns| ns >= 0), "{file}");
        n_phases += usize::from(times[Phase::Other as usize] < step.dur());
    }
    n_phases
}

/// The time of each phase of a step, tile by tile and the rest.
fn of_tiles(tiles: &[Tile], step: TimeRange) -> PhaseTimes {
    let (mut times, mut at) = ([0; Phase::N], step.start);
    for tile in tiles.iter().filter(|tile| tile.time.start < step.end && tile.time.end > step.start) {
        let (start, end) = (tile.time.start.max(step.start), tile.time.end.min(step.end));
        times[Phase::Other as usize] += start - at;
        times[tile.phase as usize] += end - start;
        at = end;
    }
    times[Phase::Other as usize] += step.end - at;
    times
}

/// Time within a step in which any work of a device runs, by the work itself.
fn work_within(trace: &Trace, device: &DeviceBusy, step: TimeRange) -> i64 {
    let slices = &trace.slices;
    let mut spans = Vec::new();
    for row in slices.rows.iter().filter(|row| trace.track(row.track).process == device.process) {
        for i in row.range().filter(|&i| slices.kind[i].is_device_work()) {
            spans.extend(slices.time(SliceId(i as u32)).intersect(step));
        }
    }
    spans.sort_unstable_by_key(|span| span.start);
    let (mut sum, mut reach) = (0, i64::MIN);
    for span in spans {
        sum += (span.end - span.start.max(reach)).max(0);
        reach = reach.max(span.end);
    }
    sum
}

#[test]
fn what_lengths_of_steps_are_of_is_said_where_others_differ() {
    let said = |name: &str| {
        let path = project().join("sample_traces/recorded").join(name);
        let out = lacuna(&["report".as_ref(), "--all".as_ref(), path.as_os_str()]);
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(text.contains("Step times"), "{name}");
        // The line may break.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        ["These are lengths of ranges", "These are times from the completion of one step"]
            .map(|note| text.contains(note))
    };
    // The mean of the ranges is another than that of the device.
    for name in ["fragmentation.kineto.json.gz", "item.kineto.json.gz"] {
        assert_eq!(said(name), [true, false], "{name}");
    }
    // The host runs ahead.
    for name in ["leak.kineto.json.gz", "none.kineto.json.gz"] {
        assert_eq!(said(name), [false, true], "{name}");
    }
}
