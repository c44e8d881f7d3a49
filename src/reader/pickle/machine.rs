//! The pickle machine: executes opcodes.

use std::io::Read;

use super::code::{self, Class};
use super::input::Input;
use super::literal;
use super::value::{Tag, Value};
use super::{Fault, Fold, Heap};

/// Longest opcode with its argument, except texts.
const LONGEST: usize = 16;

/// Most marks at once: lists and dictionaries that are being filled.
const MAX_MARKS: usize = 16 << 20;

/// Lists and dictionaries that a file of any size may have, and bytes for each further one: an event of the shortest
/// form takes 30 and has two. Bounds memory by the size of the file.
const MIN_BOXES: u64 = 5 << 19;
const BYTES_OF_A_BOX: u64 = 16;

/// The state of the machine.
pub struct Machine<'a, R, F> {
    input: Input<'a, R>,
    pub heap: Heap<F>,
    /// Length of the stack at each mark.
    marks: Vec<usize>,
    /// Containers of a class equivalent to a plain one.
    pub n_classes: u64,
}

impl<'a, R: Read, F: Fold> Machine<'a, R, F> {
    pub fn new(input: Input<'a, R>, heap: Heap<F>) -> Self {
        Self { input, heap, marks: Vec::new(), n_classes: 0 }
    }

    /// Bytes used so far.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// Whether more than padding follows.
    ///
    /// Errors: cancelled, or the file cannot be read.
    pub fn has_more(&mut self) -> Result<bool, Fault> {
        self.input.has_more()
    }

    /// Runs to the end; returns the value of the pickle.
    ///
    /// Errors: see [`Fault`]; the values so far are on the stack.
    pub fn run(&mut self) -> Result<Value, Fault> {
        loop {
            self.input.want(LONGEST)?;
            let n_gets = self.run_gets()?;
            if n_gets > 0 {
                continue;
            }
            let Some((&op, rest)) = self.input.bytes().split_first() else { return Err(Fault::Cut) };
            let (one, two, four, eight) =
                (rest.first().copied(), rest.first_chunk::<2>(), rest.first_chunk::<4>(), rest.first_chunk::<8>());
            let of_four = |bytes: Option<&[u8; 4]>| bytes.map(|bytes| i32::from_le_bytes(*bytes)).ok_or(Fault::Cut);
            let (len, value) = match op {
                b'.' => {
                    let value = self.pop();
                    self.input.advance(1);
                    return value;
                }
                b'K' => (2, Value::small(one.ok_or(Fault::Cut)?.into())),
                b'M' => (3, Value::small(u16::from_le_bytes(*two.ok_or(Fault::Cut)?).into())),
                b'J' => (5, Value::small(of_four(four)?)),
                b'N' => (1, Value::NONE),
                0x88 => (1, Value::bool(true)),
                0x89 => (1, Value::bool(false)),
                0x8a => {
                    let len = usize::from(one.ok_or(Fault::Cut)?);
                    match (len, eight) {
                        // The usual length: an address or a time.
                        (..8, Some(bytes)) => {
                            let shift = 64 - 8 * len as u32;
                            let word = i64::from_le_bytes(*bytes) >> 8;
                            let number = word.checked_shl(shift).unwrap_or(0).checked_shr(shift).unwrap_or(0);
                            (2 + len, self.heap.store.int(number.into()))
                        }
                        _ => {
                            self.long(2, len as u64)?;
                            continue;
                        }
                    }
                }
                b'G' => (9, self.heap.store.float(f64::from_be_bytes(*eight.ok_or(Fault::Cut)?))),
                b'}' => (1, self.empty(Tag::Dict)?),
                b']' | 0x8f => (1, self.empty(Tag::List)?),
                b')' => (1, self.heap.store.tuple(&[])?),
                0x94 => {
                    let top = self.top()?;
                    self.input.advance(1);
                    self.heap.memoize(top)?;
                    continue;
                }
                b'(' => {
                    if self.marks.len() >= MAX_MARKS {
                        return Err(Fault::TooMuch("marks"));
                    }
                    self.input.advance(1);
                    self.marks.push(self.heap.stack.len());
                    continue;
                }
                _ => {
                    self.run_other(op)?;
                    continue;
                }
            };
            self.input.advance(len);
            self.heap.push(value)?;
        }
    }

    /// A new list or dictionary.
    ///
    /// Errors: there are more than a snapshot of this size has.
    #[inline]
    fn empty(&mut self, tag: Tag) -> Result<Value, Fault> {
        if self.heap.store.n_boxes() as u64 > MIN_BOXES + self.input.offset() / BYTES_OF_A_BOX {
            return Err(Fault::TooMuch("lists and dictionaries for its size"));
        }
        self.heap.store.empty(tag)
    }

