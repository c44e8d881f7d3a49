//! From gap to gap of a device: by duration or along time.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::Timeline;
use super::commands::Direction;
use super::track_list::{Line, LineKind};
use super::unfolded::Unfolded;
use crate::analysis::gaps::{GapClass, GapPart, Ledger, LedgerIndex, slices_of_place};
use crate::answers::Answer;
use crate::command::Command;
use crate::model::{DurNs, ProcessId, SliceId, TimeNs, TimeRange};
use crate::session::{GapOrder, OpenTrace, Selection};
use crate::view::ViewContext;
use crate::view::axis::{centered, fitted, middle};

/// Parts of a gap that are looked at.
const MAX_PARTS: usize = 4096;

impl Timeline {
    /// Selects the next gap of the device and shows it; once the ledgers are ready, if they are not yet.
    ///
    /// The device is that of the selection, else that with the longest gap, or along time the first in the list of
    /// tracks. Gaps are walked in the order that the user chose, by duration first those in the judged steps, above
    /// the threshold of the ledger, and within the selected range if there is one.
    pub(super) fn walk(&mut self, ctx: &mut ViewContext<'_>, direction: Direction) {
        self.pending_walk = None;
        let selected = device_of_selection(ctx);
        let longest = match *ctx.gap_order {
            GapOrder::Duration if selected.is_none() => match self.device_of_longest(ctx) {
                Ok(found) => found,
                Err(StillWorking) => {
                    self.pending_walk = Some(direction);
                    return;
                }
            },
            _ => None,
        };
        let Some((trace, process)) = selected.or(longest).or_else(|| self.first_device(ctx)) else {
            return ctx.commands.push(Command::Tell(match ctx.traces {
                [] => "No gaps: nothing is open",
                _ => "No gaps: no GPU work was recorded",
            }));
        };
        let ledgers = match self.strips.ledgers(ctx, trace) {
            Answer::Ready(ledgers) => ledgers,
            Answer::Working(_) => {
                self.pending_walk = Some(direction);
                return;
            }
            Answer::Failed(_) => return,
        };
        let of_process = process.and_then(|process| ledgers.of(process));
        let Some((ledger, index)) = of_process.or_else(|| ledgers.iter().next()) else { return };
        let offset = ctx.traces[trace].offset;
        let range = ctx.range.map_or(TimeRange::ALL, |range| range.shifted(offset.saturating_neg()));
        let at = match *ctx.selection {
            Selection::Gap { trace: of, process, time } if (of, process) == (trace, ledger.process) => Some(time),
            _ => None,
        };
        let visible = ctx.navigation.visible().start.saturating_sub(offset);
        let from = ctx.selected_time().map_or(visible, |time| time.start.saturating_sub(offset));
        let next = match *ctx.gap_order {
            GapOrder::Duration => by_duration(ledger, index, range, at, direction),
            GapOrder::Time => along_time(ledger, index, range, at.map_or(from, |at| at.start), direction),
        };
        let Some(gap) = next else {
            let is_first = at.is_none();
            return ctx.commands.push(Command::Tell(if is_first && ctx.range.is_some() {
                "No gap in the selected range. Escape clears it"
            } else if is_first {
                "No gap of this device is long enough to go to. The Gaps view lists them all"
            } else {
                match ctx.range {
                    Some(_) => "No further gap in the selected range in that direction. Escape clears the range",
                    None => "No further gap in that direction. The Gaps view sets the order of G",
                }
            }));
        };
        let time = ledger.time(gap);
        ctx.commands.push(Command::Say(said((*ctx.gap_order, direction), index, (at, time), ctx.range.is_some())));
        *ctx.selection = Selection::Gap { trace, process: ledger.process, time };
        self.show_gap(ctx);
    }

