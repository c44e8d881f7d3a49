//! Runs of the user's own programs: started exactly as typed, watched, ended on request, and recorded into a folder.
//!
//! A program runs in a process group of its own without input and never through a shell. To stop it is SIGINT, after
//! a grace SIGTERM, then SIGKILL, to all that it started.

mod folder;
mod launchers;
mod need;
mod output;
mod recorder;
mod successor;
mod supervise;
mod switch;
#[cfg(test)]
mod tests;
pub mod words;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use self::folder::{
    Earlier, Kind, Manifest, Recorded, RunOptions, Typed, create, delete, kept_output, list, results, root, shown_time,
};
pub use self::launchers::{launched, recorded_ranks};
pub use self::need::Need;
pub use self::output::{Output, OutputLine, Stream};
pub use self::recorder::{ONE_RECORDER, Recorder, overhead};
pub use self::successor::{start_with, succeed};
pub use self::switch::Switch;
#[cfg(all(test, unix))]
pub use self::tests::write_program;
pub use super::registry::pass_signals_on;
use super::{counters, cupti, is_program, kineto, nsys, pytorch, registry, scratch};

/// Where the folder of a run is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A new one in this folder.
    In(PathBuf),
    /// This one itself, which must be empty.
    At(PathBuf),
}

/// [`Request::patience`], where the user does not wait for a test.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What to run, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Additions to the environment.
    pub env: Vec<(OsString, OsString)>,
    /// The text of both, where it was one.
    pub typed: Option<Typed>,
    /// Where it runs; `None` is where Lacuna does.
    pub working_folder: Option<PathBuf>,
    pub recorder: Recorder,
    pub place: Destination,
    /// How long the program may take to end after SIGINT before SIGTERM, and after that before SIGKILL. What it
    /// writes of a recording meanwhile is waited for.
    pub grace: Duration,
    /// A recorder that wrote nothing for this long after its program has ended has hung, and is ended.
    pub patience: Duration,
    /// After this time it is stopped.
    pub time_limit: Option<Duration>,
    /// Whether what is watched alongside is watched: the counters of the GPUs.
    pub has_counters: bool,
    /// Whether it reads what Lacuna could read, unless that is a terminal, and its output also goes where Lacuna's
    /// goes.
    pub is_piped: bool,
}

/// The reason why a run did not begin: a sentence for the user.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("There is no command to run")]
    NoCommand,
    #[error("No program called {0} was found in the folders of PATH")]
    NotFound(String),
    #[error("There is no program {0}")]
    Absent(String),
    #[error(
        "{0} is not executable: put the program before it that reads it, such as python3, or make it so with chmod +x"
    )]
    NotRunnable(String),
    #[error("No program can be given a zero byte: {0}")]
    ZeroByte(String),
    #[error("The working folder does not exist: {0}")]
    NoWorkingFolder(String),
    #[error("{0}")]
    Obstacle(String),
    #[error("{} cannot be the folder of the run: {why}", words::path_text(folder))]
    Folder { folder: PathBuf, why: std::io::Error },
    #[error("The program could not be started: {}", not_started(.0))]
    Start(std::io::Error),
}

/// The reason in words. A shell would read the lines of a file that the system takes for no program, and none is asked.
fn not_started(why: &std::io::Error) -> String {
    const ENOEXEC: i32 = 8;
    match why.raw_os_error() {
        Some(ENOEXEC) => {
            format!("{why}. A script needs a first line such as #!/bin/sh, and a program must be made for this machine")
        }
        _ => why.to_string(),
    }
}

impl LaunchError {
    /// What keeps this folder from becoming that of a run.
    fn at(folder: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |why| Self::Folder { folder: folder.to_owned(), why }
    }
}

