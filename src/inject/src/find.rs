//! Finds the libcupti that belongs to the CUDA of the program.
//!
//! In this order: one that the program has loaded; `LACUNA_CUPTI`; the packages of its Python; `CUDA_HOME` and
//! `CUDA_PATH`; `/usr/local/cuda*`; the packages of the Python in `PATH`; the system's search path. Two in one process
//! disturb each other, so an earlier one is preferred. One of a later major version than the driver supports is passed
//! over.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A library that may be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub path: PathBuf,
    /// Loaded by the program, or named by the user: no other is tried.
    pub is_final: bool,
}

/// What is known of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The files that are mapped into it.
    pub mapped: BTreeSet<PathBuf>,
    /// `LACUNA_CUPTI`.
    pub chosen: Option<PathBuf>,
    /// Folders `site-packages` of its Python.
    pub packages: Vec<PathBuf>,
    /// Folders of CUDA toolkits.
    pub toolkits: Vec<PathBuf>,
    /// Folders `site-packages` of other Pythons.
    pub other_packages: Vec<PathBuf>,
}

impl Program {
    /// This program.
    pub fn current() -> Self {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let words = std::fs::read_to_string("/proc/self/cmdline").unwrap_or_default();
        Self::of(&maps, words.split('\0').next().map(Path::new), |name| std::env::var_os(name))
    }

    /// A program by its path, with a text like `/proc/self/maps` and its variables.
    pub fn of(maps: &str, path: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let mapped = mapped_files(maps);
        let variable = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let mut packages = packages_of(&mapped);
        let installed_in = path.and_then(|path| Some(path.parent()?.parent()?.to_owned()));
        for root in variable("VIRTUAL_ENV").into_iter().chain(variable("CONDA_PREFIX")).chain(installed_in) {
            packages.extend(packages_below(&root));
        }
        let path = variable("PATH").unwrap_or_default();
        let pythons = std::env::split_paths(&path).filter(|folder| folder.join("python3").exists());
        let other_packages = pythons.filter_map(|folder| Some(packages_below(folder.parent()?))).flatten().collect();
        let mut toolkits: Vec<PathBuf> = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable).collect();
        let mut installed = below(Path::new("/usr/local"), "cuda");
        installed.sort();
        toolkits.extend(installed);
        Self { mapped, chosen: variable("LACUNA_CUPTI"), packages, toolkits, other_packages }
    }

    /// Libraries that may be loaded, the best first.
    pub fn candidates(&self) -> Vec<Candidate> {
        let is_final = |path: PathBuf| Candidate { path, is_final: true };
        let loaded = self.mapped.iter().find(|path| name_of(path).starts_with("libcupti.so"));
        if let Some(path) = loaded.or(self.chosen.as_ref()) {
            return vec![is_final(path.clone())];
        }
        let vendor = |packages: &PathBuf| {
            // `cu13` holds all of CUDA 13, `cuda_cupti` is of the versions before.
            below(&packages.join("nvidia"), "cu").into_iter().map(|package| package.join("lib"))
        };
        let mut folders: Vec<PathBuf> = self.packages.iter().flat_map(vendor).collect();
        for toolkit in &self.toolkits {
            folders.extend(["extras/CUPTI/lib64", "lib64"].map(|folder| toolkit.join(folder)));
        }
        folders.extend(self.other_packages.iter().flat_map(vendor));
        let mut found: Vec<PathBuf> = folders.iter().flat_map(|folder| below(folder, "libcupti.so")).collect();
        found.extend(["libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"].map(PathBuf::from));
        let latest = self.latest_cuda();
        found.retain(|path| latest.zip(major_of(path)).is_none_or(|(latest, major)| major <= latest));
        let mut seen = BTreeSet::new();
        // A folder holds the library by several names.
        found.retain(|path| seen.insert(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
        found.into_iter().map(|path| Candidate { path, is_final: false }).collect()
    }

    /// The latest major version of CUDA that the loaded driver supports.
    fn latest_cuda(&self) -> Option<u32> {
        let version =
            |path: &PathBuf| name_of(path).strip_prefix("libcuda.so.")?.split('.').next()?.parse::<u32>().ok();
        // The first drivers of CUDA 11, 12 and 13. One of a single digit is not a version of the driver.
        match self.mapped.iter().find_map(version)? {
            580..=699 => Some(13),
            525..580 => Some(12),
            450..525 => Some(11),
            _ => None,
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The major version of CUDA, from the name of the library or of the file that it links to.
fn major_of(path: &Path) -> Option<u32> {
    let major = |path: &Path| name_of(path).strip_prefix("libcupti.so.")?.split('.').next()?.parse().ok();
    // `libcupti.so.2025.3.1` has the version of CUPTI.
    let of_cuda = |path: &Path| major(path).filter(|&major: &u32| major < 1000);
    of_cuda(path).or_else(|| {
        let beside = below(path.parent()?, "libcupti.so.");
        beside
            .iter()
            .filter(|&other| std::fs::canonicalize(other).ok() == std::fs::canonicalize(path).ok())
            .find_map(|other| of_cuda(other))
    })
}

/// The folders `site-packages` of the Python that is installed in this folder.
fn packages_below(root: &Path) -> Vec<PathBuf> {
    below(&root.join("lib"), "python3").into_iter().map(|python| python.join("site-packages")).collect()
}

/// What lies in a folder and has a name that starts so, in the order of names.
fn below(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| name_of(path).starts_with(start)).collect();
    paths.sort();
    paths
}

/// The files named in a text like `/proc/self/maps`.
fn mapped_files(maps: &str) -> BTreeSet<PathBuf> {
    maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..]))).collect()
}

