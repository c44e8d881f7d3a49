//! The cache of converted reports, with eviction of the least recently used.

use std::fs::{DirBuilder, File};
use std::io::Result;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::super::scratch::Scratch;

/// What an export was made of and by whom; a file of this name lies beside each.
const MADE_OF: &str = "made-of.txt";

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
    /// Path, size and time of the report.
    made_of: String,
    folder: PathBuf,
    name: PathBuf,
}

/// An export that was made before.
#[derive(Debug)]
pub struct Made {
    pub export: PathBuf,
    /// The `nsys` that made it, and its version.
    pub converter: String,
    /// Every `nsys` that there was then, as [`identity`] names it.
    known: String,
}

impl Made {
    /// Whether the `nsys` was there when the export was made, as it is now.
    pub fn knew(&self, nsys: &Path) -> bool {
        self.known.lines().any(|known| known == identity(nsys))
    }
}

/// The path of a program with its time, which tells an update.
pub fn identity(program: &Path) -> String {
    format!("{} {}", program.display(), program.metadata().and_then(|data| nanos(&data)).unwrap_or_default())
}

fn nanos(data: &std::fs::Metadata) -> Result<u128> {
    Ok(data.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos())
}

impl Cache {
    /// The place in `root` of the export of `report` as it is now.
    ///
    /// Errors: the report cannot be looked at.
    pub fn new(root: &Path, report: &Path) -> Result<Self> {
        let data = report.metadata()?;
        let made_of = format!("{}\n{} bytes\nmodified {}\n", report.display(), data.len(), nanos(&data)?);
        let folder = root.join(format!("{:016x}", fnv(made_of.as_bytes())));
        // The export has the report's name, which is what the user sees.
        let name = Path::new(report.file_name().unwrap_or_default()).with_extension("sqlite");
        Ok(Self { root: root.to_owned(), made_of, folder, name })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The export's file name.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// A new folder for a program that Lacuna runs; dropping it removes it.
    ///
    /// Errors: it cannot be made, or that of the cache.
    pub fn scratch(&self) -> Result<Scratch> {
        private_folder(&self.root)?;
        Scratch::new(&self.root)
    }

    /// The export, if it was made before. Marks it as used now.
    pub fn find(&self) -> Option<Made> {
        let note = self.folder.join(MADE_OF);
        let text = std::fs::read_to_string(&note).ok()?;
        let (converter, known) = text.strip_prefix(&self.made_of)?.split_once('\n')?;
        let export = self.folder.join(&self.name);
        if !export.is_file() {
            return None;
        }
        // If the time cannot be set, it is only evicted sooner.
        let _ = File::options().append(true).open(note).and_then(|file| file.set_modified(SystemTime::now()));
        Some(Made { export, converter: converter.to_owned(), known: known.to_owned() })
    }

    /// Keeps the export made in `work` by `converter`, one of those `known`; returns its path.
    ///
    /// Errors: it cannot be moved into its place.
    pub fn keep(&self, work: Scratch, converter: &str, known: &[String]) -> Result<PathBuf> {
        let note = format!("{}{converter}\n{}\n", self.made_of, known.join("\n"));
        std::fs::write(work.path().join(MADE_OF), note)?;
        // What lies there is damaged, of another `nsys`, or was just made by another Lacuna.
        let _ = std::fs::remove_dir_all(&self.folder);
        work.keep(&self.folder)?;
        Ok(self.folder.join(&self.name))
    }

    /// Removes the least recently used exports until all together have at most `limit` bytes. Keeps this one.
    pub fn prune(&self, limit: u64) {
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let folder = entry.path();
            let used = |path: &Path| path.metadata().and_then(|data| data.modified()).unwrap_or(UNIX_EPOCH);
            if folder.join(MADE_OF).is_file() && !entry.file_name().to_string_lossy().starts_with("part-") {
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
