//! Figures of phases: time on the host, and of the device work launched meanwhile.

use std::sync::Arc;

use super::{Cell, Part, figures};
use crate::analysis::phases::Phase;
use crate::model::DurNs;

/// The time of one phase.
#[derive(Clone, Debug)]
pub struct PhaseTotals {
    /// Title of the file, where its rank does not distinguish it.
    pub file: Option<Arc<str>>,
    pub rank: Option<u32>,
    pub phase: Phase,
    pub total_ns: DurNs,
    /// Of all phases together.
    pub window_ns: DurNs,
    /// 0 if unknown.
    pub n_steps: usize,
    pub device_ns: DurNs,
}

/// Phases of the judged steps, or of the whole trace; they sum to it.
///
/// * `has_device`: whether any device work was recorded.
pub fn phases(has_device: bool) -> Part<PhaseTotals> {
    let figures = figures! { row: PhaseTotals;
        words "file", "File", 140, Cell::or_empty(row.file.as_deref(), Cell::name),
            "The file, where the rank is ambiguous";
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        words "phase", "Phase", 110, Cell::name(row.phase.key()), "Phase of a step, by annotations and operators";
        number "total_ns", "Time", 90, Cell::Ns(row.total_ns), "Time on the thread that launches";
        number "share", "Share", 70, Cell::Share(row.total_ns as f64 / row.window_ns.max(1) as f64),
            "Share of the steps, or of the whole trace";
        number "ns_per_step", "Per step", 90,
            Cell::or_empty((row.n_steps > 0).then(|| row.total_ns / row.n_steps.max(1) as i64), Cell::Ns), "Mean of a \
                step";
        number "device_ns", "On the device", 90, Cell::Ns(row.device_ns),
            "Durations of the device work launched in it; concurrent work counts twice";
    };
    let part = Part::new("phases", "Phases", figures).json("rank phase total_ns share ns_per_step device_ns");
    if has_device { part } else { part.without("device_ns") }
}
