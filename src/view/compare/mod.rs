//! Two recordings beside each other: whether a step is faster, what takes more or less time in it, and what holds more or
//! less memory.

mod memory;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use eframe::egui::{self, CentralPanel, ComboBox, Frame, Margin, Panel, ScrollArea};

use self::memory::MemoryPart;
use super::states::{failed_ui, nothing_ui, working_ui};
use super::tables::{Answer as Table, Grid, file_name, reveal};
use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::analysis::totals::Instance;
use crate::answers::compare::ComparedTime;
use crate::answers::{Analysis, Answer, Query, Work};
use crate::capture::launch::shown_time;
use crate::figures::compared_time::{
    TimeComparison, Whose, compared_functions, compared_operators, compared_times, compared_work, not_compared,
    without_counterpart,
};
use crate::figures::text::{display_name, shortened_apart};
use crate::figures::verdicts::device;
use crate::model::TimeNs;
use crate::model::memory::is_of_host;
use crate::session::{OpenTrace, in_order};
use crate::widget::prose::{plain, prose_ui};
use crate::widget::side_panel::side_panel_ui;
use crate::widget::table::Action;

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "compare",
    title: "Compare",
    help: "Show whether steps are faster in one of two open files than in the other, what takes more or less time in \
           them, and what holds more or less memory",
    keys: &[],
    area: DockArea::Bottom,
    content: Content::Pair,
    make: || Box::new(CompareView::default()),
};

/// The width from which words and tables stand side by side, in points.
const WIDE: f32 = 640.0;

/// The tables of each device of two files.
#[derive(Clone, Debug, PartialEq)]
struct Tables(ComparedTime);

#[derive(Debug)]
struct Shown {
    devices: Vec<OfDevice>,
    /// Of how many devices time is judged in each file.
    n_judged: [usize; 2],
    /// Whether it is that of devices.
    has_devices: [bool; 2],
    /// Which have no counterpart, in words; empty if all have.
    alone: String,
}

#[derive(Debug)]
struct OfDevice {
    name: String,
    text: String,
    /// In the order of [`List::ALL`].
    tables: [Arc<Table>; 4],
}

impl Analysis for Tables {
    type Of = [OpenTrace];
    type Output = Shown;
    const NAME: &'static str = "The comparison";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Self::Output> {
        let found = work.get(of, &self.0)?;
        let base_rank = of[self.0.pair[0]].trace.info.rank;
        let devices = found.devices.iter().map(|one| {
            let rank = of[self.0.pair[1]].trace.info.rank;
            let base_rank = base_rank.filter(|_| base_rank != rank);
            let whose = Whose { rank, device: one.device, base_rank, ..Whose::default() };
            let compared = TimeComparison { whose, compared: one.compared.clone(), top: 0 };
            let longest = |(side, slice): (usize, _)| Instance { trace: self.0.pair[side] as u32, slice };
            let work = Table {
                data: compared_work().data(compared.rows(&compared.compared.work)),
                longest: compared.compared.work.iter().map(|one| longest(one.longest)).collect(),
                ..Table::default()
            };
            let times = compared_times().data(compared.rows(&compared.compared.times));
            let operators = compared_operators().data(compared.rows(&compared.compared.operators));
            let functions = compared_functions().data(compared.rows(&compared.compared.functions));
            let [times, functions, operators] =
                [times, functions, operators].map(|data| Table { data, ..Table::default() });
            OfDevice {
                name: device(one.device, rank),
                text: compared.text_of_device(),
                tables: [times, work, functions, operators].map(Arc::new),
            }
        });
        let alone = without_counterpart(found.n_alone()).unwrap_or_default();
        Some(Shown { devices: devices.collect(), n_judged: found.n_judged, has_devices: found.has_devices, alone })
    }
}

/// Which of its tables is on screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum List {
    #[default]
    Times,
    Work,
    Functions,
    Operators,
}

impl List {
    const ALL: [Self; 4] = [Self::Times, Self::Work, Self::Functions, Self::Operators];

