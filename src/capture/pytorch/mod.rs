//! Recording by torch.profiler in unmodified Python programs.
//!
//! A `sitecustomize` first on `PYTHONPATH` waits in each Python process of the run until it imports torch, and then
//! starts a recorder there; so the command runs as it is, whoever launches its workers. What the recorder does is in
//! `assets/capture/`.
//!
//! A loop of small kernels on an H100 takes 6.2 to 10.5 us a launch alone and 12.6 to 17.5 us recorded, without stacks.

mod interpreter;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use interpreter::Interpreter;

const RECORDER: &str = include_str!("../../../assets/capture/lacuna_capture.py");

/// What is recorded of a program that uses PyTorch. Its fields are the configuration that the recorder reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Whether traces are recorded; memory snapshots can be all that is.
    pub trace: bool,
    /// Record from the import of torch to the end, instead of some steps.
    pub whole: bool,
    /// Steps before the profiler, counted from the first; at least that one.
    pub wait: u32,
    /// Steps with the profiler on whose events are discarded.
    pub warmup: u32,
    /// Steps in each trace.
    pub active: u32,
    /// How many traces.
    pub repeat: u32,
    /// Ranks that are recorded; `None` is all.
    pub ranks: Option<BTreeSet<u32>>,
    #[serde(flatten)]
    pub contents: Contents,
    /// The allocator's history, with a snapshot at the end and when memory runs out.
    pub memory: bool,
    /// Maximum number of events in that history.
    pub memory_entries: u32,
}

/// What PyTorch's profiler puts into a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Contents {
    pub record_shapes: bool,
    /// Python call stacks; they slow the host down.
    pub with_stack: bool,
    /// Allocations as events of the trace.
    pub profile_memory: bool,
    pub with_flops: bool,
    pub with_modules: bool,
}

impl Default for Contents {
    fn default() -> Self {
        Self { record_shapes: true, with_stack: false, profile_memory: false, with_flops: false, with_modules: false }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            trace: true,
            whole: false,
            wait: 1,
            warmup: 1,
            active: 5,
            repeat: 1,
            ranks: Some(BTreeSet::from([0])),
            contents: Contents::default(),
            memory: false,
            memory_entries: 100_000,
        }
    }
}

impl Options {
    /// That a process ended before all steps of its first trace, if it has one: a sentence.
    fn cut_short(&self, process: &Process) -> Option<String> {
        let before = u64::from(self.wait.max(1)) + u64::from(self.warmup);
        let Process { pid, rank, steps, state, results, .. } = process;
        let has_trace = results.iter().any(|name| name.starts_with("trace-"));
        let is_cut =
            self.trace && !self.whole && has_trace && state == "ended" && *steps < before + u64::from(self.active);
        is_cut.then(|| {
            format!(
                "Process {pid} (rank {rank}) ended after {} of an optimizer: its trace holds {} of {}, and what ran after. \
                 Recording begins after {}: begin earlier, or record the whole run (--whole)",
                steps_of(*steps),
                steps.saturating_sub(before),
                steps_of(self.active.into()),
                steps_of(before)
            )
        })
    }

    /// Records the steps `first..end`, counted from 0, after one step of warm-up where there is room for it.
    pub fn set_steps(&mut self, first: u32, end: u32) {
        // The first step shows where steps are, so the second is the first that can be recorded.
        let first = first.max(1);
        self.warmup = u32::from(first > 1);
        self.wait = first - self.warmup;
        self.active = end.saturating_sub(first).max(1);
        self.repeat = 1;
    }

    fn checked(&self) -> Self {
        Self { wait: self.wait.max(1), active: self.active.max(1), repeat: self.repeat.max(1), ..self.clone() }
    }
}

/// Ranks as people write them, `0,4-7`; nothing if the text is not that, or names more than 100,000.
pub fn ranks(text: &str) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last - first < 100_000).then(|| all.extend(first..=last))?;
    }
    Some(all)
}

/// Ranks as [`ranks`] reads them, `all` for `None`.
pub fn ranks_text(ranks: Option<&BTreeSet<u32>>) -> String {
    let Some(ranks) = ranks else { return "all".to_owned() };
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let text = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    runs.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// How far one process of the run came, as its recorder says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Process {
    pub pid: u32,
    pub rank: u32,
    /// waiting, recording, writing, recorded, ended or skipped.
    pub state: String,
    /// Optimizer steps when this was written.
    pub steps: u64,
    pub torch: String,
    pub results: Vec<String>,
    pub problems: Vec<String>,
}

impl Process {
    /// Whether it is one to tell of: not one that only started others, as torchrun is, which has no rank of its own.
    pub fn has_worked(&self) -> bool {
        let has_nothing = self.steps == 0 && self.results.is_empty() && self.problems.is_empty();
        !(has_nothing && matches!(&*self.state, "waiting" | "ended"))
    }
}

