//! The allocator's segments and blocks at a moment, as a map; the moment can be moved and played.

use std::sync::Arc;

use eframe::egui::{self, CornerRadius, Key, Rect, Sense, Vec2, vec2};

use super::map::{Map, Slots, lay_out};
use super::map_canvas::{Canvas, LINE_GAP, LINE_HEIGHT, awaiting_color, free_color, unsplit_color};
use super::stack_colors::{ColorStacks, StackColors};
use super::transport::Transport;
use super::{commands, head};
use crate::analysis::memory::state::{AllocatorState, MemorySums};
use crate::answers::memory::{StackLabels, StateAt};
use crate::answers::{Analysis, Answer, Query, Subject as _, SubjectKey, Work};
use crate::command::{Command, ctrl_shift};
use crate::figures::format;
use crate::model::StringId;
use crate::session::{OpenMemory, ShownMemory};
use crate::view::axis::Wheel;
use crate::view::states::{answer_ui, nothing_ui};
use crate::view::{Content, DockArea, View, ViewContext, ViewSpec};

/// Points of width in which all sums stand on one line.
const ONE_LINE: f32 = 1400.0;
/// Height in which the sums of all segments have a line; in less, those above each pool tell.
const LEAST_WITH_SUMS: f32 = 110.0;
/// The most lines of a map.
const MAX_LINES: f64 = 20_000.0;

/// A map of the allocator's memory.
#[derive(Clone, Debug, PartialEq)]
struct MapOf {
    state: u32,
    /// In points.
    width: u32,
    lines: u32,
    /// Zoom factor; 1 shows everything.
    zoom: f64,
    is_dark: bool,
}

/// A map with the names and colors of its blocks.
#[derive(Debug)]
pub struct StateMap {
    /// The state of the recording that it shows.
    pub moment: u32,
    pub state: Arc<AllocatorState>,
    pub map: Map,
    /// The frame that names each stack.
    pub labels: Arc<Vec<StringId>>,
    pub colors: Arc<StackColors>,
    /// The largest zoom factor.
    max_zoom: f64,
}

/// Lines into which maps are fitted: as many as there was room for when the view got its size. What stands above the
/// map may change with the moment, and must not change its scale.
#[derive(Debug)]
struct Fitted {
    of: SubjectKey,
    /// The size of the whole view.
    view: Vec2,
    /// Whether the line that sums up the memory was still to come.
    is_summing_up: bool,
    lines: u32,
}

/// A place on the map that stays on screen while zooming.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    /// Its pool, segment and address.
    place: (u32, u32, u64),
    /// Its line, as a share of the lines of the place.
    share: f32,
    /// Top of its line, in points from the top of the visible part.
    y: f32,
}

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "memory-state",
    title: "Memory state",
    help: "Show the allocator's segments and blocks at a moment",
    keys: &[ctrl_shift(Key::M)],
    area: DockArea::Center,
    content: Content::Memory,
    make: || Box::new(MemoryState::default()),
};

/// The state at a moment.
#[derive(Debug, Default)]
pub struct MemoryState {
    transport: Transport,
    in_short: head::InShortLine,
    /// Zoom factor; 1 shows everything.
    zoom: f64,
    map: Query<MapOf>,
    /// Width and lines of the map, as there was room for in the frame before.
    room: Option<(u32, u32)>,
    /// The place under the pointer while zooming, until the map of that size is ready.
    anchor: Option<Anchor>,
    /// Scroll offset, in points from the top.
    scroll: f32,
    fitted: Option<Fitted>,
    is_waiting: bool,
}

