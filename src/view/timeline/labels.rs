//! The column of labels beside the canvas: names of tracks and groups, with their actions.

use std::borrow::Cow;
use std::cmp::Reverse;

use eframe::egui::{
    Align, Color32, FontId, Id, Label, Layout, Painter, Rect, RichText, Role, Sense, Shape, Stroke, Ui, UiBuilder,
    WidgetInfo, pos2, vec2,
};

use super::background::{Background, Summary, SummaryOf};
use super::layout::Area;
use super::settings::TimelineSettings;
use super::strips::{IdleTime, Strips};
use super::track_list::{GROUP_HEIGHT, Line, LineKind, ROW_HEIGHT, RowFold, TrackList};
use crate::analysis::gaps::GapClass;
use crate::command::Command;
use crate::figures::devices::LITTLE;
use crate::figures::text::{middle_cut, without_common_start};
use crate::figures::verdicts::LACKS_EVENTS;
use crate::figures::{escape, format};
use crate::session::OpenTrace;
use crate::view::gaps::classes_ui;

const BUTTON: f32 = 16.0;
const INDENT: f32 = 10.0;
/// Width of the busy share of a process.
const BUSY_WIDTH: f32 = 56.0;

/// Which rows of a deep thread are folded.
const ABOUT_ROWS: &str = "Outer rows show one and the same function nearly all the time, and only pass on to what is \
                          inside. Inner rows are the deepest, below all annotations. A row is unfolded by itself where \
                          something in it is gone to";

/// An action on the line of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelAction {
    ToggleCollapsed,
    /// Folds or unfolds rows of a deep thread.
    ToggleRows,
    TogglePinned,
    Hide,
    ShowHidden,
    /// Lists its events.
    ListEvents,
    /// Closes its trace.
    CloseTrace,
    /// Closes all traces of its file.
    CloseFile,
    /// Brings its run to the front.
    BringToFront,
    /// Moves it up or down among its siblings.
    Move(isize),
    /// Moves it to where the line with this key is.
    MoveTo(String),
}

/// Shows the labels of the lines visible in `area`; returns a line with the action chosen for it.
///
/// * `column`: with the number of the area.
pub fn ui(
    ui: &mut Ui,
    traces: &[OpenTrace],
    (list, strips, background): (&TrackList, &Strips, &mut Background),
    (column, index): (Rect, usize),
    (lines, area): (&[Line], Area),
) -> Option<(Line, LabelAction)> {
    let clip = Rect::from_x_y_ranges(column.x_range(), area.clip().y_range());
    let mut chosen = None;
    let mut outer = ui.new_child(UiBuilder::new().max_rect(clip).id_salt(("labels", index)));
    outer.set_clip_rect(clip.intersect(ui.clip_rect()));
    for line in area.visible(lines) {
        let Some(open) = traces.get(line.trace) else { continue };
        let top = area.top(line);
        let left = column.left() + 2.0 + INDENT * f32::from(line.indent);
        let height = if line.kind == LineKind::Trace && !line.has_strip() {
            GROUP_HEIGHT
        } else {
            line.row_height.max(ROW_HEIGHT).min(line.height)
        };
        // The name of what is on screen stays there while its rows scroll.
        let top = match line.kind {
            LineKind::Track(_) => top.max(clip.top().min(top + line.height - height)),
            _ => top,
        };
        let rect = Rect::from_min_max(pos2(left, top), pos2(column.right() - 4.0, top + height));
        let builder = UiBuilder::new()
            .max_rect(rect)
            .id_salt((line.trace, line.kind))
            .layout(Layout::left_to_right(Align::Center));
        let action = outer.scope_builder(builder, |ui| {
            ui.spacing_mut().item_spacing.x = 2.0;
            let can_collapse = line.can_collapse(&open.trace);
            let busy = busy_share(line, open, background);
            let title = distinct_title(line, traces);
            let action = line_ui(ui, line, &title, can_collapse, list, (of_file(traces, line), busy));
            let dropped =
                ui.input(|input| input.pointer.any_released()).then(|| ui.ctx().pointer_hover_pos()).flatten();
            action.or_else(|| dragged_to(lines, area, line, ui, dropped?))
        });
        let mut action = action.inner;
        if let Some(fold) = &line.row_fold {
            let below = rect.bottom();
            let rect = Rect::from_min_max(pos2(left, below), pos2(rect.right(), below + ROW_HEIGHT));
            if below + ROW_HEIGHT <= area.top(line) + line.height && rows_ui(&mut outer, line, fold, rect) {
                action = Some(LabelAction::ToggleRows);
            }
        }
        chosen = action.map(|action| (line.clone(), action)).or(chosen);
        if let Some(idle) = strips.idle(line, open.trace.span) {
            let at =
                pos2(left + if line.can_collapse(&open.trace) { BUTTON + 2.0 } else { 0.0 }, top + GROUP_HEIGHT - 5.0);
            idle_ui(&mut outer, line, &idle, Rect::from_min_max(at, pos2(rect.right(), top + line.height - 1.0)));
        }
    }
    chosen
}

