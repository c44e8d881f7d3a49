//! `lacuna capture -- COMMAND`: runs a program as it is, records it, and says what was recorded.
//!
//! The program reads what Lacuna could, unless that is a terminal; its output goes through, Lacuna's words go to
//! stderr, and the exit code is the program's; 2 if it could not be started. Ctrl+C stops the program, and what it
//! recorded until then stays.

mod on_demand;
mod tell;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Parser as _, ValueEnum};

use super::output::{write, write_stderr};
use super::{Cli, Failure, Headless, report};
use crate::capture::counters::Counters;
use crate::capture::launch::{self, Destination, ONE_RECORDER, Recorder, Request, Run, overhead, words};
use crate::capture::{nsys, pytorch};
use crate::live::{Monitor, nothing_to_watch};

/// How long a driver of GPUs is waited for before the program starts; of one that takes longer is said at the end.
const PROBE: Duration = Duration::from_millis(300);

/// Arguments of `lacuna capture`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program with its arguments, after `--`; it is not run by a shell, and reads standard input unless that is a
    /// terminal
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// How the program is recorded
    #[arg(long, alias = "with", value_enum, value_name = "RECORDER", default_value_t = Backend::Pytorch)]
    pub backend: Backend,
    /// Print the command line as it will run, what recording costs, and what would keep it from running or recording
    #[arg(long)]
    pub dry_run: bool,
    /// Stop the program after this many seconds, as Ctrl+C does
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: Option<u64>,
    /// Do not record GPU metrics beside the run; they need a GPU and its driver
    #[arg(long)]
    pub no_gpu_counters: bool,
    /// The folder for results, which must be empty or new; by default a new one in Lacuna's data folder
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Run the program in this folder
    #[arg(long, value_name = "FOLDER")]
    pub chdir: Option<PathBuf>,
    /// Add to the program's environment; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<OsString>,
    /// After Ctrl+C, seconds until SIGTERM, and again until SIGKILL; while a recording is written they do not count
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub grace: u64,
    /// Print the report of the recording
    #[arg(long)]
    pub report: bool,
    #[command(flatten)]
    pub demand: Demand,
    #[command(flatten)]
    pub steps: Steps,
    #[command(flatten)]
    pub contents: Contents,
    #[command(flatten)]
    pub nsys: Nsys,
}

/// How a program is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Pytorch,
    OnDemand,
    Nsys,
    Cupti,
    None,
}

impl ValueEnum for Backend {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Pytorch, Self::OnDemand, Self::Nsys, Self::Cupti, Self::None]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, what, cost) = match self {
            Self::Pytorch => {
                ("pytorch", "torch.profiler in every Python process that imports torch", overhead::PYTORCH)
            }
            Self::OnDemand => (
                "on-demand",
                "PyTorch's profiler library, whenever asked while the program runs: by Enter, SIGUSR1 to Lacuna, or \
                 --every",
                overhead::ON_DEMAND,
            ),
            Self::Nsys => ("nsys", "Nsight Systems, where it is installed", overhead::NSYS),
            Self::Cupti => ("cupti", "Lacuna's own recorder in any program with CUDA or NVTX", overhead::CUPTI),
            Self::None => ("none", "Not at all: only run it", ""),
        };
        let end = if cost.is_empty() { String::new() } else { format!(". {cost}") };
        Some(PossibleValue::new(name).help(format!("{what}{end}")))
    }
}

/// What nsys records; its options have the names that they have there.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of --backend nsys")]
pub struct Nsys {
    /// The nsys to use: a program, or the folder of an installation; by default it is searched for
    #[arg(long, value_name = "PATH")]
    pub nsys: Option<PathBuf>,
    /// The interfaces to trace, such as cuda,nvtx,osrt,cudnn,cublas,mpi
    #[arg(long, value_name = "LIST", default_value = "cuda,nvtx,osrt")]
    pub trace: String,
    /// Record from cudaProfilerStart to cudaProfilerStop, or a range of NVTX: `cudaProfilerApi` or `nvtx:NAME`
    #[arg(long, value_name = "RANGE")]
    pub capture_range: Option<String>,
    /// Record only on a signal: SIGUSR1 to Lacuna starts a recording, and the next one stops it, again and again
    #[arg(long)]
    pub by_hand: bool,
    /// Seconds before the recording starts
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub delay: u32,
    /// Seconds to record, after which the program continues
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub duration: u32,
    /// Also allocations of device memory
    #[arg(long)]
    pub cuda_memory_usage: bool,
    /// Also hardware counters of all GPUs
    #[arg(long)]
    pub gpu_metrics: bool,
    /// Also samples of call stacks, and when threads run
    #[arg(long)]
    pub sample: bool,
    /// Nodes of CUDA graphs, instead of graphs as a whole
    #[arg(long)]
    pub graph_nodes: bool,
    /// A further option of `nsys profile`, as `--nsys-option=--cudabacktrace=all`; may be repeated
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub nsys_option: Vec<String>,
}

