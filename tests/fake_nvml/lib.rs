//! A stand-in for `libnvidia-ml.so.1`: GPUs whose state a text file beside the library sets at any time.
//!
//! Tests compile it with `rustc --crate-type cdylib`; it has no dependencies. The file is called `gpus.txt`; its
//! words: `gpus=2`, `init=9` (the code that `nvmlInit_v2` returns), `lost=1` (the index of a GPU that is gone),
//! `unsupported=power,fan`, `denied=processes`, `busy=80` (percent, for all), `hot=92` (°C, for all), `xid=79` (each
//! new number is an event), `mig=1`. Functions that are not here are missing from the library, as in old drivers.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

type Code = c_uint;
const OK: Code = 0;
const INVALID: Code = 2;
const NOT_SUPPORTED: Code = 3;
const NO_PERMISSION: Code = 4;
const TOO_SMALL: Code = 7;
const TIMEOUT: Code = 10;
const LOST: Code = 15;

#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *mut c_void,
    name: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

/// How many times it was initialized and shut down.
static INITS: AtomicUsize = AtomicUsize::new(0);
/// The GPUs that were there at the last initialization, as bits: those that were lost come back with the next one.
static PRESENT: AtomicU64 = AtomicU64::new(0);
static LAST_XID: AtomicU64 = AtomicU64::new(0);

/// The words of the file beside this library.
fn state() -> HashMap<String, String> {
    let mut info = DlInfo { file: std::ptr::null(), base: std::ptr::null_mut(), name: std::ptr::null(), address: std::ptr::null_mut() };
    let address = nvmlInit_v2 as extern "C" fn() -> Code as *const c_void;
    let found = unsafe { dladdr(address, &mut info) };
    if found == 0 || info.file.is_null() {
        return HashMap::new();
    }
    let file = unsafe { CStr::from_ptr(info.file) }.to_string_lossy().into_owned();
    let text = std::path::Path::new(&file).with_file_name("gpus.txt");
    let text = std::fs::read_to_string(text).unwrap_or_default();
    let word = |word: &str| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    text.split_whitespace().filter_map(word).collect()
}

fn number(key: &str, otherwise: u64) -> u64 {
    state().get(key).and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

fn lists(key: &str, word: &str) -> bool {
    state().get(key).is_some_and(|value| value.split(',').any(|listed| listed == word))
}

fn is_lost(index: usize) -> bool {
    lists("lost", &index.to_string())
}

/// Handles are the index and one, since 0 is not a handle; those of instances of a GPU are above 100.
fn index(device: usize) -> usize {
    (device - 1) % 100
}

fn is_instance(device: usize) -> bool {
    device > 100
}

/// What a call for this metric of a device returns, before any value.
fn answer(device: usize, metric: &str) -> Code {
    let index = index(device);
    match () {
        () if is_lost(index) || PRESENT.load(Ordering::SeqCst) >> index & 1 == 0 => LOST,
        // What a program still has of an instance that is gone.
        () if is_instance(device) && number("mig", 0) == 0 => LOST,
        () if lists("denied", metric) => NO_PERMISSION,
        () if lists("unsupported", metric) => NOT_SUPPORTED,
        () if is_instance(device) && !["memory", "name"].contains(&metric) => NOT_SUPPORTED,
        () => OK,
    }
}

fn give<T>(device: usize, metric: &str, out: *mut T, value: T) -> Code {
    match answer(device, metric) {
        OK => {
            unsafe { out.write(value) };
            OK
        }
        code => code,
    }
}

fn give_text(out: *mut c_char, length: c_uint, text: &str) -> Code {
    if text.len() >= length as usize {
        return TOO_SMALL;
    }
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len());
        out.add(text.len()).write(0);
    }
    OK
}

fn seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs_f64()).unwrap_or(0.0)
}

