//! Conversion of files by external programs.

mod child;
pub mod nsys;
