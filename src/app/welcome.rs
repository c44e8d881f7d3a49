//! The welcome page, and the overlay while files hover over the window.

use std::path::{Path, PathBuf};

use eframe::egui::{
    self, Align2, CentralPanel, Color32, Context, FontId, Frame, Id, Label, LayerId, Order, RichText, TextStyle, Ui,
    vec2,
};

use super::App;
use super::samples::SAMPLES;
use crate::command::{Command, key_text};
use crate::figures::text::shortened_apart;
use crate::view::{capture, command_spec, gaps, live, memory, overview, steps, tables, view_spec};
use crate::widget::theme;

/// The keys that are named before anything is open.
const FIRST_KEYS: [Command; 4] = [Command::Palette, Command::Search, Command::FocusSelection, Command::Shortcuts];
const MAX_RECENT_SHOWN: usize = 8;
/// A path is not cut to fewer characters.
const LEAST_OF_PATH: usize = 8;
/// The widest page of one column, and of two.
const COLUMN: f32 = 480.0;
const PAGE: f32 = 1280.0;
/// A window with so much height has more room between lines, in points.
const TALL: f32 = 800.0;
const MORE_ROOM: f32 = 5.0;
/// How much of the height that the page leaves is above it.
const TOP_SHARE: f32 = 0.4;
/// Of the column of keys.
const KEY_WIDTH: f32 = 104.0;
/// Beside the page, for the bar that scrolls it.
const BESIDE: f32 = 16.0;
/// Between the columns.
const GAP: f32 = 40.0;

/// One kind of file: what it is, its names, and how to record it, as it is shown and as it is copied.
struct Recipe {
    what: &'static str,
    files: &'static str,
    short: &'static str,
    whole: &'static str,
}

const RECIPES: [Recipe; 6] = [
    Recipe {
        what: "PyTorch profiler",
        files: "JSON, also .gz, .zst, .zip and .tar; a folder of ranks",
        short: "prof.export_chrome_trace(\"trace.json.gz\")",
        whole: "with torch.profiler.profile(profile_memory=True, with_stack=True) as prof:\n    for _ in range(5):\n        \
                train_step()\n        prof.step()\nprof.export_chrome_trace(\"trace.json.gz\")\n",
    },
    Recipe {
        what: "Nsight Systems",
        files: ".nsys-rep where nsys is installed, .sqlite everywhere",
        short: "nsys profile -t cuda,nvtx,osrt -o report python train.py",
        whole: "nsys profile --trace=cuda,nvtx,osrt --cuda-memory-usage=true -o report python train.py\n\
                nsys export --type sqlite report.nsys-rep\n",
    },
    Recipe {
        what: "PyTorch memory snapshot",
        files: ".pickle, and the JSON and HTML of its viewer",
        short: "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")",
        whole: "torch.cuda.memory._record_memory_history(max_entries=1_000_000)\ntrain()\n\
                torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")\n",
    },
    Recipe {
        what: "PyTorch memory timeline",
        files: "JSON, raw or by category",
        short: "prof.export_memory_timeline(\"memory.raw.json.gz\")",
        whole: "with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:\n    \
                train_step()\nprof.export_memory_timeline(\"memory.raw.json.gz\")\n",
    },
    Recipe {
        what: "Other Chrome traces",
        files: "of JAX, VizTracer, Chromium, py-spy, Perfetto's JSON",
        short: "jax.profiler.trace(\"logs\", create_perfetto_trace=True)",
        whole: "with jax.profiler.trace(\"logs\", create_perfetto_trace=True):\n    train_step().block_until_ready()\n",
    },
    Recipe {
        what: "Logs of GPU metrics",
        files: "JSON lines of lacuna monitor, CSV of nvidia-smi",
        short: "nvidia-smi --query-gpu=… --format=csv -l 1 > gpus.csv",
        whole: "nvidia-smi --query-gpu=timestamp,index,utilization.gpu,memory.used --format=csv -l 1 > gpus.csv\n",
    },
];

/// What people open a recording for, and the views that answer it.
const QUESTIONS: [(&str, &[&str]); 6] = [
    ("How busy is the GPU, and what should be fixed first?", &[overview::SPEC.id]),
    ("What does it wait for, and where in the code?", &[gaps::SPEC.id, overview::SPEC.id]),
    (
        "Which kernels, operators and calls take the time?",
        &[tables::kernels::SPEC.id, tables::operators::SPEC.id, tables::calls::SPEC.id],
    ),
    ("Which steps are slow, and what were they spent on?", &[steps::SPEC.id]),
    ("What holds the memory, and what leaks?", &[memory::PLACES.id, memory::LEAKS.id]),
    ("Why did memory run out?", &[memory::RESERVED.id]),
];

