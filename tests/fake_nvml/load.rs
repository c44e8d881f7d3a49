//! Compiles the stand-in for NVIDIA's library, and sets the state of its GPUs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A copy of the library in a folder of its own, with GPUs of its own.
pub struct FakeNvml {
    folder: tempfile::TempDir,
}

impl FakeNvml {
    /// * `words`: see `lib.rs`.
    pub fn new(words: &str) -> Self {
        static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
        let fake = Self { folder: tempfile::tempdir().unwrap() };
        fake.set(words);
        // Two copies are two libraries to the loader.
        std::fs::write(fake.library(), LIBRARY.get_or_init(compile)).unwrap();
        fake
    }

    pub fn library(&self) -> PathBuf {
        self.folder.path().join("libnvidia-ml.so.1")
    }

    /// Changes the state at once and whole.
    pub fn set(&self, words: &str) {
        let new = self.folder.path().join("new.txt");
        std::fs::write(&new, words).unwrap();
        std::fs::rename(&new, self.folder.path().join("gpus.txt")).unwrap();
    }
}

fn compile() -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_nvml/lib.rs");
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("fake.so");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--crate-type", "cdylib", "-C", "strip=symbols", "-o"]);
    let output = command.arg(&library).arg(&source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(library).unwrap()
}
