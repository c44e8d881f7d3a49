//! Ways from slice to slice and from gap to gap, to the folded and to the launch.

use super::*;

/// G, until the gaps are known.
fn go_to_first_gap(harness: &mut Harness<'_, Fixture<Timeline>>) {
    let started = std::time::Instant::now();
    while !matches!(harness.state().session.selection, Selection::Gap { .. }) {
        assert!(started.elapsed().as_secs() < 60, "no gap is found");
        harness.state_mut().run(&Command::NextGap);
        harness.step();
    }
    harness.run();
}

#[test]
fn commands_walk_from_slice_to_slice() {
    let mut fixture = Fixture::new(vec![small()], Timeline::default());
    fixture.session.selection = Selection::Slice { trace: 0, slice: SliceId(2) };
    fixture.run(&Command::FollowFlowBack);
    assert_eq!(fixture.selected_name(), "cudaLaunchKernel");
    fixture.run(&Command::ParentSlice);
    assert_eq!(fixture.selected_name(), "aten::mm");
    fixture.run(&Command::ChildSlice);
    fixture.run(&Command::FollowFlow);
    assert_eq!(fixture.selected_name(), "gemm");
    while !matches!(fixture.session.selection, Selection::Gap { .. }) {
        fixture.run(&Command::NextGap);
        std::thread::yield_now();
    }
    let gap = TimeRange { start: 700_000, end: 800_000 };
    assert_eq!(fixture.session.selection, Selection::Gap { trace: 0, process: ProcessId(1), time: gap });
    let said = |fixture: &Fixture<Timeline>| match fixture.commands.last() {
        Some(Command::Say(text)) => *text,
        _ => "",
    };
    assert!(said(&fixture).starts_with("The longest gap of this device. G goes on"), "{}", said(&fixture));
    // In a range it is the longest there.
    fixture.session.selection = Selection::None;
    fixture.session.range = Some(TimeRange { start: 600_000, end: 900_000 });
    fixture.run(&Command::NextGap);
    assert!(said(&fixture).starts_with("The longest gap of this device in the selected range."), "{}", said(&fixture));
    fixture.session.range = None;
    fixture.run(&Command::PreviousSlice);
    assert_eq!(fixture.selected_name(), "gemm");
    fixture.run(&Command::NextGap);
    fixture.run(&Command::NextSlice);
    assert_eq!(fixture.selected_name(), "relu");
    fixture.run(&Command::RangeFromSelection);
    assert_eq!(fixture.session.range, Some(TimeRange { start: 800_000, end: 1_000_000 }));
    fixture.run(&Command::MarkRange);
    fixture.run(&Command::MarkMoment);
    assert_eq!(fixture.session.marks.len(), 2);
    fixture.run(&Command::FocusSelection);
    assert_eq!((fixture.session.navigation.visible().start + fixture.session.navigation.visible().end) / 2, 900_000);
    fixture.run(&Command::FocusSelection);
    assert_eq!(fixture.session.navigation.visible(), TimeRange { start: 780_000, end: 1_020_000 });
    fixture.run(&Command::Deselect);
    assert_eq!((fixture.session.selection, fixture.session.range.is_some()), (Selection::None, true));
    fixture.run(&Command::Deselect);
    assert_eq!(fixture.session.range, None);
    assert!(!fixture.with(|timeline, ctx| timeline.run(&Command::Quit, ctx)));
}

#[test]
fn without_a_selection_a_walk_begins_at_an_end_of_what_is_in_view() {
    let times = [0, 100, 200, 300, 400].map(|start| start * 1_000);
    let slices: Vec<_> = times.iter().map(|&start| ("stream 7", KERNEL, "gemm", start, start + 50_000)).collect();
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    for (view, command, start) in [
        ((0, 450_000), Command::NextSlice, 0),
        ((0, 450_000), Command::PreviousSlice, 400_000),
        ((80_000, 320_000), Command::NextSlice, 100_000),
        ((80_000, 320_000), Command::PreviousSlice, 300_000),
    ] {
        harness.state_mut().session.selection = Selection::None;
        harness.state_mut().session.navigation.go(TimeRange { start: view.0, end: view.1 });
        harness.run();
        harness.state_mut().run(&command);
        let Selection::Slice { slice, .. } = harness.state().session.selection else {
            panic!("{command:?} in {view:?}")
        };
        assert_eq!(harness.state().session.traces()[0].trace.slices.ts[slice.idx()], start, "{command:?} in {view:?}");
    }
}