/// Traces of a PyTorch program that are recorded on demand.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of --backend on-demand")]
pub struct Demand {
    /// Also record a trace every so many seconds, the first that long after torch was imported
    #[arg(long, value_name = "SECONDS")]
    pub every: Option<f64>,
    /// Duration of each trace, 1 unless given
    #[arg(long = "for", value_name = "SECONDS")]
    pub length: Option<f64>,
}

/// Which part of a PyTorch program is recorded. Steps are those of its first optimizer.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of --backend pytorch")]
pub struct Steps {
    /// Record the steps FIRST to END - 1, counted from 0; the first that can be recorded is 1
    #[arg(long, value_name = "FIRST:END", conflicts_with_all = ["wait", "warmup", "active", "repeat", "whole"])]
    pub steps: Option<String>,
    /// Steps before the profiler starts; at least 1, which is needed to find steps
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "whole")]
    pub wait: u32,
    /// Steps with the profiler on whose events are discarded
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "whole")]
    pub warmup: u32,
    /// Steps in each trace
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "whole")]
    pub active: u32,
    /// Number of traces, each after its own waiting and warm-up
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "whole")]
    pub repeat: u32,
    /// Record from the import of torch to the end, for programs without an optimizer; large for long ones
    #[arg(long)]
    pub whole: bool,
    /// Ranks to record: `0,4-7` or `all`
    #[arg(long, value_name = "RANKS", default_value = "0")]
    pub ranks: String,
}

/// What is recorded of a PyTorch program.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of --backend pytorch")]
pub struct Contents {
    /// Also Python call stacks, which attribute gaps to lines of code; slows the host
    #[arg(long)]
    pub stacks: bool,
    /// Also allocations, as events of the trace
    #[arg(long)]
    pub profile_memory: bool,
    /// Also floating-point operations, as torch estimates them
    #[arg(long)]
    pub flops: bool,
    /// Also the modules of `TorchScript`
    #[arg(long)]
    pub modules: bool,
    /// Leave out the shapes of inputs
    #[arg(long)]
    pub no_shapes: bool,
    /// Also the CUDA allocator's history: a snapshot at the end, and whenever memory runs out
    #[arg(long)]
    pub memory: bool,
    /// Maximum number of events in that history
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub memory_entries: u32,
    /// No trace: only memory
    #[arg(long, requires = "memory")]
    pub no_trace: bool,
}

/// Runs `lacuna capture` and returns the exit code of the program, or the report's if that fails.
///
/// Errors: the program cannot be started, or an argument is wrong.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let request = request(args)?;
    if args.dry_run {
        return dry_run(&request, args);
    }
    launch::pass_signals_on();
    let monitor = Monitor::default();
    let beside = |folder: &Path| Counters::start(&monitor, folder);
    let switched = args.nsys.by_hand.then(on_signal);
    request.check().map_err(|error| Failure::Usage(error.to_string()))?;
    let has_told = tell_missing(&request, &monitor);
    let run = Arc::new(Run::start(&request, beside, || {}).map_err(|error| Failure::Usage(error.to_string()))?);
    write_stderr(&format!("Lacuna runs: {}", run.command_line));
    if run.on_demand().is_some() {
        on_demand::listen(&run);
    }
    introduction(&request, args).iter().for_each(|sentence| write_stderr(sentence));
    let status = tell::until_end(&run, switched.as_deref());
    let Some(exit) = status.exit else { return Ok(ExitCode::FAILURE) };
    if !has_told {
        tell_no_gpu(&request, &monitor);
    }
    tell::end(&run, &status, args.nsys.nsys.as_deref());
    if args.report && status.results.is_empty() {
        write_stderr("There is no report, since nothing was recorded");
    } else if args.report {
        let nsys = args.nsys.nsys.iter().flat_map(|nsys| ["--nsys".into(), nsys.clone().into_os_string()]);
        let paths = status.results.iter().map(|result| result.path.clone().into_os_string());
        let line = ["lacuna", "report"].map(OsString::from).into_iter().chain(nsys).chain(paths);
        let Ok(Cli { command: Some(Headless::Report(report)), .. }) = Cli::try_parse_from(line) else {
            return Err(Failure::Usage("The report could not be made".to_owned()));
        };
        report::run(&report)?;
    }
    Ok(ExitCode::from(exit.code()))
}

