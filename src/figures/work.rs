//! Work of the device and of the host, summed by name: kernels, operators, calls, copies, annotations.

use super::{Cell, Figure, Part, format, number, words};
use crate::analysis::annotations::AnnotationTotals;
use crate::analysis::copies::CopyTotals;
use crate::analysis::kernels::KernelTotals;
use crate::analysis::operators::OperatorTotals;
use crate::analysis::totals::{Durations, Group};
use crate::model::{Launch, SliceKind};

/// Calls of one function.
pub type Calls = Group<(String, SliceKind)>;

/// Rows that sum the durations of slices.
pub trait Timed {
    fn durations(&self) -> &Durations;
}

impl<K> Timed for Group<K> {
    fn durations(&self) -> &Durations {
        &self.durations
    }
}

impl Timed for KernelTotals {
    fn durations(&self) -> &Durations {
        &self.durations
    }
}

impl Timed for CopyTotals {
    fn durations(&self) -> &Durations {
        &self.durations
    }
}

impl Timed for AnnotationTotals {
    fn durations(&self) -> &Durations {
        &self.durations
    }
}

fn calls_figure<R: Timed>() -> Figure<R> {
    number("calls", "Calls", 60, "How often it ran", |row| Cell::Count(row.durations().calls))
}

fn total<R: Timed>() -> Figure<R> {
    number("total_ns", "Total", 84, "Sum of the durations", |row| Cell::Ns(row.durations().total_ns))
}

fn spread<R: Timed>() -> [Figure<R>; 5] {
    [
        number("mean_ns", "Mean", 84, "Mean duration", |row| Cell::Ns(row.durations().mean_ns)),
        number("median_ns", "Median", 84, "The middle duration: half of them are shorter", |row| {
            Cell::Ns(row.durations().median_ns)
        }),
        number("min_ns", "Min", 84, "The shortest duration", |row| Cell::Ns(row.durations().min_ns)),
        number("max_ns", "Max", 84, "The longest duration", |row| Cell::Ns(row.durations().max_ns)),
        number("std_ns", "Std", 84, "Standard deviation of the durations (of a sample, n - 1)", |row| {
            Cell::or_empty(row.durations().std_ns, Cell::Ns)
        }),
    ]
}

/// Kernels, and CUDA graphs recorded as one.
pub fn kernels() -> Part<KernelTotals> {
    const LAUNCH: &str = "Empty where the calls differ in it; By shape separates them";
    fn launch(row: &KernelTotals, cell: impl Fn(Launch) -> Cell) -> Cell {
        Cell::or_empty(row.launch, cell)
    }
    let mut figures = vec![
        words("name", "Name", 330, "Name of the kernel, or of a CUDA graph recorded as one", |row: &KernelTotals| {
            Cell::name(&row.name)
        }),
        calls_figure(),
        total(),
        number("share", "Share", 62, "Part of the time of all kernels in scope, added up", |row| {
            Cell::Share(row.share)
        }),
    ];
    figures.extend(spread());
    let theoretical =
        "Theoretical occupancy: warps that fit on a multiprocessor, of those it can hold; weighted by duration";
    let recorded = "Occupancy as the profiler estimated it; weighted by duration";
    figures.extend([
        number("occupancy", "Occupancy", 84, theoretical, |row: &KernelTotals| {
            Cell::or_empty(row.occupancy, Cell::Share)
        }),
        number("recorded_occupancy", "Recorded", 84, recorded, |row| {
            Cell::or_empty(row.recorded_occupancy, Cell::Share)
        }),
        number("grid", "Grid", 110, LAUNCH, |row| launch(row, |launch| Cell::Sides(launch.grid))),
        number("block", "Block", 100, LAUNCH, |row| launch(row, |launch| Cell::Sides(launch.block))),
        number("registers", "Registers", 78, "Registers of a thread. Empty where the calls differ in it", |row| {
            launch(row, |launch| Cell::Count(u64::from(launch.registers_per_thread)))
        }),
        number(
            "shared_bytes",
            "Shared",
            84,
            "Shared memory of a block, static and dynamic. Empty where the calls differ",
            |row| launch(row, |launch| Cell::Bytes(u64::from(launch.shared_bytes))),
        ),
        number("rank", "Rank", 50, "Rank of the process, where several are open", |row| Cell::number(row.place.rank)),
        number("device", "Device", 58, "Index of the device", |row| Cell::number(row.place.device)),
    ]);
    #[rustfmt::skip]
    let report: &[&str] = &[
        "rank", "device", "calls", "total_ns", "share", "mean_ns", "median_ns", "min_ns", "max_ns", "std_ns", "grid",
        "block", "registers", "shared_bytes", "occupancy", "recorded_occupancy", "name",
    ];
    #[rustfmt::skip]
    let json: &[&str] = &[
        "name", "calls", "total_ns", "mean_ns", "min_ns", "max_ns", "median_ns", "std_ns", "share", "grid", "block",
        "registers", "shared_bytes", "occupancy", "recorded_occupancy", "rank", "device",
    ];
    Part { report: Some(report), json: Some(json), ..Part::new("kernels", "Kernels", figures) }
}