#[test]
fn a_group_that_was_unfolded_for_a_gap_is_folded_again_when_the_user_leaves_it() {
    let mut harness = harness(vec![small()]);
    harness.state_mut().run(&Command::CollapseAll);
    harness.run();
    let is_open = |harness: &Harness<'_, Fixture<Timeline>>| harness.query_by_label("Pin stream 7").is_some();
    assert!(!is_open(&harness));
    go_to_first_gap(&mut harness);
    assert!(is_open(&harness));
    let kept = harness.state().view.save();
    // Work of the device does not go from under the pointer.
    harness.state_mut().run(&Command::NextSlice);
    harness.run();
    assert_eq!((harness.state().selected_name(), is_open(&harness)), ("relu", true));
    harness.state_mut().run(&Command::Deselect);
    harness.run();
    assert!(!is_open(&harness));
    assert_eq!(harness.state().view.save(), kept, "what is kept is what the user arranged");
    // What the user unfolds stays.
    harness.get_by_label("Expand GPU 0").click();
    harness.run();
    go_to_first_gap(&mut harness);
    harness.state_mut().run(&Command::Deselect);
    harness.run();
    assert!(is_open(&harness));
}

#[test]
fn every_step_from_gap_to_gap_says_its_order() {
    let kernels = [(0, 100_000), (300_000, 400_000), (900_000, 1_000_000)];
    let slices: Vec<_> = kernels.iter().map(|&(ts, end)| ("stream 7", KERNEL, "gemm", ts, end)).collect();
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    go_to_first_gap(&mut harness);
    let said = |harness: &mut Harness<'_, Fixture<Timeline>>, command: Command| {
        harness.state_mut().commands.clear();
        harness.state_mut().run(&command);
        match harness.state().commands.last() {
            Some(Command::Say(text)) => *text,
            _ => "",
        }
    };
    let forward = said(&mut harness, Command::NextGap);
    assert_eq!(forward, "By duration: the next longest gap of this device. The Gaps view sets the order of G");
    let back = said(&mut harness, Command::PreviousGap);
    assert_eq!(back, "By duration: the next longer gap of this device. The Gaps view sets the order of G");
    harness.state_mut().session.gap_order = GapOrder::Time;
    let back = said(&mut harness, Command::PreviousGap);
    assert_eq!(back, "Along time: the gap of this device before. The Gaps view sets the order of G");
}

#[test]
fn arrows_lead_from_a_gap_to_what_ended_it_and_to_its_launch() {
    let mut builder = TraceBuilder::from_slices(&[
        ("main", SliceKind::Runtime, "cudaLaunchKernel", 0, 10_000),
        ("main", SliceKind::Runtime, "cudaGraphLaunch", 700_000, 720_000),
        ("stream 7", SliceKind::Kernel, "gemm", 100_000, 500_000),
        ("stream 7", SliceKind::Kernel, "relu", 800_000, 900_000),
    ]);
    builder.slices[0].correlation = vec![1, 2, 1, 2];
    let mut fixture = Fixture::new(vec![builder.finish()], Timeline::default());
    let select = |fixture: &mut Fixture<Timeline>| {
        fixture.session.selection = Selection::None;
        let started = std::time::Instant::now();
        while !matches!(fixture.session.selection, Selection::Gap { .. }) {
            assert!(started.elapsed().as_secs() < 60, "no gap is found");
            fixture.run(&Command::NextGap);
            std::thread::yield_now();
        }
    };
    select(&mut fixture);
    fixture.run(&Command::FollowFlow);
    assert_eq!(fixture.selected_name(), "relu");
    select(&mut fixture);
    fixture.run(&Command::FollowFlowBack);
    assert_eq!(fixture.selected_name(), "cudaGraphLaunch");
}

#[test]
fn the_strip_of_a_device_tells_and_selects_its_gaps() {
    let mut harness = harness(vec![small()]);
    let is_known =
        |harness: &Harness<'_, Fixture<Timeline>>| harness.query_by_label_contains(": 500.000 µs in ").is_some();
    for _ in 0..1_000 {
        harness.step();
        if is_known(&harness) {
            break;
        }
        std::thread::yield_now();
    }
    assert!(is_known(&harness), "500 µs of work are too few pieces for a share");
    for is_collapsed in [false, true] {
        if is_collapsed {
            harness.state_mut().run(&Command::CollapseAll);
            harness.run();
        }
        let canvas = harness.get_by_label("Timeline canvas").rect();
        let fixture = harness.state();
        let line = fixture.view.tracks.scrolled.iter().find(|line| line.title == "GPU 0").unwrap();
        let view = fixture.session.navigation.visible();
        let share = (750_000 - view.start) as f32 / view.dur() as f32;
        let at = Pos2::new(canvas.left() + share * canvas.width(), canvas.top() + line.y as f32 + 26.0);
        harness.event(Event::PointerMoved(at));
        harness.run_steps(3);
        harness.get_by_label_contains("Idle for 100.000 µs");
        harness.get_by_label("After gemm");
        harness.get_by_label("Before relu");
        click(&mut harness, at);
        click(&mut harness, at);
        let gap = TimeRange { start: 700_000, end: 800_000 };
        let session = &harness.state().session;
        assert_eq!(session.selection, Selection::Gap { trace: 0, process: ProcessId(1), time: gap });
        assert!(session.navigation.visible().dur() < 150_000, "a double click zooms to it");
        harness.state_mut().session.selection = Selection::None;
        harness.state_mut().run(&Command::ZoomToFit);
        // Or the next click would be the third in a row.
        harness.run_steps(60);
    }
}

