//! A card for each device: its busy share, what it does, and why it waits.

use eframe::egui::{self, Color32, Rect, RichText, Sense, pos2, vec2};

use super::work::{Card, DEVICE, Summarized};
use crate::analysis::rules::Basis;
use crate::answers::Answer;
use crate::figures::text::display_name;
use crate::figures::verdicts::LACKS_EVENTS;
use crate::figures::{findings, format};
use crate::model::DurNs;
use crate::view::states::{answer_ui, nothing_ui};
use crate::widget::gap_color::gap_color;
use crate::widget::prose::prose_ui;
use crate::widget::series_color::series_color;

/// The causes that have a label; the others are in the bar, and named when the pointer is on them.
const LABELED_CAUSES: usize = 4;

/// What the causes of a card are, and where those of other kind are.
const CAUSES: &str = "Share of the judged time, as in findings, by what would have to change to end it; together they are its \
                      idle time. The view Gaps and the strips of the timeline count all idle \
                      time of the recording, by what the host did meanwhile: their figures differ";

/// The same of a selected range.
const CAUSES_IN_RANGE: &str = "Share of the selected range, by what would have to change to end it; together they are \
                               its idle time. The view Gaps and the strips of the timeline tell idle time by what the \
                               host did meanwhile: their figures differ";

/// What the parts of the time of a device are.
const PARTS: &str = "Share of the judged time of this device: the steps that count, or the selected range. The timeline \
                     beside its name counts the whole recording";

/// * `is_range`: whether they are of the selected range.
pub fn ui(summary: &Answer<Summarized>, is_range: bool, ui: &mut egui::Ui) {
    let Some(summary) = answer_ui(summary, "Adding up the devices…", ui) else { return };
    // One heading for all, or each card says it.
    let first = summary.cards.first().filter(|_| !is_range);
    let heading = first.filter(|first| {
        let is_alike = |card: &Card| card.basis == Basis::Steps && card.n_steps == first.n_steps;
        summary.cards.iter().all(is_alike)
    });
    if let Some(first) = heading {
        let text = prose_ui(ui, &format!("In {}", counted(first)), RichText::weak);
        if !first.left_out.is_empty() {
            text.on_hover_text(&first.left_out);
        }
    } else if !is_range && summary.cards.iter().any(|card| card.basis == Basis::AfterStartUp) {
        let hint = "No steps were found: from when the last of the kernels that repeat runs for the first time";
        ui.weak("After the start-up").on_hover_text(hint);
    }
    if summary.cards.is_empty() {
        let how = "Record it with activities=[CPU, CUDA] in torch.profiler, or with nsys profile --trace=cuda";
        nothing_ui("No GPU work was recorded here", how, ui);
    }
    for card in &summary.cards {
        let scope = match card.basis {
            Basis::Steps if !is_range && heading.is_none() => format!("in {}", counted(card)),
            basis => scope(basis, is_range).to_owned(),
        };
        card_ui(card, (&scope, is_range), ui);
        ui.add_space(6.0);
    }
}

/// The title of a device without its product, which stands after it: Nsight Systems calls the device by it already.
fn title_without(title: &str, product: &str) -> String {
    match title.split_once(product).filter(|_| !product.is_empty()) {
        Some((before, after)) if !before.trim().is_empty() => format!("{}{after}", before.trim_end()),
        _ => title.to_owned(),
    }
}

/// The steps that a card is of.
fn counted(card: &Card) -> String {
    let [n, all] = card.n_steps;
    if n == all { format::steps(n) } else { format!("the {n} of {} that count", format::steps(all)) }
}

/// The time that the figures of a card are of.
fn scope(basis: Basis, is_range: bool) -> &'static str {
    match basis {
        _ if is_range => "of the selected range",
        Basis::Steps => "of the steps that count",
        Basis::AfterStartUp => "after the start-up",
        _ => "from the first to the last work",
    }
}

