//! Properties of the devices, from the driver that the program has loaded.

use std::ffi::{c_char, c_int};
use std::io::Write as _;

use super::dl::{Library, function};
use super::json::push_text;

type Result = c_int;

/// Names as the PyTorch profiler writes them, and `CUdevice_attribute`.
const ATTRIBUTES: [(&str, c_int); 9] = [
    ("computeMajor", 75),
    ("computeMinor", 76),
    ("maxThreadsPerBlock", 1),
    ("maxThreadsPerMultiprocessor", 39),
    ("regsPerMultiprocessor", 82),
    ("warpSize", 10),
    ("sharedMemPerBlock", 8),
    ("sharedMemPerMultiprocessor", 81),
    ("numSms", 16),
];

/// A list in JSON of the devices that the program sees; `None` without a driver.
///
/// May be called on any thread once CUDA is initialized.
pub fn properties() -> Option<String> {
    let driver = Library::loaded("libcuda.so.1")?;
    let get_count = function!(driver, c"cuDeviceGetCount" as unsafe extern "C" fn(*mut c_int) -> Result)?;
    let get_name = function!(driver, c"cuDeviceGetName" as unsafe extern "C" fn(*mut c_char, c_int, c_int) -> Result)?;
    let get_memory = function!(driver, c"cuDeviceTotalMem_v2" as unsafe extern "C" fn(*mut usize, c_int) -> Result)?;
    let get = function!(driver, c"cuDeviceGetAttribute" as unsafe extern "C" fn(*mut c_int, c_int, c_int) -> Result)?;
    let mut count = 0;
    // SAFETY: here and below, functions of the driver with pointers to what they fill.
    if unsafe { get_count(&raw mut count) } != 0 {
        return None;
    }
    let mut out = vec![b'['];
    // A device's handle is its index.
    for device in 0..count {
        let mut name = [0u8; 256];
        // SAFETY: the length is one less than that of the array, so the last byte stays zero.
        unsafe { get_name(name.as_mut_ptr().cast(), 255, device) };
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let mut memory = 0;
        // SAFETY: as above.
        unsafe { get_memory(&raw mut memory, device) };
        let _ = write!(out, "{}{{\"id\":{device},\"name\":", if device == 0 { "" } else { "," });
        push_text(&mut out, &String::from_utf8_lossy(name));
        let _ = write!(out, ",\"totalGlobalMem\":{memory}");
        for (key, attribute) in ATTRIBUTES {
            let mut value = 0;
            // SAFETY: as above.
            if unsafe { get(&raw mut value, attribute, device) } == 0 {
                let _ = write!(out, ",\"{key}\":{value}");
            }
        }
        out.push(b'}');
    }
    out.push(b']');
    String::from_utf8(out).ok()
}
