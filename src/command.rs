//! The table of commands: label, help and keys. Those that show a view follow from the table of views.

use eframe::egui::text_selection::LabelSelectionState;
use eframe::egui::{Context, Event, Key, KeyboardShortcut, Modifiers};

use crate::model::{SliceId, TrackId};

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
    Quit,
    ZoomIn,
    ZoomOut,
    PanLeft,
    PanRight,
    /// Shows all open traces from start to end.
    ZoomToFit,
    /// Centers the selection; on a second run, zooms to it.
    FocusSelection,
    /// Zooms to the selected time range.
    ZoomToRange,
    /// Scrolls to the selection and moves the view if it is off screen; the zoom stays.
    Reveal,
    UndoZoom,
    RedoZoom,
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
    /// Marks the selected slice's start, else the middle of the view.
    MarkMoment,
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
    /// Shows all allocations alike again.
    ClearHighlight,
    /// Swaps the axis of memory over time: time and events.
    ToggleEventsAxis,
    CollapseAll,
    ExpandAll,
    /// Shows the tracks and groups of the timeline that were hidden.
    ShowHiddenTracks,
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
    /// Closes the view that has the focus.
    CloseView,
    /// Lists the events of this track, by the index of its trace.
    ListEvents(usize, TrackId),
    /// Brings the summary of the selected range to the front, unless a table that follows the range is there.
    /// It becomes the selected range.
    ShowRange(crate::model::TimeRange),
    /// Lists what was allocated in this range of session time, which becomes the selected one.
    ListAllocations(crate::model::TimeRange),
    /// Asks where to, and writes a text there: a name for the file to begin with, and the text.
    SaveText(String, std::sync::Arc<str>),
    /// Says in the status bar why something that was asked for did not happen, and what to do.
    Tell(&'static str),
    ToggleBottomPanel,
    ToggleSidePanel,
    ToggleTheme,
    /// Swaps what the plain wheel and Ctrl+wheel do: scroll and zoom.
    ToggleWheelZooms,
    ScaleUp,
    ScaleDown,
    ScaleReset,
    ResetLayout,
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
    /// An open trace in which memory was recorded.
    Memory,
    Selection,
    /// A selected time range.
    Range,
    /// Hits of a search.
    Hits,
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
}

/// A row that needs nothing in the menus File, View and Help, and an open trace in the others.
const fn spec(
    menu: Menu,
    command: Command,
    label: &'static str,
    help: &'static str,
    keys: &'static [KeyboardShortcut],
) -> CommandSpec {
    let needs = match menu {
        Menu::File | Menu::View | Menu::Help => Needs::Nothing,
        Menu::Memory => Needs::Memory,
        Menu::Navigate | Menu::Select | Menu::Search => Needs::Trace,
    };
    CommandSpec { command, menu, label, help, keys, needs }
}

const fn key(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::NONE, key)
}

const fn shift(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::SHIFT, key)
}

const fn alt(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::ALT, key)
}

pub const fn ctrl(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::COMMAND, key)
}

pub const fn ctrl_shift(key: Key) -> KeyboardShortcut {
    KeyboardShortcut::new(Modifiers::COMMAND.plus(Modifiers::SHIFT), key)
}

