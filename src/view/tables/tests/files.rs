//! Tables of several files.

use super::*;
use crate::model::Format;

/// The tables of two recordings of ranks 0 and 1, and of a snapshot of memory with names of its own.
fn of_several(table: &'static TimeTable) -> Harness<'static, Fixture<Pane>> {
    let rank = |rank| {
        let mut trace = trace();
        trace.info.rank = Some(rank);
        trace
    };
    let mut names = TraceBuilder::from_slices(&[("names", SliceKind::Annotation, "forward", 0, 3_000)]);
    names.info.format = Format::Snapshot;
    harness_of(vec![names.finish(), rank(0), rank(1)], table)
}

#[test]
fn several_files_are_apart_added_up_or_one_alone_as_the_table_says() {
    let mut harness = of_several(&operators::TABLE);
    let choose = |harness: &mut Harness<'_, Fixture<Pane>>, files: &str| {
        harness.get_by_role_and_label(egui::Role::ComboBox, "File of the table").click();
        settle(harness);
        harness.get_all_by_label(files).last().unwrap().click();
        settle(harness);
    };
    harness.get_by_label("4 rows");
    harness.get_by_label("File");
    assert_eq!(harness.query_all_by_label("aten::mm").count(), 2);
    let [zero, one] = ["rank 0", "rank 1"].map(|file| harness.query_all_by_label(file).count());
    assert_eq!((zero, one), (2, 2), "each row says of which file it is");
    choose(&mut harness, "2 of 3 files, added up");
    harness.get_by_label("2 rows");
    assert!(harness.query_by_label("File").is_none());
    choose(&mut harness, "rank 1");
    harness.get_by_label("2 rows");
    let session = &harness.state().session;
    assert_eq!(session.files.of(operators::TABLE.title), Files::One(2));
    assert_eq!((session.files.of("Kernels"), session.steps.trace), (Files::Apart, None), "other views keep theirs");
    // Rows lead to slices of their file.
    click(&mut harness, "aten::mm");
    let instance = harness.get_all_by_label("main, rank 1").next().unwrap();
    instance.click();
    settle(&mut harness);
    assert_eq!(harness.state().session.selection.trace(), Some(2));
}

#[test]
fn a_list_of_files_says_which_of_them_are_not_among_all() {
    let mut harness = of_several(&operators::TABLE);
    harness.get_by_role_and_label(egui::Role::ComboBox, "File of the table").click();
    settle(&mut harness);
    let top = |label: &str| harness.get_all_by_label(label).last().unwrap().rect().top();
    let snapshot = harness.state().session.traces()[0].name.to_string();
    let order = ["2 of 3 files, added up", "rank 0", "rank 1", "Beside them", &snapshot].map(top);
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn a_snapshot_counts_where_it_is_chosen() {
    let mut harness = of_several(&annotations::TABLE);
    assert_eq!(harness.query_all_by_label("forward").count(), 2, "those of the two traces");
    harness.state_mut().session.files.choose(annotations::TABLE.title, Files::One(0));
    settle(&mut harness);
    assert_eq!(harness.query_all_by_label("forward").count(), 1);
    harness.state_mut().session.close(|trace, _| trace > 0);
    settle(&mut harness);
    assert_eq!(harness.query_all_by_label("forward").count(), 1, "alone it counts");
}

#[test]
fn nothing_but_what_its_recorder_can_do_is_advised() {
    let said = |format: Format, label: &str| {
        let mut builder = TraceBuilder::from_slices(&[("stream 7", SliceKind::Kernel, "gemm", 0, 100)]);
        builder.info.format = format;
        let mut harness = harness(builder.finish(), &operators::TABLE);
        click(&mut harness, "By operator");
        harness.query_by_label(label).is_some()
    };
    assert!(said(Format::ChromeTrace, "No operators were recorded"));
    assert!(said(Format::Nsys, "Nsight Systems records no operators"));
}

#[test]
fn ranks_stand_in_their_order_also_where_files_are_apart() {
    let rank = |rank: u32, start: i64| {
        let all_reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
        let slices = [
            ("stream 7", SliceKind::Kernel, "gemm", 0, 3_000_000),
            ("stream 9", SliceKind::Kernel, all_reduce, start, 900_000),
        ];
        let mut builder = TraceBuilder::from_slices(&slices);
        builder.info.path = format!("/{}/trace.json", 20 - rank).into();
        builder.info.rank = Some(rank);
        builder.info.utc_offset_ns = Some(1_700_000_000_000_000_000);
        builder.finish()
    };
    let mut harness = harness_of(vec![rank(10, 100_000), rank(2, 300_000), rank(1, 200_000)], &collectives::TABLE);
    harness.get_by_label("By rank").click();
    settle(&mut harness);
    for files in [Files::Apart, Files::Together] {
        harness.state_mut().session.files.choose(collectives::TABLE.title, files);
        settle(&mut harness);
        let heads = harness.get_by_label("Rank").rect();
        let of_rank = |n: &str| {
            let cells = harness.query_all_by_label(n).map(|node| node.rect());
            cells
                .filter(|cell| cell.center().x < heads.right() && cell.center().x > heads.left())
                .map(|cell| cell.top())
                .next()
        };
        let tops = ["1", "2", "10"].map(of_rank);
        assert!(tops[0].is_some() && tops.is_sorted(), "{files:?}: {tops:?}");
    }
}
