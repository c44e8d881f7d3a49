//! Work of the device and of the host, summed by name: kernels, operators, calls, copies, annotations.

use super::ncu::is_amd;
use super::{Cell, Figure, Part, Word, figures, format};
use crate::analysis::annotations::{AnnotationTotals, RangeStyle};
use crate::analysis::call_tree::CallTotals;
use crate::analysis::copies::CopyTotals;
use crate::analysis::kernels::{KernelSummary, KernelTotals};
use crate::analysis::libraries::LibraryCalls;
use crate::analysis::operators::OperatorTotals;
use crate::analysis::range_kernels::RangeKernels;
use crate::analysis::rules::Vendor;
use crate::analysis::tensor_cores;
use crate::analysis::totals::{Durations, Group};
use crate::model::{DurNs, Launch, MemoryCopy, SliceId, SliceKind, Trace, Track};

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

impl Timed for RangeKernels {
    fn durations(&self) -> &Durations {
        &self.durations
    }
}

impl Timed for LibraryCalls {
    fn durations(&self) -> &Durations {
        &self.durations
    }
}

impl Timed for AnnotationTotals {
    fn durations(&self) -> &Durations {
        &self.durations
    }
}

fn calls_and_total<R: Timed>() -> Vec<Figure<R>> {
    figures! { row: R;
        number "calls", "Calls", 60, Cell::Count(row.durations().calls), "How often it ran";
        with total();
    }
}

fn total<R: Timed>() -> Vec<Figure<R>> {
    figures! { row: R;
        number "total_ns", "Total", 84, Cell::Ns(row.durations().total_ns), "Sum of the durations";
    }
}

fn spread<R: Timed>() -> Vec<Figure<R>> {
    figures! { row: R;
        number "mean_ns", "Mean", 84, Cell::Ns(row.durations().mean_ns), "Mean duration";
        number "median_ns", "Median", 84, Cell::Ns(row.durations().median_ns),
            "The middle duration: half of them are shorter";
        number "min_ns", "Min", 84, Cell::Ns(row.durations().min_ns), "The shortest duration";
        number "max_ns", "Max", 84, Cell::Ns(row.durations().max_ns), "The longest duration";
        number "std_ns", "Std", 84, Cell::or_empty(row.durations().std_ns, Cell::Ns),
            "Standard deviation of the durations (of a sample, n - 1)";
    }
}

/// Kernels, and CUDA graphs recorded as one.
///
/// * `vendor`: of the devices, by which their parts are named.
pub fn kernels(vendor: Vendor) -> Part<KernelTotals> {
    let UnitNames { efficiency, efficiency_help, cores, .. } = UnitNames::of(vendor);
    const THEORETICAL: &str =
        "Theoretical occupancy: warps that fit on a multiprocessor, of those it can hold; weighted by duration";
    const RECORDED: &str = "Estimated by the profiler: the theoretical one, less for small grids; weighted by duration";
    const LAUNCH: &str = "Empty where the calls differ in it; By shape separates them";
    fn launch(row: &KernelTotals, cell: impl Fn(Launch) -> Cell) -> Cell {
        Cell::or_empty(row.launch, cell)
    }
    let figures = figures! { row: KernelTotals;
        words "name", "Name", 330, Cell::name(&row.name), "Name of the kernel, or of a CUDA graph recorded as one";
        number "rank", "Rank", 50, Cell::number(row.place.rank), "Rank of the process, where several are open";
        number "device", "Device", 58, Cell::number(row.place.device), "Index of the device";
        with calls_and_total();
        number "share", "Share", 62, Cell::Share(row.share), "Part of the time of all kernels, added up; in a selected range, of their time within it";
        with spread();
        with queue();
        number "occupancy", "Theoretical occupancy", 150, Cell::or_empty(row.occupancy, Cell::Share), THEORETICAL;
        number "recorded_occupancy", "Est. achieved occupancy", 160, Cell::or_empty(row.recorded_occupancy, Cell::Share), RECORDED;
        number "sm_efficiency", efficiency, 96, Cell::or_empty(row.sm_efficiency, Cell::Share), efficiency_help;
        words "tensor_cores", cores, 92, Cell::or_empty(row.tensor_cores, |uses| Cell::Flag(uses, &["no", "yes"])),
            tensor_cores::RULES;
        number "grid", "Grid", 110, launch(row, |launch| Cell::Sides(launch.grid)), LAUNCH;
        number "block", "Block", 100, launch(row, |launch| Cell::Sides(launch.block)), LAUNCH;
        number "registers", "Registers", 78, launch(row, |launch| Cell::number(launch.registers_per_thread)),
            "Registers of a thread. Empty where not recorded, and where the calls differ in it";
        number "shared_bytes", "Shared", 84, launch(row, |launch| Cell::or_empty(launch.shared_bytes, |n| Cell::Bytes(n.into()))),
            "Shared memory of a block, static and dynamic. Empty where not recorded, and where the calls differ";
    };
    Part::new("kernels", "Kernels", figures)
        .report(
            "rank device calls total_ns share mean_ns median_ns min_ns max_ns std_ns queue_mean_ns queue_max_ns grid \
             block registers shared_bytes occupancy recorded_occupancy sm_efficiency tensor_cores name",
        )
        .json(
            "name calls total_ns mean_ns min_ns max_ns median_ns std_ns share queued queue_mean_ns queue_median_ns \
             queue_min_ns queue_max_ns queue_std_ns grid block registers shared_bytes occupancy recorded_occupancy \
             sm_efficiency tensor_cores rank device",
        )
}

