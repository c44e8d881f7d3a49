//! Figures of GPU memory: of each device, of places in the program, of each time that memory ran out.

mod allocations;
mod apart;
mod by_place;
mod categories;
mod compared;
mod comparison;
mod growth;
mod headline;
mod leak_advice;
mod oom;
mod outside;
mod places;
mod reserved;
mod summary;
mod timeline;
mod unused;

pub use allocations::{AllocationRows, lifetime_text, source_text};
pub use apart::tell_apart;
pub use by_place::{
    AT_END, AT_MOMENT, AT_PEAK, HolderRow, by_place, change_by_place, compared_places, named_by_rows, no_stack_help,
};
pub use categories::{Held, categories, categories_object};
pub use compared::{Compared, compared_memory};
pub use comparison::{
    Changed, END_ALLOCATED, END_RESERVED, MemoryComparison, MostChanged, PEAK_ALLOCATED, PEAK_RESERVED,
    compared_amounts, compared_categories, compared_stacks, memory_comparison,
};
pub use growth::{
    GROWN, MemoryGrowth, RECORDED_STREAM, growing_place, growth, growth_sentence, no_candidate, step_name,
};
pub use headline::{Headline, InShort, headline, holder_frames, in_short, private_pools};
pub use leak_advice::leak_advice;
pub use oom::{OutOfMemory, caught, oom, raise, why};
pub use outside::{OutsideMemory, outside_growth, outside_memory, outside_sentence};
pub use places::{AtPlace, Leak, NoLeak, Places, gains, leaks, live_at_end, no_leaks, peak_by_stack};
pub use reserved::{
    HOW_SHARED, ReservedGrowth, ReservedShares, cause_text, in_the_way, reserved_growth, reserved_shares,
    shares_object, shares_sentence,
};
pub use summary::{DeviceMemory, memory};
pub use timeline::{TimelineCategory, timeline_categories};
pub use unused::{RESERVED_UNUSED, excess_advice, reserved_unused, unused_parts};

use std::sync::Arc;

use super::{Cell, Figure, figures};

/// Whose memory it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Title of the file, where rank and device are those of another file's memory too.
    pub file: Option<Arc<str>>,
    pub rank: Option<u32>,
    /// -1 is the host.
    pub device: i32,
}

/// Rows about the memory of one device.
pub trait Owned {
    fn owner(&self) -> Owner;
}

/// The first figures of every flat table about memory.
fn owner<R: Owned>() -> Vec<Figure<R>> {
    figures! { row: R;
        words "file", "File", 140, Cell::or_empty(row.owner().file, |file| Cell::name(&file)),
            "The file, where rank and device are ambiguous";
        number "rank", "Rank", 50, Cell::number(row.owner().rank), "Rank of the process";
        number "device", "Device", 58, Cell::Device(row.owner().device), "Index of the device";
    }
}
