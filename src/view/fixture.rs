//! A view in a session, driven by tests.

use eframe::egui::{Shape, Ui};
use egui_kittest::Harness;

use super::{View, ViewContext};
use crate::answers::Answers;
use crate::command::Command;
use crate::model::{SliceId, Trace};
use crate::session::{Selection, Session};

/// All texts of the picture, also those that have no node of their own.
pub fn texts<S>(harness: &Harness<'_, S>) -> Vec<String> {
    fn collect(shape: &Shape, found: &mut Vec<String>) {
        match shape {
            Shape::Text(text) => found.push(text.galley.text().to_owned()),
            Shape::Vec(shapes) => shapes.iter().for_each(|shape| collect(shape, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    harness.output().shapes.iter().for_each(|clipped| collect(&clipped.shape, &mut found));
    found
}

/// A session and one view of it.
#[derive(Debug)]
pub struct Fixture<V> {
    pub session: Session,
    pub answers: Answers,
    pub view: V,
    pub wheel_zooms: bool,
    /// What the view has asked for.
    pub commands: Vec<Command>,
}

impl<V: View> Fixture<V> {
    pub fn new(traces: Vec<Trace>, view: V) -> Self {
        Self {
            session: Session::of(traces),
            answers: Answers::default(),
            view,
            wheel_zooms: false,
            commands: Vec::new(),
        }
    }

    pub fn with<R>(&mut self, work: impl FnOnce(&mut V, &mut ViewContext<'_>) -> R) -> R {
        let mut ctx = ViewContext {
            wheel_zooms: self.wheel_zooms,
            ..ViewContext::new(&mut self.session, &self.answers, true, &mut self.commands)
        };
        work(&mut self.view, &mut ctx)
    }

    /// One frame of the view.
    pub fn ui(&mut self, ui: &mut Ui) {
        self.with(|view, ctx| view.ui(ctx, ui));
    }

    /// Runs a command, which must be one of the view's.
    pub fn run(&mut self, command: &Command) {
        assert!(self.with(|view, ctx| view.run(command, ctx)), "{command:?} is the view's");
    }

    /// Opens `trace` in place of all others.
    pub fn replace(&mut self, trace: Trace) {
        self.session.clear();
        self.session.add(vec![trace]);
    }

    /// Selects the first slice of that name in the first trace.
    pub fn select(&mut self, name: &str) {
        let trace = &self.session.traces()[0].trace;
        let slice = (0..trace.slices.len() as u32).map(SliceId).find(|&slice| trace.slice_name(slice) == name);
        self.session.selection = Selection::Slice { trace: 0, slice: slice.unwrap() };
    }

    /// The name of the selected slice; empty if none is selected.
    pub fn selected_name(&self) -> &str {
        match self.session.selection {
            Selection::Slice { trace, slice } => self.session.traces()[trace].trace.slice_name(slice),
            _ => "",
        }
    }
}

/// Runs frames until nothing is computed in the background; a click takes two.
pub fn settle<V: View>(harness: &mut Harness<'static, Fixture<V>>) {
    let mut n_calm = 0;
    while n_calm < 4 {
        harness.step();
        n_calm = if harness.state().view.is_pending() { 0 } else { n_calm + 1 };
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
