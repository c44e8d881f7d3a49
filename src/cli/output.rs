//! Output of commands and exports: files whole or not at all, devices and pipes as they are, inputs never.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::{Failure, escape};
use crate::capture::partial::Partial;

/// Files that SQLite takes for parts of a database beside them.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Writes a line for the user to stderr, ignoring errors.
pub fn write_stderr(message: &str) {
    let _ = writeln!(std::io::stderr(), "{}", escape::visible(message));
}

/// Writes the answer to `out`, else to stdout.
///
/// Errors: see [`write_file`]; stdout cannot be written to. A closed pipe is not an error.
pub fn write(bytes: &[u8], out: Option<&Path>, inputs: &[PathBuf]) -> Result<(), Failure> {
    if let Some(path) = out {
        return write_file(bytes, path, inputs);
    }
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(failure(&error, Path::new("stdout"))),
        _ => Ok(()),
    }
}

/// Writes bytes to `path`; see [`create`].
pub fn write_file(bytes: &[u8], path: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    create(path, inputs, |out| out.file().write_all(bytes))
}

/// An output that is being written.
#[derive(Debug)]
pub enum Output {
    /// A file that is not in its place yet.
    Whole(Partial),
    /// A device or a pipe.
    Through(File),
}

impl Output {
    pub fn file(&mut self) -> &mut File {
        match self {
            Self::Whole(partial) => partial.file(),
            Self::Through(file) => file,
        }
    }

    /// Where a library that opens files by itself writes.
    ///
    /// Errors: the output is a device or a pipe.
    pub fn path(&self) -> std::io::Result<&Path> {
        match self {
            Self::Whole(partial) => Ok(partial.path()),
            Self::Through(_) => Err(Error::other("A database can only be written to a file")),
        }
    }
}

/// Writes to `path` what `fill` writes: a file whole or not at all, beside it first; a device or a pipe directly.
///
/// Errors: `path` cannot be an output, see [`check_target`], or cannot be written. A closed pipe is not an error.
pub fn create<T: Default>(
    path: &Path,
    inputs: &[PathBuf],
    fill: impl FnOnce(&mut Output) -> std::io::Result<T>,
) -> Result<T, Failure> {
    let is_through = match kind(path, inputs)? {
        Kind::New => false,
        Kind::File => {
            // A file that may not be written is not replaced either.
            open(path).map(drop).map_err(|error| failure(&error, path))?;
            false
        }
        Kind::Through => true,
    };
    let written = if is_through {
        open(path).and_then(|file| fill(&mut Output::Through(file)))
    } else {
        Partial::beside(path).and_then(|partial| {
            let mut output = Output::Whole(partial);
            let filled = fill(&mut output)?;
            match output {
                Output::Whole(partial) => partial.replace(path).map(|()| filled),
                Output::Through(_) => Ok(filled),
            }
        })
    };
    match written {
        Err(error) if is_through && error.kind() == ErrorKind::BrokenPipe => Ok(T::default()),
        written => written.map_err(|error| failure(&error, path)),
    }
}

/// Opens an output that is written line by line over a long time: a new file, one that is emptied, a device or a pipe.
///
/// * `overwrite`: whether a file that exists may be emptied.
///
/// Errors: `path` cannot be an output, see [`check_target`], exists, or cannot be written.
pub fn stream(path: &Path, overwrite: bool) -> Result<File, Failure> {
    check_new(path, &[], overwrite)?;
    let opened = match kind(path, &[])? {
        Kind::New => File::create_new(path),
        Kind::File => OpenOptions::new().write(true).truncate(true).open(path),
        Kind::Through => open(path),
    };
    opened.map_err(|error| failure(&error, path))
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// A sentence that says why `path` cannot be written, without the number that the system gives to the reason.
pub fn failure(error: &Error, path: &Path) -> Failure {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    Failure::Usage(format!("Cannot write {}: {text}", path.display()))
}

/// What an output is before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    New,
    File,
    /// A device or a pipe, which is never replaced.
    Through,
}

