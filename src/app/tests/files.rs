//! Files come and go.

use std::io::Write as _;

use super::memory::sample;
use super::*;
use crate::settings::SettingsFile;

#[test]
fn a_file_that_grows_without_measure_is_opened_once_the_person_agrees() {
    let path = std::env::temp_dir().join(format!("lacuna-consent-{}.json.gz", std::process::id()));
    let mut gzip = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::default());
    let blanks = vec![b' '; 80 << 20];
    let event = br#"{"ph":"X","ts":1,"dur":2,"name":"a","pid":1,"tid":1}]"#;
    for part in [b"[".as_slice(), &blanks, event] {
        gzip.write_all(part).unwrap();
    }
    gzip.finish().unwrap();
    let mut harness = harness(vec![trace()]);
    app_mut(&mut harness).commands.push(Command::OpenPath(path.clone()));
    wait_for(&mut harness, |harness| harness.query_by_label("Open anyway").is_some());
    harness.get_by_label_contains("more than 200 times its size");
    harness.get_by_label("Open anyway").click();
    wait_for(&mut harness, |harness| app(harness).session().traces().len() == 2);
    assert!(harness.query_by_label("Open anyway").is_none(), "the question is answered");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_window_that_is_closed_reads_no_further() {
    let path = std::env::temp_dir().join(format!("lacuna-closed-{}.json", std::process::id()));
    let event = r#"{"ph":"X","ts":1,"dur":2,"name":"a","pid":1,"tid":1},"#;
    std::fs::write(&path, format!("[{}", event.repeat(1 << 20))).unwrap();
    let mut harness = harness(vec![trace()]);
    app_mut(&mut harness).commands.push(Command::OpenPath(path.clone()));
    wait_for(&mut harness, |harness| !app(harness).loads.running().is_empty());
    let progress = app(&harness).loads.running()[0].job.progress.progress();
    assert!(!progress.is_cancelled());
    drop(harness);
    assert!(progress.is_cancelled(), "its reader goes on");
    let began = std::time::Instant::now();
    while std::sync::Arc::strong_count(&progress) > 1 {
        assert!(began.elapsed().as_secs() < 60, "its thread goes on");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn traces_to_close_are_told_apart_where_their_files_have_one_name() {
    let of_run = |run: &str| {
        let mut trace = trace();
        trace.info.path = format!("/runs/{run}/trace-rank0-1.pt.trace.json").into();
        trace.info.rank = Some(0);
        trace
    };
    let mut harness = harness(vec![of_run("morning"), of_run("evening")]);
    app_mut(&mut harness).commands.push(Command::CloseTrace);
    settle(&mut harness);
    type_text(&mut harness, "rank 0, morning");
    harness.key_press(Key::Enter);
    settle(&mut harness);
    let [left] = app(&harness).session().traces() else { panic!("one is closed") };
    assert!(left.trace.info.path.starts_with("/runs/evening"));
    // Of one there is nothing to ask.
    harness.key_press_modifiers(Modifiers::COMMAND, Key::W);
    settle(&mut harness);
    assert!(app(&harness).session().traces().is_empty());
}

#[test]
fn one_of_several_traces_closes_by_palette_and_by_its_label() {
    let of_file = |path: &str, rank| {
        let mut trace = trace();
        trace.info.path = path.into();
        trace.info.member = Some(format!("rank{rank}.json"));
        trace.info.rank = Some(rank);
        trace
    };
    let traces = vec![of_file("/a.tar", 0), of_file("/a.tar", 1), of_file("/b.tar", 0), of_file("/b.tar", 1)];
    let mut harness = harness(traces);
    harness.key_press(Key::Slash);
    settle(&mut harness);
    type_text(&mut harness, "gemm");
    harness.get_by_label("4 slices");
    app_mut(&mut harness).commands.extend([Command::NextHit, Command::NextHit, Command::NextHit]);
    settle(&mut harness);
    assert!(matches!(app(&harness).session().selection, Selection::Slice { trace: 2, .. }));

    app_mut(&mut harness).commands.push(Command::CloseTrace);
    settle(&mut harness);
    type_text(&mut harness, "all a.tar");
    harness.key_press(Key::Enter);
    settle(&mut harness);
    assert_eq!(app(&harness).session().traces().len(), 2);
    assert!(matches!(app(&harness).session().selection, Selection::Slice { trace: 0, .. }));
    harness.get_by_label("2 slices");

    harness.get_by_role_and_label(egui::Role::Unknown, "Rank 1: b.tar: rank1.json").click_secondary();
    settle(&mut harness);
    harness.get_by_label("Close all 2 traces of this file");
    harness.get_by_label("Close trace").click();
    // A hit asked for in the same frame must not be one of the trace that goes.
    app_mut(&mut harness).commands.push(Command::NextHit);
    settle(&mut harness);
    assert_eq!(app(&harness).session().traces().len(), 1);
    harness.get_by_label("1 slice");

    app_mut(&mut harness).commands.extend([Command::CloseAll, Command::NextHit]);
    settle(&mut harness);
    harness.get_by_label("Nothing is open");
}

#[derive(Debug)]
struct Dropped(PathBuf);

impl egui::DroppedFile for Dropped {
    fn path(&self) -> &std::path::Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        Err("The window reads by path".to_owned())
    }
}

#[test]
fn a_dropped_folder_opens_its_traces_and_says_what_was_not_read() {
    let folder = std::env::temp_dir().join(format!("lacuna-drop-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("deeper")).unwrap();
    let event = r#"[{"ph":"X","ts":1,"dur":2,"name":"a","pid":1,"tid":1}]"#;
    for name in ["rank0.json", "rank1.json", "rank2.json", "deeper/rank3.json"] {
        std::fs::write(folder.join(name), event).unwrap();
    }
    std::fs::write(folder.join("notes.txt"), "").unwrap();
    std::fs::write(folder.join("broken.json"), "no trace").unwrap();
    let mut harness = harness(Vec::new());
    harness.input_mut().dropped_files.push(Arc::new(Dropped(folder.clone())));
    wait_for(&mut harness, |harness| app(harness).session().traces().len() == 3 && app(harness).loads.is_idle());
    let deeper = std::fs::canonicalize(folder.join("deeper")).unwrap();
    let unread = format!("subfolders are not read, and these hold traces: {}", deeper.display());
    harness.get_by_label(&format!("1 file of another kind was not read; {unread}"));
    harness.get_by_label(&std::fs::canonicalize(folder.join("broken.json")).unwrap().display().to_string());
    let names = |harness: &Harness<'_, Option<App>>| {
        let traces = app(harness).session().traces().iter();
        let mut names: Vec<_> = traces.map(|open| open.trace.info.path.file_name().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&harness), ["rank0.json", "rank1.json", "rank2.json"]);

    // A second time, nothing opens twice.
    app_mut(&mut harness).commands.push(Command::OpenPath(folder.clone()));
    wait_for(&mut harness, |harness| harness.query_by_label_contains(" is already open").is_some());
    assert_eq!(names(&harness).len(), 3);
    // The message passes by itself, and the file that is named is shown.
    assert!(!app(&harness).notes.iter().any(|note| note.text.contains("already open")));
    let range = app(&harness).session.navigation.visible();
    app_mut(&mut harness).session.navigation.go(TimeRange { start: range.end, end: range.end + 1_000 });
    app_mut(&mut harness).commands.push(Command::Show("marks"));
    app_mut(&mut harness).commands.push(Command::OpenPath(folder.join("rank1.json")));
    settle(&mut harness);
    harness.get_by_label("rank1.json is already open");
    let visible = app(&harness).session.navigation.visible();
    assert!(visible.start < range.end && app(&harness).layout.is_on_screen("timeline"));
    app_mut(&mut harness).commands.push(Command::CloseAll);
    settle(&mut harness);

    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    app_mut(&mut harness).commands.push(Command::OpenPath(folder.clone()));
    wait_for(&mut harness, |harness| harness.query_by_label_contains("No file directly in this folder").is_some());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_log_that_is_read_frames_before_its_trace_leaves_the_overview_in_front() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.json");
    let kernel =
        r#"{"ph":"X","cat":"kernel","ts":1,"dur":2,"name":"a","pid":0,"tid":7,"args":{"device":0,"stream":7}},"#;
    std::fs::write(&path, format!("[{}", kernel.repeat(1 << 17))).unwrap();
    let log = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces/gpu_metrics.jsonl");
    let mut harness = harness(vec![]);
    app_mut(&mut harness).commands.extend([Command::OpenPath(log), Command::OpenPath(path)]);
    wait_for(&mut harness, |harness| app(harness).session().traces().len() == 2);
    settle(&mut harness);
    assert!(app(&harness).layout.is_on_screen("overview"), "{:?}", app(&harness).layout.on_screen());
}

#[test]
fn marks_are_kept_when_they_are_set_and_not_first_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    let mut harness = harness(vec![trace()]);
    let (file, _, _) = SettingsFile::open(&path);
    app_mut(&mut harness).keep_settings(Some(file), false, Vec::new());
    let kept = |note: &str| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let stored: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let marks = stored["marks"].as_object().into_iter().flat_map(|all| all.values());
        marks.filter_map(|of| of.as_array()).flatten().filter(|mark| mark["note"] == note).count()
    };
    assert_eq!(kept(""), 0);
    harness.key_press(Key::M);
    wait_for(&mut harness, |_| kept("") == 1);
    app_mut(&mut harness).session.marks[0].note = "slow".to_owned();
    wait_for(&mut harness, |_| kept("slow") == 1);
    app_mut(&mut harness).session.marks.clear();
    wait_for(&mut harness, |_| kept("slow") == 0);
}

