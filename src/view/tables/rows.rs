//! What is in each table: its columns, its rows, and what to say where there are none.

use hashbrown::HashMap;

use super::grid::Answer;
use crate::analysis::annotations::annotations;
use crate::analysis::calls::{CallSort, calls};
use crate::analysis::copies::copies;
use crate::analysis::kernels::{KernelsBy, kernels};
use crate::analysis::operators::operators;
use crate::analysis::totals::{Durations, Instance, Part, Scope, group};
use crate::model::{Launch, SliceId, SliceKind, StringId, Trace};
use crate::widget::format;
use crate::widget::table::{Cell, Column, Data};

/// Which table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TableKind {
    #[default]
    Kernels,
    Operators,
    Calls,
    Copies,
    Annotations,
}

impl TableKind {
    /// Every table, in the order of the tabs.
    pub const ALL: [Self; 5] = [Self::Kernels, Self::Operators, Self::Calls, Self::Copies, Self::Annotations];

    /// What its tab says.
    pub fn label(self) -> &'static str {
        match self {
            Self::Kernels => "Kernels",
            Self::Operators => "Operators",
            Self::Calls => "Calls",
            Self::Copies => "Copies",
            Self::Annotations => "Annotations",
        }
    }

    /// Ways to see it, as (label, what it means).
    pub fn choices(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Kernels => &[
                ("By name", "One row for each full name"),
                ("By short name", "One row for each name without template and call arguments"),
                ("By shape", "One row for each full name, grid, block, registers and shared memory"),
            ],
            Self::Operators => &[
                ("By operator", "One row for each operator"),
                ("By input shapes", "One row for each operator and the shapes of its inputs"),
            ],
            Self::Calls => &[
                ("CUDA API", "Calls of the CUDA or HIP runtime and of the driver"),
                ("OS runtime", "Calls of the operating system"),
                ("Profiler overhead", "The profiler's own work, which the program without it would not do"),
            ],
            Self::Copies => &[
                ("By direction", "One row for each direction and sort of host memory"),
                ("By size", "One row for each power of two of the size as well"),
            ],
            Self::Annotations => &[],
        }
    }

    /// What to say where nothing of the sort was recorded, and how to record it.
    pub fn empty(self, choice: usize) -> [&'static str; 2] {
        match (self, choice) {
            (Self::Kernels, _) => [
                "No GPU work was recorded",
                "Record it with activities=[CPU, CUDA] in torch.profiler, or with nsys profile --trace=cuda",
            ],
            (Self::Operators, _) => {
                ["No operators were recorded", "Record them with ProfilerActivity.CPU in torch.profiler"]
            }
            (Self::Calls, 0) => [
                "No CUDA API calls were recorded",
                "Record them with activities=[CPU, CUDA] in torch.profiler, or with nsys profile --trace=cuda",
            ],
            (Self::Calls, 1) => {
                ["No calls of the operating system were recorded", "Record them with nsys profile --trace=osrt"]
            }
            (Self::Calls, _) => ["The profiler recorded no work of its own", "Not every profiler does"],
            (Self::Copies, _) => [
                "No copies or memsets were recorded",
                "Record them with activities=[CPU, CUDA] in torch.profiler, or with nsys profile --trace=cuda",
            ],
            (Self::Annotations, _) => [
                "No annotations were recorded",
                "Name ranges with torch.profiler.record_function, or with torch.cuda.nvtx and nsys profile --trace=nvtx",
            ],
        }
    }
}

/// The rows of one table. Cost: that of the analysis; not for the frame thread.
pub fn answer(kind: TableKind, choice: usize, scope: &Scope<'_>) -> Answer {
    let mut answer = match kind {
        TableKind::Kernels => kernel_rows(scope, choice),
        TableKind::Operators => operator_rows(scope, choice == 1),
        TableKind::Calls => call_rows(scope, CallSort::ALL[choice.min(2)]),
        TableKind::Copies => copy_rows(scope, choice == 1),
        TableKind::Annotations => annotation_rows(scope),
    };
    answer.data.drop_empty_columns();
    if answer.longest.is_empty() {
        answer.longest = answer.instances.iter().map(|slices| longest(scope.traces, slices)).collect();
    }
    answer
}

