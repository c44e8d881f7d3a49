//! Blocks with room for a label, and the rectangle of the label.

use hashbrown::HashMap;

use super::raster::Tall;

/// The most labels of one picture; the largest are kept.
const MAX_LABELS: usize = 400;

/// A rectangle of pixels that a block fills wholly, with room for its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelRect {
    pub id: u32,
    /// From the first column to the one after the last.
    pub columns: [u32; 2],
    /// From the lowest row to the one above the highest.
    pub rows: [u32; 2],
}

impl LabelRect {
    fn area(&self) -> u64 {
        u64::from(self.columns[1] - self.columns[0]) * u64::from(self.rows[1] - self.rows[0])
    }
}

/// For each block the largest rectangle that is found by following it from column to column.
///
/// * `tall`: sorted by column.
/// * `least`: columns and rows that a rectangle must have.
pub fn label_rects(tall: &[Tall], least: [u32; 2]) -> Vec<LabelRect> {
    let mut open: HashMap<u32, LabelRect> = HashMap::new();
    let mut best: HashMap<u32, LabelRect> = HashMap::new();
    let mut keep = |rect: LabelRect| {
        if rect.columns[1] - rect.columns[0] >= least[0] {
            let known = best.entry(rect.id).or_insert(rect);
            if rect.area() > known.area() {
                *known = rect;
            }
        }
    };
    for next in tall {
        let fresh = LabelRect { id: next.id, columns: [next.column, next.column + 1], rows: next.rows };
        let rect = open.entry(next.id).or_insert(fresh);
        let both = [rect.rows[0].max(next.rows[0]), rect.rows[1].min(next.rows[1])];
        let goes_on = rect.columns[1] >= next.column && both[0] + least[1] <= both[1];
        if goes_on {
            *rect = LabelRect { columns: [rect.columns[0], next.column + 1], rows: both, ..*rect };
        } else {
            keep(std::mem::replace(rect, fresh));
        }
    }
    open.into_values().for_each(keep);
    let mut all: Vec<LabelRect> = best.into_values().collect();
    all.sort_unstable_by_key(|rect| (std::cmp::Reverse(rect.area()), rect.id));
    all.truncate(MAX_LABELS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_lies_on_its_block_in_every_column() {
        // A block that sinks by two rows in the middle, and one that is there twice.
        let tall: Vec<Tall> = (0..40)
            .flat_map(|column| {
                let low = if column < 20 { 30 } else { 28 };
                let is_there = !(10..30).contains(&column);
                [Tall { column, id: 7, rows: [low, low + 20] }].into_iter().chain(is_there.then_some(Tall {
                    column,
                    id: 9,
                    rows: [60, 80],
                }))
            })
            .collect();
        let found = label_rects(&tall, [5, 12]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], LabelRect { id: 7, columns: [0, 40], rows: [30, 48] });
        assert_eq!((found[1].id, found[1].columns[1] - found[1].columns[0]), (9, 10));
        assert!(label_rects(&tall, [50, 12]).is_empty());
    }
}
