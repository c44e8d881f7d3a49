//! The timeline view: slices, instants and counters of all tracks over time.

mod background;
mod canvas;
mod cells;
mod commands;
mod hit;
mod hover;
mod labels;
mod layout;
mod legend;
mod menu;
mod overlay;
mod paint;
mod peaks;
mod queues;
mod scroll;
mod settings;
mod steps;
mod strips;
#[cfg(test)]
mod tests;
mod track_list;
mod unfolded;
mod walk;

use eframe::egui::{self, Frame, Id, Key, Margin, Pos2, Rect, Sense, TextEdit, Ui, UiBuilder, pos2, vec2};

pub use settings::TimelineSettings;

use self::background::Background;
use self::canvas::Canvas;
use self::commands::Direction;
use self::hit::Hit;
use self::layout::Area;
use self::queues::Queues;
use self::steps::StepBands;
use self::strips::Strips;
use self::track_list::{Heights, Line, SPACING, TrackList, total_height, visible_lines};
use self::unfolded::Unfolded;
use super::axis::{Drag, Minimap, Motion, RulerLabels, Scale, part_text, taken_by_marks};
use super::states::nothing_ui;
use super::{Content, DockArea, OffScreen, View, ViewContext, ViewSpec};
use crate::analysis::threads::{Part, parts};
use crate::command::{Command, ctrl};
use crate::model::{ProcessId, SliceId, TimeNs, TimeRange};
use crate::session::{Selection, counts_events, lenient};

const MINIMAP_HEIGHT: f32 = 26.0;
const RULER_HEIGHT: f32 = 20.0;
const SCROLL_BAR: f32 = 9.0;
/// A view that is less high has no legend.
const LEAST_WITH_LEGEND: f32 = 160.0;
/// The largest share of the width for the names of tracks: with large text or beside the details there is little.
const MAX_LABEL_SHARE: f32 = 0.4;
/// The largest share of the canvas height for pinned tracks.
const MAX_PINNED_SHARE: f32 = 0.5;

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "timeline",
    title: "Timeline",
    help: "Show the timeline",
    keys: &[ctrl(Key::T)],
    area: DockArea::Center,
    content: Content::Tracks,
    make: || Box::new(Timeline::default()),
};

/// The timeline view.
#[derive(Default)]
pub struct Timeline {
    settings: TimelineSettings,
    filter: String,
    tracks: TrackList,
    /// The headings whose rows scroll under them.
    stuck: Vec<Line>,
    /// What the tracks of each open trace are for.
    parts: Vec<Vec<Part>>,
    /// Factor on the heights of rows.
    stretch: f32,
    /// Heights of all lines before the user changes any.
    at_first: Heights,
    /// The height of the canvas for which `stretch` was chosen; NaN before.
    stretched_for: f32,
    /// Whether a line of `tracks` has a strip of idle time.
    has_strips: bool,
    /// Whether `tracks` must be laid out again.
    is_stale: bool,
    /// Scroll offsets of the pinned and of the other lines, in points.
    scroll: [f64; 2],
    background: Background,
    /// Idle time of the devices.
    strips: Strips,
    queues: Queues,
    steps: StepBands,
    motion: Motion,
    /// With the scroll offset of the tracks at its start.
    drag: Drag<f64>,
    ruler_drag: Drag<f64>,
    minimap: Minimap,
    canvas: Canvas,
    /// A slice to scroll to once the lines are laid out.
    reveal: Option<(usize, SliceId)>,
    /// A device to scroll to.
    scroll_to: Option<(usize, ProcessId)>,
    /// What was unfolded around the selected gap.
    unfolded: Option<Unfolded>,
    /// A step to the next gap that waits for the ledgers.
    pending_walk: Option<Direction>,
    /// Session time under the pointer while it is over the canvas.
    pointer_time: Option<TimeNs>,
    /// The target of the context menu.
    menu: Hit,
    /// The canvas of the last frame, and where the pointer was when it changed, until it moves.
    placed: (Option<Rect>, Option<Pos2>),
}

