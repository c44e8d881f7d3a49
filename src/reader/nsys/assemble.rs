//! Assembles chunks into a trace: maps local ids to global ones and joins related rows.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;
use rusqlite::Connection;

use crate::model::{
    Counter, CounterUnit, RawSlice, RawSlices, Severity, StackId, StringId, TableAccount, TraceBuilder, Track, TrackId,
    TrackKind,
};

use super::catalog::Catalog;
use super::chunk::{Chunk, Frame, MemoryUsage, NameKey, SampleEvent, SchedEvent, TrackKey, system_ids};
use super::counters;
use super::database::Database;
use super::host::DIAGNOSTIC;
use super::ids::{GlobalIds, Texts, correlation_bases, facts_of};
use super::memory::histories;
use super::project::{Projected, project};
use super::scan::{LostRows, SOURCE_BITS};
use super::strings::Strings;
use super::sync::EventRecords;
use super::tables::Role;
use super::tally::{Reason, Tally};
use super::tracks::{Names, TrackTable, program_of};

/// Counts of one table's rows.
#[derive(Clone, Debug, Default)]
struct TableCounts {
    n_read: u64,
    n_shown: u64,
    n_merged: u64,
    tally: Tally,
    lost: LostRows,
}

/// The tracks of the events in these chunks.
pub fn track_keys<'a>(chunks: impl Iterator<Item = &'a Chunk>) -> HashSet<TrackKey> {
    let mut keys: HashSet<TrackKey> = HashSet::new();
    for chunk in chunks {
        keys.extend(chunk.tracks.items.iter().copied());
        keys.extend(chunk.sched.iter().map(|event| TrackKey::Running(event.thread)));
        keys.extend(chunk.stack_samples.iter().map(|event| TrackKey::Samples(event.thread)));
    }
    keys
}

/// A trace under construction.
pub struct Assembly<'a> {
    pub builder: TraceBuilder,
    pub catalog: &'a Catalog,
    pub connection: &'a Connection,
    pub tracks: TrackTable,
    pub names: Names,
    accounts: Vec<TableCounts>,
    /// (severity, text) of the recorder's messages.
    diagnostics: Vec<(i64, StringId, i64)>,
}

impl<'a> Assembly<'a> {
    /// Joins all chunks; those of one table must be in row order.
    pub fn join(
        connection: &'a Connection,
        catalog: &'a Catalog,
        builder: TraceBuilder,
        mut names: Names,
        keys: &HashSet<TrackKey>,
        (mut chunks, strings): (Vec<(Chunk, LostRows)>, &Strings),
    ) -> Self {
        let mut texts = Texts::new(strings, catalog);
        let mut assembly = Self {
            builder,
            catalog,
            connection,
            tracks: TrackTable::default(),
            names: Names::default(),
            accounts: vec![TableCounts::default(); catalog.tables.len()],
            diagnostics: Vec::new(),
        };
        for (chunk, _) in &chunks {
            for &(place, name) in &chunk.domains {
                let name = texts.get(chunk.names.items[name as usize], chunk, &mut assembly.builder);
                texts.domains.insert(place, name);
            }
            for &(thread, name) in &chunk.thread_names {
                let name = texts.get(chunk.names.items[name as usize], chunk, &mut assembly.builder);
                names.nvtx_threads.insert(thread, assembly.builder.strings.get(name).to_owned());
            }
        }
        let thread_name = |thread| strings.get(*names.threads.get(&thread)?).map(str::to_owned);
        assembly.tracks = TrackTable::new(keys, &names, &assembly.builder.info.devices, (catalog, &thread_name));
        assembly.names = names;

        let mut sched: Vec<SchedEvent> = Vec::new();
        let mut samples: Vec<SampleEvent> = Vec::new();
        let mut frames: Vec<(i64, i64, StringId, usize)> = Vec::new();
        let mut memory = Vec::new();
        let mut counted = counters::Samples::default();
        let ids = assembly.global_ids(&chunks, &mut texts);
        for ((chunk, lost), ids) in chunks.iter_mut().zip(&ids) {
            for &(full, short) in &chunk.short_names.items {
                let [full, short] = [full, short].map(|id| texts.get(NameKey::Id(id), chunk, &mut assembly.builder));
                assembly.builder.short_names.insert(full, short);
            }
            assembly.take_instants(chunk, ids);
            let account = &mut assembly.accounts[chunk.table];
            account.n_read += chunk.n_read;
            account.n_shown += chunk.n_shown;
            account.n_merged += chunk.n_merged;
            account.tally.merge(&chunk.tally);
            account.lost.merge(lost.clone());
            let name = |name: u32| ids.names[name as usize];
            let messages = chunk.diagnostics.iter().map(|&(level, text, process)| (level, name(text), process));
            assembly.diagnostics.extend(messages);
            assembly.builder.unfinished.append(&mut chunk.unfinished);
            sched.append(&mut chunk.sched);
            samples.append(&mut chunk.stack_samples);
            let frame = |frame: Frame| (frame.sample, frame.depth, name(frame.name), chunk.table);
            frames.extend(chunk.frames.drain(..).map(frame));
            memory.append(&mut chunk.memory);
            counted.take(chunk);
        }
        let n_unknown = texts.n_unknown;
        let text = "Names that StringIds does not have: shown as their numbers";
        assembly.builder.import.note(Severity::Warn, text, n_unknown, None);
        let mut slices: Vec<RawSlices> = chunks.iter_mut().map(|chunk| std::mem::take(&mut chunk.0.slices)).collect();
        slices.par_iter_mut().zip(&ids).for_each(|(slices, ids)| ids.apply(slices));
        assembly.builder.slices = slices;
        assembly.take_projection();
        assembly.take_sched(sched);
        assembly.take_samples(samples, frames);
        memory.sort_by_key(|event: &MemoryUsage| event.ts);
        counters::memory(&mut assembly, &memory);
        assembly.builder.memories = histories(&memory, &assembly.names, &mut assembly.builder);
        counters::metrics(&mut assembly, counted);
        assembly.end_with_recorder();
        assembly
    }

