//! A copy of the readings for the view, so that the reading threads never wait for a frame.

use super::lines::lines;
use crate::live::{
    Absent, Alarm, AlarmKind, DeviceHistory, Event, Metric, Missing, ProcessUse, Status, Store, Unit, nothing_to_watch,
    text, throttle,
};

/// The plots: title and metrics; where there are several, the second line is dashed and the third dotted.
const PLOTS: [(&str, &[(Metric, &str)]); 11] = [
    ("Utilization", &[(Metric::Utilization, "")]),
    ("Memory used", &[(Metric::MemoryUsed, "")]),
    ("Power", &[(Metric::Power, "")]),
    ("Temperature", &[(Metric::Temperature, ""), (Metric::MemoryTemperature, " memory")]),
    (
        "Activity",
        &[(Metric::SmActive, " SMs"), (Metric::TensorActive, " tensor cores"), (Metric::DramActive, " memory")],
    ),
    ("SM clock", &[(Metric::SmClock, "")]),
    ("PCIe", &[(Metric::PcieTx, " sent"), (Metric::PcieRx, " received")]),
    ("NVLink", &[(Metric::NvlinkTx, " sent"), (Metric::NvlinkRx, " received")]),
    ("Memory controller", &[(Metric::MemoryUtilization, "")]),
    ("Video engines", &[(Metric::Encoder, " encoder"), (Metric::Decoder, " decoder")]),
    ("Fan", &[(Metric::FanSpeed, "")]),
];

/// Events that are listed, the latest.
const MAX_EVENTS: usize = 50;

/// A copy of what was read.
#[derive(Debug)]
pub struct Shown {
    pub revision: u64,
    pub window_ns: i64,
    /// Why there is no device at all.
    pub missing: Option<Missing>,
    /// What cannot be read.
    pub notes: Vec<String>,
    pub devices: Vec<Device>,
    pub plots: Vec<PlotLines>,
    /// With the place of the device.
    pub processes: Vec<(usize, ProcessUse)>,
    /// The latest first.
    pub events: Vec<Event>,
}

