//! Strips around the picture: named bands, flags of out-of-memory events and snapshots, and the zoom frame.

use eframe::egui::{
    Align2, Color32, CursorIcon, FontId, Id, Painter, Rect, Role, Sense, Stroke, Ui, WidgetInfo, pos2, vec2,
};

use super::axis::AxisKind;
use super::bands::Bar;
use super::heights::Heights;
use super::{Chart, EDGE, LANE_HEIGHT};
use crate::command::Command;
use crate::figures::format;
use crate::figures::text::display_name;
use crate::model::TimeRange;
use crate::view::ViewContext;
use crate::view::axis::{Scale, paint_flag};
use crate::view::memory::RESERVED;
use crate::view::memory::head::oom_text;
use crate::widget::hatch::hatch;
use crate::widget::labels::{Labels, cut};
use crate::widget::theme;

/// Paints annotations and steps as named bands, and the number of those without a lane.
pub fn lanes(
    ctx: &ViewContext<'_>,
    ui: &Ui,
    chart: &Chart<'_>,
    scale: &Scale,
    kept: &mut Labels<(u64, u32)>,
    (bars, n_hidden): (&[Bar], u32),
) {
    let rect = chart.parts.lanes;
    let painter = ui.painter_at(rect.expand2(vec2(0.0, 1.0)));
    let trace = chart.shown.trace();
    let fill = theme::tokens(ctx.is_dark).button[1];
    let edge = theme::tokens(ctx.is_dark).canvas;
    kept.begin(&painter);
    let pointer = ui.ctx().pointer_hover_pos().filter(|pointer| rect.contains(*pointer));
    for bar in bars {
        let bar_rect = bar_rect(rect, scale, bar);
        let Some(bar_rect) = bar_rect else { continue };
        let is_hovered = pointer.is_some_and(|pointer| bar_rect.contains(pointer));
        let color = if is_hovered { theme::tokens(ctx.is_dark).button[2] } else { fill };
        painter.rect_filled(bar_rect, 2.0, color);
        painter.vline(bar_rect.left(), bar_rect.y_range(), Stroke::new(1.0, edge));
        let name = display_name(bar.name.text(trace));
        let words = if bar.count > 1 { format!("{name} and {} more", bar.count - 1) } else { name.into_owned() };
        if bar_rect.width() > 24.0 {
            let cut = |length| cut(&words, |words| words, length);
            let key = (bar.name.key(), bar.count);
            if let Some(galley) = kept.fitting(&painter, (key, &words), bar_rect.width() - 8.0, cut) {
                let at = pos2(bar_rect.left() + 4.0, bar_rect.center().y - galley.size().y / 2.0);
                painter.galley(at, galley, ui.visuals().text_color());
            }
        }
        if is_hovered {
            let length = chart.axis.length_text(bar.range);
            hint(ui, chart, "band", bar_rect, &format!("{words}\n{length}, on the host"));
        }
    }
    kept.end(&painter);
    if n_hidden > 0 {
        let at = pos2(rect.left() - 7.0, rect.bottom() - LANE_HEIGHT / 2.0);
        let text = format!("{} more", format::count(n_hidden.into()));
        ui.painter().text(at, Align2::RIGHT_CENTER, text, FontId::proportional(11.0), ui.visuals().weak_text_color());
    }
}

fn bar_rect(rect: Rect, scale: &Scale, bar: &Bar) -> Option<Rect> {
    let top = rect.top() + bar.lane as f32 * LANE_HEIGHT;
    let (left, right) = (scale.x(bar.range.start).max(rect.left()), scale.x(bar.range.end).min(rect.right()));
    let bar = Rect::from_min_max(pos2(left, top + 1.0), pos2(right.max(left + 1.0), top + LANE_HEIGHT - 1.0));
    (bar.left() < rect.right() && right >= rect.left() && bar.bottom() <= rect.bottom() + 1.0).then_some(bar)
}

/// The tooltip of what the pointer is on.
fn hint(ui: &Ui, chart: &Chart<'_>, what: &str, rect: Rect, text: &str) {
    let clip = rect.intersect(chart.parts.plots());
    ui.interact(clip, Id::unique(("memory strip", what)), Sense::hover()).on_hover_text(text);
}

