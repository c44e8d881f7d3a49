//! The launcher: a command, what is recorded of it, its run with its output, and the runs before.
//!
//! The view owns the run; what it recorded opens by a command to the window as soon as it is whole.

mod armed;
mod earlier;
mod form;
mod gpus;
mod head;
mod kept;
mod opened;
mod output;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use eframe::egui::{self, Align, Frame, Panel, ScrollArea, Ui, Vec2, vec2};
use serde_json::Value;

use self::earlier::{Asked, EarlierRuns};
use self::form::{Form, Forms, Start};
use self::head::{Last, head_ui};
use self::kept::KeptOutput;
use self::opened::{
    beside_others, has_opened, have_opened, is_to_open, is_to_show, open_or_show, show_whole, told_apart,
};
use self::output::{OutputSearch, Source};
use super::{Content, DockArea, View, ViewContext, ViewSpec, flame};
use crate::capture::counters::Counters;
use crate::capture::launch::{self, LaunchError, Run, Stage, Status};
use crate::command::Command;
use crate::figures::format;
use crate::job::{Job, Poll, Progress};
use crate::session::Files;
use crate::widget::side_panel::side_panel_ui;
use crate::widget::theme;

/// Results of one run that open by themselves; others wait to be asked for.
const MAX_OPENED: usize = 8;
/// Least height below the form for earlier runs, and for a run with its output and GPUs above them, in points; where
/// less is left, all scrolls as one.
const LEAST_FOR_LIST: f32 = 120.0;
const LEAST_FOR_RUN: f32 = 400.0;
/// The height of the output, and of the earlier runs, where all scrolls as one, in points.
const LIST_HEIGHT: f32 = 180.0;
/// Where less of the list of earlier runs is in sight, in points, something else leads to it: a run, and two heads
/// above it.
const LEAST_OF_LIST: f32 = 70.0;
/// How often the elapsed time is painted anew.
const TICK: Duration = Duration::from_millis(200);

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "capture",
    title: "Capture",
    help: "Run a program, record it, and open what was recorded",
    keys: &[],
    area: DockArea::Center,
    content: Content::Machine,
    make: || Box::new(Capture::default()),
};

/// The capture tab.
#[derive(Debug, Default)]
pub struct Capture {
    forms: Forms,
    starting: Option<Job<Result<Run, LaunchError>>>,
    /// The latest run, also after its end.
    run: Option<Run>,
    /// Why the last start failed, and of which form.
    failure: Option<(Form, String)>,
    /// Results that were opened.
    opened: HashSet<PathBuf>,
    has_ended: bool,
    /// Why it failed, as far as the program said it; nothing while it runs, or if it did not fail.
    last: Option<Last>,
    /// What brings the user to what was recorded, or back to the output, once all is read: the first trace of a window
    /// takes the view's place. Nothing if the view is not in sight any more.
    once_read: Option<Command>,
    /// Whether the run is to be asked to end as soon as it has started.
    is_to_stop: bool,
    /// The height of the form in the last frame, in points.
    form_height: f32,
    /// What is to be scrolled to where all scrolls as one, since a run has just started or ended, or did not start, or
    /// a person asked for it.
    scroll_to: Option<Part>,
    /// Whether the earlier runs were below what was in sight in the last frame.
    is_list_below: bool,
    /// Whether the view was painted in the last frame.
    was_painted: bool,
    /// Whether it was in sight until now, so that it does not take the focus again.
    is_in_sight: bool,
    /// How many of its recordings were told from others that are open.
    n_told_apart: usize,
    output: OutputSearch,
    /// The output of an earlier run that is looked at instead.
    kept: Option<KeptOutput>,
    earlier: EarlierRuns,
}

/// What all scrolls to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Form,
    Run,
    Earlier,
}

