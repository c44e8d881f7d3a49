use serde_json::{Value as Json, json};

use super::*;
use crate::model::memory::MemoryAction;

/// Writes a value as torch's C++ code does: protocol 2, no memo.
fn pickle(value: &Json, out: &mut Vec<u8>) {
    let text = |text: &str, out: &mut Vec<u8>| {
        out.push(b'X');
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(text.as_bytes());
    };
    match value {
        Json::Null => out.push(b'N'),
        Json::Bool(flag) => out.push(if *flag { 0x88 } else { 0x89 }),
        Json::Number(number) => match number.as_i64() {
            Some(number) => {
                out.extend([0x8a, 8]);
                out.extend(number.to_le_bytes());
            }
            None if number.is_u64() => {
                out.extend([0x8a, 9]);
                out.extend(number.as_u64().unwrap().to_le_bytes());
                out.push(0);
            }
            None => {
                out.push(b'G');
                out.extend(number.as_f64().unwrap().to_be_bytes());
            }
        },
        Json::String(string) => text(string, out),
        Json::Array(items) => {
            out.extend(b"](");
            items.iter().for_each(|item| pickle(item, out));
            out.push(b'e');
        }
        Json::Object(pairs) => {
            out.extend(b"}(");
            for (key, value) in pairs {
                text(key, out);
                pickle(value, out);
            }
            out.push(b'u');
        }
    }
}

fn read_bytes(carrier: Encoding, bytes: &[u8]) -> Result<Trace, ReadError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    read(carrier, &Source::file(file.path()).unwrap(), Options::default(), &Progress::default())
}

/// Reads a snapshot in every form that carries it; they must agree.
fn read_all(snapshot: &Json) -> Trace {
    let mut bytes = b"\x80\x02".to_vec();
    pickle(snapshot, &mut bytes);
    bytes.push(b'.');
    let trace = read_bytes(Encoding::Pickle, &bytes).unwrap();
    let json = read_bytes(Encoding::Json, snapshot.to_string().as_bytes()).unwrap();
    assert_eq!(summary(&trace), summary(&json));
    let import = &trace.import;
    assert_eq!(import.read, import.shown + import.merged + import.rejected);
    let tables = import.tables.iter().fold([0; 4], |sum, table| {
        assert_eq!(table.read, table.shown + table.merged + table.rejected, "{}", table.table);
        [sum[0] + table.read, sum[1] + table.shown, sum[2] + table.merged, sum[3] + table.rejected]
    });
    assert_eq!(tables, [import.read, import.shown, import.merged, import.rejected]);
    trace
}

/// What must not depend on the form: all but byte offsets.
fn summary(trace: &Trace) -> String {
    let problems: Vec<_> = trace.import.problems.iter().map(|problem| (&problem.reason, problem.count)).collect();
    format!("{:?} {:?} {problems:?} {:?}", trace.memories, trace.import.tables, trace.info.facts)
}

fn problem(trace: &Trace, words: &str) -> u64 {
    trace.import.problems.iter().filter(|problem| problem.reason.contains(words)).map(|problem| problem.count).sum()
}

fn table(trace: &Trace, name: &str) -> [u64; 4] {
    let table = trace.import.tables.iter().find(|table| table.table == name);
    table.map_or([0; 4], |table| [table.read, table.shown, table.merged, table.rejected])
}

fn frames(names: &[&str]) -> Json {
    names.iter().map(|name| json!({"name": name, "filename": "a.py", "line": 3})).collect()
}

fn segment(device: i32, address: u64, blocks: &Json) -> Json {
    let sum = |is_in: fn(&str) -> bool| {
        let blocks = blocks.as_array().unwrap().iter();
        blocks
            .filter(|block| is_in(block["state"].as_str().unwrap()))
            .filter_map(|block| block["size"].as_u64())
            .sum::<u64>()
    };
    json!({
        "device": device, "address": address, "total_size": sum(|_| true), "stream": 7,
        "allocated_size": sum(|state| state == "active_allocated"), "active_size": sum(|state| state != "inactive"),
        "segment_type": "small", "segment_pool_id": [0, 3], "is_expandable": false, "blocks": blocks,
    })
}

