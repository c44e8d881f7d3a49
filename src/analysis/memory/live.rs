//! Live memory in one state, summed by signature, pool, stream, category or age.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::signature::{SignatureId, Signatures};
use super::steps::Steps;
use crate::analysis::stacks::BEFORE;
use crate::model::memory::{AllocationId, PoolId};
use crate::model::{MemoryHistory, StackId, StringId, Trace};

/// When a block ceases to count as live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LiveUntil {
    /// When it can be reused: the curve `active`.
    #[default]
    Active,
    /// When the program frees it: the curve `allocated`.
    Allocated,
}

impl LiveUntil {
    /// The first state in which the block no longer counts.
    pub fn end(self, history: &MemoryHistory, id: AllocationId) -> u32 {
        match self {
            Self::Active => history.allocations.end[id.idx()],
            Self::Allocated => history.allocations.freed[id.idx()],
        }
    }
}

/// The blocks that are live in a state, by id. Cost: O(blocks allocated so far).
pub fn live(history: &MemoryHistory, state: u32, until: LiveUntil) -> impl Iterator<Item = AllocationId> + '_ {
    // Ids ascend with the state of allocation.
    let began = history.allocations.start.partition_point(|&start| start <= state) as u32;
    (0..began).map(AllocationId).filter(move |&id| until.end(history, id) > state)
}

/// Key of a group of live blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKey {
    Signature(SignatureId),
    /// Without a stack, as its allocation was not recorded.
    Before,
    Pool(PoolId),
    /// The stream's handle.
    Stream(i64),
    Category(StringId),
    /// Steps since the allocation; 0 is the current step, `None` before the first step.
    Age(Option<u32>),
}

/// Live memory of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveGroup {
    pub group: GroupKey,
    pub bytes: u64,
    /// Number of blocks.
    pub count: u64,
}

impl LiveGroup {
    /// Its frames, innermost first; empty unless it is a signature.
    pub fn frames<'a>(&self, trace: &'a Trace, signatures: &Signatures) -> Vec<Cow<'a, str>> {
        match self.group {
            GroupKey::Signature(signature) => signatures.frames(trace, signature),
            GroupKey::Before => vec![BEFORE.into()],
            _ => Vec::new(),
        }
    }
}

/// Sums live blocks by group; sorted by bytes, descending, then group.
///
/// Cost: O(blocks allocated so far + groups · log groups).
pub fn groups(
    history: &MemoryHistory,
    state: u32,
    until: LiveUntil,
    group: impl Fn(AllocationId) -> GroupKey,
) -> Vec<LiveGroup> {
    groups_of(history, live(history, state, until), group)
}

/// The same of any blocks. Cost: O(blocks + groups · log groups).
pub fn groups_of(
    history: &MemoryHistory,
    blocks: impl Iterator<Item = AllocationId>,
    group: impl Fn(AllocationId) -> GroupKey,
) -> Vec<LiveGroup> {
    let mut found: Vec<LiveGroup> = Vec::new();
    let mut index: HashMap<GroupKey, usize> = HashMap::new();
    for id in blocks {
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

/// Sorts the first `top` groups by bytes, descending, then name; 0 sorts all.
///
/// Names are computed only for groups of equal size. Cost: O(groups + top · log top).
pub fn sort_first<Name: Ord>(groups: &mut [LiveGroup], top: usize, name: impl Fn(&LiveGroup) -> Name) {
    let order = |a: &LiveGroup, b: &LiveGroup| b.bytes.cmp(&a.bytes).then_with(|| name(a).cmp(&name(b)));
    let first = if (1..groups.len()).contains(&top) { groups.select_nth_unstable_by(top, order).0 } else { groups };
    first.sort_unstable_by(order);
}

/// Groups by signature; blocks without a stack by whether their allocation was recorded.
pub fn by_signature<'a>(
    history: &'a MemoryHistory,
    signatures: &'a Signatures,
) -> impl Fn(AllocationId) -> GroupKey + use<'a> {
    let all = &history.allocations;
    move |id| match all.stack[id.idx()] {
        stack if stack == StackId::default() && !all.was_recorded(id) => GroupKey::Before,
        stack => GroupKey::Signature(signatures.of(stack)),
    }
}

