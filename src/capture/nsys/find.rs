//! Search for `nsys`: the user's choice, then `PATH`, then the folders of its installers.

use std::path::{Path, PathBuf};

use crate::capture::is_program;

/// Folders in which the name of a version leads to `nsys`: (parent, start of the version's name).
const INSTALLED: [(&str, &str); 5] = [
    ("opt/nvidia/nsight-systems", ""),
    ("opt/nvidia/nsight-systems-cli", ""),
    ("opt/nvidia", "nsight-systems-"),
    ("usr/lib/nsight-systems", ""),
    ("usr/local", "cuda"),
];
/// Where it lies inside such a folder.
const INSIDE: [&str; 3] = ["bin/nsys", "target-linux-x64/nsys", "target-linux-sbsa-armv8/nsys"];

/// Where the program lies that makes reports of raw data, inside such a folder.
const IMPORTER: [&str; 2] = ["host-linux-x64/QdstrmImporter", "host-linux-armv8/QdstrmImporter"];

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct SearchPaths {
    /// The user's choice; if set, no other place is searched: a program, a folder of an installation, or the bare
    /// name of a program in `path`. A relative path is one from the current folder.
    pub chosen: Option<PathBuf>,
    /// Folders of programs, in order. Relative ones and the current folder are left out.
    pub path: Vec<PathBuf>,
    /// The current folder.
    pub current: Option<PathBuf>,
    /// The folder in which the installers' folders lie: `/`.
    pub root: PathBuf,
}

impl SearchPaths {
    /// The places of this machine.
    pub fn of_machine(chosen: Option<PathBuf>) -> Self {
        let path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
        Self { chosen, path, current: std::env::current_dir().ok(), root: PathBuf::from("/") }
    }

    /// All candidates for `nsys`: those in `path` first, then the installed ones from the newest by name.
    pub fn candidates(&self) -> Vec<PathBuf> {
        let mut found = match &self.chosen {
            Some(chosen) => self.chosen_programs(chosen),
            None => {
                let mut found: Vec<PathBuf> = self.trusted_path().map(|folder| folder.join("nsys")).collect();
                found.extend(installed(INSTALLED.map(|(parent, start)| (self.root.join(parent), start))));
                found
            }
        };
        found.retain(|nsys| is_program(nsys));
        let mut seen = Vec::new();
        found.retain(|nsys| {
            let real = nsys.canonicalize().ok();
            let is_new = !seen.contains(&real);
            seen.push(real);
            is_new
        });
        found
    }

    /// A file in the current folder is not an installed program.
    fn trusted_path(&self) -> impl Iterator<Item = &PathBuf> {
        let current = self.current.as_ref().and_then(|folder| folder.canonicalize().ok());
        let is_current = move |folder: &Path| folder.canonicalize().is_ok_and(|folder| Some(folder) == current);
        self.path.iter().filter(move |folder| folder.is_absolute() && !is_current(folder))
    }

    fn chosen_programs(&self, chosen: &Path) -> Vec<PathBuf> {
        if chosen.as_os_str().is_empty() {
            return Vec::new();
        }
        let is_bare = chosen.components().count() == 1 && chosen.file_name() == Some(chosen.as_os_str());
        let on_path: Vec<PathBuf> = self.trusted_path().filter(|_| is_bare).map(|folder| folder.join(chosen)).collect();
        // The first one found, as a shell takes it.
        if let Some(program) = on_path.into_iter().find(|program| is_program(program)) {
            return vec![program];
        }
        // One path for one place, however it was written: `./nsys` is `nsys`.
        let place: PathBuf = self.current.as_deref().unwrap_or(Path::new("")).join(chosen).components().collect();
        if !place.is_dir() {
            return vec![place];
        }
        let inside = ["nsys"].into_iter().chain(INSIDE).map(|inside| place.join(inside));
        inside.chain(installed([(place.clone(), "")])).collect()
    }

    /// The searched places, for messages.
    pub fn described(&self) -> String {
        match &self.chosen {
            Some(chosen) => format!("{}, as set", chosen.display()),
            None => "PATH, /opt/nvidia, /usr/local/cuda*".to_owned(),
        }
    }
}

/// What makes reports of raw data: it is installed with an `nsys`, and reads what that wrote.
pub fn importer(nsys: &Path) -> Option<PathBuf> {
    let nsys = nsys.canonicalize().ok()?;
    let folders: Vec<&Path> = nsys.ancestors().skip(1).take(2).collect();
    let inside = folders.iter().flat_map(|folder| IMPORTER.map(|inside| folder.join(inside)));
    // A CUDA toolkit has the whole of Nsight Systems in a folder of its own.
    let toolkit = folders.last().map(|folder| versions([(folder.to_path_buf(), "nsight-systems-")]));
    let in_toolkit = toolkit.into_iter().flatten().flat_map(|folder| IMPORTER.map(|inside| folder.join(inside)));
    inside.chain(in_toolkit).find(|importer| is_program(importer))
}

/// Where `nsys` lies in the folders of versions, newest first; each parent with the start of their names.
fn installed<const N: usize>(parents: [(PathBuf, &str); N]) -> Vec<PathBuf> {
    versions(parents).iter().flat_map(|folder| INSIDE.map(|inside| folder.join(inside))).collect()
}

/// The folders of versions, newest first.
fn versions<const N: usize>(parents: [(PathBuf, &str); N]) -> Vec<PathBuf> {
    let mut installed: Vec<(Vec<u64>, PathBuf)> = Vec::new();
    for (parent, start) in parents {
        for folder in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = folder.file_name().to_string_lossy().into_owned();
            if let Some(version) = name.strip_prefix(start) {
                installed.push((numbers(version), folder.path()));
            }
        }
    }
    installed.sort_by(|a, b| (&b.0, &b.1).cmp(&(&a.0, &a.1)));
    installed.into_iter().map(|(_, folder)| folder).collect()
}

/// A choice of `nsys` that means the same in whatever folder it is used next time.
pub fn lasting(chosen: &Path) -> PathBuf {
    match std::path::absolute(chosen) {
        Ok(place) if place.exists() => place,
        _ => chosen.to_owned(),
    }
}

/// The numbers in a name, so that 2023.10 comes after 2023.4.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}
