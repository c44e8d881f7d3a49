//! The middle of the window: tab groups that can be dragged, split and resized, with a view in each tab.

use std::path::Path;

use eframe::egui::{
    self, CentralPanel, Color32, Frame, Id, Margin, Response, Stroke, Ui, UiBuilder, Visuals, WidgetText, vec2,
};
use egui_tiles::{Behavior, EditAction, SimplificationOptions, TabState, Tabs, Tile, TileId, Tiles, UiResponse};

use super::layout::Pane;
use super::views::Views;
use super::{App, tab};
use crate::answers::Answers;
use crate::command::Command;
use crate::session::Session;
use crate::view::{DockArea, ViewContext, ViewSpec, search, view_spec};
use crate::widget::theme::{self, Tokens};

pub(super) const TAB_BAR_HEIGHT: f32 = 26.0;
/// What the name of a tab's subject gets of the tab bar where tabs fill it.
const MIN_SUBJECT_SHARE: f32 = 0.2;
/// Width and height below which no group can be dragged.
pub(super) const MIN_SIZE: f32 = 80.0;
/// How long a view is outlined that was asked for while it was in front, in seconds.
const FLASH: f64 = 1.0;
/// Between groups; the pointer takes hold of it to resize them.
pub(super) const GAP: f32 = 3.0;

impl App {
    pub(super) fn panels_ui(&mut self, ui: &mut Ui) {
        let is_dark = ui.visuals().dark_mode;
        self.layout.follow(self.session.traces());
        // Before anything is painted, so that no hit is of a trace that is gone.
        self.views
            .update(&mut ViewContext::new(&mut self.session, &self.answers, is_dark, &mut self.commands), ui.ctx());
        let on_screen = self.layout.on_screen();
        let is_center = |id: &&str| view_spec(id).is_some_and(|spec| spec.area == DockArea::Center);
        let mut panels = Panels {
            views: &mut self.views,
            session: &mut self.session,
            answers: &self.answers,
            commands: &mut self.commands,
            wheel_zooms: self.settings.wheel_zooms,
            nsys: self.settings.nsys.as_deref(),
            tokens: theme::tokens(is_dark),
            is_dark,
            focused: self.layout.focused(),
            has_keys: on_screen.iter().copied().find(is_center),
            revealed: None,
            used: None,
            closed: None,
            flashed: self.flashed.and_then(|(id, at)| {
                let strength = 1.0 - (ui.input(|input| input.time) - at) / FLASH;
                (strength > 0.0).then_some((id, strength as f32))
            }),
        };
        if panels.flashed.is_some() {
            ui.ctx().request_repaint();
        }
        CentralPanel::default().frame(Frame::NONE.fill(panels.tokens.line)).show(ui, |ui| {
            if on_screen.is_empty() && self.layout.tree.active_tiles().is_empty() {
                all_closed_ui(&mut panels, ui);
            } else {
                self.layout.fit(ui.available_size());
                self.layout.tree.ui(&mut panels, ui);
            }
        });
        let Panels { used, closed, .. } = panels;
        if let Some(id) = used {
            self.layout.focus(id);
        }
        if let Some(id) = closed {
            self.close_view(id);
        }
    }

    /// Paints a view of this machine in the whole window, while no trace is open.
    pub(super) fn alone_ui(&mut self, id: &'static str, ui: &mut Ui) {
        let is_dark = ui.visuals().dark_mode;
        let Some(slot) = self.views.get(id) else { return };
        let mut ctx = ViewContext {
            wheel_zooms: self.settings.wheel_zooms,
            nsys: self.settings.nsys.as_deref(),
            ..ViewContext::new(&mut self.session, &self.answers, is_dark, &mut self.commands)
        };
        let frame = Frame::NONE.fill(theme::tokens(is_dark).canvas);
        CentralPanel::default().frame(frame).show(ui, |ui| {
            ui.horizontal(|ui| {
                ui.add_space(8.0);
                ui.strong(slot.spec.title);
                if ui.button("Back").on_hover_text("Close this view (Escape)").clicked() {
                    ctx.commands.push(Command::CloseView);
                }
            });
            slot.guard.show(slot.spec.title, ui, |ui| slot.view.ui(&mut ctx, ui));
        });
    }

    /// Closes a view. What was typed and chosen in it is there when it is opened again.
    pub(super) fn close_view(&mut self, id: &str) {
        self.layout.close(id);
        self.views.close(id);
    }
}

