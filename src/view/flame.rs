//! Time of threads by call stack as a flame graph, with a table of the heaviest frames: CPU samples, time of host
//! slices, and time of the device work that they launched.

use eframe::egui::{self, ComboBox, Key};

use super::flame_pane::{FlamePane, Unit, Weights};
use super::tables::{Many, file_switch_ui, range_switch_ui, ranges_of};
use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::analysis::call_tree::{Frames, Weigh, time_flame};
use crate::analysis::stacks::{FlameTree, ThreadWeight, Threads, flame, sampled_threads};
use crate::analysis::totals::Scope;
use crate::answers::{Subject as _, SubjectKey, Work};
use crate::command::{Command, ctrl};
use crate::figures::format;
use crate::figures::stacks;
use crate::model::{TimeRange, Trace, TrackId};
use crate::session::{Files, OpenTrace, track_title};
use crate::view::states::{answer_ui, how_to_record_gpu, nothing_ui};

const SAMPLES: Unit = Unit {
    whole: "All samples",
    table: "Hottest frames",
    text: samples,
    part: |part, whole| format!("{} of {}", format::count(part.unsigned_abs()), samples(whole)),
    weight: stacks::SAMPLES,
    ways: ["Callers above callees", "Sampled functions on top, their callers below"],
    copy: "Copy all stacks as text, one per line with its number of samples: main;step;gemm 12",
};

const HOST_TIME: Unit = Unit {
    whole: "All host time",
    text: format::duration,
    part: part_of_time,
    weight: stacks::HOST_TIME,
    ways: ["What runs inside lies below", "Self time on top, enclosing calls below"],
    copy: "Copy all stacks as text, one per line with its nanoseconds: main;step;gemm 12000",
    ..SAMPLES
};

const DEVICE_TIME: Unit = Unit {
    whole: "All device work",
    weight: stacks::DEVICE_TIME,
    ways: ["Device work below what launched it", "Device work on top, its launchers below"],
    ..HOST_TIME
};

/// What frames weigh, with its label and explanation.
const KINDS: [(Kind, &str, &str); 3] = [
    (Kind::Samples, "Samples", "CPU samples by call stack"),
    (Kind::Time(Weigh::Host), "Host time", "Time of what threads recorded: Python, ranges, operators, API calls"),
    (
        Kind::Time(Weigh::Device),
        "Device time",
        "Time of kernels, copies and memsets below what launched them, by correlation id",
    ),
];

/// Which slices are frames, with its label and explanation.
const FRAMES: [(Frames, &str, &str); 3] = [
    (Frames::All, "All frames", "Python functions where recorded (with_stack=True), ranges, operators, calls"),
    (Frames::Operators, "Operators", "Operators only, and the NVTX ranges of emit_nvtx"),
    (
        Frames::Modules,
        "Modules",
        "nn.Module where recorded (with_stack=True), and ranges such as those of NVTX. The backward pass is below the \
         module, where arrows lead to it",
    ),
];

/// The height that the graph has at least, in points.
const LEAST_GRAPH: f32 = 80.0;
/// Lines of controls that are in sight at least: half of one shows that there are more.
const LEAST_LINES: f32 = 1.5;
const ALL_THREADS: &str = "All threads";
const WITHOUT_WAITING: &str = "Without waiting threads";
/// Threads named where it is said which are left out.
const MAX_NAMED: usize = 12;

/// What frames weigh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Samples,
    Time(Weigh),
}

/// The weights to show.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stacks {
    kind: Kind,
    /// Of slices; samples have frames of their own.
    frames: Frames,
    /// In session time.
    range: Option<TimeRange>,
    files: Files,
    threads: Threads,
}

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "samples",
    title: "Flame graph",
    help: "Show host time, device time or CPU samples by call stack, operator or module, as a flame graph",
    keys: &[ctrl(Key::Num6)],
    area: DockArea::Bottom,
    content: Content::Stacks,
    make: || Box::new(FlameView::default()),
};

/// The flame graph tab.
#[derive(Debug, Default)]
pub struct FlameView {
    /// Whether to show the whole trace even if a range is selected.
    is_whole: bool,
    /// `None` before a choice: samples where there are any.
    kind: Option<Kind>,
    frames: Frames,
    threads: Threads,
    /// The traces that contain a thread in `threads`.
    of: Option<SubjectKey>,
    pane: FlamePane<Stacks>,
}

