//! Controls and texts shared by the memory views: the choice of memory, and the slider of the moment.

use std::sync::Arc;

use eframe::egui::accesskit::Action;
use eframe::egui::text::LayoutJob;
use eframe::egui::{
    self, Color32, ComboBox, EventFilter, Frame, InputState, Key, Margin, Modifiers, Response, RichText, Stroke,
    WidgetInfo,
};

use super::commands;
use crate::analysis::memory::summary::has_peak;
use crate::answers::memory::InShort;
use crate::answers::{Analysis, Query, Work};
use crate::command::Command;
use crate::figures::format;
use crate::figures::memory::{Headline, Owner, Places, headline, source_text, why};
use crate::figures::text::{display_name, unbroken};
use crate::model::memory::{AllocationId, OutOfMemory};
use crate::model::{CHANGE_SINCE_START, Format, MemoryHistory, TimeNs, Trace};
use crate::session::{Base, MemoryFocus, OpenMemory, OpenTrace, ShownMemory};
use crate::view::tables::{Grid, Table};
use crate::view::{ViewContext, timeline};
use crate::widget::{table, theme};

/// The title of a history, unique among all that are open.
fn title(traces: &[OpenTrace], trace: usize, memory: usize) -> String {
    let open = &traces[trace];
    let history = &open.trace.memories[memory];
    let rank = open.trace.info.rank.map(|rank| format!("rank {rank}, ")).unwrap_or_default();
    let file = if traces.len() > 1 { format!(", {}", display_name(&open.trace.info.title())) } else { String::new() };
    // Several processes may have used one device.
    let is_alike = |other: &&MemoryHistory| (other.device, other.source) == (history.device, history.source);
    let is_alone = open.trace.memories.iter().filter(is_alike).count() == 1;
    let process = history.pid.filter(|_| !is_alone).map(|pid| format!(", process {pid}")).unwrap_or_default();
    format!("{rank}{}{process} ({}){file}", history.title(), source_text(history))
}

/// Highlights in the picture the blocks of the row that was chosen in a table, and shows it if the row was opened.
pub fn highlight(
    action: Option<table::Action>,
    blocks: impl FnOnce(usize) -> Option<Arc<Vec<AllocationId>>>,
    ctx: &mut ViewContext<'_>,
) {
    let Some(table::Action::Open(row) | table::Action::Select(row)) = action else { return };
    if let Some(blocks) = blocks(row) {
        ctx.memory.marked = blocks;
    }
    if let Some(table::Action::Open(_)) = action {
        ctx.commands.push(Command::Show(super::OVER_TIME.id));
    }
}

/// Lets the user choose the history to show; `None`, with a hint, if no memory was recorded.
pub fn choose_ui(ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) -> Option<ShownMemory> {
    let Some(shown) = ctx.memory.resolve(ctx.traces) else {
        nothing_ui(ctx, ui);
        return None;
    };
    let n_histories: usize = ctx.traces.iter().map(|open| open.trace.memories.len()).sum();
    if n_histories > 1 {
        let now = title(ctx.traces, shown.index, shown.memory);
        let combo = ComboBox::from_id_salt("memory").selected_text(now).width(240.0).show_ui(ui, |ui| {
            for (trace, open) in ctx.traces.iter().enumerate() {
                for memory in 0..open.trace.memories.len() {
                    let is_shown = (trace, memory) == (shown.index, shown.memory);
                    if ui.selectable_label(is_shown, title(ctx.traces, trace, memory)).clicked() {
                        ctx.memory.show(trace, memory);
                    }
                }
            }
        });
        combo.response.accessible_name("Memory");
    } else {
        ui.label(title(ctx.traces, shown.index, shown.memory));
    }
    Some(shown)
}

/// The memory in short, in words: put together once, and not in each frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InWords {
    /// The user's marks, if they are the steps.
    marks: Option<Vec<TimeNs>>,
}

/// The result of [`InWords`].
#[derive(Debug)]
pub struct Words {
    headline: Headline,
    /// Why the last of the requests failed, if any did.
    failure: Option<String>,
}

