//! Interns the raw texts of one block.

use hashbrown::HashTable;

use crate::model::hash_bytes;

/// Byte strings, each stored once.
#[derive(Debug, Default)]
pub struct Interner {
    bytes: Vec<u8>,
    spans: Vec<(u32, u32)>,
    table: HashTable<u32>,
}

impl Interner {
    /// The id of `text`, new or known; and whether it is new.
    #[inline]
    pub fn intern(&mut self, text: &[u8]) -> (u32, bool) {
        let (bytes, spans) = (&self.bytes, &self.spans);
        let hash = hash_bytes(text);
        if let Some(&id) = self.table.find(hash, |&id| slot(bytes, spans, id) == text) {
            return (id, false);
        }
        let id = self.spans.len() as u32;
        self.spans.push((self.bytes.len() as u32, text.len() as u32));
        self.bytes.extend_from_slice(text);
        let (bytes, spans) = (&self.bytes, &self.spans);
        self.table.insert_unique(hash, id, |&id| hash_bytes(slot(bytes, spans, id)));
        (id, true)
    }

    /// The id of `text`, if it is known.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        self.table.find(hash_bytes(text), |&id| self.get(id) == text).copied()
    }

    /// The text of an id returned by this interner.
    pub fn get(&self, id: u32) -> &[u8] {
        slot(&self.bytes, &self.spans, id)
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Forgets all texts and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.table.clear();
    }

    /// All texts, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.spans.iter().map(|&(start, len)| &self.bytes[start as usize..(start + len) as usize])
    }
}

fn slot<'a>(bytes: &'a [u8], spans: &[(u32, u32)], id: u32) -> &'a [u8] {
    let (start, len) = spans[id as usize];
    &bytes[start as usize..(start + len) as usize]
}
