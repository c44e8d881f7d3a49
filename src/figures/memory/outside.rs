//! Figures of a GPU's memory outside PyTorch.

use super::{Owned, Owner, owner};
use crate::analysis::finding::{Evidence, Finding, Unit};
use crate::analysis::memory::outside::{Outside, OutsideVerdict};
use crate::figures::{Cell, Part, figures, format};
use crate::model::Severity;

/// Memory outside PyTorch on the GPU of one process.
#[derive(Clone, Debug)]
pub struct OutsideMemory {
    pub owner: Owner,
    pub outside: Outside,
}

impl Owned for OutsideMemory {
    fn owner(&self) -> Owner {
        self.owner.clone()
    }
}

/// The keys inside `memory` of the JSON report.
pub const KEYS: &str = "verdict readings start_bytes end_bytes bytes_per_second growth_bytes r2";

/// What the driver says is used less what PyTorch reserved, by device.
pub fn outside_memory() -> Part<OutsideMemory> {
    let figures = figures! { row: OutsideMemory;
        with owner();
        words "verdict", "Verdict", 110, Cell::name(row.outside.verdict.key()), "Whether it grows";
        number "readings", "Readings", 70, Cell::Count(row.outside.readings as u64),
            "Readings of the driver while the memory was recorded";
        number "start_bytes", "At start", 90, Cell::Gain(row.outside.start),
            "Used on the GPU less what PyTorch reserved, at the first of them";
        number "end_bytes", "At end", 90, Cell::Gain(row.outside.end), "The same at the last";
        number "bytes_per_second", "Gain a second", 100, Cell::Gain(row.outside.bytes_per_second.round() as i64),
            "Slope of that";
        number "growth_bytes", "Gain in all", 90, Cell::Gain(row.outside.growth.round() as i64),
            "What the slope makes over all readings";
        number "r2", "Fit", 60, Cell::Share(row.outside.r2), "How far it is a line";
    };
    Part::new("outside_pytorch", "GPU memory outside PyTorch", figures)
}

/// The verdict as one sentence.
pub fn outside_sentence(of: &Outside) -> String {
    let size = |bytes: f64| format::bytes(bytes.max(0.0));
    match of.verdict {
        OutsideVerdict::Growth => format!(
            "GPU memory outside PyTorch grows by {} a second, {} in all, to {}",
            size(of.bytes_per_second),
            size(of.growth),
            size(of.end as f64)
        ),
        OutsideVerdict::Level => format!("GPU memory outside PyTorch stays level, at {}", size(of.end as f64)),
        OutsideVerdict::TooFewReadings => {
            "There are too few readings of the driver to say whether GPU memory outside PyTorch grows".to_owned()
        }
        OutsideVerdict::NoOverlap => {
            "The log of GPU metrics was not recorded at the same time as this memory".to_owned()
        }
    }
}

/// Memory outside PyTorch that grows. Measured and threshold are in bytes.
pub fn outside_growth(of: &Outside) -> Option<Finding> {
    (of.verdict == OutsideVerdict::Growth).then(|| Finding {
        rule: "outside_growth",
        severity: Severity::Warn,
        text: outside_sentence(of),
        measured: of.growth,
        threshold: of.threshold,
        default_threshold: None,
        unit: Unit::Bytes,
        evidence: Evidence::default(),
        ceiling_ns_per_step: None,
        recorder_ns_per_step: None,
        ahead_ns_per_step: None,
        advice: vec![
            "No memory snapshot shows it: look at other processes on the GPU (nvidia-smi), at communicators that are \
             made again and again (NCCL), at libraries and extensions that call cudaMalloc themselves, and at CUDA \
             graphs and modules that are loaded step after step. `lacuna monitor` shows whether it stops"
                .to_owned(),
        ],
    })
}
