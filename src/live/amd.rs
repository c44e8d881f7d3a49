//! AMD's GPUs, through the files of their Linux driver.
//!
//! Source: "drm/amdgpu" in the documentation of the Linux kernel, `Documentation/gpu/amdgpu/thermal.rst`.

use std::path::{Path, PathBuf};

use super::metric::{Metric, Pace};
use super::source::{Absent, DeviceInfo, Driver, Missing, Sample, Sampler, Source};

const VENDOR: &str = "0x1002";

/// The driver of AMD's GPUs.
#[derive(Debug)]
pub struct AmdDriver {
    /// `/sys/class/drm`, but for tests.
    pub root: PathBuf,
}

impl Default for AmdDriver {
    fn default() -> Self {
        Self { root: PathBuf::from("/sys/class/drm") }
    }
}

impl Driver for AmdDriver {
    fn name(&self) -> &'static str {
        "AMD"
    }

    fn open(&self) -> Result<Box<dyn Source>, Missing> {
        let mut cards = cards(&self.root);
        cards.sort_by_key(|card| card.0);
        let cards: Vec<Card> = cards.into_iter().map(|(_, folder)| Card::new(folder)).collect();
        if cards.is_empty() {
            let what = format!("There is no AMD GPU in {}", self.root.display());
            let remedy = "Load the driver with `modprobe amdgpu`, if there is one in this machine".to_owned();
            return Err(Missing { what, remedy });
        }
        let devices = cards.iter().enumerate().map(|(i, card)| card.describe(i)).collect();
        Ok(Box::new(AmdSource { cards, devices }))
    }
}

/// The numbers and folders of AMD's cards.
fn cards(root: &Path) -> Vec<(u32, PathBuf)> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix("card")?.parse::<u32>().ok();
    let card = |entry: std::fs::DirEntry| Some((number(entry.file_name().to_str()?)?, entry.path().join("device")));
    let is_amd = |(_, folder): &(u32, PathBuf)| text(folder, "vendor").is_some_and(|vendor| vendor == VENDOR);
    entries.filter_map(card).filter(is_amd).collect()
}

fn text(folder: &Path, file: &str) -> Option<String> {
    let text = std::fs::read_to_string(folder.join(file)).ok()?;
    Some(text.trim().to_owned())
}

#[derive(Debug)]
struct Card {
    folder: PathBuf,
    /// The sensors, where the driver has them.
    sensors: Option<PathBuf>,
}

impl Card {
    fn new(folder: PathBuf) -> Self {
        let entries = std::fs::read_dir(folder.join("hwmon")).into_iter().flatten().flatten();
        let sensors = entries.map(|entry| entry.path()).min();
        Self { folder, sensors }
    }

    fn describe(&self, index: usize) -> DeviceInfo {
        let name = text(&self.folder, "product_name").filter(|name| !name.is_empty());
        let by_id = || format!("AMD GPU {}", text(&self.folder, "device").unwrap_or_default());
        let uuid = text(&self.folder, "unique_id").unwrap_or_else(|| self.folder.display().to_string());
        let facts = [("VBIOS", "vbios_version"), ("PCIe link, highest speed", "max_link_speed")];
        let facts = facts.into_iter().filter_map(|(what, file)| Some((what, text(&self.folder, file)?)));
        DeviceInfo { id: index.to_string(), name: name.unwrap_or_else(by_id), uuid, facts: facts.collect() }
    }

    fn is_there(&self) -> bool {
        self.folder.join("vendor").exists()
    }

    /// The number in a file of the device.
    fn number(&self, file: &str) -> Result<f64, Absent> {
        number(&self.folder.join(file))
    }

    /// The number in the first file of the sensors that has one, in this unit.
    fn sensor(&self, files: &[&str], unit: f64) -> Result<f64, Absent> {
        let Some(sensors) = &self.sensors else { return Err(Absent::NotSupported) };
        let read = files.iter().map(|file| number(&sensors.join(file)));
        read.reduce(Result::or).unwrap_or(Err(Absent::NotSupported)).map(|value| value * unit)
    }

    /// The sensor whose label is this, such as `mem` of `temp3`.
    fn labelled(&self, prefix: &str, label: &str, unit: f64) -> Result<f64, Absent> {
        let Some(sensors) = &self.sensors else { return Err(Absent::NotSupported) };
        let is_it = |i: &u32| text(sensors, &format!("{prefix}{i}_label")).is_some_and(|found| found == label);
        let i = (1..=8).find(is_it).ok_or(Absent::NotSupported)?;
        number(&sensors.join(format!("{prefix}{i}_input"))).map(|value| value * unit)
    }

