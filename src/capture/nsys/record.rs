//! Recording by `nsys profile` in any program.
//!
//! `nsys` starts the program in a session of its own, and writes the report once it has ended. Whoever stops the run
//! signals the program and lets `nsys` write. What belongs to the program has a variable that `nsys` itself has not;
//! helpers that `nsys` leaves behind know the run by its mark, or by the name of its session.
//!
//! Seen with nsys 2023.4.4: a signal to its process group ends its helpers, so that no report comes; a signal to it
//! alone ends the recording, and it does not wait for a program that goes on. `--duration` ends it likewise, so
//! Lacuna counts delays and durations itself and says `nsys start` and `nsys stop`.

use std::ffi::{OsStr, OsString};
use std::io::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::SearchPaths;
use crate::capture::launch::{Output, words};
use crate::capture::{members, registry};

const TMP: &str = "TMPDIR";
/// Set in the program, and in nothing else of a run.
const PROGRAM: &str = "LACUNA_PROGRAM";
/// The option for variables of the program, with commas between.
const VARIABLES: &str = "--env-var=";
/// Set to 0, it lets a range begin the recording whose name was not registered: PyTorch registers none.
const REGISTERED_ONLY: &str = "NSYS_NVTX_PROFILER_REGISTER_ONLY";
/// `nsys` makes sockets in its temporary folder, whose names have 108 bytes at most, 20 of them by `nsys`.
const MAX_SOCKET_FOLDER: usize = 80;

/// What is recorded, as options of `nsys profile`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// The `nsys` that records.
    #[serde(skip)]
    pub program: PathBuf,
    /// The interfaces that are traced, with commas between.
    pub trace: String,
    pub range: Range,
    /// The name of the range, for [`Range::Nvtx`]: `name`, `name@domain` or `name@*`.
    pub nvtx_range: String,
    /// Whether recording starts and stops by the user's word.
    pub by_hand: bool,
    /// Seconds before the recording starts.
    pub delay: u32,
    /// Seconds to record, after which the program continues; 0 is to its end.
    pub duration: u32,
    /// Allocations of device memory.
    pub memory_usage: bool,
    /// Hardware counters of all GPUs.
    pub gpu_metrics: bool,
    /// Samples of the call stacks of threads, and when threads run.
    pub sampling: bool,
    /// Nodes of CUDA graphs, instead of graphs as a whole.
    pub graph_nodes: bool,
    /// Further options of `nsys profile`.
    pub others: Vec<String>,
}

/// What begins and ends the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Range {
    /// Start and end of the program.
    #[default]
    Program,
    /// Calls of cudaProfilerStart and cudaProfilerStop.
    CudaProfilerApi,
    /// A range of NVTX.
    Nvtx,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            program: PathBuf::new(),
            trace: "cuda,nvtx,osrt".to_owned(),
            range: Range::Program,
            nvtx_range: String::new(),
            by_hand: false,
            delay: 0,
            duration: 0,
            memory_usage: false,
            gpu_metrics: false,
            sampling: false,
            graph_nodes: false,
            others: Vec::new(),
        }
    }
}

impl Profile {
    /// Whether Lacuna starts and stops the recording while the program runs.
    pub fn is_switched(&self) -> bool {
        self.by_hand || self.delay > 0 || self.duration > 0
    }

    /// Whether it traces anything of CUDA.
    pub fn traces_cuda(&self) -> bool {
        self.trace.split(',').any(|traced| traced.starts_with("cu"))
    }

    /// Why `nsys` cannot record this command: a sentence. `folders`: where it runs, and where results go.
    pub fn obstacle(&self, argv: &[OsString], folders: [&Path; 2]) -> Option<String> {
        if !crate::capture::is_program(&self.program) {
            return Some(format!("There is no nsys that can be run: {}", self.program.display()));
        }
        let mut given = argv.iter().map(OsString::as_os_str).chain(folders.map(Path::as_os_str));
        if given.any(|word| word.to_str().is_none()) {
            return Some(
                "nsys takes no arguments or folders that are not UTF-8: record with something else".to_owned(),
            );
        }
        if self.is_switched() && self.range != Range::Program {
            let text = "A recording begins by a range of the program, or by time or hand: not by both";
            return Some(text.to_owned());
        }
        (self.range == Range::Nvtx && self.nvtx_range.is_empty())
            .then(|| "The NVTX range at which the recording begins has no name".to_owned())
    }

