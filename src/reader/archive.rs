//! Compressed files, UTF-16 text and archives.

use std::fs::File;

use super::format::{Contents, FileFormat};
use super::source::{Layer, Source};
use super::{Options, ReadError};

pub const GZIP: FileFormat = FileFormat {
    name: "gzip",
    extensions: &["gz", "tgz"],
    sniff: |head| head.bytes.starts_with(&[0x1f, 0x8b]),
    contents: Contents::Wrapped(|source| Ok(source.with(Layer::Gzip))),
};

pub const ZSTD: FileFormat = FileFormat {
    name: "Zstandard",
    extensions: &["zst"],
    sniff: |head| head.bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]),
    contents: Contents::Wrapped(|source| Ok(source.with(Layer::Zstd))),
};

pub const ZIP: FileFormat = FileFormat {
    name: "zip",
    extensions: &["zip"],
    sniff: |head| matches!(head.bytes, [b'P', b'K', 3 | 5 | 7, ..]),
    contents: Contents::Wrapped(zip_member),
};

pub const TAR: FileFormat = FileFormat {
    name: "tar",
    extensions: &["tar"],
    sniff: |head| head.bytes.get(257..262) == Some(b"ustar"),
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

/// Members of one archive that are opened at once.
const MAX_MEMBERS: usize = 4096;

/// The one file inside a zip.
///
/// Nothing is extracted to disk, so path traversal in member names has no effect.
///
/// Errors: the zip holds no file or several, is encrypted or damaged, or is nested in another archive.
fn zip_member(source: &Source) -> Result<Source, ReadError> {
    let refuse = |text: String| Err(ReadError::NotATrace(text));
    if !source.layers.is_empty() {
        return refuse("A zip file inside another compressed file: unpack it".to_owned());
    }
    let mut archive = match zip::ZipArchive::new(File::open(&source.path)?) {
        Ok(archive) => archive,
        Err(error) => return refuse(format!("A damaged zip file ({error})")),
    };
    let names: Vec<String> = archive.file_names().flatten().map(std::borrow::Cow::into_owned).collect();
    let names: Vec<String> = names.into_iter().filter(|name| !name.ends_with('/')).collect();
    if names.iter().any(|name| name.ends_with("/data.pkl") || name == "data.pkl") {
        return refuse(
            "A torch.save archive, not a memory snapshot: write one with `torch.cuda.memory._dump_snapshot(FILE)`"
                .to_owned(),
        );
    }
    let [name] = names.as_slice() else {
        let shown: Vec<String> = names.iter().take(5).map(|name| name.escape_debug().to_string()).collect();
        let list = shown.join(", ");
        return refuse(format!("A zip of {} files ({list}): unpack it and open the traces in it", names.len()));
    };
    let member = match archive.by_name(name) {
        Ok(member) => member,
        Err(error) => return refuse(format!("Cannot read the file inside this zip ({error})")),
    };
    let offset = member.data_start().unwrap_or(0);
    let part = Layer::Part { offset, len: member.compressed_size() };
    let mut inner = source.with(part);
    inner.member = Some(name.clone());
    match member.compression() {
        zip::CompressionMethod::Stored => {}
        zip::CompressionMethod::Deflated => inner.layers.push(Layer::Deflate),
        method => return refuse(format!("The zip uses an unsupported compression method ({method})")),
    }
    Ok(inner)
}

/// The files inside a tar, in order of name.
///
/// Errors: the tar holds no file, or cannot be read.
fn tar_members(source: &Source, options: Options) -> Result<Vec<Source>, ReadError> {
    let mut archive = tar::Archive::new(source.open(options)?.reader);
    let mut members = Vec::new();
    for entry in archive.entries()? {
        let entry = entry?;
        let is_file = entry.header().entry_type().is_file();
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let is_hidden = name.rsplit('/').next().is_some_and(|file| file.starts_with('.'));
        if is_file && entry.size() > 0 && !is_hidden {
            let part = Layer::Part { offset: entry.raw_file_position(), len: entry.size() };
            let mut member = source.with(part);
            member.member = Some(name);
            members.push(member);
        }
        if members.len() > MAX_MEMBERS {
            return Err(ReadError::NotATrace(format!("A tar of more than {MAX_MEMBERS} files: unpack it")));
        }
    }
    if members.is_empty() {
        return Err(ReadError::NotATrace("A tar without files".to_owned()));
    }
    members.sort_by(|a, b| a.member.cmp(&b.member));
    Ok(members)
}
