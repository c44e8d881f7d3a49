//! PyTorch's memory history of a training run: a snapshot whose leaks are known.
//!
//! The program runs twice: once to learn the state at the end, which a snapshot begins with, and once
//! to write what led to it.

mod allocator;
mod code;
mod document;
mod expected;
mod pickle;
#[cfg(test)]
mod tests;
mod training;

use std::io::{self, Write};

use super::answer::{Answer, LostHistory, MemoryAnswer, OutOfMemoryAnswer, PlantedMemory};
use allocator::{Entry, Pool};
use document::Document;
use expected::Expected;
use training::{MemoryOutcome, MemoryPlan, simulate};

/// What an H100 leaves to PyTorch, in bytes.
const DEVICE: u64 = 79 << 30;

/// What is wrong with the program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// Nothing
    None,
    /// Two stacks leak some bytes each step; one of them frees most of what it allocates
    SteadyLeak,
    /// The peak within the step rises, the level between steps does not
    Ratchet,
    /// A cache that grows in the first third, then no more
    WarmUpCache,
    /// Masks of the first steps are kept
    Setup,
    /// Small blocks hold segments that the next, longer request does not fit in
    Fragmentation,
    /// A device so small that the last request fails
    Oom,
    /// The buffer of entries is too small to hold the beginning
    HistoryLost,
}

/// What to generate.
#[derive(Clone, Debug)]
pub struct Shape {
    pub steps: u32,
    pub seed: u64,
    pub layers: u32,
    /// Of pickle, 0 to 5.
    pub protocol: u8,
    pub has_times: bool,
    /// Entries that the recorder keeps; without a number all, or half of them if history is lost.
    pub max_entries: Option<u64>,
    pub is_expandable: bool,
    pub plants: Vec<Plant>,
}

/// Writes a snapshot into any sink, and returns what it holds.
///
/// Memory grows with what is live at the end, and by 24 bytes a mark of the profiler.
/// Errors: the sink's; plants that contradict each other.
pub fn write(shape: &Shape, sink: &mut dyn Write) -> io::Result<Answer> {
    let has = |plant| shape.plants.contains(&plant);
    if shape.is_expandable && has(Plant::Fragmentation) {
        let sentence = "Expandable segments do not fragment: leave one of --expandable and fragmentation out";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
    }
    if shape.plants.len() > 1 && has(Plant::None) {
        let sentence = "Nothing is planted with none: leave it or the other plants out";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
    }
    let plan = MemoryPlan {
        steps: shape.steps,
        seed: shape.seed,
        layers: shape.layers,
        plants: &shape.plants,
        is_expandable: shape.is_expandable,
        capacity: DEVICE,
    };
    let plan = MemoryPlan { capacity: capacity(plan)?, ..plan };
    let end = simulate(plan, &mut |_| Ok(()))?;
    let half = has(Plant::HistoryLost).then_some(end.entries / 2);
    let kept = shape.max_entries.or(half).unwrap_or(u64::MAX).min(end.entries);
    let lost = end.entries - kept;
    let mut expected = Expected::new(&end.allocator, lost);
    let mut document = Document::begin(sink, shape.protocol, shape.has_times, &end.allocator, kept)?;
    let mut at = 0;
    simulate(plan, &mut |entry: &Entry| {
        expected.follow(entry);
        at += 1;
        if at > lost { document.entry(entry) } else { Ok(()) }
    })?;
    document.finish(shape.is_expandable, &end.marks)?;
    let memory = MemoryAnswer {
        entries: kept,
        device_bytes: plan.capacity,
        lost: (lost > 0).then_some(LostHistory { entries: lost, freed_from_before: expected.freed_from_before }),
        end: expected.end(&end.allocator),
        peak_allocated: expected.peak_allocated,
        peak_active: expected.peak_active,
        oom: out_of_memory(&end, lost),
        planted: training::planted(plan, &end),
    };
    Ok(Answer::new("snapshot", shape.seed, shape.steps, Vec::new()).with_memory(memory))
}

/// What the device can give: little enough for the run to end in want of memory, where that is planted.
fn capacity(plan: MemoryPlan<'_>) -> io::Result<u64> {
    if !plan.plants.contains(&Plant::Oom) {
        return Ok(plan.capacity);
    }
    let plants: Vec<_> = plan.plants.iter().copied().filter(|&plant| plant != Plant::Oom).collect();
    let unhurt = simulate(MemoryPlan { plants: &plants, ..plan }, &mut |_| Ok(()))?;
    let bytes = match plants.contains(&Plant::Fragmentation) {
        true => unhurt.reserved[2].max(unhurt.reserved[0]),
        false => unhurt.most_reserved + (256 << 20),
    };
    Ok(bytes.min(plan.capacity))
}

fn out_of_memory(end: &MemoryOutcome, lost: u64) -> Option<OutOfMemoryAnswer> {
    let (entry, oom, stack) = end.oom?;
    let pool = Pool { stream: 0, is_small: false };
    let (inactive, largest_inactive) = end.allocator.inactive(pool);
    let is_fragmented = inactive >= oom.requested && largest_inactive < oom.requested;
    Some(OutOfMemoryAnswer {
        entry: entry.checked_sub(lost)?,
        requested: oom.requested,
        device_free: oom.device_free,
        inactive,
        largest_inactive,
        cause: if is_fragmented { "fragmentation" } else { "demand" },
        frame: code::own_frame(stack).map(frame_answer),
    })
}

fn frame_answer(frame: &code::Frame) -> super::answer::FrameAnswer {
    super::answer::FrameAnswer { name: frame.name, file: frame.file, line: frame.line }
}
