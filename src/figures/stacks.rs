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
    /// What [`FlameTree::full`] is, where a tree has it.
    pub full: Full,
}

/// What the other weight of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// That also outside of the selected range.
    AnyTime,
    /// Of what is gained, that after the gain.
    After,
    /// Of what is lost, that before the loss.
    Before,
}

impl Full {
    /// Title, key and help of each column.
    fn columns(self) -> &'static [[&'static str; 3]] {
        const IN_FULL: &str =
            "The total also outside of the selected range, of what runs in it; where a frame is inside itself, once";
        match self {
            Self::AnyTime => &[["In full", "full_ns", IN_FULL]],
            Self::After => &[
                ["Before", "before_bytes", "Bytes at the base of the stacks that grew"],
                ["After", "after_bytes", "Bytes at the moment of the stacks that grew: before, and the total"],
            ],
            Self::Before => &[
                ["Before", "before_bytes", "Bytes at the base of the stacks that shrank"],
                ["After", "after_bytes", "Bytes at the moment of the stacks that shrank: before, less the total"],
            ],
        }
    }

    /// What the columns show.
    fn weights(self, total: i64, full: i64) -> Vec<i64> {
        match self {
            Self::AnyTime => vec![full],
            Self::After => vec![full - total, full],
            Self::Before => vec![full, full - total],
        }
    }

    /// What is said behind the total of a frame, and below it.
    pub fn texts(self, total: i64, full: i64, text: &dyn Fn(i64) -> String) -> [String; 2] {
        match self.weights(total, full)[..] {
            [before, after] => [String::new(), format!("{} before, {} after", text(before), text(after))],
            _ => [" in the range".into(), format!("In full {}, also outside of the range", text(full))],
        }
    }
}

/// CPU samples.
pub const SAMPLES: Weight = Weight {
    cell: |n| Cell::Count(n.unsigned_abs()),
    keys: ["self_samples", "total_samples"],
    help: [
        "Samples that fell into this frame itself",
        "Samples with this frame anywhere in their stack, each counted once",
    ],
    full: Full::AnyTime,
};

/// Self time of slices on the host.
pub const HOST_TIME: Weight = Weight {
    cell: Cell::Ns,
    keys: ["self_ns", "total_ns"],
    help: ["Time in this frame itself", "Time in this frame and all inside it; where it is inside itself, once"],
    full: Full::AnyTime,
};

/// Time of the device work that was launched.
pub const DEVICE_TIME: Weight = Weight {
    cell: Cell::Ns,
    keys: ["self_ns", "total_ns"],
    help: ["Time of this device work", "Time of the device work that was launched in this frame, each piece once"],
    full: Full::AnyTime,
};

/// Live memory.
pub const LIVE_BYTES: Weight = Weight {
    cell: Cell::Gain,
    keys: ["self_bytes", "total_bytes"],
    help: [
        "Bytes that this frame itself allocated",
        "Bytes allocated with this frame anywhere in the stack, each counted once",
    ],
    full: Full::AnyTime,
};

/// Live memory that is gained between two moments.
pub const GROWN_BYTES: Weight = Weight {
    help: [
        "Bytes more that this frame itself allocated",
        "Bytes more with this frame anywhere in the stack, each counted once",
    ],
    full: Full::After,
    ..LIVE_BYTES
};

/// Live memory that is lost between two moments.
pub const SHRUNK_BYTES: Weight = Weight {
    help: [
        "Bytes fewer that this frame itself allocated",
        "Bytes fewer with this frame anywhere in the stack, each counted once",
    ],
    full: Full::Before,
    ..LIVE_BYTES
};

/// The frames of a tree, the heaviest first, and for each name of the tree its row.
pub fn frames(tree: &FlameTree, weight: &Weight) -> (Data, Vec<u32>) {
    const SHARE: &str = "Share of all that is shown";
    let column = |title, key, help, width, is_text| Column { key, title, width, is_text, help };
    let mut columns = vec![
        column("Frame", "frame", "A function, or the library of one without a name", 200, true),
        column("Self", weight.keys[0], weight.help[0], 70, false),
        column("Self share", "self_share", SHARE, 62, false),
        column("Total", weight.keys[1], weight.help[1], 70, false),
        column("Total share", "total_share", SHARE, 62, false),
    ];
    let full = Some(weight.full).filter(|_| !tree.full.is_empty());
    let beside = full.map(Full::columns).unwrap_or_default();
    columns.splice(4..4, beside.iter().map(|&[title, key, help]| column(title, key, help, 70, false)));
    // Of a change the share of the total says enough: names need the room.
    let has_own_share = weight.full == Full::AnyTime;
    columns.retain(|column| has_own_share || column.key != "self_share");
    let whole = tree.total().max(1) as f64;
    let frames = tree.hottest();
    let mut row_of_name = vec![0; tree.names.len()];
    for (row, frame) in frames.iter().enumerate() {
        row_of_name[frame.name as usize] = row as u32;
    }
    let share = |n: i64| Cell::Share(n as f64 / whole);
    let rows = frames.iter().map(|frame| {
        let name = Cell::frames(&tree.names[frame.name as usize]);
        let full = full.map(|full| full.weights(frame.total, frame.full)).unwrap_or_default();
        let full = full.into_iter().map(weight.cell);
        let total = [(weight.cell)(frame.total)].into_iter().chain(full).chain([share(frame.total)]);
        let own_share = has_own_share.then(|| share(frame.own));
        [name, (weight.cell)(frame.own)].into_iter().chain(own_share).chain(total).collect()
    });
    (Data { columns, rows: rows.collect() }, row_of_name)
}
