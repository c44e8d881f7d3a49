//! Assembles batches into a trace: maps local ids to global ones, pairs begin and end events, names processes
//! and threads.

use std::collections::HashMap;

use crate::model::{
    InstantTable, KERNEL_COUNTERS, Process, ProcessId, RawSlices, SliceKind, StringId, TimeNs, TraceBuilder, Track,
    TrackId, TrackKind,
};

use super::batch::{AllocatorEvent, AsyncEvent, Batch, BeginEnd, CounterSample, Metadata, is_on_device};
use super::counters::{add_counters, add_memory};
use super::grids::count_blocks;
use super::memory::memories;
use super::pairing;
use super::profile::Profile;
use super::stacks::add_samples;
use super::strays::take_home;
use super::tally::{Reason, Tally};
use super::text::unescape;
use super::work::FactNumbers;
use super::xla::mark_devices;

/// A thread or stream, identified as in the file.
#[derive(Debug, Default)]
pub struct Thread {
    pub pid: String,
    pub tid: String,
    /// Whether it has slices or instants.
    is_used: bool,
    pub has_device_work: bool,
    pub has_python: bool,
    /// Whether it has counters of kernels, at times that are not those of the kernels.
    has_counters: bool,
    name: Option<String>,
    sort_index: Option<i64>,
}

impl Thread {
    /// Whether the file names it so.
    pub fn has_name(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name)
    }

    /// Whether the file names it a stream.
    pub fn is_stream(&self) -> bool {
        self.name.as_deref().is_some_and(|name| name.starts_with("Stream #") || name.starts_with("stream:"))
    }

    /// Its track, with the name given in the file, else its id.
    pub fn track(&self, kind: TrackKind, process: ProcessId) -> Track {
        let tid = self.tid.clone();
        if kind == TrackKind::Async && self.has_counters {
            return Track {
                kind,
                process,
                name: KERNEL_COUNTERS.to_owned(),
                tid,
                sort_index: self.sort_index.unwrap_or(0),
            };
        }
        let name = self.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| match kind {
            _ if tid.is_empty() => "Events of no thread".to_owned(),
            TrackKind::Stream if tid.starts_with("stream") => tid.clone(),
            TrackKind::Stream => format!("stream {tid}"),
            _ if tid.bytes().all(|b| b.is_ascii_digit()) => format!("Thread {tid}"),
            _ => tid.clone(),
        });
        Track { kind, process, name, tid, sort_index: self.sort_index.unwrap_or(0) }
    }
}

/// Everything read so far. Track ids are indices into `threads`.
#[derive(Debug, Default)]
pub struct Assembly {
    pub builder: TraceBuilder,
    pub tally: Tally,
    threads: Vec<Thread>,
    thread_ids: HashMap<Vec<u8>, u32>,
    flow_groups: HashMap<Vec<u8>, u32>,
    begin_ends: Vec<BeginEnd>,
    asyncs: Vec<AsyncEvent>,
    samples: Vec<CounterSample>,
    memory: Vec<AllocatorEvent>,
    metadata: Vec<Metadata>,
}

