//! The expected sums after each entry, by the sizes of blocks in the simulated allocator.
//!
//! An entry of the file says what was asked for, not how large the block was: a reader has to find that.

use hashbrown::{HashMap, HashSet};

use super::allocator::{Action, Allocator, Entry, State};
use crate::sample::answer::{MemoryEnd, Peak};

#[derive(Debug)]
pub struct Expected {
    /// The size of the block of each allocation so far.
    held: HashMap<u64, u64>,
    /// Allocations whose block waits for a stream at the end.
    pending: HashSet<u64>,
    /// Entries that the recorder had lost again, and those seen so far.
    lost: u64,
    seen: u64,
    allocated: u64,
    active: u64,
    /// Blocks whose request to be freed is lost: a reader learns of it when it is completed.
    unheard: HashSet<u64>,
    /// Allocations that the history does not show, but for those live at the end.
    before: HashSet<u64>,
    /// Blocks that are freed in the history, but allocated before it.
    pub freed_from_before: u64,
    pub peak_allocated: Peak,
    pub peak_active: Peak,
}

impl Expected {
    pub fn new(end: &Allocator, lost: u64) -> Self {
        let pending = end.blocks.values().filter(|block| block.state == State::Pending);
        Self {
            held: HashMap::new(),
            pending: pending.map(|block| block.allocation).collect(),
            lost,
            seen: 0,
            allocated: 0,
            active: 0,
            unheard: HashSet::new(),
            before: HashSet::new(),
            freed_from_before: 0,
            peak_allocated: Peak::default(),
            peak_active: Peak::default(),
        }
    }

    /// Takes the next entry, lost or not.
    pub fn follow(&mut self, entry: &Entry) {
        let (id, is_lost) = (entry.allocation, self.seen < self.lost);
        if entry.action == Action::Alloc {
            self.held.insert(id, entry.held);
        }
        let (bytes, is_pending) = (self.held.get(&id).copied().unwrap_or_default(), self.pending.contains(&id));
        let is_free = matches!(entry.action, Action::FreeRequested | Action::FreeCompleted);
        if is_free && !is_lost && self.before.remove(&id) {
            self.freed_from_before += 1;
        }
        match entry.action {
            Action::Alloc => {
                self.allocated += bytes;
                self.active += bytes;
                if is_lost {
                    self.before.insert(id);
                }
            }
            // Where it never completes, the block is known to wait from the first state on.
            Action::FreeRequested if is_lost && !is_pending => drop(self.unheard.insert(id)),
            Action::FreeRequested => self.allocated -= bytes,
            Action::FreeCompleted => {
                if self.unheard.remove(&id) {
                    self.allocated -= bytes;
                }
                self.active -= bytes;
                self.before.remove(&id);
            }
            _ => {}
        }
        self.seen += 1;
        if self.seen >= self.lost {
            let state = self.seen - self.lost;
            self.peak_allocated.meet(state, self.allocated);
            self.peak_active.meet(state, self.active);
        }
    }

    pub fn end(&self, end: &Allocator) -> MemoryEnd {
        let sum = |of: fn(&super::allocator::Block) -> u64| end.blocks.values().map(of).sum();
        MemoryEnd {
            allocated: self.allocated,
            active: self.active,
            requested: sum(|block| if block.state == State::Allocated { block.requested } else { 0 }),
            reserved: end.reserved,
        }
    }
}
