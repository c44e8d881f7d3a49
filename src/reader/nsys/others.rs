//! Tables without events: names and settings, and those that are not shown. Damage in them is told, and a page of
//! theirs in a table of events is known.

use std::collections::HashSet;

use rayon::prelude::*;
use rusqlite::Connection;

use crate::job::Progress;
use crate::model::{ImportReport, Severity};

use super::catalog::{Catalog, Table, rows_of};
use super::database::{Database, Interrupt};
use super::pages::{Columns, Leaf, Reader};
use super::plan::{LEAVES_PER_TASK, Plan};
use super::strings::STRING_IDS;
use super::tables::Role;
use super::whole;

/// What the pages of such a table say.
#[derive(Clone, Debug, Default)]
pub struct Walked {
    /// By leaf, see [`Reader::marks`].
    pub marks: Vec<u64>,
    /// The last pages of records that go on on other pages.
    pub ends: Vec<u32>,
    /// Some page is unusual.
    is_odd: bool,
    /// Some record does not go on as it should.
    is_torn: bool,
}

/// Whether a table has no events. Texts are read as those of events are.
fn is_other(table: &Table) -> bool {
    matches!(table.role, Role::Context | Role::Unknown)
}

/// Walks over all pages of these tables, on all cores; by table.
pub fn walk(database: &Database, catalog: &Catalog, plan: &Plan, progress: &Progress) -> Vec<Walked> {
    let tables = catalog.tables.iter().zip(&plan.leaves).enumerate();
    let tables = tables.filter(|(_, (table, _))| is_other(table));
    let mut of_table = vec![Walked::default(); catalog.tables.len()];
    let mut work = Vec::new();
    for (index, (table, leaves)) in tables {
        of_table[index].is_odd = leaves.is_none();
        let mut after = i64::MIN;
        for leaves in leaves.iter().flat_map(|leaves| leaves.chunks(LEAVES_PER_TASK)) {
            work.push((index, table, leaves, after));
            after = leaves.last().map_or(after, |leaf| leaf.last_row);
        }
    }
    let walked = |pages: &mut Option<Reader>, &(index, table, leaves, after): &(usize, &Table, &[Leaf], i64)| {
        let walked = pages.as_mut().map(|pages| of_leaves(pages, table, (leaves, after), progress));
        (index, walked.unwrap_or(Walked { is_odd: true, ..Default::default() }))
    };
    let all: Vec<_> = work.par_iter().with_max_len(1).map_init(|| database.pages(), walked).collect();
    for (index, Walked { marks, ends, is_odd, is_torn }) in all {
        let of_table = &mut of_table[index];
        of_table.marks.extend(marks);
        of_table.ends.extend(ends);
        of_table.is_odd |= is_odd;
        of_table.is_torn |= is_torn;
    }
    of_table
}

/// * `after`: all row ids are above this.
fn of_leaves(pages: &mut Reader, table: &Table, (leaves, after): (&[Leaf], i64), progress: &Progress) -> Walked {
    let marks = |pages: &mut Reader| leaves.iter().map(|leaf| pages.mark(leaf.page)).collect();
    if table.name == STRING_IDS.table {
        return Walked { marks: marks(pages), ..Default::default() };
    }
    pages.marks.clear();
    pages.chains.take();
    let none = Columns::new(&[], None, table.columns.len());
    if pages.read(leaves, after, &none, |_, _| !progress.is_cancelled()).is_ok() {
        let (marks, ends) = (std::mem::take(&mut pages.marks), pages.chains.take());
        return Walked { marks, ends, ..Default::default() };
    }
    let ends = pages.ends(leaves);
    let is_torn = ends.is_err();
    Walked { marks: marks(pages), ends: ends.unwrap_or_default(), is_odd: true, is_torn }
}

/// Notes which of these tables are damaged.
///
/// * `walked`: by table, and the pages in the place of others.
pub fn note_damage(
    database: &Database,
    catalog: &Catalog,
    plan: &Plan,
    (walked, copies): (&[Walked], Option<&HashSet<u32>>),
    interrupt: &Interrupt,
    import: &mut ImportReport,
) {
    // One that met damage answers differently afterwards.
    let mut clean = None;
    let mut damage = |table: Option<&str>| {
        let Ok(connection) = clean.take().map_or_else(|| database.connect(interrupt), Ok) else { return true };
        let is_damaged = whole::damage(&connection, table).is_some();
        clean = Some(connection).filter(|_| !is_damaged);
        is_damaged
    };
    let mut note = |name: &str, what: &str| import.note(Severity::Warn, &format!("{name}: damaged{what}"), 1, None);
    const UNSURE: &str = "; how many rows it has, which are not shown, is not sure";
    for (index, (table, walked)) in catalog.tables.iter().zip(walked).enumerate() {
        if !is_other(table) || table.name == STRING_IDS.table {
            continue;
        }
        let leaves = plan.leaves.get(index).and_then(Option::as_deref).unwrap_or_default();
        let is_copied = |leaf: &Leaf| copies.is_some_and(|copies| copies.contains(&leaf.page));
        if !walked.is_odd && !leaves.iter().any(is_copied) {
            continue;
        }
        let is_mixed =
            || database.pages().is_some_and(|mut it| whole::has_rows_of_others(&mut it, table, leaves, copies));
        if walked.is_torn || plan.owners.contested.contains(&index) || damage(Some(&table.name)) || is_mixed() {
            let is_shown = matches!(table.role, Role::Context);
            note(&table.name, if is_shown { "; what its rows name or describe may lack it" } else { UNSURE });
        }
    }
    // Their pages are counted by SQLite alone, in all of the file at once.
    if catalog.without_row_ids.is_empty() || !damage(None) {
        return;
    }
    for name in &catalog.without_row_ids {
        note(name, &format!(", or another part of the file{UNSURE}"));
    }
}

/// Row counts of tables that are not read, to be counted as not shown, with the reason.
pub fn unread(
    connection: &Connection,
    catalog: &Catalog,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Vec<(String, u64, &'static str)> {
    let unknown = catalog.tables.iter().filter(|table| matches!(table.role, Role::Unknown) && table.row_ids.is_some());
    let unknown = unknown.map(|table| (&table.name, "unknown table"));
    let without_row_ids =
        catalog.without_row_ids.iter().map(|name| (name, "a table WITHOUT ROWID, which no export has"));
    let count = |name: &str| {
        interrupt.saw_row(progress);
        let sql = format!("SELECT count(*) FROM {}", rows_of(name));
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).map_or(0, |n| n as u64)
    };
    unknown.chain(without_row_ids).map(|(name, why)| (name.clone(), count(name), why)).collect()
}
