//! Operator and frame in which a gap arose (F3).

use std::cell::RefCell;

use super::{Gap, GapClass, GapPart, Ledger};
use crate::analysis::frame::{Frame, FrameNames};
use crate::model::time::partition_near;
use crate::model::{MOST_ROWS, Row, SliceId, SliceKind, TimeNs, TimeRange, Trace, TrackId};

/// A place in the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapPlace<'a> {
    /// The innermost operator that takes most of the time. While data is loaded without one: the innermost Python
    /// function.
    pub operator: Option<SliceId>,
    /// The innermost frame of the user's program, as recorded: `train.py(12): main`. Where there is none, as in a server
    /// that is a library itself, that of a library.
    pub frame: Option<&'a str>,
}

/// Operator and frame of a part of a gap.
///
/// Where the thread of the part has no frame of the user's program, the one that launched the work before the gap gives
/// it, else one that waits in `backward()`: the thread of autograd has no frames. Where none has, frames of libraries
/// are looked for likewise.
///
/// Cost: O(rows of the process · log n).
pub fn place<'a>(trace: &'a Trace, ledger: &Ledger, gap: &Gap, part: &GapPart, near: &Near) -> GapPlace<'a> {
    let Some(at) = whereabouts(trace, gap, part) else { return GapPlace::default() };
    let open = at.open(trace, near);
    let is_operator = |slice: &SliceId| trace.slices.kind[slice.idx()] == SliceKind::Operator;
    let operator = at.function(trace, &open).or_else(|| open.iter().rev().copied().find(is_operator));
    let frame = frame_at(trace, ledger, gap, (&at, &open), near);
    GapPlace { operator, frame: frame.map(|frame| frame.text(trace)) }
}

/// The frame alone of [`place`].
pub fn frame<'a>(trace: &'a Trace, ledger: &Ledger, gap: &Gap, part: &GapPart, near: &Near) -> Option<&'a str> {
    let at = whereabouts(trace, gap, part).filter(|_| near.has_frames)?;
    frame_at(trace, ledger, gap, (&at, &at.open(trace, near)), near).map(|frame| frame.text(trace))
}

/// The slices that show the place of a part, the most telling first: that of the frame of [`place`] where one was
/// recorded, its operator, and what explains the part.
pub fn slices_of_place(trace: &Trace, ledger: &Ledger, gap: &Gap, part: &GapPart) -> Vec<SliceId> {
    let near = &Near::none();
    let at = whereabouts(trace, gap, part);
    let frame = at.and_then(|at| match frame_at(trace, ledger, gap, (&at, &at.open(trace, near)), near)? {
        FoundFrame::Slice(slice) => Some(slice),
        FoundFrame::Sample(_) => None,
    });
    let operator = place(trace, ledger, gap, part, near).operator;
    [frame, operator, part.slice].into_iter().flatten().collect()
}

/// A frame as it was recorded: a function that ran, or one on the stack of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) enum FoundFrame<'a> {
    Slice(SliceId),
    Sample(&'a str),
}

impl<'a> FoundFrame<'a> {
    fn text(self, trace: &'a Trace) -> &'a str {
        match self {
            Self::Slice(slice) => trace.slice_name(slice),
            Self::Sample(text) => text,
        }
    }
}

/// Whose frames are looked for.
#[derive(Clone, Copy, Debug)]
enum Whose {
    User,
    Library,
}

/// The frame of [`place`].
///
/// * `open`: [`Whereabouts::open`].
pub(super) fn frame_at<'a>(
    trace: &'a Trace,
    ledger: &Ledger,
    gap: &Gap,
    (at, open): (&Whereabouts, &[SliceId]),
    near: &Near,
) -> Option<FoundFrame<'a>> {
    if !near.has_frames {
        return None;
    }
    let &Whereabouts { thread, time, .. } = at;
    let of = |whose: Whose, open: &[SliceId], thread: TrackId| innermost(trace, whose, open, (thread, time), near);
    of(Whose::User, open, thread).or_else(|| {
        let others = other_threads(trace, ledger, gap, thread, time.start, near);
        let others: Vec<_> = others.map(|thread| (open_during(trace, thread, time, near), thread)).collect();
        let of_others = |whose: Whose| others.iter().find_map(|(open, thread)| of(whose, open, *thread));
        of_others(Whose::User).or_else(|| of(Whose::Library, open, thread)).or_else(|| of_others(Whose::Library))
    })
}

