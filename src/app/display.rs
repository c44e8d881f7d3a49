//! The display that the window is shown on: which one is there, and the end of Lacuna when it goes away.

use std::path::{Path, PathBuf};
use std::time::Duration;

use eframe::NativeOptions;

use crate::capture;
use crate::cli::output;

/// Exit code where no window can be shown, or none any more.
pub const NO_WINDOW: u8 = 3;
/// How long a window system may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

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
    /// * `answers`: whether a window system answers at the socket with this path.
    /// * `is_socket`: whether the descriptor with this number is a socket. The window library takes it over unseen.
    ///
    /// Errors: why no window can be shown.
    pub fn find(
        variable: impl Fn(&str) -> Option<String>,
        answers: impl Fn(&Path) -> bool,
        is_socket: impl Fn(u32) -> bool,
    ) -> Result<Self, &'static str> {
        if !cfg!(target_os = "linux") {
            return Ok(Self::Any);
        }
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let has_x11 = set("DISPLAY").is_some();
        let otherwise = |why| if has_x11 { Ok(Self::X11) } else { Err(why) };
        // The window library looks at it first.
        if let Some(socket) = set("WAYLAND_SOCKET") {
            return match socket.parse().is_ok_and(is_socket) {
                true => Ok(Self::Any),
                false => otherwise("WAYLAND_SOCKET does not name an open socket"),
            };
        }
        let Some(wayland) = set("WAYLAND_DISPLAY") else {
            return match has_x11 {
                true => Ok(Self::Any),
                false => Err("There is no display: neither DISPLAY nor WAYLAND_DISPLAY is set"),
            };
        };
        let socket = PathBuf::from(set("XDG_RUNTIME_DIR").unwrap_or_default()).join(wayland);
        match socket.is_absolute() && answers(&socket) {
            true => Ok(Self::Any),
            false => otherwise("The display that WAYLAND_DISPLAY names does not answer"),
        }
    }

    /// That of this process.
    ///
    /// Errors: why no window can be shown.
    pub fn of_process() -> Result<Self, &'static str> {
        Self::find(|name| std::env::var(name).ok(), |path| answers(path, PATIENCE), is_socket)
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

/// Whether a Wayland compositor at `socket` answers within `patience`: one may accept whoever comes, and hang up or say
/// nothing.
#[cfg(unix)]
fn answers(socket: &Path, patience: Duration) -> bool {
    use std::io::{Read as _, Write as _};
    // `wl_display.sync`, whose new object is 2, and the head of that object's `done`: object, length and number of the
    // message.
    const SYNC: [u32; 3] = [1, 12 << 16, 2];
    const DONE: [u32; 2] = [2, 12 << 16];
    let ask = || {
        let mut stream = std::os::unix::net::UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(patience))?;
        stream.write_all(&SYNC.map(u32::to_ne_bytes).concat())?;
        let mut answer = [0; 8];
        stream.read_exact(&mut answer)?;
        std::io::Result::Ok(answer[..] == DONE.map(u32::to_ne_bytes).concat())
    };
    ask().unwrap_or(false)
}

#[cfg(not(unix))]
fn answers(_: &Path, _: Duration) -> bool {
    true
}

/// Whether this process has a socket open by this number.
fn is_socket(descriptor: u32) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        Path::new("/proc/self/fd")
            .join(descriptor.to_string())
            .metadata()
            .is_ok_and(|data| data.file_type().is_socket())
    }
    #[cfg(not(unix))]
    {
        let _ = descriptor;
        true
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
            Display::find(value, |path| path.to_str() == Some(socket), |n| n == 7)
        };
        let run = ("XDG_RUNTIME_DIR", "/run/1");
        let [x11, wayland] = [("DISPLAY", ":0"), ("WAYLAND_DISPLAY", "wayland-0")];
        assert_eq!(of(&[run, x11, wayland], "/run/1/wayland-0"), Ok(Display::Any));
        assert_eq!(of(&[run, x11, wayland], "/run/1/wayland-1"), Ok(Display::X11));
        assert_eq!(of(&[run, x11, ("WAYLAND_DISPLAY", "/s")], "/s"), Ok(Display::Any));
        assert_eq!(of(&[x11, wayland], "wayland-0"), Ok(Display::X11));
        assert_eq!(of(&[x11, ("WAYLAND_DISPLAY", "")], ""), Ok(Display::Any));
        assert_eq!(of(&[run, x11, wayland, ("WAYLAND_SOCKET", "7")], ""), Ok(Display::Any));
        for bad in ["8", "-1", "7x", "4294967303"] {
            assert_eq!(of(&[x11, ("WAYLAND_SOCKET", bad)], ""), Ok(Display::X11), "{bad}");
            assert!(of(&[("WAYLAND_SOCKET", bad)], "").is_err_and(|why| why.contains("WAYLAND_SOCKET")), "{bad}");
        }
        assert!(of(&[run, wayland], "").is_err_and(|why| why.contains("does not answer")));
        assert!(of(&[run, ("DISPLAY", "")], "").is_err_and(|why| why.contains("neither")));
    }

    #[test]
    fn a_compositor_that_hangs_up_or_says_nothing_does_not_answer() {
        use std::io::{Read as _, Write as _};
        use std::os::unix::net::{UnixListener, UnixStream};
        fn said(mut stream: UnixStream, words: [u32; 3]) -> Option<UnixStream> {
            stream.read_exact(&mut [0; 12]).unwrap();
            stream.write_all(&words.map(u32::to_ne_bytes).concat()).unwrap();
            Some(stream)
        }
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("wayland-0");
        assert!(!answers(&socket, PATIENCE));
        let listener = UnixListener::bind(&socket).unwrap();
        let asked = |patience: Duration, answer: fn(UnixStream) -> Option<UnixStream>| {
            std::thread::scope(|scope| {
                let asking = scope.spawn(|| answers(&socket, patience));
                let _kept = answer(listener.accept().unwrap().0);
                asking.join().unwrap()
            })
        };
        assert!(asked(PATIENCE, |stream| said(stream, [2, 12 << 16, 1])));
        assert!(!asked(PATIENCE, |stream| said(stream, [u32::MAX; 3])));
        assert!(!asked(PATIENCE, |_| None));
        assert!(!asked(Duration::from_millis(20), Some));
    }
}
