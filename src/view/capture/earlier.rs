//! The runs before, which can be opened, run again and deleted.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use eframe::egui::scroll_area::ScrollBarVisibility;
use eframe::egui::{self, RichText, Ui};
use egui_extras::{Column as Width, TableBuilder};

use super::armed::Armed;
use super::form::Form;
use super::opened::open_or_show;
use crate::capture::launch::{self, Earlier, Manifest, words};
use crate::figures::{Column, Natural, Sort, format};
use crate::job::{Job, Poll};
use crate::view::ViewContext;
use crate::view::states::{failed_ui, nothing_ui, working_ui};
use crate::widget::table::small::sorted;
use crate::widget::table::{header_ui, number_ui};

/// How often the list is read again, since other windows start runs too and end them; and how many times what that took
/// it is left alone at least.
const AGAIN: Duration = Duration::from_secs(3);
const PAUSE: u32 = 20;
const ROW_HEIGHT: f32 = 24.0;
const COLUMNS: [Column; 6] = [
    Column { key: "started", title: "Started", width: 128, is_text: true, help: "When it was started" },
    Column { key: "command", title: "Command", width: 160, is_text: true, help: "What was run" },
    Column {
        key: "dur_ns",
        title: "Duration",
        width: 74,
        is_text: false,
        help: "How long it ran, until what was recorded was written",
    },
    Column { key: "end", title: "End", width: 100, is_text: true, help: "How it ended" },
    Column {
        key: "recorded",
        title: "Recorded",
        width: 110,
        is_text: true,
        help: "What was recorded, by the number of files",
    },
    Column { key: "", title: "", width: 236, is_text: true, help: "" },
];
/// How a program ended that the user stopped.
pub const STOPPED: &str = "Stopped";
/// As the runs are listed.
const LATEST: Sort = Sort { column: 0, is_descending: true };

/// The list of runs, read in the background.
#[derive(Debug, Default)]
pub struct EarlierRuns {
    found: Vec<Earlier>,
    was_listed: bool,
    /// When the list is to be read again, unless that is at once.
    next: Option<Instant>,
    /// Deletes a run if one is given, then lists what there is.
    reading: Option<Job<Listed>>,
    /// Why the last one could not be deleted, or no list be read.
    failure: Option<String>,
    /// The widths of the widest head and number of each column so far, in points.
    needed: [f32; COLUMNS.len()],
    /// How the list is sorted; at first as [`launch::list`] has it, the latest first.
    sort: Option<Sort>,
    /// The run to delete, once the user says so again.
    doomed: Armed<PathBuf>,
}

/// The runs that there are.
#[derive(Debug)]
struct Listed {
    found: Vec<Earlier>,
    took: Duration,
    /// The one that was deleted before, or why it could not be.
    deleted: Option<Result<PathBuf, String>>,
}

/// What the user does with a run.
enum Action {
    Open,
    Output,
    Again,
    Delete,
}

/// What else the view has to do after the list was painted.
pub enum Asked {
    /// To show what a run wrote.
    Output(Box<Earlier>),
    /// To show the form, which took a command over.
    Form,
    /// To show nothing of a run any more, which was deleted.
    Forget(PathBuf),
}

impl EarlierRuns {
    /// Reads the list again, since a run has begun or ended.
    pub fn look_again(&mut self) {
        self.next = None;
    }

    fn read(&mut self, doomed: Option<PathBuf>, egui: &egui::Context) {
        let waker = egui.clone();
        let work = move |_: &crate::job::Progress| {
            let started = Instant::now();
            let delete = |folder: PathBuf| launch::delete(&folder).map(|()| folder).map_err(|why| why.to_string());
            let deleted = doomed.map(delete);
            let found = launch::root().map(|root| launch::list(&root)).unwrap_or_default();
            Listed { found, took: started.elapsed(), deleted }
        };
        self.next = Some(Instant::now() + AGAIN);
        match Job::spawn("runs", move || waker.request_repaint(), work) {
            Ok(job) => self.reading = Some(job),
            Err(error) => self.failure = Some(format!("No thread could be started: {error}")),
        }
    }

