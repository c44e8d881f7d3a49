//! Files that are written under another name first, and removed if they are not finished, however Lacuna ends.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::registry;

/// How many names are tried: a Lacuna with the same process id may have been killed and left files.
const TRIES: u32 = 1000;

/// A file beside the one that it will become; dropping it removes it.
#[derive(Debug)]
pub struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    /// A new file in the folder of `target`, with the permissions of a file there or else those that a new file gets.
    ///
    /// Errors: it cannot be made.
    pub fn beside(target: &Path) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        for _ in 0..TRIES {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = target.with_file_name(format!(".lacuna-{}-{n}.tmp", std::process::id()));
            let make = || OpenOptions::new().write(true).create_new(true).open(&path);
            match registry::partial_file(&path, make) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => {
                    let file = made?;
                    if let Ok(data) = target.metadata() {
                        // File systems without permissions have none to keep.
                        let _ = file.set_permissions(data.permissions());
                    }
                    return Ok(Self { path, file });
                }
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts it in the place of `target`, a file in the same folder or none.
    ///
    /// Errors: what was written does not reach the disk, or it cannot be renamed.
    pub fn replace(self, target: &Path) -> Result<()> {
        match self.file.sync_all() {
            // Not every file system can.
            Err(error) if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Err(error),
            _ => std::fs::rename(&self.path, target),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        registry::forget(&self.path);
        // Absent once it was renamed.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes a file whole or not at all, for its owner alone: commands that the user typed are in it, and what they added
/// to the environment.
///
/// Errors: it cannot be written; what was there before is unchanged.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut partial = Partial::beside(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // File systems without permissions have none to give.
        let _ = partial.file().set_permissions(std::fs::Permissions::from_mode(0o600));
    }
    std::io::Write::write_all(partial.file(), bytes)?;
    partial.replace(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let names = || {
            let entries = std::fs::read_dir(folder.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        write_private(&path, b"one").unwrap();
        let partial = Partial::beside(&path).unwrap();
        assert_eq!(names().len(), 2);
        drop(partial);
        write_private(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(names(), ["a.json"]);
        assert!(write_private(&folder.path().join("absent/a"), b"").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let [old, new, plain] = ["old", "new", "plain"].map(|name| folder.path().join(name));
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        std::fs::write(&old, "").unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::fs::write(&plain, "").unwrap();
        Partial::beside(&old).unwrap().replace(&old).unwrap();
        Partial::beside(&new).unwrap().replace(&new).unwrap();
        assert_eq!((mode(&old), mode(&new)), (0o640, mode(&plain)));
        write_private(&old, b"x").unwrap();
        assert_eq!(mode(&old), 0o600);
    }
}