/// Operator and user frame of a call on its own thread. The operator is the outermost of PyTorch's that are nested
/// right around the call: `aten::item` rather than `aten::_local_scalar_dense`, else the innermost.
///
/// * `near`: as for [`place`].
///
/// Cost: O(rows of the track · log n).
pub fn place_of_call<'a>(trace: &'a Trace, call: SliceId, near: &Near) -> GapPlace<'a> {
    let slices = &trace.slices;
    if !near.has_frames && !slices.has_kind(SliceKind::Operator) {
        return GapPlace::default();
    }
    let (thread, time) = (slices.track_of(call), slices.time(call));
    let mut open = open_during(trace, thread, time, near);
    let at = open.iter().position(|&slice| slice == call);
    open.truncate(at.map_or(0, |at| at + 1));
    let is_operator = |slice: &SliceId| slices.kind[slice.idx()] == SliceKind::Operator;
    let around = open.iter().rev().copied().skip_while(|slice| !is_operator(slice)).take_while(is_operator);
    let nested = around.clone().take_while(|&slice| trace.slice_name(slice).starts_with("aten::"));
    GapPlace {
        operator: nested.last().or(around.clone().next()),
        frame: user_frame(trace, &open, (thread, time), near),
    }
}

/// What PyTorch writes before the name of a node of the backward pass.
pub const BACKWARD_NODE: &str = "autograd::engine::evaluate_function: ";

/// Where a call was made: the innermost frame of the user's program on its thread, else the node of the backward pass
/// that runs there, since the thread of autograd has no frames; `None` if neither was recorded.
///
/// * `open`: what runs around the call on its thread, see [`open_during`].
pub fn origin_of_call<'a>(trace: &'a Trace, call: SliceId, open: &[SliceId], near: &Near) -> Option<&'a str> {
    let (thread, time) = (trace.slices.track_of(call), trace.slices.time(call));
    let names = open.iter().rev().map(|&slice| trace.slice_name(slice));
    let node = || names.clone().find_map(|name| name.strip_prefix(BACKWARD_NODE));
    user_frame(trace, open, (thread, time), near).or_else(node)
}

/// Where to look for the place of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whereabouts {
    pub thread: TrackId,
    /// The time of the part, or of the call that launched the work after the gap.
    pub time: TimeRange,
    /// The slice that decided the part: what runs inside it changes from instant to instant.
    pub cause: Option<SliceId>,
    /// The slice that loads data: what takes most of the time lies inside.
    pub loader: Option<SliceId>,
}

impl Whereabouts {
    /// The slices that run during most of the time, the outermost first; none inside the cause.
    pub fn open(&self, trace: &Trace, near: &Near) -> Vec<SliceId> {
        let mut open = open_during(trace, self.thread, self.time, near);
        if let Some(at) = open.iter().position(|&slice| Some(slice) == self.cause) {
            open.truncate(at + 1);
        }
        open
    }

    /// The innermost Python function inside the loader, unless an operator or a named range lies inside of it.
    /// Functions whose name has an address are not lasting.
    ///
    /// * `open`: [`Self::open`].
    pub fn function(&self, trace: &Trace, open: &[SliceId]) -> Option<SliceId> {
        let kind = |slice: SliceId| trace.slices.kind[slice.idx()];
        let loader = open.iter().position(|&slice| Some(slice) == self.loader)?;
        let inside = open[loader + 1..].iter().rev().copied();
        inside.take_while(|&slice| !matches!(kind(slice), SliceKind::Operator | SliceKind::Annotation)).find(|&slice| {
            kind(slice) == SliceKind::PythonFunction && !trace.slice_name(slice).contains(" object at 0x")
        })
    }
}

/// Where to look for the place of a part; `None` if no launch was recorded.
pub(super) fn whereabouts(trace: &Trace, gap: &Gap, part: &GapPart) -> Option<Whereabouts> {
    let slices = &trace.slices;
    // Rows of overhead belong to no thread.
    let is_of_thread = |slice: &SliceId| {
        let kind = slices.kind[slice.idx()];
        !kind.is_device_work() && kind != SliceKind::Overhead
    };
    if let Some(slice) = part.slice.filter(|slice| part.class.is_host() && is_of_thread(slice)) {
        let (thread, is_loader) = (slices.track_of(slice), part.class == GapClass::DataLoading);
        let [cause, loader] = [!is_loader, is_loader].map(|holds| holds.then_some(slice));
        return Some(Whereabouts { thread, time: part.time, cause, loader });
    }
    let call = trace.launch_of(gap.ended_by)?;
    let time = if part.class.is_host() { part.time } else { slices.time(call) };
    Some(Whereabouts { thread: slices.track_of(call), time, cause: None, loader: None })
}