impl View for MemoryState {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        self.zoom = self.zoom.max(1.0);
        let view = ui.max_rect().size();
        egui::Frame::NONE.inner_margin(egui::Margin::symmetric(8, 4)).show(ui, |ui| {
            let is_small = head::is_small(ui);
            let mut head_ui = |ui: &mut egui::Ui| {
                let shown = ui.horizontal_wrapped(|ui| head::choose_ui(ctx, ui)).inner?;
                let is_summing_up = head::in_short_ui(&mut self.in_short, &shown, ctx, ui);
                Some((shown, is_summing_up))
            };
            // Where lines are few, the map has them.
            let head = if is_small { ui.horizontal(head_ui).inner } else { head_ui(ui) };
            let Some((shown, is_summing_up)) = head else { return };
            if !shown.history().has_segments() {
                let how = "A memory history (torch.cuda.memory._dump_snapshot) has both; how much is allocated and \
                           reserved is in Memory over time";
                nothing_ui("This recording has blocks, but not the segments they lie in", how, ui);
                return;
            }
            self.transport.play(&shown, ctx, ui);
            // Asked for before anything is said of the moment: words, sums and picture are of the map that is there.
            let answer = self.room.map(|room| self.ask(&shown, room, ctx));
            ctx.memory.is_followed &= !answer.as_ref().is_some_and(Answer::is_working);
            let on_screen = answer.as_ref().and_then(Answer::newest).map(|map| map.moment);
            let asked = ctx.memory.moment;
            self.transport.ui(&shown, on_screen, ctx, ui);
            self.map_ui(answer, &shown, (view, is_summing_up), is_small, ctx, ui);
            if ctx.memory.moment != asked {
                ui.ctx().request_repaint();
            }
            self.is_waiting |= is_summing_up || ctx.memory.moment != asked;
        });
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }

    fn run_hidden(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        if *command != Command::PlayMoments {
            return false;
        }
        if let Some(shown) = ctx.memory.resolve(ctx.traces) {
            self.transport.toggle(&shown, ctx);
            ctx.commands.push(Command::Show(SPEC.id));
        }
        true
    }

    fn run(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        let Some(shown) = ctx.memory.resolve(ctx.traces) else { return false };
        match command {
            Command::ZoomIn => self.zoom_by(1.5),
            Command::ZoomOut => self.zoom_by(1.0 / 1.5),
            Command::ZoomToFit => self.zoom = 1.0,
            Command::FocusSelection | Command::ZoomToSelection | Command::Reveal => {
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
        let most = self.map.newest().map_or(1e9, |shown| shown.max_zoom);
        self.zoom = (self.zoom * factor).clamp(1.0, most);
    }

    /// Applies the wheel: zooms around the pointer. Returns the distance to scroll.
    fn wheel(&mut self, area: Rect, row: f32, wheel_zooms: bool, ui: &egui::Ui) -> f32 {
        let Some(pointer) = ui.ctx().pointer_latest_pos().filter(|_| ui.rect_contains_pointer(area)) else {
            return 0.0;
        };
        let Wheel { scroll, zoom: factor } = Wheel::read(ui.ctx(), wheel_zooms);
        let before = self.zoom;
        if factor != 1.0 {
            self.zoom_by(factor);
        }
        if self.zoom != before {
            let line = ((self.scroll + pointer.y - area.top()) / row).max(0.0) as u32;
            let newest = self.map.newest();
            let boxes = newest.as_ref().map(|shown| shown.map.of_lines(line..u32::MAX)).unwrap_or_default();
            let x = pointer.x - area.left();
            let under = boxes.iter().take_while(|place| place.line == line && place.x[0] <= x).last();
            let anchor = under.or(boxes.first()).zip(newest.as_ref()).map(|(under, shown)| {
                let place = (under.pool, under.segment, under.addr);
                let (first, n) = shown.map.lines_of(place);
                Anchor { place, share: (under.line - first) as f32 / n as f32, y: line as f32 * row - self.scroll }
            });
            // Until the larger map is ready, the wheel zooms around the same place.
            self.anchor = self.anchor.or(anchor);
        }
        scroll.y
    }

    /// The lines of a map in `room` points of height, the same at every moment.
    fn lines(&mut self, shown: &ShownMemory, (view, is_summing_up): (Vec2, bool), room: f32) -> u32 {
        let of = shown.key();
        let is_same = |known: &Fitted| (&known.of, known.view, known.is_summing_up) == (&of, view, is_summing_up);
        if let Some(known) = self.fitted.as_ref().filter(|known| is_same(known)) {
            return known.lines;
        }
        let lines = (room / (LINE_HEIGHT + LINE_GAP)).max(1.0) as u32;
        self.fitted = Some(Fitted { of, view, is_summing_up, lines });
        lines
    }

    /// The map of the moment; until it is ready, the one before.
    ///
    /// * `room`: its width in points and its lines.
    fn ask(&mut self, shown: &ShownMemory, room: (u32, u32), ctx: &ViewContext<'_>) -> Answer<StateMap> {
        let (width, lines) = room;
        let state = ctx.memory.moment.unwrap_or(shown.history().last_state());
        let wanted = MapOf { state, width, lines, zoom: self.zoom, is_dark: ctx.is_dark };
        self.map.ask_in_turn(ctx.answers, &shown.of, &wanted, |_| true)
    }

    /// * `answer`: to the room of the frame before; `None` in the first one.
    /// * `of_view`: the size of the whole view, and whether the memory is still being summed up.
    fn map_ui(
        &mut self,
        answer: Option<Answer<StateMap>>,
        shown: &ShownMemory,
        of_view: (Vec2, bool),
        is_small: bool,
        ctx: &mut ViewContext<'_>,
        ui: &mut egui::Ui,
    ) {
        let area = ui.available_rect_before_wrap();
        let scroll_bar = ui.spacing().scroll.allocated_width() + 2.0;
        let n_sums = match () {
            () if is_small && area.height() < LEAST_WITH_SUMS => 0.0,
            () if is_small || area.width() >= ONE_LINE => 1.0,
            () => 2.0,
        };
        let sums_height = n_sums * (ui.spacing().interact_size.y + ui.spacing().item_spacing.y);
        let width = (area.width() - scroll_bar).max(60.0) as u32;
        let room = (width, self.lines(shown, of_view, area.height() - sums_height));
        let is_fitted = self.room.replace(room) == Some(room);
        if !is_fitted {
            ui.ctx().request_repaint();
        }
        let answer = answer.unwrap_or(Answer::Working(None));
        self.is_waiting = answer.is_working() || !is_fitted;
        let Some(map) = answer_ui(&answer, "Laying out the map…", ui) else { return };
        match is_small {
            true if n_sums == 0.0 => {}
            true => _ = ui.add(egui::Label::new(sums_text(&map.state.sums)).truncate()),
            false => sums_ui(&map, ui),
        }
        if map.state.sums.reserved == 0 {
            nothing_ui("Nothing is reserved at this moment", "Choose another one above", ui);
            return;
        }
        let n_lines = map.map.lines.len();
        let zoom = self.zoom;
        let row = LINE_HEIGHT + LINE_GAP;
        let area = ui.available_rect_before_wrap();
        let by = self.wheel(area, row, ctx.wheel_zooms, ui);
        if let Some(anchor) = self.anchor.filter(|_| zoom == self.zoom && !self.is_waiting) {
            let (first, n) = map.map.lines_of(anchor.place);
            self.scroll = (first as f32 + (anchor.share * n as f32).round()) * row - anchor.y;
            self.anchor = None;
        }
        self.scroll = (self.scroll - by).clamp(0.0, (n_lines as f32 * row - area.height()).max(0.0));
        // The wheel is read above, where it may also zoom; of the scroll area only the bar is used. The area learns
        // the height of the map only while painting, so the offset it returns is ignored unless the bar is dragged.
        ui.spacing_mut().scroll.kinetic.rubber_band = false;
        let scroll = egui::ScrollArea::vertical().auto_shrink(false).id_salt("memory map");
        let scroll = scroll.scroll_source(egui::scroll_area::ScrollSource::SCROLL_BAR);
        let shown_part = scroll.vertical_scroll_offset(self.scroll).show_viewport(ui, |ui, viewport| {
            let (rect, response) = ui.allocate_exact_size(vec2(width as f32, n_lines as f32 * row), Sense::click());
            let first = (viewport.top() / row).max(0.0) as u32;
            let last = (((viewport.bottom() / row).ceil() as u32) + 1).min(n_lines as u32);
            let canvas = Canvas { map: &map, shown, origin: rect.min };
            canvas.paint(first..last, ctx, ui);
            canvas.interact(&response, ctx);
        });
        if ui.input(|input| input.pointer.any_down()) {
            self.scroll = shown_part.state.clamped_offset().y;
        }
    }
}

/// The places on the map, which are the same at every moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MapSlots;

impl Analysis for MapSlots {
    type Of = OpenMemory;
    type Output = Slots;
    const NAME: &'static str = "The places of the map";

    fn run(&self, of: &OpenMemory, _: &Work<'_>) -> Option<Slots> {
        Some(Slots::of(of.history()))
    }
}

/// The bytes per point at which the map fits, which are the same at every moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FittingScale {
    width: u32,
    lines: u32,
}

