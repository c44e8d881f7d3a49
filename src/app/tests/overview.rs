//! The overview: device cards, time per step, findings.

use super::*;
use crate::figures::verdicts::LACKS_EVENTS;
use crate::model::{Process, ProcessId};
use crate::view::fixture::texts;

/// Ten steps of a device that waits for data for 40 % of each.
fn waiting_for_data() -> Trace {
    let ms = 1_000_000;
    let mut slices = Vec::new();
    let names: Vec<String> = (0..10).map(|i| format!("ProfilerStep#{i}")).collect();
    let mut correlation = Vec::new();
    for (i, name) in (0..).zip(&names) {
        let at = 100 * ms * i;
        slices.push(("main", SliceKind::Annotation, name.as_str(), at, at + 100 * ms));
        let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        slices.push(("main", SliceKind::Annotation, loader, at, at + 40 * ms));
        slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at + 40 * ms, at + 40 * ms + 5_000));
        slices.push(("stream 7", SliceKind::Kernel, "gemm", at + 40 * ms + 10_000, at + 100 * ms));
        correlation.extend([0, 0, i as u32 + 1, i as u32 + 1]);
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    builder.finish()
}

#[test]
fn the_overview_is_what_a_person_sees_first_of_a_profile() {
    let mut harness = harness(vec![waiting_for_data()]);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("waits 40").is_some());
    assert!(app(&harness).layout.is_on_screen("overview"));
    assert!(app(&harness).layout.is_on_screen("timeline") && app(&harness).layout.is_on_screen("details"));
    harness.get_by_label_contains("60.0 % busy");
    harness
        .get_by_label("Idle by what would end it: Data loading 40.0 % (320.000 ms); Launch latency 0.0 % (80.000 µs)");
    let top = |text: &str| harness.get_by_label_contains(text).rect().top();
    assert!(top("What would help most: ") < top("waits 40"), "what dominates comes first");
}

#[test]
fn a_card_says_what_is_not_judged() {
    let ms = 1_000_000;
    let mut slices = vec![("main", SliceKind::Operator, "load", 0, 50 * ms)];
    slices.extend((0..8).map(|i| ("stream 7", SliceKind::Kernel, "gemm", (50 + 10 * i) * ms, (59 + 10 * i) * ms)));
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("Not judged: ").is_some());
    harness.get_by_label("Not judged: 50.000 ms before the first work of the device");
}

#[test]
fn steps_of_a_host_without_phases_have_their_lengths_shown() {
    let names: Vec<String> = (0..6).map(|i| format!("step_{i}")).collect();
    let slices: Vec<_> = (0..)
        .zip(&names)
        .map(|(i, name)| ("main", SliceKind::Annotation, name.as_str(), i * 100, i * 100 + 90))
        .collect();
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    app_mut(&mut harness).layout.show("overview");
    wait_for(&mut harness, |harness| harness.query_by_label("Time per step").is_some());
    harness.get_by_label("Step");
    assert!(harness.query_by_label("No steps were found").is_none());
}

#[test]
fn a_finding_shows_its_place_and_says_what_to_do() {
    let mut harness = harness(vec![waiting_for_data()]);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("waits 40").is_some());
    harness.get_by_label_contains(". Ending it saves at most 40.0");
    harness.get_all_by_label("What to do").next().unwrap().click();
    settle(&mut harness);
    let measured = harness.get_by_label_contains("Measured ").rect();
    let advice = harness.get_all_by_label_contains("\u{2022} ").next().unwrap().rect();
    assert!(advice.top() < measured.top(), "advice comes first");
    let before = app(&harness).session.navigation.visible();
    harness.get_all_by_label("Show").next().unwrap().click();
    settle(&mut harness);
    assert_ne!(app(&harness).session.navigation.visible(), before);
}

