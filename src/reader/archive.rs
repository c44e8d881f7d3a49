//! Compressed files, UTF-16 text and archives.

use std::fs::File;
use std::io::{BufReader, Read};

use super::format::{Contents, FileFormat};
use super::source::{Layer, Source, Text};
use super::torn_zip::{self, Entry};
use super::{Options, ReadError, printable, tar};

pub const GZIP: FileFormat = FileFormat {
    name: "gzip",
    extensions: &["gz", "tgz"],
    sniff: |head| head.bytes.starts_with(&[0x1f, 0x8b]),
    contents: Contents::Wrapped(|source| Ok(source.with(Layer::Gzip))),
};

pub const ZSTD: FileFormat = FileFormat {
    name: "Zstandard",
    extensions: &["zst"],
    // A frame to skip may come first, as pzstd writes it.
    sniff: |head| matches!(head.bytes, [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]),
    contents: Contents::Wrapped(|source| Ok(source.with(Layer::Zstd))),
};

pub const ZIP: FileFormat = FileFormat {
    name: "zip",
    extensions: &["zip"],
    sniff: |head| matches!(head.bytes, [b'P', b'K', 3 | 5 | 7, ..]),
    contents: Contents::Archive(zip_members),
};

pub const TAR: FileFormat = FileFormat {
    name: "tar",
    extensions: &["tar"],
    sniff: |head| tar::is_tar(head.bytes),
    contents: Contents::Archive(tar_members),
};

pub const UTF16_LE: FileFormat = FileFormat {
    name: "UTF-16, little-endian",
    extensions: &[],
    sniff: |head| head.bytes.starts_with(&[0xff, 0xfe]),
    contents: Contents::Wrapped(|source| Ok(source.with(Layer::Utf16 { is_big_endian: false }))),
};

pub const UTF16_BE: FileFormat = FileFormat {
    name: "UTF-16, big-endian",
    extensions: &[],
    sniff: |head| head.bytes.starts_with(&[0xfe, 0xff]),
    contents: Contents::Wrapped(|source| Ok(source.with(Layer::Utf16 { is_big_endian: true }))),
};

/// Most files in an archive, with those of the archives in it.
pub const MAX_MEMBERS: usize = 4096;

/// Deepest nesting of archives in an archive.
const MAX_DEPTH: usize = 4;

/// The list of a zip is by name.
const SAME_NAMES: &str = "Several files in this zip have the same name: only the last of each name is read";

const FALSE_LIST: &str =
    "The list of files in this zip is damaged: the files were found by what stands before each of them";

/// Larger files of a compressed archive are decompressed again each time they are read.
const MAX_HELD: u64 = 256 << 20;

/// The files inside an archive.
pub struct Members {
    /// In the order of the archive.
    pub sources: Vec<Source>,
    /// Names of those that cannot be opened, and why.
    pub unread: Vec<(String, ReadError)>,
    /// What is wrong with the archive as a whole, as a sentence.
    pub damage: Option<String>,
    archive: Source,
    options: Options,
    /// The archive's text, if it is compressed, and how much of it was read.
    text: Option<(Text, u64)>,
}

/// The files inside a zip.
///
/// Nothing is extracted to disk, so path traversal in member names has no effect; but a zip with such names was made to
/// harm, and is refused.
///
/// Errors: the zip is damaged or hostile, holds no file or too many, or is nested in another archive.
fn zip_members(source: &Source, options: Options) -> Result<Members, ReadError> {
    let refuse = |text: String| Err(ReadError::NotATrace(text));
    if !source.layers.is_empty() {
        return refuse("A zip file inside another compressed file: unpack it".to_owned());
    }
    let (listed, damage) = match zip::ZipArchive::new(File::open(&source.path)?) {
        Ok(mut archive) => {
            let (listed, cover) = zip_list(&mut archive);
            match archive.has_duplicate_names() {
                true => (listed, Some(SAME_NAMES.to_owned())),
                false => instead_of(listed, &cover, source)?,
            }
        }
        Err(error) => {
            let (listed, damage) = torn_list(source)?;
            if listed.is_empty() {
                return refuse(format!("A damaged zip file ({error})"));
            }
            (listed, Some(damage))
        }
    };
    if let Some((name, _)) = listed.iter().find(|(name, _)| leads_out(name)) {
        let name = printable(name);
        return refuse(format!("A zip with a file {name} that lies outside of the zip, which no program writes"));
    }
    if listed.len() > MAX_MEMBERS {
        return Err(too_many());
    }
    let (mut sources, mut unread) = (Vec::new(), Vec::new());
    for (name, entry) in listed {
        match entry.and_then(|entry| zip_member(&entry, source)) {
            Ok(member) => sources.extend(member),
            Err(why) => unread.push((name, ReadError::NotATrace(why))),
        }
    }
    let is_pickled = |name: &str| name.ends_with("/data.pkl") || name == "data.pkl";
    if sources.iter().any(|source| source.member.as_deref().is_some_and(is_pickled)) {
        return refuse(
            "A torch.save archive, not a memory snapshot: write one with `torch.cuda.memory._dump_snapshot(FILE)`"
                .to_owned(),
        );
    }
    if sources.is_empty() && unread.is_empty() {
        return refuse("A zip without files".to_owned());
    }
    if overlap(&sources) {
        return refuse("A zip in which several files share the same bytes, which no program writes".to_owned());
    }
    Ok(Members { sources, unread, damage, archive: source.clone(), options, text: None })
}