    /// Maps the ids of each chunk to those of the trace.
    fn global_ids(&mut self, chunks: &[(Chunk, LostRows)], texts: &mut Texts<'_>) -> Vec<GlobalIds> {
        let of_chunk = |chunk: &Chunk| chunk.tracks.items.iter().map(|&key| program_of(key).unwrap_or(0)).collect();
        let owners: Vec<Vec<i64>> = chunks.iter().map(|chunk| of_chunk(&chunk.0)).collect();
        let bases = correlation_bases(chunks.iter().map(|chunk| &chunk.0), &owners);
        let records = EventRecords::new(chunks.iter().flat_map(|chunk| &chunk.0.event_records).copied().collect());
        let ids = chunks.iter().zip(&owners).map(|((chunk, _), owners)| {
            let names: Vec<StringId> =
                chunk.names.items.iter().map(|&key| texts.get(key, chunk, &mut self.builder)).collect();
            let facts = chunk.facts.items.iter().map(|&row| facts_of(row, &names, &records, &bases));
            GlobalIds {
                facts: facts.map(|facts| self.builder.facts.add(&facts)).collect(),
                names,
                tracks: chunk.tracks.items.iter().map(|&key| self.tracks.get(key)).collect(),
                bases: owners.iter().map(|owner| bases.get(owner).copied().unwrap_or(0)).collect(),
            }
        });
        ids.collect()
    }

    fn take_instants(&mut self, chunk: &mut Chunk, ids: &GlobalIds) {
        let all = &mut self.builder.instants;
        for (track, ts, name, source) in chunk.instants.drain(..) {
            all.track.push(ids.tracks[track.0 as usize]);
            all.ts.push(ts);
            all.name.push(ids.names[name.0 as usize]);
            all.source.push(source);
        }
    }

    /// The recorder counts what it recorded and looks up symbols once it has stopped: what it says then is of no moment
    /// of the recording.
    fn end_with_recorder(&mut self) {
        let Some(stopped) = self.builder.strings.find("Profiling has stopped.") else { return };
        let is_message = |source: u64| {
            let table = self.catalog.tables.get((source >> SOURCE_BITS) as usize);
            table.is_some_and(|table| matches!(table.role, Role::Events(spec) if spec.table == DIAGNOSTIC.table))
        };
        let moments = &self.builder.instants;
        let messages = (0..moments.len()).filter(|&i| is_message(moments.source[i]));
        let stops = messages.clone().filter(|&i| moments.name[i] == stopped).map(|i| moments.ts[i]);
        let Some(stop) = stops.max() else { return };
        let late = messages.filter(|&i| moments.ts[i] > stop).map(|i| moments.source[i]);
        self.builder.after_end = late.collect();
    }

    /// Projected ranges, on one track per stream. They are derived and therefore not counted as rows.
    fn take_projection(&mut self) {
        let Projected { mut slices, n_left_out, .. } = project(&self.builder.slices);
        let text = "NVTX ranges are not shown on all streams of their launches: they reach far more than those of real \
            programs";
        self.builder.import.note(Severity::Warn, text, n_left_out, None);
        let mut tracks: HashMap<TrackId, TrackId> = HashMap::new();
        for track in &mut slices.track {
            *track = *tracks.entry(*track).or_insert_with(|| {
                let stream = &self.tracks.tracks[track.0 as usize];
                let name = format!("{}: NVTX", stream.name);
                let projected = Track { kind: TrackKind::Async, name, ..stream.clone() };
                self.tracks.tracks.push(projected);
                TrackId(self.tracks.tracks.len() as u32 - 1)
            });
        }
        self.builder.slices.push(slices);
    }