impl Analysis for InWords {
    type Of = OpenMemory;
    type Output = Words;
    const NAME: &'static str = "The memory in short";

    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Words> {
        let known = work.get(of, &InShort { marks: self.marks.clone() })?;
        let found = &known.found;
        let places = Places { trace: of.trace(), signatures: &found.signatures, owner: Owner::default() };
        let steps = (*found.steps).as_ref();
        Some(Words {
            headline: headline(
                &places,
                of.history(),
                &known.summary,
                &known.holders,
                &found.leaks,
                steps,
                &known.cards,
            ),
            failure: known.cards.last().map(why),
        })
    }
}

/// The user's marks in the time of a memory's trace, if they are the steps between which growth is judged.
pub fn marks_as_steps(shown: &ShownMemory, ctx: &ViewContext<'_>) -> Option<Vec<TimeNs>> {
    let marks = ctx.marks.iter().map(|mark| mark.range.start.saturating_sub(shown.open.offset));
    (ctx.memory.uses_marks && ctx.marks.len() > 1).then(|| marks.collect())
}

/// The memory in short, above its picture.
#[derive(Debug, Default)]
pub struct InShortLine {
    query: Query<InWords>,
    /// Whether all of it is shown, also where that takes room from the picture.
    is_whole: bool,
}

/// Sums up the memory, its verdict last. That it ran out comes first, in a frame of its own, and leads to the reasons.
pub fn in_short_ui(
    InShortLine { query, is_whole }: &mut InShortLine,
    shown: &ShownMemory,
    ctx: &mut ViewContext<'_>,
    ui: &mut egui::Ui,
) -> bool {
    let answer = query.ask(ctx.answers, &shown.of, &InWords { marks: marks_as_steps(shown, ctx) });
    let known = answer.newest().map(|known| &**known);
    // The picture goes before what the frame already says.
    let is_short = ui.available_height() < 450.0;
    let rows = if is_small(ui) { 2 } else { 3 };
    let severity = &theme::tokens(ctx.is_dark).severity;
    if let Some(last) = shown.history().ooms.last() {
        let n = shown.history().ooms.len();
        let times = if n > 1 { format!(" {} times, at last", format::count(n as u64)) } else { String::new() };
        let why = known.and_then(|known| known.failure.clone()).unwrap_or_else(|| oom_text(last));
        let text = format!("Out of memory{times}: {why}");
        let frame = Frame::NONE.stroke(Stroke::new(1.0, severity[2])).corner_radius(3.0);
        frame.inner_margin(Margin::symmetric(6, 2)).show(ui, |ui| {
            ui.horizontal(|ui| {
                if ui.button("Show why").on_hover_text("Show the figures of each failed request").clicked() {
                    ctx.commands.push(Command::Show(super::RESERVED.id));
                }
                lines_ui([&text; 2], if is_short { 1 } else { rows }, severity[2], is_whole, ui);
            });
        });
    }
    if let Some(Words { headline: line, failure }) = known
        && (failure.is_none() || !is_short)
    {
        let color = match line.severity {
            Some(worst) if failure.is_none() => severity[worst as usize],
            // The frame above says it.
            _ => ui.visuals().text_color(),
        };
        // Of what has no room a verdict that something is wrong matters most, else how much there was.
        let whole = if failure.is_none() { &line.text } else { &line.beside_failure };
        let is_verdict = rows < 3 && line.severity.is_some() && failure.is_none();
        lines_ui([if is_verdict { &line.verdict } else { whole }, &line.text], rows, color, is_whole, ui);
    } else if known.is_none() && shown.history().ooms.is_empty() {
        // What it takes most often: the picture below must not move when it comes.
        ui.allocate_space(egui::vec2(0.0, 2.0 * ui.text_style_height(&egui::TextStyle::Body)));
    }
    answer.is_working()
}

