//! Exports of NVIDIA Nsight Systems as SQLite databases, of any version.
//!
//! [`database`] opens the file safely, [`catalog`] lists its tables, [`tables`] selects the reader of each,
//! [`scan`] reads ranges of rows on all cores, [`device`] and [`host`] add one row to a [`chunk`],
//! [`assemble`] builds the trace from the chunks.
//!
//! Format: <https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference>

mod assemble;
mod catalog;
mod chunk;
mod counters;
mod database;
mod details;
mod device;
mod file_access;
mod format;
mod generic;
mod host;
mod ids;
mod info;
mod memory;
mod notes;
mod opened;
mod others;
mod pages;
mod plan;
mod project;
mod salvage;
mod scan;
mod strays;
mod strings;
mod sync;
mod tables;
mod tally;
mod tracks;
mod whole;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use crate::job::Progress;
use crate::model::{ImportReport, Severity, TableAccount, Trace, TraceBuilder};

use super::source::Source;
use super::{Options, ReadError};
use assemble::Assembly;
use catalog::Catalog;
use chunk::Chunk;
use database::{Database, Interrupt};
use details::NsysDetails;
pub use format::{EXPORT, RAW, REPORT};
use generic::EventTypes;
use others::Walked;
use pages::Leaf;
use plan::Plan;
use scan::{LostRows, Task};
use strays::Strays;
use strings::{STRING_IDS, Strings, WantedStrings};
use tables::{EVENT_LIKE, Role};
use tracks::Names;
use whole::Rereading;

/// How often an export is read at most: the second time without texts that share pages.
const MAX_ROUNDS: usize = 8;

/// Reads one export.
///
/// Errors: not an export of Nsight Systems, cancelled, or the file cannot be read.
fn read(source: &Source, options: Options, progress: &Progress) -> Result<Trace, ReadError> {
    let mut database = Database::new(source, options, progress)?;
    let interrupt = Interrupt::of_reading(source.bytes);
    let mut connection = database.connect(&interrupt).map_err(|error| refused(&error))?;
    let catalog = catalog::read(&connection).map_err(|error| refused(&error))?;
    if catalog.tables.iter().any(|table| table.is_computed) {
        database.is_computed = true;
        connection = database.connect(&interrupt).map_err(|error| refused(&error))?;
    }
    check(&catalog, &database)?;

    let mut builder = TraceBuilder::default();
    let info = &mut builder.info;
    super::note_source(info, source, source.bytes);
    let schema = info::apply(&connection, &catalog, info);

    let is_utf16 = database.utf16.is_some();
    let plan = Plan::new(database.pages(), &catalog, is_utf16);
    let free = database.pages().map(|mut pages| pages.free_pages()).unwrap_or_default();
    database.chains = Arc::new(pages::Known::new(free));
    let event_types = Arc::new(EventTypes::new(&connection, &catalog));
    let mut n_rounds = 0;
    let (chunks, keys, names, strings, n_astray) = loop {
        let others = others::walk(&database, &catalog, &plan, progress);
        let reading = Scans {
            database: &database,
            catalog: &catalog,
            plan: &plan,
            others: &others,
            interrupt: &interrupt,
            progress,
            bytes: source.bytes,
            copies: OnceLock::new(),
            ends: Mutex::default(),
            strays: Mutex::new(Strays::new(&catalog, &plan)),
        };
        let mut chunks = reading.events(&event_types)?;
        file_access::settle(&mut chunks);
        let keys = assemble::track_keys(chunks.iter().map(|chunk| &chunk.0));
        let names = Names::new(&connection, &catalog, &keys);
        let mut wanted = ids::string_ids(chunks.iter().map(|chunk| &chunk.0));
        wanted.extend(names.threads.values());
        let strings = reading.strings(wanted, &mut builder)?;
        let shared = reading.shared();
        if shared.is_empty() && !database.chains.is_shared() {
            let copies = reading.copies.get();
            others::note_damage(&database, &catalog, &plan, (&others, copies), &interrupt, &mut builder.import);
            let strays = reading.strays.into_inner().unwrap_or_else(PoisonError::into_inner);
            let n_astray = database.pages().map_or(0, |mut pages| strays.rest(&mut pages));
            break (chunks, keys, names, strings, n_astray);
        }
        n_rounds += 1;
        if n_rounds > MAX_ROUNDS {
            return Err(ReadError::NotATrace("The file changes while it is read".to_owned()));
        }
        // Which of the texts is right nothing tells: once more, without them.
        database.chains = Arc::new(database.chains.without(&shared));
        builder.import = ImportReport::default();
    };
    let unread = others::unread(&connection, &catalog, &interrupt, progress);
    if progress.is_cancelled() {
        return Err(ReadError::Cancelled);
    }
    let mut builder =
        Assembly::join(&connection, &catalog, builder, names, &keys, (chunks, &strings)).finish(unread, &database);
    note_astray(n_astray, &mut builder.import);
    notes::note_file(&mut builder, &catalog, &database, schema);
    let mut trace = builder.finish();
    trace.import.sort();
    // Of tables without rows no event has a source.
    let with_rows = catalog.tables.iter().map(|table| table.row_ids.map_or(String::new(), |_| table.name.clone()));
    trace.info.source_tables = with_rows.collect();
    trace.details = Some(Arc::new(NsysDetails::new(source.release(), database, &catalog)));
    Ok(trace)
}

