//! Figures of devices: busy time and work by kind.

use super::{Cell, Object, Part, figures, format};
use crate::analysis::breakdown::{Breakdown, Overlap, breakdown, overlap};
use crate::analysis::busy::{DeviceBusy, WorkTotals};
use crate::analysis::hta_idle::HtaIdle;
use crate::model::DurNs;

/// The activity of one device.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// Where the rank is ambiguous.
    pub file: Option<&'a str>,
    pub rank: Option<u32>,
    /// Empty if unknown.
    pub name: &'a str,
    pub busy: &'a DeviceBusy,
}

/// The work of one kind on one device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceWork {
    pub rank: Option<u32>,
    pub device: u32,
    pub kind: &'static str,
    pub totals: WorkTotals,
}

/// What one device does within its window, and how much of its communication compute hides.
#[derive(Clone, Copy, Debug)]
pub struct DeviceTime {
    pub rank: Option<u32>,
    pub device: u32,
    pub breakdown: Breakdown,
    pub overlap: Overlap,
}

/// Idle time of one stream by HTA's rule.
#[derive(Clone, Copy, Debug)]
pub struct StreamIdle {
    pub rank: Option<u32>,
    pub idle: HtaIdle,
}

/// Why [`little_work`] is said instead of a share.
pub const LITTLE: &str = "Too little for a share to say anything";

/// What devices with too little work to judge did: `1 memset: 1.472 µs in 899.148 ms`. Nothing where one has more, of
/// which a share says something.
///
/// * `recorded`: how long they were recorded.
pub fn little_work<'a>(devices: impl IntoIterator<Item = &'a DeviceBusy>, recorded: DurNs) -> Option<String> {
    let mut sum = ([0; 4], 0);
    for busy in devices {
        if !busy.has_little_work() {
            return None;
        }
        sum.0.iter_mut().zip(busy.work()).for_each(|(n, work)| *n += work.count);
        sum.1 += busy.busy_ns;
    }
    let names = [["kernel", "kernels"], ["copy", "copies"], ["memset", "memsets"], ["graph", "graphs"]];
    let kinds = names.iter().zip(sum.0).filter(|(_, n)| *n > 0);
    let kinds: Vec<String> =
        kinds.map(|([one, more], n)| format!("{} {}", format::count(n), if n == 1 { one } else { more })).collect();
    let [busy, recorded] = [sum.1, recorded].map(format::duration);
    Some(format!("{}: {busy} in {recorded}", kinds.join(", ")))
}

impl Device<'_> {
    /// Its window by what it does.
    pub fn time(&self) -> DeviceTime {
        let (rank, busy) = (self.rank, self.busy);
        let (breakdown, overlap) = (breakdown(busy, busy.window), overlap(busy, busy.window));
        DeviceTime { rank, device: busy.device, breakdown, overlap }
    }

    /// Its work by kind; graphs only where there are any.
    pub fn work(&self) -> Vec<DeviceWork> {
        let busy = self.busy;
        let graphs = (busy.graphs.count > 0).then_some(("graphs", busy.graphs));
        let work = [("kernels", busy.kernels), ("memcpys", busy.memcpys), ("memsets", busy.memsets)];
        let all = work.into_iter().chain(graphs);
        all.map(|(kind, totals)| DeviceWork { rank: self.rank, device: busy.device, kind, totals }).collect()
    }
}

