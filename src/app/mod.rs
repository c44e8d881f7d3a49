//! The window: takes what background work brings, runs commands, and places panels and views.

mod align;
mod copied;
mod dialog;
mod display;
mod fonts;
mod guard;
mod keeper;
mod layout;
mod leave;
mod loads;
mod menu;
mod notes;
mod panels;
mod place;
mod progress;
mod run;
mod samples;
mod save;
mod sizes;
mod status;
mod tab;
#[cfg(test)]
mod tests;
mod told;
mod views;
mod welcome;
mod window;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use eframe::egui::{self, Context, Event, PointerButton, Pos2, RawInput, ThemePreference, ViewportCommand};

use self::align::Alignment;
use self::dialog::OpenDialog;
use self::fonts::SystemFonts;
use self::keeper::Keeper;
use self::layout::Layout;
use self::leave::{Leave, Leaving};
use self::loads::{Found, LoadError, Loads};
use self::notes::{Note, NoteKind};
use self::save::SaveDialog;
use self::told::Told;
use self::views::Views;
pub use self::window::open_window;
use crate::answers::Answers;
use crate::command::{self, Command};
use crate::model::Trace;
use crate::reader::Options;
use crate::session::{OpenTrace, Session, lenient};
use crate::settings::{OldLayout, Settings, ThemeChoice};
use crate::view::palette::Palette;
use crate::view::shortcuts::Shortcuts;
use crate::view::{ViewContext, all_commands, capture};
use crate::widget::theme;

/// Answers that come soon after another share a frame, and only the last has a second one: without a graphics card each
/// takes processor time that those to come need.
const WAKE_AFTER: Duration = Duration::from_millis(15);

/// Everything behind the window.
pub struct App {
    session: Session,
    /// What the analyses found in the open traces.
    answers: Answers,
    settings: Settings,
    keeper: Keeper,
    /// What the user agreed to for every file.
    options: Options,
    loads: Loads,
    fonts: SystemFonts,
    dialog: OpenDialog,
    save: SaveDialog,
    leaving: Leaving,
    notes: Vec<Note>,
    /// How many files were not opened, and since when that is told of over the views.
    unopened_since: Option<(usize, Instant)>,
    /// What the status bar says in answer to a command.
    told: Option<Told>,
    /// The view that was asked for while it was in front, and when, in seconds of the window.
    flashed: Option<(&'static str, f64)>,
    alignment: Alignment,
    /// Since when a view on screen waits for an analysis.
    pending_since: Option<Instant>,
    views: Views,
    layout: Layout,
    /// The tabs that suit what was read first, while other files that were opened with it are still read.
    suited: Option<Vec<&'static str>>,
    /// Whether the user pressed something in the last frame.
    was_touched: bool,
    /// The view of this machine that is shown while no trace is open, in place of the welcome.
    alone: Option<&'static str>,
    palette: Palette,
    shortcuts: Shortcuts,
    /// Asked for during the last frame, run before the next.
    commands: Vec<Command>,
    /// Whether a text field, a menu or a dialog had the keyboard at the end of the last frame.
    is_keyboard_taken: bool,
    /// Whether a dialog was open in the last frame.
    had_dialog: bool,
    /// Where the pointer is that was taken away for a frame.
    lifted: Option<Pos2>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("session", &self.session).finish_non_exhaustive()
    }
}

impl App {
    /// The window's content, about to read `paths`.
    ///
    /// * `old`: the panels of a version without docking, where `settings` have no layout.
    pub fn new(ctx: &Context, settings: Settings, old: &OldLayout, paths: Vec<PathBuf>, options: Options) -> Self {
        theme::apply(ctx);
        copied::watch(ctx);
        forget_scrolled(ctx);
        // Ctrl and +, -, 0 are commands of the window.
        ctx.options_mut(|options| options.zoom_with_keyboard = false);
        let mut app = Self {
            session: Session::default(),
            answers: Answers::default(),
            options,
            loads: Loads::default(),
            fonts: SystemFonts::new(ctx),
            dialog: OpenDialog::default(),
            save: SaveDialog::default(),
            leaving: Leaving::default(),
            notes: Vec::new(),
            unopened_since: None,
            told: None,
            flashed: None,
            alignment: Alignment::default(),
            pending_since: None,
            views: Views::new(&settings.views),
            layout: Layout::restore(&settings.layout).unwrap_or_else(|| Layout::of_old(old)),
            suited: None,
            was_touched: false,
            alone: None,
            palette: Palette::default(),
            shortcuts: Shortcuts::default(),
            settings: settings.checked(),
            keeper: Keeper::default(),
            commands: Vec::new(),
            is_keyboard_taken: false,
            had_dialog: false,
            lifted: None,
        };
        app.loads.samples = samples::folder();
        app.loads.nsys.clone_from(&app.settings.nsys);
        app.session.thresholds = app.settings.rules();
        app.session.kept_marks = lenient(&app.settings.marks.take());
        let waker = ctx.clone();
        app.answers.wake_with(move || waker.request_repaint_after(WAKE_AFTER));
        app.apply_settings(ctx);
        app.commands.extend(paths.into_iter().map(Command::OpenPath));
        app
    }