/// Hatches the time in which nothing was recorded, before the first event and after the last: of a ring buffer that
/// was full the begin is gone. Says what is known of it where there is room.
pub fn unrecorded(ctx: &ViewContext<'_>, ui: &Ui, chart: &Chart<'_>, scale: &Scale, heights: &Heights) {
    let history = chart.shown.history();
    if chart.axis.kind != AxisKind::Time {
        return;
    }
    let span = chart.axis.span();
    let from_before = history.curves.active.first().copied().unwrap_or(0);
    let before = match from_before {
        0 => "Not recorded".to_owned(),
        bytes => format!("Not recorded: {} are from before", format::bytes(bytes as f64)),
    };
    let area = chart.parts.curves.union(chart.parts.canvas);
    let (left, right) = (scale.x(span.start).min(area.right()), scale.x(span.end).max(area.left()));
    // A wide stretch has room for its own words.
    if from_before > 0 && left - area.left() < 220.0 && scale.view.start <= span.start {
        from_before_ui(ctx, ui, chart, heights, (left, from_before));
    }
    let stretches = [
        ("before", area.left()..=left, before),
        ("after", right..=area.right(), "Not recorded: the recording has ended".to_owned()),
    ];
    for (which, x, text) in stretches {
        let part = Rect::from_x_y_ranges(x, area.y_range());
        if part.width() < 1.0 {
            continue;
        }
        let painter = ui.painter_at(part);
        hatch(&painter, part, theme::tokens(ctx.is_dark).line);
        let galley = painter.layout_no_wrap(text.clone(), FontId::proportional(11.0), ui.visuals().text_color());
        if galley.size().x + 16.0 <= part.width() {
            let label = Rect::from_center_size(part.center(), galley.size() + vec2(10.0, 4.0));
            painter.rect_filled(label, 2.0, ui.visuals().panel_fill);
            painter.galley(label.min + vec2(5.0, 2.0), galley, ui.visuals().text_color());
        }
        // Only over the curves: on the canvas it would cover what lies below.
        let part = Rect::from_x_y_ranges(part.x_range(), chart.parts.curves.y_range());
        ui.interact(part, Id::unique(("memory strip", which)), Sense::hover()).on_hover_text(text);
    }
}

/// How much memory is from before the recording, at its start, with a hatched edge left of the picture.
fn from_before_ui(ctx: &ViewContext<'_>, ui: &Ui, chart: &Chart<'_>, heights: &Heights, (start, bytes): (f32, u64)) {
    let canvas = chart.parts.canvas;
    let edge = chart.parts.curves.union(canvas);
    let edge = Rect::from_x_y_ranges(edge.left() - EDGE..=edge.left() - 2.0, edge.y_range());
    hatch(&ui.painter_at(edge), edge, ui.visuals().weak_text_color());
    let text = format!("{} from before the recording at its start", format::bytes(bytes as f64));
    let hint = format!("Not recorded: {text}");
    ui.interact(edge, Id::unique("memory edge"), Sense::hover()).on_hover_text(hint);
    let (low, high) = (heights.y(0).min(canvas.bottom()), heights.y(bytes.min(1 << 62) as i64).max(canvas.top()));
    let galley = ui.painter().layout_no_wrap(text, FontId::proportional(11.0), ui.visuals().text_color());
    let label = galley.size() + vec2(10.0, 4.0);
    if low - high >= label.y && canvas.width() >= 2.0 * label.x {
        let label = Rect::from_min_size(pos2(start.max(canvas.left()) + 4.0, (low + high - label.y) / 2.0), label);
        ui.painter().rect_filled(label, 2.0, theme::tokens(ctx.is_dark).panel);
        ui.painter().galley(label.min + vec2(5.0, 2.0), galley, ui.visuals().text_color());
    }
}

/// A flagged moment.
struct Flag {
    state: u32,
    /// The event of a request that failed, which a click opens.
    failed: Option<u32>,
    text: String,
    color: Color32,
}

