//! The report as tables: what text, Markdown, HTML and CSV have in common.

use super::keys::{Cut, File, Report};
use super::memory;
use crate::model::DurNs;

/// One value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Does not apply.
    Empty,
    /// Text from a file: to be escaped by whoever writes it.
    Text(String),
    Count(u64),
    /// Nanoseconds.
    Ns(DurNs),
    Bytes(u64),
    /// Bytes gained, negative if lost.
    Change(i64),
    /// 0 to 1.
    Share(f64),
    /// A figure whose unit is in the column's title.
    Plain(f64),
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// As in JSON, with its unit.
    pub key: &'static str,
    /// For people, without the unit: the writer adds the one it chose.
    pub title: &'static str,
}

/// One part of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// As in JSON.
    pub key: &'static str,
    pub title: &'static str,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// Rows that were left out.
    pub n_hidden: usize,
}

impl Table {
    pub fn new(key: &'static str, title: &'static str, columns: &[(&'static str, &'static str)]) -> Self {
        let columns = columns.iter().map(|&(key, title)| Column { key, title }).collect();
        Self { key, title, columns, rows: Vec::new(), n_hidden: 0 }
    }

    fn fill<T>(mut self, cut: &Cut<T>, row: impl Fn(&T) -> Vec<Cell>) -> Self {
        self.rows = cut.shown.iter().map(row).collect();
        self.n_hidden = cut.n_hidden;
        self
    }
}

/// A number with a comma every three digits: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// What became of the events of each file, and the problems met.
pub fn import_tables(files: &[File]) -> [Table; 2] {
    let mut events = Table::new(
        "files",
        "Files",
        &[
            ("format", "Format"),
            ("producer", "Producer"),
            ("rank", "Rank"),
            ("bytes", "Size"),
            ("read", "Events read"),
            ("shown", "= Shown"),
            ("merged", "+ Merged"),
            ("rejected", "+ Rejected"),
            ("path", "File"),
        ],
    );
    let mut problems = Table::new(
        "problems",
        "Import problems",
        &[
            ("severity", "Severity"),
            ("count", "Count"),
            ("first_offset", "First at byte"),
            ("reason", "Problem"),
            ("path", "File"),
        ],
    );
    for file in files {
        let rank = file.rank.map_or(Cell::Empty, |rank| Cell::Count(u64::from(rank)));
        let counts = [file.events.read, file.events.shown, file.events.merged, file.events.rejected];
        let mut row = vec![text(file.format), text(&file.producer), rank, Cell::Bytes(file.bytes)];
        row.extend(counts.map(Cell::Count));
        row.push(text(&file.path));
        events.rows.push(row);
        for problem in &file.problems {
            problems.rows.push(vec![
                text(&format!("{:?}", problem.severity).to_lowercase()),
                Cell::Count(problem.count),
                problem.first_offset.map_or(Cell::Empty, Cell::Count),
                text(&problem.reason),
                text(&file.path),
            ]);
        }
    }
    [events, problems]
}

const NAME: (&str, &str) = ("name", "Name");
const CALLS: (&str, &str) = ("calls", "Calls");
const TOTAL: (&str, &str) = ("total_ns", "Total");
const MEAN: (&str, &str) = ("mean_ns", "Mean");
const MAX: (&str, &str) = ("max_ns", "Max");
const RANK: (&str, &str) = ("rank", "Rank");
const DEVICE: (&str, &str) = ("device", "Device");

/// All tables of a report, those without rows included.
pub fn tables(report: &Report) -> Vec<Table> {
    let mut tables = Vec::from(import_tables(&report.files));
    tables.extend([clock(report), devices(report), device_work(report), kernels(report), operators(report)]);
    let columns = [
        ("count", "Count"),
        TOTAL,
        ("bytes", "Size"),
        ("gb_per_s", "GB/s"),
        ("kind", "Kind"),
        ("pageable", "Host memory"),
    ];
    tables.push(Table::new("copies", "Copies", &columns).fill(&report.copies, |copies| {
        let memory = copies.pageable.map_or(Cell::Empty, |is| text(if is { "pageable" } else { "pinned" }));
        let bytes = copies.bytes.map_or(Cell::Empty, Cell::Bytes);
        let speed = copies.gb_per_s.map_or(Cell::Empty, Cell::Plain);
        vec![Cell::Count(copies.count), Cell::Ns(copies.total_ns), bytes, speed, text(copies.kind), memory]
    }));
    for (key, title, calls) in [("apis", "API calls", &report.apis), ("os_calls", "OS calls", &report.os_calls)] {
        let columns = [CALLS, TOTAL, MEAN, MAX, NAME];
        tables.push(Table::new(key, title, &columns).fill(calls, |call| {
            let times = [call.total_ns, call.mean_ns, call.max_ns].map(Cell::Ns);
            let mut row = vec![Cell::Count(call.calls)];
            row.extend(times);
            row.push(text(&call.name));
            row
        }));
    }
    let columns = [
        CALLS,
        TOTAL,
        ("device_ns", "On device"),
        ("device_busy_ns", "Device busy"),
        ("launches", "Launches"),
        ("domain", "Domain"),
        NAME,
    ];
    tables.push(Table::new("annotations", "Annotations", &columns).fill(&report.annotations, |range| {
        let mut row = vec![Cell::Count(range.calls), Cell::Ns(range.total_ns)];
        row.extend([range.device_ns, range.device_busy_ns].map(|ns| ns.map_or(Cell::Empty, Cell::Ns)));
        row.extend([Cell::Count(range.launches), text(&range.domain), text(&range.name)]);
        row
    }));
    tables.extend(memory::tables(&report.memory));
    tables
}

