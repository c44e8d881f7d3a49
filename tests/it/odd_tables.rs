//! Exports with tables that no export has, which SQLite allows: each is read, or its rows are counted as not shown.

use std::path::Path;
use std::process::Command;

use lacuna::job::Progress;
use lacuna::model::SliceId;
use lacuna::reader;
use rusqlite::Connection;
use rusqlite::types::Value as SqlValue;
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

/// Idle time by class of device 0 in the sample, with a row of overhead in the longest gap, of the thread that launches
/// or of the one after it.
fn idle_with_overhead(name: &str, of_other: i64) -> Value {
    let folder = scratch(&format!("odd-tables-overhead-{of_other}"));
    let path = folder.join("t.sqlite");
    std::fs::copy(project().join("sample_traces/nsys_5_steps.sqlite"), &path).unwrap();
    let connection = Connection::open(&path).unwrap();
    let sql = format!(
        "CREATE TEMP TABLE work AS SELECT start, max(end) OVER (ORDER BY start) end FROM {KERNELS};
         CREATE TEMP TABLE gap AS SELECT until, start - until dur FROM
             (SELECT lag(end) OVER (ORDER BY start) until, start FROM work) ORDER BY dur DESC LIMIT 1;
         INSERT INTO StringIds VALUES (1 << 30, '{name}');
         INSERT INTO PROFILER_OVERHEAD (start, end, globalTid, nameId, returnValue)
             SELECT until + dur / 4, until + dur / 2, {of_other} + (SELECT call.globalTid
                 FROM CUPTI_ACTIVITY_KIND_RUNTIME call JOIN {KERNELS} kernel USING (correlationId)
                 WHERE kernel.start > until ORDER BY kernel.start LIMIT 1), 1 << 30, 0 FROM gap;"
    );
    connection.execute_batch(&sql).unwrap();
    drop(connection);
    let output = lacuna(&["report".as_ref(), "--format".as_ref(), "json".as_ref(), path.as_os_str()]);
    std::fs::remove_dir_all(&folder).unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["gaps"][0]["by_class"].clone()
}

#[test]
fn overhead_of_the_launching_thread_alone_explains_its_gaps() {
    let loading = |by_class: &Value| by_class["module_load"]["total_ns"].as_i64().unwrap_or_default();
    let [own, other] = [0, 1].map(|of_other| idle_with_overhead("dlopen(libcuda.so.1)", of_other));
    assert!(loading(&own) > 100_000, "{own:#}");
    assert_eq!(loading(&other), 0, "{other:#}");
    let total = |by_class: &Value| -> i64 {
        by_class.as_object().unwrap().values().map(|class| class["total_ns"].as_i64().unwrap()).sum()
    };
    assert_eq!(total(&own), total(&other));
}

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

/// What `check` and `report` say of a file, and the details of each of its events.
fn answers(path: &Path) -> (String, String, Vec<String>) {
    let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap());
    let said = |command: &str| {
        let mut lacuna = Command::new(env!("CARGO_BIN_EXE_lacuna"));
        let output = lacuna.args([command, "--format", "json"]).arg(name).current_dir(folder).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        // The pages of a file are its own.
        let is_size = |line: &&str| !line.contains("\"bytes\":") && !line.contains("\"file_bytes\":");
        text.lines().filter(is_size).collect::<Vec<_>>().join("\n")
    };
    let traces = reader::read(path, &Progress::default()).unwrap();
    let details = traces[0].details.as_ref().unwrap();
    let start = |i: u32| traces[0].recorded_start(SliceId(i));
    let of_each = (0..).zip(&traces[0].slices.source).map(|(i, &source)| details.event(source, start(i)));
    let of_each = of_each.map(|details| format!("{details:?}"));
    (said("check"), said("report"), of_each.collect())
}

