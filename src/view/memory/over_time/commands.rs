//! This view's own commands: zoom and pan in both axes, and steps from event to event.

use super::axis::Axis;
use super::heights::within;
use super::{MemoryOverTime, Place};
use crate::command::Command;
use crate::model::TimeRange;
use crate::model::memory::AllocationId;
use crate::view::ViewContext;
use crate::view::memory::commands;
use crate::view::timeline::{centered, fitted, run_navigation};

impl MemoryOverTime {
    /// Runs a command; false if it is another's.
    pub(super) fn run_command(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        let Some(shown) = ctx.memory.resolve(ctx.traces) else { return false };
        self.follow(ctx, &shown);
        let axis = self.axis(&shown);
        // A mark is a moment of session time on whatever axis.
        let view =
            if axis.kind == super::AxisKind::Time { ctx.navigation.visible() } else { self.navigation.visible() };
        let middle = self.pointer_place.unwrap_or_else(|| view.start.saturating_add(view.dur() / 2));
        if commands::run(command, &shown, Some(axis.time(middle)), ctx) {
            return true;
        }
        let selected = shown.selected(*ctx.selection);
        let time = match selected {
            Some(id) => {
                let all = &shown.history().allocations;
                Some(axis.range(all.start[id.idx()], all.end[id.idx()]))
            }
            None => ctx
                .selected_time()
                .map(|range| TimeRange { start: axis.at_time(range.start), end: axis.at_time(range.end) }),
        };
        self.on_axis(&axis, ctx, |this, ctx| this.run_on_axis(command, ctx, &axis, selected, time))
    }

    fn run_on_axis(
        &mut self,
        command: &Command,
        ctx: &mut ViewContext<'_>,
        axis: &Axis<'_>,
        selected: Option<AllocationId>,
        time: Option<TimeRange>,
    ) -> bool {
        let view = ctx.navigation.visible();
        let at = self.pointer_place.unwrap_or_else(|| view.start.saturating_add(view.dur() / 2));
        if run_navigation(command, ctx.navigation, at, ctx.span) {
            return true;
        }
        match command {
            Command::ZoomToFit => {
                let margin = if axis.kind == super::AxisKind::Events { 0.0 } else { 0.02 };
                ctx.navigation.go(fitted(ctx.span, margin, ctx.span));
                ctx.navigation.bytes = None;
            }
            Command::ZoomToRange => {
                if let Some(range) = *ctx.range {
                    ctx.navigation.go(fitted(range, 0.02, ctx.span));
                }
            }
            Command::FocusSelection => {
                let Some(time) = time.or(*ctx.range) else { return true };
                let target = centered(view, time.start.saturating_add(time.dur() / 2), ctx.span);
                match selected {
                    _ if view != target => ctx.navigation.go(target),
                    Some(id) => self.zoom_to_block(ctx, axis, id, axis.state(at)),
                    None => ctx.navigation.go(fitted(time, 0.1, ctx.span)),
                }
            }
            Command::Reveal => {
                let Some(time) = time else { return true };
                if time.end < view.start || time.start > view.end {
                    ctx.navigation.go(centered(view, time.start, ctx.span));
                }
            }
            Command::UndoZoom => {
                self.wanted = None;
                ctx.navigation.undo();
            }
            Command::RedoZoom => {
                self.wanted = None;
                ctx.navigation.redo();
            }
            Command::NextSlice => self.step(ctx, axis, 1),
            Command::PreviousSlice => self.step(ctx, axis, -1),
            _ => return false,
        }
        true
    }

    /// Looks at the state `by` events away; without one, at the middle of the view.
    fn step(&mut self, ctx: &mut ViewContext<'_>, axis: &Axis<'_>, by: i64) {
        let view = ctx.navigation.visible();
        let state = match ctx.memory.moment {
            Some(state) => (i64::from(state) + by).clamp(0, i64::from(axis.history.last_state())) as u32,
            None => axis.state(view.start.saturating_add(view.dur() / 2)),
        };
        ctx.memory.moment = Some(state);
        let at = axis.place(state);
        if at < view.start || at > view.end {
            ctx.navigation.go(centered(view, at, ctx.span));
        }
    }

    /// Shows the whole life of a block, and its bytes where they lie in `state`, or while it lives.
    pub(super) fn zoom_to_block(&mut self, ctx: &mut ViewContext<'_>, axis: &Axis<'_>, id: AllocationId, state: u32) {
        let all = &axis.history.allocations;
        let (start, end) = (all.start[id.idx()], all.end[id.idx()]);
        let life = axis.range(start, end);
        let margin = if life == ctx.span { 0.0 } else { 0.1 };
        ctx.navigation.go(fitted(life, margin, ctx.span));
        self.wanted = Some((id, state.clamp(start, end.saturating_sub(1).max(start))));
    }

    /// Fits the bytes of a block that was asked for, once it is known where they lie.
    pub(super) fn fit_wanted(&mut self, ctx: &mut ViewContext<'_>, place: &Place<'_>, egui: &eframe::egui::Context) {
        let Some((id, state)) = self.wanted else { return };
        let key = (place.key.clone(), id, state);
        let (waker, of) = (egui.clone(), place.shown.of.clone());
        let below = self.below.get(&key, move || waker.request_repaint(), move |_| of.history().bytes_below(id, state));
        let below = below.copied();
        if self.below.is_current(&key)
            && let Some(below) = below
        {
            let amount = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
            let bytes = amount(place.shown.history().allocations.bytes[id.idx()].max(1));
            let (room, below) = (bytes / 2, amount(below));
            let wide =
                TimeRange { start: below.saturating_sub(room), end: below.saturating_add(bytes).saturating_add(room) };
            ctx.navigation.bytes = within(wide, Self::all_bytes(place.index));
            self.wanted = None;
        } else if self.below.has_crashed(&key) {
            self.wanted = None;
        }
        self.is_pending |= self.wanted.is_some();
    }
}