fn kernels(report: &Report) -> Table {
    let columns = [
        RANK,
        DEVICE,
        CALLS,
        TOTAL,
        ("share", "Share"),
        MEAN,
        ("median_ns", "Median"),
        ("min_ns", "Min"),
        MAX,
        ("std_ns", "Std"),
        ("grid", "Grid"),
        ("block", "Block"),
        ("registers", "Registers"),
        ("shared_bytes", "Shared"),
        ("occupancy", "Occupancy"),
        ("recorded_occupancy", "Recorded"),
        NAME,
    ];
    Table::new("kernels", "Kernels", &columns).fill(&report.kernels, |kernel| {
        let number = |number: Option<u32>| number.map_or(Cell::Empty, |number| Cell::Count(u64::from(number)));
        let share = |share: Option<f64>| share.map_or(Cell::Empty, Cell::Share);
        let sides = |sides: Option<[u32; 3]>| sides.map_or(Cell::Empty, |[x, y, z]| text(&format!("{x}x{y}x{z}")));
        let mut row = vec![number(kernel.rank), number(kernel.device), Cell::Count(kernel.calls)];
        row.extend([Cell::Ns(kernel.total_ns), Cell::Share(kernel.share)]);
        row.extend([kernel.mean_ns, kernel.median_ns, kernel.min_ns, kernel.max_ns].map(Cell::Ns));
        row.extend([kernel.std_ns.map_or(Cell::Empty, Cell::Ns), sides(kernel.grid), sides(kernel.block)]);
        row.push(number(kernel.registers));
        row.push(kernel.shared_bytes.map_or(Cell::Empty, |bytes| Cell::Bytes(u64::from(bytes))));
        row.extend([share(kernel.occupancy), share(kernel.recorded_occupancy), text(&kernel.name)]);
        row
    })
}

fn operators(report: &Report) -> Table {
    let columns = [
        CALLS,
        ("device_total_ns", "Device total"),
        ("device_self_ns", "Device self"),
        ("host_total_ns", "Host total"),
        ("host_self_ns", "Host self"),
        ("device_mem_bytes", "Device memory"),
        ("host_mem_bytes", "Host memory"),
        NAME,
        ("shape", "Input shapes"),
    ];
    Table::new("operators", "Operators", &columns).fill(&report.operators, |operator| {
        let times = [operator.device_total_ns, operator.device_self_ns, operator.host_total_ns, operator.host_self_ns];
        let bytes = [operator.device_mem_bytes, operator.host_mem_bytes];
        let mut row = vec![Cell::Count(operator.calls)];
        row.extend(times.map(Cell::Ns));
        row.extend(bytes.map(|bytes| bytes.map_or(Cell::Empty, Cell::Change)));
        row.extend([text(&operator.name), text(operator.shape.as_deref().unwrap_or_default())]);
        row
    })
}

fn clock(report: &Report) -> Table {
    let columns = [("offset_ns", "Offset"), ("source", "Placed by"), ("path", "File")];
    let mut table = Table::new("clock", "Clock", &columns);
    let row = |file: &super::keys::FileClock| vec![Cell::Ns(file.offset_ns), text(file.source), text(&file.path)];
    table.rows = report.clock.per_file.iter().map(row).collect();
    table
}

fn devices(report: &Report) -> Table {
    let columns = [
        ("rank", "Rank"),
        ("device", "Device"),
        ("window_ns", "Window"),
        ("busy_ns", "= Busy"),
        ("idle_ns", "+ Idle"),
        ("utilization", "Busy share"),
        ("streams", "Streams"),
        ("name", "Name"),
    ];
    let mut table = Table::new("devices", "Devices", &columns);
    for device in &report.devices {
        let mut row = device_id(device);
        row.extend([device.window_ns, device.busy_ns, device.idle_ns].map(Cell::Ns));
        row.extend([Cell::Share(device.utilization), Cell::Count(u64::from(device.streams))]);
        row.push(device.name.as_deref().map_or(Cell::Empty, text));
        table.rows.push(row);
    }
    table
}

/// The work of each device by sort; of its own, since a device has three sorts.
fn device_work(report: &Report) -> Table {
    let columns = [
        ("rank", "Rank"),
        ("device", "Device"),
        ("kind", "Work"),
        ("count", "Count"),
        ("total_ns", "Total"),
        ("union_ns", "Time with any"),
    ];
    let mut table = Table::new("device_work", "Device work", &columns);
    for device in &report.devices {
        let work = [("kernels", device.kernels), ("memcpys", device.memcpys), ("memsets", device.memsets)];
        for (kind, work) in work.into_iter().chain(device.graphs.map(|graphs| ("graphs", graphs))) {
            let mut row = device_id(device);
            row.extend([text(kind), Cell::Count(work.count), Cell::Ns(work.total_ns), Cell::Ns(work.union_ns)]);
            table.rows.push(row);
        }
    }
    table
}

fn device_id(device: &super::keys::Device) -> Vec<Cell> {
    let rank = device.rank.map_or(Cell::Empty, |rank| Cell::Count(u64::from(rank)));
    vec![rank, Cell::Count(u64::from(device.device))]
}

pub fn text(text: &str) -> Cell {
    if text.is_empty() { Cell::Empty } else { Cell::Text(text.to_owned()) }
}
