//! Where were threads when the profiler looked? Their call stacks as a flame graph, and as a table of
//! the hottest frames.

use std::sync::{Arc, Weak};

use eframe::egui::{self, CentralPanel, ComboBox, Panel};

use super::search::track_title;
use super::tables::{self, Grid, range_switch_ui};
use super::{OpenTrace, TraceKey, View, ViewContext};
use crate::analysis::stacks::{FlameTree, Matches, SampledThread, flame, sampled_threads};
use crate::analysis::totals::Scope;
use crate::command::Command;
use crate::escape;
use crate::job::{Job, Memo, Poll, Progress};
use crate::model::{TimeRange, Trace, TrackId};
use crate::widget::flame::{FlameGraph, Frame, Frames, Look};
use crate::widget::format;
use crate::widget::table::{Action, Cell, Column, Data};

const WHOLE: &str = "All samples";

/// What of the open traces is shown, and how.
#[derive(Clone, Debug, PartialEq)]
struct Question {
    traces: TraceKey,
    /// In session time.
    range: Option<TimeRange>,
    /// Only this track of this trace.
    thread: Option<(u32, TrackId)>,
    /// Whether the innermost frames are on top.
    is_bottom_up: bool,
}

#[derive(Debug)]
struct Answer {
    /// The outermost frames on top.
    top_down: Arc<FlameTree>,
    /// As the person wants it.
    tree: Arc<FlameTree>,
    hottest: Arc<tables::Answer>,
    /// The row of each name in `hottest`.
    row_of_name: Vec<u32>,
    threads: Vec<SampledThread>,
    /// Where the frames that were in focus and selected are in this tree.
    kept: (u32, Option<u32>),
}

#[derive(Clone, Debug)]
struct MatchKey(Weak<Answer>, String);

impl PartialEq for MatchKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0) && self.1 == other.1
    }
}

/// The samples tab.
#[derive(Debug, Default)]
pub struct FlameView {
    /// Whether the person wants the whole trace although a range is selected.
    is_whole: bool,
    is_bottom_up: bool,
    thread: Option<(u32, TrackId)>,
    memo: Memo<Question, Arc<Answer>>,
    shown: Option<Arc<Answer>>,
    graph: FlameGraph,
    /// The table; what is searched for is its filter.
    grid: Grid,
    matches: Memo<MatchKey, Arc<Matches>>,
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

fn samples(n: i64) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} sample{plural}", format::count(n.unsigned_abs()))
}

impl View for FlameView {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.is_waiting = false;
        if ctx.traces.iter().all(|open| open.trace.samples.is_empty()) {
            ui.label("No CPU samples were recorded");
            ui.weak("Nsight Systems takes them with: nsys profile --sample=process-tree");
            return;
        }
        let traces = TraceKey::new(ctx.traces);
        if self.memo.question().is_some_and(|known| known.traces != traces) {
            // Threads of other traces must not be on show for one frame.
            *self = Self { is_whole: self.is_whole, is_bottom_up: self.is_bottom_up, ..Self::default() };
        }
        let range = ctx.range.filter(|_| !self.is_whole);
        let question = Question { traces, range, thread: self.thread, is_bottom_up: self.is_bottom_up };
        self.ask(&question, ctx, ui);
        self.grid.poll_text(ctx.commands, ui.ctx());
        self.poll_folded(ui);
        self.head_ui(&question, ctx, ui);
        if self.memo.has_crashed(&question) {
            ui.label("The flame graph crashed. Please report it");
            return;
        }
        let Some(shown) = self.shown.clone() else { return };
        if shown.tree.total() == 0 {
            ui.label("No sample of these threads lies in the selected time range");
            ui.weak("Choose the whole trace or all threads above, or press Escape to clear the range");
            return;
        }
        self.table_ui(ui);
        CentralPanel::default().frame(egui::Frame::NONE).show(ui, |ui| self.graph_ui(&shown, ui));
    }

    fn is_pending(&self) -> bool {
        self.is_waiting
    }

    fn run(&mut self, command: &Command, _ctx: &mut ViewContext<'_>) -> bool {
        let is_back = matches!(command, Command::UndoZoom | Command::Deselect);
        match &self.shown {
            Some(shown) if is_back && self.graph.has_keyboard() => self.graph.go_back(&*shown.tree),
            _ => false,
        }
    }
}