/// How long the process of a heading was busy, of the time of its trace; devices say it with their idle time.
fn busy_share(line: &Line, open: &OpenTrace, background: &mut Background) -> Option<f64> {
    let LineKind::Process(process) = line.kind else { return None };
    if open.trace.info.format.is_memory_only() {
        return None;
    }
    match background.get(line.trace, SummaryOf::Share(process)).filter(|_| !line.has_strip())? {
        Summary::Share(share) => Some(*share),
        _ => None,
    }
}

/// Idle time of a heading's devices: in figures, and on hover by what went on meanwhile.
fn idle_ui(ui: &mut Ui, line: &Line, idle: &IdleTime, rect: Rect) {
    let total: i64 = idle.idle.iter().sum();
    let [text, shorter] = idle_text(idle, total);
    let response = ui.interact(rect, Id::unique(("idle time", line.trace, line.kind)), Sense::hover());
    let label = text.clone();
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &label));
    let color = ui.visuals().weak_text_color();
    let painter = ui.painter().with_clip_rect(rect.intersect(ui.clip_rect()));
    let lay_out = |text: String| painter.layout_no_wrap(text, FontId::proportional(10.5), color);
    // A time that is cut would be misread; on hover it is there.
    let whole = lay_out(text);
    let shown = if whole.size().x <= rect.width() { whole } else { lay_out(shorter) };
    painter.galley(rect.left_center() - vec2(0.0, shown.size().y / 2.0), shown, color);
    response.on_hover_ui(|ui| {
        if let Some(little) = &idle.little {
            ui.strong(format!("{}: {little}", line.title));
            ui.weak(LITTLE);
        }
        ui.strong(format!("{}: idle {} of {}", line.title, format::duration(total), format::duration(idle.window_ns)));
        if total == 0 {
            return;
        }
        let mut causes: Vec<_> = GapClass::ALL.into_iter().zip(idle.idle).filter(|cause| cause.1 > 0).collect();
        causes.sort_by_key(|cause| Reverse(cause.1));
        classes_ui(ui, &causes, total);
        if idle.lacks_events {
            ui.colored_label(ui.visuals().warn_fg_color, LACKS_EVENTS);
        }
        ui.weak(
            "Of all time from the device's first to its last work, by what the host did meanwhile. The overview counts \
             the judged steps alone",
        );
        ui.weak(format!("G: {}", crate::command::NEXT_GAP));
    });
}

/// What a heading says of its devices, and what it says in less room.
///
/// * `total`: their idle time.
fn idle_text(idle: &IdleTime, total: i64) -> [String; 2] {
    if let Some(little) = &idle.little {
        let text = if idle.lacks_events { format!("At least {little}") } else { little.clone() };
        let shorter = text.split(':').next().unwrap_or_default().to_owned();
        return [text, shorter];
    }
    let busy = (idle.window_ns - total) as f64 / idle.window_ns.max(1) as f64;
    let overall = if idle.lacks_events { "Busy at least" } else { "Overall: busy" };
    let shorter = format!("{overall} {:.1} %", busy * 100.0);
    let text = match idle.lacks_events {
        false if total == 0 => format!("Busy without a gap, {}", format::duration(idle.window_ns)),
        true => format!("{shorter} of {}", format::duration(idle.window_ns)),
        false => format!("{shorter}, idle {}", format::duration(total)),
    };
    [text, shorter]
}

/// Where the label was dropped, if it was dragged onto a sibling.
fn dragged_to(lines: &[Line], area: Area, line: &Line, ui: &Ui, pointer: eframe::egui::Pos2) -> Option<LabelAction> {
    let is_dragged = ui.ctx().drag_stopped_id() == Some(label_id(line));
    let y = area.scroll + f64::from(pointer.y - area.rect.top());
    let target = Area { scroll: y, covered: 0.0, ..area }.visible(lines).first()?;
    (is_dragged && target.key != line.key && target.parent == line.parent)
        .then(|| LabelAction::MoveTo(target.key.clone()))
}

/// Button icons, painted because not every font has such symbols.
#[derive(Clone, Copy, Debug)]
enum Icon {
    Open,
    Closed,
    Pin,
    Pinned,
}

