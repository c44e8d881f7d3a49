//! Memory by place: a table by place in the program, at a moment or between two.

use std::borrow::Cow;
use std::sync::Arc;

use eframe::egui::{self, RichText};
use hashbrown::HashMap;

use super::head::{self, base_ui};
use crate::analysis::memory::by_place::{At, Change, Holder, Place, Places, changes};
use crate::analysis::memory::live::{LiveUntil, live};
use crate::analysis::memory::summary::fullest_state;
use crate::answers::memory::{NamedPlaces, StackPlaces};
use crate::answers::{Analysis, Query, Work};
use crate::command::Command;
use crate::figures::memory::{HolderRow, by_place, change_by_place, named_by_rows, no_stack_help};
use crate::figures::{Cell, Column, Rows, Sort, format};
use crate::model::memory::AllocationId;
use crate::session::{Base, MemoryFocus, OpenMemory, ShownMemory};
use crate::view::states::{answer_ui, nothing_ui};
use crate::view::tables::{Answer, FindSameRow, Grid, Table, same_row};
use crate::view::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::widget::options::options_ui;
use crate::widget::prose::prose_ui;

/// Which state is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Peak,
    Moment,
    End,
    Change,
}

const MODES: [(Mode, &str, &str); 4] = [
    (Mode::Peak, "At the peak", "Allocated at the peak"),
    (Mode::Moment, "At the moment", "Allocated at the chosen moment"),
    (Mode::End, "At the end", "Allocated when the recording ends"),
    (Mode::Change, "Change", "Change of each place from the base to the moment"),
];

/// Lists memory by place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListPlaces {
    /// `None` for that in which most is known to be allocated.
    state: Option<u32>,
    /// What it is compared with.
    base: Option<Base>,
    has_all_frames: bool,
}

/// A table with what is said of it, so that words and rows on screen are of one moment.
#[derive(Debug)]
struct Listed {
    state: u32,
    table: Answer,
    /// For each row its blocks in the state.
    blocks: Vec<Arc<Vec<AllocationId>>>,
    /// Bytes that are allocated; of a change what was gained and lost.
    sums: String,
    /// Why some have no call stack; empty if all have one.
    no_stack: String,
}

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "memory-places",
    title: "Memory by place",
    help: "Show who holds the memory: by line of your code, else by library or operator",
    keys: &[],
    area: DockArea::Bottom,
    content: Content::Memory,
    make: || Box::new(PlacesView::default()),
};

/// The view of memory by place.
#[derive(Debug, Default)]
pub struct PlacesView {
    mode: Mode,
    has_all_frames: bool,
    listed: Query<ListPlaces>,
    grid: Grid<Listed>,
    is_waiting: bool,
}

impl View for PlacesView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        let Some(shown) = ctx.memory.resolve(ctx.traces) else {
            self.grid.reset();
            head::nothing_ui(ctx, ui);
            return;
        };
        let wanted = self.wanted(&shown, ctx);
        // While the moment moves, each finished table is shown.
        let is_near = |known: &ListPlaces| ListPlaces { state: wanted.state, ..known.clone() } == wanted;
        let answer = self.listed.ask_in_turn(ctx.answers, &shown.of, &wanted, is_near);
        self.is_waiting = answer.is_working();
        match answer.newest() {
            Some(newest) => self.is_waiting |= self.grid.update(newest, ctx.answers),
            None => self.grid.reset(),
        }
        let is_of_moment = matches!(self.mode(&shown, ctx.memory), Mode::Moment | Mode::Change);
        ctx.memory.is_followed &= !(is_of_moment && self.is_waiting);
        self.grid.poll_text(ctx.commands, ui.ctx());
        let listed = self.grid.shown().map(|(listed, _)| listed).or_else(|| answer.newest().cloned());
        self.head_ui(&wanted, listed.as_deref(), &shown, ctx, ui);
        let (Some(_), Some(listed)) = (answer_ui(&answer, "Adding up…", ui), listed) else { return };
        if listed.n_rows() == 0 {
            match &wanted.base {
                Some(_) => nothing_ui("No place has more or less than at the base", "Choose another moment", ui),
                None => nothing_ui("Nothing is allocated at this moment", "Choose another moment", ui),
            }
            return;
        }
        let action = self.grid.ui("Memory by place", Some("Highlight in the picture"), ui);
        head::highlight(action, |row| listed.blocks.get(row).cloned(), ctx);
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }

    fn run_hidden(&mut self, command: &Command, ctx: &mut ViewContext<'_>) -> bool {
        let &Command::CompareMoments(moments) = command else { return false };
        for (i, (trace, memory, state)) in moments.into_iter().enumerate() {
            ctx.memory.show(trace, memory);
            let Some(shown) = ctx.memory.resolve(ctx.traces) else { continue };
            match i {
                0 => ctx.memory.base = Some(Base::new(&shown, state)),
                _ => ctx.memory.moment = Some(state),
            }
        }
        self.mode = Mode::Change;
        ctx.commands.push(Command::Show(SPEC.id));
        true
    }

    fn subject(&self, ctx: &mut ViewContext<'_>) -> Option<String> {
        head::shown_title(ctx)
    }
}

