//! Opcodes that would run code, and the two classes that are allowed.

/// Opcodes that construct or call, or refer to something outside of the file.
const REFUSED: [(u8, &str); 14] = [
    (b'R', "REDUCE"),
    (b'b', "BUILD"),
    (b'i', "INST"),
    (b'o', "OBJ"),
    (0x81, "NEWOBJ"),
    (0x92, "NEWOBJ_EX"),
    (0x82, "EXT1"),
    (0x83, "EXT2"),
    (0x84, "EXT4"),
    (b'P', "PERSID"),
    (b'Q', "BINPERSID"),
    (0x97, "NEXT_BUFFER"),
    (0x98, "READONLY_BUFFER"),
    (b'c', "GLOBAL"),
];

/// The name of an opcode that is refused.
pub fn refused(op: u8) -> Option<&'static str> {
    REFUSED.iter().find(|known| known.0 == op).map(|known| known.1)
}

/// The sentence for the user.
pub fn sentence(opcode: &str, offset: u64, what: &str) -> String {
    format!(
        "This pickle asks to run code, which no memory snapshot does ({opcode} at byte {offset}{what}): it is not \
         opened, and nothing was run"
    )
}

/// A class equivalent to a plain container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Calls for an empty dictionary.
    Dict,
    /// May be the argument of a `defaultdict`: the factory for missing keys.
    Factory,
}

/// The class with this name, if it is allowed.
pub fn harmless(module: &str, name: &str) -> Option<Class> {
    match (module, name) {
        ("collections", "OrderedDict" | "defaultdict") => Some(Class::Dict),
        ("builtins" | "__builtin__", "int" | "float" | "str" | "list" | "dict" | "set" | "tuple" | "bool") => {
            Some(Class::Factory)
        }
        _ => None,
    }
}
