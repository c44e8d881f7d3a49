//! Damaged and hostile files that were once answered wrongly: what each must get.

use std::path::{Path, PathBuf};

use lacuna::job::Progress;
use lacuna::model::{Severity, Trace};
use lacuna::reader::{self, ReadError};

use super::support::{beside, lacuna, project, scratch, unbalanced, wrong_shares};

fn damaged(name: &str) -> Option<PathBuf> {
    beside(&format!("data/damaged/{name}"))
}

fn read(path: &Path) -> Result<Vec<Trace>, ReadError> {
    let traces = reader::read(path, &Progress::default())?;
    for trace in &traces {
        assert_eq!(unbalanced(&trace.import), None, "{}", path.display());
    }
    Ok(traces)
}

fn one(path: &Path) -> Trace {
    let mut traces = read(path).unwrap();
    assert_eq!(traces.len(), 1, "{}", path.display());
    traces.remove(0)
}

/// The counts of a trace: read, shown, merged, rejected.
fn counts(trace: &Trace) -> (u64, u64, u64, u64) {
    let import = &trace.import;
    (import.read, import.shown, import.merged, import.rejected)
}

/// The problems that cost something, as text.
fn losses(trace: &Trace) -> Vec<String> {
    let is_loss = |severity: Severity| severity >= Severity::Warn;
    let problems = trace.import.problems.iter().filter(|problem| is_loss(problem.severity));
    problems.map(|problem| format!("{} {}", problem.count, problem.reason)).collect()
}

/// What is said of a trace that costs nothing, as text.
fn notes(trace: &Trace) -> Vec<String> {
    let problems = trace.import.problems.iter().filter(|problem| problem.severity == Severity::Note);
    problems.map(|problem| format!("{} {}", problem.count, problem.reason)).collect()
}

