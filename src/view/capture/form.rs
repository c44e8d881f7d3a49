//! The form: command and recorder; kept with the settings.

mod command;
mod missing;
mod nsys_options;
mod preview;
mod pytorch_options;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use eframe::egui::{self, RichText, TextEdit, Ui};
use serde::{Deserialize, Serialize};

use self::preview::Preview;
use super::armed::Armed;
use crate::capture::kineto;
use crate::capture::launch::{self, Destination, Recorder, Request, overhead, words};
use crate::capture::nsys;
use crate::capture::pytorch;
use crate::session::lenient;

/// Where the options are at least this wide, in points, where the command runs stands beside what is recorded, which
/// then takes this share of the width.
const WIDE: f32 = 860.0;
const SHARE: f32 = 0.6;
/// The widest fields, in points.
const FIELD: f32 = 440.0;
const MAX_RECENT: usize = 20;
const GRACE: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(86_400);

/// Variables that help to find a fault: name, value, and what they do.
const VARIABLES: [(&str, &str, &str); 9] = [
    ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", "Let segments grow, which avoids most fragmentation"),
    ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128", "Never split larger blocks, which avoids fragmentation"),
    ("PYTORCH_CUDA_ALLOC_CONF", "garbage_collection_threshold:0.6", "Free unused blocks above this share of memory"),
    ("NCCL_DEBUG", "INFO", "NCCL's log"),
    ("NCCL_DEBUG_SUBSYS", "ALL", "NCCL's log of all subsystems"),
    ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "Check collectives for mismatches between ranks; slow"),
    ("TORCH_LOGS", "recompiles,graph_breaks", "Log why torch.compile recompiles or breaks graphs"),
    ("TORCH_COMPILE_DEBUG", "1", "Write the output of torch.compile into a folder"),
    ("CUDA_LAUNCH_BLOCKING", "1", "Wait for each kernel, so that errors show where they occur; slow"),
];

/// A command with all its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Form {
    /// The command as typed.
    pub line: String,
    /// Where it runs; empty is where Lacuna does.
    folder: String,
    /// Assignments to the environment, as typed.
    env: String,
    pub backend: Backend,
    /// Of traces on demand.
    times: pytorch_options::Times,
    ranks: String,
    options: pytorch::Options,
    nsys: nsys::Profile,
    /// The `nsys` to use; empty is the one that is found.
    nsys_path: String,
    /// Further options of nsys, as typed.
    nsys_others: String,
    /// After so many seconds it is stopped; 0 is never.
    seconds: u32,
    /// Whether the counters of the GPUs are left out.
    without_counters: bool,
}

/// Whether the command can start, and how far the last start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    Free,
    /// Another command runs.
    Busy,
    Starting,
    /// It did not start: a sentence.
    Failed(&'a str),
}

/// How a command is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backend {
    #[default]
    PyTorch,
    OnDemand,
    Nsys,
    Cupti,
    None,
}

/// Each with its title, its name in manifests, what it is, and what it costs.
const BACKENDS: [(Backend, &str, &str, &str, &str); 5] = [
    (
        Backend::PyTorch,
        "PyTorch profiler",
        "pytorch",
        "In every Python process that imports torch, unmodified",
        overhead::PYTORCH,
    ),
    (
        Backend::OnDemand,
        "PyTorch on demand",
        "on-demand",
        "Traces of an unmodified PyTorch program, started by a button while it runs",
        overhead::ON_DEMAND,
    ),
    (Backend::Nsys, "Nsight Systems", "nsys", "nsys profile, for any program, where nsys is installed", overhead::NSYS),
    (Backend::Cupti, "CUPTI", "cupti", "Lacuna's own recorder, for any program with CUDA or NVTX", overhead::CUPTI),
    (Backend::None, "Nothing", "none", "Only run the command", ""),
];

