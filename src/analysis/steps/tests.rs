//! Tests of the search for steps in traces.

use super::*;
use crate::model::{Process, SliceKind, TraceBuilder};

const NOTE: SliceKind = SliceKind::Annotation;

pub(super) fn find(slices: &[(&str, SliceKind, String, TimeNs, TimeNs)]) -> Option<Steps> {
    let slices: Vec<_> =
        slices.iter().map(|(thread, kind, name, ts, end)| (*thread, *kind, name.as_str(), *ts, *end)).collect();
    steps(&TraceBuilder::from_slices(&slices).finish(), &|| false)
}

#[test]
fn profiler_steps_are_time_ranges() {
    let mut slices = Vec::new();
    for step in 0..6 {
        let start = 100 * step + if step == 3 { 20 } else { 0 };
        slices.push(("main", NOTE, format!("ProfilerStep#{}", step + 5), start, start + 90));
        slices.push(("main", NOTE, "Optimizer.step#SGD.step".to_owned(), start + 50, start + 60));
    }
    let found = find(&slices).unwrap();
    assert_eq!(found.source, StepSource::ProfilerStep);
    assert_eq!(found.boundaries, [0, 100, 200, 320, 400, 500, 590]);
    assert_eq!((found.names[0].as_str(), found.len()), ("ProfilerStep#5", 6));
    // 100, 100, 120, 80, 100 and 90: four within a tenth of 100.
    assert_eq!(found.regularity, 4.0 / 6.0);
    assert_eq!(found.durations.unwrap().calls, 4);
    assert_eq!(found.disagreement, None, "5 steps between 6 ends of the optimizer");
}

#[test]
fn annotations_are_next_and_disagreement_is_reported() {
    let mut slices = Vec::new();
    for step in 0..12 {
        let start = 100 * step;
        slices.push(("main", NOTE, "Optimizer.zero_grad#SGD.zero_grad".to_owned(), start, start + 10));
        if step % 2 == 1 {
            slices.push(("main", NOTE, "Optimizer.step#SGD.step".to_owned(), start + 50, start + 60));
        }
    }
    let found = find(&slices).unwrap();
    assert_eq!(found.source, StepSource::Annotation("Optimizer.step#SGD.step".to_owned()));
    assert_eq!((found.boundaries, found.regularity), (vec![160, 360, 560, 760, 960, 1160], 1.0));
    let other = StepSource::Annotation("Optimizer.zero_grad#SGD.zero_grad".to_owned());
    assert_eq!(found.disagreement, Some((other, 11)));
}

#[test]
fn an_update_in_which_the_recording_ends_is_the_end_of_no_step() {
    let of = |last: i64| {
        let range = |step: i64| (100 * step + 50, 100 * step + if step == 4 { 50 + last } else { 60 });
        let slices =
            (0..5).map(range).map(|(start, end)| ("main", NOTE, "Optimizer.step#A.step".to_owned(), start, end));
        find(&slices.collect::<Vec<_>>()).unwrap().boundaries
    };
    assert_eq!(of(3), [60, 160, 260, 360, 453]);
    assert_eq!(of(0), [60, 160, 260, 360]);
}

#[test]
fn repeating_kernels_are_steps_without_annotations() {
    let launch = |rounds: i64, names: &[&str]| -> Vec<_> {
        let n = names.len() as i64;
        let kernel = |i: i64| ("stream 7", SliceKind::Kernel, names[(i % n) as usize].to_owned(), 10 * i, 10 * i + 8);
        (0..n * rounds).map(kernel).collect()
    };
    let step = ["embed", "norm", "gemm", "norm", "gemm", "loss"];
    let found = find(&launch(8, &step)).unwrap();
    let is_found = matches!(found.source, StepSource::Period { items: "device operations", length: 6, .. });
    assert!(is_found, "{:?}", found.source);
    assert_eq!((found.boundaries[0], found.boundaries[1], found.len(), found.regularity), (0, 60, 8, 1.0));
    assert_eq!((found.boundaries[8], found.used), (478, 1..7), "the last lacks what precedes a next one");
    assert_eq!(find(&launch(4, &step)).unwrap().len(), 4);
    assert_eq!(find(&launch(3, &step)), None, "three rounds are too few");
    assert_eq!(find(&launch(24, &["norm", "qkv", "attend", "up", "down"])), None, "layers of one pass");
    let mut named = launch(8, &step);
    named.push(("main", NOTE, "execute_context_1(8)_generation_0(0)".to_owned(), 0, 500));
    assert_eq!(find(&named), None, "all of it is one step");
    assert_eq!(find(&[]), None);
}

