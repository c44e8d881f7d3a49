//! The commands of this view: zoom and pan in both axes, and steps from event to event.

use super::axis::Axis;
use super::heights::within;
use super::{Chart, MemoryOverTime};
use crate::answers::{Analysis, Work};
use crate::command::Command;
use crate::model::TimeRange;
use crate::model::memory::AllocationId;
use crate::session::OpenMemory;
use crate::view::ViewContext;
use crate::view::axis::{self, ZoomTarget, centered, fitted, is_centered, middle};
use crate::view::memory::commands;

/// The bytes that lie below a block in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesBelow {
    id: AllocationId,
    state: u32,
}

impl Analysis for BytesBelow {
    type Of = OpenMemory;
    type Output = u64;
    const NAME: &'static str = "The place of the block";

    fn run(&self, of: &OpenMemory, _: &Work<'_>) -> Option<u64> {
        Some(of.history().bytes_below(self.id, self.state))
    }
}

impl MemoryOverTime {
    /// Runs a command; false for any other.
    pub(super) fn run_command(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        let Some(shown) = ctx.memory.resolve(ctx.traces) else { return false };
        self.follow(ctx, &shown);
        let axis = self.axis(&shown);
        let navigation = axis.navigation(&mut self.navigation, ctx.navigation);
        let (view, span) = (navigation.visible(), axis.reach(ctx.span));
        let at = self.pointer_position.unwrap_or(middle(view));
        // A mark is a moment of session time on either axis.
        if commands::run(command, &shown, Some(axis.time(at)), ctx) {
            return true;
        }
        let range = ctx.range.map(|range| axis.at_times(range));
        let navigation = axis.navigation(&mut self.navigation, ctx.navigation);
        if axis::run(
            command,
            navigation,
            ZoomTarget { at, span, content: axis.reach(ctx.content), margin: axis.margin(), range },
        ) {
            if *command == Command::ZoomToFit {
                navigation.bytes = None;
            }
            return true;
        }
        let selected = shown.selected(*ctx.selection);
        let all = &shown.history().allocations;
        let life = selected.map(|id| axis.range(all.start[id.idx()], all.end[id.idx()]));
        let time = life.or_else(|| ctx.selected_time().map(|range| axis.at_times(range)));
        let navigation = axis.navigation(&mut self.navigation, ctx.navigation);
        match command {
            Command::FocusSelection | Command::ZoomToSelection => {
                let Some(time) = time.or(range) else { return true };
                let zooms = *command == Command::ZoomToSelection;
                match selected.filter(|_| zooms || is_centered(view, time, span)) {
                    Some(id) => self.zoom_to_block(ctx, &axis, id, axis.state(at)),
                    None if zooms => navigation.go(fitted(time, 0.1, span)),
                    None => axis::focus(navigation, time, span),
                }
            }
            Command::Reveal => {
                let Some(time) = time else { return true };
                if time.end < view.start || time.start > view.end {
                    navigation.go(centered(view, time.start, span));
                }
            }
            Command::UndoZoom => {
                self.wanted = None;
                navigation.undo();
            }
            Command::RedoZoom => {
                self.wanted = None;
                navigation.redo();
            }
            Command::NextSlice => self.step(ctx, &axis, 1),
            Command::PreviousSlice => self.step(ctx, &axis, -1),
            _ => return false,
        }
        true
    }

    /// Moves the moment by so many events; without one, puts it in the middle of the view.
    fn step(&mut self, ctx: &mut ViewContext<'_>, axis: &Axis<'_>, by: i64) {
        let navigation = axis.navigation(&mut self.navigation, ctx.navigation);
        let view = navigation.visible();
        let state = match ctx.memory.moment {
            Some(state) => (i64::from(state) + by).clamp(0, i64::from(axis.history.last_state())) as u32,
            None => axis.state(middle(view)),
        };
        ctx.memory.moment = Some(state);
        let at = axis.position(state);
        if at < view.start || at > view.end {
            navigation.go(centered(view, at, axis.reach(ctx.span)));
        }
    }

    /// Shows the whole life of a block, and its bytes where they lie in `state`, or while it lives.
    pub(super) fn zoom_to_block(&mut self, ctx: &mut ViewContext<'_>, axis: &Axis<'_>, id: AllocationId, state: u32) {
        let all = &axis.history.allocations;
        let (start, end) = (all.start[id.idx()], all.end[id.idx()]);
        let (life, span) = (axis.range(start, end), axis.reach(ctx.span));
        let margin = if life == span { 0.0 } else { 0.1 };
        axis.navigation(&mut self.navigation, ctx.navigation).go(fitted(life, margin, span));
        self.wanted = Some((id, state.clamp(start, end.saturating_sub(1).max(start))));
    }

    /// Fits the bytes of the block in `wanted`, once it is known where they lie.
    pub(super) fn fit_wanted(&mut self, ctx: &mut ViewContext<'_>, chart: &Chart<'_>) {
        let Some((id, state)) = self.wanted else { return };
        let below = self.below.ask(ctx.answers, &chart.shown.of, &BytesBelow { id, state });
        if let Some(&below) = below.ready().map(|below| &**below) {
            let amount = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
            let bytes = amount(chart.shown.history().allocations.bytes[id.idx()].max(1));
            let (room, below) = (bytes / 2, amount(below));
            let wide =
                TimeRange { start: below.saturating_sub(room), end: below.saturating_add(bytes).saturating_add(room) };
            let navigation = chart.axis.navigation(&mut self.navigation, ctx.navigation);
            navigation.bytes = within(wide, Self::all_bytes(chart.index));
        }
        if !below.is_working() {
            self.wanted = None;
        }
        self.is_pending |= self.wanted.is_some();
    }
}
