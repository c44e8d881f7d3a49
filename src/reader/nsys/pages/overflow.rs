//! Records that go on on other pages: a chain of pages, each of which names the next, and the last one none.
//!
//! SQLite follows a chain wherever it leads. Each page of one is of one record alone: as it names one other, two chains
//! have a page in common exactly if they end on the same one.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::Arc;

use super::{Cell, LEAF, Leaf, Reader, Unexpected, u16_at, u32_at};
use crate::reader::nsys::opened::read_exact_at;

/// Longest record that is read, as SQLite is told as well; longer ones are counted as too large.
pub const MAX_RECORD: usize = crate::reader::nsys::database::MAX_CELL as usize;

/// The chains that were met.
#[derive(Debug, Default)]
pub struct Chains {
    /// Pages that are in no chain.
    barred: Arc<HashSet<u32>>,
    /// The last page of each chain of a record that was read, since it was taken.
    pub ends: Vec<u32>,
    /// Pages that were read for these.
    n_read: u64,
    /// By page that was looked at: where its chain ends, if it does.
    known: HashMap<u32, Option<End>>,
    /// The last pages of the chains that [`Reader::own_record`] gave away.
    taken: HashSet<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    page: u32,
    /// From the page that leads there on.
    n_pages: usize,
}

/// The pages of a file.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub page: usize,
    /// Bytes of a page that may be used.
    pub usable: usize,
    pub n_pages: u64,
}

impl Size {
    /// Where a page of a chain starts in the file; the first page of a file is in none.
    fn offset(self, page: u32) -> Option<u64> {
        let index = u64::from(page).checked_sub(1).filter(|&index| index > 0 && index < self.n_pages)?;
        Some(index * self.page as u64)
    }
}

impl Chains {
    pub fn new(barred: Arc<HashSet<u32>>) -> Self {
        Self { barred, ..Self::default() }
    }

    /// A record of this length, whose beginning is known, and the page on which it goes on; and the page on which it ends.
    ///
    /// Errors: its chain is not of its length, or not in the file.
    #[cold]
    pub fn record(
        &mut self,
        file: &mut File,
        size: Size,
        (mut record, mut next, len): (Vec<u8>, u32, usize),
    ) -> Result<(Vec<u8>, u32), Unexpected> {
        if len > MAX_RECORD || len as u64 > size.n_pages * size.page as u64 {
            return Err(Unexpected);
        }
        let mut page = vec![0; size.usable];
        let mut last = 0;
        while record.len() < len {
            let offset = size.offset(next).filter(|_| !self.barred.contains(&next)).ok_or(Unexpected)?;
            read_exact_at(file, &mut page, offset).map_err(|_| Unexpected)?;
            self.n_read += 1;
            last = next;
            next = u32_at(&page, 0)?;
            let n = (len - record.len()).min(page.len() - 4);
            record.extend_from_slice(&page[4..4 + n]);
        }
        // That of a circle does not end either.
        if next == 0 { Ok((record, last)) } else { Err(Unexpected) }
    }

    /// Takes the last pages of the chains of the records that were read since the last call.
    pub fn take(&mut self) -> Vec<u32> {
        self.n_read = 0;
        std::mem::take(&mut self.ends)
    }

    /// Whether more pages were read than there are: many records have one chain.
    pub fn is_too_long(&self, size: Size) -> bool {
        self.n_read > size.n_pages
    }

    /// Where the chain from a page on ends. Each page is looked at once.
    fn end(&mut self, file: &mut File, size: Size, first: u32) -> Option<End> {
        let (mut pages, mut next) = (Vec::new(), first);
        let mut end = loop {
            if next == 0 {
                break pages.last().map(|&page| End { page, n_pages: 0 });
            }
            if let Some(known) = self.known.get(&next) {
                break *known;
            }
            let Some(offset) = size.offset(next).filter(|_| !self.barred.contains(&next)) else { break None };
            // A chain that comes back here has no end.
            self.known.insert(next, None);
            pages.push(next);
            let mut number = [0; 4];
            if read_exact_at(file, &mut number, offset).is_err() {
                break None;
            }
            next = u32::from_be_bytes(number);
        };
        for page in pages.into_iter().rev() {
            end = end.map(|end| End { n_pages: end.n_pages + 1, ..end });
            self.known.insert(page, end);
        }
        end
    }
}

impl Reader {
    /// The last page of the chain of a cell that has one.
    ///
    /// Errors: it has none of its length.
    fn end_of(&mut self, cell: &Cell) -> Result<Option<u32>, Unexpected> {
        let Some(first) = cell.overflow else { return Ok(None) };
        let n_pages = (cell.len - cell.local).div_ceil(self.size.usable - 4);
        let end = self.chains.end(&mut self.file, self.size, first).filter(|end| end.n_pages == n_pages);
        end.map(|end| Some(end.page)).ok_or(Unexpected)
    }

    /// The last pages of the chains of all records on these leaves; what is wrong with the leaves is no question here.
    ///
    /// Errors: a record has no chain of its length.
    pub fn ends(&mut self, leaves: &[Leaf]) -> Result<Vec<u32>, Unexpected> {
        let mut ends = Vec::new();
        for leaf in leaves {
            let Ok(page) = self.page(leaf.page) else { continue };
            let n_cells = if page[0] == LEAF { usize::from(u16_at(page, 3)?) } else { 0 };
            let cells = (0..n_cells).filter_map(|i| Cell::at(page, i).ok()).filter(|cell| cell.overflow.is_some());
            for cell in cells.collect::<Vec<_>>() {
                ends.extend(self.end_of(&cell)?);
            }
        }
        Ok(ends)
    }

    /// The whole record of a cell, if no other got a page of its chain. Its last page is noted also where one did.
    ///
    /// Errors: it has no chain of its length, or not alone.
    pub fn own_record(&mut self, page: u32, cell: &Cell) -> Result<Vec<u8>, Unexpected> {
        if let Some(end) = self.end_of(cell)? {
            self.chains.ends.push(end);
            if !self.chains.taken.insert(end) {
                return Err(Unexpected);
            }
        }
        self.record(page, cell)
    }

    /// Pages that the file lists as free; none where the list is damaged.
    pub fn free_pages(&mut self) -> HashSet<u32> {
        self.listed_as_free().unwrap_or_default()
    }

    fn listed_as_free(&mut self) -> Result<HashSet<u32>, Unexpected> {
        let header = self.page(1)?;
        let (mut trunk, n) = (u32_at(header, 32)?, u32_at(header, 36)?);
        let mut free = HashSet::new();
        while trunk != 0 {
            let page = self.page(trunk)?;
            let n_listed = u32_at(page, 4)? as usize;
            if n_listed > page.len() / 4 - 2 || !free.insert(trunk) {
                return Err(Unexpected);
            }
            trunk = u32_at(page, 0)?;
            for i in 0..n_listed {
                if !free.insert(u32_at(page, 8 + 4 * i)?) {
                    return Err(Unexpected);
                }
            }
        }
        if free.len() == n as usize { Ok(free) } else { Err(Unexpected) }
    }
}
