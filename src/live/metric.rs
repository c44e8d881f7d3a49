//! The table of metrics: unit, pace and names of each.

use crate::figures::format;

/// How often a metric is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At the sampling interval, four times a second unless changed. The driver averages utilization over 1/6 s to
    /// 1 s, so sampling faster adds nothing.
    Fast,
    /// Once a second.
    Second,
    /// Every two seconds, on a thread of its own: one call for the throughput of PCI Express takes
    /// 20 ms.
    Slow,
}

/// The unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Percent,
    Bytes,
    BytesPerSecond,
    Watts,
    Joules,
    Celsius,
    Megahertz,
    Count,
    RevolutionsPerMinute,
    /// Bits of [`super::throttle`].
    ThrottleReasons,
    /// 0 is the fastest.
    PerformanceState,
}

/// The description of a metric.
#[derive(Debug)]
pub struct Spec {
    /// In JSON lines.
    pub key: &'static str,
    /// The name of its gauge for Prometheus.
    pub gauge: &'static str,
    /// For the user, without the unit.
    pub title: &'static str,
    /// One sentence.
    pub help: &'static str,
    pub unit: Unit,
    pub pace: Pace,
}

/// Makes [`Metric`] and its table of one line each:
/// `Name: Pace Unit, "key", "gauge", "title", "help";`.
macro_rules! metrics {
    ($($name:ident: $pace:ident $unit:ident, $key:literal, $gauge:literal, $title:literal, $help:literal;)*) => {
        /// One figure that is measured of a GPU.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {
            $($name,)*
        }

        impl Metric {
            /// Every metric, in the order of lists.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            const SPECS: &'static [Spec] = &[$(Spec {
                key: $key,
                gauge: $gauge,
                title: $title,
                help: $help,
                unit: Unit::$unit,
                pace: Pace::$pace,
            },)*];
        }
    };
}

