//! Weights by call stack as a tree for flame graphs: samples, or anything else that has stacks.

mod draft;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

pub(super) use self::draft::{Draft, Names};
use super::threads::samples_wait;
use super::totals::Scope;
use crate::model::{TimeRange, Trace, TrackId};

/// The frame of what was recorded without a stack.
pub const NO_STACK: &str = "(no call stack)";
/// The frame of what was not recorded, as it is from before.
pub const BEFORE: &str = "(before the recording)";
/// The frame of a stack whose own frames are all left out.
pub const LEFT_OUT: &str = "(interpreter and allocator only)";
/// A frame whose name is empty.
const NO_NAME: &str = "(no name)";
/// Frames of a tree that is not bounded by the recording's own table of stacks.
const MAX_NODES: usize = 1 << 21;
/// How many steps are taken between two looks at whether the answer is still wanted.
const STEPS_PER_LOOK: usize = 1 << 16;

/// The name of a group and its weights by stack of a trace.
pub type GroupWeights = (String, Vec<i64>);

/// A frame under those that lead to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlameNode {
    /// Index into [`FlameTree::names`]. Of node 0, nothing.
    pub name: u32,
    /// Always smaller than the node's own index; node 0 is its own parent.
    pub parent: u32,
    /// 0 for node 0, 1 for the outermost frames.
    pub depth: u32,
    /// The weight of the node and all below.
    pub total: i64,
    /// The weight of the stacks that end here.
    pub own: i64,
    /// Indices of the nodes below: the heaviest first, the same weight by name.
    pub children: Range<u32>,
}

/// Weights by call stack. Node 0 is the whole and no frame; levels follow each other.
#[derive(Clone, Debug)]
pub struct FlameTree {
    /// Each name once.
    pub names: Arc<[Box<str>]>,
    /// Never empty.
    pub nodes: Vec<FlameNode>,
    /// For each node another weight, itself and with all below: of weights within a range, that also outside of it; of
    /// gains those after them, of losses those before them. Else empty.
    pub full: Vec<[i64; 2]>,
    /// For each node how many calls are in it; else empty.
    pub calls: Vec<u64>,
    /// The weight of stacks whose far end is left out, because the tree would have become too
    /// large. Their weight counts as that of the last frame that is there.
    pub cut: i64,
}

impl Default for FlameTree {
    fn default() -> Self {
        Self { names: Arc::default(), nodes: vec![FlameNode::default()], full: Vec::new(), calls: Vec::new(), cut: 0 }
    }
}

/// A thread that was sampled, or whose time is added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadWeight {
    /// Index into [`Scope::traces`].
    pub trace: u32,
    pub track: TrackId,
    /// What is in the scope of it: number of samples, or nanoseconds.
    pub weight: i64,
    /// Whether it only waits, in all that was recorded.
    pub waits: bool,
}

/// Which threads count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    All,
    /// Those that do more than wait.
    #[default]
    Working,
    /// This track of the trace with this index.
    One(u32, TrackId),
}

impl Threads {
    /// * `waits`: whether the thread only waits.
    pub fn count(self, trace: u32, track: TrackId, waits: bool) -> bool {
        match self {
            Self::All => true,
            Self::Working => !waits,
            Self::One(..) => self == Self::One(trace, track),
        }
    }
}

/// A frame, wherever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotFrame {
    /// Index into [`FlameTree::names`].
    pub name: u32,
    /// The weight of stacks in which it is the innermost.
    pub own: i64,
    /// The weight of stacks in which it is, once however often it calls itself.
    pub total: i64,
    /// The same by [`FlameTree::full`].
    pub full: i64,
}

/// What fits a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// For each name of the tree, whether it fits.
    pub names: Vec<bool>,
    /// The weight of stacks with a frame that fits.
    pub total: i64,
}

/// The samples of a scope by call stack, outermost frame first; the weight is their number.
///
/// Cost: O(samples in the scope + stacks of its traces).
pub fn flame(scope: &Scope<'_>, threads: Threads) -> FlameTree {
    let mut draft = Draft::default();
    let mut names = Names::default();
    for (index, &trace) in scope.traces.iter().enumerate() {
        let mut weights = vec![0; trace.stacks.len()];
        let waiting = waiting(trace);
        for (track, samples) in sampled(trace, scope.range(index)) {
            if threads.count(index as u32, track, waiting.contains(&track)) && !(scope.is_cancelled)() {
                for stack in &trace.samples.stack[samples] {
                    weights[stack.0 as usize] += 1;
                }
            }
        }
        draft.add(trace, &weights, 0, &mut names, &mut |_| false);
    }
    draft.finish(names.list.into_iter().map(Box::from).collect())
}

