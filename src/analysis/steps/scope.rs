//! The processes of a trace that launch work, each with its devices.

use hashbrown::{HashMap, HashSet};

use crate::model::{DurNs, ProcessId, Row, SliceId, Trace, TrackId};

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

    /// Whether a piece of device work is theirs: one of them launched it, as far as is known.
    pub(super) fn launched(&self, trace: &Trace, work: SliceId) -> bool {
        let is_own = |call| self.has_track(trace, trace.slices.track_of(call));
        self.only.is_none() || trace.launch_of(work).is_none_or(is_own)
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

/// Whether two processes or more call the API: else none shares a device with another that was recorded.
///
/// Cost: O(n) for n slices of rows without such calls.
pub fn has_several_callers(trace: &Trace) -> bool {
    let slices = &trace.slices;
    let mut callers: HashSet<ProcessId> = HashSet::new();
    slices.rows.iter().any(|row| {
        let process = trace.track(row.track).process;
        let is_new = !callers.contains(&process) && row.range().any(|i| slices.kind[i].is_call());
        is_new && callers.insert(process) && callers.len() > 1
    })
}

/// The processes that launch work on a device, and how long their pieces of work take in all, in nanoseconds; most
/// first.
///
/// Cost: O(n log r) for n slices of the device in a trace of r rows.
pub fn launchers_on(trace: &Trace, device: ProcessId) -> Vec<(ProcessId, DurNs)> {
    let slices = &trace.slices;
    let mut by_host: HashMap<ProcessId, DurNs> = HashMap::new();
    for i in trace.rows_of(device).iter().flat_map(Row::range).filter(|&i| slices.kind[i].is_device_work()) {
        let work = SliceId(i as u32);
        if let Some(call) = trace.launch_of(work) {
            let ns = by_host.entry(trace.track(slices.track_of(call)).process).or_default();
            *ns = ns.saturating_add(slices.time(work).dur());
        }
    }
    let mut found: Vec<(ProcessId, DurNs)> = by_host.into_iter().collect();
    found.sort_unstable_by_key(|&(host, ns)| (std::cmp::Reverse(ns), host));
    found
}

/// Each process that has more work on some device than any other, with these devices; most work first.
///
/// Empty where at most one process launches work. Cost: O(n log r) for n slices in r rows.
pub(super) fn launchers(trace: &Trace) -> Vec<Scope> {
    if !has_several_callers(trace) {
        return Vec::new();
    }
    let mut launching: HashSet<ProcessId> = HashSet::new();
    let mut of_host: HashMap<ProcessId, (DurNs, Vec<ProcessId>)> = HashMap::new();
    let devices = (0..trace.processes.len() as u32).map(ProcessId).filter(|&id| trace.process(id).device.is_some());
    for device in devices {
        let hosts = launchers_on(trace, device);
        launching.extend(hosts.iter().map(|host| host.0));
        if let Some(&(host, ns)) = hosts.first() {
            let (all, devices) = of_host.entry(host).or_default();
            *all = all.saturating_add(ns);
            devices.push(device);
        }
    }
    if launching.len() < 2 {
        return Vec::new();
    }
    let mut found: Vec<(DurNs, ProcessId, Vec<ProcessId>)> =
        of_host.into_iter().map(|(host, (ns, devices))| (ns, host, devices)).collect();
    found.sort_by_key(|&(ns, host, _)| (std::cmp::Reverse(ns), host));
    let scope = |(_, host, mut only): (DurNs, ProcessId, Vec<ProcessId>)| {
        only.push(host);
        only.sort_unstable();
        only.dedup();
        Scope { only: Some(only) }
    };
    found.into_iter().map(scope).collect()
}
