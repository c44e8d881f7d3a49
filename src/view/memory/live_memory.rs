//! Live memory by call stack: at a moment, at the peak, at the end, or between two moments.

use std::sync::Arc;

use eframe::egui::{self, ComboBox, Key};

use super::head::{self, base_ui};
use crate::analysis::memory::grouped::{GroupBy, LiveScope};
use crate::analysis::memory::live::LiveUntil;
use crate::analysis::stacks::FlameTree;
use crate::answers::Work;
use crate::answers::memory::MemorySteps;
use crate::command::{Command, ctrl};
use crate::figures::format;
use crate::figures::stacks;
use crate::session::{Base, MemoryFocus, OpenMemory, ShownMemory};
use crate::view::flame_pane::{FlamePane, Unit, Weights};
use crate::view::states::{answer_ui, nothing_ui};
use crate::view::{Content, DockArea, View, ViewContext, ViewSpec};

const BYTES: Unit = Unit {
    whole: "All live memory",
    table: "Frames by memory",
    text: |bytes| format::bytes(bytes as f64),
    part: |part, whole| format!("{} of {}", format::bytes(part as f64), format::bytes(whole as f64)),
    weight: stacks::LIVE_BYTES,
    ways: ["Callers above callees", "Allocating functions on top, their callers below"],
    copy: "Copy all stacks as text, a line each with its bytes: main;step;empty 4096",
};

const GROWN: Unit = Unit { weight: stacks::GROWN_BYTES, whole: "All that grew", ..BYTES };
const SHRUNK: Unit = Unit { weight: stacks::SHRUNK_BYTES, whole: "All that shrank", ..BYTES };

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Moment,
    Peak,
    End,
    Grown,
    Shrunk,
}

const MODES: [(Mode, &str, &str); 5] = [
    (Mode::Moment, "At the moment", "Allocated at the chosen moment, as in memory by place"),
    (Mode::Peak, "At the peak", "Allocated at the peak, as in memory by place"),
    (Mode::End, "At the end", "Allocated when the recording ends, as in memory by place"),
    (Mode::Grown, "Grown", "Increase of each stack from the base to the moment"),
    (Mode::Shrunk, "Shrunk", "Decrease of each stack from the base to the moment"),
];

/// Live memory in a state, or what changed since another one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LiveBytes {
    mode: Mode,
    moment: u32,
    /// What it is compared with.
    base: Option<Base>,
    by: GroupBy,
    has_all_frames: bool,
}

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "live-memory",
    title: "Live memory by stack",
    help: "Show live memory at a moment by call stack, as a flame graph",
    keys: &[ctrl(Key::Num8)],
    area: DockArea::Bottom,
    content: Content::Memory,
    make: || Box::new(LiveMemory::default()),
};

/// The view of live memory by stack.
#[derive(Debug, Default)]
pub struct LiveMemory {
    mode: Mode,
    /// The user's choice.
    by: Option<GroupBy>,
    has_all_frames: bool,
    pane: FlamePane<LiveBytes>,
}

impl View for LiveMemory {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        let Some(shown) = ctx.memory.resolve(ctx.traces) else {
            head::nothing_ui(ctx, ui);
            return;
        };
        let wanted = self.wanted(&shown, ctx.memory);
        // While the moment moves, each finished tree is shown.
        let is_near = |known: &LiveBytes| LiveBytes { moment: wanted.moment, ..known.clone() } == wanted;
        let answer = self.pane.ask(&shown.of, &wanted, is_near, ctx, ui);
        let is_of_moment = !matches!(wanted.mode, Mode::Peak | Mode::End);
        ctx.memory.is_followed &= !(is_of_moment && answer.is_working());
        ui.horizontal_wrapped(|ui| {
            let chosen = ctx.memory.moment.unwrap_or(shown.history().last_state());
            for (mode, label, hint) in MODES {
                let lacking = match mode {
                    Mode::Peak => head::no_peak(shown.history()),
                    Mode::Grown | Mode::Shrunk if chosen == 0 && ctx.memory.base.is_none() => {
                        Some("Choose a moment first")
                    }
                    Mode::Grown | Mode::Shrunk => head::no_base(&shown, ctx.memory),
                    Mode::Moment | Mode::End => None,
                };
                let is_on = self.mode(&shown, ctx.memory) == mode;
                let choice = ui.add_enabled(lacking.is_none(), egui::Button::selectable(is_on, label));
                if choice.on_hover_text(hint).on_disabled_hover_text(lacking.unwrap_or_default()).clicked() {
                    self.mode = mode;
                }
            }
            // Of the tree that is there, which may still be that of the moment before.
            let said = self.pane.weights().filter(|_| answer.newest().is_some()).unwrap_or(&wanted);
            base_ui((said.moment, said.base.as_ref()), &shown, ctx, ui);
            ui.separator();
            self.group_ui(&shown, &wanted, ui);
            let hint = "Also frames of the interpreter, the start of the process, the recorder and the allocator";
            ui.checkbox(&mut self.has_all_frames, "All frames").on_hover_text(hint);
            self.pane.tools_ui(ctx.answers, ui);
        });
        let Some(known) = answer_ui(&answer, "Adding up…", ui) else { return };
        if known.tree.total() == 0 {
            // Of the shown tree, whose parameters may be the previous ones.
            let what = match self.pane.weights().map_or(self.mode, |known| known.mode) {
                Mode::Grown => "No stack has more memory than at the base",
                Mode::Shrunk => "No stack has less memory than at the base",
                _ => "Nothing is live at this moment",
            };
            nothing_ui(what, "Choose another moment", ui);
            return;
        }
        self.pane.body_ui(ctx.answers, ui);
    }

    fn is_pending(&self) -> bool {
        self.pane.is_pending()
    }

    fn run(&mut self, command: &Command, _ctx: &mut ViewContext<'_>) -> bool {
        self.pane.run(command)
    }

    fn subject(&self, ctx: &mut ViewContext<'_>) -> Option<String> {
        head::shown_title(ctx)
    }
}

