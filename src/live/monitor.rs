//! Watches the GPUs on threads of its own.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::amd::AmdDriver;
use super::history::{Status, Store};
use super::nvml::NvmlDriver;
use super::record::Line;
use super::source::{Driver, Missing};
use super::worker;
use crate::job;

/// The interval of the fast readings, unless it is changed.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(250);
/// The shortest and the longest interval.
pub const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// What the user may name in place of the system's NVML.
const LIBRARY_VARIABLE: &str = "LACUNA_NVML";

/// Shared by the threads and those who read.
#[derive(Debug)]
pub struct Shared {
    store: Mutex<Store>,
    /// Signalled at every change of the store, and at the end.
    changed: Condvar,
    interval_ns: AtomicU64,
    is_over: AtomicBool,
    /// How long a driver that is missing, or has lost devices, is left alone, in nanoseconds.
    pub retry_ns: AtomicU64,
    recorders: Mutex<Vec<Arc<Line>>>,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Taken after the store where both are.
    pub fn recorders(&self) -> MutexGuard<'_, Vec<Arc<Line>>> {
        self.recorders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the store and tells those who wait for it.
    pub fn change<R>(&self, change: impl FnOnce(&mut Store) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval_ns.load(Ordering::Relaxed))
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub fn retry(&self) -> Duration {
        Duration::from_nanos(self.retry_ns.load(Ordering::Relaxed))
    }
}

/// The watch over this machine's GPUs. Nothing is loaded before [`Monitor::start`]; dropping it ends its threads.
pub struct Monitor {
    shared: Arc<Shared>,
    /// Those that are not watched yet.
    drivers: Mutex<Vec<Box<dyn Driver>>>,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Default for Monitor {
    fn default() -> Self {
        Self::of_system(None)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
    }
}

impl Monitor {
    /// Of the GPUs of this machine.
    ///
    /// * `library`: the file to load in place of the system's `libnvidia-ml.so.1`; else that which the environment
    ///   variable `LACUNA_NVML` names.
    pub fn of_system(library: Option<OsString>) -> Self {
        let library = library.or_else(|| std::env::var_os(LIBRARY_VARIABLE));
        Self::new(vec![Box::new(NvmlDriver { library }), Box::new(AmdDriver::default())])
    }

    pub fn new(drivers: Vec<Box<dyn Driver>>) -> Self {
        let shared = Shared {
            store: Mutex::new(Store::new(drivers.iter().map(|driver| driver.name()))),
            changed: Condvar::new(),
            interval_ns: AtomicU64::new(DEFAULT_INTERVAL.as_nanos() as u64),
            is_over: AtomicBool::new(false),
            retry_ns: AtomicU64::new(5_000_000_000),
            recorders: Mutex::default(),
        };
        Self { shared: Arc::new(shared), drivers: Mutex::new(drivers) }
    }

    /// Starts to watch; later calls do nothing.
    pub fn start(&self) {
        let drivers = std::mem::take(&mut *self.drivers.lock().unwrap_or_else(PoisonError::into_inner));
        for (system, driver) in drivers.into_iter().enumerate() {
            let name = driver.name();
            let (at_work, at_end) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
            let fail = move |shared: &Shared, why: &str| {
                let what = format!("Watching {name} GPUs failed: {why}");
                let missing = Missing { what, remedy: "Start Lacuna again".to_owned() };
                shared.change(|store| store.set_status(system, Status::Missing(missing)));
            };
            let end = move |outcome: Result<(), String>| {
                if let Err(panic) = outcome {
                    fail(&at_end, &panic);
                }
            };
            if let Err(error) = job::start("gpus", move || worker::run(&*driver, system, &at_work), end) {
                fail(&self.shared, &error.to_string());
            }
        }
    }

    /// Whether it was started.
    pub fn is_started(&self) -> bool {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Reads what is known so far. The threads wait meanwhile: do little.
    pub fn read<R>(&self, read: impl FnOnce(&Store) -> R) -> R {
        read(&self.shared.lock())
    }

    /// The revision of the store.
    pub fn revision(&self) -> u64 {
        self.shared.lock().revision
    }

    /// Changes the alarms.
    pub fn set_alarms(&self, alarms: Vec<super::Alarm>) {
        self.shared.change(|store| {
            store.alarms = alarms;
            store.revision += 1;
        });
    }

    /// Waits until something is so, but not longer than this; returns whether it is so.
    pub fn wait(&self, at_most: Duration, is_so: impl Fn(&Store) -> bool) -> bool {
        let until = Instant::now() + at_most;
        let mut store = self.shared.lock();
        while !is_so(&store) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            store = self.shared.changed.wait_timeout(store, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    pub fn interval(&self) -> Duration {
        self.shared.interval()
    }

    /// Sets the interval of the fast readings, within `INTERVALS`.
    pub fn set_interval(&self, interval: Duration) {
        let interval = interval.clamp(INTERVALS.0, INTERVALS.1);
        self.shared.interval_ns.store(interval.as_nanos() as u64, Ordering::Relaxed);
        self.shared.changed.notify_all();
    }

    /// Sets how long a driver that is missing, or has lost devices, is left alone.
    pub fn set_retry(&self, retry: Duration) {
        self.shared.retry_ns.store(retry.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}
