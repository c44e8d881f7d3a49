//! Theme and reusable widgets, independent of traces.

pub mod busy;
pub mod flame;
pub mod fuzzy;
pub mod gap_color;
pub mod hatch;
pub mod labels;
pub mod options;
pub mod prose;
pub mod raster;
pub mod series_color;
pub mod side_panel;
pub mod slice_color;
pub mod table;
pub mod theme;
pub mod together;