#[test]
fn a_slice_in_a_collapsed_group_is_revealed() {
    let mut harness = harness(vec![small()]);
    harness.state_mut().run(&Command::CollapseAll);
    harness.run();
    assert!(harness.query_by_label("Pin stream 7").is_none());
    harness.state_mut().session.navigation.go(TimeRange { start: 0, end: 1000 });
    harness.state_mut().with(|timeline, ctx| timeline.reveal(ctx, 0, SliceId(3)));
    harness.run();
    harness.get_by_label("Pin stream 7");
    assert!(harness.state().session.navigation.visible().contains(900_000));
    assert_eq!(harness.state().selected_name(), "relu");
}

#[test]
fn the_line_of_processes_that_launch_nothing_unfolds_only_for_what_is_in_it() {
    let rank = || {
        let slices =
            [("main", OP, "op", 0, 100), ("main", CALL, "cudaLaunchKernel", 10, 20), ("spans", OP, "step", 0, 90)];
        let slices = [&slices[..], &[("traces", OP, "x", 0, 9), ("stream 7", KERNEL, "gemm", 20, 90)]].concat();
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.slices[0].correlation = vec![0, 5, 0, 0, 5];
        for name in ["spans", "traces"] {
            let process = ProcessId(builder.processes.len() as u32);
            builder.processes.push(crate::model::Process { name: name.to_owned(), ..Default::default() });
            builder.tracks.iter_mut().filter(|track| track.name == name).for_each(|track| track.process = process);
        }
        builder.finish()
    };
    let mut harness = harness(vec![rank(), rank()]);
    let mut shown_after = |name: &str, is_collapsed: bool| {
        let fixture = harness.state_mut();
        let open = fixture.session.traces()[1].clone();
        if is_collapsed {
            fixture.view.settings.collapsed.insert(open.id.to_string());
            fixture.view.is_stale = true;
        }
        let slices = &open.trace.slices;
        let found =
            (0..slices.len() as u32).map(SliceId).find(|&id| open.trace.strings.get(slices.name[id.idx()]) == name);
        fixture.with(|timeline, ctx| timeline.reveal(ctx, 1, found.unwrap()));
        harness.run();
        let lines = &harness.state().view.tracks.scrolled;
        lines.iter().filter(|line| line.title.starts_with("spans")).map(|line| line.trace).collect::<Vec<_>>()
    };
    assert!(shown_after("gemm", false).is_empty() && shown_after("gemm", true).is_empty());
    assert_eq!(shown_after("step", true), [1, 1], "the process and its thread, of the second rank alone");
}

#[test]
fn without_a_selection_the_longest_gap_of_all_devices_comes_first() {
    let kernels = |gap: i64| {
        let second = 500_000 + gap;
        TraceBuilder::from_slices(&[
            ("stream 7", SliceKind::Kernel, "gemm", 0, 500_000),
            ("stream 7", SliceKind::Kernel, "relu", second, second + 100_000),
        ])
        .finish()
    };
    let mut fixture = Fixture::new(vec![kernels(20_000), kernels(300_000), kernels(100_000)], Timeline::default());
    let started = std::time::Instant::now();
    while !matches!(fixture.session.selection, Selection::Gap { .. }) {
        assert!(started.elapsed().as_secs() < 60, "no gap is found");
        fixture.run(&Command::NextGap);
        std::thread::yield_now();
    }
    let Selection::Gap { trace, time, .. } = fixture.session.selection else { unreachable!() };
    assert_eq!((trace, time.dur()), (1, 300_000));
}