/// The folder of the recorder in that of a run; it belongs first on `PYTHONPATH`.
pub fn place(folder: &Path) -> PathBuf {
    folder.join("python")
}

/// Writes the recorder with its configuration into the run's folder.
///
/// Errors: it cannot be written.
pub fn prepare(folder: &Path, options: &Options) -> std::io::Result<()> {
    install(folder, RECORDER)?;
    std::fs::write(place(folder).join("config.json"), serde_json::to_string(&options.checked())?)
}

/// Writes a module into the run's folder whose `start` each Python process of the run calls once it has torch.
///
/// Errors: it cannot be written.
pub fn install(folder: &Path, module: &str) -> std::io::Result<()> {
    let place = place(folder);
    std::fs::create_dir(&place)?;
    std::fs::write(place.join("sitecustomize.py"), include_str!("../../../assets/capture/sitecustomize.py"))?;
    std::fs::write(place.join("lacuna_capture.py"), module)
}

/// The `PYTHONPATH` that has Python find what was installed, before what it is `set` to; nothing where the folder
/// has a colon in its path.
pub fn environment(folder: &Path, set: Option<OsString>) -> Option<(OsString, OsString)> {
    let set = set.filter(|set| !set.is_empty());
    let others = set.iter().flat_map(std::env::split_paths);
    let all = std::env::join_paths(std::iter::once(place(folder)).chain(others)).ok()?;
    Some(("PYTHONPATH".into(), all))
}

/// Why Python would not see the recorder, if the command says so: a sentence.
pub fn obstacle(argv: &[OsString]) -> Option<String> {
    let program = Path::new(argv.first()?).file_name()?.to_string_lossy();
    if !program.starts_with("python") && !program.starts_with("pypy") {
        return None;
    }
    for option in argv[1..].iter().map(|option| option.to_string_lossy()) {
        let letters = option.strip_prefix('-').filter(|letters| !letters.starts_with('-') && !letters.is_empty())?;
        if let Some(letter) = letters.chars().take_while(|&c| c != 'm' && c != 'c').find(|&c| "IES".contains(c)) {
            return Some(format!(
                "python -{letter} ignores PYTHONPATH or sitecustomize, by which Lacuna records: run it without \
                 -{letter}"
            ));
        }
        if letters.contains(['m', 'c', 'W', 'X']) {
            return None;
        }
    }
    None
}

/// How far each process of a run came, by rank.
pub fn processes(folder: &Path) -> Vec<Process> {
    let entries = std::fs::read_dir(folder.join("processes")).into_iter().flatten().flatten();
    let is_whole = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let read = |path: PathBuf| serde_json::from_slice(&std::fs::read(path).ok()?).ok();
    let mut found: Vec<Process> = entries.map(|entry| entry.path()).filter(is_whole).filter_map(read).collect();
    found.sort_by_key(|process| (process.rank, process.pid));
    found
}

/// Whether a process of the run is writing what it recorded, which may take minutes.
pub fn is_writing(folder: &Path) -> bool {
    processes(folder).iter().any(|process| process.state == "writing")
}

/// Sentences about what is missing after a run, and what to do; nothing if all went well.
pub fn notes(folder: &Path, options: &Options) -> Vec<String> {
    let processes = processes(folder);
    let mut notes = Vec::new();
    for process in &processes {
        for problem in &process.problems {
            notes.push(format!("Process {} (rank {}): {problem}", process.pid, process.rank));
        }
        let died = |what: &str| {
            let Process { pid, rank, steps, .. } = process;
            format!("Process {pid} (rank {rank}) ended {what} after {steps} or more steps, so nothing of that was kept")
        };
        match process.state.as_str() {
            "recording" => notes.push(died("without Python's own end (a crash, os._exit or SIGKILL) while recording")),
            "writing" => notes.push(died("while it wrote its trace")),
            _ => {}
        }
        notes.extend(options.cut_short(process));
    }
    let mut results = processes.iter().flat_map(|process| &process.results).peekable();
    if results.peek().is_some() || !notes.is_empty() {
        let has_results = results.peek().is_some();
        if options.memory && has_results && !results.any(|name| name.ends_with(".pickle")) {
            notes.push("No memory snapshot was recorded: the program did not use CUDA".to_owned());
        }
        return notes;
    }
    let most = processes.iter().map(|process| process.steps).max();
    notes.extend(match most {
        None => Some("Nothing was recorded: no Python process of this run imported torch".to_owned()),
        Some(_) if processes.iter().any(|process| process.state == "skipped") => {
            Some("Nothing was recorded: no process had one of the chosen ranks".to_owned())
        }
        Some(_) if options.trace && options.whole => {
            Some("Nothing was recorded: no process of this run that imported torch ran an operator of it".to_owned())
        }
        Some(0) if options.trace => Some(
            "Nothing was recorded: no step of an optimizer was seen; record the whole run instead (--whole)".to_owned(),
        ),
        Some(steps) if options.trace => Some(format!(
            "Nothing was recorded: the program ended after {} of an optimizer, and the recording begins after {}",
            steps_of(steps),
            steps_of(u64::from(options.wait) + u64::from(options.warmup)),
        )),
        Some(_) => {
            Some("Nothing was recorded: the program did not use CUDA, whose memory was to be recorded".to_owned())
        }
    });
    notes
}

