//! Long texts of nsys exports, which go on on other pages: SQLite follows them wherever they lead.

use std::path::Path;

use lacuna::model::Trace;
use rusqlite::Connection;

use super::support::{read, scratch, unbalanced};

const N_TEXTS: usize = 5;

/// An export with long texts in `StringIds` and in a table of events, and a table of names; each piece is found once.
fn export(
    path: &Path,
    (page, reserved): (usize, u8),
    encoding: &str,
    more: impl Fn(usize, Text<'_>) -> String,
) -> Vec<u8> {
    std::fs::write(path, b"").unwrap();
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(&format!("PRAGMA page_size={page}; PRAGMA encoding='{encoding}'")).unwrap();
    let mut bytes = i32::from(reserved);
    // SAFETY: the connection is open, and SQLite reads one number.
    #[expect(unsafe_code, reason = "No other way sets the reserved bytes")]
    unsafe {
        let to = (&raw mut bytes).cast();
        rusqlite::ffi::sqlite3_file_control(connection.handle(), c"main".as_ptr(), 38, to);
    }
    let text = |letter: char, row: usize| -> String {
        let len = (2 + row % 2) * (page - usize::from(reserved) - 4) + page / 2;
        (0..)
            .map(|i| format!("<{letter}{row}.{i}>"))
            .flat_map(|piece| piece.into_bytes())
            .take(len)
            .map(char::from)
            .collect()
    };
    let mut sql = "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
            correlationId INTEGER, nameId INTEGER);
        CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);"
        .to_owned();
    for row in 0..N_TEXTS {
        let (a, b, c, id) = (text('s', row), text('n', row), text('m', row), row + 1);
        sql += &format!(
            "INSERT INTO StringIds VALUES ({id}, '{a}');
             INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({id}0, {id}5, 0, 281474976710657, {id}, {id});
             INSERT INTO NVTX_EVENTS VALUES ({id}0, {id}5, 59, '{b}', 281474976710657);
             INSERT INTO META_DATA_CAPTURE VALUES ('k{row}', '{c}'); {}",
            more(row, &text)
        );
    }
    connection.execute_batch(&sql).unwrap();
    drop(connection);
    let bytes = std::fs::read(path).unwrap();
    assert_eq!((usize::from(bytes[20]), bytes.len() % page), (usize::from(reserved), 0));
    bytes
}

/// A long text with this letter, by row.
type Text<'a> = &'a dyn Fn(char, usize) -> String;

fn nothing_more(_: usize, _: Text<'_>) -> String {
    String::new()
}

/// Long texts in trees that are not read: `w` in a table WITHOUT ROWID, `i` in an unknown table and its index.
fn unread(row: usize, text: Text<'_>) -> String {
    let (w, i) = (text('w', row), text('i', row));
    let tables = "CREATE TABLE odd (value TEXT PRIMARY KEY) WITHOUT ROWID; CREATE TABLE marginalia (value TEXT);
        CREATE INDEX by_value ON marginalia (value);";
    let tables = if row == 0 { tables } else { "" };
    format!("{tables} INSERT INTO odd VALUES ('{w}'); INSERT INTO marginalia VALUES ('{i}');")
}

/// The chains of pages (counted from 1) by their table's letter, from first to last.
fn chains(whole: &[u8], page: usize) -> Vec<(u8, Vec<usize>)> {
    let next = |at: usize| u32::from_be_bytes(*whole[(at - 1) * page..].first_chunk().unwrap()) as usize;
    let content = |at: usize| -> Vec<u8> {
        let bytes = whole[(at - 1) * page + 4..][..80].iter().copied();
        // Of UTF-16 every second.
        bytes.filter(|&byte| byte != 0).collect()
    };
    let letter = |at: usize| content(at).iter().position(|&byte| byte == b'<');
    let is_text = |at: &usize| {
        let content = content(*at);
        content.len() >= 40 && content.iter().all(|byte| b"<>.smnwi0123456789".contains(byte))
    };
    let pages: Vec<usize> = (2..=whole.len() / page).filter(is_text).collect();
    let firsts = pages.iter().filter(|first| !pages.iter().any(|&other| next(other) == **first));
    let chain = |&first: &usize| {
        let pages: Vec<usize> = std::iter::successors(Some(first), |&at| Some(next(at)).filter(|&at| at > 0)).collect();
        (content(first)[letter(first).unwrap() + 1], pages)
    };
    firsts.map(chain).collect()
}

fn trace_of(path: &Path, bytes: &[u8]) -> Trace {
    std::fs::write(path, bytes).unwrap();
    read(path).unwrap().remove(0)
}

fn names(trace: &Trace) -> Vec<String> {
    (0..trace.slices.len()).map(|i| trace.slice_name(lacuna::model::SliceId(i as u32)).to_owned()).collect()
}