/// The folders `site-packages` and `dist-packages` from which files are mapped.
fn packages_of(mapped: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let is_packages = |path: &&Path| path.ends_with("site-packages") || path.ends_with("dist-packages");
    let found: BTreeSet<&Path> = mapped.iter().filter_map(|path| path.ancestors().find(is_packages)).collect();
    found.into_iter().map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these empty files, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[&str]) -> Self {
            let root = std::env::temp_dir().join(format!("lacuna-find-{name}-{}", std::process::id()));
            for file in files {
                let path = root.join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn names(program: &Program) -> Vec<String> {
        program.candidates().iter().map(|candidate| candidate.path.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn one_that_is_loaded_goes_before_all() {
        let mapped = mapped_files("7f00-7f01 r-xp 00000000 00:1 9   /a b/libcupti.so.12\n7f02-7f03 rw-p 0 00:0 0\n");
        let program = Program { mapped, chosen: Some("/x.so".into()), ..Program::default() };
        assert_eq!(program.candidates(), [Candidate { path: "/a b/libcupti.so.12".into(), is_final: true }]);
        let program = Program { chosen: Some("/x.so".into()), ..Program::default() };
        assert_eq!(names(&program), ["/x.so"]);
    }

    #[test]
    fn packages_of_python_go_before_toolkits() {
        let folder = Folder::new(
            "order",
            &[
                "site-packages/nvidia/cu13/lib/libcupti.so.13",
                "site-packages/nvidia/cuda_cupti/lib/libcupti.so.12",
                "site-packages/torch/lib/libtorch.so",
                "cuda/extras/CUPTI/lib64/libcupti.so.12",
            ],
        );
        let at = |path: &str| folder.0.join(path).to_string_lossy().into_owned();
        let mut program = Program { toolkits: vec![folder.0.join("cuda")], ..Program::default() };
        program.mapped.insert(folder.0.join("site-packages/torch/lib/libtorch.so"));
        program.packages = packages_of(&program.mapped);
        let [new, old] = ["cu13/lib/libcupti.so.13", "cuda_cupti/lib/libcupti.so.12"]
            .map(|name| at(&format!("site-packages/nvidia/{name}")));
        let toolkit = at("cuda/extras/CUPTI/lib64/libcupti.so.12");
        assert_eq!(names(&program)[..3], [new, old.clone(), toolkit.clone()]);
        // A driver of CUDA 12 cannot serve the library of CUDA 13.
        program.mapped.insert("/usr/lib/libcuda.so.535.104.05".into());
        assert_eq!(names(&program)[..3], [old, toolkit, "libcupti.so.12".to_owned()]);
    }
}