/// Files with the same data give the same answers, one by one.
fn assert_same_answers(name: &str, plain: impl Fn(&Path), odd: impl Fn(&Path)) {
    let folder = scratch(&format!("odd-tables-{name}"));
    let [expected, found] = [&plain as &dyn Fn(&Path), &odd].map(|write| {
        let path = folder.join("t.sqlite");
        let _ = std::fs::remove_file(&path);
        write(&path);
        answers(&path)
    });
    assert!(expected.2.len() > 500 && expected.2.iter().any(|details| details.contains("gemm")), "{:?}", expected.2);
    assert_eq!(found.0, expected.0, "{name}: check");
    assert_eq!(found.1, expected.1, "{name}: report");
    assert_eq!(found.2, expected.2, "{name}: details");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn generated_columns_are_read() {
    // A table, one of its columns, what that is computed from, and how.
    let generated = [
        (KERNELS, "end", "end - start", "start + part"),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "streamId", "-streamId", "abs(part)"),
        ("StringIds", "value", "substr(value, 1, 3) || ' ' || substr(value, 4)", "replace(part, ' ', '')"),
        ("NVTX_EVENTS", "end", "CAST(end AS TEXT)", "CAST(part AS INTEGER)"),
    ];
    let write = |path: &Path, kind: Option<&str>| {
        std::fs::copy(project().join("sample_traces/nsys_5_steps.sqlite"), path).unwrap();
        let connection = Connection::open(path).unwrap();
        connection.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN").unwrap();
        // No text is the same with and without blanks.
        connection.execute_batch("UPDATE StringIds SET value = replace(value, ' ', '')").unwrap();
        for (table, column, split, joined) in generated {
            let (names, _) = columns(&connection, table);
            let declared = |name: &String| match (name == column, name.as_str(), kind) {
                (true, _, Some(kind)) => format!("{name} GENERATED ALWAYS AS ({joined}) {kind}"),
                (_, "id", _) => "id INTEGER PRIMARY KEY".to_owned(),
                _ => name.clone(),
            };
            let list: Vec<String> = names.iter().map(declared).collect();
            let stored: Vec<&str> =
                names.iter().map(String::as_str).filter(|name| kind.is_none() || *name != column).collect();
            let (list, stored) = (list.join(", "), stored.join(", "));
            let sql = format!(
                "CREATE TABLE new ({list}, part); INSERT INTO new ({stored}, part) SELECT {stored}, {split} FROM \
                 {table};
                 DROP TABLE {table}; ALTER TABLE new RENAME TO {table};"
            );
            connection.execute_batch(&sql).unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
    };
    for kind in ["VIRTUAL", "STORED"] {
        assert_same_answers(kind, |path| write(path, None), |path| write(path, Some(kind)));
    }
}

/// A column that takes for ever to compute is given up, and its rows are counted as lost.
#[test]
fn columns_that_take_too_long_cost_their_rows() {
    let mut n_rows = 0;
    let began = std::time::Instant::now();
    let file = check_changed("long", |connection| {
        let (names, n) = columns(connection, KERNELS);
        n_rows = n;
        let plain: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "end").collect();
        let plain = plain.join(", ");
        // In the square of the length of its texts, which is the most that is allowed.
        let slow = ["instr(hex(zeroblob(130000)), hex(zeroblob(65000)) || '1')"; 40].join(" + ");
        let sql = format!(
            "CREATE TABLE new ({plain}, end INTEGER GENERATED ALWAYS AS (start + {slow}) VIRTUAL);
             INSERT INTO new ({plain}) SELECT {plain} FROM {KERNELS};
             DROP TABLE {KERNELS}; ALTER TABLE new RENAME TO {KERNELS};"
        );
        connection.execute_batch(&sql).unwrap();
    });
    assert_eq!(problem(&file, "interrupted"), n_rows, "{file}");
    assert!(began.elapsed().as_secs() < 120, "{:?}", began.elapsed());
}

