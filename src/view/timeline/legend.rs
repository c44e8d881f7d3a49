//! The line below the canvas that says which cause of idle time has which color.

use std::cmp::Reverse;

use eframe::egui::{FontId, Id, Rect, Role, Sense, Ui, WidgetInfo, pos2, vec2};

use super::strips::Strips;
use super::track_list::Line;
use crate::analysis::gaps::GapClass;
use crate::figures::format;
use crate::model::{DurNs, TimeRange};
use crate::view::ViewContext;
use crate::view::gaps::classes_ui;
use crate::widget::gap_color::gap_color;

/// Height of the legend, in points.
pub const HEIGHT: f32 = 18.0;
const SWATCH: f32 = 8.0;
/// Between causes.
const SPACE: f32 = 12.0;
/// Cards and findings divide the same time by what would end it.
const TITLE: &str = "Idle in view, by what the host did:";

/// Paints the causes of idle time within the view of the devices whose strips are on screen, in the order in which the
/// strips stack them. On hover their times.
pub fn ui<'a>(ctx: &ViewContext<'_>, ui: &Ui, strips: &Strips, lines: impl Iterator<Item = &'a Line>, rect: Rect) {
    let view = ctx.navigation.visible();
    let mut idle = [0; GapClass::N];
    let mut has_device = false;
    for line in lines {
        has_device |= line.has_strip();
        let in_trace: TimeRange = view.shifted(ctx.traces[line.trace].offset.saturating_neg());
        let of_line = strips.idle_within(line, in_trace);
        idle.iter_mut().zip(of_line).for_each(|(sum, ns)| *sum += ns);
    }
    let total: DurNs = idle.iter().sum();
    let mut causes: Vec<(GapClass, DurNs)> = GapClass::ALL.into_iter().zip(idle).filter(|cause| cause.1 > 0).collect();
    let response = ui.interact(rect, Id::unique("timeline legend"), Sense::hover());
    let text = |&(class, ns): &(GapClass, DurNs)| format!("{} {:.1} %", class.label(), share(ns, total));
    response.widget_info(|| {
        let all = causes.iter().map(text).collect::<Vec<_>>().join(", ");
        WidgetInfo::labeled(Role::Label, true, format!("{TITLE} {all}"))
    });
    let painter = ui.painter_at(rect);
    let (font, color) = (FontId::proportional(11.5), ui.visuals().weak_text_color());
    let width = |text: &str| painter.layout_no_wrap(text.to_owned(), font.clone(), color).size().x;
    painter.hline(rect.x_range(), rect.top(), ui.visuals().widgets.noninteractive.bg_stroke);
    let mut left = rect.left() + 4.0;
    let mut put = |text: String, class: Option<GapClass>| {
        let galley = painter.layout_no_wrap(text, font.clone(), color);
        let width = galley.size().x + if class.is_some() { SWATCH + 4.0 } else { 0.0 };
        if left + width > rect.right() {
            return false;
        }
        if let Some(class) = class {
            let swatch = Rect::from_center_size(pos2(left + SWATCH / 2.0, rect.center().y), vec2(SWATCH, SWATCH));
            painter.rect_filled(swatch, 2.0, gap_color(class, ctx.is_dark));
        }
        painter.galley(pos2(left + width - galley.size().x, rect.center().y - galley.size().y / 2.0), galley, color);
        left += width + SPACE;
        true
    };
    if total == 0 {
        let text = match has_device {
            false => "No GPU row in view: scroll to one to see its idle time",
            true if strips.is_waiting() => "Looking for idle time…",
            true => "No idle time in view",
        };
        put(text.to_owned(), None);
        return;
    }
    put(TITLE.to_owned(), None);
    let stacked: Vec<GapClass> = causes.iter().map(|cause| cause.0).collect();
    causes.sort_by_key(|cause| Reverse(cause.1));
    // Of those that have no room the ones with least time are left out.
    let room = rect.width() - width(TITLE) - width("18 more") - 3.0 * SPACE;
    let mut used = 0.0;
    let fits = |cause: &&(GapClass, DurNs)| {
        used += width(cause.0.label()) + SWATCH + 4.0 + SPACE;
        used <= room
    };
    let shown: Vec<GapClass> = causes.iter().take_while(fits).map(|cause| cause.0).collect();
    for class in stacked.into_iter().filter(|class| shown.contains(class)) {
        put(class.label().to_owned(), Some(class));
    }
    if shown.len() < causes.len() {
        put(format!("{} more", causes.len() - shown.len()), None);
    }
    response.on_hover_ui(|ui| {
        ui.strong(format!("{TITLE} {}", format::duration(total)));
        classes_ui(ui, &causes, total);
        ui.weak(
            "Of the time on screen. The overview and findings have the same names and colors, by what would have to \
                 change to end the time, of the judged steps",
        );
    });
}

fn share(ns: DurNs, total: DurNs) -> f64 {
    ns as f64 / total.max(1) as f64 * 100.0
}
