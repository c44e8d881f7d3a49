//! Summary of the selected time range, or of everything, by track, by name and by counter.

use std::sync::Arc;

use eframe::egui::{self, RichText, TextWrapMode};

use super::states::failed_ui;
use super::tables::{Answer as Table, Grid, Many, apart, file_name, file_switch_ui};
use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::analysis::counters::counters_in;
use crate::analysis::range_summary::{TrackSummary, join_names, range_summary};
use crate::analysis::threads::{Part, only_waits, parts};
use crate::answers::{Analysis, Answer, Query, Work};
use crate::command::Command;
use crate::figures::format;
use crate::figures::metric::Metric;
use crate::figures::range::{CounterTime, TrackTime, counters, names, tracks};
use crate::figures::readings::rank;
use crate::figures::text::track_name;
use crate::model::TimeRange;
use crate::session::{Files, OpenTrace, track_title};
use crate::widget::busy::busy_ui;

/// Which table is on show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum List {
    #[default]
    Tracks,
    Names,
    Counters,
}

impl List {
    /// What tells most of them: of memory alone, whose slices are a few annotations, its counters.
    fn first(traces: &[OpenTrace]) -> Self {
        let ran = |open: &OpenTrace| !open.trace.info.format.is_memory_only() && !open.trace.slices.is_empty();
        let is_of_counters = !traces.iter().any(ran) && Self::Counters.is_in(traces);
        if is_of_counters { Self::Counters } else { Self::Tracks }
    }

    /// Whether one of the traces may have rows of it. Of one without counters and slices, tracks are.
    fn is_in(self, traces: &[OpenTrace]) -> bool {
        let has_counters = traces.iter().any(|open| !open.trace.counters.is_empty());
        match self {
            Self::Counters => has_counters,
            Self::Tracks | Self::Names => !has_counters || traces.iter().any(|open| !open.trace.slices.is_empty()),
        }
    }
}

/// What ran in a range of session time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Summary(TimeRange, Files);

#[derive(Debug)]
struct Tables {
    tracks: Arc<Table>,
    names: Arc<Table>,
    counters: Arc<Table>,
}

impl Analysis for Summary {
    type Of = [OpenTrace];
    type Output = Tables;
    const NAME: &'static str = "The summary";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Tables> {
        Some(summarize(of, (self.0, self.1), &|| work.is_cancelled()))
    }
}

/// Its row in the table of views.
pub const SPEC: ViewSpec = ViewSpec {
    id: "range",
    title: "Range summary",
    help: "Show what ran in the selected time range, and its counters",
    keys: &[],
    area: DockArea::Bottom,
    content: Content::Ranges,
    make: || Box::new(RangeSummaryView::default()),
};

/// The range summary tab.
#[derive(Debug, Default)]
pub struct RangeSummaryView {
    summary: Query<Summary>,
    /// As the user chose it.
    chosen: Option<List>,
    list: List,
    grid: Grid,
    is_waiting: bool,
}

impl RangeSummaryView {
    fn head_ui(&mut self, range: TimeRange, is_working: bool, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            // In a narrow panel lines break between controls, not within their texts.
            ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
            for (list, label) in [(List::Tracks, "By track"), (List::Names, "By name"), (List::Counters, "Counters")] {
                if list.is_in(ctx.traces)
                    && ui.selectable_label(self.list == list, label).clicked()
                    && self.list != list
                {
                    (self.chosen, self.list) = (Some(list), list);
                    self.grid.reset();
                }
            }
            let many = if self.list == List::Names { Many::Rows } else { Many::List };
            file_switch_ui(SPEC.id, many, ctx, ui);
            let is_selected = ctx.range.is_some();
            let what = if is_selected { "selected" } else { "in all" };
            let exact = format::duration_exact(range.dur());
            let hint = "No range is selected: drag over the timeline, or press R with a slice selected";
            ui.label(RichText::new(format!("{} {what}", format::duration(range.dur()))).strong())
                .on_hover_text(if is_selected { exact } else { format!("{exact}. {hint}") });
            if is_selected && ui.button("Zoom to range").on_hover_text("Show only this time").clicked() {
                ctx.commands.push(Command::ZoomToRange);
            }
            if is_selected && ui.button("Clear range").on_hover_text("Clear the selected range").clicked() {
                *ctx.range = None;
            }
            self.grid.filter_ui("Filter by name", ui);
            self.grid.buttons_ui("Range summary", ui);
            if is_working {
                busy_ui(ui);
                ui.weak("Adding up…");
            }
        });
    }
}