impl App {
    pub(super) fn welcome_ui(&mut self, ui: &mut Ui) {
        let tokens = theme::tokens(ui.visuals().dark_mode);
        let frame = Frame::NONE.fill(tokens.canvas).inner_margin(24);
        CentralPanel::default().frame(frame).show(ui, |ui| {
            let available_height = ui.available_height();
            egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                if available_height >= TALL {
                    ui.spacing_mut().item_spacing.y += MORE_ROOM;
                }
                let available = (ui.available_width() - BESIDE).max(0.0);
                let n_columns = if available >= 2.0 * COLUMN * 0.8 { 2 } else { 1 };
                let width = available.min(if n_columns == 2 { PAGE } else { COLUMN });
                let kept = Id::unique("height of the welcome page");
                let height = ui.data(|data| data.get_temp::<f32>(kept));
                let free = height.map_or(0.0, |height| (available_height - height).max(0.0));
                ui.add_space(free * TOP_SHARE);
                let page = ui.horizontal(|ui| {
                    ui.add_space((available - width).max(0.0) / 2.0);
                    ui.vertical(|ui| {
                        ui.set_width(width);
                        self.head_ui(ui);
                        if n_columns == 2 {
                            two_columns(ui, |ui| self.start_ui(ui), recipes_ui);
                            two_columns(ui, questions_ui, keys_ui);
                        } else {
                            self.start_ui(ui);
                            recipes_ui(ui);
                            questions_ui(ui);
                            keys_ui(ui);
                        }
                    });
                });
                let is_new = height.is_none_or(|height| (height - page.response.rect.height()).abs() > 0.5);
                if is_new {
                    ui.data_mut(|data| data.insert_temp(kept, page.response.rect.height()));
                    ui.ctx().request_repaint();
                }
            });
        });
    }

    fn head_ui(&mut self, ui: &mut Ui) {
        ui.label(RichText::new("Lacuna").size(34.0).strong());
        ui.label(RichText::new("See where your GPU waits, and why").size(16.0).weak());
        ui.add_space(14.0);
        ui.horizontal_wrapped(|ui| {
            for command in [Command::OpenFile, Command::OpenFolder] {
                let Some(spec) = command_spec(&command) else { continue };
                let keys = spec.keys.first().map(|key| key_text(ui.ctx(), key)).unwrap_or_default();
                let button = ui.button(RichText::new(spec.label).size(16.0));
                if button.on_hover_text(format!("{} ({keys})", spec.help)).clicked() {
                    self.commands.push(command);
                }
            }
            if self.loads.is_idle() {
                ui.weak("or drop files and folders anywhere on this window");
            } else {
                ui.label("Reading…");
            }
        });
        ui.add_space(18.0);
    }

    fn start_ui(&mut self, ui: &mut Ui) {
        self.recent_files_ui(ui);
        ui.strong("Samples");
        for sample in &SAMPLES {
            ui.horizontal_wrapped(|ui| {
                if ui.link(sample.title).on_hover_text(sample.help).clicked() {
                    self.commands.push(Command::OpenPath(sample.path(&self.loads.samples)));
                }
                ui.weak(sample.help);
            });
        }
        ui.add_space(14.0);
        ui.strong("On this machine");
        for (spec, text) in
            [(&capture::SPEC, "Run a program and record it"), (&live::SPEC, "Watch the GPUs of this machine")]
        {
            if ui.link(text).on_hover_text(spec.help).clicked() {
                self.commands.push(Command::Show(spec.id));
            }
        }
        ui.add_space(18.0);
    }

    fn recent_files_ui(&mut self, ui: &mut Ui) {
        if self.settings.recent.is_empty() {
            return;
        }
        ui.strong("Opened recently");
        let shown: Vec<&PathBuf> = self.settings.recent.iter().take(MAX_RECENT_SHOWN).collect();
        let name = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let folder = |path: &Path| path.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
        let names: Vec<String> = shown.iter().map(|path| name(path)).collect();
        let folders: Vec<String> = shown.iter().map(|path| folder(path)).collect();
        for (i, path) in shown.into_iter().enumerate() {
            ui.horizontal(|ui| {
                let link = fitted(&names[i], &names, ui.available_width() * 0.6, ui);
                if ui.link(link).on_hover_text(path.display().to_string()).clicked() {
                    self.commands.push(Command::OpenPath(path.clone()));
                }
                let folder = fitted(&folders[i], &folders, ui.available_width(), ui);
                ui.add(Label::new(RichText::new(folder).weak()).truncate());
            });
        }
        ui.add_space(18.0);
    }
}

