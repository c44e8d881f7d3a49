//! Every live block in every pixel column, stacked by age.

use eframe::egui::Color32;
use rayon::prelude::*;

use super::axis::{Column, NO_STATE};
use super::colors::Paint;
use super::tree::{Rows, SumTree};
use crate::job::Progress;
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

/// What a picture is made of.
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

/// Paints all columns, on all cores. Stops early, with an unfinished picture, if nobody wants it.
///
/// Cost: O(allocations / 16 + changes in the window · log + pixels) for each core.
pub fn raster(scene: &Scene<'_>, progress: &Progress) -> Raster {
    let (n_rows, n) = (scene.rows.n as usize, scene.columns.len());
    let mut ids = vec![NO_BLOCK; n * n_rows];
    let mut pixels = vec![Color32::TRANSPARENT; n * n_rows];
    if n_rows == 0 || n == 0 {
        return Raster { n_rows, ..Raster::default() };
    }
    // Some columns have many more events than others.
    let n_parts = (rayon::current_num_threads() * 3).min(n);
    let width = n.div_ceil(n_parts);
    let parts = ids.par_chunks_mut(width * n_rows).zip(pixels.par_chunks_mut(width * n_rows));
    let tall = parts.zip(scene.columns.par_chunks(width)).enumerate().map(|(part, ((ids, pixels), columns))| {
        let mut tall = Vec::new();
        let first = part * width;
        let Some(mut live) = Live::new(scene, columns) else { return tall };
        let mut last = None;
        for (i, column) in columns.iter().enumerate() {
            if progress.is_cancelled() {
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
                continue;
            }
            last = Some(column.state);
            live.go_to(column.state);
            let painted = Painted { ids: &mut ids[place.clone()], pixels: &mut pixels[place], tall: &mut tall };
            painted.column(scene, &live, (first + i) as u32);
        }
        tall
    });
    let tall: Vec<Vec<Tall>> = tall.collect();
    Raster { n_rows, ids, pixels, tall: tall.concat() }
}

/// The tall blocks of a column that looks like the one before.
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
}

impl Painted<'_> {
    fn column(self, scene: &Scene<'_>, live: &Live<'_>, column: u32) {
        let freed = &scene.history.allocations.freed;
        live.tree.stack(&scene.rows, |leaf, from, to| {
            let id = live.id(leaf);
            let place = from as usize..to as usize;
            self.ids[place.clone()].fill(id);
            let color = scene.paint.color(id);
            let pixels = &mut self.pixels[place];
            pixels.fill(color);
            if freed[id as usize] <= live.state {
                // Freed by the program, but not yet to be used again: hatched.
                for (row, pixel) in (from..).zip(pixels.iter_mut()) {
                    *pixel = scene.paint.waiting(color, (column + row) % 8 < 4);
                }
            }
            let n = to - from;
            if n >= EDGED && to < scene.rows.n {
                pixels[n as usize - 1] = scene.paint.edge(color);
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
    /// The live blocks of the first state, in order; those born later follow in the tree.
    before: Vec<u32>,
    /// The first block born later.
    first_born: u32,
    next_born: u32,
    /// Index into `by_end`.
    next_end: usize,
    tree: SumTree,
}

impl<'a> Live<'a> {
    /// At the first state of these columns; `None` if they have none.
    fn new(scene: &Scene<'a>, columns: &[Column]) -> Option<Self> {
        let mut states = columns.iter().map(|column| column.state).filter(|&state| state != NO_STATE);
        let state = states.next()?;
        let last = states.next_back().unwrap_or(state);
        let all = &scene.history.allocations;
        let first_born = all.start.partition_point(|&start| start <= state);
        let n_born = all.start.partition_point(|&start| start <= last) - first_born;
        let before: Vec<u32> = (0..first_born as u32).filter(|&id| all.end[id as usize] > state).collect();
        let mut tree = SumTree::new(before.len() + n_born);
        tree.fill(before.iter().map(|&id| all.bytes[id as usize]));
        Some(Self {
            history: scene.history,
            by_end: scene.by_end,
            state,
            before,
            first_born: first_born as u32,
            next_born: first_born as u32,
            next_end: scene.by_end.partition_point(|&id| all.end[id as usize] <= state),
            tree,
        })
    }

    fn id(&self, leaf: usize) -> u32 {
        self.before.get(leaf).copied().unwrap_or_else(|| (leaf - self.before.len()) as u32 + self.first_born)
    }

    fn leaf(&self, id: u32) -> Option<usize> {
        match id.checked_sub(self.first_born) {
            Some(born) => Some(self.before.len() + born as usize),
            None => self.before.binary_search(&id).ok(),
        }
    }

    /// Moves on to a later state.
    fn go_to(&mut self, state: u32) {
        let all = &self.history.allocations;
        while let Some(&start) = all.start.get(self.next_born as usize).filter(|&&start| start <= state) {
            let id = self.next_born as usize;
            // What is gone again by then is never seen.
            if start <= state && all.end[id] > state {
                self.tree.set(self.before.len() + id - self.first_born as usize, all.bytes[id]);
            }
            self.next_born += 1;
        }
        while let Some(&id) = self.by_end.get(self.next_end).filter(|&&id| all.end[id as usize] <= state) {
            if let Some(leaf) = self.leaf(id).filter(|&leaf| self.tree.get(leaf) > 0) {
                self.tree.set(leaf, 0);
            }
            self.next_end += 1;
        }
        self.state = state;
    }
}
