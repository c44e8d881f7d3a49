//! Recorders of a run: additions to the command, requirements, overhead, and remarks afterwards.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use serde_json::Value;

use super::{Exit, LaunchError, Output};
use crate::capture::{cupti, kineto, nsys, pytorch};

/// How a run is recorded. There is one recorder in a run: those of CUDA all use CUPTI, which serves one in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorder {
    /// Not at all: the program is watched only.
    None,
    PyTorch(pytorch::Options),
    /// PyTorch's profiler library, whenever it is asked for while the program runs.
    OnDemand(kineto::Options),
    /// Nsight Systems.
    Nsys(nsys::Profile),
    /// Lacuna's own library in any program that uses CUDA or NVTX.
    Cupti,
}

/// Why a program has one recorder at most.
pub const ONE_RECORDER: &str = "nsys, Lacuna's CUPTI recorder and the PyTorch profiler all record through CUPTI, which \
                                serves one of them in a process";

/// What recording costs, as measured: on an H100 with driver 580, torch 2.11 and a loop of small kernels. nsys
/// has not been measured on a GPU yet: in processor time, 0.8 to 1.3 µs for a pair of `nvtxRangePush` and
/// `nvtxRangePop`, and 0.3 to 1.4 µs for a `pread` of 64 KiB. Lacuna's own recorder takes 0.4 to 0.6 µs for such a
/// pair, 0.2 µs of it on the thread of the range, and 1.4 µs for a launch with its kernel beside what CUPTI takes;
/// reading a GPU of a stand-in for the driver 0.5 % of a core.
pub mod overhead {
    pub const PYTORCH: &str = "Expect 6 to 7 µs more for each launch: a loop of small kernels on an H100 took 6.2 to \
                               10.5 µs a launch alone and 12.6 to 17.5 µs recorded, without stacks";
    pub const ON_DEMAND: &str = "While a trace is recorded, expect what the PyTorch profiler costs: 6 to 7 µs more for \
                                 each launch on an H100; in between no cost was measurable (torch 2.15, operators of \
                                 1.8 µs on the CPU)";
    pub const CUPTI: &str = "Expect 2 µs more for each launch: on an H100 a launch took 2.8 to 3.9 µs alone and 4.7 to \
                             5.9 µs recorded. An NVTX range takes 0.5 µs of processor time";
    pub const NSYS: &str = "Expect 1 µs more for each NVTX range and each call of the operating system (nsys 2023.4, \
                            in a loop of them); the cost for each launch was not measured; sampling, memory usage and \
                            nodes of CUDA graphs add to it. nsys writes the whole environment of the program into its \
                            report: mind the keys in it before you share one";
    pub const COUNTERS: &str = "2 % of one core at four readings a second, measured on an H100";
}

