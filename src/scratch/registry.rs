//! The programs that run now with the folders they work in, so that a signal or the end of Lacuna ends them all.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::members::{MARK, Members, remove_noted};
#[cfg(unix)]
use super::members::{is_one_starting, processes_with, variable};
use super::orphans::Orphans;

/// How often processes are looked for again: one may start another at the moment it is killed.
const ROUNDS: usize = 200;
const ROUND: Duration = Duration::from_millis(5);

/// When Lacuna ends, the runs that the user started have this long to write what they recorded.
pub const CLOSING: Duration = Duration::from_secs(10);
/// How long Lacuna then waits for what is noted of runs that were killed.
const LAST_NOTES: Duration = Duration::from_secs(3);

/// What else is to be done at the end.
static AT_END: OnceLock<fn()> = OnceLock::new();
static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { folders: Vec::new(), orphans: Orphans::new(), is_closed: false });
/// How often the runs that the user started were asked to end, by signals to Lacuna or because it ends.
static STOPS: AtomicU32 = AtomicU32::new(0);
/// Whether the first of them was SIGTERM.
static IS_TERMINATED: AtomicBool = AtomicBool::new(false);
/// Whether signals to Lacuna are for the run.
static IS_PASSED_ON: AtomicBool = AtomicBool::new(false);

#[derive(Debug)]
struct Registry {
    folders: Vec<PrivateFolder>,
    orphans: Orphans,
    /// Nothing more is started.
    is_closed: bool,
}

#[derive(Debug)]
struct PrivateFolder {
    path: PathBuf,
    /// The process group that works in it.
    group: Option<u32>,
    /// Those of its processes that were seen.
    members: Members,
    keep: Keep,
}

impl PrivateFolder {
    fn new(path: PathBuf, keep: Keep) -> Self {
        let members = if keep == Keep::Run { Members::noted(&path) } else { Members::default() };
        Self { path, group: None, members, keep }
    }

    /// Notes the processes of a run, which outlives a Lacuna that is killed.
    fn note(&mut self) {
        if self.keep == Keep::Run {
            self.members.note(&self.path);
        }
    }
}

/// What becomes of a folder or a file when Lacuna ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Its programs are killed, and it is removed.
    Remove,
    /// It is that of a run, which is asked to end; what was recorded there stays.
    Run,
    /// It is a file that is not finished, in which nothing runs.
    Unfinished,
}

impl Registry {
    fn find(&mut self, folder: &Path) -> Option<&mut PrivateFolder> {
        self.folders.iter_mut().find(|known| known.path == folder)
    }

    fn n_runs(&self) -> usize {
        self.folders.iter().filter(|folder| folder.keep == Keep::Run).count()
    }

    /// Calls `act` with a folder and its orphans: those of the machine's processes that were given to Lacuna are of the
    /// only run that goes on.
    fn with<R>(&mut self, folder: &Path, act: impl FnOnce(&mut PrivateFolder, (&mut Orphans, bool)) -> R) -> Option<R> {
        let is_alone = self.n_runs() == 1;
        let known = self.folders.iter_mut().find(|known| known.path == folder)?;
        let takes_orphans = is_alone && known.keep == Keep::Run;
        Some(act(known, (&mut self.orphans, takes_orphans)))
    }
}

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a folder and remembers it until [`forget`].
///
/// Errors: those of `make`, and that Lacuna is about to end.
pub fn folder(keep: Keep, make: impl FnOnce() -> std::io::Result<PathBuf>) -> std::io::Result<PathBuf> {
    watch_signals();
    let mut registry = lock();
    refuse_if_closed(&registry)?;
    let path = make()?;
    registry.folders.push(PrivateFolder::new(path.clone(), keep));
    Ok(path)
}

/// Makes a file that is not finished yet and remembers it until [`forget`]; also while Lacuna ends, since runs write
/// then what they recorded.
///
/// Errors: those of `make`.
pub fn partial_file<T>(path: &Path, make: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    watch_signals();
    let mut registry = lock();
    let made = make()?;
    registry.folders.push(PrivateFolder::new(path.to_owned(), Keep::Unfinished));
    Ok(made)
}

pub fn forget(folder: &Path) {
    let mut registry = lock();
    registry.folders.retain(|known| known.path != folder);
    remove_noted(folder);
    let has_runs = registry.n_runs() > 0;
    registry.orphans.switch(has_runs);
}

/// Starts `command` as the process group of a remembered folder.
///
/// Errors: it cannot be started, or Lacuna is about to end.
pub fn start(command: &mut Command, folder: &Path) -> std::io::Result<Child> {
    let mut registry = lock();
    let has_runs = registry.n_runs() > 0;
    registry.orphans.switch(has_runs);
    if let Some(known) = registry.find(folder) {
        known.members.note_others();
    }
    let child = spawn(&mut registry, command.env(MARK, folder))?;
    if let Some(known) = registry.find(folder) {
        known.group = Some(child.id());
        known.members.add(child.id());
        known.note();
    }
    Ok(child)
}

