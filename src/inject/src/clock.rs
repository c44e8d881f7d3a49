//! One clock for all that is recorded: nanoseconds of UTC that no adjustment of the system's clock sets back.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI64, Ordering};

/// UTC minus the monotonic clock when the recording began, in nanoseconds.
static OFFSET_NS: AtomicI64 = AtomicI64::new(0);

fn read(clock: libc::clockid_t) -> i64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is to a timespec, and zeroes are a valid one.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Ties the clock to UTC, as it is now.
pub fn set() {
    OFFSET_NS.store(read(libc::CLOCK_REALTIME) - read(libc::CLOCK_MONOTONIC), Ordering::Relaxed);
}

/// The time, in nanoseconds since 1970.
pub fn now() -> i64 {
    read(libc::CLOCK_MONOTONIC) + OFFSET_NS.load(Ordering::Relaxed)
}

/// [`now`], for libcupti to call.
pub extern "C" fn now_for_cupti() -> u64 {
    now().unsigned_abs()
}
