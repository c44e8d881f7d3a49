//! Damaged nsys exports: reading yields an error message or the intact rows, without a crash.

use std::collections::BTreeMap;
use std::path::Path;

use lacuna::model::Trace;
use rusqlite::OpenFlags;

use super::support::{Dice, Failure, files, name, project, read, real, scratch, unbalanced};

const PAGE: usize = 4096;
const LEAF: u8 = 13;
const INTERIOR: u8 = 5;

/// How many times the usual number of damages to try: `LACUNA_EFFORT=20` for a long search.
fn effort() -> usize {
    std::env::var("LACUNA_EFFORT").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Small exports to damage: our own, and real ones of other versions.
fn exports() -> Vec<(String, Vec<u8>)> {
    let own = files(&project().join("sample_traces"));
    let all = own.into_iter().chain(real("B_sqlite")).filter(|path| name(path).ends_with(".sqlite"));
    let read = all.map(|path| (name(&path), std::fs::read(&path).unwrap()));
    read.filter(|(_, bytes)| bytes.len() < 1_100_000).collect()
}

fn read_bytes(folder: &Path, bytes: &[u8]) -> Result<Trace, Failure> {
    let path = folder.join("t.sqlite");
    std::fs::write(&path, bytes).unwrap();
    read(&path).map(|mut traces| traces.remove(0))
}

/// One damage of a kind that disks, networks and other programs do.
fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(bytes.len());
    match dice.below(6) {
        0 => bytes[at] ^= 1 << dice.below(8),
        1 => bytes[at] = dice.below(256) as u8,
        2 => bytes.truncate(at),
        3 => {
            // A page that was never written.
            let start = at / 4096 * 4096;
            let end = (start + 4096).min(bytes.len());
            bytes[start..end].fill(0);
        }
        4 => {
            // A page in the place of another.
            let [from, to] = [at / 4096 * 4096, dice.below(bytes.len()) / 4096 * 4096];
            let len = 4096.min(bytes.len() - from.max(to));
            bytes.copy_within(from..from + len, to);
        }
        _ => {
            let len = dice.below(64).min(bytes.len() - at);
            for byte in &mut bytes[at..at + len] {
                *byte = dice.below(256) as u8;
            }
        }
    }
}

