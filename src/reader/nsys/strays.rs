//! Leaf pages that no table leads to: what led to them is damaged or replaced, and their rows are lost. SQLite finds
//! nothing wrong with a table whose root is a page of its own from elsewhere, or from another time.

use std::collections::HashSet;

use super::catalog::Catalog;
use super::pages::{CATALOG, Cell, LEAF, Reader, n_columns, u16_at, u32_at};
use super::plan::Plan;

/// A leaf page that no table is known to have.
#[derive(Clone, Copy, Debug)]
struct Stray {
    page: u32,
    n_columns: usize,
    n_rows: u64,
    first: i64,
}

/// The leaf pages that no table is known to have.
#[derive(Debug)]
pub struct Strays<'a> {
    plan: &'a Plan,
    /// Roots of the tables whose pages the plan does not know.
    roots: Vec<u32>,
    /// Pages that were read in salvaging any table.
    pub visited: HashSet<u32>,
    /// Once they were asked for.
    found: Option<Vec<Stray>>,
    /// Those that were counted with a table.
    counted: HashSet<u32>,
}

impl<'a> Strays<'a> {
    pub fn new(catalog: &Catalog, plan: &'a Plan) -> Self {
        let unknown = catalog.tables.iter().zip(&plan.leaves).filter(|(_, leaves)| leaves.is_none());
        let roots = unknown.map(|(table, _)| table.root).chain(catalog.other_tables.iter().copied()).chain([CATALOG]);
        let (visited, counted) = Default::default();
        Self { plan, roots: roots.collect(), visited, found: None, counted }
    }

    /// Rows that a table with so many columns may have lost behind a row, where the way to further pages is lost.
    pub fn behind(&mut self, pages: &mut Reader, n_columns: usize, last_row: i64) -> u64 {
        let found = self.found.take().unwrap_or_else(|| self.find(pages));
        let is_own = |stray: &&Stray| stray.n_columns == n_columns && stray.first > last_row;
        let own: Vec<&Stray> = found.iter().filter(is_own).filter(|stray| self.counted.insert(stray.page)).collect();
        let n_rows = own.iter().map(|stray| stray.n_rows).sum();
        self.found = Some(found);
        n_rows
    }

    /// Rows on all those that were counted with no table.
    pub fn rest(&self, pages: &mut Reader) -> u64 {
        let found = self.find(pages);
        found.iter().filter(|stray| !self.counted.contains(&stray.page)).map(|stray| stray.n_rows).sum()
    }

    /// None where the list of free pages is damaged: these keep what they held.
    fn find(&self, pages: &mut Reader) -> Vec<Stray> {
        let header = |pages: &mut Reader, at| pages.page(1).and_then(|header| u32_at(header, at)).unwrap_or(0);
        let (n_pages, n_free, free) = (header(pages, 28), header(pages, 36), pages.free_pages());
        let in_file = u32::try_from(pages.size.n_pages).unwrap_or(u32::MAX);
        let last = match n_pages {
            _ if n_free as usize != free.len() => 0,
            0 => in_file,
            n_pages => n_pages.min(in_file),
        };
        let led: HashSet<u32> = self.roots.iter().flat_map(|&root| pages.pages_of_tree(root)).collect();
        let is_known = |page: &u32| {
            self.plan.owners.is_owned(*page)
                || [&self.visited, &led, &free].into_iter().any(|pages| pages.contains(page))
        };
        let stray = |page| {
            let bytes = if pages.kind(page) == Some(LEAF) { pages.page(page).ok()? } else { return None };
            let n_rows = u64::from(u16_at(bytes, 3).ok()?);
            let first = Cell::at(bytes, 0).ok()?;
            let n_columns = n_columns(&pages.record(page, &first).ok()?).ok()?;
            Some(Stray { page, n_columns, n_rows, first: first.row_id })
        };
        (2..=last).filter(|page| !is_known(page)).filter_map(stray).collect()
    }
}
