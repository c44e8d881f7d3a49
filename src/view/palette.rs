//! The palette: commands, tracks and open traces, found by parts of their names, and times.

use eframe::egui::{self, Align2, Key, Modifiers, RichText};

use super::{ViewContext, all_commands};
use crate::command::{Command, CommandSpec, key_text};
use crate::figures::text::track_name;
use crate::figures::{format, moment};
use crate::model::{SliceId, TrackId};
use crate::session::{Selection, counts_events, track_title};
use crate::widget::fuzzy;

const ROW_HEIGHT: f32 = 24.0;

/// What the palette lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Commands,
    Tracks,
    /// The open traces and files, to close one.
    OpenTraces,
    /// The moment that a text says.
    Time,
}

/// One line of the list.
#[derive(Clone, Debug)]
struct Entry {
    label: String,
    /// Right-aligned: the shortcut, the process or the rank.
    hint: String,
    help: &'static str,
    /// What else it may be called.
    words: &'static str,
    choice: Choice,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    Command(Command),
    Track(usize, TrackId),
}

/// A text field with a list that it filters.
#[derive(Debug, Default)]
pub struct Palette {
    mode: Option<Mode>,
    text: String,
    /// All entries of this mode; collected when the palette opens.
    entries: Vec<Entry>,
    /// Indices of the matching entries, best first.
    matching: Vec<usize>,
    chosen: usize,
    n_traces: usize,
    is_stale: bool,
    is_moved: bool,
    /// Why nothing is listed.
    lack: String,
}

impl Palette {
    /// Shows the palette with an empty field.
    pub fn open(&mut self, mode: Mode) {
        *self = Self { mode: Some(mode), is_stale: true, ..Self::default() };
    }

    /// Whether the palette is on screen.
    pub fn is_open(&self) -> bool {
        self.mode.is_some()
    }

    /// Paints the palette, if it is open.
    ///
    /// * `is_on`: whether a command shows a view that is open.
    pub fn ui(&mut self, view: &mut ViewContext<'_>, is_on: impl Fn(&Command) -> bool, ctx: &egui::Context) {
        let Some(mode) = self.mode else { return };
        // They name traces by their indices.
        if self.is_stale || self.n_traces != view.traces.len() {
            self.n_traces = view.traces.len();
            self.entries = entries(mode, view, is_on, ctx);
            self.filter();
        }
        if mode == Mode::Time {
            let found = to_time(&self.text, view);
            self.lack = found.as_ref().err().cloned().unwrap_or_default();
            self.entries = found.into_iter().collect();
            self.matching = (0..self.entries.len()).collect();
        }
        let screen = ctx.content_rect().size();
        let area = egui::Modal::default_area(egui::Id::unique("palette")).anchor(Align2::CENTER_TOP, [0.0, 60.0]);
        let modal = egui::Modal::new(egui::Id::unique("palette")).area(area).show(ctx, |ui| {
            ui.set_width((screen.x - 60.0).clamp(160.0, 560.0));
            self.keys(ui);
            self.field_ui(mode, ui);
            self.list_ui(mode, ui, (screen.y - 200.0).clamp(60.0, 380.0))
        });
        // What is no time is still there to be mended.
        let can_choose = mode != Mode::Time || !self.matching.is_empty();
        let is_entered = modal.inner || can_choose && ctx.input(|input| input.key_pressed(Key::Enter));
        if is_entered {
            self.choose(view);
        }
        if is_entered || modal.should_close() {
            self.mode = None;
        }
    }

    fn keys(&mut self, ui: &egui::Ui) {
        let steps = ui.input_mut(|input| {
            let mut n = |key| input.count_and_consume_key(Modifiers::NONE, key) as i64;
            n(Key::ArrowDown) - n(Key::ArrowUp) + 10 * (n(Key::PageDown) - n(Key::PageUp))
        });
        let last = self.matching.len().saturating_sub(1) as i64;
        if steps != 0 {
            self.chosen = (self.chosen as i64 + steps).clamp(0, last) as usize;
            self.is_moved = true;
        }
    }

