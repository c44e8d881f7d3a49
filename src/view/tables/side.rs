//! The slices of the chosen row, and what they launched or what launched them.

use std::sync::{Arc, Weak};

use eframe::egui::{self, RichText};

use super::KEPT;
use super::grid::{Answer, Grid};
use super::pane::{copy_profile, reveal};
use super::rows::{COPY_PROFILE, TimeTable, longest};
use crate::analysis::launches::operator_of_launch;
use crate::analysis::related::{launched_in, operators_of};
use crate::analysis::totals::{Durations, Group, Instance};
use crate::answers::{self, Analysis, Query, Work};
use crate::figures::range::{SliceTime, slices};
use crate::figures::text::{display_name, track_name};
use crate::figures::{Cell, format, work};
use crate::model::{TimeRange, Trace};
use crate::session::{OpenTrace, track_title};
use crate::view::ViewContext;
use crate::view::states::failed_ui;
use crate::widget::table::Action;

/// How many slices are listed, the longest; all are counted.
const LIMIT: usize = 100_000;

/// What the slices of a row are tied to.
#[derive(Clone, Copy, Debug)]
pub enum Related {
    /// The operators that launched them.
    LaunchedBy,
    /// The device work that was launched in them.
    Launched,
}

/// Which list is on show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum List {
    #[default]
    Instances,
    Related,
}

/// One of the lists beside a row.
#[derive(Clone, Debug)]
struct Beside {
    table: Weak<Answer>,
    related: Related,
    row: usize,
    list: List,
    /// Session time; `None` is everything.
    range: Option<TimeRange>,
}

impl PartialEq for Beside {
    fn eq(&self, other: &Self) -> bool {
        // What it is related to and the range follow from the table.
        self.table.ptr_eq(&other.table) && (self.row, self.list) == (other.row, other.list)
    }
}

impl Analysis for Beside {
    type Of = [OpenTrace];
    type Output = Answer;
    const NAME: &'static str = "The list beside the table";
    const KEPT: usize = KEPT;

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Answer> {
        let table = self.table.upgrade()?;
        let slices = table.instances.get(self.row).map_or(&[][..], Vec::as_slice);
        Some(match self.list {
            List::Instances => instance_rows(of, slices, self.range),
            List::Related => related_rows(self.related, of, slices, &|| work.is_cancelled()),
        })
    }
}

/// The lists beside a table.
#[derive(Debug)]
pub struct Side {
    related: Related,
    list: List,
    beside: Query<Beside>,
    grid: Grid,
}

impl Side {
    pub fn new(table: &TimeTable) -> Self {
        let grid = Grid::new(table.has_profile.then_some(COPY_PROFILE));
        Self { related: table.related, list: List::default(), beside: Query::default(), grid }
    }

    /// Paints the list beside a row; says whether it is still to come.
    ///
    /// * `range`: that of the table, in session time.
    pub fn ui(
        &mut self,
        (table, row, range): (&Arc<Answer>, usize, Option<TimeRange>),
        ctx: &mut ViewContext<'_>,
        ui: &mut egui::Ui,
    ) -> bool {
        let Some(slices) = table.instances.get(row) else { return false };
        let wanted = Beside { table: Arc::downgrade(table), related: self.related, row, list: self.list, range };
        let is_new = self.beside.shown().is_none_or(|known| *known != wanted);
        let found = self.beside.ask(ctx.answers, ctx.traces, &wanted);
        let mut is_waiting = found.is_working();
        match found.ready() {
            Some(found) => is_waiting |= self.grid.update(found, ctx.answers),
            // Slices of another row must not be shown for this one.
            None if is_new => self.grid.reset(),
            None => {}
        }
        self.grid.poll_text(ctx.commands, ui.ctx());
        self.head_ui(table, row, slices.len(), ctx, ui);
        if let answers::Answer::Failed(why) = &found {
            failed_ui(why, ui);
            return false;
        }
        if self.list == List::Related && !is_waiting && self.grid.counts().1 == 0 {
            ui.weak("Nothing is linked to these by a correlation id");
            return false;
        }
        let asked = self.grid.ui(if self.list == List::Instances { "Instances" } else { "Related" }, None, ui);
        let instance = |at: usize| self.grid.shown().and_then(|(shown, _)| shown.longest.get(at).copied());
        match asked {
            Some(Action::Select(at) | Action::Open(at)) if let Some(instance) = instance(at) => reveal(instance, ctx),
            Some(Action::Extra(at)) if self.list == List::Instances => {
                ctx.commands.extend(instance(at).map(copy_profile));
            }
            _ => {}
        }
        is_waiting
    }

