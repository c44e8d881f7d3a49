//! Files that are being read, messages, and the line at the bottom of the window.

use std::time::{Duration, Instant};

use eframe::egui::{self, Align, Layout, Panel, RichText};

use super::loads::Load;
use super::progress::{counts_text, load_text, progress_ui, reading_text};
use super::{App, NoteKind};
use crate::command::Command;
use crate::figures::format;
use crate::figures::text::shortened;
use crate::model::{Format, ImportReport, Severity, TrackKind};
use crate::session::{Beyond, OpenTrace};
use crate::view::axis::part_text;
use crate::view::{ViewContext, command_spec, memory, problems};
use crate::widget::theme;

/// A load that ends sooner shows no progress: a bar that flashes up is noise.
const SHOW_AFTER: Duration = Duration::from_millis(300);
/// A folder may hold thousands of files; more lines than this would hide the window.
const MAX_WAITING_SHOWN: usize = 3;
/// What lies outside of the first picture is said if it is this part of its time or more away.
const FAR: i64 = 20;
/// Files that are listed of those that reach beyond it, and the longest name of one, in characters.
const MAX_BEYOND: usize = 8;
const MAX_FILE: usize = 24;
/// Points that the keys at the right of the line at the bottom take.
const ROOM_FOR_HELP: f32 = 260.0;
/// Points that the length of a selected range takes.
const ROOM_FOR_RANGE: f32 = 150.0;
/// What a selected range does.
const LIMITS: &str = "Overview, tables and gaps are limited to this range. Press Escape to clear it";
/// Points that files being read and messages are wide at most.
const MAX_TOAST: f32 = 760.0;
/// A window that is less high has one line at the bottom, in points.
const LOW: f32 = 400.0;
/// A window with less width has no room for counts of events in one line, in points.
const NARROW: f32 = 960.0;
/// How often progress is drawn anew. Without a graphics card a frame takes processor time that reading needs.
const REFRESH: Duration = Duration::from_millis(500);

impl App {
    /// Files that are being read and messages, above the left end of the line at the bottom: over the views, for what
    /// comes and goes by itself must not move them.
    pub(super) fn toasts_ui(&mut self, ui: &egui::Ui) {
        // The first time as soon as it is to be shown.
        let first = self.loads.running().iter().filter_map(|load| SHOW_AFTER.checked_sub(load.elapsed())).min();
        if !self.loads.is_idle() {
            ui.ctx().request_repaint_after(first.unwrap_or(REFRESH));
        }
        let has_unopened = self.shows_unopened(ui.ctx());
        let mut notes = self.notes.iter().filter(|note| has_unopened || note.kind != NoteKind::Unopened);
        if notes.next().is_none() && !self.loads.running().iter().any(is_slow) {
            return;
        }
        let room = ui.available_rect_before_wrap().shrink(8.0);
        // An area remembers how high it was; what comes later may be higher.
        let high = (room.height() * 0.5).max(0.0);
        let area = egui::Area::new(egui::Id::unique("toasts")).order(egui::Order::Middle).movable(false);
        let area = area.pivot(egui::Align2::LEFT_BOTTOM).fixed_pos(room.left_bottom());
        let shown = area.show(ui.ctx(), |ui| {
            egui::Frame::popup(ui.style()).show(ui, |ui| {
                ui.set_width((room.width() - 16.0).clamp(0.0, MAX_TOAST));
                egui::ScrollArea::vertical().max_height(high).min_scrolled_height(high).show(ui, |ui| {
                    self.notes_ui(has_unopened, ui);
                    self.loads_ui(ui);
                });
            });
        });
        if has_unopened && shown.response.contains_pointer() {
            self.reveal_unopened();
        }
    }

