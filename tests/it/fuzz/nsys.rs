//! Exports of Nsight Systems: damaged pages, and whole ones with values that no column should have.

use rusqlite::Connection;

use super::super::support::{Dice, project};
use super::{Target, folder, plain, run};

/// Rows of each table that are kept of a sample.
const ROWS: usize = 12;

/// Tables that the sample lacks, of several versions.
const OTHERS: &str = r#"
    CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
        streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (10, 20, 0, 1, 7, 3, 281474976710656, 1, 2);
    CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (timestamp INTEGER, deviceId INTEGER, contextId INTEGER,
        streamId INTEGER, correlationId INTEGER, globalPid INTEGER, eventId INTEGER, eventSyncId INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (15, 0, 1, 7, 4, 281474976710656, 9, 1);
    CREATE TABLE GENERIC_EVENT_SOURCES (sourceId INTEGER PRIMARY KEY, data TEXT);
    CREATE TABLE GENERIC_EVENT_TYPES (typeId INTEGER PRIMARY KEY, sourceId INTEGER, data TEXT);
    INSERT INTO GENERIC_EVENT_SOURCES VALUES (7, '{"Name": "GpuMetrics"}'), (8, '{"Name": "FTrace"}');
    INSERT INTO GENERIC_EVENT_TYPES VALUES (257, 7, '{"Name": "GPU Metrics"}'), (300, 8, '{}');
    CREATE TABLE GENERIC_EVENTS (rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER, data TEXT);
    INSERT INTO GENERIC_EVENTS VALUES (100, NULL, 257, '{"SM Active": "12", "DRAM Read [Throughput %]": "60"}'),
        (150, NULL, 300, '{"cpu": 3}'), (160, 5, 257, '{"SM Active": -1}');
    CREATE TABLE NET_NIC_METRIC (start INTEGER, end INTEGER, globalId INTEGER, nicId INTEGER, metricsListId INTEGER,
        metricsIdx INTEGER, value INTEGER);
    INSERT INTO NET_NIC_METRIC VALUES (1, 2, 5, 5, 1, 0, 77), (2, 3, 5, 5, 1, 0, -1);
    CREATE TABLE TARGET_INFO_NETWORK_METRICS (metricsListId INTEGER, metricsIdx INTEGER, name TEXT);
    INSERT INTO TARGET_INFO_NETWORK_METRICS VALUES (1, 0, 'Bytes sent');
    CREATE TABLE SCHED_EVENTS (start INTEGER, cpu INTEGER, isSchedIn INTEGER, globalTid INTEGER);
    INSERT INTO SCHED_EVENTS VALUES (1, 0, 1, 281474993487873), (5, 0, 0, 281474993487873), (9, 1, 1, 281474993487873);
    CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, timestampType INTEGER, source INTEGER, severity INTEGER,
        text TEXT, globalPid INTEGER);
    INSERT INTO DIAGNOSTIC_EVENT VALUES (3, 0, 1, 3, 'lost events', 281474976710656);
    CREATE TABLE OSRT_FILE_ACCESS_EVENTS (startedAt INTEGER, endedAt INTEGER, threadId INTEGER, apiCallId INTEGER);
    INSERT INTO OSRT_FILE_ACCESS_EVENTS VALUES (2, 4, 1, 1), (90, 95, 2, 2);
    CREATE TABLE CUBLAS_EVENTS (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, nameId INTEGER);
    INSERT INTO CUBLAS_EVENTS VALUES (5, 50, 62, 281474993487873, 1), (60, 50, 62, 281474993487873, NULL);
    CREATE TABLE MPI_COLLECTIVES_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, textId INTEGER, size INTEGER);
    INSERT INTO MPI_COLLECTIVES_EVENTS VALUES (7, 8, 281474993487873, 2, 4096);
    CREATE TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS (start INTEGER, end INTEGER, globalPid INTEGER, deviceId INTEGER);
    INSERT INTO CUDA_UM_GPU_PAGE_FAULT_EVENTS VALUES (7, 9, 281474976710656, 0);
    CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, stackDepth INTEGER);
    INSERT INTO CUDA_CALLCHAINS VALUES (1, 1, 2, 0, 0), (1, 2, 2, 1, 1);
    CREATE TABLE NVTX_PAYLOAD_SCHEMAS (id INTEGER, name TEXT);
    CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum TEXT, value TEXT);
    INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, '', 'OsVersion', '', 'Linux'), (0, '', 'SECRET', '', 'x');
    CREATE VIEW a_view AS SELECT * FROM StringIds; CREATE INDEX an_index ON SCHED_EVENTS (start);
    CREATE TABLE "of words" (x TEXT PRIMARY KEY, y BLOB) WITHOUT ROWID; INSERT INTO "of words" VALUES ('a', x'00');
