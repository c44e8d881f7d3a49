//! Lists the files of a zip that lost its own list, which stands at its end, by the header before each file.
//!
//! Format: APPNOTE.TXT of PKWARE, 4.3.7 "Local file header" and 4.3.9 "Data descriptor".

use std::io::{BufRead, BufReader, Read, Result, Seek, SeekFrom};

use super::source::is_too_much;

const HEADER: &[u8] = b"PK\x03\x04";
/// Length of a header without its name and extra fields.
const HEADER_LEN: usize = 30;
/// What may stand behind a file, whose length its header then lacks: at most so many bytes.
pub const MAX_DESCRIPTOR: u64 = 24;
/// Bytes that are read at once.
const BUFFER: usize = 256 << 10;

pub const STORED: u16 = 0;
pub const DEFLATED: u16 = 8;
const ENCRYPTED: u16 = 1;
const LENGTH_FOLLOWS: u16 = 8;
/// The extra field with lengths of 64 bits.
const ZIP64: u16 = 1;

/// A file in a zip.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    /// Its first byte, and how many there are of it.
    pub offset: u64,
    pub len: u64,
    pub method: u16,
    pub is_encrypted: bool,
    /// CRC-32 of its text, where it is known.
    pub sum: Option<u32>,
}

/// Lists the files; also the one in which the archive ends, if it does, which then is the last.
///
/// * `len`: the length of the archive.
/// * `most`: so many files are enough.
///
/// Returns the files, whether the last of them is cut, and the first byte that is not a header where one should be.
///
/// Errors: the archive cannot be read.
pub fn list(archive: impl Read + Seek, len: u64, most: usize) -> Result<(Vec<Entry>, bool, Option<u64>)> {
    let mut reader = BufReader::with_capacity(BUFFER, archive);
    let (mut entries, mut at, mut damage) = (Vec::new(), 0, None);
    // Not every header that is found is one.
    for _ in 0..2 * most {
        if entries.len() == most {
            break;
        }
        reader.seek(SeekFrom::Start(at))?;
        let Some((entry, flags)) = header(&mut reader, at)? else {
            let Some(next) = find(&mut reader, at + 1)? else { break };
            // Between files are at most the lengths of the one before.
            damage = damage.or_else(|| (next - at > MAX_DESCRIPTOR).then_some(at));
            at = next;
            continue;
        };
        let n = length(&mut reader, &entry, flags, len)?;
        let end = match n {
            Some(n) => entry.offset.saturating_add(n),
            None => find(&mut reader, entry.offset)?.unwrap_or(u64::MAX),
        };
        let is_cut = end > len;
        let inside = end.min(len).saturating_sub(entry.offset);
        entries.push(Entry { len: inside, sum: entry.sum.filter(|_| !is_cut), ..entry });
        if is_cut {
            return Ok((entries, true, damage));
        }
        at = end;
    }
    Ok((entries, false, damage))
}

/// The header at `at`, where the reader is, and its flags; the length of the file is that in the header.
fn header(reader: &mut impl Read, at: u64) -> Result<Option<(Entry, u16)>> {
    let mut head = Vec::new();
    reader.take(HEADER_LEN as u64).read_to_end(&mut head)?;
    if head.len() < HEADER_LEN || !head.starts_with(HEADER) {
        return Ok(None);
    }
    let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let long = |at: usize| u64::from(number(at)) | u64::from(number(at + 2)) << 16;
    let (n_name, n_extra) = (usize::from(number(26)), usize::from(number(28)));
    let mut rest = Vec::new();
    reader.take((n_name + n_extra) as u64).read_to_end(&mut rest)?;
    if rest.len() < n_name + n_extra {
        return Ok(None);
    }
    let len = Some(long(18)).filter(|&len| len < u64::from(u32::MAX)).or_else(|| long_length(&rest[n_name..]));
    let entry = Entry {
        name: String::from_utf8_lossy(&rest[..n_name]).into_owned(),
        offset: at + (HEADER_LEN + rest.len()) as u64,
        len: len.unwrap_or(u64::MAX),
        method: number(8),
        is_encrypted: number(6) & ENCRYPTED != 0,
        sum: (number(6) & LENGTH_FOLLOWS == 0).then_some(long(14) as u32),
    };
    Ok(Some((entry, number(6))))
}

/// The length that an extra field has.
fn long_length(mut extra: &[u8]) -> Option<u64> {
    loop {
        let (head, rest) = extra.split_first_chunk::<4>()?;
        let field = rest.get(..usize::from(u16::from_le_bytes([head[2], head[3]])))?;
        if u16::from_le_bytes([head[0], head[1]]) == ZIP64 {
            // That of the text comes first.
            return field.get(8..16)?.try_into().ok().map(u64::from_le_bytes);
        }
        extra = &rest[field.len()..];
    }
}

/// The length of a file, before whose first byte the reader is; `None` if it is not known. One that stands only behind
/// the file is that of its compressed stream, which knows its own end.
fn length(reader: &mut impl BufRead, entry: &Entry, flags: u16, archive: u64) -> Result<Option<u64>> {
    if flags & LENGTH_FOLLOWS == 0 || entry.len > 0 {
        return Ok(Some(entry.len));
    }
    if entry.method != DEFLATED {
        return Ok(None);
    }
    let mut stream = flate2::bufread::DeflateDecoder::new(reader);
    let (mut buffer, mut n) = (vec![0; BUFFER], 0);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(Some(stream.total_in())),
            Ok(some) if !is_too_much(n + some as u64, archive) => n += some as u64,
            // Damaged, cut, or too large to be read.
            Ok(_) | Err(_) => return Ok(None),
        }
    }
}

/// Where the next header may begin, at `at` or later.
fn find(reader: &mut (impl BufRead + Seek), mut at: u64) -> Result<Option<u64>> {
    reader.seek(SeekFrom::Start(at))?;
    let mut window: Vec<u8> = Vec::new();
    loop {
        let n_kept = window.len();
        reader.by_ref().take(BUFFER as u64).read_to_end(&mut window)?;
        if let Some(found) = memchr::memmem::find(&window, HEADER) {
            return Ok(Some(at + found as u64));
        }
        if window.len() == n_kept {
            return Ok(None);
        }
        let n_done = window.len().saturating_sub(HEADER.len() - 1);
        window.drain(..n_done);
        at += n_done as u64;
    }
}