    /// The same with traces that are there already, for tests and generated inputs.
    pub fn with_traces(ctx: &Context, settings: Settings, traces: Vec<Trace>) -> Self {
        let mut app = Self::new(ctx, settings, &OldLayout::default(), Vec::new(), Options::default());
        app.session.add(traces);
        app
    }

    /// What survives a restart.
    pub fn settings(&self) -> Settings {
        let thresholds = self.session.thresholds.changed().into_iter().collect();
        let marks = serde_json::to_value(self.session.all_marks()).unwrap_or_default();
        Settings { thresholds, marks, layout: self.layout.save(), views: self.views.save(), ..self.settings.clone() }
    }

    /// What is open and chosen.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Takes what background work brought and runs the commands of the last frame. Paints nothing.
    pub fn step(&mut self, ctx: &Context) {
        if ctx.input(|input| input.viewport().close_requested()) && !self.leaving.may_close(self.views.has_run()) {
            ctx.send_viewport_cmd(ViewportCommand::CancelClose);
        }
        self.take_loaded(ctx);
        match self.dialog.poll() {
            Ok(paths) => self.commands.extend(paths.into_iter().map(Command::OpenPath)),
            Err(why) => self.commands.push(Command::Tell(why)),
        }
        if let Some(notice) = copied::take(ctx) {
            self.told = Some(Told { is_refusal: notice.is_refusal, ..Told::done(notice.text) });
        }
        match self.save.poll(&self.session, ctx) {
            None => {}
            Some(Ok(told)) => self.told = Some(told),
            Some(Err(note)) => self.notes.push(note),
        }
        self.notes.extend(self.keeper.poll());
        let dropped = ctx.input_mut(|input| std::mem::take(&mut input.raw.dropped_files));
        self.commands.extend(dropped.iter().map(|file| Command::OpenPath(file.path().to_owned())));
        let pressed = command::pressed(ctx, all_commands(), self.is_keyboard_taken);
        if !pressed.is_empty() {
            // A menu offers what could be done before this.
            egui::Popup::close_all(ctx);
        }
        self.commands.extend(pressed);
        // The side buttons of a mouse, as in a browser.
        for (button, command) in [(PointerButton::Extra1, Command::Back), (PointerButton::Extra2, Command::Forward)] {
            if ctx.input(|input| input.pointer.button_pressed(button)) {
                self.commands.push(command);
            }
        }
        self.align_runs();
        for command in std::mem::take(&mut self.commands) {
            // Some views handle it and some do not: without one of those on screen, nothing happens.
            let _is_handled = self.run(ctx, command);
        }
        self.answers.follow(self.session.traces());
        self.keep_changes(ctx);
    }

    /// Paints one frame.
    pub fn paint(&mut self, ui: &mut egui::Ui) {
        self.menu_ui(ui);
        self.status_ui(ui);
        self.toasts_ui(ui);
        if self.session.traces().is_empty() {
            // A run goes on while its view is not on screen.
            let is_dark = ui.visuals().dark_mode;
            let ctx = &mut ViewContext::new(&mut self.session, &self.answers, is_dark, &mut self.commands);
            self.views.update(ctx, ui.ctx());
        }
        match (self.session.traces().is_empty(), self.alone) {
            (true, Some(id)) => self.alone_ui(id, ui),
            (true, None) => self.welcome_ui(ui),
            (false, _) => self.panels_ui(ui),
        }
        if !self.session.traces().is_empty() {
            let place = self.session.place(self.tabs());
            let is_moving = ui.input(|input| input.pointer.any_down());
            if self.session.history.follow(place, is_moving) && !is_moving {
                ui.ctx().request_repaint();
            }
        }
        self.floating_ui(ui.ctx());
        self.is_keyboard_taken = self.has_dialog() || ui.ctx().any_popup_open() || ui.ctx().text_edit_focused();
        self.fonts.poll(ui.ctx());
    }

    /// Takes the pointer away for a frame when a dialog opens: a tooltip stays while the pointer rests, and would lie
    /// above the dialog.
    fn lift_pointer(&mut self, ctx: &Context, input: &mut RawInput) {
        if let Some(pointer) = self.lifted.take() {
            input.events.insert(0, Event::PointerMoved(pointer));
        }
        let has_dialog = self.has_dialog();
        if has_dialog && !self.had_dialog {
            self.lifted = ctx.pointer_latest_pos();
            input.events.push(Event::PointerGone);
            ctx.request_repaint();
        }
        self.had_dialog = has_dialog;
    }

    /// Whether something lies above all views and takes the keys.
    fn has_dialog(&self) -> bool {
        self.palette.is_open()
            || self.shortcuts.is_open()
            || self.dialog.is_open()
            || self.save.is_open()
            || self.leaving.is_open()
    }

