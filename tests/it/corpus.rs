//! Reads a corpus of damaged and hostile files, one per kind of damage, and checks the result of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use lacuna::model::{Severity, Trace};

use super::support::{Failure, beside, has_python, read, scratch, unbalanced};

const CLASSES: [&str; 7] =
    ["json_syntax", "json_semantics", "compression", "display_export", "sqlite", "pickle", "snapshot_meaning"];

/// Slices that must be shown of databases, which the manifest does not count: each has 2,000 API calls
/// and 2,000 kernels, but for what its case takes away or adds.
const KEPT: [(&str, usize); 18] = [
    ("SQ01", 4_000),
    ("SQ02", 2_000),
    ("SQ03", 4_000),
    ("SQ04", 4_000),
    ("SQ05", 4_000),
    ("SQ06", 4_000),
    ("SQ07", 2_001),
    ("SQ08", 2_002),
    ("SQ09", 2_000),
    ("SQ10", 2_000),
    ("SQ11", 2_000),
    ("SQ12", 4_000),
    ("SQ13", 0),
    ("SQ14", 0),
    // Two pages of kernels are gone.
    ("SQ22", 3_752),
    ("SQ25", 4_001),
    ("SQ26", 4_000),
    ("SQ27", 4_000),
];

/// One file of the corpus and what it must get.
struct Case {
    id: String,
    class: String,
    path: PathBuf,
    outcome: String,
    /// Slices to be shown: a number, `<N` for some but fewer, or nothing.
    kept: String,
    /// Slices to be rejected.
    dropped: String,
}

impl Case {
    /// Whether the case is about slices; memory snapshots have none.
    fn kept_is_counted(&self) -> bool {
        !matches!(self.class.as_str(), "pickle" | "snapshot_meaning")
    }
}

/// True of the snapshot from which all cases are made: it holds a block that no event names.
const BEFORE: &str = "Live at the end, but allocated before the recording began";

/// What a refusal must say.
const REFUSED: [(&str, &str); 13] = [
    ("PK07", "asks to run code, which no memory snapshot does (GLOBAL at byte 0, os.system)"),
    ("PK08", "(STACK_GLOBAL at byte 17, posix.system)"),
    ("PK09", "(INST at byte 9)"),
    ("PK10", "(GLOBAL at byte 2, builtins.object)"),
    ("PK11", "(BINPERSID at byte 5)"),
    ("PK14", "Not a memory snapshot: a list"),
    ("PK16", "more than 16 MiB at byte 2"),
    ("PK17", "ends early"),
    ("PK18", "damaged at byte 2"),
    ("PK20", "without lists of segments"),
    ("PK21", "memo index beyond"),
    ("PK26", "0 bytes"),
    ("SN22", "without lists of segments"),
];

/// Bytes that are allocated and reserved at the end, where they are not those of the snapshot from which
/// all cases are made.
const AT_THE_END: [(&str, (u64, u64)); 2] = [("SN04", (0, 0)), ("PK25", (512, 2 << 20))];

/// Cases whose nesting was repaired: nothing is missing, so what is said is a note, not the warning of the corpus.
const REPAIRED: [&str; 3] = ["JM11", "JM12", "JM18"];

/// The corpus, generated once a run; `None` where its generator or Python is absent.
fn corpus() -> Option<&'static [Case]> {
    static CORPUS: OnceLock<Option<Vec<Case>>> = OnceLock::new();
    CORPUS.get_or_init(generate).as_deref()
}

fn generate() -> Option<Vec<Case>> {
    let generator = beside("bench/gen_corpus.py")?;
    if !has_python() {
        return None;
    }
    let folder = scratch("corpus");
    let output = Command::new("python3").arg(generator).arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest = std::fs::read_to_string(folder.join("MANIFEST.tsv")).unwrap();
    let case = |line: &str| {
        let field: Vec<_> = line.split('\t').map(str::to_owned).collect();
        CLASSES.contains(&field[1].as_str()).then(|| Case {
            id: field[0].clone(),
            class: field[1].clone(),
            path: folder.join(&field[1]).join(&field[2]),
            outcome: field[4].clone(),
            kept: field[5].clone(),
            dropped: field[6].clone(),
        })
    };
    Some(manifest.lines().skip(1).filter_map(case).collect())
}

