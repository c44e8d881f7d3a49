//! Feeds every reader, and every analysis behind it, with inputs changed at random and checks what must hold for all of
//! them.
//!
//! A bounded run is part of the tests. A long one: `LACUNA_FUZZ=3600 cargo test --test it fuzz` runs each target for
//! that many seconds, from `LACUNA_FUZZ_SEED` on (default 1), and says how many inputs it tried. Inputs that fail are
//! kept under `target/tmp/fuzz-failed`.

mod archive;
mod chrome;
mod nsys;
mod snapshot;
mod texts;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser as _;
use lacuna::analysis::rules::Thresholds;
use lacuna::cli::{Cli, Headless, report};
use lacuna::job::Progress;
use lacuna::model::{SliceId, Trace};
use lacuna::reader::{self, ReadError};
use rayon::ThreadPool;

use super::cost::{self, Cost};
use super::mutate::mutate;
use super::support::{Dice, files, lacuna, name, unbalanced};

/// A reader with inputs that it can read and words of its format.
struct Target {
    name: &'static str,
    file: &'static str,
    seeds: Vec<Vec<u8>>,
    words: &'static [&'static [u8]],
    /// Bytes of which the format is made as a whole, or 1; 0 leaves all changes to `pack`.
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
/// The same in a long run.
const AGAIN_LONG: usize = 32;
/// Of every so many all is reported, together with some that were read before.
const REPORTED: usize = 16;
/// The same in a long run.
const REPORTED_LONG: usize = 256;
/// Most traces that are reported together.
const TOGETHER: usize = 3;
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
        for (i, &source) in (0..).zip(trace.slices.source.iter().take(20)) {
            // What is damaged has a sentence in place of details.
            let _ = details.event(source, trace.recorded_start(SliceId(i)));
        }
    }
}

/// Threads with small stacks.
fn threads(n: usize) -> ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(n).stack_size(512 << 10).build().unwrap()
}

/// Reads a file; the cost is that of this thread.
fn read(path: &Path, has_details: bool) -> (Found, Cost) {
    cost::measured(|| {
        let found = reader::read(path, &Progress::default());
        if let Ok(traces) = found.as_deref()
            && has_details
        {
            look_at_details(traces);
        }
        found
    })
}

