//! Tabs, the layout that is kept, and the tables of views and commands.

use egui_tiles::{Container, Linear, LinearDir};
use serde_json::json;

use super::*;
use crate::model::{Format, TrackId};
use crate::session::OpenTrace;
use crate::settings::OldLayout;
use crate::view::{VIEWS, all_commands};

#[test]
fn every_view_closes_and_comes_back() {
    let mut layout = Layout::default();
    for spec in VIEWS {
        assert!(layout.is_open(spec.id));
        layout.close(spec.id);
        assert!(!layout.is_open(spec.id) && !layout.is_on_screen(spec.id), "{}", spec.id);
    }
    for spec in VIEWS {
        layout.show(spec.id);
        assert_eq!(layout.focused(), Some(spec.id));
    }
    assert_eq!(layout.on_screen().len(), 3, "one of each part of the window");
}

#[test]
fn panels_are_hidden_and_shown_with_what_was_in_front() {
    let mut layout = Layout::default();
    layout.show("leaks");
    layout.toggle(DockArea::Bottom);
    assert!(!layout.is_area_shown(DockArea::Bottom) && !layout.is_on_screen("leaks"));
    layout.toggle(DockArea::Bottom);
    assert!(layout.is_on_screen("leaks"));
    layout.close("details");
    layout.toggle(DockArea::Side);
    assert!(layout.is_on_screen("details"), "a panel whose views are closed opens them");
    layout.toggle(DockArea::Side);
    layout.show("details");
    assert!(layout.is_on_screen("details"), "a command shows a view of a hidden panel");
}

#[test]
fn a_window_that_was_small_for_a_while_gives_its_panels_their_points_back() {
    let mut layout = Layout::default();
    let [large, small] = [egui::vec2(1280.0, 720.0), egui::vec2(640.0, 300.0)];
    let points = |layout: &Layout| {
        ["kernels", "details"].map(|id| {
            let tabs = layout.tree.tiles.parent_of(tile(layout, id)).unwrap();
            let split = layout.tree.tiles.parent_of(tabs).unwrap();
            match layout.tree.tiles.get_container(split).unwrap() {
                Container::Linear(linear) => linear.shares[tabs].round(),
                other => panic!("{other:?}"),
            }
        })
    };
    layout.fit(large);
    assert_eq!(points(&layout), [280.0, 320.0]);
    layout.fit(small);
    assert!(points(&layout)[0] < 200.0);
    layout.fit(large);
    assert_eq!(points(&layout), [280.0, 320.0]);
}

fn tile(layout: &Layout, id: &str) -> egui_tiles::TileId {
    layout.tree.tiles.find_pane(&id.to_owned()).unwrap()
}

#[test]
fn a_panel_is_what_lies_beside_or_below_the_middle() {
    let mut layout = Layout::default();
    let [kernels, details] = ["kernels", "details"].map(|id| tile(&layout, id));
    let [bottom, side] = [kernels, details].map(|tile| layout.tree.tiles.parent_of(tile).unwrap());
    let shown = |layout: &Layout| [DockArea::Side, DockArea::Bottom].map(|area| layout.is_area_shown(area));
    layout.tree.move_tile_to_container(kernels, side, 0, false);
    layout.activate("kernels");
    layout.toggle(DockArea::Bottom);
    assert_eq!((shown(&layout), layout.is_on_screen("kernels")), ([true, false], true));
    layout.toggle(DockArea::Bottom);
    layout.toggle(DockArea::Side);
    assert_eq!((shown(&layout), layout.is_on_screen("kernels")), ([false, true], false));
    layout.close("marks");
    layout.show("marks");
    assert_eq!(layout.tree.tiles.parent_of(tile(&layout, "marks")), Some(bottom));
    // With nothing left beside the middle, its views come back from where they were dragged to.
    for moved in [kernels, details] {
        layout.tree.move_tile_to_container(moved, bottom, 0, false);
    }
    assert_eq!(shown(&layout), [false, true]);
    layout.toggle(DockArea::Side);
    assert_eq!(shown(&layout), [true, true]);
    assert_ne!(layout.tree.tiles.parent_of(tile(&layout, "details")), Some(bottom));
    assert_eq!(layout.tree.tiles.parent_of(kernels), Some(bottom));
}

