//! Recordings of runs behind the one in front.

use super::*;

#[test]
fn a_recording_behind_another_run_is_folded_below_it_and_unfolds() {
    let mut traces = [open(), open()].concat();
    traces[1].run = 1;
    traces[0].is_behind = true;
    traces[1].id = "other".into();
    let settings = TimelineSettings::default();
    let list = TrackList::build(&traces, &[], &settings, "");
    let headings: Vec<_> = list.scrolled.iter().filter(|line| line.kind == LineKind::Trace).collect();
    assert_eq!(
        headings.iter().map(|line| (line.trace, line.is_collapsed)).collect::<Vec<_>>(),
        [(1, false), (0, true)]
    );
    assert!(list.scrolled.iter().all(|line| line.trace == 1 || line.kind == LineKind::Trace));
    let shown: Vec<_> = list.scrolled.iter().filter(|line| line.trace == 1).collect();
    assert!(shown.iter().any(|line| line.title == "main"), "it is alone in front: its threads are on show");
    assert!(!headings[1].has_strip() && headings[1].is_collapsed, "what is behind is not drawn in its time");
    assert!(list.folded_first.contains(&*traces[0].id), "its arrow unfolds it");
    let unfolded = TimelineSettings { expanded: [traces[0].id.to_string()].into(), ..settings.clone() };
    let shown = TrackList::build(&traces, &[], &unfolded, "");
    assert!(shown.scrolled.iter().any(|line| line.trace == 0 && line.kind != LineKind::Trace));
    let found = TrackList::build(&traces, &[], &settings, "stream 7");
    assert!(found.scrolled.iter().any(|line| line.trace == 0 && line.title == "stream 7"), "what is folded is found");
}
