//! The color of memory by its call stack: the same in every picture of memory.

use std::sync::Arc;

use eframe::egui::Color32;

use crate::analysis::memory::by_place::Place;
use crate::answers::memory::NamedPlaces;
use crate::answers::{Analysis, Work};
use crate::model::{StackId, StringId, Trace, hash_bytes};
use crate::widget::slice_color::oklch;

/// Number of hues.
const HUES: usize = 60;

/// The color of memory without the wanted property: gray.
pub fn unknown(is_dark: bool) -> Color32 {
    oklch(if is_dark { 0.62 } else { 0.78 }, 0.0, 0.0)
}

/// A color for each stack of a trace.
#[derive(Clone, Debug)]
pub struct StackColors {
    /// By stack, an index into `palette`.
    pub of_stack: Vec<u8>,
    pub palette: Vec<Color32>,
}

impl StackColors {
    /// One color for each place; gray for memory without a stack.
    ///
    /// * `places`: that of each stack.
    fn new(trace: &Trace, places: &[Place], is_dark: bool) -> Self {
        let hue = |i: usize| {
            // Neighboring hues differ in lightness, so that they are distinct without color too.
            let light = if is_dark { 0.64 } else { 0.74 } + (i % 3) as f32 * 0.045;
            oklch(light, 0.10, i as f32 * 360.0 / HUES as f32)
        };
        let palette = (0..HUES).map(hue).chain([unknown(is_dark)]).collect();
        let hash = |id: StringId| hash_bytes(trace.strings.get(id).as_bytes());
        let index = |hash: u64| ((hash >> 16) % HUES as u64) as u8;
        let of_stack = places.iter().map(|&place| match place {
            Place::Frame(frame) => index(hash(frame)),
            Place::Called(frame, other) | Place::Calls(frame, other) => index(hash(frame) ^ hash(other).rotate_left(1)),
            _ => HUES as u8,
        });
        Self { of_stack: of_stack.collect(), palette }
    }

    /// Index of a stack's color in the palette; gray for a stack of another trace.
    pub fn index(&self, stack: StackId) -> u8 {
        self.of_stack.get(stack.0 as usize).copied().unwrap_or(HUES as u8)
    }

    /// The color of a stack.
    pub fn color(&self, stack: StackId) -> Color32 {
        self.palette[usize::from(self.index(stack))]
    }
}

/// The [`StackColors`] of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColorStacks {
    pub is_dark: bool,
}

impl Analysis for ColorStacks {
    type Of = Arc<Trace>;
    type Output = StackColors;
    const NAME: &'static str = "Coloring the call stacks";

    fn run(&self, of: &Arc<Trace>, work: &Work<'_>) -> Option<StackColors> {
        Some(StackColors::new(of, &work.get(of, &NamedPlaces)?.of_stack, self.is_dark))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::answers::Answers;
    use crate::model::TraceBuilder;
    use crate::model::memory::{MemoryAction, MemoryEvent, RawMemory};

    #[test]
    fn callers_of_a_frame_that_allocates_everything_have_colors_of_their_own() {
        let mut builder = TraceBuilder::default();
        let mut raw = RawMemory::default();
        let pool = raw.pool(Default::default());
        for (i, caller) in ["weights (a.py:5)", "cache (a.py:7)", "mask (a.py:9)"].into_iter().enumerate() {
            let [caller, allocate] = [caller, "allocate (b.py:1)"].map(|frame| builder.strings.intern(frame));
            let outer = builder.stacks.intern(StackId::default(), caller);
            let stack = builder.stacks.intern(outer, allocate);
            let (ts, addr) = (i as i64, (i as u64) << 20);
            raw.events.push(MemoryEvent { ts, action: MemoryAction::Alloc, addr, bytes: 512, pool, stack });
        }
        builder.memories.push(raw);
        let trace = Arc::new(builder.finish());
        let colors = Answers::default().get(&trace, &ColorStacks { is_dark: true }).unwrap();
        let stacks = &trace.memories[0].allocations.stack;
        assert_eq!(stacks.iter().map(|&stack| colors.color(stack)).collect::<HashSet<_>>().len(), 3);
    }
}