    /// Shows the selected gap with what runs before and after it.
    pub(super) fn show_gap(&mut self, ctx: &mut ViewContext<'_>) {
        let Selection::Gap { trace, process, .. } = *ctx.selection else { return };
        let Some(gap) = ctx.selected_time() else { return };
        let view = ctx.navigation.visible();
        if gap.dur() > view.dur() / 2 || gap.dur() < view.dur() / 50 {
            ctx.navigation.go(fitted(gap, 2.0, ctx.span));
        } else if gap.start < view.start || gap.end > view.end {
            ctx.navigation.go(centered(view, middle(gap), ctx.span));
        }
        self.put_back();
        let before = self.settings.clone();
        self.unfold_process(&ctx.traces[trace], trace, process);
        self.unfolded = Unfolded::since(&before, &self.settings, (trace, process));
        self.scroll_to = Some((trace, process));
        self.reveal = self.host_of_gap(ctx).map(|slice| (trace, slice));
        if let Some((_, slice)) = self.reveal {
            self.unfold_row(&ctx.traces[trace], trace, slice);
        }
    }

    /// The slice that shows where the host was in most of the selected gap, if the track of its thread is on show: one
    /// whose row is, together with the gap; else one whose row is, if there is one. What is in folded outer rows runs
    /// all the time.
    fn host_of_gap(&self, ctx: &ViewContext<'_>) -> Option<SliceId> {
        let Selection::Gap { trace, process, time } = *ctx.selection else { return None };
        let open = &ctx.traces[trace];
        let (ledgers, slices) = (self.strips.ready(trace)?, &open.trace.slices);
        let (ledger, _) = ledgers.of(process)?;
        let index = ledger.at(time.start)?;
        // Of what explains most of it, the longest part.
        let mut causes: HashMap<(GapClass, Option<SliceId>), (DurNs, GapPart)> = HashMap::new();
        for part in ledger.parts(index).take(MAX_PARTS) {
            let (ns, longest) = causes.entry((part.class, part.slice)).or_insert((0, part));
            *ns += part.time.dur();
            if longest.time.dur() < part.time.dur() {
                *longest = part;
            }
        }
        let (_, part) = causes.into_values().max_by_key(|&(ns, part)| (ns, Reverse(part.time.start)))?;
        let places = slices_of_place(&open.trace, ledger, &ledger.gap(index), &part);
        let first = |is_wanted: &dyn Fn(&Line, u32) -> bool| {
            places.iter().copied().find(|&slice| {
                let row = &slices.rows[slices.row_of(slice)];
                let line = self.tracks.line_of(trace, row.track).and_then(|at| self.tracks.line(at));
                line.is_some_and(|line| line.kind == LineKind::Track(row.track) && is_wanted(line, row.depth))
            })
        };
        let is_shown = |line: &Line, row: u32| line.rows().contains(&row);
        let height = self.placed.0.map_or(0.0, |canvas| canvas.height());
        let device = self.device_heading(trace, process).map(|line| line.y);
        let fits = |line: &Line, row: u32| {
            // With a row below it, as far as it is scrolled to be seen.
            let bottom = line.y + f64::from((row - line.first_row + 2) as f32 * line.row_height);
            device.is_some_and(|top| line.is_pinned || (top..=top + f64::from(height)).contains(&bottom))
        };
        first(&|line, row| is_shown(line, row) && fits(line, row))
            .or_else(|| first(&is_shown))
            .or_else(|| first(&|line, row| row >= line.first_row))
    }

    /// The device with the longest gap in judged steps of all that are open, else with the longest, within the
    /// selected range if there is one.
    fn device_of_longest(&mut self, ctx: &ViewContext<'_>) -> Result<Option<(usize, Option<ProcessId>)>, StillWorking> {
        let (mut most, mut device) = (None, None);
        for (trace, open) in ctx.traces.iter().enumerate().filter(|(_, open)| has_device(open)) {
            let ledgers = match self.strips.ledgers(ctx, trace) {
                Answer::Ready(ledgers) => ledgers,
                Answer::Working(_) => return Err(StillWorking),
                Answer::Failed(_) => continue,
            };
            let range = ctx.range.map_or(TimeRange::ALL, |range| range.shifted(open.offset.saturating_neg()));
            for (ledger, index) in ledgers.iter() {
                let Some(gap) = by_duration(ledger, index, range, None, Direction::Forward) else { continue };
                let time = ledger.time(gap);
                let key = (!index.is_outside(time), time.dur());
                if most.is_none_or(|most| key > most) {
                    (most, device) = (Some(key), Some((trace, Some(ledger.process))));
                }
            }
        }
        Ok(device)
    }