    /// `nsys profile` with its options and the program. `tmp` is the program's own folder for temporary files.
    pub fn command(&self, folder: &Path, argv: &[OsString], tmp: Option<&OsStr>) -> Vec<OsString> {
        let flag = |is: bool, option: &str| is.then(|| option.to_owned());
        let mut words: Vec<OsString> = vec![self.program.clone().into(), "profile".into()];
        words.push(format!("--session-new={}", session(folder)).into());
        // The first recording that is switched on goes here, whatever `nsys start` says.
        words.push(output_option(folder, if self.is_switched() { "report-1" } else { "report" }));
        // Without a run-time limit of its own, nsys ends when the program does, whatever that left behind.
        let options = [
            Some("--wait=primary".to_owned()),
            Some("--kill=none".to_owned()),
            Some(format!("--trace={}", self.trace)),
            Some(format!("--sample={}", if self.sampling { "process-tree" } else { "none" })),
            Some(format!("--cpuctxsw={}", if self.sampling { "process-tree" } else { "none" })),
            flag(self.memory_usage, "--cuda-memory-usage=true"),
            flag(self.graph_nodes, "--cuda-graph-trace=node"),
            flag(self.gpu_metrics, "--gpu-metrics-device=all"),
            flag(self.range == Range::CudaProfilerApi, "--capture-range=cudaProfilerApi"),
            flag(self.range == Range::Nvtx, "--capture-range=nvtx"),
            (self.range == Range::Nvtx).then(|| format!("--nvtx-capture={}", self.nvtx_range)),
            flag(self.range != Range::Program, "--capture-range-end=stop"),
            flag(self.is_switched(), "--start-later=true"),
        ];
        words.extend(options.into_iter().flatten().map(OsString::from));
        // nsys takes this option once.
        let (variables, others): (Vec<&String>, Vec<&String>) =
            self.others.iter().partition(|option| option.starts_with(VARIABLES));
        words.extend(others.into_iter().map(OsString::from));
        let mut own = OsString::from(VARIABLES);
        if own_tmp(folder, tmp).is_some() {
            own.push(format!("{TMP}="));
            own.push(tmp.unwrap_or(OsStr::new("/tmp")));
            own.push(",");
        }
        variables.iter().for_each(|option| own.push(format!("{},", &option[VARIABLES.len()..])));
        // The last: nsys 2023.4 refuses a value that is as long as all before it, with the comma.
        own.push(format!("{PROGRAM}=1"));
        words.push(own);
        words.extend(argv.iter().cloned());
        words
    }

    /// What `nsys` and the program find in their environment. `value` is a variable as the program sees it without
    /// Lacuna.
    pub fn environment(&self, folder: &Path, value: impl Fn(&str) -> Option<OsString>) -> Vec<(OsString, OsString)> {
        let tmp = own_tmp(folder, value(TMP).as_deref()).map(|own| (TMP.into(), own.into_os_string()));
        let is_asked = self.range == Range::Nvtx && value(REGISTERED_ONLY).is_none();
        tmp.into_iter().chain(is_asked.then(|| (REGISTERED_ONLY.into(), "0".into()))).collect()
    }

