//! File formats of Nsight Systems: exports are read, reports must be converted first.

use super::super::format::{Contents, FileFormat};
use crate::model::Format;

pub const EXPORT: FileFormat = FileFormat {
    name: "SQLite exports of Nsight Systems",
    extensions: &["sqlite", "db"],
    sniff: |head| head.bytes.starts_with(b"SQLite format 3\0"),
    contents: Contents::Trace(Format::Nsys, super::read),
};

pub const REPORT: FileFormat = FileFormat {
    name: "reports of Nsight Systems",
    extensions: &["nsys-rep", "qdrep"],
    sniff: |head| head.bytes.starts_with(b"QDRP") || head.bytes.starts_with(b"NVIDIA Tegra Profiler Report"),
    contents: Contents::Refused(
        "This is a report of Nsight Systems: export it with `nsys export --type sqlite FILE` and open the .sqlite file",
    ),
};

pub const RAW: FileFormat = FileFormat {
    name: "raw data of Nsight Systems",
    extensions: &["qdstrm"],
    // After a few bytes that say where this begins.
    sniff: |head| head.bytes.get(3..).is_some_and(|rest| rest.starts_with(b"[END]NVIDIA Nsight Systems Stream")),
    contents: Contents::Refused(
        "This is raw data of Nsight Systems, which made no report of it: make one with `QdstrmImporter --input-file \
         FILE`, which is installed with nsys, and open that",
    ),
};
