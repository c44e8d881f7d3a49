//! Feeds every reader with inputs changed at random and checks what must hold for all of them.
//!
//! A bounded run is part of the tests. A long one: `LACUNA_FUZZ=3600 cargo test --test it fuzz` runs each target for
//! that many seconds, from `LACUNA_FUZZ_SEED` on (default 1), and says how many inputs it tried. Inputs that fail are
//! kept under `target/tmp/fuzz-failed`.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use lacuna::job::Progress;
use lacuna::model::Trace;
use lacuna::reader::{self, ReadError};
use rayon::ThreadPool;

use super::cost::{self, Cost};
use super::mutate::mutate;
use super::support::{Dice, files, lacuna, name, project, scratch, unbalanced};

/// A reader with inputs that it can read and words of its format.
struct Target {
    name: &'static str,
    file: &'static str,
    seeds: Vec<Vec<u8>>,
    words: &'static [&'static [u8]],
    page: usize,
    /// Inputs of a bounded run.
    n: usize,
    /// Applied to a changed input, as what is packed must be packed again.
    pack: fn(Vec<u8>, &mut Dice) -> Vec<u8>,
    /// Most bytes that are allocated at one time, for a byte of input; beside [`FIXED`].
    memory: usize,
}

/// Every so many inputs are read again, twice on one core and once on several.
const AGAIN: usize = 8;
/// Every so many are read by the program.
const BY_PROGRAM: usize = 200;
/// The same in a long run.
const BY_PROGRAM_LONG: usize = 5000;
/// Failures after which a long run ends.
const MOST_FAILED: usize = 20;

/// What any input may cost: buffers of a fixed size.
const FIXED: usize = 4 << 20;

/// Longest processor time of the thread that reads an input of at most 64 KiB before it is packed.
const TOO_LONG: Duration = if cfg!(debug_assertions) { Duration::from_secs(10) } else { Duration::from_secs(3) };
/// After this time an input is taken to be read without end.
const HUNG: Duration = Duration::from_secs(120);

type Found = Result<Vec<Trace>, ReadError>;

/// All that a reader answers, as far as it can be compared.
fn answer(read: &Found) -> String {
    let traces = match read {
        Ok(traces) => traces,
        Err(error) => return error.to_string(),
    };
    let one = |trace: &Trace| {
        let import = &trace.import;
        let problems: Vec<_> = import.problems.iter().map(|it| (&it.reason, it.count, it.first_offset)).collect();
        let slices: Vec<_> = (0..trace.slices.len() as u32).map(lacuna::model::SliceId).collect();
        let slices = slices.iter().map(|&id| {
            let time = trace.slices.time(id);
            (time.start, time.end, trace.slice_name(id))
        });
        let slices: Vec<_> = slices.collect();
        let counts = (import.read, import.shown, import.merged, import.rejected);
        format!("{counts:?} {problems:?} {} {slices:?}", trace.tracks.len())
    };
    traces.iter().map(one).collect()
}

/// Details of the first events, which decode their args.
fn look_at_details(traces: &[Trace]) {
    for trace in traces {
        let Some(details) = &trace.details else { continue };
        for &source in trace.slices.source.iter().take(20) {
            // What is damaged has a sentence in place of details.
            let _ = details.event(source);
        }
    }
}

/// Threads with small stacks.
fn threads(n: usize) -> ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(n).stack_size(512 << 10).build().unwrap()
}

/// Reads a file on these threads; the cost is that of one of them.
fn read_on(pool: &ThreadPool, path: &Path, has_details: bool) -> (Found, Cost) {
    let (sender, receiver) = sync_channel(1);
    let path = path.to_owned();
    let work = move || {
        cost::measured(|| {
            let found = reader::read(&path, &Progress::default());
            if let Ok(traces) = found.as_deref()
                && has_details
            {
                look_at_details(traces);
            }
            found
        })
    };
    // The receiver is gone only after it gave up waiting.
    pool.spawn(move || drop(sender.send(catch_unwind(AssertUnwindSafe(work)))));
    match receiver.recv_timeout(HUNG) {
        Ok(Ok(found)) => found,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => panic!("no end after {HUNG:?}"),
    }
}

/// One thread and several.
struct Pools {
    one: ThreadPool,
    several: ThreadPool,
}

