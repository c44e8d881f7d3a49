//! Time of two open traces beside each other.

use std::sync::Arc;

use super::findings::{RuleVerdicts, TracePhases};
use super::time::{BusyDevices, TraceSteps};
use super::{Analysis, Work};
use crate::analysis::busy::DeviceBusy;
use crate::analysis::compare::{Compared, Side, compare};
use crate::analysis::phases::Phases;
use crate::analysis::rules::{Thresholds, Verdicts, Window};
use crate::analysis::steps::Steps;
use crate::model::Trace;
use crate::session::OpenTrace;

/// The judged time of one trace beside that of another.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedTime {
    /// Indices of the traces: of that which is compared with, and of the other.
    pub pair: [usize; 2],
    /// Of each of the two.
    pub steps: [TraceSteps; 2],
    pub thresholds: Thresholds,
}

/// The devices of two traces beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedDevices {
    /// Each beside the one with its index; where time of one is judged in each, these two.
    pub devices: Vec<ComparedDevice>,
    /// Of how many devices, or hosts, time is judged in each trace.
    pub n_judged: [usize; 2],
    /// Whether it is that of devices.
    pub has_devices: [bool; 2],
}

impl ComparedDevices {
    /// Devices of each trace whose time is judged and that have no counterpart.
    pub fn n_alone(&self) -> [usize; 2] {
        // Two processes may use one device.
        self.n_judged.map(|n| n.saturating_sub(self.devices.len()))
    }
}

/// One device of each, or their hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedDevice {
    /// Index of the device of the trace that is compared.
    pub device: Option<u32>,
    pub compared: Compared,
}

impl Analysis for ComparedTime {
    type Of = [OpenTrace];
    type Output = ComparedDevices;
    const NAME: &'static str = "The comparison";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Self::Output> {
        let judged = |side: usize| {
            let open = of.get(self.pair[side])?;
            Judged::of(&open.trace, &self.steps[side], self.thresholds, work)
        };
        let (before, after) = (judged(0)?, judged(1)?);
        let windows = [&before, &after].map(|judged| &judged.verdicts.windows[..]);
        let one_each = windows.iter().all(|windows| windows.len() == 1);
        // Of a host all time would be idle.
        let has_devices = windows.map(|windows| windows.iter().any(|window| window.device.is_some()));
        let pair = |window: &'_ Window| {
            let is_other = |other: &&Window| one_each || other.device == window.device;
            let other = windows[0].iter().find(is_other).filter(|_| has_devices[0] == has_devices[1])?;
            let compared = compare(&before.side(other), &after.side(window), &|| work.is_cancelled());
            Some(ComparedDevice { device: window.device, compared })
        };
        let devices = windows[1].iter().filter_map(pair).collect();
        Some(ComparedDevices { devices, n_judged: windows.map(<[Window]>::len), has_devices })
    }
}

/// What is judged of a trace.
struct Judged<'a> {
    trace: &'a Trace,
    steps: Arc<Option<Steps>>,
    busy: Arc<Vec<DeviceBusy>>,
    phases: Arc<Phases>,
    verdicts: Arc<Verdicts>,
}

impl<'a> Judged<'a> {
    fn of(trace: &'a Arc<Trace>, steps: &TraceSteps, thresholds: Thresholds, work: &Work<'_>) -> Option<Self> {
        Some(Self {
            trace,
            steps: work.get(trace, steps)?,
            busy: work.get(trace, &BusyDevices)?,
            phases: work.get(trace, &TracePhases)?,
            verdicts: work.get(trace, &RuleVerdicts { steps: steps.clone(), thresholds, range: None })?,
        })
    }

    fn side<'b>(&'b self, window: &'b Window) -> Side<'b> {
        let busy = self.busy.iter().find(|busy| Some(busy.device) == window.device);
        let makeup = self.verdicts.makeups.iter().find(|makeup| makeup.device == window.device && busy.is_some());
        let is_compiled = self.verdicts.run.is_compiled;
        let (steps, phases) = ((*self.steps).as_ref(), &*self.phases);
        Side { trace: self.trace, steps, window, busy, makeup, phases, is_compiled }
    }
}