fn event(action: &str, addr: u64, size: i64, time_us: i64) -> Json {
    json!({"action": action, "addr": addr, "size": size, "stream": 7, "time_us": time_us, "pool_id": [0, 3]})
}

#[test]
fn a_whole_snapshot() {
    let blocks = json!([
        {"address": 4096, "size": 512, "requested_size": 400, "state": "active_allocated", "frames": frames(&["f", "main"])},
        {"address": 4608, "size": 512, "requested_size": 500, "state": "active_pending_free", "frames": []},
        {"address": 5120, "size": 1024, "requested_size": 0, "state": "inactive", "frames": []},
    ]);
    let mut alloc = event("alloc", 4096, 400, 1_700_000_000_000_001);
    alloc["frames"] = frames(&["f", "main"]);
    alloc["forward_frames"] = frames(&["fwd"]);
    alloc["user_metadata"] = json!("step 3");
    alloc["compile_context"] = json!("N/A");
    alloc["category"] = json!("gradient");
    let trace = read_all(&json!({
        "segments": [segment(0, 4096, &blocks)],
        "device_traces": [[
            event("segment_alloc", 4096, 2048, 1_700_000_000_000_000), alloc,
            event("alloc", 5120, 100, 1_700_000_000_000_002), event("free_requested", 5120, 100, 1_700_000_000_000_003),
            event("free", 5120, 100, 1_700_000_000_000_004),
            {"action": "oom", "size": 1 << 30, "device_free": 77, "stream": 7, "time_us": 1_700_000_000_000_005_i64},
            event("user_defined", 4096, 400, 1_700_000_000_000_006), event("snapshot", 0, 0, 1_700_000_000_000_007),
        ], []],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "a:b", "max_split_size": u64::MAX, "api_token": "x",
            "roundup_power2_divisions": {"1": 0, "2": 4}},
        "external_annotations": [
            {"stage": "START", "name": "step", "device": 0, "time_us": 1_700_000_000_000_000_i64},
            {"stage": "START", "name": "open", "device": 0, "time_us": 1_700_000_000_000_001_i64},
            {"stage": "END", "name": "step", "device": 0, "time_us": 1_700_000_000_000_004_i64},
            {"stage": "END", "name": "before", "device": 0, "time_us": 1_700_000_000_000_004_i64},
        ],
    }));
    let [memory] = &trace.memories[..] else { panic!("{}", trace.memories.len()) };
    let last = memory.last_state() as usize;
    assert_eq!(
        (memory.curves.allocated[last], memory.curves.active[last], memory.curves.reserved[last]),
        (512, 1024, 2048)
    );
    assert_eq!(memory.curves.requested[last], 400);
    assert_eq!((memory.pools[0].stream, memory.pools[0].private), (7, (0, 3)));
    assert_eq!(memory.events.ts[1], 1_700_000_000_000_001_000);
    assert_eq!(
        (memory.events.action[4], memory.events.action[6]),
        (MemoryAction::FreeCompleted, MemoryAction::Annotate)
    );
    assert_eq!((memory.ooms[0].event, memory.ooms[0].requested, memory.ooms[0].device_free), (5, 1 << 30, Some(77)));
    let text = |id| trace.strings.get(id);
    let notes: Vec<_> = memory.notes.iter().map(|note| (note.event, text(note.key), text(note.text))).collect();
    assert_eq!(notes, [(1, "user_metadata", "step 3"), (1, "category", "gradient")]);
    let of = memory.allocations.ids().find(|id| memory.alloc_event(*id) == Some(1)).unwrap();
    assert_eq!(text(memory.allocations.category(of)), "gradient");
    let stack: Vec<_> = trace.stacks.frames(memory.events.stack[1]).map(text).collect();
    assert_eq!(stack, ["f (a.py:3)", "main (a.py:3)"]);
    assert_eq!(memory.forward.len(), 1);
    let annotations: Vec<_> = memory.annotations.iter().map(|note| (text(note.name), note.has_end)).collect();
    assert_eq!(annotations, [("step", true), ("open", false)]);
    assert_eq!(table(&trace, "device_traces"), [8, 6, 2, 0]);
    assert_eq!(table(&trace, "external_annotations"), [4, 2, 1, 1]);
    assert_eq!((table(&trace, "segments"), table(&trace, "blocks")), ([1, 1, 0, 0], [3, 3, 0, 0]));
    let facts = [
        ("PYTORCH_CUDA_ALLOC_CONF", "a:b"),
        ("max_split_size", "18446744073709551615"),
        ("roundup_power2_divisions", "{1: 0, 2: 4}"),
    ];
    assert_eq!(trace.info.facts, facts.map(|(key, text)| (key.to_owned(), text.to_owned())));
    assert_eq!(trace.info.utc_offset_ns, Some(0));
}

