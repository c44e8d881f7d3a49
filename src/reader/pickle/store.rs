//! The arenas of pickle values, one for each type, without nesting.
//!
//! A container is an index into an arena, so that deep nesting causes no recursion, neither when reading nor
//! when dropping. Few lists and dictionaries hold values at a time: each finished one is folded into something
//! smaller.

use super::Fault;
use super::value::{Tag, Value};
use crate::model::StringTable;

/// Most lists and dictionaries of a file; a snapshot of five million events has eight million.
const MAX_BOXES: usize = 48 << 20;

/// Most non-empty lists and dictionaries that were not folded.
const MAX_ITEMS: usize = 8 << 20;

/// Most values in tuples.
const MAX_TUPLES: usize = 64 << 20;

/// Longest tuple.
const MAX_TUPLE: usize = 1 << 20;

/// The state of a list or dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    /// Holds values: a place in `items`.
    Open(u32),
    /// The same, but not foldable.
    Kept(u32),
    /// Its values were taken.
    Taken,
    Folded(u8, u32),
}

/// The arenas.
#[derive(Debug, Default)]
pub struct Store {
    /// Interned strings.
    pub strings: StringTable,
    bigs: Vec<i128>,
    floats: Vec<f64>,
    tuples: Vec<Value>,
    boxes: Vec<State>,
    /// The memo index of each box, for replacing it there when folded.
    memo_of: Vec<u32>,
    items: Vec<Vec<Value>>,
    spare: Vec<u32>,
    /// Strings that were not UTF-8.
    pub n_bad_texts: u64,
}

/// Not in the memo.
pub const NO_MEMO: u32 = u32::MAX;

impl Store {
    /// A number of any size.
    pub fn int(&mut self, value: i128) -> Value {
        if let Some(small) = i64::try_from(value).ok().and_then(Value::int) {
            return small;
        }
        self.bigs.push(value);
        Value::new(Tag::Big, self.bigs.len() as u64 - 1)
    }

    pub fn float(&mut self, value: f64) -> Value {
        self.floats.push(value);
        Value::new(Tag::Float, self.floats.len() as u64 - 1)
    }

    /// A string; bytes that are not UTF-8 become U+FFFD.
    pub fn text(&mut self, bytes: &[u8]) -> Value {
        let id = match std::str::from_utf8(bytes) {
            Ok(text) => self.strings.intern(text),
            Err(_) => {
                self.n_bad_texts += 1;
                self.strings.intern(&String::from_utf8_lossy(bytes))
            }
        };
        Value::new(Tag::Str, u64::from(id.0))
    }

    /// A tuple of these values.
    ///
    /// Errors: it is longer than any snapshot has, or there are too many.
    pub fn tuple(&mut self, values: &[Value]) -> Result<Value, Fault> {
        if values.len() > MAX_TUPLE || self.tuples.len() + values.len() > MAX_TUPLES {
            return Err(Fault::TooMuch("values in tuples"));
        }
        let start = self.tuples.len() as u64;
        self.tuples.extend_from_slice(values);
        Ok(Value::new(Tag::Tuple, start << 21 | values.len() as u64))
    }

    /// An empty list or dictionary.
    ///
    /// Errors: there are too many.
    pub fn empty(&mut self, tag: Tag) -> Result<Value, Fault> {
        if self.boxes.len() >= MAX_BOXES {
            return Err(Fault::TooMuch("lists and dictionaries"));
        }
        self.boxes.push(State::Empty);
        self.memo_of.push(NO_MEMO);
        Ok(Value::new(tag, self.boxes.len() as u64 - 1))
    }

    /// The number of lists and dictionaries so far.
    pub fn n_boxes(&self) -> usize {
        self.boxes.len()
    }

    pub fn remember_memo(&mut self, value: Value, index: u32) {
        if value.is_box() {
            self.memo_of[value.index() as usize] = index;
        }
    }

    /// Whether a list or dictionary never held anything.
    pub fn is_empty_box(&self, value: Value) -> bool {
        value.is_box() && self.boxes[value.index() as usize] == State::Empty
    }