/// A text on as many lines as there are for it. Where less than all is in sight, `More` beside it shows the rest.
///
/// * `[text, whole]`: in short, and all of it.
/// * `rows`: it is cut after so many.
/// * `is_whole`: whether all of it is shown.
fn lines_ui([text, whole]: [&str; 2], rows: usize, color: Color32, is_whole: &mut bool, ui: &mut egui::Ui) {
    let font = egui::TextStyle::Body.resolve(ui.style());
    let lay_out = |text: &str, rows: usize, width: f32| {
        let mut job = LayoutJob::simple(unbroken(text), font.clone(), color, width);
        job.wrap.max_rows = rows;
        ui.painter().layout_job(job)
    };
    let width = ui.available_width();
    let mut galley = lay_out(text, rows, width);
    let is_cut = galley.elided || text != whole;
    let shown = if *is_whole { whole } else { text };
    if is_cut {
        let room = lay_out("More", 1, width).size().x + 2.0 * ui.spacing().item_spacing.x;
        galley = lay_out(shown, if *is_whole { usize::MAX } else { rows }, width - room);
    }
    ui.allocate_ui_with_layout(galley.size(), egui::Layout::left_to_right(egui::Align::Max), |ui| {
        let label = ui.add(egui::Label::new(galley).show_tooltip_when_elided(false));
        label.widget_info(|| WidgetInfo::labeled(egui::Role::Label, true, shown));
        if !is_cut {
            return;
        }
        if !*is_whole {
            label.on_hover_text(whole);
        }
        let (name, help) = if *is_whole { ("Less", "Show its beginning alone") } else { ("More", "Show all of it") };
        if ui.link(name).on_hover_text(help).clicked() {
            *is_whole = !*is_whole;
        }
    });
}

/// Width and height of a picture with too little room for rows of controls, in points.
pub const SMALL: [f32; 2] = [600.0, 250.0];

/// Whether there is no room for rows of controls: they go into menus, and text is cut with an ellipsis.
pub fn is_small(ui: &egui::Ui) -> bool {
    let size = ui.available_size();
    size.x < SMALL[0] || size.y < SMALL[1]
}

/// Ends the highlight. It has its place also where there is none: a button that comes and goes would move what is
/// below.
pub fn highlight_ui(ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
    let n = ctx.memory.marked.len() as u64;
    let button = ui.add_enabled(n > 0, egui::Button::new("Clear highlight"));
    let help = format!("Show all allocations alike again (Escape); {} are highlighted", format::count(n));
    let button = button.on_hover_text(help);
    if button.on_disabled_hover_text("Ends the highlight of the blocks of a row, as in Memory by place").clicked() {
        ctx.memory.marked = Arc::default();
    }
}

/// What failed: `2.00 GiB requested, 120.00 MiB of the device were free`.
pub fn oom_text(oom: &OutOfMemory) -> String {
    let free = oom.device_free.map(|free| format!(", {} of the device were free", format::bytes(free as f64)));
    format!("{} requested{}", format::bytes(oom.requested as f64), free.unwrap_or_default())
}

/// The title of the shown history, if there are several.
pub fn shown_title(ctx: &mut ViewContext<'_>) -> Option<String> {
    let n_histories: usize = ctx.traces.iter().map(|open| open.trace.memories.len()).sum();
    let shown = ctx.memory.resolve(ctx.traces).filter(|_| n_histories > 1)?;
    Some(title(ctx.traces, shown.index, shown.memory))
}

