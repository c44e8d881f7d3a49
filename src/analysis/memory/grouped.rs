//! Live memory as flame trees by call stack, optionally grouped by category, stream, pool or age.

use std::borrow::Cow;
use std::cmp::Reverse;

use hashbrown::{HashMap, HashSet};

use super::labels::FrameRank;
use super::live::{GroupKey, LiveUntil, by_age, by_category, by_pool, by_stream, live};
use super::moved::MovedLines;
use super::steps::Steps;
use crate::analysis::stacks::{FlameTree, GroupWeights, NO_STACK, weighted_in_groups};
use crate::model::memory::{AllocationId, MemoryPool};
use crate::model::{MemoryHistory, StringId, Trace};

/// Grouping of live memory above the call stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    #[default]
    Nothing,
    Category,
    Stream,
    Pool,
    /// By the number of steps since the allocation.
    Age,
}

/// Selection and grouping of live memory.
#[derive(Clone, Copy, Debug)]
pub struct LiveScope<'a> {
    pub trace: &'a Trace,
    pub history: &'a MemoryHistory,
    pub until: LiveUntil,
    pub by: GroupBy,
    /// Steps of the history; without them all blocks have unknown age.
    pub steps: Option<&'a Steps>,
    /// Whether to include frames of the interpreter, of process startup, of the recorder, and of the allocator.
    pub has_all_frames: bool,
}

/// Limit on the weights kept at once, which bounds memory at 256 MiB.
const MAX_WEIGHTS: usize = 1 << 25;

/// Difference between two states as two trees: gains and losses in bytes by stack.
/// `grown.total() - shrunk.total()` equals the change of the curve. Their [`FlameTree::full`] is what the stacks that
/// grew have after it, and what those that shrank had before.
///
/// In a single tree, the gain of one stack would cancel the loss of another below the same frame.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    pub grown: FlameTree,
    pub shrunk: FlameTree,
}

/// What one stack has in two states, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackChange<'a> {
    /// Innermost first; empty without a call stack.
    pub frames: Vec<&'a str>,
    pub before: u64,
    pub after: u64,
}

impl StackChange<'_> {
    pub fn change(&self) -> i64 {
        self.after.cast_signed().wrapping_sub(self.before.cast_signed())
    }
}

/// What each stack has in two states, the largest change first; stacks that have the same in both are left out. The
/// changes sum to that of the trees, which may be of two recordings: stacks of the same frames are one.
///
/// * `before`, `after`: as [`LiveScope::flame`] returns them.
/// * `moved`: of the frames of both.
///
/// Cost: O(nodes of both trees · depth).
pub fn stack_changes<'a>(before: &'a FlameTree, after: &'a FlameTree, moved: &MovedLines<'a>) -> Vec<StackChange<'a>> {
    let mut index: HashMap<Vec<Cow<'_, str>>, usize> = HashMap::new();
    let mut found: Vec<StackChange<'_>> = Vec::new();
    for (side, tree) in [(1, after), (0, before)] {
        for (node, own) in (0..).zip(&tree.nodes).map(|(at, node)| (at, node.own)).filter(|(_, own)| *own != 0) {
            let path = tree.path(node);
            let name = |&frame: &&'a str| if side == 0 { moved.later_name(frame) } else { frame.into() };
            let at = *index.entry(path.iter().map(name).collect()).or_insert(found.len());
            if at == found.len() {
                let frames = path.into_iter().rev().filter(|frame| *frame != NO_STACK).collect();
                found.push(StackChange { frames, before: 0, after: 0 });
            }
            let bytes = if side == 0 { &mut found[at].before } else { &mut found[at].after };
            *bytes += own.cast_unsigned();
        }
    }
    found.retain(|one| one.before != one.after);
    let order = |one: &StackChange<'_>| Reverse((one.change().unsigned_abs(), one.change()));
    found.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.frames.cmp(&b.frames)));
    found
}

