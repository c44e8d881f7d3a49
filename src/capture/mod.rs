//! Programs that Lacuna runs: converters of files, and workloads that a person captures.

pub mod cupti;
pub mod launch;
pub mod nsys;
pub mod pytorch;
mod registry;
mod run;
mod scratch;

pub use registry::end_all;

/// Ends and removes what a Lacuna that was killed left behind; what its runs recorded stays.
pub fn remove_leftovers() {
    if let Some(folder) = nsys::cache_folder() {
        scratch::remove_abandoned(&folder);
    }
    if let Some(root) = launch::root() {
        launch::end_abandoned(&root);
    }
}
