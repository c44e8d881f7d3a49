//! Figures of devices: busy time and work by kind.

use super::{Cell, Object, Part, figures};
use crate::analysis::busy::{DeviceBusy, WorkTotals};

/// The activity of one device.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
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

impl Device<'_> {
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
    let figures = figures! { row: Device<'a>;
        number "rank", "Rank", 50, Cell::number(row.rank), "Rank of the process";
        number "device", "Device", 58, Cell::Count(u64::from(row.busy.device)), "Index of the device";
        number "window_ns", "Window", 90, Cell::Ns(row.busy.window.dur()), "From its first start to its last end";
        number "busy_ns", "= Busy", 90, Cell::Ns(row.busy.busy_ns), "Time in which it worked";
        number "idle_ns", "+ Idle", 90, Cell::Ns(row.busy.idle_ns), "The rest: all gaps together";
        number "utilization", "Busy share", 80, Cell::Share(row.busy.utilization()), "Busy share of the window";
        number "streams", "Streams", 70, Cell::Count(u64::from(row.busy.n_streams)), "Streams with work";
        words "name", "Name", 200, Cell::text(row.name), "Product name";
        words "kernels", "Kernels", 0, nested(row, "kernels"), "Kernels together";
        words "memcpys", "Copies", 0, nested(row, "memcpys"), "Copies together";
        words "memsets", "Memsets", 0, nested(row, "memsets"), "Memsets together";
        words "graphs", "Graphs", 0, nested(row, "graphs"), "CUDA graphs recorded as one, together";
    };
    Part::new("devices", "Devices", figures)
        .report("rank device window_ns busy_ns idle_ns utilization streams name")
        .json("rank device name window_ns busy_ns idle_ns utilization kernels memcpys memsets graphs streams")
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
