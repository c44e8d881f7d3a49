//! Painting of table cells.

use eframe::egui::{self, Align, Layout, Sense, WidgetInfo};
use hashbrown::HashMap;

use super::{Branch, MARGIN, ROW_HEIGHT};
use crate::figures::text::{
    MAX_CHARS, display_name, display_name_within, frame_within, shortened, shortened_apart, telling, tells_file,
};
use crate::figures::{Cell, Column, escape};

/// The longest text on hover, in characters.
const MAX_HOVER: usize = 2000;

/// The indentation of a row of a tree with the triangle that folds it; says whether that was clicked.
pub fn branch_ui(branch: Branch, cell: &Cell, ui: &mut egui::Ui) -> bool {
    /// Of a level, and of the triangle.
    const INDENT: f32 = 12.0;
    ui.spacing_mut().item_spacing.x = 0.0;
    // A very deep row keeps some of its name in sight.
    ui.add_space((branch.depth as f32 * INDENT).min(ui.available_width() * 0.7));
    let sense = if branch.is_folded.is_some() { Sense::click() } else { Sense::hover() };
    let (rect, response) = ui.allocate_exact_size(egui::vec2(INDENT + 2.0, ROW_HEIGHT - 4.0), sense);
    let Some(is_folded) = branch.is_folded else { return false };
    let label = format!("{} {}", if is_folded { "Unfold" } else { "Fold" }, cell.shown().trim_start());
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Button, true, &label));
    let points = match is_folded {
        true => [egui::vec2(-2.5, -4.0), egui::vec2(3.0, 0.0), egui::vec2(-2.5, 4.0)],
        false => [egui::vec2(-4.0, -2.5), egui::vec2(4.0, -2.5), egui::vec2(0.0, 3.0)],
    };
    let center = egui::pos2(rect.left() + INDENT / 2.0, rect.center().y);
    let visuals = ui.visuals();
    let color = if response.hovered() { visuals.strong_text_color() } else { visuals.weak_text_color() };
    let points = points.map(|point| center + point).to_vec();
    ui.painter().add(egui::Shape::convex_polygon(points, color, egui::Stroke::NONE));
    response.clicked()
}

/// Numbers are right-aligned, so that their digits line up.
pub fn aligned(column: &Column, ui: &mut egui::Ui, add: impl FnOnce(&mut egui::Ui)) {
    if column.is_text {
        add(ui);
    } else {
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            ui.add_space(MARGIN);
            add(ui);
        });
    }
}

/// A number at the right edge of its cell, never cut.
///
/// * `needed`: grows to the width that it takes, in points.
pub fn number_ui(text: &str, needed: &mut f32, ui: &mut egui::Ui) -> egui::Response {
    let number = |ui: &mut egui::Ui| {
        ui.add_space(MARGIN);
        let label = ui.add(egui::Label::new(text).extend());
        *needed = needed.max((label.rect.width() + MARGIN + ui.spacing().item_spacing.x).ceil());
        label
    };
    ui.with_layout(Layout::right_to_left(Align::Center), number).inner
}

/// The names on screen that are cut. Where different ones would look the same, they are cut where they differ.
#[derive(Clone, Debug, Default)]
pub struct CutNames {
    /// Those of the frame before that look the same, by what is shown of them.
    alike: HashMap<String, Vec<String>>,
    /// All of this frame.
    seen: HashMap<String, Vec<String>>,
}

impl CutNames {
    /// The other names that `short` would stand for as well as for this one.
    fn others(&self, short: &str, name: &str) -> Vec<&str> {
        let alike = self.alike.get(short).map(Vec::as_slice).unwrap_or_default();
        alike.iter().map(String::as_str).filter(|&other| other != name).collect()
    }

    fn note(&mut self, short: &str, name: &str) {
        let seen = self.seen.entry_ref(short).or_default();
        if !seen.iter().any(|known| known == name) {
            seen.push(name.to_owned());
        }
    }

    /// Ends a frame; whether others look the same than in the one before.
    pub fn turn(&mut self) -> bool {
        let mut seen = std::mem::take(&mut self.seen);
        seen.retain(|_, names| names.len() > 1);
        let is_new = seen != self.alike;
        self.alike = seen;
        is_new
    }
}

/// Returns the width that the whole cell takes, in points.
///
/// * `is_number`: it is not cut where it does not fit.
/// * `in_full`: returns the untruncated cell, for the hover text.
/// * `names`: the names that are on screen.
pub fn cell_ui(
    cell: &Cell,
    is_number: bool,
    in_full: impl FnOnce() -> Cell,
    names: &mut CutNames,
    ui: &mut egui::Ui,
) -> f32 {
    if *cell == Cell::Empty {
        return 0.0;
    }
    let text = match cell {
        Cell::Text(name) => fitting(name, names, ui),
        Cell::Frames(frames) if !frames.contains("; ") => {
            let shown = cell.shown();
            // Files of one name in several folders: these tell them apart.
            names.note(&shown, frames);
            let others = names.others(&shown, frames);
            if !others.is_empty() {
                let within = |n: usize| match frame_within(frames, n) {
                    short if others.iter().all(|other| frame_within(other, n) != short) => short,
                    _ => shortened_apart(frames, &others, n),
                };
                return label_ui(&cut_to_fit(frames, within, ui), is_number, in_full, ui);
            }
            let is_function = !shown.contains(' ') || tells_file(&shown);
            match is_function {
                true => fitting_by(&shown, &shown, |n| frame_within(&shown, n), names, ui),
                false => fitting(&shown, names, ui),
            }
        }
        Cell::Stack(_) | Cell::Frames(_) => fitting_place(cell.shown(), names, ui),
        _ => cell.shown(),
    };
    label_ui(&text, is_number, in_full, ui)
}

