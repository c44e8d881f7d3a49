//! Reports of Nsight Systems: conversion by `nsys`, and the error message without it.

use std::path::Path;
use std::process::{Command, Output};

use super::support::{project, scratch};

/// Runs the program with no programs but those in `path`, and a cache of its own.
fn lacuna(args: &[&str], report: &Path, folder: &Path, path: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lacuna"));
    command.args(args).arg(report).env("PATH", path).env("XDG_CACHE_HOME", folder.join("cache"));
    command.current_dir(folder).output().unwrap()
}

#[cfg(unix)]
#[test]
fn a_report_is_read_through_its_export() {
    let folder = scratch("nsys-report");
    let report = folder.join("training.nsys-rep");
    std::fs::write(&report, b"NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0.\x12\x07").unwrap();

    // One that lies in the current folder must not be taken.
    let script =
        |export: &str| format!("#!/bin/sh\n[ \"$1\" = --version ] && echo 'version 2023.4.4' && exit 0\n{export}\n");
    let write = |path: &Path, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let command = ["-c", "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", text];
        assert!(Command::new("sh").args(command).arg(path).status().unwrap().success());
    };
    write(&folder.join("nsys"), &script("exit 7"));
    let output = lacuna(&["check"], &report, &folder, Path::new(".:"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("no nsys was found here"), "{said}");
    assert!(said.contains("nsys export --type sqlite --output training.sqlite training.nsys-rep"), "{said}");

    let sample = project().join("sample_traces/nsys_5_steps.sqlite");
    let bin = folder.join("bin");
    write(&bin.join("nsys"), &script(&format!("/bin/cp '{}' \"$7\"", sample.display())));
    let output = lacuna(&["report", "--format", "json"], &report, &folder, &bin);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let [of_report, of_export] = [&answer, &super::support::report(&sample, "10").unwrap()].map(|report| {
        assert_eq!(report["files"].as_array().unwrap().len(), 1);
        report["devices"].clone()
    });
    assert_eq!(of_report, of_export);
    assert!(answer["files"][0]["path"].as_str().unwrap().ends_with("training.nsys-rep"));
    assert!(answer["files"][0]["problems"].to_string().contains("converted by nsys 2023.4.4"));
    assert!(!folder.join("training.sqlite").exists(), "the export lies beside the report");

    write(&bin.join("nsys"), &script("echo 'Version number is invalid' >&2; exit 1"));
    std::fs::remove_dir_all(folder.join("cache")).unwrap();
    let output = lacuna(&["check"], &report, &folder, &bin);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3));
    assert!(said.contains("Version number is invalid"), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}