#[test]
fn each_device_and_the_host_get_their_own() {
    let block =
        |address: u64| json!([{"address": address, "size": 512, "requested_size": 1, "state": "active_allocated"}]);
    let trace = read_all(&json!({
        "device_traces": [[], [event("alloc", 4096, 1, 1)], [event("alloc", 8192, 1, 5), event("free_completed", 8192, 1, 6)]],
        "segments": [segment(1, 4096, &block(4096)), segment(2, 1 << 20, &block(1 << 20))],
        "host_traces": [event("alloc", 77 << 12, 512, 3)],
        "host_segments": [segment(9, 77 << 12, &block(77 << 12))],
    }));
    let of: Vec<_> =
        trace.memories.iter().map(|memory| (memory.device, memory.events.len(), memory.segments.len())).collect();
    assert_eq!(of, [(-1, 1, 1), (1, 1, 1), (2, 2, 1)]);
    assert_eq!(trace.memories[2].curves.allocated, [512, 1024, 512]);
    assert_eq!((table(&trace, "host_traces"), table(&trace, "host_blocks")), ([1, 1, 0, 0], [1, 1, 0, 0]));
}

#[test]
fn invalid_parts_are_counted_and_the_rest_is_shown() {
    let blocks = json!([
        {"size": 512, "state": "active_allocated", "history": [{"addr": 4096, "real_size": 300, "frames": frames(&["old"])}]},
        {"size": 512, "state": "gone"},
        {"address": 4096, "size": 512, "state": "inactive"},
        {"size": 1 << 20, "state": "active_awaiting_free"},
        {"size": 512, "state": "inactive"},
        7,
    ]);
    let mut bad = segment(0, 4096, &json!([]));
    bad["total_size"] = json!(4096);
    bad["blocks"] = blocks;
    let mut nowhere = segment(0, 1, &json!([{"size": 1, "state": "inactive"}]));
    nowhere["address"] = json!("x");
    let mut no_addr = event("alloc", 1, 1, 5);
    no_addr["addr"].take();
    let mut bad_frames = event("alloc", 1 << 30, 1, 5);
    bad_frames["frames"] = json!([1, 2, 3]);
    let trace = read_all(&json!({
        "segments": [bad, nowhere, "x"],
        "device_traces": [[
            event("teleport", 1, 1, 5), event("alloc", 1, -5, 5), event("alloc", 1, 1 << 49, 5),
            event("alloc", 1, 1, i64::MAX / 2), no_addr, bad_frames, {"no": "entry", "at": "all"}, 5, null,
        ], "x"],
        "external_annotations": [{"stage": "MIDDLE", "name": "a", "time_us": 1}, 3],
    }));
    assert_eq!(table(&trace, "device_traces"), [10, 2, 0, 8]);
    assert_eq!((table(&trace, "segments"), table(&trace, "blocks")), ([3, 1, 0, 2], [7, 2, 0, 5]));
    assert_eq!(table(&trace, "external_annotations"), [2, 0, 0, 2]);
    for (words, count) in [
        ("Event with an unknown action", 1),
        ("negative or beyond 256 TiB: not shown", 3),
        ("not a whole number of microseconds", 1),
        ("without an address: not shown", 1),
        ("not a list of frames", 1),
        ("List item of an unexpected type", 7),
        ("invalid size or state", 1),
        ("outside of its segment", 2),
        ("reaches beyond its segment", 1),
        ("own sums differ", 1),
    ] {
        assert_eq!(problem(&trace, words), count, "{words}: {:?}", trace.import.problems);
    }
    let memory = &trace.memories[0];
    let last = memory.last_state() as usize;
    assert_eq!((memory.curves.allocated[last], memory.curves.reserved[last]), (512, 4096));
    let old = memory.allocations.addr.iter().position(|&addr| addr == 4096).unwrap();
    assert_eq!(memory.allocations.requested[old], 300);
    let stack: Vec<_> =
        trace.stacks.frames(memory.allocations.stack[old]).map(|frame| trace.strings.get(frame)).collect();
    assert_eq!(stack, ["old (a.py:3)"]);
}