/// Both tables. Cost: that of the analysis; not for the frame thread.
fn summarize(
    traces: &[OpenTrace],
    (range, files): (TimeRange, Files),
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Tables {
    let mut rows = Vec::new();
    let mut of_names = Vec::new();
    for (i, open) in traces.iter().enumerate().filter(|(i, _)| files.has(*i)) {
        let summary = range_summary(&open.trace, range.shifted(open.offset.saturating_neg()), is_cancelled);
        let parts = parts(&open.trace);
        rows.extend(summary.tracks.iter().map(|track| track_time(traces, i, track, &parts, range)));
        if files.counts(traces, i) {
            of_names.push((file_name(traces, i), summary.names));
        }
    }
    let table = |data| Table { data, ..Table::default() };
    let names = if files == Files::Apart && of_names.len() > 1 {
        let of_file = |(file, all)| (file, table(names().data(join_names(std::iter::once(all)))));
        apart(of_names.into_iter().map(of_file).collect())
    } else {
        table(names().data(join_names(of_names.into_iter().map(|(_, names)| names))))
    };
    let counters = counters().data(counter_times(traces, range, files));
    Tables { tracks: Arc::new(table(tracks().data(rows))), names: Arc::new(names), counters: Arc::new(table(counters)) }
}

/// Those that people look at first come first.
fn counter_times(traces: &[OpenTrace], range: TimeRange, files: Files) -> Vec<CounterTime<'_>> {
    let mut all = Vec::new();
    for (i, open) in traces.iter().enumerate().filter(|(i, _)| files.has(*i)) {
        let trace = &open.trace;
        for summary in counters_in(trace, range.shifted(open.offset.saturating_neg())) {
            let counter = &trace.counters[summary.counter];
            let process = trace.process(trace.track(counter.track).process).title();
            all.push(CounterTime {
                device: track_title(traces, i, &process),
                metric: Metric::of(trace, counter),
                summary,
            });
        }
    }
    all.sort_by_key(|counter| rank(&counter.metric, counter.summary.min == counter.summary.max));
    all
}

fn track_time(
    traces: &[OpenTrace],
    trace: usize,
    summary: &TrackSummary,
    parts: &[Part],
    range: TimeRange,
) -> TrackTime {
    let TrackSummary { track, count, total_ns, full_ns, self_ns, busy_ns } = *summary;
    let part = parts.get(track.0 as usize).copied().unwrap_or_default();
    let model = traces.get(trace).map(|open| &open.trace);
    let name = model.map_or_else(String::new, |model| {
        let track = model.track(track);
        format!("{}, {}", model.process(track.process).title(), track_name(track))
    });
    let waits = model.is_some_and(|model| only_waits(model.track(track), part));
    let busy = (!waits).then(|| busy_ns as f64 / range.dur().max(1) as f64);
    let role = if waits { "only waits" } else { part.words().unwrap_or_default() };
    TrackTime { track: track_title(traces, trace, &name), role, busy, count, total_ns, full_ns, self_ns }
}

