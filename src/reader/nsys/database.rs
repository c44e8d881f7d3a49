//! Opens an untrusted SQLite file safely, without writing beside it.

use std::fs::File;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use crate::job::Progress;
use crate::model::Severity;
use crate::scratch::{self, Scratch};

use super::super::source::Source;
use super::super::{Options, ReadError};
use super::pages;

/// Longest text that is read from a cell; longer ones cost their row.
pub const MAX_CELL: i32 = 16 << 20;

/// SQLite VM steps between calls of the progress handler.
const STEPS: i32 = 20_000;

/// A query that yields no row within this many calls of the handler is interrupted: 40 billion steps take
/// minutes.
const MAX_CALLS_WITHOUT_A_ROW: u32 = 20_000;

/// A database file that any number of connections can open.
#[derive(Debug)]
pub struct Database {
    /// The file to open: the user's, or a copy of it.
    path: PathBuf,
    /// The folder of the copy.
    _copy: Option<Scratch>,
    /// Notes for the user about how it was opened.
    pub notes: Vec<(Severity, &'static str)>,
    /// The header requires a write-ahead log, which is missing.
    pub lacks_log: bool,
}

/// Interrupts a running query when cancelled or without progress.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    is_cancelled: Arc<AtomicBool>,
    n_calls: Arc<AtomicU32>,
}

impl Interrupt {
    /// Notes that a row arrived; returns whether to continue.
    pub fn saw_row(&self, progress: &Progress) -> bool {
        self.n_calls.store(0, Ordering::Relaxed);
        if progress.is_cancelled() {
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
        !progress.is_cancelled()
    }
}

fn not_a_trace(text: impl Into<String>) -> ReadError {
    ReadError::NotATrace(text.into())
}

impl Database {
    /// More rows than this no table of the file can have: each takes four bytes or more.
    pub fn most_rows(&self) -> u64 {
        self.path.metadata().map_or(0, |data| data.len() / 4)
    }

    /// Checks the file's header, and copies the file where SQLite would have to write beside it.
    ///
    /// Errors: not a complete SQLite 3 database in UTF-8, or it cannot be read or copied.
    pub fn new(source: &Source, options: Options, progress: &Progress) -> Result<Self, ReadError> {
        if !source.layers.is_empty() {
            let copy = unpack(source, options, progress)?;
            let path = copy.path().join("export.sqlite");
            check_header(&path)?;
            return Ok(Self { path, _copy: Some(copy), notes: Vec::new(), lacks_log: false });
        }
        let is_wal = check_header(&source.path)?;
        let beside = |suffix: &str| {
            let mut name = source.path.as_os_str().to_owned();
            name.push(suffix);
            Some(PathBuf::from(name))
                .filter(|path| std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() > 0))
        };
        let log = if is_wal { beside("-wal").map(|path| (path, "-wal")) } else { None };
        let log = log.or_else(|| beside("-journal").map(|path| (path, "-journal")));
        let Some((log, suffix)) = log else {
            let notes = match is_wal {
                true => vec![(
                    Severity::Warn,
                    "Written through a write-ahead log (`-wal`), which is not beside the file: the last rows may be \
                     missing. Copy both files, or export again",
                )],
                false => Vec::new(),
            };
            return Ok(Self { path: source.path.clone(), _copy: None, notes, lacks_log: is_wal });
        };
        let copy = Scratch::for_copies().map_err(no_copy)?;
        let path = copy.path().join("export.sqlite");
        write(&mut File::open(&source.path)?, &path, progress)?;
        write(&mut File::open(log)?, &copy.path().join(format!("export.sqlite{suffix}")), progress)?;
        replay(&path).map_err(|error| not_a_trace(format!("The log beside the file cannot be replayed ({error})")))?;
        let text = "The program that wrote the file has not closed it, or was stopped: read from a copy with its log";
        Ok(Self { path, _copy: Some(copy), notes: vec![(Severity::Note, text)], lacks_log: false })
    }

    /// The file's pages.
    pub fn pages(&self) -> Option<pages::Reader> {
        pages::Reader::open(&self.path).ok()
    }

