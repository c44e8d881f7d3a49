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

/// A report that was recorded by 2023.4.
const REPORT: &[u8] = b"NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0.\x12\x07";

/// Writes an `nsys` of 2023.4 that exports like this.
#[cfg(unix)]
fn write_nsys(path: &Path, export: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let script = format!("#!/bin/sh\n[ \"$1\" = --version ] && echo 'version 2023.4.4' && exit 0\n{export}\n");
    // Written by another process: were it open for writing here while another test forks, it could not be run.
    let command = ["-c", "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", &script];
    assert!(Command::new("sh").args(command).arg(path).status().unwrap().success());
}

#[cfg(unix)]
#[test]
fn a_folder_of_reports_alone_is_a_run() {
    let folder = scratch("nsys-folder");
    let (run, bin, sample) =
        (folder.join("one run"), folder.join("bin"), project().join("sample_traces/nsys_5_steps.sqlite"));
    write_nsys(&bin.join("nsys"), &format!("/bin/cp '{}' \"$7\"", sample.display()));
    std::fs::create_dir(&run).unwrap();
    let names = ["rank 0.nsys-rep", "rank 1.nsys-rep"];
    names.iter().for_each(|name| std::fs::write(run.join(name), [REPORT, name.as_bytes()].concat()).unwrap());
    let files = |path: &Path| {
        let output = lacuna(&["report", "--format", "json"], &run, &folder, path);
        assert!(output.status.success(), "{output:?}");
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let file = |file: &serde_json::Value| {
            let name = Path::new(file["path"].as_str().unwrap()).file_name().unwrap().to_owned();
            (name.into_string().unwrap(), file["events"].clone())
        };
        answer["files"].as_array().unwrap().iter().map(file).collect::<Vec<_>>()
    };
    let alone = super::support::report(&sample, "10").unwrap();
    let expected = names.map(|name| (name.to_owned(), alone["files"][0]["events"].clone()));
    assert_eq!(files(&bin), expected);
    std::fs::remove_dir_all(&bin).unwrap();
    assert_eq!(files(&bin), expected, "what was converted serves where there is no nsys any more");
    assert_eq!(std::fs::read_dir(&run).unwrap().count(), 2, "nothing is written beside the reports");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(unix)]
#[test]
fn a_report_is_read_through_its_export() {
    let folder = scratch("nsys-report");
    let report = folder.join("training.nsys-rep");
    std::fs::write(&report, REPORT).unwrap();

    // One that lies in the current folder must not be taken.
    write_nsys(&folder.join("nsys"), "exit 7");
    let output = lacuna(&["check"], &report, &folder, Path::new(".:"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("no nsys was found here"), "{said}");
    assert!(said.contains("nsys export --type sqlite --output training.sqlite training.nsys-rep"), "{said}");

    let sample = project().join("sample_traces/nsys_5_steps.sqlite");
    let bin = folder.join("bin");
    write_nsys(&bin.join("nsys"), &format!("/bin/cp '{}' \"$7\"", sample.display()));
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

    write_nsys(&bin.join("nsys"), "echo 'Version number is invalid' >&2; exit 1");
    std::fs::remove_dir_all(folder.join("cache")).unwrap();
    let output = lacuna(&["check"], &report, &folder, &bin);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3));
    assert!(said.contains("Version number is invalid"), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}
