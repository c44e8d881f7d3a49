//! One tab: its title, cut where it is too long, and a close button if it is in front.

use eframe::egui::{
    Align2, Color32, CornerRadius, CursorIcon, FontSelection, Id, PointerButton, Rect, Response, Role, Sense, Shape,
    Stroke, TextWrapMode, Ui, WidgetInfo, WidgetText, pos2, vec2,
};

use crate::widget::theme::Tokens;

const MAX_TITLE: f32 = 190.0;
/// At the left of the title, and at its right, where the close button is.
const PADDING: [f32; 2] = [9.0, 17.0];
const CLOSE_SIZE: f32 = 15.0;
/// Half the size of the cross.
const CROSS: f32 = 3.5;

/// What a tab looks like.
#[derive(Clone, Copy, Debug)]
pub struct TabStyle {
    /// Whether it is in front of its group.
    pub is_active: bool,
    /// Whether its view was used last.
    pub is_focused: bool,
    pub is_dragged: bool,
    pub is_closable: bool,
    /// Behind the view, and behind its tab when it is in front.
    pub fill: Color32,
}

/// Paints a tab; says whether it is to be closed.
///
/// A tab keeps its width whatever the pointer does.
pub fn ui(ui: &mut Ui, id: Id, title: &str, look: &TabStyle, tokens: &Tokens) -> (Response, bool) {
    let text = WidgetText::from(title);
    let galley = text.into_galley(ui, Some(TextWrapMode::Truncate), MAX_TITLE, FontSelection::Default);
    let (_, rect) = ui.allocate_space(vec2(galley.size().x + PADDING[0] + PADDING[1], ui.available_height()));
    let response = ui.interact(rect, id, Sense::click_and_drag()).on_hover_cursor(CursorIcon::PointingHand);
    response.widget_info(|| WidgetInfo::selected(Role::Button, ui.is_enabled(), look.is_active, title));
    if look.is_dragged || !ui.is_rect_visible(rect) {
        return (response, false);
    }
    let is_hovered = response.contains_pointer() && !ui.ctx().is_being_dragged(id);
    let color = match (look.is_active || is_hovered, look.is_focused) {
        (true, _) => tokens.strong_text,
        (false, _) => tokens.weak_text,
    };
    if look.is_active {
        ui.painter().rect_filled(rect, CornerRadius::ZERO, look.fill);
        let edge = Rect::from_min_max(rect.min, pos2(rect.right(), rect.top() + 2.0));
        let color = if look.is_focused { tokens.accent } else { tokens.line };
        ui.painter().rect_filled(edge, CornerRadius::ZERO, color);
    } else {
        ui.painter().vline(rect.right() - 0.5, rect.shrink2(vec2(0.0, 6.0)).y_range(), Stroke::new(1.0, tokens.line));
    }
    let is_cut = galley.elided;
    let place = Align2::LEFT_CENTER.anchor_size(pos2(rect.left() + PADDING[0], rect.center().y), galley.size());
    ui.painter().galley(place.min, galley, color);
    // A button that appears under the pointer would take the click that is meant for the tab.
    let is_closed = look.is_closable && look.is_active && close_ui(ui, id, rect, tokens)
        || look.is_closable && response.clicked_by(PointerButton::Middle);
    let response = if is_cut { response.on_hover_text(title) } else { response };
    (response, is_closed)
}

/// The cross at the right of a tab; whether it was clicked.
fn close_ui(ui: &mut Ui, id: Id, tab: Rect, tokens: &Tokens) -> bool {
    let center = pos2(tab.right() - PADDING[1] / 2.0, tab.center().y);
    let rect = Rect::from_center_size(center, vec2(CLOSE_SIZE, CLOSE_SIZE));
    let close = ui.interact(rect, id.with("close"), Sense::click()).on_hover_cursor(CursorIcon::Default);
    close.widget_info(|| WidgetInfo::labeled(Role::Button, ui.is_enabled(), "Close view"));
    let color = if close.hovered() { tokens.strong_text } else { tokens.weak_text };
    if close.hovered() {
        ui.painter().rect_filled(rect, CornerRadius::same(3), tokens.button[1]);
    }
    let [x, y] = [vec2(CROSS, CROSS), vec2(CROSS, -CROSS)];
    for arm in [x, y] {
        ui.painter().add(Shape::line_segment([center - arm, center + arm], Stroke::new(1.2, color)));
    }
    close.clicked()
}
