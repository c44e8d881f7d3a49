//! NVIDIA's GPUs, through the driver's library NVML, which is loaded at run time.

mod fields;
mod slow;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PerformanceState, TemperatureSensor, TemperatureThreshold,
};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};

use self::fields::{Field, read_field};
use super::metric::{Metric, Pace};
use super::source::{Absent, DeviceInfo, Driver, Event, Missing, ProcessKind, ProcessUse, Sample, Sampler, Source};
use super::{now, xid};

/// How long a wait for events lasts before it looks whether it is over, in milliseconds.
const EVENT_WAIT_MS: u32 = 200;

/// The driver of NVIDIA's GPUs.
#[derive(Debug, Default)]
pub struct NvmlDriver {
    /// The library to load in place of the system's.
    pub library: Option<OsString>,
}

impl Driver for NvmlDriver {
    fn name(&self) -> &'static str {
        "NVIDIA"
    }

    fn open(&self) -> Result<Box<dyn Source>, Missing> {
        let mut builder = Nvml::builder();
        if let Some(library) = &self.library {
            builder.lib_path(library);
        }
        let nvml = builder.init().map_err(|error| missing(&error, self.library.as_deref()))?;
        NvmlSource::new(nvml).map(|source| Box::new(source) as Box<dyn Source>)
    }
}

/// * `library`: the one that was asked for, in place of the system's.
fn missing(error: &NvmlError, library: Option<&OsStr>) -> Missing {
    if let (NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound, Some(library)) = (error, library) {
        let what = match Path::new(library).exists() {
            true => format!("{} is not a library of this system", library.display()),
            false => format!("There is no library {}", library.display()),
        };
        return Missing { what, remedy: "Check the path of the library, or leave it out".to_owned() };
    }
    let (what, remedy) = match error {
        NvmlError::LibloadingError(inner) if inner.to_string().contains("invalid ELF") => {
            ("The NVIDIA driver's library libnvidia-ml.so.1 is damaged", "Install the NVIDIA driver anew")
        }
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => (
            "The NVIDIA driver's library libnvidia-ml.so.1 is not installed",
            "Install the NVIDIA driver; in a container, start it with access to the GPUs (--gpus all)",
        ),
        NvmlError::FailedToLoadSymbol(_) => {
            ("The library given for NVML is not NVML", "Check the path of the library, or leave it out")
        }
        NvmlError::DriverNotLoaded => (
            "The NVIDIA driver is installed, but not loaded",
            "Load it with `modprobe nvidia`, or restart after an update; in a container, start it with access to the \
             GPUs (--gpus all)",
        ),
        NvmlError::NoPermission => (
            "This user may not talk to the NVIDIA driver",
            "Give the user access to /dev/nvidiactl and /dev/nvidia*, often by the group video or render",
        ),
        NvmlError::LibRmVersionMismatch => (
            "The NVIDIA driver's library and its kernel module are of different versions",
            "Restart the machine, or reload the kernel module: the driver was updated",
        ),
        other => return Missing { what: format!("NVML does not start: {other}"), remedy: RUN_SMI.to_owned() },
    };
    Missing { what: what.to_owned(), remedy: remedy.to_owned() }
}

const RUN_SMI: &str = "Run nvidia-smi to see whether the driver works";

/// The place of a device.
#[derive(Clone, Copy, Debug)]
enum NvmlId {
    Gpu(u32),
    /// An instance of a GPU that is split.
    Instance(u32, u32),
}

impl NvmlId {
    fn device(self, nvml: &Nvml) -> Result<Device<'_>, NvmlError> {
        match self {
            Self::Gpu(index) => nvml.device_by_index(index),
            Self::Instance(gpu, index) => nvml.device_by_index(gpu)?.mig_device_by_index(index),
        }
    }
}

#[derive(Debug)]
struct NvmlSource {
    nvml: Nvml,
    places: Vec<NvmlId>,
    devices: Vec<DeviceInfo>,
    notes: Vec<String>,
}

