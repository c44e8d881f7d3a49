//! Recognized formats that are not traces, each with a sentence that says what to open instead.

use super::format::{Contents, FileFormat, HEAD, Head};

/// A recognized format that is never read, without extensions.
const fn refused(name: &'static str, sniff: fn(&Head<'_>) -> bool, sentence: &'static str) -> FileFormat {
    FileFormat { name, extensions: &[], sniff, contents: Contents::Refused(sentence) }
}

pub const GIT_LFS: FileFormat = refused(
    "Git LFS pointers",
    |head| head.bytes.starts_with(b"version https://git-lfs.github.com/"),
    "This is a Git LFS pointer, not the file itself: fetch the file with `git lfs pull`",
);

pub const TIMELINE_PICTURE: FileFormat = refused(
    "pictures of memory timelines",
    |head| {
        let words = ["data:image/png;base64", "Memory Timeline", "Total Memory"];
        is_page(head) && words.iter().any(|word| head.has(word))
    },
    "This is a picture of a memory timeline in a web page: export it as .json or .raw.json.gz",
);

pub const SYSTRACE: FileFormat = refused(
    "systrace and catapult reports",
    |head| {
        let words = ["trace-viewer", "systrace", "viewer-data", "linux-perf-data", "# tracer"];
        is_page(head) && words.iter().any(|word| head.has(word))
    },
    "This is a systrace or catapult report, a web page around a trace: open the JSON trace it was made from",
);

pub const WEB_PAGE: FileFormat = refused(
    "web pages",
    is_page,
    "This is a web page, not a trace: a download may have ended at an error or login page",
);

pub const NESTED_LISTS: FileFormat =
    refused("nested lists", |head| head.after("[[").is_some(), "JSON, but nested lists: this is not a Chrome trace");

pub const FTRACE: FileFormat = refused(
    "ftrace texts",
    |head| head.text.starts_with(b"# tracer:") || head.has("sched_switch:"),
    "This is a Linux ftrace text, which Lacuna does not open",
);

pub const BLANK: FileFormat = refused(
    "blank files",
    |head| head.text.is_empty() && head.bytes.len() < HEAD,
    "The file holds nothing but white space",
);

pub const BLANK_START: FileFormat = refused(
    "files that begin blank",
    |head| head.text.is_empty(),
    "The file begins with 4 KiB of white space, as no recording does: remove it, if a trace follows",
);

/// xz, bzip2, 7-Zip, RAR and LZ4.
pub const OTHER_COMPRESSION: FileFormat = refused(
    "files compressed in other ways",
    |head| {
        let starts: [&[u8]; 5] = [b"\xfd7zXZ\0", b"BZh", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x04\x22\x4d\x18"];
        starts.iter().any(|start| head.bytes.starts_with(start))
    },
    "The file is compressed by a program whose files Lacuna does not unpack (xz, bzip2, 7-Zip, RAR or LZ4): unpack it \
     first, or use gzip, zstd or zip",
);

fn is_page(head: &Head<'_>) -> bool {
    head.text.starts_with(b"<")
}
