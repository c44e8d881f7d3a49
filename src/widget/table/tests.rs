//! Tables with many rows, and the widths of their columns.

use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use super::*;
use crate::figures::{Data, Stack};

#[test]
fn a_narrower_table_keeps_its_right_columns_in_sight() {
    let column = |width, is_text| Column { title: "", key: "", help: "", width, is_text };
    let columns = [column(300, true), column(80, false), column(100, true)];
    let mut widths = Widths { needed: vec![0.0, 90.0, 0.0], ..Widths::default() };
    assert!(!widths.fit(&columns, 1_000.0, 10.0), "what an earlier run has kept comes first");
    assert_eq!(widths.shown, [780.0, 80.0, 100.0]);
    assert!(widths.fit(&columns, 700.0, 10.0));
    assert_eq!(widths.shown, [480.0, 80.0, 100.0]);
    // The user makes one wider: it stays so, until there is other room.
    widths.shown[2] = 200.0;
    assert!(!widths.fit(&columns, 700.0, 10.0));
    assert!(widths.fit(&columns, 600.0, 10.0));
    assert_eq!(widths.shown, [280.0, 80.0, 200.0]);
    assert!(widths.fit(&columns, 300.0, 10.0));
    // A column ends where the room does: names give way to a number, or take what is left.
    assert_eq!(widths.shown, [LEAST_NAME - 30.0, 80.0, 200.0]);
    assert!(widths.fit(&columns, 250.0, 10.0));
    assert_eq!(widths.shown, [LEAST_NAME + 20.0, 80.0, 200.0]);
    // Words end there themselves.
    assert!(widths.fit(&columns, 460.0, 10.0));
    assert_eq!(widths.shown, [LEAST_NAME, 80.0, 120.0]);
}

#[test]
fn words_give_way_where_that_brings_all_columns_into_sight() {
    let column = |width, is_text| Column { key: "x", title: "X", width, is_text, help: "Of all" };
    let columns = [column(90, false), column(210, true), column(150, true), column(190, true)];
    let mut widths = Widths { needed: vec![90.0, 0.0, 0.0, 0.0], ..Widths::default() };
    let mut fit = |room: f32| {
        widths.fit(&columns, room, 8.0);
        widths.fit(&columns, room, 8.0);
        widths.shown.clone()
    };
    let sum = |shown: &[f32]| shown.iter().map(|width| width + 8.0).sum::<f32>();
    let narrow = fit(500.0);
    assert!((sum(&narrow) - 500.0).abs() < 0.5, "{narrow:?}");
    assert!(narrow[1] >= LEAST_IN_SIGHT[0] && narrow[2..].iter().all(|&width| width >= LEAST_IN_SIGHT[1]));
    // They have it back where there is room again, and where it would not bring the last into sight.
    assert_eq!(fit(672.0), [90.0, 210.0, 150.0, 190.0]);
    assert!(fit(380.0)[2] == 150.0);
}

#[test]
fn only_rows_on_screen_are_painted() {
    const ROWS: u32 = 100_000;
    let column = |key, is_text| Column { title: key, key, help: "", width: 90, is_text };
    let mut columns = vec![column("name", true)];
    columns.extend((0..12).map(|_| column("total_ns", false)));
    let row = |i: u32| {
        let mut cells = vec![Cell::text(&format!("kernel {i}"))];
        cells.extend((0..12).map(|n| Cell::Ns(i64::from(i) * 1_000 + n)));
        cells
    };
    let data = Data { columns, rows: (0..ROWS).map(row).collect() };
    let order = Order::new(data.order(Some(Sort { column: 1, is_descending: true }), ""), ROWS as usize);
    let frame = move |ui: &mut egui::Ui, selected: &mut Option<usize>| {
        let (selected, is_moved) = (*selected, selected.is_some());
        let spec = TableSpec {
            name: "Kernels",
            order: &order,
            sort: None,
            selected,
            is_moved,
            is_new: false,
            open: None,
            extra: None,
            branch: None,
        };
        table_ui(&data, spec, ui);
    };
    let mut harness = Harness::builder().with_size([1280.0, 400.0]).build_ui_state(frame, None);
    harness.run();
    let is_painted = |harness: &Harness<'_, _>, time: &str| harness.query_all_by_label(time).next().is_some();
    assert!(is_painted(&harness, "99.999 ms"));
    assert!(!is_painted(&harness, "99.000 ms"));
    *harness.state_mut() = Some(50_000);
    harness.run_steps(20);
    assert!(is_painted(&harness, "50.000 ms"));
    let n_labels = harness.root().children_recursive().filter(|node| node.accesskit_node().label().is_some()).count();
    assert!(n_labels < 20 * 14, "{n_labels} labels");
}

