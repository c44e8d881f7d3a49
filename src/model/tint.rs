//! Color class of a slice in one byte.

use super::{SliceKind, hash_bytes};

/// The kind of a slice and a shade derived from its name, which determine its color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Tint(u8);

/// Bits of the shade; the others hold the kind.
const SHADE_BITS: u32 = 4;

const _: () = assert!(SliceKind::ALL.len() <= 1 << (u8::BITS - SHADE_BITS), "a tint has room for 16 kinds");

impl Tint {
    /// Shades of one kind.
    pub const N_SHADES: u8 = 1 << SHADE_BITS;
    /// Number of tints: one more than the largest [`Self::index`].
    pub const COUNT: usize = SliceKind::ALL.len() * Self::N_SHADES as usize;

    /// * `shade`: below [`Self::N_SHADES`]; higher bits are dropped.
    pub const fn new(kind: SliceKind, shade: u8) -> Self {
        Self(((kind as u8) << SHADE_BITS) | (shade % Self::N_SHADES))
    }

    /// All tints, by index.
    pub fn all() -> impl Iterator<Item = Self> {
        SliceKind::ALL.into_iter().flat_map(|kind| (0..Self::N_SHADES).map(move |shade| Self::new(kind, shade)))
    }

    /// The shade of a name, the same in every trace.
    pub fn shade_of(name: &str) -> u8 {
        (hash_bytes(name.as_bytes()) >> (u64::BITS - SHADE_BITS)) as u8
    }

    pub fn kind(self) -> SliceKind {
        SliceKind::ALL.get(usize::from(self.0 >> SHADE_BITS)).copied().unwrap_or_default()
    }

    pub fn shade(self) -> u8 {
        self.0 % Self::N_SHADES
    }

    /// Its index in [`Self::all`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tints_keep_kind_and_shade() {
        let all: Vec<Tint> = Tint::all().collect();
        assert_eq!(all.len(), Tint::COUNT);
        for (i, kind) in SliceKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, i, "ALL lists the kinds by number");
            for shade in 0..Tint::N_SHADES {
                let tint = Tint::new(kind, shade);
                assert_eq!((tint.kind(), tint.shade(), all[tint.index()]), (kind, shade, tint));
            }
        }
        assert!((0..100).all(|i| Tint::shade_of(&i.to_string()) < Tint::N_SHADES));
    }
}
