//! What inputs cost whose parts are many rather than large: memory grows as they do.

use std::fmt::Write as _;
use std::sync::Arc;

use clap::Parser as _;
use lacuna::analysis::rules::Thresholds;
use lacuna::cli::{Cli, Headless, report};
use lacuna::job::Progress;
use lacuna::model::Trace;
use lacuna::reader;

use super::cost;
use super::support::{scratch, unbalanced};

/// Reads a file and reports all of it on one thread; returns the length of the answer and the most memory, in bytes.
fn cost_of(name: &str, text: &str) -> (usize, usize, Vec<Arc<Trace>>) {
    let path = scratch("growth").join(name);
    std::fs::write(&path, text).unwrap();
    let words = ["lacuna", "report", "x", "--format", "json", "--top", "0"];
    let Some(Headless::Report(args)) = Cli::parse_from(words).command else { panic!("not a report") };
    let work = || {
        let traces: Vec<_> = reader::read(&path, &Progress::default()).unwrap().into_iter().map(Arc::new).collect();
        let text = report::answer(&args, Thresholds::default(), &traces).map(|(text, _)| text).unwrap();
        (text.len(), traces)
    };
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let ((n, traces), cost) = one.install(|| cost::measured(work));
    (n, cost.peak, traces)
}

/// Four times the input cost less than eight times as much: what is in the square of it costs sixteen times.
fn assert_grows_as(name: &str, n: usize, input: impl Fn(usize) -> String) {
    let [small, large] = [n, 4 * n].map(|n| cost_of(name, &input(n)));
    assert!(large.0 < 8 * small.0, "{name}: answers of {} and {} bytes", small.0, large.0);
    assert!(large.1 < 8 * small.1, "{name}: {} and {} bytes of memory", small.1, large.1);
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
    assert_grows_as("threads.json", 2000, trace);
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
    assert_grows_as("failures.json", 1000, snapshot);
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
    let (_, _, traces) = cost_of("deep.json", &format!("[{}]", events.join(",")));
    let import = &traces[0].import;
    assert_eq!((unbalanced(import), import.shown), (None, 4000));
    let deep: Vec<_> = import.problems.iter().filter(|it| it.reason.contains("not looked at")).collect();
    assert_eq!(deep.iter().map(|it| it.count).collect::<Vec<_>>(), [500]);
}
