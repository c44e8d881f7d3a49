use std::path::Path;

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;

fn written(rows: &[(Option<i64>, i64, String, f64)]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut connection = Connection::open(file.path()).unwrap();
    connection.execute_batch("CREATE TABLE t (a INTEGER, b INTEGER, c TEXT, d REAL)").unwrap();
    let transaction = connection.transaction().unwrap();
    for row in rows {
        let values = (row.0, row.1, &row.2, row.3);
        transaction.execute("INSERT INTO t VALUES (?1, ?2, ?3, ?4)", values).unwrap();
    }
    transaction.commit().unwrap();
    file
}

fn root(connection: &Connection) -> u32 {
    connection.query_row("SELECT rootpage FROM sqlite_master WHERE name = 't'", [], |row| row.get(0)).unwrap()
}

/// The rows as text, by the pages or by SQLite.
fn both(path: &Path) -> (Result<Vec<String>, Unexpected>, Vec<String>) {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT rowid, c, a, b FROM t").unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut expected = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let [id, c, a, b] = [0, 1, 2, 3].map(|i| row.get_ref(i).unwrap());
        expected.push(format!("{id:?} {c:?} {a:?} {b:?}"));
    }
    let mut reader = Reader::open(File::open(path).unwrap(), Arc::default()).unwrap();
    let columns = Columns::new(&[Some(2), Some(0), Some(1)], None, 4);
    let mut found = Vec::new();
    let read = reader.leaves(root(&connection), 0, &mut Owners::default()).and_then(|leaves| {
        reader.read(&leaves, i64::MIN, &columns, |id, cells| {
            let (id, [c, a, b]) = (ValueRef::Integer(id), [cells[0], cells[1], cells[2]]);
            found.push(format!("{id:?} {c:?} {a:?} {b:?}"));
            true
        })
    });
    (read.map(|()| found), expected)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn pages_hold_what_sqlite_reads(
        rows in prop::collection::vec(
            (prop::option::of(any::<i64>()), -300_i64..300, "[a-zü]{0,40}", any::<f64>()), 0..900)
    ) {
        let file = written(&rows);
        let (found, expected) = both(file.path());
        prop_assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn damage_is_left_to_sqlite(at in 4096_usize..40_000, byte in any::<u8>()) {
        let rows: Vec<_> = (0..2000).map(|i| (Some(i), i, "name".to_owned(), 0.5)).collect();
        let file = written(&rows);
        let mut bytes = std::fs::read(file.path()).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        std::fs::write(file.path(), &bytes).unwrap();
        // Reading damaged pages terminates without a panic.
        let mut reader = Reader::open(File::open(file.path()).unwrap(), Arc::default()).unwrap();
        let columns = Columns::new(&[Some(2), Some(0), Some(1)], None, 4);
        let mut n = 0;
        let _ = reader.leaves(2, 0, &mut Owners::default()).and_then(|leaves| reader.read(&leaves, i64::MIN, &columns, |_, _| (n += 1, true).1));
        prop_assert!(n <= 5000);
    }
}

#[test]
fn large_records_are_read_from_their_overflow_pages() {
    let rows = [4000, 4061, 4062, 4500, 8100, 10_000, 100_000].map(|len| (Some(1), 1, "x".repeat(len), 0.0));
    let (found, expected) = both(written(&rows).path());
    assert_eq!(found.unwrap(), expected);
}

/// Pages of large tables have free blocks where they were split.
#[test]
fn cells_fragments_and_free_blocks_explain_an_interior_page() {
    let mut page = [0; 512];
    // A cell of 5 bytes at the end, 3 bytes of fragments, and two free blocks.
    page[..14].copy_from_slice(&[INTERIOR, 1, 200, 0, 1, 1, 200, 3, 0, 0, 0, 9, 1, 251]);
    page[456..460].copy_from_slice(&[1, 220, 0, 20]);
    page[476..480].copy_from_slice(&[0, 0, 0, 28]);
    assert_eq!(is_explained(&page, 1, 5), Ok(true));
    assert_eq!(is_explained(&page, 0, 0), Ok(false), "a cell was lost");
    page[476..478].copy_from_slice(&[1, 200]);
    assert_eq!(is_explained(&page, 1, 5), Ok(false), "a circle");
    page[476..478].copy_from_slice(&[255, 255]);
    assert_eq!(is_explained(&page, 1, 5), Err(Unexpected));
}
