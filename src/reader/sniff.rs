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
    /// Something that Lacuna knows but does not open, or does not know: a sentence for the person.
    Other(&'static str),
}

/// Bytes that [`sniff`] wants to see, where the file has them.
pub const HEAD: usize = 4096;

const NSYS_REPORT: &str = "This is a report of Nsight Systems: export it with `nsys export --type sqlite FILE` and open \
                           the .sqlite file";

/// Known wrong kinds by their first bytes.
const OTHERS: [(&[u8], &str); 8] = [
    (b"QDRP", NSYS_REPORT),
    (b"NVIDIA Tegra Profiler Report", NSYS_REPORT),
    (b"QDSTRM", "This is an unfinished recording of Nsight Systems: process it with `nsys` first"),
    (
        b"version https://git-lfs.github.com/",
        "This is a Git LFS pointer, not the file itself: fetch the file with `git lfs pull`",
    ),
    (b"\x80\x02", "This is a Python pickle. Memory snapshots cannot be opened yet"),
    (b"\x80\x03", "This is a Python pickle. Memory snapshots cannot be opened yet"),
    (b"\x80\x04", "This is a Python pickle. Memory snapshots cannot be opened yet"),
    (b"\x80\x05", "This is a Python pickle. Memory snapshots cannot be opened yet"),
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
        [0xff, 0xfe, ..] => Kind::Utf16 { is_big_endian: false },
        [0xfe, 0xff, ..] => Kind::Utf16 { is_big_endian: true },
        _ if head.get(257..262) == Some(b"ustar") => Kind::Tar,
        _ => sniff_text(head),
    }
}

fn sniff_text(head: &[u8]) -> Kind {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    match text {
        [b'<', ..] => Kind::Other(sniff_html(text)),
        [b'[', rest @ ..] if matches!(rest.trim_ascii_start(), [b'[', ..]) => Kind::Other(sniff_lists(rest)),
        [b'{' | b'[', ..] => Kind::Json,
        [] => Kind::Other("The file holds nothing but blanks"),
        _ if memchr::memmem::find(head, b"\"traceEvents\"").is_some() => Kind::Json,
        _ if text.starts_with(b"# tracer:") || memchr::memmem::find(head, b"sched_switch:").is_some() => {
            Kind::Other("This is a Linux ftrace text, which Lacuna does not open")
        }
        _ => Kind::Other(
            "Unknown kind of file. Lacuna opens Chrome traces, such as PyTorch's profiler writes (.json, .json.gz, \
             .json.zst, a zip or tar of them), and SQLite exports of Nsight Systems",
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
fn sniff_lists(rest: &[u8]) -> &'static str {
    let inner = rest.trim_ascii_start().trim_ascii_start();
    match inner {
        [b'[', after @ ..] if !matches!(after.trim_ascii_start(), [b'[', ..]) => {
            "This is a memory timeline of PyTorch (export_memory_timeline), which cannot be opened yet; open the \
             profiler's trace of the run"
        }
        _ => "JSON, but lists within lists: this is no Chrome trace",
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
    }

    #[test]
    fn known_wrong_kinds_have_sentences_of_their_own() {
        let sentence = |head: &[u8]| match sniff(head) {
            Kind::Other(sentence) => sentence,
            kind => panic!("{kind:?}"),
        };
        assert!(sentence(b"<!DOCTYPE html><body>404").contains("web page"));
        assert!(sentence(b"version https://git-lfs.github.com/spec/v1").contains("git lfs pull"));
        assert!(sentence(b"[[-1, \"PREEXISTING\"").contains("memory timeline"));
        assert!(sentence(b"QDRP").contains("nsys export"));
    }
}
