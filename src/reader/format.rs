//! Known file formats: detection by the first bytes, and the reader of each.

use super::archive::Members;
use super::source::Source;
use super::{Options, ReadError, archive, chrome_trace, gpu_metrics, memory_timeline, nsys, refused, snapshot};
use crate::job::Progress;
use crate::model::{Format, Trace};

/// A file format.
#[derive(Debug)]
pub struct FileFormat {
    /// For lists of formats and for tests.
    pub name: &'static str,
    /// File extensions, in lower case and without the dot.
    pub extensions: &'static [&'static str],
    /// Whether a file with these first bytes has the format. File names are ignored as unreliable.
    pub sniff: fn(&Head<'_>) -> bool,
    pub contents: Contents,
}

/// What a file of some format holds.
#[derive(Debug)]
pub enum Contents {
    /// One trace, and what it is reported as.
    Trace(Format, fn(&Source, Options, &Progress) -> Result<Trace, ReadError>),
    /// Another file, whose format is detected in turn.
    Wrapped(fn(&Source) -> Result<Source, ReadError>),
    /// Several files.
    Archive(fn(&Source, Options) -> Result<Members, ReadError>),
    /// An unsupported format: a sentence that says what it is and what to do.
    Refused(&'static str),
}

/// Every format, most specific first: the first whose `sniff` matches is used.
pub const FORMATS: &[FileFormat] = &[
    nsys::REPORT,
    nsys::RAW,
    refused::GIT_LFS,
    nsys::EXPORT,
    archive::GZIP,
    archive::ZSTD,
    archive::ZIP,
    archive::TAR,
    refused::OTHER_COMPRESSION,
    archive::UTF16_LE,
    archive::UTF16_BE,
    snapshot::PICKLE,
    snapshot::PAGE,
    refused::TIMELINE_PICTURE,
    gpu_metrics::FOR_PEOPLE,
    refused::SYSTRACE,
    refused::WEB_PAGE,
    memory_timeline::FORMAT,
    refused::NESTED_LISTS,
    snapshot::JSON,
    snapshot::EMBEDDED,
    gpu_metrics::JSON_LINES,
    gpu_metrics::NVIDIA_SMI,
    gpu_metrics::NO_HEADER,
    chrome_trace::FORMAT,
    refused::FTRACE,
    refused::BLANK,
    refused::BLANK_START,
];

/// Bytes passed to [`FileFormat::sniff`], fewer if the file is shorter.
pub const HEAD: usize = 4096;

/// The first [`HEAD`] bytes of a file, or all of a shorter one.
pub struct Head<'a> {
    pub bytes: &'a [u8],
    /// The same without a leading byte order mark and white space.
    pub text: &'a [u8],
}

impl<'a> Head<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, text: bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start() }
    }

    /// Whether the word is anywhere in the text.
    pub fn has(&self, word: &str) -> bool {
        memchr::memmem::find(self.text, word.as_bytes()).is_some()
    }

    /// The rest of the text if it begins with these characters, ignoring white space between them.
    pub fn after(&self, opening: &str) -> Option<&'a [u8]> {
        opening.bytes().try_fold(self.text, |text, byte| Some(text.strip_prefix(&[byte])?.trim_ascii_start()))
    }

    /// The first key of the JSON object that the text begins with after these characters.
    pub fn first_key(&self, opening: &str) -> Option<&'a [u8]> {
        let key = self.after(opening)?.strip_prefix(b"\"").unwrap_or_default();
        Some(&key[..memchr::memchr(b'"', key).unwrap_or(0)])
    }
}

/// The format of a file with these first bytes.
pub fn sniff(head: &[u8]) -> Option<&'static FileFormat> {
    let head = Head::new(head);
    FORMATS.iter().find(|format| (format.sniff)(&head))
}

/// Extensions of files that can be read, sorted.
pub fn extensions() -> Vec<&'static str> {
    let is_read = |format: &&FileFormat| !matches!(format.contents, Contents::Refused(_));
    let mut found: Vec<_> = FORMATS.iter().filter(is_read).flat_map(|format| format.extensions).copied().collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Extensions of files that are converted before they are read.
pub const CONVERTED: &[&str] = &["nsys-rep", "qdrep", "qdstrm"];

