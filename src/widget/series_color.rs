//! Colors of the parts of stacked bars.

use eframe::egui::Color32;

/// The color of the part with this number: 0 work, 1 communication, 2 copies and data, 3 idle or other, then more
/// parts. After the palette of Okabe and Ito; on white they are darker. A label must stand beside it.
pub fn series_color(part: usize, is_dark: bool) -> Color32 {
    const COLORS: [[[u8; 3]; 2]; 7] = [
        [[0, 158, 115], [0, 126, 85]],
        [[213, 94, 0], [176, 60, 0]],
        [[230, 159, 0], [178, 110, 0]],
        [[110, 116, 127], [148, 154, 165]],
        [[86, 180, 233], [29, 133, 184]],
        [[204, 121, 167], [162, 83, 128]],
        [[240, 228, 66], [164, 149, 0]],
    ];
    let [dark, light] = COLORS[part % COLORS.len()];
    let [r, g, b] = if is_dark { dark } else { light };
    Color32::from_rgb(r, g, b)
}
