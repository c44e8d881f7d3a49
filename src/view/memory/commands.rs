//! Commands that all pictures of memory share: marks, ranges and the selection.

use std::sync::Arc;

use crate::command::Command;
use crate::model::{TimeNs, TimeRange};
use crate::session::{Base, Mark, Selection, ShownMemory};
use crate::view::ViewContext;

/// Runs a command; false for any other.
///
/// * `at`: the moment under the pointer in session time, used if no moment is chosen.
pub fn run(command: &Command, shown: &ShownMemory, at: Option<TimeNs>, ctx: &mut ViewContext<'_>) -> bool {
    match command {
        Command::MarkMoment => {
            let looked_at = ctx.memory.moment.map(|state| shown.session_time(state));
            let ts = looked_at.or(at).unwrap_or_else(|| shown.session_time(shown.history().last_state()));
            ctx.add_mark(Mark::new(TimeRange { start: ts, end: ts }));
        }
        Command::MarkRange => {
            if let Some(range) = *ctx.range {
                ctx.add_mark(Mark::new(range));
            }
        }
        Command::RangeFromSelection => *ctx.range = ctx.selected_time().or(*ctx.range),
        Command::Deselect if *ctx.selection != Selection::None => *ctx.selection = Selection::None,
        Command::Deselect if !ctx.memory.marked.is_empty() => ctx.memory.marked = Arc::default(),
        Command::Deselect if ctx.range.is_some() => *ctx.range = None,
        Command::Deselect => ctx.memory.moment = None,
        _ => return false,
    }
    true
}

/// Runs a command of the menu Memory, for which no picture needs to be on screen; false for any other.
///
/// * `under`: the state under the pointer, used if no moment is chosen.
pub fn run_hidden(command: &Command, under: Option<u32>, ctx: &mut ViewContext<'_>) -> bool {
    match command {
        Command::SetBase => {
            let Some(shown) = ctx.memory.resolve(ctx.traces) else { return false };
            let state = ctx.memory.moment.or(under).unwrap_or(shown.history().last_state());
            ctx.memory.base = Some(Base::new(&shown, state));
        }
        Command::ClearBase => ctx.memory.base = None,
        Command::ClearHighlight => ctx.memory.marked = Arc::default(),
        _ => return false,
    }
    true
}