/// Devices, with `busy_ns + idle_ns == window_ns` each.
pub fn devices<'a>() -> Part<Device<'a>> {
    fn nested(device: &Device<'_>, kind: &str) -> Cell {
        let work = device.work().into_iter().find(|work| work.kind == kind);
        Cell::or_empty(work, |work| Cell::Object(Box::new(totals(&work))))
    }
    const BREAKDOWN: &str = "compute_ns exposed_comm_ns exposed_copy_ns idle_ns";
    fn time(device: &Device<'_>, keys: &str) -> Cell {
        Cell::Object(Box::new(device_time().object(&device.time(), keys)))
    }
    let figures = figures! { row: Device<'a>;
        words "file", "File", 140, Cell::or_empty(row.file, Cell::name), "The file, where the rank is ambiguous";
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::Count(u64::from(row.busy.device)), "Index of the device";
        number "window_ns", "Window", 90, Cell::Ns(row.busy.window.dur()), "From its first start to its last end";
        number "busy_ns", "= Busy", 90, Cell::Ns(row.busy.busy_ns), "Time in which it worked";
        number "idle_ns", "+ Idle", 90, Cell::Ns(row.busy.idle_ns), "The rest: all gaps together";
        number "utilization", "Busy, all time", 90, Cell::Share(row.busy.utilization()),
            "Busy share of the window, warm-up included; findings are of the judged time";
        number "streams", "Streams", 70, Cell::Count(u64::from(row.busy.n_streams)), "Streams with work";
        words "name", "Name", 200, Cell::text(row.name), "Product name";
        words "kernels", "Kernels", 0, nested(row, "kernels"), "Kernels together";
        words "memcpys", "Copies", 0, nested(row, "memcpys"), "Copies together";
        words "memsets", "Memsets", 0, nested(row, "memsets"), "Memsets together";
        words "graphs", "Graphs", 0, nested(row, "graphs"), "CUDA graphs recorded as one, together";
        words "breakdown", "Breakdown", 0, time(row, BREAKDOWN), "The window by what the device does";
        words "overlap", "Overlap", 0, time(row, "comm_ns overlapped_ns share"), "Communication hidden by compute";
    };
    Part::new("devices", "Devices", figures)
        .report("file rank device window_ns busy_ns idle_ns utilization streams name")
        .json(
            "rank device name window_ns busy_ns idle_ns utilization kernels memcpys memsets graphs streams breakdown \
             overlap",
        )
}

fn totals(work: &DeviceWork) -> Object {
    device_work().object(work, "count total_ns union_ns")
}

/// The work of devices by kind.
pub fn device_work() -> Part<DeviceWork> {
    let figures = figures! { row: DeviceWork;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::Count(u64::from(row.device)), "Index of the device";
        words "kind", "Work", 90, Cell::name(row.kind), "Kind of work";
        number "count", "Count", 70, Cell::Count(row.totals.count), "How many of them";
        number "total_ns", "Total", 84, Cell::Ns(row.totals.total_ns),
            "Sum of the durations; work at the same time counts twice";
        number "union_ns", "Time with any", 100, Cell::Ns(row.totals.union_ns),
            "Time in which at least one of them ran";
    };
    Part::new("device_work", "Device work", figures)
}

/// What devices do within their windows: compute, exposed communication, exposed copies and idle sum to the window.
pub fn device_time() -> Part<DeviceTime> {
    const COMPUTE: &str = "Time with kernels that do not communicate, or with CUDA graphs recorded as one";
    const OVERLAPPED: &str = "Communication while something computes on the same device";
    let figures = figures! { row: DeviceTime;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::Count(u64::from(row.device)), "Index of the device";
        number "compute_ns", "Compute", 90, Cell::Ns(row.breakdown.compute_ns), COMPUTE;
        number "exposed_comm_ns", "+ Exposed communication", 150, Cell::Ns(row.breakdown.exposed_comm_ns),
            "Communication while nothing computes";
        number "exposed_copy_ns", "+ Exposed copies", 110, Cell::Ns(row.breakdown.exposed_copy_ns),
            "Copies and memsets while nothing computes or communicates";
        number "idle_ns", "+ Idle", 90, Cell::Ns(row.breakdown.idle_ns), "Nothing runs";
        number "comm_ns", "Communication", 100, Cell::Ns(row.overlap.comm_ns),
            "Time with at least one collective";
        number "overlapped_ns", "Overlapped", 90, Cell::Ns(row.overlap.overlapped_ns), OVERLAPPED;
        number "share", "Overlap", 70, Cell::or_empty(row.overlap.share(), Cell::Share),
            "Overlapped share of the communication";
    };
    Part::new("device_time", "Device time", figures)
}

/// Idle time of streams as `HolisticTraceAnalysis` counts it, for comparison.
pub fn hta_idle() -> Part<StreamIdle> {
    const HOST: &str = "Gaps whose work was launched after the previous work had ended";
    const KERNEL: &str = "Other gaps below 30 µs; work that overlaps its predecessor counts as negative";
    let figures = figures! { row: StreamIdle;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::Count(u64::from(row.idle.device)), "Index of the device";
        number "stream", "Stream", 70, Cell::Count(u64::from(row.idle.stream)), "Number of the stream";
        number "host_wait_us", "Host wait (µs)", 100, Cell::Id(row.idle.host_wait_us), HOST;
        number "kernel_wait_us", "Kernel wait (µs)", 110, Cell::Id(row.idle.kernel_wait_us), KERNEL;
        number "other_us", "Other (µs)", 90, Cell::Id(row.idle.other_us), "All other gaps";
    };
    Part::new("hta_idle", "Idle time by HTA's rule", figures)
}
