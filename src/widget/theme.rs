//! The colors of the dark and the light theme.

use eframe::egui::style::{Selection, WidgetVisuals, Widgets};
use eframe::egui::{Color32, Context, CornerRadius, FontId, Margin, Stroke, TextStyle, Theme, Vec2, Visuals};

/// The colors of one theme, by what they mean.
#[derive(Clone, Copy, Debug)]
pub struct Tokens {
    /// Behind the timeline and tables.
    pub canvas: Color32,
    /// Behind menus, side and bottom panels.
    pub panel: Color32,
    /// Every other row of a table.
    pub stripe: Color32,
    /// Behind floating windows and menus.
    pub floating: Color32,
    /// Buttons at rest, under the pointer, and held down.
    pub button: [Color32; 3],
    /// Lines between panels and around windows.
    pub line: Color32,
    pub text: Color32,
    /// Labels of values, hints.
    pub weak_text: Color32,
    /// Headings, and what the pointer is on.
    pub strong_text: Color32,
    /// Links, the chosen tab, progress.
    pub accent: Color32,
    /// Behind what is selected; text keeps its color on it.
    pub selected: Color32,
    /// Severities: note, loss, error.
    pub severity: [Color32; 3],
}

/// Blue, orange and vermilion are those of Okabe and Ito, lightened or darkened until text in them
/// reads well; they are distinct with every common kind of color blindness.
const DARK: Tokens = Tokens {
    canvas: Color32::from_rgb(18, 20, 24),
    panel: Color32::from_rgb(27, 30, 36),
    stripe: Color32::from_rgb(33, 36, 43),
    floating: Color32::from_rgb(36, 40, 48),
    button: [Color32::from_rgb(49, 54, 64), Color32::from_rgb(62, 68, 80), Color32::from_rgb(72, 80, 94)],
    line: Color32::from_rgb(58, 63, 74),
    text: Color32::from_rgb(212, 216, 223),
    weak_text: Color32::from_rgb(158, 165, 177),
    strong_text: Color32::from_rgb(246, 248, 250),
    accent: Color32::from_rgb(98, 180, 240),
    selected: Color32::from_rgb(24, 72, 112),
    severity: [Color32::from_rgb(98, 180, 240), Color32::from_rgb(235, 168, 40), Color32::from_rgb(255, 138, 92)],
};

const LIGHT: Tokens = Tokens {
    canvas: Color32::from_rgb(255, 255, 255),
    panel: Color32::from_rgb(244, 245, 247),
    stripe: Color32::from_rgb(236, 238, 242),
    floating: Color32::from_rgb(252, 252, 253),
    button: [Color32::from_rgb(226, 229, 234), Color32::from_rgb(212, 217, 224), Color32::from_rgb(196, 203, 213)],
    line: Color32::from_rgb(200, 205, 213),
    text: Color32::from_rgb(36, 41, 49),
    weak_text: Color32::from_rgb(86, 93, 105),
    strong_text: Color32::from_rgb(8, 11, 16),
    accent: Color32::from_rgb(0, 92, 150),
    selected: Color32::from_rgb(186, 219, 245),
    severity: [Color32::from_rgb(0, 92, 150), Color32::from_rgb(138, 84, 0), Color32::from_rgb(178, 58, 0)],
};

/// The colors of the dark or the light theme.
pub const fn tokens(is_dark: bool) -> &'static Tokens {
    if is_dark { &DARK } else { &LIGHT }
}

/// Applies colors and spacing to both themes of `ctx`. Call it once.
pub fn apply(ctx: &Context) {
    for theme in [Theme::Dark, Theme::Light] {
        ctx.set_visuals_of(theme, visuals(theme == Theme::Dark));
        ctx.style_mut_of(theme, |style| {
            style.spacing.item_spacing = Vec2::new(8.0, 5.0);
            style.spacing.button_padding = Vec2::new(7.0, 3.0);
            style.spacing.menu_margin = Margin::same(6);
            // Menus and lists are as high as their entries, as long as the window is.
            style.spacing.default_area_size.y = 2000.0;
            style.spacing.combo_height = 600.0;
            style.spacing.window_margin = Margin::same(12);
            // Where something is out of sight, it shows without the pointer.
            style.spacing.scroll.floating_width = 4.0;
            style.spacing.scroll.dormant_handle_opacity = 0.5;
            style.animation_time = 0.08;
            style.text_styles.insert(TextStyle::Small, FontId::proportional(11.0));
        });
    }
}

