//! Says that something was copied, whichever of the many places it was copied from.

use std::sync::atomic::{AtomicBool, Ordering};

use eframe::egui::{Context, FullOutput, OutputCommand, Plugin};
use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::figures::escape;
use crate::figures::text::breakable;

/// A notice shows no more of a text that was copied.
const MAX_CHARS: usize = 120;
/// The module of egui that gives texts to the clipboard. It says in the log alone that the clipboard did not take one.
const CLIPBOARD: &str = "egui_winit::clipboard";

/// Reads in the log what became of the clipboard, and writes nothing.
#[derive(Debug)]
struct Refusals {
    /// Whether the clipboard did not take the text that was copied last.
    was_refused: AtomicBool,
    /// Whether there is no clipboard: then texts can be pasted in the window alone.
    is_absent: AtomicBool,
}

impl Refusals {
    const fn none() -> Self {
        Self { was_refused: AtomicBool::new(false), is_absent: AtomicBool::new(false) }
    }
}

static REFUSALS: Refusals = Refusals::none();

impl Log for Refusals {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        of.target() == CLIPBOARD
    }

    fn log(&self, record: &Record<'_>) {
        match record.level() {
            _ if !self.enabled(record.metadata()) => {}
            Level::Error => self.was_refused.store(true, Ordering::Relaxed),
            Level::Warn => self.is_absent.store(true, Ordering::Relaxed),
            _ => {}
        }
    }

    fn flush(&self) {}
}

/// From now on it is known what the clipboard does not take. To be called before the window opens.
pub fn watch_clipboard() {
    if log::set_logger(&REFUSALS).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

/// What became of a text that was copied.
#[derive(Debug)]
pub struct Notice {
    pub text: String,
    pub is_refusal: bool,
}

/// Sees what every frame gives to the clipboard.
#[derive(Debug)]
struct Copied {
    notice: Option<String>,
    refusals: &'static Refusals,
}

impl Plugin for Copied {
    fn debug_name(&self) -> &'static str {
        "copied"
    }

    fn output_hook(&mut self, ctx: &Context, output: &mut FullOutput) {
        for command in &mut output.platform_output.commands {
            if let OutputCommand::CopyText(text) = command {
                // What holds a line on screen together is in the way of programs.
                *text = breakable(text);
                // Older refusals are of other texts, or of what was to be pasted.
                self.refusals.was_refused.store(false, Ordering::Relaxed);
                self.notice = Some(notice(text));
                ctx.request_repaint();
            }
        }
    }
}

/// From now on what is copied can be [taken](take).
pub fn watch(ctx: &Context) {
    ctx.add_plugin(Copied { notice: None, refusals: &REFUSALS });
}

/// What to say of what was copied in the last frame. The window system has been asked to take it since.
pub fn take(ctx: &Context) -> Option<Notice> {
    let taken = ctx.with_plugin(|copied: &mut Copied| Some((copied.notice.take()?, copied.refusals)));
    let (text, refusals) = taken.flatten()?;
    let is_refusal = refusals.was_refused.load(Ordering::Relaxed) || refusals.is_absent.load(Ordering::Relaxed);
    let refused = "Not copied: the clipboard of this display does not take it";
    Some(Notice { text: if is_refusal { refused.to_owned() } else { text }, is_refusal })
}

/// One line as it is, of several how many they are.
fn notice(text: &str) -> String {
    let n_lines = text.lines().count();
    match n_lines {
        0 => "Copied an empty text".to_owned(),
        1 => {
            let line = text.trim_end();
            let end = line.char_indices().nth(MAX_CHARS);
            let (shown, rest) = end.map_or((line, ""), |(end, _)| (&line[..end], "…"));
            // Tabs are between the cells of a row.
            format!("Copied “{}{rest}”", escape::visible(&shown.replace('\t', "  ")))
        }
        n => format!("Copied {} lines", crate::figures::format::count(n as u64)),
    }
}

#[cfg(test)]
mod tests {
    use eframe::egui::RawInput;

    use super::*;

    #[test]
    fn what_the_clipboard_refuses_is_not_said_to_be_copied() {
        static LOG: Refusals = Refusals::none();
        let say = |level: Level, target: &str| LOG.log(&Record::builder().level(level).target(target).build());
        let ctx = Context::default();
        ctx.add_plugin(Copied { notice: None, refusals: &LOG });
        let copied = |says: Option<(Level, &'static str)>| {
            let output = ctx.run_ui(RawInput::default(), |ui| ui.ctx().copy_text("gemm".to_owned()));
            output.drop_without_applying_deltas();
            says.into_iter().for_each(|(level, target)| say(level, target));
            take(&ctx).unwrap()
        };
        assert_eq!(copied(None).text, "Copied “gemm”");
        say(Level::Error, CLIPBOARD);
        assert!(!copied(Some((Level::Error, "of another module"))).is_refusal, "an earlier one is of something else");
        let refused = copied(Some((Level::Error, CLIPBOARD)));
        assert!(refused.is_refusal && refused.text.starts_with("Not copied"), "{refused:?}");
        assert!(!copied(None).is_refusal);
        say(Level::Warn, CLIPBOARD);
        assert!(copied(None).is_refusal, "there is none");
        assert_eq!(take(&ctx).map(|notice| notice.text), None);
    }

    #[test]
    fn a_notice_shows_a_line_and_counts_lines() {
        assert_eq!(notice("gemm<float>"), "Copied “gemm<float>”");
        assert_eq!(notice("gemm\t12\n"), "Copied “gemm  12”");
        assert_eq!(notice("name\r\ngemm\r\n"), "Copied 2 lines");
        assert_eq!(notice(""), "Copied an empty text");
        assert_eq!(notice(&"ä".repeat(500)), format!("Copied “{}…”", "ä".repeat(120)));
    }
}