/// Empty where no call that launched a kernel was recorded, or none of them waited.
fn queue() -> Vec<Figure<KernelTotals>> {
    fn of(row: &KernelTotals, cell: impl Fn(&Durations) -> Cell) -> Cell {
        if row.queue.calls == 0 { Cell::Empty } else { cell(&row.queue) }
    }
    figures! { row: KernelTotals;
        number "queued", "Queued", 66, of(row, |queue| Cell::Count(queue.calls)),
            "How many started after the call that launched them had returned";
        number "queue_mean_ns", "Queue mean", 88, of(row, |queue| Cell::Ns(queue.mean_ns)),
            "Mean time from the end of the launching call to the start of the kernel, of those that waited";
        number "queue_median_ns", "Queue median", 96, of(row, |queue| Cell::Ns(queue.median_ns)), "The middle one of these times";
        number "queue_min_ns", "Queue min", 84, of(row, |queue| Cell::Ns(queue.min_ns)), "The shortest of these times";
        number "queue_max_ns", "Queue max", 84, of(row, |queue| Cell::Ns(queue.max_ns)), "The longest of these times";
        number "queue_std_ns", "Queue std", 84, of(row, |queue| Cell::or_empty(queue.std_ns, Cell::Ns)),
            "Standard deviation of these times (of a sample, n - 1)";
    }
}

/// What the maker of the devices calls their parts.
struct UnitNames {
    efficiency: &'static str,
    efficiency_help: &'static str,
    summary_help: &'static str,
    cores: &'static str,
}

impl UnitNames {
    fn of(vendor: Vendor) -> Self {
        match vendor {
            Vendor::Nvidia => Self {
                efficiency: "SM efficiency",
                efficiency_help: "Estimated share of multiprocessors with a block: min(blocks / SMs, 1), weighted by duration",
                summary_help: "Estimate: sum of min(blocks / SMs, 1) x duration, by the selected range, or by the time                                from each device's first kernel to its last",
                cores: "Tensor cores",
            },
            Vendor::Amd => Self {
                efficiency: "CU efficiency",
                efficiency_help: "Estimated share of compute units with a block: min(blocks / CUs, 1), weighted by duration",
                summary_help: "Estimate: sum of min(blocks / CUs, 1) x duration, by the selected range, or by the time                                from each device's first kernel to its last",
                cores: "Matrix cores",
            },
        }
    }
}

/// The maker of the devices that most kernel time is of: that of the first of `rows`, which are sorted by it.
pub fn vendor(traces: &[&Trace], rows: &[KernelTotals]) -> Vendor {
    let first = rows.first().and_then(|row| row.instances.first());
    match first.is_some_and(|one| is_amd(traces[one.trace as usize], one.slice)) {
        true => Vendor::Amd,
        false => Vendor::Nvidia,
    }
}

