//! `lacuna monitor`: watches the GPUs of this machine without a window.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::output::{check_new, stream, write, write_stderr};
use super::{Failure, Outcome};
use crate::live::prometheus::{DEFAULT_ADDRESS, Server, SocketAddr};
use crate::live::{Metric, Monitor, Recorder, Store, every_metric, nothing_to_watch, summary, text};

/// The longest time in which a driver says whether it is there.
const START: Duration = Duration::from_secs(10);
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Watches the GPUs of this machine until Ctrl+C, then prints a summary
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Seconds between two readings, from 0.1 to 60
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub interval: Duration,
    /// Write each reading to a new file, one JSON object a line
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "gpu_metrics.jsonl")]
    pub out: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub overwrite: bool,
    /// Stop after this many seconds
    #[arg(long = "seconds", alias = "duration", value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Serve gauges for Prometheus at this address; unless it is 0.0.0.0 or [::], requests to host names other than
    /// localhost are refused
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = DEFAULT_ADDRESS)]
    pub prometheus: Option<SocketAddr>,
    /// The driver's library to load in place of the system's libnvidia-ml.so.1
    #[arg(long, value_name = "PATH")]
    pub library: Option<OsString>,
    /// Print every metric with its value or why it is missing, and the cost of the readings
    #[arg(long)]
    pub once_all: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("not a positive number of seconds".to_owned()),
    }
}

/// Runs `lacuna monitor`.
///
/// Errors: no GPU can be watched, or the file or the address cannot be used.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let is_over = end_on_signals();
    let monitor = Monitor::of_system(args.library.clone());
    monitor.set_interval(args.interval);
    if let Some(path) = &args.out {
        check_new(path, &[], args.overwrite)?;
    }
    monitor.start();
    monitor.wait(START, |store| store.is_settled() || !store.devices.is_empty());
    if let Some(missing) = monitor.read(nothing_to_watch) {
        return Err(Failure::Usage(format!("{}. {}", missing.what, missing.remedy)));
    }
    let record = |path: &PathBuf| Ok(Recorder::start(&monitor, stream(path, args.overwrite)?, path));
    let recorder = args.out.as_ref().map(record).transpose()?;
    let server = args.prometheus.map(|address| {
        let failed = |error| Failure::Usage(format!("Cannot serve gauges at {address}: {error}"));
        Server::start(&monitor, address).map_err(failed)
    });
    let server = server.transpose()?;
    if let Some(server) = &server {
        write_stderr(&format!("Gauges for Prometheus: http://{}/metrics", server.address()));
    }
    let duration = args.duration.or(args.once_all.then_some(Duration::from_secs(3)));
    watch(&monitor, duration, &is_over, recorder.as_ref());
    let out = monitor.read(|store| if args.once_all { every_metric(store) } else { summary(store) });
    write(out.as_bytes(), None, &[])?;
    if let Some(recorder) = recorder {
        let path = recorder.path().display().to_string();
        let written = recorder.stop();
        if let Some(why) = written.error {
            return Err(Failure::Usage(why));
        }
        write_stderr(&format!("{written} in {path}"));
    }
    Ok(Outcome::Done)
}

/// Waits for the end, with a line of the present values on a terminal.
fn watch(monitor: &Monitor, duration: Option<Duration>, is_over: &AtomicBool, recorder: Option<&Recorder>) {
    let started = Instant::now();
    let mut stderr = std::io::stderr();
    let is_terminal = stderr.is_terminal();
    let mut shown = 0;
    while !is_over.load(Ordering::Relaxed) && duration.is_none_or(|duration| started.elapsed() < duration) {
        let (revision, line) = monitor.read(|store| (store.revision, line(store)));
        if is_terminal && revision != shown {
            shown = revision;
            let lines = recorder.map_or(String::new(), |recorder| format!("  {}", recorder.written()));
            // Without a terminal any more, nothing is lost.
            let _ = write!(stderr, "\r\x1b[2K{line}{lines}");
            let _ = stderr.flush();
        }
        std::thread::sleep(LOOK);
    }
    if is_terminal {
        let _ = writeln!(stderr);
    }
}

/// What matters of each GPU now: `GPU 0: 45 %, 12.50 GiB, 310 W, 54 °C`.
fn line(store: &Store) -> String {
    let shown = [Metric::Utilization, Metric::MemoryUsed, Metric::Power, Metric::Temperature];
    let of_device = |device: &crate::live::DeviceHistory| {
        let values = shown.iter().filter_map(|&metric| Some(text(metric.spec().unit, device.value(metric)?)));
        let values = values.collect::<Vec<_>>().join(", ");
        let values = if device.lost_since.is_some() { "lost".to_owned() } else { values };
        format!("GPU {}: {values}", device.info.id)
    };
    store.devices.iter().filter(|device| !device.is_removed).map(of_device).collect::<Vec<_>>().join("  ")
}

/// Set by Ctrl+C, by the signal that ends programs, and by that of a terminal that is closed.
fn end_on_signals() -> Arc<AtomicBool> {
    let is_over = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        if signal == signal_hook::consts::SIGHUP && crate::capture::is_ignored(signal) {
            continue;
        }
        // Without a handler the signal ends Lacuna without a summary.
        let _ = signal_hook::flag::register(signal, Arc::clone(&is_over));
    }
    is_over
}