/// The longest of some slices; of equal ones the first.
pub fn longest(traces: &[&Trace], slices: &[Instance]) -> Instance {
    let dur = |instance: &Instance| traces[instance.trace as usize].slices.time(instance.slice).dur();
    slices.iter().copied().rev().max_by_key(dur).unwrap_or_default()
}

pub const fn text(title: &'static str, key: &'static str, width: u16, help: &'static str) -> Column {
    Column { title, key, help, width, is_text: true }
}

pub const fn figure(title: &'static str, key: &'static str, width: u16, help: &'static str) -> Column {
    Column { title, key, help, width, is_text: false }
}

const CALLS: Column = figure("Calls", "calls", 60, "How often it ran");
const TOTAL: Column = figure("Total", "total_ns", 84, "Sum of the durations");
const SPREAD: [Column; 5] = [
    figure("Mean", "mean_ns", 84, "Mean duration"),
    figure("Median", "median_ns", 84, "The middle duration: half of them are shorter"),
    figure("Min", "min_ns", 84, "The shortest duration"),
    figure("Max", "max_ns", 84, "The longest duration"),
    figure("Std", "std_ns", 84, "Standard deviation of the durations (of a sample, n - 1)"),
];

fn spread(durations: &Durations) -> [Cell; 5] {
    let Durations { mean_ns, median_ns, min_ns, max_ns, std_ns, .. } = *durations;
    let std = Cell::or_empty(std_ns, Cell::Ns);
    [Cell::Ns(mean_ns), Cell::Ns(median_ns), Cell::Ns(min_ns), Cell::Ns(max_ns), std]
}

fn number(number: Option<u32>) -> Cell {
    Cell::or_empty(number, |number| Cell::Count(u64::from(number)))
}

fn kernel_rows(scope: &Scope<'_>, choice: usize) -> Answer {
    const LAUNCH: &str = "Empty where the calls differ in it; By shape tells them apart";
    let by = [KernelsBy::Name, KernelsBy::Short, KernelsBy::Shape][choice.min(2)];
    let mut columns =
        vec![text("Kernel", "name", 330, "Name of the kernel, or of a CUDA graph recorded as one"), CALLS];
    columns.extend([TOTAL, figure("Share", "share", 62, "Part of the time of all kernels in scope, added up")]);
    columns.extend(SPREAD);
    columns.extend([
        figure(
            "Occupancy",
            "occupancy",
            84,
            "Theoretical occupancy: warps that fit on a multiprocessor, of those it can hold; weighted by duration",
        ),
        figure(
            "Recorded occ.",
            "recorded_occupancy",
            100,
            "Occupancy as the profiler estimated it; weighted by duration",
        ),
        figure("Grid", "grid", 110, LAUNCH),
        figure("Block", "block", 100, LAUNCH),
        figure("Registers", "registers_per_thread", 78, "Registers of a thread. Empty where the calls differ in it"),
        figure(
            "Shared",
            "shared_bytes",
            84,
            "Shared memory of a block, static and dynamic. Empty where the calls differ",
        ),
        figure("Rank", "rank", 50, "Rank of the process, where several are open"),
        figure("Device", "device", 58, "Index of the device"),
    ]);
    let mut answer = Answer { data: Data { columns, rows: Vec::new() }, ..Answer::default() };
    for row in kernels(scope, by) {
        let launch = row.launch;
        let sides = |sides: fn(Launch) -> [u32; 3]| Cell::or_empty(launch.map(sides), Cell::Sides);
        let mut cells = vec![Cell::text(&row.name), Cell::Count(row.durations.calls), Cell::Ns(row.durations.total_ns)];
        cells.push(Cell::Share(row.share));
        cells.extend(spread(&row.durations));
        cells.extend([row.occupancy, row.recorded_occupancy].map(|share| Cell::or_empty(share, Cell::Share)));
        cells.extend([sides(|launch| launch.grid), sides(|launch| launch.block)]);
        cells.push(number(launch.map(|launch| launch.registers_per_thread)));
        cells.push(Cell::or_empty(launch, |launch| Cell::Bytes(i64::from(launch.shared_bytes))));
        cells.extend([number(row.place.rank), number(row.place.device)]);
        answer.data.rows.push(cells);
        answer.instances.push(row.instances);
    }
    answer
}