    /// `nsys start` or `nsys stop` for a run, in its environment; each recording has a number.
    pub fn switch(&self, folder: &Path, is_on: bool, number: u32, tmp: Option<&OsStr>) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(if is_on { "start" } else { "stop" }).arg(format!("--session={}", session(folder)));
        if is_on {
            command.arg(output_option(folder, &format!("report-{number}")));
        }
        command.envs(self.environment(folder, |name| tmp.filter(|_| name == TMP).map(OsStr::to_owned)));
        command
    }

    /// Sentences about what is missing after a run, and what to do; one where there is no report.
    pub fn notes(&self, folder: &Path, output: &Output) -> Vec<String> {
        let said = || output.lines().iter().map(|line| line.text.trim());
        let mut notes: Vec<String> = said().filter_map(known_message).collect();
        notes.dedup();
        let is_report = |path: PathBuf| path.extension().is_some_and(|extension| extension == "nsys-rep");
        let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let has_report = entries.any(|entry| is_report(entry.path()));
        if has_report {
            notes.extend(raw(folder).map(|raw| {
                format!("nsys did not finish a report, as where the program ends while it writes; {}", kept(&raw))
            }));
            return notes;
        }
        if let Some(raw) = raw(folder).next() {
            notes.push(format!("nsys made no report; {}", kept(&raw)));
        }
        // It says why, and then how it is used; the program never ran.
        let is_refusal = said().any(|line| line.starts_with("usage: nsys"));
        let refused = said().find(|line| is_refusal && !line.is_empty());
        let why = match self.range {
            _ if !notes.is_empty() => return notes,
            _ if refused.is_some() => format!("it refused its options: {}", refused.unwrap_or_default()),
            Range::CudaProfilerApi if !has_driver() => {
                "cudaProfilerStart begins the recording, and there is no NVIDIA driver here".to_owned()
            }
            Range::CudaProfilerApi => "the program never called cudaProfilerStart".to_owned(),
            Range::Nvtx => format!("the program never opened the range {}", self.nvtx_range),
            Range::Program if self.by_hand => "the recording was never started".to_owned(),
            Range::Program if self.delay > 0 => format!("the program ended within {} s", self.delay),
            Range::Program => {
                let last = output.tail(1).join(" ");
                let last = last.trim_end_matches('.');
                let last =
                    if last.is_empty() { "it said nothing".to_owned() } else { format!("the last line was: {last}") };
                format!("{last}. Run the command line of this run in a shell to see whether nsys works alone")
            }
        };
        vec![format!("nsys wrote no report: {why}")]
    }
}

/// The `nsys` that records: the user's choice, else the first that is found.
///
/// Errors: there is none, and how to get one, as a sentence.
pub fn recorder(chosen: Option<PathBuf>) -> std::result::Result<PathBuf, String> {
    let search = SearchPaths::of_machine(chosen);
    search.candidates().into_iter().next().ok_or_else(|| {
        format!(
            "No nsys was found (looked in {}): install Nsight Systems (https://developer.nvidia.com/nsight-systems), or record with something else",
            search.described()
        )
    })
}

/// What a message of `nsys` means for the user, if it is about something that is missing.
fn known_message(line: &str) -> Option<String> {
    const KNOWN: [(&str, &str); 6] = [
        ("None of the installed GPUs are supported", "nsys can sample the metrics of no GPU here: record without them"),
        (
            "ERR_NVGPUCTRPERM",
            "This user may not sample GPU metrics: let an administrator set NVreg_RestrictProfilingToAdminUsers=0, or \
             record without them",
        ),
        (
            "perf_event_paranoid",
            "This system does not let nsys sample threads: `sudo sysctl kernel.perf_event_paranoid=2` allows it",
        ),
        ("sampling not supported, disabling", "nsys could not sample threads here; everything else was recorded"),
        ("No space left on device", "The disk was full, so that nsys could not write its report"),
        ("Executable not found", "nsys did not find the program"),
    ];
    KNOWN.iter().find(|(part, _)| line.contains(part)).map(|(_, meaning)| (*meaning).to_owned())
}

/// Whether the system has a driver of NVIDIA, that of WSL and of Tegra included.
pub fn has_driver() -> bool {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.any(|name| ["nvidia", "nvhost", "nvmap", "dxg"].iter().any(|start| name.starts_with(start)))
}

/// The folder in which `nsys` works, in that of a run.
fn place(folder: &Path) -> PathBuf {
    folder.join("nsys")
}

