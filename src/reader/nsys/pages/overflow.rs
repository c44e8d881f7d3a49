//! Records that go on on other pages: a chain of pages, each of which names the next, and the last one none.
//!
//! SQLite follows a chain wherever it leads. Each page of one is of one record alone: as it names one other, two chains
//! have a page in common exactly if they end on the same one.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Cell, LEAF, Leaf, Reader, Unexpected, u16_at, u32_at};
use crate::reader::nsys::opened::read_exact_at;

/// Longest record that is read, as SQLite is told as well; longer ones are counted as too large.
pub const MAX_RECORD: usize = crate::reader::nsys::database::MAX_CELL as usize;

/// What all threads know of the chains of a file, so that each is followed once however many records lead to it.
#[derive(Debug, Default)]
pub struct Known {
    /// Pages that are in no chain.
    barred: HashSet<u32>,
    /// By page that was looked at: where its chain ends, if it does.
    ends: Mutex<HashMap<u32, Option<End>>>,
    /// The last pages of the records that were read.
    taken: Mutex<HashSet<u32>>,
    is_shared: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    page: u32,
    /// From the page that leads there on.
    n_pages: usize,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    /// * `barred`: pages on which no record goes on.
    pub fn new(barred: HashSet<u32>) -> Self {
        Self { barred, ..Self::default() }
    }

    /// As before, with further pages on which no record goes on.
    pub fn without(&self, pages: &HashSet<u32>) -> Self {
        Self::new(self.barred.union(pages).copied().collect())
    }

    /// Whether two records were met that end on the same page: all has to be read again without it.
    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    pub fn set_shared(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// Notes the last page of a record that was read, once for each record.
    ///
    /// Errors: another ended there.
    pub fn take(&self, end: u32) -> Result<(), Unexpected> {
        if lock(&self.taken).insert(end) {
            return Ok(());
        }
        self.set_shared();
        Err(Unexpected)
    }
}

/// The chains that a reader meets.
#[derive(Debug)]
pub struct Chains {
    pub known: Arc<Known>,
    /// The last page of each chain of a record that was read, since it was taken.
    pub ends: Vec<u32>,
    /// The last pages of the chains that [`Reader::own_record`] gave away.
    given: HashSet<u32>,
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

/// How many bytes of a long record are on its own page.
///
/// * `usable`: bytes of a page that may be used.
/// * `most`: as many may be on it.
pub fn n_local(usable: usize, len: usize, most: usize) -> usize {
    let least = (usable - 12) * 32 / 255 - 23;
    let local = least + (len - least) % (usable - 4);
    if local <= most { local } else { least }
}

impl Chains {
    pub fn new(known: Arc<Known>) -> Self {
        Self { known, ends: Vec::new(), given: HashSet::new() }
    }

    /// A record of this length, whose beginning is known, and the page on which it goes on; and the page on which it
    /// ends.
    ///
    /// Errors: its chain is not of its length, or not in the file, or all has to be read again anyway.
    #[cold]
    pub fn record(
        &self,
        file: &mut File,
        size: Size,
        (mut record, mut next, len): (Vec<u8>, u32, usize),
    ) -> Result<(Vec<u8>, u32), Unexpected> {
        if len > MAX_RECORD || len as u64 > size.n_pages * size.page as u64 || self.known.is_shared() {
            return Err(Unexpected);
        }
        if !self.known.barred.is_empty() {
            self.end_of(file, size, (next, len.saturating_sub(record.len())))?;
        }
        let mut page = vec![0; size.usable];
        let mut last = 0;
        while record.len() < len {
            let offset = size.offset(next).ok_or(Unexpected)?;
            read_exact_at(file, &mut page, offset).map_err(|_| Unexpected)?;
            last = next;
            next = u32_at(&page, 0)?;
            let n = (len - record.len()).min(page.len() - 4);
            record.extend_from_slice(&page[4..4 + n]);
        }
        // That of a circle does not end either.
        if next == 0 { Ok((record, last)) } else { Err(Unexpected) }
    }

    /// See [`Reader::end_of_chain`].
    #[cold]
    pub fn end_of(&self, file: &mut File, size: Size, (first, n_bytes): (u32, usize)) -> Result<u32, Unexpected> {
        let n_pages = n_bytes.div_ceil(size.usable - 4);
        let end = self.end(file, size, first).filter(|end| end.n_pages == n_pages);
        end.map(|end| end.page).ok_or(Unexpected)
    }

    /// Takes the last pages of the chains of the records that were read since the last call.
    pub fn take(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.ends)
    }

    /// Where the chain from a page on ends.
    fn end(&self, file: &mut File, size: Size, first: u32) -> Option<End> {
        let (mut pages, mut next) = (Vec::new(), first);
        let mut end = loop {
            if next == 0 {
                break pages.last().map(|&page| End { page, n_pages: 0 });
            }
            if let Some(known) = lock(&self.known.ends).get(&next) {
                break *known;
            }
            let is_open = !self.known.barred.contains(&next) && pages.len() as u64 <= size.n_pages;
            // A chain that is longer than the file is a circle.
            let Some(offset) = size.offset(next).filter(|_| is_open) else { break None };
            pages.push(next);
            let mut number = [0; 4];
            if read_exact_at(file, &mut number, offset).is_err() {
                break None;
            }
            next = u32::from_be_bytes(number);
        };
        let mut known = lock(&self.known.ends);
        for page in pages.into_iter().rev() {
            end = end.map(|end| End { n_pages: end.n_pages + 1, ..end });
            known.insert(page, end);
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
        self.end_of_chain((first, cell.len - cell.local)).map(Some)
    }

    /// The last page of a chain, of which the first page and the number of bytes are known.
    ///
    /// Errors: it is not of this length.
    pub(super) fn end_of_chain(&mut self, chain: (u32, usize)) -> Result<u32, Unexpected> {
        self.chains.end_of(&mut self.file, self.size, chain)
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
            if !self.chains.given.insert(end) {
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