/// Starts `command` beside the process group of a remembered folder; whatever ends that ends it as well.
///
/// Errors: it cannot be started, or Lacuna is about to end.
pub fn start_beside(command: &mut Command, folder: &Path) -> std::io::Result<Child> {
    spawn(&mut lock(), command.env(MARK, folder))
}

/// Starts `command` as a process group of its own, which is of no folder and lives on after Lacuna.
///
/// Errors: it cannot be started, or Lacuna is about to end.
pub fn start_apart(command: &mut Command) -> std::io::Result<Child> {
    spawn(&mut lock(), command)
}

fn spawn(registry: &mut Registry, command: &mut Command) -> std::io::Result<Child> {
    refuse_if_closed(registry)?;
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let child = command.spawn()?;
    registry.orphans.started(child.id());
    Ok(child)
}

/// Ends all that was started in the folder, before its first process is waited for and its id may be reused.
pub fn end(folder: &Path) {
    let mut registry = lock();
    let ended = registry.with(folder, |known, orphans| {
        end_with_orphans(folder, known.group.take(), &mut known.members, orphans);
    });
    drop(registry);
    if ended.is_none() {
        end_processes(folder);
    }
}

/// Looks which processes of a run are new, if one may have been given to Lacuna since the last time: nobody finds that
/// once Lacuna is killed.
pub fn look_for_orphans(folder: &Path) {
    let have_changed = lock().orphans.have_changed();
    if have_changed {
        look(folder);
    }
}

/// Looks which processes of a run are new; to be called often while it goes on.
pub fn look(folder: &Path) {
    _ = lock().with(folder, |known, (orphans, takes_orphans)| {
        known.members.look(folder, orphans, takes_orphans);
        known.note();
    });
}

/// Has the end of Lacuna also do this, after what it runs has ended: it must not take long.
pub fn at_end(last: fn()) {
    // The first stays.
    let _ = AT_END.set(last);
}

fn refuse_if_closed(registry: &Registry) -> std::io::Result<()> {
    match registry.is_closed {
        true => Err(std::io::Error::new(std::io::ErrorKind::Interrupted, "Lacuna is being closed")),
        false => Ok(()),
    }
}

/// Ends every program that Lacuna runs and removes what they wrote; nothing more is started. While the returned
/// value lives, threads that wait for a program do not notice its end.
///
/// Runs that the user started have ten seconds to end by themselves.
#[must_use]
pub fn end_all() -> impl Sized {
    let mut registry = lock();
    registry.is_closed = true;
    let has_runs = |registry: &Registry| registry.n_runs() > 0;
    if has_runs(&registry) {
        STOPS.fetch_max(1, Ordering::Relaxed);
        let asked = Instant::now();
        while has_runs(&registry) && asked.elapsed() < CLOSING {
            drop(registry);
            std::thread::sleep(ROUND);
            registry = lock();
        }
    }
    let is_alone = registry.n_runs() == 1;
    let Registry { folders, orphans, .. } = &mut *registry;
    for PrivateFolder { path, group, members, keep } in folders {
        if *keep == Keep::Unfinished {
            let _ = std::fs::remove_file(path);
            continue;
        }
        end_with_orphans(path, *group, members, (orphans, is_alone && *keep == Keep::Run));
        if *keep == Keep::Remove {
            remove(path);
        }
    }
    // What a run wrote until it was killed is noted as that of any other.
    let killed = Instant::now();
    while has_runs(&registry) && killed.elapsed() < LAST_NOTES {
        drop(registry);
        std::thread::sleep(ROUND);
        registry = lock();
    }
    if let Some(last) = AT_END.get() {
        last();
    }
    registry
}

/// How often runs were asked to end by signals, or because Lacuna ends.
pub fn stops() -> u32 {
    STOPS.load(Ordering::Relaxed)
}

/// Whether runs were first asked to end by SIGTERM to Lacuna, which is what they get then.
pub fn is_terminated() -> bool {
    IS_TERMINATED.load(Ordering::Relaxed)
}

/// From now on the first two signals that would end Lacuna ask its run to end instead.
pub fn pass_signals_on() {
    IS_PASSED_ON.store(true, Ordering::Relaxed);
}

/// Sends a signal to a process group, before its first process is waited for.
#[cfg(unix)]
pub fn signal_group(group: u32, signal: rustix::process::Signal) {
    // Processes that have ended are not errors.
    _ = pid(group).map(|group| rustix::process::kill_process_group(group, signal));
}

/// Sends a signal to a run: to its group, where that is known, and to processes that are not in it.
#[cfg(unix)]
pub fn signal(folder: &Path, group: Option<u32>, signal: rustix::process::Signal) {
    use rustix::process::kill_process;
    _ = group.map(|group| signal_group(group, signal));
    let group = group.and_then(pid);
    for strayed in processes_in(folder).into_iter().filter_map(pid) {
        if group.is_none() || rustix::process::getpgid(Some(strayed)).ok() != group {
            _ = kill_process(strayed, signal);
        }
    }
}

