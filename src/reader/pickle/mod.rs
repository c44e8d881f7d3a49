//! Reads Python values from pickles and JSON as pure data.
//!
//! A pickle is a program for a stack machine that can import and call arbitrary code. This machine lacks those
//! opcodes: it creates numbers, texts, lists, tuples and dictionaries, and refuses the rest by name. It reads
//! a stream, keeps values in arenas, and passes each finished container to a [`Fold`], which immediately
//! converts it to something smaller.
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

/// The reason why the machine stopped before the end.
#[derive(Debug)]
pub enum Fault {
    /// The bytes end within the pickle.
    Cut,
    /// The bytes are invalid, with the reason.
    Damaged(&'static str),
    /// The pickle asks to run code, as a sentence for the user.
    Refused(String),
    /// More of these objects than any snapshot has.
    TooMuch(&'static str),
    /// A text of more than [`MAX_TEXT`] bytes.
    LongText,
    Cancelled,
    Io(std::io::Error),
}