"#;

/// The database that `fill` makes, with pages of so many bytes.
fn database(page: u32, fill: impl FnOnce(&Connection)) -> Vec<u8> {
    let folder = folder();
    let path = folder.path().join("t.sqlite");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(&format!("PRAGMA page_size={page}; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF"))
        .unwrap();
    fill(&connection);
    drop(connection);
    std::fs::read(path).unwrap()
}

/// Small exports, of pages so small that their tables have several levels.
fn exports() -> Vec<Vec<u8>> {
    let make = |(page, n): (u32, i64)| {
        database(page, |connection| {
            let mut sql = format!(
                "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
                 CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
                    contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
                    demangledName INTEGER, shortName INTEGER);
                 CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,
                    globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
                 CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
                    globalTid INTEGER);
                 CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT); INSERT INTO TARGET_INFO_GPU VALUES (0, 'GPU');
                 INSERT INTO StringIds VALUES (0, 'gemm'), (1, 'cudaLaunchKernel_v7000'), (2, '{}');
                 BEGIN;",
                "long".repeat(400)
            );
            for i in 0..n {
                let ts = i * 100;
                sql += &format!(
                    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({ts}, {ts} + 50, 0, 1, 7, {i}, 16777216, 0, {});
                     INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({ts} - 20, {ts} - 9, 0, 16777217, {i}, 1);",
                    i % 3
                );
            }
            sql += "INSERT INTO NVTX_EVENTS VALUES (0, 900, 59, 'step', 16777217); COMMIT;";
            connection.execute_batch(&sql).unwrap();
        })
    };
    [(512, 40), (512, 150), (1024, 150)].map(make).to_vec()
}

/// A few rows of every table of the sample, which is complete, and of the tables that it lacks.
///
/// * `is_loose`: without types and constraints of columns.
fn with_all_tables(is_loose: bool) -> Vec<u8> {
    with_tables(is_loose, |_| true)
}

/// The same with one in so many tables of those that are not looked up in; SQLite takes its time for each.
fn with_some_tables(is_loose: bool, one_in: usize, dice: &mut Dice) -> Vec<u8> {
    let is_needed = |name: &str| ["StringIds", "TARGET_INFO_GPU", "PROCESSES", "ThreadNames"].contains(&name);
    with_tables(is_loose, |name| is_needed(name) || dice.below(one_in) == 0)
}

fn with_tables(is_loose: bool, mut is_kept: impl FnMut(&str) -> bool) -> Vec<u8> {
    let sample = project().join("sample_traces/nsys_5_steps.sqlite");
    database(512, |connection| {
        connection.execute("ATTACH ?1 AS sample", [sample.to_str().unwrap()]).unwrap();
        let mut tables = connection.prepare("SELECT name, sql FROM sample.sqlite_master WHERE type = 'table'").unwrap();
        let tables = tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let tables: Vec<(String, String)> = tables.map(Result::unwrap).collect();
        for (name, mut sql) in tables {
            if is_loose {
                sql = [" NOT NULL", " PRIMARY KEY,", " PRIMARY KEY\n", " INTEGER"]
                    .iter()
                    .fold(sql, |sql, words| sql.replace(words, if words.ends_with(',') { "," } else { "" }));
            }
            let rows = if name == "StringIds" { 400 } else { ROWS };
            let fill = format!("{sql}; INSERT INTO {name} SELECT * FROM sample.{name} LIMIT {rows};");
            connection.execute_batch(&fill).unwrap();
        }
        connection.execute_batch("DETACH sample").unwrap();
        connection.execute_batch(OTHERS).unwrap();
        let mut names = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").unwrap();
        let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        for name in names.iter().filter(|name| !is_kept(name)) {
            connection.execute_batch(&format!("DROP TABLE \"{name}\"")).unwrap();
        }
        connection.execute_batch("VACUUM").unwrap();
    })
}

