//! Runs every command that no view handles.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui::{Context, ViewportCommand};

use super::App;
use super::dialog::Pick;
use super::layout::Layout;
use super::save::Content;
use super::told::Told;
use crate::capture::nsys::lasting;
use crate::command::Command;
use crate::figures::escape;
use crate::figures::text::display_name;
use crate::model::Trace;
use crate::reader::Options;
use crate::session::{RunPlaces, Selection};
use crate::settings::{SettingsFile, ThemeChoice};
use crate::view::details::stack_text;
use crate::view::palette::Mode;
use crate::view::{self, DockArea, ViewContext, range_summary, view_spec};

/// One step of "larger" or "smaller".
const SCALE_STEP: f32 = 0.1;

impl App {
    /// Runs one command of the window or of a view; false if no view on screen handles it.
    pub(super) fn run(&mut self, ctx: &Context, command: Command) -> bool {
        ctx.request_repaint();
        match command {
            Command::OpenFile => self.dialog.ask(ctx, Pick::Files),
            Command::OpenFolder => self.dialog.ask(ctx, Pick::Folders),
            Command::OpenPath(path) => self.open(path, self.options),
            Command::UseNsys(nsys) => {
                self.settings.nsys = Some(lasting(&nsys));
                self.loads.nsys.clone_from(&self.settings.nsys);
            }
            Command::CloseTrace => self.close_one(ctx),
            Command::CloseTraceAt(index) => self.close(ctx, |i, _| i == index),
            Command::CloseFile(path) => self.close(ctx, |_, trace| trace.info.path == path),
            Command::CloseAll => {
                self.loads.cancel_all();
                self.close(ctx, |_, _| true);
            }
            Command::BringToFront(path) => self.bring_to_front(&path),
            Command::PutBehind(path) => self.put_behind(path),
            Command::ShowFile(path) => self.show_file(&path),
            Command::Quit => {
                if self.leaving.may_close(self.views.has_run()) {
                    ctx.send_viewport_cmd(ViewportCommand::Close);
                }
            }
            Command::ShowRecorded => self.show_recorded(),
            Command::Show(id) => self.show(ctx, id),
            Command::Visit(id) => {
                self.session.history.depart();
                self.show(ctx, id);
            }
            Command::ShowRange(range) => {
                self.session.range = Some(range);
                if !self.views.follow_range(&self.layout.on_screen()) {
                    self.layout.show(range_summary::SPEC.id);
                }
            }
            Command::CloseView => {
                if self.session.traces().is_empty() {
                    self.alone = None;
                } else if let Some(id) = self.layout.focused() {
                    self.close_view(id);
                }
            }
            Command::Back | Command::Forward => self.travel(&command),
            Command::Deselect if self.leave_machine() => {}
            Command::Tell(text) => self.tell(Told::refusal(text)),
            Command::Say(text) => self.tell(Told::said(text)),
            Command::SaveText(name, text) => self.save.ask(ctx, name, Content::Text(text)),
            Command::ExportReport => self.export_report(ctx),
            Command::GoToTime => self.palette.open(Mode::Time),
            Command::ShowTime(_) => {
                self.bring_timeline();
                return self.run_in_views(ctx, &command);
            }
            Command::FindTrack => self.palette.open(Mode::Tracks),
            Command::Palette => self.palette.open(Mode::Commands),
            Command::Shortcuts => self.shortcuts.toggle(),
            Command::CopyName => self.copy_name(ctx),
            Command::ToggleSidePanel => self.layout.toggle(DockArea::Side),
            Command::ToggleBottomPanel => self.layout.toggle(DockArea::Bottom),
            Command::RunsFromStarts => self.place_runs(RunPlaces::Starts),
            Command::RunsFromSteps => self.place_runs(RunPlaces::FirstSteps),
            Command::RunsOnOneClock => self.place_runs(RunPlaces::Recorded),
            Command::ToggleWheelZooms => self.settings.wheel_zooms ^= true,
            Command::CopySettingsPath => self.copy_settings_path(ctx),
            look if look.is_look() => self.change_look(ctx, &look),
            Command::ResetLayout => self.reset_layout(ctx),
            other => return self.run_in_views(ctx, &other),
        }
        true
    }

