//! Checks the paths in the sources against the table of layers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::support::project;

/// A layer, the layers it may use beside itself, and the libraries it must not use.
struct Layer {
    name: &'static str,
    may_use: &'static [&'static str],
    never: &'static [&'static [&'static str]],
}

const WINDOW: &[&str] = &["egui", "eframe", "egui_extras", "egui_plot", "egui_tiles", "rfd"];
const DIALOG: &[&str] = &["rfd"];
const DATABASE: &[&str] = &["rusqlite"];
const JSON: &[&str] = &["serde_json"];
const FILES: &[&str] = &["std::fs"];
const THREADS: &[&str] = &["std::thread"];
const PROCESSES: &[&str] = &["std::process"];
const NETWORK: &[&str] = &["std::net"];

/// The rooms at the top may use everything, and no layer uses them unless its row says so.
const TOP: [&str; 5] = ["app", "lib", "main", "malloc", "settings"];

/// Every other room, a room within a room after the one around it.
const LAYERS: &[Layer] = &[
    Layer { name: "model", may_use: &[], never: &[WINDOW, DATABASE, JSON, FILES, THREADS, PROCESSES, NETWORK] },
    Layer { name: "reader", may_use: &["model", "job", "scratch"], never: &[WINDOW, PROCESSES, NETWORK] },
    Layer { name: "scratch", may_use: &[], never: &[WINDOW, DATABASE, JSON, NETWORK] },
    Layer { name: "analysis", may_use: &["model"], never: &[WINDOW, DATABASE, FILES, THREADS, PROCESSES, NETWORK] },
    Layer { name: "job", may_use: &[], never: &[WINDOW, DATABASE, FILES, PROCESSES, NETWORK] },
    Layer { name: "capture", may_use: &["model", "job", "live", "scratch"], never: &[WINDOW, DATABASE] },
    Layer { name: "live", may_use: &["model", "job", "figures::format"], never: &[WINDOW, DATABASE, PROCESSES] },
    Layer { name: "workload", may_use: &[], never: &[WINDOW, DATABASE, JSON, FILES, PROCESSES, NETWORK] },
    Layer { name: "command", may_use: &["model"], never: &[DATABASE, FILES, THREADS, PROCESSES, NETWORK] },
    Layer {
        name: "session",
        may_use: &["model", "analysis", "figures", "live"],
        never: &[WINDOW, DATABASE, FILES, THREADS, PROCESSES, NETWORK],
    },
    Layer {
        name: "answers",
        may_use: &["model", "analysis", "session", "job"],
        never: &[WINDOW, DATABASE, FILES, THREADS, PROCESSES, NETWORK],
    },
    Layer {
        name: "figures",
        may_use: &["model", "analysis"],
        never: &[WINDOW, DATABASE, FILES, THREADS, PROCESSES, NETWORK],
    },
    Layer {
        name: "widget",
        may_use: &["model::time", "model::SliceKind", "model::Tint", "analysis::gaps", "figures"],
        never: &[DIALOG, DATABASE, FILES, THREADS, PROCESSES, NETWORK],
    },
    Layer {
        name: "view",
        // A view describes a run and shows it in the launcher's own words; the launcher has threads of its own.
        may_use: &[
            "model",
            "analysis",
            "session",
            "answers",
            "figures",
            "widget",
            "command",
            "live",
            "job",
            "capture::counters",
            "capture::kineto",
            "capture::launch",
            "capture::nsys",
            "capture::pytorch",
        ],
        never: &[DIALOG, DATABASE, FILES, THREADS, PROCESSES, NETWORK],
    },
    Layer { name: "sample", may_use: &[], never: &[WINDOW, THREADS, PROCESSES, NETWORK] },
    Layer {
        name: "cli",
        may_use: &[
            "model", "reader", "analysis", "session", "answers", "figures", "sample", "capture", "live", "job",
            "workload", "malloc",
        ],
        never: &[WINDOW, DATABASE, NETWORK],
    },
    // Draws views without a window, so it alone of the commands sees them.
    Layer {
        name: "cli::render",
        may_use: &[
            "cli", "model", "reader", "analysis", "job", "session", "answers", "figures", "view", "widget", "command",
        ],
        never: &[DIALOG, DATABASE, NETWORK],
    },
];

/// The module path of a source file: `src/view/timeline/mod.rs` is `view::timeline`.
fn module_of(file: &Path) -> Vec<String> {
    let mut parts: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// The source without comments and without test modules, which may use anything.
fn code(source: &str) -> String {
    let mut kept = Vec::new();
    let mut lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push(line);
            continue;
        }
        // Further attributes may stand between.
        let mut item = lines.by_ref().skip_while(|line| line.trim_start().starts_with("#["));
        let Some(first) = item.next() else { break };
        match module_name(first) {
            Some(_) if first.ends_with('{') => {
                // As rustfmt closes it: no brace within is as far to the left.
                let closing = format!("{}}}", &first[..first.len() - first.trim_start().len()]);
                item.find(|line| *line == closing);
            }
            Some(_) => {}
            None => kept.push(first),
        }
    }
    kept.join("\n")
}