#[test]
fn gaps_that_come_back_are_listed_without_steps_and_long_names_begin_in_sight() {
    let us = 1_000;
    let names = ["first", "second"].map(|name| format!("triton_{}_{name}", "fused__to_copy_add_addmm_".repeat(12)));
    let mut slices = Vec::new();
    let mut correlation = Vec::new();
    // Too few times to be steps.
    for (i, at) in (0..).zip([0_i64, 900, 3_700]) {
        for (j, name) in (0..).zip(&names) {
            let at = (at + 300 * j) * us;
            slices.push(("main", SliceKind::Runtime, "cudaLaunchKernel", at, at + 5 * us));
            slices.push(("stream 7", SliceKind::Kernel, name.as_str(), at + 10 * us, at + 100 * us));
            correlation.extend([2 * i + j as u32 + 1; 2]);
        }
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    let mut harness = harness(vec![builder.finish()]);
    harness.set_size([1280.0, 720.0].into());
    wait_for(&mut harness, |harness| harness.query_by_label("Recurring gaps (2)").is_some());
    settle(&mut harness);
    let left = harness.get_by_label_contains("Findings (").rect().left();
    harness.get_by_label("Recurring gaps (2)").click_accesskit();
    settle(&mut harness);
    harness.get_by_label("No steps: by time in all, without a gain per step");
    harness.get_by_label("3 gaps, 630.000 µs in all");
    for link in harness.get_all_by_label_contains("Between triton_") {
        let label = link.accesskit_node().label().unwrap_or_default();
        assert!(label.contains("_first") && label.contains("_second") && label.chars().count() < 120, "{label}");
        assert!((link.rect().left() - left).abs() < 2.0 && link.rect().right() <= 1280.0, "{:?}", link.rect());
    }
}

#[test]
fn a_gap_in_no_step_that_counts_is_said_to_be() {
    let mut harness = harness(vec![waiting_for_data()]);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("waits 40").is_some());
    for (step, is_outside) in [(4, false), (9, true)] {
        let start = step * 100_000_000;
        let time = TimeRange { start, end: start + 40_010_000 };
        app_mut(&mut harness).session.selection = Selection::Gap { trace: 0, process: ProcessId(1), time };
        settle(&mut harness);
        let said = harness.query_by_label("Outside of the judged steps").is_some();
        assert_eq!(said, is_outside, "step {step}");
    }
}

#[test]
fn what_to_do_is_scrolled_into_view() {
    let mut harness = harness(vec![waiting_for_data()]);
    harness.set_size([1280.0, 520.0].into());
    wait_for(&mut harness, |harness| harness.query_by_label_contains("waits 40").is_some());
    let link = harness.get_all_by_label("What to do").next().unwrap();
    let before = link.rect().top();
    link.click_accesskit();
    settle(&mut harness);
    let link = harness.get_by_label("Less").rect();
    let advice = harness.get_all_by_label_contains("\u{2022} ").next().unwrap().rect();
    assert!(link.top() < before && advice.bottom() < 520.0, "{before} {link:?} {advice:?}");
}

#[test]
fn a_finding_shows_the_gap_or_the_time_that_it_is_about() {
    let mut harness = harness(vec![waiting_for_data()]);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("waits 40").is_some());
    select(&mut harness, "gemm");
    app_mut(&mut harness).layout.close("timeline");
    settle(&mut harness);
    let show = |harness: &mut Harness<'_, Option<App>>, finding: &str| {
        let top = harness.get_by_label_contains(finding).rect().top() - 4.0;
        let links = harness.get_all_by_label("Show").filter(|link| link.rect().top() >= top);
        let nearest = links.min_by(|a, b| a.rect().top().total_cmp(&b.rect().top()));
        // It may be scrolled out of sight.
        nearest.unwrap().click_accesskit();
        settle(harness);
    };
    show(&mut harness, "waits 40");
    let session = &app(&harness).session;
    let Selection::Gap { time, .. } = session.selection else { panic!("{:?}", session.selection) };
    assert_eq!(time.dur(), 40_010_000);
    let visible = session.navigation.visible();
    assert!(visible.start < time.start && time.end < visible.end && visible.dur() < 3 * time.dur());
    assert_eq!(session.range, None);
    assert!(app(&harness).layout.is_on_screen("timeline"), "it comes back");
    harness.get_by_label("Idle for 40.010 ms");

    // How busy it is stands above: no finding repeats it where another says why it waits.
    assert_eq!(harness.query_all_by_label_contains("is busy 60").count(), 1);
}

#[test]
fn a_key_without_effect_says_why() {
    let mut harness = harness(vec![trace()]);
    harness.key_press(Key::N);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("No steps found").is_some());
    let host = [("main", SliceKind::Operator, "aten::mm", 0, 100)];
    let mut harness = super::harness(vec![TraceBuilder::from_slices(&host).finish()]);
    harness.key_press(Key::G);
    settle(&mut harness);
    harness.get_by_label("No gaps: no GPU work was recorded");
    let mut harness = super::harness(Vec::new());
    harness.key_press(Key::G);
    settle(&mut harness);
    harness.get_by_label("No gaps: nothing is open");
}