/// As many rows as two pages have, without any of them in memory.
struct Many;

impl Rows for Many {
    fn columns(&self) -> &[Column] {
        &[Column { title: "Name", key: "name", help: "", width: 200, is_text: true }]
    }

    fn n_rows(&self) -> usize {
        PAGE + 1_000
    }

    fn row(&self, row: usize) -> std::borrow::Cow<'_, [Cell]> {
        vec![Cell::text(&format!("row {row}"))].into()
    }

    fn order(&self, _: Option<Sort>, _: &str) -> Vec<u32> {
        (0..self.n_rows() as u32).collect()
    }
}

#[test]
fn a_page_that_is_turned_while_the_cursor_moves_starts_at_its_top() {
    let order = Order::new(Many.order(None, ""), Many.n_rows());
    // The cursor, which moves until something is clicked.
    let frame = move |ui: &mut egui::Ui, cursor: &mut (Option<usize>, bool)| {
        let spec = TableSpec {
            name: "Many",
            order: &order,
            sort: None,
            selected: cursor.0,
            is_moved: cursor.1,
            is_new: false,
            open: None,
            extra: None,
            branch: None,
        };
        table_ui(&Many, spec, ui);
        cursor.1 &= !ui.input(|input| input.pointer.primary_released());
    };
    let mut harness = Harness::builder().with_size([600.0, 400.0]).build_ui_state(frame, (Some(PAGE - 5), true));
    harness.run_steps(3);
    harness.get_by_label(&format!("row {}", PAGE - 5));
    harness.get_by_label("Next page").click();
    harness.run_steps(5);
    assert!(!harness.state().1, "it was clicked while the cursor moved");
    harness.get_by_label("Rows 500,001 to 501,000");
    harness.get_by_label(&format!("row {PAGE}"));
    // A cursor that moves to the other page turns it back.
    *harness.state_mut() = (Some(7), true);
    harness.run_steps(3);
    harness.get_by_label("Rows 1 to 500,000");
    harness.get_by_label("row 7");
}

/// The table `name` with these rows, and room for short names.
fn shown(rows: Vec<Vec<Cell>>, sort: Option<Sort>) -> Harness<'static, ()> {
    let column = |title, width, is_text| Column { title, key: title, help: "", width, is_text };
    let columns = vec![column("Name", 240, true), column("Calls", 40, false), column("Total", 40, false)];
    let data = Data { columns, rows };
    let order = Order::new(data.order(sort, ""), data.n_rows());
    let frame = move |ui: &mut egui::Ui, (): &mut ()| {
        let spec = TableSpec {
            name: "Kernels",
            order: &order,
            sort,
            selected: None,
            is_moved: false,
            is_new: false,
            open: None,
            extra: None,
            branch: None,
        };
        table_ui(&data, spec, ui);
    };
    let mut harness = Harness::builder().with_size([360.0, 200.0]).build_ui_state(frame, ());
    harness.run();
    harness
}

fn labels(harness: &Harness<'_, ()>) -> Vec<String> {
    let all = harness.root().children_recursive();
    let text = |node: egui_kittest::Node<'_>| {
        let node = node.accesskit_node();
        node.label().or_else(|| node.value())
    };
    all.filter_map(text).collect()
}

#[test]
fn different_kernels_look_different() {
    let reduce = |sizes: &str| {
        let functor = "at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float, \
                       float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, \
                       4>";
        format!("void at::native::reduce_kernel<{sizes}, {functor} >({functor})")
    };
    let rows =
        |names: &[String]| names.iter().map(|name| vec![Cell::name(name), Cell::Count(1), Cell::Count(2)]).collect();
    let alone = labels(&shown(rows(&[reduce("512, 1")]), None));
    assert!(alone.iter().any(|label| label.contains("ReduceOp") && !label.contains("512")), "{alone:?}");
    let all = labels(&shown(rows(&[reduce("512, 1"), reduce("128, 4"), reduce("512, 1")]), None));
    let of = |sizes: &str| all.iter().filter(|label| label.contains(sizes)).count();
    assert_eq!((of("reduce_kernel<512, 1"), of("reduce_kernel<128, 4")), (2, 1), "{all:?}");
    let split = |flags: &str| {
        format!("void splitKreduce_kernel<float, float, float, float, {flags}, false>(Params<float>, int)")
    };
    let all = labels(&shown(rows(&[split("true, true"), split("true, false")]), None));
    let of = |flags: &str| all.iter().filter(|label| label.contains(flags)).count();
    assert_eq!((of("true, true, false"), of("true, false, false")), (1, 1), "{all:?}");
}

