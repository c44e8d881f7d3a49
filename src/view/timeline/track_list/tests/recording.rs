//! What a recorder writes of the recording as a whole.

use super::*;

#[test]
fn what_tells_of_the_recording_as_a_whole_is_one_line_below_the_program() {
    let operator = SliceKind::Operator;
    let mut builder = TraceBuilder::from_slices(&[
        ("PyTorch Profiler", SliceKind::Other, "PyTorch Profiler (0)", 0, 100),
        ("main", operator, "aten::mm", 0, 100),
    ]);
    builder.processes.push(crate::model::Process { pid: "7".to_owned(), ..Default::default() });
    builder.processes[0].pid = "Spans".to_owned();
    let main = builder.tracks.iter_mut().find(|track| track.name == "main").unwrap();
    main.process = crate::model::ProcessId(1);
    let traces = [OpenTrace::new(builder.finish(), 0)];
    let mut settings = TimelineSettings::default();
    let list = list_of(&traces, &settings, "");
    assert_eq!(titles(&list.scrolled)[1..], ["main", "Of the recording as a whole"]);
    apply(&mut settings, &list, &list.scrolled[2], LabelAction::ToggleCollapsed);
    let open = list_of(&traces, &settings, "");
    assert_eq!(titles(&open.scrolled)[2..].last(), Some(&"PyTorch Profiler"));
    assert!(titles(&list_of(&traces, &settings, "profiler").scrolled).contains(&"PyTorch Profiler"));
}