/// Says what the recorder and the counters of the GPUs lack. Whether there is no GPU to read.
fn tell_missing(request: &Request, monitor: &Monitor) -> bool {
    request.need(&place_of(request)).missing().iter().for_each(|sentence| write_stderr(sentence));
    if request.has_counters {
        monitor.start();
        monitor.wait(PROBE, |store| !store.devices.is_empty() || nothing_to_watch(store).is_some());
    }
    tell_no_gpu(request, monitor)
}

/// Says why there is no GPU to read, where that is known; whether it is.
fn tell_no_gpu(request: &Request, monitor: &Monitor) -> bool {
    let missing = monitor.read(nothing_to_watch).filter(|_| request.has_counters);
    missing.is_some_and(|missing| {
        write_stderr(&format!("No GPU metrics are recorded: {}. {}", missing.what, missing.remedy));
        true
    })
}

/// What the user may want to know when the program starts: sentences.
fn introduction(request: &Request, args: &Args) -> Vec<String> {
    let sentences = [request.recorder.overhead().map(str::to_owned), launch::recorded_ranks(request)];
    let mut sentences: Vec<String> = sentences.into_iter().flatten().collect();
    if args.nsys.by_hand {
        sentences.push(format!("To start a recording, and again to stop it: kill -USR1 {}", std::process::id()));
    }
    sentences
}

/// The folder of the run, whose name is known once it has begun.
fn place_of(request: &Request) -> PathBuf {
    match &request.place {
        Destination::In(root) => root.join("NEW"),
        Destination::At(folder) => folder.clone(),
    }
}

/// Says what would run, and why it would not.
fn dry_run(request: &Request, args: &Args) -> Result<ExitCode, Failure> {
    let folder = place_of(request);
    let mut said = format!("{}\n", request.command_line(&folder));
    if let Some(cost) = request.recorder.overhead() {
        said.push_str(cost);
        said.push('\n');
    }
    write(said.as_bytes(), None, &[])?;
    if args.backend == Backend::Nsys {
        nsys::recorder(args.nsys.nsys.clone()).map_err(Failure::Usage)?;
    }
    request.check().map_err(|error| Failure::Usage(error.to_string()))?;
    request.need(&folder).missing().iter().for_each(|sentence| write_stderr(sentence));
    Ok(ExitCode::SUCCESS)
}

/// Set by SIGUSR1.
fn on_signal() -> Arc<AtomicBool> {
    let is_asked = Arc::new(AtomicBool::new(false));
    // Without a handler the signal ends Lacuna.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&is_asked));
    is_asked
}

fn request(args: &Args) -> Result<Request, Failure> {
    let wrong = |text: String| Failure::Usage(text);
    let root =
        || launch::root().ok_or_else(|| wrong("There is no folder for results: use --out, or set HOME".to_owned()));
    let place = match &args.out {
        Some(out) => Destination::At(out.clone()),
        None => Destination::In(root()?),
    };
    let assigned = |text: &OsString| {
        words::assignment(text).ok_or_else(|| wrong(format!("--env takes NAME=VALUE: {}", text.display())))
    };
    let env = args.env.iter().map(assigned).collect::<Result<_, _>>()?;
    let (options, profile) = (options(&args.steps, &args.contents)?, profile(&args.nsys)?);
    let is_of_pytorch = matches!(args.backend, Backend::Pytorch | Backend::OnDemand);
    let why = if args.backend == Backend::None { "--backend none records nothing" } else { ONE_RECORDER };
    if !is_of_pytorch && options != pytorch::Options::default() {
        return Err(wrong(format!("Options of the PyTorch profiler apply only to that recorder: {why}")));
    }
    if args.backend != Backend::OnDemand && (args.demand.every.is_some() || args.demand.length.is_some()) {
        return Err(wrong("--every and --for apply only to --backend on-demand".to_owned()));
    }
    if args.backend != Backend::Nsys && profile != nsys::Profile::default() {
        return Err(wrong(format!("Options of nsys apply only to --backend nsys: {why}")));
    }
    let recorder = match args.backend {
        Backend::Pytorch => Recorder::PyTorch(options),
        Backend::OnDemand => Recorder::OnDemand(on_demand::options(args, &options)?),
        Backend::Nsys => {
            let program = match nsys::recorder(args.nsys.nsys.clone()) {
                Ok(program) => program,
                // It shows the line all the same, and then says what is missing.
                Err(_) if args.dry_run => args.nsys.nsys.clone().unwrap_or_else(|| "nsys".into()),
                Err(why) => return Err(wrong(why)),
            };
            Recorder::Nsys(nsys::Profile { program, ..profile })
        }
        Backend::Cupti => Recorder::Cupti,
        Backend::None => Recorder::None,
    };
    Ok(Request {
        argv: args.command.clone(),
        env,
        typed: None,
        working_folder: args.chdir.clone(),
        recorder,
        place,
        grace: Duration::from_secs(args.grace),
        patience: launch::PATIENCE,
        time_limit: args.seconds.map(Duration::from_secs),
        has_counters: !args.no_gpu_counters,
        is_piped: true,
    })
}

