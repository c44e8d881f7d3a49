//! Has SQLite and the page reader read a file that is open, whatever has its name by then.
//!
//! The files of SQLite's own system layer are opened by name, each time anew. The layer here reads the file behind a
//! descriptor, and knows no other file: no journal beside it, no temporary one, and nothing is written. Elsewhere
//! than on Unix, files are opened by name.
//!
//! Interface: <https://www.sqlite.org/c3ref/vfs.html>

use std::fs::File;
use std::path::Path;

/// Another reader of an open file, with no position in common.
///
/// Errors: the system has no more files to open; where it is opened by name, it is gone.
pub fn again(file: &File, path: &Path) -> std::io::Result<File> {
    if cfg!(unix) { file.try_clone() } else { File::open(path) }
}

/// Fills the buffer from an offset on.
///
/// Errors: the file ends before, or cannot be read.
pub fn read_exact_at(file: &mut File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset);
    #[cfg(not(unix))]
    {
        use std::io::{Read as _, Seek as _, SeekFrom};
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(buffer)
    }
}

/// The SQLite URI of an open file, which has to stay open until SQLite has opened it.
pub fn uri(file: &File, path: &Path) -> String {
    #[cfg(unix)]
    if layer::register() {
        return format!("file:/{}?vfs={}&mode=ro&immutable=1", std::os::fd::AsRawFd::as_raw_fd(file), layer::NAME);
    }
    let _ = file;
    // Immutable: SQLite ignores logs and takes no lock, so it writes nothing.
    super::database::uri(path, "ro&immutable=1")
}

#[cfg(unix)]
mod layer {
    #![expect(unsafe_code, reason = "SQLite calls its system layer through C functions")]
    #![expect(clippy::multiple_unsafe_ops_per_block, reason = "each block reads what SQLite hands over in one call")]

    use std::ffi::{CStr, c_char, c_int, c_void};
    use std::fs::File;
    use std::os::fd::BorrowedFd;
    use std::os::unix::fs::FileExt as _;
    use std::sync::LazyLock;

    use rusqlite::ffi;

    pub const NAME: &str = "descriptor";

    /// Makes the layer known to SQLite, once; returns whether it is.
    pub fn register() -> bool {
        static IS_KNOWN: LazyLock<bool> = LazyLock::new(|| {
            // SAFETY: the layer of the system lives as long as the program, and what it points to as well. The copy is
            // leaked, as SQLite asks. What it does not replace, such as the time, asks nothing of the layer.
            unsafe {
                let system = ffi::sqlite3_vfs_find(std::ptr::null());
                let Some(system) = system.as_ref() else { return false };
                let layer = ffi::sqlite3_vfs {
                    szOsFile: size_of::<Opened>() as c_int,
                    pNext: std::ptr::null_mut(),
                    zName: c"descriptor".as_ptr(),
                    xOpen: Some(open),
                    xDelete: Some(delete),
                    xAccess: Some(access),
                    xFullPathname: Some(full_path),
                    ..*system
                };
                ffi::sqlite3_vfs_register(Box::into_raw(Box::new(layer)), 0) == ffi::SQLITE_OK
            }
        });
        *IS_KNOWN
    }

    /// SQLite's view of an open file.
    #[repr(C)]
    struct Opened {
        methods: ffi::sqlite3_file,
        file: *mut File,
    }

