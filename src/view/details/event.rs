//! Arguments and call stack of an event, which are read from the file when the user looks at it.

use eframe::egui::{self, RichText};

use super::{Found, cut, row_ui};
use crate::answers::Answer;
use crate::figures::{escape, format, text::display_name};
use crate::model::EventDetails;
use crate::view::states::{failed_ui, working_ui};

/// Arguments and stack frames shown; copies are complete.
pub const MAX_LINES: usize = 500;

/// An event without the numbers that stand for "none", and with the sides of a grid in one.
pub fn tidy(mut event: EventDetails) -> EventDetails {
    /// The largest number of 32 bits, and of 64.
    const NONE: [&str; 2] = ["4294967295", "18446744073709551615"];
    event.args.retain(|(_, value)| !NONE.contains(&&**value));
    for key in ["grid", "block", "cluster"] {
        let sides =
            ["X", "Y", "Z"].map(|side| event.args.iter().position(|(other, _)| *other == format!("{key}{side}")));
        let [Some(x), Some(y), Some(z)] = sides else { continue };
        let value = [x, y, z].map(|i| event.args[i].1.clone()).join(" × ");
        event.args[x] = (key.to_owned(), value);
        event.args.retain(|(other, _)| *other != format!("{key}Y") && *other != format!("{key}Z"));
    }
    event
}

/// Arguments and call stack; never those of another event.
pub fn event_ui(found: &Answer<Found>, ui: &mut egui::Ui) {
    ui.add_space(6.0);
    match found {
        Answer::Working(_) => working_ui("Reading arguments…", ui),
        Answer::Failed(why) => failed_ui(why, ui),
        Answer::Ready(found) => match &found.event {
            None => {}
            Some(Err(message)) => failed_ui(message, ui),
            Some(Ok(event)) => event_details_ui(event, ui),
        },
    }
}

fn event_details_ui(event: &EventDetails, ui: &mut egui::Ui) {
    if !event.category.is_empty() {
        ui.horizontal_wrapped(|ui| {
            ui.weak("Category");
            ui.label(cut(&event.category));
        });
    }
    if !event.args.is_empty() {
        section_ui(ui, "Arguments", "Copy arguments", || arguments_text(&event.args));
        egui::Grid::new("arguments").num_columns(2).striped(true).spacing([12.0, 4.0]).show(ui, |ui| {
            for (key, value) in event.args.iter().take(MAX_LINES) {
                row_ui(ui, &display_name(key), &cut(value));
            }
        });
        more_ui(ui, event.args.len());
    }
    if !event.stack.is_empty() {
        section_ui(ui, "Call stack, innermost first", "Copy stack", || {
            escape::lines(event.stack.iter().map(|frame| &**frame))
        });
        for frame in event.stack.iter().take(MAX_LINES) {
            ui.add(egui::Label::new(RichText::new(cut(frame)).monospace()).wrap());
        }
        more_ui(ui, event.stack.len());
    }
}

pub fn section_ui(ui: &mut egui::Ui, title: &str, copy: &str, text: impl FnOnce() -> String) {
    ui.add_space(6.0);
    ui.horizontal_wrapped(|ui| {
        ui.strong(title);
        if ui.small_button(copy).clicked() {
            ui.ctx().copy_text(text());
        }
    });
}

/// Arguments as a table of two columns for a spreadsheet.
fn arguments_text(args: &[(String, String)]) -> String {
    args.iter().map(|(key, value)| format!("{}\t{}\n", escape::tsv_cell(key), escape::tsv_cell(value))).collect()
}

pub fn more_ui(ui: &mut egui::Ui, n: usize) {
    if n > MAX_LINES {
        ui.weak(format!("{} more in the copied text", format::count((n - MAX_LINES) as u64)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_stand_for_none_are_left_out() {
        let args = [("gridX", "4"), ("gridY", "2"), ("gridZ", "1"), ("greenContextId", "4294967295"), ("blockX", "8")];
        let args = args.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let tidied = tidy(EventDetails { args, ..Default::default() }).args;
        assert_eq!(tidied, [("grid".to_owned(), "4 × 2 × 1".to_owned()), ("blockX".to_owned(), "8".to_owned())]);
    }

    #[test]
    fn copied_text_has_no_control_characters_or_formulas() {
        let args = [("a\u{1b}[2J".to_owned(), "=1+1".to_owned()), ("b".to_owned(), "x\ty".to_owned())];
        assert_eq!(arguments_text(&args), "a\\u{1b}[2J\t'=1+1\nb\tx y\n");
        assert_eq!(escape::lines(["main", "f\ng\u{202e}"].into_iter()), "main\nf\\ng\\u{202e}");
    }
}