#[test]
fn states_without_history_and_events_without_time() {
    let block = json!([{"address": 4096, "size": 512, "requested_size": 1, "state": "active_allocated"}]);
    let bare =
        read_all(&json!([segment(0, 4096, &block), segment(0, 8192, &json!([{"size": 512, "state": "inactive"}]))]));
    assert_eq!(bare.memories[0].curves.reserved, [1024]);
    assert_eq!((problem(&bare, "bare list of segments"), problem(&bare, "was not recorded")), (1, 1));
    let empty = read_all(&json!({"segments": [], "device_traces": [[], []]}));
    assert_eq!((empty.memories.len(), problem(&empty, "snapshot is empty")), (1, 1));
    let mut timeless = event("alloc", 4096, 1, 1);
    timeless.as_object_mut().unwrap().remove("time_us");
    let mut other = timeless.clone();
    other["addr"] = json!(1 << 20);
    let trace = read_all(&json!({"segments": [segment(0, 4096, &block)], "device_traces": [[other, timeless]]}));
    assert!(!trace.memories[0].has_time);
    assert_eq!((trace.memories[0].events.ts.as_slice(), problem(&trace, "axis counts events")), (&[0, 1][..], 1));
}

#[test]
fn an_event_without_a_time_is_shown_with_the_one_before() {
    let mut events: Vec<Json> = (0..7).map(|i| event("alloc", 4096 + 512 * i, 512, 10 + i as i64)).collect();
    for (at, time) in [(0, None), (2, None), (3, Some(json!(12.5))), (5, Some(json!(i64::MAX / 2)))] {
        let event = events[at].as_object_mut().unwrap();
        event.remove("time_us");
        event.extend(time.map(|time| ("time_us".to_owned(), time)));
    }
    let trace = read_all(&json!({"device_traces": [events]}));
    let memory = &trace.memories[0];
    assert!(memory.has_time && *memory.curves.allocated.last().unwrap() == 7 * 512);
    assert_eq!(memory.events.ts, [11_000, 11_000, 11_000, 11_000, 14_000, 14_000, 16_000]);
    assert_eq!(
        (problem(&trace, "without a time among others"), problem(&trace, "not a whole number of micro")),
        (2, 2)
    );
    assert_eq!((problem(&trace, "No times were recorded"), table(&trace, "device_traces")), (0, [7, 7, 0, 0]));
}

#[test]
fn free_device_memory_is_a_size_or_missing() {
    let oom = |device_free: Json| json!({"action": "oom", "size": 512, "device_free": device_free, "time_us": 1});
    let events = [json!(77), json!(-1), json!(u64::MAX), json!("x"), json!(null)].map(oom);
    let trace = read_all(&json!({"device_traces": [events]}));
    let free: Vec<_> = trace.memories[0].ooms.iter().map(|oom| oom.device_free).collect();
    assert_eq!(free, [Some(77), None, None, None, None]);
    assert_eq!(problem(&trace, "out of range"), 3);
}

