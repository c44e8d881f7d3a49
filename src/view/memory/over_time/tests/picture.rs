//! The picture, its curves and its colors against the plainest calculation.

use std::sync::Arc;

use super::random;
use crate::answers::Answers;
use crate::model::memory::{AllocationId, MemoryAction, MemoryEvent, MemoryPool, RawMemory};
use crate::model::{StackId, TimeRange, TraceBuilder};
use crate::session::{OpenMemory, OpenTrace};
use crate::view::memory::over_time::MemoryOverTime;
use crate::view::memory::over_time::axis::{Axis, AxisKind, NO_STATE, UNITS};
use crate::view::memory::over_time::colors::{ColorBlocks, ColorBy, Legend};
use crate::view::memory::over_time::curves::{Curve, points};
use crate::view::memory::over_time::raster::NO_BLOCK;
use crate::view::memory::over_time::work::{MakeIndex, Marked, Picture, PictureKey};

fn shown(builder: TraceBuilder) -> OpenMemory {
    let open = OpenTrace::new(builder.finish(), 1_000);
    OpenMemory { open, memory: 0 }
}

fn question(axis: AxisKind, view: TimeRange, bytes: TimeRange, size: [usize; 2]) -> PictureKey {
    PictureKey {
        axis,
        view,
        bytes,
        size,
        pixel: 1.0,
        colors: ColorBlocks { by: ColorBy::Stack, is_dark: true },
        marked: Marked::default(),
    }
}

fn make(shown: &OpenMemory, key: &PictureKey) -> Arc<Picture> {
    Answers::default().get(shown, key).unwrap()
}

/// Every pixel against a stack of the live blocks of its column's state.
fn assert_picture(shown: &OpenMemory, key: &PictureKey, made: &Picture) {
    let history = shown.history();
    let axis = Axis { kind: key.axis, history, offset: shown.open.offset, is_alone: false };
    let per_row = key.bytes.dur() as f64 / key.size[1] as f64;
    for (at, column) in made.columns.iter().enumerate() {
        let ids = &made.ids[at * made.n_rows..(at + 1) * made.n_rows];
        if column.state == NO_STATE {
            assert!(ids.iter().all(|&id| id == NO_BLOCK));
            continue;
        }
        let edge = |i: usize| key.view.start + (key.view.dur() as i128 * i as i128 / key.size[0] as i128) as i64;
        let states = axis.state(edge(at))..=axis.state(edge(at + 1) - 1);
        let highest = states.clone().map(|state| history.curves.active[state as usize]).max();
        assert_eq!(Some(history.curves.active[column.state as usize]), highest, "column {at}");
        assert!(states.contains(&column.state));
        let mut top = 0_u64;
        let stack = history.allocations.ids().filter(|&id| history.allocations.is_live(id, column.state));
        let stack: Vec<(u32, f64, f64)> = stack
            .map(|id| {
                let bottom = top;
                top += history.allocations.bytes[id.idx()];
                (id.0, bottom as f64, top as f64)
            })
            .collect();
        assert_eq!(top, history.curves.active[column.state as usize]);
        for (row, &id) in ids.iter().enumerate() {
            let middle = key.bytes.start as f64 + (row as f64 + 0.5) * per_row;
            let exact = stack.iter().find(|block| block.1 < middle && middle <= block.2);
            let near = stack.iter().filter(|block| block.2 > middle - per_row && block.1 < middle + per_row);
            match exact {
                None => assert_eq!(id, NO_BLOCK, "column {at}, row {row}"),
                Some(block) if block.2 - block.1 > per_row => assert_eq!(id, block.0, "column {at}, row {row}"),
                Some(_) => assert!(near.clone().any(|block| block.0 == id), "column {at}, row {row} shows {id}"),
            }
        }
    }
}

