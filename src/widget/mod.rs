//! Theme and reusable widgets; they know no trace.

pub mod format;
pub mod raster;
pub mod slice_color;
pub mod text;