/// The name of the module that a line declares or opens.
fn module_name(line: &str) -> Option<&str> {
    let rest = line.trim_start();
    let rest = match rest.strip_prefix("pub") {
        Some(rest) => rest.split_once(' ')?.1,
        None => rest,
    };
    rest.strip_prefix("mod ")?.split([';', ' ']).next()
}

/// The paths of the modules in files of their own that `source` declares for tests alone.
fn test_modules(module: &[String], source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in source.lines() {
        match module_name(line).filter(|_| is_test && line.ends_with(';')) {
            Some(name) => found.push(module.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("::")),
            None if line.trim_start().starts_with("#[") => {
                is_test |= line.trim() == "#[cfg(test)]";
                continue;
            }
            None => {}
        }
        is_test = false;
    }
    found
}

/// Every path that begins at the crate's root, at `super`, or at a library: `crate::model::time`.
fn paths(code: &str, module: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("::") {
        let head = code[..at].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        let is_middle = code[..at - head.len()].ends_with("::");
        let mut rest = &code[at + 2..];
        let mut base = match head {
            _ if is_middle => continue,
            "crate" => Vec::new(),
            "super" => module[..module.len().saturating_sub(1)].to_vec(),
            "" | "self" | "Self" => continue,
            library => vec![format!("::{library}")],
        };
        while let (true, Some(after)) = (head == "super", rest.strip_prefix("super::")) {
            base.pop();
            rest = after;
        }
        for tail in heads(rest) {
            found.insert(base.iter().chain(tail.iter()).map(String::as_str).collect::<Vec<_>>().join("::"));
        }
    }
    found
}

/// The first two names after `crate::`, for each branch of a group in braces.
fn heads(rest: &str) -> Vec<Vec<String>> {
    let ident = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let two = |text: &str| {
        let first = ident(text);
        let second = text[first.len()..].strip_prefix("::").map(ident).filter(|second| !second.is_empty());
        std::iter::once(first).chain(second).collect::<Vec<_>>()
    };
    let Some(group) = rest.strip_prefix('{') else { return vec![two(rest)] };
    let mut depth = 0;
    let mut branches = vec![String::new()];
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => branches.push(String::new()),
            _ => {}
        }
        if let Some(branch) = branches.last_mut() {
            branch.push(c);
        }
    }
    branches.iter().map(|branch| two(branch.trim_matches([',', ' ', '\n']))).filter(|two| !two[0].is_empty()).collect()
}

/// Whether the module `inner` is `outer` or within it.
fn is_in(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// What in `source`, the text of `src/FILE`, breaks the table.
fn breaches(file: &Path, source: &str) -> Vec<String> {
    let module = module_of(file);
    let path = module.join("::");
    if TOP.iter().any(|top| is_in(&path, top)) {
        return Vec::new();
    }
    let Some(layer) = LAYERS.iter().rev().find(|layer| is_in(&path, layer.name)) else {
        return vec![format!("src/{} is in no layer of the table", file.display())];
    };
    let rooms = || LAYERS.iter().map(|layer| layer.name).chain(TOP);
    let mut found = Vec::new();
    for used in paths(&code(source), &module) {
        let is_bad = match used.strip_prefix("::") {
            Some(library) => layer.never.concat().iter().any(|never| is_in(library, never)),
            None => {
                let is_own = is_in(&used, layer.name) || layer.may_use.iter().any(|may| is_in(&used, may));
                rooms().any(|name| is_in(&used, name)) && !is_own
            }
        };
        if is_bad {
            found.push(format!("src/{} uses {used}, which {} may not", file.display(), layer.name));
        }
    }
    found
}

/// The Rust sources below a folder, by name; not those of another crate, which has rules of its own.
pub fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let entries = entries.filter(|path| !path.join("Cargo.toml").exists());
    let mut found: Vec<_> = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    found.sort();
    found
}

/// The sources below `src`, relative to it, without those for tests alone.
fn rooms() -> Vec<(PathBuf, String)> {
    let root = project().join("src");
    let mut files: Vec<(PathBuf, String)> = sources(&root)
        .into_iter()
        .map(|file| (file.strip_prefix(&root).unwrap().to_owned(), std::fs::read_to_string(&file).unwrap()))
        .collect();
    let tests: Vec<String> = files.iter().flat_map(|(file, source)| test_modules(&module_of(file), source)).collect();
    files.retain(|(file, _)| !tests.iter().any(|test| is_in(&module_of(file).join("::"), test)));
    files
}