/// A device as it is now.
#[derive(Debug)]
pub struct Device {
    pub id: String,
    pub name: String,
    pub uuid: String,
    pub facts: Vec<(&'static str, String)>,
    /// Whether it does not answer.
    pub is_lost: bool,
    /// Whether it was an instance of a GPU that is divided otherwise now.
    pub is_removed: bool,
    /// The last error that the driver reported of it.
    pub error: Option<Event>,
    /// In percent.
    pub utilization: Option<f64>,
    /// Bytes used, and in all.
    pub memory: Option<(f64, f64)>,
    /// Further values: title and text.
    pub values: Vec<(&'static str, String)>,
    /// Whether it tells why its clocks are held down; a part of a divided GPU does not.
    pub are_clocks_known: bool,
    /// Why the clocks are held down, if that costs speed.
    pub slowed_by: Option<String>,
    pub ringing: Vec<Alarm>,
    /// What it does not give: title and why.
    pub absent: Vec<(&'static str, &'static str)>,
}

/// What one plot shows.
#[derive(Debug)]
pub struct PlotLines {
    pub title: &'static str,
    pub help: &'static str,
    pub unit: Unit,
    pub lines: Vec<PlotLine>,
    /// What the axis includes.
    pub top: f64,
    /// Levels of alarms that are on.
    pub levels: Vec<f64>,
}

/// One metric of one device.
#[derive(Debug)]
pub struct PlotLine {
    /// The place of the device.
    pub device: usize,
    pub name: String,
    /// Of the plot's metrics.
    pub series: usize,
    /// What tells the metric from the others of the plot.
    pub metric: &'static str,
    /// Parted where nothing was read.
    pub parts: Vec<Vec<[f64; 2]>>,
    /// The last value; `None` if there is none now.
    pub now: Option<f64>,
}

impl Shown {
    pub fn new(store: &Store, window_ns: i64) -> Self {
        let latest = |device: &DeviceHistory| device.points(Metric::Utilization).back().map(|point| point.ts);
        let end = store.devices.iter().filter_map(latest).max().unwrap_or(0);
        let notes = store.systems.iter().filter_map(|system| match &system.status {
            Status::Watching(notes) => Some(notes.clone()),
            Status::Missing(missing) if store.devices.iter().any(|device| device.driver == system.driver) => {
                Some(vec![format!("{}. {}", missing.what, missing.remedy)])
            }
            _ => None,
        });
        let mut processes: Vec<(usize, ProcessUse)> = store
            .devices
            .iter()
            .enumerate()
            .flat_map(|(i, device)| device.processes.iter().map(move |process| (i, process.clone())))
            .collect();
        processes.sort_by_key(|(_, process)| std::cmp::Reverse(process.memory));
        Self {
            revision: store.revision,
            window_ns,
            missing: nothing_to_watch(store),
            notes: notes.flatten().collect(),
            devices: store.devices.iter().map(|device| Device::new(device, store.ringing(device))).collect(),
            plots: PLOTS.iter().filter_map(|plot| PlotLines::new(plot, store, end, window_ns)).collect(),
            processes,
            events: store.events.iter().rev().take(MAX_EVENTS).cloned().collect(),
        }
    }
}

impl Device {
    fn new(device: &DeviceHistory, ringing: Vec<Alarm>) -> Self {
        let reasons = device.value(Metric::ThrottleReasons).map(|bits| bits as u64);
        let slowed_by = reasons.filter(|&bits| throttle::is_slowed(bits));
        let memory = device.value(Metric::MemoryUsed).zip(device.value(Metric::MemoryTotal));
        let absent = Metric::ALL.iter().filter_map(|&metric| match device.latest(metric) {
            Some((_, Err(why))) if why != Absent::Lost && why != Absent::NoDataYet => {
                Some((metric.spec().title, why.sentence()))
            }
            _ => None,
        });
        Self {
            id: device.info.id.clone(),
            name: device.info.name.clone(),
            uuid: device.info.uuid.clone(),
            facts: device.info.facts.clone(),
            is_lost: device.lost_since.is_some(),
            is_removed: device.is_removed,
            error: device.error.clone(),
            utilization: device.value(Metric::Utilization),
            memory,
            values: values(device),
            are_clocks_known: reasons.is_some(),
            slowed_by: slowed_by.map(|bits| throttle::names(bits).join(", ")),
            ringing,
            absent: absent.collect(),
        }
    }
}

/// The values of a card, those that there are.
fn values(device: &DeviceHistory) -> Vec<(&'static str, String)> {
    let of = |metric: Metric| Some(text(metric.spec().unit, device.value(metric)?));
    let power = of(Metric::Power).map(|power| match of(Metric::PowerLimit) {
        Some(limit) => format!("{power} of {limit}"),
        None => power,
    });
    let drawn = device.stats(Metric::Energy).map(|stats| text(Unit::Joules, stats.last - stats.first));
    let link = device.value(Metric::PcieGeneration).zip(device.value(Metric::PcieWidth));
    let found = [
        ("Power", power),
        ("Energy since start", drawn.filter(|_| device.lost_since.is_none())),
        ("Temperature", of(Metric::Temperature)),
        ("SM clock", of(Metric::SmClock)),
        ("Memory clock", of(Metric::MemoryClock)),
        ("State", of(Metric::PerformanceState)),
        ("PCIe", link.map(|(generation, lanes)| format!("gen {generation:.0}, {lanes:.0} lanes"))),
        ("NVLinks", of(Metric::NvlinksActive).filter(|n| n != "0")),
        ("ECC corrected", of(Metric::EccCorrected)),
        ("ECC uncorrected", of(Metric::EccUncorrected)),
        ("Fan", of(Metric::FanSpeed)),
    ];
    found.into_iter().filter_map(|(title, value)| Some((title, value?))).collect()
}

impl PlotLines {
    fn new(plot: &(&'static str, &[(Metric, &'static str)]), store: &Store, end: i64, window_ns: i64) -> Option<Self> {
        let (title, metrics) = *plot;
        let spec = metrics[0].0.spec();
        let mut all = Vec::new();
        for (i, device) in store.devices.iter().enumerate() {
            for (series, &(metric, suffix)) in metrics.iter().enumerate() {
                let parts = lines(device.points(metric), end, window_ns);
                if !parts.is_empty() {
                    let name = format!("GPU {}{suffix}", device.info.id);
                    let (now, metric) = (device.value(metric), suffix.trim_start());
                    all.push(PlotLine { device: i, name, series, metric, parts, now });
                }
            }
        }
        if all.is_empty() {
            return None;
        }
        let most = |metric| store.devices.iter().filter_map(|device| device.value(metric)).fold(0.0, f64::max);
        let (top, alarm, whole) = match metrics[0].0 {
            Metric::MemoryUsed => {
                (most(Metric::MemoryTotal), Some(AlarmKind::Memory), most(Metric::MemoryTotal) / 100.0)
            }
            Metric::Power => (most(Metric::PowerLimit), Some(AlarmKind::Power), most(Metric::PowerLimit) / 100.0),
            Metric::Temperature => (60.0, Some(AlarmKind::Temperature), 1.0),
            Metric::Utilization => (100.0, Some(AlarmKind::LowUtilization), 1.0),
            _ if spec.unit == Unit::Percent => (100.0, None, 1.0),
            _ => (1.0, None, 1.0),
        };
        let levels = store.alarms.iter().filter(|of| of.is_on && Some(of.kind) == alarm).map(|of| of.level * whole);
        let levels = levels.filter(|level| *level > 0.0).collect();
        Some(Self { title, help: spec.help, unit: spec.unit, lines: all, top, levels })
    }
}