/// Figures of all kernels together, each with its explanation.
pub fn kernel_summary(all: &KernelSummary, vendor: Vendor) -> Vec<(String, &'static str)> {
    let UnitNames { efficiency: efficiency_name, summary_help, cores, .. } = UnitNames::of(vendor);
    const TINY: &str = "All calls of kernels whose name has a mean below 10 µs: launching one takes about as long. The \
        finding tiny_kernels counts single launches instead";
    let share = |part: i64| Cell::Share(part as f64 / all.within_ns.max(1) as f64).shown();
    let mut head = Vec::new();
    if all.calls == 0 {
        return head;
    }
    let tensor = match all.unknown_ns {
        0 => format!("{cores}: {} of kernel time", share(all.tensor_ns)),
        ns if ns >= all.within_ns => format!("{cores}: not told by the names of these kernels"),
        ns => format!("{cores}: {} of kernel time, {} unknown", share(all.tensor_ns), share(ns)),
    };
    head.push((tensor, tensor_cores::RULES));
    if let Some(efficiency) = all.sm_efficiency {
        head.push((format!("{efficiency_name}: {}", Cell::Share(efficiency).shown()), summary_help));
    }
    let of_calls = |calls: u64| Cell::Share(calls as f64 / all.calls as f64).shown();
    let (calls, ns) = all.tiny;
    let tiny = format!("Tiny: {} of calls, {} of time", of_calls(calls), share(ns));
    head.push((tiny, TINY));
    let (calls, ns) = all.slow;
    let slow = format!("Slow: {} of calls, {} of time", of_calls(calls), share(ns));
    head.push((slow, "All calls of kernels whose name has a mean above 1 ms"));
    head
}

/// Operators, with the device work that they launched.
///
/// * `has_device`: whether any device work was recorded.
pub fn operators(has_device: bool) -> Part<OperatorTotals> {
    const DEVICE_MEMORY: &str = "Device memory allocated less freed, operators inside included";
    const HOST_MEMORY: &str = "Host memory allocated less freed, operators inside included";
    let figures = figures! { row: OperatorTotals;
        words "name", "Name", 260, Cell::name(&row.name), "Name of the operator";
        words "shape", "Input shapes", 220, Cell::text(row.shapes.as_deref().unwrap_or_default()),
            "Shapes of the inputs";
        number "calls", "Calls", 60, Cell::Count(row.host.calls), "Its calls; one that only calls its own name again counts once, where key_averages of PyTorch counts both";
        number "device_total_ns", "Device total", 92, Cell::Ns(row.device_total_ns),
            "Time of the device work launched in it and in operators inside";
        number "device_self_ns", "Device self", 92, Cell::Ns(row.device_self_ns),
            "Time of the device work that it launched itself";
        number "host_total_ns", "Host total", 88, Cell::Ns(row.host.total_ns),
            "Time on the host, operators inside included";
        number "host_self_ns", "Host self", 88, Cell::Ns(row.host_self_ns),
            "Time on the host outside what lies directly inside";
        number "host_mean_ns", "Host mean", 88, Cell::Ns(row.host.mean_ns), "Mean time of its calls on the host";
        number "host_median_ns", "Host median", 92, Cell::Ns(row.host.median_ns), "The middle one of these times";
        number "host_min_ns", "Host min", 84, Cell::Ns(row.host.min_ns), "The shortest call on the host";
        number "host_max_ns", "Host max", 84, Cell::Ns(row.host.max_ns), "The longest call on the host";
        number "host_std_ns", "Host std", 84, Cell::or_empty(row.host.std_ns, Cell::Ns),
            "Standard deviation of these times (of a sample, n - 1)";
        number "device_mem_bytes", "Device memory", 104, Cell::or_empty(row.device_bytes, Cell::Gain), DEVICE_MEMORY;
        number "device_self_mem_bytes", "Self device memory", 130, Cell::or_empty(row.device_self_bytes, Cell::Gain),
            "Device memory that it allocated less freed itself";
        number "host_mem_bytes", "Host memory", 96, Cell::or_empty(row.host_bytes, Cell::Gain), HOST_MEMORY;
        number "host_self_mem_bytes", "Self host memory", 120, Cell::or_empty(row.host_self_bytes, Cell::Gain),
            "Host memory that it allocated less freed itself";
    };
    let part = Part::new("operators", "Operators", figures)
        .report(
            "calls device_total_ns device_self_ns host_total_ns host_self_ns host_mean_ns host_median_ns host_min_ns \
             host_max_ns host_std_ns device_mem_bytes host_mem_bytes name shape",
        )
        .json(
            "name shape calls host_total_ns host_self_ns host_mean_ns host_min_ns host_max_ns host_median_ns \
             host_std_ns device_total_ns device_self_ns host_mem_bytes device_mem_bytes",
        );
    of_devices(part, has_device)
}

