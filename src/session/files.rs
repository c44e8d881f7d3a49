//! The choice of files for each table and list.

use std::collections::BTreeMap;

use super::{OpenTrace, in_order};

/// The files that count in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// All, the rows of each by themselves.
    #[default]
    Apart,
    /// All, added up.
    Together,
    /// The one with this index.
    One(usize),
}

impl Files {
    /// The one file that alone was chosen.
    pub fn one(self) -> Option<usize> {
        match self {
            Self::One(trace) => Some(trace),
            Self::Apart | Self::Together => None,
        }
    }

    /// Whether a file is listed.
    pub fn has(self, trace: usize) -> bool {
        self.one().is_none_or(|one| one == trace)
    }

    /// Whether what a file recorded of the program counts. A snapshot of memory repeats names that the trace beside it
    /// has: it counts where it was chosen, or where there is no trace.
    pub fn counts(self, traces: &[OpenTrace], trace: usize) -> bool {
        match self {
            Self::One(one) => one == trace,
            Self::Apart | Self::Together => {
                traces.get(trace).is_some_and(OpenTrace::is_program) || !traces.iter().any(OpenTrace::is_program)
            }
        }
    }

    /// The files that count, by their indices, in order.
    pub fn counted(self, traces: &[OpenTrace]) -> impl Iterator<Item = usize> {
        in_order(traces).into_iter().filter(move |&trace| self.counts(traces, trace))
    }
}

/// The choice of each view: that of one leaves the others alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileChoices(BTreeMap<&'static str, Files>);

impl FileChoices {
    /// What was chosen in a view, by its id.
    pub fn of(&self, view: &str) -> Files {
        self.0.get(view).copied().unwrap_or_default()
    }

    /// Chooses for a view.
    pub fn choose(&mut self, view: &'static str, files: Files) {
        self.0.insert(view, files);
    }

    /// Follows the open traces after some were closed.
    ///
    /// * `moved`: the new index of a trace, if it is still open.
    pub fn follow(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        for files in self.0.values_mut() {
            if let Files::One(trace) = *files {
                *files = moved(trace).map_or_else(Files::default, Files::One);
            }
        }
    }
}
