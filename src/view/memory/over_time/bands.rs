//! Named ranges of time, such as annotations and steps, in lanes over the picture.

use super::axis::Axis;
use crate::model::memory::MemorySource;
use crate::model::{MemoryHistory, SliceKind, StringId, TimeRange, Trace};

/// The most lanes; bands that find none are counted.
pub const MAX_LANES: usize = 3;

/// A named range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    pub name: StringId,
    /// In the time of the trace.
    pub range: TimeRange,
}

/// A band, or several that share a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The first one's name.
    pub name: StringId,
    /// In positions on the axis.
    pub range: TimeRange,
    pub lane: usize,
    /// How many bands it represents.
    pub count: u32,
}

/// The bands of a history, by start: its own annotations, else the profiler's steps.
pub fn bands(trace: &Trace, history: &MemoryHistory) -> Vec<Band> {
    let own = history.annotations.iter();
    let own = own.map(|note| Band { name: note.name, range: TimeRange { start: note.start, end: note.end } });
    let mut all: Vec<Band> = own.collect();
    if all.is_empty() && history.source != MemorySource::Snapshot {
        let slices = &trace.slices;
        let is_step = |&i: &usize| {
            slices.kind[i] == SliceKind::Annotation && trace.strings.get(slices.name[i]).starts_with("ProfilerStep#")
        };
        let band =
            |i: usize| Band { name: slices.name[i], range: TimeRange { start: slices.ts[i], end: slices.end[i] } };
        all = (0..slices.len()).filter(is_step).map(band).collect();
        all.sort_by_key(|band| (band.range.start, std::cmp::Reverse(band.range.end)));
    }
    all
}

/// Puts the bands in view into lanes, and counts those that find none.
///
/// Bands that are narrower than a pixel and share it become one. Cost: O(bands).
pub fn lay_out(axis: &Axis<'_>, bands: &[Band], view: TimeRange, n_pixels: usize) -> (Vec<Bar>, u32) {
    let mut bars: Vec<Bar> = Vec::new();
    let mut last: [Option<usize>; MAX_LANES] = [None; MAX_LANES];
    let pixel = (view.dur() / n_pixels.max(1) as i64).max(1);
    let mut n_hidden = 0;
    for band in bands {
        let range = axis.at_times(band.range.shifted(axis.offset));
        if range.end < view.start || range.start >= view.end {
            continue;
        }
        let free = |at: &Option<usize>| at.is_none_or(|at| bars[at].range.end <= range.start);
        if let Some(lane) = last.iter().position(free) {
            let before = last[lane].filter(|&at| {
                bars[at].range.dur() < pixel && range.dur() < pixel && range.start - bars[at].range.start < pixel
            });
            match before {
                Some(at) => {
                    bars[at].count += 1;
                    bars[at].range.end = bars[at].range.end.max(range.end);
                }
                None => {
                    last[lane] = Some(bars.len());
                    bars.push(Bar { name: band.name, range, lane, count: 1 });
                }
            }
        } else if let Some(at) = last[MAX_LANES - 1].filter(|_| range.dur() < pixel) {
            bars[at].count += 1;
        } else {
            n_hidden += 1;
        }
    }
    (bars, n_hidden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::memory::over_time::axis::AxisKind;

    #[test]
    fn every_band_in_view_is_shown_merged_or_counted() {
        let history =
            MemoryHistory { span: TimeRange { start: 0, end: 1_000 }, has_time: true, ..MemoryHistory::default() };
        let axis = Axis { kind: AxisKind::Time, history: &history, offset: 0, is_alone: false };
        let band = |start, end| Band { name: StringId(1), range: TimeRange { start, end } };
        let nested = [band(0, 900), band(10, 800), band(20, 700), band(30, 600), band(950, 960)];
        let (bars, n_hidden) = lay_out(&axis, &nested, TimeRange { start: 0, end: 1_000 }, 1_000);
        assert_eq!((bars.len(), n_hidden), (4, 1));
        assert_eq!(bars.iter().map(|bar| bar.lane).collect::<Vec<_>>(), [0, 1, 2, 0]);
        let tiny: Vec<Band> = (0..500).map(|i| band(2 * i, 2 * i + 1)).collect();
        let (bars, n_hidden) = lay_out(&axis, &tiny, TimeRange { start: 0, end: 1_000 }, 10);
        assert!(bars.len() <= 10 && n_hidden == 0);
        assert_eq!(bars.iter().map(|bar| bar.count).sum::<u32>(), 500);
        let (bars, _) = lay_out(&axis, &tiny, TimeRange { start: 100, end: 110 }, 10);
        assert_eq!(bars.len(), 5);
    }
}
