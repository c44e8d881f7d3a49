//! Private folders for programs that Lacuna runs and for copies of files, and the removal of those whose Lacuna was
//! killed.

pub mod members;
mod orphans;
pub mod registry;

use std::fs::{DirEntry, File, TryLockError};
use std::io::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PREFIX: &str = "part-";
/// A file in each folder that is locked while its Lacuna lives.
pub const LOCK: &str = "lock";
/// Where files cannot be locked, a folder that did not change for this long is abandoned.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// A new private folder; dropping it removes it.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    _lock: File,
}

/// Where copies of files are: a folder that its user alone can read.
pub fn copies_folder() -> PathBuf {
    #[cfg(unix)]
    let name = format!("lacuna-{}", rustix::process::getuid().as_raw());
    #[cfg(not(unix))]
    let name = "lacuna";
    std::env::temp_dir().join(name).join("copies")
}

/// Makes the folder for copies, or checks that it is private.
fn make_private(folder: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = folder.symlink_metadata()?;
    let mut is_private = metadata.is_dir();
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        is_private &= metadata.uid() == rustix::process::getuid().as_raw() && metadata.mode() & 0o077 == 0;
    }
    match is_private {
        true => Ok(()),
        false => Err(std::io::Error::other(format!("{} is not a private folder", folder.display()))),
    }
}

/// A new file that its user alone can read.
///
/// Errors: it exists, or cannot be made.
pub fn private_file(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

impl Scratch {
    /// A new folder for copies of files.
    ///
    /// Errors: it cannot be made, or Lacuna is about to end.
    pub fn for_copies() -> Result<Self> {
        let root = copies_folder();
        root.parent().map_or(Ok(()), make_private)?;
        make_private(&root)?;
        Self::new(&root)
    }

    /// A new folder in `root`, which exists.
    ///
    /// Errors: it cannot be made, or Lacuna is about to end.
    pub fn new(root: &Path) -> Result<Self> {
        let _turn = turn(root);
        let make = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix(PREFIX);
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
            Ok(builder.tempdir_in(root)?.keep())
        };
        let folder = registry::folder(registry::Keep::Remove, make)?;
        let lock = hold(&folder).inspect_err(|_| discard(&folder))?;
        Ok(Self { folder, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Where the output of programs goes.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Whether more can be written: what a program could not write it may not have said.
    ///
    /// Errors: why not.
    pub fn has_room(&self) -> Result<()> {
        let probe = self.folder.join("probe");
        let written = private_file(&probe).and_then(|mut file| std::io::Write::write_all(&mut file, &[0; 64 << 10]));
        let _ = std::fs::remove_file(probe);
        written
    }

    /// Keeps what was made, under another name.
    ///
    /// Errors: it cannot be moved there.
    pub fn keep(self, place: &Path) -> Result<()> {
        let _ = std::fs::remove_file(self.log());
        std::fs::rename(&self.folder, place)?;
        let _ = std::fs::remove_file(place.join(LOCK));
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        discard(&self.folder);
    }
}

/// Holds a folder while the returned file is open: it is not abandoned.
///
/// Errors: the file cannot be made.
pub fn hold(folder: &Path) -> Result<File> {
    let lock = File::create(folder.join(LOCK))?;
    // Not every file system can lock; `ABANDONED` is for those.
    let _ = lock.try_lock();
    Ok(lock)
}

fn discard(folder: &Path) {
    registry::remove(folder);
    registry::forget(folder);
}

/// Holds off other Lacunas while a folder is made or abandoned ones are removed.
fn turn(root: &Path) -> Result<File> {
    let file = File::options().create(true).append(true).open(root.with_extension("lock"))?;
    file.lock()?;
    Ok(file)
}

/// Removes the folders in `root` whose Lacuna was killed, and ends what still works in them.
pub fn remove_abandoned(root: &Path) {
    let entries = || std::fs::read_dir(root).into_iter().flatten().flatten();
    let of_lacuna = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    // Without a folder nothing is written, not even the file of the turn.
    if !entries().any(|entry| of_lacuna(&entry)) {
        return;
    }
    let _turn = turn(root);
    for entry in entries().filter(of_lacuna) {
        let folder = entry.path();
        if is_abandoned(&folder) {
            registry::end_processes(&folder);
            registry::remove(&folder);
        }
    }
}

/// Whether the Lacuna that held a folder has ended.
pub fn is_abandoned(folder: &Path) -> bool {
    match File::open(folder.join(LOCK)).map(|lock| lock.try_lock()) {
        Ok(Ok(())) => true,
        Ok(Err(TryLockError::WouldBlock)) => false,
        Ok(Err(TryLockError::Error(_))) | Err(_) => {
            let changed = folder.metadata().and_then(|data| data.modified());
            changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > ABANDONED))
        }
    }
}
