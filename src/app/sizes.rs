//! Sizes of the groups of views when the window is resized: what is beside and below the middle keeps its points.

use eframe::egui::{Vec2, vec2};
use egui_tiles::{Container, LinearDir, Tile, TileId};

use super::layout::Layout;
use super::panels::{GAP, MIN_SIZE, TAB_BAR_HEIGHT};

/// What the groups beside or below the middle get of a split at most.
const MAX_SHARE: f32 = 0.7;
/// A smaller share is not in points: `egui_tiles` gives 1 to what was dropped into a split.
const MIN_POINTS: f32 = 20.0;

impl Layout {
    /// Makes the shares of every split points that fill `size`, the points of the whole tree.
    ///
    /// Where a split has no room for its groups, its shares stay as they were.
    pub fn fit(&mut self, size: Vec2) {
        let mut waiting: Vec<(TileId, Vec2)> = self.tree.root.map(|root| (root, size)).into_iter().collect();
        while let Some((tile, size)) = waiting.pop() {
            let Some(container) = self.tree.tiles.get_container(tile) else { continue };
            let Container::Linear(linear) = container else {
                let inner = size - vec2(0.0, TAB_BAR_HEIGHT);
                waiting.extend(container.children().map(|&child| (child, inner)));
                continue;
            };
            let axis = usize::from(linear.dir == LinearDir::Vertical);
            let is_shown = |child: &TileId| self.tree.is_visible_in_layout(*child);
            let children: Vec<TileId> = linear.children.iter().copied().filter(is_shown).collect();
            let room = size[axis] - GAP * children.len().saturating_sub(1) as f32;
            if room < MIN_SIZE * children.len() as f32 {
                continue;
            }
            let part = |&child: &TileId| (linear.shares[child], self.has_center(child));
            let sizes = fitted(&children.iter().map(part).collect::<Vec<_>>(), room);
            if let Some(Tile::Container(Container::Linear(linear))) = self.tree.tiles.get_mut(tile) {
                for (&child, points) in children.iter().zip(sizes) {
                    linear.shares.set_share(child, points);
                    let mut inner = size;
                    inner[axis] = points;
                    waiting.push((child, inner));
                }
            }
        }
    }
}

/// The points of the parts of a split, which sum to `room`.
///
/// * `parts`: the share of each until now, and whether it is of the middle, which takes what the others leave.
fn fitted(parts: &[(f32, bool)], room: f32) -> Vec<f32> {
    let wanted = |&(share, _): &(f32, bool)| if share < MIN_POINTS { room / parts.len() as f32 } else { share };
    let sum_of = |kind: bool| parts.iter().filter(|part| part.1 == kind).map(wanted).sum::<f32>();
    let (fixed, flexible) = (sum_of(false), sum_of(true));
    let factors = if fixed == 0.0 || flexible == 0.0 {
        [room / (fixed + flexible); 2]
    } else {
        let kept = fixed.min(room * MAX_SHARE);
        [kept / fixed, (room - kept) / flexible]
    };
    parts.iter().map(|part| wanted(part) * factors[usize::from(part.1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_takes_what_the_others_leave() {
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
