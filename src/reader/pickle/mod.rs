//! Python values, from pickles and from JSON, as data and nothing else.
//!
//! A pickle is a program for a small machine, and a full machine imports and calls whatever the file
//! names. This one knows no opcode that could: it makes numbers, texts, lists, tuples and dictionaries,
//! and refuses the rest by name. It reads a stream, keeps what it must in arenas, and hands each
//! finished container to a [`Fold`], which turns it into something smaller at once.
//!
//! Format: <https://github.com/python/cpython/blob/main/Lib/pickletools.py>

mod code;
mod heap;
mod input;
pub mod json;
mod literal;
mod machine;
mod store;
#[cfg(test)]
mod tests;
mod value;

pub use heap::{Fold, Heap};
pub use input::{Input, MAX_TEXT};
pub use machine::Machine;
pub use store::Store;
pub use value::{Tag, Value};

/// Why the machine stopped before the end.
#[derive(Debug)]
pub enum Fault {
    /// The bytes end within the pickle.
    Cut,
    /// The bytes make no sense: what is wrong.
    Damaged(&'static str),
    /// It asks to run code: a sentence for the person.
    Refused(String),
    /// More of these than any snapshot has.
    TooMuch(&'static str),
    /// A text of more than [`MAX_TEXT`] bytes.
    LongText,
    Cancelled,
    Io(std::io::Error),
}