/// The times of launched work, which nothing has without device work.
fn of_devices<R>(part: Part<R>, has_device: bool) -> Part<R> {
    if has_device { part } else { part.without("device_total_ns device_self_ns") }
}

/// The calls of a tree, each row indented below the one around it.
///
/// * `has_device`: as of [`operators`].
pub fn call_tree(has_device: bool) -> Part<CallTotals> {
    let figures = figures! { row: CallTotals;
        words "name", "Name", 330, Cell::name(&format!("{}{}", INDENT.repeat(row.depth as usize), row.name)),
            "What ran, indented below what ran around it. Sorted by another figure, the tree is a list";
        with call_times();
        words "path", "Inside of", 200, Cell::frames(&row.path), "Modules around it, innermost first";
    };
    of_devices(Part::new("call_tree", "Call tree", figures), has_device)
}

/// Indentation of a level of a tree.
pub const INDENT: &str = "\u{2003}";

/// Operators by the Python functions around them.
///
/// * `has_device`: as of [`operators`].
pub fn operator_stacks(has_device: bool) -> Part<CallTotals> {
    let figures = figures! { row: CallTotals;
        words "name", "Name", 200, Cell::name(&row.name), "Name of the operator";
        with call_times();
        words "path", "Call stack", 400, Cell::frames(&row.path), "Python functions around it, innermost first";
    };
    of_devices(Part::new("operator_stacks", "Operators by call stack", figures), has_device)
}

fn call_times() -> Vec<Figure<CallTotals>> {
    figures! { row: CallTotals;
        number "calls", "Calls", 60, Cell::Count(row.calls), "How often it ran";
        number "device_total_ns", "Device total", 92, Cell::Ns(row.device_total_ns),
            "Time of the device work launched in it and in all that ran inside";
        number "device_self_ns", "Device self", 92, Cell::Ns(row.device_self_ns),
            "Time of the device work launched in it, outside of the rows below";
        number "host_total_ns", "Host total", 88, Cell::Ns(row.host_total_ns), "Time on the host with all that ran inside";
        number "host_self_ns", "Host self", 88, Cell::Ns(row.host_self_ns), "Time on the host outside of the rows below";
    }
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
    let figures = figures! { row: Calls;
        words "name", "Name", 300, Cell::name(&row.key.0), "Name of the function";
        with calls_and_total();
        number "self_ns", "Self", 84, Cell::Ns(row.self_ns), "Sum of the durations outside calls directly inside";
        with spread();
    };
    Part::new(key, title, figures)
        .report("calls total_ns mean_ns median_ns min_ns max_ns std_ns name")
        .json("name calls total_ns mean_ns min_ns max_ns median_ns std_ns")
}

/// Copies and memsets by direction.
pub fn copies() -> Part<CopyTotals> {
    const PAGEABLE: &[&str; 2] = &["pinned", "pageable"];
    let figures = figures! { row: CopyTotals;
        words "kind", "Kind", 100, Cell::name(row.kind.label()), "H is the host, D a device, P another device";
        words "unified", "Unified memory", 110, Cell::or_empty(Some(row.is_migration).filter(|&is| is), migrated),
            "The driver copies unified memory by itself, to where it is used";
        words "pageable", "Host memory", 100, Cell::or_empty(row.is_pageable, |is| Cell::Flag(is, PAGEABLE)),
            "Pageable memory makes a copy slow and blocking; pinned does not";
        words "size_from_bytes", "Size each", 170, Cell::text(&size_text(row.size_class)),
            "Sizes from a power of two up to the next";
        number "count", "Count", 60, Cell::Count(row.durations.calls), "How many copies";
        with total();
        number "bytes", "Size", 90, Cell::or_empty(row.bytes, Cell::Bytes), "Bytes moved by all of them together";
        number "gb_per_s", "GB/s", 110, Cell::or_empty(row.gb_per_s, Cell::GbPerS),
            "Bytes moved by the time it took: 10^9 bytes per second";
        with spread();
    };
    Part::new("copies", "Copies", figures)
        .report("count total_ns mean_ns median_ns min_ns max_ns std_ns bytes gb_per_s kind pageable unified")
        .json("kind count total_ns mean_ns min_ns max_ns median_ns std_ns bytes gb_per_s pageable unified")
}

