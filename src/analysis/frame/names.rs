//! What the names of functions and ranges say, each judged at its first use: there are few names, and millions of slices.

use std::cell::Cell;

use super::Frame;
use crate::model::{SliceId, SliceKind, Trace};

const JUDGED: u8 = 1;
const IS_USER: u8 = 2;
const SAVES: u8 = 4;

/// The names of a trace. Without any it judges each time.
#[derive(Debug, Default)]
pub struct FrameNames(Vec<Cell<u8>>);

impl FrameNames {
    /// * `trace`: the only one that it is asked about. Cost: O(strings).
    pub fn new(trace: &Trace) -> Self {
        Self(vec![Cell::default(); trace.strings.len()])
    }

    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Whether a slice is a Python function of the user's program.
    pub fn is_user(&self, trace: &Trace, slice: SliceId) -> bool {
        trace.slices.kind[slice.idx()] == SliceKind::PythonFunction && self.says(trace, slice, IS_USER)
    }

    /// Whether a slice is a Python function or range that writes a checkpoint.
    pub fn saves_checkpoint(&self, trace: &Trace, slice: SliceId) -> bool {
        let is_named = matches!(trace.slices.kind[slice.idx()], SliceKind::PythonFunction | SliceKind::Annotation);
        is_named && self.says(trace, slice, SAVES)
    }

    fn says(&self, trace: &Trace, slice: SliceId, what: u8) -> bool {
        let known = self.0.get(trace.slices.name[slice.idx()].0 as usize);
        let judge = || {
            let frame = Frame::of_python_function(trace.slice_name(slice));
            let said = [(IS_USER, frame.is_user()), (SAVES, frame.saves_checkpoint())];
            said.into_iter().filter(|said| said.1).fold(JUDGED, |all, (what, _)| all | what)
        };
        let said = match known.map(Cell::get) {
            Some(said) if said != 0 => said,
            _ => judge(),
        };
        known.inspect(|known| known.set(said));
        said & what != 0
    }
}
