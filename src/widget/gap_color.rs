//! The colors of the causes of idle time, in which timeline, tables and pages agree.

use eframe::egui::{Color32, Response, Sense, Ui, vec2};

use crate::analysis::gaps::GapClass;

/// The color of a cause.
///
/// They are darker or lighter than all colors of slices and of stacked bars, and more vivid, so that idle time does not
/// look like work, also to the color-blind; the tests measure it. Vermilion to yellow and magenta are mostly calls that
/// wait, blue and green is work of the host, gray is unknown. A label must stand beside it: of so many colors some are
/// close.
pub const fn gap_color(class: GapClass, is_dark: bool) -> Color32 {
    let [dark, light] = match class {
        GapClass::Sync => [[226, 43, 7], [220, 92, 106]],
        GapClass::DataLoading => [[251, 200, 55], [165, 109, 15]],
        GapClass::Copy => [[245, 252, 115], [134, 156, 40]],
        GapClass::Allocator => [[204, 37, 178], [173, 86, 255]],
        GapClass::ModuleLoad => [[144, 80, 143], [134, 15, 116]],
        GapClass::Gc => [[245, 215, 252], [195, 66, 171]],
        GapClass::Collective => [[54, 112, 253], [41, 13, 192]],
        GapClass::Launch => [[108, 235, 111], [8, 102, 21]],
        GapClass::CpuOp => [[169, 205, 255], [79, 150, 214]],
        GapClass::Python => [[215, 251, 241], [2, 121, 152]],
        GapClass::Blocked => [[175, 104, 78], [168, 48, 28]],
        GapClass::Unknown => [[103, 103, 103], [88, 88, 88]],
        GapClass::LaunchLatency => [[26, 246, 208], [95, 143, 124]],
        GapClass::Dependency => [[152, 85, 219], [107, 58, 231]],
        GapClass::Queued => [[5, 121, 24], [2, 70, 68]],
        GapClass::Graph => [[197, 223, 166], [89, 55, 0]],
        GapClass::NoLaunch => [[88, 106, 182], [86, 47, 151]],
        GapClass::Profiler => [[194, 25, 85], [181, 131, 168]],
    };
    let [r, g, b] = if is_dark { dark } else { light };
    Color32::from_rgb(r, g, b)
}

/// A square of the color of a cause, for legends. Its name must stand beside it.
pub fn swatch_ui(class: GapClass, ui: &mut Ui) -> Response {
    let (rect, response) = ui.allocate_exact_size(vec2(10.0, 10.0), Sense::hover());
    ui.painter().rect_filled(rect, 2.0, gap_color(class, ui.visuals().dark_mode));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Tint;
    use crate::widget::series_color::{N_SERIES, series_color};
    use crate::widget::slice_color::SliceColors;
    use crate::widget::theme::{contrast, tokens};

    /// Linear RGB as people see it, row by row: with all cones, and without the long, the middle and the short ones
    /// (Machado, Oliveira and Fernandes 2009, full severity).
    const SIGHTS: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    fn product(matrix: &[[f64; 3]; 3], x: [f64; 3]) -> [f64; 3] {
        [0, 1, 2].map(|row| (0..3).map(|i| matrix[row][i] * x[i]).sum())
    }

    /// A color in Oklab (Ottosson 2020): distances are about as large as they look, black to white is 1.
    fn oklab(color: Color32, sight: &[[f64; 3]; 3]) -> [f64; 3] {
        let linear = [color.r(), color.g(), color.b()].map(|byte| {
            let x = f64::from(byte) / 255.0;
            if x <= 0.04045 { x / 12.92 } else { ((x + 0.055) / 1.055).powf(2.4) }
        });
        let seen = product(sight, linear).map(|x| x.clamp(0.0, 1.0));
        let cones = product(
            &[
                [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
                [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
                [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
            ],
            seen,
        );
        product(
            &[
                [0.210_454_255_3, 0.793_617_785, -0.004_072_046_8],
                [1.977_998_495_1, -2.428_592_205, 0.450_593_709_9],
                [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766],
            ],
            cones.map(f64::cbrt),
        )
    }

    /// How different two colors look with all cones, and with the kind of color blindness in which they differ least.
    fn distances(a: Color32, b: Color32) -> [f64; 2] {
        let distance = |sight| {
            let (a, b) = (oklab(a, sight), oklab(b, sight));
            (0..3).map(|i| (a[i] - b[i]).powi(2)).sum::<f64>().sqrt()
        };
        [distance(&SIGHTS[0]), SIGHTS[1..].iter().map(distance).fold(f64::MAX, f64::min)]
    }

    #[test]
    fn every_cause_stands_out_and_none_looks_like_another() {
        for is_dark in [false, true] {
            let canvas = tokens(is_dark).canvas;
            for (i, class) in GapClass::ALL.into_iter().enumerate() {
                let color = gap_color(class, is_dark);
                assert!(contrast(color, canvas) >= 3.0, "{class:?}: {:.2}", contrast(color, canvas));
                for other in &GapClass::ALL[..i] {
                    let [all, blind] = distances(color, gap_color(*other, is_dark));
                    assert!(all > 0.10 && blind > 0.05, "{class:?} and {other:?}: {all:.3} {blind:.3}");
                }
            }
        }
    }

    #[test]
    fn no_cause_looks_like_a_slice_or_a_part_of_a_bar() {
        for is_dark in [false, true] {
            let colors = SliceColors::new(is_dark);
            let slices = Tint::all().map(|tint| (tint.kind().label(), colors.full(tint)));
            let bars = (0..N_SERIES).map(|part| ("bar", series_color(part, is_dark)));
            for (name, other) in slices.chain(bars) {
                for class in GapClass::ALL {
                    let [all, blind] = distances(gap_color(class, is_dark), other);
                    assert!(all > 0.065 && blind > 0.04, "dark {is_dark}, {class:?} and {name}: {all:.3} {blind:.3}");
                }
            }
        }
    }
}
