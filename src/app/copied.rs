//! Says that something was copied, whichever of the many places it was copied from.

use eframe::egui::{Context, FullOutput, OutputCommand, Plugin};

use crate::figures::escape;

/// A notice shows no more of a text that was copied.
const MAX_CHARS: usize = 120;

/// Sees what every frame gives to the clipboard.
#[derive(Debug, Default)]
struct Copied {
    notice: Option<String>,
}

impl Plugin for Copied {
    fn debug_name(&self) -> &'static str {
        "copied"
    }

    fn output_hook(&mut self, ctx: &Context, output: &mut FullOutput) {
        for command in &output.platform_output.commands {
            if let OutputCommand::CopyText(text) = command {
                self.notice = Some(notice(text));
                ctx.request_repaint();
            }
        }
    }
}

/// From now on what is copied can be [taken](take).
pub fn watch(ctx: &Context) {
    ctx.add_plugin(Copied::default());
}

/// What to say of what was copied in the last frame.
pub fn take(ctx: &Context) -> Option<String> {
    ctx.with_plugin(|copied: &mut Copied| copied.notice.take()).flatten()
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
    use super::*;

    #[test]
    fn a_notice_shows_a_line_and_counts_lines() {
        assert_eq!(notice("gemm<float>"), "Copied “gemm<float>”");
        assert_eq!(notice("gemm\t12\n"), "Copied “gemm  12”");
        assert_eq!(notice("name\r\ngemm\r\n"), "Copied 2 lines");
        assert_eq!(notice(""), "Copied an empty text");
        assert_eq!(notice(&"ä".repeat(500)), format!("Copied “{}…”", "ä".repeat(120)));
    }
}
