//! Lists the files of a folder that have a trace's extension.

use std::path::{Path, PathBuf};

use super::format::{CONVERTED, extensions};

/// What lies beside the recordings of a run of Lacuna's, if its manifest does.
const MANIFEST: &str = "run.json";
const OF_RUN: [&str; 4] = [MANIFEST, "output.txt", "output-stderr-lines.txt", "lock"];

/// The direct contents of a folder.
#[derive(Debug, Default)]
pub struct Folder {
    /// Files with a trace's extension, by name, logs of counters after what they accompany; also reports that must be
    /// converted, where no export of the same name lies beside them.
    pub files: Vec<PathBuf>,
    /// Number of reports whose export is among the files, or raw data whose report or export is.
    pub n_exported: usize,
    /// Number of other files, without folders and what a run of Lacuna's notes about itself.
    pub n_others: usize,
    /// By name. They are not read.
    subfolders: Vec<PathBuf>,
    /// Those of them that directly hold traces.
    with_traces: Vec<PathBuf>,
}

impl Folder {
    /// Lists a folder, and what its subfolders hold, without opening files.
    ///
    /// Errors: the folder cannot be listed.
    pub fn list(path: &Path) -> std::io::Result<Self> {
        let mut folder = Self::contents(path)?;
        let holds_traces = |folder: &&PathBuf| Self::contents(folder).is_ok_and(|folder| !folder.files.is_empty());
        folder.with_traces = folder.subfolders.iter().filter(holds_traces).cloned().collect();
        Ok(folder)
    }

    /// Errors: the folder cannot be listed.
    fn contents(path: &Path) -> std::io::Result<Self> {
        let (mut folder, known, mut reports) = (Self::default(), extensions(), Vec::new());
        let is_run = path.join(MANIFEST).is_file();
        for entry in std::fs::read_dir(path)? {
            let file = entry?.path();
            let is_note = is_run && file.file_name().is_some_and(|name| OF_RUN.iter().any(|&own| own == name));
            if file.is_dir() {
                folder.subfolders.push(file);
                continue;
            }
            if is_note || !file.is_file() {
                continue;
            }
            let extension = file.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
            match extension.as_deref() {
                Some(extension) if known.contains(&extension) => folder.files.push(file),
                Some(extension) if CONVERTED.contains(&extension) => reports.push(file),
                _ => folder.n_others += 1,
            }
        }
        folder.subfolders.sort_unstable();
        let n_reports = reports.len();
        let made = |report: &Path| [report.with_extension("sqlite"), report.with_extension("nsys-rep")];
        let known = [&folder.files[..], &reports].concat();
        reports.retain(|report| !made(report).iter().any(|made| made != report && known.contains(made)));
        folder.n_exported = n_reports - reports.len();
        folder.files.append(&mut reports);
        let is_log = |file: &Path| file.extension().is_some_and(|extension| extension == "jsonl");
        folder.files.sort_by_cached_key(|file| (is_log(file), file.clone()));
        Ok(folder)
    }

    /// What was looked for, if no file is to be read, and which subfolders hold such files.
    pub fn nothing(&self) -> Option<String> {
        if !self.files.is_empty() {
            return None;
        }
        let known: Vec<&str> = extensions().into_iter().chain(CONVERTED.iter().copied()).collect();
        let text = format!("No file with an extension of traces (.{})", known.join(", ."));
        Some(match (self.subfolders.len(), self.unread_traces()) {
            (0, _) => text,
            (_, None) => text + "; subfolders are not read",
            (_, Some(unread)) => format!("{text}; {unread}"),
        })
    }

    /// Says which subfolders hold traces, if any does.
    fn unread_traces(&self) -> Option<String> {
        const MOST: usize = 5;
        let named = self.with_traces.iter().take(MOST).map(|folder| folder.display().to_string());
        let named = named.collect::<Vec<_>>().join(", ");
        match self.with_traces.len() {
            0 => None,
            1..=MOST => Some(format!("subfolders are not read, and these hold traces: {named}")),
            _ => Some(format!("subfolders are not read, and these and others hold traces: {named}")),
        }
    }