/// Rectangles of the parts of the view.
#[derive(Clone, Copy, Debug)]
struct Parts {
    filter: Rect,
    minimap: Rect,
    ruler: Rect,
    /// Beside the bands of steps, for the picker; and the bands.
    steps: [Rect; 2],
    labels: Rect,
    canvas: Rect,
    scroll_bar: Rect,
    legend: Rect,
}

impl Parts {
    fn new(rect: Rect, label_width: f32, [steps_height, legend_height]: [f32; 2], pixels_per_point: f32) -> Self {
        // On the pixel grid, so that the texture of the rows is not blurred.
        let snap = |x: f32| (x * pixels_per_point).round() / pixels_per_point;
        let left = snap(rect.left() + label_width.clamp(60.0, (rect.width() * MAX_LABEL_SHARE).max(60.0)));
        let right = snap(rect.right() - SCROLL_BAR).max(left + 1.0);
        let minimap = snap(rect.top() + MINIMAP_HEIGHT);
        let ticks = snap(minimap + RULER_HEIGHT);
        let ruler = snap(ticks + steps_height);
        let bottom = snap(rect.bottom() - legend_height).max(ruler + 1.0);
        Self {
            filter: Rect::from_min_max(rect.min, pos2(left - 4.0, minimap)),
            minimap: Rect::from_min_max(pos2(left, rect.top()), pos2(right, minimap - 2.0)),
            ruler: Rect::from_min_max(pos2(left, minimap), pos2(right, ticks)),
            steps: [
                Rect::from_min_max(pos2(rect.left(), ticks), pos2(left - 4.0, ruler)),
                Rect::from_min_max(pos2(left, ticks), pos2(right, ruler)),
            ],
            labels: Rect::from_min_max(pos2(rect.left(), ruler), pos2(left, bottom)),
            canvas: Rect::from_min_max(pos2(left, ruler), pos2(right, bottom)),
            scroll_bar: Rect::from_min_max(pos2(right + 1.0, ruler), pos2(rect.right(), bottom)),
            legend: Rect::from_min_max(pos2(rect.left(), bottom), rect.max),
        }
    }
}

impl std::fmt::Debug for Timeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timeline")
            .field("settings", &self.settings)
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

impl Timeline {
    /// Shows only tracks and groups whose name contains `text`; all if it is empty.
    pub fn set_filter(&mut self, text: &str) {
        if self.filter != text {
            text.clone_into(&mut self.filter);
            self.is_stale = true;
        }
    }

    fn refresh(&mut self, ctx: &ViewContext<'_>) {
        self.leave_gap(ctx);
        if self.background.follow(ctx.traces, ctx.answers) {
            self.is_stale = true;
            self.canvas.forget();
            self.strips.forget();
            self.queues.forget();
            (self.reveal, self.scroll_to, self.pending_walk) = (None, None, None);
            self.menu = Hit::Nothing;
            self.settings.opened(ctx.traces.iter().map(|open| &*open.id));
            self.parts = ctx.traces.iter().map(|open| parts(&open.trace)).collect();
            self.at_first = TrackList::build(ctx.traces, &self.parts, &TimelineSettings::default(), "").heights();
            self.stretched_for = f32::NAN;
        }
        self.is_stale |= self.settings.has_queues && self.queues.ask(ctx);
        if std::mem::take(&mut self.is_stale) {
            self.tracks = TrackList::build(ctx.traces, &self.parts, &self.settings, &self.filter);
            self.queues.insert(&mut self.tracks, &self.settings, &self.filter);
            self.has_strips = self.tracks.scrolled.iter().any(Line::has_strip);
            if self.stretched_for.is_finite() {
                self.tracks.stretch(self.stretch);
            }
        }
    }

    /// Lets rows use the room that there is for all tracks as they are at first. What is folded, hidden or filtered
    /// leaves the others as they are, also after a restart. Cost: O(lines) where the height is another.
    fn fill(&mut self, height: f32) {
        if self.stretched_for != height {
            (self.stretch, self.stretched_for) = (self.at_first.stretch_for(height), height);
            self.tracks.stretch(self.stretch);
        }
    }