    fn head_ui(&mut self, answer: &Answer, row: usize, n: usize, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let name = answer.data.rows.get(row).and_then(|cells| cells.first()).map(Cell::shown).unwrap_or_default();
        ui.add(egui::Label::new(RichText::new(display_name(&name)).strong()).truncate());
        ui.horizontal(|ui| {
            let count = format::count(n as u64);
            let cut =
                if n > LIMIT { format!(", longest {} listed", format::count(LIMIT as u64)) } else { String::new() };
            let before = self.list;
            ui.selectable_value(&mut self.list, List::Instances, format!("Instances ({count}{cut})"))
                .on_hover_text("Each of them; click one to see it in the timeline");
            let (label, help) = match self.related {
                Related::LaunchedBy => ("Launched by", "The operators that launched them"),
                Related::Launched => {
                    ("Launched", "Kernels, copies and memsets that were launched in them, by their threads")
                }
            };
            ui.selectable_value(&mut self.list, List::Related, label).on_hover_text(help);
            if self.list != before {
                self.grid.reset();
            }
        });
        if let Some(label) = self.grid.extra {
            let hint = "Copy a command line that profiles the chosen call, else the longest, in depth";
            if ui.small_button(label).on_hover_text(hint).clicked() {
                let chosen = self.grid.shown().filter(|_| self.list == List::Instances);
                let chosen = chosen.and_then(|(shown, at)| shown.longest.get(at?).copied());
                ctx.commands.extend(chosen.or(answer.longest.get(row).copied()).map(copy_profile));
            }
        }
    }
}

/// The slices of a row, the longest first.
fn instance_rows(traces: &[OpenTrace], instances: &[Instance], range: Option<TimeRange>) -> Answer {
    let time = |instance: &Instance| {
        let open = &traces[instance.trace as usize];
        open.trace.slices.time(instance.slice).shifted(open.offset)
    };
    let mut longest = instances.to_vec();
    longest.sort_by_key(|instance| (std::cmp::Reverse(time(instance).dur()), *instance));
    longest.truncate(LIMIT);
    let row = |instance: &Instance| {
        let model = &traces[instance.trace as usize].trace;
        let track = model.track(model.slices.track_of(instance.slice));
        let (time, track) = (time(instance), track_title(traces, instance.trace as usize, &track_name(track)));
        SliceTime { time, within_ns: range.map(|range| time.intersect(range).map_or(0, TimeRange::dur)), track }
    };
    let mut data = slices().data(longest.iter().map(row));
    data.drop_empty_columns();
    Answer { data, longest, ..Answer::default() }
}

/// What the slices of a row launched, or which operators launched them.
fn related_rows(
    related: Related,
    traces: &[OpenTrace],
    slices: &[Instance],
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Answer {
    let models: Vec<&Trace> = traces.iter().map(|open| &*open.trace).collect();
    let (title, total, mut groups): (&'static str, &'static str, Vec<Group<String>>) = match related {
        Related::LaunchedBy => ("Operator", "Host total", operators_of(&models, slices, is_cancelled)),
        Related::Launched => ("Device work", "Total", launched_in(&models, slices, is_cancelled)),
    };
    if matches!(related, Related::LaunchedBy) {
        groups.extend(without_operator(&models, slices));
    }
    let data = work::related(title, total).data(&groups);
    let longest = groups.iter().map(|group| longest(&models, &group.instances)).collect();
    Answer { data, longest, ..Answer::default() }
}

/// The device work that no operator is known to have launched, so that the list accounts for all of it.
fn without_operator(traces: &[&Trace], slices: &[Instance]) -> Option<Group<String>> {
    let has_none = |one: &&Instance| operator_of_launch(traces[one.trace as usize], one.slice).is_none();
    let instances: Vec<Instance> = slices.iter().filter(has_none).copied().collect();
    let durations = Durations { calls: instances.len() as u64, ..Durations::default() };
    let key = "(launch or its operator not recorded)".to_owned();
    (!instances.is_empty()).then_some(Group { key, sums: (), durations, self_ns: 0, instances })
}
