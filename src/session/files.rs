//! Which of several open files tables and lists are of.

use super::OpenTrace;

/// The files that count in tables.
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

    /// The files that count, by their indices.
    pub fn counted(self, traces: &[OpenTrace]) -> impl Iterator<Item = usize> {
        (0..traces.len()).filter(move |&trace| self.counts(traces, trace))
    }

    /// Follows the open traces after some were closed.
    ///
    /// * `moved`: the new index of a trace, if it is still open.
    pub fn follow(&mut self, moved: impl Fn(usize) -> Option<usize>) {
        if let Self::One(trace) = *self {
            *self = moved(trace).map_or_else(Self::default, Self::One);
        }
    }
}
