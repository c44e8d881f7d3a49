//! A panel that takes a part of the room of others, and is as large as it was once the room is there again.

use eframe::egui::{Id, IdSalt, InnerResponse, Panel, PanelState, Rangef, Ui};

/// Shows a panel of at most a part of the room. egui keeps the points that a panel has: where there is little room, in
/// a small window or with large text, it would stay as small once there is more. Here those are kept that a person gave
/// it, or that it had at first.
///
/// * `id`: that it was made with.
/// * `axis`: 0 for the width, 1 for the height.
/// * `default`, `most`: points along it, at first and at most.
pub fn side_panel_ui<R>(
    (panel, id, axis): (Panel, Id, usize),
    [default, most]: [f32; 2],
    ui: &mut Ui,
    add: impl FnOnce(&mut Ui) -> R,
) -> InnerResponse<R> {
    let state_id = ui.scope_id().with_salt(IdSalt::new(id));
    let points = |ui: &Ui| PanelState::load(ui.ctx(), state_id).map(|state| state.size()[axis]);
    // What it is to have, and the most that it could have then.
    let kept_id = id.with("wanted");
    let kept: Option<[f32; 2]> = ui.data_mut(|data| data.get_persisted(kept_id));
    let other_room = kept.filter(|kept| (kept[1] - most).abs() > 0.5);
    let panel = match other_room {
        Some([wanted, _]) => panel.size_range(Rangef::point(wanted.min(most))),
        None => panel.default_size(default).max_size(most),
    };
    let before = points(ui);
    let shown = panel.show(ui, add);
    let now = points(ui).unwrap_or(default);
    let is_resized = before.is_none_or(|before| (before - now).abs() > 0.5);
    let wanted = kept.filter(|_| other_room.is_some() || !is_resized).map_or(now, |[wanted, _]| wanted);
    if kept != Some([wanted, most]) {
        ui.data_mut(|data| data.insert_persisted(kept_id, [wanted, most]));
    }
    shown
}

#[cfg(test)]
mod tests {
    use eframe::egui::{CentralPanel, Frame, Rect, vec2};
    use egui_kittest::Harness;

    use super::*;

    #[test]
    fn a_panel_has_its_points_again_once_there_is_room() {
        let frame = |ui: &mut Ui, rect: &mut Rect| {
            CentralPanel::default().frame(Frame::NONE).show(ui, |ui| {
                let (id, width) = (Id::unique("beside"), ui.available_width());
                let panel = Panel::left(id).frame(Frame::NONE);
                let shown = side_panel_ui((panel, id, 0), [300.0, width * 0.5], ui, |ui| {
                    ui.set_min_size(ui.available_size());
                });
                *rect = shown.response.rect;
            });
        };
        let mut harness = Harness::builder().with_size([1000.0, 200.0]).build_ui_state(frame, Rect::NOTHING);
        let width_at = |harness: &mut Harness<'_, Rect>, width: f32| {
            harness.set_size(vec2(width, 200.0));
            harness.run();
            harness.state().width().round()
        };
        let first = width_at(&mut harness, 1000.0);
        // Half of what the margins leave.
        assert_eq!((first, width_at(&mut harness, 400.0)), (300.0, 192.0));
        assert_eq!(width_at(&mut harness, 1000.0), first);
        // What a person gives it is what it has from then on.
        let edge = harness.state().right_center();
        harness.drag_at(edge);
        harness.hover_at(edge + vec2(60.0, 0.0));
        harness.drop_at(edge + vec2(60.0, 0.0));
        harness.run();
        assert_eq!(harness.state().width().round(), first + 60.0);
        assert_eq!(width_at(&mut harness, 400.0), 192.0);
        assert_eq!(width_at(&mut harness, 1000.0), first + 60.0);
    }
}
