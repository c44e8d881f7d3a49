//! A card for each device: its busy share, what it does, and why it waits.

use eframe::egui::{self, Color32, Frame, Margin, Rect, RichText, Sense, pos2, vec2};

use super::work::{Card, DEVICE, IdleCause, Summarized};
use crate::analysis::gaps::GapClass;
use crate::analysis::rules::Basis;
use crate::answers::Answer;
use crate::figures::devices::LITTLE;
use crate::figures::text::display_name;
use crate::figures::verdicts::LACKS_EVENTS;
use crate::figures::{findings, format};
use crate::model::DurNs;
use crate::view::states::{answer_ui, nothing_ui};
use crate::widget::gap_color::gap_color;
use crate::widget::prose::{plain, prose_ui};
use crate::widget::series_color::series_color;

/// The causes that have a line each; the others are in the bar, and named when the pointer is on it.
const LABELED_CAUSES: usize = 4;
/// What went on meanwhile that has a label in the line of a cause.
const LABELED_MEANWHILE: usize = 3;
/// Of what went on meanwhile, under the name of its cause, in points.
const INDENT: i8 = 12;
/// Between the causes of a bar, in points.
const APART: f32 = 1.5;

/// What the causes of a card are, and where those of other kind are.
const CAUSES: &str = "Share of the judged time, as in findings, by what would have to change to end it; together they \
                      are its idle time. Colors say what the host did meanwhile, or what held up the work, as in the \
                      view Gaps and the strips of the timeline, which count all idle time of the recording";

/// The same of a selected range.
const CAUSES_IN_RANGE: &str = "Share of the selected range or step, by what would have to change to end it; together they \
                               are its idle time. Colors say what the host did meanwhile, or what held up the work, as \
                               in the view Gaps and the strips of the timeline";

/// The same of a device that was not judged.
const MEANWHILE: &str = "Share of its time by what the host did meanwhile, or what held up the work: too little ran on \
                         it to judge what would end its idle time";

/// What the parts of the time of a device are.
const PARTS: &str = "Share of the judged time of this device: the judged steps, or the selected range. The \
                     timeline beside its name counts the whole recording";

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
        let [what, how] = summary.no_cards;
        nothing_ui(what, how, ui);
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
    if n == all { format::steps(n) } else { format!("the {n} judged of {}", format::steps(all)) }
}

/// The time that the figures of a card are of.
fn scope(basis: Basis, is_range: bool) -> &'static str {
    match basis {
        // The device had not begun yet, or had ended: what it did not do then is no wait.
        Basis::RangeOfWork => "from its first to its last work in the selected range",
        Basis::ChosenStep => "in the selected step",
        _ if is_range => "in the selected range",
        Basis::Steps => "in the judged steps",
        Basis::AfterStartUp => "after the start-up",
        _ => "from the first to the last work",
    }
}

/// * `scope`: the time that its figures are of; `is_range`: whether that is the selected range.
fn card_ui(card: &Card, (scope, is_range): (&str, bool), ui: &mut egui::Ui) {
    match &card.little {
        Some(little) => little_ui(card, little, is_range, ui),
        None => heading_ui(card, (scope, is_range), ui),
    }
    if card.lacks_events {
        ui.label(RichText::new(LACKS_EVENTS).color(ui.visuals().warn_fg_color));
    }
    if card.little.is_none() {
        time_ui(card, (scope, is_range), ui);
    }
}

/// What a device with too little work to judge did: a share of so little would say nothing.
fn little_ui(card: &Card, little: &str, is_range: bool, ui: &mut egui::Ui) {
    let least = if card.lacks_events { "At least " } else { "" };
    let within = if is_range { " in the selected range" } else { "" };
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new(display_name(&title_without(&card.title, &card.name))).strong());
        prose_ui(ui, &format!("{least}{little}{within}"), plain).on_hover_text(LITTLE);
        if !card.name.is_empty() {
            ui.weak(display_name(&card.name));
        }
    });
}

