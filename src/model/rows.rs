//! Rows of slices, as their layout places them, with their pyramids.

use rayon::prelude::*;

use super::layout::Layout;
use super::{Pyramid, Row, SideTable, SliceId, SliceKind, SliceTable, TimeRange, Tint, TrackId};

/// Rows with fewer slices than this are drawn slice by slice at every zoom.
const MIN_SLICES_FOR_PYRAMID: usize = 256;

/// Builds the rows and their pyramids; returns the rows of each track.
pub fn make_rows(
    slices: &mut SliceTable,
    layouts: &[Layout],
    (name_shades, colors): (&[u8], &SideTable<u32>),
    span: TimeRange,
) -> Vec<std::ops::Range<u32>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut track_rows = Vec::with_capacity(layouts.len());
    let mut first = 0;
    for (track, layout) in layouts.iter().enumerate() {
        let first_row = rows.len() as u32;
        for (depth, &len) in layout.row_lens.iter().enumerate() {
            let depth = depth as u32;
            rows.push(Row {
                track: TrackId(track as u32),
                depth,
                is_overflow: depth >= layout.first_overflow,
                has_annotations: false,
                slices: first..first + len,
                pyramid: None,
            });
            first += len;
        }
        track_rows.push(first_row..rows.len() as u32);
    }
    let table = &*slices;
    rows.par_iter_mut().for_each(|row| {
        let range = row.range();
        row.has_annotations = table.kind[range.clone()].contains(&SliceKind::Annotation);
        if range.len() < MIN_SLICES_FOR_PYRAMID {
            return;
        }
        let (Some(&start), Some(&end)) = (table.ts[range.clone()].first(), table.end[range.clone()].last()) else {
            return;
        };
        let bounds = TimeRange { start: start.max(span.start), end: end.min(span.end).max(start) };
        let slices = range.map(|i| {
            let tint = match colors.get(SliceId(i as u32)) {
                Some(&color) => Tint::of_color(color),
                None => Tint::new(table.kind[i], name_shades[table.name[i].0 as usize]),
            };
            (table.ts[i].max(bounds.start), table.end[i].max(bounds.start), tint)
        });
        row.pyramid = Some(Pyramid::build(slices, bounds));
    });
    slices.set_rows(rows);
    track_rows
}
