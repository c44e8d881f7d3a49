//! What happens to the views of memory while its moments are played.

use super::memory::{is_pending, sample};
use super::*;

fn state_of_memory() -> Harness<'static, Option<App>> {
    let mut harness = harness_with(vec![sample("snapshot_leak.pickle")], |builder| builder.with_size([1280.0, 720.0]));
    app_mut(&mut harness).commands.push(Command::Show("memory-state"));
    settle(&mut harness);
    harness
}

/// Where the map is, and its scale in words.
fn place(harness: &Harness<'_, Option<App>>) -> (Pos2, String) {
    let text = harness.get_by_label_contains(" a pixel").accesskit_node().value().unwrap();
    let scale = text.split_once("segments, ").unwrap().1.to_owned();
    (harness.get_by_label("Map of the allocator's memory").rect().left_top(), scale)
}

#[test]
fn the_map_keeps_its_place_and_scale_at_every_moment() {
    let mut harness = state_of_memory();
    assert!(app(&harness).layout.is_on_screen("details"));
    let n = app(&harness).session().traces()[0].trace.memories[0].n_states();
    let places: Vec<_> = (50..n)
        .step_by(97)
        .map(|state| {
            app_mut(&mut harness).session.memory.moment = Some(state);
            settle(&mut harness);
            wait_for(&mut harness, |harness| !is_pending(app(harness)));
            settle(&mut harness);
            place(&harness)
        })
        .collect();
    assert!(places.len() > 10);
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
}

#[test]
fn the_map_keeps_its_place_and_scale_in_every_frame_that_is_played() {
    let mut harness = state_of_memory();
    app_mut(&mut harness).session.memory.moment = Some(50);
    settle(&mut harness);
    wait_for(&mut harness, |harness| !is_pending(app(harness)));
    harness.get_by_label("Play").click();
    let (mut moments, mut places) = (Vec::new(), Vec::new());
    for _ in 0..400 {
        harness.step();
        moments.extend(app(&harness).session().memory.moment);
        if harness.query_by_label_contains(" a pixel").is_some() {
            places.push(place(&harness));
        }
        std::thread::sleep(Duration::from_millis(1));
        if moments.len() > 100 && harness.query_by_label("Play").is_some() {
            break;
        }
    }
    moments.dedup();
    assert!(moments.len() > 20 && moments.is_sorted(), "it plays: {moments:?}");
    places.dedup();
    assert_eq!(places.len(), 1, "{places:?}");
}

#[test]
fn playing_ends_when_another_moment_is_chosen() {
    let mut harness = state_of_memory();
    harness.get_by_label("Start").click();
    settle(&mut harness);
    harness.get_by_label("Play").click();
    settle(&mut harness);
    assert!(app(&harness).session().memory.moment > Some(0));
    app_mut(&mut harness).session.memory.moment = Some(1);
    settle(&mut harness);
    assert_eq!(app(&harness).session().memory.moment, Some(1));
    harness.get_by_label("Play");
}
