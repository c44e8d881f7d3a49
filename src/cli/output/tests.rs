use super::*;

/// A folder with an input and a folder that is read, each with what must not be lost.
fn folder() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    let inputs = ["input.json", "in"].map(|name| folder.path().join(name));
    std::fs::write(&inputs[0], "precious").unwrap();
    std::fs::write(inputs[1].join("other.json"), "precious").unwrap();
    (folder, inputs.to_vec())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn inputs_and_folders_are_never_overwritten() {
    let (folder, inputs) = folder();
    let out = folder.path().join("out.json");
    write_file(b"one", &out, &inputs).unwrap();
    write_file(b"two", &out, &inputs).unwrap();
    assert_eq!(std::fs::read(&out).unwrap(), b"two");
    for wrong in ["input.json", "in/other.json", "in", ".", "in/../input.json", "in/..", "input.json-wal"] {
        let wrong = folder.path().join(wrong);
        assert!(check_target(&wrong, &inputs).is_err() && write_file(b"three", &wrong, &inputs).is_err(), "{wrong:?}");
    }
    assert!(write_file(b"", Path::new(""), &[]).is_err() && write_file(b"", Path::new("/"), &[]).is_err());
    assert_eq!(std::fs::read(&inputs[0]).unwrap(), b"precious");
    assert_eq!(names(folder.path()), ["in", "input.json", "out.json"]);
}

#[cfg(unix)]
#[test]
fn links_to_inputs_are_inputs() {
    let (folder, inputs) = folder();
    let path = |name: &str| folder.path().join(name);
    std::fs::hard_link(&inputs[0], path("hard.json")).unwrap();
    std::fs::hard_link(path("in/other.json"), path("inner.json")).unwrap();
    std::os::unix::fs::symlink("input.json", path("link.json")).unwrap();
    std::os::unix::fs::symlink("absent.json", path("dangling.json")).unwrap();
    std::os::unix::fs::symlink(".", path("here")).unwrap();
    for wrong in ["hard.json", "inner.json", "link.json", "dangling.json", "here/input.json"] {
        assert!(write_file(b"three", &path(wrong), &inputs).is_err(), "{wrong}");
    }
    // A file of one's own that an input is a link to.
    std::os::unix::fs::symlink("real.json", path("alias.json")).unwrap();
    std::fs::write(path("real.json"), "precious").unwrap();
    assert!(write_file(b"three", &path("real.json"), &[path("alias.json")]).is_err());
    for name in ["input.json", "in/other.json", "real.json"] {
        assert_eq!(std::fs::read(path(name)).unwrap(), b"precious");
    }
    assert!(check_distinct(&path("hard.json"), &inputs[0]).is_err());
    assert!(check_distinct(&path("a"), &path("here/./a")).is_err());
    assert!(check_distinct(&path("a"), &path("b")).is_ok());
}

#[cfg(target_os = "linux")]
#[test]
fn devices_and_pipes_are_written_to_and_sockets_are_refused() {
    use std::io::Read as _;
    use std::os::unix::fs::FileTypeExt as _;
    let (folder, inputs) = folder();
    let path = |name: &str| folder.path().join(name);
    // A link to it stands for the device, so that it would be the link that is replaced.
    std::os::unix::fs::symlink("/dev/null", path("null")).unwrap();
    std::os::unix::fs::symlink("/dev/full", path("full")).unwrap();
    write_file(b"gone", &path("null"), &inputs).unwrap();
    assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device() && path("null").is_symlink());
    let error = write_file(b"gone", &path("full"), &inputs).unwrap_err().to_string();
    assert!(error.ends_with("No space left on device"), "{error}");
    let made = std::process::Command::new("mkfifo").arg(path("pipe")).status();
    if made.is_ok_and(|status| status.success()) {
        let pipe = path("pipe");
        let reader = std::thread::Builder::new().spawn(move || {
            let mut text = String::new();
            File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
            text
        });
        check_new(&path("pipe"), &inputs, false).unwrap();
        write_file(b"through", &path("pipe"), &inputs).unwrap();
        assert_eq!(reader.unwrap().join().unwrap(), "through");
        assert!(path("pipe").metadata().unwrap().file_type().is_fifo());
    }
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    assert!(write_file(b"", &path("socket"), &inputs).is_err());
    assert!(path("socket").metadata().unwrap().file_type().is_socket());
}

#[test]
fn a_failed_write_leaves_what_was_there() {
    let (folder, inputs) = folder();
    let out = folder.path().join("out.json");
    std::fs::write(&out, "before").unwrap();
    let failed = create(&out, &inputs, |out| {
        out.file().write_all(b"half")?;
        Err::<(), _>(ErrorKind::StorageFull.into())
    });
    assert!(failed.is_err());
    assert_eq!(std::fs::read(&out).unwrap(), b"before");
    assert_eq!(names(folder.path()), ["in", "input.json", "out.json"]);
    assert!(check_new(&out, &inputs, false).is_err() && check_new(&out, &inputs, true).is_ok());
    write!(stream(&out, true).unwrap(), "x").unwrap();
    assert_eq!(std::fs::read(&out).unwrap(), b"x");
}
