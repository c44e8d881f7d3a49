//! Commands that all pictures of memory share: marks, ranges and the selection.

use std::sync::Arc;

use super::head::not_a_base;
use crate::command::Command;
use crate::model::{TimeNs, TimeRange};
use crate::session::{Base, Selection, ShownMemory};
use crate::view::ViewContext;

/// Runs a command; false for any other.
///
/// * `at`: the moment under the pointer in session time, used if no moment is chosen.
pub fn run(command: &Command, shown: &ShownMemory, at: Option<TimeNs>, ctx: &mut ViewContext<'_>) -> bool {
    match command {
        Command::MarkMoment => {
            let looked_at = ctx.memory.moment.map(|state| shown.session_time(state));
            let ts = looked_at.or(at).unwrap_or_else(|| shown.session_time(shown.history().last_state()));
            ctx.mark(TimeRange { start: ts, end: ts });
        }
        Command::MarkRange => {
            if let Some(range) = *ctx.range {
                ctx.mark(range);
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

/// Makes a moment the one that others are compared with, and says which views compare; says why if there is no other.
pub fn set_base(shown: &ShownMemory, state: u32, ctx: &mut ViewContext<'_>) {
    if let Some(why) = not_a_base(shown, ctx.traces) {
        ctx.commands.push(Command::Tell(why));
        return;
    }
    ctx.memory.base = Some(Base::new(shown, state));
    ctx.commands.push(Command::Say(match shown.history().has_changes() {
        true => {
            "The base is set. Choose another moment to compare with it: Change in Memory by place, Grown and Shrunk in \
             Live memory by stack"
        }
        false => {
            "The base is set. Show the memory of another recording to compare with it: Change in Memory by place, \
             Grown and Shrunk in Live memory by stack"
        }
    }));
}

/// Compares with the start of the recording again; says so, also if it did before.
pub fn clear_base(ctx: &mut ViewContext<'_>) {
    let text = match ctx.memory.base.take() {
        Some(_) => "Memory is compared with the start of the recording again",
        None => "No base was set: memory is compared with the start of the recording",
    };
    ctx.commands.push(Command::Say(text));
}

/// Runs a command of the menu Memory, for which no picture needs to be on screen; false for any other.
///
/// * `under`: the state under the pointer, used if no moment is chosen.
pub fn run_hidden(command: &Command, under: Option<u32>, ctx: &mut ViewContext<'_>) -> bool {
    match command {
        Command::SetBase => {
            let Some(shown) = ctx.memory.resolve(ctx.traces) else { return false };
            let state = ctx.memory.moment.or(under).unwrap_or(shown.history().last_state());
            set_base(&shown, state, ctx);
        }
        Command::ClearBase => clear_base(ctx),
        Command::ClearHighlight => ctx.memory.marked = Arc::default(),
        _ => return false,
    }
    true
}