impl View for Capture {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui) {
        self.was_painted = true;
        if !std::mem::replace(&mut self.is_in_sight, true) {
            self.forms.expect_command();
        }
        let status = self.run.as_ref().map(Run::status);
        let is_busy = self.has_run();
        Frame::NONE.inner_margin(8).show(ui, |ui| {
            // Else fields cannot be told from what is behind them.
            let field = theme::tokens(ui.visuals().dark_mode).stripe;
            ui.visuals_mut().text_edit_bg_color = Some(field);
            let has_output = self.run.is_some() || self.kept.is_some();
            let needed = if has_output { LEAST_FOR_RUN } else { LEAST_FOR_LIST };
            if ui.available_height() - self.form_height >= needed {
                self.form_ui(is_busy, ctx, ui);
                self.panels_ui(status.as_ref(), ctx, ui);
            } else {
                self.scrolled_ui(is_busy, status.as_ref(), ctx, ui);
            }
        });
        if is_busy {
            ui.ctx().request_repaint_after(TICK);
        }
    }

    fn update(&mut self, ctx: &mut ViewContext<'_>, _egui: &egui::Context) {
        match self.starting.as_ref().map(Job::poll) {
            None | Some(Poll::Running) => {}
            Some(Poll::Done(Ok(run))) => {
                self.forget_run();
                (self.run, self.scroll_to, self.kept) = (Some(run), Some(Part::Run), None);
                self.output.reset();
                self.earlier.look_again();
                self.starting = None;
            }
            // What ran before stays in sight.
            Some(Poll::Done(Err(error))) => self.fail(error.to_string()),
            Some(Poll::Crashed(message)) => self.fail(format!("The start crashed: {message}")),
        }
        let was_painted = std::mem::take(&mut self.was_painted);
        self.is_in_sight = was_painted;
        let Some(run) = &self.run else { return };
        if self.starting.is_none() && std::mem::take(&mut self.is_to_stop) {
            run.stop();
        }
        let status = run.status();
        for result in status.results.iter().filter(|result| is_to_open(&status, result.kind)) {
            if self.opened.len() < MAX_OPENED && self.opened.insert(result.path.clone()) {
                ctx.commands.push(Command::OpenPath(result.path.clone()));
            }
        }
        let (chosen, n_before) = (ctx.files.of(flame::SPEC.id), self.n_told_apart);
        if let Some(shown) = told_apart(ctx.traces, &status, chosen, &mut self.n_told_apart) {
            ctx.files.choose(flame::SPEC.id, Files::One(shown));
        }
        if self.n_told_apart > n_before {
            let place = if was_painted { Command::BringToFront } else { Command::PutBehind };
            ctx.commands.extend(beside_others(ctx.traces, &status).map(place));
        }
        if status.stage == Stage::Ended && !std::mem::replace(&mut self.has_ended, true) {
            self.earlier.look_again();
            // To start it again; why a program failed is said above all that scrolls.
            self.scroll_to = Some(Part::Form);
            let has_failed = status.exit.is_some_and(|exit| exit.is_failure(status.was_stopped));
            self.last = has_failed.then(|| run.with_output(Last::of));
            self.once_read = Some(if is_to_show(&status) { Command::ShowRecorded } else { Command::Show(SPEC.id) });
        }
        // What is recorded last may take longer to read than the program to end, and longer than the counters beside
        // it, which do not say what to look at.
        if !was_painted {
            self.once_read = None;
        }
        if have_opened(ctx.traces, &status, &self.opened)
            && let Some(command) = self.once_read.take()
        {
            if command == Command::ShowRecorded {
                show_whole(&status, ctx);
            }
            ctx.commands.push(command);
        }
    }

    fn has_run(&self) -> bool {
        self.starting.is_some() || self.run.as_ref().is_some_and(|run| run.status().stage < Stage::Ended)
    }

    fn run_hidden(&mut self, command: &Command, _ctx: &mut ViewContext<'_>) -> bool {
        let is_it = *command == Command::StopRun;
        self.is_to_stop |= is_it && self.has_run();
        is_it
    }

    fn is_pending(&self) -> bool {
        self.starting.is_some() || self.forms.is_pending() || self.kept.as_ref().is_some_and(KeptOutput::is_pending)
    }

    fn save(&self) -> Value {
        serde_json::to_value(&self.forms).unwrap_or_default()
    }

    fn load(&mut self, saved: &Value) {
        self.forms = crate::session::lenient(saved);
        self.forms.tidy();
    }
}

impl Capture {
    fn form_ui(&mut self, is_busy: bool, ctx: &mut ViewContext<'_>, ui: &mut Ui) {
        let top = ui.cursor().top();
        // What the form says of the command, it says until that is mended.
        let is_over = |(form, why): &(Form, String)| *form != self.forms.form || self.forms.says(why);
        self.failure.take_if(|failure| is_over(failure));
        let start = match &self.failure {
            _ if self.starting.is_some() => Start::Starting,
            _ if is_busy => Start::Busy,
            Some((_, why)) => Start::Failed(why),
            None => Start::Free,
        };
        if same_ui("capture form", ui, |ui| self.forms.ui(start, ctx.nsys, ui)) {
            self.start(ctx, ui.ctx());
        }
        ui.separator();
        let height = ui.cursor().top() - top;
        if std::mem::replace(&mut self.form_height, height) != height {
            ui.ctx().request_repaint();
        }
    }

