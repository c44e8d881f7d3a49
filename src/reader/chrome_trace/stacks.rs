//! Converts a profile's samples to instants and its frames to call stacks.

use std::collections::HashMap;

use crate::model::{StackId, StringId, TraceBuilder, Track, TrackId, TrackKind};

use super::assemble::{ProcessTracks, Thread};
use super::profile::{Frame, MAX_DEPTH, NONE, Profile};
use super::tally::{Reason, Tally};
use super::text::unescape;

/// Adds each sample to the builder, as a sample and as an instant named by its innermost frame.
///
/// * `threads`: the threads of the events. A sample without a process is assigned to the thread with its
///   thread id, if exactly one has it.
pub fn add_samples(
    profile: &Profile,
    threads: &[Thread],
    process_tracks: &mut ProcessTracks,
    builder: &mut TraceBuilder,
    tally: &mut Tally,
) {
    let mut tracks = Tracks::new(profile, threads);
    let mut stacks = Stacks { profile, known: HashMap::new() };
    for sample in &profile.samples {
        let track = tracks.get(sample.thread, sample.comm, process_tracks);
        let (mut stack, mut name) = (StackId(0), None);
        if sample.frame != NONE {
            match stacks.get(sample.frame, builder, tally) {
                Some(Resolved::Done { stack: known, is_cut, .. }) => {
                    if is_cut {
                        tally.count(Reason::DeepStack, sample.source);
                    }
                    (stack, name) = (known, builder.stacks.frame.get(known.0 as usize).copied());
                }
                _ => tally.count(Reason::LostFrame, sample.source),
            }
        }
        builder.samples.ts.push(sample.ts);
        builder.samples.track.push(track);
        builder.samples.stack.push(stack);
        let name = name.unwrap_or_else(|| builder.strings.intern(&unescape(profile.text(sample.name))));
        builder.instants.ts.push(sample.ts);
        builder.instants.track.push(track);
        builder.instants.name.push(name);
        builder.instants.source.push(sample.source);
    }
    builder.import.read += profile.n_read;
    builder.import.shown += profile.samples.len() as u64;
    let unused = profile.frames.iter().filter(|(id, _)| !stacks.known.contains_key(*id));
    let (n_unused, first) = unused.fold((0, u64::MAX), |(n, first), (_, frame)| (n + 1, first.min(frame.source)));
    if n_unused > 0 {
        tally.add_at(Reason::UnusedFrame, n_unused, first);
    }
}

/// The state of resolving a frame's stack.
#[derive(Clone, Copy, Debug)]
enum Resolved {
    /// In progress: reaching it again is a cycle.
    Open,
    Done {
        stack: StackId,
        depth: u32,
        /// The middle frames are left out.
        is_cut: bool,
    },
}

struct Stacks<'a> {
    profile: &'a Profile,
    known: HashMap<u32, Resolved>,
}

impl Stacks<'_> {
    /// The stack of the frame with this id; `None` if the frame does not exist. Each frame is resolved once,
    /// regardless of the number of stacks that contain it.
    fn get(&mut self, id: u32, builder: &mut TraceBuilder, tally: &mut Tally) -> Option<Resolved> {
        let mut path: Vec<(u32, Frame)> = Vec::new();
        let mut at = id;
        let mut callers = (StackId(0), 0, false);
        while at != NONE {
            let Some(&frame) = self.profile.frames.get(&at) else {
                let child = path.last()?;
                tally.count(Reason::LostParent, child.1.source);
                break;
            };
            match self.known.get(&at) {
                Some(&Resolved::Done { stack, depth, is_cut }) => {
                    callers = (stack, depth, is_cut);
                    break;
                }
                Some(Resolved::Open) => {
                    tally.count(Reason::FrameCycle, frame.source);
                    break;
                }
                None => {
                    self.known.insert(at, Resolved::Open);
                    path.push((at, frame));
                    at = frame.parent;
                }
            }
        }
        let (mut stack, mut depth, mut is_cut) = callers;
        for (id, frame) in path.into_iter().rev() {
            let name = frame_name(self.profile, id, frame, builder);
            if depth == MAX_DEPTH {
                // The innermost frame is what ran, so it replaces the last kept frame.
                stack = builder.stacks.parent[stack.0 as usize];
                is_cut = true;
            } else {
                depth += 1;
            }
            stack = builder.stacks.intern(stack, name);
            self.known.insert(id, Resolved::Done { stack, depth, is_cut });
        }
        self.known.get(&id).copied()
    }
}

fn frame_name(profile: &Profile, id: u32, frame: Frame, builder: &mut TraceBuilder) -> StringId {
    match frame.name {
        NONE => builder.strings.intern(&format!("#{}", unescape(profile.text(id)))),
        name => builder.strings.intern(&unescape(profile.text(name))),
    }
}

