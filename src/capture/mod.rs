//! Programs that Lacuna runs: converters of files, and workloads that the user captures.

pub mod counters;
pub mod cupti;
pub mod kineto;
pub mod launch;
pub mod nsys;
pub mod partial;
pub mod pytorch;
mod run;

use std::path::Path;

#[cfg(unix)]
pub use crate::scratch::registry::is_ignored;
pub use crate::scratch::registry::{at_end, end_all, fail_writes_at_the_limit};
use crate::scratch::{self, members, registry};

/// Ends and removes what a Lacuna that was killed left behind; what its runs recorded stays.
pub fn remove_leftovers() {
    scratch::remove_abandoned(&scratch::copies_folder());
    if let Some(folder) = nsys::cache_folder() {
        scratch::remove_abandoned(&folder);
    }
    if let Some(root) = launch::root() {
        launch::end_abandoned(&root);
    }
}

/// Whether a path is a file that may be executed.
fn is_program(path: &Path) -> bool {
    #[cfg(unix)]
    let may_run = |data: &std::fs::Metadata| std::os::unix::fs::PermissionsExt::mode(&data.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = |_: &std::fs::Metadata| true;
    path.metadata().is_ok_and(|data| data.is_file() && may_run(&data))
}
