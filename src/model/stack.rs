//! Call stacks interned as a tree, and stack samples.

use hashbrown::HashMap;

use super::{StringId, TimeNs, TrackId};

/// A call stack of one trace; an index into the columns of its [`StackTable`]. 0 is the empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct StackId(pub u32);

/// All call stacks of a trace. A stack is its innermost frame and the stack of its callers.
#[derive(Debug)]
pub struct StackTable {
    /// The callers' stack; always a smaller id. The empty stack is its own parent.
    pub parent: Vec<StackId>,
    /// The innermost frame.
    pub frame: Vec<StringId>,
    index: HashMap<(StackId, StringId), StackId>,
}

impl Default for StackTable {
    fn default() -> Self {
        Self { parent: vec![StackId(0)], frame: vec![StringId::EMPTY], index: HashMap::new() }
    }
}

impl StackTable {
    /// The stack of `frame` called from `callers`, added if new.
    pub fn intern(&mut self, callers: StackId, frame: StringId) -> StackId {
        let next = StackId(self.parent.len() as u32);
        let id = *self.index.entry((callers, frame)).or_insert(next);
        if id == next {
            self.parent.push(callers);
            self.frame.push(frame);
        }
        id
    }

    /// The frames of a stack, innermost first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = StringId> {
        let mut at = stack;
        std::iter::from_fn(move || {
            let (frame, parent) = (*self.frame.get(at.0 as usize)?, *self.parent.get(at.0 as usize)?);
            let is_end = at == StackId(0);
            at = parent;
            (!is_end).then_some(frame)
        })
    }

    /// Number of distinct stacks, including the empty one.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Always false: every table has the empty stack.
    pub fn is_empty(&self) -> bool {
        self.parent.is_empty()
    }
}

/// Stack samples of threads, sorted by (track, ts). All columns have the same length.
#[derive(Debug, Default)]
pub struct SampleTable {
    pub ts: Vec<TimeNs>,
    pub track: Vec<TrackId>,
    pub stack: Vec<StackId>,
}

impl SampleTable {
    pub fn len(&self) -> usize {
        self.ts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_share_their_callers() {
        let mut stacks = StackTable::default();
        let main = stacks.intern(StackId(0), StringId(1));
        let a = stacks.intern(main, StringId(2));
        let b = stacks.intern(main, StringId(3));
        assert_eq!(stacks.intern(main, StringId(2)), a);
        assert_eq!(stacks.len(), 4);
        assert_eq!(stacks.frames(b).collect::<Vec<_>>(), [StringId(3), StringId(1)]);
        assert_eq!(stacks.frames(StackId(0)).count(), 0);
        assert_eq!(stacks.frames(StackId(99)).count(), 0);
    }
}
