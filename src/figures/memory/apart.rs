//! Call stacks of a list that read the same, told apart.

use std::borrow::Cow;
use std::cmp::Reverse;

use hashbrown::HashMap;

use crate::analysis::frame::Frame;
use crate::analysis::memory::labels::FrameRank;
use crate::figures::text::frame_within;
use crate::figures::{Cell, Stack};

/// Most frames that are named beside the label of a stack.
const MOST_NAMED: usize = 2;
/// Characters of a frame of C++ from which its arguments are left out.
const SHORT: usize = 32;

/// Where labels of several stacks read the same, adds to each the frame that tells it from the others: `step (a.py:9); from
/// warm_up (a.py:40)`, or `via` one that the label leads to. Of frames that few of them have, the most telling comes first,
/// then the nearest. Stacks of the same frames, as of a function that calls itself once more, stay alike.
///
/// Cost: O(length of all stacks).
pub fn tell_apart(stacks: &mut [Stack]) {
    let labels: Vec<String> = stacks.iter().map(|stack| stack.label.clone()).collect();
    for _ in 0..MOST_NAMED {
        let mut alike: HashMap<String, Vec<usize>> = HashMap::new();
        for (i, stack) in stacks.iter().enumerate() {
            alike.entry(Cell::of_frames(stack.name())).or_default().push(i);
        }
        for group in alike.into_values().filter(|group| group.len() > 1) {
            let named: Vec<Option<String>> = {
                let n_with = n_with(stacks, &group);
                group.iter().map(|&i| telling(&stacks[i], &labels[i], &n_with, group.len())).collect()
            };
            for (&i, named) in group.iter().zip(named) {
                if let Some(named) = named {
                    stacks[i].label += &named;
                }
            }
        }
    }
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
    // Of C++ the function says enough: `at::native::to`, where its last word alone would not.
    let bare = frame.split(['(', '<']).next().unwrap_or_default().trim_end();
    let frame = match Frame::of(frame).is_python() {
        true => frame.as_str().into(),
        false if (1..=SHORT).contains(&bare.len()) => bare.into(),
        false => Cow::from(frame_within(frame, SHORT)),
    };
    Some(format!("; {} {frame}", if i > at { "from" } else { "via" }))
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
    fn the_same_frames_stay_alike() {
        assert_eq!(names(&[&["f (/a/x.py:1)"], &["f (/a/x.py:1)", "f (/a/x.py:1)"]]), ["f (x.py:1)"; 2]);
        assert_eq!(names(&[&[], &[]]), ["(no call stack)"; 2]);
    }
}