fn refused(error: &rusqlite::Error) -> ReadError {
    if error.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen) {
        // What is open can be opened again, unless no more files can.
        return ReadError::NotATrace("Too many files are open: open fewer at once, or raise `ulimit -n`".to_owned());
    }
    ReadError::NotATrace(format!("SQLite cannot read the file ({error}): it is damaged. Export it again"))
}

/// Refuses a database that is not an export.
fn check(catalog: &Catalog, database: &Database) -> Result<(), ReadError> {
    let is_export = catalog.tables.iter().any(|table| tables::is_known(&table.name));
    if is_export || (catalog.tables.is_empty() && database.lacks_log) {
        return Ok(());
    }
    let names: Vec<&str> = catalog.tables.iter().take(8).map(|table| table.name.as_str()).collect();
    Err(ReadError::NotATrace(match names.is_empty() {
        true => "An SQLite database without tables".to_owned(),
        false => format!(
            "An SQLite database, but not of Nsight Systems: it has the tables {}",
            crate::reader::printable(&names.join(", "))
        ),
    }))
}

/// State shared by all scanning threads.
struct Scans<'a> {
    database: &'a Database,
    catalog: &'a Catalog,
    plan: &'a Plan,
    /// Tables without events, by table.
    others: &'a [Walked],
    interrupt: &'a Interrupt,
    progress: &'a Progress,
    bytes: u64,
    /// Pages in the place of others, once the events are read.
    copies: OnceLock<HashSet<u32>>,
    /// The last pages of records that go on on other pages.
    ends: Mutex<Vec<u32>>,
    /// Leaf pages of no table.
    strays: Mutex<Strays<'a>>,
}

