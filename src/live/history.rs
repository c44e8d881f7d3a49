//! History of readings: bounded rings of points for each metric of each device.

use std::collections::VecDeque;
use std::time::Duration;

use super::alarm::{Alarm, AlarmState, default_alarms};
use super::metric::{Metric, N_METRICS, Pace};
use super::source::{Absent, DeviceInfo, Event, Missing, ProcessUse, Sample};
use crate::model::TimeNs;

/// Points kept of a metric: half an hour at four a second; 16 bytes each.
pub const MAX_POINTS: usize = 7200;

/// Events kept.
const MAX_EVENTS: usize = 500;

/// The most devices that are watched, those that are gone included.
const MAX_DEVICES: usize = 256;

/// What is said of a device since [`DeviceHistory::lost_since`].
pub const LOST: &str = "Lost: it does not answer the driver";

/// A value at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub ts: TimeNs,
    /// Not a number where the device stopped answering, or the metric could no longer be read.
    pub value: f64,
}

/// All values of a metric since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    pub n: u64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
    pub first: f64,
    pub last: f64,
}

impl Stats {
    pub fn mean(&self) -> f64 {
        self.sum / self.n as f64
    }
}

/// One device, also after it is gone.
#[derive(Debug)]
pub struct DeviceHistory {
    pub driver: &'static str,
    pub info: DeviceInfo,
    /// Since when it does not answer.
    pub lost_since: Option<TimeNs>,
    /// Whether it was an instance of a GPU that is divided otherwise now, or not at all.
    pub is_removed: bool,
    /// The last error that the driver reported of it.
    pub error: Option<Event>,
    /// Empty where the driver tells none.
    pub processes: Vec<ProcessUse>,
    latest: [Option<(TimeNs, Result<f64, Absent>)>; N_METRICS],
    points: Vec<VecDeque<Point>>,
    stats: [Option<Stats>; N_METRICS],
    alarms: Vec<AlarmState>,
}

impl DeviceHistory {
    pub fn new(driver: &'static str, info: DeviceInfo) -> Self {
        Self {
            driver,
            info,
            lost_since: None,
            is_removed: false,
            error: None,
            processes: Vec::new(),
            latest: [None; N_METRICS],
            points: vec![VecDeque::new(); N_METRICS],
            stats: [None; N_METRICS],
            alarms: Vec::new(),
        }
    }

    /// What came of the last reading, and when; `None` if it was never asked for.
    pub fn latest(&self, metric: Metric) -> Option<(TimeNs, Result<f64, Absent>)> {
        self.latest[metric as usize]
    }

    /// The last reading's value, if it gave one.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.latest(metric)?.1.ok()
    }

    /// Whether it ever had a value.
    pub fn has(&self, metric: Metric) -> bool {
        self.stats[metric as usize].is_some()
    }

    /// The points of a metric, by time.
    pub fn points(&self, metric: Metric) -> &VecDeque<Point> {
        &self.points[metric as usize]
    }

    pub fn stats(&self, metric: Metric) -> Option<Stats> {
        self.stats[metric as usize]
    }

    /// Takes over what was read.
    fn apply(&mut self, sample: Sample) {
        for (metric, outcome) in sample.all() {
            self.latest[metric as usize] = Some((sample.ts, outcome));
            let value = match outcome {
                Ok(value) => value,
                Err(Absent::NoDataYet) => continue,
                Err(_) => {
                    self.part(metric, sample.ts);
                    continue;
                }
            };
            self.push(metric, Point { ts: sample.ts, value });
            let first = Stats { n: 0, sum: 0.0, min: value, max: value, first: value, last: value };
            let stats = self.stats[metric as usize].get_or_insert(first);
            stats.n += 1;
            stats.sum += value;
            (stats.min, stats.max, stats.last) = (stats.min.min(value), stats.max.max(value), value);
        }
        self.processes = sample.processes.unwrap_or(std::mem::take(&mut self.processes));
    }

    /// Has the line of a metric end at its last value, so that none is shown across the time that nothing was read in.
    fn part(&mut self, metric: Metric, ts: TimeNs) {
        if self.points(metric).back().is_some_and(|point| !point.value.is_nan()) {
            self.push(metric, Point { ts, value: f64::NAN });
        }
    }

    fn push(&mut self, metric: Metric, point: Point) {
        let ring = &mut self.points[metric as usize];
        // The system's clock may be set back; points stay in order.
        let point = Point { ts: point.ts.max(ring.back().map_or(i64::MIN, |last| last.ts)), ..point };
        if ring.len() == MAX_POINTS {
            ring.pop_front();
        }
        ring.push_back(point);
    }

    fn lose(&mut self, ts: TimeNs) {
        self.lost_since = (!self.is_removed).then_some(ts);
        self.processes.clear();
        for &metric in Metric::ALL {
            if let Some((_, Ok(_))) = self.latest(metric) {
                self.latest[metric as usize] = Some((ts, Err(Absent::Lost)));
                self.part(metric, ts);
            }
        }
    }
}

