//! What the recorder of an nsys export says of it, and the colors that the program chose.

use super::*;
use crate::job::Progress;
use crate::reader;

/// An export of one thread with the ranges `slow` and `plain`, the first with a color, and with messages of the
/// recorder.
fn export(messages: &str) -> Trace {
    let file = tempfile::Builder::new().suffix(".sqlite").tempfile().unwrap();
    let thread = (1_i64 << 56) + (10 << 24) + 10;
    let sql = format!(
        "CREATE TABLE NVTX_EVENTS (start, end, eventType, category, color, text, globalTid, textId, domainId);
         INSERT INTO NVTX_EVENTS VALUES (0, 400000, 59, NULL, 4278255360, 'slow', {thread}, NULL, 0),
            (500000, 900000, 59, NULL, NULL, 'plain', {thread}, NULL, 0);
         CREATE TABLE DIAGNOSTIC_EVENT (timestamp, timestampType, source, severity, text, globalPid);
         {messages}"
    );
    rusqlite::Connection::open(file.path()).unwrap().execute_batch(&sql).unwrap();
    reader::read(file.path(), &Progress::default()).unwrap().remove(0)
}

#[test]
fn an_error_of_the_recorder_is_an_error_and_a_warning_is_none() {
    let mut harness = harness(vec![export(
        "INSERT INTO DIAGNOSTIC_EVENT VALUES (5, 2, 1, 3, 'Event requestor failed: buffer was overrun.', 0),
            (6, 2, 1, 2, 'Not all events might have been collected.', 0), (7, 2, 1, 1, 'Profiling has started.', 0);",
    )]);
    harness.get_by_label_contains("1 error").click();
    settle(&mut harness);
    let is_said_as = |text: &str, level: &str| {
        let y = harness.get_by_label_contains(text).rect().center().y;
        let mut levels = harness.query_all_by_label(level).map(|node| node.rect().center().y);
        levels.any(|of_level| (of_level - y).abs() < 4.0)
    };
    assert!(is_said_as("Nsight Systems error: Event requestor failed: buffer was overrun", "Error"));
    assert!(is_said_as("Nsight Systems warning: Not all events might have been collected", "Note"));
    assert!(harness.query_by_label_contains("Profiling has started").is_none());
}

/// Whether something of exactly this color is drawn: a slice, or a pixel of the texture of many.
fn is_drawn(harness: &Harness<'_, Option<App>>, color: egui::Color32) -> bool {
    fn has(shape: &egui::Shape, color: egui::Color32) -> bool {
        match shape {
            egui::Shape::Mesh(mesh) => mesh.vertices.iter().any(|vertex| vertex.color == color),
            egui::Shape::Vec(shapes) => shapes.iter().any(|shape| has(shape, color)),
            _ => false,
        }
    }
    harness.output().shapes.iter().any(|clipped| has(&clipped.shape, color))
}

#[test]
fn a_range_has_the_color_that_the_program_chose() {
    let mut harness = harness(vec![export("")]);
    let green = egui::Color32::from_rgb(0, 255, 0);
    assert!(is_drawn(&harness, green));
    // The other one has the color of its kind.
    app_mut(&mut harness).session.navigation.go(TimeRange { start: 450_000, end: 950_000 });
    settle(&mut harness);
    assert!(!is_drawn(&harness, green));
}
