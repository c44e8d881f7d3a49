//! The allocator's segments and blocks at a moment, as a map; the moment can be moved and played.

use std::sync::Arc;

use eframe::egui::{self, Color32, CornerRadius, Pos2, Rect, Sense, Stroke, StrokeKind, pos2, vec2};

use super::map::{Fill, Map, MapBox, MapLine, fitting_scale, lay_out};
use super::stack_colors::StackColors;
use super::transport::Transport;
use super::{MemoryKey, ShownMemory, commands, head};
use crate::analysis::memory::labels::stack_labels;
use crate::analysis::memory::state::{AllocatorState, Held, PoolState, Sums, allocator};
use crate::command::Command;
use crate::job::{Memo, Progress};
use crate::model::StringId;
use crate::model::memory::{AllocationId, SegmentKind};
use crate::view::timeline::wheel;
use crate::view::{Selection, View, ViewContext};
use crate::widget::text::display_name;
use crate::widget::{format, theme};

const LINE_HEIGHT: f32 = 18.0;
const LINE_GAP: f32 = 3.0;
/// A map of more lines than this says nothing more.
const MAX_LINES: f64 = 20_000.0;
/// Boxes at least this wide have a border.
const MIN_BORDERED: f32 = 4.0;

#[derive(Clone, Debug, PartialEq)]
struct Question {
    of: MemoryKey,
    state: u32,
    /// In points.
    width: u32,
    lines: u32,
    /// How much larger than fitted.
    zoom: f64,
    is_dark: bool,
}

#[derive(Debug)]
struct Answer {
    state: AllocatorState,
    map: Map,
    /// The frame that names each stack.
    labels: Arc<Vec<StringId>>,
    colors: Arc<StackColors>,
    /// What it can be enlarged to, until each stretch has a line of its own.
    max_zoom: f64,
}

/// A place on the map that stays on screen while the map is enlarged.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    /// Its pool, segment and address.
    place: (u32, u32, u64),
    /// How far below the upper edge of what is on show its line begins.
    y: f32,
}

/// The state at a moment, in the middle of the window.
#[derive(Debug, Default)]
pub struct MemoryState {
    transport: Transport,
    /// How much larger than fitted; 1 shows everything.
    zoom: f64,
    /// Whether the wheel zooms and Ctrl+wheel scrolls, instead of the other way round.
    pub wheel_zooms: bool,
    memo: Memo<Question, Arc<Answer>>,
    /// What was under the pointer when it was zoomed, until the map of that size is there.
    anchor: Option<Anchor>,
    /// What is on show, in points from the top.
    scroll: f32,
    is_waiting: bool,
}

impl View for MemoryState {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        self.zoom = self.zoom.max(1.0);
        egui::Frame::NONE.inner_margin(egui::Margin::symmetric(8, 4)).show(ui, |ui| {
            let shown = ui.horizontal_wrapped(|ui| head::choose_ui(ctx, ui)).inner;
            let Some(shown) = shown else { return };
            if !shown.history().has_segments {
                ui.label("This recording has blocks, but not the segments they lie in");
                ui.weak("A memory history (torch.cuda.memory._dump_snapshot) has both");
                return;
            }
            self.transport.ui(&shown, ctx, ui);
            self.map_ui(&shown, ctx, ui);
        });
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }

    fn run(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        let Some(shown) = ctx.memory.resolve(ctx.traces) else { return false };
        match command {
            Command::ZoomIn => self.zoom_by(1.5),
            Command::ZoomOut => self.zoom_by(1.0 / 1.5),
            Command::ZoomToFit => self.zoom = 1.0,
            Command::FocusSelection | Command::Reveal => {
                // Where it is live, it is on the map.
                if let Some(id) = shown.selected(*ctx.selection) {
                    let all = &shown.history().allocations;
                    let state = ctx.memory.moment.unwrap_or(shown.history().last_state());
                    if !all.is_live(id, state) {
                        ctx.memory.moment = Some(all.start[id.idx()]);
                    }
                }
            }
            _ => return commands::run(command, &shown, None, ctx) || self.transport.run(command, &shown, ctx),
        }
        true
    }
}