    /// One line for each file that is being read, with its progress and a way out.
    fn loads_ui(&mut self, ui: &mut egui::Ui) {
        let (mut canceled, mut is_rest_canceled) = (None, false);
        for load in self.loads.running().iter().filter(|load| is_slow(load)) {
            ui.horizontal(|ui| {
                let name = load.path.file_name().unwrap_or_default().to_string_lossy();
                if ui.button("Cancel").on_hover_text(format!("Stop reading {name}")).clicked() {
                    canceled = Some(load.path.clone());
                }
                let label = egui::Label::new(name.as_ref()).truncate().show_tooltip_when_elided(false);
                let width = (ui.available_width() * 0.4).max(0.0);
                ui.scope(|ui| {
                    ui.set_max_width(width);
                    ui.add(label).on_hover_text(load.path.display().to_string());
                });
                let bar = progress_ui(load, ui);
                bar.widget_info(|| {
                    let label = format!("{name}: {}", load_text(load));
                    egui::WidgetInfo::labeled(egui::Role::ProgressIndicator, true, label)
                });
            });
        }
        for path in self.loads.waiting().take(MAX_WAITING_SHOWN) {
            ui.horizontal(|ui| {
                if ui.button("Cancel").clicked() {
                    canceled = Some(path.to_owned());
                }
                ui.weak(format!("{} waits", path.file_name().unwrap_or_default().to_string_lossy()));
            });
        }
        let n_more = self.loads.waiting().len().saturating_sub(MAX_WAITING_SHOWN);
        if n_more > 0 {
            ui.horizontal(|ui| {
                is_rest_canceled = ui.button("Cancel all").on_hover_text("Cancel the waiting files").clicked();
                ui.weak(format!("{n_more} more wait"));
            });
        }
        if let Some(path) = canceled {
            self.loads.cancel(&path);
        }
        if is_rest_canceled {
            self.loads.cancel_waiting();
        }
    }

    /// Says that no device activity was recorded, and how to record it.
    fn no_device_ui(&self, ui: &mut egui::Ui) {
        let has_stream = |open: &OpenTrace| open.trace.tracks.iter().any(|track| track.kind == TrackKind::Stream);
        let traces = self.session.traces();
        let mut remedies: Vec<_> = traces.iter().filter_map(|open| open.trace.info.format.device_remedy()).collect();
        // Logs of metrics lack nothing, with memory or without.
        let is_beside =
            |open: &OpenTrace| open.trace.info.format == Format::GpuMetrics || open.trace.info.format.is_memory_only();
        // What a file has lost may have been recorded.
        let is_partial = |open: &OpenTrace| open.trace.import.is_partial;
        let is_unknown = traces.iter().any(has_stream) || traces.iter().any(is_partial);
        if remedies.is_empty() || is_unknown || traces.iter().all(is_beside) {
            return;
        }
        remedies.sort_unstable();
        remedies.dedup();
        // What the recorder itself says of it is among the notes.
        let problems = traces.iter().flat_map(|open| &open.trace.import.problems);
        let said: Vec<&str> =
            problems.map(|problem| problem.reason.as_str()).filter(|reason| reason.contains("CUDA")).take(5).collect();
        let text = RichText::new("No GPU work recorded").color(theme::tokens(ui.visuals().dark_mode).severity[1]);
        // The line at the bottom stays one.
        let text = ui.add(egui::Label::new(text).truncate().show_tooltip_when_elided(false));
        text.on_hover_text([remedies, said].concat().join("\n"));
    }

    /// Says that memory ran out, and leads to the reasons.
    fn out_of_memory_ui(&mut self, ui: &mut egui::Ui) {
        let n = self.session.open.n_failures();
        if n == 0 {
            return;
        }
        let times = if n > 1 { format!(" {} times", format::count(n as u64)) } else { String::new() };
        let text = RichText::new(format!("Out of memory{times}"));
        let text = text.color(theme::tokens(ui.visuals().dark_mode).severity[2]);
        if ui.button(text).on_hover_text("Show which requests failed, and why").clicked() {
            self.commands.push(Command::Show(memory::RESERVED.id));
        }
    }

