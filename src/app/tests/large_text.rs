//! With text of twice the size nothing in a view is lost: what has no room is a scroll away, and buttons show their
//! whole text.

use eframe::egui::Role;

use eframe::egui::{self, vec2};

use super::memory::{is_pending, sample};
use super::*;
use crate::view::view_spec;

/// Problems scrolls both ways.
const VIEWS_OF_TIME: [&str; 12] = [
    "timeline", "overview", "steps", "compare", "gaps", "kernels", "calls", "samples", "search", "range", "marks",
    "details",
];
const VIEWS_OF_MEMORY: [&str; 7] =
    ["memory", "memory-state", "allocations", "memory-places", "live-memory", "leaks", "reserved"];
/// What of each kind is looked at in a view, from its top.
const MOST: usize = 12;

type Window = Harness<'static, Option<App>>;

fn view_rect(harness: &Window, view: &str) -> egui::Rect {
    let tiles = &app(harness).layout.tree.tiles;
    tiles.rect(tiles.find_pane(&view.to_owned()).unwrap()).unwrap()
}

/// The controls, or the texts, that begin in a view and end outside of it: label and rectangle.
fn outside(harness: &Window, view: egui::Rect, is_control: bool) -> Vec<(String, Role)> {
    let is_of_kind = |role: Role| match is_control {
        true => matches!(
            role,
            Role::Button | Role::CheckBox | Role::RadioButton | Role::ComboBox | Role::TextInput | Role::Link
        ),
        false => role == Role::Label,
    };
    let text = |node: &egui_kittest::Node<'_>| {
        let node = node.accesskit_node();
        let text = node.label().or_else(|| node.value())?;
        // Cells of tables, which scroll by themselves, are short.
        (is_control || text.chars().count() > 24).then_some(text)
    };
    // Below a view stands the line at the bottom of the window, and what is scrolled lies below the window.
    let window = harness.ctx.content_rect().bottom();
    let is_in_view = |at: Pos2| view.contains(at) || view.x_range().contains(at.x) && at.y > window;
    let is_outside =
        |node: &egui_kittest::Node<'_>| is_in_view(node.rect().left_top()) && node.rect().right() > view.right() + 1.0;
    let nodes = harness.root().children_recursive().filter(|node| is_of_kind(node.accesskit_node().role()));
    let mut found: Vec<_> =
        nodes.filter(is_outside).filter_map(|node| Some((text(&node)?, node.accesskit_node().role()))).collect();
    found.dedup();
    found.truncate(MOST);
    found
}

/// What is lost in a view: not within its width after all around it was scrolled. A view that is too low scrolls as a
/// whole.
fn lost(harness: &mut Window, view: &'static str) -> Vec<String> {
    let mut lost = Vec::new();
    let rect = view_rect(harness, view);
    let found = [true, false].map(|is_control| outside(harness, rect, is_control)).concat();
    for (text, role) in found {
        let is_within = |harness: &Window| {
            let is_it = |node: &egui_kittest::Node<'_>| {
                let node = node.accesskit_node();
                node.role() == role && node.label().or_else(|| node.value()).as_ref() == Some(&text)
            };
            let nodes: Vec<_> = harness.root().children_recursive().filter(is_it).collect();
            nodes.iter().for_each(egui_kittest::Node::scroll_to_me);
            nodes
                .iter()
                .map(|node| node.rect())
                .any(|at| at.left() > rect.left() - 2.0 && at.right() < rect.right() + 2.0)
        };
        let is_lost = !(0..8).any(|_| {
            harness.step();
            is_within(harness)
        });
        if is_lost {
            lost.push(format!("{role:?} {text}"));
        }
    }
    lost
}

/// Texts of buttons of the window that are cut.
fn cut(harness: &Window) -> Vec<String> {
    let is_button = |node: &egui_kittest::Node<'_>| node.accesskit_node().role() == Role::Button;
    let buttons = harness.root().children_recursive().filter(is_button);
    let buttons: Vec<_> = buttons.map(|node| (node.rect(), node.accesskit_node().label())).collect();
    let is_cut = |clipped: &egui::epaint::ClippedShape| match &clipped.shape {
        egui::Shape::Text(text) if text.galley.elided => {
            let (center, text) = (text.visual_bounding_rect().center(), text.galley.text().to_owned());
            let is_its =
                |(rect, label): &(egui::Rect, Option<String>)| rect.contains(center) && *label == Some(text.clone());
            buttons.iter().any(is_its).then_some(text.clone())
        }
        _ => None,
    };
    harness.output().shapes.iter().filter_map(is_cut).collect()
}

fn assert_whole(traces: impl Fn() -> Vec<Trace>, views: &[&'static str]) {
    let mut wrong = Vec::new();
    for size in [egui::vec2(1280.0, 720.0), egui::vec2(1920.0, 1080.0)] {
        let mut harness = harness_with(traces(), |builder| builder.with_size(size / 2.0));
        app_mut(&mut harness).settings.scale = 2.0;
        for &view in views {
            app_mut(&mut harness).commands.push(Command::Show(view));
            settle(&mut harness);
            wait_for(&mut harness, |harness| !is_pending(app(harness)));
            settle(&mut harness);
            wrong.extend(cut(&harness).into_iter().map(|text| format!("{size} {view}: the button {text} is cut")));
            // The middle is painted, and tabs below it that are scrolled away lie under the details.
            if view_spec(view).is_none_or(|spec| spec.area != DockArea::Bottom) {
                continue;
            }
            wrong.extend(lost(&mut harness, view).into_iter().map(|what| format!("{size} {view}: {what} is lost")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn views_of_time() {
    assert_whole(|| ["kineto_10_steps.json.gz"; 2].map(sample).into(), &VIEWS_OF_TIME);
}

#[test]
fn views_of_memory() {
    assert_whole(|| vec![sample("snapshot_oom.pickle")], &VIEWS_OF_MEMORY);
}

#[test]
fn what_stands_above_a_list_scrolls_away_before_the_list_does() {
    let slices: Vec<_> = (0..200).map(|i| ("main", SliceKind::Operator, "aten::mm", i * 100, i * 100 + 90)).collect();
    let trace = TraceBuilder::from_slices(&slices).finish();
    // As a window of 1280 by 720 with the largest text.
    let mut harness = harness_with(vec![trace], |builder| builder.with_size([640.0, 360.0]));
    harness.key_press(Key::Slash);
    settle(&mut harness);
    type_text(&mut harness, "aten");
    settle(&mut harness);
    let view = view_rect(&harness, "search");
    let wheel = |harness: &mut Harness<'_, Option<App>>, by: f32| {
        // Over a row of the list.
        harness.event(Event::PointerMoved(view.center_bottom() - vec2(0.0, 20.0)));
        harness.step();
        harness.event(Event::MouseWheel {
            unit: egui::MouseWheelUnit::Point,
            delta: vec2(0.0, by),
            phase: egui::TouchPhase::Move,
            source: egui::MouseWheelSource::Wheel,
            modifiers: Modifiers::NONE,
        });
        settle(harness);
    };
    let first = |harness: &Harness<'_, Option<App>>| harness.get_by_label("Name").rect().top();
    let before = first(&harness);
    wheel(&mut harness, -400.0);
    let after = first(&harness);
    assert!(after < before - 50.0 && after < view.top() + 10.0, "{before} to {after} in {view}");
    wheel(&mut harness, 4_000.0);
    assert_eq!(first(&harness), before);
}
