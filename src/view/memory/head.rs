//! The line above the memory views: which memory, and at which moment?

use eframe::egui::{self, ComboBox};

use super::ShownMemory;
use crate::view::{OpenTrace, ViewContext};
use crate::widget::format;
use crate::widget::text::display_name;

/// What to call a history among all that are open.
fn title(traces: &[OpenTrace], trace: usize, memory: usize) -> String {
    let open = &traces[trace];
    let history = &open.trace.memories[memory];
    let rank = open.trace.info.rank.map(|rank| format!("rank {rank}, ")).unwrap_or_default();
    let file = if traces.len() > 1 { format!(", {}", display_name(&open.trace.info.title())) } else { String::new() };
    format!("{rank}{} ({}){file}", history.title(), history.source.label())
}

/// Lets the person choose the history on show; says so where nothing is known of memory.
pub fn choose_ui(ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) -> Option<ShownMemory> {
    let Some(shown) = ctx.memory.resolve(ctx.traces) else {
        nothing_ui(ui);
        return None;
    };
    let n_histories: usize = ctx.traces.iter().map(|open| open.trace.memories.len()).sum();
    if n_histories > 1 {
        let now = title(ctx.traces, shown.trace, shown.memory);
        ComboBox::from_label("").selected_text(now).width(240.0).show_ui(ui, |ui| {
            for (trace, open) in ctx.traces.iter().enumerate() {
                for memory in 0..open.trace.memories.len() {
                    let is_shown = (trace, memory) == (shown.trace, shown.memory);
                    if ui.selectable_label(is_shown, title(ctx.traces, trace, memory)).clicked() {
                        ctx.memory.show(trace, memory);
                    }
                }
            }
        });
    } else {
        ui.label(title(ctx.traces, shown.trace, shown.memory));
    }
    Some(shown)
}

/// What to do where nothing is known of memory.
pub fn nothing_ui(ui: &mut egui::Ui) {
    ui.label("Nothing is known of memory");
    ui.weak(
        "Open a memory history (torch.cuda.memory._dump_snapshot), or a trace that was recorded with \
         profile_memory=True or nsys profile --cuda-memory-usage=true",
    );
}

/// A state in words: `event 1,234 at 1.2 s`.
pub fn state_text(shown: &ShownMemory, state: u32) -> String {
    let number = match state.checked_sub(1) {
        Some(event) => format!("event {}", format::count(u64::from(event))),
        None => "before the first event".to_owned(),
    };
    match shown.history().has_time && state > 0 {
        true => format!("{number} at {}", format::duration(shown.session_time(state))),
        false => number,
    }
}
