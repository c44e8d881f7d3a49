//! The memory of two files beside each other, as the report compares it.

use std::sync::Arc;

use eframe::egui;

use super::{choice_ui, side_by_side_ui};
use crate::analysis::memory::by_place::Place;
use crate::analysis::memory::categories::StackRoles;
use crate::answers::memory::{LeakSearch, RolesOfStacks, StackPlaces};
use crate::answers::{Analysis, Answer, Query, Work};
use crate::command::Command;
use crate::figures::Cell;
use crate::figures::memory::{self, MemoryComparison, Owner};
use crate::model::memory::device_name;
use crate::session::{OpenMemory, OpenTrace};
use crate::view::ViewContext;
use crate::view::states::{failed_ui, nothing_ui, working_ui};
use crate::view::tables::{Answer as Table, Grid};
use crate::widget::table::Action;

/// The memories of two traces that are of one device, by the indices of the traces: before and after.
#[derive(Clone, Debug, PartialEq)]
struct Compared([usize; 2]);

#[derive(Debug)]
struct OfMemory {
    name: String,
    text: String,
    /// In the order of [`List::ALL`].
    lists: [Listed; 4],
}

#[derive(Debug)]
struct Listed {
    table: Arc<Table>,
    /// The moments that each row compares: index of the trace, of its memory, and the state; `None` of a row of no
    /// moment.
    moments: Vec<Option<[(usize, usize, u32); 2]>>,
}

impl Analysis for Compared {
    type Of = [OpenTrace];
    type Output = Vec<OfMemory>;
    const NAME: &'static str = "The comparison of memory";

    fn run(&self, of: &[OpenTrace], work: &Work<'_>) -> Option<Self::Output> {
        let known = |trace: usize| {
            let trace = &of.get(trace)?.trace;
            Some((trace, work.get(trace, &RolesOfStacks)?, work.get(trace, &StackPlaces { has_all_frames: false })?))
        };
        let sides = [known(self.0[0])?, known(self.0[1])?];
        let [base, own] = [0, 1].map(|side: usize| &sides[side].0.memories);
        let is_one_each = base.len() == 1 && own.len() == 1;
        let mut out = Vec::new();
        for (at, history) in own.iter().enumerate() {
            let is_same = |other: usize| is_one_each || base[other].device == history.device;
            let Some(other) = (0..base.len()).find(|&other| is_same(other)) else { continue };
            if work.is_cancelled() {
                return None;
            }
            let found = |side: usize, memory: usize| {
                let open = of.get(self.0[side])?.clone();
                work.get(&OpenMemory { open, memory }, &LeakSearch::default())
            };
            let found = [found(0, other)?, found(1, at)?];
            let side = |side: usize, memory: usize| {
                let (trace, roles, of_stack): (_, &Arc<StackRoles>, &Arc<Vec<Place>>) =
                    (&sides[side].0, &sides[side].1, &sides[side].2);
                let (leaks, steps) = (&found[side].leaks, (*found[side].steps).as_ref());
                memory::Compared { trace, history: &trace.memories[memory], roles, of_stack, leaks, steps }
            };
            let owner = Owner { file: None, rank: sides[1].0.info.rank, device: history.device };
            let compared = memory::compared_memory(side(0, other), side(1, at), owner, 0);
            out.push(OfMemory::new(&compared, [(self.0[0], other), (self.0[1], at)]));
        }
        Some(out)
    }
}

impl OfMemory {
    /// * `of`: for each side the index of the trace, and of its memory.
    fn new(compared: &MemoryComparison, of: [(usize, usize); 2]) -> Self {
        let lists = [&compared.amounts, &compared.by_category, &compared.by_place, &compared.by_stack];
        let mut keys = List::ALL.into_iter().map(List::columns);
        let lists = lists.map(|table| {
            let moments = (0..table.rows.len()).map(|row| match table.cell(row, "at") {
                Cell::Word(at) => {
                    let states = compared.moments.iter().find(|moment| moment.0.key == at.key)?.1;
                    Some([0, 1].map(|side: usize| (of[side].0, of[side].1, states[side])))
                }
                _ => None,
            });
            let moments = moments.collect();
            let data = table.window(keys.next().unwrap_or_default());
            Listed { table: Arc::new(Table { data, ..Table::default() }), moments }
        });
        Self { name: device_name(compared.owner.device), text: compared.text.clone(), lists }
    }
}

