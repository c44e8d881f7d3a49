//! Both forms, whole and cut.

use super::*;
use crate::analysis::memory::find::{Filter, Liveness, find};
use crate::model::Counter;
use crate::model::memory::{AllocationId, MemorySource, UNKNOWN_DEVICE};

fn read_text(text: &str) -> Result<Trace, ReadError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    read(&Source::file(file.path()).unwrap(), Options::default(), &Progress::default())
}

fn counter<'a>(trace: &'a Trace, category: &str) -> &'a Counter {
    trace.counters.iter().find(|counter| trace.track(counter.track).name == category).unwrap()
}

#[test]
fn blocks_are_paired_by_size_and_category() {
    // Two blocks of one size: one is there before, one turns from TEMPORARY into GRADIENT.
    let rows = "[[-1, 1, 64, 0], [1700000000000000100, 2, 64, 3], [1700000000000000200, 3, -64, 3],
        [1700000000000000200, 3, 64, 5], [1700000000000000300, 3, -64, 0], [1700000000000000300, 3, 64, 0],
        [1700000000000000400, 4, -64, 5], [1700000000000000500, 4, -64, 5], [1700000000000000600, 9, 1, 1],
        [1700000000000000700, 2, 1, 8], \"x\"]";
    let trace = read_text(rows).unwrap();
    let import = &trace.import;
    assert_eq!((import.read, import.shown, import.merged, import.rejected), (11, 3, 4, 4));
    let memory = &trace.memories[0];
    assert_eq!((memory.source, memory.span.start), (MemorySource::Timeline, 1_700_000_000_000_000_100));
    assert_eq!(memory.curves.active, [64, 128, 64, 128, 64]);
    assert_eq!(memory.allocations.start, [0, 1, 3]);
    let categories: Vec<_> =
        memory.allocations.ids().map(|id| trace.strings.get(memory.allocations.category(id))).collect();
    assert_eq!(categories, ["PARAMETER", "TEMPORARY", "GRADIENT"]);
    assert_eq!(memory.allocations.addr, [1, 2, 2]);
    // A change of category allocates nothing.
    assert_eq!((0..memory.events.len()).filter(|&event| memory.allocates(event)).collect::<Vec<_>>(), [0]);
    assert_eq!(memory.n_blocks(), 2);
    for id in [1, 2].map(AllocationId) {
        let events = [memory.alloc_event(id), memory.free_event(id)];
        assert_eq!((events, memory.lifetime(id)), ([Some(0), Some(3)], 300), "{id:?}");
    }
    // Listed once, in the last category that matches.
    let found = |filter: Filter| find(&trace, memory, &filter, &|| false).iter().map(|id| id.0).collect::<Vec<_>>();
    assert_eq!(found(Filter::default()), [0, 2]);
    assert_eq!(found(Filter { liveness: Liveness::LiveIn(1), ..Filter::default() }), [0, 1]);
    assert_eq!(found(Filter { liveness: Liveness::FreedWithin, ..Filter::default() }), [2]);
    assert_eq!(counter(&trace, "GRADIENT").value, [64.0, 0.0]);
    assert_eq!(counter(&trace, "PARAMETER").value, [64.0]);
    assert_eq!(counter(&trace, "TEMPORARY").ts, [1_700_000_000_000_000_100, 1_700_000_000_000_000_200]);
}

#[test]
fn of_blocks_that_are_alike_the_newest_ends_and_the_oldest_changes() {
    // Three of one size: the first stays, the second becomes a gradient after the first has, the third ends.
    let rows =
        "[[1000, 2, 8, 4], [1001, 2, 8, 4], [1002, 2, 8, 4], [1003, 4, -8, 4], [1004, 3, -8, 4], [1004, 3, 8, 4],
        [1005, 3, -8, 4], [1005, 3, 8, 5], [1006, 4, -8, 4]]";
    let trace = read_text(rows).unwrap();
    let memory = &trace.memories[0];
    let all = &memory.allocations;
    let lives: Vec<_> = all.ids().map(|id| (all.addr[id.idx()], all.start[id.idx()], all.end[id.idx()])).collect();
    // A change within the category is none of them.
    assert_eq!(lives, [(1, 1, 5), (2, 2, 7), (3, 3, 4), (1, 6, 8)]);
    let n = |part: &str| trace.import.problems.iter().find(|one| one.reason.contains(part)).map(|one| one.count);
    assert_eq!(n("so how long each was live is a guess"), Some(1), "only of the first free several could be meant");
    assert_eq!(n("memory of a GPU or of the host"), Some(1));
    assert_eq!((memory.device, memory.title().as_str()), (UNKNOWN_DEVICE, "Unknown device memory"));
}

#[test]
fn a_timeline_is_as_long_as_it_was_recorded() {
    let length = |last: &str| read_text(&format!("[[1000, 2, 64, 3], [1500, 4, -64, 3], [1000, 2, 8, 3]{last}]"));
    let span = |last: &str| length(last).unwrap().span.dur();
    assert_eq!(span(""), 500);
    assert_eq!(span(", [1900, 3, -8, 3], [1900, 3, 8, 3]"), 900, "a block was changed after the last event");
    assert_eq!(span(", [1900, 3, -16, 3], [1900, 3, 16, 3]"), 500, "of no block");
    assert_eq!(span(", [1900, 9, 8, 3]"), 500, "no action");
}

#[test]
fn sums_are_counters() {
    let trace = read_text("[[100, 200, 300], [[0,1,0,0,0,0,0,0,7],[0,2,0,0,0,0,0,0,7],[0,2]]]").unwrap();
    assert_eq!((trace.import.read, trace.import.shown, trace.import.rejected), (3, 2, 1));
    let parameters = counter(&trace, "PARAMETER");
    assert_eq!((parameters.ts.as_slice(), parameters.value.as_slice()), (&[100_000, 200_000][..], &[1.0, 2.0][..]));
    assert_eq!((counter(&trace, "UNKNOWN").value.as_slice(), trace.counters.len()), (&[7.0][..], 3));
    assert_eq!(counter(&trace, "TOTAL").value, [8.0, 9.0]);
    assert!(trace.memories.is_empty());
}

#[test]
fn cut_and_foreign_texts() {
    let cut = read_text("[[-1, 1, 64, 0], [5, 2, 64, 3], [6, 4, -6").unwrap();
    assert_eq!((cut.import.shown, cut.memories[0].events.len()), (2, 1));
    assert!(cut.import.is_partial && !read_text("[[-1, 1, 64, 0]]").unwrap().import.is_partial);
    assert!(cut.import.problems[0].reason.contains("ends early"));
    let cut = read_text("[[100, 200], [[0,1,0,0,0,0,0,0,7],[0,2,0,0,0").unwrap();
    assert_eq!((cut.import.shown, cut.import.rejected), (1, 1));
    for text in ["[[]]", "[[], []]", "[[1]]", "[[\"a\", \"b\"]]", "[[1,2,3,4],[[5]]]", "[[", "[[1,2], {}]"] {
        let error = read_text(text).map(|trace| trace.import).unwrap_err().to_string();
        assert!(error.contains("nested lists"), "{text}: {error}");
    }
}