/// The other threads that may show where the program is: the one that launched the work before the gap, and those of
/// the process that wait in `backward()` at a time.
fn other_threads(
    trace: &Trace,
    ledger: &Ledger,
    gap: &Gap,
    thread: TrackId,
    at: TimeNs,
    near: &Near,
) -> impl Iterator<Item = TrackId> {
    let before = trace.launch_of(gap.after).map(|call| trace.slices.track_of(call));
    let process = trace.track(thread).process;
    let threads = ledger.backward.iter().copied().filter(move |&track| trace.track(track).process == process);
    let waiting = threads.filter(move |&track| waits_for_backward(trace, track, at, near));
    before.into_iter().chain(waiting).filter(move |&track| track != thread)
}

/// Whether a thread waits for the thread of autograd.
fn waits_for_backward(trace: &Trace, thread: TrackId, at: TimeNs, near: &Near) -> bool {
    let kind = |slice: SliceId| trace.slices.kind[slice.idx()];
    let waits = |&slice: &SliceId| kind(slice) == SliceKind::PythonFunction && is_backward(trace.slice_name(slice));
    open_at(trace, thread, at, near).iter().any(waits)
}

/// The threads that at some time wait for the thread of autograd. Cost: O(slices).
pub(super) fn backward_threads(trace: &Trace) -> Vec<TrackId> {
    let slices = &trace.slices;
    let waits: Vec<bool> = trace.strings.iter().map(|(_, name)| is_backward(name)).collect();
    if !waits.contains(&true) {
        return Vec::new();
    }
    let is_waiting = |i: usize| slices.kind[i] == SliceKind::PythonFunction && waits[slices.name[i].0 as usize];
    let all = (0..trace.tracks.len() as u32).map(TrackId);
    all.filter(|&track| trace.track_slices(track).any(is_waiting)).collect()
}

fn is_backward(function: &str) -> bool {
    function.contains("run_backward")
}

/// The innermost frame of the user's program among `open` slices of a thread, else of a sample during `time`.
fn user_frame<'a>(
    trace: &'a Trace,
    open: &[SliceId],
    (thread, time): (TrackId, TimeRange),
    near: &Near,
) -> Option<&'a str> {
    innermost(trace, Whose::User, open, (thread, time), near).map(|frame| frame.text(trace))
}

/// The innermost frame of these among `open` slices of a thread, else of a sample during `time`.
fn innermost<'a>(
    trace: &'a Trace,
    whose: Whose,
    open: &[SliceId],
    (thread, time): (TrackId, TimeRange),
    near: &Near,
) -> Option<FoundFrame<'a>> {
    if !near.has_frames {
        return None;
    }
    let is_wanted = |&&slice: &&SliceId| match whose {
        Whose::User => near.names.is_user(trace, slice),
        Whose::Library => near.names.is_library(trace, slice),
    };
    let function = open.iter().rev().find(is_wanted).map(|&slice| FoundFrame::Slice(slice));
    function.or_else(|| sampled_frame(trace, whose, thread, time).map(FoundFrame::Sample))
}

/// The slices of a thread that run during at least half of `time`, the outermost first.
///
/// Each of them runs in the middle of it. Cost: O(rows of the track · log n).
///
/// * `near`: as for `open_at`.
pub fn open_during(trace: &Trace, thread: TrackId, time: TimeRange, near: &Near) -> Vec<SliceId> {
    let mut open = open_at(trace, thread, time.start + time.dur() / 2, near);
    let is_most = |slice: &SliceId| {
        let own = trace.slices.time(*slice);
        // As nearly all do.
        if own.start <= time.start && time.end <= own.end {
            return true;
        }
        let within = own.intersect(time);
        time.dur() == 0 || within.is_some_and(|within| within.dur() >= time.dur() - within.dur())
    };
    open.retain(is_most);
    open
}