impl MemoryState {
    fn zoom_by(&mut self, factor: f64) {
        let most = self.memo.answer().map_or(1e9, |answer| answer.max_zoom);
        self.zoom = (self.zoom * factor).clamp(1.0, most);
    }

    /// Turns the wheel over the map: what is under the pointer stays there. Returns by how much to scroll.
    fn wheel(&mut self, area: Rect, row: f32, ui: &egui::Ui) -> f32 {
        let Some(pointer) = ui.ctx().pointer_latest_pos().filter(|_| ui.rect_contains_pointer(area)) else {
            return 0.0;
        };
        let (delta, factor) = wheel(ui.ctx(), self.wheel_zooms);
        let before = self.zoom;
        self.zoom_by(factor);
        if self.zoom != before {
            let line = ((self.scroll + pointer.y - area.top()) / row).max(0.0) as u32;
            let boxes = self.memo.answer().map(|answer| answer.map.of_lines(line..u32::MAX)).unwrap_or_default();
            let x = pointer.x - area.left();
            let under = boxes.iter().take_while(|place| place.line == line && place.x[0] <= x).last();
            let place = under.or(boxes.first()).map(|place| (place.pool, place.segment, place.addr));
            let y = line as f32 * row - self.scroll;
            self.anchor = self.anchor.or(place.map(|place| Anchor { place, y }));
        }
        delta.y
    }

    fn map_ui(&mut self, shown: &ShownMemory, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let area = ui.available_rect_before_wrap();
        let scroll_bar = ui.spacing().scroll.allocated_width() + 2.0;
        let question = Question {
            of: shown.key(),
            state: ctx.memory.moment.unwrap_or(shown.history().last_state()),
            width: (area.width() - scroll_bar).max(60.0) as u32,
            // The sums stand in a line of their own.
            lines: ((area.height() - 28.0) / (LINE_HEIGHT + LINE_GAP)).max(1.0) as u32,
            zoom: self.zoom,
            is_dark: ctx.is_dark,
        };
        let answer = self.ask(&question, shown, ui);
        if self.memo.has_crashed(&question) {
            ui.label("The map of this moment crashed. Please report it");
            return;
        }
        let Some(answer) = answer else {
            ui.spinner();
            return;
        };
        self.zoom = self.zoom.min(answer.max_zoom);
        sums_ui(&answer, ui);
        if answer.state.sums.reserved == 0 {
            ui.label("Nothing is reserved at this moment");
            return;
        }
        let n_lines = answer.map.lines.len();
        let row = LINE_HEIGHT + LINE_GAP;
        let area = ui.available_rect_before_wrap();
        let by = self.wheel(area, row, ui);
        if let Some(anchor) = self.anchor.filter(|_| self.memo.is_current(&question)) {
            self.scroll = answer.map.line_of(anchor.place) as f32 * row - anchor.y;
            self.anchor = None;
        }
        self.scroll = (self.scroll - by).clamp(0.0, (n_lines as f32 * row - area.height()).max(0.0));
        // The wheel is read above, where it may zoom as well.
        let scroll = egui::ScrollArea::vertical().auto_shrink(false).id_salt("memory map");
        let scroll = scroll.scroll_source(egui::scroll_area::ScrollSource::SCROLL_BAR);
        let shown_part = scroll.vertical_scroll_offset(self.scroll).show_viewport(ui, |ui, viewport| {
            let (rect, response) =
                ui.allocate_exact_size(vec2(question.width as f32, n_lines as f32 * row), Sense::click());
            let first = (viewport.top() / row).max(0.0) as u32;
            let last = (((viewport.bottom() / row).ceil() as u32) + 1).min(n_lines as u32);
            let canvas = Canvas { answer: &answer, shown, origin: rect.min };
            canvas.paint(first..last, ctx, ui);
            canvas.interact(&response, ctx);
        });
        self.scroll = shown_part.state.unclamped_offset().y;
    }

