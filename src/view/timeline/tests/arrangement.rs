//! What the user arranges stays, for its recording alone.

use super::*;

#[test]
fn rows_are_as_high_after_a_restart_with_hidden_tracks_as_before() {
    let row_height = |harness: &Harness<'_, Fixture<Timeline>>| {
        let lines = &harness.state().view.tracks.scrolled;
        lines.iter().find(|line| line.title == "stream 7").unwrap().row_height
    };
    // So many rows that few tracks less leave room to be higher.
    let deep: Vec<_> =
        (0..15).map(|i| ("main", OP, "op", i, 100 - i)).chain([("stream 7", KERNEL, "k", 0, 100)]).collect();
    let deep = || TraceBuilder::from_slices(&deep).finish();
    let mut harness = harness(vec![deep()]);
    let before = row_height(&harness);
    let key = harness.state().view.tracks.scrolled.iter().find(|line| line.title == "main").unwrap().key.clone();
    harness.state_mut().view.settings.hidden.insert(key);
    harness.state_mut().view.is_stale = true;
    harness.run();
    assert_eq!(row_height(&harness), before);
    let saved = harness.state().view.save();
    let mut again = super::harness(vec![deep()]);
    again.state_mut().view = Timeline::default();
    again.state_mut().view.load(&saved);
    again.run();
    assert_eq!(harness.state().view.off_screen().n_hidden, 1);
    assert_eq!(again.state().view.off_screen().n_hidden, 1);
    assert_eq!(row_height(&again), before);
}

#[test]
fn the_arrangement_is_of_its_recording_alone() {
    let named = |end| TraceBuilder::from_slices(&[("main", OP, "a", 0, end), ("main", OP, "b", 1, 2)]).finish();
    let mut harness = harness(vec![named(100)]);
    harness.get_by_label("Collapse main").click();
    harness.run();
    harness.state_mut().replace(named(101));
    harness.run();
    harness.get_by_label("Collapse main");
    harness.state_mut().replace(named(100));
    harness.run();
    harness.get_by_label("Expand main");
}

#[test]
fn names_that_are_too_long_keep_their_ends() {
    let names = [1, 2].map(|i| format!("a worker of the pool that loads batches, number {i}"));
    let slices = names.iter().map(|name| (name.as_str(), OP, "aten::mm", 0, 500_000)).collect::<Vec<_>>();
    let harness = harness(vec![TraceBuilder::from_slices(&slices).finish()]);
    for i in [1, 2] {
        let cut: Vec<_> = harness.get_all_by_label_contains("a worker of").collect();
        let shown = cut.iter().filter_map(|node| node.value()).filter(|text| text.contains('…'));
        assert!(shown.into_iter().any(|text| text.ends_with(&format!("number {i}"))), "{i}");
    }
}

#[test]
fn the_column_of_labels_is_wider_where_there_is_room_and_as_the_user_chose() {
    let mut harness = harness(vec![small()]);
    let width =
        |harness: &Harness<'_, Fixture<Timeline>>| harness.get_by_label("Timeline canvas").rect().left().round();
    let narrow = width(&harness);
    harness.set_size(vec2(1600.0, 600.0));
    harness.run();
    assert!(width(&harness) > narrow + 40.0, "{} {narrow}", width(&harness));
    let edge = harness.get_by_label("Width of track labels").rect().center();
    let before = width(&harness);
    harness.drag_at(edge);
    harness.run();
    harness.hover_at(edge - vec2(100.0, 0.0));
    harness.run();
    harness.drop_at(edge - vec2(100.0, 0.0));
    harness.run();
    let chosen = width(&harness);
    assert!((before - 100.0 - chosen).abs() < 8.0, "{before} {chosen}");
    harness.set_size(vec2(1900.0, 600.0));
    harness.run();
    assert_eq!(width(&harness), chosen);
}