    /// Closes the only trace, or asks which of several.
    fn close_one(&mut self, ctx: &Context) {
        match self.session.traces() {
            [_] => self.close(ctx, |_, _| true),
            _ => self.palette.open(Mode::OpenTraces),
        }
    }

    /// Says something of what is selected now, until that changes.
    fn tell(&mut self, told: Told) {
        self.told = Some(Told { of: Some((self.session.selection, self.session.range)), ..told });
    }

    /// Brings the timeline to the front, if it is not on screen.
    fn bring_timeline(&mut self) {
        let id = view::timeline::SPEC.id;
        if !self.layout.on_screen().contains(&id) {
            self.layout.show(id);
        }
    }

    /// Goes back or forward among the places that were visited.
    fn travel(&mut self, command: &Command) {
        let is_back = *command == Command::Back;
        let place = if is_back { self.session.history.back() } else { self.session.history.forward() };
        let Some(place) = place else {
            let text = if is_back { "There is nothing to go back to" } else { "There is nothing to go forward to" };
            return self.commands.push(Command::Tell(text));
        };
        self.session.go(&place);
        let on_screen = self.layout.on_screen();
        for id in place.views.iter().filter(|id| !on_screen.contains(id)) {
            self.layout.activate(id);
        }
        let time = self.session.selection.time(self.session.traces());
        if time.is_some_and(|time| time.intersect(place.visible).is_some()) {
            self.commands.push(Command::Reveal);
        }
    }

    /// Shows a view; without a trace only one of this machine.
    fn show(&mut self, ctx: &Context, id: &'static str) {
        if self.layout.on_screen().contains(&id) {
            self.flashed = Some((id, ctx.input(|input| input.time)));
        }
        if view_spec(id).is_some_and(|spec| spec.content == view::Content::Machine) {
            self.alone = Some(id);
        }
        self.layout.show(id);
    }

    /// Leads from a view of this machine, if it was used last, back to what lies below it; not while a program runs that
    /// was started there. Says whether it did.
    fn leave_machine(&mut self) -> bool {
        let is_alone = self.session.traces().is_empty();
        let spec = if is_alone { self.alone } else { self.layout.focused() }.and_then(view_spec);
        match spec.filter(|spec| spec.content == view::Content::Machine && !self.views.has_run()) {
            Some(_) if is_alone => self.alone.take().is_some(),
            Some(spec) => self.layout.leave(spec.id),
            None => false,
        }
    }

    fn run_in_views(&mut self, ctx: &Context, command: &Command) -> bool {
        let is_dark = ctx.global_style().visuals.dark_mode;
        let on_screen = self.layout.on_screen();
        self.views.run(
            command,
            &on_screen,
            &mut ViewContext::new(&mut self.session, &self.answers, is_dark, &mut self.commands),
        )
    }

    /// Starts to read a file that is not open yet, or the files of a folder.
    pub(super) fn open(&mut self, path: PathBuf, options: Options) {
        // Two ways to one file are one file.
        self.queue(&std::fs::canonicalize(&path).unwrap_or(path), options);
    }

    /// The same with a path that has no links in it.
    pub(super) fn queue(&mut self, path: &Path, options: Options) {
        let name = || display_name(&path.file_name().unwrap_or_default().to_string_lossy()).into_owned();
        if self.session.has_file(path) {
            self.told = Some(Told::said(format!("{} is already open", name())));
            self.show_file(path);
        } else if !self.loads.add(path.to_path_buf(), options) {
            self.told = Some(Told::said(format!("{} is already being read", name())));
        } else {
            self.notes.retain(|note| note.path.as_deref() != Some(path));
        }
    }

    fn bring_to_front(&mut self, path: &Path) {
        if let Some(trace) = self.session.traces().iter().position(|open| open.trace.info.path == path) {
            self.session.bring_to_front(trace);
        }
    }

    /// Keeps what the user looks at as it is where this file was opened beside it, and says so.
    fn put_behind(&mut self, path: PathBuf) {
        let Some(trace) = self.session.traces().iter().position(|open| open.trace.info.path == path) else { return };
        self.session.put_behind(trace);
        let name = display_name(&self.session.traces()[trace].name).into_owned();
        let text = format!("Recorded: {name}. It is open behind what you look at");
        self.told = Some(Told { leads_to: Some(Command::ShowFile(path)), ..Told::said(text) });
    }

