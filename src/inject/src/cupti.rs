//! The functions of libcupti that record what CUDA does.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::time::Duration;

use super::clock;
use super::dl::{Library, function};
use super::find::Program;
use super::inbox::{BUFFER_BYTES, Buffer};
use super::recorder;
use super::records::{Record, kind};

type Result = c_int;
type OnRequest = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type OnComplete = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
type OnCall = extern "C" fn(*mut c_void, u32, u32, *const c_void);

/// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
const OTHER_SUBSCRIBER: Result = 39;
/// The version of CUDA 11.8; it has the records that are read.
const OLDEST: u32 = 18;
/// `CUPTI_CB_DOMAIN_*`.
const DRIVER_API: u32 = 1;
const RUNTIME_API: u32 = 2;
/// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`.
const FORCED: u32 = 1;

/// A libcupti that records.
#[derive(Debug)]
pub struct Cupti {
    pub path: PathBuf,
    /// 18 for CUDA 11.8, 130000 for 13.0.
    pub version: u32,
    flush_all: unsafe extern "C" fn(u32) -> Result,
    next_record: unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> Result,
    n_dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> Result,
    callback_name: unsafe extern "C" fn(u32, u32, *mut *const c_char) -> Result,
}

impl Cupti {
    /// Finds a libcupti and has it record. Also returns sentences about what it does not record.
    ///
    /// Errors: why none records, as a sentence.
    pub fn start(flush_period: Duration) -> std::result::Result<(Self, Vec<String>), String> {
        let mut why = None;
        for candidate in Program::current().candidates() {
            let library = match Library::open(&candidate.path) {
                Ok(library) => library,
                Err(error) if candidate.is_final => {
                    return Err(format!("{} cannot be loaded: {error}", candidate.path.display()));
                }
                Err(_) => continue,
            };
            match Self::start_with(library, &candidate.path, flush_period) {
                Ok(started) => return Ok(started),
                // Another library would meet the same subscriber.
                Err((OTHER_SUBSCRIBER, problem)) => return Err(problem),
                Err((_, problem)) => why = why.or(Some(problem)),
            }
        }
        Err(why.unwrap_or_else(|| {
            "No libcupti was found, so CUDA is not recorded: it comes with the CUDA toolkit, or with `pip install \
             nvidia-cuda-cupti`; LACUNA_CUPTI can name it"
                .to_owned()
        }))
    }

    fn start_with(
        library: Library,
        path: &Path,
        flush_period: Duration,
    ) -> std::result::Result<(Self, Vec<String>), (Result, String)> {
        let absent = |name: &str| (0, format!("{} has no function {name}", path.display()));
        let sentence = |result: Result, what: &str| (result, failure(library, path, result, what));
        macro_rules! need {
            ($name:literal as $type:ty) => {
                function!(library, $name as $type).ok_or_else(|| absent(&$name.to_string_lossy()))?
            };
        }
        let get_version = need!(c"cuptiGetVersion" as unsafe extern "C" fn(*mut u32) -> Result);
        let mut version = 0;
        // SAFETY: here and below, functions of libcupti with pointers to what they fill.
        let result = unsafe { get_version(&raw mut version) };
        if result != 0 {
            return Err(sentence(result, "tell its version"));
        }
        if version < OLDEST {
            let path = path.display();
            return Err((
                0,
                format!("{path} is of a CUDA before 11.8, whose records are different (version {version})"),
            ));
        }
        let cupti = Self {
            path: path.to_owned(),
            version,
            flush_all: need!(c"cuptiActivityFlushAll" as unsafe extern "C" fn(u32) -> Result),
            next_record: need!(
                c"cuptiActivityGetNextRecord" as unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> Result
            ),
            n_dropped: need!(
                c"cuptiActivityGetNumDroppedRecords" as unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> Result
            ),
            callback_name: need!(
                c"cuptiGetCallbackName" as unsafe extern "C" fn(u32, u32, *mut *const c_char) -> Result
            ),
        };
        let subscribe =
            need!(c"cuptiSubscribe" as unsafe extern "C" fn(*mut *mut c_void, OnCall, *mut c_void) -> Result);
        let unsubscribe = need!(c"cuptiUnsubscribe" as unsafe extern "C" fn(*mut c_void) -> Result);
        let register =
            need!(c"cuptiActivityRegisterCallbacks" as unsafe extern "C" fn(OnRequest, OnComplete) -> Result);
        let enable = need!(c"cuptiActivityEnable" as unsafe extern "C" fn(u32) -> Result);
        let mut subscriber = std::ptr::null_mut();
        // A subscriber without callbacks costs nothing, and meets the profiler that would take our records away.
        // SAFETY: as above; the callback takes what it is declared to take.
        let result = unsafe { subscribe(&raw mut subscriber, ignore_call, std::ptr::null_mut()) };
        if result != 0 {
            return Err(sentence(result, "be used"));
        }
        set_up(library, flush_period);
        // SAFETY: as above.
        let result = unsafe { register(on_request, on_complete) };
        // SAFETY: as above.
        let problems = if result == 0 { enable_kinds(|kind| unsafe { enable(kind) }) } else { Err(result) };
        problems.map(|problems| (cupti, problems)).map_err(|result| {
            // SAFETY: the subscriber from above.
            unsafe { unsubscribe(subscriber) };
            sentence(result, "record kernels")
        })
    }

