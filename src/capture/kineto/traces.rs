//! The files that Kineto writes: which are whole, and which hold something.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memchr::memmem;

use super::LATE;

/// A whole file that Kineto wrote.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    pub path: PathBuf,
    pub pid: u32,
    /// Which trace of the run it is, as its configuration named it.
    pub number: u32,
}

/// Looks for whole files again and again.
#[derive(Debug, Default)]
pub struct FileWatch {
    /// The sizes at the last look: early versions of Kineto write to the final name.
    sizes: BTreeMap<PathBuf, u64>,
}

impl FileWatch {
    /// The files `NUMBER_PID.json` that are whole and did not change since the last call.
    pub fn whole(&mut self, folder: &Path) -> Vec<Written> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut whole = Vec::new();
        for path in entries.map(|entry| entry.path()) {
            let Some((number, pid)) = numbers(&path) else { continue };
            let bytes = path.metadata().map_or(0, |data| data.len());
            let before = self.sizes.insert(path.clone(), bytes);
            if bytes > 0 && before == Some(bytes) && ends(&path) {
                self.sizes.remove(&path);
                whole.push(Written { path, pid, number });
            }
        }
        whole.sort_by_key(|written| (written.number, written.pid));
        whole
    }
}

/// Whether Kineto is writing a file there: it grew lately.
pub fn is_writing(folder: &Path) -> bool {
    let entries = std::fs::read_dir(super::place(folder)).into_iter().flatten().flatten();
    let mut written = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".json.tmp"));
    let is_new = |time: SystemTime| time.elapsed().is_ok_and(|age| age < LATE);
    written.any(|entry| entry.metadata().and_then(|data| data.modified()).is_ok_and(is_new))
}

fn numbers(path: &Path) -> Option<(u32, u32)> {
    let (number, pid) = path.file_name()?.to_str()?.strip_suffix(".json")?.split_once('_')?;
    Some((number.parse().ok()?, pid.parse().ok()?))
}

/// Whether a file ends as JSON does.
fn ends(path: &Path) -> bool {
    let last = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(16)))?;
        let mut last = Vec::new();
        file.take(16).read_to_end(&mut last)?;
        Ok(last)
    };
    last().is_ok_and(|last| last.trim_ascii_end().ends_with(b"}"))
}

/// Whether a trace has an operator or a kernel in it. A launcher that waits for its workers has none.
pub fn has_work(path: &Path) -> bool {
    has_any(path, &[b"\"cpu_op\"", b"\"kernel\""])
}

/// Whether a trace has nothing in it that the program did.
pub fn is_empty(path: &Path) -> bool {
    !has_work(path) && !has_any(path, &[b"\"python_function\"", b"\"user_annotation\""])
}

/// Whether a trace has a step of an optimizer, a backward pass or a kernel in it. A process that loads data has none.
pub fn has_training(path: &Path) -> bool {
    has_any(path, &[b"Optimizer.step#", b"\"fwdbwd\"", b"\"kernel\""])
}

fn has_any(path: &Path, words: &[&[u8]]) -> bool {
    let kinds: Vec<memmem::Finder<'_>> = words.iter().map(|word| memmem::Finder::new(*word)).collect();
    let longest = words.iter().map(|word| word.len()).max().unwrap_or(0);
    let Ok(mut file) = File::open(path) else { return false };
    let mut buffer = vec![0; 256 << 10];
    let mut kept = 0;
    while let Ok(n @ 1..) = file.read(&mut buffer[kept..]) {
        let text = &buffer[..kept + n];
        if kinds.iter().any(|kind| kind.find(text).is_some()) {
            return true;
        }
        // What may be cut.
        let end = text.len();
        kept = end.min(longest);
        buffer.copy_within(end - kept..end, 0);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_once_it_ends_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let mut look = FileWatch::default();
        write("1_77.json.tmp", "{}");
        write("other.json", "{}");
        write("1_78.json", "{\"traceEvents\": [");
        assert_eq!(look.whole(folder.path()), []);
        assert_eq!(look.whole(folder.path()), []);
        write("1_78.json", "{\"traceEvents\": []}\n");
        assert_eq!(look.whole(folder.path()), []);
        let path = folder.path().join("1_78.json");
        assert_eq!(look.whole(folder.path()), [Written { path: path.clone(), pid: 78, number: 1 }]);
        assert!(!has_work(&path) && is_empty(&path));
        for kind in ["cpu_op", "kernel"] {
            // Also where the name is cut by a read.
            for before in [0, (256 << 10) - 3] {
                write("1_78.json", &format!("{}{{\"cat\": \"{kind}\"}}", " ".repeat(before)));
                assert!(has_work(&path), "{kind} after {before}");
            }
        }
    }
}