fn steps_of(n: u64) -> String {
    if n == 1 { "1 step".to_owned() } else { format!("{n} steps") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_steps_is_a_schedule() {
        // (first, end) to (wait, warmup, active): the steps before the first are waited for or warm up.
        for (steps, expected) in
            [((10, 15), (9, 1, 5)), ((2, 3), (1, 1, 1)), ((1, 4), (1, 0, 3)), ((0, 4), (1, 0, 3)), ((5, 5), (4, 1, 1))]
        {
            let mut options = Options::default();
            options.set_steps(steps.0, steps.1);
            assert_eq!((options.wait, options.warmup, options.active), expected, "{steps:?}");
        }
    }

    #[test]
    fn ranks_are_numbers_and_ranges() {
        assert_eq!(ranks("0, 4-6,5"), Some(BTreeSet::from([0, 4, 5, 6])));
        for wrong in ["", "a", "1-", "3-1", "-1", "0-4000000000"] {
            assert_eq!(ranks(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn flags_of_python_that_hide_the_recorder_are_told() {
        let of = |line: &[&str]| obstacle(&line.iter().map(OsString::from).collect::<Vec<_>>());
        for line in [&["python3", "-I", "t.py"] as &[_], &["/usr/bin/python3.12", "-uE", "t.py"], &["python", "-S"]] {
            assert!(of(line).unwrap().contains("ignores PYTHONPATH"), "{line:?}");
        }
        for line in [
            &["python3", "t.py", "-I"] as &[_],
            &["python3", "-m", "mod", "-E"],
            &["torchrun", "-I"],
            &["python3", "-mIES"],
        ] {
            assert_eq!(of(line), None, "{line:?}");
        }
        assert_eq!(obstacle(&[]), None);
    }

    #[test]
    fn a_process_that_only_starts_others_is_not_told_of() {
        let is_told = |text: &str| serde_json::from_str::<Process>(text).unwrap().has_worked();
        assert!(!is_told(r#"{"pid":7,"state":"ended","steps":0,"torch":"2.0.1"}"#), "torchrun");
        assert!(!is_told(r#"{"pid":7,"state":"waiting","steps":0}"#));
        for text in [
            r#"{"pid":7,"state":"waiting","steps":1}"#,
            r#"{"pid":7,"state":"ended","steps":3}"#,
            r#"{"pid":7,"state":"ended","results":["memory-rank0.pickle"]}"#,
            r#"{"pid":7,"state":"ended","problems":["no room"]}"#,
            r#"{"pid":7,"state":"skipped"}"#,
            r#"{"pid":7,"state":"recording"}"#,
        ] {
            assert!(is_told(text), "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let said = || notes(folder.path(), &Options::default()).join("\n");
        assert!(said().contains("no Python process"));
        std::fs::create_dir(folder.path().join("processes")).unwrap();
        let tell = |text: &str| std::fs::write(folder.path().join("processes/7.json"), text).unwrap();
        tell(r#"{"pid":7,"state":"ended","steps":0}"#);
        assert!(said().contains("no step of an optimizer"));
        tell(r#"{"pid":7,"state":"ended","steps":2}"#);
        assert!(said().contains("after 2 steps"));
        tell(r#"{"pid":7,"state":"skipped","steps":1}"#);
        assert!(said().contains("chosen ranks"));
        tell(r#"{"pid":7,"state":"recording","steps":2}"#);
        assert!(said().contains("os._exit"));
        tell(r#"{"pid":7,"state":"ended","steps":9,"results":["a"]}"#);
        assert_eq!(said(), "");
        tell(r#"{"pid":7,"state":"ended","steps":4,"results":["trace-rank0-1.pt.trace.json"]}"#);
        assert!(said().contains("ended after 4 steps of an optimizer: its trace holds 2 of 5 steps"), "{}", said());
        tell(r#"{"pid":7,"state":"ended","steps":7,"results":["trace-rank0-1.pt.trace.json"]}"#);
        assert_eq!(said(), "");
        let with_memory = Options { memory: true, ..Options::default() };
        assert!(notes(folder.path(), &with_memory).join("\n").contains("No memory snapshot was recorded"));
        tell(r#"{"pid":7,"state":"ended","steps":9,"results":["a","memory-rank0.pickle"]}"#);
        assert_eq!(notes(folder.path(), &with_memory), [""; 0]);
    }
}
