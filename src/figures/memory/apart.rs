//! Call stacks of a list that read the same, told apart.

use std::borrow::Cow;
use std::cmp::Reverse;

use hashbrown::{HashMap, HashSet};

use crate::analysis::frame::Frame;
use crate::analysis::memory::labels::FrameRank;
use crate::figures::text::frame_within;
use crate::figures::{Cell, Stack, format};

/// Most frames that are named beside the label of a stack.
const MOST_NAMED: usize = 2;
/// Characters of a frame of C++ from which its arguments are left out.
const SHORT: usize = 32;

/// Where labels of several stacks read the same, adds to each the frame that tells it from the others: `step (a.py:9);
/// from warm_up (a.py:40)`, or `via` one that the label leads to. Of frames that few of them have, the most telling
/// comes first, then the nearest. Where all have the same frames, it is the folder of the label's file that tells them
/// apart, else how often a function is in the stack that calls itself, else the first frame that differs.
///
/// Cost: O(length of all stacks).
pub fn tell_apart(stacks: &mut [Stack]) {
    let labels: Vec<String> = stacks.iter().map(|stack| stack.frame().to_owned()).collect();
    for _ in 0..MOST_NAMED {
        name_each(stacks, |stacks, group| {
            let n_with = n_with(stacks, group);
            group.iter().map(|&i| telling(&stacks[i], &labels[i], &n_with, group.len())).collect()
        });
    }
    name_each(stacks, |_, group| {
        let folder = |&i: &usize| Some(format!("; in {}", Frame::of(&labels[i]).file.rsplit_once(['/', '\\'])?.0));
        let is_one = group.iter().all(|&i| labels[i] == labels[group[0]]);
        if is_one { Vec::new() } else { group.iter().map(folder).collect() }
    });
    name_each(stacks, |stacks, group| repeated(stacks, group, &labels));
    name_each(stacks, first_different);
}

/// Adds to the labels of each group of stacks that read the same what `name` finds for them, in their order.
fn name_each(stacks: &mut [Stack], name: impl Fn(&[Stack], &[usize]) -> Vec<Option<String>>) {
    let mut alike: HashMap<String, Vec<usize>> = HashMap::new();
    for (i, stack) in stacks.iter().enumerate() {
        alike.entry(Cell::of_frames(stack.name())).or_default().push(i);
    }
    for group in alike.into_values().filter(|group| group.len() > 1) {
        for (&i, named) in group.iter().zip(name(stacks, &group)) {
            if let Some(named) = named {
                stacks[i].label += &named;
            }
        }
    }
}

/// How often each stack has the frame whose number differs most among them: `; 3 times visit (tree.py:9)`. Empty if all
/// have each frame as often.
fn repeated(stacks: &[Stack], group: &[usize], labels: &[String]) -> Vec<Option<String>> {
    let mut counts: HashMap<&str, HashMap<usize, u64>> = HashMap::new();
    for &i in group {
        for frame in &stacks[i].frames {
            *counts.entry(frame).or_default().entry(i).or_default() += 1;
        }
    }
    let n_counts = |of: &HashMap<usize, u64>| {
        let different: HashSet<u64> = group.iter().map(|i| of.get(i).copied().unwrap_or_default()).collect();
        different.len()
    };
    let of = counts.iter().map(|(frame, of)| (n_counts(of), *frame)).filter(|(n, _)| *n > 1);
    // Of equal ones a frame of the program, else the first by name: the answer is the same at each call.
    let most = of.max_by_key(|&(n, frame)| (n, FrameRank::of(frame), Reverse(frame)));
    let Some((_, frame)) = most else { return Vec::new() };
    let named = |i: &usize| {
        let n = counts[frame].get(i).copied().unwrap_or_default();
        let times = if n == 1 { "once".to_owned() } else { format!("{} times", format::count(n)) };
        match frame == labels[*i] {
            true => format!("; {times} in the stack"),
            false => format!("; {times} {}", in_short(frame)),
        }
    };
    group.iter().map(|i| Some(named(i))).collect()
}

/// The innermost frame that is not the same in all. Stacks that end before have none.
fn first_different(stacks: &[Stack], group: &[usize]) -> Vec<Option<String>> {
    let frame = |&i: &usize, at: usize| stacks[i].frames.get(at);
    let longest = group.iter().map(|&i| stacks[i].frames.len()).max().unwrap_or_default();
    let at = (0..longest).find(|&at| group.iter().any(|i| frame(i, at) != frame(&group[0], at)));
    let Some(at) = at else { return Vec::new() };
    let nth = format::count(at as u64 + 1);
    group.iter().map(|i| Some(format!("; frame {nth} is {}", in_short(frame(i, at)?)))).collect()
}

/// How many of some stacks have each frame.
fn n_with<'a>(stacks: &'a [Stack], group: &[usize]) -> HashMap<&'a str, usize> {
    let mut last_in: HashMap<&str, (usize, usize)> = HashMap::new();
    for &i in group {
        for frame in &stacks[i].frames {
            let (n, last) = last_in.entry(frame).or_insert((0, usize::MAX));
            if *last != i {
                (*n, *last) = (*n + 1, i);
            }
        }
    }
    last_in.into_iter().map(|(frame, (n, _))| (frame, n)).collect()
}

