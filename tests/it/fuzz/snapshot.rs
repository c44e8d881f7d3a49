//! Memory snapshots: pickles of all protocols, JSON, and the pages that PyTorch makes of them.

use lacuna::sample::snapshot;
use serde_json::Value;

use super::{Target, plain, run};

/// All that a snapshot may hold: several devices, graphs' pools, expandable segments, failures and annotations.
const ALL: &str = r#"{"segments":[
{"device":0,"address":4096,"total_size":2097152,"stream":0,"segment_type":"small","segment_pool_id":[0,0],"is_expandable":false,"allocated_size":512,"active_size":512,"requested_size":500,"frames":[{"name":"f","filename":"a.py","line":3}],"blocks":[{"size":512,"requested_size":500,"address":4096,"state":"active_allocated","frames":[{"name":"f","filename":"a.py","line":3}],"forward_frames":["x"]},{"size":512,"address":4608,"state":"active_pending_free","frames":[]},{"size":2096128,"address":5120,"state":"inactive"}]},
{"device":1,"address":99999744,"total_size":20971520,"stream":7,"segment_type":"large","segment_pool_id":[1,2],"is_expandable":true,"allocated_size":0,"active_size":0,"blocks":[]}],
"device_traces":[[{"action":"segment_alloc","addr":4096,"size":2097152,"stream":0,"time_us":1},{"action":"alloc","addr":4096,"size":512,"stream":0,"time_us":5,"frames":[{"name":"f","filename":"a.py","line":3}],"category":"parameters","user_metadata":{"k":1},"compile_context":"0/1"},{"action":"alloc","addr":4608,"size":512,"stream":0,"time_us":6,"pool_id":[0,0]},{"action":"free_requested","addr":4608,"size":512,"stream":0,"time_us":7},{"action":"free","addr":8192,"size":512,"stream":0,"time_us":8},{"action":"oom","device_free":1024,"size":9999999,"stream":0,"time_us":9,"frames":[]},{"action":"snapshot","addr":0,"size":0,"stream":0,"time_us":10},{"action":"user_defined","addr":0,"size":0,"stream":0}],
[{"action":"segment_map","addr":99999744,"size":20971520,"stream":7,"time_us":1},{"action":"alloc","addr":99999744,"size":1048576,"stream":7,"time_us":2},{"action":"free_completed","addr":99999744,"size":1048576,"stream":7,"time_us":3},{"action":"segment_unmap","addr":99999744,"size":20971520,"stream":7,"time_us":4},{"action":"segment_free","addr":4096,"size":2097152,"stream":0}],[]],
"host_traces":[{"action":"alloc","addr":1,"size":2,"time_us":1}],"host_segments":[{"address":1,"total_size":4096,"blocks":[]}],
"external_annotations":[{"name":"step","stage":"START","device":0,"time_us":1},{"name":"step","stage":"END","device":0,"time_us":9},{"name":"ProfilerStep#1","stage":"START","device":1}],
"allocator_settings":{"PYTORCH_CUDA_ALLOC_CONF":"","max_split_size":-1,"expandable_segments":true,"garbage_collection_threshold":0.0}}"#;

/// As torch 2.0 writes it: the history stands in the blocks.
const OLD: &str = r#"[{"device":0,"address":4096,"total_size":2097152,"stream":0,"segment_type":"large","allocated_size":1024,"active_size":1024,"blocks":[{"size":1024,"state":"active_allocated","history":[{"addr":4096,"real_size":1000,"frames":[{"name":"f","filename":"a.py","line":3},{"name":"g","filename":"b.cpp","line":0}]}]},{"size":2096128,"state":"inactive","history":[{"addr":5120,"real_size":7,"frames":[]}]}]}]"#;

/// A value as a pickle of protocol 2, its texts by number where they come again.
fn pickled(value: &Value, memo: &mut Vec<String>, to: &mut Vec<u8>) {
    match value {
        Value::Null => to.push(b'N'),
        Value::Bool(is_true) => to.push(if *is_true { 0x88 } else { 0x89 }),
        Value::Number(number) => match number.as_i64() {
            Some(int) => {
                to.extend(b"\x8a\x08");
                to.extend(int.to_le_bytes());
            }
            None => {
                to.push(b'G');
                to.extend(number.as_f64().unwrap().to_be_bytes());
            }
        },
        Value::String(text) => match memo.iter().position(|known| known == text) {
            Some(at) => to.extend([b'h', at as u8]),
            None => {
                to.push(b'X');
                to.extend((text.len() as u32).to_le_bytes());
                to.extend(text.bytes());
                to.extend([b'q', memo.len() as u8]);
                memo.push(text.clone());
            }
        },
        Value::Array(items) => {
            to.extend(b"](");
            items.iter().for_each(|item| pickled(item, memo, to));
            to.push(b'e');
        }
        Value::Object(items) => {
            to.extend(b"}(");
            for (key, item) in items {
                pickled(&Value::String(key.clone()), memo, to);
                pickled(item, memo, to);
            }
            to.push(b'u');
        }
    }
}