/// What a cell shows, with all of it on hover; returns the width that it takes, in points.
fn label_ui(text: &str, is_number: bool, in_full: impl FnOnce() -> Cell, ui: &mut egui::Ui) -> f32 {
    // Its own hover text would say the same again.
    let label = egui::Label::new(text).selectable(false).show_tooltip_when_elided(false);
    let label = ui.add(if is_number { label.extend() } else { label.truncate() });
    let width = label.rect.width() + MARGIN + ui.spacing().item_spacing.x;
    if !label.hovered() {
        return width;
    }
    let cell = in_full();
    let visible = |text: &str| escape::visible(&text.chars().take(MAX_HOVER).collect::<String>()).into_owned();
    let full = match &cell {
        Cell::Frames(frames) => Some(visible(frames).replace("; ", "\n")),
        Cell::Stack(stack) => Some(visible(&stack.frames.join("; ")).replace("; ", "\n")),
        _ => cell.words().map(visible).or_else(|| cell.in_full()),
    };
    if let Some(full) = full.filter(|full| !full.is_empty()) {
        label.on_hover_text(full);
    }
    width
}

/// A name that fits the room, and begins with what it sorts by. Names of functions are shortened such that different
/// ones look different, and frames keep their function; others are cut at their end, or where those on screen differ.
fn fitting(name: &str, names: &mut CutNames, ui: &egui::Ui) -> String {
    let name = &*telling(name);
    let is_frame = name.contains(".py(") && name.contains("): ");
    let is_words = !name.contains("::") && !name.contains('<') && name.contains(' ') && !is_frame;
    let shorten = |n: usize| match is_words {
        true => display_name_within(name, n.saturating_sub(1)),
        false => shortened(name, n),
    };
    let whole = display_name(name);
    let whole = if whole.len() < name.len() { shorten(MAX_CHARS) } else { whole.into_owned() };
    let fitted = fitting_by(name, &whole, shorten, names, ui);
    // What is cut at its end alone is left to the label, which keeps the whole for screen readers.
    let is_at_end = is_words && fitted.ends_with('…') && whole.starts_with(fitted.trim_end_matches('…'));
    if is_at_end { whole } else { fitted }
}

/// A place with what tells it from others; of whole call stacks, which have more frames, the end is cut.
fn fitting_place(shown: String, names: &mut CutNames, ui: &egui::Ui) -> String {
    match shown.matches("; ").count() {
        0 => fitting_by(&shown, &shown, |n| frame_within(&shown, n), names, ui),
        1 | 2 => fitting_by(&shown, &shown, |n| shortened(&shown, n), names, ui),
        _ => shown,
    }
}

/// A name that fits the room.
///
/// * `whole`: what is shown of it where there is room for that.
/// * `shorten`: it in so many characters.
fn fitting_by(
    name: &str,
    whole: &str,
    shorten: impl Fn(usize) -> String,
    names: &mut CutNames,
    ui: &egui::Ui,
) -> String {
    if text_width(whole, ui) <= ui.available_width() {
        return whole.to_owned();
    }
    let short = cut_to_fit(whole, &shorten, ui);
    // As long for all names of the column: those that differ in where they are cut alone look the same.
    let alike = shorten((ui.available_width() / text_width("n", ui).max(1.0)) as usize);
    names.note(&alike, name);
    let others = names.others(&alike, name);
    if others.is_empty() { short } else { cut_to_fit(whole, |n| shortened_apart(name, &others, n), ui) }
}

/// A text with as many characters as there is room for. Few steps: letters differ little in width.
///
/// * `shorten`: it in so many characters.
fn cut_to_fit(whole: &str, shorten: impl Fn(usize) -> String, ui: &egui::Ui) -> String {
    let room = ui.available_width();
    let mut n = (room / text_width(whole, ui).max(1.0) * whole.chars().count() as f32) as usize;
    let mut short = shorten(n);
    while text_width(&short, ui) > room && n > 4 {
        n -= (n / 12).max(1);
        short = shorten(n);
    }
    short
}

fn text_width(text: &str, ui: &egui::Ui) -> f32 {
    let font = egui::TextStyle::Body.resolve(ui.style());
    ui.painter().layout_no_wrap(text.to_owned(), font, egui::Color32::PLACEHOLDER).size().x
}