    /// A note for the user about what is not read beside the files, if there is anything.
    pub fn note(&self) -> Option<String> {
        let others = match self.n_others {
            0 => None,
            1 => Some("1 file of another kind was not read".to_owned()),
            n => Some(format!("{n} files of other kinds were not read")),
        };
        let exported = match self.n_exported {
            0 => None,
            1 => Some("1 file of nsys was not read, since what was made of it lies beside it".to_owned()),
            n => Some(format!("{n} files of nsys were not read, since what was made of them lies beside them")),
        };
        // `nothing` says it where there are no files.
        let in_subfolders = self.unread_traces().filter(|_| !self.files.is_empty());
        [others, exported, in_subfolders].into_iter().flatten().reduce(|a, b| format!("{a}; {b}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_folder_come_by_name() {
        let path = std::env::temp_dir().join(format!("lacuna-folder-{}", std::process::id()));
        std::fs::create_dir_all(path.join("c.json")).unwrap();
        for name in ["b.JSON", "a.json", "notes.txt", "Makefile"] {
            std::fs::write(path.join(name), "").unwrap();
        }
        let folder = Folder::list(&path).unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        assert_eq!(folder.files, [path.join("a.json"), path.join("b.JSON")]);
        assert_eq!(folder.note().unwrap(), "2 files of other kinds were not read");
        assert_eq!(Folder::default().note(), None);
        assert!(Folder::list(&path).is_err());
    }

    #[test]
    fn the_subfolders_that_hold_traces_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = || Folder::list(folder.path()).unwrap().nothing();
        let text = nothing().unwrap();
        assert!(text.contains(".json") && text.contains(".nsys-rep") && !text.contains("subfolders"), "{text}");
        let [full, empty] = ["full", "empty"].map(|name| folder.path().join(name));
        std::fs::create_dir(&full).unwrap();
        std::fs::create_dir(empty).unwrap();
        std::fs::write(full.join("a.json"), "").unwrap();
        let text = nothing().unwrap();
        assert!(text.ends_with(&format!("these hold traces: {}", full.display())), "{text}");
        assert_eq!(Folder::list(folder.path()).unwrap().note(), None);
        std::fs::write(folder.path().join("b.json"), "").unwrap();
        assert_eq!(nothing(), None);
        let note = Folder::list(folder.path()).unwrap().note().unwrap();
        assert_eq!(note, format!("subfolders are not read, and these hold traces: {}", full.display()));
    }

    #[test]
    fn the_folder_of_a_run_is_its_recordings() {
        let folder = tempfile::tempdir().unwrap();
        for name in [&OF_RUN[1..], &["gpu_metrics.jsonl", "trace-rank0-1.pt.trace.json"]].concat() {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let listed = || Folder::list(folder.path()).unwrap();
        assert_eq!(listed().n_others, 3);
        std::fs::write(folder.path().join("run.json"), "{}").unwrap();
        let files = ["trace-rank0-1.pt.trace.json", "gpu_metrics.jsonl"].map(|name| folder.path().join(name));
        assert_eq!((&listed().files[..], listed().note()), (&files[..], None));
    }

    #[test]
    fn reports_are_files_unless_their_export_is_there() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.nsys-rep", "b.qdrep", "c.NSYS-REP", "c.sqlite"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let listed = Folder::list(folder.path()).unwrap();
        assert_eq!(listed.files, ["a.nsys-rep", "b.qdrep", "c.sqlite"].map(|name| folder.path().join(name)));
        assert_eq!(listed.note().unwrap(), "1 file of nsys was not read, since what was made of it lies beside it");
        for name in ["a.qdstrm", "c.qdstrm", "d.qdstrm"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let listed = Folder::list(folder.path()).unwrap();
        let files = ["a.nsys-rep", "b.qdrep", "c.sqlite", "d.qdstrm"].map(|name| folder.path().join(name));
        assert_eq!(listed.files, files);
        let note = "3 files of nsys were not read, since what was made of them lies beside them";
        assert_eq!(listed.note().unwrap(), note);
    }
}