impl Icon {
    fn paint(self, painter: &Painter, rect: Rect, color: Color32) {
        let center = rect.center();
        let corners = |points: [(f32, f32); 3]| points.map(|(x, y)| center + vec2(x, y)).to_vec();
        match self {
            Self::Open => {
                painter.add(Shape::convex_polygon(
                    corners([(-4.0, -2.0), (4.0, -2.0), (0.0, 3.0)]),
                    color,
                    Stroke::NONE,
                ));
            }
            Self::Closed => {
                painter.add(Shape::convex_polygon(
                    corners([(-2.0, -4.0), (3.0, 0.0), (-2.0, 4.0)]),
                    color,
                    Stroke::NONE,
                ));
            }
            Self::Pin | Self::Pinned => {
                let head = center - vec2(0.0, 2.0);
                painter.line_segment([head, center + vec2(0.0, 5.5)], Stroke::new(1.2, color));
                match self {
                    Self::Pinned => painter.circle_filled(head, 3.2, color),
                    _ => painter.circle_stroke(head, 2.8, Stroke::new(1.0, color.gamma_multiply(0.6))),
                };
            }
        }
    }
}

fn label_id(line: &Line) -> Id {
    Id::unique(("track label", line.trace, line.kind))
}

/// What the menu of a line offers to do with its file; nothing for tracks, and for processes below a heading of their
/// trace.
#[derive(Clone, Copy, Debug, Default)]
struct OfFile {
    /// How many traces of the file it closes.
    n_closed: usize,
    /// Whether its run can be brought to the front.
    is_behind: bool,
}

fn of_file(traces: &[OpenTrace], line: &Line) -> OfFile {
    let is_heading = match line.kind {
        LineKind::Trace => true,
        LineKind::Process(_) => traces.len() == 1,
        LineKind::Track(_) | LineKind::Fold(..) | LineKind::Queue(..) => false,
    };
    let Some(own) = traces.get(line.trace).filter(|_| is_heading) else { return OfFile::default() };
    let n_closed = traces.iter().filter(|open| open.trace.info.path == own.trace.info.path).count();
    OfFile { n_closed, is_behind: own.is_behind }
}

/// The heading of a line; of a trace without what the names of all open files begin with, if that is long: what
/// distinguishes them often stands at the end, which is cut where there is no room.
fn distinct_title<'a>(line: &'a Line, traces: &[OpenTrace]) -> Cow<'a, str> {
    /// More files are not looked at in a frame.
    const MOST: usize = 64;
    let own = traces.get(line.trace).filter(|_| line.kind == LineKind::Trace).map(|open| open.trace.info.title());
    let Some(own) = own else { return Cow::Borrowed(&line.title) };
    let others: Vec<String> = traces.iter().take(MOST).map(|open| open.trace.info.title()).collect();
    match without_common_start(&own, others.iter().map(String::as_str)) {
        Some(short) => Cow::Owned(line.title.replace(&own, &short)),
        None => Cow::Borrowed(&line.title),
    }
}

/// A title in a width: both ends of it, which tell threads of one kind apart.
///
/// Cost: O(log n) layouts, which egui keeps from frame to frame; none where it is short.
fn fitted<'a>(ui: &Ui, title: &'a str, width: f32) -> Cow<'a, str> {
    /// Shorter ones fit, or are cut too far to tell anything.
    const SHORT: usize = 8;
    let n = title.chars().count();
    let is_in = |text: &str| {
        let font = FontId::proportional(12.0);
        ui.painter().layout_no_wrap(text.to_owned(), font, Color32::PLACEHOLDER).size().x <= width
    };
    if n <= SHORT || is_in(title) {
        return Cow::Borrowed(title);
    }
    let (mut fits, mut too_long) = (SHORT, n);
    while fits + 1 < too_long {
        let middle = fits.midpoint(too_long);
        if is_in(&middle_cut(title, middle)) { fits = middle } else { too_long = middle }
    }
    Cow::Owned(middle_cut(title, fits))
}

