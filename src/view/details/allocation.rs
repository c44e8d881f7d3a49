//! Details of one memory allocation.

use eframe::egui;

use super::event::{MAX_LINES, more_ui, section_ui};
use super::{cut, exact_ui, name_ui, row_ui, stack_text};
use crate::analysis::memory::around::running_at;
use crate::analysis::memory::labels::n_in_front;
use crate::answers::{Analysis, Work};
use crate::command::Command;
use crate::figures::memory::{lifetime_text, source_text};
use crate::figures::{format, text::display_name};
use crate::model::memory::{AllocationId, MemoryPool, MemorySource, Segment, SegmentKind, stream_name};
use crate::model::{MemoryHistory, SliceId, StackId, Trace};
use crate::session::{OpenTrace, Selection};
use crate::view::ViewContext;

/// Slices listed per trace.
const MAX_RUNNING: usize = 12;

/// The slices that ran on threads and streams at a moment as (trace, slice), and how many more there were.
#[derive(Debug, Default)]
struct Running {
    slices: Vec<(usize, SliceId)>,
    n_more: usize,
}

/// Finds the slices that ran when an allocation was made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RunningAt {
    /// Index into the open traces.
    trace: usize,
    memory: usize,
    id: AllocationId,
}

impl Analysis for RunningAt {
    type Of = [OpenTrace];
    type Output = Running;
    const NAME: &'static str = "The search for what ran";

    /// Cost: that of [`running_at`] for each trace.
    fn run(&self, traces: &[OpenTrace], _: &Work<'_>) -> Option<Running> {
        let mut running = Running::default();
        let open = &traces[self.trace];
        let history = &open.trace.memories[self.memory];
        let event = history.alloc_event(self.id).filter(|_| history.has_time);
        let Some(event) = event else { return Some(running) };
        let moment = history.events.ts[event as usize].saturating_add(open.offset);
        for (trace, other) in traces.iter().enumerate() {
            // Another rank or device was doing something else.
            let is_other_rank = other.trace.info.rank.is_some()
                && open.trace.info.rank.is_some()
                && other.trace.info.rank != open.trace.info.rank;
            if !other.shares_clock(open) || is_other_rank {
                continue;
            }
            let slices = running_at(&other.trace, moment.saturating_sub(other.offset));
            running.n_more += slices.len().saturating_sub(MAX_RUNNING);
            running.slices.extend(slices.into_iter().take(MAX_RUNNING).map(|slice| (trace, slice)));
        }
        Some(running)
    }
}

/// All details of an allocation: size, lifetime, address, notes of the program, and call stacks.
pub fn allocation_ui(
    ctx: &mut ViewContext<'_>,
    open: &OpenTrace,
    (trace, memory): (usize, usize),
    id: AllocationId,
    ui: &mut egui::Ui,
) {
    // A few binary searches: fast enough for a frame.
    let running = ctx.answers.get(ctx.traces, &RunningAt { trace, memory, id });
    facts_ui(ctx, open, memory, id, ui);
    running_ui(ctx, running.as_deref(), ui);
    stacks_ui(open, &open.trace.memories[memory], id, ui);
}

fn facts_ui(ctx: &mut ViewContext<'_>, open: &OpenTrace, memory: usize, id: AllocationId, ui: &mut egui::Ui) {
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
        if let Some(addr) = history.address_of(id) {
            row_ui(ui, "Address", &format!("{addr:#x}"));
        }
        life_rows_ui(ui, open, history, id);
        if history.source == MemorySource::Timeline {
            row_ui(
                ui,
                "Which is freed",
                "not recorded: the newest of one size and category is taken to be, so the lifetime is a guess",
            );
        }
        let category = category_text(trace, history, id);
        if !category.is_empty() {
            row_ui(ui, "Category", &category);
        }
        if history.address_of(id).is_some() {
            pool_rows_ui(ui, history.pool_of(id));
        }
        if let Some(segment) = history.segments.get(all.segment[i] as usize) {
            row_ui(ui, "Segment", &segment_text(segment));
        }
        for note in history.alloc_event(id).map(|event| history.notes_of(event)).unwrap_or_default() {
            let key = display_name(trace.strings.get(note.key)).replace('_', " ");
            row_ui(ui, &key, &cut(trace.strings.get(note.text)));
        }
        row_ui(ui, "Memory", &format!("{} ({})", history.title(), source_text(history)));
        row_ui(ui, "File", &display_name(&trace.info.title()));
    });
    if history.has_time && ui.button("Show on the timeline").clicked() {
        ctx.commands.push(Command::Show(crate::view::timeline::SPEC.id));
        ctx.center_on(history.life(id).start.saturating_add(open.offset));
    }
}

