//! Options of nsys in the form.

use eframe::egui::{self, TextEdit, Ui};

use crate::capture::nsys;

/// Interfaces that nsys traces: name, and what they are.
const TRACES: [(&str, &str); 7] = [
    ("cuda", "Kernels, copies and CUDA API calls"),
    ("nvtx", "Named ranges of the program"),
    ("osrt", "System calls in which threads block"),
    ("cudnn", "cuDNN calls"),
    ("cublas", "cuBLAS calls"),
    ("mpi", "MPI calls"),
    ("python-gil", "Which thread holds the GIL"),
];

/// What nsys records, and when.
///
/// * `path`, `found`: the `nsys` that the form names, and which it is while that is empty.
/// * `others`: further options, as typed.
pub fn ui(profile: &mut nsys::Profile, (path, found): (&mut String, &str), others: &mut String, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        ui.label("Trace");
        for (name, help) in TRACES {
            let mut is_on = profile.trace.split(',').any(|traced| traced == name);
            if ui.checkbox(&mut is_on, name).on_hover_text(help).changed() {
                let mut traced: Vec<&str> = profile.trace.split(',').filter(|traced| *traced != name).collect();
                traced.extend(is_on.then_some(name));
                traced.retain(|traced| !traced.is_empty() && *traced != "none");
                profile.trace = if traced.is_empty() { "none".to_owned() } else { traced.join(",") };
            }
        }
    });
    ui.horizontal_wrapped(|ui| {
        for (name, value, help) in [
            ("Memory usage", &mut profile.memory_usage, "Device memory allocations; each costs extra time"),
            ("GPU metrics", &mut profile.gpu_metrics, "Hardware counters of all GPUs; may need administrator rights"),
            ("Sampling", &mut profile.sampling, "Call stacks of threads, and when threads run"),
            ("Graph nodes", &mut profile.graph_nodes, "Each node of CUDA graphs, instead of graphs as a whole; slower"),
        ] {
            ui.checkbox(value, name).on_hover_text(help);
        }
    });
    ui.horizontal_wrapped(|ui| {
        ui.label("Record");
        ui.radio_value(&mut profile.range, nsys::Range::Program, "The program");
        ui.radio_value(&mut profile.range, nsys::Range::CudaProfilerApi, "cudaProfilerStart to Stop")
            .on_hover_text("Set by the program, for example with torch.cuda.profiler.start");
        ui.radio_value(&mut profile.range, nsys::Range::Nvtx, "NVTX range").on_hover_text("The first such range");
        let edit = TextEdit::singleline(&mut profile.nvtx_range)
            .id_salt("nvtx range")
            .hint_text("name, name@domain")
            .desired_width(110.0);
        ui.add_enabled(profile.range == nsys::Range::Nvtx, edit).accessible_name("Name of the NVTX range");
    });
    ui.add_enabled_ui(profile.range == nsys::Range::Program, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.checkbox(&mut profile.by_hand, "By hand")
                .on_hover_text("Start and stop recordings by a button while the program runs");
            let mut number = |name: &str, value: &mut u32, help: &str| {
                let label = ui.label(name);
                let drag = egui::DragValue::new(value).range(0..=1_000_000).suffix(" s");
                ui.add(drag).labelled_by(label.id).on_hover_text(help);
            };
            number("Delay", &mut profile.delay, "Seconds before the recording starts");
            number(
                "Duration",
                &mut profile.duration,
                "Seconds to record, after which the program continues; 0 records to its end",
            );
        });
    });
    egui::Grid::new("capture nsys").num_columns(2).spacing([12.0, 5.0]).show(ui, |ui| {
        let label = ui.label("More options");
        let width = ui.available_width().clamp(0.0, super::FIELD);
        let edit =
            TextEdit::singleline(others).id_salt("other options").hint_text("--cudabacktrace=all").desired_width(width);
        ui.add(edit).labelled_by(label.id);
        ui.end_row();
        let label = ui.label("nsys");
        let edit = TextEdit::singleline(path).id_salt("nsys").hint_text(found).desired_width(width);
        ui.add(edit).labelled_by(label.id);
        ui.end_row();
    });
}
