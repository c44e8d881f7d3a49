//! Does each odd or hostile file get what it must? One file for each kind of damage.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use lacuna::model::{Severity, Trace};

use super::support::{Failure, beside, has_python, read, scratch, unbalanced};

const CLASSES: [&str; 5] = ["json_syntax", "json_semantics", "compression", "display_export", "sqlite"];

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
    path: PathBuf,
    outcome: String,
    /// Slices to be shown: a number, `<N` for some but fewer, or nothing.
    kept: String,
    /// Slices to be rejected.
    dropped: String,
}

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
        (Err(Failure::Refused(error)), "REJECT" | "ASK") => return check_sentence(&error.to_string()),
        (Ok(traces), "REJECT" | "ASK") => return Err(format!("opened as {} traces", traces.len())),
        (Err(failure), _) => return Err(format!("{failure:?}")),
        (Ok(traces), _) => traces,
    };
    if let Some(text) = traces.iter().find_map(|trace| unbalanced(&trace.import)) {
        return Err(text);
    }
    let worst = traces.iter().filter_map(|trace| trace.import.worst()).max();
    let is_right = match case.outcome.as_str() {
        "LOAD" => worst.is_none(),
        "LOAD_INFO" => worst.is_none_or(|worst| worst == Severity::Note),
        _ => worst.is_some_and(|worst| worst >= Severity::Loss),
    };
    if !is_right {
        return Err(format!("should be {}, has {worst:?}: {}", case.outcome, problems(&traces)));
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
fn each_odd_file_gets_what_it_must() {
    let Some(cases) = corpus() else { return };
    let folder = cases[0].path.ancestors().nth(2).unwrap();
    let before = listing(folder);
    let wrong: Vec<_> = cases
        .iter()
        .filter_map(|case| check(case).err().map(|text| format!("{} {}: {text}", case.id, case.path.display())))
        .collect();
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(cases.len() > 110, "only {} files were generated", cases.len());
    assert_eq!(before, listing(folder), "reading left something beside the files");
}

/// In a process of its own, with little memory and stack: an abort would show here.
#[test]
fn the_program_survives_hostile_files() {
    let Some(cases) = corpus() else { return };
    let hostile = [
        "JS26", "JS27", "JS30", "JM34", "JM35", "GZ01", "GZ07", "GZ08", "GZ11", "DX02", "SQ09", "SQ11", "SQ12", "SQ15",
        "SQ22", "SQ26",
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
fn the_recorded_environment_is_not_told() {
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
