//! What inputs cost whose parts are many rather than large: time and memory grow as they do.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use clap::Parser as _;
use lacuna::analysis::rules::Thresholds;
use lacuna::cli::{Cli, Headless, report};
use lacuna::job::Progress;
use lacuna::model::Trace;
use lacuna::reader;

use super::cost;
use super::support::{scratch, unbalanced};

/// Reads a file and reports all of it on one thread; returns the length of the answer, the cost and the traces.
fn cost_of(name: &str, input: impl FnOnce(&Path)) -> (usize, cost::Cost, Vec<Arc<Trace>>) {
    let path = scratch(&format!("growth-{name}")).join(name);
    input(&path);
    let words = ["lacuna", "report", "x", "--format", "json", "--top", "0"];
    let Some(Headless::Report(args)) = Cli::parse_from(words).command else { panic!("not a report") };
    let work = || {
        let traces: Vec<_> = reader::read(&path, &Progress::default()).unwrap().into_iter().map(Arc::new).collect();
        let text = report::answer(&args, Thresholds::default(), &traces, &[]).map(|(text, _)| text).unwrap();
        (text.len(), traces)
    };
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let ((n, traces), cost) = one.install(|| cost::measured(work));
    (n, cost, traces)
}

fn write(text: String) -> impl FnOnce(&Path) {
    move |path| std::fs::write(path, text).unwrap()
}

/// Four times the input cost less than eight times as much: what is in the square of it costs sixteen times.
fn assert_grows_as<I: FnOnce(&Path)>(name: &str, n: usize, input: impl Fn(usize) -> I) {
    let [small, large] = [n, 4 * n].map(|n| cost_of(name, input(n)));
    assert!(large.0 < 8 * small.0, "{name}: answers of {} and {} bytes", small.0, large.0);
    assert!(large.1.peak < 8 * small.1.peak, "{name}: {:?} and {:?}", small.1, large.1);
    assert!(large.1.time <= 8 * small.1.time, "{name}: {:?} and {:?}", small.1, large.1);
}

/// Each device has a kernel that its host launched, and another: as many hosts as devices, or few.
fn devices_of_chrome(n: usize, n_hosts: usize) -> String {
    let mut text = String::from("[");
    for i in 0..n {
        let (host, at) = (1_000_000 + i % n_hosts, 10 * i);
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(
            text,
            r#"{comma}{{"ph":"M","name":"process_labels","pid":{i},"tid":0,"args":{{"labels":"GPU {i}"}}}},
            {{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":{host},"tid":1,"ts":{at},"dur":2,"args":{{"correlation":{i}1}}}},
            {{"ph":"X","cat":"kernel","name":"k","pid":{i},"tid":7,"ts":{at}.5,"dur":3,"args":{{"correlation":{i}1,"stream":7,"device":{i}}}}},
            {{"ph":"X","cat":"kernel","name":"k","pid":{i},"tid":7,"ts":{at}.7,"dur":3,"args":{{"stream":7,"device":{i}}}}}"#
        );
    }
    text + "]"
}

#[test]
fn devices_cost_what_they_do() {
    assert_grows_as("devices.json", 500, |n| write(devices_of_chrome(n, 4)));
    assert_grows_as("devices_of_many.json", 500, |n| write(devices_of_chrome(n, n)));
    let export = |n: usize| {
        move |path: &Path| {
            let connection = rusqlite::Connection::open(path).unwrap();
            // The ids of a process and its thread, as Nsight Systems packs them.
            let (process, thread) = (1_u64 << 48 | 10 << 24, 1_u64 << 48 | 10 << 24 | 10);
            let sql = format!(
                "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;
                 CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
                 INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000');
                 CREATE TABLE TARGET_INFO_GPU (id, name, totalMemory);
                 CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId,
                    globalPid, demangledName, shortName);
                 CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId, nameId);
                 WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {n} - 1)
                 INSERT INTO TARGET_INFO_GPU SELECT i, 'GPU', 1 << 30 FROM n;
                 INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT id * 10, id * 10 + 2, 0, {thread}, id + 1, 2
                    FROM TARGET_INFO_GPU;
                 INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT id * 10 + 5, id * 10 + 9, id, 1, 7, id + 1, {process}, \
                 1, 1
                    FROM TARGET_INFO_GPU;
                 INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start + 50, end + 50, deviceId, 1, 7, 0, {process}, 1, 1
                    FROM CUPTI_ACTIVITY_KIND_KERNEL;
                 COMMIT;"
            );
            connection.execute_batch(&sql).unwrap();
        }
    };
    assert_grows_as("devices.sqlite", 500, export);
}

