//! Theme and reusable widgets; they know no trace.

pub mod format;
pub mod fuzzy;
pub mod raster;
pub mod slice_color;
pub mod table;
pub mod text;
pub mod theme;
