//! The layout of an icicle graph: a bar for each frame, and merged bars for those narrower than a pixel.

use std::ops::Range;

use eframe::egui::Color32;

use super::Frames;
use crate::widget::slice_color::frame_color;

/// The bar of a frame, or of the narrow frames at the end of its siblings.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The frame, or the first of those merged.
    pub frame: u32,
    /// The number of frames of a merged bar.
    pub n_merged: Option<u32>,
    /// Points from the left edge of the graph.
    pub left: f32,
    pub right: f32,
    /// The weight that the width shows.
    pub weight: i64,
    pub color: Color32,
}

/// The frame that is as wide as the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Focus {
    pub frame: u32,
    /// Limits its children to this one and its lighter siblings, with their total weight: those of a merged bar.
    pub rest: Option<(u32, i64)>,
}

impl Focus {
    /// All of a frame.
    pub fn of(frame: u32) -> Self {
        Self { frame, rest: None }
    }
}

/// All bars of a graph of a given width: the callers of the focus, the focus, and the frames below it.
#[derive(Debug, Default)]
pub struct Layout {
    pub bars: Vec<Bar>,
    /// The bars of each level, from left to right; the root is level 0.
    pub rows: Vec<Range<usize>>,
}

/// The color of merged bars, distinct from those of names.
fn merged_color(is_dark: bool) -> Color32 {
    Color32::from_gray(if is_dark { 88 } else { 184 })
}

impl Layout {
    /// * `width`, `pixel`: widths of the graph and of one pixel, in points.
    ///
    /// Cost: O(levels · width / pixel), independent of the number of frames: a row has at most one bar per
    /// pixel, and at most one merged bar per bar of the row above.
    pub fn new(frames: &dyn Frames, focus: Focus, width: f32, pixel: f32, is_dark: bool) -> Self {
        let color = |frame: u32| frame_color(frames.frame(frame).name, is_dark);
        let mut layout = Self::default();
        let mut callers = vec![focus.frame];
        while let Some(&last) = callers.last().filter(|&&last| last != 0) {
            callers.push(frames.frame(last).parent);
        }
        for &frame in callers.iter().rev() {
            let weight = frames.frame(frame).total;
            let bar = Bar { frame, n_merged: None, left: 0.0, right: width, weight, color: color(frame) };
            layout.rows.push(layout.bars.len()..layout.bars.len() + 1);
            layout.bars.push(bar);
        }
        let mut rest = focus.rest;
        let whole = rest.map_or_else(|| frames.frame(focus.frame).total, |rest| rest.1).max(1) as f64;
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
                let (children, weight) = match rest.take() {
                    Some((first, weight)) => (first..parent.children.end, weight),
                    None => (parent.children.clone(), parent.total - parent.own),
                };
                let end = start + weight;
                let x = |weight: i64| (weight as f64 / whole * f64::from(width)) as f32;
                let mut from = start;
                for child in children {
                    let weight = frames.frame(child).total;
                    let (left, right) = (x(from), x(from + weight));
                    next_starts.push(from);
                    // The siblings that follow are not wider.
                    if right - left < pixel {
                        let (n_merged, color) = (Some(parent.children.end - child), merged_color(is_dark));
                        let weight = end - from;
                        layout.bars.push(Bar { frame: child, n_merged, left, right: x(end), weight, color });
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

    /// The number of frames in merged bars.
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
            Frame { name: "f", parent, depth: 0, total, own, full: None, calls: None, children: children.clone() }
        }
    }

    /// (frame, merged, left, right)
    type BarTuple = (u32, Option<u32>, i32, i32);

    fn places(layout: &Layout) -> Vec<Vec<BarTuple>> {
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
        let layout = Layout::new(&frames, Focus::of(0), 100.0, 2.0, true);
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

        let zoomed = Layout::new(&frames, Focus::of(1), 600.0, 2.0, true);
        let expected = [
            vec![(0, None, 0, 600)],
            vec![(1, None, 0, 600)],
            vec![(3, None, 0, 470), (4, None, 470, 480), (5, None, 480, 490), (6, None, 490, 500)],
            vec![(7, None, 470, 480)],
        ];
        assert_eq!(places(&zoomed), expected);

        // Those that were too narrow share the width.
        let rest = Layout::new(&frames, Focus { frame: 1, rest: Some((4, 3)) }, 300.0, 2.0, true);
        let expected = [
            vec![(0, None, 0, 300)],
            vec![(1, None, 0, 300)],
            vec![(4, None, 0, 100), (5, None, 100, 200), (6, None, 200, 300)],
            vec![(7, None, 0, 100)],
        ];
        assert_eq!(places(&rest), expected);
    }

    #[test]
    fn work_is_bounded_by_pixels() {
        const N: u32 = 1_000_000;
        let mut frames: Vec<Node> = vec![(0, i64::from(N), 0, 1..N + 1)];
        frames.extend((0..N).map(|_| (0, 1, 1, 0..0)));
        let layout = Layout::new(&frames, Focus::of(0), 1000.0, 1.0, true);
        assert_eq!(layout.bars.len(), 2);
        assert_eq!(layout.n_merged(), u64::from(N));
        assert_eq!(layout.bars[1].weight, i64::from(N));
        let empty: Vec<Node> = vec![(0, 0, 0, 0..0)];
        assert_eq!(Layout::new(&empty, Focus::of(0), 1000.0, 1.0, true).bars.len(), 1);
    }
}
