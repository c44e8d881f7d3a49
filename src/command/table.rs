//! The rows of the table of commands, in the order of the menus.

use eframe::egui::{Key, KeyboardShortcut, Modifiers};

use super::{Command, CommandSpec, Menu, Needs};

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

/// What the key of the next gap does, wherever it is said.
pub const NEXT_GAP: &str = "Select the longest gap of the device, then the next longest, down to 10 µs, those in the \
                            judged steps first, or the next in time if the Gaps view is set so";

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
        "Open one or more traces in addition to the open ones",
        &[ctrl(Key::O)],
    ),
    spec(
        Menu::File,
        Command::OpenFolder,
        "Open folder…",
        "Open the traces in a folder in addition to the open ones",
        &[ctrl_shift(Key::O)],
    ),
    spec(
        Menu::File,
        Command::ExportReport,
        "Export report…",
        "Write what `lacuna report` says of the open traces to a file: text, JSON, Markdown, HTML or CSV",
        &[],
    )
    .needs(Needs::Trace),
    spec(
        Menu::File,
        Command::CloseTrace,
        "Close trace…",
        "Close the open trace; of several, choose which",
        &[ctrl(Key::W)],
    )
    .needs(Needs::Trace),
    spec(
        Menu::File,
        Command::CloseAll,
        "Close all",
        "Close every open trace and cancel what is loading",
        &[ctrl_shift(Key::W)],
    )
    .needs(Needs::TraceOrLoad),
    spec(
        Menu::File,
        Command::StopRun,
        "Stop the run",
        "Ask the program that the launcher runs to end, and make it end if it does not",
        &[],
    )
    .needs(Needs::Run),
    spec(
        Menu::File,
        Command::ShowRecorded,
        "Show what was recorded",
        "Bring the views to the front that suit the open traces",
        &[],
    )
    .needs(Needs::Trace),
    spec(Menu::File, Command::Quit, "Quit", "Close the window and cancel loading", &[ctrl(Key::Q)]),
    spec(Menu::View, Command::ToggleSidePanel, "Side panel", "Show or hide the details", &[ctrl(Key::B)]),
    spec(Menu::View, Command::ToggleBottomPanel, "Bottom panel", "Show or hide tables and lists", &[ctrl(Key::J)]),
    spec(Menu::View, Command::CloseView, "Close view", "Close the view that was used last", &[]).needs(Needs::Trace),
    spec(
        Menu::View,
        Command::ResetLayout,
        "Reset layout",
        "Reopen every view in its default place with its default settings",
        &[ctrl_shift(Key::R)],
    ),
    spec(Menu::View, Command::CollapseAll, "Collapse all tracks", "Show one row for each group of tracks", &[])
        .needs(Needs::Trace),
    spec(Menu::View, Command::ExpandAll, "Expand all tracks", "Show every row of every track", &[]).needs(Needs::Trace),
    spec(
        Menu::View,
        Command::UnfoldRows,
        "Unfold all rows of deep threads",
        "Show the outer rows of deep threads that only pass on, and the innermost",
        &[],
    )
    .needs(Needs::Trace),
    spec(
        Menu::View,
        Command::FoldRows,
        "Fold rows of deep threads",
        "Hide the outer rows of deep threads that only pass on, and the innermost, as at first",
        &[],
    )
    .needs(Needs::Trace),
    spec(
        Menu::View,
        Command::ShowHiddenTracks,
        "Show hidden tracks",
        "Show the tracks and groups of the timeline that were hidden, and expand what was collapsed around tracks",
        &[],
    )
    .needs(Needs::Trace),
    spec(
        Menu::View,
        Command::ToggleQueues,
        "Launch queues",
        "Show or hide launch queues below each device: runway, queued work and launch-ahead",
        &[],
    )
    .needs(Needs::Trace),
    spec(Menu::View, Command::RunsFromStarts, "Align runs at their starts", "Show each run from zero", &[])
        .needs(Needs::Runs),
    spec(
        Menu::View,
        Command::RunsFromSteps,
        "Align runs at their steps",
        "Show a step of each run at zero, to compare recordings step by step: the selected one, and of the others that \
         which is as many after the first judged one; without a selected step the first judged one",
        &[],
    )
    .needs(Needs::Runs),
    spec(
        Menu::View,
        Command::RunsOnOneClock,
        "Runs on one clock",
        "Show runs that were recorded far apart at the times they were recorded",
        &[],
    )
    .needs(Needs::RecordedRuns),
    spec(
        Menu::View,
        Command::ToggleWheelZooms,
        "Wheel zooms",
        "Let the plain wheel zoom and Ctrl+wheel scroll, or the other way round",
        &[],
    ),
    spec(Menu::View, Command::SystemTheme, "Theme as the system", "Dark or light, as the desktop says", &[]),
    spec(Menu::View, Command::DarkTheme, "Dark theme", "Light text on a dark background", &[]),
    spec(Menu::View, Command::LightTheme, "Light theme", "Dark text on a light background", &[]),
    spec(
        Menu::View,
        Command::ScaleUp,
        "Larger text",
        "Make everything in the window larger",
        &[ctrl(Key::Plus), ctrl(Key::Equals)],
    ),
    spec(Menu::View, Command::ScaleDown, "Smaller text", "Make everything in the window smaller", &[ctrl(Key::Minus)]),
    spec(Menu::View, Command::ScaleReset, "Normal text size", "Show everything at its normal size", &[ctrl(Key::Num0)]),
    spec(
        Menu::Navigate,
        Command::ZoomToFit,
        "Zoom to fit",
        "Show everything; again to leave out, or to show as well, what lies far from the rest",
        &[key(Key::Num0)],
    ),
    spec(
        Menu::Navigate,
        Command::FocusSelection,
        "Center selection",
        "Center the selection; again to zoom to it",
        &[key(Key::F)],
    )
    .needs(Needs::Selection),
    spec(
        Menu::Navigate,
        Command::ZoomToSelection,
        "Zoom to selection",
        "Fill the view with what is selected",
        &[shift(Key::F)],
    )
    .needs(Needs::Selection),
    spec(
        Menu::Navigate,
        Command::GoToTime,
        "Go to time…",
        "Center the timeline on a time such as 1.25 s or 350 ms, and show where it is",
        &[key(Key::T)],
    ),
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
        Command::Back,
        "Back",
        "Go back to the previous place: its selection, visible time and front views",
        &[alt(Key::ArrowLeft)],
    ),
    spec(
        Menu::Navigate,
        Command::Forward,
        "Forward",
        "Go forward to the place from which you went back",
        &[alt(Key::ArrowRight)],
    ),
    spec(
        Menu::Navigate,
        Command::UndoZoom,
        "Undo zoom",
        "Show the previous visible range again",
        &[key(Key::Backspace)],
    ),
    spec(
        Menu::Navigate,
        Command::RedoZoom,
        "Redo zoom",
        "Show the visible range again that was undone",
        &[shift(Key::Backspace)],
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
        "Select the previous slice of this row; in memory, go to the previous event",
        &[key(Key::Comma)],
    ),
    spec(Menu::Select, Command::ParentSlice, "Parent slice", "Select the enclosing slice", &[key(Key::ArrowUp)]),
    spec(
        Menu::Select,
        Command::ChildSlice,
        "Child slice",
        "Select the first slice inside this one",
        &[key(Key::ArrowDown)],
    ),
    spec(Menu::Select, Command::NextGap, "Next gap", NEXT_GAP, &[key(Key::G)]),
    spec(
        Menu::Select,
        Command::PreviousGap,
        "Previous gap",
        "Select the previous gap, in the same order",
        &[shift(Key::G)],
    ),
    spec(
        Menu::Select,
        Command::NextStep,
        "Next step",
        "Select the time range of the next training step",
        &[key(Key::N)],
    ),
    spec(
        Menu::Select,
        Command::PreviousStep,
        "Previous step",
        "Select the time range of the previous training step",
        &[shift(Key::N)],
    ),
    spec(
        Menu::Select,
        Command::FollowFlow,
        "Follow flow",
        "Follow the arrow to what this slice launched or caused",
        &[key(Key::CloseBracket)],
    ),
    spec(
        Menu::Select,
        Command::FollowFlowBack,
        "Follow flow back",
        "Follow the arrow back to what launched or caused this slice",
        &[key(Key::OpenBracket)],
    ),
    spec(
        Menu::Select,
        Command::RangeFromSelection,
        "Range from selection",
        "Select the time range of the selected slice",
        &[key(Key::R)],
    )
    .needs(Needs::Selection),
    spec(
        Menu::Select,
        Command::MarkMoment,
        "Mark moment",
        "Mark the time that was gone to, else the start of the selection, in views of memory the moment on show; \
         without one the time at the pointer, \
         else the middle of the view or the end of the memory. Marks measure the distance between moments, as a drag \
         on the ruler does",
        &[key(Key::M)],
    ),
    spec(Menu::Select, Command::MarkRange, "Mark range", "Mark the selected time range", &[shift(Key::M)])
        .needs(Needs::Range),
    spec(
        Menu::Select,
        Command::UndoDelete,
        "Undo deletion of marks",
        "Bring back the marks that were deleted last, with their notes",
        &[ctrl(Key::Z)],
    ),
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
        "Copy profiler command",
        "Copy a command line that profiles the selected kernel in depth, with Nsight Compute or on AMD with ROCm's",
        &[],
    )
    .needs(Needs::Selection),
    spec(
        Menu::Select,
        Command::Deselect,
        "Deselect",
        "Clear the selection; again to clear the marks of a search or the memory highlight, then the selected range. \
         From Capture and GPU monitor it leads back to what is open",
        &[key(Key::Escape)],
    ),
    spec(
        Menu::Memory,
        Command::GoToPeak,
        "Go to memory peak",
        "Go to the moment at which most memory is allocated",
        &[key(Key::P)],
    ),
    spec(
        Menu::Memory,
        Command::PlayMoments,
        "Play memory",
        "Play the recording event by event; again to stop",
        &[shift(Key::P)],
    ),
    spec(
        Menu::Memory,
        Command::SetBase,
        "Set memory base",
        "Compare memory at other moments with the chosen one, else with that under the pointer in memory over time",
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
        "Clear the memory highlight, as Escape does",
        &[key(Key::H)],
    ),
    spec(
        Menu::Memory,
        Command::ToggleEventsAxis,
        "Time or events",
        "Show memory over time or over events",
        &[key(Key::E)],
    ),
    spec(Menu::Search, Command::Search, "Search…", "Find slices by name", &[key(Key::Slash), ctrl(Key::F)]),
    spec(Menu::Search, Command::NextHit, "Next hit", "Select the next slice that the search found", &[key(Key::Enter)])
        .needs(Needs::Hits),
    spec(
        Menu::Search,
        Command::PreviousHit,
        "Previous hit",
        "Select the previous slice that the search found",
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
        Command::CopySettingsPath,
        "Copy path of the configuration file",
        "Copy where settings, recent files, marks and layout are kept",
        &[],
    ),
    spec(
        Menu::Help,
        Command::Shortcuts,
        "Keyboard and mouse",
        "Show every key and what the mouse does",
        &[key(Key::Questionmark)],
    ),
];
