//! Lists the files of a tar archive as it streams by, finding the way around damage.
//!
//! Format: POSIX.1-2017, `pax`, "ustar Interchange Format" and "pax Header Block"; long names as GNU tar writes them.

use std::io::{ErrorKind, Read, Result};

/// Headers and contents are padded to blocks of this many bytes.
const BLOCK: usize = 512;

/// Longest extended header that is read; longer ones are skipped.
const MAX_EXTENDED: u64 = 1 << 20;

/// First bytes of a file that are passed on with it.
const HEAD: u64 = 512;

/// A regular file in an archive.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    /// First byte within the archive.
    pub offset: u64,
    pub len: u64,
}

/// How the list ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Offset of the first block that is not a header where one should be.
    pub at: Option<u64>,
    /// The archive ends early: inside this file, or between files.
    pub cut_in: Option<Option<String>>,
}

/// Whether a file with these first bytes is a tar archive.
pub fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

/// Extended headers that apply to the next file.
#[derive(Debug, Default)]
struct Extended {
    name: Option<String>,
    len: Option<u64>,
}

/// Calls `each` for every regular file, with a reader of its content, of which it may leave any part.
///
/// Errors: those of `each`, and of reading except for an early end.
pub fn list<E: From<std::io::Error>>(
    reader: &mut dyn Read,
    mut each: impl FnMut(Entry, &mut dyn Read) -> std::result::Result<(), E>,
) -> std::result::Result<Damage, E> {
    let (mut at, mut n_blank, mut damage, mut extended) = (0_u64, 0, Damage::default(), Extended::default());
    loop {
        let mut block = [0; BLOCK];
        let n = fill(reader, &mut block)?;
        if n < BLOCK {
            // An archive may lack its last blank blocks; but a torn one usually ends inside a file.
            damage.cut_in = damage.cut_in.or_else(|| (n > 0).then_some(None));
            return Ok(damage);
        }
        at += BLOCK as u64;
        n_blank = if block == [0; BLOCK] { n_blank + 1 } else { 0 };
        if n_blank == 2 {
            return Ok(damage);
        }
        if n_blank == 1 {
            continue;
        }
        let Some(len) = length(&block) else {
            damage.at = damage.at.or(Some(at - BLOCK as u64));
            extended = Extended::default();
            continue;
        };
        let padding = |len: u64| len.next_multiple_of(BLOCK as u64) - len;
        match block[156] {
            kind @ (b'L' | b'x') if len <= MAX_EXTENDED => {
                let mut text = Vec::new();
                reader.take(len).read_to_end(&mut text)?;
                extended.read(kind, &text);
                at += len + skip(reader, padding(len))?;
            }
            kind => {
                let Extended { name, len: longer } = std::mem::take(&mut extended);
                let len = longer.unwrap_or(len);
                let name = name.unwrap_or_else(|| name_of(&block));
                let mut content = reader.take(len);
                if matches!(kind, b'0' | b'7' | 0) {
                    each(Entry { name: name.clone(), offset: at, len }, &mut content)?;
                }
                let left = content.limit();
                if skip(reader, left)? < left {
                    return Ok(Damage { cut_in: Some(Some(name)), ..damage });
                }
                skip(reader, padding(len))?;
                at = at.saturating_add(len).saturating_add(padding(len));
            }
        }
    }
}

/// The first bytes of a file's content.
///
/// Errors: it cannot be read.
pub fn head(content: &mut dyn Read) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    content.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}

impl Extended {
    fn read(&mut self, kind: u8, text: &[u8]) {
        if kind == b'L' {
            self.name = Some(until_nul(text));
            return;
        }
        // Records of `length key=value\n`, the length in decimal and of the whole record.
        let mut rest = text;
        while let Some(space) = rest.iter().position(|&byte| byte == b' ') {
            let len = std::str::from_utf8(&rest[..space]).ok().and_then(|digits| digits.parse::<usize>().ok());
            let Some(record) = len.filter(|&len| len > space).and_then(|len| rest.get(space + 1..len)) else { return };
            match record.strip_suffix(b"\n").unwrap_or(record) {
                [b'p', b'a', b't', b'h', b'=', path @ ..] => self.name = Some(until_nul(path)),
                [b's', b'i', b'z', b'e', b'=', size @ ..] => {
                    self.len = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
                }
                _ => {}
            }
            rest = &rest[space + 1 + record.len()..];
        }
    }
}

/// The length of the file behind a header; `None` if the block is not a header.
fn length(block: &[u8; BLOCK]) -> Option<u64> {
    let sum = |range: std::ops::Range<usize>| block[range].iter().map(|&byte| u64::from(byte)).sum::<u64>();
    // The checksum counts as spaces.
    let sum = sum(0..148) + 8 * u64::from(b' ') + sum(156..BLOCK);
    if !is_tar(block) || number(&block[148..156]) != Some(sum) {
        return None;
    }
    number(&block[124..136])
}