/// Where the lines of one trace are in another, by all frames of their stacks. Cost: O(stacks + length of frames).
pub fn moved_lines<'a>(before: &'a Trace, after: &'a Trace) -> MovedLines<'a> {
    let frames = |trace: &'a Trace| {
        let frames: HashSet<StringId> = trace.stacks.frame.iter().copied().collect();
        frames.into_iter().map(|frame| trace.strings.get(frame))
    };
    MovedLines::new(frames(before), frames(after))
}

impl LiveScope<'_> {
    /// Live bytes in a state as a tree, with groups above their stacks.
    ///
    /// Cost: O(blocks allocated so far + groups · stacks).
    pub fn flame(&self, state: u32) -> FlameTree {
        self.tree(&[(self.trace, &self.weights(state))])
    }

    /// Gains and losses in bytes from a state of `base`, which may be of another recording, to one of this, by group
    /// and stack. Stacks of the same frames are one. Cost: twice that of [`Self::flame`].
    pub fn difference(&self, (base, from): (&LiveScope<'_>, u32), to: u32) -> Difference {
        let (mut before, gone) = base.weights_in(self.trace, from);
        let mut groups: Vec<(String, [Vec<i64>; 2])> = Vec::new();
        for (name, after) in self.weights(to) {
            let before = before.remove(&name).unwrap_or_else(|| vec![0; after.len()]);
            groups.push((name, [before, after]));
        }
        let freed = before.into_iter().map(|(name, before)| (name, [before, Vec::new()]));
        groups.extend(freed);
        let is_of_moment = groups.iter().filter(|(_, [_, after])| !after.is_empty()).count();
        groups[is_of_moment..].sort();
        // Of the stacks that rise from the one side to the other, by how much, and to what.
        let rising = |from: usize, to: usize| {
            let weights = |weight: fn(i64, i64) -> i64| -> Vec<GroupWeights> {
                let of = |sides: &[Vec<i64>; 2]| {
                    let from = sides[from].iter().copied().chain(std::iter::repeat(0));
                    let rise = |(&to, from): (&i64, i64)| if to > from { weight(from, to) } else { 0 };
                    sides[to].iter().zip(from).map(rise).collect()
                };
                groups.iter().map(|(name, sides)| (name.clone(), of(sides))).collect()
            };
            [weights(|from, to| to - from), weights(|_, to| to)]
        };
        let [grown, after] = rising(0, 1).map(|weights| self.tree(&[(self.trace, &weights)]));
        let [shrunk, had] = rising(1, 0).map(|weights| self.tree(&[(self.trace, &weights), (base.trace, &gone)]));
        Difference { grown: with_full(grown, &after), shrunk: with_full(shrunk, &had) }
    }

    /// The weights of a state by the stacks of the trace `here`, and those of stacks that it lacks, by its own.
    fn weights_in(&self, here: &Trace, state: u32) -> (HashMap<String, Vec<i64>>, Vec<GroupWeights>) {
        let weights = self.weights(state);
        if std::ptr::eq(self.trace, here) {
            return (weights.into_iter().collect(), Vec::new());
        }
        let twins = twins(self.trace, here);
        let mut found: HashMap<String, Vec<i64>> = HashMap::new();
        let mut others = Vec::new();
        for (name, mut bytes) in weights {
            let of_group = found.entry(name.clone()).or_insert_with(|| vec![0; here.stacks.len() + 1]);
            for (bytes, twin) in bytes.iter_mut().zip(&twins) {
                if let Some(twin) = *twin {
                    of_group[twin] += std::mem::take(bytes);
                }
            }
            others.push((name, bytes));
        }
        (found, others)
    }

    fn tree(&self, parts: &[(&Trace, &[GroupWeights])]) -> FlameTree {
        weighted_in_groups(parts, |frame| !self.has_all_frames && FrameRank::of(frame) <= FrameRank::Allocator)
    }

    fn weights(&self, state: u32) -> Vec<GroupWeights> {
        let all = &self.history.allocations;
        let group = self.group(state);
        let mut index: HashMap<GroupKey, usize> = HashMap::new();
        let mut found: Vec<GroupWeights> = Vec::new();
        let most = (MAX_WEIGHTS / self.trace.stacks.len().max(1)).clamp(16, 1000);
        for id in live(self.history, state, self.until) {
            let group = group(id);
            let at = *index.entry(group).or_insert(found.len().min(most));
            if at == found.len() {
                let name = if at == most { "All others".to_owned() } else { self.name(group) };
                found.push((name, vec![0; self.trace.stacks.len() + 1]));
            }
            let stack = match all.stack[id.idx()].0 as usize {
                0 if !all.was_recorded(id) => self.trace.stacks.len(),
                // A stack id of another trace counts as unknown.
                stack if stack >= self.trace.stacks.len() => 0,
                stack => stack,
            };
            found[at].1[stack] += all.bytes[id.idx()] as i64;
        }
        found
    }

    fn group(&self, state: u32) -> Box<dyn Fn(AllocationId) -> GroupKey + '_> {
        match (self.by, self.steps) {
            (GroupBy::Category, _) => Box::new(by_category(self.history)),
            (GroupBy::Stream, _) => Box::new(by_stream(self.history)),
            (GroupBy::Pool, _) => Box::new(by_pool(self.history)),
            (GroupBy::Age, Some(steps)) => {
                let age = by_age(self.history, steps, state);
                // Group ages by powers of two, which keeps the number of groups small.
                Box::new(move |id| match age(id) {
                    GroupKey::Age(Some(steps)) => GroupKey::Age(Some(u32::BITS - steps.leading_zeros())),
                    other => other,
                })
            }
            (GroupBy::Nothing | GroupBy::Age, _) => Box::new(|_| GroupKey::Age(None)),
        }
    }

    fn name(&self, group: GroupKey) -> String {
        match group {
            _ if self.by == GroupBy::Nothing => String::new(),
            GroupKey::Category(category) if category == Default::default() => "(no category)".to_owned(),
            GroupKey::Category(category) => self.trace.strings.get(category).to_owned(),
            GroupKey::Stream(stream) => MemoryPool { stream, ..MemoryPool::default() }.to_string(),
            GroupKey::Pool(id) => self.history.pools.get(id.0 as usize).copied().unwrap_or_default().to_string(),
            GroupKey::Age(None) => "Before the first step".to_owned(),
            GroupKey::Age(Some(0)) => "Of this step".to_owned(),
            GroupKey::Age(Some(1)) => "Of the step before".to_owned(),
            GroupKey::Age(Some(bits)) => format!("{} to {} steps old", 1_u64 << (bits - 1), (1_u64 << bits) - 1),
            GroupKey::Signature(_) | GroupKey::Before => String::new(),
        }
    }
}

