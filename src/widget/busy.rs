//! The sign that something is being computed.

use std::time::Duration;

use eframe::egui::{self, Response, Role, Sense, Ui, WidgetInfo, vec2};

use super::theme;

const N_DOTS: usize = 3;
/// Seconds from one picture to the next. Without a graphics card each costs processor time that the work itself needs,
/// so it does not turn with every frame.
const TICK_S: f64 = 0.5;

/// Dots, of which another one is lit every half second.
pub fn busy_ui(ui: &mut Ui) -> Response {
    let height = ui.spacing().interact_size.y;
    let (rect, response) = ui.allocate_exact_size(vec2(height, height), Sense::hover());
    response.widget_info(|| WidgetInfo::new(Role::ProgressIndicator));
    if ui.is_rect_visible(rect) {
        let time = ui.input(|input| input.time);
        let lit = (time / TICK_S) as usize % N_DOTS;
        let tokens = theme::tokens(ui.visuals().dark_mode);
        for dot in 0..N_DOTS {
            let at = egui::lerp(rect.x_range(), (dot as f32 + 0.5) / N_DOTS as f32);
            let color = if dot == lit { tokens.strong_text } else { tokens.line };
            ui.painter().circle_filled(egui::pos2(at, rect.center().y), height / 9.0, color);
        }
        ui.ctx().request_repaint_after(Duration::from_secs_f64(TICK_S - time % TICK_S));
    }
    response
}