    /// The line at the bottom of the window.
    pub(super) fn status_ui(&mut self, ui: &mut egui::Ui) {
        // In a low window it must not take the rows of the views: what does not fit is cut.
        let is_low = ui.available_height() < LOW;
        let is_small = is_low || ui.available_width() < NARROW;
        Panel::bottom("status").show(ui, |ui| {
            let line = if is_low { Layout::left_to_right(Align::Center) } else { wrapping() };
            let kept_height = egui::Id::unique("status height");
            let is_told = self.told(ui.ctx()).is_some();
            // What is said for a moment moves nothing.
            let height = ui.data(|data| data.get_temp(kept_height)).filter(|_| is_told);
            let size = egui::vec2(ui.available_width(), height.unwrap_or(ui.spacing().interact_size.y));
            let shown = ui.allocate_ui_with_layout(size, line, |ui| {
                let mut commands = Vec::new();
                if let Some(told) = self.told(ui.ctx()) {
                    if told.ui(&mut commands, ui) {
                        self.told = None;
                    }
                    self.commands.append(&mut commands);
                } else if self.session.traces().is_empty() {
                    match self.loads.running().first() {
                        None => ui.weak("Nothing is open"),
                        Some(load) => ui.label(reading_text(load, self.loads.n_others())),
                    };
                } else {
                    let kept = egui::Id::unique("status beside the name");
                    let beside = ui.data(|data| data.get_temp::<f32>(kept)).unwrap_or_default();
                    // What is said of a range has its room before it is selected: the line must not grow while one is
                    // dragged.
                    let spare = if self.session.range.is_none() { ROOM_FOR_RANGE } else { 0.0 };
                    let room = ui.available_width();
                    let name = self.files_ui(room - beside - spare, is_small, ui);
                    self.badge_ui(ui);
                    self.unopened_button_ui(ui);
                    self.out_of_memory_ui(ui);
                    self.visible_ui(ui);
                    self.outside_ui(ui);
                    if let Some(range) = self.session.range {
                        let selected = part_text(self.session.traces(), range, self.session.span());
                        part_ui(selected, "selected", ui).on_hover_text(LIMITS);
                    }
                    if let Some(note) = self.session.open.clock_note() {
                        self.clock_ui(note, ui);
                    }
                    self.hidden_ui(ui);
                    self.no_device_ui(ui);
                    let (all, next) = (ui.min_rect(), ui.cursor().min);
                    let is_one_line = next.y <= name.bottom();
                    // Of two lines the second as well.
                    let second = if is_one_line { 0.0 } else { next.x - all.left() };
                    let wide = if is_one_line { next.x } else { all.right() } - name.right() + second;
                    if (wide - beside).abs() > 1.0 {
                        ui.data_mut(|data| data.insert_temp(kept, wide));
                        ui.ctx().request_repaint();
                    }
                }
                if ui.available_size_before_wrap().x < ROOM_FOR_HELP {
                    return;
                }
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    if self.save.is_writing() {
                        ui.label("Writing…")
                            .on_hover_text("A file is being written; where to is said when it is there");
                    }
                    if self.is_analyzing(ui.ctx()) {
                        ui.label("Analyzing…").on_hover_text("Some views are still being computed");
                    }
                    ui.add(
                        egui::Label::new(RichText::new("? keys   / search   Ctrl+Shift+P commands").weak()).truncate(),
                    );
                });
            });
            if !is_told {
                ui.data_mut(|data| data.insert_temp(kept_height, shown.response.rect.height()));
            }
        });
    }

    /// Whether views on screen have been waiting for analyses for a while.
    fn is_analyzing(&mut self, ctx: &egui::Context) -> bool {
        if !self.views.is_pending(&self.layout.on_screen()) {
            // The answer that came last has a second frame, in which all finds its place.
            if self.pending_since.take().is_some() {
                ctx.request_repaint();
            }
            return false;
        }
        let left = SHOW_AFTER.checked_sub(self.pending_since.get_or_insert_with(Instant::now).elapsed());
        left.is_none_or(|left| {
            ctx.request_repaint_after(left);
            false
        })
    }

    /// Says how many tracks are hidden, and what the user collapsed, and shows them on a click.
    fn hidden_ui(&mut self, ui: &mut egui::Ui) {
        let off = self.views.off_screen();
        let Some(text) = off.text() else { return };
        if whole_button(&text, ui).on_hover_text(off.help()).clicked() {
            self.commands.push(Command::ShowHiddenTracks);
        }
    }

    /// How the files were placed on one clock; of several runs the choice.
    fn clock_ui(&mut self, note: String, ui: &mut egui::Ui) {
        if self.session.open.runs().len() < 2 {
            whole_label(RichText::new(note).weak(), ui);
            return;
        }
        let menu = ui.menu_button(note, |ui| {
            let choices = [Command::RunsFromStarts, Command::RunsFromSteps, Command::RunsOnOneClock];
            choices.iter().filter_map(command_spec).for_each(|spec| self.entry_ui(ui, spec));
        });
        menu.response.on_hover_text("How runs are placed beside each other");
    }

    /// How much is visible in the view that was used last, of those with a horizontal axis.
    fn visible_ui(&mut self, ui: &mut egui::Ui) {
        let is_dark = ui.visuals().dark_mode;
        let ctx = &mut ViewContext::new(&mut self.session, &self.answers, is_dark, &mut self.commands);
        if let Some(visible) = self.views.visible(&self.layout.on_screen(), ctx) {
            part_ui(visible, "visible", ui);
        }
    }

    /// Says that lone events, counters or other recordings lie far outside of what the first picture shows, and shows
    /// them on a click. Of several files it tells of the one that reaches farthest.
    fn outside_ui(&mut self, ui: &mut egui::Ui) {
        let (all, content) = (self.session.span(), self.session.content());
        let Some(farthest) = self.session.open.beyond().first().filter(|beyond| beyond.far > content.dur() / FAR)
        else {
            return;
        };
        if self.session.navigation.visible().union(all) == self.session.navigation.visible() {
            return;
        }
        let button = whole_button(&beyond_text(farthest, self.session.traces()), ui);
        let lines = self.session.open.beyond().iter().take(MAX_BEYOND);
        let lines: Vec<String> = lines.map(|beyond| beyond_help(beyond, self.session.traces())).collect();
        if button.on_hover_text(format!("{}\nClick to show everything", lines.join("\n"))).clicked() {
            self.session.navigation.go(all);
        }
    }

    /// The names of the files, as far as there is room for them, and what was read; where the names are.
    ///
    /// * `room`: for the names, in points.
    /// * `is_small`: the counts of events are on hover only.
    fn files_ui(&self, room: f32, is_small: bool, ui: &mut egui::Ui) -> egui::Rect {
        let traces = self.session.traces();
        let names: Vec<String> = traces.iter().take(20).map(|open| open.trace.info.title()).collect();
        let text = match (names.first(), traces.len()) {
            (Some(name), 1) => name.clone(),
            (_, n) => format!("{n} files"),
        };
        let sum = |of: fn(&ImportReport) -> u64| traces.iter().map(|open| of(&open.trace.import)).sum::<u64>();
        let counts = counts_text(
            sum(|import| import.read),
            [sum(|import| import.shown), sum(|import| import.merged), sum(|import| import.rejected)],
        );
        let all = ui.available_width();
        let width = room.clamp((all * 0.15).max(0.0), (all * 0.4).max(0.0));
        let label = ui.scope(|ui| {
            ui.set_max_width(width);
            let label = egui::Label::new(RichText::new(text).strong()).truncate().show_tooltip_when_elided(false);
            ui.add(label).on_hover_text(format!("{}\n{counts}", names.join("\n"))).rect
        });
        if !is_small {
            whole_label(counts, ui);
        }
        label.inner
    }

    /// What happened while reading, the worst first: `1 error, 2 notes`.
    fn badge_ui(&mut self, ui: &mut egui::Ui) {
        let problems: Vec<Severity> = self
            .session
            .traces()
            .iter()
            .flat_map(|open| open.trace.import.problems.iter().map(|problem| problem.severity))
            .collect();
        let Some(worst) = problems.iter().max() else {
            ui.weak("Read without problems");
            return;
        };
        let kinds = [(Severity::High, "error"), (Severity::Warn, "warning"), (Severity::Note, "note")];
        let counts = kinds.into_iter().filter_map(|(severity, word)| {
            let n = problems.iter().filter(|&&known| known == severity).count();
            let plural = if n == 1 { "" } else { "s" };
            (n > 0).then(|| format!("{n} {word}{plural}"))
        });
        let color = theme::tokens(ui.visuals().dark_mode).severity[*worst as usize];
        let text = RichText::new(counts.collect::<Vec<_>>().join(", ")).color(color);
        if ui.button(text).on_hover_text("Show what could not be read, and why").clicked() {
            self.commands.push(Command::Show(problems::SPEC.id));
        }
    }
}

