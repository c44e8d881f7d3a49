//! Where each frame of an icicle graph lies, and what is too narrow to have a place of its own.

use std::ops::Range;

use eframe::egui::Color32;

use super::Frames;
use crate::widget::slice_color::frame_color;

/// A frame, or the narrow ones at the end of its siblings as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The frame, or the first of those merged.
    pub frame: u32,
    /// How many frames this stands for, if it stands for narrow ones.
    pub n_merged: Option<u32>,
    /// Points from the left edge of the graph.
    pub left: f32,
    pub right: f32,
    /// The weight that the width stands for.
    pub weight: i64,
    pub color: Color32,
}

/// All bars of a graph of a certain width, with a frame of it in focus: as wide as the graph, below
/// its callers.
#[derive(Debug, Default)]
pub struct Layout {
    pub bars: Vec<Bar>,
    /// The bars of each level, from left to right; the whole is on level 0.
    pub rows: Vec<Range<usize>>,
}

/// A width in which merged frames are shown.
const MERGED: Color32 = Color32::from_gray(128);

impl Layout {
    /// * `width`, `pixel`: of the graph and of one pixel, in points.
    ///
    /// Cost: O(levels · width / pixel), however many frames there are: a row has no more frames than
    /// pixels, and no more merged ones than the row above has frames.
    pub fn new(frames: &dyn Frames, focus: u32, width: f32, pixel: f32, is_dark: bool) -> Self {
        let color = |frame: u32| frame_color(frames.frame(frame).name, is_dark);
        let mut layout = Self::default();
        let mut callers = vec![focus];
        while let Some(&last) = callers.last().filter(|&&last| last != 0) {
            callers.push(frames.frame(last).parent);
        }
        for &frame in callers.iter().rev() {
            let weight = frames.frame(frame).total;
            let bar = Bar { frame, n_merged: None, left: 0.0, right: width, weight, color: color(frame) };
            layout.rows.push(layout.bars.len()..layout.bars.len() + 1);
            layout.bars.push(bar);
        }
        let whole = frames.frame(focus).total.max(1) as f64;
        // Weight to the left of each bar of the row above.
        let mut starts = vec![0_i64];
        loop {
            let above = layout.rows.last().cloned().unwrap_or_default();
            let first = layout.bars.len();
            let mut next_starts = Vec::new();
            for (i, start) in above.zip(std::mem::take(&mut starts)) {
                if layout.bars[i].n_merged.is_some() {
                    continue;
                }
                let parent = frames.frame(layout.bars[i].frame);
                let end = start + parent.total - parent.own;
                let x = |weight: i64| (weight as f64 / whole * f64::from(width)) as f32;
                let mut from = start;
                for child in parent.children.clone() {
                    let weight = frames.frame(child).total;
                    let (left, right) = (x(from), x(from + weight));
                    next_starts.push(from);
                    // The siblings that follow are no wider.
                    if right - left < pixel {
                        let n_merged = Some(parent.children.end - child);
                        let weight = end - from;
                        layout.bars.push(Bar { frame: child, n_merged, left, right: x(end), weight, color: MERGED });
                        break;
                    }
                    let color = color(child);
                    layout.bars.push(Bar { frame: child, n_merged: None, left, right, weight, color });
                    from += weight;
                }
            }
            if layout.bars.len() == first {
                return layout;
            }
            layout.rows.push(first..layout.bars.len());
            starts = next_starts;
        }
    }

    /// The bar at `x` points from the left edge on a level.
    pub fn at(&self, row: usize, x: f32) -> Option<&Bar> {
        let bars = &self.bars[self.rows.get(row)?.clone()];
        let after = bars.partition_point(|bar| bar.left <= x);
        bars.get(after.checked_sub(1)?).filter(|bar| x < bar.right)
    }

    /// The bar of a frame, if it has one of its own.
    pub fn bar(&self, frame: u32, row: u32) -> Option<&Bar> {
        let bars = &self.bars[self.rows.get(row as usize)?.clone()];
        bars.iter().find(|bar| bar.frame == frame && bar.n_merged.is_none())
    }

    /// How many frames of the focus's subtree that have callers on show are too narrow for a bar.
    pub fn n_merged(&self) -> u64 {
        self.bars.iter().filter_map(|bar| bar.n_merged).map(u64::from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Frame;
    use super::*;

    /// (parent, total, own, children)
    type Node = (u32, i64, i64, Range<u32>);

    impl Frames for Vec<Node> {
        fn frame(&self, index: u32) -> Frame<'_> {
            let (parent, total, own, ref children) = self[index as usize];
            Frame { name: "f", parent, depth: 0, total, own, children: children.clone() }
        }
    }

    fn places(layout: &Layout) -> Vec<Vec<(u32, Option<u32>, i32, i32)>> {
        let place = |bar: &Bar| (bar.frame, bar.n_merged, bar.left.round() as i32, bar.right.round() as i32);
        layout.rows.iter().map(|row| layout.bars[row.clone()].iter().map(place).collect()).collect()
    }

    #[test]
    fn widths_are_weights_and_narrow_frames_are_one() {
        let frames: Vec<Node> = vec![
            (0, 100, 0, 1..3),
            (0, 60, 10, 3..7),
            (0, 40, 40, 0..0),
            (1, 47, 47, 0..0),
            (1, 1, 0, 7..8),
            (1, 1, 1, 0..0),
            (1, 1, 1, 0..0),
            (4, 1, 1, 0..0),
        ];
        let layout = Layout::new(&frames, 0, 100.0, 2.0, true);
        let expected = [
            vec![(0, None, 0, 100)],
            vec![(1, None, 0, 60), (2, None, 60, 100)],
            vec![(3, None, 0, 47), (4, Some(3), 47, 50)],
        ];
        assert_eq!(places(&layout), expected);
        assert_eq!(layout.n_merged(), 3);
        assert_eq!(layout.at(2, 48.0).map(|bar| (bar.frame, bar.weight)), Some((4, 3)));
        assert_eq!(layout.at(2, 55.0), None);
        assert_eq!(layout.at(9, 5.0), None);
        assert!(layout.bar(3, 2).is_some() && layout.bar(4, 2).is_none());

        let zoomed = Layout::new(&frames, 1, 600.0, 2.0, true);
        let expected = [
            vec![(0, None, 0, 600)],
            vec![(1, None, 0, 600)],
            vec![(3, None, 0, 470), (4, None, 470, 480), (5, None, 480, 490), (6, None, 490, 500)],
            vec![(7, None, 470, 480)],
        ];
        assert_eq!(places(&zoomed), expected);
    }

    #[test]
    fn work_is_bounded_by_pixels() {
        const N: u32 = 1_000_000;
        let mut frames: Vec<Node> = vec![(0, i64::from(N), 0, 1..N + 1)];
        frames.extend((0..N).map(|_| (0, 1, 1, 0..0)));
        let layout = Layout::new(&frames, 0, 1000.0, 1.0, true);
        assert_eq!(layout.bars.len(), 2);
        assert_eq!(layout.n_merged(), u64::from(N));
        assert_eq!(layout.bars[1].weight, i64::from(N));
        let empty: Vec<Node> = vec![(0, 0, 0, 0..0)];
        assert_eq!(Layout::new(&empty, 0, 1000.0, 1.0, true).bars.len(), 1);
    }
}