/// Makes a strip on which the moment is chosen accessible as a slider: screen readers read it, and the arrow keys
/// move it.
pub fn moment_slider(strip: &Response, shown: &ShownMemory, ctx: &mut ViewContext<'_>) {
    let last = shown.history().last_state();
    let state = ctx.memory.moment.unwrap_or(last);
    strip.widget_info(|| WidgetInfo::slider(true, f64::from(state), "Moment"));
    strip.ctx.accesskit_node_builder(strip.id, |node| {
        node.set_min_numeric_value(0.0);
        node.set_max_numeric_value(f64::from(last));
        node.add_action(Action::Increment);
        node.add_action(Action::Decrement);
    });
    if strip.clicked() || strip.drag_started() {
        strip.request_focus();
    }
    let has_focus = strip.has_focus();
    let (up, down) = strip.ctx.input_mut(|input| {
        let asked = |input: &InputState, action| input.num_accesskit_action_requests(strip.id, action) as u32;
        let (mut up, mut down) = (asked(input, Action::Increment), asked(input, Action::Decrement));
        if has_focus {
            up += input.count_and_consume_key(Modifiers::NONE, Key::ArrowUp) as u32;
            down += input.count_and_consume_key(Modifiers::NONE, Key::ArrowDown) as u32;
        }
        (up, down)
    });
    if has_focus {
        let filter = EventFilter { vertical_arrows: true, ..Default::default() };
        strip.ctx.memory_mut(|memory| memory.set_focus_lock_filter(strip.id, filter));
    }
    if up != down {
        ctx.memory.moment = Some(state.saturating_add(up).saturating_sub(down).min(last));
    }
}

/// What there is where a recording has no history.
pub const ONE_MOMENT: &str = "Only one moment was recorded";

/// Why no peak is known, if none is.
pub fn no_peak(history: &MemoryHistory) -> Option<&'static str> {
    match has_peak(history) {
        true => None,
        false if !history.has_changes() => Some(ONE_MOMENT),
        false => Some("No allocation was recorded, so no peak is known"),
    }
}

/// Why the shown moment can be compared with nothing, if so.
pub fn no_base(shown: &ShownMemory, focus: &MemoryFocus) -> Option<&'static str> {
    let has_other = shown.history().has_changes() || focus.base.as_ref().is_some_and(|base| !base.is_of(shown));
    (!has_other).then_some("Only one moment was recorded: set one of another recording as base")
}

/// Why the shown moment is nothing to compare others with, if so: there is no other.
pub fn not_a_base(shown: &ShownMemory, traces: &[OpenTrace]) -> Option<&'static str> {
    let n_memories: usize = traces.iter().map(|open| open.trace.memories.len()).sum();
    let has_other = shown.history().has_changes() || n_memories > 1;
    (!has_other).then_some("Only one moment was recorded: open another recording to compare it with this one")
}

/// Shows that no memory was recorded, or only sums of it, and how to record it.
pub fn nothing_ui(ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
    ui.vertical(|ui| {
        let Some(why) = ctx.traces.iter().find_map(|open| sums_alone(&open.trace)) else {
            ui.label("No memory was recorded");
            let how = "Open a memory history (torch.cuda.memory._dump_snapshot), or a trace that was recorded with \
                       profile_memory=True or nsys profile --cuda-memory-usage=true";
            ui.add(egui::Label::new(RichText::new(how).weak()).wrap());
            return;
        };
        ui.add(egui::Label::new(why).wrap());
        if ui.button("Show the sums on the timeline").clicked() {
            ctx.commands.push(Command::Show(timeline::SPEC.id));
        }
    });
}

/// Why a recording has sums of memory as counters, and no blocks, if so.
fn sums_alone(trace: &Trace) -> Option<&'static str> {
    let has_changes = || trace.counters.iter().any(|counter| counter.series == CHANGE_SINCE_START);
    match () {
        () if !trace.memories.is_empty() => None,
        () if trace.info.format == Format::MemoryTimeline => Some(
            "This memory timeline holds the sums of each category, and no blocks. To see these, export it under a name \
             that ends in .raw.json.gz",
        ),
        () if has_changes() => Some(
            "The memory events of this trace have no addresses, as PyTorch wrote them until 2021: how much was \
             allocated since the start is known, and no blocks are",
        ),
        () => None,
    }
}

/// The filter of a table, and buttons to copy and export its rows.
///
/// * `name`: names the file.
pub fn grid_tools_ui<T: Table>(grid: &mut Grid<T>, name: &str, hint: &str, ui: &mut egui::Ui) {
    grid.filter_ui(hint, ui);
    grid.buttons_ui(name, ui);
}