    /// All as one that scrolls, between the state of the run and what leads to the earlier runs.
    fn scrolled_ui(&mut self, is_busy: bool, status: Option<&Status>, ctx: &mut ViewContext<'_>, ui: &mut Ui) {
        // In view wherever the rest is scrolled to.
        if let (Some(run), Some(status)) = (&self.run, status.filter(|status| self.has_head(status))) {
            head_ui(run, status, ui);
            head::why_ui(status, self.last.as_ref(), ui);
        }
        let mut scroll_to = self.scroll_to.take();
        let rect = ui.available_rect_before_wrap();
        if self.is_list_below {
            let panel = Panel::bottom(egui::Id::unique("capture below")).frame(Frame::NONE).resizable(false);
            if panel.show(ui, |ui| self.earlier.below_ui(ui)).inner {
                scroll_to = Some(Part::Earlier);
            }
        }
        let has_output = self.run.is_some() || self.kept.is_some();
        let scroll_to = |part, ui: &Ui| {
            if scroll_to == Some(part) {
                ui.scroll_to_cursor(Some(Align::TOP));
            }
        };
        // Else one would lie on the other, or have no room.
        ScrollArea::vertical().id_salt("capture").auto_shrink(false).show(ui, |ui| {
            scroll_to(Part::Form, ui);
            // The bar lies on nothing.
            ui.set_max_width((ui.available_width() - ui.spacing().scroll.bar_width).max(0.0));
            let start = ui.cursor().top();
            self.form_ui(is_busy, ctx, ui);
            let list = vec2(ui.available_width(), LIST_HEIGHT);
            if has_output {
                scroll_to(Part::Run, ui);
                self.run_ui(status, Some(list), ctx, ui);
                ui.separator();
            }
            scroll_to(Part::Earlier, ui);
            let top = ui.cursor().top();
            let is_below = self.earlier.n() > 0 && top + LEAST_OF_LIST > rect.bottom();
            if std::mem::replace(&mut self.is_list_below, is_below) != is_below {
                ui.ctx().request_repaint();
            }
            let list = vec2(list.x, LIST_HEIGHT.max(rect.height() - (top - start)));
            ui.allocate_ui(list, |ui| self.earlier_ui((status, true), ctx, ui));
        });
    }

    /// The run with its output, and the runs before below them, each as high as a person made it.
    fn panels_ui(&mut self, status: Option<&Status>, ctx: &mut ViewContext<'_>, ui: &mut Ui) {
        if self.run.is_none() && self.kept.is_none() {
            return self.earlier_ui((status, false), ctx, ui);
        }
        self.scroll_to = None;
        if let (Some(run), Some(status)) = (&self.run, status.filter(|status| self.has_head(status))) {
            head_ui(run, status, ui);
        }
        let height = ui.available_height();
        let id = egui::Id::unique("capture earlier");
        let panel = Panel::bottom(id).frame(Frame::NONE).resizable(true).min_size(80.0);
        side_panel_ui((panel, id, 1), [height * 0.35, height * 0.5], ui, |ui| {
            ui.set_min_size(ui.available_size());
            ui.add_space(4.0);
            self.earlier_ui((status, false), ctx, ui);
        });
        self.run_ui(status, None, ctx, ui);
    }

    /// Whether the state of the run is on screen: of one that ended not beside the output of another.
    fn has_head(&self, status: &Status) -> bool {
        self.kept.is_none() || status.stage < Stage::Ended
    }

    /// What is known of the run, and its output; or that of an earlier one.
    ///
    /// * `size`: that of the output, in points, where it does not fill what there is.
    fn run_ui(&mut self, status: Option<&Status>, size: Option<Vec2>, ctx: &mut ViewContext<'_>, ui: &mut Ui) {
        if let Some(status) = status.filter(|_| self.kept.is_none()) {
            // Above all that scrolls stands the first note of a run that ended.
            let n_told = usize::from(size.is_some() && status.stage == Stage::Ended);
            status_ui(status, n_told, ctx, ui);
        }
        let size = size.unwrap_or(ui.available_size());
        ui.allocate_ui(size, |ui| {
            if let Some(kept) = &mut self.kept {
                if same_ui("capture kept", ui, |ui| kept.ui(ui)) {
                    self.kept = None;
                }
            } else if let Some(run) = &self.run {
                same_ui("capture output", ui, |ui| self.output.ui(&Source::Run(run), ui));
            }
        });
    }

