//! Which processes belong to a run: those with its mark in their environment, and what they start.
//!
//! A process may write over its environment, as setproctitle does, or start others without it, and both may leave
//! the process group and outlive their parent, as the workers of torchrun do. So they are noted while they can be told,
//! in the folder of the run as well.

#[cfg(unix)]
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
#[cfg(unix)]
use std::path::PathBuf;

use super::orphans::Orphans;

/// The variable by which a process is known that left the group of its run; its value is the folder.
pub const MARK: &str = "LACUNA_RUN";
/// The file in the folder of a run that names its processes, for whoever ends them once Lacuna was killed.
const NOTED: &str = "pids";

/// The processes of a run that were seen.
#[derive(Debug, Default)]
pub struct Members {
    found: Vec<Process>,
    /// Those that the folder names.
    noted: Vec<Process>,
    /// All processes of the machine at the last look, whosever they are; those before the run are none of it.
    #[cfg(unix)]
    known: HashSet<u32>,
}

/// A process that is not mistaken for a later one with its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub id: u32,
    /// In ticks since the system was started.
    started: u64,
}

impl Process {
    pub fn of(id: u32) -> Option<Self> {
        Stat::of(id).map(|stat| stat.process(id))
    }

    /// What Linux tells of it, until its parent has noticed its end.
    pub fn stat(&self) -> Option<Stat> {
        Stat::of(self.id).filter(|stat| stat.started == self.started)
    }

    pub fn is_there(&self) -> bool {
        self.stat().is_some()
    }
}

impl Members {
    /// Those that a Lacuna noted in the folder before it was killed; none of before the machine was started.
    pub fn noted(folder: &Path) -> Self {
        let text = std::fs::read_to_string(folder.join(NOTED)).unwrap_or_default();
        let lines = text.strip_prefix(&boot()).unwrap_or_default().lines();
        let process = |line: &str| {
            let (id, started) = line.split_once(' ')?;
            Some(Process { id: id.parse().ok()?, started: started.parse().ok()? })
        };
        Self { found: lines.filter_map(process).filter(Process::is_there).collect(), ..Self::default() }
    }

    /// Notes them in the folder, if they are others than before. One that hid its environment and whose parent has
    /// ended is known by nothing else once Lacuna was killed.
    pub fn note(&mut self, folder: &Path) {
        if self.noted == self.found {
            return;
        }
        let mut text = boot();
        for process in &self.found {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} {}", process.id, process.started);
        }
        // Without it they are known by their mark, as far as they have it.
        let new = folder.join(format!("{NOTED}.tmp"));
        let _ = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, folder.join(NOTED)));
        self.noted.clone_from(&self.found);
    }

    /// Notes the processes that are there before the first one of the run is started. Their start times would not tell:
    /// Linux counts them in hundredths of a second, in which a shell starts several.
    #[cfg(unix)]
    pub fn note_others(&mut self) {
        self.known.extend(processes().map(|(id, _)| id));
    }

    #[cfg(not(unix))]
    pub fn note_others(&mut self) {}

    /// Adds a process that was just started.
    pub fn add(&mut self, id: u32) {
        self.found.extend(Process::of(id));
    }

    /// Looks at the processes that are new since the last time.
    ///
    /// * `takes_orphans`: whether processes that are given to Lacuna are of this run, since it is the only one.
    #[cfg(unix)]
    pub fn look(&mut self, folder: &Path, orphans: &mut Orphans, takes_orphans: bool) {
        let mut all: HashSet<u32> = processes().map(|(id, _)| id).collect();
        // One that was found as the child of another may have been given to Lacuna since.
        self.found.retain(|process| {
            process.stat().is_some_and(|stat| {
                orphans.adopts(*process, stat);
                true
            })
        });
        let new = all.difference(&self.known).filter(|&&id| self.found.iter().all(|known| known.id != id));
        let mut new: Vec<(u32, Stat)> = new.filter_map(|&id| Some((id, Stat::of(id)?))).collect();
        let wanted = marked(folder);
        let mut marked: Vec<u32> = new.iter().map(|&(id, _)| id).filter(|&id| has(id, &wanted)).collect();
        let mut is_orphan = |&&(id, stat): &&(u32, Stat)| orphans.adopts(stat.process(id), stat);
        let adopted: Vec<u32> = new.iter().filter(&mut is_orphan).map(|&(id, _)| id).collect();
        marked.extend(adopted.into_iter().filter(|_| takes_orphans));
        orphans.reap();
        let others = loop {
            let is_ours = |&(id, stat): &(u32, Stat)| {
                marked.contains(&id) || self.found.iter().any(|known| known.id == stat.parent)
            };
            let (ours, others): (Vec<_>, Vec<_>) = new.into_iter().partition(is_ours);
            if ours.is_empty() {
                break others;
            }
            self.found.extend(ours.into_iter().map(|(id, stat)| stat.process(id)));
            // Each is found once.
            marked.clear();
            new = others;
        };
        // One whose parent ends meanwhile gets another, by which it may be known.
        for (id, stat) in others {
            if stat.parent > 0 && Stat::of(stat.parent).is_none() {
                all.remove(&id);
            }
        }
        self.known = all;
    }

    #[cfg(not(unix))]
    pub fn look(&mut self, _folder: &Path, _orphans: &mut Orphans, _takes_orphans: bool) {}

    /// Those that have not ended.
    pub fn alive(&self) -> Vec<u32> {
        let is_alive = |process: &&Process| process.stat().is_some_and(|stat| !stat.has_ended);
        self.found.iter().filter(is_alive).map(|process| process.id).collect()
    }
}

