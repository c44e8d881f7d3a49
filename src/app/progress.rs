//! What is said of a file while it is read: its name, the phase, and how far it is where that is known; and how much
//! was read.

use std::time::Duration;

use eframe::egui::{self, ProgressBar};

use super::loads::Load;
use crate::figures::{format, text::display_name};

/// Before this the speed is a guess.
const RATE_AFTER: Duration = Duration::from_secs(1);

/// How far a load is; a bar only where that is known: all that is read is not yet all that is done, and nsys says
/// nothing for a while.
pub fn progress_ui(load: &Load, ui: &mut egui::Ui) -> egui::Response {
    let (done, total) = load.progress();
    let text = load_text(load);
    if done == 0 || done >= total {
        return ui.label(text);
    }
    ui.add(ProgressBar::new(done as f32 / total as f32).text(text).desired_width(ui.available_width()))
}

/// What is being read, from the first frame on.
pub fn reading_text(load: &Load, n_others: usize) -> String {
    let name = load.path.file_name().unwrap_or_default().to_string_lossy();
    reading_line(&name, &load.phase(), load.progress().1, n_others)
}

/// `Reading: trace.json, 80.00 MiB, and 3 more files`. In a phase the total is no size.
fn reading_line(name: &str, phase: &str, total: u64, n_others: usize) -> String {
    let doing = if phase.is_empty() { "Reading" } else { phase };
    let size = if phase.is_empty() && total > 0 { format!(", {}", format::bytes(total as f64)) } else { String::new() };
    let others = match n_others {
        0 => String::new(),
        1 => ", and 1 more file".to_owned(),
        n => format!(", and {} more files", format::count(n as u64)),
    };
    format!("{doing}: {}{size}{others}", display_name(name))
}

/// The same in words.
pub fn load_text(load: &Load) -> String {
    progress_text(&load.phase(), load.progress(), load.elapsed())
}

/// What is being done and how far it is: `Reading: 12.00 MiB of 80.00 MiB, 30.00 MiB/s`. Where that is unknown, for how
/// long it has been done: once all bytes are read, tracks and rows are built of them.
fn progress_text(phase: &str, (done, total): (u64, u64), elapsed: Duration) -> String {
    let since = format::seconds(elapsed.as_secs());
    match phase {
        "" if total == 0 => format!("Reading, {since}"),
        "" if done >= total => format!("Building tracks of {}, {since}", format::bytes(total as f64)),
        "" => {
            let read = format!("Reading: {} of {}", format::bytes(done as f64), format::bytes(total as f64));
            match elapsed >= RATE_AFTER && done > 0 {
                true => format!("{read}, {}/s", format::bytes(done as f64 / elapsed.as_secs_f64())),
                false => read,
            }
        }
        phase if done == 0 || done >= total => format!("{phase}, {since}"),
        phase => format!("{phase}: {:.0} %", (100.0 * done as f64 / total as f64).min(99.0)),
    }
}

/// What became of the events: `4,168 events read: 1,608 shown, 2,560 merged`.
pub fn counts_text(read: u64, [shown, merged, rejected]: [u64; 3]) -> String {
    let all = format::of_things(read, "event");
    if merged == 0 && rejected == 0 {
        return format!("{all} read, all shown");
    }
    let others = [(merged, "merged"), (rejected, "rejected")].into_iter().filter(|(n, _)| *n > 0);
    let others: String = others.map(|(n, what)| format!(", {} {what}", format::count(n))).collect();
    format!("{all} read: {} shown{others}", format::count(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_said_with_name_and_size() {
        let text = |phase: &str, total, n_others| reading_line("a.json", phase, total, n_others);
        assert_eq!(text("", 0, 0), "Reading: a.json");
        assert_eq!(text("", 3 << 20, 0), "Reading: a.json, 3.00 MiB");
        assert_eq!(text("", 3 << 20, 1), "Reading: a.json, 3.00 MiB, and 1 more file");
        assert_eq!(
            text("Converting with nsys 2023.4", 100, 12),
            "Converting with nsys 2023.4: a.json, and 12 more files"
        );
    }

    #[test]
    fn progress_names_its_phase_and_never_stands_at_its_end() {
        let mib = 1024 * 1024;
        let text = |phase, done: u64, total: u64, ms| {
            progress_text(phase, (done * mib, total * mib), Duration::from_millis(ms))
        };
        assert_eq!(text("", 2, 8, 500), "Reading: 2.00 MiB of 8.00 MiB");
        assert_eq!(text("", 2, 8, 2_000), "Reading: 2.00 MiB of 8.00 MiB, 1.00 MiB/s");
        assert_eq!(text("", 8, 8, 2_900), "Building tracks of 8.00 MiB, 2 s");
        assert_eq!(text("", 0, 0, 9_000), "Reading, 9 s");
        assert_eq!(text("Converting with nsys 2023.4", 0, 0, 3_000), "Converting with nsys 2023.4, 3 s");
        assert_eq!(progress_text("Converting", (0, 100), Duration::from_secs(4)), "Converting, 4 s");
        assert_eq!(progress_text("Converting", (37, 100), Duration::ZERO), "Converting: 37 %");
        assert_eq!(progress_text("Converting", (100, 100), Duration::from_secs(4)), "Converting, 4 s");
    }

    #[test]
    fn every_event_is_accounted_for() {
        assert_eq!(counts_text(4_168, [1_608, 2_560, 0]), "4,168 events read: 1,608 shown, 2,560 merged");
        assert_eq!(counts_text(10, [5, 2, 3]), "10 events read: 5 shown, 2 merged, 3 rejected");
        assert_eq!(counts_text(10, [9, 0, 1]), "10 events read: 9 shown, 1 rejected");
        assert_eq!(counts_text(640, [640, 0, 0]), "640 events read, all shown");
    }
}