    /// Name and help.
    fn text(self) -> [&'static str; 2] {
        match self {
            Self::Times => [
                "Step and its parts",
                "What the device did in a step, and what would end its idle time; without a device the phases of the host",
            ],
            Self::Work => {
                ["Device work", "Kernels, copies, memsets and graphs by name. A double click shows the longest"]
            }
            Self::Functions => [
                "Functions",
                "Python functions, operators and ranges of the host by name, without what ran inside them",
            ],
            Self::Operators => ["Operators", "What operators take on the host, and what they launch, by name"],
        }
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum What {
    #[default]
    Time,
    Memory,
}

/// The comparison of two open files.
#[derive(Debug, Default)]
pub struct CompareView {
    /// Of files that have both.
    what: What,
    /// Ids of the files that the user chose, before and after.
    chosen: [Option<Arc<str>>; 2],
    device: usize,
    list: List,
    tables: Query<Tables>,
    grids: [Grid; 4],
    memory: MemoryPart,
    is_waiting: bool,
}

impl CompareView {
    /// The two files, before and after; those that were chosen as far as they are open, else the first two, of those
    /// with work or memory of a device if there are as many. Of two runs that know when they were recorded the earlier is
    /// before, unless the user chose.
    fn pair(&self, traces: &[OpenTrace], open: &[usize], what: What) -> Option<[usize; 2]> {
        let has_device = |&trace: &usize| match what {
            What::Time => traces[trace].trace.processes.iter().any(|process| process.device.is_some()),
            What::Memory => traces[trace].trace.memories.iter().any(|memory| !is_of_host(memory.device)),
        };
        let with_device: Vec<usize> = open.iter().copied().filter(has_device).collect();
        let is_chosen = self.chosen.iter().any(Option::is_some);
        let open = if with_device.len() > 1 && !is_chosen { &with_device } else { open };
        let chosen =
            |side: usize| open.iter().copied().find(|&trace| self.chosen[side].as_ref() == Some(&traces[trace].id));
        let other = |of: usize| open.iter().copied().find(|&trace| trace != of);
        let first = *open.first()?;
        let before = chosen(0).or_else(|| chosen(1).and_then(other)).unwrap_or(first);
        let after = chosen(1).filter(|&after| after != before).or_else(|| other(before))?;
        let is_later = times([before, after], traces).is_some_and(|[before, after]| before > after);
        Some(if is_later && !is_chosen { [after, before] } else { [before, after] })
    }

    /// The choice of what is compared, if there are both.
    fn what_ui(&mut self, has_both: bool, ui: &mut egui::Ui) {
        if has_both {
            ui.selectable_value(&mut self.what, What::Time, "Time")
                .on_hover_text("Compare what takes the time of a step");
            ui.selectable_value(&mut self.what, What::Memory, "Memory").on_hover_text("Compare what holds the memory");
            ui.separator();
        }
    }

    fn choose(&mut self, traces: &[OpenTrace], pair: [usize; 2]) {
        self.chosen = pair.map(|trace| Some(Arc::clone(&traces[trace].id)));
    }

    fn files_ui(&mut self, pair: [usize; 2], open: &[usize], traces: &[OpenTrace], ui: &mut egui::Ui) {
        /// Characters of a name, and the room for one of them as a part of the height of a line.
        const WIDTH: (usize, f32) = (32, 0.45);
        let width = WIDTH.0 as f32 * WIDTH.1 * ui.text_style_height(&egui::TextStyle::Button);
        let names: Vec<String> = open.iter().map(|&trace| named(traces, trace)).collect();
        let shown = |side: usize| {
            let name = named(traces, pair[side]);
            let others = names.iter().filter(|&other| *other != name);
            // A rank before the name of another file tells nothing of that.
            let others =
                others.flat_map(|other| other.split_once(", ").map(|parts| parts.1).into_iter().chain([&**other]));
            let others: Vec<&str> = others.collect();
            shortened_apart(&name, &others, WIDTH.0)
        };
        let dates = times(pair, traces).map(dates);
        let sides = [
            [
                "Before",
                "File before",
                "What is compared with, such as a recording from before a change. Until you choose it is the earlier one \
                 of two runs that know when they were recorded",
            ],
            ["After", "File after", "What is compared"],
        ];
        for (side, [label, name, help]) in sides.into_iter().enumerate() {
            ui.label(label);
            let combo = ComboBox::from_id_salt(name).selected_text(shown(side)).width(width);
            let combo = combo.show_ui(ui, |ui| {
                ui.style_mut().wrap_mode = Some(egui::TextWrapMode::Extend);
                for &trace in open {
                    let is_chosen = trace == pair[side];
                    let path = traces[trace].trace.info.path.display().to_string();
                    let recorded = traces[trace].recorded_at().map(|at| format!("\nRecorded {}", date_and_time(at)));
                    let hover = path + &recorded.unwrap_or_default();
                    let label = ui.selectable_label(is_chosen, named(traces, trace)).on_hover_text(hover);
                    if label.clicked() && !is_chosen {
                        let mut next = pair;
                        next[side] = trace;
                        // The other side takes its place.
                        if next[0] == next[1] {
                            next[1 - side] = pair[side];
                        }
                        self.choose(traces, next);
                    }
                }
            });
            combo.response.on_hover_text(help).accessible_name(name);
            if let Some([short, long]) = dates.as_ref().map(|dates| &dates[side]) {
                ui.weak(short).on_hover_text(format!("Recorded {long}"));
            }
        }
        if ui.button("Swap").on_hover_text("Compare the other way round").clicked() {
            self.choose(traces, [pair[1], pair[0]]);
        }
    }

    fn table_ui(&mut self, device: &OfDevice, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            for list in List::ALL {
                let [label, help] = list.text();
                ui.selectable_value(&mut self.list, list, label).on_hover_text(help);
            }
            let grid = &mut self.grids[self.list as usize];
            if self.list != List::Times {
                grid.filter_ui("Filter by name", ui);
            }
            grid.buttons_ui("Comparison", ui);
        });
        let (list, table) = (self.list, &device.tables[self.list as usize]);
        if table.data.rows.is_empty() {
            return nothing_ui(
                "Nothing to compare",
                "At least one of the two recorded none in the time that is judged",
                ui,
            );
        }
        let grid = &mut self.grids[list as usize];
        self.is_waiting |= grid.update(table, ctx.answers);
        grid.poll_text(ctx.commands, ui.ctx());
        let open = (list == List::Work).then_some("Show the longest");
        if let Some(Action::Open(row)) = grid.ui(list.text()[0], open, ui) {
            table.longest.get(row).into_iter().for_each(|&instance| reveal(instance, ctx));
        }
    }
}