#[test]
fn frames_keep_their_function() {
    let frame = "/tmp/compiled/a/folder/with/a/long/name/of/random/letters/qhi2m2kw6ldmzz.py(2533): call_of_it";
    let words = "a range that is named in many words, more than the column has room for, by the program itself";
    let harness = shown([frame, words].map(|name| vec![Cell::name(name)]).to_vec(), None);
    let labels = labels(&harness);
    let of_frame = labels.iter().find(|label| label.starts_with("/tmp")).unwrap();
    assert!(of_frame.ends_with("call_of_it") && of_frame.len() < frame.len(), "{of_frame}");
    assert!(labels.iter().any(|label| label == words), "{labels:?}");
    let frame = "Scheduler.run_until_idle (/opt/a/folder/with/a/long/name/of/random/letters/lib/scheduler.py:2533)";
    let harness = shown(vec![vec![Cell::frames(frame)], vec![Cell::frames("_thread.RLock.acquire")]], None);
    let all = self::labels(&harness);
    assert!(all.iter().any(|label| label.contains("run_until_idle")), "{all:?}");
}

#[test]
fn names_of_several_words_that_begin_alike_look_different() {
    let name =
        |end: &str| format!("a recording of a long name, a process with a long title and 4711, the thread of {end}");
    let shown_of = |ends: &[&str]| {
        let rows = ends.iter().map(|end| vec![Cell::name(&name(end)), Cell::Count(1), Cell::Count(2)]);
        labels(&shown(rows.collect(), None))
    };
    let all = shown_of(&["loading", "training"]);
    for end in ["loading", "training"] {
        let cut = all.iter().find(|label| label.ends_with(end)).unwrap_or_else(|| panic!("{all:?}"));
        assert!(cut.len() < name(end).len(), "{cut}");
    }
    assert!(shown_of(&["loading"]).contains(&name("loading")), "alone it is cut at its end");
}

#[test]
fn a_column_is_as_wide_before_it_sorts_the_rows() {
    let rows = || vec![vec![Cell::text("gemm"), Cell::Count(1), Cell::Count(2)]];
    let sorted = |column| Some(Sort { column, is_descending: true });
    let left = |sort, title: &str| shown(rows(), sort).get_by_label(title).rect().left();
    assert_eq!(left(sorted(2), "Calls"), left(None, "Calls"));
    assert_eq!(left(sorted(1), "Total"), left(None, "Total"));
}

#[test]
fn scroll_bars_cover_no_number() {
    let rows = |n: u64| (0..n).map(|i| vec![Cell::text("gemm"), Cell::Count(i), Cell::Count(100 + i)]).collect();
    let right = |n| shown(rows(n), None).get_by_label("100").rect().right();
    let (few, many) = (right(3), right(50));
    assert!(few - many >= BAR_WIDTH - 1.0, "{few} {many}");
}

#[test]
fn frames_of_files_of_one_name_in_several_folders_look_different() {
    let frame = |folder: &str| vec![Cell::frames(&format!("forward (/opt/site-packages/{folder}/model.py:12)"))];
    let shown_of = |folders: &[&str]| labels(&shown(folders.iter().map(|folder| frame(folder)).collect(), None));
    assert!(shown_of(&["vision"]).contains(&"forward (model.py:12)".to_owned()));
    let all = shown_of(&["vision", "language"]);
    for folder in ["vision", "language"] {
        assert!(all.iter().any(|label| label.contains(folder)), "{folder}: {all:?}");
    }
}

#[test]
fn places_that_differ_in_what_they_call_look_different() {
    let place = |callee: &str| {
        format!("library/model_hub/huggingface/a_long_name_of_a_model.py(28): run_on_input; via nn.Module: {callee}")
    };
    let shown_of = |cells: Vec<Cell>| labels(&shown(cells.into_iter().map(|cell| vec![cell]).collect(), None));
    let stack = |callee: &str| Cell::Stack(Stack::at(place(callee), Vec::new()).into());
    let all = [
        shown_of(["RotaryEmbedding", "Conv1D"].map(|callee| Cell::frames(&place(callee))).into()),
        shown_of(["RotaryEmbedding", "Conv1D"].map(stack).into()),
    ];
    for all in all {
        for callee in ["RotaryEmbedding", "Conv1D"] {
            let cut = all.iter().find(|label| label.contains(&callee[..6])).unwrap_or_else(|| panic!("{all:?}"));
            assert!(cut.len() < place(callee).len(), "{cut}");
        }
    }
}
