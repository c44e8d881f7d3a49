//! The heads of columns, which sort.

use eframe::egui::{self, RichText, Sense, TextWrapMode, WidgetInfo};
use egui_extras::TableRow;

use super::MARGIN;
use super::cells::aligned;
use crate::figures::{Column, Sort};

/// The heads of columns, each of which sorts. How to sort, if one was clicked, and the widths of the columns.
///
/// * `sort`: by which column the rows are sorted, which a triangle shows.
/// * `needed`: the width of the widest head of each column so far, in points.
pub fn header_ui(
    columns: &[Column],
    sort: Option<Sort>,
    mut row: TableRow<'_, '_>,
    needed: &mut [f32],
) -> (Option<Sort>, Vec<f32>) {
    let mut clicked = None;
    let mut widths = Vec::with_capacity(columns.len());
    for (i, column) in columns.iter().enumerate() {
        let mut is_clicked = false;
        let (_, whole) = row.col(|ui| {
            // Of the cell, not of what is in it.
            widths.push(ui.max_rect().width());
            let seen = ui.max_rect().intersect(ui.clip_rect()).width();
            if column.title.is_empty() || seen < SLIVER.min(ui.max_rect().width()) {
                return;
            }
            let known = sort.filter(|sort| sort.column == i).map(|sort| sort.is_descending);
            let text = RichText::new(column.title).strong();
            aligned(column, ui, |ui| {
                let head = egui::Button::new(text).frame(false);
                let head = ui.add(if column.is_text { head.truncate() } else { head.wrap_mode(TextWrapMode::Extend) });
                if let Some(needed) = needed.get_mut(i).filter(|_| !column.is_text) {
                    // Room for the triangle is kept: a column that grew at a click would move others.
                    let width = head.rect.width() + MARGIN + ui.spacing().item_spacing.x + SORT_MARK;
                    *needed = needed.max(width.ceil());
                }
                if let Some(is_descending) = known {
                    head.widget_info(|| WidgetInfo::labeled(egui::Role::Button, true, sort_text(column.title, known)));
                    let (rect, _) = ui.allocate_exact_size(egui::vec2(8.0, 8.0), Sense::hover());
                    paint_triangle(rect.center(), is_descending, ui);
                }
                is_clicked = head.on_hover_text(format!("{}\nClick to sort", column.help)).clicked();
            });
        });
        // A column without a title has nothing to sort by.
        if column.title.is_empty() {
            continue;
        }
        if is_clicked || whole.on_hover_cursor(egui::CursorIcon::PointingHand).clicked() {
            // Numbers start with the largest, names with the first.
            let known = sort.filter(|sort| sort.column == i);
            let is_descending = known.map_or(!column.is_text, |sort| !sort.is_descending);
            clicked = Some(Sort { column: i, is_descending });
        }
    }
    (clicked, widths)
}

/// Of a column that is out of sight but for so many points, as beside the bar of the rows, half a letter would be seen.
const SLIVER: f32 = 12.0;

/// Width of the triangle with the space beside it, in points.
pub const SORT_MARK: f32 = 12.0;

/// What the head of a column is called, with its order if the rows are sorted by it.
///
/// * `known`: whether they descend.
pub fn sort_text(title: &str, known: Option<bool>) -> String {
    match known {
        Some(true) => format!("{title}, descending"),
        Some(false) => format!("{title}, ascending"),
        None => title.to_owned(),
    }
}

/// The triangle beside the head of the sorted column; it points down for descending order.
/// Painted, because not every font has one.
pub fn paint_triangle(center: egui::Pos2, is_descending: bool, ui: &egui::Ui) {
    let tip = if is_descending { 3.0 } else { -3.0 };
    let points = [egui::vec2(-4.0, -tip), egui::vec2(4.0, -tip), egui::vec2(0.0, tip)];
    let points = points.map(|point| center + point).to_vec();
    ui.painter().add(egui::Shape::convex_polygon(points, ui.visuals().strong_text_color(), egui::Stroke::NONE));
}