fn samples(n: i64) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} sample{plural}", format::count(n.unsigned_abs()))
}

fn part_of_time(part: i64, whole: i64) -> String {
    format!("{} of {}", format::duration(part), format::duration(whole))
}

impl View for FlameView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let of = Some(ctx.traces.key());
        if self.of != of {
            // The thread belongs to the previous traces.
            self.of = of;
            if matches!(self.threads, Threads::One(..)) {
                self.threads = Threads::default();
            }
        }
        let has_samples = ctx.traces.iter().any(|open| !open.trace.samples.is_empty());
        let default = if has_samples { Kind::Samples } else { Kind::Time(Weigh::Host) };
        let kind = self.kind.unwrap_or(default);
        let range = ctx.range.filter(|_| !self.is_whole);
        let wanted = Stacks { kind, frames: self.frames, range, files: ctx.files.of(SPEC.id), threads: self.threads };
        let answer = self.pane.ask(ctx.traces, &wanted, |_| false, ctx, ui);
        controls_ui(ui, |ui| {
            self.choices_ui(kind, ui);
            let hint = "Count the time within the selected range";
            file_switch_ui(SPEC.id, Many::Sum, ctx, ui);
            range_switch_ui(&mut self.is_whole, hint, ctx, ui);
            ui.separator();
            self.thread_ui(kind, ctx, ui);
            ui.separator();
            self.pane.tools_ui(ctx.answers, ui);
        });
        if kind == Kind::Samples && !has_samples {
            let how = "Record them with nsys profile --sample=process-tree";
            nothing_ui("No CPU samples were recorded", how, ui);
            return;
        }
        let Some(shown) = answer_ui(&answer, "Adding up…", ui) else { return };
        if shown.tree.total() == 0 {
            let (what, how) = match (kind, range.is_some() || matches!(self.threads, Threads::One(..))) {
                (Kind::Samples, _) => (
                    "No sample of these threads lies in the selected time range",
                    "Choose the whole trace or all threads above, or press Escape to clear the range",
                ),
                (Kind::Time(_), true) => (
                    "Nothing of these threads runs in the selected time range",
                    "Choose the whole trace or all threads above, or press Escape to clear the range",
                ),
                (Kind::Time(Weigh::Host), false) => (
                    "Nothing was recorded on the host",
                    "Record it with activities=[CPU, CUDA] in torch.profiler, or with nsys profile --trace=nvtx,osrt",
                ),
                (Kind::Time(Weigh::Device), false) => {
                    ("No GPU work was recorded", how_to_record_gpu(ctx.traces.iter().map(|open| &open.trace.info)))
                }
            };
            nothing_ui(what, how, ui);
            return;
        }
        self.pane.body_ui(ctx.answers, ui);
    }

    fn follows_range(&self) -> bool {
        true
    }

    fn is_pending(&self) -> bool {
        self.pane.is_pending()
    }

    fn run(&mut self, command: &Command, _ctx: &mut ViewContext<'_>) -> bool {
        self.pane.run(command)
    }
}

impl FlameView {
    fn choices_ui(&mut self, kind: Kind, ui: &mut egui::Ui) {
        for (choice, label, help) in KINDS {
            if ui.selectable_label(choice == kind, label).on_hover_text(help).clicked() {
                self.kind = Some(choice);
            }
        }
        ui.separator();
        if kind != Kind::Samples {
            for (choice, label, help) in FRAMES {
                ui.selectable_value(&mut self.frames, choice, label).on_hover_text(help);
            }
            ui.separator();
        }
    }

