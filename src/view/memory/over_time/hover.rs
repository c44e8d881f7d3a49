//! The tooltip of the block under the pointer.

use eframe::egui::{Label, PopupAnchor, Response, RichText, Tooltip, Ui};

use super::Chart;
use super::axis::AxisKind;
use crate::analysis::memory::labels::foremost;
use crate::figures::format;
use crate::figures::memory::lifetime_text;
use crate::figures::text::{display_name, frame_within};
use crate::model::memory::AllocationId;
use crate::model::{MemoryHistory, StackId, TimeNs, Trace};
use crate::widget::prose::{plain, prose_ui};

/// Frames in the tooltip.
const MAX_FRAMES: usize = 6;
/// Characters of each.
const MOST: usize = 64;

/// The lines of the tooltip of a block in a state.
///
/// * `at`: the time under the pointer as the recording counts; `None` where the axis counts events, each of which has
///   one time.
fn lines(trace: &Trace, history: &MemoryHistory, id: AllocationId, state: u32, at: Option<TimeNs>) -> Vec<String> {
    let (all, i) = (&history.allocations, id.idx());
    let mut lines = Vec::new();
    if all.requested[i] != all.bytes[i] {
        lines.push(format!("{} requested", format::bytes(all.requested[i] as f64)));
    }
    let category = trace.strings.get(all.category(id));
    if !category.is_empty() {
        lines.push(format!("Category {}", display_name(category)));
    }
    lines.extend(history.address_of(id).map(|addr| format!("{addr:#x}, {}", history.pool_of(id))));
    if !history.has_changes() {
        lines.push("Live when the snapshot was taken".to_owned());
        return lines;
    }
    let born = match history.alloc_event(id) {
        Some(event) => format!("Allocated by event {}", format::count(event.into())),
        None => "Allocated before the recording began".to_owned(),
    };
    let gone = match history.free_event(id) {
        Some(event) => format!("freed by event {}", format::count(event.into())),
        None => "live at the end".to_owned(),
    };
    lines.push(format!("{born}, {gone}"));
    let [start, end] = history.states_of(id).map(|state| state.min(history.n_states()));
    // What lay before the recording, nobody knows.
    let least = if history.alloc_event(id).is_none() { "at least " } else { "" };
    let age = if history.has_time {
        let life = history.life(id);
        let at = at.unwrap_or(history.time_of(state)).clamp(life.start, life.end.max(life.start));
        format::duration(at.saturating_sub(life.start))
    } else {
        format::of_things(u64::from(state.clamp(start, end.max(start)) - start), "event")
    };
    let [lifetime, _] = lifetime_text(history, id);
    lines.push(format!("Lifetime {lifetime}, age here {least}{age}"));
    if all.freed[i] <= state && state < all.end[i] {
        lines.push("Freed by the program, but still waiting for a stream".to_owned());
    }
    lines
}

/// The frames that tell most of a stack, innermost first, with `…` where others are left out between them.
fn stack_lines(trace: &Trace, stack: StackId) -> Vec<String> {
    let mut lines = Vec::new();
    let mut next = None;
    for (at, frame) in foremost(trace, stack, MAX_FRAMES) {
        if next.is_some_and(|next| next != at) {
            lines.push("…".to_owned());
        }
        lines.push(frame_within(&display_name(frame), MOST));
        next = Some(at + 1);
    }
    lines
}

/// Shows the tooltip.
///
/// * `position`: on the axis under the pointer.
pub fn ui(ui: &Ui, canvas: &Response, chart: &Chart<'_>, id: AllocationId, state: u32, position: i64) {
    let at = (chart.axis.kind == AxisKind::Time).then(|| position.saturating_sub(chart.axis.offset));
    let (history, trace) = (chart.shown.history(), chart.shown.trace());
    let bytes = history.allocations.bytes[id.idx()];
    let stack = history.allocations.stack[id.idx()];
    let tooltip =
        Tooltip::always_open(ui.ctx().clone(), canvas.layer_id, canvas.id, PopupAnchor::Pointer).gap(14.0).width(460.0);
    tooltip.show(|ui| {
        let exact = if bytes < 1024 { String::new() } else { format!(" ({} B)", format::count(bytes)) };
        ui.label(RichText::new(format!("{}{exact}", format::bytes(bytes as f64))).strong());
        lines(trace, history, id, state, at).into_iter().for_each(|line| drop(prose_ui(ui, &line, plain)));
        let frames = stack_lines(trace, stack);
        ui.add_space(3.0);
        if frames.is_empty() {
            ui.weak("No call stack was recorded for it");
        }
        for frame in frames {
            // A tooltip keeps the width of the one before: in that a longer frame would lose its end.
            ui.add(Label::new(RichText::new(frame).monospace().size(11.0)).extend());
        }
        if trace.stacks.frames(stack).nth(MAX_FRAMES).is_some() {
            ui.weak("Innermost first. The details have the whole stack");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::memory::fixture::Script;
    use crate::model::TraceBuilder;
    use crate::model::memory::{MemoryAction, MemoryEvent, MemoryPool, RawMemory};

    #[test]
    fn frames_are_in_the_order_of_calls_and_gaps_are_marked() {
        let mut script = Script::default();
        let own: Vec<String> = (1..=4).map(|line| format!("call_{line} (/me/run.py:{line})")).collect();
        let inner = |name: &str| format!("{name} (/x/site-packages/torch/optim/sgd.py:8)");
        let library = ["_init", "step", "wrapper", "inner"].map(inner);
        let frames: Vec<&str> = library.iter().chain(&own).map(String::as_str).collect();
        let stack = script.stack(&frames);
        let lines = stack_lines(&script.finish(), stack);
        let starts: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(starts, ["_init", "step", "…", "call_1", "call_2", "call_3", "call_4"]);
    }

    #[test]
    fn a_block_is_as_old_as_the_time_under_the_pointer_says() {
        let mut raw = RawMemory { has_time: true, ..RawMemory::default() };
        let pool = raw.pool(MemoryPool::default());
        for (ts, addr) in [(1_000_000, 1 << 20), (5_000_000, 1 << 30), (60_000_000, 1 << 40)] {
            let (action, stack) = (MemoryAction::Alloc, StackId::default());
            raw.events.push(MemoryEvent { ts, action, addr, bytes: 1 << 20, pool, stack });
        }
        let trace = TraceBuilder { memories: vec![raw], ..TraceBuilder::default() }.finish();
        let history = &trace.memories[0];
        let age = |state: u32, at: Option<TimeNs>| lines(&trace, history, AllocationId(0), state, at).pop().unwrap();
        assert!(age(2, Some(31_000_000)).ends_with("age here 30.000 ms"), "{}", age(2, Some(31_000_000)));
        assert!(age(2, Some(2_000_000)).ends_with("age here 1.000 ms"), "{}", age(2, Some(2_000_000)));
        assert!(age(1, Some(0)).ends_with("age here 0 ns"), "{}", age(1, Some(0)));
        assert!(age(2, None).ends_with("age here 4.000 ms"), "{}", age(2, None));
        // It is live at the end.
        assert!(age(2, None).starts_with("Lifetime at least "), "{}", age(2, None));
    }
}