impl PlacesView {
    /// What the user chose, as far as the recording has it.
    fn mode(&self, shown: &ShownMemory, focus: &MemoryFocus) -> Mode {
        match self.mode {
            Mode::Peak if head::no_peak(shown.history()).is_some() => Mode::End,
            Mode::Change if head::no_base(shown, focus).is_some() => Mode::Moment,
            mode => mode,
        }
    }

    fn wanted(&self, shown: &ShownMemory, ctx: &ViewContext<'_>) -> ListPlaces {
        let history = shown.history();
        let chosen = ctx.memory.moment.unwrap_or(history.last_state());
        let (state, base) = match self.mode(shown, ctx.memory) {
            Mode::Moment => (Some(chosen), None),
            Mode::Peak => (None, None),
            Mode::End => (Some(history.last_state()), None),
            Mode::Change => (Some(chosen), Some(ctx.memory.base_or_start(shown))),
        };
        ListPlaces { state, base, has_all_frames: self.has_all_frames }
    }

    fn head_ui(
        &mut self,
        wanted: &ListPlaces,
        listed: Option<&Listed>,
        shown: &ShownMemory,
        ctx: &mut ViewContext<'_>,
        ui: &mut egui::Ui,
    ) {
        let is_small = ui.available_width() < head::SMALL[0];
        ui.horizontal_wrapped(|ui| {
            let chosen = self.mode(shown, ctx.memory);
            for (mode, label, hint) in MODES {
                let lacking = match mode {
                    Mode::Peak => head::no_peak(shown.history()),
                    Mode::Change => head::no_base(shown, ctx.memory),
                    Mode::Moment | Mode::End => None,
                };
                let choice = ui.add_enabled(lacking.is_none(), egui::Button::selectable(chosen == mode, label));
                if choice.on_hover_text(hint).on_disabled_hover_text(lacking.unwrap_or_default()).clicked() {
                    self.mode = mode;
                }
            }
            if is_small {
                options_ui("Options", ui, |ui| self.tools_ui(wanted, listed, shown, ctx, ui));
            } else {
                self.tools_ui(wanted, listed, shown, ctx, ui);
            }
        });
    }

    fn tools_ui(
        &mut self,
        wanted: &ListPlaces,
        listed: Option<&Listed>,
        shown: &ShownMemory,
        ctx: &mut ViewContext<'_>,
        ui: &mut egui::Ui,
    ) {
        if let Some(listed) = listed {
            prose_ui(ui, &listed.sums, RichText::strong);
            if !listed.no_stack.is_empty() {
                ui.weak("some have no call stack").on_hover_text(&listed.no_stack);
            }
            base_ui((listed.state, wanted.base.as_ref()), shown, ctx, ui);
        }
        ui.separator();
        let hint = "Take the innermost frame, also of the interpreter and the allocator, in place of your own code";
        ui.checkbox(&mut self.has_all_frames, "All frames").on_hover_text(hint);
        head::grid_tools_ui(&mut self.grid, "Memory by place", "Filter by place", ui);
    }
}

impl Rows for Listed {
    fn columns(&self) -> &[Column] {
        self.table.columns()
    }

    fn n_rows(&self) -> usize {
        self.table.n_rows()
    }

    fn row(&self, row: usize) -> Cow<'_, [Cell]> {
        self.table.row(row)
    }

    fn order(&self, sort: Option<Sort>, filter: &str) -> Vec<u32> {
        self.table.order(sort, filter)
    }
}

impl Table for Listed {
    const SAME_ROW: Option<FindSameRow<Self>> = Some(|of, row, other| same_row(&of.table, row, &other.table));
}

