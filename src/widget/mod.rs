//! Reusable parts of the window that know no trace.

pub mod format;
pub mod raster;
pub mod slice_color;
pub mod text;
