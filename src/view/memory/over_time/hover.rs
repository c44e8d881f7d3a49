//! The tooltip of the block under the pointer.

use eframe::egui::{PopupAnchor, Response, RichText, Tooltip, Ui};

use super::Chart;
use crate::analysis::frame::Frame;
use crate::analysis::memory::labels::foremost;
use crate::figures::format;
use crate::figures::text::{display_name, shortened};
use crate::model::memory::AllocationId;

/// Frames in the tooltip.
const MAX_FRAMES: usize = 6;
/// Characters of each.
const MOST: usize = 64;

/// The lines of the tooltip of a block in a state.
pub fn lines(chart: &Chart<'_>, id: AllocationId, state: u32) -> Vec<String> {
    let (history, trace) = (chart.shown.history(), chart.shown.trace());
    let (all, i) = (&history.allocations, id.idx());
    let mut lines = Vec::new();
    if all.requested[i] != all.bytes[i] {
        lines.push(format!("{} requested", format::bytes(all.requested[i] as f64)));
    }
    let category = trace.strings.get(all.category(id));
    if !category.is_empty() {
        lines.push(format!("Category {}", display_name(category)));
    }
    lines.push(format!("{:#x}, {}", all.addr[i], history.pool_of(id)));
    if !history.has_changes() {
        lines.push("Live when the snapshot was taken".to_owned());
        return lines;
    }
    let born = match history.alloc_event(id) {
        Some(event) => format!("Allocated by event {}", format::count(event.into())),
        None => "Allocated before the recording began".to_owned(),
    };
    let gone = match history.free_event(id) {
        Some(event) => format!("freed by event {}", format::count(event.into())),
        None => "live at the end".to_owned(),
    };
    lines.push(format!("{born}, {gone}"));
    let (start, end) = (all.start[i], all.end[i].min(history.n_states()));
    let at = state.clamp(start, end.max(start));
    if history.has_time {
        let age = history.time_of(at).saturating_sub(history.time_of(start));
        let lifetime = format::duration(history.lifetime(id));
        lines.push(format!("Lifetime {lifetime}, age here {}", format::duration(age)));
    } else {
        let [lifetime, age] = [history.lifetime(id), i64::from(at - start)].map(|n| format::count(n.unsigned_abs()));
        lines.push(format!("Lifetime in events {lifetime}, age here {age}"));
    }
    if all.freed[i] <= state && state < all.end[i] {
        lines.push("Freed by the program, but still waiting for a stream".to_owned());
    }
    lines
}

/// Shows the tooltip.
pub fn ui(ui: &Ui, canvas: &Response, chart: &Chart<'_>, id: AllocationId, state: u32) {
    let (history, trace) = (chart.shown.history(), chart.shown.trace());
    let bytes = history.allocations.bytes[id.idx()];
    let stack = history.allocations.stack[id.idx()];
    let tooltip =
        Tooltip::always_open(ui.ctx().clone(), canvas.layer_id, canvas.id, PopupAnchor::Pointer).gap(14.0).width(460.0);
    tooltip.show(|ui| {
        let exact = if bytes < 1024 { String::new() } else { format!(" ({} B)", format::count(bytes)) };
        ui.label(RichText::new(format!("{}{exact}", format::bytes(bytes as f64))).strong());
        lines(chart, id, state).into_iter().for_each(|line| drop(ui.label(line)));
        let frames = foremost(trace, stack, MAX_FRAMES + 1);
        ui.add_space(3.0);
        if frames.is_empty() {
            ui.weak("No call stack was recorded for it");
        }
        for frame in frames.iter().take(MAX_FRAMES) {
            // A tooltip keeps the width of the one before: in that a longer frame would lose its end.
            ui.add(eframe::egui::Label::new(RichText::new(cut(frame)).monospace().size(11.0)).extend());
        }
        if frames.len() > MAX_FRAMES {
            ui.weak("The details have the whole stack");
        }
    });
}

/// A frame in at most [`MOST`] characters: of a long one the function without its arguments, and the end of the path.
fn cut(frame: &str) -> String {
    let text = display_name(frame);
    if text.chars().nth(MOST).is_none() {
        return text.into_owned();
    }
    let Frame { function, file, line } = Frame::of(&text);
    if file.is_empty() {
        return shortened(function, MOST);
    }
    let line = if line > 0 { format!(":{line}") } else { String::new() };
    let name = shortened(function, MOST / 2);
    let room = MOST.saturating_sub(name.chars().count() + line.len() + 3);
    let n = file.chars().count();
    let file = match n.checked_sub(room) {
        None | Some(0) => file.to_owned(),
        Some(over) => std::iter::once('…').chain(file.chars().skip(over + 1)).collect(),
    };
    format!("{name} ({file}{line})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_frames_keep_their_function_and_the_end_of_their_path() {
        let args = "(c10::ArrayRef<long>, std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>)";
        assert_eq!(cut(&format!("at::_ops::empty_strided::call{args}")), "call");
        assert_eq!(cut(&format!("at::native::empty_strided_cuda{args} (??)")), "empty_strided_cuda");
        assert_eq!(
            cut(&format!("at::(anonymous namespace)::create_out{args} (RegisterCUDA_0.cpp:0)")),
            "create_out (RegisterCUDA_0.cpp)"
        );
        assert_eq!(cut("forward (model.py:12)"), "forward (model.py:12)");
        let deep = format!("forward (/home/me/{}model.py:12)", "a_folder/".repeat(20));
        let short = cut(&deep);
        assert!(short.starts_with("forward (…") && short.ends_with("r/model.py:12)"), "{short}");
        assert_eq!(short.chars().count(), MOST);
        assert!(cut(&"ö".repeat(500)).chars().count() <= MOST);
    }
}