    /// Converts scheduling events to slices: from switch-in to switch-out of a thread.
    fn take_sched(&mut self, mut events: Vec<SchedEvent>) {
        let Some(table) = self.catalog.tables.iter().position(|table| table.name == "SCHED_EVENTS") else { return };
        events.sort_by_key(|event| (event.thread, event.ts));
        let mut slices = RawSlices::default();
        let mut n_unpaired = 0;
        let mut open: Option<SchedEvent> = None;
        for event in events {
            match open.take() {
                Some(start) if !event.is_in && start.thread == event.thread => {
                    let name = self.builder.strings.intern(&format!("CPU {}", start.cpu));
                    let track = self.tracks.get(TrackKey::Running(start.thread));
                    slices.push(RawSlice {
                        ts: start.ts,
                        end: event.ts,
                        name,
                        track,
                        source: start.source,
                        ..Default::default()
                    });
                    continue;
                }
                Some(_) => n_unpaired += 1,
                None => {}
            }
            if event.is_in {
                open = Some(event);
            } else {
                n_unpaired += 1;
            }
        }
        n_unpaired += u64::from(open.is_some());
        let account = &mut self.accounts[table];
        account.n_shown += slices.len() as u64;
        account.n_merged += slices.len() as u64;
        account.tally.add(Reason::UnpairedSched, n_unpaired);
        self.builder.slices.push(slices);
    }

    /// CPU samples with their call stacks, outermost frame first in the tree.
    fn take_samples(&mut self, samples: Vec<SampleEvent>, mut frames: Vec<(i64, i64, StringId, usize)>) {
        // Outermost first: depth 0 is the innermost frame.
        frames.sort_by_key(|&(sample, depth, ..)| (sample, std::cmp::Reverse(depth)));
        // Each chain once, even if several samples have its id.
        let mut chains: HashMap<i64, (StackId, StringId)> = HashMap::new();
        for chain in frames.chunk_by(|a, b| a.0 == b.0) {
            let whole = chain.iter().fold(StackId(0), |stack, frame| self.builder.stacks.intern(stack, frame.2));
            chains.insert(chain[0].0, (whole, chain[chain.len() - 1].2));
        }
        let owned: HashSet<i64> = samples.iter().map(|sample| sample.id).collect();
        for sample in samples {
            let (stack, innermost) = chains.get(&sample.id).copied().unwrap_or_default();
            let track = self.tracks.get(TrackKey::Samples(sample.thread));
            self.builder.samples.ts.push(sample.ts);
            self.builder.samples.track.push(track);
            self.builder.samples.stack.push(stack);
            let instants = &mut self.builder.instants;
            instants.track.push(track);
            instants.ts.push(sample.ts);
            instants.name.push(innermost);
            instants.source.push(sample.source);
        }
        if let Some(&(.., table)) = frames.first() {
            let n_merged = frames.iter().filter(|frame| owned.contains(&frame.0)).count();
            self.accounts[table].n_merged += n_merged as u64;
            self.accounts[table].tally.add(Reason::OrphanStack, (frames.len() - n_merged) as u64);
        }
    }

    /// Counts rows of a table that turned out not to be shown.
    pub fn take_back(&mut self, table: &str, reason: Reason, count: u64) {
        if let Some(index) = self.catalog.tables.iter().position(|known| known.name == table) {
            let account = &mut self.accounts[index];
            account.n_shown -= count.min(account.n_shown);
            account.tally.add(reason, count);
        }
    }

    /// A new track for a counter.
    pub fn add_counter_track(&mut self, owner: super::tracks::ProcessKey, name: String) -> TrackId {
        let process = self.tracks.owner(owner, &self.names, &self.builder.info.devices);
        self.tracks.tracks.push(Track { kind: TrackKind::Counter, process, name, ..Default::default() });
        TrackId(self.tracks.tracks.len() as u32 - 1)
    }

    /// A new counter on a track of its own.
    pub fn add_counter(&mut self, track: TrackId, unit: CounterUnit, samples: Vec<(i64, f64)>) {
        let (ts, value) = samples.into_iter().unzip();
        self.builder.counters.push(Counter { track, unit, ts, value, ..Default::default() });
    }

