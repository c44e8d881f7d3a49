//! A flame graph with the table of its heaviest frames beside it: what all views of weights by call
//! stack have in common.

use std::sync::{Arc, Weak};

use eframe::egui::{self, CentralPanel, Panel};

use super::ViewContext;
use super::tables::{self, Grid};
use crate::analysis::stacks::{FlameTree, Matches};
use crate::command::Command;
use crate::figures::stacks::{Weight, frames};
use crate::figures::{Cell, escape};
use crate::job::{Job, Memo, Poll, Progress};
use crate::widget::flame::{FlameGraph, Frame, Frames, Look};
use crate::widget::format;
use crate::widget::table::Action;

/// What the weights are.
#[derive(Debug)]
pub struct Unit {
    /// What the whole is called: `All samples`.
    pub whole: &'static str,
    /// What the table of frames is called.
    pub table: &'static str,
    /// A weight in words.
    pub text: fn(i64) -> String,
    /// A part of a weight in words.
    pub part: fn(i64, i64) -> String,
    /// In the table of frames.
    pub weight: Weight,
    /// What top-down and bottom-up mean: sentences.
    pub ways: [&'static str; 2],
    /// What is copied, with an example.
    pub copy: &'static str,
}

/// A tree with what is worked out of it.
#[derive(Debug)]
pub struct Shown<X> {
    /// The outermost frames on top.
    top_down: Arc<FlameTree>,
    /// As the person wants it.
    pub tree: Arc<FlameTree>,
    heaviest: Arc<tables::Answer>,
    /// The row of each name in `heaviest`.
    row_of_name: Vec<u32>,
    /// Rows of `heaviest`, sorted by their names.
    rows_by_name: Vec<u32>,
    is_bottom_up: bool,
    /// What else came with the tree.
    pub extra: X,
}

#[derive(Debug)]
struct MatchKey<X>(Weak<Shown<X>>, String);

impl<X> Clone for MatchKey<X> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0), self.1.clone())
    }
}

impl<X> PartialEq for MatchKey<X> {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0) && self.1 == other.1
    }
}

/// The graph, the table and what is searched for, for answers to questions of sort `K`.
#[derive(Debug)]
pub struct FlamePane<K, X = ()> {
    unit: &'static Unit,
    is_bottom_up: bool,
    memo: Memo<(K, bool), Arc<Shown<X>>>,
    shown: Option<Arc<Shown<X>>>,
    graph: FlameGraph,
    /// The table; what is searched for is its filter.
    grid: Grid,
    matches: Memo<MatchKey<X>, Arc<Matches>>,
    folded: Option<Job<String>>,
    is_waiting: bool,
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
            children: node.children.clone(),
        }
    }
}

impl<K: Clone + PartialEq + Send + 'static, X: Send + Sync + 'static> FlamePane<K, X> {
    pub fn new(unit: &'static Unit) -> Self {
        Self {
            unit,
            is_bottom_up: false,
            memo: Memo::default(),
            shown: None,
            graph: FlameGraph::default(),
            grid: Grid::default(),
            matches: Memo::default(),
            folded: None,
            is_waiting: false,
        }
    }

    /// Forgets what is on show, because it is about something else; habits stay.
    pub fn reset(&mut self) {
        *self = Self { is_bottom_up: self.is_bottom_up, ..Self::new(self.unit) };
    }

    /// The newest question that was asked.
    pub fn question(&self) -> Option<&K> {
        self.memo.question().map(|known| &known.0)
    }

    /// What is on show.
    pub fn shown(&self) -> Option<&Arc<Shown<X>>> {
        self.shown.as_ref()
    }

    /// Whether it waits for something that it will show.
    pub fn is_pending(&self) -> bool {
        self.is_waiting
    }

    /// Whether working out the answer crashed.
    pub fn has_crashed(&self, question: &K) -> bool {
        self.memo.has_crashed(&(question.clone(), self.is_bottom_up))
    }

    /// Goes back in the graph, if it has the keyboard.
    pub fn run(&mut self, command: &Command) -> bool {
        let is_back = matches!(command, Command::UndoZoom | Command::Deselect);
        match &self.shown {
            Some(shown) if is_back && self.graph.has_keyboard() => self.graph.go_back(&*shown.tree),
            _ => false,
        }
    }

