//! The arrangement of the views: a tree of splits and tab groups, and all its changes except by dragging.

use std::collections::HashMap;

use eframe::egui::{Id, Ui, WidgetText};
use egui_tiles::{Behavior, Container, Linear, LinearDir, Tabs, Tile, TileId, Tiles, Tree, UiResponse};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answers::{Subject as _, SubjectKey};
use crate::model::{Format, Trace};
use crate::session::OpenTrace;
use crate::settings::OldLayout;
use crate::view::{Content, DockArea, VIEWS, ViewSpec, flame, memory, overview, problems, timeline, view_spec};

/// Points of what is in the middle, which gets what is left, and of what is beside or below it.
const SIDE_SHARES: [f32; 2] = [1000.0, 320.0];
const BOTTOM_SHARES: [f32; 2] = [1000.0, 280.0];
/// A stored tree of more tiles is broken: each view has one, and each split at least two.
const MAX_TILES: usize = 200;

/// A tab: the id of its view.
pub type Pane = String;

/// The arrangement of the views.
pub struct Layout {
    pub tree: Tree<Pane>,
    /// The traces for which tabs were last hidden.
    traces: Option<SubjectKey>,
    /// The views that had the focus, the latest first.
    recent: Vec<&'static str>,
    /// For each group beside the middle the points it got last, and those it has where there is room: a window that
    /// was small for a while gives them back.
    pub(super) wanted: HashMap<TileId, [f32; 2]>,
}

/// The stored part of a layout.
#[derive(Serialize, Deserialize)]
struct Stored<T> {
    root: Option<TileId>,
    tiles: T,
    /// The views of the version that stored it. Others are new and open in their place.
    #[serde(default)]
    known: Vec<String>,
    /// Whether a version that hid the side until something is selected had hidden it.
    #[serde(default, skip_serializing)]
    waits: bool,
}

/// The tabs of one group, hidden ones too.
struct Group {
    tile: TileId,
    area: DockArea,
    views: Vec<&'static ViewSpec>,
    active: Option<TileId>,
}

impl Default for Layout {
    fn default() -> Self {
        let mut tiles = Tiles::default();
        let mut group = |area| {
            let views = VIEWS.iter().filter(|spec| spec.area == area);
            let tabs = views.map(|spec| tiles.insert_pane(spec.id.to_owned())).collect();
            tiles.insert_tab_tile(tabs)
        };
        let [center, side, bottom] = [DockArea::Center, DockArea::Side, DockArea::Bottom].map(&mut group);
        let main = tiles.insert_container(split(LinearDir::Vertical, [center, bottom], BOTTOM_SHARES));
        let root = tiles.insert_container(split(LinearDir::Horizontal, [main, side], SIDE_SHARES));
        Self::new(Some(root), tiles)
    }
}

fn split(dir: LinearDir, children: [TileId; 2], shares: [f32; 2]) -> Linear {
    let mut linear = Linear::new(dir, children.to_vec());
    children.into_iter().zip(shares).for_each(|(child, share)| linear.shares.set_share(child, share));
    linear
}

impl Layout {
    fn new(root: Option<TileId>, tiles: Tiles<Pane>) -> Self {
        let mut tree = Tree::empty(Id::unique("views"));
        (tree.root, tree.tiles) = (root, tiles);
        Self { tree, traces: None, recent: Vec::new(), wanted: HashMap::new() }
    }

    /// What [`Self::restore`] takes.
    pub fn save(&self) -> Value {
        let known = VIEWS.iter().map(|spec| spec.id.to_owned()).collect();
        let stored = Stored { root: self.tree.root, tiles: &self.wanted_tiles(), known, waits: false };
        serde_json::to_value(stored).unwrap_or_default()
    }

    /// A stored layout without the views that this version does not have and with those that are new in it;
    /// `None` if it is broken.
    pub fn restore(saved: &Value) -> Option<Self> {
        let Stored { root, mut tiles, known, waits } = Stored::<Tiles<Pane>>::deserialize(saved).ok()?;
        let is_sound = |tile: &Tile<Pane>| match tile {
            Tile::Pane(_) | Tile::Container(Container::Tabs(_)) => true,
            Tile::Container(Container::Linear(linear)) => {
                linear.shares.iter().all(|(_, share)| (1e-3..1e6).contains(share))
            }
            // No drag makes one.
            Tile::Container(Container::Grid(_)) => false,
        };
        if tiles.len() > MAX_TILES || !tiles.tiles().all(is_sound) || root.is_some_and(|id| tiles.get(id).is_none()) {
            return None;
        }
        tiles.recompute_next_tile_id();
        let mut layout = Self::new(root, tiles);
        layout.tree.gc(&mut Known::default());
        if waits && !layout.is_area_shown(DockArea::Side) {
            layout.toggle(DockArea::Side);
        }
        for spec in VIEWS.iter().filter(|spec| !known.iter().any(|id| id == spec.id)) {
            if layout.tile(spec.id).is_none() {
                layout.open(spec);
            }
        }
        Some(layout)
    }