/// Weights by call stack in groups, each a frame of its own above its stacks; one without a name is no
/// frame.
///
/// * `parts`: traces with their groups: names, and of each one weight a stack of the trace, by id, and behind them, if
///   there is one more, that of what is from before the recording; 0 leaves a stack out.
///   Negative ones would make frames look lighter than what lies below them: gains and losses belong in trees of
///   their own.
/// * `is_left_out`: by its text, whether a frame is skipped; what it weighs is its caller's.
/// * Cost: O(groups · stacks of the trace).
pub fn weighted_in_groups(parts: &[(&Trace, &[GroupWeights])], is_left_out: impl Fn(&str) -> bool) -> FlameTree {
    let mut draft = Draft::default();
    let mut names = Names::default();
    for &(trace, groups) in parts {
        let mut known = HashMap::new();
        for (name, weights) in groups.iter().filter(|(_, weights)| weights.iter().any(|&weight| weight != 0)) {
            let root = if name.is_empty() { 0 } else { draft.child(0, names.intern(name)) };
            draft.add(trace, weights, root, &mut names, &mut |frame| {
                *known.entry(frame).or_insert_with(|| is_left_out(trace.strings.get(frame)))
            });
        }
    }
    draft.finish(names.list.into_iter().map(Box::from).collect())
}

/// The threads that were sampled at any time, by trace and track.
///
/// Cost: O(threads · log samples).
pub fn sampled_threads(scope: &Scope<'_>) -> Vec<ThreadWeight> {
    let of_trace = |(index, &trace): (usize, &&Trace)| {
        let waiting = waiting(trace);
        let weight = |(track, samples): (TrackId, Range<usize>)| ThreadWeight {
            trace: index as u32,
            track,
            weight: samples.len() as i64,
            waits: waiting.contains(&track),
        };
        sampled(trace, scope.range(index)).map(weight).collect::<Vec<_>>()
    };
    scope.traces.iter().enumerate().flat_map(of_trace).collect()
}

/// The tracks whose samples only wait; none where all do.
fn waiting(trace: &Trace) -> HashSet<TrackId> {
    let all = || sampled(trace, None);
    let waiting: HashSet<TrackId> =
        all().filter(|(_, samples)| samples_wait(trace, samples.clone())).map(|(track, _)| track).collect();
    if all().count() == waiting.len() { HashSet::new() } else { waiting }
}

/// The tracks with samples, and which of them are in a range; `None` is everything.
fn sampled(trace: &Trace, range: Option<TimeRange>) -> impl Iterator<Item = (TrackId, Range<usize>)> {
    let samples = &trace.samples;
    let mut next = 0;
    std::iter::from_fn(move || {
        let track = *samples.track.get(next)?;
        let first = next;
        next += samples.track[first..].partition_point(|&other| other == track);
        let ts = &samples.ts[first..next];
        let within = |TimeRange { start, end }: TimeRange| {
            let from = ts.partition_point(|&ts| ts < start);
            first + from..first + ts.partition_point(|&ts| ts < end).max(from)
        };
        Some((track, range.map_or(first..next, within)))
    })
}

impl FlameTree {
    /// The weight of everything.
    pub fn total(&self) -> i64 {
        self.nodes[0].total
    }

    /// The name of a node that is a frame.
    pub fn name(&self, node: u32) -> &str {
        self.nodes.get(node as usize).and_then(|node| self.names.get(node.name as usize)).map_or("", |name| name)
    }

    /// The same stacks with the innermost frame first: below each frame are its callers.
    ///
    /// Cost: O(stacks · depth).
    pub fn inverted(&self, is_cancelled: &dyn Fn() -> bool) -> Self {
        self.inverted_within(MAX_NODES, is_cancelled)
    }

    fn inverted_within(&self, max_nodes: usize, is_cancelled: &dyn Fn() -> bool) -> Self {
        let mut draft = Draft::cut_by(self.cut);
        for (i, node) in self.nodes.iter().enumerate().skip(1) {
            if i % STEPS_PER_LOOK == 0 && is_cancelled() {
                break;
            }
            if node.own == 0 {
                continue;
            }
            let (mut to, mut from) = (0, i as u32);
            while from != 0 {
                let FlameNode { name, parent, .. } = self.nodes[from as usize];
                // The innermost frame is always there: as many as there are names.
                if to != 0 && draft.parent.len() >= max_nodes && !draft.has_child(to, name) {
                    draft.cut += node.own;
                    break;
                }
                (to, from) = (draft.child(to, name), parent);
            }
            draft.own[to as usize] += node.own;
            if let Some([own, _]) = self.full.get(i) {
                draft.full.resize(draft.parent.len(), [0; 2]);
                draft.full[to as usize][0] += own;
            }
        }
        draft.sum_full();
        draft.finish(Arc::clone(&self.names))
    }

