//! What does each command do?

use std::path::PathBuf;

use eframe::egui::{Context, ViewportCommand};

use super::{App, Note};
use crate::command::Command;
use crate::settings::{BottomTab, ThemeChoice};
use crate::view::palette::Mode;
use crate::view::timeline::TimelineSettings;
use crate::view::{Selection, View as _};

/// One step of "larger" or "smaller".
const SCALE_STEP: f32 = 0.1;

impl App {
    /// Runs one command. What is neither the window's nor another view's is the timeline's.
    pub(super) fn run(&mut self, ctx: &Context, command: Command) {
        match command {
            Command::OpenFile => self.dialog.ask(ctx),
            Command::OpenPath(path) => self.open(path),
            Command::CloseAll => {
                self.loads.cancel_all();
                self.session.clear();
            }
            Command::Quit => ctx.send_viewport_cmd(ViewportCommand::Close),
            Command::Search => {
                self.show_tab(BottomTab::Search);
                self.search.focus();
            }
            Command::ShowSearch => self.show_tab(BottomTab::Search),
            Command::ShowRangeSummary => self.show_tab(BottomTab::Range),
            Command::ShowKernels => self.show_tab(BottomTab::Kernels),
            Command::ShowOperators => self.show_tab(BottomTab::Operators),
            Command::ShowCalls => self.show_tab(BottomTab::Calls),
            Command::ShowCopies => self.show_tab(BottomTab::Copies),
            Command::ShowAnnotations => self.show_tab(BottomTab::Annotations),
            Command::SaveText(name, text) => self.save.ask(ctx, name, text),
            Command::ShowProblems => self.show_tab(BottomTab::Problems),
            Command::FindTrack => self.palette.open(Mode::Tracks),
            Command::Palette => self.palette.open(Mode::Commands),
            Command::Shortcuts => self.shortcuts.toggle(),
            Command::CopyName => self.copy_name(ctx),
            Command::ToggleSidePanel => self.settings.is_side_open ^= true,
            Command::ToggleBottomPanel => self.settings.is_bottom_open ^= true,
            Command::ToggleTheme | Command::ScaleUp | Command::ScaleDown | Command::ScaleReset => {
                self.change_look(ctx, &command);
            }
            Command::ResetLayout => self.reset_layout(ctx),
            other => self.run_in_views(ctx, &other),
        }
        ctx.request_repaint();
    }

    fn run_in_views(&mut self, ctx: &Context, command: &Command) {
        let is_dark = ctx.global_style().visuals.dark_mode;
        let mut view = self.session.context(is_dark, &mut self.commands);
        match (command, *view.selection) {
            (Command::Reveal, Selection::Slice { trace, slice }) => self.timeline.reveal(&mut view, trace, slice),
            _ => {
                let _ = self.search.run(command, &mut view) || self.timeline.run(command, &mut view);
            }
        }
    }

    fn open(&mut self, path: PathBuf) {
        // Two ways to one file are one file.
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        if self.session.has_file(&path) || !self.loads.add(path.clone()) {
            let text = "This file is open already".to_owned();
            self.notes.push(Note { text, path: Some(path), is_error: false });
        } else {
            self.notes.retain(|note| note.path.as_ref() != Some(&path));
        }
    }

    fn show_tab(&mut self, tab: BottomTab) {
        self.settings.bottom_tab = tab;
        self.settings.is_bottom_open = true;
    }

    fn copy_name(&self, ctx: &Context) {
        if let Selection::Slice { trace, slice } = self.session.selection
            && let Some(open) = self.session.traces().get(trace)
        {
            ctx.copy_text(open.trace.slice_name(slice).to_owned());
        }
    }

    fn change_look(&mut self, ctx: &Context, command: &Command) {
        match command {
            Command::ToggleTheme => {
                let is_dark = ctx.global_style().visuals.dark_mode;
                self.settings.theme = if is_dark { ThemeChoice::Light } else { ThemeChoice::Dark };
            }
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
        self.timeline.set_settings(TimelineSettings::default());
        self.settings.is_side_open = true;
        self.settings.is_bottom_open = true;
        self.settings.set_scale(1.0);
        self.apply_settings(ctx);
    }
}