/// The form with what was run before.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Forms {
    pub form: Form,
    /// The latest first, none that runs the same as another.
    pub recent: Vec<Form>,
    /// Those that have a name.
    presets: Vec<(String, Form)>,
    #[serde(skip)]
    new_name: String,
    /// The name of the preset that is to be forgotten, once the user says so again.
    #[serde(skip)]
    forgotten: Armed<String>,
    #[serde(skip)]
    preview: Preview,
    /// Whether the command's field is to have the focus.
    #[serde(skip)]
    is_awaited: bool,
}

impl Form {
    /// Takes over the command of an earlier run.
    pub fn take(&mut self, manifest: &launch::Manifest) {
        let joined = || launch::Typed { line: manifest.command.clone(), env: manifest.env.join(" ") };
        launch::Typed { line: self.line, env: self.env } = manifest.typed.clone().unwrap_or_else(joined);
        self.folder.clone_from(&manifest.working_folder);
        let known = BACKENDS.iter().find(|backend| backend.2 == manifest.recorder);
        self.backend = known.map_or(self.backend, |backend| backend.0);
        if let Some(options) = &manifest.options {
            self.take_options(options);
        }
    }

    /// Takes over what was asked of an earlier run beside its command; what has no place in the form stays as it was.
    fn take_options(&mut self, options: &launch::RunOptions) {
        self.seconds = u32::try_from(options.seconds).unwrap_or(u32::MAX);
        self.without_counters = !options.has_counters;
        match self.backend {
            Backend::PyTorch => {
                self.options = lenient(&options.recorder);
                self.ranks = pytorch::ranks_text(self.options.ranks.as_ref());
            }
            Backend::OnDemand => {
                let Ok(on_demand) = kineto::Options::deserialize(&options.recorder) else { return };
                self.times.length = on_demand.duration.as_secs_f64();
                self.times.every = on_demand.every.unwrap_or_default().as_secs_f64();
                self.ranks = pytorch::ranks_text(on_demand.ranks.as_ref());
                self.options.contents = on_demand.contents;
            }
            Backend::Nsys => {
                self.nsys = lenient(&options.recorder);
                self.nsys_others = words::joined(std::mem::take(&mut self.nsys.others).iter().map(OsStr::new));
            }
            Backend::Cupti | Backend::None => {}
        }
    }

    /// Whether another form has the same command, however it is quoted and wherever its variables stand.
    fn runs_as(&self, other: &Self) -> bool {
        let line = |form: &Self| words::split(&form.line).ok();
        let whole = |form: &Self| {
            let (line, env) = (line(form)?, words::split(&form.env).ok()?.env);
            Some((line.argv, [env, line.env].concat()))
        };
        self.line == other.line
            || line(self).is_some_and(|own| line(other) == Some(own))
            || whole(self).is_some_and(|own| whole(other) == Some(own))
    }

    /// What is to run, in a new folder in `root`. `nsys`: the one to record with, where the form names none.
    ///
    /// Errors: a sentence about what cannot be read.
    pub fn request(&self, root: PathBuf, nsys: Option<&Path>) -> Result<Request, String> {
        let mut line = words::split(&self.line).map_err(|error| error.to_string())?;
        let added = words::split(&self.env).map_err(|error| format!("{error}, in the environment"))?;
        if let Some(word) = added.argv.first() {
            return Err(format!("The environment takes NAME=value: {}", words::quoted(word)));
        }
        line.env.splice(0..0, added.env);
        let folder = Some(self.folder.trim()).filter(|folder| !folder.is_empty()).map(words::path).transpose();
        let working_folder = folder.map_err(|error| format!("{error}, in the working folder"))?;
        let mut options = self.options.clone();
        options.ranks = match self.ranks.trim() {
            "" => Some([0].into()),
            "all" => None,
            ranks => Some(pytorch::ranks(ranks).ok_or("Ranks are numbers and ranges, such as 0,4-7, or all")?),
        };
        Ok(Request {
            argv: line.argv,
            env: line.env,
            typed: Some(launch::Typed { line: self.line.clone(), env: self.env.clone() }),
            working_folder,
            recorder: match self.backend {
                Backend::PyTorch => Recorder::PyTorch(options),
                Backend::OnDemand => Recorder::OnDemand(self.on_demand(options)),
                Backend::Nsys => Recorder::Nsys(self.profile(nsys)?),
                Backend::Cupti => Recorder::Cupti,
                Backend::None => Recorder::None,
            },
            place: Destination::In(root),
            grace: GRACE,
            patience: launch::PATIENCE,
            time_limit: (self.seconds > 0).then(|| Duration::from_secs(self.seconds.into())),
            has_counters: !self.without_counters,
            is_piped: false,
        })
    }