impl Assembly {
    /// Appends the events of a batch, which keeps memory for others. Batches must arrive in file order.
    pub fn absorb(&mut self, batch: &mut Batch) {
        let names: Vec<StringId> = batch.names.iter().map(|raw| self.builder.strings.intern(&unescape(raw))).collect();
        let tracks: Vec<TrackId> = batch.tracks.iter().map(|key| self.thread(key)).collect();
        let name = |id: &mut StringId| *id = names[id.0 as usize];
        let track = |id: &mut TrackId| *id = tracks[id.0 as usize];
        let import = &mut self.builder.import;
        import.read += batch.n_read;
        import.shown += batch.n_shown;
        import.merged += batch.n_merged;
        self.tally.merge(&batch.tally);

        let facts = FactNumbers::new(&batch.work, &mut self.builder);
        batch.slices.facts.iter_mut().for_each(|number| *number = facts.of(*number));
        batch.slices.name.iter_mut().for_each(name);
        batch.slices.track.iter_mut().for_each(track);
        for (&track, &kind) in batch.slices.track.iter().zip(&batch.slices.kind) {
            let thread = &mut self.threads[track.0 as usize];
            thread.is_used = true;
            thread.has_device_work |= is_on_device(kind);
            thread.has_python |= kind == SliceKind::PythonFunction;
        }
        for at in batch.counted.drain(..) {
            self.threads[tracks[at.0 as usize].0 as usize].has_counters = true;
        }
        self.builder.info.step_names.extend(batch.step_names.drain(..).map(|StringId(id)| names[id as usize]));
        self.builder.append(&mut batch.slices);

        let groups: Vec<u32> = batch
            .flow_groups
            .iter()
            .map(|key| {
                let next = self.flow_groups.len() as u32;
                *self.flow_groups.entry(key.to_vec()).or_insert(next)
            })
            .collect();
        self.builder.flows.extend(batch.flows.drain(..).map(|mut point| {
            name(&mut point.name);
            track(&mut point.track);
            point.group = groups[point.group as usize];
            point
        }));
        for (mut at, ts, mut what, source) in batch.instants.drain(..) {
            track(&mut at);
            name(&mut what);
            self.push_instant(at, ts, what, source);
        }
        self.begin_ends.extend(batch.begin_ends.drain(..).map(|mut event| {
            name(&mut event.slice.name);
            track(&mut event.slice.track);
            event.slice.facts = facts.of(event.slice.facts);
            event
        }));
        self.asyncs.extend(batch.asyncs.drain(..).map(|mut event| {
            name(&mut event.name);
            name(&mut event.category);
            track(&mut event.track);
            event
        }));
        self.samples.extend(batch.samples.drain(..).map(|mut sample| {
            name(&mut sample.name);
            name(&mut sample.series);
            track(&mut sample.track);
            sample
        }));
        self.memory.extend(batch.memory.drain(..).map(|mut event| {
            track(&mut event.track);
            event
        }));
        self.metadata.extend(batch.metadata.drain(..).map(|mut meta| {
            track(&mut meta.track);
            meta
        }));
    }

    fn push_instant(&mut self, track: TrackId, ts: TimeNs, name: StringId, source: u64) {
        self.threads[track.0 as usize].is_used = true;
        let instants = &mut self.builder.instants;
        instants.ts.push(ts);
        instants.name.push(name);
        instants.track.push(track);
        instants.source.push(source);
    }

    fn thread(&mut self, key: &[u8]) -> TrackId {
        if let Some(&id) = self.thread_ids.get(key) {
            return TrackId(id);
        }
        let mut parts = key.splitn(2, |&byte| byte == 0x1f).map(|part| unescape(part).into_owned());
        let (pid, tid) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        // The same thread may be written with escapes and without.
        let plain = [pid.as_bytes(), b"\x1f", tid.as_bytes()].concat();
        let id = *self.thread_ids.entry(plain).or_insert(self.threads.len() as u32);
        if id as usize == self.threads.len() {
            self.threads.push(Thread { pid, tid, ..Default::default() });
        }
        self.thread_ids.insert(key.to_vec(), id);
        TrackId(id)
    }

    /// Whether the list had items, but none resembled an event.
    pub fn lacks_events(&self) -> bool {
        let import = &self.builder.import;
        let n_pending = self.begin_ends.len() + self.asyncs.len() + self.builder.flows.len();
        import.read > 0 && import.shown + import.merged == 0 && n_pending == 0 && !self.tally.has_events()
    }

    /// Values in the list that are damaged beyond repair.
    pub fn n_damaged(&self) -> u64 {
        self.tally.n(Reason::Damaged)
    }

    /// Pairs events and names processes and tracks. The builder then lacks only the header's facts.
    ///
    /// * `profile`: the samples recorded outside the event list.
    pub fn finish(mut self, profile: &Profile) -> TraceBuilder {
        let paired = pairing::pair(std::mem::take(&mut self.begin_ends), &mut self.tally);
        self.take_pairs(paired, None);
        let mut process_tracks = ProcessTracks::new(&self.threads);
        process_tracks.name(&mut self.threads, std::mem::take(&mut self.metadata));
        mark_devices(&mut self.threads, &mut process_tracks, &mut self.builder);
        take_home(&mut self.threads, &mut process_tracks);
        let asyncs = std::mem::take(&mut self.asyncs);
        let mut track_ids = process_tracks.add_threads(&self.threads);
        self.take_asyncs(asyncs, &mut process_tracks, &mut track_ids);
        self.remap_tracks(&track_ids);
        self.part_annotations(&mut process_tracks);
        self.tally.merge(&profile.tally);
        add_samples(profile, &self.threads, &mut process_tracks, &mut self.builder, &mut self.tally);
        let mut counters = add_counters(&self.samples, &self.threads, &self.builder, &mut process_tracks);
        self.memory.sort_by_key(|event| event.ts);
        let memory = std::mem::take(&mut self.memory);
        self.builder.memories = memories(&memory, &self.threads, &mut self.tally);
        counters.extend(add_memory(
            &memory,
            &self.threads,
            &track_ids,
            &mut process_tracks,
            &mut self.builder.allocations,
        ));
        let mut builder = self.builder;
        count_blocks(&mut builder);
        self.tally.report(&mut builder.import);
        process_tracks.prune();
        process_tracks.arrange();
        builder.info.counted_kernels = self.threads.iter().any(|thread| thread.has_counters);
        builder.counters = counters;
        builder.processes = process_tracks.processes;
        builder.tracks = process_tracks.tracks;
        builder
    }

