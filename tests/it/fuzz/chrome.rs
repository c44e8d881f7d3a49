//! Chrome traces, and the args in them.

use std::io::Read as _;

use lacuna::sample::kineto;
use serde_json::Value;

use super::super::support::project;
use super::{Target, plain, run};

pub const CHROME: &str = r#"{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"GPU"}],"distributedInfo":{"rank":1},"traceEvents":[
{"ph":"M","name":"process_name","pid":1,"tid":0,"ts":0,"args":{"name":"python"}},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":10.5,"dur":20,"args":{"External id":5,"Input Dims":[[2,3],[3,4]],"Call stack":"a;b"}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":12,"dur":2,"args":{"correlation":7,"External id":5}},
{"ph":"X","cat":"kernel","name":"gemm \"x\"","pid":0,"tid":7,"ts":16,"dur":9.125,"args":{"correlation":7,"stream":7,"grid":[1,2,3],"block":[32,1,1],"registers per thread":32}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":30,"dur":1,"args":{"bytes":4096,"memory bandwidth (GB/s)":1.5}},
{"ph":"s","id":7,"pid":1,"tid":1,"ts":12,"cat":"ac2g","name":"ac2g"},
{"ph":"f","id":7,"pid":0,"tid":7,"ts":16,"cat":"ac2g","name":"ac2g","bp":"e"},
{"ph":"B","name":"a","pid":1,"tid":2,"ts":1},{"ph":"B","name":"b","pid":1,"tid":2,"ts":2},
{"ph":"E","name":"a","pid":1,"tid":2,"ts":3},{"ph":"E","pid":1,"tid":2,"ts":4},
{"ph":"b","id":"0x1","name":"r","cat":"c","pid":1,"tid":2,"ts":1},{"ph":"e","id":"0x1","name":"r","cat":"c","pid":1,"tid":2,"ts":9},
{"ph":"C","name":"mem","pid":1,"ts":3,"args":{"used":1,"free":2.5}},
{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":5,"s":"t","args":{"Bytes":512,"Device Type":1,"Device Id":0,"Addr":4096,"Total Allocated":512,"Total Reserved":2048}},
{"ph":"i","name":"mark","pid":1,"tid":1,"ts":6,"s":"g"},
{"ph":"X","name":"bad "quote"","pid":1,"tid":1,"ts":50,"dur":1,"args":{"x":NaN}}
],"stackFrames":{"1":{"name":"main"},"2":{"name":"f","parent":"1"}},"samples":[{"cpu":0,"tid":1,"ts":1,"name":"s","sf":2,"weight":1}],"traceName":"t.json"}
"#;

