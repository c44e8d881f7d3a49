//! Summary of all readings as text.

use super::clock::time_of_day;
use super::history::{DeviceHistory, Status, Store};
use super::metric::{Metric, Pace, Unit, text};
use super::source::Missing;

/// Metrics of the summary.
const SHOWN: [Metric; 12] = [
    Metric::Utilization,
    Metric::SmActive,
    Metric::TensorActive,
    Metric::MemoryUsed,
    Metric::MemoryUtilization,
    Metric::Power,
    Metric::Temperature,
    Metric::SmClock,
    Metric::PcieTx,
    Metric::PcieRx,
    Metric::NvlinkTx,
    Metric::NvlinkRx,
];

/// Mean, least and most of what matters of each device, its energy, and what happened; or why nothing was seen.
pub fn summary(store: &Store) -> String {
    let mut out = String::new();
    for device in &store.devices {
        out.push_str(&of_device(device));
    }
    let notes = store.systems.iter().filter_map(|system| match &system.status {
        Status::Watching(notes) => Some(notes),
        _ => None,
    });
    notes.flatten().for_each(|note| out.push_str(&format!("{note}\n")));
    if let Some(missing) = nothing_to_watch(store) {
        out.push_str(&format!("{}\n{}\n", missing.what, missing.remedy));
    }
    if !store.events.is_empty() {
        out.push_str("What happened\n");
    }
    for event in &store.events {
        let of = if event.device.is_empty() { String::new() } else { format!("GPU {}: ", event.device) };
        out.push_str(&format!("  {}  {of}{}\n", time_of_day(event.ts), event.text));
    }
    out
}

fn of_device(device: &DeviceHistory) -> String {
    let mut out = format!("GPU {}  {}", device.info.id, device.info.name);
    if device.lost_since.is_some() {
        out.push_str("  (lost)");
    }
    if device.is_removed {
        out.push_str("  (no longer there)");
    }
    out.push_str(&format!("\n  {:<22}{:>12}{:>12}{:>12}\n", "", "mean", "least", "most"));
    for metric in SHOWN {
        let Some(stats) = device.stats(metric) else { continue };
        let unit = metric.spec().unit;
        let [mean, least, most] = [stats.mean(), stats.min, stats.max].map(|value| text(unit, value));
        out.push_str(&format!("  {:<22}{mean:>12}{least:>12}{most:>12}\n", metric.spec().title));
    }
    if let Some(stats) = device.stats(Metric::MemoryTotal) {
        out.push_str(&format!("  {:<22}{:>12}\n", "Memory total", text(Unit::Bytes, stats.last)));
    }
    if let Some(stats) = device.stats(Metric::Energy) {
        out.push_str(&format!("  {:<22}{:>12}\n", "Energy drawn", text(Unit::Joules, stats.last - stats.first)));
    }
    out
}

/// Why no device can be watched; `None` if one can, or if that is not known yet.
pub fn nothing_to_watch(store: &Store) -> Option<Missing> {
    if !store.devices.is_empty() {
        return None;
    }
    let missing = |system: &super::System| match &system.status {
        Status::Missing(missing) => Some(missing.clone()),
        _ => None,
    };
    let all: Vec<Missing> = store.systems.iter().map(missing).collect::<Option<_>>()?;
    let mut what: Vec<String> = all.iter().map(|missing| missing.what.clone()).collect();
    // The rest continue the sentence.
    for rest in what.iter_mut().skip(1) {
        if let Some(first) = rest.get(..1) {
            *rest = format!("{}{}", first.to_lowercase(), &rest[1..]);
        }
    }
    Some(Missing { what: what.join(", and "), remedy: all.first()?.remedy.clone() })
}

/// Every metric of every device with its value or why there is none, and what the readings cost.
pub fn every_metric(store: &Store) -> String {
    let mut out = summary(store);
    for device in &store.devices {
        out.push_str(&format!("\nGPU {}  {}  {}\n", device.info.id, device.info.name, device.info.uuid));
        for (what, value) in &device.info.facts {
            out.push_str(&format!("  {what:<28}{value}\n"));
        }
        for &metric in Metric::ALL {
            let spec = metric.spec();
            let value = match device.latest(metric) {
                Some((_, Ok(value))) => text(spec.unit, value),
                Some((_, Err(why))) => why.sentence().to_owned(),
                None => super::Absent::NotRead.sentence().to_owned(),
            };
            out.push_str(&format!("  {:<28}{value}\n", spec.title));
        }
        for process in &device.processes {
            let memory = process.memory.map_or("not supported".to_owned(), |bytes| text(Unit::Bytes, bytes as f64));
            let sm = process.sm.map_or(String::new(), |sm| format!(", SM {sm} %"));
            out.push_str(&format!("  Process {:<20}{memory}{sm}  {}\n", process.pid, process.name));
        }
    }
    for (pace, what) in
        [(Pace::Fast, "Fast readings"), (Pace::Second, "Readings of each second"), (Pace::Slow, "Slow readings")]
    {
        let cost = store.cost(pace);
        if cost.n_ticks == 0 {
            continue;
        }
        let each = |total: std::time::Duration| total.as_secs_f64() * 1e3 / cost.n_ticks as f64;
        out.push_str(&format!(
            "{what}: {} rounds of all GPUs, {:.3} ms of processor and {:.3} ms in all each, the longest {:.3} ms\n",
            cost.n_ticks,
            each(cost.cpu),
            each(cost.wall),
            cost.longest.as_secs_f64() * 1e3,
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::source::{Absent, DeviceInfo, Sample};

    #[test]
    fn a_summary_has_mean_least_and_most() {
        let mut store = Store::new(["NVIDIA"].into_iter());
        store.adopt("NVIDIA", &[DeviceInfo { id: "0".to_owned(), name: "H100".to_owned(), ..DeviceInfo::default() }]);
        for (ts, utilization, energy) in [(1, 20.0, 100.0), (2, 60.0, 350.0)] {
            let mut sample = Sample::at(ts);
            sample.set(Metric::Utilization, Ok(utilization));
            sample.set(Metric::Energy, Ok(energy));
            sample.set(Metric::FanSpeed, Err(Absent::NotSupported));
            store.apply(0, sample);
        }
        let text = summary(&store);
        let line = text.lines().find(|line| line.contains("Utilization")).unwrap();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["Utilization", "40", "%", "20", "%", "60", "%"]);
        assert!(text.contains("250 J") && !text.contains("Fan"), "{text}");
        let all = every_metric(&store);
        assert!(all.lines().any(|line| line.starts_with("  Fan ") && line.ends_with("not supported")), "{all}");
    }

    #[test]
    fn a_machine_without_gpus_gets_one_sentence() {
        let mut store = Store::new(["NVIDIA", "AMD"].into_iter());
        assert_eq!(nothing_to_watch(&store), None, "still starting");
        let missing = |what: &str| Status::Missing(Missing { what: what.to_owned(), remedy: "Do".to_owned() });
        store.set_status(0, missing("The library is not installed"));
        store.set_status(1, missing("There is no AMD GPU"));
        let found = nothing_to_watch(&store).unwrap();
        assert_eq!(found.what, "The library is not installed, and there is no AMD GPU");
    }
}
