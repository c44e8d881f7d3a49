//! Where in the program a gap came from: operator and frame (F3).

use super::{Gap, GapPart};
use crate::analysis::frame::Frame;
use crate::model::{SliceId, SliceKind, TimeNs, TimeRange, Trace, TrackId};

/// A place in the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place<'a> {
    /// The innermost operator.
    pub operator: Option<SliceId>,
    /// The innermost frame of the user's program, as recorded: `train.py(12): main`.
    pub frame: Option<&'a str>,
}

/// Operator and user frame of a part of a gap.
///
/// Where the thread of the part has no frame, the one that launched the work before the gap gives it, else one that
/// waits in `backward()`: the thread of autograd has no frames.
///
/// Cost: O(rows of the process · log n).
pub fn place<'a>(trace: &'a Trace, gap: &Gap, part: &GapPart) -> Place<'a> {
    let Some(Whereabouts { thread, time, cause }) = whereabouts(trace, gap, part) else { return Place::default() };
    let mut found = place_at(trace, thread, time);
    if let Some(cause) = cause {
        let is_operator = |slice: &SliceId| trace.slices.kind[slice.idx()] == SliceKind::Operator;
        found.operator = std::iter::once(cause).chain(trace.slices.ancestors(cause)).find(is_operator);
    }
    if found.frame.is_none() {
        let mut candidates = other_threads(trace, gap, thread, time.start);
        found.frame = candidates.find_map(|track| place_at(trace, track, time).frame);
    }
    found
}

/// Where to look for the place of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whereabouts {
    pub thread: TrackId,
    /// The time of the part, or of the call that launched the work after the gap.
    pub time: TimeRange,
    /// The slice that decided the part: what runs inside it changes from instant to instant.
    pub cause: Option<SliceId>,
}

/// Where to look for the place of a part; `None` if no launch was recorded.
pub(super) fn whereabouts(trace: &Trace, gap: &Gap, part: &GapPart) -> Option<Whereabouts> {
    let slices = &trace.slices;
    let cause = part.slice.filter(|slice| !slices.kind[slice.idx()].is_device_work() && part.class.is_host());
    if let Some(slice) = cause {
        return Some(Whereabouts { thread: slices.track_of(slice), time: part.time, cause });
    }
    let call = trace.launch_of(gap.ended_by)?;
    let time = if part.class.is_host() { part.time } else { slices.time(call) };
    Some(Whereabouts { thread: slices.track_of(call), time, cause: None })
}

/// The other threads that may show where the program is: the one that launched the work before the gap, and those of
/// the process that wait in `backward()` at a time.
pub(super) fn other_threads(trace: &Trace, gap: &Gap, thread: TrackId, at: TimeNs) -> impl Iterator<Item = TrackId> {
    let before = trace.launch_of(gap.after).map(|call| trace.slices.track_of(call));
    let process = trace.track(thread).process;
    let others = (0..trace.tracks.len() as u32).map(TrackId);
    let others = others.filter(move |&track| trace.track(track).process == process);
    let waiting = others.filter(move |&track| waits_for_backward(trace, track, at));
    before.into_iter().chain(waiting).filter(move |&track| track != thread)
}

/// Whether a thread waits for the thread of autograd.
fn waits_for_backward(trace: &Trace, thread: TrackId, at: TimeNs) -> bool {
    let slices = &trace.slices;
    let waits = |slice: &SliceId| {
        slices.kind[slice.idx()] == SliceKind::PythonFunction && trace.slice_name(*slice).contains("run_backward")
    };
    open_at(trace, thread, at).iter().any(waits)
}

/// Operator and user frame of a thread at the start of `time`; frames of samples count during all of it.
///
/// Cost: O(rows of the track · log n).
pub fn place_at(trace: &Trace, thread: TrackId, time: TimeRange) -> Place<'_> {
    let slices = &trace.slices;
    let open = open_at(trace, thread, time.start);
    let innermost = |kind| open.iter().rev().copied().filter(move |slice| slices.kind[slice.idx()] == kind);
    let is_user = |name: &&str| Frame::of_python_function(name).is_user();
    let frame = innermost(SliceKind::PythonFunction).map(|slice| trace.slice_name(slice)).find(is_user);
    Place {
        operator: innermost(SliceKind::Operator).next(),
        frame: frame.or_else(|| sampled_frame(trace, thread, time)),
    }
}

/// The slices of a thread that run at a time, the outermost first. Cost: O(rows of the track · log n).
pub(super) fn open_at(trace: &Trace, thread: TrackId, at: TimeNs) -> Vec<SliceId> {
    let slices = &trace.slices;
    let mut open: Vec<(TimeNs, SliceId)> = Vec::new();
    for row in trace.rows(thread) {
        let range = row.range();
        let after = range.start + slices.ts[range.clone()].partition_point(|&ts| ts <= at);
        if after > range.start && slices.end[after - 1] > at {
            open.push((slices.ts[after - 1], SliceId(after as u32 - 1)));
        }
    }
    open.sort_unstable();
    open.into_iter().map(|open| open.1).collect()
}

/// The innermost user frame of the first sample of a thread during `time`.
pub(super) fn sampled_frame(trace: &Trace, thread: TrackId, time: TimeRange) -> Option<&str> {
    let samples = &trace.samples;
    let first = samples.track.partition_point(|&track| track < thread);
    let n = samples.track[first..].partition_point(|&track| track == thread);
    let ts = &samples.ts[first..first + n];
    let at = ts.partition_point(|&ts| ts < time.start);
    let stack = *samples.stack.get(first + at).filter(|_| at < n && ts[at] < time.end)?;
    let frames = trace.stacks.frames(stack).map(|frame| trace.strings.get(frame));
    frames.into_iter().find(|frame| Frame::of(frame).is_user())
}
