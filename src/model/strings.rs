//! Strings interned to 32-bit ids.

use hashbrown::HashTable;

/// A string of one [`StringTable`]; meaningless with another table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct StringId(pub u32);

impl StringId {
    /// The empty string, in every table.
    pub const EMPTY: Self = Self(0);
}

/// All strings of a trace in one buffer.
#[derive(Debug)]
pub struct StringTable {
    text: String,
    ends: Vec<usize>,
    index: HashTable<u32>,
}

impl Default for StringTable {
    fn default() -> Self {
        let mut table = Self { text: String::new(), ends: Vec::new(), index: HashTable::new() };
        table.intern("");
        table
    }
}

impl StringTable {
    /// The text of `id`; empty for an id of another table that is out of range here.
    pub fn get(&self, id: StringId) -> &str {
        let index = id.0 as usize;
        let start = if index == 0 { 0 } else { self.ends.get(index - 1).copied().unwrap_or(0) };
        let end = self.ends.get(index).copied().unwrap_or(start);
        self.text.get(start..end).unwrap_or_default()
    }

    /// The id of `text`, added if new.
    pub fn intern(&mut self, text: &str) -> StringId {
        let hash = hash_bytes(text.as_bytes());
        let (all, ends) = (&self.text, &self.ends);
        if let Some(&id) = self.index.find(hash, |&id| slot(all, ends, id) == text) {
            return StringId(id);
        }
        let id = self.ends.len() as u32;
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (all, ends) = (&self.text, &self.ends);
        self.index.insert_unique(hash, id, |&id| hash_bytes(slot(all, ends, id).as_bytes()));
        StringId(id)
    }

    /// The id of `text`, if it occurs in this trace.
    pub fn find(&self, text: &str) -> Option<StringId> {
        let hash = hash_bytes(text.as_bytes());
        self.index.find(hash, |&id| slot(&self.text, &self.ends, id) == text).map(|&id| StringId(id))
    }

    /// Number of distinct strings, including the empty one.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Always false: every table has the empty string.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All strings with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (StringId, &str)> {
        (0..self.ends.len()).map(|index| {
            let id = StringId(index as u32);
            (id, self.get(id))
        })
    }

    /// Bytes of memory held.
    pub fn heap_bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * 8 + self.index.capacity() * 5
    }
}

fn slot<'a>(text: &'a str, ends: &[usize], id: u32) -> &'a str {
    let start = if id == 0 { 0 } else { ends[id as usize - 1] };
    &text[start..ends[id as usize]]
}

/// A fast hash of a name that is stable across machines and runs, so that colors derived from it are too.
///
/// Folded multiplication of 8-byte words, as in wyhash. Not collision-resistant: a crafted file can slow down
/// the table, but nothing else.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    const SEED: u64 = 0x9E37_79B9_7F4A_7C15;
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let mut hash = SEED ^ bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = fold(hash ^ u64::from_le_bytes(*word), 0xA076_1D64_78BD_642F);
    }
    let mut last = [0_u8; 8];
    last[..rest.len()].copy_from_slice(rest);
    fold(hash ^ u64::from_le_bytes(last), 0xE703_7ED1_A0B4_28DB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_stored_once() {
        let mut table = StringTable::default();
        let a = table.intern("aten::mm");
        let b = table.intern("aten::add");
        assert_eq!(table.intern("aten::mm"), a);
        assert_ne!(a, b);
        assert_eq!(table.get(a), "aten::mm");
        assert_eq!(table.get(StringId::EMPTY), "");
        assert_eq!(table.find("aten::add"), Some(b));
        assert_eq!(table.find("aten::sub"), None);
        assert_eq!(table.len(), 3);
    }

    #[test]
    fn ids_of_another_table_do_not_panic() {
        assert_eq!(StringTable::default().get(StringId(99)), "");
    }
}
