//! Drags on a canvas: select a range, zoom or pan.

use eframe::egui::{CursorIcon, Modifiers, PointerButton, Pos2, Response, Ui, Vec2};

use super::Scale;
use crate::model::{TimeNs, TimeRange};

/// Grab distance of the edges of the selected range, in points.
const EDGE_REACH: f32 = 4.0;

/// What a drag does, by its button and the keys held when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DragKind {
    Range,
    Zoom,
    Pan,
}

impl DragKind {
    /// `None` for buttons without a drag.
    fn of(response: &Response, modifiers: Modifiers) -> Option<Self> {
        match () {
            () if response.drag_started_by(PointerButton::Middle) => Some(Self::Pan),
            () if !response.drag_started_by(PointerButton::Primary) => None,
            () if modifiers.shift => Some(Self::Pan),
            () if modifiers.alt => Some(Self::Zoom),
            () => Some(Self::Range),
        }
    }
}

/// The start of a drag.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Start<V> {
    kind: DragKind,
    /// The fixed end of the range.
    anchor: TimeNs,
    corner: Pos2,
    view: TimeRange,
    vertical: V,
}

/// A drag under way. `V` is what the vertical axis of the canvas shows.
#[derive(Debug)]
pub struct Drag<V> {
    start: Option<Start<V>>,
}

impl<V> Default for Drag<V> {
    fn default() -> Self {
        Self { start: None }
    }
}

/// The effect of a drag in one frame.
#[derive(Clone, Copy, Debug)]
pub enum DragAction<V> {
    /// Select this range.
    Range(Option<TimeRange>),
    /// Show this range, and the part of the vertical axis between two corners on screen.
    Zoom(TimeRange, [Pos2; 2]),
    /// Show what was visible when the drag began, moved by so many points.
    Pan { view: TimeRange, vertical: V, moved: Vec2 },
}

impl<V: Copy> Drag<V> {
    /// Whether a drag is under way.
    pub fn is_active(&self) -> bool {
        self.start.is_some()
    }

    /// Whether a range is being dragged.
    pub fn is_range(&self) -> bool {
        self.start.as_ref().is_some_and(|start| start.kind == DragKind::Range)
    }

    /// Position and corner where the current zoom drag began.
    pub fn zoom_start(&self) -> Option<(TimeNs, Pos2)> {
        self.start.as_ref().filter(|start| start.kind == DragKind::Zoom).map(|start| (start.anchor, start.corner))
    }

    /// Follows the pointer for one frame.
    ///
    /// * `range`: the selected range, the edges of which can be dragged.
    /// * `vertical`: what the vertical axis shows now.
    /// * `place`: the position on the axis that an end of a range at a place on screen means.
    pub fn update(
        &mut self,
        ui: &Ui,
        response: &Response,
        scale: &Scale,
        range: Option<TimeRange>,
        vertical: V,
        place: &dyn Fn(Pos2) -> TimeNs,
    ) -> Option<DragAction<V>> {
        let (origin, modifiers) = ui.input(|input| (input.pointer.press_origin(), input.modifiers));
        if self.start.is_none()
            && let Some(pointer) = response.hover_pos()
        {
            fixed_edge(ui, scale, range, pointer);
        }
        if let Some(corner) = origin.filter(|_| response.drag_started()) {
            self.start = DragKind::of(response, modifiers).map(|kind| {
                let fixed = (kind == DragKind::Range).then(|| fixed_edge(ui, scale, range, corner)).flatten();
                let free = || if kind == DragKind::Range { place(corner) } else { scale.time(corner.x) };
                let anchor = fixed.unwrap_or_else(free);
                Start { kind, anchor, corner, view: scale.view, vertical }
            });
        }
        let Some((start, pointer)) = self.start.zip(response.interact_pointer_pos()) else {
            self.start = self.start.filter(|_| response.dragged());
            return None;
        };
        if response.drag_stopped() {
            self.start = None;
        }
        let at = Pos2::new(pointer.x.clamp(scale.left, scale.right()), pointer.y);
        let to = if start.kind == DragKind::Range { place(at) } else { scale.time(at.x) };
        let dragged = TimeRange::new(start.anchor, to);
        let dragged = Some(dragged).filter(|range| range.dur() > 0);
        match start.kind {
            DragKind::Range => Some(DragAction::Range(dragged)),
            DragKind::Zoom if response.drag_stopped() => {
                dragged.map(|range| DragAction::Zoom(range, [start.corner, pointer]))
            }
            DragKind::Zoom => None,
            DragKind::Pan => {
                // After the release there is no press origin.
                self.start = self.start.filter(|_| origin.is_some());
                let moved = pointer - origin?;
                ui.set_cursor_icon(CursorIcon::Grabbing);
                Some(DragAction::Pan { view: start.view, vertical: start.vertical, moved })
            }
        }
    }
}

/// The edge of `range` opposite to the one at the pointer, if any; sets the resize cursor.
fn fixed_edge(ui: &Ui, scale: &Scale, range: Option<TimeRange>, pointer: Pos2) -> Option<TimeNs> {
    let range = range?;
    let near = |ts: TimeNs| (scale.x(ts) - pointer.x).abs() <= EDGE_REACH;
    let fixed = match (near(range.start), near(range.end)) {
        (_, true) => range.start,
        (true, false) => range.end,
        _ => return None,
    };
    ui.set_cursor_icon(CursorIcon::ResizeHorizontal);
    Some(fixed)
}