/// What is wrong with how a file was read, if anything is.
fn check(case: &Case) -> Result<(), String> {
    let traces = match (read(&case.path), case.outcome.as_str()) {
        (Err(Failure::Refused(error)), "REJECT" | "ASK") => {
            let text = error.to_string();
            let why = REFUSED.iter().find(|known| known.0 == case.id).map_or("", |known| known.1);
            return if text.contains(why) {
                check_sentence(&text)
            } else {
                Err(format!("does not say {why:?}: {text}"))
            };
        }
        (Ok(traces), "REJECT" | "ASK") => return Err(format!("opened as {} traces", traces.len())),
        (Err(failure), _) => return Err(format!("{failure:?}")),
        (Ok(traces), _) => traces,
    };
    if let Some(text) = traces.iter().find_map(|trace| unbalanced(&trace.import)) {
        return Err(text);
    }
    let problems_of = traces.iter().flat_map(|trace| &trace.import.problems);
    let unplanned = problems_of.filter(|problem| case.kept_is_counted() || problem.reason != BEFORE);
    let worst = unplanned.map(|problem| problem.severity).max();
    let is_right = match case.outcome.as_str() {
        "LOAD" => worst.is_none(),
        "LOAD_INFO" => worst.is_none_or(|worst| worst == Severity::Note),
        _ if REPAIRED.contains(&case.id.as_str()) => worst == Some(Severity::Note),
        _ => worst.is_some_and(|worst| worst >= Severity::Warn),
    };
    if !is_right {
        return Err(format!("should be {}, has {worst:?}: {}", case.outcome, problems(&traces)));
    }
    if !case.kept_is_counted() {
        return check_memory(case, &traces);
    }
    let kept: usize = traces.iter().map(|trace| trace.slices.ts.len()).sum();
    let is_right = match (case.kept.strip_prefix('<'), case.kept.parse::<usize>()) {
        (Some(limit), _) => kept > 0 && kept < limit.parse().unwrap(),
        (None, Ok(wanted)) => kept == wanted,
        (None, Err(_)) => KEPT.contains(&(case.id.as_str(), kept)),
    };
    if !is_right {
        return Err(format!("{kept} slices, should be {}: {}", case.kept, problems(&traces)));
    }
    // The corpus counts slices; arrows that lead nowhere are rejected too, but hold no time.
    let arrows = |trace: &Trace| -> u64 {
        let arrows = trace.import.problems.iter().filter(|problem| problem.reason.starts_with("Arrow"));
        arrows.map(|problem| problem.count).sum()
    };
    let rejected: u64 = traces.iter().map(|trace| trace.import.rejected.saturating_sub(arrows(trace))).sum();
    if case.dropped.parse().is_ok_and(|dropped: u64| dropped != rejected) {
        return Err(format!("{rejected} rejected, should be {}: {}", case.dropped, problems(&traces)));
    }
    Ok(())
}

/// What is wrong with the memory of a snapshot: sums below zero, or an end that is not the file's own.
fn check_memory(case: &Case, traces: &[Trace]) -> Result<(), String> {
    let [Trace { memories, .. }] = traces else { return Err(format!("{} traces", traces.len())) };
    let [memory] = memories.as_slice() else { return Err(format!("{} devices", memories.len())) };
    let curves = &memory.curves;
    let all = [&curves.allocated, &curves.active, &curves.requested, &curves.reserved];
    // A sum below zero wraps around.
    if all.iter().any(|curve| curve.iter().any(|&bytes| bytes > 1 << 48)) {
        return Err("bytes below zero".to_owned());
    }
    let last = memory.last_state() as usize;
    let end = (curves.allocated[last], curves.reserved[last]);
    let wanted = AT_THE_END.iter().find(|known| known.0 == case.id).map_or((1024, 2 << 20), |known| known.1);
    (end == wanted).then_some(()).ok_or_else(|| format!("{end:?} at the end, should be {wanted:?}"))
}

#[test]
fn a_snapshot_is_the_same_in_every_protocol() {
    let Some(cases) = corpus() else { return };
    let same = ["PK01", "PK02", "PK03", "PK04", "PK05", "PK06", "PK12", "PK23", "PK28", "PK30"];
    let histories: Vec<_> = cases
        .iter()
        .filter(|case| same.contains(&case.id.as_str()))
        .map(|case| {
            let trace = read(&case.path).unwrap().remove(0);
            let strings: Vec<_> = trace.strings.iter().map(|(_, text)| text.to_owned()).collect();
            (format!("{:?} {:?} {:?}", trace.memories, trace.import.tables, trace.info.facts), strings)
        })
        .collect();
    assert_eq!(histories.len(), same.len());
    assert!(histories.iter().all(|history| *history == histories[0]));
}