#[test]
fn passes_of_layers_that_repeat_exactly_to_the_end_are_steps() {
    let kernels = |names: Vec<&str>| -> Vec<_> {
        let slice = |(i, name): (i64, &str)| ("stream 7", SliceKind::Kernel, name.to_owned(), 10 * i, 10 * i + 8);
        (0..).zip(names).map(slice).collect()
    };
    let layer = ["norm", "gemm", "softmax", "gemm", "add"];
    // All kernels of a pass but two are of its layers, and also occur in them.
    let pass: Vec<&str> = layer.iter().copied().cycle().take(20 * 5).chain(["norm", "gemm"]).collect();
    let copies = vec!["fill"; 17];
    let passes = |n: usize, rest: usize| [copies.clone(), pass.repeat(n), pass[..rest].to_vec()].concat();
    let found = find(&kernels(passes(6, 0))).unwrap();
    let starts: Vec<TimeNs> = (0..6).map(|pass| 10 * (17 + 102 * pass)).collect();
    assert_eq!((found.boundaries[..6].to_vec(), found.regularity, found.is_reliable()), (starts, 1.0, true));
    assert_eq!(find(&kernels(passes(3, 0))), None, "too few");
    assert_eq!(find(&kernels([vec!["embed"], layer.repeat(40), vec!["head"]].concat())), None, "one pass");
    assert_eq!(find(&kernels([passes(6, 0), vec!["head"]].concat())), None, "something follows");
}

#[test]
fn micro_batches_before_each_update_are_one_step() {
    // Three updates of five micro batches each; the update is known by its kernels only.
    let run = |names: [&str; 2], updated: &dyn Fn(i64) -> bool| {
        let mut slices = Vec::new();
        let mut correlation = Vec::new();
        for micro in 0..15 {
            let at = 100 * micro;
            slices.push(("main", NOTE, names[0].to_owned(), at, at + 40));
            slices.push(("main", NOTE, names[1].to_owned(), at + 40, at + 80));
            correlation.extend([0, 0]);
            for (launch, name) in [(5, "gemm"), (45, "gemm_backward"), (85, "multi_tensor_apply_kernel<adam>")] {
                if launch < 85 || updated(micro) {
                    let id = correlation.len() as u32;
                    slices.push((
                        "main",
                        SliceKind::Runtime,
                        "cudaLaunchKernel".to_owned(),
                        at + launch,
                        at + launch + 2,
                    ));
                    slices.push(("stream 7", SliceKind::Kernel, name.to_owned(), at + launch + 3, at + launch + 10));
                    correlation.extend([id, id]);
                }
            }
        }
        let named: Vec<_> = slices.iter().map(|(t, k, n, a, b)| (*t, *k, n.as_str(), *a, *b)).collect();
        let mut builder = TraceBuilder::from_slices(&named);
        builder.slices[0].correlation = correlation;
        steps(&builder.finish(), &|| false).unwrap()
    };
    let found = run(["## forward ##", "## backward ##"], &|micro| micro % 5 == 4);
    let of = Box::new(StepSource::Ranges("## forward ##".to_owned()));
    assert_eq!(found.source, StepSource::Updates { every: 5, of: of.clone() });
    assert_eq!((found.boundaries.clone(), found.disagreement), (vec![0, 500, 1000, 1480], Some((*of, 15))));
    // The recording begins within a step, whose rest does not count.
    let found = run(["## forward ##", "## backward ##"], &|micro| micro % 5 == 2);
    assert_eq!(found.boundaries, [300, 800, 1300]);
    for updated in [&|_| true, &|micro: i64| [4, 6, 14].contains(&micro), &|_| false] as [&dyn Fn(i64) -> bool; 3] {
        assert_eq!(run(["## forward ##", "## backward ##"], updated).len(), 15);
    }
}