#[test]
fn what_changes_is_kept_soon_though_nothing_more_happens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    let mut harness = harness(vec![trace()]);
    settle(&mut harness);
    let (file, _, _) = SettingsFile::open(&path);
    app_mut(&mut harness).keep_settings(Some(file), true, Vec::new());
    app_mut(&mut harness).settings.remember(std::path::Path::new("/traces/a.json"));
    harness.step();
    let next = harness.output().viewport_output[&egui::ViewportId::ROOT].repaint_delay;
    assert!(next <= std::time::Duration::from_secs(1), "{next:?}");
    let kept = || std::fs::read_to_string(&path).unwrap_or_default().contains("/traces/a.json");
    wait_for(&mut harness, |_| kept());
}

#[test]
fn settings_that_cannot_be_written_are_said_though_nothing_more_happens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file").join("settings.json");
    std::fs::write(folder.path().join("file"), "").unwrap();
    let mut harness = harness(vec![trace()]);
    settle(&mut harness);
    let (file, _, _) = SettingsFile::open(&path);
    app_mut(&mut harness).keep_settings(Some(file), true, Vec::new());
    app_mut(&mut harness).settings.remember(std::path::Path::new("/traces/a.json"));
    let said =
        |harness: &Harness<'_, Option<App>>| app(harness).notes.iter().any(|note| note.text.contains("cannot be kept"));
    for _ in 0..10 {
        harness.step();
        if said(&harness) {
            break;
        }
        // As the window does: the next frame comes when it was asked for.
        let next = harness.output().viewport_output[&egui::ViewportId::ROOT].repaint_delay;
        assert!(next <= std::time::Duration::from_secs(1), "{next:?}");
        std::thread::sleep(next);
    }
    assert!(said(&harness));
}

