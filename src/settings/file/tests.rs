use serde_json::json;

use super::*;

/// A window of one set of settings.
struct Window {
    file: SettingsFile,
    settings: Settings,
    /// What the last writing met.
    problem: Option<String>,
}

impl Window {
    fn open(path: &Path) -> Self {
        let (mut file, stored, problem) = SettingsFile::open(path);
        assert_eq!(problem, None);
        let settings = crate::session::lenient::<Settings>(&stored.unwrap_or_default());
        file.follow(&settings);
        Self { file, settings, problem: None }
    }

    fn save(&mut self) {
        self.problem = self.file.write(&self.settings.to_json()).unwrap();
    }
}

#[test]
fn two_windows_keep_what_the_other_changed() {
    let folder = tempfile::tempdir().unwrap();
    // The folder of the program's data may be absent.
    let path = folder.path().join("data/settings.json");
    let mut first = Window::open(&path);
    for name in ["/c", "/b", "/a"] {
        first.settings.remember(Path::new(name));
    }
    first.settings.marks = json!({"x": [{"start": 1}, {"start": 2}], "y": [{"start": 1}]});
    first.settings.layout = json!({"root": 1});
    first.save();
    let (mut one, mut two) = (Window::open(&path), Window::open(&path));
    one.settings.remember(Path::new("/one"));
    one.settings.remember(Path::new("/c"));
    one.settings.marks = json!({"x": [{"start": 2}, {"start": 3}], "z": [{"start": 9}]});
    one.settings.scale = 1.5;
    one.settings.views.insert("timeline".into(), json!({"pinned": ["p"], "width": 7}));
    one.save();
    two.settings.remember(Path::new("/two"));
    two.settings.marks = json!({"x": [{"start": 1}, {"start": 2}, {"start": 4}], "y": [{"start": 1}]});
    two.settings.layout = json!({"root": 2});
    two.settings.views.insert("timeline".into(), json!({"hidden": ["h"]}));
    two.save();
    one.save();
    two.save();
    let Window { settings, .. } = Window::open(&path);
    assert_eq!(settings.recent, ["/two", "/c", "/one", "/a", "/b"].map(PathBuf::from));
    let starts =
        |id: &str| settings.marks[id].as_array().map(|all| all.iter().map(|mark| mark["start"].clone()).collect());
    assert_eq!(starts("x"), Some(vec![json!(2), json!(3), json!(4)]));
    assert_eq!((starts("y"), starts("z")), (None, Some(vec![json!(9)])));
    assert_eq!((settings.scale, &settings.layout), (1.5, &json!({"root": 2})));
    assert_eq!(settings.views["timeline"], json!({"pinned": ["p"], "width": 7, "hidden": ["h"]}));
}

#[test]
fn what_a_later_version_stores_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    std::fs::write(&path, r#"{"theme": "Sepia", "scale": 2.0, "new": [1], "recent": ["/a", 7]}"#).unwrap();
    let mut window = Window::open(&path);
    assert_eq!((window.settings.scale, window.settings.recent.len()), (2.0, 1));
    window.settings.wheel_zooms = true;
    window.save();
    let stored = read(&path).unwrap().unwrap();
    assert_eq!(
        (&stored["theme"], &stored["new"], &stored["wheel_zooms"]),
        (&json!("Sepia"), &json!([1]), &json!(true))
    );
}

#[test]
fn a_file_that_cannot_be_read_is_kept_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    for (n, text) in ["", "{\"scale\": 2", "[]", "\0\0\0"].into_iter().enumerate() {
        std::fs::write(&path, text).unwrap();
        let (mut file, stored, problem) = SettingsFile::open(&path);
        assert!(stored.is_none() && problem.unwrap().contains("settings.json.bad"));
        let kept = folder.path().join(if n == 0 {
            "settings.json.bad".to_owned()
        } else {
            format!("settings.json.bad{}", n + 1)
        });
        assert_eq!(std::fs::read_to_string(kept).unwrap(), text);
        file.write(&Settings::default().to_json()).unwrap();
        assert!(read(&path).unwrap().is_some());
    }
    // Damaged while a window is open.
    let mut window = Window::open(&path);
    std::fs::write(&path, "{").unwrap();
    window.settings.scale = 2.0;
    window.save();
    assert!(window.problem.unwrap().contains("settings.json.bad5"));
    assert_eq!(Window::open(&path).settings.scale, 2.0);
    assert_eq!(std::fs::read_to_string(folder.path().join("settings.json.bad5")).unwrap(), "{");
}

