//! What a file is, by its first bytes alone: names lie.

/// How a file's bytes are to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Gzip,
    Zstd,
    Zip,
    Tar,
    Utf16 {
        is_big_endian: bool,
    },
    Json,
    Sqlite,
    /// A Python pickle.
    Pickle,
    /// A memory snapshot as JSON.
    SnapshotJson,
    /// A memory snapshot as a base64 text within JSON.
    SnapshotBase64,
    /// Lists within lists, as PyTorch's `export_memory_timeline` writes them.
    MemoryTimeline,
    /// Something that Lacuna knows but does not open, or does not know: a sentence for the person.
    Other(&'static str),
}

/// Bytes that [`sniff`] wants to see, where the file has them.
pub const HEAD: usize = 4096;

const NSYS_REPORT: &str = "This is a report of Nsight Systems: export it with `nsys export --type sqlite FILE` and open \
                           the .sqlite file";

/// Known wrong kinds by their first bytes.
const OTHERS: [(&[u8], &str); 4] = [
    (b"QDRP", NSYS_REPORT),
    (b"NVIDIA Tegra Profiler Report", NSYS_REPORT),
    (b"QDSTRM", "This is an unfinished recording of Nsight Systems: process it with `nsys` first"),
    (
        b"version https://git-lfs.github.com/",
        "This is a Git LFS pointer, not the file itself: fetch the file with `git lfs pull`",
    ),
];

/// Decides from the first [`HEAD`] bytes, or all of a shorter file.
pub fn sniff(head: &[u8]) -> Kind {
    if let Some((_, sentence)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Kind::Other(sentence);
    }
    match head {
        _ if head.starts_with(b"SQLite format 3\0") => Kind::Sqlite,
        [0x1f, 0x8b, ..] => Kind::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Kind::Zstd,
        [b'P', b'K', 3 | 5 | 7, ..] => Kind::Zip,
        [0x80, 0..=5, ..] => Kind::Pickle,
        [0xff, 0xfe, ..] => Kind::Utf16 { is_big_endian: false },
        [0xfe, 0xff, ..] => Kind::Utf16 { is_big_endian: true },
        _ if head.get(257..262) == Some(b"ustar") => Kind::Tar,
        _ => sniff_text(head),
    }
}

fn sniff_text(head: &[u8]) -> Kind {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let has = |word: &[u8]| memchr::memmem::find(text, word).is_some();
    match text {
        // A page of PyTorch's memory viewer, with the snapshot in it.
        [b'<', ..] if has(b"MemoryViz.js") && has(b"\"base64\"") => Kind::SnapshotBase64,
        [b'<', ..] => Kind::Other(sniff_html(text)),
        [b'[', rest @ ..] if matches!(rest.trim_ascii_start(), [b'[', ..]) => sniff_lists(rest),
        [b'{', rest @ ..] => sniff_object(rest),
        [b'[', rest @ ..] => match rest.trim_ascii_start() {
            [b'{', rest @ ..] => sniff_list(rest),
            _ => Kind::Json,
        },
        _ if is_old_pickle(head) => Kind::Pickle,
        [] => Kind::Other("The file holds nothing but blanks"),
        _ if memchr::memmem::find(head, b"\"traceEvents\"").is_some() => Kind::Json,
        _ if text.starts_with(b"# tracer:") || memchr::memmem::find(head, b"sched_switch:").is_some() => {
            Kind::Other("This is a Linux ftrace text, which Lacuna does not open")
        }
        _ => Kind::Other(
            "Unknown kind of file. Lacuna opens Chrome traces, such as PyTorch's profiler writes (.json, .json.gz, \
             .json.zst, a zip or tar of them), PyTorch memory snapshots (.pickle), and SQLite exports of Nsight Systems",
        ),
    }
}

fn sniff_html(text: &[u8]) -> &'static str {
    let has = |word: &[u8]| memchr::memmem::find(text, word).is_some();
    if has(b"data:image/png;base64") || has(b"Memory Timeline") || has(b"Total Memory") {
        return "This is a picture of a memory timeline in a web page: export it as .json or .raw.json.gz";
    }
    if has(b"trace-viewer") || has(b"systrace") || has(b"viewer-data") || has(b"linux-perf-data") || has(b"# tracer") {
        return "This is a systrace or catapult report, a web page around a trace: open the JSON trace it was made from";
    }
    "This is a web page, not a trace: a download may have ended at an error or login page"
}

/// Lists within a list: PyTorch's memory timelines.
fn sniff_lists(rest: &[u8]) -> Kind {
    match rest.trim_ascii_start() {
        [b'[', after @ ..] if !matches!(after.trim_ascii_start(), [b'[', ..]) => Kind::MemoryTimeline,
        _ => Kind::Other("JSON, but lists within lists: this is no Chrome trace"),
    }
}

