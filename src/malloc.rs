//! Setting of the C allocator.

/// Makes large freed blocks return to the system at once. Call it first in `main`.
///
/// A trace is read into thousands of columns of a few hundred kilobytes, which are then sorted into
/// a few large ones. glibc raises its threshold for `mmap` as blocks are freed and then keeps the small columns:
/// at 29 million rows the peak was 2.5 GB with 1.5 GB in use. A fixed threshold prevents that. Allocators of other
/// systems keep their settings.
pub fn unmap_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #![expect(unsafe_code, reason = "glibc has no other way to set it, and it touches no memory of the program")]
        const LARGE: i32 = 256 << 10;
        // SAFETY: mallopt takes two numbers and sets one of the allocator's own, under its lock.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}
