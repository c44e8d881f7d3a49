//! The fake `nsys` of these tests is a shell script.
#![cfg(unix)]

mod raw;

use std::process::Command;
use std::time::Instant;

use super::*;
use crate::capture::launch::write_program;
use crate::capture::scratch::Scratch;
use crate::job::{Job, Poll};

/// A folder with a report in it, a place for `nsys` and one for the cache.
struct Bench {
    folder: tempfile::TempDir,
    options: Options,
}

impl Bench {
    /// `script` is what the fake `nsys` does when asked to export; it knows 2023.4.
    fn new(script: &str) -> Self {
        let answer = "NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0";
        Self::with_script(&format!("if [ \"$1\" = --version ]; then echo '{answer}'; exit 0; fi\n{script}"))
    }

    fn with_script(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        write_program(&bin.join("nsys"), script);
        let mut report = b"NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0.".to_vec();
        report.resize(4000, 7);
        std::fs::write(folder.path().join("run one.nsys-rep"), report).unwrap();
        let search = SearchPaths { chosen: None, path: vec![bin], current: None, root: folder.path().join("root") };
        let cache = Some(folder.path().join("cache/nsys"));
        let options = Options { search, cache, cache_limit: 1 << 30, patience: Duration::from_secs(60) };
        Self { folder, options }
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("run one.nsys-rep")
    }

    fn open(&self) -> Result<Openable, ConvertError> {
        openable(&self.report(), &self.options, &Progress::default())
    }