/// Of which of several files something is said.
fn of_file(beyond: &Beyond, traces: &[OpenTrace]) -> String {
    let named = traces.get(beyond.trace).filter(|_| traces.len() > 1);
    named.map_or_else(String::new, |open| format!("{}: ", shortened(&open.heading(), MAX_FILE)))
}

/// That a file begins long before, or ends long after, what the picture shows of its run.
fn beyond_text(beyond: &Beyond, traces: &[OpenTrace]) -> String {
    let &Beyond { before, after, n_events, is_apart, .. } = beyond;
    let (verb, side, ns) = if before >= after { ("begins", "before", before) } else { ("ends", "after", after) };
    let lone = match n_events {
        0 => String::new(),
        1 => ", 1 event outside".to_owned(),
        n => format!(", {} events outside", format::count(n)),
    };
    // Of what lasts there is nothing, but there are counters or moments, such as the mark with which a recorder ends.
    let of = match (n_events, side) {
        (0, "before") => "anything ran",
        (0, _) => "the last of what ran",
        _ => "this",
    };
    let text = match is_apart {
        true => format!("recording {verb} {} {side} the one shown{lone}", format::duration(ns)),
        false => format!("recording {verb} {} {side} {of}{lone}", format::duration(ns)),
    };
    let of_file = of_file(beyond, traces);
    if of_file.is_empty() { capitalized(&text) } else { of_file + &text }
}

