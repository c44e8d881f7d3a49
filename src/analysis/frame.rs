//! Frames of call stacks: function, file, line, and whether they belong to the user's program.

mod libraries;
mod loaders;
mod names;
mod savers;

use std::borrow::Cow;

pub use self::names::FrameNames;

/// Frames that say nothing of the program: how the recorder looked at the stack, and how the
/// interpreter runs and calls. The beginnings of their names, after any namespace; much as `MemoryViz`
/// leaves them out.
const NOISE_NAMES: [&str; 4] = ["__libc_start_", "__libc_init_first", "pthread_", "execute_native_thread_routine"];
/// The same by substring.
const NOISE_PARTS: [&str; 3] = ["torch::unwind", "CapturedTraceback::gather", "gather_with_cpp"];
/// The same by file.
const NOISE_FILES: [&str; 15] = [
    "pythonrun.c",
    "Modules/main.c",
    "Objects/call.c",
    "Objects/abstract.c",
    "Objects/classobject.c",
    "Objects/object.c",
    "Objects/typeobject.c",
    "Objects/methodobject.c",
    "Objects/descrobject.c",
    "pycore_call.h",
    "pycore_ceval.h",
    "ceval.c",
    "generated_cases.c.h",
    "cpython/abstract.h",
    "libc_start_call_main.h",
];
/// The name of a function of the Python tracer without the address of its object, which differs from run to run:
/// `<built-in method to of Tensor>`.
pub fn without_address(name: &str) -> Cow<'_, str> {
    let Some((before, rest)) = name.split_once(" object at 0x") else { return name.into() };
    Cow::from(before.to_owned() + rest.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
}

/// A parsed frame of a call stack: `forward (model.py:12)`, possibly incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub function: &'a str,
    /// Empty if unknown, including the unwinder's `??`.
    pub file: &'a str,
    /// 0 if unknown.
    pub line: u64,
}

impl<'a> Frame<'a> {
    /// Parses a frame of a call stack, or a slice name of Kineto's Python tracer. Text that does not end in
    /// `(file:line)` or `(file)` is the function name. Cost: O(length).
    pub fn of(text: &'a str) -> Self {
        Self::split(text).unwrap_or_else(|| Self::of_python_function(text))
    }

    /// Parses a slice name of Kineto's Python tracer: `train.py(12): main`. Names of builtins and modules
    /// (`nn.Module: Linear_0`) are function names.
    pub fn of_python_function(name: &'a str) -> Self {
        let split = || {
            let (place, function) = name.split_once("): ")?;
            let (file, line) = place.rsplit_once('(')?;
            Some(Self { function, file, line: line.parse().ok()? })
        };
        split().unwrap_or(Self { function: name, file: "", line: 0 })
    }

    fn split(text: &'a str) -> Option<Self> {
        let inner_end = text.len().checked_sub(1).filter(|_| text.ends_with(')'))?;
        // Folder names may contain parentheses: `C:\Program Files (x86)\…`.
        let mut depth = 0_usize;
        let open = text.bytes().rposition(|byte| {
            depth += usize::from(byte == b')');
            depth -= usize::from(byte == b'(').min(depth);
            byte == b'(' && depth == 0
        })?;
        let function = text[..open].strip_suffix(' ')?;
        let inner = &text[open + 1..inner_end];
        let with_line = inner.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
        let is_file = |inner: &&str| inner.starts_with('<') || (inner.contains('.') && !inner.contains([',', ':']));
        let (file, line) = with_line.or_else(|| Some(inner).filter(is_file).map(|file| (file, 0)))?;
        Some(Self { function, file: if file == "??" { "" } else { file }, line })
    }

    /// Whether it belongs to the interpreter or the recorder.
    pub fn is_noise(&self) -> bool {
        let Self { function, file, .. } = *self;
        let name = function.split('(').next().unwrap_or_default();
        (matches!(function, "" | "??" | "_start" | "clone" | "__clone" | "clone3" | "__clone3" | "start_thread")
            && !self.is_python())
            || !self.is_python() && is_of_python(name)
            || NOISE_NAMES.iter().any(|noise| name.starts_with(noise))
            || NOISE_PARTS.iter().any(|noise| function.contains(noise))
            || NOISE_FILES.iter().any(|noise| file.ends_with(noise))
    }

