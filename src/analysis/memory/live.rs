//! Whose memory is live at a moment? By stack, and by everything else that tells blocks apart.

use hashbrown::HashMap;

use super::signature::{SignatureId, Signatures};
use super::steps::Steps;
use crate::analysis::stacks::{FlameTree, weighted};
use crate::model::memory::{AllocationId, PoolId};
use crate::model::{MemoryHistory, StringId, Trace};

/// Until when a block counts as live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Live {
    /// Until it can be used again: the curve `active`.
    #[default]
    Active,
    /// Until the program gives it back: the curve `allocated`.
    Allocated,
}

impl Live {
    /// The first state in which the block no longer counts.
    pub fn end(self, history: &MemoryHistory, id: AllocationId) -> u32 {
        match self {
            Self::Active => history.allocations.end[id.idx()],
            Self::Allocated => history.allocations.freed[id.idx()],
        }
    }
}

/// The blocks that are live in a state, by id. Cost: O(blocks that began by then).
pub fn live(history: &MemoryHistory, state: u32, until: Live) -> impl Iterator<Item = AllocationId> + '_ {
    // Ids ascend with the start of life.
    let began = history.allocations.start.partition_point(|&start| start <= state) as u32;
    (0..began).map(AllocationId).filter(move |&id| until.end(history, id) > state)
}

/// Live bytes by stack: one a stack of the trace, by id. They sum to the curve, exactly.
pub fn by_stack(trace: &Trace, history: &MemoryHistory, state: u32, until: Live) -> Vec<i64> {
    let mut weights = vec![0_i64; trace.stacks.len()];
    for id in live(history, state, until) {
        let stack = history.allocations.stack[id.idx()].0 as usize;
        // A stack of another trace counts as none.
        weights[if stack < trace.stacks.len() { stack } else { 0 }] += history.allocations.bytes[id.idx()] as i64;
    }
    weights
}

/// Live bytes as a tree of stacks.
pub fn flame(trace: &Trace, history: &MemoryHistory, state: u32, until: Live) -> FlameTree {
    weighted(trace, &by_stack(trace, history, state, until))
}

/// How two states differ, as two trees: one with what each stack has more of, one with what each has
/// less of. `grown.total() - shrunk.total()` is how much the curve rose, exactly.
///
/// Two trees, since in one the gain of one stack would hide the loss of another below the same frame.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    pub grown: FlameTree,
    pub shrunk: FlameTree,
}

/// What became of live memory between two states, by stack.
pub fn difference(trace: &Trace, history: &MemoryHistory, from: u32, to: u32, until: Live) -> Difference {
    let (before, after) = (by_stack(trace, history, from, until), by_stack(trace, history, to, until));
    let changes = || after.iter().zip(&before).map(|(after, before)| after - before);
    let grown: Vec<i64> = changes().map(|change| change.max(0)).collect();
    let shrunk: Vec<i64> = changes().map(|change| (-change).max(0)).collect();
    Difference { grown: weighted(trace, &grown), shrunk: weighted(trace, &shrunk) }
}

/// What live blocks can be told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    Signature(SignatureId),
    Pool(PoolId),
    /// The stream's handle.
    Stream(i64),
    Category(StringId),
    /// In how many steps before this one it was allocated; 0 is in this step. `None` is before the first.
    Age(Option<u32>),
}

/// Live blocks of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveGroup {
    pub group: Group,
    pub bytes: u64,
    /// Blocks.
    pub count: u64,
}

/// Sums live blocks by group; the most bytes first, then in the order of groups.
///
/// Cost: O(blocks that began by then + groups · log groups).
pub fn groups(
    history: &MemoryHistory,
    state: u32,
    until: Live,
    group: impl Fn(AllocationId) -> Group,
) -> Vec<LiveGroup> {
    let mut found: Vec<LiveGroup> = Vec::new();
    let mut index: HashMap<Group, usize> = HashMap::new();
    for id in live(history, state, until) {
        let group = group(id);
        let at = *index.entry(group).or_insert(found.len());
        if at == found.len() {
            found.push(LiveGroup { group, bytes: 0, count: 0 });
        }
        found[at].bytes += history.allocations.bytes[id.idx()];
        found[at].count += 1;
    }
    found.sort_unstable_by(|a, b| b.bytes.cmp(&a.bytes).then(a.group.cmp(&b.group)));
    found
}

/// By place in the program.
pub fn by_signature<'a>(
    history: &'a MemoryHistory,
    signatures: &'a Signatures,
) -> impl Fn(AllocationId) -> Group + use<'a> {
    move |id| Group::Signature(signatures.of(history.allocations.stack[id.idx()]))
}

/// By pool: stream and private pool.
pub fn by_pool(history: &MemoryHistory) -> impl Fn(AllocationId) -> Group + use<'_> {
    move |id| Group::Pool(history.allocations.pool[id.idx()])
}

/// By the stream that a block was allocated for.
pub fn by_stream(history: &MemoryHistory) -> impl Fn(AllocationId) -> Group + use<'_> {
    move |id| Group::Stream(history.pool_of(id).stream)
}

