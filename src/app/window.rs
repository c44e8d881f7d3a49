//! Opens the window, and explains on stderr why none can be opened.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

use eframe::{NativeOptions, egui};

use super::App;
use crate::capture::nsys::lasting;
use crate::reader::Options;
use crate::settings::Settings;

/// Exit code where no window can be shown.
const NO_WINDOW: u8 = 3;

impl eframe::App for App {
    fn logic(&mut self, ctx: &egui::Context, _frame: &mut eframe::Frame) {
        self.step(ctx);
    }

    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        self.paint(ui);
    }

    fn save(&mut self, storage: &mut dyn eframe::Storage) {
        eframe::set_value(storage, Settings::KEY, &self.settings());
    }
}

/// Opens the window with these files, and returns when it is closed. An `nsys` is remembered.
pub fn open_window(paths: Vec<PathBuf>, options: Options, nsys: Option<PathBuf>) -> ExitCode {
    if let Some(reason) = missing_display() {
        return complain(reason);
    }
    let create = |cc: &eframe::CreationContext<'_>| {
        let (mut settings, old) = Settings::load(cc.storage);
        settings.nsys = nsys.map(|nsys| lasting(&nsys)).or(settings.nsys);
        Ok(Box::new(App::new(&cc.egui_ctx, settings, &old, paths, options)) as Box<dyn eframe::App>)
    };
    // Window systems and graphics drivers that do not work may also panic.
    match catch_unwind(AssertUnwindSafe(|| eframe::run_native("Lacuna", native_options(), Box::new(create)))) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        // Its own text only names a line of a library's code.
        Ok(Err(eframe::Error::WinitEventLoop(_))) => complain("The display does not answer"),
        Ok(Err(error)) => complain(&format!("The window could not be opened: {error}")),
        Err(_) => complain("The window crashed; the lines above say where"),
    }
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

/// Why no window can be shown, where the surroundings already tell.
fn missing_display() -> Option<&'static str> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_display = !cfg!(target_os = "linux") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    (!has_display).then_some("There is no display: neither DISPLAY nor WAYLAND_DISPLAY is set")
}

fn complain(reason: &str) -> ExitCode {
    let remedies = "What helps:
  - on a remote machine, connect with `ssh -X` or `ssh -Y`, or copy the trace to your own machine
  - without a graphics driver, set LIBGL_ALWAYS_SOFTWARE=1 (needs libgl1-mesa-dri)
  - without any display, use `lacuna report FILE`, or `lacuna render FILE --view timeline --out PNG`";
    // A closed stderr is no reason to fail differently.
    let _ = writeln!(std::io::stderr(), "lacuna: {reason}\n{remedies}");
    ExitCode::from(NO_WINDOW)
}
