//! The table of collectives.

use super::grid::Answer;
use super::pane::Pane;
use super::rows::{Choice, TimeTable, with_instances};
use super::side::Related;
use crate::analysis::collectives::ranks::{RankOf, RankPart, RankTotals, rank_calls};
use crate::analysis::collectives::{CollectiveTotals, collectives};
use crate::analysis::totals::{Instance, Scope};
use crate::figures::collectives::RankRow;
use crate::figures::{collectives as figures, format};
use crate::view::{Content, DockArea, ViewSpec};

pub const SPEC: ViewSpec = ViewSpec {
    id: "collectives",
    title: "Collectives",
    help: "Show communication between devices, with exposed time and bandwidth, and by rank who waits for whom",
    keys: &[],
    make: || Box::new(Pane::new(&TABLE)),
    area: DockArea::Bottom,
    content: Content::Slices,
};

const EMPTY: [&str; 2] = [
    "No collectives were recorded",
    "Record a job of several ranks with activities=[CPU, CUDA] in torch.profiler, or with nsys profile \
     --trace=cuda,nvtx",
];

pub(super) static TABLE: TimeTable = TimeTable {
    title: SPEC.title,
    choices: &[
        Choice {
            label: "By size",
            help: "One row for each operation, group, size and type",
            rows: |scope| rows(scope, true),
            empty: EMPTY,
        },
        Choice {
            label: "By operation",
            help: "One row for each operation and group",
            rows: |scope| rows(scope, false),
            empty: EMPTY,
        },
        Choice {
            label: "By rank",
            help: "One row for each rank of a job: how often it came last, how long others waited for it, and it for \
                   others",
            rows: ranks,
            empty: [
                "No collectives of several ranks that were recorded together",
                "Open the recordings of several ranks of one job, of the same run",
            ],
        },
    ],
    related: Related::LaunchedBy,
    has_profile: false,
};

fn rows(scope: &Scope<'_>, by_size: bool) -> Answer {
    const NO_SIZES: &str =
        "Recent versions of PyTorch record them; exports of Nsight Systems hold them in payloads that are not read";
    let rows = collectives(scope, by_size);
    let mut kernels = rows.iter().filter(|row| row.backend.is_none()).peekable();
    let has_sizes = kernels.peek().is_none() || kernels.any(|row| row.total_bytes.is_some());
    let note = (!has_sizes).then(|| ("Sizes were not recorded, so there is no bandwidth".to_owned(), NO_SIZES));
    let head = compared(scope, &rows).map(|text| (text, RANKS)).into_iter().chain(note).collect();
    Answer { head, ..with_instances(&figures::collectives(), rows, |row| row.instances) }
}

const RANKS: &str = "Calls are the same if their process group and number are, else if they end together; ranks that \
                     are not open may have come later still. By rank adds up who waited for whom";

/// The ranks that were compared, each job by itself.
fn ranks(scope: &Scope<'_>) -> Answer {
    let calls = rank_calls(scope.traces);
    let is_shown = |trace: u32| scope.range(trace as usize) != Some(Scope::NOTHING);
    let is_within = |part: &RankPart| match scope.range(part.trace as usize).filter(|_| is_shown(part.trace)) {
        Some(range) => part.time.intersect(range).is_some(),
        None => true,
    };
    let is_other = |a: &RankOf, b: &RankOf| a.rank == b.rank && a.trace != b.trace;
    let is_ambiguous = calls.ranks.iter().any(|of| calls.ranks.iter().any(|other| is_other(of, other)));
    let row = |(of, totals): (&RankOf, RankTotals)| RankRow {
        file: is_ambiguous.then(|| scope.traces[of.trace as usize].info.title().into()),
        of: RankOf { matched: calls.of_trace(of.trace).filter(|part| is_within(part)).count() as u64, ..*of },
        totals,
        n_ranks: calls.n_ranks(of.job),
    };
    let rows = calls.ranks.iter().zip(calls.totals(is_within)).filter(|(of, _)| is_shown(of.trace)).map(row);
    let mut rows: Vec<RankRow> = rows.filter(|row| row.of.matched > 0 || !scope.has_range()).collect();
    rows.sort_by_key(|row| (row.of.job, row.of.rank));
    let slices = |row: &RankRow| {
        let parts = calls.of_trace(row.of.trace).filter(|part| is_within(part));
        parts.map(|part| Instance { trace: part.trace, slice: part.slice }).collect()
    };
    let note = figures::note_of_ranks(&rows);
    Answer {
        head: (!note.is_empty()).then(|| (note.to_owned(), "")).into_iter().collect(),
        data: figures::ranks_of_jobs().data(&rows),
        instances: rows.iter().map(slices).collect(),
        ..Answer::default()
    }
}

