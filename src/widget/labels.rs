//! Names cut to fit a width, with cached layout.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;

use eframe::egui::{self, Color32, FontId, Galley, Painter};

use crate::figures::text::{display_name, frame_within, shortened};

/// Labels laid out per frame; the others appear in the next.
const MAX_NEW: usize = 150;
/// Labels kept for later frames.
const MAX_KEPT: usize = 20_000;
const FONT: FontId = FontId::new(11.5, egui::FontFamily::Proportional);
/// Lengths to which names are cut, in characters. Few, so that zooming finds most in the cache; each a fifth longer at
/// most, so that no more than that of the room stays empty beside a name that is cut.
const LENGTHS: [usize; 25] =
    [3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 28, 33, 39, 46, 55, 66, 79, 94, 112, 134, 160, 192, 230];

/// Laid-out names, by key and length in characters.
#[derive(Debug)]
pub struct Labels<K> {
    galleys: HashMap<(K, usize), Arc<Galley>>,
    /// A text laid out in the last frame, to detect a new font atlas.
    atlas_probe: Option<Arc<Galley>>,
    n_new: usize,
}

impl<K> Default for Labels<K> {
    fn default() -> Self {
        Self { galleys: HashMap::new(), atlas_probe: None, n_new: 0 }
    }
}

impl<K: Hash + Eq + Copy> Labels<K> {
    /// Clears the cache, as when the keys identify other names.
    pub fn clear(&mut self) {
        self.galleys.clear();
    }

    /// Call it before the first label of a frame.
    pub fn begin(&mut self, painter: &Painter) {
        // egui caches the layout of a text as long as its font atlas is unchanged. A new layout means a new
        // atlas with other glyph positions: all kept labels are invalid.
        let atlas_probe = painter.layout_no_wrap("lacuna".to_owned(), FONT, Color32::PLACEHOLDER);
        let is_same = self.atlas_probe.as_ref().is_some_and(|known| Arc::ptr_eq(known, &atlas_probe));
        self.atlas_probe = Some(atlas_probe);
        if !is_same || self.galleys.len() > MAX_KEPT {
            self.galleys.clear();
        }
        self.n_new = 0;
    }

    /// Call it after the last label of a frame: requests another frame if labels are missing.
    pub fn end(&self, painter: &Painter) {
        if self.n_new >= MAX_NEW {
            painter.ctx().request_repaint();
        }
    }

    /// The longest cut of a name that is at most `width` points wide.
    ///
    /// * `cut`: returns the name cut to a number of characters.
    pub fn fitting(
        &mut self,
        painter: &Painter,
        key: K,
        width: f32,
        cut: impl Fn(usize) -> String,
    ) -> Option<Arc<Galley>> {
        // Letters are about 6 points wide on average, and those of few names less than 4.
        let mut step = LENGTHS.partition_point(|&length| length as f32 * 4.0 <= width);
        loop {
            step = step.checked_sub(1)?;
            let length = LENGTHS[step];
            let galley = match self.galleys.entry((key, length)) {
                Entry::Occupied(known) => known.into_mut(),
                // A shorter one may be known until the next frame.
                Entry::Vacant(_) if self.n_new >= MAX_NEW => continue,
                Entry::Vacant(entry) => {
                    self.n_new += 1;
                    entry.insert(painter.layout_no_wrap(cut(length), FONT, Color32::PLACEHOLDER))
                }
            };
            let taken = galley.size().x;
            if taken <= width {
                return Some(Arc::clone(galley));
            }
            // What its letters take says about how many fit; a little more is tried, since they differ.
            let n_fitting = galley.text().chars().count() as f32 * width / taken * 1.1;
            step = step.min(LENGTHS.partition_point(|&length| length as f32 <= n_fitting));
        }
    }
}

/// A name cut to `length` characters, including the ellipsis.
///
/// * `gist`: returns the distinctive part of a name that does not fit.
pub fn cut(text: &str, gist: impl Fn(&str) -> &str, length: usize) -> String {
    let full = display_name(text);
    if full.chars().nth(length).is_none() {
        return full.into_owned();
    }
    let name = gist(&full);
    if name.chars().nth(length).is_none() {
        return name.to_owned();
    }
    name.chars().take(length - 1).chain(['…']).collect()
}

/// The function of a signature with its template arguments, of a Python function as Kineto names it, or of a frame, cut
/// so that different ones stay different.
pub fn cut_function(text: &str, length: usize) -> String {
    fn of_python(name: &str) -> Option<&str> {
        Some(name.split_once(".py(")?.1.split_once("): ")?.1)
    }
    match of_python(text) {
        Some(_) => cut(text, |name| of_python(name).unwrap_or(name), length),
        None if text.contains('<') => shortened(text, length),
        None => frame_within(&display_name(text), length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_fits_its_box_is_whole_and_a_longer_one_fills_it() {
        let output = egui::Context::default().run_ui(egui::RawInput::default(), |ui| {
            let mut labels = Labels::<usize>::default();
            let painter = ui.painter();
            labels.begin(painter);
            let width = |text: &str| painter.layout_no_wrap(text.to_owned(), FONT, Color32::PLACEHOLDER).size().x;
            for (key, name) in ["illegal_filter_till_fill", "vectorized_elementwise_kernel_of_a_MaxPool2d", "gemm"]
                .into_iter()
                .enumerate()
            {
                let mut shown = |room: f32| labels.fitting(painter, key, room, |length| cut(name, |name| name, length));
                assert_eq!(shown(width(name) + 1.0).unwrap().text(), name);
                let room = width(name) - 1.0;
                let part = shown(room).unwrap();
                assert!(part.size().x <= room && part.size().x > 0.6 * room, "{} in {room}", part.text());
            }
        });
        output.drop_without_applying_deltas();
    }

    #[test]
    fn names_are_cut_to_length() {
        assert_eq!(cut("gemm", |name| name, 4), "gemm");
        assert_eq!(cut_function("gemms", 4), "gem…");
        assert_eq!(cut("größer", |name| name, 3), "gr…");
        let kernel =
            |functor: &str| cut_function(&format!("void at::native::elementwise_kernel<128, 4, {functor}>(int)"), 24);
        assert_ne!(kernel("FillFunctor<float>"), kernel("MulFunctor<float>"));
        assert_eq!(cut_function("torch/nn/modules/module.py(12): _call_impl", 20), "_call_impl");
        assert_eq!(cut_function("forward (model.py:12)", 8), "forward");
        assert_eq!(cut_function("Queue.get (/usr/lib/python3.13/queue.py:154)", 6), "…get");
        assert!(LENGTHS.is_sorted());
    }
}