/// Rooms that import each other, directly or by way of others; the rest depends on none of itself.
fn circles(files: &[(PathBuf, String)]) -> BTreeMap<String, BTreeSet<String>> {
    let room = |path: &str| path.split("::").next().unwrap_or_default().to_owned();
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, source) in files {
        let module = module_of(file);
        let used = paths(&code(source), &module).into_iter().filter(|used| !used.starts_with("::"));
        let own = room(&module.join("::"));
        imports.entry(own.clone()).or_default().extend(used.map(|used| room(&used)).filter(|used| *used != own));
    }
    // Those that import nothing that is left are in no circle.
    loop {
        let left: BTreeSet<String> = imports.keys().cloned().collect();
        imports.values_mut().for_each(|used| used.retain(|room| left.contains(room)));
        imports.retain(|_, used| !used.is_empty());
        if imports.len() == left.len() {
            return imports;
        }
    }
}

#[test]
fn layers_are_kept() {
    let found: Vec<String> = rooms().iter().flat_map(|(file, source)| breaches(file, source)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn rooms_import_each_other_in_no_circle() {
    let mut files = rooms();
    assert_eq!(circles(&files), BTreeMap::new());
    files.push((PathBuf::from("model/planted.rs"), "use crate::analysis::busy;".to_owned()));
    assert_eq!(circles(&files)["model"], BTreeSet::from(["analysis".to_owned()]));
}

#[test]
fn planted_breaches_are_found() {
    let check = |file: &str, source: &str, is_breach: bool| {
        let found = breaches(Path::new(file), source);
        assert_eq!(!found.is_empty(), is_breach, "{file}: {source}: {found:?}");
    };
    check("model/slice.rs", "use crate::reader::read;", true);
    check("model/slice.rs", "use super::pyramid::Pyramid;", false);
    check("model/slice.rs", "fn f() { std::fs::read(\"x\"); }", true);
    check("model/slice.rs", "// std::fs::read would be wrong here", false);
    check("analysis/gaps.rs", "use crate::{model::Trace, job::Job};", true);
    check("analysis/gaps.rs", "use crate::{model::{Trace, time}, analysis::busy};", false);
    check("view/timeline/mod.rs", "use super::super::reader;", true);
    check("view/timeline/paint.rs", "use super::super::context::ViewContext;", false);
    check("view/timeline/paint.rs", "fn f() { crate::app::open_window(); }", true);
    check("view/timeline/paint.rs", "use crate::session::Session;", false);
    check("widget/theme.rs", "use crate::model::time::TimeNs;", false);
    check("widget/theme.rs", "use crate::model::Trace;", true);
    check("reader/mod.rs", "#[cfg(test)]\nmod tests {\n use crate::analysis::busy;\n}", false);
    check("reader/chrome.rs", "use egui::Color32;", true);
    check("cli/report/mod.rs", "use crate::view::VIEWS;", true);
    check("cli/render.rs", "use crate::view::VIEWS;", false);
    check("sample/nsys/mod.rs", "use rusqlite::Connection;", false);
    check("sample/nsys/mod.rs", "use crate::view::VIEWS;", true);
    check("cli/sample.rs", "use rusqlite::Connection;", true);
    check("session/mod.rs", "use crate::reader;", true);
    check("session/mod.rs", "use crate::analysis::clock;", false);
    check("answers/mod.rs", "use egui::Ui;", true);
    check("answers/mod.rs", "use crate::session::OpenTrace;", false);
    check("session/mod.rs", "use crate::answers::Answers;", true);
    check("figures/table.rs", "use crate::view::VIEWS;", true);
    check("view/mod.rs", "use crate::answers::Answers;", false);
    check("new_room/mod.rs", "", true);
    check("model/a.rs", "#[cfg(test)]\nmod tests;\nuse crate::app;", true);
    check("model/a.rs", "#[cfg(test)]\npub(super) mod fixture;\nuse crate::app;", true);
    check("model/a.rs", "#[cfg(test)]\nmod tests {\n    fn f() {\n    }\n    use crate::app;\n}\n", false);
    check("model/a.rs", "#[cfg(test)]\nmod tests {\n}\nuse crate::app;", true);
    check("model/a.rs", "#[cfg(test)]\nuse crate::app;", true);
    check("capture/nsys/mod.rs", "use rusqlite::Connection;", true);
    check("app.rs", "use crate::reader;", false);
}

#[test]
fn modules_for_tests_alone_are_known() {
    let source = "mod a;\n#[cfg(test)]\nmod tests;\nmod b;\n#[cfg(test)]\n#[path = \"x\"]\npub mod fixture;\n";
    assert_eq!(test_modules(&["view".to_owned()], source), ["view::tests", "view::fixture"]);
    assert!(test_modules(&[], "#[cfg(test)]\nmod tests {\n}\nmod a;\n").is_empty());
}