    /// The layout of versions without docking.
    pub fn of_old(old: &OldLayout) -> Self {
        let mut layout = Self::default();
        old.tabs().for_each(|id| layout.activate(&id));
        for (area, is_open) in [(DockArea::Side, old.is_side_open), (DockArea::Bottom, old.is_bottom_open)] {
            if !is_open {
                layout.toggle(area);
            }
        }
        layout
    }

    /// Hides the tabs of views that have nothing to show for what is open. A group beside or below the middle with
    /// tables of memory and of what ran shows those that go with the view in the middle.
    ///
    /// A tab in front stays until another one is, or other traces are open.
    pub fn follow(&mut self, traces: &[OpenTrace]) {
        let key = Some(traces.key());
        let is_new = self.traces != key;
        self.traces = key;
        let on_screen = self.on_screen().into_iter().filter_map(view_spec);
        let middle = on_screen.filter(|spec| spec.area == DockArea::Center);
        let middle: Vec<bool> = middle.filter_map(|spec| spec.content.is_memory()).collect();
        for group in self.groups() {
            let has = |kind| group.views.iter().any(|spec| spec.content.is_memory() == Some(kind));
            let is_mixed = group.area != DockArea::Center && has(true) && has(false) && !middle.is_empty();
            for spec in &group.views {
                let Some(tile) = self.tile(spec.id) else { continue };
                let is_in_place = !is_mixed || spec.content.is_memory().is_none_or(|kind| middle.contains(&kind));
                let is_in_front = group.active == Some(tile);
                let has_content = spec.content.is_in(traces);
                let is_visible = has_content && (is_in_place || is_in_front) || is_in_front && !is_new;
                self.tree.set_visible(tile, is_visible);
            }
        }
    }

    /// Brings to the front what the first traces are opened for: of those that ran on a device, and of training with
    /// PyTorch, the overview, of others the flame graph, of memory alone its curve and why it ran out, or who holds it:
    /// few programs leak, and a line says so. Of files with nothing to draw, what is told of them.
    pub fn suit(&mut self, traces: &[OpenTrace]) {
        let has = |is_so: &dyn Fn(&Trace) -> bool| traces.iter().any(|open| is_so(&open.trace));
        // Often a log of a GPU, and a snapshot with its annotations, are read before the trace beside them.
        let ran = |trace: &Trace| {
            !trace.info.format.is_memory_only() && (!trace.slices.is_empty() || !trace.samples.ts.is_empty())
        };
        // Its phases and collectives are judged without a device, too.
        let is_judged = |trace: &Trace| {
            trace.processes.iter().any(|process| process.device.is_some()) || trace.info.producer.contains("PyTorch")
        };
        let is_told = has(&|trace| !trace.import.problems.is_empty());
        let suitable = if is_told && !has(&|trace| !trace.tracks.is_empty()) {
            [timeline::SPEC, problems::SPEC]
        } else if !has(&ran) && has(&|trace| trace.info.format.is_memory_only()) {
            let ran_out = has(&|trace| trace.memories.iter().any(|history| !history.ooms.is_empty()));
            [memory::OVER_TIME, if ran_out { memory::RESERVED } else { memory::PLACES }]
        } else if has(&is_judged) || !has(&ran) {
            [timeline::SPEC, overview::SPEC]
        } else {
            [timeline::SPEC, flame::SPEC]
        };
        for spec in suitable.iter().filter(|spec| spec.content.is_in(traces)) {
            self.activate(spec.id);
        }
    }

    /// Whether what is in front in the middle is of another kind than these traces: of memory, or of what ran. Logs of
    /// GPUs go beside either.
    pub fn is_of_another_kind(&self, traces: &[OpenTrace]) -> bool {
        let front = self.on_screen().into_iter().filter_map(view_spec);
        let shows_memory = front.filter(|spec| spec.area == DockArea::Center).find_map(|spec| spec.content.is_memory());
        let mut kinds = traces.iter().map(|open| open.trace.info.format).filter(|&format| format != Format::GpuMetrics);
        let are_memory = kinds.clone().all(Format::is_memory_only);
        kinds.next().is_some() && shows_memory.is_some_and(|shows_memory| shows_memory != are_memory)
    }

    /// Whether a view has a tab.
    pub fn is_open(&self, id: &str) -> bool {
        self.tile(id).is_some()
    }

