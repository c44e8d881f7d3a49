//! The timeline's commands: zoom and pan, navigation between slices, gaps and flows, and marks.

use std::sync::Arc;

use super::Timeline;
use super::track_list::{Fold, LineKind, fold_keys, process_key, rows, track_key};
use crate::analysis::gaps::Gap;
use crate::command::Command;
use crate::model::{ProcessId, SliceId, SliceKind, TimeRange, Trace, TrackId};
use crate::session::{OpenTrace, Selection};
use crate::view::ViewContext;
use crate::view::axis::{self, ZoomTarget, centered, filled, fitted, middle, zoomed};

/// The direction of a step in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Back,
}

impl Timeline {
    /// Runs a command of the timeline; false for any other.
    pub(super) fn run_command(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        let view = ctx.navigation.visible();
        let at = self.pointer_time.unwrap_or(middle(view));
        let target = ZoomTarget { at, span: ctx.span, content: ctx.content, margin: 0.0, range: *ctx.range };
        if axis::run(command, ctx.navigation, target) {
            return true;
        }
        match command {
            Command::FocusSelection | Command::ZoomToSelection => self.focus(ctx, command),
            &Command::ShowTime(at) => {
                ctx.navigation.go(filled(centered(view, at, ctx.span), ctx.span));
                ctx.navigation.moment = Some(at);
            }
            // Steps that changed only the byte range of the memory view are invisible here.
            Command::UndoZoom => while ctx.navigation.undo() && ctx.navigation.visible() == view {},
            Command::RedoZoom => while ctx.navigation.redo() && ctx.navigation.visible() == view {},
            Command::NextSlice => self.step_aside(ctx, Direction::Forward),
            Command::PreviousSlice => self.step_aside(ctx, Direction::Back),
            Command::ParentSlice => self.step(ctx, Direction::Forward, |trace, slice| trace.slices.parent(slice)),
            Command::ChildSlice => self.step(ctx, Direction::Forward, |trace, slice| {
                let children = trace.slices.children(slice);
                (!children.is_empty()).then_some(SliceId(children.start as u32))
            }),
            Command::NextGap => self.walk(ctx, Direction::Forward),
            Command::PreviousGap => self.walk(ctx, Direction::Back),
            Command::FollowFlow => self.follow_flow(ctx, Direction::Forward),
            Command::FollowFlowBack => self.follow_flow(ctx, Direction::Back),
            Command::Deselect if ctx.navigation.moment.take().is_some() => {}
            Command::Deselect if *ctx.selection != Selection::None => *ctx.selection = Selection::None,
            Command::Deselect if !ctx.hits.is_empty() => *ctx.hits = Arc::default(),
            Command::Deselect => *ctx.range = None,
            Command::MarkMoment => {
                let selected = ctx.selected_time().map(|time| time.start);
                let ts = ctx.navigation.moment.or(selected).unwrap_or(at);
                ctx.mark(TimeRange { start: ts, end: ts });
            }
            Command::MarkRange => {
                if let Some(range) = *ctx.range {
                    ctx.mark(range);
                }
            }
            Command::RangeFromSelection => *ctx.range = ctx.selected_time().or(*ctx.range),
            Command::ToggleQueues => {
                self.settings.has_queues ^= true;
                self.queues.forget();
                self.is_stale = true;
            }
            Command::CollapseAll => self.collapse_all(ctx),
            Command::UnfoldRows => {
                self.settings.expanded.extend(ctx.traces.iter().flat_map(rows::keys));
                self.is_stale = true;
            }
            Command::FoldRows => {
                for key in ctx.traces.iter().flat_map(rows::keys) {
                    self.settings.expanded.remove(&key);
                }
                self.is_stale = true;
            }
            Command::ShowHiddenTracks => self.show_hidden(),
            Command::ExpandAll => {
                self.unfolded = None;
                let is_open = |key: &String| ctx.traces.iter().any(|open| key.starts_with(&*open.id));
                self.settings.collapsed.retain(|key| !is_open(key));
                self.settings.expanded.extend(ctx.traces.iter().flat_map(fold_keys));
                self.is_stale = true;
            }
            _ => return false,
        }
        true
    }

    /// Selects a slice and scrolls to it: expands the groups around it, and moves the view if it is not
    /// visible.
    pub fn reveal(&mut self, ctx: &mut ViewContext<'_>, trace: usize, slice: SliceId) {
        let Some(open) = ctx.traces.get(trace).filter(|open| slice.idx() < open.trace.slices.len()) else { return };
        let data = &open.trace;
        let track = data.slices.track_of(slice);
        *ctx.selection = Selection::Slice { trace, slice };
        ctx.navigation.moment = None;
        self.unfold(open, trace, track);
        self.unfold_row(open, trace, slice);
        self.reveal = Some((trace, slice));
        let time = data.slices.time(slice).shifted(open.offset);
        let view = ctx.navigation.visible();
        let is_visible = time.start < view.end && time.end > view.start;
        // A slice of a few pixels is unreadable: zoom in.
        let is_tiny = time.dur() < view.dur() / 500;
        let middle = middle(time);
        if time.dur() > view.dur() && !is_visible {
            ctx.navigation.go(fitted(time, 0.1, ctx.span));
        } else if !is_visible {
            let target = filled(centered(view, middle, ctx.span), ctx.span);
            ctx.navigation.go(if is_tiny { zoomed(target, middle, 0.05, ctx.span) } else { target });
        }
    }

