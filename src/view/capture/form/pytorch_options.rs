//! Options of PyTorch's profiler in the form, for a whole run or on demand.

use eframe::egui::{self, TextEdit, Ui};

use crate::capture::pytorch;

/// Times of traces on demand, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Times {
    /// Duration of each trace.
    pub length: f64,
    /// Between the starts of traces that begin by themselves; 0 is on request alone.
    pub every: f64,
}

impl Default for Times {
    fn default() -> Self {
        Self { length: 1.0, every: 0.0 }
    }
}

/// The fields of traces on demand.
pub fn on_demand_ui(times: &mut Times, contents: &mut pytorch::Contents, ranks: &mut String, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        let label = ui.label("Seconds of each trace");
        let edit = egui::DragValue::new(&mut times.length).range(0.01..=3600.0).speed(0.1);
        ui.add(edit).labelled_by(label.id).on_hover_text("Duration of each trace; it begins within seconds");
        let label = ui.label("Again every");
        let text = |value: f64, _| if value == 0.0 { "never".to_owned() } else { format!("{value} s") };
        let parse = |text: &str| text.trim_end_matches(['s', ' ']).parse().ok();
        let edit = egui::DragValue::new(&mut times.every).range(0.0..=86_400.0).max_decimals(1);
        ui.add(edit.custom_formatter(text).custom_parser(parse))
            .labelled_by(label.id)
            .on_hover_text("Also record a trace every so many seconds, the first that long after torch was imported");
    });
    contents_ui(contents, ui);
    ranks_ui(ranks, ui);
}

/// The fields of the profiler that runs from the start.
pub fn profiler_ui(options: &mut pytorch::Options, ranks: &mut String, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        ui.checkbox(&mut options.trace, "Trace").on_hover_text("Record what ran, by torch.profiler");
        ui.checkbox(&mut options.memory, "Memory history")
            .on_hover_text("Record the CUDA allocator's history: a snapshot at the end, and whenever memory runs out");
    });
    ui.add_enabled_ui(options.trace, |ui| trace_ui(options, ui));
    ranks_ui(ranks, ui);
}

fn ranks_ui(ranks: &mut String, ui: &mut Ui) {
    ui.horizontal(|ui| {
        let label = ui.label("Ranks");
        ui.add(TextEdit::singleline(ranks).id_salt("ranks").hint_text("0").desired_width(120.0))
            .labelled_by(label.id)
            .on_hover_text("Which workers of a distributed training are recorded: 0,4-7 or all");
    });
}

/// Which steps are in a trace, and what of them.
fn trace_ui(options: &mut pytorch::Options, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        ui.radio_value(&mut options.whole, false, "Steps of the optimizer");
        ui.radio_value(&mut options.whole, true, "The whole run")
            .on_hover_text("From the import of torch to the end: for programs without an optimizer");
    });
    ui.add_enabled_ui(!options.whole, |ui| {
        ui.horizontal_wrapped(|ui| {
            let mut number = |name: &str, value: &mut u32, least: u32, help: &str| {
                let label = ui.label(name);
                ui.add(egui::DragValue::new(value).range(least..=1_000_000)).labelled_by(label.id).on_hover_text(help);
            };
            number(
                "Wait",
                &mut options.wait,
                1,
                "Steps before the profiler starts; the first one is needed to find steps",
            );
            number("Warm up", &mut options.warmup, 0, "Steps with the profiler on whose events are discarded");
            number("Record", &mut options.active, 1, "Steps in each trace");
            number("Repeat", &mut options.repeat, 1, "Number of traces, each after its own waiting and warm-up");
        });
    });
    contents_ui(&mut options.contents, ui);
}

/// What is in a trace.
fn contents_ui(contents: &mut pytorch::Contents, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        for (name, value, help) in [
            ("Shapes", &mut contents.record_shapes, "Shapes of the inputs of operators"),
            ("Python stacks", &mut contents.with_stack, "Attributes gaps to lines of code; slows the host markedly"),
            ("Allocations", &mut contents.profile_memory, "Allocations as events of the trace"),
            ("FLOPs", &mut contents.with_flops, "Floating-point operations, as torch estimates them"),
            ("Modules", &mut contents.with_modules, "The modules of TorchScript"),
        ] {
            ui.checkbox(value, name).on_hover_text(help);
        }
    });
}
