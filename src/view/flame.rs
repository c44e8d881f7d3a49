//! The samples of threads by call stack: a flame graph, and a table of the hottest frames.

use eframe::egui::{self, ComboBox, Key};

use super::flame_pane::{FlamePane, Unit, Weights};
use super::tables::range_switch_ui;
use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::analysis::stacks::{FlameTree, SampledThread, flame, sampled_threads};
use crate::analysis::totals::Scope;
use crate::answers::{Subject as _, SubjectKey, Work};
use crate::command::{Command, ctrl};
use crate::figures::format;
use crate::figures::stacks;
use crate::model::{TimeRange, Trace, TrackId};
use crate::session::{OpenTrace, track_title};
use crate::view::states::{answer_ui, nothing_ui};

const SAMPLES: Unit = Unit {
    whole: "All samples",
    table: "Hottest frames",
    text: samples,
    part: |part, whole| format!("{} of {}", format::count(part.unsigned_abs()), samples(whole)),
    weight: stacks::SAMPLES,
    ways: ["Callers above callees", "Sampled functions on top, their callers below"],
    copy: "Copy all stacks as text, one per line with its number of samples: main;step;gemm 12",
};

/// The samples to show.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Samples {
    /// In session time.
    range: Option<TimeRange>,
    /// Only this track of this trace.
    thread: Option<(u32, TrackId)>,
}

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "samples",
    title: "CPU samples",
    help: "Show the CPU samples of threads by call stack, as a flame graph",
    keys: &[ctrl(Key::Num6)],
    area: DockArea::Bottom,
    content: Content::Samples,
    make: || Box::new(FlameView::default()),
};

/// The samples tab.
#[derive(Debug, Default)]
pub struct FlameView {
    /// Whether to show the whole trace even if a range is selected.
    is_whole: bool,
    thread: Option<(u32, TrackId)>,
    /// The traces that contain `thread`.
    of: Option<SubjectKey>,
    pane: FlamePane<Samples>,
}

fn samples(n: i64) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} sample{plural}", format::count(n.unsigned_abs()))
}

impl View for FlameView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        if ctx.traces.iter().all(|open| open.trace.samples.is_empty()) {
            let how = "Record them with nsys profile --sample=process-tree";
            nothing_ui("No CPU samples were recorded", how, ui);
            return;
        }
        let of = Some(ctx.traces.key());
        if self.of != of {
            // The thread belongs to the previous traces.
            (self.of, self.thread) = (of, None);
        }
        let range = ctx.range.filter(|_| !self.is_whole);
        let (traces, wanted) = (ctx.traces, Samples { range, thread: self.thread });
        let answer = self.pane.ask(traces, &wanted, |_| false, ctx, ui);
        ui.horizontal_wrapped(|ui| {
            range_switch_ui(&mut self.is_whole, "Count the samples in the selected time range", ctx, ui);
            ui.separator();
            self.thread_ui(ctx, ui);
            ui.separator();
            self.pane.tools_ui(ctx.answers, ui);
        });
        let Some(shown) = answer_ui(&answer, "Adding up…", ui) else { return };
        if shown.tree.total() == 0 {
            let how = "Choose the whole trace or all threads above, or press Escape to clear the range";
            nothing_ui("No sample of these threads lies in the selected time range", how, ui);
            return;
        }
        self.pane.body_ui(ctx.answers, ui);
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
        response.response.on_hover_text("Thread whose samples are shown");
    }
}

impl Weights for Samples {
    type Of = [OpenTrace];
    type Extra = Vec<SampledThread>;
    const UNIT: &'static Unit = &SAMPLES;

    fn tree(&self, traces: &[OpenTrace], work: &Work<'_>) -> Option<(FlameTree, Vec<SampledThread>)> {
        let is_cancelled = || work.is_cancelled();
        let models: Vec<&Trace> = traces.iter().map(|open| &*open.trace).collect();
        let in_trace =
            |range: TimeRange| traces.iter().map(|open| range.shifted(open.offset.saturating_neg())).collect();
        let scope = Scope { traces: &models, ranges: self.range.map(in_trace), is_cancelled: &is_cancelled };
        Some((flame(&scope, self.thread), sampled_threads(&scope)))
    }
}

/// The title of a thread, without the suffix of its track of samples.
fn thread_name(traces: &[OpenTrace], trace: usize, track: TrackId) -> String {
    let Some(open) = traces.get(trace) else { return String::new() };
    let name = open.trace.track(track).name.as_str();
    track_title(traces, trace, name.strip_suffix(": samples").unwrap_or(name))
}
