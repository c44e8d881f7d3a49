//! NVTX: its functions are replaced by ours through the tables that it hands over.
//!
//! Layouts are those of `nvtxDetail/nvtxTypes.h`, which NVIDIA keeps binary compatible in versions 2 and 3.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use super::clock;
use super::recorder::{self, Recorder};

/// NVTX's function that gives the table of this id.
pub type GetExportTable = unsafe extern "C" fn(u32) -> *const c_void;
type Function = unsafe extern "C" fn();

/// `NVTX_ETID_CALLBACKS`.
const CALLBACKS: u32 = 1;
/// `NVTX_CB_MODULE_CORE` and `NVTX_CB_MODULE_CORE2`.
const CORE: u32 = 1;
const CORE2: u32 = 5;
/// Longest message in bytes; the rest is cut.
const MAX_MESSAGE: usize = 4096;

#[repr(C)]
struct Callbacks {
    size: usize,
    get_table: unsafe extern "C" fn(u32, *mut *mut *mut Option<Function>, *mut c_uint) -> c_int,
}

/// `nvtxEventAttributes_t`.
#[repr(C)]
pub struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_void,
}

/// What a program said by a call of NVTX.
#[derive(Clone, Debug, PartialEq)]
pub struct NvtxEvent {
    /// Nanoseconds since 1970.
    pub ts: i64,
    pub thread: u32,
    /// Its number in [`Domains`]; 0 for none.
    pub domain: u32,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    Push(Label),
    Pop,
    /// A range with a number, which may end on another thread.
    Start(u64, Label),
    End(u64),
    Mark(Label),
    NameThread(u32, String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Label {
    pub message: String,
    pub payload: Option<Payload>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Payload {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

/// Names of domains and registered messages; the handle that the program has is the index plus 1.
#[derive(Debug, Default)]
pub struct Domains {
    pub names: Vec<String>,
    messages: Vec<String>,
}

impl Domains {
    /// The number of the domain of this name, a new one if none has it.
    fn number(&mut self, name: String) -> usize {
        let at = self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        at + 1
    }
}

/// Replaces the functions of NVTX; `None` if its tables are not those of version 2 or 3.
///
/// # Safety
/// `get_export_table` is NVTX's.
pub unsafe fn replace(get_export_table: GetExportTable) -> Option<()> {
    // SAFETY: the caller's promise; the table lives as long as NVTX.
    let callbacks = unsafe { get_export_table(CALLBACKS).cast::<Callbacks>().as_ref() }?;
    if callbacks.size < size_of::<Callbacks>() {
        return None;
    }
    // SAFETY: here and below, each function has the type that the header gives the one at this place.
    let core: [(usize, Function); 11] = unsafe {
        [
            (1, transmute::<extern "C" fn(*const Attributes), Function>(mark)),
            (2, transmute::<extern "C" fn(*const c_char), Function>(mark_a)),
            (3, transmute::<extern "C" fn(*const libc::wchar_t), Function>(mark_w)),
            (4, transmute::<extern "C" fn(*const Attributes) -> u64, Function>(start)),
            (5, transmute::<extern "C" fn(*const c_char) -> u64, Function>(start_a)),
            (6, transmute::<extern "C" fn(*const libc::wchar_t) -> u64, Function>(start_w)),
            (7, transmute::<extern "C" fn(u64), Function>(end)),
            (8, transmute::<extern "C" fn(*const Attributes) -> c_int, Function>(push)),
            (9, transmute::<extern "C" fn(*const c_char) -> c_int, Function>(push_a)),
            (10, transmute::<extern "C" fn(*const libc::wchar_t) -> c_int, Function>(push_w)),
            (11, transmute::<extern "C" fn() -> c_int, Function>(pop)),
        ]
    };
    // SAFETY: as above.
    let names: [(usize, Function); 2] = unsafe {
        [
            (14, transmute::<extern "C" fn(u32, *const c_char), Function>(name_thread_a)),
            (15, transmute::<extern "C" fn(u32, *const libc::wchar_t), Function>(name_thread_w)),
        ]
    };
    // SAFETY: as above.
    let core2: [(usize, Function); 9] = unsafe {
        [
            (1, transmute::<extern "C" fn(usize, *const Attributes), Function>(domain_mark)),
            (2, transmute::<extern "C" fn(usize, *const Attributes) -> u64, Function>(domain_start)),
            (3, transmute::<extern "C" fn(usize, u64), Function>(domain_end)),
            (4, transmute::<extern "C" fn(usize, *const Attributes) -> c_int, Function>(domain_push)),
            (5, transmute::<extern "C" fn(usize) -> c_int, Function>(domain_pop)),
            (10, transmute::<extern "C" fn(usize, *const c_char) -> usize, Function>(register_a)),
            (11, transmute::<extern "C" fn(usize, *const libc::wchar_t) -> usize, Function>(register_w)),
            (12, transmute::<extern "C" fn(*const c_char) -> usize, Function>(domain_create_a)),
            (13, transmute::<extern "C" fn(*const libc::wchar_t) -> usize, Function>(domain_create_w)),
        ]
    };
    for (module, functions) in [(CORE, &core as &[_]), (CORE, &names), (CORE2, &core2)] {
        let (mut table, mut len) = (std::ptr::null_mut(), 0);
        // SAFETY: NVTX fills both.
        if unsafe { (callbacks.get_table)(module, &raw mut table, &raw mut len) } != 1 || table.is_null() {
            return None;
        }
        for &(id, function) in functions.iter().filter(|&&(id, _)| id < len as usize) {
            // SAFETY: the table has `len` pointers to places for functions; unused ones are null.
            unsafe {
                let place = *table.add(id);
                if !place.is_null() {
                    place.write(Some(function));
                }
            }
        }
    }
    Some(())
}

/// This thread's id, as the system has it.
fn thread() -> u32 {
    thread_local! {
        /// The process, since a forked child has another thread id, and the thread.
        static ID: Cell<(*const Recorder, u32)> = const { Cell::new((std::ptr::null(), 0)) };
    }
    let Some(recorder) = recorder::current() else { return 0 };
    ID.with(|id| {
        if !std::ptr::eq(id.get().0, recorder) {
            // SAFETY: a thread has an id.
            id.set((recorder, unsafe { libc::gettid() }.unsigned_abs()));
        }
        id.get().1
    })
}

fn give(domain: usize, what: What) {
    // Nothing in here panics; if it did, it must not reach the program.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let Some(recorder) = recorder::current() else { return };
        let event = NvtxEvent { ts: clock::now(), thread: thread(), domain: domain as u32, what };
        recorder.inbox.give_nvtx(event);
    }));
}

/// A range that may end on another thread gets the next number.
fn give_start(domain: usize, label: Label) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    give(domain, What::Start(id, label));
    id
}

