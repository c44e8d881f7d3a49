//! Every edge between panels and every column can be dragged, and stays where it was left.

use eframe::egui::{CursorIcon, Rect, Shape, pos2, vec2};

use super::memory::{is_pending, sample};
use super::*;
use crate::app::panels::GAP;

fn move_to(harness: &mut Harness<'_, Option<App>>, at: Pos2) {
    harness.event(Event::PointerMoved(at));
    harness.step();
}

fn drag(harness: &mut Harness<'_, Option<App>>, from: Pos2, by: egui::Vec2) {
    let modifiers = Modifiers::NONE;
    let button = |pos, pressed| Event::PointerButton { pos, button: PointerButton::Primary, pressed, modifiers };
    move_to(harness, from);
    harness.event(button(from, true));
    harness.step();
    for share in [0.25, 0.5, 0.75, 1.0] {
        move_to(harness, from + by * share);
    }
    harness.event(button(from + by, false));
    harness.step();
    harness.event(Event::PointerGone);
    settle(harness);
}

/// A point of each line across a view that the pointer can take hold of, from left to right or from top to bottom.
fn grips(harness: &mut Harness<'_, Option<App>>, view: Rect) -> Vec<Pos2> {
    let lines = lines(harness, view);
    let holds = |&at: &Pos2| {
        move_to(harness, at);
        harness.step();
        let cursor = harness.output().platform_output.cursor_icon;
        use CursorIcon::{
            ResizeColumn, ResizeEast, ResizeHorizontal, ResizeNorth, ResizeSouth, ResizeVertical, ResizeWest,
        };
        let of_width = matches!(cursor, ResizeColumn | ResizeEast | ResizeHorizontal | ResizeWest);
        of_width || matches!(cursor, ResizeNorth | ResizeSouth | ResizeVertical)
    };
    lines.into_iter().filter(holds).collect()
}

/// A point on each line within a view, near its lower right corner; not of one at its right end, which has no room to
/// move.
fn lines(harness: &Harness<'_, Option<App>>, view: Rect) -> Vec<Pos2> {
    let at = view.right_bottom() - vec2(60.0, 40.0);
    let mut points: Vec<Pos2> = Vec::new();
    for clipped in &harness.output().shapes {
        let Shape::LineSegment { points: [from, to], .. } = clipped.shape else { continue };
        let line = Rect::from_two_pos(from, to).intersect(clipped.clip_rect);
        if line.is_negative() {
            continue;
        }
        let point = pos2(at.x.clamp(line.left(), line.right()), at.y.clamp(line.top(), line.bottom()));
        let is_across =
            line.width() < 1.0 && line.y_range().contains(at.y) || line.height() < 1.0 && line.width() > 300.0;
        let is_new = points.iter().all(|known| known.distance(point) > 2.0);
        if is_across && is_new && view.shrink2(vec2(40.0, 4.0)).contains(point) {
            points.push(point);
        }
    }
    points.sort_by(|a, b| (a.x, a.y).partial_cmp(&(b.x, b.y)).unwrap());
    points
}

fn view_rect(harness: &Harness<'_, Option<App>>, view: &str) -> Rect {
    let tiles = &app(harness).layout.tree.tiles;
    tiles.rect(tiles.find_pane(&view.to_owned()).unwrap()).unwrap()
}

/// Drags each edge in a view forth and back.
///
/// * `n`: how many there are at least.
fn assert_resizes(harness: &mut Harness<'_, Option<App>>, view: &'static str, n: usize) {
    let rect = view_rect(harness, view);
    let found = grips(harness, rect);
    assert!(found.len() >= n, "{view}: {} edges: {found:?}", found.len());
    // Where a table ends beside a panel, its last column has no room.
    let is_end = |at: &Pos2| found.iter().any(|other| other.x > at.x && other.x - at.x < 20.0);
    for at in found.iter().copied().filter(|at| !is_end(at)) {
        // One before it may not be back where it was, to the point.
        let near = |line: &Pos2| line.distance(at);
        let at = lines(harness, rect).into_iter().min_by(|a, b| near(a).total_cmp(&near(b))).unwrap_or(at);
        // A point on an upright line is as high as all of them.
        let is_upright = (at.y - (rect.bottom() - 40.0)).abs() < 1.0;
        let mut ways = [24.0, -24.0].map(|by| if is_upright { vec2(by, 0.0) } else { vec2(0.0, by) }).into_iter();
        // One way may be at its end.
        let is_moved = ways.any(|by| {
            drag(harness, at, by);
            let is_there = lines(harness, rect).iter().any(|line| line.distance(at + by) < 4.0);
            if is_there {
                drag(harness, at + by, -by);
            }
            is_there
        });
        assert!(is_moved, "{view}: the edge at {at:?} of {rect:?}");
    }
}