impl Scans<'_> {
    /// Reads all tables of events, in parallel.
    fn events(&self, event_types: &Arc<EventTypes>) -> Result<Vec<(Chunk, LostRows)>, ReadError> {
        let mut work: Vec<Task<'_>> = Vec::new();
        for (index, table) in self.catalog.tables.iter().enumerate() {
            let spec = match table.role {
                Role::Events(spec) => spec,
                Role::EventLike => &EVENT_LIKE,
                Role::Context | Role::Unknown => continue,
            };
            work.extend(self.plan.tasks(index, table, spec));
        }
        self.run(&work, (&WantedStrings::default(), event_types), self.bytes)
    }

    /// Reads the texts that events refer to.
    fn strings(&self, wanted: HashSet<i64>, builder: &mut TraceBuilder) -> Result<Strings, ReadError> {
        let known = self.catalog.tables.iter().enumerate().find(|(_, table)| table.name == STRING_IDS.table);
        let Some((index, table)) = known else { return Ok(Strings::default()) };
        let work = self.plan.tasks(index, table, &STRING_IDS);
        let chunks = self.run(&work, (&Arc::new(wanted), &Arc::default()), 0)?;
        let mut lost = LostRows::default();
        let mut tally = tally::Tally::default();
        for (chunk, of_chunk) in &chunks {
            lost.merge(of_chunk.clone());
            tally.merge(&chunk.tally);
        }
        tally.report_table(&table.name, &mut builder.import);
        let text = format!("StringIds: text of more than {} left out", self.database.longest_cell());
        builder.import.note(Severity::Warn, &text, lost.n_too_large, None);
        lost.note_without_loss(&table.name, &mut builder.import);
        let text = "StringIds: texts on damaged pages could not be read; names are shown as their numbers";
        builder.import.lose(text, lost.n_damaged.min(self.database.most_rows()), None);
        Ok(Strings::new(chunks.iter().map(|chunk| &chunk.0)))
    }

    /// Runs tasks in parallel; progress advances by `bytes` in total, up to the size of the file. If a page of a
    /// table is unusual, the whole table is read again by other means.
    fn run(
        &self,
        work: &[Task<'_>],
        (wanted, event_types): (&WantedStrings, &Arc<EventTypes>),
        bytes: u64,
    ) -> Result<Vec<(Chunk, LostRows)>, ReadError> {
        let done = AtomicU64::new(0);
        let empty = |task: &Task<'_>| whole::chunk(task, wanted, event_types);
        type Read = (Chunk, Vec<u64>, Vec<u32>);
        let read = |pages: &mut Option<pages::Reader>, task: &Task<'_>| -> Option<Read> {
            let mut chunk = empty(task);
            let (pages, leaves, layout) = (pages.as_mut()?, task.leaves.as_ref()?, task.table.layout?);
            pages.marks.clear();
            pages.chains.take();
            scan::scan_pages(pages, task, (leaves, layout), &mut chunk, self.progress).ok()?;
            chunk.slices.shrink();
            let n_done = 1 + done.fetch_add(1, Ordering::Relaxed);
            // In 128 bits, since `bytes` times the number of tasks may exceed 64.
            let share = u128::from(bytes) * u128::from(n_done) / work.len().max(1) as u128;
            self.progress.set_done(self.bytes - bytes + share as u64);
            Some((chunk, std::mem::take(&mut pages.marks), pages.chains.take()))
        };
        // One task at a time per thread, since tasks differ in cost.
        let by_pages: Vec<Option<Read>> =
            work.par_iter().with_max_len(1).map_init(|| self.database.pages(), read).collect();
        if self.database.chains.is_shared() {
            return Ok(Vec::new());
        }
        let marks =
            || work.iter().zip(&by_pages).map(|(task, read)| (task.index, read.as_ref().map_or(&[][..], |it| &it.1)));
        let copies = self
            .copies
            .get_or_init(|| whole::copies(self.database, self.catalog, &self.plan.leaves, self.others, marks()));
        let mut again = Rereading {
            database: self.database,
            interrupt: self.interrupt,
            progress: self.progress,
            owners: &self.plan.owners,
            copies,
            strays: &mut self.strays.lock().unwrap_or_else(PoisonError::into_inner),
            ends: Vec::new(),
            met: HashSet::new(),
        };
        let mut chunks = Vec::with_capacity(work.len());
        let mut by_pages = by_pages.into_iter();
        for tasks in work.chunk_by(|a, b| a.index == b.index) {
            if self.progress.is_cancelled() {
                return Err(ReadError::Cancelled);
            }
            let of_table: Vec<Option<Read>> = by_pages.by_ref().take(tasks.len()).collect();
            let leaves = self.plan.leaves.get(tasks[0].index).and_then(Option::as_deref);
            let is_own = |leaf: &Leaf| !copies.contains(&leaf.page);
            let is_all_own = copies.is_empty() || leaves.is_none_or(|leaves| leaves.iter().all(is_own));
            match of_table.into_iter().collect::<Option<Vec<Read>>>().filter(|_| is_all_own) {
                Some(read) => {
                    again.ends.extend(read.iter().flat_map(|read| &read.2));
                    chunks.extend(read.into_iter().map(|(chunk, ..)| (chunk, LostRows::default())));
                }
                None => {
                    let read = again.read(&tasks[0], leaves, &|| empty(&tasks[0]));
                    chunks.extend(read.map_err(|error| refused(&error))?);
                    if self.database.chains.is_shared() {
                        return Ok(Vec::new());
                    }
                }
            }
        }
        if self.progress.is_cancelled() {
            return Err(ReadError::Cancelled);
        }
        self.note_ends(again.ends);
        Ok(chunks)
    }

    fn note_ends(&self, mut ends: Vec<u32>) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).append(&mut ends);
    }

    /// Pages on which several records end. Trees that are not read are asked only if some record goes on at all, and
    /// all are where two share a page.
    fn shared(&self) -> HashSet<u32> {
        let mut ends = std::mem::take(&mut *self.ends.lock().unwrap_or_else(PoisonError::into_inner));
        ends.extend(self.others.iter().flat_map(|walked| &walked.ends));
        let is_known = self.database.chains.is_shared();
        let Some(mut pages) = self.database.pages().filter(|_| !ends.is_empty() || is_known) else {
            return HashSet::new();
        };
        let mut of_trees = |roots: &mut dyn Iterator<Item = u32>| -> Vec<u32> {
            roots.flat_map(|root| pages.ends_of_tree(root)).collect()
        };
        let others = of_trees(&mut self.catalog.other_roots.iter().copied().chain([pages::CATALOG]));
        ends.extend(&others);
        let mut shared = alike(ends);
        if is_known || !shared.is_empty() {
            let mut all = of_trees(&mut self.catalog.tables.iter().map(|table| table.root));
            all.extend(others);
            shared.extend(alike(all));
        }
        shared
    }
}