#[test]
fn a_view_is_in_sight_where_its_tab_can_be_seen() {
    let mut layout = Layout::default();
    assert!(layout.is_in_sight("details") && layout.is_in_sight("memory"), "also behind another tab");
    layout.toggle(DockArea::Side);
    assert!(!layout.is_in_sight("details"), "its panel is hidden");
    layout.show("details");
    assert!(layout.is_in_sight("details"));
    let trace = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", 0, 9)]).finish();
    layout.follow(&[OpenTrace::new(trace, 0)]);
    assert!(layout.is_in_sight("timeline") && !layout.is_in_sight("memory"), "it has nothing to show");
    layout.close("timeline");
    assert!(!layout.is_in_sight("timeline"));
}

#[test]
fn the_tab_in_front_is_in_sight() {
    let mut harness = harness(vec![super::memory::sample("nsys_5_steps.sqlite")]);
    for width in [1_280.0, 640.0] {
        harness.set_size([width, 700.0].into());
        let bottom: Vec<_> = VIEWS.iter().filter(|spec| spec.area == DockArea::Bottom).collect();
        // To the right, and back in larger leaps, hidden and shown again on the way.
        let leaps = bottom.iter().rev().step_by(4).map(|spec| (spec, 3));
        for (spec, n_looks) in bottom.iter().map(|spec| (spec, 1)).chain(leaps) {
            app_mut(&mut harness).commands.push(Command::Show(spec.id));
            let toggle = || Some(Command::ToggleBottomPanel);
            for command in [None, toggle(), toggle()].into_iter().take(n_looks) {
                app_mut(&mut harness).commands.extend(command);
                settle(&mut harness);
                let layout = &app(&harness).layout;
                let tab = harness.ctx.read_response(tile(layout, spec.id).egui_id(layout.tree.id()));
                let is_cut = tab.is_some_and(|tab| tab.rect.width() - tab.interact_rect.width() > 1.0);
                assert!(!layout.is_on_screen(spec.id) || !is_cut, "{} at {width} points", spec.id);
            }
        }
    }
}

#[test]
fn a_layout_is_kept_and_a_broken_one_is_refused() {
    let mut layout = Layout::default();
    layout.close("marks");
    layout.show("leaks");
    let saved = layout.save();
    let restored = Layout::restore(&saved).unwrap();
    assert_eq!(restored.tree.tiles, layout.tree.tiles);
    assert!(restored.is_on_screen("leaks") && !restored.is_open("marks"));
    let broken = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut saved = saved.clone();
        change(&mut saved);
        Layout::restore(&saved)
    };
    assert!(Layout::restore(&json!(null)).is_none());
    assert!(Layout::restore(&json!({"root": 5, "tiles": 7})).is_none());
    assert!(broken(&|saved| saved["root"] = json!(4_000)).is_none());
    let text = saved.to_string().replace("\"leaks\"", "\"of a later version\"");
    // A version that did not know the leaks: they open in their place, and its other view is dropped.
    let later = Layout::restore(&serde_json::from_str(&text).unwrap()).unwrap();
    assert!(later.is_open("leaks") && later.is_open("kernels") && !later.is_open("marks"));
    assert_eq!(later.tree.tiles.len(), restored.tree.tiles.len());
}

#[test]
fn the_panels_of_older_versions_become_the_matching_layout() {
    #[derive(Default)]
    struct Store(String);
    impl eframe::Storage for Store {
        fn get_string(&self, _key: &str) -> Option<String> {
            Some(self.0.clone())
        }
        fn set_string(&mut self, _key: &str, value: String) {
            self.0 = value;
        }
        fn remove_string(&mut self, _key: &str) {}
        fn flush(&mut self) {}
    }
    let old = "(theme:Light,scale:1.2,recent:[\"/a.json\"],is_side_open:false,is_bottom_open:true,center_tab:MemoryState,\
               bottom_tab:LiveMemory,nsys:None,timeline:(collapsed:[\"x\"],pinned:[\"p\"],hidden:[],order:{},\
               label_width:250.0,wheel_zooms:true))";
    let mut store = Store(old.to_owned());
    let (settings, old) = Settings::load_old(Some(&store));
    assert_eq!((settings.theme, settings.scale, settings.wheel_zooms), (ThemeChoice::Light, 1.2, true));
    assert_eq!(settings.views["timeline"]["pinned"], json!(["p"]));
    let layout = Layout::of_old(&old);
    assert!(!layout.is_area_shown(DockArea::Side) && layout.is_area_shown(DockArea::Bottom));
    assert!(layout.is_on_screen("memory-state") && layout.is_on_screen("live-memory"));

    // What this version stores comes back, and a broken layout harms nothing else.
    let mut app = App::new(&Context::default(), settings, &old, Vec::new(), Options::default());
    app.layout.close("marks");
    eframe::set_value(&mut store, Settings::KEY, &app.settings());
    let (settings, old) = Settings::load_old(Some(&store));
    assert_eq!((&settings, &old), (&app.settings(), &OldLayout::default()));
    assert!(!Layout::restore(&settings.layout).unwrap().is_open("marks"));
    let broken = Settings { layout: json!({"root": "x"}), ..settings.clone() };
    eframe::set_value(&mut store, Settings::KEY, &broken);
    let (settings, old) = Settings::load_old(Some(&store));
    let app = App::new(&Context::default(), settings, &old, Vec::new(), Options::default());
    assert!(app.layout.is_open("marks") && app.settings.wheel_zooms);
}

