//! The processes of a trace that launch work, each with its devices.

use hashbrown::{HashMap, HashSet};

use crate::model::{ProcessId, Row, SliceId, Trace, TrackId};

/// Some processes of a trace; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Ascending.
    only: Option<Vec<ProcessId>>,
}

impl Scope {
    /// Whether a process is one of them.
    pub fn has(&self, process: ProcessId) -> bool {
        self.only.as_ref().is_none_or(|only| only.binary_search(&process).is_ok())
    }

    /// The processes, ascending; none if it is all.
    pub(super) fn processes(&self) -> &[ProcessId] {
        self.only.as_deref().unwrap_or_default()
    }

    /// Whether a track is of one of them.
    pub(super) fn has_track(&self, trace: &Trace, track: TrackId) -> bool {
        self.has(trace.track(track).process)
    }

    /// Their tracks, in the order of the trace, at no cost for those of others.
    pub(super) fn tracks(&self, trace: &Trace) -> impl Iterator<Item = TrackId> {
        let all = if self.only.is_none() { 0..trace.tracks.len() as u32 } else { 0..0 };
        all.map(TrackId).chain(self.processes().iter().flat_map(|&process| trace.tracks_of(process)))
    }

    /// The rows of their tracks.
    pub(super) fn rows<'a>(&'a self, trace: &'a Trace) -> impl Iterator<Item = &'a Row> + Clone {
        let all = if self.only.is_none() { &trace.slices.rows[..] } else { &[] };
        all.iter().chain(self.processes().iter().flat_map(|&process| trace.rows_of(process)))
    }
}

/// Each process that launches more on some device than any other, with these devices; most work first.
///
/// Empty where at most one process calls the API. Cost: O(n) for n slices.
pub(super) fn launchers(trace: &Trace) -> Vec<Scope> {
    let slices = &trace.slices;
    let mut callers: HashSet<ProcessId> = HashSet::new();
    for row in &slices.rows {
        let process = trace.track(row.track).process;
        if !callers.contains(&process) && row.range().any(|i| slices.kind[i].is_call()) {
            callers.insert(process);
        }
    }
    if callers.len() < 2 {
        return Vec::new();
    }
    let mut counts: HashMap<(ProcessId, ProcessId), u64> = HashMap::new();
    for row in &slices.rows {
        let device = trace.track(row.track).process;
        for i in row.range().filter(|&i| slices.kind[i].is_device_work()) {
            if let Some(call) = trace.launch_of(SliceId(i as u32)) {
                *counts.entry((device, trace.track(slices.track_of(call)).process)).or_default() += 1;
            }
        }
    }
    let mut most: HashMap<ProcessId, (u64, ProcessId)> = HashMap::new();
    for ((device, host), count) in counts {
        let most = most.entry(device).or_default();
        *most = (*most).max((count, host));
    }
    let mut of_host: HashMap<ProcessId, (u64, Vec<ProcessId>)> = HashMap::new();
    for (device, (count, host)) in most {
        let (all, devices) = of_host.entry(host).or_default();
        *all += count;
        devices.push(device);
    }
    let mut found: Vec<(u64, ProcessId, Vec<ProcessId>)> =
        of_host.into_iter().map(|(host, (count, devices))| (count, host, devices)).collect();
    found.sort_by_key(|&(count, host, _)| (std::cmp::Reverse(count), host));
    let scope = |(_, host, mut only): (u64, ProcessId, Vec<ProcessId>)| {
        only.push(host);
        only.sort_unstable();
        only.dedup();
        Scope { only: Some(only) }
    };
    found.into_iter().map(scope).collect()
}