    /// What nsys records.
    ///
    /// Errors: there is no nsys, or its options cannot be read.
    fn profile(&self, nsys: Option<&Path>) -> Result<nsys::Profile, String> {
        let chosen = self.own_nsys().or_else(|| nsys.map(Path::to_owned));
        let others = words::split(&self.nsys_others).map_err(|error| format!("{error}, in the options of nsys"))?;
        let others = others.argv.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Ok(nsys::Profile { program: nsys::recorder(chosen)?, others, ..self.nsys.clone() })
    }

    /// The `nsys` that the form names, if it records with it.
    pub fn own_nsys(&self) -> Option<PathBuf> {
        let path = Some(self.nsys_path.trim()).filter(|path| !path.is_empty() && self.backend == Backend::Nsys);
        path.map(PathBuf::from)
    }

    fn on_demand(&self, options: pytorch::Options) -> kineto::Options {
        // Settings may hold any number.
        let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO).min(DAY);
        kineto::Options {
            duration: time(self.times.length).max(Duration::from_millis(10)),
            every: Some(time(self.times.every)).filter(|every| !every.is_zero()),
            ranks: options.ranks,
            contents: options.contents,
        }
    }

    fn add_variable(&mut self, name: &str, value: &str) {
        let start = format!("{name}=");
        let known = self.env.split(' ').find(|word| word.starts_with(&start)).map(str::to_owned);
        match known {
            // Options of one variable are separated by commas.
            Some(word) if word.contains(value) => {}
            Some(word) => self.env = self.env.replace(&word, &format!("{word},{value}")),
            None => {
                let gap = if self.env.is_empty() || self.env.ends_with(' ') { "" } else { " " };
                self.env.push_str(&format!("{gap}{name}={value}"));
            }
        }
    }

    /// Where it runs and in which environment.
    fn place_ui(&mut self, ui: &mut Ui) {
        egui::Grid::new("capture place").num_columns(2).spacing([12.0, 5.0]).show(ui, |ui| {
            let label = ui.label("Working folder");
            let edit = TextEdit::singleline(&mut self.folder)
                .id_salt("folder")
                .hint_text("Where Lacuna runs")
                .desired_width(ui.available_width().clamp(0.0, FIELD));
            ui.add(edit).labelled_by(label.id);
            ui.end_row();
            let label = ui.label("Environment");
            ui.horizontal(|ui| {
                let button = button_width("Add…", ui) + ui.spacing().item_spacing.x;
                let edit = TextEdit::singleline(&mut self.env)
                    .id_salt("environment")
                    .hint_text("NAME=value NAME=value")
                    .desired_width((ui.available_width() - button).clamp(0.0, FIELD));
                ui.add(edit).labelled_by(label.id);
                ui.menu_button("Add…", |ui| {
                    for (name, value, help) in VARIABLES {
                        if ui.button(format!("{name}={value}")).on_hover_text(help).clicked() {
                            self.add_variable(name, value);
                        }
                    }
                });
            });
            ui.end_row();
            let label = ui.label("Time limit");
            ui.horizontal(|ui| {
                let text = |value: f64, _| if value < 1.0 { "none".to_owned() } else { format!("{value} s") };
                let parse = |text: &str| match text.trim() {
                    "none" | "" => Some(0.0),
                    text => text.trim_end_matches(['s', ' ']).parse().ok(),
                };
                let drag = egui::DragValue::new(&mut self.seconds).custom_formatter(text).custom_parser(parse);
                ui.add(drag)
                    .labelled_by(label.id)
                    .on_hover_text("Stop the program after this many seconds, as Stop does");
            });
            ui.end_row();
        });
    }

    /// What is recorded.
    fn recorder_ui(&mut self, nsys: Option<&Path>, ui: &mut Ui) {
        let mut has_counters = !self.without_counters;
        ui.checkbox(&mut has_counters, "GPU counters").on_hover_text(format!(
            "Record GPU metrics as counters below the timeline, if there is a driver. Costs {}",
            overhead::COUNTERS
        ));
        self.without_counters = !has_counters;
        match self.backend {
            Backend::PyTorch => pytorch_options::profiler_ui(&mut self.options, &mut self.ranks, ui),
            Backend::OnDemand => {
                let contents = &mut self.options.contents;
                pytorch_options::on_demand_ui(&mut self.times, contents, &mut self.ranks, ui);
            }
            Backend::Nsys => {
                let of_lacuna = nsys.map(|nsys| nsys.display().to_string());
                let path = (&mut self.nsys_path, of_lacuna.as_deref().unwrap_or("The first one found"));
                nsys_options::ui(&mut self.nsys, path, &mut self.nsys_others, ui);
            }
            Backend::Cupti | Backend::None => {}
        }
    }
}

