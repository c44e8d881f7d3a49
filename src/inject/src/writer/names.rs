//! Names for people: of kernels as in the source, of API calls without their versions.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::rc::Rc;

use crate::cupti::Cupti;
use crate::dl::{Library, function};

type Demangle = unsafe extern "C" fn(*const c_char, *mut c_char, *mut usize, *mut c_int) -> *mut c_char;

#[derive(Debug, Default)]
pub struct Names {
    kernels: HashMap<Vec<u8>, Rc<str>>,
    calls: HashMap<(bool, u32), Rc<str>>,
    /// The C++ library's function, once it was looked for.
    demangle: Option<Option<Demangle>>,
}

impl Names {
    /// The name of a kernel as C++ writes it, as far as the program has the C++ library.
    ///
    /// # Safety
    /// `name` is null or a text that ends in zero.
    pub unsafe fn kernel(&mut self, name: *const c_char) -> Rc<str> {
        if name.is_null() {
            return Rc::from("Kernel without a name");
        }
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        if let Some(known) = self.kernels.get(name) {
            return known.clone();
        }
        let demangle = *self.demangle.get_or_insert_with(find_demangle);
        let plain = demangle.filter(|_| name.starts_with(b"_Z")).and_then(|demangle| demangled(demangle, name));
        let text: Rc<str> = plain.unwrap_or_else(|| String::from_utf8_lossy(name).into_owned()).into();
        self.kernels.insert(name.to_vec(), text.clone());
        text
    }

    /// The name of an API call, without the version that CUPTI adds.
    pub fn call(&mut self, cupti: &Cupti, is_runtime: bool, cbid: u32) -> Rc<str> {
        let name = || {
            let api = if is_runtime { "runtime" } else { "driver" };
            let name = cupti.call_name(is_runtime, cbid).unwrap_or_else(|| format!("CUDA {api} call {cbid}"));
            Rc::from(without_version(&name))
        };
        self.calls.entry((is_runtime, cbid)).or_insert_with(name).clone()
    }
}

fn find_demangle() -> Option<Demangle> {
    let library = Library::loaded("libstdc++.so.6").or_else(|| Library::open(Path::new("libstdc++.so.6")).ok())?;
    function!(library, c"__cxa_demangle" as Demangle)
}

fn demangled(demangle: Demangle, name: &[u8]) -> Option<String> {
    let name = CString::new(name).ok()?;
    // SAFETY: a text that ends in zero; the function allocates its answer, which is freed below.
    unsafe {
        let text = demangle(name.as_ptr(), std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        if text.is_null() {
            return None;
        }
        let plain = CStr::from_ptr(text).to_string_lossy().into_owned();
        libc::free(text.cast());
        Some(plain)
    }
}

/// `cudaLaunchKernel` of `cudaLaunchKernel_ptsz_v7000`; the driver's `cuMemAlloc_v2` is a name of its own.
fn without_version(name: &str) -> &str {
    let plain = match name.rsplit_once("_v") {
        Some((plain, version)) if version.len() >= 4 && version.bytes().all(|byte| byte.is_ascii_digit()) => plain,
        _ => name,
    };
    plain.strip_suffix("_ptsz").or_else(|| plain.strip_suffix("_ptds")).unwrap_or(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_left_out() {
        for (name, expected) in [
            ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
            ("cudaMemcpyAsync_ptsz_v7000", "cudaMemcpyAsync"),
            ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC"),
            ("cuMemAlloc_v2", "cuMemAlloc_v2"),
            ("cuLaunchKernel_ptsz", "cuLaunchKernel"),
        ] {
            assert_eq!(without_version(name), expected);
        }
    }

    #[test]
    fn kernels_have_their_names_of_cpp() {
        let mut names = Names::default();
        // SAFETY: texts that end in zero.
        let found = unsafe { [c"_Z3addPfi", c"add", c""].map(|name| names.kernel(name.as_ptr())) };
        // Without the C++ library the name stays as it is.
        assert!(["add(float*, int)", "_Z3addPfi"].contains(&&*found[0]));
        assert_eq!((&*found[1], &*found[2]), ("add", ""));
    }
}