    /// The pinned and the scrolling part of the canvas, and the headings over the latter.
    fn areas(&mut self, canvas: Rect) -> [Area; 3] {
        let pinned_height = total_height(&self.tracks.pinned);
        let shown = pinned_height.min(f64::from(canvas.height() * MAX_PINNED_SHARE)) as f32;
        let border = canvas.top() + shown.round();
        let rects = [
            Rect::from_min_max(canvas.min, pos2(canvas.right(), border)),
            Rect::from_min_max(pos2(canvas.left(), border), canvas.max),
        ];
        let heights = [pinned_height, total_height(&self.tracks.scrolled)];
        for ((scroll, rect), height) in self.scroll.iter_mut().zip(rects).zip(heights) {
            *scroll = scroll.clamp(0.0, (height - f64::from(rect.height())).max(0.0));
        }
        let stuck = self.stick(rects[1]);
        let [pinned, scrolled] = [0, 1].map(|i| Area { rect: rects[i], scroll: self.scroll[i], covered: 0.0 });
        [pinned, Area { covered: stuck.rect.height(), ..scrolled }, stuck]
    }

    /// Finds the headings of the topmost line in view that have scrolled by. The next heading pushes them away.
    fn stick(&mut self, rect: Rect) -> Area {
        let (lines, scroll) = (&self.tracks.scrolled, self.scroll[1]);
        let first = visible_lines(lines, scroll, scroll).start;
        let is_out = |line: &&Line| line.is_heading() && line.y < scroll;
        let heading = |line: &Line| lines.get(line.heading? as usize);
        let topmost = lines.get(first);
        let innermost = topmost.filter(is_out).or_else(|| topmost.and_then(heading)).filter(is_out);
        self.stuck = std::iter::successors(innermost, |line| heading(line)).cloned().collect();
        self.stuck.reverse();
        let mut height = 0.0;
        for line in &mut self.stuck {
            line.y = height;
            height += f64::from(line.height + SPACING);
        }
        let next =
            lines.iter().skip(first + 1).take_while(|line| line.y < scroll + height).find(|line| line.is_heading());
        let pushed = next.map_or(0.0, |next| scroll + height - next.y);
        let shown = ((height - pushed) as f32).clamp(0.0, rect.height());
        Area { rect: Rect::from_min_size(rect.min, vec2(rect.width(), shown)), scroll: pushed, covered: 0.0 }
    }

    /// The lines at a place on screen, and their area.
    fn lines_at(&self, areas: [Area; 3], pointer: Pos2) -> (&[Line], Area) {
        let [pinned, scrolled, stuck] = areas;
        match pointer {
            at if stuck.rect.contains(at) => (&self.stuck, stuck),
            at if pinned.rect.contains(at) => (&self.tracks.pinned, pinned),
            _ => (&self.tracks.scrolled, scrolled),
        }
    }

    /// The lines that are visible.
    fn on_screen(&self, areas: [Area; 3]) -> impl Iterator<Item = &Line> {
        let lines = [&*self.tracks.pinned, &self.tracks.scrolled, &self.stuck].into_iter().zip(areas);
        lines.flat_map(|(lines, area)| area.visible(lines))
    }

    /// Says that no track fits the filter, if so, beside pinned ones, which stay whatever it is.
    ///
    /// * `rect`: where the tracks that scroll would be.
    fn no_match_ui(&mut self, ui: &mut Ui, rect: Rect) {
        let (has_filter, has_pinned) = (!self.filter.trim().is_empty(), !self.tracks.pinned.is_empty());
        if !self.tracks.scrolled.is_empty() || has_pinned && !has_filter {
            return;
        }
        let builder = UiBuilder::new().max_rect(rect.shrink(24.0)).id_salt("no track");
        ui.scope_builder(builder, |ui| {
            if !has_filter {
                ui.label("All tracks are hidden");
                if ui.button("Show hidden tracks").clicked() {
                    self.show_hidden();
                }
            } else {
                let none = if has_pinned { "No track that is not pinned" } else { "No track" };
                ui.label(format!("{none} has “{}” in its name", self.filter.trim()));
                if self.tracks.n_hidden > 0 {
                    ui.weak("Hidden tracks are not searched");
                }
                if ui.button("Clear filter").clicked() {
                    self.set_filter("");
                }
            }
        });
    }

