//! The color of each block, and the legend.

use std::sync::Arc;

use eframe::egui::Color32;
use hashbrown::HashMap;

use super::work::Index;
use crate::analysis::memory::steps::Steps;
use crate::answers::memory::MemorySteps;
use crate::answers::{Analysis, Work};
use crate::figures::format;
use crate::figures::text::display_name;
use crate::model::MemoryHistory;
use crate::model::memory::AllocationId;
use crate::session::OpenMemory;
use crate::view::memory::stack_colors::{ColorStacks, StackColors, unknown};
use crate::widget::slice_color::oklch;
use crate::widget::theme;

/// What the colors represent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ColorBy {
    #[default]
    Stack,
    Size,
    Lifetime,
    Age,
    Stream,
    Category,
    Step,
}

impl ColorBy {
    /// Every choice, with its label and help.
    pub const ALL: [(Self, &str, &str); 7] = [
        (
            Self::Stack,
            "Call stack",
            "One color for each innermost frame of your own code; where one allocates nearly everything, for each of \
             its callers",
        ),
        (Self::Size, "Size", "From small to large, by powers of two"),
        (Self::Lifetime, "Lifetime", "From short to long, by powers of two"),
        (Self::Age, "Age", "From the newest to the oldest, by how long before the end it was allocated"),
        (Self::Stream, "Stream", "One color for each stream and private pool"),
        (Self::Category, "Category", "What the file says the memory is for"),
        (Self::Step, "Step", "The training step in which it was allocated"),
    ];

    /// Its label.
    pub fn label(self) -> &'static str {
        Self::ALL.iter().find(|choice| choice.0 == self).map_or("", |choice| choice.1)
    }

    /// Whether the history has it.
    pub fn is_known(self, history: &MemoryHistory, index: &Index) -> bool {
        match self {
            Self::Stack => index.has_stacks,
            Self::Category => !history.allocations.category.is_empty(),
            Self::Step => index.steps.is_some(),
            _ => true,
        }
    }
}

/// What the colors of a picture mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Legend {
    /// Too many colors for a list.
    #[default]
    None,
    /// Colors with their names, most bytes first, and how many more there are.
    List(Vec<(Color32, String)>, usize),
    /// Colors from the least to the most.
    Ramp(Vec<Color32>, String, String),
}

/// Gives every allocation its color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColorBlocks {
    /// What the colors represent.
    pub by: ColorBy,
    pub is_dark: bool,
}

/// The color of each allocation.
#[derive(Debug, Default)]
pub struct Colors {
    pub of: ColorBlocks,
    /// By allocation, an index into `palette`.
    pub index: Vec<u8>,
    pub palette: Vec<Color32>,
    pub legend: Legend,
}

/// Colors of a ramp.
const RAMP: usize = 24;
/// Names in a legend.
const MAX_NAMES: usize = 12;

/// Colors that are distinct for the color-blind too; in the order of Okabe and Ito.
fn names_palette(is_dark: bool) -> Vec<Color32> {
    let hues = [
        (245.0, 0.11),
        (75.0, 0.13),
        (165.0, 0.10),
        (40.0, 0.14),
        (350.0, 0.10),
        (105.0, 0.12),
        (220.0, 0.07),
        (300.0, 0.10),
    ];
    let light = if is_dark { [0.68, 0.78] } else { [0.76, 0.86] };
    light.into_iter().flat_map(|light| hues.map(|(hue, chroma)| oklch(light, chroma, hue))).collect()
}

fn ramp(is_dark: bool) -> Vec<Color32> {
    let lightest = if is_dark { 0.88 } else { 0.92 };
    let color = |i: usize| {
        let share = i as f32 / (RAMP - 1) as f32;
        oklch(0.62 + (lightest - 0.62) * share, 0.12, 285.0 - 190.0 * share)
    };
    (0..RAMP).map(color).collect()
}

impl Analysis for ColorBlocks {
    type Of = OpenMemory;
    type Output = Colors;
    const NAME: &'static str = "Coloring the blocks";

