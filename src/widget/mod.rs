//! Theme and reusable widgets; they know no trace.

pub mod raster;
