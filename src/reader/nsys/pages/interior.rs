//! Interior pages: whether all of their content is known.

use super::{Unexpected, u16_at};

/// Whether the cells, fragments and free blocks of an interior page explain its content: that of a page that was split
/// has such blocks. A page that lost cells would lead to a table that looks whole.
pub fn is_explained(page: &[u8], n_cells: usize, n_bytes: usize) -> Result<bool, Unexpected> {
    let start = match u16_at(page, 5)? {
        0 => 65_536,
        start => usize::from(start),
    };
    let (mut n_free, mut block) = (0, usize::from(u16_at(page, 1)?));
    while block != 0 {
        let next = usize::from(u16_at(page, block)?);
        n_free += usize::from(u16_at(page, block + 2)?);
        if next != 0 && next <= block {
            return Ok(false);
        }
        block = next;
    }
    let n_content = page.len().checked_sub(start).ok_or(Unexpected)?;
    Ok(n_content == n_bytes + n_free + usize::from(page[7]) && 12 + 2 * n_cells <= start)
}
