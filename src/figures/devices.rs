//! Figures of devices: busy time and work by kind.

use super::{Cell, Object, Part, number, words};
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
    let figures = vec![
        number("rank", "Rank", 50, "Rank of the process", |device: &Device<'a>| Cell::number(device.rank)),
        number("device", "Device", 58, "Index of the device", |device| Cell::Count(u64::from(device.busy.device))),
        number("window_ns", "Window", 90, "From its first start to its last end", |device| {
            Cell::Ns(device.busy.window.dur())
        }),
        number("busy_ns", "= Busy", 90, "Time in which it worked", |device| Cell::Ns(device.busy.busy_ns)),
        number("idle_ns", "+ Idle", 90, "The rest: all gaps together", |device| Cell::Ns(device.busy.idle_ns)),
        number("utilization", "Busy share", 80, "Busy share of the window", |device| {
            Cell::Share(device.busy.utilization())
        }),
        number("streams", "Streams", 70, "Streams with work", |device| Cell::Count(u64::from(device.busy.n_streams))),
        words("name", "Name", 200, "Product name", |device| Cell::text(device.name)),
        words("kernels", "Kernels", 0, "Kernels together", |device| nested(device, "kernels")),
        words("memcpys", "Copies", 0, "Copies together", |device| nested(device, "memcpys")),
        words("memsets", "Memsets", 0, "Memsets together", |device| nested(device, "memsets")),
        words("graphs", "Graphs", 0, "CUDA graphs recorded as one, together", |device| nested(device, "graphs")),
    ];
    let report: &[&str] = &["rank", "device", "window_ns", "busy_ns", "idle_ns", "utilization", "streams", "name"];
    #[rustfmt::skip]
    let json: &[&str] = &[
        "rank", "device", "name", "window_ns", "busy_ns", "idle_ns", "utilization", "kernels", "memcpys", "memsets",
        "graphs", "streams",
    ];
    Part { report: Some(report), json: Some(json), ..Part::new("devices", "Devices", figures) }
}

fn totals(work: &DeviceWork) -> Object {
    device_work().object(work, &["count", "total_ns", "union_ns"])
}

/// The work of devices by kind.
pub fn device_work() -> Part<DeviceWork> {
    let figures = vec![
        number("rank", "Rank", 50, "Rank of the process", |work: &DeviceWork| Cell::number(work.rank)),
        number("device", "Device", 58, "Index of the device", |work| Cell::Count(u64::from(work.device))),
        words("kind", "Work", 90, "Kind of work", |work| Cell::name(work.kind)),
        number("count", "Count", 70, "How many of them", |work| Cell::Count(work.totals.count)),
        number("total_ns", "Total", 84, "Sum of the durations; work at the same time counts twice", |work| {
            Cell::Ns(work.totals.total_ns)
        }),
        number("union_ns", "Time with any", 100, "Time in which at least one of them ran", |work| {
            Cell::Ns(work.totals.union_ns)
        }),
    ];
    Part::new("device_work", "Device work", figures)
}
