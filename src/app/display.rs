//! The display that the window is shown on: which one is there, and the end of Lacuna when it goes away.

use std::path::PathBuf;

use eframe::NativeOptions;

use crate::capture;
use crate::cli::output;

/// Exit code where no window can be shown, or none any more.
pub const NO_WINDOW: u8 = 3;

/// The window systems that may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Display {
    /// Whichever the surroundings name first.
    Any,
    /// Another one is named first and does not answer.
    X11,
}

impl Display {
    /// What the surroundings name.
    ///
    /// * `variable`: the value of a variable of the environment, if it is set.
    /// * `answers`: whether something listens at the socket with this path.
    ///
    /// Errors: why no window can be shown.
    pub fn find(
        variable: impl Fn(&str) -> Option<String>,
        answers: impl Fn(&PathBuf) -> bool,
    ) -> Result<Self, &'static str> {
        if !cfg!(target_os = "linux") {
            return Ok(Self::Any);
        }
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let has_x11 = set("DISPLAY").is_some();
        let Some(wayland) = set("WAYLAND_DISPLAY") else {
            return match has_x11 || set("WAYLAND_SOCKET").is_some() {
                true => Ok(Self::Any),
                false => Err("There is no display: neither DISPLAY nor WAYLAND_DISPLAY is set"),
            };
        };
        let socket = PathBuf::from(set("XDG_RUNTIME_DIR").unwrap_or_default()).join(wayland);
        if socket.is_absolute() && answers(&socket) {
            return Ok(Self::Any);
        }
        if has_x11 { Ok(Self::X11) } else { Err("The display that WAYLAND_DISPLAY names does not answer") }
    }

    /// That of this process.
    ///
    /// Errors: why no window can be shown.
    pub fn of_process() -> Result<Self, &'static str> {
        #[cfg(unix)]
        let answers = |path: &PathBuf| std::os::unix::net::UnixStream::connect(path).is_ok();
        #[cfg(not(unix))]
        let answers = |_: &PathBuf| true;
        Self::find(|name| std::env::var(name).ok(), answers)
    }

    /// Has the window use it, and Lacuna end in order when it goes away.
    pub fn prepare(self, options: &mut NativeOptions) {
        #[cfg(target_os = "linux")]
        {
            if self == Self::X11 {
                options.event_loop_builder = Some(Box::new(|builder| {
                    winit::platform::x11::EventLoopBuilderExtX11::with_x11(builder);
                }));
            }
            end_with_x11();
        }
        #[cfg(not(target_os = "linux"))]
        let _ = options;
    }
}

/// Says that the display is gone; returns the exit code.
pub fn gone() -> u8 {
    output::write_stderr("lacuna: The display connection was lost and the window closed");
    NO_WINDOW
}

/// Ends Lacuna in order when the X server goes away. Without this its library ends the process at once, and what
/// Lacuna runs and writes is left behind.
#[cfg(target_os = "linux")]
fn end_with_x11() {
    #![expect(unsafe_code, reason = "libX11 offers this to programs in C alone")]
    use std::ffi::{c_int, c_void};
    use std::sync::OnceLock;

    use libloading::Library;

    type Handler = extern "C" fn(*mut c_void) -> c_int;
    /// Stays loaded, as the window system has it loaded too.
    static LIBRARY: OnceLock<Library> = OnceLock::new();

    #[expect(clippy::exit, reason = "libX11 would end the process if this returned")]
    extern "C" fn end(_display: *mut c_void) -> c_int {
        let code = gone();
        let _ended = capture::end_all();
        std::process::exit(c_int::from(code));
    }
    // SAFETY: the library that winit loads by the same name; loading it runs nothing but its own start.
    let Ok(library) = (unsafe { Library::new("libX11.so.6") }) else { return };
    let library = LIBRARY.get_or_init(|| library);
    // SAFETY: the type is that of `XSetIOErrorHandler` in `Xlib.h`, and the handler lives as long as the process.
    unsafe {
        if let Ok(set) = library.get::<extern "C" fn(Handler) -> *const c_void>(b"XSetIOErrorHandler\0") {
            set(end);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_display_that_does_not_answer_gives_way_to_the_other() {
        let of = |variables: &[(&str, &str)], socket: &str| {
            let value = |name: &str| Some((*variables.iter().find(|known| known.0 == name)?.1).to_owned());
            Display::find(value, |path| path.to_str() == Some(socket))
        };
        let run = ("XDG_RUNTIME_DIR", "/run/1");
        let [x11, wayland] = [("DISPLAY", ":0"), ("WAYLAND_DISPLAY", "wayland-0")];
        assert_eq!(of(&[run, x11, wayland], "/run/1/wayland-0"), Ok(Display::Any));
        assert_eq!(of(&[run, x11, wayland], "/run/1/wayland-1"), Ok(Display::X11));
        assert_eq!(of(&[run, x11, ("WAYLAND_DISPLAY", "/s")], "/s"), Ok(Display::Any));
        assert_eq!(of(&[x11, wayland], "wayland-0"), Ok(Display::X11));
        assert_eq!(of(&[x11, ("WAYLAND_DISPLAY", "")], ""), Ok(Display::Any));
        assert!(of(&[run, wayland], "").is_err_and(|why| why.contains("does not answer")));
        assert!(of(&[run, ("DISPLAY", "")], "").is_err_and(|why| why.contains("neither")));
    }
}