    /// Runs consecutive references to the memo: call stacks consist almost entirely of them.
    #[inline]
    fn run_gets(&mut self) -> Result<usize, Fault> {
        let bytes = self.input.bytes();
        let mut at = 0;
        loop {
            match bytes[at..] {
                [b'j', a, b, c, d, ..] => {
                    self.heap.get(u32::from_le_bytes([a, b, c, d]).into())?;
                    at += 5;
                }
                [b'h', index, ..] => {
                    self.heap.get(index.into())?;
                    at += 2;
                }
                _ => break,
            }
        }
        self.input.advance(at);
        Ok(at)
    }

    /// The opcodes that fill containers, and the rare ones. Each moves the input itself.
    fn run_other(&mut self, op: u8) -> Result<(), Fault> {
        let offset = self.input.offset();
        self.heap.offset = offset;
        match op {
            b'e' | 0x90 => {
                let base = self.unmark()?;
                self.heap.append(base)?;
            }
            b'a' => self.heap.append(self.above(1)?)?,
            b'u' => {
                let base = self.unmark()?;
                self.heap.set_items(base)?;
            }
            b's' => self.heap.set_items(self.above(2)?)?,
            0x85..=0x87 => self.heap.make_tuple(self.above(usize::from(op - 0x84))?)?,
            b't' | 0x91 => {
                let base = self.unmark()?;
                self.heap.make_tuple(base)?;
            }
            b'l' | b'd' => self.make_filled(if op == b'l' { Tag::List } else { Tag::Dict })?,
            b'0' => self.drop_top()?,
            b'1' => {
                let base = self.unmark()?;
                self.heap.stack.truncate(base);
            }
            b'2' => {
                let top = self.top()?;
                self.heap.push(top)?;
            }
            0x80 | 0x95 => return self.input.skip(if op == 0x80 { 2 } else { 9 }),
            b'R' => self.reduce(offset)?,
            0x93 => self.stack_global(offset)?,
            _ => return self.run_with_argument(op, offset),
        }
        self.input.advance(1);
        Ok(())
    }