    fn ask(&mut self, question: &Question, shown: &ShownMemory, ui: &egui::Ui) -> Option<Arc<Answer>> {
        let known = self.memo.question().filter(|known| known.of == question.of);
        let before = known.cloned().zip(self.memo.answer().cloned());
        let (waker, asked, of) = (ui.ctx().clone(), question.clone(), shown.of.clone());
        let work = move |_: &Progress| {
            // A map of another size is of the same state, and one of another moment has the same stacks.
            let same = |is_same: fn(&Question, &Question) -> bool| {
                before.as_ref().filter(|(known, _)| is_same(known, &asked)).map(|(_, answer)| answer)
            };
            let state = same(|a, b| a.state == b.state).map(|answer| answer.state.clone());
            let state = state.unwrap_or_else(|| allocator(of.history(), asked.state));
            let fitting = fitting_scale(&state, asked.width as f32, asked.lines);
            let least = (state.sums.reserved as f64 / (f64::from(asked.width) * MAX_LINES)).max(1.0);
            let map = lay_out(&state, asked.width as f32, (fitting / asked.zoom).max(least));
            let labels = same(|_, _| true).map(|answer| Arc::clone(&answer.labels));
            let labels = labels.unwrap_or_else(|| Arc::new(stack_labels(of.trace())));
            let colors = same(|a, b| a.is_dark == b.is_dark).map(|answer| Arc::clone(&answer.colors));
            let colors = colors.unwrap_or_else(|| Arc::new(StackColors::new(of.trace(), &labels, asked.is_dark)));
            Arc::new(Answer { state, map, labels, colors, max_zoom: (fitting / least).max(1.0) })
        };
        let is_near = |known: &Question| known.of == question.of;
        let answer = self.memo.get_in_turn(question, is_near, move || waker.request_repaint(), work).cloned();
        self.is_waiting = !self.memo.is_current(question) && !self.memo.has_crashed(question);
        // A map of another history would be a lie; one of a moment ago stays until the next is there.
        answer.filter(|_| self.memo.question().is_some_and(is_near))
    }
}

/// What all segments sum to.
fn sums_ui(answer: &Answer, ui: &mut egui::Ui) {
    let Sums { reserved, allocated, awaiting_free, unsplit, free, largest_free, .. } = answer.state.sums;
    let is_dark = ui.visuals().dark_mode;
    let bytes = |bytes: u64| format::bytes(bytes as f64);
    ui.horizontal_wrapped(|ui| {
        ui.strong(format!("{} reserved", bytes(reserved)));
        ui.label("=");
        ui.label(format!("{} allocated", bytes(allocated)));
        let parts = [
            (awaiting_free, "awaiting a stream", awaiting_color(is_dark)),
            (unsplit, "left unsplit", unsplit_color(is_dark)),
            (free, "free", free_color(is_dark)),
        ];
        for (amount, label, color) in parts.into_iter().filter(|part| part.0 > 0 || part.1 == "free") {
            ui.label("+");
            let (rect, _) = ui.allocate_exact_size(vec2(10.0, 10.0), Sense::hover());
            ui.painter().rect_filled(rect, CornerRadius::same(2), color);
            ui.label(format!("{} {label}", bytes(amount)));
        }
        ui.separator();
        ui.label(format!("largest free {}", bytes(largest_free)));
        let hint = "1 - Σ free² / (Σ free)² over all free stretches: 0 is one stretch, near 1 is many small ones";
        ui.label(format!("fragmentation {:.1} %", answer.state.sums.fragmentation() * 100.0)).on_hover_text(hint);
        if answer.state.unplaced > 0 {
            let hint = "Blocks that lie in no segment of the recording, or where another block does";
            ui.label(format!("{} in no segment", bytes(answer.state.unplaced))).on_hover_text(hint);
        }
        let n: usize = answer.state.pools.iter().map(|pool| pool.segments.len()).sum();
        let pixel = format::bytes(answer.map.bytes_per_point / f64::from(ui.pixels_per_point()));
        ui.weak(format!("{} segments, {pixel} a pixel", format::count(n as u64)));
    });
}

