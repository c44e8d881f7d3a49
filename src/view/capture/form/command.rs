//! The field of the command line.

use eframe::egui::{Event, TextEdit, TextStyle, Ui};

/// The field, of several lines where what is in it or pasted has several: one of a single line makes spaces of their ends.
/// Enter stays with the caller.
///
/// * `width`: in points.
pub fn edit<'a>(line: &'a mut String, width: f32, ui: &Ui) -> TextEdit<'a> {
    let has_lines = |text: &str| text.trim_end().contains('\n');
    let is_pasted = |event: &Event| matches!(event, Event::Paste(text) if has_lines(text));
    let edit = match has_lines(line) || ui.input(|input| input.events.iter().any(is_pasted)) {
        true => TextEdit::multiline(line).desired_rows(1),
        false => TextEdit::singleline(line),
    };
    let edit = edit.id_salt("command").return_key(None).font(TextStyle::Monospace);
    edit.hint_text("python3 train.py").desired_width(width)
}