fn operator_rows(scope: &Scope<'_>, by_shape: bool) -> Answer {
    let local = |part: &Part<'_>, i: usize| {
        let shapes = if by_shape { part.trace.facts.shapes.get(SliceId(i as u32)).copied() } else { None };
        (part.trace.slices.name[i], shapes.unwrap_or_default())
    };
    let key = |part: &Part<'_>, &(name, shapes): &(StringId, StringId)| {
        let strings = &part.trace.strings;
        (strings.get(name).to_owned(), strings.get(shapes).to_owned())
    };
    let groups = group(scope, |kind| kind == SliceKind::Operator, local, key);
    let mut instances: HashMap<(String, String), Vec<Instance>> =
        groups.into_iter().map(|group| (group.key, group.instances)).collect();
    let columns = vec![
        text("Operator", "name", 260, "Name of the operator"),
        text("Input shapes", "input_shapes", 220, "Shapes of the inputs"),
        CALLS,
        figure("Device total", "device_total_ns", 92, "Time of the device work launched in it and in operators inside"),
        figure("Device self", "device_self_ns", 92, "Time of the device work that it launched itself"),
        figure("Host total", "host_total_ns", 88, "Time on the host, operators inside included"),
        figure("Host self", "host_self_ns", 88, "Time on the host outside what lies directly inside"),
        figure("Device memory", "device_bytes", 104, "Device memory allocated less freed, operators inside included"),
        figure("Self device memory", "device_self_bytes", 130, "Device memory that it allocated less freed itself"),
        figure("Host memory", "host_bytes", 96, "Host memory allocated less freed, operators inside included"),
        figure("Self host memory", "host_self_bytes", 120, "Host memory that it allocated less freed itself"),
    ];
    let mut answer = Answer { data: Data { columns, rows: Vec::new() }, ..Answer::default() };
    for row in operators(scope, by_shape) {
        let shapes = row.shapes.clone().unwrap_or_default();
        let times = [row.device_total_ns, row.device_self_ns, row.host_total_ns, row.host_self_ns];
        let bytes = [row.device_bytes, row.device_self_bytes, row.host_bytes, row.host_self_bytes];
        let mut cells = vec![Cell::text(&row.name), Cell::text(&shapes), Cell::Count(row.calls)];
        cells.extend(times.map(Cell::Ns));
        cells.extend(bytes.map(|bytes| Cell::or_empty(bytes, Cell::Bytes)));
        answer.data.rows.push(cells);
        answer.longest.push(Instance { trace: row.longest.0 as u32, slice: row.longest.1 });
        answer.instances.push(instances.remove(&(row.name, shapes)).unwrap_or_default());
    }
    let has_shapes = answer.data.rows.iter().any(|row| row[1] != Cell::Empty);
    if by_shape && !has_shapes && !answer.data.rows.is_empty() {
        answer.note = Some("Input shapes were not recorded: record with record_shapes=True in torch.profiler");
    }
    answer
}

