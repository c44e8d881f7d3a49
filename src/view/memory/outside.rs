//! GPU memory outside PyTorch, in one line.

use eframe::egui::{RichText, Ui};

use crate::analysis::memory::outside::Outside;
use crate::figures::memory::{outside_growth, outside_sentence};
use crate::model::DurNs;
use crate::session::{OpenTrace, ShownMemory};
use crate::widget::prose::prose_ui;
use crate::widget::theme;

/// Which history it is about, and every open trace with its place on the clock.
type Of = (usize, usize, Vec<(usize, DurNs, usize)>);

/// The line; it compares anew when other files are open or another history is shown.
#[derive(Debug, Default)]
pub struct OutsideLine {
    known: Option<(Of, Option<Outside>)>,
}

impl OutsideLine {
    /// Paints nothing where no log of the driver is open beside the history.
    pub fn ui(&mut self, shown: &ShownMemory, traces: &[OpenTrace], ui: &mut Ui) {
        let place = |open: &OpenTrace| (std::sync::Arc::as_ptr(&open.trace).addr(), open.offset, open.run);
        let of = (shown.index, shown.memory, traces.iter().map(place).collect());
        if self.known.as_ref().is_none_or(|(known, _)| *known != of) {
            self.known = Some((of, shown.outside(traces)));
        }
        let Some((_, Some(outside))) = &self.known else { return };
        let tokens = theme::tokens(ui.visuals().dark_mode);
        match outside_growth(outside) {
            Some(finding) => {
                let color = tokens.severity[finding.severity as usize];
                let text = prose_ui(ui, &finding.text, |text| text.color(color));
                text.on_hover_text(finding.advice.join("\n"));
            }
            None => _ = prose_ui(ui, &outside_sentence(outside), RichText::weak),
        }
    }
}
