//! The rows of steps below the ruler.

use super::*;

#[test]
fn each_run_has_a_row_of_its_own_steps_and_ranks_of_one_job_share_one() {
    let of = |name: &str, ends: &[i64], utc_offset_ns| {
        let names: Vec<String> = (0..ends.len()).map(|i| format!("ProfilerStep#{i}")).collect();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let steps = names.iter().zip(starts.zip(ends));
        let steps: Vec<_> = steps.map(|(name, (start, &end))| ("main", OP, name.as_str(), start, end)).collect();
        let mut builder = TraceBuilder::from_slices(&steps);
        builder.info.path = name.into();
        builder.info.utc_offset_ns = utc_offset_ns;
        builder.finish()
    };
    let rows_of = |utc_offset_ns| {
        let first = of("first.json", &[100_000, 200_000, 300_000, 400_000], utc_offset_ns);
        let mut harness = harness(vec![first, of("second.json", &[150_000, 300_000, 450_000], utc_offset_ns)]);
        for _ in 0..1_000 {
            harness.step();
            std::thread::yield_now();
        }
        let rows = harness.query_all_by_label_contains(" on the timeline").map(|row| row.rect()).collect::<Vec<_>>();
        (harness, rows)
    };
    assert_eq!(rows_of(Some(1_700_000_000_000_000_000)).1.len(), 1, "of one clock");
    let (mut harness, rows) = rows_of(None);
    assert!(rows.len() == 2 && rows[0].bottom() <= rows[1].top() && rows[0].x_range() == rows[1].x_range(), "{rows:?}");
    harness.get_by_label_contains("Steps of second");
    harness.get_by_label("3 steps");
    let view = harness.state().session.navigation.visible();
    let x = rows[1].left() + (200_000 - view.start) as f32 / view.dur() as f32 * rows[1].width();
    click(&mut harness, Pos2::new(x, rows[1].center().y));
    let session = &harness.state().session;
    assert_eq!(session.range, Some(TimeRange { start: 150_000, end: 300_000 }), "a step of the second run");
    assert_eq!(session.steps.trace, Some(1), "which the other views show now");
}
