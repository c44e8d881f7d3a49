//! The colors of the causes of idle time, in which timeline, tables and pages agree.

use eframe::egui::{Color32, Response, Sense, Ui, vec2};

use crate::analysis::gaps::GapClass;

/// The color of a cause. Waits of the launching thread are vermilion and orange, its work is blue and green, what
/// was not recorded is gray, after the palette of Okabe and Ito; on white they are darker.
pub const fn gap_color(class: GapClass, is_dark: bool) -> Color32 {
    let [dark, light] = match class {
        GapClass::Sync => [[213, 94, 0], [176, 60, 0]],
        GapClass::DataLoading => [[230, 159, 0], [178, 110, 0]],
        GapClass::Copy => [[240, 228, 66], [164, 149, 0]],
        GapClass::Allocator => [[204, 121, 167], [162, 83, 128]],
        GapClass::ModuleLoad => [[154, 98, 184], [125, 70, 154]],
        GapClass::Gc => [[221, 189, 235], [161, 130, 174]],
        GapClass::Collective => [[0, 114, 178], [0, 92, 155]],
        GapClass::Launch => [[0, 158, 115], [0, 126, 85]],
        GapClass::CpuOp => [[86, 180, 233], [29, 133, 184]],
        GapClass::Python => [[181, 221, 245], [112, 152, 175]],
        GapClass::Blocked => [[168, 117, 74], [137, 88, 45]],
        GapClass::Unknown => [[140, 146, 156], [125, 131, 141]],
        GapClass::LaunchLatency => [[138, 221, 192], [78, 161, 134]],
        GapClass::Dependency => [[111, 127, 214], [82, 95, 179]],
        GapClass::Queued => [[58, 136, 150], [24, 100, 112]],
        GapClass::Graph => [[169, 199, 56], [119, 146, 0]],
        GapClass::NoLaunch => [[110, 116, 127], [84, 90, 100]],
        GapClass::Profiler => [[245, 163, 181], [186, 110, 128]],
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
    use crate::widget::theme::{contrast, tokens};

    #[test]
    fn every_cause_stands_out_and_none_looks_like_another() {
        let apart = |a: Color32, b: Color32| {
            let distance = |i: usize| i32::from(a[i]).abs_diff(i32::from(b[i]));
            (0..3).map(distance).sum::<u32>()
        };
        for is_dark in [false, true] {
            let canvas = tokens(is_dark).canvas;
            for (i, class) in GapClass::ALL.into_iter().enumerate() {
                let color = gap_color(class, is_dark);
                assert!(contrast(color, canvas) >= 3.0, "{class:?}: {:.2}", contrast(color, canvas));
                for other in &GapClass::ALL[..i] {
                    assert!(apart(color, gap_color(*other, is_dark)) > 40, "{class:?} and {other:?}");
                }
            }
        }
    }
}
