//! A value of a pickle in eight bytes: a tag, and a number or a place in the [`Store`](super::store).

/// The type of a [`Value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    None,
    Bool,
    /// A whole number of up to 55 bits.
    Int,
    /// A whole number that does not fit.
    Big,
    Float,
    Str,
    /// Bytes, whose contents are not kept.
    Bytes,
    Tuple,
    List,
    Dict,
    /// A container class equivalent to a plain one.
    Class,
    /// A folded list, tuple or dictionary.
    Folded,
    /// An empty slot of the memo.
    Unset,
}

const TAGS: [Tag; 16] = [
    Tag::None,
    Tag::Bool,
    Tag::Int,
    Tag::Big,
    Tag::Float,
    Tag::Str,
    Tag::Bytes,
    Tag::Tuple,
    Tag::List,
    Tag::Dict,
    Tag::Class,
    Tag::Folded,
    Tag::Unset,
    Tag::Unset,
    Tag::Unset,
    Tag::Unset,
];

/// Bits of the part that is not the tag.
const BITS: u32 = 56;

/// A value, which refers to data in the store that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Value(u64);

impl Value {
    pub const NONE: Self = Self::new(Tag::None, 0);
    pub const UNSET: Self = Self::new(Tag::Unset, 0);

    /// A value whose payload has at most 56 bits.
    pub const fn new(tag: Tag, payload: u64) -> Self {
        Self((tag as u64) << BITS | payload & ((1 << BITS) - 1))
    }

    pub const fn bool(value: bool) -> Self {
        Self::new(Tag::Bool, value as u64)
    }

    /// A number of at most 32 bits, which always fits.
    pub const fn small(value: i32) -> Self {
        Self::new(Tag::Int, value as i64 as u64)
    }

    /// A number, if it fits.
    pub const fn int(value: i64) -> Option<Self> {
        if value << (64 - BITS) >> (64 - BITS) == value { Some(Self::new(Tag::Int, value as u64)) } else { None }
    }

    /// A folded container: a kind and an index defined by the [`Fold`](super::Fold).
    pub const fn folded(kind: u8, id: u32) -> Self {
        Self::new(Tag::Folded, (kind as u64) << 32 | id as u64)
    }

    #[inline]
    pub const fn tag(self) -> Tag {
        TAGS[(self.0 >> BITS & 15) as usize]
    }

    pub const fn payload(self) -> u64 {
        self.0 & ((1 << BITS) - 1)
    }

    /// The payload of a value whose place is a 32-bit index.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// The number of an [`Tag::Int`].
    pub const fn as_small_int(self) -> i64 {
        (self.0 as i64) << (64 - BITS) >> (64 - BITS)
    }

    /// The index that a reader gave to a container of this kind.
    #[inline]
    pub const fn as_folded(self, kind: u8) -> Option<u32> {
        if self.0 >> 32 == (Tag::Folded as u64) << (BITS - 32) | kind as u64 { Some(self.0 as u32) } else { None }
    }

    /// Whether it can hold other values.
    #[inline]
    pub const fn is_box(self) -> bool {
        matches!(self.tag(), Tag::List | Tag::Dict)
    }

    /// All bits, for hashes.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_kinds_survive() {
        for number in [0, 1, -1, 1 << 54, -(1 << 55), (1 << 55) - 1] {
            let value = Value::int(number).unwrap();
            assert_eq!((value.tag(), value.as_small_int()), (Tag::Int, number));
        }
        assert_eq!(Value::int(1 << 55), None);
        assert_eq!(Value::int(i64::MIN), None);
        assert_eq!(Value::small(-7).as_small_int(), -7);
        let folded = Value::folded(3, u32::MAX);
        assert_eq!((folded.as_folded(3), folded.as_folded(2), folded.tag()), (Some(u32::MAX), None, Tag::Folded));
        assert_eq!(Value::small(-1).as_folded(0), None);
    }
}