/// Shown where every view is closed.
fn all_closed_ui(panels: &mut Panels<'_>, ui: &mut Ui) {
    Frame::NONE.fill(panels.tokens.canvas).inner_margin(24).show(ui, |ui| {
        ui.set_min_size(ui.available_size());
        ui.label("All views are closed");
        ui.weak("Open them from the View menu");
        if ui.button("Reset layout").clicked() {
            panels.commands.push(Command::ResetLayout);
        }
    });
}

/// The height that a view beside or below the middle has at least, in points; narrow ones break their lines of
/// controls.
fn least_height(area: DockArea, width: f32) -> f32 {
    match area {
        DockArea::Bottom if width < 700.0 => 320.0,
        DockArea::Bottom => 200.0,
        DockArea::Center | DockArea::Side => 0.0,
    }
}

/// Shows a view that is higher than its room, as with large text: rather scrolled than cut. What stands above a list
/// scrolls out of sight before the list itself does: else there would be room for a row or two of it at any time.
///
/// * `least`: the height of the view, in points.
fn low_ui(least: f32, ui: &mut Ui, show: impl FnOnce(&mut Ui)) {
    let kept = ui.scope_id().with("how far it is scrolled");
    let offset: f32 = ui.data(|data| data.get_temp(kept)).unwrap_or_default();
    let is_over = ui.rect_contains_pointer(ui.max_rect());
    let has_more_below = offset + 0.5 < least - ui.available_height();
    let down = ui.input_mut(|input| {
        let down = if is_over && has_more_below { input.smooth_scroll_delta.y.min(0.0) } else { 0.0 };
        input.smooth_scroll_delta.y -= down;
        down
    });
    let shown = egui::ScrollArea::vertical().id_salt("low").auto_shrink(false).show(ui, |ui| {
        let size = vec2(ui.available_width(), least);
        ui.allocate_ui(size, |ui| {
            ui.set_min_size(size);
            ui.set_max_size(size);
            show(ui);
        });
        ui.input_mut(|input| input.smooth_scroll_delta.y += down);
    });
    ui.data_mut(|data| data.insert_temp(kept, shown.state.clamped_offset().y));
}

/// Paints tabs and views.
struct Panels<'a> {
    views: &'a mut Views,
    session: &'a mut Session,
    answers: &'a Answers,
    commands: &'a mut Vec<Command>,
    wheel_zooms: bool,
    nsys: Option<&'a Path>,
    tokens: &'static Tokens,
    is_dark: bool,
    /// The view that was used last.
    focused: Option<&'static str>,
    /// The view that moves while keys are held.
    has_keys: Option<&'static str>,
    /// The tab to scroll into sight in the tab bar that is being painted.
    revealed: Option<TileId>,
    /// What was clicked in this frame: a view or its tab, and a close button.
    used: Option<&'static str>,
    closed: Option<&'static str>,
    /// The view that was asked for while it was in front, and how much of its outline is left, from 1 to 0.
    flashed: Option<(&'static str, f32)>,
}

impl Panels<'_> {
    /// The view of a tab; of a tab that was split, the first one in it.
    fn spec(tiles: &Tiles<Pane>, tile: TileId) -> Option<&'static ViewSpec> {
        match tiles.get(tile)? {
            Tile::Pane(pane) => view_spec(pane),
            Tile::Container(container) => container.children().find_map(|&child| Self::spec(tiles, child)),
        }
    }

    fn is_useful(&self, spec: &ViewSpec) -> bool {
        spec.content.is_in(self.session.traces())
    }

    /// A view's title, with the number of things that it lists.
    fn title(&mut self, id: &str) -> String {
        let Some(slot) = self.views.get(id) else { return String::new() };
        match slot.view.count(&ViewContext::new(self.session, self.answers, self.is_dark, self.commands)) {
            0 => slot.spec.title.to_owned(),
            n => format!("{} ({n})", slot.spec.title),
        }
    }

    /// The menu of all tabs of a group, where some are out of sight.
    fn tabs_menu_ui(&mut self, tiles: &Tiles<Pane>, tabs: &Tabs, ui: &mut Ui) {
        let button = ui.add(egui::Button::new("…").frame(false)).accessible_name("All tabs of this group");
        egui::Popup::menu(&button).show(|ui| {
            for &tile in &tabs.children {
                let Some(spec) = Self::spec(tiles, tile) else { continue };
                let is_listed = tiles.is_visible(tile) || self.is_useful(spec);
                if is_listed && ui.selectable_label(tabs.is_active(tile), self.title(spec.id)).clicked() {
                    self.commands.push(Command::Show(spec.id));
                    ui.close();
                }
            }
        });
    }
}

