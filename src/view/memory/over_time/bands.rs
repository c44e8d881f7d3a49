//! Named ranges of time, such as annotations and steps, in lanes over the picture.

use super::axis::Axis;
use crate::analysis::phases::{Phase, Tile, phase_of_range};
use crate::model::memory::MemorySource;
use crate::model::{MemoryHistory, SliceKind, StringId, TimeNs, TimeRange, Trace};

/// The most lanes; bands that find none are counted.
pub const MAX_LANES: usize = 3;

/// What a band is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Recorded(StringId),
    /// A pass of training, which no name but what runs in it tells.
    Pass(Phase),
}

impl Name {
    pub fn text(self, trace: &Trace) -> &str {
        match self {
            Self::Recorded(name) => trace.strings.get(name),
            Self::Pass(phase) => phase.key(),
        }
    }

    /// Different for different names.
    pub fn key(self) -> u64 {
        match self {
            Self::Recorded(name) => name.0.into(),
            Self::Pass(phase) => 1 << 32 | phase as u64,
        }
    }
}

/// A named range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    pub name: Name,
    /// In the time of the trace.
    pub range: TimeRange,
}

/// A band, or several that share a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The first one's name.
    pub name: Name,
    /// In positions on the axis.
    pub range: TimeRange,
    pub lane: usize,
    /// How many bands it represents.
    pub count: u32,
}

/// The bands of a history, by start: its own annotations, else the profiler's steps; with them forward and backward
/// passes and optimizer, unless annotations name them.
///
/// * `passes`: disjoint and ascending; other phases are left out.
pub fn bands(trace: &Trace, history: &MemoryHistory, passes: &[Tile]) -> Vec<Band> {
    let own = history.annotations.iter();
    let recorded = |name, range| Band { name: Name::Recorded(name), range };
    let own = own.map(|note| recorded(note.name, TimeRange { start: note.start, end: note.end }));
    let mut all: Vec<Band> = own.collect();
    if all.is_empty() && history.source != MemorySource::Snapshot {
        let slices = &trace.slices;
        let is_step = |&i: &usize| {
            slices.kind[i] == SliceKind::Annotation && trace.strings.get(slices.name[i]).starts_with("ProfilerStep#")
        };
        let band = |i: usize| recorded(slices.name[i], TimeRange { start: slices.ts[i], end: slices.end[i] });
        all = (0..slices.len()).filter(is_step).map(band).collect();
    }
    let named: Vec<Phase> = all.iter().filter_map(|band| phase_of_range(band.name.text(trace))).collect();
    all.extend(
        joined(passes)
            .filter(|pass| !named.contains(&pass.phase))
            .map(|pass| Band { name: Name::Pass(pass.phase), range: pass.time }),
    );
    all.sort_by_key(|band| (band.range.start, std::cmp::Reverse(band.range.end)));
    all
}

/// Passes without the copies, collectives and waits inside them.
fn joined(tiles: &[Tile]) -> impl Iterator<Item = Tile> {
    let mut passes: Vec<Tile> = Vec::new();
    // The last pass, and until when nothing but what runs in passes came after it.
    let mut reach = TimeNs::MIN;
    for &tile in tiles {
        match tile.phase {
            Phase::Forward | Phase::Backward | Phase::Optimizer => {
                match passes.last_mut().filter(|last| last.phase == tile.phase && tile.time.start == reach) {
                    Some(last) => last.time.end = tile.time.end,
                    None => passes.push(tile),
                }
                reach = tile.time.end;
            }
            Phase::Copies | Phase::Communication | Phase::Waiting if tile.time.start == reach => reach = tile.time.end,
            _ => {}
        }
    }
    passes.into_iter()
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
        let band = |start, end| Band { name: Name::Recorded(StringId(1)), range: TimeRange { start, end } };
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

    #[test]
    fn passes_are_bands_without_the_waits_in_them() {
        let tile = |phase, start, end| Tile { time: TimeRange { start, end }, phase };
        let tiles = [
            tile(Phase::Forward, 0, 10),
            tile(Phase::Copies, 10, 12),
            tile(Phase::Forward, 12, 20),
            tile(Phase::Backward, 20, 30),
            tile(Phase::Optimizer, 40, 50),
            tile(Phase::DataLoading, 50, 60),
            tile(Phase::Forward, 60, 70),
            tile(Phase::Forward, 80, 90),
        ];
        let joined: Vec<(Phase, i64, i64)> =
            joined(&tiles).map(|tile| (tile.phase, tile.time.start, tile.time.end)).collect();
        let wanted = [
            (Phase::Forward, 0, 20),
            (Phase::Backward, 20, 30),
            (Phase::Optimizer, 40, 50),
            (Phase::Forward, 60, 70),
            (Phase::Forward, 80, 90),
        ];
        assert_eq!(joined, wanted);
    }

    #[test]
    fn passes_that_annotations_name_are_shown_once() {
        let mut builder = crate::model::TraceBuilder::default();
        let name = builder.strings.intern("Optimizer.step#AdamW.step");
        let note = crate::model::memory::MemoryAnnotation { name, start: 40, end: 50, has_end: true };
        let history = MemoryHistory { annotations: vec![note], ..MemoryHistory::default() };
        let tile = |phase, start, end| Tile { time: TimeRange { start, end }, phase };
        let passes = [tile(Phase::Backward, 20, 30), tile(Phase::Optimizer, 41, 49)];
        let trace = builder.finish();
        let names: Vec<&str> = bands(&trace, &history, &passes).iter().map(|band| band.name.text(&trace)).collect();
        assert_eq!(names, ["backward", "Optimizer.step#AdamW.step"]);
    }
}
