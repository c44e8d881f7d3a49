//! Colors of the parts of stacked bars.

use eframe::egui::Color32;

use super::slice_color::oklch;

/// How many parts have a color of their own.
pub const N_SERIES: usize = 9;

/// The color of the part with this number: 0 work, 1 communication, 2 copies and data, 3 idle, then more parts, of which
/// the last is all other time of one who is busy. Work looks like kernels; no part looks like a cause of gaps. A label must stand beside it.
pub fn series_color(part: usize, is_dark: bool) -> Color32 {
    /// Hue in degrees, chroma, and lightness above that of the darkest.
    const PARTS: [(f32, f32, f32); N_SERIES] = [
        (195.0, 0.105, 0.02),
        (45.0, 0.13, 0.0),
        (355.0, 0.12, 0.08),
        (260.0, 0.01, 0.0),
        (250.0, 0.09, 0.09),
        (310.0, 0.10, 0.06),
        (105.0, 0.11, 0.10),
        (260.0, 0.012, 0.07),
        (260.0, 0.012, 0.0),
    ];
    let part = part % N_SERIES;
    let (hue, chroma, above) = PARTS[part];
    // Idle time is near the background: the bars show what is not idle.
    let lightness = match (part, is_dark) {
        (3, true) => 0.34,
        (3, false) => 0.84,
        (8, true) => 0.60,
        (_, true) => 0.66 + above,
        (_, false) => 0.73 + above,
    };
    oklch(lightness, chroma, hue)
}