    /// Follows what runs there are, and takes over what was read; the run that was deleted, if one was.
    fn follow(&mut self, egui: &egui::Context) -> Option<PathBuf> {
        let listed = match self.reading.as_ref().map(Job::poll) {
            Some(Poll::Running) => return None,
            Some(Poll::Done(listed)) => Some(listed),
            Some(Poll::Crashed(message)) => {
                self.failure = Some(message);
                None
            }
            None => None,
        };
        self.reading = None;
        let mut deleted = None;
        if let Some(listed) = listed {
            (self.found, self.was_listed) = (listed.found, true);
            self.next = self.next.map(|_| Instant::now() + AGAIN.max(listed.took * PAUSE));
            match listed.deleted {
                Some(Ok(folder)) => deleted = Some(folder),
                Some(Err(why)) => self.failure = Some(why),
                None => {}
            }
        }
        match self.next.map(|next| next.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero()) {
            Some(left) => egui.request_repaint_after(left),
            None => self.read(None, egui),
        }
        deleted
    }

    /// How many there are.
    pub fn n(&self) -> usize {
        self.found.len()
    }

    /// How many there are, and what they take; empty if there is none.
    fn count(&self) -> String {
        let bytes: u64 = self.found.iter().map(|run| run.bytes).sum();
        match self.found.len() {
            0 => String::new(),
            n => format!("{}, {}", format::of_things(n as u64, "run"), format::bytes(bytes as f64)),
        }
    }

    /// Paints what stands for the list where that is out of sight; true if it is to be scrolled to.
    pub fn below_ui(&self, ui: &mut Ui) -> bool {
        let row = ui.horizontal(|ui| {
            let link = ui.link("Show earlier runs").on_hover_text("Scroll to the list of earlier runs");
            ui.weak(self.count());
            link.clicked()
        });
        row.inner
    }

    /// Paints the list; `form` gets the command of a run that is to run again.
    ///
    /// * `running`: the folder of the run above the list while it runs, which is no earlier one yet.
    /// * `is_whole`: whether all rows stand there, in something that scrolls, rather than scroll by themselves.
    pub fn ui(
        &mut self,
        (running, is_whole): (Option<&Path>, bool),
        form: &mut Form,
        ctx: &mut ViewContext<'_>,
        ui: &mut Ui,
    ) -> Option<Asked> {
        let deleted = self.follow(ui.ctx());
        self.found.retain(|run| Some(&*run.folder) != running);
        ui.horizontal(|ui| {
            ui.strong("Earlier runs");
            ui.weak(self.count());
        });
        if let Some(why) = &self.failure {
            failed_ui(why, ui);
        }
        if self.found.is_empty() {
            match (self.was_listed, running) {
                (false, _) => working_ui("Looking for runs…", ui),
                (true, None) => nothing_ui("No runs yet", "Type a command above and press Start", ui),
                (true, Some(_)) => nothing_ui("No earlier runs", "This one is listed once it has ended", ui),
            }
            return deleted.map(Asked::Forget);
        }
        // In a narrow view the buttons at the end of each row are scrolled to.
        let spacing = ui.spacing().item_spacing.x * COLUMNS.len() as f32;
        let least =
            COLUMNS.iter().zip(self.needed).map(|(column, needed)| f32::from(column.width).max(needed)).sum::<f32>();
        let width = ui.available_width().max(least + spacing);
        // The bar of a table that is out of sight would lie on what is there instead.
        let bar = match ui.cursor().top() < ui.clip_rect().bottom() - ROW_HEIGHT {
            true => ScrollBarVisibility::VisibleWhenNeeded,
            false => ScrollBarVisibility::AlwaysHidden,
        };
        let area = egui::ScrollArea::horizontal().auto_shrink(false).scroll_bar_visibility(bar);
        let table = area.show(ui, |ui| {
            ui.set_max_width(width);
            self.table_ui(is_whole, ui)
        });
        let asked = table.inner.and_then(|(i, action)| self.act(i, &action, form, ctx, ui.ctx()));
        deleted.map(Asked::Forget).or(asked)
    }

