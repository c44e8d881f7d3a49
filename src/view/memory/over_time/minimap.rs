//! The minimap of a history: the highest `active` under each pixel.

use eframe::egui::Ui;

use super::Chart;
use super::axis::{Axis, AxisKind, NO_STATE};
use super::curves::Curve;
use crate::job::Memo;
use crate::model::TimeRange;
use crate::session::MemoryKey;

#[derive(Clone, Debug, PartialEq)]
struct MinimapKey {
    history: MemoryKey,
    axis: AxisKind,
    span: TimeRange,
    n_pixels: usize,
}

/// The columns of the minimap.
#[derive(Debug, Default)]
pub struct Overview {
    memo: Memo<MinimapKey, Vec<u64>>,
    key: Option<MinimapKey>,
}

impl Overview {
    /// Whether the columns are still to come.
    pub fn is_pending(&self) -> bool {
        self.key.as_ref().is_some_and(|key| !self.memo.is_current(key) && !self.memo.has_crashed(key))
    }

    /// The highest `active` of each column as a share of the highest of all; none until they are worked out.
    pub fn heights(&mut self, ui: &Ui, chart: &Chart<'_>) -> Vec<f32> {
        let span = chart.span;
        let width = chart.parts.minimap.width() * ui.pixels_per_point();
        let n_pixels = width.round().clamp(1.0, 16_384.0) as usize;
        let key = MinimapKey { history: chart.key.clone(), axis: chart.axis.kind, span, n_pixels };
        let (waker, shown, kind) = (ui.ctx().clone(), chart.shown.of.clone(), chart.axis.kind);
        let work = move |_: &crate::job::Progress| {
            let history = shown.history();
            let columns = Axis { kind, history, offset: shown.open.offset }.columns(span, n_pixels);
            let active = |state: u32| if state == NO_STATE { 0 } else { history.curves.active[state as usize] };
            columns.iter().map(|column| active(column.state)).collect()
        };
        self.memo.get(&key, move || waker.request_repaint(), work);
        // Columns of another history or axis are wrong; those of another width are stretched.
        let is_alike = |known: &MinimapKey| MinimapKey { n_pixels, ..known.clone() } == key;
        let columns = self.memo.answer().filter(|_| self.memo.question().is_some_and(is_alike));
        let highest = chart.index.peak(Curve::Active).1.max(1) as f64;
        let heights = columns.into_iter().flatten().map(|&bytes| (bytes as f64 / highest) as f32).collect();
        self.key = Some(key);
        heights
    }
}