fn migrated(is: bool) -> Cell {
    Cell::Flag(is, &["", "migrated"])
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
    const ON_DEVICE: &str = "For each range from the first start to the last end of the device work that its thread launched in it; what other \
         threads launched meanwhile, as that of autograd in the backward pass, is not in it";
    fn on_device(row: &AnnotationTotals, ns: i64) -> Cell {
        if row.launches == 0 { Cell::Empty } else { Cell::Ns(ns) }
    }
    let figures = figures! { row: AnnotationTotals;
        words "name", "Name", 260, Cell::name(&row.name), "Name of the range";
        words "domain", "Domain", 90, Cell::text(&row.domain), "NVTX domain";
        words "style", "Style", 80, Cell::or_empty(row.style, |style| Cell::Word(range_style(style))),
            "Push/pop ranges nest on their thread; start/end ranges may overlap and end on another thread";
        with calls_and_total();
        number "device_ns", "On device", 88, on_device(row, row.projected_ns), ON_DEVICE;
        number "device_busy_ns", "Device busy", 92, on_device(row, row.busy_ns),
            "Of that, the time in which any of the range's work ran";
        number "launches", "Launches", 74, Cell::Count(row.launches),
            "Kernels, copies and memsets that its thread launched in it";
        with spread();
    };
    Part::new("annotations", "Annotations", figures)
        .report(
            "calls total_ns mean_ns median_ns min_ns max_ns std_ns device_ns device_busy_ns launches style domain name",
        )
        .json(
            "name domain style calls total_ns mean_ns min_ns max_ns median_ns std_ns device_ns device_busy_ns launches",
        )
}

fn range_style(style: RangeStyle) -> &'static Word {
    const PUSH_POP: Word = Word { rank: 0, key: "push_pop", label: "Push/pop" };
    const START_END: Word = Word { rank: 0, key: "start_end", label: "Start/end" };
    match style {
        RangeStyle::PushPop => &PUSH_POP,
        RangeStyle::StartEnd => &START_END,
    }
}

/// Kernels by the ranges that they were launched in.
pub fn range_kernels() -> Part<RangeKernels> {
    const CALLS: &str =
        "Kernels launched in ranges of this name; those in nested ranges are in the rows of all of them";
    let figures = figures! { row: RangeKernels;
        words "range", "Range", 200, Cell::name(&row.range), "Name of the range around the launching call";
        words "domain", "Domain", 90, Cell::text(&row.domain), "NVTX domain";
        words "name", "Kernel", 330, Cell::name(&row.kernel), "Name of the kernel, or of a CUDA graph recorded as one";
        number "calls", "Calls", 60, Cell::Count(row.durations.calls), CALLS;
        with total();
        with spread();
    };
    Part::new("range_kernels", "Kernels by range", figures)
        .report("calls total_ns mean_ns median_ns min_ns max_ns std_ns range domain name")
        .json("range domain name calls total_ns mean_ns min_ns max_ns median_ns std_ns")
}

/// Calls of libraries beside CUDA, and unified memory.
pub fn libraries() -> Part<LibraryCalls> {
    let figures = figures! { row: LibraryCalls;
        words "library", "Library", 110, Cell::text(row.library), "What was called: MPI, OpenACC, OpenMP, unified memory";
        words "name", "Name", 300, Cell::name(&row.name), "Name of the function, or of what happened";
        with calls_and_total();
        number "bytes", "Size", 90, Cell::or_empty(row.bytes, Cell::Bytes), "Bytes that migrations moved";
        number "page_faults", "Page faults", 84, Cell::or_empty(row.page_faults, Cell::Count),
            "Page faults on a device; nsys records several of one page together";
        with spread();
    };
    Part::new("libraries", "Library calls", figures)
        .report("calls total_ns mean_ns median_ns min_ns max_ns std_ns bytes page_faults library name")
        .json("library name calls total_ns mean_ns min_ns max_ns median_ns std_ns bytes page_faults")
}