/// A tree with the weights of another one of the same stacks beside its own. Cost: O(nodes).
fn with_full(tree: FlameTree, full: &FlameTree) -> FlameTree {
    let mut found = vec![[0; 2]; tree.nodes.len()];
    found[0] = [full.nodes[0].own, full.nodes[0].total];
    let key = |node: usize| (tree.nodes[node].parent, tree.name(node as u32));
    let node_of: HashMap<(u32, &str), u32> = (1..tree.nodes.len()).map(|node| (key(node), node as u32)).collect();
    // Parents come first, so where each is in the other tree is known.
    let mut twins = vec![0; full.nodes.len()];
    for (at, node) in full.nodes.iter().enumerate().skip(1) {
        let Some(&twin) = node_of.get(&(twins[node.parent as usize], full.name(at as u32))) else { continue };
        (twins[at], found[twin as usize]) = (twin, [node.own, node.total]);
    }
    drop(node_of);
    FlameTree { full: found, ..tree }
}

/// For each stack of a trace that of the same frames in another one, if it has it; then what is from before. Lines of the
/// program that moved are the same. Cost: O(stacks of both).
fn twins(of: &Trace, here: &Trace) -> Vec<Option<usize>> {
    let frame = |stack: usize| here.strings.get(here.stacks.frame[stack]);
    let key = |stack: usize| (here.stacks.parent[stack].0 as usize, frame(stack));
    let known: HashMap<(usize, &str), usize> = (1..here.stacks.len()).map(|stack| (key(stack), stack)).collect();
    let moved = moved_lines(of, here);
    let mut names: HashMap<StringId, Cow<'_, str>> = HashMap::new();
    // Callers have smaller ids.
    let mut found = vec![Some(0)];
    for stack in 1..of.stacks.len() {
        let callers: Option<usize> = found[of.stacks.parent[stack].0 as usize];
        let frame = of.stacks.frame[stack];
        let name = names.entry(frame).or_insert_with(|| moved.later_name(of.strings.get(frame)));
        found.push(callers.and_then(|callers| known.get(&(callers, &**name)).copied()));
    }
    found.push(Some(here.stacks.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::super::by_place::{Places, stack_places};
    use super::super::fixture::{Script, history};
    use super::super::live::{by_signature, groups};
    use super::super::signature::Signatures;
    use super::*;
    use crate::analysis::stacks::{BEFORE, LEFT_OUT};
    use crate::model::memory::{MemoryAction, MemoryEvent, MemoryPool, RawMemory};
    use crate::model::{StackId, TraceBuilder};

    #[test]
    fn trees_sum_to_the_curves_and_separate_gains_from_losses() {
        let mut script = Script::default();
        let a = script.stack(&["mul (a.py:1)", "main (a.py:9)"]);
        let b = script.stack(&["add (a.py:2)", "main (a.py:9)"]);
        script.alloc(0x0000, 1024, a);
        script.alloc(0x1000, 512, b);
        script.alloc(0x2000, 2048, StackId(0));
        script.event(MemoryAction::FreeRequested, 0x0000, 1024, StackId(0));
        script.alloc(0x3000, 4096, b);
        script.free(0x0000, 1024);
        let trace = script.finish();
        let history = history(&trace);
        let scope = |until| LiveScope {
            trace: &trace,
            history,
            until,
            by: GroupBy::Nothing,
            steps: None,
            has_all_frames: false,
        };
        let active = scope(LiveUntil::Active);
        let tree = active.flame(4);
        let main = tree.find(&["main (a.py:9)"]);
        assert_eq!((tree.total(), tree.nodes[main as usize].total), (3584, 1536));
        assert_eq!(tree.nodes[tree.find(&[NO_STACK]) as usize].own, 2048);
        assert_eq!(scope(LiveUntil::Allocated).flame(4).total(), 2560);
        let Difference { grown, shrunk } = active.difference((&active, 2), 6);
        assert_eq!((grown.total(), shrunk.total()), (2048 + 4096, 1024));
        let at = |tree: &FlameTree, name| tree.nodes[tree.find(&["main (a.py:9)", name]) as usize].own;
        assert_eq!((at(&grown, "add (a.py:2)"), at(&shrunk, "mul (a.py:1)")), (4096, 1024));
        // 512 of it were there before.
        let full = |tree: &FlameTree, path: &[&str]| tree.full[tree.find(path) as usize];
        assert_eq!(full(&grown, &["main (a.py:9)", "add (a.py:2)"]), [4608, 4608]);
        assert_eq!((full(&grown, &["main (a.py:9)"]), grown.full[0]), ([0, 4608], [0, 4608 + 2048]));
        assert_eq!(full(&shrunk, &["main (a.py:9)"]), [0, 1024]);
        let back = active.difference((&active, 6), 2);
        assert_eq!((back.grown.total(), back.shrunk.total()), (1024, 2048 + 4096));
    }

    #[test]
    fn blocks_without_a_stack_are_told_apart_by_whether_their_allocation_was_recorded() {
        let of = |before: u64| {
            let mut script = Script::default();
            script.alloc(0x1000, 512, StackId(0));
            script.event(MemoryAction::FreeRequested, 0x9000, before, StackId(0));
            script.finish()
        };
        let (trace, other) = (of(8192), of(4096));
        fn scope(trace: &Trace) -> LiveScope<'_> {
            let (history, until, by) = (history(trace), LiveUntil::Allocated, GroupBy::Nothing);
            LiveScope { trace, history, until, by, steps: None, has_all_frames: false }
        }
        let tree = scope(&trace).flame(1);
        let own = |name: &str| tree.nodes[tree.find(&[name]) as usize].own;
        assert_eq!((tree.total(), own(BEFORE), own(NO_STACK)), (8704, 8192, 512));
        // As the list by place has it.
        let of_stack = stack_places(&trace, None);
        let places = Places { trace: &trace, of_stack: &of_stack };
        let held = places.held(history(&trace), 1);
        let held: Vec<_> = held.iter().map(|one| (places.name(one.place), one.held.bytes)).collect();
        assert_eq!(held, [(BEFORE, 8192), (NO_STACK, 512)]);
        let signatures = Signatures::new(&trace, false);
        let by_signature = by_signature(history(&trace), &signatures);
        let groups = groups(history(&trace), 1, LiveUntil::Allocated, by_signature);
        let expected = [(GroupKey::Before, 8192), (GroupKey::Signature(signatures.of(StackId(0))), 512)];
        assert_eq!(groups.iter().map(|group| (group.group, group.bytes)).collect::<Vec<_>>(), expected);
        // Of two recordings, what is from before is one.
        let other = scope(&other).flame(1);
        let expected = StackChange { frames: vec![BEFORE], before: 4096, after: 8192 };
        let moved = MovedLines::new([].into_iter(), [].into_iter());
        assert_eq!(stack_changes(&other, &tree, &moved), [expected]);
        let Difference { grown, shrunk } = scope(&trace).difference((&scope(&trace), 1), 2);
        assert_eq!((grown.total(), shrunk.nodes[shrunk.find(&[BEFORE]) as usize].own), (0, 8192));
        let Difference { grown, shrunk } = scope(&trace).difference((&scope(&of(4096)), 1), 1);
        assert_eq!((grown.nodes[grown.find(&[BEFORE]) as usize].own, shrunk.total()), (4096, 0));
    }

    #[test]
    fn interpreter_frames_are_skipped_unless_requested() {
        let mut script = Script::default();
        let run = "PyRun_SimpleFile (??:0)";
        let named = script.stack(&["torch::unwind::unwind() (??:0)", "mul (a.py:1)", run, "_start (??:0)"]);
        let nameless = script.stack(&[run, "_start (??:0)"]);
        script.alloc(0x0000, 1024, named);
        script.alloc(0x1000, 512, nameless);
        let trace = script.finish();
        let (history, until, by) = (history(&trace), LiveUntil::Active, GroupBy::Nothing);
        let scope = |has_all_frames| LiveScope { trace: &trace, history, until, by, steps: None, has_all_frames };
        let own = |tree: &FlameTree, path: &[&str]| tree.nodes[tree.find(path) as usize].own;
        let tree = scope(false).flame(2);
        assert_eq!((tree.nodes.len(), tree.total(), tree.nodes[0].own), (3, 1536, 0));
        assert_eq!((own(&tree, &["mul (a.py:1)"]), own(&tree, &[LEFT_OUT])), (1024, 512));
        let tree = scope(true).flame(2);
        assert_eq!((tree.nodes.len(), tree.total()), (5, 1536));
        assert_eq!(own(&tree, &["_start (??:0)", run]), 512);
    }

    #[test]
    fn groups_are_above_their_stacks_and_sum_to_the_curve() {
        let mut builder = TraceBuilder::default();
        let frame = builder.strings.intern("forward (model.py:3)");
        let stack = builder.stacks.intern(StackId(0), frame);
        let mut raw = RawMemory { has_time: true, ..RawMemory::default() };
        let pools = [0, 7].map(|stream| raw.pool(MemoryPool { stream, private: (0, 0) }));
        for (i, bytes) in [512, 1024, 4096].into_iter().enumerate() {
            let (ts, addr, pool) = (i as i64, 0x1000 * i as u64, pools[i / 2]);
            raw.events.push(MemoryEvent { ts, action: MemoryAction::Alloc, addr, bytes, pool, stack });
        }
        builder.memories.push(raw);
        let trace = builder.finish();
        let history = &trace.memories[0];
        let scope =
            |by| LiveScope { trace: &trace, history, until: LiveUntil::Active, by, steps: None, has_all_frames: false };
        let top = |tree: &FlameTree| -> Vec<(String, i64)> {
            let children = tree.nodes[0].children.clone();
            children.map(|node| (tree.name(node).to_owned(), tree.nodes[node as usize].total)).collect()
        };
        let tree = scope(GroupBy::Stream).flame(3);
        assert_eq!(top(&tree), [("stream 7".to_owned(), 4096), ("default stream".to_owned(), 1536)]);
        assert_eq!(tree.total() as u64, history.curves.active[3]);
        let below = tree.nodes[1].children.start;
        assert_eq!(tree.name(below), "forward (model.py:3)");
        assert_eq!(top(&scope(GroupBy::Nothing).flame(3)), [("forward (model.py:3)".to_owned(), 5632)]);
        assert_eq!(top(&scope(GroupBy::Category).flame(1)), [("(no category)".to_owned(), 512)]);
        let by_stream = scope(GroupBy::Stream);
        let changes = by_stream.difference((&by_stream, 1), 3);
        assert_eq!(top(&changes.grown), [("stream 7".to_owned(), 4096), ("default stream".to_owned(), 1024)]);
        assert_eq!(changes.shrunk.total(), 0);
        let back = by_stream.difference((&by_stream, 3), 1);
        assert_eq!((back.grown.total(), back.shrunk.total()), (0, 5120));
    }

    #[test]
    fn stacks_of_two_recordings_are_one_where_their_frames_are() {
        let of = |others: &[&str], held: &[(&[&str], u64)]| {
            let mut script = Script::default();
            others.iter().for_each(|other| _ = script.stack(&[other]));
            for (i, &(frames, bytes)) in held.iter().enumerate() {
                let stack = script.stack(frames);
                script.alloc((i as u64) << 20, bytes, stack);
            }
            script.finish()
        };
        let [step, load, cache] =
            [["mul (a.py:1)", "main (a.py:9)"], ["load (a.py:2)", "main (a.py:9)"], ["mul (a.py:1)", "run (a.py:8)"]];
        let before = of(&[], &[(&step, 1024), (&load, 4096)]);
        let after = of(&["x (x.py:1)"], &[(&cache, 2048), (&step, 1536)]);
        fn scope(trace: &Trace) -> LiveScope<'_> {
            let (history, until, by) = (history(trace), LiveUntil::Active, GroupBy::Nothing);
            LiveScope { trace, history, until, by, steps: None, has_all_frames: false }
        }
        let own = |tree: &FlameTree, path: [&str; 2]| tree.nodes[tree.find(&[path[1], path[0]]) as usize].own;
        let Difference { grown, shrunk } = scope(&after).difference((&scope(&before), 2), 2);
        assert_eq!((grown.total(), own(&grown, cache), own(&grown, step)), (2560, 2048, 512));
        assert_eq!((shrunk.total(), own(&shrunk, load)), (4096, 4096));
        let trees = [scope(&before).flame(2), scope(&after).flame(2)];
        let change = |frames: [&'static str; 2], before, after| StackChange { frames: frames.to_vec(), before, after };
        let expected = [change(load, 4096, 0), change(cache, 0, 2048), change(step, 1024, 1536)];
        assert_eq!(stack_changes(&trees[0], &trees[1], &moved_lines(&before, &after)), expected);
        assert_eq!(stack_changes(&trees[1], &trees[1], &moved_lines(&after, &after)), []);
        // In another version of the program all lines are elsewhere, also those of callers.
        let [step, load] = [["mul (a.py:3)", "main (a.py:12)"], ["load (a.py:4)", "main (a.py:12)"]];
        let after = of(&["x (x.py:1)"], &[(&step, 1536), (&load, 4096)]);
        let tree = scope(&after).flame(2);
        let moved = moved_lines(&before, &after);
        assert_eq!(stack_changes(&trees[0], &tree, &moved), [change(step, 1024, 1536)]);
        let Difference { grown, shrunk } = scope(&after).difference((&scope(&before), 2), 2);
        assert_eq!((grown.total(), own(&grown, step), shrunk.total()), (512, 512, 0));
    }
}
