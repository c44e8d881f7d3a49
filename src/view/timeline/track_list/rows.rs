//! Which rows of a deep thread are shown at first.

use std::ops::Range;

use crate::session::OpenTrace;

use super::track_key;
use crate::model::{TrackId, TrackKind};
use crate::view::timeline::settings::TimelineSettings;

/// A thread with more rows than this is deep: with its Python functions it would fill the picture alone.
const DEEP: u32 = 24;
/// So many of its rows are shown.
const SHOWN: u32 = 20;
/// Fewer rows are not folded: their line takes room as well.
const LEAST: u32 = 3;

/// The rows of a track that are shown at first. Of a deep thread those are left out that only pass on, and of the
/// others the innermost, as far as no annotation is in them.
///
/// * `n_passing`: see [`crate::analysis::threads::Part`].
pub fn shown(open: &OpenTrace, track: TrackId, n_passing: u32) -> Range<u32> {
    let rows = open.trace.rows(track);
    let n = rows.len() as u32;
    if n <= DEEP || open.trace.track(track).kind != TrackKind::Thread {
        return 0..n;
    }
    let first = if n_passing < LEAST { 0 } else { n_passing };
    let annotated = rows.iter().rposition(|row| row.has_annotations).map_or(0, |row| row as u32 + 1);
    let end = annotated.max(first + SHOWN);
    let is_rest_deep = n - first >= DEEP + LEAST && n >= end + LEAST;
    first..if is_rest_deep { end } else { n }
}

/// The settings key of the rows of a track that are folded at first.
pub fn key(open: &OpenTrace, track: TrackId) -> String {
    format!("{}/rows", track_key(open, track))
}

/// The keys of all that have such rows.
pub fn keys(open: &OpenTrace) -> impl Iterator<Item = String> {
    let tracks = (0..open.trace.tracks.len() as u32).map(TrackId);
    tracks.filter(|&track| open.trace.rows(track).len() as u32 > DEEP).map(|track| key(open, track))
}

/// The rows of a line that are folded at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFold {
    pub key: String,
    /// `17 outer, 10 inner rows`.
    pub title: String,
    pub is_folded: bool,
}

/// The rows that a line shows, and those that it does not show at first.
pub fn rows(
    open: &OpenTrace,
    track: TrackId,
    n_passing: u32,
    settings: &TimelineSettings,
) -> (Range<u32>, Option<RowFold>) {
    let (n, shown) = (open.trace.rows(track).len() as u32, shown(open, track, n_passing));
    let title = match (shown.start, n - shown.end) {
        (0, 0) => return (shown, None),
        (outer, 0) => format!("{outer} outer rows"),
        (0, inner) => format!("{inner} inner rows"),
        (outer, inner) => format!("{outer} outer, {inner} inner rows"),
    };
    let key = key(open, track);
    let is_folded = !settings.expanded.contains(&key);
    (if is_folded { shown } else { 0..n }, Some(RowFold { key, title, is_folded }))
}
