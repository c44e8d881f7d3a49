//! The order of a walk from gap to gap.

use serde::{Deserialize, Serialize};

/// In which order gaps follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GapOrder {
    /// From the longest.
    #[default]
    Duration,
    Time,
}