/// Writes the sample anew, with its texts in another encoding.
pub fn write_encoded(path: &Path, encoding: &str) {
    let sample = Connection::open(project().join("sample_traces/nsys_5_steps.sqlite")).unwrap();
    let new = Connection::open(path).unwrap();
    let sql = format!("PRAGMA encoding='{encoding}'; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN");
    new.execute_batch(&sql).unwrap();
    let mut tables = sample.prepare("SELECT name, sql FROM sqlite_master WHERE type = 'table'").unwrap();
    let tables = tables.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
    for (table, sql) in tables.map(Result::unwrap).filter(|(table, _)| !table.starts_with("sqlite_")) {
        new.execute_batch(&sql).unwrap();
        let mut all = sample.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let n_columns = all.column_count();
        let mut rows = all.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let cells = (0..n_columns).map(|i| match row.get::<_, SqlValue>(i).unwrap() {
                // Letters of one, two and four bytes in UTF-16's own count.
                SqlValue::Text(text) if table == "StringIds" => SqlValue::Text(format!("{text} äΩ🔥")),
                cell => cell,
            });
            let cells: Vec<SqlValue> = cells.collect();
            let marks = vec!["?"; n_columns].join(", ");
            let insert = format!("INSERT INTO {table} VALUES ({marks})");
            new.execute(&insert, rusqlite::params_from_iter(cells)).unwrap();
        }
    }
    new.execute_batch("COMMIT").unwrap();
    let found: String = new.query_row("PRAGMA encoding", [], |row| row.get(0)).unwrap();
    assert_eq!(found, encoding);
}

#[test]
fn texts_in_utf16_are_read() {
    for encoding in ["UTF-16le", "UTF-16be"] {
        assert_same_answers(encoding, |path| write_encoded(path, "UTF-8"), |path| write_encoded(path, encoding));
    }
}

#[test]
fn what_is_left_of_damaged_texts_in_utf16_is_read() {
    let folder = scratch("odd-tables-utf16-damaged");
    let names = |path: &Path| {
        let traces = reader::read(path, &Progress::default()).unwrap();
        let trace = &traces[0];
        let names = (0..trace.slices.len() as u32).map(|slice| trace.slice_name(SliceId(slice)).to_owned());
        let n_lost = trace.import.problems.iter().filter(|it| it.reason.contains("damaged pages")).count();
        (names.collect::<std::collections::BTreeSet<String>>(), n_lost)
    };
    let path = folder.join("t.sqlite");
    write_encoded(&path, "UTF-16be");
    let whole = names(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    let root: usize = {
        let connection = Connection::open(&path).unwrap();
        let sql = "SELECT rootpage FROM sqlite_master WHERE name = 'StringIds'";
        connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as usize
    };
    // The root leads to leaves; the row id behind the length of the first row of one of them is lost.
    let page_size = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    let at = |page: usize, offset: usize| (page - 1) * page_size + offset;
    let mut leaf = root;
    if bytes[at(root, 0)] == 5 {
        let cell = usize::from(u16::from_be_bytes([bytes[at(root, 12)], bytes[at(root, 13)]]));
        let number = &bytes[at(root, cell)..][..4];
        leaf = u32::from_be_bytes([number[0], number[1], number[2], number[3]]) as usize;
    }
    assert_eq!(bytes[at(leaf, 0)], 13);
    let cell = usize::from(u16::from_be_bytes([bytes[at(leaf, 10)], bytes[at(leaf, 11)]]));
    bytes[at(leaf, cell) + 1] = 0x7f;
    std::fs::write(&path, bytes).unwrap();
    let damaged = names(&path);
    assert_eq!((whole.1, damaged.1), (0, 1));
    let is_known = |name: &&String| whole.0.contains(*name) || name.starts_with('#');
    assert!(damaged.0.iter().filter(|name| name.ends_with("äΩ🔥")).count() > 5, "{:?}", damaged.0);
    assert_eq!(damaged.0.iter().find(|name| !is_known(name)), None);
    std::fs::remove_dir_all(&folder).unwrap();
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
