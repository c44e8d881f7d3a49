//! Figures of collectives.

use std::sync::Arc;

use super::{Cell, Object, Part, figures};
use crate::analysis::collectives::CollectiveTotals;
use crate::analysis::collectives::ranks::{ClockError, RankOf, RankTotals};
use crate::model::DurNs;

/// Collectives by operation and group, with their exposed time and bandwidth.
pub fn collectives() -> Part<CollectiveTotals> {
    const OP: &str = "The operation as recorded, else by the name of its kernel";
    const BYTES: &str = "Bytes of each call: the output of a gathering, else the input (convention of nccl-tests)";
    const TIME: &str = "Sum of the durations of its kernels, of those of the host of their ranges, which include \
                        waiting for other ranks";
    const WAIT: &str = "Of the total, how long ranks waited for the last one to come: what a kernel takes longer than \
                        the shortest of the same call, of the ranks that are open; only of calls found on several of \
                        them. As in the total, of calls at the same time each counts, and so does waiting beside compute, of \
                        which findings tell nothing";
    const ALG: &str = "Algorithm bandwidth: bytes by the time of the transfer where calls were found on several ranks, \
                       else by that of the kernels, waiting for other ranks included";
    const BUS: &str = "Bus bandwidth, comparable with that of the links whatever the number of ranks n: algorithm \
                       bandwidth × 2(n-1)/n for all-reduce, × (n-1)/n for reduce-scatter, all-gather and all-to-all";
    let figures = figures! { row: CollectiveTotals;
        words "op", "Operation", 130, Cell::name(row.op.label()), OP;
        words "backend", "On the host", 84, Cell::text(row.backend.unwrap_or_default()),
            "What runs it in threads of the host, such as Gloo; empty for kernels of a device";
        words "group", "Group", 70, Cell::text(&row.group), "Name of the process group";
        number "n_ranks", "Ranks", 60, Cell::number(row.n_ranks), "Number of ranks in the group";
        words "dtype", "Type", 80, Cell::text(&row.dtype), "Type of an element";
        number "bytes", "Size each", 90, Cell::or_empty(row.bytes, Cell::Bytes), BYTES;
        number "count", "Count", 60, Cell::Count(row.durations.calls), "How many kernels, or ranges of the host";
        number "total_ns", "Total", 84, Cell::Ns(row.durations.total_ns), TIME;
        number "exposed_ns", "Exposed", 84, Cell::or_empty(row.exposed_ns, Cell::Ns),
            "Time with any of them while nothing computes on the same device; of those of the host, on any of their \
             trace";
        number "wait_ns", "Waited", 84, Cell::or_empty(row.ranks, |ranks| Cell::Ns(ranks.wait_ns)), WAIT;
        number "max_wait_ns", "Longest wait", 84, Cell::or_empty(row.ranks, |ranks| Cell::Ns(ranks.max_wait_ns)),
            "Longest time from the first rank to the last of one call, of the ranks that are open";
        number "late_rank", "Late rank", 70, Cell::number(late(row)),
            "The rank for which the others waited most, of the ranks that are open";
        number "transfer_ns", "Transfer", 84, Cell::or_empty(row.ranks, |ranks| Cell::Ns(ranks.transfer_ns)),
            "The rest of the time of calls found on several ranks: with ranks that are not open, also waiting for \
             those";
        number "matched", "On several ranks", 110, Cell::or_empty(row.ranks, |ranks| Cell::Count(ranks.matched)),
            "How many of them are of calls found on several of the ranks that are open";
        words "ranks", "Ranks", 0, Cell::or_empty(row.ranks, |_| Cell::Object(Box::new(ranks(row)))),
            "Waiting of ranks for each other";
        number "overlap", "Overlap", 70, Cell::or_empty(row.overlap, Cell::Share),
            "Share of their time in which something computes on the same device";
        number "total_bytes", "Size", 90, Cell::or_empty(row.total_bytes, Cell::Bytes),
            "Bytes of all calls together, as far as recorded";
        number "alg_gb_per_s", "Algorithm GB/s", 110, Cell::or_empty(row.alg_gb_per_s, Cell::GbPerS), ALG;
        number "bus_gb_per_s", "Bus GB/s", 110, Cell::or_empty(row.bus_gb_per_s, Cell::GbPerS), BUS;
        number "mean_ns", "Mean", 84, Cell::Ns(row.durations.mean_ns), "Mean duration";
        number "median_ns", "Median", 84, Cell::Ns(row.durations.median_ns),
            "The middle duration: half of them are shorter";
        number "min_ns", "Min", 84, Cell::Ns(row.durations.min_ns),
            "The shortest duration: the one that waited least for other ranks";
        number "max_ns", "Max", 84, Cell::Ns(row.durations.max_ns), "The longest duration";
        number "std_ns", "Std", 84, Cell::or_empty(row.durations.std_ns, Cell::Ns),
            "Standard deviation of the durations, of more than one";
    };
    const REPORT: &str = "op backend group n_ranks dtype bytes count total_ns wait_ns late_rank exposed_ns overlap \
                          alg_gb_per_s bus_gb_per_s mean_ns median_ns min_ns max_ns std_ns";
    const JSON: &str = "op backend group n_ranks dtype bytes count total_ns exposed_ns overlap alg_gb_per_s \
                        bus_gb_per_s mean_ns median_ns min_ns max_ns std_ns ranks";
    // The total and what is exposed of it stay in view where the slices of a row take part of the room.
    const WINDOW: &str = "op bytes count total_ns exposed_ns backend group n_ranks dtype wait_ns max_wait_ns late_rank \
                          transfer_ns matched overlap total_bytes alg_gb_per_s bus_gb_per_s mean_ns median_ns min_ns \
                          max_ns std_ns";
    Part::new("collectives", "Collectives", figures).window(WINDOW).report(REPORT).json(JSON)
}

