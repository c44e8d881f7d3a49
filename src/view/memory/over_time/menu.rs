//! The context menu of the block and the moment under the pointer.

use eframe::egui::Ui;

use super::{Chart, MemoryOverTime};
use crate::command::Command;
use crate::figures::format;
use crate::view::ViewContext;

impl MemoryOverTime {
    /// What can be done with a block and the moment under the pointer.
    pub(super) fn menu_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui, chart: &Chart<'_>) {
        let Some((id, state)) = self.canvas.menu else { return };
        if let Some(id) = id {
            let stack = chart.shown.history().allocations.stack[id.idx()];
            let trace = chart.shown.trace();
            ui.weak(format!(
                "Allocation of {}",
                format::bytes(chart.shown.history().allocations.bytes[id.idx()] as f64)
            ));
            if ui.button("Copy stack").clicked() {
                ui.ctx().copy_text(trace.stack_text(stack));
            }
            if ui.button("Copy address").clicked() {
                ui.ctx().copy_text(format!("{:#x}", chart.shown.history().allocations.addr[id.idx()]));
            }
            if ui.button("Zoom to it").clicked() {
                self.zoom_to_block(ctx, &chart.axis, id, state);
            }
            ui.separator();
        }
        if ui.button("Show this moment's state").clicked() {
            ctx.memory.moment = Some(state);
            ctx.commands.push(Command::Show(crate::view::memory::STATE.id));
        }
        if ui.button("Set as base for difference").clicked() {
            ctx.memory.base = Some(state);
        }
        if ctx.memory.base.is_some() && ui.button("Clear base").clicked() {
            ctx.memory.base = None;
        }
        ui.separator();
        if ui.button("Zoom to fit all").clicked() {
            ctx.commands.push(Command::ZoomToFit);
        }
    }
}