#[test]
fn damaged_exports_are_read_as_far_as_they_go() {
    let folder = scratch("nsys-damage");
    let (mut n_read, mut n_refused) = (0, 0);
    for (name, whole) in exports() {
        let mut dice = Dice(whole.len() as u64);
        for round in 0..8 * effort() {
            let mut bytes = whole.clone();
            for _ in 0..=dice.below(3) {
                damage(&mut bytes, &mut dice);
            }
            if bytes.is_empty() {
                continue;
            }
            match read_bytes(&folder, &bytes) {
                Ok(trace) => {
                    n_read += 1;
                    assert_eq!(unbalanced(&trace.import), None, "{name}, damage {round}");
                    for account in &trace.import.tables {
                        let sum = account.shown + account.merged + account.rejected;
                        assert_eq!(account.read, sum, "{name}, damage {round}: {account:?}");
                    }
                }
                Err(Failure::Refused(_)) => n_refused += 1,
                Err(failure) => {
                    std::fs::write(folder.join("culprit.sqlite"), &bytes).unwrap();
                    panic!("{name}, damage {round}: {failure:?}, kept in {}", folder.display());
                }
            }
        }
    }
    assert!(n_read > 0 && n_refused > 0, "{n_read} read, {n_refused} refused");
    let left: Vec<_> = files(&folder).iter().map(|path| name(path)).collect();
    assert_eq!(left, ["t.sqlite"], "something was written beside the file");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Of each page that leads to others, and of each with rows but the last of its table, what is lost with it is known.
#[test]
fn what_a_lost_page_held_is_counted() {
    let folder = scratch("nsys-pages");
    let whole = std::fs::read(project().join("sample_traces/nsys_5_steps.sqlite")).unwrap();
    let sum = |trace: &Trace| {
        let import = &trace.import;
        (import.shown + import.merged, import.shown + import.merged + import.rejected)
    };
    let (_, n_whole) = sum(&read_bytes(&folder, &whole).unwrap());
    let (mut n_lost, mut n_below) = (0, 0);
    for (i, page) in whole.chunks(PAGE).enumerate().skip(1).filter(|(_, page)| [LEAF, INTERIOR].contains(&page[0])) {
        let n_rows = u64::from(u16::from_be_bytes([page[3], page[4]]));
        let damages: [fn(&mut [u8]); 2] = [|page| page[3..5].fill(0), |page| page.fill(0)];
        for damage in damages {
            let mut bytes = whole.clone();
            damage(&mut bytes[i * PAGE..][..PAGE]);
            let Ok(trace) = read_bytes(&folder, &bytes) else { continue };
            let (n_left, n_told) = sum(&trace);
            let problems = &trace.import.problems;
            assert!(n_left == n_whole || n_told > n_left && !problems.is_empty(), "page {i}: lost in silence");
            // With an emptied page that leads to others, its last one stays.
            assert!(page[0] == LEAF || n_told >= n_whole, "page {i}: {n_told} of {n_whole}");
            assert!(n_told + n_rows >= n_whole, "page {i}: {n_told} of {n_whole}");
            n_lost += usize::from(n_left < n_whole);
            n_below += usize::from(n_told < n_whole);
        }
    }
    // The only page of a table says nothing of its rows once it is blank.
    assert!(n_lost > 50 && n_below < 20, "{n_below} of {n_lost}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Two tables whose pages are taken for those of the other: all that they held is lost, and counted by the row ids that
/// the pages leading to them name.
#[test]
fn a_table_of_another_is_lost_as_a_whole() {
    let folder = scratch("nsys-roots");
    let path = folder.join("t.sqlite");
    std::fs::copy(project().join("sample_traces/nsys_5_steps.sqlite"), &path).unwrap();
    let tables = ["CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"];
    let read_of = |trace: &Trace| -> Vec<(u64, u64)> {
        let account = |name: &&str| trace.import.tables.iter().find(|table| table.table == *name).unwrap();
        tables.iter().map(account).map(|account| (account.read, account.rejected)).collect()
    };
    let before = read_of(&read(&path).unwrap()[0]);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "PRAGMA writable_schema=1;
             UPDATE sqlite_master SET rootpage = (SELECT sum(rootpage) FROM sqlite_master
                WHERE name IN ('CUPTI_ACTIVITY_KIND_RUNTIME', 'CUPTI_ACTIVITY_KIND_KERNEL')) - rootpage
                WHERE name IN ('CUPTI_ACTIVITY_KIND_RUNTIME', 'CUPTI_ACTIVITY_KIND_KERNEL');",
        )
        .unwrap();
    drop(connection);
    let after = read_of(&read(&path).unwrap()[0]);
    for (&(whole, _), &(read, rejected)) in before.iter().rev().zip(&after) {
        assert!(read == rejected && read.abs_diff(whole) <= whole / 5, "{rejected} of {whole} rows");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The sample, also with its texts in UTF-16, which SQLite alone reads.
fn samples(folder: &Path) -> [std::path::PathBuf; 2] {
    let encoded = folder.join("utf16.sqlite");
    super::odd_tables::write_encoded(&encoded, "UTF-16le");
    [project().join("sample_traces/nsys_5_steps.sqlite"), encoded]
}

/// The table of each page, by the pages that lead to it.
fn tables_of_pages(path: &Path, bytes: &[u8]) -> BTreeMap<usize, String> {
    let connection = rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut statement = connection.prepare("SELECT rootpage, name FROM sqlite_master WHERE type = 'table'").unwrap();
    let roots = statement.query_map([], |row| Ok((row.get::<_, u32>(0)? as usize, row.get(1)?))).unwrap();
    let mut waiting: Vec<(usize, String)> = roots.map(Result::unwrap).collect();
    let mut found = BTreeMap::new();
    while let Some((page, table)) = waiting.pop() {
        let content = &bytes[(page - 1) * PAGE..][..PAGE];
        let number = |at: usize| u16::from_be_bytes([content[at], content[at + 1]]) as usize;
        let child = |at: usize| (number(at) << 16) + number(at + 2);
        if content[0] == INTERIOR {
            let cells = (0..number(3)).map(|i| child(number(12 + 2 * i)));
            waiting.extend(cells.chain([child(8)]).map(|page| (page, table.clone())));
        }
        found.insert(page - 1, table);
    }
    found
}

/// A page in the place of another of its kind: SQLite finds nothing wrong with most such files.
#[test]
fn rows_of_another_table_are_never_shown() {
    let folder = scratch("nsys-copies");
    samples(&folder).iter().for_each(|path| rows_of_another_are_never_shown(&folder, path));
    std::fs::remove_dir_all(&folder).unwrap();
}

fn rows_of_another_are_never_shown(folder: &Path, path: &Path) {
    let whole = std::fs::read(path).unwrap();
    let tables = tables_of_pages(path, &whole);
    let n_rows = |page: usize| u64::from(u16::from_be_bytes([whole[page * PAGE + 3], whole[page * PAGE + 4]]));
    let kept = |trace: &Trace| -> BTreeMap<String, u64> {
        trace.import.tables.iter().map(|table| (table.table.clone(), table.shown + table.merged)).collect()
    };
    let base = kept(&read_bytes(folder, &whole).unwrap());
    let leaves: Vec<usize> =
        tables.keys().copied().filter(|&page| whole[page * PAGE] == LEAF && n_rows(page) > 0).collect();
    let pairs = leaves.iter().flat_map(|&from| leaves.iter().map(move |&to| (from, to)));
    let pairs = pairs.filter(|&(from, to)| tables[&from] != tables[&to] && base.contains_key(&tables[&to]));
    let (mut n_tried, mut n_lost) = (0, 0);
    for (from, to) in pairs.step_by(if effort() > 1 { 1 } else { 13 }) {
        let mut bytes = whole.clone();
        bytes.copy_within(from * PAGE..(from + 1) * PAGE, to * PAGE);
        let trace = read_bytes(folder, &bytes).unwrap();
        let (of, into) = (&tables[&from], &tables[&to]);
        for (table, &left) in &kept(&trace) {
            let most = base[table] - if table == into { n_rows(to) } else { 0 };
            assert!(
                left <= most,
                "page {from} of {of} in the place of page {to} of {into}: {left} of {most} in {table}"
            );
            n_lost += usize::from(table == of && left < most);
        }
        assert!(!trace.import.problems.is_empty() && trace.import.rejected > 0, "{of} in {into}: not said");
        assert_eq!(unbalanced(&trace.import), None);
        n_tried += 1;
    }
    // Of two tables that the page fits equally well, neither shows it.
    assert!(n_tried > 100 && n_lost * 10 < n_tried, "{n_lost} of {n_tried} cost the table of the page itself");
}

/// Tables without events of any size are compared with those of events, and told if they hold what is not theirs.
#[test]
fn pages_of_large_tables_without_events_are_known() {
    const EVENTS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
    let folder = scratch("nsys-large-names");
    let path = folder.join("large.sqlite");
    for (i, (large, says)) in
        [("CUDA_CALLCHAINS", "may lack it"), ("marginalia", "is not sure")].into_iter().enumerate()
    {
        let _ = std::fs::remove_file(&path);
        std::fs::copy(&samples(&folder)[i], &path).unwrap();
        std::fs::remove_file(folder.join("utf16.sqlite")).unwrap();
        let connection = rusqlite::Connection::open(&path).unwrap();
        let n_columns: i64 = connection
            .query_row(&format!("SELECT count(*) FROM pragma_table_info('{EVENTS}')"), [], |row| row.get(0))
            .unwrap();
        let columns: Vec<String> = (1..n_columns).map(|i| format!("x{i}")).collect();
        let values = vec!["i"; columns.len()].join(", ");
        connection
            .execute_batch(&format!(
                "DROP TABLE IF EXISTS {large}; CREATE TABLE {large} (id, {});
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
                 INSERT INTO {large} SELECT i, {values} FROM n; VACUUM;",
                columns.join(", ")
            ))
            .unwrap();
        drop(connection);
        let whole = std::fs::read(&path).unwrap();
        let tables = tables_of_pages(&path, &whole);
        let leaves = |table: &str| -> Vec<usize> {
            let own = tables.iter().filter(|(page, name)| *name == table && whole[*page * PAGE] == LEAF);
            own.map(|(&page, _)| page).collect()
        };
        let (of_large, of_events) = (leaves(large), leaves(EVENTS));
        assert!(of_large.len() > 300 && of_events.len() == 1, "{large}: {} and {}", of_large.len(), of_events.len());
        let base = read_bytes(&folder, &whole).unwrap().import;
        assert!(!base.problems.iter().any(|problem| problem.reason.contains("damaged")), "{:?}", base.problems);
        // SQLite finds nothing wrong with the first: its row ids begin with 1.
        for from in [of_large[0], of_large[150], of_large[299]] {
            let mut bytes = whole.clone();
            bytes.copy_within(from * PAGE..(from + 1) * PAGE, of_events[0] * PAGE);
            let import = read_bytes(&folder, &bytes).unwrap().import;
            let shown = |import: &lacuna::model::ImportReport| {
                import.tables.iter().find(|table| table.table == EVENTS).map_or(0, |table| table.shown)
            };
            assert!(shown(&base) > 0 && shown(&import) == 0, "{large}: {} shown", shown(&import));
            let says = |text: &str| text.contains(EVENTS) && text.contains("damaged");
            assert!(import.problems.iter().any(|problem| says(&problem.reason)), "{large}: {:?}", import.problems);
        }
        for to in [of_large[0], of_large[150], of_large[299]] {
            let mut bytes = whole.clone();
            bytes.copy_within(of_events[0] * PAGE..(of_events[0] + 1) * PAGE, to * PAGE);
            let import = read_bytes(&folder, &bytes).unwrap().import;
            let is_told = |text: &str| text.contains(large) && text.contains("damaged") && text.contains(says);
            assert!(import.problems.iter().any(|problem| is_told(&problem.reason)), "{large}: {:?}", import.problems);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Rows of a table WITHOUT ROWID are not shown; that their number is not sure is.
#[test]
fn damage_of_tables_without_row_ids_is_told() {
    let folder = scratch("nsys-without-row-ids");
    let path = folder.join("t.sqlite");
    std::fs::copy(&samples(&folder)[0], &path).unwrap();
    std::fs::remove_file(folder.join("utf16.sqlite")).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE odd (a INTEGER, b TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
             INSERT INTO odd SELECT i, 'text of ' || i FROM n;",
        )
        .unwrap();
    let sql = "SELECT rootpage FROM sqlite_master WHERE name = 'odd'";
    let root: usize = connection.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap() as usize - 1;
    drop(connection);
    let whole = std::fs::read(&path).unwrap();
    let told = |bytes: &[u8]| {
        let import = read_bytes(&folder, bytes).unwrap().import;
        assert_eq!(unbalanced(&import), None);
        import.problems.iter().any(|problem| problem.reason.contains("odd: damaged"))
    };
    assert!(!told(&whole));
    let kind = |page: usize| whole[page * PAGE];
    let pages: Vec<usize> = (root..whole.len() / PAGE).filter(|&page| matches!(kind(page), 2 | 10)).collect();
    assert!(pages.len() > 20, "{}", pages.len());
    for (i, &page) in pages.iter().enumerate() {
        let other = pages[(i + 7) % pages.len()];
        let start = page * PAGE;
        for damage in 0..3 {
            let mut bytes = whole.clone();
            match damage {
                0 => bytes[start..][..PAGE].fill(0),
                1 => bytes[start + 3..][..2].fill(0),
                _ => bytes.copy_within(other * PAGE..(other + 1) * PAGE, start),
            }
            assert!(told(&bytes), "damage {damage} of page {page}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A page that leads to others, in whose place one of these is: SQLite finds nothing wrong with the small table that is
/// left.
#[test]
fn rows_that_no_page_leads_to_are_counted() {
    let folder = scratch("nsys-astray");
    for path in samples(&folder) {
        let whole = std::fs::read(&path).unwrap();
        let tables = tables_of_pages(&path, &whole);
        let base = read_bytes(&folder, &whole).unwrap().import;
        let number = |at: usize| u16::from_be_bytes([whole[at], whole[at + 1]]) as usize;
        let mut n_tried = 0;
        for (&page, table) in tables.iter().filter(|(page, _)| whole[**page * PAGE] == INTERIOR) {
            let start = page * PAGE;
            let child = |at: usize| (number(at) << 16) + number(at + 2) - 1;
            let n_children = number(start + 3);
            let children = (0..n_children).map(|i| child(start + number(start + 12 + 2 * i))).chain([child(start + 8)]);
            for from in children {
                let mut bytes = whole.clone();
                bytes.copy_within(from * PAGE..(from + 1) * PAGE, start);
                let import = read_bytes(&folder, &bytes).unwrap().import;
                assert_eq!(unbalanced(&import), None);
                let which = format!("page {from} in the place of page {page} of {table}");
                assert!(import.problems.len() > base.problems.len(), "{which}: not said");
                assert!(import.read >= base.read, "{which}: {} of {}", import.read, base.read);
                n_tried += 1;
            }
        }
        assert!(n_tried > 20, "{n_tried}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A page whose header counts one byte too many has all its rows, but SQLite calls its table damaged.
#[test]
fn damage_that_costs_no_row_is_told() {
    let folder = scratch("nsys-no-loss");
    let path = project().join("sample_traces/nsys_5_steps.sqlite");
    let whole = std::fs::read(&path).unwrap();
    let base = read_bytes(&folder, &whole).unwrap().import;
    let is_read = |table: &str| table == "StringIds" || base.tables.iter().any(|account| account.table == table);
    let mut n_without_loss = 0;
    for (page, table) in tables_of_pages(&path, &whole).into_iter().filter(|(_, table)| is_read(table)) {
        let mut bytes = whole.clone();
        bytes[page * PAGE + 7] += 1;
        let import = read_bytes(&folder, &bytes).unwrap().import;
        let is_told = |text: &str| text.contains(&table) && text.contains("damaged");
        assert!(import.problems.iter().any(|problem| is_told(&problem.reason)), "page {page} of {table}: not said");
        assert_eq!((import.shown, import.merged), (base.shown, base.merged), "page {page} of {table}");
        n_without_loss += usize::from(import.rejected == base.rejected);
    }
    assert!(n_without_loss > 20, "{n_without_loss}");
    std::fs::remove_dir_all(&folder).unwrap();
}