/// The shown state and the one that it is compared with, and buttons to set and clear the base.
pub fn base_ui((state, base): (u32, Option<&Base>), shown: &ShownMemory, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
    let at = state_text(shown, state);
    let text = match base {
        Some(base) if base.is_of(shown) => format!("from {} to {at}", state_text(shown, base.state)),
        Some(base) => match base.find(ctx.traces) {
            Some(of) => {
                let (memory, file) = (of.history().title(), display_name(&of.open.name));
                format!("from {memory} of {file}, {} to {at} here", state_text(&of, base.state))
            }
            None => at,
        },
        None => at,
    };
    let label = egui::Label::new(RichText::new(text).weak());
    // Whole on the next line where it does not fit on this one; the name of another file may take several.
    let is_here = base.is_none_or(|base| base.is_of(shown));
    ui.add(if is_here { label.extend() } else { label.wrap() });
    let hint = "Compare other moments with this one: later ones, or those of another recording that is shown then";
    let why_not = not_a_base(shown, ctx.traces);
    let set = ui.add_enabled(why_not.is_none(), egui::Button::new("Set as base"));
    if set.on_hover_text(hint).on_disabled_hover_text(why_not.unwrap_or_default()).clicked() {
        commands::set_base(shown, state, ctx);
    }
    let hint = "Compare with the start of the recording again";
    if ctx.memory.base.is_some() && ui.button("Clear base").on_hover_text(hint).clicked() {
        commands::clear_base(ctx);
    }
}

/// A state as text: `event 1,234 at 1.2 s`.
pub fn state_text(shown: &OpenMemory, state: u32) -> String {
    if !shown.history().has_changes() {
        return "the one moment that was recorded".to_owned();
    }
    let number = match state.checked_sub(1) {
        Some(event) => format!("event {}", format::count(u64::from(event))),
        None => "before the first event".to_owned(),
    };
    match shown.history().has_time && state > 0 {
        true => format!("{number} at {}", format::duration(shown.session_time(state))),
        false => number,
    }
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;
    use crate::model::TraceBuilder;
    use crate::model::memory::MemoryAction;
    use crate::model::memory::RawMemory;

    #[test]
    fn a_sentence_that_does_not_fit_is_unfolded_by_a_click() {
        let whole = format!("The answer. {}The end", "Then follow many details. ".repeat(20));
        let text = whole.clone();
        let shown = move |ui: &mut egui::Ui, is_whole: &mut bool| {
            ui.set_max_width(300.0);
            lines_ui(["The answer", &text], 2, Color32::WHITE, is_whole, ui);
        };
        let mut harness = Harness::builder().with_size(egui::vec2(320.0, 600.0)).build_ui_state(shown, false);
        harness.run();
        assert!(harness.query_by_label(&whole).is_none());
        harness.get_by_label("More").click();
        harness.run();
        let all = harness.get_by_label(&whole).rect();
        assert!(all.height() > 100.0 && all.width() <= 300.0, "all lines are in sight: {all}");
        harness.get_by_label("Less").click();
        harness.run();
        harness.get_by_label("The answer");
    }

    #[test]
    fn memories_of_one_device_are_named_by_their_processes() {
        let mut builder = TraceBuilder::default();
        for (device, pid) in [(0, 7), (0, 8), (1, 7)] {
            builder.memories.push(RawMemory { device, pid: Some(pid), ..RawMemory::default() });
        }
        let traces = [OpenTrace::new(builder.finish(), 0)];
        let titles = [0, 1, 2].map(|memory| title(&traces, 0, memory));
        let expected = ["GPU 0 memory, process 7", "GPU 0 memory, process 8", "GPU 1 memory"];
        assert_eq!(titles, expected.map(|title| format!("{title} (state of one moment)")));
    }

    #[test]
    fn a_snapshot_and_its_notes_alone_are_no_history() {
        let mut history = MemoryHistory::default();
        assert!(!history.has_changes());
        history.events.action = vec![MemoryAction::Snapshot, MemoryAction::OutOfMemory];
        assert!(!history.has_changes());
        history.events.action.push(MemoryAction::SegmentAlloc);
        assert!(history.has_changes());
    }
}