/// How many processes of a run there are.
#[cfg(unix)]
pub fn n_processes(folder: &Path) -> usize {
    processes_in(folder).len()
}

/// The processes of a run; not those that have ended and wait for their parent.
#[cfg(unix)]
pub fn processes_in(folder: &Path) -> Vec<u32> {
    let seen = lock().find(folder).map(|known| known.members.alive()).unwrap_or_default();
    joined(seen, folder)
}

/// Those that were seen, and all with the mark of the folder.
#[cfg(unix)]
fn joined(mut seen: Vec<u32>, folder: &Path) -> Vec<u32> {
    seen.extend(processes_with(folder));
    seen.sort_unstable();
    seen.dedup();
    seen
}

/// Whether a process is one of a run.
#[cfg(unix)]
pub fn is_in(folder: &Path, process: u32) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let is_marked = variable(process, MARK).is_some_and(|value| value == folder.as_os_str().as_bytes());
    is_marked || lock().find(folder).is_some_and(|known| known.members.alive().contains(&process))
}

#[cfg(unix)]
fn pid(id: u32) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(i32::try_from(id).ok()?)
}

/// Kills every process that was started in a folder that is not remembered, wherever it has moved itself.
pub fn end_processes(folder: &Path) {
    end_with_orphans(folder, None, &mut Members::noted(folder), (&mut Orphans::new(), false));
    remove_noted(folder);
}

/// Kills the process group and every process that was started in the folder, wherever it has moved itself.
///
/// * `members`: those of its processes that were seen.
/// * `orphans`: whether they are of this folder.
fn end_with_orphans(
    folder: &Path,
    group: Option<u32>,
    members: &mut Members,
    (orphans, takes_orphans): (&mut Orphans, bool),
) {
    #[cfg(unix)]
    {
        use rustix::process::{Signal, kill_process};
        if let Some(group) = group {
            signal_group(group, Signal::KILL);
        }
        for _ in 0..ROUNDS {
            // Asked first: what has started by the time of the search is found by it.
            let is_one_starting = is_one_starting();
            members.look(folder, orphans, takes_orphans);
            let found = joined(members.alive(), folder);
            if found.is_empty() && !is_one_starting {
                return;
            }
            for process in found.into_iter().filter_map(pid) {
                let _ = kill_process(process, Signal::KILL);
            }
            std::thread::sleep(ROUND);
        }
    }
    #[cfg(not(unix))]
    let _ = (folder, group, members, orphans, takes_orphans);
}

/// Removes a folder, also one in which a process that is being killed just made another file.
pub fn remove(folder: &Path) {
    for _ in 0..ROUNDS {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => std::thread::sleep(ROUND),
            // Another thread removes it too, and may not come to the end of that.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && folder.exists() => {}
            _ => return,
        }
    }
}

/// Lets the signals that end Lacuna first end what it runs. Those that it was told to ignore, as `nohup` does,
/// stay ignored, except that an interrupt ends what Lacuna starts: a shell has it ignored in all that it runs in the
/// background, programs inherit that, and it is how they are asked to end.
#[cfg(unix)]
pub fn watch_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let ignored = ignored_signals();
        if ignored >> (SIGINT - 1) & 1 == 1 {
            // What is handled, though nothing comes of it, is the default in programs.
            let _ = signal_hook::flag::register(SIGINT, std::sync::Arc::<AtomicBool>::default());
        }
        let wanted = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return };
        let wait = move || {
            for signal in signals.forever() {
                if signal == SIGTERM && STOPS.load(Ordering::Relaxed) == 0 {
                    IS_TERMINATED.store(true, Ordering::Relaxed);
                }
                let n = STOPS.fetch_add(1, Ordering::Relaxed) + 1;
                if IS_PASSED_ON.load(Ordering::Relaxed) && n <= 2 {
                    continue;
                }
                let _ended = end_all();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        // Without a thread the next start of Lacuna removes what is left.
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    });
}

#[cfg(not(unix))]
pub fn watch_signals() {}

/// Makes it an error of the write that a file reaches the limit of its size, which else ends Lacuna without a word.
///
/// Programs that Lacuna starts end as the system has it: a signal that is handled, and not ignored, is theirs again.
pub fn fail_writes_at_the_limit() {
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::<AtomicBool>::default());
}

/// Whether Lacuna was told to ignore a signal, as `nohup` does.
#[cfg(unix)]
pub fn is_ignored(signal: i32) -> bool {
    ignored_signals() >> (signal - 1) & 1 == 1
}

/// Bit `n - 1` stands for signal `n`, as Linux tells; elsewhere none.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_soon_as_it_is_started() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..100 {
            let mut started = Command::new("sleep").arg("30").env(MARK, folder.path()).spawn().unwrap();
            end_processes(folder.path());
            assert!(!started.wait().unwrap().success(), "it slept to its end");
        }
    }
}