/// The device and its busy share.
fn heading_ui(card: &Card, (scope, is_range): (&str, bool), ui: &mut egui::Ui) {
    let busy = share(card.window - card.parts.idle_ns, card.window);
    let least = if card.lacks_events { "At least " } else { "" };
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new(display_name(&title_without(&card.title, &card.name))).strong());
        prose_ui(ui, &format!("{least}{busy} busy"), RichText::strong)
            .on_hover_text(format!("Of {}\n{PARTS}", format::duration(card.window)));
        // From first to last work may be a single copy in a recording of hours.
        let is_of_work = match card.basis {
            Basis::RangeOfWork => true,
            basis => !is_range && !matches!(basis, Basis::Steps | Basis::AfterStartUp),
        };
        let scope = match is_of_work {
            true => prose_ui(ui, &format!("{scope}, {}", format::duration(card.window)), plain),
            false => ui.label(scope),
        };
        if card.basis == Basis::Steps && !card.left_out.is_empty() {
            scope.on_hover_text(&card.left_out);
        }
        if !card.name.is_empty() {
            ui.weak(display_name(&card.name));
        }
    });
    if let Some(not_judged) = &card.not_judged {
        prose_ui(ui, &format!("Not judged: {not_judged}"), RichText::weak);
    }
    if let Some(shared) = &card.shared {
        prose_ui(ui, &display_name(shared), RichText::weak);
    }
}

/// What a device does with its time, and why it waits.
fn time_ui(card: &Card, (scope, is_range): (&str, bool), ui: &mut egui::Ui) {
    let is_dark = ui.visuals().dark_mode;
    let parts = &card.parts;
    let times = [parts.compute_ns, parts.exposed_comm_ns, parts.exposed_copy_ns, parts.idle_ns];
    let parts: Vec<Part> =
        DEVICE.iter().zip(times).map(|(series, ns)| Part::new(series.0, ns, series_color(series.1, is_dark))).collect();
    let all = lines(&parts, card.window);
    bar_ui(("Time", PARTS, &all), std::slice::from_ref(&parts), card.window, ui);
    ui.horizontal_wrapped(|ui| {
        for part in parts.iter().filter(|part| part.ns > 0) {
            part_ui(part, card.window, PARTS, ui);
        }
    });
    if !card.causes.is_empty() {
        idle_ui(card, (scope, is_range), ui);
    }
}

/// The idle time of a device: its causes in words, and what went on meanwhile in colors, which mean the same in all
/// views.
fn idle_ui(card: &Card, (scope, is_range): (&str, bool), ui: &mut egui::Ui) {
    let (by, help) = match (card.is_judged, is_range) {
        (false, _) => ("by what went on meanwhile", MEANWHILE),
        (true, true) => ("by what would end it", CAUSES_IN_RANGE),
        (true, false) => ("by what would end it", CAUSES),
    };
    let is_dark = ui.visuals().dark_mode;
    let idle: DurNs = card.causes.iter().map(|cause| cause.ns).sum();
    let length = format::duration(idle);
    let title = format!("Idle {} {scope}, {length}, {by}:", share(idle, card.window));
    prose_ui(ui, &title, RichText::weak).on_hover_text(help);
    let part = |cause: &IdleCause, &(class, ns): &(GapClass, DurNs)| {
        // The name of the cause again would not say what this part of it is.
        let is_same = class.label() == cause.label && !cause.is_named_alike();
        let itself = if is_same { " itself" } else { "" };
        Part::new(format!("{}{itself}", class.label()), ns, gap_color(class, is_dark))
    };
    let parts_of = |cause: &IdleCause| cause.meanwhile.iter().map(|class| part(cause, class)).collect();
    let parts: Vec<Vec<Part>> = card.causes.iter().map(parts_of).collect();
    let line = |(cause, parts): (&IdleCause, &Vec<Part>)| {
        let of_cause = text(cause.label, cause.ns, card.window);
        match cause.is_named_alike() {
            true => of_cause,
            false => format!("{of_cause}; meanwhile: {}", lines(parts, card.window).join(", ")),
        }
    };
    let all: Vec<String> = card.causes.iter().zip(&parts).map(line).collect();
    bar_ui((&format!("Idle {by}"), help, &all), &parts, idle, ui);
    // Lines of small text stand as close as those of a legend.
    ui.spacing_mut().interact_size.y = 0.0;
    for (cause, parts) in card.causes.iter().zip(&parts).take(LABELED_CAUSES) {
        cause_ui(cause, parts, (card.window, help), ui);
    }
    let others = card.causes.get(LABELED_CAUSES..).unwrap_or_default();
    if !others.is_empty() {
        let ns = others.iter().map(|cause| cause.ns).sum();
        let text = format!("{} more {}", others.len(), share(ns, card.window));
        ui.weak(RichText::new(text).small()).on_hover_text(all[LABELED_CAUSES..].join("\n"));
    }
}

