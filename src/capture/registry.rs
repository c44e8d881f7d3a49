//! The programs that run now with the folders they work in, so that a signal or the end of Lacuna ends them all.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often processes are looked for again: one may start another at the moment it is killed.
const ROUNDS: usize = 200;
const ROUND: Duration = Duration::from_millis(5);

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { folders: Vec::new(), is_closed: false });

#[derive(Debug)]
struct Registry {
    /// Each folder, with the process group that works in it.
    folders: Vec<(PathBuf, Option<u32>)>,
    /// Nothing more is started.
    is_closed: bool,
}

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a folder and remembers it until [`forget`].
///
/// Errors: those of `make`, and that Lacuna is about to end.
pub fn folder(make: impl FnOnce() -> std::io::Result<PathBuf>) -> std::io::Result<PathBuf> {
    watch_signals();
    let mut registry = lock();
    refuse_if_closed(&registry)?;
    let folder = make()?;
    registry.folders.push((folder.clone(), None));
    Ok(folder)
}

pub fn forget(folder: &Path) {
    lock().folders.retain(|known| known.0 != folder);
}

/// Starts `command` as the process group of a remembered folder.
///
/// Errors: it cannot be started, or Lacuna is about to end.
pub fn start(command: &mut Command, folder: &Path) -> std::io::Result<Child> {
    let mut registry = lock();
    refuse_if_closed(&registry)?;
    let child = command.spawn()?;
    set_group(&mut registry, folder, Some(child.id()));
    Ok(child)
}

/// Ends all that was started in the folder, before its first process is waited for and its id may be reused.
pub fn end(folder: &Path) {
    let mut registry = lock();
    let group = registry.folders.iter().find(|known| known.0 == folder).and_then(|known| known.1);
    end_processes(folder, group);
    set_group(&mut registry, folder, None);
}

fn set_group(registry: &mut Registry, folder: &Path, group: Option<u32>) {
    if let Some(known) = registry.folders.iter_mut().find(|known| known.0 == folder) {
        known.1 = group;
    }
}

fn refuse_if_closed(registry: &Registry) -> std::io::Result<()> {
    match registry.is_closed {
        true => Err(std::io::Error::new(std::io::ErrorKind::Interrupted, "Lacuna is being closed")),
        false => Ok(()),
    }
}

/// Ends every program that Lacuna runs and removes what they wrote; nothing more is started. While the returned
/// value lives, threads that wait for a program do not notice its end.
#[must_use]
pub fn end_all() -> impl Sized {
    let mut registry = lock();
    registry.is_closed = true;
    for (folder, group) in &registry.folders {
        end_processes(folder, *group);
        remove(folder);
    }
    registry
}

/// Kills the process group and every process whose `TMPDIR` is the folder, wherever it has moved itself.
pub fn end_processes(folder: &Path, group: Option<u32>) {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process, kill_process_group};
        let pid = |id: u32| Pid::from_raw(i32::try_from(id).ok()?);
        // Processes that have ended are no error.
        if let Some(group) = group.and_then(pid) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        for _ in 0..ROUNDS {
            let found = processes_in(folder);
            if found.is_empty() {
                return;
            }
            for process in found.into_iter().filter_map(pid) {
                let _ = kill_process(process, Signal::KILL);
            }
            std::thread::sleep(ROUND);
        }
    }
    #[cfg(not(unix))]
    let _ = (folder, group);
}

/// Processes that were started with the folder as their `TMPDIR`, as Linux knows them.
#[cfg(unix)]
fn processes_in(folder: &Path) -> Vec<u32> {
    use std::os::unix::ffi::OsStrExt as _;
    let wanted = [b"TMPDIR=", folder.as_os_str().as_bytes()].concat();
    let is_in = |process: &Path| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted)
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let with_id = entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    with_id.filter(|(_, process)| is_in(process)).map(|(id, _)| id).collect()
}

/// Removes a folder, also one in which a process that is being killed just made another file.
pub fn remove(folder: &Path) {
    for _ in 0..ROUNDS {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => std::thread::sleep(ROUND),
            _ => return,
        }
    }
}

/// Lets the signals that end Lacuna first end what it runs. Those that it was told to ignore, as `nohup` does,
/// stay ignored.
#[cfg(unix)]
fn watch_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let ignored = ignored_signals();
        let wanted = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return };
        let wait = move || {
            if let Some(signal) = signals.forever().next() {
                let _ended = end_all();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        // Without a thread the next start of Lacuna removes what is left.
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    });
}

#[cfg(not(unix))]
fn watch_signals() {}

/// Bit `n - 1` stands for signal `n`, as Linux tells; elsewhere none.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