impl FlameView {
    /// Takes the newest answer.
    fn ask(&mut self, question: &Question, ctx: &ViewContext<'_>, ui: &egui::Ui) {
        let (traces, asked, waker) = (ctx.traces.to_vec(), question.clone(), ui.ctx().clone());
        let is_same_way = self.memo.question().is_some_and(|known| known.is_bottom_up == question.is_bottom_up);
        let before = self.shown.as_ref().map(|shown| Before {
            answer: Arc::clone(shown),
            row: self.grid.shown().and_then(|(_, row)| row),
            focus: if is_same_way { self.graph.focus() } else { 0 },
            selected: self.graph.selected().filter(|_| is_same_way),
        });
        let work = move |progress: &Progress| Arc::new(answer(&traces, &asked, before.as_ref(), progress));
        let Some(answer) = self.memo.get(question, move || waker.request_repaint(), work).cloned() else {
            self.is_waiting = true;
            return;
        };
        if self.shown.as_ref().is_none_or(|shown| !Arc::ptr_eq(shown, &answer)) {
            let (focus, selected) = answer.kept;
            self.graph.show_other(focus, selected);
            self.shown = Some(Arc::clone(&answer));
        }
        self.grid.update(&answer.hottest, ui.ctx());
        let has_table = self.grid.shown().is_some_and(|(table, _)| Arc::ptr_eq(table, &answer.hottest));
        self.is_waiting = !has_table || !self.memo.is_current(question) && !self.memo.has_crashed(question);
    }

    fn head_ui(&mut self, question: &Question, ctx: &ViewContext<'_>, ui: &mut egui::Ui) {
        ui.horizontal_wrapped(|ui| {
            let hint = "Count the samples in the selected time range";
            range_switch_ui(&mut self.is_whole, hint, ctx, ui);
            ui.separator();
            self.thread_ui(ctx, ui);
            ui.separator();
            let ways = [
                (false, "Top-down", "Callers above what they call"),
                (true, "Bottom-up", "Where the samples fell on top, below it who called"),
            ];
            for (way, label, hint) in ways {
                ui.selectable_value(&mut self.is_bottom_up, way, label).on_hover_text(hint);
            }
            ui.separator();
            let label = ui.label("Find");
            let edit = egui::TextEdit::singleline(&mut self.grid.filter).hint_text("Words of a name");
            ui.add(edit.desired_width(140.0)).labelled_by(label.id);
            let hint = "Copy all stacks as text, a line each with its number of samples: main;step;gemm 12";
            let has_samples = self.shown.as_ref().is_some_and(|shown| shown.tree.total() > 0);
            if ui.add_enabled(has_samples, egui::Button::new("Copy stacks")).on_hover_text(hint).clicked() {
                self.copy_folded(ui);
            }
            self.found_ui(ui);
            if !self.memo.is_current(question) && !self.memo.has_crashed(question) {
                ui.spinner();
                ui.weak("Adding up…");
            }
        });
    }