/// Refuses what cannot be an output: an input under any name, a file inside a folder that is read, a link to a file, a
/// folder, a disk, a socket, the name of a part of a database that is read.
///
/// Errors: a sentence that says so. Call it before slow work, so that the user learns at once.
pub fn check_target(path: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    kind(path, inputs).map(drop)
}

/// [`check_target`], which also refuses a file that exists, unless it may be overwritten.
///
/// Errors: a sentence that says so.
pub fn check_new(path: &Path, inputs: &[PathBuf], overwrite: bool) -> Result<(), Failure> {
    match kind(path, inputs)? {
        Kind::File if !overwrite => {
            let text = format!("The file exists; add --overwrite to replace it: {}", path.display());
            Err(Failure::Usage(text))
        }
        _ => Ok(()),
    }
}

/// Refuses two outputs that are the same.
///
/// Errors: a sentence that says so.
pub fn check_distinct(a: &Path, b: &Path) -> Result<(), Failure> {
    let place = |path: &Path| Some((folder(path).canonicalize().ok()?, path.file_name()?.to_owned()));
    let is_same = a == b || place(a).is_some_and(|place_of_a| place(b) == Some(place_of_a));
    // What goes through a device may well be the same.
    let is_file = |path: &Path| path.is_file();
    if is_same && (!a.exists() || is_file(a)) || is_file(a) && is_file(b) && is_same_file(a, b) {
        return Err(Failure::Usage(format!("Two outputs have one name: {}", b.display())));
    }
    Ok(())
}

fn kind(path: &Path, inputs: &[PathBuf]) -> Result<Kind, Failure> {
    let refuse = |why: &str| Err(Failure::Usage(format!("{why}: {}", path.display())));
    if path.file_name().is_none() {
        return refuse("Not the name of a file");
    }
    if is_companion(path, inputs) {
        return refuse("Will not write a part of a database that is read");
    }
    let Ok(data) = path.metadata() else {
        return if path.is_symlink() { refuse("Will not write through a link") } else { Ok(Kind::New) };
    };
    if data.is_dir() {
        return refuse("Is a folder");
    }
    if is_through(&data) {
        return Ok(Kind::Through);
    }
    if !data.is_file() {
        return refuse("Neither a file nor a device or pipe that can be written to");
    }
    if path.is_symlink() {
        return refuse("Will not write through a link");
    }
    if inputs.iter().any(|input| is_input(path, input)) {
        return refuse("Will not overwrite an input");
    }
    Ok(Kind::File)
}

/// Whether it is a device for characters or a pipe: neither a disk nor a socket.
#[cfg(unix)]
fn is_through(data: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    data.file_type().is_char_device() || data.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_through(_: &Metadata) -> bool {
    false
}

/// The folder in which a file lies.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether an output that exists is an input or a file inside it, under whatever name.
fn is_input(path: &Path, input: &Path) -> bool {
    if !input.is_dir() {
        return is_same_file(path, input);
    }
    let is_inside = folder(path).canonicalize().is_ok_and(|folder| input.canonicalize().is_ok_and(|of| of == folder));
    let mut entries = std::fs::read_dir(input).into_iter().flatten().flatten();
    is_inside || entries.any(|entry| is_same_file(path, &entry.path()))
}

/// Whether two names are of one file, also by links.
fn is_same_file(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let id = |path: &Path| path.metadata().ok().map(|data| (data.dev(), data.ino()));
        id(a).is_some_and(|id_of_a| id(b) == Some(id_of_a))
    }
    #[cfg(not(unix))]
    a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

/// Whether SQLite would take an output for a part of an input.
fn is_companion(path: &Path, inputs: &[PathBuf]) -> bool {
    let Some(name) = path.file_name().and_then(std::ffi::OsStr::to_str) else { return false };
    let of = COMPANIONS.iter().filter_map(|suffix| Some(path.with_file_name(name.strip_suffix(suffix)?)));
    of.into_iter().any(|database| inputs.iter().any(|input| is_same_file(&database, input)))
}

#[cfg(test)]
mod tests;
