//! Records what a CUDA program does, from within it, into a Chrome trace that Lacuna opens.
//!
//! libcuda loads this library when `CUDA_INJECTION64_PATH` names it, and NVTX does when `NVTX_INJECTION64_PATH` does.
//! From libcupti come kernels, copies, API calls, synchronization and memory; from NVTX come named ranges.
//!
//! | environment | meaning |
//! |---|---|
//! | `LACUNA_INJECT_OUT` | folder for `cupti-PID.json`, the trace, and `cupti-PID.status`, see `status.rs`; without it nothing is recorded |
//! | `LACUNA_CUPTI` | the libcupti to load, see `find.rs` |
//! | `LACUNA_CUPTI_GRAPHS` | `whole` records one slice for each launch of a CUDA graph in place of its kernels |
//! | `LACUNA_FLUSH_MS` | how often what was recorded is written, in milliseconds; 1000 unless set |
//!
//! On an H100 with CUDA 13.0 a call that launches takes 2.8 to 3.9 us, and 4.7 to 5.9 us while it is recorded (medians
//! of six runs of `tests/gpu/cupti.sh`); from PyTorch 6.8 to 10.3 us and 14.2 to 15.4 us, about as under
//! torch.profiler.
//!
//! A failure in here never ends the program: it runs on without being recorded, and the status says why.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "A library that C code loads and calls, and that calls one")]

mod clock;
mod cupti;
mod devices;
mod dl;
mod end;
mod find;
mod inbox;
mod json;
mod nvtx;
mod nvtx_writer;
mod recorder;
mod records;
mod status;
mod trace_file;
mod writer;

use std::ffi::c_int;
use std::panic::catch_unwind;

/// The entry point of libcuda, called within the first `cuInit`. Returns 1: whatever happened in here, the program
/// runs.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    let _ = catch_unwind(|| {
        if let Some(recorder) = recorder::start() {
            recorder.start_cupti();
        }
    });
    1
}

/// The entry point of NVTX, called once by each library that brings its own copy of it.
///
/// Returns 1 if its functions were replaced, else 0, and NVTX stays without effect.
///
/// # Safety
/// `get_export_table` is NVTX's function that gives its tables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(get_export_table: Option<nvtx::GetExportTable>) -> c_int {
    let replace = || {
        let get_export_table = get_export_table?;
        recorder::start()?;
        // SAFETY: the caller's promise.
        unsafe { nvtx::replace(get_export_table) }
    };
    c_int::from(catch_unwind(replace).ok().flatten().is_some())
}
