//! The subject of an analysis, and its key, which does not keep it alive.

use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use crate::model::{DurNs, Trace};
use crate::session::{OpenMemory, OpenTrace};

/// The subject of an analysis. Clones are cheap: they share what is large.
pub trait Subject: ToOwned<Owned: Send + 'static> {
    fn key(&self) -> SubjectKey;
}

/// Identifies a [`Subject`]: equal only for the same traces at the same offsets, or the same answer. Keeps none
/// of them alive, but their addresses are not reused while it exists.
#[derive(Clone, Debug)]
pub enum SubjectKey {
    /// A trace whatever its offset, or an answer.
    Shared(Weak<dyn Any + Send + Sync>),
    Trace(PlacedTrace),
    /// With the index of the memory.
    Memory(PlacedTrace, usize),
    Traces(Vec<PlacedTrace>),
}

/// A trace at an offset on the session's clock, and whether another run is in front of it.
#[derive(Clone, Debug)]
pub struct PlacedTrace(Weak<Trace>, DurNs, bool);

impl PlacedTrace {
    fn new(open: &OpenTrace) -> Self {
        Self(Arc::downgrade(&open.trace), open.offset, open.is_behind)
    }
}

impl PartialEq for PlacedTrace {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0) && (self.1, self.2) == (other.1, other.2)
    }
}

impl PartialEq for SubjectKey {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Shared(a), Self::Shared(b)) => a.ptr_eq(b),
            (Self::Trace(a), Self::Trace(b)) => a == b,
            (Self::Memory(a, i), Self::Memory(b, j)) => i == j && a == b,
            (Self::Traces(a), Self::Traces(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for SubjectKey {}

/// By address: equal keys are of one. A trace may have thousands of memories.
impl Hash for SubjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Shared(shared) => shared.as_ptr().cast::<()>().hash(state),
            Self::Trace(trace) => trace.0.as_ptr().hash(state),
            Self::Memory(trace, index) => (trace.0.as_ptr(), index).hash(state),
            Self::Traces(traces) => traces.iter().for_each(|trace| trace.0.as_ptr().hash(state)),
        }
    }
}

impl SubjectKey {
    /// Whether its subject still exists.
    pub(super) fn is_alive(&self) -> bool {
        match self {
            Self::Shared(shared) => shared.strong_count() > 0,
            Self::Trace(trace) | Self::Memory(trace, _) => trace.0.strong_count() > 0,
            Self::Traces(traces) => traces.iter().all(|trace| trace.0.strong_count() > 0),
        }
    }

    /// Whether its subject is one of these traces at its offset, all of them, or an answer that is kept.
    pub(super) fn is_current(&self, open: &[OpenTrace]) -> bool {
        match self {
            Self::Shared(shared) => shared.upgrade().is_some_and(|shared| match shared.downcast::<Trace>() {
                Ok(trace) => open.iter().any(|open| Arc::ptr_eq(&open.trace, &trace)),
                Err(_) => true,
            }),
            Self::Trace(trace) | Self::Memory(trace, _) => open.iter().any(|open| PlacedTrace::new(open) == *trace),
            Self::Traces(_) => open.key() == *self,
        }
    }
}

impl<T: Send + Sync + 'static> Subject for Arc<T> {
    fn key(&self) -> SubjectKey {
        let shared: Weak<T> = Self::downgrade(self);
        SubjectKey::Shared(shared)
    }
}

impl Subject for OpenTrace {
    fn key(&self) -> SubjectKey {
        SubjectKey::Trace(PlacedTrace::new(self))
    }
}

impl Subject for [OpenTrace] {
    fn key(&self) -> SubjectKey {
        SubjectKey::Traces(self.iter().map(PlacedTrace::new).collect())
    }
}

impl Subject for OpenMemory {
    fn key(&self) -> SubjectKey {
        SubjectKey::Memory(PlacedTrace::new(&self.open), self.memory)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

    use super::*;

    #[test]
    fn the_memories_of_one_trace_have_places_of_their_own() {
        let trace = Arc::new(Trace::default());
        let placed = || PlacedTrace(Arc::downgrade(&trace), 0, false);
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let hashes: HashSet<u64> = (0..1000).map(|i| hasher.hash_one(SubjectKey::Memory(placed(), i))).collect();
        assert_eq!(hashes.len(), 1000);
    }
}