/// What other profilers write: asynchronous operations, objects, samples, call stacks, devices of JAX and of AMD.
const OTHERS: &str = r#"{"displayTimeUnit":"ns","systemTraceEvents":"SystemTraceData","otherData":{"version":"x"},"traceEvents":[
{"args":{"name":"/device:GPU:0"},"name":"process_name","ph":"M","pid":1},
{"args":{"name":"Stream #14(Compute,MemcpyD2H)"},"name":"thread_name","ph":"M","pid":1,"tid":14},
{"args":{"name":"XLA Ops"},"name":"thread_name","ph":"M","pid":1,"tid":3},
{"args":{"sort_index":-3},"name":"process_sort_index","ph":"M","pid":1},{"args":{"labels":"CPU,2"},"name":"process_labels","ph":"M","pid":"Spans"},
{"name":"fusion.7","ph":"X","pid":1,"tid":14,"ts":1.001,"dur":0.5,"args":{"hlo_module":"jit_step","hlo_op":"fusion.7","correlation_id":3}},
{"name":"MemcpyD2H","ph":"X","pid":1,"tid":14,"ts":2,"dur":1,"args":{"memcpy_details":"kind_src:device kind_dst:pinned size:1024"}},
{"name":"Cijk_Alik","cat":"kernel","ph":"X","pid":2,"tid":0,"ts":"3","dur":"4","args":{"stream":"0","correlation":"9","grid":[64,1,1],"kind":"Dispatch"}},
{"name":"hipLaunchKernel","cat":"cuda_runtime","ph":"X","pid":"7","tid":-1,"ts":1,"dur":1,"args":{"correlation":9,"cid":211}},
{"ph":"S","cat":"a","name":"r","id":5,"pid":3,"tid":1,"ts":1},{"ph":"T","cat":"a","name":"r","id":5,"pid":3,"tid":1,"ts":2},
{"ph":"p","cat":"a","name":"r","id":5,"pid":3,"tid":1,"ts":3},{"ph":"F","cat":"a","name":"r","id":5,"pid":3,"tid":1,"ts":4},
{"ph":"b","cat":"n","name":"r","id2":{"local":"0x1"},"scope":"s","pid":3,"tid":1,"ts":1},{"ph":"n","cat":"n","name":"r","id2":{"local":"0x1"},"pid":3,"tid":1,"ts":2},
{"ph":"e","cat":"n","name":"r","id2":{"global":"0x1"},"scope":"s","pid":3,"tid":1,"ts":9},
{"ph":"N","name":"o","id":"0x2","pid":3,"tid":1,"ts":1},{"ph":"O","name":"o","id":"0x2","pid":3,"tid":1,"ts":2,"args":{"snapshot":{"a":1}}},{"ph":"D","name":"o","id":"0x2","pid":3,"tid":1,"ts":3},
{"ph":"R","name":"navigationStart","pid":3,"tid":1,"ts":1},{"ph":"c","name":"clock_sync","pid":3,"ts":1},{"ph":"I","name":"i","pid":3,"tid":1,"ts":4,"s":"p"},
{"ph":"P","name":"sample","pid":3,"tid":1,"ts":5,"sf":"3"},{"ph":"X","name":"s","pid":3,"tid":1,"ts":5,"dur":1,"sf":3,"esf":2,"tts":1,"tdur":1,"cname":"good"},
{"ph":"X","name":"k","pid":3,"tid":1,"ts":8,"dur":1,"stack":["a","b"],"bind_id":"0x3","flow_out":true},
{"ph":"s","id":1,"name":"f","cat":"x","pid":3,"tid":1,"ts":5},{"ph":"t","id":1,"name":"f","cat":"x","pid":3,"tid":1,"ts":8},{"ph":"f","id":1,"name":"f","cat":"x","pid":1,"tid":14,"ts":2},
{"ph":"C","name":"u","id":"7","pid":3,"ts":1,"args":{"a":"3","b":null,"c":-1e300}},{"ph":"C","name":"u","id":"7","pid":3,"ts":1,"args":{}}],
"stackFrames":{"1":{"name":"main","category":"m"},"2":{"name":"f","parent":"1"},"3":{"name":"g","parent":2},"4":{"name":"h","parent":"4"}},
"samples":[{"cpu":0,"pid":3,"tid":1,"ts":"1.5","name":"cycles","comm":"python","sf":3,"weight":1},{"tid":1,"ts":2,"name":"cycles","sf":"4"}]}
"#;

