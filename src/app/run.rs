//! What does each command do?

use std::path::PathBuf;

use eframe::egui::{Context, ViewportCommand};

use super::dialog::Pick;
use super::{App, Note, NoteKind};
use crate::command::Command;
use crate::model::Trace;
use crate::reader::Options;
use crate::session::Selection;
use crate::settings::{BottomTab, CenterTab, ThemeChoice};
use crate::view::palette::Mode;
use crate::view::timeline::TimelineSettings;
use crate::view::{View, ViewContext};

/// One step of "larger" or "smaller".
const SCALE_STEP: f32 = 0.1;

impl App {
    /// Runs one command. What is not the window's is a view's.
    pub(super) fn run(&mut self, ctx: &Context, command: Command) {
        match command {
            Command::OpenFile => self.dialog.ask(ctx, Pick::Files),
            Command::OpenFolder => self.dialog.ask(ctx, Pick::Folders),
            Command::OpenPath(path) => self.open(path, self.options),
            Command::CloseTrace => self.palette.open(Mode::OpenTraces),
            Command::CloseTraceAt(index) => self.close(|i, _| i == index),
            Command::CloseFile(path) => self.close(|_, trace| trace.info.path == path),
            Command::CloseAll => {
                self.loads.cancel_all();
                self.close(|_, _| true);
            }
            Command::Quit => ctx.send_viewport_cmd(ViewportCommand::Close),
            Command::Search => {
                self.show_tab(BottomTab::Search);
                self.search.focus();
            }
            Command::ShowSearch => self.show_tab(BottomTab::Search),
            Command::ShowRangeSummary => self.show_tab(BottomTab::Range),
            Command::ShowTimeline => self.settings.center_tab = CenterTab::Timeline,
            Command::ShowMemory => self.settings.center_tab = CenterTab::Memory,
            Command::ShowMemoryState => self.settings.center_tab = CenterTab::MemoryState,
            Command::ShowEvents => self.show_tab(BottomTab::Events),
            Command::ListEvents(trace, track) => {
                self.show_tab(BottomTab::Events);
                let is_dark = ctx.global_style().visuals.dark_mode;
                self.events.show(&ViewContext::new(&mut self.session, is_dark, &mut self.commands), trace, track);
            }
            Command::ShowMarks => self.show_tab(BottomTab::Marks),
            Command::ShowKernels => self.show_tab(BottomTab::Kernels),
            Command::ShowOperators => self.show_tab(BottomTab::Operators),
            Command::ShowCalls => self.show_tab(BottomTab::Calls),
            Command::ShowCopies => self.show_tab(BottomTab::Copies),
            Command::ShowAnnotations => self.show_tab(BottomTab::Annotations),
            Command::ShowAllocations => self.show_tab(BottomTab::Allocations),
            Command::ListAllocations(range) => {
                self.session.range = Some(range);
                self.allocations.look_in_range();
                self.show_tab(BottomTab::Allocations);
            }
            Command::ShowLiveMemory => self.show_tab(BottomTab::LiveMemory),
            Command::ShowLeaks => self.show_tab(BottomTab::Leaks),
            Command::ShowReserved => self.show_tab(BottomTab::Reserved),
            Command::ShowSamples => self.show_tab(BottomTab::Samples),
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
        let center = self.center_tab();
        let mut view = ViewContext::new(&mut self.session, is_dark, &mut self.commands);
        match (command, *view.selection) {
            (Command::Reveal, Selection::Slice { trace, slice }) => self.timeline.reveal(&mut view, trace, slice),
            // Its settings, which other views follow, can be changed from anywhere.
            (Command::ToggleWheelZooms | Command::CollapseAll | Command::ExpandAll, _) => {
                self.timeline.run(command, &mut view);
            }
            // Nothing moves in a view that is not on show.
            _ => {
                let is_run = match self.settings.bottom_tab {
                    BottomTab::Samples if self.settings.is_bottom_open => self.flame.run(command, &mut view),
                    BottomTab::LiveMemory if self.settings.is_bottom_open => self.live_memory.run(command, &mut view),
                    _ => false,
                };
                let _ = is_run
                    || self.search.run(command, &mut view)
                    || match center {
                        CenterTab::Timeline => self.timeline.run(command, &mut view),
                        CenterTab::Memory => self.memory.run(command, &mut view),
                        CenterTab::MemoryState => self.memory_state.run(command, &mut view),
                    };
            }
        }
    }

    /// Starts to read a file that is not open yet, or the files of a folder.
    pub(super) fn open(&mut self, path: PathBuf, options: Options) {
        // Two ways to one file are one file.
        self.queue(std::fs::canonicalize(&path).unwrap_or(path), options);
    }

    /// The same with a path that has no links in it.
    pub(super) fn queue(&mut self, path: PathBuf, options: Options) {
        if self.session.has_file(&path) || !self.loads.add(path.clone(), options) {
            let text = "This file is open already".to_owned();
            self.notes.push(Note { text, path: Some(path), kind: NoteKind::Info });
        } else {
            self.notes.retain(|note| note.path.as_ref() != Some(&path));
        }
    }

    fn close(&mut self, is_closed: impl Fn(usize, &Trace) -> bool) {
        self.session.close(is_closed);
        let views: [&mut dyn View; 4] = [&mut self.memory, &mut self.allocations, &mut self.leaks, &mut self.reserved];
        views.into_iter().for_each(View::forget);
        // No later command may go to a hit in a trace that is gone.
        let visible = self.session.navigation.visible();
        self.search.update(self.session.traces(), visible, self.session.range, self.session.answers());
    }

    fn show_tab(&mut self, tab: BottomTab) {
        self.settings.bottom_tab = tab;
        self.settings.is_bottom_open = true;
    }

    fn copy_name(&self, ctx: &Context) {
        match self.session.selection {
            Selection::Slice { trace, slice } => {
                if let Some(open) = self.session.traces().get(trace) {
                    ctx.copy_text(open.trace.slice_name(slice).to_owned());
                }
            }
            Selection::Allocation { trace, memory, id } => {
                let open = self.session.traces().get(trace);
                if let Some((open, history)) = open.and_then(|open| Some((open, open.trace.memories.get(memory)?))) {
                    let (all, i) = (&history.allocations, id.idx());
                    let stack = open.trace.stack_text(all.stack[i]);
                    ctx.copy_text(format!("{} B at {:#x}\n{stack}", all.bytes[i], all.addr[i]));
                }
            }
            Selection::None | Selection::Instant { .. } => {}
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
        // How a hand turns the wheel is a habit, no layout.
        let wheel_zooms = self.timeline.settings().wheel_zooms;
        self.timeline.set_settings(TimelineSettings { wheel_zooms, ..Default::default() });
        self.settings.is_side_open = true;
        self.settings.is_bottom_open = true;
        self.settings.set_scale(1.0);
        self.apply_settings(ctx);
    }
}
