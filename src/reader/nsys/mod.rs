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
mod pages;
mod project;
mod scan;
mod strings;
mod sync;
mod tables;
mod tally;
mod tracks;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use rusqlite::Connection;

use crate::job::Progress;
use crate::model::{Severity, SliceKind, Trace, TraceBuilder};

use super::source::Source;
use super::{Options, ReadError};
use assemble::Assembly;
use catalog::{Catalog, Table};
use chunk::Chunk;
use database::{Database, Interrupt};
use details::NsysDetails;
pub use format::{EXPORT, REPORT, UNFINISHED};
use generic::EventTypes;
use pages::Leaf;
use scan::{LostRows, RowRange, Task, Worker};
use strings::{STRING_IDS, Strings, WantedStrings};
use tables::{EVENT_LIKE, Role, Spec};
use tracks::Names;

/// Pages of one task, and rows where pages are unknown: enough to make the cost of opening a connection
/// negligible.
const LEAVES_PER_TASK: usize = 4096;
const ROWS_PER_TASK: u64 = 250_000;

/// Most tasks of one table, regardless of the range of its row ids.
const MAX_TASKS: u64 = 512;

/// Reads one export.
///
/// Errors: not an export of Nsight Systems, cancelled, or the file cannot be read.
fn read(source: &Source, options: Options, progress: &Progress) -> Result<Trace, ReadError> {
    let database = Database::new(source, options, progress)?;
    let interrupt = Interrupt::default();
    let connection = database.connect(&interrupt).map_err(refused)?;
    let catalog = catalog::read(&connection).map_err(refused)?;
    check(&catalog, &database)?;

    let mut builder = TraceBuilder::default();
    let info = &mut builder.info;
    super::note_source(info, source, source.bytes);
    let schema = info::apply(&connection, &catalog, info);

    let reading =
        Scans { database: &database, catalog: &catalog, interrupt: &interrupt, progress, bytes: source.bytes };
    let mut chunks = reading.events(&Arc::new(EventTypes::new(&connection, &catalog)))?;
    file_access::settle(&mut chunks);
    let keys = assemble::track_keys(chunks.iter().map(|chunk| &chunk.0));
    let names = Names::new(&connection, &catalog, &keys);
    let mut wanted = ids::string_ids(chunks.iter().map(|chunk| &chunk.0));
    wanted.extend(names.threads.values());
    let strings = reading.strings(wanted, &mut builder)?;
    let unread = unread(&connection, &catalog, &interrupt, progress);
    if progress.is_cancelled() {
        return Err(ReadError::Cancelled);
    }
    let mut builder = Assembly::join(&connection, &catalog, builder, names, &keys, (chunks, &strings)).finish(unread);
    note_inconsistencies(&mut builder, &catalog, &database, schema);
    let mut trace = builder.finish();
    trace.import.sort();
    let tables: Vec<String> = catalog.tables.iter().map(|table| table.name.clone()).collect();
    // Of tables without rows no event has a source.
    let with_rows = catalog.tables.iter().map(|table| table.row_ids.map_or(String::new(), |_| table.name.clone()));
    trace.info.source_tables = with_rows.collect();
    trace.details = Some(Arc::new(NsysDetails::new(source.release(), database, tables)));
    Ok(trace)
}

fn refused(error: impl std::fmt::Display) -> ReadError {
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
    interrupt: &'a Interrupt,
    progress: &'a Progress,
    bytes: u64,
}

impl Scans<'_> {
    /// Reads all tables of events, in parallel.
    fn events(&self, event_types: &Arc<EventTypes>) -> Result<Vec<(Chunk, LostRows)>, ReadError> {
        let mut pages = self.database.pages();
        let mut work: Vec<Task<'_>> = Vec::new();
        for (index, table) in self.catalog.tables.iter().enumerate() {
            let spec = match table.role {
                Role::Events(spec) => spec,
                Role::EventLike => &EVENT_LIKE,
                Role::Context | Role::Unknown => continue,
            };
            work.extend(tasks(&mut pages, index, table, spec));
        }
        self.run(&work, (&WantedStrings::default(), event_types), self.bytes)
    }

    /// Reads the texts that events refer to.
    fn strings(&self, wanted: HashSet<i64>, builder: &mut TraceBuilder) -> Result<Strings, ReadError> {
        let known = self.catalog.tables.iter().enumerate().find(|(_, table)| table.name == "StringIds");
        let Some((index, table)) = known else { return Ok(Strings::default()) };
        let work = tasks(&mut self.database.pages(), index, table, &STRING_IDS);
        let chunks = self.run(&work, (&Arc::new(wanted), &Arc::default()), 0)?;
        let mut lost = LostRows::default();
        let mut tally = tally::Tally::default();
        for (chunk, of_chunk) in &chunks {
            lost.merge(of_chunk.clone());
            tally.merge(&chunk.tally);
        }
        tally.report_table(&table.name, &mut builder.import);
        let text = "StringIds: text of more than 16 MiB left out";
        builder.import.note(Severity::Warn, text, lost.n_too_large, None);
        let text = "StringIds: texts on damaged pages could not be read; names are shown as their numbers";
        builder.import.note(Severity::High, text, lost.n_damaged, None);
        Ok(Strings::new(chunks.iter().map(|chunk| &chunk.0)))
    }

    /// Runs tasks in parallel; progress advances by `bytes` in total, up to the size of the file.
    fn run(
        &self,
        work: &[Task<'_>],
        (wanted, event_types): (&WantedStrings, &Arc<EventTypes>),
        bytes: u64,
    ) -> Result<Vec<(Chunk, LostRows)>, ReadError> {
        let done = AtomicU64::new(0);
        let worker = || {
            let connection = self.database.connect(self.interrupt)?;
            Ok(Worker { connection, pages: self.database.pages(), event_types: Arc::clone(event_types) })
        };
        let read = |worker: &mut rusqlite::Result<Worker>, task: &Task<'_>| {
            let worker = worker.as_mut().map_err(|error| error.to_string())?;
            let chunk = scan::scan(worker, task, wanted, (self.interrupt, self.progress));
            let n_done = 1 + done.fetch_add(1, Ordering::Relaxed);
            // In 128 bits, since `bytes` times the number of tasks may exceed 64.
            let share = u128::from(bytes) * u128::from(n_done) / work.len().max(1) as u128;
            self.progress.set_done(self.bytes - bytes + share as u64);
            Ok::<_, String>(chunk)
        };
        // One task at a time per thread, since tasks differ in cost.
        let chunks: Result<Vec<_>, String> = work.par_iter().with_max_len(1).map_init(worker, read).collect();
        if self.progress.is_cancelled() {
            return Err(ReadError::Cancelled);
        }
        chunks.map_err(refused)
    }
}