fn output_option(folder: &Path, name: &str) -> OsString {
    let path = place(folder).join(name).into_os_string();
    let mut option = OsString::from("--output=");
    // A percent sign begins a pattern.
    match path.to_str() {
        Some(path) => option.push(path.replace('%', "%%")),
        None => option.push(path),
    }
    option
}

/// The name of the session of a run, unlike that of any other.
fn session(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(60).collect();
    format!("lacuna-{}-{name}", std::process::id())
}

/// The temporary folder of `nsys`, where the program's own can be given back to it.
fn own_tmp(folder: &Path, tmp: Option<&OsStr>) -> Option<PathBuf> {
    let own = place(folder).join("tmp");
    // Commas separate the variables that nsys gives to the program.
    let can_restore = tmp.is_none_or(|tmp| tmp.to_str().is_some_and(|tmp| !tmp.contains(',')));
    (own.as_os_str().len() <= MAX_SOCKET_FOLDER && can_restore).then_some(own)
}

/// Makes the folders in which `nsys` works.
pub fn prepare(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(place(folder).join("tmp"))
}

/// Moves the reports that are whole into the folder of the run, which shows them.
pub fn take_reports(folder: &Path) {
    for entry in std::fs::read_dir(place(folder)).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "nsys-rep") {
            // What cannot be moved stays.
            _ = std::fs::rename(entry.path(), folder.join(entry.file_name()));
        }
    }
}

/// Removes what `nsys` needed only while it ran; raw data of which it made no report stays.
pub fn clean(folder: &Path) {
    if raw(folder).next().is_none() {
        registry::remove(&place(folder));
    }
}

/// That there is raw data, and what to do with it.
fn kept(raw: &Path) -> String {
    format!("its raw data is kept, and can be opened where its QdstrmImporter is installed: {}", words::path_text(raw))
}

/// Raw data of which `nsys` made no report.
fn raw(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(place(folder).join("tmp")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|extension| extension == "qdstrm"))
}

/// The processes of the program, without those of `nsys`: these keep the environment that Lacuna gave them, and a
/// program may write over its own.
#[cfg(unix)]
pub fn program(folder: &Path) -> Vec<u32> {
    let is_of_nsys =
        |&id: &u32| members::variable(id, members::MARK).is_some() && members::variable(id, PROGRAM).is_none();
    registry::processes_in(folder).into_iter().filter(|id| !is_of_nsys(id)).collect()
}

/// Signals the program, without `nsys`: to SIGINT its group, as a terminal does, to others all its processes.
/// Whether there is any.
#[cfg(unix)]
pub fn signal_program(folder: &Path, signal: rustix::process::Signal) -> bool {
    use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};
    let found = program(folder);
    let pids = found.iter().filter_map(|&id| Pid::from_raw(i32::try_from(id).ok()?));
    // Those that have ended meanwhile are not errors.
    match signal {
        Signal::INT => {
            // The first process of the program leads a session of its own.
            let group =
                pids.clone().filter_map(|pid| Some((getpgid(Some(pid)).ok()?, pid))).find(|(group, pid)| group == pid);
            match group {
                Some((group, _)) => _ = kill_process_group(group, signal),
                None => pids.for_each(|pid| _ = kill_process(pid, signal)),
            }
        }
        _ => pids.for_each(|pid| _ = kill_process(pid, signal)),
    }
    !found.is_empty()
}

/// Bytes that `nsys` has written so far.
pub fn written(folder: &Path) -> u64 {
    let bytes_in = |folder: &Path| -> u64 {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.metadata().ok())
            .filter(std::fs::Metadata::is_file)
            .map(|data| data.len())
            .sum()
    };
    bytes_in(&place(folder)) + bytes_in(&place(folder).join("tmp"))
}

/// Whether the program has ended and `nsys` has not.
pub fn is_writing(folder: &Path) -> bool {
    #[cfg(unix)]
    return program(folder).is_empty() && registry::n_processes(folder) > 0;
    #[cfg(not(unix))]
    false
}
