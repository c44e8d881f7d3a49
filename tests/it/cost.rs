//! What reading costs: memory and processor time of one thread.

#![expect(unsafe_code, reason = "an allocator hands out memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

/// The system's allocator, which counts for each thread what it allocated less what it freed.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static IN_USE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Counts bytes, which are negative if they are freed. A block may be freed by another thread than had it.
fn count(bytes: isize) {
    // A thread that ends has no counters.
    let _ = IN_USE.try_with(|in_use| {
        in_use.set(in_use.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(in_use.get())));
    });
}

// SAFETY: every call goes to the system's allocator as it came, and what that returns is returned.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// The cost of some work on the thread that did it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Most bytes allocated at one time, by Rust code.
    pub peak: usize,
    /// Processor time; zero where the system does not say.
    pub time: Duration,
}

impl Cost {
    /// The larger of each.
    pub fn max(self, other: Self) -> Self {
        Self { peak: self.peak.max(other.peak), time: self.time.max(other.time) }
    }
}

fn processor_time() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
    }
    #[cfg(not(unix))]
    Duration::ZERO
}

/// Does some work and says what it cost.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let before = IN_USE.get();
    PEAK.set(before);
    let began = processor_time();
    let done = work();
    let time = processor_time().saturating_sub(began);
    (done, Cost { peak: (PEAK.get() - before).cast_unsigned(), time })
}

#[test]
fn the_largest_memory_counts() {
    let (_, cost) = measured(|| {
        drop(std::hint::black_box(vec![1_u8; 3 << 20]));
        vec![1_u8; 1 << 20]
    });
    assert!((3 << 20..4 << 20).contains(&cost.peak), "{cost:?}");
}