/// How many of the collectives were found on several of the open ranks, and what follows if none were; `None` unless
/// several are open.
fn compared(scope: &Scope<'_>, rows: &[CollectiveTotals]) -> Option<String> {
    let n_ranks = scope.traces.iter().filter(|trace| trace.info.rank.is_some()).count();
    let all: u64 = rows.iter().map(|row| row.durations.calls).sum();
    let matched: u64 = rows.iter().filter_map(|row| row.ranks).map(|ranks| ranks.matched).sum();
    let [found, of] = [matched, all].map(format::count);
    // Of files that are shown each by itself, what is said must hold for all of them.
    let is_of_one = (0..scope.traces.len()).filter(|&i| scope.range(i) != Some(Scope::NOTHING)).count() == 1;
    let text = match (matched, is_of_one) {
        (0, _) => format!(
            "None of these {}collectives was found on more than one of the {n_ranks} open ranks: who waited for whom, \
             and how far the clocks of the ranks are apart, is not known",
            if is_of_one { String::new() } else { format!("{of} ") }
        ),
        (_, false) => format!(
            "{found} of these {of} collectives were found on more than one of the {n_ranks} open ranks: of these it is \
             known who waited for whom"
        ),
        (_, true) => format!(
            "In each file shown, {found} of {of} collectives were found on more than one of the {n_ranks} open ranks: \
             of these it is known who waited for whom"
        ),
    };
    (n_ranks > 1 && all > 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SliceKind, TimeRange, Trace, TraceBuilder};

    #[test]
    fn ranks_say_who_came_last_and_for_whom_others_waited() {
        use crate::figures::{Cell, Rows as _};
        const US: i64 = 1_000;
        // Rank 1 comes last to the first two, by 300 and 100 us, and rank 0 to the third, by 50 us; each takes 10 us
        // once all are there.
        let rank = |rank: u32, starts: [i64; 3]| {
            let ends = [310, 1_110, 2_060];
            let mut slices = vec![("stream 7", SliceKind::Kernel, "gemm", 0, 3_000 * US)];
            let calls = starts.into_iter().zip(ends).map(|(start, end)| {
                ("stream 9", SliceKind::Kernel, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start * US, end * US)
            });
            slices.extend(calls);
            let mut builder = TraceBuilder::from_slices(&slices);
            builder.info.rank = Some(rank);
            builder.info.utc_offset_ns = Some(1_700_000_000_000_000_000);
            builder.finish()
        };
        let traces = [rank(0, [0, 1_000, 2_050]), rank(1, [300, 1_100, 2_000])];
        let models: Vec<&Trace> = traces.iter().collect();
        let shown = |scope: &Scope<'_>, key: &str| {
            let answer = ranks(scope);
            let at = answer.columns().iter().position(|column| column.key == key).unwrap();
            (0..answer.n_rows()).map(|row| answer.row(row)[at].clone()).collect::<Vec<_>>()
        };
        let whole = Scope::whole(&models);
        assert_eq!(shown(&whole, "rank"), [0, 1].map(Cell::Count));
        assert_eq!(shown(&whole, "late"), [1, 2].map(Cell::Count));
        assert_eq!(shown(&whole, "waited_for_ns"), [50, 400].map(|us| Cell::Ns(us * US)));
        assert_eq!(shown(&whole, "wait_ns"), [400, 50].map(|us| Cell::Ns(us * US)));
        assert_eq!(shown(&whole, "transfer_ns"), [Cell::Ns(30 * US), Cell::Ns(30 * US)]);
        let slices: Vec<usize> = ranks(&whole).instances.iter().map(Vec::len).collect();
        assert_eq!(slices, [3, 3]);
        // A range counts what of each runs within it; of one file shown by itself the others are still compared.
        let first = TimeRange { start: 0, end: 500 * US };
        let of_range = Scope { ranges: Some(vec![first; 2]), ..Scope::whole(&models) };
        assert_eq!(shown(&of_range, "waited_for_ns"), [0, 300].map(|us| Cell::Ns(us * US)));
        let of_file = Scope { ranges: Some(vec![Scope::NOTHING, TimeRange::ALL]), ..Scope::whole(&models) };
        assert_eq!(shown(&of_file, "waited_for_ns"), [Cell::Ns(400 * US)]);
    }

    #[test]
    fn it_is_said_whether_ranks_can_be_compared() {
        let rank = |rank: u32, call: &str, start: i64| {
            let slices = [
                ("stream 7", SliceKind::Kernel, "gemm", 0, 100_000_000),
                ("stream 9", SliceKind::Kernel, call, start, 8_000_000),
            ];
            let mut builder = TraceBuilder::from_slices(&slices);
            builder.info.rank = Some(rank);
            builder.info.utc_offset_ns = Some(1_700_000_000_000_000_000);
            builder.finish()
        };
        let said = |traces: &[Trace]| {
            let models: Vec<&Trace> = traces.iter().collect();
            rows(&Scope::whole(&models), false).head.into_iter().next().map(|head| head.0).unwrap_or_default()
        };
        let reduce = |of, start| rank(of, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start);
        let common = said(&[reduce(0, 0), reduce(1, 3_000_000)]);
        assert!(
            common.starts_with("2 of these 2 collectives were found on more than one of the 2 open ranks"),
            "{common}"
        );
        let apart = said(&[reduce(0, 0), rank(1, "ncclDevKernel_AllGather_RING_LL", 1_000_000)]);
        let unknown = "None of these 2 collectives was found on more than one of the 2 open ranks: who waited for \
                       whom, and how far the clocks of the ranks are apart, is not known";
        assert_eq!(apart, unknown);
        assert!(!said(&[reduce(0, 0)]).contains("open ranks"));
        // Of two files each by itself the numbers may differ.
        let of_one = |traces: &[Trace]| {
            let models: Vec<&Trace> = traces.iter().collect();
            let ranges = Some(vec![TimeRange::ALL, Scope::NOTHING]);
            rows(&Scope { ranges, ..Scope::whole(&models) }, false).head.remove(0).0
        };
        let none = of_one(&[reduce(0, 0), rank(1, "ncclDevKernel_AllGather_RING_LL", 1_000_000)]);
        assert!(none.starts_with("None of these collectives was found"), "{none}");
        let common = of_one(&[reduce(0, 0), reduce(1, 3_000_000)]);
        assert!(common.starts_with("In each file shown, 1 of 1 collectives were found on"), "{common}");
    }
}