/// Which of its tables is on screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum List {
    #[default]
    Amounts,
    Categories,
    Places,
    Stacks,
}

impl List {
    const ALL: [Self; 4] = [Self::Amounts, Self::Categories, Self::Places, Self::Stacks];

    /// Name and help.
    fn text(self) -> [&'static str; 2] {
        match self {
            Self::Amounts => ["Peak and end", "The most that was allocated and reserved, and what is at the end"],
            Self::Categories => ["By category", "What the memory holds, at the peak of each file and at the end"],
            Self::Places => [
                "By place",
                "Which places hold more or less, at the peak of each file and at the end. A double click shows both \
                 moments in Memory by place",
            ],
            Self::Stacks => [
                "By stack",
                "Which call stacks hold more or less, at the peak of each file and at the end. A double click shows both \
                 moments in Memory by place",
            ],
        }
    }

    /// What its table shows, of what the report has.
    fn columns(self) -> &'static str {
        match self {
            Self::Amounts => "amount bytes before_bytes after_bytes",
            Self::Categories => "at category bytes before_bytes after_bytes",
            Self::Places => "at bytes before_bytes after_bytes place whose",
            Self::Stacks => "at bytes before_bytes after_bytes stack frames",
        }
    }
}

/// The part of the view that compares memory.
#[derive(Debug, Default)]
pub struct MemoryPart {
    compared: Query<Compared>,
    device: usize,
    list: List,
    grids: [Grid; 4],
}

impl MemoryPart {
    /// Returns whether it waits for an answer.
    ///
    /// * `choose`: paints the choice of the files.
    pub fn ui(
        &mut self,
        pair: [usize; 2],
        choose: impl FnOnce(&mut egui::Ui),
        ctx: &mut ViewContext<'_>,
        ui: &mut egui::Ui,
    ) -> bool {
        let answer = self.compared.ask(ctx.answers, ctx.traces, &Compared(pair));
        let mut is_waiting = answer.is_working();
        let found = match &answer {
            Answer::Ready(found) => Some(Arc::clone(found)),
            _ => None,
        };
        let shown = ui.horizontal_wrapped(|ui| {
            choose(ui);
            let names = found.iter().flat_map(|found| found.iter()).map(|one| one.name.as_str());
            choice_ui("Compared memory", "The memory that is compared", names, &mut self.device, ui)
        });
        let Some(found) = found else {
            match &answer {
                Answer::Failed(why) => failed_ui(why, ui),
                _ => working_ui("Comparing…", ui),
            }
            return is_waiting;
        };
        let Some(one) = found.get(shown.inner) else {
            nothing_ui("These two cannot be compared", "They hold memory of different devices", ui);
            return is_waiting;
        };
        side_by_side_ui(&one.text, ui, |ui| is_waiting |= self.tables_ui(one, ctx, ui));
        is_waiting
    }

    fn tables_ui(&mut self, one: &OfMemory, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) -> bool {
        ui.horizontal_wrapped(|ui| {
            for list in List::ALL {
                let [label, help] = list.text();
                ui.selectable_value(&mut self.list, list, label).on_hover_text(help);
            }
            let grid = &mut self.grids[self.list as usize];
            if self.list != List::Amounts {
                grid.filter_ui("Filter by name", ui);
            }
            grid.buttons_ui("Comparison of memory", ui);
        });
        let (list, listed) = (self.list, &one.lists[self.list as usize]);
        if listed.table.data.rows.is_empty() {
            let why = match list {
                List::Categories => "Neither file says what its memory is for, and no call stack tells it",
                _ => "Both hold the same",
            };
            nothing_ui("No difference is listed", why, ui);
            return false;
        }
        let grid = &mut self.grids[list as usize];
        let is_waiting = grid.update(&listed.table, ctx.answers);
        grid.poll_text(ctx.commands, ui.ctx());
        let open = (list != List::Amounts).then_some("Show both moments in Memory by place");
        if let Some(Action::Open(row)) = grid.ui(list.text()[0], open, ui) {
            let moments = listed.moments.get(row).copied().flatten();
            ctx.commands.extend(moments.map(Command::CompareMoments));
        }
        is_waiting
    }
}