    /// Whether it is a Python frame.
    pub fn is_python(&self) -> bool {
        self.file.ends_with(".py") || self.file.starts_with('<') || self.file.ends_with(".ipynb")
    }

    /// Whether it belongs to the user's program: Python outside the standard library, installed packages, and code
    /// that compilers generated.
    pub fn is_user(&self) -> bool {
        self.is_python() && !libraries::contains(self.file)
    }

    /// Whether it is of a library, as its file shows; frames of generated code lead to no file.
    pub fn is_library(&self) -> bool {
        self.is_python() && !self.file.starts_with('<') && libraries::contains(self.file)
    }

    /// Whether it waits for the next batch, or prepares it: the loaders of libraries, and functions of the user's
    /// program named like one.
    pub fn loads_data(&self) -> bool {
        loaders::is_of_library(self) || self.is_user() && loaders::is_of_user(self)
    }

    /// Whether it writes a checkpoint: `torch.save`, and functions named like it.
    pub fn saves_checkpoint(&self) -> bool {
        savers::saves(self)
    }
}

/// Whether it is a function of the interpreter's C API, or named like one: `_PyEval_EvalFrameDefault`, `PyType_GetModule`.
/// Without symbols an unwinder names what is inside of the interpreter by the last such function before it.
fn is_of_python(name: &str) -> bool {
    let Some((module, _)) = name.strip_prefix('_').unwrap_or(name).split_once('_') else { return false };
    module.strip_prefix("Py").is_some_and(|module| module.chars().all(|c| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_is_told_by_its_names() {
        for noise in [
            "_PyEval_EvalFrameDefault",
            "PyType_GetModule (??)",
            "_Py_Dealloc (/build/Objects/object.c:2350)",
            "slot_nb_multiply (/build/Objects/typeobject.c:9)",
            "PyRun_StringFlags",
            "pthread_condattr_setpshared",
        ] {
            assert!(Frame::of(noise).is_noise(), "{noise}");
        }
        for own in [
            "torch::autograd::PyNode::apply(std::vector<int>&&)",
            "THPVariable_clear(THPVariable*) (python_variable.cpp:10)",
            "PyTree_map (/me/train.py:3)",
            "Python",
            "at::native::mul(at::Tensor const&)",
        ] {
            assert!(!Frame::of(own).is_noise(), "{own}");
        }
    }

    #[test]
    fn addresses_are_no_part_of_a_name() {
        let name = "<built-in method to of Tensor object at 0x7faa9c4c4a50>";
        assert_eq!(without_address(name), "<built-in method to of Tensor>");
        assert_eq!(without_address("train.py(7): object"), "train.py(7): object");
    }

    #[test]
    fn frames_are_parsed() {
        let frame = |function, file, line| Frame { function, file, line };
        let windows = r"forward (C:\Program Files (x86)\app\model.py:12)";
        assert_eq!(Frame::of(windows), frame("forward", r"C:\Program Files (x86)\app\model.py", 12));
        assert_eq!(
            Frame::of("at::mul(at::Tensor const&) (Register.cpp:0)"),
            frame("at::mul(at::Tensor const&)", "Register.cpp", 0)
        );
        assert_eq!(Frame::of("at::mul(int, bool)"), frame("at::mul(int, bool)", "", 0));
        assert_eq!(Frame::of("f (??:0)"), frame("f", "", 0));
        assert_eq!(Frame::of("?? (b.py)"), frame("??", "b.py", 0));
        assert_eq!(Frame::of("train.py(12): main"), frame("main", "train.py", 12));
        for odd in ["", "(", ")", "x)", ") (", "f (a)", "f (:)", "(((", "f (a.b, c.d)"] {
            assert_eq!(Frame::of(odd), frame(odd, "", 0), "{odd}");
        }
    }

    #[test]
    fn names_of_python_slices_are_parsed() {
        let of = Frame::of_python_function;
        assert_eq!(of("train.py(12): main"), Frame { function: "main", file: "train.py", line: 12 });
        assert!(of("/home/me/train.py(12): main").is_user());
        assert!(!of("torch/nn/modules/module.py(1511): _wrapped_call_impl").is_user());
        for whole in ["nn.Module: Linear_0", "<built-in method mm of type object at 0x7f>", "f(x): y", ""] {
            assert_eq!(of(whole), Frame { function: whole, file: "", line: 0 });
            assert!(!of(whole).is_user());
        }
    }
}