    /// The sentence of a conversion that must fail.
    fn failure(&self) -> String {
        match self.open() {
            Err(ConvertError::Failed(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    /// Names of what is in the cache.
    fn cached(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.options.cache.as_ref().unwrap()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Writes its arguments beside its output, and a database's first bytes as output.
const WORKS: &str = r#"
shift 6; out="$1"
echo run >> "$(dirname "$(dirname "$out")")/../runs"
printf 'SQLite format 3\000rest' > "$out"
echo "Processing [====100%]"
"#;

/// Whether a process runs that was given `word` as an argument.
fn is_running(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes()))
}

#[test]
fn a_report_is_converted_once_and_nothing_is_left_beside_it() {
    let bench = Bench::new(WORKS);
    let opened = bench.open().unwrap();
    assert_eq!(opened.path.file_name().unwrap(), "run one.sqlite");
    assert!(opened.path.starts_with(bench.options.cache.as_ref().unwrap()));
    assert!(is_database(&opened.path));
    assert!(opened.origin.as_ref().unwrap().converter.contains("2023.4.4.54"));
    let again = bench.open().unwrap();
    assert_eq!(again.path, opened.path);
    let runs = || std::fs::read_to_string(bench.folder.path().join("cache/runs")).unwrap().lines().count();
    assert_eq!(runs(), 1);
    // A report that changed is another.
    std::fs::File::options().append(true).open(bench.report()).unwrap().set_len(4001).unwrap();
    assert_ne!(bench.open().unwrap().path, opened.path);
    assert_eq!(runs(), 2);
    let mut beside: Vec<_> = std::fs::read_dir(bench.folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    beside.sort();
    assert_eq!(beside, ["bin", "cache", "run one.nsys-rep"]);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&opened.path.parent().unwrap().metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
    let mut traces = [Trace::default()];
    opened.claim(&bench.report(), &mut traces);
    assert_eq!(traces[0].info.path, bench.report());
    assert!(traces[0].import.problems[0].reason.contains("nsys 2023.4.4.54"));
}

#[test]
fn other_files_are_opened_as_they_are() {
    let bench = Bench::new("exit 1");
    let plain = bench.folder.path().join("trace.nsys-rep");
    std::fs::write(&plain, "[{}]").unwrap();
    for path in [plain, bench.folder.path().join("absent"), PathBuf::from("/dev/zero")] {
        let opened = openable(&path, &bench.options, &Progress::default()).unwrap();
        assert_eq!((opened.path, opened.origin.is_none()), (path, true));
    }
}

#[test]
fn output_of_a_failed_nsys_is_reported() {
    let bench = Bench::new("printf 'one\\ntwo \\377\\033[31m\\nProcessing 10%%\\rProcessing 20%%\\n' >&2; exit 1");
    let text = bench.failure();
    assert!(text.contains("exit status: 1") && text.contains("one\ntwo \u{fffd}[31m\nProcessing 20%"), "{text}");
    assert!(!text.contains('\u{1b}'));
    let bench = Bench::new("i=0; while [ $i -lt 99 ]; do i=$((i+1)); echo line $i; done; exit 3");
    let text = bench.failure();
    assert!(text.contains("line 80\n") && text.contains("line 99") && !text.contains("line 79\n"), "{text}");
    assert!(bench.cached().is_empty(), "{:?}", bench.cached());
}

#[test]
fn an_invalid_export_is_refused() {
    let text = Bench::new("exit 0").failure();
    assert!(text.contains("wrote no database") && text.ends_with("It said nothing"), "{text}");
    let text = Bench::new("shift 6; echo garbage > \"$1\"").failure();
    assert!(text.contains("wrote no database"), "{text}");
}

#[test]
fn cancelling_ends_the_process_group() {
    let word = format!("86{}", std::process::id());
    let bench = Bench::new(&format!("sleep {word} & sleep {word}"));
    let (report, options) = (bench.report(), bench.options.clone());
    let convert = move |progress: &Progress| openable(&report, &options, progress).map(|opened| opened.path);
    let job = Job::spawn("convert", || {}, convert).unwrap();
    while !is_running(&word) {
        std::thread::yield_now();
    }
    let asked = Instant::now();
    job.progress.cancel();
    let outcome = loop {
        match job.poll() {
            Poll::Running => std::thread::yield_now(),
            Poll::Done(outcome) => break outcome,
            Poll::Crashed(text) => panic!("{text}"),
        }
    };
    let took = asked.elapsed();
    assert!(matches!(outcome, Err(ConvertError::Cancelled)), "{outcome:?}");
    assert!(took < Duration::from_millis(200), "{took:?}");
    // What was killed is gone once its parent, or the system's first process, has noticed.
    while is_running(&word) && asked.elapsed() < Duration::from_secs(5) {
        std::thread::yield_now();
    }
    assert!(!is_running(&word));
    assert!(bench.cached().is_empty());
}

#[test]
fn one_that_hangs_is_ended() {
    let mut bench = Bench::new("sleep 77");
    bench.options.patience = Duration::from_millis(200);
    let text = bench.failure();
    assert!(text.contains("made no progress"), "{text}");
}

#[test]
fn orphaned_processes_are_ended() {
    let word = format!("87{}", std::process::id());
    let bench = Bench::new(&format!("sleep {word} &\n{WORKS}"));
    bench.open().unwrap();
    let started = Instant::now();
    while is_running(&word) && started.elapsed() < Duration::from_secs(5) {
        std::thread::yield_now();
    }
    assert!(!is_running(&word));
}

#[test]
fn an_old_nsys_is_not_tried_and_a_newer_one_is_found() {
    let old = "echo 'NVIDIA Nsight Systems version 2022.4.2.1-df9881f'; exit 0";
    let mut bench = Bench::with_script(old);
    let text = bench.failure();
    assert!(text.contains("report of Nsight Systems 2023.4") && text.contains("nsys found here is 2022.4"), "{text}");
    let wanted = "run `nsys export --type sqlite --output 'run one.sqlite' 'run one.nsys-rep'`";
    assert!(text.contains("2023.4 or newer is installed") && text.contains(wanted), "{text}");
    // Versions are numbers: 2023.10 is newer than 2023.4.
    let works = format!("[ \"$1\" = --version ] && echo 'Nsight Systems version 2023.10.1' && exit 0\n{WORKS}");
    for (version, script) in [("2023.10.1", works.as_str()), ("2023.4.1", "exit 9"), ("2022.1", "exit 9")] {
        let folder = bench.folder.path().join("root/opt/nvidia/nsight-systems").join(version);
        write_program(&folder.join("target-linux-x64/nsys"), script);
    }
    let candidates = bench.options.search.candidates();
    assert_eq!(candidates.len(), 4);
    assert!(candidates[0].ends_with("bin/nsys") && candidates[1].to_string_lossy().contains("2023.10.1"));
    assert!(bench.open().unwrap().origin.unwrap().converter.contains("2023.10.1.0"));
    // The user's choice is the only one; what another made is not lost with it.
    bench.options.search.chosen = Some(bench.folder.path().join("bin/nsys"));
    assert!(bench.converter().contains("2023.10.1"));
    bench.options.cache = Some(bench.folder.path().join("another"));
    assert!(bench.failure().contains("2022.4"));
}

#[test]
fn without_nsys_the_error_says_what_to_do() {
    let mut bench = Bench::new(WORKS);
    bench.options.search.path = vec![PathBuf::from("."), PathBuf::from("bin"), PathBuf::new()];
    let text = bench.failure();
    assert!(text.contains("no nsys was found here (looked in PATH"), "{text}");
    assert!(text.contains("nsys export --type sqlite"), "{text}");
    // An export beside the report is offered, not opened.
    let export = bench.folder.path().join("run one.sqlite");
    std::fs::write(&export, "").unwrap();
    assert!(bench.failure().contains("nsys export --type sqlite"), "an empty file is no export");
    std::fs::write(&export, "SQLite format 3\0").unwrap();
    assert!(bench.failure().ends_with("Beside it lies run one.sqlite, which is newer: open that file"));
    std::fs::File::options().append(true).open(&export).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    assert!(bench.failure().contains("nsys export --type sqlite"));
}

#[test]
fn a_program_in_the_current_folder_is_not_taken() {
    let mut bench = Bench::new(WORKS);
    assert_eq!(bench.options.search.candidates().len(), 1);
    bench.options.search.current = Some(bench.folder.path().join("bin"));
    assert!(bench.options.search.candidates().is_empty());
    // Nor under another name of the folder.
    bench.options.search.path.push(bench.folder.path().join("bin/../bin"));
    assert!(bench.options.search.candidates().is_empty());
}

#[test]
fn arguments_are_not_run_as_commands() {
    let mut bench = Bench::new(WORKS);
    let evil = bench.folder.path().join("; touch X $(touch Y).nsys-rep");
    std::fs::rename(bench.report(), &evil).unwrap();
    let opened = openable(&evil, &bench.options, &Progress::default()).unwrap();
    assert!(is_database(&opened.path));
    let names = || std::fs::read_dir(opened.path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names().all(|name| name != "X" && name != "Y"));
    bench.options.search.path.clear();
    bench.options.cache = Some(bench.folder.path().join("another"));
    let Err(ConvertError::Failed(text)) = openable(&evil, &bench.options, &Progress::default()) else { panic!() };
    assert!(text.contains("'; touch X $(touch Y).nsys-rep'"), "{text}");
}

#[test]
fn the_cache_evicts_the_least_recently_used_export() {
    let mut bench = Bench::new(WORKS);
    let first = bench.open().unwrap().path;
    let note = first.with_file_name("made-of.txt");
    std::fs::File::options().append(true).open(note).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    bench.options.cache_limit = 10;
    let other = bench.folder.path().join("other.nsys-rep");
    std::fs::copy(bench.report(), &other).unwrap();
    let second = openable(&other, &bench.options, &Progress::default()).unwrap().path;
    assert!(!first.exists() && second.exists());
}

/// An `nsys` that says this version; `export` is what it does when asked to export.
fn answering(version: &str, export: &str) -> String {
    format!("[ \"$1\" = --version ] && echo 'NVIDIA Nsight Systems version {version}' && exit 0\n{export}")
}

impl Bench {
    /// One without `nsys` in the path, but with these installed.
    fn installed(versions: &[(&str, &str)]) -> Self {
        let bench = Self::new("exit 9");
        std::fs::remove_dir_all(bench.folder.path().join("bin")).unwrap();
        versions.iter().for_each(|(version, export)| bench.install(version, export));
        bench
    }

    fn install(&self, version: &str, export: &str) {
        let folder = self.folder.path().join("root/opt/nvidia/nsight-systems").join(version);
        write_program(&folder.join("target-linux-x64/nsys"), &answering(version, export));
    }

    fn converter(&self) -> String {
        self.open().unwrap().origin.unwrap().converter
    }
}

#[test]
fn the_recorder_is_tried_first_then_the_newest_and_the_next_when_one_fails() {
    let bench = Bench::installed(&[("2023.4.4.54", "exit 7"), ("2024.1.1", WORKS), ("2025.3.1", "exit 8")]);
    assert!(bench.converter().contains("2024.1.1"));
    let bench = Bench::installed(&[("2023.4.4.54", WORKS), ("2024.1.1", WORKS)]);
    assert!(bench.converter().contains("2023.4.4.54"));
    let bench = Bench::installed(&[("2023.4.5", WORKS), ("2024.1.1", WORKS)]);
    assert!(bench.converter().contains("2024.1.1"));
    let bench = Bench::installed(&[("2023.4.4.54", "exit 7"), ("2025.3.1", "echo no; exit 8"), ("2022.1", WORKS)]);
    let text = bench.failure();
    assert!(text.contains("exit status: 7") && text.contains("exit status: 8") && text.ends_with("no"), "{text}");
}

#[test]
fn the_cache_serves_without_nsys_and_not_instead_of_a_new_one() {
    let mut bench = Bench::installed(&[("2024.1.1", WORKS)]);
    let opened = bench.open().unwrap();
    let mut traces = [Trace::default()];
    opened.claim(&bench.report(), &mut traces);
    assert_eq!(traces[0].info.producer, "Nsight Systems 2023.4.4.54");
    bench.install("2025.1.1", "exit 7");
    // The new one fails, the old one converts again; then nothing is tried anew.
    assert!(bench.converter().contains("2024.1.1"));
    bench.install("2026.1.1", WORKS);
    assert!(bench.converter().contains("2026.1.1"));
    let other = bench.folder.path().join("root/opt/nvidia/nsight-systems/2024.1.1/target-linux-x64/nsys");
    bench.options.search.chosen = Some(other);
    assert!(bench.converter().contains("2024.1.1"));
    let runs = std::fs::read_to_string(bench.folder.path().join("cache/runs")).unwrap();
    assert!(bench.converter().contains("2024.1.1"));
    assert_eq!(std::fs::read_to_string(bench.folder.path().join("cache/runs")).unwrap(), runs);
    std::fs::remove_dir_all(bench.folder.path().join("root")).unwrap();
    assert!(bench.converter().contains("2024.1.1"));
    bench.options.search.chosen = None;
    assert_eq!(bench.open().unwrap().path, opened.path);
}

#[test]
fn the_choice_is_a_path_a_name_or_a_folder() {
    let bench = Bench::installed(&[("2023.4.4", WORKS), ("2025.1.1", WORKS)]);
    let root = bench.folder.path();
    write_program(&root.join("tools/nsys-new"), "exit 0");
    let mut search = SearchPaths { current: Some(root.to_owned()), ..bench.options.search.clone() };
    search.path = vec![root.join("tools")];
    let mut found = |chosen: &str| {
        search.chosen = Some(PathBuf::from(chosen));
        search
            .candidates()
            .iter()
            .map(|nsys| nsys.strip_prefix(root).unwrap().display().to_string())
            .collect::<Vec<_>>()
    };
    let installed = |version: &str| format!("root/opt/nvidia/nsight-systems/{version}/target-linux-x64/nsys");
    assert_eq!(found("nsys-new"), ["tools/nsys-new"]);
    assert_eq!(found("tools/nsys-new"), ["tools/nsys-new"]);
    assert_eq!(found("./tools/nsys-new"), ["tools/nsys-new"]);
    assert_eq!(found("root/opt/nvidia/nsight-systems"), [installed("2025.1.1"), installed("2023.4.4")]);
    assert_eq!(found("root/opt/nvidia/nsight-systems/2023.4.4/"), [installed("2023.4.4")]);
    assert_eq!(found(&root.join("tools/nsys-new").display().to_string()), ["tools/nsys-new"]);
    for none in ["", "nsys", "tools", "tools/absent", "bin/nsys"] {
        assert!(found(none).is_empty(), "{none}");
    }
    // However it is written, it has the name by which the cache knows it.
    search.chosen = Some(PathBuf::from("./tools/./nsys-new"));
    assert_eq!(search.candidates()[0].as_os_str(), root.join("tools/nsys-new").as_os_str());
}

#[test]
fn progress_is_the_percentage_of_nsys() {
    let bench =
        Bench::new("printf '\\rProcessing 43 events: [   1%%  ]\\rProcessing 43 events: [==  37%%   ]'; sleep 88");
    let (report, options) = (bench.report(), bench.options.clone());
    let job = Job::spawn("convert", || {}, move |progress| openable(&report, &options, progress).map(|_| ())).unwrap();
    let started = Instant::now();
    while job.progress.get() != (37, 100) {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    assert_eq!(job.progress.phase(), "Converting with nsys 2023.4");
}

#[test]
fn leftovers_of_a_killed_lacuna_are_removed_and_those_of_a_living_one_are_not() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("nsys");
    std::fs::create_dir(&folder).unwrap();
    let living = Scratch::new(&folder).unwrap();
    let dead = folder.join("part-dead");
    std::fs::create_dir(&dead).unwrap();
    std::fs::write(dead.join("lock"), "").unwrap();
    std::fs::write(dead.join("run.sqlite"), "half").unwrap();
    let mut orphan = Command::new("sleep").arg("600").env("LACUNA_RUN", &dead).spawn().unwrap();
    crate::capture::scratch::remove_abandoned(&folder);
    assert!(!orphan.wait().unwrap().success());
    assert!(living.path().is_dir() && !dead.exists());
}

#[test]
fn a_report_that_nsys_did_not_finish_is_told_beside_those_that_it_did() {
    let folder = tempfile::tempdir().unwrap();
    let said = || Profile::default().notes(folder.path(), &crate::capture::launch::Output::default()).join("\n");
    std::fs::write(folder.path().join("report-1.nsys-rep"), "").unwrap();
    prepare(folder.path()).unwrap();
    assert!(!said().contains("did not finish"), "{}", said());
    std::fs::write(folder.path().join("nsys/tmp/nsys-report-9007.qdstrm"), "").unwrap();
    assert!(said().contains("did not finish") && said().contains("nsys/tmp/nsys-report-9007.qdstrm"), "{}", said());
    clean(folder.path());
    assert!(folder.path().join("nsys/tmp").is_dir());
    // Without any report, it is all that there is.
    std::fs::remove_file(folder.path().join("report-1.nsys-rep")).unwrap();
    let kept = "nsys made no report; its raw data is kept, and can be opened where its QdstrmImporter is installed: ";
    assert!(said().starts_with(kept) && said().ends_with("nsys/tmp/nsys-report-9007.qdstrm"), "{}", said());
}