/// The same at length.
fn beyond_help(beyond: &Beyond, traces: &[OpenTrace]) -> String {
    let what = match (beyond.is_apart, beyond.n_events) {
        (true, _) => "another recording was made",
        (_, 0) => "only counters, memory or single moments were recorded",
        _ => "lone events, counters or memory were recorded",
    };
    let parts = [(beyond.before, "before the first"), (beyond.after, "after the last")];
    let parts = parts.into_iter().filter(|part| part.0 > 0);
    let parts: Vec<String> = parts.map(|(ns, side)| format!("up to {} {side}", format::duration(ns))).collect();
    let text = format!("{what} {} of what ran", parts.join(" and "));
    let of_file = of_file(beyond, traces);
    if of_file.is_empty() { capitalized(&text) } else { of_file + &text }
}

fn capitalized(text: &str) -> String {
    let first = text.chars().next().map_or(0, char::len_utf8);
    text[..first].to_uppercase() + &text[first..]
}

/// How long a part is; on hover exactly.
fn part_ui([short, exact]: [String; 2], what: &str, ui: &mut egui::Ui) -> egui::Response {
    whole_label(format!("{short} {what}"), ui).on_hover_text(exact)
}

/// Whether it has been read for so long that its progress is shown.
fn is_slow(load: &Load) -> bool {
    load.elapsed() >= SHOW_AFTER
}

/// From left to right, on as many lines as it takes.
fn wrapping() -> Layout {
    Layout::left_to_right(Align::Center).with_main_wrap(true)
}

/// A button that goes to the next line as a whole. Where a line has no room for it, it has the first words that fit,
/// and all on hover.
fn whole_button(text: &str, ui: &mut egui::Ui) -> egui::Response {
    let line = if ui.layout().main_wrap() { ui.max_rect().width() } else { ui.available_width() };
    let font = egui::TextStyle::Button.resolve(ui.style());
    let room = line - 2.0 * ui.spacing().button_padding.x;
    let fits = |text: &str| {
        let galley = ui.painter().layout_no_wrap(text.to_owned(), font.clone(), egui::Color32::PLACEHOLDER);
        galley.size().x <= room
    };
    let shown = first_words(text, fits);
    let button = ui.add(egui::Button::new(shown.as_str()).wrap_mode(egui::TextWrapMode::Extend));
    if shown == text {
        return button;
    }
    button.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, text));
    button.on_hover_text(text)
}

/// As many words of a text as fit, `…` behind them where it goes on; one at least.
fn first_words(text: &str, fits: impl Fn(&str) -> bool) -> String {
    if fits(text) {
        return text.to_owned();
    }
    let ends = text.char_indices().filter(|(_, c)| *c == ' ').map(|(at, _)| at);
    let mut shorter: Vec<String> = ends.map(|end| format!("{}…", text[..end].trim_end_matches(','))).collect();
    let fitting = shorter.iter().rposition(|text| fits(text)).unwrap_or_default();
    if shorter.is_empty() { text.to_owned() } else { shorter.swap_remove(fitting) }
}

/// A label that goes to the next line as a whole: a number stays beside its unit.
fn whole_label(text: impl Into<egui::WidgetText>, ui: &mut egui::Ui) -> egui::Response {
    ui.add(egui::Label::new(text).extend())
}

#[cfg(test)]
mod tests {
    use super::first_words;

    #[test]
    fn texts_lose_whole_words() {
        let within = |max: usize| first_words("Recording ends 107.745 ms after, and more", |text| text.len() <= max);
        assert_eq!(within(50), "Recording ends 107.745 ms after, and more");
        assert_eq!(within(40), "Recording ends 107.745 ms after, and…");
        assert_eq!(within(34), "Recording ends 107.745 ms after…");
        assert_eq!(within(20), "Recording ends…");
        assert_eq!(within(3), "Recording…");
        assert_eq!(first_words("Recording", |_| false), "Recording");
    }
}
