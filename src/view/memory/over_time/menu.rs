//! The context menu of the canvas.

use eframe::egui::{Button, Ui};

use super::{Chart, MemoryOverTime};
use crate::command::Command;
use crate::figures::format;
use crate::view::ViewContext;
use crate::view::details::stack_text;
use crate::view::memory::commands::{clear_base, set_base};
use crate::view::memory::head::not_a_base;

impl MemoryOverTime {
    /// The menu of the allocation and the moment that were right-clicked.
    pub(super) fn menu_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, chart: &Chart<'_>) {
        let Some((id, state)) = self.canvas.menu else { return };
        if let Some(id) = id {
            let history = chart.shown.history();
            let all = &history.allocations;
            ui.weak(format!("Allocation of {}", format::bytes(all.bytes[id.idx()] as f64)));
            if ui.button("Copy stack").clicked() {
                ui.ctx().copy_text(stack_text(chart.shown.trace(), all.stack[id.idx()]));
            }
            if let Some(addr) = history.address_of(id)
                && ui.button("Copy address").clicked()
            {
                ui.ctx().copy_text(format!("{addr:#x}"));
            }
            if ui.button("Zoom to allocation").clicked() {
                self.zoom_to_block(ctx, &chart.axis, id, state);
            }
            ui.separator();
        }
        if ui.button("Show this moment's state").clicked() {
            ctx.memory.moment = Some(state);
            ctx.commands.push(Command::Show(crate::view::memory::STATE.id));
        }
        let why_not = not_a_base(chart.shown, ctx.traces);
        let set = ui.add_enabled(why_not.is_none(), Button::new("Set as base"));
        if set.on_disabled_hover_text(why_not.unwrap_or_default()).clicked() {
            set_base(chart.shown, state, ctx);
        }
        if ctx.memory.base.is_some() && ui.button("Clear base").clicked() {
            clear_base(ctx);
        }
        ui.separator();
        if ui.button("Zoom to fit").clicked() {
            ctx.commands.push(Command::ZoomToFit);
        }
    }
}