    /// How much was found, else how much there is.
    fn found_ui(&mut self, ui: &mut egui::Ui) {
        let Some(shown) = self.shown.clone() else { return };
        let total = shown.tree.total();
        match self.matches(&shown, ui) {
            Some(matches) => {
                let share = matches.total as f64 / total.max(1) as f64 * 100.0;
                ui.label(format!(
                    "{} of {}, {share:.1} %",
                    format::count(matches.total.unsigned_abs()),
                    samples(total)
                ));
            }
            None => {
                ui.label(samples(total));
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
            ui.label(format!("{} cut short", samples(shown.tree.cut))).on_hover_text(hint);
        }
    }

    fn thread_ui(&mut self, ctx: &ViewContext<'_>, ui: &mut egui::Ui) {
        let Some(shown) = self.shown.clone() else { return };
        let name = |(trace, track): (u32, TrackId)| thread_name(ctx.traces, trace as usize, track);
        let chosen = self.thread.map_or_else(|| "All threads".to_owned(), name);
        let chooser = ComboBox::from_id_salt("thread of samples").selected_text(&chosen).width(150.0).truncate();
        let response = chooser.show_ui(ui, |ui| {
            let all: i64 = shown.threads.iter().map(|thread| thread.samples).sum();
            ui.selectable_value(&mut self.thread, None, format!("All threads, {}", samples(all)));
            for thread in &shown.threads {
                let key = (thread.trace, thread.track);
                let label = format!("{}, {}", name(key), samples(thread.samples));
                ui.selectable_value(&mut self.thread, Some(key), label);
            }
        });
        let label = format!("Thread: {chosen}");
        response.response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::ComboBox, true, &label));
        response.response.on_hover_text("Whose samples are shown");
    }

    fn table_ui(&mut self, ui: &mut egui::Ui) {
        Panel::right(egui::Id::unique("hottest frames"))
            .default_size(440.0)
            .size_range(180.0..=1200.0)
            .frame(egui::Frame::NONE.inner_margin(egui::Margin { left: 8, ..egui::Margin::ZERO }))
            .show(ui, |ui| {
                // It keeps its width, whatever is in it.
                ui.set_min_size(ui.available_size());
                let action = self.grid.ui("Hottest frames", Some("Find in the flame graph"), ui);
                let table = self.grid.shown().map(|(table, _)| Arc::clone(table));
                if let (Some(Action::Open(row)), Some(table)) = (action, table)
                    && let Some([Cell::Text(name), ..]) = table.data.rows.get(row).map(Vec::as_slice)
                {
                    self.grid.filter = name.to_string();
                }
            });
    }

    fn graph_ui(&mut self, shown: &Arc<Answer>, ui: &mut egui::Ui) {
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
            whole: WHOLE,
            is_match: is_match.as_ref().map(|is_match| is_match as &dyn Fn(u32) -> bool),
            weight: &samples,
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
    fn matches(&mut self, shown: &Arc<Answer>, ui: &egui::Ui) -> Option<Arc<Matches>> {
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
        let work = move |_: &Progress| shown.top_down.folded(escape::visible);
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

/// What was on show when a question was asked.
struct Before {
    answer: Arc<Answer>,
    row: Option<usize>,
    focus: u32,
    selected: Option<u32>,
}

fn answer(traces: &[OpenTrace], asked: &Question, before: Option<&Before>, progress: &Progress) -> Answer {
    let is_cancelled = || progress.is_cancelled();
    let models: Vec<&Trace> = traces.iter().map(|open| &*open.trace).collect();
    let in_trace =
        |range: TimeRange| traces.iter().map(|open| range.shifted(open.offset.saturating_neg())).collect::<Vec<_>>();
    let scope = Scope { traces: &models, ranges: asked.range.map(in_trace), is_cancelled: &is_cancelled };
    let top_down = Arc::new(flame(&scope, asked.thread));
    let tree = if asked.is_bottom_up { Arc::new(top_down.inverted(&is_cancelled)) } else { Arc::clone(&top_down) };
    let (mut hottest, row_of_name) = hottest(&top_down);
    hottest.kept = before.and_then(|before| hottest.same_row(&before.answer.hottest, before.row?));
    let kept = before.map_or((0, None), |before| {
        let same = |frame| tree.find(&before.answer.tree.path(frame));
        (same(before.focus), before.selected.map(same))
    });
    let threads = sampled_threads(&scope);
    Answer { top_down, tree, hottest: Arc::new(hottest), row_of_name, threads, kept }
}

/// The table of frames, and the row of each name.
fn hottest(tree: &FlameTree) -> (tables::Answer, Vec<u32>) {
    let column = |title, key, help, width, is_text| Column { title, key, help, width, is_text };
    let columns = vec![
        column("Frame", "frame", "A function, or the library of one without a name", 165, true),
        column("Self", "self_samples", "Samples that fell into this frame itself", 54, false),
        column("Self share", "self_share", "Share of all samples that are shown", 62, false),
        column(
            "Total",
            "total_samples",
            "Samples with this frame anywhere in their stack, each counted once",
            54,
            false,
        ),
        column("Total share", "total_share", "Share of all samples that are shown", 62, false),
    ];
    let whole = tree.total().max(1) as f64;
    let frames = tree.hottest();
    let mut row_of_name = vec![0; tree.names.len()];
    for (row, frame) in frames.iter().enumerate() {
        row_of_name[frame.name as usize] = row as u32;
    }
    let weight = |n: i64| [Cell::Count(n.unsigned_abs()), Cell::Share(n as f64 / whole)];
    let rows = frames.iter().map(|frame| {
        let name = Cell::text(&tree.names[frame.name as usize]);
        [name].into_iter().chain(weight(frame.own)).chain(weight(frame.total)).collect()
    });
    let data = Data { columns, rows: rows.collect() };
    (tables::Answer { data, ..Default::default() }, row_of_name)
}

/// A thread by its name, without saying that its track is one of samples.
fn thread_name(traces: &[OpenTrace], trace: usize, track: TrackId) -> String {
    let Some(open) = traces.get(trace) else { return String::new() };
    let name = open.trace.track(track).name.as_str();
    track_title(traces, trace, name.strip_suffix(": samples").unwrap_or(name))
}
