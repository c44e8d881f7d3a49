//! Processes of a run whose parent ended before they did.
//!
//! While a run goes on, Linux gives them to Lacuna and not to the first process of the system. So none escapes by
//! leaving its group, its session and its environment behind; and Lacuna has to take note of their ends.

use super::members::{Process, Stat};

/// The children of Lacuna's process.
#[derive(Debug)]
pub struct Orphans {
    /// Programs that Lacuna started, whose ends others wait for.
    started: Vec<Process>,
    /// Processes that were given to Lacuna and have not ended.
    adopted: Vec<Process>,
    /// Whether they are given to Lacuna.
    is_on: bool,
    /// The ids of all children at the last look, as Linux lists them.
    children: Vec<u8>,
}

impl Orphans {
    pub const fn new() -> Self {
        Self { started: Vec::new(), adopted: Vec::new(), is_on: false, children: Vec::new() }
    }

    /// Has orphans given to Lacuna, or no longer. Where Lacuna is the first process of a container, it gets those of
    /// all others too, and takes none for its own.
    pub fn switch(&mut self, is_on: bool) {
        #[cfg(target_os = "linux")]
        if is_on != self.is_on && std::process::id() > 1 {
            let to = is_on.then(rustix::process::getpid);
            self.is_on = rustix::process::set_child_subreaper(to).is_ok() && is_on;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = is_on;
        self.reap();
    }

    /// Notes a program that Lacuna started.
    pub fn started(&mut self, id: u32) {
        self.started.retain(Process::is_there);
        self.started.extend(Process::of(id));
    }

    /// Whether there are other children than when this was last asked, which costs one small file.
    pub fn have_changed(&mut self) -> bool {
        let main_thread = std::process::id();
        // Where Linux lists none, they are found a little later.
        let children = std::fs::read(format!("/proc/self/task/{main_thread}/children")).unwrap_or_default();
        std::mem::replace(&mut self.children, children) != self.children
    }

    /// Notes a process if it was given to Lacuna, and whether it was: it is a child, and Lacuna did not start it. What
    /// is started without the registry stays in the group of Lacuna itself.
    pub fn adopts(&mut self, process: Process, stat: Stat) -> bool {
        #[cfg(unix)]
        {
            let is_child = self.is_on && stat.parent == std::process::id();
            let own_group = rustix::process::getpgrp().as_raw_nonzero().get().unsigned_abs();
            if !is_child || stat.group == own_group || self.started.contains(&process) {
                return false;
            }
            if !self.adopted.contains(&process) {
                self.adopted.push(process);
            }
            true
        }
        #[cfg(not(unix))]
        {
            let _ = (process, stat);
            false
        }
    }

    /// Takes note of those that have ended, so that the system forgets them.
    pub fn reap(&mut self) {
        #[cfg(unix)]
        for process in &self.adopted {
            use rustix::process::{Pid, WaitOptions, waitpid};
            let has_ended = process.stat().is_some_and(|stat| stat.has_ended && stat.parent == std::process::id());
            let pid = i32::try_from(process.id).ok().and_then(Pid::from_raw);
            if let Some(pid) = pid.filter(|_| has_ended) {
                // Nobody else waits for it, so that its id is still its own.
                _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
        self.adopted.retain(Process::is_there);
    }
}