impl NvmlSource {
    fn new(nvml: Nvml) -> Result<Self, Missing> {
        let count = nvml.device_count().map_err(|error| missing(&error, None))?;
        let (mut places, mut devices, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..count {
            let device = match nvml.device_by_index(index) {
                Ok(device) => device,
                Err(error) => {
                    notes.push(format!("GPU {index} cannot be read: {}", absent(&error).sentence()));
                    continue;
                }
            };
            places.push(NvmlId::Gpu(index));
            devices.push(describe(index.to_string(), &device, &nvml));
            for (instance, part) in instances(&device) {
                places.push(NvmlId::Instance(index, instance));
                devices.push(describe(format!("{index}:{instance}"), &part, &nvml));
            }
        }
        match (devices.is_empty(), notes.first()) {
            (true, None) => {
                let what = "The NVIDIA driver is loaded, but finds no GPU".to_owned();
                Err(Missing { what, remedy: RUN_SMI.to_owned() })
            }
            (true, Some(note)) => Err(Missing { what: note.clone(), remedy: RUN_SMI.to_owned() }),
            _ => Ok(Self { nvml, places, devices, notes }),
        }
    }
}

/// The instances of a GPU that is divided.
fn instances<'a>(device: &'a Device<'_>) -> impl Iterator<Item = (u32, Device<'a>)> {
    let is_divided = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    let n = if is_divided { device.mig_device_count().unwrap_or(0) } else { 0 };
    (0..n).filter_map(|instance| Some((instance, device.mig_device_by_index(instance).ok()?)))
}

fn describe(id: String, device: &Device<'_>, nvml: &Nvml) -> DeviceInfo {
    let mut facts = Vec::new();
    let mut add = |what, value: Result<String, NvmlError>| facts.extend(value.ok().map(|value| (what, value)));
    add("Driver", nvml.sys_driver_version());
    let cuda = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
    add("CUDA of the driver", nvml.sys_cuda_driver_version().map(cuda));
    add("Compute capability", device.cuda_compute_capability().map(|of| format!("{}.{}", of.major, of.minor)));
    add("PCI bus", device.pci_info().map(|pci| pci.bus_id));
    add("ECC", device.is_ecc_enabled().map(|ecc| on_off(ecc.currently_enabled)));
    add("Persistence mode", device.is_in_persistent_mode().map(on_off));
    add("Highest SM clock", device.max_clock_info(Clock::SM).map(|clock| format!("{clock} MHz")));
    add("Cores", device.num_cores().map(|cores| cores.to_string()));
    DeviceInfo { id, name: device.name().unwrap_or_default(), uuid: device.uuid().unwrap_or_default(), facts }
}

fn on_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// Converts a result of NVML.
fn value<T>(result: Result<T, NvmlError>) -> Result<T, Absent> {
    result.map_err(|error| absent(&error))
}

fn absent(error: &NvmlError) -> Absent {
    match error {
        NvmlError::NotSupported | NvmlError::InvalidArg | NvmlError::VgpuEccNotSupported => Absent::NotSupported,
        NvmlError::NoPermission => Absent::NoPermission,
        NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => Absent::NotInDriver,
        NvmlError::NoData | NvmlError::NotFound => Absent::NoDataYet,
        NvmlError::GpuLost | NvmlError::ResetRequired | NvmlError::Uninitialized => Absent::Lost,
        _ => Absent::Failed,
    }
}

impl Source for NvmlSource {
    fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn is_outdated(&self) -> bool {
        let known = |gpu: u32| {
            self.places.iter().filter_map(move |place| match place {
                NvmlId::Instance(of, instance) if *of == gpu => Some(*instance),
                _ => None,
            })
        };
        self.places.iter().any(|place| {
            let NvmlId::Gpu(gpu) = *place else { return false };
            // One that does not answer is lost, which is noticed elsewhere.
            let device = self.nvml.device_by_index(gpu).ok().filter(|device| device.mig_mode().is_ok());
            device.is_some_and(|device| !instances(&device).map(|(instance, _)| instance).eq(known(gpu)))
        })
    }