fn late(row: &CollectiveTotals) -> Option<u32> {
    row.ranks?.late.map(|late| late.0)
}

/// Waiting of ranks for each other: `wait_ns + transfer_ns` is the time of the kernels in `matched`.
fn ranks(row: &CollectiveTotals) -> Object {
    collectives().object(row, "matched wait_ns transfer_ns max_wait_ns late_rank")
}

/// A rank among others, with the title of its file where that is needed.
#[derive(Clone, Debug)]
pub struct RankRow {
    pub file: Option<Arc<str>>,
    pub of: RankOf,
    pub totals: RankTotals,
    /// Ranks that were recorded together with it, itself included.
    pub n_ranks: usize,
}

/// Ranks that were recorded together, by how long others waited for them.
pub fn ranks_of_jobs() -> Part<RankRow> {
    /// Empty where nothing was matched: nothing tells who waited.
    fn matched(row: &RankRow, cell: impl Fn(&RankTotals) -> Cell) -> Cell {
        if row.of.matched == 0 { Cell::Empty } else { cell(&row.totals) }
    }
    /// Only collectives tell how far clocks are apart: without any that others have, nothing is known of it.
    fn clock(row: &RankRow, ns: impl Fn(&ClockError) -> DurNs) -> Cell {
        let known = row.of.clock.filter(|_| row.of.matched > 0);
        Cell::or_empty(known, |clock| Cell::Ns(ns(&clock)))
    }
    const UNMATCHED: &str = "Collectives that were found on no other of these ranks, or of which nothing tells which \
                             call they are there";
    const CLOCK: &str = "To add to its times for those of the first of these ranks, beside what its file says of its \
                         clock: the median by which the ends of their collectives differ";
    let figures = figures! { row: RankRow;
        words "file", "File", 120, Cell::text(row.file.as_deref().unwrap_or_default()), "Title of the file";
        number "rank", "Rank", 50, Cell::Count(u64::from(row.of.rank)), "Rank of the process";
        number "n_ranks", "Of ranks", 70, Cell::Count(row.n_ranks as u64),
            "Ranks that were recorded together and are compared, this one included";
        number "matched", "Collectives", 90, Cell::Count(row.of.matched), "Its collectives that were found on other \
            ranks";
        number "unmatched", "Not found", 90, Cell::Count(row.of.unmatched), UNMATCHED;
        number "point_to_point", "Sends", 70, Cell::Count(row.of.point_to_point), "Sends and receives, not compared";
        number "late", "Last", 60, matched(row, |of| Cell::Count(of.late)), "How often it came last";
        number "waited_for_ns", "Others waited", 100, matched(row, |of| Cell::Ns(of.waited_for_ns)),
            "How long all others together waited for it";
        number "wait_ns", "Waited", 90, matched(row, |of| Cell::Ns(of.wait_ns)), "How long it waited for others, in \
            its collectives: time in which it waited in several at once counts once";
        number "transfer_ns", "+ Transfer", 90, matched(row, |of| Cell::Ns(of.transfer_ns)),
            "The rest of the time of its collectives: with ranks that are not given, also waiting for those";
        number "clock_offset_ns", "Clock off by", 100,
            clock(row, |clock| clock.offset_ns), CLOCK;
        number "clock_error_ns", "Clock error", 84, clock(row, |clock| clock.residual_ns),
            "How far nine of ten of its collectives end from those of other ranks then";
    };
    Part::new("ranks", "Ranks: waiting for each other", figures)
}