    /// * `is_whole`: see [`EarlierRuns::ui`].
    fn earlier_ui(&mut self, (status, is_whole): (Option<&Status>, bool), ctx: &mut ViewContext<'_>, ui: &mut Ui) {
        let latest = self.run.as_ref().map(|run| run.folder.clone());
        let is_latest = |folder: &Path| latest.as_deref() == Some(folder);
        let running = latest.as_deref().filter(|_| status.is_some_and(|status| status.stage < Stage::Ended));
        match same_ui("capture earlier", ui, |ui| self.earlier.ui((running, is_whole), &mut self.forms.form, ctx, ui)) {
            Some(Asked::Output(of)) => {
                self.kept = (!is_latest(&of.folder)).then(|| KeptOutput::new(&of, ui.ctx()));
                self.scroll_to = Some(Part::Run);
                ui.ctx().request_repaint();
            }
            Some(Asked::Form) => {
                self.scroll_to = Some(Part::Form);
                ui.ctx().request_repaint();
            }
            Some(Asked::Forget(folder)) => {
                if is_latest(&folder) {
                    self.forget_run();
                }
                self.kept.take_if(|kept| kept.folder == folder);
            }
            None => {}
        }
    }

    /// Shows nothing of the latest run any more.
    fn forget_run(&mut self) {
        (self.run, self.last) = (None, None);
        self.n_told_apart = 0;
        (self.has_ended, self.once_read) = (false, None);
        self.opened.clear();
    }

    fn fail(&mut self, why: String) {
        (self.starting, self.is_to_stop, self.scroll_to) = (None, false, Some(Part::Form));
        self.failure = Some((self.forms.form.clone(), why));
    }

    fn start(&mut self, ctx: &mut ViewContext<'_>, egui: &egui::Context) {
        self.failure = None;
        let Some(root) = launch::root() else {
            return self.fail("There is no folder for results: set XDG_DATA_HOME or HOME".to_owned());
        };
        let request = match self.forms.form.request(root, ctx.nsys) {
            Ok(request) => request,
            Err(why) => return self.fail(why),
        };
        self.forms.remember();
        // The same converts what it records.
        ctx.commands.extend(self.forms.form.own_nsys().map(Command::UseNsys));
        self.is_to_stop = false;
        let (waker, started) = (egui.clone(), egui.clone());
        let wake = move || waker.request_repaint();
        let live = Arc::clone(ctx.live);
        let beside = move |folder: &Path| Counters::start(&live, folder);
        let work = move |_: &Progress| Run::start(&request, beside, wake);
        let job = Job::spawn("launch", move || started.request_repaint(), work);
        match job {
            Ok(job) => self.starting = Some(job),
            Err(error) => self.fail(format!("No thread could be started: {error}")),
        }
    }
}

/// Paints a part whose widgets are the same in whatever it lies, so that what is open and what has the focus stays so.
fn same_ui<R>(name: &str, ui: &mut Ui, paint: impl FnOnce(&mut Ui) -> R) -> R {
    ui.scope_builder(egui::UiBuilder::new().scope_id(egui::Id::unique(name)), paint).inner
}

/// The results of the run, what is to be said of it, and the GPUs meanwhile.
///
/// * `n_told`: how many of its notes stand elsewhere.
fn status_ui(status: &Status, n_told: usize, ctx: &mut ViewContext<'_>, ui: &mut Ui) {
    if !status.results.is_empty() {
        results_ui(status, ctx, ui);
    }
    let color = theme::tokens(ui.visuals().dark_mode).severity[1];
    for note in status.notes.iter().skip(n_told) {
        ui.colored_label(color, note);
    }
    if status.stage < Stage::Ended {
        gpus::ui(ctx, ui);
    }
}

/// What was recorded so far, to be opened.
fn results_ui(status: &Status, ctx: &mut ViewContext<'_>, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        for result in &status.results {
            let size = format::bytes(result.bytes as f64);
            let open = ui.link(result.name()).on_hover_text(format!("Open {}", result.path.display()));
            if open.clicked() {
                open_or_show([result.path.clone()].into_iter(), ctx);
            }
            ui.weak(size);
        }
        if has_opened(ctx.traces, status) {
            ui.separator();
            ui.label("Opened");
            let show = ui.button("Show what was recorded");
            if show.on_hover_text("Go to the timeline and the tables; the run goes on").clicked() {
                show_whole(status, ctx);
                ctx.commands.push(Command::ShowRecorded);
            }
        }
    });
}