    /// The builder, with the row counts of every table.
    ///
    /// * `unread`: tables that are not shown, with the number of their rows and the reason.
    pub fn finish(mut self, unread: Vec<(String, u64, &str)>, database: &Database) -> TraceBuilder {
        let import = &mut self.builder.import;
        for (table, account) in self.catalog.tables.iter().zip(&self.accounts) {
            let TableCounts { n_read, n_shown, n_merged, tally, lost } = account;
            lost.note_without_loss(&table.name, import);
            let n_damaged = lost.n_damaged.min(database.most_rows());
            let n_lost = n_damaged + lost.n_too_large;
            let read = n_read + n_lost;
            if read == 0 {
                continue;
            }
            tally.report_table(&table.name, import);
            let error = lost.error.as_deref().unwrap_or("damaged");
            let text = format!(
                "{}: rows on damaged pages could not be read ({error}); those before and after are shown",
                table.name
            );
            import.lose(&text, n_damaged, None);
            let text = format!("{}: row with a cell of more than {} left out", table.name, database.longest_cell());
            import.note(Severity::Warn, &text, lost.n_too_large, None);
            let rejected = tally.n_rejected() + n_lost;
            import.tables.push(TableAccount {
                table: table.name.clone(),
                read,
                shown: *n_shown,
                merged: *n_merged,
                rejected,
            });
        }
        for (table, n, why) in unread {
            let text = format!("{table}: {why}; its rows are not shown");
            import.note(Severity::Warn, &text, n, None);
            import.tables.push(TableAccount { table, read: n, rejected: n, ..Default::default() });
        }
        import.read = import.tables.iter().map(|table| table.read).sum();
        import.shown = import.tables.iter().map(|table| table.shown).sum();
        import.merged = import.tables.iter().map(|table| table.merged).sum();
        import.rejected = import.tables.iter().map(|table| table.rejected).sum();
        self.report_diagnostics();
        self.tracks.arrange(&self.builder.slices);
        self.builder.processes = self.tracks.processes;
        self.builder.tracks = self.tracks.tracks;
        self.builder
    }

    /// Reports the recorder's warnings, which explain missing data, and errors. Level 4 is verbose. They say of which
    /// processes they are where not of all, so that `No CUDA events collected` does not seem to be of a process with
    /// kernels.
    fn report_diagnostics(&mut self) {
        const MAX: usize = 30;
        let recorded: HashSet<&str> = self.tracks.processes.iter().map(|process| process.pid.as_str()).collect();
        let has_work = self.tracks.processes.iter().any(|process| process.device.is_some());
        // Each message once of the recorded processes, and once of all others, with these.
        let mut found: Vec<((i64, StringId, bool), HashSet<i64>)> = Vec::new();
        for &(level, text, process) in self.diagnostics.iter().filter(|diagnostic| matches!(diagnostic.0, 2 | 3)) {
            let pid = system_ids(process).0;
            let key = (level, text, pid != 0 && !recorded.contains(pid.to_string().as_str()));
            match found.iter().position(|(other, _)| *other == key) {
                Some(known) => _ = found[known].1.insert(pid),
                None if found.len() < MAX => found.push((key, HashSet::from([pid]))),
                None => {}
            }
        }
        for ((level, text, is_other), pids) in found {
            let text = self.builder.strings.get(text).split_whitespace().collect::<Vec<_>>().join(" ");
            let is_beside_work = has_work && text.starts_with("No CUDA events collected");
            let (severity, word) = match level {
                3 if is_beside_work || is_of_capability(&text) => (Severity::Note, "notice"),
                3 => (Severity::High, "error"),
                _ => (Severity::Note, "warning"),
            };
            let of = match (pids.len(), pids.iter().next()) {
                (_, None | Some(0)) => String::new(),
                (1, Some(pid)) if is_other => format!(" about process {pid}, not the recorded one"),
                (n, _) if is_other => format!(" about {n} processes, not the recorded one"),
                (n, _) if n >= recorded.len() => String::new(),
                (1, Some(pid)) => format!(" about process {pid}"),
                (n, _) => format!(" about {n} of {} processes", recorded.len()),
            };
            let beside = if is_beside_work { " That of others was recorded" } else { "" };
            let text = format!("Nsight Systems {word}{of}: {}{beside}", text.trim_end_matches('.'));
            self.builder.import.note(severity, &text, 1, None);
        }
    }
}

/// Whether an error of the recorder says that it had no means to record something on this machine: what it did record
/// lost nothing by that.
fn is_of_capability(text: &str) -> bool {
    const PARTS: [&str; 4] =
        ["cannot be traced", "not supported", "Unable to configure the collection", "not available"];
    PARTS.iter().any(|part| text.contains(part))
}

#[cfg(test)]
mod tests {
    use super::is_of_capability;

    #[test]
    fn what_the_recorder_had_no_means_for_is_no_loss() {
        let unified =
            "CUDA device 0: Unified Memory cannot be traced on devices that don't support peer-to-peer transfers";
        assert!(is_of_capability(unified));
        assert!(!is_of_capability("Dropped 12 events: the buffer was full"));
    }
}
