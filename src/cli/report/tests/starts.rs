//! What a report begins with, and which exit code follows, by what of a file is there.

use std::io::Write as _;

use super::*;

/// A training of 8 steps as Kineto writes it: events of the host, then those of the device.
fn training() -> Vec<String> {
    let event = |cat: &str, name: &str, [ts, dur]: [i64; 2], place: &str, args: &str| {
        format!(r#"{{"ph":"X","cat":"{cat}","name":"{name}","ts":{ts},"dur":{dur},{place},"args":{{{args}}}}}"#)
    };
    let (main, stream) = (r#""pid":1,"tid":1"#, r#""pid":0,"tid":7"#);
    let host = (0..8).flat_map(|i| {
        let (at, id) = (10_000 * i, format!(r#""correlation":{}"#, i + 1));
        [
            event("user_annotation", &format!("ProfilerStep#{i}"), [at, 9_990], main, ""),
            event("cpu_op", "aten::mm", [at + 1_000, 300], main, ""),
            event("cuda_runtime", "cudaLaunchKernel", [at + 1_100, 50], main, &id),
        ]
    });
    let device = (0..8).map(|i| {
        let args = format!(r#""device":0,"stream":7,"correlation":{}"#, i + 1);
        event("kernel", "gemm", [10_000 * i + 1_200, 6_000], stream, &args)
    });
    host.chain(device).collect()
}

/// The paragraphs in short, the rules of the findings, the steps that were judged, and the exit with a gate at each level.
fn read(name: &str, bytes: &[u8]) -> (Vec<String>, Vec<String>, u64, [Outcome; 3]) {
    let folder = std::env::temp_dir().join(format!("lacuna-starts-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [path, out] = [name, "out.json"].map(|name| folder.join(name));
    std::fs::write(&path, bytes).unwrap();
    let args = |fail_on| Args { paths: vec![path.clone()], out: Some(out.clone()), fail_on, ..Args::default() };
    let exits = [Severity::Note, Severity::Warn, Severity::High]
        .map(|level| run(&Args { format: Format::Json, ..args(Some(level)) }).unwrap());
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let texts = |part: &str, key: &str| {
        let rows = json[part].as_array().cloned().unwrap_or_default();
        rows.iter().map(|row| row[key].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    run(&args(None)).unwrap();
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.starts_with("In short\n"), "{name}: {text}");
    std::fs::remove_dir_all(&folder).unwrap();
    let n_steps = json["judged"][0]["steps"].as_u64().unwrap_or_default();
    (texts("in_short", "text"), texts("findings", "rule"), n_steps, exits)
}

fn packed(text: &str) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

const CUT: &str = "The file ends early or is damaged";

#[test]
fn a_file_that_was_cut_says_so_first_in_every_form() {
    let events = training().join(",\n");
    let whole = read("whole.json", format!("[{events}]").as_bytes());
    assert!(whole.0[0].starts_with("GPU 0 is busy") && whole.2 == 6, "{whole:?}");
    // The format allows these.
    for (name, text) in [("open.json", format!("[{events}")), ("comma.json", format!("[{events},\n"))] {
        let open = read(name, text.as_bytes());
        assert_eq!((&open.0, open.2), (&whole.0, whole.2), "{name}");
    }
    // The kernel of step 6 lost its end: step 5 is the last with its work, and nothing says that it is all of it.
    let at = events.match_indices(r#""cat":"kernel""#).nth(6).unwrap().0;
    let array = format!("[{}", &events[..at + 20]);
    let object = format!(r#"{{"schemaVersion": 1, "traceEvents": {array}"#);
    for (name, bytes) in [
        ("array.json", array.clone().into_bytes()),
        ("object.json", object.clone().into_bytes()),
        ("array.json.gz", packed(&array)),
        ("object.json.gz", packed(&object)),
    ] {
        let cut = read(name, &bytes);
        assert!(cut.0[0].starts_with(CUT) && cut.0[1].starts_with("GPU 0 is busy"), "{name}: {cut:?}");
        assert_eq!(cut.2, 4, "{name}: {cut:?}");
    }
    // A stream that ends early after a whole event.
    let stream = packed(&format!("[{events}]"));
    let cut = read("stream.json.gz", &stream[..stream.len() - 12]);
    assert!(cut.0[0].starts_with(CUT), "{cut:?}");
}

#[test]
fn what_was_cut_off_has_no_other_cause() {
    let events = training().join(",\n");
    let host = &events[..events
        .find(
            r#",
{"ph":"X","cat":"kernel""#,
        )
        .unwrap()];
    let whole = read("host.json", format!("[{host}]").as_bytes());
    assert!(whole.0[0].starts_with("No device work was recorded"), "{whole:?}");
    assert!(whole.1.iter().any(|rule| rule == "no_gpu_work"), "{whole:?}");
    let cut = read("cut_host.json", format!("[{host},\n{{\"ph\":\"X\",\"cat\":\"ker").as_bytes());
    assert!(cut.0[0].starts_with(CUT) && cut.0[1].starts_with("No device work is in that part"), "{cut:?}");
    assert!(!cut.1.iter().any(|rule| rule == "no_gpu_work"), "{cut:?}");
}

#[test]
fn a_gate_counts_problems_of_reading_and_a_file_without_events() {
    use Outcome::{Done, ThresholdMet};
    let empty = read("empty.json", b"[]");
    assert_eq!(empty.0, ["The file holds no events that could be shown: there is nothing to judge"]);
    assert_eq!(empty.3, [ThresholdMet, ThresholdMet, Done]);
    let names = read("names.json", br#"[{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"main"}}]"#);
    assert_eq!((&names.0, names.3), (&empty.0, empty.3));
    // One note: the list is not closed.
    let moment = r#"{"ph":"i","name":"mark","ts":1,"pid":1,"tid":1,"s":"t"}"#;
    assert_eq!(read("noted.json", format!("[{moment}").as_bytes()).3, [ThresholdMet, Done, Done]);
    let later = moment.replace("\"ts\":1", "\"ts\":3.5");
    let clean = read("clean.json", format!("[{moment},{later}]").as_bytes());
    let counted = "The file holds 2 moments in 2.500 µs, and nothing by which the time of a device or of a thread could \
                   be judged";
    assert_eq!((&clean.0[..], clean.3), (&[counted.to_owned()][..], [Done; 3]));
}

#[test]
fn a_memory_timeline_begins_with_its_peak() {
    let timeline = b"[[10, 20, 30], [[0, 1024, 0, 0, 0, 0, 0, 0, 0], [0, 1024, 0, 0, 0, 3072, 0, 0, 0], \
                     [0, 512, 0, 0, 0, 0, 0, 0, 0]]]";
    let (in_short, ..) = read("memory_timeline.json", timeline);
    let expected = "Peak 4.00 KiB; most at the peak: ACTIVATION 3.00 KiB (75.0 %), PARAMETER 1.00 KiB (25.0 %). At the \
                    end 512 B. ";
    assert!(in_short.len() == 1 && in_short[0].starts_with(expected), "{in_short:?}");
}

/// The raw form of a memory timeline: so many steps of a forward pass, of whose three activations of one size so many are
/// kept, and of a backward pass if `is_training`.
fn raw_timeline(n_steps: u64, n_kept: u64, is_training: bool) -> String {
    let [parameter, input, activation, gradient, detail] = [0, 2, 4, 5, 6];
    let (size, small) = (512 << 10, 4 << 10);
    let mut rows = vec![format!("[-1,1,{size},{parameter}]")];
    let mut row = |action: u64, bytes: i64, category: u64| {
        let ts = 1_700_000_000_000_000_000 + 1_000 * rows.len();
        rows.push(format!("[{ts},{action},{bytes},{category}]"));
    };
    let (alloc, change, free) = (2, 3, 4);
    for step in 0..n_steps {
        row(alloc, 131_072, input);
        (0..3).for_each(|_| row(alloc, size, activation));
        row(alloc, small, activation);
        if is_training {
            if step > 0 {
                row(free, -size, gradient);
            }
            row(alloc, size, detail);
            row(alloc, size, gradient);
            row(free, -size, detail);
        }
        // The small one goes between those of one size, in any order.
        row(free, -size, activation);
        row(free, -small, activation);
        (n_kept..2).for_each(|_| row(free, -size, activation));
        row(change, -size, parameter);
        row(change, size, parameter);
        row(free, -131_072, input);
    }
    format!("[{}]", rows.join(","))
}

#[test]
fn a_leak_in_a_memory_timeline_is_one_whichever_of_equal_blocks_are_freed() {
    let of = |n_kept, is_training| {
        let (in_short, findings, ..) = read("leak.raw.json", raw_timeline(16, n_kept, is_training).as_bytes());
        (in_short.join("\n"), findings)
    };
    let (leak, findings) = of(1, true);
    assert!(leak.contains("Memory between steps grows by 512.00 KiB a step"), "{leak}");
    assert_eq!(findings, ["memory_leak"]);
    let (level, findings) = of(0, true);
    assert!(level.contains("Memory between steps stays level") && findings.is_empty(), "{level}");
    // Of a forward pass alone nothing tells whether what stays are the activations of a layer.
    let (guess, findings) = of(1, false);
    assert!(guess.contains("What repeats may be layers of a pass as well as steps") && findings.is_empty(), "{guess}");
}
