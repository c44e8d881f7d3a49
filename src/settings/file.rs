//! The file of settings: written whole, shared by windows that are open at once, and never lost in silence.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::Settings;
use crate::capture::partial::write_private;

/// How often, and how long in between, another window's turn is waited for.
const TURNS: u32 = 50;
const TURN: Duration = Duration::from_millis(10);
/// No file of settings is longer, in bytes.
const MAX: u64 = 16_000_000;
/// A chain of links that is longer leads nowhere.
const MAX_LINKS: u32 = 40;

/// The file of settings, and what this window last read from it or put there.
#[derive(Clone, Debug)]
pub struct SettingsFile {
    path: PathBuf,
    last: Value,
}

impl SettingsFile {
    /// Where it is: in the folder of the program's data, which may be absent.
    pub fn place() -> Option<PathBuf> {
        Some(eframe::storage_dir("lacuna")?.join("settings.json"))
    }

    /// The file at `path` with what it holds; `None` if there is none yet or it cannot be read.
    ///
    /// A file that cannot be read is kept under another name; the sentence says so.
    pub fn open(path: &Path) -> (Self, Option<Value>, Option<String>) {
        let path = linked(path);
        let (stored, problem) = match read(&path) {
            Ok(stored) => (stored, None),
            Err(why) => (None, Some(keep_aside(&path, &why))),
        };
        (Self { path, last: Value::Null }, stored, problem)
    }

    /// From now on `settings` are what other values are changes of.
    pub fn follow(&mut self, settings: &Settings) {
        self.last = settings.to_json();
    }

    /// Whether there is anything to write.
    pub fn is_changed(&self, settings: &Value) -> bool {
        self.last != *settings
    }

    /// Writes what changed since the last time, and keeps what other windows wrote meanwhile. A file that cannot be
    /// read any more is kept under another name; the sentence says so.
    ///
    /// Errors: it cannot be written; what was in the file is there unchanged.
    pub fn write(&mut self, settings: &Value) -> Result<Option<String>> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let _turn = turn(&self.path.with_extension("lock"));
        let (stored, problem) = match read(&self.path) {
            Ok(stored) => (stored.unwrap_or_default(), None),
            // The system refuses it now, as when too many files are open: nothing is wrong with what is in it.
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(why) => (Value::Null, Some(keep_aside(&self.path, &why))),
        };
        let merged = if stored.is_object() { merged(&self.last, settings, &stored) } else { settings.clone() };
        if merged != stored {
            let text = format!("{merged:#}\n");
            if text.len() as u64 > MAX {
                return Err(too_large());
            }
            write_private(&self.path, text.as_bytes())?;
        }
        self.last = settings.clone();
        Ok(problem)
    }
}

/// Holds off other windows while the returned file is open, for those that can be held off.
fn turn(lock: &Path) -> Option<File> {
    // For reading too, since who only writes to a FIFO waits for a reader.
    let file = File::options().create(true).read(true).append(true).open(lock).ok()?;
    for _ in 0..TURNS {
        if !matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock)) {
            break;
        }
        // A window that was stopped amid its turn is not waited for.
        std::thread::sleep(TURN);
    }
    Some(file)
}

/// What a link leads to, if that is a file or none yet: a link stays one, and what is written beside it and renamed
/// would take its place. Else `path`, so that never anything but it gets another name.
fn linked(path: &Path) -> PathBuf {
    let mut end = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(to) = end.read_link() else { break };
        end = end.with_file_name("").join(to);
    }
    match end.symlink_metadata() {
        Ok(data) if !data.is_file() => path.to_owned(),
        _ => end,
    }
}

/// The object in the file; `None` without a file.
///
/// Errors: why it is none; where the system does not let it be read, with the number that it gives.
fn read(path: &Path) -> Result<Option<Value>> {
    let data = match path.metadata() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        data => data?,
    };
    // Others may have no end, or keep whoever opens them waiting.
    if !data.is_file() {
        return Err(Error::other("it is not a file"));
    }
    if data.len() > MAX {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX).read_to_end(&mut bytes)?;
    match serde_json::from_slice(&bytes)? {
        stored @ Value::Object(_) => Ok(Some(stored)),
        _ => Err(Error::other("no settings are in it")),
    }
}

fn too_large() -> Error {
    Error::other(format!("they are larger than {} MB", MAX / 1_000_000))
}