    /// The runs in order, by their indices.
    fn order(&self) -> Vec<usize> {
        let all: Vec<(usize, &Earlier)> = self.found.iter().enumerate().collect();
        let sorted = sorted(&all, self.sort, |(_, a), column, (_, b)| {
            let [a, b] = [&a.manifest, &b.manifest];
            match column {
                0 => a.started_ms.cmp(&b.started_ms),
                1 => Natural(&a.command).cmp(&Natural(&b.command)),
                2 => duration_ms(a).cmp(&duration_ms(b)),
                3 => end_text(a).cmp(&end_text(b)),
                _ => (a.results.len(), &a.results).cmp(&(b.results.len(), &b.results)),
            }
        });
        sorted.into_iter().map(|(index, _)| *index).collect()
    }

    fn table_ui(&mut self, is_whole: bool, ui: &mut Ui) -> Option<(usize, Action)> {
        let order = self.order();
        let shown = Some(self.sort.unwrap_or(LATEST));
        let mut table = TableBuilder::new(ui)
            .id_salt("runs")
            .striped(true)
            .sense(egui::Sense::click())
            .auto_shrink(false)
            .vscroll(!is_whole)
            .min_scrolled_height(0.0)
            .cell_layout(egui::Layout::left_to_right(egui::Align::Center));
        for (column, &needed) in COLUMNS.iter().zip(&self.needed) {
            let width = f32::from(column.width).max(needed);
            table = table.column(match column.key {
                "command" => Width::remainder().at_least(width).clip(true),
                "" => Width::exact(width),
                _ => Width::initial(width).at_least(needed).resizable(true).clip(true),
            });
        }
        let (before, mut sort) = (self.needed, None);
        let needed = &mut self.needed;
        let header = |row: egui_extras::TableRow<'_, '_>| sort = header_ui(&COLUMNS, shown, row, needed).0;
        let mut asked = None;
        table.header(20.0, header).body(|body| {
            body.rows(ROW_HEIGHT, order.len(), |mut row| {
                let Some(&index) = order.get(row.index()) else { return };
                let action = row_ui(&self.found[index], &mut self.doomed, &mut self.needed[2], &mut row);
                asked = action.map(|action| (index, action)).or(asked.take());
            });
        });
        self.sort = sort.or(self.sort);
        if self.needed != before {
            ui.ctx().request_repaint();
        }
        asked
    }

    fn act(
        &mut self,
        i: usize,
        action: &Action,
        form: &mut Form,
        ctx: &mut ViewContext<'_>,
        egui: &egui::Context,
    ) -> Option<Asked> {
        let run = &self.found[i];
        match action {
            Action::Open => {
                let names = run.manifest.results.iter().filter_map(|name| words::path(name).ok());
                open_or_show(names.map(|name| run.folder.join(name)), ctx);
            }
            Action::Output => return Some(Asked::Output(Box::new(run.clone()))),
            Action::Again => {
                form.take(&run.manifest);
                return Some(Asked::Form);
            }
            Action::Delete => {
                let doomed = run.folder.clone();
                self.failure = None;
                self.read(Some(doomed), egui);
            }
        }
        None
    }
}

/// The time that a run took, to the millisecond.
pub fn run_for(time: Duration) -> String {
    format::moment(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX), 1_000_000)
}

/// A command line whose program and script are named without their folders, so that more of it is in sight.
fn without_folders(command: &str) -> String {
    // Where words end is not seen then.
    if command.split(' ').take(2).any(|word| word.contains(['"', '\'', '\\'])) {
        return command.to_owned();
    }
    let name = |word| match str::rsplit_once(word, '/') {
        Some((_, name)) if !name.is_empty() => name,
        _ => word,
    };
    let words = command.split(' ').enumerate();
    words.map(|(i, word)| if i < 2 { name(word) } else { word }).collect::<Vec<_>>().join(" ")
}

/// How long a run took, once it has ended.
fn duration_ms(manifest: &Manifest) -> Option<u64> {
    manifest.exit().map(|_| manifest.elapsed_ms)
}

/// How a run ended, in words.
pub fn end_text(manifest: &Manifest) -> String {
    match manifest.exit() {
        _ if !manifest.has_ended => "Running".to_owned(),
        None => "Not known".to_owned(),
        Some(exit) if manifest.was_stopped && !exit.is_failure(true) => {
            exit.stopped(if manifest.was_over_limit { "Time limit" } else { STOPPED })
        }
        Some(exit) => exit.shown(),
    }
}

