//! The interface of a driver.

use super::metric::{Metric, N_METRICS, Pace};
use crate::model::TimeNs;

/// Why a metric has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// This source never reads it.
    NotRead,
    /// The device does not have it.
    NotSupported,
    NoPermission,
    /// The driver is older than the metric.
    NotInDriver,
    /// It takes two readings, or nothing was recorded yet.
    NoDataYet,
    /// The device does not answer.
    Lost,
    Failed,
}

impl Absent {
    pub fn sentence(self) -> &'static str {
        match self {
            Self::NotRead => "not read from this driver",
            Self::NotSupported => "not supported",
            Self::NoPermission => "no permission",
            Self::NotInDriver => "not in this version of the driver",
            Self::NoDataYet => "no data yet",
            Self::Lost => "the GPU does not answer the driver",
            Self::Failed => "the driver reports an error",
        }
    }
}

/// A program that uses a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessUse {
    pub pid: u32,
    /// The name of its program; empty if it runs in another container.
    pub name: String,
    /// Bytes of device memory, where the driver knows them.
    pub memory: Option<u64>,
    /// Percent of the multiprocessors' time, where the driver knows it.
    pub sm: Option<u32>,
    pub kind: ProcessKind,
}

/// What a program uses a device for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessKind {
    Compute,
    Graphics,
}

/// What was read of one device at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Nanoseconds since 1970, by the system's clock.
    pub ts: TimeNs,
    values: [Option<Result<f64, Absent>>; N_METRICS],
    /// `None` if they were not read.
    pub processes: Option<Vec<ProcessUse>>,
}

impl Sample {
    /// Nothing, at this moment.
    pub fn at(ts: TimeNs) -> Self {
        Self { ts, values: [None; N_METRICS], processes: None }
    }

    pub fn set(&mut self, metric: Metric, value: Result<f64, Absent>) {
        self.values[metric as usize] = Some(value.and_then(|value| match value.is_finite() {
            true => Ok(value),
            false => Err(Absent::Failed),
        }));
    }

    /// The value, or why there is none; `None` if it was not asked for.
    pub fn get(&self, metric: Metric) -> Option<Result<f64, Absent>> {
        self.values[metric as usize]
    }

    /// The metrics that were asked for, with what came of it.
    pub fn all(&self) -> impl Iterator<Item = (Metric, Result<f64, Absent>)> + '_ {
        Metric::ALL.iter().filter_map(|&metric| Some((metric, self.get(metric)?)))
    }

    /// Whether the device has stopped answering.
    pub fn is_lost(&self) -> bool {
        self.all().any(|(_, value)| value == Err(Absent::Lost))
    }
}

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `0`, or `0:1` for an instance of a GPU that is split.
    pub id: String,
    pub name: String,
    /// The same after the device was lost and came back; empty if the driver gives none.
    pub uuid: String,
    /// What does not change: (what, value).
    pub facts: Vec<(&'static str, String)>,
}

impl DeviceInfo {
    /// The id of the GPU that it is an instance of.
    pub fn gpu(&self) -> Option<&str> {
        self.id.split_once(':').map(|(gpu, _)| gpu)
    }
}

/// Why nothing can be watched, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// One sentence, without a period.
    pub what: String,
    /// One sentence, without a period.
    pub remedy: String,
}

/// Something that happened to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub ts: TimeNs,
    /// `DeviceInfo::id`; empty for the whole machine.
    pub device: String,
    pub text: String,
    pub is_alarm: bool,
}

/// A way to GPUs that may be absent from a machine. It is opened again after devices were lost.
pub trait Driver: Send {
    /// For the user: `NVIDIA`.
    fn name(&self) -> &'static str;

    /// Errors: why nothing of it can be watched.
    fn open(&self) -> Result<Box<dyn Source>, Missing>;
}

/// A driver that answers. Threads share it.
pub trait Source: Sync {
    /// In the order of their ids.
    fn devices(&self) -> &[DeviceInfo];

    /// A sentence for each device that is there and cannot be watched.
    fn notes(&self) -> &[String];

    /// Whether [`Source::devices`] may be others by now, so that the driver has to be opened again; asked once a
    /// second.
    fn is_outdated(&self) -> bool {
        false
    }

    /// Reads metrics on the calling thread; one for each pace.
    fn sampler(&self, pace: Pace) -> Box<dyn Sampler + '_>;

    /// Reports what happens to devices until `is_over`, which it asks several times a second. Returns at once where
    /// the driver reports no events.
    fn watch(&self, _report: &dyn Fn(Event), _is_over: &dyn Fn() -> bool) {}
}

/// Reads the metrics of one pace.
pub trait Sampler {
    /// Reads those of the device with this index of [`Source::devices`]. What is not supported is set to why.
    fn read(&mut self, device: usize, sample: &mut Sample);
}
