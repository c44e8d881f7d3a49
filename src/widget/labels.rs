//! Names on narrow places: cut to their width, laid out once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;

use eframe::egui::{self, Color32, FontId, Galley, Painter};

use crate::figures::text::{display_name, function_name};

/// Labels laid out anew on one frame; the others appear on the next.
const MAX_NEW: usize = 150;
/// Labels kept for later frames.
const MAX_KEPT: usize = 20_000;
const FONT: FontId = FontId::new(11.5, egui::FontFamily::Proportional);
/// Lengths to which names are cut, in characters. Few, so that zooming finds most in the cache.
const LENGTHS: [usize; 14] = [3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 90, 140, 256];

/// Names laid out once, by what they name and how many characters are left of them.
#[derive(Debug)]
pub struct Labels<K> {
    galleys: HashMap<(K, usize), Arc<Galley>>,
    /// A text laid out on the last frame.
    atlas_probe: Option<Arc<Galley>>,
    n_new: usize,
}

impl<K> Default for Labels<K> {
    fn default() -> Self {
        Self { galleys: HashMap::new(), atlas_probe: None, n_new: 0 }
    }
}

impl<K: Hash + Eq + Copy> Labels<K> {
    /// Forgets all, as when the keys come to mean other names.
    pub fn clear(&mut self) {
        self.galleys.clear();
    }

    /// Call it before the first label of a frame.
    pub fn begin(&mut self, painter: &Painter) {
        // egui lays the same text out once for as long as its font atlas lives. When it does so
        // anew, letters lie elsewhere in the atlas, and all kept labels are wrong.
        let atlas_probe = painter.layout_no_wrap("lacuna".to_owned(), FONT, Color32::PLACEHOLDER);
        let is_same = self.atlas_probe.as_ref().is_some_and(|known| Arc::ptr_eq(known, &atlas_probe));
        self.atlas_probe = Some(atlas_probe);
        if !is_same || self.galleys.len() > MAX_KEPT {
            self.galleys.clear();
        }
        self.n_new = 0;
    }

    /// Call it after the last label of a frame: asks for another one if some are still to come.
    pub fn end(&self, painter: &Painter) {
        if self.n_new >= MAX_NEW {
            painter.ctx().request_repaint();
        }
    }

    /// The longest cut of a name that is at most `width` points wide.
    ///
    /// * `cut`: the name, cut to so many characters.
    pub fn fitting(
        &mut self,
        painter: &Painter,
        key: K,
        width: f32,
        cut: impl Fn(usize) -> String,
    ) -> Option<Arc<Galley>> {
        // No letter of a name is narrower than about 3 points; most are 6.
        let mut step = LENGTHS.partition_point(|&length| length as f32 * 5.2 <= width);
        loop {
            step = step.checked_sub(1)?;
            let length = LENGTHS[step];
            let galley = match self.galleys.entry((key, length)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(_) if self.n_new >= MAX_NEW => return None,
                Entry::Vacant(entry) => {
                    self.n_new += 1;
                    entry.insert(painter.layout_no_wrap(cut(length), FONT, Color32::PLACEHOLDER))
                }
            };
            if galley.size().x <= width {
                return Some(Arc::clone(galley));
            }
        }
    }
}

/// A name cut to `length` characters, the mark of the cut included.
///
/// * `gist`: the part of a name that does not fit which tells it from others.
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

/// The same of a function's signature.
pub fn cut_function(text: &str, length: usize) -> String {
    cut(text, function_name, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_to_length() {
        assert_eq!(cut("gemm", |name| name, 4), "gemm");
        assert_eq!(cut_function("gemms", 4), "gem…");
        assert_eq!(cut("größer", |name| name, 3), "gr…");
        assert_eq!(cut_function("void at::native::elementwise_kernel<128, 4>(int)", 20), "elementwise_kernel");
        assert!(LENGTHS.is_sorted());
    }
}
