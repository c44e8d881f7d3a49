//! Every live block in every pixel column, stacked by age.

use eframe::egui::Color32;
use rayon::prelude::*;

use super::axis::{Column, NO_STATE};
use super::colors::Paint;
use super::tree::{Rows, SumTree};
use crate::model::MemoryHistory;

/// No block.
pub const NO_BLOCK: u32 = u32::MAX;

/// Rows from which a block has a line at its upper edge.
const EDGED: u32 = 4;

/// The picture of a window: pixel columns one after another, each from the bottom up.
#[derive(Debug, Default)]
pub struct Raster {
    pub n_rows: usize,
    /// The allocation under each pixel.
    pub ids: Vec<u32>,
    pub pixels: Vec<Color32>,
    /// Blocks high enough for a label, by column.
    pub tall: Vec<Tall>,
}

/// A block in one column that is high enough for a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tall {
    pub column: u32,
    pub id: u32,
    /// The rows it covers, from the bottom up.
    pub rows: [u32; 2],
}

/// Ranges of columns painted at once.
const MAX_PARTS: usize = 8;

/// The inputs of a picture.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    pub history: &'a MemoryHistory,
    /// All allocations by the end of their lives.
    pub by_end: &'a [u32],
    pub columns: &'a [Column],
    pub rows: Rows,
    pub paint: &'a Paint,
    /// Rows from which a block may have a label.
    pub tall: u32,
}

/// All allocations by the end of their lives. Cost: O(n).
pub fn by_end(history: &MemoryHistory) -> Vec<u32> {
    let end = &history.allocations.end;
    let mut first = vec![0_u32; history.n_states() as usize + 2];
    end.iter().for_each(|&state| first[state as usize + 1] += 1);
    let mut sum = 0;
    for count in &mut first {
        sum += *count;
        *count = sum;
    }
    let mut order = vec![0; end.len()];
    for (id, &state) in end.iter().enumerate() {
        let place = &mut first[state as usize];
        order[*place as usize] = id as u32;
        *place += 1;
    }
    order
}

/// Paints all columns, on all cores. Stops early, with an unfinished picture, if cancelled.
///
/// Cost: O(allocations + changes in the window · log + pixels · log) for each core.
pub fn raster(scene: &Scene<'_>, is_cancelled: &(dyn Fn() -> bool + Sync)) -> Raster {
    let (n_rows, n) = (scene.rows.n as usize, scene.columns.len());
    let mut ids = vec![NO_BLOCK; n * n_rows];
    let mut pixels = vec![Color32::TRANSPARENT; n * n_rows];
    if n_rows == 0 || n == 0 {
        return Raster { n_rows, ..Raster::default() };
    }
    // Several parts per core, since some columns have many more events; not more, since each has its own tree.
    let n_parts = (rayon::current_num_threads() * 2).clamp(1, MAX_PARTS);
    let width = n.div_ceil(n_parts);
    let parts = ids.par_chunks_mut(width * n_rows).zip(pixels.par_chunks_mut(width * n_rows));
    let tall = parts.zip(scene.columns.par_chunks(width)).enumerate().map(|(part, ((ids, pixels), columns))| {
        let mut tall = Vec::new();
        let first = part * width;
        let Some(mut live) = Live::new(scene, columns) else { return tall };
        let (mut last, mut hatched): (_, Vec<Hatched>) = (None, Vec::new());
        for (i, column) in columns.iter().enumerate() {
            if is_cancelled() {
                break;
            }
            if column.state == NO_STATE {
                continue;
            }
            let place = i * n_rows..(i + 1) * n_rows;
            if last == Some(column.state) && i > 0 {
                // Far zoomed in, or before and after all events, nothing changes.
                ids.copy_within(place.start - n_rows..place.start, place.start);
                pixels.copy_within(place.start - n_rows..place.start, place.start);
                repeat_last(&mut tall, (first + i) as u32);
                hatched.iter().for_each(|block| block.paint(scene, (first + i) as u32, &mut pixels[place.clone()]));
                continue;
            }
            last = Some(column.state);
            live.go_to(column.state);
            hatched.clear();
            let (ids, pixels) = (&mut ids[place.clone()], &mut pixels[place]);
            let painted = Painted { ids, pixels, tall: &mut tall, hatched: &mut hatched };
            painted.column(scene, &live, (first + i) as u32);
        }
        tall
    });
    let tall: Vec<Vec<Tall>> = tall.collect();
    Raster { n_rows, ids, pixels, tall: tall.concat() }
}

