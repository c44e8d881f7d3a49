//! This view's own commands: zoom and pan in both axes, and steps from event to event.

use super::axis::Axis;
use super::heights::within;
use super::{MemoryOverTime, Place};
use crate::command::Command;
use crate::model::memory::AllocationId;
use crate::model::TimeRange;
use crate::view::timeline::{centered, fitted, panned, zoomed};
use crate::view::{Mark, Selection, ViewContext};

impl MemoryOverTime {
    /// Runs a command; false if it is another's.
    pub(super) fn run_command(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        let Some(shown) = ctx.memory.resolve(ctx.traces) else { return false };
        self.follow(&shown);
        let axis = self.axis(&shown);
        if *command == Command::MarkMoment {
            // A mark is a moment of session time on whatever axis.
            let view = if axis.kind == super::AxisKind::Time { ctx.navigation.visible() } else { self.navigation.visible() };
            let middle = self.pointer_place.unwrap_or_else(|| view.start.saturating_add(view.dur() / 2));
            let looked_at = ctx.memory.moment.map(|state| shown.session_time(state));
            let ts = looked_at.unwrap_or_else(|| axis.time(middle));
            ctx.add_mark(Mark { range: TimeRange { start: ts, end: ts }, note: String::new() });
            return true;
        }
        let selected = match *ctx.selection {
            Selection::Allocation { trace, memory, id } if (trace, memory) == (shown.trace, shown.memory) => Some(id),
            _ => None,
        };
        let time = match selected {
            Some(id) => {
                let all = &shown.history().allocations;
                Some(axis.range(all.start[id.idx()], all.end[id.idx()]))
            }
            None => ctx.selected_time().map(|range| TimeRange { start: axis.from_time(range.start), end: axis.from_time(range.end) }),
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
        let quarter = view.dur() / 4;
        match command {
            Command::ZoomIn => ctx.navigation.go(zoomed(view, at, 0.5, ctx.span)),
            Command::ZoomOut => ctx.navigation.go(zoomed(view, at, 2.0, ctx.span)),
            Command::PanLeft => ctx.navigation.go(panned(view, -quarter, ctx.span)),
            Command::PanRight => ctx.navigation.go(panned(view, quarter, ctx.span)),
            Command::ZoomToFit => {
                let margin = if axis.kind == super::AxisKind::Events { 0.0 } else { 0.02 };
                ctx.navigation.go(fitted(ctx.span, margin, ctx.span));
                self.bytes = None;
            }
            Command::ZoomToRange => {
                if let Some(range) = *ctx.range {
                    ctx.navigation.go(fitted(range, 0.02, ctx.span));
                }
            }
            Command::FocusSelection => {
                let Some(time) = time.or(*ctx.range) else { return true };
                let target = centered(view, time.start.saturating_add(time.dur() / 2), ctx.span);
                let is_second = view == target;
                ctx.navigation.go(if is_second { fitted(time, 0.1, ctx.span) } else { target });
                self.is_block_wanted = is_second && selected.is_some();
            }
            Command::Reveal => {
                let Some(time) = time else { return true };
                if time.end < view.start || time.start > view.end {
                    ctx.navigation.go(centered(view, time.start, ctx.span));
                }
            }
            Command::UndoZoom => drop(ctx.navigation.undo()),
            Command::RedoZoom => drop(ctx.navigation.redo()),
            Command::NextSlice => self.step(ctx, axis, 1),
            Command::PreviousSlice => self.step(ctx, axis, -1),
            Command::Deselect if *ctx.selection != Selection::None => *ctx.selection = Selection::None,
            Command::Deselect if ctx.range.is_some() => *ctx.range = None,
            Command::Deselect => ctx.memory.moment = None,
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

    /// Shows the whole life of a block, and its bytes where it is first seen.
    pub(super) fn zoom_to_block(&mut self, ctx: &mut ViewContext<'_>, place: &Place<'_>, id: AllocationId) {
        let all = &place.shown.history().allocations;
        let life = place.axis.range(all.start[id.idx()], all.end[id.idx()]);
        let everything = Self::all_bytes(place.index);
        if let Some(bytes) = self.bytes_of(id) {
            let room = bytes.dur() / 2;
            let bytes = TimeRange { start: bytes.start.saturating_sub(room), end: bytes.end.saturating_add(room) };
            self.bytes = within(bytes, everything);
        }
        let margin = if life == ctx.span { 0.0 } else { 0.1 };
        ctx.navigation.go(fitted(life, margin, ctx.span));
    }

    /// The bytes that a block covers in the picture on show, over all columns.
    fn bytes_of(&self, id: AllocationId) -> Option<TimeRange> {
        let (asked, picture) = (self.pictures.question()?, self.pictures.answer()?);
        let rows = picture.rows_of(id);
        let (low, high) = rows.into_iter().flatten().fold((u32::MAX, 0), |(low, high), rows| (low.min(rows[0]), high.max(rows[1])));
        let byte = |row: u32| {
            let part = i128::from(asked.bytes.dur()) * i128::from(row) / asked.size[1].max(1) as i128;
            asked.bytes.start.saturating_add(part as i64)
        };
        (low < high).then(|| TimeRange { start: byte(low), end: byte(high) })
    }
}
