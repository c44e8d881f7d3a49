//! Details of events of nsys exports: of each event its own, also where pages are damaged.

use std::path::Path;

use lacuna::model::{EventDetails, SliceId, TimeNs, Trace};
use rusqlite::Connection;

use super::support::{Failure, files, name, project, read, real, scratch};

const PAGE: usize = 4096;
const LEAF: u8 = 13;
const INDEX_LEAF: u8 = 10;

/// What some events are in the file: the source and, where it stands there, the time of each.
fn events(trace: &Trace, most: usize) -> Vec<(u64, Option<TimeNs>)> {
    let slices = &trace.slices;
    let of_slices = (0..slices.len()).map(|i| (slices.source[i], trace.recorded_start(SliceId(i as u32))));
    let instants = &trace.instants;
    let of_instants = (0..instants.len()).map(|i| (instants.source[i], Some(instants.ts[i])));
    let stride = (slices.len() + instants.len()).div_ceil(most).max(1);
    of_slices.chain(of_instants).step_by(stride).collect()
}

fn details(trace: &Trace, (source, start): (u64, Option<TimeNs>)) -> Result<EventDetails, String> {
    trace.details.as_ref().unwrap().event(source, start)
}

#[test]
fn each_event_of_an_export_is_found_again() {
    let exports = files(&project().join("sample_traces")).into_iter().chain(real("B_sqlite"));
    let mut n_found = 0;
    for path in exports.filter(|path| name(path).ends_with(".sqlite")) {
        for trace in read(&path).unwrap_or_else(|failure| panic!("{}: {failure:?}", path.display())) {
            for event in events(&trace, 500) {
                let found = details(&trace, event).unwrap_or_else(|why| panic!("{}: {event:?}: {why}", path.display()));
                assert!(!found.category.is_empty() && !found.args.is_empty());
                n_found += 1;
            }
        }
    }
    assert!(n_found > 500);
}

/// A row with the number of the one after it: the first is left out, and SQLite may find it in place of the other.
#[test]
fn rows_with_the_number_of_another_are_not_shown_as_that() {
    let folder = scratch("nsys-details");
    let whole = std::fs::read(project().join("sample_traces/nsys_5_steps.sqlite")).unwrap();
    let (mut n_right, mut n_refused) = (0, 0);
    for page in (1..whole.len() / PAGE).filter(|page| whole[page * PAGE] == LEAF) {
        let number = |at: usize| u16::from_be_bytes([whole[page * PAGE + at], whole[page * PAGE + at + 1]]) as usize;
        let n_rows = number(3);
        let mut bytes = whole.clone();
        // Every third row, by the second byte of two: its length, then its number.
        for i in (0..n_rows.saturating_sub(1)).step_by(3) {
            let [at, next] = [i, i + 1].map(|i| page * PAGE + number(8 + 2 * i));
            let is_short = |at: usize| whole[at] < 0x80 && whole[at + 1] >= 0x80 && whole[at + 2] < 0x80;
            if is_short(at) && is_short(next) {
                bytes.copy_within(next + 1..next + 3, at + 1);
            }
        }
        if bytes == whole {
            continue;
        }
        let path = folder.join("t.sqlite");
        std::fs::write(&path, &bytes).unwrap();
        let trace = match read(&path) {
            Ok(mut traces) => traces.remove(0),
            Err(Failure::Refused(_)) => continue,
            Err(failure) => panic!("page {page}: {failure:?}"),
        };
        for event @ (_, start) in events(&trace, usize::MAX) {
            match (details(&trace, event), start) {
                (Ok(found), Some(start)) => {
                    let is_start = |arg: &&(String, String)| ["start", "timestamp"].contains(&arg.0.as_str());
                    let arg = found.args.iter().find(is_start);
                    assert_eq!(arg.map(|arg| arg.1.as_str()), Some(start.to_string().as_str()), "page {page}");
                    n_right += 1;
                }
                (Ok(_), None) => {}
                (Err(why), _) => {
                    assert!(why.contains("is not found again"), "{why}");
                    n_refused += 1;
                }
            }
        }
    }
    assert!(n_right > 1000 && n_refused > 10, "{n_right} right, {n_refused} refused");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Samples with call stacks, whose index takes several pages.
fn write_samples(path: &Path) {
    let sql = "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE COMPOSITE_EVENTS (id INTEGER PRIMARY KEY, start, globalTid);
        CREATE TABLE SAMPLING_CALLCHAINS (id, symbol, module, stackDepth, PRIMARY KEY (id, stackDepth));
        WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
            INSERT INTO StringIds SELECT i, 'function ' || i FROM n;
        INSERT INTO COMPOSITE_EVENTS SELECT id, 10 * id, 16777216 * 7 + 7 FROM StringIds;
        INSERT INTO SAMPLING_CALLCHAINS SELECT id, 1 + (id + depth) % 900, NULL, depth
            FROM StringIds, (SELECT 0 AS depth UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) ORDER BY id, depth;";
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// Two texts with the same number.
#[test]
fn texts_with_the_number_of_another_are_not_shown_as_that() {
    let folder = scratch("nsys-details-texts");
    let path = folder.join("t.sqlite");
    write_samples(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    let stacks = || {
        let trace = read(&path).unwrap().remove(0);
        let events = events(&trace, usize::MAX).into_iter();
        events.map(|event| details(&trace, event).unwrap().stack).collect::<Vec<_>>()
    };
    let expected = stacks();
    // The row of a text is its length, its number in two bytes, its header, and itself.
    let is_text = |row: &[u8]| row.starts_with(&[0x83, 0x10]) && row.ends_with(b"function 400");
    let at = bytes.windows(17).position(is_text).unwrap();
    bytes[at + 1] = 0x11;
    std::fs::write(&path, bytes).unwrap();
    let found = stacks();
    let frames = expected.iter().flatten().zip(found.iter().flatten());
    let odd: Vec<_> = frames.filter(|(expected, found)| expected != found).collect();
    assert!(odd.len() == 8 && odd.iter().all(|(_, found)| found.is_empty()), "{odd:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn call_stacks_do_not_depend_on_the_pages_of_an_index() {
    let folder = scratch("nsys-details-index");
    let path = folder.join("t.sqlite");
    write_samples(&path);
    let whole = std::fs::read(&path).unwrap();
    let stacks = || {
        let trace = read(&path).unwrap().remove(0);
        let events = events(&trace, usize::MAX).into_iter();
        events.map(|event| details(&trace, event).unwrap().stack).collect::<Vec<_>>()
    };
    let expected = stacks();
    assert!(expected.len() == 900 && expected.iter().all(|stack| stack.len() == 4), "{expected:?}");
    let pages: Vec<usize> = (0..whole.len() / PAGE).filter(|page| whole[page * PAGE] == INDEX_LEAF).collect();
    assert!(pages.len() > 4, "{pages:?}");
    let of = |page: usize| page * PAGE..(page + 1) * PAGE;
    for pair in pages.windows(2) {
        // Two exchanged, and one emptied.
        let mut cases = [(); 2].map(|()| whole.clone());
        cases[0][of(pair[0])].copy_from_slice(&whole[of(pair[1])]);
        cases[0][of(pair[1])].copy_from_slice(&whole[of(pair[0])]);
        cases[1][of(pair[0])].fill(0);
        for bytes in cases {
            std::fs::write(&path, bytes).unwrap();
            assert!(stacks() == expected, "pages {pair:?}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