/// Groups by stream and private pool.
pub fn by_pool(history: &MemoryHistory) -> impl Fn(AllocationId) -> GroupKey + use<'_> {
    move |id| GroupKey::Pool(history.allocations.pool[id.idx()])
}

/// Groups by the stream that a block was allocated for.
pub fn by_stream(history: &MemoryHistory) -> impl Fn(AllocationId) -> GroupKey + use<'_> {
    move |id| GroupKey::Stream(history.pool_of(id).stream)
}

/// Groups by recorded category.
pub fn by_category(history: &MemoryHistory) -> impl Fn(AllocationId) -> GroupKey + use<'_> {
    move |id| GroupKey::Category(history.allocations.category(id))
}

/// Groups by the number of steps between a block's allocation and `state`.
pub fn by_age<'a>(
    history: &'a MemoryHistory,
    steps: &'a Steps,
    state: u32,
) -> impl Fn(AllocationId) -> GroupKey + use<'a> {
    // States after the last step count as one more step.
    let step_of = |state: u32| steps.boundaries.partition_point(|&boundary| boundary < state);
    let now = step_of(state);
    move |id| {
        let step = step_of(history.allocations.start[id.idx()]);
        GroupKey::Age((step > 0).then(|| now.saturating_sub(step) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Script, history};
    use super::super::steps;
    use super::*;
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
            let sum = |until| live(history, state, until).map(|id| history.allocations.bytes[id.idx()]).sum::<u64>();
            assert_eq!(sum(LiveUntil::Active), history.curves.active[state as usize]);
            assert_eq!(sum(LiveUntil::Allocated), history.curves.allocated[state as usize]);
        }
    }

    #[test]
    fn sort_first_orders_by_bytes_then_name() {
        let group = |stream, bytes| LiveGroup { group: GroupKey::Stream(stream), bytes, count: 1 };
        let all = [group(5, 10), group(4, 30), group(3, 10), group(2, 20), group(1, 10)];
        // By descending stream number.
        let name = |of: &LiveGroup| match of.group {
            GroupKey::Stream(stream) => -stream,
            _ => 0,
        };
        let expected = [all[1], all[3], all[0], all[2], all[4]];
        for top in 0..7 {
            let mut found = all;
            sort_first(&mut found, top, name);
            let n = if top == 0 { 5 } else { top.min(5) };
            assert_eq!(found[..n], expected[..n], "{top}");
        }
    }

    #[test]
    fn live_blocks_are_grouped_by_each_key() {
        let trace = trace();
        let history = history(&trace);
        let sums = |groups: Vec<LiveGroup>| groups.iter().map(|group| (group.bytes, group.count)).collect::<Vec<_>>();
        let signatures = Signatures::new(&trace, false);
        let found = groups(history, 6, LiveUntil::Active, by_signature(history, &signatures));
        assert_eq!(sums(found.clone()), [(4608, 2), (2048, 1)]);
        assert_eq!(found[1].group, GroupKey::Signature(SignatureId(0)));
        let found = groups(history, 6, LiveUntil::Active, by_stream(history));
        assert_eq!((found[0].group, found[1].group), (GroupKey::Stream(7), GroupKey::Stream(0)));
        assert_eq!(sums(groups(history, 6, LiveUntil::Active, by_pool(history))), [(6144, 2), (512, 1)]);
        let found = groups(history, 6, LiveUntil::Active, by_category(history));
        assert_eq!(sums(found.clone()), [(6144, 2), (512, 1)]);
        assert_eq!(found[0].group, GroupKey::Category(StringId::EMPTY));
        // Steps between the states 1, 3 and 6: the first block is from before them.
        let steps = steps::marked(history, &[5, 25, 55]).unwrap();
        let found = groups(history, 5, LiveUntil::Active, by_age(history, &steps, 5));
        let ages: Vec<_> = found.iter().map(|group| (group.group, group.bytes)).collect();
        assert_eq!(ages, [(GroupKey::Age(Some(0)), 4096), (GroupKey::Age(Some(1)), 2560), (GroupKey::Age(None), 1024)]);
    }
}