/// Files of a zip by name, or why one cannot be opened.
type Listed = Vec<(String, Result<Entry, String>)>;

/// How the files that a zip lists cover its bytes up to the list.
enum Cover {
    Whole,
    /// There are more bytes than belong to a file.
    Gaps,
    /// Files share bytes with each other or with the list.
    Overlaps,
}

/// The files as the zip's own list has them.
fn zip_list(archive: &mut zip::ZipArchive<File>) -> (Listed, Cover) {
    let (n, list) = (archive.len().min(MAX_MEMBERS + 1), archive.central_directory_start());
    let mut parts = vec![(list, list)];
    let mut entry = |index| {
        // Also of a file that cannot be opened.
        let name = archive.name_for_index(index).and_then(Result::ok).unwrap_or_default().into_owned();
        let member = match archive.by_index_raw(index) {
            Ok(member) => member,
            Err(error) => return (name, Err(format!("Cannot read the file inside this zip ({error})"))),
        };
        let (offset, len) = (member.data_start().unwrap_or(0), member.compressed_size());
        parts.push((member.header_start(), offset.saturating_add(len)));
        let method = match member.compression() {
            zip::CompressionMethod::Stored => torn_zip::STORED,
            zip::CompressionMethod::Deflated => torn_zip::DEFLATED,
            other => return (name, Err(unknown_method(&other))),
        };
        let (is_encrypted, sum) = (member.encrypted(), Some(member.crc32()));
        named(Entry { name, offset, len, method, is_encrypted, sum })
    };
    let listed = (0..n).map(&mut entry).collect();
    parts.sort_unstable();
    let (mut cover, mut at) = (Cover::Whole, 0);
    for (start, end) in parts {
        cover = match start.checked_sub(at) {
            None => return (listed, Cover::Overlaps),
            Some(between) if between > torn_zip::MAX_DESCRIPTOR => Cover::Gaps,
            Some(_) => cover,
        };
        at = end;
    }
    (listed, cover)
}

/// The files as they stand in the zip, where more of them can be opened than its list tells of, and what is wrong then;
/// else those of the list.
///
/// A list may have been damaged. One in which files share bytes, though they do not where they stand, is.
fn instead_of(listed: Listed, cover: &Cover, source: &Source) -> Result<(Listed, Option<String>), ReadError> {
    if matches!(cover, Cover::Whole) || listed.len() > MAX_MEMBERS {
        return Ok((listed, None));
    }
    let n_opened = |files: &Listed| files.iter().filter(|(_, entry)| entry.is_ok()).count();
    let (found, _) = torn_list(source)?;
    let least = n_opened(&listed) + usize::from(!matches!(cover, Cover::Overlaps));
    Ok(match n_opened(&found) >= least {
        true => (found, Some(FALSE_LIST.to_owned())),
        false => (listed, None),
    })
}

/// The files of a zip that ends before its own list, and what is wrong with it.
fn torn_list(source: &Source) -> Result<(Listed, String), ReadError> {
    let (entries, is_cut, at) = torn_zip::list(File::open(&source.path)?, source.bytes, MAX_MEMBERS + 1)?;
    let damage = match (at, entries.last().filter(|_| is_cut)) {
        (_, Some(last)) => {
            format!("The archive ends early, inside {}: what follows is lost", printable(&last.name))
        }
        (Some(at), None) => format!("The archive is damaged at byte {at}: a file or more of it is lost"),
        (None, None) => "The archive ends early, before its list of files: what follows is lost".to_owned(),
    };
    Ok((entries.into_iter().map(named).collect(), damage))
}

/// A file by its name.
fn named(entry: Entry) -> (String, Result<Entry, String>) {
    match entry.is_encrypted {
        true => (entry.name, Err("Cannot read the file inside this zip (it is encrypted)".to_owned())),
        false => (entry.name.clone(), Ok(entry)),
    }
}

fn unknown_method(method: &dyn std::fmt::Display) -> String {
    format!("The zip uses an unsupported compression method ({method})")
}

/// Whether a path leads out of the folder in which an archive is unpacked.
fn leads_out(path: &str) -> bool {
    path.starts_with(['/', '\\']) || path.split(['/', '\\']).any(|part| part == "..")
}

