//! Named ranges for whatever records this program by NVTX.
//!
//! NVTX is a header for C: a program has tables of functions, and the library that `NVTX_INJECTION64_PATH` names puts
//! its own into them. Without that library ranges cost nothing.
#![expect(unsafe_code, reason = "the interface is one of C")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `NVTX_ETID_CALLBACKS` and `NVTX_CB_MODULE_CORE`.
const CALLBACKS: u32 = 1;
const CORE: u32 = 1;
/// `NVTX_CBID_CORE_SIZE`, and those of the functions that are called.
const N_FUNCTIONS: usize = 16;
const PUSH: usize = 9;
const POP: usize = 11;

type GetTable = extern "C" fn(u32, *mut *const *const AtomicPtr<c_void>, *mut c_uint) -> c_int;
type Initialize = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;

#[repr(C)]
struct Callbacks {
    size: usize,
    get_table: GetTable,
}

static TABLE: Callbacks = Callbacks { size: size_of::<Callbacks>(), get_table };
static FUNCTIONS: [AtomicPtr<c_void>; N_FUNCTIONS] = [const { AtomicPtr::new(ptr::null_mut()) }; N_FUNCTIONS];

extern "C" fn get_export_table(id: u32) -> *const c_void {
    if id == CALLBACKS { (&raw const TABLE).cast() } else { ptr::null() }
}

extern "C" fn get_table(module: u32, table: *mut *const *const AtomicPtr<c_void>, size: *mut c_uint) -> c_int {
    if module != CORE {
        return 0;
    }
    let places: Vec<*const AtomicPtr<c_void>> = FUNCTIONS.iter().map(ptr::from_ref).collect();
    // SAFETY: the caller's pointers to what it wants filled. The table must live as long as the program.
    unsafe {
        *table = places.leak().as_ptr();
        *size = N_FUNCTIONS as c_uint;
    }
    1
}

/// Loads the library that records ranges, if the environment names one.
pub fn load() {
    let Some(path) = std::env::var_os("NVTX_INJECTION64_PATH") else { return };
    // SAFETY: the user's choice to load it, and the entry point that NVTX gives it.
    unsafe {
        let Ok(library) = libloading::Library::new(path) else { return };
        // It stays loaded: the functions are its own.
        let library = std::mem::ManuallyDrop::new(library);
        if let Ok(initialize) = library.get::<Initialize>(b"InitializeInjectionNvtx2\0") {
            initialize(get_export_table);
        }
    }
}

/// Runs `work` as a range of this name.
pub fn within<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let function = |id: usize| Some(FUNCTIONS[id].load(Ordering::Relaxed)).filter(|function| !function.is_null());
    if let (Some(push), Ok(name)) = (function(PUSH), CString::new(name)) {
        // SAFETY: the function that the table has at this place, and a text that ends in zero.
        unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(push)(name.as_ptr())
        };
    }
    let done = work();
    if let Some(pop) = function(POP) {
        // SAFETY: as above.
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(pop)() };
    }
    done
}
