//! What is on screen while a file is read, and when it has been: counted in frames, for time depends on the machine.

use super::*;

/// The text that is drawn in the last frame contains this.
fn is_drawn(harness: &Harness<'_, Option<App>>, text: &str) -> bool {
    fn has(shape: &egui::Shape, text: &str) -> bool {
        match shape {
            egui::Shape::Text(shape) => shape.galley.text().contains(text),
            egui::Shape::Vec(shapes) => shapes.iter().any(|shape| has(shape, text)),
            _ => false,
        }
    }
    harness.output().shapes.iter().any(|clipped| has(&clipped.shape, text))
}

#[test]
fn name_size_and_phase_are_on_screen_while_a_file_is_read_and_its_picture_in_the_first_frame_after() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.json");
    let thread = r#"{"ph":"X","name":"the whole thread","ts":0,"dur":999,"pid":1,"tid":1},"#;
    let event = r#"{"ph":"X","name":"aten::mm","ts":1,"dur":2,"pid":1,"tid":2},"#;
    std::fs::write(&path, format!("[{thread}{}", event.repeat(1 << 18))).unwrap();
    let size = crate::figures::format::bytes(std::fs::metadata(&path).unwrap().len() as f64);
    let mut harness = harness(Vec::new());
    // Nothing but the frames that the window asks for.
    let asks = |harness: &Harness<'_, Option<App>>| {
        harness.output().viewport_output[&egui::ViewportId::ROOT].repaint_delay == Duration::ZERO
    };
    app_mut(&mut harness).commands.push(Command::OpenPath(path));
    harness.step();
    if app(&harness).loads.running().is_empty() {
        assert!(asks(&harness), "reading begins in the next frame, whatever happens");
        harness.step();
    }
    assert_eq!(app(&harness).loads.running().len(), 1, "two frames after it was asked for");
    harness.get_by_label_contains("Reading: long.json");
    let progress = app(&harness).loads.running()[0].job.progress.progress();
    while app(&harness).loads.running()[0].progress().1 == 0 {
        std::thread::yield_now();
    }
    harness.step();
    harness.get_by_label(&format!("Reading: long.json, {size}"));
    assert!(app(&harness).session().traces().is_empty(), "it is still being read");
    // This test and the job hold it once the thread has ended.
    while Arc::strong_count(&progress) > 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    harness.step();
    assert_eq!(app(&harness).session().traces().len(), 1);
    harness.get_by_label("Timeline canvas");
    assert!(is_drawn(&harness, "the whole thread"), "its slices are drawn in the first frame");
    assert!(harness.query_by_label_contains("Reading").is_none());
}
