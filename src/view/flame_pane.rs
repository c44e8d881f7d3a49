//! A flame graph with a table of its heaviest frames, for any weights by call stack.

use std::sync::{Arc, Weak};

use eframe::egui::{self, CentralPanel, Panel};

use super::ViewContext;
use super::tables::{self, Grid};
use crate::analysis::stacks::{FlameTree, Matches};
use crate::answers::{Analysis, Answer, Answers, Query, Subject, Work};
use crate::command::Command;
use crate::figures::stacks::{Weight, frames};
use crate::figures::{escape, format};
use crate::job::{Job, Poll, Progress};
use crate::widget::busy::busy_ui;
use crate::widget::flame::{FlameGraph, FlameSpec, Frame, Frames};
use crate::widget::table::Action;

/// Names and formats of weights.
#[derive(Debug)]
pub struct Unit {
    /// The label of the root: `All samples`.
    pub whole: &'static str,
    /// The title of the table of frames.
    pub table: &'static str,
    /// Formats a weight with its unit.
    pub text: fn(i64) -> String,
    /// Formats a part of a weight.
    pub part: fn(i64, i64) -> String,
    /// In the table of frames.
    pub weight: Weight,
    /// Hover texts of top-down and bottom-up.
    pub ways: [&'static str; 2],
    /// Hover text of the button that copies the stacks.
    pub copy: &'static str,
}

/// A tree with what is derived from it.
#[derive(Debug)]
pub struct Shown<X> {
    /// Outermost frames first.
    top_down: Arc<FlameTree>,
    /// Top-down or bottom-up, as chosen.
    pub tree: Arc<FlameTree>,
    heaviest: Arc<tables::Answer>,
    /// The row of each name in `heaviest`.
    row_of_name: Vec<u32>,
    is_bottom_up: bool,
    unit: &'static Unit,
    /// What the analysis returned with the tree.
    pub extra: X,
}

/// An analysis of weights by call stack, with its parameters.
pub trait Weights: Clone + PartialEq + std::fmt::Debug + Send + 'static {
    type Of: Subject + ?Sized;
    /// What the analysis returns with the tree.
    type Extra: Send + Sync + 'static;

    /// What the weights are.
    fn unit(&self) -> &'static Unit;

    /// The top-down tree, as in [`Analysis::run`].
    fn tree(&self, of: &Self::Of, work: &Work<'_>) -> Option<(FlameTree, Self::Extra)>;
}

/// Computes a [`Shown`].
#[derive(Clone, Debug, PartialEq)]
struct Flame<W> {
    weights: W,
    is_bottom_up: bool,
}

impl<W: Weights> Analysis for Flame<W> {
    type Of = W::Of;
    type Output = Shown<W::Extra>;
    const NAME: &'static str = "The flame graph";
    /// The shown one, and the next.
    const KEPT: usize = 2;

    fn run(&self, of: &W::Of, work: &Work<'_>) -> Option<Self::Output> {
        let (tree, extra) = self.weights.tree(of, work)?;
        let top_down = Arc::new(tree);
        let tree = match self.is_bottom_up {
            true => Arc::new(top_down.inverted(&|| work.is_cancelled())),
            false => Arc::clone(&top_down),
        };
        let unit = self.weights.unit();
        let (data, row_of_name) = frames(&top_down, &unit.weight);
        let heaviest = Arc::new(tables::Answer { data, ..Default::default() });
        Some(Shown { top_down, tree, heaviest, row_of_name, is_bottom_up: self.is_bottom_up, unit, extra })
    }
}

/// Finds the frames whose names contain these words.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FindFrames(String);

impl Analysis for FindFrames {
    type Of = Arc<FlameTree>;
    type Output = Matches;
    const NAME: &'static str = "The search in the flame graph";

    fn run(&self, of: &Arc<FlameTree>, _: &Work<'_>) -> Option<Matches> {
        Some(of.matches(&self.0))
    }
}

/// Graph, table and search text.
#[derive(Debug)]
pub struct FlamePane<W: Weights> {
    is_bottom_up: bool,
    /// Of what was asked for last.
    unit: Option<&'static Unit>,
    flame: Query<Flame<W>>,
    shown: Option<Weak<Shown<W::Extra>>>,
    graph: FlameGraph,
    /// The table; the search text is its filter.
    grid: Grid,
    matches: Query<FindFrames>,
    folded: Option<Job<String>>,
    is_waiting: bool,
}

impl<W: Weights> Default for FlamePane<W> {
    fn default() -> Self {
        Self {
            is_bottom_up: false,
            unit: None,
            flame: Query::default(),
            shown: None,
            graph: FlameGraph::default(),
            grid: Grid::default(),
            matches: Query::default(),
            folded: None,
            is_waiting: false,
        }
    }
}

impl Frames for FlameTree {
    fn frame(&self, index: u32) -> Frame<'_> {
        let node = self.nodes.get(index as usize).unwrap_or(&self.nodes[0]);
        Frame {
            name: self.name(index),
            parent: node.parent,
            depth: node.depth,
            total: node.total,
            own: node.own,
            full: self.full.get(index as usize).map(|full| full[1]),
            calls: self.calls.get(index as usize).copied().filter(|&calls| calls > 0),
            children: node.children.clone(),
        }
    }
}