/// Checks what must hold for the file at `path`; returns what it cost.
fn check(target: &Target, pools: &Pools, path: &Path, is_again: bool) -> Cost {
    let (found, cost) = read_on(&pools.one, path, true);
    if let Ok(traces) = &found {
        traces.iter().for_each(|trace| assert_eq!(unbalanced(&trace.import), None));
    }
    if is_again {
        let first = answer(&found);
        assert_eq!(answer(&read_on(&pools.one, path, false).0), first, "another answer the second time");
        assert_eq!(answer(&read_on(&pools.several, path, false).0), first, "another answer on several cores");
    }
    let bytes = std::fs::metadata(path).unwrap().len() as usize;
    let most = FIXED + target.memory * bytes;
    assert!(cost.peak <= most, "{} bytes of memory for {bytes} bytes, at most {most} were expected", cost.peak);
    assert!(cost.time < TOO_LONG, "took {:?}", cost.time);
    cost
}

/// `check` and `report` must tell the same of a file.
fn check_by_program(path: &Path) {
    let files_of = |command: &str| {
        let output = lacuna(&[command.as_ref(), "--format".as_ref(), "json".as_ref(), path.as_os_str()]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), report["files"].clone())
    };
    let (checked, reported) = (files_of("check"), files_of("report"));
    assert_eq!(checked, reported);
    assert!(matches!(checked.0, Some(0..=3)), "{checked:?}");
}

/// Seconds of a long run.
fn seconds() -> Option<u64> {
    std::env::var("LACUNA_FUZZ").ok()?.parse().ok()
}

