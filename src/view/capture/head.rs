//! The state of a run, what stops it and switches its recorder, and why it failed.

use std::time::Duration;

use eframe::egui::{self, Label, RichText, Ui};

use super::earlier::{STOPPED, run_for};
use crate::capture::kineto;
use crate::capture::launch::{Output, Run, Stage, Status, Stream, Switch};
use crate::figures::format;
use crate::widget::busy::busy_ui;
use crate::widget::theme;

/// Time limits are whole seconds, in nanoseconds.
const TICK: i64 = 1_000_000_000;

/// What a program wrote last before it failed; empty if that was nothing.
#[derive(Debug)]
pub struct Last(String);

impl Last {
    /// The last line of stderr that has words, or of both streams.
    pub fn of(output: &Output) -> Self {
        let has_words = |text: &str| text.chars().any(char::is_alphanumeric);
        let mut said = output.lines().iter().rev().filter(|line| has_words(&line.text)).peekable();
        let last = said.peek().map(|line| line.text.as_str());
        let of_stderr = said.find(|line| line.stream == Stream::Err).map(|line| line.text.as_str());
        Self(of_stderr.or(last).unwrap_or_default().trim().to_owned())
    }
}

/// Time that passes: `0:07`, `1:02:03`.
fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if h > 0 { format!("{h}:{m:02}:{s:02}") } else { format!("{m}:{s:02}") }
}

/// Starts and stops a recorder while the program runs.
fn switch_ui(run: &Run, switch: Switch, ui: &mut Ui) {
    let (name, help, is_on) = match switch {
        Switch::Off => ("Record", "Start a recording", true),
        Switch::Starting => ("Record", "Starting the recording", true),
        Switch::On => ("Stop recording", "End this recording and open it; the program goes on", false),
        Switch::Stopping => ("Stop recording", "Writing the recording", false),
    };
    let can_switch = matches!(switch, Switch::Off | Switch::On);
    if ui.add_enabled(can_switch, egui::Button::new(name)).on_hover_text(help).on_disabled_hover_text(help).clicked() {
        run.record(is_on);
    }
    let state = match switch {
        Switch::Off => "not recording",
        Switch::Starting => "starting to record",
        Switch::On => "recording",
        Switch::Stopping => "writing the recording",
    };
    ui.weak(state);
}

/// The button that asks for a trace.
fn record_ui(endpoint: &kineto::Endpoint, ui: &mut Ui) {
    let n = endpoint.n_ready();
    let button = ui.add_enabled(n > 0, egui::Button::new("Record now"));
    let button = button.on_disabled_hover_text(match endpoint.is_busy() {
        true => "The previous trace is still being recorded",
        false => kineto::NO_PROCESS,
    });
    if button.on_hover_text("Record a trace of what the program does from now on; it opens when it is whole").clicked()
    {
        endpoint.trigger();
    }
}

/// How far the run is, or how it ended.
fn state(status: &Status) -> String {
    let limit =
        status.time_limit.map(|limit| format::moment(i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX), TICK));
    let over = limit.as_ref().filter(|_| status.is_over_limit);
    let running = clock(status.elapsed);
    let asked = |how: &str| match over {
        Some(limit) => format!("{how} by the time limit of {limit}; running for {running}"),
        None => format!("{how}; running for {running}"),
    };
    let elapsed = run_for(status.elapsed);
    let by = over.map_or(String::new(), |limit| format!(" by the time limit of {limit}"));
    match (status.stage, status.exit) {
        (Stage::Running, _) => {
            let at_most = limit.map_or(String::new(), |limit| format!("; time limit {limit}"));
            format!("Running for {running}{at_most}")
        }
        (Stage::Interrupted, _) => asked("Asked to end"),
        (Stage::Terminated, _) => asked("Told to end"),
        (Stage::Killed | Stage::Ending, _) | (Stage::Ended, None) => "Ending".to_owned(),
        (Stage::Ended, Some(exit)) if status.was_stopped && !exit.is_failure(true) => {
            format!("{} after {elapsed}{by}", exit.stopped(STOPPED))
        }
        (Stage::Ended, Some(exit)) if over.is_some() => {
            format!("Ended after {elapsed} with {}, stopped{by}", exit.shown())
        }
        (Stage::Ended, Some(exit)) => format!("Ended after {elapsed} with {}", exit.shown()),
    }
}

