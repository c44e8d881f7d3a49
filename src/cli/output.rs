//! Output of commands, without overwriting inputs.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::{Failure, escape};

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
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Usage(format!("{error}: stdout"))),
        _ => Ok(()),
    }
}

/// Writes a file whole or not at all: to a temporary file beside it, which then takes its place.
///
/// Errors: `path` is an input or a link, or cannot be written.
pub fn write_file(bytes: &[u8], path: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    check_target(path, inputs)?;
    if path.file_name().is_none() {
        return Err(Failure::Usage(format!("Not the name of a file: {}", path.display())));
    }
    let temporary = temporary(path);
    let written = OpenOptions::new().write(true).create_new(true).open(&temporary).and_then(|mut file| {
        file.write_all(bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| std::fs::rename(&temporary, path))
            .inspect_err(|_| {
                // Remove the partial file of a failed write.
                let _ = std::fs::remove_file(&temporary);
            })
    });
    written.map_err(|error| Failure::Usage(format!("{error}: {}", path.display())))
}

/// A hidden name beside `path`, of this process alone.
pub fn temporary(path: &Path) -> PathBuf {
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(path.file_name().unwrap_or_default());
    hidden.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(hidden)
}

/// Refuses to write to an input or through a link.
///
/// Errors: a sentence that says so. Call it before slow work, so that the person learns at once.
pub fn check_target(path: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    if path.is_symlink() {
        return Err(Failure::Usage(format!("Will not write through a link: {}", path.display())));
    }
    if path.is_dir() {
        return Err(Failure::Usage(format!("Is a folder: {}", path.display())));
    }
    let Ok(target) = path.canonicalize() else { return Ok(()) };
    let is_input = |input: &PathBuf| {
        let input = input.canonicalize();
        // A file inside a folder that is read is an input too.
        input.is_ok_and(|input| input == target || (input.is_dir() && target.parent() == Some(input.as_path())))
    };
    if inputs.iter().any(is_input) {
        return Err(Failure::Usage(format!("Will not overwrite an input: {}", path.display())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_and_links_are_never_overwritten() {
        let folder = std::env::temp_dir().join(format!("lacuna-output-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("in")).unwrap();
        let [input, out, inside] = ["input.json", "out.json", "in/other.json"].map(|name| folder.join(name));
        std::fs::write(&input, "precious").unwrap();
        std::fs::write(&inside, "precious").unwrap();
        let inputs = [input.clone(), folder.join("in")];
        write_file(b"one", &out, &inputs).unwrap();
        write_file(b"two", &out, &inputs).unwrap();
        assert_eq!(std::fs::read(&out).unwrap(), b"two");
        assert!(write_file(b"three", &input, &inputs).is_err());
        assert!(write_file(b"three", &inside, &inputs).is_err());
        assert!(write_file(b"three", &folder, &inputs).is_err());
        #[cfg(unix)]
        {
            let link = folder.join("link.json");
            std::os::unix::fs::symlink(&out, &link).unwrap();
            assert!(write_file(b"three", &link, &inputs).is_err());
        }
        assert_eq!(std::fs::read(&input).unwrap(), b"precious");
        assert_eq!(std::fs::read(&out).unwrap(), b"two");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
