//! Processes and tracks of an export, with their names and order.

use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::Connection;

use crate::model::{DeviceInfo, ON_CPU, Process, ProcessId, RawSlices, SliceKind, Track, TrackId, TrackKind};

use super::catalog::Catalog;
use super::chunk::{TrackKey, machine_of, process_of, system_ids};
use super::info::{Value, rows};
use super::tables;

/// A process of the trace: a GPU, a program, or the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProcessKey {
    Device {
        machine: i64,
        gpu: u32,
    },
    /// By `globalPid`.
    Program(i64),
    Recorder,
}

/// Names of the processes, threads and streams that own events.
#[derive(Debug, Default)]
pub struct Names {
    /// By `globalPid`.
    processes: HashMap<i64, String>,
    /// Row of `StringIds` by `globalTid`.
    pub threads: HashMap<i64, i64>,
    /// Thread names set by the program (NVTX), by `globalTid`.
    pub nvtx_threads: HashMap<i64, String>,
    /// The GPU behind a program's CUDA device, by (process, device): `CUDA_VISIBLE_DEVICES` moves
    /// them.
    gpus: HashMap<(i64, i64), i64>,
    /// Null streams by (process, context).
    null_streams: HashSet<(i64, i64, i64)>,
    /// Stream names set by the program (NVTX), by (process, context, stream).
    streams: HashMap<(i64, i64, i64), String>,
    /// Green contexts by (process, context).
    green: HashSet<(i64, i64)>,
    devices: HashMap<(i64, u32), String>,
    machines: Vec<i64>,
}

impl Names {
    /// Looks up the names of the processes and threads in `keys`. Names of others on the machine are not
    /// read.
    pub fn new(connection: &Connection, catalog: &Catalog, keys: &HashSet<TrackKey>) -> Self {
        let threads: HashSet<i64> = keys.iter().filter_map(thread_of).collect();
        let processes: HashSet<i64> = keys.iter().filter_map(|key| program_of(*key)).collect();
        let mut names = Self::default();
        for row in rows(connection, catalog, "PROCESSES", &["globalPid", "name"]) {
            if let Some(process) = row[0].int().filter(|id| processes.contains(id)) {
                let name = row[1].text().rsplit('/').next().unwrap_or_default();
                names.processes.insert(process, name.to_owned());
            }
        }
        for row in rows(connection, catalog, "ThreadNames", &["globalTid", "nameId"]) {
            if let (Some(thread), Some(name)) = (row[0].int().filter(|id| threads.contains(id)), row[1].int()) {
                names.threads.insert(thread, name);
            }
        }
        for row in rows(connection, catalog, "TARGET_INFO_CUDA_DEVICE", &["pid", "cudaId", "gpuId"]) {
            if let [Value::Int(pid), Value::Int(cuda), Value::Int(gpu)] = row[..] {
                names.gpus.insert((pid, cuda), gpu);
            }
        }
        let null_streams = ["processId", "contextId", "nullStreamId|streamId", "isGreenContext"];
        for table in ["TARGET_INFO_CUDA_NULL_STREAM", "TARGET_INFO_CUDA_CONTEXT_INFO"] {
            for row in rows(connection, catalog, table, &null_streams) {
                if let [Value::Int(pid), Value::Int(context), Value::Int(stream), ..] = row[..] {
                    names.null_streams.insert((pid, context, stream));
                    if row[3].int().is_some_and(|is_green| is_green != 0) {
                        names.green.insert((pid, context));
                    }
                }
            }
        }
        let columns = ["processId", "contextId", "streamId", "name"];
        for row in rows(connection, catalog, "TARGET_INFO_NVTX_CUDA_STREAM", &columns) {
            if let [Value::Int(pid), Value::Int(context), Value::Int(stream), Value::Text(name)] = &row[..] {
                names.streams.insert((*pid, *context, *stream), name.clone());
            }
        }
        for row in rows(connection, catalog, "TARGET_INFO_GPU", &["vmId", "id|deviceId", "name"]) {
            if let [Value::Int(machine), Value::Int(gpu), Value::Text(name)] = &row[..] {
                let gpu = u32::try_from(*gpu).unwrap_or(u32::MAX);
                names.devices.insert((machine_of(*machine), gpu), name.clone());
            }
        }
        let machines = processes.iter().filter(|&&id| id != 0).map(|&id| machine_of(id));
        names.machines = machines.chain(names.devices.keys().map(|key| key.0)).collect();
        names.machines.sort_unstable();
        names.machines.dedup();
        names
    }

    /// The GPU behind a program's CUDA device.
    pub fn gpu(&self, process: i64, device: i64) -> ProcessKey {
        let gpu = *self.gpus.get(&(system_ids(process).0, device)).unwrap_or(&device);
        self.device(process, gpu)
    }

