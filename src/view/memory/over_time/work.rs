//! The analyses of this view: the index of a history, and pictures of a part of it.

use std::sync::Arc;

use eframe::egui::ColorImage;
use egui_plot::PlotPoint;

use super::axis::{Axis, AxisKind, Column, NO_STATE};
use super::bands::{self, Band, Bar};
use super::colors::{ColorBlocks, Paint};
use super::curves::{self, Curve};
use super::labels::{LabelRect, label_rects};
use super::raster::{self, NO_BLOCK, Raster, Scene};
use super::tree::Rows;
use crate::analysis::memory::by_place::{Place, Places};
use crate::analysis::memory::categories::passes;
use crate::analysis::memory::steps::Steps;
use crate::answers::findings::TracePhases;
use crate::answers::memory::{MemorySteps, RolesOfStacks, StackPlaces};
use crate::answers::{Analysis, Work};
use crate::figures::format;
use crate::figures::text::{display_name, short_frame};
use crate::model::memory::{AllocationId, MemoryAction, MemorySource, highest};
use crate::model::{StackId, TimeRange};
use crate::session::OpenMemory;

/// Least width and height of a label, in points.
const LABEL_ROOM: [f32; 2] = [44.0, 13.0];

/// Computes the [`Index`] of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MakeIndex;

/// What is computed once for a history.
#[derive(Debug)]
pub struct Index {
    pub by_end: Vec<u32>,
    /// The place of each stack.
    pub places: Arc<Vec<Place>>,
    /// Whether any allocation has a call stack.
    pub has_stacks: bool,
    pub bands: Vec<Band>,
    /// Lanes that the bands need.
    pub n_lanes: usize,
    pub steps: Arc<Option<Steps>>,
    /// Events at which the program took a snapshot.
    pub snapshots: Vec<u32>,
    /// In the order of [`Curve::ALL`].
    peaks: [(u32, u64); 4],
}

impl Index {
    /// State and bytes of the highest point of a curve.
    pub fn peak(&self, curve: Curve) -> (u32, u64) {
        self.peaks[curve as usize]
    }
}

impl Analysis for MakeIndex {
    type Of = OpenMemory;
    type Output = Index;
    const NAME: &'static str = "Reading the history of memory";

    /// Cost: that of [`MemorySteps`] and [`TracePhases`], and O(events + allocations + slices).
    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Index> {
        let (trace, history) = (of.trace(), of.history());
        let bands = match history.source {
            MemorySource::Snapshot => {
                let roles = work.get(&of.open.trace, &RolesOfStacks)?;
                bands::bands(trace, history, &passes(history, &roles))
            }
            _ => bands::bands(trace, history, work.get(&of.open.trace, &TracePhases)?.tiles(TimeRange::ALL)),
        };
        let actions = history.events.action.iter().enumerate();
        let snapshots = actions.filter(|entry| *entry.1 == MemoryAction::Snapshot).map(|entry| entry.0 as u32);
        let time = Axis { kind: AxisKind::Time, history, offset: 0, is_alone: false };
        let (bars, _) = bands::lay_out(&time, &bands, TimeRange { start: i64::MIN / 4, end: i64::MAX / 4 }, usize::MAX);
        Some(Index {
            n_lanes: bars.iter().map(|bar| bar.lane + 1).max().unwrap_or(0),
            by_end: raster::by_end(history),
            places: work.get(&of.open.trace, &StackPlaces { has_all_frames: false })?,
            has_stacks: history.allocations.stack.iter().any(|&stack| stack != StackId(0)),
            steps: Arc::clone(&work.get(of, &MemorySteps)?.steps),
            bands,
            snapshots: snapshots.collect(),
            peaks: Curve::ALL.map(|curve| highest(curve.values(history))),
        })
    }
}

/// Allocations to highlight; compared by address, so that comparing costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Marked(pub Arc<Vec<AllocationId>>);

impl PartialEq for Marked {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.is_empty() && other.0.is_empty()
    }
}

/// Computes a [`Picture`] of a part of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct PictureKey {
    pub axis: AxisKind,
    /// In positions on the axis.
    pub view: TimeRange,
    /// The bytes from bottom to top.
    pub bytes: TimeRange,
    /// Columns and rows of pixels.
    pub size: [usize; 2],
    /// Points in a pixel.
    pub pixel: f32,
    pub colors: ColorBlocks,
    pub marked: Marked,
}