/// * `scope`: the time that its figures are of; `is_range`: whether that is the selected range.
fn card_ui(card: &Card, (scope, is_range): (&str, bool), ui: &mut egui::Ui) {
    let is_dark = ui.visuals().dark_mode;
    let busy = share(card.window - card.parts.idle_ns, card.window);
    let least = if card.lacks_events { "At least " } else { "" };
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new(display_name(&title_without(&card.title, &card.name))).strong());
        prose_ui(ui, &format!("{least}{busy} busy"), RichText::strong)
            .on_hover_text(format!("Of {}\n{PARTS}", format::duration(card.window)));
        let scope = ui.label(scope);
        if card.basis == Basis::Steps && !card.left_out.is_empty() {
            scope.on_hover_text(&card.left_out);
        }
        if !card.name.is_empty() {
            ui.weak(display_name(&card.name));
        }
    });
    if card.lacks_events {
        ui.label(RichText::new(LACKS_EVENTS).color(ui.visuals().warn_fg_color));
    }
    let parts = &card.parts;
    let times = [parts.compute_ns, parts.exposed_comm_ns, parts.exposed_copy_ns, parts.idle_ns];
    let parts: Vec<Part> =
        DEVICE.iter().zip(times).map(|(series, ns)| Part::new(series.0, ns, series_color(series.1, is_dark))).collect();
    bar_ui(("Time", PARTS), &parts, [card.window; 2], DEVICE.len(), ui);
    if !card.causes.is_empty() {
        let idle: DurNs = card.causes.iter().map(|cause| cause.2).sum();
        let length = format::duration(idle);
        let title = format!("Idle {} {scope}, {length}, by what would end it:", share(idle, card.window));
        let help = if is_range { CAUSES_IN_RANGE } else { CAUSES };
        prose_ui(ui, &title, RichText::weak).on_hover_text(help);
        let part = |&(label, class, ns): &(_, _, _)| Part::new(label, ns, gap_color(class, is_dark));
        let parts = card.causes.iter().map(part);
        bar_ui(
            ("Idle by what would end it", help),
            &parts.collect::<Vec<_>>(),
            [idle, card.window],
            LABELED_CAUSES,
            ui,
        );
    }
}

struct Part {
    label: &'static str,
    ns: DurNs,
    color: Color32,
}

impl Part {
    fn new(label: &'static str, ns: DurNs, color: Color32) -> Self {
        Self { label, ns, color }
    }
}

/// A bar of parts that sum to `whole`, and labels of the first parts that have any time.
///
/// * `name`: with what the parts are, for the hover.
/// * `of`: of what shares are told.
fn bar_ui((name, help): (&str, &str), parts: &[Part], [whole, of]: [DurNs; 2], n_labels: usize, ui: &mut egui::Ui) {
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 10.0), Sense::hover());
    let text = |part: &Part| format!("{} {} ({})", part.label, share(part.ns, of), format::duration(part.ns));
    let all = || parts.iter().filter(|part| part.ns > 0).map(text).collect::<Vec<_>>();
    response
        .widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, format!("{name}: {}", all().join(", "))));
    let mut left = rect.left();
    for part in parts.iter().filter(|part| part.ns > 0) {
        let right = left + rect.width() * (part.ns as f64 / whole.max(1) as f64) as f32;
        let part_rect = Rect::from_min_max(pos2(left, rect.top()), pos2(right, rect.bottom()));
        ui.painter().rect_filled(part_rect, 0.0, part.color);
        left = right;
    }
    response.on_hover_text(format!("{}\n{help}", all().join("\n")));
    ui.horizontal_wrapped(|ui| {
        for part in parts.iter().filter(|part| part.ns > 0).take(n_labels) {
            let text = format!("{} {}", part.label, share(part.ns, of));
            swatch_ui(&text, part.color, ui).on_hover_text(format!("{}\n{help}", format::duration(part.ns)));
        }
    });
}

/// A swatch and its label, which stay on one line.
pub fn swatch_ui(text: &str, color: Color32, ui: &mut egui::Ui) -> egui::Response {
    let style = egui::TextStyle::Small.resolve(ui.style());
    let galley = ui.painter().layout_no_wrap(text.to_owned(), style, ui.visuals().text_color());
    let (rect, response) = ui.allocate_exact_size(galley.size() + vec2(12.0, 0.0), Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, text));
    let swatch = Rect::from_center_size(pos2(rect.left() + 4.0, rect.center().y), vec2(8.0, 8.0));
    ui.painter().rect_filled(swatch, 2.0, color);
    ui.painter().galley(rect.min + vec2(12.0, 0.0), galley, color);
    response
}

fn share(part: DurNs, whole: DurNs) -> String {
    findings::value(part as f64 / whole.max(1) as f64, crate::analysis::finding::Unit::Share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_of_a_device_is_apart_from_its_title_whatever_recorded_it() {
        assert_eq!(title_without("GPU 0 NVIDIA A100, rank 1", "NVIDIA A100"), "GPU 0, rank 1");
        assert_eq!(title_without("GPU 0", "NVIDIA A100"), "GPU 0");
        assert_eq!(title_without("GPU 0", ""), "GPU 0");
        assert_eq!(title_without("NVIDIA A100", "NVIDIA A100"), "NVIDIA A100");
    }
}