    /// The first device in the list of tracks, else the first trace with one.
    fn first_device(&self, ctx: &ViewContext<'_>) -> Option<(usize, Option<ProcessId>)> {
        let of_line = |line: &Line| match line.kind {
            LineKind::Process(process) if line.has_strip() => Some((line.trace, Some(process))),
            _ => None,
        };
        let first = || Some((ctx.traces.iter().position(has_device)?, None));
        self.tracks.scrolled.iter().find_map(of_line).or_else(first)
    }
}

/// A trace whose gaps are not known yet.
struct StillWorking;

fn has_device(open: &OpenTrace) -> bool {
    open.trace.processes.iter().any(|process| process.device.is_some())
}

/// The trace and the device that the selection is of, or whose work it launched.
fn device_of_selection(ctx: &ViewContext<'_>) -> Option<(usize, Option<ProcessId>)> {
    match *ctx.selection {
        Selection::Gap { trace, process, .. } => Some((trace, Some(process))),
        Selection::Slice { trace, slice } => {
            let model = &ctx.traces.get(trace)?.trace;
            let is_device = |slice: &SliceId| model.slices.kind[slice.idx()].is_device_work();
            let on_device = Some(slice).filter(is_device).or_else(|| model.launched_by(slice).next())?;
            Some((trace, Some(model.track(model.slices.track_of(on_device)).process)))
        }
        _ => None,
    }
}

/// In which order a step goes on from one gap, if there is one, to another.
fn said(
    (order, direction): (GapOrder, Direction),
    index: &LedgerIndex,
    (from, to): (Option<TimeRange>, TimeRange),
    is_in_range: bool,
) -> &'static str {
    let is_forward = direction == Direction::Forward;
    match (order, from) {
        (GapOrder::Time, _) if is_forward => {
            "Along time: the next gap of this device. The Gaps view sets the order of G"
        }
        (GapOrder::Time, _) => "Along time: the gap of this device before. The Gaps view sets the order of G",
        (_, None) if is_in_range => {
            "The longest gap of this device in the selected range. G goes on with its next longest there; Escape clears \
             the range"
        }
        (_, Some(from)) if index.is_outside(to) && index.is_outside(from) => {
            "By duration, outside of the judged steps. The Gaps view sets the order of G"
        }
        _ if index.is_outside(to) => {
            "No more gaps long enough to go to in the judged steps. This one is outside of them; the Gaps view \
             lists all"
        }
        (_, None) if index.has_steps() => {
            "The longest gap of this device in the judged steps. G goes on with its next longest; the Gaps view sets the \
             order"
        }
        (_, None) => "The longest gap of this device. G goes on with its next longest; the Gaps view sets the order",
        _ if is_forward => "By duration: the next longest gap of this device. The Gaps view sets the order of G",
        _ => "By duration: the next longer gap of this device. The Gaps view sets the order of G",
    }
}

/// The gap after `at` in the order of the index, or the one before.
fn by_duration(
    ledger: &Ledger,
    index: &LedgerIndex,
    range: TimeRange,
    at: Option<TimeRange>,
    direction: Direction,
) -> Option<usize> {
    let key = |time: TimeRange| index.rank(time);
    let key_of = |gap: &u32| key(ledger.time(*gap as usize));
    let within = ledger.within(range);
    let is_within = |gap: &&u32| within.contains(&(**gap as usize));
    let ranked = &index.ranked;
    let found = match (at.map(key), direction) {
        (None, _) => ranked.iter().find(is_within),
        (Some(at), Direction::Forward) => {
            ranked[ranked.partition_point(|gap| key_of(gap) <= at)..].iter().find(is_within)
        }
        (Some(at), Direction::Back) => ranked[..ranked.partition_point(|gap| key_of(gap) < at)].iter().rfind(is_within),
    };
    found.map(|&gap| gap as usize)
}