/// A load that comes and goes, percent.
fn busy(device: usize) -> u32 {
    let wave = 55.0 + 40.0 * (seconds() / 3.0 + index(device) as f64).sin();
    number("busy", wave as u64) as u32
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Code {
    let code = number("init", 0) as Code;
    if code == OK && INITS.fetch_add(1, Ordering::SeqCst) == 0 {
        let n = number("gpus", 1) as usize;
        PRESENT.store((0..n).filter(|&i| !is_lost(i)).fold(0, |bits, i| bits | 1 << i), Ordering::SeqCst);
    }
    code
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Code {
    INITS.fetch_sub(1, Ordering::SeqCst);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, length: c_uint) -> Code {
    give_text(out, length, "580.65.06")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetCudaDriverVersion_v2(out: *mut c_int) -> Code {
    unsafe { out.write(13_000) };
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(out: *mut c_uint) -> Code {
    unsafe { out.write(number("gpus", 1) as c_uint) };
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: *mut usize) -> Code {
    match index {
        _ if u64::from(index) >= number("gpus", 1) => INVALID,
        _ if PRESENT.load(Ordering::SeqCst) >> index & 1 == 0 => LOST,
        _ => {
            unsafe { out.write(index as usize + 1) };
            OK
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetIndex(device: usize, out: *mut c_uint) -> Code {
    unsafe { out.write(index(device) as c_uint) };
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetName(device: usize, out: *mut c_char, length: c_uint) -> Code {
    match answer(device, "name") {
        OK if is_instance(device) => give_text(out, length, "NVIDIA Fake H100 MIG 1g.10gb"),
        OK => give_text(out, length, "NVIDIA Fake H100"),
        code => code,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUUID(device: usize, out: *mut c_char, length: c_uint) -> Code {
    give_text(out, length, &format!("GPU-fa4e0000-{device:04}"))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigMode(device: usize, current: *mut c_uint, pending: *mut c_uint) -> Code {
    let is_split = number("mig", 0) as c_uint;
    unsafe { pending.write(is_split) };
    give(device, "mig", current, is_split)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMaxMigDeviceCount(_device: usize, out: *mut c_uint) -> Code {
    unsafe { out.write(7) };
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(device: usize, instance: c_uint, out: *mut usize) -> Code {
    if instance > 1 {
        return 6;
    }
    unsafe { out.write(device + 100 * (instance as usize + 1)) };
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUtilizationRates(device: usize, out: *mut [c_uint; 2]) -> Code {
    let busy = busy(device);
    give(device, "utilization", out, [busy, busy / 2])
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
pub struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: usize, out: *mut Memory) -> Code {
    let total = 85_520_809_984;
    let used = total / 100 * u64::from(busy(device));
    give(device, "memory", out, Memory { version: 2 << 24 | 40, total, reserved: 600 << 20, free: total - used, used })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPowerUsage(device: usize, out: *mut c_uint) -> Code {
    give(device, "power", out, 70_000 + busy(device) * 6_300)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetEnforcedPowerLimit(device: usize, out: *mut c_uint) -> Code {
    give(device, "power", out, 700_000)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTotalEnergyConsumption(device: usize, out: *mut c_ulonglong) -> Code {
    give(device, "power", out, (seconds() * 1e3) as u64 % 1_000_000_000)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTemperature(device: usize, _sensor: c_uint, out: *mut c_uint) -> Code {
    give(device, "temperature", out, number("hot", 35 + u64::from(busy(device)) / 3) as c_uint)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTemperatureThreshold(device: usize, _kind: c_uint, out: *mut c_uint) -> Code {
    give(device, "temperature", out, 90)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetClockInfo(device: usize, kind: c_uint, out: *mut c_uint) -> Code {
    let clocks = [1980, 1980, 2619, 1545];
    give(device, "clocks", out, clocks[kind as usize % 4])
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMaxClockInfo(device: usize, _kind: c_uint, out: *mut c_uint) -> Code {
    give(device, "clocks", out, 1980)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(device: usize, out: *mut c_ulonglong) -> Code {
    give(device, "throttle", out, if busy(device) > 85 { 4 } else { 0 })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPerformanceState(device: usize, out: *mut c_uint) -> Code {
    give(device, "state", out, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetEncoderUtilization(device: usize, out: *mut c_uint, period: *mut c_uint) -> Code {
    unsafe { period.write(167_000) };
    give(device, "video", out, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetNumFans(device: usize, out: *mut c_uint) -> Code {
    give(device, "fan", out, 2)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetFanSpeed_v2(device: usize, fan: c_uint, out: *mut c_uint) -> Code {
    give(device, "fan", out, 40 + fan)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTotalEccErrors(device: usize, kind: c_uint, _counter: c_uint, out: *mut c_ulonglong) -> Code {
    give(device, "ecc", out, if kind == 0 { 2 } else { 0 })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPcieThroughput(device: usize, kind: c_uint, out: *mut c_uint) -> Code {
    give(device, "pcie", out, 1_000_000 * (kind + 1))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCurrPcieLinkGeneration(device: usize, out: *mut c_uint) -> Code {
    give(device, "pcie", out, 5)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCurrPcieLinkWidth(device: usize, out: *mut c_uint) -> Code {
    give(device, "pcie", out, 16)
}

/// `nvmlProcessInfo_t`.
#[repr(C)]
pub struct Process {
    pid: c_uint,
    used: c_ulonglong,
    instance: c_uint,
    compute_instance: c_uint,
}

/// This program alone. With room for none it says how much it takes.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(device: usize, n: *mut c_uint, out: *mut Process) -> Code {
    match answer(device, "processes") {
        OK => {}
        code => return code,
    }
    let room = unsafe { n.replace(1) };
    if room == 0 || out.is_null() {
        return TOO_SMALL;
    }
    unsafe { out.write(Process { pid: std::process::id(), used: 3 << 30, instance: u32::MAX, compute_instance: u32::MAX }) };
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(device: usize, n: *mut c_uint, _out: *mut Process) -> Code {
    unsafe { n.write(0) };
    answer(device, "processes")
}

/// `nvmlFieldValue_t`.
#[repr(C)]
pub struct FieldValue {
    field: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency: i64,
    kind: c_uint,
    code: Code,
    value: u64,
}

/// Instant power, memory temperature, and bytes of all NVLinks.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetFieldValues(device: usize, n: c_int, out: *mut FieldValue) -> Code {
    let fields = unsafe { std::slice::from_raw_parts_mut(out, n as usize) };
    for field in fields {
        let (metric, kind, value) = match (field.field, field.scope) {
            (186, _) => ("power", 1, u64::from(75_000 + busy(device) * 6_300)),
            (82, _) => ("temperature", 1, 52),
            // 2 GiB/s.
            (138 | 139, u32::MAX) => ("nvlink", 3, (seconds() * f64::from(2 << 20)) as u64),
            _ => ("", 0, 0),
        };
        field.code = if metric.is_empty() { NOT_SUPPORTED } else { answer(device, metric) };
        (field.kind, field.value) = (kind, value);
    }
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetNvLinkState(device: usize, link: c_uint, out: *mut c_uint) -> Code {
    if link > 3 { INVALID } else { give(device, "nvlink", out, 1) }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetNvLinkErrorCounter(device: usize, _link: c_uint, _kind: c_uint, out: *mut c_ulonglong) -> Code {
    give(device, "nvlink", out, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetCreate(out: *mut usize) -> Code {
    unsafe { out.write(1) };
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(_set: usize) -> Code {
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetSupportedEventTypes(device: usize, out: *mut c_ulonglong) -> Code {
    give(device, "events", out, 0xf)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceRegisterEvents(_device: usize, _types: c_ulonglong, _set: usize) -> Code {
    OK
}

/// `nvmlEventData_t`.
#[repr(C)]
pub struct Event {
    device: usize,
    kind: c_ulonglong,
    data: c_ulonglong,
    instance: c_uint,
    compute_instance: c_uint,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetWait_v2(_set: usize, out: *mut Event, timeout_ms: c_uint) -> Code {
    let xid = number("xid", 0);
    if LAST_XID.swap(xid, Ordering::SeqCst) != xid && xid != 0 {
        unsafe { out.write(Event { device: 1, kind: 8, data: xid, instance: u32::MAX, compute_instance: u32::MAX }) };
        return OK;
    }
    std::thread::sleep(std::time::Duration::from_millis(timeout_ms.into()));
    TIMEOUT
}
