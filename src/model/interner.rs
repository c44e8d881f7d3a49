//! Distinct values, numbered.

use std::hash::Hash;

use hashbrown::HashMap;

/// Distinct values, numbered in the order in which they came.
#[derive(Debug)]
pub struct Interner<T> {
    pub items: Vec<T>,
    index: HashMap<T, u32>,
    last: Option<(T, u32)>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { items: Vec::new(), index: HashMap::new(), last: None }
    }
}

impl<T: Copy + Eq + Hash> Interner<T> {
    /// The number of `item`, new or known: its index in `items`.
    #[inline]
    pub fn intern(&mut self, item: T) -> u32 {
        match self.last {
            Some((last, id)) if last == item => id,
            _ => {
                let next = self.items.len() as u32;
                let id = *self.index.entry(item).or_insert(next);
                if id == next {
                    self.items.push(item);
                }
                self.last = Some((item, id));
                id
            }
        }
    }
}
