//! `lacuna capture -- COMMAND`: runs a program as it is, records it, and says what was recorded.
//!
//! The program's output goes through, Lacuna's words go to stderr, and the exit code is the program's; 2 if it could
//! not be started. Ctrl+C stops the program, and what it recorded until then stays.

mod on_demand;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser as _, ValueEnum};

use super::output::write_stderr;
use super::{Cli, Failure, Headless, report};
use crate::capture::launch::{self, Exit, Launched, Place, Recorder, Request, Run, Status, words};
use crate::capture::pytorch;
use crate::figures::format;

/// Arguments of `lacuna capture`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program with its arguments, after `--`; no shell reads it
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// How the program is recorded
    #[arg(long = "with", value_enum, value_name = "RECORDER", default_value_t = Way::Pytorch)]
    pub way: Way,
    /// The folder for results, which must be empty or new; without this it is made in Lacuna's data folder
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
    /// Print the report of what was recorded
    #[arg(long)]
    pub report: bool,
    #[command(flatten)]
    pub demand: Demand,
    #[command(flatten)]
    pub steps: Steps,
    #[command(flatten)]
    pub contents: Contents,
}

/// How a program is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// torch.profiler in every Python process that imports torch; costs 5 to 15 % of host time, more with stacks
    Pytorch,
    /// By PyTorch's profiler library, whenever asked while the program runs: by Enter, SIGUSR1 to Lacuna, or --every
    OnDemand,
    /// Not at all: only run it
    None,
}

/// Traces of a PyTorch program that are recorded on demand.
#[derive(Debug, clap::Args)]
pub struct Demand {
    /// On demand: also a trace by itself every so many seconds, the first so long after torch was imported
    #[arg(long, value_name = "SECONDS")]
    pub every: Option<f64>,
    /// On demand: how long each trace is
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 1.0)]
    pub length: f64,
}

/// Which part of a PyTorch program is recorded. Steps are those of its first optimizer.
#[derive(Debug, clap::Args)]
pub struct Steps {
    /// Record the steps FIRST to END - 1, counted from 0; the first that can be recorded is 1
    #[arg(long, value_name = "FIRST:END", conflicts_with_all = ["wait", "warmup", "active", "repeat", "whole"])]
    pub steps: Option<String>,
    /// Steps before the profiler begins; at least 1, which shows where steps are
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "whole")]
    pub wait: u32,
    /// Steps with the profiler on whose events are thrown away
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "whole")]
    pub warmup: u32,
    /// Steps in each trace
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "whole")]
    pub active: u32,
    /// Traces, each after as many steps of waiting and warm-up
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
pub struct Contents {
    /// Also Python call stacks, by which gaps are given to lines of code; slows the host down
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
    /// Events of that history that are kept
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
    request.check().map_err(|error| Failure::Usage(error.to_string()))?;
    launch::pass_signals_on();
    let run = Run::start(&request, |_| (), || {}).map_err(|error| Failure::Usage(error.to_string()))?;
    write_stderr(&format!("Lacuna runs: {}", run.command_line));
    let run = std::sync::Arc::new(run);
    if run.on_demand().is_some() {
        on_demand::listen(&run);
    }
    if let (Some(Launched { by, workers }), Way::Pytorch) = (launch::launched(&request.argv), args.way) {
        let workers = workers.map_or("workers".to_owned(), |n| format!("{n} workers"));
        let ranks = match &*args.steps.ranks {
            "all" => "all ranks".to_owned(),
            ranks => format!("rank {ranks} (--ranks)"),
        };
        write_stderr(&format!("Lacuna records {ranks} of the {workers} of {by}"));
    }
    let status = run.wait();
    let Some(exit) = status.exit else { return Ok(ExitCode::FAILURE) };
    tell(&run, &status, exit);
    if args.report && !status.results.is_empty() {
        let paths = status.results.iter().map(|result| result.path.clone().into_os_string());
        let line = ["lacuna", "report"].map(OsString::from).into_iter().chain(paths);
        let Ok(Cli { command: Some(Headless::Report(report)), .. }) = Cli::try_parse_from(line) else {
            return Err(Failure::Usage("The report could not be made".to_owned()));
        };
        report::run(&report)?;
    }
    Ok(ExitCode::from(exit.code()))
}

/// Says what was recorded and how to open it.
fn tell(run: &Run, status: &Status, exit: Exit) {
    let elapsed = i64::try_from(status.elapsed.as_nanos()).unwrap_or(i64::MAX);
    write_stderr(&format!("The program ended after {} with {}", format::duration(elapsed), exit.shown()));
    for note in &status.notes {
        write_stderr(note);
    }
    for result in &status.results {
        write_stderr(&format!("Recorded {} ({})", result.path.display(), format::bytes(result.bytes as f64)));
    }
    if !status.results.is_empty() {
        let paths = status.results.iter().map(|result| result.path.as_os_str());
        write_stderr(&format!("Open it with: lacuna {}", words::joined(paths)));
    }
    write_stderr(&format!("The folder of the run is {}", run.folder.display()));
}

fn request(args: &Args) -> Result<Request, Failure> {
    let wrong = |text: String| Failure::Usage(text);
    let root =
        || launch::root().ok_or_else(|| wrong("There is no folder for results: use --out, or set HOME".to_owned()));
    let place = match &args.out {
        Some(out) => Place::At(out.clone()),
        None => Place::In(root()?),
    };
    let assigned = |text: &OsString| {
        words::assignment(text).ok_or_else(|| wrong(format!("--env takes NAME=VALUE: {}", text.display())))
    };
    let env = args.env.iter().map(assigned).collect::<Result<_, _>>()?;
    let recorder = match args.way {
        Way::Pytorch => Recorder::PyTorch(options(&args.steps, &args.contents)?),
        Way::OnDemand => Recorder::OnDemand(on_demand::options(args, ranks(&args.steps.ranks)?)?),
        Way::None => Recorder::None,
    };
    Ok(Request {
        argv: args.command.clone(),
        env,
        working_folder: args.chdir.clone(),
        recorder,
        place,
        grace: Duration::from_secs(args.grace),
        time_limit: None,
        is_shown: true,
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
        record_shapes: !contents.no_shapes,
        with_stack: contents.stacks,
        profile_memory: contents.profile_memory,
        with_flops: contents.flops,
        with_modules: contents.modules,
        memory: contents.memory,
        memory_entries: contents.memory_entries,
    };
    if let Some(range) = &steps.steps {
        let bounds = range.split_once(':').and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
        let (first, end) = bounds.filter(|(first, end): &(u32, u32)| first < end).ok_or_else(|| {
            Failure::Usage(format!("--steps takes FIRST:END, such as 10:15, with FIRST before END: {range}"))
        })?;
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
