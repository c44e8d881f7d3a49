//! Search for slices by substring of their names.

use rayon::prelude::*;

use crate::model::{SliceId, TimeRange, Trace};

/// Slices found, in time order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Number of all matches, including those beyond the limit.
    pub total: u64,
    /// The earliest ones, sorted by start, then id.
    pub slices: Vec<SliceId>,
}

/// The slices of `trace` whose name contains `text`, ignoring case.
///
/// * `range`: only slices that touch it, in trace time.
/// * `limit`: the number of slices listed; all are counted.
/// * An empty text finds nothing.
/// * `is_cancelled` is checked periodically; once it is true the result is empty.
/// * Cost: O(bytes of names + slices), over all cores.
pub fn search(
    trace: &Trace,
    text: &str,
    range: Option<TimeRange>,
    limit: usize,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Found {
    let needle = Needle::new(text);
    let fits: Vec<bool> = trace
        .strings
        .iter()
        .enumerate()
        .map(|(i, (_, name))| !(i % 4096 == 0 && is_cancelled()) && needle.is_in(name))
        .collect();
    if needle.lower.is_empty() || !fits.contains(&true) || is_cancelled() {
        return Found::default();
    }
    const CHUNK: usize = 1 << 16;
    let slices = &trace.slices;
    let in_range = |i: usize| range.is_none_or(|range| slices.ts[i] < range.end && slices.end[i] > range.start);
    let in_chunk = |(chunk, names): (usize, &[crate::model::StringId])| {
        let ids = names.iter().enumerate().filter(|(_, name)| fits.get(name.0 as usize).copied().unwrap_or(false));
        let ids = ids.map(|(i, _)| chunk * CHUNK + i).filter(|&i| in_range(i));
        if is_cancelled() { Vec::new() } else { ids.map(|i| SliceId(i as u32)).collect() }
    };
    let mut found: Vec<SliceId> = slices.name.par_chunks(CHUNK).enumerate().flat_map_iter(in_chunk).collect();
    if is_cancelled() {
        return Found::default();
    }
    let total = found.len() as u64;
    let by_time = |id: &SliceId| (slices.ts[id.idx()], *id);
    if limit == 0 {
        found.clear();
    } else if found.len() > limit {
        found.select_nth_unstable_by_key(limit - 1, by_time);
        found.truncate(limit);
    }
    found.par_sort_unstable_by_key(by_time);
    found.shrink_to_fit();
    Found { total, slices: found }
}

/// A search text prepared for many names.
struct Needle {
    lower: String,
}

impl Needle {
    fn new(text: &str) -> Self {
        Self { lower: text.to_lowercase() }
    }

    fn is_in(&self, name: &str) -> bool {
        if !self.lower.is_ascii() {
            return name.to_lowercase().contains(&self.lower);
        }
        let (name, wanted) = (name.as_bytes(), self.lower.as_bytes());
        let Some((&first, _)) = wanted.split_first() else { return false };
        memchr::memchr2_iter(first, first.to_ascii_uppercase(), name)
            .any(|at| name.get(at..at + wanted.len()).is_some_and(|part| part.eq_ignore_ascii_case(wanted)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{SliceKind, TraceBuilder};

    const OP: SliceKind = SliceKind::Operator;

    fn ids(found: &Found) -> Vec<u32> {
        found.slices.iter().map(|id| id.0).collect()
    }

    #[test]
    fn search_ignores_case_and_sorts_by_time() {
        let trace = TraceBuilder::from_slices(&[
            ("a", OP, "aten::MM", 50, 60),
            ("b", OP, "aten::mm_out", 10, 20),
            ("b", OP, "GRÖSSE", 30, 40),
        ])
        .finish();
        let find = |text| search(&trace, text, None, 10, &|| false);
        assert_eq!(ids(&find("mm")), [1, 0]);
        assert_eq!(ids(&find("Größe")), [] as [u32; 0]);
        assert_eq!(ids(&find("grö")), [2]);
        assert_eq!(find(""), Found::default());
    }

    #[test]
    fn a_cancelled_search_finds_nothing() {
        let trace = TraceBuilder::from_slices(&[("a", OP, "mm", 50, 60)]).finish();
        assert_eq!(search(&trace, "mm", None, 10, &|| true), Found::default());
    }

    proptest! {
        #[test]
        fn the_count_is_whole_and_the_list_is_the_earliest(
            slices in prop::collection::vec((0_usize..4, 0_i64..100, 0_i64..20), 0..60),
            text in "[aAbB]{1,2}", limit in 0_usize..20, start in 0_i64..100, dur in 1_i64..50,
        ) {
            let names = ["abba", "BAB", "ccc", "a"];
            let raw: Vec<_> = slices.iter().map(|&(n, ts, dur)| ("t", OP, names[n], ts, ts + dur)).collect();
            let trace = TraceBuilder::from_slices(&raw).finish();
            let range = TimeRange { start, end: start + dur };
            let found = search(&trace, &text, Some(range), limit, &|| false);
            let mut expected: Vec<(i64, u32)> = (0..trace.slices.len())
                .filter(|&i| trace.slice_name(SliceId(i as u32)).to_lowercase().contains(&text.to_lowercase()))
                .filter(|&i| trace.slices.ts[i] < range.end && trace.slices.end[i] > range.start)
                .map(|i| (trace.slices.ts[i], i as u32))
                .collect();
            expected.sort_unstable();
            prop_assert_eq!(found.total, expected.len() as u64);
            expected.truncate(limit);
            prop_assert_eq!(ids(&found), expected.iter().map(|e| e.1).collect::<Vec<_>>());
        }
    }
}
