//! Classification of functions and ranges by name, once per name: names are few, slices are millions.

use std::cell::RefCell;

use hashbrown::HashMap;

use super::Frame;
use crate::model::{SliceId, SliceKind, StringId, Trace};

/// What a name says.
#[derive(Clone, Copy, Debug)]
struct Said {
    is_user: bool,
    is_library: bool,
    saves_checkpoint: bool,
}

/// The names of one trace.
#[derive(Debug)]
pub struct FrameNames(Option<RefCell<HashMap<StringId, Said>>>);

impl Default for FrameNames {
    fn default() -> Self {
        Self(Some(RefCell::default()))
    }
}

impl FrameNames {
    /// For a single question: it judges each time.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Whether a slice is a Python function of the user's program.
    pub fn is_user(&self, trace: &Trace, slice: SliceId) -> bool {
        trace.slices.kind[slice.idx()] == SliceKind::PythonFunction && self.of(trace, slice).is_user
    }

    /// Whether a slice is a Python function of a library.
    pub fn is_library(&self, trace: &Trace, slice: SliceId) -> bool {
        trace.slices.kind[slice.idx()] == SliceKind::PythonFunction && self.of(trace, slice).is_library
    }

    /// Whether a slice is a Python function or range that writes a checkpoint.
    pub fn saves_checkpoint(&self, trace: &Trace, slice: SliceId) -> bool {
        let is_named = matches!(trace.slices.kind[slice.idx()], SliceKind::PythonFunction | SliceKind::Annotation);
        is_named && self.of(trace, slice).saves_checkpoint
    }

    fn of(&self, trace: &Trace, slice: SliceId) -> Said {
        let name = trace.slices.name[slice.idx()];
        let judge = || {
            let frame = Frame::of_python_function(trace.strings.get(name));
            Said {
                is_user: frame.is_user(),
                is_library: frame.is_library(),
                saves_checkpoint: frame.saves_checkpoint(),
            }
        };
        self.0.as_ref().map_or_else(judge, |known| *known.borrow_mut().entry(name).or_insert_with(judge))
    }
}