/// Whether a driver can be watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    #[default]
    Starting,
    /// With a sentence for each of its devices that cannot be read.
    Watching(Vec<String>),
    Missing(Missing),
}

/// A driver with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    pub driver: &'static str,
    pub status: Status,
}

/// Time spent on reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub n_ticks: u64,
    /// Of the processor.
    pub cpu: Duration,
    /// Waits for the driver included.
    pub wall: Duration,
    pub longest: Duration,
}

/// Everything read so far.
#[derive(Debug, Default)]
pub struct Store {
    /// Grows with every change.
    pub revision: u64,
    pub systems: Vec<System>,
    pub devices: Vec<DeviceHistory>,
    /// By time.
    pub events: VecDeque<Event>,
    pub alarms: Vec<Alarm>,
    /// Of each pace, in the order of `Pace`.
    pub costs: [Cost; 3],
}

impl Store {
    pub fn new(drivers: impl Iterator<Item = &'static str>) -> Self {
        let systems = drivers.map(|driver| System { driver, status: Status::Starting }).collect();
        Self { systems, alarms: default_alarms(), ..Self::default() }
    }

    pub fn cost(&self, pace: Pace) -> Cost {
        self.costs[pace as usize]
    }

    /// Whether each driver either answers or is known to be missing.
    pub fn is_settled(&self) -> bool {
        self.systems.iter().all(|system| system.status != Status::Starting)
    }

    pub fn set_status(&mut self, system: usize, status: Status) {
        self.revision += 1;
        if let Some(system) = self.systems.get_mut(system) {
            system.status = status;
        }
    }

    /// Finds the devices of a driver that was opened, known ones by their UUID. Returns the place of each in
    /// [`Store::devices`], `usize::MAX` for those beyond the most that are watched.
    pub fn adopt(&mut self, driver: &'static str, found: &[DeviceInfo]) -> Vec<usize> {
        self.revision += 1;
        let place = |info: &DeviceInfo| {
            let is_it = |known: &DeviceHistory| {
                known.driver == driver && known.info.uuid == info.uuid && known.info.name == info.name
            };
            if let Some(at) = self.devices.iter().position(is_it) {
                let known = &mut self.devices[at].info;
                // A driver that lost one may number the rest anew.
                *known = DeviceInfo { id: known.id.clone(), ..info.clone() };
                self.devices[at].is_removed = false;
                return at;
            }
            if self.devices.len() == MAX_DEVICES {
                return usize::MAX;
            }
            self.devices.push(DeviceHistory::new(driver, info.clone()));
            self.devices.len() - 1
        };
        found.iter().map(place).collect()
    }

    /// Marks those devices of a driver as lost that are not at these places. Instances that were lost with their GPU
    /// are gone once that is back without them, as after a reset.
    pub fn lose_others(&mut self, driver: &'static str, places: &[usize], ts: TimeNs) {
        let of_driver = |(at, device): (usize, &DeviceHistory)| {
            let is_lost = device.lost_since.is_some() && !self.is_of_a_gpu_that_answers(at);
            let is_known = device.is_removed || is_lost;
            (device.driver == driver && !places.contains(&at) && !is_known).then_some(at)
        };
        let gone: Vec<usize> = self.devices.iter().enumerate().filter_map(of_driver).collect();
        gone.into_iter().for_each(|at| self.lose(at, ts));
    }

    /// Whether a device of the driver is missing.
    pub fn has_lost(&self, driver: &'static str) -> bool {
        self.devices.iter().any(|device| device.driver == driver && device.lost_since.is_some())
    }

    /// Whether an instance at one of these places is gone.
    pub fn has_removed(&self, places: &[usize]) -> bool {
        places.iter().filter_map(|&at| self.devices.get(at)).any(|device| device.is_removed)
    }

    /// An instance whose GPU answers was not lost: that GPU was divided otherwise.
    fn lose(&mut self, at: usize, ts: TimeNs) {
        let is_removed = self.is_of_a_gpu_that_answers(at);
        let device = &mut self.devices[at];
        device.is_removed = is_removed;
        device.lose(ts);
        let text = match is_removed {
            true => "The instance is gone: its GPU was divided otherwise, or MIG was switched off",
            false => "The GPU was lost: it does not answer the driver",
        };
        let event = Event { ts, device: device.info.id.clone(), text: text.to_owned(), is_alarm: !is_removed };
        self.report(event);
    }

