//! The daemon's side: which processes there are, what each is told, and what they wrote.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::Timespec;

use super::message::{self, Message};
use super::socket::{NAME, Received, Sockets};
use super::{INTERVAL, KINETO_INTERVAL, LATE, Options, WARM_UP, base_configuration, place, socket_folder, traces};
use crate::capture::launch::{Exit, launched};
use crate::capture::pytorch::Process;
use crate::capture::{members, registry};

/// Latency of the end, of a trigger, and of a trace that is whole.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const LOOK: Duration = Duration::from_millis(250);
const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

/// The endpoint of one run. Dropping it closes the sockets.
#[derive(Debug)]
pub struct Endpoint {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    options: Options,
    /// How often processes ask.
    interval: Duration,
    is_name_taken: bool,
    is_ended: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    clients: BTreeMap<u32, Client>,
    look: traces::FileWatch,
    /// Traces that were asked for.
    n_asked: u32,
    /// Whether one was asked for while no process could record.
    was_in_vain: bool,
    /// When the latest was; before, when the first process was there.
    asked: Option<Instant>,
    /// Traces that hold nothing and were not kept.
    n_empty: usize,
    problems: Vec<String>,
}

/// A process of the run with Kineto in it.
#[derive(Debug)]
struct Client {
    rank: Option<u32>,
    /// Its ancestors, the parent first.
    ancestors: Vec<u32>,
    /// It starts workers or loads data; it is not asked any more.
    is_helper: bool,
    /// It said that its program has ended, and waits for its trace at most.
    is_ending: bool,
    stage: Stage,
    results: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Ready,
    /// To be told when it asks; the start is in milliseconds since 1970 where several processes begin together.
    Asked {
        number: u32,
        start_ms: Option<u128>,
    },
    Recording {
        number: u32,
        until: Instant,
    },
    Gone,
}

