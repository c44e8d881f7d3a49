//! Interning of values.

use std::hash::Hash;

use hashbrown::HashMap;

/// Distinct values, numbered in order of first occurrence.
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
    /// The index of `item` in `items`, added if new.
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
