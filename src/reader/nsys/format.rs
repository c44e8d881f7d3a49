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

pub const UNFINISHED: FileFormat = FileFormat {
    name: "unfinished recordings of Nsight Systems",
    extensions: &[],
    sniff: |head| head.bytes.starts_with(b"QDSTRM"),
    contents: Contents::Refused("This is an unfinished recording of Nsight Systems: process it with `nsys` first"),
};
