//! Where were threads when the profiler looked? Their call stacks as a flame graph, and as a table of
//! the hottest frames.

use eframe::egui::{self, ComboBox, Key};

use super::flame_pane::{FlamePane, Unit};
use super::search::track_title;
use super::tables::range_switch_ui;
use super::{Place, View, ViewContext, ViewSpec};
use crate::analysis::stacks::{FlameTree, SampledThread, flame, sampled_threads};
use crate::analysis::totals::Scope;
use crate::command::{Command, ctrl};
use crate::job::Progress;
use crate::model::{TimeRange, Trace, TrackId};
use crate::session::{OpenTrace, TraceKey};
use crate::widget::format;
use crate::widget::table::Cell;

const SAMPLES: Unit = Unit {
    whole: "All samples",
    table: "Hottest frames",
    text: samples,
    part: |part, whole| format!("{} of {}", format::count(part.unsigned_abs()), samples(whole)),
    cell: |n| Cell::Count(n.unsigned_abs()),
    keys: ["self_samples", "total_samples"],
    help: [
        "Samples that fell into this frame itself",
        "Samples with this frame anywhere in their stack, each counted once",
    ],
    ways: ["Callers above what they call", "Where the samples fell on top, below it who called"],
    copy: "Copy all stacks as text, a line each with its number of samples: main;step;gemm 12",
};

/// What of the open traces is shown.
#[derive(Clone, Debug, PartialEq)]
struct Question {
    traces: TraceKey,
    /// In session time.
    range: Option<TimeRange>,
    /// Only this track of this trace.
    thread: Option<(u32, TrackId)>,
}

/// Its row in the table of views.
pub const SPEC: ViewSpec = ViewSpec {
    id: "samples",
    title: "CPU samples",
    help: "Show under which call stacks the samples of threads lie, as a flame graph",
    keys: &[ctrl(Key::Num6)],
    place: Place::Bottom,
    has_content: |traces| traces.iter().any(|open| !open.trace.samples.is_empty()),
    make: || Box::new(FlameView::default()),
};

/// The samples tab.
#[derive(Debug)]
pub struct FlameView {
    /// Whether the person wants the whole trace although a range is selected.
    is_whole: bool,
    thread: Option<(u32, TrackId)>,
    pane: FlamePane<Question, Vec<SampledThread>>,
}

impl Default for FlameView {
    fn default() -> Self {
        Self { is_whole: false, thread: None, pane: FlamePane::new(&SAMPLES) }
    }
}

fn samples(n: i64) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} sample{plural}", format::count(n.unsigned_abs()))
}

impl View for FlameView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        if ctx.traces.iter().all(|open| open.trace.samples.is_empty()) {
            ui.label("No CPU samples were recorded");
            ui.weak("Nsight Systems takes them with: nsys profile --sample=process-tree");
            return;
        }
        let traces = TraceKey::new(ctx.traces);
        if self.pane.question().is_some_and(|known| known.traces != traces) {
            // Threads of other traces must not be on show for one frame.
            self.pane.reset();
            self.thread = None;
        }
        let range = ctx.range.filter(|_| !self.is_whole);
        let question = Question { traces, range, thread: self.thread };
        let (traces, asked) = (ctx.traces.to_vec(), question.clone());
        self.pane.ask(&question, |_| false, move |progress| answer(&traces, &asked, progress), ctx, ui);
        ui.horizontal_wrapped(|ui| {
            range_switch_ui(&mut self.is_whole, "Count the samples in the selected time range", ctx, ui);
            ui.separator();
            self.thread_ui(ctx, ui);
            ui.separator();
            self.pane.tools_ui(ui);
        });
        if self.pane.has_crashed(&question) {
            ui.label("The flame graph crashed. Please report it");
            return;
        }
        let Some(shown) = self.pane.shown() else { return };
        if shown.tree.total() == 0 {
            ui.label("No sample of these threads lies in the selected time range");
            ui.weak("Choose the whole trace or all threads above, or press Escape to clear the range");
            return;
        }
        self.pane.body_ui(ui);
    }

    fn is_pending(&self) -> bool {
        self.pane.is_pending()
    }

    fn run(&mut self, command: &Command, _ctx: &mut ViewContext<'_>) -> bool {
        self.pane.run(command)
    }
}

impl FlameView {
    fn thread_ui(&mut self, ctx: &ViewContext<'_>, ui: &mut egui::Ui) {
        let Some(shown) = self.pane.shown() else { return };
        let threads = &shown.extra;
        let name = |(trace, track): (u32, TrackId)| thread_name(ctx.traces, trace as usize, track);
        let chosen = self.thread.map_or_else(|| "All threads".to_owned(), name);
        let chooser = ComboBox::from_id_salt("thread of samples").selected_text(&chosen).width(150.0).truncate();
        let response = chooser.show_ui(ui, |ui| {
            let all: i64 = threads.iter().map(|thread| thread.samples).sum();
            ui.selectable_value(&mut self.thread, None, format!("All threads, {}", samples(all)));
            for thread in threads {
                let key = (thread.trace, thread.track);
                let label = format!("{}, {}", name(key), samples(thread.samples));
                ui.selectable_value(&mut self.thread, Some(key), label);
            }
        });
        let label = format!("Thread: {chosen}");
        response.response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::ComboBox, true, &label));
        response.response.on_hover_text("Whose samples are shown");
    }
}

fn answer(traces: &[OpenTrace], asked: &Question, progress: &Progress) -> (FlameTree, Vec<SampledThread>) {
    let is_cancelled = || progress.is_cancelled();
    let models: Vec<&Trace> = traces.iter().map(|open| &*open.trace).collect();
    let in_trace =
        |range: TimeRange| traces.iter().map(|open| range.shifted(open.offset.saturating_neg())).collect::<Vec<_>>();
    let scope = Scope { traces: &models, ranges: asked.range.map(in_trace), is_cancelled: &is_cancelled };
    (flame(&scope, asked.thread), sampled_threads(&scope))
}

/// A thread by its name, without saying that its track is one of samples.
fn thread_name(traces: &[OpenTrace], trace: usize, track: TrackId) -> String {
    let Some(open) = traces.get(trace) else { return String::new() };
    let name = open.trace.track(track).name.as_str();
    track_title(traces, trace, name.strip_suffix(": samples").unwrap_or(name))
}