#[test]
fn a_device_that_is_busy_has_no_findings_and_memory_files_no_overview() {
    let names: Vec<String> = (0..10).map(|i| format!("ProfilerStep#{i}")).collect();
    let mut slices = Vec::new();
    for (i, name) in (0..).zip(&names) {
        let at = 100_000 * i;
        slices.push(("main", SliceKind::Annotation, name.as_str(), at, at + 100_000));
        slices.push(("stream 7", SliceKind::Kernel, "gemm", at, at + 99_900));
    }
    let trace = TraceBuilder::from_slices(&slices).finish();
    let mut harness = harness(vec![trace]);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("No findings").is_some());
    harness.get_by_label_contains("GPU 0 is busy 99.9 % of the time in 8 steps. Kernels compute 99.9 %");
    harness.get_by_label("What was checked").click();
    settle(&mut harness);
    harness.get_by_label_contains("GPU 0, GPU utilization: 99.9 %");
    let harness = super::harness(vec![Trace::default()]);
    assert!(!app(&harness).layout.has_visible_tab("overview"));
}

#[test]
fn causes_of_idle_time_on_a_card_are_those_of_the_findings() {
    let mut harness = harness(vec![memory::sample("nsys_5_steps.sqlite")]);
    wait_for(&mut harness, |harness| {
        harness.query_by_label_contains("Idle by what would end it: Data loading ").is_some()
    });
    harness.get_by_label_contains("Step boundary 0.0 % (3.021 µs)");
    harness.get_by_label("In the 4 judged of 5 steps");
    // The end of a long sentence is its point.
    harness.get_by_label_contains("What would help most: not to wait for data: 14.145 ms once, in step 3; a longer");
}

#[test]
fn a_card_says_which_processes_share_its_device() {
    let (mut slices, mut correlation) = (Vec::new(), Vec::new());
    for (host, start, dur) in [("a", 0, 6_000_000), ("b", 7_000_000, 2_000_000)] {
        for step in 0..8 {
            let (at, id) = (10_000_000 * step, correlation.len() as u32 + 1);
            slices.push((host, SliceKind::Runtime, "cudaLaunchKernel", at, at + 1_000));
            slices.push(("stream 7", SliceKind::Kernel, "gemm", at + start + 5_000, at + start + dur + 5_000));
            correlation.extend([id, id]);
        }
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    builder.tracks[2].process = ProcessId(builder.processes.len() as u32);
    builder.processes.push(Process { name: "serve".to_owned(), ..Process::default() });
    builder.processes[0].name = "train".to_owned();
    let mut harness = harness(vec![builder.finish()]);
    let shared = "2 processes share it: train launched 75.0 % of its work, serve 25.0 %";
    wait_for(&mut harness, |harness| harness.query_by_label(shared).is_some());
}

#[test]
fn under_each_cause_of_idle_time_stands_what_went_on_meanwhile() {
    // In each step the host waits for the device, and launches again 2 ms after that.
    let (mut slices, mut correlation) = (Vec::new(), Vec::new());
    let names: Vec<String> = (0..6).map(|i| format!("ProfilerStep#{i}")).collect();
    for (i, name) in (0..).zip(&names) {
        let (at, ms) = (10_000_000 * i, 1_000_000);
        slices.extend([
            ("main", SliceKind::Annotation, name.as_str(), at, at + 10 * ms),
            ("main", SliceKind::Runtime, "cudaLaunchKernel", at + 100_000, at + 110_000),
            ("main", SliceKind::Runtime, "cudaDeviceSynchronize", at + 200_000, at + 7 * ms),
            ("main", SliceKind::Operator, "aten::select", at + 7 * ms, at + 9 * ms),
            ("main", SliceKind::Runtime, "cudaLaunchKernel", at + 9 * ms, at + 9 * ms + 10_000),
            ("stream 7", SliceKind::Kernel, "a", at + 110_000, at + 6 * ms),
            ("stream 7", SliceKind::Kernel, "b", at + 9 * ms + 20_000, at + 10 * ms),
        ]);
        let id = 2 * i as u32;
        correlation.extend([0, id + 1, 0, 0, id + 2, id + 1, id + 2]);
    }
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = correlation;
    let mut harness = harness(vec![builder.finish()]);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("Idle by what would end it: ").is_some());
    harness.get_by_label_contains("Synchronization 31.3 %; meanwhile:");
    harness.get_by_label("CPU operators 20.0 %");
    harness.get_by_label("Synchronization itself 10.0 %");
    // Recurring gaps have the same two names.
    harness.get_by_label_contains("Recurring gaps (").click();
    settle(&mut harness);
    harness.get_by_label("GPU 0: Synchronization, meanwhile: CPU operators");
}