metrics! {
    Utilization: Fast Percent, "gpu_util_pct", "gpu_utilization_percent", "Utilization",
        "Share of the time in which at least one kernel ran, as the driver averages it";
    MemoryUtilization: Fast Percent, "memory_util_pct", "gpu_memory_utilization_percent", "Memory controller",
        "Share of the time in which device memory was read or written";
    MemoryUsed: Fast Bytes, "memory_used_bytes", "gpu_memory_used_bytes", "Memory used",
        "Device memory in use by all programs";
    MemoryReserved: Fast Bytes, "memory_reserved_bytes", "gpu_memory_reserved_bytes", "Memory of the driver",
        "Device memory that the driver and the firmware keep for themselves";
    MemoryTotal: Fast Bytes, "memory_total_bytes", "gpu_memory_total_bytes", "Memory total",
        "Total device memory";
    Power: Fast Watts, "power_w", "gpu_power_watts", "Power",
        "Power drawn by the board, on recent GPUs averaged over one second";
    PowerInstant: Fast Watts, "power_instant_w", "gpu_power_instant_watts", "Power, instant",
        "Power drawn by the board at this moment";
    Energy: Fast Joules, "energy_j", "gpu_energy_joules", "Energy",
        "Energy drawn since the driver was loaded";
    Temperature: Fast Celsius, "temperature_c", "gpu_temperature_celsius", "Temperature",
        "Temperature of the GPU's die";
    SmClock: Fast Megahertz, "sm_clock_mhz", "gpu_sm_clock_megahertz", "SM clock",
        "Clock of the multiprocessors";
    MemoryClock: Fast Megahertz, "memory_clock_mhz", "gpu_memory_clock_megahertz", "Memory clock",
        "Clock of the device memory";
    GraphicsClock: Fast Megahertz, "graphics_clock_mhz", "gpu_graphics_clock_megahertz", "Graphics clock",
        "Clock of the graphics engine";
    VideoClock: Fast Megahertz, "video_clock_mhz", "gpu_video_clock_megahertz", "Video clock",
        "Clock of the video engines";
    PowerLimit: Second Watts, "power_limit_w", "gpu_power_limit_watts", "Power limit",
        "Power that the board may draw before its clocks are lowered";
    MemoryTemperature: Second Celsius, "memory_temperature_c", "gpu_memory_temperature_celsius", "Memory temperature",
        "Temperature of the device memory";
    TemperatureLimit: Second Celsius, "temperature_limit_c", "gpu_temperature_limit_celsius", "Slowdown temperature",
        "Temperature at which the hardware lowers the clocks";
    ThrottleReasons: Second ThrottleReasons, "throttle_reasons", "gpu_throttle_reasons", "Clocks limited by",
        "Reasons for clocks below their maximum, as the bits of nvmlClocksThrottleReasons";
    PerformanceState: Second PerformanceState, "performance_state", "gpu_performance_state", "Performance state",
        "P0 is the fastest, P15 the slowest";
    Encoder: Second Percent, "encoder_util_pct", "gpu_encoder_utilization_percent", "Encoder",
        "Utilization of the video encoders";
    Decoder: Second Percent, "decoder_util_pct", "gpu_decoder_utilization_percent", "Decoder",
        "Utilization of the video decoders";
    FanSpeed: Second Percent, "fan_speed_pct", "gpu_fan_speed_percent", "Fan",
        "Speed of the fastest fan, of its maximum";
    FanRpm: Second RevolutionsPerMinute, "fan_speed_rpm", "gpu_fan_speed_rpm", "Fan speed",
        "Speed of the fastest fan";
    Processes: Second Count, "processes", "gpu_processes", "Processes",
        "Programs that use the GPU";
    Bar1Used: Second Bytes, "bar1_used_bytes", "gpu_bar1_used_bytes", "BAR1 used",
        "Device memory that is mapped for the CPU and for other devices";
    EccCorrected: Second Count, "ecc_corrected", "gpu_ecc_corrected_errors", "ECC errors, corrected",
        "Memory errors that were corrected since the driver was loaded";
    EccUncorrected: Second Count, "ecc_uncorrected", "gpu_ecc_uncorrected_errors", "ECC errors, not corrected",
        "Memory errors that could not be corrected since the driver was loaded";
    PcieTx: Slow BytesPerSecond, "pcie_tx_bytes_per_s", "gpu_pcie_tx_bytes_per_second", "PCIe, sent",
        "Bytes that the GPU sent over PCIe, in 20 ms of each two seconds";
    PcieRx: Slow BytesPerSecond, "pcie_rx_bytes_per_s", "gpu_pcie_rx_bytes_per_second", "PCIe, received",
        "Bytes that the GPU received over PCIe, in 20 ms of each two seconds";
    PcieGeneration: Slow Count, "pcie_generation", "gpu_pcie_generation", "PCIe generation",
        "Generation of the link now; it is lowered to save power";
    PcieWidth: Slow Count, "pcie_width", "gpu_pcie_width", "PCIe lanes",
        "Lanes of the link now";
    PcieReplays: Slow Count, "pcie_replays", "gpu_pcie_replays", "PCIe replays",
        "Packets that were sent again because of errors";
    NvlinkTx: Slow BytesPerSecond, "nvlink_tx_bytes_per_s", "gpu_nvlink_tx_bytes_per_second", "NVLink, sent",
        "Bytes sent over all NVLinks, averaged over two seconds";
    NvlinkRx: Slow BytesPerSecond, "nvlink_rx_bytes_per_s", "gpu_nvlink_rx_bytes_per_second", "NVLink, received",
        "Bytes received over all NVLinks, averaged over two seconds";
    NvlinksActive: Slow Count, "nvlinks_active", "gpu_nvlinks_active", "NVLinks, active",
        "NVLinks that are up";
    NvlinkErrors: Slow Count, "nvlink_errors", "gpu_nvlink_errors", "NVLink errors",
        "Replays, recoveries and checksum errors of all NVLinks";
    SmActive: Slow Percent, "sm_active_pct", "gpu_sm_active_percent", "SMs with work",
        "Share of the time in which a multiprocessor had a warp, averaged over all; on Hopper and later";
    SmOccupancy: Slow Percent, "sm_occupancy_pct", "gpu_sm_occupancy_percent", "SM occupancy",
        "Resident warps of those that fit, averaged over all multiprocessors; on Hopper and later";
    TensorActive: Slow Percent, "tensor_active_pct", "gpu_tensor_active_percent", "Tensor cores",
        "Share of the time in which tensor cores worked; on Hopper and later";
    DramActive: Slow Percent, "dram_active_pct", "gpu_dram_active_percent", "Memory bandwidth",
        "Share of the device memory's bandwidth in use; on Hopper and later";
    RetiredPages: Slow Count, "retired_pages", "gpu_retired_pages", "Retired pages",
        "Pages of device memory taken out of use because of errors";
    RemappedRows: Slow Count, "remapped_rows", "gpu_remapped_rows", "Remapped rows",
        "Rows of device memory replaced by spare ones because of errors";
    Mig: Slow Count, "mig_enabled", "gpu_mig_enabled", "MIG",
        "1 if the GPU is split into instances";
}

