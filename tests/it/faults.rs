//! Files that change after they were read, programs that are killed while they write, and disks that are full.
#![cfg(unix)]

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lacuna::job::Progress;
use lacuna::model::SliceId;
use lacuna::reader;
use lacuna::settings::{Settings, SettingsFile};
use rustix::process::{Pid, Signal, kill_process};

use super::support::{Dice, files, interrupts_end_programs, name, project, scratch};

/// How long a program may take to come to where a test wants it.
const SOON: Duration = Duration::from_secs(60);

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// A small export.
fn export() -> Vec<u8> {
    std::fs::read(project().join("sample_traces/nsys_5_steps.sqlite")).unwrap()
}

/// The private folders of copies that are there now.
fn copies(folder: &Path) -> Vec<PathBuf> {
    let user = format!("lacuna-{}", rustix::process::getuid().as_raw());
    let entries = std::fs::read_dir(folder.join(user).join("copies")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Starts the reading of a packed export that takes long, and waits until its private copy grows.
fn unpacking(folder: &Path) -> (Child, PathBuf) {
    let packed = folder.join("long.sqlite.gz");
    if !packed.exists() {
        let zeros = gzip(&vec![0; 16 << 20]);
        std::fs::write(&packed, [gzip(&export()), zeros.repeat(128)].concat()).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
    command.args(["check", "--allow-any-ratio"]).arg(packed).env("TMPDIR", folder);
    let mut start = || command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut child, began) = (start(), Instant::now());
    loop {
        if let Some(copy) = copies(folder).into_iter().find(|copy| copy.join("export.sqlite").exists()) {
            return (child, copy);
        }
        // On a busy machine it may come to its end unseen.
        if child.try_wait().unwrap().is_some() {
            child = start();
        }
        assert!(began.elapsed() < SOON, "no private copy");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn private_copies_are_private_and_go_away_at_every_end() {
    interrupts_end_programs();
    let folder = scratch("faults-copies");
    let mode = |path: &Path| path.metadata().ok().map(|data| data.mode() & 0o777);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let began = Instant::now();
        loop {
            let (mut child, copy) = unpacking(&folder);
            let modes = (mode(&copy), mode(&copy.join("export.sqlite")));
            kill_process(Pid::from_child(&child), signal).unwrap();
            let has_finished = child.wait().unwrap().success();
            assert_eq!(copies(&folder), Vec::<PathBuf>::new(), "after {signal:?}");
            // On a busy machine it may finish before this thread goes on.
            if !has_finished && let (Some(folder), Some(file)) = modes {
                assert_eq!((folder, file), (0o700, 0o600));
                break;
            }
            assert!(began.elapsed() < SOON, "{signal:?} never ends it");
        }
    }
    let began = Instant::now();
    loop {
        let (mut child, copy) = unpacking(&folder);
        child.kill().unwrap();
        if !child.wait().unwrap().success() && copy.exists() {
            break;
        }
        assert!(began.elapsed() < SOON, "it is never killed in time");
    }
    let mut next = Command::new(env!("CARGO_BIN_EXE_lacuna"));
    let status = next.args(["report", "--thresholds"]).env("TMPDIR", &folder).stdout(Stdio::null()).status();
    assert!(status.unwrap().success());
    assert_eq!(copies(&folder), Vec::<PathBuf>::new(), "after the next start");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What may happen to a file.
type Fault = (&'static str, fn(&Path));

const FAULTS: [Fault; 5] = [
    ("cut", |path| {
        let len = path.metadata().unwrap().len();
        std::fs::File::options().write(true).open(path).unwrap().set_len(len / 3).unwrap();
    }),
    ("emptied", |path| std::fs::write(path, b"").unwrap()),
    ("replaced by another", |path| {
        let new = path.with_extension("new");
        std::fs::write(&new, vec![b'x'; path.metadata().unwrap().len() as usize]).unwrap();
        std::fs::rename(new, path).unwrap();
    }),
    ("deleted", |path| std::fs::remove_file(path).unwrap()),
    ("replaced by a folder", |path| {
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
    }),
];

#[test]
fn details_of_a_file_that_changed_are_a_sentence() {
    let folder = scratch("faults-details");
    let event = r#"{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a","args":{"x":1}}"#;
    let chrome = format!("[{}]", [event; 50].join(",\n")).into_bytes();
    let export = export();
    for (file, bytes) in [
        ("t.json", chrome.clone()),
        ("t.json.gz", gzip(&chrome)),
        ("t.json.zst", zstd::encode_all(&chrome[..], 1).unwrap()),
        ("t.sqlite", export.clone()),
        ("t.sqlite.gz", gzip(&export)),
    ] {
        for (what, fault) in FAULTS {
            let path = folder.join(file);
            std::fs::write(&path, &bytes).unwrap();
            let traces = reader::read(&path, &Progress::default()).unwrap();
            let slice = SliceId(traces[0].slices.len() as u32 / 2);
            let (source, start) = (traces[0].slices.source[slice.idx()], traces[0].recorded_start(slice));
            let details = traces[0].details.as_ref().unwrap();
            assert!(details.event(source, start).is_ok(), "{file} before it was {what}");
            fault(&path);
            // A private copy has what was read.
            if let Err(sentence) = details.event(source, start) {
                assert!(sentence.contains(' ') && !sentence.contains("panic"), "{file} {what}: {sentence}");
            } else {
                assert_eq!(file, "t.sqlite.gz", "{what}: details of another file");
            }
            drop(traces);
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Details are those of the event that was read, or a sentence, whatever happens to the file meanwhile.
#[test]
fn details_of_a_file_that_changes_all_the_time_are_right_or_a_sentence() {
    let folder = scratch("faults-details-race");
    let event =
        |i: usize, x: usize| format!(r#"{{"ph":"X","pid":1,"tid":1,"ts":{i},"dur":1,"name":"a","args":{{"x":{x}}}}}"#);
    let text = |x| format!("[{}]", (100..600).map(|i| event(i, x)).collect::<Vec<_>>().join(",\n")).into_bytes();
    let (ours, other) = (text(1), text(2));
    for (file, ours, other) in [
        ("t.json", ours.clone(), other.clone()),
        ("t.json.gz", gzip(&ours), gzip(&other)),
        ("t.sqlite", export(), export().iter().map(|byte| byte ^ 1).collect()),
    ] {
        let (path, aside) = (folder.join(file), folder.join("aside"));
        std::fs::write(&path, &ours).unwrap();
        let traces = reader::read(&path, &Progress::default()).unwrap();
        let slice = SliceId(traces[0].slices.len() as u32 / 2);
        let (source, start) = (traces[0].slices.source[slice.idx()], traces[0].recorded_start(slice));
        let details = traces[0].details.as_ref().unwrap();
        let expected = details.event(source, start).unwrap();
        let (mut n_right, mut n_refused) = (0, 0);
        std::thread::scope(|scope| {
            let (path, aside) = (&path, &aside);
            // Dropped at the end, also by a panic.
            let (_goes_on, is_over) = std::sync::mpsc::sync_channel::<()>(0);
            let other = &other;
            scope.spawn(move || {
                while is_over.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                    // The file that was read is away for a moment, with another in its place.
                    std::fs::rename(path, aside).unwrap();
                    std::fs::write(path, other).unwrap();
                    std::thread::sleep(Duration::from_micros(300));
                    std::fs::rename(aside, path).unwrap();
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
            let began = Instant::now();
            let is_both = |n_right, n_refused| n_right > 0 && n_refused > 0;
            // A busy machine may not switch between the two for a while.
            while began.elapsed() < Duration::from_millis(700)
                || !is_both(n_right, n_refused) && began.elapsed() < Duration::from_secs(60)
            {
                match details.event(source, start) {
                    Ok(found) if found == expected => n_right += 1,
                    Ok(found) => panic!("{file}: {found:?}"),
                    Err(sentence) => {
                        assert!(sentence.contains(' '), "{file}: {sentence}");
                        n_refused += 1;
                    }
                }
            }
        });
        assert!(n_right > 0 && n_refused > 0, "{file}: {n_right} right, {n_refused} refused");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A window whose display goes away, or that is closed, while a file is unpacked.
#[test]
fn a_window_that_ends_while_it_loads_leaves_nothing() {
    let folder = scratch("faults-window");
    let packed = folder.join("long.sqlite.gz");
    let zeros = gzip(&vec![0; 16 << 20]);
    std::fs::write(&packed, [gzip(&export()), zeros.repeat(512)].concat()).unwrap();
    let mut server = Command::new("Xvfb");
    server.args(["-displayfd", "1", "-screen", "0", "800x600x24", "-nolisten", "tcp"]).stderr(Stdio::null());
    let Ok(mut server) = server.stdout(Stdio::piped()).spawn() else {
        eprintln!("skipped: Xvfb is not installed");
        return;
    };
    let mut display = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().unwrap()), &mut display).unwrap();
    let mut window = Command::new(env!("CARGO_BIN_EXE_lacuna"));
    window.arg("--allow-any-ratio").arg(&packed).env("DISPLAY", format!(":{}", display.trim()));
    window.env_remove("WAYLAND_DISPLAY").env("LIBGL_ALWAYS_SOFTWARE", "1").env("TMPDIR", &folder);
    window.env("HOME", &folder).env("XDG_DATA_HOME", folder.join("data")).env("XDG_CACHE_HOME", folder.join("cache"));
    let mut window = window.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let grows = |copy: &PathBuf| copy.join("export.sqlite").exists();
    while !copies(&folder).iter().any(grows) && began.elapsed() < SOON && window.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let was_loading = copies(&folder).iter().any(grows) && window.try_wait().unwrap().is_none();
    server.kill().unwrap();
    server.wait().unwrap();
    if !was_loading {
        let _ = window.kill();
        window.wait().unwrap();
        eprintln!("skipped: no window opens here");
        return;
    }
    while window.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < 2 * SOON, "the window does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(copies(&folder), Vec::<PathBuf>::new());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_export_that_is_killed_leaves_the_old_file_or_the_new() {
    let folder = scratch("faults-killed");
    let out = folder.join("t.json");
    let command = |seed: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
        command.args(["sample", "kineto", "--scale", "3", "--overwrite", "--seed", seed, "--out"]).arg(&out);
        command
    };
    let made = ["1", "2"].map(|seed| {
        assert!(command(seed).status().unwrap().success());
        std::fs::read(&out).unwrap()
    });
    let began = Instant::now();
    assert!(command("1").status().unwrap().success());
    let whole = began.elapsed().as_micros() as usize;
    let mut dice = Dice(7);
    for i in 0..10 {
        let mut child = command(if i % 2 == 0 { "2" } else { "1" }).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(dice.below(whole) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(made.contains(&std::fs::read(&out).unwrap()), "neither the old nor the new file");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Not a test of its own: the program that the tests below kill, or that finds its disk full.
#[test]
#[ignore = "run by the other tests of this file"]
fn writes_settings() {
    let path = PathBuf::from(std::env::var_os("LACUNA_TEST_SETTINGS").unwrap());
    let n = std::env::var("LACUNA_TEST_TIMES").unwrap().parse().unwrap();
    lacuna::capture::fail_writes_at_the_limit();
    let (mut file, _, _) = SettingsFile::open(&path);
    for i in 0..n {
        let recent = (0..8).map(|k| PathBuf::from(format!("/{i}/{k}"))).collect();
        let written = file.write(&Settings { recent, ..Settings::default() }.to_json());
        // Nothing that a full disk ends may end the program.
        if let Err(error) = written {
            eprintln!("not written: {error}");
        }
    }
}

/// The words that run it `n` times.
fn settings_writer(path: &Path, n: u32) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "faults::writes_settings", "--ignored", "--nocapture"]);
    command.env("LACUNA_TEST_SETTINGS", path).env("LACUNA_TEST_TIMES", n.to_string());
    command.stdout(Stdio::null());
    command
}

#[test]
fn settings_that_are_killed_are_the_old_or_the_new() {
    let folder = scratch("faults-settings");
    let path = folder.join("settings.json");
    assert!(settings_writer(&path, 1).status().unwrap().success());
    let mut dice = Dice(3);
    for _ in 0..8 {
        let mut child = settings_writer(&path, 1_000_000).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(20_000 + dice.below(60_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let (_, stored, problem) = SettingsFile::open(&path);
        assert_eq!(problem, None);
        let recent = stored.unwrap()["recent"].as_array().unwrap().clone();
        // All of one writing, before which stands what was there.
        assert!(recent.len() >= 8, "{recent:?}");
    }
    assert!(files(&folder).iter().all(|path| !name(path).contains(".bad")));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Runs the program where no file may become longer than so many blocks of 512 or 1024 bytes.
fn on_a_full_disk(folder: &Path, blocks: u32, words: &[&std::ffi::OsStr]) -> (Option<i32>, String) {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_lacuna")]);
    let output = limited.args(words).env("TMPDIR", folder).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_private_copy_on_a_full_disk_is_a_sentence() {
    let folder = scratch("faults-copy-full");
    let packed = folder.join("t.sqlite.gz");
    std::fs::write(&packed, gzip(&export())).unwrap();
    // A rollback journal beside it has the export copied as well.
    let open = folder.join("open.sqlite");
    std::fs::write(&open, export()).unwrap();
    std::fs::write(folder.join("open.sqlite-journal"), b"journal").unwrap();
    for path in [&packed, &open] {
        let (code, text) = on_a_full_disk(&folder, 10, &["check".as_ref(), path.as_os_str()]);
        let expected = format!("nothing can be written in {}: File too large", folder.display());
        assert!(code == Some(3) && text.contains(&expected), "{code:?} {text}");
        assert_eq!(copies(&folder), Vec::<PathBuf>::new());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The cache of converted reports, when the converter writes, and when it has written and says nothing.
#[test]
fn a_report_that_is_converted_on_a_full_disk_is_a_sentence() {
    let folder = scratch("faults-cache-full");
    let report = folder.join("run.nsys-rep");
    std::fs::write(&report, "NVIDIA Tegra Profiler Report 2023@4@4@54-1v0.").unwrap();
    let nsys = folder.join("nsys");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'version 2023.4.4' && exit 0\ncat \"$EXPORT\" > \"$7\"\n";
    // Written by another process: were it open for writing here while another test forks, it could not be run.
    let write = "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"";
    assert!(Command::new("sh").args(["-c", write, "sh", script]).arg(&nsys).status().unwrap().success());
    let cache = folder.join("cache");
    for blocks in ["0", "10"] {
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -f \"$1\"; exec \"$0\" check --nsys \"$2\" \"$3\"", env!("CARGO_BIN_EXE_lacuna")]);
        limited.arg(blocks).arg(&nsys).arg(&report).env("XDG_CACHE_HOME", &cache);
        let output = limited.env("EXPORT", project().join("sample_traces/nsys_5_steps.sqlite")).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let expected = format!("nothing can be written in {}", cache.join("lacuna/nsys").display());
        assert!(output.status.code() == Some(3) && text.contains(&expected), "{blocks}: {:?} {text}", output.status);
        assert!(text.contains("File too large") && text.contains("set XDG_CACHE_HOME"), "{blocks}: {text}");
        assert_eq!(std::fs::read_dir(cache.join("lacuna/nsys")).unwrap().count(), 0, "{blocks}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn exports_on_a_full_disk_leave_what_was_there() {
    let folder = scratch("faults-export-full");
    let input = project().join("sample_traces/kineto_10_steps.json.gz");
    let out = folder.join("out");
    std::fs::write(&out, b"before").unwrap();
    let [report, render, sample] = [
        ["report", "--format", "json", "--out"].as_slice(),
        &["render", "--view", "timeline", "--out"],
        &["sample", "kineto", "--overwrite", "--out"],
    ];
    for (words, has_input) in [(report, true), (render, true), (sample, false)] {
        let mut words: Vec<&std::ffi::OsStr> = words.iter().map(AsRef::as_ref).collect();
        words.push(out.as_os_str());
        words.extend(has_input.then_some(input.as_os_str()));
        let (code, text) = on_a_full_disk(&folder, 4, &words);
        assert!(code == Some(2) && text.contains("File too large"), "{words:?}: {code:?} {text}");
        assert_eq!(std::fs::read(&out).unwrap(), b"before", "{words:?}");
        assert_eq!(files(&folder), [out.as_path()], "{words:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_capture_on_a_full_disk_runs_its_program_and_says_so() {
    let folder = scratch("faults-capture-full");
    let run = folder.join("run");
    let program = "head -c 300000 /dev/zero | tr '\\0' a; echo ran >&2; exit 7";
    let words: [&std::ffi::OsStr; 7] = [
        "capture".as_ref(),
        "--out".as_ref(),
        run.as_os_str(),
        "--".as_ref(),
        "sh".as_ref(),
        "-c".as_ref(),
        program.as_ref(),
    ];
    let (code, text) = on_a_full_disk(&folder, 40, &words);
    assert!(code == Some(7) && text.contains("ran") && text.contains("could not be written to"), "{code:?} {text}");
    let manifest = std::fs::read(run.join("run.json")).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&manifest).is_ok());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn settings_on_a_full_disk_stay_as_they_were() {
    let folder = scratch("faults-full");
    let path = folder.join("settings.json");
    assert!(settings_writer(&path, 1).status().unwrap().success());
    let before = std::fs::read(&path).unwrap();
    let writer = settings_writer(&path, 3);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""]).arg(writer.get_program()).args(writer.get_args());
    limited.envs(writer.get_envs().filter_map(|(key, value)| Some((key, value?)))).stdout(Stdio::null());
    let output = limited.stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("not written: File too large"), "{:?} {text}", output.status);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(files(&folder).iter().all(|path| !name(path).ends_with(".tmp")));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// As many exports as there are ranks may be open at once, with their details.
#[test]
fn more_exports_are_read_than_files_may_be_open() {
    let folder = scratch("faults-many");
    let first = folder.join("0.sqlite");
    std::fs::write(&first, export()).unwrap();
    let n = 220;
    (1..n).for_each(|i| std::fs::hard_link(&first, folder.join(format!("{i}.sqlite"))).unwrap());
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 200; exec \"$0\" check --format json \"$1\"", env!("CARGO_BIN_EXE_lacuna")]);
    let output = limited.arg(&folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.is_empty(), "{:?} {text}", output.status);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["files"].as_array().unwrap().len(), n);
    std::fs::remove_dir_all(&folder).unwrap();
}