#[test]
fn a_stored_layout_with_wrong_references_keeps_each_view_once() {
    let saved = Layout::default().save();
    let tiles = saved["tiles"]["tiles"].as_object().unwrap();
    let id_of = |view: &str| tiles.iter().find(|(_, tile)| tile["Pane"] == view).unwrap().0.clone();
    let with = |change: &dyn Fn(&mut serde_json::Map<String, serde_json::Value>)| {
        let mut saved = saved.clone();
        change(saved["tiles"]["tiles"].as_object_mut().unwrap());
        let mut layout = Layout::restore(&saved).unwrap();
        layout.fit(egui::vec2(1280.0, 720.0));
        layout
    };
    let twice = with(&|tiles| tiles[&id_of("leaks")]["Pane"] = json!("kernels"));
    assert_eq!(
        twice.tree.tiles.tiles().filter(|tile| matches!(tile, egui_tiles::Tile::Pane(id) if id == "kernels")).count(),
        1
    );
    let missing = with(&|tiles| _ = tiles.remove(&id_of("marks")));
    assert!(!missing.is_open("marks") && missing.is_open("kernels"));
    // A container that holds itself or the root.
    let root: u64 = saved["root"].as_u64().unwrap();
    let cyclic = with(&|tiles| {
        for tile in tiles.values_mut() {
            if let Some(children) =
                tile.pointer_mut("/Container/Tabs/children").and_then(|children| children.as_array_mut())
            {
                children.push(json!(root));
            }
        }
    });
    assert!(cyclic.is_open("kernels"));
}

#[test]
fn beside_and_below_the_middle_sizes_stay_when_the_window_changes() {
    let mut harness = harness(vec![trace()]);
    let sizes = |harness: &Harness<'_, Option<App>>| {
        let layout = &app(harness).layout;
        let size = |view| layout.tree.tiles.rect(tile(layout, view)).unwrap().size();
        (size("details").x.round(), size("overview").y.round())
    };
    let first = sizes(&harness);
    // The tab bar is part of the 280 points.
    assert_eq!(first, (320.0, 254.0));
    for size in [[2_560.0, 1_440.0], [1_280.0, 720.0], [30.0, 20.0], [1_920.0, 1_080.0]] {
        harness.set_size(size.into());
        settle(&mut harness);
        assert!(size[0] < 100.0 || sizes(&harness) == first, "{size:?}: {:?}", sizes(&harness));
    }
    app_mut(&mut harness).layout.toggle(DockArea::Side);
    settle(&mut harness);
    app_mut(&mut harness).layout.toggle(DockArea::Side);
    settle(&mut harness);
    assert_eq!(sizes(&harness), first);
}

#[test]
fn the_middle_keeps_its_part_above_two_rows_of_groups() {
    let mut layout = Layout::default();
    let [center, problems] = ["timeline", "problems"].map(|id| tile(&layout, id));
    let tree = &mut layout.tree;
    let (center, group) = (tree.tiles.parent_of(center).unwrap(), tree.tiles.insert_tab_tile(Vec::new()));
    let mut rows = Linear::new(LinearDir::Vertical, vec![tree.root.unwrap(), group]);
    rows.shares.set_share(tree.root.unwrap(), 700.0);
    rows.shares.set_share(group, 700.0);
    tree.root = Some(tree.tiles.insert_container(rows));
    tree.move_tile_to_container(problems, group, 0, false);
    layout.fit(egui::vec2(1280.0, 720.0));
    let tiles = &layout.tree.tiles;
    let Some(Container::Linear(split)) = tiles.get_container(tiles.parent_of(center).unwrap()) else { panic!() };
    assert_eq!(split.shares[center].round(), 216.0, "30 % of the height");
}