/// The tasks of a table: about [`LEAVES_PER_TASK`] pages each, or [`ROWS_PER_TASK`] rows where its pages are
/// unknown.
fn tasks<'a>(pages: &mut Option<pages::Reader>, index: usize, table: &'a Table, spec: &'a Spec) -> Vec<Task<'a>> {
    let Some((first, last)) = table.row_ids else { return Vec::new() };
    let leaves = table.layout.zip(pages.as_mut()).and_then(|(layout, pages)| pages.leaves(layout.root).ok());
    if let Some(leaves) = leaves {
        let mut at = first;
        let task = |leaves: &[Leaf]| {
            let end = leaves.last().map_or(last, |leaf| leaf.last_row.min(last));
            let rows = RowRange { first: at, last: end };
            at = end.saturating_add(1);
            Task { index, table, spec, rows, leaves: Some(leaves.into()) }
        };
        return leaves.chunks(LEAVES_PER_TASK).map(task).collect();
    }
    let len = ROWS_PER_TASK.max(table.max_rows().div_ceil(MAX_TASKS));
    let mut out = Vec::new();
    let mut at = first;
    loop {
        let end = at.saturating_add_unsigned(len - 1).min(last);
        out.push(Task { index, table, spec, rows: RowRange { first: at, last: end }, leaves: None });
        if end == last {
            return out;
        }
        at = end + 1;
    }
}

/// Row counts of unknown tables, to be counted as not shown.
fn unread(
    connection: &Connection,
    catalog: &Catalog,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Vec<(String, u64)> {
    let unknown = catalog.tables.iter().filter(|table| matches!(table.role, Role::Unknown) && table.row_ids.is_some());
    let count = |table: &Table| {
        interrupt.saw_row(progress);
        let sql = format!("SELECT count(*) FROM {}", catalog::quoted(&table.name));
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).map_or(0, |n| n as u64)
    };
    unknown.map(|table| (table.name.clone(), count(table))).collect()
}

/// Adds notes about the file as a whole.
fn note_inconsistencies(
    builder: &mut TraceBuilder,
    catalog: &Catalog,
    database: &Database,
    schema: Option<(i64, i64)>,
) {
    let import = &mut builder.import;
    for &(severity, text) in &database.notes {
        import.note(severity, text, 1, None);
    }
    for name in &catalog.not_tables {
        let text = format!("{name} is a view or a virtual table, which no export has: not read");
        import.note(Severity::Warn, &text, 1, None);
    }
    if catalog.n_beyond > 0 {
        let text = "More than 1,000 tables: those with unknown names are not read";
        import.note(Severity::Warn, text, catalog.n_beyond as u64, None);
    }
    match schema {
        None => {
            let text = "The export does not say its version, as those before 2021: columns are found by name";
            import.note(Severity::Note, text, 1, None);
        }
        Some((major, minor)) if major > info::NEWEST_SCHEMA => {
            let text = format!(
                "Schema {major}.{minor} is newer than the newest known one ({}): known columns are read, others are missing",
                info::NEWEST_SCHEMA
            );
            import.note(Severity::Warn, &text, 1, None);
        }
        Some(_) => {}
    }
    for (table, column) in [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "shortName"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId"),
    ] {
        if catalog.get(table).is_some_and(|table| table.row_ids.is_some() && !table.has(column)) {
            let text = format!("{table} has no column {column}, which every export has: what depends on it is missing");
            import.note(Severity::Warn, &text, 1, None);
        }
    }
    let has_work = builder.slices.iter().any(|chunk| chunk.kind.iter().any(|kind: &SliceKind| kind.is_device_work()));
    if !has_work {
        let text = "No GPU work in this export: record with `nsys profile --trace=cuda,nvtx` on a machine with a GPU";
        import.note(Severity::Note, text, 1, None);
    }
    if import.read == 0 {
        import.note(Severity::Note, "The file holds no events", 1, None);
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::model::{SliceId, TrackKind};

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
        let ask = || trace.details.as_ref().unwrap().event(trace.slices.source[0]);
        let args = ask().unwrap().args;
        let arg = |key: &str| args.iter().find(|arg| arg.0 == key).map(|arg| arg.1.as_str());
        assert_eq!((arg("category"), arg("domainId")), (Some("io (9)"), Some("NCCL (4)")));
        assert_eq!((arg("color"), arg("uint64Value")), (Some("#00ff00"), Some("18446744073709551615")));
        drop(file);
        assert!(ask().unwrap_err().contains("gone"));
        assert_eq!(trace.slices.unfinished, [SliceId(1)]);
        assert_eq!((trace.import.read, trace.import.shown, trace.import.merged), (5, 2, 3));
    }
}
