//! The table of commands: label, help and keys. Those that show a view follow from the table of views.

mod keys;
mod table;

use eframe::egui::KeyboardShortcut;

use crate::model::{SliceId, TimeNs, TrackId};
pub use keys::{key_text, pressed};
pub use table::{COMMANDS, NEXT_GAP, ctrl, ctrl_shift};

/// What can be asked for by menu, key or palette, or by a view. The app runs it before the next frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    OpenFile,
    OpenFolder,
    OpenPath(std::path::PathBuf),
    /// Converts reports of Nsight Systems by this `nsys` from now on.
    UseNsys(std::path::PathBuf),
    /// Asks which of the open traces to close.
    CloseTrace,
    /// Closes the trace of this index.
    CloseTraceAt(usize),
    /// Closes all traces of a file.
    CloseFile(std::path::PathBuf),
    CloseAll,
    /// Lets the picture be of the run of this file alone, with the others behind it.
    BringToFront(std::path::PathBuf),
    /// Lets the picture be of what it was of before this file was opened, and says that it is open.
    PutBehind(std::path::PathBuf),
    /// Shows an open file: the views that suit it, and beside others its time.
    ShowFile(std::path::PathBuf),
    /// Asks where to, and writes what `lacuna report` says of all open traces there.
    ExportReport,
    Quit,
    /// Asks the program of the launcher to end.
    StopRun,
    /// Brings to the front what suits the open traces, as when the first of them was opened.
    ShowRecorded,
    ZoomIn,
    ZoomOut,
    PanLeft,
    PanRight,
    /// Shows all open traces from start to end; on a second run, without what lies far from the rest, or with it.
    ZoomToFit,
    /// Centers the selection; on a second run, zooms to it.
    FocusSelection,
    /// Fills the view with the selection.
    ZoomToSelection,
    /// Asks for a time.
    GoToTime,
    /// Centers the timeline on this moment of session time, and shows where it is.
    ShowTime(TimeNs),
    /// Zooms to the selected time range.
    ZoomToRange,
    /// Scrolls to the selection and moves the view if it is off screen; the zoom stays.
    Reveal,
    UndoZoom,
    RedoZoom,
    /// To the place before: what was selected and on show there.
    Back,
    Forward,
    /// The next slice of the same track and row.
    NextSlice,
    PreviousSlice,
    ParentSlice,
    ChildSlice,
    /// The next gap of the device, by duration or along time.
    NextGap,
    PreviousGap,
    /// Makes the next step the selected range.
    NextStep,
    PreviousStep,
    /// Along the arrow that leaves the selected slice, or to the kernel it launched.
    FollowFlow,
    FollowFlowBack,
    /// Clears the selection, then highlighted memory, then the selected range.
    Deselect,
    /// Marks the moment gone to, else the selected slice's start, else the middle of the view.
    MarkMoment,
    /// Brings back the marks that were deleted last.
    UndoDelete,
    /// Marks the selected range.
    MarkRange,
    /// Makes the selected slice's time the selected range.
    RangeFromSelection,
    /// Chooses the moment of the most memory.
    GoToPeak,
    /// Moves the moment through the recording, or stops.
    PlayMoments,
    /// Compares later moments with the chosen one.
    SetBase,
    ClearBase,
    /// Compares a moment of a memory with one of another, by the index of the trace, that of its memory, and the state:
    /// before and after.
    CompareMoments([(usize, usize, u32); 2]),
    /// Shows all allocations alike again.
    ClearHighlight,
    /// Swaps the axis of memory over time: time and events.
    ToggleEventsAxis,
    CollapseAll,
    ExpandAll,
    /// Folds the rows of deep threads that are folded at first, or unfolds them.
    FoldRows,
    UnfoldRows,
    /// Shows the tracks and groups of the timeline that were hidden.
    ShowHiddenTracks,
    /// Shows each run from zero.
    RunsFromStarts,
    /// Shows the first step of each run at zero, or that which is selected.
    RunsFromSteps,
    /// Shows runs at the times they were recorded.
    RunsOnOneClock,
    /// Shows or hides launched work below each device of the timeline.
    ToggleQueues,
    CopyName,
    /// Copies a command line that profiles the selected kernel in depth.
    CopyKernelProfile,
    /// The same of a kernel, by the index of its trace.
    CopyProfileOf(usize, SliceId),
    Search,
    NextHit,
    PreviousHit,
    FindTrack,
    Palette,
    Shortcuts,
    /// Brings the view of this id to the front, and back if it was closed.
    Show(&'static str),
    /// The same as a place of its own, with a way back to the one before: from a finding to the view that proves it.
    Visit(&'static str),
    /// Closes the view that has the focus.
    CloseView,
    /// Lists the events of this track, by the index of its trace.
    ListEvents(usize, TrackId),
    /// Brings the summary of the selected range to the front, unless a table that follows the range is there.
    /// It becomes the selected range.
    ShowRange(crate::model::TimeRange),
    /// Lists what was allocated in this range of session time, which becomes the selected one.
    ListAllocations(crate::model::TimeRange),
    /// Lists the allocations in whose stacks this text is.
    FindAllocations(String),
    /// Asks where to, and writes a text there: a name for the file to begin with, and the text.
    SaveText(String, std::sync::Arc<str>),
    /// Says in the status bar why something that was asked for did not happen, and what to do, until the selection
    /// changes.
    Tell(&'static str),
    /// The same of what did happen: how it was meant, and what comes next.
    Say(&'static str),
    ToggleBottomPanel,
    ToggleSidePanel,
    /// The theme of the desktop.
    SystemTheme,
    DarkTheme,
    LightTheme,
    /// Copies where the settings are kept.
    CopySettingsPath,
    /// Swaps what the plain wheel and Ctrl+wheel do: scroll and zoom.
    ToggleWheelZooms,
    ScaleUp,
    ScaleDown,
    ScaleReset,
    ResetLayout,
}

impl Command {
    /// Whether it changes how the window looks: its theme, or the size of its text.
    pub fn is_look(&self) -> bool {
        let is_theme = matches!(self, Self::SystemTheme | Self::DarkTheme | Self::LightTheme);
        is_theme || matches!(self, Self::ScaleUp | Self::ScaleDown | Self::ScaleReset)
    }
}

/// Which menu a command is in, and under which heading of the shortcut sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Menu {
    File,
    View,
    Navigate,
    Select,
    Memory,
    Search,
    Help,
}

impl Menu {
    /// Every menu, from left to right.
    pub const ALL: [Self; 7] =
        [Self::File, Self::View, Self::Navigate, Self::Select, Self::Memory, Self::Search, Self::Help];

    /// What the menu bar says.
    pub fn label(self) -> &'static str {
        match self {
            Self::File => "File",
            Self::View => "View",
            Self::Navigate => "Navigate",
            Self::Select => "Select",
            Self::Memory => "Memory",
            Self::Search => "Search",
            Self::Help => "Help",
        }
    }
}

/// What a command needs. Without it the command does nothing and is gray in menus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// An open trace.
    Trace,
    /// An open trace or one that is being read.
    TraceOrLoad,
    /// Several runs.
    Runs,
    /// Several runs that know when they were recorded.
    RecordedRuns,
    /// An open trace in which memory was recorded.
    Memory,
    Selection,
    /// A selected time range.
    Range,
    /// A program that the launcher runs.
    Run,
    /// Hits of a search.
    Hits,
}

