//! Shared libraries of the program, and those that are loaded into it.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::NonNull;

/// A library; it stays loaded as long as the program runs.
#[derive(Clone, Copy, Debug)]
pub struct Library(NonNull<c_void>);

// SAFETY: handles of dlopen may be used on any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Loads a library, or finds it if it is loaded already.
    ///
    /// Errors: the sentence of `dlerror`.
    pub fn open(path: &Path) -> Result<Self, String> {
        Self::open_with(path.as_os_str().as_bytes(), libc::RTLD_NOW | libc::RTLD_LOCAL)
    }

    /// A library that the program has loaded already, by its name.
    pub fn loaded(name: &str) -> Option<Self> {
        Self::open_with(name.as_bytes(), libc::RTLD_NOW | libc::RTLD_NOLOAD).ok()
    }

    fn open_with(path: &[u8], flags: i32) -> Result<Self, String> {
        let path = CString::new(path).map_err(|error| error.to_string())?;
        // SAFETY: a path that ends in zero; what the library does when it is loaded is why it is loaded.
        let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
        NonNull::new(handle).map(Self).ok_or_else(|| {
            // SAFETY: dlerror gives a text of this thread, or null.
            let why = unsafe { libc::dlerror() };
            if why.is_null() {
                return "it cannot be loaded".to_owned();
            }
            // SAFETY: not null, so a text that ends in zero.
            unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned()
        })
    }

    /// The address of a function.
    pub fn find(self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: an open library, and a name that ends in zero.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })
    }
}

/// The function of this name and type in a library, as an `Option`.
macro_rules! function {
    ($library:expr, $name:literal as $type:ty) => {
        match $library.find($name) {
            // SAFETY: the type is the one that the library's header gives the function of this name.
            Some(address) => Some(unsafe { std::mem::transmute::<*mut std::ffi::c_void, $type>(address.as_ptr()) }),
            None => None,
        }
    };
}
pub(crate) use function;
