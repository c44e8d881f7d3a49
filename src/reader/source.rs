//! The source of a trace's text: a file and its layers of compression and archives.
//!
//! A [`Source`] is a description, not a stream: it can be reopened to decode one event on demand. Files are
//! read into owned memory, never mapped: if a mapped file is truncated by its writer, the process crashes.

use std::fs::{File, Metadata};
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{ImportReport, Severity};

use super::unpack::{Checked, open_layer};
use super::{Options, ReadError};

/// One layer, from the outside in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    Gzip,
    Zstd,
    /// Raw deflate, as inside a zip.
    Deflate,
    /// A member of an archive: its first byte and its length.
    Part {
        offset: u64,
        len: u64,
    },
    Utf16 {
        is_big_endian: bool,
    },
}

/// How to read a text: the file and its layers.
#[derive(Clone, Debug, Default)]
pub struct Source {
    pub path: PathBuf,
    pub layers: Vec<Layer>,
    /// Name within an archive.
    pub member: Option<String>,
    /// Size of the file on disk.
    pub bytes: u64,
    /// The file as it was when it was first opened.
    pub stamp: Stamp,
    /// Bytes of text that were read so far of all files inside this one.
    pub(super) expanded: Arc<AtomicU64>,
    /// The text of the first layers, while an archive is read: their number and the text.
    pub(super) held: Option<(usize, Arc<Vec<u8>>)>,
    /// CRC-32 of the whole text, where the archive around it tells.
    pub(super) sum: Option<u32>,
}

/// Identity and state of a file, for noticing that it was changed or replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    modified: Option<std::time::SystemTime>,
    /// Seconds and nanoseconds at which the system last noted a change, where it does: programs that copy and unpack
    /// set `modified` back, which nothing does to this. Another name or other rights are a change, too.
    changed: (i64, i64),
    /// Number of the file on its disk, where the system has such numbers.
    number: u64,
    bytes: u64,
}

impl Stamp {
    fn of(metadata: &std::fs::Metadata) -> Self {
        #[cfg(unix)]
        let (number, changed) = {
            use std::os::unix::fs::MetadataExt as _;
            (metadata.ino(), (metadata.ctime(), metadata.ctime_nsec()))
        };
        #[cfg(not(unix))]
        let (number, changed) = (0, (0, 0));
        Self { modified: metadata.modified().ok(), changed, number, bytes: metadata.len() }
    }

    /// Whether the file is the same, with the same data as far as it is known, whatever it is called by now.
    fn is_of_same_data(self, other: Self) -> bool {
        Self { changed: other.changed, ..self } == other
    }
}

/// Problems of the layers, noted while the text is read.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<Vec<(Severity, String)>>>);