    /// A GPU by its own number; `process` identifies the machine, or is 0.
    pub fn device(&self, process: i64, gpu: i64) -> ProcessKey {
        let only = self.machines.first().copied().unwrap_or(0);
        let machine = if process == 0 || self.machines.len() < 2 { only } else { machine_of(process) };
        ProcessKey::Device { machine, gpu: u32::try_from(gpu).unwrap_or(u32::MAX) }
    }

    fn owner(&self, key: TrackKey) -> ProcessKey {
        match key {
            TrackKey::Stream { process, device, .. } | TrackKey::Syncs { process, device } => self.gpu(process, device),
            key => program_of(key).filter(|&process| process != 0).map_or(ProcessKey::Recorder, ProcessKey::Program),
        }
    }

    fn process(&self, owner: ProcessKey, devices: &[DeviceInfo]) -> Process {
        match owner {
            ProcessKey::Device { machine, gpu } => {
                let by_id = || DeviceInfo::with_id(devices, gpu).map(|device| device.name.clone());
                let name = self.devices.get(&(machine, gpu)).cloned().or_else(by_id).unwrap_or_default();
                let host = if self.machines.len() > 1 { format!(" of machine {machine}") } else { String::new() };
                let labels = format!("GPU {gpu}{host} {name}").trim_end().to_owned();
                Process { labels, device: Some(gpu), ..Default::default() }
            }
            ProcessKey::Program(process) => Process {
                pid: system_ids(process).0.to_string(),
                name: self.processes.get(&process).cloned().unwrap_or_default(),
                ..Default::default()
            },
            ProcessKey::Recorder => Process { name: "Nsight Systems".to_owned(), ..Default::default() },
        }
    }
}

/// The thread of a track.
fn thread_of(key: &TrackKey) -> Option<i64> {
    match *key {
        TrackKey::Thread(thread) | TrackKey::Running(thread) | TrackKey::Samples(thread) => Some(thread),
        _ => None,
    }
}

/// The process of a track's events.
pub fn program_of(key: TrackKey) -> Option<i64> {
    match key {
        TrackKey::Thread(id) | TrackKey::Running(id) | TrackKey::Samples(id) => Some(process_of(id)),
        TrackKey::Ranges(process)
        | TrackKey::Table(process, _)
        | TrackKey::Stream { process, .. }
        | TrackKey::Syncs { process, .. } => Some(process_of(process)),
    }
}

/// Processes and tracks of the trace under construction.
#[derive(Debug, Default)]
pub struct TrackTable {
    pub processes: Vec<Process>,
    pub tracks: Vec<Track>,
    ids: BTreeMap<TrackKey, TrackId>,
    owners: BTreeMap<ProcessKey, ProcessId>,
}

impl TrackTable {
    /// Creates a track for each key. [`Self::arrange`] sorts them.
    pub fn new(
        keys: &HashSet<TrackKey>,
        names: &Names,
        devices: &[DeviceInfo],
        (catalog, thread_name): (&Catalog, &dyn Fn(i64) -> Option<String>),
    ) -> Self {
        let mut table = Self::default();
        let mut keys: Vec<TrackKey> = keys.iter().copied().collect();
        keys.sort_unstable();
        let sharing = Sharing::new(&keys, names);
        for &key in &keys {
            let process = table.owner(names.owner(key), names, devices);
            let track = Track { process, ..track(key, &sharing, names, (catalog, thread_name)) };
            table.ids.insert(key, TrackId(table.tracks.len() as u32));
            table.tracks.push(track);
        }
        table
    }

    /// The process of `owner`, new or known.
    pub fn owner(&mut self, owner: ProcessKey, names: &Names, devices: &[DeviceInfo]) -> ProcessId {
        let next = ProcessId(self.processes.len() as u32);
        let id = *self.owners.entry(owner).or_insert(next);
        if id == next {
            let sort_index = match owner {
                ProcessKey::Device { machine, gpu } => machine << 32 | i64::from(gpu),
                ProcessKey::Program(process) => 1 << 50 | system_ids(process).0,
                ProcessKey::Recorder => 1 << 51,
            };
            self.processes.push(Process { sort_index, ..names.process(owner, devices) });
        }
        id
    }

