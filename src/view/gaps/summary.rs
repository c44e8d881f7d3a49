//! A gap in a few lines, for tooltips and legends.

use std::cmp::Reverse;

use eframe::egui::{Grid, Label, RichText, Ui};

use crate::analysis::gaps::{GapClass, IdleByClass, Ledger, Near};
use crate::figures::gaps::{main_part, trigger_label};
use crate::figures::{format, text::shortened};
use crate::model::{DurNs, SliceId, Trace};
use crate::widget::gap_color::swatch_ui;
use crate::widget::table::small::{text_ui, widest};

/// The longest name in a tooltip or a menu, in characters.
pub const MAX_NAME: usize = 60;

/// Shares below it show as 0.0 %, in percent.
pub const LEAST_SHARE: f64 = 0.05;

/// What went on meanwhile, with its time and share of `total`, as a legend.
///
/// * `classes`: the largest first. Those that would show as 0.0 % are one line.
pub fn classes_ui(ui: &mut Ui, classes: &[(GapClass, DurNs)], total: DurNs) {
    let share = |ns: DurNs| ns as f64 / total.max(1) as f64 * 100.0;
    let n_large = classes.partition_point(|class| share(class.1) >= LEAST_SHARE);
    // One line in place of one line saves nothing.
    let n_listed = if n_large + 1 == classes.len() { classes.len() } else { n_large };
    let (listed, rest) = classes.split_at(n_listed);
    let line = |(class, name, ns): (Option<GapClass>, String, DurNs)| {
        (class, [format!("{:.1} %", share(ns)), format::duration(ns)].map(RichText::new), name)
    };
    let others = (!rest.is_empty()).then(|| {
        let ns = rest.iter().map(|class| class.1).sum();
        (None, format!("{} others", rest.len()), ns)
    });
    let lines = listed.iter().map(|&(class, ns)| (Some(class), class.label().to_owned(), ns)).chain(others).map(line);
    let lines: Vec<_> = lines.collect();
    let widths = [0, 1].map(|i| widest(lines.iter().map(|line| &line.1[i]), ui));
    Grid::new("what went on meanwhile").num_columns(4).min_col_width(0.0).spacing([8.0, 2.0]).show(ui, |ui| {
        for (class, numbers, name) in lines {
            match class {
                Some(class) => _ = swatch_ui(class, ui),
                None => _ = ui.label(""),
            }
            numbers.iter().zip(widths).for_each(|(number, width)| text_ui(number, false, width, ui));
            // In a narrow panel it gives way.
            ui.add(Label::new(name).truncate());
            ui.end_row();
        }
    });
}

/// How long a gap is, what went on meanwhile, where in the program, and between what.
pub fn gap_summary_ui(ui: &mut Ui, trace: &Trace, ledger: &Ledger, index: usize) {
    let main = main_part(trace, ledger, index, &Near::none());
    let dur = main.gap.time.dur();
    ui.strong(format!("Idle for {}", format::duration_in_full(dur)));
    ui.weak("Meanwhile");
    classes_ui(ui, &classes_of(ledger, index), dur);
    if let Some(trigger) = trigger_label(trace, &main.gap) {
        ui.label(trigger);
    }
    let cut = |text: &str| shortened(text, MAX_NAME);
    let name = |slice: SliceId| cut(trace.slice_name(slice));
    if let Some(operator) = main.place.operator {
        ui.label(format!("In {}", name(operator)));
    }
    if let Some(frame) = main.place.frame {
        ui.label(format!("At {}", cut(frame)));
    }
    ui.label(format!("After {}", name(main.gap.after)));
    ui.label(format!("Before {}", name(main.gap.ended_by)));
}

/// Time of a gap by what went on, the largest first.
pub fn classes_of(ledger: &Ledger, index: usize) -> Vec<(GapClass, DurNs)> {
    let mut by_class = IdleByClass::default();
    ledger.parts(index).for_each(|part| by_class[part.class as usize] += part.time.dur());
    let mut classes: Vec<_> = GapClass::ALL.into_iter().zip(by_class).filter(|class| class.1 > 0).collect();
    classes.sort_by_key(|class| Reverse(class.1));
    classes
}