    fn take_pairs(&mut self, mut paired: pairing::Paired, track: Option<TrackId>) {
        for slice in &paired.slices.track {
            if track.is_none() {
                self.threads[slice.0 as usize].is_used = true;
            }
        }
        for (&track, &kind) in paired.slices.track.iter().zip(&paired.slices.kind) {
            if let Some(thread) = self.threads.get_mut(track.0 as usize) {
                thread.has_device_work |= is_on_device(kind);
            }
        }
        self.builder.import.shown += paired.slices.len() as u64;
        self.builder.import.merged += paired.n_ends;
        self.builder.unfinished.extend(paired.unfinished);
        self.builder.append(&mut paired.slices);
    }

    /// Creates tracks for asynchronous operations, one per process and category.
    ///
    /// Their numbers follow those of the threads; `track_ids` maps both to final tracks.
    fn take_asyncs(
        &mut self,
        asyncs: Vec<AsyncEvent>,
        process_tracks: &mut ProcessTracks,
        track_ids: &mut Vec<Option<TrackId>>,
    ) {
        let mut known: HashMap<(u32, StringId), u32> = HashMap::new();
        let mut instants = InstantTable::default();
        let asyncs: Vec<AsyncEvent> = asyncs
            .into_iter()
            .map(|mut event| {
                let process = process_tracks.process(&self.threads[event.track.0 as usize].pid);
                let place = *known.entry((process.0, event.category)).or_insert_with(|| {
                    let category = self.builder.strings.get(event.category);
                    let name = if category.is_empty() { "Asynchronous" } else { category };
                    let track = Track { kind: TrackKind::Async, process, name: name.to_owned(), ..Default::default() };
                    track_ids.push(Some(process_tracks.add(track)));
                    track_ids.len() as u32 - 1
                });
                event.track = TrackId(place);
                event
            })
            .collect();
        let paired = pairing::pair_asyncs(asyncs, &mut self.tally, &mut instants);
        self.builder.import.shown += instants.len() as u64;
        let all = &mut self.builder.instants;
        all.ts.append(&mut instants.ts);
        all.name.append(&mut instants.name);
        all.track.append(&mut instants.track);
        all.source.append(&mut instants.source);
        self.take_pairs(paired, Some(TrackId(0)));
    }

    /// Puts the annotations of streams on tracks of their own, so that work keeps its row whether it is annotated or
    /// not.
    fn part_annotations(&mut self, process_tracks: &mut ProcessTracks) {
        let is_annotation = |kind: &SliceKind| *kind == SliceKind::GpuAnnotation;
        let mut has_work = vec![false; process_tracks.tracks.len()];
        let annotated = || self.builder.slices.iter().any(|part| part.kind.iter().any(is_annotation));
        if !annotated() {
            return;
        }
        for part in &self.builder.slices {
            for (track, kind) in part.track.iter().zip(&part.kind) {
                has_work[track.0 as usize] |= kind.is_device_work();
            }
        }
        let mut own: HashMap<TrackId, TrackId> = HashMap::new();
        for part in &mut self.builder.slices {
            let annotations = part.track.iter_mut().zip(&part.kind).filter(|(_, kind)| is_annotation(kind));
            for (track, _) in annotations.filter(|(track, _)| has_work[track.0 as usize]) {
                *track = *own.entry(*track).or_insert_with(|| {
                    let stream = process_tracks.tracks[track.0 as usize].clone();
                    let name = format!("{}: annotations", stream.title());
                    process_tracks.add(Track { kind: TrackKind::Async, name, ..stream })
                });
            }
        }
    }