#[test]
fn recent_files_are_cut_where_they_do_not_differ() {
    let mut harness = harness(Vec::new());
    let path =
        |run: u32| format!("/home/user/.local/share/lacuna/runs/20261126-18{run}000-train.py/{}.json", "x".repeat(99));
    app_mut(&mut harness).settings.recent = [1, 2].map(|run| path(run).into()).to_vec();
    settle(&mut harness);
    for part in ["181000", "182000"] {
        assert_eq!(harness.query_all_by_label_contains(part).count(), 1, "{part}");
    }
}

#[test]
fn a_trace_that_is_opened_beside_memory_is_shown() {
    let mut harness = harness(vec![sample("snapshot_leak.pickle")]);
    app_mut(&mut harness).commands.push(Command::Show("memory"));
    settle(&mut harness);
    let open = |harness: &mut Harness<'_, Option<App>>, name: &str, n: usize| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces").join(name);
        app_mut(harness).commands.push(Command::OpenPath(path));
        wait_for(harness, |harness| app(harness).session().traces().len() == n);
        settle(harness);
    };
    open(&mut harness, "nsys_5_steps.sqlite", 2);
    assert!(app(&harness).layout.is_on_screen("timeline") && app(&harness).layout.is_on_screen("overview"));
    // What shows another of its kind stays.
    app_mut(&mut harness).commands.push(Command::Show("samples"));
    settle(&mut harness);
    open(&mut harness, "kineto_10_steps.json.gz", 3);
    assert!(app(&harness).layout.is_on_screen("timeline") && app(&harness).layout.is_on_screen("samples"));
    open(&mut harness, "snapshot_oom.pickle", 4);
    assert!(app(&harness).layout.is_on_screen("memory"));
}