    fn show_hidden(&mut self) {
        self.unfolded = None;
        self.settings.show_hidden(&self.tracks);
        self.is_stale = true;
    }

    fn filter_ui(&mut self, ui: &mut Ui, rect: Rect) {
        let builder = UiBuilder::new().max_rect(rect.shrink2(vec2(3.0, 2.0))).id_salt("timeline filter");
        ui.scope_builder(builder, |ui| {
            // An id of its own: one that counts what was painted before it changes while the user types, and loses the
            // focus.
            let field = TextEdit::singleline(&mut self.filter).id(Id::unique("timeline filter"));
            let field = field.hint_text("Filter tracks…").desired_width(f32::INFINITY);
            let field = ui.add(field).accessible_name("Filter tracks");
            if field.changed() {
                self.is_stale = true;
            }
            if field.lost_focus() && ui.input(|input| input.key_pressed(Key::Escape)) {
                self.set_filter("");
            }
        });
    }

    /// The content, unless more than that is visible.
    fn minimap_span(&self, ctx: &ViewContext<'_>) -> TimeRange {
        let view = ctx.navigation.visible();
        let is_content = view.dur() <= ctx.content.dur() && view.intersect(ctx.content).is_some();
        if is_content { ctx.content } else { ctx.span }
    }

    fn labels_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, parts: &Parts, areas: [Area; 3]) {
        let list = &self.tracks;
        let mut chosen = None;
        for (i, lines) in [&*list.pinned, &list.scrolled, &self.stuck].into_iter().enumerate() {
            let shown = (list, &self.strips, &mut self.background);
            chosen = labels::ui(ui, ctx.traces, shown, (parts.labels, i), (lines, areas[i])).or(chosen);
        }
        if let Some((line, action)) = chosen {
            ctx.commands.extend(labels::command(ctx.traces, &line, &action));
            labels::apply(&mut self.settings, list, &line, action);
            // From now on it is as the user has it.
            self.unfolded = None;
            self.is_stale = true;
            ui.ctx().request_repaint();
        }
        let edge = Rect::from_x_y_ranges(parts.labels.right() - 3.0..=parts.labels.right(), parts.labels.y_range());
        let edge = ui.interact(edge, Id::unique("timeline label width"), Sense::drag());
        edge.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Splitter, true, "Width of track labels"));
        let edge = edge.on_hover_and_drag_cursor(egui::CursorIcon::ResizeHorizontal);
        if edge.dragged() {
            let width = parts.canvas.left() - parts.labels.left();
            self.settings.label_width = (width + edge.drag_delta().x).clamp(60.0, 800.0);
        }
    }
}

