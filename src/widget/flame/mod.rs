//! An icicle graph: each frame is a bar below its caller, as wide as its weight.

mod layout;

use std::ops::Range;

use eframe::egui::{
    self, Color32, Event, EventFilter, Key, Mesh, Painter, PopupAnchor, Rect, Response, RichText, Sense, Shape, Stroke,
    StrokeKind, Tooltip, WidgetInfo, pos2, vec2,
};

use self::layout::{Bar, Focus, Layout};
use super::labels::{Labels, cut_function};
use super::slice_color;
use super::theme;
use crate::figures::stacks::Full;
use crate::figures::text::display_name;
use crate::figures::{escape, format};

const ROW_HEIGHT: f32 = 18.0;
/// Bars narrower than this have no label, in points.
const MIN_LABEL_WIDTH: f32 = 22.0;
/// The most zoom steps to go back.
const MAX_BACK: usize = 100;
/// Color strength of bars that do not match.
const DIM: f32 = 0.25;

/// A frame of a tree.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    pub name: &'a str,
    /// Frame 0 is its own parent.
    pub parent: u32,
    /// 0 for frame 0.
    pub depth: u32,
    pub total: i64,
    pub own: i64,
    /// As [`Full`] says.
    pub full: Option<i64>,
    /// How many calls are in it, where that is known.
    pub calls: Option<u64>,
    /// The heaviest first.
    pub children: Range<u32>,
}

/// A tree of weights. Frame 0 is the whole; there always is one.
pub trait Frames {
    fn frame(&self, index: u32) -> Frame<'_>;
}

/// How a graph is shown.
pub struct FlameSpec<'a> {
    pub frames: &'a dyn Frames,
    /// The label of the root.
    pub whole: &'a str,
    /// Whether a frame matches the search; the others are dimmed.
    pub is_match: Option<&'a dyn Fn(u32) -> bool>,
    /// A weight with its unit.
    pub weight: &'a dyn Fn(i64) -> String,
    /// What [`Frame::full`] is.
    pub full: Full,
}

impl std::fmt::Debug for FlameSpec<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlameSpec").field("whole", &self.whole).finish_non_exhaustive()
    }
}

impl FlameSpec<'_> {
    fn name(&self, frame: u32) -> String {
        if frame == 0 { self.whole.to_owned() } else { display_name(self.frames.frame(frame).name).into_owned() }
    }

    fn share(&self, weight: i64, of: u32) -> f64 {
        weight as f64 / self.frames.frame(of).total.max(1) as f64
    }

    /// A frame in one line: `gemm, 12 samples, 3.4 %`.
    fn line(&self, frame: u32) -> String {
        let total = self.frames.frame(frame).total;
        let share = self.share(total, 0) * 100.0;
        format!("{}, {}, {share:.1} %", self.name(frame), (self.weight)(total))
    }
}

/// The parameters of a layout: focus, width, points per pixel, theme.
type LayoutKey = (Focus, f32, f32, bool);

/// An icicle graph on screen.
#[derive(Debug, Default)]
pub struct FlameGraph {
    focus: Focus,
    back: Vec<Focus>,
    selected: Option<u32>,
    /// Whether to scroll to the selected frame.
    is_moved: bool,
    layout: Option<(LayoutKey, Layout)>,
    labels: Labels<u32>,
    has_keyboard: bool,
}

impl FlameGraph {
    /// Adapts focus and selection to another tree.
    ///
    /// * `same`: maps a frame of the previous tree to this one; `None` if the trees are unrelated.
    pub fn show_other(&mut self, same: impl Fn(u32) -> Option<u32>) {
        self.focus = Focus::of(same(self.focus.frame).unwrap_or_default());
        self.selected = self.selected.and_then(&same);
        let back = std::mem::take(&mut self.back);
        self.back = back.into_iter().filter_map(|focus| same(focus.frame).map(Focus::of)).collect();
        self.layout = None;
        self.labels.clear();
    }

    pub fn selected(&self) -> Option<u32> {
        self.selected
    }

    /// Whether the graph had keyboard focus in its last frame.
    pub fn has_keyboard(&self) -> bool {
        self.has_keyboard
    }

