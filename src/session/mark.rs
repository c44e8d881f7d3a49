//! Marks of moments and ranges.

use crate::model::TimeRange;

/// A moment or range that the user marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Session time; a moment has equal start and end.
    pub range: TimeRange,
    pub note: String,
}
