//! Interns frames and call stacks.

use hashbrown::HashTable;

use super::fold::FRAME;
use crate::model::{StackId, StackTable, StringId, StringTable};
use crate::reader::pickle::Value;

/// Longest call stack; the middle of deeper ones is left out.
const MAX_DEPTH: usize = 2048;

/// Known lists of frames, so that a stack costs one lookup instead of one per frame.
#[derive(Default)]
pub struct Stacks {
    pub table: StackTable,
    /// Known lists, one after another.
    frames: Vec<Value>,
    known: Vec<(u32, u32, StackId)>,
    index: HashTable<u32>,
    pub n_deep: u64,
}

fn hash(frames: &[Value]) -> u64 {
    const A: u64 = 0xA076_1D64_78BD_642F;
    const B: u64 = 0xE703_7ED1_A0B4_28DB;
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    // Two lanes: the products of one do not wait for those of the other.
    let (mut a, mut b) = (A ^ frames.len() as u64, B);
    let (pairs, rest) = frames.as_chunks::<2>();
    for [first, second] in pairs {
        a = fold(a ^ first.bits(), A);
        b = fold(b ^ second.bits(), B);
    }
    for last in rest {
        a = fold(a ^ last.bits(), A);
    }
    fold(a ^ b, B)
}

impl Stacks {
    /// The stack of a list of folded frames, innermost first. `frame` resolves a frame.
    pub fn intern(&mut self, list: &[Value]) -> StackId {
        let hash_of = hash(list);
        let (all, known) = (&self.frames, &self.known);
        let frames_of = |at: u32| {
            let (start, len, _) = known[at as usize];
            &all[start as usize..][..len as usize]
        };
        if let Some(&at) = self.index.find(hash_of, |&at| frames_of(at) == list) {
            return self.known[at as usize].2;
        }
        let stack = self.build(list);
        let at = self.known.len() as u32;
        if let (Ok(start), Ok(len)) = (u32::try_from(self.frames.len()), u32::try_from(list.len())) {
            self.frames.extend_from_slice(list);
            self.known.push((start, len, stack));
            let (all, known) = (&self.frames, &self.known);
            self.index.insert_unique(hash_of, at, |&at| {
                let (start, len, _) = known[at as usize];
                hash(&all[start as usize..][..len as usize])
            });
        }
        stack
    }

    fn build(&mut self, list: &[Value]) -> StackId {
        let (inner, outer) = match list.len() > MAX_DEPTH {
            true => {
                self.n_deep += 1;
                (&list[..MAX_DEPTH / 2], &list[list.len() - MAX_DEPTH / 2..])
            }
            false => (list, &list[..0]),
        };
        let mut stack = StackId::default();
        for frame in inner.iter().chain(outer).rev() {
            let name = StringId(frame.as_folded(FRAME).unwrap_or_default());
            stack = self.table.intern(stack, name);
        }
        stack
    }
}

/// The text of a frame: `name (filename:line)`, or its known parts.
pub fn frame(strings: &mut StringTable, text: &mut String, name: &str, file: &str, line: Option<i128>) -> StringId {
    use std::fmt::Write as _;
    text.clear();
    // C++ frames have no file; frames of torch's profiler with only a name have the file `none`.
    let is_known = !matches!(file, "" | "??" | "none");
    text.push_str(if name.is_empty() { "??" } else { name });
    // Unknown lines are -1, possibly as an unsigned 64-bit number.
    let line = line.filter(|line| (0..=i128::from(u32::MAX)).contains(line));
    // Writing into a string cannot fail.
    let _ = match (is_known, line) {
        (true, Some(line)) => write!(text, " ({file}:{line})"),
        (true, None) => write!(text, " ({file})"),
        (false, _) => Ok(()),
    };
    strings.intern(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_show_their_known_parts() {
        let mut strings = StringTable::default();
        let mut text = |name, file, line| {
            let id = frame(&mut strings, &mut String::new(), name, file, line);
            strings.get(id).to_owned()
        };
        assert_eq!(text("f", "/a/b.py", Some(7)), "f (/a/b.py:7)");
        assert_eq!(text("f", "??", Some(0)), "f");
        assert_eq!(text("f", "", None), "f");
        assert_eq!(text("f", "b.py", Some(u64::MAX.into())), "f (b.py)");
        assert_eq!(text("", "b.py", Some(-1)), "?? (b.py)");
    }

    #[test]
    fn lists_of_frames_are_stacks_with_the_innermost_first() {
        let mut stacks = Stacks::default();
        let list = |ids: &[u32]| ids.iter().map(|&id| Value::folded(FRAME, id)).collect::<Vec<_>>();
        let a = stacks.intern(&list(&[3, 2, 1]));
        let b = stacks.intern(&list(&[4, 2, 1]));
        assert_eq!(stacks.intern(&list(&[3, 2, 1])), a);
        assert_eq!(stacks.table.frames(b).collect::<Vec<_>>(), [StringId(4), StringId(2), StringId(1)]);
        assert_eq!(stacks.table.len(), 5);
        let deep: Vec<u32> = (1..=5000).collect();
        let deep = stacks.intern(&list(&deep));
        assert_eq!((stacks.table.frames(deep).count(), stacks.n_deep), (2048, 1));
    }
}
