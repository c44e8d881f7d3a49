//! Which traces was an answer made for?

use std::sync::{Arc, Weak};

use super::OpenTrace;
use crate::model::Trace;

/// Some open traces, as part of the key of a [`crate::job::Memo`].
///
/// Equal only for the very same traces. Does not keep them alive, and while it exists their
/// addresses are not used for others.
#[derive(Clone, Debug, Default)]
pub struct TraceKey(Vec<(Weak<Trace>, i64)>);

impl TraceKey {
    /// The key of these traces at these offsets.
    pub fn new(traces: &[OpenTrace]) -> Self {
        Self(traces.iter().map(|open| (Arc::downgrade(&open.trace), open.offset)).collect())
    }
}

impl PartialEq for TraceKey {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |(a, b): (&(Weak<Trace>, i64), &(Weak<Trace>, i64))| a.0.ptr_eq(&b.0) && a.1 == b.1;
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(is_same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_traces_are_equal() {
        let open = |offset| OpenTrace { trace: Arc::new(Trace::default()), offset };
        let (a, b) = (open(0), open(0));
        assert_eq!(TraceKey::new(&[a.clone()]), TraceKey::new(&[a.clone()]));
        assert_ne!(TraceKey::new(&[a.clone()]), TraceKey::new(&[b]));
        let moved = OpenTrace { offset: 1, ..a.clone() };
        assert_ne!(TraceKey::new(&[a]), TraceKey::new(&[moved]));
    }
}