    /// Whether the launcher is in front while its program runs.
    fn watches_run(&self) -> bool {
        let is_in_front = self.alone == Some(capture::SPEC.id) || self.layout.on_screen().contains(&capture::SPEC.id);
        is_in_front && self.views.has_run()
    }

    /// The tabs in front, in no order of use.
    fn tabs(&self) -> Vec<&'static str> {
        let mut tabs = self.layout.on_screen();
        tabs.sort_unstable();
        tabs
    }

    /// Takes the tabs in front as they are now for those that suit what was read, unless the user did something in the
    /// last frame: a tab with nothing to show gives way to another one by itself.
    fn follow_suited(&mut self, ctx: &Context) {
        if self.suited.is_some() && !self.was_touched {
            self.suited = Some(self.tabs());
        }
        let is_deed = |event: &Event| matches!(event, Event::PointerButton { .. } | Event::Key { .. });
        self.was_touched = ctx.input(|input| input.events.iter().any(is_deed));
    }

    fn take_loaded(&mut self, ctx: &Context) {
        self.follow_suited(ctx);
        let mut done = self.loads.poll(ctx).into_iter();
        while let Some(loaded) = done.next() {
            match loaded.outcome {
                Ok(Found::Traces(traces)) => {
                    let is_first = self.session.traces().is_empty();
                    let ran_out =
                        |open: &OpenTrace| open.trace.memories.iter().position(|history| !history.ooms.is_empty());
                    let oom = traces.iter().enumerate().find_map(|(i, open)| Some((i, ran_out(open)?)));
                    let is_hidden = !is_first && self.layout.is_of_another_kind(&traces);
                    let hidden = is_hidden.then(|| traces.clone());
                    self.session.add(traces);
                    if let Some(hidden) = hidden {
                        self.layout.suit(&hidden);
                    }
                    // Whoever watches a program run goes on watching; its view says that there is something to see.
                    let watches = self.watches_run();
                    self.alone = None;
                    // Of files that were opened together the order in which they are read does not matter.
                    let is_suited = self.suited.take().is_some_and(|tabs| tabs == self.tabs());
                    if is_first || is_suited {
                        self.layout.suit(self.session.traces());
                        if watches {
                            self.layout.show(capture::SPEC.id);
                        }
                    }
                    if is_first {
                        forget_scrolled(ctx);
                        if let Some((trace, memory)) = oom {
                            self.session.memory.show(trace, memory);
                        }
                    }
                    let has_more = !done.as_slice().is_empty() || !self.loads.is_idle();
                    self.suited = (has_more && (is_first || is_suited)).then(|| self.tabs());
                    self.settings.remember(&loaded.path);
                }
                Ok(Found::Folder(folder)) => {
                    let note = |text| Note { text, path: Some(loaded.path), kind: NoteKind::Info };
                    self.notes.extend(folder.note().map(note));
                    folder.files.iter().for_each(|file| self.queue(file, self.options));
                }
                Err(LoadError::Cancelled) => {}
                Err(LoadError::Failed(text)) => {
                    self.notes.push(Note { text, path: Some(loaded.path), kind: NoteKind::Unopened });
                }
                Err(LoadError::NeedsConsent(text)) => {
                    self.notes.push(Note { text, path: Some(loaded.path), kind: NoteKind::Consent });
                }
            }
        }
    }

    fn apply_settings(&self, ctx: &Context) {
        ctx.set_theme(match self.settings.theme {
            ThemeChoice::System => ThemePreference::System,
            ThemeChoice::Dark => ThemePreference::Dark,
            ThemeChoice::Light => ThemePreference::Light,
        });
        ctx.set_zoom_factor(self.settings.scale);
        // What this frame has painted already has the old theme.
        ctx.request_repaint();
    }

    /// What lies above everything else.
    fn floating_ui(&mut self, ctx: &Context) {
        if let Some(path) = self.dialog.ui(ctx) {
            self.commands.push(Command::OpenPath(path));
        }
        self.save.ui(ctx);
        if self.leaving.is_open() {
            match self.leaving.ui(self.views.has_run(), ctx) {
                Some(Leave::Close) => ctx.send_viewport_cmd(ViewportCommand::Close),
                Some(Leave::StopTheRun) => self.commands.push(Command::StopRun),
                None => {}
            }
        }
        let is_dark = ctx.global_style().visuals.dark_mode;
        // Without a trace no tab is on screen.
        let has_tabs = !self.session.traces().is_empty();
        let is_open = |command: &Command| matches!(command, Command::Show(id) if has_tabs && self.layout.is_open(id));
        self.palette.ui(
            &mut ViewContext::new(&mut self.session, &self.answers, is_dark, &mut self.commands),
            is_open,
            ctx,
        );
        self.shortcuts.ui(ctx, self.settings.wheel_zooms);
        welcome::drop_ui(ctx);
    }
}

/// Scrolls everything to its start: what was scrolled before was of other files.
fn forget_scrolled(ctx: &Context) {
    ctx.data_mut(|kept| kept.remove_by_type::<egui::containers::scroll_area::State>());
}