#[test]
fn other_files_are_refused_with_a_description() {
    let refuse = |value: Json| {
        let mut bytes = b"\x80\x02".to_vec();
        pickle(&value, &mut bytes);
        bytes.push(b'.');
        let text = read_bytes(Encoding::Pickle, &bytes).unwrap_err().to_string();
        assert_eq!(text, read_bytes(Encoding::Json, value.to_string().as_bytes()).unwrap_err().to_string());
        text
    };
    assert!(refuse(json!({"model": 1, "epoch\u{1b}": 2, "loss": 3})).contains("with the keys model, epoch, loss"));
    assert!(refuse(json!({"segments": {"a": 1, "b": 2}, "device_traces": "x"})).contains("without lists"));
    assert!(refuse(json!([1, 2, 3])).contains("a list of something other"));
    assert!(refuse(json!([])).contains("a list of something other"));
    assert!(refuse(json!("text")).contains("a single value"));
    assert!(refuse(event("alloc", 1, 1, 1)).contains("only one part"));
}

/// Events that are complete are shown, wherever the file ends; the state after the lost ones is not.
#[test]
fn a_cut_file_keeps_what_is_complete() {
    let block = json!([{"address": 4096, "size": 512, "requested_size": 1, "state": "active_allocated"}]);
    let events: Vec<Json> = (0..5).map(|i| event("alloc", 4096 + 512 * i, 512, 1 + i as i64)).collect();
    let snapshot = json!({
        "segments": [segment(0, 4096, &block), segment(1, 4096, &block)],
        "device_traces": [events, [event("alloc", 4096, 512, 1)]],
        "allocator_settings": {"a": 1, "b": 2},
    });
    let mut bytes = b"\x80\x02".to_vec();
    pickle(&snapshot, &mut bytes);
    bytes.push(b'.');
    let text = snapshot.to_string().into_bytes();
    for (carrier, whole) in [(Encoding::Pickle, &bytes), (Encoding::Json, &text)] {
        let (mut n_before, mut n_shown) = (0, 0);
        for end in 1..whole.len() {
            let Ok(trace) = read_bytes(carrier, &whole[..end]) else {
                assert_eq!(n_shown, 0, "{carrier:?} cut at {end} shows nothing, but did before");
                continue;
            };
            n_shown += 1;
            assert_eq!(problem(&trace, "ends early"), 1, "{carrier:?} cut at {end}");
            let import = &trace.import;
            assert_eq!(import.read, import.shown + import.merged + import.rejected);
            let n_events = trace.memories.iter().map(|memory| memory.events.len()).sum::<usize>();
            assert!(n_events >= n_before, "{carrier:?} cut at {end}: {n_events} events after {n_before}");
            n_before = n_events;
            if n_events > 0 {
                assert!(trace.memories[0].segments.is_empty());
            }
        }
        assert_eq!(n_before, 6, "{carrier:?}");
    }
}

#[test]
fn the_viewers_form_holds_a_pickle() {
    let block = json!([{"address": 4096, "size": 512, "requested_size": 1, "state": "active_allocated"}]);
    let mut bytes = b"\x80\x02".to_vec();
    pickle(
        &json!({"segments": [segment(0, 4096, &block)], "device_traces": [[event("alloc", 4096, 1, 1)]]}),
        &mut bytes,
    );
    bytes.push(b'.');
    let mut text = "[{\"name\": \"snapshot.pickle\", \"base64\": \"".to_owned();
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for part in bytes.chunks(3) {
        let word = part.iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - part.len()));
        (0..=part.len()).for_each(|i| text.push(char::from(DIGITS[(word >> (18 - 6 * i) & 63) as usize])));
        text.push_str(&"="[..usize::from(part.len() == 2)]);
    }
    text.push_str("\"}]");
    let embedded = read_bytes(Encoding::Base64, text.as_bytes()).unwrap();
    assert_eq!(summary(&embedded), summary(&read_bytes(Encoding::Pickle, &bytes).unwrap()));
    assert_eq!(embedded.memories[0].allocations.len(), 1);
}
