//! From pressed keys to commands.

use eframe::egui::text_selection::LabelSelectionState;
use eframe::egui::{Context, Event, Key, KeyboardShortcut, Modifiers};

use super::{Command, CommandSpec};

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
        let is_for_text = matches!(shortcut.logical_key, Key::C | Key::Z);
        // With Alt no control takes them: a list that has the keyboard leaves the way back to the window.
        let is_for_control = !shortcut.modifiers.alt
            && matches!(
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
