//! Counters: GPU and network metrics, and memory allocated by CUDA.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use crate::model::{CounterUnit, TimeNs};

use super::assemble::Assembly;
use super::chunk::{Chunk, CounterKey, MemoryUsage, system_ids};
use super::device::memory as memory_name;
use super::info::{Value, rows};
use super::tally::Reason;
use super::tracks::ProcessKey;

/// Samples of all counters.
#[derive(Debug, Default)]
pub struct Samples {
    by_counter: BTreeMap<CounterKey, Vec<(TimeNs, f64)>>,
    /// By the type of the row and the name in it.
    by_name: BTreeMap<(i64, String), Vec<(TimeNs, f64)>>,
}

impl Samples {
    pub fn take(&mut self, chunk: &mut Chunk) {
        let mut own: Vec<Vec<(TimeNs, f64)>> = vec![Vec::new(); chunk.counters.items.len()];
        for (counter, ts, value) in chunk.samples.drain(..) {
            own[counter as usize].push((ts, value));
        }
        for (&key, mut samples) in chunk.counters.items.iter().zip(own) {
            self.by_counter.entry(key).or_default().append(&mut samples);
        }
        let mut own: Vec<Vec<(TimeNs, f64)>> = vec![Vec::new(); chunk.named_counters.items.len()];
        for (counter, ts, value) in chunk.named_samples.drain(..) {
            own[counter as usize].push((ts, value));
        }
        for (&(type_id, name), mut samples) in chunk.named_counters.items.iter().zip(own) {
            let key = (type_id, chunk.texts.get(name).to_owned());
            self.by_name.entry(key).or_default().append(&mut samples);
        }
    }
}

/// Creates a counter for each metric, with the name in the file.
pub fn metrics(assembly: &mut Assembly<'_>, samples: Samples) {
    let (connection, catalog) = (assembly.connection, assembly.catalog);
    let mut names: HashMap<CounterKey, String> = HashMap::new();
    for row in rows(connection, catalog, "TARGET_INFO_GPU_METRICS", &["typeId", "metricId", "metricName"]) {
        if let [Value::Int(type_id), Value::Int(metric_id), Value::Text(name)] = &row[..] {
            let key = CounterKey::GpuMetric { type_id: *type_id, metric_id: *metric_id };
            names.insert(key, name.clone());
        }
    }
    let network: HashMap<(i64, i64), String> =
        rows(connection, catalog, "TARGET_INFO_NETWORK_METRICS", &["metricsListId", "metricsIdx", "name"])
            .into_iter()
            .filter_map(|row| Some(((row[0].int()?, row[1].int()?), row[2].text().to_owned())))
            .collect();
    let adapters: HashMap<i64, i64> = rows(connection, catalog, "NIC_ID_MAP", &["globalId", "nicId"])
        .into_iter()
        .filter_map(|row| Some((row[0].int()?, row[1].int()?)))
        .collect();
    for ((type_id, name), samples) in samples.by_name {
        let owner = assembly.names.device(0, type_id & 0xff);
        gpu_metric(assembly, owner, &name, samples);
    }
    for (key, samples) in samples.by_counter {
        match key {
            CounterKey::GpuMetric { type_id, metric_id } => {
                let name = names.get(&key).cloned().unwrap_or_else(|| format!("Metric {metric_id}"));
                // The lowest byte of a type's id is the GPU's number.
                let owner = assembly.names.device(0, type_id & 0xff);
                gpu_metric(assembly, owner, &name, samples);
            }
            CounterKey::Network { adapter, list, index } => {
                let name = network.get(&(list, index)).cloned().unwrap_or_else(|| format!("Network metric {index}"));
                let adapter = adapters.get(&adapter).copied().unwrap_or(adapter);
                let track = assembly.add_counter_track(ProcessKey::Recorder, format!("Adapter {adapter}: {name}"));
                assembly.add_counter(track, CounterUnit::Plain, samples);
            }
        }
    }
}

/// One metric of one GPU. Shares beyond 100 % are sampling errors.
fn gpu_metric(assembly: &mut Assembly<'_>, owner: ProcessKey, name: &str, mut samples: Vec<(TimeNs, f64)>) {
    let is_share = name.contains('%');
    let unit = if is_share { CounterUnit::Percent } else { CounterUnit::Plain };
    let n_before = samples.len();
    samples.retain(|&(_, value)| !is_share || value <= 100.0);
    assembly.take_back("GPU_METRICS", Reason::MetricOutOfRange, (n_before - samples.len()) as u64);
    if !samples.is_empty() {
        let title = name.replace(" [Throughput %]", "");
        let track = assembly.add_counter_track(owner, title);
        assembly.add_counter(track, unit, samples);
    }
}

/// Bytes of one device and kind.
#[derive(Default)]
struct Curve {
    /// Bytes allocated before the recording.
    before: i64,
    /// The sum of changes since.
    change: i64,
    /// The sum after each event.
    samples: Vec<(TimeNs, i64)>,
}

/// Bytes allocated by CUDA, by device and kind of memory. As in the replayed history, a block freed without an
/// allocation existed from the start, and a second free is ignored.
///
/// * `events`: sorted by time.
pub fn memory(assembly: &mut Assembly<'_>, events: &[MemoryUsage]) {
    // The size of the block at each address; 0 once it is freed.
    let mut live: HashMap<(i64, i64), i64> = HashMap::new();
    let mut curves: BTreeMap<(i64, i64, i64), Curve> = BTreeMap::new();
    for event in events {
        let curve = curves.entry((event.process, event.device, event.kind)).or_default();
        let bytes = event.bytes.max(0);
        let place = live.entry((event.process, event.address));
        let is_from_before = event.is_free && matches!(place, Entry::Vacant(_));
        let held = place.or_default();
        if is_from_before {
            curve.before = curve.before.saturating_add(bytes);
            *held = bytes;
        }
        let new = if event.is_free { 0 } else { bytes };
        curve.change = curve.change.saturating_add(new).saturating_sub(std::mem::replace(held, new));
        curve.samples.push((event.ts, curve.change));
    }
    let n_processes = {
        let mut processes: Vec<i64> = curves.keys().map(|key| key.0).collect();
        processes.dedup();
        processes.len()
    };
    for ((process, device, kind), Curve { before, samples, .. }) in curves {
        let samples = samples.into_iter().map(|(ts, change)| (ts, before.saturating_add(change) as f64)).collect();
        let owner = assembly.names.gpu(process, device);
        let mut name = format!("{} memory", memory_name(kind).unwrap_or("CUDA"));
        if n_processes > 1 {
            name = format!("{name}, process {}", system_ids(process).0);
        }
        let track = assembly.add_counter_track(owner, name);
        assembly.add_counter(track, CounterUnit::Bytes, samples);
    }
}
