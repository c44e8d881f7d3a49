//! Decoders that end a text at damage, and keep what stands before it.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};

use flate2::{Crc, Decompress, FlushDecompress, Status};

use crate::model::Severity;

use super::ReadError;
use super::source::{Layer, Limit, Notes};

/// Logarithm of the largest window that Zstandard has, `--long=31`. Its memory is touched only as far as the text
/// reaches.
const MAX_WINDOW_LOG: u32 = 31;

/// Bytes that are asked of Zstandard at once: a call that finds damage drops what it decoded before.
const ZSTD_STEP: usize = 4 << 10;

/// Logarithm of the window of every gzip file.
const GZIP_WINDOW_LOG: u8 = 15;

/// Opens one layer.
///
/// Errors: of reading, where bytes before the layer's first have to be skipped.
pub fn open_layer(
    layer: &Layer,
    reader: Box<dyn Read + Send>,
    limit: Limit,
    notes: &Notes,
) -> std::result::Result<Box<dyn Read + Send>, ReadError> {
    let buffered = BufReader::with_capacity(256 << 10, reader);
    let notes = notes.clone();
    Ok(match layer {
        Layer::Gzip => Box::new(Tolerant { inner: Gzip::new(buffered, notes.clone()), limit, notes }),
        Layer::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(buffered)?;
            decoder.window_log_max(MAX_WINDOW_LOG)?;
            Box::new(Tolerant { inner: Stepwise(decoder), limit, notes })
        }
        Layer::Deflate => Box::new(Tolerant { inner: Inflate::new(buffered, Decompress::new(false)), limit, notes }),
        Layer::Part { offset, len } => {
            let mut buffered = buffered;
            std::io::copy(&mut buffered.by_ref().take(*offset), &mut std::io::sink())?;
            Box::new(buffered.take(*len))
        }
        Layer::Utf16 { is_big_endian } => {
            Box::new(Utf16 { inner: buffered, is_big_endian: *is_big_endian, out: Vec::new(), at: 0, high: None })
        }
    })
}

/// Of the messages of decoders, parts of those that say that the text is not what was packed.
const WRONG_SUM: [&str; 3] = ["checksum", "incorrect data check", "incorrect length check"];

/// Ends the text at damage instead of failing, keeping the text decoded so far.
struct Tolerant<R> {
    inner: R,
    limit: Limit,
    notes: Notes,
}

impl<R: Read> Read for Tolerant<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self.inner.read(buffer) {
            Ok(n) => self.limit.check(n).map(|()| n),
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let text = match error.kind() {
                    ErrorKind::UnexpectedEof => {
                        "The compressed data ends early: what could be decoded is shown".to_owned()
                    }
                    _ if error.to_string().contains("memory") => {
                        "Compressed with a window larger than the available memory: decompress it elsewhere, or \
                         compress it without `--long`"
                            .to_owned()
                    }
                    _ if WRONG_SUM.iter().any(|wrong| error.to_string().contains(wrong)) => {
                        "The checksum of the compressed data is wrong: the file was changed or cut".to_owned()
                    }
                    _ => format!("The compressed data is damaged: what could be decoded is shown ({error})"),
                };
                self.notes.add(Severity::Warn, text);
                Ok(0)
            }
        }
    }
}

/// The text of one deflate stream or gzip member, up to the byte at which it is damaged. The readers of `flate2` drop
/// what they decoded in the call that finds the damage.
struct Inflate<R> {
    inner: R,
    decoder: Decompress,
    has_ended: bool,
    /// Damage behind the text that was given last.
    damage: Option<Error>,
}

impl<R: BufRead> Inflate<R> {
    fn new(inner: R, decoder: Decompress) -> Self {
        Self { inner, decoder, has_ended: false, damage: None }
    }
}

