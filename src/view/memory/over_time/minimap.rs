//! The highest `active` under each pixel: for the minimap, and for the strip on which a moment is chosen.

use super::axis::{Axis, AxisKind, NO_STATE};
use crate::answers::{Analysis, Work};
use crate::model::TimeRange;
use crate::session::OpenMemory;

/// The highest `active` of each column of pixels, as a share of the highest of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Highest {
    pub(super) axis: AxisKind,
    pub(super) span: TimeRange,
    pub(super) n_pixels: usize,
}

impl Highest {
    /// Over all states of a history, each as wide as the others.
    pub fn of_states(of: &OpenMemory, n_pixels: usize) -> Self {
        let axis = AxisKind::Events;
        let span = Axis { kind: axis, history: of.history(), offset: 0, is_alone: false }.span();
        Self { axis, span, n_pixels }
    }
}

impl Analysis for Highest {
    type Of = OpenMemory;
    type Output = Vec<f32>;
    const NAME: &'static str = "The minimap of memory";

    fn run(&self, of: &OpenMemory, _: &Work<'_>) -> Option<Vec<f32>> {
        let history = of.history();
        let highest = history.curves.highest().1.max(1) as f64;
        let columns = Axis { kind: self.axis, history, offset: of.open.offset, is_alone: false }
            .columns(self.span, self.n_pixels);
        let active = |state: u32| if state == NO_STATE { 0 } else { history.curves.active[state as usize] };
        Some(columns.iter().map(|column| (active(column.state) as f64 / highest) as f32).collect())
    }
}