/// The sentence for a file of unknown format.
pub fn unknown() -> String {
    let list = |is_wanted: fn(&Contents) -> bool| {
        let named = FORMATS.iter().filter(|format| is_wanted(&format.contents) && !format.extensions.is_empty());
        let one = |format: &FileFormat| format!("{} (.{})", format.name, format.extensions.join(", ."));
        named.map(one).collect::<Vec<_>>().join(", ")
    };
    let traces = list(|contents| matches!(contents, Contents::Trace(..)));
    let wrappings = list(|contents| matches!(contents, Contents::Wrapped(_) | Contents::Archive(_)));
    format!("Unknown kind of file. Lacuna opens {traces}; also in {wrappings}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(head: &[u8]) -> &'static str {
        sniff(head).map_or("", |format| format.name)
    }

    #[test]
    fn content_decides() {
        for (format, heads) in [
            (archive::GZIP, &[&b"\x1f\x8b\x08"[..]] as &[&[u8]]),
            (archive::UTF16_LE, &[b"\xff\xfe{\0"]),
            (nsys::EXPORT, &[b"SQLite format 3\0"]),
            (nsys::RAW, &[b"U3w[END]NVIDIA Nsight Systems Stream 2023.4.4.54-234433681190v0!"]),
            (memory_timeline::FORMAT, &[b"[[-1, 1, 512, 0]", b" [ [1"]),
            (refused::NESTED_LISTS, &[b"[[[["]),
            (
                chrome_trace::FORMAT,
                &[
                    b"\xef\xbb\xbf {\"a\"",
                    b"[{",
                    b"[",
                    b"[{\"name\": \"a\", \"ph\": \"X\", \"args\": {\"base64\"",
                    b"{\"traceEvents\": [",
                    b"window.x = {\"traceEvents\": [",
                ],
            ),
            (
                snapshot::PICKLE,
                &[
                    b"\x80\x02}q\x00",
                    b"\x80\x05\x95",
                    b"(dp0\nS'segments'",
                    b"(lp0\n(dp1",
                    b"}q\x00(X",
                    b"]q\x00}q",
                    b"cos\nsystem\n(S'true'\ntR.",
                    b"(S'true'\nios\nsystem\n.",
                ],
            ),
            (snapshot::JSON, &[b"{\"segments\": [", b"[{\"device\": 0, \"address\": 1, \"total_size\": 2"]),
            (gpu_metrics::JSON_LINES, &[b"{\"gpu_id\": 0, \"power_w\": 70.5, \"timestamp\": 1700000000.5}\n{\"gpu"]),
            (gpu_metrics::NVIDIA_SMI, &[b"timestamp, utilization.gpu [%], memory.used [MiB]\n"]),
            (
                gpu_metrics::FOR_PEOPLE,
                &[
                    b"Wed Jan 31 12:34:56 2024\n+---+\n| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05 |\n",
                    b"<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"x.dtd\">\n<nvidia_smi_log>\n",
                    b"# gpu    pwr  gtemp\n# Idx      W      C\n    0     60     40\n",
                    b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
                ],
            ),
            (gpu_metrics::NO_HEADER, &[b"2025/09/08 14:14:37.120, 0, 11409\n", b"0, 2025/09/08 14:14:37.120, 12 %\n"]),
            (snapshot::EMBEDDED, &[b"[{\"name\": \"snapshot.pickle\", \"base64\": \"gAR9"]),
            (
                snapshot::PAGE,
                &[b"\n<!DOCTYPE html>\n<script>import {add} from \"https://x/MemoryViz.js\"\nx = [{\"base64\": \"gA\""],
            ),
            (refused::WEB_PAGE, &[b"<!DOCTYPE html><body>404"]),
            (refused::FTRACE, &[b"# tracer: nop"]),
            (refused::BLANK, &[b" \n "]),
            (refused::BLANK_START, &[&[b' '; HEAD][..]]),
            (refused::OTHER_COMPRESSION, &[b"\xfd7zXZ\0\0", b"BZh91AY"]),
            (nsys::REPORT, &[b"QDRP", b"NVIDIA Tegra Profiler Report 1"]),
            (refused::GIT_LFS, &[b"version https://git-lfs.github.com/spec/v1"]),
        ] {
            for head in heads {
                assert_eq!(name(head), format.name, "{:?}", String::from_utf8_lossy(head));
            }
        }
        for other in [&b"code in words\nand more\n"[..], b"2025/09/08, 14:14:37, 3\n", b"2025/09/08 14:14:37.120\n"] {
            assert!(sniff(other).is_none(), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn each_format_has_a_name_of_its_own() {
        let mut names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FORMATS.len());
    }

    #[test]
    fn refused_formats_say_what_to_do() {
        let sentence = |head: &[u8]| match sniff(head).unwrap().contents {
            Contents::Refused(sentence) => sentence,
            ref contents => panic!("{contents:?}"),
        };
        assert!(sentence(b"<!DOCTYPE html><body>404").contains("web page"));
        assert!(sentence(b"version https://git-lfs.github.com/spec/v1").contains("git lfs pull"));
        assert!(sentence(b"2025/09/08 14:14:37.120, 0\n").contains("without their header"));
        assert!(sentence(b"QDRP").contains("nsys export"));
    }

    #[test]
    fn extensions_of_readable_files_are_listed() {
        let read = extensions();
        assert!(read.contains(&"pickle") && read.contains(&"json") && !read.contains(&"nsys-rep"), "{read:?}");
        let known = unknown();
        assert!(
            known.contains("(.pickle, .pkl)") && known.contains("gzip (.gz, .tgz)") && known.len() < 500,
            "{known}"
        );
    }
}
