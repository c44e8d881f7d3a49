//! The part `memory` of a report: its keys, and what is cut.

use super::*;
use crate::session::{MemoryFocus, OpenTrace};

/// Six steps of 20 allocations; in each one block more stays. Then memory runs out.
pub(super) fn leaking() -> Trace {
    leaking_for(6)
}

/// The same with so many steps.
pub(super) fn leaking_for(steps: u32) -> Trace {
    let steps = i64::from(steps);
    let mut builder = TraceBuilder::default();
    let mut frames = |names: &[&str]| {
        names.iter().rev().fold(StackId(0), |callers, name| {
            let name = builder.strings.intern(name);
            builder.stacks.intern(callers, name)
        })
    };
    let forward = frames(&["mul (ops.cpp:1)", "forward (/me/model.py:7)", EVIL]);
    let append = frames(&["_PyEval_Vector", "append (/me/losses.py:12)"]);
    let mut raw = RawMemory { has_time: true, ..RawMemory::default() };
    let pool = raw.pool(MemoryPool::default());
    let mut push = |action, addr, bytes, stack| {
        let ts = 1_000 + 10 * raw.events.len() as i64;
        raw.events.push(MemoryEvent { ts, action, addr, bytes, pool, stack });
    };
    push(MemoryAction::SegmentAlloc, 0, 64 << 20, StackId(0));
    for step in 0..steps.unsigned_abs() {
        for i in 1..20 {
            push(MemoryAction::Alloc, i * 4096, 4096, forward);
        }
        push(MemoryAction::Alloc, (step + 1) << 20, 1 << 20, append);
        for i in 1..20 {
            push(MemoryAction::FreeCompleted, i * 4096, 4096, StackId(0));
        }
    }
    push(MemoryAction::OutOfMemory, 0, 80 << 20, StackId(0));
    for step in 0..steps {
        let start = 1_010 + 390 * step;
        let name = builder.strings.intern(&format!("ProfilerStep#{step}"));
        raw.annotations.push(MemoryAnnotation { name, start, end: start + 390, has_end: true });
    }
    let event = raw.events.len() as u32 - 1;
    raw.ooms.push(OutOfMemory { event, requested: 80 << 20, device_free: Some(10 << 20) });
    builder.info.devices.push(DeviceInfo { total_memory_bytes: Some(80 << 20), ..Default::default() });
    builder.info.rank = Some(3);
    builder.memories.push(raw);
    builder.finish()
}

