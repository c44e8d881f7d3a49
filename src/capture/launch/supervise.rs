//! The threads of a run: one watches the program until all of it has ended, two read its output.

use std::io::{IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::folder::{self, Manifest, RunOptions};
use super::output::{Output, Stream};
use super::successor::Successor;
use super::switch::Switching;
use super::{Exit, LaunchError, Recorder, Request, Run, Shared, Stage, State, Status, assignment, words};
use crate::capture::{kineto, nsys, pytorch, registry, run::Running, scratch};
use crate::job;

/// How often the program is looked at, and the latency of a stop.
const LOOK: Duration = Duration::from_millis(20);
/// How often its folder is.
const SCAN: Duration = Duration::from_millis(250);
/// How long processes may take to end that the program left behind.
const LEFT: Duration = Duration::from_secs(5);
/// How long a recorder that starts the program may take to do so before a stop is for the recorder itself.
const BEGIN: Duration = Duration::from_secs(10);
/// How long the output may take to arrive after every process has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// Starts the program of a request in its folder, and the threads that watch it.
///
/// Errors: it cannot be started.
pub fn start<A: Send + 'static>(
    request: &Request,
    folder: &Path,
    alongside: impl FnOnce(&Path) -> A,
    wake: impl Fn() + Send + 'static,
) -> Result<Run, LaunchError> {
    let lock = scratch::hold(folder).map_err(LaunchError::at(folder))?;
    request.recorder.prepare(folder)?;
    let on_demand = match &request.recorder {
        Recorder::OnDemand(options) => {
            let is_configured = request.value("KINETO_CONFIG").is_some();
            Some(Arc::new(kineto::Endpoint::open(folder, options, is_configured).map_err(LaunchError::at(folder))?))
        }
        _ => None,
    };
    let manifest = manifest_of(request);
    manifest.write(folder).map_err(LaunchError::at(folder))?;
    let words = request.command(folder);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).envs(request.additions(folder));
    command.stdin(input(request)).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(place) = &request.working_folder {
        command.current_dir(place);
    }
    let notes = on_demand.as_deref().map(kineto::Endpoint::warnings).unwrap_or_default();
    let alongside = request.has_counters.then(|| alongside(folder));
    let switching = match &request.recorder {
        Recorder::Nsys(profile) if profile.is_switched() => {
            Some(Switching::new(profile, folder, request.value("TMPDIR")))
        }
        _ => None,
    };
    let successor = Successor::start(folder);
    let started = Instant::now();
    let mut child = registry::start(&mut command, folder).map_err(LaunchError::Start)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let switch = switching.as_ref().map(Switching::state);
    let status = Status { switch, notes, ..Status::begun(request.time_limit) };
    let state = Mutex::new(State { status, output: Output::default(), stops: 0, wants_on: None, is_new: true });
    let shared = Arc::new(Shared { started, state, has_ended: Condvar::new() });
    let command_line = request.command_line(folder);
    let n_open = Arc::new(AtomicUsize::new(0));
    let watch = Watch {
        folder: folder.to_owned(),
        request: request.clone(),
        shared: Arc::clone(&shared),
        n_open: Arc::clone(&n_open),
        on_demand: on_demand.clone(),
        wake: Box::new(wake),
    };
    let mut running = Some((child, lock, switching, alongside, successor));
    let supervised = move || {
        if let Some((child, _lock, switching, alongside, successor)) = running.take() {
            let mut running = Running { child, folder: &watch.folder };
            let exit = watch.until_end(&mut running, switching);
            drop((successor, alongside));
            watch.finish(manifest, exit);
        }
    };
    if let Some(out) = out {
        read(out, Stream::Out, &shared, &n_open, request.is_piped.then(|| Box::new(std::io::stdout()) as _));
    }
    if let Some(err) = err {
        read(err, Stream::Err, &shared, &n_open, request.is_piped.then(|| Box::new(std::io::stderr()) as _));
    }
    // Without a thread, the caller ends the program.
    job::start("run", supervised, |_| {}).map_err(LaunchError::Start)?;
    Ok(Run { folder: folder.to_owned(), command_line, shared, on_demand })
}