impl Forms {
    /// Puts the command first among the recent ones.
    pub fn remember(&mut self) {
        self.recent.insert(0, self.form.clone());
        self.tidy();
    }

    /// Keeps the latest of those that run the same, and only so many.
    pub fn tidy(&mut self) {
        let mut kept: Vec<Form> = Vec::new();
        for form in std::mem::take(&mut self.recent) {
            if kept.len() < MAX_RECENT && !kept.iter().any(|known| known.runs_as(&form)) {
                kept.push(form);
            }
        }
        self.recent = kept;
    }

    /// Paints the form; true if the command is to start.
    ///
    /// * `nsys`: the user's choice for all of Lacuna.
    pub fn ui(&mut self, start: Start<'_>, nsys: Option<&Path>, ui: &mut Ui) -> bool {
        let mut is_asked = false;
        ui.horizontal(|ui| {
            let label = ui.strong("Command");
            let buttons = button_width("Start", ui) + button_width("Recent", ui) + 2.0 * ui.spacing().item_spacing.x;
            let width = (ui.available_width() - buttons).max(120.0);
            let edit = command::edit(&mut self.form.line, width, ui);
            let typed = ui.add(edit).labelled_by(label.id);
            if std::mem::take(&mut self.is_awaited) {
                typed.request_focus();
            }
            let is_entered = typed.has_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
            if is_entered {
                typed.surrender_focus();
            }
            let obstacle = self.preview.obstacle(&self.form, nsys);
            let is_free = matches!(start, Start::Free | Start::Failed(_));
            let can_start = is_free && !self.form.line.trim().is_empty() && obstacle.is_none();
            let mut button = ui.add_enabled(can_start, egui::Button::new("Start"));
            if let Some(why) = obstacle {
                button = button.on_disabled_hover_text(why);
            }
            is_asked = can_start && (is_entered || button.on_hover_text("Run the command and record it").clicked());
            self.recent_ui(ui);
        });
        ui.horizontal_wrapped(|ui| {
            ui.label("Record with");
            for (backend, title, _, what, cost) in BACKENDS {
                let help = if cost.is_empty() { what.to_owned() } else { format!("{what}. {cost}") };
                ui.radio_value(&mut self.form.backend, backend, title).on_hover_text(help);
            }
        });
        // Also while another runs, so that its output does not move when it ends.
        self.preview.reason_ui(&self.form, start, nsys, ui);
        self.workload_ui(ui);
        egui::CollapsingHeader::new("Options").id_salt("capture options").show(ui, |ui| self.options_ui(nsys, ui));
        self.preview.line_ui(ui);
        is_asked
    }

