//! Theme and reusable widgets; they know no trace.

pub mod format;
pub mod fuzzy;
pub mod text;
pub mod theme;