/// The frame of a stack that the fewest of its group have, with the way from its label; `None` if all have all.
fn telling(stack: &Stack, label: &str, n_with: &HashMap<&str, usize>, n: usize) -> Option<String> {
    let at = stack.frames.iter().position(|frame| frame == label)?;
    let known = |frame: &str| n_with.get(frame).copied().unwrap_or(n);
    let others = stack.frames.iter().enumerate().filter(|(_, frame)| *frame != label && known(frame) < n);
    let order = |&(i, frame): &(usize, &String)| {
        // What Python and PyTorch's bindings call in between says nothing.
        let is_between = FrameRank::of(frame) == FrameRank::Native && !frame.starts_with("at::");
        (known(frame), Reverse(FrameRank::of(frame)), is_between, i.abs_diff(at), Reverse(i))
    };
    let (i, frame) = others.min_by_key(order)?;
    Some(format!("; {} {}", if i > at { "from" } else { "via" }, in_short(frame)))
}

/// Of C++ the function says enough: `at::native::to`, where its last word alone would not.
fn in_short(frame: &str) -> Cow<'_, str> {
    let bare = frame.split(['(', '<']).next().unwrap_or_default().trim_end();
    match Frame::of(frame).is_python() {
        true => frame.into(),
        false if (1..=SHORT).contains(&bare.len()) => bare.into(),
        false => frame_within(frame, SHORT).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINEAR: &str = "linear (/x/site-packages/torch/nn/functional.py:9)";
    const GELU: &str = "gelu (/x/site-packages/torch/nn/functional.py:5)";

    fn names(stacks: &[&[&str]]) -> Vec<String> {
        let stack = |frames: &&[&str]| Stack::new(frames.iter().map(|&frame| frame.to_owned()).collect());
        let mut stacks: Vec<Stack> = stacks.iter().map(stack).collect();
        tell_apart(&mut stacks);
        stacks.iter().map(|stack| Cell::of_frames(stack.name())).collect()
    }

    #[test]
    fn alike_stacks_name_the_frame_that_others_lack() {
        let [step, warm_up, train] = ["step (/me/a.py:9)", "warm_up (/me/a.py:40)", "train (/me/a.py:50)"];
        let main = "main (/me/a.py:90)";
        let found = names(&[&[step, warm_up, main], &[step, train, main], &["load (/me/b.py:1)", main]]);
        assert_eq!(
            found,
            ["step (a.py:9); from warm_up (a.py:40)", "step (a.py:9); from train (a.py:50)", "load (b.py:1)"]
        );
        let native =
            ["at::native::mm_out_cuda(at::Tensor const&, at::Tensor const&, c10::Scalar)", "at::native::exp()"];
        let found = names(&[&[native[0], step], &[native[1], step]]);
        assert_eq!(found, ["step (a.py:9); via at::native::mm_out_cuda", "step (a.py:9); via at::native::exp"]);
        let found = names(&[&[LINEAR, step, main], &[GELU, step, main], &[LINEAR, step, train, main]]);
        assert_eq!(
            found,
            [
                "step (a.py:9); via linear (functional.py:9)",
                "step (a.py:9); via gelu (functional.py:5)",
                "step (a.py:9); from train (a.py:50)"
            ]
        );
    }

    #[test]
    fn files_of_one_name_and_pairs_of_frames_are_told_apart() {
        let found = names(&[&["f (/a/x.py:1)", "g (/a/y.py:2)"], &["f (/b/x.py:1)", "h (/b/y.py:3)"]]);
        assert_eq!(found, ["f (x.py:1); from g (y.py:2)", "f (x.py:1); from h (y.py:3)"]);
        // Each frame is in two of the four.
        let of = |a, b| ["f (/a/x.py:1)", a, b];
        let [a, b, c, d] = ["a (/a/x.py:2)", "b (/a/x.py:3)", "c (/a/x.py:4)", "d (/a/x.py:5)"];
        let mut found = names(&[&of(a, c), &of(a, d), &of(b, c), &of(b, d)]);
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 4, "{found:?}");
    }

    #[test]
    fn stacks_of_the_same_frames_say_how_they_differ() {
        let [visit, walk, main] = ["visit (/me/tree.py:9)", "walk (/me/tree.py:4)", "main (/me/a.py:90)"];
        let found = names(&[&[visit, main], &[visit, visit, main], &[visit, visit, visit, main]]);
        let visited = |times: &str| format!("visit (tree.py:9); {times} in the stack");
        assert_eq!(found, ["once", "2 times", "3 times"].map(visited));
        let found = names(&[&[visit, walk, main], &[visit, walk, walk, main]]);
        assert_eq!(found, ["visit (tree.py:9); once walk (tree.py:4)", "visit (tree.py:9); 2 times walk (tree.py:4)"]);
        let found = names(&[&[visit, walk, main], &[visit, main, walk]]);
        assert_eq!(
            found,
            ["visit (tree.py:9); frame 2 is walk (tree.py:4)", "visit (tree.py:9); frame 2 is main (a.py:90)"]
        );
        let found = names(&[&["f (/a/x.py:1)"], &["f (/b/x.py:1)"]]);
        assert_eq!(found, ["f (x.py:1); in /a", "f (x.py:1); in /b"]);
    }

    #[test]
    fn equal_stacks_stay_alike() {
        assert_eq!(names(&[&["f (/a/x.py:1)"], &["f (/a/x.py:1)"]]), ["f (x.py:1)"; 2]);
        assert_eq!(names(&[&[], &[]]), ["(no call stack)"; 2]);
    }
}