impl Behavior<Pane> for Panels<'_> {
    fn pane_ui(&mut self, ui: &mut Ui, _tile: TileId, pane: &mut Pane) -> UiResponse {
        let Some(slot) = self.views.get(pane) else { return UiResponse::None };
        let id = slot.spec.id;
        let (fill, margin) = match slot.spec.area {
            DockArea::Center => (self.tokens.canvas, Margin::ZERO),
            DockArea::Side | DockArea::Bottom => (self.tokens.panel, Margin::symmetric(8, 4)),
        };
        let rect = ui.max_rect();
        ui.painter().rect_filled(rect, 0.0, fill);
        let mut ctx = ViewContext {
            wheel_zooms: self.wheel_zooms,
            nsys: self.nsys,
            has_keys: self.has_keys == Some(id),
            ..ViewContext::new(self.session, self.answers, self.is_dark, self.commands)
        };
        // What egui remembers of a view follows it wherever it is dragged to.
        let builder = UiBuilder::new().scope_id(Id::unique(id)).max_rect(rect - margin);
        let least = least_height(slot.spec.area, rect.width());
        ui.scope_builder(builder, |ui| {
            let mut show = |ui: &mut Ui| slot.guard.show(slot.spec.title, ui, |ui| slot.view.ui(&mut ctx, ui));
            if ui.available_height() >= least {
                return show(ui);
            }
            low_ui(least, ui, &mut show);
        });
        if let Some((_, strength)) = self.flashed.filter(|flashed| flashed.0 == id) {
            let stroke = Stroke::new(3.0, self.tokens.accent.gamma_multiply(strength));
            ui.painter().rect_stroke(rect, 0.0, stroke, egui::StrokeKind::Inside);
        }
        if ui.rect_contains_pointer(rect) && ui.input(|input| input.pointer.any_pressed()) {
            self.used = Some(id);
        }
        UiResponse::None
    }

    fn tab_title_for_pane(&mut self, pane: &Pane) -> WidgetText {
        self.title(pane).into()
    }

    fn tab_title_for_tile(&mut self, tiles: &Tiles<Pane>, tile: TileId) -> WidgetText {
        let title = Self::spec(tiles, tile).map(|spec| self.title(spec.id)).unwrap_or_default();
        if matches!(tiles.get(tile), Some(Tile::Container(_))) { format!("{title}, …").into() } else { title.into() }
    }

    fn tab_ui(&mut self, tiles: &mut Tiles<Pane>, ui: &mut Ui, id: Id, tile: TileId, state: &TabState) -> Response {
        let title = self.tab_title_for_tile(tiles, tile);
        let spec = Self::spec(tiles, tile);
        let view = spec.map(|spec| spec.id);
        let look = tab::TabStyle {
            is_active: state.active,
            is_focused: view.is_some() && view == self.focused,
            is_dragged: state.is_being_dragged,
            fill: if spec.is_some_and(|spec| spec.area == DockArea::Center) {
                self.tokens.canvas
            } else {
                self.tokens.panel
            },
            is_closable: matches!(tiles.get(tile), Some(Tile::Pane(_))),
        };
        let (response, is_closed) = tab::ui(ui, id, title.text(), &look, self.tokens);
        if is_closed {
            self.closed = view;
        } else if response.clicked() || response.drag_started() {
            self.used = view;
            if response.clicked() && view == Some(search::SPEC.id) {
                // It is opened to type.
                self.commands.push(Command::Search);
            }
        }
        if self.revealed == Some(tile) {
            ui.scroll_to_rect_animation(response.rect, None, egui::style::ScrollAnimation::none());
        }
        response
    }

    fn tab_bar_trailing_ui(&mut self, _tiles: &Tiles<Pane>, ui: &mut Ui, tile: TileId, _tabs: &Tabs) {
        let width = ui.min_rect().width();
        let before = ui.data_mut(|data| {
            std::mem::replace(&mut data.get_temp_mut_or_default::<TabBar>(Id::unique(tile)).tabs_width, width)
        });
        if (before - width).abs() > 0.5 {
            ui.ctx().request_repaint();
        }
    }

    fn top_bar_right_ui(&mut self, tiles: &Tiles<Pane>, ui: &mut Ui, tile: TileId, tabs: &Tabs, _offset: &mut f32) {
        let mut bar: TabBar = ui.data(|data| data.get_temp(Id::unique(tile))).unwrap_or_default();
        let room = ui.available_width() - bar.tabs_width;
        let is_hidden = |&tile: &TileId| {
            !tiles.is_visible(tile) && Self::spec(tiles, tile).is_some_and(|spec| self.is_useful(spec))
        };
        if room < 0.0 || tabs.children.iter().any(is_hidden) {
            ui.add_space(4.0);
            self.tabs_menu_ui(tiles, tabs, ui);
        }
        let view = tabs.active.and_then(|tile| Self::spec(tiles, tile)).and_then(|spec| self.views.get(spec.id));
        let subject = view.and_then(|slot| {
            slot.view.subject(&mut ViewContext::new(self.session, self.answers, self.is_dark, self.commands))
        });
        if let Some(subject) = subject {
            let width = (room - 24.0).max(ui.available_width() * MIN_SUBJECT_SHARE);
            ui.allocate_ui(vec2(width, ui.available_height()), |ui| {
                ui.add(egui::Label::new(egui::RichText::new(format!("of {subject}")).weak()).truncate());
            });
        }
        let shown = tabs.children.iter().copied().filter(|&tile| tiles.is_visible(tile)).collect();
        self.revealed = bar.follow(tabs.active, shown, ui.available_width());
        if self.revealed.is_some() {
            ui.ctx().request_repaint();
        }
        ui.data_mut(|data| data.insert_temp(Id::unique(tile), bar));
    }

    fn drag_ui(&mut self, tiles: &Tiles<Pane>, ui: &mut Ui, tile: TileId) {
        Frame::popup(ui.style()).show(ui, |ui| ui.label(self.tab_title_for_tile(tiles, tile)));
    }

    fn tab_bar_height(&self, _style: &egui::Style) -> f32 {
        TAB_BAR_HEIGHT
    }

    fn tab_bar_color(&self, _visuals: &Visuals) -> Color32 {
        self.tokens.stripe
    }

    fn gap_width(&self, _style: &egui::Style) -> f32 {
        GAP
    }

    fn min_size(&self) -> f32 {
        MIN_SIZE
    }

    fn resize_stroke(&self, _style: &egui::Style, state: egui_tiles::ResizeState) -> Stroke {
        match state {
            egui_tiles::ResizeState::Idle => Stroke::new(GAP, self.tokens.line),
            egui_tiles::ResizeState::Hovering | egui_tiles::ResizeState::Dragging => {
                Stroke::new(GAP, self.tokens.accent)
            }
        }
    }

    fn drag_preview_stroke(&self, _visuals: &Visuals) -> Stroke {
        Stroke::new(1.0, self.tokens.accent)
    }

    fn drag_preview_color(&self, _visuals: &Visuals) -> Color32 {
        self.tokens.accent.gamma_multiply(0.25)
    }

    fn simplification_options(&self) -> SimplificationOptions {
        SimplificationOptions { all_panes_must_have_tabs: true, ..SimplificationOptions::default() }
    }

    fn on_edit(&mut self, _action: EditAction) {}
}

