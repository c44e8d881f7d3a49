//! What is known of one allocation of memory?

use eframe::egui;

use super::{MAX_LINES, cut, exact_ui, more_ui, name_ui, row_ui, section_ui};
use crate::analysis::memory::around::running_at;
use crate::command::Command;
use crate::model::memory::{AllocationId, MemoryPool, SegmentKind};
use crate::model::{MemoryHistory, StackId};
use crate::view::{OpenTrace, Selection, ViewContext};
use crate::widget::format;
use crate::widget::text::display_name;

/// Slices named of one trace.
const MAX_RUNNING: usize = 12;

/// Everything about an allocation: size, life, place, what the program said of it, and call stacks.
pub fn allocation_ui(ctx: &mut ViewContext<'_>, open: &OpenTrace, memory: usize, id: AllocationId, ui: &mut egui::Ui) {
    let (trace, history) = (&open.trace, &open.trace.memories[memory]);
    let (all, i) = (&history.allocations, id.idx());
    let bytes_ui = |ui: &mut egui::Ui, label: &str, bytes: u64| {
        exact_ui(ui, label, &format::bytes(bytes as f64), &format!("{} B", format::count(bytes)));
    };
    name_ui(&format!("Allocation of {}", format::bytes(all.bytes[i] as f64)), ui);
    egui::Grid::new("facts").num_columns(2).spacing([12.0, 4.0]).show(ui, |ui| {
        bytes_ui(ui, "Size", all.bytes[i]);
        if all.requested[i] != all.bytes[i] {
            bytes_ui(ui, "Requested", all.requested[i]);
        }
        row_ui(ui, "Address", &format!("{:#x}", all.addr[i]));
        life_rows_ui(ui, open, history, id);
        let category = trace.strings.get(all.category(id));
        if !category.is_empty() {
            row_ui(ui, "Category", &display_name(category));
        }
        pool_rows_ui(ui, history.pool_of(id));
        if let Some(segment) = history.segments.get(all.segment[i] as usize) {
            let kind = match segment.kind {
                SegmentKind::Small => "small, ",
                SegmentKind::Large => "large, ",
                SegmentKind::Unknown => "",
            };
            let expandable = if segment.is_expandable { ", expandable" } else { "" };
            let size = format::bytes(segment.bytes as f64);
            row_ui(ui, "Segment", &format!("{:#x}, {kind}{size}{expandable}", segment.addr));
        }
        for note in history.alloc_event(id).map(|event| history.notes_of(event)).unwrap_or_default() {
            let key = display_name(trace.strings.get(note.key)).replace('_', " ");
            row_ui(ui, &key, &cut(trace.strings.get(note.text)));
        }
        row_ui(ui, "Memory", &format!("{} ({})", history.title(), history.source.label()));
        row_ui(ui, "File", &display_name(&trace.info.title()));
    });
    if history.has_time && ui.button("Show on the timeline").clicked() {
        ctx.commands.push(Command::ShowTimeline);
        ctx.center_on(history.life(id).start.saturating_add(open.offset));
    }
    running_ui(ctx, open, history, id, ui);
    let freed = history.free_event(id).map_or(StackId(0), |event| history.events.stack[event as usize]);
    let forward = history.alloc_event(id).and_then(|event| {
        let at = history.forward.binary_search_by_key(&event, |entry| entry.0).ok()?;
        Some(history.forward[at].1)
    });
    stack_ui(open, "Allocated at, innermost first", all.stack[i], ui);
    stack_ui(open, "In the forward pass at", forward.unwrap_or_default(), ui);
    stack_ui(open, "Freed at", freed, ui);
    if all.stack[i] == StackId(0) {
        ui.add_space(6.0);
        ui.weak("No call stack was recorded for it");
    }
}

/// What ran on threads and streams when it was allocated, as links to the timeline.
fn running_ui(
    ctx: &mut ViewContext<'_>,
    open: &OpenTrace,
    history: &MemoryHistory,
    id: AllocationId,
    ui: &mut egui::Ui,
) {
    let Some(event) = history.alloc_event(id).filter(|_| history.has_time) else { return };
    let moment = history.events.ts[event as usize].saturating_add(open.offset);
    let mut is_first = true;
    for trace in 0..ctx.traces.len() {
        let other = ctx.traces[trace].clone();
        let is_same = std::sync::Arc::ptr_eq(&other.trace, &open.trace);
        // Another rank or device was doing something else.
        let is_other_rank = other.trace.info.rank.is_some()
            && open.trace.info.rank.is_some()
            && other.trace.info.rank != open.trace.info.rank;
        if !(is_same || ctx.is_one_clock) || is_other_rank {
            continue;
        }
        for slice in running_at(&other.trace, moment.saturating_sub(other.offset)).into_iter().take(MAX_RUNNING) {
            if std::mem::take(&mut is_first) {
                ui.add_space(4.0);
                ui.weak("Running when it was allocated");
            }
            let name = display_name(other.trace.slice_name(slice)).into_owned();
            let track = other.trace.track(other.trace.slices.track_of(slice));
            let text = format!("{name}, on {}", display_name(&track.name));
            let link = ui.add(egui::Button::new(text).truncate());
            if link.on_hover_text("Select it on the timeline").clicked() {
                *ctx.selection = Selection::Slice { trace, slice };
                ctx.commands.extend([Command::ShowTimeline, Command::Reveal]);
            }
        }
    }
}

fn life_rows_ui(ui: &mut egui::Ui, open: &OpenTrace, history: &MemoryHistory, id: AllocationId) {
    let life = history.life(id);
    let moment_ui = |ui: &mut egui::Ui, label: &str, event: u32| {
        let ts = history.events.ts[event as usize];
        let number = format!("event {}", format::count(u64::from(event)));
        match history.has_time {
            true => exact_ui(ui, label, &format::duration(ts.saturating_add(open.offset)), &number),
            false => row_ui(ui, label, &number),
        }
    };
    match history.alloc_event(id) {
        Some(event) => moment_ui(ui, "Allocated", event),
        None => row_ui(ui, "Allocated", "before the recording began"),
    }
    match history.free_event(id) {
        Some(event) => moment_ui(ui, "Freed", event),
        None => row_ui(ui, "Freed", "not until the recording ended"),
    }
    if history.has_time {
        exact_ui(ui, "Lifetime", &format::duration(life.dur()), &format::duration_exact(life.dur()));
    }
    let all = &history.allocations;
    let wait = all.end[id.idx()].min(history.n_states()) - all.freed[id.idx()].min(history.n_states());
    if wait > 1 {
        row_ui(
            ui,
            "Awaited",
            &format!("a stream for {} events before it could be used again", format::count(wait.into())),
        );
    }
}

fn pool_rows_ui(ui: &mut egui::Ui, pool: MemoryPool) {
    row_ui(ui, "Stream", &format::stream(pool.stream));
    if pool.private != (0, 0) {
        row_ui(ui, "Pool", &format!("private {}.{}", pool.private.0, pool.private.1));
    }
}

fn stack_ui(open: &OpenTrace, title: &str, stack: StackId, ui: &mut egui::Ui) {
    if stack == StackId(0) {
        return;
    }
    let frames: Vec<_> = open.trace.stacks.frames(stack).map(|frame| open.trace.strings.get(frame)).collect();
    section_ui(ui, title, "Copy stack", || frames.join("\n"));
    for frame in frames.iter().take(MAX_LINES) {
        ui.add(egui::Label::new(egui::RichText::new(cut(frame)).monospace()).wrap());
    }
    more_ui(ui, frames.len());
}