/// Communication, waits, graphs, memory and shapes of a rank's steps, as Kineto writes them.
const RANK: &str = r#"{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"GPU","totalGlobalMem":100,"maxThreadsPerMultiprocessor":2048,"warpSize":32,"numSms":2}],"distributedInfo":{"backend":"nccl","rank":1,"world_size":2,"pg_count":1,"pg_config":[{"pg_name":"0","pg_desc":"default_pg","backend_config":"cuda:nccl","pg_size":2,"ranks":[0,1]}]},"baseTimeNanoseconds":1700000000000000000,"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":100,"args":{"External id":1}},
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#2","pid":1,"tid":1,"ts":100,"dur":100,"args":{"External id":2}},
{"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#1","pid":0,"tid":7,"ts":10,"dur":80},
{"ph":"X","cat":"python_function","name":"train.py(3): step","pid":1,"tid":1,"ts":1,"dur":98,"args":{"Python id":1,"Python parent id":null,"Python module id":0}},
{"ph":"X","cat":"python_function","name":"nn.Module: Linear_0","pid":1,"tid":1,"ts":2,"dur":50,"args":{"Python id":2,"Python parent id":1}},
{"ph":"X","cat":"user_annotation","name":"Optimizer.step#Adam.step","pid":1,"tid":1,"ts":70,"dur":9,"args":{"External id":3}},
{"ph":"X","cat":"cpu_op","name":"aten::addmm","pid":1,"tid":1,"ts":3,"dur":30,"args":{"External id":5,"Sequence number":4,"Fwd thread id":0,"Input Dims":[[2,3],[3,4],[]],"Input type":["float","float",""],"Input Strides":[[3,1],[4,1],[]],"Record function id":0,"Ev Idx":9}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":4,"dur":2,"args":{"correlation":7,"External id":5}},
{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":1,"tid":1,"ts":40,"dur":2,"args":{"correlation":8}},
{"ph":"X","cat":"cuda_runtime","name":"cudaStreamSynchronize","pid":1,"tid":1,"ts":60,"dur":9,"args":{"correlation":10}},
{"ph":"X","cat":"kernel","name":"void gemm<float>(int)","pid":0,"tid":7,"ts":12,"dur":20,"args":{"External id":5,"device":0,"context":1,"stream":7,"correlation":7,"registers per thread":32,"shared memory":1024,"blocks per SM":0.5,"warps per SM":2,"grid":[1,2,3],"block":[32,1,1],"est. achieved occupancy %":25,"queued":0}},
{"ph":"X","cat":"kernel","name":"node","pid":0,"tid":7,"ts":45,"dur":5,"args":{"correlation":8,"stream":7,"graph id":2,"graph node id":77}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)","pid":0,"tid":20,"ts":30,"dur":30,"args":{"stream":20,"correlation":11,"Collective name":"allreduce","In msg nelems":1024,"Out msg nelems":1024,"Group size":2,"dtype":"Float","Process Group Name":"0","Process Group Description":"default_pg","Process Group Ranks":"[0, 1]","Seq":3}},
{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":1,"ts":25,"dur":3,"args":{"External id":6,"Collective name":"allreduce","Seq":3}},
{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":7,"ts":61,"dur":0,"args":{"cuda_sync_kind":"Stream Wait Event","stream":7,"correlation":10,"wait_on_stream":20,"wait_on_cuda_event_record_corr_id":9,"wait_on_cuda_event_id":3}},
{"ph":"X","cat":"cuda_runtime","name":"cudaEventRecord","pid":1,"tid":1,"ts":33,"dur":1,"args":{"correlation":9}},
{"ph":"X","cat":"gpu_memset","name":"Memset (Device)","pid":0,"tid":7,"ts":80,"dur":1,"args":{"bytes":64,"stream":7}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoD (Device -> Device)","pid":0,"tid":7,"ts":82,"dur":2,"args":{"bytes":640,"stream":7,"memory bandwidth (GB/s)":0.5}},
{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":5,"s":"t","args":{"Total Reserved":2048,"Total Allocated":512,"Bytes":512,"Addr":4096,"Device Id":0,"Device Type":1,"Ev Idx":2}},
{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":50,"s":"t","args":{"Total Reserved":2048,"Total Allocated":0,"Bytes":-512,"Addr":4096,"Device Id":0,"Device Type":1,"Ev Idx":3}},
{"ph":"i","cat":"cpu_instant_event","name":"[OutOfMemory]","pid":1,"tid":1,"ts":51,"s":"t","args":{"Device Type":1,"Device Id":0,"Bytes":9999}},
{"ph":"s","id":4,"cat":"fwdbwd","name":"fwdbwd","pid":1,"tid":1,"ts":3},{"ph":"f","id":4,"cat":"fwdbwd","name":"fwdbwd","bp":"e","pid":1,"tid":2,"ts":60},
{"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function: AddmmBackward0","pid":1,"tid":2,"ts":59,"dur":9,"args":{"Sequence number":4,"Fwd thread id":1}},
{"ph":"X","cat":"overhead","name":"CUPTI Overhead","pid":-1,"tid":0,"ts":33,"dur":3},{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"PyTorch Profiler","ts":0,"dur":200},
{"name":"Iteration Start: PyTorch Profiler","ph":"i","s":"g","pid":"Traces","tid":"Trace PyTorch Profiler","ts":0},{"name":"Record Window End","ph":"i","s":"g","pid":"","tid":"","ts":200}
],"traceName":"x"}
"#;

/// The first events of each kind of a recording, with all that stands around them.
fn excerpt(trace: &[u8], of_each: usize) -> Vec<u8> {
    let mut trace: Value = serde_json::from_slice(trace).unwrap();
    let mut known = std::collections::HashMap::new();
    trace["traceEvents"].as_array_mut().unwrap().retain(|event| {
        let n = known.entry((event["ph"].to_string(), event["cat"].to_string())).or_insert(0);
        *n += 1;
        *n <= of_each
    });
    // Lines change places as well.
    serde_json::to_string(&trace).unwrap().replace("},{\"", "},\n{\"").into_bytes()
}

/// A recording by PyTorch with CUDA graphs, and a simulated one.
fn recordings() -> [Vec<u8>; 2] {
    let packed = std::fs::File::open(project().join("sample_traces/recorded/cuda_graph.kineto.json.gz")).unwrap();
    let (mut recorded, mut simulated) = (Vec::new(), Vec::new());
    flate2::read::GzDecoder::new(packed).read_to_end(&mut recorded).unwrap();
    kineto::write(kineto::Shape { steps: 1, seed: 1, is_array: false }, &mut simulated).unwrap();
    [excerpt(&recorded, 5), excerpt(&simulated, 5)]
}

#[test]
fn fuzz_chrome_traces() {
    let list = format!("[{}]", CHROME.split_once(":[\n").unwrap().1.split_once("\n]").unwrap().0);
    let lines = list[1..list.len() - 1].replace(",\n", "\n");
    run(&Target {
        name: "chrome",
        file: "t.json",
        seeds: [CHROME.into(), list.into_bytes(), lines.into_bytes(), OTHERS.into(), RANK.into(), RANK.into()]
            .into_iter()
            .chain(recordings())
            .collect(),
        words: &[
            b"{\"ph\":\"X\",",
            b"\"args\":{",
            b"\"traceEvents\":[",
            b"\"",
            b"\\",
            b"\\u12",
            b"}",
            b"]",
            b"[",
            b",",
            b"{",
            b"\n",
            b"NaN",
            b"\"ts\":",
            b"\"dur\":",
            b"\xef\xbb\xbf",
            b"\xff",
            b"null",
            b"\"ph\":\"E\"",
            b"\"ph\":\"B\"",
            b"\"ph\":\"C\"",
            b"\"ph\":\"b\"",
            b"\"cat\":\"kernel\"",
            b"\"cat\":\"cuda_sync\"",
            b"\"pid\":0,\"tid\":7,",
            b"\"pid\":\"1\",",
            b"\"correlation\":7,",
            b"\"stackFrames\":{",
            b"\"samples\":[",
            b"ProfilerStep#2",
            b"AllReduce",
            b"/* */",
        ],
        page: 1,
        n: 400,
        memory: 400,
        pack: plain,
    });
}

/// Text of args only: the decoder of details reads it.
#[test]
fn fuzz_args() {
    run(&Target {
        name: "args",
        file: "t.json",
        seeds: vec![
            br#""grid":[1,2,3],"block":[32,1,1],"correlation":7,"stream":"7","a":{"b":[{"c":null}]}"#.to_vec(),
            br#""Call stack":"a;b;c","Input Dims":[[2,3],[]],"Input type":["float",""],"Concrete Inputs":["1",""]"#
                .to_vec(),
            br#""Collective name":"allreduce","In msg nelems":1024,"dtype":"Float","Process Group Ranks":"[0, 1]""#
                .to_vec(),
        ],
        words: &[
            b"\"",
            b"\\\"",
            b"\\u00e9",
            b"\\ud800",
            b"{",
            b"}",
            b"[",
            b"]",
            b":",
            b",",
            b"NaN",
            b"{\"ph\":\"X\",",
            b"\xf0\x9f",
        ],
        page: 1,
        n: 400,
        memory: 400,
        pack: |args, _| {
            let head = br#"[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"#;
            [&head[..], &args, br#"}},{"ph":"X","name":"b","pid":1,"tid":1,"ts":5,"dur":1}]"#].concat()
        },
    });
}