    /// Maps thread numbers to tracks.
    fn remap_tracks(&mut self, track_ids: &[Option<TrackId>]) {
        let remap = |track: &mut TrackId| *track = track_ids[track.0 as usize].unwrap_or_default();
        self.builder.slices.iter_mut().for_each(|part: &mut RawSlices| part.track.iter_mut().for_each(remap));
        self.builder.instants.track.iter_mut().for_each(remap);
        let n_before = self.builder.flows.len();
        let first_lost = self.builder.flows.iter().find(|point| track_ids[point.track.0 as usize].is_none());
        let offset = first_lost.map(|point| point.source);
        self.builder.flows.retain(|point| track_ids[point.track.0 as usize].is_some());
        let n_lost = (n_before - self.builder.flows.len()) as u64;
        let reason = "Arrow end with no slice under it: not drawn";
        self.builder.import.reject(crate::model::Severity::Note, reason, n_lost, offset);
        self.builder.flows.iter_mut().for_each(|point| remap(&mut point.track));
    }
}

/// Processes and tracks of the trace under construction.
#[derive(Debug, Default)]
pub struct ProcessTracks {
    pub processes: Vec<Process>,
    by_pid: HashMap<String, ProcessId>,
    tracks: Vec<Track>,
}

impl ProcessTracks {
    fn new(threads: &[Thread]) -> Self {
        let mut process_tracks = Self::default();
        for thread in threads {
            let process = process_tracks.process(&thread.pid);
            if thread.has_device_work {
                let device = thread.pid.parse().ok().or(digits_of(&thread.pid)).unwrap_or(0);
                process_tracks.processes[process.0 as usize].device = Some(device);
            }
        }
        for process in &mut process_tracks.processes {
            // Kineto sorts GPUs at 5,000,000 and up: after all threads.
            process.sort_index = process.device.map_or(0, |device| 5_000_000 + i64::from(device));
        }
        process_tracks
    }

    pub fn process(&mut self, pid: &str) -> ProcessId {
        if let Some(&id) = self.by_pid.get(pid) {
            return id;
        }
        let id = ProcessId(self.processes.len() as u32);
        self.processes.push(Process { pid: pid.to_owned(), ..Default::default() });
        self.by_pid.insert(pid.to_owned(), id);
        id
    }

    pub fn add(&mut self, track: Track) -> TrackId {
        self.tracks.push(track);
        TrackId(self.tracks.len() as u32 - 1)
    }

    /// Drops processes that occur only in metadata, such as idle GPUs.
    fn prune(&mut self) {
        let mut is_used = vec![false; self.processes.len()];
        self.tracks.iter().for_each(|track| is_used[track.process.0 as usize] = true);
        let mut next = 0;
        let new_ids: Vec<u32> = is_used.iter().map(|&used| (next, next += u32::from(used)).0).collect();
        self.tracks.iter_mut().for_each(|track| track.process.0 = new_ids[track.process.0 as usize]);
        let mut used = is_used.iter();
        self.processes.retain(|_| used.next() == Some(&true));
    }

    /// Sorts processes: devices first, because a deep Python stack above them would push them out of the
    /// window; then programs; then the recorder's own entries, which have no system process id. Within each
    /// group, by the file's sort index.
    fn arrange(&mut self) {
        let key = |process: &Process| {
            let is_program = process.pid.parse::<u64>().is_ok() || (process.pid.is_empty() && !process.name.is_empty());
            (if process.device.is_some() { 0 } else { 2 - u8::from(is_program) }, process.sort_index, process.device)
        };
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        order.sort_by_key(|&i| key(&self.processes[i]));
        for (place, i) in order.into_iter().enumerate() {
            self.processes[i].sort_index = place as i64;
        }
    }

    fn name(&mut self, threads: &mut [Thread], metadata: Vec<Metadata>) {
        for Metadata { track, key, value } in metadata {
            let thread = &mut threads[track.0 as usize];
            let process = self.process(&thread.pid);
            let process = &mut self.processes[process.0 as usize];
            let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let number = value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
            match key.as_str() {
                "process_name" => process.name = text(),
                "process_labels" => process.labels = text(),
                "process_sort_index" => process.sort_index = number.unwrap_or(process.sort_index),
                "thread_name" => thread.name = Some(text()),
                "thread_sort_index" => thread.sort_index = number,
                _ => {}
            }
        }
    }

