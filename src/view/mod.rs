//! The views. Each has a file or folder and one entry in [`VIEWS`], from which menus, palette, tabs, settings
//! and `lacuna render` are built.

use std::sync::LazyLock;

use eframe::egui::{Context, KeyboardShortcut, Ui};

use crate::command::{COMMANDS, Command, CommandSpec, Menu, Needs};
use crate::model::Trace;
use crate::session::OpenTrace;

pub mod axis;
pub mod capture;
pub mod compare;
mod context;
pub mod details;
pub mod events;
#[cfg(test)]
pub mod fixture;
pub mod flame;
mod flame_pane;
mod found;
pub mod gaps;
pub mod live;
pub mod marks;
pub mod memory;
mod off_screen;
pub mod overview;
pub mod palette;
pub mod problems;
pub mod range_summary;
pub mod search;
pub mod shortcuts;
mod states;
pub mod steps;
pub mod tables;
pub mod timeline;

pub use context::ViewContext;
pub use off_screen::OffScreen;

/// Every view, in the order of menus and tabs.
pub const VIEWS: &[ViewSpec] = &[
    overview::SPEC,
    timeline::SPEC,
    memory::OVER_TIME,
    memory::STATE,
    live::SPEC,
    capture::SPEC,
    details::SPEC,
    search::SPEC,
    range_summary::SPEC,
    steps::SPEC,
    compare::SPEC,
    events::SPEC,
    marks::SPEC,
    problems::SPEC,
    gaps::SPEC,
    tables::kernels::SPEC,
    tables::operators::SPEC,
    tables::calls::SPEC,
    tables::copies::SPEC,
    tables::collectives::SPEC,
    tables::annotations::SPEC,
    flame::SPEC,
    memory::ALLOCATIONS,
    memory::PLACES,
    memory::LIVE,
    memory::LEAKS,
    memory::RESERVED,
];

/// The description of a view.
#[derive(Debug)]
pub struct ViewSpec {
    /// Its stable identifier in settings and on the command line.
    pub id: &'static str,
    /// Shown on its tab, in menus and in the palette.
    pub title: &'static str,
    /// One sentence, shown on hover and in the palette.
    pub help: &'static str,
    /// Shortcuts that show it.
    pub keys: &'static [KeyboardShortcut],
    /// Its area of the default layout.
    pub area: DockArea,
    /// Its tab is hidden where the open traces have nothing of it.
    pub content: Content,
    pub make: fn() -> Box<dyn View>,
}

/// An area of the window: the middle, beside it, and below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DockArea {
    Center,
    Side,
    Bottom,
}

/// What a view shows of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Something of every trace.
    Any,
    Tracks,
    Slices,
    /// Slices or samples.
    Stacks,
    /// Slices or counters.
    Ranges,
    Memory,
    /// What ran in one file and in another, or what held memory.
    Pair,
    /// Nothing of a trace: the view is there without one, and is of this machine.
    Machine,
}

impl Content {
    /// Whether one of these traces has it. Tracks count as there unless memory is all that was recorded.
    pub fn is_in(self, traces: &[OpenTrace]) -> bool {
        let any = |has: fn(&Trace) -> bool| traces.iter().any(|open| has(&open.trace));
        match self {
            Self::Any | Self::Machine => true,
            Self::Tracks => any(|trace| !trace.tracks.is_empty()) || !Self::Memory.is_in(traces),
            Self::Slices => any(|trace| !trace.slices.is_empty()),
            Self::Stacks => any(|trace| !trace.samples.is_empty() || !trace.slices.is_empty()),
            Self::Ranges => any(|trace| !trace.slices.is_empty() || !trace.counters.is_empty()),
            Self::Memory => any(|trace| !trace.memories.is_empty()),
            Self::Pair => {
                let several = |has: fn(&OpenTrace) -> bool| traces.iter().filter(|open| has(open)).nth(1).is_some();
                several(OpenTrace::is_program) || several(|open| !open.trace.memories.is_empty())
            }
        }
    }

    /// Whether it is memory; `None` if it is both memory and what ran, or neither.
    pub fn is_memory(self) -> Option<bool> {
        (!matches!(self, Self::Any | Self::Machine | Self::Pair)).then_some(self == Self::Memory)
    }
}

/// The view with this id.
pub fn view_spec(id: &str) -> Option<&'static ViewSpec> {
    VIEWS.iter().find(|spec| spec.id == id)
}

/// All commands that menus and the palette list: one to show each view, then [`COMMANDS`].
pub fn all_commands() -> &'static [CommandSpec] {
    static ALL: LazyLock<Vec<CommandSpec>> = LazyLock::new(|| {
        let show = |spec: &ViewSpec| CommandSpec {
            command: Command::Show(spec.id),
            menu: Menu::View,
            label: spec.title,
            help: spec.help,
            keys: spec.keys,
            needs: if spec.content == Content::Machine { Needs::Nothing } else { Needs::Trace },
        };
        VIEWS.iter().map(show).chain(COMMANDS.iter().cloned()).collect()
    });
    &ALL
}

/// The description of `command`; `None` for those with a file, trace or track, which menus do not list.
pub fn command_spec(command: &Command) -> Option<&'static CommandSpec> {
    all_commands().iter().find(|spec| spec.command == *command)
}

/// One view: the content of a tab.
pub trait View {
    /// Paints one frame. Must not do work that grows with the trace: limit it to what is visible, or ask a
    /// [`crate::answers::Query`].
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui);

    /// Runs before every frame, visible or not, and after traces were closed: updates what other views show.
    fn update(&mut self, _ctx: &mut ViewContext<'_>, _egui: &Context) {}

    /// Whether background work is under way whose result it will show.
    fn is_pending(&self) -> bool {
        false
    }

    /// Whether a program runs that the user started in it, and that ends with the window.
    fn has_run(&self) -> bool {
        false
    }

    /// Runs a command while the view is visible; false if the view does not handle it.
    fn run(&mut self, _command: &Command, _ctx: &mut ViewContext<'_>) -> bool {
        false
    }

    /// Runs a command even while the view is hidden; false if the view does not handle it.
    fn run_hidden(&mut self, _command: &Command, _ctx: &mut ViewContext<'_>) -> bool {
        false
    }

    /// Whether it shows the selected range alone.
    fn follows_range(&self) -> bool {
        false
    }

    /// The count shown on its tab; 0 is not shown.
    fn count(&self, _ctx: &ViewContext<'_>) -> usize {
        0
    }

    /// What the user keeps off the screen; the status bar offers to show it.
    fn off_screen(&self) -> OffScreen {
        OffScreen::default()
    }

    /// What its figures refer to where that is ambiguous, such as one of several memories; right of its tabs.
    fn subject(&self, _ctx: &mut ViewContext<'_>) -> Option<String> {
        None
    }

    /// How much it shows of its horizontal axis, in short and exactly; `None` of a view without one.
    fn visible(&mut self, _ctx: &mut ViewContext<'_>) -> Option<[String; 2]> {
        None
    }

    /// The state to restore after a restart; null for none.
    fn save(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Restores what [`View::save`] of this or another version returned; null restores the defaults.
    fn load(&mut self, _saved: &serde_json::Value) {}
}