    #[cfg(test)]
    pub fn has_visible_tab(&self, id: &str) -> bool {
        self.tile(id).is_some_and(|tile| self.tree.is_visible(tile))
    }

    /// Whether a view's tab can be seen, in front or not: neither it nor a group around it is hidden.
    pub fn is_in_sight(&self, id: &str) -> bool {
        let above = |tile: &TileId| self.tree.tiles.parent_of(*tile);
        let tile = self.tile(id);
        tile.is_some() && std::iter::successors(tile, above).all(|tile| self.tree.is_visible(tile))
    }

    /// Whether a view's tab is in front.
    #[cfg(test)]
    pub fn is_on_screen(&self, id: &str) -> bool {
        self.on_screen().contains(&id)
    }

    /// The views whose tabs are in front, those used last first.
    pub fn on_screen(&self) -> Vec<&'static str> {
        let active = self.tree.active_tiles();
        let is_active = |spec: &&ViewSpec| self.tile(spec.id).is_some_and(|tile| active.contains(&tile));
        let mut views: Vec<_> = VIEWS.iter().filter(is_active).map(|spec| spec.id).collect();
        views.sort_by_key(|id| self.recent.iter().position(|known| known == id).unwrap_or(usize::MAX));
        views
    }

    /// The view that was used last, of those on screen.
    pub fn focused(&self) -> Option<&'static str> {
        let on_screen = self.on_screen();
        on_screen.first().copied().filter(|id| self.recent.contains(id))
    }

    /// Makes a view the one that was used last.
    pub fn focus(&mut self, id: &'static str) {
        if self.recent.first() != Some(&id) {
            self.recent.retain(|known| *known != id);
            self.recent.insert(0, id);
        }
    }

    /// Brings a view to the front. If it was closed, it opens in its area of the window.
    pub fn show(&mut self, id: &'static str) {
        let Some(spec) = view_spec(id) else { return };
        let tile = self.tile(id).unwrap_or_else(|| self.open(spec));
        let mut shown = Some(tile);
        while let Some(tile) = shown {
            self.tree.set_visible(tile, true);
            shown = self.tree.tiles.parent_of(tile);
        }
        self.activate(id);
        self.focus(id);
    }

    /// Brings to the front, in the group of a view of this machine, what was used last of what is open; false if there
    /// is nothing.
    pub fn leave(&mut self, id: &str) -> bool {
        let tile = self.tile(id);
        let Some(group) = self.groups().into_iter().find(|group| tile.is_some() && group.active == tile) else {
            return false;
        };
        let is_there = |spec: &&&ViewSpec| spec.content != Content::Machine && self.is_in_sight(spec.id);
        let place = |spec: &&&ViewSpec| self.recent.iter().position(|known| *known == spec.id).unwrap_or(usize::MAX);
        let Some(before) = group.views.iter().filter(is_there).min_by_key(place) else { return false };
        self.show(before.id);
        true
    }

    /// Brings a view to the front of its group, which stays hidden if it is.
    pub fn activate(&mut self, id: &str) {
        let tile = self.tile(id);
        self.tree.make_active(|candidate, _| Some(candidate) == tile);
    }

    /// Takes a view's tab away.
    pub fn close(&mut self, id: &str) {
        if let Some(tile) = self.tile(id) {
            self.tree.remove_recursively(tile);
        }
    }

    /// Whether a group lies in this area and is shown.
    pub fn is_area_shown(&self, area: DockArea) -> bool {
        self.groups().iter().any(|group| group.area == area && self.tree.is_visible(group.tile))
    }

    /// Hides the groups in an area, or shows them. Where none is left, the views of the area come back to it.
    pub fn toggle(&mut self, area: DockArea) {
        let is_shown = self.is_area_shown(area);
        let groups: Vec<Group> = self.groups().into_iter().filter(|group| group.area == area).collect();
        groups.iter().for_each(|group| self.tree.set_visible(group.tile, !is_shown));
        if groups.is_empty() {
            for spec in VIEWS.iter().filter(|spec| spec.area == area) {
                self.close(spec.id);
                self.open(spec);
            }
            self.traces = None;
        }
    }

    fn tile(&self, id: &str) -> Option<TileId> {
        self.tree.tiles.iter().find(|(_, tile)| matches!(tile, Tile::Pane(pane) if pane == id)).map(|(&tile, _)| tile)
    }

    /// The groups that have tabs, from left to right and from top to bottom.
    fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        let mut waiting: Vec<TileId> = self.tree.root.into_iter().collect();
        while let Some(tile) = waiting.pop() {
            let Some(container) = self.tree.tiles.get_container(tile) else { continue };
            let pane = |child: &TileId| view_spec(self.tree.tiles.get_pane(child)?);
            let views: Vec<_> = container.children().filter_map(pane).collect();
            if let Container::Tabs(Tabs { active, .. }) = container
                && !views.is_empty()
            {
                groups.push(Group { tile, area: self.area(tile, views[0]), views, active: *active });
            }
            let children: Vec<TileId> = container.children().copied().collect();
            waiting.extend(children.into_iter().rev());
        }
        groups
    }

    /// The area of the window that a group lies in: beside or below the nearest views of the middle, or with them.
    /// Where no view of the middle is open, the default area of the group's first view.
    fn area(&self, group: TileId, first: &ViewSpec) -> DockArea {
        let mut above = Some(group);
        while let Some(tile) = above {
            if self.has_center(tile) {
                return match self.tree.tiles.get_container(tile) {
                    Some(Container::Linear(linear)) if linear.dir == LinearDir::Horizontal => DockArea::Side,
                    Some(Container::Linear(_)) => DockArea::Bottom,
                    _ => DockArea::Center,
                };
            }
            above = self.tree.tiles.parent_of(tile);
        }
        first.area
    }

    /// Whether a view of the middle is somewhere below a tile.
    pub fn has_center(&self, tile: TileId) -> bool {
        match self.tree.tiles.get(tile) {
            Some(Tile::Pane(id)) => view_spec(id).is_some_and(|spec| spec.area == DockArea::Center),
            Some(Tile::Container(container)) => container.children().any(|&child| self.has_center(child)),
            None => false,
        }
    }

    /// Gives a view a tab among others in its area, or a group of its own.
    fn open(&mut self, spec: &'static ViewSpec) -> TileId {
        let tile = self.tree.tiles.insert_pane(spec.id.to_owned());
        let groups = self.groups();
        let group_of = |area| groups.iter().find(|group| group.area == area);
        if let Some(group) = group_of(spec.area) {
            let rank = |id: &str| VIEWS.iter().position(|other| other.id == id);
            let at = group.views.iter().position(|other| rank(other.id) > rank(spec.id)).unwrap_or(group.views.len());
            if let Some(Tile::Container(Container::Tabs(tabs))) = self.tree.tiles.get_mut(group.tile) {
                tabs.children.insert(at.min(tabs.children.len()), tile);
            }
            return tile;
        }
        let beside = |area| group_of(area).map(|group| group.tile).or(self.tree.root);
        let (beside, dir, shares, is_first) = match spec.area {
            DockArea::Side => (self.tree.root, LinearDir::Horizontal, SIDE_SHARES, false),
            DockArea::Center => (beside(DockArea::Bottom), LinearDir::Vertical, BOTTOM_SHARES, true),
            DockArea::Bottom => (beside(DockArea::Center), LinearDir::Vertical, BOTTOM_SHARES, false),
        };
        let group = self.tree.tiles.insert_tab_tile(vec![tile]);
        let Some(beside) = beside else {
            self.tree.root = Some(group);
            return tile;
        };
        let children = if is_first { [group, beside] } else { [beside, group] };
        let parent = self.tree.tiles.parent_of(beside);
        let both = self.tree.tiles.insert_container(split(dir, children, shares));
        match parent.and_then(|parent| self.tree.tiles.get_mut(parent)) {
            Some(Tile::Container(parent)) => replace(parent, beside, both),
            _ => self.tree.root = Some(both),
        }
        tile
    }
}

/// Puts another tile in the place of a child.
fn replace(parent: &mut Container, old: TileId, new: TileId) {
    let children = match parent {
        Container::Linear(linear) => {
            linear.shares.replace_with(old, new);
            &mut linear.children
        }
        Container::Tabs(Tabs { children, active }) => {
            *active = active.map(|active| if active == old { new } else { active });
            children
        }
        Container::Grid(_) => return,
    };
    children.iter_mut().filter(|child| **child == old).for_each(|child| *child = new);
}

/// Keeps one tab for each view that there is.
#[derive(Default)]
struct Known(Vec<&'static str>);

impl Behavior<Pane> for Known {
    fn pane_ui(&mut self, _ui: &mut Ui, _tile: TileId, _pane: &mut Pane) -> UiResponse {
        UiResponse::None
    }

    fn tab_title_for_pane(&mut self, pane: &Pane) -> WidgetText {
        pane.as_str().into()
    }

    fn retain_pane(&mut self, pane: &Pane) -> bool {
        let id = view_spec(pane).map(|spec| spec.id).filter(|id| !self.0.contains(id));
        self.0.extend(id);
        id.is_some()
    }
}
