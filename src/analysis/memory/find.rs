//! Filtering of allocations by call stack, size, lifetime, stream and category.

use std::sync::Arc;

use regex_lite::{Regex, RegexBuilder};

use crate::model::memory::AllocationId;
use crate::model::{DurNs, MemoryHistory, StackId, StringId, StringTable, TimeRange, Trace};

/// When an allocation must be live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Liveness {
    #[default]
    Any,
    /// Live in this state.
    LiveIn(u32),
    /// Live when the recording ended.
    LiveAtEnd,
    /// Allocated before the recording began.
    FromBefore,
    /// Allocated and freed during the recording.
    FreedWithin,
    /// Freed by the program, but awaiting completion of the free for at least one event.
    AwaitingFree,
    /// Allocated within [`Filter::range`]; without a range, any.
    BornInRange,
}

/// Conditions on an allocation; all must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// A case-insensitive regular expression that some frame of the call stack must match; empty matches
    /// all. Text that is not a valid expression is matched literally.
    pub stack: String,
    /// Smallest and largest size in bytes, inclusive.
    pub bytes: (u64, u64),
    /// Shortest and longest lifetime, inclusive: in nanoseconds, or in events if the file has no times.
    pub life: (DurNs, DurNs),
    pub stream: Option<i64>,
    pub category: Option<StringId>,
    pub liveness: Liveness,
    /// Live at some time in this range, in trace time.
    pub range: Option<TimeRange>,
    /// Restricts the result to these allocations; sorted.
    pub among: Option<Arc<Vec<AllocationId>>>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            stack: String::new(),
            bytes: (0, u64::MAX),
            life: (0, DurNs::MAX),
            stream: None,
            category: None,
            liveness: Liveness::Any,
            range: None,
            among: None,
        }
    }
}

fn build(text: &str) -> Option<Regex> {
    RegexBuilder::new(text).case_insensitive(true).size_limit(1 << 20).build().ok()
}

/// Whether a text is a valid regular expression.
pub fn is_pattern(text: &str) -> bool {
    build(text).is_some()
}

/// The text as a regular expression, or as a literal if it is not a valid expression.
fn pattern(text: &str) -> Option<Regex> {
    build(text).or_else(|| build(&regex_lite::escape(text)))
}

/// For each stack of a trace, whether a frame matches; all match an empty text.
///
/// Cost: O(strings + stacks).
pub fn matching_stacks(trace: &Trace, text: &str) -> Vec<bool> {
    let stacks = &trace.stacks;
    if text.is_empty() {
        return vec![true; stacks.len()];
    }
    let strings: &StringTable = &trace.strings;
    let Some(pattern) = pattern(text) else { return vec![false; stacks.len()] };
    let mut known = hashbrown::HashMap::new();
    let mut fits = vec![false; stacks.len()];
    for i in 1..stacks.len() {
        let frame = stacks.frame[i];
        // Callers have smaller ids, so their result is known.
        fits[i] = fits[stacks.parent[i].0 as usize]
            || *known.entry(frame).or_insert_with(|| pattern.is_match(strings.get(frame)));
    }
    fits
}

/// The allocations that match a filter, by id; incomplete once cancelled. Of a block that changed its category, the
/// last one.
///
/// Cost: O(allocations + strings + stacks). Cancellation is checked every 65,536 allocations.
pub fn find(
    trace: &Trace,
    history: &MemoryHistory,
    filter: &Filter,
    is_cancelled: &dyn Fn() -> bool,
) -> Vec<AllocationId> {
    let stacks = matching_stacks(trace, &filter.stack);
    let all = &history.allocations;
    let n_states = history.n_states();
    let has_stack = |stack: StackId| stacks.get(stack.0 as usize).copied().unwrap_or(filter.stack.is_empty());
    let states = filter.range.map(|range| (history.state_at(range.start), history.state_at(range.end)));
    // The range includes events at its start.
    let born = filter.range.map(|range| (history.state_at(range.start.saturating_sub(1)), history.state_at(range.end)));
    let fits = |id: AllocationId| {
        let i = id.idx();
        let [start, end] = history.states_of(id);
        let freed = all.freed[history.blocks.ends(id)[1].idx()];
        let has_liveness = match filter.liveness {
            Liveness::Any => true,
            Liveness::LiveIn(state) => all.is_live(id, state),
            Liveness::LiveAtEnd => end >= n_states,
            Liveness::FromBefore => start == 0,
            Liveness::FreedWithin => start > 0 && end < n_states,
            Liveness::AwaitingFree => end > freed.saturating_add(1),
            Liveness::BornInRange => born.is_none_or(|(first, last)| first < start && start <= last),
        };
        has_liveness
            && (filter.bytes.0..=filter.bytes.1).contains(&all.bytes[i])
            && has_stack(all.stack[i])
            && filter.stream.is_none_or(|stream| history.pool_of(id).stream == stream)
            && filter.category.is_none_or(|category| all.category(id) == category)
            && states.is_none_or(|(first, last)| all.start[i] <= last && first < all.end[i])
            && (filter.life.0..=filter.life.1).contains(&history.lifetime(id))
    };
    let ids = |range: std::ops::Range<usize>| -> Vec<AllocationId> {
        match &filter.among {
            Some(among) => among[range].iter().copied().filter(|id| id.idx() < all.len()).collect(),
            None => range.map(|i| AllocationId(i as u32)).collect(),
        }
    };
    let n = filter.among.as_ref().map_or(all.len(), |among| among.len());
    let mut found = Vec::new();
    for first in (0..n).step_by(1 << 16) {
        if is_cancelled() {
            break;
        }
        found.extend(ids(first..(first + (1 << 16)).min(n)).into_iter().filter(|&id| fits(id)));
    }
    if history.blocks.n_changes() > 0 {
        let mut known = hashbrown::HashSet::new();
        found.reverse();
        found.retain(|&id| known.insert(history.blocks.ends(id)[0]));
        found.reverse();
    }
    found
}

