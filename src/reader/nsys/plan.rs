//! Where the rows of each table are, and the tasks that read them.

use super::catalog::{Catalog, Table};
use super::pages::{self, Leaf, Owners};
use super::scan::{RowRange, Task};
use super::tables::Spec;

/// Pages of one task: enough to make its own cost negligible.
pub const LEAVES_PER_TASK: usize = 4096;

/// Where the rows of each table are.
#[derive(Debug, Default)]
pub struct Plan {
    /// By table of the catalog: its leaf pages; `None` where they are not in order.
    pub leaves: Vec<Option<Vec<Leaf>>>,
    pub owners: Owners,
    /// Texts are not stored as they are shown: SQLite reads the rows.
    is_utf16: bool,
}

impl Plan {
    /// Finds the pages of all tables; of none if the file cannot be opened again.
    pub fn new(pages: Option<pages::Reader>, catalog: &Catalog, is_utf16: bool) -> Self {
        let Some(mut pages) = pages else {
            return Self { leaves: vec![None; catalog.tables.len()], ..Self::default() };
        };
        let mut owners = Owners::default();
        let mut leaves_of = |(index, table): (usize, &Table)| {
            table.layout?;
            pages.leaves(table.root, index, &mut owners).ok()
        };
        let mut leaves: Vec<_> = catalog.tables.iter().enumerate().map(&mut leaves_of).collect();
        for &contested in &owners.contested {
            leaves[contested] = None;
        }
        Self { leaves, owners, is_utf16 }
    }

    /// The tasks of a table, of [`LEAVES_PER_TASK`] pages each; one without pages if these are not in order, or not to
    /// be read as they are.
    pub fn tasks<'a>(&self, index: usize, table: &'a Table, spec: &'a Spec) -> Vec<Task<'a>> {
        let task = |rows, leaves| Task { index, table, spec, rows, leaves };
        let Some(Some(leaves)) = self.leaves.get(index).filter(|_| !self.is_utf16) else {
            let (first, last) = table.row_ids.unwrap_or((i64::MIN, i64::MAX));
            return vec![task(RowRange { first, last }, None)];
        };
        let mut at = i64::MIN;
        let chunks = leaves.chunks(LEAVES_PER_TASK).map(|leaves| {
            let last = leaves.last().map_or(i64::MAX, |leaf| leaf.last_row);
            let rows = RowRange { first: at, last };
            at = last.saturating_add(1);
            task(rows, Some(leaves.into()))
        });
        chunks.collect()
    }
}