impl<R: BufRead> Read for Inflate<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if let Some(damage) = self.damage.take() {
            self.has_ended = true;
            return Err(damage);
        }
        while !self.has_ended && !buffer.is_empty() {
            let input = self.inner.fill_buf()?;
            let is_last = input.is_empty();
            let flush = if is_last { FlushDecompress::Finish } else { FlushDecompress::None };
            let (n_in, n_out) = (self.decoder.total_in(), self.decoder.total_out());
            let status = self.decoder.decompress(input, buffer, flush);
            self.inner.consume((self.decoder.total_in() - n_in) as usize);
            let n = (self.decoder.total_out() - n_out) as usize;
            self.has_ended = matches!(status, Ok(Status::StreamEnd));
            match status {
                Ok(_) if n > 0 => return Ok(n),
                Ok(_) if is_last && !self.has_ended => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) => {
                    let damage = Error::new(ErrorKind::InvalidData, error);
                    if n == 0 {
                        return Err(damage);
                    }
                    self.damage = Some(damage);
                    return Ok(n);
                }
            }
        }
        Ok(0)
    }
}

/// All members of a gzip file in sequence; trailing bytes are noted.
struct Gzip<R> {
    member: Inflate<R>,
    notes: Notes,
}

impl<R: BufRead> Gzip<R> {
    fn new(inner: R, notes: Notes) -> Self {
        Self { member: Inflate::new(inner, Decompress::new_gzip(GZIP_WINDOW_LOG)), notes }
    }
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let n = self.member.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                return Ok(n);
            }
            match self.member.inner.fill_buf()? {
                [] => return Ok(0),
                [0x1f, 0x8b, ..] | [0x1f] => {
                    self.member.decoder = Decompress::new_gzip(GZIP_WINDOW_LOG);
                    self.member.has_ended = false;
                }
                rest => {
                    let n = rest.len();
                    self.member.inner.consume(n);
                    self.notes.add(Severity::Note, "Bytes after the end of the compressed data: not read");
                    return Ok(0);
                }
            }
        }
    }
}

/// Asks for little at once.
struct Stepwise<R>(R);

impl<R: Read> Read for Stepwise<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let n = buffer.len().min(ZSTD_STEP);
        self.0.read(&mut buffer[..n])
    }
}

/// Notes a text that is not the one of which an archive has the checksum.
pub struct Checked<R> {
    inner: R,
    sum: Crc,
    wanted: u32,
    notes: Notes,
}

impl<R: Read> Checked<R> {
    /// * `wanted`: CRC-32 of the whole text.
    pub fn new(inner: R, wanted: u32, notes: Notes) -> Self {
        Self { inner, sum: Crc::new(), wanted, notes }
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let n = self.inner.read(buffer)?;
        self.sum.update(&buffer[..n]);
        // A text that ended at damage has been noted.
        if n == 0 && !buffer.is_empty() && self.sum.sum() != self.wanted && self.notes.is_empty() {
            self.notes.add(Severity::Warn, "Its checksum in the archive is another: the file was changed");
        }
        Ok(n)
    }
}

/// UTF-16 to UTF-8.
struct Utf16<R> {
    inner: R,
    is_big_endian: bool,
    out: Vec<u8>,
    at: usize,
    /// First half of a surrogate pair.
    high: Option<u16>,
}

impl<R: Read> Utf16<R> {
    fn refill(&mut self) -> Result<()> {
        let mut raw = Vec::new();
        self.inner.by_ref().take(64 << 10).read_to_end(&mut raw)?;
        let (pairs, _) = raw.as_chunks::<2>();
        let units = pairs.iter().map(|&pair| match self.is_big_endian {
            true => u16::from_be_bytes(pair),
            false => u16::from_le_bytes(pair),
        });
        let mut units: Vec<u16> = self.high.take().into_iter().chain(units).collect();
        if !raw.is_empty() && units.last().is_some_and(|unit| (0xD800..0xDC00).contains(unit)) {
            self.high = units.pop();
        }
        self.out = String::from_utf16_lossy(&units).into_bytes();
        self.at = 0;
        Ok(())
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.at == self.out.len() {
            self.refill()?;
        }
        let n = buffer.len().min(self.out.len() - self.at);
        buffer[..n].copy_from_slice(&self.out[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
