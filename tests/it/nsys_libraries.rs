//! Calls of libraries and unified memory in exports of Nsight Systems: sums as `nsys stats` makes them.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde_json::Value;

use super::support::{project, report, scratch};

/// The tables as Nsight Systems 2023.4 makes them, as far as rows need them, and rows; `ns` numbers them.
const TABLES: &str = r#"
CREATE TABLE CUDA_UM_CPU_PAGE_FAULT_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL, address INTEGER NOT NULL,
    originalFaultPc INTEGER, CpuInstruction INTEGER NOT NULL, module INTEGER NOT NULL, unresolvedFaultPc INTEGER);
CREATE TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS (start INTEGER NOT NULL, end INTEGER NOT NULL, globalPid INTEGER NOT NULL,
    deviceId INTEGER NOT NULL, address INTEGER NOT NULL, numberOfPageFaults INTEGER NOT NULL,
    faultAccessType INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_OPENACC_DATA (start INTEGER NOT NULL, end INTEGER NOT NULL, nameId INTEGER NOT NULL,
    globalTid INTEGER, eventKind INTEGER NOT NULL, DeviceType INTEGER NOT NULL, lineNo INTEGER NOT NULL,
    cuDeviceId INTEGER NOT NULL, cuContextId INTEGER NOT NULL, cuStreamId INTEGER NOT NULL, srcFile INTEGER,
    funcName INTEGER, bytes INTEGER, varName INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH (start INTEGER NOT NULL, end INTEGER NOT NULL, nameId INTEGER NOT NULL,
    globalTid INTEGER, eventKind INTEGER NOT NULL, DeviceType INTEGER NOT NULL, lineNo INTEGER NOT NULL,
    cuDeviceId INTEGER NOT NULL, cuContextId INTEGER NOT NULL, cuStreamId INTEGER NOT NULL, srcFile INTEGER,
    funcName INTEGER, numGangs INTEGER, numWorkers INTEGER, vectorLength INTEGER, kernelName INTEGER);
CREATE TABLE OPENMP_EVENT_KIND_PARALLEL (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, eventKind INTEGER, parallelId INTEGER,
    parentTaskId INTEGER);
CREATE TABLE MPI_COLLECTIVES_EVENTS (start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER,
    commHandle INTEGER, rootRank INTEGER, size INTEGER, recvSize INTEGER, requestHandle INTEGER);
CREATE TABLE MPI_START_WAIT_EVENTS (start INTEGER NOT NULL, end INTEGER, globalTid INTEGER, textId INTEGER,
    requestHandle INTEGER);
INSERT INTO StringIds(id, value) VALUES (900001, 'Compute Construct'), (900002, 'Enqueue Upload'), (900003, '/src/a.f90'),
    (900004, 'b c.c'), (900005, 'omp parallel'), (900006, 'MPI_Allreduce'), (900007, 'MPI_Waitall'), (900008, 'main');
CREATE TEMP TABLE ns AS WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 39) SELECT i,
    (SELECT min(start) FROM CUPTI_ACTIVITY_KIND_RUNTIME) + i * 20000 AS a, 100 + i * i * 7 AS dur,
    (SELECT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME LIMIT 1) AS tid FROM n;
INSERT INTO CUDA_UM_CPU_PAGE_FAULT_EVENTS SELECT a, tid & -16777216, i * 4096, NULL, 900008, 900008, 0 FROM ns WHERE i < 30;
INSERT INTO CUDA_UM_GPU_PAGE_FAULT_EVENTS SELECT a, a + dur, tid & -16777216, 0, i * 4096, 1 + i % 7, 1 FROM ns;
INSERT INTO CUPTI_ACTIVITY_KIND_OPENACC_DATA SELECT a, a + dur, 900002, tid, 1, 4, 10 + i % 2, 0, 1, 7,
    CASE i % 3 WHEN 0 THEN NULL WHEN 1 THEN 900003 ELSE 900004 END, NULL, 8, NULL FROM ns;
INSERT INTO CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH SELECT a + 5000, a + 5000 + dur / 2, 900001, tid, 1, 4, 42, 0, 1, 7,
    900003, NULL, 1, 1, 1, NULL FROM ns;
INSERT INTO OPENMP_EVENT_KIND_PARALLEL SELECT a + 13000, a + 13000 + i, 78, tid, NULL, 900005, 1, 1, 1 FROM ns;
INSERT INTO MPI_COLLECTIVES_EVENTS SELECT a + 14000, a + 14000 + 3 * i, tid, 900006, 1, 0, 64, 64, NULL FROM ns;
INSERT INTO MPI_START_WAIT_EVENTS SELECT a + 15000, a + 15000 + 5 * i, tid, 900007, NULL FROM ns;
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY(start, end, deviceId, contextId, streamId, globalPid, bytes, copyKind)
    SELECT a, a + dur, 0, 1, 7, tid & -16777216, 4096 * (1 + i), 11 + i % 2 FROM ns;
"#;

/// The same sums, as the reports of `nsys stats` ask for them.
const SUMS: &str = r#"
SELECT 'OpenACC ' || CASE WHEN srcFile NOT NULL THEN n.value || '@' || f.value || ':' || lineNo ELSE n.value END, count(*),
    sum(end - start), min(end - start), max(end - start), NULL, NULL FROM (
    SELECT start, end, nameId, srcFile, lineNo FROM CUPTI_ACTIVITY_KIND_OPENACC_DATA UNION ALL
    SELECT start, end, nameId, srcFile, lineNo FROM CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH)
    LEFT JOIN StringIds AS n ON n.id = nameId LEFT JOIN StringIds AS f ON f.id = srcFile GROUP BY 1
UNION ALL SELECT 'OpenMP ' || value, count(*), sum(end - start), min(end - start), max(end - start), NULL, NULL
    FROM OPENMP_EVENT_KIND_PARALLEL JOIN StringIds ON id = nameId GROUP BY 1
UNION ALL SELECT 'MPI ' || value, count(*), sum(end - start), min(end - start), max(end - start), NULL, NULL FROM (
    SELECT start, end, textId FROM MPI_COLLECTIVES_EVENTS UNION ALL SELECT start, end, textId FROM MPI_START_WAIT_EVENTS)
    JOIN StringIds ON id = textId GROUP BY 1
UNION ALL SELECT 'Unified memory CUDA UM CPU page fault', count(*), 0, 0, 0, NULL, NULL FROM CUDA_UM_CPU_PAGE_FAULT_EVENTS
UNION ALL SELECT 'Unified memory CUDA UM GPU page fault', count(*), sum(end - start), min(end - start), max(end - start),
    NULL, sum(numberOfPageFaults) FROM CUDA_UM_GPU_PAGE_FAULT_EVENTS
UNION ALL SELECT 'Unified memory Memcpy ' || iif(copyKind = 11, 'HtoD', 'DtoH') || ' (Unified)', count(*), sum(end - start),
    min(end - start), max(end - start), sum(bytes), NULL FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind IN (11, 12) GROUP BY 1
"#;

/// Count, total, shortest, longest, bytes and page faults.
type Figures = [Option<i64>; 6];

#[test]
fn libraries_and_unified_memory_add_up_as_in_nsys() {
    let folder = scratch("nsys-libraries");
    let path = folder.join("t.sqlite");
    std::fs::copy(project().join("sample_traces/nsys_5_steps.sqlite"), &path).unwrap();
    let before = report(&path, "0").unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(TABLES).unwrap();
    let mut sums = connection.prepare(SUMS).unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, std::array::from_fn(|i| row.get(i + 1).unwrap())));
    let expected: BTreeMap<String, Figures> = sums.query_map([], row).unwrap().map(Result::unwrap).collect();
    let after = report(&path, "0").unwrap();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let figures =
        |row: &Value| ["calls", "total_ns", "min_ns", "max_ns", "bytes", "page_faults"].map(|key| row[key].as_i64());
    let rows = after["libraries"].as_array().unwrap().iter();
    let found: BTreeMap<String, Figures> =
        rows.map(|row| (format!("{} {}", text(row, "library"), text(row, "name")), figures(row))).collect();
    assert_eq!(found, expected);
    // What the program copied is as it was, and migrations stand beside it.
    let (copies, was) = (after["copies"].as_array().unwrap(), before["copies"].as_array().unwrap());
    let (migrations, others): (Vec<&Value>, Vec<&Value>) = copies.iter().partition(|row| row["unified"] == true);
    assert_eq!(others, was.iter().collect::<Vec<_>>());
    assert_eq!(migrations.len(), 2, "{migrations:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