    /// Shows the views that suit what is in front.
    fn show_recorded(&mut self) {
        let in_front: Vec<_> = self.session.traces().iter().filter(|open| !open.is_behind).cloned().collect();
        self.layout.suit(&in_front);
    }

    /// Shows an open file: the views that suit it, and beside others its time.
    fn show_file(&mut self, path: &Path) {
        let traces = self.session.traces();
        let Some(index) = traces.iter().position(|open| open.trace.info.path == path) else { return };
        let (is_behind, is_alone) = (traces[index].is_behind, traces.len() == 1);
        if is_behind {
            self.session.bring_to_front(index);
        }
        let open = self.session.traces()[index].clone();
        self.layout.suit(std::slice::from_ref(&open));
        if !open.trace.memories.is_empty() {
            self.session.memory.show(index, 0);
        }
        if !is_alone {
            self.session.navigation.go(open.content.shifted(open.offset));
        }
    }

    /// Asks where to write the report of all open traces.
    fn export_report(&mut self, ctx: &Context) {
        let traces: Vec<_> = self.session.traces().iter().map(|open| Arc::clone(&open.trace)).collect();
        let name = match traces.as_slice() {
            [] => return,
            [trace] => {
                let name = trace.info.path.file_name().unwrap_or_default().to_string_lossy();
                format!("{}.report.txt", name.split('.').next().unwrap_or_default())
            }
            _ => "report.txt".to_owned(),
        };
        self.save.ask(ctx, name, Content::Report(traces, Box::new(self.session.thresholds)));
    }

    fn close(&mut self, ctx: &Context, is_closed: impl Fn(usize, &Trace) -> bool) {
        self.session.close(is_closed);
        if self.session.traces().is_empty() {
            self.forget_unopened();
        }
        // No later command may go to a hit in a trace that is gone.
        let is_dark = ctx.global_style().visuals.dark_mode;
        self.views.update(&mut ViewContext::new(&mut self.session, &self.answers, is_dark, &mut self.commands), ctx);
    }

    fn copy_name(&self, ctx: &Context) {
        match self.session.selection {
            Selection::Slice { trace, slice } => {
                if let Some(open) = self.session.traces().get(trace) {
                    ctx.copy_text(escape::visible(open.trace.slice_name(slice)).into_owned());
                }
            }
            Selection::Allocation { trace, memory, id } => {
                let open = self.session.traces().get(trace);
                if let Some((open, history)) = open.and_then(|open| Some((open, open.trace.memories.get(memory)?))) {
                    let (all, i) = (&history.allocations, id.idx());
                    let stack = stack_text(&open.trace, all.stack[i]);
                    let at = history.address_of(id).map(|addr| format!(" at {addr:#x}")).unwrap_or_default();
                    ctx.copy_text(format!("{} B{at}\n{stack}", all.bytes[i]));
                }
            }
            Selection::Gap { time, .. } => ctx.copy_text(format!("{} ns idle", time.dur())),
            Selection::None | Selection::Instant { .. } => {}
        }
    }

    fn copy_settings_path(&mut self, ctx: &Context) {
        match SettingsFile::place() {
            Some(path) => ctx.copy_text(escape::visible(&path.display().to_string()).into_owned()),
            None => self.told = Some(Told::refusal("Settings are not kept: this user has no folder for them")),
        }
    }

    fn change_look(&mut self, ctx: &Context, command: &Command) {
        match command {
            Command::SystemTheme => self.settings.theme = ThemeChoice::System,
            Command::DarkTheme => self.settings.theme = ThemeChoice::Dark,
            Command::LightTheme => self.settings.theme = ThemeChoice::Light,
            Command::ScaleUp => self.settings.set_scale(self.settings.scale + SCALE_STEP),
            Command::ScaleDown => self.settings.set_scale(self.settings.scale - SCALE_STEP),
            _ => self.settings.set_scale(1.0),
        }
        self.apply_settings(ctx);
    }

    fn reset_layout(&mut self, ctx: &Context) {
        ctx.memory_mut(|memory| {
            memory.reset_areas();
            // Sizes of panels and columns, and what is folded.
            memory.data.clear();
        });
        self.views.reset();
        self.layout = Layout::default();
        self.settings.set_scale(1.0);
        self.apply_settings(ctx);
    }
}