/// What the program reads: nothing from a terminal, since in a group of its own it would be stopped there.
fn input(request: &Request) -> Stdio {
    if request.is_piped && !std::io::stdin().is_terminal() { Stdio::inherit() } else { Stdio::null() }
}

/// Whether the first signal of the end is SIGTERM: that is what Lacuna got.
fn begins_with_sigterm() -> bool {
    #[cfg(unix)]
    return registry::is_terminated();
    #[cfg(not(unix))]
    false
}

fn manifest_of(request: &Request) -> Manifest {
    let working_folder = request.working_folder.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Manifest {
        lacuna: env!("CARGO_PKG_VERSION").to_owned(),
        command: words::joined(&request.argv),
        working_folder: words::path_text(&working_folder),
        env: request.env.iter().map(|(name, value)| assignment(name, value)).collect(),
        typed: request.typed.clone(),
        recorder: request.recorder.name().to_owned(),
        options: Some(RunOptions {
            recorder: request.recorder.options(),
            seconds: request.time_limit.map_or(0, |limit| limit.as_secs()),
            has_counters: request.has_counters,
        }),
        started_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        ..Default::default()
    }
}

/// Reads a stream on a thread of its own until its last writer has closed it.
fn read(
    mut from: impl Read + Send + 'static,
    stream: Stream,
    shared: &Arc<Shared>,
    n_open: &Arc<AtomicUsize>,
    mut shown: Option<Box<dyn Write + Send>>,
) {
    let (shared, n_open) = (Arc::clone(shared), Arc::clone(n_open));
    n_open.fetch_add(1, Ordering::Relaxed);
    let ended = Arc::clone(&n_open);
    let work = move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n = match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(n) => n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            // A reader of Lacuna's output that went away does not end the program.
            _ = shown.as_mut().map(|shown| shown.write_all(&buffer[..n]).and_then(|()| shown.flush()));
            let mut state = shared.lock();
            state.output.push(stream, &buffer[..n]);
            state.is_new = true;
        }
    };
    if job::start("output", work, move |_| _ = ended.fetch_sub(1, Ordering::Release)).is_err() {
        n_open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a recorder writes what it recorded of a program that has ended.
#[derive(Default)]
struct Writing {
    /// Bytes in its folder, and since when there are so many; `None` while the program runs.
    seen: Option<(u64, Instant)>,
    /// Whether the program was seen to run.
    has_begun: bool,
}

impl Writing {
    fn look(&mut self, recorder: &Recorder, folder: &Path) {
        let Recorder::Nsys(_) = recorder else { return };
        let bytes = nsys::written(folder);
        let is_writing = nsys::is_writing(folder);
        self.has_begun |= !is_writing;
        self.seen = match self.seen {
            _ if !is_writing => None,
            Some((known, since)) if known == bytes => Some((known, since)),
            _ => Some((bytes, Instant::now())),
        };
    }

    fn has_hung(&self, patience: Duration) -> bool {
        self.seen.is_some_and(|(_, since)| since.elapsed() >= patience)
    }
}

/// What the watching thread needs.
struct Watch {
    folder: PathBuf,
    request: Request,
    shared: Arc<Shared>,
    /// Streams that are still read.
    n_open: Arc<AtomicUsize>,
    on_demand: Option<Arc<kineto::Endpoint>>,
    wake: Box<dyn Fn() + Send>,
}

impl Watch {
    /// Waits until the program and all that it started have ended, and ends them on request.
    fn until_end(&self, running: &mut Running<'_>, mut switching: Option<Switching>) -> Exit {
        let mut scanned = Instant::now();
        let mut since = Instant::now();
        let mut writing = Writing::default();
        while matches!(running.has_ended(), Ok(false)) {
            registry::look_for_orphans(&self.folder);
            if scanned.elapsed() >= SCAN {
                scanned = Instant::now();
                registry::look(&self.folder);
                self.scan(false);
                writing.look(&self.request.recorder, &self.folder);
                if writing.has_hung(self.request.patience) {
                    let patience = self.request.patience.as_secs();
                    self.tell(&format!(
                        "The recorder made no progress for {patience} s after the program had ended, and was ended"
                    ));
                    running.end();
                }
            }
            if let Some(switching) = &mut switching {
                self.go_on(switching);
            }
            let (stage, stops) = {
                let state = self.shared.lock();
                (state.status.stage, state.stops.max(registry::stops()))
            };
            let is_over = self.request.time_limit.is_some_and(|limit| self.shared.started.elapsed() >= limit);
            let asked = stops.max(u32::from(is_over));
            let mut is_late = stage > Stage::Running && since.elapsed() >= self.request.grace;
            if is_late && self.is_writing() {
                // The program still has to end after it.
                (is_late, since) = (false, Instant::now());
            }
            // A recorder that is told to stop while it starts the program writes nothing.
            let is_early = !self.request.recorder.has_begun(writing.has_begun) && self.shared.started.elapsed() < BEGIN;
            let next = match stage {
                Stage::Running if is_early && asked < 2 => stage,
                Stage::Running if asked >= 1 && begins_with_sigterm() => Stage::Terminated,
                Stage::Running if asked >= 1 => Stage::Interrupted,
                Stage::Interrupted if asked >= 2 || is_late => Stage::Terminated,
                Stage::Terminated if asked >= 3 || is_late => Stage::Killed,
                Stage::Killed if asked >= 4 || is_late => {
                    running.end();
                    stage
                }
                _ => stage,
            };
            if next != stage {
                since = Instant::now();
                self.shared.lock().status.is_over_limit |= stage == Stage::Running && stops == 0;
                self.send((stage, next), running, writing.has_begun);
            }
            self.show();
            std::thread::sleep(LOOK);
        }
        self.set_stage(Stage::Ending);
        self.end_left(running);
        running.end();
        let exit = running.child.wait().map_or(Exit::Unknown, exit_of);
        self.request.recorder.exit(exit)
    }

    /// Whether a recording is being written, or a program that is over waits for one to come.
    fn is_writing(&self) -> bool {
        let holds = |endpoint: &Arc<kineto::Endpoint>| endpoint.holds();
        self.request.recorder.is_writing(&self.folder) || self.on_demand.as_ref().is_some_and(holds)
    }

    /// Lets the recorder be switched, as the user or its time says.
    fn go_on(&self, switching: &mut Switching) {
        let mut wants_on = self.shared.lock().wants_on.take();
        let outcome = switching.go_on(&mut wants_on);
        let mut state = self.shared.lock();
        state.wants_on = state.wants_on.or(wants_on);
        state.is_new |= state.status.switch != Some(switching.state());
        state.status.switch = Some(switching.state());
        drop(state);
        if let Err(why) = outcome {
            self.tell(&why);
        }
    }

    /// Says something at once; it stays with the notes of the run.
    fn tell(&self, note: &str) {
        let mut state = self.shared.lock();
        if state.status.notes.iter().all(|known| known != note) {
            state.status.notes.push(note.to_owned());
            state.is_new = true;
        }
    }

    /// Enters a stage of the end after another; each is a signal.
    fn send(&self, (before, stage): (Stage, Stage), running: &mut Running<'_>, has_begun: bool) {
        self.set_stage(stage);
        #[cfg(unix)]
        {
            use rustix::process::Signal;
            let group = running.child.id();
            let signal = match stage {
                Stage::Interrupted => Signal::INT,
                Stage::Terminated => Signal::TERM,
                _ => Signal::KILL,
            };
            // A recorder that started the program writes once that has ended.
            let is_of_program = self.request.recorder.signal_program(&self.folder, signal);
            if is_of_program || (has_begun && stage < Stage::Killed) {
                return;
            }
            match stage {
                // Those that left the group get it from whoever started them; twice, it would break off their end.
                _ if before == Stage::Running => registry::signal_group(group, signal),
                Stage::Terminated => registry::signal(&self.folder, Some(group), signal),
                _ => running.end(),
            }
        }
        #[cfg(not(unix))]
        {
            let _ = (before, has_begun);
            running.end();
        }
    }

    /// Lets processes end that the program left behind.
    fn end_left(&self, running: &Running<'_>) {
        #[cfg(unix)]
        {
            if registry::n_processes(&self.folder) == 0 {
                return;
            }
            registry::signal(&self.folder, Some(running.child.id()), rustix::process::Signal::TERM);
            let asked = Instant::now();
            let is_writing = || self.request.recorder.is_writing_when_left(&self.folder);
            while registry::n_processes(&self.folder) > 0
                && (asked.elapsed() < LEFT || (asked.elapsed() < self.request.grace && is_writing()))
            {
                self.show();
                std::thread::sleep(LOOK);
            }
        }
        #[cfg(not(unix))]
        let _ = running;
    }

    fn set_stage(&self, stage: Stage) {
        let mut state = self.shared.lock();
        state.status.stage = stage;
        state.is_new = true;
    }

    /// Looks which results there are, and how far the recorder is.
    fn scan(&self, is_over: bool) {
        let results = folder::results(&self.folder, is_over);
        let processes = match &self.on_demand {
            Some(endpoint) => endpoint.processes(),
            None => pytorch::processes(&self.folder),
        };
        let mut state = self.shared.lock();
        state.is_new |= state.status.results != results || state.status.processes != processes;
        state.status.results = results;
        state.status.processes = processes;
    }

    /// Wakes whoever shows the run, if there is something new.
    fn show(&self) {
        if std::mem::take(&mut self.shared.lock().is_new) {
            (self.wake)();
        }
    }

    /// Writes what the run leaves behind, and says that it has ended.
    fn finish(&self, mut manifest: Manifest, exit: Exit) {
        // As the manifest keeps it.
        let elapsed_ms = (self.shared.started.elapsed().as_micros() + 500) / 1000;
        let elapsed_ms = u64::try_from(elapsed_ms).unwrap_or(u64::MAX);
        let elapsed = Duration::from_millis(elapsed_ms);
        while self.n_open.load(Ordering::Acquire) > 0 && self.shared.started.elapsed() < elapsed + DRAIN {
            std::thread::sleep(LOOK);
        }
        if let Recorder::Nsys(_) = self.request.recorder {
            nsys::take_reports(&self.folder);
            nsys::clean(&self.folder);
        }
        let last = self.on_demand.as_ref().map(|endpoint| endpoint.finish(exit));
        self.scan(true);
        let mut state = self.shared.lock();
        state.output.finish();
        let mut notes = std::mem::take(&mut state.status.notes);
        notes.extend(last.unwrap_or_default());
        notes.extend(self.request.recorder.notes(&self.folder, &state.output));
        let (output, of_stderr) = (state.output.text(), state.output.lines_of_stderr());
        manifest.elapsed_ms = elapsed_ms;
        manifest.has_ended = true;
        (manifest.exit_code, manifest.signal) = match exit {
            Exit::Code(code) => (Some(code), None),
            Exit::Signal(signal) => (None, Some(signal)),
            Exit::Unknown => (None, None),
        };
        let is_over_limit = state.status.is_over_limit;
        let was_stopped = state.stops.max(registry::stops()) > 0 || is_over_limit;
        (manifest.was_stopped, manifest.was_over_limit) = (was_stopped, is_over_limit);
        (manifest.lines, manifest.lines_dropped) = (state.output.n_lines, state.output.n_dropped);
        manifest.results = state.status.results.iter().map(super::Recorded::name).collect();
        manifest.notes.clone_from(&notes);
        drop(state);
        let written = folder::keep_output(&self.folder, &output, &of_stderr).and(manifest.write(&self.folder));
        registry::forget(&self.folder);
        let mut state = self.shared.lock();
        (state.status.notes, state.status.was_stopped) = (notes, was_stopped);
        if let Err(error) = written {
            state.status.notes.push(format!("The folder of the run could not be written to: {error}"));
        }
        (state.status.elapsed, state.status.exit, state.status.stage) = (elapsed, Some(exit), Stage::Ended);
        drop(state);
        self.shared.has_ended.notify_all();
        (self.wake)();
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Exit::Signal(signal);
    }
    status.code().map_or(Exit::Unknown, Exit::Code)
}
