//! Rows that lie below each other, and which of them are folded.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use hashbrown::HashSet;

use crate::widget::table::Branch;

/// The place of each row in a tree, in which each row stands before those below it.
#[derive(Debug, Default)]
pub struct Tree {
    /// How many rows are around each.
    depths: Vec<u32>,
    /// The row around each; `u32::MAX` for the outermost.
    parents: Vec<u32>,
    /// A hash of the names from the outermost row to each: the same in the tree of another time range.
    paths: Vec<u64>,
}

impl Tree {
    /// * `rows`: depth and name of each row. A row is at most one level below the one before it.
    ///
    /// Cost: O(rows).
    pub fn new<'a>(rows: impl Iterator<Item = (u32, &'a str)>) -> Self {
        let mut tree = Self::default();
        let mut around: Vec<u32> = Vec::new();
        for (depth, name) in rows {
            around.truncate(depth as usize);
            let parent = around.last().copied();
            let mut hasher = DefaultHasher::new();
            (parent.map(|parent| tree.paths[parent as usize]), name).hash(&mut hasher);
            around.push(tree.depths.len() as u32);
            tree.depths.push(depth);
            tree.parents.push(parent.unwrap_or(u32::MAX));
            tree.paths.push(hasher.finish());
        }
        tree
    }

    /// Puts the rows of another tree below these.
    pub fn append(&mut self, other: Self) {
        let n = self.depths.len() as u32;
        let moved = |parent: u32| if parent == u32::MAX { parent } else { parent + n };
        self.parents.extend(other.parents.into_iter().map(moved));
        self.depths.extend(other.depths);
        self.paths.extend(other.paths);
    }

    /// The row around a row.
    pub fn parent(&self, row: usize) -> Option<usize> {
        self.parents.get(row).filter(|&&parent| parent != u32::MAX).map(|&parent| parent as usize)
    }

    /// The rows around a row, innermost first.
    pub fn around(&self, row: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.parent(row), |&row| self.parent(row))
    }

    /// The row of `other`, another tree, with the same path. Cost: O(rows).
    pub fn same_row(&self, row: usize, other: &Self) -> Option<usize> {
        let path = self.paths.get(row)?;
        other.paths.iter().position(|other| other == path)
    }

    fn has_below(&self, row: usize) -> bool {
        self.depths.get(row + 1).is_some_and(|&next| next > self.depths[row])
    }
}

/// Which rows are folded, by their paths, so that they stay so in the tree of another time range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folds {
    /// Whether rows are folded but for `except`.
    is_folded: bool,
    except: HashSet<u64>,
}

impl Folds {
    /// All rows folded, or none.
    pub fn all(is_folded: bool) -> Self {
        Self { is_folded, ..Self::default() }
    }

    fn is_folded(&self, path: u64) -> bool {
        self.is_folded != self.except.contains(&path)
    }

    /// Folds or unfolds a row.
    pub fn toggle(&mut self, tree: &Tree, row: usize) {
        let Some(&path) = tree.paths.get(row) else { return };
        if !self.except.remove(&path) {
            self.except.insert(path);
        }
    }

    /// The folded rows around a row, which hide it.
    pub fn hiding<'a>(&'a self, tree: &'a Tree, row: usize) -> impl Iterator<Item = usize> + 'a {
        tree.around(row).filter(|&row| self.is_folded(tree.paths[row]))
    }

    /// The rows that no folded one hides. Cost: O(rows).
    pub fn listed(&self, tree: &Tree) -> Vec<u32> {
        let (mut listed, mut hidden_below) = (Vec::new(), u32::MAX);
        for (row, (&depth, &path)) in (0..).zip(tree.depths.iter().zip(&tree.paths)) {
            if depth > hidden_below {
                continue;
            }
            listed.push(row);
            hidden_below = if self.is_folded(path) { depth } else { u32::MAX };
        }
        listed
    }

    /// How a row is shown.
    pub fn branch(&self, tree: &Tree, row: usize) -> Branch {
        let Some((&depth, &path)) = tree.depths.get(row).zip(tree.paths.get(row)) else { return Branch::default() };
        Branch { depth, is_folded: tree.has_below(row).then(|| self.is_folded(path)), parent: tree.parent(row) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// a(b(c, d), e), f(b).
    const ROWS: [(u32, &str); 7] = [(0, "a"), (1, "b"), (2, "c"), (2, "d"), (1, "e"), (0, "f"), (1, "b")];

    #[test]
    fn folded_rows_hide_those_below_them_only() {
        let tree = Tree::new(ROWS.into_iter());
        let mut folds = Folds::default();
        assert_eq!(folds.listed(&tree), [0, 1, 2, 3, 4, 5, 6]);
        folds.toggle(&tree, 1);
        assert_eq!(folds.listed(&tree), [0, 1, 4, 5, 6]);
        assert_eq!(folds.hiding(&tree, 3).collect::<Vec<_>>(), [1]);
        assert_eq!(folds.branch(&tree, 1), Branch { depth: 1, is_folded: Some(true), parent: Some(0) });
        assert_eq!(folds.branch(&tree, 6), Branch { depth: 1, is_folded: None, parent: Some(5) });
        folds.toggle(&tree, 0);
        assert_eq!(folds.listed(&tree), [0, 5, 6]);
        folds.toggle(&tree, 0);
        assert_eq!(folds.listed(&tree), [0, 1, 4, 5, 6], "what is folded inside stays so");
        let mut folds = Folds::all(true);
        assert_eq!(folds.listed(&tree), [0, 5]);
        folds.toggle(&tree, 0);
        assert_eq!(folds.listed(&tree), [0, 1, 4, 5]);
    }

    #[test]
    fn rows_are_the_same_in_another_tree_by_their_paths() {
        let tree = Tree::new(ROWS.into_iter());
        let other = Tree::new([(0, "f"), (1, "b"), (0, "a"), (1, "b")].into_iter());
        assert_eq!([1, 6, 2].map(|row| tree.same_row(row, &other)), [Some(3), Some(1), None]);
        let mut folds = Folds::default();
        folds.toggle(&tree, 1);
        assert_eq!(folds.branch(&other, 3).is_folded, None);
        assert_eq!(folds.hiding(&Tree::new([(0, "a"), (1, "b"), (2, "x")].into_iter()), 2).count(), 1);
    }
}
