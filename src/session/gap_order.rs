//! The order of a walk from gap to gap.

/// In which order gaps follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GapOrder {
    /// From the longest.
    #[default]
    Duration,
    Time,
}