/// What is not known of ranks none of whose collectives were found on others; else why their waits are less than those
/// of the collectives, if they are.
pub fn note_of_ranks(rows: &[RankRow]) -> &'static str {
    let is_unmatched = |row: &RankRow| row.of.matched == 0;
    match (rows.iter().all(is_unmatched), rows.iter().any(is_unmatched)) {
        (_, false) if rows.iter().any(|row| row.totals.at_once_ns > 0) => {
            "Time in which a rank waited in several collectives at once counts once here, and in each of them where \
             collectives are listed by operation or size"
        }
        (_, false) => "",
        (true, _) => {
            "No collective of one of these ranks could be found on another, so it is not known who waited for whom, \
             nor how far their clocks are apart"
        }
        (false, _) => {
            "Of a rank whose collectives were found on no other it is not known who waited for whom, nor how far its \
             clock is off"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_ranks_without_common_collectives_no_waiting_is_known() {
        let waits = |matched| {
            let of = RankOf { trace: 0, rank: 0, job: 0, matched, point_to_point: 0, unmatched: 3, clock: None };
            let row = RankRow { file: None, of, totals: RankTotals::default(), n_ranks: 2 };
            ranks_of_jobs().object(&row, "late waited_for_ns wait_ns transfer_ns")
        };
        assert!(waits(0).0.iter().all(|(_, cell)| *cell == Cell::Empty));
        assert!(waits(1).0.iter().all(|(_, cell)| *cell != Cell::Empty));
    }

    #[test]
    fn of_ranks_without_common_collectives_the_clock_is_not_known() {
        let row = |matched| {
            // The first rank, by whose clock the others are judged.
            let clock = Some(ClockError::default());
            let of = RankOf { trace: 0, rank: 0, job: 0, matched, point_to_point: 0, unmatched: 7, clock };
            RankRow { file: None, of, totals: RankTotals::default(), n_ranks: 2 }
        };
        let cells = |matched| ranks_of_jobs().object(&row(matched), "clock_offset_ns clock_error_ns").0;
        assert!(cells(0).iter().all(|(_, cell)| *cell == Cell::Empty));
        assert!(cells(5).iter().all(|(_, cell)| *cell == Cell::Ns(0)));
        let note = |all: [u64; 2]| note_of_ranks(&all.map(row));
        assert_eq!(note([5, 5]), "");
        assert!(note([0, 0]).starts_with("No collective of one of these ranks could be found on another"));
        let at_once = RankRow { totals: RankTotals { at_once_ns: 1, ..RankTotals::default() }, ..row(5) };
        assert!(note_of_ranks(&[row(5), at_once]).starts_with("Time in which a rank waited in several"));
        assert!(note([5, 0]).starts_with("Of a rank whose collectives were found on no other"));
    }
}
