//! Memory beside that of another recording: what is more or less than there.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Owned, Owner, holder_frames, owner};
use crate::analysis::memory::categories::Category;
use crate::figures::verdicts::clipped;
use crate::figures::{Cell, Figure, Part, Stack, Table, Word, figures, format};
use crate::model::memory::device_name;

/// The memory of one device beside that of another recording, with the lists that belong to it.
#[derive(Clone, Debug)]
pub struct MemoryComparison {
    pub owner: Owner,
    /// Title of the other recording.
    pub base: Arc<str>,
    /// See [`Self::text`].
    pub text: String,
    /// When the lists compare, with the state of the other recording and of this one: at the peak of each where both
    /// have one, and at the end.
    pub moments: Vec<(&'static Word, [u32; 2])>,
    pub amounts: Arc<Table>,
    pub by_category: Arc<Table>,
    pub by_place: Arc<Table>,
    pub by_stack: Arc<Table>,
}

/// Bytes of something in two recordings.
#[derive(Clone, Debug)]
pub struct Changed<T> {
    pub owner: Owner,
    /// Title of the recording that is compared with.
    pub base: Arc<str>,
    pub of: T,
    pub before: u64,
    pub after: u64,
}

/// What of a device's memory is compared.
pub const PEAK_ALLOCATED: &Word = &Word { rank: 0, key: "peak_allocated", label: "Peak allocated" };
pub const PEAK_RESERVED: &Word = &Word { rank: 1, key: "peak_reserved", label: "Peak reserved" };
pub const END_ALLOCATED: &Word = &Word { rank: 2, key: "end_allocated", label: "Allocated at end" };
pub const END_RESERVED: &Word = &Word { rank: 3, key: "end_reserved", label: "Reserved at end" };

impl<T> Changed<T> {
    fn change(&self) -> i64 {
        self.after.cast_signed().wrapping_sub(self.before.cast_signed())
    }
}

impl<T> Owned for Changed<T> {
    fn owner(&self) -> Owner {
        self.owner.clone()
    }
}

/// When, the place that changed most, and by how many bytes. Its frames are text from a file.
pub type MostChanged = (&'static Word, String, i64);

impl MemoryComparison {
    /// How the peaks and the ends differ, in a paragraph.
    ///
    /// * `amounts`: bytes in the other recording and in this one.
    pub fn text(owner: &Owner, base: &str, amounts: &[(&'static Word, [u64; 2])], most: Option<MostChanged>) -> String {
        let device = device_name(owner.device);
        let rank = owner.rank.map(|rank| format!("Rank {rank}, ")).unwrap_or_default();
        let file = owner.file.as_ref().map(|file| format!(" in {file}")).unwrap_or_default();
        let told = amounts.iter().map(|&(amount, [before, after])| {
            let [was, is, more] = [before, after, after.abs_diff(before)].map(|bytes| format::bytes(bytes as f64));
            let than = match after.cmp(&before) {
                Ordering::Less => format!("{more} less than"),
                Ordering::Equal => "as much as".to_owned(),
                Ordering::Greater => format!("{more} more than"),
            };
            format!("{} {is}, {than} the {was} there", amount.label.to_lowercase())
        });
        let told: Vec<String> = told.collect();
        let most = most.map(|(at, place, change)| {
            let than = if change < 0 { "less" } else { "more" };
            let bytes = format::bytes(change.unsigned_abs() as f64);
            format!(". {} {} changed most: {bytes} {than}", at.label, holder_frames(&place))
        });
        let most = most.unwrap_or_default();
        format!("{rank}{device}{file}, beside {}: {}{most}", clipped(base), told.join("; "))
    }
}

impl Owned for MemoryComparison {
    fn owner(&self) -> Owner {
        self.owner.clone()
    }
}

fn bytes<T>() -> Vec<Figure<Changed<T>>> {
    figures! { row: Changed<T>;
        number "bytes", "Change", 90, Cell::Gain(row.change()), "Bytes more than in the other recording, or fewer";
        number "before_bytes", "Before", 90, Cell::Bytes(row.before), "Bytes in the other recording";
        number "after_bytes", "After", 90, Cell::Bytes(row.after), "Bytes in this one";
        words "base", "Compared with", 140, Cell::name(&row.base), "The other recording";
        with owner();
    }
}

/// Peaks and ends of two recordings, a row each.
pub fn compared_amounts() -> Part<Changed<&'static Word>> {
    let figures = figures! { row: Changed<&'static Word>;
        words "amount", "Memory", 120, Cell::Word(row.of), "The most that was allocated or reserved, and what is at \
                                                            the end";
        with bytes();
    };
    Part::new("compared_amounts", "Memory compared", figures)
        .report("file rank device amount bytes before_bytes after_bytes base")
        .json("amount bytes before_bytes after_bytes")
}

/// Categories of two recordings, at the peak of each and at the end.
pub fn compared_categories() -> Part<Changed<(&'static Word, Category)>> {
    let figures = figures! { row: Changed<(&'static Word, Category)>;
        words "at", "At", 100, Cell::Word(row.of.0), "At the peak of each recording, or at the end";
        words "category", "Category", 110, Cell::name(row.of.1.key()), "As in the memory by category";
        with bytes();
    };
    Part::new("compared_categories", "Memory compared, by category", figures)
        .report("file rank device at category bytes before_bytes after_bytes")
        .json("at category bytes before_bytes after_bytes")
}

/// Call stacks of two recordings, at the peak of each and at the end.
pub fn compared_stacks() -> Part<Changed<(&'static Word, Arc<Stack>)>> {
    const SHORT: &str = "The place, as in the memory by place: the innermost frame in user code; where several stacks \
                         have it, also the frame that tells them apart";
    let figures = figures! { row: Changed<(&'static Word, Arc<Stack>)>;
        words "at", "At", 100, Cell::Word(row.of.0), "At the peak of each recording, or at the end";
        words "stack", "Allocated at", 300, Cell::Stack(Arc::clone(&row.of.1)), SHORT;
        words "frames", "Stack", 300, Cell::frames(&row.of.1.frames.join("; ")),
            "The whole call stack, innermost frame first";
        words "place", "Place", 300, Cell::frames(&row.of.1.place), "The place, as in the memory by place";
        with bytes();
    };
    Part::new("compared_stacks", "Memory compared, by stack", figures)
        .report("file rank device at bytes before_bytes after_bytes stack")
        .json("at place stack bytes before_bytes after_bytes")
}

/// The memory of each device beside that of another recording.
pub fn memory_comparison() -> Part<MemoryComparison> {
    fn list(table: &Arc<Table>) -> Cell {
        Cell::List(Arc::clone(table))
    }
    let figures = figures! { row: MemoryComparison;
        words "base", "Compared with", 140, Cell::name(&row.base), "The other recording";
        words "text", "Summary", 300, Cell::text(&row.text), "How peaks and ends differ, in words";
        words "compared_amounts", "Amounts", 0, list(&row.amounts), "Peaks and ends of both";
        words "compared_categories", "By category", 0, list(&row.by_category), "What memory holds more or less of";
        words "compared_places", "By place", 0, list(&row.by_place), "Who holds more or less";
        words "compared_stacks", "By stack", 0, list(&row.by_stack), "Which call stacks hold more or less";
        with owner();
    };
    Part::new("memory_comparison", "Memory compared, in short", figures)
        .report("text")
        .json("file rank device base text compared_amounts compared_categories compared_places compared_stacks")
}
