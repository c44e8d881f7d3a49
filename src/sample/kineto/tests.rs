use super::*;

fn sample(steps: u32, seed: u64, is_array: bool) -> (Vec<u8>, Answer) {
    let mut bytes = Vec::new();
    let answer = write(Shape { steps, seed, is_array }, &mut bytes).unwrap();
    (bytes, answer)
}

fn events(bytes: &[u8]) -> Vec<serde_json::Value> {
    let mut document: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    let events = if document.is_array() { document.take() } else { document["traceEvents"].take() };
    serde_json::from_value(events).unwrap()
}

/// Whole nanoseconds from the digits of decimal microseconds.
fn ns(value: &serde_json::Value) -> i64 {
    let text = value.to_string();
    let (whole, rest) = text.split_once('.').unwrap_or((&text, "0"));
    whole.parse::<i64>().unwrap() * 1000 + format!("{rest:0<3}").parse::<i64>().unwrap()
}

#[test]
fn same_seed_same_bytes() {
    assert_eq!(sample(2, 5, false), sample(2, 5, false));
    assert_ne!(sample(2, 5, false).0, sample(2, 6, false).0);
}

#[test]
fn both_forms_have_the_same_events_and_the_counts_of_the_answer() {
    let (object, answer) = sample(2, 1, false);
    let events_of_object = events(&object);
    assert_eq!(events_of_object, events(&sample(2, 1, true).0));
    let events = answer.events.unwrap();
    let count = |ph: &str| events_of_object.iter().filter(|e| e["ph"] == ph).count() as u64;
    assert_eq!(
        [count("X"), count("s"), count("f"), count("i"), count("M")],
        [events.slices, events.flow_starts, events.flow_ends, events.instants, events.metadata]
    );
}

#[test]
fn answer_agrees_with_a_slow_sweep_over_the_file() {
    let (bytes, answer) = sample(12, 3, false);
    let device = &answer.devices[0];
    let mut work: Vec<(i64, i64)> = Vec::new();
    let mut kernels = 0;
    for event in events(&bytes) {
        let cat = event["cat"].as_str().unwrap_or_default();
        if ["kernel", "gpu_memcpy", "gpu_memset"].contains(&cat) {
            kernels += u64::from(cat == "kernel");
            work.push((ns(&event["ts"]), ns(&event["ts"]) + ns(&event["dur"])));
        }
    }
    work.sort_unstable();
    // Idle is what lies before a start and after all earlier ends.
    let mut gaps = Vec::new();
    let mut until = work[0].0;
    for &(start, end) in &work {
        if start > until {
            gaps.push((until, start - until));
        }
        until = until.max(end);
    }
    assert_eq!(device.kernels, kernels);
    assert_eq!(device.window, [work[0].0, until]);
    assert_eq!(device.idle_ns, gaps.iter().map(|gap| gap.1).sum::<i64>());
    assert_eq!(device.busy_ns + device.idle_ns, device.window_ns);
    assert_eq!(device.gaps, gaps.len() as u64);
    let long: Vec<_> = gaps.into_iter().filter(|gap| gap.1 >= 1_000_000).collect();
    let planted: Vec<_> =
        device.planted.iter().filter(|p| p.dur_ns >= 1_000_000).map(|p| (p.start_ns, p.dur_ns)).collect();
    assert_eq!(planted, long, "every long gap has its cause");
    for cause in ["loader", "sync", "allocator", "gc"] {
        assert!(device.planted.iter().any(|p| p.cause == cause && p.dur_ns >= 1_000_000), "{cause}");
    }
}

#[test]
fn work_on_a_stream_never_overlaps_and_follows_its_launch() {
    let (bytes, _) = sample(3, 9, false);
    let mut calls = std::collections::BTreeMap::new();
    let mut work = Vec::new();
    for event in events(&bytes) {
        let correlation = event["args"]["correlation"].as_u64();
        match (event["cat"].as_str(), correlation) {
            (Some("cuda_runtime"), Some(id)) => drop(calls.insert(id, ns(&event["ts"]))),
            (Some("kernel" | "gpu_memcpy" | "gpu_memset"), Some(id)) => {
                work.push((event["tid"].as_i64(), ns(&event["ts"]), ns(&event["dur"]), id));
            }
            _ => {}
        }
    }
    work.sort_unstable();
    assert!(work.iter().all(|&(_, start, _, id)| calls[&id] < start));
    assert!(work.windows(2).all(|w| w[0].0 != w[1].0 || w[0].1 + w[0].2 <= w[1].1));
}