/// The line that names this start of the machine.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| "\n".to_owned())
}

/// Removes what [`Members::note`] wrote.
pub fn remove_noted(folder: &Path) {
    for name in [NOTED.to_owned(), format!("{NOTED}.tmp")] {
        // Most often there is none.
        let _ = std::fs::remove_file(folder.join(name));
    }
}

/// What Linux tells of a process.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    started: u64,
    /// Whether it only waits for its parent to notice.
    pub has_ended: bool,
}

impl Stat {
    fn of(id: u32) -> Option<Self> {
        let text = std::fs::read(format!("/proc/{id}/stat")).ok()?;
        // A name may hold anything, parentheses too.
        let rest = text.rsplitn(2, |&byte| byte == b')').next()?;
        let mut fields = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
        let (state, parent, group) = (fields.next()?, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let started = fields.nth(16)?.parse().ok()?;
        Some(Self { parent, group, started, has_ended: matches!(state, "Z" | "X") })
    }

    /// The process that it is of.
    fn process(self, id: u32) -> Process {
        Process { id, started: self.started }
    }
}

/// Processes with the mark of the folder.
#[cfg(unix)]
pub fn processes_with(folder: &Path) -> Vec<u32> {
    let mark = marked(folder);
    processes().map(|(id, _)| id).filter(|&id| has(id, &mark)).collect()
}

/// The mark of a folder, `NAME=value`.
#[cfg(unix)]
fn marked(folder: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    [MARK.as_bytes(), b"=", folder.as_os_str().as_bytes()].concat()
}

/// Whether a process was started with this variable, `NAME=value`; not so if it has ended and waits for its parent.
#[cfg(unix)]
fn has(process: u32, wanted: &[u8]) -> bool {
    let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|variable| variable == wanted)
}

/// A variable of the environment in which a process was started, if this user may read it.
#[cfg(unix)]
pub fn variable(process: u32, name: &str) -> Option<Vec<u8>> {
    let environment = std::fs::read(format!("/proc/{process}/environ")).ok()?;
    let value = |variable: &[u8]| Some(variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec());
    environment.split(|&byte| byte == 0).find_map(value)
}

/// Whether a program is being started, whose variables cannot be read yet: Linux gives a process the memory of its
/// new program, and lets its parent go on, before it knows where in it the arguments and the variables are.
#[cfg(unix)]
pub fn is_one_starting() -> bool {
    let is_empty = |path: PathBuf| std::fs::read(path).is_ok_and(|read| read.is_empty());
    // Threads of the kernel have no program, and what has ended has none any more.
    let has_program = |process: &Path| process.join("exe").read_link().is_ok();
    processes().any(|(_, process)| {
        is_empty(process.join("environ")) && has_program(&process) && is_empty(process.join("cmdline"))
    })
}

/// The processes that Linux knows: their ids and where they are described.
#[cfg(unix)]
fn processes() -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
}
