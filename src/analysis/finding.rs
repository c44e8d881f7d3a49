//! What an analysis found that a person should know, and how much it matters.

use serde::Serialize;

use crate::model::{self, TimeNs};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Note,
    Warn,
    High,
}

/// An import problem that lost something is a warning, and a part of a file that could not be read is high.
impl From<model::Severity> for Severity {
    fn from(severity: model::Severity) -> Self {
        match severity {
            model::Severity::Note => Self::Note,
            model::Severity::Loss => Self::Warn,
            model::Severity::Error => Self::High,
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Machine name of the rule that found it: `memory_leak`.
    pub rule: &'static str,
    pub severity: Severity,
    /// A sentence without a period at its end. It may hold text from a file: escape it.
    pub text: String,
    /// The figure that the rule judges, in the unit that the rule says: bytes, or a count.
    pub measured: f64,
    /// From where on the rule finds something, in the same unit.
    pub threshold: f64,
    pub evidence: Evidence,
    /// What might help, a sentence each.
    pub advice: Vec<String>,
}

/// Where to look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Start and end on the session clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_ns: Option<[TimeNs; 2]>,
    /// Names of what it is about, such as places in the program.
    pub names: Vec<String>,
}
