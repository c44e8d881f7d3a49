//! The report at a glance: what text shows unless every table is asked for.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::terminal::wrapped;
use super::text;
use crate::figures::Table;
use crate::figures::format::count;

/// Rows of each list.
pub const TOP: usize = 8;

/// The most rows of a table, of all devices together, unless a list has more.
const MOST: usize = 20;

/// What the report at a glance shows of the tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct Glance {
    /// Rows of each list.
    pub top: usize,
    /// How many moments memory is listed at, besides the peak and the end.
    pub n_moments: usize,
    /// Whether kernels are told apart by their launches.
    pub by_launch: bool,
}

impl Glance {
    /// The figures of a table that are shown, all where none are named; `None` of a table that is not shown.
    fn figures(&self, key: &str) -> Option<String> {
        let figures = TABLES.iter().find(|table| table.0 == key)?.1;
        match key {
            CHANGE if self.n_moments < 2 => None,
            "kernels" if self.by_launch => Some(format!("{figures} {LAUNCH}")),
            _ => Some(figures.to_owned()),
        }
    }

    /// How many rows of a table are shown.
    fn most(&self, key: &str) -> usize {
        let most = self.top.max(MOST);
        // One device is listed at all moments, at the peak and at the end.
        if key == "by_place" && self.n_moments > 0 { most.max((self.n_moments + 2) * (self.top + 1)) } else { most }
    }
}

/// Only between two moments that are asked for.
const CHANGE: &str = "change_by_place";

/// What tells kernels of one name apart.
const LAUNCH: &str = "grid block registers shared_bytes";

/// The tables, those first that say where the time went, why devices waited and what holds the memory. Of each the
/// figures for which one line of a terminal has room; all where none are named.
const TABLES: [(&str, &str); 42] = [
    ("time_comparison", ""),
    ("compared_times", ""),
    ("compared_work", ""),
    ("compared_functions", ""),
    (
        "compared_operators",
        "file rank device device_change_ns before_device_ns after_device_ns host_change_ns before_host_ns \
         after_host_ns name",
    ),
    ("summary", ""),
    ("judged", "file rank device text dur_ns share"),
    ("memory_in_short", ""),
    ("memory_comparison", ""),
    ("compared_amounts", ""),
    ("compared_categories", ""),
    ("compared_places", "file rank device at bytes before_bytes after_bytes place"),
    ("compared_stacks", ""),
    ("findings", "severity text ceiling_ns_per_step advice"),
    ("problems", "severity count reason path"),
    ("causes", ""),
    ("clusters", "file rank device count steps total_ns ns_per_step at_most cause until place"),
    ("phases", "file rank phase total_ns share ns_per_step device_ns"),
    ("functions", ""),
    ("steps", "file rank source count dropped mean_ns period_ns median_ns min_ns max_ns"),
    (
        "oom",
        "file rank device at_ns cause requested_bytes short_by_bytes device_free_bytes reserved_bytes inactive_bytes \
         advice",
    ),
    ("leaks", "file rank device severity bytes_per_step since growth_bytes survivors stack advice"),
    (
        "growth",
        "file rank device verdict steps counted bytes_per_step since peak_bytes_per_step reserved_bytes_per_step \
         growth_bytes",
    ),
    ("outside_pytorch", "file rank device verdict start_bytes end_bytes bytes_per_second growth_bytes"),
    ("reserved_shares", ""),
    ("categories", ""),
    ("by_place", "file rank device at moment bytes count share place"),
    (CHANGE, "file rank device from to bytes before_bytes after_bytes place"),
    ("kernels", "file rank device calls total_ns share mean_ns max_ns queue_mean_ns occupancy name"),
    (
        "operators",
        "calls device_total_ns device_self_ns host_total_ns host_self_ns host_mean_ns host_max_ns name shape",
    ),
    ("copies", "count total_ns mean_ns max_ns bytes gb_per_s kind pageable"),
    ("ranks", ""),
    (
        "collectives",
        "op backend group n_ranks dtype bytes count total_ns wait_ns late_rank exposed_ns overlap alg_gb_per_s \
         bus_gb_per_s min_ns max_ns",
    ),
    ("apis", "calls total_ns mean_ns max_ns name"),
    ("os_calls", "calls total_ns mean_ns max_ns name"),
    ("libraries", "calls total_ns mean_ns max_ns bytes library name"),
    ("annotations", "calls total_ns mean_ns max_ns device_busy_ns style domain name"),
    ("devices", "file rank device window_ns busy_ns idle_ns utilization name"),
    (
        "memory",
        "file rank device source recorded events peak_allocated_bytes peak_reserved_bytes end_allocated_bytes \
         end_reserved_bytes",
    ),
    ("memory_timeline", ""),
    ("gpu_readings", ""),
    ("files", ""),
];

/// What is of all that was recorded, also where findings are of the judged steps.
const WHOLE: [(&str, &str); 10] = [
    ("clusters", "Recurring gaps, in the whole recording"),
    ("kernels", "Kernels, in the whole recording"),
    ("operators", "Operators, in the whole recording"),
    ("copies", "Copies, in the whole recording"),
    ("collectives", "Collectives, in the whole recording"),
    ("apis", "API calls, in the whole recording"),
    ("os_calls", "OS calls, in the whole recording"),
    ("libraries", "Library calls, in the whole recording"),
    ("annotations", "Annotations, in the whole recording"),
    ("devices", "Devices, in the whole recording"),
];

/// The tables that answer most, and what else there is.
///
/// * `width`: as in [`text::text`].
pub fn text(all: &[Cow<'_, Table>], glance: Glance, width: Option<usize>) -> String {
    let named = TABLES.iter().filter_map(|&(key, _)| Some((key, glance.figures(key)?)));
    let named = named.flat_map(|(key, figures)| {
        let of_key = all.iter().filter(move |table| table.key == key);
        of_key.map(move |table| Cow::Owned(cut(table, &figures, glance.most(key))))
    });
    let mut out = text::text(&named.collect::<Vec<_>>(), width);
    for line in wrapped(&rest(all, glance), width.unwrap_or(usize::MAX)) {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// The first rows of a table, with these figures.
fn cut(table: &Table, figures: &str, most: usize) -> Table {
    let mut table = table.clone();
    table.title = WHOLE.iter().find(|(key, _)| *key == table.key).map_or(table.title, |whole| whole.1);
    let is_named = |key: &str| figures.is_empty() || figures.split(' ').any(|figure| figure == key);
    let columns = &table.columns;
    table.report.retain(|&place| is_named(columns[place].key));
    table.n_hidden += table.rows.len().saturating_sub(most);
    table.rows.truncate(most);
    table
}

/// Which tables are not shown, with their rows, and how to see them.
fn rest(all: &[Cow<'_, Table>], glance: Glance) -> String {
    let left = all.iter().filter(|table| !table.is_empty() && glance.figures(table.key).is_none());
    let left: Vec<String> =
        left.map(|table| format!("{} ({})", table.title, count((table.rows.len() + table.n_hidden) as u64))).collect();
    let left = if left.is_empty() {
        String::new()
    } else {
        format!("Tables not shown here, with their rows: {}. ", left.join(", "))
    };
    let is_cut = all.iter().any(|table| table.n_hidden > 0 || table.rows.len() > glance.most(table.key));
    let more = if is_cut { "; --top 50 lists 50 rows of each; --top 0 every row of all" } else { "" };
    format!("{left}--all writes every table and figure{more}; --format json every figure exactly.")
}