    fn thread_ui(&mut self, kind: Kind, ctx: &ViewContext<'_>, ui: &mut egui::Ui) {
        let Some(shown) = self.pane.shown() else { return };
        let threads = &shown.extra;
        let text = kind.unit().text;
        let name = |trace: u32, track: TrackId| thread_name(ctx.traces, trace as usize, track);
        // Device work is none that waits.
        let is_left_out = |thread: &&ThreadWeight| thread.waits && kind != Kind::Time(Weigh::Device);
        let waiting: Vec<&ThreadWeight> = threads.iter().filter(is_left_out).collect();
        let [all, left_out] = [
            threads.iter().map(|thread| thread.weight).sum::<i64>(),
            waiting.iter().map(|thread| thread.weight).sum::<i64>(),
        ];
        let chosen = match self.threads {
            Threads::One(trace, track) => name(trace, track),
            Threads::Working if !waiting.is_empty() => WITHOUT_WAITING.to_owned(),
            _ => ALL_THREADS.to_owned(),
        };
        let chooser = ComboBox::from_id_salt("thread of samples").selected_text(&chosen).width(150.0).truncate();
        let response = chooser.show_ui(ui, |ui| {
            let every = if waiting.is_empty() { Threads::Working } else { Threads::All };
            if !waiting.is_empty() {
                let label = format!("{WITHOUT_WAITING}, {}", text(all - left_out));
                ui.selectable_value(&mut self.threads, Threads::Working, label);
            }
            ui.selectable_value(&mut self.threads, every, format!("{ALL_THREADS}, {}", text(all)));
            let (working, waiting): (Vec<&ThreadWeight>, Vec<&ThreadWeight>) =
                threads.iter().partition(|thread| !is_left_out(thread));
            for thread in working.into_iter().chain(waiting) {
                let only = if is_left_out(&thread) { ", only waits" } else { "" };
                let label = format!("{}, {}{only}", name(thread.trace, thread.track), text(thread.weight));
                ui.selectable_value(&mut self.threads, Threads::One(thread.trace, thread.track), label);
            }
        });
        let label = format!("Thread: {chosen}");
        response.response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::ComboBox, true, &label));
        response.response.on_hover_text("Thread whose time or samples are shown");
        if self.threads == Threads::Working && !waiting.is_empty() {
            let names = waiting.iter().take(MAX_NAMED).map(|of| name(of.trace, of.track)).collect::<Vec<_>>();
            let more = if waiting.len() > MAX_NAMED { ", …" } else { "" };
            let threads = format::of_things(waiting.len() as u64, "waiting thread");
            let hint = "Threads that only wait, by the names of what they run, such as futex, poll or sleep. Choose \
                        all threads to see them";
            let said = egui::RichText::new(format!("Left out: {threads}, {}", text(left_out))).weak();
            ui.add(egui::Label::new(said).extend()).on_hover_text(format!("{hint}: {}{more}", names.join(", ")));
        }
    }
}

impl Kind {
    fn unit(self) -> &'static Unit {
        match self {
            Self::Samples => &SAMPLES,
            Self::Time(Weigh::Host) => &HOST_TIME,
            Self::Time(Weigh::Device) => &DEVICE_TIME,
        }
    }
}

impl Weights for Stacks {
    type Of = [OpenTrace];
    type Extra = Vec<ThreadWeight>;

    fn unit(&self) -> &'static Unit {
        self.kind.unit()
    }

    fn tree(&self, traces: &[OpenTrace], work: &Work<'_>) -> Option<(FlameTree, Vec<ThreadWeight>)> {
        let is_cancelled = || work.is_cancelled();
        let models: Vec<&Trace> = traces.iter().map(|open| &*open.trace).collect();
        let scope =
            Scope { traces: &models, ranges: ranges_of(traces, self.range, self.files), is_cancelled: &is_cancelled };
        Some(match self.kind {
            Kind::Samples => (flame(&scope, self.threads), sampled_threads(&scope)),
            Kind::Time(weigh) => time_flame(&scope, self.frames, weigh, self.threads),
        })
    }
}

/// Controls above a graph, on as many lines as they take; where that leaves too little of the height to the graph, they
/// scroll.
fn controls_ui(ui: &mut egui::Ui, show: impl FnOnce(&mut egui::Ui)) {
    let least = LEAST_LINES * ui.spacing().interact_size.y;
    // A view with less room than it needs scrolls: what is in sight counts.
    let room = ui.available_height().min(ui.clip_rect().height());
    let most = (room - LEAST_GRAPH).max(least);
    egui::ScrollArea::vertical()
        .id_salt("controls")
        .max_height(most)
        .min_scrolled_height(least)
        .auto_shrink([false, true])
        .show(ui, |ui| ui.horizontal_wrapped(show));
}

/// The title of a thread, without the suffix of its track of samples.
fn thread_name(traces: &[OpenTrace], trace: usize, track: TrackId) -> String {
    let Some(open) = traces.get(trace) else { return String::new() };
    let of = open.trace.track(track);
    let name = of.name.strip_suffix(": samples").map_or_else(|| of.title(), str::to_owned);
    track_title(traces, trace, &name)
}
