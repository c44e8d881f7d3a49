//! Marks of moments and ranges, and those of files that were open before.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::OpenTrace;
use crate::model::TimeRange;

/// A moment or range that the user marked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Session time; a moment has equal start and end.
    pub range: TimeRange,
    pub note: String,
    /// [`OpenTrace::id`] of the trace with which it is kept.
    pub of: Arc<str>,
}

impl Mark {
    /// Without a note; [`crate::view::ViewContext::add_mark`] finds its trace.
    pub fn new(range: TimeRange) -> Self {
        Self { range, ..Self::default() }
    }
}

/// The marks of traces, by [`OpenTrace::id`], for the next time that their files are opened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeptMarks(HashMap<String, Vec<KeptMark>>);

/// A mark in the time of its trace, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptMark {
    start: i64,
    end: i64,
    note: String,
    /// Whether the marks divided their recording into steps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_step: bool,
}

impl KeptMarks {
    /// Takes those of `marks` that are of a trace, in place of those taken before.
    ///
    /// * `are_steps`: whether the marks are used as steps.
    pub fn put(&mut self, open: &OpenTrace, marks: &[Mark], are_steps: bool) {
        let kept = |mark: &Mark| {
            let TimeRange { start, end } = mark.range.shifted(open.offset.saturating_neg());
            KeptMark { start, end, note: mark.note.clone(), is_step: are_steps }
        };
        let kept: Vec<KeptMark> = marks.iter().filter(|mark| mark.of == open.id).map(kept).collect();
        if kept.is_empty() {
            self.0.remove(&*open.id);
        } else {
            self.0.insert(open.id.to_string(), kept);
        }
    }

    /// Whether the marks of a trace were used as steps.
    pub fn are_steps(&self, open: &OpenTrace) -> bool {
        self.0.get(&*open.id).is_some_and(|kept| kept.iter().any(|mark| mark.is_step))
    }

    /// The marks of a trace, in session time.
    pub fn of<'a>(&'a self, open: &'a OpenTrace) -> impl Iterator<Item = Mark> + 'a {
        let mark = |kept: &KeptMark| Mark {
            range: TimeRange::new(kept.start, kept.end).shifted(open.offset),
            note: kept.note.clone(),
            of: Arc::clone(&open.id),
        };
        self.0.get(&*open.id).into_iter().flatten().map(mark)
    }
}
