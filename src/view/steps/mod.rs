//! The table of steps: how long each took and what it was spent on. Choosing one makes it the selected range.

mod choose;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use eframe::egui::{self, ComboBox, RichText, TextWrapMode};

pub use choose::{BEHIND, choose, chosen, neighbor, picker_ui, source_text, source_text_of};

use super::axis::fitted;
use super::states::{failed_ui, nothing_ui};
use super::tables::{Answer as Table, Grid, file_name};
use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::analysis::steps::Steps;
use crate::answers::time::{PartsOfSteps, TraceSteps};
use crate::answers::{Analysis, Answer, Query, Work};
use crate::command::Command;
use crate::figures::format;
use crate::figures::steps::{StepsOf, found_by, left_out_text, measured_place, name_lengths, period_ns, step_list};
use crate::model::{DurNs, Trace};
use crate::session::in_order;
use crate::widget::busy::busy_ui;
use crate::widget::prose::{plain, prose_ui};
use crate::widget::table::Action;

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "steps",
    title: "Steps",
    help: "Show how long each training step took and what it was spent on",
    keys: &[],
    area: DockArea::Bottom,
    content: Content::Slices,
    make: || Box::new(StepsView::default()),
};

/// The rows of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StepTable {
    steps: TraceSteps,
    /// From trace time to session time.
    offset: DurNs,
}

#[derive(Debug)]
struct Shown {
    steps: Arc<Option<Steps>>,
    table: Arc<Table>,
}

impl Analysis for StepTable {
    type Of = Arc<Trace>;
    type Output = Shown;
    const NAME: &'static str = "The table of steps";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<Shown> {
        let found = work.get(of, &PartsOfSteps { steps: self.steps.clone(), n: 0 })?;
        let (steps, parts) = &*found;
        let of = (**steps).as_ref().map(|steps| StepsOf {
            file: None,
            rank: None,
            steps,
            parts,
            offset: self.offset,
            top: 0,
        });
        let mut data = step_list().data(of.iter().flat_map(StepsOf::rows).collect::<Vec<_>>());
        data.drop_empty_columns();
        if let Some(steps) = &**steps {
            name_lengths(steps, &mut data.columns);
        }
        Some(Shown { steps: Arc::clone(steps), table: Arc::new(Table { data, ..Table::default() }) })
    }
}

/// The steps tab.
#[derive(Debug, Default)]
pub struct StepsView {
    table: Query<StepTable>,
    /// For walks from step to step while the tab is hidden.
    steps: Query<TraceSteps>,
    grid: Grid,
    /// The chosen step that the cursor followed last.
    followed: Option<usize>,
    /// A walk that waits for the steps, forward if true.
    pending_walk: Option<bool>,
    is_waiting: bool,
}

impl StepsView {
    /// Chooses the next or the previous step, once the steps are known.
    fn walk(&mut self, ctx: &mut ViewContext<'_>, is_forward: bool) {
        self.pending_walk = None;
        let Some((_, open, wanted)) = ctx.trace_steps() else {
            return ctx.commands.push(Command::Tell("No steps: nothing ran in these files"));
        };
        match self.steps.ask(ctx.answers, &open.trace, &wanted) {
            Answer::Working(_) => self.pending_walk = Some(is_forward),
            Answer::Failed(_) => {}
            Answer::Ready(found) => {
                let Some(steps) = found.as_ref() else { return ctx.commands.push(Command::Tell(Self::no_steps(ctx))) };
                let step = neighbor(ctx, steps, open.offset, is_forward);
                choose(ctx, steps, open.offset, step);
            }
        }
    }

    /// Why there is no step to go to, and what to do.
    fn no_steps(ctx: &ViewContext<'_>) -> &'static str {
        if ctx.steps.by_marks {
            "No steps: your marks are used as steps, but there are fewer than two. M sets a mark"
        } else {
            "No steps found: nothing names or repeats them. Mark them with M and choose \"Use my marks as steps\" in \
             Steps"
        }
    }

    fn head_ui(&mut self, ctx: &mut ViewContext<'_>, steps: Option<&Steps>, is_working: bool, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
            Self::trace_ui(ctx, ui);
            if let (Some(steps), Some((_, open))) = (steps, ctx.steps.open(ctx.traces)) {
                let offset = open.offset;
                picker_ui(ctx, steps, offset, false, ui);
                for (text, help) in figures(steps) {
                    // One may be longer than a line.
                    prose_ui(ui, &text, plain).on_hover_text(help);
                }
                if let Some((source, n)) = &steps.disagreement {
                    let color = ui.visuals().warn_fg_color;
                    let text = format!("{} give {}", source.label(), format::steps(*n));
                    ui.label(RichText::new(text).color(color)).on_hover_text("Another source finds another number");
                }
            }
            let hint = "Let steps last from mark to mark. M sets a mark";
            ui.checkbox(&mut ctx.steps.by_marks, "Use my marks as steps").on_hover_text(hint);
            if steps.is_some() {
                self.grid.buttons_ui("Steps", ui);
            }
            if is_working {
                busy_ui(ui);
                ui.weak("Looking for steps…");
            }
        });
    }

    /// Which of several traces.
    fn trace_ui(ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let Some((shown, _)) = ctx.steps.open(ctx.traces) else { return };
        let mut order = in_order(ctx.traces);
        order.retain(|&trace| ctx.traces[trace].has_events());
        if order.len() < 2 {
            return;
        }
        let combo =
            ComboBox::from_id_salt("steps of").selected_text(file_name(ctx.traces, shown)).truncate().width(200.0);
        let combo = combo.show_ui(ui, |ui| {
            for index in order {
                if ui.selectable_label(index == shown, file_name(ctx.traces, index)).clicked() {
                    ctx.steps.trace = Some(index);
                }
            }
        });
        combo
            .response
            .on_hover_text("The file whose steps are listed here and shown below the ruler of the timeline")
            .accessible_name("File of the steps");
    }

    /// The cursor follows the chosen step.
    fn follow(&mut self, ctx: &ViewContext<'_>, steps: &Steps, offset: DurNs) {
        let chosen = chosen(steps, offset, *ctx.range);
        if self.followed != chosen {
            self.followed = chosen;
            match chosen {
                Some(step) => self.grid.go(step),
                None => self.grid.leave(),
            }
        }
    }
}