#[test]
fn long_texts_that_lead_elsewhere_are_told_and_never_shown() {
    let folder = scratch("nsys-overflow");
    let path = folder.join("t.sqlite");
    let sizes = [(4096, 0), (1024, 0), (65536, 0), (4096, 32), (512, 8)].map(|size| (size, "UTF-8"));
    for (size, encoding) in sizes.into_iter().chain([((1024, 0), "UTF-16le"), ((4096, 8), "UTF-16be")]) {
        let page = size.0;
        let whole = export(&path, size, encoding, nothing_more);
        let base = trace_of(&path, &whole);
        let right = names(&base);
        let is_long = |name: &&String| name.len() > page;
        assert_eq!(right.iter().filter(is_long).count(), 2 * N_TEXTS, "{:?}", base.import);
        let told = |trace: &Trace| -> Vec<String> {
            trace.import.problems.iter().map(|problem| problem.reason.clone()).collect()
        };
        let before = told(&base);
        assert!(!before.iter().any(|text| text.contains("damaged")), "{before:?}");
        let chains = chains(&whole, page);
        assert_eq!(chains.len(), 3 * N_TEXTS, "pages of {page}");
        let n_pages = whole.len() / page;
        let leaf = (2..=n_pages).find(|at| whole[(at - 1) * page] == 13).unwrap();
        let mut n_tried = 0;
        for (i, (letter, chain)) in chains.iter().enumerate() {
            for (place, &at) in chain.iter().enumerate() {
                let mut targets = vec![("itself", at), ("a leaf", leaf), ("the catalog", 1)];
                targets.extend([("behind the file", n_pages + 1), ("far behind", u32::MAX as usize)]);
                targets.extend((place > 0).then(|| ("the page before", chain[place - 1])));
                targets.extend((place + 1 < chain.len()).then_some(("the end", 0)));
                // Also of the same length, which SQLite takes for whole in a table that it checks alone.
                let others = chains.iter().enumerate().filter(|(other, _)| *other != i);
                let rest = chain.len() - place;
                targets.extend(
                    others
                        .flat_map(|(_, (_, other))| {
                            let same = other
                                .len()
                                .checked_sub(rest.saturating_sub(1))
                                .filter(|&at| at > 0 && at < other.len());
                            [other.get(place), other.last(), same.map(|at| &other[at])].into_iter().flatten()
                        })
                        .map(|&at| ("another text", at)),
                );
                for (n, (what, to)) in targets.into_iter().enumerate() {
                    if n > 7 && (n + i + place) % 5 > 0 {
                        continue;
                    }
                    let mut bytes = whole.clone();
                    bytes[(at - 1) * page..][..4].copy_from_slice(&(to as u32).to_be_bytes());
                    let trace = trace_of(&path, &bytes);
                    let which = format!(
                        "pages of {page}, {encoding}: {} {i}, page {place}, goes on on {what}",
                        char::from(*letter)
                    );
                    let is_new = told(&trace).iter().any(|text| !before.contains(text));
                    assert!(is_new, "{which}: not said: {:?}", told(&trace));
                    let shown = names(&trace);
                    assert!(shown.iter().all(|name| name.len() < 20 || right.contains(name)), "{which}: a wrong text");
                    // Another may lose its text where it cannot be told which of the two is right.
                    let n_left = shown.iter().filter(is_long).count();
                    let most = 2 * N_TEXTS - usize::from(*letter != b'm');
                    assert!(n_left <= most && n_left + 2 >= 2 * N_TEXTS, "{which}: {n_left}");
                    assert!(what == "another text" || n_left == most, "{which}: {n_left} of {most}");
                    assert_eq!(unbalanced(&trace.import), None, "{which}");
                    let n_told = |trace: &Trace| trace.import.shown + trace.import.merged + trace.import.rejected;
                    assert_eq!(n_told(&trace), n_told(&base), "{which}");
                    n_tried += 1;
                }
            }
        }
        assert!(n_tried > 200, "{n_tried}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A text that goes on where one of a tree that is not read does is no text of the file, and one of such a tree that
/// goes on in a text that is shown leaves open which of them is right.
#[test]
fn long_texts_share_no_page_with_what_is_not_read() {
    let folder = scratch("nsys-overflow-unread");
    let path = folder.join("t.sqlite");
    for (page, encoding) in [(1024, "UTF-8"), (4096, "UTF-16le"), (512, "UTF-8")] {
        let whole = export(&path, (page, 0), encoding, unread);
        let base = trace_of(&path, &whole);
        let right = names(&base);
        let chains = chains(&whole, page);
        assert_eq!(chains.len(), 6 * N_TEXTS, "pages of {page}");
        let is_shown = |letter: u8| matches!(letter, b's' | b'n');
        let mut n_tried = 0;
        for (letter, chain) in &chains {
            for (to_letter, other) in chains.iter().filter(|other| is_shown(*letter) != is_shown(other.0)) {
                // Of the same length, which SQLite takes for whole.
                for place in 0..chain.len().min(other.len()) {
                    let rest = chain.len() - place;
                    let Some(at) = other.len().checked_sub(rest - 1).filter(|&at| at > 0 && at < other.len()) else {
                        continue;
                    };
                    let mut bytes = whole.clone();
                    bytes[(chain[place] - 1) * page..][..4].copy_from_slice(&(other[at] as u32).to_be_bytes());
                    let trace = trace_of(&path, &bytes);
                    let which = format!(
                        "pages of {page}, {encoding}: {} from {place} on {}",
                        char::from(*letter),
                        char::from(*to_letter)
                    );
                    let (n, before) = (trace.import.problems.len(), base.import.problems.len());
                    assert!(n > before, "{which}: not said: {:?}", trace.import.problems);
                    let shown = names(&trace);
                    assert!(shown.iter().all(|name| name.len() < 20 || right.contains(name)), "{which}: a wrong text");
                    let n_left = shown.iter().filter(|name| name.len() > page).count();
                    assert_eq!(n_left, 2 * N_TEXTS - 1, "{which}");
                    assert_eq!(unbalanced(&trace.import), None, "{which}");
                    n_tried += 1;
                }
            }
        }
        assert!(n_tried > 100, "{n_tried}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