/// One cause, and under its name what went on meanwhile, which sums to it.
fn cause_ui(cause: &IdleCause, parts: &[Part], (window, help): (DurNs, &str), ui: &mut egui::Ui) {
    let is_said = cause.is_named_alike();
    if !is_said {
        let text = format!("{} {}; meanwhile:", cause.label, share(cause.ns, window));
        prose_ui(ui, &text, RichText::small).on_hover_text(format!("{}\n{help}", format::duration(cause.ns)));
    }
    let n = if parts.len() > LABELED_MEANWHILE { LABELED_MEANWHILE - 1 } else { parts.len() };
    let inner = Frame::NONE.inner_margin(Margin { left: if is_said { 0 } else { INDENT }, ..Margin::ZERO });
    let legend = |ui: &mut egui::Ui| {
        for part in &parts[..n] {
            part_ui(part, window, help, ui);
        }
        let others = &parts[n..];
        if !others.is_empty() {
            let ns = others.iter().map(|part| part.ns).sum();
            // It never parts from its share at the end of a line.
            let text = format!("{} more {}", others.len(), share(ns, window)).replace(' ', "\u{a0}");
            ui.label(RichText::new(text).small()).on_hover_text(lines(others, window).join("\n"));
        }
    };
    inner.show(ui, |ui| ui.horizontal_wrapped(legend));
}

struct Part {
    label: String,
    ns: DurNs,
    color: Color32,
}

impl Part {
    fn new(label: impl Into<String>, ns: DurNs, color: Color32) -> Self {
        Self { label: label.into(), ns, color }
    }
}

/// A part as text, with its share of `of`.
fn text(label: &str, ns: DurNs, of: DurNs) -> String {
    format!("{label} {} ({})", share(ns, of), format::duration(ns))
}

/// The parts that have any time, a line each.
fn lines(parts: &[Part], of: DurNs) -> Vec<String> {
    parts.iter().filter(|part| part.ns > 0).map(|part| text(&part.label, part.ns, of)).collect()
}

/// A bar of groups of parts that sum to `whole`, the groups a little apart.
///
/// * `name`, `help`: what the parts are; `all`: a line each, for the hover.
fn bar_ui((name, help, all): (&str, &str, &[String]), groups: &[Vec<Part>], whole: DurNs, ui: &mut egui::Ui) {
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 10.0), Sense::hover());
    let label = format!("{name}: {}", all.join("; "));
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, &label));
    let mut left = rect.left();
    for group in groups {
        let start = left;
        for part in group {
            let right = left + rect.width() * (part.ns as f64 / whole.max(1) as f64) as f32;
            let part_rect = Rect::from_min_max(pos2(left, rect.top()), pos2(right, rect.bottom()));
            ui.painter().rect_filled(part_rect, 0.0, part.color);
            left = right;
        }
        // A group of a few points would vanish.
        if left - start > 4.0 * APART && left < rect.right() - APART {
            let between = Rect::from_min_max(pos2(left - APART, rect.top()), pos2(left, rect.bottom()));
            ui.painter().rect_filled(between, 0.0, ui.visuals().panel_fill);
        }
    }
    response.on_hover_text(format!("{}\n{help}", all.join("\n")));
}

/// The label of a part of a bar.
fn part_ui(part: &Part, of: DurNs, help: &str, ui: &mut egui::Ui) {
    let text = format!("{} {}", part.label, share(part.ns, of));
    swatch_ui(&text, part.color, ui).on_hover_text(format!("{}\n{help}", format::duration(part.ns)));
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
