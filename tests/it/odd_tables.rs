//! Exports with tables that no export has, which SQLite allows: each is read, or its rows are counted as not shown.

use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use super::support::{lacuna, project, scratch};

/// What `check` says of the sample after these changes. Its counts are balanced.
fn check_changed(name: &str, change: impl FnOnce(&Connection)) -> Value {
    let folder = scratch(&format!("odd-tables-{name}"));
    let path = folder.join("t.sqlite");
    std::fs::copy(project().join("sample_traces/nsys_5_steps.sqlite"), &path).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN").unwrap();
    change(&connection);
    connection.execute_batch("COMMIT").unwrap();
    drop(connection);
    let report = check(&path);
    std::fs::remove_dir_all(&folder).unwrap();
    report
}

fn check(path: &Path) -> Value {
    let output = lacuna(&["check".as_ref(), "--format".as_ref(), "json".as_ref(), path.as_os_str()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = &report["files"][0];
    let count = |key: &str| n(file, key);
    let rest = count("shown") + count("merged") + count("rejected");
    assert_eq!(count("read"), rest, "{file}");
    file.clone()
}

/// A count of the file's events.
fn n(file: &Value, key: &str) -> u64 {
    file["events"][key].as_u64().unwrap()
}

/// How often a problem with these words occurred; 0 without it.
fn problem(file: &Value, words: &str) -> u64 {
    let problems = file["problems"].as_array().unwrap().iter();
    let found = problems.filter(|problem| problem["reason"].as_str().unwrap().contains(words));
    found.map(|problem| problem["count"].as_u64().unwrap()).sum()
}

/// The columns of a table as SQL, and its rows.
fn columns(connection: &Connection, table: &str) -> (Vec<String>, u64) {
    let mut info = connection.prepare(&format!("SELECT name FROM pragma_table_info('{table}')")).unwrap();
    let names = info.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap).collect();
    let n: i64 = connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
    (names, n as u64)
}

const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";

#[test]
fn tables_without_row_ids_are_counted_row_by_row() {
    let mut n_rows = 0;
    let file = check_changed("without-row-ids", |connection| {
        for (table, key) in [(KERNELS, "correlationId, start"), ("StringIds", "value")] {
            let (names, n) = columns(connection, table);
            let names = names.join(", ");
            n_rows += n;
            let sql = format!(
                "CREATE TABLE new ({names}, PRIMARY KEY ({key})) WITHOUT ROWID;
                 INSERT INTO new SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE new RENAME TO {table};"
            );
            connection.execute_batch(&sql).unwrap();
        }
    });
    assert!(n_rows > 700);
    assert_eq!(problem(&file, "a table WITHOUT ROWID, which no export has; its rows are not shown"), n_rows);
    assert_eq!(problem(&file, "damaged"), 0);
    // Calls of the runtime and the rest are there.
    assert!(n(&file, "shown") > 900, "{file}");
}

#[test]
fn generated_columns_cost_the_rows_that_need_them() {
    for kind in ["VIRTUAL", "STORED"] {
        let mut n_rows = 0;
        let file = check_changed(kind, |connection| {
            let (names, n) = columns(connection, KERNELS);
            n_rows = n;
            let plain: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "end").collect();
            let plain = plain.join(", ");
            let sql = format!(
                "CREATE TABLE new ({plain}, length INTEGER, end INTEGER GENERATED ALWAYS AS (start + length) {kind});
                 INSERT INTO new ({plain}, length) SELECT {plain}, end - start FROM {KERNELS};
                 DROP TABLE {KERNELS}; ALTER TABLE new RENAME TO {KERNELS};"
            );
            connection.execute_batch(&sql).unwrap();
        });
        assert_eq!(problem(&file, "Row without an end time"), n_rows, "{file}");
    }
}

#[test]
fn as_many_columns_as_sqlite_allows_are_read() {
    let before = check(&project().join("sample_traces/nsys_5_steps.sqlite"));
    let file = check_changed("columns", |connection| {
        let (names, _) = columns(connection, KERNELS);
        let others: Vec<String> = (0..2000 - names.len()).map(|i| format!("x{i}")).collect();
        let (names, others) = (names.join(", "), others.join(", "));
        // What is read stands behind all others.
        let sql = format!(
            "CREATE TABLE new ({others}, {names}); INSERT INTO new ({names}) SELECT * FROM {KERNELS};
             DROP TABLE {KERNELS}; ALTER TABLE new RENAME TO {KERNELS};"
        );
        connection.execute_batch(&sql).unwrap();
    });
    for key in ["read", "shown", "rejected"] {
        assert_eq!(n(&file, key), n(&before, key), "{key}");
    }
}

#[test]
fn ten_thousand_tables_are_counted() {
    let before = check(&project().join("sample_traces/nsys_5_steps.sqlite"));
    let file = check_changed("tables", |connection| {
        let create = |i: u32| format!("CREATE TABLE t{i} (start INTEGER, end INTEGER, globalTid INTEGER);");
        connection.execute_batch(&(0..10_000).map(create).collect::<String>()).unwrap();
    });
    assert_eq!(n(&file, "shown"), n(&before, "shown"));
    assert!(problem(&file, "More than 1,000 tables") > 9000, "{file}");
}

#[test]
fn views_in_the_place_of_tables_are_named() {
    let file = check_changed("views", |connection| {
        for table in [KERNELS, "NVTX_EVENTS"] {
            let sql =
                format!("ALTER TABLE {table} RENAME TO old_{table}; CREATE VIEW {table} AS SELECT * FROM old_{table}");
            connection.execute_batch(&sql).unwrap();
        }
    });
    assert_eq!(problem(&file, "is a view or a virtual table, which no export has: not read"), 2, "{file}");
}

#[test]
fn cells_of_any_type_are_shown_or_counted() {
    let file = check_changed("types", |connection| {
        let (names, _) = columns(connection, KERNELS);
        let names = names.join(", ");
        let odd = ["'text'", "x'00ff'", "1e300", "NULL", "''", "9e999"];
        let sql: String = odd
            .iter()
            .enumerate()
            .map(|(i, value)| {
                let column = ["start", "end", "deviceId", "streamId", "demangledName", "registersPerThread"][i];
                let chosen = format!("WHERE rowid % 12 = {i}");
                format!(
                    "UPDATE {KERNELS} SET {column} = {value} {chosen}; UPDATE {KERNELS} SET end = {value} {chosen} + 6;"
                )
            })
            .collect();
        let loose = format!(
            "CREATE TABLE new ({names}); INSERT INTO new SELECT * FROM {KERNELS};
             DROP TABLE {KERNELS}; ALTER TABLE new RENAME TO {KERNELS}; {sql}"
        );
        connection.execute_batch(&loose).unwrap();
    });
    assert!(n(&file, "rejected") > 300, "{file}");
    assert!(problem(&file, "Time that is not a whole number of nanoseconds") > 0, "{file}");
}
