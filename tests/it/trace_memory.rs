//! Compares the replayed memory of traces with the totals in their own events.

use std::path::{Path, PathBuf};

use lacuna::model::memory::{Inconsistency, MemorySource};
use lacuna::model::{MemoryHistory, Trace};
use lacuna::sample::nsys::{self, Schema, Shape};
use rusqlite::Connection;

use super::support::{name, project, read, real, recording, report, scratch};

/// Whether a counter of the trace holds these values, one after each event.
fn is_a_counter(trace: &Trace, title: &str, bytes: &[u64]) -> bool {
    let of_title = trace.counters.iter().filter(|counter| trace.track(counter.track).name == title);
    let values: Vec<f64> = bytes.iter().map(|&bytes| bytes as f64).collect();
    of_title.into_iter().any(|counter| counter.value == values)
}

/// The histories of one source.
fn histories(trace: &Trace, source: MemorySource) -> impl Iterator<Item = &MemoryHistory> {
    trace.memories.iter().filter(move |history| history.source == source)
}

/// Bytes of all columns of a history, per event.
fn bytes_per_event(history: &MemoryHistory) -> u64 {
    let (events, blocks, states) = (history.events.len(), history.allocations.len(), history.curves.active.len());
    // Time, action, address, bytes, pool, stack, allocation.
    let columns = [(events, 8 + 1 + 8 + 8 + 2 + 4 + 4), (blocks, 8 + 8 + 8 + 4 + 4 + 4 + 2 + 4 + 4), (states, 4 * 8)];
    columns.iter().map(|(n, bytes)| *n as u64 * bytes).sum::<u64>() / events.max(1) as u64
}

/// The totals that PyTorch wrote into each `[memory]` event must be what the blocks sum to. Returns the
/// number of histories and their events.
fn check_traces(paths: &[PathBuf]) -> (usize, usize) {
    let (mut n_histories, mut n_events) = (0, 0);
    for path in paths {
        for trace in recording(path).unwrap_or_default() {
            let (mut in_histories, mut contradicted) = (0, 0);
            for history in histories(trace, MemorySource::Profiler) {
                let device = if history.device < 0 { "CPU".to_owned() } else { format!("GPU {}", history.device) };
                let curves = &history.curves;
                let title = format!("{device} memory allocated");
                assert!(is_a_counter(trace, &title, &curves.allocated[1..]), "{}: {title}", name(path));
                if history.has_reserved {
                    let title = format!("{device} memory reserved");
                    assert!(is_a_counter(trace, &title, &curves.reserved[1..]), "{}: {title}", name(path));
                }
                assert_eq!(curves.allocated, curves.active, "{}", name(path));
                assert!(
                    history.inconsistencies.iter().all(|(inconsistency, ..)| inconsistency.is_harmless()),
                    "{:?}",
                    history.inconsistencies
                );
                assert!(bytes_per_event(history) <= 100, "{}", bytes_per_event(history));
                n_histories += 1;
                in_histories += history.events.len();
            }
            for problem in &trace.import.problems {
                contradicted += if problem.reason.contains("contradicts") { problem.count } else { 0 };
            }
            assert_eq!(contradicted, 0, "{}", name(path));
            // Those of 2021 have no addresses: they are counters only.
            let is_old = trace.counters.iter().any(|counter| counter.series == "change since start");
            assert_eq!(in_histories, if is_old { 0 } else { trace.allocations.len() }, "{}", name(path));
            n_events += in_histories;
        }
    }
    (n_histories, n_events)
}

#[test]
fn blocks_of_real_kineto_traces_sum_to_the_totals_in_their_events() {
    let folders = ["A_kineto", "A_kineto_generated_cpu"];
    let paths: Vec<_> = folders.iter().flat_map(|folder| real(folder)).collect();
    let found = check_traces(&paths);
    if !paths.is_empty() {
        assert_eq!(found, (8, 48_055));
    }
}

#[test]
fn blocks_of_a_kineto_sample_sum_to_the_totals_in_its_events() {
    assert_eq!(check_traces(&[project().join("sample_traces/kineto_10_steps.json.gz")]), (1, 960));
}

