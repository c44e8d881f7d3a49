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
/// Where the thread of the part has no frame, another of its process gives it: during a backward pass the thread
/// of autograd has none, and the main thread waits in `backward()`.
///
/// Cost: O(rows of the process · log n).
pub fn place<'a>(trace: &'a Trace, gap: &Gap, part: &GapPart) -> Place<'a> {
    let slices = &trace.slices;
    let call = trace.launch_of(gap.ended_by);
    let on_host = part.slice.filter(|slice| !slices.kind[slice.idx()].is_device_work() && part.class.is_host());
    let (thread, time) = match (on_host, call) {
        (Some(slice), _) => (slices.track_of(slice), part.time),
        (None, Some(call)) if part.class.is_host() => (slices.track_of(call), part.time),
        (None, Some(call)) => (slices.track_of(call), slices.time(call)),
        (None, None) => return Place::default(),
    };
    let mut found = place_at(trace, thread, time);
    if found.frame.is_none() {
        let before = trace.launch_of(gap.after).map(|call| slices.track_of(call));
        let process = trace.track(thread).process;
        let others = (0..trace.tracks.len() as u32).map(TrackId);
        let others = others.filter(|&track| trace.track(track).process == process && track != thread);
        found.frame = before.into_iter().chain(others).find_map(|track| place_at(trace, track, time).frame);
    }
    found
}

/// Operator and user frame of a thread at the start of `time`; frames of samples count during all of it.
///
/// Cost: O(rows of the track · log n).
pub fn place_at(trace: &Trace, thread: TrackId, time: TimeRange) -> Place<'_> {
    let slices = &trace.slices;
    let mut open: Vec<(TimeNs, SliceId)> = Vec::new();
    for row in trace.rows(thread) {
        let range = row.range();
        let after = range.start + slices.ts[range.clone()].partition_point(|&ts| ts <= time.start);
        if after > range.start && slices.end[after - 1] > time.start {
            open.push((slices.ts[after - 1], SliceId(after as u32 - 1)));
        }
    }
    open.sort_unstable();
    let innermost = |kind| open.iter().rev().map(|open| open.1).filter(move |slice| slices.kind[slice.idx()] == kind);
    let is_user = |name: &&str| Frame::of_python_function(name).is_user();
    let frame = innermost(SliceKind::PythonFunction).map(|slice| trace.slice_name(slice)).find(is_user);
    Place {
        operator: innermost(SliceKind::Operator).next(),
        frame: frame.or_else(|| sampled_frame(trace, thread, time)),
    }
}

/// The innermost user frame of the first sample of a thread during `time`.
fn sampled_frame(trace: &Trace, thread: TrackId, time: TimeRange) -> Option<&str> {
    let samples = &trace.samples;
    let first = samples.track.partition_point(|&track| track < thread);
    let n = samples.track[first..].partition_point(|&track| track == thread);
    let ts = &samples.ts[first..first + n];
    let at = ts.partition_point(|&ts| ts < time.start);
    let stack = *samples.stack.get(first + at).filter(|_| at < n && ts[at] < time.end)?;
    let frames = trace.stacks.frames(stack).map(|frame| trace.strings.get(frame));
    frames.into_iter().find(|frame| Frame::of(frame).is_user())
}
