//! Figures of collectives.

use super::{Cell, Part, figures};
use crate::analysis::collectives::CollectiveTotals;

/// Collectives by operation and group, with their exposed time and bandwidth.
pub fn collectives() -> Part<CollectiveTotals> {
    const OP: &str = "What it does, by what was recorded with it, else by the name of its kernel";
    const BYTES: &str = "Bytes of each call: the output of a gathering, else the input (convention of nccl-tests)";
    const TIME: &str = "Sum of the durations of its kernels, which include waiting for other ranks";
    const ALG: &str = "Algorithm bandwidth: bytes by the time of the kernels, waiting for other ranks included";
    const BUS: &str = "Bus bandwidth, comparable with that of the links whatever the number of ranks n: algorithm \
                       bandwidth × 2(n-1)/n for all-reduce, × (n-1)/n for reduce-scatter, all-gather and all-to-all";
    let figures = figures! { row: CollectiveTotals;
        words "op", "Operation", 130, Cell::name(row.op.label()), OP;
        words "group", "Group", 70, Cell::text(&row.group), "Name of the process group";
        number "n_ranks", "Ranks", 60, Cell::number(row.n_ranks), "Number of ranks in the group";
        words "dtype", "Type", 80, Cell::text(&row.dtype), "Type of an element";
        number "bytes", "Size each", 90, Cell::or_empty(row.bytes, Cell::Bytes), BYTES;
        number "count", "Count", 60, Cell::Count(row.durations.calls), "How many kernels";
        number "total_ns", "Total", 84, Cell::Ns(row.durations.total_ns), TIME;
        number "exposed_ns", "Exposed", 84, Cell::Ns(row.exposed_ns),
            "Time with any of them while nothing computes on the same device";
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
    };
    const REPORT: &str = "op group n_ranks dtype bytes count total_ns exposed_ns overlap alg_gb_per_s bus_gb_per_s \
                          mean_ns min_ns max_ns";
    Part::new("collectives", "Collectives", figures).report(REPORT).json(REPORT)
}
