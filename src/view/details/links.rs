//! Links of a slice: launch and launched work, enclosing slices, and memory at its time.

use eframe::egui::{self, AtomExt as _};

use super::facts::{Facts, Links, MAX_LINKS};
use crate::command::Command;
use crate::figures::{
    format,
    text::{display_name, short_python, shortened},
};
use crate::model::{SliceId, TimeRange};
use crate::session::{OpenTrace, Selection};
use crate::view::ViewContext;

/// The longest name of a link, in characters: its end and its duration stay in sight.
const MAX_LINK: usize = 60;

pub fn links_ui(ctx: &mut ViewContext<'_>, open: &OpenTrace, trace: usize, facts: &Facts, ui: &mut egui::Ui) {
    let one = |slice: Option<SliceId>| Links { slices: slice.into_iter().collect(), has_more: false };
    let (launch, record) = (one(facts.launch), one(facts.event_record));
    let around = if facts.launch.is_some() { "Inside, innermost first" } else { "Parents, innermost first" };
    let groups = [
        ("Launched by", &launch),
        (around, &facts.around),
        ("Python stack, innermost first", &facts.python),
        ("Launches", &facts.launched),
        ("Event recorded by", &record),
        ("Flows from", &facts.flows_in),
        ("Flows to", &facts.flows_out),
    ];
    for (title, links) in groups.into_iter().filter(|group| !group.1.slices.is_empty()) {
        ui.add_space(4.0);
        ui.weak(title);
        for &slice in &links.slices {
            let name = display_name(open.trace.slice_name(slice));
            let track = open.trace.track(open.trace.slices.track_of(slice));
            let duration = format::duration(open.trace.slices.time(slice).dur());
            // Where there is no room for both, the name gives way.
            let text = (format!("{},", shortened(short_python(&name), MAX_LINK)).atom_shrink(true), duration);
            let link = ui.add(egui::Button::new(text).truncate());
            if link.on_hover_text(format!("{name}\nSelect this slice on {}", display_name(&track.name))).clicked() {
                *ctx.selection = Selection::Slice { trace, slice };
                ctx.commands.push(Command::Reveal);
            }
        }
        if links.has_more {
            ui.weak(format!("Only the first {MAX_LINKS} are listed"));
        }
    }
}

/// The change of memory during a slice.
pub fn memory_ui(ctx: &mut ViewContext<'_>, open: &OpenTrace, time: TimeRange, ui: &mut egui::Ui) {
    let session = time.shifted(open.offset);
    let mut lines = Vec::new();
    for other in ctx.traces.iter().filter(|other| other.shares_clock(open)) {
        let range = session.shifted(other.offset.saturating_neg());
        for history in other.trace.memories.iter().filter(|history| history.has_time) {
            // Events at the very start are included.
            let (from, to) = (history.state_at(range.start.saturating_sub(1)), history.state_at(range.end));
            if from < to {
                let active = |state: u32| history.curves.active[state as usize] as f64;
                let change = active(to) - active(from);
                let sign = if change < 0.0 { "-" } else { "+" };
                let events = format::of_things(u64::from(to - from), "event");
                let change = format::bytes(change.abs());
                lines.push(format!("{}, {}: {sign}{change} in {events}", history.title(), history.source.label()));
            }
        }
    }
    if lines.is_empty() {
        return;
    }
    ui.add_space(4.0);
    ui.weak("Memory during the slice");
    for line in lines {
        ui.label(line);
    }
    if ui.button("List allocations").on_hover_text("List the allocations made during the slice").clicked() {
        ctx.commands.push(Command::ListAllocations(session));
    }
}
