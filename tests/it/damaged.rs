//! Damaged and hostile files that were once answered wrongly: what each must get.

use std::path::{Path, PathBuf};

use lacuna::job::Progress;
use lacuna::model::{Severity, Trace};
use lacuna::reader::{self, ReadError};

use super::support::{beside, lacuna, project, scratch, unbalanced, wrong_shares};

fn damaged(name: &str) -> Option<PathBuf> {
    beside(&format!("data/damaged/{name}"))
}

pub fn read(path: &Path) -> Result<Vec<Trace>, ReadError> {
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
pub fn losses(trace: &Trace) -> Vec<String> {
    let is_loss = |severity: Severity| severity >= Severity::Warn;
    let problems = trace.import.problems.iter().filter(|problem| is_loss(problem.severity));
    problems.map(|problem| format!("{} {}", problem.count, problem.reason)).collect()
}

/// What is said of a trace that costs nothing, as text.
pub fn notes(trace: &Trace) -> Vec<String> {
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