    /// Undoes the last zoom; false if there is none.
    pub fn go_back(&mut self, frames: &dyn Frames) -> bool {
        let Focus { frame, .. } = self.focus;
        let caller = (frame != 0).then(|| Focus::of(frames.frame(frame).parent));
        // In another tree several steps may be the same frame.
        let before = std::iter::from_fn(|| self.back.pop()).find(|focus| focus.frame != frame);
        let Some(focus) = before.or(caller) else { return false };
        self.focus = focus;
        true
    }

    /// How many frames are too narrow for a bar of their own.
    pub fn n_merged(&self) -> u64 {
        self.layout.as_ref().map_or(0, |(_, layout)| layout.n_merged())
    }

    fn zoom(&mut self, focus: Focus) {
        if focus != self.focus {
            self.back.push(self.focus);
            let surplus = self.back.len().saturating_sub(MAX_BACK);
            self.back.drain(..surplus);
            self.focus = focus;
        }
    }

    /// Paints the graph; `name` identifies it. Returns whether the selection changed.
    pub fn ui(&mut self, name: &str, spec: &FlameSpec<'_>, ui: &mut egui::Ui) -> bool {
        let before = self.selected;
        let area = egui::ScrollArea::vertical().id_salt(name).auto_shrink(false);
        area.show_viewport(ui, |ui, viewport| {
            let width = ui.available_width();
            let pixel = 1.0 / ui.ctx().pixels_per_point();
            self.lay_out(spec, width, pixel, ui.visuals().dark_mode);
            let n_rows = self.layout.as_ref().map_or(1, |(_, layout)| layout.rows.len());
            let (rect, _) = ui.allocate_exact_size(vec2(width, n_rows as f32 * ROW_HEIGHT), Sense::hover());
            // The area below the last row belongs to the graph too.
            let clip = ui.clip_rect();
            let response = ui.interact(clip, ui.scope_id().with("graph"), Sense::click());
            let whole = spec.line(self.focus.frame);
            response.widget_info(|| WidgetInfo::labeled(egui::Role::Canvas, true, format!("{name}: {whole}")));
            self.keys(spec, &response, ui);
            self.lay_out(spec, width, pixel, ui.visuals().dark_mode);
            let under = self.pointer(spec, rect, &response);
            self.paint(spec, rect, viewport, under.as_ref(), ui);
            if let Some(bar) = under {
                hover_ui(spec, self.focus.frame, &bar, &response);
            }
        });
        self.selected != before
    }

    fn lay_out(&mut self, spec: &FlameSpec<'_>, width: f32, pixel: f32, is_dark: bool) {
        let key = (self.focus, width, pixel, is_dark);
        if self.layout.as_ref().is_none_or(|known| known.0 != key) {
            self.layout = Some((key, Layout::new(spec.frames, self.focus, width, pixel, is_dark)));
        }
    }

    /// The bar under the pointer; handles clicks.
    fn pointer(&mut self, spec: &FlameSpec<'_>, rect: Rect, response: &Response) -> Option<Bar> {
        let at = response.hover_pos().filter(|_| !response.context_menu_opened()).or(response.interact_pointer_pos())?;
        let row = ((at.y - rect.top()) / ROW_HEIGHT).floor().max(0.0) as usize;
        let bar = self.layout.as_ref()?.1.at(row, at.x - rect.left())?.clone();
        // A click without a pointer comes from the keyboard and has no position.
        let has_pointer = response.interact_pointer_pos().is_some();
        if has_pointer && (response.clicked() || response.secondary_clicked()) {
            response.request_focus();
            let focus = match bar.n_merged {
                Some(_) => Focus { frame: spec.frames.frame(bar.frame).parent, rest: Some((bar.frame, bar.weight)) },
                None => Focus::of(bar.frame),
            };
            self.selected = Some(focus.frame);
            if response.clicked() {
                self.zoom(focus);
            }
        }
        Some(bar)
    }