/// What is said of all steps, each with its explanation.
fn figures(steps: &Steps) -> Vec<(String, Cow<'static, str>)> {
    let n = steps.len();
    let mut all = vec![
        (format!("{} by {}", format::steps(n), found_by(steps)), "What divides the recording into steps".into()),
        (
            format!("{:.0} % regular", steps.regularity * 100.0),
            "Share of steps that take the median duration, give or take a tenth; of a repeating sequence, the share \
             that repeats the step before"
                .into(),
        ),
    ];
    if let Some(durations) = steps.durations.filter(|durations| durations.calls > 0) {
        let mean = format::duration(durations.mean_ns);
        let interval = steps.ci95_ns().map(|ns| format!(" ± {} (95 %)", format::duration(ns))).unwrap_or_default();
        let help = match steps.is_of_completions() {
            true => {
                "Mean duration of the judged steps, from completion to completion on the slowest device, since the \
                 host runs ahead of it; with its 95 % t-interval"
            }
            false => {
                "Mean length of the judged steps, with its 95 % t-interval. What findings, gaps and phases say per \
                 step is of the time from the start of one step to the start of the next"
            }
        };
        all.push((format!("Mean {mean}{interval}{}", measured_place(steps)), help.into()));
        let period = period_ns(steps).map(|ns| {
            let help = "So long is a step of findings, gaps and phases: with the time between the ranges of the steps";
            (format!("{} from start to start", format::duration(ns)), help.into())
        });
        all.extend(period);
        all.push((
            format!("Median {}", format::duration(durations.median_ns)),
            "Median duration of the judged steps".into(),
        ));
        let [min, max] = [durations.min_ns, durations.max_ns].map(format::duration);
        all.push((format!("Range {min} to {max}"), "The shortest and the longest of the judged steps".into()));
        let std =
            durations.std_ns.map(|ns| (format!("Std. dev. {}", format::duration(ns)), "Of the judged steps".into()));
        all.extend(std);
    }
    if steps.used.len() < n {
        let text = format!("{} of them count", format::count(steps.used.len() as u64));
        all.push((text, left_out_text(steps).into()));
    }
    let outliers = steps.used.clone().filter(|&step| steps.is_outlier(step)).count();
    if outliers > 0 {
        let text = format!("{} outlier{}", format::count(outliers as u64), if outliers == 1 { "" } else { "s" });
        all.push((text, "Durations more than three scaled median deviations and a twentieth from the median".into()));
    }
    all
}

impl View for StepsView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        let Some((_, open, steps)) = ctx.trace_steps() else {
            nothing_ui("Nothing ran in these files", "Steps are found in what hosts and devices did", ui);
            return;
        };
        let offset = open.offset;
        let answer = self.table.ask(ctx.answers, &open.trace, &StepTable { steps, offset });
        let is_working = answer.is_working();
        let shown = answer.newest().cloned();
        let steps = shown.as_ref().and_then(|shown| shown.steps.as_ref().as_ref());
        self.head_ui(ctx, steps, is_working, ui);
        self.is_waiting = is_working;
        if let Answer::Failed(why) = &answer {
            failed_ui(why, ui);
        }
        let Some(shown) = &shown else { return };
        let Some(steps) = steps else {
            let how = if ctx.steps.by_marks {
                "Set at least two marks with M"
            } else {
                "No range is a step by its name, and no sequence was found that repeats over most of the recording"
            };
            if !is_working {
                nothing_ui("No steps found", how, ui);
            }
            return;
        };
        self.is_waiting |= self.grid.update(&shown.table, ctx.answers);
        self.grid.poll_text(ctx.commands, ui.ctx());
        self.follow(ctx, steps, offset);
        match self.grid.ui("Steps", Some("Zoom to step"), ui) {
            Some(Action::Select(step)) => {
                choose(ctx, steps, offset, step);
                self.followed = Some(step);
            }
            Some(Action::Open(step)) => {
                choose(ctx, steps, offset, step);
                self.followed = Some(step);
                if let Some(range) = *ctx.range {
                    ctx.navigation.go(fitted(range, 0.1, ctx.span));
                }
            }
            _ => {}
        }
    }

    fn update(&mut self, ctx: &mut ViewContext<'_>, _: &egui::Context) {
        if let Some(is_forward) = self.pending_walk {
            self.walk(ctx, is_forward);
        }
    }

    fn is_pending(&self) -> bool {
        self.is_waiting || self.pending_walk.is_some()
    }

    fn run_hidden(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        match command {
            Command::NextStep => self.walk(ctx, true),
            Command::PreviousStep => self.walk(ctx, false),
            _ => return false,
        }
        true
    }
}