/// * `needed`: the width of the widest duration so far, in points.
fn row_ui(
    run: &Earlier,
    doomed: &mut Armed<PathBuf>,
    needed: &mut f32,
    row: &mut egui_extras::TableRow<'_, '_>,
) -> Option<Action> {
    let manifest = &run.manifest;
    row.col(|ui| {
        ui.label(launch::shown_time(manifest.started_ms)).on_hover_text(run.folder.display().to_string());
    });
    row.col(|ui| {
        let text = RichText::new(without_folders(&manifest.command)).monospace();
        let label = egui::Label::new(text).truncate().show_tooltip_when_elided(false);
        ui.add(label).on_hover_text(format!("{}\nin {}", manifest.command, manifest.working_folder));
    });
    row.col(|ui| {
        if let Some(ms) = duration_ms(manifest) {
            number_ui(&run_for(Duration::from_millis(ms)), needed, ui);
        }
    });
    row.col(|ui| {
        ui.label(end_text(manifest));
    });
    row.col(|ui| {
        let recorded = match &manifest.results[..] {
            [] if !manifest.has_ended => String::new(),
            [] => "Nothing".to_owned(),
            [one] => one.clone(),
            several => format!("{} files", several.len()),
        };
        let why = [&manifest.results[..], &manifest.notes[..]].concat().join("\n");
        ui.add(egui::Label::new(recorded).truncate()).on_hover_text(why);
    });
    let mut action = None;
    row.col(|ui| {
        let open = ui.add_enabled(!manifest.results.is_empty(), egui::Button::new("Open"));
        if open.on_hover_text("Open the recordings of this run").clicked() {
            action = Some(Action::Open);
        }
        if ui.button("Output").on_hover_text("Show what this run wrote").clicked() {
            action = Some(Action::Output);
        }
        if ui.button("Use").on_hover_text("Take this command with its options into the form").clicked() {
            action = Some(Action::Again);
        }
        let is_deleted = ui.add_enabled_ui(manifest.has_ended, |ui| {
            let asking = ["Delete?", "Delete the folder of this run with its recordings"];
            doomed.button_ui(run.folder.clone(), ["Delete", "Asks before it deletes"], asking, ui)
        });
        if is_deleted.inner {
            action = Some(Action::Delete);
        }
    });
    action
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_told_from_a_stop() {
        let end = |was_over_limit, signal| {
            let exit = Manifest { signal: Some(signal), has_ended: true, was_stopped: true, ..Manifest::default() };
            end_text(&Manifest { was_over_limit, ..exit })
        };
        assert_eq!([end(false, 2), end(true, 2), end(true, 9)], ["Stopped", "Time limit", "Time limit, SIGKILL"]);
        assert_eq!(end(true, 11), "SIGSEGV");
    }

    #[test]
    fn programs_and_scripts_are_named_without_their_folders() {
        let cases = [
            ("/opt/venv/bin/python train/main.py --data /data/c4", "python main.py --data /data/c4"),
            ("torchrun --nproc-per-node 2 a.py", "torchrun --nproc-per-node 2 a.py"),
            ("'/a b/run' x", "'/a b/run' x"),
            ("/bin/ /", "/bin/ /"),
            ("/bin/python /a/b.py --name 'a b'", "python b.py --name 'a b'"),
            ("", ""),
        ];
        for (command, expected) in cases {
            assert_eq!(without_folders(command), expected);
        }
    }

    #[test]
    fn runs_sort_by_each_column_and_stay_themselves() {
        let run = |command: &str, elapsed_ms, exit_code| {
            let manifest =
                Manifest { command: command.to_owned(), elapsed_ms, exit_code, has_ended: true, ..Manifest::default() };
            Earlier { folder: PathBuf::new(), manifest, bytes: 0 }
        };
        let found = vec![run("b", 9, Some(0)), run("a", 70, Some(0)), run("c", 999, None)];
        let mut runs = EarlierRuns { found, ..EarlierRuns::default() };
        assert_eq!(runs.order(), [0, 1, 2], "as they are listed");
        for (column, is_descending, expected) in [(1, false, [1, 0, 2]), (2, true, [1, 0, 2]), (2, false, [2, 0, 1])] {
            runs.sort = Some(Sort { column, is_descending });
            assert_eq!(runs.order(), expected, "column {column}");
        }
    }
}