fn visuals(is_dark: bool) -> Visuals {
    let t = tokens(is_dark);
    let base = if is_dark { Visuals::dark() } else { Visuals::light() };
    Visuals {
        weak_text_color: Some(t.weak_text),
        widgets: widgets(t),
        selection: Selection { bg_fill: t.selected, stroke: Stroke::new(1.0, t.strong_text) },
        hyperlink_color: t.accent,
        faint_bg_color: t.stripe,
        extreme_bg_color: t.canvas,
        code_bg_color: t.button[0],
        warn_fg_color: t.severity[1],
        error_fg_color: t.severity[2],
        window_fill: t.floating,
        window_stroke: Stroke::new(1.0, t.line),
        window_corner_radius: CornerRadius::same(6),
        menu_corner_radius: CornerRadius::same(5),
        panel_fill: t.panel,
        ..base
    }
}

fn widgets(t: &Tokens) -> Widgets {
    let state = |fill: Color32, line: Color32, text: Color32| WidgetVisuals {
        bg_fill: fill,
        weak_bg_fill: fill,
        bg_stroke: Stroke::new(1.0, line),
        corner_radius: CornerRadius::same(3),
        fg_stroke: Stroke::new(1.0, text),
        expansion: 0.0,
    };
    let [rest, hovered, held] = t.button;
    Widgets {
        noninteractive: state(t.panel, t.line, t.text),
        inactive: WidgetVisuals { bg_stroke: Stroke::NONE, ..state(rest, t.line, t.text) },
        hovered: state(hovered, t.line, t.strong_text),
        active: state(held, t.accent, t.strong_text),
        open: state(hovered, t.line, t.strong_text),
    }
}

/// Relative luminance, as WCAG 2 defines it.
fn luminance(color: Color32) -> f64 {
    let linear = |byte: u8| {
        let x = f64::from(byte) / 255.0;
        if x <= 0.04045 { x / 12.92 } else { ((x + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(color.r()) + 0.7152 * linear(color.g()) + 0.0722 * linear(color.b())
}

/// The contrast ratio of two colors, as WCAG 2 defines it: 1 to 21.
pub fn contrast(a: Color32, b: Color32) -> f64 {
    let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
    a.max(b) / a.min(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_readable_on_every_background() {
        assert!((contrast(Color32::BLACK, Color32::WHITE) - 21.0).abs() < 1e-9);
        for is_dark in [false, true] {
            let t = tokens(is_dark);
            for background in [t.canvas, t.panel, t.stripe, t.floating] {
                for text in [t.text, t.weak_text, t.strong_text, t.accent, t.severity[0], t.severity[1], t.severity[2]]
                {
                    let contrast = contrast(text, background);
                    assert!(contrast >= 4.5, "dark {is_dark}: {text:?} on {background:?}: {contrast:.2}");
                }
            }
            for background in t.button.into_iter().chain([t.selected]) {
                assert!(contrast(t.strong_text, background) >= 4.5, "dark {is_dark}: {background:?}");
                assert!(contrast(t.text, t.button[0]) >= 4.5 && contrast(t.text, t.selected) >= 4.5);
            }
        }
    }

    #[test]
    fn both_themes_reach_egui() {
        let ctx = Context::default();
        apply(&ctx);
        for (theme, is_dark) in [(Theme::Dark, true), (Theme::Light, false)] {
            assert_eq!(ctx.style_of(theme).visuals.panel_fill, tokens(is_dark).panel);
        }
    }
}
