//! The GPUs of this machine now: what they do, how that changed, who uses them, and what happened to them.

mod devices;
mod lines;
mod lists;
mod plots;
mod shown;

use std::path::PathBuf;
use std::time::Duration;

use eframe::egui::{self, Frame, Key, Margin, ScrollArea};
use serde_json::{Value, json};

pub use self::devices::color as device_color;
pub use self::lines::lines;
use self::shown::Shown;
use super::states::{failed_ui, nothing_ui, working_ui};
use super::{Content, DockArea, View, ViewContext, ViewSpec};
use crate::capture::counters;
use crate::command::{Command, ctrl};
use crate::figures::Sort;
use crate::job::{Job, Poll, Progress};
use crate::live::{Alarm, Monitor, Recorder, default_alarms};
use crate::widget::options::options_ui;

/// The description of the view.
pub const SPEC: ViewSpec = ViewSpec {
    id: "live",
    title: "GPU monitor",
    help: "Show what the GPUs of this machine do now: utilization, memory, power, temperature, links",
    keys: &[ctrl(Key::L)],
    area: DockArea::Center,
    content: Content::Machine,
    make: || Box::new(Live::default()),
};

/// The intervals that are offered, in milliseconds.
const INTERVALS: [u64; 7] = [100, 250, 500, 1000, 2000, 5000, 10_000];
/// The lengths of history that are offered, in seconds.
const WINDOWS: [u64; 5] = [30, 60, 120, 600, 1800];

/// The monitor's tab.
#[derive(Debug)]
pub struct Live {
    interval_ms: u64,
    window_s: u64,
    alarms: Vec<Alarm>,
    /// Whether interval and alarms are to be told to the monitor.
    is_changed: bool,
    is_paused: bool,
    /// What was read last; while paused, what was read then.
    shown: Option<Shown>,
    /// UUIDs of devices whose lines are hidden.
    hidden: Vec<String>,
    /// How the processes are sorted.
    sort: Option<Sort>,
    /// The recording to a file that is under way.
    recorder: Option<Recorder>,
    /// The file of the last recording, or why there is none.
    recorded: Option<Result<PathBuf, String>>,
    /// A recording whose last lines are being written.
    ending: Option<Job<Result<PathBuf, String>>>,
}

/// How often a missing driver is looked for.
const RETRY: Duration = Duration::from_secs(5);

impl Default for Live {
    fn default() -> Self {
        Self {
            interval_ms: 250,
            window_s: 120,
            alarms: default_alarms(),
            is_changed: true,
            is_paused: false,
            shown: None,
            hidden: Vec::new(),
            sort: None,
            recorder: None,
            recorded: None,
            ending: None,
        }
    }
}

impl View for Live {
    fn ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        self.follow(ctx.live);
        let has_driver = self.shown.as_ref().is_none_or(|shown| shown.missing.is_none());
        // Without a driver nothing moves: only a driver that is installed meanwhile is to be noticed.
        let pause = if has_driver { ctx.live.interval().min(Duration::from_secs(1)) } else { RETRY };
        ui.ctx().request_repaint_after(pause);
        Frame::NONE.inner_margin(Margin::symmetric(8, 4)).show(ui, |ui| {
            ui.horizontal_wrapped(|ui| {
                self.head_ui(ui);
                self.recorder_ui(ctx, ui);
            });
            let Some(shown) = &self.shown else { return working_ui("Asking the GPU drivers…", ui) };
            if let Some(missing) = &shown.missing {
                ui.add_space(8.0);
                return nothing_ui(&missing.what, &missing.remedy, ui);
            }
            if shown.devices.is_empty() {
                return working_ui("Asking the GPU drivers…", ui);
            }
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                shown.notes.iter().for_each(|note| failed_ui(note, ui));
                devices::ui(shown, &mut self.hidden, ui);
                plots::ui(shown, &self.hidden, ui);
                lists::processes_ui(shown, &mut self.sort, ui);
                lists::events_ui(shown, ui);
                lists::absent_ui(shown, ui);
            });
        });
    }

    fn save(&self) -> Value {
        let alarms: Vec<Value> = self.alarms.iter().map(|alarm| json!([alarm.level, alarm.is_on])).collect();
        json!({ "interval_ms": self.interval_ms, "window_s": self.window_s, "alarms": alarms })
    }

    fn load(&mut self, saved: &Value) {
        *self = Self::default();
        let choice = |key: &str, of: &[u64]| saved[key].as_u64().filter(|value| of.contains(value));
        self.interval_ms = choice("interval_ms", &INTERVALS).unwrap_or(self.interval_ms);
        self.window_s = choice("window_s", &WINDOWS).unwrap_or(self.window_s);
        for (alarm, saved) in self.alarms.iter_mut().zip(saved["alarms"].as_array().into_iter().flatten()) {
            alarm.level = saved[0].as_f64().filter(|level| (0.0..=200.0).contains(level)).unwrap_or(alarm.level);
            alarm.is_on = saved[1].as_bool().unwrap_or(alarm.is_on);
        }
    }
}

