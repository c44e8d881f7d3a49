//! Memory by category.

use super::{Owned, Owner, owner};
use crate::analysis::memory::categories::CategoryBytes;
use crate::figures::{Cell, Object, Part, figures};

/// The memory of one category on one device.
#[derive(Clone, Debug)]
pub struct Held {
    pub owner: Owner,
    pub of: CategoryBytes,
    /// All categories at the peak, `None` where none is known, and at the end.
    pub whole: (Option<u64>, u64),
}

impl Owned for Held {
    fn owner(&self) -> Owner {
        self.owner.clone()
    }
}

/// Memory by category, one row each.
pub fn categories() -> Part<Held> {
    fn share(bytes: u64, whole: Option<u64>) -> Cell {
        let whole = whole.filter(|&whole| whole > 0);
        Cell::or_empty(whole, |whole| Cell::Share(bytes as f64 / whole as f64))
    }
    let figures = figures! { row: Held;
        with owner();
        words "category", "Category", 110, Cell::name(row.of.category.key()),
            "As PyTorch's memory profiler defines them, told from stacks, lifetimes and sizes; unknown where those do not tell. Other are inputs, temporaries, workspaces of \
             cuBLAS, casts of parameters that autocast keeps, and what a backward pass needs for itself";
        number "peak_bytes", "At the peak", 100, Cell::or_empty(row.whole.0, |_| Cell::Bytes(row.of.peak)),
            "Where the most is allocated first";
        number "peak_share", "Share", 60, share(row.of.peak, row.whole.0), "Of all that is allocated then";
        number "end_bytes", "At the end", 100, Cell::Bytes(row.of.end), "When the recording ended";
        number "end_share", "Share at the end", 100, share(row.of.end, Some(row.whole.1)), "Of all that is allocated \
            then";
    };
    Part::new("categories", "Memory by category", figures)
}

/// The categories of one device under their keys.
///
/// * `has_peak`: whether a peak is known.
pub fn categories_object(all: &[CategoryBytes], has_peak: bool) -> Option<Object> {
    let bytes = |one: &CategoryBytes| {
        let peak = if has_peak { Cell::Bytes(one.peak) } else { Cell::Empty };
        Object(vec![("peak_bytes", peak), ("end_bytes", Cell::Bytes(one.end))])
    };
    let entries = all.iter().map(|one| (one.category.key(), Cell::Object(Box::new(bytes(one)))));
    (!all.is_empty()).then(|| Object(entries.collect()))
}