/// One number of a query.
fn ask(connection: &Connection, sql: &str) -> u64 {
    connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() as u64
}

fn check_export(path: &Path) {
    let traces = read(path).unwrap();
    let [trace] = &traces[..] else { panic!("one trace") };
    let histories: Vec<_> = histories(trace, MemorySource::Driver).collect();
    let [history] = histories[..] else { panic!("one device") };
    let connection = Connection::open(path).unwrap();
    let table = "CUDA_GPU_MEMORY_USAGE_EVENTS";
    let change = "CASE memoryOperationType WHEN 1 THEN -bytes ELSE bytes END";
    let curve = &history.curves.allocated;
    assert_eq!(history.events.len() as u64, ask(&connection, &format!("SELECT count(*) FROM {table}")));
    assert_eq!(*curve.last().unwrap(), ask(&connection, &format!("SELECT sum({change}) FROM {table}")));
    let peak = format!("SELECT max(level) FROM (SELECT sum({change}) OVER (ORDER BY start) AS level FROM {table})");
    assert_eq!(curve[history.curves.peak(0..history.n_states()) as usize], ask(&connection, &peak));
    let allocations = format!("SELECT count(*) FROM {table} WHERE memoryOperationType = 0");
    assert_eq!(history.allocations.len() as u64, ask(&connection, &allocations));
    assert!(history.allocations.ids().all(|id| trace.strings.get(history.allocations.category(id)) == "Device"));
    assert!(history.allocations.len() > 2 && !history.has_reserved);
    assert!(is_a_counter(trace, "Device memory", &curve[1..]));
}

/// What a late recording tells: blocks are freed that it does not know, and one of them twice.
#[test]
fn the_counter_of_an_nsys_export_is_the_replayed_curve() {
    let folder = scratch("nsys-memory-late");
    let path = folder.join("late.sqlite");
    nsys::write(Shape { steps: 14, seed: 2, schema: Schema::V2023 }, &path).unwrap();
    let table = "CUDA_GPU_MEMORY_USAGE_EVENTS";
    let connection = Connection::open(&path).unwrap();
    let first_free = format!("(SELECT min(start) FROM {table} WHERE memoryOperationType = 1)");
    connection.execute(&format!("UPDATE {table} SET start = start + 1 WHERE start > {first_free}"), []).unwrap();
    // As a row of its own with all other columns alike.
    connection
        .execute_batch(&format!(
            "CREATE TEMP TABLE again AS SELECT * FROM {table} WHERE start = {first_free};
             UPDATE again SET start = start + 1;
             INSERT INTO {table} SELECT * FROM again;
             DELETE FROM {table} WHERE rowid IN
                 (SELECT rowid FROM {table} WHERE memoryOperationType = 0 ORDER BY start LIMIT 2);"
        ))
        .unwrap();
    drop(connection);
    let traces = read(&path).unwrap();
    let history = histories(&traces[0], MemorySource::Driver).next().unwrap();
    let odd = |wanted| history.inconsistencies.iter().find(|odd| odd.0 == wanted).map(|odd| odd.1);
    assert!(
        odd(Inconsistency::FreedFromBefore).is_some() && odd(Inconsistency::FreedTwice) == Some(1),
        "{:?}",
        history.inconsistencies
    );
    assert!(history.curves.allocated[0] > 0 && history.pid.is_some());
    assert!(is_a_counter(&traces[0], "Device memory", &history.curves.allocated[1..]));
    assert_eq!(report(&path, "5").unwrap()["memory"][0]["pid"].as_i64(), history.pid);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn blocks_of_nsys_exports_sum_to_what_sql_says() {
    let folder = scratch("nsys-memory");
    for (schema, name) in [(Schema::V2022, "2022"), (Schema::V2023, "2023"), (Schema::V2026, "2026")] {
        let path = folder.join(format!("{name}.sqlite"));
        nsys::write(Shape { steps: 14, seed: 2, schema }, &path).unwrap();
        check_export(&path);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
