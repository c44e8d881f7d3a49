//! What becomes of memory that is freed?

/// Keeps freed columns from staying with the process; for the first lines of `main`.
///
/// A trace is read into thousands of columns of a few hundred kilobytes, which are then sorted into
/// a few large ones. glibc's allocator would hold on to the small ones: at 29 million rows the peak
/// was 2.5 GB where 1.5 are in use. With this limit fixed they go back to the system at once. Other
/// systems' allocators are left alone.
pub fn give_back_at_once() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #![expect(unsafe_code, reason = "glibc has no other way to set it, and this one touches no memory of ours")]
        const LARGE: i32 = 256 << 10;
        // SAFETY: mallopt takes two numbers and sets one of the allocator's own, under its lock.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}
