//! Findings about one memory that both a trace and a memory history recorded.

use crate::analysis::finding::Finding;
use crate::analysis::frame::Frame;
use crate::model::memory::MemorySource;
use crate::session::OpenMemory;

/// A finding about a memory.
pub struct Found<'a> {
    pub of: &'a OpenMemory,
    pub finding: Finding,
    /// The frame that names its place; empty for all memory.
    pub place: String,
}

/// The findings; where a trace and a memory history say the same of one memory, only that of the history, which knows the
/// line: a trace knows the one at which the function begins.
///
/// Cost: O(findings²).
pub fn joined(found: &[Found<'_>]) -> Vec<Finding> {
    let of_history = |one: &&Found<'_>| found.iter().position(|other| is_same(other, one));
    let twins: Vec<Option<usize>> = found.iter().map(|one| of_history(&one)).collect();
    let mut kept: Vec<Finding> = found.iter().map(|one| one.finding.clone()).collect();
    for (one, twin) in found.iter().zip(&twins) {
        if let Some(twin) = *twin {
            let known = &mut kept[twin];
            known.severity = known.severity.max(one.finding.severity);
            known.evidence.notes.push(format!("The profiler shows it, too: {}", one.finding.text));
        }
    }
    let mut is_own = twins.iter().map(Option::is_none);
    kept.retain(|_| is_own.next().unwrap_or(true));
    kept
}

/// Whether a history's finding says what a profiler's does: of one device and process at one time, and of one function.
fn is_same(history: &Found<'_>, profiler: &Found<'_>) -> bool {
    let [a, b] = [history.of, profiler.of].map(OpenMemory::history);
    let is_pair = (a.source, b.source) == (MemorySource::Snapshot, MemorySource::Profiler) && a.has_time && b.has_time;
    let or_unknown = |a: Option<i64>, b: Option<i64>| a.is_none() || b.is_none() || a == b;
    let rank = |of: &OpenMemory| of.trace().info.rank.map(i64::from);
    let [at, other] = [history, profiler].map(|one| one.of.history().span.shifted(one.of.open.offset));
    let function = |one: &Found<'_>| {
        let frame = Frame::of(&one.place);
        let file = frame.file.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        (file, frame.function.to_owned())
    };
    is_pair
        && a.device == b.device
        && or_unknown(a.pid, b.pid)
        && or_unknown(rank(history.of), rank(profiler.of))
        && at.start < other.end
        && other.start < at.end
        && history.finding.rule == profiler.finding.rule
        && function(history) == function(profiler)
}