#[test]
fn fuzz_nsys_exports() {
    run(&Target {
        name: "nsys",
        file: "t.sqlite",
        seeds: {
            let mut dice = Dice(5);
            let some = (0..6).map(|_| with_some_tables(false, 6, &mut dice));
            exports().into_iter().chain(some).chain([with_all_tables(false)]).collect()
        },
        words: &[
            b"\x0d\x00\x00",
            b"\x05\x00\x00",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x00\x00\x00\x02",
            b"\x00\x00\x00\x05",
        ],
        page: 512,
        n: 150,
        memory: 400,
        pack: plain,
    });
}

#[test]
fn fuzz_nsys_values() {
    run(&Target {
        name: "nsys-values",
        file: "t.sqlite",
        seeds: {
            let mut dice = Dice(6);
            let some = (0..16).map(|i| with_some_tables(i % 2 == 0, 8, &mut dice));
            some.chain([true, false].map(with_all_tables)).collect()
        },
        words: &[],
        page: 0,
        n: 150,
        memory: 400,
        pack: |bytes, dice| odd_values(&bytes, dice),
    });
}

/// What a cell may hold that its column should not.
const ODD: [&str; 16] = [
    "NULL",
    "0",
    "-1",
    "1",
    "9223372036854775807",
    "-9223372036854775808",
    "4294967296",
    "1e300",
    "0.5",
    "'text'",
    "''",
    "x'00ff'",
    "zeroblob(70000)",
    "randomblob(300)",
    "'12'",
    "CAST(x'ff41' AS TEXT)",
];

/// Changes of values, rows and columns in a database that stays whole.
fn odd_values(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let folder = folder();
    let path = folder.path().join("t.sqlite");
    std::fs::write(&path, bytes).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF").unwrap();
    let names = |sql: &str| -> Vec<String> {
        let Ok(mut statement) = connection.prepare(sql) else { return Vec::new() };
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.filter_map(Result::ok).collect()
    };
    let tables = names("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'ENUM%'");
    for _ in 0..=dice.below(6) {
        let table = &tables[dice.below(tables.len())];
        let columns = names(&format!("SELECT name FROM pragma_table_info('{table}')"));
        let (column, other) = (&columns[dice.below(columns.len())], &columns[dice.below(columns.len())]);
        let value = ODD[dice.below(ODD.len())];
        let which = ["", "WHERE rowid = 1", "WHERE rowid % 3 = 0", "WHERE rowid > 5"][dice.below(4)];
        let change = match dice.below(12) {
            0..6 => format!("UPDATE OR IGNORE \"{table}\" SET \"{column}\" = {value} {which}"),
            6 | 7 => format!("UPDATE OR IGNORE \"{table}\" SET \"{column}\" = \"{other}\" {which}"),
            8 => format!("INSERT OR IGNORE INTO \"{table}\" SELECT * FROM \"{table}\" {which}"),
            9 => format!("ALTER TABLE \"{table}\" DROP COLUMN \"{column}\""),
            10 => format!("DELETE FROM \"{table}\" {which}"),
            _ => format!("ALTER TABLE \"{table}\" RENAME COLUMN \"{column}\" TO \"{other} again\""),
        };
        // What the schema does not allow is left as it is.
        let _ = connection.execute_batch(&change);
    }
    drop(connection);
    std::fs::read(path).unwrap()
}
