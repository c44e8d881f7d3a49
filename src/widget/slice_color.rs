//! Colors of slices: hue by kind, shade by name.

use eframe::egui::Color32;
use eframe::egui::ecolor::HsvaGamma;

use super::theme::{contrast, tokens};
use crate::model::SliceKind;
use crate::model::Tint;

/// Contrast with the background of what is a pixel wide; lines of the grid have less than half of it.
const LEAST_CONTRAST: f64 = 3.5;

/// Text on any slice.
pub const TEXT: Color32 = Color32::from_gray(12);

/// Text that reads well on a color: that on slices, or white.
pub fn text_on(color: Color32) -> Color32 {
    [TEXT, Color32::WHITE]
        .into_iter()
        .max_by(|&a, &b| contrast(a, color).total_cmp(&contrast(b, color)))
        .unwrap_or(TEXT)
}

/// The color that a program chose for a slice.
///
/// * `rgb`: 0xRRGGBB; higher bits do not count.
pub fn chosen(rgb: u32) -> Color32 {
    let [_, r, g, b] = rgb.to_be_bytes();
    Color32::from_rgb(r, g, b)
}

/// A family of colors: (hue in degrees, spread of hues over shades, chroma).
type Hue = (f32, f32, f32);

/// The hues of device work, host work and waiting are distinct for the color-blind too: blue to
/// green, orange to yellow, purple.
fn hue_of(kind: SliceKind) -> Hue {
    match kind {
        SliceKind::Kernel => (200.0, 100.0, 0.105),
        SliceKind::Memcpy => (20.0, 20.0, 0.12),
        SliceKind::Memset => (355.0, 10.0, 0.12),
        SliceKind::CudaGraph => (175.0, 30.0, 0.12),
        SliceKind::Runtime => (290.0, 30.0, 0.09),
        SliceKind::Driver => (315.0, 20.0, 0.09),
        SliceKind::Operator => (75.0, 60.0, 0.10),
        SliceKind::Annotation => (110.0, 20.0, 0.05),
        SliceKind::GpuAnnotation => (150.0, 20.0, 0.05),
        SliceKind::PythonFunction => (240.0, 50.0, 0.06),
        SliceKind::Sync => (330.0, 20.0, 0.05),
        SliceKind::Collective => (45.0, 20.0, 0.13),
        SliceKind::Overhead => (0.0, 0.0, 0.0),
        SliceKind::Os => (60.0, 10.0, 0.03),
        SliceKind::Other => (220.0, 90.0, 0.04),
    }
}

const COUNTERS: Hue = (60.0, 10.0, 0.03);

/// The colors of one theme, ready to look up.
pub struct SliceColors {
    is_dark: bool,
    /// By tint, then by busy share.
    table: Vec<Color32>,
    /// By tint.
    alone: Vec<Color32>,
}

impl std::fmt::Debug for SliceColors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SliceColors").field("is_dark", &self.is_dark).finish_non_exhaustive()
    }
}

impl SliceColors {
    /// All colors of the dark or the light theme. Costs about a millisecond: keep it.
    pub fn new(is_dark: bool) -> Self {
        let of_kinds = Tint::all().map(|tint| color(hue_of(tint.kind()), tint.shade(), is_dark));
        let chosen = Tint::chosen().map(|chosen| match chosen {
            Ok(hue) => HsvaGamma { h: hue, s: 0.85, v: 0.85, a: 1.0 }.into(),
            Err(gray) => Color32::from_gray((gray * 255.0) as u8),
        });
        let all: Vec<Color32> = of_kinds.chain(chosen).collect();
        let alone = all.iter().map(|&color| standing_out(color, is_dark)).collect();
        let table = all.into_iter().flat_map(|color| {
            (0..=u8::MAX).map(move |share| {
                // egui blends in gamma space: over white, a linear multiple would come out as white.
                let opacity = opacity(share, is_dark);
                if is_dark { color.linear_multiply(opacity) } else { color.gamma_multiply(opacity) }
            })
        });
        Self { is_dark, table: table.collect(), alone }
    }

    /// Whether these are the colors of the given theme.
    pub fn is_for(&self, is_dark: bool) -> bool {
        self.is_dark == is_dark
    }

    /// A slice, or a stretch that is busy to the last nanosecond.
    pub fn full(&self, tint: Tint) -> Color32 {
        self.mixed(tint, u8::MAX)
    }

    /// Work so short, with so much free space around it, that it is seen by its contrast alone.
    pub fn alone(&self, tint: Tint) -> Color32 {
        self.alone[tint.index()]
    }

    /// The same for a color that a program chose.
    pub fn standing_out(&self, color: Color32) -> Color32 {
        standing_out(color, self.is_dark)
    }

    /// The color of the curve at `index` of its track; adjacent ones differ.
    pub fn counter(&self, index: usize) -> Color32 {
        let n = usize::from(Tint::N_SHADES);
        color(COUNTERS, (index % n * 5 % n) as u8, self.is_dark)
    }