impl Live {
    /// Takes over what the monitor has read since the last frame, and tells it what the user chose.
    fn follow(&mut self, monitor: &Monitor) {
        if std::mem::take(&mut self.is_changed) {
            monitor.set_interval(Duration::from_millis(self.interval_ms));
            monitor.set_alarms(self.alarms.clone());
        }
        monitor.start();
        let window_ns = self.window_s as i64 * 1_000_000_000;
        let is_current = |shown: &Shown, revision| shown.revision == revision && shown.window_ns == window_ns;
        if self.shown.is_none() || !self.is_paused {
            let shown = self.shown.take();
            self.shown = monitor.read(|store| match shown {
                Some(shown) if is_current(&shown, store.revision) => Some(shown),
                _ if !store.is_settled() && store.devices.is_empty() => None,
                _ => Some(Shown::new(store, window_ns)),
            });
        }
    }

    /// Writes what is read to a file while the user wants it, and says to which.
    fn recorder_ui(&mut self, ctx: &mut ViewContext<'_>, ui: &mut egui::Ui) {
        if self.shown.as_ref().is_none_or(|shown| shown.devices.is_empty()) && self.recorder.is_none() {
            return;
        }
        if let Some(recorder) = self.recorder.take() {
            let is_over = ui.button("Stop recording").on_hover_text("End the file").clicked();
            let written = recorder.written();
            ui.weak(format!("{written} in {}", recorder.path().display()));
            if is_over || written.error.is_some() {
                self.stop(recorder, ui.ctx());
            } else {
                self.recorder = Some(recorder);
            }
            return;
        }
        match self.ending.as_ref().map(Job::poll) {
            None => {}
            Some(Poll::Running) => {
                ui.weak("Writing the last lines…");
                return;
            }
            Some(Poll::Done(outcome)) => (self.recorded, self.ending) = (Some(outcome), None),
            Some(Poll::Crashed(why)) => (self.recorded, self.ending) = (Some(Err(why)), None),
        }
        let help = "Write each reading to a new file, one JSON object a line, until you stop or close this tab";
        if ui.button("Record").on_hover_text(help).clicked() {
            self.recorded = None;
            match counters::record(ctx.live) {
                Ok(recorder) => self.recorder = Some(recorder),
                Err(error) => self.recorded = Some(Err(format!("The recording cannot be written: {error}"))),
            }
        }
        match &self.recorded {
            Some(Ok(path)) => {
                ui.weak("Recorded");
                if ui.link(path.display().to_string()).on_hover_text("Open it as counters").clicked() {
                    ctx.commands.push(Command::OpenPath(path.clone()));
                }
            }
            Some(Err(why)) => failed_ui(why, ui),
            None => {}
        }
    }

    /// Ends a recording; its last lines may have to wait for the disk.
    fn stop(&mut self, recorder: Recorder, egui: &egui::Context) {
        let waker = egui.clone();
        let work = move |_: &Progress| {
            let path = recorder.path().to_owned();
            recorder.stop().error.map_or(Ok(path), Err)
        };
        match Job::spawn("recording", move || waker.request_repaint(), work) {
            Ok(job) => self.ending = Some(job),
            Err(error) => self.recorded = Some(Err(format!("No thread could be started: {error}"))),
        }
    }

    fn head_ui(&mut self, ui: &mut egui::Ui) {
        let (label, hint) = match self.is_paused {
            true => ("Resume", "Show new readings again"),
            false => ("Pause", "Freeze the display; reading continues"),
        };
        if ui.button(label).on_hover_text(hint).clicked() {
            self.is_paused ^= true;
        }
        let rate = |ms: u64| match ms {
            1..1000 => format!("{} a second", 1000 / ms),
            1000 => "1 a second".to_owned(),
            ms => format!("every {} s", ms / 1000),
        };
        ui.label("Readings");
        let before = self.interval_ms;
        let combo = egui::ComboBox::from_id_salt("interval").selected_text(rate(before));
        let combo = combo.show_ui(ui, |ui| {
            INTERVALS.iter().for_each(|&ms| drop(ui.selectable_value(&mut self.interval_ms, ms, rate(ms))));
        });
        combo.response.widget_info(|| named("Readings"));
        let length = |s: u64| if s < 60 { format!("{s} s") } else { format!("{} min", s / 60) };
        ui.label("History");
        let combo = egui::ComboBox::from_id_salt("window").selected_text(length(self.window_s));
        let combo = combo.show_ui(ui, |ui| {
            WINDOWS.iter().for_each(|&s| drop(ui.selectable_value(&mut self.window_s, s, length(s))));
        });
        combo.response.widget_info(|| named("History"));
        self.is_changed |= before != self.interval_ms;
        options_ui("Alarms…", ui, |ui| self.is_changed |= alarms_ui(&mut self.alarms, ui));
        if self.is_paused {
            ui.weak("Paused");
        }
    }
}

fn named(name: &str) -> egui::WidgetInfo {
    egui::WidgetInfo::labeled(egui::Role::ComboBox, true, name)
}

/// The thresholds; whether one was changed.
fn alarms_ui(alarms: &mut [Alarm], ui: &mut egui::Ui) -> bool {
    let mut is_changed = false;
    egui::Grid::new("alarms").num_columns(2).show(ui, |ui| {
        for alarm in alarms {
            is_changed |= ui.checkbox(&mut alarm.is_on, alarm.kind.title()).changed();
            let level =
                egui::DragValue::new(&mut alarm.level).range(1.0..=150.0).suffix(format!(" {}", alarm.kind.unit()));
            is_changed |= ui.add_enabled(alarm.is_on, level).changed();
            ui.end_row();
        }
    });
    is_changed
}
