//! Findings of analyses, with severity and evidence.

use serde::Serialize;

use crate::model::{DurNs, Severity, TimeNs};

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Machine name of the rule: `memory_leak`.
    pub rule: &'static str,
    pub severity: Severity,
    /// A sentence without a trailing period. May contain text from a file: escape it.
    pub text: String,
    pub measured: f64,
    /// The threshold of the rule that it reached.
    pub threshold: f64,
    /// What the threshold is by default, if it was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_threshold: Option<f64>,
    /// Of the measured value and the threshold.
    pub unit: Unit,
    pub evidence: Evidence,
    /// What ending the cause would gain per step at most, in nanoseconds: one device, the slowest of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling_ns_per_step: Option<DurNs>,
    /// What the recorder took per step of what ending the cause would gain, at least; not in the ceiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorder_ns_per_step: Option<DurNs>,
    /// What of the ceiling is idle time of other causes, in which the host would be ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead_ns_per_step: Option<DurNs>,
    /// Advice, one sentence each.
    pub advice: Vec<String>,
}

/// Unit of a measured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Count,
    Bytes,
    BytesPerStep,
    /// 0 to 1.
    Share,
    /// One figure by another; 1 if they are equal.
    Ratio,
}

/// Location of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Start and end on the session clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_ns: Option<[TimeNs; 2]>,
    /// Recorded index of the device.
    #[serde(skip)]
    pub device: Option<u32>,
    /// Names of the objects concerned, such as frames.
    pub names: Vec<String>,
    /// What else shows it, one sentence each without a trailing period.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