    fn keys(&mut self, spec: &FlameSpec<'_>, response: &Response, ui: &egui::Ui) {
        self.has_keyboard = response.has_focus();
        if let Some(frame) = self.selected {
            response.context_menu(|ui| {
                if ui.button("Copy name").clicked() {
                    ui.ctx().copy_text(escape::no_formula(spec.frames.frame(frame).name).into_owned());
                    ui.close();
                }
            });
        }
        if !self.has_keyboard {
            return;
        }
        let escape = !self.back.is_empty() || self.focus.frame != 0;
        let filter = EventFilter { vertical_arrows: true, horizontal_arrows: true, escape, ..Default::default() };
        ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, filter));
        let pressed = ui.input(|input| {
            let keys = input.events.iter().filter_map(|event| match event {
                Event::Key { key, pressed: true, modifiers, .. } if modifiers.is_none() => Some(*key),
                _ => None,
            });
            keys.collect::<Vec<_>>()
        });
        for key in pressed {
            let at = self.selected.unwrap_or(self.focus.frame);
            let frame = spec.frames.frame(at);
            let siblings = spec.frames.frame(frame.parent).children;
            let to = match key {
                Key::ArrowUp => Some(frame.parent),
                Key::ArrowDown => Some(frame.children.start).filter(|_| !frame.children.is_empty()),
                Key::ArrowLeft => at.checked_sub(1).filter(|left| siblings.contains(left)),
                Key::ArrowRight => Some(at + 1).filter(|right| siblings.contains(right)),
                Key::Enter => {
                    self.zoom(Focus::of(at));
                    None
                }
                Key::Escape => {
                    self.go_back(spec.frames);
                    None
                }
                _ => None,
            };
            if let Some(to) = to {
                self.go(spec, to);
            }
        }
    }

    /// Selects a frame; zooms out or in if it has no bar at the current zoom.
    fn go(&mut self, spec: &FlameSpec<'_>, to: u32) {
        let Some(((_, width, pixel, is_dark), _)) = self.layout else { return };
        let depth = spec.frames.frame(to).depth;
        let before = self.focus;
        for focus in [before, Focus::of(spec.frames.frame(to).parent)] {
            self.zoom(focus);
            self.lay_out(spec, width, pixel, is_dark);
            if self.layout.as_ref().is_some_and(|(_, layout)| layout.bar(to, depth).is_some()) {
                self.selected = Some(to);
                self.is_moved = true;
                return;
            }
        }
        // Too narrow even at that zoom.
        if self.focus != before {
            self.focus = before;
            self.back.pop();
        }
    }

    fn paint(&mut self, spec: &FlameSpec<'_>, rect: Rect, viewport: Rect, under: Option<&Bar>, ui: &egui::Ui) {
        let Some((_, layout)) = &self.layout else { return };
        let painter = ui.painter();
        let first = (viewport.top() / ROW_HEIGHT).floor().max(0.0) as usize;
        let last = ((viewport.bottom() / ROW_HEIGHT).ceil().max(0.0) as usize).min(layout.rows.len());
        let place = |row: usize, bar: &Bar| {
            let top = rect.top() + row as f32 * ROW_HEIGHT;
            Rect::from_min_max(pos2(rect.left() + bar.left, top), pos2(rect.left() + bar.right, top + ROW_HEIGHT))
        };
        let rows = layout.rows.get(first..last).unwrap_or_default();
        let visible = || {
            rows.iter()
                .enumerate()
                .flat_map(|(i, row)| layout.bars[row.clone()].iter().map(move |bar| (first + i, bar)))
        };
        let tokens = theme::tokens(ui.visuals().dark_mode);
        let focus_depth = spec.frames.frame(self.focus.frame).depth as usize;
        let is_dim = |bar: &Bar| {
            bar.frame != 0 && spec.is_match.is_some_and(|is_match| bar.n_merged.is_some() || !is_match(bar.frame))
        };
        let mut mesh = Mesh::default();
        for (row, bar) in visible() {
            let color = match bar.frame {
                0 if row == 0 => tokens.button[1],
                _ if row < focus_depth || is_dim(bar) => {
                    blend(tokens.panel, bar.color, if is_dim(bar) { DIM } else { 0.55 })
                }
                _ => bar.color,
            };
            let bar = place(row, bar);
            // A gap separates adjacent bars; a bar of one pixel has no room for it.
            let gap = vec2((bar.width() * 0.25).min(1.0), 1.0);
            mesh.add_colored_rect(Rect::from_min_max(bar.min, bar.max - gap), color);
        }
        painter.add(Shape::mesh(mesh));
        self.labels.begin(painter);
        let named = visible().filter(|(_, bar)| bar.n_merged.is_none() && bar.right - bar.left >= MIN_LABEL_WIDTH);
        for (row, bar) in named {
            let text = if bar.frame == 0 { spec.whole } else { spec.frames.frame(bar.frame).name };
            let color = if bar.frame == 0 || is_dim(bar) { tokens.text } else { slice_color::TEXT };
            let bar_rect = place(row, bar);
            let cut = |length| cut_function(text, length);
            if let Some(galley) = self.labels.fitting(painter, (bar.frame, text), bar_rect.width() - 7.0, cut) {
                let at = pos2(bar_rect.left() + 3.0, bar_rect.center().y - 0.5 - galley.size().y / 2.0);
                painter.galley(at, galley, color);
            }
        }
        self.labels.end(painter);
        if let Some(bar) = under {
            let row = visible().find(|(_, other)| *other == bar).map(|(row, _)| row);
            if let Some(row) = row {
                outline(painter, place(row, bar), 1.0, tokens.strong_text);
            }
        }
        let Some(selected) = self.selected else { return };
        let depth = spec.frames.frame(selected).depth;
        let Some(bar) = layout.bar(selected, depth) else { return };
        let bar = place(depth as usize, bar);
        outline(painter, bar, 2.0, tokens.strong_text);
        // For screen readers.
        let node = ui.interact(bar, ui.scope_id().with("selected frame"), Sense::hover());
        node.widget_info(|| WidgetInfo::labeled(egui::Role::Label, true, spec.line(selected)));
        if std::mem::take(&mut self.is_moved) {
            ui.scroll_to_rect(bar, None);
        }
    }
}