    /// A hardened connection.
    ///
    /// Errors: SQLite refuses the file.
    pub fn connect(&self, interrupt: &Interrupt) -> rusqlite::Result<Connection> {
        // Immutable: SQLite ignores logs and takes no lock, so it writes nothing.
        let mut connection = open(uri(&self.path, "ro&immutable=1"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let interrupt = interrupt.clone();
        let is_over = move || {
            interrupt.is_cancelled.load(Ordering::Relaxed)
                || interrupt.n_calls.fetch_add(1, Ordering::Relaxed) > MAX_CALLS_WITHOUT_A_ROW
        };
        connection.progress_handler(STEPS, Some(is_over))?;
        connection.execute_batch("PRAGMA query_only=ON; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;")?;
        Ok(connection)
    }
}

/// A connection in which nothing of the file is run.
fn open(uri: String, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags)?;
    for (config, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
    ] {
        connection.set_db_config(config, value)?;
    }
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_CELL),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
        (Limit::SQLITE_LIMIT_COLUMN, 2000),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 50),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 10),
        (Limit::SQLITE_LIMIT_VDBE_OP, 50_000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 10),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, value)?;
    }
    Ok(connection)
}

/// Puts what a log holds into the copy beside it, which can then be read as any other file.
fn replay(copy: &Path) -> rusqlite::Result<()> {
    let connection = open(uri(copy, "rw"), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Opening does it for a rollback journal; leaving the mode of a write-ahead log does it for that.
    connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
    connection.query_row("PRAGMA journal_mode=DELETE", [], |_| Ok(()))
}

fn no_copy(why: std::io::Error) -> ReadError {
    ReadError::NoCopy { folder: std::env::temp_dir(), why }
}

/// Writes all of `text` into a new private file.
fn write(text: &mut dyn Read, path: &Path, progress: &Progress) -> Result<(), ReadError> {
    let mut out = scratch::private_file(path).map_err(no_copy)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        if progress.is_cancelled() {
            return Err(ReadError::Cancelled);
        }
        match text.read(&mut buffer)? {
            0 => return Ok(()),
            n => out.write_all(&buffer[..n]).map_err(no_copy)?,
        }
    }
}

/// The path as an SQLite URI, with every special byte escaped.
///
/// On Windows it has forward slashes, the first of them before the drive.
///
/// Source: <https://www.sqlite.org/uri.html>
fn uri(path: &Path, mode: &str) -> String {
    use std::fmt::Write as _;
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = if cfg!(windows) { "file:/" } else { "file:" }.to_owned();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b'/' | b'.' | b'_' | b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(byte)),
            // Writing into a String cannot fail.
            _ => _ = write!(uri, "%{byte:02x}"),
        }
    }
    uri + "?mode=" + mode
}

/// Writes a compressed database into a private folder: SQLite has to seek.
fn unpack(source: &Source, options: Options, progress: &Progress) -> Result<Scratch, ReadError> {
    let folder = Scratch::for_copies().map_err(no_copy)?;
    write(&mut source.open(options)?.reader, &folder.path().join("export.sqlite"), progress)?;
    Ok(folder)
}

/// Checks for damage that SQLite would accept or report unclearly; returns whether the file was written through a
/// write-ahead log.
///
/// Format: <https://www.sqlite.org/fileformat2.html#the_database_header>
fn check_header(path: &Path) -> Result<bool, ReadError> {
    let mut head = [0_u8; 100];
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    if len < head.len() as u64 || file.read_exact(&mut head).is_err() {
        return Err(not_a_trace("The SQLite file ends inside its header: the copy or export was cut off"));
    }
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let page_size = match u16::from_be_bytes([head[16], head[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    if !page_size.is_power_of_two() || page_size < 512 {
        return Err(not_a_trace(format!(
            "The SQLite header is damaged: a page size of {page_size} bytes is impossible"
        )));
    }
    if head[18] > 2 || head[19] > 2 {
        return Err(not_a_trace(format!(
            "The SQLite header is damaged, or of a future version of SQLite: format {} (known: 1 and 2)",
            head[18].max(head[19])
        )));
    }
    if matches!(number(56), 2 | 3) {
        return Err(not_a_trace("The SQLite file keeps its texts in UTF-16, which no export of Nsight Systems does"));
    }
    // The page count is valid only if it was written together with the change counter.
    let n_pages = u64::from(number(28));
    if number(24) == number(92) && n_pages * page_size > len {
        return Err(not_a_trace(format!(
            "The SQLite header says {n_pages} pages of {page_size} bytes, but the file has only {}: the copy was cut \
             off. Copy or export it again",
            len / page_size
        )));
    }
    Ok(head[18] == 2 || head[19] == 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn paths_become_escaped_uris() {
        let path = Path::new("/tmp/a b?mode=rwc&x#ü%41.sqlite");
        assert_eq!(uri(path, "ro"), "file:/tmp/a%20b%3fmode%3drwc%26x%23%c3%bc%2541.sqlite?mode=ro");
    }
}