/// Parses a size in bytes with an optional unit: `1.5 MB`, `200k`, `4096`. Units are powers of 1,024, as
/// displayed elsewhere. `None` if malformed.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    let number: f64 = number.parse().ok()?;
    let factor = match unit.trim().to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 1.0,
        "k" => 1024.0,
        "m" => 1024.0 * 1024.0,
        "g" => 1024.0 * 1024.0 * 1024.0,
        "t" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((number * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::model::memory::{MemoryAction, MemoryEvent, MemoryPool, RawMemory};

    /// Three blocks, of 512, 1,024 and 4,096 bytes, on two streams; the second is freed.
    fn trace() -> Trace {
        let mut builder = TraceBuilder::default();
        let outer = builder.strings.intern("train (train.py:9)");
        let inner = ["forward (model.py:3)", "backward (model.py:7)", "step (adam.py:1)"];
        let stacks = inner.map(|name| {
            let name = builder.strings.intern(name);
            let callers = builder.stacks.intern(StackId(0), outer);
            builder.stacks.intern(callers, name)
        });
        let mut raw = RawMemory { has_time: true, ..RawMemory::default() };
        let pools = [0, 7].map(|stream| raw.pool(MemoryPool { stream, private: (0, 0) }));
        let mut push = |ts, action, addr, bytes, i: usize| {
            raw.events.push(MemoryEvent { ts, action, addr, bytes, pool: pools[i / 2], stack: stacks[i] });
        };
        push(100, MemoryAction::Alloc, 0x1000, 512, 0);
        push(200, MemoryAction::Alloc, 0x2000, 1_024, 1);
        push(300, MemoryAction::FreeRequested, 0x2000, 1_024, 1);
        push(400, MemoryAction::Alloc, 0x3000, 4_096, 2);
        push(500, MemoryAction::FreeCompleted, 0x2000, 1_024, 1);
        builder.memories.push(raw);
        builder.finish()
    }

    fn found(filter: &Filter) -> Vec<u32> {
        let trace = trace();
        find(&trace, &trace.memories[0], filter, &|| false).iter().map(|id| id.0).collect()
    }

    #[test]
    fn each_condition_filters() {
        assert_eq!(found(&Filter::default()), [0, 1, 2]);
        assert_eq!(found(&Filter { bytes: (600, 4_096), ..Filter::default() }), [1, 2]);
        assert_eq!(found(&Filter { life: (0, 300), ..Filter::default() }), [1, 2]);
        assert_eq!(found(&Filter { stream: Some(7), ..Filter::default() }), [2]);
        assert_eq!(found(&Filter { among: Some(Arc::new(vec![AllocationId(1)])), ..Filter::default() }), [1]);
        let range = Some(TimeRange { start: 410, end: 450 });
        assert_eq!(found(&Filter { range, bytes: (600, 2_000), ..Filter::default() }), [1]);
        let range = Some(TimeRange { start: 200, end: 400 });
        assert_eq!(found(&Filter { range, liveness: Liveness::BornInRange, ..Filter::default() }), [1, 2]);
        for (liveness, expected) in [
            (Liveness::LiveIn(1), vec![0]),
            (Liveness::LiveIn(4), vec![0, 1, 2]),
            (Liveness::LiveAtEnd, vec![0, 2]),
            (Liveness::FromBefore, vec![]),
            (Liveness::FreedWithin, vec![1]),
            (Liveness::AwaitingFree, vec![1]),
            (Liveness::BornInRange, vec![0, 1, 2]),
        ] {
            assert_eq!(found(&Filter { liveness, ..Filter::default() }), expected, "{liveness:?}");
        }
    }

    #[test]
    fn stacks_match_by_any_frame_as_expression_or_literal() {
        let stack = |text: &str| found(&Filter { stack: text.to_owned(), ..Filter::default() });
        assert_eq!(stack("TRAIN"), [0, 1, 2]);
        assert_eq!(stack("^(forward|step) "), [0, 2]);
        assert_eq!(stack(r"model\.py:\d"), [0, 1]);
        assert_eq!(stack("(model.py:7"), [1], "invalid expression: literal");
        assert!(stack("nowhere").is_empty());
        // Expressions that compile to too large an automaton are matched literally.
        assert!(stack("(a{1000}){1000}").is_empty());
    }

    #[test]
    fn sizes_parse_with_units() {
        assert_eq!(parse_bytes("1.5 MiB"), Some(1_572_864));
        assert_eq!(parse_bytes("200k"), Some(204_800));
        assert_eq!(parse_bytes(" 4096 "), Some(4_096));
        assert_eq!(parse_bytes("2 GB"), Some(2 << 30));
        assert_eq!((parse_bytes("many"), parse_bytes("1 zb"), parse_bytes("")), (None, None, None));
    }
}