impl Analysis for ListPlaces {
    type Of = OpenMemory;
    type Output = Listed;
    const NAME: &'static str = "Listing memory by place";
    /// The shown one, and the next.
    const KEPT: usize = 2;

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Listed> {
        let (trace, history) = (of.trace(), of.history());
        // What is compared may be of another recording, which names its own callers.
        let of_stack = match self.has_all_frames || self.base.is_some() {
            true => work.get(&of.open.trace, &StackPlaces { has_all_frames: self.has_all_frames })?,
            false => Arc::clone(&work.get(&of.open.trace, &NamedPlaces)?.of_stack),
        };
        let places = Places { trace, of_stack: &of_stack };
        let state = self.state.unwrap_or_else(|| fullest_state(history));
        let base_trace = match &self.base {
            Some(base) => Some(base.place()?),
            None => None,
        };
        let base_places = match &base_trace {
            Some((trace, _)) => Some(work.get(trace, &StackPlaces { has_all_frames: self.has_all_frames })?),
            None => None,
        };
        let base = self.base.as_ref().zip(base_trace.as_ref()).zip(base_places.as_ref());
        let base = base.map(|((base, (trace, memory)), of_stack)| At {
            places: Places { trace, of_stack },
            history: &trace.memories[*memory],
            state: base.state,
        });
        let mut blocks: HashMap<Place, Vec<AllocationId>> = HashMap::new();
        for id in live(history, state, LiveUntil::Allocated) {
            blocks.entry(places.of(history, id)).or_default().push(id);
        }
        let mut blocks = |of: &[Place]| {
            let mut of: Vec<AllocationId> =
                of.iter().flat_map(|place| blocks.remove(place).unwrap_or_default()).collect();
            of.sort_unstable();
            Arc::new(of)
        };
        let mut all = base.map(|base| changes(base, At { places, history, state }));
        let (rows, blocks) = match &mut all {
            Some(all) => {
                largest_first(all);
                // What only the other recording has, has no blocks here.
                (HolderRow::of_changes(all, 0), all.iter().map(|change| blocks(&change.of[1])).collect())
            }
            None => {
                let held = places.held(history, state);
                let blocks = held.iter().map(|holder| blocks(&[holder.place])).collect();
                (held.into_iter().map(|holder| HolderRow::new(places, holder)).collect::<Vec<_>>(), blocks)
            }
        };
        let part = if self.base.is_some() { change_by_place() } else { by_place() };
        let sums = sums_text(rows.iter().map(|row| &row.holder), self.base.is_some());
        let no_stack = rows.iter().filter_map(|row| no_stack_help(&row.name)).collect::<Vec<_>>().join("\n");
        let data = named_by_rows(part, &rows).data(rows);
        Some(Listed { state, table: Answer { data, ..Answer::default() }, blocks, sums, no_stack })
    }
}

/// In the order of a column that is sorted: the largest change first, which is a gain or a loss, and those of the other
/// kind last.
fn largest_first(changes: &mut [Change<'_>]) {
    let is_loss = changes.first().is_some_and(|one| one.holder.change() < 0);
    let key = |one: &Change<'_>| if is_loss { one.holder.change() } else { one.holder.change().saturating_neg() };
    changes.sort_by_key(key);
}

/// `1.28 GiB in 812 blocks`, or of a change `+2.00 GiB, -1.00 GiB`.
fn sums_text<'a>(holders: impl Iterator<Item = &'a Holder> + Clone, is_change: bool) -> String {
    let bytes = |bytes: u64| format::bytes(bytes as f64);
    if !is_change {
        let n: u64 = holders.clone().map(|holder| holder.held.blocks).sum();
        let all = holders.map(|holder| holder.held.bytes).sum();
        return format!("{} in {} block{}", bytes(all), format::count(n), if n == 1 { "" } else { "s" });
    }
    let signed = |is_gain: bool, sign: &str| {
        let changes = holders.clone().map(Holder::change).filter(|&change| (change > 0) == is_gain);
        let sum: u64 = changes.map(i64::unsigned_abs).sum();
        (sum > 0).then(|| format!("{sign}{}", bytes(sum)))
    };
    let net: i64 = holders.clone().map(Holder::change).sum();
    let sign = if net < 0 { "-" } else { "+" };
    let both: Vec<String> = [signed(true, "+"), signed(false, "-")].into_iter().flatten().collect();
    let net = (both.len() > 1).then(|| format!("together {sign}{}", bytes(net.unsigned_abs())));
    both.into_iter().chain(net).collect::<Vec<String>>().join(", ")
}
