//! Runs beside each other on the clock of the session.

use super::*;
use crate::session::RunPlaces;

/// Six steps of a run, the first some time after it starts, and of another rank of it that starts later.
fn run(origin: TimeNs, before: TimeNs, ranks: &[TimeNs]) -> Vec<Trace> {
    let rank = |(rank, &late): (usize, &TimeNs)| {
        let mut slices = vec![("main", SliceKind::Operator, "aten::setup", origin + late, origin + late + 10)];
        let names: Vec<String> = (0..6).map(|step| format!("ProfilerStep#{step}")).collect();
        let starts = (0..).map(|step| origin + late + before + step * 1_000);
        let steps = names.iter().zip(starts);
        slices.extend(steps.map(|(name, start)| ("main", SliceKind::Annotation, &**name, start, start + 1_000)));
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.info.utc_offset_ns = Some(0);
        builder.info.rank = Some(rank as u32);
        builder.info.path = format!("{origin}/rank{rank}.json").into();
        builder.finish()
    };
    ranks.iter().enumerate().map(rank).collect()
}

/// Where the aligned step of each trace begins, in session time.
fn aligned(harness: &Harness<'_, Option<App>>) -> Vec<TimeNs> {
    let traces = app(harness).session().traces();
    traces.iter().map(|open| open.aligned_step.unwrap() + open.offset).collect()
}

#[test]
fn runs_are_aligned_at_their_first_steps() {
    const LATER: TimeNs = 1_000_000_000;
    let mut harness = harness([run(0, 5_000, &[0, 70]), run(LATER, 200, &[0])].into_iter().flatten().collect());
    let places = |harness: &Harness<'_, Option<App>>| app(harness).session().open.places();
    assert_eq!(places(&harness), RunPlaces::Starts);
    harness.get_by_label("2 runs, their starts aligned at 0").click();
    settle(&mut harness);
    harness.get_by_label("Align runs at their steps").click();
    wait_for(&mut harness, |harness| places(harness) == RunPlaces::FirstSteps);
    settle(&mut harness);
    // Ranks of a run keep their distance.
    assert_eq!(aligned(&harness), [0, 70, 0]);
    let visible = app(&harness).session().navigation.visible();
    // The first of six does not count.
    assert_eq!(visible, TimeRange { start: -6_000, end: 5_070 });
    harness.get_by_label("2 runs, the first judged step aligned at 0");
    // One that is opened later is aligned with them.
    app_mut(&mut harness).session.add(run(3 * LATER, 40, &[0]));
    wait_for(&mut harness, |harness| app(harness).session().traces().iter().all(|open| open.aligned_step.is_some()));
    settle(&mut harness);
    assert_eq!(aligned(&harness), [0, 70, 0, 0]);
    // The selected step, and in the others the one as many after the first that counts.
    app_mut(&mut harness).session.navigation.go(TimeRange { start: 2_000, end: 2_500 });
    app_mut(&mut harness).commands.extend([Command::NextStep, Command::RunsFromSteps]);
    wait_for(&mut harness, |harness| places(harness) == RunPlaces::ChosenSteps);
    settle(&mut harness);
    let session = app(&harness).session();
    assert_eq!((aligned(&harness), session.range.unwrap().start), (vec![0, 70, 0, 0], 0));
    let name = &session.chosen_step.as_ref().unwrap().name;
    assert!(name.starts_with("ProfilerStep#3 of "), "{name}");
    let after_start = |open: &OpenTrace| open.aligned_step.unwrap() - open.trace.span.start;
    assert_eq!(session.traces().iter().map(after_start).collect::<Vec<_>>(), [8_000, 8_000, 3_200, 3_040]);
    // One before the first that counts, too.
    for _ in 0..3 {
        app_mut(&mut harness).commands.push(Command::PreviousStep);
        settle(&mut harness);
    }
    app_mut(&mut harness).commands.push(Command::RunsFromSteps);
    wait_for(&mut harness, |harness| {
        let open = &app(harness).session().traces()[2];
        open.aligned_step == Some(open.trace.span.start + 200)
    });
    assert_eq!(aligned(&harness), [0, 70, 0, 0]);
    app_mut(&mut harness).commands.push(Command::RunsFromStarts);
    settle(&mut harness);
    let starts: Vec<TimeNs> =
        app(&harness).session().traces().iter().map(|open| open.trace.span.start + open.offset).collect();
    assert_eq!((places(&harness), starts), (RunPlaces::Starts, vec![0, 70, 0, 0]));
}

#[test]
fn runs_without_steps_are_not_aligned() {
    let without = |origin| {
        let slices = [("main", SliceKind::Operator, "aten::setup", origin, origin + 10)];
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.info.utc_offset_ns = Some(0);
        builder.finish()
    };
    let mut harness = harness([run(0, 100, &[0]), vec![without(1_000_000_000)]].into_iter().flatten().collect());
    app_mut(&mut harness).commands.push(Command::RunsFromSteps);
    wait_for(&mut harness, |harness| harness.query_by_label("There are no two runs with such a step").is_some());
    assert_eq!(app(&harness).session().open.places(), RunPlaces::Starts);
}

#[test]
fn a_selected_step_says_whose_it_is() {
    let mut harness = harness(run(0, 5_000, &[0, 70]));
    harness.get_by_label("2 files");
    harness.get_by_label("Nothing is selected");
    app_mut(&mut harness).commands.push(Command::NextStep);
    wait_for(&mut harness, |harness| app(harness).session().chosen_step.is_some());
    settle(&mut harness);
    harness.get_by_label("Selected step: ProfilerStep#0 of rank 0, 1.000 µs");
    harness.get_by_label("No event is selected");
    assert!(harness.query_by_label("Nothing is selected").is_none());
    let range = app(&harness).session().range.unwrap();
    app_mut(&mut harness).session.range = Some(TimeRange { end: range.end + 1, ..range });
    settle(&mut harness);
    harness.get_by_label("Selected time: 1.001 µs");
}
