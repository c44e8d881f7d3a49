//! The menu bar.

use super::*;

#[test]
fn menus_run_commands() {
    let mut harness = harness(vec![trace()]);
    harness.get_by_label("View").click();
    settle(&mut harness);
    harness.get_by_label_contains("Side panel").click();
    settle(&mut harness);
    assert!(!app(&harness).layout.is_area_shown(DockArea::Side));
    // One of the last entries is within reach where the window has the room.
    harness.get_by_label("View").click();
    settle(&mut harness);
    let before = harness.ctx.zoom_factor();
    harness.get_by_label_contains("Larger text").click();
    settle(&mut harness);
    assert!(harness.ctx.zoom_factor() > before);
}

#[test]
fn a_command_without_what_it_needs_is_gray() {
    let mut harness = harness(vec![trace()]);
    for selected in [false, true] {
        if selected {
            select(&mut harness, "aten::mm");
        }
        harness.get_by_label("Select").click();
        settle(&mut harness);
        let is_gray = ["Next slice", "Range from selection", "Mark range"]
            .map(|label| harness.get_by_label_contains(label).accesskit_node().is_disabled());
        assert_eq!(is_gray, [false, !selected, true]);
        // And says why.
        harness.get_by_label_contains("Mark range").hover();
        harness.run_steps(60);
        harness.get_by_label("No time range is selected");
        harness.get_by_label("Select").click();
        settle(&mut harness);
    }
}

#[test]
fn the_theme_is_chosen_in_one_place() {
    let mut harness = harness(vec![trace()]);
    harness.get_by_label("View").click();
    settle(&mut harness);
    assert_eq!(harness.query_all_by_label_contains("heme").count(), 1);
}

#[test]
fn the_entries_of_the_view_menu_stand_in_groups() {
    let mut harness = harness(vec![trace()]);
    harness.set_size([1_280.0, 1_000.0].into());
    harness.get_by_label("View").click();
    settle(&mut harness);
    let groups: [&[&str]; 5] = [
        &["Timeline", "Memory state", "Details"],
        &["Tables and lists", "Memory tables"],
        &["Side panel", "Bottom panel", "Close view", "Reset layout"],
        &["Collapse all tracks", "Expand all tracks", "Show hidden tracks", "Launch queues"],
        &["Wheel zooms", "Larger text", "Smaller text", "Normal text size"],
    ];
    let menu = harness.get_by_label_contains("Larger text").rect();
    let entry = |label: &str| {
        let mut all = harness.query_all_by_label_contains(label).map(|node| node.rect());
        let rect = all.rfind(|rect| (rect.left() - menu.left()).abs() < 2.0);
        rect.unwrap_or_else(|| panic!("{label} is not in the menu"))
    };
    let is_of_menu = |x: f32| (menu.left() - 12.0..menu.left() + 400.0).contains(&x);
    let line = |clipped: &egui::epaint::ClippedShape| match &clipped.shape {
        egui::Shape::LineSegment { points: [from, to], .. } => {
            (from.y == to.y && is_of_menu(from.x) && is_of_menu(to.x)).then_some(from.y)
        }
        _ => None,
    };
    let lines: Vec<f32> = harness.output().shapes.iter().filter_map(line).collect();
    let n_lines = |from: &str, to: &str| {
        let (top, bottom) = (entry(from).bottom(), entry(to).top());
        assert!(top <= bottom, "{from} above {to}");
        lines.iter().filter(|&&line| line > top - 1.0 && line < bottom + 1.0).count()
    };
    for group in groups {
        assert!(group.windows(2).all(|pair| n_lines(pair[0], pair[1]) == 0), "{group:?} together");
    }
    for pair in groups.windows(2).skip(1) {
        assert_eq!(n_lines(pair[0][pair[0].len() - 1], pair[1][0]), 1, "{pair:?} apart");
    }
}