impl Needs {
    /// Why a command does nothing now.
    pub fn lack(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Trace => "Nothing is open",
            Self::TraceOrLoad => "Nothing is open or being read",
            Self::Runs => "There are no two runs",
            Self::RecordedRuns => "There are no two runs that know when they were recorded",
            Self::Memory => "No memory was recorded in what is open",
            Self::Selection => "Nothing is selected",
            Self::Range => "No time range is selected",
            Self::Run => "No program runs",
            Self::Hits => "Nothing was searched for, or found",
        }
    }
}

/// One row of the command table.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    pub command: Command,
    pub menu: Menu,
    /// In menus and the palette; "…" if more input follows.
    pub label: &'static str,
    /// One sentence, shown on hover and in the palette.
    pub help: &'static str,
    /// The first is the one that menus show.
    pub keys: &'static [KeyboardShortcut],
    pub needs: Needs,
}

impl CommandSpec {
    const fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// What people call it who do not know its label, for the palette.
    pub fn other_words(&self) -> &'static str {
        match self.command {
            Command::SystemTheme | Command::DarkTheme | Command::LightTheme => {
                "settings preferences options appearance color colour dark mode night"
            }
            Command::ScaleUp | Command::ScaleDown | Command::ScaleReset => {
                "settings preferences options appearance font scale zoom"
            }
            Command::ToggleWheelZooms => "settings preferences options mouse scroll",
            Command::CopySettingsPath => "preferences options configuration config file folder where",
            Command::ResetLayout => "preferences options restore tabs panels windows",
            Command::Shortcuts => "settings preferences help keys keybindings hotkeys",
            Command::Show("samples") => "functions self time call stacks",
            Command::ZoomToFit => "show everything whole all",
            Command::GoToTime => "jump moment timestamp seek position",
            Command::ZoomToSelection => "fit selected slice frame",
            Command::UndoDelete => "restore bring back removed delete marks",
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use eframe::egui::{Context, Event, Key, Modifiers};

    use super::*;
    use crate::view::{all_commands, command_spec};

    #[test]
    fn keys_and_labels_are_unique() {
        let mut keys = HashSet::new();
        let mut labels = HashSet::new();
        for spec in all_commands() {
            assert!(labels.insert(spec.label), "{} is there twice", spec.label);
            assert!(!spec.help.ends_with('.') && !spec.help.is_empty(), "{}", spec.label);
            for key in spec.keys {
                assert!(keys.insert(key), "{key:?} of {} is taken", spec.label);
            }
        }
    }

    #[test]
    fn every_command_has_a_row() {
        let text = include_str!("command.rs");
        let body = text.split("pub enum Command {").nth(1).and_then(|rest| rest.split("\n}").next()).unwrap();
        let names = body.lines().map(str::trim).filter(|line| line.starts_with(char::is_uppercase));
        let mut n = 0;
        for name in names.map(|line| line.trim_end_matches(',')).filter(|name| !name.contains('(')) {
            n += 1;
            let has_row = COMMANDS.iter().any(|spec| format!("{:?}", spec.command) == name);
            assert!(has_row, "{name} has no row in COMMANDS");
        }
        assert_eq!(n, COMMANDS.len());
    }

    #[test]
    fn keys_are_written_as_on_the_keyboard() {
        let ctx = Context::default();
        let text = |command| key_text(&ctx, &command_spec(&command).unwrap().keys[0]);
        assert_eq!(text(Command::Shortcuts), "?");
        assert_eq!(text(Command::Search), "/");
        assert_eq!(text(Command::Back), "Alt+Left");
        assert_eq!(text(Command::PreviousGap), "Shift+G");
    }

    fn press(ctx: &Context, modifiers: Modifiers, key: Key) -> Vec<Command> {
        let event = Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers };
        let input = eframe::egui::RawInput { events: vec![event], ..Default::default() };
        let mut commands = Vec::new();
        let output = ctx.run_ui(input, |ui| commands = pressed(ui.ctx(), all_commands(), false));
        output.drop_without_applying_deltas();
        commands
    }

    #[test]
    fn the_key_with_most_modifiers_wins() {
        let ctx = Context::default();
        assert_eq!(press(&ctx, Modifiers::NONE, Key::G), [Command::NextGap]);
        assert_eq!(press(&ctx, Modifiers::SHIFT, Key::G), [Command::PreviousGap]);
        let ctrl = Modifiers::CTRL | Modifiers::COMMAND;
        assert_eq!(press(&ctx, ctrl, Key::P), [Command::FindTrack]);
        assert_eq!(press(&ctx, ctrl | Modifiers::SHIFT, Key::P), [Command::Palette]);
        assert_eq!(press(&ctx, Modifiers::ALT, Key::ArrowLeft), [Command::Back]);
        assert_eq!(press(&ctx, Modifiers::SHIFT, Key::Backspace), [Command::RedoZoom]);
        assert_eq!(press(&ctx, Modifiers::SHIFT, Key::Questionmark), [Command::Shortcuts]);
    }
}
