//! Which processes of a trace come first, and which are folded.

use super::{Builder, keys_of};
use crate::analysis::content;
use crate::model::{ProcessId, TrackId, TrackKind};
use crate::session::OpenTrace;
use crate::view::timeline::track_list::fold::{Fold, LEAST_FOLDED};
use crate::view::timeline::track_list::process_key;

/// A process with its settings key and those of its tracks that have anything on them.
pub type Members = (ProcessId, String, Vec<TrackId>);

/// How many of the last processes tell of the recording as a whole.
fn n_about_recording(open: &OpenTrace, processes: &[Members]) -> usize {
    processes.iter().rev().take_while(|(_, _, tracks)| is_about_recording(open, tracks)).count()
}

fn is_about_recording(open: &OpenTrace, tracks: &[TrackId]) -> bool {
    tracks.iter().all(|&track| content::is_about_recording(&open.trace, track))
}

impl Builder<'_> {
    /// The processes that have anything on their tracks: as recorded, but of programs those first that launch work of
    /// devices, and last what tells of the recording as a whole.
    pub(super) fn processes(&self, trace: usize, open: &OpenTrace) -> Vec<Members> {
        let data = &*open.trace;
        let mut by_process: Vec<Vec<TrackId>> = vec![Vec::new(); data.processes.len()];
        for (track, info) in data.tracks.iter().enumerate() {
            let (track, process) = (TrackId(track as u32), info.process.0 as usize);
            let has_counter = data.counters.binary_search_by_key(&track, |counter| counter.track).is_ok();
            let is_empty = data.rows(track).is_empty() && !has_counter && data.instants.of_track(track).is_empty();
            if let Some(tracks) = by_process.get_mut(process).filter(|_| !is_empty) {
                tracks.push(track);
            }
        }
        let mut processes: Vec<Members> = (0..)
            .map(ProcessId)
            .zip(by_process)
            .filter(|(_, tracks)| !tracks.is_empty())
            .map(|(process, tracks)| (process, process_key(open, process), tracks))
            .collect();
        if processes.iter().any(|(_, _, tracks)| self.launches(trace, tracks)) {
            processes.sort_by_cached_key(|(process, _, tracks)| {
                let is_first = data.process(*process).device.is_some() || self.launches(trace, tracks);
                (!is_first, !self.works(trace, open, *process, tracks))
            });
        }
        processes.sort_by_cached_key(|(_, _, tracks)| is_about_recording(open, tracks));
        self.sort(&open.id, &mut processes, |entry| &entry.1);
        processes
    }

    /// How many of the last processes are folded. Where others launch work: where several programs share the picture
    /// those that launch nothing, else those that hardly work; else what tells of the recording as a whole.
    fn n_folded_processes(&self, trace: usize, open: &OpenTrace, processes: &[Members]) -> usize {
        let works = |(process, _, tracks): &Members| self.works(trace, open, *process, tracks);
        let n = processes.iter().rev().take_while(|process| !works(process)).count();
        let is_launcher = |(process, _, tracks): &Members| {
            open.trace.process(*process).device.is_none() && self.launches(trace, tracks)
        };
        let least = if self.is_shared { 2 } else { LEAST_FOLDED };
        match n_about_recording(open, processes) {
            _ if !self.filter.is_empty() => 0,
            _ if n >= least && processes.iter().any(is_launcher) => n,
            n if n < processes.len() => n,
            _ => 0,
        }
    }

    /// How many of the last processes of a trace share a line, and the key of that; none are left if the user has
    /// hidden it.
    pub(super) fn fold_processes(
        &mut self,
        trace: usize,
        open: &OpenTrace,
        processes: &mut Vec<Members>,
        trace_key: &str,
    ) -> (usize, String) {
        let (n, key) = (self.n_folded_processes(trace, open, processes), Fold::Processes.key(trace_key));
        let first = processes.len() - n;
        let tracks = keys_of(open, processes[first..].iter().flat_map(|process| &process.2));
        if n > 0 && self.is_hidden(&key, tracks.iter().map(String::as_str)) {
            processes.truncate(first);
            return (0, key);
        }
        (n, key)
    }

    /// The line of the last `n` processes, which are folded.
    pub(super) fn folded_title(&self, open: &OpenTrace, processes: &[Members], n: usize) -> String {
        match () {
            () if n_about_recording(open, processes) == n => "Of the recording as a whole".to_owned(),
            () if self.is_shared => Fold::Processes.title(n, 0),
            () => format!("{n} processes that hardly work"),
        }
    }

    fn launches(&self, trace: usize, tracks: &[TrackId]) -> bool {
        tracks.iter().any(|&track| self.part(trace, track).n_launches > 0)
    }

    /// Whether a process is one of those that [`Self::n_folded_processes`] leaves.
    fn works(&self, trace: usize, open: &OpenTrace, process: ProcessId, tracks: &[TrackId]) -> bool {
        let works = |&track: &TrackId| {
            let part = self.part(trace, track);
            open.trace.track(track).kind != TrackKind::Thread || !(part.is_idle || part.is_quiet)
        };
        let is_device = open.trace.process(process).device.is_some();
        is_device || self.launches(trace, tracks) || !self.is_shared && tracks.iter().any(works)
    }
}
