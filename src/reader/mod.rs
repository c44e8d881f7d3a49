//! Bytes to model: one file or folder a format.

use std::path::Path;

use crate::job::Progress;
use crate::model::Trace;

/// Why a file could not be read at all.
///
/// Messages say what is wrong and what to do; the caller adds the path, last.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{0}")]
    NotATrace(String),
    #[error("Cancelled")]
    Cancelled,
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Reads a file of any known format. An archive of ranks gives one trace each, in order of rank.
///
/// Errors: see [`ReadError`]. Damage inside a readable file is not an error: what was lost is in
/// each trace's import report.
pub fn read(_path: &Path, _progress: &Progress) -> Result<Vec<Trace>, ReadError> {
    Err(ReadError::NotATrace("No format is known yet".to_owned()))
}
