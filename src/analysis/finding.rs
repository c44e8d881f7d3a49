//! Findings of analyses, with severity and evidence.

use serde::Serialize;

use crate::model::{Severity, TimeNs};

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Machine name of the rule: `memory_leak`.
    pub rule: &'static str,
    pub severity: Severity,
    /// A sentence without a trailing period. May contain text from a file: escape it.
    pub text: String,
    /// The measured value in the unit of the rule: bytes, or a count.
    pub measured: f64,
    /// The threshold of the rule, in the same unit.
    pub threshold: f64,
    pub evidence: Evidence,
    /// Advice, one sentence each.
    pub advice: Vec<String>,
}

/// Location of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Start and end on the session clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_ns: Option<[TimeNs; 2]>,
    /// Names of the objects concerned, such as frames.
    pub names: Vec<String>,
}
