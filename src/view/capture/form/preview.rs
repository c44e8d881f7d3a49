//! The command as it will run, or why it cannot: worked out beside the frames, since it looks for programs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use eframe::egui::{self, RichText, Ui};

use super::missing::Missing;
use super::{Form, Start};
use crate::capture::launch::{self, Need, Request};
use crate::job::{Job, Poll};
use crate::view::states::failed_ui;
use crate::widget::theme;

/// Stands for the name of the folder, which is known when the run starts.
const NEW: &str = "NEW";

/// What is said where there is no recorder, and where there are counters without one.
const NOTHING: &str = "Only the output of the program is kept";
const COUNTERS_ALONE: &str = "Only the output of the program is kept, and GPU counters if there is a driver";

/// After this time it is looked again for what keeps a command from running: it may be there meanwhile.
const AGAIN: Duration = Duration::from_secs(2);

/// What a form comes to; the last answer stays until the next one is there.
#[derive(Debug, Default)]
pub struct Preview {
    asked: Option<Asked>,
    asked_at: Option<Instant>,
    working: Option<Job<Result<Said, String>>>,
    said: Option<Result<Said, String>>,
    /// What that is said of.
    said_of: Option<Asked>,
    missing: Missing,
}

/// The form, and the person's choice of nsys for all of Lacuna.
type Asked = (Form, Option<PathBuf>);

/// What is said of a command that can be read.
#[derive(Debug)]
struct Said {
    line: String,
    /// What a person may not expect of it.
    hint: Option<String>,
    /// Why it would not begin.
    warning: Option<String>,
    /// What it costs to record it.
    cost: Option<&'static str>,
    /// What its recorder needs.
    need: Need,
}

impl Said {
    fn of((form, nsys): &Asked) -> Result<Self, String> {
        let root = launch::root().unwrap_or_default();
        let request = form.request(root.clone(), nsys.as_deref())?;
        let folder = root.join(NEW);
        let warning = request.check().err().map(|error| error.to_string());
        Ok(Self {
            line: request.command_line(&folder),
            hint: hint(&request),
            need: if warning.is_none() { request.need(&folder) } else { Need::Nothing },
            warning,
            cost: request.recorder.overhead(),
        })
    }
}

impl Preview {
    pub fn is_pending(&self) -> bool {
        self.working.is_some() || self.missing.is_pending()
    }

    /// Why this form cannot be run, as far as that is known.
    pub fn obstacle(&self, form: &Form, nsys: Option<&Path>) -> Option<&str> {
        let is_of_it = self.said_of.as_ref().is_some_and(|(known, with)| known == form && with.as_deref() == nsys);
        self.said.as_ref().filter(|_| is_of_it).and_then(why_not)
    }

    /// Whether this is said of the command.
    pub fn says(&self, why: &str) -> bool {
        self.said.as_ref().and_then(why_not) == Some(why)
    }

    /// Follows the form and paints why it cannot be run, or did not start, or else what it costs to record it and
    /// what is missing for that.
    pub fn reason_ui(&mut self, form: &Form, start: Start<'_>, nsys: Option<&Path>, ui: &mut Ui) {
        if form.line.trim().is_empty() {
            *self = Self::default();
            return;
        }
        self.follow(form, nsys, ui.ctx());
        if let Some(Ok(said)) = &self.said {
            self.missing.follow(&said.need, ui.ctx());
        }
        let tokens = theme::tokens(ui.visuals().dark_mode);
        // In one place, and there also where it is empty, so that nothing moves while a person types the name of a
        // program.
        match (&self.said, start) {
            (_, Start::Starting) => _ = ui.weak("Starting…"),
            (Some(Err(why)), _) => _ = ui.colored_label(tokens.severity[2], why),
            (Some(Ok(Said { warning: Some(warning), .. })), _) => _ = ui.colored_label(tokens.severity[1], warning),
            (_, Start::Failed(why)) => failed_ui(why, ui),
            (Some(Ok(said)), _) => {
                let alone = if form.without_counters { NOTHING } else { COUNTERS_ALONE };
                ui.weak(said.cost.unwrap_or(alone));
                self.missing.said().map(|missing| ui.colored_label(tokens.severity[1], missing));
            }
            (None, _) => _ = ui.label(""),
        }
    }

    /// Paints the command as it will run.
    pub fn line_ui(&self, ui: &mut Ui) {
        let Some(Ok(said)) = &self.said else { return };
        // Not wrapped beneath the button: then egui begins the second line too far to the left, where the first has no
        // room for a long word.
        ui.horizontal_top(|ui| {
            if ui.small_button("Copy").on_hover_text("Copy the command as it will run, for a shell").clicked() {
                ui.ctx().copy_text(said.line.clone());
            }
            ui.weak("Runs");
            ui.add(egui::Label::new(RichText::new(&said.line).monospace()).wrap())
                .on_hover_text(format!("{NEW} stands for the folder of the run, which is named by its time"));
        });
        if let Some(hint) = &said.hint {
            ui.weak(hint);
        }
    }

    fn follow(&mut self, form: &Form, nsys: Option<&Path>, egui: &egui::Context) {
        match self.working.as_ref().map(Job::poll) {
            Some(Poll::Running) => return,
            Some(Poll::Done(said)) => (self.said, self.said_of) = (Some(said), self.asked.clone()),
            Some(Poll::Crashed(message)) => (self.said, self.said_of) = (Some(Err(message)), None),
            None => {}
        }
        self.working = None;
        if self.asked.as_ref().is_some_and(|(known, with)| known == form && with.as_deref() == nsys) {
            let is_well = self.said.as_ref().is_none_or(|said| said.as_ref().is_ok_and(|said| said.warning.is_none()));
            let age = self.asked_at.map_or(AGAIN, |at| at.elapsed());
            if is_well {
                return;
            }
            if age < AGAIN {
                return egui.request_repaint_after(AGAIN.saturating_sub(age));
            }
        }
        let asked = (form.clone(), nsys.map(Path::to_owned));
        let (waker, work) = (egui.clone(), asked.clone());
        match Job::spawn("preview", move || waker.request_repaint(), move |_| Said::of(&work)) {
            Ok(job) => self.working = Some(job),
            Err(error) => {
                (self.said, self.said_of) = (Some(Err(format!("No thread could be started: {error}"))), None);
            }
        }
        (self.asked, self.asked_at) = (Some(asked), Some(Instant::now()));
    }
}

/// Why a command would not begin.
fn why_not(said: &Result<Said, String>) -> Option<&str> {
    said.as_ref().map_or_else(|why| Some(why.as_str()), |said| said.warning.as_deref())
}

/// What a person may not expect of the command: a sentence.
pub fn hint(request: &Request) -> Option<String> {
    let is_of_shell = |word: &&std::ffi::OsString| {
        ["|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "2>&1"].iter().any(|special| word.as_os_str() == *special)
    };
    if let Some(word) = request.argv.iter().find(is_of_shell) {
        let word = Path::new(word).display();
        return Some(format!(
            "No shell reads this: {word} is an argument like any other. For a shell, run bash -c '…'"
        ));
    }
    launch::recorded_ranks(request)
}
