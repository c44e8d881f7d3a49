//! Where the rows of each table are, and the tasks that read them.

use super::catalog::{Catalog, Table};
use super::pages::{self, Leaf, Owners};
use super::scan::{RowRange, Task};
use super::tables::Spec;

/// Pages of one task: enough to make its own cost negligible.
const LEAVES_PER_TASK: usize = 4096;

/// Where the rows of each table are.
#[derive(Debug, Default)]
pub struct Plan {
    /// By table of the catalog: its leaf pages; `None` where they are not in order, or not to be read as they are.
    pub leaves: Vec<Option<Vec<Leaf>>>,
    pub owners: Owners,
}

impl Plan {
    /// Finds the pages of all tables.
    pub fn new(pages: &mut pages::Reader, catalog: &Catalog, is_utf16: bool) -> Self {
        let mut owners = Owners::default();
        let mut leaves_of = |(index, table): (usize, &Table)| {
            let layout = table.layout?;
            pages.leaves(layout.root, index, &mut owners).ok()
        };
        let mut leaves: Vec<_> = catalog.tables.iter().enumerate().map(&mut leaves_of).collect();
        for &contested in &owners.contested {
            leaves[contested] = None;
        }
        if is_utf16 {
            leaves.fill(None);
        }
        Self { leaves, owners }
    }

    /// The tasks of a table, of [`LEAVES_PER_TASK`] pages each; one without pages if these are not in order.
    pub fn tasks<'a>(&self, index: usize, table: &'a Table, spec: &'a Spec) -> Vec<Task<'a>> {
        let task = |rows, leaves| Task { index, table, spec, rows, leaves };
        let Some(Some(leaves)) = self.leaves.get(index) else {
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