#[test]
fn tables_follow_the_view_in_the_middle() {
    let mut harness = harness(vec![super::memory::sample("nsys_5_steps.sqlite")]);
    let mut tabs = |id: &'static str, open: [bool; 3]| {
        app_mut(&mut harness).commands.push(Command::Show(id));
        settle(&mut harness);
        let shown = ["kernels", "marks", "leaks"].map(|id| app(&harness).layout.has_visible_tab(id));
        assert_eq!(shown, open, "after {id}");
    };
    tabs("timeline", [true, true, false]);
    tabs("memory", [false, true, true]);
    tabs("kernels", [true, true, true]);
    tabs("timeline", [true, true, false]);
    tabs("leaks", [true, true, true]);
    tabs("memory-state", [false, true, true]);
    tabs("timeline", [true, true, true]);
    tabs("marks", [true, true, false]);
    // All are in the menu of the group.
    harness.get_by_label("All tabs of this group").click();
    settle(&mut harness);
    harness.get_by_label("Leaks").click();
    settle(&mut harness);
    assert!(app(&harness).layout.is_on_screen("leaks"));
}

#[test]
fn two_files_of_one_kind_have_a_tab_to_compare_them() {
    let sample = super::memory::sample;
    for (files, has_tab) in [
        (vec!["snapshot_oom.pickle"], false),
        (vec!["snapshot_oom.pickle", "snapshot_leak.pickle"], true),
        (vec!["nsys_5_steps.sqlite"], false),
    ] {
        let harness = harness(files.iter().copied().map(sample).collect());
        assert_eq!(app(&harness).layout.has_visible_tab("compare"), has_tab, "{files:?}");
    }
}

#[test]
fn a_view_that_was_closed_still_has_what_was_typed() {
    let mut harness = harness(vec![trace()]);
    harness.key_press(Key::Slash);
    settle(&mut harness);
    type_text(&mut harness, "aten");
    app_mut(&mut harness).commands.push(Command::CloseView);
    settle(&mut harness);
    assert!(!app(&harness).layout.is_open("search"));
    app_mut(&mut harness).commands.push(Command::Show("search"));
    settle(&mut harness);
    wait_for(&mut harness, |harness| harness.query_by_label("2 slices").is_some());
}

#[test]
fn every_command_is_handled() {
    // Without `SaveText`, which opens a dialog of the system.
    let with_values = [
        Command::OpenPath("/no/such/file".into()),
        Command::CloseTraceAt(0),
        Command::CloseFile("/no/such/file".into()),
        Command::ListEvents(0, TrackId(0)),
        Command::ListAllocations(TimeRange { start: 0, end: 1 }),
    ];
    for command in all_commands().iter().map(|spec| spec.command.clone()).chain(with_values) {
        let ctx = Context::default();
        let mut app =
            App::with_traces(&ctx, Settings::default(), vec![trace(), super::memory::sample("snapshot_leak.pickle")]);
        app.session.selection = Selection::Slice { trace: 0, slice: SliceId(0) };
        assert!(app.run(&ctx, command.clone()), "nothing handles {command:?}");
    }
}

#[test]
fn every_view_survives_whatever_is_open_at_every_size() {
    let sample = super::memory::sample;
    let contents: [&dyn Fn() -> Vec<Trace>; 7] = [
        &Vec::new,
        &|| vec![Trace::default()],
        &|| vec![trace()],
        &|| vec![trace(), sample("snapshot_oom.pickle")],
        &|| vec![sample("snapshot_leak.pickle")],
        &|| vec![sample("kineto_10_steps.json.gz")],
        &|| vec![sample("nsys_5_steps.sqlite")],
    ];
    for make in contents {
        for is_dark in [false, true] {
            let ctx = Context::default();
            let mut app = App::with_traces(&ctx, Settings::default(), make());
            let mut commands = Vec::new();
            for slot in app.views.iter_mut() {
                for size in [[0.0, 0.0], [1.0, 1.0], [1.0, 900.0], [640.0, 240.0], [10_000.0, 5_000.0]] {
                    let screen_rect = Some(egui::Rect::from_min_size(Pos2::ZERO, size.into()));
                    for _ in 0..2 {
                        let input = RawInput { screen_rect, ..Default::default() };
                        let mut view = ViewContext::new(&mut app.session, &app.answers, is_dark, &mut commands);
                        let output = ctx.run_ui(input, |ui| {
                            slot.view.update(&mut view, ui.ctx());
                            slot.view.ui(&mut view, ui);
                        });
                        output.drop_without_applying_deltas();
                    }
                }
            }
        }
    }
}

