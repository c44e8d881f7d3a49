//! Rows that come and go.

use super::*;

#[test]
fn rows_stay_while_tables_come_faster_than_they_are_sorted() {
    let (answers, mut grid) = (Answers::default(), Grid::<Answer>::default());
    let mut seen = Vec::new();
    for count in 0..2000 {
        let data = Data { rows: vec![vec![Cell::Count(count)]; FEW + 1], ..Data::default() };
        // Dropped after each frame, as the store does with what newer ones follow.
        grid.update(&Arc::new(Answer { data, ..Answer::default() }), &answers);
        match grid.ordered() {
            Some((table, _)) => seen.push(table.data.rows[0][0].clone()),
            None => assert!(seen.is_empty(), "nothing is on screen in frame {count}"),
        }
        std::thread::sleep(std::time::Duration::from_micros(if seen.len() > 20 { 10 } else { 500 }));
    }
    seen.dedup();
    assert!(seen.len() > 1, "{seen:?}");
}

#[test]
fn few_rows_are_on_screen_in_the_frame_that_brings_them() {
    let (answers, mut grid) = (Answers::default(), Grid::<Answer>::default());
    for count in 0..3 {
        let data = Data { rows: vec![vec![Cell::Count(count)]; FEW], ..Data::default() };
        let table = Arc::new(Answer { data, ..Answer::default() });
        assert!(!grid.update(&table, &answers), "nothing is still to come");
        assert!(grid.shown().is_some_and(|(shown, _)| Arc::ptr_eq(&shown, &table)));
    }
}

#[test]
fn a_row_is_found_again_by_its_names_and_not_by_its_figures() {
    let table = |rows: Vec<Vec<Cell>>| Answer { data: Data { rows, ..Data::default() }, ..Answer::default() };
    let row = |name: Cell, side, count| vec![name, Cell::Count(count), Cell::Sides([side, 1, 1])];
    let frame = |name: &str| Cell::Frames(name.into());
    let before = table(vec![row(Cell::name("gemm"), 64, 9), row(frame("step"), 1, 5), vec![Cell::Count(1)]]);
    let after = table(vec![
        vec![Cell::Count(1)],
        row(Cell::name("gemm"), 32, 9),
        row(frame("step"), 1, 7),
        row(Cell::name("gemm"), 64, 1),
    ]);
    let found = [0, 1, 2, 3].map(|row| same_row(&before, row, &after));
    assert_eq!(found, [Some(3), Some(2), None, None], "a row without names stands for nothing");
}