fn check_sentence(text: &str) -> Result<(), String> {
    let is_sentence = text.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
        && !text.ends_with('.')
        && text.contains(' ')
        && text.chars().count() < 400
        && !text.chars().any(char::is_control);
    is_sentence.then_some(()).ok_or_else(|| format!("not a sentence for a person: {text:?}"))
}

fn problems(traces: &[Trace]) -> String {
    let all = traces.iter().flat_map(|trace| &trace.import.problems);
    all.map(|problem| format!("{} x {}", problem.count, problem.reason)).collect::<Vec<_>>().join("; ")
}

/// Every file below a folder with its size: reading must not change it.
fn listing(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            found.extend(listing(&entry.path()));
        } else {
            found.insert(entry.path(), entry.metadata().unwrap().len());
        }
    }
    found
}

#[test]
fn each_corpus_file_has_the_expected_result() {
    let Some(cases) = corpus() else { return };
    let folder = cases[0].path.ancestors().nth(2).unwrap();
    let before = listing(folder);
    let wrong: Vec<_> = cases
        .iter()
        .filter_map(|case| check(case).err().map(|text| format!("{} {}: {text}", case.id, case.path.display())))
        .collect();
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(cases.len() > 160, "only {} files were generated", cases.len());
    assert_eq!(before, listing(folder), "reading left something beside the files");
}

/// In a process of its own, with little memory and stack: an abort would show here.
#[test]
fn the_program_survives_hostile_files() {
    let Some(cases) = corpus() else { return };
    let hostile = [
        "JS26", "JS27", "JS30", "JM34", "JM35", "GZ01", "GZ07", "GZ08", "GZ11", "DX02", "SQ09", "SQ11", "SQ12", "SQ15",
        "SQ22", "SQ26", "PK14", "PK15", "PK16", "PK17", "PK19", "PK21", "PK22", "SN18",
    ];
    let mut n_run = 0;
    for case in cases.iter().filter(|case| hostile.contains(&case.id.as_str())) {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -s 512 && ulimit -v 3000000 && exec \"$0\" check \"$1\""]);
        let output = command.arg(env!("CARGO_BIN_EXE_lacuna")).arg(&case.path).output().unwrap();
        let expected = if ["REJECT", "ASK"].contains(&case.outcome.as_str()) { 3 } else { 0 };
        assert_eq!(output.status.code(), Some(expected), "{}: {output:?}", case.id);
        let said = [output.stdout, output.stderr].concat();
        assert!(!said.contains(&0x1b), "{}: a raw escape reached the terminal", case.id);
        n_run += 1;
    }
    assert_eq!(n_run, hostile.len());
}

/// What the recorder's environment held is nowhere in what we print.
#[test]
fn the_recorded_environment_is_not_printed() {
    let Some(case) = corpus().and_then(|cases| cases.iter().find(|case| case.id == "SQ27")) else { return };
    let bytes = std::fs::read(&case.path).unwrap();
    let is_there = |text: &[u8], word: &str| text.windows(word.len()).any(|window| window == word.as_bytes());
    assert!(is_there(&bytes, "TOKEN"), "the case holds no secret");
    for args in [&["check"][..], &["report"], &["report", "--format", "json"], &["report", "--format", "csv"]] {
        let mut args: Vec<&std::ffi::OsStr> = args.iter().map(std::ffi::OsStr::new).collect();
        args.push(case.path.as_os_str());
        let output = super::support::lacuna(&args);
        assert!(output.status.success());
        assert!(!is_there(&[output.stdout, output.stderr].concat(), "TOKEN"), "{args:?} tells it");
    }
    let traces = read(&case.path).unwrap();
    let strings = &traces[0].strings;
    assert!((0..strings.len() as u32).all(|id| !strings.get(lacuna::model::StringId(id)).contains("TOKEN")));
    assert!(traces[0].info.facts.iter().all(|fact| !format!("{fact:?}").contains("TOKEN")));
}
