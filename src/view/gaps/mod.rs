//! Idle time of devices: the list of gaps with their causes, and the page of one gap.

use std::cmp::Reverse;

use eframe::egui::{Grid, Ui};

use crate::analysis::gaps::{GapClass, IdleByClass, Ledger};
use crate::figures::{format, text::display_name};
use crate::model::DurNs;
use crate::session::OpenTrace;
use crate::widget::gap_color::swatch_ui;

/// Causes with their time and share of `total`, as a legend.
pub fn causes_ui(ui: &mut Ui, causes: &[(GapClass, DurNs)], total: DurNs) {
    Grid::new("causes of idle time").num_columns(4).spacing([8.0, 2.0]).show(ui, |ui| {
        for &(class, ns) in causes {
            swatch_ui(class, ui);
            ui.label(class.label());
            ui.label(format::duration(ns));
            ui.label(format!("{:.1} %", ns as f64 / total.max(1) as f64 * 100.0));
            ui.end_row();
        }
    });
}

/// The most important of a gap, for a tooltip: how long, why, between what.
pub fn gap_summary_ui(ui: &mut Ui, open: &OpenTrace, ledger: &Ledger, index: usize) {
    let gap = ledger.gap(index);
    let dur = gap.time.dur();
    ui.strong(format!("Idle for {} ({})", format::duration(dur), format::duration_exact(dur)));
    causes_ui(ui, &causes_of(ledger, index), dur);
    if let Some(trigger) = gap.trigger {
        ui.label(trigger.label());
    }
    let name = |slice| display_name(open.trace.slice_name(slice)).chars().take(60).collect::<String>();
    ui.label(format!("After {}", name(gap.after)));
    ui.label(format!("Before {}", name(gap.ended_by)));
}

/// Time of a gap by cause, the largest first.
pub fn causes_of(ledger: &Ledger, index: usize) -> Vec<(GapClass, DurNs)> {
    let mut by_class = IdleByClass::default();
    ledger.parts(index).for_each(|part| by_class[part.class as usize] += part.time.dur());
    let mut causes: Vec<_> = GapClass::ALL.into_iter().zip(by_class).filter(|cause| cause.1 > 0).collect();
    causes.sort_by_key(|cause| Reverse(cause.1));
    causes
}