/// A number in octal digits or, as GNU tar writes large ones, in binary.
fn number(field: &[u8]) -> Option<u64> {
    if let [0x80, binary @ ..] = field {
        let (high, low) = binary.split_at(binary.len().saturating_sub(8));
        let is_small = high.iter().all(|&byte| byte == 0) && low.first()? & 0x80 == 0;
        return is_small.then(|| low.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)));
    }
    let text = until_nul(field);
    u64::from_str_radix(text.trim(), 8).ok()
}

fn name_of(block: &[u8; BLOCK]) -> String {
    let (name, prefix) = (until_nul(&block[..100]), until_nul(&block[345..500]));
    // GNU tar keeps times where POSIX has the first part of a long name.
    let is_posix = block[257..263] == *b"ustar\0";
    if is_posix && !prefix.is_empty() { format!("{prefix}/{name}") } else { name }
}

fn until_nul(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

/// Reads until the buffer is full or the text ends; returns the number of bytes.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match reader.read(&mut buffer[n..]) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}

/// Returns how many bytes there were to skip.
fn skip(reader: &mut dyn Read, n: u64) -> Result<u64> {
    std::io::copy(&mut reader.take(n), &mut std::io::sink())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, len: usize, kind: u8) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[124..135].copy_from_slice(format!("{len:011o}").as_bytes());
        block[156] = kind;
        block[257..263].copy_from_slice(b"ustar\0");
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block
    }

    fn file(name: &str, content: &str) -> Vec<u8> {
        let mut bytes = header(name, content.len(), b'0').to_vec();
        bytes.extend_from_slice(content.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }

    /// Names and contents, with where they are.
    fn read(bytes: &[u8]) -> (Vec<(String, String)>, Damage) {
        let mut found = Vec::new();
        let damage = list::<std::io::Error>(&mut &bytes[..], |entry, content| {
            let mut text = String::new();
            content.read_to_string(&mut text)?;
            let offset = entry.offset as usize;
            assert!(bytes[offset..].starts_with(text.as_bytes()));
            found.push((entry.name, text));
            Ok(())
        });
        (found, damage.unwrap())
    }

    fn all() -> Vec<u8> {
        [file("a", "1"), file("b", &"2".repeat(700)), file("c", "3"), vec![0; 2 * BLOCK]].concat()
    }

    fn names(bytes: &[u8]) -> (String, Damage) {
        let (found, damage) = read(bytes);
        (found.into_iter().map(|(name, _)| name).collect(), damage)
    }

    #[test]
    fn whole_archives_have_no_damage() {
        assert_eq!(names(&all()), ("abc".to_owned(), Damage::default()));
        assert_eq!(names(&all()[..512 * 7]), ("abc".to_owned(), Damage::default()));
    }

    #[test]
    fn a_damaged_header_costs_its_file() {
        let mut bytes = all();
        bytes[1024 + 3] = b'x';
        assert_eq!(names(&bytes), ("ac".to_owned(), Damage { at: Some(1024), cut_in: None }));
        bytes[1024..1536].fill(0);
        assert_eq!(names(&bytes), ("ac".to_owned(), Damage { at: Some(1536), cut_in: None }));
    }

    #[test]
    fn a_torn_archive_names_the_file_it_ends_in() {
        let (found, damage) = names(&all()[..1700]);
        assert_eq!((found.as_str(), damage.cut_in), ("ab", Some(Some("b".to_owned()))));
        assert_eq!(names(&all()[..1100]).1.cut_in, Some(None));
    }

    #[test]
    fn long_names_are_read() {
        let long = "d/".repeat(100) + "e";
        let gnu = [header("././@LongLink", long.len(), b'L').to_vec(), long.clone().into_bytes()].concat();
        let record = format!("path={long}\n");
        let len = record.len() + 4;
        let pax = format!("{len} {record}");
        let pax = [header("p", pax.len(), b'x').to_vec(), pax.into_bytes()].concat();
        for mut extended in [gnu, pax] {
            extended.resize(extended.len().next_multiple_of(BLOCK), 0);
            let (found, _) = read(&[extended, file("short", "1")].concat());
            assert_eq!(found, [(long.clone(), "1".to_owned())]);
        }
    }

    #[test]
    fn sizes_may_be_binary() {
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]), Some(258));
        assert_eq!(
            (number(b"0000017 \0"), number(b"x"), number(&[0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])),
            (Some(15), None, None)
        );
    }
}