#[test]
fn every_pixel_shows_the_block_that_lies_there() {
    for has_time in [true, false] {
        let shown = shown(random(6_000, has_time));
        let kinds: &[AxisKind] = if has_time { &[AxisKind::Time, AxisKind::Events] } else { &[AxisKind::Events] };
        for &kind in kinds {
            let axis = Axis { kind, history: shown.history(), offset: shown.open.offset, is_alone: false };
            let span = axis.span();
            let all = MemoryOverTime::all_bytes(&Answers::default().get(&shown, &MakeIndex).unwrap());
            let mut view = TimeRange { start: span.start - span.dur() / 10, end: span.end + span.dur() / 10 };
            let mut bytes = all;
            for _ in 0..7 {
                let key = question(kind, view, bytes, [97, 83]);
                assert_picture(&shown, &key, &make(&shown, &key));
                let middle = view.start + view.dur() * 4 / 9;
                view = TimeRange { start: middle - view.dur() / 8, end: middle + view.dur() / 8 + 3 };
                bytes = TimeRange { start: bytes.start + bytes.dur() / 5, end: bytes.end - bytes.dur() / 5 };
            }
        }
    }
}

#[test]
fn a_block_has_a_row_all_its_life_however_small_it_is() {
    let shown = shown(random(900, true));
    let (history, all) = (shown.history(), &shown.history().allocations);
    let axis = Axis { kind: AxisKind::Events, history, offset: shown.open.offset, is_alone: false };
    let most = *history.curves.active.iter().max().unwrap() as i64;
    // So few rows that most blocks are thinner than one.
    let key = question(AxisKind::Events, axis.span(), TimeRange { start: 0, end: 2 * most }, [120, 24]);
    let made = make(&shown, &key);
    let per_row = 2 * most as u64 / 24;
    let mut n_thin = 0;
    for id in all.ids() {
        let life = [all.start[id.idx()], all.end[id.idx()]];
        for (column, rows) in made.columns.iter().zip(made.rows_of(id, life)) {
            let is_live = column.state != NO_STATE && (life[0]..life[1]).contains(&column.state);
            assert_eq!(rows.is_some(), is_live, "{id:?} in {}", column.state);
            let Some([from, to]) = rows else { continue };
            assert!(to > from);
            let is_below = |other: &AllocationId| {
                *other < id && (all.start[other.idx()]..all.end[other.idx()]).contains(&column.state)
            };
            let below: u64 = all.ids().filter(is_below).map(|other| all.bytes[other.idx()]).sum();
            let due = (below / per_row) as u32;
            assert!(from.abs_diff(due) <= 1, "{from} and not {due}");
            n_thin += u32::from(all.bytes[id.idx()] < per_row / 2);
        }
    }
    assert!(n_thin > 100, "{n_thin}");
}

#[test]
fn the_same_is_shown_however_many_cores_there_are() {
    let shown = shown(random(4_000, true));
    let axis = Axis { kind: AxisKind::Time, history: shown.history(), offset: shown.open.offset, is_alone: false };
    let key = question(AxisKind::Time, axis.span(), TimeRange { start: 0, end: 20_000_000 }, [300, 100]);
    let with = |n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap().install(|| make(&shown, &key));
    let (one, many) = (with(1), with(5));
    assert!(one.ids == many.ids);
    assert!(one.image.pixels == many.image.pixels);
    let words = |made: &Picture| made.labels.iter().map(|label| (label.rect, label.text.clone())).collect::<Vec<_>>();
    assert_eq!(words(&one), words(&many));
}