    fn unfold(&mut self, open: &OpenTrace, index: usize, track: TrackId) {
        self.unfold_process(open, index, open.trace.track(track).process);
        let part = self.parts.get(index).and_then(|parts| parts.get(track.0 as usize)).copied().unwrap_or_default();
        if let Some(key) = self.tracks.fold_of(index, track).map(str::to_owned) {
            self.is_stale |= self.settings.hidden.remove(&key);
            self.is_stale |= self.settings.expanded.insert(key);
        }
        for track in part.of.into_iter().chain([track]) {
            self.unfold_key(&track_key(open, track));
        }
        if self.tracks.line_of(index, track).is_none() && !self.filter.is_empty() {
            self.set_filter("");
        }
    }

    /// Shows the rows of a deep thread that are folded at first, if a slice is in one of them.
    pub(super) fn unfold_row(&mut self, open: &OpenTrace, index: usize, slice: SliceId) {
        let slices = &open.trace.slices;
        let Some(row) = slices.rows.get(slices.row_of(slice)) else { return };
        let part = self.parts.get(index).and_then(|parts| parts.get(row.track.0 as usize)).copied().unwrap_or_default();
        if !rows::shown(open, row.track, part.n_passing).contains(&row.depth) {
            self.is_stale |= self.settings.expanded.insert(rows::key(open, row.track));
        }
    }

    /// Shows a process with its tracks.
    pub(super) fn unfold_process(&mut self, open: &OpenTrace, index: usize, process: ProcessId) {
        self.unfold_key(&open.id);
        if self.tracks.share_a_line.contains(&(index, process)) {
            self.unfold_key(&Fold::Processes.key(&open.id));
        }
        self.unfold_key(&process_key(open, process));
    }

    fn unfold_key(&mut self, key: &str) {
        if self.tracks.folded_first.contains(key) {
            self.is_stale |= self.settings.expanded.insert(key.to_owned());
        }
        self.is_stale |= self.settings.collapsed.remove(key) | self.settings.hidden.remove(key);
    }

    fn focus(&mut self, ctx: &mut ViewContext<'_>, command: &Command) {
        let Some(time) = ctx.selected_time().or(*ctx.range) else { return };
        match *ctx.selection {
            Selection::Slice { trace, slice } => {
                let open = &ctx.traces[trace];
                self.unfold(open, trace, open.trace.slices.track_of(slice));
                self.unfold_row(open, trace, slice);
                self.reveal = Some((trace, slice));
            }
            Selection::Gap { trace, process, .. } => self.scroll_to = Some((trace, process)),
            _ => {}
        }
        match command {
            Command::ZoomToSelection => ctx.navigation.go(fitted(time, 0.1, ctx.span)),
            _ => axis::focus(ctx.navigation, time, ctx.span),
        }
    }

    /// Selects the slice that `to` returns for the selected one; beside a gap what ends it; without a selection, the
    /// first in view, or back the last.
    fn step(
        &mut self,
        ctx: &mut ViewContext<'_>,
        direction: Direction,
        to: impl Fn(&Trace, SliceId) -> Option<SliceId>,
    ) {
        let next = match *ctx.selection {
            Selection::Slice { trace, slice } => to(&ctx.traces[trace].trace, slice).map(|next| (trace, next)),
            Selection::Gap { trace, .. } => self.selected_gap(ctx).map(|gap| (trace, gap.ended_by)),
            _ => self.end_of_view(ctx, direction),
        };
        if let Some((trace, slice)) = next {
            self.reveal(ctx, trace, slice);
        }
    }

    /// Goes along the arrows of the selected slice; from a gap to the work that ended it, or back to the launch of
    /// that.
    fn follow_flow(&mut self, ctx: &mut ViewContext<'_>, direction: Direction) {
        let (trace, next, none) = match (*ctx.selection, direction) {
            (Selection::Slice { trace, slice }, Direction::Forward) => (
                trace,
                follow(&ctx.traces[trace].trace, slice),
                "Nothing is recorded that this slice launched or caused",
            ),
            (Selection::Slice { trace, slice }, Direction::Back) => (
                trace,
                follow_back(&ctx.traces[trace].trace, slice),
                "What launched or caused this slice is not recorded",
            ),
            (Selection::Gap { trace, .. }, Direction::Forward) => {
                (trace, self.selected_gap(ctx).map(|gap| gap.ended_by), "This gap is still being looked up")
            }
            (Selection::Gap { trace, .. }, Direction::Back) => {
                let launch = |gap: Gap| follow_back(&ctx.traces[trace].trace, gap.ended_by);
                (trace, self.selected_gap(ctx).and_then(launch), "The launch that ended this gap is not recorded")
            }
            _ => (0, None, "Select a slice or a gap first: arrows are followed from there"),
        };
        match next {
            Some(slice) => self.reveal(ctx, trace, slice),
            None => ctx.commands.push(Command::Tell(none)),
        }
    }