    /// The folded value of a list or dictionary; other values unchanged.
    #[inline]
    pub fn settled(&self, value: Value) -> Value {
        match value.is_box() {
            true => match self.boxes[value.index() as usize] {
                State::Folded(kind, id) => Value::folded(kind, id),
                _ => value,
            },
            false => value,
        }
    }

    /// Adds values to a list, or pairs to a dictionary.
    ///
    /// Errors: it is complete already, or too many hold something.
    pub fn extend(&mut self, container: Value, values: &[Value]) -> Result<(), Fault> {
        if !container.is_box() {
            return Err(Fault::Damaged("items without a list"));
        }
        let state = &mut self.boxes[container.index() as usize];
        match *state {
            State::Open(at) | State::Kept(at) => self.items[at as usize].extend_from_slice(values),
            State::Empty if values.is_empty() => {}
            State::Empty => {
                let at = match self.spare.pop() {
                    Some(at) => at,
                    None if self.items.len() >= MAX_ITEMS => return Err(Fault::TooMuch("lists and dictionaries")),
                    None => {
                        self.items.push(Vec::new());
                        self.items.len() as u32 - 1
                    }
                };
                let items = &mut self.items[at as usize];
                // Most receive all their values at once.
                items.reserve_exact(values.len());
                items.extend_from_slice(values);
                *state = State::Open(at);
            }
            State::Taken | State::Folded(..) => {
                return Err(Fault::Damaged("a list or dictionary grows after it was used"));
            }
        }
        Ok(())
    }

    /// The values of a list or dictionary that may still be folded.
    pub fn foldable(&mut self, value: Value) -> Option<Vec<Value>> {
        match self.boxes[value.index() as usize] {
            State::Open(at) => Some(std::mem::take(&mut self.items[at as usize])),
            _ => None,
        }
    }

    /// Puts back the values that [`Store::foldable`] lent, since they were not folded.
    pub fn keep(&mut self, value: Value, items: Vec<Value>) {
        if let State::Open(at) = self.boxes[value.index() as usize] {
            self.items[at as usize] = items;
            self.boxes[value.index() as usize] = State::Kept(at);
        }
    }

    /// Replaces a list or dictionary by what it was folded into; returns its place in the memo.
    pub fn fold(&mut self, value: Value, into: (u8, u32)) -> u32 {
        let at = value.index() as usize;
        if let State::Open(items) | State::Kept(items) = self.boxes[at] {
            self.items[items as usize].clear();
            self.spare.push(items);
        }
        self.boxes[at] = State::Folded(into.0, into.1);
        self.memo_of[at]
    }

    /// Takes the values of a list or tuple, or the pairs of a dictionary: containers that a file references
    /// repeatedly are processed once.
    pub fn take(&mut self, value: Value) -> Option<Vec<Value>> {
        if !value.is_box() {
            return None;
        }
        let state = &mut self.boxes[value.index() as usize];
        match std::mem::replace(state, State::Taken) {
            State::Open(at) | State::Kept(at) => {
                self.spare.push(at);
                Some(std::mem::take(&mut self.items[at as usize]))
            }
            State::Empty => Some(Vec::new()),
            old => {
                *state = old;
                None
            }
        }
    }

    /// The values of a list or dictionary that were not taken, or of a tuple.
    pub fn items(&self, value: Value) -> &[Value] {
        match value.tag() {
            Tag::Tuple => {
                let (start, len) = ((value.payload() >> 21) as usize, (value.payload() & 0x1F_FFFF) as usize);
                self.tuples.get(start..start + len).unwrap_or_default()
            }
            Tag::List | Tag::Dict => match self.boxes[value.index() as usize] {
                State::Open(at) | State::Kept(at) => &self.items[at as usize],
                _ => &[],
            },
            _ => &[],
        }
    }

    /// A whole number.
    pub fn as_int(&self, value: Value) -> Option<i128> {
        match value.tag() {
            Tag::Int => Some(i128::from(value.as_small_int())),
            Tag::Big => self.bigs.get(value.payload() as usize).copied(),
            _ => None,
        }
    }

    pub fn as_float(&self, value: Value) -> Option<f64> {
        (value.tag() == Tag::Float).then(|| self.floats.get(value.payload() as usize).copied()).flatten()
    }
}
