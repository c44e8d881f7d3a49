//! The minimap of a history: the highest `active` under each pixel.

use eframe::egui::Ui;

use super::Chart;
use super::axis::{Axis, AxisKind, NO_STATE};
use super::curves::Curve;
use crate::answers::{Analysis, Answers, Query, Work};
use crate::model::TimeRange;
use crate::session::OpenMemory;

/// The highest `active` of each column of pixels, in bytes.
#[derive(Clone, Debug, PartialEq)]
struct Highest {
    axis: AxisKind,
    span: TimeRange,
    n_pixels: usize,
}

impl Analysis for Highest {
    type Of = OpenMemory;
    type Output = Vec<u64>;
    const NAME: &'static str = "The minimap of memory";

    fn run(&self, of: &OpenMemory, _: &Work<'_>) -> Option<Vec<u64>> {
        let history = of.history();
        let columns = Axis { kind: self.axis, history, offset: of.open.offset }.columns(self.span, self.n_pixels);
        let active = |state: u32| if state == NO_STATE { 0 } else { history.curves.active[state as usize] };
        Some(columns.iter().map(|column| active(column.state)).collect())
    }
}

/// The columns of the minimap.
#[derive(Debug, Default)]
pub struct Overview {
    columns: Query<Highest>,
    /// Whether the columns are still to come.
    pub is_pending: bool,
}

impl Overview {
    /// The highest `active` of each column as a share of the highest of all; none until they are worked out.
    pub fn heights(&mut self, answers: &Answers, ui: &Ui, chart: &Chart<'_>) -> Vec<f32> {
        let width = chart.parts.minimap.width() * ui.pixels_per_point();
        let n_pixels = width.round().clamp(1.0, 16_384.0) as usize;
        let wanted = Highest { axis: chart.axis.kind, span: chart.span, n_pixels };
        let answer = self.columns.ask(answers, &chart.shown.of, &wanted);
        self.is_pending = answer.is_working();
        // Columns of another axis are wrong; those of another width are stretched.
        let is_alike = |known: &Highest| Highest { n_pixels, ..known.clone() } == wanted;
        let columns = answer.newest().filter(|_| self.columns.shown().is_some_and(is_alike));
        let highest = chart.index.peak(Curve::Active).1.max(1) as f64;
        columns.iter().flat_map(|columns| columns.iter()).map(|&bytes| (bytes as f64 / highest) as f32).collect()
    }
}
