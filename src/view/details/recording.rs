//! What the open files are, shown while nothing is selected: the panel is never empty, and nothing moves when it fills.

use eframe::egui::{self, Align, Label, Layout, RichText, vec2};

use super::cut;
use crate::capture::launch::shown_time;
use crate::figures::{format, text::display_name};
use crate::model::{DeviceInfo, MemoryHistory};
use crate::session::{OpenTrace, in_order};
use crate::widget::prose::{plain, prose_ui};

/// Files that are described; of an archive there may be thousands.
const MOST: usize = 8;
/// Of the names of facts, in points.
const LABEL_WIDTH: f32 = 110.0;
/// Facts of one file that are listed.
const MOST_FACTS: usize = 24;

/// The open files in order.
pub fn recordings_ui(traces: &[OpenTrace], ui: &mut egui::Ui) {
    for trace in in_order(traces).into_iter().take(MOST) {
        let open = &traces[trace];
        let title = display_name(&open.heading()).into_owned();
        let path = open.trace.info.path.display().to_string();
        // Of many files that are alike the whole names tell them apart.
        ui.add(Label::new(RichText::new(title).strong()).wrap()).on_hover_text(path);
        recording_ui(open, ui);
        // A fact may have several values.
        for facts in open.trace.info.facts.chunk_by(|a, b| a.0 == b.0).take(MOST_FACTS) {
            let values: Vec<_> = facts.iter().map(|(_, value)| value.as_str()).collect();
            let value = fact_text(&facts[0].0, values.join(", "));
            row_ui(ui, &display_name(&facts[0].0), &display_name(&cut(&value)));
        }
        ui.add_space(8.0);
    }
    let n_more = traces.len().saturating_sub(MOST) as u64;
    if n_more > 0 {
        ui.weak(format!("{} more files are open", format::count(n_more)));
    }
}

/// The value of a fact, with its unit where the name tells one.
fn fact_text(name: &str, value: String) -> String {
    let number = value.trim().parse::<i64>().ok();
    match (name, number) {
        _ if value.trim().is_empty() => "not set".to_owned(),
        ("RUN_DURATION_MS", Some(ms)) => format::duration(ms.saturating_mul(1_000_000)),
        // As CUDA numbers them: 12080 is 12.8.
        ("CudaDriverVersion" | "cuda_driver_version" | "cuda_runtime_version", Some(version)) if version >= 1_000 => {
            format!("{}.{}", version / 1_000, version % 1_000 / 10)
        }
        // What stands for "no limit" in the allocator's settings.
        ("max_split_size", Some(-1)) => "no limit".to_owned(),
        ("max_split_size", None) if value == u64::MAX.to_string() => "no limit".to_owned(),
        ("max_split_size", Some(bytes)) => format::bytes(bytes as f64),
        _ => value,
    }
}

/// A fact. Its value has a place of its own at once: a grid knows its columns only in a later frame.
fn row_ui(ui: &mut egui::Ui, label: &str, value: &str) {
    ui.horizontal_top(|ui| {
        let size = vec2(LABEL_WIDTH.min(ui.available_width() * 0.45), ui.spacing().interact_size.y);
        ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Min), |ui| {
            ui.set_min_width(size.x);
            ui.add(Label::new(RichText::new(label).weak()).truncate());
        });
        prose_ui(ui, value, plain);
    });
}