    fn is_of_a_gpu_that_answers(&self, at: usize) -> bool {
        let DeviceHistory { driver, info, .. } = &self.devices[at];
        let is_it = |gpu: &str, other: &DeviceHistory| {
            other.driver == *driver && other.info.id == gpu && other.lost_since.is_none()
        };
        info.gpu().is_some_and(|gpu| self.devices.iter().any(|other| is_it(gpu, other)))
    }

    /// Takes over what a driver reported of the device at this place.
    pub fn report_of(&mut self, at: usize, event: Event) {
        if let Some(device) = self.devices.get_mut(at).filter(|_| event.is_alarm) {
            device.error = Some(event.clone());
        }
        self.report(event);
    }

    /// Takes over what was read of the device at this place.
    pub fn apply(&mut self, at: usize, sample: Sample) {
        self.revision += 1;
        let (ts, is_lost) = (sample.ts, sample.is_lost());
        let Some(device) = self.devices.get_mut(at) else { return };
        if device.is_removed {
            return;
        }
        if is_lost {
            if device.lost_since.is_none() {
                self.lose(at, ts);
            }
            return;
        }
        // Only the fast readings say that it is back; a slow one may have begun before it was lost.
        if device.lost_since.is_some() {
            if sample.get(Metric::Utilization).is_none() {
                return;
            }
            device.lost_since = None;
            let event =
                Event { ts, device: device.info.id.clone(), text: "The GPU is back".to_owned(), is_alarm: false };
            device.apply(sample);
            self.report(event);
            return;
        }
        device.apply(sample);
        let mut alarms = std::mem::take(&mut device.alarms);
        let events = super::alarm::check(&self.alarms, &mut alarms, device, ts);
        device.alarms = alarms;
        events.into_iter().for_each(|event| self.report(event));
    }

    /// The alarms that ring for a device.
    pub fn ringing(&self, device: &DeviceHistory) -> Vec<Alarm> {
        let is_ringing = |alarm: &&Alarm| device.alarms.iter().any(|state| state.is_ringing(alarm));
        self.alarms.iter().filter(is_ringing).copied().collect()
    }