impl<W: Weights> FlamePane<W> {
    /// The parameters of the shown tree.
    pub fn weights(&self) -> Option<&W> {
        self.flame.shown().map(|known| &known.weights)
    }

    /// The shown tree.
    pub fn shown(&self) -> Option<Arc<Shown<W::Extra>>> {
        self.shown.as_ref()?.upgrade()
    }

    /// Whether background work is under way whose result it will show.
    pub fn is_pending(&self) -> bool {
        self.is_waiting
    }

    /// Goes back in the graph, if it has the keyboard.
    pub fn run(&mut self, command: &Command) -> bool {
        let is_back = matches!(command, Command::UndoZoom | Command::Deselect);
        match self.shown() {
            Some(shown) if is_back && self.graph.has_keyboard() => self.graph.go_back(&*shown.tree),
            _ => false,
        }
    }

    /// Asks for the tree and shows the newest. Call it every frame.
    ///
    /// * `is_near`: whether the tree of those parameters may be shown while this one is computed.
    pub fn ask(
        &mut self,
        of: &W::Of,
        weights: &W,
        is_near: impl Fn(&W) -> bool,
        ctx: &mut ViewContext<'_>,
        ui: &egui::Ui,
    ) -> Answer<Shown<W::Extra>> {
        self.unit = Some(weights.unit());
        let is_bottom_up = self.is_bottom_up;
        let wanted = Flame { weights: weights.clone(), is_bottom_up };
        let is_near = |known: &Flame<W>| known.is_bottom_up == is_bottom_up && is_near(&known.weights);
        let answer = self.flame.ask_in_turn(ctx.answers, of, &wanted, is_near);
        self.is_waiting = answer.is_working();
        match answer.newest() {
            Some(tree) => {
                self.show(tree);
                self.is_waiting |= self.grid.update(&tree.heaviest, ctx.answers);
            }
            // The subject has changed: only the orientation is kept.
            None if self.shown.is_some() => {
                let (flame, is_waiting) = (std::mem::take(&mut self.flame), self.is_waiting);
                *self = Self { is_bottom_up, unit: self.unit, flame, is_waiting, ..Self::default() };
            }
            None => {}
        }
        self.grid.poll_text(ctx.commands, ui.ctx());
        self.poll_folded(ui);
        answer
    }

