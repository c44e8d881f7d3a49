//! What a file holds of whose time nothing else is told.

use crate::analysis::rules::Rule;
use crate::figures::format;
use crate::figures::memory::TimelineCategory;
use crate::figures::verdicts::{Judged, percent};
use crate::model::Format;

/// Categories with less of the peak are not named.
const LARGE: f64 = 0.1;
/// Most categories that are named.
const MOST_NAMED: usize = 3;

/// `None` where the file has a memory or a log of readings, which are told by themselves. May contain text from a file.
///
/// * `file`: how it is called.
pub(super) fn paragraph(of: &Judged<'_>, file: &str) -> Option<String> {
    let trace = of.trace;
    if trace.is_empty() {
        return Some(format!("{file} holds no events that could be shown: there is nothing to judge"));
    }
    if !trace.memories.is_empty() || trace.info.format == Format::GpuMetrics {
        return None;
    }
    if let Some(hit) = of.verdicts.hits.iter().find(|hit| hit.rule == Rule::IncompleteRecording) {
        let share = percent(hit.measured);
        return Some(format!("{file} holds about {share} of its events: no verdict about time rests on it"));
    }
    if trace.info.format == Format::MemoryTimeline {
        return timeline(of);
    }
    let parts = [
        (trace.slices.len(), "slice"),
        (trace.instants.ts.len(), "moment"),
        (trace.samples.ts.len(), "sample"),
        (trace.counters.iter().map(|counter| counter.ts.len()).sum(), "value"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format::of_things(*n as u64, what)).collect();
    let parts = match parts.split_last()? {
        (last, []) => last.clone(),
        (last, first) => format!("{} and {last}", first.join(", ")),
    };
    let span = format::duration(trace.span.dur());
    Some(format!(
        "{file} holds {parts} in {span}, and nothing by which the time of a device or of a thread could be judged"
    ))
}

/// The peak of a memory timeline that holds sums by category, and what it was.
fn timeline(of: &Judged<'_>) -> Option<String> {
    let categories = TimelineCategory::all(of.trace, None, of.offset);
    let (total, parts) = categories.split_first()?;
    let mut largest: Vec<&TimelineCategory<'_>> = parts.iter().collect();
    largest.sort_by_key(|category| std::cmp::Reverse(category.at_peak()));
    let share = |category: &TimelineCategory<'_>| category.at_peak() as f64 / total.at_peak().max(1) as f64;
    let named = largest.iter().take(MOST_NAMED).filter(|category| share(category) >= LARGE);
    let size = |bytes: u64| format::bytes(bytes as f64);
    let named = named.map(|one| format!("{} {} ({})", one.name(), size(one.at_peak()), percent(share(one))));
    let named: Vec<String> = named.collect();
    let most = if named.is_empty() { String::new() } else { format!("; most at the peak: {}", named.join(", ")) };
    let file = of.name.map(|name| format!("{name}: ")).unwrap_or_default();
    Some(format!(
        "{file}Peak {}{most}. At the end {}. The file holds sums by category: which blocks and code these are was not \
         recorded",
        size(total.at_peak()),
        size(total.at_end())
    ))
}