fn call_rows(scope: &Scope<'_>, sort: CallSort) -> Answer {
    let mut columns = vec![text("Call", "name", 300, "Name of the function"), CALLS, TOTAL];
    columns.push(figure("Self", "self_ns", 84, "Sum of the durations outside calls directly inside"));
    columns.extend(SPREAD);
    let mut answer = Answer { data: Data { columns, rows: Vec::new() }, ..Answer::default() };
    for row in calls(scope, sort) {
        let durations = &row.durations;
        let mut cells = vec![Cell::text(&row.key.0), Cell::Count(durations.calls), Cell::Ns(durations.total_ns)];
        cells.push(Cell::Ns(row.self_ns));
        cells.extend(spread(durations));
        answer.data.rows.push(cells);
        answer.instances.push(row.instances);
    }
    answer
}

fn copy_rows(scope: &Scope<'_>, by_size: bool) -> Answer {
    let mut columns = vec![
        text("Direction", "kind", 100, "H is the host, D a device, P another device"),
        text("Host memory", "host_memory", 100, "Pageable memory makes a copy slow and blocking; pinned does not"),
        text("Size each", "size_from_bytes", 170, "Sizes from a power of two up to the next"),
        figure("Count", "count", 60, "How many copies"),
        TOTAL,
        figure("Size", "bytes", 90, "Bytes moved by all of them together"),
        figure("Speed", "gb_per_s", 110, "Bytes moved by the time it took: 10^9 bytes per second"),
    ];
    columns.extend(SPREAD);
    let mut answer = Answer { data: Data { columns, rows: Vec::new() }, ..Answer::default() };
    for row in copies(scope, by_size) {
        let memory = row.is_pageable.map_or("", |is| if is { "pageable" } else { "pinned" });
        let mut cells = vec![Cell::text(row.kind.label()), Cell::text(memory), Cell::text(&size_text(row.size_class))];
        cells.extend([Cell::Count(row.durations.calls), Cell::Ns(row.durations.total_ns)]);
        cells.push(Cell::or_empty(row.bytes, |bytes| Cell::Bytes(i64::try_from(bytes).unwrap_or(i64::MAX))));
        cells.push(Cell::or_empty(row.gb_per_s, Cell::GbPerS));
        cells.extend(spread(&row.durations));
        answer.data.rows.push(cells);
        answer.instances.push(row.instances);
    }
    if answer.data.rows.iter().all(|row| row[5] == Cell::Empty) && !answer.data.rows.is_empty() {
        answer.note = Some("Sizes were not recorded, so there is no speed");
    }
    answer
}

fn size_text(class: Option<u64>) -> String {
    match class {
        None => String::new(),
        Some(0) => "0 B".to_owned(),
        Some(from) => format!("{} to {}", format::bytes(from as f64), format::bytes(from as f64 * 2.0)),
    }
}

fn annotation_rows(scope: &Scope<'_>) -> Answer {
    let mut columns = vec![
        text("Annotation", "name", 260, "Name of the range"),
        text("Domain", "domain", 90, "NVTX domain"),
        figure("Count", "count", 60, "How many ranges"),
        figure("Host total", "host_total_ns", 88, "Sum of the durations on the host"),
        figure(
            "On device",
            "device_projected_ns",
            88,
            "For each range from the first start to the last end of the device work that its thread launched in it",
        ),
        figure("Device busy", "device_busy_ns", 92, "Of that, the time in which any of the range's work ran"),
        figure("Launches", "launches", 74, "Kernels, copies and memsets that its thread launched in it"),
    ];
    columns.extend(SPREAD);
    let mut answer = Answer { data: Data { columns, rows: Vec::new() }, ..Answer::default() };
    for row in annotations(scope) {
        let on_device = |ns| if row.launches == 0 { Cell::Empty } else { Cell::Ns(ns) };
        let mut cells = vec![Cell::text(&row.name), Cell::text(&row.domain), Cell::Count(row.durations.calls)];
        cells.extend([Cell::Ns(row.durations.total_ns), on_device(row.projected_ns), on_device(row.busy_ns)]);
        cells.push(Cell::Count(row.launches));
        cells.extend(spread(&row.durations));
        answer.data.rows.push(cells);
        answer.instances.push(row.instances);
    }
    answer
}
