//! The training run as Nsight Systems exports it: an SQLite database, table by table.

mod metrics;
pub(super) mod planted;
mod recorder;
mod schema;
mod tables;

use std::io::Error;
use std::path::Path;

use rusqlite::Connection;

use super::answer::Answer;
use super::training::{
    AUTOGRAD_TID, BASE_TIME_NS, COMMS, COMPUTE, DEVICE, PID, Recorder as _, START_NS, TrainingPlan, simulate,
};
use recorder::{
    CATEGORY, CONTEXT_ID, DOMAIN, FIRST_CORRELATION, LOADING, NCCL, Nsys, Nvtx, VM, global_pid, global_tid,
};
use tables::{Tables, row};

pub use schema::Schema;

/// The collection begins with time 0 on the recording's clock.
const UTC_EPOCH_NS: i64 = BASE_TIME_NS + START_NS;
const UTC_TIME: &str = "2025-10-02T10:22:32";
/// NVIDIA's H100, and a second one that the program does not use.
const UUIDS: [&str; 2] = ["5b9f1c2e-0d3a-4f68-9b7e-2c1d4e5f6a70", "5b9f1c2e-0d3a-4f68-9b7e-2c1d4e5f6a71"];

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub steps: u32,
    pub seed: u64,
    pub schema: Schema,
}

/// Writes the export to `path`, which must be a new or empty file, and returns what it holds.
///
/// Memory: SQLite's cache of 32 MiB, the texts of the steps and about 100 bytes a planted gap.
/// Errors: SQLite's.
pub fn write(shape: Shape, path: &Path) -> std::io::Result<Answer> {
    export(path, |connection| fill(shape, connection))
}

/// Creates a database at `path` and lets `fill` fill it.
fn export<T>(path: &Path, fill: impl FnOnce(&Connection) -> std::io::Result<T>) -> std::io::Result<T> {
    let connection = Connection::open(path).map_err(Error::other)?;
    // A file that is not finished is thrown away, so nothing needs to survive a crash.
    let begin = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; \
                 PRAGMA cache_size=-32768; BEGIN";
    connection.execute_batch(begin).map_err(Error::other)?;
    let answer = fill(&connection)?;
    connection.execute_batch("COMMIT").map_err(Error::other)?;
    connection.close().map_err(|(_, error)| Error::other(error))?;
    Ok(answer)
}

fn fill(shape: Shape, connection: &Connection) -> std::io::Result<Answer> {
    let Shape { steps, seed, schema } = shape;
    let mut nsys = Nsys::new(Tables::new(connection, schema.sql()));
    before(&mut nsys, schema);
    let outcome = simulate(TrainingPlan { steps, seed, start: 0, graphs: schema.graphs() }, &mut nsys)?;
    let correlation = outcome.next_correlation as i64 + FIRST_CORRELATION;
    let end = nsys.free_all(outcome.end + 50_000, correlation);
    nsys.insert(&schema::ANALYSIS, row![VM, end, 0, end]);
    nsys.end_step(end)?;
    let Nsys { tables, mut answer, .. } = nsys;
    answer.rows = tables.rows();
    Ok(Answer::new("nsys", seed, steps, vec![outcome.device]).with_tables(answer))
}

/// What is known before the first step: codes, machine, program, and its first allocations.
fn before(nsys: &mut Nsys<'_>, schema: Schema) {
    facts(nsys, schema);
    codes(nsys);
    machine(nsys);
    for (pid, name) in [(1, "systemd"), (PID, "python3"), (977, "sshd")] {
        nsys.insert(&schema::PROCESSES, row![global_pid(pid), pid, name]);
    }
    let threads = [(PID, "python3"), (AUTOGRAD_TID, "pt_autograd_0"), (PID + 9, "cuda-EvtHandlr")];
    for (tid, name) in threads {
        let name = nsys.string(name);
        nsys.insert(&schema::THREAD_NAMES, row![name, 20, global_tid(tid)]);
    }
    metrics::describe(|spec, row| nsys.insert(spec, row));
    let fact = |event_type, text: &str| Nvtx {
        start: 1_000,
        event_type,
        text: Some(text.to_owned()),
        tid: global_tid(PID),
        ..Nvtx::default()
    };
    nsys.fact(Nvtx { domain: NCCL, ..fact(DOMAIN, "NCCL") });
    nsys.fact(Nvtx { category: Some(LOADING), ..fact(CATEGORY, "data loading") });
    for number in 1..4 {
        let start = number * 100_000;
        nsys.call("cudaMalloc", PID, (start, start + 80_000), number);
    }
}