    /// The selected gap, once the gaps of its device are known.
    fn selected_gap(&self, ctx: &ViewContext<'_>) -> Option<Gap> {
        let Selection::Gap { trace, process, time } = *ctx.selection else { return None };
        let ledgers = self.strips.ready(trace)?;
        let (ledger, _) = ledgers.of(process)?;
        ledger.at(time.start).map(|gap| ledger.gap(gap))
    }

    /// Selects the next or the previous slice of the row; beside a gap, what ends it or ran last before it.
    fn step_aside(&mut self, ctx: &mut ViewContext<'_>, direction: Direction) {
        if let Selection::Gap { trace, .. } = *ctx.selection
            && let Some(gap) = self.selected_gap(ctx)
        {
            self.reveal(ctx, trace, if direction == Direction::Forward { gap.ended_by } else { gap.after });
        } else {
            self.step(ctx, direction, |trace, slice| neighbor(trace, slice, direction));
        }
    }

    /// The first slice in view, or back the last, on the first track that shows one, device tracks first.
    fn end_of_view(&self, ctx: &ViewContext<'_>, direction: Direction) -> Option<(usize, SliceId)> {
        let lines = || self.tracks.pinned.iter().chain(&self.tracks.scrolled);
        let in_line = |line: &super::track_list::Line, is_device: bool| {
            let LineKind::Track(track) = line.kind else { return None };
            let open = ctx.traces.get(line.trace)?;
            let row = open.trace.rows(track).first()?;
            let first = open.trace.slices.kind.get(row.range().start)?;
            let view = ctx.navigation.visible().shifted(open.offset.saturating_neg());
            let mut shown = open.trace.slices.window(row, view);
            let slice = if direction == Direction::Forward { shown.next() } else { shown.next_back() };
            let slice = slice.filter(|_| first.is_device_work() == is_device)?;
            Some((line.trace, SliceId(slice as u32)))
        };
        lines().find_map(|line| in_line(line, true)).or_else(|| lines().find_map(|line| in_line(line, false)))
    }

    fn collapse_all(&mut self, ctx: &ViewContext<'_>) {
        self.unfolded = None;
        for open in ctx.traces {
            let ids = (0..open.trace.processes.len() as u32).map(ProcessId);
            let keys = ids.map(|process| process_key(open, process));
            fold_keys(open).for_each(|key| _ = self.settings.expanded.remove(&key));
            self.settings.collapsed.extend(keys);
            // Its heading stands for those of its processes.
            if ctx.traces.len() > 1 && open.trace.info.format.is_memory_only() {
                self.settings.collapsed.insert(open.id.to_string());
            }
        }
        self.is_stale = true;
    }
}

fn neighbor(trace: &Trace, slice: SliceId, direction: Direction) -> Option<SliceId> {
    let row = trace.slices.rows.get(trace.slices.row_of(slice))?;
    let next = match direction {
        Direction::Forward => slice.0.checked_add(1)?,
        Direction::Back => slice.0.checked_sub(1)?,
    };
    row.slices.contains(&next).then_some(SliceId(next))
}

fn follow(trace: &Trace, slice: SliceId) -> Option<SliceId> {
    let is_call = matches!(trace.slices.kind[slice.idx()], SliceKind::Runtime | SliceKind::Driver);
    let launched = trace.launched_by(slice).find(|_| is_call);
    trace.flows.outgoing(slice).next().map(|i| trace.flows.to[i]).or(launched)
}

fn follow_back(trace: &Trace, slice: SliceId) -> Option<SliceId> {
    let launch = trace.launch_of(slice).filter(|_| trace.slices.kind[slice.idx()].is_device_work());
    trace.flows.incoming(slice).next().map(|i| trace.flows.from[i]).or(launch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn neighbors_are_of_the_same_row() {
        let kernel = SliceKind::Kernel;
        let times = [(0, 10), (10, 20), (25, 30)];
        let slices: Vec<_> = times.iter().map(|&(ts, end)| ("stream 7", kernel, "k", ts, end)).collect();
        let trace = TraceBuilder::from_slices(&slices).finish();
        assert_eq!(neighbor(&trace, SliceId(2), Direction::Forward), None);
        assert_eq!(neighbor(&trace, SliceId(2), Direction::Back), Some(SliceId(1)));
    }
}