impl Request {
    /// The program with additions to the environment as a shell would run it. `folder` is that of the run.
    pub fn command_line(&self, folder: &Path) -> String {
        let env = self.additions(folder).into_iter().map(|(name, value)| assignment(&name, &value));
        let argv = self.command(folder).into_iter().map(|word| words::quoted(&word));
        let line = env.chain(argv).collect::<Vec<_>>().join(" ");
        match &self.working_folder {
            Some(place) => format!("cd {} && {line}", words::quoted(place.as_os_str())),
            None => line,
        }
    }

    /// All additions to the environment, the user's first.
    fn additions(&self, folder: &Path) -> Vec<(OsString, OsString)> {
        let mut env = self.env.clone();
        let added = self.recorder.env(folder, |name| self.value(name));
        env.retain(|(name, _)| !added.iter().any(|(added, _)| added == name));
        env.extend(added);
        if self.value("PYTHONUNBUFFERED").is_none() {
            // Else the output of Python comes late in large pieces.
            env.push(("PYTHONUNBUFFERED".into(), "1".into()));
        }
        env
    }

    /// What is started: the program with its arguments, or the recorder that starts it.
    fn command(&self, folder: &Path) -> Vec<OsString> {
        self.recorder.command(folder, &self.argv, self.value("TMPDIR").as_deref())
    }

    /// A variable as the program sees it without Lacuna.
    fn value(&self, name: &str) -> Option<OsString> {
        let added = self.env.iter().rev().find(|(known, _)| known == name);
        added.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(name))
    }

    /// Looks for what would keep the run from beginning.
    ///
    /// Errors: a sentence about the first such thing.
    pub fn check(&self) -> Result<(), LaunchError> {
        let program = self.argv.first().filter(|program| !program.is_empty()).ok_or(LaunchError::NoCommand)?;
        // Where the folder will be does not matter to the others.
        let words = self.command(Path::new("/"));
        let variables = self.additions(Path::new("/")).into_iter().map(|(_, value)| value);
        let place = self.working_folder.iter().map(|place| place.clone().into_os_string());
        let mut given = words.into_iter().chain(variables).chain(place);
        if let Some(word) = given.find(|word| word.as_encoded_bytes().contains(&0)) {
            return Err(LaunchError::ZeroByte(words::quoted(&word)));
        }
        if let Some(place) = self.working_folder.as_ref().filter(|place| !place.is_dir()) {
            return Err(LaunchError::NoWorkingFolder(place.display().to_string()));
        }
        if Path::new(program).components().count() > 1 || program.to_string_lossy().ends_with('/') {
            let path = self.working_folder.clone().unwrap_or_default().join(program);
            if !is_program(&path) {
                let shown = words::quoted(path.as_os_str());
                return Err(if path.is_file() { LaunchError::NotRunnable(shown) } else { LaunchError::Absent(shown) });
            }
        } else {
            let path = self.value("PATH").unwrap_or_default();
            if !std::env::split_paths(&path).any(|folder| is_program(&folder.join(program))) {
                return Err(LaunchError::NotFound(words::quoted(program)));
            }
        }
        let place = self.working_folder.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
        let (Destination::In(folder) | Destination::At(folder)) = &self.place;
        self.recorder.obstacle(&self.argv, [&place, folder]).map_or(Ok(()), |why| Err(LaunchError::Obstacle(why)))
    }

    /// What its recorder needs. `folder` is that of the run.
    pub fn need(&self, folder: &Path) -> Need {
        let python = || {
            let place = self.working_folder.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
            let path = self.value("PATH").unwrap_or_default();
            pytorch::Interpreter::of(&self.argv, &place, &path, self.additions(folder))
        };
        match &self.recorder {
            Recorder::PyTorch(_) | Recorder::OnDemand(_) => python().map_or(Need::Nothing, Need::Torch),
            Recorder::Nsys(profile) if profile.traces_cuda() => Need::Driver,
            Recorder::None | Recorder::Nsys(_) => Need::Nothing,
            Recorder::Cupti => {
                let program = python().map(|python| python.program);
                let path = program.as_deref().or_else(|| self.argv.first().map(Path::new));
                Need::Cupti(cupti::Search::of(path, |name| self.value(name)))
            }
        }
    }

    /// What names the folder: the script if there is one, else the program.
    fn title(&self) -> String {
        let name = |word: &OsString| Path::new(word).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let script = self.argv.iter().skip(1).map(name).find(|name| name.ends_with(".py"));
        script.or_else(|| self.argv.first().map(name)).unwrap_or_default()
    }
}

