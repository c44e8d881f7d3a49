//! Flame trees against brute-force counts.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::model::{StackId, TraceBuilder};

type Sample = (u32, i64, Vec<u8>);

/// Samples as (track, time, stack from the outermost frame).
fn trace(samples: &[Sample]) -> Trace {
    let mut builder = TraceBuilder::default();
    let n_tracks = samples.iter().map(|sample| sample.0 + 1).max().unwrap_or_default();
    builder.tracks.resize(n_tracks as usize, Default::default());
    builder.processes.push(Default::default());
    for (track, ts, frames) in samples {
        let mut stack = StackId::default();
        for frame in frames {
            let name = builder.strings.intern(&format!("f{frame}"));
            stack = builder.stacks.intern(stack, name);
        }
        builder.samples.track.push(TrackId(*track));
        builder.samples.ts.push(*ts);
        builder.samples.stack.push(stack);
    }
    builder.finish()
}

/// Brute force: every prefix of every stack, with its total and own weight.
fn prefixes(stacks: &[Vec<String>]) -> BTreeMap<Vec<String>, (i64, i64)> {
    let mut all = BTreeMap::new();
    for stack in stacks {
        for n in 1..=stack.len() {
            let entry: &mut (i64, i64) = all.entry(stack[..n].to_vec()).or_default();
            entry.0 += 1;
            entry.1 += i64::from(n == stack.len());
        }
    }
    all
}

fn assert_is(tree: &FlameTree, stacks: &[Vec<String>]) {
    let path = |i: usize| tree.path(i as u32).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let entries = tree.nodes.iter().enumerate().skip(1).map(|(i, node)| (path(i), (node.total, node.own)));
    assert_eq!(entries.collect::<BTreeMap<_, _>>(), prefixes(stacks));
    assert_eq!(tree.nodes.len(), prefixes(stacks).len() + 1, "no frame is there twice");
    let own: i64 = tree.nodes.iter().map(|node| node.own).sum();
    let roots: i64 = tree.nodes[0].children.clone().map(|root| tree.nodes[root as usize].total).sum();
    assert_eq!([own, roots, tree.total()], [stacks.len() as i64; 3]);
    for (i, node) in tree.nodes.iter().enumerate() {
        let children: Vec<&FlameNode> = node.children.clone().map(|child| &tree.nodes[child as usize]).collect();
        assert_eq!(node.own + children.iter().map(|child| child.total).sum::<i64>(), node.total);
        assert!(children.is_sorted_by_key(|child| (-child.total, &tree.names[child.name as usize])));
        assert!(children.iter().all(|child| child.parent as usize == i && child.depth == node.depth + 1));
        assert!(i == 0 || (node.parent as usize) < i);
    }
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    prop::collection::vec((0..4_u32, 0..20_i64, prop::collection::vec(0..4_u8, 0..6)), 0..60)
}

fn names(frames: &[u8]) -> Vec<String> {
    let name = |frame: &u8| format!("f{frame}");
    if frames.is_empty() { vec![NO_STACK.to_owned()] } else { frames.iter().map(name).collect() }
}

