//! Which table each page belongs to, by the pages that lead to it.

use std::collections::BTreeSet;

/// The table that each page belongs to.
#[derive(Debug, Default)]
pub struct Owners {
    /// By page: 1 + index of the table; 0 without any.
    of_page: Vec<u32>,
    /// Tables that have a page in common with another or twice.
    pub contested: BTreeSet<usize>,
}

impl Owners {
    /// Notes that a page belongs to a table.
    pub(super) fn claim(&mut self, page: u32, table: usize) {
        let at = page as usize;
        if self.of_page.len() <= at {
            self.of_page.resize(at + 1, 0);
        }
        match self.of_page[at].checked_sub(1) {
            Some(owner) => self.contested.extend([owner as usize, table]),
            None => self.of_page[at] = table as u32 + 1,
        }
    }

    /// Whether a page is known to belong to some table.
    pub fn is_owned(&self, page: u32) -> bool {
        self.of_page.get(page as usize).is_some_and(|&owner| owner > 0)
    }

    /// Whether a page is known to belong to another table alone.
    pub fn is_of_another(&self, page: u32, table: usize) -> bool {
        let owner = self.of_page.get(page as usize).and_then(|owner| owner.checked_sub(1));
        owner.is_some_and(|owner| owner as usize != table && !self.contested.contains(&(owner as usize)))
    }
}