fn text(message: *const c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: NVTX hands over texts that end in zero.
    let bytes = unsafe { CStr::from_ptr(message) }.to_bytes();
    String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_MESSAGE)]).into_owned()
}

fn wide_text(message: *const libc::wchar_t) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: as for `text`; the loop ends at the zero.
    let chars = (0..MAX_MESSAGE).map(|i| unsafe { *message.add(i) }).take_while(|&char| char != 0);
    chars.map(|char| u32::try_from(char).ok().and_then(char::from_u32).unwrap_or('\u{fffd}')).collect()
}

fn plain(message: *const c_char) -> Label {
    Label { message: text(message), payload: None }
}

fn wide(message: *const libc::wchar_t) -> Label {
    Label { message: wide_text(message), payload: None }
}

fn label(attributes: *const Attributes) -> Label {
    // SAFETY: NVTX hands over null or attributes; they say how many of its bytes there are.
    let Some(attributes) = (unsafe { attributes.as_ref() }) else { return Label::default() };
    if usize::from(attributes.size) < size_of::<Attributes>() {
        return Label::default();
    }
    let message = match attributes.message_type {
        1 => text(attributes.message.cast()),
        2 => wide_text(attributes.message.cast()),
        3 => registered(attributes.message as usize),
        _ => String::new(),
    };
    // `nvtxPayloadType_t`; numbers of 32 bits are in the low half.
    let bits = attributes.payload;
    let payload = match attributes.payload_type {
        1 => Some(Payload::Unsigned(bits)),
        2 => Some(Payload::Signed(bits.cast_signed())),
        3 => Some(Payload::Float(f64::from_bits(bits))),
        4 => Some(Payload::Unsigned(bits & 0xffff_ffff)),
        5 => Some(Payload::Signed(i64::from((bits as u32).cast_signed()))),
        6 => Some(Payload::Float(f64::from(f32::from_bits(bits as u32)))),
        _ => None,
    };
    Label { message, payload }
}