    static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
        iVersion: 1,
        xClose: Some(close),
        xRead: Some(read),
        xWrite: Some(write),
        xTruncate: Some(truncate),
        xSync: Some(number),
        xFileSize: Some(size),
        xLock: Some(number),
        xUnlock: Some(number),
        xCheckReservedLock: Some(is_reserved),
        xFileControl: Some(control),
        xSectorSize: Some(none),
        xDeviceCharacteristics: Some(none),
        xShmMap: None,
        xShmLock: None,
        xShmBarrier: None,
        xShmUnmap: None,
        xFetch: None,
        xUnfetch: None,
    };

    unsafe extern "C" fn open(
        _: *mut ffi::sqlite3_vfs,
        name: ffi::sqlite3_filename,
        out: *mut ffi::sqlite3_file,
        flags: c_int,
        out_flags: *mut c_int,
    ) -> c_int {
        // SAFETY: SQLite gives room for `szOsFile` bytes, a name that ends with 0 or none, and a place for flags or
        // none. The descriptor is open: `connect` holds the file.
        unsafe {
            let out = out.cast::<Opened>();
            // So that it is not closed if this fails.
            (*out).methods.pMethods = std::ptr::null();
            let name = if name.is_null() { c"" } else { CStr::from_ptr(name) };
            let number = name.to_str().ok().and_then(|name| name.strip_prefix('/')?.parse().ok());
            let is_main = flags & ffi::SQLITE_OPEN_MAIN_DB != 0;
            let Some(number) = number.filter(|&number: &c_int| is_main && number >= 0) else {
                return ffi::SQLITE_CANTOPEN;
            };
            let Ok(copy) = BorrowedFd::borrow_raw(number).try_clone_to_owned() else { return ffi::SQLITE_CANTOPEN };
            (*out).file = Box::into_raw(Box::new(File::from(copy)));
            (*out).methods.pMethods = &raw const METHODS;
            if let Some(out_flags) = out_flags.as_mut() {
                *out_flags = ffi::SQLITE_OPEN_READONLY | ffi::SQLITE_OPEN_MAIN_DB;
            }
        }
        ffi::SQLITE_OK
    }

    unsafe extern "C" fn close(opened: *mut ffi::sqlite3_file) -> c_int {
        // SAFETY: `open` made the box, and SQLite closes once.
        drop(unsafe { Box::from_raw((*opened.cast::<Opened>()).file) });
        ffi::SQLITE_OK
    }

    unsafe extern "C" fn read(opened: *mut ffi::sqlite3_file, to: *mut c_void, n: c_int, offset: i64) -> c_int {
        let (Ok(n), Ok(offset)) = (usize::try_from(n), u64::try_from(offset)) else { return ffi::SQLITE_IOERR_READ };
        // SAFETY: `open` put the file there, and SQLite gives room for `n` bytes that it has alone.
        let (file, room) = unsafe {
            std::ptr::write_bytes(to, 0, n);
            (&*(*opened.cast::<Opened>()).file, std::slice::from_raw_parts_mut(to.cast::<u8>(), n))
        };
        match file.read_exact_at(room, offset) {
            Ok(()) => ffi::SQLITE_OK,
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => ffi::SQLITE_IOERR_SHORT_READ,
            Err(_) => ffi::SQLITE_IOERR_READ,
        }
    }

    unsafe extern "C" fn size(opened: *mut ffi::sqlite3_file, out: *mut i64) -> c_int {
        // SAFETY: `open` put the file there, and SQLite gives a place for the size.
        let (file, out) = unsafe { (&*(*opened.cast::<Opened>()).file, &mut *out) };
        let Ok(data) = file.metadata() else { return ffi::SQLITE_IOERR_FSTAT };
        *out = i64::try_from(data.len()).unwrap_or(i64::MAX);
        ffi::SQLITE_OK
    }

    unsafe extern "C" fn write(_: *mut ffi::sqlite3_file, _: *const c_void, _: c_int, _: i64) -> c_int {
        ffi::SQLITE_READONLY
    }

    unsafe extern "C" fn truncate(_: *mut ffi::sqlite3_file, _: i64) -> c_int {
        ffi::SQLITE_READONLY
    }

    unsafe extern "C" fn number(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
        ffi::SQLITE_OK
    }

    unsafe extern "C" fn none(_: *mut ffi::sqlite3_file) -> c_int {
        0
    }

    unsafe extern "C" fn is_reserved(_: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
        // SAFETY: SQLite gives a place for the answer.
        unsafe { *out = 0 };
        ffi::SQLITE_OK
    }

    unsafe extern "C" fn control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
        ffi::SQLITE_NOTFOUND
    }

    unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int) -> c_int {
        ffi::SQLITE_READONLY
    }

    /// No other file exists.
    unsafe extern "C" fn access(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int, out: *mut c_int) -> c_int {
        // SAFETY: SQLite gives a place for the answer.
        unsafe { *out = 0 };
        ffi::SQLITE_OK
    }

    unsafe extern "C" fn full_path(_: *mut ffi::sqlite3_vfs, name: *const c_char, n: c_int, out: *mut c_char) -> c_int {
        // SAFETY: SQLite gives a name that ends with 0, and room for `n` bytes elsewhere.
        unsafe {
            let name = CStr::from_ptr(name).to_bytes_with_nul();
            if name.len() > usize::try_from(n).unwrap_or(0) {
                return ffi::SQLITE_CANTOPEN;
            }
            std::ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len());
        }
        ffi::SQLITE_OK
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use rusqlite::{Connection, OpenFlags};

    use super::*;

    const FLAGS: OpenFlags =
        OpenFlags::SQLITE_OPEN_READ_ONLY.union(OpenFlags::SQLITE_OPEN_URI).union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

    /// A database of some hundred pages.
    fn database() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let sql = "CREATE TABLE t (x TEXT);
                   WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
                   INSERT INTO t SELECT printf('%0500d', i) FROM n";
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        (folder, path)
    }

    fn length(connection: &Connection) -> rusqlite::Result<i64> {
        connection.query_row("SELECT sum(length(x)) FROM t", [], |row| row.get(0))
    }

    #[test]
    fn a_file_that_grows_stays_and_one_that_shrinks_is_an_error() {
        let (_folder, path) = database();
        let file = File::open(&path).unwrap();
        let writer = File::options().write(true).open(&path).unwrap();
        let whole = file.metadata().unwrap().len();
        let connect = || Connection::open_with_flags(uri(&file, &path), FLAGS).unwrap();
        let connection = connect();
        assert_eq!(length(&connection), Ok(1_000_000));
        // Ends inside a page.
        writer.set_len(whole + 100).unwrap();
        assert_eq!((length(&connection), length(&connect())), (Ok(1_000_000), Ok(1_000_000)));
        for len in [whole - 1, whole - 4095, whole / 2 + 100, 5000, 4096, 100, 50, 0] {
            let before = connect();
            length(&before).unwrap_or_default();
            writer.set_len(len).unwrap();
            for connection in [before, connect()] {
                connection.execute_batch("PRAGMA cache_size=0").unwrap_or_default();
                assert!(length(&connection).map_or(true, |sum| sum < 1_000_000), "{len} bytes");
            }
        }
    }

    #[test]
    fn threads_read_one_file_and_every_end_closes_it() {
        let (_folder, path) = database();
        let file = File::open(&path).unwrap();
        let n_open = || {
            let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            files.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|of| of == path)).count()
        };
        let is_counted = cfg!(target_os = "linux");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let connection = Connection::open_with_flags(uri(&file, &path), FLAGS).unwrap();
                        assert_eq!(length(&connection), Ok(1_000_000));
                        let failed = connection.query_row("SELECT abs(-9223372036854775808) FROM t", [], |_| Ok(()));
                        assert!(failed.is_err());
                    }
                });
            }
        });
        assert!(!is_counted || n_open() == 1);
    }

    #[test]
    fn no_other_file_is_known_and_nothing_is_written() {
        let (folder, path) = database();
        let file = File::open(&path).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        let uri = uri(&file, &path);
        for name in ["/-1", "/999999", "/99999999999", "/", "/1x", "/tmp/t", &path.to_string_lossy()] {
            let wrong = format!("file:{name}?vfs={}&immutable=1", layer::NAME);
            assert!(Connection::open_with_flags(wrong, FLAGS).is_err(), "{name}");
        }
        // Even where SQLite is told that it may write.
        let writable = format!("file:/{number}?vfs={}", layer::NAME);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(writable, flags).unwrap();
        for sql in ["DELETE FROM t", "VACUUM", "PRAGMA journal_mode=WAL; CREATE TABLE u (x)", "ATTACH 'x' AS x"] {
            assert!(connection.execute_batch(sql).is_err(), "{sql}");
        }
        // More is sorted than memory is given for: in a file of its own, which there is none of.
        let connection = Connection::open_with_flags(uri, FLAGS).unwrap();
        connection.execute_batch("PRAGMA temp_store=MEMORY; PRAGMA cache_size=2").unwrap();
        let last = connection.query_row("SELECT x FROM t ORDER BY x DESC", [], |row| row.get::<_, String>(0));
        assert!(last.unwrap().ends_with("2000"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