#[test]
fn leaks_and_steps_of_a_trace_with_its_snapshot_are_in_one_overview() {
    let mut harness = harness(vec![memory::sample("snapshot_leak.pickle"), waiting_for_data()]);
    wait_for(&mut harness, |harness| harness.query_all_by_label_contains("metrics.py:33").next().is_some());
    wait_for(&mut harness, |harness| harness.query_by_label_contains("waits 40").is_some());
    assert!(harness.query_by_label_contains("GPU 0 in ").is_none(), "one file has a device");
    // The time per step is that of the trace.
    harness.get_by_label("Time per step: 10 bars");
    let leak = harness.get_all_by_label_contains("metrics.py:33").next().unwrap().rect().top() - 4.0;
    let links = harness.get_all_by_label("Show").filter(|link| link.rect().top() >= leak);
    links.min_by(|a, b| a.rect().top().total_cmp(&b.rect().top())).unwrap().click_accesskit();
    settle(&mut harness);
    assert!(app(&harness).layout.is_on_screen("leaks"));
    assert_eq!(app(&harness).session().memory.history, Some((0, 0)));
}

/// Where most events are missing, devices are at least so busy, and everything that tells idle time says so.
#[test]
fn idle_time_of_a_recording_that_lacks_its_events_is_told_with_a_reserve() {
    let of = |apart: u32| TraceBuilder::with_numbers_apart(apart).finish();
    let mut harness = harness(vec![of(40)]);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("At least 4.0 % busy").is_some());
    wait_for(&mut harness, |harness| harness.query_by_label_contains("Busy at least 4.0 % of ").is_some());
    assert_eq!(harness.query_all_by_label(LACKS_EVENTS).count(), 1);
    harness.get_by_label_contains("Recurring gaps (").click();
    settle(&mut harness);
    assert_eq!(harness.query_all_by_label(LACKS_EVENTS).count(), 2);
    app_mut(&mut harness).commands.push(Command::Show("gaps"));
    wait_for(&mut harness, |harness| harness.query_by_label_contains("of 99 gaps").is_some());
    harness.get_by_label(LACKS_EVENTS);
    let mut harness = super::harness(vec![of(1)]);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("Overall: busy 4.0 %").is_some());
    assert_eq!(harness.query_all_by_label(LACKS_EVENTS).count(), 0);
}

#[test]
fn a_device_without_steps_is_not_under_a_heading_about_steps() {
    let kernels =
        [0, 4, 6, 8, 12].map(|i| ("stream 7", SliceKind::Kernel, "gemm", i * 1_000_000, i * 1_000_000 + 900_000));
    let without = TraceBuilder::from_slices(&kernels).finish();
    let mut harness = harness(vec![memory::sample("nsys_5_steps.sqlite"), without]);
    wait_for(&mut harness, |harness| harness.query_by_label("in the 4 judged of 5 steps").is_some());
    assert!(harness.query_by_label_contains("In the 4 of 5").is_none());
    harness.get_by_label("from the first to the last work, 12.900 ms");
}

#[test]
fn of_a_few_pieces_of_work_no_share_is_told() {
    let slices = [
        ("main", SliceKind::Runtime, "cudaMemsetAsync", 0, 9_000_000),
        ("stream 7", SliceKind::Memset, "Memset (Device)", 8_000_000, 8_001_000),
        ("stream 7", SliceKind::Memcpy, "Memcpy HtoD", 8_003_000, 8_004_500),
        ("stream 7", SliceKind::Memcpy, "Memcpy HtoD", 8_005_000, 8_005_500),
    ];
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    // On the card and in the heading of the timeline.
    let told = "2 copies, 1 memset: 3.000 µs in 9.000 ms";
    wait_for(&mut harness, |harness| harness.query_all_by_label(told).count() == 2);
    assert!(harness.query_by_label_contains("from the first to the last work").is_none());
    assert!(harness.query_by_label_contains("Exposed copies").is_none());
    app_mut(&mut harness).session.range = Some(TimeRange { start: 8_000_000, end: 8_500_000 });
    wait_for(&mut harness, |harness| harness.query_by_label("3.000 µs of work in the selected range").is_some());
}

