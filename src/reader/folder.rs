//! Lists the files of a folder that have a trace's extension.

use std::path::{Path, PathBuf};

use super::format::extensions;

/// The direct contents of a folder.
#[derive(Debug, Default)]
pub struct Folder {
    /// Files with a trace's extension, by name.
    pub files: Vec<PathBuf>,
    /// Number of other files, without folders.
    pub n_others: usize,
}

impl Folder {
    /// Lists a folder without opening its files.
    ///
    /// Errors: the folder cannot be listed.
    pub fn list(path: &Path) -> std::io::Result<Self> {
        let (mut folder, known) = (Self::default(), extensions());
        for entry in std::fs::read_dir(path)? {
            let file = entry?.path();
            if !file.is_file() {
                continue;
            }
            let extension = file.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
            match extension.is_some_and(|extension| known.contains(&extension.as_str())) {
                true => folder.files.push(file),
                false => folder.n_others += 1,
            }
        }
        folder.files.sort();
        Ok(folder)
    }

    /// A note for the user about the other files, if there are any.
    pub fn note(&self) -> Option<String> {
        match self.n_others {
            0 => None,
            1 => Some("1 file of another kind was not read".to_owned()),
            n => Some(format!("{n} files of other kinds were not read")),
        }
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
}