fn large(traces: Vec<Trace>) -> Harness<'static, Option<App>> {
    harness_with(traces, |builder| builder.with_size([1920.0, 1080.0]))
}

fn show(harness: &mut Harness<'_, Option<App>>, view: &'static str) {
    app_mut(harness).commands.push(Command::Show(view));
    settle(harness);
    wait_for(harness, |harness| !is_pending(app(harness)));
    settle(harness);
}

#[test]
fn the_panels_beside_and_below_the_middle_and_the_labels() {
    let mut harness = large(vec![trace()]);
    let group = |harness: &Harness<'_, Option<App>>, view: &str| {
        let tiles = &app(harness).layout.tree.tiles;
        tiles.rect(tiles.parent_of(tiles.find_pane(&view.to_owned()).unwrap()).unwrap()).unwrap()
    };
    let sizes = |harness: &Harness<'_, Option<App>>| {
        let labels = harness.get_by_label("Width of track labels").rect();
        [group(harness, "details").width(), group(harness, "overview").height(), labels.center().x]
    };
    for by in [24.0, -60.0] {
        let before = sizes(&harness);
        let side = group(&harness, "details").left_center();
        drag(&mut harness, side - vec2(GAP / 2.0, 0.0), vec2(-by, 0.0));
        let labels = harness.get_by_label("Width of track labels").rect().center();
        drag(&mut harness, labels, vec2(by, 0.0));
        let below = group(&harness, "overview").center_top();
        drag(&mut harness, below - vec2(0.0, GAP / 2.0), vec2(0.0, -by));
        let after = sizes(&harness);
        for (after, before) in after.into_iter().zip(before) {
            assert!((after - before - by).abs() < 6.0, "by {by}: {before} to {after}");
        }
    }
}

#[test]
fn the_panels_in_views_of_time() {
    let mut harness = large(vec![sample("kineto_10_steps.json.gz"), sample("kineto_10_steps.json.gz")]);
    for (view, n) in [("overview", 2), ("compare", 4), ("samples", 4), ("gaps", 6), ("steps", 6), ("problems", 0)] {
        show(&mut harness, view);
        assert_resizes(&mut harness, view, n);
    }
    show(&mut harness, "calls");
    harness.get_all_by_label("cudaLaunchKernel").next_back().unwrap().click();
    settle(&mut harness);
    assert_resizes(&mut harness, "calls", 6);
}

#[test]
fn the_panels_in_views_of_memory() {
    let mut harness = large(vec![sample("snapshot_oom.pickle")]);
    for (view, n) in [("reserved", 4), ("live-memory", 3), ("memory-places", 4), ("allocations", 4)] {
        show(&mut harness, view);
        assert_resizes(&mut harness, view, n);
    }
    let mut harness = large(vec![sample("snapshot_leak.pickle")]);
    show(&mut harness, "leaks");
    harness.get_by_label("record (metrics.py:33)").click();
    settle(&mut harness);
    assert_resizes(&mut harness, "leaks", 4);
}

#[test]
fn the_lists_of_hits_and_of_notes() {
    let mut harness = large(vec![sample("kineto_10_steps.json.gz")]);
    app_mut(&mut harness).commands.push(Command::MarkMoment);
    show(&mut harness, "marks");
    assert_resizes(&mut harness, "marks", 2);
    app_mut(&mut harness).commands.push(Command::Search);
    settle(&mut harness);
    type_text(&mut harness, "gemm");
    show(&mut harness, "search");
    assert_resizes(&mut harness, "search", 3);
}

#[test]
#[cfg(unix)]
fn the_runs_before_below_the_output_of_a_program() {
    let mut harness = large(vec![trace()]);
    app_mut(&mut harness).commands.push(Command::Show("capture"));
    settle(&mut harness);
    harness.get_by_role_and_label(egui::Role::TextInput, "Command").focus();
    settle(&mut harness);
    type_text(&mut harness, "sh -c 'echo first; exit 3'");
    harness.get_by_role_and_label(egui::Role::RadioButton, "Nothing").click();
    settle(&mut harness);
    harness.get_by_label("Start").click();
    wait_for(&mut harness, |harness| harness.query_all_by_label_contains("with exit code 3").next().is_some());
    settle(&mut harness);
    let view = view_rect(&harness, "capture");
    let edges: Vec<Pos2> = grips(&mut harness, view).into_iter().filter(|at| at.y < view.bottom() - 60.0).collect();
    let [edge] = edges[..] else { panic!("{edges:?} in {view:?}") };
    drag(&mut harness, edge, vec2(0.0, 24.0));
    let moved = lines(&harness, view);
    assert!(moved.iter().any(|line| line.distance(edge + vec2(0.0, 24.0)) < 4.0), "{edge:?} to {moved:?}");
}