fn assignment(name: &OsStr, value: &OsStr) -> String {
    let value = if value.is_empty() { String::new() } else { words::quoted(value) };
    format!("{}={value}", name.to_string_lossy())
}

/// How far the end of a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Running,
    /// SIGINT was sent.
    Interrupted,
    /// SIGTERM was sent.
    Terminated,
    Killed,
    /// The program has ended; what it left running is being ended.
    Ending,
    Ended,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// It could not be found out.
    Unknown,
}

impl Exit {
    /// As shells number it: 128 and the signal.
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => u8::try_from(code).unwrap_or(1),
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(1),
            Self::Unknown => 1,
        }
    }

    /// Whether a program failed. One that the user stopped may end by the signals of the stop, or say that it was
    /// interrupted by any exit code.
    pub fn is_failure(self, was_stopped: bool) -> bool {
        match self {
            Self::Code(0) => false,
            Self::Code(_) | Self::Signal(2 | 9 | 15) => !was_stopped,
            Self::Signal(_) | Self::Unknown => true,
        }
    }

    /// How a program ended that did not fail since it was stopped: "Stopped", "Time limit, exit code 1".
    ///
    /// * `word`: what stopped it.
    pub fn stopped(self, word: &str) -> String {
        match self {
            Self::Code(0) | Self::Signal(2 | 15) => word.to_owned(),
            _ => format!("{word}, {}", self.shown()),
        }
    }

    /// For the user: "exit code 1", "SIGSEGV".
    pub fn shown(self) -> String {
        match self {
            Self::Code(code) => format!("exit code {code}"),
            Self::Signal(signal) => signal_name(signal).map_or(format!("signal {signal}"), str::to_owned),
            Self::Unknown => "an unknown exit code".to_owned(),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    #[cfg(unix)]
    return signal_hook::low_level::signal_name(signal);
    #[cfg(not(unix))]
    None
}

/// What is known of a run at a moment.
#[derive(Clone, Debug)]
pub struct Status {
    pub stage: Stage,
    pub elapsed: Duration,
    /// Files that are whole, as they appear.
    pub results: Vec<Recorded>,
    /// How far the recorder is in each process.
    pub processes: Vec<pytorch::Process>,
    /// Whether a recorder that is switched while the program runs is on.
    pub switch: Option<Switch>,
    pub exit: Option<Exit>,
    /// Whether the user, or the time limit, asked for the end; known at the end.
    pub was_stopped: bool,
    /// After this time it is stopped.
    pub time_limit: Option<Duration>,
    /// Whether the time limit asked for the end, before anyone else did.
    pub is_over_limit: bool,
    /// Sentences about what is missing; most are known at the end.
    pub notes: Vec<String>,
}

impl Status {
    /// That of a run that has just begun.
    pub fn begun(time_limit: Option<Duration>) -> Self {
        Self {
            stage: Stage::Running,
            elapsed: Duration::ZERO,
            results: Vec::new(),
            processes: Vec::new(),
            switch: None,
            exit: None,
            was_stopped: false,
            time_limit,
            is_over_limit: false,
            notes: Vec::new(),
        }
    }
}

/// A run. Dropping it lets the program end as if it was stopped, in the background.
#[derive(Debug)]
pub struct Run {
    pub folder: PathBuf,
    /// As it was started, for a shell.
    pub command_line: String,
    shared: Arc<Shared>,
    on_demand: Option<Arc<kineto::Endpoint>>,
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    state: Mutex<State>,
    has_ended: Condvar,
}

#[derive(Debug)]
struct State {
    status: Status,
    output: Output,
    /// How often the user asked for the end.
    stops: u32,
    /// Whether the user wants the recorder on, once they have said so.
    wants_on: Option<bool>,
    /// Something is there that was not shown yet.
    is_new: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    /// Starts a program; it takes the time to write a few small files.
    ///
    /// * `alongside`: called with the run's folder before the program starts, where the request has counters; what it
    ///   returns is dropped when the program has ended. It is for what is watched meanwhile.
    /// * `wake`: called from another thread when there is something new to see.
    ///
    /// Errors: a sentence for the user; nothing runs then.
    pub fn start<A: Send + 'static>(
        request: &Request,
        alongside: impl FnOnce(&Path) -> A,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, LaunchError> {
        request.check()?;
        let (Destination::In(place) | Destination::At(place)) = &request.place;
        let make = || match &request.place {
            Destination::In(root) => folder::create(root, &request.title()),
            Destination::At(folder) => folder::claim(folder),
        };
        let folder = registry::folder(registry::Keep::Run, make).map_err(LaunchError::at(place))?;
        supervise::start(request, &folder, alongside, wake).inspect_err(|_| {
            registry::end(&folder);
            registry::forget(&folder);
            // Nothing is in it but what was prepared.
            registry::remove(&folder);
        })
    }

    /// By which traces are asked for, if this run is recorded on demand.
    pub fn on_demand(&self) -> Option<&kineto::Endpoint> {
        self.on_demand.as_deref()
    }

    /// Asks for the end; asked again, it is SIGTERM at once, then SIGKILL.
    pub fn stop(&self) {
        self.shared.lock().stops += 1;
    }

    /// Starts or stops the recorder of a program that runs, where [`Status::switch`] is there.
    pub fn record(&self, is_on: bool) {
        self.shared.lock().wants_on = Some(is_on);
    }

    pub fn status(&self) -> Status {
        let mut status = self.shared.lock().status.clone();
        if status.exit.is_none() {
            status.elapsed = self.shared.started.elapsed();
        }
        status
    }

    /// Shows the output to `look`, which must be quick: the program's writing waits meanwhile.
    pub fn with_output<T>(&self, look: impl FnOnce(&Output) -> T) -> T {
        look(&self.shared.lock().output)
    }

    /// Waits for the end and returns the last status.
    pub fn wait(&self) -> Status {
        loop {
            if let Some(status) = self.wait_at_most(Duration::from_secs(3600)) {
                return status;
            }
        }
    }

    /// The last status, if the run ends within this time.
    pub fn wait_at_most(&self, time: Duration) -> Option<Status> {
        let is_on = |state: &mut State| state.status.stage < Stage::Ended;
        let waited = self.shared.has_ended.wait_timeout_while(self.shared.lock(), time, is_on);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (state.status.stage == Stage::Ended).then(|| state.status.clone())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stops = state.stops.max(1);
    }
}

/// Ends what runs on in `root` after its Lacuna was killed, and says so in its manifest.
pub fn end_abandoned(root: &Path) {
    for Earlier { folder, manifest, .. } in list(root) {
        if !manifest.has_ended && scratch::is_abandoned(&folder) {
            end_run(&folder, manifest);
        }
    }
}

/// Ends what runs in a folder whose Lacuna was killed, keeps what it recorded, and says so in its manifest.
fn end_run(folder: &Path, mut manifest: Manifest) {
    registry::end(folder);
    manifest.has_ended = true;
    manifest.notes.push("Lacuna was killed while this ran".to_owned());
    nsys::take_reports(folder);
    kineto::remove_leftovers(folder);
    counters::keep(folder);
    manifest.results = results(folder, true).iter().map(Recorded::name).collect();
    // Tried again at the next start.
    _ = manifest.write(folder);
}
