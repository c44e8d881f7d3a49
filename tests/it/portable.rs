//! Checks that system-specific interfaces are used only in code compiled for that system.
//!
//! No other system is at hand to build for, so this reads the sources instead.

use std::path::Path;

use super::layers::sources;
use super::support::project;

/// Paths into the interface of one system.
const OF_ONE_SYSTEM: [&str; 5] = ["std::os::", "libc::", "rustix::", "signal_hook::", "winit::"];

/// Whether a line begins something that is compiled for some systems alone.
fn is_gate(line: &str) -> bool {
    let names_system = ["unix", "windows", "target_os"].iter().any(|system| line.contains(system));
    (line.starts_with("#[cfg(") || line.starts_with("#![cfg(")) && names_system && !line.contains("not(")
}

/// Whether a line names a path, and not one whose first name only ends alike: `egui_winit::`.
fn names(line: &str, path: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(is_name))
}

/// The numbers of the lines, from 1, that name the interface of one system outside of such a gate.
fn ungated(source: &str) -> Vec<usize> {
    let mut found = Vec::new();
    // How far to the right the gated item stands.
    let mut gate = None;
    for (i, line) in source.lines().enumerate() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if gate.is_none() && is_gate(text) {
            if text.starts_with("#!") {
                return found;
            }
            gate = Some(indent);
            continue;
        }
        if gate.is_none() && !text.starts_with("//") && OF_ONE_SYSTEM.iter().any(|path| names(text, path)) {
            found.push(i + 1);
        }
        // As rustfmt writes it: an item ends with the first such line that is as far to the left.
        if gate == Some(indent) && !text.starts_with('#') && text.ends_with([';', '}', ',']) {
            gate = None;
        }
    }
    found
}

#[test]
fn system_interfaces_are_used_only_on_their_system() {
    let root = project().join("src");
    let mut found = Vec::new();
    for file in sources(&root) {
        let source = std::fs::read_to_string(&file).unwrap();
        let file = file.strip_prefix(&root).unwrap_or(Path::new("")).display();
        found.extend(ungated(&source).into_iter().map(|line| format!("src/{file}:{line}")));
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn planted_uses_are_found() {
    for (source, expected) in [
        ("use std::os::unix::fs::FileExt as _;\n", &[1][..]),
        ("const MODULE: &str = \"egui_winit::clipboard\";\nlet x = &winit::X;\n", &[2]),
        ("// libc::mallopt would do\n", &[]),
        ("#[cfg(unix)]\nuse std::os::unix::fs::FileExt as _;\nuse rustix::process;\n", &[3]),
        ("#[cfg(unix)]\nfn f() {\n    libc::f();\n}\nfn g() {\n    libc::g();\n}\n", &[6]),
        ("#[cfg(not(unix))]\nfn f() {\n    libc::f();\n}\n", &[3]),
        (
            "fn f() {\n    #[cfg(all(target_os = \"linux\"))]\n    {\n        libc::f();\n    }\n    libc::g();\n}\n",
            &[6],
        ),
        ("#![cfg(unix)]\nuse std::os::unix::fs::FileExt as _;\n", &[]),
    ] {
        assert_eq!(ungated(source), expected, "{source}");
    }
}
