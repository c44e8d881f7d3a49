//! The slices that a search found, as rows of a table.

use std::borrow::Cow;
use std::sync::Arc;

use super::tables::Table;
use crate::figures::text::track_name;
use crate::figures::{Cell, Column, Rows, Sort, sort_by_cell};
use crate::model::SliceId;
use crate::session::{OpenTrace, track_title};

const COLUMNS: [Column; 4] = [
    Column { key: "name", title: "Name", width: 520, is_text: true, help: "Name of the slice" },
    Column { key: "track", title: "Track", width: 220, is_text: true, help: "Its track" },
    Column { key: "start_ns", title: "Start", width: 110, is_text: false, help: "Start time" },
    Column { key: "dur_ns", title: "Duration", width: 100, is_text: false, help: "Duration" },
];

/// Slices of the open traces; their own order is that of their starts.
#[derive(Debug, Default)]
pub struct FoundSlices {
    traces: Vec<OpenTrace>,
    /// Each with the index of its trace, by start.
    pub slices: Arc<Vec<(usize, SliceId)>>,
}

impl FoundSlices {
    /// * `slices`: with the indices of their traces, by start.
    pub fn new(traces: &[OpenTrace], slices: Vec<(usize, SliceId)>) -> Self {
        Self { traces: traces.to_vec(), slices: Arc::new(slices) }
    }

    fn cell(&self, row: usize, column: usize) -> Cell {
        let Some((&(trace, slice), open)) = self.slices.get(row).and_then(|hit| Some((hit, self.traces.get(hit.0)?)))
        else {
            return Cell::Empty;
        };
        let slices = &open.trace.slices;
        match column {
            0 => Cell::name(open.trace.slice_name(slice)),
            1 => {
                let track = open.trace.track(slices.track_of(slice));
                Cell::text(&track_title(&self.traces, trace, &track_name(track)))
            }
            2 => Cell::Moment(slices.ts[slice.idx()].saturating_add(open.offset)),
            _ => Cell::Ns(slices.time(slice).dur()),
        }
    }
}

impl Rows for FoundSlices {
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn n_rows(&self) -> usize {
        self.slices.len()
    }

    fn row(&self, row: usize) -> Cow<'_, [Cell]> {
        if row < self.slices.len() {
            (0..COLUMNS.len()).map(|column| self.cell(row, column)).collect()
        } else {
            Cow::default()
        }
    }

    fn own_sort(&self) -> Option<Sort> {
        Some(Sort { column: 2, is_descending: false })
    }

    /// The search is the filter. Cost: O(n log n).
    fn order(&self, sort: Option<Sort>, _filter: &str) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.slices.len() as u32).collect();
        if let Some(Sort { column, is_descending }) = sort.filter(|&sort| Some(sort) != self.own_sort()) {
            let cells: Vec<Cell> = (0..self.slices.len()).map(|row| self.cell(row, column)).collect();
            sort_by_cell(&mut order, is_descending, |row| &cells[row as usize]);
        }
        order
    }
}

impl Table for FoundSlices {
    const SAME_ROW: Option<fn(&Self, usize, &Self) -> Option<usize>> = Some(|found, row, other| {
        let wanted = found.slices.get(row)?;
        other.slices.iter().position(|slice| slice == wanted)
    });
}