    /// The clock that is marked in a list of levels: `1: 1700Mhz *`.
    fn level(&self, file: &str) -> Result<f64, Absent> {
        let levels = text(&self.folder, file).ok_or(Absent::NotSupported)?;
        let marked = levels.lines().find(|line| line.trim_end().ends_with('*')).ok_or(Absent::NoDataYet)?;
        let clock = marked.split_once(':').map_or(marked, |(_, clock)| clock).trim_start();
        let digits = clock.find(|c: char| !c.is_ascii_digit()).unwrap_or(clock.len());
        clock[..digits].parse().map_err(|_| Absent::Failed)
    }

    /// Memory errors: `ue: 0` and `ce: 3` in lines.
    fn errors(&self, key: &str) -> Result<f64, Absent> {
        let counts = text(&self.folder, "ras/umc_err_count").ok_or(Absent::NotSupported)?;
        let count = counts.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
        count.ok_or(Absent::Failed)
    }

    /// Of a speed such as `16.0 GT/s PCIe`.
    fn pcie_generation(&self) -> Result<f64, Absent> {
        let speed = text(&self.folder, "current_link_speed").ok_or(Absent::NotSupported)?;
        let generations = ["2.5", "5.0", "8.0", "16.0", "32.0", "64.0"];
        let number = speed.split(' ').next().unwrap_or_default();
        let found = generations.iter().position(|of| *of == number).ok_or(Absent::Failed)?;
        Ok(found as f64 + 1.0)
    }

    fn read_fast(&self, sample: &mut Sample) {
        sample.set(Metric::Utilization, self.number("gpu_busy_percent"));
        sample.set(Metric::MemoryUtilization, self.number("mem_busy_percent"));
        sample.set(Metric::MemoryUsed, self.number("mem_info_vram_used"));
        sample.set(Metric::MemoryTotal, self.number("mem_info_vram_total"));
        sample.set(Metric::Power, self.sensor(&["power1_average", "power1_input"], 1e-6));
        sample.set(Metric::PowerInstant, self.sensor(&["power1_input"], 1e-6));
        sample.set(Metric::Energy, self.sensor(&["energy1_input"], 1e-6));
        sample
            .set(Metric::Temperature, self.labelled("temp", "junction", 1e-3).or(self.sensor(&["temp1_input"], 1e-3)));
        let clock = |label, file| self.labelled("freq", label, 1e-6).or_else(|_| self.level(file));
        sample.set(Metric::SmClock, clock("sclk", "pp_dpm_sclk"));
        sample.set(Metric::MemoryClock, clock("mclk", "pp_dpm_mclk"));
    }

    fn read_second(&self, sample: &mut Sample) {
        sample.set(Metric::PowerLimit, self.sensor(&["power1_cap"], 1e-6));
        sample.set(Metric::MemoryTemperature, self.labelled("temp", "mem", 1e-3));
        sample.set(Metric::TemperatureLimit, self.sensor(&["temp2_crit", "temp1_crit"], 1e-3));
        sample.set(Metric::FanRpm, self.sensor(&["fan1_input"], 1.0));
        sample.set(Metric::FanSpeed, self.sensor(&["pwm1"], 100.0 / 255.0));
        sample.set(Metric::EccCorrected, self.errors("ce:"));
        sample.set(Metric::EccUncorrected, self.errors("ue:"));
    }

    fn read_slow(&self, sample: &mut Sample) {
        sample.set(Metric::PcieGeneration, self.pcie_generation());
        sample.set(Metric::PcieWidth, self.number("current_link_width"));
        sample.set(Metric::PcieReplays, self.number("pcie_replay_count"));
    }
}

fn number(file: &Path) -> Result<f64, Absent> {
    let text = std::fs::read_to_string(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Absent::NotSupported,
        std::io::ErrorKind::PermissionDenied => Absent::NoPermission,
        _ => Absent::Failed,
    })?;
    text.trim().parse().map_err(|_| Absent::Failed)
}

#[derive(Debug)]
struct AmdSource {
    cards: Vec<Card>,
    devices: Vec<DeviceInfo>,
}

impl Source for AmdSource {
    fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    fn notes(&self) -> &[String] {
        &[]
    }

    fn sampler(&self, pace: Pace) -> Box<dyn Sampler + '_> {
        Box::new(AmdSampler { cards: &self.cards, pace })
    }
}

struct AmdSampler<'a> {
    cards: &'a [Card],
    pace: Pace,
}