/// The first gap that starts after `from`, or the last before, of those that are ranked.
fn along_time(
    ledger: &Ledger,
    index: &LedgerIndex,
    range: TimeRange,
    from: TimeNs,
    direction: Direction,
) -> Option<usize> {
    let within = ledger.within(range);
    let is_long = |&gap: &usize| ledger.gap(gap).time.dur() >= index.ranked_from_ns;
    match direction {
        Direction::Forward => {
            let after = ledger.within(TimeRange { start: from, end: TimeNs::MAX });
            let is_after = |&gap: &usize| ledger.gap(gap).time.start > from;
            (after.start.max(within.start)..within.end).filter(is_after).find(is_long)
        }
        Direction::Back => {
            let before = ledger.within(TimeRange { start: TimeNs::MIN, end: from });
            (within.start..before.end.min(within.end)).rfind(is_long)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::busy::devices;
    use crate::analysis::gaps::ledger;
    use crate::model::{SliceKind, TraceBuilder};

    #[test]
    fn gaps_are_walked_both_ways_above_the_threshold_and_within_the_range() {
        // Gaps of 1 ns, 20 µs, 50 µs, 20 µs and 30 µs.
        let (mut now, mut slices) = (0, Vec::new());
        for gap in [1, 20_000, 50_000, 20_000, 30_000, 0] {
            slices.push(("stream 7", SliceKind::Kernel, "k", now, now + 100));
            now += 100 + gap;
        }
        let trace = TraceBuilder::from_slices(&slices).finish();
        let ledger = ledger(&trace, &devices(&trace)[0], None, &|| false);
        let index = LedgerIndex::new(&ledger, None, &|| false);
        let walk = |next: &dyn Fn(Option<usize>) -> Option<usize>| {
            let (mut all, mut at) = (Vec::new(), None);
            while let Some(gap) = next(at).filter(|_| all.len() < 9) {
                all.push(gap);
                at = Some(gap);
            }
            all
        };
        let time = |gap: usize| ledger.gap(gap).time;
        let (forward, back) = (Direction::Forward, Direction::Back);
        let by = |range, direction| walk(&|at| by_duration(&ledger, &index, range, at.map(time), direction));
        assert_eq!(by(TimeRange::ALL, forward), [2, 4, 1, 3]);
        // Those in the judged steps come first, and the way back is the same.
        let counted = TimeRange { start: time(2).end, end: time(4).end };
        let of_steps = LedgerIndex::new(&ledger, Some(counted), &|| false);
        let by_steps = |at, direction| by_duration(&ledger, &of_steps, TimeRange::ALL, at, direction);
        assert_eq!(walk(&|at| by_steps(at.map(time), forward)), [4, 3, 2, 1]);
        assert_eq!(by_steps(Some(time(2)), back), Some(3));
        assert_eq!(by_duration(&ledger, &index, TimeRange::ALL, Some(time(3)), back), Some(1));
        assert_eq!(by_duration(&ledger, &index, TimeRange::ALL, Some(time(2)), back), None);
        let late = TimeRange { start: time(3).start, end: TimeNs::MAX };
        assert_eq!(by(late, forward), [4, 3]);
        let along = |range, direction, from: i64| {
            walk(&|at| along_time(&ledger, &index, range, at.map_or(from, |at| time(at).start), direction))
        };
        assert_eq!(along(TimeRange::ALL, forward, 0), [1, 2, 3, 4]);
        assert_eq!(along(TimeRange::ALL, back, time(4).end), [4, 3, 2, 1]);
        assert_eq!(along(late, back, TimeNs::MAX), [4, 3]);
    }
}