    /// A stretch of which `share` / 255 is busy; the background shows through.
    pub fn mixed(&self, tint: Tint, share: u8) -> Color32 {
        self.table[tint.index() << 8 | usize::from(share)]
    }
}

/// The color, darker or lighter until it stands out from the background, as far as that goes.
fn standing_out(color: Color32, is_dark: bool) -> Color32 {
    let (canvas, end) = (tokens(is_dark).canvas, if is_dark { Color32::WHITE } else { Color32::BLACK });
    let mut steps = (0..=20_u8).map(|step| color.lerp_to_gamma(end, f32::from(step) / 20.0));
    steps.find(|&color| contrast(color, canvas) >= LEAST_CONTRAST).unwrap_or(end)
}

/// The opacity of a busy share. Even the least work and the least idle time are visible.
fn opacity(share: u8, is_dark: bool) -> f32 {
    let least = if is_dark { 0.16 } else { 0.32 };
    match share {
        0 => 0.0,
        255 => 1.0,
        share => least + (0.82 - least) * f32::from(share) / 255.0,
    }
}

fn color((hue, spread, chroma): Hue, shade: u8, is_dark: bool) -> Color32 {
    let hue = hue + spread * (f32::from(shade) / f32::from(Tint::N_SHADES - 1) - 0.5);
    // Adjacent hues differ in lightness, so that shades are distinct without color.
    let step = f32::from(shade % 4) * 0.035;
    // Darker ones in light look like colors of gaps to the color-blind: `gap_color` tests it.
    let lightness = if is_dark { 0.66 } else { 0.74 };
    oklch(lightness + step, chroma, hue)
}

/// The color of a frame in a flame graph, by its name. All are warm and equally strong, so that only width
/// stands out.
pub fn frame_color(name: &str, is_dark: bool) -> Color32 {
    // FNV-1a: distinct colors for names that differ in one letter.
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

    #[test]
    fn text_is_readable_on_every_slice() {
        for is_dark in [false, true] {
            let colors = SliceColors::new(is_dark);
            for tint in Tint::all() {
                let contrast = contrast(colors.full(tint), TEXT);
                assert!(contrast >= 4.5, "{tint:?}: {contrast:.2}");
            }
            for i in 0..500 {
                let contrast = contrast(frame_color(&format!("f{i}"), is_dark), TEXT);
                assert!(contrast >= 4.5, "frame {i}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn the_least_work_stands_out_from_a_white_background() {
        let colors = SliceColors::new(false);
        let on_white = |tint, share| contrast(Color32::WHITE.blend(colors.mixed(tint, share)), Color32::WHITE);
        for tint in Tint::all() {
            let contrasts = [1, 64, 254, 255].map(|share| on_white(tint, share));
            let is_enough = contrasts.iter().zip([1.1, 1.2, 1.4, 1.5]).all(|(&is, least)| is >= least);
            assert!(is_enough && contrasts.is_sorted(), "{tint:?}: {contrasts:.2?}");
        }
    }

    #[test]
    fn what_stands_alone_is_seen_on_background_and_grid() {
        for is_dark in [false, true] {
            let (colors, tokens) = (SliceColors::new(is_dark), tokens(is_dark));
            for tint in Tint::all() {
                let color = colors.alone(tint);
                let least = [(tokens.canvas, 3.5), (tokens.line, 2.0), (tokens.stripe, 2.5)];
                for (background, least) in least {
                    let contrast = contrast(color, background);
                    assert!(contrast >= least, "{tint:?} on {background:?}: {contrast:.2}");
                }
            }
            assert_eq!(colors.standing_out(tokens.text), tokens.text);
            let same =
                [Color32::BLACK, Color32::WHITE].map(|color| contrast(colors.standing_out(color), tokens.canvas));
            assert!(same.iter().all(|&contrast| contrast >= 3.5), "{same:?}");
        }
    }

    #[test]
    fn share_shows_through_and_its_ends_are_exact() {
        let colors = SliceColors::new(true);
        let tint = Tint::new(SliceKind::Kernel, 7);
        assert_eq!(colors.mixed(tint, 0), Color32::TRANSPARENT);
        let alpha = |share| colors.mixed(tint, share).a();
        assert!(alpha(1) > 20, "the least work is visible");
        assert!(alpha(254) < 220, "the least idle time is visible");
        assert_eq!(alpha(255), 255);
        assert!((1..255).all(|share| alpha(share) <= alpha(share + 1)));
    }

    #[test]
    fn kinds_differ() {
        let colors = SliceColors::new(true);
        let kernel = colors.full(Tint::new(SliceKind::Kernel, 0));
        assert_ne!(kernel, colors.full(Tint::new(SliceKind::Memcpy, 0)));
        assert_ne!(kernel, colors.full(Tint::new(SliceKind::Kernel, 15)));
        assert_ne!(colors.counter(0), colors.counter(1));
    }
}