fn pickle_of(text: &str) -> Vec<u8> {
    let mut pickle = b"\x80\x02".to_vec();
    pickled(&serde_json::from_str(text).unwrap(), &mut Vec::new(), &mut pickle);
    pickle.push(b'.');
    pickle
}

/// A simulated snapshot, as Python's own pickler writes it.
fn simulated(protocol: u8) -> Vec<u8> {
    let plants = vec![snapshot::Plant::SteadyLeak];
    let shape = snapshot::Shape {
        steps: 1,
        seed: 1,
        layers: 1,
        protocol,
        has_times: true,
        max_entries: Some(40),
        is_expandable: false,
        plants,
    };
    let mut bytes = Vec::new();
    let _ = snapshot::write(&shape, &mut bytes).unwrap();
    bytes
}

/// The page of PyTorch's memory viewer around a pickle.
fn page(pickle: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let three = |bytes: &[u8]| {
        let bits = (0..3).fold(0_u32, |bits, i| bits << 8 | u32::from(bytes.get(i).copied().unwrap_or(0)));
        [18, 12, 6, 0].map(|shift| DIGITS[(bits >> shift) as usize & 63])
    };
    let text: Vec<u8> = pickle.chunks(3).flat_map(three).collect();
    let head = b"<!DOCTYPE html>\n<script>import {add} from \"https://x/MemoryViz.js\"\nx = \
                 [{\"name\": \"s.pickle\", \"base64\": \"";
    [&head[..], &text, b"\"}]</script>"].concat()
}

#[test]
fn fuzz_snapshots() {
    let json = br#"{"segments":[{"device":0,"address":4096,"total_size":2097152,"stream":0,"segment_type":"large","allocated_size":512,"active_size":512,"blocks":[{"size":512,"requested_size":500,"address":4096,"state":"active_allocated","frames":[{"name":"f","filename":"a.py","line":3}]},{"size":2096640,"address":4608,"state":"inactive"}]}],"device_traces":[[{"action":"alloc","addr":4096,"size":512,"stream":0,"time_us":5,"frames":[]},{"action":"free_completed","addr":4096,"size":512,"stream":0,"time_us":9}]]}"#;
    let pickle = b"\x80\x02}q\x00(X\x0d\x00\x00\x00device_traces](](}(X\x06\x00\x00\x00actionX\x05\x00\x00\x00alloc\
          X\x04\x00\x00\x00addrK\x01X\x04\x00\x00\x00sizeM\x00\x02uee\
          X\x08\x00\x00\x00segments](}(X\x07\x00\x00\x00addressK\x01X\x0a\x00\x00\x00total_sizeM\x00\x04ueu.";
    let text = b"(dp0\nS'segments'\np1\n(lp2\n(dp3\nS'address'\nI4096\nsS'total_size'\nI4096\nsS'blocks'\n(lsas.";
    run(&Target {
        name: "snapshot",
        file: "t.pickle",
        seeds: vec![
            pickle.to_vec(),
            text.to_vec(),
            json.to_vec(),
            ALL.into(),
            pickle_of(ALL),
            OLD.into(),
            pickle_of(OLD),
            page(&pickle_of(ALL)),
            simulated(0),
            simulated(4),
        ],
        words: &[
            b"(",
            b"]",
            b"}",
            b"e",
            b"a",
            b"u",
            b"s",
            b".",
            b"q\x00",
            b"h\x00",
            b"r\xff\xff\xff\x7f",
            b"\x94",
            b"\x95",
            b"\x8a\x09",
            b"2",
            b"0",
            b"1",
            b"t",
            b"\x85",
            b"X\x06\x00\x00\x00frames",
            b"K\x01",
            b"J\xff\xff\xff\xff",
            b"G",
            b"cos\nsystem\n",
            b"\"frames\":[",
            b"\"addr\":",
            b"{",
            b",",
        ],
        page: 1,
        n: 500,
        memory: 400,
        pack: plain,
    });
}
