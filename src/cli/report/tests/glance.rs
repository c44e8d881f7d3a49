//! The report at a glance, and what options add to the report.

use super::*;

/// What text shows where memory is listed at so many moments.
pub fn glance(n_moments: usize) -> short::Glance {
    short::Glance { top: short::TOP, n_moments, by_launch: false }
}

#[test]
fn text_at_a_glance_counts_what_it_leaves_out() {
    for trace in [leaking(), trace(0)] {
        let report =
            build::report(&[trace.into()], 2, KernelsBy::Name, true, Thresholds::default(), (&[], &[])).unwrap();
        let text = written(&report, Format::Text, Some(terminal::WIDTH), Some(glance(0))).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= terminal::WIDTH), "{text}");
        assert!(!text.contains("continued"), "each table has room: {text}");
        let flat = text.replace('\n', " ");
        for table in report.tables_for_people().iter().filter(|table| !table.is_empty()) {
            let of_all = format!("{}, in the whole recording", table.title);
            let is_shown = text.lines().any(|line| line == table.title || line == of_all);
            let rows = table.rows.len() + table.n_hidden;
            assert_ne!(is_shown, flat.contains(&format!("{} ({rows})", table.title)), "{}: {text}", table.title);
            let hidden = format!("and {} more; --top 0 lists all", table.n_hidden);
            assert!(!is_shown || table.n_hidden == 0 || text.contains(&hidden), "{}: {text}", table.title);
        }
    }
}

#[test]
fn moments_that_are_asked_for_stand_in_the_report_at_a_glance() {
    let text = |moments: &[&str]| {
        let args = Args { memory_at: moments.iter().map(|text| text.parse().unwrap()).collect(), ..Args::default() };
        answer(&args, Thresholds::default(), &[leaking().into()], &[]).unwrap().0
    };
    let plain = text(&[]);
    let titles = |text: &str| {
        let is_title = |line: &&str| !line.is_empty() && !line.starts_with(' ');
        let (tables, _) = text.split_once("Tables not shown here").expect("the report at a glance");
        tables.lines().filter(is_title).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(!titles(&plain).contains(&"Change of memory by place".to_owned()), "{plain}");
    let one = text(&["1.2 us"]);
    assert!(one.contains("At the moment") && one.contains("1.200 µs") && one.contains("At the end"), "{one}");
    assert_eq!(titles(&one), titles(&plain), "{one}");
    let two = text(&["event 40", "0 min 1.2us"]);
    assert!(titles(&two).contains(&"Change of memory by place".to_owned()) && two.contains("event 40"), "{two}");
    assert_eq!(titles(&two).len(), titles(&plain).len() + 1, "{two}");
}

#[test]
fn kernels_told_apart_by_their_launches_stand_in_the_report_at_a_glance() {
    let by = |kernels_by| {
        let args = Args { kernels_by, ..Args::default() };
        answer(&args, Thresholds::default(), &[trace(0).into()], &[]).unwrap().0
    };
    let (by_name, by_shape) = (by(KernelRows::Name), by(KernelRows::Shape));
    assert!(by_shape.contains("64x2x1") && !by_name.contains("64x2x1"), "{by_shape}");
    assert!(by_shape.contains("--all writes every table"), "{by_shape}");
}

#[test]
fn kernels_are_grouped_as_asked() {
    let rows = |by| {
        let report = build::report(&[trace(0).into()], 0, by, false, Thresholds::default(), (&[], &[])).unwrap();
        let cell = |row, key| report.kernels.cell(row, key).clone();
        (0..report.kernels.rows.len()).map(|row| (cell(row, "name"), cell(row, "grid"))).collect::<Vec<_>>()
    };
    assert_eq!(rows(KernelsBy::Name), rows(KernelsBy::Shape));
    assert_eq!(rows(KernelsBy::Short)[1].0, Cell::name(EVIL), "it is no signature");
    let text = written(
        &build::report(&[trace(0).into()], 0, KernelsBy::Shape, false, Thresholds::default(), (&[], &[])).unwrap(),
        Format::Text,
        None,
        None,
    )
    .unwrap();
    assert!(text.contains("64x2x1") && text.contains("128x1x1") && text.contains("50.00"), "{text}");
    assert!(!text.contains("Rank"), "a column without values is not shown: {text}");
}