    /// Cost: O(allocations + stacks).
    fn run(&self, of: &OpenMemory, work: &Work<'_>) -> Option<Colors> {
        let (trace, history) = (of.trace(), of.history());
        let Self { by, is_dark } = *self;
        let colors = match by {
            ColorBy::Stack => by_stack(history, &*work.get(&of.open.trace, &ColorStacks { is_dark })?),
            ColorBy::Size => {
                let value = |i: usize| history.allocations.bytes[i];
                by_ramp(history.allocations.len(), value, log2, |bytes| format::bytes(bytes as f64), is_dark)
            }
            ColorBy::Lifetime => {
                let value = |i: usize| history.lifetime(AllocationId(i as u32)).unsigned_abs();
                by_ramp(history.allocations.len(), value, log2, |span| span_text(history, span), is_dark)
            }
            // Ages differ by sums, not by factors: a leak shows as an even run of colors.
            ColorBy::Age => {
                let value = |i: usize| age(history, history.allocations.start[i]);
                by_ramp(history.allocations.len(), value, |age| age as f64, |span| span_text(history, span), is_dark)
            }
            ColorBy::Stream => {
                let name = |&pool: &u16| history.pools.get(usize::from(pool)).copied().unwrap_or_default().to_string();
                by_name(history, |i| Some(history.allocations.pool[i].0), name, is_dark)
            }
            ColorBy::Category => {
                let of = |i: usize| {
                    Some(history.allocations.category(AllocationId(i as u32)))
                        .filter(|id| !trace.strings.get(*id).is_empty())
                };
                by_name(history, of, |&id| display_name(trace.strings.get(id)).into_owned(), is_dark)
            }
            ColorBy::Step => by_step(history, (*work.get(of, &MemorySteps)?.steps).as_ref(), is_dark),
        };
        Some(Colors { of: *self, ..colors })
    }
}

fn by_stack(history: &MemoryHistory, colors: &StackColors) -> Colors {
    let index = history.allocations.stack.iter().map(|&stack| colors.index(stack)).collect();
    Colors { index, palette: colors.palette.clone(), ..Colors::default() }
}

/// From a state to the end: ns, or events where the history has no times.
fn age(history: &MemoryHistory, start: u32) -> u64 {
    match history.has_time {
        true => history.time_of(start).abs_diff(history.span.end),
        false => u64::from(history.last_state().saturating_sub(start)),
    }
}

fn span_text(history: &MemoryHistory, span: u64) -> String {
    if history.has_time { format::duration(span as i64) } else { format::of_things(span, "event") }
}

fn log2(x: u64) -> f64 {
    (x.max(1) as f64).log2()
}

fn by_ramp(
    n: usize,
    value: impl Fn(usize) -> u64,
    scale: fn(u64) -> f64,
    text: impl Fn(u64) -> String,
    is_dark: bool,
) -> Colors {
    let palette = ramp(is_dark);
    let (least, most) = (0..n).map(&value).fold((u64::MAX, 0), |(least, most), x| (least.min(x), most.max(x)));
    let (low, high) = (scale(least.min(most)), scale(most));
    let per_step = (RAMP - 1) as f64 / (high - low).max(1e-9);
    let index = (0..n).map(|i| ((scale(value(i)) - low) * per_step).round() as u8).collect();
    let legend = if n == 0 { Legend::None } else { Legend::Ramp(palette.clone(), text(least), text(most)) };
    Colors { index, palette, legend, ..Colors::default() }
}