impl Notes {
    pub fn add(&self, severity: Severity, text: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((severity, text.into()));
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Adds all notes so far to a report. What is worse than a note says that the text is not all that was packed.
    pub fn report(&self, import: &mut ImportReport) {
        for (severity, note) in self.take() {
            import.is_partial |= severity > Severity::Note;
            import.note(severity, &note, 1, None);
        }
    }

    /// All notes so far.
    pub fn take(&self) -> Vec<(Severity, String)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A compressed file that expands more than this is opened only with the user's consent: the highest ratio
/// measured of real traces is 30.
const MAX_RATIO: u64 = 200;

/// Smaller texts are read at any ratio.
const MAX_UNASKED: u64 = 64 << 20;

/// An open text.
pub struct Text {
    pub reader: Box<dyn Read + Send>,
    pub notes: Notes,
    /// Bytes of the file read so far, for progress.
    pub file_bytes: Arc<AtomicU64>,
}

impl Source {
    /// The plain file.
    ///
    /// Errors: the file does not exist, or is not a regular file.
    pub fn file(path: &Path) -> Result<Self, ReadError> {
        let metadata = std::fs::metadata(path)?;
        if metadata.is_dir() {
            return Err(ReadError::NotATrace("This is a folder: open the files in it".to_owned()));
        }
        if !metadata.is_file() {
            return Err(ReadError::NotATrace(
                "This is a device or a pipe, not a file: save the trace first".to_owned(),
            ));
        }
        if metadata.len() == 0 {
            let text = "The file is empty (0 bytes): its writer was stopped before it wrote anything";
            return Err(ReadError::NotATrace(text.to_owned()));
        }
        let (bytes, stamp) = (metadata.len(), Stamp::of(&metadata));
        Ok(Self { path: path.to_owned(), bytes, stamp, ..Self::default() })
    }

    /// The same with one more layer inside.
    pub fn with(&self, layer: Layer) -> Self {
        let mut source = Self { sum: None, ..self.clone() };
        let n_held = self.held.as_ref().map_or(0, |held| held.0);
        match (source.layers.last_mut(), &layer) {
            // A part of a part is a part.
            (Some(Layer::Part { offset, len }), Layer::Part { offset: inner, len: inner_len })
                if self.layers.len() > n_held =>
            {
                (*offset, *len) = (offset.saturating_add(*inner), (*inner_len).min(len.saturating_sub(*inner)));
            }
            _ => source.layers.push(layer),
        }
        source
    }

    /// The same with its text in memory.
    pub fn hold(&self, text: Vec<u8>) -> Self {
        Self { held: Some((self.layers.len(), Arc::new(text))), ..self.clone() }
    }

    /// The same without text in memory.
    pub fn release(&self) -> Self {
        Self { held: None, ..self.clone() }
    }

    /// Whether a part of the text can only be reached by reading all before it.
    pub fn is_packed(&self) -> bool {
        let n_held = self.held.as_ref().map_or(0, |held| held.0);
        self.layers[n_held..].iter().any(|layer| !matches!(layer, Layer::Part { .. }))
    }

    /// Whether nothing at all happened to the file since it was first opened, not even to its name: while it is read.
    pub fn is_untouched(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|found| Stamp::of(&found) == self.stamp)
    }

    /// Errors: a sentence that the file is gone or has changed since it was first opened.
    pub fn check_unchanged(&self) -> Result<(), String> {
        self.check(std::fs::metadata(&self.path))
    }

    /// Errors: a sentence that an open file is not the one that was first opened, or has changed.
    pub fn check_opened(&self, file: &File) -> Result<(), String> {
        self.check(file.metadata())
    }

    fn check(&self, found: std::io::Result<Metadata>) -> Result<(), String> {
        let metadata = found.map_err(|error| format!("The file is gone ({error})"))?;
        match Stamp::of(&metadata).is_of_same_data(self.stamp) {
            true => Ok(()),
            false => Err("The file has changed since it was read: open it again to see details".to_owned()),
        }
    }

    /// Opens the text at its start.
    ///
    /// Errors: the file cannot be opened.
    pub fn open(&self, options: Options) -> Result<Text, ReadError> {
        match &self.held {
            Some((n_layers, text)) => {
                let held = Box::new(Cursor::new(Held(Arc::clone(text))));
                self.text_of(held, &self.layers[*n_layers..], options)
            }
            None => self.text_of(Box::new(File::open(&self.path)?), &self.layers, options),
        }
    }

    /// The text of a file that is open, or of what is inside the first of its layers.
    fn text_of(&self, mut file: Box<dyn ReadSeek>, mut layers: &[Layer], options: Options) -> Result<Text, ReadError> {
        let (notes, file_bytes) = (Notes::default(), Arc::new(AtomicU64::new(0)));
        let mut reader: Box<dyn Read + Send> = match layers {
            [Layer::Part { offset, len }, rest @ ..] => {
                layers = rest;
                file.seek(SeekFrom::Start(*offset))?;
                Box::new(Counting { inner: file.take(*len), count: Arc::clone(&file_bytes) })
            }
            _ => Box::new(Counting { inner: file, count: Arc::clone(&file_bytes) }),
        };
        for layer in layers {
            let limit = Limit { consumed: Arc::clone(&file_bytes), produced: 0, is_open: options.allow_any_ratio };
            reader = open_layer(layer, reader, limit, &notes)?;
        }
        if let Some(sum) = self.sum {
            reader = Box::new(Checked::new(reader, sum, notes.clone()));
        }
        if self.member.is_some() && !options.allow_any_ratio {
            reader = Box::new(OfArchive { inner: reader, expanded: Arc::clone(&self.expanded), bytes: self.bytes });
        }
        Ok(Text { reader, notes, file_bytes })
    }

    /// Whether the files inside this one have taken all that they may expand to.
    pub fn is_exhausted(&self) -> bool {
        is_too_much(self.expanded.load(Ordering::Relaxed), self.bytes)
    }

    /// Opens the text at a byte offset: by seeking where the file is plain, else by reading up to
    /// there.
    ///
    /// Errors: the file is gone, has changed since it was first opened, or cannot be read.
    pub fn open_at(&self, offset: u64) -> Result<Box<dyn Read + Send>, ReadError> {
        let open_file = || {
            let file = File::open(&self.path)?;
            // What is open is asked, not what has its name by then.
            self.check_opened(&file).map_err(ReadError::NotATrace)?;
            Ok::<_, ReadError>(file)
        };
        match self.layers.as_slice() {
            [] => {
                let mut file = open_file()?;
                file.seek(SeekFrom::Start(offset))?;
                Ok(Box::new(file))
            }
            layers => {
                let options = Options { allow_any_ratio: true };
                let mut text = match self.held {
                    Some(_) => self.open(options)?,
                    None => self.text_of(Box::new(open_file()?), layers, options)?,
                };
                let skipped = std::io::copy(&mut text.reader.by_ref().take(offset), &mut std::io::sink())?;
                if skipped < offset {
                    return Err(ReadError::NotATrace("The file is shorter than when it was read".to_owned()));
                }
                Ok(text.reader)
            }
        }
    }
}

trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

/// Shared bytes.
struct Held(Arc<Vec<u8>>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Counts the bytes of the file that were read.
struct Counting<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Protects against a small file that exhausts memory.
pub struct Limit {
    consumed: Arc<AtomicU64>,
    produced: u64,
    is_open: bool,
}

impl Limit {
    /// Counts bytes of text.
    ///
    /// Errors: [`NeedsConsent`], of too many for the bytes of the file.
    pub fn check(&mut self, n: usize) -> std::io::Result<()> {
        self.produced += n as u64;
        match self.is_open || !is_too_much(self.produced, self.consumed.load(Ordering::Relaxed)) {
            true => Ok(()),
            false => Err(std::io::Error::other(NeedsConsent)),
        }
    }
}

/// Whether a text is too large for so many bytes of a file.
pub fn is_too_much(produced: u64, consumed: u64) -> bool {
    produced >= MAX_UNASKED && produced / consumed.max(1) > MAX_RATIO
}

/// A file inside an archive, whose files together are held to the same ratio as one.
struct OfArchive<R> {
    inner: R,
    expanded: Arc<AtomicU64>,
    /// Size of the archive.
    bytes: u64,
}

impl<R: Read> Read for OfArchive<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        let expanded = self.expanded.fetch_add(n as u64, Ordering::Relaxed) + n as u64;
        if is_too_much(expanded, self.bytes) { Err(std::io::Error::other(NeedsConsent)) } else { Ok(n) }
    }
}

/// The text is much larger than its file.
#[derive(Debug, thiserror::Error)]
#[error("Decompresses to more than 200 times its size, which no real trace does: open it only if you trust it")]
pub struct NeedsConsent;