    fn sampler(&self, pace: Pace) -> Box<dyn Sampler + '_> {
        let handles = self.places.iter().map(|place| value(place.device(&self.nvml)));
        match pace {
            Pace::Fast => Box::new(Fast { devices: handles.collect() }),
            Pace::Second => {
                let last_seen = vec![0; self.places.len()];
                Box::new(Second { nvml: &self.nvml, devices: handles.collect(), last_seen })
            }
            Pace::Slow => Box::new(slow::Slow::new(&self.nvml, handles.collect())),
        }
    }

    fn watch(&self, report: &dyn Fn(Event), is_over: &dyn Fn() -> bool) {
        let Ok(mut set) = self.nvml.create_event_set() else { return };
        let wanted = EventTypes::CRITICAL_XID_ERROR | EventTypes::DOUBLE_BIT_ECC_ERROR | EventTypes::MIG_CONFIG_CHANGE;
        let mut n_registered = 0;
        for index in self.places.iter().filter_map(|place| if let NvmlId::Gpu(i) = place { Some(*i) } else { None }) {
            let Ok(device) = self.nvml.device_by_index(index) else { continue };
            let Ok(supported) = device.supported_event_types() else { continue };
            if (wanted & supported).is_empty() {
                continue;
            }
            // A failed registration frees the set.
            let Ok(registered) = device.register_events(wanted & supported, set) else { return };
            set = registered;
            n_registered += 1;
        }
        while n_registered > 0 && !is_over() {
            let event = match set.wait(EVENT_WAIT_MS) {
                Ok(event) => event,
                Err(NvmlError::Timeout) => continue,
                Err(_) => return,
            };
            let device = event.device.index().map(|index| index.to_string()).unwrap_or_default();
            let (text, is_alarm) = match event.event_data {
                Some(XidError::Value(code)) => (xid::sentence(code), true),
                Some(XidError::Unknown) => ("XID error of unknown number".to_owned(), true),
                None if event.event_type.contains(EventTypes::DOUBLE_BIT_ECC_ERROR) => {
                    ("A memory error could not be corrected (ECC)".to_owned(), true)
                }
                None => ("The instances of the GPU were changed (MIG)".to_owned(), false),
            };
            report(Event { ts: now(), device, text, is_alarm });
        }
    }
}

/// Utilization, memory, power, temperature, clocks.
struct Fast<'a> {
    devices: Vec<Result<Device<'a>, Absent>>,
}

impl Sampler for Fast<'_> {
    fn read(&mut self, device: usize, sample: &mut Sample) {
        let Some(Ok(device)) = self.devices.get(device) else {
            return sample.set(Metric::Utilization, Err(Absent::Lost));
        };
        let utilization = value(device.utilization_rates());
        sample.set(Metric::Utilization, utilization.as_ref().map(|of| of.gpu.into()).map_err(|why| *why));
        sample.set(Metric::MemoryUtilization, utilization.map(|of| of.memory.into()));
        let memory = value(device.memory_info());
        let of = |part: fn(&nvml_wrapper::struct_wrappers::device::MemoryInfo) -> u64| {
            memory.as_ref().map(|memory| part(memory) as f64).map_err(|why| *why)
        };
        sample.set(Metric::MemoryUsed, of(|memory| memory.used));
        sample.set(Metric::MemoryReserved, of(|memory| memory.reserved));
        sample.set(Metric::MemoryTotal, of(|memory| memory.total));
        sample.set(Metric::Power, value(device.power_usage()).map(|mw| f64::from(mw) / 1e3));
        sample.set(Metric::PowerInstant, read_field(device, Field::PowerInstant).map(|mw| mw / 1e3));
        sample.set(Metric::Energy, value(device.total_energy_consumption()).map(|mj| mj as f64 / 1e3));
        sample.set(Metric::Temperature, value(device.temperature(TemperatureSensor::Gpu)).map(f64::from));
        let clock = |of| value(device.clock_info(of)).map(f64::from);
        sample.set(Metric::SmClock, clock(Clock::SM));
        sample.set(Metric::MemoryClock, clock(Clock::Memory));
        sample.set(Metric::GraphicsClock, clock(Clock::Graphics));
        sample.set(Metric::VideoClock, clock(Clock::Video));
    }
}

/// Processes, limits, throttle reasons, errors, video engines, fans.
struct Second<'a> {
    nvml: &'a Nvml,
    devices: Vec<Result<Device<'a>, Absent>>,
    /// When each device's last reading of its processes' utilization was, by the driver's clock.
    last_seen: Vec<u64>,
}