/// Whether files share bytes of the archive, by which a small one could hold far too much.
fn overlap(sources: &[Source]) -> bool {
    let part = |source: &Source| match source.layers.first() {
        Some(&Layer::Part { offset, len }) => (offset, offset.saturating_add(len)),
        _ => (0, 0),
    };
    let mut parts: Vec<(u64, u64)> = sources.iter().map(part).collect();
    parts.sort_unstable();
    parts.windows(2).any(|pair| pair[1].0 < pair[0].1)
}

/// One file of a zip; `None` for a folder, an empty or a hidden file.
///
/// Errors: why it cannot be opened.
fn zip_member(entry: &Entry, source: &Source) -> Result<Option<Source>, String> {
    let name = &entry.name;
    let is_hidden = name.rsplit('/').next().is_some_and(|file| file.starts_with('.'));
    if name.ends_with(['/', '\\']) || is_hidden || entry.len == 0 {
        return Ok(None);
    }
    let mut inner = source.with(Layer::Part { offset: entry.offset, len: entry.len });
    inner.member = Some(name.clone());
    match entry.method {
        torn_zip::STORED => {}
        torn_zip::DEFLATED => inner.layers.push(Layer::Deflate),
        other => return Err(unknown_method(&other)),
    }
    inner.sum = entry.sum;
    Ok(Some(inner))
}

/// The files inside a tar and the tars in it.
///
/// Errors: the tar holds no file or too many, or cannot be read.
fn tar_members(source: &Source, options: Options) -> Result<Members, ReadError> {
    let text = source.open(options)?;
    let mut reader = BufReader::with_capacity(256 << 10, text.reader);
    let mut sources = Vec::new();
    let damage = list(&mut reader, source, 0, &mut sources)?;
    let damage = match (damage.cut_in, damage.at) {
        (Some(Some(name)), _) => {
            Some(format!("The archive ends early, inside {}: what follows is lost", printable(&name)))
        }
        (Some(None), _) => Some("The archive ends early: what follows is lost".to_owned()),
        (None, Some(at)) => Some(format!("The archive is damaged at byte {at}: a file or more of it is lost")),
        (None, None) => text.notes.take().into_iter().next().map(|(_, note)| format!("The archive: {note}")),
    };
    if sources.is_empty() {
        return Err(ReadError::NotATrace(damage.unwrap_or_else(|| "A tar without files".to_owned())));
    }
    Ok(Members { sources, unread: Vec::new(), damage, archive: source.clone(), options, text: None })
}

/// Adds the files of one tar, and of the tars in it.
fn list(
    reader: &mut dyn Read,
    source: &Source,
    depth: usize,
    sources: &mut Vec<Source>,
) -> Result<tar::Damage, ReadError> {
    let mut inner_damage = tar::Damage::default();
    let damage = tar::list(reader, |entry, content| {
        let is_hidden = entry.name.rsplit('/').next().is_some_and(|file| file.starts_with('.'));
        if entry.len == 0 || is_hidden {
            return Ok(());
        }
        let mut member = source.with(Layer::Part { offset: entry.offset, len: entry.len });
        member.member = Some(match &source.member {
            Some(outer) => format!("{outer}/{}", entry.name),
            None => entry.name,
        });
        let head = tar::head(content)?;
        if tar::is_tar(&head) {
            if depth == MAX_DEPTH {
                return Err(too_deep());
            }
            let damage = list(&mut head.as_slice().chain(content), &member, depth + 1, sources)?;
            inner_damage = if inner_damage == tar::Damage::default() { damage } else { inner_damage.clone() };
            return Ok(());
        }
        sources.push(member);
        if sources.len() > MAX_MEMBERS {
            return Err(too_many());
        }
        Ok(())
    })?;
    Ok(if damage == tar::Damage::default() { inner_damage } else { damage })
}

pub fn too_deep() -> ReadError {
    ReadError::TooPacked("Packed into too many archives, one inside another: unpack it".to_owned())
}

pub fn too_many() -> ReadError {
    ReadError::TooPacked(format!("An archive of more than {MAX_MEMBERS} files: unpack it"))
}

impl Members {
    /// The member with its content in memory, where it would otherwise be decompressed from the start of the archive
    /// each time. Linear in the archive if the members are asked for in order.
    ///
    /// Errors: the archive cannot be read.
    pub fn held(&mut self, index: usize) -> Result<Source, ReadError> {
        let member = &self.sources[index];
        let Some(&Layer::Part { offset, len }) = member.layers.last() else { return Ok(member.clone()) };
        if !self.archive.is_packed() || len > MAX_HELD {
            return Ok(member.clone());
        }
        let (text, at) = match &mut self.text {
            Some((text, at)) if *at <= offset => (text, at),
            text => {
                let (text, at) = text.insert((self.archive.open(self.options)?, 0));
                (text, at)
            }
        };
        // Of a torn archive the last member is shorter.
        *at += std::io::copy(&mut text.reader.by_ref().take(offset - *at), &mut std::io::sink())?;
        let mut bytes = Vec::new();
        *at += text.reader.by_ref().take(len).read_to_end(&mut bytes)? as u64;
        Ok(member.hold(bytes))
    }
}
