//! Components of views with a horizontal axis: scale, ruler, minimap, marks, ranges, zoom, pan and drags.
//!
//! A *position* on the axis is session time in nanoseconds, or on an axis of events a multiple of the
//! length of an event.

mod drag;
mod minimap;
mod motion;
mod overlay;
mod part;
mod ruler;
mod scale;
mod zoom;

pub use drag::{Drag, DragAction};
pub use minimap::Minimap;
pub use motion::{Motion, Wheel};
pub use overlay::{
    bracket_place, paint_bracket, paint_flag, paint_hover_line, paint_marks, paint_range, taken_by_marks,
};
pub use part::part_text;
pub use ruler::RulerLabels;
pub use scale::Scale;
pub use zoom::{MARGIN, ZoomTarget, centered, filled, fitted, focus, is_centered, middle, panned, run, zoomed};
