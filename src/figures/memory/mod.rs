//! Figures of GPU memory: of each device, of places in the program, of each time that memory ran out.

mod allocations;
mod by_place;
mod growth;
mod oom;
mod places;
mod reserved;
mod summary;

pub use allocations::AllocationRows;
pub use by_place::{AT_END, AT_MOMENT, AT_PEAK, HolderRow, by_place, change_by_place};
pub use growth::{MemoryGrowth, growth};
pub use oom::{OutOfMemory, oom};
pub use places::{AtPlace, Places, gains, leaks, live_at_end, no_leaks, peak_by_stack};
pub use reserved::{ReservedGrowth, cause_text, reserved_growth};
pub use summary::{DeviceMemory, memory};

use super::{Cell, Figure, figures};

/// Whose memory it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
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
        number "rank", "Rank", 50, Cell::number(row.owner().rank), "Rank of the process";
        number "device", "Device", 58, Cell::Device(row.owner().device), "Index of the device";
    }
}