/// Operators, with the device work that they launched.
pub fn operators() -> Part<OperatorTotals> {
    const DEVICE_MEMORY: &str = "Device memory allocated less freed, operators inside included";
    const HOST_MEMORY: &str = "Host memory allocated less freed, operators inside included";
    let figures = vec![
        words("name", "Name", 260, "Name of the operator", |row: &OperatorTotals| Cell::name(&row.name)),
        words("shape", "Input shapes", 220, "Shapes of the inputs", |row| {
            Cell::text(row.shapes.as_deref().unwrap_or_default())
        }),
        number("calls", "Calls", 60, "How often it ran", |row| Cell::Count(row.calls)),
        number(
            "device_total_ns",
            "Device total",
            92,
            "Time of the device work launched in it and in operators inside",
            |row| Cell::Ns(row.device_total_ns),
        ),
        number("device_self_ns", "Device self", 92, "Time of the device work that it launched itself", |row| {
            Cell::Ns(row.device_self_ns)
        }),
        number("host_total_ns", "Host total", 88, "Time on the host, operators inside included", |row| {
            Cell::Ns(row.host_total_ns)
        }),
        number("host_self_ns", "Host self", 88, "Time on the host outside what lies directly inside", |row| {
            Cell::Ns(row.host_self_ns)
        }),
        number("device_mem_bytes", "Device memory", 104, DEVICE_MEMORY, |row| {
            Cell::or_empty(row.device_bytes, Cell::Gain)
        }),
        number(
            "device_self_mem_bytes",
            "Self device memory",
            130,
            "Device memory that it allocated less freed itself",
            |row| Cell::or_empty(row.device_self_bytes, Cell::Gain),
        ),
        number("host_mem_bytes", "Host memory", 96, HOST_MEMORY, |row| Cell::or_empty(row.host_bytes, Cell::Gain)),
        number(
            "host_self_mem_bytes",
            "Self host memory",
            120,
            "Host memory that it allocated less freed itself",
            |row| Cell::or_empty(row.host_self_bytes, Cell::Gain),
        ),
    ];
    #[rustfmt::skip]
    let report: &[&str] = &[
        "calls", "device_total_ns", "device_self_ns", "host_total_ns", "host_self_ns", "device_mem_bytes",
        "host_mem_bytes", "name", "shape",
    ];
    #[rustfmt::skip]
    let json: &[&str] = &[
        "name", "shape", "calls", "host_total_ns", "host_self_ns", "device_total_ns", "device_self_ns",
        "host_mem_bytes", "device_mem_bytes",
    ];
    Part { report: Some(report), json: Some(json), ..Part::new("operators", "Operators", figures) }
}

/// Calls of CUDA's API.
pub fn apis() -> Part<Calls> {
    calls("apis", "API calls")
}

/// Calls of the operating system.
pub fn os_calls() -> Part<Calls> {
    calls("os_calls", "OS calls")
}

fn calls(key: &'static str, title: &'static str) -> Part<Calls> {
    let mut figures = vec![
        words("name", "Name", 300, "Name of the function", |row: &Calls| Cell::name(&row.key.0)),
        calls_figure(),
        total(),
        number("self_ns", "Self", 84, "Sum of the durations outside calls directly inside", |row: &Calls| {
            Cell::Ns(row.self_ns)
        }),
    ];
    figures.extend(spread());
    let report: &[&str] = &["calls", "total_ns", "mean_ns", "max_ns", "name"];
    let json: &[&str] = &["name", "calls", "total_ns", "mean_ns", "max_ns"];
    Part { report: Some(report), json: Some(json), ..Part::new(key, title, figures) }
}