impl LiveMemory {
    /// What the user chose, as far as the recording has it.
    fn mode(&self, shown: &ShownMemory, focus: &MemoryFocus) -> Mode {
        match self.mode {
            Mode::Peak if head::no_peak(shown.history()).is_some() => Mode::End,
            Mode::Grown | Mode::Shrunk if head::no_base(shown, focus).is_some() => Mode::Moment,
            mode => mode,
        }
    }

    fn wanted(&self, shown: &ShownMemory, focus: &MemoryFocus) -> LiveBytes {
        let history = shown.history();
        let chosen = focus.moment.unwrap_or(history.last_state());
        let mode = self.mode(shown, focus);
        let (moment, base) = match mode {
            Mode::Moment => (chosen, None),
            Mode::Peak => (history.curves.fullest(), None),
            Mode::End => (history.last_state(), None),
            Mode::Grown | Mode::Shrunk => (chosen, Some(focus.base_or_start(shown))),
        };
        let has_all_frames = self.has_all_frames;
        // Steps of two recordings have nothing to do with each other.
        let is_foreign = base.as_ref().is_some_and(|base| !base.is_of(shown));
        let by = Some(self.by(shown)).filter(|&by| !(is_foreign && by == GroupBy::Age)).unwrap_or_default();
        LiveBytes { mode, moment, base, by, has_all_frames }
    }

    /// The grouping: the user's choice, else the category where no stacks were recorded.
    fn by(&self, shown: &ShownMemory) -> GroupBy {
        let has_stacks = shown.trace().stacks.len() > 1;
        let is_named = !has_stacks && !shown.history().allocations.category.is_empty();
        self.by.unwrap_or(if is_named { GroupBy::Category } else { GroupBy::Nothing })
    }

    fn group_ui(&mut self, shown: &ShownMemory, wanted: &LiveBytes, ui: &mut egui::Ui) {
        let (history, chosen) = (shown.history(), wanted.by);
        let is_foreign = wanted.base.as_ref().is_some_and(|base| !base.is_of(shown));
        let choices = [
            (GroupBy::Nothing, "By stack alone", true),
            (GroupBy::Category, "By category", !history.allocations.category.is_empty()),
            (GroupBy::Stream, "By stream", history.pools.len() > 1),
            (GroupBy::Pool, "By pool", history.pools.len() > 1),
            (GroupBy::Age, "By age in steps", history.events.len() > 1 && !is_foreign),
        ];
        let label = choices.iter().find(|choice| choice.0 == chosen).map_or("", |choice| choice.1);
        let combo = ComboBox::from_id_salt("groups of memory").selected_text(label).width(120.0).show_ui(ui, |ui| {
            for (by, label, _) in choices.into_iter().filter(|choice| choice.2) {
                if ui.selectable_label(by == chosen, label).clicked() {
                    self.by = Some(by);
                }
            }
        });
        combo.response.accessible_name("Grouped");
    }
}

impl Weights for LiveBytes {
    type Of = OpenMemory;
    type Extra = ();

    fn unit(&self) -> &'static Unit {
        match self.mode {
            Mode::Moment | Mode::Peak | Mode::End => &BYTES,
            Mode::Grown => &GROWN,
            Mode::Shrunk => &SHRUNK,
        }
    }

    fn tree(&self, of: &OpenMemory, work: &Work<'_>) -> Option<(FlameTree, ())> {
        let (trace, history) = (of.trace(), of.history());
        let steps = if self.by == GroupBy::Age { Some(Arc::clone(&work.get(of, &MemorySteps)?.steps)) } else { None };
        let steps = steps.as_ref().and_then(|steps| (**steps).as_ref());
        let (by, has_all_frames) = (self.by, self.has_all_frames);
        let scope = LiveScope { trace, history, until: LiveUntil::Allocated, by, steps, has_all_frames };
        let Some(base) = &self.base else { return Some((scope.flame(self.moment), ())) };
        let (trace, memory) = base.place()?;
        let before = LiveScope { trace: &trace, history: &trace.memories[memory], ..scope };
        let difference = scope.difference((&before, base.state), self.moment);
        Some((if self.mode == Mode::Shrunk { difference.shrunk } else { difference.grown }, ()))
    }
}
