//! Input files of commands: listing, reading and error reporting.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use super::Failure;
use super::output::write_stderr;
use crate::capture::nsys;
use crate::job::{Progress, start_workers};
use crate::malloc;
use crate::model::Trace;
use crate::reader::{self, Folder, Options, ReadError};

/// Arguments of every command that reads traces.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ReadArgs {
    /// Read compressed files even if they decompress to more than 200 times their size, which could exhaust memory
    #[arg(long)]
    pub allow_any_ratio: bool,

    /// The `nsys` that converts .nsys-rep, .qdrep and .qdstrm: its path, its name, or the folder of an
    /// installation; by default it is searched for. The window remembers it
    #[arg(long, value_name = "PATH")]
    pub nsys: Option<PathBuf>,
}

impl ReadArgs {
    /// The options of the reader.
    pub fn options(&self) -> Options {
        Options { allow_any_ratio: self.allow_any_ratio }
    }
}

/// How often a terminal tells how far a conversion is.
const LOOK: Duration = Duration::from_secs(1);

/// What was read.
#[derive(Debug, Default)]
pub struct Input {
    /// In the order of the arguments; the files of a folder by name.
    pub traces: Vec<Trace>,
    /// Whether a file that was asked for by name could not be read.
    pub has_unreadable: bool,
}

/// Reads files and folders. Unreadable files are reported on stderr and skipped.
///
/// Errors: nothing could be read at all.
pub fn read(paths: &[PathBuf], reading: &ReadArgs) -> Result<Input, Failure> {
    if let Err(reason) = start_workers() {
        write_stderr(reason);
        return Err(Failure::Unreadable);
    }
    let mut input = Input::default();
    for path in paths {
        match files(path) {
            Ok(files) => {
                for file in &files {
                    // A folder may hold other files too; only one that was named must be readable.
                    input.has_unreadable |= !read_file(file, reading, &mut input.traces) && !path.is_dir();
                }
            }
            Err(error) => {
                input.has_unreadable = true;
                write_stderr(&format!("{error}: {}", path.display()));
            }
        }
    }
    if input.traces.is_empty() { Err(Failure::Unreadable) } else { Ok(input) }
}

/// Adds the traces of one file; false if it cannot be read.
fn read_file(path: &Path, reading: &ReadArgs, traces: &mut Vec<Trace>) -> bool {
    if std::io::stderr().is_terminal() {
        write_stderr(&format!("Reading {}", path.display()));
    }
    match read_report(path, reading) {
        Ok(read) => {
            traces.extend(read);
            true
        }
        Err(error) => {
            let mut lines = error.lines();
            write_stderr(&format!("{}: {}", lines.next().unwrap_or_default(), path.display()));
            lines.for_each(write_stderr);
            false
        }
    }
}

/// Reads a file; a report of Nsight Systems by way of its export.
///
/// Errors: a sentence for the user, without the path, and by which flag the file could be read.
fn read_report(path: &Path, reading: &ReadArgs) -> Result<Vec<Trace>, String> {
    let progress = Progress::default();
    let nsys = nsys::Options::new(reading.nsys.clone());
    let openable = shown(&progress, || nsys::openable(path, &nsys, &progress)).map_err(|error| error.to_string())?;
    if let Some(why) = malloc::too_large(&openable.path) {
        return Err(why);
    }
    let mut traces = reader::read_with(&openable.path, reading.options(), &progress).map_err(|error| match error {
        ReadError::NeedsConsent(why) => format!("{why}, with --allow-any-ratio"),
        error => error.to_string(),
    })?;
    openable.claim(path, &mut traces);
    Ok(traces)
}

/// Does the work and shows its phases with their percentage meanwhile, if someone sees stderr.
fn shown<T>(progress: &Progress, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    std::thread::scope(|scope| {
        let (end, ended) = std::sync::mpsc::sync_channel::<()>(0);
        scope.spawn(move || {
            let mut last = String::new();
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let (phase, (done, total)) = (progress.phase(), progress.get());
                let text = if total == 0 { phase } else { format!("{phase}: {done} %") };
                if !progress.phase().is_empty() && text != last {
                    write_stderr(&text);
                    last = text;
                }
            }
        });
        let done = work();
        drop(end);
        done
    })
}

/// The file itself, or the files of a folder that are like a trace, by name.
fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let folder = Folder::list(path)?;
    for note in [folder.note(), folder.nothing()].into_iter().flatten() {
        write_stderr(&format!("{}: {note}", path.display()));
    }
    Ok(folder.files)
}

/// The file's path as text, with its name inside the archive if it came from one.
pub fn label(trace: &Trace) -> String {
    let path = trace.info.path.to_string_lossy();
    match &trace.info.member {
        Some(member) => format!("{path}: {member}"),
        None => path.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_high_compression_ratio_needs_consent() {
        let path = std::env::temp_dir().join(format!("lacuna-ratio-{}.json.gz", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::default());
        gzip.write_all(b"[").unwrap();
        for _ in 0..80 {
            gzip.write_all(&vec![b' '; 1 << 20]).unwrap();
        }
        gzip.write_all(br#"{"ph":"X","ts":1,"dur":2,"name":"a","pid":1,"tid":1}]"#).unwrap();
        gzip.finish().unwrap();
        let paths = [path.clone()];
        assert!(matches!(read(&paths, &ReadArgs::default()), Err(Failure::Unreadable)));
        let error = read_report(&path, &ReadArgs::default()).unwrap_err();
        assert!(error.contains("more than 200 times") && error.ends_with("with --allow-any-ratio"), "{error}");
        let read = read(&paths, &ReadArgs { allow_any_ratio: true, nsys: None }).unwrap();
        assert_eq!((read.traces.len(), read.traces[0].slices.len(), read.has_unreadable), (1, 1, false));
        std::fs::remove_file(&path).unwrap();
    }
}