#[test]
fn a_tab_is_closed_by_its_cross_and_comes_back_by_the_menu() {
    let mut harness = harness(vec![trace()]);
    let at_end = harness.get_by_label("Marks").rect().right_center() - egui::vec2(8.0, 0.0);
    let click = |harness: &mut Harness<'_, Option<App>>, pos| {
        for pressed in [true, false] {
            let (button, modifiers) = (PointerButton::Primary, Modifiers::NONE);
            harness.event(Event::PointerMoved(pos));
            harness.event(Event::PointerButton { pos, button, pressed, modifiers });
            harness.step();
        }
        settle(harness);
    };
    // The tab is behind others and shows no cross: this brings it to the front.
    harness.get_by_label("Marks").hover();
    settle(&mut harness);
    click(&mut harness, at_end);
    harness.get_by_label("No marks");
    let marks = harness.get_by_label("Marks").rect();
    let crosses = harness.query_all_by_label("Close view");
    let cross = crosses.map(|node| node.rect().center()).find(|at| marks.contains(*at)).unwrap();
    click(&mut harness, cross);
    assert!(!app(&harness).layout.is_open("marks") && harness.query_by_label("Marks").is_none());
    app_mut(&mut harness).commands.push(Command::Show("marks"));
    settle(&mut harness);
    harness.get_by_label("No marks");
}

#[test]
fn a_file_with_nothing_to_draw_opens_on_what_is_told_of_it() {
    let empty = || {
        let mut trace = TraceBuilder::from_slices(&[]).finish();
        trace.import.note(Severity::Note, "It is empty", 1, None);
        trace
    };
    let mut layout = Layout::default();
    layout.suit(Session::of(vec![empty()]).traces());
    assert!(layout.is_on_screen("timeline") && layout.is_on_screen("problems"));
    layout.suit(Session::of(vec![empty(), trace()]).traces());
    assert!(layout.is_on_screen("overview"));
    let harness = harness(vec![empty()]);
    harness.get_by_label("Nothing in this file can be drawn");
    assert!(harness.query_by_label_contains("visible").is_none(), "there is no time");
    assert!(harness.query_by_label("Nothing is selected").is_none(), "there is nothing to select");
}

#[test]
fn a_log_that_is_read_before_its_trace_leaves_the_overview_in_front() {
    let of = |format: Format, slices: &[(&str, SliceKind, &str, i64, i64)]| {
        let mut builder = TraceBuilder::from_slices(slices);
        builder.info.format = format;
        builder.finish()
    };
    let log = || of(Format::GpuMetrics, &[]);
    let snapshot = || of(Format::Snapshot, &[("main", SliceKind::Annotation, "ProfilerStep#1", 0, 1)]);
    let orders: [&[&dyn Fn() -> Trace]; 4] = [&[&log], &[&log, &trace], &[&trace, &log], &[&log, &snapshot, &trace]];
    for order in orders {
        let mut layout = Layout::default();
        for n in 1..=order.len() {
            let session = Session::of(order[..n].iter().map(|make| make()).collect());
            layout.suit(session.traces());
        }
        assert!(layout.is_on_screen("overview"), "{} files", order.len());
    }
}

#[test]
fn memory_with_a_log_of_its_gpu_opens_as_memory_alone_does() {
    let log = || {
        let mut builder = TraceBuilder::from_slices(&[]);
        builder.info.format = Format::GpuMetrics;
        builder.finish()
    };
    let snapshot = || memory::sample("snapshot_leak.pickle");
    for traces in [vec![snapshot()], vec![snapshot(), log()], vec![log(), snapshot()]] {
        let mut layout = Layout::default();
        let n = traces.len();
        layout.suit(Session::of(traces).traces());
        assert!(layout.is_on_screen("memory") && layout.is_on_screen("memory-places"), "{n} files");
    }
}
