//! Alarms: thresholds set by the user.

use std::collections::VecDeque;

use super::history::{DeviceHistory, Point};
use super::metric::Metric;
use super::source::Event;
use crate::model::TimeNs;

/// The time over which utilization is averaged before it counts as low.
const LOW_FOR_NS: i64 = 10_000_000_000;

/// What an alarm looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmKind {
    /// Memory used, in percent of the total.
    Memory,
    /// In °C.
    Temperature,
    /// In percent of the limit.
    Power,
    /// The mean of ten seconds, in percent: rings below the level.
    LowUtilization,
}

impl AlarmKind {
    /// For the user, before the level.
    pub fn title(self) -> &'static str {
        match self {
            Self::Memory => "Memory used ≥",
            Self::Temperature => "Temperature ≥",
            Self::Power => "Power ≥",
            Self::LowUtilization => "Utilization over 10 s <",
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Self::Memory => "% of total",
            Self::Temperature => "°C",
            Self::Power => "% of limit",
            Self::LowUtilization => "%",
        }
    }
}

/// A threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alarm {
    pub kind: AlarmKind,
    pub level: f64,
    pub is_on: bool,
}

/// The alarms before the user changes them: nine tenths of the memory leave the headroom that guides ask for.
pub fn default_alarms() -> Vec<Alarm> {
    [
        (AlarmKind::Memory, 90.0, true),
        (AlarmKind::Temperature, 85.0, true),
        (AlarmKind::Power, 100.0, false),
        (AlarmKind::LowUtilization, 50.0, false),
    ]
    .map(|(kind, level, is_on)| Alarm { kind, level, is_on })
    .to_vec()
}

/// An alarm that rings for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmState(AlarmKind);

impl AlarmState {
    pub fn is_ringing(self, alarm: &Alarm) -> bool {
        self.0 == alarm.kind && alarm.is_on
    }
}

/// Lets alarms begin and end; returns what to report.
///
/// * `ringing`: those that ring for this device so far.
pub fn check(alarms: &[Alarm], ringing: &mut Vec<AlarmState>, device: &DeviceHistory, ts: TimeNs) -> Vec<Event> {
    let mut events = Vec::new();
    for alarm in alarms {
        let was_ringing = ringing.contains(&AlarmState(alarm.kind));
        let value = alarm.is_on.then(|| subject(alarm.kind, device, ts)).flatten();
        let Some(value) = value else {
            ringing.retain(|state| state.0 != alarm.kind);
            continue;
        };
        // A small distance back keeps a value at the threshold from ringing again and again.
        let slack = if was_ringing { alarm.level * 0.02 } else { 0.0 };
        let is_ringing = match alarm.kind {
            AlarmKind::LowUtilization => value < alarm.level + slack,
            _ => value >= alarm.level - slack,
        };
        if is_ringing == was_ringing {
            continue;
        }
        let (title, unit, level) = (alarm.kind.title(), alarm.kind.unit(), alarm.level);
        let text = match is_ringing {
            true => format!("{title} {level:.0} {unit}: now {value:.0} {unit}"),
            false => format!("Alarm over ({title} {level:.0} {unit}): now {value:.0} {unit}"),
        };
        match is_ringing {
            true => ringing.push(AlarmState(alarm.kind)),
            false => ringing.retain(|state| state.0 != alarm.kind),
        }
        events.push(Event { ts, device: device.info.id.clone(), text, is_alarm: is_ringing });
    }
    events
}

/// The figure that an alarm looks at; `None` where the device does not have it.
fn subject(kind: AlarmKind, device: &DeviceHistory, ts: TimeNs) -> Option<f64> {
    let share = |part, whole| Some(device.value(part)? / device.value(whole).filter(|&whole| whole > 0.0)? * 100.0);
    match kind {
        AlarmKind::Memory => share(Metric::MemoryUsed, Metric::MemoryTotal),
        AlarmKind::Temperature => device.value(Metric::Temperature),
        AlarmKind::Power => share(Metric::Power, Metric::PowerLimit),
        AlarmKind::LowUtilization => mean_of_last(device.points(Metric::Utilization), ts),
    }
}

/// The mean of the last ten seconds; `None` if less was recorded.
fn mean_of_last(points: &VecDeque<Point>, ts: TimeNs) -> Option<f64> {
    let since = ts.saturating_sub(LOW_FOR_NS);
    let first = points.partition_point(|point| point.ts < since);
    if first == 0 {
        return None;
    }
    let values = points.range(first..).map(|point| point.value).filter(|value| value.is_finite());
    let (n, sum) = values.fold((0_u64, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::history::Store;
    use crate::live::source::{DeviceInfo, Sample};

    fn store() -> Store {
        let mut store = Store::new(["NVIDIA"].into_iter());
        store.adopt("NVIDIA", &[DeviceInfo::default()]);
        store
    }

    fn apply(store: &mut Store, ts: TimeNs, values: &[(Metric, f64)]) {
        let mut sample = Sample::at(ts);
        values.iter().for_each(|&(metric, value)| sample.set(metric, Ok(value)));
        store.apply(0, sample);
    }

    #[test]
    fn an_alarm_rings_once_and_ends_below_its_threshold() {
        let mut store = store();
        for (ts, celsius) in [(1, 80.0), (2, 85.0), (3, 84.0), (4, 90.0), (5, 70.0)] {
            apply(&mut store, ts, &[(Metric::Temperature, celsius)]);
            assert_eq!(store.ringing(&store.devices[0]).len(), usize::from((2..5).contains(&ts)), "{ts}");
        }
        let found: Vec<_> = store.events.iter().map(|event| (event.ts, event.is_alarm)).collect();
        assert_eq!(found, [(2, true), (5, false)]);
        assert_eq!(store.events[0].text, "Temperature ≥ 85 °C: now 85 °C");
    }

    #[test]
    fn memory_is_judged_as_a_share_and_only_where_it_is_known() {
        let mut store = store();
        apply(&mut store, 1, &[(Metric::MemoryUsed, 95.0)]);
        assert!(store.events.is_empty());
        apply(&mut store, 2, &[(Metric::MemoryUsed, 95.0), (Metric::MemoryTotal, 100.0)]);
        assert_eq!(store.events.len(), 1);
    }

    #[test]
    fn utilization_is_low_only_after_ten_seconds() {
        let mut store = store();
        store.alarms.iter_mut().for_each(|alarm| alarm.is_on = alarm.kind == AlarmKind::LowUtilization);
        for second in 0..=12 {
            apply(&mut store, second * 1_000_000_000, &[(Metric::Utilization, 10.0)]);
        }
        let times: Vec<_> = store.events.iter().map(|event| event.ts / 1_000_000_000).collect();
        assert_eq!(times, [11]);
    }
}