impl View for RangeSummaryView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        let range = ctx.range.unwrap_or(ctx.span);
        let answer = self.summary.ask(ctx.answers, ctx.traces, &Summary(range, ctx.files.of(SPEC.id)));
        self.is_waiting = answer.is_working();
        let list = self.chosen.filter(|list| list.is_in(ctx.traces)).unwrap_or_else(|| List::first(ctx.traces));
        if std::mem::replace(&mut self.list, list) != list {
            self.grid.reset();
        }
        let table = answer.newest().map(|tables| match self.list {
            List::Tracks => &tables.tracks,
            List::Names => &tables.names,
            List::Counters => &tables.counters,
        });
        if let Some(table) = table {
            self.is_waiting |= self.grid.update(table, ctx.answers);
        }
        self.grid.poll_text(ctx.commands, ui.ctx());
        if let Answer::Failed(why) = &answer {
            failed_ui(why, ui);
            return;
        }
        self.head_ui(range, answer.is_working(), ctx, ui);
        if !answer.is_working() && table.is_some_and(|table| table.data.rows.is_empty()) {
            ui.label(match self.list {
                List::Counters => "No counter has a value in this time range",
                List::Tracks | List::Names => "Nothing ran in this time range",
            });
        } else {
            self.grid.ui("Range summary", None, ui);
        }
    }

    fn follows_range(&self) -> bool {
        true
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Cell, Rows as _, Sort, tsv};
    use crate::model::{Counter, CounterUnit, Process, ProcessId, SliceKind, TraceBuilder, Track, TrackId, TrackKind};

    #[test]
    fn the_copied_table_is_exact_and_holds_no_formula() {
        let trace = TraceBuilder::from_slices(&[
            ("main", SliceKind::Operator, "=tab\there", 0, 1_500_000),
            ("stream 7", SliceKind::Kernel, "gemm", 500_000, 1_000_000),
        ]);
        let traces = [OpenTrace::new(trace.finish(), 0)];
        let answer = summarize(&traces, (TimeRange { start: 0, end: 1_000_000 }, Files::Apart), &|| false);
        let order = answer.names.order(None, "");
        let expected = "name\tkind\tcount\ttotal_ns\tfull_ns\tself_ns\n\
                        '=tab here\tOperator\t1\t1000000\t1500000\t1000000\n\
                        gemm\tKernel\t1\t500000\t500000\t500000\n";
        assert_eq!(tsv(&*answer.names, &order), expected);
        assert_eq!(answer.tracks.data.rows[1][2].shown(), "50.0 %");
    }

    #[test]
    fn counters_are_summed_up_in_the_units_of_people() {
        let mut builder = TraceBuilder::default();
        for (i, device) in ["GPU 0", "GPU 1"].into_iter().enumerate() {
            builder.processes.push(Process { name: device.to_owned(), ..Process::default() });
            for (name, unit, value) in [
                ("Fans", CounterUnit::Plain, vec![1.0, 1.0]),
                ("Power [W]", CounterUnit::Plain, vec![100.0, 300.0]),
                ("Memory used", CounterUnit::Bytes, vec![f64::from(1 << 20), f64::from(1 << (20 + 10 * i))]),
            ] {
                let track = TrackId(builder.tracks.len() as u32);
                builder.tracks.push(Track {
                    kind: TrackKind::Counter,
                    process: ProcessId(i as u32),
                    name: name.to_owned(),
                    ..Track::default()
                });
                builder.counters.push(Counter { track, unit, ts: vec![0, 75], value, ..Counter::default() });
            }
        }
        let traces = [OpenTrace::new(builder.finish(), 0)];
        // The span ends with the last sample, so its value holds for no time.
        let answer = summarize(&traces, (TimeRange { start: 0, end: 100 }, Files::Apart), &|| false).counters;
        let row = |row: usize| answer.data.rows[row].iter().map(Cell::shown).collect::<Vec<_>>().join("|");
        // In one unit on both.
        assert_eq!(row(0), "GPU 0|Memory used|0.001|0.001|0.001|0|GiB|2");
        assert_eq!(row(1), "GPU 1|Memory used|0.001|0.001|1|0.999|GiB|2");
        assert_eq!(row(2), "GPU 0|Power|100|100|300|200|W|2");
        assert_eq!(row(5), "GPU 1|Fans|1|1|1|0||2");
    }

    #[test]
    fn threads_that_only_wait_are_said_to_and_do_not_lead_the_busy_ones() {
        let os = SliceKind::Os;
        let trace = TraceBuilder::from_slices(&[
            ("main", SliceKind::Operator, "aten::mm", 0, 600),
            ("watcher", os, "poll", 0, 1_000),
            ("stream 7", SliceKind::Kernel, "gemm", 0, 800),
            ("stream 9", SliceKind::Kernel, "copy", 0, 10),
        ]);
        let traces = [OpenTrace::new(trace.finish(), 0)];
        let answer = summarize(&traces, (TimeRange { start: 0, end: 1_000 }, Files::Apart), &|| false).tracks;
        let busiest = Sort { column: 2, is_descending: true };
        let shown = |row: u32| [1, 2].map(|column| answer.data.rows[row as usize][column].shown());
        let rows: Vec<[String; 2]> = answer.order(Some(busiest), "").into_iter().map(shown).collect();
        let expected = [["", "80.0 %"], ["", "60.0 %"], ["", "1.0 %"], ["only waits", ""]];
        assert_eq!(rows, expected, "a stream that hardly works does not wait");
    }
}