#[test]
fn a_gap_is_shown_with_the_slice_in_which_the_host_was_however_deep() {
    let python = SliceKind::PythonFunction;
    let mut slices = vec![("main", python, "runpy.py(1): run", 0, 1_000_000); 30];
    slices
        .extend((0..40).flat_map(|_| {
            (0..4).map(|i| ("main", python, "nn.py(1): _call_impl", 250_000 * i, 250_000 * i + 240_000))
        }));
    slices.push(("main", python, "train.py(7): prepare", 510_000, 700_000));
    slices.push(("main", CALL, "cudaLaunchKernel", 0, 1_000));
    slices.push(("main", CALL, "cudaLaunchKernel", 710_000, 711_000));
    slices.push(("stream 7", KERNEL, "gemm", 1_000, 500_000));
    slices.push(("stream 7", KERNEL, "relu", 712_000, 900_000));
    let n = slices.len();
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = vec![0; n];
    for (at, id) in [(n - 4, 1), (n - 3, 2), (n - 2, 1), (n - 1, 2)] {
        builder.slices[0].correlation[at] = id;
    }
    let mut harness = harness(vec![builder.finish()]);
    let main = |harness: &Harness<'_, Fixture<Timeline>>| {
        let lines = &harness.state().view.tracks.scrolled;
        lines.iter().find(|line| line.title.starts_with("main")).unwrap().rows()
    };
    assert_eq!(main(&harness), 30..50);
    go_to_first_gap(&mut harness);
    assert_eq!(main(&harness), 0..71, "it is in an inner row");
    let trace = &harness.state().session.traces()[0].trace;
    let names = (0..trace.slices.len() as u32).map(SliceId);
    let prepare = names.into_iter().find(|&id| trace.slice_name(id).starts_with("train.py")).unwrap();
    let at = place(&harness, "main", prepare.0).y - harness.state().view.scroll[1] as f32;
    let canvas = harness.get_by_label("Timeline canvas").rect();
    assert!(canvas.y_range().contains(at), "{at} is outside of {canvas:?}");
}

#[test]
fn a_gap_stays_on_screen_with_what_of_the_host_fits_beside_it() {
    let python = SliceKind::PythonFunction;
    let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    let mut slices = vec![
        ("stream 7", KERNEL, "gemm", 1_000, 500_000),
        ("stream 7", KERNEL, "relu", 712_000, 900_000),
        ("main", CALL, "cudaLaunchKernel", 0, 1_000),
        ("main", CALL, "cudaLaunchKernel", 710_000, 711_000),
        ("main", SliceKind::Annotation, loader, 502_000, 700_000),
    ];
    slices.extend((0..18).map(|_| ("main", python, "torch/utils.py(1): f", 503_000, 699_000)));
    let mut builder = TraceBuilder::from_slices(&slices);
    builder.slices[0].correlation = vec![0; slices.len()];
    builder.slices[0].correlation[..4].copy_from_slice(&[1, 2, 1, 2]);
    // As PyTorch's profiler sorts them, the device comes first.
    builder.processes.iter_mut().for_each(|process| process.sort_index *= -1);
    let mut harness = harness(vec![builder.finish()]);
    harness.set_size(vec2(1200.0, 200.0));
    harness.run();
    go_to_first_gap(&mut harness);
    let view = &harness.state().view;
    let device = view.tracks.scrolled.iter().find(|line| line.has_strip()).unwrap();
    let main = view.tracks.scrolled.iter().find(|line| line.title.starts_with("main")).unwrap();
    let canvas = harness.get_by_label("Timeline canvas").rect();
    let bottom = |rows: f32| main.y + f64::from(rows * main.row_height) - view.scroll[1];
    let height = f64::from(canvas.height());
    assert!(bottom(19.0) > height && device.y < main.y, "the innermost function is further down than fits");
    assert!((0.0..height).contains(&bottom(1.0)) && device.y >= view.scroll[1], "the loader and the gap do");
}

#[test]
fn rows_are_folded_where_it_is_said_and_the_name_stays_while_they_scroll() {
    let python = SliceKind::PythonFunction;
    let mut slices = vec![("main", python, "runpy.py(1): run", 0, 1_000_000); 10];
    slices.extend(
        (0..60).flat_map(|_| (0..4).map(|i| ("main", python, "nn.py(1): f", 250_000 * i, 250_000 * i + 240_000))),
    );
    let mut harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    let [unfold, fold] = ["Unfold", "Fold"].map(|verb| format!("{verb} 10 outer, 40 inner rows of main"));
    let rows = |harness: &Harness<'_, Fixture<Timeline>>| harness.state().view.tracks.scrolled[1].rows();
    assert_eq!(rows(&harness), 10..30);
    let place = harness.get_by_label(&unfold).rect();
    let canvas = harness.get_by_label("Timeline canvas").rect();
    assert!(place.top() < canvas.top() + 100.0, "it is said at the top");
    harness.get_by_label(&unfold).click();
    harness.run();
    assert_eq!((rows(&harness), harness.get_by_label(&fold).rect()), (0..70, place));
    harness.state_mut().view.scroll[1] = 700.0;
    harness.run();
    let name = harness.get_by_label("Collapse main").rect();
    assert!(canvas.y_range().contains(name.center().y), "{name:?} is outside of {canvas:?}");
    harness.get_by_label(&fold).click();
    harness.run();
    assert_eq!(rows(&harness), 10..30);
    harness.state_mut().run(&Command::UnfoldRows);
    harness.run();
    assert_eq!(rows(&harness), 0..70);
    harness.state_mut().run(&Command::FoldRows);
    harness.run();
    assert_eq!(rows(&harness), 10..30);
}
