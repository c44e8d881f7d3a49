//! Does each layer use only what it may? Reads the paths in the sources and holds them to the table.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::support::project;

/// A layer, the layers it may use (itself aside), and the libraries it must not use.
struct Layer {
    name: &'static str,
    may_use: &'static [&'static str],
    never: &'static [&'static str],
}

const WINDOW: &[&str] = &["egui", "eframe", "egui_extras", "rfd"];

/// Databases are the reader's, and the generator's of samples.
const WINDOW_AND_DATABASE: &[&str] = &["egui", "eframe", "egui_extras", "rfd", "rusqlite"];

/// What `app`, `session`, `settings` and `main` use is free; nobody else may use those.
const LAYERS: &[Layer] = &[
    Layer {
        name: "model",
        may_use: &[],
        never: &["egui", "eframe", "egui_extras", "rfd", "rusqlite", "serde_json", "std::fs", "std::thread"],
    },
    Layer { name: "reader", may_use: &["model", "job"], never: WINDOW },
    Layer {
        name: "analysis",
        may_use: &["model"],
        never: &[
            "egui",
            "eframe",
            "egui_extras",
            "rfd",
            "rusqlite",
            "std::fs",
            "std::thread",
            "std::net",
            "std::process",
        ],
    },
    Layer { name: "job", may_use: &[], never: WINDOW_AND_DATABASE },
    Layer { name: "figures", may_use: &["model", "analysis", "job"], never: WINDOW_AND_DATABASE },
    Layer { name: "capture", may_use: &["model", "job"], never: WINDOW_AND_DATABASE },
    Layer { name: "command", may_use: &["model"], never: &["rusqlite", "std::fs", "std::thread"] },
    Layer { name: "widget", may_use: &["model::time", "figures"], never: &["rusqlite", "std::fs", "std::thread"] },
    Layer {
        name: "view",
        may_use: &["model", "analysis", "figures", "widget", "command", "job"],
        never: &["rusqlite", "std::fs", "std::thread", "std::process", "rfd"],
    },
    Layer {
        name: "cli",
        may_use: &["model", "reader", "analysis", "figures", "capture", "job"],
        never: WINDOW_AND_DATABASE,
    },
    Layer { name: "cli::sample::nsys", may_use: &["cli"], never: WINDOW },
    // Draws views without a window, so it alone of the commands sees them.
    Layer {
        name: "cli::render",
        may_use: &[
            "cli", "model", "reader", "analysis", "job", "view", "widget", "command", "session", "settings", "app",
        ],
        never: &["rfd"],
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

/// The source without comments and without its test module, which may use anything.
fn code(source: &str) -> String {
    let until_tests = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = until_tests.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
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

/// What in `source`, the text of `src/FILE`, breaks the table.
fn breaches(file: &Path, source: &str) -> Vec<String> {
    let module = module_of(file);
    let path = module.join("::");
    let is_in = |inner: &str, outer: &str| inner == outer || inner.starts_with(&format!("{outer}::"));
    let Some(layer) = LAYERS.iter().rev().find(|layer| is_in(&path, layer.name)) else { return Vec::new() };
    let all: Vec<&str> = LAYERS.iter().map(|layer| layer.name).chain(["app", "session", "settings", "main"]).collect();
    let mut found = Vec::new();
    for used in paths(&code(source), &module) {
        let is_bad = match used.strip_prefix("::") {
            Some(library) => layer.never.iter().any(|never| is_in(library, never)),
            None => {
                let is_layer = all.iter().any(|name| is_in(&used, name));
                let is_own = is_in(&used, layer.name) || layer.may_use.iter().any(|may| is_in(&used, may));
                is_layer && !is_own
            }
        };
        if is_bad {
            found.push(format!("src/{} uses {used}, which {} may not", file.display(), layer.name));
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    found.sort();
    found
}

#[test]
fn layers_are_kept() {
    let root = project().join("src");
    let mut found = Vec::new();
    for file in sources(&root) {
        let source = std::fs::read_to_string(&file).unwrap();
        found.extend(breaches(file.strip_prefix(&root).unwrap(), &source));
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
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
    check("view/timeline/paint.rs", "fn f() { crate::session::open(); }", true);
    check("widget/theme.rs", "use crate::model::time::TimeNs;", false);
    check("widget/theme.rs", "use crate::model::Trace;", true);
    check("reader/mod.rs", "#[cfg(test)]\nmod tests {\n use crate::analysis::busy;\n}", false);
    check("reader/chrome.rs", "use egui::Color32;", true);
    check("cli/report/mod.rs", "use crate::view::VIEWS;", true);
    check("cli/render.rs", "use crate::view::VIEWS;", false);
    check("cli/sample/nsys/mod.rs", "use rusqlite::Connection;", false);
    check("cli/sample/kineto.rs", "use rusqlite::Connection;", true);
    check("capture/nsys/mod.rs", "use rusqlite::Connection;", true);
    check("app.rs", "use crate::reader;", false);
}