    /// Every frame once, those with the most weight of their own first. Of a tree with the outermost
    /// frame first. Cost: O(nodes + names · log names).
    pub fn hottest(&self) -> Vec<HotFrame> {
        let hot = |name| HotFrame { name, own: 0, total: 0, full: 0 };
        let mut frames: Vec<HotFrame> = (0..self.names.len() as u32).map(hot).collect();
        // How often each name is on the way from the root to where the walk is.
        let mut on_path = vec![0_u32; frames.len()];
        self.walk(|node, is_entered| {
            let FlameNode { name, total, own, .. } = self.nodes[node as usize];
            let (n, frame) = (&mut on_path[name as usize], &mut frames[name as usize]);
            if is_entered {
                frame.own += own;
                frame.total += if *n == 0 { total } else { 0 };
                frame.full += self.full.get(node as usize).filter(|_| *n == 0).map_or(0, |full| full[1]);
                *n += 1;
            } else {
                *n -= 1;
            }
        });
        frames.sort_by(|a, b| {
            let weights = (b.own, b.total).cmp(&(a.own, a.total));
            weights.then_with(|| self.names[a.name as usize].cmp(&self.names[b.name as usize]))
        });
        frames
    }

    /// The frames in whose name every word of `text` occurs, in any case; without words, none.
    ///
    /// Cost: O(nodes + length of all names).
    pub fn matches(&self, text: &str) -> Matches {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        let fits = |name: &str| {
            let name = name.to_lowercase();
            !words.is_empty() && words.iter().all(|word| name.contains(word))
        };
        let names: Vec<bool> = self.names.iter().map(|name| fits(name)).collect();
        let mut is_covered = vec![false; self.nodes.len()];
        let mut total = 0;
        for (i, node) in self.nodes.iter().enumerate().skip(1) {
            let is_match = names[node.name as usize];
            let was_covered = is_covered[node.parent as usize];
            is_covered[i] = was_covered || is_match;
            total += if is_match && !was_covered { node.total } else { 0 };
        }
        Matches { names, total }
    }

    /// The names from the outermost frame to this one.
    pub fn path(&self, node: u32) -> Vec<&str> {
        let mut path = Vec::new();
        let mut at = node;
        while at != 0 {
            path.push(self.name(at));
            at = self.nodes.get(at as usize).map_or(0, |node| node.parent);
        }
        path.reverse();
        path
    }

    /// The node of this path, or of as much of it as there is. Cost: O(depth · siblings).
    pub fn find(&self, path: &[impl AsRef<str>]) -> u32 {
        let mut at = 0;
        for name in path {
            let mut children = self.nodes[at as usize].children.clone();
            let Some(child) = children.find(|&child| self.name(child) == name.as_ref()) else { break };
            at = child;
        }
        at
    }

    /// Brendan Gregg's collapsed stacks, a line each: `main;step;gemm 12`.
    ///
    /// * `visible`: makes characters visible that would break a line. A semicolon in a name becomes
    ///   a comma.
    pub fn folded(&self, visible: impl Fn(&str) -> Cow<'_, str>) -> String {
        let mut out = String::new();
        let mut path = String::new();
        // How long the path was before each frame on it.
        let mut lengths = Vec::new();
        self.walk(|node, is_entered| {
            if !is_entered {
                path.truncate(lengths.pop().unwrap_or_default());
                return;
            }
            lengths.push(path.len());
            if !path.is_empty() {
                path.push(';');
            }
            path.push_str(&visible(self.name(node)).replace(';', ","));
            let own = self.nodes[node as usize].own;
            if own != 0 {
                out.push_str(&format!("{path} {own}\n"));
            }
        });
        out
    }

    /// Enters and leaves every frame, its children in between.
    fn walk(&self, mut visit: impl FnMut(u32, bool)) {
        let mut open: Vec<Range<u32>> = vec![self.nodes[0].children.clone()];
        let mut path: Vec<u32> = Vec::new();
        while let Some(siblings) = open.last_mut() {
            if let Some(node) = siblings.next() {
                visit(node, true);
                path.push(node);
                open.push(self.nodes[node as usize].children.clone());
            } else {
                open.pop();
                if let Some(node) = path.pop() {
                    visit(node, false);
                }
            }
        }
    }
}
