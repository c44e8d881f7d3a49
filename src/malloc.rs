//! The allocator: settings of the C library's, and a sentence where memory runs out.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Makes large freed blocks return to the system at once, and smaller ones once much is free. Call it first in `main`.
///
/// A trace is read into thousands of columns of a few hundred kilobytes, which are then sorted into
/// a few large ones. glibc raises its threshold for `mmap` as blocks are freed and then keeps the small columns:
/// at 29 million rows the peak was 2.5 GB with 1.5 GB in use. A fixed threshold prevents that: at 1 MiB the peak was
/// that at 256 KiB, at 4 MiB a quarter higher. What is kept need not be zeroed by the system again: a report on 100 MB
/// takes about 4 % less time for it, and 12 MB more. Allocators of other systems keep their settings.
///
/// Where the address space is limited, it goes to what is read, and not to arenas: in 200 MB a trace failed that was
/// read in 100 MB, in which no arena had a place.
pub fn set_up() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #![expect(unsafe_code, reason = "glibc has no other way to set it, and it touches no memory of the program")]
        const LARGE: i32 = 1 << 20;
        const MANY: i32 = 8 << 20;
        for (setting, bytes) in [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, MANY)] {
            // SAFETY: mallopt takes two numbers and sets one of the allocator's own, under its lock.
            unsafe { libc::mallopt(setting, bytes) };
        }
        if let Some(limit) = process_limit() {
            let most = i32::try_from(limit / ARENAS_SHARE / ARENA).unwrap_or(i32::MAX);
            // SAFETY: as above.
            unsafe { libc::mallopt(libc::M_ARENA_MAX, most.max(1)) };
        }
    }
}

/// Address space that the C library takes for each of its arenas, of which threads get their own while there are few.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENA: usize = 64 << 20;
/// So large a share of a limited address space goes to arenas.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS_SHARE: usize = 8;
/// Blocks from this size on are held against the limit of memory: a trace is read into thousands of lists not much
/// larger.
const COUNTED_BLOCK: usize = 16 << 10;
/// How many bytes of them may pass until the memory in use is measured again, at most; less where the limit is low.
const MEASURED_EVERY: usize = 16 << 20;
/// Address space that is given back when memory runs out, for the end.
const RESERVE: usize = 1 << 20;
/// The size of a file is at most so many times the memory that reading it takes.
const LEAST_SHARE: usize = 16;
/// Exit code when memory runs out: the input cannot be read here.
const NO_MEMORY: i32 = 3;
/// How long files have to be removed in.
const LAST_WORK: Duration = Duration::from_secs(2);

/// The memory that the control group of the process may have, in bytes.
static GROUP_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static UNMEASURED: AtomicUsize = AtomicUsize::new(0);
static IS_OUT: AtomicBool = AtomicBool::new(false);
static RESERVED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// The system's allocator, which ends Lacuna with a sentence where memory runs out, before the kernel kills it.
#[derive(Clone, Copy, Debug)]
pub struct Allocator;

/// Learns how much memory Lacuna may have. Until then only what the system refuses is noticed.
pub fn know_limits() {
    GROUP_LIMIT.store(group_limit(Path::new("/")).unwrap_or(usize::MAX), Ordering::Relaxed);
    *RESERVED.lock().unwrap_or_else(PoisonError::into_inner) = Vec::with_capacity(RESERVE);
}

