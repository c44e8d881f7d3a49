//! Two moments of memory beside each other, of one recording or of two.

use super::memory::{is_pending, sample};
use super::*;
use crate::figures::format;

#[test]
fn the_base_can_be_cleared_and_memories_are_named() {
    let mut harness = harness(vec![sample("snapshot_oom.pickle"), sample("snapshot_leak.pickle")]);
    app_mut(&mut harness).commands.extend([Command::Show("memory-state"), Command::Show("live-memory")]);
    settle(&mut harness);
    harness.get_by_label_contains("of GPU 0 memory (memory history), snapshot_leak");
    harness.get_by_label("Set as base").click();
    settle(&mut harness);
    assert!(app(&harness).session().memory.base.is_some());
    harness.get_by_label("Clear base").click();
    settle(&mut harness);
    assert_eq!(app(&harness).session().memory.base, None);
}

#[test]
fn a_moment_of_one_snapshot_is_compared_with_one_of_another() {
    let mut harness = harness(["snapshot_oom.pickle", "snapshot_leak.pickle"].map(sample).into());
    app_mut(&mut harness).session.memory.show(0, 0);
    app_mut(&mut harness).commands.extend([Command::Show("memory-state"), Command::GoToPeak, Command::SetBase]);
    settle(&mut harness);
    app_mut(&mut harness).session.memory.show(1, 0);
    app_mut(&mut harness).commands.push(Command::Show("memory-places"));
    settle(&mut harness);
    harness.get_by_label("Change").click();
    // Beside the peak of one is the peak of the other.
    let peak_of = |trace: usize| app(&harness).session().traces()[trace].trace.memories[0].curves.fullest();
    let [peak, other] = [0, 1].map(peak_of);
    let event = |state: u32| format!("event {}", format::count(u64::from(state - 1)));
    let from = format!("from GPU 0 memory of snapshot_oom.pickle, {}", event(peak));
    let to = format!("to {} ", event(other));
    wait_for(&mut harness, |harness| {
        harness
            .query_by_label_contains(&from)
            .is_some_and(|node| node.accesskit_node().value().unwrap_or_default().contains(&to))
    });
    // What only the other snapshot has, is highlighted nowhere.
    app_mut(&mut harness).commands.push(Command::Show("live-memory"));
    settle(&mut harness);
    harness.get_by_label("Shrunk").click();
    wait_for(&mut harness, |harness| harness.query_by_label_contains(&from).is_some());
    wait_for(&mut harness, |harness| harness.query_by_label_contains("Flame graph: All that shrank").is_some());
    // Without the other one, a moment is compared with the start again.
    app_mut(&mut harness).commands.push(Command::CloseTraceAt(0));
    settle(&mut harness);
    wait_for(&mut harness, |harness| harness.query_by_label_contains("from before the first event").is_some());
    assert_eq!(app(&harness).session().memory.base, None);
}

#[test]
fn the_peaks_of_two_snapshots_are_compared_at_once() {
    let mut harness = harness(["snapshot_oom.pickle", "snapshot_leak.pickle"].map(sample).into());
    let peak = |trace: usize| app(&harness).session().traces()[trace].trace.memories[0].curves.fullest();
    let moments = [(1, 0, peak(1)), (0, 0, peak(0))];
    app_mut(&mut harness).commands.push(Command::CompareMoments(moments));
    let curves = |trace: usize| &app(&harness).session().traces()[trace].trace.memories[0].curves;
    let [from, to] = [1, 0].map(|trace| format!("event {}", format::count(u64::from(curves(trace).fullest() - 1))));
    let [before, after] = [1, 0].map(|trace| curves(trace).allocated[curves(trace).fullest() as usize] as i64);
    let sign = if after < before { "-" } else { "+" };
    let less = format!("together {sign}{}", format::bytes((after - before).unsigned_abs() as f64));
    wait_for(&mut harness, |harness| harness.query_by_label_contains(&less).is_some());
    let told = harness.get_by_label_contains("from GPU 0 memory of snapshot_leak.pickle").accesskit_node().value();
    let told = told.unwrap_or_default();
    assert!(told.contains(&from) && told.contains(&to), "{told}");
}

#[test]
fn words_sums_and_picture_are_of_one_moment_while_it_moves() {
    let mut harness = harness(vec![sample("snapshot_leak.pickle")]);
    app_mut(&mut harness).commands.push(Command::Show("memory-state"));
    settle(&mut harness);
    wait_for(&mut harness, |harness| harness.query_by_label("Map of the allocator's memory").is_some());
    let n = app(&harness).session().traces()[0].trace.memories[0].n_states();
    let mut n_seen = 0;
    for state in (1..n).step_by(37) {
        app_mut(&mut harness).session.memory.moment = Some(state);
        for _ in 0..3 {
            harness.step();
            let head = harness.get_by_label_contains(" active").accesskit_node().value().unwrap_or_default();
            let event = head.strip_prefix("event ").and_then(|text| text.split(' ').next()).unwrap_or_default();
            let shown: usize = event.replace(',', "").parse::<usize>().unwrap() + 1;
            let history = &app(&harness).session().traces()[0].trace.memories[0];
            let sums = format!("{} allocated", format::bytes(history.curves.allocated[shown] as f64));
            assert!(harness.query_by_label(&sums).is_some(), "{head}: not {sums}");
            n_seen += usize::from(shown == state as usize);
        }
        wait_for(&mut harness, |harness| !is_pending(app(harness)));
    }
    assert!(n_seen > 0);
}

#[test]
fn all_that_is_on_screen_is_of_one_moment_before_the_next_is_played() {
    let mut harness = harness(vec![sample("snapshot_leak.pickle")]);
    app_mut(&mut harness).commands.extend([Command::Show("memory-state"), Command::Show("memory-places")]);
    settle(&mut harness);
    harness.get_by_label("At the moment").click();
    app_mut(&mut harness).session.memory.moment = Some(1);
    wait_for(&mut harness, |harness| !is_pending(app(harness)));
    wait_for(&mut harness, |harness| harness.query_by_label("Map of the allocator's memory").is_some());
    let said = |harness: &Harness<'static, Option<App>>| -> Vec<u32> {
        let labels = harness.query_all_by_label_contains("event ");
        let event = |text: String| text.strip_prefix("event ")?.split([' ', ':']).next()?.replace(',', "").parse().ok();
        labels.filter_map(|node| event(node.accesskit_node().value()?)).collect()
    };
    app_mut(&mut harness).commands.push(Command::PlayMoments);
    let mut n_seen = 0;
    for _ in 0..400 {
        let before = app(&harness).session().memory.moment.unwrap();
        let shown = said(&harness);
        harness.step();
        if app(&harness).session().memory.moment != Some(before) && before > 1 {
            assert_eq!(shown, [before - 1; 2]);
            n_seen += 1;
        }
        if n_seen == 8 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("played {n_seen} moments");
}