/// What is kept of a tab bar from frame to frame.
#[derive(Clone, Default)]
struct TabBar {
    tabs_width: f32,
    /// The width at which the active tab was last scrolled into sight: counts on tabs arrive later than the tabs.
    followed_width: f32,
    active: Option<TileId>,
    shown: Vec<TileId>,
    /// The points that tabs and scroll arrows share.
    room: f32,
    /// Frames in which the active tab is still scrolled into sight.
    n_reveals: u8,
}

impl TabBar {
    /// The active tab, while it is to be scrolled into sight: after it, the tabs beside it, their widths or their room
    /// changed.
    fn follow(&mut self, active: Option<TileId>, shown: Vec<TileId>, room: f32) -> Option<TileId> {
        /// Scroll arrows appear a frame later and take room in turn.
        const N_REVEALS: u8 = 6;
        let is_resized = (self.room - room).abs() > 0.5 || (self.followed_width - self.tabs_width).abs() > 0.5;
        if (self.active, &self.shown) != (active, &shown) || is_resized {
            (self.active, self.shown, self.room, self.n_reveals) = (active, shown, room, N_REVEALS);
            self.followed_width = self.tabs_width;
        }
        let is_moving = self.n_reveals > 0;
        self.n_reveals = self.n_reveals.saturating_sub(1);
        active.filter(|_| is_moving)
    }
}
