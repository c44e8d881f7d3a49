//! A history of memory beside a trace that is shorter.

use super::*;
use crate::model::{Format, SliceKind};

/// A trace of 100 ns that starts at `start`, beside a history of memory from 0 to 1,000 ns, both on one clock.
fn beside(start: i64, mut memory: TraceBuilder) -> Harness<'static, Fixture<MemoryOverTime>> {
    let mut ran = TraceBuilder::from_slices(&[("main", SliceKind::Operator, "op", start, start + 100)]);
    memory.info.format = Format::Snapshot;
    for builder in [&mut ran, &mut memory] {
        builder.info.utc_offset_ns = Some(1_000_000);
    }
    let fixture = Fixture::new(vec![ran.finish(), memory.finish()], MemoryOverTime::default());
    let builder = Harness::builder().with_size(vec2(1300.0, 700.0)).with_step_dt(1.0 / 60.0).with_max_steps(400);
    let mut harness = builder.build_ui_state(|ui, fixture| fixture.ui(ui), fixture);
    settle(&mut harness);
    harness
}

/// Whether a range shows all of the history.
fn shows_history(harness: &Harness<'_, Fixture<MemoryOverTime>>, range: TimeRange) -> bool {
    let open = &harness.state().session.traces()[1];
    let history = open.trace.memories[0].span.shifted(open.offset);
    range.start <= history.start && history.end <= range.end
}

#[test]
fn a_failure_outside_of_what_ran_is_in_sight_at_first() {
    // The failure is at 700 ns.
    let harness = beside(350, stairs());
    assert!(shows_history(&harness, harness.state().view.navigation.time.visible()));
    let content = harness.state().session.content();
    assert_eq!(harness.state().session.navigation.visible(), content, "the timeline shows what ran");
    assert_eq!(beside(650, stairs()).state().view.navigation.time.visible().dur(), 0, "what ran has the failure");
}

#[test]
fn fit_shows_the_whole_history_beside_a_short_trace() {
    // Without a failure the axis is shared, and starts at what ran, if anything happens then.
    let calm = || {
        let mut builder = stairs();
        builder.memories[0].ooms.clear();
        builder
    };
    let mut harness = beside(350, calm());
    let opened = harness.state().session.navigation.visible();
    assert_eq!(opened, harness.state().session.content());
    harness.get_by_label("Zoom to fit").click();
    settle(&mut harness);
    assert!(shows_history(&harness, harness.state().session.navigation.visible()));
    harness.state_mut().run(&Command::UndoZoom);
    assert_eq!(harness.state().session.navigation.visible(), opened);
    harness.state_mut().run(&Command::ZoomToFit);
    assert!(shows_history(&harness, harness.state().session.navigation.visible()));
    let nothing_happens = beside(100, calm());
    assert!(shows_history(&nothing_happens, nothing_happens.state().view.navigation.time.visible()));
}
