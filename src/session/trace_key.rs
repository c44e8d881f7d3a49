//! The traces that an answer was made for.

use std::sync::{Arc, Weak};

use super::OpenTrace;
use crate::model::{DurNs, Trace};

/// Some open traces, as part of the key of a [`crate::job::Memo`].
///
/// Equal only for the very same traces. Does not keep them alive, and while it exists their
/// addresses are not used for others.
#[derive(Clone, Debug, Default)]
pub struct TraceKey(Vec<Key>);

/// A trace and its offset on the session's clock.
type Key = (Weak<Trace>, DurNs);

impl TraceKey {
    /// The key of these traces at these offsets.
    pub fn new(traces: &[OpenTrace]) -> Self {
        Self(traces.iter().map(|open| (Arc::downgrade(&open.trace), open.offset)).collect())
    }
}

impl PartialEq for TraceKey {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |(a, b): (&Key, &Key)| a.0.ptr_eq(&b.0) && a.1 == b.1;
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(is_same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_traces_are_equal() {
        let open = |offset| OpenTrace::new(Trace::default(), offset);
        let (a, b) = (open(0), open(0));
        let key = |open: &OpenTrace| TraceKey::new(std::slice::from_ref(open));
        assert_eq!(key(&a), key(&a));
        assert_ne!(key(&a), key(&b));
        let moved = OpenTrace { offset: 1, ..a.clone() };
        assert_ne!(key(&a), key(&moved));
    }
}
