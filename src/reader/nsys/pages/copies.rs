//! Pages in the place of others: SQLite finds nothing wrong with a table that has a page of another.
//!
//! Such a page is there twice, byte for byte, and fits its own table: as many columns, row ids that go on where the
//! page before ends. Two tables of events have no such page in common.

use std::collections::HashSet;

use super::{Cell, LEAF, Leaf, Reader, Unexpected, n_columns, u16_at};

/// A leaf page with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// What tells it from other pages.
    pub mark: u64,
    pub table: usize,
    /// Its place among the leaves of the table.
    pub leaf: usize,
}

/// A table that pages may be of.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    pub leaves: &'a [Leaf],
    pub n_columns: usize,
    /// Not of names or settings, of which two may say the same.
    pub is_of_events: bool,
}

/// How well a page fits its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Not,
    /// As the last page of the table, which may end with any row.
    Last,
    /// It ends with the row that the page above says.
    Exact,
}

/// A number of the header, the first and the last bytes of the content of a leaf with rows: pages with another differ.
#[inline(always)]
pub fn mark(page: &[u8]) -> u64 {
    let start = usize::from(u16::from_be_bytes([page[5], page[6]])).min(page.len() - 8);
    let bytes = |at: usize| page[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mix = |mixed: u64, part: u64| (mixed ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    [bytes(0), bytes(start), bytes(page.len() - 8)].into_iter().fold(0, mix).max(1)
}

impl Reader {
    /// What tells a leaf from others; 0 for one without rows, or that cannot be read.
    pub fn mark(&mut self, page: u32) -> u64 {
        self.page(page).map_or(0, |page| if page[0] == LEAF && page[3..5] != [0, 0] { mark(page) } else { 0 })
    }

    /// Whether some leaf begins with a row of more columns than its table has: SQLite ignores those at the end.
    pub fn has_wider_rows(&mut self, leaves: &[Leaf], n_of_table: usize) -> bool {
        leaves.iter().any(|leaf| self.first_row(leaf.page).is_ok_and(|(_, n)| n > n_of_table))
    }

    /// The id of the first row of a leaf, and its number of columns.
    fn first_row(&mut self, page: u32) -> Result<(i64, usize), Unexpected> {
        let bytes = self.page(page)?;
        let first = Cell::at(bytes, 0)?;
        // What goes on elsewhere seldom begins before its columns are told.
        let own = bytes.get(first.start..first.start + first.local).ok_or(Unexpected)?;
        let n = n_columns(own).or_else(|_| n_columns(&self.record(page, &first)?))?;
        Ok((first.row_id, n))
    }

    fn fit(&mut self, owner: Owner<'_>, leaf: usize) -> Result<Fit, Unexpected> {
        let Leaf { page, last_row } = owner.leaves[leaf];
        let (first, n) = self.first_row(page)?;
        // The rows of an export have ids from 1, without gaps; those of names may have any.
        let follows = match leaf.checked_sub(1) {
            None => first == 1 || !owner.is_of_events,
            Some(before) => owner.leaves[before].last_row.checked_add(1) == Some(first),
        };
        let bytes = self.page(page)?;
        let last = Cell::at(bytes, usize::from(u16_at(bytes, 3)?).saturating_sub(1))?.row_id;
        Ok(match () {
            () if n != owner.n_columns || !follows => Fit::Not,
            () if last == last_row => Fit::Exact,
            () if last_row == i64::MAX => Fit::Last,
            () => Fit::Not,
        })
    }
}

/// Pages that are there in several tables, but for that one of them where it fits best.
///
/// * `owners`: by table; those without leaves have none.
pub fn copies(pages: &mut Reader, owners: &[Owner<'_>], mut marks: Vec<Mark>) -> HashSet<u32> {
    marks.sort_unstable();
    let mut found = HashSet::new();
    let page_of = |mark: &Mark| owners[mark.table].leaves[mark.leaf].page;
    for alike in marks.chunk_by(|a, b| a.mark == b.mark) {
        let is_shared = alike.iter().any(|mark| mark.table != alike[0].table);
        if !is_shared || !alike.iter().any(|mark| owners[mark.table].is_of_events) {
            continue;
        }
        let Ok(content) = pages.page(page_of(&alike[0])).map(<[u8]>::to_vec) else { continue };
        let same = alike.iter().filter(|mark| pages.page(page_of(mark)).is_ok_and(|page| page == content));
        let same: Vec<Mark> = same.copied().collect();
        let fits: Vec<Fit> =
            same.iter().map(|mark| pages.fit(owners[mark.table], mark.leaf).unwrap_or(Fit::Not)).collect();
        let best = fits.iter().max().copied().filter(|best| *best != Fit::Not);
        let is_known = fits.iter().filter(|fit| Some(**fit) == best).count() == 1;
        let copies = same.iter().zip(&fits).filter(|(_, fit)| same.len() > 1 && !(is_known && Some(**fit) == best));
        found.extend(copies.map(|(mark, _)| page_of(mark)));
    }
    found
}