/// Input number `n` of a target.
fn input(target: &Target, n: u64) -> Vec<u8> {
    let mut dice = Dice(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes = target.seeds[dice.below(target.seeds.len())].clone();
    if n > 1 {
        mutate(&mut bytes, target.words, &target.seeds, target.page, &mut dice);
    }
    (target.pack)(bytes, &mut dice)
}

fn run(target: &Target) {
    let first = std::env::var("LACUNA_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1_u64);
    let long = seconds();
    let by_program = if long.is_some() { BY_PROGRAM_LONG } else { BY_PROGRAM };
    let folder = scratch(&format!("fuzz-{}", target.name));
    let failed = folder.with_file_name("fuzz-failed");
    let path = folder.join(target.file);
    let pools = Pools { one: threads(1), several: threads(3) };
    let began = Instant::now();
    let (mut n, mut n_failed, mut told, mut most) = (0, 0, 0, Cost::default());
    while long.map_or(n < target.n, |seconds| began.elapsed().as_secs() < seconds) {
        let number = first.wrapping_add(n as u64);
        std::fs::write(&path, input(target, number)).unwrap();
        let checked = catch_unwind(AssertUnwindSafe(|| {
            most = most.max(check(target, &pools, &path, n % AGAIN == 0));
            if n % by_program == 0 {
                check_by_program(&path);
            }
        }));
        let left: Vec<_> = files(&folder).iter().map(|path| name(path)).collect();
        assert_eq!(left, [target.file], "something was written beside the file");
        if checked.is_err() {
            std::fs::create_dir_all(&failed).unwrap();
            std::fs::copy(&path, failed.join(format!("{}-{number}-{}", target.name, target.file))).unwrap();
            n_failed += 1;
            if n_failed == MOST_FAILED || long.is_none() {
                break;
            }
        }
        n += 1;
        let minutes = began.elapsed().as_secs() / 60;
        if minutes > told {
            told = minutes;
            eprintln!("{}: {n} inputs, {n_failed} failed, in {minutes} min", target.name);
        }
    }
    eprintln!("{}: {n} inputs from seed {first} in {:?}; at most {most:?}", target.name, began.elapsed());
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(n_failed, 0, "{}: inputs that failed are kept in {}", target.name, failed.display());
}

fn plain(bytes: Vec<u8>, _: &mut Dice) -> Vec<u8> {
    bytes
}

const CHROME: &str = r#"{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"GPU"}],"distributedInfo":{"rank":1},"traceEvents":[
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

#[test]
fn fuzz_chrome_traces() {
    let list = format!("[{}]", CHROME.split_once(":[\n").unwrap().1.split_once("\n]").unwrap().0);
    let lines = list[1..list.len() - 1].replace(",\n", "\n");
    run(&Target {
        name: "chrome",
        file: "t.json",
        seeds: vec![CHROME.into(), list.into_bytes(), lines.into_bytes()],
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

/// Small exports, of pages so small that their tables have several levels.
fn exports() -> Vec<Vec<u8>> {
    let folder = scratch("fuzz-exports");
    let make = |page: u32| {
        let path = folder.join(format!("{page}.sqlite"));
        let connection = rusqlite::Connection::open(&path).unwrap();
        let mut sql = format!(
            "PRAGMA page_size={page};
             CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
             CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
                streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
             CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,
                globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
             CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER);
             CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT); INSERT INTO TARGET_INFO_GPU VALUES (0, 'GPU');
             INSERT INTO StringIds VALUES (0, 'gemm'), (1, 'cudaLaunchKernel_v7000'), (2, '{}');
             BEGIN;",
            "long".repeat(400)
        );
        for i in 0..150 {
            let ts = i * 100;
            sql += &format!(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({ts}, {ts} + 50, 0, 1, 7, {i}, 16777216, 0, {});
                 INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({ts} - 20, {ts} - 9, 0, 16777217, {i}, 1);",
                i % 3
            );
        }
        sql += "INSERT INTO NVTX_EVENTS VALUES (0, 900, 59, 'step', 16777217); COMMIT;";
        connection.execute_batch(&sql).unwrap();
        drop(connection);
        std::fs::read(path).unwrap()
    };
    let made = [512, 1024].map(make).to_vec();
    std::fs::remove_dir_all(&folder).unwrap();
    made
}

#[test]
fn fuzz_nsys_exports() {
    run(&Target {
        name: "nsys",
        file: "t.sqlite",
        seeds: exports(),
        words: &[
            b"\x0d\x00\x00",
            b"\x05\x00\x00",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x00\x00\x00\x02",
            b"\x00\x00\x00\x05",
        ],
        page: 512,
        n: 150,
        memory: 400,
        pack: plain,
    });
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
        seeds: vec![pickle.to_vec(), text.to_vec(), json.to_vec()],
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

#[test]
fn fuzz_memory_timelines() {
    run(&Target {
        name: "timeline",
        file: "t.json",
        seeds: vec![
            b"[[-1, 1, 512, 0], [1700000000000000100, 0, 1024, 3], [1700000000000000200, 2, 512, 4], [1700000000000000300, 3, 1024, 3]]".to_vec(),
            b"[[1.5, 2.5, 3.5], [[0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 4, 5, 6, 7, 9], [0, 0, 0, 0, 0, 0, 0, 0, 0]]]".to_vec(),
        ],
        words: &[b"[", b"]", b"],[", b",", b"-1", b"null", b"1e3", b"\"", b"{\"a\":1}"],
        page: 1,
        n: 400,
        memory: 400,
        pack: plain,
    });
}

#[test]
fn fuzz_gpu_metrics() {
    let lines = std::fs::read(project().join("sample_traces/gpu_metrics.jsonl")).unwrap();
    let lines = lines.split_inclusive(|&byte| byte == b'\n').take(12).flatten().copied().collect();
    let csv = b"timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]\n\
        2024/01/02 03:04:05.678, 0, 55 %, 1024 MiB, 70.50 W\n2024/01/02 03:04:06.678, 0, [N/A], 1024 MiB, 71.50 W\n";
    run(&Target {
        name: "metrics",
        file: "t.jsonl",
        seeds: vec![lines, csv.to_vec()],
        words: &[
            b"\n",
            b",",
            b"\"timestamp\":",
            b"[N/A]",
            b"{",
            b"}",
            b" %",
            b"null",
            b"2024/13/45 99:99:99.999",
            b"\"gpu_id\":",
        ],
        page: 1,
        n: 400,
        memory: 400,
        pack: plain,
    });
}

/// A tar of the input and of whole files around it, sometimes damaged as a whole, in gzip or not.
fn archive(bytes: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let good = br#"[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"}]"#;
    let mut tar = Vec::new();
    for (name, content) in [("a.json", &good[..]), ("b.json", &bytes[..]), ("c/d.json", &good[..])] {
        let mut block = [0; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[156] = b'0';
        block[257..265].copy_from_slice(b"ustar\x0000");
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        tar.extend_from_slice(&block);
        tar.extend_from_slice(content);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    if dice.below(2) == 0 {
        mutate(&mut tar, &[b"ustar", b"\0\0\0"], std::slice::from_ref(&bytes), 512, dice);
    }
    match dice.below(4) {
        0 => tar,
        1 => bytes,
        kind => {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(&tar).unwrap();
            let mut packed = packed.finish().unwrap();
            if kind == 2 {
                mutate(&mut packed, &[b"\x1f\x8b\x08"], std::slice::from_ref(&bytes), 1, dice);
            }
            packed
        }
    }
}

#[test]
fn fuzz_archives() {
    let gzip = |bytes: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    };
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, method) in [("a.json", zip::CompressionMethod::Stored), ("b.json", zip::CompressionMethod::Deflated)] {
        zip.start_file(name, zip::write::SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(CHROME.as_bytes()).unwrap();
    }
    let zip = zip.finish().unwrap().into_inner();
    run(&Target {
        name: "archive",
        file: "t.tar",
        seeds: vec![CHROME.into(), gzip(CHROME.as_bytes()), zstd::encode_all(CHROME.as_bytes(), 1).unwrap(), zip],
        words: &[b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"ustar"],
        page: 512,
        n: 250,
        memory: 4000,
        pack: archive,
    });
}