proptest! {
    #[test]
    fn the_tree_counts_as_a_naive_count_does(
        samples in samples(),
        range in prop::option::of((0..20_i64, 0..20_i64)),
        thread in prop::option::of(0..4_u32),
    ) {
        let trace = trace(&samples);
        let range = range.map(|(a, b)| TimeRange::new(a, b));
        let counts = |(track, ts, _): &&Sample| {
            range.is_none_or(|range| range.start <= *ts && *ts < range.end) && thread.is_none_or(|t| t == *track)
        };
        let mut stacks: Vec<Vec<String>> = samples.iter().filter(counts).map(|sample| names(&sample.2)).collect();
        // The same trace twice counts twice.
        let twice = [&trace, &trace];
        let traces = if thread.is_some() { &twice[..1] } else { &twice[..] };
        let ranges = range.map(|range| vec![range; traces.len()]);
        let scope = Scope { traces, ranges, is_cancelled: &|| false };
        if thread.is_none() {
            stacks.extend(stacks.clone());
        }
        // The builder sorts tracks; they are equal here, so their order is stable.
        let tree = flame(&scope, thread.map_or(Threads::All, |track| Threads::One(0, TrackId(track))));
        assert_is(&tree, &stacks);

        let n_in_scope: i64 = sampled_threads(&scope).iter().map(|thread| thread.weight).sum();
        if thread.is_none() {
            prop_assert_eq!(n_in_scope, tree.total());
        }
        for hot in tree.hottest() {
            let name = &*tree.names[hot.name as usize];
            let own = stacks.iter().filter(|stack| stack.last().is_some_and(|last| last == name)).count();
            let total = stacks.iter().filter(|stack| stack.iter().any(|frame| frame == name)).count();
            prop_assert_eq!((hot.own, hot.total), (own as i64, total as i64));
            prop_assert_eq!(tree.matches(name).total, total as i64);
        }
        let mut folded = BTreeMap::new();
        for stack in &stacks {
            *folded.entry(stack.join(";")).or_insert(0) += 1;
        }
        let lines: BTreeMap<String, i64> = tree.folded(|name| Cow::Borrowed(name)).lines().map(|line| {
            let (stack, n) = line.rsplit_once(' ').unwrap();
            (stack.to_owned(), n.parse().unwrap())
        }).collect();
        prop_assert_eq!(lines, folded);

        let inverted = tree.inverted(&|| false);
        stacks.iter_mut().for_each(|stack| stack.reverse());
        assert_is(&inverted, &stacks);
        for (i, node) in tree.nodes.iter().enumerate() {
            prop_assert_eq!(tree.find(&tree.path(i as u32)), i as u32);
            prop_assert_eq!(node.depth as usize, tree.path(i as u32).len());
        }
    }

    #[test]
    fn a_tree_that_is_cut_loses_no_weight(samples in samples(), max in 1..12_usize) {
        let trace = trace(&samples);
        let tree = flame(&Scope::whole(&[&trace]), Threads::All);
        let cut = tree.inverted_within(max, &|| false);
        let whole = tree.inverted(&|| false);
        let own: i64 = cut.nodes.iter().map(|node| node.own).sum();
        prop_assert_eq!([own, cut.total()], [samples.len() as i64; 2]);
        prop_assert!(cut.nodes.len() <= max + cut.names.len());
        prop_assert_eq!(cut.cut == 0, cut.nodes.len() == whole.nodes.len());
        prop_assert_eq!(whole.cut, 0);
    }
}

#[test]
fn search_matches_all_words_ignoring_case() {
    let trace = trace(&[(0, 1, vec![1, 2]), (0, 2, vec![2, 1, 2]), (0, 3, vec![3])]);
    let tree = flame(&Scope::whole(&[&trace]), Threads::All);
    assert_eq!(tree.matches("F 2").total, 2);
    assert_eq!(tree.matches("f3 f2").total, 0);
    assert_eq!(tree.matches("f").total, 3);
    let none = tree.matches("  ");
    assert!(none.total == 0 && !none.names.contains(&true));
    assert_eq!(tree.find(&["f2", "f1", "nowhere"]), tree.find(&["f2", "f1"]));
    assert_eq!(FlameTree::default().folded(|name| Cow::Borrowed(name)), "");
}

#[test]
fn threads_whose_samples_only_wait_are_left_out() {
    let mut builder = TraceBuilder::from_slices(&[("main", crate::model::SliceKind::Other, "a", 0, 10)]);
    let process = builder.tracks[0].process;
    let names = ["main: samples", "pool: samples"];
    builder.tracks.extend(names.map(|name| crate::model::Track {
        name: name.to_owned(),
        process,
        ..Default::default()
    }));
    let stacks = [(1, vec!["main", "step"]), (1, vec!["main", "poll"])];
    let pool = vec![(2, vec!["start", "wait (threading.py:359)"]); 7];
    for (i, (track, frames)) in stacks.into_iter().chain(pool).enumerate() {
        let mut stack = StackId::default();
        for frame in frames {
            let name = builder.strings.intern(frame);
            stack = builder.stacks.intern(stack, name);
        }
        builder.samples.track.push(TrackId(track));
        builder.samples.ts.push(i as i64);
        builder.samples.stack.push(stack);
    }
    let trace = builder.finish();
    let one = [&trace];
    let scope = Scope::whole(&one);
    let weights: Vec<_> = sampled_threads(&scope).iter().map(|thread| (thread.weight, thread.waits)).collect();
    assert_eq!(weights, [(2, false), (7, true)]);
    assert_eq!([Threads::Working, Threads::All].map(|threads| flame(&scope, threads).total()), [2, 9]);
}