    fn field_ui(&mut self, mode: Mode, ui: &mut egui::Ui) {
        let (name, hint) = match mode {
            Mode::Commands => ("Command", "Type a command"),
            Mode::OpenTraces => ("Trace to close", "Type part of a file name"),
            Mode::Tracks => ("Track", "Type part of a track name"),
            Mode::Time => ("Time", "Type a time"),
        };
        let edit = egui::TextEdit::singleline(&mut self.text).hint_text(hint).desired_width(f32::INFINITY);
        let edit = ui.add(edit);
        edit.widget_info(|| {
            let mut info = egui::WidgetInfo::labeled(egui::Role::TextInput, true, name);
            info.current_text_value = Some(self.text.clone());
            info
        });
        edit.request_focus();
        if edit.changed() {
            self.filter();
        }
    }

    fn list_ui(&mut self, mode: Mode, ui: &mut egui::Ui, height: f32) -> bool {
        if self.matching.is_empty() {
            // The two keys that open it are easily taken for each other.
            ui.weak(match mode {
                Mode::Commands => "No command matches",
                Mode::OpenTraces => "No open file matches",
                Mode::Tracks => "No track matches",
                Mode::Time => &self.lack,
            });
            return false;
        }
        let mut is_clicked = false;
        // The window around it remembers how high it was, and is as high as this list needs now.
        let mut scroll =
            egui::ScrollArea::vertical().max_height(height).min_scrolled_height(height).auto_shrink([false, true]);
        if std::mem::take(&mut self.is_moved) {
            let row = ROW_HEIGHT + ui.spacing().item_spacing.y;
            scroll = scroll.vertical_scroll_offset((self.chosen as f32 * row - height / 2.0).max(0.0));
        }
        scroll.show_rows(ui, ROW_HEIGHT, self.matching.len(), |ui, rows| {
            for i in rows {
                let Some(entry) = self.matching.get(i).and_then(|&entry| self.entries.get(entry)) else { continue };
                let button = egui::Button::selectable(i == self.chosen, entry.label.as_str())
                    .min_size(egui::vec2(ui.available_width(), ROW_HEIGHT))
                    .truncate()
                    .shortcut_text(RichText::new(entry.hint.as_str()).weak());
                let row = ui.add(button);
                let row = if entry.help.is_empty() { row } else { row.on_hover_text(entry.help) };
                if row.clicked() {
                    self.chosen = i;
                    is_clicked = true;
                }
            }
        });
        is_clicked
    }

    fn filter(&mut self) {
        let words: Vec<String> = self.text.split_whitespace().map(str::to_lowercase).collect();
        // After all whose names match come those that are explained with these words.
        let by_help = |entry: &Entry| {
            let help = entry.help.to_lowercase();
            let is_called = |word: &String| entry.words.contains(word.as_str());
            let says = |word: &String| help.contains(word.as_str()) || is_called(word);
            let score = if words.iter().all(is_called) { i32::MIN + 1 } else { i32::MIN };
            words.iter().all(|word| word.len() > 2 && says(word)).then_some(score)
        };
        let fit =
            |(i, entry): (usize, &Entry)| Some((fuzzy::score(&self.text, &entry.label).or_else(|| by_help(entry))?, i));
        let mut scored: Vec<(i32, usize)> = self.entries.iter().enumerate().filter_map(fit).collect();
        if !self.text.trim().is_empty() {
            scored.sort_by_key(|&(score, i)| (std::cmp::Reverse(score), i));
        }
        self.matching = scored.into_iter().map(|scored| scored.1).collect();
        self.chosen = 0;
        self.is_stale = false;
    }

    fn choose(&self, view: &mut ViewContext<'_>) {
        let entry = self.matching.get(self.chosen).and_then(|&entry| self.entries.get(entry));
        match entry.map(|entry| &entry.choice) {
            None => {}
            Some(Choice::Command(command)) => view.commands.push(command.clone()),
            Some(&Choice::Track(trace, track)) => {
                if let Some(slice) = slice_to_show(view, trace, track) {
                    *view.selection = Selection::Slice { trace, slice };
                    view.commands.push(Command::Reveal);
                }
            }
        }
    }
}

/// The first visible slice of a track's top row, or the nearest one after or before.
fn slice_to_show(view: &ViewContext<'_>, trace: usize, track: TrackId) -> Option<SliceId> {
    let open = view.traces.get(trace)?;
    let row = open.trace.rows(track).first()?;
    let visible = view.navigation.visible().shifted(open.offset.saturating_neg());
    let window = open.trace.slices.window(row, visible);
    let last = row.range().end.checked_sub(1)?;
    Some(SliceId(window.start.min(last) as u32))
}