/// Two parts beside each other.
fn two_columns(ui: &mut Ui, left: impl FnOnce(&mut Ui), right: impl FnOnce(&mut Ui)) {
    let between = std::mem::replace(&mut ui.spacing_mut().item_spacing.x, GAP);
    ui.columns(2, |columns| {
        columns.iter_mut().for_each(|column| column.spacing_mut().item_spacing.x = between);
        left(&mut columns[0]);
        right(&mut columns[1]);
    });
    ui.spacing_mut().item_spacing.x = between;
}

/// What a recording answers, and where.
fn questions_ui(ui: &mut Ui) {
    ui.strong("Questions, and the views that answer them");
    for (question, views) in QUESTIONS {
        ui.horizontal_wrapped(|ui| {
            ui.label(question);
            let titles = views.iter().filter_map(|view| view_spec(view)).map(|spec| spec.title);
            ui.weak(titles.collect::<Vec<_>>().join(", "));
        });
    }
    ui.add_space(18.0);
}

fn keys_ui(ui: &mut Ui) {
    ui.strong("Keys to start with");
    let commands = FIRST_KEYS.iter().filter_map(command_spec);
    let keys =
        commands.map(|spec| (spec.keys.first().map(|key| key_text(ui.ctx(), key)).unwrap_or_default(), spec.help));
    let held = ("W A S D".to_owned(), "Zoom in, pan left, zoom out, pan right");
    for (key, does) in keys.chain([held]).collect::<Vec<_>>() {
        ui.horizontal_top(|ui| {
            let size = vec2(KEY_WIDTH, ui.spacing().interact_size.y);
            ui.allocate_ui(size, |ui| {
                ui.set_min_width(KEY_WIDTH);
                ui.monospace(key);
            });
            ui.add(Label::new(does).wrap());
        });
    }
    ui.add_space(18.0);
}

/// A text that is cut where it is wider than so many points, with the place where it differs from the others.
fn fitted(text: &str, others: &[String], width: f32, ui: &Ui) -> String {
    let font = TextStyle::Body.resolve(ui.style());
    let fits =
        |text: &str| ui.painter().layout_no_wrap(text.to_owned(), font.clone(), Color32::PLACEHOLDER).size().x <= width;
    if fits(text) {
        return text.to_owned();
    }
    let others: Vec<&str> = others.iter().map(String::as_str).filter(|other| *other != text).collect();
    let (mut least, mut most) = (LEAST_OF_PATH, text.chars().count());
    while least + 1 < most {
        let middle = usize::midpoint(least, most);
        let is_short = fits(&shortened_apart(text, &others, middle));
        *(if is_short { &mut least } else { &mut most }) = middle;
    }
    shortened_apart(text, &others, least)
}

/// What Lacuna reads, and how to record each kind.
fn recipes_ui(ui: &mut Ui) {
    ui.strong("Supported files, and how to record them");
    for recipe in &RECIPES {
        ui.add_space(4.0);
        ui.horizontal_wrapped(|ui| {
            ui.label(recipe.what);
            ui.weak(recipe.files);
        });
        ui.horizontal(|ui| {
            let copy = ui.small_button("Copy").on_hover_text(format!("Copy all lines:\n{}", recipe.whole));
            if copy.accessible_name(format!("Copy how to record: {}", recipe.what)).clicked() {
                ui.ctx().copy_text(recipe.whole.to_owned());
            }
            let code = Label::new(RichText::new(recipe.short).monospace()).wrap();
            ui.add(code).on_hover_text(RichText::new(recipe.whole).monospace());
        });
    }
    ui.add_space(18.0);
}

/// Says what will happen, while files hover over the window.
pub(super) fn drop_ui(ctx: &Context) {
    let n = ctx.input(|input| input.raw.hovered_files.len());
    if n == 0 {
        return;
    }
    let tokens = theme::tokens(ctx.global_style().visuals.dark_mode);
    let painter = ctx.layer_painter(LayerId::new(Order::Foreground, Id::unique("drop")));
    let rect = ctx.content_rect();
    painter.rect_filled(rect, 0.0, tokens.canvas.gamma_multiply(0.85));
    painter.rect_stroke(rect.shrink(12.0), 8.0, (3.0, tokens.accent), egui::StrokeKind::Inside);
    let text = if n == 1 { "Drop to open this".to_owned() } else { format!("Drop to open these {n}") };
    let color: Color32 = tokens.strong_text;
    painter.text(rect.center(), Align2::CENTER_CENTER, text, FontId::proportional(24.0), color);
}
