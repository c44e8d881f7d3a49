//! The opcodes that Python's own pickler writes for plain data, protocols 0 to 5.
//!
//! Every dictionary, list, tuple and text is memoised, and items come in batches of 1000, as there.

use std::io::{self, Write};

use hashbrown::HashMap;

/// Items a batch.
const BATCH: u64 = 1000;
/// Bytes after which a frame of protocol 4 ends.
const FRAME: usize = 64 << 10;

/// What an open container holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    List,
    Dict,
}

/// A container whose items are being written.
#[derive(Debug, Default)]
pub struct Items {
    kind: Kind,
    total: u64,
    done: u64,
    /// The container's place in the memo.
    pub memo: u32,
}

/// Writes one pickle. Memory: a frame, and the texts and frames that are shared.
pub struct Pickler<'a> {
    sink: &'a mut dyn Write,
    protocol: u8,
    frame: Vec<u8>,
    next_memo: u32,
    texts: HashMap<&'static str, u32>,
}

impl<'a> Pickler<'a> {
    /// Errors here and below: the sink's.
    pub fn new(sink: &'a mut dyn Write, protocol: u8) -> io::Result<Self> {
        if protocol >= 2 {
            sink.write_all(&[0x80, protocol])?;
        }
        Ok(Self { sink, protocol, frame: Vec::with_capacity(2 * FRAME), next_memo: 0, texts: HashMap::new() })
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.frame.push(b'.');
        self.end_frame()
    }

    fn end_frame(&mut self) -> io::Result<()> {
        if self.protocol >= 4 {
            self.sink.write_all(&[0x95])?;
            self.sink.write_all(&(self.frame.len() as u64).to_le_bytes())?;
        }
        self.sink.write_all(&self.frame)?;
        self.frame.clear();
        Ok(())
    }

    /// Puts the object just written into the memo.
    fn memoize(&mut self) -> u32 {
        let id = self.next_memo;
        self.next_memo += 1;
        match (self.protocol, u8::try_from(id)) {
            (0, _) => self.line('p', id),
            (1..=3, Ok(id)) => self.frame.extend([b'q', id]),
            (1..=3, Err(_)) => self.with(b'r', &id.to_le_bytes()),
            _ => self.frame.push(0x94),
        }
        id
    }

    /// Writes an object of the memo again.
    pub fn get(&mut self, id: u32) {
        match (self.protocol, u8::try_from(id)) {
            (0, _) => self.line('g', id),
            (_, Ok(id)) => self.frame.extend([b'h', id]),
            (_, Err(_)) => self.with(b'j', &id.to_le_bytes()),
        }
    }

    fn line(&mut self, opcode: char, value: impl std::fmt::Display) {
        // Writing to a vector cannot fail.
        let _ = writeln!(self.frame, "{opcode}{value}");
    }

    fn with(&mut self, opcode: u8, bytes: &[u8]) {
        self.frame.push(opcode);
        self.frame.extend(bytes);
    }

    pub fn int(&mut self, value: i64) {
        match (self.protocol, i32::try_from(value)) {
            (0, Ok(value)) => self.line('I', value),
            (0 | 1, Err(_)) => self.line('L', format_args!("{value}L")),
            (_, Ok(small)) => match (u8::try_from(small), u16::try_from(small)) {
                (Ok(byte), _) => self.frame.extend([b'K', byte]),
                (_, Ok(short)) => self.with(b'M', &short.to_le_bytes()),
                _ => self.with(b'J', &small.to_le_bytes()),
            },
            (_, Err(_)) => {
                let bytes = value.to_le_bytes();
                // As few bytes as keep the sign.
                let needed = (1..8).find(|&n| value >> (8 * n - 1) == value >> 63).unwrap_or(8);
                self.frame.extend([0x8a, needed as u8]);
                self.frame.extend(&bytes[..needed]);
            }
        }
    }

    pub fn bool(&mut self, value: bool) {
        match self.protocol {
            0 | 1 => self.line('I', if value { "01" } else { "00" }),
            _ => self.frame.push(if value { 0x88 } else { 0x89 }),
        }
    }

    pub fn float(&mut self, value: f64) {
        match self.protocol {
            0 => self.line('F', format_args!("{value:?}")),
            _ => self.with(b'G', &value.to_be_bytes()),
        }
    }

    /// A text of its own. Only ASCII without line breaks and backslashes is written, which needs no escapes.
    pub fn text(&mut self, text: &str) -> u32 {
        match (self.protocol, u8::try_from(text.len())) {
            (0, _) => self.line('V', text),
            (4.., Ok(length)) => {
                self.frame.extend([0x8c, length]);
                self.frame.extend(text.as_bytes());
            }
            _ => {
                self.with(b'X', &(text.len() as u32).to_le_bytes());
                self.frame.extend(text.as_bytes());
            }
        }
        self.memoize()
    }

    /// A text that the program has once.
    pub fn shared(&mut self, text: &'static str) {
        match self.texts.get(text) {
            Some(&id) => self.get(id),
            None => {
                let id = self.text(text);
                self.texts.insert(text, id);
            }
        }
    }

    /// A pair of small numbers, new each time.
    pub fn pair(&mut self, first: i64, second: i64) {
        if self.protocol < 2 {
            self.frame.push(b'(');
        }
        self.int(first);
        self.int(second);
        self.frame.push(if self.protocol < 2 { b't' } else { 0x86 });
        self.memoize();
    }

    pub fn dict(&mut self, total: u64) -> Items {
        self.container(Kind::Dict, total)
    }

    pub fn list(&mut self, total: u64) -> Items {
        self.container(Kind::List, total)
    }

    fn container(&mut self, kind: Kind, total: u64) -> Items {
        match (self.protocol, kind) {
            (0, Kind::Dict) => self.frame.extend(b"(d"),
            (0, Kind::List) => self.frame.extend(b"(l"),
            (_, Kind::Dict) => self.frame.push(b'}'),
            (_, Kind::List) => self.frame.push(b']'),
        }
        Items { kind, total, done: 0, memo: self.memoize() }
    }

    /// Begins the next item; the one before it is complete.
    pub fn next(&mut self, items: &mut Items) -> io::Result<()> {
        let is_single = self.protocol == 0 || items.total == 1;
        if items.done > 0 && (is_single || items.done.is_multiple_of(BATCH)) {
            self.close(items);
        }
        if !is_single && items.done.is_multiple_of(BATCH) {
            self.frame.push(b'(');
        }
        items.done += 1;
        if self.frame.len() >= FRAME { self.end_frame() } else { Ok(()) }
    }

    /// Begins the next entry of a dictionary.
    pub fn key(&mut self, items: &mut Items, key: &'static str) -> io::Result<()> {
        self.next(items)?;
        self.shared(key);
        Ok(())
    }

    /// All items are written.
    pub fn end(&mut self, items: &Items) {
        debug_assert_eq!(items.done, items.total, "as many items as were promised");
        if items.done > 0 {
            self.close(items);
        }
    }

    fn close(&mut self, items: &Items) {
        let is_single = self.protocol == 0 || items.total == 1;
        self.frame.push(match (items.kind, is_single) {
            (Kind::List, true) => b'a',
            (Kind::List, false) => b'e',
            (Kind::Dict, true) => b's',
            (Kind::Dict, false) => b'u',
        });
    }
}
