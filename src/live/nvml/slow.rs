//! Readings that take long or need two samples: links, and the activity of the multiprocessors.

use std::time::Instant;

use nvml_wrapper::enum_wrappers::device::{PcieUtilCounter, RetirementCause};
use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::{Device, GpmSample, Nvml};

use super::fields::{Field, read_field};
use super::value;
use crate::live::metric::Metric;
use crate::live::source::{Absent, Sample, Sampler};

/// The most links that any GPU has.
const MAX_LINKS: u32 = 18;

/// The activity that recent GPUs measure, with the metric that it becomes.
const ACTIVITY: [(GpmMetricId, Metric); 4] = [
    (GpmMetricId::SmUtil, Metric::SmActive),
    (GpmMetricId::SmOccupancy, Metric::SmOccupancy),
    (GpmMetricId::AnyTensorUtil, Metric::TensorActive),
    (GpmMetricId::DramBwUtil, Metric::DramActive),
];

pub struct Slow<'a> {
    nvml: &'a Nvml,
    devices: Vec<(Result<Device<'a>, Absent>, Before<'a>)>,
}

/// What was read before.
#[derive(Default)]
struct Before<'a> {
    activity: Option<GpmSample<'a>>,
    /// When the bytes of `NVLink`s were read, and how many were sent and received by then.
    links: Option<(Instant, [f64; 2])>,
}

impl<'a> Slow<'a> {
    pub fn new(nvml: &'a Nvml, devices: Vec<Result<Device<'a>, Absent>>) -> Self {
        Self { nvml, devices: devices.into_iter().map(|device| (device, Before::default())).collect() }
    }
}

impl Sampler for Slow<'_> {
    fn read(&mut self, index: usize, sample: &mut Sample) {
        let Some((Ok(device), before)) = self.devices.get_mut(index) else { return };
        let throughput = |of| value(device.pcie_throughput(of)).map(|kb| f64::from(kb) * 1e3);
        sample.set(Metric::PcieTx, throughput(PcieUtilCounter::Send));
        sample.set(Metric::PcieRx, throughput(PcieUtilCounter::Receive));
        sample.set(Metric::PcieGeneration, value(device.current_pcie_link_gen()).map(f64::from));
        sample.set(Metric::PcieWidth, value(device.current_pcie_link_width()).map(f64::from));
        sample.set(Metric::PcieReplays, value(device.pcie_replay_counter()).map(f64::from));
        read_links(device, before, sample);
        read_activity(self.nvml, device, before, sample);
        let causes = [RetirementCause::MultipleSingleBitEccErrors, RetirementCause::DoubleBitEccError];
        let retired: Result<usize, NvmlError> =
            causes.into_iter().map(|cause| device.retired_pages(cause).map(|pages| pages.len())).sum();
        sample.set(Metric::RetiredPages, value(retired).map(|n| n as f64));
        let rows = [Field::RemappedCorrectable, Field::RemappedUncorrectable];
        sample.set(Metric::RemappedRows, rows.into_iter().map(|field| read_field(device, field)).sum());
        sample.set(Metric::Mig, value(device.mig_mode()).map(|mode| f64::from(mode.current)));
    }
}

fn read_links<'a>(device: &Device<'a>, before: &mut Before<'a>, sample: &mut Sample) {
    let links: Vec<_> = (0..MAX_LINKS).map(|link| device.link_wrapper_for(link)).collect();
    let states: Vec<_> = links.iter().map(|link| link.is_active()).take_while(Result::is_ok).flatten().collect();
    let n_active = states.iter().filter(|&&is_active| is_active).count();
    let active = match states.is_empty() {
        true => value(device.link_wrapper_for(0).is_active()).map(|_| 0.0),
        false => Ok(n_active as f64),
    };
    sample.set(Metric::NvlinksActive, active);
    if n_active == 0 {
        return [Metric::NvlinkTx, Metric::NvlinkRx, Metric::NvlinkErrors]
            .into_iter()
            .for_each(|metric| sample.set(metric, Err(active.err().unwrap_or(Absent::NotSupported))));
    }
    let counters = [ErrorCounter::DlReplay, ErrorCounter::DlRecovery, ErrorCounter::DlCrcFlit];
    let of_link = |link: &nvml_wrapper::NvLink<'_, '_>| {
        counters.iter().map(|&counter| link.error_counter(counter)).sum::<Result<u64, _>>()
    };
    let of_active = links.iter().zip(&states).filter(|(_, is_active)| **is_active);
    let errors: Result<u64, NvmlError> = of_active.map(|(link, _)| of_link(link)).sum();
    sample.set(Metric::NvlinkErrors, value(errors).map(|n| n as f64));
    let read = Instant::now();
    match (read_field(device, Field::NvlinkTx), read_field(device, Field::NvlinkRx)) {
        (Ok(sent), Ok(received)) => {
            let totals = [sent, received].map(|kib| kib * 1024.0);
            let last = before.links.replace((read, totals));
            for (i, metric) in [Metric::NvlinkTx, Metric::NvlinkRx].into_iter().enumerate() {
                let rate = last.map(|(then, old)| {
                    (totals[i] - old[i]).max(0.0) / read.duration_since(then).as_secs_f64().max(1e-3)
                });
                sample.set(metric, rate.ok_or(Absent::NoDataYet));
            }
        }
        (sent, received) => {
            sample.set(Metric::NvlinkTx, sent.and(Err(Absent::Failed)));
            sample.set(Metric::NvlinkRx, received.and(Err(Absent::Failed)));
        }
    }
}

/// Activity since the reading before, which Hopper and later GPUs measure themselves.
fn read_activity<'a>(nvml: &'a Nvml, device: &Device<'a>, before: &mut Before<'a>, sample: &mut Sample) {
    let set_all = |sample: &mut Sample, why| ACTIVITY.into_iter().for_each(|(_, metric)| sample.set(metric, Err(why)));
    match value(device.gpm_support()) {
        Ok(true) => {}
        Ok(false) => return set_all(sample, Absent::NotSupported),
        Err(why) => return set_all(sample, why),
    }
    let now = match value(device.gpm_sample()) {
        Ok(now) => now,
        Err(why) => return set_all(sample, why),
    };
    let Some(last) = before.activity.take() else {
        before.activity = Some(now);
        return set_all(sample, Absent::NoDataYet);
    };
    match value(gpm_metrics_get(nvml, &last, &now, &ACTIVITY.map(|(id, _)| id))) {
        Ok(found) => {
            for (found, (_, metric)) in found.into_iter().zip(ACTIVITY) {
                sample.set(metric, value(found).map(|found| found.value));
            }
        }
        Err(why) => set_all(sample, why),
    }
    before.activity = Some(now);
}