/// Says below the name of a deep thread which of its rows are folded; whether it was clicked.
fn rows_ui(ui: &mut Ui, line: &Line, fold: &RowFold, rect: Rect) -> bool {
    let response = ui.interact(rect, Id::unique(("folded rows", line.trace, line.kind)), Sense::click());
    let (icon, verb) = if fold.is_folded { (Icon::Closed, "Unfold") } else { (Icon::Open, "Fold") };
    let name = format!("{verb} {} of {}", fold.title, line.title);
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
    let button = Rect::from_min_size(rect.min, vec2(BUTTON, rect.height()));
    let color = ui.style().interact(&response).fg_stroke.color;
    icon.paint(ui.painter(), button, color);
    let text = if fold.is_folded { format!("{} folded", fold.title) } else { format!("Fold {}", fold.title) };
    let rest = Rect::from_min_max(pos2(button.right() + 2.0, rect.top()), rect.max);
    let mut text_ui = ui.new_child(UiBuilder::new().max_rect(rest).layout(Layout::left_to_right(Align::Center)));
    let text = RichText::new(text).size(11.0);
    let text = if response.hovered() { text.color(color) } else { text.weak() };
    text_ui.add(Label::new(text).truncate().selectable(false).show_tooltip_when_elided(false));
    response.on_hover_text(format!("{name}\n{ABOUT_ROWS}")).clicked()
}

/// * `title`: what of its title is shown; on hover it is whole.
fn line_ui(
    ui: &mut Ui,
    line: &Line,
    title: &str,
    can_collapse: bool,
    list: &TrackList,
    (of_file, busy): (OfFile, Option<f64>),
) -> Option<LabelAction> {
    let mut action = None;
    let button = |ui: &mut Ui, icon: Icon, name: String| {
        let (rect, response) = ui.allocate_exact_size(vec2(BUTTON, BUTTON), Sense::click());
        response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
        icon.paint(ui.painter(), rect, ui.style().interact(&response).fg_stroke.color);
        response.on_hover_text(&name).clicked()
    };
    let verb = if line.is_collapsed { "Expand" } else { "Collapse" };
    if !can_collapse {
        ui.add_space(BUTTON + 2.0);
    } else if button(ui, if line.is_collapsed { Icon::Closed } else { Icon::Open }, format!("{verb} {}", line.title)) {
        action = Some(LabelAction::ToggleCollapsed);
    }
    let is_track = matches!(line.kind, LineKind::Track(_));
    let busy = busy.map(|share| format!("{:.0} % busy", share * 100.0));
    let room = ui.available_width() - if is_track { BUTTON + 2.0 } else { 0.0 };
    let room = room - if busy.is_some() { BUSY_WIDTH } else { 0.0 };
    let title = fitted(ui, title, room);
    let text = RichText::new(&*title).size(12.0);
    let text = match line.kind {
        _ if line.is_fold() => text.weak(),
        _ if is_track => text,
        _ => text.strong(),
    };
    let (_, rect) = ui.allocate_space(vec2(room.max(8.0), BUTTON));
    let mut text_ui = ui.new_child(UiBuilder::new().max_rect(rect).layout(Layout::left_to_right(Align::Center)));
    text_ui.add(Label::new(text).truncate().selectable(false).show_tooltip_when_elided(false));
    let label = ui.interact(rect, label_id(line), Sense::click_and_drag());
    let label = label.on_hover_text(&line.title);
    let label = match of_file.is_behind {
        true => label.on_hover_text("Another run is in front. The menu of this heading brings it there"),
        false => label,
    };
    if can_collapse && if line.is_fold() { label.clicked() } else { label.double_clicked() } {
        action = Some(LabelAction::ToggleCollapsed);
    }
    if label.dragged() {
        ui.set_cursor_icon(eframe::egui::CursorIcon::Grabbing);
    }
    label.context_menu(|ui| action = menu_ui(ui, line, can_collapse, list, of_file).or(action.take()));
    if let Some(busy) = busy {
        ui.add(Label::new(RichText::new(busy).weak().size(10.5)).truncate().selectable(false))
            .on_hover_text("Time in which anything recorded ran on its threads, of the time of the trace");
    }
    let pin = if line.is_pinned { "Unpin" } else { "Pin" };
    if is_track && button(ui, if line.is_pinned { Icon::Pinned } else { Icon::Pin }, format!("{pin} {}", line.title)) {
        action = Some(LabelAction::TogglePinned);
    }
    action
}

