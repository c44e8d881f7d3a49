//! The queue between the program's threads, libcupti and the writer: full buffers and NVTX events.

use std::alloc::{Layout, alloc};
use std::ptr::NonNull;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::nvtx::NvtxEvent;

/// Size of a buffer for records, in bytes; a kernel and its launch take about 300.
pub const BUFFER_BYTES: usize = 2 << 20;
/// Most buffers in use: 256 MiB. Beyond that CUPTI drops records, and counts them.
const MAX_BUFFERS: usize = 128;
/// Most NVTX events that wait to be written.
const MAX_NVTX: usize = 1 << 20;
/// The writer is woken once so many NVTX events wait.
const MANY_NVTX: usize = 1 << 14;

/// A buffer of [`BUFFER_BYTES`], aligned to 8, of which the first `valid` hold records.
#[derive(Debug)]
pub struct Buffer {
    pub start: NonNull<u8>,
    pub valid: usize,
}

// SAFETY: whoever has the buffer is the only one that uses its bytes.
unsafe impl Send for Buffer {}

/// What waits to be written, and the state of the writer.
#[derive(Debug, Default)]
pub struct Pending {
    pub full: Vec<Buffer>,
    pub nvtx: Vec<NvtxEvent>,
    /// NVTX events that found no room.
    pub n_lost_nvtx: u64,
    /// Buffers ready for reuse.
    free: Vec<Buffer>,
    n_buffers: usize,
    pub must_finish: bool,
    pub is_finished: bool,
}

#[derive(Debug, Default)]
pub struct Inbox {
    pending: Mutex<Pending>,
    wake: Condvar,
    finished: Condvar,
}

impl Inbox {
    /// No panic leaves the data in a bad state, so a poisoned lock is taken all the same.
    pub fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer for libcupti to fill; `None` if too many are in use.
    pub fn take_buffer(&self) -> Option<NonNull<u8>> {
        let mut pending = self.lock();
        if pending.is_finished {
            return None;
        }
        if let Some(buffer) = pending.free.pop() {
            return Some(buffer.start);
        }
        if pending.n_buffers >= MAX_BUFFERS {
            return None;
        }
        let layout = Layout::from_size_align(BUFFER_BYTES, 8).ok()?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        pending.n_buffers += 1;
        Some(start)
    }

    /// Takes a buffer from libcupti.
    pub fn give_full(&self, buffer: Buffer) {
        let mut pending = self.lock();
        if buffer.valid == 0 || pending.is_finished {
            pending.free.push(buffer);
        } else {
            pending.full.push(buffer);
            self.wake.notify_one();
        }
    }

    /// Takes back buffers that were written.
    pub fn reuse(&self, buffers: Vec<Buffer>) {
        self.lock().free.extend(buffers);
    }

    pub fn give_nvtx(&self, event: NvtxEvent) {
        let mut pending = self.lock();
        if pending.is_finished || pending.nvtx.len() >= MAX_NVTX {
            pending.n_lost_nvtx += 1;
            return;
        }
        pending.nvtx.push(event);
        if pending.nvtx.len() == MANY_NVTX {
            self.wake.notify_one();
        }
    }

    /// Waits for buffers, many NVTX events or the order to finish, at most for this long.
    pub fn wait(&self, limit: Duration) -> MutexGuard<'_, Pending> {
        let idle =
            |pending: &mut Pending| pending.full.is_empty() && pending.nvtx.len() < MANY_NVTX && !pending.must_finish;
        let (pending, _) =
            self.wake.wait_timeout_while(self.lock(), limit, idle).unwrap_or_else(PoisonError::into_inner);
        pending
    }

    /// Has the writer finish, and waits until it did, at most for this long.
    pub fn finish(&self, limit: Duration) {
        let mut pending = self.lock();
        pending.must_finish = true;
        self.wake.notify_one();
        let until = Instant::now() + limit;
        while !pending.is_finished {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            (pending, _) = self.finished.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn set_finished(&self) {
        self.lock().is_finished = true;
        self.finished.notify_all();
    }
}