    /// Opcodes with arguments of variable length, and those that current writers do not use.
    fn run_with_argument(&mut self, op: u8, offset: u64) -> Result<(), Fault> {
        let length = |n: usize| {
            let bytes = self.input.bytes().get(1..=n).ok_or(Fault::Cut)?;
            Ok::<_, Fault>(bytes.iter().rev().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte)))
        };
        match op {
            0x8c | b'U' => self.text(2, length(1)?),
            b'X' | b'T' => self.text(5, length(4)?),
            0x8d => self.text(9, length(8)?),
            b'C' => self.bytes(2, length(1)?),
            b'B' => self.bytes(5, length(4)?),
            0x8e | 0x96 => self.bytes(9, length(8)?),
            0x8b => match length(4)? {
                len if len > i32::MAX as u64 => Err(Fault::Damaged("a number of negative length")),
                len => self.long(5, len),
            },
            b'q' => self.put(2, length(1)?, offset),
            b'r' => self.put(5, length(4)?, offset),
            b'h' | b'j' => Err(Fault::Cut),
            b'I' | b'L' | b'F' | b'S' | b'V' | b'p' | b'g' => self.line(op, offset),
            b'c' => self.global(offset),
            _ => Err(match code::refused(op) {
                Some(name) => Fault::Refused(code::sentence(name, offset, "")),
                None => Fault::Damaged("a byte that is not an opcode"),
            }),
        }
    }

    fn text(&mut self, head: usize, len: u64) -> Result<(), Fault> {
        let len = self.input.want_text(len.saturating_add(head as u64))?;
        let value = self.heap.store.text(&self.input.bytes()[head..len]);
        self.input.advance(len);
        self.heap.push(value)
    }

    /// Bytes: a snapshot contains no relevant ones.
    fn bytes(&mut self, head: u64, len: u64) -> Result<(), Fault> {
        self.input.skip(len.saturating_add(head))?;
        self.heap.push(Value::new(Tag::Bytes, 0))
    }

    fn long(&mut self, head: usize, len: u64) -> Result<(), Fault> {
        let len = self.input.want_text(len + head as u64)?;
        let value = self.heap.store.int(literal::long(&self.input.bytes()[head..len]));
        self.input.advance(len);
        self.heap.push(value)
    }

    fn put(&mut self, len: usize, index: u64, offset: u64) -> Result<(), Fault> {
        let top = self.top()?;
        self.input.advance(len);
        self.heap.put(index, top, offset)
    }

    /// Opcodes of protocol 0, whose argument is a line of text.
    fn line(&mut self, op: u8, offset: u64) -> Result<(), Fault> {
        self.input.advance(1);
        let len = self.input.want_line()?;
        let line = &self.input.bytes()[..len];
        let index = |line: &[u8]| literal::int(line).and_then(|index| u64::try_from(index).ok());
        let store = &mut self.heap.store;
        let value = match (op, line) {
            (b'I', b"01") => Some(Value::bool(true)),
            (b'I', b"00") => Some(Value::bool(false)),
            (b'I', _) => literal::int(line).map(|number| store.int(number)),
            (b'L', _) => literal::int(line.strip_suffix(b"L").unwrap_or(line)).map(|number| store.int(number)),
            (b'F', _) => literal::float(line).map(|number| store.float(number)),
            (b'S', _) => literal::quoted(line).map(|text| store.text(&text)),
            (b'V', _) => Some(store.text(literal::raw_unicode(line).as_bytes())),
            (b'p', _) => {
                let index = index(line).ok_or(Fault::Damaged("a memo index that is not a number"))?;
                return self.put(len + 1, index, offset);
            }
            _ => {
                let index = index(line).ok_or(Fault::Damaged("a memo index that is not a number"))?;
                self.input.advance(len + 1);
                return self.heap.get(index);
            }
        };
        self.input.advance(len + 1);
        self.heap.push(value.ok_or(Fault::Damaged("a line that is not what its opcode says"))?)
    }

    fn global(&mut self, offset: u64) -> Result<(), Fault> {
        self.input.advance(1);
        let mut names = [const { String::new() }; 2];
        for name in &mut names {
            let len = self.input.want_line()?;
            *name = String::from_utf8_lossy(&self.input.bytes()[..len]).into_owned();
            self.input.advance(len + 1);
        }
        let class = class("GLOBAL", &names[0], &names[1], offset)?;
        self.heap.push(class)
    }

    /// The class named by the two texts on the stack.
    fn stack_global(&mut self, offset: u64) -> Result<(), Fault> {
        let (name, module) = (self.pop()?, self.pop()?);
        let text = |value: Value| match value.tag() {
            Tag::Str => self.heap.store.strings.get(crate::model::StringId(value.index())),
            _ => "",
        };
        let class = class("STACK_GLOBAL", text(module), text(name), offset)?;
        self.heap.push(class)
    }

    /// A call, allowed only where it creates an empty dictionary, which is pushed without calling anything.
    fn reduce(&mut self, offset: u64) -> Result<(), Fault> {
        let (args, callee) = (self.pop()?, self.pop()?);
        let is_factory = |value: &Value| value.tag() == Tag::Class && value.index() == Class::Factory as u32;
        let is_plain = callee.tag() == Tag::Class
            && callee.index() == Class::Dict as u32
            && args.tag() == Tag::Tuple
            && matches!(self.heap.store.items(args), [] | [_])
            && self.heap.store.items(args).iter().all(|arg| is_factory(arg) || *arg == Value::NONE);
        if !is_plain {
            return Err(Fault::Refused(code::sentence("REDUCE", offset, "")));
        }
        self.n_classes += 1;
        let dict = self.heap.store.empty(Tag::Dict)?;
        self.heap.push(dict)
    }

    /// A list or dictionary of the values above the mark.
    fn make_filled(&mut self, tag: Tag) -> Result<(), Fault> {
        let base = self.unmark()?;
        let container = self.heap.store.empty(tag)?;
        self.heap.stack.insert(base, container);
        if tag == Tag::List { self.heap.append(base + 1) } else { self.heap.set_items(base + 1) }
    }

    /// The stack's length at the last mark, which is removed.
    fn unmark(&mut self) -> Result<usize, Fault> {
        self.marks.pop().ok_or(Fault::Damaged("the end of something that never began"))
    }

    /// The place of the `n`th value from the top, above the last mark.
    fn above(&self, n: usize) -> Result<usize, Fault> {
        let fence = self.marks.last().copied().unwrap_or(0);
        self.heap.stack.len().checked_sub(n).filter(|&at| at >= fence).ok_or(EMPTY)
    }

    fn top(&self) -> Result<Value, Fault> {
        self.above(1).map(|at| self.heap.stack[at])
    }

    fn pop(&mut self) -> Result<Value, Fault> {
        self.above(1)?;
        self.heap.stack.pop().ok_or(EMPTY)
    }

    /// Removes the top value, or the mark that is there.
    fn drop_top(&mut self) -> Result<(), Fault> {
        match self.above(1) {
            Ok(at) => self.heap.stack.truncate(at),
            Err(_) => {
                self.unmark()?;
            }
        }
        Ok(())
    }
}

const EMPTY: Fault = Fault::Damaged("it takes a value where there is none");

/// Pushes an allowed class.
///
/// Errors: any other.
fn class(opcode: &str, module: &str, name: &str, offset: u64) -> Result<Value, Fault> {
    match code::harmless(module, name) {
        Some(class) => Ok(Value::new(Tag::Class, class as u64)),
        None => {
            let what = format!(", {}", crate::reader::printable(&format!("{module}.{name}")));
            Err(Fault::Refused(code::sentence(opcode, offset, &what)))
        }
    }
}