/// Marks where the device had no memory left and where a snapshot was taken; at most one a pixel. A click on a request
/// that failed shows why, and the state just before.
pub fn flags(ctx: &mut ViewContext<'_>, ui: &Ui, chart: &Chart<'_>, scale: &Scale) {
    let history = chart.shown.history();
    let tokens = theme::tokens(ctx.is_dark);
    let ooms = |view: TimeRange| {
        let from = history.ooms.partition_point(|oom| chart.axis.position(oom.event + 1) < view.start);
        history.ooms.get(from).map(|oom| {
            let text = format!("Out of memory: {}\nClick to see why", oom_text(oom));
            Flag { state: oom.event + 1, failed: Some(oom.event), text, color: tokens.severity[2] }
        })
    };
    let snapshots = |view: TimeRange| {
        let from = chart.index.snapshots.partition_point(|&event| chart.axis.position(event + 1) < view.start);
        let event = *chart.index.snapshots.get(from)?;
        let text = format!("Snapshot taken at event {}", format::count(event.into()));
        Some(Flag { state: event + 1, failed: None, text, color: tokens.accent })
    };
    // Of a state of one moment, all was there when the snapshot was taken.
    if history.has_changes() {
        each_pixel(ui, chart, scale, &snapshots);
    }
    let mut opened = each_pixel(ui, chart, scale, &ooms);
    if let Some(last) = history.ooms.last() {
        let at = chart.axis.position(last.event + 1);
        if (scale.view.start..=scale.view.end).contains(&at) {
            let text = format!("Out of memory: {}", oom_text(last));
            let is_clicked = failed_request(ui, chart, scale.x(at), &text, tokens.severity[2]);
            opened = opened.or(is_clicked.then_some(last.event));
        }
    }
    if let Some(event) = opened {
        ctx.memory.moment = Some(event.min(history.last_state()));
        ctx.commands.push(Command::Show(RESERVED.id));
    }
}

/// A line in the picture where a request failed, with its words where there is room; whether these were clicked.
fn failed_request(ui: &Ui, chart: &Chart<'_>, x: f32, text: &str, color: Color32) -> bool {
    let canvas = chart.parts.canvas;
    // At the end of the recording it would be cut in half.
    let x = x.min(canvas.right() - 1.0);
    let painter = ui.painter_at(chart.parts.plots());
    painter.vline(x, chart.parts.curves.top()..=canvas.bottom(), Stroke::new(2.0, color));
    let galley = painter.layout_no_wrap(text.to_owned(), FontId::proportional(12.0), color);
    let size = galley.size() + vec2(10.0, 4.0);
    let left = if x + size.x + 4.0 <= canvas.right() { x + 4.0 } else { x - size.x - 4.0 };
    if left < canvas.left() {
        return false;
    }
    let label = Rect::from_min_size(pos2(left, canvas.top() + 4.0), size);
    painter.rect(label, 2.0, ui.visuals().panel_fill, Stroke::new(1.0, color), eframe::egui::StrokeKind::Inside);
    painter.galley(label.min + vec2(5.0, 2.0), galley, color);
    let response = ui.interact(label, Id::unique("failed request"), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, text));
    let response = response.on_hover_cursor(CursorIcon::PointingHand);
    response.on_hover_text("Show why it failed, and the state just before").clicked()
}

/// Paints flags; the event of a failed request whose flag was clicked.
fn each_pixel(ui: &Ui, chart: &Chart<'_>, scale: &Scale, next: &dyn Fn(TimeRange) -> Option<Flag>) -> Option<u32> {
    let mut opened = None;
    let painter = ui.painter_at(chart.parts.plots());
    let step = (scale.ns_per_point() * 2.0) as i64 + 1;
    let mut from = scale.view.start;
    while let Some(flag) = next(TimeRange { start: from, end: scale.view.end }) {
        let at = chart.axis.position(flag.state);
        if at > scale.view.end {
            break;
        }
        let (x, ruler) = (scale.x(at), chart.parts.ruler);
        painter.vline(
            x,
            ruler.center().y..=chart.parts.canvas.bottom(),
            Stroke::new(1.0, flag.color.gamma_multiply(0.7)),
        );
        let top = ruler.bottom() - 10.0;
        paint_flag(&painter, x, top, flag.color);
        let grip = Rect::from_min_max(pos2(x - 2.0, top - 3.0), pos2(x + 11.0, ruler.bottom()));
        if ui.ctx().pointer_hover_pos().is_some_and(|pointer| grip.contains(pointer)) {
            hint(ui, chart, "flag", grip, &flag.text);
        }
        if let Some(event) = flag.failed {
            let response = ui.interact(grip, Id::unique(("flag of a failed request", event)), Sense::click());
            response.widget_info(|| WidgetInfo::labeled(Role::Button, true, flag.text.as_str()));
            opened = response.on_hover_cursor(CursorIcon::PointingHand).clicked().then_some(event).or(opened);
        }
        from = at.saturating_add(step);
    }
    opened
}

/// The frame around what a drag zooms to.
pub fn rubber_band(painter: &Painter, rect: Rect, color: Color32) {
    painter.rect_filled(rect, 0.0, color.gamma_multiply(0.12));
    painter.rect_stroke(rect, 0.0, Stroke::new(1.0, color), eframe::egui::StrokeKind::Inside);
}