#[expect(unsafe_code, reason = "an allocator hands out memory")]
// SAFETY: every call goes to the system's allocator as it came, and what that returns is returned.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        measure(layout.size());
        // SAFETY: the caller keeps the contract, which is the same.
        had(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        measure(layout.size());
        // SAFETY: as above.
        had(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        measure(new_size.saturating_sub(layout.size()));
        // SAFETY: as above.
        had(unsafe { System.realloc(block, layout, new_size) }, new_size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// The block, if there is one.
fn had(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        end(size);
    }
    block
}

/// Ends Lacuna if another block would exceed the limit of its control group.
fn measure(size: usize) {
    let limit = GROUP_LIMIT.load(Ordering::Relaxed);
    if size < COUNTED_BLOCK || limit == usize::MAX {
        return;
    }
    let unmeasured = UNMEASURED.fetch_add(size, Ordering::Relaxed) + size;
    if unmeasured < MEASURED_EVERY.min(limit / 64) {
        return;
    }
    UNMEASURED.store(0, Ordering::Relaxed);
    // The kernel's own memory for the process counts as well, and what was handed out and is not filled yet.
    if resident().saturating_add(size) > limit - limit / 16 {
        end(size);
    }
}

/// Bytes of memory that the process has; 0 where the system does not say. Allocates nothing.
fn resident() -> usize {
    const PAGE: usize = 4096;
    let mut text = [0; 128];
    let n = std::fs::File::open("/proc/self/statm").and_then(|mut file| file.read(&mut text)).unwrap_or(0);
    let text = std::str::from_utf8(&text[..n]).unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * PAGE
}

/// The least memory that the control groups around the process leave it, in bytes; `None` without a limit.
///
/// * `root`: the root of the file system.
fn group_limit(root: &Path) -> Option<usize> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let of_line = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        // Version 2 has one tree without names.
        let (top, name) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            names if names.split(',').any(|name| name == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        let top = root.join(top);
        // In a container the path may be that outside of it, and the top is the group.
        let folder = top.join(path.trim_start_matches('/'));
        let folders = folder.ancestors().take_while(|folder| folder.starts_with(&top));
        let limits = folders.filter_map(|folder| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok());
        limits.min()
    };
    groups.lines().filter_map(of_line).min().filter(|&limit: &usize| limit < usize::MAX / 4)
}

/// Says that memory ran out and what helps, removes what is not finished, and ends Lacuna. The caller may hold any lock
/// and have no memory.
fn end(size: usize) -> ! {
    if IS_OUT.swap(true, Ordering::SeqCst) {
        // Another thread says so, or this one failed again while it did.
        std::thread::sleep(LAST_WORK);
        leave();
    }
    if let Ok(mut reserved) = RESERVED.try_lock() {
        *reserved = Vec::new();
    }
    let mut text = [0; 400];
    let mut rest = &mut text[..];
    let _ = write!(rest, "lacuna: Out of memory: {} MB more are needed, and ", mb(size));
    let _ = match limit() {
        Some((limit, what)) => write!(rest, "the limit is {} MB ({what})", mb(limit)),
        None => write!(rest, "the system has no more"),
    };
    let _ = writeln!(rest, ". Raise the limit, open fewer files at once, or record fewer steps");
    let n_left = rest.len();
    let n = text.len() - n_left;
    let _ = std::io::stderr().write_all(&text[..n]);
    // Beside, since this thread may hold the lock that is needed. What was given back has room for its stack and for
    // that of its signals: a thread that starts without the latter ends the program in a crash.
    let work = std::thread::Builder::new().stack_size(RESERVE / 4).spawn(|| {
        let _ended = crate::capture::end_all();
        leave();
    });
    if work.is_ok() {
        std::thread::sleep(LAST_WORK);
    }
    leave();
}

#[expect(clippy::exit, reason = "there is no memory to go on with")]
fn leave() -> ! {
    std::process::exit(NO_MEMORY)
}

fn mb(bytes: usize) -> usize {
    bytes.div_ceil(1_000_000)
}

/// The least of the limits of memory that are known, in bytes, and what sets it.
fn limit() -> Option<(usize, &'static str)> {
    let group = Some(GROUP_LIMIT.load(Ordering::Relaxed)).filter(|&limit| limit < usize::MAX);
    let limits = [(process_limit(), "ulimit -v"), (group, "memory of the control group")];
    limits.into_iter().filter_map(|(limit, what)| Some((limit?, what))).min()
}

/// Why a file of so many bytes cannot be read within the limits of memory, as a sentence.
///
/// Only what is certain: reading took 0.35 times the size of Chrome traces with short args, and as much as the file or
/// more for the other formats and for compressed files; long args could bring it down to a `LEAST_SHARE`th.
pub fn too_large(path: &Path) -> Option<String> {
    let bytes = usize::try_from(path.metadata().ok()?.len()).unwrap_or(usize::MAX);
    let (limit, what) = limit().filter(|&(limit, _)| bytes / LEAST_SHARE > limit)?;
    let (size, least, limit) = (mb(bytes), mb(bytes / LEAST_SHARE), mb(limit));
    Some(format!(
        "The file is {size} MB and takes at least {least} MB of memory to read: the limit is {limit} MB ({what}). \
         Raise the limit, or record fewer steps"
    ))
}

/// The address space that the process may have, in bytes, if it is limited.
fn process_limit() -> Option<usize> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit};
        getrlimit(Resource::As).current.and_then(|limit| usize::try_from(limit).ok())
    }
    #[cfg(not(unix))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_the_groups_around_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(group_limit(root.path()), None);
        write("proc/self/cgroup", "0::/a/b\n");
        assert_eq!(group_limit(root.path()), None);
        write("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(group_limit(root.path()), None);
        write("sys/fs/cgroup/a/memory.max", "500\n");
        write("sys/fs/cgroup/memory.max", "900\n");
        assert_eq!(group_limit(root.path()), Some(500));
        // Version 1, in a container that does not see its own path.
        write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/x\n0::/\n");
        write("sys/fs/cgroup/memory.max", "max\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "700\n");
        assert_eq!(group_limit(root.path()), Some(700));
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(group_limit(root.path()), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_in_use_is_measured() {
        // Other tests take and free memory meanwhile: what is in use is known to lie between this block and the most that
        // the process ever had, which the kernel counts to within a few pages of each thread.
        const BLOCK: usize = 64 << 20;
        const SLACK: usize = 4 << 20;
        let block = std::hint::black_box(vec![1_u8; BLOCK]);
        let in_use = resident();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")).unwrap();
        let most = most.parse::<usize>().unwrap() << 10;
        assert!((BLOCK - SLACK..=most + SLACK).contains(&in_use), "{in_use} in use, {most} at most");
        drop(block);
    }
}