/// Copies and memsets by direction.
pub fn copies() -> Part<CopyTotals> {
    let mut figures = vec![
        words("kind", "Kind", 100, "H is the host, D a device, P another device", |row: &CopyTotals| {
            Cell::name(row.kind.label())
        }),
        words(
            "pageable",
            "Host memory",
            100,
            "Pageable memory makes a copy slow and blocking; pinned does not",
            |row| Cell::or_empty(row.is_pageable, |is| Cell::Flag(is, &["pinned", "pageable"])),
        ),
        words("size_from_bytes", "Size each", 170, "Sizes from a power of two up to the next", |row| {
            Cell::text(&size_text(row.size_class))
        }),
        number("count", "Count", 60, "How many copies", |row| Cell::Count(row.durations.calls)),
        total(),
        number("bytes", "Size", 90, "Bytes moved by all of them together", |row| {
            Cell::or_empty(row.bytes, Cell::Bytes)
        }),
        number("gb_per_s", "GB/s", 110, "Bytes moved by the time it took: 10^9 bytes per second", |row| {
            Cell::or_empty(row.gb_per_s, Cell::GbPerS)
        }),
    ];
    figures.extend(spread());
    let report: &[&str] = &["count", "total_ns", "bytes", "gb_per_s", "kind", "pageable"];
    let json: &[&str] = &["kind", "count", "total_ns", "bytes", "gb_per_s", "pageable"];
    Part { report: Some(report), json: Some(json), ..Part::new("copies", "Copies", figures) }
}

/// * `class`: as in [`CopyTotals::size_class`].
fn size_text(class: Option<u64>) -> String {
    match class {
        None => String::new(),
        Some(0) => "0 B".to_owned(),
        Some(from) => format!("{} to {}", format::bytes(from as f64), format::bytes(from as f64 * 2.0)),
    }
}

/// Named ranges, with the device work that was launched in them.
pub fn annotations() -> Part<AnnotationTotals> {
    const ON_DEVICE: &str =
        "For each range from the first start to the last end of the device work that its thread launched in it";
    fn on_device(row: &AnnotationTotals, ns: i64) -> Cell {
        if row.launches == 0 { Cell::Empty } else { Cell::Ns(ns) }
    }
    let mut figures = vec![
        words("name", "Name", 260, "Name of the range", |row: &AnnotationTotals| Cell::name(&row.name)),
        words("domain", "Domain", 90, "NVTX domain", |row| Cell::text(&row.domain)),
        calls_figure(),
        total(),
        number("device_ns", "On device", 88, ON_DEVICE, |row| on_device(row, row.projected_ns)),
        number("device_busy_ns", "Device busy", 92, "Of that, the time in which any of the range's work ran", |row| {
            on_device(row, row.busy_ns)
        }),
        number("launches", "Launches", 74, "Kernels, copies and memsets that its thread launched in it", |row| {
            Cell::Count(row.launches)
        }),
    ];
    figures.extend(spread());
    let report: &[&str] = &["calls", "total_ns", "device_ns", "device_busy_ns", "launches", "domain", "name"];
    let json: &[&str] = &["name", "domain", "calls", "total_ns", "device_ns", "device_busy_ns", "launches"];
    Part { report: Some(report), json: Some(json), ..Part::new("annotations", "Annotations", figures) }
}

/// Slices related to those of a row, by name.
///
/// * `title`: what they are.
/// * `total`: where their time was spent.
pub fn related(title: &'static str, total: &'static str) -> Part<Group<String>> {
    let figures = vec![
        words("name", title, 170, "Click a row to see its longest in the timeline", |row: &Group<String>| {
            Cell::name(&row.key)
        }),
        number("calls", "Calls", 56, "How many of them", |row| Cell::Count(row.durations.calls)),
        number("total_ns", total, 84, "Sum of their own durations", |row| Cell::Ns(row.durations.total_ns)),
    ];
    Part::new("related", title, figures)
}
