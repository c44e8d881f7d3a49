//! The views. Each has a file or folder and one line in [`VIEWS`]; menu, palette, tabs, settings
//! and `lacuna render` follow from it.

use std::sync::LazyLock;

use eframe::egui::{Context, KeyboardShortcut, Ui};

use crate::command::{COMMANDS, Command, CommandSpec, Menu};
use crate::model::Trace;
use crate::session::OpenTrace;

mod axis;
mod context;
pub mod details;
pub mod events;
pub mod flame;
mod flame_pane;
pub mod marks;
pub mod memory;
pub mod palette;
pub mod problems;
pub mod range_summary;
pub mod search;
pub mod shortcuts;
mod states;
pub mod tables;
pub mod timeline;

pub use context::ViewContext;

/// Every view, in the order of menus and tabs.
pub const VIEWS: &[ViewSpec] = &[
    timeline::SPEC,
    memory::OVER_TIME,
    memory::STATE,
    details::SPEC,
    search::SPEC,
    range_summary::SPEC,
    events::SPEC,
    marks::SPEC,
    problems::SPEC,
    tables::KERNELS,
    tables::OPERATORS,
    tables::CALLS,
    tables::COPIES,
    tables::ANNOTATIONS,
    flame::SPEC,
    memory::ALLOCATIONS,
    memory::LIVE,
    memory::LEAKS,
    memory::RESERVED,
];

/// One row of the table of views.
#[derive(Debug)]
pub struct ViewSpec {
    /// Its name in settings and on the command line. It never changes.
    pub id: &'static str,
    /// On its tab, in menus and in the palette.
    pub title: &'static str,
    /// One sentence, shown on hover and in the palette.
    pub help: &'static str,
    /// Keys that bring it to the front.
    pub keys: &'static [KeyboardShortcut],
    /// Where it is in the default layout.
    pub place: Place,
    /// Its tab is hidden where the open traces have nothing of it.
    pub content: Content,
    pub make: fn() -> Box<dyn View>,
}

/// A part of the default layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
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
    Samples,
    Memory,
}

impl Content {
    /// Whether one of these traces has it. Tracks count as there unless memory is all that was recorded.
    pub fn is_in(self, traces: &[OpenTrace]) -> bool {
        let any = |has: fn(&Trace) -> bool| traces.iter().any(|open| has(&open.trace));
        match self {
            Self::Any => true,
            Self::Tracks => any(|trace| !trace.tracks.is_empty()) || !Self::Memory.is_in(traces),
            Self::Slices => any(|trace| !trace.slices.is_empty()),
            Self::Samples => any(|trace| !trace.samples.is_empty()),
            Self::Memory => any(|trace| !trace.memories.is_empty()),
        }
    }

    /// What [`Content::Any`] goes with, and the others only with their like: memory, or what ran.
    pub fn is_memory(self) -> Option<bool> {
        (self != Self::Any).then_some(self == Self::Memory)
    }
}

/// The view of this id.
pub fn view_spec(id: &str) -> Option<&'static ViewSpec> {
    VIEWS.iter().find(|spec| spec.id == id)
}

/// Every command that can be chosen: to show each view, and those of [`COMMANDS`].
pub fn all_commands() -> &'static [CommandSpec] {
    static ALL: LazyLock<Vec<CommandSpec>> = LazyLock::new(|| {
        let show = |spec: &ViewSpec| CommandSpec {
            command: Command::Show(spec.id),
            menu: Menu::View,
            label: spec.title,
            help: spec.help,
            keys: spec.keys,
        };
        VIEWS.iter().map(show).chain(COMMANDS.iter().cloned()).collect()
    });
    &ALL
}

/// The row of `command`; `None` for those that cannot be chosen, since they name a file, trace or track.
pub fn command_spec(command: &Command) -> Option<&'static CommandSpec> {
    all_commands().iter().find(|spec| spec.command == *command)
}

/// One view: the content of a tab.
pub trait View {
    /// Paints one frame. Must not do work that grows with the trace: fold, page, or ask a
    /// [`crate::job::Memo`].
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut Ui);

    /// Runs before every frame, on screen or not, and after traces were closed: for what other views show of it.
    fn update(&mut self, _ctx: &mut ViewContext<'_>, _egui: &Context) {}

    /// Whether it waits for an answer from the background that it will show.
    fn is_pending(&self) -> bool {
        false
    }

    /// Drops everything that keeps a trace alive, since some traces were closed and a hidden view would keep
    /// them until it is shown again.
    fn forget(&mut self) {}

    /// Runs a command while the view is on screen; false if it is not this view's.
    fn run(&mut self, _command: &Command, _ctx: &mut ViewContext<'_>) -> bool {
        false
    }

    /// Runs a command that is this view's own even while it is hidden; false if it is not.
    fn run_hidden(&mut self, _command: &Command, _ctx: &mut ViewContext<'_>) -> bool {
        false
    }

    /// How many things it lists, if its tab says so; 0 is not shown.
    fn count(&self, _ctx: &ViewContext<'_>) -> usize {
        0
    }

    /// What its figures are of, where several things could be meant; at the right of its tabs.
    fn subject(&self, _ctx: &mut ViewContext<'_>) -> Option<String> {
        None
    }

    /// What of its state survives a restart; null if nothing does.
    fn save(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Takes over what [`View::save`] returned, of this version or another; null gives the defaults.
    fn load(&mut self, _saved: &serde_json::Value) {}
}
