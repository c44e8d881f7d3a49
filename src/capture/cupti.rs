//! Recording of CUPTI and NVTX from within the program, by the library in `src/inject`.
//!
//! Each process that uses CUDA or NVTX writes `cupti-PID.json`, a Chrome trace, as it runs, and `cupti-PID.status`,
//! which says what became of it; no such file means that no process used either.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::nsys;

/// The file name of the library.
const LIBRARY: &str = "liblacuna_inject.so";
/// Names the library where it does not lie beside the program.
const VARIABLE: &str = "LACUNA_INJECT";

/// The library that is loaded into the program: that of `LACUNA_INJECT`, else one beside Lacuna or in `../lib`.
///
/// Errors: there is none, as a sentence.
pub fn library() -> Result<PathBuf, String> {
    if !cfg!(target_os = "linux") {
        return Err("CUPTI is recorded on Linux only".to_owned());
    }
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from) {
        return match std::path::absolute(&path) {
            Ok(path) if path.is_file() => Ok(path),
            _ => Err(format!("{VARIABLE} names no file: {}", path.display())),
        };
    }
    let program = std::env::current_exe().map_err(|error| format!("Lacuna cannot tell where it lies: {error}"))?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let places = ["", "../lib", "../lib/lacuna"].map(|folder| beside.join(folder).join(LIBRARY));
    places.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        format!(
            "{LIBRARY}, which records CUPTI, does not lie beside Lacuna in {}: put it there (`cargo build` \
             makes both), or name it in {VARIABLE}",
            beside.display()
        )
    })
}

/// Additions to the environment of a program, so that it is recorded into this folder, which exists.
///
/// What the user set goes before these: `LACUNA_CUPTI` for the libcupti to load, `LACUNA_FLUSH_MS` for how often is
/// written, `LACUNA_CUPTI_GRAPHS=whole` for graphs as a whole.
///
/// Errors: see [`library`].
pub fn environment(folder: &Path) -> Result<Vec<(OsString, OsString)>, String> {
    let library = library()?.into_os_string();
    let folder = std::path::absolute(folder).map_err(|error| format!("{error}: {}", folder.display()))?;
    Ok(vec![
        ("CUDA_INJECTION64_PATH".into(), library.clone()),
        ("NVTX_INJECTION64_PATH".into(), library),
        ("LACUNA_INJECT_OUT".into(), folder.into_os_string()),
    ])
}

/// What became of the recording of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    pub pid: u32,
    /// The name of the process.
    pub program: String,
    /// Whether all was written; not so in a process that runs or was killed.
    pub is_finished: bool,
    /// Sentences for the user: why CUDA is not recorded, what was lost.
    pub problems: Vec<String>,
    /// Whether kernels are recorded; not so in a process that only named ranges.
    pub has_cuda: bool,
    /// The trace, once it has events.
    pub trace: Option<PathBuf>,
    pub n_events: u64,
}

/// The traces in a folder that are whole.
///
/// * `is_over`: whether every process of the run has ended, so that no more is written to those that were cut off.
pub fn traces(folder: &Path, is_over: bool) -> Vec<PathBuf> {
    let all = recordings(folder).into_iter();
    all.filter(|recording| is_over || recording.is_finished).filter_map(|recording| recording.trace).collect()
}

/// What is added of a machine without a driver.
const NO_DRIVER: &str = ", and CUDA needs NVIDIA's driver, which is not here: install it; in a container, start it \
                         with access to the GPUs (--gpus all)";

/// Sentences about what is missing after a run, and what to do.
pub fn notes(folder: &Path) -> Vec<String> {
    let recordings = recordings(folder);
    let mut notes = Vec::new();
    for Recording { pid, program, is_finished, problems, .. } in &recordings {
        notes.extend(problems.iter().map(|problem| format!("Process {pid} ({program}): {problem}")));
        if !is_finished {
            notes.push(format!("Process {pid} ({program}) was killed: about its last second is not recorded"));
        }
    }
    if notes.is_empty() && recordings.iter().all(|recording| recording.trace.is_none()) {
        let driver = if nsys::has_driver() { "" } else { NO_DRIVER };
        notes.push(format!("Nothing was recorded: no process of this run used CUDA or NVTX{driver}"));
    }
    notes
}

/// The recordings in a folder by process id; those whose status cannot be read are left out.
pub fn recordings(folder: &Path) -> Vec<Recording> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_status = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "status");
    let mut found: Vec<_> = entries.filter(is_status).filter_map(|path| recording(&path)).collect();
    found.sort_by_key(|recording| recording.pid);
    found
}

fn recording(path: &Path) -> Option<Recording> {
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    let text = |key: &str| value.get(key).and_then(serde_json::Value::as_str);
    let problems = value.get("problems").and_then(serde_json::Value::as_array);
    let problems = problems.into_iter().flatten().filter_map(|problem| Some(problem.as_str()?.to_owned()));
    Some(Recording {
        pid: u32::try_from(value.get("pid")?.as_u64()?).ok()?,
        program: text("program").unwrap_or_default().to_owned(),
        is_finished: text("state") == Some("finished"),
        problems: problems.collect(),
        has_cuda: text("cuda") == Some("recorded"),
        // A name in this folder, nothing else.
        trace: text("trace").and_then(|name| Some(path.with_file_name(Path::new(name).file_name()?))),
        n_events: value.get("events").and_then(serde_json::Value::as_u64).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_trace_says_so_once() {
        let folder = tempfile::tempdir().unwrap();
        let said = || notes(folder.path()).join("\n");
        assert!(said().starts_with("Nothing was recorded"));
        assert_eq!(said().contains("CUDA needs NVIDIA's driver"), !nsys::has_driver());
        let tell = |text: &str| std::fs::write(folder.path().join("cupti-7.status"), text).unwrap();
        // It loaded the library, and did nothing with it.
        tell(r#"{"pid":7,"program":"p","state":"finished","cuda":"not used","problems":[],"trace":null,"events":0}"#);
        assert!(said().starts_with("Nothing was recorded"));
        tell(r#"{"pid":7,"program":"p","state":"finished","problems":["no libcupti"],"trace":null}"#);
        assert_eq!(said(), "Process 7 (p): no libcupti");
        tell(r#"{"pid":7,"program":"p","state":"finished","problems":[],"trace":"cupti-7.json","events":3}"#);
        assert_eq!(said(), "");
    }
}