fn menu_ui(ui: &mut Ui, line: &Line, can_collapse: bool, list: &TrackList, of_file: OfFile) -> Option<LabelAction> {
    let mut action = None;
    let mut item = |ui: &mut Ui, text: &str, what: LabelAction| {
        if ui.button(text).clicked() {
            action = Some(what);
        }
    };
    if can_collapse {
        item(ui, if line.is_collapsed { "Expand" } else { "Collapse" }, LabelAction::ToggleCollapsed);
    }
    if matches!(line.kind, LineKind::Track(_)) {
        item(ui, "List events", LabelAction::ListEvents);
        item(ui, if line.is_pinned { "Unpin track" } else { "Pin track" }, LabelAction::TogglePinned);
    }
    if !line.is_fold() {
        item(ui, "Move up", LabelAction::Move(-1));
        item(ui, "Move down", LabelAction::Move(1));
    }
    item(ui, "Hide", LabelAction::Hide);
    if let Some(text) = list.off_screen().text() {
        let text = format!("Show all ({text})");
        item(ui, &text, LabelAction::ShowHidden);
    }
    if of_file.is_behind {
        item(ui, "Bring to front", LabelAction::BringToFront);
    }
    if of_file.n_closed > 0 {
        item(ui, "Close trace", LabelAction::CloseTrace);
    }
    if of_file.n_closed > 1 {
        let text = format!("Close all {} traces of this file", of_file.n_closed);
        item(ui, &text, LabelAction::CloseFile);
    }
    if ui.button("Copy name").clicked() {
        ui.ctx().copy_text(escape::visible(&line.title).into_owned());
    }
    action
}

/// The command for an action that is not about the settings.
pub fn command(traces: &[OpenTrace], line: &Line, action: &LabelAction) -> Option<Command> {
    match (action, line.kind) {
        (LabelAction::ListEvents, LineKind::Track(track)) => Some(Command::ListEvents(line.trace, track)),
        (LabelAction::CloseTrace, _) => Some(Command::CloseTraceAt(line.trace)),
        (LabelAction::CloseFile | LabelAction::BringToFront, _) => {
            let path = traces.get(line.trace)?.trace.info.path.clone();
            let is_close = *action == LabelAction::CloseFile;
            Some(if is_close { Command::CloseFile(path) } else { Command::BringToFront(path) })
        }
        _ => None,
    }
}

/// Changes the settings by an action.
pub fn apply(settings: &mut TimelineSettings, list: &TrackList, line: &Line, action: LabelAction) {
    let toggle_key = |set: &mut std::collections::BTreeSet<String>, key: &String| {
        if !set.remove(key) {
            set.insert(key.clone());
        }
    };
    let toggle = |set: &mut std::collections::BTreeSet<String>| toggle_key(set, &line.key);
    match action {
        LabelAction::ToggleCollapsed if line.is_fold() => toggle(&mut settings.expanded),
        LabelAction::ToggleCollapsed if list.folded_first.contains(&line.key) => {
            settings.collapsed.remove(&line.key);
            match line.is_collapsed {
                true => _ = settings.expanded.insert(line.key.clone()),
                false => _ = settings.expanded.remove(&line.key),
            }
        }
        LabelAction::ToggleCollapsed => toggle(&mut settings.collapsed),
        LabelAction::ToggleRows => {
            if let Some(fold) = &line.row_fold {
                toggle_key(&mut settings.expanded, &fold.key);
            }
        }
        LabelAction::TogglePinned => match settings.pinned.iter().position(|key| *key == line.key) {
            Some(at) => drop(settings.pinned.remove(at)),
            None => settings.pinned.push(line.key.clone()),
        },
        LabelAction::Hide => toggle(&mut settings.hidden),
        LabelAction::ShowHidden => settings.show_hidden(list),
        // Commands.
        LabelAction::ListEvents | LabelAction::CloseTrace | LabelAction::CloseFile | LabelAction::BringToFront => {}
        LabelAction::Move(by) => {
            reorder(settings, list, line, |from, n| from.saturating_add_signed(by).min(n.saturating_sub(1)));
        }
        LabelAction::MoveTo(key) => {
            let siblings = siblings(settings, list, line);
            let to = siblings.iter().position(|sibling| *sibling == key);
            reorder(settings, list, line, |from, _| to.unwrap_or(from));
        }
    }
}

/// The keys of the shown members of the line's group, in their present order.
fn siblings(settings: &TimelineSettings, list: &TrackList, line: &Line) -> Vec<String> {
    if line.is_pinned {
        return settings.pinned.clone();
    }
    list.scrolled.iter().filter(|other| other.parent == line.parent).map(|other| other.key.clone()).collect()
}

fn reorder(settings: &mut TimelineSettings, list: &TrackList, line: &Line, to: impl Fn(usize, usize) -> usize) {
    let mut keys = siblings(settings, list, line);
    let Some(from) = keys.iter().position(|key| *key == line.key) else { return };
    let to = to(from, keys.len());
    let key = keys.remove(from);
    keys.insert(to.min(keys.len()), key);
    if line.is_pinned {
        settings.pinned = keys;
    } else {
        settings.order.insert(line.parent.clone(), keys);
    }
}
