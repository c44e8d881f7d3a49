//! A gap drawn in time: the launching thread, the launch, and the stream before and after.

use eframe::egui::text::{LayoutJob, TextWrapping};
use eframe::egui::{
    Align2, Color32, FontId, Painter, PopupAnchor, Rect, Response, Role, Sense, Stroke, StrokeKind, Tooltip, Ui,
    Visuals, WidgetInfo, pos2, vec2,
};

use super::facts::{GapFacts, inferred_text};
use crate::analysis::gaps::{GapClass, GapPart, inferred_ns};
use crate::figures::{
    format,
    gaps::inferred_name,
    text::{display_name, track_name},
};
use crate::model::{SliceId, TimeRange, Trace};
use crate::view::axis::{RulerLabels, Scale};
use crate::widget::gap_color::gap_color;
use crate::widget::hatch::hatch;
use crate::widget::slice_color::{SliceColors, TEXT, text_on};

const RULER_HEIGHT: f32 = 16.0;
const LANE_HEIGHT: f32 = 20.0;
/// Height of the name of a lane.
const TITLE_HEIGHT: f32 = 14.0;
/// What is shown beside the gap on each side, as a share of it.
const MARGIN: f64 = 0.2;

/// A box on a lane.
struct Bar {
    lane: usize,
    time: TimeRange,
    color: Color32,
    name: String,
    /// What it is, for the tooltip.
    what: String,
    slice: Option<SliceId>,
    /// Whether it was concluded: no slice shows it.
    is_inferred: bool,
}

/// Paints the gap; returns a slice that was clicked.
pub fn waterfall_ui(trace: &Trace, facts: &GapFacts, colors: &SliceColors, ui: &mut Ui) -> Option<SliceId> {
    let height = RULER_HEIGHT + 3.0 * (TITLE_HEIGHT + LANE_HEIGHT) + 4.0;
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "The gap in time"));
    let gap = facts.gap.time;
    let room = ((gap.dur() as f64 * MARGIN) as i64).max(1);
    let view = TimeRange { start: gap.start.saturating_sub(room), end: gap.end.saturating_add(room) };
    let scale = Scale::new(view, rect.left(), rect.width(), ui.pixels_per_point());
    let painter = ui.painter_at(rect);
    let ruler = Rect::from_min_size(rect.min, vec2(rect.width(), RULER_HEIGHT));
    RulerLabels::time(gap.start).paint(&painter, [ruler, rect], &scale, ui.visuals(), &[]);
    let lane = |lane: usize| {
        let top = ruler.bottom() + lane as f32 * (TITLE_HEIGHT + LANE_HEIGHT) + TITLE_HEIGHT;
        Rect::from_x_y_ranges(rect.x_range(), top..=top + LANE_HEIGHT - 2.0)
    };
    let bars = bars(trace, facts, colors, ui.visuals().dark_mode);
    for (i, bar) in bars.iter().enumerate() {
        let named_from = named_from(&bars, i, &scale);
        paint(&painter, bar, &scale, (lane(bar.lane), named_from), ui.visuals());
    }
    let edge = Stroke::new(1.0, ui.visuals().strong_text_color());
    for x in [scale.x(gap.start), scale.x(gap.end)] {
        painter.vline(x, ruler.bottom()..=rect.bottom(), edge);
    }
    // On top of the edges of the gap and of the ruler's lines, which would cross them.
    for (i, title) in titles(trace, facts).into_iter().enumerate() {
        let galley = painter.layout_no_wrap(title, FontId::proportional(10.5), ui.visuals().weak_text_color());
        let at = pos2(rect.left() + 2.0, lane(i).top() - TITLE_HEIGHT / 2.0);
        let plate = Align2::LEFT_CENTER.anchor_size(at, galley.size());
        painter.rect_filled(plate, 0.0, ui.visuals().panel_fill);
        painter.galley(plate.min, galley, ui.visuals().weak_text_color());
    }
    let pointer = response.hover_pos()?;
    // The last one painted is on top.
    let under = bars.iter().rev().find(|bar| bar_rect(bar, &scale, lane(bar.lane)).contains(pointer))?;
    painter.rect_stroke(bar_rect(under, &scale, lane(under.lane)), 1.0, edge, StrokeKind::Outside);
    hint(ui, &response, under);
    under.slice.filter(|_| response.clicked())
}

fn titles(trace: &Trace, facts: &GapFacts) -> [String; 3] {
    let track = |slice: SliceId| track_name(trace.track(trace.slices.track_of(slice)));
    let thread =
        facts.call.or_else(|| facts.parts.iter().find(|part| part.class.is_host()).and_then(|part| part.slice));
    [
        thread.map_or_else(|| "Launching thread: not recorded".to_owned(), |slice| format!("Host: {}", track(slice))),
        facts.launched_before(trace).map_or_else(|| "Launch".to_owned(), |before| format!("Launch: {before}")),
        format!("{}: {}", facts.device, track(facts.gap.ended_by)),
    ]
}

/// Boxes of slices, which come last: the call, and the work before and after the gap.
const N_SLICES: usize = 3;

