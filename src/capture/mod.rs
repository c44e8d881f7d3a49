//! Conversion of files by external programs.

pub mod cupti;
pub mod nsys;
mod registry;
mod run;
mod scratch;

pub use registry::end_all;

/// Ends and removes what a Lacuna that was killed left behind.
pub fn remove_leftovers() {
    if let Some(folder) = nsys::cache_folder() {
        scratch::remove_abandoned(&folder);
    }
}