/// When two files of different runs were recorded, if both know: ranks of one run begin together.
fn times(pair: [usize; 2], traces: &[OpenTrace]) -> Option<[TimeNs; 2]> {
    let [before, after] = pair.map(|trace| &traces[trace]);
    Some([before.recorded_at()?, after.recorded_at()?]).filter(|_| before.run != after.run)
}

fn date_and_time(utc_ns: TimeNs) -> String {
    shown_time(u64::try_from(utc_ns / 1_000_000).unwrap_or_default())
}

/// Of each of two times what tells them apart, the date or on one day the time of day, and the whole of it.
fn dates(times: [TimeNs; 2]) -> [[String; 2]; 2] {
    let whole = times.map(date_and_time);
    let parts = whole.each_ref().map(|whole| whole.split_once(' ').unwrap_or((whole, "")));
    let is_one_day = parts[0].0 == parts[1].0;
    [0, 1].map(|side| {
        let (date, time) = parts[side];
        [if is_one_day { time } else { date }.to_owned(), whole[side].clone()]
    })
}

/// The name of a file, with its rank, by which others than this view call it.
fn named(traces: &[OpenTrace], trace: usize) -> String {
    let (name, title) = (file_name(traces, trace), display_name(&traces[trace].trace.info.title()).into_owned());
    // Of files that would have one name, that has it.
    if name.ends_with(&title) || traces[trace].trace.info.rank.is_none() { name } else { format!("{title}, {name}") }
}

impl View for CompareView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        let all = in_order(ctx.traces);
        let open = |what: What| -> Vec<usize> {
            let is_of = |trace: &&usize| match what {
                What::Time => ctx.traces[**trace].is_program(),
                What::Memory => !ctx.traces[**trace].trace.memories.is_empty(),
            };
            all.iter().filter(is_of).copied().collect()
        };
        let open = [What::Time, What::Memory].map(open);
        let times = self.pair(ctx.traces, &open[0], What::Time);
        let memory = self.pair(ctx.traces, &open[1], What::Memory);
        let has_both = times.is_some() && memory.is_some();
        match (times, memory.filter(|_| times.is_none() || self.what == What::Memory)) {
            (_, Some(pair)) => {
                let mut part = std::mem::take(&mut self.memory);
                let (traces, of_memory) = (ctx.traces, &open[1]);
                let choose = |ui: &mut egui::Ui| {
                    self.what_ui(has_both, ui);
                    self.files_ui(pair, of_memory, traces, ui);
                };
                let is_waiting = part.ui(pair, choose, ctx, ui);
                (self.memory, self.is_waiting) = (part, is_waiting);
            }
            (Some(pair), None) => self.times_ui(pair, &open[0], has_both, ctx, ui),
            (None, None) => {
                let how = "Open a second recording, such as one from after a change: Ctrl+O, or drop it on the window";
                nothing_ui("Nothing to compare with", how, ui);
            }
        }
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }
}