fn recording_ui(open: &OpenTrace, ui: &mut egui::Ui) {
    let trace = &*open.trace;
    let info = &trace.info;
    if !info.producer.is_empty() {
        row_ui(ui, "Recorder", &display_name(&info.producer));
    }
    if let Some(start) = open.recorded_at() {
        let ms = u64::try_from(start / 1_000_000).unwrap_or_default();
        row_ui(ui, "Recorded", &shown_time(ms));
    }
    if !trace.slices.is_empty() || trace.memories.iter().any(|history| history.has_time) {
        let length = trace.span.dur();
        row_ui(ui, "Length", &format::duration_in_full(length));
    }
    if let Some(rank) = info.rank {
        let of = info.world_size.map(|size| format!(" of {size}")).unwrap_or_default();
        row_ui(ui, "Rank", &format!("{rank}{of}"));
    }
    let alike = |a: &DeviceInfo, b: &DeviceInfo| {
        a.id.checked_add(1) == Some(b.id) && (&a.name, a.total_memory_bytes) == (&b.name, b.total_memory_bytes)
    };
    // Recorders number the devices that the process sees, on some systems work by the devices of the machine.
    let worked: Vec<u32> = trace.processes.iter().filter_map(|process| process.device).collect();
    let is_listed = |id: &u32| info.devices.iter().any(|device| device.id == *id);
    let is_other = !worked.is_empty() && !worked.iter().any(is_listed);
    let what = if is_other { "Visible GPU" } else { "GPU" };
    // Where one worked and one is listed, they are the same.
    let same = match (&info.devices[..], &worked[..]) {
        ([_], &[id]) if is_other => Some(id),
        _ => None,
    };
    for devices in info.devices.chunk_by(alike).take(MOST) {
        let (first, last) = (&devices[0], &devices[devices.len() - 1]);
        let memory = first.total_memory_bytes.map(|bytes| format::bytes(bytes as f64));
        let name = Some(display_name(&first.name).into_owned()).filter(|name| !name.is_empty());
        let known = name.into_iter().chain(memory).collect::<Vec<_>>().join(", ");
        let (label, as_seen) = match (devices.len(), same) {
            (_, Some(id)) => (format!("GPU {id}"), format!(", GPU {} as the program sees it", first.id)),
            (1, None) => (format!("{what} {}", first.id), String::new()),
            _ => (format!("{what} {} to {}", first.id, last.id), String::new()),
        };
        row_ui(ui, &label, &format!("{known}{as_seen}"));
    }
    row_ui(ui, "Size", &format::bytes(info.bytes as f64));
    let counts = [
        ("Slices", trace.slices.len()),
        ("Tracks", trace.tracks.len()),
        ("Samples", trace.samples.ts.len()),
        ("Allocations", trace.memories.iter().map(MemoryHistory::n_blocks).sum()),
    ];
    for (label, n) in counts.into_iter().filter(|count| count.1 > 0) {
        row_ui(ui, label, &format::count(n as u64));
    }
    if trace.import.rejected > 0 {
        row_ui(ui, "Not shown", &format!("{}, see Problems", format::of_things(trace.import.rejected, "event")));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;
    use crate::model::Trace;
    use crate::model::{SliceKind, TraceBuilder};

    #[test]
    fn facts_have_values_and_units() {
        let cases = [
            ("PYTORCH_CUDA_ALLOC_CONF", "", "not set"),
            ("PYTORCH_CUDA_ALLOC_CONF", "a:b", "a:b"),
            ("RUN_DURATION_MS", "43756", "43.756 s"),
            ("CudaDriverVersion", "12080", "12.8"),
            ("cuda_runtime_version", "11080", "11.8"),
            ("max_split_size", "-1", "no limit"),
            ("max_split_size", "18446744073709551615", "no limit"),
            ("max_split_size", "134217728", "128.00 MiB"),
            ("CpuCores", "152", "152"),
        ];
        for (name, value, text) in cases {
            assert_eq!(fact_text(name, value.to_owned()), text, "{name}");
        }
    }

    #[test]
    fn devices_that_are_alike_and_values_of_one_fact_share_a_line() {
        let device = |id: u32, name: &str| DeviceInfo { id, name: name.to_owned(), ..DeviceInfo::default() };
        let mut trace = Trace::default();
        trace.info.devices =
            [(0, "V100"), (1, "V100"), (2, "V100"), (4, "V100"), (5, "A100")].map(|of| device(of.0, of.1)).into();
        trace.info.facts =
            [("TYPE", "Cuda"), ("TYPE", "Nvtx"), ("RATE", "50")].map(|of| (of.0.into(), of.1.into())).into();
        let trace = Arc::new(trace);
        let harness = Harness::new_ui(|ui| recordings_ui(&[OpenTrace::new(Arc::clone(&trace), 0)], ui));
        for text in ["GPU 0 to 2", "GPU 4", "GPU 5", "Cuda, Nvtx", "RATE"] {
            harness.get_by_label(text);
        }
        assert!(harness.query_by_label("GPU 1").is_none());
    }

    #[test]
    fn devices_with_other_numbers_than_those_that_worked_are_called_otherwise() {
        let device = |id| DeviceInfo { id, ..DeviceInfo::default() };
        for (devices, labels) in [
            (vec![device(7)], ["GPU 7", ""]),
            (vec![device(0)], ["GPU 7", ", GPU 0 as the program sees it"]),
            (vec![device(0), device(2)], ["Visible GPU 0", "Visible GPU 2"]),
        ] {
            let mut builder = TraceBuilder::from_slices(&[("stream 7", SliceKind::Kernel, "gemm", 0, 10)]);
            builder.info.devices = devices;
            let mut trace = builder.finish();
            for process in trace.processes.iter_mut().filter(|process| process.device.is_some()) {
                process.device = Some(7);
            }
            let trace = Arc::new(trace);
            let harness = Harness::new_ui(|ui| recordings_ui(&[OpenTrace::new(Arc::clone(&trace), 0)], ui));
            labels.into_iter().filter(|label| !label.is_empty()).for_each(|label| _ = harness.get_by_label(label));
        }
    }
}
