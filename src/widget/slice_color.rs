//! Which color a slice has: its kind sets the hue, its name a shade of it.

use eframe::egui::Color32;

/// Text on any slice.
pub const TEXT: Color32 = Color32::from_gray(12);

/// (hue in degrees, spread of hues over names, chroma) of each kind, in the order of their numbers.
/// The hues of device work, host work and waiting stay apart for the color-blind too: blue to
/// green, orange to yellow, purple.
const KINDS: [(f32, f32, f32); 16] = [
    (200.0, 100.0, 0.105), // Kernel
    (20.0, 20.0, 0.12),    // Memcpy
    (355.0, 10.0, 0.12),   // Memset
    (175.0, 30.0, 0.12),   // CudaGraph
    (290.0, 30.0, 0.09),   // Runtime
    (315.0, 20.0, 0.09),   // Driver
    (75.0, 60.0, 0.10),    // Operator
    (110.0, 20.0, 0.05),   // Annotation
    (150.0, 20.0, 0.05),   // GpuAnnotation
    (240.0, 50.0, 0.06),   // PythonFunction
    (330.0, 20.0, 0.05),   // Sync
    (45.0, 20.0, 0.13),    // Collective
    (0.0, 0.0, 0.0),       // Overhead
    (60.0, 10.0, 0.03),    // Os
    (220.0, 90.0, 0.04),   // Other
    (0.0, 0.0, 0.0),
];

/// The colors of one theme, ready to look up.
pub struct SliceColors {
    is_dark: bool,
    /// By tint, then by busy share.
    table: Vec<Color32>,
}

impl std::fmt::Debug for SliceColors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SliceColors").field("is_dark", &self.is_dark).finish_non_exhaustive()
    }
}

impl SliceColors {
    /// All colors of the dark or the light theme. Costs about a millisecond: keep it.
    pub fn new(is_dark: bool) -> Self {
        let table = (0..=u16::from(u8::MAX)).flat_map(|tint| {
            let color = color(tint as u8, is_dark);
            (0..=u8::MAX).map(move |share| color.linear_multiply(strength(share)))
        });
        Self { is_dark, table: table.collect() }
    }

    /// Whether these are the colors of that theme.
    pub fn is_for(&self, is_dark: bool) -> bool {
        self.is_dark == is_dark
    }

    /// A slice, or a stretch that is busy to the last nanosecond.
    pub fn full(&self, tint: u8) -> Color32 {
        self.mixed(tint, u8::MAX)
    }

    /// A stretch of which `share` / 255 is busy; the background shows through.
    pub fn mixed(&self, tint: u8, share: u8) -> Color32 {
        self.table[usize::from(tint) << 8 | usize::from(share)]
    }
}

/// How strong a stretch is painted. The least work is visible, and the least idle time too.
fn strength(share: u8) -> f32 {
    match share {
        0 => 0.0,
        255 => 1.0,
        share => 0.16 + 0.66 * f32::from(share) / 255.0,
    }
}

fn color(tint: u8, is_dark: bool) -> Color32 {
    let (hue, spread, chroma) = KINDS[usize::from(tint >> 4)];
    let name = f32::from(tint & 15);
    let hue = hue + spread * (name / 15.0 - 0.5);
    // Neighbors in hue differ in lightness, so that shades stay apart without color.
    let step = (name as u8 % 4) as f32 * 0.035;
    let lightness = if is_dark { 0.66 + step } else { 0.74 + step };
    oklch(lightness, chroma, hue)
}

/// The color of a frame in a flame graph, by its name. All are warm and equally strong, so that width
/// alone catches the eye.
pub fn frame_color(name: &str, is_dark: bool) -> Color32 {
    // FNV-1a: spreads names that differ in one letter.
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let part = |shift: u32| ((hash >> shift) & 0xff) as f32 / 255.0;
    let lightness = if is_dark { 0.66 } else { 0.76 };
    oklch(lightness + 0.1 * part(48), 0.10, 35.0 + 65.0 * part(32))
}

/// Björn Ottosson's Oklab in polar form, as sRGB: equal `lightness` looks equally light.
pub fn oklch(lightness: f32, chroma: f32, hue_degrees: f32) -> Color32 {
    let (sin, cos) = hue_degrees.to_radians().sin_cos();
    let (a, b) = (chroma * cos, chroma * sin);
    let cube = |x: f32| x * x * x;
    let l = cube(lightness + 0.396_337_78 * a + 0.215_803_76 * b);
    let m = cube(lightness - 0.105_561_346 * a - 0.063_854_17 * b);
    let s = cube(lightness - 0.089_484_18 * a - 1.291_485_5 * b);
    let srgb = |linear: f32| {
        let x = linear.clamp(0.0, 1.0);
        let x = if x <= 0.003_130_8 { 12.92 * x } else { 1.055 * x.powf(1.0 / 2.4) - 0.055 };
        (x * 255.0).round() as u8
    };
    Color32::from_rgb(
        srgb(4.076_741_7 * l - 3.307_711_6 * m + 0.230_969_94 * s),
        srgb(-1.268_438 * l + 2.609_757_4 * m - 0.341_319_4 * s),
        srgb(-0.004_196_086_3 * l - 0.703_418_6 * m + 1.707_614_7 * s),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, as WCAG defines it.
    fn luminance(color: Color32) -> f64 {
        let linear = |byte: u8| {
            let x = f64::from(byte) / 255.0;
            if x <= 0.04045 { x / 12.92 } else { ((x + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(color.r()) + 0.7152 * linear(color.g()) + 0.0722 * linear(color.b())
    }

    #[test]
    fn text_is_readable_on_every_slice() {
        for is_dark in [false, true] {
            let colors = SliceColors::new(is_dark);
            for tint in 0..=u8::MAX {
                let contrast = (luminance(colors.full(tint)) + 0.05) / (luminance(TEXT) + 0.05);
                assert!(contrast >= 4.5, "tint {tint}: {contrast:.2}");
            }
            for i in 0..500 {
                let contrast = (luminance(frame_color(&format!("f{i}"), is_dark)) + 0.05) / (luminance(TEXT) + 0.05);
                assert!(contrast >= 4.5, "frame {i}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn share_shows_through_and_its_ends_are_exact() {
        let colors = SliceColors::new(true);
        assert_eq!(colors.mixed(7, 0), Color32::TRANSPARENT);
        let alpha = |share| colors.mixed(7, share).a();
        assert!(alpha(1) > 20, "the least work is visible");
        assert!(alpha(254) < 220, "the least idle time is visible");
        assert_eq!(alpha(255), 255);
        assert!((1..255).all(|share| alpha(share) <= alpha(share + 1)));
    }

    #[test]
    fn kinds_differ() {
        let colors = SliceColors::new(true);
        assert_ne!(colors.full(0x00), colors.full(0x10));
        assert_ne!(colors.full(0x00), colors.full(0x0f));
    }
}