#[test]
fn no_peak_vanishes_from_a_curve() {
    let shown = shown(random(20_000, true));
    for kind in [AxisKind::Time, AxisKind::Events] {
        let axis = Axis { kind, history: shown.history(), offset: shown.open.offset, is_alone: false };
        for n in [7, 100, 1920] {
            for part in [1, 10, 1_000, 20_000] {
                let span = axis.span();
                let view = TimeRange { start: span.start, end: span.start + (span.dur() / part).max(20) };
                let columns = axis.columns(view, n);
                let inside = || columns.iter().filter(|column| column.state != NO_STATE);
                let last = inside().map(|column| column.last).max().unwrap() as usize;
                for curve in Curve::ALL {
                    let values = curve.values(shown.history());
                    let made = points(&axis, values, &columns, view);
                    assert!(made.len() <= 4 * n + 2, "{} points for {n} columns", made.len());
                    // A value holds until the next event.
                    assert!(made.is_sorted_by(|a, b| a.x == b.x || a.y == b.y), "a slope");
                    assert!(made.is_sorted_by(|a, b| a.x <= b.x));
                    let bytes = || made.iter().map(|point| point.y as u64);
                    let first = inside().map(|column| column.first).min().unwrap() as usize;
                    assert_eq!(bytes().max(), values[first..=last].iter().copied().max());
                    assert_eq!(bytes().min(), values[first..=last].iter().copied().min());
                }
            }
        }
    }
}

#[test]
fn colors_say_what_the_legend_says() {
    let shown = shown(random(2_000, true));
    let history = shown.history();
    let build = |by| Answers::default().get(&shown, &ColorBlocks { by, is_dark: true }).unwrap();
    let streams = build(ColorBy::Stream);
    let Legend::List(names, 0) = &streams.legend else { panic!("{:?}", streams.legend) };
    assert_eq!(names.len(), 2);
    for id in history.allocations.ids() {
        let color = streams.palette[usize::from(streams.index[id.idx()])];
        let name = &names.iter().find(|name| name.0 == color).unwrap().1;
        assert_eq!(*name, history.pool_of(id).to_string());
    }
    let sizes = build(ColorBy::Size);
    let Legend::Ramp(_, least, most) = &sizes.legend else { panic!("{:?}", sizes.legend) };
    assert_eq!((least.as_str(), most.as_str()), ("512 B", "1.00 MiB"));
    let of = |bytes| history.allocations.bytes.iter().position(|&x| x == bytes).map(|i| sizes.index[i]);
    assert!(of(512) == Some(0) && of(512) < of(1 << 14) && of(1 << 14) < of(1 << 20));
    let categories = build(ColorBy::Category);
    assert!(
        categories.index.iter().all(|&index| usize::from(index) == categories.palette.len() - 1),
        "all are unknown"
    );
    for by in ColorBy::ALL.map(|choice| choice.0) {
        let colors = build(by);
        assert_eq!(colors.index.len(), history.allocations.len());
        assert!(colors.index.iter().all(|&index| usize::from(index) < colors.palette.len()));
    }
}

#[test]
fn a_block_that_waits_to_be_free_looks_otherwise() {
    let mut builder = TraceBuilder::default();
    let mut raw = RawMemory::default();
    let pool = raw.pool(MemoryPool::default());
    for action in
        [MemoryAction::Alloc, MemoryAction::FreeRequested, MemoryAction::Annotate, MemoryAction::FreeCompleted]
    {
        raw.events.push(MemoryEvent { ts: 0, action, addr: 512, bytes: 512, pool, stack: StackId(0) });
    }
    builder.memories.push(raw);
    let shown = shown(builder);
    // Ten columns a state: nothing, live, waiting for two states, nothing.
    let view = TimeRange { start: 0, end: 5 * UNITS };
    let made = make(&shown, &question(AxisKind::Events, view, TimeRange { start: 0, end: 1024 }, [50, 20]));
    let column = |at: usize| (&made.ids[at * 20..at * 20 + 10], &made.image.pixels[at * 20..at * 20 + 9]);
    assert!([5, 45].into_iter().all(|at| column(at).0.iter().all(|&id| id == NO_BLOCK)));
    assert!([15, 25, 35].into_iter().all(|at| column(at).0.iter().all(|&id| id == 0)));
    let live = column(15).1[0];
    assert!(column(15).1.iter().all(|&pixel| pixel == live));
    assert!([25, 35].into_iter().all(|at| column(at).1.iter().all(|&pixel| pixel != live)));
    // The stripes go on from column to column, also where nothing changes and where another core paints.
    assert!((20..39).all(|at| column(at).1[1..] == column(at + 1).1[..8]));
}
