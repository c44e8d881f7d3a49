//! Arguments and call stack of an event, which are read from the file when the user looks at it.

use std::borrow::Cow;

use eframe::egui::{self, RichText};
use hashbrown::HashMap;

use super::{Found, MAX_LABEL, cut, short_row_ui};
use crate::answers::Answer;
use crate::figures::text::{display_name, shortened, shortened_apart};
use crate::figures::{escape, format};
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
            let keys: Vec<Cow<'_, str>> = event.args.iter().take(MAX_LINES).map(|arg| display_name(&arg.0)).collect();
            for ((short, key), (_, value)) in short_labels(&keys).iter().zip(&keys).zip(&event.args) {
                short_row_ui(ui, short, key, &cut(value));
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

/// Keys that fit beside their values; different ones look different.
fn short_labels(keys: &[Cow<'_, str>]) -> Vec<String> {
    let short: Vec<String> = keys.iter().map(|key| shortened(key, MAX_LABEL)).collect();
    let mut alike: HashMap<&str, Vec<&str>> = HashMap::new();
    for (short, key) in short.iter().zip(keys) {
        alike.entry(short).or_default().push(key);
    }
    let apart = |(short, key): (&String, &Cow<'_, str>)| {
        let others: Vec<&str> = alike[short.as_str()].iter().copied().filter(|other| other != key).collect();
        if others.is_empty() { short.clone() } else { shortened_apart(key, &others, MAX_LABEL) }
    };
    short.iter().zip(keys).map(apart).collect()
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
    fn keys_that_differ_look_different() {
        let of = |keys: &[&str]| short_labels(&keys.iter().map(|key| Cow::Borrowed(*key)).collect::<Vec<_>>());
        let metrics = ["dadd", "dfma", "hmul"].map(|op| format!("sm__sass_thread_inst_executed_op_{op}_pred_on.avg"));
        let short = of(&[&metrics[0], &metrics[1], &metrics[2], "grid"]);
        assert!(short.iter().zip(["dadd", "dfma", "hmul", "grid"]).all(|(short, op)| short.contains(op)), "{short:?}");
        // They differ in what is cut from each alone.
        let sectors = ["lts", "l1tex"].map(|unit| format!("{unit}__average_t_sectors_srcunit_tex_lookup_hit_rate.pct"));
        let short = of(&[&sectors[0], &sectors[1]]);
        assert!(short[0] != short[1] && short.iter().all(|short| short.chars().count() <= MAX_LABEL), "{short:?}");
    }

    #[test]
    fn copied_text_has_no_control_characters_or_formulas() {
        let args = [("a\u{1b}[2J".to_owned(), "=1+1".to_owned()), ("b".to_owned(), "x\ty".to_owned())];
        assert_eq!(arguments_text(&args), "a\\u{1b}[2J\t'=1+1\nb\tx y\n");
        assert_eq!(escape::lines(["main", "f\ng\u{202e}"].into_iter()), "main\nf\\ng\\u{202e}");
    }
}