    /// Takes the newest answer. Call it every frame.
    ///
    /// * `is_near`: whether the tree for that question can stand in while another is made.
    /// * `make`: the tree with the outermost frames on top, and what comes with it. Runs in the background.
    pub fn ask(
        &mut self,
        question: &K,
        is_near: impl Fn(&K) -> bool,
        make: impl FnOnce(&Progress) -> (FlameTree, X) + Send + 'static,
        ctx: &mut ViewContext<'_>,
        ui: &egui::Ui,
    ) {
        let key = (question.clone(), self.is_bottom_up);
        let (is_bottom_up, waker) = (self.is_bottom_up, ui.ctx().clone());
        let unit = self.unit;
        let work = move |progress: &Progress| {
            let (tree, extra) = make(progress);
            Arc::new(work_out(unit, tree, extra, is_bottom_up, progress))
        };
        self.is_waiting = true;
        let is_near = |known: &(K, bool)| known.1 == is_bottom_up && is_near(&known.0);
        let answer = self.memo.get_in_turn(&key, is_near, move || waker.request_repaint(), work).cloned();
        if let Some(answer) = answer {
            if self.shown.as_ref().is_none_or(|shown| !Arc::ptr_eq(shown, &answer)) {
                self.show(&answer);
            }
            let before = self.grid.shown().map(|(table, row)| (Arc::clone(table), row));
            self.grid.update(&answer.heaviest, ui.ctx());
            if let Some((table, Some(row))) = before {
                self.keep_row(&answer, &table, row);
            }
            let has_table = self.grid.shown().is_some_and(|(table, _)| Arc::ptr_eq(table, &answer.heaviest));
            self.is_waiting = !has_table || !self.memo.is_current(&key) && !self.memo.has_crashed(&key);
        }
        self.grid.poll_text(ctx.commands, ui.ctx());
        self.poll_folded(ui);
    }

    /// Puts another tree on show. What was looked at in the one before is looked at in this one, found now:
    /// while it was made, the person may have gone on.
    fn show(&mut self, answer: &Arc<Shown<X>>) {
        let before = self.shown.replace(Arc::clone(answer));
        let before = before.filter(|before| before.is_bottom_up == answer.is_bottom_up);
        self.graph.show_other(|frame| before.as_ref().map(|before| answer.tree.find(&before.tree.path(frame))));
    }

    /// Keeps the cursor on the frame of the same name, once the table of another tree is there.
    fn keep_row(&mut self, answer: &Shown<X>, before: &Arc<tables::Answer>, row: usize) {
        let is_there = self.grid.shown().is_some_and(|(table, _)| Arc::ptr_eq(table, &answer.heaviest));
        if !is_there || Arc::ptr_eq(before, &answer.heaviest) {
            return;
        }
        let name = |table: &tables::Answer, row: usize| {
            table.data.rows.get(row).and_then(|row| row.first()?.as_name()).map(str::to_owned)
        };
        let Some(wanted) = name(before, row) else { return };
        let found =
            answer.rows_by_name.binary_search_by_key(&Some(wanted), |&row| name(&answer.heaviest, row as usize));
        if let Ok(at) = found {
            self.grid.go(answer.rows_by_name[at] as usize);
        }
    }

    /// Which way up, what to find, and how much there is.
    pub fn tools_ui(&mut self, ui: &mut egui::Ui) {
        let ways = [(false, "Top-down", self.unit.ways[0]), (true, "Bottom-up", self.unit.ways[1])];
        for (way, label, hint) in ways {
            ui.selectable_value(&mut self.is_bottom_up, way, label).on_hover_text(hint);
        }
        ui.separator();
        // Without a label beside it, which could be left alone at the end of a line.
        let edit = egui::TextEdit::singleline(&mut self.grid.filter).hint_text("Find words of a name");
        let edit = ui.add(edit.desired_width(150.0));
        let find = || egui::WidgetInfo::labeled(egui::Role::TextInput, true, "Find");
        edit.widget_info(find);
        let has_any = self.shown.as_ref().is_some_and(|shown| shown.tree.total() > 0);
        if ui.add_enabled(has_any, egui::Button::new("Copy stacks")).on_hover_text(self.unit.copy).clicked() {
            self.copy_folded(ui);
        }
        self.found_ui(ui);
        if self.is_waiting {
            ui.spinner();
            ui.weak("Adding up…");
        }
    }

    /// How much was found, else how much there is.
    fn found_ui(&mut self, ui: &mut egui::Ui) {
        let Some(shown) = self.shown.clone() else { return };
        let (total, text) = (shown.tree.total(), self.unit.text);
        match self.matches(&shown, ui) {
            Some(matches) => {
                let share = matches.total as f64 / total.max(1) as f64 * 100.0;
                ui.label(format!("{}, {share:.1} %", (self.unit.part)(matches.total, total)));
            }
            None => {
                ui.label(text(total));
            }
        }
        let n_merged = self.graph.n_merged();
        if n_merged > 0 {
            let plural = if n_merged == 1 { "" } else { "s" };
            let hint = "Narrower than a pixel, shown together in gray. A click there widens them";
            let text = egui::RichText::new(format!("{} smaller frame{plural}", format::count(n_merged))).weak();
            ui.add(egui::Label::new(text).extend()).on_hover_text(hint);
        }
        if shown.tree.cut > 0 {
            let hint = "The tree would have become too large. The far ends of these stacks are left out";
            ui.label(format!("{} cut short", text(shown.tree.cut))).on_hover_text(hint);
        }
    }