/// The tall blocks of a column that is equal to the one before.
fn repeat_last(tall: &mut Vec<Tall>, column: u32) {
    let from = tall.iter().rposition(|tall| tall.column + 1 != column).map_or(0, |at| at + 1);
    let again: Vec<Tall> = tall[from..].iter().map(|tall| Tall { column, ..*tall }).collect();
    tall.extend(again);
}

/// One column to be painted.
struct Painted<'a> {
    ids: &'a mut [u32],
    pixels: &'a mut [Color32],
    tall: &'a mut Vec<Tall>,
    /// Blocks with a pattern that differs between columns.
    hatched: &'a mut Vec<Hatched>,
}

/// A block that the program freed, but that cannot be used again yet, in one column.
#[derive(Clone, Copy, Debug)]
struct Hatched {
    rows: [u32; 2],
    color: Color32,
}

impl Hatched {
    fn paint(&self, scene: &Scene<'_>, column: u32, pixels: &mut [Color32]) {
        for row in self.rows[0]..self.rows[1] {
            pixels[row as usize] = scene.paint.waiting(self.color, (column + row) % 8 < 4);
        }
    }
}

impl Painted<'_> {
    fn column(self, scene: &Scene<'_>, live: &Live<'_>, column: u32) {
        let freed = &scene.history.allocations.freed;
        live.tree.stack(&scene.rows, |id, from, to| {
            let id = id as u32;
            let place = from as usize..to as usize;
            self.ids[place.clone()].fill(id);
            let color = scene.paint.color(id);
            self.pixels[place].fill(color);
            let n = to - from;
            let is_edged = n >= EDGED && to < scene.rows.n;
            if freed[id as usize] <= live.state {
                let hatched = Hatched { rows: [from, to - u32::from(is_edged)], color };
                hatched.paint(scene, column, self.pixels);
                self.hatched.push(hatched);
            }
            if is_edged {
                self.pixels[to as usize - 1] = scene.paint.edge(color);
            }
            if n >= scene.tall {
                self.tall.push(Tall { column, id, rows: [from, to] });
            }
        });
    }
}

/// The live blocks of one state after another.
struct Live<'a> {
    history: &'a MemoryHistory,
    by_end: &'a [u32],
    state: u32,
    /// The first allocation born later.
    next_born: u32,
    /// Index into `by_end`.
    next_end: usize,
    /// By id, so that the same blocks share a node in every column of every picture.
    tree: SumTree,
}

impl<'a> Live<'a> {
    /// At the first state of these columns; `None` if they have none.
    fn new(scene: &Scene<'a>, columns: &[Column]) -> Option<Self> {
        let mut states = columns.iter().map(|column| column.state).filter(|&state| state != NO_STATE);
        let state = states.next()?;
        let last = states.next_back().unwrap_or(state);
        let all = &scene.history.allocations;
        let n_born = all.start.partition_point(|&start| start <= state);
        let mut tree = SumTree::new(all.start.partition_point(|&start| start <= last));
        let lives = all.end[..n_born].iter().zip(&all.bytes);
        tree.fill(lives.map(|(&end, &bytes)| if end > state { bytes } else { 0 }));
        Some(Self {
            history: scene.history,
            by_end: scene.by_end,
            state,
            next_born: n_born as u32,
            next_end: scene.by_end.partition_point(|&id| all.end[id as usize] <= state),
            tree,
        })
    }

    /// Moves on to a later state.
    fn go_to(&mut self, state: u32) {
        let all = &self.history.allocations;
        while all.start.get(self.next_born as usize).is_some_and(|&start| start <= state) {
            let id = self.next_born as usize;
            // Blocks that are freed before this state are never visible.
            if all.end[id] > state {
                self.tree.set(id, all.bytes[id]);
            }
            self.next_born += 1;
        }
        while let Some(&id) = self.by_end.get(self.next_end).filter(|&&id| all.end[id as usize] <= state) {
            let id = id as usize;
            // The tree may have no place for blocks that are allocated later.
            if (id as u32) < self.next_born && self.tree.get(id) > 0 {
                self.tree.set(id, 0);
            }
            self.next_end += 1;
        }
        self.state = state;
    }
}
