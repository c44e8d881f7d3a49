//! Small tables that are painted whole: heads that sort them, and the order of their rows.

use std::cmp::Ordering;

use eframe::egui::{self, RichText};

use super::sort_mark_ui;
use crate::figures::Sort;

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

/// The head of a column, which sorts by it: as `first` says, then the other way round.
pub fn head_ui(title: &str, first: Sort, sort: &mut Option<Sort>, ui: &mut egui::Ui) {
    ui.horizontal(|ui| {
        let known = sort.filter(|sort| sort.column == first.column);
        let head = ui.add(egui::Button::new(RichText::new(title).weak()).frame(false));
        if let Some(Sort { is_descending, .. }) = known {
            sort_mark_ui(&head, title, is_descending, ui);
        }
        if head.on_hover_text("Click to sort").clicked() {
            *sort = Some(known.map_or(first, |sort| Sort { is_descending: !sort.is_descending, ..sort }));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_sort_either_way_and_keep_their_order_where_equal() {
        let by = |sort| sorted(&[(1, 'a'), (2, 'b'), (1, 'c')], sort, |a, _, b| a.0.cmp(&b.0));
        let names = |rows: Vec<&(i32, char)>| rows.iter().map(|row| row.1).collect::<String>();
        assert_eq!(names(by(None)), "abc");
        assert_eq!(names(by(Some(Sort { column: 0, is_descending: true }))), "bac");
        assert_eq!(names(by(Some(Sort { column: 0, is_descending: false }))), "acb");
    }
}