    /// Shows another tree, with focus and selection on the same frames as before. They are looked up now, since
    /// the user may have moved on while the tree was computed.
    fn show(&mut self, tree: &Arc<Shown<W::Extra>>) {
        let before = self.shown();
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, tree)) {
            return;
        }
        self.shown = Some(Arc::downgrade(tree));
        let before = before.filter(|before| before.is_bottom_up == tree.is_bottom_up);
        self.graph.show_other(|frame| before.as_ref().map(|before| tree.tree.find(&before.tree.path(frame))));
    }

    /// The tool bar: orientation, search, copy, and totals.
    pub fn tools_ui(&mut self, answers: &Answers, ui: &mut egui::Ui) {
        let Some(unit) = self.unit else { return };
        let ways = [(false, "Top-down", unit.ways[0]), (true, "Bottom-up", unit.ways[1])];
        for (way, label, hint) in ways {
            ui.selectable_value(&mut self.is_bottom_up, way, label).on_hover_text(hint);
        }
        ui.separator();
        // Without a label beside it, which could be left alone at the end of a line.
        let edit = egui::TextEdit::singleline(&mut self.grid.filter).id_salt("find frames").hint_text("Find frames…");
        let edit = ui.add(edit.desired_width(150.0));
        let find = || egui::WidgetInfo::labeled(egui::Role::TextInput, true, "Find");
        edit.widget_info(find);
        let has_any = self.shown().is_some_and(|shown| shown.tree.total() > 0);
        if ui.add_enabled(has_any, egui::Button::new("Copy stacks")).on_hover_text(unit.copy).clicked() {
            self.copy_folded(ui);
        }
        self.found_ui(answers, ui);
        if self.is_waiting {
            busy_ui(ui);
            ui.weak("Adding up…");
        }
    }

    /// The weight of the matches, or the total without a search.
    fn found_ui(&mut self, answers: &Answers, ui: &mut egui::Ui) {
        let Some(shown) = self.shown() else { return };
        let (total, text) = (shown.tree.total(), shown.unit.text);
        match self.matches(&shown, answers) {
            Some(matches) => {
                let share = matches.total as f64 / total.max(1) as f64 * 100.0;
                ui.label(format!("{}, {share:.1} %", (shown.unit.part)(matches.total, total)));
            }
            None => {
                ui.label(text(total));
            }
        }
        let n_merged = self.graph.n_merged();
        if n_merged > 0 {
            let plural = if n_merged == 1 { "" } else { "s" };
            let hint = "Narrower than a pixel, merged into gray bars; click one to widen its frames";
            let text = egui::RichText::new(format!("{} smaller frame{plural}", format::count(n_merged))).weak();
            ui.add(egui::Label::new(text).extend()).on_hover_text(hint);
        }
        if shown.tree.cut > 0 {
            let hint = "The size of the tree is limited: the deepest frames of these stacks are left out";
            ui.label(format!("{} cut short", text(shown.tree.cut))).on_hover_text(hint);
        }
    }

    /// The table at the right and the graph beside it.
    pub fn body_ui(&mut self, answers: &Answers, ui: &mut egui::Ui) {
        let Some(shown) = self.shown() else { return };
        let width = (ui.available_width() * 0.58).min(560.0);
        Panel::right(egui::Id::unique(shown.unit.table))
            .default_size(width)
            .size_range(120.0..=1200.0)
            .frame(egui::Frame::NONE.inner_margin(egui::Margin { left: 8, ..egui::Margin::ZERO }))
            .show(ui, |ui| {
                // Keeps its width whatever its content.
                ui.set_min_size(ui.available_size());
                let action = self.grid.ui(shown.unit.table, Some("Find in the flame graph"), ui);
                let table = self.grid.shown().map(|(table, _)| table);
                if let (Some(Action::Open(row)), Some(table)) = (action, table)
                    && let Some(name) = table.data.rows.get(row).and_then(|row| row.first()?.as_name())
                {
                    self.grid.filter = name.to_owned();
                }
            });
        CentralPanel::default().frame(egui::Frame::NONE).show(ui, |ui| self.graph_ui(&shown, answers, ui));
    }

    fn graph_ui(&mut self, shown: &Shown<W::Extra>, answers: &Answers, ui: &mut egui::Ui) {
        let tree = &*shown.tree;
        let matches = self.matches(shown, answers);
        let is_match = matches.map(|matches| {
            move |frame: u32| {
                let name = tree.nodes.get(frame as usize).map_or(0, |node| node.name);
                matches.names.get(name as usize).copied().unwrap_or_default()
            }
        });
        let spec = FlameSpec {
            frames: tree,
            whole: shown.unit.whole,
            is_match: is_match.as_ref().map(|is_match| is_match as &dyn Fn(u32) -> bool),
            weight: &shown.unit.text,
            full: shown.unit.weight.full,
        };
        let is_other = self.graph.ui("Flame graph", &spec, ui);
        // The cursor of the table follows.
        let selected = self.graph.selected().filter(|&frame| is_other && frame != 0);
        let row = selected.and_then(|frame| shown.row_of_name.get(tree.nodes.get(frame as usize)?.name as usize));
        if let Some(&row) = row {
            self.grid.go(row as usize);
        }
    }

    /// The matches in the shown tree; `None` without a search text.
    fn matches(&mut self, shown: &Shown<W::Extra>, answers: &Answers) -> Option<Arc<Matches>> {
        let text = self.grid.filter.trim().to_owned();
        if text.is_empty() {
            return None;
        }
        let matches = self.matches.ask(answers, &shown.tree, &FindFrames(text));
        self.is_waiting |= matches.is_working();
        matches.newest().cloned()
    }

    fn copy_folded(&mut self, ui: &egui::Ui) {
        let Some(shown) = self.shown() else { return };
        let waker = ui.ctx().clone();
        let work = move |_: &Progress| shown.top_down.folded(escape::no_formula);
        self.folded = Job::spawn("stacks text", move || waker.request_repaint(), work).ok();
    }

    fn poll_folded(&mut self, ui: &egui::Ui) {
        match self.folded.as_ref().map(Job::poll) {
            None | Some(Poll::Running) => return,
            Some(Poll::Crashed(_)) => {}
            Some(Poll::Done(text)) => ui.ctx().copy_text(text),
        }
        self.folded = None;
    }
}