impl Analysis for FittingScale {
    type Of = OpenMemory;
    type Output = f64;
    const NAME: &'static str = "The scale of the map";

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<f64> {
        Some(work.get(of, &MapSlots)?.fitting_scale(self.width as f32, self.lines))
    }
}

impl Analysis for MapOf {
    type Of = OpenMemory;
    type Output = StateMap;
    const NAME: &'static str = "The map of this moment";
    const KEPT: usize = 1;

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<StateMap> {
        let state = work.get(of, &StateAt(self.state))?;
        let slots = work.get(of, &MapSlots)?;
        let width = self.width as f32;
        let fitting = *work.get(of, &FittingScale { width: self.width, lines: self.lines })?;
        let least = slots.least_scale(width, MAX_LINES);
        let map = lay_out(&state, &slots, width, (fitting / self.zoom).max(least));
        let labels = work.get(&of.open.trace, &StackLabels)?;
        let colors = work.get(&of.open.trace, &ColorStacks { is_dark: self.is_dark })?;
        Some(StateMap { moment: self.state, state, map, labels, colors, max_zoom: (fitting / least).max(1.0) })
    }
}

/// The sums of all segments, in one line.
fn sums_text(sums: &MemorySums) -> String {
    let bytes = |bytes: u64| format::bytes(bytes as f64);
    format!("{} reserved, {} allocated, {} free", bytes(sums.reserved), bytes(sums.allocated), bytes(sums.free))
}