#[test]
fn figures_of_a_range_beyond_the_work_say_of_what_time_they_are() {
    let ms = 1_000_000;
    let slices = [
        ("main", SliceKind::Runtime, "cudaLaunchKernel", 0, ms),
        ("stream 7", SliceKind::Kernel, "gemm", 8 * ms, 9 * ms),
        ("stream 7", SliceKind::Kernel, "gemm", 9 * ms, 10 * ms),
        ("stream 7", SliceKind::Kernel, "gemm", 12 * ms, 13 * ms),
        ("stream 7", SliceKind::Kernel, "gemm", 13 * ms, 14 * ms),
        ("stream 7", SliceKind::Memset, "Memset", 14 * ms, 14 * ms + 1),
        ("main", SliceKind::Runtime, "cudaDeviceSynchronize", 14 * ms, 20 * ms),
    ];
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    let mut select = |start, end, text: &str| {
        app_mut(&mut harness).session.range = Some(TimeRange { start: start * ms, end: end * ms });
        wait_for(&mut harness, |harness| harness.query_by_label(text).is_some());
    };
    select(4, 12, "from its first to its last work in the selected range, 4.000 ms");
    select(9, 13, "in the selected range");
    select(15, 20, "No GPU work in the selected range");
}

#[test]
fn steps_that_are_not_judged_look_apart_in_the_chart_and_say_why() {
    let mut harness = harness(vec![waiting_for_data()]);
    wait_for(&mut harness, |harness| harness.query_by_label("Time per step: 10 bars").is_some());
    harness.get_by_label("Faded: not judged");
    let chart = harness.get_by_label("Time per step: 10 bars").rect();
    // The bars are four fifths wide, and beside the first and the last is a twentieth of all.
    let share = |step: f32| (step + 0.4 + 0.05 * 9.8) / (1.1 * 9.8);
    let over = |step: f32| egui::pos2(chart.left() + chart.width() * share(step), chart.center().y);
    for (step, why) in [(0.0, Some("Not judged: the first, ")), (4.0, None), (9.0, Some("Not judged: the last, "))] {
        harness.hover_at(over(step));
        settle(&mut harness);
        let said = texts(&harness);
        assert!(said.iter().any(|text| text.contains(&format!("ProfilerStep#{step}"))), "{step}: {said:?}");
        let not_judged = said.iter().find(|text| text.contains("Not judged: "));
        assert_eq!(not_judged.is_some(), why.is_some(), "{step}: {not_judged:?}");
        assert!(why.is_none_or(|why| not_judged.is_some_and(|text| text.contains(why))), "{step}: {not_judged:?}");
    }
}

#[test]
fn bars_of_a_device_that_completes_each_step_are_from_start_to_start() {
    let chart_of = |late: i64| {
        let names = ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"];
        let of_step = |(name, start): (&'static str, i64)| {
            let (kind, kernel) = (SliceKind::Annotation, start + 300 + late);
            [
                ("main", kind, name, start, start + 1_000),
                ("main", SliceKind::Runtime, "cudaLaunchKernel", start + 100, start + 200),
                ("stream 7", SliceKind::Kernel, "gemm", kernel, kernel + 300),
            ]
        };
        let slices: Vec<_> = names.into_iter().zip((0..).step_by(1_000)).flat_map(of_step).collect();
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = (0..12).map(|i| if i % 3 == 0 { 0 } else { i / 3 + 1 }).collect();
        let mut harness = harness(vec![builder.finish()]);
        wait_for(&mut harness, |harness| harness.query_by_label("Time per step").is_some());
        harness.get_by_label_contains("Each from ").accesskit_node().value().unwrap_or_default()
    };
    assert_eq!(chart_of(0), "Each from start to start on the host");
    assert_eq!(chart_of(600), "Each from completion to completion on this device");
}
