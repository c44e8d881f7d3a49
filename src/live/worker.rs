//! The threads that read: one for each driver, and beside it one for what is slow and one for events.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::history::{DeviceHistory, Status};
use super::metric::Pace;
use super::monitor::Shared;
use super::now;
use super::source::{Driver, Event, Sample, Sampler, Source};

const SECOND: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_secs(2);
/// The longest sleep before a thread looks whether it is over.
const NAP: Duration = Duration::from_millis(50);

/// Watches the devices of a driver until the monitor is dropped.
///
/// * `system`: its place in [`super::Store::systems`].
pub fn run(driver: &dyn Driver, system: usize, shared: &Arc<Shared>) {
    let mut is_first = true;
    while !shared.is_over() {
        match driver.open() {
            Ok(source) => {
                let places = shared.change(|store| {
                    let places = store.adopt(driver.name(), source.devices());
                    store.lose_others(driver.name(), &places, now());
                    store.set_status(system, Status::Watching(source.notes().to_vec()));
                    places
                });
                watch(&*source, driver.name(), &places, shared);
            }
            Err(missing) => {
                shared.change(|store| {
                    store.lose_others(driver.name(), &[], now());
                    let status = Status::Missing(missing);
                    if is_first || store.systems[system].status != status {
                        store.set_status(system, status);
                    }
                });
                nap(shared.retry(), || shared.is_over());
            }
        }
        is_first = false;
    }
}

/// Reads until the monitor is dropped, or until it is time to open the driver again for devices that are lost.
fn watch(source: &dyn Source, driver: &'static str, places: &[usize], shared: &Shared) {
    let is_done = AtomicBool::new(false);
    let is_over = || is_done.load(Ordering::Relaxed) || shared.is_over();
    let report = |event: Event| {
        let place = source.devices().iter().position(|info| info.id == event.device).and_then(|at| places.get(at));
        shared.change(|store| {
            let place = place.copied().unwrap_or(usize::MAX);
            let known = store.devices.get(place).map(|device| device.info.id.clone());
            store.report_of(place, Event { device: known.unwrap_or(event.device), ..event });
        });
    };
    std::thread::scope(|scope| {
        let slow = || {
            let mut sampler = source.sampler(Pace::Slow);
            while !is_over() {
                let started = Instant::now();
                round(&mut [(Pace::Slow, &mut *sampler)], places, shared);
                nap(SLOW.saturating_sub(started.elapsed()), is_over);
            }
        };
        // Without these threads their figures are absent.
        let _ = std::thread::Builder::new().name("gpus, slow".to_owned()).spawn_scoped(scope, slow);
        let events = || source.watch(&report, &is_over);
        let _ = std::thread::Builder::new().name("gpu events".to_owned()).spawn_scoped(scope, events);
        read_fast(source, driver, places, shared);
        is_done.store(true, Ordering::Relaxed);
    });
}

/// The fast readings, and once a second those of that pace.
fn read_fast(source: &dyn Source, driver: &'static str, places: &[usize], shared: &Shared) {
    let (mut fast, mut second) = (source.sampler(Pace::Fast), source.sampler(Pace::Second));
    let opened = Instant::now();
    let (mut next, mut next_second) = (opened, opened);
    while !shared.is_over() {
        let started = Instant::now();
        let is_second = started >= next_second;
        if is_second {
            next_second = started + SECOND.saturating_sub(NAP);
            round(&mut [(Pace::Fast, &mut *fast), (Pace::Second, &mut *second)], places, shared);
        } else {
            round(&mut [(Pace::Fast, &mut *fast)], places, shared);
        }
        // An instance that was gone may be there again, by another handle.
        let lacks_some = |store: &super::Store| store.has_lost(driver) || store.has_removed(places);
        let is_to_open = || is_second && source.is_outdated() || lacks_some(&shared.lock());
        if opened.elapsed() >= shared.retry() && is_to_open() {
            return;
        }
        // Readings that were missed are not made up for.
        next = (next + shared.interval()).max(Instant::now());
        let then = shared.interval();
        nap(next.saturating_duration_since(Instant::now()), || shared.is_over() || shared.interval() != then);
        // Another pace counts from when it was asked for.
        next = next.min(Instant::now());
    }
}

/// Reads each device once with each of the samplers.
fn round(samplers: &mut [(Pace, &mut dyn Sampler)], places: &[usize], shared: &Shared) {
    let costs: Vec<Cell<(Duration, Duration)>> = samplers.iter().map(|_| Cell::default()).collect();
    for (device, &place) in places.iter().enumerate() {
        let mut sample = Sample::at(now());
        for ((_, sampler), cost) in samplers.iter_mut().zip(&costs) {
            let (cpu, wall) = (thread_time(), Instant::now());
            sampler.read(device, &mut sample);
            let spent = cost.get();
            cost.set((spent.0 + thread_time().saturating_sub(cpu), spent.1 + wall.elapsed()));
        }
        let is_fast = samplers.iter().any(|(pace, _)| *pace == Pace::Fast);
        shared.change(|store| {
            store.apply(place, sample);
            let is_written = |device: &&DeviceHistory| is_fast && device.lost_since.is_none() && !device.is_removed;
            let Some(device) = store.devices.get(place).filter(is_written) else { return };
            // At once, so that a recording that ends has all that was known by then; none of them waits.
            for recorder in shared.recorders().iter() {
                recorder.write(&recorder.text(place, device));
            }
        });
    }
    shared.change(|store| {
        for ((pace, _), cost) in samplers.iter().zip(&costs) {
            store.spend(*pace, cost.get().0, cost.get().1);
        }
    });
}

/// Sleeps, but wakes when it is over.
fn nap(length: Duration, is_over: impl Fn() -> bool) {
    let until = Instant::now() + length;
    while !is_over() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(NAP));
    }
}

/// What the processor spent on this thread; zero where the system does not say.
fn thread_time() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
    }
    #[cfg(not(unix))]
    Duration::ZERO
}