/// The first key of an object whose `{` was read.
fn first_key(rest: &[u8]) -> &[u8] {
    let text = rest.trim_ascii_start().strip_prefix(b"\"").unwrap_or_default();
    &text[..memchr::memchr(b'"', text).unwrap_or(0)]
}

fn sniff_object(rest: &[u8]) -> Kind {
    let has = |word: &[u8]| memchr::memmem::find(rest, word).is_some();
    match first_key(rest) {
        b"segments"
        | b"device_traces"
        | b"allocator_settings"
        | b"external_annotations"
        | b"host_segments"
        | b"host_traces" => Kind::SnapshotJson,
        _ if has(b"\"device_traces\"") && !has(b"\"traceEvents\"") => Kind::SnapshotJson,
        _ => Kind::Json,
    }
}

/// A list of objects: segments, an embedded snapshot, or events.
fn sniff_list(rest: &[u8]) -> Kind {
    let has = |word: &[u8]| memchr::memmem::find(rest, word).is_some();
    match first_key(rest) {
        b"device" | b"address" | b"total_size" if has(b"\"total_size\"") && !has(b"\"ph\"") => Kind::SnapshotJson,
        b"base64" => Kind::SnapshotBase64,
        b"name" if has(b"\"base64\"") && !has(b"\"ph\"") => Kind::SnapshotBase64,
        _ => Kind::Json,
    }
}

/// Whether this begins as pickles of protocols 0 and 1 do, which have no magic number.
fn is_old_pickle(head: &[u8]) -> bool {
    let is_name = |line: &[u8]| {
        !line.is_empty() && line.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
    };
    match head {
        // The text form of a dictionary, list or tuple.
        [b'(', b'd' | b'l', b'p' | b'q' | b'r' | b'.' | b'S' | b'V' | b'U' | b'X' | b'(', ..] => true,
        [b'(', b'S', b'\'' | b'"', ..] | [b'(', b'c', ..] => true,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides() {
        assert_eq!(sniff(b"\x1f\x8b\x08"), Kind::Gzip);
        assert_eq!(sniff(b"\xef\xbb\xbf {\"a\""), Kind::Json);
        assert_eq!(sniff(b"[{"), Kind::Json);
        assert_eq!(sniff(b"\xff\xfe{\0"), Kind::Utf16 { is_big_endian: false });
        assert!(matches!(sniff(b"[[[["), Kind::Other(_)));
        assert_eq!(sniff(b"[[-1, 1, 512, 0]"), Kind::MemoryTimeline);
    }

    #[test]
    fn snapshots_are_known_in_every_form() {
        for pickle in [
            &b"\x80\x02}q\x00"[..],
            b"\x80\x05\x95",
            b"(dp0\nS'segments'",
            b"(lp0\n(dp1",
            b"}q\x00(X",
            b"]q\x00}q",
            b"cos\nsystem\n(S'true'\ntR.",
            b"(S'true'\nios\nsystem\n.",
        ] {
            assert_eq!(sniff(pickle), Kind::Pickle, "{pickle:?}");
        }
        assert_eq!(sniff(b"{\"segments\": ["), Kind::SnapshotJson);
        assert_eq!(sniff(b"[{\"device\": 0, \"address\": 1, \"total_size\": 2"), Kind::SnapshotJson);
        assert_eq!(sniff(b"[{\"name\": \"snapshot.pickle\", \"base64\": \"gAR9"), Kind::SnapshotBase64);
        let page = b"\n<!DOCTYPE html>\n<script>import {add} from \"https://x/MemoryViz.js\"\nx = [{\"name\": \"s\", \"base64\": \"gA\"";
        assert_eq!(sniff(page), Kind::SnapshotBase64);
        assert_eq!(sniff(b"[{\"name\": \"a\", \"ph\": \"X\", \"args\": {\"base64\""), Kind::Json);
        assert_eq!(sniff(b"{\"traceEvents\": ["), Kind::Json);
        assert!(matches!(sniff(b"code in words\nand more\n"), Kind::Other(_)));
    }

    #[test]
    fn known_wrong_kinds_have_sentences_of_their_own() {
        let sentence = |head: &[u8]| match sniff(head) {
            Kind::Other(sentence) => sentence,
            kind => panic!("{kind:?}"),
        };
        assert!(sentence(b"<!DOCTYPE html><body>404").contains("web page"));
        assert!(sentence(b"version https://git-lfs.github.com/spec/v1").contains("git lfs pull"));
        assert!(sentence(b"QDRP").contains("nsys export"));
    }
}