/// Every command that can be chosen, in the order of the menus, but [`Command::Show`]. Those that name a file,
/// trace or track are not listed.
pub const COMMANDS: &[CommandSpec] = &[
    spec(
        Menu::File,
        Command::OpenFile,
        "Open file…",
        "Open one or more traces beside those that are open",
        &[ctrl(Key::O)],
    ),
    spec(
        Menu::File,
        Command::OpenFolder,
        "Open folder…",
        "Open the traces directly inside a folder beside those that are open",
        &[ctrl_shift(Key::O)],
    ),
    spec(
        Menu::File,
        Command::CloseTrace,
        "Close trace…",
        "Choose an open trace or file and close it",
        &[ctrl_shift(Key::W)],
    )
    .needs(Needs::Trace),
    spec(
        Menu::File,
        Command::CloseAll,
        "Close all",
        "Close every open trace and cancel what is loading",
        &[ctrl(Key::W)],
    )
    .needs(Needs::TraceOrLoad),
    spec(Menu::File, Command::Quit, "Quit", "Close the window; what is loading is canceled", &[ctrl(Key::Q)]),
    spec(Menu::View, Command::ToggleSidePanel, "Side panel", "Show or hide the details", &[ctrl(Key::B)]),
    spec(Menu::View, Command::ToggleBottomPanel, "Bottom panel", "Show or hide tables and lists", &[ctrl(Key::J)]),
    spec(Menu::View, Command::CloseView, "Close view", "Close the view that was used last", &[]).needs(Needs::Trace),
    spec(
        Menu::View,
        Command::ResetLayout,
        "Reset layout",
        "Open every view again, where it was at first, with its first settings",
        &[ctrl_shift(Key::R)],
    ),
    spec(Menu::View, Command::CollapseAll, "Collapse all tracks", "Show one row for each group of tracks", &[])
        .needs(Needs::Trace),
    spec(Menu::View, Command::ExpandAll, "Expand all tracks", "Show every row of every track", &[]).needs(Needs::Trace),
    spec(
        Menu::View,
        Command::ShowHiddenTracks,
        "Show hidden tracks",
        "Show the tracks and groups of the timeline that were hidden",
        &[],
    )
    .needs(Needs::Trace),
    spec(
        Menu::View,
        Command::ToggleQueues,
        "Launch queues",
        "Show or hide below each device how far the host launches ahead: runway, queued work and launch-ahead",
        &[],
    )
    .needs(Needs::Trace),
    spec(
        Menu::View,
        Command::ToggleWheelZooms,
        "Wheel zooms",
        "Let the plain wheel zoom and Ctrl+wheel scroll, or the other way round",
        &[],
    ),
    spec(Menu::View, Command::ToggleTheme, "Light or dark theme", "Switch between the light and the dark theme", &[]),
    spec(
        Menu::View,
        Command::ScaleUp,
        "Larger text",
        "Make everything in the window larger",
        &[ctrl(Key::Plus), ctrl(Key::Equals)],
    ),
    spec(Menu::View, Command::ScaleDown, "Smaller text", "Make everything in the window smaller", &[ctrl(Key::Minus)]),
    spec(Menu::View, Command::ScaleReset, "Normal text size", "Show everything at its normal size", &[ctrl(Key::Num0)]),
    spec(Menu::Navigate, Command::ZoomToFit, "Zoom to fit", "Show all slices from start to end", &[key(Key::Num0)]),
    spec(
        Menu::Navigate,
        Command::FocusSelection,
        "Focus selection",
        "Center the selection; a second time, zoom to it",
        &[key(Key::F)],
    )
    .needs(Needs::Selection),
    spec(Menu::Navigate, Command::Reveal, "Reveal selection", "Scroll to the selection without changing the zoom", &[])
        .needs(Needs::Selection),
    spec(Menu::Navigate, Command::ZoomToRange, "Zoom to range", "Zoom to the selected time range", &[key(Key::Z)])
        .needs(Needs::Range),
    spec(
        Menu::Navigate,
        Command::ZoomIn,
        "Zoom in",
        "Show less time, in more detail",
        &[key(Key::Plus), key(Key::Equals)],
    ),
    spec(Menu::Navigate, Command::ZoomOut, "Zoom out", "Show more time", &[key(Key::Minus)]),
    spec(Menu::Navigate, Command::PanLeft, "Pan left", "Move the view to an earlier time", &[key(Key::ArrowLeft)]),
    spec(Menu::Navigate, Command::PanRight, "Pan right", "Move the view to a later time", &[key(Key::ArrowRight)]),
    spec(
        Menu::Navigate,
        Command::UndoZoom,
        "Undo zoom",
        "Go back to the time range shown before",
        &[alt(Key::ArrowLeft), key(Key::Backspace)],
    ),
    spec(
        Menu::Navigate,
        Command::RedoZoom,
        "Redo zoom",
        "Go forward to the time range shown after",
        &[alt(Key::ArrowRight)],
    ),
    spec(
        Menu::Select,
        Command::NextSlice,
        "Next slice",
        "Select the next slice of this row; in memory, go to the next event",
        &[key(Key::Period)],
    ),
    spec(
        Menu::Select,
        Command::PreviousSlice,
        "Previous slice",
        "Select the slice before on this row; in memory, go one event back",
        &[key(Key::Comma)],
    ),
    spec(Menu::Select, Command::ParentSlice, "Parent slice", "Select the slice around this one", &[key(Key::ArrowUp)]),
    spec(
        Menu::Select,
        Command::ChildSlice,
        "Child slice",
        "Select the first slice inside this one",
        &[key(Key::ArrowDown)],
    ),
    spec(
        Menu::Select,
        Command::NextGap,
        "Next gap",
        "Select the longest gap of the device, then the next longest, or along time as the Gaps view says",
        &[key(Key::G)],
    ),
    spec(
        Menu::Select,
        Command::PreviousGap,
        "Previous gap",
        "Select the gap before, in the same order",
        &[shift(Key::G)],
    ),
    spec(
        Menu::Select,
        Command::NextStep,
        "Next step",
        "Make the time of the next training step the selected range",
        &[key(Key::N)],
    ),
    spec(
        Menu::Select,
        Command::PreviousStep,
        "Previous step",
        "Make the time of the training step before the selected range",
        &[shift(Key::N)],
    ),
    spec(
        Menu::Select,
        Command::FollowFlow,
        "Follow flow",
        "Go along the arrow to what this slice launched or caused",
        &[key(Key::CloseBracket)],
    ),
    spec(
        Menu::Select,
        Command::FollowFlowBack,
        "Follow flow back",
        "Go back along the arrow to what launched or caused this slice",
        &[key(Key::OpenBracket)],
    ),
    spec(
        Menu::Select,
        Command::RangeFromSelection,
        "Range from selection",
        "Make the time of the selected slice the selected range",
        &[key(Key::R)],
    )
    .needs(Needs::Selection),
    spec(
        Menu::Select,
        Command::MarkMoment,
        "Mark moment",
        "Mark the start of the selection, or the middle of the view",
        &[key(Key::M)],
    ),
    spec(Menu::Select, Command::MarkRange, "Mark range", "Mark the selected time range", &[shift(Key::M)])
        .needs(Needs::Range),
    spec(
        Menu::Select,
        Command::CopyName,
        "Copy name",
        "Copy the name of the selected slice, or size, address and stack of the selected allocation",
        &[ctrl(Key::C)],
    )
    .needs(Needs::Selection),
    spec(
        Menu::Select,
        Command::CopyKernelProfile,
        "Copy ncu command",
        "Copy a command line that profiles the selected kernel in depth, with Nsight Compute or on AMD with ROCm's",
        &[],
    )
    .needs(Needs::Selection),
    spec(
        Menu::Select,
        Command::Deselect,
        "Deselect",
        "Clear the selection; a second time, highlighted memory, then the selected range",
        &[key(Key::Escape)],
    ),
    spec(
        Menu::Memory,
        Command::GoToPeak,
        "Go to memory peak",
        "Choose the moment at which most memory is in use",
        &[key(Key::P)],
    ),
    spec(
        Menu::Memory,
        Command::PlayMoments,
        "Play memory",
        "Move the moment through the recording, event after event; a second time, stop",
        &[shift(Key::P)],
    ),
    spec(
        Menu::Memory,
        Command::SetBase,
        "Set memory base",
        "Compare memory at later moments with the chosen one",
        &[key(Key::B)],
    ),
    spec(
        Menu::Memory,
        Command::ClearBase,
        "Clear memory base",
        "Compare memory with the start of the recording again",
        &[shift(Key::B)],
    ),
    spec(
        Menu::Memory,
        Command::ClearHighlight,
        "Clear highlight",
        "Show all allocations alike again, as Escape does",
        &[key(Key::H)],
    ),
    spec(
        Menu::Memory,
        Command::ToggleEventsAxis,
        "Time or events",
        "Show memory over time, or one event after another",
        &[key(Key::E)],
    ),
    spec(Menu::Search, Command::Search, "Search…", "Find slices by name", &[key(Key::Slash), ctrl(Key::F)]),
    spec(Menu::Search, Command::NextHit, "Next hit", "Select the next slice that the search found", &[key(Key::Enter)])
        .needs(Needs::Hits),
    spec(
        Menu::Search,
        Command::PreviousHit,
        "Previous hit",
        "Select the slice before that the search found",
        &[shift(Key::Enter)],
    )
    .needs(Needs::Hits),
    spec(Menu::Search, Command::FindTrack, "Find track…", "Find a track by its name", &[ctrl(Key::P)]),
    spec(
        Menu::Help,
        Command::Palette,
        "Command palette…",
        "Find any command by its name",
        &[ctrl_shift(Key::P), ctrl(Key::K)],
    ),
    spec(
        Menu::Help,
        Command::Shortcuts,
        "Keyboard and mouse",
        "Show every key and what the mouse does",
        &[key(Key::Questionmark)],
    ),
];