/// What searches near to one another know.
#[derive(Debug)]
pub struct Near {
    /// For each row of the trace, where something was found in it last; empty if the next search is elsewhere.
    rows: RefCell<Vec<u32>>,
    /// Whether the recording has frames of any kind: else none is searched for.
    pub has_frames: bool,
    pub names: FrameNames,
}

impl Near {
    /// Cost: O(rows).
    pub fn new(trace: &Trace) -> Self {
        let has_frames = !trace.samples.ts.is_empty() || trace.slices.has_kind(SliceKind::PythonFunction);
        // Zeros cost next to nothing until they are used: there may be as many devices as rows.
        Self { rows: RefCell::new(vec![0; trace.slices.rows.len()]), has_frames, names: FrameNames::default() }
    }

    /// For a single search.
    pub const fn none() -> Self {
        Self { rows: RefCell::new(Vec::new()), has_frames: true, names: FrameNames::none() }
    }

    /// The number of values of a row that are before something, which is near to what was found in the row last.
    ///
    /// * `row`: its index in the trace.
    #[inline]
    pub fn partition<T>(&self, row: usize, values: &[T], is_before: impl Fn(&T) -> bool) -> usize {
        partition_in(&mut self.rows.borrow_mut(), row, values, is_before)
    }
}

/// See [`Near::partition`].
#[inline]
fn partition_in<T>(rows: &mut [u32], row: usize, values: &[T], is_before: impl Fn(&T) -> bool) -> usize {
    let Some(near) = rows.get_mut(row) else { return values.partition_point(is_before) };
    let found = partition_near(values, *near as usize, is_before);
    *near = found as u32;
    found
}

/// The slices of a thread that run at a time, the outermost first. Cost: O(rows of the track · log n), of
/// [`MOST_ROWS`] at most.
pub(super) fn open_at(trace: &Trace, thread: TrackId, at: TimeNs, near: &Near) -> Vec<SliceId> {
    let slices = &trace.slices;
    let first_row = trace.track_rows[thread.0 as usize].start as usize;
    let rows = trace.rows(thread);
    let rows = &rows[..rows.len().min(MOST_ROWS)];
    let mut near = near.rows.borrow_mut();
    let mut open_in = |(row, index): (&Row, usize)| {
        let range = row.range();
        let after = range.start + partition_in(&mut near, index, &slices.ts[range.clone()], |&ts| ts <= at);
        let last = (after > range.start).then(|| after - 1)?;
        (slices.end[last] > at).then_some(SliceId(last as u32))
    };
    let (nested, crossing) = rows.split_at(rows.partition_point(|row| !row.is_overflow));
    let mut open: Vec<SliceId> = Vec::with_capacity(rows.len());
    // Slices of a nested row run inside those of the row above.
    open.extend(nested.iter().zip(first_row..).map_while(&mut open_in));
    if !crossing.is_empty() {
        open.extend(crossing.iter().zip(first_row + nested.len()..).filter_map(&mut open_in));
        open.sort_by_key(|&slice| (slices.ts[slice.idx()], slice));
    }
    open
}

/// The innermost frame of these of the first sample of a thread during `time`.
fn sampled_frame(trace: &Trace, whose: Whose, thread: TrackId, time: TimeRange) -> Option<&str> {
    let samples = &trace.samples;
    let first = samples.track.partition_point(|&track| track < thread);
    let n = samples.track[first..].partition_point(|&track| track == thread);
    let ts = &samples.ts[first..first + n];
    let at = ts.partition_point(|&ts| ts < time.start);
    let stack = *samples.stack.get(first + at).filter(|_| at < n && ts[at] < time.end)?;
    let frames = trace.stacks.frames(stack).map(|frame| trace.strings.get(frame));
    frames.into_iter().find(|frame| match whose {
        Whose::User => Frame::of(frame).is_user(),
        Whose::Library => Frame::of(frame).is_library(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn what_is_open_for_most_of_a_time_is_found_for_times_that_no_clock_has() {
        let end = 3 * (i64::MAX / 4);
        let slices = [
            ("main", SliceKind::Operator, "half", 0, end / 2 + 1),
            ("main", SliceKind::Operator, "inside", end / 4, end / 2 + 1),
        ];
        let trace = TraceBuilder::from_slices(&slices).finish();
        let open = open_during(&trace, TrackId(0), TimeRange { start: 0, end }, &Near::new(&trace));
        let names: Vec<_> = open.iter().map(|&slice| trace.slice_name(slice)).collect();
        assert_eq!(names, ["half"]);
    }
}
