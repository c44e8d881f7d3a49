//! Opens the window, and explains on stderr why none can be opened.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use eframe::{NativeOptions, egui};
use serde_json::Value;

use super::App;
use super::copied;
use super::display::{self, Display, NO_WINDOW};
use super::place::{self, PlaceFile};
use crate::capture::nsys::lasting;
use crate::cli::output;
use crate::job::{panic_message, start_workers};
use crate::reader::Options;
use crate::session::lenient;
use crate::settings::{OldLayout, Settings, SettingsFile};

impl eframe::App for App {
    fn logic(&mut self, ctx: &egui::Context, _frame: &mut eframe::Frame) {
        place::fit(ctx);
        self.step(ctx);
    }

    fn raw_input_hook(&mut self, ctx: &egui::Context, input: &mut egui::RawInput) {
        self.lift_pointer(ctx, input);
    }

    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        self.paint(ui);
    }

    fn save(&mut self, storage: &mut dyn eframe::Storage) {
        self.settings.window = place::kept(storage);
        self.save_settings();
    }

    /// What widgets keep, and the place of the window, are lost with a program that is killed before.
    fn auto_save_interval(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// However the window ends, after a crash too.
impl Drop for App {
    fn drop(&mut self) {
        if let Err(why) = self.save_settings_now() {
            output::write_stderr(&why);
        }
    }
}

/// Opens the window with these files, and returns when it is closed. An `nsys` is remembered.
pub fn open_window(paths: Vec<PathBuf>, options: Options, nsys: Option<&Path>) -> ExitCode {
    let display = match Display::of_process() {
        Ok(display) => display,
        Err(reason) => return complain(reason),
    };
    if let Err(reason) = start_workers() {
        return complain(reason);
    }
    let stored = Stored::open();
    let place = PlaceFile::new(stored.settings.as_ref());
    let mut native = native_options();
    native.persistence_path = place.as_ref().map(PlaceFile::path);
    display.prepare(&mut native);
    keep_panics();
    copied::watch_clipboard();
    let create =
        |cc: &eframe::CreationContext<'_>| Ok(Box::new(app(cc, stored, nsys, paths, options)) as Box<dyn eframe::App>);
    // Window systems and graphics drivers that do not work may also panic.
    match catch_unwind(AssertUnwindSafe(|| eframe::run_native("Lacuna", native, Box::new(create)))) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        // Its own text only names a line of a library's code.
        Ok(Err(eframe::Error::WinitEventLoop(_))) => complain("The display does not answer"),
        Ok(Err(eframe::Error::Winit(_))) => ExitCode::from(display::gone()),
        Ok(Err(error)) => complain(&format!("The window could not be opened: {error}")),
        Err(panic) => {
            let place = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
            complain(&format!("The window crashed: {}{place}", panic_message(&*panic)))
        }
    }
}

/// Where the thread of the window panicked last.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Has panics of the window's thread told where they are caught: by the view that failed, or as the reason of the end.
fn keep_panics() {
    let default = std::panic::take_hook();
    let window = std::thread::current().id();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() != window || std::env::var_os("RUST_BACKTRACE").is_some() {
            return default(panic);
        }
        let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }));
}

/// The file of settings and what was in it.
struct Stored {
    file: Option<SettingsFile>,
    settings: Option<Value>,
    /// What is wrong with it, as a sentence.
    problem: Option<String>,
}

impl Stored {
    fn open() -> Self {
        let Some(path) = SettingsFile::place() else {
            let problem = "There is no folder for settings: set HOME or XDG_DATA_HOME".to_owned();
            return Self { file: None, settings: None, problem: Some(problem) };
        };
        let (file, settings, problem) = SettingsFile::open(&path);
        Self { file: Some(file), settings, problem }
    }
}

/// The content of the window, with the settings of the last run.
fn app(
    cc: &eframe::CreationContext<'_>,
    stored: Stored,
    nsys: Option<&Path>,
    paths: Vec<PathBuf>,
    options: Options,
) -> App {
    let is_kept = stored.settings.is_some();
    let (mut settings, old) = match stored.settings {
        Some(stored) => (lenient(&stored), OldLayout::default()),
        None => Settings::load_old(cc.storage),
    };
    if let Some(nsys) = nsys {
        settings.nsys = Some(lasting(nsys));
    }
    let mut app = App::new(&cc.egui_ctx, settings, &old, paths, options);
    app.keep_settings(stored.file, is_kept, stored.problem.into_iter().collect());
    app
}

fn native_options() -> NativeOptions {
    let icon = eframe::icon_data::from_png_bytes(include_bytes!("../../assets/icon.png")).unwrap_or_default();
    let viewport = egui::ViewportBuilder::default()
        .with_title("Lacuna")
        .with_app_id("lacuna")
        .with_inner_size([1280.0, 800.0])
        .with_min_inner_size([480.0, 320.0])
        .with_icon(icon)
        .with_drag_and_drop(true);
    NativeOptions { viewport, renderer: eframe::Renderer::Glow, system_font_fallback: false, ..Default::default() }
}

fn complain(reason: &str) -> ExitCode {
    let remedies = "What to try:
  - on a remote machine, connect with `ssh -X` or `ssh -Y`, or copy the trace to your own machine
  - without a graphics driver, set LIBGL_ALWAYS_SOFTWARE=1 (needs libgl1-mesa-dri)
  - without any display, use `lacuna report FILE`, or `lacuna render FILE --view timeline --out PNG`";
    // A closed stderr is not a reason to fail differently.
    let _ = writeln!(std::io::stderr(), "lacuna: {reason}\n{remedies}");
    ExitCode::from(NO_WINDOW)
}