/// Gives a file that cannot be read another name; a sentence that says why and which.
fn keep_aside(path: &Path, why: &Error) -> String {
    let other = |n: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(if n == 1 { ".bad".to_owned() } else { format!(".bad{n}") });
        PathBuf::from(name)
    };
    let free = (1..1000).map(other).find(|path| !path.exists() && !path.is_symlink());
    let kept = free.and_then(|free| std::fs::rename(path, &free).ok().map(|()| free));
    let becomes = kept.map_or("and stay as they are".to_owned(), |free| format!("and were kept as {}", free.display()));
    format!("The settings could not be read ({why}), {becomes}: {}", path.display())
}

/// `theirs` with what changed from `before` to `ours`.
fn merged(before: &Value, ours: &Value, theirs: &Value) -> Value {
    let mut all = theirs.as_object().cloned().unwrap_or_default();
    for (key, value) in changes(before, ours) {
        let place = |of: &Value| of.get(&key).cloned().unwrap_or_default();
        let value = match (&*key, value) {
            ("recent", Some(value)) => recent(&place(before), &value, &place(theirs)),
            // A layout is one arrangement.
            ("layout", Some(value)) => value,
            ("marks", Some(value)) => merged_by_key(&place(before), &value, &place(theirs), sets),
            (_, Some(value)) => merged_by_key(&place(before), &value, &place(theirs), |_, ours, _| ours.clone()),
            (_, None) => {
                all.shift_remove(&key);
                continue;
            }
        };
        all.insert(key, value);
    }
    Value::Object(all)
}

/// The keys of which the value is another one than before, with the new one.
fn changes(before: &Value, ours: &Value) -> Vec<(String, Option<Value>)> {
    let empty = Map::new();
    let [before, ours] = [before, ours].map(|of| of.as_object().unwrap_or(&empty));
    let new = ours.iter().filter(|(key, value)| before.get(*key) != Some(value));
    let gone = before.keys().filter(|key| !ours.contains_key(*key));
    new.map(|(key, value)| (key.clone(), Some(value.clone()))).chain(gone.map(|key| (key.clone(), None))).collect()
}

/// Objects key by key, at every depth; `leaf` joins what changed in both and is not an object.
fn merged_by_key(before: &Value, ours: &Value, theirs: &Value, leaf: fn(&Value, &Value, &Value) -> Value) -> Value {
    let (Value::Object(_), Value::Object(all)) = (ours, theirs) else {
        return if before == theirs { ours.clone() } else { leaf(before, ours, theirs) };
    };
    let mut all = all.clone();
    for (key, value) in changes(before, ours) {
        let place = |of: &Value| of.get(&key).cloned().unwrap_or_default();
        match value {
            Some(value) => {
                let value = merged_by_key(&place(before), &value, &place(theirs), leaf);
                all.insert(key, value);
            }
            // What others put there since stays.
            None => match leaf(&place(before), &Value::Array(Vec::new()), &place(theirs)) {
                Value::Array(rest) if !rest.is_empty() => _ = all.insert(key, Value::Array(rest)),
                _ => _ = all.shift_remove(&key),
            },
        }
    }
    Value::Object(all)
}

/// `theirs` without the elements that we removed, and with those that we added.
fn sets(before: &Value, ours: &Value, theirs: &Value) -> Value {
    let (Some(ours_all), Some(theirs)) = (ours.as_array(), theirs.as_array()) else { return ours.clone() };
    let before = before.as_array().map_or(&[][..], Vec::as_slice);
    let is_kept = |element: &&Value| ours_all.contains(element) || !before.contains(element);
    let mut all: Vec<Value> = theirs.iter().filter(is_kept).cloned().collect();
    let added = ours_all.iter().filter(|element| !before.contains(element) && !theirs.contains(element));
    all.extend(added.cloned());
    Value::Array(all)
}

/// The recent files of both: first those that were opened here since `before`, then theirs.
fn recent(before: &Value, ours: &Value, theirs: &Value) -> Value {
    let [before, ours, theirs] = [before, ours, theirs].map(|of| of.as_array().cloned().unwrap_or_default());
    if ours.is_empty() {
        return Value::Array(ours);
    }
    // An opened file moves to the front; the others keep their order.
    let (mut n_opened, mut rest) = (ours.len(), before.as_slice());
    while n_opened > 0
        && let Some(i) = rest.iter().rposition(|path| *path == ours[n_opened - 1])
    {
        n_opened -= 1;
        rest = &rest[..i];
    }
    let mut all = ours[..n_opened].to_vec();
    all.extend(theirs.into_iter().filter(|path| !ours[..n_opened].contains(path)));
    all.truncate(Settings::MAX_RECENT);
    Value::Array(all)
}

#[cfg(test)]
mod tests;