/// The sums of all segments, in one line or two: always as many in a view of one width, so that the map stays where it
/// is.
fn sums_ui(map: &StateMap, ui: &mut egui::Ui) {
    if ui.available_width() >= ONE_LINE {
        ui.horizontal(|ui| {
            parts_ui(map, ui);
            ui.separator();
            free_ui(map, ui);
        });
    } else {
        ui.horizontal(|ui| parts_ui(map, ui));
        ui.horizontal(|ui| {
            ui.style_mut().wrap_mode = Some(egui::TextWrapMode::Truncate);
            free_ui(map, ui);
        });
    }
}

/// What reserved memory consists of, and the scale of the map.
fn parts_ui(map: &StateMap, ui: &mut egui::Ui) {
    let MemorySums { reserved, allocated, awaiting_free, unsplit, free, .. } = map.state.sums;
    let is_dark = ui.visuals().dark_mode;
    let bytes = |bytes: u64| format::bytes(bytes as f64);
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
    let n: usize = map.state.pools.iter().map(|pool| pool.segments.len()).sum();
    let pixel = format::bytes(map.map.bytes_per_point / f64::from(ui.pixels_per_point()));
    ui.add(
        egui::Label::new(
            egui::RichText::new(format!("{}, {pixel} a pixel", format::of_things(n as u64, "segment"))).weak(),
        )
        .truncate(),
    );
}

/// Why free memory may not be of use.
fn free_ui(map: &StateMap, ui: &mut egui::Ui) {
    let MemorySums { largest_free, pinned, .. } = map.state.sums;
    let bytes = |bytes: u64| format::bytes(bytes as f64);
    let hint =
        "The largest request that fits without more from the device, if its pool and stream are those of the segment";
    ui.label(format!("largest free range {}", bytes(largest_free))).on_hover_text(hint);
    let hint = "Free, but in segments that still hold blocks and so cannot be returned to the device; of expandable \
                segments in mapped parts with blocks, of which whole pages without one can be returned";
    ui.label(format!("free in partly used segments {}", bytes(pinned))).on_hover_text(hint);
    let hint = "How scattered the free memory of each segment is in itself: 1 - Σ free² / (Σ free)², weighed with free bytes. 0 is one \
                free range per segment, near 1 is many small ones. What is free in different segments does not count here, although \
                no request can have it in one piece: memory may run out of fragmentation where this is near 0";
    let within =
        format!("fragmentation within segments {:.1} % (not between them)", map.state.sums.fragmentation() * 100.0);
    ui.label(within).on_hover_text(hint);
    if map.state.unplaced > 0 {
        let hint = "Blocks that lie in no segment of the recording, or where another block does";
        ui.label(format!("{} in no segment", bytes(map.state.unplaced))).on_hover_text(hint);
    }
}