#[test]
fn what_is_cut_anywhere_is_kept_and_never_read_in_part() {
    let folder = tempfile::tempdir().unwrap();
    let [path, aside] = ["settings.json", "settings.json.bad"].map(|name| folder.path().join(name));
    let mut window = Window::open(&path);
    window.settings.remember(Path::new("/a"));
    window.settings.marks = json!({"x": [{"start": 1}]});
    window.save();
    let whole = std::fs::read(&path).unwrap();
    for n in 0..whole.trim_ascii_end().len() {
        std::fs::write(&path, &whole[..n]).unwrap();
        let (_, stored, problem) = SettingsFile::open(&path);
        assert!(stored.is_none() && problem.is_some(), "{n} of {} bytes", whole.len());
        assert_eq!(std::fs::read(&aside).unwrap(), whole[..n]);
        std::fs::remove_file(&aside).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_the_file_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let [link, kept] = ["settings.json", "kept.json"].map(|name| folder.path().join(name));
    std::fs::write(&kept, "{}").unwrap();
    std::os::unix::fs::symlink(&kept, &link).unwrap();
    let mut window = Window::open(&link);
    window.settings.scale = 2.0;
    window.save();
    assert!(link.is_symlink());
    assert!(std::fs::read_to_string(&kept).unwrap().contains("2.0"));
    assert_eq!(Window::open(&link).settings.scale, 2.0);
}

#[cfg(unix)]
#[test]
fn a_link_to_a_file_that_is_not_there_yet_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let [link, kept] = ["settings.json", "dots/settings.json"].map(|name| folder.path().join(name));
    std::os::unix::fs::symlink("dots/settings.json", &link).unwrap();
    let mut window = Window::open(&link);
    window.settings.scale = 2.0;
    assert!(window.file.write(&window.settings.to_json()).is_ok());
    assert!(link.is_symlink());
    assert_eq!(Window::open(&kept).settings.scale, 2.0);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_kept_and_never_waited_for() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let [path, aside, fifo] = ["settings.json", "settings.json.bad", "fifo"].map(|name| folder.path().join(name));
    let make_fifo = |path: &Path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    make_fifo(&fifo);
    make_fifo(&folder.path().join("settings.lock"));
    let make: [(&str, &dyn Fn()); 4] = [
        ("a FIFO", &|| make_fifo(&path)),
        ("a link to one", &|| symlink(&fifo, &path).unwrap()),
        ("a link to itself", &|| symlink("settings.json", &path).unwrap()),
        ("a folder", &|| std::fs::create_dir(&path).unwrap()),
    ];
    for (what, make) in make {
        make();
        let (mut file, stored, problem) = SettingsFile::open(&path);
        assert!(stored.is_none() && problem.unwrap().contains("settings.json.bad"), "{what}");
        assert!(aside.symlink_metadata().is_ok() && path.symlink_metadata().is_err() && fifo.exists(), "{what}");
        file.write(&Settings::default().to_json()).unwrap();
        assert!(path.symlink_metadata().unwrap().is_file(), "{what}");
        std::fs::remove_file(&path).unwrap();
        _ = std::fs::remove_file(&aside).or_else(|_| std::fs::remove_dir(&aside));
    }
    // While a window is open, what the system refuses to follow may be whole again the next time.
    let mut window = Window::open(&path);
    symlink("settings.json", &path).unwrap();
    window.settings.scale = 2.0;
    assert!(window.file.write(&window.settings.to_json()).is_err());
    assert!(path.is_symlink() && !aside.is_symlink());
}

#[test]
fn a_file_that_is_too_large_is_kept_and_none_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    let mut window = Window::open(&path);
    window.settings.scale = 2.0;
    window.save();
    window.settings.views.insert("x".into(), "x".repeat(MAX as usize).into());
    assert!(window.file.write(&window.settings.to_json()).is_err_and(|error| error.to_string().contains("16 MB")));
    assert_eq!(Window::open(&path).settings.scale, 2.0);
    std::fs::write(&path, window.settings.to_json().to_string()).unwrap();
    let (_, stored, problem) = SettingsFile::open(&path);
    assert!(stored.is_none() && problem.unwrap().contains("larger than 16 MB"));
    assert!(!path.exists());
}

#[test]
fn where_nothing_can_be_written_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let (mut file, stored, problem) = SettingsFile::open(&folder.path().join("file/settings.json"));
    assert!(stored.is_none() && problem.is_none());
    assert!(file.write(&Settings::default().to_json()).is_err());
    assert!(file.is_changed(&Settings::default().to_json()), "it is tried again");
}

#[test]
fn a_mark_stays_that_another_window_set_while_one_deletes_its_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    let mut first = Window::open(&path);
    first.settings.marks = json!({"x": [{"start": 1}], "y": [{"start": 1}]});
    first.save();
    let (mut one, mut two) = (Window::open(&path), Window::open(&path));
    one.settings.marks = json!({"x": [{"start": 1}, {"start": 2}], "y": [{"start": 1}]});
    one.save();
    two.settings.marks = json!({});
    two.save();
    one.save();
    assert_eq!(Window::open(&path).settings.marks, json!({"x": [{"start": 2}]}));
}
