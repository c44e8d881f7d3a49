//! What the line at the bottom of the window says for a while.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use eframe::egui::{self, RichText, Sense};

use super::App;
use crate::command::Command;
use crate::model::TimeRange;
use crate::session::Selection;
use crate::widget::theme;

/// How long a sentence stays that is to be read.
const SHOW_SAID: Duration = Duration::from_secs(8);
/// How long it stays that something was done: it takes the place of the line at the bottom.
const SHOW_DONE: Duration = Duration::from_secs(3);

/// What is said for a while.
#[derive(Debug)]
pub struct Told {
    pub text: Cow<'static, str>,
    pub since: Instant,
    pub lasts: Duration,
    /// Whether it says why something did not happen.
    pub is_refusal: bool,
    /// The selection and the range of which it is said, which take it along when they change.
    pub of: Option<(Selection, Option<TimeRange>)>,
    /// Shows what it is said of.
    pub leads_to: Option<Command>,
}

impl Told {
    /// That something was done.
    pub fn done(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), since: Instant::now(), lasts: SHOW_DONE, is_refusal: false, of: None, leads_to: None }
    }

    /// A sentence to read.
    pub fn said(text: impl Into<Cow<'static, str>>) -> Self {
        Self { lasts: SHOW_SAID, ..Self::done(text) }
    }

    /// Why something did not happen.
    pub fn refusal(text: impl Into<Cow<'static, str>>) -> Self {
        Self { is_refusal: true, ..Self::said(text) }
    }

    /// Paints it; whether it is done with. What it leads to is added to `commands` if that is asked for.
    pub fn ui(&self, commands: &mut Vec<Command>, ui: &mut egui::Ui) -> bool {
        if let Some(command) = &self.leads_to
            && ui.button("Show").on_hover_text("Go there").clicked()
        {
            commands.push(command.clone());
            return true;
        }
        let color = self.is_refusal.then(|| theme::tokens(ui.visuals().dark_mode).severity[1]);
        let text = color.into_iter().fold(RichText::new(&*self.text), RichText::color);
        let label = egui::Label::new(text).truncate().show_tooltip_when_elided(false).sense(Sense::click());
        ui.add(label).on_hover_text(format!("{}\nClick to close", self.text)).clicked()
    }
}

impl App {
    /// What was said last, while it is new and of what is selected.
    pub(super) fn told(&mut self, ctx: &egui::Context) -> Option<&Told> {
        let told = self.told.take()?;
        let left = told.lasts.checked_sub(told.since.elapsed())?;
        if told.of.is_some_and(|of| of != (self.session.selection, self.session.range)) {
            return None;
        }
        ctx.request_repaint_after(left);
        Some(self.told.insert(told))
    }
}