impl Recorder {
    /// As the manifest and the command line name it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::PyTorch(_) => "pytorch",
            Self::OnDemand(_) => "on-demand",
            Self::Nsys(_) => "nsys",
            Self::Cupti => "cupti",
        }
    }

    /// Its options as manifests keep them, by the names of their fields; null where it has none.
    pub(super) fn options(&self) -> Value {
        let options = match self {
            Self::None | Self::Cupti => return Value::Null,
            Self::PyTorch(options) => serde_json::to_value(options),
            Self::OnDemand(options) => serde_json::to_value(options),
            Self::Nsys(profile) => serde_json::to_value(profile),
        };
        options.unwrap_or_default()
    }

    /// What recording costs, in time or otherwise: sentences.
    pub fn overhead(&self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::PyTorch(_) => Some(overhead::PYTORCH),
            Self::OnDemand(_) => Some(overhead::ON_DEMAND),
            Self::Nsys(_) => Some(overhead::NSYS),
            Self::Cupti => Some(overhead::CUPTI),
        }
    }

    /// Why this command cannot be recorded: a sentence. `folders`: where it runs, and where results go.
    pub(super) fn obstacle(&self, argv: &[OsString], folders: [&Path; 2]) -> Option<String> {
        let is_nsys = argv.first().and_then(|program| Path::new(program).file_name()) == Some(OsStr::new("nsys"));
        if is_nsys && *self != Self::None {
            return Some(format!("The command runs nsys itself, and {ONE_RECORDER}: record it with nothing"));
        }
        match self {
            Self::None | Self::OnDemand(_) => None,
            Self::PyTorch(_) => pytorch::obstacle(argv),
            Self::Nsys(profile) => profile.obstacle(argv, folders),
            Self::Cupti => cupti::library().err(),
        }
    }

    /// Writes what the recorder needs into the run's folder.
    pub(super) fn prepare(&self, folder: &Path) -> Result<(), LaunchError> {
        match self {
            Self::None | Self::Cupti => Ok(()),
            Self::OnDemand(_) => match kineto::obstacle(folder) {
                Some(why) => Err(LaunchError::Obstacle(why)),
                None => kineto::prepare(folder).map_err(LaunchError::at(folder)),
            },
            Self::PyTorch(_) if std::env::join_paths([folder]).is_err() => Err(LaunchError::Obstacle(
                "The folder of the run has a colon in its path, which PYTHONPATH cannot hold: choose another"
                    .to_owned(),
            )),
            Self::PyTorch(options) => pytorch::prepare(folder, options).map_err(LaunchError::at(folder)),
            Self::Nsys(_) => nsys::prepare(folder).map_err(LaunchError::at(folder)),
        }
    }

    /// Additions to the environment. `value` is a variable as the program sees it without Lacuna.
    pub(super) fn env(&self, folder: &Path, value: impl Fn(&str) -> Option<OsString>) -> Vec<(OsString, OsString)> {
        match self {
            Self::None => Vec::new(),
            Self::PyTorch(_) => pytorch::environment(folder, value("PYTHONPATH")).into_iter().collect(),
            Self::OnDemand(_) => {
                let mut env = kineto::environment(folder, value("KINETO_CONFIG").is_some());
                env.extend(pytorch::environment(folder, value("PYTHONPATH")));
                env
            }
            Self::Nsys(profile) => profile.environment(folder, value),
            // Without the library the run does not begin.
            Self::Cupti => cupti::environment(folder).unwrap_or_default(),
        }
    }

    /// The program that is started, with its arguments.
    pub(super) fn command(&self, folder: &Path, argv: &[OsString], tmp: Option<&OsStr>) -> Vec<OsString> {
        match self {
            Self::Nsys(profile) => profile.command(folder, argv, tmp),
            _ => argv.to_vec(),
        }
    }

    /// Whether what was recorded is being written, which may take minutes.
    pub(super) fn is_writing(&self, folder: &Path) -> bool {
        match self {
            Self::PyTorch(_) => pytorch::is_writing(folder),
            Self::OnDemand(_) => kineto::is_writing(folder),
            Self::Nsys(_) => nsys::is_writing(folder),
            Self::None | Self::Cupti => false,
        }
    }

    /// The same of processes that the program left behind: helpers of `nsys` write nothing then.
    #[cfg(unix)]
    pub(super) fn is_writing_when_left(&self, folder: &Path) -> bool {
        !matches!(self, Self::Nsys(_)) && self.is_writing(folder)
    }

    /// Whether the program runs, where something else starts it. `was_seen`: whether it was seen to run.
    pub(super) fn has_begun(&self, was_seen: bool) -> bool {
        was_seen || !matches!(self, Self::Nsys(_))
    }

    /// Signals the program where something else started it; whether there is one.
    #[cfg(unix)]
    pub(super) fn signal_program(&self, folder: &Path, signal: rustix::process::Signal) -> bool {
        matches!(self, Self::Nsys(_)) && nsys::signal_program(folder, signal)
    }

    /// How the program ended, where what was started is not the program.
    pub(super) fn exit(&self, exit: Exit) -> Exit {
        match (self, exit) {
            // As shells number the signal that ended it.
            (Self::Nsys(_), Exit::Code(code @ 129..=159)) => Exit::Signal(code - 128),
            _ => exit,
        }
    }

    /// Sentences about what is missing after a run, and what to do; nothing if all went well.
    pub(super) fn notes(&self, folder: &Path, output: &Output) -> Vec<String> {
        match self {
            // The endpoint has its own.
            Self::None | Self::OnDemand(_) => Vec::new(),
            Self::PyTorch(options) => pytorch::notes(folder, options),
            Self::Nsys(profile) => profile.notes(folder, output),
            Self::Cupti => cupti::notes(folder),
        }
    }
}