fn profile(args: &Nsys) -> Result<nsys::Profile, Failure> {
    let (range, nvtx_range) = match args.capture_range.as_deref() {
        None => (nsys::Range::Program, ""),
        Some("cudaProfilerApi") => (nsys::Range::CudaProfilerApi, ""),
        Some(range) => match range.strip_prefix("nvtx:").filter(|name| !name.is_empty()) {
            Some(name) => (nsys::Range::Nvtx, name),
            None => {
                let text = format!("--capture-range takes cudaProfilerApi, or nvtx:NAME: {range}");
                return Err(Failure::Usage(text));
            }
        },
    };
    Ok(nsys::Profile {
        program: PathBuf::new(),
        trace: args.trace.clone(),
        range,
        nvtx_range: nvtx_range.to_owned(),
        by_hand: args.by_hand,
        delay: args.delay,
        duration: args.duration,
        memory_usage: args.cuda_memory_usage,
        gpu_metrics: args.gpu_metrics,
        sampling: args.sample,
        graph_nodes: args.graph_nodes,
        others: args.nsys_option.clone(),
    })
}

fn options(steps: &Steps, contents: &Contents) -> Result<pytorch::Options, Failure> {
    let mut options = pytorch::Options {
        trace: !contents.no_trace,
        whole: steps.whole,
        wait: steps.wait,
        warmup: steps.warmup,
        active: steps.active,
        repeat: steps.repeat,
        ranks: ranks(&steps.ranks)?,
        contents: pytorch::Contents {
            record_shapes: !contents.no_shapes,
            with_stack: contents.stacks,
            profile_memory: contents.profile_memory,
            with_flops: contents.flops,
            with_modules: contents.modules,
        },
        memory: contents.memory,
        memory_entries: contents.memory_entries,
    };
    if let Some(range) = &steps.steps {
        let bounds = range.split_once(':').and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
        let (first, end) = bounds.filter(|&(first, end): &(u32, u32)| first < end).ok_or_else(|| {
            Failure::Usage(format!("--steps takes FIRST:END, such as 10:15, with FIRST before END: {range}"))
        })?;
        if first == 0 {
            let why = "step 0 is over before the recorder knows where steps are";
            return Err(Failure::Usage(format!(
                "--steps {range}: {why}; begin at 1, or record everything with --whole"
            )));
        }
        options.set_steps(first, end);
    }
    Ok(options)
}

/// `0,4-7` as numbers; `None` for `all`.
fn ranks(text: &str) -> Result<Option<BTreeSet<u32>>, Failure> {
    if text == "all" {
        return Ok(None);
    }
    pytorch::ranks(text)
        .map(Some)
        .ok_or_else(|| Failure::Usage(format!("--ranks takes numbers and ranges, as 0,4-7, or all: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_cannot_be_recorded_are_refused() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            steps: Steps,
            #[command(flatten)]
            contents: Contents,
        }
        let first_and_number = |steps| {
            let line = Line::parse_from(["capture", "--steps", steps]);
            let options = options(&line.steps, &line.contents).ok()?;
            Some((options.wait + options.warmup, options.active))
        };
        assert_eq!(first_and_number("1:3"), Some((1, 2)));
        assert_eq!(first_and_number("10:15"), Some((10, 5)));
        assert_eq!(["0:3", "3:3", "5:3", "1", "a:3"].map(first_and_number), [None; 5]);
    }
}
