//! Slices in file order, as readers hand them to the builder.

use super::{SliceKind, StringId, TimeNs, TrackId};

/// One slice as read from a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawSlice {
    pub ts: TimeNs,
    /// Not before `ts`.
    pub end: TimeNs,
    pub name: StringId,
    pub kind: SliceKind,
    pub track: TrackId,
    pub correlation: u32,
    pub external: u32,
    /// Its id in [`super::TraceBuilder::facts`]; 0 for none.
    pub facts: u32,
    pub source: u64,
}

/// Slices in file order, one column per field.
#[derive(Debug, Default)]
pub struct RawSlices {
    pub ts: Vec<TimeNs>,
    pub end: Vec<TimeNs>,
    pub name: Vec<StringId>,
    pub kind: Vec<SliceKind>,
    pub track: Vec<TrackId>,
    pub correlation: Vec<u32>,
    pub external: Vec<u32>,
    pub facts: Vec<u32>,
    pub source: Vec<u64>,
}

impl RawSlices {
    #[inline]
    pub fn push(&mut self, slice: RawSlice) {
        self.ts.push(slice.ts);
        self.end.push(slice.end);
        self.name.push(slice.name);
        self.kind.push(slice.kind);
        self.track.push(slice.track);
        self.correlation.push(slice.correlation);
        self.external.push(slice.external);
        self.facts.push(slice.facts);
        self.source.push(slice.source);
    }

    /// Reserves capacity for `n` more slices.
    pub fn reserve(&mut self, n: usize) {
        self.ts.reserve_exact(n);
        self.end.reserve_exact(n);
        self.name.reserve_exact(n);
        self.kind.reserve_exact(n);
        self.track.reserve_exact(n);
        self.correlation.reserve_exact(n);
        self.external.reserve_exact(n);
        self.facts.reserve_exact(n);
        self.source.reserve_exact(n);
    }

    /// Moves all slices of `other` to the end; it keeps its memory.
    pub fn append(&mut self, other: &mut Self) {
        self.ts.append(&mut other.ts);
        self.end.append(&mut other.end);
        self.name.append(&mut other.name);
        self.kind.append(&mut other.kind);
        self.track.append(&mut other.track);
        self.correlation.append(&mut other.correlation);
        self.external.append(&mut other.external);
        self.facts.append(&mut other.facts);
        self.source.append(&mut other.source);
    }

    /// Removes all slices and keeps the memory.
    pub fn clear(&mut self) {
        self.ts.clear();
        self.end.clear();
        self.name.clear();
        self.kind.clear();
        self.track.clear();
        self.correlation.clear();
        self.external.clear();
        self.facts.clear();
        self.source.clear();
    }

    /// Releases unused capacity.
    pub fn shrink(&mut self) {
        self.ts.shrink_to_fit();
        self.end.shrink_to_fit();
        self.name.shrink_to_fit();
        self.kind.shrink_to_fit();
        self.track.shrink_to_fit();
        self.correlation.shrink_to_fit();
        self.external.shrink_to_fit();
        self.facts.shrink_to_fit();
        self.source.shrink_to_fit();
    }

    pub fn len(&self) -> usize {
        self.ts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ts.is_empty()
    }
}