/// The state of the run, and how to stop it.
pub fn head_ui(run: &Run, status: &Status, ui: &mut Ui) {
    let tokens = theme::tokens(ui.visuals().dark_mode);
    ui.horizontal_wrapped(|ui| {
        let stop = match status.stage {
            Stage::Running => Some(("Stop", "Ask the program to end (SIGINT); what it recorded until then is kept")),
            Stage::Interrupted => Some(("Stop now", "End the program (SIGTERM); what it recorded is kept if it can")),
            Stage::Terminated => Some(("Kill", "Kill the program (SIGKILL); what is not written yet is lost")),
            Stage::Killed | Stage::Ending | Stage::Ended => None,
        };
        if let Some((name, help)) = stop {
            let button = ui.button(name).on_hover_text(help);
            // The second click of a double click is on the next, harsher button in the same place, and not meant for
            // it.
            if button.clicked() && !button.double_clicked() && !button.triple_clicked() {
                run.stop();
            }
        }
        if let Some(switch) = status.switch.filter(|_| status.stage == Stage::Running) {
            switch_ui(run, switch, ui);
        }
        if let (Stage::Running, Some(endpoint)) = (status.stage, run.on_demand()) {
            record_ui(endpoint, ui);
        }
        if status.stage < Stage::Ended {
            busy_ui(ui);
        }
        let is_bad = status.exit.is_some_and(|exit| exit.is_failure(status.was_stopped));
        ui.label(RichText::new(state(status)).strong().color(if is_bad {
            tokens.severity[2]
        } else {
            tokens.strong_text
        }));
        for process in status.processes.iter().filter(|process| process.has_worked()) {
            ui.weak(format!("rank {}: {}", process.rank, process.state)).on_hover_text(match &*process.torch {
                "" => format!("Process {}", process.pid),
                torch => format!("Process {}, torch {torch}", process.pid),
            });
        }
    });
}

/// Why the run failed, a line whose whole text is below, or recorded nothing: the first of its notes, which those below
/// leave out.
pub fn why_ui(status: &Status, last: Option<&Last>, ui: &mut Ui) {
    if let Some(Last(text)) = last {
        ui.horizontal(|ui| {
            ui.weak(if text.is_empty() { "The program wrote nothing" } else { "The program wrote last:" });
            ui.add(Label::new(RichText::new(text).monospace()).truncate());
        });
    }
    if status.stage == Stage::Ended
        && let Some(note) = status.notes.first()
    {
        let color = theme::tokens(ui.visuals().dark_mode).severity[1];
        ui.colored_label(color, note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::launch::Exit;

    #[test]
    fn the_last_words_of_a_program_are_those_of_stderr() {
        let last = |written: &[(Stream, &str)]| {
            let mut output = Output::default();
            written.iter().for_each(|(stream, text)| output.push(*stream, text.as_bytes()));
            output.finish();
            Last::of(&output).0
        };
        assert_eq!(last(&[]), "");
        assert_eq!(last(&[(Stream::Out, "loss 3.1\n\n")]), "loss 3.1");
        let traceback = "Traceback:\n  File\nValueError: no such mode\n=====\n";
        assert_eq!(last(&[(Stream::Err, traceback), (Stream::Out, "bye\n")]), "ValueError: no such mode");
    }

    #[test]
    fn what_a_time_limit_ended_is_said_as_long_as_it_ends() {
        let mut status = Status::begun(Some(Duration::from_secs(90)));
        status.elapsed = Duration::from_secs(61);
        assert_eq!(state(&status), "Running for 1:01; time limit 1 min 30 s");
        // The user was first.
        status.stage = Stage::Interrupted;
        assert_eq!(state(&status), "Asked to end; running for 1:01");
        status.is_over_limit = true;
        assert_eq!(state(&status), "Asked to end by the time limit of 1 min 30 s; running for 1:01");
        (status.stage, status.was_stopped, status.elapsed) = (Stage::Ended, true, Duration::from_millis(90_020));
        let ends = [(Exit::Code(0), "Stopped after"), (Exit::Code(7), "Stopped, exit code 7 after")];
        for (exit, start) in ends {
            status.exit = Some(exit);
            assert_eq!(state(&status), format!("{start} 1 min 30.020 s by the time limit of 1 min 30 s"));
        }
        status.exit = Some(Exit::Signal(11));
        let wanted = "Ended after 1 min 30.020 s with SIGSEGV, stopped by the time limit of 1 min 30 s";
        assert_eq!(state(&status), wanted);
    }
}