impl Sampler for AmdSampler<'_> {
    fn read(&mut self, device: usize, sample: &mut Sample) {
        let Some(card) = self.cards.get(device) else { return };
        match self.pace {
            Pace::Fast if !card.is_there() => sample.set(Metric::Utilization, Err(Absent::Lost)),
            Pace::Fast => card.read_fast(sample),
            Pace::Second => card.read_second(sample),
            Pace::Slow => card.read_slow(sample),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A card as the driver of an MI250X shows it, shortened.
    fn write_card(root: &Path, name: &str) -> PathBuf {
        let device = root.join(name).join("device");
        let sensors = device.join("hwmon/hwmon3");
        std::fs::create_dir_all(&sensors).unwrap();
        std::fs::create_dir_all(device.join("ras")).unwrap();
        for (file, text) in [
            ("vendor", "0x1002\n"),
            ("device", "0x7408\n"),
            ("gpu_busy_percent", "87\n"),
            ("mem_info_vram_used", "1073741824\n"),
            ("mem_info_vram_total", "68702699520\n"),
            ("pp_dpm_sclk", "0: 500Mhz\n1: 800Mhz *\n2: 1700Mhz\n"),
            ("pp_dpm_mclk", "0: 400Mhz\n1: 1600Mhz *\n"),
            ("current_link_speed", "16.0 GT/s PCIe\n"),
            ("current_link_width", "16\n"),
            ("ras/umc_err_count", "ue: 0\nce: 3\n"),
            ("hwmon/hwmon3/power1_average", "212000000\n"),
            ("hwmon/hwmon3/power1_cap", "560000000\n"),
            ("hwmon/hwmon3/temp1_label", "edge\n"),
            ("hwmon/hwmon3/temp1_input", "41000\n"),
            ("hwmon/hwmon3/temp2_label", "junction\n"),
            ("hwmon/hwmon3/temp2_input", "47000\n"),
            ("hwmon/hwmon3/temp3_label", "mem\n"),
            ("hwmon/hwmon3/temp3_input", "52000\n"),
        ] {
            std::fs::write(device.join(file), text).unwrap();
        }
        device
    }

    #[test]
    fn a_card_is_read_from_its_files() {
        let root = tempfile::tempdir().unwrap();
        write_card(root.path(), "card1");
        std::fs::create_dir_all(root.path().join("card1-DP-1")).unwrap();
        let source = AmdDriver { root: root.path().to_owned() }.open().unwrap();
        assert_eq!(source.devices().len(), 1);
        assert_eq!((source.devices()[0].id.as_str(), source.devices()[0].name.as_str()), ("0", "AMD GPU 0x7408"));
        let mut sample = Sample::at(1);
        for pace in [Pace::Fast, Pace::Second, Pace::Slow] {
            source.sampler(pace).read(0, &mut sample);
        }
        for (metric, expected) in [
            (Metric::Utilization, Ok(87.0)),
            (Metric::MemoryUtilization, Err(Absent::NotSupported)),
            (Metric::MemoryUsed, Ok(1_073_741_824.0)),
            (Metric::Power, Ok(212.0)),
            (Metric::PowerInstant, Err(Absent::NotSupported)),
            (Metric::PowerLimit, Ok(560.0)),
            (Metric::Temperature, Ok(47.0)),
            (Metric::MemoryTemperature, Ok(52.0)),
            (Metric::SmClock, Ok(800.0)),
            (Metric::MemoryClock, Ok(1600.0)),
            (Metric::PcieGeneration, Ok(4.0)),
            (Metric::PcieWidth, Ok(16.0)),
            (Metric::EccCorrected, Ok(3.0)),
            (Metric::EccUncorrected, Ok(0.0)),
            (Metric::FanRpm, Err(Absent::NotSupported)),
        ] {
            assert_eq!(sample.get(metric), Some(expected), "{metric:?}");
        }
        assert!(!sample.is_lost());
    }

    #[test]
    fn a_card_that_vanishes_is_lost_and_none_is_said() {
        let root = tempfile::tempdir().unwrap();
        let driver = AmdDriver { root: root.path().to_owned() };
        assert!(driver.open().err().unwrap().what.starts_with("There is no AMD GPU in "));
        let device = write_card(root.path(), "card0");
        let source = driver.open().unwrap();
        std::fs::remove_dir_all(device).unwrap();
        let mut sample = Sample::at(1);
        source.sampler(Pace::Fast).read(0, &mut sample);
        assert!(sample.is_lost());
    }
}