/// The boxes of all lanes, in the order of painting.
fn bars(trace: &Trace, facts: &GapFacts, colors: &SliceColors, is_dark: bool) -> Vec<Bar> {
    let name = |slice: SliceId| display_name(without_folder(trace.slice_name(slice))).into_owned();
    let mut bars: Vec<Bar> = Vec::new();
    for (part, (time, is_inferred)) in
        facts.segments.iter().flat_map(|part| pieces(trace, part).map(move |of| (part, of)))
    {
        let class = part.class;
        let name = match part.slice {
            Some(slice) if is_inferred => {
                let piece = GapPart { time, ..*part };
                let text = inferred_name(trace, &piece);
                text.map_or_else(|| name(slice), |text| display_name(&text).into_owned())
            }
            // A launch is a box of its own, as long as the call.
            Some(slice) if class.is_host() || class == GapClass::Dependency => name(slice),
            None if is_inferred => format!("Inferred: {}", class.label()),
            _ => class.label().to_owned(),
        };
        let mut what = format!("{}, {}", class.label(), format::duration(time.dur()));
        if let Some(why) = inferred_text(class, time.dur()).filter(|_| is_inferred) {
            what += &format!("\n{why}");
        }
        let (lane, color) = (usize::from(!class.is_host()), gap_color(class, is_dark));
        bars.push(Bar { lane, time, color, name, what, slice: part.slice, is_inferred });
    }
    let slice_bar = |slice: SliceId, lane: usize, role: &str| {
        let time = trace.slices.time(slice);
        let what = format!("{role}, {}", format::duration(time.dur()));
        let color = colors.full(trace.slice_tint(slice));
        Bar { lane, time, color, name: name(slice), what, slice: Some(slice), is_inferred: false }
    };
    if let Some(call) = facts.call {
        bars.push(slice_bar(call, 1, "The call that launched the work after the gap"));
    }
    bars.push(slice_bar(facts.gap.after, 2, "The work before the gap"));
    bars.push(slice_bar(facts.gap.ended_by, 2, "The work that ends the gap"));
    bars
}

/// A part of a gap in what its slice shows and what was concluded around that, with whether it was concluded.
fn pieces(trace: &Trace, part: &GapPart) -> impl Iterator<Item = (TimeRange, bool)> {
    let TimeRange { start, end } = part.time;
    let recorded_ns = part.time.dur() - inferred_ns(trace, part);
    let own = part.slice.and_then(|slice| trace.slices.time(slice).intersect(part.time));
    let own = match own.filter(|own| own.dur() == recorded_ns) {
        _ if recorded_ns == part.time.dur() => part.time,
        Some(own) => own,
        None => TimeRange { start, end: start },
    };
    let around = [(TimeRange { start, end: own.start }, true), (own, false), (TimeRange { start: own.end, end }, true)];
    around.into_iter().filter(|piece| piece.0.start < piece.0.end)
}

/// The name of a Python function without the folder of its file, which would leave no room for the rest.
fn without_folder(name: &str) -> &str {
    let file = name.find(".py(").map_or("", |end| &name[..end]);
    file.rfind('/').map_or(name, |folder| &name[folder + 1..])
}

fn bar_rect(bar: &Bar, scale: &Scale, lane: Rect) -> Rect {
    let (left, right) = (scale.x(bar.time.start), scale.x(bar.time.end));
    Rect::from_x_y_ranges(left..=right.max(left + 1.0), lane.y_range())
}

/// Where the name of a box may begin: right of a slice that is painted over its start.
fn named_from(bars: &[Bar], i: usize, scale: &Scale) -> f32 {
    let left = scale.x(bars[i].time.start);
    let over = bars[i + 1..].iter().rev().take(N_SLICES).filter(|other| other.lane == bars[i].lane);
    let ends = over.map(|other| bar_rect(other, scale, Rect::ZERO).x_range()).filter(|of| of.contains(left));
    ends.map(|of| of.max).fold(left, f32::max)
}

/// * `named_from`: where its name may begin.
fn paint(painter: &Painter, bar: &Bar, scale: &Scale, (lane, named_from): (Rect, f32), visuals: &Visuals) {
    let rect = bar_rect(bar, scale, lane).intersect(painter.clip_rect());
    if rect.width() <= 0.0 {
        return;
    }
    // What was concluded looks unlike what was recorded.
    let text_color = match bar.is_inferred {
        true => {
            hatch(&painter.with_clip_rect(rect), rect, bar.color.gamma_multiply(0.6));
            painter.rect_stroke(rect, 1.0, Stroke::new(1.0, bar.color), StrokeKind::Inside);
            visuals.text_color()
        }
        false => {
            painter.rect_filled(rect, 1.0, bar.color);
            text_on(bar.color)
        }
    };
    let rect = rect.with_min_x(rect.left().max(named_from));
    if rect.width() > 24.0 {
        let mut job = LayoutJob::simple_singleline(bar.name.clone(), FontId::proportional(11.0), text_color);
        job.wrap = TextWrapping::truncate_at_width(rect.width() - 6.0);
        let galley = painter.layout_job(job);
        let plate = Align2::LEFT_CENTER.anchor_size(rect.left_center() + vec2(4.0, 0.0), galley.size());
        if bar.is_inferred {
            painter.rect_filled(plate.expand2(vec2(2.0, 0.0)), 0.0, visuals.panel_fill);
        }
        painter.galley(plate.min, galley, TEXT);
    }
}

fn hint(ui: &Ui, response: &Response, bar: &Bar) {
    let tooltip = Tooltip::always_open(ui.ctx().clone(), response.layer_id, response.id, PopupAnchor::Pointer);
    tooltip.gap(14.0).width(320.0).show(|ui| {
        ui.strong(&bar.name);
        ui.label(&bar.what);
        if bar.slice.is_some() {
            ui.weak("Click to select it");
        }
    });
}