/// One piece of device work, on the clock of the report.
#[derive(Debug)]
pub struct Work<'a> {
    pub trace: &'a Trace,
    pub slice: SliceId,
    /// From the trace's time to the clock of the report.
    pub offset_ns: DurNs,
}

/// Device work in the order of time.
pub fn device_work<'a>() -> Part<Work<'a>> {
    fn copy(row: &Work<'_>) -> Option<MemoryCopy> {
        row.trace.facts.copies.get(row.slice).copied()
    }
    fn launch(row: &Work<'_>, cell: impl Fn(Launch) -> Cell) -> Cell {
        let launches = &row.trace.facts.launches;
        Cell::or_empty(launches.value(launches.id(row.slice)).copied(), cell)
    }
    fn track<'a>(row: &'a Work<'_>) -> &'a Track {
        row.trace.track(row.trace.slices.track_of(row.slice))
    }
    fn queue_ns(row: &Work<'_>) -> Option<DurNs> {
        let slices = &row.trace.slices;
        let call = row.trace.launch_of(row.slice)?;
        Some(slices.ts[row.slice.idx()] - slices.end[call.idx()]).filter(|&waited| waited > 0)
    }
    let figures = figures! { row: Work<'a>;
        number "start_ns", "Start", 90, Cell::Ns(row.trace.slices.ts[row.slice.idx()].saturating_add(row.offset_ns)),
            "Start time";
        number "dur_ns", "Duration", 84, Cell::Ns(row.trace.slices.time(row.slice).dur()), "Duration";
        number "queue_ns", "Queue", 84, Cell::or_empty(queue_ns(row), Cell::Ns),
            "Time from the end of the launching call to its start, if it waited";
        words "kind", "Kind", 80, Cell::text(work_kind(row.trace.slices.kind[row.slice.idx()])), "What kind of work";
        number "rank", "Rank", 50, Cell::number(row.trace.info.rank), "Rank of the process, where several are open";
        number "device", "Device", 58, Cell::number(row.trace.process(track(row).process).device), "Index of the device";
        words "stream", "Stream", 90, Cell::text(&track(row).title()),
            "The stream it ran on";
        number "grid", "Grid", 110, launch(row, |launch| Cell::Sides(launch.grid)), "Blocks in x, y and z";
        number "block", "Block", 100, launch(row, |launch| Cell::Sides(launch.block)), "Threads of a block in x, y and z";
        number "registers", "Registers", 78, launch(row, |launch| Cell::number(launch.registers_per_thread)),
            "Registers of a thread";
        number "shared_bytes", "Shared", 84, launch(row, |launch| Cell::or_empty(launch.shared_bytes, |n| Cell::Bytes(n.into()))),
            "Shared memory of a block, static and dynamic";
        number "bytes", "Size", 90, Cell::or_empty(copy(row).and_then(|copy| copy.bytes), Cell::Bytes), "Bytes moved or set";
        words "name", "Name", 330, Cell::name(row.trace.slice_name(row.slice)), "Name of the kernel or the copy";
    };
    Part::new("device_trace", "Device work by time", figures)
}

fn work_kind(kind: SliceKind) -> &'static str {
    match kind {
        SliceKind::Memcpy => "memcpy",
        SliceKind::Memset => "memset",
        SliceKind::CudaGraph => "graph",
        _ => "kernel",
    }
}

/// Slices related to those of a row, by name.
///
/// * `title`: what they are.
/// * `total`: where their time was spent.
pub fn related(title: &'static str, total: &'static str) -> Part<Group<String>> {
    let figures = figures! { row: Group<String>;
        words "name", title, 170, Cell::name(&row.key), "Click a row to see its longest in the timeline";
        number "calls", "Calls", 56, Cell::Count(row.durations.calls), "How many of them";
        number "total_ns", total, 84, Cell::Ns(row.durations.total_ns), "Sum of their own durations";
    };
    Part::new("related", title, figures)
}
