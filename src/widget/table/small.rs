//! Small tables that are painted whole: heads that sort them, and the order of their rows.

use std::cmp::Ordering;

use eframe::egui::{self, Align, Layout, RichText, Sense, Ui, WidgetInfo, pos2, vec2};

use super::header::{SORT_MARK, paint_triangle, sort_text};
use crate::figures::Sort;

const ROW_HEIGHT: f32 = 18.0;
/// Between two columns.
const SPACING: f32 = 18.0;

/// The head of a column.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub title: &'static str,
    /// Whether it holds words, which stand to the left; numbers stand to the right.
    pub is_text: bool,
    /// How it sorts at the first click.
    pub is_descending: bool,
}

impl Head {
    /// A column of words, which sorts from the first.
    pub const fn text(title: &'static str) -> Self {
        Self { title, is_text: true, is_descending: false }
    }

    /// A column of figures, which sorts from the largest.
    pub const fn number(title: &'static str) -> Self {
        Self { title, is_text: false, is_descending: true }
    }
}

/// The rows in order; rows that compare equal keep theirs.
///
/// * `compare`: a row with another, by the column of this index.
pub fn sorted<T>(rows: &[T], sort: Option<Sort>, compare: impl Fn(&T, usize, &T) -> Ordering) -> Vec<&T> {
    let mut rows: Vec<&T> = rows.iter().collect();
    if let Some(Sort { column, is_descending }) = sort {
        rows.sort_by(|a, b| if is_descending { compare(b, column, a) } else { compare(a, column, b) });
    }
    rows
}

/// Paints a table. No cell is cut: each column is as wide as the widest of its texts. A click on a head sorts.
///
/// * `rows`: in order, a text for each column.
pub fn small_table_ui(name: &str, heads: &[Head], rows: &[Vec<RichText>], sort: &mut Option<Sort>, ui: &mut Ui) {
    let width = |(column, head): (usize, &Head)| {
        let own = widest([&RichText::new(head.title).strong()], ui) + SORT_MARK;
        own.max(widest(rows.iter().filter_map(|row| row.get(column)), ui))
    };
    let widths: Vec<f32> = heads.iter().enumerate().map(width).collect();
    egui::Grid::new(name).num_columns(heads.len()).striped(true).spacing([SPACING, 2.0]).show(ui, |ui| {
        for (column, (&head, &width)) in heads.iter().zip(&widths).enumerate() {
            head_ui(column, head, width, sort, ui);
        }
        ui.end_row();
        for row in rows {
            for ((head, &width), text) in heads.iter().zip(&widths).zip(row) {
                text_ui(text, head.is_text, width, ui);
            }
            ui.end_row();
        }
    });
}

/// The width of the widest of some texts, in points.
pub fn widest<'a>(texts: impl IntoIterator<Item = &'a RichText>, ui: &Ui) -> f32 {
    let width = |text: &RichText| {
        let text = egui::WidgetText::from(text.clone());
        text.into_galley(ui, Some(egui::TextWrapMode::Extend), f32::INFINITY, egui::TextStyle::Body).size().x.ceil()
    };
    texts.into_iter().map(width).fold(0.0, f32::max)
}

/// A text in a cell of this width: words to the left, numbers to the right.
pub fn text_ui(text: &RichText, is_text: bool, width: f32, ui: &mut Ui) {
    let layout = if is_text { Layout::left_to_right(Align::Center) } else { Layout::right_to_left(Align::Center) };
    ui.allocate_ui_with_layout(vec2(width, ROW_HEIGHT), layout, |ui| {
        ui.set_min_size(vec2(width, ROW_HEIGHT));
        ui.add(egui::Label::new(text.clone()).extend());
    });
}

/// The head of a column, all of which can be clicked.
fn head_ui(column: usize, head: Head, width: f32, sort: &mut Option<Sort>, ui: &mut Ui) {
    let known = sort.filter(|sort| sort.column == column).map(|sort| sort.is_descending);
    let (rect, response) = ui.allocate_exact_size(vec2(width, ROW_HEIGHT), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Button, true, sort_text(head.title, known)));
    let text = egui::WidgetText::from(RichText::new(head.title).strong());
    let text = text.into_galley(ui, Some(egui::TextWrapMode::Extend), f32::INFINITY, egui::TextStyle::Body);
    let left = if head.is_text { rect.left() } else { rect.right() - text.size().x };
    let mark = if head.is_text { left + text.size().x + SORT_MARK / 2.0 } else { left - SORT_MARK / 2.0 };
    let at = pos2(left, rect.center().y - text.size().y / 2.0);
    ui.painter().galley(at, text, ui.visuals().strong_text_color());
    known.into_iter().for_each(|is_descending| paint_triangle(pos2(mark, rect.center().y), is_descending, ui));
    if response.on_hover_cursor(egui::CursorIcon::PointingHand).on_hover_text("Click to sort").clicked() {
        let is_descending = known.map_or(head.is_descending, |is_descending| !is_descending);
        *sort = Some(Sort { column, is_descending });
    }
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    #[test]
    fn rows_sort_either_way_and_keep_their_order_where_equal() {
        let by = |sort| sorted(&[(1, 'a'), (2, 'b'), (1, 'c')], sort, |a, _, b| a.0.cmp(&b.0));
        let names = |rows: Vec<&(i32, char)>| rows.iter().map(|row| row.1).collect::<String>();
        assert_eq!(names(by(None)), "abc");
        assert_eq!(names(by(Some(Sort { column: 0, is_descending: true }))), "bac");
        assert_eq!(names(by(Some(Sort { column: 0, is_descending: false }))), "acb");
    }

    #[test]
    fn numbers_end_at_one_edge_and_the_whole_head_sorts() {
        let frame = |ui: &mut Ui, sort: &mut Option<Sort>| {
            let heads = [Head::number("Count"), Head::text("What")];
            let row = |count: &str, what: &str| vec![RichText::new(count), RichText::new(what)];
            let rows = [row("7", "one"), row("1,234,567,890", "other")];
            egui::ScrollArea::both().show(ui, |ui| small_table_ui("small", &heads, &rows, sort, ui));
        };
        let mut harness = Harness::builder().with_size([300.0, 200.0]).build_ui_state(frame, None);
        harness.run();
        let rect = |harness: &Harness<'_, Option<Sort>>, label| harness.get_by_label(label).rect();
        let [short, long] = ["7", "1,234,567,890"].map(|text| rect(&harness, text));
        assert!((short.right() - long.right()).abs() < 0.5 && short.left() > long.left() + 40.0, "{short} {long}");
        let head = harness.get_by_role_and_label(egui::Role::Button, "Count").rect();
        assert!(head.left() <= long.left() && head.right() >= long.right() - 0.5, "{head} {long}");
        // At the far end of its cell, away from the word.
        let corner = head.left_bottom() + vec2(2.0, -2.0);
        harness.hover_at(corner);
        harness.drag_at(corner);
        harness.drop_at(corner);
        harness.run();
        assert_eq!(*harness.state(), Some(Sort { column: 0, is_descending: true }));
        harness.get_by_label("Count, descending");
    }
}
