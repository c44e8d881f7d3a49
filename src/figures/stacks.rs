//! Frames of call stacks by weight: samples or bytes.

use super::{Cell, Column, Data};
use crate::analysis::stacks::FlameTree;

/// What frames weigh.
#[derive(Debug)]
pub struct Weight {
    pub cell: fn(i64) -> Cell,
    /// Of the frame itself, and with all that it called.
    pub keys: [&'static str; 2],
    /// What the two are.
    pub help: [&'static str; 2],
}

/// CPU samples.
pub const SAMPLES: Weight = Weight {
    cell: |n| Cell::Count(n.unsigned_abs()),
    keys: ["self_samples", "total_samples"],
    help: [
        "Samples that fell into this frame itself",
        "Samples with this frame anywhere in their stack, each counted once",
    ],
};

/// Self time of slices on the host.
pub const HOST_TIME: Weight = Weight {
    cell: Cell::Ns,
    keys: ["self_ns", "total_ns"],
    help: ["Time in this frame itself", "Time in this frame and all inside it; where it is inside itself, once"],
};

/// Time of the device work that was launched.
pub const DEVICE_TIME: Weight = Weight {
    cell: Cell::Ns,
    keys: ["self_ns", "total_ns"],
    help: ["Time of this device work", "Time of the device work that was launched in this frame, each piece once"],
};

/// Live memory.
pub const LIVE_BYTES: Weight = Weight {
    cell: Cell::Gain,
    keys: ["self_bytes", "total_bytes"],
    help: [
        "Bytes that this frame itself allocated",
        "Bytes allocated with this frame anywhere in the stack, each counted once",
    ],
};

const IN_FULL: &str =
    "The total also outside of the selected range, of what runs in it; where a frame is inside itself, once";

/// The frames of a tree, the heaviest first, and for each name of the tree its row.
pub fn frames(tree: &FlameTree, weight: &Weight) -> (Data, Vec<u32>) {
    const SHARE: &str = "Share of all that is shown";
    let column = |title, key, help, width, is_text| Column { key, title, width, is_text, help };
    let mut columns = vec![
        column("Frame", "frame", "A function, or the library of one without a name", 130, true),
        column("Self", weight.keys[0], weight.help[0], 70, false),
        column("Self share", "self_share", SHARE, 62, false),
        column("Total", weight.keys[1], weight.help[1], 70, false),
        column("Total share", "total_share", SHARE, 62, false),
    ];
    let has_full = !tree.full.is_empty();
    if has_full {
        columns.insert(4, column("In full", "full_ns", IN_FULL, 70, false));
    }
    let whole = tree.total().max(1) as f64;
    let frames = tree.hottest();
    let mut row_of_name = vec![0; tree.names.len()];
    for (row, frame) in frames.iter().enumerate() {
        row_of_name[frame.name as usize] = row as u32;
    }
    let share = |n: i64| Cell::Share(n as f64 / whole);
    let rows = frames.iter().map(|frame| {
        let name = Cell::frames(&tree.names[frame.name as usize]);
        let full = has_full.then(|| (weight.cell)(frame.full));
        let total = [(weight.cell)(frame.total)].into_iter().chain(full).chain([share(frame.total)]);
        [name, (weight.cell)(frame.own), share(frame.own)].into_iter().chain(total).collect()
    });
    (Data { columns, rows: rows.collect() }, row_of_name)
}
