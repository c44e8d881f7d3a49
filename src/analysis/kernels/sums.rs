//! What the launches and the names of kernels say, summed over some of them.

use std::collections::BTreeSet;

use crate::analysis::occupancy::{self, Limits};
use crate::analysis::tensor_cores::uses_tensor_cores;
use crate::analysis::totals::Instance;
use crate::model::{DurNs, Launch, StringId, Trace};

/// Theoretical occupancy of a launch, and the share of the SMs that its blocks can fill.
type UseOfChip = (Option<f64>, Option<f64>);

/// What is known of a device.
pub struct Chip {
    pub device: u32,
    limits: Option<Limits>,
    n_sms: Option<u32>,
}

impl Chip {
    fn use_of(&self, launch: &Launch) -> UseOfChip {
        let occupancy = self.limits.as_ref().and_then(|limits| occupancy::theoretical(limits, launch));
        let blocks = launch.n_blocks();
        let n_sms = self.n_sms.filter(|&n| n > 0 && blocks > 0);
        (occupancy, n_sms.map(|n| (blocks as f64 / f64::from(n)).min(1.0)))
    }
}

/// The devices of a trace of which something is known.
pub fn chips(trace: &Trace) -> Vec<Chip> {
    let worked: BTreeSet<u32> = trace.processes.iter().filter_map(|process| process.device).collect();
    let chip = |device| {
        let info = trace.device_of_work(device)?;
        Some(Chip { device, limits: Limits::of(info), n_sms: info.n_sms })
    };
    worked.into_iter().filter_map(chip).collect()
}

/// What the launches and the names of some kernels say.
#[derive(Default)]
pub struct Sums {
    pub within_ns: DurNs,
    pub tensor: TensorTime,
    pub launch: Option<Launch>,
    pub has_many_shapes: bool,
    pub occupancy: Mean,
    pub recorded_percent: Mean,
    pub filled: Mean,
    /// Of the last launch: most kernels are launched repeatedly with the same parameters.
    last: Option<(u32, u32, UseOfChip)>,
}

impl Sums {
    /// * `dur`: its time within the scope's range.
    pub fn add<'a>(&mut self, trace: &Trace, instance: Instance, dur: DurNs, chip: impl Fn() -> Option<&'a Chip>) {
        self.within_ns = self.within_ns.saturating_add(dur);
        self.tensor.add(trace, instance, dur);
        let id = trace.facts.launches.id(instance.slice);
        let Some(this) = trace.facts.launches.value(id) else { return };
        let (occupancy, fill) = match self.last {
            Some((other, same, known)) if (other, same) == (instance.trace, id) => known,
            _ => {
                let shape = Launch { recorded_occupancy: None, ..*this };
                self.has_many_shapes |= self.launch.is_some_and(|launch| launch != shape);
                self.launch = Some(shape);
                chip().map_or((None, None), |chip| chip.use_of(&shape))
            }
        };
        self.last = Some((instance.trace, id, (occupancy, fill)));
        self.occupancy.add(occupancy, dur);
        self.filled.add(fill, dur);
        self.recorded_percent.add(this.recorded_occupancy.map(f64::from), dur);
    }
}

/// Time by what names say of tensor cores.
#[derive(Default)]
pub struct TensorTime {
    pub uses_ns: DurNs,
    pub unknown_ns: DurNs,
    /// Trace and name of the last call, and what it says: most have the same.
    pub last: Option<(u32, StringId, Option<bool>)>,
    pub differs: bool,
}

impl TensorTime {
    fn add(&mut self, trace: &Trace, instance: Instance, dur: DurNs) {
        let name = trace.slices.name[instance.slice.idx()];
        let uses = match self.last {
            Some((of, same, uses)) if (of, same) == (instance.trace, name) => uses,
            _ => uses_tensor_cores(trace.strings.get(name)),
        };
        self.differs |= self.last.is_some_and(|(.., before)| before != uses);
        self.last = Some((instance.trace, name, uses));
        let of = match uses {
            Some(true) => &mut self.uses_ns,
            None => &mut self.unknown_ns,
            Some(false) => return,
        };
        *of = of.saturating_add(dur);
    }
}

/// A mean weighted by duration.
#[derive(Default)]
pub struct Mean {
    weighted: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>, dur: DurNs) {
        if let Some(value) = value {
            // Kernels of zero duration count if there are no others.
            let weight = (dur as f64).max(1e-9);
            self.weighted += value * weight;
            self.weight += weight;
        }
    }

    pub fn get(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.weighted / self.weight)
    }
}