    /// Names the processes that hold nothing but the counters of a device, whose index is their number: in a container a
    /// program may have the same number.
    fn name_counted(&mut self, threads: &[Thread]) {
        for thread in threads.iter().filter(|thread| thread.has_counters) {
            let has_others = threads.iter().any(|of| of.pid == thread.pid && of.is_used && !of.has_counters);
            if !has_others && thread.pid.parse::<u32>().is_ok() {
                let process = self.process(&thread.pid);
                self.processes[process.0 as usize].name = format!("GPU {}: counters", thread.pid);
            }
        }
    }

    /// Creates a track for each thread with slices or instants.
    fn add_threads(&mut self, threads: &[Thread]) -> Vec<Option<TrackId>> {
        let mut ids = Vec::with_capacity(threads.len());
        for thread in threads {
            let process = self.process(&thread.pid);
            let kind = match thread.has_device_work {
                true => TrackKind::Stream,
                // No thread ran what they are.
                false if thread.has_counters => TrackKind::Async,
                false => TrackKind::Thread,
            };
            ids.push(thread.is_used.then(|| self.add(thread.track(kind, process))));
        }
        self.name_counted(threads);
        ids
    }
}

/// The number that a text such as `GPU 3` ends in.
fn digits_of(text: &str) -> Option<u32> {
    text.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Progress;
    use crate::reader::chrome_trace::pipeline;

    #[test]
    fn counters_of_kernels_are_of_no_thread() {
        let text = br#"{"traceEvents":[
            {"ph":"M","pid":1,"name":"process_name","args":{"name":"trainer"}},
            {"ph":"X","cat":"cpu_op","pid":1,"tid":1,"ts":0,"dur":9,"name":"aten::mm"},
            {"ph":"X","cat":"cuda_profiler_range","pid":1,"tid":0,"ts":0,"dur":4,"name":"gemm","args":{"a.sum":1}},
            {"ph":"X","cat":"cuda_profiler_range","pid":1,"tid":0,"ts":4,"dur":4,"name":"softmax","args":{"a.sum":2}},
            {"ph":"M","pid":3,"name":"process_name","args":{"name":"trainer"}},
            {"ph":"X","cat":"cuda_profiler_range","pid":3,"tid":0,"ts":0,"dur":8,"name":"gemm","args":{"a.sum":3}}]}"#;
        let mut assembly = Assembly::default();
        let _ = pipeline::read(&text[..], &Progress::default(), &mut assembly);
        let trace = assembly.finish(&Default::default()).finish();
        let of = |track: &Track| (trace.process(track.process).title(), track.kind, track.name.clone());
        let mut tracks: Vec<_> = trace.tracks.iter().map(of).collect();
        tracks.sort();
        // A program in a container may have the number of a device.
        let expected = [
            ("GPU 3: counters", TrackKind::Async, KERNEL_COUNTERS),
            ("trainer 1", TrackKind::Thread, "Thread 1"),
            ("trainer 1", TrackKind::Async, KERNEL_COUNTERS),
        ];
        assert_eq!(tracks, expected.map(|(process, kind, name)| (process.to_owned(), kind, name.to_owned())));
        assert!(trace.info.counted_kernels && trace.processes.iter().all(|process| process.device.is_none()));
    }

    #[test]
    fn phases_of_the_format_that_show_nothing_are_told_from_those_it_does_not_have() {
        let text = br#"[{"ph":"X","pid":1,"tid":1,"ts":0,"dur":9,"name":"a"},
            {"ph":"=","pid":1,"tid":1,"ts":1,"name":"linkid","id":"0x1","args":{"linked_id":"0x2"}},
            {"ph":"(","pid":1,"tid":1,"ts":1,"name":"context","id":"0x1"},{"ph":"Q","pid":1,"tid":1,"ts":1}]"#;
        let mut assembly = Assembly::default();
        let _ = pipeline::read(&text[..], &Progress::default(), &mut assembly);
        let import = assembly.finish(&Default::default()).finish().import;
        assert_eq!((import.read, import.shown, import.merged, import.rejected), (4, 1, 2, 1));
        let n = |part: &str| import.problems.iter().find(|one| one.reason.contains(part)).map(|one| one.count);
        assert_eq!([n("link between two ids"), n("that the format does not have")], [Some(2), Some(1)]);
    }
}
