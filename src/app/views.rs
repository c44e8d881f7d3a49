//! The views, each with its guard, in the order of the table of views.

use std::collections::BTreeMap;

use eframe::egui::Context;
use serde_json::Value;

use super::guard::Guard;
use crate::command::Command;
use crate::view::{OffScreen, VIEWS, View, ViewContext, ViewSpec};

/// A view with its guard.
pub struct Slot {
    pub spec: &'static ViewSpec,
    pub view: Box<dyn View>,
    pub guard: Guard,
}

impl Slot {
    fn new(spec: &'static ViewSpec, saved: &Value) -> Self {
        let mut view = (spec.make)();
        view.load(saved);
        Self { spec, view, guard: Guard::default() }
    }
}

/// One of each view, whether it has a tab or not.
pub struct Views(Vec<Slot>);

impl Views {
    /// * `saved`: by their ids, what views returned from [`View::save`].
    pub fn new(saved: &BTreeMap<String, Value>) -> Self {
        Self(VIEWS.iter().map(|spec| Slot::new(spec, saved.get(spec.id).unwrap_or(&Value::Null))).collect())
    }

    /// What [`Self::new`] takes.
    pub fn save(&self) -> BTreeMap<String, Value> {
        let saved = self.0.iter().map(|slot| (slot.spec.id.to_owned(), slot.view.save()));
        saved.filter(|(_, saved)| !saved.is_null()).collect()
    }

    pub fn get(&mut self, id: &str) -> Option<&mut Slot> {
        self.0.iter_mut().find(|slot| slot.spec.id == id)
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter()
    }

    #[cfg(test)]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.0.iter_mut()
    }

    /// What the user keeps off the screen, of all views.
    pub fn off_screen(&self) -> OffScreen {
        let all = self.0.iter().map(|slot| slot.view.off_screen());
        all.reduce(OffScreen::with).unwrap_or_default()
    }

    /// Whether one of these views waits for an analysis.
    pub fn is_pending(&self, ids: &[&str]) -> bool {
        self.0.iter().any(|slot| ids.contains(&slot.spec.id) && slot.view.is_pending())
    }

    /// How much the first of these views that has a horizontal axis shows of it.
    pub fn visible(&mut self, ids: &[&str], ctx: &mut ViewContext<'_>) -> Option<[String; 2]> {
        ids.iter().find_map(|id| {
            let Slot { view, guard, .. } = self.get(id)?;
            guard.catch(|| view.visible(ctx)).flatten()
        })
    }

    /// Whether a program runs that the user started in a view, and that ends with the window.
    pub fn has_run(&self) -> bool {
        self.0.iter().any(|slot| slot.view.has_run())
    }

    /// Whether one of these views shows the selected range alone.
    pub fn follow_range(&self, ids: &[&str]) -> bool {
        self.0.iter().any(|slot| ids.contains(&slot.spec.id) && slot.view.follows_range())
    }

    /// Clears the failure of a view whose tab was closed; what was typed there stays.
    pub fn close(&mut self, id: &str) {
        if let Some(slot) = self.get(id) {
            slot.guard = Guard::default();
        }
    }

    /// Gives every view its first settings.
    pub fn reset(&mut self) {
        self.0.iter_mut().for_each(|slot| slot.view.load(&Value::Null));
    }

    /// Tells every view that a frame begins, or that traces were closed.
    pub fn update(&mut self, ctx: &mut ViewContext<'_>, egui: &Context) {
        for Slot { view, guard, .. } in &mut self.0 {
            guard.catch(|| view.update(ctx, egui));
        }
    }

    /// Runs a command in the view that handles it; false if none does.
    ///
    /// * `on_screen`: the views to ask first, in this order, if none handles it while hidden as well.
    pub fn run(&mut self, command: &Command, on_screen: &[&'static str], ctx: &mut ViewContext<'_>) -> bool {
        let is_run = |Slot { view, guard, .. }: &mut Slot, ctx: &mut ViewContext<'_>| {
            guard.catch(|| view.run_hidden(command, ctx)).unwrap_or(false)
        };
        self.0.iter_mut().any(|slot| is_run(slot, ctx))
            || on_screen.iter().any(|id| {
                let Some(Slot { view, guard, .. }) = self.get(id) else { return false };
                guard.catch(|| view.run(command, ctx)).unwrap_or(false)
            })
    }
}