impl CompareView {
    fn times_ui(
        &mut self,
        pair: [usize; 2],
        open: &[usize],
        has_both: bool,
        ctx: &mut ViewContext<'_>,
        ui: &mut egui::Ui,
    ) {
        let steps = pair.map(|trace| ctx.steps_of(&ctx.traces[trace]));
        let asked = Tables(ComparedTime { pair, steps, thresholds: *ctx.thresholds });
        let answer = self.tables.ask(ctx.answers, ctx.traces, &asked);
        self.is_waiting = answer.is_working();
        let found = match &answer {
            Answer::Ready(found) => Some(Arc::clone(found)),
            _ => None,
        };
        let shown = ui.horizontal_wrapped(|ui| {
            self.what_ui(has_both, ui);
            self.files_ui(pair, open, ctx.traces, ui);
            let names = found.iter().flat_map(|found| found.devices.iter()).map(|device| device.name.as_str());
            choice_ui("Compared device", "The device that is compared", names, &mut self.device, ui)
        });
        let Some(found) = found else {
            match &answer {
                Answer::Failed(why) => failed_ui(why, ui),
                _ => working_ui("Comparing…", ui),
            }
            return;
        };
        let Some(device) = found.devices.get(shown.inner) else {
            let names = pair.map(|trace| named(ctx.traces, trace));
            let why = not_compared(found.n_judged, found.has_devices, [&names[0], &names[1]]);
            return nothing_ui("These two cannot be compared", &why, ui);
        };
        if !found.alone.is_empty() {
            ui.weak(&found.alone);
        }
        side_by_side_ui(&device.text, ui, |ui| self.table_ui(device, ctx, ui));
    }
}

/// The choice of one of several, by name; without one where there are no two. Returns which is shown.
fn choice_ui<'a>(
    name: &str,
    help: &str,
    all: impl Iterator<Item = &'a str>,
    chosen: &mut usize,
    ui: &mut egui::Ui,
) -> usize {
    let all: Vec<&str> = all.collect();
    let shown = (*chosen).min(all.len().saturating_sub(1));
    if all.len() > 1 {
        let combo = ComboBox::from_id_salt(name).selected_text(all[shown]);
        let combo = combo.show_ui(ui, |ui| {
            for (i, one) in all.iter().enumerate() {
                ui.selectable_value(chosen, i, *one);
            }
        });
        combo.response.on_hover_text(help).accessible_name(name);
    }
    shown
}

/// Words with tables: beside each other if there is room, else below.
fn side_by_side_ui(text: &str, ui: &mut egui::Ui, tables: impl FnOnce(&mut egui::Ui)) {
    if ui.available_width() >= WIDE {
        let beside = Frame::NONE.inner_margin(Margin { right: 8, ..Margin::ZERO });
        let width = ui.available_width();
        let id = egui::Id::unique("compared in words");
        let panel = Panel::left(id).frame(beside);
        side_panel_ui((panel, id, 0), [width * 0.32, width * 0.5], ui, |ui| words_ui(text, ui));
        let rest = Frame::NONE.inner_margin(Margin { left: 8, ..Margin::ZERO });
        CentralPanel::default().frame(rest).show(ui, tables);
    } else {
        prose_ui(ui, text, plain);
        tables(ui);
    }
}

fn words_ui(text: &str, ui: &mut egui::Ui) {
    ScrollArea::vertical().id_salt("words").auto_shrink(false).show(ui, |ui| {
        Frame::NONE.inner_margin(Margin { right: 10, ..Margin::ZERO }).show(ui, |ui| prose_ui(ui, text, plain));
    });
}