    fn options_ui(&mut self, nsys: Option<&Path>, ui: &mut Ui) {
        let width = ui.available_width();
        let place_ui = |forms: &mut Self, ui: &mut Ui| {
            forms.form.place_ui(ui);
            ui.add_space(4.0);
            forms.presets_ui(ui);
        };
        if width < WIDE {
            self.form.recorder_ui(nsys, ui);
            ui.add_space(4.0);
            return place_ui(self, ui);
        }
        ui.horizontal_top(|ui| {
            ui.vertical(|ui| {
                ui.set_width(width * SHARE);
                self.form.recorder_ui(nsys, ui);
            });
            ui.vertical(|ui| place_ui(self, ui));
        });
    }

    /// Has the first command typed without a click.
    pub fn expect_command(&mut self) {
        self.is_awaited = self.form.line.is_empty();
    }

    /// Whether it is still worked out what the form comes to.
    pub fn is_pending(&self) -> bool {
        self.preview.is_pending()
    }

    /// Whether the form already says this of the command.
    pub fn says(&self, why: &str) -> bool {
        self.preview.says(why)
    }

    /// Offers something to record where nothing is typed yet.
    fn workload_ui(&mut self, ui: &mut Ui) {
        if !self.form.line.trim().is_empty() {
            return;
        }
        ui.horizontal_wrapped(|ui| {
            ui.weak("To try it:");
            let link = ui.link("a small program for the GPU");
            let help = "Take over the command of Lacuna's own workload: kernels, copies, gaps and a leak, all planted";
            if link.on_hover_text(help).clicked()
                && let Ok(lacuna) = std::env::current_exe()
            {
                self.form.line = words::joined([lacuna.as_os_str(), OsStr::new("workload")]);
                self.form.backend = Backend::Cupti;
            }
        });
    }

    fn recent_ui(&mut self, ui: &mut Ui) {
        ui.add_enabled_ui(!self.recent.is_empty(), |ui| {
            ui.menu_button("Recent", |ui| {
                for form in &self.recent {
                    if ui.button(RichText::new(&form.line).monospace()).clicked() {
                        self.form = form.clone();
                    }
                }
            });
        });
    }

    fn presets_ui(&mut self, ui: &mut Ui) {
        ui.horizontal_wrapped(|ui| {
            ui.label("Presets");
            let mut removed = None;
            for (i, (name, form)) in self.presets.iter().enumerate() {
                if ui.button(name).on_hover_text(&form.line).clicked() {
                    self.form = form.clone();
                }
                let before = ["×", &format!("Forget {name}; asks before it does")];
                let asking = ["Forget?", &format!("Forget {name} with its options")];
                if self.forgotten.button_ui(name.clone(), before, asking, ui) {
                    removed = Some(i);
                }
            }
            removed.map(|i| self.presets.remove(i));
            let edit =
                TextEdit::singleline(&mut self.new_name).id_salt("new name").hint_text("Name").desired_width(100.0);
            ui.add(edit).accessible_name("Name of the preset");
            let can_save = !self.new_name.trim().is_empty();
            let save = ui.add_enabled(can_save, egui::Button::new("Save as preset"));
            if save.on_hover_text("Save the command with its options under this name").clicked() {
                let name = std::mem::take(&mut self.new_name).trim().to_owned();
                self.presets.retain(|(known, _)| *known != name);
                self.presets.push((name, self.form.clone()));
            }
        });
    }
}

/// The width of a button with this text, in points.
fn button_width(text: &str, ui: &Ui) -> f32 {
    let font = egui::TextStyle::Button.resolve(ui.style());
    let text = ui.painter().layout_no_wrap(text.to_owned(), font, egui::Color32::PLACEHOLDER);
    text.size().x + 2.0 * ui.spacing().button_padding.x
}