    /// The table at the right and the graph beside it.
    pub fn body_ui(&mut self, ui: &mut egui::Ui) {
        let Some(shown) = self.shown.clone() else { return };
        Panel::right(egui::Id::unique(self.unit.table))
            .default_size(440.0)
            .size_range(180.0..=1200.0)
            .frame(egui::Frame::NONE.inner_margin(egui::Margin { left: 8, ..egui::Margin::ZERO }))
            .show(ui, |ui| {
                // It keeps its width, whatever is in it.
                ui.set_min_size(ui.available_size());
                let action = self.grid.ui(self.unit.table, Some("Find in the flame graph"), ui);
                let table = self.grid.shown().map(|(table, _)| Arc::clone(table));
                if let (Some(Action::Open(row)), Some(table)) = (action, table)
                    && let Some(name) = table.data.rows.get(row).and_then(|row| row.first()?.as_name())
                {
                    self.grid.filter = name.to_owned();
                }
            });
        CentralPanel::default().frame(egui::Frame::NONE).show(ui, |ui| self.graph_ui(&shown, ui));
    }

    fn graph_ui(&mut self, shown: &Arc<Shown<X>>, ui: &mut egui::Ui) {
        let tree = &*shown.tree;
        let matches = self.matches(shown, ui);
        let is_match = matches.map(|matches| {
            move |frame: u32| {
                let name = tree.nodes.get(frame as usize).map_or(0, |node| node.name);
                matches.names.get(name as usize).copied().unwrap_or_default()
            }
        });
        let look = Look {
            frames: tree,
            whole: self.unit.whole,
            is_match: is_match.as_ref().map(|is_match| is_match as &dyn Fn(u32) -> bool),
            weight: &self.unit.text,
        };
        let is_other = self.graph.ui("Flame graph", &look, ui);
        // The table goes along.
        let selected = self.graph.selected().filter(|&frame| is_other && frame != 0);
        let row = selected.and_then(|frame| shown.row_of_name.get(tree.nodes.get(frame as usize)?.name as usize));
        if let Some(&row) = row {
            self.grid.go(row as usize);
        }
    }

    /// What fits the search in the answer on show; `None` without a search.
    fn matches(&mut self, shown: &Arc<Shown<X>>, ui: &egui::Ui) -> Option<Arc<Matches>> {
        let text = self.grid.filter.trim().to_owned();
        if text.is_empty() {
            return None;
        }
        let key = MatchKey(Arc::downgrade(shown), text);
        let (asked, tree, waker) = (key.1.clone(), Arc::clone(&shown.tree), ui.ctx().clone());
        let work = move |_: &Progress| Arc::new(tree.matches(&asked));
        let matches = self.matches.get(&key, move || waker.request_repaint(), work).cloned();
        let is_current = self.matches.is_current(&key);
        self.is_waiting |= !is_current && !self.matches.has_crashed(&key);
        // What fits is told by the tree's own numbers for names.
        let is_of_tree = self.matches.question().is_some_and(|known| known.0.ptr_eq(&key.0));
        matches.filter(|_| is_of_tree)
    }

    fn copy_folded(&mut self, ui: &egui::Ui) {
        let Some(shown) = self.shown.clone() else { return };
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

fn work_out<X>(unit: &Unit, tree: FlameTree, extra: X, is_bottom_up: bool, progress: &Progress) -> Shown<X> {
    let is_cancelled = || progress.is_cancelled();
    let top_down = Arc::new(tree);
    let tree = if is_bottom_up { Arc::new(top_down.inverted(&is_cancelled)) } else { Arc::clone(&top_down) };
    let (data, row_of_name) = frames(&top_down, &unit.weight);
    let heaviest = tables::Answer { data, ..Default::default() };
    let name = |row: u32| heaviest.data.rows[row as usize].first().and_then(Cell::as_name);
    let mut rows_by_name: Vec<u32> = (0..heaviest.data.rows.len() as u32).collect();
    rows_by_name.sort_unstable_by_key(|&row| name(row));
    Shown { top_down, tree, heaviest: Arc::new(heaviest), row_of_name, rows_by_name, is_bottom_up, extra }
}
