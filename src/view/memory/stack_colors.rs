//! The color of memory by its call stack: the same in every picture of memory.

use std::sync::Arc;

use eframe::egui::Color32;

use crate::answers::memory::StackLabels;
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
    /// One color for each frame that names stacks; gray for memory without a stack.
    ///
    /// * `labels`: for each stack the frame that names it.
    pub fn new(trace: &Trace, labels: &[StringId], is_dark: bool) -> Self {
        let hue = |i: usize| {
            // Neighboring hues differ in lightness, so that they are distinct without color too.
            let light = if is_dark { 0.64 } else { 0.74 } + (i % 3) as f32 * 0.045;
            oklch(light, 0.10, i as f32 * 360.0 / HUES as f32)
        };
        let palette = (0..HUES).map(hue).chain([unknown(is_dark)]).collect();
        let of_stack = labels.iter().map(|&label| match trace.strings.get(label) {
            "" => HUES as u8,
            frame => ((hash_bytes(frame.as_bytes()) >> 16) % HUES as u64) as u8,
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
        Some(StackColors::new(of, &work.get(of, &StackLabels)?, self.is_dark))
    }
}