fn with_domains<T>(change: impl FnOnce(&mut Domains) -> T) -> Option<T> {
    let recorder = recorder::current()?;
    Some(change(&mut recorder.domains.lock().unwrap_or_else(PoisonError::into_inner)))
}

fn registered(handle: usize) -> String {
    let find = |domains: &mut Domains| domains.messages.get(handle.wrapping_sub(1)).cloned();
    with_domains(find).flatten().unwrap_or_default()
}

fn register(message: String) -> usize {
    let add = |domains: &mut Domains| {
        domains.messages.push(message);
        domains.messages.len()
    };
    with_domains(add).unwrap_or(0)
}

extern "C" fn mark(attributes: *const Attributes) {
    domain_mark(0, attributes);
}
extern "C" fn mark_a(message: *const c_char) {
    give(0, What::Mark(plain(message)));
}
extern "C" fn mark_w(message: *const libc::wchar_t) {
    give(0, What::Mark(wide(message)));
}
extern "C" fn start(attributes: *const Attributes) -> u64 {
    domain_start(0, attributes)
}
extern "C" fn start_a(message: *const c_char) -> u64 {
    give_start(0, plain(message))
}
extern "C" fn start_w(message: *const libc::wchar_t) -> u64 {
    give_start(0, wide(message))
}
extern "C" fn end(id: u64) {
    give(0, What::End(id));
}
extern "C" fn push(attributes: *const Attributes) -> c_int {
    domain_push(0, attributes)
}
extern "C" fn push_a(message: *const c_char) -> c_int {
    give(0, What::Push(plain(message)));
    0
}
extern "C" fn push_w(message: *const libc::wchar_t) -> c_int {
    give(0, What::Push(wide(message)));
    0
}
extern "C" fn pop() -> c_int {
    domain_pop(0)
}
extern "C" fn name_thread_a(thread: u32, name: *const c_char) {
    give(0, What::NameThread(thread, text(name)));
}
extern "C" fn name_thread_w(thread: u32, name: *const libc::wchar_t) {
    give(0, What::NameThread(thread, wide_text(name)));
}
extern "C" fn domain_mark(domain: usize, attributes: *const Attributes) {
    give(domain, What::Mark(label(attributes)));
}
extern "C" fn domain_start(domain: usize, attributes: *const Attributes) -> u64 {
    give_start(domain, label(attributes))
}
extern "C" fn domain_end(domain: usize, id: u64) {
    give(domain, What::End(id));
}
/// Returns 0 for the depth, as NVTX does without a tool that counts it.
extern "C" fn domain_push(domain: usize, attributes: *const Attributes) -> c_int {
    give(domain, What::Push(label(attributes)));
    0
}
extern "C" fn domain_pop(domain: usize) -> c_int {
    give(domain, What::Pop);
    0
}
extern "C" fn register_a(_domain: usize, message: *const c_char) -> usize {
    register(text(message))
}
extern "C" fn register_w(_domain: usize, message: *const libc::wchar_t) -> usize {
    register(wide_text(message))
}
extern "C" fn domain_create_a(name: *const c_char) -> usize {
    with_domains(|domains| domains.number(text(name))).unwrap_or(0)
}
extern "C" fn domain_create_w(name: *const libc::wchar_t) -> usize {
    with_domains(|domains| domains.number(wide_text(name))).unwrap_or(0)
}
