//! The stack and the memo of the pickle machine, and the folding of finished containers.

use super::Fault;
use super::store::{NO_MEMO, Store};
use super::value::{Tag, Value};

/// Python writes at most this many items at once, and more in several batches.
const BATCH: usize = 1000;

/// Most values on the stack.
const MAX_STACK: usize = 64 << 20;

/// Converts containers as soon as they are complete, so that no tree of them is kept.
pub trait Fold {
    /// A dictionary: key, value, key, value; the last value of a key counts. Returns a kind and an index
    /// defined by the implementation, or `None` to keep the dictionary.
    fn dict(&mut self, pairs: &[Value], store: &mut Store, offset: u64) -> Option<(u8, u32)>;

    /// A list that is not empty.
    fn list(&mut self, items: &[Value], store: &Store) -> Option<(u8, u32)>;

    /// A tuple.
    fn tuple(&mut self, items: &[Value], store: &Store) -> Option<(u8, u32)>;
}

/// Values on their way into containers.
#[derive(Debug, Default)]
pub struct Heap<F> {
    pub store: Store,
    pub fold: F,
    pub stack: Vec<Value>,
    /// The offset in the file.
    pub offset: u64,
    memo: Vec<Value>,
    n_memo: u32,
}

impl<F: Fold> Heap<F> {
    pub fn new(fold: F) -> Self {
        Self { store: Store::default(), fold, stack: Vec::new(), offset: 0, memo: Vec::new(), n_memo: 0 }
    }

    /// Errors: more values than any snapshot has open at once.
    #[inline]
    pub fn push(&mut self, value: Value) -> Result<(), Fault> {
        if self.stack.len() >= MAX_STACK {
            return Err(Fault::TooMuch("values awaiting a list"));
        }
        self.stack.push(value);
        Ok(())
    }

    /// Puts a value into the memo. Indices must be below `limit`, the number of bytes so far, which bounds memory
    /// by the size of the file.
    ///
    /// Errors: the index is higher.
    pub fn put(&mut self, index: u64, value: Value, limit: u64) -> Result<(), Fault> {
        if index >= limit || index >= u64::from(NO_MEMO) {
            return Err(Fault::Damaged("a memo index beyond the bytes read"));
        }
        let at = index as usize;
        if at >= self.memo.len() {
            self.memo.resize(at + 1, Value::UNSET);
        }
        self.n_memo += u32::from(self.memo[at] == Value::UNSET);
        self.memo[at] = value;
        self.store.remember_memo(value, index as u32);
        Ok(())
    }

    /// The same at the next free index.
    ///
    /// Errors: the memo is full.
    #[inline]
    pub fn memoize(&mut self, value: Value) -> Result<(), Fault> {
        let at = self.n_memo as usize;
        if at != self.memo.len() {
            return self.put(at as u64, value, u64::MAX);
        }
        self.memo.push(value);
        self.n_memo += 1;
        self.store.remember_memo(value, at as u32);
        Ok(())
    }

    /// Pushes a value of the memo.
    ///
    /// Errors: the index is empty.
    #[inline]
    pub fn get(&mut self, index: u64) -> Result<(), Fault> {
        match self.memo.get(index as usize) {
            Some(&value) if value != Value::UNSET => self.push(value),
            _ => Err(Fault::Damaged("it refers to a value that was never stored")),
        }
    }

    /// Puts the values from `base` on into the list below them.
    ///
    /// Errors: there is no list, it is complete already, or there are too many.
    pub fn append(&mut self, base: usize) -> Result<(), Fault> {
        let list = self.container(base, Tag::List)?;
        self.settle(base);
        let items = &self.stack[base..];
        let is_whole = items.len() < BATCH && items.len() > 1 && self.store.is_empty_box(list);
        match if is_whole { self.fold.list(items, &self.store) } else { None } {
            Some(folded) => self.replace(list, folded, base - 1),
            None => self.store.extend(list, items)?,
        }
        self.stack.truncate(base);
        Ok(())
    }

    /// Puts the pairs from `base` on into the dictionary below them.
    ///
    /// Errors: there is no dictionary, a key has no value, it is complete already, or there are too many.
    pub fn set_items(&mut self, base: usize) -> Result<(), Fault> {
        let dict = self.container(base, Tag::Dict)?;
        if !(self.stack.len() - base).is_multiple_of(2) {
            return Err(Fault::Damaged("a key without a value"));
        }
        self.settle(base);
        let pairs = &self.stack[base..];
        let is_whole = pairs.len() < 2 * BATCH && pairs.len() > 2 && self.store.is_empty_box(dict);
        let folded = if is_whole { self.fold.dict(pairs, &mut self.store, self.offset) } else { None };
        match folded {
            Some(folded) => self.replace(dict, folded, base - 1),
            None => self.store.extend(dict, &self.stack[base..])?,
        }
        self.stack.truncate(base);
        Ok(())
    }

    /// Replaces the values from `base` on by a tuple of them.
    ///
    /// Errors: there are too many.
    pub fn make_tuple(&mut self, base: usize) -> Result<(), Fault> {
        self.settle(base);
        let items = &self.stack[base..];
        let tuple = match self.fold.tuple(items, &self.store) {
            Some((kind, id)) => Value::folded(kind, id),
            None => self.store.tuple(items)?,
        };
        self.stack.truncate(base);
        self.push(tuple)
    }

    /// The open list or dictionary below `base`.
    fn container(&self, base: usize, tag: Tag) -> Result<Value, Fault> {
        let value = base.checked_sub(1).and_then(|at| self.stack.get(at));
        value.copied().filter(|value| value.tag() == tag).ok_or(Fault::Damaged(match tag {
            Tag::List => "items without a list",
            _ => "pairs without a dictionary",
        }))
    }

    /// Folds a value that is complete because it was put into a container.
    fn settle(&mut self, base: usize) {
        for at in base..self.stack.len() {
            if self.stack[at].is_box() {
                self.settle_one(at);
            }
        }
    }

    fn settle_one(&mut self, at: usize) {
        let value = self.store.settled(self.stack[at]);
        self.stack[at] = value;
        if !value.is_box() {
            return;
        }
        let Some(items) = self.store.foldable(value) else { return };
        let folded = match value.tag() {
            Tag::Dict => self.fold.dict(&items, &mut self.store, self.offset),
            _ => self.fold.list(&items, &self.store),
        };
        self.store.keep(value, items);
        if let Some(folded) = folded {
            self.replace(value, folded, at);
        }
    }

    /// Replaces a container by its folded value on the stack and in the memo.
    fn replace(&mut self, container: Value, folded: (u8, u32), at: usize) {
        let value = Value::folded(folded.0, folded.1);
        let memo = self.store.fold(container, folded);
        if let Some(known) = self.memo.get_mut(memo as usize).filter(|known| **known == container) {
            *known = value;
        }
        self.stack[at] = value;
    }
}
