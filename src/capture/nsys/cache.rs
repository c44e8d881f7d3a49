//! The cache of converted reports, with eviction of the least recently used.

use std::fs::{DirBuilder, File};
use std::io::Result;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What an export was made of; a file of this name lies beside each.
const MADE_OF: &str = "made-of.txt";
/// Remains of a killed conversion are removed after this time.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// The user's folder for exports: `$XDG_CACHE_HOME/lacuna/nsys`, or the same in `~/.cache`.
pub fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(caches.join("lacuna/nsys"))
}

/// The place of one report's export.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    /// Path, size and time of the report, and the version that converts it.
    made_of: String,
    folder: PathBuf,
    name: PathBuf,
}

impl Cache {
    /// The place in `root` of what `version` of `nsys` makes of `report` as it is now.
    ///
    /// Errors: the report cannot be looked at, or the folder not be made.
    pub fn new(root: &Path, report: &Path, version: &str) -> Result<Self> {
        let data = report.metadata()?;
        let modified = data.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let made_of = format!("{}\n{} bytes\nmodified {modified}\nnsys {version}\n", report.display(), data.len());
        private_folder(root)?;
        let folder = root.join(format!("{:016x}", fnv(made_of.as_bytes())));
        // The export has the report's name, which is what the user sees.
        let name = Path::new(report.file_name().unwrap_or_default()).with_extension("sqlite");
        Ok(Self { root: root.to_owned(), made_of, folder, name })
    }

    /// The export's file name.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The export, if it was made before. Marks it as used now.
    pub fn find(&self) -> Option<PathBuf> {
        let note = self.folder.join(MADE_OF);
        let is_ours = std::fs::read(&note).is_ok_and(|text| text == self.made_of.as_bytes());
        let export = self.folder.join(&self.name);
        if !is_ours || !export.is_file() {
            return None;
        }
        // If the time cannot be set, it is only evicted sooner.
        let _ = File::options().append(true).open(note).and_then(|file| file.set_modified(SystemTime::now()));
        Some(export)
    }

    /// A new folder in which an export is made; dropping it removes it.
    ///
    /// Errors: it cannot be made.
    pub fn work_folder(&self) -> Result<tempfile::TempDir> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("part-");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        builder.tempdir_in(&self.root)
    }

    /// Keeps what was made in `work`; returns the export's path.
    ///
    /// Errors: it cannot be moved into its place.
    pub fn keep(&self, work: tempfile::TempDir) -> Result<PathBuf> {
        std::fs::write(work.path().join(MADE_OF), &self.made_of)?;
        let _ = std::fs::remove_file(work.path().join("log"));
        // An existing entry is damaged, or was just created by another process.
        if let Some(export) = self.find() {
            return Ok(export);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
        std::fs::rename(work.path(), &self.folder)?;
        // It has a new name, under which it is to stay.
        let _ = work.keep();
        Ok(self.folder.join(&self.name))
    }

    /// Removes the least recently used exports until all together have at most `limit` bytes. Keeps this one.
    pub fn prune(&self, limit: u64) {
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let folder = entry.path();
            let used = |path: &Path| path.metadata().and_then(|data| data.modified()).unwrap_or(UNIX_EPOCH);
            if entry.file_name().to_string_lossy().starts_with("part-") {
                if used(&folder).elapsed().is_ok_and(|age| age > ABANDONED) {
                    let _ = std::fs::remove_dir_all(&folder);
                }
            } else if folder.join(MADE_OF).is_file() {
                kept.push((used(&folder.join(MADE_OF)), bytes_in(&folder), folder));
            }
        }
        kept.sort();
        let mut total: u64 = kept.iter().map(|entry| entry.1).sum();
        for (_, bytes, folder) in kept.iter().filter(|entry| entry.2 != self.folder) {
            if total <= limit {
                break;
            }
            if std::fs::remove_dir_all(folder).is_ok() {
                total -= bytes;
            }
        }
    }
}

/// Creates a folder and its parents with access for the user only: a report contains their environment.
fn private_folder(folder: &Path) -> Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    #[cfg(unix)]
    std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}

fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
}

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>. What was hashed is compared as well.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