impl Endpoint {
    /// Opens the sockets, before the program starts. `is_configured`: whether the user set `KINETO_CONFIG`.
    ///
    /// Errors: the folders cannot be made.
    pub fn open(folder: &Path, options: &Options, is_configured: bool) -> std::io::Result<Self> {
        std::fs::create_dir(place(folder))?;
        let base = base_configuration(folder, is_configured);
        if let Some(file) = &base {
            writeln!(File::create(file)?, "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS={INTERVAL}")?;
        }
        let sockets = Sockets::open(&socket_folder(folder), NAME)?;
        let shared = Arc::new(Shared {
            folder: folder.to_owned(),
            options: options.clone(),
            interval: Duration::from_secs(if base.is_some() { INTERVAL } else { KINETO_INTERVAL }),
            is_name_taken: sockets.is_name_taken(),
            is_ended: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("kineto".to_owned()).spawn(move || served.serve(&sockets))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Asks every process of the chosen ranks for a trace; those that record or were asked go on with that.
    ///
    /// Returns how many processes were asked now.
    pub fn trigger(&self) -> usize {
        self.shared.trigger(&mut self.shared.lock())
    }

    /// How many processes could be asked now.
    pub fn n_ready(&self) -> usize {
        let state = self.shared.lock();
        state.clients.values().filter(|client| self.shared.is_wanted(client) && client.stage == Stage::Ready).count()
    }

    /// Whether a process was asked for a trace that is not whole yet.
    pub fn is_busy(&self) -> bool {
        let is_busy = |client: &Client| matches!(client.stage, Stage::Asked { .. } | Stage::Recording { .. });
        self.shared.lock().clients.values().any(is_busy)
    }

    /// Whether a process whose program has ended waits for its trace, at most until that is late.
    pub fn holds(&self) -> bool {
        let is_held = |client: &Client| client.is_ending && matches!(client.stage, Stage::Recording { .. });
        self.shared.lock().clients.values().any(is_held)
    }

    /// How far each process is, by rank.
    pub fn processes(&self) -> Vec<Process> {
        let state = self.shared.lock();
        let wanted = state.clients.iter().filter(|(_, client)| self.shared.is_wanted(client));
        let shown = wanted.map(|(&pid, client)| Process {
            pid,
            rank: client.rank.unwrap_or(0),
            state: match client.stage {
                Stage::Ready => "ready",
                Stage::Asked { .. } => "asked",
                Stage::Recording { .. } => "recording",
                Stage::Gone => "ended",
            }
            .to_owned(),
            results: client.results.clone(),
            ..Default::default()
        });
        let mut shown: Vec<Process> = shown.collect();
        shown.sort_by_key(|process| (process.rank, process.pid));
        shown
    }

    /// What may keep the run without traces although it can begin, and what these will lack: sentences.
    pub fn warnings(&self) -> Vec<String> {
        // torch reports allocations to the profiler of the thread that allocates, and has one for all threads on
        // demand.
        let allocations =
            self.shared.options.contents.profile_memory.then(|| {
                "PyTorch records no allocations on demand: its own profiler does (--backend pytorch)".to_owned()
            });
        let taken = self.shared.is_name_taken.then(|| {
            format!(
                "Another daemon (dynolog, or another Lacuna) has the name {NAME}, which torch before 2.0 asks; with \
                 such a torch nothing will be recorded"
            )
        });
        taken.into_iter().chain(allocations).collect()
    }

    /// Ends the endpoint after the program: takes what was written last. Returns sentences about what is missing.
    pub fn finish(&self, exit: Exit) -> Vec<String> {
        self.close();
        let mut state = self.shared.lock();
        for _ in 0..2 {
            self.shared.collect(&mut state);
        }
        // Only what is not whole is left.
        _ = std::fs::remove_dir_all(place(&self.shared.folder));
        let mut notes = state.problems.clone();
        match state.n_empty {
            0 => {}
            1 => notes.push("One trace was not kept: the program ran no operator meanwhile".to_owned()),
            n => notes.push(format!("{n} traces were not kept: the program ran no operator meanwhile")),
        }
        let is_cut =
            |client: &Client| matches!(client.stage, Stage::Recording { .. }) && !state.is_below_another(client);
        let cut = state.clients.iter().filter(|(_, client)| is_cut(client));
        let n_problems = notes.len();
        let has_results = state.clients.values().any(|client| !client.results.is_empty());
        notes.extend(cut.map(|(pid, client)| {
            format!("Process {pid} (rank {}) ended before its trace was whole", client.rank.unwrap_or(0))
        }));
        // torch 2.15 ends so in a destructor that runs after Python's own end, 2.2 also when it has recorded before.
        if (notes.len() > n_problems || has_results) && matches!(exit, Exit::Signal(SIGABRT | SIGSEGV)) {
            notes.push(
                "Versions of torch crash at the end of a process that they record or have recorded: the program itself \
                 may have ended well"
                    .to_owned(),
            );
        }
        notes.extend(
            match () {
                () if has_results || !notes.is_empty() => None,
                () if state.clients.is_empty() => Some(
                    "Nothing was recorded: no process of this run asked what to record. torch 2.2 and later ask a few \
                 seconds after they are imported, torch 2.0 only where there is a GPU, and a program without torch \
                 never does. The PyTorch profiler, the first choice of what to record with, does not wait to be asked",
                ),
                () if !state.clients.values().any(|client| self.shared.is_wanted(client)) => {
                    Some("Nothing was recorded: no process had one of the chosen ranks")
                }
                () if state.n_asked == 0 && state.was_in_vain => Some(
                    "Nothing was recorded: whenever a trace was asked for, no process could record; torch 2.0 cannot \
                 without a GPU: record with the PyTorch profiler instead",
                ),
                () if state.n_asked == 0 => Some("Nothing was recorded: no trace was asked for while it ran"),
                () => Some("Nothing was recorded: the program ended before the recording began"),
            }
            .map(str::to_owned),
        );
        notes
    }

    fn close(&self) {
        self.shared.is_ended.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        _ = thread.map(JoinHandle::join);
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers until the end.
    fn serve(&self, sockets: &Sockets) {
        let mut looked = Instant::now();
        while !self.is_ended.load(Ordering::Relaxed) {
            match sockets.receive(&WAIT) {
                Ok(Some(received)) => {
                    if let Some(answer) = self.answer_to(&received) {
                        sockets.answer(&received, &answer);
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    self.lock().problems.push(format!("Kineto's socket broke: {error}"));
                    return;
                }
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                let mut state = self.lock();
                self.collect(&mut state);
                self.review(&mut state);
            }
        }
    }

    /// What a process of the run is told. Others get no answer.
    fn answer_to(&self, received: &Received) -> Option<Vec<u8>> {
        let message = Message::read(&received.bytes)?;
        let mut state = self.lock();
        if !state.clients.contains_key(&received.pid) {
            if !registry::is_in(&self.folder, received.pid) {
                return None;
            }
            state.asked.get_or_insert_with(Instant::now);
            state.clients.insert(received.pid, Client::new(received.pid));
        }
        let client = state.clients.get_mut(&received.pid)?;
        let can_record = match message {
            Message::Register => return Some(message::registered()),
            Message::End => {
                let was_ending = std::mem::replace(&mut client.is_ending, true);
                let Stage::Recording { number, .. } = client.stage else {
                    client.stage = Stage::Gone;
                    return Some(message::ended(false));
                };
                if !was_ending {
                    let (pid, rank) = (received.pid, client.rank.unwrap_or(0));
                    state.problems.push(format!(
                        "Process {pid} (rank {rank}) ended while trace {number} was recorded: it may hold little of the \
                         program; what it shows of lacuna_on_demand.py is the process waiting for the trace"
                    ));
                }
                return Some(message::ended(true));
            }
            Message::Request { can_record, ancestors } => {
                client.ancestors = ancestors;
                can_record
            }
        };
        let Stage::Asked { number, start_ms } = client.stage else { return Some(message::configured("")) };
        if !can_record {
            return Some(message::configured(""));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let warm = now.as_millis() + u128::from(WARM_UP) * 1000;
        let start_ms = start_ms.filter(|&start| start > warm);
        let ahead = start_ms.map_or(0, |start| u64::try_from(start - now.as_millis()).unwrap_or(0));
        let length = Duration::from_millis(ahead) + Duration::from_secs(WARM_UP) + self.options.duration;
        client.stage = Stage::Recording { number, until: Instant::now() + length + LATE };
        let file = place(&self.folder).join(format!("{number}.json"));
        Some(message::configured(&self.options.configuration(&file, start_ms)))
    }

    fn is_wanted(&self, client: &Client) -> bool {
        let ranks = self.options.ranks.as_ref();
        !client.is_helper && ranks.is_none_or(|ranks| ranks.contains(&client.rank.unwrap_or(0)))
    }

    fn trigger(&self, state: &mut State) -> usize {
        let ready = |client: &&mut Client| self.is_wanted(client) && client.stage == Stage::Ready;
        let mut clients: Vec<&mut Client> = state.clients.values_mut().filter(ready).collect();
        let n = clients.len();
        if n == 0 {
            state.was_in_vain = true;
            return 0;
        }
        state.n_asked += 1;
        state.asked = Some(Instant::now());
        // Kineto looks once a second whether it is time.
        let ahead = self.interval + Duration::from_secs(WARM_UP + 2);
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + ahead;
        let start_ms = (n > 1).then_some(start.as_millis());
        for client in &mut clients {
            client.stage = Stage::Asked { number: state.n_asked, start_ms };
        }
        n
    }

    /// Gives whole traces their names.
    fn collect(&self, state: &mut State) {
        for written in state.look.whole(&place(&self.folder)) {
            let Some(client) = state.clients.get(&written.pid) else { continue };
            let is_helper = match state.is_below_another(client) {
                true => !traces::has_training(&written.path),
                false => !traces::has_work(&written.path),
            };
            let is_only = state.clients.len() == 1;
            let rank = client.rank.unwrap_or(0);
            let Some(client) = state.clients.get_mut(&written.pid) else { continue };
            let is_empty = is_only && traces::is_empty(&written.path);
            // When its process ends, Kineto writes what there is.
            let is_cut = is_empty && !is_alive(written.pid);
            if client.stage != Stage::Gone && !is_cut {
                client.rest();
            }
            if is_empty {
                state.n_empty += usize::from(!is_cut);
                _ = std::fs::remove_file(&written.path);
                continue;
            }
            if is_helper && !is_only {
                client.is_helper = true;
                _ = std::fs::remove_file(&written.path);
                continue;
            }
            let name = |more: &str| format!("trace-rank{rank}-{}{more}.pt.trace.json", written.number);
            let plain = name("");
            let is_taken = self.folder.join(&plain).exists();
            let name = if is_taken { name(&format!("-pid{}", written.pid)) } else { plain };
            match std::fs::rename(&written.path, self.folder.join(&name)) {
                Ok(()) => client.results.push(name),
                Err(error) => state.problems.push(format!("{name} could not be kept: {error}")),
            }
        }
    }

    /// Notices processes that ended and traces that do not come, and asks when it is time.
    fn review(&self, state: &mut State) {
        for (pid, client) in &mut state.clients {
            match client.stage {
                Stage::Recording { number, until } if Instant::now() > until && !traces::is_writing(&self.folder) => {
                    client.rest();
                    state.problems.push(format!(
                        "Process {pid} (rank {}) did not record trace {number}: it may profile itself, or be too busy",
                        client.rank.unwrap_or(0)
                    ));
                }
                Stage::Ready | Stage::Asked { .. } if !is_alive(*pid) => {
                    client.stage = Stage::Gone;
                }
                _ => {}
            }
        }
        let is_due = |every: Duration| state.asked.is_some_and(|asked| asked.elapsed() >= every);
        if self.options.every.is_some_and(is_due) {
            self.trigger(state);
        }
    }
}

impl State {
    /// Whether a process of the same rank started this one, as it does to load data.
    fn is_below_another(&self, client: &Client) -> bool {
        let is_of_rank = |pid| self.clients.get(pid).is_some_and(|ancestor| ancestor.rank == client.rank);
        client.ancestors.iter().any(is_of_rank)
    }
}

/// Whether a process runs; one that waits for its parent has no command line any more.
fn is_alive(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| !words.is_empty())
}

impl Client {
    fn new(pid: u32) -> Self {
        let number = |name| members::variable(pid, name).and_then(|value| String::from_utf8(value).ok()?.parse().ok());
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = words.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned().into());
        let argv: Vec<std::ffi::OsString> = words.collect();
        Self {
            rank: ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"].into_iter().find_map(number),
            ancestors: Vec::new(),
            is_helper: launched(&argv).is_some() || argv.get(1..).is_some_and(|argv| launched(argv).is_some()),
            is_ending: false,
            stage: Stage::Ready,
            results: Vec::new(),
        }
    }

    /// Its trace is over.
    fn rest(&mut self) {
        self.stage = if self.is_ending { Stage::Gone } else { Stage::Ready };
    }
}