/// Sample tracks, one per thread.
struct Tracks<'a> {
    profile: &'a Profile,
    threads: &'a [Thread],
    /// By (process id, thread id).
    by_ids: HashMap<(&'a str, &'a str), usize>,
    /// By thread id; `None` if several have it.
    by_tid: HashMap<&'a str, Option<usize>>,
    known: HashMap<u32, TrackId>,
    by_thread: HashMap<(String, String), TrackId>,
}

impl<'a> Tracks<'a> {
    fn new(profile: &'a Profile, threads: &'a [Thread]) -> Self {
        let (mut by_ids, mut by_tid) = (HashMap::new(), HashMap::new());
        if !profile.samples.is_empty() {
            for (i, thread) in threads.iter().enumerate() {
                by_ids.insert((&*thread.pid, &*thread.tid), i);
                by_tid.entry(&*thread.tid).and_modify(|only| *only = None).or_insert(Some(i));
            }
        }
        Self { profile, threads, by_ids, by_tid, known: HashMap::new(), by_thread: HashMap::new() }
    }

    fn get(&mut self, key: u32, comm: u32, process_tracks: &mut ProcessTracks) -> TrackId {
        if let Some(&track) = self.known.get(&key) {
            return track;
        }
        let mut ids = self.profile.text(key).splitn(2, |&byte| byte == 0x1f).map(|id| unescape(id).into_owned());
        let (first, second) = (ids.next().unwrap_or_default(), ids.next());
        let (pid, tid, index) = match second {
            Some(tid) => {
                let index = self.by_ids.get(&(&*first, &*tid)).copied();
                (first, tid, index)
            }
            None => {
                let index = self.by_tid.get(&*first).copied().flatten();
                (index.map_or_else(String::new, |index| self.threads[index].pid.clone()), first, index)
            }
        };
        // A thread is the same with and without its process.
        let track = *self.by_thread.entry((pid.clone(), tid.clone())).or_insert_with(|| {
            let process = process_tracks.process(&pid);
            let mut track = match index {
                Some(index) => self.threads[index].track(TrackKind::Thread, process),
                None => {
                    let comm = unescape(self.profile.text(comm));
                    let name = if comm.is_empty() { format!("Thread {tid}") } else { format!("{comm} {tid}") };
                    Track { kind: TrackKind::Thread, process, name, tid, sort_index: 0 }
                }
            };
            track.name += ": samples";
            process_tracks.add(track)
        });
        self.known.insert(key, track);
        track
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::assemble::Assembly;
    use super::super::pipeline;
    use super::*;
    use crate::job::Progress;
    use crate::model::Trace;

    fn read(text: &str) -> Trace {
        let mut assembly = Assembly::default();
        let mut summary = pipeline::read(text.as_bytes(), &Progress::default(), &mut assembly);
        summary.report(&mut assembly);
        let profile = std::mem::take(&mut summary.document.profile);
        let trace = assembly.finish(&profile).finish();
        let import = &trace.import;
        assert_eq!(import.read, import.shown + import.merged + import.rejected);
        assert_eq!(trace.samples.len(), trace.instants.len());
        trace
    }

    /// (thread's track, ts, frames from the innermost out) of each sample.
    fn samples(trace: &Trace) -> Vec<(&str, i64, Vec<&str>)> {
        let all = &trace.samples;
        let frames = |stack| trace.stacks.frames(stack).map(|name| trace.strings.get(name)).collect();
        let one = |i: usize| (trace.track(all.track[i]).name.as_str(), all.ts[i], frames(all.stack[i]));
        (0..all.len()).map(one).collect()
    }

    fn count(trace: &Trace, start: &str) -> u64 {
        trace.import.problems.iter().filter(|problem| problem.reason.starts_with(start)).map(|p| p.count).sum()
    }

    #[test]
    fn samples_belong_to_threads_and_have_stacks() {
        let trace = read(
            r#"{"samples": [
                {"ts": "3.5", "tid": 7, "sf": 2, "cpu": 1, "weight": 5, "name": "cycles"},
                {"ts": 2, "pid": 1, "tid": "7", "sf": "3"}, {"ts": 1, "tid": 9, "comm": "perf", "name": "cycles"}],
             "traceEvents": [{"ph":"M","name":"thread_name","pid":1,"tid":7,"args":{"name":"main"}}],
             "stackFrames": {"1": {"name": "root", "category": "c"}, "2": {"name": "a\u0062", "parent": 1},
                "3": {"parent": "2"}, "4": {"name": "unused"}}}"#,
        );
        let expected = [
            ("perf 9: samples", 1_000, vec![]),
            ("main: samples", 2_000, vec!["#3", "ab", "root"]),
            ("main: samples", 3_500, vec!["ab", "root"]),
        ];
        let mut found = samples(&trace);
        found.sort_by_key(|sample| sample.1);
        assert_eq!(found, expected);
        let names: Vec<_> = trace.instants.name.iter().map(|&name| trace.strings.get(name)).collect();
        assert!(names.contains(&"cycles") && names.contains(&"#3"), "{names:?}");
        assert_eq!((trace.import.read, trace.import.shown, trace.import.merged), (4, 3, 1));
        assert_eq!(count(&trace, "Stack frame that no sample"), 1);
    }

    #[test]
    fn invalid_samples_are_rejected_with_a_reason() {
        let trace = read(
            r#"{"traceEvents": [], "samples": [7, {}, {"ts": "x"}, null, {"ts": 1}, [[]], {"ts":1e99}, {"ts":2,"sf":9}],
                "stackFrames": {"a": 3}}"#,
        );
        assert_eq!((trace.import.read, trace.import.shown, trace.import.rejected), (8, 2, 6));
        assert_eq!((count(&trace, "Sample that is not"), count(&trace, "Sample whose stack")), (3, 1));
        assert_eq!(count(&trace, "Stack frame that is not"), 1);
    }

    #[test]
    fn cycles_and_missing_callers_end_a_stack() {
        let trace = read(
            r#"{"traceEvents": [], "samples": [{"ts":1,"sf":1}, {"ts":2,"sf":2}, {"ts":3,"sf":3}, {"ts":4,"sf":5}],
                "stackFrames": {"1": {"name":"a","parent":2}, "2": {"name":"b","parent":1}, "3": {"name":"c","parent":3},
                "5": {"name":"e","parent":6}, "5": {"name":"f","parent":6}}}"#,
        );
        let stacks: Vec<_> = samples(&trace).into_iter().map(|sample| sample.2).collect();
        assert_eq!(stacks, [vec!["a", "b"], vec!["b"], vec!["c"], vec!["f"]]);
        assert_eq!((count(&trace, "Stack frames that call"), count(&trace, "Stack frame whose caller")), (2, 1));
        assert_eq!(count(&trace, "Stack frame with the id"), 1);
    }

    #[test]
    fn a_stack_without_end_is_cut_in_its_middle() {
        let n = 3 * MAX_DEPTH;
        let mut text = r#"{"traceEvents": [], "stackFrames": {"#.to_owned();
        for i in 1..=n {
            write!(text, "{}\"{i}\": {{\"name\": \"f{i}\", \"parent\": {}}}", if i > 1 { "," } else { "" }, i - 1)
                .unwrap();
        }
        write!(text, r#"}}, "samples": [{{"ts":1,"sf":{MAX_DEPTH}}}, {{"ts":2,"sf":{n}}}, {{"ts":3,"sf":{n}}}]}}"#)
            .unwrap();
        // The first frame's caller is 0, which does not exist.
        let trace = read(&text);
        let found = samples(&trace);
        let (whole, cut) = (&found[0].2, &found[1].2);
        assert_eq!((whole.len(), cut.len()), (MAX_DEPTH as usize, MAX_DEPTH as usize));
        assert_eq!((cut[0].to_owned(), cut[1..] == whole[1..]), (format!("f{n}"), true));
        assert_eq!(count(&trace, "Call stack deeper"), 2);
        assert!(trace.stacks.len() <= 1 + n as usize);
    }

    #[test]
    fn damage_in_samples_loses_no_events() {
        let event = r#"{"ph":"i","ts":5,"name":"x","pid":1,"tid":1}"#;
        let trace = {
            let text = format!(r#"{{"samples": [{{"ts":1}}, {{"ts":2,}}, {{"ts":3}}], "traceEvents": [{event}]}}"#);
            let mut assembly = Assembly::default();
            let mut summary = pipeline::read(text.as_bytes(), &Progress::default(), &mut assembly);
            summary.report(&mut assembly);
            assembly.finish(&std::mem::take(&mut summary.document.profile)).finish()
        };
        assert_eq!((trace.samples.len(), trace.instants.len()), (1, 2));
        assert_eq!((trace.import.read, trace.import.shown, trace.import.rejected), (3, 2, 1));
        // Every event read is accounted for, wherever the file ends.
        let text = format!(
            r#"{{"traceEvents": [{event}], "samples": [{{"ts":1,"sf":"1"}}, {{"ts":2}}], "stackFrames": {{"1": {{"name": "a"}}}}}}"#
        );
        for end in 20..text.len() {
            let mut assembly = Assembly::default();
            let mut summary = pipeline::read(&text.as_bytes()[..end], &Progress::default(), &mut assembly);
            summary.report(&mut assembly);
            let import = assembly.finish(&std::mem::take(&mut summary.document.profile)).finish().import;
            assert_eq!(import.read, import.shown + import.merged + import.rejected, "{}", &text[..end]);
        }
    }
}
