//! Trees of which no rows are read: indexes, tables WITHOUT ROWID and SQLite's own. Their records may go on on other
//! pages too.

use std::collections::HashSet;

use super::overflow::n_local;
use super::{INTERIOR, LEAF, Reader, Unexpected, u16_at, u32_at, varint};
use crate::reader::nsys::opened::read_exact_at;

const INDEX_LEAF: u8 = 0x0a;
const INDEX_INTERIOR: u8 = 0x02;

/// The root of the catalog, behind the header of the file.
pub const CATALOG: u32 = 1;
const HEADER: usize = 100;

/// The first page of a chain, and how many bytes of its record are there.
type Chain = (u32, usize);

impl Reader {
    /// The last pages of the chains of all records of a tree, as far as it is well-formed. Each page is looked at once.
    pub fn ends_of_tree(&mut self, root: u32) -> Vec<u32> {
        let mut ends = Vec::new();
        self.walk_tree(root, |reader, chains| {
            ends.extend(chains.into_iter().filter_map(|chain| reader.end_of_chain(chain).ok()));
        });
        ends
    }

    /// The pages of a tree, as far as it is well-formed.
    pub fn pages_of_tree(&mut self, root: u32) -> HashSet<u32> {
        self.walk_tree(root, |_, _| ())
    }

    /// Passes the chains of each page on.
    fn walk_tree(&mut self, root: u32, mut take: impl FnMut(&mut Self, Vec<Chain>)) -> HashSet<u32> {
        let (mut seen, mut waiting) = (HashSet::new(), vec![root]);
        while let Some(page) = waiting.pop() {
            if seen.contains(&page) {
                continue;
            }
            let Ok((children, chains)) = self.page(page).and_then(|bytes| parts(bytes, page)) else { continue };
            seen.insert(page);
            waiting.extend(children);
            take(self, chains);
        }
        seen
    }

    /// The first byte of a page, which says what it is; `None` if it is not in the file.
    pub fn kind(&mut self, page: u32) -> Option<u8> {
        let index = u64::from(page).checked_sub(1).filter(|&index| index < self.size.n_pages)?;
        let mut kind = [0];
        read_exact_at(&mut self.file, &mut kind, index * self.size.page as u64).ok()?;
        Some(kind[0])
    }
}

/// The pages below a page, and the first pages of its chains with the bytes that go on there. Cells that are not within
/// the page have none.
fn parts(page: &[u8], number: u32) -> Result<(Vec<u32>, Vec<Chain>), Unexpected> {
    let at = if number == CATALOG { HEADER } else { 0 };
    let kind = *page.get(at).ok_or(Unexpected)?;
    if ![LEAF, INTERIOR, INDEX_LEAF, INDEX_INTERIOR].contains(&kind) {
        return Err(Unexpected);
    }
    let leads_on = [INTERIOR, INDEX_INTERIOR].contains(&kind);
    let (mut children, mut chains) = (Vec::new(), Vec::new());
    let cells = at + if leads_on { 12 } else { 8 };
    for i in 0..usize::from(u16_at(page, at + 3)?) {
        let mut cell = usize::from(u16_at(page, cells + 2 * i)?);
        if leads_on {
            children.extend(u32_at(page, cell));
            cell += 4;
        }
        if kind != INTERIOR {
            chains.extend(chain(page, kind, cell).ok().flatten());
        }
    }
    if leads_on {
        children.push(u32_at(page, at + 8)?);
    }
    Ok((children, chains))
}

/// The first page of the chain of the record at `at`, and how many of its bytes are there.
fn chain(page: &[u8], kind: u8, mut at: usize) -> Result<Option<Chain>, Unexpected> {
    let len = usize::try_from(varint(page, &mut at)?).map_err(|_| Unexpected)?;
    let most = match kind {
        LEAF => {
            varint(page, &mut at)?;
            page.len() - 35
        }
        _ => (page.len() - 12) * 64 / 255 - 23,
    };
    if len <= most {
        return Ok(None);
    }
    let local = n_local(page.len(), len, most);
    Ok(Some((u32_at(page, at + local)?, len - local)))
}