    /// Sorts tracks: programs and threads with CUDA calls or named ranges first, then those without. The main
    /// thread is the first of its group, and the other tracks of a thread follow it.
    pub fn arrange(&mut self, slices: &[RawSlices]) {
        const ONLY_RAN: i64 = 2;
        let mut of_track = vec![ONLY_RAN; self.tracks.len()];
        for chunk in slices {
            for (track, kind) in chunk.track.iter().zip(&chunk.kind) {
                let class = match kind {
                    SliceKind::Runtime | SliceKind::Driver | SliceKind::Annotation => 0,
                    _ => 1,
                };
                let known = &mut of_track[track.0 as usize];
                *known = (*known).min(class);
            }
        }
        let mut of_thread: HashMap<i64, i64> = HashMap::new();
        let mut of_process: HashMap<ProcessId, i64> = HashMap::new();
        for (key, track) in &self.ids {
            if let TrackKey::Thread(thread) = *key {
                let class = of_track[track.0 as usize];
                of_thread.insert(thread, class);
                let process = of_process.entry(self.tracks[track.0 as usize].process).or_insert(ONLY_RAN);
                *process = (*process).min(class);
            }
        }
        for (key, track) in &self.ids {
            if let Some(thread) = thread_of(key) {
                let class = of_thread.get(&thread).copied().unwrap_or(ONLY_RAN);
                self.tracks[track.0 as usize].sort_index += class * 2;
            }
        }
        for (owner, process) in &self.owners {
            if matches!(owner, ProcessKey::Program(_)) {
                let class = of_process.get(process).copied().unwrap_or(ONLY_RAN);
                self.processes[process.0 as usize].sort_index += class << 40;
            }
        }
    }

    /// The track of a key that was there when the table was made.
    pub fn get(&self, key: TrackKey) -> TrackId {
        self.ids.get(&key).copied().unwrap_or_default()
    }
}

/// Devices used by several processes or contexts: their streams need longer names.
#[derive(Debug, Default)]
struct Sharing {
    processes: HashMap<ProcessKey, HashSet<i64>>,
    /// By device and process.
    contexts: HashMap<(ProcessKey, i64), HashSet<i64>>,
    n_syncs: usize,
}

impl Sharing {
    fn new(keys: &[TrackKey], names: &Names) -> Self {
        let mut sharing = Self::default();
        for &key in keys {
            match key {
                TrackKey::Stream { process, context, .. } => {
                    let owner = names.owner(key);
                    sharing.processes.entry(owner).or_default().insert(process);
                    sharing.contexts.entry((owner, process)).or_default().insert(context);
                }
                TrackKey::Syncs { .. } => sharing.n_syncs += 1,
                _ => {}
            }
        }
        sharing
    }
}

/// The track of a key, without its process.
fn track(
    key: TrackKey,
    sharing: &Sharing,
    names: &Names,
    (catalog, thread_name): (&Catalog, &dyn Fn(i64) -> Option<String>),
) -> Track {
    let thread = |id: i64| {
        let (_, tid) = system_ids(id);
        let name = names.nvtx_threads.get(&id).cloned().or_else(|| thread_name(id)).unwrap_or_default();
        let title = if name.is_empty() { format!("Thread {tid}") } else { format!("{name} {tid}") };
        (title, tid.to_string())
    };
    let of_thread = |id: i64, suffix: &str| {
        let (title, tid) = thread(id);
        let (pid, _) = system_ids(id);
        // The main thread first, directly followed by its other tracks.
        let sort_index = i64::from(tid != pid.to_string());
        Track { kind: TrackKind::Thread, name: title + suffix, tid, sort_index, ..Default::default() }
    };
    match key {
        TrackKey::Thread(id) => of_thread(id, ""),
        TrackKey::Running(id) => of_thread(id, ON_CPU),
        TrackKey::Samples(id) => of_thread(id, ": samples"),
        TrackKey::Ranges(_) => {
            let name = "NVTX start/end ranges".to_owned();
            Track { kind: TrackKind::Async, name, ..Default::default() }
        }
        TrackKey::Stream { process, context, green_context, stream, .. } => {
            let (pid, _) = system_ids(process);
            let mut name = format!("stream {stream}");
            match names.streams.get(&(pid, context, stream)) {
                Some(given) => name = format!("{name} {given}"),
                None if names.null_streams.contains(&(pid, context, stream)) => name += " (default)",
                None => {}
            }
            let owner = names.owner(key);
            if sharing.processes.get(&owner).is_some_and(|processes| processes.len() > 1) {
                name = format!("{name}, process {pid}");
            }
            if sharing.contexts.get(&(owner, process)).is_some_and(|contexts| contexts.len() > 1) {
                name = format!("{name}, context {context}");
            }
            if green_context != 0 && names.green.contains(&(pid, green_context)) {
                name = format!("{name}, green context {green_context}");
            }
            Track { kind: TrackKind::Stream, name, tid: stream.to_string(), ..Default::default() }
        }
        TrackKey::Syncs { process, .. } => {
            let (pid, _) = system_ids(process);
            let name = match sharing.n_syncs {
                0 | 1 => "Synchronization".to_owned(),
                _ => format!("Synchronization, process {pid}"),
            };
            Track { kind: TrackKind::Async, name, ..Default::default() }
        }
        TrackKey::Table(_, table) => {
            let name = tables::title(catalog.tables.get(table).map_or("", |table| &table.name));
            Track { kind: TrackKind::Async, name, ..Default::default() }
        }
    }
}