/// Those that are there several times.
fn alike(mut ends: Vec<u32>) -> HashSet<u32> {
    ends.sort_unstable();
    ends.chunk_by(|a, b| a == b).filter(|alike| alike.len() > 1).map(|alike| alike[0]).collect()
}

/// Counts rows on pages that no table leads to.
fn note_astray(n_rows: u64, import: &mut ImportReport) {
    if n_rows > 0 {
        let text = "Rows on pages that no table leads to: what led to them is damaged. Export again";
        import.lose(text, n_rows, None);
        let table = "(pages of no table)".to_owned();
        import.tables.push(TableAccount { table, read: n_rows, rejected: n_rows, ..Default::default() });
        import.read += n_rows;
        import.rejected += n_rows;
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::model::{SliceId, SliceKind, TrackKind};

    /// Ids as Nsight Systems packs them: machine, process, thread.
    pub fn global(machine: i64, pid: i64, tid: i64) -> i64 {
        machine << 48 | pid << 24 | tid
    }

    pub fn export(sql: &str) -> (tempfile::NamedTempFile, Trace) {
        let file = tempfile::NamedTempFile::new().unwrap();
        Connection::open(file.path()).unwrap().execute_batch(sql).unwrap();
        let trace = read(&Source::file(file.path()).unwrap(), Options::default(), &Progress::default()).unwrap();
        (file, trace)
    }

    #[test]
    fn processes_hosts_and_hidden_devices_keep_their_place() {
        let mut sql = "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId,
                globalPid, demangledName, shortName);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId, nameId);
            CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid);
            INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (3, 0, 10), (5, 0, 20);"
            .to_owned();
        // Each process calls its device 0, and counts its calls from 1.
        for (machine, pid, start) in [(1, 10, 100), (1, 20, 200), (2, 30, 300)] {
            let (process, thread) = (global(machine, pid, 0), global(machine, pid, pid));
            sql += &format!(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL
                    VALUES ({start}, {start} + 50, 0, 1, 7, 1, {process}, 1, 1);
                 INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME
                    VALUES ({start} - 20, {start} - 10, 0, {thread}, 1, 2);"
            );
        }
        let (_file, trace) = export(&sql);
        let devices: Vec<_> = trace.processes.iter().filter_map(|process| process.device).collect();
        assert_eq!(devices, [3, 5, 0]);
        let mut n_kernels = 0;
        for kernel in (0..trace.slices.len() as u32).map(SliceId) {
            if trace.slices.kind[kernel.idx()] == SliceKind::Kernel {
                let launch = trace.launch_of(kernel).unwrap();
                assert_eq!(trace.slices.time(launch).start + 20, trace.slices.time(kernel).start);
                assert_eq!(trace.slice_name(launch), "cudaLaunchKernel");
                n_kernels += 1;
            }
        }
        assert_eq!(n_kernels, 3);
        assert_eq!(trace.tracks.iter().filter(|track| track.kind == TrackKind::Stream).count(), 3);
    }

    #[test]
    fn registers_and_shared_memory_are_as_far_as_they_were_recorded() {
        let (_file, trace) = export(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId,
                globalPid, demangledName, shortName, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread,
                staticSharedMemory, dynamicSharedMemory);
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
                (10, 20, 0, 1, 7, 1, 0, NULL, NULL, 4, 2, 1, 64, 1, 1, 32, 1024, 16),
                (30, 40, 0, 1, 7, 2, 0, NULL, NULL, 4, 2, 1, 64, 1, 1, 0, NULL, 16),
                (50, 60, 0, 1, 7, 3, 0, NULL, NULL, 4, 2, 1, 64, 1, 1, NULL, 1024, NULL),
                (70, 80, 0, 1, 7, 4, 0, NULL, NULL, 4, 2, 1, 64, 1, 1, NULL, NULL, NULL);",
        );
        let of = |slice: u32| {
            let launch = trace.facts.launches.get(SliceId(slice)).unwrap();
            assert_eq!((launch.grid, launch.block), ([4, 2, 1], [64, 1, 1]));
            (launch.registers_per_thread, launch.shared_bytes)
        };
        let expected = [(Some(32), Some(1040)), (Some(0), Some(16)), (None, Some(1024)), (None, None)];
        assert_eq!([0, 1, 2, 3].map(of), expected);
    }

    #[test]
    fn details_of_ranges_have_category_domain_and_color() {
        let thread = global(1, 10, 10);
        let other = global(1, 20, 20);
        let (file, trace) = export(&format!(
            "CREATE TABLE NVTX_EVENTS (start, end, eventType, category, color, text, globalTid, textId, domainId,
                uint64Value);
             INSERT INTO NVTX_EVENTS VALUES
                (0, NULL, 75, NULL, NULL, 'NCCL', {thread}, NULL, 4, NULL),
                (0, NULL, 75, NULL, NULL, 'other', {other}, NULL, 4, NULL),
                (0, NULL, 33, 9, NULL, 'io', {thread}, NULL, 4, NULL),
                (10, 20, 59, 9, -16711936, 'load', {thread}, NULL, 4, -1),
                (30, NULL, 59, NULL, NULL, 'open', {thread}, NULL, 0, NULL);"
        ));
        let load = SliceId(0);
        assert_eq!((trace.slice_name(load), trace.domain(load)), ("load", "NCCL"));
        assert_eq!(trace.facts.colors.get(load), Some(&0xff00_ff00), "of a signed number");
        assert_eq!(trace.facts.colors.len(), 1);
        let ask = || trace.details.as_ref().unwrap().event(trace.slices.source[0], Some(10));
        let args = ask().unwrap().args;
        let arg = |key: &str| args.iter().find(|arg| arg.0 == key).map(|arg| arg.1.as_str());
        assert_eq!((arg("category"), arg("domainId")), (Some("io (9)"), Some("NCCL (4)")));
        assert_eq!((arg("color"), arg("uint64Value")), (Some("#00ff00"), Some("18446744073709551615")));
        drop(file);
        assert!(ask().unwrap_err().contains("gone"));
        assert_eq!(trace.slices.unfinished, [SliceId(1)]);
        assert_eq!((trace.import.read, trace.import.shown, trace.import.merged), (5, 2, 3));
    }

    #[test]
    fn messages_after_the_stop_make_a_recording_no_longer() {
        let thread = global(1, 10, 10);
        let (_file, trace) = export(&format!(
            "CREATE TABLE DIAGNOSTIC_EVENT (timestamp, timestampType, source, severity, text, globalPid);
             INSERT INTO DIAGNOSTIC_EVENT VALUES (5, 2, 1, 1, 'Profiling has started.', 0),
                (60, 2, 1, 1, 'Profiling has stopped.', 0), (900, 2, 1, 1, 'Number of samples: 3.', 0);
             CREATE TABLE OSRT_API (start, end, globalTid, nameId);
             INSERT INTO OSRT_API VALUES (10, 70, {thread}, NULL);
             CREATE TABLE NVTX_EVENTS (start, end, eventType, text, globalTid);
             INSERT INTO NVTX_EVENTS VALUES (30, NULL, 59, 'open', {thread});"
        ));
        assert_eq!((trace.span.start, trace.span.end, trace.instants.ts.last()), (5, 70, Some(&900)));
        assert_eq!((trace.import.shown, trace.slices.time(trace.slices.unfinished[0]).end), (5, 70));
    }
}
