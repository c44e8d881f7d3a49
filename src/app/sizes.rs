//! Sizes of the groups of views when the window is resized: what is beside and below the middle keeps its points.

use eframe::egui::{Vec2, vec2};
use egui_tiles::{Container, Linear, LinearDir, Tile, TileId, Tiles};

use super::layout::{Layout, Pane};
use super::panels::{GAP, MIN_SIZE, TAB_BAR_HEIGHT};

/// What the middle gets of the width and of the height at least.
const MIN_CENTER: f32 = 0.3;
/// Points that the middle gets at least, as long as that is no more than [`MOST_LEAST`] of the width or the height:
/// with large text there are few.
const LEAST_CENTER: Vec2 = vec2(600.0, 200.0);
const MOST_LEAST: Vec2 = vec2(0.65, 0.55);
/// A smaller share is not in points: `egui_tiles` gives 1 to what was dropped into a split.
const MIN_POINTS: f32 = 20.0;

impl Layout {
    /// Makes the shares of every split points that fill `size`, the points of the whole tree.
    ///
    /// Where a split has no room for its groups, its shares stay as they were.
    pub fn fit(&mut self, size: Vec2) {
        let center = (MIN_CENTER * size).max(LEAST_CENTER.min(MOST_LEAST * size));
        let mut waiting: Vec<(TileId, Vec2)> = self.tree.root.map(|root| (root, size)).into_iter().collect();
        while let Some((tile, size)) = waiting.pop() {
            let Some(container) = self.tree.tiles.get_container(tile) else { continue };
            let Container::Linear(linear) = container else {
                let inner = size - vec2(0.0, TAB_BAR_HEIGHT);
                waiting.extend(container.children().map(|&child| (child, inner)));
                continue;
            };
            let axis = usize::from(linear.dir == LinearDir::Vertical);
            let children = self.shown(linear);
            let room = size[axis] - GAP * children.len().saturating_sub(1) as f32;
            if room < MIN_SIZE * children.len() as f32 {
                continue;
            }
            let part = |&child: &TileId| match self.has_center(child) {
                true => (linear.shares[child], true),
                false => (self.wanted_points(linear, child), false),
            };
            let parts: Vec<_> = children.iter().map(part).collect();
            let within = children.iter().map(|&child| self.fixed(child, axis)).sum();
            let sizes = fitted(&parts, room, center[axis], within);
            if let Some(Tile::Container(Container::Linear(linear))) = self.tree.tiles.get_mut(tile) {
                for ((&child, points), (wanted, is_center)) in children.iter().zip(sizes).zip(parts) {
                    linear.shares.set_share(child, points);
                    if !is_center {
                        let wanted = if wanted < MIN_POINTS { points } else { wanted };
                        self.wanted.insert(child, [points, wanted]);
                    }
                    let mut inner = size;
                    inner[axis] = points;
                    waiting.push((child, inner));
                }
            }
        }
    }

    /// The points along an axis that the groups beside the middle have in a tile; 0 where it has none of the middle.
    fn fixed(&self, tile: TileId, axis: usize) -> f32 {
        let Some(Container::Linear(linear)) = self.tree.tiles.get_container(tile) else { return 0.0 };
        if !self.has_center(tile) {
            return 0.0;
        }
        let is_along = axis == usize::from(linear.dir == LinearDir::Vertical);
        let parts = self.shown(linear).into_iter().map(|child| match self.has_center(child) {
            true => self.fixed(child, axis),
            false => f32::from(is_along) * self.wanted_points(linear, child),
        });
        if is_along { parts.sum() } else { parts.fold(0.0, f32::max) }
    }

    /// The points of a group beside the middle where there is room: what it had before the window became small, unless
    /// it was resized since.
    fn wanted_points(&self, linear: &Linear, child: TileId) -> f32 {
        let share = linear.shares[child];
        let known = self.wanted.get(&child).filter(|[points, _]| (points - share).abs() < 0.5);
        known.map_or(share, |&[_, wanted]| wanted)
    }

    /// The tiles with the points that groups have where there is room, for the next window: this one may be small, or
    /// its text large.
    pub(super) fn wanted_tiles(&self) -> Tiles<Pane> {
        let mut tiles = self.tree.tiles.clone();
        for tile in tiles.tiles_mut() {
            let Tile::Container(Container::Linear(linear)) = tile else { continue };
            for child in linear.children.clone() {
                linear.shares.set_share(child, self.wanted_points(linear, child));
            }
        }
        tiles
    }

    fn shown(&self, linear: &Linear) -> Vec<TileId> {
        linear.children.iter().copied().filter(|&child| self.tree.is_visible_in_layout(child)).collect()
    }
}

/// The points of the parts of a split, which sum to `room`.
///
/// * `parts`: the share of each until now, and whether it is of the middle, which takes what the others leave.
/// * `center`: points that the others leave at least.
/// * `within`: points of the groups beside the middle that are in its part, and are made smaller alike.
fn fitted(parts: &[(f32, bool)], room: f32, center: f32, within: f32) -> Vec<f32> {
    let wanted = |&(share, _): &(f32, bool)| if share < MIN_POINTS { room / parts.len() as f32 } else { share };
    let sum_of = |kind: bool| parts.iter().filter(|part| part.1 == kind).map(wanted).sum::<f32>();
    let (fixed, flexible) = (sum_of(false), sum_of(true));
    let factors = if fixed == 0.0 || flexible == 0.0 {
        [room / (fixed + flexible); 2]
    } else {
        let n_fixed = parts.iter().filter(|part| !part.1).count();
        let kept = fixed.min((room - center).max(MIN_SIZE * n_fixed as f32) * fixed / (fixed + within));
        [kept / fixed, (room - kept) / flexible]
    };
    parts.iter().map(|part| wanted(part) * factors[usize::from(part.1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_small_window_is_what_there_was_room_for_before() {
        let large = vec2(1280.0, 680.0);
        let mut layout = Layout::default();
        layout.fit(large);
        let known = layout.save();
        layout.fit(large / 2.0);
        let mut next = Layout::restore(&layout.save()).unwrap();
        next.fit(large);
        assert_eq!(next.save(), known);
    }

    #[test]
    fn the_middle_takes_what_the_others_leave() {
        let fitted = |parts: &[(f32, bool)], room| fitted(parts, room, 0.3 * room, 0.0);
        assert_eq!(fitted(&[(1000.0, true), (320.0, false)], 2_000.0), [1_680.0, 320.0]);
        assert_eq!(fitted(&[(1680.0, true), (320.0, false)], 1_000.0), [680.0, 320.0]);
        // Two of the middle keep their ratio.
        assert_eq!(fitted(&[(300.0, true), (100.0, true), (200.0, false)], 1_000.0), [600.0, 200.0, 200.0]);
        assert_eq!(fitted(&[(1000.0, true), (320.0, false)], 400.0), [120.0, 280.0], "no more than its part");
        // Without the middle the others fill the room.
        assert_eq!(fitted(&[(100.0, false), (300.0, false)], 1_000.0), [250.0, 750.0]);
        // What was just dropped has a share of 1.
        assert_eq!(fitted(&[(1.0, false), (1.0, false)], 600.0), [300.0, 300.0]);
        assert_eq!(fitted(&[(880.0, true), (320.0, false), (1.0, false)], 1_200.0), [480.0, 320.0, 400.0]);
    }
}
