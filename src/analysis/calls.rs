//! Host time in CUDA, the operating system and the profiler, by call.

use super::totals::{Group, Part, Scope, group};
use crate::model::{SliceKind, StringId};

/// Kind of host calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// Calls of the CUDA or HIP runtime and driver.
    #[default]
    Api,
    /// Calls of the operating system, as traced by `nsys`.
    Os,
    /// Overhead of the profiler.
    Overhead,
}

impl CallKind {
    fn is_of(self, kind: SliceKind) -> bool {
        match self {
            Self::Api => matches!(kind, SliceKind::Runtime | SliceKind::Driver),
            Self::Os => kind == SliceKind::Os,
            Self::Overhead => kind == SliceKind::Overhead,
        }
    }
}

/// The calls in scope by name and slice kind, over all threads, in nanoseconds.
///
/// * Self time excludes calls directly inside, such as a driver call in a runtime call.
/// * Sorted by total, descending, then name.
/// * Cost: O(slices of the rows in scope), and 8 bytes per call.
pub fn calls(scope: &Scope<'_>, sort: CallKind) -> Vec<Group<(String, SliceKind)>> {
    let local = |part: &Part<'_>, i: usize| (part.trace.slices.name[i], part.trace.slices.kind[i]);
    let key = |part: &Part<'_>, &(name, kind): &(StringId, SliceKind)| (part.trace.strings.get(name).to_owned(), kind);
    group(scope, |kind| sort.is_of(kind), local, key, true, |(), _, _| {})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn calls_are_selected_by_kind() {
        let trace = TraceBuilder::from_slices(&[
            ("main", SliceKind::Operator, "aten::mm", 0, 100),
            ("main", SliceKind::Runtime, "cudaLaunchKernel", 10, 40),
            ("main", SliceKind::Driver, "cuLaunchKernel", 20, 30),
            ("main", SliceKind::Os, "futex", 100, 105),
            ("profiler", SliceKind::Overhead, "Buffer Flush", 100, 190),
        ])
        .finish();
        let rows = |sort| {
            let rows = calls(&Scope::whole(&[&trace]), sort);
            rows.into_iter().map(|g| (g.key.0, g.durations.total_ns, g.self_ns)).collect::<Vec<_>>()
        };
        assert_eq!(
            rows(CallKind::Api),
            [("cudaLaunchKernel".to_owned(), 30, 20), ("cuLaunchKernel".to_owned(), 10, 10)]
        );
        assert_eq!(rows(CallKind::Os), [("futex".to_owned(), 5, 5)]);
        assert_eq!(rows(CallKind::Overhead), [("Buffer Flush".to_owned(), 90, 90)]);
    }
}
