//! Lists the files of a folder that have a trace's extension.

use std::path::{Path, PathBuf};

use super::format::{CONVERTED, extensions};

/// What lies beside the recordings of a run of Lacuna's, if its manifest does.
const MANIFEST: &str = "run.json";
const OF_RUN: [&str; 3] = [MANIFEST, "output.txt", "lock"];

/// The direct contents of a folder.
#[derive(Debug, Default)]
pub struct Folder {
    /// Files with a trace's extension, by name, logs of counters after what they accompany; also reports that must be converted, where no export of the same
    /// name lies beside them.
    pub files: Vec<PathBuf>,
    /// Number of reports whose export is among the files.
    pub n_exported: usize,
    /// Number of other files, without folders and what a run of Lacuna's notes about itself.
    pub n_others: usize,
}

impl Folder {
    /// Lists a folder without opening its files.
    ///
    /// Errors: the folder cannot be listed.
    pub fn list(path: &Path) -> std::io::Result<Self> {
        let (mut folder, known, mut reports) = (Self::default(), extensions(), Vec::new());
        let is_run = path.join(MANIFEST).is_file();
        for entry in std::fs::read_dir(path)? {
            let file = entry?.path();
            let is_note = is_run && file.file_name().is_some_and(|name| OF_RUN.iter().any(|&own| own == name));
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
        let n_reports = reports.len();
        reports.retain(|report| !folder.files.contains(&report.with_extension("sqlite")));
        folder.n_exported = n_reports - reports.len();
        folder.files.append(&mut reports);
        let is_log = |file: &Path| file.extension().is_some_and(|extension| extension == "jsonl");
        folder.files.sort_by_cached_key(|file| (is_log(file), file.clone()));
        Ok(folder)
    }

    /// A note for the user about the files that are not read, if there are any.
    pub fn note(&self) -> Option<String> {
        let others = match self.n_others {
            0 => None,
            1 => Some("1 file of another kind was not read".to_owned()),
            n => Some(format!("{n} files of other kinds were not read")),
        };
        let exported = match self.n_exported {
            0 => None,
            1 => Some("1 report was not read, since its export lies beside it".to_owned()),
            n => Some(format!("{n} reports were not read, since their exports lie beside them")),
        };
        [others, exported].into_iter().flatten().reduce(|a, b| format!("{a}; {b}"))
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
    fn the_folder_of_a_run_is_its_recordings() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["gpu_metrics.jsonl", "lock", "output.txt", "trace-rank0-1.pt.trace.json"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let listed = || Folder::list(folder.path()).unwrap();
        assert_eq!(listed().n_others, 2);
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
        assert_eq!(listed.note().unwrap(), "1 report was not read, since its export lies beside it");
    }
}