/// How many metrics there are.
pub const N_METRICS: usize = Metric::ALL.len();

impl Metric {
    pub fn spec(self) -> &'static Spec {
        &Self::SPECS[self as usize]
    }

    /// The metric with this key of JSON lines.
    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|metric| metric.spec().key == key)
    }
}

/// A value with its unit, for the user: `75.96 GiB`, `45 %`, `P0`.
pub fn text(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Percent => format!("{value:.0} %"),
        Unit::Bytes => format::bytes(value),
        Unit::BytesPerSecond => per_second(value),
        Unit::Watts => format!("{value:.0} W"),
        Unit::Joules if value >= 3.6e6 => format!("{:.2} kWh", value / 3.6e6),
        Unit::Joules if value >= 1e4 => format!("{:.1} kJ", value / 1e3),
        Unit::Joules => format!("{value:.0} J"),
        Unit::Celsius => format!("{value:.0} °C"),
        Unit::Megahertz => format!("{value:.0} MHz"),
        Unit::Count => format!("{value:.0}"),
        Unit::RevolutionsPerMinute => format!("{value:.0} rpm"),
        Unit::ThrottleReasons => super::throttle::names(value as u64).join(", "),
        Unit::PerformanceState => format!("P{value:.0}"),
    }
}

/// In decimal units, as links are sold.
fn per_second(bytes: f64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.into_iter().find(|&(unit, _)| bytes.abs() >= unit * 0.9995) {
        Some((unit, name)) if bytes.abs() >= unit * 99.95 => format!("{:.0} {name}/s", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}/s", bytes / unit),
        None => format!("{bytes:.0} B/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_gauges_are_unique() {
        let unique = |name: fn(&Spec) -> &str| {
            let mut names: Vec<_> = Metric::SPECS.iter().map(name).collect();
            names.sort_unstable();
            names.dedup();
            names.len()
        };
        assert_eq!((unique(|spec| spec.key), unique(|spec| spec.gauge)), (N_METRICS, N_METRICS));
        for metric in Metric::ALL {
            assert_eq!(Metric::of_key(metric.spec().key), Some(*metric));
        }
    }

    #[test]
    fn values_have_units() {
        let shown = [
            (Unit::Bytes, 81_559_000_000.0, "75.96 GiB"),
            (Unit::BytesPerSecond, 999_960_000.0, "1.0 GB/s"),
            (Unit::BytesPerSecond, 512.0, "512 B/s"),
            (Unit::BytesPerSecond, 24_500_000_000.0, "24.5 GB/s"),
            (Unit::Joules, 7_200_000.0, "2.00 kWh"),
            (Unit::PerformanceState, 2.0, "P2"),
            (Unit::Percent, 99.6, "100 %"),
        ];
        for (unit, value, expected) in shown {
            assert_eq!(text(unit, value), expected);
        }
    }
}