/// Ends the program if an input takes too long; inputs are counted in `n`. Ends by itself once the count stops.
fn watch(name: &'static str, path: &Path, n: &Arc<AtomicU64>) {
    let (path, n) = (path.to_owned(), Arc::downgrade(n));
    let watch = move || {
        let (mut last, mut since) = (0, Instant::now());
        while let Some(n) = n.upgrade() {
            let now = n.load(Ordering::Relaxed);
            drop(n);
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > HUNG {
                eprintln!("{name}: input {now} of this run has no end after {HUNG:?}; it is in {}", path.display());
                std::process::abort();
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    std::thread::Builder::new().name("watch".to_owned()).spawn(watch).unwrap();
}

/// What a report may be asked for.
const QUESTIONS: [&[&str]; 7] = [
    &["--format", "json", "--top", "0", "--by-shape"],
    &["--format", "text", "--memory-at", "event 1", "--memory-at", "1us"],
    &["--format", "html", "--kernels-by", "shape"],
    &["--format", "markdown", "--kernels-by", "short"],
    &["--format", "csv"],
    &["--format", "text"],
    &["--format", "text", "--all", "--out", "x"],
];

/// All analyses of these traces together; twice the same.
fn check_report(traces: &[Arc<Trace>], question: &[&str]) {
    let words = ["lacuna", "report", "x"].iter().chain(question);
    let Some(Headless::Report(args)) = Cli::parse_from(words).command else { panic!("not a report") };
    let ask =
        || report::answer(&args, Thresholds::default(), traces, &[]).map(|(text, _)| text).map_err(|it| it.to_string());
    let answered = ask();
    assert_eq!(ask(), answered, "another report the second time");
    let text = match answered {
        Ok(text) => text,
        Err(why) => return assert!(why.contains("is outside of the recording"), "{why}"),
    };
    if question.contains(&"json") {
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["files"].as_array().map(Vec::len), Some(traces.len()));
        assert_eq!(super::support::wrong_shares(&report), Vec::<String>::new());
    }
}

/// The same in bounded time.
fn check_report_in_time(traces: &[Arc<Trace>], n: usize) {
    let (_, cost) = cost::measured(|| check_report(traces, QUESTIONS[n % QUESTIONS.len()]));
    assert!(cost.time < TOO_LONG, "the report took {:?}", cost.time);
}

/// Checks what must hold for the file at `path`; returns what it cost, and its traces.
fn check(target: &Target, several: &ThreadPool, path: &Path, is_again: bool) -> (Cost, Vec<Trace>) {
    let (found, cost) = read(path, true);
    if let Ok(traces) = &found {
        traces.iter().for_each(|trace| assert_eq!(unbalanced(&trace.import), None));
    }
    if is_again {
        let first = answer(&found);
        assert_eq!(answer(&read(path, false).0), first, "another answer the second time");
        assert_eq!(answer(&several.install(|| read(path, false)).0), first, "another answer on several cores");
    }
    let bytes = std::fs::metadata(path).unwrap().len() as usize;
    let most = FIXED + target.memory * bytes;
    assert!(cost.peak <= most, "{} bytes of memory for {bytes} bytes, at most {most} were expected", cost.peak);
    assert!(cost.time < TOO_LONG, "took {:?}", cost.time);
    (cost, found.unwrap_or_default())
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
    // The shorter of two: most inputs are small.
    let seed = |dice: &mut Dice| &target.seeds[dice.below(target.seeds.len())];
    let (one, other) = (seed(&mut dice), seed(&mut dice));
    let mut bytes = if other.len() < one.len() { other.clone() } else { one.clone() };
    if n > 1 && target.page > 0 {
        mutate(&mut bytes, target.words, &target.seeds, target.page, &mut dice);
    }
    (target.pack)(bytes, &mut dice)
}

/// An empty folder, in memory where the system has one there: a disk takes longer than to read a small file.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
    tempfile::Builder::new().prefix("lacuna-fuzz-").tempdir_in(root).unwrap()
}

/// Tries inputs on one thread with a small stack.
fn run(target: &Target) {
    threads(1).install(|| try_inputs(target));
}

fn try_inputs(target: &Target) {
    let first = std::env::var("LACUNA_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1_u64);
    let long = seconds();
    let (again, reported, by_program) = match long {
        Some(_) => (AGAIN_LONG, REPORTED_LONG, BY_PROGRAM_LONG),
        None => (AGAIN, REPORTED, BY_PROGRAM),
    };
    let folder = folder();
    let failed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-failed");
    let path = folder.path().join(target.file);
    let mut dice = Dice(first);
    let several = threads(3);
    let tried = Arc::new(AtomicU64::new(0));
    watch(target.name, &path, &tried);
    let began = Instant::now();
    let (mut n, mut n_failed, mut told, mut most) = (0, 0, 0, Cost::default());
    let (mut n_read, mut together) = (0_u64, Vec::new());
    while long.map_or(n < target.n, |seconds| began.elapsed().as_secs() < seconds) {
        let number = first.wrapping_add(n as u64);
        std::fs::write(&path, input(target, number)).unwrap();
        let checked = catch_unwind(AssertUnwindSafe(|| {
            let (cost, traces) = check(target, &several, &path, n % again == 0);
            most = most.max(cost);
            n_read += u64::from(!traces.is_empty());
            if n % reported < TOGETHER {
                together.extend(traces.into_iter().take(TOGETHER).map(Arc::new));
            }
            if n % reported == TOGETHER - 1 {
                together.truncate(dice.below(2 * TOGETHER));
                check_report_in_time(&std::mem::take(&mut together), n / reported);
            }
            if n % by_program == 0 {
                check_by_program(&path);
            }
        }));
        let left: Vec<_> = files(folder.path()).iter().map(|path| name(path)).collect();
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
        tried.store(n as u64, Ordering::Relaxed);
        let minutes = began.elapsed().as_secs() / 60;
        if minutes > told {
            told = minutes;
            eprintln!("{}: {n} inputs, {n_failed} failed, in {minutes} min", target.name);
        }
    }
    let took = began.elapsed();
    eprintln!("{}: {n} inputs from seed {first}, {n_read} of them read, in {took:?}; at most {most:?}", target.name);
    assert_eq!(n_failed, 0, "{}: inputs that failed are kept in {}", target.name, failed.display());
}

fn plain(bytes: Vec<u8>, _: &mut Dice) -> Vec<u8> {
    bytes
}
