//! The end of the program: what is still in buffers is written at `exit`, and before SIGTERM, SIGINT or SIGHUP ends it.
//!
//! A forked child records nothing until it initializes CUDA itself: it has neither our thread nor the driver's.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use super::recorder;

/// Longest wait at exit for what is not yet written.
const EXIT_LIMIT: Duration = Duration::from_secs(20);
const ENDING: [c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// The signal that is to end the program once all is written; 0 for none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Watches for the end of the program and for forks.
///
/// A signal that the program handles or ignores is left to it.
pub fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler stores to atomics and restores signals, which a child may do.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        at_exit();
    }
    for signal in ENDING {
        // SAFETY: `on_signal` does only what a handler may; zeroes are a valid `sigaction`.
        unsafe {
            let mut old = MaybeUninit::<libc::sigaction>::zeroed();
            let is_default = libc::sigaction(signal, std::ptr::null(), old.as_mut_ptr()) == 0
                && old.assume_init().sa_sigaction == libc::SIG_DFL;
            if is_default {
                let mut new = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                new.sa_sigaction = on_signal as extern "C" fn(c_int) as usize;
                new.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &raw const new, std::ptr::null_mut());
            }
        }
    }
}

/// Registers the handler of `exit`. Handlers run in reverse order: after libcupti was loaded this is called again, so
/// that it runs before those of libcupti.
pub fn at_exit() {
    extern "C" fn finish() {
        if let Some(recorder) = recorder::current() {
            recorder.inbox.finish(EXIT_LIMIT);
        }
    }
    // SAFETY: the handler is there as long as this library, which is never unloaded.
    unsafe { libc::atexit(finish) };
}

extern "C" fn in_child() {
    recorder::forget();
    SIGNAL.store(0, Ordering::Relaxed);
    restore_signals();
}

/// Has the writer end the program; at the second signal ends it at once.
extern "C" fn on_signal(signal: c_int) {
    if SIGNAL.swap(signal, Ordering::Relaxed) != 0 || recorder::current().is_none() {
        restore_signals();
        // SAFETY: a handler may raise signals.
        unsafe { libc::raise(signal) };
    }
}

fn restore_signals() {
    for signal in ENDING {
        // SAFETY: as for `watch`; a handler that the program set in our place stays.
        unsafe {
            let mut old = MaybeUninit::<libc::sigaction>::zeroed();
            let is_ours = libc::sigaction(signal, std::ptr::null(), old.as_mut_ptr()) == 0
                && old.assume_init().sa_sigaction == on_signal as extern "C" fn(c_int) as usize;
            if is_ours {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// The signal that waits for the recording to finish.
pub fn signal() -> Option<c_int> {
    Some(SIGNAL.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

/// Ends the program by this signal, as if the recorder were not there.
pub fn end_by(signal: c_int) {
    restore_signals();
    // SAFETY: a signal of this process; the set is initialized before it is read.
    unsafe {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
}

/// Runs `start` with all signals blocked, so that a thread that it starts never receives the program's.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are initialized before they are read.
    unsafe {
        let (mut all, mut old) = (MaybeUninit::<libc::sigset_t>::zeroed(), MaybeUninit::<libc::sigset_t>::zeroed());
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, old.as_ptr(), std::ptr::null_mut());
        started
    }
}
