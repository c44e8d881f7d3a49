//! The threads that share the work of one answer.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{LazyLock, Mutex, PoisonError};

use rayon::{ThreadBuilder, ThreadPoolBuilder};

/// Starts a thread for each core, or as many as the system gives. Left to itself, the library panics if one is missing.
///
/// Errors: a sentence that it gives none.
pub fn start_workers() -> Result<(), &'static str> {
    static STARTED: LazyLock<Result<(), &'static str>> = LazyLock::new(start);
    *STARTED
}

fn start() -> Result<(), &'static str> {
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse().ok()).filter(|&n: &usize| n > 0);
    let wanted = asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut waiting: Vec<SyncSender<ThreadBuilder>> = (0..wanted).map_while(|_| wait_for_work()).collect();
    if waiting.len() < wanted && waiting.len() > 1 {
        // Leaves room for what works beside.
        waiting.pop();
    }
    if waiting.is_empty() {
        return Err("The system starts no threads: raise `ulimit -v` or `ulimit -u`");
    }
    let n = waiting.len();
    let waiting = Mutex::new(waiting);
    let give = |thread: ThreadBuilder| {
        let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
        waiting.and_then(|waiting| waiting.send(thread).ok()).ok_or(std::io::ErrorKind::WouldBlock.into())
    };
    // Fails where the threads are there by now.
    let _ = ThreadPoolBuilder::new().num_threads(n).spawn_handler(give).build_global();
    Ok(())
}

/// Starts a thread, which ends if it is not given any work.
fn wait_for_work() -> Option<SyncSender<ThreadBuilder>> {
    let (give, take) = sync_channel::<ThreadBuilder>(1);
    let work = move || take.recv().map(ThreadBuilder::run).unwrap_or_default();
    std::thread::Builder::new().name("worker".to_owned()).spawn(work).ok().map(|_| give)
}