#[test]
fn a_leak_has_advice() {
    let report =
        build::report(&[leaking().into()], 1, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    // A list keeps what it made, and nothing freed a block of it.
    let advice = json["memory"][0]["leaks"][0]["advice"].to_string();
    for part in ["Look for lists, dictionaries", "None of its blocks was ever freed"] {
        assert!(advice.contains(part), "{advice}");
    }
}

#[test]
fn memory_has_the_keys_of_the_contract() {
    let report = |top| {
        build::report(&[leaking().into()], top, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap()
    };
    let json: serde_json::Value =
        serde_json::from_str(&written(&report(1), Format::Json, None, None).unwrap()).unwrap();
    let forward = serde_json::json!(["mul (ops.cpp:1)", "forward (/me/model.py:7)", EVIL]);
    let append = serde_json::json!(["append (/me/losses.py:12)"]);
    let held = serde_json::json!([{"place": append[0], "stack": append, "bytes": 6 << 20, "count": 6}]);
    let mut memory = json["memory"][0].clone();
    let efficiency = memory["efficiency"].take().as_f64().unwrap();
    // 235 states of 10 ns: in each step 380 times a block of 4 KiB, and 39 or 20 times each of the others.
    let mean = f64::from(6 * 380 * 4096 + 705 * (1 << 20)) / 235.0;
    assert!((efficiency - mean / f64::from(64 << 20)).abs() < 1e-12, "{efficiency}");
    memory["oom"].take();
    let expected = serde_json::json!({
        "rank": 3, "device": 0, "source": "snapshot", "events": 6 * 39 + 2,
        // After the last of the blocks of step 5.
        "peak_allocated_bytes": (6 << 20) + 19 * 4096, "peak_allocated_at": 10 * (5 * 39 + 20),
        "peak_reserved_bytes": 64 << 20, "end_allocated_bytes": 6 << 20,
        "end_awaiting_free_bytes": 0, "end_reserved_bytes": 64 << 20,
        "start_allocated_bytes": 0, "fragmentation": memory["fragmentation"],
        // The one segment holds what is kept.
        "end_pinned_bytes": (64 - 6) << 20, "efficiency": null, "oom": null,
        "by_place": memory["by_place"], "change_by_place": memory["change_by_place"], "categories": memory["categories"],
        "end_unused_bytes": (64 - 6) << 20, "end_largest_free_bytes": 57 << 20, "device_total_bytes": 80 << 20,
        "summary": "Peak 6.07 MiB; most at the peak: append (losses.py:12) 6.00 MiB. Out of memory: Demand: 80.00 MiB requested while 6.00 MiB were in use: 68.00 MiB were free, 10.00 MiB on the device and 58.00 MiB in \
                reserved memory. The largest piece that could serve it was 10.00 MiB on the device (0 B in reserved memory): 70.00 \
                MiB too small; even if all free memory were one piece, 12.00 MiB would have been missing. Memory between steps grows by 1.00 MiB a step, at 1 place. End 6.00 MiB; reserved at \
                the end 64.00 MiB, of it unused 58.00 MiB",
        // The segment is larger than its first request, and no block needed the rest.
        "reserved_growth": {
            "bytes": 64 << 20, "demand_bytes": (6 << 20) + 19 * 4096, "fragmentation_bytes": 0,
            "other_bytes": (58 << 20) - 19 * 4096, "other_streams_bytes": 0,
        },
        "peak_by_stack": [{"place": append[0], "stack": append, "bytes": 6 << 20, "count": 6}],
        "live_at_end": held,
        "leaks": [{
            "place": append[0], "stack": append, "bytes_per_step": 1 << 20, "since": "ProfilerStep#0", "since_step": 0, "growth_bytes": 5 << 20, "survivors": 4,
            "monotonic": 1.0, "r2": 1.0, "score": 1.0, "severity": "low", "verdict": "leak",
            "advice": memory["leaks"][0]["advice"],
        }],
        "growth": {
            "verdict": "growth", "step_source": "ProfilerStep annotations", "regularity": 1.0, "steps": 6, "counted": 5, "warm_up": 1,
            "bytes_per_step": 1 << 20, "peak_bytes_per_step": 1 << 20, "reserved_bytes_per_step": 0,
            "growth_bytes": 5 << 20, "alarm": true, "reserved_alarm": false,
            // 10 MiB are left on the device, and all that is reserved counts as used.
            // No `steps_to_oom`: memory has run out already.
        },
        "no_leaks": [], "gains": held,
        "confidence": "medium", "doubts": ["Only 5 steps count"],
    });
    assert_eq!(memory, expected);
    let holder = serde_json::json!({
        "at": "end", "place": append[0], "whose": "user", "bytes": 6 << 20, "count": 6, "share": 1.0,
    });
    assert_eq!(memory["by_place"].as_array().unwrap().last(), Some(&holder));
    let expected = serde_json::json!([{
        "from": "start", "to": "end", "place": append[0], "whose": "user", "bytes": 6 << 20, "count": 6, "share": 1.0, "before_bytes": 0,
        "after_bytes": 6 << 20,
    }]);
    assert_eq!(memory["change_by_place"], expected);
    let report = report(0);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["memory"][0]["peak_by_stack"][1]["stack"], forward);
    let parts: Vec<&str> = report.tables().iter().map(|table| table.key).collect();
    for cell in report.memory.rows.iter().flatten() {
        let Cell::List(list) = cell else { continue };
        assert!(parts.contains(&list.key), "{} is missing in flat reports", list.key);
    }
    let text = written(&report, Format::Text, None, None).unwrap();
    assert!(text.contains("append (/me/losses.py:12)") && text.contains("forward (/me/model.py:7)"), "{text}");
    for format in [Format::Csv, Format::Html, Format::Markdown] {
        assert!(written(&report, format, None, None).unwrap().contains("losses.py:12"));
    }
}

#[test]
fn failed_requests_have_the_keys_of_the_contract() {
    let report =
        build::report(&[leaking().into()], 1, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap();
    let json: serde_json::Value = serde_json::from_str(&written(&report, Format::Json, None, None).unwrap()).unwrap();
    let held = serde_json::json!([{
        "place": "append (/me/losses.py:12)", "stack": ["append (/me/losses.py:12)"], "bytes": 6 << 20, "count": 6,
    }]);
    let expected = serde_json::json!([{
        "at_ns": 10 * (6 * 39 + 1), "requested_bytes": 80 << 20, "device_free_bytes": 10 << 20,
        "short_by_bytes": 70 << 20, "short_by_demand_bytes": 12 << 20, "short_by_fragmentation_bytes": 58 << 20,
        "cause": "demand",
        "why": "Demand: 80.00 MiB requested while 6.00 MiB were in use: 68.00 MiB were free, 10.00 MiB on the device and 58.00 MiB in \
                reserved memory. The largest piece that could serve it was 10.00 MiB on the device (0 B in reserved memory): 70.00 \
                MiB too small; even if all free memory were one piece, 12.00 MiB would have been missing",
        "reserved_bytes": 64 << 20, "allocated_bytes": 6 << 20, "awaiting_free_bytes": 0,
        "inactive_bytes": 58 << 20,
        // The segment serves small requests.
        "free_bytes": 0, "largest_free_bytes": 0, "free_elsewhere_bytes": 58 << 20, "free_private_bytes": 0,
        "non_pytorch_bytes": 6 << 20, "by_stack": held, "advice": [],
    }]);
    assert_eq!(json["memory"][0]["oom"], expected);
}

/// A segment with blocks of 2 MiB at three places, then memory runs out three times.
pub(super) fn out_of_memory() -> Trace {
    let mut builder = TraceBuilder::default();
    let places = ["c (a.py:1)", "a (a.py:1)", "b (a.py:1)"].map(|name| {
        let name = builder.strings.intern(name);
        builder.stacks.intern(StackId(0), name)
    });
    let mut raw = RawMemory { has_time: true, ..RawMemory::default() };
    let pool = raw.pool(MemoryPool::default());
    let mut push = |action, addr, bytes, stack| {
        let ts = raw.events.len() as i64;
        raw.events.push(MemoryEvent { ts, action, addr, bytes, pool, stack });
        ts as u32
    };
    push(MemoryAction::SegmentAlloc, 0, 4 << 30, StackId(0));
    for (i, stack) in places.into_iter().enumerate() {
        push(MemoryAction::Alloc, (1 + i as u64) << 30, 2 << 20, stack);
    }
    let mut ooms = Vec::new();
    for requested in [2 << 30, 3 << 30, 5 << 30] {
        let event = push(MemoryAction::OutOfMemory, 0, requested, StackId(0));
        ooms.push(OutOfMemory { event, requested, device_free: None });
    }
    raw.ooms = ooms;
    builder.memories.push(raw);
    builder.finish()
}

#[test]
fn lists_of_memory_are_cut_and_what_is_equal_is_sorted_by_name() {
    let trace = Arc::new(out_of_memory());
    let report = |top| {
        build::report(&[Arc::clone(&trace)], top, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap()
    };
    let json: serde_json::Value =
        serde_json::from_str(&written(&report(2), Format::Json, None, None).unwrap()).unwrap();
    let memory = &json["memory"][0];
    let stacks = |list: &serde_json::Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|held| held["stack"][0].as_str().unwrap().to_owned()).collect()
    };
    for list in [&memory["live_at_end"], &memory["peak_by_stack"], &memory["oom"][1]["by_stack"]] {
        assert_eq!(stacks(list), ["a (a.py:1)", "b (a.py:1)"]);
    }
    assert_eq!(memory["oom"].as_array().unwrap().len(), 2);
    let advice = memory["oom"][0]["advice"][0].as_str().unwrap();
    let expected = "expandable_segments:True? 3.99 GiB are reserved and unused in the pool of the request, enough for the 2.00 GiB";
    assert!(advice.starts_with(expected), "{advice}");
    let listed = |top, key: &str| {
        let report = report(top);
        let table = report.tables().into_iter().find(|table| table.key == key).unwrap();
        (table.rows.len(), table.n_hidden)
    };
    assert_eq!((listed(2, "oom"), listed(0, "oom")), ((2, 1), (3, 0)));
    assert_eq!(listed(2, "live_at_end"), (2, 1));
}

#[test]
fn each_moment_is_named() {
    let trace = Arc::new(leaking());
    let moments = ["event 100", "1.5 us"].map(|text| text.parse().unwrap());
    let report = build::report(&[trace], 0, KernelsBy::Name, true, Thresholds::default(), (&moments, &[])).unwrap();
    let json: serde_json::Value = serde_json::from_str(&written(&report, Format::Json, None, None).unwrap()).unwrap();
    let rows = json["memory"][0]["by_place"].as_array().unwrap();
    let mut at: Vec<(&str, Option<&str>)> =
        rows.iter().map(|row| (row["at"].as_str().unwrap(), row["moment"].as_str())).collect();
    at.dedup();
    let expected = [("peak", None), ("moment", Some("event 100")), ("moment", Some("1.500 µs")), ("end", None)];
    assert_eq!(at, expected);
    let change = &json["memory"][0]["change_by_place"][0];
    assert_eq!((&change["from"], &change["to"]), (&"event 100".into(), &"1.500 µs".into()));
}

/// The memory of these devices, each with so many blocks of so many bytes, beside a kernel if there is one.
fn of_devices(devices: &[(i32, u64, u64)], has_kernel: bool) -> Trace {
    let kernels = [("stream 7", SliceKind::Kernel, "gemm", 0, 1_000)];
    let mut builder = TraceBuilder::from_slices(&kernels[..usize::from(has_kernel)]);
    for &(device, n, bytes) in devices {
        let mut raw = RawMemory { device, has_time: true, ..RawMemory::default() };
        let pool = raw.pool(MemoryPool::default());
        for i in 0..n {
            let (ts, action, stack) = (i as i64, MemoryAction::Alloc, StackId(0));
            raw.events.push(MemoryEvent { ts, action, addr: i << 40, bytes, pool, stack });
        }
        builder.memories.push(raw);
    }
    builder.finish()
}

#[test]
fn a_memory_that_holds_next_to_nothing_does_not_come_first() {
    let of = |trace: Trace| {
        let report = build::report(&[trace.into()], 0, KernelsBy::Name, true, Thresholds::default(), (&[], &[]));
        let report = report.unwrap();
        let devices = (0..report.memory.rows.len()).map(|row| report.memory.cell(row, "device").clone());
        let said = [&report.in_short, &report.memory_in_short].into_iter().flat_map(|table| &table.rows).flatten();
        let peaks = said.filter(|cell| cell.as_name().is_some_and(|text| text.contains("Peak "))).count();
        (devices.collect::<Vec<_>>(), peaks)
    };
    let [host, gpu] = [-1, 0].map(Cell::Device);
    let (small, large) = ((-1, 3, 8), (0, 1, 3 << 30));
    assert_eq!(of(of_devices(&[small, large], false)), (vec![gpu, host.clone()], 1));
    assert_eq!(of(of_devices(&[small], false)), (vec![host.clone()], 1), "all there is");
    assert_eq!(of(of_devices(&[small], true)), (vec![host.clone()], 0), "of no weight beside the work of a device");
    assert_eq!(of(of_devices(&[(0, 3, 8)], true)), (vec![Cell::Device(0)], 1), "the device's own");
    assert_eq!(of(of_devices(&[(-1, 1, 5 << 20)], true)), (vec![host], 1));
    // The window shows the larger one first, too.
    let open = [OpenTrace::new(of_devices(&[(-1, 9, 8), large], false), 0)];
    let shown = MemoryFocus::default().resolve(&open).unwrap();
    assert_eq!(shown.history().device, 0);
}

#[test]
fn a_moment_has_a_unit_or_is_an_event() {
    let moment = |text: &str| text.parse::<super::super::memory::Moment>();
    use super::super::memory::Moment::{At, Event};
    assert_eq!(moment("1 min 30 s"), Ok(At(90_000_000_000)));
    assert_eq!(moment("1,500.5us"), Ok(At(1_500_500)));
    assert_eq!(moment(" event 12"), Ok(Event(12)));
    for no in ["12", "event", "12 px", "5 s 3 s", ""] {
        assert!(moment(no).is_err(), "{no}");
    }
}

#[test]
fn text_names_the_blocks_that_lie_between_free_memory() {
    const MIB: u64 = 1 << 20;
    let mut script = crate::analysis::memory::fixture::Script::default();
    let [step, cache] = [script.stack(&["step (/me/train.py:9)"]), script.stack(&["put (/me/cache.py:3)"])];
    script.event(MemoryAction::SegmentAlloc, 0, 20 * MIB, StackId(0));
    for (at, stack) in [(0, step), (4, cache), (8, step), (12, cache), (16, step)] {
        script.alloc(at * MIB, 4 * MIB, stack);
    }
    [0, 8, 16].iter().for_each(|at| _ = script.free(at * MIB, 4 * MIB));
    script.event(MemoryAction::SegmentAlloc, 100 * MIB, 20 * MIB, StackId(0));
    script.alloc(100 * MIB, 12 * MIB, step);
    let trace = script.finish();
    let report = build::report(&[trace.into()], 8, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap();
    let text = written(&report, Format::Text, None, None).unwrap();
    let said = "For 12.00 MiB with 12.00 MiB free, in the way: 4.00 MiB in 1 block of put (cache.py:3)";
    assert!(text.contains(said), "{text}");
}