fn entries(mode: Mode, view: &ViewContext<'_>, is_on: impl Fn(&Command) -> bool, ctx: &egui::Context) -> Vec<Entry> {
    match mode {
        Mode::Commands => {
            let entry = |spec: &CommandSpec| Entry {
                label: spec.label.to_owned(),
                hint: hint(spec, is_on(&spec.command), ctx),
                help: spec.help,
                words: spec.other_words(),
                choice: Choice::Command(spec.command.clone()),
            };
            all_commands().iter().filter(|spec| spec.command != Command::Palette).map(entry).collect()
        }
        Mode::OpenTraces => to_close(view),
        Mode::Time => Vec::new(),
        Mode::Tracks => {
            let of_trace = |(trace, open): (usize, &crate::session::OpenTrace)| {
                let model = std::sync::Arc::clone(&open.trace);
                (0..model.tracks.len()).map(move |i| (trace, std::sync::Arc::clone(&model), TrackId(i as u32)))
            };
            let all = view.traces.iter().enumerate().flat_map(of_trace);
            all.map(|(trace, model, id)| {
                let track = model.track(id);
                let hint = model.process(track.process).title();
                let label = track_title(view.traces, trace, &track_name(track));
                Entry { label, hint, help: "", words: "", choice: Choice::Track(trace, id) }
            })
            .collect()
        }
    }
}

/// The moment that a text says; why there is none.
fn to_time(text: &str, view: &ViewContext<'_>) -> Result<Entry, String> {
    if counts_events(view.traces) {
        return Err("What is open has no times: its events are counted".to_owned());
    }
    // The unit of the last labels of the ruler.
    let visible = view.navigation.visible();
    let last = format::moment(visible.end, visible.dur() / 10);
    let unit = last.rsplit(' ').next().unwrap_or("s");
    if text.trim().is_empty() {
        return Err(format!("As on the ruler: 1.25 s, 350 ms, 1 min 30 s. A number alone is in {unit}"));
    }
    let at = moment::parse(text, unit).ok_or_else(|| {
        format!("This is no time. Write a number and its unit, h, min, s, ms, µs or ns. A number alone is in {unit}")
    })?;
    let span = view.span;
    if at < span.start || at > span.end {
        let [at, start, end] = [at, span.start, span.end].map(format::duration);
        return Err(format!("{at} lies outside of what was recorded, which is from {start} to {end}"));
    }
    Ok(Entry {
        label: format!("Go to {}", format::duration(at)),
        hint: format::duration_exact(at),
        help: "",
        words: "",
        choice: Choice::Command(Command::ShowTime(at)),
    })
}

/// The shortcut of a command, and whether its view is open or what it switches is on.
fn hint(spec: &CommandSpec, is_on: bool, ctx: &egui::Context) -> String {
    let key = spec.keys.first().map(|key| key_text(ctx, key)).unwrap_or_default();
    let state = match spec.command {
        Command::Show(_) if is_on => "open",
        _ if is_on => "on",
        _ => return key,
    };
    format!("{state}  {key}").trim_end().to_owned()
}

/// An entry for each open trace, and one before the first of several traces of a file for all of them.
fn to_close(view: &ViewContext<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut last_path = None;
    for (i, open) in view.traces.iter().enumerate() {
        let info = &open.trace.info;
        let of_file = || view.traces.iter().filter(|other| other.trace.info.path == info.path);
        if last_path.replace(&info.path) != Some(&info.path) && of_file().nth(1).is_some() {
            let file = info.path.file_name().unwrap_or_default().to_string_lossy();
            entries.push(Entry {
                label: format!("All traces of {file}"),
                hint: format!("{} traces", of_file().count()),
                help: "Close every trace of this file",
                words: "",
                choice: Choice::Command(Command::CloseFile(info.path.clone())),
            });
        }
        entries.push(Entry {
            label: open.heading(),
            hint: match info.rank {
                // Those of several runs have the same file name, and their rank is in the heading.
                _ if open.has_namesake => info.title(),
                Some(rank) => format!("rank {rank}"),
                None => String::new(),
            },
            help: "Close this trace",
            words: "",
            choice: Choice::Command(Command::CloseTraceAt(i)),
        });
    }
    entries
}
