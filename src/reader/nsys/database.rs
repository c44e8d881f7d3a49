//! Opens an untrusted SQLite file safely, without writing beside it.

use std::fs::File;
use std::io::{Read, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use crate::job::Progress;
use crate::model::Severity;
use crate::scratch::{self, Scratch};

use super::super::source::Source;
use super::super::{Options, ReadError};
use super::{opened, pages};

/// Longest text that is read from a cell; longer ones cost their row.
pub const MAX_CELL: i32 = 16 << 20;

/// The same where columns are computed: a function of texts may take time in the square of their length, and is not
/// interrupted meanwhile.
const MAX_COMPUTED_CELL: i32 = 256 << 10;

/// SQLite VM steps between calls of the progress handler, and where columns are computed.
const STEPS: u32 = 20_000;
const COMPUTED_STEPS: u32 = 10;

/// A query that yields no row within this many steps is interrupted.
const MAX_STEPS_WITHOUT_A_ROW: u32 = 400_000_000;

/// The number that two bytes of UTF-16 stand for.
pub type Unit = fn([u8; 2]) -> u16;

/// A database file that any number of connections can open.
#[derive(Debug)]
pub struct Database {
    /// The file, and its path: the user's, or a copy of it.
    file: File,
    path: PathBuf,
    /// The folder of the copy.
    copy: Option<Arc<Scratch>>,
    /// How its texts are decoded, if they are in UTF-16: such tables are read through SQLite, unless damaged.
    pub utf16: Option<Unit>,
    /// Columns of some table are expressions, which SQLite computes: what they cost is bounded.
    pub is_computed: bool,
    /// What is known of records that go on on other pages.
    pub chains: Arc<pages::Known>,
    /// Notes for the user about how it was opened.
    pub notes: Vec<(Severity, String)>,
    /// The header requires a write-ahead log, which is missing.
    pub lacks_log: bool,
}

/// A database that was read. It holds no file open: a process may open few, and many exports may be shown at once.
#[derive(Debug)]
pub struct Closed {
    path: PathBuf,
    copy: Option<Arc<Scratch>>,
    utf16: Option<Unit>,
    is_computed: bool,
}

/// Interrupts a running query when cancelled, without progress, or when columns take too long to compute.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<State>);

#[derive(Debug)]
struct State {
    is_cancelled: AtomicBool,
    /// Since the last row.
    n_steps: AtomicU32,
    created: Instant,
    /// When computing columns has taken too long, in milliseconds since then.
    limit_ms: AtomicU64,
}

impl Interrupt {
    /// For reading a file of so many bytes, which takes a tenth of the time that it allows.
    pub fn of_reading(bytes: u64) -> Self {
        let interrupt = Self(Arc::new(State {
            is_cancelled: AtomicBool::default(),
            n_steps: AtomicU32::default(),
            created: Instant::now(),
            limit_ms: AtomicU64::default(),
        }));
        interrupt.restart(Duration::from_secs(5).saturating_add(Duration::from_micros(bytes)));
        interrupt
    }

    /// What follows may take so long.
    pub fn restart(&self, time: Duration) {
        self.0.n_steps.store(0, Ordering::Relaxed);
        let limit = self.0.created.elapsed().saturating_add(time).as_millis();
        self.0.limit_ms.store(u64::try_from(limit).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Notes that a row arrived; returns whether to continue.
    pub fn saw_row(&self, progress: &Progress) -> bool {
        self.0.n_steps.store(0, Ordering::Relaxed);
        if progress.is_cancelled() {
            self.0.is_cancelled.store(true, Ordering::Relaxed);
        }
        !progress.is_cancelled()
    }

    /// Notes steps of a query; returns whether it has to end.
    fn is_over(&self, n_steps: u32, is_computed: bool) -> bool {
        let is_late = || self.0.created.elapsed().as_millis() > u128::from(self.0.limit_ms.load(Ordering::Relaxed));
        self.0.is_cancelled.load(Ordering::Relaxed)
            || self.0.n_steps.fetch_add(n_steps, Ordering::Relaxed) > MAX_STEPS_WITHOUT_A_ROW
            || is_computed && is_late()
    }
}

fn not_a_trace(text: impl Into<String>) -> ReadError {
    ReadError::NotATrace(text.into())
}

impl Database {
    /// More rows than this no table of the file can have: each takes four bytes or more.
    pub fn most_rows(&self) -> u64 {
        self.file.metadata().map_or(0, |data| data.len() / 4)
    }

    /// The longest cell that is read, in words.
    pub fn longest_cell(&self) -> &'static str {
        if self.is_computed { "256 KiB" } else { "16 MiB" }
    }

    /// Opens the file and checks its header, and copies the file where SQLite would have to write beside it.
    ///
    /// Errors: not a complete SQLite 3 database, not the file that was recognized, or it cannot be read or copied.
    pub fn new(source: &Source, options: Options, progress: &Progress) -> Result<Self, ReadError> {
        if !source.layers.is_empty() {
            let (copy, notes) = unpack(source, options, progress)?;
            return Self::of_copy(copy, notes);
        }
        let file = File::open(&source.path)?;
        source.check_opened(&file).map_err(not_a_trace)?;
        let header = check_header(&file)?;
        let beside = |suffix: &str| {
            let mut name = source.path.as_os_str().to_owned();
            name.push(suffix);
            Some(PathBuf::from(name))
                .filter(|path| std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() > 0))
        };
        let log = if header.is_wal { beside("-wal").map(|path| (path, "-wal")) } else { None };
        let log = log.or_else(|| beside("-journal").map(|path| (path, "-journal")));
        let Some((log, suffix)) = log else {
            let notes = match header.is_wal {
                true => vec![(
                    Severity::Warn,
                    "Written through a write-ahead log (`-wal`), which is not beside the file: the last rows may be \
                     missing. Copy both files, or export again"
                        .to_owned(),
                )],
                false => Vec::new(),
            };
            return Ok(Self::opened((file, source.path.clone()), header, None, notes));
        };
        let copy = Scratch::for_copies().map_err(no_copy)?;
        let path = copy.path().join(COPY);
        write(&mut &file, &path, progress)?;
        write(&mut File::open(log)?, &copy.path().join(format!("{COPY}{suffix}")), progress)?;
        replay(&path).map_err(|error| not_a_trace(format!("The log beside the file cannot be replayed ({error})")))?;
        let text = "The program that wrote the file has not closed it, or was stopped: read from a copy with its log";
        Self::of_copy(copy, vec![(Severity::Note, text.to_owned())])
    }

    /// A private copy, which is whole.
    fn of_copy(copy: Scratch, notes: Vec<(Severity, String)>) -> Result<Self, ReadError> {
        let path = copy.path().join(COPY);
        let file = File::open(&path)?;
        let header = check_header(&file)?;
        Ok(Self::opened((file, path), Header { is_wal: false, ..header }, Some(copy), notes))
    }

    fn opened(
        (file, path): (File, PathBuf),
        header: Header,
        copy: Option<Scratch>,
        notes: Vec<(Severity, String)>,
    ) -> Self {
        let Header { is_wal, utf16 } = header;
        Self {
            file,
            path,
            copy: copy.map(Arc::new),
            utf16,
            is_computed: false,
            chains: Arc::default(),
            notes,
            lacks_log: is_wal,
        }
    }

    pub fn close(self) -> Closed {
        let Self { path, copy, utf16, is_computed, .. } = self;
        Closed { path, copy, utf16, is_computed }
    }

    /// The file's pages.
    pub fn pages(&self) -> Option<pages::Reader> {
        pages::Reader::open(opened::again(&self.file, &self.path).ok()?, Arc::clone(&self.chains)).ok()
    }

    /// A hardened connection.
    ///
    /// Errors: SQLite refuses the file.
    pub fn connect(&self, interrupt: &Interrupt) -> rusqlite::Result<Connection> {
        let mut connection = open(opened::uri(&self.file, &self.path), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let (interrupt, is_computed) = (interrupt.clone(), self.is_computed);
        let n_steps = if is_computed { COMPUTED_STEPS } else { STEPS };
        let longest = if is_computed { MAX_COMPUTED_CELL } else { MAX_CELL };
        // The limit is on bytes, of which UTF-16 takes two for a letter.
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, if self.utf16.is_some() { 2 * longest } else { longest })?;
        connection.progress_handler(n_steps as i32, Some(move || interrupt.is_over(n_steps, is_computed)))?;
        // Checks of a table would compute what the file asks to be computed.
        connection.execute_batch(
            "PRAGMA query_only=ON; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY;
             PRAGMA ignore_check_constraints=ON;",
        )?;
        Ok(connection)
    }

    /// Whether the file is the one that was read; a private copy always is.
    ///
    /// Errors: a sentence that it has changed.
    pub fn check(&self, source: &Source) -> Result<(), String> {
        if self.copy.is_some() { Ok(()) } else { source.check_opened(&self.file) }
    }
}

impl Closed {
    /// Opens it again.
    ///
    /// Errors: a sentence that the file is gone, is another or has changed, or that too many are open.
    pub fn open(&self, source: &Source) -> Result<Database, String> {
        let file = File::open(&self.path).map_err(|error| format!("The file cannot be opened again ({error})"))?;
        let (path, copy) = (self.path.clone(), self.copy.clone());
        let Self { utf16, is_computed, .. } = *self;
        let (chains, notes) = Default::default();
        let database = Database { file, path, copy, utf16, is_computed, chains, notes, lacks_log: false };
        database.check(source)?;
        Ok(database)
    }
}

/// The name of a private copy in its folder.
const COPY: &str = "export.sqlite";

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
pub fn uri(path: &Path, mode: &str) -> String {
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

/// Writes a compressed database into a private folder: SQLite has to seek. Returns what was noted of its layers too.
fn unpack(
    source: &Source,
    options: Options,
    progress: &Progress,
) -> Result<(Scratch, Vec<(Severity, String)>), ReadError> {
    let folder = Scratch::for_copies().map_err(no_copy)?;
    let mut text = source.open(options)?;
    write(&mut text.reader, &folder.path().join(COPY), progress)?;
    Ok((folder, text.notes.take()))
}

/// What the header says of how to read a file.
#[derive(Clone, Copy, Debug)]
struct Header {
    /// Written through a write-ahead log.
    is_wal: bool,
    utf16: Option<Unit>,
}

/// Checks for damage that SQLite would accept or report unclearly.
///
/// Format: <https://www.sqlite.org/fileformat2.html#the_database_header>
fn check_header(mut file: &File) -> Result<Header, ReadError> {
    let mut head = [0_u8; 100];
    file.rewind()?;
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
    // The page count is valid only if it was written together with the change counter.
    let n_pages = u64::from(number(28));
    if number(24) == number(92) && n_pages * page_size > len {
        return Err(not_a_trace(format!(
            "The SQLite header says {n_pages} pages of {page_size} bytes, but the file has only {}: the copy was cut \
             off. Copy or export it again",
            len / page_size
        )));
    }
    file.rewind()?;
    let utf16: Option<Unit> = match number(56) {
        2 => Some(u16::from_le_bytes),
        3 => Some(u16::from_be_bytes),
        _ => None,
    };
    Ok(Header { is_wal: head[18] == 2 || head[19] == 2, utf16 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is opened for each connection anew, also while another has its name for a moment.
    #[cfg(unix)]
    #[test]
    fn what_was_opened_is_read_whatever_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let [path, aside, other] = ["t", "aside", "other"].map(|name| folder.path().join(name));
        for (path, value) in [(&path, 1), (&other, 2)] {
            let sql = format!("CREATE TABLE t (x INTEGER); INSERT INTO t VALUES ({value})");
            Connection::open(path).unwrap().execute_batch(&sql).unwrap();
        }
        let source = Source::file(&path).unwrap();
        let database = Database::new(&source, Options::default(), &Progress::default()).unwrap();
        let value = || {
            let connection = database.connect(&Interrupt::of_reading(0)).unwrap();
            connection.query_row("SELECT x FROM t", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        let page = || database.pages().unwrap().page(2).unwrap().to_vec();
        let (first, before) = (value(), page());
        assert_eq!(database.check(&source), Ok(()));
        std::fs::rename(&path, &aside).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!((first, value(), page() == before), (1, 1, true));
        assert!(Database::new(&source, Options::default(), &Progress::default()).is_err(), "it is another");
        std::fs::rename(&aside, &path).unwrap();
        // For the file system a file that was renamed has changed.
        assert_eq!(value(), 1);
        std::fs::write(&path, b"").unwrap();
        assert!(database.check(&source).is_err());
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[cfg(unix)]
    #[test]
    fn paths_become_escaped_uris() {
        let path = Path::new("/tmp/a b?mode=rwc&x#ü%41.sqlite");
        assert_eq!(uri(path, "ro"), "file:/tmp/a%20b%3fmode%3drwc%26x%23%c3%bc%2541.sqlite?mode=ro");
    }
}