/// A shortcut as it is printed on the keys: `Ctrl+/`, not "Ctrl+Slash".
pub fn key_text(ctx: &Context, shortcut: &KeyboardShortcut) -> String {
    let key = match shortcut.logical_key {
        arrow @ (Key::ArrowUp | Key::ArrowDown | Key::ArrowLeft | Key::ArrowRight) => arrow.name(),
        key => key.symbol_or_name(),
    };
    match ctx.format_modifiers(shortcut.modifiers).as_str() {
        "" => key.to_owned(),
        modifiers => format!("{modifiers}+{key}"),
    }
}

/// The commands whose shortcuts were pressed since the last frame, taken out of the input.
///
/// While a text field has the keyboard, only shortcuts with Ctrl or Cmd count; while another
/// control has it, the keys that work a control do not.
///
/// * `table`: the commands to look for.
/// * `is_taken`: whether at the end of the last frame a text field, a menu or a dialog had the keyboard.
///   On Escape egui takes the focus away before this runs.
pub fn pressed(ctx: &Context, table: &[CommandSpec], is_taken: bool) -> Vec<Command> {
    let is_typing = is_taken || ctx.text_edit_focused();
    let is_on_control = ctx.egui_wants_keyboard_input();
    let is_free = |shortcut: &KeyboardShortcut| {
        let is_for_text = shortcut.logical_key == Key::C;
        let is_for_control = matches!(
            shortcut.logical_key,
            Key::Enter | Key::Escape | Key::ArrowUp | Key::ArrowDown | Key::ArrowLeft | Key::ArrowRight
        );
        match shortcut.modifiers.command {
            true => !(is_typing && is_for_text),
            false => !(is_typing || is_on_control && is_for_control),
        }
    };
    let has_copied = !is_typing && !has_selected_text(ctx);
    let mut commands = Vec::new();
    ctx.input_mut(|input| {
        for (command, shortcut) in by_specificity(table) {
            while is_free(shortcut) && input.consume_shortcut(shortcut) {
                commands.push(command.clone());
            }
        }
        // The window system turns Ctrl+C into an event of its own.
        if has_copied && input.events.iter().any(|event| matches!(event, Event::Copy)) {
            commands.push(Command::CopyName);
        }
    });
    commands
}

/// Whether text of a label is selected, which Ctrl+C then copies.
fn has_selected_text(ctx: &Context) -> bool {
    ctx.plugin_opt::<LabelSelectionState>().is_some_and(|state| state.lock().has_selection())
}

/// Most modifiers first: egui lets "G" match Shift+G.
fn by_specificity(table: &[CommandSpec]) -> impl Iterator<Item = (&Command, &KeyboardShortcut)> {
    let with_rank = |rank| {
        let all = table.iter().flat_map(|spec| spec.keys.iter().map(move |key| (&spec.command, key)));
        all.filter(move |(_, key)| n_modifiers(key) == rank)
    };
    (0..=3).rev().flat_map(with_rank)
}

fn n_modifiers(shortcut: &KeyboardShortcut) -> u8 {
    let Modifiers { alt, shift, command, .. } = shortcut.modifiers;
    u8::from(alt) + u8::from(shift) + u8::from(command)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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
        assert_eq!(text(Command::UndoZoom), "Alt+Left");
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
        assert_eq!(press(&ctx, Modifiers::ALT, Key::ArrowLeft), [Command::UndoZoom]);
        assert_eq!(press(&ctx, Modifiers::SHIFT, Key::Questionmark), [Command::Shortcuts]);
    }
}