    pub fn report(&mut self, event: Event) {
        self.revision += 1;
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Counts one round of readings.
    pub fn spend(&mut self, pace: Pace, cpu: Duration, wall: Duration) {
        let cost = &mut self.costs[pace as usize];
        cost.n_ticks += 1;
        cost.cpu += cpu;
        cost.wall += wall;
        cost.longest = cost.longest.max(wall);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(uuid: &str) -> DeviceInfo {
        DeviceInfo { id: "0".to_owned(), name: "H100".to_owned(), uuid: uuid.to_owned(), facts: Vec::new() }
    }

    fn sample(ts: TimeNs, utilization: Result<f64, Absent>) -> Sample {
        let mut sample = Sample::at(ts);
        sample.set(Metric::Utilization, utilization);
        sample
    }

    #[test]
    fn rings_are_bounded_and_statistics_are_of_everything() {
        let mut store = Store::new(["NVIDIA"].into_iter());
        assert_eq!(store.adopt("NVIDIA", &[info("a")]), [0]);
        let n = MAX_POINTS as i64 + 100;
        (0..n).for_each(|i| store.apply(0, sample(i, Ok(i as f64))));
        let device = &store.devices[0];
        assert_eq!(device.points(Metric::Utilization).len(), MAX_POINTS);
        assert_eq!(device.points(Metric::Utilization)[0].ts, 100);
        let stats = device.stats(Metric::Utilization).unwrap();
        assert_eq!((stats.n, stats.min, stats.max, stats.first), (n as u64, 0.0, (n - 1) as f64, 0.0));
        assert!((stats.mean() - (n - 1) as f64 / 2.0).abs() < 1e-9);
        assert!(!device.has(Metric::Power) && device.latest(Metric::Power).is_none());
    }

    #[test]
    fn no_value_is_made_up_for_a_time_in_which_a_metric_could_not_be_read() {
        let mut store = Store::new(["NVIDIA"].into_iter());
        store.adopt("NVIDIA", &[info("a")]);
        let outcomes =
            [Ok(1.0), Err(Absent::NoDataYet), Ok(2.0), Err(Absent::NotSupported), Err(Absent::Failed), Ok(3.0)];
        for (ts, outcome) in (0..).zip(outcomes) {
            store.apply(0, sample(ts, outcome));
        }
        let points = store.devices[0].points(Metric::Utilization).iter();
        let points: Vec<_> = points.map(|point| (point.ts, point.value.is_nan())).collect();
        assert_eq!(points, [(0, false), (2, false), (3, true), (5, false)]);
    }

    #[test]
    fn a_lost_device_comes_back_as_the_same() {
        let mut store = Store::new(["NVIDIA"].into_iter());
        store.adopt("NVIDIA", &[info("a"), info("b")]);
        store.apply(0, sample(10, Ok(50.0)));
        store.apply(0, sample(20, Err(Absent::Lost)));
        store.apply(0, sample(21, Err(Absent::Lost)));
        assert_eq!(store.devices[0].lost_since, Some(20));
        assert_eq!(store.devices[0].latest(Metric::Utilization), Some((20, Err(Absent::Lost))));
        // A reading of links that began before does not count.
        store.apply(0, Sample::at(25));
        assert!(store.has_lost("NVIDIA"));
        assert_eq!(store.adopt("NVIDIA", &[info("b")]), [1]);
        store.lose_others("NVIDIA", &[1], 27);
        assert_eq!(store.devices[0].lost_since, Some(20), "it was lost already");
        assert_eq!(store.adopt("NVIDIA", &[info("a"), info("b")]), [0, 1]);
        store.apply(0, sample(30, Ok(60.0)));
        assert!(!store.has_lost("NVIDIA"));
        let values: Vec<_> = store.devices[0].points(Metric::Utilization).iter().map(|point| point.value).collect();
        assert_eq!((values.len(), values[0], values[1].is_nan(), values[2]), (3, 50.0, true, 60.0));
        let texts: Vec<_> = store.events.iter().map(|event| (event.ts, event.is_alarm)).collect();
        assert_eq!(texts, [(20, true), (30, false)]);
    }

    #[test]
    fn an_instance_without_its_gpu_is_lost_and_without_its_place_is_gone() {
        let of = |id: &str| DeviceInfo { id: id.to_owned(), ..info(id) };
        let mut store = Store::new(["NVIDIA"].into_iter());
        assert_eq!(store.adopt("NVIDIA", &[of("0"), of("0:0")]), [0, 1]);
        (0..2).for_each(|at| store.apply(at, sample(10, Ok(50.0))));
        (0..2).for_each(|at| store.apply(at, sample(20, Err(Absent::Lost))));
        assert!(store.devices.iter().all(|device| device.lost_since == Some(20) && !device.is_removed));
        (0..2).for_each(|at| store.apply(at, sample(30, Ok(50.0))));
        store.apply(1, sample(40, Err(Absent::Lost)));
        store.apply(1, sample(41, Ok(50.0)));
        assert!(store.devices[1].is_removed && !store.has_lost("NVIDIA"), "nothing is looked for");
        assert_eq!(store.events.back().map(|event| (event.ts, event.is_alarm)), Some((40, false)));
        // It was only divided anew.
        store.adopt("NVIDIA", &[of("0"), of("0:0")]);
        store.apply(1, sample(50, Ok(60.0)));
        assert_eq!(store.devices[1].value(Metric::Utilization), Some(60.0));
        // Its GPU is lost, and comes back undivided.
        (0..2).for_each(|at| store.apply(at, sample(60, Err(Absent::Lost))));
        store.lose_others("NVIDIA", &[0], 61);
        assert!(store.devices[1].lost_since.is_some() && !store.devices[1].is_removed, "nothing answers yet");
        store.apply(0, sample(70, Ok(50.0)));
        store.lose_others("NVIDIA", &[0], 71);
        assert!(store.devices[1].is_removed && !store.has_lost("NVIDIA"));
    }

    #[test]
    fn a_device_keeps_its_number_when_another_is_gone() {
        let mut store = Store::new(["AMD"].into_iter());
        let numbered = |uuid, id: &str| DeviceInfo { id: id.to_owned(), ..info(uuid) };
        store.adopt("AMD", &[numbered("a", "0"), numbered("b", "1")]);
        store.adopt("AMD", &[numbered("b", "0")]);
        let ids: Vec<_> = store.devices.iter().map(|device| (&*device.info.uuid, &*device.info.id)).collect();
        assert_eq!(ids, [("a", "0"), ("b", "1")]);
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_points_in_order() {
        let mut store = Store::new(["NVIDIA"].into_iter());
        store.adopt("NVIDIA", &[info("a")]);
        [30, 10, 40].into_iter().for_each(|ts| store.apply(0, sample(ts, Ok(1.0))));
        let times: Vec<_> = store.devices[0].points(Metric::Utilization).iter().map(|point| point.ts).collect();
        assert_eq!(times, [30, 30, 40]);
    }
}