fn free_color(is_dark: bool) -> Color32 {
    if is_dark { Color32::from_gray(48) } else { Color32::from_gray(222) }
}

fn unsplit_color(is_dark: bool) -> Color32 {
    if is_dark { Color32::from_gray(84) } else { Color32::from_gray(178) }
}

fn awaiting_color(is_dark: bool) -> Color32 {
    theme::tokens(is_dark).severity[1]
}

/// `default stream, large segments`.
fn pool_title(shown: &ShownMemory, pool: &PoolState) -> String {
    let known = shown.history().pools.get(pool.pool.0 as usize).copied().unwrap_or_default();
    let kind = match pool.kind {
        SegmentKind::Small => "small segments",
        SegmentKind::Large => "large segments",
        SegmentKind::Unknown => "segments",
    };
    format!("{known}, {kind}")
}

/// What the map is painted on.
struct Canvas<'a> {
    answer: &'a Answer,
    shown: &'a ShownMemory,
    origin: Pos2,
}

impl Canvas<'_> {
    fn rect(&self, place: &MapBox) -> Rect {
        let top = self.origin.y + place.line as f32 * (LINE_HEIGHT + LINE_GAP);
        Rect::from_min_max(
            pos2(self.origin.x + place.x[0], top),
            pos2(self.origin.x + place.x[1].max(place.x[0] + 1.0), top + LINE_HEIGHT),
        )
    }

    fn label(&self, id: AllocationId) -> &str {
        let stack = self.shown.history().allocations.stack[id.idx()].0 as usize;
        self.shown.trace().strings.get(self.answer.labels.get(stack).copied().unwrap_or_default())
    }

    fn color(&self, fill: Fill, ctx: &ViewContext<'_>) -> Color32 {
        let block = |id: AllocationId| {
            let color = self.answer.colors.color(self.shown.history().allocations.stack[id.idx()]);
            let is_dimmed = !ctx.memory.marked.is_empty() && ctx.memory.marked.binary_search(&id).is_err();
            if is_dimmed { color.lerp_to_gamma(free_color(ctx.is_dark), 0.75) } else { color }
        };
        match fill {
            Fill::One(Held::Allocated(id)) => block(id),
            Fill::One(Held::AwaitingFree(_)) => awaiting_color(ctx.is_dark),
            Fill::One(Held::Unsplit) => unsplit_color(ctx.is_dark),
            Fill::One(Held::Free) => free_color(ctx.is_dark),
            Fill::Mixed(id, held) => {
                let color = id.map_or(unsplit_color(ctx.is_dark), block);
                free_color(ctx.is_dark).lerp_to_gamma(color, held)
            }
        }
    }

    fn paint(&self, lines: std::ops::Range<u32>, ctx: &ViewContext<'_>, ui: &egui::Ui) {
        let tokens = theme::tokens(ctx.is_dark);
        let painter = ui.painter();
        let font = egui::TextStyle::Body.resolve(ui.style());
        for line in lines.clone() {
            if let Some(MapLine::Heading(pool)) = self.answer.map.lines.get(line as usize) {
                let pool = &self.answer.state.pools[*pool as usize];
                let sums = &pool.sums;
                let text = format!(
                    "{}: {} in {}, {} free, largest free {}, fragmentation {:.1} %",
                    pool_title(self.shown, pool),
                    format::bytes(sums.reserved as f64),
                    format::count(pool.segments.len() as u64),
                    format::bytes(sums.free as f64),
                    format::bytes(sums.largest_free as f64),
                    sums.fragmentation() * 100.0,
                );
                let at = self.origin + vec2(0.0, (line + 1) as f32 * (LINE_HEIGHT + LINE_GAP) - LINE_GAP - 2.0);
                painter.text(at, egui::Align2::LEFT_BOTTOM, text, font.clone(), tokens.text);
            }
        }
        let selected = self.shown.selected(*ctx.selection);
        let mut mesh = egui::Mesh::default();
        let mut borders = Vec::new();
        let mut outlines = Vec::new();
        for place in self.answer.map.of_lines(lines) {
            let rect = self.rect(place);
            mesh.add_colored_rect(rect, self.color(place.fill, ctx));
            if rect.width() >= MIN_BORDERED {
                borders.push(Rect::from_min_max(pos2(rect.right() - 1.0, rect.top()), rect.max));
            }
            if let Fill::One(Held::Allocated(id) | Held::AwaitingFree(id)) | Fill::Mixed(Some(id), _) = place.fill
                && Some(id) == selected
            {
                outlines.push(rect);
            }
        }
        for border in borders {
            mesh.add_colored_rect(border, tokens.canvas);
        }
        painter.add(mesh);
        for rect in outlines {
            painter.rect_stroke(
                rect.expand(1.0),
                CornerRadius::ZERO,
                Stroke::new(2.0, tokens.accent),
                StrokeKind::Outside,
            );
        }
    }

    fn interact(&self, response: &egui::Response, ctx: &mut ViewContext<'_>) {
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, "Map of the allocator's memory"));
        let Some(at) = response.hover_pos() else { return };
        let line = ((at.y - self.origin.y) / (LINE_HEIGHT + LINE_GAP)).max(0.0) as u32;
        let Some(place) = self.answer.map.at(line, at.x - self.origin.x) else { return };
        let id = match place.fill {
            Fill::One(Held::Allocated(id) | Held::AwaitingFree(id)) | Fill::Mixed(Some(id), _) => Some(id),
            _ => None,
        };
        if response.clicked() {
            *ctx.selection = id.map_or(Selection::None, |id| self.shown.selection(id));
        }
        let text = self.hover_text(place, id);
        response.clone().on_hover_ui_at_pointer(|ui| {
            ui.set_max_width(560.0);
            ui.label(text);
        });
    }

    fn hover_text(&self, place: &MapBox, id: Option<AllocationId>) -> String {
        let all = &self.shown.history().allocations;
        let bytes = |bytes: u64| format::bytes(bytes as f64);
        let what = match (place.fill, id) {
            (Fill::One(Held::Free), _) => format!("Free, {}", bytes(place.bytes)),
            (Fill::One(Held::Unsplit), _) => {
                format!("{} left unsplit: too little behind the block to be given out", bytes(place.bytes))
            }
            (Fill::One(Held::AwaitingFree(_)), Some(id)) => {
                format!("Freed, awaiting a stream, {}\n{}", bytes(all.bytes[id.idx()]), self.label(id))
            }
            (Fill::One(_), Some(id)) => format!("{}\n{}", bytes(all.bytes[id.idx()]), self.label(id)),
            (_, Some(id)) => format!(
                "Several blocks in one pixel, {} in all; the largest {}\n{}",
                bytes(place.bytes),
                bytes(all.bytes[id.idx()]),
                self.label(id)
            ),
            (_, None) => format!("Free and unsplit memory, {}", bytes(place.bytes)),
        };
        let pool = &self.answer.state.pools[place.pool as usize];
        let segment = &pool.segments[place.segment as usize];
        let expandable = if segment.is_expandable { ", expandable" } else { "" };
        format!(
            "{}\nAt {:#x}, in a segment of {}{expandable} with {} free",
            display_name(&what),
            place.addr,
            bytes(segment.bytes),
            bytes(segment.sums.free)
        )
    }
}