impl View for Timeline {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui) {
        if ctx.traces.iter().all(|open| open.trace.tracks.is_empty()) {
            Frame::NONE.inner_margin(Margin::symmetric(8, 4)).show(ui, |ui| {
                let what = if ctx.traces.len() > 1 {
                    "Nothing in these files can be drawn"
                } else {
                    "Nothing in this file can be drawn"
                };
                nothing_ui(what, "The Problems tab lists what was found in it", ui);
            });
            return;
        }
        self.refresh(ctx);
        if let Some(direction) = self.pending_walk {
            self.walk(ctx, direction);
            self.refresh(ctx);
        }
        let (rect, _) = ui.allocate_exact_size(ui.available_size(), Sense::hover());
        if rect.width() < 120.0 || rect.height() < 80.0 {
            return;
        }
        let steps = self.steps.ask(ctx);
        let steps_height = steps.len() as f32 * steps::HEIGHT;
        let has_legend = rect.height() >= LEAST_WITH_LEGEND && self.has_strips;
        let legend_height = if has_legend { legend::HEIGHT } else { 0.0 };
        let heights = [steps_height, legend_height];
        let parts = Parts::new(rect, self.settings.label_width_in(rect.width()), heights, ui.pixels_per_point());
        self.fill(parts.canvas.height());
        let of_runs: Vec<_> = steps.iter().filter_map(steps::Row::steps).collect();
        self.canvas_input(ctx, ui, &parts, &of_runs);
        let areas = self.areas(parts.canvas);
        let device = self.scroll_to;
        self.scroll_to_device(areas);
        let areas = self.areas(parts.canvas);
        let heading = device.and_then(|(trace, process)| self.device_heading(trace, process));
        let above = heading.map(|line| f64::from(areas[1].top(line) - areas[1].rect.top()).max(0.0));
        self.scroll_to_revealed(ctx, areas, above.or(device.map(|_| f64::INFINITY)));
        let areas = self.areas(parts.canvas);
        let scale =
            Scale::new(ctx.navigation.visible(), parts.canvas.left(), parts.canvas.width(), ui.pixels_per_point());
        // Session time is zero where the run starts: what was recorded before is negative.
        let is_counted = counts_events(ctx.traces);
        let ruler = if is_counted { RulerLabels::events(0, 1, i64::MAX) } else { RulerLabels::time(0) };
        let marks = ctx.marks.iter().map(|mark| (mark.range, mark.note.as_str()));
        let mut taken = taken_by_marks(ui.painter(), marks, &scale);
        let times = [ctx.navigation.moment, self.measured(ctx.traces)];
        taken.extend(canvas::time_labels(ui, &parts, &scale, times).iter().map(|label| label.1.x_range()));
        ruler.paint(ui.painter(), [parts.ruler, parts.canvas], &scale, ui.visuals(), &taken);
        for (i, row) in steps.iter().enumerate() {
            let part = |rect: Rect| {
                let top = rect.top() + i as f32 * steps::HEIGHT;
                Rect::from_x_y_ranges(rect.x_range(), top..=(top + steps::HEIGHT).min(rect.bottom()))
            };
            steps::ui(ctx, ui, row, &scale, parts.steps.map(part));
        }
        self.canvas_ui(ctx, ui, &parts, areas, scale);
        self.labels_ui(ctx, ui, &parts, areas);
        self.no_match_ui(ui, areas[1].rect);
        self.filter_ui(ui, parts.filter);
        let whole = self.minimap_span(ctx);
        let heights = self.background.busy_shares(ctx, whole, parts.minimap, ui);
        self.minimap.ui(ui, parts.minimap, &heights, ctx.navigation, whole, &mut self.motion);
        self.scroll_bar_ui(ui, parts.scroll_bar, areas[1]);
        if has_legend {
            legend::ui(ctx, ui, &self.strips, self.on_screen(areas), parts.legend);
        }
    }

    fn is_pending(&self) -> bool {
        self.background.is_pending()
            || self.strips.is_waiting()
            || self.queues.is_waiting()
            || self.steps.is_waiting()
            || self.pending_walk.is_some()
    }

    fn run(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        self.run_command(command, ctx)
    }

    fn run_hidden(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        match (command, *ctx.selection) {
            (Command::Reveal, Selection::Slice { trace, slice }) => self.reveal(ctx, trace, slice),
            (Command::Reveal, Selection::Gap { .. }) => self.show_gap(ctx),
            (
                Command::CollapseAll
                | Command::ExpandAll
                | Command::UnfoldRows
                | Command::FoldRows
                | Command::ToggleQueues
                | Command::ShowHiddenTracks,
                _,
            ) => return self.run_command(command, ctx),
            _ => return false,
        }
        true
    }

    fn off_screen(&self) -> OffScreen {
        self.tracks.off_screen()
    }

    fn visible(&mut self, ctx: &mut ViewContext<'_>) -> Option<[String; 2]> {
        let has_tracks = ctx.traces.iter().any(|open| !open.trace.tracks.is_empty());
        // Beside what was recorded there is nothing to see.
        let visible = ctx.navigation.visible().intersect(ctx.span).unwrap_or_default();
        has_tracks.then(|| part_text(ctx.traces, visible, ctx.span))
    }

    fn save(&self) -> serde_json::Value {
        let mut settings = self.settings.clone();
        self.unfolded.iter().for_each(|unfolded| unfolded.fold(&mut settings));
        serde_json::to_value(settings).unwrap_or_default()
    }

    fn load(&mut self, saved: &serde_json::Value) {
        self.settings = lenient(saved);
        self.is_stale = true;
    }
}