fn by_name<K: Copy + Eq + std::hash::Hash + Ord>(
    history: &MemoryHistory,
    key: impl Fn(usize) -> Option<K>,
    name: impl Fn(&K) -> String,
    is_dark: bool,
) -> Colors {
    let mut palette = names_palette(is_dark);
    let gray = palette.len() as u8;
    palette.push(unknown(is_dark));
    let mut bytes: HashMap<K, u128> = HashMap::new();
    let mut has_unknown = false;
    for i in 0..history.allocations.len() {
        match key(i) {
            Some(key) => *bytes.entry(key).or_default() += u128::from(history.allocations.bytes[i]),
            None => has_unknown = true,
        }
    }
    let mut order: Vec<(K, u128)> = bytes.into_iter().collect();
    order.sort_unstable_by_key(|&(key, bytes)| (std::cmp::Reverse(bytes), key));
    let color = |rank: usize| (rank.min(gray as usize)) as u8;
    let rank: HashMap<K, u8> = order.iter().enumerate().map(|(rank, entry)| (entry.0, color(rank))).collect();
    let index = (0..history.allocations.len()).map(|i| key(i).and_then(|key| rank.get(&key).copied()).unwrap_or(gray));
    let index = index.collect();
    let names = order.iter().take(MAX_NAMES).enumerate();
    let mut list: Vec<_> = names.map(|(rank, entry)| (palette[color(rank) as usize], name(&entry.0))).collect();
    if has_unknown {
        list.push((palette[gray as usize], "unknown".to_owned()));
    }
    let legend = Legend::List(list, order.len().saturating_sub(MAX_NAMES));
    Colors { index, palette, legend, ..Colors::default() }
}

fn by_step(history: &MemoryHistory, steps: Option<&Steps>, is_dark: bool) -> Colors {
    let mut palette = names_palette(is_dark);
    let n = palette.len();
    palette.push(unknown(is_dark));
    let step_of = |i: usize| {
        // What was there before the recording belongs to no step.
        steps?.step_of(history.allocations.start[i])
    };
    let index = (0..history.allocations.len()).map(|i| step_of(i).map_or(n, |step| step % n) as u8).collect();
    let names = steps.map_or(&[][..], |steps| &steps.names);
    let named = names.iter().take(MAX_NAMES).enumerate();
    let mut list: Vec<_> = named.map(|(i, name)| (palette[i % n], display_name(name).into_owned())).collect();
    list.push((palette[n], "outside of all steps".to_owned()));
    let legend = Legend::List(list, names.len().saturating_sub(MAX_NAMES));
    Colors { index, palette, legend, ..Colors::default() }
}

/// The colors of one picture: those of the blocks, and which are highlighted.
#[derive(Debug)]
pub struct Paint {
    pub colors: Arc<Colors>,
    /// By allocation, whether it is highlighted; empty if none is.
    pub is_marked: Vec<bool>,
}

impl Paint {
    /// * `marked`: allocations to highlight, sorted.
    pub fn new(colors: Arc<Colors>, marked: &[AllocationId]) -> Self {
        let mut is_marked = Vec::new();
        if !marked.is_empty() {
            is_marked = vec![false; colors.index.len()];
            for id in marked {
                if let Some(place) = is_marked.get_mut(id.idx()) {
                    *place = true;
                }
            }
        }
        Self { colors, is_marked }
    }

    /// The color of a block.
    pub fn color(&self, id: u32) -> Color32 {
        let color = self.colors.palette[usize::from(self.colors.index[id as usize])];
        match self.is_marked.get(id as usize) {
            Some(false) => self.dim(color),
            _ => color,
        }
    }

    /// The color of what is not highlighted: gray, close to the background.
    fn dim(&self, color: Color32) -> Color32 {
        let gray = color.intensity() * 255.0;
        let is_dark = self.colors.of.is_dark;
        mix(Color32::from_gray(gray as u8), theme::tokens(is_dark).canvas, if is_dark { 200 } else { 190 })
    }

    /// The line at the upper edge of a block.
    pub fn edge(&self, color: Color32) -> Color32 {
        mix(color, Color32::from_gray(12), 110)
    }

    /// A block that was freed but cannot be used again yet.
    pub fn waiting(&self, color: Color32, is_stripe: bool) -> Color32 {
        mix(color, theme::tokens(self.colors.of.is_dark).canvas, if is_stripe { 160 } else { 90 })
    }
}

/// `share` / 255 of `other`, and the rest of `color`.
fn mix(color: Color32, other: Color32, share: u16) -> Color32 {
    let part = |a: u8, b: u8| ((u16::from(a) * (255 - share) + u16::from(b) * share) / 255) as u8;
    Color32::from_rgb(part(color.r(), other.r()), part(color.g(), other.g()), part(color.b(), other.b()))
}