impl PictureKey {
    /// Whether the picture of `other` can be shown, stretched, until this one is ready.
    pub fn is_near(&self, other: &Self) -> bool {
        self.axis == other.axis
            && self.view.intersect(other.view).is_some()
            && self.bytes.intersect(other.bytes).is_some()
    }
}

/// The label of a block.
#[derive(Clone, Debug)]
pub struct Label {
    pub rect: LabelRect,
    pub text: String,
}

/// A picture with the labels, curves and bands of its window.
#[derive(Debug)]
pub struct Picture {
    pub columns: Vec<Column>,
    pub n_rows: usize,
    /// The bytes below the lowest row.
    bottom: i64,
    /// The allocation under each pixel: columns one after another, each from the bottom up.
    pub ids: Vec<u32>,
    /// Transposed: a line of the image is a column of the picture.
    pub image: Arc<ColorImage>,
    pub labels: Vec<Label>,
    /// In the order of [`Curve::ALL`], with x relative to the start of the view.
    pub curves: [Vec<PlotPoint>; 4],
    pub bars: Vec<Bar>,
    /// Bands that found no lane.
    pub n_hidden: u32,
}

impl Picture {
    /// The allocation at a column and a row from the bottom up.
    pub fn at(&self, column: usize, row: usize) -> Option<AllocationId> {
        let id = *self.ids.get(column * self.n_rows + row).filter(|_| row < self.n_rows)?;
        (id != NO_BLOCK).then_some(AllocationId(id))
    }

    /// The rows of an allocation in each column, from the bottom up; `None` where it is not live or not in the picture.
    /// One too small for a row of its own has the one above the older blocks.
    ///
    /// * `life`: the states in which it is live.
    pub fn rows_of(&self, id: AllocationId, life: [u32; 2]) -> Vec<Option<[u32; 2]>> {
        let rows = |(column, ids): (&Column, &[u32])| {
            // In each column the younger blocks are above the older ones, and above all is `NO_BLOCK`.
            let from = ids.partition_point(|&other| other < id.0);
            let n = ids[from..].iter().take_while(|&&other| other == id.0).count();
            let is_live = column.state != NO_STATE && (life[0]..life[1]).contains(&column.state);
            let is_inside = from < ids.len() && (from > 0 || self.bottom <= 0);
            (n > 0 || is_live && is_inside).then_some([from as u32, (from + n.max(1)) as u32])
        };
        self.columns.iter().zip(self.ids.chunks(self.n_rows.max(1))).map(rows).collect()
    }
}

impl Analysis for PictureKey {
    type Of = OpenMemory;
    type Output = Picture;
    const NAME: &'static str = "The picture of memory";
    const KEPT: usize = 1;

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Picture> {
        let index = work.get(of, &MakeIndex)?;
        let colors = work.get(of, &self.colors)?;
        let history = of.history();
        let axis = Axis { kind: self.axis, history, offset: of.open.offset, is_alone: false };
        let [n_columns, n] = self.size;
        let columns = axis.columns(self.view, n_columns);
        let paint = Paint::new(colors, &self.marked.0);
        let per_byte = n as f64 / self.bytes.dur().max(1) as f64;
        let rows = Rows { bottom: self.bytes.start, per_byte, n: n as u32 };
        let room = LABEL_ROOM.map(|points| (points / self.pixel).ceil() as u32);
        let scene = Scene { history, by_end: &index.by_end, columns: &columns, rows, paint: &paint, tall: room[1] };
        let mut raster = raster::raster(&scene, &|| work.is_cancelled());
        let places = Places { trace: of.trace(), of_stack: &index.places };
        let label = |rect: LabelRect| {
            let size = format::bytes(history.allocations.bytes[rect.id as usize] as f64);
            let stack = history.allocations.stack[rect.id as usize];
            let text = match index.places.get(stack.0 as usize) {
                None | Some(Place::NoStack) => size,
                Some(&place) => format!("{size}  {}", display_name(&short_frame(places.short_name(place)))),
            };
            Label { rect, text }
        };
        let labels = label_rects(&raster.tall, room).into_iter().map(label).collect();
        let curves = Curve::ALL.map(|curve| curves::points(&axis, curve.values(history), &columns, self.view));
        let (bars, n_hidden) = bands::lay_out(&axis, &index.bands, self.view, n_columns);
        let image = Arc::new(ColorImage::new([raster.n_rows, n_columns], std::mem::take(&mut raster.pixels)));
        let Raster { n_rows, ids, .. } = raster;
        Some(Picture { columns, n_rows, bottom: self.bytes.start, ids, image, labels, curves, bars, n_hidden })
    }
}