fn outline(painter: &Painter, bar: Rect, width: f32, color: Color32) {
    painter.rect_stroke(bar, 0.0, Stroke::new(width, color), StrokeKind::Inside);
}

/// Mixes `share` of `over` into `under`.
fn blend(under: Color32, over: Color32, share: f32) -> Color32 {
    under.lerp_to_gamma(over, share)
}

fn hover_ui(spec: &FlameSpec<'_>, focus: u32, bar: &Bar, graph: &Response) {
    let tooltip =
        Tooltip::always_open(graph.ctx.clone(), graph.layer_id, graph.id, PopupAnchor::Pointer).gap(14.0).width(420.0);
    let weight = |weight: i64| format!("{}, {:.2} %", (spec.weight)(weight), spec.share(weight, 0) * 100.0);
    let title = match bar.n_merged {
        Some(1) => "1 smaller frame".to_owned(),
        Some(n) => format!("{} smaller frames", format::count(u64::from(n))),
        None => spec.name(bar.frame),
    };
    let frame = spec.frames.frame(bar.frame);
    tooltip.show(|ui| {
        ui.label(RichText::new(title).strong());
        let full = frame.full.filter(|_| bar.n_merged.is_none());
        let full = full.map(|full| spec.full.texts(frame.total, full, spec.weight));
        let [behind, below] = full.unwrap_or_default();
        ui.label(format!("Total {}{behind}", weight(bar.weight)));
        if !below.is_empty() {
            ui.label(below);
        }
        if bar.n_merged.is_none() {
            ui.label(format!("Self {}", weight(frame.own)));
            if let Some(calls) = frame.calls {
                ui.label(format::of_things(calls, "call"));
            }
        }
        if bar.n_merged.is_some() {
            ui.label("Click to widen them");
        }
        if focus != 0 && frame.depth > spec.frames.frame(focus).depth {
            ui.label(format!("{:.2} % of {}", spec.share(bar.weight, focus) * 100.0, spec.name(focus)));
        }
    });
}