    /// Has libcupti hand over its buffers; forced, also those with records that are not complete.
    pub fn flush(&self, is_forced: bool) {
        // SAFETY: may be called on any thread.
        unsafe { (self.flush_all)(if is_forced { FORCED } else { 0 }) };
    }

    /// How many records found no room since the last call.
    pub fn n_dropped(&self) -> u64 {
        let mut n = 0;
        // SAFETY: the context is null for buffers of all contexts.
        unsafe { (self.n_dropped)(std::ptr::null_mut(), 0, &raw mut n) };
        n as u64
    }

    /// Hands over the records of a buffer.
    pub fn for_each(&self, buffer: &Buffer, mut take: impl FnMut(Record)) {
        let mut at = std::ptr::null_mut();
        // SAFETY: libcupti filled this many bytes of the buffer, and finds the records in it.
        while unsafe { (self.next_record)(buffer.start.as_ptr(), buffer.valid, &raw mut at) } == 0 && !at.is_null() {
            // SAFETY: a record of libcupti, of CUDA 11.8 or later.
            take(unsafe { Record::read(at) });
        }
    }

    /// The name of a function of the CUDA runtime or driver.
    pub fn call_name(&self, is_runtime: bool, cbid: u32) -> Option<String> {
        let domain = if is_runtime { RUNTIME_API } else { DRIVER_API };
        let mut name = std::ptr::null();
        // SAFETY: libcupti sets the pointer to a text of its own, or leaves it null.
        let result = unsafe { (self.callback_name)(domain, cbid, &raw mut name) };
        if result != 0 || name.is_null() {
            return None;
        }
        // SAFETY: as above.
        Some(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }
}

/// Settings that not every version has, before anything is recorded.
fn set_up(library: Library, flush_period: Duration) {
    // Thread ids as the system has them, as NVTX events do.
    if let Some(set) = function!(library, c"cuptiSetThreadIdType" as unsafe extern "C" fn(u32) -> Result) {
        // SAFETY: takes `CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM`.
        unsafe { set(1) };
    }
    type Set = unsafe extern "C" fn(extern "C" fn() -> u64) -> Result;
    if let Some(set) = function!(library, c"cuptiActivityRegisterTimestampCallback" as Set) {
        // SAFETY: the function takes no argument and returns nanoseconds.
        unsafe { set(clock::now_for_cupti) };
    }
    if let Some(set) = function!(library, c"cuptiActivityFlushPeriod" as unsafe extern "C" fn(u32) -> Result) {
        // SAFETY: takes milliseconds.
        unsafe { set(u32::try_from(flush_period.as_millis()).unwrap_or(u32::MAX)) };
    }
}

/// Has each kind recorded. Returns what is not, as sentences.
///
/// Errors: the result for kernels, without which there is nothing to look at.
fn enable_kinds(enable: impl Fn(u32) -> Result) -> std::result::Result<Vec<String>, Result> {
    let kinds = [
        (kind::MEMCPY, "copies"),
        (kind::MEMCPY_PEER, "copies between devices"),
        (kind::MEMSET, "memsets"),
        (kind::RUNTIME, "calls of the CUDA runtime"),
        (kind::DRIVER, "calls of the CUDA driver"),
        (kind::SYNCHRONIZATION, "synchronization"),
        (kind::CUDA_EVENT, "CUDA events"),
        (kind::EXTERNAL_CORRELATION, "external correlation"),
        (kind::MEMORY, "memory"),
        (kind::OVERHEAD, "overhead"),
    ];
    let result = enable(kind::CONCURRENT_KERNEL);
    if result != 0 {
        return Err(result);
    }
    let mut problems = Vec::new();
    let graphs = std::env::var("LACUNA_CUPTI_GRAPHS").is_ok_and(|how| how == "whole");
    let more = graphs.then_some((kind::GRAPH_TRACE, "launches of graphs as a whole"));
    for (kind, what) in kinds.into_iter().chain(more) {
        let result = enable(kind);
        if result != 0 {
            problems.push(format!("libcupti cannot record {what} here (error {result})"));
        }
    }
    Ok(problems)
}

/// The sentence for a result that is not success.
fn failure(library: Library, path: &Path, result: Result, what: &str) -> String {
    if result == OTHER_SUBSCRIBER {
        return "Another profiler traces this program already (Nsight Systems, Nsight Compute, cuda-gdb or the PyTorch \
                profiler), and CUPTI serves one at a time: record without it"
            .to_owned();
    }
    let name = |text: unsafe extern "C" fn(Result, *mut *const c_char) -> Result| {
        let mut name = std::ptr::null();
        // SAFETY: libcupti sets the pointer to a text of its own, or leaves it null.
        let is_set = unsafe { text(result, &raw mut name) } == 0 && !name.is_null();
        // SAFETY: as above.
        is_set.then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    };
    let text =
        function!(library, c"cuptiGetResultString" as unsafe extern "C" fn(Result, *mut *const c_char) -> Result);
    let name = text.and_then(name).map_or_else(String::new, |name| format!(" {name}"));
    let hint = match result {
        15 => ": the driver found no GPU",
        35 | 40 => ": tracing is not permitted to this user",
        999 => ": often it does not fit the driver",
        _ => "",
    };
    format!("{} cannot {what}: error {result}{name}{hint}", path.display())
}

extern "C" fn ignore_call(_data: *mut c_void, _domain: u32, _cbid: u32, _call: *const c_void) {}

/// Gives libcupti a buffer, or none, and it drops records.
extern "C" fn on_request(buffer: *mut *mut u8, size: *mut usize, max_records: *mut usize) {
    let taken = recorder::current().and_then(|recorder| recorder.inbox.take_buffer());
    // SAFETY: libcupti's pointers to what it wants filled.
    unsafe {
        *buffer = taken.map_or(std::ptr::null_mut(), NonNull::as_ptr);
        *size = if taken.is_some() { BUFFER_BYTES } else { 0 };
        *max_records = 0;
    }
}

/// Takes a buffer that libcupti is done with; the writer reads it.
extern "C" fn on_complete(_context: *mut c_void, _stream: u32, buffer: *mut u8, _size: usize, valid: usize) {
    let Some((recorder, start)) = recorder::current().zip(NonNull::new(buffer)) else { return };
    recorder.inbox.give_full(Buffer { start, valid: valid.min(BUFFER_BYTES) });
}