/// Each event is damaged, seems to close the list, and goes on to the end of the file.
#[test]
fn ways_out_of_damage_cost_what_they_do() {
    let one = r#"{"ph":"X","ts":1,"pid":1,"tid":1}"#;
    for (name, unit) in [
        ("values.json", format!(r#"{{"ph":[{one}],"x":["#)),
        ("brackets.json", format!(r#"{one}]"x"#)),
        ("objects.json", format!(r#"{one}],{{"a":{{"b":["#)),
        ("keys.json", format!(r#"{one}],"traceEvents"#)),
    ] {
        assert_grows_as(name, 3000, |n| write(format!(r#"{{"traceEvents":[{}"#, unit.repeat(n))));
    }
}

#[test]
fn threads_cost_what_they_do() {
    let trace = |n: usize| {
        let mut text = String::from("[");
        for i in 0..n {
            let ts = 3 * i;
            let comma = if i == 0 { "" } else { "," };
            let _ = write!(
                text,
                r#"{comma}{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":{i},"ts":{ts},"dur":2}},
                {{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":{i},"ts":{ts}.2,"dur":1,"args":{{"correlation":{i}}}}},
                {{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{ts}.5,"dur":1,"args":{{"correlation":{i},"stream":7}}}}"#
            );
        }
        text + "]"
    };
    assert_grows_as("threads.json", 2000, |n| write(trace(n)));
}

#[test]
fn failures_each_with_a_stack_of_its_own_cost_what_they_do() {
    let snapshot = |n: usize| {
        let mut events = Vec::new();
        for i in 0..n {
            let addr = 4096 + 512 * i;
            events.push(format!(
                r#"{{"action":"alloc","addr":{addr},"size":512,"stream":0,"frames":[{{"name":"f{i}","filename":"a.py","line":{i}}}]}},
                {{"action":"oom","size":99999999,"device_free":1024,"stream":0,"frames":[{{"name":"o{i}","filename":"o.py","line":{i}}}]}}"#
            ));
        }
        format!(r#"{{"segments":[],"device_traces":[[{}]]}}"#, events.join(","))
    };
    assert_grows_as("failures.json", 1000, |n| write(snapshot(n)));
}

/// As many slices are open at once, and end together, as there are launches inside them.
#[test]
fn slices_that_end_together_cost_what_they_do() {
    let nested = |n: usize, kind: &str, gap: usize| {
        let mut text = String::from("[");
        for i in 0..n {
            let (end, at, dur) = (10 * n, 10 * i, 10 - gap);
            let comma = if i == 0 { "" } else { "," };
            // Kernels without gaps have a name each.
            let kernel = if gap == 0 { i } else { 0 };
            let _ = write!(
                text,
                r#"{comma}{{"ph":"X","cat":"{kind}","name":"r{}","pid":1,"tid":1,"ts":0,"dur":{end}}},
                {{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{at},"dur":5,"args":{{"correlation":1{i}}}}},
                {{"ph":"X","cat":"kernel","name":"k{kernel}","pid":0,"tid":7,"ts":{at},"dur":{dur},"args":{{"correlation":1{i},"stream":7}}}}"#,
                i % 5
            );
        }
        text + "]"
    };
    assert_grows_as("ranges.json", 2000, |n| write(nested(n, "user_annotation", 0)));
    assert_grows_as("operators.json", 2000, |n| write(nested(n, "cpu_op", 5)));
}

#[test]
fn slices_deeper_than_a_thread_calls_are_shown_and_counted_as_not_looked_at() {
    let events: Vec<String> = (0..2000)
        .map(|i| {
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"a{i}","pid":1,"tid":1,"ts":{i},"dur":4000}},
                {{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{},"dur":1,"args":{{"correlation":{i},"stream":7}}}}"#,
                3 * i
            )
        })
        .collect();
    let (_, _, traces) = cost_of("deep.json", write(format!("[{}]", events.join(","))));
    let import = &traces[0].import;
    assert_eq!((unbalanced(import), import.shown), (None, 4000));
    let deep: Vec<_> = import.problems.iter().filter(|it| it.reason.contains("not looked at")).collect();
    assert_eq!(deep.iter().map(|it| it.count).collect::<Vec<_>>(), [500]);
}

/// One event of a Chrome trace.
fn event(name: &str, cat: &str, (pid, tid): (usize, usize), (ts, dur): (f64, f64), args: &str) -> String {
    format!(
        r#"{{"ph":"X","name":"{name}","cat":"{cat}","pid":{pid},"tid":{tid},"ts":{ts:.3},"dur":{dur:.3},"args":{{{args}}}}}"#
    )
}

/// A launch and its kernel.
fn launch(i: usize, thread: usize, at: f64, kernel: &str) -> [String; 2] {
    let correlation = format!(r#""correlation":{i}"#);
    let args = format!(r#""device":0,"stream":7,"correlation":{i}"#);
    [
        event("cudaLaunchKernel", "cuda_runtime", (1, thread), (at, 2.0), &correlation),
        event(kernel, "kernel", (0, 7), (at + 3.0, 5.0), &args),
    ]
}

fn chrome(events: impl Iterator<Item = String>) -> String {
    format!("[{}]", events.collect::<Vec<_>>().join(","))
}

#[test]
fn ranges_of_many_threads_cost_what_they_do() {
    let input = |n: usize| {
        chrome((0..n).flat_map(|i| {
            let at = 10.0 * i as f64;
            let range = event(&format!("range {i}"), "user_annotation", (1, i + 5), (at, 9.0), "");
            [range].into_iter().chain(launch(i + 1, i + 5, at + 2.0, "k"))
        }))
    };
    assert_grows_as("ranges.json", 3000, |n| write(input(n)));
}

/// Events of which each runs inside the one before, and within all of them a launch for each.
fn inside_one_another(n: usize, event_at: impl Fn(usize, (f64, f64)) -> String) -> String {
    chrome((0..n).flat_map(|i| {
        let inner = 0.01 * i as f64;
        let launch = launch(i + 1, 1, n as f64 + 10.0 * i as f64, "gemm");
        [event_at(i, (inner, 20.0 * n as f64 - 2.0 * inner))].into_iter().chain(launch)
    }))
}

#[test]
fn collectives_inside_one_another_cost_what_they_do() {
    let collective = |i: usize, time: (f64, f64)| {
        let args = format!(
            r#""device":0,"stream":8,"Collective name":"allreduce","Process Group Name":"g","Group size":2,"dtype":"Float","In msg nelems":{i}"#
        );
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel", (0, 8), time, &args)
    };
    assert_grows_as("collectives.json", 1500, |n| write(inside_one_another(n, collective)));
}

#[test]
fn steps_inside_one_another_follow_each_other_and_cost_what_they_do() {
    let step = |i: usize, time: (f64, f64)| event(&format!("ProfilerStep#{i}"), "user_annotation", (1, 1), time, "");
    assert_grows_as("steps.json", 1500, |n| write(inside_one_another(n, step)));
}

/// The first question about a thread is not answered row by row where it has many.
#[test]
fn launches_in_deep_stacks_cost_what_they_do() {
    let input = |n: usize| {
        chrome((0..n).flat_map(|i| {
            let inner = 2.0 * i as f64;
            let operator = event("aten::op", "cpu_op", (1, 1), (inner, 40.0 * n as f64 - 2.0 * inner), "");
            [operator].into_iter().chain(launch(i + 1, 1, 2.0 * n as f64 + 10.0 * i as f64, "gemm"))
        }))
    };
    assert_grows_as("deep.json", 3000, |n| write(input(n)));
}

/// Each table has a record, and all of them go on in one text.
#[test]
fn tables_that_share_a_text_cost_what_they_do() {
    let export = |prefix: &'static str, columns: &'static str, encoding: &'static str| {
        move |n: usize| {
            move |path: &Path| {
                let connection = rusqlite::Connection::open(path).unwrap();
                let mut sql = format!(
                    "PRAGMA encoding='{encoding}'; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;
                     CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, globalPid);
                     INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 7, 1 << 48);"
                );
                for i in 0..n {
                    let _ = write!(sql, "CREATE TABLE {prefix}{i} ({columns});");
                }
                let text = "y".repeat(10_000 * n);
                let _ = write!(sql, "INSERT INTO {prefix}0 VALUES (1, 2, '{text}'); COMMIT;");
                connection.execute_batch(&sql).unwrap();
                let roots = format!("SELECT rootpage FROM sqlite_master WHERE name LIKE '{prefix}%' ORDER BY rowid");
                let mut roots = connection.prepare(&roots).unwrap();
                let roots =
                    roots.query_map([], |row| row.get::<_, u32>(0)).unwrap().map(|root| root.unwrap() as usize - 1);
                let roots: Vec<usize> = roots.collect();
                let mut bytes = std::fs::read(path).unwrap();
                for &root in &roots[1..] {
                    bytes.copy_within(roots[0] * 4096..(roots[0] + 1) * 4096, root * 4096);
                }
                std::fs::write(path, bytes).unwrap();
            }
        }
    };
    for (name, prefix, columns, encoding) in [
        ("names.sqlite", "META_DATA_", "a, b, c", "UTF-8"),
        ("events.sqlite", "NVTX_", "start, end, text", "UTF-8"),
        ("unknown.sqlite", "bookmark", "a, b, c", "UTF-8"),
        ("utf16.sqlite", "NVTX_", "start, end, text", "UTF-16le"),
    ] {
        assert_grows_as(name, 50, export(prefix, columns, encoding));
    }
}
