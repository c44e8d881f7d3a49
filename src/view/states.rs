//! Placeholders for content: work in progress, failure, nothing to show.

use std::sync::Arc;

use eframe::egui;

use crate::answers::Answer;
use crate::figures::text::display_name;
use crate::model::TraceInfo;
use crate::widget::busy::busy_ui;
use crate::widget::theme;

/// The answer to show: the current one, or the previous one until that is ready. Shows progress and failure.
///
/// * `doing`: the label of the work: `Comparing steps…`.
pub fn answer_ui<T>(answer: &Answer<T>, doing: &str, ui: &mut egui::Ui) -> Option<Arc<T>> {
    match answer {
        Answer::Failed(why) => failed_ui(why, ui),
        Answer::Working(None) => working_ui(doing, ui),
        Answer::Working(Some(_)) | Answer::Ready(_) => {}
    }
    answer.newest().cloned()
}

/// Shows that work is in progress.
pub fn working_ui(doing: &str, ui: &mut egui::Ui) {
    ui.horizontal(|ui| {
        busy_ui(ui);
        ui.weak(doing);
    });
}

/// Shows an error message.
pub fn failed_ui(why: &str, ui: &mut egui::Ui) {
    let error = theme::tokens(ui.visuals().dark_mode).severity[2];
    ui.add(egui::Label::new(egui::RichText::new(display_name(why)).color(error)).wrap());
}

/// How to record the work of a GPU.
pub const RECORD_GPU: &str =
    "Record the GPU's work with activities=[CPU, CUDA] in torch.profiler, or with nsys profile --trace=cuda";

/// How to record the work of a GPU, or why the recorded machine has no such work.
pub fn how_to_record_gpu<'a>(traces: impl IntoIterator<Item = &'a TraceInfo>) -> &'static str {
    let (mut n, mut without_gpu, mut counted) = (0, 0, 0);
    for info in traces {
        n += 1;
        without_gpu += usize::from(info.found_no_gpu);
        counted += usize::from(info.counted_kernels);
    }
    match n {
        0 => RECORD_GPU,
        n if n == without_gpu => {
            "The profiler found no GPU: the machine has none, or PyTorch was built without support for it"
        }
        n if n == counted => {
            "Hardware counters were read for each kernel instead of its times: record again without metrics of CUPTI"
        }
        _ => RECORD_GPU,
    }
}

/// Shows that there is no content.
///
/// * `how`: the remedy or the reason.
pub fn nothing_ui(what: &str, how: &str, ui: &mut egui::Ui) {
    ui.label(what);
    ui.weak(how);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_not_advised_to_be_recorded() {
        let of = |found_no_gpu| TraceInfo { found_no_gpu, ..TraceInfo::default() };
        assert!(how_to_record_gpu(&[of(true), of(true)]).starts_with("The profiler found no GPU"));
        assert_eq!(how_to_record_gpu(&[of(true), of(false)]), RECORD_GPU);
        assert_eq!(how_to_record_gpu(&[]), RECORD_GPU);
        let counted = TraceInfo { counted_kernels: true, ..TraceInfo::default() };
        assert!(how_to_record_gpu([&counted, &counted]).ends_with("without metrics of CUPTI"));
        assert_eq!(how_to_record_gpu([&counted, &of(true)]), RECORD_GPU);
    }
}
