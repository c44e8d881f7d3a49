//! The forms of memory snapshots: pickles, JSON, and what PyTorch's viewer makes of them.

use super::super::format::{Contents, FileFormat, Head};
use super::{Encoding, read};
use crate::model::Format;

pub const PICKLE: FileFormat = FileFormat {
    name: "PyTorch memory snapshots",
    extensions: &["pickle", "pkl"],
    sniff: |head| matches!(head.bytes, [0x80, 0..=5, ..]) || is_old_pickle(head.bytes),
    contents: Contents::Trace(Format::Snapshot, |source, options, progress| {
        read(Encoding::Pickle, source, options, progress)
    }),
};

pub const JSON: FileFormat = FileFormat {
    name: "PyTorch memory snapshots as JSON",
    extensions: &["json"],
    sniff: is_json,
    contents: Contents::Trace(Format::Snapshot, |source, options, progress| {
        read(Encoding::Json, source, options, progress)
    }),
};

/// The list with a snapshot as base64 text that a page of the viewer holds.
pub const EMBEDDED: FileFormat = FileFormat {
    name: "embedded PyTorch memory snapshots",
    extensions: &[],
    sniff: |head| match head.first_key("[{") {
        Some(b"base64") => true,
        Some(b"name") => head.has("\"base64\"") && !head.has("\"ph\""),
        _ => false,
    },
    contents: Contents::Trace(Format::Snapshot, |source, options, progress| {
        read(Encoding::Base64, source, options, progress)
    }),
};

/// A page of the viewer with a snapshot in it.
pub const PAGE: FileFormat = FileFormat {
    name: "pages of PyTorch's memory viewer",
    extensions: &[],
    sniff: |head| head.text.starts_with(b"<") && head.has("MemoryViz.js") && head.has("\"base64\""),
    ..EMBEDDED
};

/// A snapshot, or its list of segments alone.
fn is_json(head: &Head<'_>) -> bool {
    match (head.first_key("{"), head.first_key("[{")) {
        (
            Some(
                b"segments"
                | b"device_traces"
                | b"allocator_settings"
                | b"external_annotations"
                | b"host_segments"
                | b"host_traces",
            ),
            _,
        ) => true,
        (Some(_), _) => head.has("\"device_traces\"") && !head.has("\"traceEvents\""),
        (_, Some(b"device" | b"address" | b"total_size")) => head.has("\"total_size\"") && !head.has("\"ph\""),
        _ => false,
    }
}

/// Whether this begins as pickles of protocols 0 and 1 do, which have no magic number.
fn is_old_pickle(head: &[u8]) -> bool {
    let is_name = |line: &[u8]| {
        !line.is_empty() && line.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
    };
    match head {
        // The text form of a dictionary, list or tuple.
        [b'(', b'd' | b'l' | b'p' | b'q' | b'r' | b'.' | b'S' | b'V' | b'U' | b'X' | b'(' | b'c', ..] => true,
        // The binary form.
        [b'}' | b']', b'q' | b'r' | b'(' | b'.' | b'U' | b'X' | b'}' | b']', ..] => true,
        // The name of a function: to be refused as what it is.
        [b'c', rest @ ..] => {
            let mut lines = rest.splitn(3, |&byte| byte == b'\n');
            matches!((lines.next(), lines.next(), lines.next()), (Some(a), Some(b), Some(_)) if is_name(a) && is_name(b))
        }
        _ => false,
    }
}
