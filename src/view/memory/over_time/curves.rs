//! The sums over time: allocated, active, reserved, requested; as many points as there are pixels.

use eframe::egui::Color32;
use egui_plot::PlotPoint;
use rayon::prelude::*;

use super::axis::{Axis, Column, NO_STATE};
use crate::model::{MemoryHistory, TimeRange};
use crate::widget::theme;

/// One of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    Allocated,
    Active,
    Reserved,
    Requested,
}

impl Curve {
    pub const ALL: [Self; 4] = [Self::Allocated, Self::Active, Self::Reserved, Self::Requested];

    pub fn label(self) -> &'static str {
        match self {
            Self::Allocated => "Allocated",
            Self::Active => "Active",
            Self::Reserved => "Reserved",
            Self::Requested => "Requested",
        }
    }

    pub fn help(self) -> &'static str {
        match self {
            Self::Allocated => "Held by the program, with what the allocator rounds up and does not split off",
            Self::Active => "Allocated, or freed but awaiting a stream",
            Self::Reserved => "Held by the allocator",
            Self::Requested => {
                "Requested by the program, without what the allocator rounds up and does not split off, as Memory Viz sums it"
            }
        }
    }

    /// The values of all states.
    pub fn values(self, history: &MemoryHistory) -> &[u64] {
        let curves = &history.curves;
        match self {
            Self::Allocated => &curves.allocated,
            Self::Active => &curves.active,
            Self::Reserved => &curves.reserved,
            Self::Requested => &curves.requested,
        }
    }

    /// Blue, orange, vermilion and green, as Okabe and Ito have them.
    pub fn color(self, is_dark: bool) -> Color32 {
        let tokens = theme::tokens(is_dark);
        match self {
            Self::Allocated => tokens.severity[0],
            Self::Active => tokens.severity[1],
            Self::Reserved => tokens.severity[2],
            Self::Requested if is_dark => Color32::from_rgb(64, 196, 150),
            Self::Requested => Color32::from_rgb(0, 118, 86),
        }
    }
}

/// Whether each curve is on show, in the order of [`Curve::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownCurves(pub [bool; 4]);

impl Default for ShownCurves {
    fn default() -> Self {
        Self([true, false, true, false])
    }
}

/// The points of one curve, with x relative to the start of `view`.
///
/// A value holds until the next event, so all lines are level or upright. Where columns hold few states each state is
/// a step, else each column is an upright line over all of its values, so that no peak vanishes. At most two points per
/// state or four per column.
pub fn points(axis: &Axis<'_>, values: &[u64], columns: &[Column], view: TimeRange) -> Vec<PlotPoint> {
    let inside: Vec<(usize, Column)> =
        columns.iter().copied().enumerate().filter(|(_, column)| column.state != NO_STATE).collect();
    let (Some(&(_, first)), Some(&(_, last))) = (inside.first(), inside.last()) else { return Vec::new() };
    let point = |place: i64, bytes: u64| PlotPoint::new(place.saturating_sub(view.start) as f64, bytes as f64);
    if ((last.last - first.first) as usize) < columns.len() {
        let span = axis.span();
        let stairs = (first.first..=last.last).flat_map(|state| {
            let bytes = values.get(state as usize).copied().unwrap_or(0);
            let from = axis.position(state).max(view.start).max(span.start);
            let to = axis.position(state + 1).min(view.end).max(from);
            [point(from, bytes), point(to, bytes)]
        });
        return stairs.collect();
    }
    let n = columns.len() as i128;
    let middle = |column: usize| {
        let part = i128::from(view.dur()) * (2 * column as i128 + 1) / (2 * n.max(1));
        view.start.saturating_add(part as i64)
    };
    let upright = |i: usize| {
        let (at, column) = inside[i];
        let states = &values[column.first as usize..=column.last as usize];
        let (mut low, mut high) = (0, 0);
        for (i, &bytes) in states.iter().enumerate() {
            if bytes < states[low] {
                low = i;
            }
            if bytes > states[high] {
                high = i;
            }
        }
        // The value before holds until here.
        let before = i.checked_sub(1).map_or(states[0], |before| values[inside[before].1.last as usize]);
        let x = middle(at);
        [before, states[low.min(high)], states[low.max(high)], states[states.len() - 1]].map(|bytes| point(x, bytes))
    };
    (0..inside.len()).into_par_iter().with_min_len(64).flat_map_iter(upright).collect()
}