/// By what the file says a block is for.
pub fn by_category(history: &MemoryHistory) -> impl Fn(AllocationId) -> Group + use<'_> {
    move |id| Group::Category(history.allocations.category(id))
}

/// By how many steps ago a block was allocated, seen from `state`.
pub fn by_age<'a>(
    history: &'a MemoryHistory,
    steps: &'a Steps,
    state: u32,
) -> impl Fn(AllocationId) -> Group + use<'a> {
    // What comes after the last step counts as one more.
    let step_of = |state: u32| steps.boundaries.partition_point(|&boundary| boundary < state);
    let now = step_of(state);
    move |id| {
        let step = step_of(history.allocations.start[id.idx()]);
        Group::Age((step > 0).then(|| now.saturating_sub(step) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Script, history};
    use super::super::steps;
    use super::*;
    use crate::analysis::stacks::NO_STACK;
    use crate::model::StackId;
    use crate::model::memory::{MemoryAction, MemoryPool};

    fn trace() -> Trace {
        let mut script = Script::default();
        let a = script.stack(&["mul (a.py:1)", "main (a.py:9)"]);
        let b = script.stack(&["add (a.py:2)", "main (a.py:9)"]);
        script.alloc(0x0000, 1024, a);
        script.alloc(0x1000, 512, b);
        script.pool = script.raw.pool(MemoryPool { stream: 7, private: (0, 0) });
        script.alloc(0x2000, 2048, StackId(0));
        script.event(MemoryAction::FreeRequested, 0x0000, 1024, StackId(0));
        script.alloc(0x3000, 4096, b);
        script.free(0x0000, 1024);
        let category = script.builder.strings.intern("PARAMETER");
        script.raw.categories = vec![(1, category)];
        script.finish()
    }

    #[test]
    fn live_bytes_sum_to_the_curves() {
        let trace = trace();
        let history = history(&trace);
        for state in 0..history.n_states() {
            let sum = |until| by_stack(&trace, history, state, until).iter().sum::<i64>() as u64;
            assert_eq!(sum(Live::Active), history.curves.active[state as usize]);
            assert_eq!(sum(Live::Allocated), history.curves.allocated[state as usize]);
        }
        let tree = flame(&trace, history, 4, Live::Active);
        let main = tree.find(&["main (a.py:9)"]);
        assert_eq!((tree.total(), tree.nodes[main as usize].total), (3584, 1536));
        assert_eq!(tree.nodes[tree.find(&[NO_STACK]) as usize].own, 2048);
        assert_eq!(flame(&trace, history, 4, Live::Allocated).total(), 2560);
    }

    #[test]
    fn a_difference_keeps_gains_and_losses_apart() {
        let trace = trace();
        let history = history(&trace);
        let Difference { grown, shrunk } = difference(&trace, history, 2, 6, Live::Active);
        assert_eq!((grown.total(), shrunk.total()), (2048 + 4096, 1024));
        let at = |tree: &FlameTree, name| tree.nodes[tree.find(&["main (a.py:9)", name]) as usize].own;
        assert_eq!((at(&grown, "add (a.py:2)"), at(&shrunk, "mul (a.py:1)")), (4096, 1024));
        let back = difference(&trace, history, 6, 2, Live::Active);
        assert_eq!((back.grown.total(), back.shrunk.total()), (1024, 2048 + 4096));
    }

    #[test]
    fn live_blocks_are_grouped_by_everything_that_tells_them_apart() {
        let trace = trace();
        let history = history(&trace);
        let sums = |groups: Vec<LiveGroup>| groups.iter().map(|group| (group.bytes, group.count)).collect::<Vec<_>>();
        let signatures = Signatures::new(&trace, false);
        let found = groups(history, 6, Live::Active, by_signature(history, &signatures));
        assert_eq!(sums(found.clone()), [(4608, 2), (2048, 1)]);
        assert_eq!(found[1].group, Group::Signature(SignatureId(0)));
        let found = groups(history, 6, Live::Active, by_stream(history));
        assert_eq!((found[0].group, found[1].group), (Group::Stream(7), Group::Stream(0)));
        assert_eq!(sums(groups(history, 6, Live::Active, by_pool(history))), [(6144, 2), (512, 1)]);
        let found = groups(history, 6, Live::Active, by_category(history));
        assert_eq!(sums(found.clone()), [(6144, 2), (512, 1)]);
        assert_eq!(found[0].group, Group::Category(StringId::EMPTY));
        // Steps between the states 1, 3 and 6: the first block is from before them.
        let steps = steps::marked(history, &[5, 25, 55]).unwrap();
        let found = groups(history, 5, Live::Active, by_age(history, &steps, 5));
        let ages: Vec<_> = found.iter().map(|group| (group.group, group.bytes)).collect();
        assert_eq!(ages, [(Group::Age(Some(0)), 4096), (Group::Age(Some(1)), 2560), (Group::Age(None), 1024)]);
    }
}