/// Steps of 100 ns with two launches each, and what `name` adds.
fn named(n: i64, name: impl Fn(i64, i64) -> Vec<(&'static str, SliceKind, String, TimeNs, TimeNs)>) -> Option<Steps> {
    let mut slices = Vec::new();
    for step in 0..n {
        let start = 100 * step;
        for at in [20, 60] {
            slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel".to_owned(), start + at, start + at + 5));
        }
        slices.extend(name(step, start));
    }
    find(&slices)
}

#[test]
fn ranges_named_as_steps_are_steps() {
    let range = |name: String, start, end| vec![("main", NOTE, name, start, end)];
    for (name, source) in [
        ("step_{}", "step_#"),
        ("iteration {}", "iteration #"),
        ("train_step", "train_step"),
        ("Warm-up Step {}", "Warm-up Step #"),
        ("execute_context_{}(8)_generation_7(9)", "execute_context_#(#)_generation_#(#)"),
    ] {
        let found = named(6, |step, start| range(name.replace("{}", &(step + 98).to_string()), start + 10, start + 90));
        let found = found.unwrap_or_else(|| panic!("{name}"));
        assert_eq!(found.source, StepSource::Ranges(source.to_owned()));
        assert_eq!((found.len(), found.boundaries[0], found.boundaries[6], found.used), (6, 10, 590, 1..6), "{name}");
    }
    for name in ["optimizer step {}", "load batch {}", "epoch {}", "layer {}", "nccl:all_reduce {}"] {
        let found = named(6, |step, start| range(name.replace("{}", &step.to_string()), start + 10, start + 15));
        assert_eq!(found, None, "{name}");
    }
    let idle = named(6, |step, start| range(format!("step {step}"), start + 1, start + 9));
    assert_eq!(idle, None, "no work lies in these ranges");
}

#[test]
fn parts_that_cover_the_work_together_are_steps_and_layers_are_not() {
    let parts = |step: i64, start: i64| {
        let range = |name: &str, start, end| ("main", NOTE, name.to_owned(), start, end);
        let mut all =
            vec![range("## forward ##", start + 10, start + 40), range("## backward ##", start + 50, start + 90)];
        all.extend((0..3).map(|layer| range(&format!("norm{layer}"), start + 10 + 8 * layer, start + 15 + 8 * layer)));
        all.extend((step % 2 == 0).then(|| range("log", start + 95, start + 99)));
        all
    };
    let found = named(7, parts).unwrap();
    assert_eq!(found.source, StepSource::Ranges("## forward ##".to_owned()));
    assert_eq!((found.len(), found.boundaries[1], found.boundaries[7]), (7, 110, 690));
    let in_one_pass = named(7, |step, start| {
        let mut all = parts(step, start);
        all.extend((step == 0).then(|| ("main", NOTE, "train_step".to_owned(), 0, 700)));
        all
    });
    assert_eq!(in_one_pass, None);
}

#[test]
fn one_step_of_the_profiler_gives_way_to_the_batches_inside() {
    let batches = |n: i64| {
        named(n, move |step, start| {
            let mut all = vec![("main", NOTE, "enumerate(DataLoader)#_Iter.__next__".to_owned(), start, start + 10)];
            all.extend((step == 0).then(|| ("main", NOTE, "ProfilerStep#0".to_owned(), 0, 100 * n)));
            all
        })
        .unwrap()
    };
    let found = batches(6);
    assert_eq!((found.len(), found.disagreement), (5, Some((StepSource::ProfilerStep, 1))));
    assert_eq!(batches(4).source, StepSource::ProfilerStep, "three are too few");
}

#[test]
fn a_step_of_a_loader_begins_with_the_loading_of_its_batch() {
    let call = |(start, dur): (i64, i64)| {
        ("main", NOTE, "enumerate(DataLoader)#_Iter.__next__".to_owned(), start, start + dur)
    };
    let calls = |last: Option<(i64, i64)>| {
        let batches = [(0, 900), (1_500, 300), (2_400, 310), (3_300, 290)];
        let slices: Vec<_> = batches.into_iter().chain(last).map(call).collect();
        find(&slices).unwrap().boundaries
    };
    assert_eq!(calls(None), [0, 1_500, 2_400, 3_300]);
    // The last call finds the end of the data, which is where the last batch is done.
    assert_eq!(calls(Some((4_200, 1))), [0, 1_500, 2_400, 3_300, 4_200]);
}

#[test]
fn the_first_step_and_the_profilers_last_are_not_used() {
    let profiler = |durs: &[i64]| {
        let mut end = 0;
        let step = |(k, dur): (usize, &i64)| {
            end += dur;
            ("main", NOTE, format!("ProfilerStep#{k}"), end - dur, end)
        };
        let slices: Vec<_> = durs.iter().enumerate().map(step).collect();
        find(&slices).unwrap()
    };
    assert_eq!([&[100, 90, 110][..], &[100, 5], &[100]].map(|extents| profiler(extents).used), [0..3, 0..1, 0..1]);
    // Of twelve the first three are a warm-up, which take twice as long as any other; with one more like them none is.
    let of = |fourth| profiler(&[700, 600, 600, fourth, 290, 300, 280, 300, 300, 300, 300, 700]).used.start;
    assert_eq!([of(300), of(600)], [3, 1]);
    let found = profiler(&[500, 100, 90, 110, 100, 40]);
    let durations = found.durations.unwrap();
    assert_eq!((durations.calls, found.used.clone()), (4, 1..5));
    assert_eq!((durations.mean_ns, durations.min_ns, durations.max_ns), (100, 90, 110));
    // s = 8.165, t(3) = 3.182: 3.182 * 8 / 2, where 8 is s in whole nanoseconds.
    assert_eq!(found.ci95_ns(), Some(13));
    assert_eq!([&[30, 10, 20, 20][..], &[7, 7]].map(|marks| marked(marks).map(|found| found.used)), [Some(0..2), None]);
}

#[test]
fn a_remnant_at_an_end_is_not_used() {
    let of = |source: StepSource, extents: &[i64]| {
        let ends = extents.iter().scan(0, |end, extent| {
            *end += extent;
            Some(*end)
        });
        Steps::new(source, std::iter::once(0).chain(ends).collect(), None, 0, Some(&|at| at)).used
    };
    let period = |extents: &[i64]| of(StepSource::Period { items: "operators", length: 5, share: 1.0 }, extents);
    let ranges = |extents: &[i64]| of(StepSource::Ranges("step_#".to_owned()), extents);
    assert_eq!(period(&[300, 100, 100, 100, 9]), 1..4);
    assert_eq!(period(&[300, 100, 100, 100, 10]), 1..5, "a tenth of the median may be a step");
    assert_eq!(period(&[9, 100, 100, 100, 100]), 1..5, "the first is left out anyway");
    assert_eq!(ranges(&[5, 100, 100]), 1..3);
    assert_eq!(ranges(&[100, 100, 5]), 0..2);
    assert_eq!(ranges(&[900, 5]), 0..2, "two steps do not tell a warm-up from a remnant");
    assert_eq!(ranges(&[100, 5, 100, 100, 5]), 1..5, "others are as short");
    assert_eq!(of(StepSource::Annotation("Optimizer.step#".to_owned()), &[100, 100, 100, 100, 5]), 1..5);
    assert_eq!(of(StepSource::Marks, &[100, 100, 100, 100, 5]), 0..5);
}

#[test]
fn quantiles_are_those_of_the_tables() {
    for (df, expected) in [(1, 12.7062), (4, 2.7764), (9, 2.2622), (20, 2.0860), (120, 1.9799), (1_000_000, 1.9600)] {
        assert!((t_975(df) - expected).abs() < 6e-5, "{df}: {}", t_975(df));
    }
}

#[test]
fn a_sequence_that_repeats_exactly_is_regular_whatever_it_takes() {
    let (mut slices, mut now) = (Vec::new(), 0);
    for round in 0..10 {
        let dur = if round % 2 == 0 { 10 } else { 20 };
        for name in ["embed", "norm", "qkv", "attend", "up", "down", "loss"] {
            slices.push(("stream 7", SliceKind::Kernel, name.to_owned(), now, now + dur));
            now += dur;
        }
    }
    let found = find(&slices).unwrap();
    assert_eq!((found.len(), found.regularity, found.is_reliable()), (10, 1.0, true));
}

#[test]
fn one_odd_item_does_not_hide_passes_that_repeat() {
    let found = |odd: Option<i64>| {
        let (mut slices, mut now) = (Vec::new(), 0);
        for round in 0..24 {
            let layers = (0..8).flat_map(|_| ["norm", "qkv", "attend", "up", "down"]);
            let extra = Some("memset").filter(|_| odd == Some(round));
            for name in ["embed"].into_iter().chain(layers).chain(extra).chain(["nll_loss"]) {
                slices.push(("stream 7", SliceKind::Kernel, name.to_owned(), now, now + 10));
                now += 10;
            }
        }
        find(&slices).map(|found| (found.len(), found.is_reliable()))
    };
    assert_eq!(found(None), Some((24, true)));
    // Five rounds repeat exactly after it: too few to be most of the recording, and those before are like them.
    assert_eq!(found(Some(18)), Some((24, true)));
}

#[test]
fn the_optimizer_counts_where_gradients_are_accumulated() {
    let micro = |n: i64, per_update: i64| {
        named(n, move |step, start| {
            let mut all = vec![("main", NOTE, "micro_batch".to_owned(), start + 10, start + 80)];
            let is_last = step % per_update == per_update - 1;
            all.extend(is_last.then(|| ("main", NOTE, "Optimizer.step#AdamW.step".to_owned(), start + 85, start + 95)));
            all
        })
        .unwrap()
    };
    let found = micro(20, 4);
    assert_eq!(found.source, StepSource::Annotation("Optimizer.step#AdamW.step".to_owned()));
    assert_eq!(found.boundaries, [10, 395, 795, 1195, 1595, 1995]);
    assert_eq!(found.disagreement, Some((StepSource::Ranges("micro_batch".to_owned()), 20)));
    assert_eq!(micro(8, 1).source, StepSource::Ranges("micro_batch".to_owned()));
}

#[test]
fn passes_are_told_by_what_comes_once_in_each() {
    let layers = |n: i64, odd: bool| {
        named(n, move |step, start| {
            let range = |name: &str, start, end| ("main", NOTE, name.to_owned(), start, end);
            let n_layers = if odd && step == 2 { 7 } else { 8 };
            // Passes take different times, and most of the work is in the layers.
            let mut all: Vec<_> = (0..n_layers).map(|i| range("layer", start + 8 * i, start + 8 * i + 8)).collect();
            all.push(range("loss", start + 70 + 3 * (step % 5), start + 90));
            all
        })
    };
    let found = layers(6, false).unwrap();
    assert_eq!(found.source, StepSource::Ranges("loss".to_owned()));
    assert_eq!((found.len(), found.boundaries[1], found.boundaries[6]), (6, 100, 590));
    assert_eq!(layers(6, true), None, "the layers do not come evenly");
}

#[test]
fn annotations_of_a_device_alone_are_steps() {
    let mut slices = Vec::new();
    for step in 0..7 {
        let start = 100 * step;
        for stream in ["stream 7", "stream 20"] {
            let end = start + if stream == "stream 7" { 70 } else { 20 };
            slices.push((stream, SliceKind::GpuAnnotation, format!("ProfilerStep#{step}"), start + 5, end));
            slices.push((stream, SliceKind::Kernel, "gemm".to_owned(), start + 5, end));
        }
    }
    let found = find(&slices).unwrap();
    assert_eq!(found.source, StepSource::DeviceRanges("ProfilerStep#".to_owned()));
    assert_eq!((found.len(), found.used.clone(), found.boundaries[1]), (7, 1..6, 105));
    assert_eq!(found.durations.unwrap().mean_ns, 100, "with the time to the next step");
    assert!(found.source.is_of_device() && !found.source.is_of_host());
}

/// A trace whose thread `main` launches three steps of two kernels ahead of the device.
fn ahead() -> Trace {
    let mut slices = Vec::new();
    let names = ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"];
    for (step, name) in (0..).zip(names) {
        slices.push(("main", NOTE, name, 100 * step, 100 * step + 100));
        for launch in 0..2 {
            let start = 100 * step + 10 * launch;
            slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", start + 1, start + 5));
        }
    }
    for i in 0..6 {
        // 400 ns busy and 100 ns idle in each step.
        slices.push(("stream 7", SliceKind::Kernel, "gemm", 50 + 250 * i, 250 + 250 * i));
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = vec![0, 1, 2, 0, 3, 4, 0, 5, 6, 1, 2, 3, 4, 5, 6];
    builder.finish()
}

#[test]
fn a_device_follows_the_work_that_its_steps_launched() {
    let trace = ahead();
    let found = steps(&trace, &|| false).unwrap();
    assert_eq!(found.boundaries, [0, 100, 200, 300]);
    let busy = crate::analysis::busy::devices(&trace);
    assert_eq!(found.on(busy[0].process).host, found.boundaries);
    assert_eq!(found.on(busy[0].process).device, [0, 500, 1000, 1500]);
    let parts = step_parts(&trace, &found, &busy, 0);
    let of_device: Vec<_> = parts.devices[0].1.iter().map(|step| (step.parts.compute_ns, step.parts.idle_ns)).collect();
    assert_eq!(of_device, [(400, 100); 3]);
    assert_eq!(parts.devices[0].1[1].time, TimeRange { start: 500, end: 1000 });
    // The host takes 100 ns to launch a step that takes the device 500.
    assert!(found.is_of_completions());
    assert_eq!((found.durations.unwrap().mean_ns, found.times[1].dur()), (500, 100));
    // Of 300 ns on the host, the device is busy from 50 to 250.
    assert_eq!(parts.utilization, [(0, 200.0 / 300.0)]);
}

#[test]
fn each_device_follows_the_process_that_launches_on_it() {
    let mut slices = Vec::new();
    let mut correlation = Vec::new();
    let mut next = 0;
    for (host, stream, period, n) in [("a", "stream 7", 100, 9), ("b", "stream 8", 150, 5)] {
        for step in 0..n {
            next += 1;
            let start = period * step;
            slices.push((host, NOTE, "train_step", start, start + period));
            slices.push((host, SliceKind::Runtime, "cudaLaunchKernel", start + 10, start + 20));
            slices.push((stream, SliceKind::Kernel, "gemm", start + 30, start + 60));
            correlation.extend([0, next, next]);
        }
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    for (track, device) in [(2, None), (3, Some(1))] {
        builder.tracks[track].process = ProcessId(builder.processes.len() as u32);
        builder.processes.push(Process { device, ..Process::default() });
    }
    let trace = builder.finish();
    let found = steps(&trace, &|| false).unwrap();
    assert_eq!((found.len(), found.disagreement.clone()), (9, None));
    let device = |name: &str| {
        let track = trace.tracks.iter().find(|track| track.name == name).unwrap();
        found.on(track.process).host.to_vec()
    };
    assert_eq!(device("stream 7"), (0..10).map(|i| 100 * i).collect::<Vec<_>>());
    assert_eq!(device("stream 8"), (0..6).map(|i| 150 * i).collect::<Vec<_>>());
}

#[test]
fn warm_up_by_name_is_left_out_where_other_steps_follow() {
    let of = |measured: i64| {
        let mut slices = Vec::new();
        let mut at = 0;
        for step in 1..=5 {
            slices.push(("main", NOTE, format!("Warm-up Step {step}"), at, at + 200));
            slices.push(("main", NOTE, "Forward".to_owned(), at + 5, at + 50));
            slices.extend((0..8).map(|i| {
                ("main", SliceKind::Runtime, "cudaLaunchKernel".to_owned(), at + 6 + 20 * i, at + 7 + 20 * i)
            }));
            at += 200;
        }
        let start = at;
        for _ in 0..measured {
            slices.push(("main", NOTE, "Forward".to_owned(), at + 1, at + 55));
            slices.extend((0..4).map(|i| {
                ("main", SliceKind::Runtime, "cudaLaunchKernel".to_owned(), at + 6 + 10 * i, at + 7 + 10 * i)
            }));
            at += 60;
        }
        slices.push(("main", NOTE, "Benchmark Forward Only".to_owned(), start, at));
        find(&slices).unwrap()
    };
    let found = of(10);
    assert_eq!((found.source.clone(), found.len()), (StepSource::Ranges("Forward".to_owned()), 10));
    assert_eq!((found.boundaries[0], found.n_warm_up), (1_001, 5));
    // Too few to be steps: the warm-up has all that there is.
    let found = of(2);
    assert_eq!((found.source.clone(), found.len()), (StepSource::Ranges("Warm-up Step #".to_owned()), 5));
}

#[test]
fn a_step_is_where_the_devices_run_it_if_the_host_runs_ahead() {
    let of = |lag: TimeNs| {
        let mut slices = Vec::new();
        let mut correlation = Vec::new();
        for step in 0..6_u32 {
            let at = 100 * TimeNs::from(step);
            slices.push(("main", NOTE, format!("ProfilerStep#{step}"), at, at + 100));
            slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel".to_owned(), at + 1, at + 2));
            slices.push(("stream 7", SliceKind::Kernel, "gemm".to_owned(), at + lag, at + lag + 95));
            correlation.extend([0, step + 1, step + 1]);
        }
        let slices: Vec<_> =
            slices.iter().map(|(thread, kind, name, ts, end)| (*thread, *kind, name.as_str(), *ts, *end)).collect();
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = correlation;
        steps(&builder.finish(), &|| false).unwrap()
    };
    let ahead = of(250);
    assert!(ahead.is_of_completions());
    assert_eq!(ahead.times[2], TimeRange { start: 200, end: 300 });
    // From the end of the kernel of step 1 to that of step 2.
    assert_eq!(ahead.extents()[2], TimeRange { start: 445, end: 545 });
    let in_time = of(4);
    assert_eq!(in_time.extents(), in_time.times);
}
