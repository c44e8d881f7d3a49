//! Color class of a slice in one byte.

use super::{SliceKind, hash_bytes};

/// The kind of a slice and a shade derived from its name, which determine its color; or one of few colors that a
/// program chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Tint(u8);

/// Bits of the shade; the others hold the kind.
const SHADE_BITS: u32 = 4;

const _: () = assert!(SliceKind::ALL.len() < 1 << (u8::BITS - SHADE_BITS), "a tint has room for 15 kinds and colors");
/// Hues among the chosen colors; the others are grays.
const N_HUES: u8 = 12;

impl Tint {
    /// Shades of one kind.
    pub const N_SHADES: u8 = 1 << SHADE_BITS;
    /// Number of tints of kinds: the index of the first chosen color.
    pub const COUNT: usize = SliceKind::ALL.len() * Self::N_SHADES as usize;

    /// * `shade`: below [`Self::N_SHADES`]; higher bits are dropped.
    pub const fn new(kind: SliceKind, shade: u8) -> Self {
        Self(((kind as u8) << SHADE_BITS) | (shade % Self::N_SHADES))
    }

    /// The nearest of the chosen colors to a color.
    ///
    /// * `rgb`: 0xRRGGBB; higher bits do not count.
    pub fn of_color(rgb: u32) -> Self {
        let [_, r, g, b] = rgb.to_be_bytes().map(i32::from);
        let (max, min) = (r.max(g).max(b), r.min(g).min(b));
        let range = max - min;
        let shade = if range * 5 < max.max(1) {
            N_HUES as i32 + max / 64
        } else {
            // In sixtieths of a turn, from red.
            let hue = match max {
                _ if max == r => 10 * (g - b) / range,
                _ if max == g => 20 + 10 * (b - r) / range,
                _ => 40 + 10 * (r - g) / range,
            };
            (hue.rem_euclid(60) * i32::from(N_HUES) + 30) / 60 % i32::from(N_HUES)
        };
        Self((SliceKind::ALL.len() as u8) << SHADE_BITS | shade as u8)
    }

    /// The chosen colors by index, each as hue, in turns from red, or as a gray: its lightness.
    pub fn chosen() -> impl Iterator<Item = Result<f32, f32>> {
        (0..Self::N_SHADES).map(|shade| match shade.checked_sub(N_HUES) {
            None => Ok(f32::from(shade) / f32::from(N_HUES)),
            Some(gray) => Err((f32::from(gray) + 0.5) / f32::from(Self::N_SHADES - N_HUES)),
        })
    }

    /// All tints of kinds, by index.
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

    /// Its index in [`Self::all`], followed by [`Self::chosen`].
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
        let chosen = |rgb| Tint::of_color(rgb).index() - Tint::COUNT;
        let known = [0xff_0000, 0xff_d700, 0x00_ff00, 0xff00_00ff, 0xff_00ff, 0xff_0008, 0, 0x80_8080, 0xff_ffff];
        assert_eq!(known.map(chosen), [0, 2, 4, 8, 10, 0, 12, 14, 15]);
        assert_eq!(Tint::chosen().count(), usize::from(Tint::N_SHADES));
        assert!((0..100).all(|i| Tint::shade_of(&i.to_string()) < Tint::N_SHADES));
    }
}