/// The category of an allocation, and what its block was at first and at last, if another.
fn category_text(trace: &Trace, history: &MemoryHistory, id: AllocationId) -> String {
    let name = |id: AllocationId| display_name(trace.strings.get(history.allocations.category(id))).into_owned();
    let [first, last] = history.blocks.ends(id);
    let at_first = (first != id).then(|| format!("{} at first", name(first)));
    let at_last = (last != id).then(|| format!("{} at last", name(last)));
    [Some(name(id)), at_first, at_last].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Kind, address and size of a segment. An expandable one is known in the parts that were mapped, of which a block may
/// cover several: neither address nor size of one of them are those of the segment.
fn segment_text(segment: &Segment) -> String {
    let kind = match segment.kind {
        SegmentKind::Small => "small, ",
        SegmentKind::Large => "large, ",
        SegmentKind::Unknown => "",
    };
    match segment.is_expandable {
        true => format!("{kind}expandable"),
        false => format!("{:#x}, {kind}{}", segment.addr, format::bytes(segment.bytes as f64)),
    }
}

fn stacks_ui(open: &OpenTrace, history: &MemoryHistory, id: AllocationId, ui: &mut egui::Ui) {
    let stack = history.allocations.stack[id.idx()];
    let freed = history.free_event(id).map_or(StackId(0), |event| history.events.stack[event as usize]);
    let forward = history.alloc_event(id).and_then(|event| {
        let at = history.forward.binary_search_by_key(&event, |entry| entry.0).ok()?;
        Some(history.forward[at].1)
    });
    stack_ui(open, "Allocated at, innermost first", stack, ui);
    stack_ui(open, "In the forward pass at", forward.unwrap_or_default(), ui);
    stack_ui(open, "Freed at", freed, ui);
    if stack == StackId(0) {
        ui.add_space(6.0);
        ui.weak("No call stack was recorded");
    }
}

/// The slices that ran when it was allocated, as links to the timeline.
fn running_ui(ctx: &mut ViewContext<'_>, running: Option<&Running>, ui: &mut egui::Ui) {
    let Some(running) = running else { return };
    if !running.slices.is_empty() {
        ui.add_space(4.0);
        ui.weak("Running at the allocation");
    }
    for &(trace, slice) in &running.slices {
        let model = &ctx.traces[trace].trace;
        let track = model.track(model.slices.track_of(slice));
        let text = format!("{}, on {}", display_name(model.slice_name(slice)), display_name(&track.name));
        let hint = format!("{text}\nSelect this slice on the timeline");
        let link = ui.add(egui::Button::new(text).truncate());
        if link.on_hover_text(hint).clicked() {
            *ctx.selection = Selection::Slice { trace, slice };
            ctx.commands.extend([Command::Show(crate::view::timeline::SPEC.id), Command::Reveal]);
        }
    }
    if running.n_more > 0 {
        ui.weak(format!("and {} more threads and streams", format::count(running.n_more as u64)));
    }
}

fn life_rows_ui(ui: &mut egui::Ui, open: &OpenTrace, history: &MemoryHistory, id: AllocationId) {
    if !history.has_changes() {
        row_ui(ui, "Live", "When the snapshot was taken");
        return;
    }
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
        None => row_ui(ui, "Allocated", "Before the recording began"),
    }
    match history.free_event(id) {
        Some(event) => moment_ui(ui, "Freed", event),
        None => row_ui(ui, "Freed", "Not before the recording ended"),
    }
    let [short, exact] = lifetime_text(history, id);
    match history.has_time {
        true => exact_ui(ui, "Lifetime", &short, &exact),
        false => row_ui(ui, "Lifetime", &short),
    }
    let all = &history.allocations;
    let wait = all.end[id.idx()].min(history.n_states()) - all.freed[id.idx()].min(history.n_states());
    if wait > 1 {
        row_ui(ui, "Free delayed", &format!("{} events, while a stream still used it", format::count(wait.into())));
    }
}

fn pool_rows_ui(ui: &mut egui::Ui, pool: MemoryPool) {
    row_ui(ui, "Stream", &stream_name(pool.stream));
    if pool.private != (0, 0) {
        row_ui(ui, "Pool", &format!("private {}.{}", pool.private.0, pool.private.1));
    }
}

/// The frames of a stack; those in front of the program's own are folded.
fn stack_ui(open: &OpenTrace, title: &str, stack: StackId, ui: &mut egui::Ui) {
    if stack == StackId(0) {
        return;
    }
    let trace = &open.trace;
    let frames = || trace.stacks.frames(stack).map(|frame| trace.strings.get(frame));
    section_ui(ui, title, "Copy stack", || stack_text(trace, stack));
    let frame_ui = |ui: &mut egui::Ui, frame: &str| {
        ui.add(egui::Label::new(egui::RichText::new(cut(frame)).monospace()).wrap());
    };
    let shown: Vec<&str> = frames().take(MAX_LINES).collect();
    let (front, rest) = shown.split_at(n_in_front(&shown));
    if !front.is_empty() {
        let noun = if front.len() == 1 { "frame" } else { "frames" };
        let fold = egui::CollapsingHeader::new(format!("{} {noun} of the allocator and PyTorch", front.len()));
        fold.id_salt(title).show(ui, |ui| front.iter().for_each(|frame| frame_ui(ui, frame)));
    }
    rest.iter().for_each(|frame| frame_ui(ui, frame));
    more_ui(ui, frames().count());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_is_not_taken_for_an_expandable_segment() {
        let mut segment = Segment { addr: 0x1000, bytes: 20 << 20, kind: SegmentKind::Large, ..Segment::default() };
        assert_eq!(segment_text(&segment), "0x1000, large, 20.00 MiB");
        segment.is_expandable = true;
        assert_eq!(segment_text(&segment), "large, expandable");
    }
}