impl Sampler for Second<'_> {
    fn read(&mut self, index: usize, sample: &mut Sample) {
        let Some(Ok(device)) = self.devices.get(index) else { return };
        sample.set(Metric::PowerLimit, value(device.enforced_power_limit()).map(|mw| f64::from(mw) / 1e3));
        // Where there is no sensor, some drivers say 0.
        let memory_temperature = read_field(device, Field::MemoryTemperature);
        sample.set(
            Metric::MemoryTemperature,
            memory_temperature.and_then(|celsius| if celsius > 0.0 { Ok(celsius) } else { Err(Absent::NotSupported) }),
        );
        let limit = device.temperature_threshold(TemperatureThreshold::Slowdown);
        sample.set(Metric::TemperatureLimit, value(limit).map(f64::from));
        let reasons = value(device.current_throttle_reasons());
        sample.set(Metric::ThrottleReasons, reasons.map(|reasons| reasons.bits() as f64));
        let state = value(device.performance_state()).and_then(|state| match state {
            PerformanceState::Unknown => Err(Absent::NotSupported),
            state => Ok(f64::from(state.as_c())),
        });
        sample.set(Metric::PerformanceState, state);
        sample.set(Metric::Encoder, value(device.encoder_utilization()).map(|of| of.utilization.into()));
        sample.set(Metric::Decoder, value(device.decoder_utilization()).map(|of| of.utilization.into()));
        read_fans(device, sample);
        sample.set(Metric::Bar1Used, value(device.bar1_memory_info()).map(|of| of.used as f64));
        let errors = |kind| value(device.total_ecc_errors(kind, EccCounter::Volatile)).map(|n| n as f64);
        sample.set(Metric::EccCorrected, errors(MemoryError::Corrected));
        sample.set(Metric::EccUncorrected, errors(MemoryError::Uncorrected));
        self.read_processes(index, sample);
    }
}

fn read_fans(device: &Device<'_>, sample: &mut Sample) {
    let fans = value(device.num_fans()).and_then(|n| if n > 0 { Ok(n) } else { Err(Absent::NotSupported) });
    let fastest = |speed: &dyn Fn(u32) -> Result<u32, NvmlError>| {
        let speeds = (0..fans?).map(|fan| value(speed(fan))).collect::<Result<Vec<_>, _>>()?;
        speeds.into_iter().max().map(f64::from).ok_or(Absent::NotSupported)
    };
    sample.set(Metric::FanSpeed, fastest(&|fan| device.fan_speed(fan)));
    sample.set(Metric::FanRpm, fastest(&|fan| device.fan_speed_rpm(fan)));
}

impl Second<'_> {
    fn read_processes(&mut self, index: usize, sample: &mut Sample) {
        let Some(Ok(device)) = self.devices.get(index) else { return };
        let compute = value(device.running_compute_processes());
        let graphics = value(device.running_graphics_processes());
        if let (Err(why), Err(_)) = (&compute, &graphics) {
            return sample.set(Metric::Processes, Err(*why));
        }
        let mut found: Vec<ProcessUse> = Vec::new();
        let with_kind = |list: Result<Vec<ProcessInfo>, Absent>, kind| {
            list.unwrap_or_default().into_iter().map(move |info| (info, kind))
        };
        let all = with_kind(compute, ProcessKind::Compute).chain(with_kind(graphics, ProcessKind::Graphics));
        for (info, kind) in all {
            // One that both computes and draws is in both lists.
            if found.iter().any(|known| known.pid == info.pid) {
                continue;
            }
            let memory = if let UsedGpuMemory::Used(bytes) = info.used_gpu_memory { Some(bytes) } else { None };
            let name = super::host::program(info.pid)
                .or_else(|| self.nvml.sys_process_name(info.pid, 256).ok().as_deref().map(super::host::last_part))
                .unwrap_or_default();
            found.push(ProcessUse { pid: info.pid, name, memory, sm: None, kind });
        }
        for used in device.process_utilization_stats(self.last_seen[index]).unwrap_or_default() {
            self.last_seen[index] = self.last_seen[index].max(used.timestamp);
            if let Some(process) = found.iter_mut().find(|process| process.pid == used.pid) {
                process.sm = Some(used.sm_util);
            }
        }
        sample.set(Metric::Processes, Ok(found.len() as f64));
        sample.processes = Some(found);
    }
}