/// Writes a file and reads it.
fn written(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> Trace {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    one(&path)
}

#[test]
fn each_repairable_event_is_repaired() {
    for name in ["nan_1000.json", "quotes_1000.json"] {
        let Some(path) = damaged(name) else { return };
        let trace = one(&path);
        assert_eq!(counts(&trace), (1000, 1000, 0, 0), "{name}");
        assert!(losses(&trace)[0].starts_with("1000 Not valid JSON"), "{name}: {:?}", losses(&trace));
    }
}

/// Text is read in blocks of 512 KiB, which end anywhere where no event begins with a usual key.
#[test]
fn a_block_that_begins_with_a_comma_is_whole() {
    let folder = scratch("blocks");
    let event = |i: usize| {
        let end = format!(r#"","ph":"X","ts":{i},"dur":1,"pid":1,"tid":1,"name":"a"}}"#);
        format!(r#"{{"zz":"{}{end}"#, "z".repeat(4096 - 1 - 7 - end.len()))
    };
    let text = format!("[{}]", (0..2000).map(event).collect::<Vec<_>>().join(","));
    assert_eq!(&text[2 << 20..][..6], ",{\"zz\"");
    let trace = written(&folder, "t.json", text);
    assert_eq!((counts(&trace), losses(&trace), notes(&trace)), ((2000, 2000, 0, 0), vec![], vec![]));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What is odd between events is counted wherever the blocks end.
#[test]
fn commas_are_judged_across_blocks() {
    let folder = scratch("commas");
    let n = 30_000;
    let event =
        |i: usize| format!(r#"{{"ph":"X","ts":{i},"dur":1,"pid":1,"tid":1,"name":"a{}"}}"#, "b".repeat(i * 7 % 90));
    for (between, told) in
        [(",", None), (" \n", Some("Comma missing")), (",\n,", Some("Comma with no event before it"))]
    {
        let text = format!("[{}]", (0..n).map(event).collect::<Vec<_>>().join(between));
        assert!(text.len() > 4 * (512 << 10));
        let trace = written(&folder, "t.json", text);
        assert_eq!(counts(&trace), (n as u64, n as u64, 0, 0), "{between:?}");
        let expected = told.map(|reason| format!("{} {reason}", n - 1));
        let losses = losses(&trace);
        assert!(losses.len() == usize::from(told.is_some()), "{losses:?}");
        assert!(expected.is_none_or(|expected| losses[0].starts_with(&expected)), "{losses:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Values in the list of events that are none are counted one by one, wherever the blocks end.
#[test]
fn each_value_that_is_no_event_is_counted() {
    let folder = scratch("values");
    let good = r#"{"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"good"}"#;
    for values in [
        &["1"][..],
        &["null", "-2.5e3", "true"],
        &[r#""x""#, r#""a, \"ph\": {b]""#, "\"\""],
        &["[]", r#"[1, [2, {"x": "]"}], 3]"#, r#"["ph", {"x": 1}]"#],
        &["7", r#""x""#, "[1]", "{}", r#"{"y": 1}"#],
    ] {
        for n in [1, 2, 5, 200_000] {
            let run = (0..n).map(|i| values[i % values.len()]).collect::<Vec<_>>().join(",\n ");
            for text in [format!("[{good},{run},{good}]"), format!("[{good},{run}]"), format!("[0,{run},{good},5]")] {
                let n_good = text.matches("good").count() as u64;
                let n_empty = text.matches("{}").count() as u64;
                let n_rejected = n as u64 - n_empty + 2 * u64::from(text.ends_with("5]"));
                let trace = written(&folder, "t.json", &text);
                let expected = (n_good + n_empty + n_rejected, n_good, n_empty, n_rejected);
                assert_eq!(counts(&trace), expected, "{n} of {values:?}: {:?}", losses(&trace));
            }
        }
    }
    std::fs::write(folder.join("t.json"), format!("[{}]", [r#"{"ph":"X","ts":1,"name":"n,"args":{}}"#; 9].join(",")))
        .unwrap();
    let error = read(&folder.join("t.json")).unwrap_err().to_string();
    assert!(error.starts_with("A list of damaged values"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Keys may be written with escapes, and so may phases, categories and ids.
#[test]
fn escapes_in_keys_change_nothing() {
    let folder = scratch("escapes");
    let packed = std::fs::File::open(project().join("sample_traces/kineto_10_steps.json.gz")).unwrap();
    let plain = std::io::read_to_string(flate2::read::GzDecoder::new(packed)).unwrap();
    // Every string that a colon follows is a key.
    let mut escaped = String::new();
    let mut rest = &*plain;
    let mut n_keys = 0;
    while let Some(start) = rest.find('"') {
        let end = start + 1 + rest[start + 1..].find('"').unwrap();
        let (text, after) = (&rest[start + 1..end], &rest[end + 1..]);
        let is_short_value = text.len() < 16 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_key = after.trim_start().starts_with(':');
        n_keys += usize::from(is_key);
        escaped.push_str(&rest[..=start]);
        for (i, c) in text.chars().enumerate() {
            match is_key && (i + n_keys) % 3 > 0 || is_short_value && !is_key {
                true if c.is_ascii() => escaped.push_str(&format!("\\u{:04x}", c as u32)),
                _ => escaped.push(c),
            }
        }
        escaped.push('"');
        rest = after;
    }
    escaped.push_str(rest);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&escaped).unwrap(),
        serde_json::from_str::<serde_json::Value>(&plain).unwrap()
    );
    let report = |text: &str| {
        let path = folder.join("t.json");
        std::fs::write(&path, text).unwrap();
        let output = lacuna(&["report".as_ref(), "--format=json".as_ref(), "--top=0".as_ref(), path.as_os_str()]);
        let mut report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["files"] = serde_json::Value::Null;
        report
    };
    assert!(n_keys > 1000);
    let (escaped, plain) = (report(&escaped), report(&plain));
    for (key, value) in plain.as_object().unwrap() {
        assert!(escaped[key] == *value, "{key}: {} instead of {value}", escaped[key]);
    }
    assert!(escaped == plain);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn whole_events_behind_repairable_ones_are_shown() {
    let Some(path) = damaged("nan_200_then_2000_good.json") else { return };
    let trace = one(&path);
    assert_eq!(trace.import.rejected, 0, "{:?}", losses(&trace));
    assert_eq!(trace.import.shown, trace.import.read);
    assert!(trace.import.read >= 2200);
}

/// Long runs of each kind of damage, before and after which all is well.
#[test]
fn runs_of_damage_cost_what_they_are() {
    let folder = scratch("damage-runs");
    let event = |name: &str, args: &str| {
        format!(r#"{{"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"{name}","args":{args}}}"#)
    };
    let good = event("good", "{}");
    for (what, damaged, is_repairable) in [
        ("quotes", event("a\"b\"c", "{}"), true),
        ("newline", event("a\nb", "{}"), true),
        ("backslash", event(r"C:\dir\x", "{}"), true),
        ("backslash at the end", event("C:\\", "{}"), true),
        ("not a number", event("a", r#"{"x": NaN}"#), true),
        ("lost quote", good.replace("good\"", "good"), false),
        ("lost brace", good.trim_end_matches('}').to_owned(), false),
        ("lost first brace", good[1..].to_owned(), false),
        ("braces in the name", event(r#"f({"x"}, {"y"})"#, "{}"), true),
    ] {
        for n in [1, 3, 500, 3000] {
            let text = format!("[{good},\n{}{good},\n{good}]", format!("{damaged},\n").repeat(n));
            let trace = written(&folder, "t.json", text);
            let n = n as u64;
            let expected = if is_repairable { (n + 3, n + 3, 0, 0) } else { (n + 3, 3, 0, n) };
            assert_eq!(counts(&trace), expected, "{n} times {what}: {:?}", losses(&trace));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Damage that seems to end the list of events, or hides where it begins, costs no other event.
#[test]
fn events_behind_a_list_that_seems_closed_are_shown() {
    let folder = scratch("closed-lists");
    let event = |name: &str, args: &str| {
        format!(r#"{{"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"{name}","args":{args}}}"#)
    };
    let (good, repairable) = (event("good", "{}"), event("a\"b", r#"{"x": NaN}"#));
    // What stands between whole events, how many of them are shown of it, and how many rejected at most.
    let damages = [
        ("]".to_owned(), 0, 1),
        ("},".to_owned(), 0, 1),
        ("]},".to_owned(), 0, 1),
        (format!("],{repairable},"), 1, 1),
        (format!("}}]{repairable},"), 1, 1),
        (r#"],"x": 5, "y ["#.to_owned(), 0, 1),
        (event(&format!(r#"x","y":[{good}]"#), "{}") + ",", 1, 1),
    ];
    for (damage, n_shown, n_rejected) in &damages {
        for (start, end) in [("[", "]"), (r#"{"traceEvents": ["#, "]}"), (r#"{"traceEvents: ["#, "]}")] {
            for n in [1, 3, 4000] {
                let text = format!("{start}{good},\n{}{good},\n{good}{end}", format!("{damage}{good},\n").repeat(n));
                let trace = written(&folder, "t.json", text);
                let (n, (_, shown, _, rejected)) = (n as u64, counts(&trace));
                assert_eq!(shown, n + 3 + n * n_shown, "{n} of {damage} in {start}: {:?}", losses(&trace));
                assert!(rejected <= n * n_rejected, "{n} of {damage} in {start}: {:?}", losses(&trace));
                assert!(!losses(&trace).is_empty() || damage == "]", "{damage}");
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Ends of slices in the order of their begins, which once took time in the square of their number.
#[test]
fn slices_may_end_in_the_order_they_began() {
    let folder = scratch("fifo");
    let n = 3000_u64;
    let event = |phase: char, i: u64, ts: u64| format!(r#"{{"ph":"{phase}","ts":{ts},"pid":1,"tid":1,"name":"n{i}"}}"#);
    let begins = (0..n).map(|i| event('B', i, i));
    let ends = (0..n).map(|i| event('E', i, n + i));
    let text = format!("[{}]", begins.chain(ends).collect::<Vec<_>>().join(","));
    let trace = written(&folder, "t.json", text);
    assert_eq!(counts(&trace), (2 * n, n, n, 0));
    let durations = (0..n as u32).map(|i| trace.slices.time(lacuna::model::SliceId(i)));
    assert!(durations.into_iter().all(|time| time.end - time.start == n as i64 * 1000));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn damaged_exports_lose_what_is_told_and_show_no_row_twice() {
    for (name, twin, most_lost) in [
        ("nsys_half_a_table_lost_silently.sqlite", "nsys_half_a_table_undamaged.sqlite", 60),
        ("nsys_rows_shown_ten_times.sqlite", "nsys_undamaged.sqlite", 200),
        ("nsys_rows_depend_on_cpus.sqlite", "nsys_undamaged.sqlite", 200),
    ] {
        let (Some(path), Some(twin)) = (damaged(name), damaged(twin)) else { return };
        let (trace, twin) = (one(&path), one(&twin));
        let n_shown = trace.import.shown + trace.import.merged;
        let n_whole = twin.import.shown + twin.import.merged;
        assert!(n_shown <= n_whole && n_shown + most_lost >= n_whole, "{name}: {n_shown} of {n_whole}");
        assert!(n_shown + trace.import.rejected >= n_whole, "{name}: {:?} of {n_whole}", counts(&trace));
        assert!(!losses(&trace).is_empty(), "{name}");
        for n_threads in [1, 2, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            let again = pool.install(|| one(&path));
            assert_eq!((counts(&again), losses(&again)), (counts(&trace), losses(&trace)), "{name} on {n_threads}");
        }
    }
}

#[test]
fn a_file_of_an_archive_costs_the_others_nothing() {
    let Some(path) = damaged("mixed.tar") else { return };
    let traces = read(&path).unwrap();
    assert_eq!(traces.len(), 3);
    assert_eq!(notes(&traces[0]), ["1 In the same archive and not shown, since they are not traces: README.txt"]);
}

/// A zip with these files.
fn zip(files: &[(&str, &[u8])], method: zip::CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in files {
        writer.start_file(*name, zip::write::SimpleFileOptions::default().compression_method(method)).unwrap();
        std::io::Write::write_all(&mut writer, bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn a_zip_of_several_files_is_read() {
    let folder = scratch("zips");
    let path = folder.join("t.zip");
    let read_zip = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        read(&path)
    };
    let trace = |n: usize| {
        let event = |i: usize| format!(r#"{{"ph":"X","ts":{},"dur":1,"pid":1,"tid":1,"name":"a"}}"#, 2 * i);
        format!("[{}]", (0..n).map(event).collect::<Vec<_>>().join(",\n")).into_bytes()
    };
    let (a, b) = (trace(3), trace(2000));
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let files: [(&str, &[u8]); 5] = [
            ("rank_1.json", &b),
            ("x/rank_0.json", &a),
            ("README.txt", b"These are traces."),
            ("config.json", br#"{"lr": 0.1}"#),
            ("__MACOSX/._rank_1.json", b"\0\x05\x16\x07"),
        ];
        let whole = zip(&files, method);
        let traces = read_zip(&whole).unwrap();
        let found: Vec<_> = traces.iter().map(|trace| (trace.info.rank, trace.import.shown)).collect();
        assert_eq!(found, [(Some(0), 3), (Some(1), 2000)]);
        assert_eq!(losses(&traces[0]).len() + losses(&traces[1]).len(), 0);
        let told = notes(&traces[1]).join("\n");
        assert!(told.contains("2 In the same archive and not shown") && told.contains("README.txt"), "{told}");
        // A byte of the first file is another: the other file is whole.
        let mut damaged = whole.clone();
        let place = damaged.len() / 3;
        damaged[place] ^= 0xff;
        if let Ok(traces) = read_zip(&damaged) {
            assert!(traces.iter().any(|trace| trace.info.rank == Some(0) && trace.import.shown == 3));
        }
    }
    let mut named_alike = zip(&[("rank_1.json", &a), ("rank_2.json", &b)], zip::CompressionMethod::Stored);
    for at in 0..named_alike.len() - 6 {
        if &named_alike[at..at + 6] == b"rank_2" {
            named_alike[at + 5] = b'1';
        }
    }
    let traces = read_zip(&named_alike).unwrap();
    assert_eq!((traces.len(), traces[0].import.shown), (1, 2000));
    assert!(losses(&traces[0])[0].contains("have the same name"), "{:?}", losses(&traces[0]));
    let error = read_zip(&zip(&[("a.txt", b"words"), ("b.txt", b"words")], zip::CompressionMethod::Stored));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("None of the 2 files in this archive can be read, a.txt"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The list of a zip's files stands at its end. Those that stream one know lengths only behind each file.
#[test]
fn a_torn_zip_gives_what_is_whole() {
    let folder = scratch("torn-zips");
    let path = folder.join("t.zip");
    let trace = |n: usize| {
        let event = |i: usize| format!(r#"{{"ph":"X","ts":{},"dur":{},"pid":1,"tid":1,"name":"a"}}"#, 2 * i, i % 7 + 1);
        format!("[{}]", (0..n).map(event).collect::<Vec<_>>().join(",\n")).into_bytes()
    };
    let (a, b, c) = (trace(30), trace(2000), trace(5000));
    let files: [(&str, &[u8]); 4] =
        [("rank_0.json", &a), ("notes.txt", b"words"), ("rank_1.json", &b), ("rank_2.json", &c)];
    let streamed = {
        let mut writer = zip::ZipWriter::new_stream(Vec::new());
        for (name, bytes) in files {
            let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
            writer.start_file(name, options).unwrap();
            std::io::Write::write_all(&mut writer, bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    };
    let methods = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated];
    for whole in methods.map(|method| zip(&files, method)).into_iter().chain([streamed]) {
        let list = memchr::memmem::find(&whole, b"PK\x01\x02").unwrap();
        let last = memchr::memmem::rfind(&whole, b"PK\x03\x04").unwrap();
        for (cut, n_whole, n_cut) in [(list + 9, 3, 0), (list, 3, 0), ((last + list) / 2, 2, 1), (last + 12, 2, 0)] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let traces = read(&path).unwrap();
            let shown: Vec<_> = traces.iter().map(|trace| trace.import.shown).collect();
            assert_eq!(shown[..n_whole], [30, 2000, 5000][..n_whole], "cut at {cut} of {}", whole.len());
            assert_eq!(shown.len(), n_whole + n_cut, "{shown:?}");
            assert!(shown.get(n_whole).is_none_or(|&n| n > 0 && n < 5000), "{shown:?}");
            assert!(losses(&traces[0]).join("\n").contains("archive ends early"), "{:?}", losses(&traces[0]));
        }
        // The header of the second file is damaged as well.
        let mut damaged = whole[..list].to_vec();
        let second = 4 + memchr::memmem::find(&whole[4..], b"PK\x03\x04").unwrap();
        damaged[second] = b'Q';
        std::fs::write(&path, damaged).unwrap();
        let traces = read(&path).unwrap();
        assert_eq!(traces.iter().map(|trace| trace.import.shown).collect::<Vec<_>>(), [30, 2000, 5000]);
        assert!(losses(&traces[0])[0].contains("damaged at byte"), "{:?}", losses(&traces[0]));
    }
    for text in [&b"PK\x03\x04"[..], b"PK\x05\x06zzz", &b"PK\x03\x04".repeat(5000), &[0x50, 0x4b, 3, 4, 255, 255]] {
        std::fs::write(&path, text).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("zip"), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Lengths and places are in the list and before each file; how many files there are is in the list alone.
#[test]
fn a_zip_whose_list_is_wrong_gives_all_files() {
    let folder = scratch("zip-lists");
    let path = folder.join("t.zip");
    let trace =
        |n: usize| format!("[{}]", [r#"{"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"a"}"#; 300][..n].join(","));
    let texts = [10, 300, 200].map(trace);
    let names = ["rank_0.json", "rank_1.json", "rank_2.json"];
    let files: Vec<(&str, &[u8])> = names.into_iter().zip(texts.iter().map(String::as_bytes)).collect();
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let whole = zip(&files, method);
        let first = memchr::memmem::find(&whole, b"PK\x01\x02").unwrap();
        let end = memchr::memmem::rfind(&whole, b"PK\x05\x06").unwrap();
        let length_and_place: [(usize, &[u8]); 5] = [
            (first + 20, &[255, 255, 255, 127]),
            (first + 20, &[255; 8]),
            (first + 42, &[255, 255, 255, 127]),
            // No file, and one.
            (end + 8, &[0; 4]),
            (end + 8, &[1, 0, 1, 0]),
        ];
        for (at, bytes) in length_and_place {
            let mut damaged = whole.clone();
            damaged[at..at + bytes.len()].copy_from_slice(bytes);
            std::fs::write(&path, damaged).unwrap();
            let traces = read(&path).unwrap();
            let shown: Vec<_> = traces.iter().map(|trace| trace.import.shown).collect();
            assert_eq!(shown, [10, 300, 200], "{bytes:?} at {at}");
            assert!(losses(&traces[0])[0].contains("list of files in this zip is damaged"), "{:?}", losses(&traces[0]));
        }
    }
    // Bytes that belong to no file are no loss, and what every listed file shares is refused.
    let mut padded = zip(&files[..1], zip::CompressionMethod::Stored);
    let list = memchr::memmem::find(&padded, b"PK\x01\x02").unwrap();
    padded.splice(list..list, [7; 100]);
    let place = padded.len() - 6;
    padded[place..place + 4].copy_from_slice(&(list as u32 + 100).to_le_bytes());
    std::fs::write(&path, padded).unwrap();
    assert_eq!(losses(&read(&path).unwrap()[0]).len(), 0);
    let mut shared = zip(&files[..2], zip::CompressionMethod::Deflated);
    let second = memchr::memmem::rfind(&shared, b"PK\x01\x02").unwrap();
    shared[second + 42..second + 46].fill(0);
    let header = memchr::memmem::rfind(&shared, b"PK\x03\x04").unwrap();
    shared[header] = b'Q';
    std::fs::write(&path, shared).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("share the same bytes"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Each file by itself is small enough to be read without asking; together they are not.
#[test]
fn an_archive_of_bombs_gives_its_first_files() {
    let folder = scratch("bombs");
    let path = folder.join("t.zip");
    let event = r#"{"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"a"}"#;
    let text = format!("[{}{event}]", " ".repeat(22 << 20)).into_bytes();
    let names = ["a.json", "b.json", "c.json", "d.json", "e.json"];
    std::fs::write(&path, zip(&names.map(|name| (name, &text[..])), zip::CompressionMethod::Deflated)).unwrap();
    let traces = read(&path).unwrap();
    let told = losses(&traces[0]);
    assert_eq!(traces.len(), 2, "{told:?}");
    assert!(told.len() == 1 && told[0].starts_with("3 Not read, since the files of this archive"), "{told:?}");
    let options = reader::Options { allow_any_ratio: true };
    let traces = reader::read_with(&path, options, &Progress::default()).unwrap();
    assert_eq!((traces.len(), losses(&traces[0])), (5, vec![]));
    // Where none can be read, the user is asked.
    let bomb = [&text[..], &text, &text].concat();
    std::fs::write(&path, zip(&[("a.json", &bomb), ("b.txt", b"words")], zip::CompressionMethod::Deflated)).unwrap();
    assert!(matches!(read(&path), Err(ReadError::NeedsConsent(_))));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_torn_archive_gives_what_is_whole() {
    let Some(path) = damaged("cut.tar.gz") else { return };
    let traces = read(&path).unwrap();
    assert!(traces.len() >= 2, "{}", traces.len());
    let whole = traces.iter().filter(|trace| trace.import.rejected == 0).count();
    assert!(whole >= 2);
    assert!(traces.iter().any(|trace| losses(trace).join("\n").contains("archive ends early")));
}

#[test]
fn archives_of_archives_end_soon() {
    let Some(path) = damaged("nest_tar.tar.gz") else { return };
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("more than 4096 files"), "{error}");
}

#[test]
fn a_long_window_is_read() {
    let Some(path) = damaged("long31.json.zst") else { return };
    match read(&path) {
        Ok(traces) => assert!(traces[0].import.read > 0 && losses(&traces[0]).is_empty()),
        // Where so much memory cannot be reserved.
        Err(error) => assert!(error.to_string().contains("window"), "{error}"),
    }
}

/// As pzstd writes them: frames to skip, the first before all others.
#[test]
fn frames_to_skip_are_skipped() {
    let folder = scratch("skipped-frames");
    let events = format!("[{}]", [r#"{"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"a"}"#; 100].join(","));
    let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"12345"].concat();
    let (first, second) = events.as_bytes().split_at(700);
    let [first, second] = [first, second].map(|part| zstd::encode_all(part, 1).unwrap());
    let packed = [&skipped[..], &first, &skipped, &second, &skipped].concat();
    let trace = written(&folder, "t.json.zst", packed);
    assert_eq!((counts(&trace), losses(&trace)), ((100, 100, 0, 0), vec![]));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_snapshot_with_odd_sizes_is_read() {
    let Some(path) = damaged("efficiency_above_1.pickle") else { return };
    assert!(one(&path).import.shown > 0);
    let output = lacuna(&["report".as_ref(), "--format=json".as_ref(), "--top=0".as_ref(), path.as_os_str()]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["memory"].as_array().is_some_and(|devices| !devices.is_empty()));
    assert_eq!(wrong_shares(&report), Vec::<String>::new());
}

/// A list in a list in a list; memory is bounded by the size of the file.
#[test]
fn lists_of_lists_are_refused() {
    let folder = scratch("lists");
    let path = folder.join("t.pickle");
    let n = 6_000_000;
    let bytes = [&b"\x80\x02"[..], &b"]".repeat(n), &b"a".repeat(n - 1), b"."].concat();
    std::fs::write(&path, bytes).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("lists and dictionaries"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}