/// Codes with their names.
fn codes(nsys: &mut Nsys<'_>) {
    for row in schema::ENUM_ROWS.lines() {
        let mut fields = row.split('\t');
        let table = fields.next().unwrap_or_default();
        let [id, name, label] = [(); 3].map(|()| fields.next().unwrap_or_default());
        let is_same = |spec: &&tables::TableColumns| spec.name.replace("KRENEL", "KERNEL") == table;
        for spec in schema::ENUMS.iter().filter(is_same) {
            nsys.insert(spec, row![id.parse::<i64>().unwrap_or_default(), name, label]);
        }
    }
}

/// Who exported what.
fn facts(nsys: &mut Nsys<'_>, schema: Schema) {
    let [product, short, version] = schema.versions();
    let mut numbers = version.split('.');
    let [major, minor, micro] = [(); 3].map(|()| numbers.next().unwrap_or_default());
    let is_old = schema == Schema::V2022;
    let (table, prefix) =
        if is_old { (&schema::EXPORT_FACTS_2022, "EXPORT") } else { (&schema::EXPORT_FACTS, "EXPORT_PARAM") };
    for (name, value) in [
        ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
        ("EXPORT_PRODUCT_VERSION", product),
        ("EXPORT_PRODUCT_DATE", short),
        ("EXPORT_SCHEMA_VERSION", version),
        ("EXPORT_SCHEMA_VERSION_MAJOR", major),
        ("EXPORT_SCHEMA_VERSION_MINOR", minor),
        ("EXPORT_SCHEMA_VERSION_MICRO", micro),
        ("EXPORT_PLATFORM", "linux-desktop"),
        ("EXPORT_ARCH", "x64"),
        (&format!("{prefix}_INPUT_FILE"), "lacuna-sample.nsys-rep"),
    ] {
        nsys.insert(table, row![name, value]);
    }
    if !is_old {
        nsys.insert(table, row!["EXPORT_CONFIG_TIME_SHIFT", "0"]);
    }
    for (name, value) in [("CAPTURE_EVENT_TYPE", "Cuda"), ("PROCESS_0:COMMAND", "python3")] {
        nsys.insert(&schema::CAPTURE_FACTS, row![name, value]);
    }
}

/// The machine and what CUDA set up on it.
fn machine(nsys: &mut Nsys<'_>) {
    let device = i64::from(DEVICE);
    nsys.insert(&schema::SESSION_START, row![UTC_EPOCH_NS, UTC_TIME, UTC_TIME, UTC_EPOCH_NS]);
    for (id, uuid) in (0_i64..).zip(UUIDS) {
        let bus = ["0000:18:00.0", "0000:2A:00.0"][usize::from(id == 1)];
        let name = "NVIDIA H100 80GB HBM3";
        let [l2, memory, bandwidth, clock] = [52_428_800, 84_942_979_072, 3_352_320_000_000, 1_980_000_000];
        nsys.insert(
            &schema::GPU,
            row![VM, id, name, bus, 1, l2, memory, bandwidth, clock, 132, uuid, "GH100", id, 32, 9, 0, 9, 0],
        );
    }
    nsys.insert(&schema::CUDA_DEVICE, row![device, device, PID, UUIDS[0], 132]);
    nsys.insert(&schema::NULL_STREAM, row![COMPUTE.id, 0, 1, PID, device, CONTEXT_ID]);
    nsys.insert(&schema::CONTEXT, row![COMPUTE.id, 0, 1, PID, device, CONTEXT_ID, 0, 0]);
    for (stream, flag) in [(COMPUTE.id, 3), (COMMS.id, 2)] {
        nsys.insert(&schema::STREAMS, row![stream, 0, 1, PID, CONTEXT_ID, 0, flag]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generated export in a folder of its own, and its answer.
    fn export(schema: Schema, steps: u32, name: &str) -> (std::path::PathBuf, Answer) {
        let folder = std::env::temp_dir().join(format!("lacuna-sample-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("sample.sqlite");
        let answer = write(Shape { steps, seed: 3, schema }, &path).unwrap();
        (path, answer)
    }

    fn query<T: rusqlite::types::FromSql>(connection: &Connection, sql: &str) -> Vec<T> {
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    #[test]
    fn only_tables_with_rows_exist_and_the_answer_counts_them() {
        for (schema, name) in [(Schema::V2022, "a"), (Schema::V2023, "b"), (Schema::V2026, "c")] {
            let (path, answer) = export(schema, 7, name);
            let tables = answer.tables.unwrap();
            let connection = Connection::open(&path).unwrap();
            let names: Vec<String> = query(&connection, "SELECT name FROM sqlite_master ORDER BY name");
            assert!(names.iter().all(|name| !name.starts_with("sqlite_autoindex") || name.contains("CALLCHAINS")));
            let names: Vec<_> = names.into_iter().filter(|name| !name.starts_with("sqlite_")).collect();
            assert_eq!(names, tables.rows.keys().map(|name| (*name).to_owned()).collect::<Vec<_>>());
            for (name, rows) in &tables.rows {
                let counted: Vec<i64> = query(&connection, &format!("SELECT count(*) FROM {name}"));
                assert_eq!((counted[0] as u64, *rows > 0), (*rows, true), "{name}");
            }
            let wanted = |name: &str| tables.rows.contains_key(name);
            assert_eq!(wanted("CUPTI_ACTIVITY_KIND_GRAPH_TRACE"), schema == Schema::V2026);
            assert_eq!(wanted("GPU_METRICS"), schema != Schema::V2022);
            assert_eq!(wanted("EXPORT_META_DATA"), schema == Schema::V2022);
            let nodes: Vec<i64> = query(&connection, "SELECT count(graphNodeId) FROM CUPTI_ACTIVITY_KIND_KERNEL");
            assert_eq!(nodes[0] > 0, schema == Schema::V2023);
            let device = &answer.devices[0];
            assert_eq!(device.graphs > 0, schema == Schema::V2026);
            assert!(device.planted.len() >= 3, "{device:?}");
            std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        }
    }

    #[test]
    fn work_names_its_call_and_ranges_nest() {
        let (path, _) = export(Schema::V2023, 3, "d");
        let connection = Connection::open(&path).unwrap();
        let lonely: Vec<i64> = query(
            &connection,
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE NOT EXISTS (SELECT 1 FROM \
             CUPTI_ACTIVITY_KIND_RUNTIME r WHERE r.correlationId = k.correlationId AND r.start < k.start AND \
             (r.globalTid & ~0xffffff) = k.globalPid)",
        );
        assert_eq!(lonely, [0]);
        let crossing: Vec<i64> = query(
            &connection,
            "SELECT count(*) FROM NVTX_EVENTS a JOIN NVTX_EVENTS b ON a.globalTid = b.globalTid AND a.eventType = 59 \
             AND b.eventType = 59 AND a.start < b.start AND b.start < a.end AND a.end < b.end",
        );
        assert_eq!(crossing, [0]);
        let others: Vec<i64> =
            query(&connection, "SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 60 AND endGlobalTid <> globalTid");
        assert_eq!(others, [3]);
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn same_seed_same_bytes() {
        let [(one, _), (two, _)] = ["e", "f"].map(|name| export(Schema::V2026, 2, name));
        assert!(std::fs::read(&one).unwrap() == std::fs::read(&two).unwrap());
        for path in [one, two] {
            std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        }
    }
}
